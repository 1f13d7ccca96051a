/* SPDX-License-Identifier: Apache-2.0 */
/* binding.h - the devices of each task of a step on this node. */
#ifndef AGENT_BINDING_H
#define AGENT_BINDING_H

#include "agent/cpus.h"
#include "wire/spur.pb-c.h"

struct binding {
    uint64_t *masks;                /* a task: its devices by index */
    char    **lines;                /* a task: what its standard error is told before the program runs, or NULL */
    uint32_t  tasks;
};

/* For the tasks of the order on this node; a batch script has all devices of the job here. cpus: what the tasks are bound to; NULL: nothing. */
void binding_init(struct binding *b, const Wire__StepOrder *order, const struct cpus *cpus);
void binding_fini(struct binding *b);

#endif
