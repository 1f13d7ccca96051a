/* SPDX-License-Identifier: Apache-2.0 */
/* test_cancel.c - scancel: what ids and filters name, whose they are, what each is answered. */
#include <check.h>
#include <string.h>

#include "base/str.h"
#include "desk.h"

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\nPartitionName=q Nodes=ALL\n";

static int cancel(struct desk *d, const char *wish, Wire__DoneReply *reply)
{
    Wire__CancelRequest r = WIRE__CANCEL_REQUEST__INIT;
    char *at = arena_copy(&d->r.arena, wish), *word;
    static char *ids[16], *users[4], *names[4], *parts[4], *states[4], *nodes[4];

    wire__done_reply__init(reply);
    r.ids = ids;
    r.users = users;
    r.names = names;
    r.partitions = parts;
    r.states = states;
    r.nodes = nodes;
    while ((word = word_next(&at, " "))) {
        char *value = strchr(word, '=');

        if (!value) {
            ids[r.n_ids++] = word;
            continue;
        }
        *value++ = '\0';
        if (strcmp(word, "u") == 0) users[r.n_users++] = value;
        if (strcmp(word, "name") == 0) names[r.n_names++] = value;
        if (strcmp(word, "p") == 0) parts[r.n_partitions++] = value;
        if (strcmp(word, "t") == 0) states[r.n_states++] = value;
        if (strcmp(word, "w") == 0) nodes[r.n_nodes++] = value;
        if (strcmp(word, "s") == 0) {
            r.has_signal = true;
            number_u32(value, &r.signal);
        }
        if (strcmp(word, "b") == 0)
            r.has_batch_only = r.batch_only = true;
    }
    d->out = (struct admitted){ 0 };
    d->err = (struct spur_error){ 0 };
    return admit_cancel(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, reply, &d->err);
}

/* Jobs: 1 alice running, 2 bob pending (held), 3 alice pending "name=x part=q", 4 alice array 0-9%2 (two run), 5 alice ended. */
static void stage(struct desk *d)
{
    desk_init(d, conf);
    ck_assert_int_eq(desk_submit(d, "tasks=1"), 1);
    desk_as(d, BOB);
    ck_assert_int_eq(desk_submit(d, "tasks=1 hold"), 2);
    desk_as(d, ALICE);
    ck_assert_int_eq(desk_submit(d, "tasks=1 hold name=x part=q"), 3);
    ck_assert_int_eq(desk_submit(d, "tasks=1 array=0-9%2"), 4);
    ck_assert_int_eq(desk_submit(d, "tasks=1"), 5);
    rig_pass(&d->r);
    rig_end(&d->r, 5, 0);
}

static const struct { uint32_t uid; const char *wish, *ops; int code; } rows[] = {
    { ALICE, "1", "1", 0 }, { ALICE, "2", "", SPUR_EDENIED }, { 0, "2", "2", 0 }, { SLURM, "2", "2", 0 }, { BOB, "1", "", SPUR_EDENIED }, { ALICE, "5", "", SPUR_ESTALE },
    { ALICE, "77", "", SPUR_ENOTFOUND }, { ALICE, "x", "", SPUR_EINVAL }, { ALICE, "4", "4", 0 }, { ALICE, "4_3", "4:3", 0 }, { ALICE, "4_0", "4:0", 0 }, { ALICE, "4_[1-4]", "4:2-4 4:1", 0 },
    { ALICE, "4_77", "", SPUR_ESTALE }, { ALICE, "u=alice", "1 3 4:2-9 4:0 4:1", 0 }, { ALICE, "u=bob", "", 0 }, { 0, "u=bob", "2", 0 }, { ALICE, "name=x", "3", 0 }, { ALICE, "p=q", "3", 0 },
    { ALICE, "t=PENDING", "3 4:2-9", 0 }, { ALICE, "t=RUNNING", "1 4:0 4:1", 0 }, { ALICE, "t=PD 4", "4:2-9", 0 }, { ALICE, "t=PD 1", "", 0 }, { ALICE, "w=n2", "4:0", 0 }, { ALICE, "w=n1", "1 4:1", 0 },
    { ALICE, "s=10 1", "1s10", 0 }, { ALICE, "s=9 1", "1", 0 }, { ALICE, "s=9 b=1 1", "1s9", 0 }, { ALICE, "b=1 1", "1s9", 0 }, { ALICE, "s=10 3", "", SPUR_ESTALE }, { ALICE, "s=12 4", "4:0s12 4:1s12", 0 }, { ALICE, "s=10 u=alice", "1s10 4:0s10 4:1s10", 0 },
    { ALICE, "1.batch", "1s15 end", 0 }, { ALICE, "s=9 1.batch", "1s9", 0 }, { ALICE, "s=15 1.batch", "1s15", 0 }, { ALICE, "1.0", "", SPUR_ESTALE },
};

