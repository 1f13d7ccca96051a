/* SPDX-License-Identifier: Apache-2.0 */
/* task.h - one process of the user's: files, limits, ids, exec. */
#ifndef AGENT_TASK_H
#define AGENT_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/error.h>

#include "agent/cpus.h"
#include "agent/drop.h"
#include "agent/environment.h"

/* What SPANK plugins do in the child: before anything of the user (as root, when the agent is), and as the user just before the exec. They may change the plan. */
struct task_plan;
struct task_hooks {
    void *arg;
    int (*privileged)(void *arg, struct task_plan *plan, struct spur_error *err);
    int (*last)(void *arg, struct task_plan *plan, struct spur_error *err);
};

/* What the child needs, all of it made before the fork. Paths NULL: the descriptor beside them is used. */
struct task_plan {
    struct drop  drop;
    char *const *argv;
    const char  *program;           /* path, or a name to be looked for in PATH */
    struct environment *env;
    const char  *work_dir;
    const char  *in_path, *out_path, *err_path;     /* err_path NULL and err_fd -1: goes where output goes */
    int          in_fd, out_fd, err_fd;
    int          mpi_fd;            /* its end of the mpi plugin's socket, which it finds as SPUR_MPI_TASK_FD; 0 or -1: none */
    bool         is_pty;            /* in_fd is a pseudo terminal: it becomes the terminal of the task, and all three of its streams */
    bool         append;            /* else truncate */
    mode_t       umask;
    Wire__Rlimit *const *rlimits; size_t rlimit_count;
    uint64_t     limits_kept;       /* bits of RLIMIT_*: of these rlimits, the ones that count */
    bool         is_batch;
    const struct cpus_task *cpus;   /* what it is bound to; NULL: nothing */
    const char  *prologs[2];        /* run before the program, as the user: the site's, srun's; NULL: none */
    const char  *line;              /* for its standard error, before the program runs; or NULL */
    const struct task_hooks *hooks; /* NULL: none. With hooks the child is a child of the caller's parent */
};

/* What the child says before its exec, one datagram each. STREAMS: its files are open; a duplicate of its standard error comes along when that is a
 * file. FAILED: the reason for the job. EXEC_FAILED: it exits 126 or 127, and has said so on its standard error too. */
enum task_stage { TASK_STREAMS = 1, TASK_FAILED, TASK_EXEC_FAILED };
struct task_word { uint32_t stage; int32_t status; char text[232]; };

/* Forks. *word_fd: for task_word_read: non-blocking, close-on-exec, the caller's. The pid leads a session of its own. */
int task_fork(const struct task_plan *plan, pid_t *pid, int *word_fd, struct spur_error *err);

/* 1 and a word (err_fd: the descriptor that came with it, or -1); 0: none yet; -1: the program has been executed, or the child is gone. */
int task_word_read(int word_fd, struct task_word *w, int *err_fd);

/* Adds a line to the file behind that descriptor, unless its user could make the write wait: then nothing is said. False: it cannot be written any more. */
bool task_say(int err_fd, const char *text, size_t n);

/* Closes this descriptor and all above it. */
void task_close_from(unsigned first);

/* mkdir -p of the folders that `path` lies in, with the caller's ids. For tests. 0 or errno. */
int task_make_folders(const char *path);

#endif
