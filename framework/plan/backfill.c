/* SPDX-License-Identifier: Apache-2.0 */
/* backfill.c - starts jobs early where that delays none of the first ones.
 *
 * The first jobs that have to wait get a reservation: the earliest moment at which, going by the limits of what runs, they fit, and the
 * place they would get there. A later job may start now if what it takes is free now and at the start of each reservation that begins
 * before its end; between those moments resources only become free, so nothing else needs a look. "Free at each of these moments" is
 * one overlay a reservation, kept as running minimum: window[i] is what is free from now until the i-th reservation has begun. So a job costs one
 * placement, whatever the number of reservations.
 *
 * Placing a reservation is a search over moments: first by halves as if no other reservation were there (the earliest moment that could
 * do), then forward from it. Each probe is one step, and the place is kept between slices. The list of jobs is taken when the pass
 * begins; those that come later wait for the next pass. What the main pass starts meanwhile is taken out of all windows. A start
 * that apply refuses, or a node that changes, ends the pass: it begins anew.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "plan/private.h"

#define RESERVATIONS_MAX 64
#define HOPELESS_MS 60000
#define PROBES_MAX 64               /* moments tried behind the first that could do */

struct candidate { struct entry *entry; uint32_t part; };

struct reservation {
    int64_t  start_s, end_s;
    struct node_alloc *allocs; uint32_t alloc_count;
};

struct search {                     /* for the earliest start of the job at `next` */
    bool     active, found_low;
    size_t   low, high;             /* moments: low - 1 does not do, high does or is the end */
    uint32_t probes;
};

struct backfill {
    int64_t  now_s;
    struct horizon horizon;
    int64_t *moments; size_t moment_count;      /* distinct, rising: ends of running jobs, of reservations, of what was started */
    struct overlay *base;                       /* as free now, starts of this pass taken */
    struct overlay **window;                    /* [0] is base; [i]: until reservation i has begun */
    struct reservation *held; uint32_t held_count;      /* by start */
    struct candidate *jobs; size_t job_count, next;
    struct reservation *started; size_t started_count, started_room;    /* by this pass: they end too */
    struct search search;
    struct failures failures;
    uint32_t starts;
    uint32_t *lane_held;                        /* searches a partition */
};

static void allocs_free(struct node_alloc *allocs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bitmap_fini(&allocs[i].cores);
        for (uint32_t k = 0; k < allocs[i].gres_count; k++) {
            free(allocs[i].gres[k].name);
            free(allocs[i].gres[k].type);
        }
        free(allocs[i].gres);
    }
    free(allocs);
}

static struct node_alloc *allocs_of(const struct spur_view *view, const struct spur_placement *where)
{
    struct node_alloc *out = mem_array(where->pick_count ? where->pick_count : 1, sizeof *out);

    for (uint32_t i = 0; i < where->pick_count; i++) {
        const struct spur_node_pick *pick = spur_placement_pick(where, i);
        const struct spur_node_view *n = spur_view_node(view, pick->node);

        out[i].node = pick->node;
        out[i].cpus = pick->cpus;
        out[i].tasks = pick->tasks;
        out[i].mem_mib = pick->mem;
        bitmap_init(&out[i].cores, (size_t)n->sockets * n->cores_per_socket);
        for (size_t k = 0; k < pick->core_words && k < bitmap_words(out[i].cores.bits); k++)
            out[i].cores.words[k] = pick->cores[k];
        out[i].gres = pick->gres_count ? mem_array(pick->gres_count, sizeof *out[i].gres) : NULL;
        for (uint32_t k = 0; k < pick->gres_count; k++) {
            const struct spur_gres_view *g = (const struct spur_gres_view *)(const void *)((const char *)n->gres + (size_t)pick->gres[k].gres * n->gres_size);

            out[i].gres[out[i].gres_count++] = (struct gres_alloc){ mem_copy(g->name), g->type && *g->type ? mem_copy(g->type) : NULL, pick->gres[k].count, pick->gres[k].mask };
        }
    }
    return out;
}

