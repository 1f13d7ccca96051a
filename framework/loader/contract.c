/* SPDX-License-Identifier: Apache-2.0 */
/* contract.c - runs the cases of a kind, each in a child process, and plays the host for them.
 *
 * The fake host is what a plugin may count on and nothing more: a log nobody reads, keys of slurm.conf from a small list, a folder, clocks, and
 * a loop that runs what was posted when the case says so. The result of a case comes through a pipe, so that it is known even of a child that
 * crashes after it.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "loader/contract.h"
#include "loader/file.h"
#include "loader/inside.h"

#define SETTINGS_MAX 32

struct posted { void (*fn)(void *arg); void *arg; struct posted *next; };

struct fake {
    struct spur_host host;
    const char *dir, *role, *host_name;
    struct { const char *key, *value; } settings[SETTINGS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    struct posted *first, **end;
};

static void fake_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (getenv("SPUR_CONTRACT_LOG"))
        fprintf(stderr, "      [%d] %s\n", level, text);
}

static const char *fake_config(void *ctx, const char *key)
{
    struct fake *f = ctx;

    for (size_t i = 0; i < SETTINGS_MAX && f->settings[i].key; i++)
        if (word_eq(f->settings[i].key, key))
            return f->settings[i].value;
    return NULL;
}

static void fake_post(void *ctx, void (*fn)(void *arg), void *arg)
{
    struct fake *f = ctx;
    struct posted *p = mem_alloc(sizeof *p);

    p->fn = fn;
    p->arg = arg;
    pthread_mutex_lock(&f->lock);
    *f->end = p;
    f->end = &p->next;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
}

static int64_t fake_now_ms(void *ctx)
{
    (void)ctx;
    return clock_boot_ms();
}

static int64_t fake_wall_ms(void *ctx)
{
    (void)ctx;
    return clock_wall_ms();
}

static const char *fake_host_name(void *ctx) { return ((struct fake *)ctx)->host_name; }
static const char *fake_role(void *ctx) { return ((struct fake *)ctx)->role; }
static const char *fake_state_dir(void *ctx) { return ((struct fake *)ctx)->dir; }

static void fake_init(struct fake *f, const char *dir)
{
    *f = (struct fake){
        .host = { .size = sizeof f->host, .ctx = f, .log = fake_log, .config = fake_config, .post = fake_post, .now_ms = fake_now_ms,
                  .wall_ms = fake_wall_ms, .host_name = fake_host_name, .role = fake_role, .state_dir = fake_state_dir },
        .dir = dir, .role = "controller", .host_name = "ctl1" };
    f->end = &f->first;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wake, NULL);
}

void contract_set(struct contract *c, const char *key, const char *value)
{
    for (size_t i = 0; i < SETTINGS_MAX; i++) {
        if (c->fake->settings[i].key && !word_eq(c->fake->settings[i].key, key))
            continue;
        c->fake->settings[i].key = key;
        c->fake->settings[i].value = value;
        return;
    }
}

bool contract_loop(struct contract *c, const bool *done, unsigned ms)
{
    struct fake *f = c->fake;
    int64_t end = clock_wall_ms() + ms;

    while (!*done) {
        struct posted *p;
        struct timespec until = { .tv_sec = end / 1000, .tv_nsec = end % 1000 * 1000000 };

        pthread_mutex_lock(&f->lock);
        while (!f->first && pthread_cond_timedwait(&f->wake, &f->lock, &until) != ETIMEDOUT)
            ;
        if ((p = f->first) && !(f->first = p->next))
            f->end = &f->first;
        pthread_mutex_unlock(&f->lock);
        if (!p)
            return *done;
        p->fn(p->arg);
        free(p);
    }
    return true;
}

int contract_open(struct contract *c, struct loaded **out, struct spur_error *err)
{
    const struct loader_source source = { .kind = c->target->kind, .wanted = c->target->wanted, .path = c->target->path, .options = c->target->options };

    return loader_open_source(&source, &c->fake->host, out, err);
}

void *contract_alloc(struct contract *c, size_t size)
{
    return arena_alloc(&c->memory, size);
}

uint32_t contract_random(uint64_t *seed)
{
    *seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *seed;

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) >> 16);
}

/* ---- the runner ---- */

struct outcome { int rc; struct spur_error err; struct contract_about about; };

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path);
    return 0;
}

/* In the child: load the file of the target, which is enough to know it. */
static void child_describe(const struct contract_target *target, struct outcome *o)
{
    struct plugin_file file;

    if ((o->rc = file_open(target->path, SPUR_KIND_none, NULL, &file, &o->err)) < 0)
        return;
    o->about.kind = (enum spur_kind)file.desc->kind;
    o->about.abi_major = file.desc->abi_major;
    o->about.abi_minor = file.desc->abi_minor;
    snprintf(o->about.name, sizeof o->about.name, "%s/%s", loader_kind_name(o->about.kind), file.desc->name);
    snprintf(o->about.version, sizeof o->about.version, "%s", file.desc->version ? file.desc->version : "");
    snprintf(o->about.about, sizeof o->about.about, "%s", file.desc->about ? file.desc->about : "");
    file_close(&file);
}

