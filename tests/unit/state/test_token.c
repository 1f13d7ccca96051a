/* SPDX-License-Identifier: Apache-2.0 */
/* test_token.c - exactly once: the same request again, in the same entry, after a restart, and when it is too old to tell. */
#include "test_state.h"

static int submit_with(struct stage *g, const uint8_t token[16], int64_t born_ms)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__OpSubmit submit = WIRE__OP_SUBMIT__INIT;
    Wire__Op op = WIRE__OP__INIT;
    int rc;

    spec.name = (char *)"t";
    submit.spec = &spec;
    op.submit = &submit;
    op.has_token = op.has_token_wall_ms = 1;
    op.token = (ProtobufCBinaryData){ 16, (uint8_t *)token };
    op.token_wall_ms = born_ms;
    rc = stage_op(g, &op);
    return rc < 0 ? rc : (int)g->last.results[0].job_id;
}

START_TEST(again)
{
    uint8_t a[16] = "token a........", b[16] = "token b........";
    struct stage g;
    struct op_result answer;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(submit_with(&g, a, g.s->wall_ms), 1);
    ck_assert(!g.last.results[0].repeated);
    ck_assert_int_eq(submit_with(&g, a, g.s->wall_ms), 1);
    ck_assert(g.last.results[0].repeated);
    ck_assert_int_eq(submit_with(&g, b, g.s->wall_ms), 2);
    ck_assert_uint_eq(table_count(&g.s->jobs), 2);
    ck_assert_int_eq(state_token(g.s, a, g.s->wall_ms, &answer), 1);
    ck_assert_uint_eq(answer.job_id, 1);
    g.twin = stage_copy(&g);
    ck_assert_int_eq(submit_with(&g, b, g.s->wall_ms), 2);
    a[0] = 'x';
    ck_assert_int_eq(submit_with(&g, a, g.s->wall_ms + 7200000), SPUR_EINVAL);     /* two hours ahead */
    stage_close(&g);
}
END_TEST

START_TEST(twice_in_one_entry)
{
    uint8_t token[16] = "token c........";
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__OpSubmit submit = WIRE__OP_SUBMIT__INIT;
    Wire__Op op = WIRE__OP__INIT, *ops[2] = { &op, &op };
    Wire__Entry entry = WIRE__ENTRY__INIT;
    struct stage g;

    stage_open(&g, "node n1 cpus 8");
    submit.spec = &spec;
    op.submit = &submit;
    op.has_token = op.has_token_wall_ms = 1;
    op.token = (ProtobufCBinaryData){ 16, token };
    op.token_wall_ms = g.s->wall_ms;
    entry.ops = ops;
    entry.n_ops = 2;
    apply(g.s, 9, &entry, &g.arena, &g.last);
    ck_assert_uint_eq(table_count(&g.s->jobs), 1);
    ck_assert_uint_eq(g.last.results[1].job_id, g.last.results[0].job_id);
    ck_assert(g.last.results[1].repeated);
    stage_close(&g);
}
END_TEST

/* One request of several ops: each is done, once. */
START_TEST(request_of_many_ops)
{
    uint8_t token[16] = "token d........";
    Wire__OpCancel cancel[3];
    Wire__Op op[3], *ops[3];
    Wire__Entry entry = WIRE__ENTRY__INIT;
    struct stage g;

    stage_open(&g, "node n1 cpus 8; job 1 pending; job 2 pending; job 3 pending");
    for (int i = 0; i < 3; i++) {
        wire__op_cancel__init(&cancel[i]);
        wire__op__init(&op[i]);
        cancel[i].job_id = (uint32_t)i + 1;
        op[i].cancel = &cancel[i];
        op[i].has_token = op[i].has_token_wall_ms = 1;
        op[i].token = (ProtobufCBinaryData){ 16, token };
        op[i].token_wall_ms = g.s->wall_ms;
        ops[i] = &op[i];
    }
    entry.ops = ops;
    entry.n_ops = 3;
    apply(g.s, 9, &entry, &g.arena, &g.last);
    ck_assert_uint_eq(g.s->pending_jobs, 0);
    arena_reset(&g.arena);
    apply(g.s, 10, &entry, &g.arena, &g.last);
    for (int i = 0; i < 3; i++)
        ck_assert(g.last.results[i].repeated && g.last.results[i].code == 0);
    stage_close(&g);
}
END_TEST

