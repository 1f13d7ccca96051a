/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - a binary heap. */
#include "sim/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void sim_events_init(struct sim_events *q)
{
    memset(q, 0, sizeof *q);
}

void sim_events_fini(struct sim_events *q)
{
    for (size_t i = 0; i < q->count; i++)
        if (q->heap[i].drop)
            q->heap[i].drop(q->heap[i].data);
    free(q->heap);
    memset(q, 0, sizeof *q);
}

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void sim_events_add(struct sim_events *q, uint64_t at_us, void (*fire)(void *, uint64_t, void *), void *arg, uint64_t number, void *data, void (*drop)(void *))
{
    struct sim_event e = { .at_us = at_us > q->now_us ? at_us : q->now_us, .order = q->order++, .fire = fire, .drop = drop, .arg = arg, .number = number, .data = data };
    size_t i;

    if (q->count == q->room)
        q->heap = mem_grow(q->heap, q->room = q->room ? 2 * q->room : 256, sizeof *q->heap);
    for (i = q->count++; i && is_before(&e, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = e;
}

bool sim_events_step(struct sim_events *q)
{
    struct sim_event next, last;
    size_t i = 0, child;

    if (!q->count)
        return false;
    next = q->heap[0];
    last = q->heap[--q->count];
    while ((child = 2 * i + 1) < q->count) {
        if (child + 1 < q->count && is_before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!is_before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    q->heap[i] = last;
    q->now_us = next.at_us;
    next.fire(next.arg, next.number, next.data);
    return true;
}
