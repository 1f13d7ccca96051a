/* SPDX-License-Identifier: Apache-2.0 */
/* private.h - what the files of plan share: the plan's own state and the few steps that both passes take. */
#ifndef PLAN_PRIVATE_H
#define PLAN_PRIVATE_H

#include "base/bitmap.h"
#include "plan/ask.h"
#include "plan/horizon.h"
#include "plan/plan.h"
#include "plan/queue.h"

/* A start that was proposed and is not in the state yet: its resources are taken as far as the plan is concerned. */
struct flight {
    uint32_t job_id, array_job_id, task_id; /* job_id: the record it starts from; task_id UINT32_MAX: not of an array */
    struct node_alloc *allocs; uint32_t alloc_count;
    int64_t  end_s;                         /* when it will have ended, by its limit */
    bool     alone;                         /* it has its leaves for itself (alone.c) */
};

/* Wishes that found no place since the resources last grew: equal ones need not be tried again. */
struct failures {
    uint64_t *slots; size_t size, used;     /* open addressing, 0: free */
    uint64_t view_version;
};
void failures_clear(struct failures *f);
bool failures_has(const struct failures *f, uint64_t key);
void failures_add(struct failures *f, uint64_t key);

/* SchedulerParameters that matter here. */
struct plan_params {
    bool     backfill;
    int64_t  window_s, resolution_s, interval_s, max_switch_wait_s;
    uint32_t max_job_test, reservations, max_job_start;
};

struct backfill;        /* backfill.c */

enum phase { PHASE_IDLE, PHASE_MAIN, PHASE_BACKFILL };

struct plan {
    struct queue queue;
    bool     built;
    uint64_t config_version;
    struct plan_params params;
    enum phase phase;
    bool     main_due, backfill_due;        /* something has changed since the last one began */
    int64_t  backfill_not_before_ms, next_rank_ms;
    uint32_t cluster_cpus, factor_max;      /* for the priority plugin */
    bool     reranking; size_t rerank_at;   /* all are being ranked anew, a few thousand a slice */
    uint32_t pass_number, backfill_cost;    /* cost: units spent by the running backfill pass */
    struct flight *flights; size_t flight_count, flight_room;
    struct failures failures;
    struct table running;                   /* ids of jobs that hold nodes */
    struct table alone;                     /* of them, those that have their leaves for themselves */
    struct table limited;                   /* ids of records split off from arrays, waiting for their array's %limit */
    struct table ending;                    /* ids of jobs whose end is proposed and not yet applied */
    struct bitmap changed; bool all_changed;/* nodes that the select plugin has not heard of yet */
    struct bitmap shut; bool any_shut;      /* nodes kept for a blocked partition during this main pass */
    struct backfill *backfill;
    struct overlay *now;                    /* the base with flights taken, kept while a pass goes on; NULL: the base itself serves */
    uint32_t *unranked; size_t unranked_count;  /* jobs that may not start yet and have no rank to show: ranked when the next pass begins */
};

/* One slice of work. */
struct slice {
    struct plan *p;
    struct state *s;
    const struct plan_plugins *plugins;
    int64_t now_ms, now_s, cluster_ms;
    uint32_t units;                         /* left: a placement costs UNITS_PLACE, a look at a job 1 */
    struct arena *arena;
    struct decisions *out; size_t op_room;
    bool     now_is_fresh;                  /* p->now has followed the base in this slice */
};
#define UNITS_PLACE 16u
#define UNITS_OVERLAY 48u                   /* a copy of the cluster */
/* Both cost more the larger the cluster is; the slice is measured in what they cost on a thousand nodes. */
static inline uint32_t units_here(const struct state *s, uint32_t units) { return units + units * (s->node_count / 1024); }
/* A placement costs select/linear a look at each node, some 5 ns, and select/topo one at each class of equal nodes. */
static inline uint32_t units_place(const struct state *s) { return UNITS_PLACE + UNITS_PLACE * (s->node_count / 8192); }

