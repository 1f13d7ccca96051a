/* SPDX-License-Identifier: Apache-2.0 */
/* life.c - carries out the table of rules.c on one job, and moves what hangs on it: ledger, array, dependents, events.
 *
 * Resources are given back node by node, each when its agent has said that nothing of the job is alive there or when the node is lost;
 * the job leaves COMPLETING with the last. Who waits for the job hears of its end only then, so a dependent never meets its parent's rest.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/duration.h"
#include "state/private.h"

#define REQUEUE_DELAY_S 2       /* a requeued job is not started again within the same moment that made it fail */
#define LAUNCH_DELAY_MAX_S 120  /* and after launches that failed, each time twice as late */
#define LAUNCH_FAILS_NODE 3     /* in a row: the node takes no more jobs until somebody has looked at it */
#define OOM_STATUS 125          /* "0:125" */

int refuse(struct doing *d, int code, int slurm_errno, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    d->result->code = code;
    d->result->slurm_errno = slurm_errno;
    d->result->text = arena_copy(d->arena, text);
    return code;
}

struct event *tell(struct doing *d, enum event_kind kind, const struct job *j)
{
    struct event *e;

    if (d->event_count == d->event_room)
        d->events = mem_grow(d->events, d->event_room = d->event_room ? 2 * d->event_room : 16, sizeof *d->events);
    e = &d->events[d->event_count++];
    *e = (struct event){ .kind = kind, .step_id = EVENT_NO_STEP, .node = UINT32_MAX };
    if (j) {
        e->job_id = j->job_id;
        e->attempt = j->attempt;
    }
    return e;
}

void job_kill_event(struct doing *d, const struct job *j)
{
    tell(d, EV_JOB_KILL, j)->full = true;
}

static bool job_is_empty(const struct job *j)
{
    if (j->awaits & AWAITS_EPILOG_CTLD)
        return false;
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].gone)
            return false;
    return true;
}

static void job_completing(struct state *s, struct job *j)
{
    if (j->flags & JOB_FLAG_COMPLETING)
        return;
    j->flags |= JOB_FLAG_COMPLETING;
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].gone && j->allocs[i].node != NODE_REMOVED)
            s->nodes[j->allocs[i].node].completing++;
}

/* The job has nothing there any more: its share of the ledger is free. */
static void alloc_free(struct doing *d, struct job *j, uint32_t i)
{
    if (j->allocs[i].gone)
        return;
    j->allocs[i].gone = true;
    ledger_release(d->s, j, &j->allocs[i]);
    if (j->allocs[i].node != NODE_REMOVED)
        node_reboot_if_empty(d, &d->s->nodes[j->allocs[i].node]);
}

uint32_t job_members(const struct job *j)
{
    uint32_t n = j->alloc_count;

    while (n && j->allocs[n - 1].spare)
        n--;
    return n;
}

int64_t job_suspended_ms(const struct job *j, int64_t cluster_ms)
{
    return j->suspended_ms + (j->state == JOB_SUSPENDED && cluster_ms > j->suspend_cluster_ms ? cluster_ms - j->suspend_cluster_ms : 0);
}

static void job_end(struct doing *d, struct job *j, const struct job_rule *rule, const struct job_detail *detail)
{
    static const enum job_reason reasons[HAPPENING_COUNT] = {
        [JOB_TIMEOUT_] = REASON_TimeLimit, [JOB_DEADLINE_] = REASON_DeadLine, [JOB_NODE_LOST_] = REASON_NodeDown,
        [JOB_LAUNCH_FAILED_] = REASON_JobLaunchFailure, [JOB_OOM_] = REASON_OutOfMemory, [JOB_EXIT_BAD_] = REASON_NonZeroExitCode };
    struct state *s = d->s;

    j->suspended_ms = job_suspended_ms(j, s->cluster_ms);
    job_set_state(s, j, (unsigned)rule->state);
    j->end_wall_s = s->wall_ms / 1000;
    j->end_cluster_ms = s->cluster_ms;
    j->reason = detail && detail->reason ? detail->reason : reasons[rule->what];
    if (rule->what == JOB_EXIT_OK_ || rule->what == JOB_EXIT_BAD_)
        j->exit_status = detail ? detail->status : 0;
    if (rule->what == JOB_EXIT_BAD_ && detail && WTERMSIG(detail->status))
        j->reason = REASON_RaisedSignal;
    if (rule->what == JOB_OOM_)
        j->exit_status = OOM_STATUS;
    if (rule->what == JOB_LAUNCH_FAILED_)
        j->exit_status = detail && detail->status ? detail->status : 1 << 8;
    text_set(&j->reason_text, detail ? detail->text : NULL);
    j->flags &= ~(JOB_FLAG_REQUEUE | JOB_FLAG_REQUEUE_HOLD | JOB_FLAG_CONFIGURING);
    j->kill_pending = true;
    if (rule->next == PHASE_COMPLETING) {
        hooks_end(s, j);
        job_completing(s, j);
    }
    tell(d, EV_JOB_ENDED, j);
}

