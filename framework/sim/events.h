/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - the queue of what will happen, by virtual time; what was queued first comes first at equal times. */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `data` belongs to whoever `fire` hands it to; `drop` frees it when the queue ends before. */
struct sim_event {
    uint64_t at_us, order;
    void (*fire)(void *arg, uint64_t number, void *data);
    void (*drop)(void *data);           /* NULL: nothing to free */
    void *arg;
    uint64_t number;
    void *data;
};
struct sim_events { struct sim_event *heap; size_t count, room; uint64_t order, now_us; };

void sim_events_init(struct sim_events *q);
void sim_events_fini(struct sim_events *q);
/* `at_us` in the past counts as now. */
void sim_events_add(struct sim_events *q, uint64_t at_us, void (*fire)(void *, uint64_t, void *), void *arg, uint64_t number, void *data, void (*drop)(void *));
bool sim_events_step(struct sim_events *q);             /* fires the next one; false: there is none */

#endif
