/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.c - contain/cgroup: a step is a control group, SCOPE/job_ID/step_STEP, in every hierarchy that it needs.
 *
 * Version 2, version 1 and hybrid machines are one thing here: processes are held, frozen and killed in one hierarchy (the unified one where there is one,
 * else the freezer's), and a limit is written where its controller lives. Only hierarchies with something to do get a folder: on version 1
 * each costs a task's start a move. Folders of the job and of the scope go with their last step; one that goes while another step is being made is
 * simply made again.
 * What surprised: cpuset of version 1 takes no process before cpus and mems are written; what is frozen by version 1 does not die of SIGKILL before it
 * is thawed; a folder is busy for a moment after its last process has been waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../process/walk.h"
#include "devices.h"
#include "tree.h"

#define MAKE_TRIES  20
#define LEAVE_TRIES 100

struct cgroup { struct tree tree; int rc; struct spur_error why; };      /* rc: this machine has no control groups for us */

struct box {
    char step[NAME_MAX_], job[NAME_MAX_], scope[NAME_MAX_];
    char held[PATH_MAX_];               /* the step's folder where its processes are held */
    bool uses[CTL_COUNT];               /* a folder of version 1 of its own, beside `held` */
    uint64_t rss_max;
};

static int cgroup_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    const char *root = host->conf_text(conf, "mountpoint"), *version = host->conf_text(conf, "version");
    struct cgroup *c;
    int want = 0;

    if (!*root)
        root = host->config(host->ctx, "CgroupMountpoint");
    if (!*version)
        version = host->config(host->ctx, "CgroupPlugin");
    if (version && !strcasecmp(version, "cgroup/v1"))
        want = 1;
    else if (version && !strcasecmp(version, "cgroup/v2"))
        want = 2;
    else if (version && !strcasecmp(version, "disabled"))
        return spur_fail(err, SPUR_EUNSUPPORTED, "contain/cgroup: CgroupPlugin=disabled: set ProctrackType=proctrack/linuxproc");
    else if (version && *version && strcasecmp(version, "autodetect"))
        return spur_fail(err, SPUR_EINVAL, "contain/cgroup: CgroupPlugin=%.40s is none of autodetect, cgroup/v1, cgroup/v2, disabled", version);
    if (!(c = calloc(1, sizeof *c)))
        return spur_fail(err, SPUR_ENOMEM, "contain/cgroup: out of memory");
    c->rc = tree_look(root && *root ? root : "/sys/fs/cgroup", want, &c->tree, &c->why);
    *self = c;
    return 0;
}

/* ---- folders ---- */

static void box_name(struct box *b, const struct cgroup *c, const struct spur_contain_step *step)
{
    snprintf(b->scope, sizeof b->scope, "%.80s", step->scope);
    snprintf(b->job, sizeof b->job, "%.80s/job_%u", step->scope, step->job_id);
    snprintf(b->step, sizeof b->step, "%.80s/job_%u/step_%.16s", step->scope, step->job_id, step->step);
    tree_path(&c->tree, CTL_FREEZER, b->step, b->held);
}

/* cpuset of version 1: a new folder has neither CPUs nor memory nodes. */
static void cpuset_inherit(const char *folder)
{
    static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
    char above[PATH_MAX_], text[1024], *slash;

    snprintf(above, sizeof above, "%s", folder);
    if (!(slash = strrchr(above, '/')))
        return;
    *slash = '\0';
    for (int i = 0; i < 2; i++)
        if (file_read(folder, files[i], text, sizeof text) && (!*text || *text == '\n') && file_read(above, files[i], text, sizeof text)) {
            text[strcspn(text, "\n")] = '\0';
            file_write(folder, files[i], text, NULL);
        }
}

/* Controllers of version 2 that the folders below this one may use. One that cannot be had shows when its limit is written. */
static void controllers_enable(const struct tree *t, const char *folder)
{
    static const char *const words[CTL_COUNT] = { [CTL_MEMORY] = "+memory", [CTL_CPUSET] = "+cpuset", [CTL_PIDS] = "+pids", [CTL_IO] = "+io" };

    for (int c = 0; c < CTL_COUNT; c++)
        if (t->is_in_unified[c] && words[c])
            file_write(folder, "cgroup.subtree_control", words[c], NULL);
}

