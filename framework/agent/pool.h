/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - `spurstepd --pool`: a small process without keys that forks one supervisor per step. */
#ifndef AGENT_POOL_H
#define AGENT_POOL_H

#include <sys/types.h>
#include <spur/error.h>

#include "wire/spur.pb-c.h"

struct pool { int fd; pid_t pid; };

/* Starts it by executing this binary anew: nothing of the caller's memory is in it. */
int  pool_start(struct pool *p, struct spur_error *err);
void pool_stop(struct pool *p);             /* it ends at the end of its socket; supervisors keep running */
/* One step: *link_fd is the agent's end of the new supervisor's link. The pool is started again when it has died. */
int  pool_order(struct pool *p, const Wire__StepOrder *order, int *link_fd, struct spur_error *err);

#endif