static void job_gone(struct doing *d, struct job *j)
{
    struct state *s = d->s;

    j->flags &= ~JOB_FLAG_COMPLETING;
    for (struct step *st = j->steps; st; st = st->next)
        if (!job_state_is_end(st->state)) {
            st->state = JOB_CANCELLED;
            st->end_wall_s = s->wall_ms / 1000;
            tell(d, EV_STEP_ENDED, j)->step_id = st->step_id;
        }
    array_task_ended(s, j, j->state == JOB_COMPLETE);
    table_put(&s->priv->ended, j->job_id, j);
    tell(d, EV_JOB_GONE, j);
    name_moved(d, j);
    dependency_started(j);
    dependency_notify(d, j);
    if (het_follows(s, j))
        job_happens(d, j, JOB_REQUEUE_, NULL);
}

static int64_t launch_delay_s(const struct job *j)
{
    int64_t s = (int64_t)REQUEUE_DELAY_S << (j->launch_fails < 10 ? j->launch_fails : 10);

    return s < LAUNCH_DELAY_MAX_S ? s : LAUNCH_DELAY_MAX_S;
}

/* The processes of a job stand still or go on; its cores are lent out or taken back. */
static void job_freeze(struct doing *d, struct job *j, bool freeze)
{
    struct state *s = d->s;

    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].gone && j->allocs[i].node != NODE_REMOVED) {
            freeze ? ledger_park(s, &j->allocs[i]) : ledger_unpark(s, &j->allocs[i]);
            node_changed(d, &s->nodes[j->allocs[i].node]);
        }
    j->parked = freeze;
    j->suspended_ms = job_suspended_ms(j, s->cluster_ms);
    job_set_state(s, j, freeze ? JOB_SUSPENDED : JOB_RUNNING);
    j->suspend_wall_s = s->wall_ms / 1000;      /* of the last change, as Slurm shows it */
    j->suspend_cluster_ms = s->cluster_ms;
    tell(d, EV_JOB_FREEZE, j);
    tell(d, EV_JOB_CHANGED, j);
}

/* Pending again, as when it was submitted, but for attempt, restarts and a moment's delay. */
static void job_again(struct doing *d, struct job *j)
{
    struct state *s = d->s;
    bool was_end = job_state_is_end(j->state);
    Wire__JobSpec *spec;
    struct arena arena;

    table_del(&s->priv->ended, j->job_id);
    for (uint32_t i = 0; i < j->alloc_count; i++)
        node_alloc_fini(&j->allocs[i]);
    free(j->allocs);
    j->allocs = NULL;
    j->alloc_count = 0;
    text_set(&j->nodes, NULL);
    text_set(&j->why_there, NULL);
    text_set(&j->leaves, NULL);
    text_set(&j->fabric, NULL);
    j->has_share = false;
    text_set(&j->reason_text, j->reason == REASON_JobLaunchFailure ? "launch failed requeued held" : NULL);
    steps_drop(d, j);
    j->next_step = 0;
    j->awaits = 0;
    if (j->reason != REASON_JobHoldMaxRequeue && j->reason != REASON_JobLaunchFailure)
        j->reason = REASON_None;
    if (j->flags & JOB_FLAG_REQUEUE_HOLD)
        j->held_by_user = true;
    j->flags = 0;
    job_set_state(s, j, JOB_PENDING);
    j->parked = false;
    j->suspend_wall_s = j->suspend_cluster_ms = j->suspended_ms = 0;
    j->restarts++;
    j->start_wall_s = j->start_cluster_ms = j->end_wall_s = j->end_cluster_ms = 0;
    j->exit_status = j->derived_status = 0;
    j->kill_pending = false;
    j->total_cpus = 0;
    arena_init(&arena, 0);
    spec = job_spec(j, &arena);
    share_set(s, &j->partition, spec->partition);      /* any that it asked for, and whole nodes only if it asked for them */
    j->part_index = job_part_index(s, j);
    j->exclusive = spec->exclusive && (word_eq(spec->exclusive, "exclusive") || word_eq(spec->exclusive, "yes"));
    arena_fini(&arena);
    j->begin_wall_s = s->wall_ms / 1000 + launch_delay_s(j);
    j->eligible_wall_s = j->begin_wall_s;
    array_task_requeued(s, j, was_end);
    if (was_end)
        name_enter(s, j);
    tell(d, EV_JOB_REQUEUED, j);
    for (uint32_t i = 0; i < j->dep_count; i++)     /* its turn among jobs of its name comes anew */
        j->deps[i].status = DEP_WAITS;
    name_moved(d, j);
}

