/* SPDX-License-Identifier: Apache-2.0 */
/* hetenv.c - what the script and the steps of a heterogeneous job find about its components: NAME_HET_GROUP_N, as sbatch(1) lists them. */
#include <stdio.h>

#include "state/private.h"

struct writer { void (*set)(void *arg, const char *name, const char *value); void *arg; uint32_t group; };

static void text(const struct writer *w, const char *name, const char *value)
{
    char full[80];

    if (!value || !*value)
        return;
    snprintf(full, sizeof full, "%.50s_HET_GROUP_%u", name, w->group);
    w->set(w->arg, full, value);
}

static void number(const struct writer *w, const char *name, uint64_t value)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    text(w, name, digits);
}

static void asked(const struct writer *w, const Wire__JobSpec *s, uint32_t nodes)
{
#define COUNT(field, name) if (s->has_##field) number(w, name, s->field)
    if (s->has_ntasks || s->has_ntasks_per_node) {
        number(w, "SLURM_NTASKS", s->has_ntasks ? s->ntasks : s->ntasks_per_node * nodes);
        number(w, "SLURM_NPROCS", s->has_ntasks ? s->ntasks : s->ntasks_per_node * nodes);
    }
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
#undef COUNT
    text(w, "SLURM_DISTRIBUTION", s->distribution);
    text(w, "SLURM_JOB_ACCOUNT", s->account);
    text(w, "SLURM_JOB_RESERVATION", s->reservation);
    text(w, "SLURM_JOB_DEPENDENCY", s->dependency);
    text(w, "SLURM_HINT", s->hint);
    if (s->overcommit)
        text(w, "SLURM_OVERCOMMIT", "1");
}

void het_environment(Wire__JobInfo *const *parts, uint32_t count, void (*set)(void *arg, const char *name, const char *value), void *arg)
{
    struct writer w = { set, arg, 0 };
    char size[16];

    snprintf(size, sizeof size, "%u", count);
    set(arg, "SLURM_HET_SIZE", size);
    for (; w.group < count; w.group++) {
        const Wire__JobInfo *j = parts[w.group];

        if (!j)
            continue;
        number(&w, "SLURM_JOB_ID", j->job_id);
        number(&w, "SLURM_JOBID", j->job_id);
        text(&w, "SLURM_JOB_NAME", j->name);
        number(&w, "SLURM_JOB_NUM_NODES", j->num_nodes);
        number(&w, "SLURM_NNODES", j->num_nodes);
        text(&w, "SLURM_JOB_NODELIST", j->nodes);
        text(&w, "SLURM_NODELIST", j->nodes);
        text(&w, "SLURM_JOB_PARTITION", j->partition);
        text(&w, "SLURM_JOB_QOS", j->qos);
        text(&w, "SLURM_JOB_CPUS_PER_NODE", j->cpus_per_node);
        text(&w, "SLURM_TASKS_PER_NODE", j->tasks_per_node);
        if (j->spec)
            asked(&w, j->spec, j->num_nodes);
    }
}
