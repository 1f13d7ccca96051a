/* SPDX-License-Identifier: Apache-2.0 */
/* test_dependency.c - how dependencies are written and shown, refused, and a few that are worth a name. Random ones stand in test_random.c. */
#include "test_state.h"

static char *shown(const struct stage *g, uint32_t id)
{
    static char text[300];
    struct str out;

    str_init(&out);
    dependency_print(g->s, state_job(g->s, id), &out);
    snprintf(text, sizeof text, "%s", out.text);
    str_fini(&out);
    return text;
}

static const char *why(const struct stage *g, uint32_t id)
{
    enum job_reason reason;

    job_eligible(g->s, state_job(g->s, id), g->s->wall_ms / 1000, &reason, NULL);
    return job_reason_name(reason);
}

START_TEST(written)
{
    static const struct { const char *text; int count; bool any; } rows[] = {
        { "afterok:12", 1, false }, { "afterany:12:13?singleton", 3, true }, { "AFTEROK:1,afternotok:2", 2, false }, { "after:7+5", 1, false }, { "aftercorr:3", 1, false },
        { "singleton", 1, false }, { "afterok:12_3", 1, false }, { "afterok:12_*", 1, false }, { "", 0, false }, { "afterok", -1, false }, { "afterok:", -1, false },
        { "afterok:x", -1, false }, { "afterok:0", -1, false }, { "sometime:1", -1, false }, { "singleton:3", -1, false }, { "afterok:1,afterany:2?singleton", -1, false },
        { "afterok:1+5", -1, false }, { "after:1+", -1, false }, { "afterok:1_x", -1, false }, { "afterok:99999999999", -1, false } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spur_error err = { 0 };
        struct dep_term *terms = NULL;
        uint32_t count = 0;
        bool any = false;
        int rc = dependency_parse(rows[i].text, &terms, &count, &any, &err);

        ck_assert_msg((rc == 0) == (rows[i].count >= 0), "%s: %s", rows[i].text, err.text);
        if (rc == 0) {
            ck_assert_int_eq((int)count, rows[i].count);
            ck_assert_int_eq(any, rows[i].any);
        } else {
            ck_assert(*err.text);
        }
        dep_terms_free(terms, count);
    }
}
END_TEST

START_TEST(shown_as_scontrol_does)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8; job 1 pending; job 2 pending array 0-3");
    ck_assert_int_eq(do_simple(&g, "x", NULL, "afterok:1,afterany:2"), 3);
    ck_assert_str_eq(shown(&g, 3), "afterok:1(unfulfilled),afterany:2_*(unfulfilled)");
    ck_assert_int_eq(do_simple(&g, "x", NULL, "afterany:1:2?singleton"), 4);
    ck_assert_str_eq(shown(&g, 4), "afterany:1(unfulfilled)?afterany:2_*(unfulfilled)?singleton(unfulfilled)");
    ck_assert_int_eq(do_simple(&g, "x", NULL, "after:1+5"), 5);
    ck_assert_str_eq(shown(&g, 5), "after:1+5(unfulfilled)");
    do_run(&g, 1, UINT32_MAX, 0);
    ck_assert_str_eq(shown(&g, 3), "afterany:2_*(unfulfilled)");
    ck_assert_str_eq(shown(&g, 4), "");
    ck_assert_str_eq(why(&g, 5), "Dependency");
    stage_wait(&g, 299);
    ck_assert_str_eq(why(&g, 5), "Dependency");
    stage_wait(&g, 2);
    ck_assert_str_eq(why(&g, 5), "None");
    ck_assert_int_eq(do_start(&g, 5, UINT32_MAX, "n1", "0"), 5);
    stage_close(&g);
}
END_TEST

START_TEST(failed_for_ever)
{
    struct stage g;
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__OpCancel cancel = WIRE__OP_CANCEL__INIT;
    Wire__Op op = WIRE__OP__INIT;

    stage_open(&g, "node n1 cpus 8; job 1 pending");
    ck_assert_int_eq(do_simple(&g, "keeps", NULL, "afterok:1"), 2);
    spec.name = (char *)"killed";
    spec.dependency = (char *)"afterok:1";
    spec.has_kill_on_invalid_dep = spec.kill_on_invalid_dep = 1;
    ck_assert_int_eq(do_submit(&g, &spec, 1000), 3);
    ck_assert_int_eq(do_simple(&g, "chain", NULL, "afterany:3"), 4);
    ck_assert_int_eq(do_simple(&g, "hopes", NULL, "afterok:3"), 5);
    do_run(&g, 1, UINT32_MAX, 256);
    ck_assert_str_eq(why(&g, 2), "DependencyNeverSatisfied");
    ck_assert_str_eq(shown(&g, 2), "afterok:1(failed)");
    ck_assert_int_eq(state_job(g.s, 3)->state, JOB_CANCELLED);
    ck_assert_int_eq(state_job(g.s, 3)->reason, REASON_DependencyNeverSatisfied);
    ck_assert_str_eq(why(&g, 4), "None");
    ck_assert_str_eq(why(&g, 5), "DependencyNeverSatisfied");
    cancel.job_id = 4;
    cancel.has_never_satisfied = cancel.never_satisfied = 1;
    op.cancel = &cancel;
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    cancel.job_id = 5;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_int_eq(state_job(g.s, 5)->state, JOB_CANCELLED);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(refused)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8; job 1 pending; job 2 pending array 0-3");
    ck_assert_int_eq(do_simple(&g, "x", NULL, "afterok:99999999"), SPUR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(g.last.results[0].text, "never submitted"));
    ck_assert_int_eq(g.last.results[0].slurm_errno, ESLURM_DEPENDENCY);
    ck_assert_int_eq(do_simple(&g, "x", NULL, "afterok:2_9"), SPUR_ENOTFOUND);
    ck_assert_int_eq(do_simple(&g, "x", NULL, "afterok:1_0"), SPUR_ENOTFOUND);
    ck_assert_int_eq(do_simple(&g, "y", NULL, "afterok:1"), 3);
    ck_assert_int_eq(do_update(&g, 1, NULL, 0, "Dependency", "afterok:3", true), SPUR_EINVAL);
    ck_assert_int_eq(do_update(&g, 1, NULL, 0, "Dependency", "afterok:1", true), SPUR_EINVAL);
    ck_assert_int_eq(do_update(&g, 3, NULL, 0, "Dependency", "", true), 0);
    ck_assert_str_eq(why(&g, 3), "None");
    stage_close(&g);
}
END_TEST

