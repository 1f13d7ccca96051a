/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - what rings for a job that runs: its time limit, the warning before it, a launch not confirmed, a kill to be repeated.
 *
 * One record a running job remembers what is armed, so that a limit that is changed, a second scancel or a node that comes back do not
 * add an alarm each. A limit that was lowered arms anew; a later alarm that rings in vain looks and arms itself again. The record goes with the
 * job's resources. It is not replicated: a new leader arms everything anew, and may then send the warning a second time.
 */
#include <stdlib.h>

#include "controller/ctl.h"

#define KILL_AGAIN_MS 5000

struct watch { uint32_t attempt; bool is_warned; int64_t limit_at_ms, launch_at_ms, kill_at_ms; };

static struct watch *watch_of(struct ctl *c, const struct job *j)
{
    struct watch *w = table_get(&c->watches, j->job_id);

    if (!w) {
        w = mem_alloc(sizeof *w);
        table_put(&c->watches, j->job_id, w);
    }
    if (w->attempt != j->attempt)
        *w = (struct watch){ .attempt = j->attempt };
    return w;
}

void watch_forget(struct ctl *c, uint32_t job_id) { free(table_del(&c->watches, job_id)); }

void watch_destroy(struct ctl *c)
{
    struct watch *w;

    for (size_t i = 0; (w = table_next(&c->watches, &i)); )
        free(w);
    table_fini(&c->watches);
}

void watch_forget_all(struct ctl *c)
{
    watch_destroy(c);
    table_init(&c->watches);
}

/* When the warning is due, INT64_MAX: never. */
static int64_t watch_warn_ms(const struct job *j, int *signal, bool *batch_only)
{
    struct arena a;
    const Wire__JobSpec *spec;
    int64_t at = INT64_MAX;

    if (j->time_limit_min >= MINUTES_NOT_SET)
        return at;
    arena_init(&a, 0);
    spec = job_spec(j, &a);
    if (spec->has_warn_signal) {
        at = j->start_cluster_ms + j->suspended_ms + (int64_t)j->time_limit_min * 60000 - (int64_t)spec->warn_time_s * 1000;
        *signal = (int)spec->warn_signal;
        *batch_only = (spec->warn_flags & 1) != 0;
    }
    arena_fini(&a);
    return at;
}

void watch_limit(struct ctl *c, const struct job *j)
{
    int64_t now = ctl_cluster_ms(c), boot = clock_boot_ms(), due = state_job_limit_ms(c->state, j), warn;
    struct watch *w;
    bool batch_only = false;
    int signal = 0;

    if (j->state != JOB_RUNNING || j->flags & JOB_FLAG_COMPLETING)
        return;
    w = watch_of(c, j);
    warn = w->is_warned ? INT64_MAX : watch_warn_ms(j, &signal, &batch_only);
    if (warn <= now) {
        effect_warn(c, j, signal, batch_only);
        w->is_warned = true;
    } else if (warn < due) {
        due = warn;
    }
    if (due == INT64_MAX)
        return;
    due = boot + (due > now ? due - now : 0);
    if (w->limit_at_ms > boot && w->limit_at_ms <= due)
        return;
    w->limit_at_ms = due;
    alarm_set(c, due - boot, ALARM_JOB_LIMIT, j->job_id);
}

bool watch_limit_rang(struct ctl *c, const struct job *j)
{
    if (state_job_limit_ms(c->state, j) <= ctl_cluster_ms(c))
        return true;
    watch_limit(c, j);
    return false;
}

static void watch_arm(struct ctl *c, const struct job *j, int64_t *at_ms, int64_t in_ms, enum alarm_kind kind)
{
    int64_t now = clock_boot_ms();
    bool is_armed = *at_ms > now;

    *at_ms = now + in_ms;
    if (!is_armed)
        alarm_set(c, in_ms, kind, (uint64_t)j->job_id << 32 | j->attempt);
}

/* An alarm that rings before its time was put off: it goes on. */
static bool watch_rang(struct ctl *c, const struct job *j, int64_t at_ms, enum alarm_kind kind)
{
    int64_t now = clock_boot_ms();

    if (at_ms > now)
        alarm_set(c, at_ms - now, kind, (uint64_t)j->job_id << 32 | j->attempt);
    return at_ms <= now;
}

void watch_launch(struct ctl *c, const struct job *j, int64_t in_ms) { watch_arm(c, j, &watch_of(c, j)->launch_at_ms, in_ms, ALARM_LAUNCH); }
bool watch_launch_rang(struct ctl *c, const struct job *j) { return watch_rang(c, j, watch_of(c, j)->launch_at_ms, ALARM_LAUNCH); }
void watch_kill(struct ctl *c, const struct job *j) { watch_arm(c, j, &watch_of(c, j)->kill_at_ms, KILL_AGAIN_MS, ALARM_KILL_AGAIN); }
bool watch_kill_rang(struct ctl *c, const struct job *j) { return watch_rang(c, j, watch_of(c, j)->kill_at_ms, ALARM_KILL_AGAIN); }
