/* SPDX-License-Identifier: Apache-2.0 */
/* test_life.c - a job's way through its states. */
#include "test_state.h"

enum { STARTED = WIRE__REPORT__KIND__STARTED, ENDED = WIRE__REPORT__KIND__ENDED, GONE = WIRE__REPORT__KIND__GONE, FAILED = WIRE__REPORT__KIND__LAUNCH_FAILED };
enum { SET = WIRE__JOB_UPDATE_REQUEST__VERB__SET, HOLD = WIRE__JOB_UPDATE_REQUEST__VERB__HOLD, RELEASE = WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE,
       REQUEUE = WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE };

START_TEST(runs_to_its_end)
{
    struct stage g;
    struct job *j;
    int id;

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8");
    id = do_simple(&g, "a", NULL, NULL);
    ck_assert_int_eq(id, 1);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_SUBMITTED), 1);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0-1"), 1);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_STARTED), 1);
    stage_check(&g);
    j = state_job(g.s, 1);
    ck_assert_uint_eq(j->attempt, 1);
    ck_assert_int_eq(job_phase(j), PHASE_LAUNCHING);
    ck_assert_str_eq(j->nodes, "n1");
    do_report(&g, 1, STARTED, "n1", 1, 0);
    ck_assert_int_eq(job_phase(j), PHASE_RUNNING);
    do_report(&g, 1, ENDED, "n1", 1, 0);
    ck_assert_int_eq(j->state, JOB_COMPLETE);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_ENDED), 1);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_KILL), 1);
    ck_assert_uint_eq(g.s->nodes[0].cpus_used, 2);
    ck_assert_uint_eq(g.s->nodes[0].completing, 1);
    stage_check(&g);
    do_report(&g, 1, GONE, "n1", 1, 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_GONE), 1);
    ck_assert_uint_eq(g.s->nodes[0].cpus_used, 0);
    ck_assert_uint_eq(g.s->nodes[0].completing, 0);
    stage_check(&g);
    do_report(&g, 1, GONE, "n1", 1, 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_GONE), 0);
    ck_assert_uint_eq(stage_events(&g, EV_REPORT_TAKEN), 1);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

START_TEST(cancel_while_allocated_wins)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8 gpus 8; job 7 pending");
    ck_assert_int_eq(do_cancel(&g, 7, NULL), 0);
    ck_assert_int_eq(do_start(&g, 7, UINT32_MAX, "n1", "0"), SPUR_ESTALE);
    ck_assert_int_eq(state_job(g.s, 7)->state, JOB_CANCELLED);
    ck_assert_int_eq(do_cancel(&g, 7, NULL), SPUR_ESTALE);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(requeue_and_node_lost)
{
    struct stage g;
    struct job *j;
    Wire__OpNodeLost lost = WIRE__OP_NODE_LOST__INIT;
    Wire__Op op = WIRE__OP__INIT;

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8; job 1 running n1 cores 0-3; job 2 running n1 cores 4");
    j = state_job(g.s, 1);
    j->requeue = false;
    do_report(&g, 1, STARTED, "n1", 1, 0);
    lost.node = (char *)"n1";
    op.node_lost = &lost;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_int_eq(j->state, JOB_NODE_FAIL);
    ck_assert_int_eq(state_job(g.s, 2)->state, JOB_PENDING);
    ck_assert_uint_eq(state_job(g.s, 2)->restarts, 1);
    ck_assert_uint_eq(g.s->nodes[0].jobs, 0);
    stage_check(&g);
    ck_assert_int_eq(do_start(&g, 2, UINT32_MAX, "n2", "0"), SPUR_ESTALE);     /* the delay of a requeue */
    stage_wait(&g, 10);
    ck_assert_int_eq(do_start(&g, 2, UINT32_MAX, "n1", "0"), SPUR_ESTALE);
    ck_assert_int_eq(do_start(&g, 2, UINT32_MAX, "n2", "0"), 2);
    ck_assert_int_eq(do_update(&g, 2, NULL, REQUEUE, NULL, NULL, false), 0);
    j = state_job(g.s, 2);
    ck_assert_str_eq(job_state_name(j->state, j->flags, false), "COMPLETING");
    do_report(&g, 2, GONE, "n2", 2, 0);
    ck_assert_int_eq(j->state, JOB_PENDING);
    ck_assert_uint_eq(j->restarts, 2);
    stage_check(&g);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

Suite *life_suite(void)
{
    Suite *s = suite_create("life");
    TCase *c = tcase_create("way of a job");

    tcase_add_test(c, runs_to_its_end);
    tcase_add_test(c, cancel_while_allocated_wins);
    tcase_add_test(c, requeue_and_node_lost);
    suite_add_tcase(s, c);
    return s;
}
