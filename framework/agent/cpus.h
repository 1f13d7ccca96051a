/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.h - the CPUs and the memory of each task of a step on this node: from the order to sched_setaffinity in the child. */
#ifndef AGENT_CPUS_H
#define AGENT_CPUS_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "agent/environment.h"
#include "base/bitmap.h"
#include "wire/spur.pb-c.h"

/* What a child does to itself before the exec. mask, memory: empty: not bound. */
struct cpus_task {
    const char *node, *word;        /* word: "MASK", "MAP ", ... of the line that --cpu-bind=verbose prints */
    uint32_t global, local;
    struct bitmap mask, memory;
    bool     verbose, memory_verbose, prefer, bound, pretend;       /* pretend: the node's CPUs are emulated */
};
struct cpus {
    struct cpus_task *tasks; uint32_t count;
    char *text, *type, *list;       /* of SLURM_CPU_BIND*; text NULL: not bound, and nothing said */
    char *mem_text, *mem_type, *mem_list;
    bool  verbose, mem_verbose, prefer, is_batch;
    char *complaint;                /* why what was asked for cannot be; for the standard error of the first task */
};

/* 0, or a negative code when --cpu-bind names CPUs that the step does not hold. */
int  cpus_init(struct cpus *c, const Wire__StepOrder *order, struct spur_error *err);
void cpus_fini(struct cpus *c);         /* accepts a zeroed one */
void cpus_environment(const struct cpus *c, struct environment *e);
/* In the child: binds itself, and says so on its standard error when it was asked to. */
void cpus_apply(const struct cpus_task *t);

#endif
