/* SPDX-License-Identifier: Apache-2.0 */
/* spank.h - what a SPANK plugin compiles against: hooks, items, options, environment, log.
 *
 * Written from the manual page spank(7): names, order and types are the published ones, so that plugins made for Slurm compile unchanged, and the
 * values are those that compiled ones carry. Which call answers where stands in framework/doc/spank.md.
 * The functions live in the process that loads the plugin: link with nothing, cc -shared -fPIC -o NAME.so NAME.c is enough.
 */
#ifndef SPUR_SLURM_SPANK_H
#define SPUR_SLURM_SPANK_H

#include <inttypes.h>
#include <sys/types.h>
#include <unistd.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A plugin's head, once, outside of any function: SPANK_PLUGIN(name, version); */
#define SPANK_PLUGIN(name_, version_)                                                   \
    extern const char plugin_name[];                                                    \
    extern const char plugin_type[];                                                    \
    extern const unsigned int plugin_version;                                           \
    extern const unsigned int spank_plugin_version;                                     \
    const char plugin_name[] = #name_;                                                  \
    const char plugin_type[] = "spank";                                                 \
    const unsigned int plugin_version = SLURM_VERSION_NUMBER;                           \
    const unsigned int spank_plugin_version = version_;

typedef struct spank_handle *spank_t;

/* Every hook has this shape; ac and argv are the words behind the plugin in plugstack.conf. 0 is success. */
typedef int (spank_f)(spank_t spank, int ac, char *argv[]);
extern spank_f slurm_spank_init;
extern spank_f slurm_spank_slurmd_init;
extern spank_f slurm_spank_job_prolog;
extern spank_f slurm_spank_init_post_opt;
extern spank_f slurm_spank_local_user_init;
extern spank_f slurm_spank_user_init;
extern spank_f slurm_spank_task_init_privileged;
extern spank_f slurm_spank_task_init;
extern spank_f slurm_spank_task_post_fork;
extern spank_f slurm_spank_task_exit;
extern spank_f slurm_spank_job_epilog;
extern spank_f slurm_spank_slurmd_exit;
extern spank_f slurm_spank_exit;

/* What spank_get_item tells; behind each: the types of its further arguments. */
enum spank_item {
    S_JOB_UID,                  /* uid_t * */
    S_JOB_GID,                  /* gid_t * */
    S_JOB_ID,                   /* uint32_t * */
    S_JOB_STEPID,               /* uint32_t * */
    S_JOB_NNODES,               /* uint32_t * */
    S_JOB_NODEID,               /* uint32_t *: this node's place in the step */
    S_JOB_LOCAL_TASK_COUNT,     /* uint32_t * */
    S_JOB_TOTAL_TASK_COUNT,     /* uint32_t * */
    S_JOB_NCPUS,                /* uint16_t *: CPUs of the job on this node */
    S_JOB_ARGV,                 /* int *, char *** */
    S_JOB_ENV,                  /* char *** */
    S_TASK_ID,                  /* int *: on this node */
    S_TASK_GLOBAL_ID,           /* uint32_t * */
    S_TASK_EXIT_STATUS,         /* int *: as wait() has it, in task_exit */
    S_TASK_PID,                 /* pid_t * */
    S_JOB_PID_TO_GLOBAL_ID,     /* pid_t, uint32_t * */
    S_JOB_PID_TO_LOCAL_ID,      /* pid_t, uint32_t * */
    S_JOB_LOCAL_TO_GLOBAL_ID,   /* uint32_t, uint32_t * */
    S_JOB_GLOBAL_TO_LOCAL_ID,   /* uint32_t, uint32_t * */
    S_JOB_SUPPLEMENTARY_GIDS,   /* gid_t **, int * */
    S_SLURM_VERSION,            /* char ** */
    S_SLURM_VERSION_MAJOR,      /* char ** */
    S_SLURM_VERSION_MINOR,      /* char ** */
    S_SLURM_VERSION_MICRO,      /* char ** */
    S_STEP_CPUS_PER_TASK,       /* uint32_t * */
    S_JOB_ALLOC_CORES,          /* char **: a list, "0-3" */
    S_JOB_ALLOC_MEM,            /* uint64_t *: MiB */
    S_STEP_ALLOC_CORES,         /* char ** */
    S_STEP_ALLOC_MEM,           /* uint64_t * */
    S_SLURM_RESTART_COUNT,      /* uint32_t * */
    S_JOB_ARRAY_ID,             /* uint32_t *: 0 when the job is of no array */
    S_JOB_ARRAY_TASK_ID         /* uint32_t * */
};
typedef enum spank_item spank_item_t;

