/* SPDX-License-Identifier: Apache-2.0 */
/* jobenv.c - the environment of salloc's command; see jobenv.h. What a node knows alone (devices, CPUs of the node) srun's tasks get there. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/common/jobenv.h"
#include "state/apply.h"

extern char **environ;

static const char *const stale[] = {        /* prefixes: of a job or step that this command was called in */
    "SLURM_JOB_", "SLURM_JOBID=", "SLURM_STEP", "SLURM_ARRAY_", "SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_MEM_PER_", "SLURM_GPU", "SLURM_NNODES=", "SLURM_NODELIST=",
    "SLURM_NTASKS", "SLURM_NPROCS=", "SLURM_TASKS_PER_NODE=", "SLURM_CPUS_", "SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_NODEID=", "SLURM_GTIDS=", "SLURM_TASK_PID=",
    "SLURM_RESTART_COUNT=", "SLURM_TOPOLOGY_ADDR", "SLURMD_NODENAME=", "SLURM_LAUNCH_NODE_IPADDR=", "SLURM_SRUN_COMM_", "SLURM_DISTRIBUTION=", "SLURM_OVERCOMMIT=",
    "SLURM_THREADS_PER_CORE=", "SLURM_TRES_PER_TASK=", "SLURM_TRES_BIND=", "SLURM_UMASK=", "SLURM_EXPORT_ENV=", "SLURM_SHARDS_ON_NODE=", "SLURM_HET_SIZE=",
};

static void forget_stale(void)
{
    for (size_t i = 0; environ[i]; ) {
        char name[128];
        size_t n = strcspn(environ[i], "=");
        bool is_stale = false;

        for (size_t k = 0; k < sizeof stale / sizeof *stale && !is_stale; k++)
            is_stale = word_starts(environ[i], stale[k]) || (n > 11 && memmem(environ[i], n, "_HET_GROUP_", 11));
        if (!is_stale || n >= sizeof name) {
            i++;
            continue;
        }
        memcpy(name, environ[i], n);
        name[n] = '\0';
        if (unsetenv(name) != 0)
            i++;
    }
}

static void text(const char *name, const char *value)
{
    if (value && *value)
        setenv(name, value, 1);
}

static void number(const char *name, unsigned long long value)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%llu", value);
    setenv(name, digits, 1);
}

/* "gres:gpu:a100:2,gres:shard:1" -> "a100:2": what --gpus was given. */
static void gpus(const char *name, const char *tres)
{
    char *copy = tres ? mem_copy(tres) : NULL, *cursor = copy, *item;

    while (copy && (item = word_next(&cursor, ",")))
        if (word_starts(item, "gres:gpu:")) {
            text(name, item + 9);
            break;
        }
    free(copy);
}

static void asked(const Wire__JobSpec *s, uint32_t nodes)
{
    if (s->has_ntasks || s->has_ntasks_per_node) {
        number("SLURM_NTASKS", s->has_ntasks ? s->ntasks : s->ntasks_per_node * nodes);
        number("SLURM_NPROCS", s->has_ntasks ? s->ntasks : s->ntasks_per_node * nodes);
    }
#define COUNT(field, name) if (s->has_##field) number(name, s->field)
    COUNT(cpus_per_task, "SLURM_CPUS_PER_TASK");
    COUNT(ntasks_per_node, "SLURM_NTASKS_PER_NODE");
    COUNT(ntasks_per_socket, "SLURM_NTASKS_PER_SOCKET");
    COUNT(ntasks_per_core, "SLURM_NTASKS_PER_CORE");
    COUNT(ntasks_per_gpu, "SLURM_NTASKS_PER_GPU");
    COUNT(threads_per_core, "SLURM_THREADS_PER_CORE");
    COUNT(cpus_per_gpu, "SLURM_CPUS_PER_GPU");
    COUNT(mem_per_node_mib, "SLURM_MEM_PER_NODE");
    COUNT(mem_per_cpu_mib, "SLURM_MEM_PER_CPU");
    COUNT(mem_per_gpu_mib, "SLURM_MEM_PER_GPU");
    COUNT(segment, "SLURM_JOB_SEGMENT_SIZE");
#undef COUNT
    gpus("SLURM_GPUS", s->tres_per_job);
    gpus("SLURM_GPUS_PER_NODE", s->tres_per_node);
    gpus("SLURM_GPUS_PER_SOCKET", s->tres_per_socket);
    gpus("SLURM_GPUS_PER_TASK", s->tres_per_task);
    text("SLURM_TRES_PER_TASK", s->tres_per_task);
    if (s->tres_bind && *s->tres_bind) {
        text("SLURM_TRES_BIND", s->tres_bind);
        text("SLURM_GPU_BIND", strchr(s->tres_bind, ':') ? strchr(s->tres_bind, ':') + 1 : NULL);
    }
    text("SLURM_DISTRIBUTION", s->distribution);
    text("SLURM_JOB_DEPENDENCY", s->dependency);
    text("SLURM_JOB_LICENSES", s->licenses);
    text("SLURM_JOB_RESERVATION", s->reservation);
    text("SLURM_HINT", s->hint);
    if (s->overcommit)
        text("SLURM_OVERCOMMIT", "1");
}

void job_environment(const Wire__JobInfo *j, const char *cluster)
{
    const Wire__JobSpec *s = j->spec;

    forget_stale();
    number("SLURM_JOB_ID", j->job_id);
    number("SLURM_JOBID", j->job_id);
    text("SLURM_CLUSTER_NAME", cluster);
    number("SLURM_JOB_UID", j->uid);
    number("SLURM_JOB_GID", j->gid);
    text("SLURM_JOB_USER", j->user);
    text("SLURM_JOB_GROUP", j->group);
    number("SLURM_JOB_NUM_NODES", j->num_nodes);
    number("SLURM_NNODES", j->num_nodes);
    text("SLURM_JOB_NODELIST", j->nodes);
    text("SLURM_NODELIST", j->nodes);
    text("SLURM_JOB_PARTITION", j->partition);
    text("SLURM_JOB_QOS", j->qos);
    text("SLURM_JOB_CPUS_PER_NODE", j->cpus_per_node);
    text("SLURM_TASKS_PER_NODE", j->tasks_per_node);
    if (j->start_wall_s)
        number("SLURM_JOB_START_TIME", (unsigned long long)j->start_wall_s);
    if (j->end_wall_s)
        number("SLURM_JOB_END_TIME", (unsigned long long)j->end_wall_s);
    if (!s)
        return;
    text("SLURM_JOB_NAME", s->name);
    text("SLURM_JOB_ACCOUNT", s->account);
    text("SLURM_JOB_COMMENT", s->comment);
    text("SLURM_SUBMIT_HOST", s->alloc_node);
    asked(s, j->num_nodes);
}

static void het_set(void *arg, const char *name, const char *value)
{
    (void)arg;
    setenv(name, value, 1);
}

void job_het_environment(Wire__JobInfo *const *parts, uint32_t count)
{
    het_environment(parts, count, het_set, NULL);
}