START_TEST(table)
{
    Wire__DoneReply reply;
    struct desk d;
    struct str text;

    stage(&d);
    desk_as(&d, rows[_i].uid);
    ck_assert_msg(cancel(&d, rows[_i].wish, &reply) == 0, "%s: %s", rows[_i].wish, d.err.text);
    str_init(&text);
    for (size_t i = 0; i < d.out.op_count; i++) {
        const Wire__OpCancel *o = d.out.ops[i]->cancel;

        str_addf(&text, "%s%u", i ? " " : "", o->job_id);
        if (o->tasks && *o->tasks)
            str_addf(&text, ":%s", o->tasks);
        if (o->signal_only)
            str_addf(&text, "s%u", o->signal);
        if (o->end_step)
            str_add(&text, " end");
        ck_assert_uint_eq(d.out.ops[i]->actor_uid, rows[_i].uid);
    }
    ck_assert_msg(strcmp(text.text, rows[_i].ops) == 0, "%s: %s, not %s", rows[_i].wish, text.text, rows[_i].ops);
    if (rows[_i].code) {
        ck_assert_uint_eq(reply.n_results, 1);
        ck_assert_int_eq(reply.results[0]->code, rows[_i].code);
        ck_assert_ptr_nonnull(reply.results[0]->text);
    }
    ck_assert_int_eq(desk_apply(&d), 0);
    str_fini(&text);
    desk_fini(&d);
}
END_TEST

START_TEST(one_bad_id_does_not_keep_the_rest)
{
    Wire__DoneReply reply;
    struct desk d;

    stage(&d);
    ck_assert_int_eq(cancel(&d, "1 2 77 5 3", &reply), 0);
    ck_assert_uint_eq(d.out.op_count, 2);
    ck_assert_uint_eq(reply.n_results, 5);
    ck_assert_int_eq(reply.results[0]->code, 0);
    ck_assert_int_eq(reply.results[1]->code, SPUR_EDENIED);
    ck_assert_int_eq(reply.results[2]->code, SPUR_ENOTFOUND);
    ck_assert_int_eq(reply.results[3]->code, SPUR_ESTALE);
    ck_assert_int_eq(reply.results[4]->code, 0);
    ck_assert_int_lt(cancel(&d, "", &reply), 0);
    desk_fini(&d);
}
END_TEST

/* Between the question and the log job 1 has ended, and one task of array 4. */
START_TEST(what_the_log_refuses_is_said_of_its_id_alone)
{
    struct op_result results[8] = { { 0 } };
    Wire__DoneReply reply;
    struct desk d;

    stage(&d);
    ck_assert_int_eq(cancel(&d, "1 77 3 4_0 4_1", &reply), 0);
    ck_assert_uint_eq(d.out.op_count, 4);
    results[0] = (struct op_result){ .code = SPUR_ESTALE, .text = (char *)(uintptr_t)"job 1 has ended already" };
    results[2] = (struct op_result){ .code = SPUR_ESTALE, .text = (char *)(uintptr_t)"job 4 has ended already" };
    admit_cancelled(&d.out, results, 4, &reply, &d.r.arena);
    ck_assert_uint_eq(reply.n_results, 5);
    ck_assert_int_eq(reply.results[0]->code, SPUR_ESTALE);
    ck_assert_str_eq(reply.results[0]->text, "job 1 has ended already");
    ck_assert_int_eq(reply.results[1]->code, SPUR_ENOTFOUND);
    ck_assert_int_eq(reply.results[2]->code, 0);
    ck_assert_int_eq(reply.results[3]->code, SPUR_ESTALE);
    ck_assert_int_eq(reply.results[4]->code, 0);
    /* several operations of one id: it has failed when none of them did anything */
    ck_assert_int_eq(cancel(&d, "4 s=10", &reply), 0);
    ck_assert_uint_ge(d.out.op_count, 2);
    admit_cancelled(&d.out, results, d.out.op_count, &reply, &d.r.arena);
    ck_assert_int_eq(reply.results[0]->code, 0);
    /* filters alone: one that has ended meanwhile is not meant any more, another refusal is told */
    ck_assert_int_eq(cancel(&d, "u=1000", &reply), 0);
    ck_assert_uint_ge(d.out.op_count, 2);
    results[1] = (struct op_result){ .code = SPUR_EINVAL, .text = (char *)(uintptr_t)"no" };
    admit_cancelled(&d.out, results, 2, &reply, &d.r.arena);
    ck_assert_uint_eq(reply.n_results, 1);
    ck_assert_int_eq(reply.results[0]->code, SPUR_EINVAL);
    desk_fini(&d);
}
END_TEST

START_TEST(private_jobs_do_not_exist_for_others)
{
    Wire__DoneReply reply;
    struct desk d;
    char text[512];

    snprintf(text, sizeof text, "PrivateData=jobs\n%s", conf);
    desk_init(&d, text);
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), 1);
    desk_as(&d, BOB);
    ck_assert_int_eq(cancel(&d, "1", &reply), 0);
    ck_assert_int_eq(reply.results[0]->code, SPUR_ENOTFOUND);
    ck_assert(!admit_sees_job(d.r.s, state_job(d.r.s, 1), &d.who, RANK_USER));
    desk_as(&d, ALICE);
    ck_assert(admit_sees_job(d.r.s, state_job(d.r.s, 1), &d.who, RANK_USER));
    ck_assert(admit_owns_job(state_job(d.r.s, 1), &d.who, RANK_USER));
    desk_as(&d, 0);
    ck_assert(admit_sees_job(d.r.s, state_job(d.r.s, 1), &d.who, RANK_ADMIN));
    desk_fini(&d);
}
END_TEST

Suite *cancel_suite(void);
Suite *cancel_suite(void)
{
    Suite *s = suite_create("admit/cancel");
    TCase *t = tcase_create("cancel");

    tcase_add_loop_test(t, table, 0, sizeof rows / sizeof rows[0]);
    tcase_add_test(t, one_bad_id_does_not_keep_the_rest);
    tcase_add_test(t, what_the_log_refuses_is_said_of_its_id_alone);
    tcase_add_test(t, private_jobs_do_not_exist_for_others);
    suite_add_tcase(s, t);
    return s;
}
