/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - the table of what may happen to a job: phase x happening -> next phase, final state, effects.
 *
 * The table is the specification. A cell that is not there cannot happen: life.c answers it with ESTALE, so a late report or a
 * stale decision changes nothing. Final states are entered once; only REQUEUE leaves one, and that makes a new attempt.
 * A phase is base state and flags seen together; what a phase looks like in a record stands in job_phase().
 */
#include "state/private.h"

#define ALIVE_RULES(phase) \
    { phase, JOB_EXIT_OK_,       PHASE_COMPLETING, JOB_COMPLETE,  EFFECT_END | EFFECT_KILL }, \
    { phase, JOB_EXIT_BAD_,      PHASE_COMPLETING, JOB_FAILED,    EFFECT_END | EFFECT_KILL }, \
    { phase, JOB_OOM_,           PHASE_COMPLETING, JOB_OOM,       EFFECT_END | EFFECT_KILL }, \
    { phase, JOB_CANCEL_,        PHASE_COMPLETING, JOB_CANCELLED, EFFECT_END | EFFECT_KILL }, \
    { phase, JOB_DEADLINE_,      PHASE_COMPLETING, JOB_DEADLINE,  EFFECT_END | EFFECT_KILL }, \
    { phase, JOB_NODE_LOST_,     PHASE_COMPLETING, JOB_NODE_FAIL, EFFECT_END | EFFECT_KILL }, \
    { phase, JOB_LAUNCH_FAILED_, PHASE_COMPLETING, JOB_FAILED,    EFFECT_END | EFFECT_KILL }, \
    { phase, JOB_REQUEUE_,       PHASE_REQUEUEING, -1,            EFFECT_ASK | EFFECT_KILL }

