/* SPDX-License-Identifier: Apache-2.0 */
/* raft.c - store/raft: the plugin as the host sees it. Options, start and stop of the threads, the ops, all on the loop's thread.
 *
 * raft.h says which thread owns what; core.h is the algorithm. Order of a start: the folder is read and applied (replay.c), the core made, the
 * socket bound, then the threads. Order of a stop: the leadership goes to somebody else, what was proposed is finished as far as it can be, the
 * threads end one by one (connections first, the log last), and whatever is still not answered is answered.
 */
#include "raft.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define ASKS            4096u
#define CRAMPED_MS      10000               /* not handed over for want of room again so soon: the others may have none either */
#define QUEUE_BYTES     (64u << 20)         /* proposed and not answered: more is EBUSY */
#define STOP_MS         3000
#define STOP_SNAPSHOT   (1u << 20)          /* a clean stop takes a snapshot when more log than this would be replayed ... */
#define STOP_CHEAP      (64u << 20)         /* ... and the last one was smaller than this */

/* ---- small things ---- */

void raft_say(const struct store *s, int level, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->host->log(s->host->ctx, level, text);
}

void raft_say_rarely(struct store *s, const char *kind, const char *format, ...)
{
    int64_t now = boot_ms();
    size_t slot = 0, rows = sizeof s->said / sizeof *s->said;
    char text[400];
    va_list args;
    size_t n;

    for (size_t i = 0; i < rows; i++) {
        if (strncmp(s->said[i].text, kind, sizeof s->said[i].text - 1) == 0) {
            slot = i;
            break;
        }
        if (s->said[i].until_ms < s->said[slot].until_ms)
            slot = i;
    }
    if (strncmp(s->said[slot].text, kind, sizeof s->said[slot].text - 1) != 0) {
        snprintf(s->said[slot].text, sizeof s->said[slot].text, "%s", kind);
        s->said[slot].until_ms = 0;
        s->said[slot].more = 0;
    }
    if (now < s->said[slot].until_ms) {
        s->said[slot].more++;
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    n = strlen(text);
    if (s->said[slot].more)
        snprintf(text + n, sizeof text - n, " (and %u like it in the minute before)", s->said[slot].more);
    s->said[slot].until_ms = now + 60000;
    s->said[slot].more = 0;
    s->host->log(s->host->ctx, SPUR_LOG_WARN, text);
}

void raft_wake(int fd)
{
    uint64_t one = 1;

    if (write(fd, &one, sizeof one) < 0)
        errno = 0;              /* full: it is awake */
}

int raft_thread(pthread_t *thread, void *(*fn)(void *), void *arg, const char *name, struct spur_error *err)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int rc;

    /* Signals are the loop's; and a write over a file size limit shall be an error here, not SIGXFSZ. */
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 * 1024);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(thread, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc ? spur_fail(err, SPUR_ENOMEM, "the thread %s can't be started: %s", name, strerror(rc)) : 0;
}

/* ---- ops ---- */

static int not_running(const struct store *s, struct spur_error *err)
{
    if (s->is_running)
        return 0;
    return spur_fail(err, SPUR_ENOTLEADER, "store/raft: not started");
}

static int no_leader_here(struct store *s, struct spur_error *err)
{
    int rc;

    pthread_mutex_lock(&s->status_lock);
    if (s->failed.code)
        rc = spur_fail(err, SPUR_EIO, "%s", s->failed.text);
    else if (s->status.has_leader)
        rc = spur_fail(err, SPUR_ENOTLEADER, "%s leads", s->status.leader);
    else if (!s->status.voters)
        rc = spur_fail(err, SPUR_ENOTLEADER, "there is no group yet%s%s", *s->status.change ? ": " : "", s->status.change);
    else if (s->status.voters_reachable <= s->status.voters / 2)
        rc = spur_fail(err, SPUR_ENOTLEADER, "%u of %u controllers can be reached: nothing is decided without a majority", s->status.voters_reachable, s->status.voters);
    else
        rc = spur_fail(err, SPUR_ENOTLEADER, "a leader is being elected");
    pthread_mutex_unlock(&s->status_lock);
    return rc;
}

