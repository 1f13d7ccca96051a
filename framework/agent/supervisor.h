/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.h - spurstepd: one process a step and node; holds the tasks, their I/O and exit codes; outlives the agent. */
#ifndef AGENT_SUPERVISOR_H
#define AGENT_SUPERVISOR_H

#include "wire/spur.pb-c.h"

#define STEP_PROTOCOL 1         /* N; N-1 is understood too */
#define STEP_SOCKET   "socket"  /* in the step's folder */
#define STEP_STATE    "state"
#define STEP_SCRIPT   "slurm_script"

/* Runs the step to its end and beyond: until an agent has acknowledged its last report. Owns order and agent_fd (-1: none yet). Returns the exit status. */
int supervisor_run(Wire__StepOrder *take_order, int agent_fd);

/* Of two wait() statuses the worse: a signal counts as 128 + signal, as shells do. */
int status_worse(int a, int b);

#endif
