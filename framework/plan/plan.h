/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - plan(plan state, state, now, budget) -> decisions: what should start, on the leader only.
 *
 * Pure: time is `now`, the budget is counted in work done (jobs looked at, placements asked), never in time read from a clock; the
 * controller calls plan_pass again from its loop while `more` is set. Order by the priority plugin within PriorityTier; the main pass starts
 * what fits until the head of a partition blocks; backfill then reserves for the head (and the next bf_max reservations) and starts later jobs that
 * end before or lie beside every reservation. Decisions are proposals: apply checks them again.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <spur/priority.h>
#include <spur/select.h>

#include "state/apply.h"

struct plan;
struct plan_plugins { const struct spur_select_ops *select; void *select_self; const struct spur_priority_ops *priority; void *priority_self; };

struct plan *plan_create(void);
void plan_destroy(struct plan *p);
/* Feed it what apply said, so that its queue stays right; events of kinds it does not know are ignored. NULL events: rebuild from state. */
void plan_events(struct plan *p, struct state *s, const struct event *events, size_t n);
bool plan_is_dirty(const struct plan *p);           /* something has changed since the last full pass */
int64_t plan_next_wall_ms(const struct plan *p);    /* when time alone makes a pass worthwhile (begin time, delay, reservation, rank period); INT64_MAX: never */

struct plan_budget { uint32_t placements; };        /* calls of select.place in this slice */
struct decisions { Wire__Op **ops; size_t op_count; bool more; };   /* OpStart, and OpCancel of never-satisfied dependencies and passed deadlines; in the arena */
void plan_pass(struct plan *p, struct state *s, const struct plan_plugins *plugins, int64_t now_wall_ms, int64_t now_cluster_ms,
               struct plan_budget budget, struct arena *a, struct decisions *out);
/* A decision that was proposed and refused or dropped: look at the job again. task_id: of the array that was to start; UINT32_MAX: none. */
void plan_refused(struct plan *p, struct state *s, uint32_t job_id, uint32_t task_id);

/* The normalised wish of one job in one partition (ask.c), for plan, --test-only and admit's can-it-ever-run check; memory in the arena. */
int  ask_build_spec(struct state *s, const Wire__JobSpec *spec, const struct config_partition *part, struct arena *a, struct spur_ask *out, struct spur_error *err);
struct spur_placement *placement_room(struct state *s, struct arena *a, uint32_t nodes);
/* When could this wish start at the earliest? Wall seconds; 0 with err: never. (sbatch --test-only) */
int64_t plan_when(struct plan *p, struct state *s, const struct plan_plugins *plugins, const struct spur_ask *ask, const struct config_partition *part,
                  uint32_t time_limit_min, int64_t now_wall_s, struct spur_placement *where, struct spur_error *err);
/* Feature expression "a100&ib", "a|b", "[r1|r2]", "a*2", parentheses -> bitmap of nodes that have it. features.c */
int  features_match(const struct state *s, const char *expression, struct bitmap *nodes, struct spur_error *err);
/* Why does a step get which nodes and tasks: subdivision of an allocation for srun. step.c */
int  step_place(struct state *s, const struct job *j, const Wire__StepSpec *spec, struct arena *a, Wire__NodeAlloc ***allocs, size_t *count, uint32_t *ntasks, struct spur_error *err);

#endif
