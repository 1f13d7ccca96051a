/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c - the environment of a task, one routine for batch scripts and steps.
 *
 * Three layers, later ones win: what the user carried, what is true of job and step on this node, what is true of the task. Before the
 * second layer everything goes that describes the place the submit came from: a job sent from inside another step must not inherit its
 * binding, counts or devices. Variables that srun reads as options (SLURM_MPI_TYPE, SLURM_HINT) are the user's and stay.
 * Names and rules are those of the manuals of sbatch and srun: counts appear only when they were asked for (SLURM_NTASKS, SLURM_CPUS_PER_TASK),
 * since programs take their presence as a request.
 *
 * A job without devices has none of the variables of devices set, as with Slurm, so that `env` says what is true; that a library finds nothing then is
 * the business of the device filter of the step's container.
 *
 * What surprised: HIP counts its devices among those that ROCR_VISIBLE_DEVICES has left, so HIP_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL on
 * an AMD node are 0..n-1 of the visible ones, not the node's numbers.
 */
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <spur/gpu.h>

#include "agent/environment.h"
#include "base/bitmap.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "state/apply.h"

/* ---- the list ---- */

void environment_init(struct environment *e)
{
    memset(e, 0, sizeof *e);
    e->room = 64;
    e->vars = mem_array(e->room, sizeof *e->vars);
}

void environment_fini(struct environment *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->vars[i]);
    free(e->vars);
    memset(e, 0, sizeof *e);
}

static size_t find(const struct environment *e, const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < e->count; i++)
        if (!strncmp(e->vars[i], name, len) && e->vars[i][len] == '=')
            break;
    return i;
}

static void put(struct environment *e, size_t name_len, char *take_text)
{
    size_t i = find(e, take_text, name_len);

    if (i < e->count) {
        free(e->vars[i]);
        e->vars[i] = take_text;
        return;
    }
    if (e->count + 2 > e->room) {
        e->room *= 2;
        e->vars = mem_grow(e->vars, e->room, sizeof *e->vars);
    }
    e->vars[e->count++] = take_text;
    e->vars[e->count] = NULL;
}

void environment_set(struct environment *e, const char *name, const char *value)
{
    size_t n = strlen(name), v = strlen(value);
    char *text = mem_alloc(n + v + 2);

    memcpy(text, name, n);
    text[n] = '=';
    memcpy(text + n + 1, value, v);
    put(e, n, text);
}

void environment_setf(struct environment *e, const char *name, const char *format, ...)
{
    struct str value;
    va_list args;

    str_init(&value);
    va_start(args, format);
    str_vaddf(&value, format, args);
    va_end(args);
    environment_set(e, name, value.text);
    str_fini(&value);
}

static void drop_at(struct environment *e, size_t i)
{
    free(e->vars[i]);
    memmove(e->vars + i, e->vars + i + 1, (e->count - i) * sizeof *e->vars);
    e->count--;
}

void environment_unset(struct environment *e, const char *name)
{
    size_t i = find(e, name, strlen(name));

    if (i < e->count)
        drop_at(e, i);
}

const char *environment_get(const struct environment *e, const char *name)
{
    size_t n = strlen(name), i = find(e, name, n);

    return i < e->count ? e->vars[i] + n + 1 : NULL;
}

void environment_copy(struct environment *to, const struct environment *from)
{
    to->count = from->count;
    to->room = from->count + 32;
    to->vars = mem_array(to->room, sizeof *to->vars);
    for (size_t i = 0; i < from->count; i++)
        to->vars[i] = mem_copy(from->vars[i]);
}

void environment_carry(struct environment *e, const void *data, size_t len)
{
    const char *at = data, *end = at + len;

    while (at < end) {
        size_t n = strnlen(at, (size_t)(end - at));
        const char *eq = memchr(at, '=', n);

        if (eq && eq > at)
            put(e, (size_t)(eq - at), mem_copy_n(at, n));
        at += n + 1;
    }
}

/* ---- what belongs to the place of the submit ---- */

