/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c - the functions of spank.h that a plugin calls: questions, environment, command line.
 *
 * Each answers from the facts that the process which loaded the stack has filled in. An item without an answer says why, as Slurm does: asked outside of a
 * task (NOT_TASK), by a pid before there are any (NOT_EXECD), in a command what only the node knows (NOT_REMOTE).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "spank/inside.h"

/* The linker takes a member of an archive only when the program names something in it; exports.list then shows it to plugins. */
void spank_calls_here(void)
{
}

static bool is_handle(const struct spank_handle *h) { return h && h->magic == HANDLE_MAGIC; }

static bool is_task_hook(enum spank_hook h)
{
    return h == SPANK_ON_task_init_privileged || h == SPANK_ON_task_init || h == SPANK_ON_task_post_fork || h == SPANK_ON_task_exit;
}

/* ---- what is said about errors and ourselves ---- */

const char *spank_strerror(spank_err_t err)
{
    switch ((int)err) {
    case ESPANK_SUCCESS:    return "Success";
    case ESPANK_ERROR:      return "Generic error";
    case ESPANK_BAD_ARG:    return "Bad argument";
    case ESPANK_NOT_TASK:   return "Not in task context";
    case ESPANK_ENV_EXISTS: return "Environment variable exists";
    case ESPANK_ENV_NOEXIST: return "No such environment variable";
    case ESPANK_NOSPACE:    return "Buffer too small";
    case ESPANK_NOT_REMOTE: return "Valid only in remote context";
    case ESPANK_NOEXIST:    return "Id/PID does not exist on this node";
    case ESPANK_NOT_EXECD:  return "Lookup by PID requested, but no tasks running";
    case ESPANK_NOT_AVAIL:  return "Item not available from this callback";
    case ESPANK_NOT_LOCAL:  return "Valid only in local or allocator context";
    default:                return "Unknown";
    }
}

int spank_symbol_supported(const char *symbol)
{
    if (!symbol)
        return -1;
    for (int i = 0; i < SPANK_HOOKS; i++)
        if (!strcmp(symbol, spank_hook_name((enum spank_hook)i)))
            return 1;
    return 0;
}

int spank_remote(spank_t spank) { return is_handle(spank) ? spank->stack->context == S_CTX_REMOTE : -1; }

spank_context_t spank_context(void) { return spank_stack_here ? spank_stack_here->context : S_CTX_ERROR; }

/* ---- options ---- */

spank_err_t spank_option_register(spank_t spank, struct spank_option *opt)
{
    if (!is_handle(spank) || !opt || spank->hook != SPANK_ON_init)
        return ESPANK_BAD_ARG;
    return option_register(spank->plugin, opt);
}

spank_err_t spank_option_getopt(spank_t spank, struct spank_option *opt, char **value)
{
    struct spank_stack *s;

    if (!is_handle(spank) || !opt || !opt->name)
        return ESPANK_BAD_ARG;
    s = spank->stack;
    switch (spank->hook) {
    case SPANK_ON_job_prolog: case SPANK_ON_local_user_init: case SPANK_ON_user_init: case SPANK_ON_task_init_privileged: case SPANK_ON_task_init:
    case SPANK_ON_task_exit: case SPANK_ON_job_epilog: case SPANK_ON_init_post_opt: case SPANK_ON_task_post_fork: case SPANK_ON_exit:
        break;
    default:
        return ESPANK_NOT_AVAIL;
    }
    for (size_t i = 0; i < s->option_count; i++) {
        const struct spank_opt *o = &s->options[i];

        if (o->plugin != spank->plugin || strcmp(o->name, opt->name))
            continue;
        if (!o->given)
            return ESPANK_ERROR;
        if (value)
            *value = o->value;
        return ESPANK_SUCCESS;
    }
    /* prolog and epilog run without init: what was given is still in the environment that came along */
    if (s->context == S_CTX_JOB_SCRIPT && s->facts->control_get) {
        char name[256];
        const char *carried;

        spank_option_variable(spank->plugin->name, opt->name, name, sizeof name);
        if ((carried = s->facts->control_get(s->facts->control_of, name))) {
            if (value)
                *value = opt->has_arg ? (char *)(uintptr_t)carried : NULL;
            return ESPANK_SUCCESS;
        }
    }
    return ESPANK_ERROR;
}

/* ---- items ---- */

static spank_err_t local_of_pid(const struct spank_facts *f, pid_t pid, uint32_t *out)
{
    if (!f->pids || f->pid_count == 0)
        return ESPANK_NOT_EXECD;
    for (uint32_t i = 0; i < f->pid_count; i++)
        if (f->pids[i] == pid && pid > 0)
            return *out = i, ESPANK_SUCCESS;
    return ESPANK_NOEXIST;
}

