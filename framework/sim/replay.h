/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - a cluster of equal nodes that runs a load under a virtual clock, with the daemon's own admit, plan, apply and plugins. */
#ifndef SIM_REPLAY_H
#define SIM_REPLAY_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/load.h"
#include "sim/machine.h"

struct replay_setting { const char *key, *value; };

struct replay_options {
    const struct machine *machine;
    uint32_t nodes, leaf, pod;      /* leaf: nodes a leaf switch; pod: leaves a pod, 0: all under one */
    const struct load *load;
    double   limit_factor;          /* a job's time limit, as a multiple of its duration; it is rounded up to minutes */
    bool     no_links;              /* nodes do not say how their GPUs are joined */
    bool     fill;                  /* all is submitted at once and nothing ends: how long until starts cease? */
    const struct replay_setting *settings; size_t setting_count;    /* keys of slurm.conf, in place of the replay's own */
    const char *spur_conf;          /* text of spur.conf, or NULL */
    uint32_t placements;            /* placements a slice of the plan; 0: as the controller has it */
};

/* One job as it went. */
struct replay_job {
    uint32_t job_id, gpus, leaves;
    bool     refused, started;
    int64_t  submit_ms, start_ms, end_ms;
    double   share;                 /* bandwidth of its sets against the best of that size, over its nodes; 1 where nothing is to be joined */
    bool     has_pairs, spans_nodes;
    char    *where;                 /* "n0001:0-1,4", "n[0001-0002]:0-7"; or the sentence of a refusal */
    char    *why;                   /* the select plugin's line, or NULL */
};

struct replay_summary {
    uint32_t jobs, refused, started, waiting;
    double   bandwidth_ratio, best_share, one_leaf_share, wait_mean_s, wait_p95_s, utilisation, fragmentation, span_s;
    uint32_t paired, multi_node;    /* jobs that bandwidth_ratio and one_leaf_share are means of */
    uint64_t decisions, slices;     /* placements asked, slices of the plan */
    /* measured on this machine: another run gives others */
    double   decision_us_median, decision_us_p95, decision_us_max, slice_ms_max;
    double   submit_s, start_s;     /* CPU seconds of admit and its apply; of the plan and the apply of its decisions */
};

/* Runs it to the end. `row` is called once a job, in order of submission, when all has ended. */
int replay_run(const struct replay_options *o, void (*row)(void *arg, const struct replay_job *j), void *arg, struct replay_summary *out, struct spur_error *err);

#endif
