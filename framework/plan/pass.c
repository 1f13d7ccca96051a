/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c - the main pass: looks at the heads of the lanes and starts what fits, until every lane's head has to wait.
 *
 * Called by plan_pass (plan.c) slice by slice. A head that has to wait blocks its lane; the nodes of its partition are then kept from the other
 * lanes too, else a partition of lower tier would take what the head is waiting for. Small jobs behind a head are backfill's.
 * A job that can never start where it stands (limits of the partition, nodes that are down, impossible wishes) is passed over: it
 * waits for an administrator, and nobody waits for it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "plan/private.h"

static const char nodes_text[] = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";

/* ---- failures ------------------------------------------------------------------------------------------------------------- */
void failures_clear(struct failures *f)
{
    if (f->used)
        memset(f->slots, 0, f->size * sizeof *f->slots);
    f->used = 0;
}

bool failures_has(const struct failures *f, uint64_t key)
{
    key += !key;
    for (size_t i = f->size ? key & (f->size - 1) : 0; f->size && f->slots[i]; i = (i + 1) & (f->size - 1))
        if (f->slots[i] == key)
            return true;
    return false;
}

void failures_add(struct failures *f, uint64_t key)
{
    size_t i;

    key += !key;
    if (f->used * 2 >= f->size) {
        struct failures bigger = { .size = f->size ? f->size * 2 : 64, .view_version = f->view_version };

        bigger.slots = mem_array(bigger.size, sizeof *bigger.slots);
        for (i = 0; i < f->size; i++)
            if (f->slots[i])
                failures_add(&bigger, f->slots[i]);
        free(f->slots);
        *f = bigger;
    }
    for (i = key & (f->size - 1); f->slots[i]; i = (i + 1) & (f->size - 1))
        if (f->slots[i] == key)
            return;
    f->slots[i] = key;
    f->used++;
}

/* ---- a slice -------------------------------------------------------------------------------------------------------------- */
bool slice_spend(struct slice *sl, uint32_t units)
{
    if (sl->units < units) {
        sl->units = 0;
        return false;
    }
    sl->units -= units;
    return true;
}

/* What has landed, ended or changed since the last slice is in the base; on those nodes the starts that are still in the air are taken again. */
static bool now_follow(struct slice *sl)
{
    struct plan *p = sl->p;
    const uint32_t *nodes;
    struct bitmap again;
    size_t count;

    if (!overlay_follow(p->now, sl->s, &nodes, &count))
        return false;
    if (!count || !p->flight_count)
        return true;
    bitmap_init(&again, sl->s->node_count);
    for (size_t i = 0; i < count; i++)
        bitmap_set(&again, nodes[i]);
    for (size_t i = 0; i < p->flight_count; i++)
        for (uint32_t k = 0; k < p->flights[i].alloc_count; k++)
            if (bitmap_test(&again, p->flights[i].allocs[k].node))
                overlay_take_allocs(p->now, &p->flights[i].allocs[k], 1);
    bitmap_fini(&again);
    return true;
}

const struct spur_view *slice_view(struct slice *sl)
{
    struct plan *p = sl->p;

    if (p->now && !sl->now_is_fresh && !now_follow(sl)) {
        overlay_destroy(p->now);
        p->now = NULL;
    }
    if (!p->now && p->flight_count) {
        p->now = overlay_create(sl->s);
        for (size_t i = 0; i < p->flight_count; i++)
            overlay_take_allocs(p->now, p->flights[i].allocs, p->flights[i].alloc_count);
        slice_spend(sl, units_here(sl->s, UNITS_OVERLAY));
    }
    sl->now_is_fresh = p->now != NULL;
    return p->now ? overlay_view(p->now) : state_view(sl->s);
}

static void tell_plugin(struct slice *sl)
{
    struct plan *p = sl->p;
    uint32_t *nodes;
    size_t n = 0;

    if (!p->all_changed && bitmap_empty(&p->changed))
        return;
    if (SPUR_HAS(sl->plugins->select, changed)) {
        if (p->all_changed) {
            sl->plugins->select->changed(sl->plugins->select_self, state_view(sl->s), NULL, 0);
        } else {
            nodes = arena_alloc(sl->arena, (bitmap_count(&p->changed) + 1) * sizeof *nodes);
            for (size_t i = bitmap_first(&p->changed); i < p->changed.bits; i = bitmap_next(&p->changed, i))
                nodes[n++] = (uint32_t)i;
            sl->plugins->select->changed(sl->plugins->select_self, state_view(sl->s), nodes, n);
        }
    }
    p->all_changed = false;
    bitmap_zero(&p->changed);
}