static int folder_make(const struct cgroup *c, enum controller ctl, const struct box *b, struct spur_error *err)
{
    const char *const levels[] = { b->scope, b->job, b->step };
    bool unified = c->tree.is_in_unified[ctl] || (ctl == CTL_FREEZER && c->tree.unified[0]);
    char path[PATH_MAX_];

    for (int try = 0; try < MAKE_TRIES; try++) {
        int level;

        if (unified)
            controllers_enable(&c->tree, c->tree.unified);
        for (level = 0; level < 3; level++) {
            tree_path(&c->tree, ctl, levels[level], path);
            if (mkdir(path, 0755) < 0 && errno != EEXIST)
                break;
            if (unified && level < 2)
                controllers_enable(&c->tree, path);
            else if (!unified && ctl == CTL_CPUSET)
                cpuset_inherit(path);
            else if (!unified && ctl == CTL_MEMORY && level == 0)
                file_write(path, "memory.use_hierarchy", "1", NULL);
        }
        if (level == 3)
            return 0;
        if (errno != ENOENT || level == 0)      /* else: the last step of another job has just taken the folder above with it */
            return spur_fail(err, errno == EACCES || errno == EPERM || errno == EROFS ? SPUR_EDENIED : SPUR_EIO, "cannot make %.150s: %s", path, strerror(errno));
    }
    return spur_fail(err, SPUR_EIO, "cannot make %.150s: it goes away again and again", path);
}

static void folders_remove(const struct cgroup *c, const struct box *b, enum controller ctl)
{
    const char *const levels[] = { b->step, b->job, b->scope };
    char path[PATH_MAX_];

    for (int level = 0; level < 3; level++) {
        int try = 0;

        if (!tree_path(&c->tree, ctl, levels[level], path))
            return;
        /* busy for a moment after the last process has gone; a job or a scope that others use is left alone at once */
        while (rmdir(path) < 0 && errno == EBUSY && level == 0 && try++ < LEAVE_TRIES)
            nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        if (try >= LEAVE_TRIES)
            return;
    }
}

/* ---- limits ---- */

static bool wants(const struct spur_contain_limits *l, enum controller c)
{
    if (!l)
        return false;
    switch (c) {
    case CTL_MEMORY: return l->memory != SPUR_CONTAIN_NONE || l->memory_soft != SPUR_CONTAIN_NONE || l->memory_swap != SPUR_CONTAIN_NONE;
    case CTL_CPUSET: return l->cpus || l->mems;
    case CTL_PIDS: return l->pids != SPUR_CONTAIN_NONE;
    case CTL_DEVICES: return l->device_count > 0;
    default: return false;
    }
}

static int memory_limit_v2(const char *folder, const struct spur_contain_limits *l, struct spur_error *err)
{
    int rc = 0;

    if (l->memory_soft != SPUR_CONTAIN_NONE && l->memory_soft < l->memory)
        rc = file_write_number(folder, "memory.high", l->memory_soft, err);
    if (rc == 0 && l->memory != SPUR_CONTAIN_NONE)
        rc = file_write_number(folder, "memory.max", l->memory, err);
    if (rc == 0 && l->memory_swap != SPUR_CONTAIN_NONE && file_is_there(folder, "memory.swap.max")) {     /* not there: the kernel swaps nothing of a control group */
        uint64_t ram = l->memory != SPUR_CONTAIN_NONE ? l->memory : 0;

        rc = file_write_number(folder, "memory.swap.max", l->memory_swap > ram ? l->memory_swap - ram : 0, err);
    }
    return rc;
}

static int memory_limit_v1(const char *folder, const struct spur_contain_limits *l, struct spur_error *err)
{
    uint64_t ram = l->memory != SPUR_CONTAIN_NONE ? l->memory : l->memory_swap;     /* version 1 takes no limit on both that is below the one on RAM */
    int rc = 0;

    if (l->swappiness != SPUR_CONTAIN_NONE)
        rc = file_write_number(folder, "memory.swappiness", l->swappiness, err);
    if (rc == 0 && l->memory_soft != SPUR_CONTAIN_NONE)
        rc = file_write_number(folder, "memory.soft_limit_in_bytes", l->memory_soft, err);
    if (rc == 0 && ram != SPUR_CONTAIN_NONE)
        rc = file_write_number(folder, "memory.limit_in_bytes", ram, err);
    if (rc == 0 && l->memory_swap != SPUR_CONTAIN_NONE)
        rc = file_write_number(folder, "memory.memsw.limit_in_bytes", l->memory_swap > ram ? l->memory_swap : ram, err);
    return rc;
}

