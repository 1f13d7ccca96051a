/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - the operations on whole jobs: start, cancel, time limit, purge. One function an op; submit, update, report and step have files of their own. */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "state/private.h"

static struct job *job_known(struct doing *d, uint32_t job_id)
{
    struct job *j = state_job(d->s, job_id);

    if (!j)
        refuse(d, SPUR_ENOTFOUND, ESLURM_INVALID_JOB_ID, "job %u is not known", job_id);
    return j;
}

static void add_record(struct job ***list, size_t *count, struct job *j)
{
    if ((*count & (*count - 1)) == 0)       /* full at each power of two */
        *list = mem_grow(*list, *count ? 2 * *count : 1, sizeof **list);
    (*list)[(*count)++] = j;
}

size_t command_records(struct doing *d, uint32_t job_id, const char *tasks, bool has_task, uint32_t task, bool split, struct job ***out)
{
    struct state *s = d->s;
    struct job *j = state_job(s, job_id), *root;
    struct job **list = NULL;
    struct bitmap asked = { 0 };
    size_t count = 0;
    bool all = !has_task && (!tasks || !*tasks), is_root;

    *out = NULL;
    if (!j)
        return 0;
    is_root = j->array && j->array_job_id == j->job_id;
    root = is_root ? j : NULL;
    if (!is_root || (all && !root->array->task_job)) {
        if (all)
            add_record(&list, &count, j);
        *out = list;
        return count;
    }
    bitmap_init(&asked, root->array->pending.bits);
    if (all) {
        bitmap_fill(&asked);
    } else if (has_task) {
        if (task < asked.bits)
            bitmap_set(&asked, task);
    } else {
        struct bitmap wide = { 0 };
        struct spur_error err;
        uint32_t id;
        bool some;

        if (job_id_parse(arena_printf(d->arena, "%u_[%s]", job_id, tasks), &id, &wide, &some, &err) == 0 && some) {
            bitmap_resize(&wide, asked.bits);
            bitmap_copy(&asked, &wide);
            bitmap_fini(&wide);
        }
    }
    for (size_t t = bitmap_first(&asked); t < asked.bits; t = bitmap_next(&asked, t)) {
        struct job *r = state_array_record(s, root->job_id, (uint32_t)t);

        if (!r || !bitmap_test(&asked, t))
            continue;
        if (split && job_is_task_set(r) && r->state == JOB_PENDING) {
            struct bitmap part;

            bitmap_init(&part, 0);
            bitmap_copy(&part, &asked);
            bitmap_resize(&part, r->array->pending.bits);
            bitmap_and(&part, &r->array->pending);
            r = array_split(s, r, &part);
            if (r)
                bitmap_and_not(&asked, &part);
            bitmap_fini(&part);
            if (!r) {
                refuse(d, SPUR_ELIMIT, 0, "every job id from FirstJobId to MaxJobId is in use");
                break;
            }
        } else if (job_is_task_set(r)) {
            struct bitmap part;

            bitmap_init(&part, 0);
            bitmap_copy(&part, &r->array->pending);
            bitmap_resize(&part, asked.bits);
            bitmap_and_not(&asked, &part);
            bitmap_fini(&part);
        }
        add_record(&list, &count, r);
    }
    bitmap_fini(&asked);
    *out = list;
    return count;
}

/* ---- start ---- */

static struct job *start_record(struct doing *d, const Wire__OpStart *o)
{
    struct state *s = d->s;
    struct job *j = job_known(d, o->job_id);
    struct bitmap one;

    if (!j)
        return NULL;
    if (!job_is_task_set(j)) {
        if (o->has_array_task_id && o->array_task_id != UINT32_MAX && o->array_task_id != j->array_task_id) {
            refuse(d, SPUR_ESTALE, 0, "job %u is not array task %u", o->job_id, o->array_task_id);
            return NULL;
        }
        return j;
    }
    if (!o->has_array_task_id || !bitmap_test(&j->array->pending, o->array_task_id)) {
        refuse(d, SPUR_ESTALE, 0, "array task %u_%u is not waiting", o->job_id, o->array_task_id);
        return NULL;
    }
    if (!dependency_task_holds(j, o->array_task_id, s->wall_ms / 1000)) {
        refuse(d, SPUR_ESTALE, 0, "array task %u_%u: its dependency does not hold", o->job_id, o->array_task_id);
        return NULL;
    }
    bitmap_init(&one, j->array->pending.bits);
    bitmap_set(&one, o->array_task_id);
    j = array_split(s, j, &one);
    bitmap_fini(&one);
    if (!j)
        refuse(d, SPUR_ELIMIT, 0, "every job id from FirstJobId to MaxJobId is in use");
    return j;
}