int slice_place(struct slice *sl, const struct spur_view *view, struct wish *w, uint32_t job_id, const struct bitmap *shut,
                struct spur_placement **where, const struct spur_ask **which, struct spur_error *err)
{
    const struct bitmap *avoid = slice_avoid(sl, w->alone);
    int rc = SPUR_ENEVER;

    tell_plugin(sl);
    if (avoid && shut) {
        for (size_t k = 0; k < bitmap_words(avoid->bits) && k < bitmap_words(shut->bits); k++)
            avoid->words[k] |= shut->words[k];
    }
    shut = avoid ? avoid : shut;
    for (uint32_t i = 0; i < w->count; i++) {
        struct spur_ask *ask = &w->asks[i];
        uint32_t room = ask->max_nodes < sl->s->node_count ? ask->max_nodes : sl->s->node_count;
        int got;

        ask->job_id = job_id;
        if (shut) {
            uint64_t *words = arena_copy_bytes(sl->arena, ask->allowed, ask->node_words * sizeof *words), left = 0, missing = 0;

            for (uint32_t k = 0; k < ask->node_words; k++) {
                words[k] &= ~shut->words[k];
                left |= words[k];
                missing |= ask->required ? ask->required[k] & ~words[k] : 0;
            }
            if (!left || missing) {
                rc = SPUR_ELATER;
                continue;
            }
            ask->allowed = words;
        }
        if (!*where || (*where)->pick_room < room)
            *where = placement_room(sl->s, sl->arena, room);
        (*where)->pick_count = 0;
        slice_spend(sl, units_place(sl->s));
        got = sl->plugins->select->place(sl->plugins->select_self, view, ask, *where, err);
        if (got == 0 && (*where)->pick_count) {
            *which = ask;
            return 0;
        }
        if (!spur_select_is_never(got) || shut)
            rc = SPUR_ELATER;
    }
    return rc;
}

/* ---- advice --------------------------------------------------------------------------------------------------------------- */
void job_advise(struct job *j, enum job_reason reason, const char *text)
{
    j->advice = (uint16_t)reason;
    if (text && j->advice_text && strcmp(text, j->advice_text) == 0)
        return;
    free(j->advice_text);
    j->advice_text = mem_copy(text);
}

bool partition_is_open(const struct config_partition *part, enum job_reason *why)
{
    if (word_eq(part->state, "DOWN"))
        *why = REASON_PartitionDown;
    else if (word_eq(part->state, "INACTIVE"))
        *why = REASON_PartitionInactive;
    else
        return true;
    return false;
}

bool slice_nodes_exist(struct slice *sl, struct job *j, const struct wish *w, const struct spur_view *view)
{
    const struct spur_ask *ask = &w->asks[w->count - 1];
    uint32_t usable = 0;

    if (ask->required) {
        struct hostlist *missing = hostlist_create();
        struct str text;

        for (uint32_t i = 0; i < view->node_count; i++)
            if ((ask->required[i / 64] >> (i % 64) & 1) && !(spur_view_node(view, i)->flags & SPUR_NODE_USABLE))
                hostlist_add(missing, sl->s->nodes[i].conf->name);
        str_init(&text);
        if (hostlist_count(missing)) {
            str_add(&text, "ReqNodeNotAvail, UnavailableNodes:");
            hostlist_print(missing, &text);
            job_advise(j, REASON_ReqNodeNotAvail, text.text);
        }
        str_fini(&text);
        usable = (uint32_t)hostlist_count(missing);
        hostlist_destroy(missing);
        return usable == 0;
    }
    for (uint32_t k = 0; k < w->count; k++) {
        ask = &w->asks[k];
        usable = 0;
        for (uint32_t i = 0; i < ask->node_words; i++)
            for (uint64_t bits = ask->allowed[i]; bits; bits &= bits - 1)
                if (spur_view_node(view, i * 64 + (uint32_t)__builtin_ctzll(bits))->flags & SPUR_NODE_USABLE && ++usable >= ask->min_nodes)
                    return true;
    }
    job_advise(j, REASON_ReqNodeNotAvail, nodes_text);
    return false;
}

