/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - what a user asks for with sbatch, srun (and salloc): one table of options, filling one request.
 *
 * The rows stand in request_rows.c, the rules that need more than one option in request.c. A request is read from its weakest source to its
 * strongest (directives, environment, command line), each overriding the one before; where options exclude each other the stronger source
 * wins, and two of the same source are refused. Texts are borrowed from argv and the environment or live in the arena.
 */
#ifndef CMDS_COMMON_REQUEST_H
#define CMDS_COMMON_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/arena.h"
#include "cmds/common/options.h"
#include "wire/spur.pb-c.h"

#define REQUEST_SBATCH 1u
#define REQUEST_SRUN   2u
#define REQUEST_SALLOC 4u

/* Who wins: a later source over an earlier one. NOBODY: the option was not given. */
enum request_rank { RANK_NOBODY, RANK_OF_SCRIPT, RANK_OF_ENVIRONMENT, RANK_OF_COMMAND_LINE };

struct request {
    unsigned       as;              /* REQUEST_* */
    struct arena   arena;
    Wire__JobSpec  spec;
    int64_t        now_s;           /* dates are told relative to this */

    /* of the command itself, not of the job */
    bool           login_env;       /* the variables of a login shell come along where there are none of that name, if it gives any (--export=NONE) */
    bool           quiet, parsable, wait, test_only, ignore_pbs;
    unsigned       verbose;
    const char    *wrap, *clusters, *export, *export_file, *get_user_env, *propagate, *nodefile, *gres, *gpus_per_node;
    char         **argv; int argc;  /* the program (srun), or the script and its arguments */
    enum request_rank mem_rank, mem_cpu_rank, mem_gpu_rank, nodes_rank, ntasks_rank, per_node_rank, exclusive_rank;

    /* of a step (srun) */
    Wire__StepSpec step;
    uint32_t       job_id; bool has_job_id;         /* --jobid, SLURM_JOB_ID */
    bool           gres_none;       /* --gres=none: this step shall have none of the job's */
    bool           label, unbuffered, kill_on_bad_exit, has_kill_on_bad_exit, overlap, exact, whole, disable_status, quit_on_interrupt, has_wait_s, has_relative;
    uint32_t       wait_s, relative;
    const char    *step_out, *step_err, *step_in;   /* as written */
    const char    *mpi, *cpu_bind, *mem_bind, *prolog, *epilog, *task_prolog, *task_epilog;
    const char    *nodes_written;                   /* -w with its order and repetitions */
    bool           multi_prog;
    const char    *het_group;                       /* --het-group: components of the job that the step runs over */
    int            immediate_s;                     /* -1: not asked */

    /* of a terminal (srun --pty, salloc) */
    bool           pty, interactive, preserve_env, no_shell;
    enum { BELL_LATE, BELL_ALWAYS, BELL_NEVER } bell;
    bool           has_kill_command;
    int            kill_command;                    /* signal for the command of an allocation that was revoked */
};

/* `command`: one REQUEST_*; rows_out: room of at least request_row_count() rows, which the table then uses. */
void   request_init(struct request *r, unsigned command);
void   request_fini(struct request *r);
size_t request_row_count(void);
void   request_table(unsigned command, struct option_row *rows_out, struct option_table *out);

/* What follows from several options together, after all sources: counts derived, exclusions, lists read from files. Prints warnings as Slurm's commands do.
 * 0, or a negative code with the sentence in err. */
int    request_finish(struct request *r, struct spur_error *err);
/* The parts of a record that describe the submitter: host, directory, umask, limits, the command line as typed. Patterns of output files stay as
 * written: who expands them joins them to the work directory. */
int    request_place(struct request *r, int argc, char **argv, struct spur_error *err);
/* `path` made absolute against the current directory; in the arena. */
char  *request_path(struct request *r, const char *path);
/* -v: what is set of the record, one line a field, on standard error. */
void   request_show(const struct request *r);
/* Own cluster, or one of the list in -M: 0; else a sentence. */
int    request_cluster(const struct request *r, const char *own, struct spur_error *err);

/* For the rows: a comma list of nodes from a file, in the arena, or NULL; are these words limits that can go along? */
char  *request_node_file(struct request *r, const char *path, struct spur_error *err);
int    request_propagate_check(const char *words, struct spur_error *err);
/* Of the rows, for their unit tests. */
int    signal_option_parse(const char *text, uint32_t *signal, uint32_t *time_s, uint32_t *flags, struct spur_error *err);
int    nodes_option_parse(const char *text, uint32_t *min, uint32_t *max, bool *has_max, struct spur_error *err);


/* Rows of request_tasks.c: how tasks are dealt and bound, as option_row.take. */
int    request_take_distribution(void *request, const char *value, enum option_source from, struct spur_error *err);
int    request_take_hint(void *request, const char *value, enum option_source from, struct spur_error *err);
int    request_take_cpu_bind(void *request, const char *value, enum option_source from, struct spur_error *err);
int    request_take_mem_bind(void *request, const char *value, enum option_source from, struct spur_error *err);
/* --distribution=arbitrary and SLURM_HOSTFILE: the node of each task into step.task_nodes, the nodes into spec. */
int    request_task_nodes(struct request *r, struct spur_error *err);
int    request_take_multi_prog(void *request, const char *value, enum option_source from, struct spur_error *err);

#endif