/* What is accepted must fit on the disk: an entry that the log has no room for would stand there for good. */
static int room_check(struct store *s, size_t n, struct spur_error *err)
{
    uint64_t bytes = wal_record_bytes(n) + 256, most = s->o.segment_bytes - WAL_HEADER_BYTES - 4096;
    bool has_others;
    int rc = 0;

    if (n > most)
        return spur_fail(err, SPUR_ELIMIT, "store/raft: an entry of %zu bytes is over the limit of %llu: raise segment_mib", n, (unsigned long long)most);
    if (s->own_bytes + bytes > QUEUE_BYTES && s->own)
        return spur_fail(err, SPUR_EBUSY, "store/raft: %llu MiB wait already: try again", (unsigned long long)(s->own_bytes / MIB));
    if (s->own_bytes + bytes <= atomic_load(&s->log_room))
        return 0;
    pthread_mutex_lock(&s->status_lock);
    has_others = s->status.voters > 1;
    pthread_mutex_unlock(&s->status_lock);
    pthread_mutex_lock(&s->room_lock);
    if (s->full.code == SPUR_ENOSPACE && has_others && boot_ms() - atomic_load(&s->cramped_ms) > CRAMPED_MS) {
        if (!atomic_exchange(&s->is_cramped, true))
            raft_wake(s->wake_fd);
        rc = spur_fail(err, SPUR_EBUSY, "%s", s->full.text);
    } else
        rc = s->full.code ? spur_fail(err, s->full.code, "%s", s->full.text) : spur_fail(err, SPUR_EBUSY, "store/raft: the next piece of the log is being made: try again");
    pthread_cond_signal(&s->room_wake);
    if (s->spares_wanted < 2)
        s->spares_wanted = 2;
    pthread_mutex_unlock(&s->room_lock);
    return rc;
}

static struct item *item_make(enum item_kind kind, const void *data, size_t n, struct spur_error *err)
{
    struct item *item = malloc(sizeof *item + n);

    if (!item) {
        spur_fail(err, SPUR_ENOMEM, "store/raft: out of memory for %zu bytes", n);
        return NULL;
    }
    memset(item, 0, sizeof *item);
    item->kind = kind;
    item->n = n;
    if (n)
        memcpy(item->data, data, n);
    return item;
}

static int store_propose(void *self, const void *data, size_t n, void *cookie, struct spur_error *err)
{
    struct store *s = self;
    struct item *item;
    int rc;

    if ((rc = not_running(s, err)) < 0)
        return rc;
    if (!atomic_load(&s->may_propose))
        return no_leader_here(s, err);
    if (s->is_stopping_ask)
        return spur_fail(err, SPUR_ECLOSED, "store/raft: is being stopped");
    if ((rc = room_check(s, n, err)) < 0)
        return rc;
    if (!(item = item_make(ITEM_ENTRY, data, n, err)))
        return SPUR_ENOMEM;
    item->cookie = cookie;
    own_add(s, item);
    if (raft_ask(s, item))
        return 0;
    own_remove(s, item);
    free(item);
    return spur_fail(err, SPUR_EBUSY, "store/raft: %u entries wait already: try again", ASKS);
}

static int store_barrier(void *self, void (*fn)(void *, const struct spur_error *), void *arg, struct spur_error *err)
{
    struct store *s = self;
    struct item *item;
    int rc;

    if ((rc = not_running(s, err)) < 0)
        return rc;
    if (!atomic_load(&s->may_propose))
        return no_leader_here(s, err);
    if (!(item = item_make(ITEM_BARRIER, NULL, 0, err)))
        return SPUR_ENOMEM;
    item->fn = fn;
    item->arg = arg;
    own_add(s, item);
    if (raft_ask(s, item))
        return 0;
    own_remove(s, item);
    free(item);
    return spur_fail(err, SPUR_EBUSY, "store/raft: too much waits already: try again");
}

static int store_snapshot(void *self, struct spur_error *err)
{
    struct store *s = self;
    int rc;

    if ((rc = not_running(s, err)) < 0)
        return rc;
    if (!SPUR_HAS(&s->events, snapshot_write))
        return spur_fail(err, SPUR_EUNSUPPORTED, "store/raft: this host writes no snapshots");
    if (s->is_snapshotting)
        return spur_fail(err, SPUR_EBUSY, "store/raft: a snapshot is being written");
    if (s->handed == s->snapshot_index)
        return 0;
    return raft_snapshot_take(s, err);
}

/* An administrator's word: checked here as far as the loop can see, carried out by consensus. */
static int change(struct store *s, enum item_kind kind, const char *name, const char *addr, bool is_voter, struct spur_error *err)
{
    struct item *item;
    int rc;

    if ((rc = not_running(s, err)) < 0)
        return rc;
    if (kind != ITEM_FORCE && kind != ITEM_RESIGN && !atomic_load(&s->may_propose))
        return no_leader_here(s, err);
    if (!(item = item_make(kind, NULL, 0, err)))
        return SPUR_ENOMEM;
    item->is_voter = is_voter;
    if ((size_t)snprintf(item->name, sizeof item->name, "%s", name ? name : "") >= sizeof item->name ||
        (size_t)snprintf(item->addr, sizeof item->addr, "%s", addr ? addr : "") >= sizeof item->addr - 8 || strpbrk(item->name, " \t\n") || strpbrk(item->addr, " \t\n"))
        rc = spur_fail(err, SPUR_EINVAL, "a name has at most 63 bytes, an address 119, and neither has spaces");
    else if (!raft_ask(s, item))
        rc = spur_fail(err, SPUR_EBUSY, "store/raft: too much waits already: try again");
    if (rc < 0)
        free(item);
    return rc;
}

