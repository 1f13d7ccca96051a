/* SPDX-License-Identifier: Apache-2.0 */
/* step_inside.h - one step on one node, as the files of the supervisor see it: supervisor.c (its life, agent, srun, end), step_start.c (the tasks come to be)
 * and step_plugins.c (SPANK plugins start them). One thread; nobody else includes this.
 */
#ifndef AGENT_STEP_INSIDE_H
#define AGENT_STEP_INSIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <spur/error.h>

#include "agent/binding.h"
#include "agent/cpus.h"
#include "agent/environment.h"
#include "agent/mpi.h"
#include "agent/spank.h"
#include "agent/supervisor.h"
#include "agent/task.h"
#include "agent/taskhooks.h"
#include "agent/taskio.h"
#include "base/str.h"
#include "client/link.h"

enum phase { PHASE_CONNECT, PHASE_PLUGINS, PHASE_RUN, PHASE_EMPTYING, PHASE_GONE };

struct task {
    pid_t pid; uint64_t start;
    int   fail_status;                  /* it could not start: as it said before its end; 0: it could, or has said nothing */
    int   word_fd, err_fd, status;      /* err_fd: its error file, opened by itself; -1: none */
    bool  running;
};

struct supervisor {
    Wire__StepOrder *order;
    enum phase phase;
    int    folder_fd, listen_fd, signal_fd;
    struct link agent;
    struct taskio *io;
    struct task_epilogs epilogs;
    struct mpi *mpi; bool mpi_lost;     /* it knows that srun has gone */
    struct task *tasks; uint32_t count, running, words;
    bool   started_said, is_ending, kill_now, is_stuck;
    bool     is_node_fault;         /* a launch that fails now has failed by the node, not by the job */
    int    ending_signal;
    int64_t kill_at_ms, sweep_at_ms, sweep_ms, exit_at_ms, first_kill_ms;      /* first_kill_ms: of SIGKILL to all; 0: none yet */
    uint64_t oom_kills;
    int64_t limit_at_ms;                /* of the step itself; 0: none */
    bool   timed_out;
    int    status;
    bool   failed; int fail_status;     /* a task could not start: `text` says why; the others were killed for it */
    char   text[sizeof ((struct spur_error *)0)->text];
    struct rusage used;
    Wire__Report *pending[4]; size_t pending_count;
    uint64_t seq;
    Wire__Report *ended;                /* for the state file; owned by pending */
    uint8_t *ended_bytes; size_t ended_len;
    struct spank_host *plugins;         /* SPANK plugins of the step; NULL: none, or not any more */
    struct str said;                    /* what they have said to the user before anybody listened */
    struct start *start;                /* in the plugins' own process only */
};

struct start {          /* what all tasks of the node share */
    struct environment env;
    struct binding binding;
    struct cpus cpus;
    struct spur_error unbound;          /* why tasks cannot be bound as srun asked; code 0: they can */
    gid_t *groups;
    const char *work_dir, *user;
    char *script;
    char **argv;
    char *gtids;
};

/* supervisor.c */
int  supervisor_save(struct supervisor *s);                             /* the state file; 0 or a code */
void supervisor_report(struct supervisor *s, Wire__Report__Kind kind, int status, const char *text);     /* kept until it is acknowledged */

/* step_start.c */
void supervisor_start(struct supervisor *s);                            /* all tasks, at once */
void supervisor_start_init(struct supervisor *s, struct start *st);
void supervisor_start_fini(struct start *st);
int  supervisor_check(struct supervisor *s, struct start *st, struct spur_error *err);     /* can it start at all? Writes the batch script. */
/* Forks one task that waits before its program; may run in the plugins' process: changes nothing of `s`. */
int  supervisor_make_task(const struct supervisor *s, struct start *st, uint32_t local, const struct task_hooks *hooks, struct task_parts *parts, struct spur_error *err);
void supervisor_take_task(struct supervisor *s, uint32_t local, const struct task_parts *take_parts);
void supervisor_started(struct supervisor *s, int rc, const struct spur_error *err);       /* all tasks are there, or why not */
void supervisor_start_failed(struct supervisor *s, const char *text, int status);          /* no task will run */
void supervisor_task_ended(struct supervisor *s, uint32_t local, int status);

/* step_plugins.c */
void supervisor_start_with_plugins(struct supervisor *s);
void supervisor_plugins_news(struct supervisor *s);
void supervisor_plugins_reaped(struct supervisor *s, int status);
void supervisor_plugins_failed(struct supervisor *s, const char *text);
void supervisor_plugins_say(struct supervisor *s);

#endif
