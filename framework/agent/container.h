/* SPDX-License-Identifier: Apache-2.0 */
/* container.h - all processes of a step: what its supervisor has started and everything that came of it.
 *
 * A supervisor has one step and so one container, which a plugin of the kind contain makes (spur/contain.h): container_own() first. What the
 * supervisor is told by Kill messages ends in these calls; `freeze` of such a message is container_freeze. Empty means: no child of the
 * supervisor is left, which is the subreaper of its step, and the plugin counts nobody.
 */
#ifndef AGENT_CONTAINER_H
#define AGENT_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/contain.h>
#include <spur/error.h>

#include "wire/spur.pb-c.h"

/* Makes the container of the order's step, with the limits that the order has. Once a process. */
int    container_own(const Wire__StepOrder *order, struct spur_error *err);
/* In a child, between fork and exec, with the supervisor's rights: from here on it is in the container. */
int    container_enter(struct spur_error *err);
size_t container_signal(int signal);                /* to every process of it; how many were there */
/* SIGKILL to all; thaws. What forks faster than it can be found is stopped first. To be repeated until container_is_empty and no child is left. */
size_t container_kill(void);
bool   container_is_empty(void);
/* Stops all processes so that they do not see it, or lets them go on. Again is not an error. A kill thaws. */
int    container_freeze(bool frozen, struct spur_error *err);
bool   container_is_frozen(void);
/* Figures of the step as they are now (sstat): CPU time, RSS, I/O. `out` is filled whole. */
int    container_figures(struct spur_contain_figures *out, struct spur_error *err);
/* How many of the container's processes the kernel has killed for memory. */
uint64_t container_oom_kills(void);
void   container_spare(pid_t helper);               /* a child of ours that is none of the step's: never signalled, killed or counted */
void   container_release(void);                     /* it is empty: nothing of it stays on the machine */

/* Start of a process in clock ticks after boot: with the pid it names a process for good. 0: no such process. */
uint64_t process_start(pid_t pid);
const char *boot_id(void);                          /* of this boot of the kernel */

/* A plugin as an order names it (plugin, keys, plugin_dir, spur_text); `order` has to stay as long as *out. */
struct loaded;
struct spur_host;
int    contain_open(const Wire__Contain *order, struct spur_host *host, struct loaded **out, struct spur_error *err);
/* For the agent, when a supervisor has died: one round of SIGKILL to what it left of the step. How many there were. */
size_t contain_reclaim(const Wire__Contain *order, const Wire__StepState *st);

#endif
