/* SPDX-License-Identifier: Apache-2.0 */
/* contain.c - decides once what holds the steps of this node, and writes it into each order.
 *
 * ProctrackType says which plugin: proctrack/cgroup, the default, is contain/cgroup; linuxproc and pgid are contain/process. Limits are asked for by
 * TaskPlugin=task/cgroup and Constrain... of cgroup.conf, and bring contain/cgroup with them. What the machine cannot do: without limits
 * asked for, contain/process does, and the log says so in one line; with them the node has a fault and drains, for a job must not run where it
 * is not held to what it was given.
 * A node with emulated hardware (a sandbox) is on a machine that is not the site's: there Slurm's names mean contain/process, and contain/cgroup is had
 * by that name. Its cores are not the machine's, so they are not constrained.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/contain.h"
#include "agent/cores.h"
#include "agent/container.h"
#include "agent/environment.h"
#include "agent/limits.h"
#include "agent/private_tmp.h"
#include "state/job.h"

#define PROCESS "contain/process"
#define CGROUP  "contain/cgroup"

/* ---- what the site asks for ---- */

static bool asks_limits(const struct settings *s)
{
    return s->contain.constrain && (s->contain.cgroup.cores || s->contain.cgroup.devices || s->contain.cgroup.ram || s->contain.cgroup.swap);
}

static const char *plugin_wanted(const struct settings *s)
{
    const char *name = s->contain.proctrack ? s->contain.proctrack : "proctrack/cgroup";

    if (word_starts(name, "contain/"))
        return name;
    if (s->emulate_hardware)
        return PROCESS;
    if (asks_limits(s) || word_eq(name, "proctrack/cgroup") || word_eq(name, "cgroup"))
        return CGROUP;
    return PROCESS;
}

static void key_add(Wire__Contain *c, const char *key, const char *value)
{
    Wire__KeyValue *kv;

    if (!value)
        return;
    kv = mem_alloc(sizeof *kv);
    wire__key_value__init(kv);
    kv->key = mem_copy(key);
    kv->value = mem_copy(value);
    c->keys = mem_grow(c->keys, c->n_keys + 1, sizeof *c->keys);
    c->keys[c->n_keys++] = kv;
}

static void contain_destroy(Wire__Contain *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_keys; i++) {
        free(c->keys[i]->key);
        free(c->keys[i]->value);
        free(c->keys[i]);
    }
    free(c->keys);
    free(c->plugin);
    free(c->scope);
    free(c->plugin_dir);
    free(c->spur_text);
    free(c->unkillable_program);
    private_tmp_free(c->tmp);
    free(c);
}

