/* SPDX-License-Identifier: Apache-2.0 */
/* commits.c - how fast a group of controllers commits, without the controllers: the store plugin, its auth plugin and its sealed channels alone, one
 * process a member, on this machine and its one disk.
 *
 *     commits DIR [-n ENTRIES] [-w WINDOW] [-b BYTES] [-1 ENTRIES]
 *
 * DIR is the folder of a sandbox that does not run: its configuration and keys are used, the members' files go into DIR/commits, which is made and
 * removed. Whoever leads first keeps WINDOW proposals of BYTES under way until ENTRIES are committed, then so many (-1) one after the other, and prints a line
 * for each: rate, p50, p99 and max of a commit's time. A proposal is committed when a majority has it on the disk.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <spur/store.h>

#include "base/clock.h"
#include "base/str.h"
#include "config/config.h"
#include "loader/loader.h"
#include "rpc/peers.h"

#define POSTS_MAX 65536u
#define START_MS  20000

struct run { unsigned entries, window, bytes; };
struct member {
    const struct config *cfg;
    char name[64], folder[800];
    struct spur_host host;
    const struct spur_store_ops *store; void *self;
    bool leads, has_failed;
    /* the loop: what threads of the store have posted */
    pthread_mutex_t lock; pthread_cond_t wake;
    struct { void (*fn)(void *arg); void *arg; } *posts; unsigned post_count;
    /* the load */
    double *sent, *took; unsigned proposed, done; char *entry;
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

static void end(const char *who, const struct spur_error *err)
{
    fprintf(stderr, "commits: %s: %s\n", who, err->text);
    exit(1);
}

/* ---- the host of a store ------------------------------------------------------------------------------------------------------- */

static void host_log(void *ctx, int level, const char *text)
{
    if (level <= SPUR_LOG_WARN || getenv("COMMITS_LOG"))
        fprintf(stderr, "%s: %s\n", ((struct member *)ctx)->name, text);
}

static void host_post(void *ctx, void (*fn)(void *), void *arg)
{
    struct member *m = ctx;

    pthread_mutex_lock(&m->lock);
    if (m->post_count == POSTS_MAX)
        abort();
    m->posts[m->post_count].fn = fn;
    m->posts[m->post_count++].arg = arg;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

static int64_t host_now(void *ctx) { (void)ctx; return clock_boot_ms(); }
static int64_t host_wall(void *ctx) { (void)ctx; return clock_wall_ms(); }
static const char *host_name(void *ctx) { return ((struct member *)ctx)->name; }
static const char *host_role(void *ctx) { (void)ctx; return "controller"; }
static const char *host_state_dir(void *ctx) { return ((struct member *)ctx)->folder; }

static int host_controller(void *ctx, uint32_t i, struct spur_controller *out)
{
    const struct config *cfg = ((struct member *)ctx)->cfg;

    if (i >= cfg->controller_count)
        return SPUR_ENOTFOUND;
    snprintf(out->name, sizeof out->name, "%s", cfg->controllers[i].host);
    snprintf(out->addr, sizeof out->addr, "%s", cfg->controllers[i].addr ? cfg->controllers[i].addr : cfg->controllers[i].host);
    return 0;
}

/* One turn of the loop: what is posted now; waits for it up to a tenth of a second. */
static void turn(struct member *m)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&m->lock);
    if (!m->post_count)
        pthread_cond_timedwait(&m->wake, &m->lock, &until);
    for (unsigned i = 0; i < m->post_count; i++) {
        void (*fn)(void *) = m->posts[i].fn;
        void *arg = m->posts[i].arg;

        pthread_mutex_unlock(&m->lock);
        fn(arg);
        pthread_mutex_lock(&m->lock);
    }
    m->post_count = 0;
    pthread_mutex_unlock(&m->lock);
}

/* ---- what the store tells ------------------------------------------------------------------------------------------------------ */

static void on_committed(void *arg, uint64_t index, const void *data, size_t n, void *cookie)
{
    struct member *m = arg;

    (void)index; (void)data; (void)n;
    if (cookie) {
        m->took[m->done] = now_ms() - m->sent[(uintptr_t)cookie - 1];
        m->done++;
    }
}

static void on_dropped(void *arg, void *cookie, const struct spur_error *why)
{
    struct member *m = arg;

    (void)cookie;
    fprintf(stderr, "commits: %s: a proposal was dropped: %s\n", m->name, why->text);
    m->has_failed = true;
}

static void on_role(void *arg, enum spur_store_role role, uint64_t fence, const char *leader, const struct spur_error *err)
{
    struct member *m = arg;

    (void)fence; (void)leader;
    if (role == SPUR_STORE_FAILED)
        end(m->name, err);
    m->leads = role == SPUR_STORE_LEADER;
}

static int on_snapshot_write(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    (void)arg;
    return sink->write(sink->arg, "nothing", 7) < 0 ? spur_fail(err, SPUR_EIO, "snapshot") : 0;
}

static int on_snapshot_read(void *arg, uint64_t index, const struct spur_store_source *source, struct spur_error *err)
{
    char buf[64];

    (void)arg; (void)index; (void)err;
    while (source->read(source->arg, buf, sizeof buf) > 0)
        ;
    return 0;
}