static int start_refuse_job(struct doing *d, const Wire__OpStart *o, const struct config_partition **part)
{
    struct state *s = d->s;
    const struct job *j = job_known(d, o->job_id);
    enum job_reason why;

    if (!j)
        return d->result->code;
    if (j->state != JOB_PENDING)
        return refuse(d, SPUR_ESTALE, 0, "job %u is not pending", o->job_id);
    if (o->attempt != j->attempt)
        return refuse(d, SPUR_ESTALE, 0, "job %u: decided for attempt %u, it is at %u", o->job_id, o->attempt, j->attempt);
    if (!job_eligible(s, j, s->wall_ms / 1000, &why, NULL))
        return refuse(d, SPUR_ESTALE, 0, "job %u may not start: %s", o->job_id, job_reason_name(why));
    if (!o->n_allocs || o->n_allocs > s->node_count)
        return refuse(d, SPUR_EINVAL, 0, "job %u: a decision for %zu nodes", o->job_id, o->n_allocs);
    *part = o->partition && s->config ? config_partition_find(s->config, o->partition) : NULL;
    if (o->partition && !*part)
        return refuse(d, SPUR_ESTALE, ESLURM_INVALID_PARTITION_NAME, "job %u: partition %.64s does not exist", o->job_id, o->partition);
    if (*part && !word_eq((*part)->state, "UP") && !word_eq((*part)->state, "DRAIN"))
        return refuse(d, SPUR_ESTALE, 0, "job %u: partition %s is %s", o->job_id, (*part)->name, (*part)->state);
    return 0;
}

static int start_check_node(struct state *s, const struct node_alloc *a, const struct config_partition *part, bool exclusive, struct spur_error *err)
{
    const struct node *n = &s->nodes[a->node];

    if (!node_may_start(n))
        return spur_fail(err, SPUR_ESTALE, "node %s cannot be used now", n->conf->name);
    if (part && !bitmap_test(&part->nodes, a->node))
        return spur_fail(err, SPUR_ESTALE, "node %s is not in partition %s", n->conf->name, part->name);
    return ledger_check(s, a, exclusive, err);
}

/* All of a decision is checked before a task is split off or anything is charged: a stale one leaves no trace. 0, or refused; allocs are the caller's either way. */
int start_prepare(struct doing *d, const Wire__OpStart *o, const struct config_partition **part, struct node_alloc **allocs, uint32_t *count)
{
    struct state *s = d->s;
    struct spur_error err = { 0 };
    struct bitmap seen;
    bool exclusive;

    if (start_refuse_job(d, o, part) < 0)
        return d->result->code;
    exclusive = state_job(s, o->job_id)->exclusive || (*part && (*part)->exclusive_nodes);
    *allocs = mem_array(o->n_allocs, sizeof **allocs);
    bitmap_init(&seen, s->node_count);
    for (int rc = 0; rc == 0 && *count < o->n_allocs; ) {
        struct node_alloc *a = &(*allocs)[*count];

        rc = ledger_alloc_from(s, o->allocs[*count], a, &err);
        if (rc < 0)
            break;
        rc = start_check_node(s, a, *part, exclusive, &err);
        if (rc == 0 && bitmap_test(&seen, a->node))
            rc = spur_fail(&err, SPUR_EINVAL, "node %s is named twice", s->nodes[a->node].conf->name);
        bitmap_set(&seen, a->node);
        (*count)++;
    }
    bitmap_fini(&seen);
    return err.code ? refuse(d, err.code, 0, "job %u: %s", o->job_id, err.text) : 0;
}

