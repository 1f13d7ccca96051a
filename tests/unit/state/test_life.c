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

START_TEST(time_runs_out)
{
    struct stage g;
    Wire__OpTimeLimit limit = WIRE__OP_TIME_LIMIT__INIT;
    Wire__Op op = WIRE__OP__INIT;

    stage_open(&g, "config OverTimeLimit=1; node n1 cpus 8; job 1 running n1 cores 0 time 2; job 2 running n1 cores 1");
    limit.job_id = 1;
    op.time_limit = &limit;
    stage_wait(&g, 179);
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    g.s->wall_ms += 3600 * 1000;        /* a clock that is set does not shorten a job */
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    stage_wait(&g, 1);
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_TIMEOUT);
    ck_assert_int_eq(state_job(g.s, 1)->reason, REASON_TimeLimit);
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    do_report(&g, 1, ENDED, "n1", 1, 15);
    ck_assert_int_eq(state_job(g.s, 1)->exit_status, 15);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_TIMEOUT);
    stage_close(&g);
}
END_TEST

START_TEST(ends_in_words)
{
    struct stage g;
    Wire__Report report = WIRE__REPORT__INIT;
    Wire__OpReport o = WIRE__OP_REPORT__INIT;
    Wire__Op op = WIRE__OP__INIT;
    const struct job *j;

    stage_open(&g, "node n1 cpus 8; job 1 running n1 cores 0; job 2 running n1 cores 1; job 3 running n1 cores 2; job 4 running n1 cores 3");
    report.node = (char *)"n1";
    report.attempt = 1;
    o.report = &report;
    op.report = &o;
    report.job_id = 1;
    report.kind = WIRE__REPORT__KIND__LAUNCH_FAILED;
    report.text = (char *)"cannot open /no/such/out: No such file or directory";
    stage_op(&g, &op);
    j = state_job(g.s, 1);
    ck_assert_int_eq(j->state, JOB_FAILED);
    ck_assert_str_eq(job_reason_name(j->reason), "JobLaunchFailure");
    ck_assert_str_eq(j->reason_text, report.text);
    report.job_id = 2;
    report.kind = WIRE__REPORT__KIND__ENDED;
    report.has_oom = report.oom = 1;
    report.has_status = 1;
    report.status = 9;
    stage_op(&g, &op);
    ck_assert_int_eq(state_job(g.s, 2)->state, JOB_OOM);
    ck_assert_int_eq(state_job(g.s, 2)->exit_status, 125);
    ck_assert_str_eq(job_reason_name(state_job(g.s, 2)->reason), "OutOfMemory");
    do_report(&g, 3, ENDED, "n1", 1, 9);
    ck_assert_str_eq(job_reason_name(state_job(g.s, 3)->reason), "RaisedSignal");
    do_report(&g, 4, ENDED, "n1", 1, 3 << 8);
    ck_assert_str_eq(job_reason_name(state_job(g.s, 4)->reason), "NonZeroExitCode");
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(deadline_is_checked)
{
    struct stage g;
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__OpCancel cancel = WIRE__OP_CANCEL__INIT;
    Wire__Op op = WIRE__OP__INIT;

    stage_open(&g, "node n1 cpus 8");
    spec.has_deadline_wall_s = 1;
    spec.deadline_wall_s = g.s->wall_ms / 1000 + 60;
    ck_assert_int_eq(do_submit(&g, &spec, 1000), 1);
    cancel.job_id = 1;
    cancel.has_ended_by_deadline = cancel.ended_by_deadline = 1;
    op.cancel = &cancel;
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    stage_wait(&g, 60);
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_DEADLINE);
    stage_close(&g);
}
END_TEST

/* A job that loses its node too often is held for somebody to look at it. */
START_TEST(requeued_too_often)
{
    struct stage g;
    Wire__OpNodeLost lost = WIRE__OP_NODE_LOST__INIT;
    Wire__Op op = WIRE__OP__INIT;
    enum job_reason why;

    stage_open(&g, "config MaxBatchRequeue=2; node n1 cpus 8; job 1 pending");
    lost.node = (char *)"n1";
    op.node_lost = &lost;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);
        ck_assert_int_eq(stage_op(&g, &op), 0);
        ck_assert_int_eq(state_job(g.s, 1)->state, JOB_PENDING);
        do_register(&g, "n1", 16000, 8, "b", NULL);
        stage_wait(&g, 5);
    }
    ck_assert(!job_eligible(g.s, state_job(g.s, 1), g.s->wall_ms / 1000, &why, NULL));
    ck_assert_str_eq(job_reason_name(why), "JobHoldMaxRequeue");
    ck_assert_int_eq(do_update(&g, 1, NULL, RELEASE, NULL, NULL, true), 0);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);
    stage_close(&g);
}
END_TEST

