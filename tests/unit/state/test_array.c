/* SPDX-License-Identifier: Apache-2.0 */
/* test_array.c - arrays: how they are written, split, limited, cancelled, shown and forgotten. */
#include "test_state.h"

static char *tasks_shown(const struct stage *g, uint32_t id)
{
    static char text[200];
    struct arena a;
    Wire__JobInfo *m;

    arena_init(&a, 0);
    m = job_info(g->s, state_job(g->s, id), 0, g->s->wall_ms / 1000, &a);
    snprintf(text, sizeof text, "%s", m->array_tasks ? m->array_tasks : "-");
    arena_fini(&a);
    return text;
}

START_TEST(written)
{
    static const struct { const char *text; uint32_t max; const char *want; uint32_t limit; } rows[] = {
        { "0-3", 1001, "0-3", 0 }, { "1,3,5-7", 1001, "1,3,5-7", 0 }, { "0-99:2%5", 1001, "0-98:2", 5 }, { "0-15%4", 1001, "0-15", 4 }, { "1-10%0", 1001, "1-10", 0 },
        { "5", 1001, "5", 0 }, { "0-1000", 1001, "0-1000", 0 }, { "0-1001", 1001, NULL, 0 }, { "", 1001, NULL, 0 }, { "3-1", 1001, NULL, 0 }, { "1-4%x", 1001, NULL, 0 },
        { "1-4%", 1001, NULL, 0 }, { "a", 1001, NULL, 0 }, { "1-", 1001, NULL, 0 }, { "0-4:0", 1001, NULL, 0 }, { "-1", 1001, NULL, 0 } };
    const struct spur_error none = { 0 };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spur_error err = none;
        struct bitmap b;
        struct str out;
        uint32_t limit;
        int rc = array_parse(rows[i].text, rows[i].max, &b, &limit, &err);

        ck_assert_msg((rc == 0) == (rows[i].want != NULL), "%s gives %d %s", rows[i].text, rc, err.text);
        if (rc < 0) {
            ck_assert(*err.text);
            continue;
        }
        str_init(&out);
        bitmap_print_steps(&b, &out);
        ck_assert_str_eq(out.text, rows[i].want);
        ck_assert_uint_eq(limit, rows[i].limit);
        str_fini(&out);
        bitmap_fini(&b);
    }
}
END_TEST

START_TEST(ids)
{
    static const struct { const char *text; uint32_t id; const char *tasks; } rows[] = {
        { "12", 12, "" }, { "12_3", 12, "3" }, { "12_[1-4,7]", 12, "1-4,7" }, { "12_[1-9:2%3]", 12, "1,3,5,7,9" }, { "12_*", 12, "" }, { "0", 0, NULL }, { "12_", 0, NULL },
        { "12_x", 0, NULL }, { "", 0, NULL }, { "-1", 0, NULL }, { "12_[", 0, NULL }, { "12_99999999", 0, NULL }, { "4294967296", 0, NULL }, { "12 ", 0, NULL } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spur_error err;
        struct bitmap b = { 0 };
        struct str out;
        uint32_t id = 0;
        bool has = false;
        int rc = job_id_parse(rows[i].text, &id, &b, &has, &err);

        ck_assert_msg((rc == 0) == (rows[i].tasks != NULL), "%s", rows[i].text);
        if (rc < 0)
            continue;
        ck_assert_uint_eq(id, rows[i].id);
        str_init(&out);
        if (has) {
            bitmap_print(&b, &out);
            bitmap_fini(&b);
        }
        ck_assert_str_eq(out.text, rows[i].tasks);
        str_fini(&out);
    }
}
END_TEST

/* Each task that starts gets a fresh id; the last one takes the array's own. */
START_TEST(last_takes_own_id)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(do_simple(&g, "a", "0-2%2", NULL), 1);
    ck_assert_str_eq(tasks_shown(&g, 1), "0-2%2");
    ck_assert_uint_eq(table_count(&g.s->jobs), 1);
    ck_assert_int_eq(do_start(&g, 1, 0, "n1", "0"), 2);
    ck_assert_str_eq(tasks_shown(&g, 1), "1-2%2");
    ck_assert_ptr_eq(state_array_task(g.s, 1, 0), state_job(g.s, 2));
    ck_assert_ptr_null(state_array_task(g.s, 1, 1));
    ck_assert_ptr_eq(state_array_record(g.s, 1, 1), state_job(g.s, 1));
    ck_assert_int_eq(do_start(&g, 1, 0, "n1", "1"), SPUR_ESTALE);      /* not waiting any more */
    ck_assert_int_eq(do_start(&g, 1, 1, "n1", "1"), 3);
    ck_assert_uint_eq(array_next_task(g.s, state_job(g.s, 1)), UINT32_MAX);
    ck_assert_int_eq(do_start(&g, 1, 2, "n1", "2"), SPUR_ESTALE);      /* %2 */
    stage_check(&g);
    do_report(&g, 2, WIRE__REPORT__KIND__ENDED, "n1", 1, 0);
    do_report(&g, 2, WIRE__REPORT__KIND__GONE, "n1", 1, 0);
    ck_assert_uint_eq(array_next_task(g.s, state_job(g.s, 1)), 2);
    ck_assert_int_eq(do_start(&g, 1, 2, "n1", "2"), 1);
    ck_assert_uint_eq(state_job(g.s, 1)->array_task_id, 2);
    ck_assert_str_eq(tasks_shown(&g, 1), "-");
    ck_assert_uint_eq(table_count(&g.s->jobs), 3);
    stage_check(&g);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