START_TEST(too_old)
{
    uint8_t token[16] = "token e........";
    struct stage g;
    int64_t born;

    stage_open(&g, "node n1 cpus 8");
    born = g.s->wall_ms;
    ck_assert_int_eq(submit_with(&g, token, born), 1);
    stage_wait(&g, 24 * 3600 - 10);
    ck_assert_int_eq(submit_with(&g, token, born), 1);
    stage_wait(&g, 20);
    ck_assert_int_eq(submit_with(&g, token, born), SPUR_ESTALE);
    ck_assert_uint_eq(table_count(&g.s->jobs), 1);
    token[0] = 'f';
    ck_assert_int_eq(submit_with(&g, token, g.s->wall_ms), 2);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

static void entry_at(struct stage *g, int64_t cluster_ms, int64_t wall_ms)
{
    Wire__Entry e = WIRE__ENTRY__INIT;

    arena_reset(&g->arena);
    e.cluster_ms = cluster_ms;
    e.wall_ms = wall_ms;
    apply(g->s, g->s->index + 1, &e, &g->arena, &g->last);
}

/* A leader whose wall clock jumps, there and back: no job's limit moves, no time of the state goes back, and new requests are taken in between and after, while
 * a resend of an old one is answered or refused, and never done again. */
START_TEST(a_clock_that_jumps)
{
    static const int64_t jumps_s[] = { 86400 * 10, -86400 * 10, 600, -600, 1200, -1200 };
    Wire__OpTimeLimit limit = WIRE__OP_TIME_LIMIT__INIT;
    uint8_t token[16] = "token j........", first[16] = "token j........";
    Wire__Op op = WIRE__OP__INIT;
    struct stage g;
    int64_t cluster, wall, born, due;
    int id;

    stage_open(&g, "node n1 cpus 8; job 1 running n1 cores 0 time 60");
    op.time_limit = &limit;
    limit.job_id = 1;
    born = wall = g.s->wall_ms;
    cluster = g.s->cluster_ms;
    due = state_job_limit_ms(g.s, state_job(g.s, 1));
    id = submit_with(&g, first, born);
    ck_assert_int_gt(id, 1);
    for (size_t i = 0; i < sizeof jumps_s / sizeof *jumps_s; i++) {
        int64_t before_wall = g.s->wall_ms, before_cluster = g.s->cluster_ms;
        int rc;

        cluster += 1000;
        wall += 1000 + jumps_s[i] * 1000;
        entry_at(&g, cluster, wall);
        ck_assert(g.s->wall_ms >= before_wall && g.s->wall_ms >= wall && g.s->cluster_ms == before_cluster + 1000);
        ck_assert_int_eq(state_job_limit_ms(g.s, state_job(g.s, 1)), due);
        ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);            /* nobody's time is up */
        token[7]++;
        ck_assert_int_gt(submit_with(&g, token, wall), id);
        rc = submit_with(&g, first, born);
        ck_assert(rc == id || rc == SPUR_ESTALE);
    }
    entry_at(&g, cluster - 5000, wall - 5000);                      /* nor by a leader that is behind the last one */
    ck_assert_int_eq(g.s->cluster_ms, cluster);
    cluster = due;
    entry_at(&g, cluster, wall + 1000);
    ck_assert_int_eq(stage_op(&g, &op), 0);
    stage_close(&g);
}
END_TEST

/* Tokens that share the half they are filed under; dropping one must not hide the others. */
START_TEST(crowded)
{
    struct stage g;
    uint8_t token[16] = { 0 };
    int64_t born;

    stage_open(&g, "config MaxJobCount=100000; node n1 cpus 8");
    born = g.s->wall_ms;
    for (int i = 0; i < 40; i++) {
        token[0] = (uint8_t)(i & 1 ? i : 0);
        token[8] = (uint8_t)i;
        token[9] = 1;
        ck_assert_int_eq(submit_with(&g, token, born), i + 1);
        stage_wait(&g, 60);
    }
    stage_wait(&g, 24 * 3600 - 20 * 60);
    for (int i = 39; i >= 0; i--) {
        int rc;

        token[0] = (uint8_t)(i & 1 ? i : 0);
        token[8] = (uint8_t)i;
        rc = submit_with(&g, token, born);
        ck_assert_msg(rc == i + 1 || (i < 21 && rc == SPUR_ESTALE), "token %d gives %d", i, rc);
    }
    stage_close(&g);
}
END_TEST

Suite *token_suite(void)
{
    Suite *s = suite_create("token");
    TCase *c = tcase_create("tokens");

    tcase_add_test(c, again);
    tcase_add_test(c, twice_in_one_entry);
    tcase_add_test(c, request_of_many_ops);
    tcase_add_test(c, too_old);
    tcase_add_test(c, a_clock_that_jumps);
    tcase_add_test(c, crowded);
    suite_add_tcase(s, c);
    return s;
}