static const char *const stale_names[] = {
    "SLURM_JOBID", "SLURM_NODELIST", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU",
    "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK",
    "SLURM_GPUS_PER_SOCKET", "SLURM_GPU_BIND", "SLURM_TRES_BIND", "SLURM_GPU_FREQ", "SLURM_SHARDS_ON_NODE", "SLURM_TRES_PER_TASK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
    "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_STEPID", "SLURM_RESTART_COUNT", "SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN", "SLURMD_NODENAME",
    "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", "SLURM_SRUN_COMM_PORT", "SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE", "SLURM_OVERCOMMIT",
    "SLURM_THREADS_PER_CORE", "SLURM_HET_SIZE", "SLURM_SCRIPT_CONTEXT", "SLURM_CPU_FREQ_REQ", "SLURM_EXPORT_ENV", "SLURM_UMASK", "ENVIRONMENT",
    "SBATCH_CPU_BIND", "SBATCH_CPU_BIND_LIST", "SBATCH_CPU_BIND_TYPE", "SBATCH_CPU_BIND_VERBOSE",
    "SBATCH_MEM_BIND", "SBATCH_MEM_BIND_LIST", "SBATCH_MEM_BIND_PREFER", "SBATCH_MEM_BIND_TYPE", "SBATCH_MEM_BIND_VERBOSE",
};
static const char *const stale_prefixes[] = { "SLURM_JOB_", "SLURM_STEP_", "SLURM_ARRAY_", "SLURM_CPU_BIND", "SLURM_MEM_BIND", "PMI_RANK=", "PMI_SIZE=", "PMI_FD=", "PMIX_" };
static const char *const device_names[] = { "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK" };

static bool is_stale(const char *var)
{
    for (size_t i = 0; i < sizeof stale_prefixes / sizeof *stale_prefixes; i++)
        if (!strncmp(var, stale_prefixes[i], strlen(stale_prefixes[i])))
            return true;
    for (size_t i = 0; i < sizeof stale_names / sizeof *stale_names; i++) {
        size_t n = strlen(stale_names[i]);

        if (!strncmp(var, stale_names[i], n) && (var[n] == '=' || !strncmp(var + n, "_HET_GROUP_", 11)))
            return true;
    }
    return false;
}

static void remove_stale(struct environment *e)
{
    size_t kept = 0;

    for (size_t i = 0; i < e->count; i++) {
        if (is_stale(e->vars[i]))
            free(e->vars[i]);
        else
            e->vars[kept++] = e->vars[i];
    }
    e->count = kept;
    e->vars[kept] = NULL;
}

/* ---- facts of an order ---- */

bool order_is_batch(const Wire__StepOrder *order) { return !order->launch->step; }

const Wire__NodeAlloc *order_alloc(const Wire__StepOrder *order)
{
    return order->node_index < order->grant->n_nodes ? order->grant->nodes[order->node_index] : NULL;
}

static const Wire__StepNode *step_row(const Wire__StepOrder *order, uint32_t *rank)
{
    if (order->launch->has_step_row && order->launch->step_row < order->launch->n_step_nodes) {     /* of two components of a job a node may have part in both */
        if (rank)
            *rank = order->launch->step_row;
        return order->launch->step_nodes[order->launch->step_row];
    }
    for (size_t i = 0; i < order->launch->n_step_nodes; i++)
        if (!strcmp(order->launch->step_nodes[i]->name, order->node)) {
            if (rank)
                *rank = (uint32_t)i;
            return order->launch->step_nodes[i];
        }
    return NULL;
}

uint32_t order_local_tasks(const Wire__StepOrder *order)
{
    const Wire__StepNode *row = step_row(order, NULL);

    return order_is_batch(order) ? 1 : row ? row->tasks : 0;
}

uint32_t order_first_task(const Wire__StepOrder *order)
{
    uint32_t rank = 0, first = 0;
    const Wire__StepNode *row = step_row(order, &rank);

    if (order_is_batch(order) || !row)
        return 0;
    if (row->has_first_task)
        return row->first_task;
    for (uint32_t i = 0; i < rank; i++)
        first += order->launch->step_nodes[i]->tasks;
    return first;
}

