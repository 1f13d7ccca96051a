/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - pending jobs in the order in which they are looked at, kept sorted as jobs come and go.
 *
 * One lane a partition; a job that asks for several partitions stands in each. Only jobs that could start are in lanes: held, dependent
 * and later ones are known by their record and come in when an event or the clock says so. New ones gather in `fresh` and are
 * merged when a pass begins, so that a submit costs nothing that grows with the queue. Ids, not pointers, lead to jobs.
 */
#ifndef PLAN_QUEUE_H
#define PLAN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"

struct entry {                  /* one pending job record: a job, or an array's tasks that have not started */
    uint32_t job_id, seq;       /* seq: a job that left the queue and came back is another entry */
    uint64_t rank;              /* of the priority plugin, or set by hand; 0: not asked yet */
    uint64_t next_rank;         /* while all are ranked anew; 0: keep the old one */
    uint32_t refs;              /* lanes and passes that still point here */
    bool     dead;              /* no longer in the queue */
    bool     flying;            /* its start is proposed and not yet applied */
    uint8_t  refusals;          /* proposals that apply did not take, one after the other */
    int64_t  rest_until_ms;     /* left alone until then: plan and apply disagree about it */
    int64_t  hopeless_until_ms; /* a heterogeneous job that no moment has room for: until then nobody waits for it */
    int64_t  switches_until_s;  /* --switches holds until then; 0: not reckoned yet */
};

struct lane {
    uint32_t part;              /* index of the partition */
    uint16_t tier;
    struct entry **jobs; size_t count, room;        /* sorted: rank down, id up; dead ones until the next merge */
    struct entry **fresh; size_t fresh_count, fresh_room;
    size_t   at;                /* of the main pass */
    bool     blocked;           /* a job here waits for resources: those behind it wait for their turn */
    uint32_t head;              /* that job; 0: none yet */
    size_t   dead;
};

struct wake { int64_t wall_ms; uint32_t job_id; };

struct queue {
    struct table entries;       /* job id -> entry */
    struct lane *lanes; uint32_t lane_count;
    struct wake *heap; size_t heap_count, heap_room;    /* when to look at a job again; earliest first */
    uint32_t next_seq;
};

void queue_init(struct queue *q);
void queue_fini(struct queue *q);
void queue_clear(struct queue *q);                  /* forgets all jobs and lanes */
void queue_lanes(struct queue *q, uint32_t count);  /* after queue_clear */
struct entry *queue_find(const struct queue *q, uint32_t job_id);
struct entry *queue_add(struct queue *q, uint32_t job_id, uint64_t rank, const uint32_t *lanes, uint32_t lane_count);
void queue_remove(struct queue *q, uint32_t job_id);
void queue_merge(struct queue *q);                  /* fresh ones into their places, dead ones out; lanes are at their start again */
void queue_sort(struct queue *q);                   /* after all ranks have changed */
/* Next job over all lanes that are not blocked, by tier, rank, id; its lane in *lane. The caller moves lane->at on. NULL: none left. */
struct entry *queue_next(struct queue *q, struct lane **lane);
bool entry_before(const struct entry *a, const struct entry *b);
void entry_release(struct entry *e);

void queue_wake_at(struct queue *q, int64_t wall_ms, uint32_t job_id);
bool queue_woken(struct queue *q, int64_t now_wall_ms, uint32_t *job_id);   /* takes one that is due */

#endif