/* A forgotten parent: what asked only for its end is content; who needs its outcome is told. */
START_TEST(forgotten_parent)
{
    struct stage g;
    Wire__OpPurge purge = WIRE__OP_PURGE__INIT;
    Wire__Op op = WIRE__OP__INIT;

    stage_open(&g, "node n1 cpus 8; job 1 pending");
    ck_assert_int_eq(do_simple(&g, "waits", NULL, "afterok:1"), 2);
    do_run(&g, 1, UINT32_MAX, 0);
    purge.before_cluster_ms = g.s->cluster_ms + 1;
    op.purge = &purge;
    stage_op(&g, &op);
    ck_assert_ptr_null(state_job(g.s, 1));
    ck_assert_str_eq(why(&g, 2), "None");
    ck_assert_int_eq(do_simple(&g, "x", NULL, "afterany:1"), 3);
    ck_assert_str_eq(why(&g, 3), "None");
    ck_assert_int_eq(do_simple(&g, "x", NULL, "afterok:1"), SPUR_ENOTFOUND);
    stage_close(&g);
}
END_TEST

START_TEST(corresponding_tasks)
{
    struct stage g;
    struct job *child;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(do_simple(&g, "p", "0-2", NULL), 1);
    ck_assert_int_eq(do_simple(&g, "c", "0-3", "aftercorr:1"), 2);
    ck_assert_str_eq(why(&g, 2), "Dependency");
    do_run(&g, 1, 1, 0);
    child = state_job(g.s, 2);
    ck_assert_str_eq(why(&g, 2), "None");
    ck_assert_uint_eq(array_next_task(g.s, child), 1);
    ck_assert_int_eq(do_start(&g, 2, 0, "n1", "0"), SPUR_ESTALE);
    ck_assert_int_gt(do_start(&g, 2, 1, "n1", "0"), 0);
    ck_assert_str_eq(why(&g, 2), "Dependency");
    do_run(&g, 1, 0, 256);
    do_run(&g, 1, 2, 0);
    ck_assert_uint_eq(array_next_task(g.s, child), 2);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

START_TEST(singleton_turns)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(do_simple(&g, "turn", NULL, "singleton"), 1);
    ck_assert_int_eq(do_simple(&g, "turn", NULL, "singleton"), 2);
    ck_assert_int_eq(do_simple(&g, "other", NULL, "singleton"), 3);
    ck_assert_str_eq(why(&g, 1), "None");
    ck_assert_str_eq(why(&g, 2), "Dependency");
    ck_assert_str_eq(why(&g, 3), "None");
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);
    do_report(&g, 1, WIRE__REPORT__KIND__ENDED, "n1", 1, 0);
    ck_assert_str_eq(why(&g, 2), "Dependency");     /* its nodes are not empty yet */
    do_report(&g, 1, WIRE__REPORT__KIND__GONE, "n1", 1, 0);
    ck_assert_str_eq(why(&g, 2), "None");
    stage_close(&g);
}
END_TEST

START_TEST(long_chain)
{
    struct stage g;
    char text[40];
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;

    stage_open(&g, "config MaxJobCount=200000; node n1 cpus 8; job 1 pending");
    spec.name = (char *)"link";
    spec.dependency = text;
    spec.has_kill_on_invalid_dep = spec.kill_on_invalid_dep = 1;
    for (int i = 1; i < 20000; i++) {
        snprintf(text, sizeof text, "afterok:%d", i);
        ck_assert_int_eq(do_submit(&g, &spec, 1000), i + 1);
    }
    ck_assert_int_eq(do_cancel(&g, 1, NULL), 0);
    ck_assert_uint_eq(g.s->pending_jobs, 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_ENDED), 20000);
    stage_close(&g);
}
END_TEST

Suite *dependency_suite(void)
{
    Suite *s = suite_create("dependency");
    TCase *c = tcase_create("dependencies");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, written);
    tcase_add_test(c, shown_as_scontrol_does);
    tcase_add_test(c, failed_for_ever);
    tcase_add_test(c, refused);
    tcase_add_test(c, forgotten_parent);
    tcase_add_test(c, corresponding_tasks);
    tcase_add_test(c, singleton_turns);
    tcase_add_test(c, long_chain);
    suite_add_tcase(s, c);
    return s;
}