uint32_t order_task(const Wire__StepOrder *order, uint32_t local)
{
    const Wire__StepNode *row = order_is_batch(order) ? NULL : step_row(order, NULL);

    return row && row->n_task_ids == row->tasks && local < row->tasks ? row->task_ids[local] : order_first_task(order) + local;
}

uint32_t order_step_rank(const Wire__StepOrder *order)
{
    uint32_t rank = 0;

    if (!order_is_batch(order))
        step_row(order, &rank);
    return rank;
}

uint64_t order_gpu_mask(const Wire__StepOrder *order)
{
    const Wire__NodeAlloc *a = order_alloc(order);
    uint64_t mask = 0;

    for (size_t i = 0; a && i < a->n_gres; i++)
        if (!strcmp(a->gres[i]->name, "gpu"))
            mask |= a->gres[i]->mask;
    return mask;
}

static uint64_t gres_count(const Wire__StepOrder *order, const char *name)
{
    const Wire__NodeAlloc *a = order_alloc(order);
    uint64_t count = 0;

    for (size_t i = 0; a && i < a->n_gres; i++)
        if (!strcmp(a->gres[i]->name, name))
            count += a->gres[i]->count;
    return count;
}

/* ---- writing ---- */

static void set_text(struct environment *e, const char *name, const char *value)
{
    if (value && *value)
        environment_set(e, name, value);
}

static void mask_text(uint64_t mask, bool renumbered, struct str *out)
{
    unsigned next = 0;

    for (unsigned i = 0; i < 64; i++)
        if (mask >> i & 1)
            str_addf(out, "%s%u", out->len ? "," : "", renumbered ? next++ : i);
}

/* A gres.conf without flags (nvidia_gpu_env, amd_gpu_env, ...) still names the driver by its device files. */
static uint32_t vendor_of(const char *file)
{
    if (!file)
        return 0;
    if (strstr(file, "/nvidia"))
        return SPUR_GPU_ENV_CUDA;
    if (strstr(file, "/dri/") || strstr(file, "/kfd"))
        return SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL;
    return 0;
}

static uint32_t flags_of(const Wire__OrderGpu *g)
{
    uint32_t vendor = vendor_of(g->file), both = SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM;

    return vendor && (g->flags & both) == both ? vendor : g->flags;     /* both: nobody chose, it is the default */
}

/* A slice of a GPU (MIG) has no number that CUDA knows: it is named by its UUID, and then all of the list are. */
static bool uuids_text(const Wire__StepOrder *order, uint64_t mask, struct str *out)
{
    bool sliced = false;

    str_clear(out);
    for (size_t i = 0; i < order->n_gpus; i++) {
        const Wire__OrderGpu *g = order->gpus[i];

        if (g->index >= 64 || !(mask >> g->index & 1))
            continue;
        if (!g->uuid || !*g->uuid)
            return false;
        sliced |= word_starts(g->uuid, "MIG-");
        str_addf(out, "%s%s", out->len ? "," : "", g->uuid);
    }
    return sliced;
}

void environment_gpus(struct environment *e, const Wire__StepOrder *order, uint64_t mask)
{
    uint32_t flags = 0;
    bool known = false;
    struct str own, visible;

    for (size_t i = 0; i < sizeof device_names / sizeof *device_names; i++)
        environment_unset(e, device_names[i]);
    if (!mask)
        return;
    for (size_t i = 0; i < order->n_gpus; i++)
        if (order->gpus[i]->index < 64 && mask >> order->gpus[i]->index & 1)
            flags |= flags_of(order->gpus[i]), known = true;
    flags &= SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL | SPUR_GPU_ENV_INTEL;
    if (!known)                     /* a device without a line in gres.conf: all of them, as Slurm does for one without flags */
        flags = SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL;
    str_init(&own);
    str_init(&visible);
    mask_text(mask, false, &own);
    mask_text(mask, true, &visible);
    if (flags & SPUR_GPU_ENV_CUDA) {
        struct str uuids;

        str_init(&uuids);
        environment_set(e, "CUDA_VISIBLE_DEVICES", uuids_text(order, mask, &uuids) ? uuids.text : own.text);
        str_fini(&uuids);
    }
    if (flags & SPUR_GPU_ENV_ROCM) {
        environment_set(e, "ROCR_VISIBLE_DEVICES", own.text);
        if (!(flags & SPUR_GPU_ENV_CUDA))       /* HIP reads CUDA_VISIBLE_DEVICES too; both with different numbers would contradict */
            environment_set(e, "HIP_VISIBLE_DEVICES", visible.text);
    }
    if (flags & SPUR_GPU_ENV_OPENCL)
        environment_set(e, "GPU_DEVICE_ORDINAL", flags == (SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL) ? visible.text : own.text);
    if (flags & SPUR_GPU_ENV_INTEL)
        environment_set(e, "ZE_AFFINITY_MASK", own.text);
    str_fini(&own);
    str_fini(&visible);
}