/* ---- one job -------------------------------------------------------------------------------------------------------------- */
/* --switches=N@TIME: after so long, and max_switch_wait at most, any number of switches will do. A wake-up makes sure that somebody looks then. */
static bool switches_over(struct slice *sl, struct entry *e, const struct job *j, const Wire__JobSpec *spec)
{
    int64_t wait_s = sl->p->params.max_switch_wait_s;

    if (spec->has_switch_wait_s && spec->switch_wait_s < wait_s)
        wait_s = spec->switch_wait_s;
    if (!e->switches_until_s) {
        e->switches_until_s = (j->eligible_wall_s ? j->eligible_wall_s : sl->now_s) + wait_s;
        if (e->switches_until_s > sl->now_s)
            queue_wake_at(&sl->p->queue, e->switches_until_s * 1000, j->job_id);
    }
    return sl->now_s >= e->switches_until_s;
}

struct wish *slice_wish(struct slice *sl, struct entry *e, struct job *j, const struct config_partition *part)
{
    Wire__JobSpec *spec = job_spec(j, sl->arena);
    struct wish *w = arena_alloc(sl->arena, sizeof *w);
    struct spur_error err = { 0 };
    enum job_reason why;
    unsigned limit;

    if (!partition_is_open(part, &why)) {
        job_advise(j, why, NULL);
        return NULL;
    }
    if ((limit = partition_limit(sl->s->config, part, spec, &err)) != REASON_None) {
        job_advise(j, (enum job_reason)limit, NULL);
        return NULL;
    }
    if (spec->switches && switches_over(sl, e, j, spec))
        spec->switches = 0;     /* unpacked for this pass alone: the job's own record keeps them */
    if (wish_build(sl->s, spec, part, sl->arena, w, &err) < 0) {
        job_advise(j, REASON_BadConstraints, err.text);     /* a node or a feature that was there at submit is gone */
        return NULL;
    }
    return w;
}

static bool corresponds(const struct job *j, uint32_t task)
{
    for (uint32_t i = 0; i < j->dep_count; i++)
        if (j->deps[i].type == DEP_AFTERCORR && j->deps[i].status != DEP_HOLDS && !bitmap_test(&j->deps[i].ok, task))
            return false;
    return true;
}

bool slice_task(struct slice *sl, const struct job *j, uint32_t *task)
{
    const struct job *root;
    uint32_t flying = 0;        /* tasks of this array on their way: apply has not counted them yet */

    *task = UINT32_MAX;
    if (!j->array_job_id)
        return true;
    for (size_t i = 0; i < sl->p->flight_count; i++)
        flying += sl->p->flights[i].array_job_id == j->array_job_id;
    root = state_job(sl->s, j->array_job_id);
    if (flying && root && root->array && root->array->limit && root->array->running + flying >= root->array->limit)
        return false;
    if (!job_is_task_set(j))
        return true;            /* one that was started before and is back */
    *task = array_next_task(sl->s, j);
    if (!flying || *task == UINT32_MAX)
        return *task != UINT32_MAX;
    for (uint32_t i = 0; i < j->dep_count; i++)
        if (j->deps[i].type == DEP_SINGLETON)
            return false;       /* the first to start keeps the others waiting */
    for (size_t t = *task; t < j->array->pending.bits; t = bitmap_next(&j->array->pending, t)) {
        bool taken = false;

        for (size_t i = 0; i < sl->p->flight_count && !taken; i++)
            taken = sl->p->flights[i].job_id == j->job_id && sl->p->flights[i].task_id == t;
        if (!taken && (j->deps_any || corresponds(j, (uint32_t)t))) {
            *task = (uint32_t)t;
            return true;
        }
    }
    return false;
}

void slice_add_op(struct slice *sl, Wire__Op *op)
{
    struct decisions *d = sl->out;

    if (d->op_count == sl->op_room) {
        size_t room = sl->op_room ? sl->op_room * 2 : 16;
        Wire__Op **ops = arena_alloc(sl->arena, room * sizeof *ops);

        if (d->op_count)
            memcpy(ops, d->ops, d->op_count * sizeof *ops);
        d->ops = ops;
        sl->op_room = room;
    }
    d->ops[d->op_count++] = op;
}

