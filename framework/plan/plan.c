/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - keeps the plan's picture of the queue in step with the state, and divides the work into slices.
 *
 * plan_events follows what apply said; nothing here walks the job table but the rebuild after a changed configuration or a change of
 * leader. A pass has two parts. The main pass is short and runs as soon as something may have become possible. Backfill is long, keeps its place
 * between slices, and main passes run in between; both see what the other has proposed. A pass that finds nothing is not repeated
 * until an event or the clock gives it a reason: an unchanged cluster costs nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"
#include "plan/private.h"

/* ---- parameters ----------------------------------------------------------------------------------------------------------- */
static int64_t parameter(const struct config *c, const char *word, int64_t fallback, int64_t least, int64_t most)
{
    char buf[64];
    const char *text = config_word_value(c, CONF_SchedulerParameters, word, buf, sizeof buf);
    int64_t n;

    if (!text || !number_i64(text, &n))
        return fallback;
    return n < least ? least : n > most ? most : n;
}

static void read_params(struct plan_params *o, const struct config *c)
{
    o->backfill = !word_eq(config_text(c, CONF_SchedulerType), "sched/builtin") && !word_eq(config_text(c, CONF_SchedulerType), "builtin");
    o->window_s = parameter(c, "bf_window", 1440, 1, 43200) * 60;
    o->resolution_s = parameter(c, "bf_resolution", 60, 1, 3600);
    o->max_switch_wait_s = parameter(c, "max_switch_wait", 300, 1, 31536000);
    o->interval_s = parameter(c, "bf_interval", 30, 1, 10800);
    /* Slurm looks at 500 jobs unless told otherwise, since more take it minutes; here every job is looked at in every pass. */
    o->max_job_test = (uint32_t)parameter(c, "bf_max_job_test", 1000000, 1, 1000000);
    o->max_job_start = (uint32_t)parameter(c, "bf_max_job_start", 0, 0, 10000);
    o->reservations = (uint32_t)parameter(c, "bf_job_part_count_reserve", 8, 1, 64);
}

/* ---- life ----------------------------------------------------------------------------------------------------------------- */
struct plan *plan_create(void)
{
    struct plan *p = mem_alloc(sizeof *p);

    queue_init(&p->queue);
    table_init(&p->running);
    table_init(&p->alone);
    table_init(&p->limited);
    table_init(&p->ending);
    p->next_rank_ms = INT64_MAX;
    return p;
}

static void flight_fini(struct flight *f)
{
    for (uint32_t i = 0; i < f->alloc_count; i++) {
        bitmap_fini(&f->allocs[i].cores);
        for (uint32_t k = 0; k < f->allocs[i].gres_count; k++) {
            free(f->allocs[i].gres[k].name);
            free(f->allocs[i].gres[k].type);
        }
        free(f->allocs[i].gres);
    }
    free(f->allocs);
}

/* A flight that does not land was taken out of it all the same. */
static void now_drop(struct plan *p)
{
    overlay_destroy(p->now);
    p->now = NULL;
}

static void flights_clear(struct plan *p)
{
    now_drop(p);
    for (size_t i = 0; i < p->flight_count; i++)
        flight_fini(&p->flights[i]);
    p->flight_count = 0;
}

static void flight_drop(struct plan *p, size_t i)
{
    flight_fini(&p->flights[i]);
    memmove(&p->flights[i], &p->flights[i + 1], (--p->flight_count - i) * sizeof *p->flights);
}

/* The job whose start apply has told of: which proposal was that? Returns the record it started from; 0: none of ours. */
static uint32_t flight_landed(struct plan *p, const struct job *j)
{
    for (size_t i = 0; i < p->flight_count; i++) {
        const struct flight *f = &p->flights[i];
        uint32_t from = f->job_id;

        if (f->task_id == UINT32_MAX ? f->job_id == j->job_id : f->array_job_id == j->array_job_id && f->task_id == j->array_task_id) {
            flight_drop(p, i);
            return from;
        }
    }
    return 0;
}