/* "gres:gpu:a100:4,gres:gpu:h100:2" -> "a100:4,h100:2": the value of -G and --gpus-per-*. */
static void set_gpus(struct environment *e, const char *name, const char *tres)
{
    struct tres_row *rows = NULL;
    size_t n = 0;
    struct str out;

    if (!tres || !*tres || tres_parse(tres, &rows, &n, NULL) < 0)
        return;
    str_init(&out);
    for (size_t i = 0; i < n; i++)
        if (rows[i].name && (!strcmp(rows[i].name, "gpu") || !strcmp(rows[i].name, "gres/gpu"))) {
            str_addf(&out, "%s", out.len ? "," : "");
            if (rows[i].type)
                str_addf(&out, "%s:", rows[i].type);
            str_addf(&out, "%llu", (unsigned long long)rows[i].count);
        }
    set_text(e, name, out.text);
    str_fini(&out);
    tres_free(rows, n);
}

#define ARRAY_LARGEST 4000001u

static void set_array(struct environment *e, const Wire__JobInfo *job, const Wire__JobSpec *spec)
{
    struct bitmap tasks;
    uint32_t limit = 0;
    size_t min, max, step = 0, count;

    if (!job->has_array_task_id || !job->array_job_id)
        return;
    environment_setf(e, "SLURM_ARRAY_JOB_ID", "%u", job->array_job_id);
    environment_setf(e, "SLURM_ARRAY_TASK_ID", "%u", job->array_task_id);
    memset(&tasks, 0, sizeof tasks);
    if (!spec || !spec->array || array_parse(spec->array, ARRAY_LARGEST, &tasks, &limit, NULL) < 0)
        return;
    count = bitmap_count(&tasks);
    min = bitmap_first(&tasks);
    max = bitmap_last(&tasks);
    for (size_t at = min, next; at < max; at = next) {      /* one step for all, or 1 */
        next = bitmap_next(&tasks, at);
        if (step && next - at != step) {
            step = 1;
            break;
        }
        step = next - at;
    }
    environment_setf(e, "SLURM_ARRAY_TASK_COUNT", "%zu", count);
    environment_setf(e, "SLURM_ARRAY_TASK_MIN", "%zu", min);
    environment_setf(e, "SLURM_ARRAY_TASK_MAX", "%zu", max);
    environment_setf(e, "SLURM_ARRAY_TASK_STEP", "%zu", step ? step : 1);
    bitmap_fini(&tasks);
}

static const char *distribution_of(const Wire__StepOrder *order)
{
    const Wire__JobSpec *spec = order->launch->spec;

    if (order->launch->step && order->launch->step->distribution)
        return order->launch->step->distribution;
    return spec ? spec->distribution : NULL;
}

