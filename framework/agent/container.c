/* SPDX-License-Identifier: Apache-2.0 */
/* container.c - the container of a step, through the plugin that the order names; and what /proc says of one process.
 *
 * The plugin is opened in the supervisor itself, so that what it keeps dies with the step and two steps never meet in one process. Built in ones are
 * opened without a configuration, which costs a stat; one of the site's own is looked for in PluginDir. Slurm's names come as they are:
 * "proctrack/cgroup" is contain/cgroup, "proctrack/pgid" is what contain/process stands for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/fault.h"
#include "agent/private_tmp.h"
#include "base/str.h"
#include "config/config.h"
#include "loader/loader.h"
#include "state/job.h"

#define DEFAULT_PLUGIN "contain/process"

static struct {
    struct loaded *plugin;
    const struct spur_contain_ops *ops;
    void *box;
    bool is_frozen;
    int  ns_fd;                 /* mount namespace of its tasks; -1: the node's */
    struct spur_host host;
} own = { .ns_fd = -1 };

/* ---- the plugin ---- */

static const char *order_key(void *ctx, const char *key)
{
    const Wire__Contain *c = ctx;

    for (size_t i = 0; c && i < c->n_keys; i++)
        if (word_eq(c->keys[i]->key, key))
            return c->keys[i]->value;
    return NULL;
}

static const char *host_role(void *ctx) { (void)ctx; return "supervisor"; }

int contain_open(const Wire__Contain *order, struct spur_host *host, struct loaded **out, struct spur_error *err)
{
    const char *wanted = order && order->plugin ? order->plugin : DEFAULT_PLUGIN;
    struct config *cfg = NULL;
    int rc = 0;

    *host = (struct spur_host){ .size = sizeof *host, .ctx = (void *)(uintptr_t)order, .config = order_key, .role = host_role };
    if (order && order->plugin_dir && *order->plugin_dir) {
        struct str conf;

        str_init(&conf);
        str_addf(&conf, "ClusterName=x\nPluginDir=%s\n", order->plugin_dir);
        rc = config_parse(conf.text, NULL, NULL, NULL, order->spur_text, &cfg, err);
        str_fini(&conf);
    }
    if (rc == 0)
        rc = loader_open(SPUR_KIND_contain, wanted, cfg, host, out, err);
    config_free(cfg);
    return rc;
}

static struct spur_contain_step step_named(uint32_t job, uint32_t step, uint32_t attempt, uint32_t uid, uint32_t gid, const char *scope, char text[16])
{
    if (step == STEP_BATCH)
        snprintf(text, 16, "batch");
    else
        snprintf(text, 16, "%u", step);
    return (struct spur_contain_step){ .size = sizeof(struct spur_contain_step), .job_id = job, .step_id = step, .attempt = attempt, .uid = uid, .gid = gid,
                                       .step = text, .scope = scope && *scope ? scope : "spur" };
}

/* ---- the container of this process ---- */

static uint64_t or_none(bool has, uint64_t value) { return has ? value : SPUR_CONTAIN_NONE; }

static const struct spur_contain_limits *limits_of(const Wire__ContainLimits *l, struct spur_contain_limits *out, struct spur_contain_device **devices)
{
    size_t n = 0;

    *devices = NULL;
    if (!l)
        return NULL;
    *devices = mem_array(l->n_allowed + l->n_denied + 1, sizeof **devices);
    for (size_t i = 0; i < l->n_allowed; i++)
        (*devices)[n++] = (struct spur_contain_device){ (uint32_t)(l->allowed[i] >> 32), (uint32_t)l->allowed[i], true };
    for (size_t i = 0; i < l->n_denied; i++)
        (*devices)[n++] = (struct spur_contain_device){ (uint32_t)(l->denied[i] >> 32), (uint32_t)l->denied[i], false };
    *out = (struct spur_contain_limits){ .size = sizeof *out, .cpus = l->cpus, .mems = l->mems, .memory = or_none(l->has_memory, l->memory),
        .memory_soft = or_none(l->has_memory_soft, l->memory_soft), .memory_swap = or_none(l->has_memory_swap, l->memory_swap),
        .swappiness = or_none(l->has_swappiness, l->swappiness), .pids = or_none(l->has_pids, l->pids), .devices = *devices, .device_count = (uint32_t)n,
        .device_size = sizeof **devices };
    return out;
}

