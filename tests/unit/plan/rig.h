/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - a cluster in memory for the tests of plan and admit: the real state, configuration and apply; a select plugin that fills nodes in order. */
#ifndef TESTS_PLAN_RIG_H
#define TESTS_PLAN_RIG_H

#include "plan/plan.h"

struct rig {
    struct state *s;
    struct plan *p;
    struct arena arena;             /* lives as long as the rig */
    struct plan_plugins plugins;
    int64_t wall_ms, cluster_ms;
    uint64_t index, seq;
    uint32_t places;                /* calls of the select plugin */
    uint32_t budget;                /* placements a slice */
    uint32_t period; bool turned;   /* of the priority plugin: when turned, a higher nice is a higher rank */
    uint32_t refused;               /* decisions that came too late, of all passes */
    uint32_t started[4096]; bool by_backfill[4096]; size_t started_count;      /* by the last rig_pass */
    void (*on_start)(struct rig *r, const struct job *j, const Wire__OpStart *o);     /* before it is applied */
};

#define TOPOLOGY_BEGINS "\n#### topology.conf\n"
void rig_init(struct rig *r, const char *conf);         /* text of slurm.conf, and behind TOPOLOGY_BEGINS topology.conf; all nodes register */
void rig_fini(struct rig *r);
Wire__Op *rig_op(struct rig *r);
/* Applies one op and feeds the plan; the result's code, the id in *job_id. */
int  rig_apply(struct rig *r, Wire__Op *op, uint32_t *job_id);
/* "nodes=2 tasks=4 cpus=1 mem=100 tmp=5 switches=1 segment=2 time=10 prio=5 part=p array=0-3 dep=afterok:1 feat=a w=n1 x=n2 gres=gpu:1 hold excl begin=+60 name=x": the id. */
uint32_t rig_submit(struct rig *r, const char *wish);
uint32_t rig_submit_het(struct rig *r, uint32_t count, const char *const *wishes);      /* components of one job, the first one's id */
void rig_spec(struct rig *r, Wire__JobSpec *spec, const char *wish);
void rig_pass(struct rig *r);                           /* until nothing is left to do */
void rig_end(struct rig *r, uint32_t job_id, int status);
void rig_clock(struct rig *r, int64_t seconds);         /* time passes */
void rig_node(struct rig *r, const char *node, const char *key, const char *value);
const char *rig_state(struct rig *r, uint32_t job_id);  /* "RUNNING" */
const char *rig_reason(struct rig *r, uint32_t job_id); /* of the plan */

#endif
