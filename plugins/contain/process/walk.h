/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h - processes as /proc shows them: one, those below one, those of a session. Shared by the plugins of this kind. */
#ifndef CONTAIN_WALK_H
#define CONTAIN_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/contain.h>

struct pids { pid_t *list; size_t count, room; };

/* Without memory for one more the list stays as it is: the caller walks again anyway. */
void   pids_add(struct pids *p, pid_t pid);
void   pids_fini(struct pids *p);
/* Everything that came of `root` and is alive, not root itself. */
void   pids_below(pid_t root, struct pids *out);
/* Takes `root` and everything below it out of the list. */
void   pids_without(struct pids *p, pid_t root);
/* Numbers, one a line, as in cgroup.procs. False: it cannot be read. */
bool   pids_read(const char *path, struct pids *out);
/* Adds what /proc says of these processes to `out`. */
void   pids_figures(const struct pids *p, struct spur_contain_figures *out);
/* SIGKILL to the processes of `uid` in the session of `leader`, and to what is below them. How many. */
size_t session_kill(const struct spur_contain_leader *leader, uid_t uid);
/* SIGCONT ... anything to all of them; how many got it. */
size_t pids_signal(const struct pids *p, int signal);

#endif