static Wire__NodeAlloc *pick_alloc(struct slice *sl, const struct spur_view *view, const struct spur_node_pick *pick)
{
    const struct spur_node_view *n = spur_view_node(view, pick->node);
    Wire__NodeAlloc *w = arena_alloc(sl->arena, sizeof *w);

    wire__node_alloc__init(w);
    w->node = pick->node;
    w->name = arena_copy(sl->arena, sl->s->nodes[pick->node].conf->name);
    w->has_cpus = w->has_tasks = w->has_mem_mib = true;
    w->cpus = pick->cpus;
    w->tasks = pick->tasks;
    w->mem_mib = pick->mem;
    w->n_cores = n->core_words < pick->core_words ? n->core_words : pick->core_words;
    w->cores = arena_copy_bytes(sl->arena, pick->cores, w->n_cores * sizeof *w->cores);
    w->gres = arena_alloc(sl->arena, (pick->gres_count + 1) * sizeof *w->gres);
    for (uint32_t i = 0; i < pick->gres_count; i++) {
        const struct spur_gres_view *g;
        Wire__GresAlloc *out;

        if (pick->gres[i].gres >= n->gres_count || !pick->gres[i].count)
            continue;
        g = (const struct spur_gres_view *)(const void *)((const char *)n->gres + (size_t)pick->gres[i].gres * n->gres_size);
        out = arena_alloc(sl->arena, sizeof *out);
        wire__gres_alloc__init(out);
        out->name = arena_copy(sl->arena, g->name);
        out->type = g->type && *g->type ? arena_copy(sl->arena, g->type) : NULL;
        out->has_count = true;
        out->count = pick->gres[i].count;
        out->has_mask = pick->gres[i].mask != 0;
        out->mask = pick->gres[i].mask;
        w->gres[w->n_gres++] = out;
    }
    return w;
}

static void flight_add(struct plan *p, const struct job *j, uint32_t task, const Wire__OpStart *o, const struct state *s, int64_t end_s)
{
    struct flight *f;

    if (p->flight_count == p->flight_room) {
        p->flight_room = p->flight_room ? p->flight_room * 2 : 16;
        p->flights = mem_grow(p->flights, p->flight_room, sizeof *p->flights);
    }
    f = &p->flights[p->flight_count++];
    *f = (struct flight){ .job_id = j->job_id, .array_job_id = j->array_job_id, .task_id = task, .alloc_count = (uint32_t)o->n_allocs, .end_s = end_s };
    f->allocs = mem_array(o->n_allocs ? o->n_allocs : 1, sizeof *f->allocs);
    for (size_t i = 0; i < o->n_allocs; i++) {
        const Wire__NodeAlloc *w = o->allocs[i];
        struct node_alloc *a = &f->allocs[i];

        a->node = w->node;
        a->cpus = w->cpus;
        a->tasks = w->tasks;
        a->mem_mib = w->mem_mib;
        bitmap_init(&a->cores, node_cores(&s->nodes[w->node]));
        for (size_t k = 0; k < w->n_cores && k < bitmap_words(a->cores.bits); k++)
            a->cores.words[k] = w->cores[k];
        a->gres = w->n_gres ? mem_array(w->n_gres, sizeof *a->gres) : NULL;
        a->gres_count = (uint32_t)w->n_gres;
        for (size_t k = 0; k < w->n_gres; k++)
            a->gres[k] = (struct gres_alloc){ mem_copy(w->gres[k]->name), mem_copy(w->gres[k]->type), w->gres[k]->count, w->gres[k]->mask };
    }
}

