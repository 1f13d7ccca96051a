/* SPDX-License-Identifier: Apache-2.0 */
/* contract_contain.c - promises of a plugin that holds processes: whoever enters is counted, and signals, freezing and the kill reach what it has
 * started, whatever it did to get away. A machine may not let this plugin work (no right to make control groups): then it says so in words, and
 * the case is skipped.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <spur/contain.h>

#include "loader/contract.h"

#define WAIT_MS 15000           /* for a condition that comes at once on any machine that is not stuck */

static unsigned patience_ms = WAIT_MS;        /* of the case that runs in this process */

struct held {
    struct loaded *l;
    const struct spur_contain_ops *ops;
    void *box;
    volatile int *counters;     /* one a process, in memory that all share */
};

static void breathe(void)
{
    struct timespec t = { .tv_nsec = 5 * 1000 * 1000 };

    nanosleep(&t, NULL);
}

static void reap(void) { while (waitpid(-1, NULL, WNOHANG) > 0) ; }

#define COMES(what) \
    for (int ms = 0; reap(), !(what) && ms < (int)patience_ms; ms += 5) \
        breathe()

/* CONTRACT_SKIP: this machine does not let it. */
static int held_open(struct contract *c, struct held *h, struct spur_error *err)
{
    char scope[64];
    struct spur_contain_step step = { .size = sizeof step, .job_id = 7, .step_id = 1, .attempt = 1, .uid = getuid(), .gid = getgid(), .step = "1", .scope = scope };
    int rc;

    /* the suites of two builds may run side by side */
    snprintf(scope, sizeof scope, "spur_contract_%d", (int)getpid());
    if ((rc = contract_open(c, &h->l, err)) < 0)
        return rc;
    h->ops = loader_ops(h->l);
    if (c->target->deadline_ms)
        patience_ms = c->target->deadline_ms / 4 * 3;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if ((rc = h->ops->create(h->l->self, &step, NULL, NULL, &h->box, err)) < 0) {
        CONTRACT_EXPECT(err->text[0], "create fails (%d) without a sentence", rc);
        loader_close(h->l);
        return CONTRACT_SKIP;
    }
    h->counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CONTRACT_EXPECT(h->counters != MAP_FAILED, "no memory for the case");
    return 0;
}

/* For as long as a case may last: what a bad plugin lets go ends by itself, and holds no descriptor until then. */
static _Noreturn void count_on(volatile int *at)
{
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    for (int i = 0; i < 10 * WAIT_MS / 5; i++) {
        ++*at;
        breathe();
    }
    _exit(0);
}

/* A task that counts, with a child in a session of its own whose parent ends at once, which counts too. */
static pid_t task_start(struct held *h)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (h->ops->enter(h->l->self, h->box, NULL) < 0)
        _exit(3);
    signal(SIGCHLD, SIG_IGN);
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            count_on(&h->counters[1]);
        _exit(0);
    }
    count_on(&h->counters[0]);
}

static int held_end(struct held *h, struct spur_error *err)
{
    size_t left = 1;

    COMES((h->ops->kill(h->l->self, h->box), reap(), (left = h->ops->count(h->l->self, h->box, NULL, 0)) == 0));
    CONTRACT_EXPECT(left == 0, "%zu processes are alive after they were killed again and again", left);
    h->ops->destroy(h->l->self, h->box);
    h->ops->destroy(h->l->self, NULL);
    munmap((void *)(uintptr_t)h->counters, 4096);
    loader_close(h->l);
    return 0;
}

static int holds_and_kills(struct contract *c, struct spur_error *err)
{
    struct held h = { 0 };
    pid_t list[8], pid;
    size_t n = 0;
    bool found = false;
    int rc;

    if ((rc = held_open(c, &h, err)) != 0)
        return rc;
    n = h.ops->count(h.l->self, h.box, NULL, 0);
    CONTRACT_EXPECT(n == 0, "a new box holds %zu processes", n);
    pid = task_start(&h);
    COMES(h.counters[1] > 0);
    CONTRACT_EXPECT(h.counters[1] > 0, "a task does not run in the box");
    COMES((n = h.ops->count(h.l->self, h.box, list, 8)) == 2);     /* the one between them ends on its own time */
    CONTRACT_EXPECT(n == 2, "a task with a child that has left by double fork counts as %zu processes, not as 2", n);
    for (size_t i = 0; i < n; i++)
        found |= list[i] == pid;
    CONTRACT_EXPECT(found, "the task is not among the processes that are listed");
    CONTRACT_EXPECT(h.ops->signal(h.l->self, h.box, 0) == 2, "signal 0 does not find 2 processes");
    return held_end(&h, err);
}

static int signals_all(struct contract *c, struct spur_error *err)
{
    struct held h = { 0 };
    size_t left = 2;
    int rc;

    if ((rc = held_open(c, &h, err)) != 0)
        return rc;
    task_start(&h);
    COMES(h.counters[1] > 0);
    h.ops->signal(h.l->self, h.box, SIGTERM);
    COMES((left = h.ops->count(h.l->self, h.box, NULL, 0)) == 0);
    CONTRACT_EXPECT(left == 0, "%zu processes have not got the signal", left);
    return held_end(&h, err);
}