void op_start(struct doing *d, const Wire__OpStart *o)
{
    const struct config_partition *part = NULL;
    struct node_alloc *allocs = NULL;
    struct job *j = state_job(d->s, o->job_id);
    uint32_t count = 0;

    if (j && j->het_job_id)
        refuse(d, SPUR_ESTALE, ESLURM_NOT_WHOLE_HET_JOB, "job %u is a component of heterogeneous job %u, which starts as a whole", j->job_id, j->het_job_id);
    else if (start_prepare(d, o, &part, &allocs, &count) == 0 && (j = start_record(d, o))) {
        job_start(d, j, o, allocs, count);
        d->result->job_id = j->job_id;
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        node_alloc_fini(&allocs[i]);
    free(allocs);
}

/* ---- cancel ---- */

static enum job_happening ended_how(int32_t status)
{
    return status == 0 ? JOB_EXIT_OK_ : JOB_EXIT_BAD_;
}

static int cancel_one(struct doing *d, struct job *j, const Wire__OpCancel *o)
{
    struct state *s = d->s;
    struct job_detail detail = { .status = o->status };
    bool never = false;
    int64_t when;
    int rc;

    if (o->signal_only) {
        struct event *e;

        if (j->state != JOB_RUNNING || j->flags & JOB_FLAG_COMPLETING)
            return j->state == JOB_PENDING ? SPUR_EINVAL : SPUR_ESTALE;
        e = tell(d, EV_JOB_SIGNAL, j);
        e->signal = (int)o->signal;
        e->batch_only = o->batch_only;
        e->full = o->full;
        if (o->has_step_id)
            e->step_id = o->step_id;
        e->end_step = o->has_step_id && o->end_step;
        return 0;
    }
    if (o->ended_by_deadline) {
        /* One that waits is ended as soon as its limit reaches beyond the deadline, as in Slurm. */
        int64_t need_s = j->state == JOB_PENDING && j->time_limit_min < MINUTES_NOT_SET ? (int64_t)j->time_limit_min * 60 : 0;

        if (!j->deadline_wall_s || (j->deadline_wall_s > s->wall_ms / 1000 && j->deadline_wall_s >= s->wall_ms / 1000 + need_s))
            return SPUR_ESTALE;
        return job_happens(d, j, JOB_DEADLINE_, NULL);
    }
    if (o->never_satisfied) {
        const struct job *waits = j;

        for (uint32_t k = 1; k < j->het_count && !waits->dep_count; k++)        /* what any component waits for */
            waits = het_part(s, j, k) ? het_part(s, j, k) : waits;
        detail.reason = REASON_DependencyNeverSatisfied;
        if (j->state != JOB_PENDING || !waits->dep_count || dependency_holds(waits, s->wall_ms / 1000, &never, &when) || !never)
            return SPUR_ESTALE;
        return job_happens(d, j, JOB_CANCEL_, &detail);
    }
    if (o->finish && j->state == JOB_RUNNING) {
        detail.status = o->has_status ? o->status : j->derived_status;
        return job_happens(d, j, ended_how(detail.status), &detail);
    }
    rc = job_happens(d, j, JOB_CANCEL_, NULL);
    return rc;
}

/* The first component is all of them, but for a signal that was meant for it alone. While they wait there is no other way to end one. */
static void cancel_het(struct doing *d, struct job *j, const Wire__OpCancel *o)
{
    size_t count, done = 0;
    struct job **parts = het_records(d, j, o->het_alone || !o->signal_only || o->batch_only, &count);
    int first = 0;

    if (j->state == JOB_PENDING && !o->signal_only && !o->ended_by_deadline && !o->never_satisfied && (j->het_offset || o->het_alone)) {
        het_refuse_single(d, j);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int rc = cancel_one(d, parts[i], o);

        done += rc == 0;
        first = first ? first : rc;
    }
    if (!done)
        refuse(d, first, first == SPUR_EINVAL ? ESLURM_JOB_PENDING : ESLURM_ALREADY_DONE,
               first == SPUR_EINVAL ? "job %u is pending: there is nothing to signal" : "job %u has ended already", o->job_id);
}

void op_cancel(struct doing *d, const Wire__OpCancel *o)
{
    struct job **records = NULL;
    size_t count, done = 0;
    int first = 0;

    struct job *j = job_known(d, o->job_id);

    if (!j)
        return;
    d->result->job_id = o->job_id;
    if (j->het_job_id) {
        cancel_het(d, j, o);
        return;
    }
    count = command_records(d, o->job_id, o->tasks, o->has_array_task_id, o->array_task_id, true, &records);
    if (d->result->code)
        goto out;
    if (!count) {
        refuse(d, SPUR_ENOTFOUND, ESLURM_INVALID_JOB_ID, "job %u has no such array task", o->job_id);
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        int rc = cancel_one(d, records[i], o);

        done += rc == 0;
        first = first ? first : rc;
    }
    if (!done)
        refuse(d, first, first == SPUR_EINVAL ? ESLURM_JOB_PENDING : ESLURM_ALREADY_DONE,
               first == SPUR_EINVAL ? "job %u is pending: there is nothing to signal" : o->ended_by_deadline || o->never_satisfied ? "job %u: that is not so" :
               "job %u has ended already", o->job_id);
out:
    free(records);
}

/* ---- time limit, purge ---- */

int64_t state_job_limit_ms(const struct state *s, const struct job *j)
{
    const struct config_partition *part = s->config && j->part_index < s->config->partition_count ? &s->config->partitions[j->part_index] : NULL;
    int64_t over = part && part->over_time_limit != MINUTES_NOT_SET ? part->over_time_limit : s->config ? config_number(s->config, CONF_OverTimeLimit) : 0;

    if (j->state != JOB_RUNNING || j->time_limit_min >= MINUTES_NOT_SET || over < 0 || over >= 65535)      /* UNLIMITED, of the partition or for all */
        return INT64_MAX;
    return j->start_cluster_ms + j->suspended_ms + ((int64_t)j->time_limit_min + over) * 60000;
}

void op_time_limit(struct doing *d, const Wire__OpTimeLimit *o)
{
    struct state *s = d->s;
    struct job *j = job_known(d, o->job_id);

    if (!j)
        return;
    if (s->cluster_ms < state_job_limit_ms(s, j)) {
        refuse(d, SPUR_ESTALE, 0, "job %u has not reached its time limit", o->job_id);
        return;
    }
    if (job_happens(d, j, JOB_TIMEOUT_, NULL) < 0)
        refuse(d, SPUR_ESTALE, 0, "job %u is ending already", o->job_id);
}

static bool record_forgettable(const struct state *s, const struct job *j, int64_t before_cluster_ms)
{
    const struct job *root;

    if (job_phase(j) != PHASE_ENDED || j->end_cluster_ms >= before_cluster_ms)
        return false;
    root = j->array_job_id == j->job_id ? job_root(s, j) : NULL;
    return !root || (!root->array->records && array_complete(root));
}

/* Components are known as long as one of them is. */
static bool job_forgettable(const struct state *s, const struct job *j, int64_t before_cluster_ms)
{
    return record_forgettable(s, j, before_cluster_ms) && het_forgettable(s, j, record_forgettable, before_cluster_ms);
}

static void job_forget(struct doing *d, struct job *j, int64_t before_cluster_ms)
{
    struct state *s = d->s;
    struct job *root = j->array_job_id && j->array_job_id != j->job_id ? job_root(s, j) : NULL;

    tell(d, EV_JOB_PURGED, j);
    if (j->has_script)
        blob_drop(d, j->script_hash);
    if (j->has_env)
        blob_drop(d, j->env_hash);
    steps_drop(d, j);
    job_leave(s, j);
    dependency_forget(s, j->job_id);
    job_destroy(s, j);
    if (root && --root->array->records == 0 && job_forgettable(s, root, before_cluster_ms))     /* it waited for the last of its tasks */
        job_forget(d, root, before_cluster_ms);
}

void op_purge(struct doing *d, const Wire__OpPurge *o)
{
    struct state *s = d->s;
    struct job *j;

    for (size_t at = 0; (j = table_next(&s->priv->ended, &at)); )
        if (job_forgettable(s, j, o->before_cluster_ms))
            job_forget(d, j, o->before_cluster_ms);
}