/* The row of a member by name, -1: none. */
static int row_of(struct store *s, const char *name)
{
    int found = -1;

    pthread_mutex_lock(&s->status_lock);
    for (uint32_t i = 0; i < s->status.member_count && found < 0; i++)
        if (strcmp(s->members[i].name, name) == 0)
            found = (int)i;
    pthread_mutex_unlock(&s->status_lock);
    return found;
}

static int store_member_add(void *self, const char *name, const char *addr, bool voter, struct spur_error *err)
{
    struct store *s = self;
    char with_port[160];

    if (!name || !*name)
        return spur_fail(err, SPUR_EINVAL, "which controller shall be added?");
    if (!s->host->channels)
        return spur_fail(err, SPUR_EUNSUPPORTED, "this host has no way to other controllers");
    if (!addr || !*addr)
        addr = name;
    snprintf(with_port, sizeof with_port, strchr(addr, ':') ? "%s" : "%s:%u", addr, s->o.port);
    return change(s, ITEM_ADD, name, with_port, voter, err);
}

static int store_member_remove(void *self, const char *name, struct spur_error *err)
{
    struct store *s = self;

    if (!name || row_of(s, name) < 0)
        return spur_fail(err, SPUR_ENOTFOUND, "%s is no member of the group", name ? name : "");
    return change(s, ITEM_REMOVE, name, NULL, false, err);
}

static int store_transfer(void *self, const char *to, struct spur_error *err)
{
    struct store *s = self;
    bool is_voter = true;
    int row;

    if (to && *to) {
        if ((row = row_of(s, to)) < 0)
            return spur_fail(err, SPUR_ENOTFOUND, "%s is no member of the group", to);
        pthread_mutex_lock(&s->status_lock);
        is_voter = (uint32_t)row < s->status.member_count && s->members[row].voter;
        pthread_mutex_unlock(&s->status_lock);
        if (!is_voter)
            return spur_fail(err, SPUR_EINVAL, "%s is a learner: it cannot lead", to);
    }
    return change(s, ITEM_TRANSFER, to, NULL, false, err);
}

static int store_promote_force(void *self, struct spur_error *err)
{
    struct store *s = self;
    bool has_leader;

    pthread_mutex_lock(&s->status_lock);
    has_leader = s->status.has_leader;
    pthread_mutex_unlock(&s->status_lock);
    if (has_leader)
        return spur_fail(err, SPUR_EBUSY, "there is a leader: `spur controller transfer` is the way");
    return change(s, ITEM_FORCE, NULL, NULL, false, err);
}

static int store_resign(void *self, struct spur_error *err)
{
    struct store *s = self;

    return s->is_running ? change(s, ITEM_RESIGN, NULL, NULL, false, err) : 0;
}

static void store_status(void *self, struct spur_store_status *out)
{
    struct store *s = self;
    struct spur_store_status st;
    uint32_t size = out->size, count;
    int64_t now = boot_ms(), fresh;

    pthread_mutex_lock(&s->status_lock);
    st = s->status;
    st.role = s->failed.code ? SPUR_STORE_FAILED : s->role;
    pthread_mutex_unlock(&s->status_lock);
    if (st.role == SPUR_STORE_LEADER) {
        /* What the loop has been told is newer than consensus' last picture. */
        if (s->fence > st.fence)
            st.term = s->fence;
        st.has_leader = true;
        snprintf(st.leader, sizeof st.leader, "%s", s->name);
        snprintf(st.leader_addr, sizeof st.leader_addr, "%s", s->addr);
    }
    st.fence = s->fence;
    if (st.committed < s->handed)
        st.committed = s->handed;
    st.applied = s->handed;
    if (s->wal) {
        uint64_t durable = atomic_load(&s->durable);

        if (st.durable < durable)
            st.durable = durable;
        if (st.last_index < durable)
            st.last_index = durable;
        flush_times(s, &st.flush_p50_us, &st.flush_p99_us, &st.flush_max_us, now - 60000, &count);
        st.log_bytes = atomic_load(&s->log_bytes);
        st.log_limit = st.log_bytes + atomic_load(&s->log_room);
        st.disk_free = wal_folder_free(s->wal);
        pthread_mutex_lock(&s->room_lock);
        st.flushes = s->flushes;
        pthread_mutex_unlock(&s->room_lock);
    }
    st.snapshot_index = s->snapshot_index;
    st.entries = s->entries;
    st.barriers = atomic_load(&s->barrier_count);
    if (!st.member_count) {
        st.member_count = 1;            /* not founded: at least this one is there */
        st.voters = s->is_running ? 0 : 1;
    }
    fresh = atomic_load(&s->fresh_ms);
    st.age_ms = st.role == SPUR_STORE_LEADER && atomic_load(&s->lease_ms) > now ? 0 : fresh ? now - fresh : -1;
    memcpy(out, &st, size < sizeof st ? size : sizeof st);
    out->size = size;
}

