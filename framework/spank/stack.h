/* SPDX-License-Identifier: Apache-2.0 */
/* stack.h - a stack of SPANK plugins in this process: load, options, hooks. Used by srun, sbatch, salloc, and on a node by children of the supervisor
 * and of spurd, never by a daemon itself: a plugin is foreign code, and what it breaks is then only one launch.
 *
 * One process has one stack: spank_context() and the log functions of spank.h have no argument to tell two apart.
 */
#ifndef SPANK_STACK_H
#define SPANK_STACK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/error.h>
#include <slurm/spank.h>

enum spank_hook {
#define SPANK_HOOK(name) SPANK_ON_##name,
#include "spank/hooks.def"
#undef SPANK_HOOK
    SPANK_HOOKS
};

/* What plugins may ask and change; borrowed until the stack is closed. `known`: bit S_x set: that item has an answer here. */
#define SPANK_KNOWS(item) (UINT64_C(1) << (item))
struct spank_facts {
    uint64_t known;
    uid_t    uid;
    gid_t    gid;
    const gid_t *groups; int group_count;
    uint32_t job_id, step_id, nodes, node_rank, local_tasks, total_tasks, cpus_per_task, restarts, array_id, array_task;
    uint16_t cpus;
    const char *job_cores, *step_cores;
    uint64_t job_mem_mib, step_mem_mib;
    char   **argv; int argc;
    /* tasks of this node: their numbers in the step; pids NULL: not forked yet */
    const uint32_t *globals;
    const pid_t *pids; uint32_t pid_count;
    /* of the task that a task hook is about */
    uint32_t task; pid_t task_pid; int task_status;

    /* the job's environment; NULL functions: this context has none of its own */
    void   *env_of;
    const char *(*env_get)(void *of, const char *name);
    void  (*env_set)(void *of, const char *name, const char *value);        /* value NULL: unset */
    char  **(*env_list)(void *of);
    /* that of prolog and epilog, names without SPANK_ */
    void   *control_of;
    const char *(*control_get)(void *of, const char *name);
    void  (*control_set)(void *of, const char *name, const char *value);
    /* puts words in front of the task's command line; NULL: not here */
    void   *argv_of;
    int   (*argv_prepend)(void *of, int argc, const char *const *argv);
};

enum spank_level { SPANK_LOG_USER, SPANK_LOG_ERROR, SPANK_LOG_INFO, SPANK_LOG_VERBOSE, SPANK_LOG_DEBUG };

/* Where the process stands: "slurm_spank_init of pyxis", "loading /x.so". In memory that somebody else reads when the process has crashed. NULL: nowhere. */
struct spank_mark { char text[200]; };
void spank_mark_in(struct spank_mark *mark);

struct spank_stack;
/* Reads the stack file, loads its plugins (relative ones are looked for in the folders of plugin_dir, apart by ':', then in LIBDIR/slurm). *out NULL and 0: the
 * file is not there or empty. An optional plugin that does not load is said to the log and left out; a required one is the error. */
int  spank_stack_open(const char *path, const char *plugin_dir, spank_context_t context, struct spank_facts *facts, struct spank_stack **out, struct spur_error *err);
/* A stack of one; the row is borrowed. */
struct plugstack_row;
int  spank_stack_open_row(const struct plugstack_row *row, const char *plugin_dir, spank_context_t context, struct spank_facts *facts, struct spank_stack **out,
                          struct spur_error *err);
void spank_stack_close(struct spank_stack *s);          /* calls no hook */
/* Calls a hook of every plugin that has it, in order. A required plugin that fails ends the walk: the error names plugin and hook. */
int  spank_stack_call(struct spank_stack *s, enum spank_hook hook, struct spur_error *err);
bool spank_stack_has(const struct spank_stack *s, enum spank_hook hook);

/* ---- options: registered in slurm_spank_init ---- */

struct spank_stack_option { const char *plugin, *name, *arginfo, *usage; int has_arg; };
size_t spank_stack_options(const struct spank_stack *s);
void   spank_stack_option(const struct spank_stack *s, size_t i, struct spank_stack_option *out);
/* An option as the user gave it: its callback runs at once; the value is kept for getopt. value NULL: none. */
int    spank_stack_option_take(struct spank_stack *s, size_t i, const char *value, struct spur_error *err);
/* The variable that carries an option from command to node and from a job to its steps: "_SLURM_SPANK_OPTION_plugin_name". */
void   spank_option_variable(const char *plugin, const char *name, char *out, size_t size);
/* All options that stand in the environment, through `get`. */
int    spank_stack_options_carried(struct spank_stack *s, const char *(*get)(void *of, const char *name), void *of, struct spur_error *err);
/* The value that counts, for the environment of what comes next; false: not given. *value NULL: given without one. */
bool   spank_stack_option_value(const struct spank_stack *s, size_t i, const char **value);

/* ---- for lists ---- */

struct spank_stack_plugin { const char *name, *path; bool required; unsigned version; };
size_t spank_stack_plugins(const struct spank_stack *s);
void   spank_stack_plugin(const struct spank_stack *s, size_t i, struct spank_stack_plugin *out);
bool   spank_stack_plugin_has(const struct spank_stack *s, size_t i, enum spank_hook hook);
const char *spank_hook_name(enum spank_hook hook);      /* "slurm_spank_init" */

/* Where lines of plugins go: one line without its newline. NULL: standard error, in the manner of the command `program`; verbose: how many -v. */
void   spank_log_to(void (*line)(void *arg, enum spank_level level, const char *text), void *arg);
void   spank_log_as(const char *program, int verbose);
void   spank_log_line(enum spank_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void   spank_log_args(enum spank_level level, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

#endif
