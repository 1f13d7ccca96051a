/* SPDX-License-Identifier: Apache-2.0 */
/* taskhooks.h - TaskProlog and TaskEpilog, with those of srun: run as the user, before and after each task. */
#ifndef AGENT_TASKHOOKS_H
#define AGENT_TASKHOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/error.h>

#include "agent/environment.h"
#include "agent/task.h"

/* In the child, as the user, before the program: runs `program` and does what it prints: "export NAME=VALUE", "unset NAME", "print WORDS" (onto print_fd). 0, or the
 * reason, for which the task does not run. */
int task_prolog(const char *program, struct environment *env, int print_fd, struct spur_error *err);
/* One line of its output. For tests. */
void task_prolog_line(struct environment *env, const char *line, int print_fd);

/* Epilogs of a step that run. */
struct task_epilogs { struct task_epilog *first; };
/* After task `local`: srun's, then the site's; either may be NULL. The plan's ids, environment, folder and limits count. False: there is none to run, or it cannot be started. */
bool task_epilog_start(struct task_epilogs *e, const struct task_plan *like, const char *of_srun, const char *of_site, uint32_t local, int64_t now_ms);
/* The task whose epilog this was; -1: none of them. */
int  task_epilog_reaped(struct task_epilogs *e, pid_t pid);
/* Ends those that take too long. When the next is due, or INT64_MAX. */
int64_t task_epilogs_sweep(struct task_epilogs *e, int64_t now_ms);

#endif