/* plan.c */
void plan_refresh(struct plan *p, struct state *s, uint32_t job_id, bool changed, int64_t now_s);

/* pass.c */
bool main_pass_slice(struct slice *sl);                         /* true: finished; false: the slice is used up */
bool slice_spend(struct slice *sl, uint32_t units);             /* false: nothing is left */
const struct spur_view *slice_view(struct slice *sl);
/* Asks the plugin, each choice of the wish in turn; *which: the one that was placed. `shut`: nodes to leave alone, or NULL. */
int  slice_place(struct slice *sl, const struct spur_view *view, struct wish *w, uint32_t job_id, const struct bitmap *shut,
                 struct spur_placement **where, const struct spur_ask **which, struct spur_error *err);
void slice_start(struct slice *sl, struct entry *e, struct job *j, uint32_t task, const struct config_partition *part, const struct spur_placement *where,
                 const struct spur_ask *ask, uint32_t limit_min, bool by_backfill);
Wire__OpStart *slice_start_op(struct slice *sl, struct entry *e, struct job *j, uint32_t task, const struct config_partition *part, const struct spur_placement *where,
                              const struct spur_ask *ask, uint32_t limit_min, bool by_backfill);      /* the start and its flight; the caller proposes it */
void slice_add_op(struct slice *sl, Wire__Op *op);
void lane_block(struct slice *sl, struct lane *l, struct job *j);
void slice_cancel(struct slice *sl, struct entry *e, struct job *j, bool by_deadline);
void job_advise(struct job *j, enum job_reason reason, const char *text);
/* Reads the wish of a job in a partition and sets its advice when it may not start there at all. NULL: it may not. */
struct wish *slice_wish(struct slice *sl, struct entry *e, struct job *j, const struct config_partition *part);
/* Next task of an array record to start that is not proposed yet; UINT32_MAX for a job that is none; false: no task may start now. */
bool slice_task(struct slice *sl, const struct job *j, uint32_t *task);
/* Can it no longer end before its deadline? Then it is cancelled. */
bool slice_too_late(struct slice *sl, struct entry *e, struct job *j);
bool partition_is_open(const struct config_partition *part, enum job_reason *why);
/* Are enough usable nodes there at all? If not, sets the advice. */
bool slice_nodes_exist(struct slice *sl, struct job *j, const struct wish *w, const struct spur_view *view);

/* het.c: heterogeneous jobs. What is made of one lives in the slice's arena. */
struct het;
struct het *slice_het(struct slice *sl, struct entry *e, struct job *leader, const struct config_partition *part);    /* NULL: may not start now, or not at all; the advice says */
uint64_t het_hash(const struct het *h);
int64_t het_length_s(const struct het *h);                      /* of the longest component */
int  het_place(struct slice *sl, struct overlay *take, struct het *h, const struct bitmap *shut, struct spur_error *err);     /* changes `take`: a copy of the caller's */
uint32_t het_count(const struct het *h);
const struct spur_placement *het_where(const struct het *h, uint32_t i);
void het_start(struct slice *sl, struct entry *e, struct het *h, bool by_backfill);
void het_turn(struct slice *sl, struct lane *l, struct entry *e, struct job *leader, const struct config_partition *part);    /* its turn in the main pass */

/* alone.c */
bool spec_is_alone(const struct state *s, const Wire__JobSpec *spec, const struct config_partition *part);
bool job_is_alone(const struct state *s, const struct job *j);
/* Nodes that a job must not be given because of --exclusive=topo, its own (`for_alone`) or another's; NULL: none. In the arena. */
const struct bitmap *slice_avoid(struct slice *sl, bool for_alone);

/* backfill.c */
void backfill_begin(struct slice *sl);
bool backfill_slice(struct slice *sl);                          /* true: finished */
void backfill_drop(struct plan *p);
/* Something was given away, until end_s: out of all windows. */
void backfill_taken(struct plan *p, const struct spur_view *view, const struct spur_placement *where, const struct spur_ask *ask, int64_t end_s);

#endif