int container_own(const Wire__StepOrder *order, struct spur_error *err)
{
    const Wire__Credential *c = order->grant;
    const Wire__Contain *k = order->contain;
    struct spur_contain_device *job_devices, *step_devices;
    struct spur_contain_limits job, limits;
    struct spur_contain_step step;
    char text[16];
    int rc;

    /* whatever the plugin does: no process of the step may get out of reach of wait() */
    if (fault(FAULT_SUBREAPER) || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return spur_fail(err, SPUR_EIO, "cannot become subreaper: %s", strerror(errno));
    if (fault(FAULT_CONTAIN_OPEN))
        return spur_fail(err, SPUR_EIO, "cannot open the plugin: %s", strerror(errno));
    if ((rc = contain_open(k, &own.host, &own.plugin, err)) < 0)
        return rc;
    own.ops = loader_ops(own.plugin);
    step = step_named(c->job_id, c->step_id, c->attempt, c->uid, c->gid, k ? k->scope : NULL, text);
    rc = fault(FAULT_CONTAIN_CREATE) ? spur_fail(err, SPUR_EIO, "cannot make a container: %s", strerror(errno)) :
         own.ops->create(own.plugin->self, &step, limits_of(k ? k->job : NULL, &job, &job_devices), limits_of(k ? k->step : NULL, &limits, &step_devices),
                         &own.box, err);
    free(job_devices);
    free(step_devices);
    if (rc < 0) {
        own.box = NULL;
        return spur_context(err, "%s", own.plugin->name);
    }
    return private_tmp_make(order, &own.ns_fd, err);
}

int container_enter(struct spur_error *err)
{
    int rc = fault(FAULT_CONTAIN_ENTER) ? spur_fail(err, SPUR_EIO, "cannot enter the container: %s", strerror(errno)) :
             own.box ? own.ops->enter(own.plugin->self, own.box, err) : spur_fail(err, SPUR_EIO, "there is no container");

    return rc < 0 ? spur_context(err, "%s", own.plugin ? own.plugin->name : "contain") : private_tmp_enter(own.ns_fd, err);
}

size_t container_signal(int signal)
{
    return own.box ? own.ops->signal(own.plugin->self, own.box, signal) : 0;
}

size_t container_kill(void)
{
    own.is_frozen = false;
    return own.box ? own.ops->kill(own.plugin->self, own.box) : 0;
}

bool container_is_empty(void)
{
    return !own.box || own.ops->count(own.plugin->self, own.box, NULL, 0) == 0;
}

int container_freeze(bool frozen, struct spur_error *err)
{
    int rc;

    if (!own.box || frozen == own.is_frozen)
        return 0;
    if (!SPUR_HAS(own.ops, freeze))
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s cannot stop a step unseen: take contain/cgroup", own.plugin->name);
    if ((rc = own.ops->freeze(own.plugin->self, own.box, frozen, err)) < 0)
        return rc;
    own.is_frozen = frozen;
    return 0;
}

bool container_is_frozen(void) { return own.is_frozen; }

int container_figures(struct spur_contain_figures *out, struct spur_error *err)
{
    *out = (struct spur_contain_figures){ .size = sizeof *out };
    if (!own.box)
        return 0;
    if (!SPUR_HAS(own.ops, figures))
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s tells no figures", own.plugin->name);
    return own.ops->figures(own.plugin->self, own.box, out, err);
}

uint64_t container_oom_kills(void)
{
    return own.box && SPUR_HAS(own.ops, oom_kills) ? own.ops->oom_kills(own.plugin->self, own.box) : 0;
}

void container_spare(pid_t helper)
{
    if (own.box && SPUR_HAS(own.ops, spare))
        own.ops->spare(own.plugin->self, own.box, helper);
}

void container_release(void)
{
    if (own.box)
        own.ops->destroy(own.plugin->self, own.box);
    own.box = NULL;
    loader_close(own.plugin);
    own.plugin = NULL;
    if (own.ns_fd >= 0)
        close(own.ns_fd);
    own.ns_fd = -1;
}

size_t contain_reclaim(const Wire__Contain *order, const Wire__StepState *st)
{
    struct spur_contain_leader *leaders;
    const struct spur_contain_ops *ops;
    struct spur_contain_step step;
    struct loaded *plugin = NULL;
    struct spur_host host;
    size_t count = 0, n = 0;
    char text[16];

    if (contain_open(order, &host, &plugin, NULL) < 0 && contain_open(NULL, &host, &plugin, NULL) < 0)
        return 0;
    ops = loader_ops(plugin);
    leaders = mem_array(st->n_task_pids + 1, sizeof *leaders);
    for (size_t i = 0; i < st->n_task_pids && i < st->n_task_starts; i++)
        leaders[count++] = (struct spur_contain_leader){ (pid_t)st->task_pids[i], st->task_starts[i] };
    step = step_named(st->job_id, st->step_id, st->attempt, st->uid, 0, order ? order->scope : NULL, text);
    if (SPUR_HAS(ops, reclaim))
        n = ops->reclaim(plugin->self, &step, leaders, count);
    free(leaders);
    loader_close(plugin);
    return n;
}

/* ---- one process ---- */

static bool read_text(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0;
}

uint64_t process_start(pid_t pid)
{
    char path[64], buf[1024], *at, state;
    unsigned long long start;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (pid <= 0 || !read_text(path, buf, sizeof buf) || !(at = strrchr(buf, ')')))
        return 0;
    if (sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state, &start) != 2)
        return 0;
    return state != 'Z' && state != 'X' ? start : 0;
}

const char *boot_id(void)
{
    static char text[64];

    if (!*text && read_text("/proc/sys/kernel/random/boot_id", text, sizeof text))
        text[strcspn(text, "\n")] = '\0';
    return text;
}