static int store_member(void *self, uint32_t i, struct spur_store_member *out)
{
    struct store *s = self;
    int rc = 0;

    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&s->status_lock);
    if (i < s->status.member_count)
        *out = s->members[i];
    else
        rc = SPUR_ENOTFOUND;
    pthread_mutex_unlock(&s->status_lock);
    if (rc < 0 && i == 0) {
        snprintf(out->name, sizeof out->name, "%s", s->name);
        snprintf(out->addr, sizeof out->addr, "%s", s->addr);
        out->role = SPUR_STORE_STARTING;
        out->reachable = out->is_self = true;
        rc = 0;
    }
    return rc;
}

/* ---- start ---- */

static int memory_make(struct store *s, struct spur_error *err)
{
    if (!ring_init(&s->asks, ASKS) || !ring_init(&s->done, ASKS) || !ring_init(&s->orders, 1024) || !(s->input = malloc(INPUT_BYTES)))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->writer_fd = eventfd(0, EFD_CLOEXEC);
    if (s->wake_fd < 0 || s->writer_fd < 0)
        return spur_fail(err, SPUR_EIO, "eventfd: %s", strerror(errno));
    return 0;
}

static void memory_free(struct store *s)
{
    ring_fini(&s->asks);
    ring_fini(&s->done);
    ring_fini(&s->orders);
    free(s->input);
    s->input = NULL;
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    if (s->writer_fd >= 0)
        close(s->writer_fd);
    s->wake_fd = s->writer_fd = -1;
}

static void reset(struct store *s)
{
    s->done_first = NULL;
    s->done_end = &s->done_first;
    s->orders_first = NULL;
    s->orders_end = &s->orders_first;
    s->jobs = (struct job_list){ NULL, &s->jobs.first };
    s->jobs_done = (struct job_list){ NULL, &s->jobs_done.first };
    s->held = NULL;
    s->held_end = &s->held;
    s->barriers = s->reads = s->late = s->own = NULL;
    s->lines = NULL;
    s->delayed = NULL;
    s->start_ms = s->full_ms = s->slow_since_ms = boot_ms();
    s->core_role = RAFT_FOLLOWER;
    s->core_leader = RAFT_NOBODY;
    s->is_leader_told = s->is_snapshotting = s->is_stopping_ask = false;
    s->own_bytes = s->write_done = s->done_bytes = s->done_put = s->flushes = s->entries = 0;
    s->own_entries = s->meetings_open = 0;
    s->house_ms = s->info_ms = s->status_ms = s->wanted_until_ms = s->seen_commit = 0;
    s->change[0] = '\0';
    s->told_role = s->role = SPUR_STORE_STARTING;
    s->told_fence = 0;
    memset(&s->failed, 0, sizeof s->failed);
    memset(&s->full, 0, sizeof s->full);
    memset(&s->status, 0, sizeof s->status);
    atomic_store(&s->may_propose, 0);
    atomic_store(&s->written, 0);
    atomic_store(&s->done_taken, 0);
    atomic_store(&s->fresh_ms, 0);
    atomic_store(&s->lease_ms, 0);
    atomic_store(&s->is_stopping, false);
    atomic_store(&s->writer_stops, false);
    atomic_store(&s->is_full, false);
    atomic_store(&s->is_cramped, false);
    atomic_store(&s->cramped_ms, -(long long)CRAMPED_MS);
    atomic_store(&s->loop_seen_ms, boot_ms());
    s->files_stop = s->room_stops = false;
}

static int core_make(struct store *s, const struct raft_restored *restored, struct spur_error *err)
{
    struct raft_config c = { .self = s->id, .heartbeat_ms = s->o.heartbeat_ms, .election_min_ms = s->o.election_min_ms, .election_max_ms = s->o.election_max_ms,
                             .drift_ms = s->o.election_min_ms / 10, .append_bytes_max = 1u << 20, .append_entries_max = 1024, .window_messages = 16,
                             .cache_bytes = 16u << 20 };

    if (getrandom(&c.seed, sizeof c.seed, 0) != (ssize_t)sizeof c.seed)
        return spur_fail(err, SPUR_EIO, "the system gives no random bytes");
    s->core = raft_create(&c, restored);
    s->handed_out = s->handed;
    s->snapshot_known = s->snapshot_index;
    atomic_store(&s->applied, s->handed);
    for (uint32_t i = 0; i < s->config.count; i++) {
        struct host *h = raft_group_host_add(s, s->config.rows[i].name, s->config.rows[i].addr);

        if (h && !h->is_self)
            h->id = s->config.rows[i].id;
    }
    raft_group_host(s, s->name)->id = s->id;
    return 0;
}