static int freezes(struct contract *c, struct spur_error *err)
{
    struct held h = { 0 };
    int rc, seen[2];

    if ((rc = held_open(c, &h, err)) != 0)
        return rc;
    if (!SPUR_HAS(h.ops, freeze) || (SPUR_HAS(h.ops, can) && !(h.ops->can(h.l->self) & SPUR_CONTAIN_FREEZE))) {
        held_end(&h, err);
        return CONTRACT_SKIP;
    }
    task_start(&h);
    COMES(h.counters[0] > 0 && h.counters[1] > 0);
    CONTRACT_EXPECT(h.ops->freeze(h.l->self, h.box, true, err) == 0, "freeze: %s", err->text);
    CONTRACT_EXPECT(h.ops->freeze(h.l->self, h.box, true, err) == 0, "a second freeze: %s", err->text);
    /* they stand still: two looks that are the same; freezing may take a moment */
    COMES((seen[0] = h.counters[0], seen[1] = h.counters[1], usleep(50000), seen[0] == h.counters[0] && seen[1] == h.counters[1]));
    CONTRACT_EXPECT(seen[0] == h.counters[0] && seen[1] == h.counters[1], "processes go on after freeze");
    CONTRACT_EXPECT(h.ops->freeze(h.l->self, h.box, false, err) == 0, "thaw: %s", err->text);
    COMES(h.counters[0] > seen[0] && h.counters[1] > seen[1]);
    CONTRACT_EXPECT(h.counters[0] > seen[0] && h.counters[1] > seen[1], "processes stand still after the thaw");
    CONTRACT_EXPECT(h.ops->freeze(h.l->self, h.box, true, err) == 0, "freeze: %s", err->text);
    return held_end(&h, err);           /* what is frozen can be killed */
}

static int tells_figures(struct contract *c, struct spur_error *err)
{
    struct { struct spur_contain_figures f; unsigned char more[16]; } out;
    struct held h = { 0 };
    int rc;

    if ((rc = held_open(c, &h, err)) != 0)
        return rc;
    if (!SPUR_HAS(h.ops, figures)) {
        held_end(&h, err);
        return CONTRACT_SKIP;
    }
    task_start(&h);
    COMES(h.counters[1] > 0);
    COMES(h.ops->count(h.l->self, h.box, NULL, 0) == 2);
    memset(&out, 0, sizeof out);
    memset(out.more, 0xa5, sizeof out.more);
    out.f.size = sizeof out.f;
    CONTRACT_EXPECT(h.ops->figures(h.l->self, h.box, &out.f, err) == 0, "figures: %s", err->text);
    CONTRACT_EXPECT(out.f.size == sizeof out.f && out.more[0] == 0xa5 && out.more[15] == 0xa5, "figures writes past its struct");
    CONTRACT_EXPECT(out.f.processes == 2, "figures tell of %u processes, there are 2", out.f.processes);
    CONTRACT_EXPECT(out.f.rss_max_bytes == 0 || out.f.rss_max_bytes >= out.f.rss_bytes, "the most RSS seen is less than what is there now");
    if (SPUR_HAS(h.ops, oom_kills))
        CONTRACT_EXPECT(h.ops->oom_kills(h.l->self, h.box) == 0, "processes were killed for memory, it says");
    return held_end(&h, err);
}

/* What a supervisor left behind is found by name and by its tasks alone. */
static int reclaims(struct contract *c, struct spur_error *err)
{
    struct held h = { 0 };
    char scope[64], path[64], buf[1024], *at;
    struct spur_contain_step step = { .size = sizeof step, .job_id = 7, .step_id = 1, .attempt = 1, .uid = getuid(), .gid = getgid(), .step = "1", .scope = scope };
    struct spur_contain_leader leader = { 0 };
    unsigned long long start = 0;
    size_t n = 0;
    FILE *f;
    int rc;

    snprintf(scope, sizeof scope, "spur_contract_%d", (int)getpid());
    if ((rc = held_open(c, &h, err)) != 0)
        return rc;
    if (!SPUR_HAS(h.ops, reclaim)) {
        held_end(&h, err);
        return CONTRACT_SKIP;
    }
    leader.pid = fork();
    if (leader.pid == 0) {
        setsid();
        if (h.ops->enter(h.l->self, h.box, NULL) < 0)
            _exit(3);
        count_on(&h.counters[0]);
    }
    COMES(h.counters[0] > 0);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)leader.pid);
    f = fopen(path, "re");
    if (f && fgets(buf, sizeof buf, f) && (at = strrchr(buf, ')')) &&
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) == 1)
        leader.start = start;
    if (f)
        fclose(f);
    CONTRACT_EXPECT(start, "/proc does not tell when a process started");
    n = h.ops->reclaim(h.l->self, &step, &leader, 1);
    CONTRACT_EXPECT(n >= 1, "reclaim finds nobody, one process is there");
    COMES(h.ops->count(h.l->self, h.box, NULL, 0) == 0);
    h.ops->reclaim(h.l->self, &step, &leader, 1);
    return held_end(&h, err);
}

static int tells_itself(struct contract *c, struct spur_error *err)
{
    const struct spur_contain_ops *ops;
    struct loaded *l;
    char line[200];
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, status)) {
        loader_close(l);
        return CONTRACT_SKIP;
    }
    memset(line, 'x', sizeof line);
    rc = ops->status(l->self, line, sizeof line);
    CONTRACT_EXPECT(rc <= 0 && memchr(line, '\0', sizeof line) && !strchr(line, '\n'), "status is not one line");
    loader_close(l);
    return 0;
}

const struct contract_case contract_contain[] = {
    { "holds what enters, and kills it", holds_and_kills }, { "signals all", signals_all }, { "freezes and thaws", freezes }, { "tells figures", tells_figures },
    { "finds what a supervisor left", reclaims }, { "tells itself in one line", tells_itself }, { NULL, NULL } };