static spank_err_t answer_task(const struct spank_handle *h, const struct spank_facts *f, spank_item_t item, va_list args)
{
    if (!is_task_hook(h->hook))
        return ESPANK_NOT_TASK;
    switch ((int)item) {
    case S_TASK_ID:
        *va_arg(args, int *) = (int)f->task;
        return ESPANK_SUCCESS;
    case S_TASK_GLOBAL_ID:
        *va_arg(args, uint32_t *) = f->globals[f->task];
        return ESPANK_SUCCESS;
    case S_TASK_PID:
        *va_arg(args, pid_t *) = f->task_pid;
        return ESPANK_SUCCESS;
    default:
        if (h->hook != SPANK_ON_task_exit)
            return ESPANK_NOT_AVAIL;
        *va_arg(args, int *) = f->task_status;
        return ESPANK_SUCCESS;
    }
}

static spank_err_t answer_id(const struct spank_facts *f, spank_item_t item, va_list args)
{
    uint32_t id = 0, *out;
    spank_err_t rc = ESPANK_SUCCESS;

    if (item == S_JOB_PID_TO_GLOBAL_ID || item == S_JOB_PID_TO_LOCAL_ID)
        rc = local_of_pid(f, va_arg(args, pid_t), &id);
    else
        id = va_arg(args, uint32_t);
    out = va_arg(args, uint32_t *);
    *out = (uint32_t)-1;
    if (rc != ESPANK_SUCCESS)
        return rc;
    if (item == S_JOB_GLOBAL_TO_LOCAL_ID) {
        uint32_t local = 0;

        while (local < f->local_tasks && f->globals[local] != id)
            local++;
        if (local == f->local_tasks)
            return ESPANK_NOEXIST;
        *out = local;
    } else if (item == S_JOB_PID_TO_LOCAL_ID) {
        *out = id;
    } else {
        if (id >= f->local_tasks)
            return ESPANK_NOEXIST;
        *out = f->globals[id];
    }
    return ESPANK_SUCCESS;
}

static spank_err_t answer_text(const char *text, va_list args)
{
    *va_arg(args, char **) = (char *)(uintptr_t)text;
    return ESPANK_SUCCESS;
}

static spank_err_t answer(const struct spank_handle *h, spank_item_t item, va_list args)
{
    const struct spank_facts *f = h->stack->facts;
    static char micro[] = CONFIG_SLURM_VERSION;

    switch ((int)item) {        /* known everywhere */
    case S_SLURM_VERSION:       return answer_text(CONFIG_SLURM_VERSION, args);
    case S_SLURM_VERSION_MAJOR: return answer_text(CONFIG_SLURM_MAJOR, args);
    case S_SLURM_VERSION_MINOR: return answer_text(CONFIG_SLURM_MINOR, args);
    case S_SLURM_VERSION_MICRO: return answer_text(strrchr(micro, '.') + 1, args);
    default: break;
    }
    if ((int)item < 0 || (int)item > S_JOB_ARRAY_TASK_ID)
        return ESPANK_BAD_ARG;
    if (!f || !(f->known & SPANK_KNOWS(item)))
        return h->stack->context == S_CTX_LOCAL || h->stack->context == S_CTX_ALLOCATOR ? ESPANK_NOT_REMOTE : ESPANK_NOT_AVAIL;
    switch ((int)item) {
#define NUMBER(item, type, member) case item: *va_arg(args, type *) = f->member; return ESPANK_SUCCESS
    NUMBER(S_JOB_UID, uid_t, uid);
    NUMBER(S_JOB_GID, gid_t, gid);
    NUMBER(S_JOB_ID, uint32_t, job_id);
    NUMBER(S_JOB_STEPID, uint32_t, step_id);
    NUMBER(S_JOB_NNODES, uint32_t, nodes);
    NUMBER(S_JOB_NODEID, uint32_t, node_rank);
    NUMBER(S_JOB_LOCAL_TASK_COUNT, uint32_t, local_tasks);
    NUMBER(S_JOB_TOTAL_TASK_COUNT, uint32_t, total_tasks);
    NUMBER(S_JOB_NCPUS, uint16_t, cpus);
    NUMBER(S_STEP_CPUS_PER_TASK, uint32_t, cpus_per_task);
    NUMBER(S_JOB_ALLOC_MEM, uint64_t, job_mem_mib);
    NUMBER(S_STEP_ALLOC_MEM, uint64_t, step_mem_mib);
    NUMBER(S_SLURM_RESTART_COUNT, uint32_t, restarts);
    NUMBER(S_JOB_ARRAY_ID, uint32_t, array_id);
    NUMBER(S_JOB_ARRAY_TASK_ID, uint32_t, array_task);
#undef NUMBER
    case S_JOB_ALLOC_CORES:  return answer_text(f->job_cores, args);
    case S_STEP_ALLOC_CORES: return answer_text(f->step_cores, args);
    case S_JOB_ARGV:
        *va_arg(args, int *) = f->argc;
        *va_arg(args, char ***) = f->argv;
        return ESPANK_SUCCESS;
    case S_JOB_ENV:
        *va_arg(args, char ***) = f->env_list(f->env_of);
        return ESPANK_SUCCESS;
    case S_JOB_SUPPLEMENTARY_GIDS:
        *va_arg(args, gid_t **) = (gid_t *)(uintptr_t)f->groups;
        *va_arg(args, int *) = f->group_count;
        return ESPANK_SUCCESS;
    case S_TASK_ID: case S_TASK_GLOBAL_ID: case S_TASK_PID: case S_TASK_EXIT_STATUS:
        return answer_task(h, f, item, args);
    default:
        return answer_id(f, item, args);
    }
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    spank_err_t rc;
    va_list args;

    if (!is_handle(spank))
        return ESPANK_BAD_ARG;
    va_start(args, item);
    rc = answer(spank, item, args);
    va_end(args);
    return rc;
}