static void threads_stop(struct store *s, int running)
{
    atomic_store(&s->is_stopping, true);
    if (running > 3) {
        raft_wake(s->wake_fd);
        pthread_join(s->consensus, NULL);
    }
    if (s->host->channels && running > 3)
        meet_stop(s);
    atomic_store(&s->writer_stops, true);
    if (running > 2) {
        raft_wake(s->writer_fd);
        pthread_mutex_lock(&s->room_lock);
        pthread_cond_broadcast(&s->spare_made);
        pthread_mutex_unlock(&s->room_lock);
        pthread_join(s->writer, NULL);
    }
    if (running > 1) {
        pthread_mutex_lock(&s->jobs_lock);
        s->files_stop = true;
        pthread_cond_signal(&s->jobs_wake);
        pthread_mutex_unlock(&s->jobs_lock);
        pthread_join(s->files, NULL);
    }
    if (running > 0) {
        pthread_mutex_lock(&s->room_lock);
        s->room_stops = true;
        pthread_cond_signal(&s->room_wake);
        pthread_mutex_unlock(&s->room_lock);
        pthread_join(s->room, NULL);
    }
}

static int threads_start(struct store *s, struct spur_error *err)
{
    int rc;

    if ((rc = raft_thread(&s->room, room_main, s, "room", err)) < 0)
        return rc;
    if ((rc = raft_thread(&s->files, files_main, s, "files", err)) < 0) {
        threads_stop(s, 1);
        return rc;
    }
    if ((rc = raft_thread(&s->writer, writer_main, s, "writer", err)) < 0) {
        threads_stop(s, 2);
        return rc;
    }
    if ((rc = raft_thread(&s->consensus, consensus_main, s, "consensus", err)) < 0)
        threads_stop(s, 3);
    return rc;
}

static int store_start(void *self, const struct spur_store_events *events, struct spur_error *err)
{
    struct store *s = self;
    struct raft_restored restored = { 0 };
    int rc;

    if (s->is_started)
        return spur_fail(err, SPUR_EINVAL, "store/raft: started already");
    memset(&s->events, 0, sizeof s->events);
    memcpy(&s->events, events, events->size < sizeof s->events ? events->size : sizeof s->events);
    if (!s->events.committed || !s->events.dropped)
        return spur_fail(err, SPUR_EINVAL, "store/raft: the host gives no `committed` or `dropped` event");
    snapfork_prepare();
    snprintf(s->name, sizeof s->name, "%s", s->host->host_name(s->host->ctx));
    if (!*s->name)
        snprintf(s->name, sizeof s->name, "this");
    reset(s);
    raft_group_hosts(s);
    if (s->listed_count > 1 && !s->host->channels)
        return spur_fail(err, SPUR_EUNSUPPORTED, "store/raft: this host offers no channels to the other %u controllers", s->listed_count - 1);
    if ((rc = memory_make(s, err)) < 0 || (rc = raft_replay(s, &restored, err)) < 0)
        goto fail;
    if (s->host->channels && (rc = lines_listen(s, err)) < 0)
        goto fail;
    room_publish(s);
    if ((rc = core_make(s, &restored, err)) < 0 || (rc = threads_start(s, err)) < 0)
        goto fail;
    raft_replay_free(&restored);
    s->is_started = s->is_running = true;
    return 0;
fail:
    raft_replay_free(&restored);
    raft_destroy(s->core);
    s->core = NULL;
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    s->listen_fd = -1;
    wal_close(s->wal);
    s->wal = NULL;
    memory_free(s);
    return rc;
}

/* ---- stop ---- */

/* Turns what comes while waiting for something, a little at a time. */
static void settle(struct store *s)
{
    int64_t until = boot_ms() + STOP_MS;
    struct spur_error err;

    if (s->role == SPUR_STORE_LEADER && s->handed_members.count > 1)
        store_resign(s, &err);
    s->is_stopping_ask = true;
    while (!s->failed.code && boot_ms() < until &&
           (s->own_entries || (s->role == SPUR_STORE_LEADER && s->handed_members.count > 1 && boot_ms() < until - STOP_MS + 500))) {
        if (s->role != SPUR_STORE_LEADER && boot_ms() > until - STOP_MS + 500)
            break;              /* another leads: he may have them or not */
        raft_deliver(s);
        poll(NULL, 0, 1);
    }
}

