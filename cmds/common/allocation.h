/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.h - an allocation that belongs to a command (salloc, srun): how it is ended, and the guard that ends it when the command cannot. */
#ifndef CMDS_COMMON_ALLOCATION_H
#define CMDS_COMMON_ALLOCATION_H

#include <sys/types.h>

#include "client/client.h"

/* Over with it, by its owner: the job ends with this wait() status. 0, or a code with the sentence. */
int  allocation_finish(struct client *c, struct arena *a, uint32_t job_id, int wait_status, struct spur_error *err);
/* Ends a job, or a step when `id` names one, as scancel would. */
int  allocation_cancel(struct client *c, struct arena *a, const char *id, struct spur_error *err);

/* A child that holds the other end of a pipe: when that closes without a word, the command was killed or found no controller, and the child ends the
 * job, for a quarter of an hour if need be. It is there before the request is sent: a command that is killed before it has read the answer has a job
 * too, and knows no number. `name`: for ps. Its descriptor is close-on-exec. */
struct guard { int fd; };
void guard_start(struct guard *g, Wire__SubmitRequest *submit, const char *name);   /* `submit` has its token */
void guard_job(struct guard *g, uint32_t job_id);                                   /* the answer: this is the job */
/* The command that has the allocation leads a process group of its own: it gets `signal` when it outlives the caller. */
void guard_command(struct guard *g, pid_t command, int signal);
void guard_dismiss(struct guard *g);        /* the job is over, or was refused: nothing is left to guard */

#endif
