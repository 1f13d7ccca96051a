/* SPDX-License-Identifier: Apache-2.0 */
/* hookenv.c - the environment of a prolog or epilog, made from what people may know of the job. Names and meaning are those of Slurm's guide to prologs and
 * epilogs. Nothing of the daemon's own environment comes along: the runner adds PATH and no more. */
#include <stdio.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/str.h"
#include "state/apply.h"

struct hookenv { void (*set)(void *arg, const char *name, const char *value); void *arg; };

static void text(const struct hookenv *e, const char *name, const char *value)
{
    if (value && *value)
        e->set(e->arg, name, value);
}

static void number(const struct hookenv *e, const char *name, int64_t value)
{
    char buf[32];

    snprintf(buf, sizeof buf, "%lld", (long long)value);
    e->set(e->arg, name, buf);
}

static void array(const struct hookenv *e, const Wire__JobInfo *j)
{
    if (!j->has_array_task_id || !j->array_job_id)
        return;
    number(e, "SLURM_ARRAY_JOB_ID", j->array_job_id);
    number(e, "SLURM_ARRAY_TASK_ID", j->array_task_id);
    if (!j->has_array_count)
        return;
    number(e, "SLURM_ARRAY_TASK_COUNT", j->array_count);
    number(e, "SLURM_ARRAY_TASK_MIN", j->array_min);
    number(e, "SLURM_ARRAY_TASK_MAX", j->array_max);
    number(e, "SLURM_ARRAY_TASK_STEP", j->array_step ? j->array_step : 1);
}

static void ends(const struct hookenv *e, const Wire__JobInfo *j)
{
    char code[32];
    int status = j->exit_status;

    snprintf(code, sizeof code, "%d:%d", status >> 8 & 255, status & 127);
    number(e, "SLURM_JOB_EXIT_CODE", status);
    text(e, "SLURM_JOB_EXIT_CODE2", code);
    number(e, "SLURM_JOB_DERIVED_EC", j->derived_status);
}

/* What SPANK plugins of the submit have left for the hooks. */
static void spank(const struct hookenv *e, const Wire__JobSpec *spec)
{
    struct str name;

    str_init(&name);
    for (size_t i = 0; i < spec->n_spank_env; i++) {
        const char *eq = strchr(spec->spank_env[i], '=');

        if (!eq || eq == spec->spank_env[i])
            continue;
        str_clear(&name);
        str_addf(&name, "SPANK_%.*s", (int)(eq - spec->spank_env[i]), spec->spank_env[i]);
        e->set(e->arg, name.text, eq + 1);
    }
    str_fini(&name);
}

void hook_environment(const Wire__JobInfo *j, const char *context, bool is_epilog, void (*set)(void *arg, const char *name, const char *value), void *arg)
{
    const struct hookenv e = { set, arg };
    const Wire__JobSpec *spec = j->spec;

    text(&e, "SLURM_SCRIPT_CONTEXT", context);
    number(&e, "SLURM_JOB_ID", j->job_id);
    number(&e, "SLURM_JOBID", j->job_id);
    number(&e, "SLURM_JOB_UID", j->uid);
    number(&e, "SLURM_JOB_GID", j->gid);
    text(&e, "SLURM_JOB_USER", j->user);
    text(&e, "SLURM_JOB_GROUP", j->group);
    text(&e, "SLURM_JOB_PARTITION", j->partition);
    text(&e, "SLURM_JOB_NODELIST", j->nodes);
    text(&e, "SLURM_NODELIST", j->nodes);
    number(&e, "SLURM_JOB_NUM_NODES", j->num_nodes);
    number(&e, "SLURM_NNODES", j->num_nodes);
    number(&e, "SLURM_NTASKS", j->num_tasks);
    text(&e, "SLURM_JOB_CPUS_PER_NODE", j->cpus_per_node);
    text(&e, "SLURM_JOB_NAME", j->name ? j->name : spec ? spec->name : NULL);
    number(&e, "SLURM_JOB_RESTART_COUNT", j->restarts);
    if (j->restarts)
        number(&e, "SLURM_RESTART_COUNT", j->restarts);
    if (j->start_wall_s)
        number(&e, "SLURM_JOB_START_TIME", j->start_wall_s);
    if (j->end_wall_s)
        number(&e, "SLURM_JOB_END_TIME", j->end_wall_s);
    text(&e, "SLURM_JOB_STDIN", j->std_in);
    text(&e, "SLURM_JOB_STDOUT", j->std_out);
    text(&e, "SLURM_JOB_STDERR", j->std_err);
    text(&e, "SLURM_JOB_QOS", j->qos);
    array(&e, j);
    if (is_epilog)
        ends(&e, j);
    if (!spec)
        return;
    text(&e, "SLURM_JOB_ACCOUNT", spec->account);
    text(&e, "SLURM_JOB_COMMENT", spec->comment);
    text(&e, "SLURM_JOB_CONSTRAINTS", spec->features);
    text(&e, "SLURM_JOB_EXTRA", spec->extra);
    text(&e, "SLURM_JOB_LICENSES", spec->licenses);
    text(&e, "SLURM_JOB_RESERVATION", spec->reservation);
    text(&e, "SLURM_JOB_WORK_DIR", spec->work_dir);
    text(&e, "SLURM_DISTRIBUTION", spec->distribution);
    text(&e, "SLURM_WCKEY", spec->wckey);
    text(&e, "SLURM_SUBMIT_DIR", spec->work_dir);
    text(&e, "SLURM_SUBMIT_HOST", spec->alloc_node);
    spank(&e, spec);
}