static int happens_to_one(struct doing *d, struct job *j, enum job_happening what, const struct job_detail *detail)
{
    enum job_phase phase = job_phase(j);
    const struct job_rule *rule = job_rule(phase, what);

    if (!rule)
        return SPUR_ESTALE;
    if (rule->effects & EFFECT_CHARGE) {
        job_set_state(d->s, j, JOB_RUNNING);
        j->attempt++;
        for (uint32_t i = 0; i < j->alloc_count; i++)
            ledger_charge(d->s, j, &j->allocs[i]);
        tell(d, EV_JOB_STARTED, j)->node = j->allocs[0].node;
        array_task_started(d->s, j);
        name_moved(d, j);
        dependency_notify(d, j);
    }
    if (rule->effects & EFFECT_FREEZE)
        job_freeze(d, j, rule->next == PHASE_SUSPENDED);
    if (rule->effects & EFFECT_ASK) {
        if (phase != PHASE_REQUEUEING)
            hooks_end(d->s, j);
        if (phase == PHASE_SUSPENDED)       /* as in Slurm */
            j->flags |= JOB_FLAG_REQUEUE_HOLD;
        j->flags |= JOB_FLAG_REQUEUE;
        job_completing(d->s, j);
        j->kill_pending = true;
    }
    if (rule->effects & EFFECT_END)
        job_end(d, j, rule, detail);
    if (phase == PHASE_COMPLETING && (what == JOB_EXIT_OK_ || what == JOB_EXIT_BAD_) && detail && (j->state == JOB_CANCELLED || j->state == JOB_TIMEOUT))
        j->exit_status = detail->status;        /* how its script died, as people expect to see it */
    if (rule->effects & EFFECT_KILL) {
        if (job_is_empty(j))
            return job_happens(d, j, JOB_EMPTY_, NULL);
        job_kill_event(d, j);
    }
    if (rule->effects & EFFECT_GONE)
        job_gone(d, j);
    if (rule->effects & EFFECT_AGAIN)
        job_again(d, j);
    return 0;
}

/* What ends the first component ends all of them, and none of the others is lost or requeued alone. */
int job_happens(struct doing *d, struct job *j, enum job_happening what, const struct job_detail *detail)
{
    bool of_all = what == JOB_EXIT_OK_ || what == JOB_EXIT_BAD_ || what == JOB_OOM_ || what == JOB_CANCEL_ || what == JOB_TIMEOUT_ || what == JOB_DEADLINE_ ||
                  what == JOB_NODE_LOST_ || what == JOB_LAUNCH_FAILED_ || what == JOB_REQUEUE_;
    bool whole = what == JOB_NODE_LOST_ || what == JOB_LAUNCH_FAILED_ || what == JOB_REQUEUE_ || what == JOB_DEADLINE_ ||
                 (what == JOB_CANCEL_ && j->state == JOB_PENDING);
    enum job_phase before;
    int rc;

    if (j->het_offset && whole && !(what == JOB_REQUEUE_ && het_follows(d->s, j)))
        j = het_leader(d->s, j);
    before = job_phase(j);
    rc = happens_to_one(d, j, what, detail);
    if (rc < 0 || !of_all || !j->het_count || j->het_offset || (before == job_phase(j) && what != JOB_CANCEL_))
        return rc;
    for (uint32_t k = 1; k < j->het_count; k++) {
        struct job *part = het_part(d->s, j, k);

        if (part)
            happens_to_one(d, part, what, detail);
    }
    return 0;
}

int job_suspend(struct doing *d, struct job *j, struct spur_error *err)
{
    enum job_phase phase = job_phase(j);

    if (phase == PHASE_LAUNCHING)
        return spur_fail(err, SPUR_ELATER, "job %u is being started: try again in a moment", j->job_id);
    if (phase == PHASE_SUSPENDED)
        return spur_fail(err, SPUR_ESTALE, "job %u is suspended already", j->job_id);
    if (phase != PHASE_RUNNING)
        return spur_fail(err, phase == PHASE_PENDING ? SPUR_EINVAL : SPUR_ESTALE, phase == PHASE_PENDING ? "job %u is pending" : "job %u is ending", j->job_id);
    return job_happens(d, j, JOB_SUSPEND_, NULL);
}