static void items_free(struct item *list)
{
    while (list) {
        struct item *next = list->next;

        if (!list->is_own) {
            free(list->members);
            free(list);
        }
        list = next;
    }
}

/* Whatever got stuck between the threads: what the loop has asked is answered by its own list, the rest is only freed. */
static void leftovers(struct store *s)
{
    struct spur_error why = { 0 };
    struct order *o;
    struct item *item;

    if (s->failed.code)
        why = s->failed;
    else
        spur_fail(&why, SPUR_ESTALE, "store/raft has stopped: the group may or may not keep this entry");
    while ((item = ring_take(&s->asks)))
        if (!item->is_own) {
            free(item->members);
            free(item);
        }
    items_free(s->done_first);
    items_free(s->late);
    s->done_first = s->late = NULL;
    s->done_end = &s->done_first;
    while (s->own) {
        item = s->own;
        own_remove(s, item);
        if (item->kind == ITEM_ENTRY)
            s->events.dropped(s->events.arg, item->cookie, &why);
        else
            item->fn(item->arg, &why);
        free(item);
    }
    while ((o = ring_take(&s->orders)))
        free(o);
    while ((o = s->orders_first)) {
        s->orders_first = o->next;
        free(o);
    }
    while (s->delayed) {
        struct job *j = s->delayed;

        s->delayed = j->next;
        raft_job_free(j);
    }
    for (struct job_list *l = &s->jobs; l; l = l == &s->jobs ? &s->jobs_done : NULL)
        while (l->first) {
            struct job *j = l->first;

            l->first = j->next;
            if (j->kind == JOB_PUBLISH && l == &s->jobs) {
                if (j->is_forked)
                    snapfork_kill(&j->fork);
                snapfile_discard(j->writer);
                free(j->writer);
            }
            raft_job_free(j);
        }
}

/* The log says how far it is committed, and a short log is made shorter still. */
static void last_words(struct store *s)
{
    struct spur_error err = { 0 };
    struct snapfile_writer *w;
    struct spur_store_sink sink;
    uint8_t extra[SNAPFILE_EXTRA];
    uint64_t keep;

    if (s->failed.code || s->wal->is_broken || atomic_load(&s->is_full))
        return;
    if (s->handed > s->commit_noted && wal_record_bytes(0) <= wal_room(s->wal) &&
        wal_add(s->wal, &(struct wal_record){ .type = WAL_COMMIT, .term = s->term_noted, .index = s->handed }) == 0 && wal_flush(s->wal, &err) < 0)
        raft_say(s, SPUR_LOG_WARN, "%s", err.text);
    if (!SPUR_HAS(&s->events, snapshot_write) || s->since_snapshot < STOP_SNAPSHOT || s->snapshot_size > STOP_CHEAP || s->handed == s->snapshot_index ||
        s->is_snapshotting || !(w = calloc(1, sizeof *w)))
        return;
    sink = (struct spur_store_sink){ .arg = w, .write = snapfile_write };
    if (snapfile_begin(w, s->wal->folder, s->path, s->wal->config.io, s->wal->super.id, s->handed, &err) < 0 ||
        snapfile_stamp(w, s->handed_term, extra, raft_members_pack(&s->handed_members, extra, sizeof extra), &err) < 0 ||
        s->events.snapshot_write(s->events.arg, &sink, &err) < 0 || snapfile_end(w, &err) < 0) {
        raft_say(s, SPUR_LOG_WARN, "%s", err.text);
        snapfile_discard(w);
    } else if (snapfile_publish(w, &err) < 0) {
        raft_say(s, SPUR_LOG_WARN, "%s", err.text);
    } else if ((keep = snapfile_trim(s->wal->folder, s->wal->config.io, 2)) > 0 && wal_cut(s->wal, keep, &err) < 0) {
        raft_say(s, SPUR_LOG_WARN, "%s", err.text);
    }
    free(w);
}

static void store_stop(void *self)
{
    struct store *s = self;

    if (!s->is_started)
        return;
    settle(s);
    s->is_running = false;
    threads_stop(s, 4);
    lines_close(s);
    raft_deliver(s);
    leftovers(s);
    raft_destroy(s->core);
    s->core = NULL;
    last_words(s);
    wal_close(s->wal);
    s->wal = NULL;
    memory_free(s);
    s->is_started = false;
    s->role = SPUR_STORE_STARTING;
}

/* ---- the plugin ---- */

