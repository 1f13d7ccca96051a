/* SPDX-License-Identifier: Apache-2.0 */
/* test_rules.c - every cell of the table of what may happen to a job, and the phase of every kind of record. */
#include "test_state.h"

/* Rows: phases in order; columns: happenings in order (START LAUNCHED EXIT_OK EXIT_BAD OOM CANCEL TIMEOUT DEADLINE NODE_LOST LAUNCH_FAILED REQUEUE EMPTY PURGE SUSPEND RESUME).
 * Cell: next phase (P L R Q C E S, . cannot be), and the final state it enters, if any. */
static const char *const cells[PHASE_COUNT][HAPPENING_COUNT] = {
    /*              START  LAUNCH EXIT_OK EXIT_BAD OOM     CANCEL  TIMEOUT DEADLN  NODELST LAUNCHF REQUEUE EMPTY  PURGE SUSPEND RESUME */
    [PHASE_PENDING]    = { "L", ".", ".",    ".",    ".",    "E CA", ".",    "E DL", ".",    ".",    ".",    ".",   ".", ".", "." },
    [PHASE_LAUNCHING]  = { ".", "R", "C CD", "C F",  "C OOM", "C CA", "C TO", "C DL", "C NF", "C F",  "Q",    ".",   ".", ".", "." },
    [PHASE_RUNNING]    = { ".", "R", "C CD", "C F",  "C OOM", "C CA", "C TO", "C DL", "C NF", "C F",  "Q",    ".",   ".", "S", "." },
    [PHASE_REQUEUEING] = { ".", "Q", "Q",    "Q",    "Q",    "C CA", ".",    "C DL", "Q",    "Q",    "Q",    "P",   ".", ".", "." },
    [PHASE_COMPLETING] = { ".", "C", "C",    "C",    "C",    "C",    ".",    ".",    "C",    "C",    ".",    "E",   ".", ".", "." },
    [PHASE_ENDED]      = { ".", ".", ".",    ".",    ".",    ".",    ".",    ".",    ".",    ".",    "P",    ".",   "E", ".", "." },
    [PHASE_SUSPENDED]  = { ".", "S", "C CD", "C F",  "C OOM", "C CA", ".",    "C DL", "C NF", "C F",  "Q",    ".",   ".", ".", "R" },
};

START_TEST(cell)
{
    static const char letters[] = "PLRQCES";
    enum job_phase phase = (enum job_phase)(_i / HAPPENING_COUNT);
    enum job_happening what = (enum job_happening)(_i % HAPPENING_COUNT);
    const struct job_rule *rule = job_rule(phase, what);
    char text[32] = ".";

    if (rule)
        snprintf(text, sizeof text, "%c%s%s", letters[rule->next], rule->state >= 0 ? " " : "", rule->state >= 0 ? job_state_name((unsigned)rule->state, 0, true) : "");
    ck_assert_msg(!strcmp(text, cells[phase][what]), "%s x %s is %s, not %s", job_phase_name(phase), job_happening_name(what), text, cells[phase][what]);
    if (!rule)
        return;
    /* A final state comes with its end; nodes are told whenever something may still run there; nothing leaves a final state but a requeue. */
    ck_assert_int_eq(rule->state >= 0, (rule->effects & EFFECT_END) != 0);
    if (rule->next == PHASE_COMPLETING && phase != PHASE_COMPLETING)
        ck_assert(rule->effects & EFFECT_KILL);
    if (phase == PHASE_COMPLETING || phase == PHASE_ENDED)
        ck_assert(rule->next == PHASE_COMPLETING || rule->next == PHASE_ENDED || what == JOB_REQUEUE_);
    if (rule->next == PHASE_ENDED && what != JOB_PURGE_)
        ck_assert(rule->effects & EFFECT_GONE);
}
END_TEST

START_TEST(names)
{
    unsigned state, flags;

    for (unsigned i = 0; i < JOB_STATE_COUNT; i++) {
        ck_assert(job_state_parse(job_state_name(i, 0, false), &state, &flags) && state == i && !flags);
        ck_assert(job_state_parse(job_state_name(i, 0, true), &state, &flags) && state == i && !flags);
    }
    ck_assert_str_eq(job_state_name(JOB_CANCELLED, JOB_FLAG_COMPLETING, false), "COMPLETING");
    ck_assert_str_eq(job_state_name(JOB_RUNNING, JOB_FLAG_COMPLETING | JOB_FLAG_REQUEUE, true), "CG");
    ck_assert_str_eq(job_state_name(JOB_RUNNING, JOB_FLAG_CONFIGURING, true), "CF");
    ck_assert(job_state_parse("cg", &state, &flags) && flags == JOB_FLAG_COMPLETING);
    ck_assert(!job_state_parse("", &state, &flags));
    ck_assert(!job_state_parse("RUN", &state, &flags));
    ck_assert_str_eq(job_reason_name(REASON_JobHeldUser), "JobHeldUser");
    ck_assert_str_eq(job_reason_name(9999), "None");
}
END_TEST

Suite *rules_suite(void)
{
    Suite *s = suite_create("rules");
    TCase *c = tcase_create("table");

    tcase_add_loop_test(c, cell, 0, PHASE_COUNT * HAPPENING_COUNT);
    tcase_add_test(c, names);
    suite_add_tcase(s, c);
    return s;
}