int job_resume(struct doing *d, struct job *j, struct spur_error *err)
{
    if (job_phase(j) != PHASE_SUSPENDED)
        return spur_fail(err, SPUR_EINVAL, "job %u is not suspended", j->job_id);
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].gone && j->allocs[i].node != NODE_REMOVED && ledger_unpark_check(d->s, &j->allocs[i], err) < 0)
            return spur_context(err, "job %u cannot go on yet", j->job_id);
    return job_happens(d, j, JOB_RESUME_, NULL);
}

void job_launch_failed(struct doing *d, struct job *j, const char *why)
{
    int64_t most = d->s->config ? config_number(d->s->config, CONF_MaxBatchRequeue) : 5;
    struct node *n = j->allocs[0].node == NODE_REMOVED ? NULL : &d->s->nodes[j->allocs[0].node];

    j->launch_fails++;
    if (most > 0 && j->launch_fails >= most) {
        j->flags |= JOB_FLAG_REQUEUE_HOLD;
        j->reason = REASON_JobLaunchFailure;      /* "launch failed requeued held" */
    }
    if (n && ++n->launch_fails >= LAUNCH_FAILS_NODE && !(n->flags & NODE_FLAG_DRAIN)) {
        n->flags |= NODE_FLAG_DRAIN;
        node_set_reason(d, n, arena_printf(d->arena, "%u launches in a row have failed: %.150s", n->launch_fails, why ? why : "?"), false, "slurm", 0);
        n->launch_fails = 0;
        node_changed(d, n);
    }
    job_happens(d, j, JOB_REQUEUE_, NULL);
}

void job_node_gone(struct doing *d, struct job *j, uint32_t i)
{
    if (j->allocs[i].gone)
        return;
    alloc_free(d, j, i);
    job_emptied(d, j);
}

void job_emptied(struct doing *d, struct job *j)
{
    if (job_is_empty(j))
        job_happens(d, j, JOB_EMPTY_, NULL);    /* a job that still runs elsewhere in name only is not ended by this: ESTALE */
}

static void job_total(struct job *j)
{
    j->total_cpus = 0;
    for (uint32_t i = 0; i < j->alloc_count; i++)
        j->total_cpus += j->allocs[i].spare ? 0 : j->allocs[i].cpus;
}

/* --no-kill: an allocation may outlive one of its nodes, unless that is where its script runs. */
static bool job_survives(const struct job *j, uint32_t i)
{
    uint32_t members = job_members(j), others = 0;

    for (uint32_t k = 0; k < members; k++)
        others += k != i && !j->allocs[k].gone;
    if (j->allocs[i].spare)
        return true;
    return (members < j->alloc_count || (j->no_kill && others)) && !(j->is_batch && i == 0);
}

/* The job goes on without this node: a spare takes its place, with the same number in the allocation, or those behind it move up. */
static void job_leave_node(struct doing *d, struct job *j, uint32_t i)
{
    uint32_t spare = job_members(j), hole = i;

    for (const struct step *st = j->steps; st; st = st->next)
        if (!job_state_is_end(st->state) && step_alloc_on(st, j->allocs[i].node) && !(st->spec && st->spec->no_kill)) {
            struct event *e = tell(d, EV_JOB_SIGNAL, j);        /* the rest of it has no use for itself, unless srun was told otherwise */

            e->signal = SIGKILL;
            e->step_id = st->step_id;
        }
    steps_gone_on(d, j, j->allocs[i].node);
    alloc_free(d, j, i);
    node_alloc_fini(&j->allocs[i]);
    if (i < spare && spare < j->alloc_count) {
        j->allocs[i] = j->allocs[spare];
        j->allocs[i].spare = false;
        hole = spare;
    }
    memmove(&j->allocs[hole], &j->allocs[hole + 1], (j->alloc_count - hole - 1) * sizeof *j->allocs);
    j->alloc_count--;
    job_total(j);
    job_print_nodes(d->s, j);
    tell(d, EV_JOB_NODES, j);
    tell(d, EV_JOB_CHANGED, j);
}