/* What people see of the place: the plugin's one line, how good the GPUs' links are, the leaf switches. */
static void start_describe(struct slice *sl, const struct spur_view *view, const struct spur_placement *where, Wire__OpStart *o)
{
    struct hostlist *leaves = hostlist_create();
    char why[240] = "";
    const char *last = "";

    for (uint32_t i = 0; i < where->pick_count; i++) {
        const struct spur_node_pick *pick = spur_placement_pick(where, i);
        const struct spur_node_view *n = spur_view_node(view, pick->node);

        for (uint32_t k = 0; k < pick->gres_count && k < SPUR_PICKS_MAX; k++) {
            const struct spur_gres_view *g;

            if (pick->gres[k].gres >= n->gres_count || !pick->gres[k].mask)
                continue;
            g = (const struct spur_gres_view *)(const void *)((const char *)n->gres + (size_t)pick->gres[k].gres * n->gres_size);
            o->has_share_permille |= strcmp(g->name, "gpu") == 0;
        }
        if (n->leaf && *n->leaf && strcmp(n->leaf, last) != 0)
            hostlist_add(leaves, last = n->leaf);
    }
    if (o->has_share_permille)
        o->share_permille = where->score <= 0 ? 0 : where->score >= 1 ? 1000 : (uint32_t)(where->score * 1000 + 0.5);
    if (hostlist_count(leaves)) {
        struct str text;

        str_init(&text);
        hostlist_uniq(leaves);
        hostlist_print(leaves, &text);
        o->leaves = arena_copy(sl->arena, text.text);
        str_fini(&text);
    }
    hostlist_destroy(leaves);
    if (SPUR_HAS(sl->plugins->select, explain) && sl->plugins->select->explain(sl->plugins->select_self, where, why, sizeof why) >= 0 && why[0])
        o->why = arena_copy(sl->arena, why);
}

Wire__OpStart *slice_start_op(struct slice *sl, struct entry *e, struct job *j, uint32_t task, const struct config_partition *part, const struct spur_placement *where,
                              const struct spur_ask *ask, uint32_t limit_min, bool by_backfill)
{
    const struct spur_view *view = slice_view(sl);
    int64_t end_s = sl->now_s + (int64_t)limit_minutes(limit_min, part) * 60;
    Wire__OpStart *o = arena_alloc(sl->arena, sizeof *o);

    wire__op_start__init(o);
    o->job_id = j->job_id;
    o->has_array_task_id = task != UINT32_MAX;
    o->array_task_id = task;
    o->attempt = j->attempt;
    o->partition = arena_copy(sl->arena, part->name);
    o->allocs = arena_alloc(sl->arena, (where->pick_count + 1) * sizeof *o->allocs);
    o->has_ntasks = true;
    for (uint32_t i = 0; i < where->pick_count; i++) {
        o->allocs[o->n_allocs++] = pick_alloc(sl, view, spur_placement_pick(where, i));
        o->ntasks += spur_placement_pick(where, i)->tasks;
    }
    start_describe(sl, view, where, o);
    o->has_config_version = o->has_priority = o->has_by_backfill = true;
    o->config_version = sl->s->config_version;
    o->priority = e->rank;
    o->by_backfill = by_backfill;
    flight_add(sl->p, j, task, o, sl->s, end_s);
    sl->p->flights[sl->p->flight_count - 1].alone = sl->s->config->topology != TOPOLOGY_FLAT && spec_is_alone(sl->s, job_spec(j, sl->arena), part);
    if (sl->p->now)
        overlay_take(sl->p->now, where, ask);   /* else the next slice_view makes it, with this flight taken */
    backfill_taken(sl->p, view, where, ask, end_s);
    return o;
}

void slice_start(struct slice *sl, struct entry *e, struct job *j, uint32_t task, const struct config_partition *part, const struct spur_placement *where,
                 const struct spur_ask *ask, uint32_t limit_min, bool by_backfill)
{
    Wire__Op *op = arena_alloc(sl->arena, sizeof *op);

    wire__op__init(op);
    op->start = slice_start_op(sl, e, j, task, part, where, ask, limit_min, by_backfill);
    slice_add_op(sl, op);
    if (!job_is_task_set(j))
        e->flying = true;
}

void slice_cancel(struct slice *sl, struct entry *e, struct job *j, bool by_deadline)
{
    Wire__Op *op = arena_alloc(sl->arena, sizeof *op);
    Wire__OpCancel *o = arena_alloc(sl->arena, sizeof *o);

    if (table_get(&sl->p->ending, j->job_id))
        return;
    table_put(&sl->p->ending, j->job_id, j);
    wire__op__init(op);
    wire__op_cancel__init(o);
    op->cancel = o;
    o->job_id = j->job_id;
    if (j->array_job_id == j->job_id) {     /* the array's id alone would mean all of its records */
        struct str tasks;

        str_init(&tasks);
        if (job_is_task_set(j))
            bitmap_print(&j->array->pending, &tasks);
        else
            str_addf(&tasks, "%u", j->array_task_id);
        o->tasks = arena_copy(sl->arena, tasks.text);
        str_fini(&tasks);
    }
    o->has_ended_by_deadline = by_deadline;
    o->ended_by_deadline = by_deadline;
    o->has_never_satisfied = !by_deadline;
    o->never_satisfied = !by_deadline;
    slice_add_op(sl, op);
    if (e)
        e->flying = true;
}