START_TEST(exit_codes_that_requeue)
{
    struct stage g;

    stage_open(&g, "config RequeueExit=3,10-12; config RequeueExitHold=4; node n1 cpus 8; job 1 running n1 cores 0; job 2 running n1 cores 1; job 3 running n1 cores 2");
    state_job(g.s, 3)->requeue = false;
    do_report(&g, 1, ENDED, "n1", 1, 11 << 8);
    do_report(&g, 1, GONE, "n1", 1, 0);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_PENDING);
    ck_assert(!state_job(g.s, 1)->held_by_user);
    do_report(&g, 2, ENDED, "n1", 1, 4 << 8);
    do_report(&g, 2, GONE, "n1", 1, 0);
    ck_assert(state_job(g.s, 2)->state == JOB_PENDING && state_job(g.s, 2)->held_by_user);
    do_report(&g, 3, ENDED, "n1", 1, 3 << 8);
    ck_assert_int_eq(state_job(g.s, 3)->state, JOB_FAILED);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(holds)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8; job 1 pending; job 2 running n1 cores 0");
    ck_assert_int_eq(do_update(&g, 1, NULL, HOLD, NULL, NULL, true), 0);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "1"), SPUR_ESTALE);
    ck_assert_int_eq(do_update(&g, 1, NULL, RELEASE, NULL, NULL, false), SPUR_EDENIED);
    ck_assert_int_eq(do_update(&g, 1, NULL, RELEASE, NULL, NULL, true), 0);
    ck_assert_int_eq(do_update(&g, 2, NULL, HOLD, NULL, NULL, true), SPUR_EINVAL);
    ck_assert_int_eq(do_update(&g, 2, NULL, WIRE__JOB_UPDATE_REQUEST__VERB__TOP, NULL, NULL, true), SPUR_EUNSUPPORTED);
    ck_assert_int_eq(do_update(&g, 2, NULL, WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE_HOLD, NULL, NULL, false), 0);
    do_report(&g, 2, GONE, "n1", 1, 0);
    ck_assert(state_job(g.s, 2)->held_by_user && state_job(g.s, 2)->state == JOB_PENDING);
    ck_assert_int_eq(do_update(&g, 1, NULL, REQUEUE, NULL, NULL, false), SPUR_EINVAL);
    ck_assert_int_eq(do_cancel(&g, 1, NULL), 0);
    ck_assert_int_eq(do_update(&g, 1, NULL, REQUEUE, NULL, NULL, false), SPUR_EINVAL);
    stage_close(&g);
}
END_TEST

START_TEST(every_keyword)
{
    static const struct { const char *key, *value, *running; int code; } rows[] = {
        { "TimeLimit", "90", "ok", 0 }, { "TimeLimit", "+30", "ok", 0 }, { "TimeLimit+", "30", "ok", 0 }, { "TimeLimit", "-20", "ok", 0 }, { "TimeLimit", "soon", "ok", SPUR_ESYNTAX },
        { "TimeLimit", "UNLIMITED", "ok", 0 }, { "Priority", "77", "", 0 }, { "Priority", "x", "", SPUR_EINVAL }, { "Nice", "-5", "", 0 }, { "Nice", "", "", 0 },
        { "Nice", "99999999999", "", SPUR_EINVAL }, { "Partition", "main", "", 0 }, { "Partition", "none", "", SPUR_ENOTFOUND }, { "NumNodes", "2-4", "", 0 }, { "NumNodes", "2", "", 0 },
        { "NumNodes", "4-2", "", SPUR_EINVAL }, { "Dependency", "singleton", "", 0 }, { "Dependency", "", "", 0 }, { "Comment", "hello", "ok", 0 }, { "Name", "new", "ok", 0 },
        { "JobName", "newer", "ok", 0 }, { "Features", "a&b", "", 0 }, { "ReqNodeList", "n1", "", 0 }, { "ReqNodeList", "n9", "", SPUR_ENOTFOUND }, { "ReqNodeList", "", "", 0 },
        { "ExcNodeList", "n1", "", 0 }, { "StartTime", "1800000000", "", 0 }, { "StartTime", "now", "", SPUR_EINVAL }, { "Requeue", "0", "ok", 0 }, { "Account", "acct", "", 0 },
        { "QOS", "high", "", 0 }, { "ArrayTaskThrottle", "5", "ok", SPUR_EINVAL }, { "MinMemoryNode", "4G", "", 0 }, { "MinMemoryCPU", "500", "", 0 }, { "Gres", "gpu:2", "", 0 },
        { "Gres", "gpu:x:y", "", SPUR_ESYNTAX }, { "NumTasks", "4", "", 0 }, { "CPUsPerTask", "2", "", 0 }, { "MinCPUsNode", "2", "", 0 }, { "OverSubscribe", "yes", "", 0 },
        { "Contiguous", "yes", "", 0 }, { "Contiguous", "perhaps", "", SPUR_EINVAL }, { "Deadline", "1900000000", "", 0 }, { "WorkDir", "/tmp", "", 0 }, { "StdOut", "/tmp/o", "", 0 },
        { "Switches", "1@60", "", 0 }, { "MailUser", "me", "ok", 0 }, { "ReservationName", "r", "", 0 }, { "TasksPerNode", "3", "", 0 }, { "Colour", "red", "", SPUR_EUNSUPPORTED } };
    struct stage g;

    stage_open(&g, "node n1 cpus 8; job 1 pending time 60; job 2 running n1 cores 0 time 60");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int rc = do_update(&g, 1, NULL, SET, rows[i].key, rows[i].value, true);

        ck_assert_msg(rc == rows[i].code, "%s=%s gives %d %s", rows[i].key, rows[i].value, rc, g.last.results[0].text ? g.last.results[0].text : "");
        ck_assert(rc == 0 || *g.last.results[0].text);
        if (rows[i].code)
            continue;
        rc = do_update(&g, 2, NULL, SET, rows[i].key, rows[i].value, true);
        ck_assert_msg((rc == 0) == (*rows[i].running != 0), "%s of a running job gives %d", rows[i].key, rc);
    }
    ck_assert_str_eq(state_job(g.s, 1)->name, "newer");
    ck_assert_int_eq(state_job(g.s, 1)->nice, 100);
    ck_assert_uint_eq(state_job(g.s, 1)->priority, 77);
    ck_assert_uint_eq(state_job(g.s, 1)->min_nodes, 2);
    ck_assert_uint_eq(state_job(g.s, 1)->time_limit_min, UINT32_MAX);
    stage_check(&g);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

