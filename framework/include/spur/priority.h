/* SPDX-License-Identifier: Apache-2.0 */
/* spur/priority.h - the kind `priority`: in which order pending jobs are looked at (Slurm's PriorityType). ABI 0.1.
 * Called by the plan pass on the leader only, on the loop's thread; what is handed in is borrowed until the call returns. Mandatory: rank. */
#ifndef SPUR_PRIORITY_H
#define SPUR_PRIORITY_H

#include <spur/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What sprio shows. age, job_size, partition, fair_share, qos: 0..1 before their weights; site: points added; nice: points taken away. */
struct spur_priority_factors {
    uint32_t size;
    double age, job_size, partition, site, fair_share, qos, nice;
};

struct spur_priority_ops {
    uint32_t size;
    /* The job's priority; higher is first, never 0 (0 means held), at most UINT32_MAX - 1. `now` is wall seconds. `out` may be NULL; its caller
     * sets out->size, and the plugin writes no further than that. */
    uint64_t (*rank)(void *self, const struct spur_job_view *job, int64_t now, struct spur_priority_factors *out);
    /* Seconds after which ranks change by themselves (age): the plan ranks all again then. 0: never. Optional. */
    uint32_t (*period_s)(void *self);
};

#ifdef __cplusplus
}
#endif
#endif