static void store_close(void *self)
{
    struct store *s = self;

    if (!s)
        return;
    store_stop(s);
    if (s->door) {
        s->door->self = NULL;
        if (!s->door->pending)
            free(s->door);
    }
    pthread_cond_destroy(&s->meet_over);
    pthread_cond_destroy(&s->room_wake);
    pthread_cond_destroy(&s->spare_made);
    pthread_cond_destroy(&s->jobs_wake);
    pthread_mutex_destroy(&s->door_lock);
    pthread_mutex_destroy(&s->status_lock);
    pthread_mutex_destroy(&s->meet_lock);
    pthread_mutex_destroy(&s->room_lock);
    pthread_mutex_destroy(&s->jobs_lock);
    pthread_mutex_destroy(&s->roster_lock);
    free(s->o.recover_at);
    free(s->path);
    free(s);
}

int store_raft_create(const struct spur_host *host, const char *path, const struct raft_options *o, void **self, struct spur_error *err)
{
    struct store *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;

    if (!s || !(s->path = strdup(path)) || !(s->door = calloc(1, sizeof *s->door))) {
        if (s)
            free(s->path);
        free(s);
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    }
    s->host = host;
    s->o = *o;
    s->o.recover_at = o->recover_at ? strdup(o->recover_at) : NULL;
    s->wake_fd = s->writer_fd = s->listen_fd = -1;
    s->door->self = s;
    pthread_mutex_init(&s->door_lock, NULL);
    pthread_mutex_init(&s->status_lock, NULL);
    pthread_mutex_init(&s->meet_lock, NULL);
    pthread_mutex_init(&s->room_lock, NULL);
    pthread_mutex_init(&s->jobs_lock, NULL);
    pthread_mutex_init(&s->roster_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->meet_over, &attr);
    pthread_cond_init(&s->room_wake, &attr);
    pthread_cond_init(&s->spare_made, &attr);
    pthread_cond_init(&s->jobs_wake, &attr);
    pthread_condattr_destroy(&attr);
    *self = s;
    return 0;
}

static int times_read(const struct spur_host *host, const struct spur_conf *conf, struct raft_options *o, struct spur_error *err)
{
    const char *profile = host->conf_text(conf, "profile");
    bool is_wan = strcmp(profile, "wan") == 0;
    long heartbeat = host->conf_int(conf, "heartbeat"), election = host->conf_int(conf, "election"), watchdog = host->conf_int(conf, "watchdog");

    if (!is_wan && *profile && strcmp(profile, "lan") != 0)
        return spur_fail(err, SPUR_EINVAL, "profile = %s: lan or wan", profile);
    if (!heartbeat)
        heartbeat = is_wan ? 250 : 50;
    if (!election)
        election = is_wan ? 1500 : 250;
    if (heartbeat < 10 || heartbeat > 10000)
        return spur_fail(err, SPUR_EINVAL, "heartbeat = %ld ms: must lie between 10 ms and 10 s", heartbeat);
    if (election < 3 * heartbeat || election > 60000)
        return spur_fail(err, SPUR_EINVAL, "election = %ld ms: must be at least three heartbeats (%ld ms) and at most 60 s", election, 3 * heartbeat);
    if (watchdog && (watchdog < 500 || watchdog > 600000))
        return spur_fail(err, SPUR_EINVAL, "watchdog = %ld ms: 0, or between 500 ms and 10 min", watchdog);
    o->heartbeat_ms = (uint32_t)heartbeat;
    o->election_min_ms = (uint32_t)election;
    o->election_max_ms = 2 * (uint32_t)election;
    o->watchdog_ms = (uint32_t)watchdog;
    return 0;
}

static int options_read(const struct spur_host *host, const struct spur_conf *conf, struct raft_options *o, struct spur_error *err)
{
    long port = host->conf_int(conf, "port"), segment = host->conf_int(conf, "segment_mib"), snapshot = host->conf_int(conf, "snapshot_mib"),
         rate = host->conf_int(conf, "snapshot_rate_mib");
    const char *base = SPUR_HAS(host, config) ? host->config(host->ctx, "SlurmctldPort") : NULL;

    if (!port)
        port = (base && *base ? strtol(base, NULL, 10) : 6817) + 4;
    if (port < 1 || port > 65535)
        return spur_fail(err, SPUR_EINVAL, "port = %ld: must lie between 1 and 65535", port);
    if (segment < 1 || segment > 1024)
        return spur_fail(err, SPUR_EINVAL, "segment_mib = %ld: must lie between 1 and 1024", segment);
    if (snapshot < 1 || snapshot > 1 << 20)
        return spur_fail(err, SPUR_EINVAL, "snapshot_mib = %ld: must lie between 1 and 1048576", snapshot);
    if (rate < 1 || rate > 100000)
        return spur_fail(err, SPUR_EINVAL, "snapshot_rate_mib = %ld: must lie between 1 and 100000", rate);
    o->port = (uint32_t)port;
    o->segment_bytes = (uint64_t)segment * MIB;
    o->snapshot_bytes = (uint64_t)snapshot * MIB;
    o->snapshot_rate = (uint64_t)rate * MIB;
    o->is_synced = host->conf_int(conf, "fsync") != 0;
    o->allow_network_fs = host->conf_int(conf, "allow_network_fs") != 0;
    o->may_leave_slow_disk = host->conf_int(conf, "leave_slow_disk") != 0;
    o->recover_at = (char *)host->conf_text(conf, "recover_at");
    return times_read(host, conf, o, err);
}

