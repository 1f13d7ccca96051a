/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - sorted lanes with a few new ones waiting at the door.
 *
 * A merge moves only what stands behind the first new job: late comers mostly have the lowest rank, so it is cheap however long
 * the queue is. Removal marks; the mark is swept out by a merge once a lane is a quarter dead, or on the way over it.
 */
#include "plan/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void queue_init(struct queue *q)
{
    memset(q, 0, sizeof *q);
    table_init(&q->entries);
}

void entry_release(struct entry *e)
{
    if (--e->refs == 0)
        free(e);
}

void queue_clear(struct queue *q)
{
    struct entry *e;

    for (uint32_t i = 0; i < q->lane_count; i++) {
        struct lane *l = &q->lanes[i];

        for (size_t k = 0; k < l->count; k++)
            entry_release(l->jobs[k]);
        for (size_t k = 0; k < l->fresh_count; k++)
            entry_release(l->fresh[k]);
        free(l->jobs);
        free(l->fresh);
    }
    free(q->lanes);
    q->lanes = NULL;
    q->lane_count = 0;
    for (size_t i = 0; (e = table_next(&q->entries, &i)); ) {
        e->dead = true;
        entry_release(e);
    }
    table_fini(&q->entries);
    table_init(&q->entries);
    q->heap_count = 0;
}

void queue_fini(struct queue *q)
{
    queue_clear(q);
    table_fini(&q->entries);
    free(q->heap);
}

void queue_lanes(struct queue *q, uint32_t count)
{
    q->lanes = mem_array(count ? count : 1, sizeof *q->lanes);
    q->lane_count = count;
    for (uint32_t i = 0; i < count; i++)
        q->lanes[i].part = i;
}

struct entry *queue_find(const struct queue *q, uint32_t job_id) { return table_get(&q->entries, job_id); }

struct entry *queue_add(struct queue *q, uint32_t job_id, uint64_t rank, const uint32_t *lanes, uint32_t lane_count)
{
    struct entry *e = mem_alloc(sizeof *e);

    queue_remove(q, job_id);
    e->job_id = job_id;
    e->seq = q->next_seq++;
    e->rank = rank;
    e->refs = 1;
    table_put(&q->entries, job_id, e);
    for (uint32_t i = 0; i < lane_count; i++) {
        struct lane *l = &q->lanes[lanes[i]];

        if (l->fresh_count == l->fresh_room) {
            l->fresh_room = l->fresh_room ? l->fresh_room * 2 : 16;
            l->fresh = mem_grow(l->fresh, l->fresh_room, sizeof *l->fresh);
        }
        l->fresh[l->fresh_count++] = e;
        e->refs++;
    }
    return e;
}

void queue_remove(struct queue *q, uint32_t job_id)
{
    struct entry *e = table_del(&q->entries, job_id);

    if (!e)
        return;
    e->dead = true;
    entry_release(e);
}

bool entry_before(const struct entry *a, const struct entry *b)
{
    return a->rank != b->rank ? a->rank > b->rank : a->job_id < b->job_id;
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;

    return entry_before(x, y) ? -1 : entry_before(y, x) ? 1 : 0;
}

static bool is_sorted(struct entry *const *jobs, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (entry_before(jobs[i], jobs[i - 1]))
            return false;
    return true;
}

static void lane_sweep(struct lane *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->count; i++) {
        if (l->jobs[i]->dead)
            entry_release(l->jobs[i]);
        else
            l->jobs[n++] = l->jobs[i];
    }
    l->count = n;
    l->dead = 0;
}

static void lane_merge(struct lane *l)
{
    size_t n = 0, from, to;

    if (l->dead * 4 > l->count)
        lane_sweep(l);
    l->at = 0;
    for (size_t i = 0; i < l->fresh_count; i++) {
        if (l->fresh[i]->dead)
            entry_release(l->fresh[i]);
        else
            l->fresh[n++] = l->fresh[i];
    }
    l->fresh_count = 0;
    if (!n)
        return;
    if (!is_sorted(l->fresh, n))
        qsort(l->fresh, n, sizeof *l->fresh, compare);
    if (l->count + n > l->room) {
        l->room = (l->count + n) * 2;
        l->jobs = mem_grow(l->jobs, l->room, sizeof *l->jobs);
    }
    /* From the back: stops as soon as the last new one has found its place. */
    from = l->count;
    to = l->count + n;
    l->count = to;
    while (n) {
        if (from && entry_before(l->fresh[n - 1], l->jobs[from - 1]))
            l->jobs[--to] = l->jobs[--from];
        else
            l->jobs[--to] = l->fresh[--n];
    }
}

void queue_merge(struct queue *q)
{
    for (uint32_t i = 0; i < q->lane_count; i++)
        lane_merge(&q->lanes[i]);
}

void queue_sort(struct queue *q)
{
    for (uint32_t i = 0; i < q->lane_count; i++) {
        struct lane *l = &q->lanes[i];

        lane_sweep(l);
        if (!is_sorted(l->jobs, l->count))
            qsort(l->jobs, l->count, sizeof *l->jobs, compare);
        lane_merge(l);
    }
}

struct entry *queue_next(struct queue *q, struct lane **lane)
{
    struct entry *best = NULL;

    for (uint32_t i = 0; i < q->lane_count; i++) {
        struct lane *l = &q->lanes[i];
        struct entry *e;

        if (l->blocked)
            continue;
        while (l->at < l->count && l->jobs[l->at]->dead) {
            l->at++;
            l->dead++;      /* counted as often as it is passed: a front of dead ones is swept soon */
        }
        if (l->at == l->count)
            continue;
        e = l->jobs[l->at];
        if (!best || l->tier > (*lane)->tier || (l->tier == (*lane)->tier && entry_before(e, best))) {
            best = e;
            *lane = l;
        }
    }
    return best;
}

/* ---- wake-ups: a binary heap --------------------------------------------------------------------------------------------- */
void queue_wake_at(struct queue *q, int64_t wall_ms, uint32_t job_id)
{
    size_t i;

    if (q->heap_count == q->heap_room) {
        q->heap_room = q->heap_room ? q->heap_room * 2 : 16;
        q->heap = mem_grow(q->heap, q->heap_room, sizeof *q->heap);
    }
    for (i = q->heap_count++; i && q->heap[(i - 1) / 2].wall_ms > wall_ms; i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = (struct wake){ wall_ms, job_id };
}

bool queue_woken(struct queue *q, int64_t now_wall_ms, uint32_t *job_id)
{
    struct wake last;
    size_t i = 0;

    if (!q->heap_count || q->heap[0].wall_ms > now_wall_ms)
        return false;
    *job_id = q->heap[0].job_id;
    last = q->heap[--q->heap_count];
    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= q->heap_count)
            break;
        if (c + 1 < q->heap_count && q->heap[c + 1].wall_ms < q->heap[c].wall_ms)
            c++;
        if (q->heap[c].wall_ms >= last.wall_ms)
            break;
        q->heap[i] = q->heap[c];
        i = c;
    }
    if (q->heap_count)
        q->heap[i] = last;
    return true;
}
