/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.c - what of a site's prologs and epilogs a job waits for, as all replicas see it.
 *
 * A job that starts is CONFIGURING until PrologSlurmctld has ended and, where its launch has to wait for them, the Prologs of its nodes. A job that
 * ends is COMPLETING until EpilogSlurmctld has ended; the Epilog of a node stands behind its GONE, so nothing of it is kept here. Hooks run on the
 * leader (controller/hooks.c) and on the nodes (agent/hooks.c); their ends come through the log like anything else. A new leader runs what has not ended
 * again.
 */
#include "state/private.h"

static bool is_set(const struct state *s, enum config_key key)
{
    const char *text = s->config ? config_text(s->config, key) : NULL;

    return text && *text;
}

void hooks_begin(const struct state *s, struct job *j)
{
    bool waits = j->is_batch ? config_has_word(s->config, CONF_PrologFlags, "DeferBatch") : !config_has_word(s->config, CONF_PrologFlags, "NoHold");

    j->awaits = is_set(s, CONF_PrologSlurmctld) ? AWAITS_PROLOG_CTLD : 0;
    if (is_set(s, CONF_Prolog) && config_has_word(s->config, CONF_PrologFlags, "Alloc") && waits)
        j->awaits |= AWAITS_PROLOGS;
    if (!j->awaits)
        return;
    j->flags |= JOB_FLAG_CONFIGURING;
    j->reason = REASON_Prolog;
}

void hooks_end(const struct state *s, struct job *j)
{
    j->awaits = is_set(s, CONF_EpilogSlurmctld) && j->alloc_count ? AWAITS_EPILOG_CTLD : 0;
    j->flags &= ~JOB_FLAG_CONFIGURING;
}

/* One thing less to wait for: EV_JOB_STARTED again, and with the last of them the launch. */
static void has_ended(struct doing *d, struct job *j, uint8_t what)
{
    if (!(j->awaits & what) || job_state_is_end(j->state) || j->flags & JOB_FLAG_COMPLETING)
        return;
    j->awaits &= (uint8_t)~what;
    if (!j->awaits) {
        j->flags &= ~JOB_FLAG_CONFIGURING;
        j->reason = REASON_None;
    }
    tell(d, EV_JOB_STARTED, j)->node = j->allocs[0].node;
}

void hooks_ready(struct doing *d, struct job *j, struct node_alloc *a)
{
    if (a->ready)
        return;
    a->ready = true;
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].ready && !j->allocs[i].gone)
            return;
    has_ended(d, j, AWAITS_PROLOGS);
}

void hooks_drain(struct doing *d, struct node *n, const char *reason)
{
    if (n->flags & NODE_FLAG_DRAIN && n->reason && !n->reason_is_ours)
        return;                     /* somebody has said why already */
    n->flags |= NODE_FLAG_DRAIN;
    node_set_reason(d, n, reason, false, "root", 0);
    node_changed(d, n);
}

/* Back to the queue and held, or over where that may not be: PrologFlags=ForceRequeueOnFail and nohold_on_prolog_fail are the site's word on it. */
static void launch_failed(struct doing *d, struct job *j, const char *text, bool hold, bool force)
{
    struct job_detail detail = { .status = 1 << 8, .text = text };

    j = het_leader(d->s, j);
    if (!j->is_batch || !(j->requeue || force)) {
        job_happens(d, j, JOB_LAUNCH_FAILED_, &detail);
        return;
    }
    if (hold) {
        j->flags |= JOB_FLAG_REQUEUE_HOLD;
        j->reason = REASON_JobLaunchFailure;
    }
    job_happens(d, j, JOB_REQUEUE_, NULL);
}

bool hooks_report(struct doing *d, struct job *j, struct node_alloc *a, const Wire__Report *r)
{
    const struct config *c = d->s->config;
    enum job_phase phase = job_phase(j);

    if (!r->has_prolog_failed || !r->prolog_failed)
        return false;
    if (phase == PHASE_LAUNCHING || phase == PHASE_RUNNING) {
        text_set(&j->failed_node, a->node < d->s->node_count ? d->s->nodes[a->node].conf->name : NULL);
        launch_failed(d, j, r->text, !config_has_word(c, CONF_SchedulerParameters, "nohold_on_prolog_fail"), config_has_word(c, CONF_PrologFlags, "ForceRequeueOnFail"));
    }
    return true;
}

void op_hook(struct doing *d, const Wire__OpHook *o)
{
    struct job *j = state_job(d->s, o->job_id);

    d->result->job_id = o->job_id;
    if (!j || j->attempt != o->attempt) {
        refuse(d, SPUR_ESTALE, 0, "job %u: a hook of another attempt", o->job_id);
        return;
    }
    if (o->kind == WIRE__OP_HOOK__KIND__EPILOG) {
        if (!(j->awaits & AWAITS_EPILOG_CTLD))
            return;
        j->awaits &= (uint8_t)~AWAITS_EPILOG_CTLD;
        job_emptied(d, j);
    } else if (j->awaits & AWAITS_PROLOG_CTLD) {
        if (o->has_failed && o->failed)
            launch_failed(d, j, o->text, false, false);
        else
            has_ended(d, j, AWAITS_PROLOG_CTLD);
    }
}