/* ---- the load -------------------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

static void load_run(struct member *m, const struct run *r)
{
    struct spur_error err = { 0 };
    double from = now_ms(), took;

    m->sent = calloc(r->entries, sizeof *m->sent);
    m->took = calloc(r->entries, sizeof *m->took);
    m->entry = calloc(1, r->bytes);
    m->proposed = m->done = 0;
    while (m->done < r->entries && m->leads && !m->has_failed) {
        while (m->proposed < r->entries && m->proposed - m->done < r->window) {
            memcpy(m->entry, &m->proposed, sizeof m->proposed < r->bytes ? sizeof m->proposed : r->bytes);
            m->sent[m->proposed] = now_ms();
            if (m->store->propose(m->self, m->entry, r->bytes, (void *)(uintptr_t)(m->proposed + 1), &err) < 0)
                end("propose", &err);
            m->proposed++;
        }
        turn(m);
    }
    took = now_ms() - from;
    if (m->done < r->entries) {
        fprintf(stderr, "commits: %s lost the leadership under load\n", m->name);
        exit(1);
    }
    qsort(m->took, m->done, sizeof *m->took, by_value);
    printf("n=%u window=%u bytes=%u rate=%.0f p50_ms=%.3f p99_ms=%.3f max_ms=%.1f\n", m->done, r->window, r->bytes, m->done * 1000.0 / took, m->took[m->done / 2],
           m->took[m->done * 99ul / 100], m->took[m->done - 1]);
    fflush(stdout);
    free(m->sent);
    free(m->took);
    free(m->entry);
}

/* A member, in a process of its own. Ends when it has led through all runs; else when the parent ends it. */
static void member(const char *dir, uint32_t i, const struct run *runs, size_t run_count)
{
    struct member m = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };
    struct spur_store_events events = { .size = sizeof events, .arg = &m, .committed = on_committed, .dropped = on_dropped, .role = on_role,
                                        .snapshot_write = on_snapshot_write, .snapshot_read = on_snapshot_read, .feature = 1 };
    struct spur_error err = { 0 };
    struct loaded *auth, *store;
    struct peers *peers;
    struct config *cfg;
    char conf[1024];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(m.name, sizeof m.name, "ctl%u", i + 1);
    snprintf(m.folder, sizeof m.folder, "%.700s/commits/%s", dir, m.name);
    snprintf(conf, sizeof conf, "%s/etc/%s/slurm.conf", dir, m.name);
    if (mkdir(m.folder, 0700) < 0)
        spur_fail(&err, SPUR_EIO, "%s: %s", m.folder, strerror(errno)), end(m.name, &err);
    if (config_load(conf, false, &cfg, &err) < 0)
        end(conf, &err);
    m.cfg = cfg;
    m.posts = calloc(POSTS_MAX, sizeof *m.posts);
    peers = peers_create(config_text(cfg, CONF_ClusterName));
    m.host = (struct spur_host){ .size = sizeof m.host, .ctx = &m, .log = host_log, .post = host_post, .now_ms = host_now, .wall_ms = host_wall, .host_name = host_name,
                                 .role = host_role, .state_dir = host_state_dir, .controller = host_controller, .channels = peers_channels(peers) };
    if (loader_open(SPUR_KIND_auth, config_text(cfg, CONF_AuthType), cfg, &m.host, &auth, &err) < 0)
        end("auth", &err);
    peers_use(peers, loader_ops(auth), auth->self, loader_can(auth, SPUR_CAP_MAY_BLOCK));
    if (loader_open(SPUR_KIND_store, config_text(cfg, CONF_StoreType), cfg, &m.host, &store, &err) < 0)
        end("store", &err);
    m.store = loader_ops(store);
    m.self = store->self;
    if (m.store->start(m.self, &events, &err) < 0)
        end(m.name, &err);
    for (int64_t deadline = clock_mono_ms() + START_MS; !m.leads || run_count == 0; ) {
        struct spur_store_status st = { .size = sizeof st };

        turn(&m);
        m.store->status(m.self, &st);
        if (!st.has_leader && !m.leads && clock_mono_ms() > deadline)
            spur_fail(&err, SPUR_ETIMEOUT, "nobody leads after %d s", START_MS / 1000), end(m.name, &err);
    }
    for (unsigned rest = 0; rest < 10; rest++)         /* a second for the others to be there */
        turn(&m);
    for (size_t k = 0; k < run_count; k++)
        load_run(&m, &runs[k]);
    exit(0);
}

int main(int argc, char **argv)
{
    struct run runs[2] = { { 200000, 64, 256 }, { 2000, 1, 256 } };
    pid_t pids[16];
    uint32_t count = 0;
    struct config *cfg;
    struct spur_error err = { 0 };
    char path[1024];
    int c, status = 1;

    while ((c = getopt(argc, argv, "n:w:b:1:")) != -1)
        switch (c) {
        case 'n': runs[0].entries = (unsigned)atoi(optarg); break;
        case 'w': runs[0].window = (unsigned)atoi(optarg); break;
        case 'b': runs[0].bytes = runs[1].bytes = (unsigned)atoi(optarg); break;
        case '1': runs[1].entries = (unsigned)atoi(optarg); break;
        default: return 2;
        }
    if (optind + 1 != argc || sodium_init() < 0) {
        fprintf(stderr, "usage: commits DIR [-n ENTRIES] [-w WINDOW] [-b BYTES] [-1 ENTRIES]\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/slurm.conf", argv[optind]);
    if (config_load(path, false, &cfg, &err) < 0)
        end(path, &err);
    snprintf(path, sizeof path, "%s/commits", argv[optind]);
    if (mkdir(path, 0700) < 0)
        spur_fail(&err, SPUR_EIO, "%s", strerror(errno)), end(path, &err);
    for (; count < cfg->controller_count && count < 16; count++)
        if ((pids[count] = fork()) == 0)
            member(argv[optind], count, runs, 2);
    wait(&status);                  /* the first that ends: whoever has led, or failed */
    for (uint32_t i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