/* What was asked of the job: options of sbatch and salloc that come back as variables. */
static void set_asked(struct environment *e, const Wire__JobSpec *spec, uint32_t nodes)
{
    if (spec->has_ntasks) {
        environment_setf(e, "SLURM_NTASKS", "%u", spec->ntasks);
        environment_setf(e, "SLURM_NPROCS", "%u", spec->ntasks);
    } else if (spec->has_ntasks_per_node) {
        environment_setf(e, "SLURM_NTASKS", "%u", spec->ntasks_per_node * nodes);
        environment_setf(e, "SLURM_NPROCS", "%u", spec->ntasks_per_node * nodes);
    }
    if (spec->has_cpus_per_task)
        environment_setf(e, "SLURM_CPUS_PER_TASK", "%u", spec->cpus_per_task);
    if (spec->has_ntasks_per_node)
        environment_setf(e, "SLURM_NTASKS_PER_NODE", "%u", spec->ntasks_per_node);
    if (spec->has_ntasks_per_socket)
        environment_setf(e, "SLURM_NTASKS_PER_SOCKET", "%u", spec->ntasks_per_socket);
    if (spec->has_ntasks_per_core)
        environment_setf(e, "SLURM_NTASKS_PER_CORE", "%u", spec->ntasks_per_core);
    if (spec->has_ntasks_per_gpu)
        environment_setf(e, "SLURM_NTASKS_PER_GPU", "%u", spec->ntasks_per_gpu);
    if (spec->has_threads_per_core)
        environment_setf(e, "SLURM_THREADS_PER_CORE", "%u", spec->threads_per_core);
    if (spec->has_cpus_per_gpu)
        environment_setf(e, "SLURM_CPUS_PER_GPU", "%u", spec->cpus_per_gpu);
    if (spec->has_mem_per_node_mib)
        environment_setf(e, "SLURM_MEM_PER_NODE", "%llu", (unsigned long long)spec->mem_per_node_mib);
    if (spec->has_mem_per_cpu_mib)
        environment_setf(e, "SLURM_MEM_PER_CPU", "%llu", (unsigned long long)spec->mem_per_cpu_mib);
    if (spec->has_mem_per_gpu_mib)
        environment_setf(e, "SLURM_MEM_PER_GPU", "%llu", (unsigned long long)spec->mem_per_gpu_mib);
    set_gpus(e, "SLURM_GPUS", spec->tres_per_job);
    set_gpus(e, "SLURM_GPUS_PER_NODE", spec->tres_per_node);
    set_gpus(e, "SLURM_GPUS_PER_SOCKET", spec->tres_per_socket);
    set_gpus(e, "SLURM_GPUS_PER_TASK", spec->tres_per_task);
    set_text(e, "SLURM_TRES_PER_TASK", spec->tres_per_task);
    if (spec->tres_bind && *spec->tres_bind) {
        set_text(e, "SLURM_TRES_BIND", spec->tres_bind);
        set_text(e, "SLURM_GPU_BIND", strchr(spec->tres_bind, ':') ? strchr(spec->tres_bind, ':') + 1 : NULL);
    }
    set_text(e, "SLURM_JOB_DEPENDENCY", spec->dependency);
    set_text(e, "SLURM_JOB_LICENSES", spec->licenses);
    set_text(e, "SLURM_JOB_RESERVATION", spec->reservation);
    set_text(e, "SLURM_NETWORK", spec->network);
    set_text(e, "SLURM_EXPORT_ENV", spec->export_env);
    set_text(e, "SLURM_HINT", spec->hint);
    if (spec->overcommit)
        environment_set(e, "SLURM_OVERCOMMIT", "1");
    if (spec->has_segment)
        environment_setf(e, "SLURM_JOB_SEGMENT_SIZE", "%u", spec->segment);
    if (spec->container)
        environment_set(e, "SLURM_CONTAINER", spec->container);
}

static void set_distribution(struct environment *e, const char *text)
{
    if (word_starts(text ? text : "", "plane=")) {
        environment_set(e, "SLURM_DISTRIBUTION", "plane");
        environment_setf(e, "SLURM_DIST_PLANESIZE", "%.*s", (int)strspn(text + 6, "0123456789"), text + 6);
    } else {
        set_text(e, "SLURM_DISTRIBUTION", text);
    }
}