void plan_destroy(struct plan *p)
{
    if (!p)
        return;
    flights_clear(p);
    free(p->flights);
    backfill_drop(p);
    queue_fini(&p->queue);
    table_fini(&p->running);
    table_fini(&p->alone);
    table_fini(&p->limited);
    table_fini(&p->ending);
    free(p->failures.slots);
    bitmap_fini(&p->changed);
    bitmap_fini(&p->shut);
    free(p->unranked);
    free(p);
}

/* ---- one job in the queue -------------------------------------------------------------------------------------------------- */
static uint32_t job_lanes(const struct state *s, const struct job *j, uint32_t *lanes, uint32_t most)
{
    char *text = mem_copy(j->partition ? j->partition : ""), *at = text, *word;
    uint32_t n = 0;

    while ((word = word_next(&at, ","))) {
        const struct config_partition *part = config_partition_find(s->config, word);
        uint32_t i = part ? (uint32_t)(part - s->config->partitions) : UINT32_MAX;
        bool known = !part || n == most;

        for (uint32_t k = 0; k < n && !known; k++)
            known = lanes[k] == i;
        if (!known)
            lanes[n++] = i;
    }
    free(text);
    return n;
}

static uint64_t job_rank(const struct plan *p, const struct state *s, const struct plan_plugins *plugins, struct job *j, int64_t now_s)
{
    const struct config_partition *part = j->part_index < s->config->partition_count ? &s->config->partitions[j->part_index] : NULL;
    struct spur_job_view v = { .size = sizeof v, .job_id = j->job_id, .uid = j->uid, .eligible_wall_s = j->eligible_wall_s, .submit_wall_s = j->submit_wall_s,
                               .nodes = j->min_nodes, .cpus = j->ntasks * j->cpus_per_task, .time_limit_min = j->time_limit_min, .nice = j->nice,
                               .partition = j->partition, .cluster_nodes = s->node_count,
                               .cluster_cpus = p->cluster_cpus, .partition_factor_max = p->factor_max };

    if (j->has_priority_set)
        return j->priority;
    if (part) {
        v.partition_factor = part->priority_job_factor;
        v.partition_tier = part->priority_tier;
    }
    j->priority_advice = plugins && plugins->priority ? plugins->priority->rank(plugins->priority_self, &v, now_s, NULL) : 1;
    return j->priority_advice;
}

#define LANES_MAX 64

/* Last second at which a job with a deadline may start and still end before it. */
static int64_t last_start_s(const struct job *j)
{
    return j->deadline_wall_s - (j->time_limit_min < MINUTES_NOT_SET ? (int64_t)j->time_limit_min * 60 : 1);
}

/* Brings the queue in step with one job: in, out, or in later. Ranks of new ones are taken when the pass begins (rank 0 until then).
 * `changed`: what was asked may be another now, so partitions and rank are looked up again. */
