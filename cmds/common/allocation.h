/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.h - an allocation that belongs to a command (salloc, srun): how it is ended, and the guard that ends it when the command cannot. */
#ifndef CMDS_COMMON_ALLOCATION_H
#define CMDS_COMMON_ALLOCATION_H

#include "client/client.h"

/* Over with it, by its owner: the job ends with this wait() status. 0, or a code with the sentence. */
int  allocation_finish(struct client *c, struct arena *a, uint32_t job_id, int wait_status, struct spur_error *err);
/* Ends a job, or a step when `id` names one, as scancel would. */
int  allocation_cancel(struct client *c, struct arena *a, const char *id, struct spur_error *err);

/* A child that holds the other end of a pipe: when that closes without a word, the command was killed or found no controller, and the child ends the
 * job, for a quarter of an hour if need be. `name`: for ps. Its descriptor is close-on-exec. */
struct guard { int fd; };
void guard_start(struct guard *g, uint32_t job_id, const char *name);
void guard_dismiss(struct guard *g);        /* the job is over: nothing is left to guard */

#endif
