/* SPDX-License-Identifier: Apache-2.0 */
/* container.h - all processes of a step: what the supervisor has started and everything that came of it.
 *
 * Form for machines without delegated cgroups: the supervisor is the subreaper of its step, so a process that leaves by setsid or double fork
 * comes back to it when its parent dies, and is found by walking the tree of children. Empty means: the supervisor has no child left.
 */
#ifndef AGENT_CONTAINER_H
#define AGENT_CONTAINER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/error.h>

int    container_own(struct spur_error *err);       /* become the subreaper of all that will be started */
size_t container_signal(int signal);                /* to every descendant; how many were there */
/* SIGKILL to all, after all have been stopped: what forks faster than /proc can be walked would get away otherwise. To be repeated until no child is left. */
size_t container_kill(void);
/* Start of a process in clock ticks after boot: with the pid it names a process for good. 0: no such process. */
uint64_t process_start(pid_t pid);
const char *boot_id(void);                          /* of this boot of the kernel */
/* For the agent, when a supervisor has died: SIGKILL to the processes of user `uid` whose session is `sid`, and to their descendants. How many there were. */
size_t session_kill(pid_t sid, uint64_t sid_start, uid_t uid);

#endif
