/* SPDX-License-Identifier: Apache-2.0 */
/* alarms.c - one binary heap of deadlines and one timer for the earliest.
 *
 * An alarm is (when, kind, id) and is never taken back: its handler looks at the state and does nothing when the reason has gone.
 * Time is CLOCK_BOOTTIME, so that a suspended machine does not stretch a limit.
 */
#include <stdlib.h>

#include "controller/ctl.h"

struct alarm { int64_t at_ms; enum alarm_kind kind; uint64_t id; };
struct alarms { uv_timer_t timer; struct alarm *heap; size_t count, room; };

static void alarm_sink(struct alarms *a, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        struct alarm t;

        if (child >= a->count)
            return;
        if (child + 1 < a->count && a->heap[child + 1].at_ms < a->heap[child].at_ms)
            child++;
        if (a->heap[i].at_ms <= a->heap[child].at_ms)
            return;
        t = a->heap[i]; a->heap[i] = a->heap[child]; a->heap[child] = t;
        i = child;
    }
}

static void alarms_ring(uv_timer_t *timer);

static void alarms_arm(struct alarms *a)
{
    int64_t in = a->count ? a->heap[0].at_ms - clock_boot_ms() : -1;

    if (a->count)
        uv_timer_start(&a->timer, alarms_ring, in > 0 ? (uint64_t)in : 0, 0);
    else
        uv_timer_stop(&a->timer);
}

static void alarms_ring(uv_timer_t *timer)
{
    struct ctl *c = timer->data;
    struct alarms *a = c->alarms;
    int64_t now = clock_boot_ms();

    for (int n = 0; n < 1000 && a->count && a->heap[0].at_ms <= now; n++) {
        struct alarm due = a->heap[0];

        a->heap[0] = a->heap[--a->count];
        alarm_sink(a, 0);
        if (due.kind == ALARM_NODE_SILENT)
            nodes_alarm(c, (uint32_t)due.id);
        else
            effects_alarm(c, due.kind, due.id);
    }
    alarms_arm(a);
}

void alarm_set(struct ctl *c, int64_t in_ms, enum alarm_kind kind, uint64_t id)
{
    struct alarms *a = c->alarms;
    size_t i;

    if (a->count == a->room) {
        a->room = a->room ? a->room * 2 : 64;
        a->heap = mem_grow(a->heap, a->room, sizeof *a->heap);
    }
    i = a->count++;
    a->heap[i] = (struct alarm){ clock_boot_ms() + (in_ms > 0 ? in_ms : 0), kind, id };
    while (i && a->heap[i].at_ms < a->heap[(i - 1) / 2].at_ms) {
        struct alarm t = a->heap[i];

        a->heap[i] = a->heap[(i - 1) / 2];
        a->heap[(i - 1) / 2] = t;
        i = (i - 1) / 2;
    }
    if (i == 0)
        alarms_arm(a);
}

void alarms_create(struct ctl *c)
{
    c->alarms = mem_alloc(sizeof *c->alarms);
    uv_timer_init(c->loop, &c->alarms->timer);
    c->alarms->timer.data = c;
}

static void alarms_free(uv_handle_t *h)
{
    struct alarms *a = (struct alarms *)(void *)h;      /* the timer is the first member */

    free(a->heap);
    free(a);
}

void alarms_clear(struct ctl *c)
{
    c->alarms->count = 0;
    uv_timer_stop(&c->alarms->timer);
}

void alarms_destroy(struct ctl *c)
{
    if (c->alarms)
        uv_close((uv_handle_t *)&c->alarms->timer, alarms_free);
    c->alarms = NULL;
}
