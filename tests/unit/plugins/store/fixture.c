/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.c - a host with a loop for tests of store/local. Nothing here sleeps: waiting is on a condition with a deadline. */
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t random_next(uint64_t *state)       /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t hash_entry(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *p = data;

    hash = (hash ^ n) * UINT64_C(0x100000001b3) + 1;
    while (n--)
        hash = (hash ^ *p++) * UINT64_C(0x100000001b3);
    return hash;
}

size_t entry_make(uint8_t *out, size_t most, uint64_t seed, uint64_t i)
{
    uint64_t state = seed * 1000003 + i;
    size_t n = random_next(&state) % (most + 1);

    for (size_t k = 0; k < n; k++)
        out[k] = (uint8_t)random_next(&state);
    return n;
}

void folder_make(char path[64])
{
    snprintf(path, 64, "%s/spur-store-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
}

static void folder_each(const char *path, void (*fn)(const char *file, const char *name, void *arg), void *arg)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char file[400];

    if (!d)
        return;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        fn(file, e->d_name, arg);
    }
    closedir(d);
}

static void file_remove(const char *file, const char *name, void *arg)
{
    (void)name;
    (void)arg;
    if (unlink(file) < 0)
        folder_remove(file);            /* what was set aside */
}

void folder_remove(const char *path)
{
    folder_each(path, file_remove, NULL);
    rmdir(path);
}

static void file_copy(const char *file, const char *name, void *arg)
{
    static char buffer[1 << 20];
    char to[400];
    int in = open(file, O_RDONLY), out;
    ssize_t n;

    snprintf(to, sizeof to, "%s/%s", (const char *)arg, name);
    out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert(in >= 0 && out >= 0);
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        ck_assert(write(out, buffer, (size_t)n) == n);
    close(in);
    close(out);
}

void folder_copy(const char *from, const char *to)
{
    char arg[64];

    folder_remove(to);
    ck_assert_int_eq(mkdir(to, 0700), 0);
    snprintf(arg, sizeof arg, "%s", to);
    folder_each(from, file_copy, arg);
}

/* ---- the host ---- */

