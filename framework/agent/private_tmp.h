/* SPDX-License-Identifier: Apache-2.0 */
/* private_tmp.h - a job's own /tmp and /dev/shm (JobContainerType=job_container/tmpfs). */
#ifndef AGENT_PRIVATE_TMP_H
#define AGENT_PRIVATE_TMP_H

#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#include "wire/spur.pb-c.h"

struct agent;

/* The agent: what job_container.conf says, NULL when nothing is private here. What is asked for and cannot be done goes into `fault`. */
Wire__PrivateTmp *private_tmp_settle(const struct agent *a, char *fault, size_t size);
void private_tmp_free(Wire__PrivateTmp *t);
/* The job has gone from this node: its folders go, on a thread of the loop's pool. */
void private_tmp_over(struct agent *a, uint32_t job_id);

/* The supervisor: a mount namespace for the tasks of its step; *ns_fd, close-on-exec. Makes the job's folders when it is the first. */
int  private_tmp_make(const Wire__StepOrder *o, int *ns_fd, struct spur_error *err);
/* The child, as root: from here on /tmp is the job's. */
int  private_tmp_enter(int ns_fd, struct spur_error *err);

#endif
