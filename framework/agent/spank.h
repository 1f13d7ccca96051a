/* SPDX-License-Identifier: Apache-2.0 */
/* spank.h - the SPANK plugins of a step on its node: a process of their own, the host, beside the supervisor. */
#ifndef AGENT_SPANK_H
#define AGENT_SPANK_H

#include <sys/types.h>
#include <spur/error.h>

#include "agent/environment.h"
#include "agent/task.h"

/* A task that has been forked: what the supervisor keeps of it. Descriptors -1: none. */
struct task_parts { pid_t pid; int word_fd, in_fd, out_fd, err_fd; };

/* What the host does with the supervisor's own code, in the copy of the supervisor that it is. */
struct spank_life {
    void *arg;
    void (*close)(void *arg);           /* descriptors that belong to the supervisor alone */
    /* The environment and the arguments that all tasks start from; they live as long as the host. */
    struct environment *(*begin)(void *arg, char ***argv);
    int  (*make)(void *arg, uint32_t local, const struct task_hooks *hooks, struct task_parts *out, struct spur_error *err);
};

struct spank_host;
/* NULL with err->code 0: this node has no stack. Forks the host; it tells by spank_host_next(). */
struct spank_host *spank_host_start(const Wire__StepOrder *order, const struct spank_life *life, struct spur_error *err);
void  spank_host_free(struct spank_host *h);
int   spank_host_fd(const struct spank_host *h);        /* to poll for reading; -1: nothing to wait for. h may be NULL in all of these */
pid_t spank_host_pid(const struct spank_host *h);       /* 0: none, or it has ended */

/* What the host has said. EMPTY: no plugin is left of the stack: the supervisor starts the tasks itself. BEGUN: the plugins are there; what comes now may take long.
 * TASK: one more has been forked. ALL: no more come; they wait for spank_host_go(). SAID: a line for the user. FAILED: no task shall run here: text. */
enum spank_event { SPANK_NOTHING, SPANK_EMPTY, SPANK_BEGUN, SPANK_TASK, SPANK_ALL, SPANK_SAID, SPANK_FAILED };
struct spank_news { enum spank_event event; uint32_t local; struct task_parts parts; char text[700]; };
enum spank_event spank_host_next(struct spank_host *h, struct spank_news *out);

void spank_host_go(struct spank_host *h);
void spank_host_task_ended(struct spank_host *h, uint32_t local, int status);
/* slurm_spank_exit, then the host ends; again: nothing. hurry: it is killed soon if it does not. */
void spank_host_finish(struct spank_host *h, int64_t now_ms, bool hurry);
/* Its process was reaped. The sentence, when it was not its own will: which plugin was called then. */
const char *spank_host_reaped(struct spank_host *h, int status, char *buf, size_t size);
/* When it has to be killed for not ending; INT64_MAX: not now. */
int64_t spank_host_deadline(const struct spank_host *h);
void spank_host_kill(struct spank_host *h);
/* SIGKILL to every child of the calling process: what plugins have started and a killed host has left. How many. */
size_t spank_host_orphans(void);

#endif