static struct node_alloc *allocs_copy(const struct node_alloc *from, uint32_t n)
{
    struct node_alloc *out = mem_array(n ? n : 1, sizeof *out);

    for (uint32_t i = 0; i < n; i++) {
        out[i].node = from[i].node;
        out[i].cpus = from[i].cpus;
        out[i].tasks = from[i].tasks;
        out[i].mem_mib = from[i].mem_mib;
        bitmap_init(&out[i].cores, 0);
        bitmap_copy(&out[i].cores, &from[i].cores);
        out[i].gres = from[i].gres_count ? mem_array(from[i].gres_count, sizeof *out[i].gres) : NULL;
        out[i].gres_count = from[i].gres_count;
        for (uint32_t k = 0; k < from[i].gres_count; k++)
            out[i].gres[k] = (struct gres_alloc){ mem_copy(from[i].gres[k].name), mem_copy(from[i].gres[k].type), from[i].gres[k].count, from[i].gres[k].mask };
    }
    return out;
}

void backfill_drop(struct plan *p)
{
    struct backfill *b = p->backfill;

    if (!b)
        return;
    if (b->next < b->job_count)
        p->backfill_due = true;     /* cut short */
    if (p->phase == PHASE_BACKFILL)
        p->phase = PHASE_IDLE;
    for (uint32_t i = 1; i <= b->held_count; i++)
        overlay_destroy(b->window[i]);
    for (uint32_t i = 0; i < b->held_count; i++)
        allocs_free(b->held[i].allocs, b->held[i].alloc_count);
    for (size_t i = 0; i < b->started_count; i++)
        allocs_free(b->started[i].allocs, b->started[i].alloc_count);
    for (size_t i = 0; i < b->job_count; i++)
        entry_release(b->jobs[i].entry);
    overlay_destroy(b->base);
    horizon_fini(&b->horizon);
    free(b->moments);
    free(b->window);
    free(b->held);
    free(b->jobs);
    free(b->started);
    free(b->lane_held);
    free(b->failures.slots);
    free(b);
    p->backfill = NULL;
}

/* ---- moments -------------------------------------------------------------------------------------------------------------- */
static void moment_add(struct backfill *b, int64_t at_s)
{
    size_t low = 0, high = b->moment_count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (b->moments[mid] < at_s)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < b->moment_count && b->moments[low] == at_s)
        return;
    b->moments = mem_grow(b->moments, b->moment_count + 1, sizeof *b->moments);
    memmove(&b->moments[low + 1], &b->moments[low], (b->moment_count - low) * sizeof *b->moments);
    b->moments[low] = at_s;
    b->moment_count++;
}

/* It ends too: what was started and is not yet among the running is kept here. */
static void started_add(struct backfill *b, struct node_alloc *allocs, uint32_t count, int64_t end_s, int64_t resolution_s)
{
    if (b->started_count == b->started_room) {
        b->started_room = b->started_room ? b->started_room * 2 : 16;
        b->started = mem_grow(b->started, b->started_room, sizeof *b->started);
    }
    end_s = b->now_s + (end_s - b->now_s + resolution_s - 1) / resolution_s * resolution_s;
    b->started[b->started_count++] = (struct reservation){ .start_s = b->now_s, .end_s = end_s, .allocs = allocs, .alloc_count = count };
    moment_add(b, end_s);
}

void backfill_taken(struct plan *p, const struct spur_view *view, const struct spur_placement *where, const struct spur_ask *ask, int64_t end_s)
{
    struct backfill *b = p->backfill;

    if (!b)
        return;
    for (uint32_t i = 0; i <= b->held_count; i++)
        overlay_take(b->window[i], where, ask);
    started_add(b, allocs_of(view, where), where->pick_count, end_s, p->params.resolution_s);
}