START_TEST(cancelled_in_parts)
{
    struct stage g;
    struct job *set;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(do_simple(&g, "a", "0-999", NULL), 1);
    ck_assert_int_eq(do_cancel(&g, 1, "100-199"), 0);
    ck_assert_uint_eq(table_count(&g.s->jobs), 2);      /* one record for a hundred tasks */
    set = state_array_record(g.s, 1, 150);
    ck_assert_int_eq(set->state, JOB_CANCELLED);
    ck_assert_str_eq(tasks_shown(&g, set->job_id), "100-199");
    ck_assert_str_eq(tasks_shown(&g, 1), "0-99,200-999");
    ck_assert_int_eq(do_cancel(&g, 1, "150"), SPUR_ESTALE);
    ck_assert_int_eq(do_cancel(&g, 1, "5000"), SPUR_ENOTFOUND);
    ck_assert_int_eq(do_start(&g, 1, 150, "n1", "0"), SPUR_ESTALE);
    ck_assert_int_gt(do_start(&g, 1, 5, "n1", "0"), 0);
    ck_assert_int_eq(do_cancel(&g, 1, NULL), 0);        /* the rest, and the running one */
    ck_assert_uint_eq(g.s->pending_jobs, 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_KILL), 1);
    ck_assert_int_eq(do_cancel(&g, 1, NULL), 0);        /* tells the completing one's node again */
    stage_check(&g);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

START_TEST(changed_in_parts)
{
    struct stage g;
    struct job *set;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(do_simple(&g, "a", "0-9", NULL), 1);
    ck_assert_int_eq(do_update(&g, 1, "3-4", WIRE__JOB_UPDATE_REQUEST__VERB__HOLD, NULL, NULL, false), 0);
    set = state_array_record(g.s, 1, 3);
    ck_assert(set->held_by_user && set->job_id != 1 && set == state_array_record(g.s, 1, 4));
    ck_assert(!state_job(g.s, 1)->held_by_user);
    ck_assert_int_eq(do_start(&g, set->job_id, 3, "n1", "0"), SPUR_ESTALE);
    ck_assert_int_eq(do_update(&g, 1, "3", WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE, NULL, NULL, false), 0);
    ck_assert(state_array_record(g.s, 1, 3) != state_array_record(g.s, 1, 4));
    ck_assert_int_gt(do_start(&g, state_array_record(g.s, 1, 3)->job_id, 3, "n1", "0"), 0);
    ck_assert_int_eq(do_update(&g, 1, NULL, WIRE__JOB_UPDATE_REQUEST__VERB__SET, "ArrayTaskThrottle", "1", false), 0);
    ck_assert_int_eq(do_start(&g, 1, 0, "n1", "1"), SPUR_ESTALE);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(forgotten_last)
{
    struct stage g;
    Wire__OpPurge purge = WIRE__OP_PURGE__INIT;
    Wire__Op op = WIRE__OP__INIT;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(do_simple(&g, "a", "0-1", NULL), 1);
    do_run(&g, 1, 0, 0);
    do_run(&g, 1, 1, 256);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_FAILED);
    stage_wait(&g, 1);
    purge.before_cluster_ms = g.s->cluster_ms;
    op.purge = &purge;
    stage_op(&g, &op);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_PURGED), 2);
    ck_assert_uint_eq(table_count(&g.s->jobs), 0);
    ck_assert_uint_eq(g.s->priv->task_total, 0);
    stage_close(&g);
}
END_TEST

START_TEST(id_wraps_over_the_living)
{
    struct stage g;

    stage_open(&g, "config FirstJobId=10; config MaxJobId=14; node n1 cpus 8");
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(do_simple(&g, "a", NULL, NULL), 10 + i);
    ck_assert_int_eq(do_simple(&g, "a", NULL, NULL), SPUR_ELIMIT);
    do_cancel(&g, 12, NULL);
    {
        Wire__OpPurge purge = WIRE__OP_PURGE__INIT;
        Wire__Op op = WIRE__OP__INIT;

        purge.before_cluster_ms = g.s->cluster_ms + 1;
        op.purge = &purge;
        stage_op(&g, &op);
    }
    ck_assert_int_eq(do_simple(&g, "a", NULL, NULL), 12);
    stage_close(&g);
}
END_TEST

Suite *array_suite(void)
{
    Suite *s = suite_create("array");
    TCase *c = tcase_create("arrays");

    tcase_add_test(c, written);
    tcase_add_test(c, ids);
    tcase_add_test(c, last_takes_own_id);
    tcase_add_test(c, cancelled_in_parts);
    tcase_add_test(c, changed_in_parts);
    tcase_add_test(c, forgotten_last);
    tcase_add_test(c, id_wraps_over_the_living);
    suite_add_tcase(s, c);
    return s;
}