static void set_job(struct environment *e, const Wire__StepOrder *order)
{
    const Wire__Launch *l = order->launch;
    const Wire__Credential *c = order->grant;
    const Wire__JobInfo *job = l->job;
    const Wire__JobSpec *spec = l->spec ? l->spec : job ? job->spec : NULL;
    const Wire__NodeAlloc *mine = order_alloc(order);
    uint32_t nodes = job && job->has_num_nodes ? job->num_nodes : (uint32_t)c->n_nodes;
    struct str text;

    str_init(&text);
    environment_setf(e, "SLURM_JOB_ID", "%u", c->job_id);
    environment_setf(e, "SLURM_JOBID", "%u", c->job_id);
    set_text(e, "SLURM_CLUSTER_NAME", order->cluster);
    set_text(e, "SLURM_CONF", order->conf_path);
    environment_set(e, "SLURMD_NODENAME", order->node);
    environment_set(e, "SLURM_TOPOLOGY_ADDR", order->node);
    environment_set(e, "SLURM_TOPOLOGY_ADDR_PATTERN", "node");
    environment_setf(e, "SLURM_JOB_UID", "%u", c->uid);
    environment_setf(e, "SLURM_JOB_GID", "%u", c->gid);
    set_text(e, "SLURM_JOB_USER", c->user);
    environment_setf(e, "SLURM_JOB_NUM_NODES", "%u", nodes);
    environment_setf(e, "SLURM_NNODES", "%u", nodes);
    if (job) {
        set_text(e, "SLURM_JOB_NODELIST", job->nodes);
        set_text(e, "SLURM_NODELIST", job->nodes);
        set_text(e, "SLURM_JOB_PARTITION", job->partition);
        set_text(e, "SLURM_JOB_QOS", job->qos);
        set_text(e, "SLURM_JOB_GROUP", job->group);
        set_text(e, "SLURM_JOB_CPUS_PER_NODE", job->cpus_per_node);
        set_text(e, "SLURM_TASKS_PER_NODE", job->tasks_per_node);
        if (job->start_wall_s)
            environment_setf(e, "SLURM_JOB_START_TIME", "%lld", (long long)job->start_wall_s);
        if (job->end_wall_s)
            environment_setf(e, "SLURM_JOB_END_TIME", "%lld", (long long)job->end_wall_s);
        set_array(e, job, spec);
    }
    if (!job || !job->nodes) {
        struct hostlist *h = hostlist_create();

        for (size_t i = 0; i < c->n_nodes; i++)
            hostlist_add(h, c->nodes[i]->name);
        hostlist_print(h, &text);
        hostlist_destroy(h);
        environment_set(e, "SLURM_JOB_NODELIST", text.text);
        environment_set(e, "SLURM_NODELIST", text.text);
    }
    if (l->restarts)
        environment_setf(e, "SLURM_RESTART_COUNT", "%u", l->restarts);
    if (spec) {
        set_text(e, "SLURM_JOB_NAME", spec->name);
        set_text(e, "SLURM_JOB_ACCOUNT", spec->account);
        set_text(e, "SLURM_JOB_COMMENT", spec->comment);
        if (!environment_get(e, "SLURM_JOB_QOS"))
            set_text(e, "SLURM_JOB_QOS", spec->qos);
        set_text(e, "SLURM_SUBMIT_HOST", spec->alloc_node);
        if (!environment_get(e, "SLURM_SUBMIT_DIR"))        /* sbatch and srun carry it; it is not the work_dir of --chdir */
            set_text(e, "SLURM_SUBMIT_DIR", spec->work_dir);
        set_asked(e, spec, nodes);
    }
    set_distribution(e, distribution_of(order));
    if (mine && mine->has_cpus)
        environment_setf(e, "SLURM_CPUS_ON_NODE", "%u", mine->cpus);
    if (gres_count(order, "gpu"))
        environment_setf(e, "SLURM_GPUS_ON_NODE", "%llu", (unsigned long long)gres_count(order, "gpu"));
    if (gres_count(order, "shard"))
        environment_setf(e, "SLURM_SHARDS_ON_NODE", "%llu", (unsigned long long)gres_count(order, "shard"));
    str_fini(&text);
}

/* Devices of the job on this node: the credential of a step may hold fewer. */
static uint64_t job_gpu_mask(const Wire__StepOrder *order)
{
    const Wire__JobInfo *job = order->launch->job;
    uint64_t mask = 0;

    for (size_t i = 0; job && i < job->n_allocs; i++)
        if (!strcmp(job->allocs[i]->name, order->node))
            for (size_t k = 0; k < job->allocs[i]->n_gres; k++)
                if (!strcmp(job->allocs[i]->gres[k]->name, "gpu"))
                    mask |= job->allocs[i]->gres[k]->mask;
    return mask ? mask : order_gpu_mask(order);
}