/* What is free at that moment: everything ended that has to, reservations that are on then taken. */
static struct overlay *view_at(const struct backfill *b, const struct state *s, int64_t at_s, bool with_reservations)
{
    struct overlay *o = horizon_at(&b->horizon, s, b->base, at_s);

    for (size_t i = 0; i < b->started_count; i++)
        if (b->started[i].end_s <= at_s)
            overlay_release(o, b->started[i].allocs, b->started[i].alloc_count);
    for (uint32_t i = 0; with_reservations && i < b->held_count; i++)
        if (b->held[i].start_s <= at_s && at_s < b->held[i].end_s)
            overlay_take_allocs(o, b->held[i].allocs, b->held[i].alloc_count);
    return o;
}

/* Free at that moment and at the start of each reservation until at_s + length. */
static struct overlay *view_from(const struct backfill *b, const struct state *s, int64_t at_s, int64_t length_s)
{
    struct overlay *o = view_at(b, s, at_s, true);

    for (uint32_t i = 0; i < b->held_count; i++)
        if (b->held[i].start_s > at_s && b->held[i].start_s < at_s + length_s) {
            struct overlay *then = view_at(b, s, b->held[i].start_s, true);

            overlay_meet(o, then);
            overlay_destroy(then);
        }
    return o;
}

/* ---- reservations --------------------------------------------------------------------------------------------------------- */
static void windows_rebuild(struct backfill *b, const struct state *s, uint32_t from)
{
    for (uint32_t i = from; i < b->held_count; i++) {
        struct overlay *then = view_at(b, s, b->held[i].start_s, true);

        overlay_destroy(b->window[i + 1]);
        b->window[i + 1] = overlay_copy(b->window[i]);
        overlay_meet(b->window[i + 1], then);
        overlay_destroy(then);
    }
}

/* where: the place, NULL for a heterogeneous job, which has several. */
static void reserve(struct slice *sl, struct job *j, int64_t start_s, int64_t length_s, const struct spur_view *view, const struct spur_placement *where, const struct het *h)
{
    struct backfill *b = sl->p->backfill;
    struct reservation r = { .start_s = start_s, .end_s = start_s + length_s, .allocs = where ? allocs_of(view, where) : NULL, .alloc_count = where ? where->pick_count : 0 };
    struct hostlist *nodes = hostlist_create();
    struct str text;
    uint32_t at = 0;

    for (uint32_t i = 0; h && i < het_count(h); i++) {
        struct node_alloc *more = allocs_of(view, het_where(h, i));

        r.allocs = mem_grow(r.allocs, r.alloc_count + het_where(h, i)->pick_count + 1, sizeof *r.allocs);
        memcpy(&r.allocs[r.alloc_count], more, het_where(h, i)->pick_count * sizeof *more);
        r.alloc_count += het_where(h, i)->pick_count;
        free(more);
    }
    while (at < b->held_count && b->held[at].start_s <= r.start_s)
        at++;
    memmove(&b->held[at + 1], &b->held[at], (b->held_count - at) * sizeof *b->held);
    b->held[at] = r;
    b->window[b->held_count + 1] = NULL;
    b->held_count++;
    moment_add(b, r.end_s);
    windows_rebuild(b, sl->s, at);
    slice_spend(sl, units_here(sl->s, UNITS_OVERLAY * 2 * (b->held_count - at)));

    for (uint32_t i = 0; i < r.alloc_count; i++)
        hostlist_add(nodes, sl->s->nodes[r.allocs[i].node].conf->name);
    str_init(&text);
    hostlist_print(nodes, &text);
    free(j->sched_nodes);
    j->sched_nodes = str_take(&text);
    j->advice_start_wall_s = start_s;
    str_fini(&text);
    hostlist_destroy(nodes);
}