enum spank_context {
    S_CTX_ERROR,
    S_CTX_LOCAL,                /* srun */
    S_CTX_REMOTE,               /* with the tasks */
    S_CTX_ALLOCATOR,            /* sbatch, salloc */
    S_CTX_SLURMD,               /* beside the node's daemon */
    S_CTX_JOB_SCRIPT            /* with prolog and epilog */
};
typedef enum spank_context spank_context_t;

/* An error is one of ESPANK_* of slurm_errno.h. */
typedef slurm_err_t spank_err_t;
#ifndef ESPANK_SUCCESS
#define ESPANK_SUCCESS SLURM_SUCCESS
#endif

/* ---- options ---- */

#define SPANK_OPTION_MAXLEN 75      /* bytes of a name */

/* val: of the option; optarg NULL when there is none; remote: 0 where it was typed, 1 with the tasks. 0: fine. */
typedef int (*spank_opt_cb_f)(int val, const char *optarg, int remote);

struct spank_option {
    char *name;                 /* without dashes */
    char *arginfo;              /* word for its argument in --help */
    char *usage;                /* what it does */
    int has_arg;                /* 0 no argument, 1 one, 2 if one likes */
    int val;
    spank_opt_cb_f cb;          /* may be NULL */
};

/* A plugin may define this instead of calling spank_option_register; not seen by sbatch and salloc. */
extern struct spank_option spank_options[];
#define SPANK_OPTIONS_TABLE_END { (char *)0, (char *)0, (char *)0, 0, 0, (spank_opt_cb_f)0 }

spank_err_t spank_option_register(spank_t spank, struct spank_option *opt);     /* in slurm_spank_init */
spank_err_t spank_option_getopt(spank_t spank, struct spank_option *opt, char **optarg);

/* ---- questions ---- */

const char *spank_strerror(spank_err_t err);
int spank_symbol_supported(const char *symbol);     /* 1, 0; -1: no name */
int spank_remote(spank_t spank);                    /* 1, 0; -1: no handle */
spank_context_t spank_context(void);
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...);

/* ---- the job's environment (remote); that of prolog and epilog, as SPANK_NAME (local and allocator) ---- */

spank_err_t spank_getenv(spank_t spank, const char *name, char *buf, int len);
spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite);
spank_err_t spank_unsetenv(spank_t spank, const char *name);
spank_err_t spank_job_control_getenv(spank_t spank, const char *name, char *buf, int len);
spank_err_t spank_job_control_setenv(spank_t spank, const char *name, const char *value, int overwrite);
spank_err_t spank_job_control_unsetenv(spank_t spank, const char *name);

/* Puts words in front of the task's command line, in task_init_privileged and task_init. */
spank_err_t spank_prepend_task_argv(spank_t spank, int argc, const char *argv[]);

/* ---- log ---- */

void slurm_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
int  slurm_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void slurm_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));
void slurm_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void slurm_debug2(const char *format, ...) __attribute__((format(printf, 1, 2)));
void slurm_debug3(const char *format, ...) __attribute__((format(printf, 1, 2)));
void slurm_spank_log(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* to the user, without "error:" */

#ifdef __cplusplus
}
#endif
#endif