static int64_t clock_ms(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void host_log(void *ctx, int level, const char *text)
{
    struct world *w = ctx;
    size_t used;

    (void)level;
    pthread_mutex_lock(&w->lock);
    used = strlen(w->log);
    snprintf(w->log + used, sizeof w->log - used, "%s\n", text);
    pthread_mutex_unlock(&w->lock);
    if (getenv("STORE_TEST_LOG"))
        fprintf(stderr, "%s\n", text);
}

static void host_post(void *ctx, void (*fn)(void *), void *arg)
{
    struct world *w = ctx;

    pthread_mutex_lock(&w->lock);
    if (w->posted_count == sizeof w->posted / sizeof *w->posted)
        abort();
    w->posted[w->posted_count].fn = fn;
    w->posted[w->posted_count++].arg = arg;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

static int64_t host_now(void *ctx) { (void)ctx; return clock_ms(CLOCK_BOOTTIME); }
static int64_t host_wall(void *ctx) { (void)ctx; return clock_ms(CLOCK_REALTIME); }
static const char *host_name(void *ctx) { (void)ctx; return "ctl1"; }
static const char *host_role(void *ctx) { (void)ctx; return "controller"; }
static const char *host_state_dir(void *ctx) { return ((struct world *)ctx)->folder; }

/* ---- the state ---- */

static void on_committed(void *arg, uint64_t index, const void *data, size_t n, void *cookie)
{
    struct world *w = arg;

    ck_assert_uint_eq(index, w->index + 1);
    w->index = index;
    w->hash = hash_entry(w->hash, data, n);
    w->count++;
    if (cookie) {
        ck_assert_uint_gt((uintptr_t)cookie, w->last_cookie);       /* in the order proposed */
        w->last_cookie = (uintptr_t)cookie;
        w->live++;
    }
}

static void on_dropped(void *arg, void *cookie, const struct spur_error *why)
{
    struct world *w = arg;

    (void)cookie;
    w->dropped++;
    w->dropped_code = why->code;
    snprintf(w->dropped_text, sizeof w->dropped_text, "%s", why->text);
}

static void on_role(void *arg, enum spur_store_role role, uint64_t fence, const char *leader, const struct spur_error *err)
{
    struct world *w = arg;

    w->role = role;
    w->fence = fence;
    ck_assert((role == SPUR_STORE_LEADER) == (leader != NULL));
    ck_assert((role == SPUR_STORE_FAILED) == (err != NULL));
}

static int on_snapshot_write(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    struct world *w = arg;
    uint64_t words[3] = { w->hash, w->count, w->padding };
    uint8_t piece[1000];
    long rc = sink->write(sink->arg, words, sizeof words);

    w->snapshot_writes++;
    memset(piece, 0x5a, sizeof piece);
    for (size_t left = w->padding; rc >= 0 && left > 0; ) {
        size_t n = left < sizeof piece ? left : sizeof piece;

        rc = sink->write(sink->arg, piece, n);
        left -= n;
    }
    return rc < 0 ? spur_fail(err, (int)rc, "snapshot: the store took no more") : 0;
}

static int on_snapshot_read(void *arg, uint64_t index, const struct spur_store_source *source, struct spur_error *err)
{
    struct world *w = arg;
    uint64_t words[3], got = 0;
    uint8_t piece[4096];
    long n = source->read(source->arg, words, sizeof words);

    w->snapshot_reads++;
    if (n != (long)sizeof words)
        return spur_fail(err, SPUR_ECORRUPT, "snapshot: too short");
    while ((n = source->read(source->arg, piece, sizeof piece)) > 0)
        got += (uint64_t)n;
    if (n < 0 || got != words[2])
        return spur_fail(err, SPUR_ECORRUPT, "snapshot: %llu bytes behind the state", (unsigned long long)got);
    w->hash = words[0];
    w->count = words[1];
    w->index = index;
    return 0;
}

void world_init(struct world *w)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->host = (struct spur_host){ .size = sizeof w->host, .ctx = w, .log = host_log, .post = host_post, .now_ms = host_now, .wall_ms = host_wall,
                                  .host_name = host_name, .role = host_role, .state_dir = host_state_dir };
    w->events = (struct spur_store_events){ .size = sizeof w->events, .arg = w, .committed = on_committed, .dropped = on_dropped, .role = on_role,
                                            .snapshot_write = on_snapshot_write, .snapshot_read = on_snapshot_read };
    folder_make(w->folder);
}

void world_forget(struct world *w)
{
    w->hash = w->count = w->index = w->live = w->dropped = w->last_cookie = w->fence = 0;
    w->role = SPUR_STORE_STARTING;
    w->snapshot_reads = w->snapshot_writes = 0;
}

int world_open(struct world *w, uint64_t segment, uint64_t snapshot, const struct wal_io *io, struct spur_error *err)
{
    struct local_config config = { .path = w->folder, .segment_bytes = segment, .snapshot_bytes = snapshot, .is_synced = true, .io = io };
    int rc;

    world_forget(w);
    if ((rc = local_create(&w->host, &config, &w->store, err)) < 0)
        return rc;
    rc = local_ops.start(w->store, &w->events, err);
    if (rc < 0)
        world_close(w);
    return rc;
}

extern const struct spur_plugin spur_plugin_store_local;

void world_close(struct world *w)
{
    spur_plugin_store_local.close(w->store);
    w->store = NULL;
    world_turn(w);                              /* what was posted before must find a closed door */
}

void world_fini(struct world *w)
{
    world_close(w);
    folder_remove(w->folder);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
}

void world_turn(struct world *w)
{
    struct posted run[1024];
    size_t n;

    pthread_mutex_lock(&w->lock);
    n = w->posted_count;
    memcpy(run, w->posted, n * sizeof *run);
    w->posted_count = 0;
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < n; i++)
        run[i].fn(run[i].arg);
}

static void turn_wait(struct world *w, int64_t deadline_ms)
{
    struct timespec until;

    pthread_mutex_lock(&w->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    if (!w->posted_count)
        pthread_cond_timedwait(&w->wake, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
    ck_assert_msg(clock_ms(CLOCK_MONOTONIC) < deadline_ms, "waited 20 s in vain; log so far:\n%s", w->log);
    world_turn(w);
}

void world_wait(struct world *w, uint64_t n)
{
    int64_t deadline = clock_ms(CLOCK_MONOTONIC) + 20000;

    while (w->live + w->dropped < n)
        turn_wait(w, deadline);
}

void world_wait_role(struct world *w, enum spur_store_role role)
{
    int64_t deadline = clock_ms(CLOCK_MONOTONIC) + 20000;

    while (w->role != role)
        turn_wait(w, deadline);
}

int world_propose(struct world *w, const void *data, size_t n, uint64_t cookie, struct spur_error *err)
{
    return local_ops.propose(w->store, data, n, (void *)(uintptr_t)cookie, err);
}

bool world_logged(struct world *w, const char *text)
{
    bool found;

    pthread_mutex_lock(&w->lock);
    found = strstr(w->log, text) != NULL;
    pthread_mutex_unlock(&w->lock);
    return found;
}