/* One probe of the search. True: the search is over, with or without a reservation. */
static bool search_step(struct slice *sl, struct job *j, struct wish *w, struct het *h, int64_t length_s)
{
    struct backfill *b = sl->p->backfill;
    struct search *f = &b->search;
    struct spur_placement *where = NULL;
    const struct spur_ask *which = NULL;
    struct spur_error err = { 0 };
    struct overlay *o;
    int64_t at_s;
    bool fits;

    if (!f->active) {
        *f = (struct search){ .active = true, .high = b->moment_count };
        while (f->high && b->moments[f->high - 1] > b->now_s + sl->p->params.window_s)
            f->high--;
    }
    if (!f->found_low) {
        size_t mid = (f->low + f->high) / 2;

        if (f->low == f->high) {
            f->found_low = true;
            return false;
        }
        o = view_at(b, sl->s, b->moments[mid], false);
        slice_spend(sl, units_here(sl->s, UNITS_OVERLAY));
        fits = (h ? het_place(sl, o, h, NULL, &err) : slice_place(sl, overlay_view(o), w, j->job_id, NULL, &where, &which, &err)) == 0;
        overlay_destroy(o);
        if (fits)
            f->high = mid;
        else
            f->low = mid + 1;
        return false;
    }
    if (f->low >= b->moment_count || b->moments[f->low] > b->now_s + sl->p->params.window_s || f->probes++ == PROBES_MAX) {
        /* Not within the window, even with everything ended: nodes are down, or the wait is long. */
        j->advice_start_wall_s = 0;
        if (h && f->low >= b->moment_count && queue_find(&sl->p->queue, j->job_id))
            queue_find(&sl->p->queue, j->job_id)->hopeless_until_ms = sl->now_ms + HOPELESS_MS;
        if (w && (f->low >= b->moment_count || f->low == 0))
            slice_nodes_exist(sl, j, w, overlay_view(b->base));
        return true;
    }
    at_s = b->moments[f->low];
    o = view_from(b, sl->s, at_s, length_s);
    slice_spend(sl, units_here(sl->s, UNITS_OVERLAY));
    fits = (h ? het_place(sl, o, h, NULL, &err) : slice_place(sl, overlay_view(o), w, j->job_id, NULL, &where, &which, &err)) == 0;
    if (fits)
        reserve(sl, j, at_s, length_s, overlay_view(o), where, h);
    else
        f->low++;
    overlay_destroy(o);
    return fits;
}

/* ---- the pass -------------------------------------------------------------------------------------------------------------- */
void backfill_begin(struct slice *sl)
{
    struct plan *p = sl->p;
    struct backfill *b;
    struct lane *l;
    struct entry *e;
    size_t room = 0;

    backfill_drop(p);
    p->backfill = b = mem_alloc(sizeof *b);
    b->now_s = sl->now_s;
    b->base = overlay_create(sl->s);
    b->window = mem_array(RESERVATIONS_MAX + 2, sizeof *b->window);
    b->window[0] = b->base;
    b->held = mem_array(RESERVATIONS_MAX + 1, sizeof *b->held);
    b->lane_held = mem_array(p->queue.lane_count + 1, sizeof *b->lane_held);
    horizon_init(&b->horizon);
    horizon_fill(&b->horizon, sl->s, &p->running, sl->now_s, sl->cluster_ms, p->params.resolution_s);
    b->moments = mem_array(b->horizon.count + 1, sizeof *b->moments);
    for (size_t i = 0; i < b->horizon.count; i++)
        if (!b->moment_count || b->moments[b->moment_count - 1] != b->horizon.releases[i].at_s)
            b->moments[b->moment_count++] = b->horizon.releases[i].at_s;
    for (size_t i = 0; i < p->flight_count; i++) {
        overlay_take_allocs(b->base, p->flights[i].allocs, p->flights[i].alloc_count);
        started_add(b, allocs_copy(p->flights[i].allocs, p->flights[i].alloc_count), p->flights[i].alloc_count, p->flights[i].end_s, p->params.resolution_s);
    }
    slice_spend(sl, units_here(sl->s, UNITS_OVERLAY));

    /* The order of the moment, over all lanes. */
    for (uint32_t i = 0; i < p->queue.lane_count; i++) {
        p->queue.lanes[i].at = 0;
        p->queue.lanes[i].blocked = false;
        room += p->queue.lanes[i].count;
    }
    if (room > p->params.max_job_test)
        room = p->params.max_job_test;
    b->jobs = mem_array(room + 1, sizeof *b->jobs);
    while (b->job_count < room && (e = queue_next(&p->queue, &l))) {
        l->at++;
        e->refs++;
        b->jobs[b->job_count++] = (struct candidate){ e, l->part };
    }
}