/* ---- environments ---- */

static spank_err_t copy_out(const char *value, char *buf, int len)
{
    size_t n;

    if (!value)
        return ESPANK_ENV_NOEXIST;
    if (!buf || len <= 0)
        return ESPANK_BAD_ARG;
    n = strlen(value);
    memcpy(buf, value, n < (size_t)len ? n : (size_t)len - 1);
    buf[n < (size_t)len ? n : (size_t)len - 1] = '\0';
    return n < (size_t)len ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

static bool name_is_fit(const char *name) { return name && *name && !strchr(name, '='); }

static spank_err_t variable_set(const char *(*get)(void *, const char *), void (*set)(void *, const char *, const char *), void *of, const char *name, const char *value, int overwrite)
{
    if (!value)
        return ESPANK_BAD_ARG;
    if (!overwrite && get(of, name))
        return ESPANK_ENV_EXISTS;
    set(of, name, value);
    return ESPANK_SUCCESS;
}

static spank_err_t env_ready(spank_t spank, const char *name)
{
    if (!is_handle(spank))
        return ESPANK_BAD_ARG;
    if (spank->stack->context != S_CTX_REMOTE || !spank->stack->facts->env_get)
        return ESPANK_NOT_REMOTE;
    return name_is_fit(name) ? ESPANK_SUCCESS : ESPANK_BAD_ARG;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buf, int len)
{
    spank_err_t rc = env_ready(spank, name);

    return rc != ESPANK_SUCCESS ? rc : copy_out(spank->stack->facts->env_get(spank->stack->facts->env_of, name), buf, len);
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
    spank_err_t rc = env_ready(spank, name);
    const struct spank_facts *f = rc == ESPANK_SUCCESS ? spank->stack->facts : NULL;

    return f ? variable_set(f->env_get, f->env_set, f->env_of, name, value, overwrite) : rc;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
    spank_err_t rc = env_ready(spank, name);

    if (rc == ESPANK_SUCCESS)
        spank->stack->facts->env_set(spank->stack->facts->env_of, name, NULL);
    return rc;
}

static spank_err_t control_ready(spank_t spank, const char *name)
{
    if (!is_handle(spank) || !name_is_fit(name))
        return ESPANK_BAD_ARG;
    if (!spank->stack->facts || !spank->stack->facts->control_set)
        return ESPANK_NOT_LOCAL;
    return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_getenv(spank_t spank, const char *name, char *buf, int len)
{
    spank_err_t rc = control_ready(spank, name);

    return rc != ESPANK_SUCCESS ? rc : copy_out(spank->stack->facts->control_get(spank->stack->facts->control_of, name), buf, len);
}

spank_err_t spank_job_control_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
    spank_err_t rc = control_ready(spank, name);
    const struct spank_facts *f = rc == ESPANK_SUCCESS ? spank->stack->facts : NULL;

    return f ? variable_set(f->control_get, f->control_set, f->control_of, name, value, overwrite) : rc;
}

spank_err_t spank_job_control_unsetenv(spank_t spank, const char *name)
{
    spank_err_t rc = control_ready(spank, name);

    if (rc == ESPANK_SUCCESS)
        spank->stack->facts->control_set(spank->stack->facts->control_of, name, NULL);
    return rc;
}

/* ---- the command line ---- */

spank_err_t spank_prepend_task_argv(spank_t spank, int argc, const char *argv[])
{
    const struct spank_facts *f;

    if (!is_handle(spank) || argc < 0 || (argc && !argv))
        return ESPANK_BAD_ARG;
    f = spank->stack->facts;
    if (spank->stack->context != S_CTX_REMOTE)
        return ESPANK_NOT_REMOTE;
    if ((spank->hook != SPANK_ON_task_init && spank->hook != SPANK_ON_task_init_privileged) || !f->argv_prepend)
        return ESPANK_NOT_TASK;
    for (int i = 0; i < argc; i++)
        if (!argv[i])
            return ESPANK_BAD_ARG;
    return f->argv_prepend(f->argv_of, argc, argv) == 0 ? ESPANK_SUCCESS : ESPANK_ERROR;
}