void plan_refresh(struct plan *p, struct state *s, uint32_t job_id, bool changed, int64_t now_s)
{
    struct job *j = state_job(s, job_id), *leader = j && j->state == JOB_PENDING ? het_leader(s, j) : NULL;
    struct entry *e;
    enum job_reason why = REASON_None, closed = REASON_None;
    uint32_t lanes[LANES_MAX], n, open = 0;
    int64_t when = INT64_MAX;
    bool is_eligible;

    if (leader && leader != j) {        /* the first component stands in the queue for all */
        j = leader;
        job_id = j->job_id;
    }
    e = queue_find(&p->queue, job_id);
    if (!j || j->state != JOB_PENDING) {
        table_del(&p->ending, job_id);
        table_del(&p->limited, job_id);
        if (e)
            queue_remove(&p->queue, job_id);
        return;
    }
    if (j->deadline_wall_s && changed)
        queue_wake_at(&p->queue, last_start_s(j) * 1000 + 1000, job_id);
    is_eligible = job_eligible(s, j, now_s, &why, &when);
    if (is_eligible || why != REASON_JobArrayTaskLimit || job_id == j->array_job_id)
        table_del(&p->limited, job_id);
    else if (!table_get(&p->limited, job_id))       /* refresh_array walks here: what is there stays where it is */
        table_put(&p->limited, job_id, (void *)(uintptr_t)job_id);
    if (!is_eligible) {
        job_advise(j, why, NULL);
        if (!j->has_priority_set && !j->priority_advice && !j->held_by_user && !j->held_by_admin) {
            if ((p->unranked_count & (p->unranked_count - 1)) == 0)
                p->unranked = mem_grow(p->unranked, p->unranked_count ? p->unranked_count * 2 : 16, sizeof *p->unranked);
            p->unranked[p->unranked_count++] = job_id;
        }
        if (e)
            queue_remove(&p->queue, job_id);
        if (when != INT64_MAX)
            queue_wake_at(&p->queue, when * 1000, job_id);
        if (why == REASON_DependencyNeverSatisfied && job_ends_unmet(s, j))
            queue_wake_at(&p->queue, 0, job_id);        /* the next pass ends it */
        p->main_due = true;
        return;
    }
    n = job_lanes(s, j, lanes, LANES_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (partition_is_open(&s->config->partitions[lanes[i]], &closed))
            lanes[open++] = lanes[i];
    if (!open) {
        job_advise(j, n ? closed : REASON_PartitionConfig, NULL);
        queue_remove(&p->queue, job_id);
        return;
    }
    p->main_due = true;
    if (e && (e->flying || !changed))
        return;         /* flying: apply's answer to the start refreshes again */
    queue_add(&p->queue, job_id, 0, lanes, open);
    if (j->advice == REASON_None || j->advice == REASON_Dependency || j->advice == REASON_BeginTime || j->advice == REASON_JobHeldUser ||
        j->advice == REASON_JobHeldAdmin || j->advice == REASON_JobArrayTaskLimit)
        job_advise(j, REASON_Priority, NULL);
}

static void running_put(struct plan *p, const struct state *s, const struct job *j)
{
    table_put(&p->running, j->job_id, (void *)(uintptr_t)j->job_id);
    if (job_is_alone(s, j))
        table_put(&p->alone, j->job_id, (void *)(uintptr_t)j->job_id);
}

static void running_del(struct plan *p, uint32_t job_id)
{
    table_del(&p->running, job_id);
    table_del(&p->alone, job_id);
}

static void rebuild(struct plan *p, struct state *s)
{
    struct job *j;

    p->unranked_count = 0;
    flights_clear(p);
    backfill_drop(p);
    queue_clear(&p->queue);
    table_fini(&p->running);
    table_fini(&p->alone);
    table_init(&p->running);
    table_init(&p->alone);
    table_fini(&p->limited);
    table_init(&p->limited);
    table_fini(&p->ending);
    table_init(&p->ending);
    failures_clear(&p->failures);
    p->phase = PHASE_IDLE;
    p->reranking = false;
    p->built = s->config != NULL;
    p->config_version = s->config_version;
    p->all_changed = true;
    bitmap_resize(&p->changed, s->node_count);
    bitmap_resize(&p->shut, s->node_count);
    p->next_rank_ms = INT64_MAX;
    p->main_due = p->backfill_due = true;
    p->backfill_not_before_ms = 0;
    if (!s->config)
        return;
    read_params(&p->params, s->config);
    queue_lanes(&p->queue, (uint32_t)s->config->partition_count);
    p->factor_max = p->cluster_cpus = 0;
    for (uint32_t i = 0; i < p->queue.lane_count; i++) {
        p->queue.lanes[i].tier = s->config->partitions[i].priority_tier;
        if (s->config->partitions[i].priority_job_factor > p->factor_max)
            p->factor_max = s->config->partitions[i].priority_job_factor;
    }
    for (size_t i = 0; i < s->config->node_count; i++)
        p->cluster_cpus += s->config->nodes[i].cpus;
    for (size_t i = 0; (j = table_next(&s->jobs, &i)); ) {
        if (j->state == JOB_PENDING)
            plan_refresh(p, s, j->job_id, true, s->wall_ms / 1000);
        else if (!job_state_is_end(j->state) || (j->flags & JOB_FLAG_COMPLETING))
            running_put(p, s, j);
    }
}

static void nodes_changed(struct plan *p, const struct job *j)
{
    for (uint32_t i = 0; j && i < j->alloc_count; i++)
        if (j->allocs[i].node < p->changed.bits)
            bitmap_set(&p->changed, j->allocs[i].node);
}

/* A task has ended: there is room under %limit for those that wait, in the array's own record and in those split off from it. */
static void refresh_array(struct plan *p, struct state *s, uint32_t array_job_id, int64_t now_s)
{
    void *id;

    plan_refresh(p, s, array_job_id, false, now_s);
    for (size_t i = 0; (id = table_next(&p->limited, &i)); ) {
        const struct job *j = state_job(s, (uint32_t)(uintptr_t)id);

        if (!j || j->array_job_id == array_job_id)
            plan_refresh(p, s, (uint32_t)(uintptr_t)id, false, now_s);
    }
}

void plan_events(struct plan *p, struct state *s, const struct event *events, size_t n)
{
    int64_t now_s = s->wall_ms / 1000;

    if (!events || !p->built) {
        rebuild(p, s);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct event *ev = &events[i];
        struct job *j = state_job(s, ev->job_id);
        uint32_t from;

        switch (ev->kind) {
        case EV_JOB_SUBMITTED:
        case EV_JOB_CHANGED:
            plan_refresh(p, s, ev->job_id, true, now_s);
            break;
        case EV_JOB_STARTED:
            from = j ? flight_landed(p, j) : 0;
            if (from && queue_find(&p->queue, from))
                queue_find(&p->queue, from)->refusals = 0;
            if (from && from != ev->job_id)
                plan_refresh(p, s, from, false, now_s);
            else if (!from && j && j->alloc_count)
                backfill_drop(p);       /* somebody else's start: the profile is wrong */
            if (j) {
                struct entry *e = queue_find(&p->queue, ev->job_id);

                if (e)
                    e->flying = false;
                plan_refresh(p, s, ev->job_id, false, now_s);
                if (!job_state_is_end(j->state) || (j->flags & JOB_FLAG_COMPLETING))
                    running_put(p, s, j);
                nodes_changed(p, j);
            }
            break;
        case EV_JOB_ENDED:
        case EV_JOB_REQUEUED:
        case EV_JOB_GONE:
            plan_refresh(p, s, ev->job_id, ev->kind == EV_JOB_REQUEUED, now_s);
            if (j && j->array_job_id)
                refresh_array(p, s, j->array_job_id, now_s);
            nodes_changed(p, j);
            if (!j || j->state == JOB_PENDING || (job_state_is_end(j->state) && !(j->flags & JOB_FLAG_COMPLETING)))
                running_del(p, ev->job_id);
            p->main_due = p->backfill_due = true;
            break;
        case EV_JOB_PURGED:
            queue_remove(&p->queue, ev->job_id);
            running_del(p, ev->job_id);
            break;
        case EV_NODE_CHANGED:
            if (ev->node < p->changed.bits)
                bitmap_set(&p->changed, ev->node);
            else
                p->all_changed = true;
            p->main_due = p->backfill_due = true;
            break;
        case EV_HOSTS_CHANGED:
        case EV_ACCOUNTS_CHANGED:
            break;
        case EV_CONFIG_CHANGED:
            rebuild(p, s);
            break;
        default:
            break;
        }
    }
    /* Resources that came free, or nodes that went: what failed before may fit, what is reserved may be gone. */
    if (p->failures.view_version != s->view_version) {
        failures_clear(&p->failures);
        p->failures.view_version = s->view_version;
    }
}

void plan_refused(struct plan *p, struct state *s, uint32_t job_id, uint32_t task_id)
{
    struct entry *e = queue_find(&p->queue, job_id);
    const struct job *j = state_job(s, job_id);

    if (table_del(&p->ending, job_id))
        queue_wake_at(&p->queue, s->wall_ms + 1000, job_id);
    for (size_t i = 0; i < p->flight_count; )
        if ((p->flights[i].job_id == job_id && p->flights[i].task_id == task_id) || (j && j->het_count && p->flights[i].job_id - j->het_job_id < j->het_count)) {
            flight_drop(p, i);
            now_drop(p);
            if (!j || !j->het_count)
                break;
        } else {
            i++;
        }
    if (e) {
        e->flying = false;
        /* Once is a race that was lost. Again and again is a disagreement, and asking faster would only fill the log. */
        if (e->refusals < 6)
            e->refusals++;
        if (e->refusals > 1) {
            e->rest_until_ms = s->wall_ms + (500ll << e->refusals);
            queue_wake_at(&p->queue, e->rest_until_ms, job_id);
        }
    }
    failures_clear(&p->failures);
    backfill_drop(p);           /* it counted this one as started */
    plan_refresh(p, s, job_id, false, s->wall_ms / 1000);
    p->main_due = p->backfill_due = true;
}

bool plan_is_dirty(const struct plan *p)
{
    return !p->built || p->main_due || p->reranking || p->phase != PHASE_IDLE || (p->backfill_due && p->params.backfill);
}

int64_t plan_next_wall_ms(const struct plan *p)
{
    int64_t next = p->next_rank_ms;

    if (p->queue.heap_count && p->queue.heap[0].wall_ms < next)
        next = p->queue.heap[0].wall_ms;
    if (p->backfill_due && p->params.backfill && p->backfill_not_before_ms < next)
        next = p->backfill_not_before_ms;
    return next;
}

/* ---- slices --------------------------------------------------------------------------------------------------------------- */
static void wake(struct slice *sl)
{
    struct plan *p = sl->p;
    uint32_t job_id;

    while (sl->units && queue_woken(&p->queue, sl->now_ms, &job_id)) {
        struct job *j = state_job(sl->s, job_id);
        enum job_reason why = REASON_None;
        int64_t when;

        slice_spend(sl, 1);
        if (!j || j->state != JOB_PENDING)
            continue;
        if (slice_too_late(sl, queue_find(&p->queue, job_id), j))
            continue;
        if (!job_eligible(sl->s, j, sl->now_s, &why, &when) && why == REASON_DependencyNeverSatisfied && job_ends_unmet(sl->s, j)) {
            job_advise(j, why, NULL);
            slice_cancel(sl, NULL, j, false);
            continue;
        }
        plan_refresh(p, sl->s, job_id, false, sl->now_s);
    }
}

#define RERANK_SLICE 4096

static uint32_t rank_period_s(const struct slice *sl)
{
    const struct spur_priority_ops *ops = sl->plugins->priority;

    return ops && SPUR_HAS(ops, period_s) ? ops->period_s(sl->plugins->priority_self) : 0;
}

/* New jobs get their first rank and their place. */
static void rank_fresh(struct slice *sl)
{
    struct plan *p = sl->p;
    uint32_t period = rank_period_s(sl);

    for (size_t i = 0; i < p->unranked_count; i++) {
        struct job *j = state_job(sl->s, p->unranked[i]);

        if (j && !j->priority_advice)
            job_rank(p, sl->s, sl->plugins, j, sl->now_s);
    }
    p->unranked_count = 0;
    for (uint32_t i = 0; i < p->queue.lane_count; i++)
        for (size_t k = 0; k < p->queue.lanes[i].fresh_count; k++) {
            struct entry *e = p->queue.lanes[i].fresh[k];
            struct job *j = e->dead || e->rank ? NULL : state_job(sl->s, e->job_id);

            if (j)
                e->rank = job_rank(p, sl->s, sl->plugins, j, sl->now_s);
        }
    queue_merge(&p->queue);
    if (p->next_rank_ms == INT64_MAX && period)
        p->next_rank_ms = sl->now_ms + (int64_t)period * 1000;
}

/* Age has changed all ranks: asks for a few thousand a slice, and turns the queue over at the end, between two main passes. */
static void rerank(struct slice *sl)
{
    struct plan *p = sl->p;
    struct entry *e = NULL;

    if (!p->reranking) {
        p->reranking = true;
        p->rerank_at = 0;
    }
    for (int n = 0; n < RERANK_SLICE && (e = table_next(&p->queue.entries, &p->rerank_at)); n++) {
        struct job *j = state_job(sl->s, e->job_id);

        e->next_rank = j ? job_rank(p, sl->s, sl->plugins, j, sl->now_s) : 0;
    }
    slice_spend(sl, UNITS_PLACE);
    if (e || p->phase == PHASE_MAIN)
        return;
    for (size_t i = 0; (e = table_next(&p->queue.entries, &i)); ) {
        e->rank = e->next_rank ? e->next_rank : e->rank;
        e->next_rank = 0;
    }
    rank_fresh(sl);
    queue_sort(&p->queue);
    p->reranking = false;
    p->next_rank_ms = rank_period_s(sl) ? sl->now_ms + (int64_t)rank_period_s(sl) * 1000 : INT64_MAX;
    p->main_due = true;
}

void plan_pass(struct plan *p, struct state *s, const struct plan_plugins *plugins, int64_t now_wall_ms, int64_t now_cluster_ms,
               struct plan_budget budget, struct arena *a, struct decisions *out)
{
    struct slice sl = { .p = p, .s = s, .plugins = plugins, .now_ms = now_wall_ms, .now_s = now_wall_ms / 1000, .cluster_ms = now_cluster_ms,
                        .units = (budget.placements ? budget.placements : 1) * UNITS_PLACE, .arena = a, .out = out };
    uint32_t before;

    *out = (struct decisions){ 0 };
    if (!p->built || p->config_version != s->config_version)
        rebuild(p, s);
    if (!p->built)
        return;
    if (p->failures.view_version != s->view_version) {      /* not by an entry: a node's connection has gone or come */
        failures_clear(&p->failures);
        p->failures.view_version = s->view_version;
        p->all_changed = p->main_due = p->backfill_due = true;
    }
    wake(&sl);
    if (p->reranking || now_wall_ms >= p->next_rank_ms)
        rerank(&sl);
    if (p->phase != PHASE_MAIN && p->main_due) {
        rank_fresh(&sl);
        for (uint32_t i = 0; i < p->queue.lane_count; i++)
            p->queue.lanes[i].blocked = false;
        bitmap_zero(&p->shut);
        p->any_shut = false;
        p->main_due = false;
        p->pass_number++;
        p->phase = PHASE_MAIN;
    }
    if (p->phase == PHASE_MAIN && main_pass_slice(&sl))
        p->phase = p->backfill ? PHASE_BACKFILL : PHASE_IDLE;
    if (p->phase == PHASE_IDLE && p->backfill_due && p->params.backfill && now_wall_ms >= p->backfill_not_before_ms && sl.units) {
        before = sl.units;
        backfill_begin(&sl);
        p->backfill_cost = before - sl.units;
        p->backfill_due = false;
        p->phase = PHASE_BACKFILL;
    }
    before = sl.units;
    if (p->phase == PHASE_BACKFILL && sl.units && backfill_slice(&sl)) {
        /* A cheap pass may come again soon, a dear one leaves the loop to others: a millisecond for each placement, bf_interval at most. */
        int64_t pause_ms = (int64_t)(p->backfill_cost + before - sl.units) / UNITS_PLACE;

        p->backfill_not_before_ms = now_wall_ms + (pause_ms < p->params.interval_s * 1000 ? pause_ms : p->params.interval_s * 1000);
        p->phase = PHASE_IDLE;
        backfill_drop(p);
    } else if (p->phase == PHASE_BACKFILL) {
        p->backfill_cost += before - sl.units;
    }
    out->more = p->main_due || p->reranking || p->phase != PHASE_IDLE;
    if (!out->more && !p->flight_count)
        now_drop(p);
}