static int store_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    const char *path = SPUR_HAS(host, state_dir) ? host->state_dir(host->ctx) : NULL;
    struct raft_options o = { 0 };
    int rc;

    if (!SPUR_HAS(host, post))
        return spur_fail(err, SPUR_EINVAL, "needs a host with a loop");
    if (!path || !*path)
        return spur_fail(err, SPUR_EINVAL, "the host names no folder for the log: set StateSaveLocation");
    if (sodium_init() < 0)
        return spur_fail(err, SPUR_EIO, "libsodium can't be initialised");
    if ((rc = options_read(host, conf, &o, err)) < 0)
        return rc;
    return store_raft_create(host, path, &o, self, err);
}

static int store_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    struct store *s = self;
    struct raft_options o = { 0 };
    const char *now = s->o.recover_at ? s->o.recover_at : "";
    int rc = options_read(s->host, conf, &o, err);

    if (rc < 0)
        return rc;
    if (o.port != s->o.port || o.segment_bytes != s->o.segment_bytes || o.is_synced != s->o.is_synced || o.heartbeat_ms != s->o.heartbeat_ms ||
        o.election_min_ms != s->o.election_min_ms || o.watchdog_ms != s->o.watchdog_ms || o.snapshot_rate != s->o.snapshot_rate ||
        o.may_leave_slow_disk != s->o.may_leave_slow_disk || o.allow_network_fs != s->o.allow_network_fs || strcmp(o.recover_at ? o.recover_at : "", now) != 0)
        return spur_fail(err, SPUR_ERESTART, "all options but snapshot_mib count from the next start on");
    s->o.snapshot_bytes = o.snapshot_bytes;
    return 0;
}

static const struct spur_option store_options[] = {
    { "port",         SPUR_INT,  "0",    "where the controllers talk to each other; 0: SlurmctldPort + 4" },
    { "profile",      SPUR_STRING, "lan", "lan: heartbeat 50 ms, election 250 ms; wan: 250 ms and 1500 ms" },
    { "heartbeat",    SPUR_DURATION_MS, NULL, "how often the leader is heard of; default by profile" },
    { "election",     SPUR_DURATION_MS, NULL, "a follower waits so long for the leader, up to twice as much, then asks for votes; default by profile" },
    { "watchdog",     SPUR_DURATION_MS, "2s", "a leader whose controller stands still for so long gives the leadership up; 0: never" },
    { "leave_slow_disk", SPUR_BOOL, "true", "a leader whose disk is much slower than the others' hands over" },
    { "segment_mib",  SPUR_INT,  "64",   "size of one piece of the log, allocated ahead (MiB)" },
    { "snapshot_mib", SPUR_INT,  "256",  "log written since the last snapshot that makes a new one due (MiB); never less than that snapshot's size" },
    { "snapshot_rate_mib", SPUR_INT, "100", "a member that is far behind gets a snapshot at so many MiB a second" },
    { "fsync",        SPUR_BOOL, "true", "wait for the disk before an answer; false only for tests: a power cut then loses acknowledged jobs" },
    { "allow_network_fs", SPUR_BOOL, "false", "take a folder on NFS, Lustre, GPFS and the like, which nobody else may have mounted" },
    { "recover_at",   SPUR_STRING, NULL, "of a single controller without a backup: cut a damaged log at FILE:OFFSET, as the refusal names it; all entries behind it are lost" },
    { NULL, 0, NULL, NULL } };

const struct spur_store_ops store_raft_ops = {
    .size = sizeof store_raft_ops, .start = store_start, .propose = store_propose, .barrier = store_barrier, .snapshot = store_snapshot, .status = store_status,
    .member = store_member, .member_add = store_member_add, .member_remove = store_member_remove, .transfer = store_transfer, .stop = store_stop,
    .promote_force = store_promote_force, .resign = store_resign,
};

SPUR_PLUGIN(store, raft, .about = "a log that several controllers keep together: nothing acknowledged is lost with one of them", .caps = SPUR_CAP_REPLICATED,
            .options = store_options, .ops = &store_raft_ops, .open = store_open, .reload = store_reload, .close = store_close);