/* "2(x2),1" from the step's rows. */
static void tasks_per_node(const Wire__Launch *l, struct str *out)
{
    for (size_t i = 0, k; i < l->n_step_nodes; i = k) {
        for (k = i + 1; k < l->n_step_nodes && l->step_nodes[k]->tasks == l->step_nodes[i]->tasks; k++)
            ;
        str_addf(out, "%s%u", out->len ? "," : "", l->step_nodes[i]->tasks);
        if (k - i > 1)
            str_addf(out, "(x%zu)", k - i);
    }
}

static void set_step(struct environment *e, const Wire__StepOrder *order)
{
    const Wire__Launch *l = order->launch;
    const Wire__StepSpec *step = l->step;
    uint32_t ntasks = 0;
    struct hostlist *h;
    struct str text;

    str_init(&text);
    h = hostlist_create();
    for (size_t i = 0; i < l->n_step_nodes; i++) {
        hostlist_add(h, l->step_nodes[i]->name);
        ntasks += l->step_nodes[i]->tasks;
    }
    hostlist_print(h, &text);
    hostlist_destroy(h);
    environment_set(e, "SLURM_STEP_NODELIST", text.text);
    str_clear(&text);
    tasks_per_node(l, &text);
    environment_set(e, "SLURM_STEP_TASKS_PER_NODE", text.text);
    environment_set(e, "SLURM_TASKS_PER_NODE", text.text);
    environment_setf(e, "SLURM_STEP_ID", "%d", (int)order->grant->step_id);
    environment_setf(e, "SLURM_STEPID", "%d", (int)order->grant->step_id);
    environment_setf(e, "SLURM_STEP_NUM_NODES", "%zu", l->n_step_nodes);
    environment_setf(e, "SLURM_STEP_NUM_TASKS", "%u", ntasks);
    if (!step->preserve_env) {
        environment_setf(e, "SLURM_NNODES", "%zu", l->n_step_nodes);
        environment_setf(e, "SLURM_NTASKS", "%u", ntasks);
        environment_setf(e, "SLURM_NPROCS", "%u", ntasks);
    }
    if (step->has_cpus_per_task)
        environment_setf(e, "SLURM_CPUS_PER_TASK", "%u", step->cpus_per_task);
    if (step->has_ntasks_per_node)
        environment_setf(e, "SLURM_NTASKS_PER_NODE", "%u", step->ntasks_per_node);
    if (step->has_mem_per_node_mib)
        environment_setf(e, "SLURM_MEM_PER_NODE", "%llu", (unsigned long long)step->mem_per_node_mib);
    if (step->has_mem_per_cpu_mib)
        environment_setf(e, "SLURM_MEM_PER_CPU", "%llu", (unsigned long long)step->mem_per_cpu_mib);
    set_gpus(e, "SLURM_GPUS_PER_NODE", step->tres_per_node);
    set_gpus(e, "SLURM_GPUS_PER_TASK", step->tres_per_task);
    if (order->grant->io_port) {
        set_text(e, "SLURM_SRUN_COMM_HOST", order->grant->io_host);
        set_text(e, "SLURM_LAUNCH_NODE_IPADDR", order->grant->io_host);
        environment_setf(e, "SLURM_SRUN_COMM_PORT", "%u", order->grant->io_port);
        environment_setf(e, "SLURM_STEP_LAUNCHER_PORT", "%u", order->grant->io_port);
    }
    if (step->has_umask)
        environment_setf(e, "SLURM_UMASK", "%04o", step->umask);
    str_fini(&text);
}