/* In the child: run one case (NULL: only describe), tell its outcome, end. */
static void child_run(const struct contract_target *target, const struct contract_case *c, const char *dir, int to)
{
    struct contract contract = { .target = target };
    struct fake fake;
    struct outcome o = { 0 };
    struct rlimit no_core = { 0, 0 };

    setrlimit(RLIMIT_CORE, &no_core);
    snprintf(contract.dir, sizeof contract.dir, "%s", dir);
    fake_init(&fake, contract.dir);
    contract.fake = &fake;
    arena_init(&contract.memory, 0);
    if (c)
        o.rc = c->run(&contract, &o.err);
    else
        child_describe(target, &o);
    if (write(to, &o, sizeof o) != (ssize_t)sizeof o)
        _exit(2);
    close(to);
    arena_fini(&contract.memory);
    /* exit, not _exit: what a plugin left for the end of the process runs here, where it can be seen. A case that has ended early has left
     * instances open; there is nothing more to learn from it. */
    if (o.rc)
        _exit(0);
    exit(0);
}

/* Reads the outcome and waits for the child's end, both before the deadline. */
static enum contract_verdict child_wait(pid_t child, int from, unsigned deadline_ms, struct outcome *o, char *text, size_t room)
{
    int64_t end = clock_boot_ms() + deadline_ms;
    size_t got = 0;
    int status = 0;
    bool is_over = false;

    while (!is_over) {
        int64_t left = end - clock_boot_ms();
        struct pollfd p = { .fd = from, .events = POLLIN };
        ssize_t n;

        if (left <= 0 || poll(&p, 1, (int)left) == 0) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            snprintf(text, room, "no end after %u ms%s", deadline_ms, got == sizeof *o ? ", though the case itself was done" : "");
            return CONTRACT_HUNG;
        }
        n = got < sizeof *o ? read(from, (char *)o + got, sizeof *o - got) : read(from, text, 1);
        if (n > 0 && got < sizeof *o)
            got += (size_t)n;
        is_over = n == 0 || (n < 0 && errno != EINTR);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        snprintf(text, room, "ended by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 got == sizeof *o ? " after the case was done" : "");
        return CONTRACT_CRASHED;
    }
    if (got != sizeof *o || WEXITSTATUS(status) != 0) {
        snprintf(text, room, "the plugin ended the process (exit status %d)", WEXITSTATUS(status));
        return CONTRACT_CRASHED;
    }
    snprintf(text, room, "%s", o->rc || !o->err.code ? o->err.text : "");     /* a case that held may leave a note */
    return o->rc < 0 ? CONTRACT_FAILED : o->rc == CONTRACT_SKIP ? CONTRACT_SKIPPED : CONTRACT_OK;
}

static enum contract_verdict case_run(const struct contract_target *target, const struct contract_case *c, struct outcome *o, char *text, size_t room)
{
    char dir[128];
    const char *tmp = getenv("TMPDIR");
    enum contract_verdict verdict = CONTRACT_FAILED;
    int ends[2];
    pid_t child;

    if (snprintf(dir, sizeof dir, "%s/spur-contract.XXXXXX", tmp && strlen(tmp) < 64 ? tmp : "/tmp") >= (int)sizeof dir || !mkdtemp(dir)) {
        snprintf(text, room, "no folder for the case: %s", strerror(errno));
        return CONTRACT_FAILED;
    }
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        snprintf(text, room, "cannot start the case: %s", strerror(errno));
    } else if (child == 0) {
        close(ends[0]);
        child_run(target, c, dir, ends[1]);
    } else {
        close(ends[1]);
        verdict = child_wait(child, ends[0], target->deadline_ms ? target->deadline_ms : 20000, o, text, room);
        close(ends[0]);
    }
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return verdict;
}

int contract_describe(const char *path, struct contract_about *out, struct spur_error *err)
{
    const struct contract_target target = { .path = path };
    struct outcome o = { 0 };
    char text[300] = "";
    enum contract_verdict verdict = case_run(&target, NULL, &o, text, sizeof text);

    if (verdict == CONTRACT_CRASHED || verdict == CONTRACT_HUNG)
        return spur_fail(err, SPUR_EINVAL, "%s: refused: loading it: %s", path, text);
    if (verdict != CONTRACT_OK)
        return spur_fail(err, o.rc < 0 ? o.rc : SPUR_EIO, "%s", text);
    *out = o.about;
    return 0;
}

int contract_run(const struct contract_target *target,
                 void (*row)(void *arg, const char *case_name, enum contract_verdict verdict, const char *text), void *arg)
{
    const struct contract_case *suites[2] = { contract_common, NULL };
    int failed = 0;

    switch (target->kind) {
#define SUITE(name, number, major, minor) case SPUR_KIND_##name: suites[1] = contract_##name; break;
        SPUR_KINDS(SUITE)
#undef SUITE
    case SPUR_KIND_none: break;
    }
    for (size_t s = 0; s < 2; s++) {
        for (const struct contract_case *c = suites[s]; c && c->name; c++) {
            char text[300] = "";
            struct outcome o = { 0 };
            enum contract_verdict verdict = case_run(target, c, &o, text, sizeof text);

            failed += verdict != CONTRACT_OK && verdict != CONTRACT_SKIPPED;
            row(arg, c->name, verdict, text);
            /* What cannot be opened can keep no other promise: one sentence is enough. */
            if (verdict != CONTRACT_OK && c == contract_common)
                return failed;
        }
    }
    return failed;
}