/* "spur_node1_1a2b3c4d": other clusters on this machine may have a node1 and a job 1 too, but not in this folder. */
static char *scope_of(const struct agent *a)
{
    uint32_t h = 2166136261u;
    struct str out;

    for (const char *p = a->set->spool_dir ? a->set->spool_dir : ""; *p; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    str_init(&out);
    str_addf(&out, "spur_%.60s_%08x", a->count ? hostlist_nth(a->set->names, 0) : "node", h);
    return str_take(&out);
}

static bool has_section(const struct settings *s)
{
    return s->spur_text && strstr(s->spur_text, "\"contain/");
}

static Wire__Contain *contain_make(const struct agent *a, const char *plugin)
{
    const struct settings *s = a->set;
    Wire__Contain *c = mem_alloc(sizeof *c);

    wire__contain__init(c);
    c->plugin = mem_copy(plugin);
    c->scope = scope_of(a);
    key_add(c, "CgroupMountpoint", s->contain.cgroup.mountpoint);
    key_add(c, "CgroupPlugin", s->contain.cgroup.plugin);
    c->has_unkillable_s = true;
    c->unkillable_s = s->contain.unkillable_s;
    c->unkillable_program = mem_copy(s->contain.unkillable_program);
    if (has_section(s) || (!word_eq(plugin, PROCESS) && !word_eq(plugin, CGROUP))) {
        c->plugin_dir = mem_copy(s->plugin_dir && *s->plugin_dir ? s->plugin_dir : "/");
        c->spur_text = mem_copy(s->spur_text);
    }
    return c;
}

/* Why the machine cannot do it: the first limit that was asked for and that the plugin cannot keep. */
static const char *lacks(const struct settings *s, uint32_t can)
{
    const struct config_cgroup *g = &s->contain.cgroup;

    if (!s->contain.constrain)
        return NULL;
    if (g->ram && !(can & SPUR_CONTAIN_MEMORY))
        return "ConstrainRAMSpace=yes needs the memory controller, which is not there (cgroup_enable=memory)";
    if (g->swap && !(can & SPUR_CONTAIN_SWAP))
        return "ConstrainSwapSpace=yes needs the kernel to count swap, which it does not (swapaccount=1)";
    if (g->cores && !s->emulate_hardware && !(can & SPUR_CONTAIN_CORES))
        return "ConstrainCores=yes needs the cpuset controller, which is not there";
    if (g->devices && !(can & SPUR_CONTAIN_DEVICES))
        return "ConstrainDevices=yes needs the devices controller or version 2, which are not there";
    return NULL;
}

/* 0 and what it can do, or why not. */
static int plugin_try(const Wire__Contain *c, uint32_t *can, char *line, size_t len, struct spur_error *err)
{
    const struct spur_contain_ops *ops;
    struct loaded *plugin = NULL;
    struct spur_host host;
    int rc = contain_open(c, &host, &plugin, err);

    if (rc < 0)
        return rc;
    ops = loader_ops(plugin);
    if (SPUR_HAS(ops, ready))
        rc = ops->ready(plugin->self, err);
    *can = rc == 0 && SPUR_HAS(ops, can) ? ops->can(plugin->self) : 0;
    snprintf(line, len, "%s", plugin->name);
    if (rc == 0 && SPUR_HAS(ops, status)) {
        size_t n = (size_t)snprintf(line, len, "%s: ", plugin->name);

        if (n < len)
            ops->status(plugin->self, line + n, len - n);
    }
    loader_close(plugin);
    return rc;
}

void contain_settle(struct agent *a)
{
    const struct settings *s = a->set;
    const char *wanted = plugin_wanted(s), *missing;
    struct spur_error err = { 0 };
    char line[300], fault[sizeof a->contain_fault] = "";
    uint32_t can = 0;
    bool root = geteuid() == 0;

    contain_free(a);
    if (a->is_emulated)
        return;
    a->contain = contain_make(a, wanted);
    if (!root && word_eq(wanted, CGROUP))
        spur_fail(&err, SPUR_EDENIED, "control groups are made by root, and this agent is user %u", (unsigned)geteuid());
    else
        plugin_try(a->contain, &can, line, sizeof line, &err);
    missing = err.code < 0 ? NULL : lacks(s, can);
    if (err.code < 0 && (asks_limits(s) || word_starts(s->contain.proctrack ? s->contain.proctrack : "", "contain/")))
        snprintf(fault, sizeof fault, "%s: %.180s", wanted, err.text);
    else if (missing)
        snprintf(fault, sizeof fault, "%.200s", missing);
    if (err.code < 0) {
        contain_free(a);
        a->contain = contain_make(a, PROCESS);
        log_line(SPUR_LOG_WARN, "steps are held by contain/process: %s", err.text);
    } else {
        log_line(SPUR_LOG_INFO, "steps are held by %s", line);
    }
    if (s->emulate_hardware && s->contain.constrain && s->contain.cgroup.cores && word_eq(a->contain->plugin, CGROUP))
        log_line(SPUR_LOG_INFO, "ConstrainCores: the cores of this node are emulated, so jobs are not held to them");
    a->contain->tmp = private_tmp_settle(a, fault, sizeof fault);
    inventory_contain(a, *fault ? fault : NULL);
}

void contain_free(struct agent *a)
{
    contain_destroy(a->contain);
    a->contain = NULL;
}

/* ---- one order ---- */

static uint64_t ram_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void memory_put(Wire__ContainLimits *l, const struct config_cgroup *g, uint64_t mib)
{
    struct limits_memory m = limits_memory(g, mib << 20, ram_bytes());

    l->has_memory = m.hard != UINT64_MAX;
    l->memory = m.hard;
    l->has_memory_soft = m.soft != UINT64_MAX;
    l->memory_soft = m.soft;
    l->has_memory_swap = m.with_swap != UINT64_MAX;
    l->memory_swap = m.with_swap;
    if (g->swappiness >= 0 && (l->has_memory || l->has_memory_swap)) {
        l->has_swappiness = true;
        l->swappiness = (uint64_t)g->swappiness;
    }
}

static void cores_put(const struct agent *a, Wire__ContainLimits *l, const Wire__NodeAlloc *alloc)
{
    struct bitmap cores = { .bits = alloc->n_cores * 64, .words = alloc->cores };
    struct str out;

    str_init(&out);
    if (cores.bits && (cores_cpus(a->cores, &cores, &out) || limits_cpus("", &cores, &out)))     /* the same CPUs that tasks are bound to */
        l->cpus = str_take(&out);
    str_fini(&out);
}

static bool has_device(const Wire__NodeAlloc *alloc, uint32_t index)
{
    for (size_t i = 0; i < alloc->n_gres; i++)
        if (!strcmp(alloc->gres[i]->name, "gpu") && index < 64 && (alloc->gres[i]->mask >> index & 1))
            return true;
    return false;
}

/* The files of the devices that are the step's own. */
static size_t own_files(const struct agent *a, const Wire__NodeAlloc *alloc, char ***out)
{
    size_t n = 0;

    *out = NULL;
    for (uint32_t i = 0; i < a->gpu_count; i++) {
        const char *file = a->gpus[i].file;

        if (strcmp(a->gpus[i].name, "gpu") || !has_device(alloc, a->gpus[i].index))
            continue;
        for (size_t len; *file; file += len + (file[len] == ',')) {
            len = strcspn(file, ",");
            *out = mem_grow(*out, n + 1, sizeof **out);
            (*out)[n] = mem_alloc(len + 1);
            memcpy((*out)[n++], file, len);
        }
    }
    return n;
}

static void devices_put(const struct agent *a, Wire__ContainLimits *l, const Wire__NodeAlloc *alloc)
{
    struct limits_devices d;
    char **own;
    size_t own_count = own_files(a, alloc, &own);

    limits_devices("", &d);
    l->allowed = mem_array(d.count + 1, sizeof *l->allowed);
    l->denied = mem_array(d.count + 1, sizeof *l->denied);
    for (size_t i = 0; i < d.count; i++) {
        if (limits_may_open("", &d.list[i], (const char *const *)own, own_count))
            l->allowed[l->n_allowed++] = d.list[i].number;
        else
            l->denied[l->n_denied++] = d.list[i].number;
    }
    limits_devices_fini(&d);
    for (size_t i = 0; i < own_count; i++)
        free(own[i]);
    free(own);
}

static Wire__ContainLimits *limits_make(const struct agent *a, const Wire__NodeAlloc *alloc, bool is_step)
{
    const struct config_cgroup *g = &a->set->contain.cgroup;
    Wire__ContainLimits *l = mem_alloc(sizeof *l);

    wire__contain_limits__init(l);
    memory_put(l, g, alloc->mem_mib);
    if (g->cores && !a->set->emulate_hardware)
        cores_put(a, l, alloc);
    if (g->devices && is_step)
        devices_put(a, l, alloc);
    return l;
}

static void limits_free(Wire__ContainLimits *l)
{
    if (!l)
        return;
    free(l->cpus);
    free(l->allowed);
    free(l->denied);
    free(l);
}

/* The job's own share of this node, where the launch says it. */
static const Wire__NodeAlloc *job_alloc(const Wire__Launch *l, const char *node)
{
    for (size_t i = 0; l->job && i < l->job->n_allocs; i++)
        if (!strcmp(l->job->allocs[i]->name, node))
            return l->job->allocs[i];
    return NULL;
}

Wire__Contain *contain_order(const struct agent *a, const Wire__Credential *grant, const Wire__Launch *launch, uint32_t index)
{
    const Wire__NodeAlloc *alloc = index < grant->n_nodes ? grant->nodes[index] : NULL, *job;
    Wire__Contain *c;

    if (!a->contain)
        return NULL;
    c = mem_alloc(sizeof *c);
    *c = *a->contain;                   /* borrowed, but for the limits */
    if (!asks_limits(a->set) || word_eq(c->plugin, PROCESS) || !alloc)
        return c;
    job = grant->step_id == STEP_BATCH ? alloc : job_alloc(launch, alloc->name);
    c->step = limits_make(a, alloc, true);
    if (job)
        c->job = limits_make(a, job, false);
    if (job && !alloc->mem_mib) {       /* a step that asked for no memory of its own has the job's */
        limits_free(c->step);
        c->step = limits_make(a, &(Wire__NodeAlloc){ .name = alloc->name, .mem_mib = job->mem_mib, .n_cores = alloc->n_cores, .cores = alloc->cores,
                                                     .n_gres = alloc->n_gres, .gres = alloc->gres }, true);
    }
    return c;
}

void contain_order_free(Wire__Contain *c)
{
    if (!c)
        return;
    limits_free(c->job);
    limits_free(c->step);
    free(c);
}

/* ---- what does not die ---- */

/* UnkillableStepProgram: nobody waits for it, nothing is read of it. */
static void program_exited(uv_process_t *p, int64_t status, int signal)
{
    (void)status;
    (void)signal;
    uv_close((uv_handle_t *)p, (uv_close_cb)free);
}

static void program_run(const struct agent_step *s)
{
    const char *program = s->node->agent->set->contain.unkillable_program;
    char job[48], step[48], id[32], node[300], text[16];
    char *args[] = { (char *)(uintptr_t)program, NULL };
    char *env[] = { (char *)(uintptr_t)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", job, step, id, node, NULL };
    uv_stdio_container_t files[3] = { { .flags = UV_IGNORE }, { .flags = UV_IGNORE }, { .flags = UV_IGNORE } };
    uv_process_options_t options = { .file = program, .args = args, .env = env, .cwd = "/", .stdio = files, .stdio_count = 3, .exit_cb = program_exited,
                                     .flags = UV_PROCESS_DETACHED };
    uv_process_t *p;
    int rc;

    if (!program || !*program)
        return;
    snprintf(job, sizeof job, "SLURM_JOB_ID=%u", s->job_id);
    snprintf(id, sizeof id, "SLURM_JOBID=%u", s->job_id);
    snprintf(step, sizeof step, "SLURM_STEP_ID=%s", step_text(s->step_id, text));
    snprintf(node, sizeof node, "SLURMD_NODENAME=%.250s", s->node->name);
    p = mem_alloc(sizeof *p);
    if ((rc = uv_spawn(s->node->agent->loop, p, &options)) < 0) {
        log_line(SPUR_LOG_ERROR, "UnkillableStepProgram %.150s: %s", program, uv_strerror(rc));
        uv_close((uv_handle_t *)p, (uv_close_cb)free);
    }
}

void contain_stuck(struct agent_step *s, bool is_stuck)
{
    struct agent *a = s->node->agent;
    char text[16];

    if (s->is_stuck == is_stuck)
        return;
    s->is_stuck = is_stuck;
    a->stuck_count += is_stuck ? 1 : -1;
    if (is_stuck) {
        log_line(SPUR_LOG_ERROR, "job %u.%s: processes do not die of SIGKILL, %u s after it", s->job_id, step_text(s->step_id, text), a->set->contain.unkillable_s);
        program_run(s);
    }
    inventory_stuck(a, a->stuck_count ? "Kill task failed" : NULL);
}