static const struct job_rule rows[] = {
    { PHASE_PENDING,    JOB_START_,    PHASE_LAUNCHING,  -1,            EFFECT_CHARGE },
    { PHASE_PENDING,    JOB_CANCEL_,   PHASE_ENDED,      JOB_CANCELLED, EFFECT_END | EFFECT_GONE },
    { PHASE_PENDING,    JOB_DEADLINE_, PHASE_ENDED,      JOB_DEADLINE,  EFFECT_END | EFFECT_GONE },

    ALIVE_RULES(PHASE_LAUNCHING),
    { PHASE_LAUNCHING,  JOB_LAUNCHED_, PHASE_RUNNING,    -1,            0 },
    { PHASE_LAUNCHING,  JOB_TIMEOUT_,  PHASE_COMPLETING, JOB_TIMEOUT,   EFFECT_END | EFFECT_KILL },
    ALIVE_RULES(PHASE_RUNNING),
    { PHASE_RUNNING,    JOB_LAUNCHED_, PHASE_RUNNING,    -1,            0 },
    { PHASE_RUNNING,    JOB_TIMEOUT_,  PHASE_COMPLETING, JOB_TIMEOUT,   EFFECT_END | EFFECT_KILL },
    { PHASE_RUNNING,    JOB_SUSPEND_,  PHASE_SUSPENDED,  -1,            EFFECT_FREEZE },

    /* Its time stands still, so no limit is passed; whatever ends it wakes its processes first. */
    ALIVE_RULES(PHASE_SUSPENDED),
    { PHASE_SUSPENDED,  JOB_LAUNCHED_, PHASE_SUSPENDED,  -1,            0 },
    { PHASE_SUSPENDED,  JOB_RESUME_,   PHASE_RUNNING,    -1,            EFFECT_FREEZE },

    /* Shall be pending again; its nodes are being emptied. What the killed script reports changes nothing. */
    { PHASE_REQUEUEING, JOB_EMPTY_,         PHASE_PENDING,    -1,            EFFECT_AGAIN },
    { PHASE_REQUEUEING, JOB_CANCEL_,        PHASE_COMPLETING, JOB_CANCELLED, EFFECT_END | EFFECT_KILL },
    { PHASE_REQUEUEING, JOB_DEADLINE_,      PHASE_COMPLETING, JOB_DEADLINE,  EFFECT_END | EFFECT_KILL },
    { PHASE_REQUEUEING, JOB_LAUNCHED_,      PHASE_REQUEUEING, -1, 0 },
    { PHASE_REQUEUEING, JOB_EXIT_OK_,       PHASE_REQUEUEING, -1, 0 },
    { PHASE_REQUEUEING, JOB_EXIT_BAD_,      PHASE_REQUEUEING, -1, 0 },
    { PHASE_REQUEUEING, JOB_OOM_,           PHASE_REQUEUEING, -1, 0 },
    { PHASE_REQUEUEING, JOB_NODE_LOST_,     PHASE_REQUEUEING, -1, 0 },
    { PHASE_REQUEUEING, JOB_LAUNCH_FAILED_, PHASE_REQUEUEING, -1, 0 },
    { PHASE_REQUEUEING, JOB_REQUEUE_,       PHASE_REQUEUEING, -1, EFFECT_ASK },

    /* Final state reached, nodes not empty. A second cancel tells the agents again. */
    { PHASE_COMPLETING, JOB_EMPTY_,         PHASE_ENDED,      -1, EFFECT_GONE },
    { PHASE_COMPLETING, JOB_CANCEL_,        PHASE_COMPLETING, -1, EFFECT_KILL },
    { PHASE_COMPLETING, JOB_LAUNCHED_,      PHASE_COMPLETING, -1, 0 },
    { PHASE_COMPLETING, JOB_EXIT_OK_,       PHASE_COMPLETING, -1, 0 },
    { PHASE_COMPLETING, JOB_EXIT_BAD_,      PHASE_COMPLETING, -1, 0 },
    { PHASE_COMPLETING, JOB_OOM_,           PHASE_COMPLETING, -1, 0 },
    { PHASE_COMPLETING, JOB_NODE_LOST_,     PHASE_COMPLETING, -1, 0 },
    { PHASE_COMPLETING, JOB_LAUNCH_FAILED_, PHASE_COMPLETING, -1, 0 },

    { PHASE_ENDED,      JOB_REQUEUE_,  PHASE_PENDING,    -1, EFFECT_AGAIN },
    { PHASE_ENDED,      JOB_PURGE_,    PHASE_ENDED,      -1, EFFECT_FORGET },
};

const struct job_rule *job_rule(enum job_phase phase, enum job_happening what)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].phase == phase && rows[i].what == what)
            return &rows[i];
    return NULL;
}

enum job_phase job_phase(const struct job *j)
{
    if (job_state_is_end(j->state))
        return j->flags & JOB_FLAG_COMPLETING ? PHASE_COMPLETING : PHASE_ENDED;
    if (j->state == JOB_PENDING)
        return PHASE_PENDING;
    if (j->flags & JOB_FLAG_REQUEUE)
        return PHASE_REQUEUEING;
    if (j->state == JOB_SUSPENDED)
        return PHASE_SUSPENDED;
    return j->is_batch && j->alloc_count && !j->allocs[0].started ? PHASE_LAUNCHING : PHASE_RUNNING;
}

const char *job_phase_name(enum job_phase p)
{
    static const char *const names[] = {
#define JOB_PHASE_ROW(name) #name,
        JOB_PHASES(JOB_PHASE_ROW)
#undef JOB_PHASE_ROW
    };

    return p < PHASE_COUNT ? names[p] : "?";
}

const char *job_happening_name(enum job_happening h)
{
    static const char *const names[] = {
#define JOB_HAPPENING_ROW(name) #name,
        JOB_HAPPENINGS(JOB_HAPPENING_ROW)
#undef JOB_HAPPENING_ROW
    };

    return h < HAPPENING_COUNT ? names[h] : "?";
}