bool backfill_slice(struct slice *sl)
{
    struct plan *p = sl->p;
    struct backfill *b = p->backfill;
    struct spur_placement *where = NULL;

    if (!b)
        return true;
    while (b->next < b->job_count) {
        struct candidate *c = &b->jobs[b->next];
        struct entry *e = c->entry;
        const struct config_partition *part = &sl->s->config->partitions[c->part];
        struct job *j = e->dead ? NULL : state_job(sl->s, e->job_id);
        const struct spur_ask *which = NULL;
        struct spur_error err = { 0 };
        enum job_reason why = REASON_None;
        struct wish *w = NULL;
        struct het *h = NULL;
        int64_t when, length_s;
        uint32_t task, i = 0;
        uint64_t key;

        if (!slice_spend(sl, 1))
            return false;
        if (p->params.max_job_start && b->starts >= p->params.max_job_start)
            return true;
        if (!j || e->flying || e->rest_until_ms > sl->now_ms || j->state != JOB_PENDING || !job_eligible(sl->s, j, sl->now_s, &why, &when) || !slice_task(sl, j, &task) ||
            !(j->het_job_id ? (h = slice_het(sl, e, j, part)) != NULL : (w = slice_wish(sl, e, j, part)) != NULL) || slice_too_late(sl, e, j)) {
            b->search.active = false;
            b->next++;
            continue;
        }
        length_s = h ? het_length_s(h) : (int64_t)limit_minutes(w->time_limit_min, part) * 60;
        if (!b->search.active) {
            while (i < b->held_count && b->held[i].start_s < sl->now_s + length_s)
                i++;
            key = (h ? het_hash(h) : w->hash) ^ (UINT64_C(0x9e3779b97f4a7c15) * (i + 1));
            if (!failures_has(&b->failures, key)) {
                struct overlay *take = h ? overlay_copy(b->window[i]) : NULL;
                int rc = h ? het_place(sl, take, h, NULL, &err) : slice_place(sl, overlay_view(b->window[i]), w, j->job_id, NULL, &where, &which, &err);

                if (h)
                    slice_spend(sl, units_here(sl->s, UNITS_OVERLAY));
                overlay_destroy(take);
                if (rc == 0) {
                    if (h)
                        het_start(sl, e, h, true);
                    else
                        slice_start(sl, e, j, task, part, where, which, w->time_limit_min, true);
                    b->starts++;
                    if (!job_is_task_set(j))
                        b->next++;
                    continue;
                }
                if (rc == SPUR_ENEVER) {
                    job_advise(j, REASON_BadConstraints, err.text[0] ? err.text : NULL);
                    b->next++;
                    continue;
                }
                failures_add(&b->failures, key);
            }
            if (b->held_count >= RESERVATIONS_MAX || b->lane_held[c->part] >= p->params.reservations) {
                if (j->advice == REASON_None)
                    job_advise(j, REASON_Priority, NULL);
                b->next++;
                continue;
            }
        }
        if (search_step(sl, j, w, h, length_s)) {
            b->search.active = false;
            b->lane_held[c->part]++;        /* with or without one: a search is dear */
            b->next++;
        }
    }
    return true;
}