static int limits_write(const struct cgroup *c, const char *name, const struct spur_contain_limits *l, bool is_step, struct spur_error *err)
{
    const struct tree *t = &c->tree;
    char path[PATH_MAX_];
    int rc = 0;

    for (enum controller ctl = 0; rc == 0 && ctl <= CTL_DEVICES; ctl++) {
        if (!wants(l, ctl) || (ctl == CTL_DEVICES && !is_step))
            continue;
        if (ctl == CTL_DEVICES && !t->is_v1[ctl] && t->unified[0]) {
            snprintf(path, sizeof path, "%s/%s", t->unified, name);
            rc = devices_attach(path, l->devices, l->device_count, l->device_size, err);
            continue;
        }
        if (!tree_path(t, ctl, name, path))
            return spur_fail(err, SPUR_EUNSUPPORTED, "the machine has no %s controller at %.100s, so that its limit cannot be kept", controller_name(ctl), t->root);
        switch (ctl) {
        case CTL_MEMORY: rc = t->is_in_unified[ctl] ? memory_limit_v2(path, l, err) : memory_limit_v1(path, l, err); break;
        case CTL_CPUSET:
            if (l->mems)
                rc = file_write(path, "cpuset.mems", l->mems, err);
            if (rc == 0 && l->cpus)
                rc = file_write(path, "cpuset.cpus", l->cpus, err);
            break;
        case CTL_PIDS: rc = file_write_number(path, "pids.max", l->pids, err); break;
        default: rc = devices_deny(path, l->devices, l->device_count, l->device_size, err); break;
        }
    }
    return rc;
}

/* ---- operations ---- */

static void cgroup_destroy(void *self, void *box)
{
    const struct cgroup *c = self;
    struct box *b = box;

    if (!b)
        return;
    for (enum controller ctl = 0; ctl < CTL_COUNT; ctl++)
        if (b->uses[ctl])
            folders_remove(c, b, ctl);
    folders_remove(c, b, CTL_FREEZER);
    free(b);
}

static int cgroup_create(void *self, const struct spur_contain_step *step, const struct spur_contain_limits *job, const struct spur_contain_limits *limits,
                         void **box, struct spur_error *err)
{
    const struct cgroup *c = self;
    struct box *b = calloc(1, sizeof *b);
    int rc;

    if (c->rc < 0) {
        free(b);
        return spur_fail(err, c->rc, "%s", c->why.text);
    }
    if (!b)
        return spur_fail(err, SPUR_ENOMEM, "contain/cgroup: out of memory");
    box_name(b, c, step);
    rc = folder_make(c, CTL_FREEZER, b, err);
    for (enum controller ctl = 0; rc == 0 && ctl <= CTL_DEVICES; ctl++)
        if (c->tree.is_v1[ctl] && (wants(job, ctl) || wants(limits, ctl))) {
            b->uses[ctl] = true;
            rc = folder_make(c, ctl, b, err);
        }
    /* the step first: a cpuset of version 1 shrinks only when those below it have shrunk */
    if (rc == 0)
        rc = limits_write(c, b->step, limits, true, err);
    if (rc == 0)
        rc = limits_write(c, b->job, job, false, err);
    if (rc < 0)
        cgroup_destroy(self, b);
    else
        *box = b;
    return rc;
}

static int cgroup_enter(void *self, void *box, struct spur_error *err)
{
    const struct cgroup *c = self;
    const struct box *b = box;
    int rc = file_write(b->held, "cgroup.procs", "0", err);

    for (enum controller ctl = 0; rc == 0 && ctl < CTL_COUNT; ctl++) {
        char path[PATH_MAX_];

        if (b->uses[ctl] && tree_path(&c->tree, ctl, b->step, path))
            rc = file_write(path, "cgroup.procs", "0", err);
    }
    return rc;
}

static void box_pids(const struct box *b, struct pids *out)
{
    char path[PATH_MAX_ + 16];

    snprintf(path, sizeof path, "%s/cgroup.procs", b->held);
    pids_read(path, out);
}

static size_t cgroup_signal(void *self, void *box, int signal)
{
    struct pids all = { 0 };
    size_t n;

    (void)self;
    box_pids(box, &all);
    pids_signal(&all, signal);
    n = all.count;
    pids_fini(&all);
    return n;
}

static int box_freeze(const struct cgroup *c, const struct box *b, bool frozen, struct spur_error *err)
{
    if (c->tree.unified[0])
        return file_write(b->held, "cgroup.freeze", frozen ? "1" : "0", err);
    return file_write(b->held, "freezer.state", frozen ? "FROZEN" : "THAWED", err);
}

static size_t cgroup_kill(void *self, void *box)
{
    const struct cgroup *c = self;
    struct box *b = box;
    struct pids all = { 0 };
    size_t n;

    box_pids(b, &all);
    n = all.count;
    if (n == 0)
        return 0;
    if (!c->tree.unified[0] || file_write(b->held, "cgroup.kill", "1", NULL) < 0) {     /* before 5.14: nothing forks while it is frozen */
        box_freeze(c, b, true, NULL);
        all.count = 0;
        box_pids(b, &all);
        pids_signal(&all, SIGKILL);
    }
    box_freeze(c, b, false, NULL);
    pids_fini(&all);
    return n;
}

static size_t cgroup_count(void *self, void *box, pid_t *list, size_t room)
{
    struct pids all = { 0 };
    size_t n;

    (void)self;
    box_pids(box, &all);
    n = all.count;
    for (size_t i = 0; i < n && i < room; i++)
        list[i] = all.list[i];
    pids_fini(&all);
    return n;
}

