/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - contain/process: a step is what its supervisor has started and everything that came of it.
 *
 * For machines without control groups, and for agents of plain users. The supervisor is the subreaper of its step, so a process that leaves by
 * setsid or double fork comes back to it when its parent dies, and is found by walking the tree of children. Empty means: the supervisor
 * has no child left. It keeps no limit but those of setrlimit, which the tasks set themselves.
 * What forks as fast as it can is stopped first, in rounds, until a walk finds no more than the one before; then all are killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "walk.h"

#define STOP_ROUNDS 20          /* walks until a step that forks as fast as it can stands still */

struct box { pid_t root, spared; uint64_t rss_max; };

static void below(const struct box *b, struct pids *all)
{
    pids_below(b->root, all);
    if (b->spared)
        pids_without(all, b->spared);
}

static int process_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, 1)))
        return spur_fail(err, SPUR_ENOMEM, "contain/process: out of memory");
    return 0;
}

static int process_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    (void)self;
    (void)conf;
    (void)err;
    return 0;
}

static int limit_refuse(const struct spur_contain_limits *l, struct spur_error *err)
{
    if (l && (l->cpus || l->mems || l->memory != SPUR_CONTAIN_NONE || l->memory_swap != SPUR_CONTAIN_NONE || l->pids != SPUR_CONTAIN_NONE || l->device_count))
        return spur_fail(err, SPUR_EUNSUPPORTED, "contain/process keeps no limits: only contain/cgroup does");
    return 0;
}

static int process_create(void *self, const struct spur_contain_step *step, const struct spur_contain_limits *job, const struct spur_contain_limits *limits,
                          void **box, struct spur_error *err)
{
    struct box *b;
    int rc;

    (void)self;
    (void)step;
    if ((rc = limit_refuse(job, err)) < 0 || (rc = limit_refuse(limits, err)) < 0)
        return rc;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return spur_fail(err, SPUR_EIO, "cannot become subreaper: %s", strerror(errno));
    if (!(b = calloc(1, sizeof *b)))
        return spur_fail(err, SPUR_ENOMEM, "contain/process: out of memory");
    b->root = getpid();
    *box = b;
    return 0;
}

static int process_enter(void *self, void *box, struct spur_error *err)
{
    (void)self;
    (void)box;
    (void)err;
    return 0;
}

static size_t process_signal(void *self, void *box, int signal)
{
    struct pids all = { 0 };
    size_t n;

    (void)self;
    below(box, &all);
    pids_signal(&all, signal);
    n = all.count;
    pids_fini(&all);
    return n;
}

static size_t process_kill(void *self, void *box)
{
    struct pids all = { 0 };
    size_t before = 0;

    (void)self;
    for (int round = 0; round < STOP_ROUNDS; round++) {
        all.count = 0;
        below(box, &all);
        pids_signal(&all, SIGSTOP);
        if (all.count <= before)
            break;
        before = all.count;
    }
    pids_signal(&all, SIGKILL);
    before = all.count;
    pids_fini(&all);
    return before;
}

static size_t process_count(void *self, void *box, pid_t *list, size_t room)
{
    struct pids all = { 0 };
    size_t n;

    (void)self;
    below(box, &all);
    n = all.count;
    for (size_t i = 0; i < n && i < room; i++)
        list[i] = all.list[i];
    pids_fini(&all);
    return n;
}

/* The programs see it, as with Slurm's proctrack/pgid and linuxproc: a shell that waits for a stopped child may say so. */
static int process_freeze(void *self, void *box, bool frozen, struct spur_error *err)
{
    (void)err;
    process_signal(self, box, frozen ? SIGSTOP : SIGCONT);
    return 0;
}

static int process_figures(void *self, void *box, struct spur_contain_figures *out, struct spur_error *err)
{
    struct box *b = box;
    struct pids all = { 0 };

    (void)self;
    (void)err;
    below(b, &all);
    pids_figures(&all, out);
    pids_fini(&all);
    if (out->rss_bytes > b->rss_max)
        b->rss_max = out->rss_bytes;
    out->rss_max_bytes = b->rss_max;
    return 0;
}

static size_t process_reclaim(void *self, const struct spur_contain_step *step, const struct spur_contain_leader *leaders, size_t count)
{
    size_t n = 0;

    (void)self;
    for (size_t i = 0; i < count; i++)
        n += session_kill(&leaders[i], step->uid);
    return n;
}

static void process_destroy(void *self, void *box)
{
    (void)self;
    free(box);
}

static void process_spare(void *self, void *box, pid_t pid)
{
    (void)self;
    ((struct box *)box)->spared = pid;
}

static uint32_t process_can(void *self)
{
    (void)self;
    return SPUR_CONTAIN_FREEZE;
}

static int process_status(void *self, char *buf, size_t len)
{
    (void)self;
    snprintf(buf, len, "the tree of processes below each supervisor; no limits");
    return 0;
}

static const struct spur_contain_ops process_ops = {
    .size = sizeof process_ops, .create = process_create, .enter = process_enter, .signal = process_signal, .kill = process_kill, .count = process_count,
    .destroy = process_destroy, .freeze = process_freeze, .figures = process_figures, .reclaim = process_reclaim, .can = process_can, .status = process_status,
    .spare = process_spare };

SPUR_PLUGIN(contain, process, .about = "the tree of processes below each supervisor", .stands_for = "linuxproc pgid",
            .ops = &process_ops, .open = process_open, .reload = process_reload, .close = free);
