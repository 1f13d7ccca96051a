/* SPDX-License-Identifier: Apache-2.0 */
/* test_hooks.c - what a job waits for, and what becomes of it when a Prolog fails: PrologFlags, nohold_on_prolog_fail, --requeue. */
#include "test_state.h"

static int submit(struct stage *g, bool batch, bool requeue)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;

    spec.has_is_batch = spec.has_requeue = 1;
    spec.is_batch = batch;
    spec.requeue = requeue;
    spec.work_dir = (char *)"/home/u";
    return do_submit(g, &spec, 1000);
}

/* The node's Prolog has failed (`failed`), or has ended well on it. */
static int prolog(struct stage *g, uint32_t job_id, uint32_t attempt, bool failed)
{
    Wire__Report r = WIRE__REPORT__INIT;
    Wire__OpReport o = WIRE__OP_REPORT__INIT;
    Wire__Op op = WIRE__OP__INIT;

    r.node = (char *)"n1";
    r.kind = failed ? WIRE__REPORT__KIND__LAUNCH_FAILED : WIRE__REPORT__KIND__STARTED;
    r.job_id = job_id;
    r.has_step_id = 1;
    r.step_id = STEP_EXTERN;
    r.attempt = attempt;
    r.has_prolog_failed = r.prolog_failed = failed;
    r.text = failed ? (char *)"prolog: exit code 1" : NULL;
    r.drain = failed ? (char *)"Prolog error" : NULL;
    o.report = &r;
    op.report = &o;
    return stage_op(g, &op);
}

static const struct { const char *conf; bool batch, requeue; enum job_state state; bool held; } fails[] = {
    { "PrologFlags=Alloc", true, true, JOB_PENDING, true },
    { "PrologFlags=Alloc", true, false, JOB_FAILED, false },
    { "PrologFlags=Alloc", false, true, JOB_FAILED, false },
    { "PrologFlags=Alloc,ForceRequeueOnFail", true, false, JOB_PENDING, true },
    { "PrologFlags=Alloc,ForceRequeueOnFail", false, false, JOB_FAILED, false },
    { "SchedulerParameters=nohold_on_prolog_fail", true, true, JOB_PENDING, false },
    { "SchedulerParameters=nohold_on_prolog_fail", true, false, JOB_FAILED, false },
};

START_TEST(a_prolog_fails)
{
    char text[200];
    struct stage g;
    struct job *j;

    snprintf(text, sizeof text, "config Prolog=/p; config %s; node n1 cpus 8; node n2 cpus 8", fails[_i].conf);
    stage_open(&g, text);
    ck_assert_int_eq(submit(&g, fails[_i].batch, fails[_i].requeue), 1);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);
    ck_assert_int_eq(prolog(&g, 1, 1, true), 0);
    ck_assert_int_eq(do_report(&g, 1, WIRE__REPORT__KIND__GONE, "n1", 1, 0), 0);
    j = state_job(g.s, 1);
    ck_assert_msg(j->state == fails[_i].state, "%s: %s", fails[_i].conf, job_state_name(j->state, j->flags, false));
    ck_assert_msg((j->state == JOB_PENDING && j->held_by_user) == fails[_i].held, "%s: held or not", fails[_i].conf);
    ck_assert_uint_ne(g.s->nodes[0].flags & NODE_FLAG_DRAIN, 0);
    ck_assert_str_eq(g.s->nodes[0].reason, "Prolog error");
    stage_check(&g);
    stage_close(&g);
}
END_TEST

static const struct { const char *flags; bool batch; uint8_t awaits; } waits[] = {
    { "Serial", true, 0 }, { "Serial", false, 0 },      /* without Alloc the first step brings the Prolog */
    { "Alloc", true, 0 }, { "Alloc", false, AWAITS_PROLOGS }, { "Alloc,NoHold", false, 0 }, { "NoHold", false, 0 }, { "DeferBatch", true, AWAITS_PROLOGS },
    { "Contain", false, AWAITS_PROLOGS }, { "RunInJob", false, AWAITS_PROLOGS }, { "Alloc,NoHold,DeferBatch", true, AWAITS_PROLOGS },
};

START_TEST(what_waits_for_the_prolog)
{
    char text[200];
    struct stage g;
    struct job *j;

    snprintf(text, sizeof text, "config Prolog=/p; config PrologFlags=%s; node n1 cpus 8", waits[_i].flags);
    stage_open(&g, text);
    ck_assert_int_eq(submit(&g, waits[_i].batch, false), 1);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);
    j = state_job(g.s, 1);
    ck_assert_msg(j->awaits == waits[_i].awaits, "%s: %u", waits[_i].flags, j->awaits);
    ck_assert_int_eq(!!(j->flags & JOB_FLAG_CONFIGURING), !!waits[_i].awaits);
    if (waits[_i].awaits) {
        ck_assert_int_eq(prolog(&g, 1, 1, false), 0);
        ck_assert_uint_eq(j->awaits, 0);
        ck_assert_uint_eq(stage_events(&g, EV_JOB_STARTED), 1);     /* now it is launched, or its command told */
        ck_assert_uint_eq(j->flags & JOB_FLAG_CONFIGURING, 0);
    }
    stage_check(&g);
    stage_close(&g);
}
END_TEST

Suite *hooks_suite(void)
{
    Suite *s = suite_create("state/hooks");
    TCase *t = tcase_create("hooks");

    tcase_add_loop_test(t, a_prolog_fails, 0, sizeof fails / sizeof *fails);
    tcase_add_loop_test(t, what_waits_for_the_prolog, 0, sizeof waits / sizeof *waits);
    suite_add_tcase(s, t);
    return s;
}