/* Again in the queue, or over, as its own flags say. */
static void job_fall(struct doing *d, struct job *j, const char *why)
{
    struct job_detail detail = { .reason = REASON_NodeDown, .text = why };
    int64_t most = d->s->config ? config_number(d->s->config, CONF_MaxBatchRequeue) : 5;

    j = het_leader(d->s, j);
    if (!j->is_batch || !j->requeue) {
        job_happens(d, j, JOB_NODE_LOST_, &detail);
        return;
    }
    if (most > 0 && j->restarts >= most) {
        j->flags |= JOB_FLAG_REQUEUE_HOLD;
        j->reason = REASON_JobHoldMaxRequeue;
    }
    job_happens(d, j, JOB_REQUEUE_, NULL);
}

static const char *alloc_node_name(const struct doing *d, const struct node_alloc *a)
{
    return a->node == NODE_REMOVED ? a->lost_name : d->s->nodes[a->node].conf->name;
}

void job_lost_on(struct doing *d, struct job *j, uint32_t i, const char *why)
{
    const struct node_alloc *a = &j->allocs[i];
    enum job_phase phase = job_phase(j);

    if (a->gone)
        return;
    if (phase == PHASE_COMPLETING || phase == PHASE_REQUEUEING) {
        job_node_gone(d, j, i);
        return;
    }
    text_set(&j->failed_node, alloc_node_name(d, a));
    if (job_survives(j, i)) {
        job_leave_node(d, j, i);
        return;
    }
    alloc_free(d, j, i);
    job_fall(d, j, why);
}

void job_broken_on(struct doing *d, struct job *j, uint32_t i, const char *why)
{
    const struct node_alloc *a = &j->allocs[i];
    enum job_phase phase = job_phase(j);

    if (a->gone || (phase != PHASE_LAUNCHING && phase != PHASE_RUNNING && phase != PHASE_SUSPENDED))
        return;
    text_set(&j->failed_node, alloc_node_name(d, a));
    if (job_survives(j, i)) {
        if (a->node != NODE_REMOVED)
            node_orphan(d, &d->s->nodes[a->node], j->job_id, j->attempt);
        job_leave_node(d, j, i);
        return;
    }
    job_fall(d, j, why);        /* what runs there is killed; the node gives back what it held when it says so */
}

void job_print_nodes(struct state *s, struct job *j)
{
    struct hostlist *names = hostlist_create();
    struct str text;

    str_init(&text);
    for (uint32_t i = 0; i < job_members(j); i++)
        hostlist_add(names, j->allocs[i].node == NODE_REMOVED ? j->allocs[i].lost_name : s->nodes[j->allocs[i].node].conf->name);
    hostlist_print(names, &text);
    text_set(&j->nodes, text.text);
    str_fini(&text);
    hostlist_destroy(names);
}

/* Runs j on these allocations, which op_start has checked against the ledger; they change owner. */
int job_start(struct doing *d, struct job *j, const Wire__OpStart *o, struct node_alloc *take_allocs, uint32_t count)
{
    struct state *s = d->s;
    const struct config_partition *part = o->partition ? config_partition_find(s->config, o->partition) : NULL;

    j->exclusive |= part && part->exclusive_nodes;
    j->allocs = take_allocs;
    j->alloc_count = count;
    for (uint32_t i = 0; j->spares && i < count && i < j->spares; i++)
        j->allocs[count - 1 - i].spare = count > j->spares;
    job_total(j);
    if (o->has_ntasks && o->ntasks)
        j->ntasks = j->spares && count > j->spares ? (uint32_t)((uint64_t)o->ntasks * job_members(j) / count) : o->ntasks;
    if (part) {
        share_set(s, &j->partition, part->name);
        j->part_index = (uint32_t)(part - s->config->partitions);
    }
    part = j->part_index < s->config->partition_count ? &s->config->partitions[j->part_index] : NULL;
    if (part && j->time_limit_min == MINUTES_NOT_SET)
        j->time_limit_min = part->default_time_min != MINUTES_NOT_SET ? part->default_time_min : part->max_time_min;
    if (o->has_priority && !j->has_priority_set)
        j->priority = o->priority;
    text_set(&j->why_there, o->why);
    text_set(&j->leaves, o->leaves);
    text_set(&j->fabric, o->fabric);
    j->has_share = o->has_share_permille;
    j->share_permille = o->share_permille;
    j->start_wall_s = s->wall_ms / 1000;
    j->start_cluster_ms = s->cluster_ms;
    j->last_sched_wall_s = j->start_wall_s;
    if (!j->eligible_wall_s)
        j->eligible_wall_s = j->start_wall_s;
    j->reason = REASON_None;
    j->kill_pending = false;
    dependency_started(j);
    job_print_nodes(s, j);
    hooks_begin(s, j);
    return job_happens(d, j, JOB_START_, NULL);
}