static int cgroup_freeze(void *self, void *box, bool frozen, struct spur_error *err)
{
    return box_freeze(self, box, frozen, err);
}

/* RSS, sizes and I/O of what is alive come from /proc, as they do with jobacct_gather/linux; CPU time also of what has ended, where the hierarchy counts it. */
static int cgroup_figures(void *self, void *box, struct spur_contain_figures *out, struct spur_error *err)
{
    struct box *b = box;
    struct pids all = { 0 };
    char text[1024];

    (void)self;
    (void)err;
    box_pids(b, &all);
    pids_figures(&all, out);
    pids_fini(&all);
    if (file_read(b->held, "cpu.stat", text, sizeof text) && strstr(text, "user_usec")) {
        out->user_us = line_number(text, "user_usec");
        out->system_us = line_number(text, "system_usec");
    }
    if (out->rss_bytes > b->rss_max)
        b->rss_max = out->rss_bytes;
    out->rss_max_bytes = b->rss_max;
    return 0;
}

static uint64_t cgroup_oom_kills(void *self, void *box)
{
    const struct cgroup *c = self;
    const struct box *b = box;
    char path[PATH_MAX_], text[1024];

    if (!tree_path(&c->tree, CTL_MEMORY, b->step, path) ||
        !file_read(path, c->tree.is_in_unified[CTL_MEMORY] ? "memory.events" : "memory.oom_control", text, sizeof text))
        return 0;
    return line_number(text, "oom_kill");
}

static size_t cgroup_reclaim(void *self, const struct spur_contain_step *step, const struct spur_contain_leader *leaders, size_t count)
{
    const struct cgroup *c = self;
    struct box *b = c->rc < 0 ? NULL : calloc(1, sizeof *b);
    size_t n = 0;

    if (b) {
        box_name(b, c, step);
        for (enum controller ctl = 0; ctl < CTL_COUNT; ctl++)
            b->uses[ctl] = c->tree.is_v1[ctl];
        if ((n = cgroup_kill(self, b)) == 0)
            cgroup_destroy(self, b);
        else
            free(b);
    }
    for (size_t i = 0; i < count; i++)          /* those of a step that another plugin held */
        n += session_kill(&leaders[i], step->uid);
    return n;
}

static uint32_t cgroup_can(void *self)
{
    const struct tree *t = &((const struct cgroup *)self)->tree;
    uint32_t can = SPUR_CONTAIN_FREEZE;

    if (((const struct cgroup *)self)->rc < 0)
        return 0;
    if (t->is_v1[CTL_CPUSET] || t->is_in_unified[CTL_CPUSET])
        can |= SPUR_CONTAIN_CORES;
    if (t->is_v1[CTL_MEMORY] || t->is_in_unified[CTL_MEMORY])
        can |= SPUR_CONTAIN_MEMORY;
    if (t->has_memsw || t->is_in_unified[CTL_MEMORY])
        can |= SPUR_CONTAIN_SWAP;
    if (t->is_v1[CTL_PIDS] || t->is_in_unified[CTL_PIDS])
        can |= SPUR_CONTAIN_PIDS;
    if (t->is_v1[CTL_DEVICES] || t->unified[0])
        can |= SPUR_CONTAIN_DEVICES;
    return can;
}

static int cgroup_ready(void *self, struct spur_error *err)
{
    const struct cgroup *c = self;

    return c->rc < 0 ? spur_fail(err, c->rc, "%s", c->why.text) : 0;
}

static int cgroup_status(void *self, char *buf, size_t len)
{
    const struct cgroup *c = self;

    if (c->rc < 0)
        snprintf(buf, len, "%s", c->why.text);
    else
        tree_words(&c->tree, buf, len);
    return 0;
}

static const struct spur_option cgroup_options[] = {
    { "mountpoint", SPUR_STRING, "", "where the hierarchies are; empty: CgroupMountpoint of cgroup.conf" },
    { "version", SPUR_STRING, "", "cgroup/v1, cgroup/v2 or autodetect; empty: CgroupPlugin of cgroup.conf" }, { 0 } };

static const struct spur_contain_ops cgroup_ops = {
    .size = sizeof cgroup_ops, .create = cgroup_create, .enter = cgroup_enter, .signal = cgroup_signal, .kill = cgroup_kill, .count = cgroup_count,
    .destroy = cgroup_destroy, .freeze = cgroup_freeze, .figures = cgroup_figures, .oom_kills = cgroup_oom_kills, .reclaim = cgroup_reclaim,
    .can = cgroup_can, .ready = cgroup_ready, .status = cgroup_status };

SPUR_PLUGIN(contain, cgroup, .about = "a control group for each step, with limits", .options = cgroup_options,
            .ops = &cgroup_ops, .open = cgroup_open, .close = free);
