/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - what agents say: a step runs, has ended, could not be started; nothing of a job is left on a node.
 *
 * A report is spooled on the node until it is acknowledged, so it may come twice, late, or after the job has gone on to another attempt.
 * Every one is acknowledged (EV_REPORT_TAKEN); one that no longer fits changes nothing else, except that something started for an old
 * attempt is an orphan to be ended. Nodes report only on jobs they were given: others find no allocation here.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "state/private.h"

static void report_started(struct doing *d, struct job *j, struct node_alloc *a, const Wire__Report *r)
{
    bool batch = !r->has_step_id || r->step_id == STEP_BATCH;
    struct step *st = batch ? NULL : job_step(j, r->step_id);
    struct node_alloc *sa = st ? step_alloc_on(st, a->node) : NULL;

    if (r->has_step_id && r->step_id == STEP_EXTERN)
        hooks_ready(d, j, a);
    if (sa)
        sa->started = true;
    if (j->state == JOB_SUSPENDED)      /* it was on its way when the job was suspended */
        tell(d, EV_JOB_FREEZE, j);
    if (!batch || a != j->allocs || a->started)
        return;
    if (job_happens(d, j, JOB_LAUNCHED_, NULL) == 0) {
        a->started = true;
        j->launch_fails = 0;
        d->s->nodes[a->node].launch_fails = 0;
    }
}

/* RequeueExit=1-3,42: exit codes that bring a job back into the queue. */
static bool exit_is_listed(const struct state *s, int32_t status, enum config_key key)
{
    const char *list = config_text(s->config, key);
    struct bitmap codes;
    bool listed;

    if (!list || !*list || !WIFEXITED(status) || !WEXITSTATUS(status))
        return false;
    bitmap_init(&codes, 256);
    listed = bitmap_parse(&codes, list, NULL) == 0 && bitmap_test(&codes, (size_t)WEXITSTATUS(status));
    bitmap_fini(&codes);
    return listed;
}

static void report_ended(struct doing *d, struct job *j, struct node_alloc *a, const Wire__Report *r)
{
    bool batch = !r->has_step_id || r->step_id == STEP_BATCH;
    enum job_phase phase = job_phase(j);
    struct job_detail detail = { .status = r->status, .text = r->text };
    struct step *st = batch ? NULL : job_step(j, r->step_id);
    struct node_alloc *sa = st ? step_alloc_on(st, a->node) : NULL;

    if (sa) {
        st->timed_out |= r->timed_out;
        step_ended_on(d, j, st, sa, r->status, r->oom);
    }
    if (!batch || !j->is_batch || a != j->allocs)
        return;
    if (j->requeue && !r->oom && (phase == PHASE_LAUNCHING || phase == PHASE_RUNNING)) {
        bool hold = exit_is_listed(d->s, r->status, CONF_RequeueExitHold);

        j->flags |= hold ? JOB_FLAG_REQUEUE_HOLD : 0;
        if (hold || exit_is_listed(d->s, r->status, CONF_RequeueExit)) {
            job_happens(d, j, JOB_REQUEUE_, NULL);
            return;
        }
    }
    job_happens(d, j, r->oom ? JOB_OOM_ : r->status ? JOB_EXIT_BAD_ : JOB_EXIT_OK_, &detail);
}

static void report_failed(struct doing *d, struct job *j, struct node_alloc *a, const Wire__Report *r)
{
    bool batch = !r->has_step_id || r->step_id == STEP_BATCH;
    struct job_detail detail = { .status = r->has_status ? r->status : 1 << 8, .text = r->text };
    struct step *st = batch ? NULL : job_step(j, r->step_id);
    struct node_alloc *sa = st ? step_alloc_on(st, a->node) : NULL;

    if (sa)
        step_ended_on(d, j, st, sa, detail.status ? detail.status : 1 << 8, false);
    if (hooks_report(d, j, a, r))
        return;
    if (!batch || !j->is_batch || a != j->allocs)
        return;
    if (r->not_started && !a->started && job_phase(j) == PHASE_LAUNCHING)
        job_happens(d, j, JOB_REQUEUE_, NULL);
    else if (r->has_node_fault && r->node_fault && !a->started && (job_phase(j) == PHASE_LAUNCHING || job_phase(j) == PHASE_RUNNING))
        job_launch_failed(d, j, r->text);       /* nothing of it has run: a node that is not well eats no jobs, whatever they say of requeueing */
    else
        job_happens(d, j, JOB_LAUNCH_FAILED_, &detail);
}

static void report_gone(struct doing *d, struct job *j, struct node_alloc *a)
{
    enum job_phase phase = job_phase(j);

    steps_gone_on(d, j, a->node);
    if (phase == PHASE_COMPLETING || phase == PHASE_REQUEUEING)
        job_node_gone(d, j, (uint32_t)(a - j->allocs));
    else if (j->is_batch && a == j->allocs)     /* its script has vanished without a word */
        job_lost_on(d, j, 0, "the batch script is no longer there");
}

void op_report(struct doing *d, const Wire__OpReport *o)
{
    struct state *s = d->s;
    const Wire__Report *r = o->report;
    struct node *n = state_node(s, r->node);
    struct job *j = state_job(s, r->job_id);
    struct node_alloc *a = j && n ? job_alloc_on(j, n->index) : NULL;
    struct event *e = tell(d, EV_REPORT_TAKEN, NULL);

    e->job_id = r->job_id;
    e->attempt = r->attempt;
    e->seq = r->seq;
    e->node = n ? n->index : UINT32_MAX;
    d->result->job_id = r->job_id;
    if (!n)
        return;
    if (r->drain && *r->drain)
        hooks_drain(d, n, r->drain);
    if (r->kind == WIRE__REPORT__KIND__GONE && node_foreign_remove(n, r->job_id, r->attempt)) {
        node_reboot_if_empty(d, n);
        node_changed(d, n);
    }
    if (!a || j->state == JOB_PENDING || r->attempt != j->attempt || a->gone) {
        bool alive = r->kind == WIRE__REPORT__KIND__STARTED && !(a && r->attempt == j->attempt && !a->gone);

        if (alive) {
            node_foreign_add(n, r->job_id, r->attempt);
            e = tell(d, EV_ORPHAN, NULL);
            e->job_id = r->job_id;
            e->attempt = r->attempt;
            e->node = n->index;
            node_changed(d, n);
        }
        return;
    }
    switch (r->kind) {
    case WIRE__REPORT__KIND__STARTED: report_started(d, j, a, r); break;
    case WIRE__REPORT__KIND__ENDED: report_ended(d, j, a, r); break;
    case WIRE__REPORT__KIND__GONE: report_gone(d, j, a); break;
    case WIRE__REPORT__KIND__LAUNCH_FAILED: report_failed(d, j, a, r); break;
    default: refuse(d, SPUR_EINVAL, 0, "node %s reports a kind %d that is not known here", r->node, (int)r->kind);
    }
}