bool slice_too_late(struct slice *sl, struct entry *e, struct job *j)
{
    int64_t need_s = j->time_limit_min < MINUTES_NOT_SET ? (int64_t)j->time_limit_min * 60 : 0;    /* as apply reckons */

    if (!j->deadline_wall_s || (sl->now_s < j->deadline_wall_s && sl->now_s + need_s <= j->deadline_wall_s))
        return false;
    job_advise(j, REASON_DeadLine, NULL);
    slice_cancel(sl, e, j, true);
    return true;
}

/* ---- the main pass -------------------------------------------------------------------------------------------------------- */
void lane_block(struct slice *sl, struct lane *l, struct job *j)
{
    const struct bitmap *nodes = &sl->s->config->partitions[l->part].nodes;
    struct job *before = l->head != j->job_id ? state_job(sl->s, l->head) : NULL;

    if (before && before->state == JOB_PENDING && before->advice == REASON_Resources)
        job_advise(before, REASON_Priority, NULL);      /* another stands in front of it now */
    job_advise(j, REASON_Resources, NULL);
    l->head = j->job_id;
    l->blocked = true;
    for (size_t i = 0; i < bitmap_words(nodes->bits) && i < bitmap_words(sl->p->shut.bits); i++)
        sl->p->shut.words[i] |= nodes->words[i];
    sl->p->any_shut = true;
}

/* True: finished; false: the slice is used up. */
bool main_pass_slice(struct slice *sl)
{
    struct plan *p = sl->p;
    struct spur_placement *where = NULL;
    struct lane *l;
    struct entry *e;

    while ((e = queue_next(&p->queue, &l))) {
        const struct config_partition *part = &sl->s->config->partitions[l->part];
        const struct spur_ask *which = NULL;
        struct spur_error err = { 0 };
        enum job_reason why = REASON_None;
        int64_t when;
        struct job *j = state_job(sl->s, e->job_id);
        struct wish *w;
        uint32_t task;
        uint64_t key;
        int rc;

        if (!slice_spend(sl, 1))
            return false;
        if (e->flying || e->rest_until_ms > sl->now_ms) {
            l->at++;
            continue;
        }
        if (!j || j->state != JOB_PENDING || !job_eligible(sl->s, j, sl->now_s, &why, &when)) {
            plan_refresh(p, sl->s, e->job_id, false, sl->now_s);
            l->at++;
            continue;
        }
        if (j->het_job_id) {
            het_turn(sl, l, e, j, part);
            continue;
        }
        if (!slice_task(sl, j, &task)) {
            l->at++;            /* all on their way, or %limit reached */
            continue;
        }
        if (!(w = slice_wish(sl, e, j, part)) || slice_too_late(sl, e, j)) {
            l->at++;
            continue;
        }
        key = w->hash ^ (p->any_shut ? UINT64_C(0x5bd1e9955bd1e995) * (p->pass_number + 1) : 0);
        rc = failures_has(&p->failures, key) ? SPUR_ELATER : slice_place(sl, slice_view(sl), w, j->job_id, p->any_shut ? &p->shut : NULL, &where, &which, &err);
        if (rc == 0) {
            slice_start(sl, e, j, task, part, where, which, w->time_limit_min, false);
            if (task == UINT32_MAX)
                l->at++;
            continue;           /* an array: its next task */
        }
        if (rc == SPUR_ENEVER) {
            job_advise(j, REASON_BadConstraints, err.text[0] ? err.text : NULL);
            l->at++;
            continue;
        }
        failures_add(&p->failures, key);
        if (!slice_nodes_exist(sl, j, w, slice_view(sl))) {
            l->at++;
            continue;
        }
        lane_block(sl, l, j);
        if (p->params.backfill && !p->backfill)
            p->backfill_due = true;
    }
    return true;
}