/* One bad keyword among several: nothing is changed. */
START_TEST(all_or_nothing)
{
    Wire__KeyValue kv[3] = { WIRE__KEY_VALUE__INIT, WIRE__KEY_VALUE__INIT, WIRE__KEY_VALUE__INIT }, *set[] = { &kv[0], &kv[1], &kv[2] };
    Wire__OpUpdate update = WIRE__OP_UPDATE__INIT;
    Wire__Op op = WIRE__OP__INIT;
    struct stage g;
    uint8_t before[32], after[32];

    stage_open(&g, "node n1 cpus 8; job 1 pending time 60");
    kv[0].key = (char *)"Priority";
    kv[0].value = (char *)"9";
    kv[1].key = (char *)"Dependency";
    kv[1].value = (char *)"singleton";
    kv[2].key = (char *)"NumNodes";
    kv[2].value = (char *)"many";
    update.job_id = 1;
    update.set = set;
    update.n_set = 3;
    op.update = &update;
    g.s->index++;
    g.s->fence = 1;
    state_digest(g.s, before);
    g.s->index--;
    ck_assert_int_eq(stage_op(&g, &op), SPUR_EINVAL);
    state_digest(g.s, after);
    ck_assert_mem_eq(before, after, 32);
    stage_close(&g);
}
END_TEST

START_TEST(blobs_go_with_the_last_job)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__OpPurge purge = WIRE__OP_PURGE__INIT;
    Wire__Op op = WIRE__OP__INIT;
    uint8_t hash[32] = "script";
    struct stage g;

    stage_open(&g, "node n1 cpus 8");
    spec.has_script_hash = 1;
    spec.script_hash = (ProtobufCBinaryData){ 32, hash };
    ck_assert_int_eq(do_submit(&g, &spec, 1), 1);
    ck_assert_int_eq(do_submit(&g, &spec, 1), 2);
    ck_assert(state_blob_used(g.s, hash));
    op.purge = &purge;
    do_cancel(&g, 1, NULL);
    purge.before_cluster_ms = g.s->cluster_ms + 1;
    stage_op(&g, &op);
    ck_assert_uint_eq(stage_events(&g, EV_BLOB_DROPPED), 0);
    do_cancel(&g, 2, NULL);
    stage_op(&g, &op);
    ck_assert_uint_eq(stage_events(&g, EV_BLOB_DROPPED), 1);
    ck_assert(!state_blob_used(g.s, hash));
    spec.script_hash.len = 31;
    ck_assert_int_eq(do_submit(&g, &spec, 1), SPUR_EINVAL);
    stage_close(&g);
}
END_TEST

/* What a new leader must do again: start what is not confirmed, end what is not empty. */
START_TEST(emitted_again)
{
    struct stage g;
    struct applied out;

    stage_open(&g, "node n1 cpus 8; job 1 running n1 cores 0; job 2 running n1 cores 1; job 3 running n1 cores 2; job 4 pending");
    do_report(&g, 2, STARTED, "n1", 1, 0);
    do_report(&g, 3, ENDED, "n1", 1, 0);
    state_reemit(g.s, &g.arena, &out);
    ck_assert_uint_eq(out.event_count, 2);
    ck_assert(out.events[0].kind == EV_JOB_STARTED && out.events[0].job_id == 1 && out.events[0].attempt == 1);
    ck_assert(out.events[1].kind == EV_JOB_KILL && out.events[1].job_id == 3);
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
    tcase_add_test(c, time_runs_out);
    tcase_add_test(c, ends_in_words);
    tcase_add_test(c, deadline_is_checked);
    tcase_add_test(c, requeued_too_often);
    tcase_add_test(c, exit_codes_that_requeue);
    tcase_add_test(c, holds);
    tcase_add_test(c, every_keyword);
    tcase_add_test(c, all_or_nothing);
    tcase_add_test(c, blobs_go_with_the_last_job);
    tcase_add_test(c, emitted_again);
    suite_add_tcase(s, c);
    return s;
}
