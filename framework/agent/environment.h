/* SPDX-License-Identifier: Apache-2.0 */
/* environment.h - the environment of a task: what the user carried, what Slurm promises about job, step and task, and the GPU variables. */
#ifndef AGENT_ENVIRONMENT_H
#define AGENT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/spur.pb-c.h"

/* A list of NAME=value, each name once; ends with NULL, as execve wants it. */
struct environment {
    char **vars;
    size_t count, room;
};
void environment_init(struct environment *e);
void environment_fini(struct environment *e);
void environment_set(struct environment *e, const char *name, const char *value);
void environment_setf(struct environment *e, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void environment_unset(struct environment *e, const char *name);
const char *environment_get(const struct environment *e, const char *name);
void environment_copy(struct environment *to, const struct environment *from);      /* to: fresh */
/* NUL-separated NAME=value as it came over the wire; entries without a name or '=' are dropped, a later one wins. */
void environment_carry(struct environment *e, const void *data, size_t len);

/* What a task is, beyond what the order says. */
struct environment_task { uint32_t global, local; const char *gtids; int pid; };

/* The part that is the same for all tasks of the step on this node. Removes what belongs to the job or step that the submit came from. */
void environment_job(struct environment *e, const Wire__StepOrder *order);
/* HOME, USER, LOGNAME, SHELL, PATH where the user carried none; looks into the password database, so it may block. */
void environment_login(struct environment *e, uint32_t uid, const char *user);
/* The part of one task; pid 0: set later by environment_task_pid. */
void environment_task(struct environment *e, const struct environment_task *t);
/* SLURM_TASK_PID, written by the child into the slot that environment_task made: no memory is allocated after fork. */
void environment_task_pid(struct environment *e, int pid);

/* CUDA_VISIBLE_DEVICES and its like for a set of devices; empty: none of them is there. */
void environment_gpus(struct environment *e, const Wire__StepOrder *order, uint64_t mask);

/* Which row of the launch is this node; helpers that the supervisor needs too. */
const Wire__NodeAlloc *order_alloc(const Wire__StepOrder *order);
uint32_t order_local_tasks(const Wire__StepOrder *order);       /* 1 for a batch step */
uint32_t order_first_task(const Wire__StepOrder *order);
uint32_t order_task(const Wire__StepOrder *order, uint32_t local);       /* the number of a task of this node in the step */
uint32_t order_step_rank(const Wire__StepOrder *order);         /* this node's place in the step */
uint64_t order_gpu_mask(const Wire__StepOrder *order);
bool     order_is_batch(const Wire__StepOrder *order);

#endif