void environment_job(struct environment *e, const Wire__StepOrder *order)
{
    char *name = mem_copy(environment_get(e, "SLURM_JOB_NAME"));
    uint64_t mask = order_gpu_mask(order), of_job = job_gpu_mask(order);
    struct str text;

    remove_stale(e);
    set_job(e, order);
    environment_gpus(e, order, mask);
    str_init(&text);
    mask_text(of_job, false, &text);
    set_text(e, "SLURM_JOB_GPUS", text.text);
    environment_set(e, "SLURM_PRIO_PROCESS", "0");
    if (order_is_batch(order)) {
        environment_set(e, "ENVIRONMENT", "BATCH");
        environment_setf(e, "SLURM_NODEID", "%u", 0u);
        set_text(e, "HOSTNAME", order->host);
    } else {
        if (name)                       /* srun keeps the name the script may have changed on purpose */
            environment_set(e, "SLURM_JOB_NAME", name);
        set_step(e, order);
        environment_setf(e, "SLURM_NODEID", "%u", order_step_rank(order));
        str_clear(&text);
        mask_text(mask, false, &text);
        set_text(e, "SLURM_STEP_GPUS", text.text);
    }
    for (size_t i = 0; i < order->launch->n_het_env; i++)      /* last: the job is the heterogeneous one, whichever component this is */
        environment_set(e, order->launch->het_env[i]->key, order->launch->het_env[i]->value ? order->launch->het_env[i]->value : "");
    for (size_t i = 0; i < order->n_env; i++)
        environment_set(e, order->env[i]->key, order->env[i]->value ? order->env[i]->value : "");
    str_fini(&text);
    free(name);
}

/* Where srun of this very build lies, with a ':' behind it; empty when that is in the default path anyway. */
static void own_folder(char *out, size_t size)
{
    static const char *const beside[] = { "srun", "../bin/srun" };
    char exe[1024], path[1100];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash;

    out[0] = '\0';
    if (n <= 0)
        return;
    exe[n] = '\0';
    if (!(slash = strrchr(exe, '/')))
        return;
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        snprintf(path, sizeof path, "%s%s", exe, beside[i]);
        if (access(path, X_OK) < 0)
            continue;
        if (i == 1 && slash > exe) {            /* PREFIX/sbin/ -> PREFIX/bin/ */
            *slash = '\0';
            slash = strrchr(exe, '/');
            snprintf(slash ? slash : exe, 8, "/bin/");
        }
        exe[strlen(exe) - 1] = '\0';
        if (strcmp(exe, "/usr/bin") && strcmp(exe, "/bin") && strcmp(exe, "/usr/local/bin"))
            snprintf(out, size, "%s:", exe);
        return;
    }
}

void environment_login(struct environment *e, uint32_t uid, const char *user)
{
    const struct passwd *p = NULL;

    if (!environment_get(e, "HOME") || !environment_get(e, "USER") || !environment_get(e, "SHELL"))
        p = getpwuid(uid);
    if (p || user) {
        const char *name = p ? p->pw_name : user;

        if (!environment_get(e, "USER"))
            environment_set(e, "USER", name);
        if (!environment_get(e, "LOGNAME"))
            environment_set(e, "LOGNAME", name);
    }
    if (!environment_get(e, "HOME"))
        environment_set(e, "HOME", p && p->pw_dir && *p->pw_dir ? p->pw_dir : "/");
    if (!environment_get(e, "SHELL"))
        environment_set(e, "SHELL", p && p->pw_shell && *p->pw_shell ? p->pw_shell : "/bin/sh");
    if (!environment_get(e, "PATH")) {
        char own[1100];

        own_folder(own, sizeof own);
        environment_setf(e, "PATH", "%s%s", own, uid == 0 ? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" : "/usr/local/bin:/usr/bin:/bin");
    }
}

void environment_task(struct environment *e, const struct environment_task *t)
{
    environment_setf(e, "SLURM_PROCID", "%u", t->global);
    environment_setf(e, "SLURM_LOCALID", "%u", t->local);
    environment_set(e, "SLURM_GTIDS", t->gtids);
    environment_setf(e, "SLURM_TASK_PID", "%010d", t->pid);
}

void environment_task_pid(struct environment *e, int pid)
{
    const char *at = environment_get(e, "SLURM_TASK_PID");

    if (at)
        snprintf((char *)(uintptr_t)at, 11, "%d", pid);     /* the slot has ten digits */
}
