/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - store/local: the log of one controller in a folder of its disk.
 *
 * Three threads. The loop's calls propose, hears the results and forks for snapshots (local_snapshot.c). `log` owns the log after start: it takes what
 * was proposed while the last flush ran and makes it durable in one write and one fdatasync, so one client waits for one flush and
 * a thousand clients share one. `room` makes spare segments ahead, waits for the child that writes a snapshot and puts it in place: all that may take
 * long. Results go back in one list, in order, by host->post.
 *
 * Full disk: propose is refused as soon as the entry does not surely fit in what is allocated, so nothing accepted is lost later;
 * `room` tries again each second and the refusals end by themselves. A flush that the disk does not confirm ends the store at
 * once (SPUR_STORE_FAILED): whether those bytes survive, nobody can know by asking again.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <spur/store.h>

#include "local_inside.h"
#include "wal_format.h"

#define BATCH_BYTES     (1u << 20)
#define BATCH_ENTRIES   4096u
#define QUEUE_BYTES     (64u << 20)         /* more than this not yet written: EBUSY */
#define RETRY_MS        1000
#define MIB             (UINT64_C(1) << 20)

static void list_init(struct item_list *l) { l->first = NULL; l->end = &l->first; }

void local_list_add(struct item_list *l, struct item *item)
{
    item->next = NULL;
    *l->end = item;
    l->end = &item->next;
}

static struct item *list_take(struct item_list *l)
{
    struct item *item = l->first;

    if (item && !(l->first = item->next))
        l->end = &l->first;
    return item;
}

void local_say(const struct local *s, int level, const char *text)
{
    s->host->log(s->host->ctx, level, text);
}

static void wal_says(void *arg, int level, const char *text) { local_say(arg, level, text); }

static void deliver(struct local *s);

static void door_opened(void *arg)
{
    struct local_door *door = arg;

    if (!door->self) {                      /* closed meanwhile */
        if (--door->pending == 0)
            free(door);
        return;
    }
    pthread_mutex_lock(&door->self->lock);
    door->pending--;
    door->self->is_posted = false;
    pthread_mutex_unlock(&door->self->lock);
    deliver(door->self);
}

/* With the lock held: the loop shall look at `done`. */
void local_ring(struct local *s)
{
    if (s->is_posted)
        return;
    s->is_posted = true;
    s->door->pending++;
    s->host->post(s->host->ctx, door_opened, s->door);
}

/* ---- the log thread ---- */

static void fail_all(struct local *s, struct item_list *batch, const struct spur_error *why)
{
    struct item *role = calloc(1, sizeof *role), *item;

    pthread_mutex_lock(&s->lock);
    s->failed = *why;
    if (role) {
        role->kind = ITEM_ROLE;
        role->why = *why;
        local_list_add(&s->done, role);
    }
    /* Their bytes may be on the disk: a later start may find them committed. */
    while ((item = list_take(batch))) {
        item->code = spur_fail(&item->why, SPUR_ESTALE, "not known whether it is kept: %s", why->text);
        local_list_add(&s->done, item);
    }
    while ((item = list_take(&s->queue))) {
        item->code = SPUR_EIO;
        item->why = *why;
        local_list_add(&s->done, item);
    }
    s->queue_bytes = s->queue_count = s->flushing_bytes = 0;
    local_ring(s);
    pthread_mutex_unlock(&s->lock);
}

static void drop(struct local *s, struct item_list *batch, const struct spur_error *why)
{
    struct item *item;

    pthread_mutex_lock(&s->lock);
    while ((item = list_take(batch))) {
        item->code = why->code;
        item->why = *why;
        local_list_add(&s->done, item);
    }
    s->flushing_bytes = 0;
    local_ring(s);
    pthread_mutex_unlock(&s->lock);
}

/* Room for the batch in the last segment, waiting for a spare that is being made. */
static int room_find(struct local *s, uint64_t bytes, struct spur_error *err)
{
    uint64_t tries;

    if (bytes <= wal_room(s->wal))
        return 0;
    pthread_mutex_lock(&s->lock);
    tries = s->room_tries;
    if (s->spares_wanted < 2)
        s->spares_wanted = 2;
    while (wal_spares(s->wal) == 0) {
        pthread_cond_signal(&s->room_wake);
        pthread_cond_wait(&s->spare_made, &s->lock);
        if (s->full.code && s->room_tries > tries && wal_spares(s->wal) == 0) {
            *err = s->full;
            pthread_mutex_unlock(&s->lock);
            return err->code;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return wal_roll(s->wal, err);
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Takes the next batch off the queue. Lock held. */
static uint64_t batch_take(struct local *s, struct item_list *batch)
{
    uint64_t bytes = 0, count = 0, most = wal_record_bytes(wal_record_max(s->wal));

    if (most > BATCH_BYTES)
        most = BATCH_BYTES;
    /* To the end of this piece of the log, then into the next: nothing is left unused but less than one entry. */
    if (s->queue.first && wal_record_bytes(s->queue.first->n) <= s->room && most > s->room)
        most = s->room;
    list_init(batch);
    while (s->queue.first && count < BATCH_ENTRIES) {
        uint64_t more = wal_record_bytes(s->queue.first->n);

        if (count && bytes + more > most)
            break;
        local_list_add(batch, list_take(&s->queue));
        bytes += more;
        count++;
    }
    s->queue_count -= count;
    s->queue_bytes -= bytes + count * WAL_FLUSH_BYTES;
    s->flushing_bytes = bytes;
    return bytes;
}

static void publish_state(struct local *s)
{
    s->room = wal_room(s->wal);
    s->log_bytes = wal_bytes(s->wal);
    s->durable = s->wal->last_index;
    /* A fresh store makes its first spare when it is used in earnest: a trial on a laptop never pays for it. */
    s->spares_wanted = s->wal->count > 1 || s->wal->segments[0].sequence > 1 ? 2 : s->log_bytes > s->wal->config.segment_bytes / 4 ? 1 : 0;
    if (wal_spares(s->wal) < s->spares_wanted)
        pthread_cond_signal(&s->room_wake);
}

static int batch_write(struct local *s, struct item_list *batch, uint64_t bytes, bool *is_fatal, struct spur_error *err)
{
    uint64_t index = s->wal->last_index;
    int64_t start;
    uint32_t count = 0;
    int rc;

    *is_fatal = false;
    if ((rc = room_find(s, bytes, err)) < 0) {
        *is_fatal = s->wal->is_broken;          /* else nothing was touched: no room, or no descriptor for it */
        return rc;
    }
    for (struct item *item = batch->first; item; item = item->next) {
        item->index = ++index;
        count++;
        if (wal_add(s->wal, &(struct wal_record){ .type = WAL_ENTRY, .term = s->fence, .index = item->index, .data = item->data, .n = item->n }) < 0) {
            *is_fatal = true;               /* a part of the batch is in the buffer already; out of memory is no state to go on from */
            return spur_fail(err, SPUR_ENOMEM, "%s: out of memory for %zu bytes of log", s->path, item->n);
        }
    }
    start = now_us();
    rc = wal_flush(s->wal, err);
    if (rc < 0) {
        *is_fatal = s->wal->is_broken;
        return rc;
    }
    start = now_us() - start;
    pthread_mutex_lock(&s->lock);
    s->times[s->flushes % FLUSH_TIMES].at_ms = s->host->now_ms(s->host->ctx);
    s->times[s->flushes % FLUSH_TIMES].us = start > UINT32_MAX ? UINT32_MAX : (uint32_t)start;
    s->flushes++;
    s->entries += count;
    *s->done.end = batch->first;            /* the whole list at once: the order is kept */
    s->done.end = batch->end;
    list_init(batch);
    s->flushing_bytes = 0;
    publish_state(s);
    local_ring(s);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static void log_cut(struct local *s)
{
    struct spur_error err = { 0 };
    uint64_t index = s->cut_index;

    s->cut_index = 0;
    pthread_mutex_unlock(&s->lock);
    if (wal_cut(s->wal, index, &err) < 0)
        local_say(s, SPUR_LOG_WARN, err.text);
    pthread_mutex_lock(&s->lock);
    publish_state(s);
}

static void *log_main(void *arg)
{
    struct local *s = arg;
    struct item_list batch;
    struct spur_error err;
    bool is_fatal;

    pthread_mutex_lock(&s->lock);
    while (!s->failed.code) {
        uint64_t bytes;

        if (s->cut_index)
            log_cut(s);
        if (!s->queue.first) {
            if (s->is_stopping)
                break;
            pthread_cond_wait(&s->log_wake, &s->lock);
            continue;
        }
        bytes = batch_take(s, &batch);
        pthread_mutex_unlock(&s->lock);
        memset(&err, 0, sizeof err);
        if (batch_write(s, &batch, bytes, &is_fatal, &err) < 0) {
            if (is_fatal)
                fail_all(s, &batch, &err);
            else
                drop(s, &batch, &err);
        }
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the room thread ---- */

static void spare_try(struct local *s, unsigned wanted)
{
    struct spur_error err = { 0 };
    int rc = wal_spare_make(s->wal, wanted, &err);

    pthread_mutex_lock(&s->lock);
    s->room_tries++;
    if (rc < 0 && !s->full.code) {
        char text[300];

        snprintf(text, sizeof text, "%s; %s", err.text, wal_spares(s->wal) ? "the log goes on in its reserve" : "entries are refused when the last piece is full");
        local_say(s, SPUR_LOG_ERROR, text);
    }
    if (rc >= 0 && s->full.code)
        local_say(s, SPUR_LOG_INFO, "there is space for the log again");
    s->full = err;
    if (rc < 0)
        s->full.code = rc;
    pthread_cond_broadcast(&s->spare_made);
    pthread_mutex_unlock(&s->lock);
}

static void *room_main(void *arg)
{
    struct local *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->is_room_stopping || s->publishing || s->is_forked) {
        if (s->is_forked && (s->is_room_stopping || wal_spares(s->wal) >= s->spares_wanted || s->full.code)) {
            pthread_mutex_unlock(&s->lock);
            local_snapshot_look(s);
            pthread_mutex_lock(&s->lock);
        } else if (s->publishing) {
            struct snapfile_writer *w = s->publishing;

            pthread_mutex_unlock(&s->lock);
            local_snapshot_publish(s, w);
            pthread_mutex_lock(&s->lock);
        } else if (wal_spares(s->wal) < s->spares_wanted) {
            unsigned wanted = s->spares_wanted;

            pthread_mutex_unlock(&s->lock);
            spare_try(s, wanted);
            pthread_mutex_lock(&s->lock);
            if (s->full.code && !s->is_room_stopping && !s->publishing && !s->is_forked) {
                struct timespec until;

                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec += RETRY_MS / 1000;
                pthread_cond_timedwait(&s->room_wake, &s->lock, &until);
            }
        } else {
            pthread_cond_wait(&s->room_wake, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the loop's thread ---- */

static void role_tell(struct local *s, enum spur_store_role role, const struct spur_error *err)
{
    s->role = role;
    if (s->events.role)
        s->events.role(s->events.arg, role, s->fence, role == SPUR_STORE_LEADER ? s->host->host_name(s->host->ctx) : NULL, err);
}

/* Hands out what is done, in order. */
static void deliver(struct local *s)
{
    struct item *item;

    if (s->is_delivering)                   /* a callback that calls stop: the outer call goes on with the list */
        return;
    s->is_delivering = true;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        item = list_take(&s->done);
        pthread_mutex_unlock(&s->lock);
        if (!item)
            break;
        switch (item->kind) {
        case ITEM_ENTRY:
            if (item->code < 0) {
                s->events.dropped(s->events.arg, item->cookie, &item->why);
                break;
            }
            s->committed = item->index;
            s->since_snapshot += wal_record_bytes(item->n);
            s->events.committed(s->events.arg, item->index, item->data, item->n, item->cookie);
            break;
        case ITEM_BARRIER:
            item->fn(item->arg, NULL);
            break;
        case ITEM_ROLE:
            role_tell(s, item->code < 0 || item->why.code ? SPUR_STORE_FAILED : SPUR_STORE_LEADER, item->why.code ? &item->why : NULL);
            break;
        case ITEM_SNAPSHOT:
            local_snapshot_done(s, item);
            break;
        }
        free(item);
    }
    s->is_delivering = false;
    local_snapshot_if_due(s);
    if (s->is_running && snapfork_tend()) {     /* a slice a turn */
        pthread_mutex_lock(&s->lock);
        local_ring(s);
        pthread_mutex_unlock(&s->lock);
    }
}

static int local_propose(void *self, const void *data, size_t n, void *cookie, struct spur_error *err)
{
    struct local *s = self;
    uint64_t bytes = wal_record_bytes(n) + WAL_FLUSH_BYTES, fits;
    struct item *item;
    int rc = 0;

    if (!s->is_running)
        return spur_fail(err, SPUR_ENOTLEADER, "store/local: not started");
    if (n > wal_record_max(s->wal))
        return spur_fail(err, SPUR_ELIMIT, "store/local: an entry of %zu bytes is over the limit of %llu: raise segment_mib", n,
                         (unsigned long long)wal_record_max(s->wal));
    if (!(item = malloc(sizeof *item + n)))
        return spur_fail(err, SPUR_ENOMEM, "store/local: out of memory for an entry of %zu bytes", n);
    memset(item, 0, sizeof *item);
    item->kind = ITEM_ENTRY;
    item->cookie = cookie;
    item->n = n;
    if (n)
        memcpy(item->data, data, n);
    pthread_mutex_lock(&s->lock);
    fits = s->room + wal_spares(s->wal) * wal_record_max(s->wal);
    if (s->failed.code) {
        rc = SPUR_EIO;
        if (err)
            *err = s->failed;
    } else if (s->is_stopping) {
        rc = spur_fail(err, SPUR_ECLOSED, "store/local: is being stopped");
    } else if (s->queue_bytes + bytes > QUEUE_BYTES && s->queue_bytes) {
        rc = spur_fail(err, SPUR_EBUSY, "store/local: %llu MiB wait for the disk already: try again", (unsigned long long)(s->queue_bytes / MIB));
    } else if (s->full.code && s->queue_bytes + s->flushing_bytes + bytes > fits) {
        rc = s->full.code;
        if (err)
            *err = s->full;
    } else {
        local_list_add(&s->queue, item);
        s->queue_bytes += bytes;
        s->queue_count++;
        item = NULL;
        pthread_cond_signal(&s->log_wake);
    }
    pthread_mutex_unlock(&s->lock);
    free(item);
    return rc;
}

static int local_barrier(void *self, void (*fn)(void *, const struct spur_error *), void *arg, struct spur_error *err)
{
    struct local *s = self;
    struct item *item;

    if (!s->is_running || s->failed.code)
        return spur_fail(err, SPUR_ENOTLEADER, "store/local: not running");
    if (!(item = calloc(1, sizeof *item)))
        return spur_fail(err, SPUR_ENOMEM, "store/local: out of memory");
    item->kind = ITEM_BARRIER;
    item->fn = fn;
    item->arg = arg;
    pthread_mutex_lock(&s->lock);
    local_list_add(&s->done, item);               /* behind all that is committed: one member, nobody else can have more */
    local_ring(s);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int us_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void local_status(void *self, struct spur_store_status *out)
{
    struct local *s = self;
    struct spur_store_status st = { .size = sizeof st, .member_count = 1 };
    uint32_t us[FLUSH_TIMES], n = 0, size = out->size;
    bool is_leader;
    int64_t now = s->host->now_ms(s->host->ctx);

    pthread_mutex_lock(&s->lock);
    st.role = s->failed.code ? SPUR_STORE_FAILED : s->role;
    is_leader = st.role == SPUR_STORE_LEADER;
    st.fence = st.term = s->fence;
    st.committed = st.applied = s->committed;
    st.durable = st.last_index = s->durable;
    st.voters = st.voters_reachable = 1;
    st.feature_min = s->events.feature;
    st.has_leader = is_leader;
    if (is_leader)
        snprintf(st.leader, sizeof st.leader, "%s", s->host->host_name(s->host->ctx));
    st.snapshot_index = s->snapshot_index;
    st.log_bytes = s->log_bytes;
    st.flushes = s->flushes;
    st.entries = s->entries;
    if (s->wal) {
        st.log_limit = s->log_bytes + s->room + wal_spares(s->wal) * wal_record_max(s->wal);
        st.disk_free = wal_folder_free(s->wal);
    }
    for (uint64_t i = 0; i < s->flushes && i < FLUSH_TIMES; i++)
        if (s->times[i].at_ms > now - 60000)
            us[n++] = s->times[i].us;
    pthread_mutex_unlock(&s->lock);
    if (n) {
        qsort(us, n, sizeof *us, us_compare);
        st.flush_p50_us = us[n / 2];
        st.flush_p99_us = us[n - 1 - n / 100];
        st.flush_max_us = us[n - 1];
    }
    memcpy(out, &st, size < sizeof st ? size : sizeof st);
    out->size = size;
}

static int local_member(void *self, uint32_t i, struct spur_store_member *out)
{
    struct local *s = self;

    if (i)
        return SPUR_ENOTFOUND;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", s->host->host_name(s->host->ctx));
    out->role = s->role;
    out->voter = out->reachable = out->is_self = true;
    out->index = s->committed;
    out->feature = s->events.feature;
    return 0;
}

/* ---- start and stop ---- */

static int replay_entry(void *arg, const struct wal_record *r, struct spur_error *err)
{
    struct local *s = arg;

    if (r->type != WAL_ENTRY)
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s: this folder belongs to a group of controllers: set StoreType=store/raft", s->path);
    if (r->index <= s->committed)
        return 0;
    if (r->index != s->committed + 1)
        return spur_fail(err, SPUR_ECORRUPT, "%s: entries %llu to %llu are missing between the snapshot and the log: bring the folder back from a backup",
                         s->path, (unsigned long long)s->committed + 1, (unsigned long long)r->index - 1);
    s->committed = r->index;
    s->since_snapshot += wal_record_bytes(r->n);
    s->events.committed(s->events.arg, r->index, r->data, r->n, NULL);
    return 0;
}

static int thread_start(pthread_t *thread, void *(*fn)(void *), struct local *s, const char *name, struct spur_error *err)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int rc;

    /* Signals are the loop's; and a write over a file size limit shall be an error here, not SIGXFSZ. */
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(thread, &attr, fn, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc)
        return spur_fail(err, SPUR_ENOMEM, "store/local: the thread %s can't be started: %s", name, strerror(rc));
    return 0;
}

static int local_start(void *self, const struct spur_store_events *events, struct spur_error *err)
{
    struct local *s = self;
    struct wal_config config = { .segment_bytes = s->segment_bytes, .is_synced = s->is_synced, .io = s->io,
                                 .recover_at = s->recover_at, .log = wal_says, .arg = s };
    struct item *role = NULL;
    int rc;

    if (s->is_started)
        return spur_fail(err, SPUR_EINVAL, "store/local: started already");
    memset(&s->events, 0, sizeof s->events);
    memcpy(&s->events, events, events->size < sizeof s->events ? events->size : sizeof s->events);
    if (!s->events.committed || !s->events.dropped)
        return spur_fail(err, SPUR_EINVAL, "store/local: the host gives no `committed` or `dropped` event");
    snapfork_prepare();
    s->committed = s->since_snapshot = s->snapshot_index = s->snapshot_size = s->snapshot_retry = 0;
    s->role = SPUR_STORE_STARTING;
    if ((rc = wal_open(&s->wal, s->path, &config, err)) < 0)
        goto fail;
    if ((rc = local_snapshot_load(s, err)) < 0 || (rc = wal_replay(s->wal, replay_entry, s, err)) < 0)
        goto fail;
    if (s->wal->last_index < s->committed) {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s: the log ends at entry %llu, the snapshot is of entry %llu: bring the folder back from a backup", s->path,
                       (unsigned long long)s->wal->last_index, (unsigned long long)s->committed);
        goto fail;
    }
    if (wal_first_index(s->wal) > s->committed + 1) {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s: the log begins at entry %llu, but the state ends at entry %llu: bring the folder back from a backup", s->path,
                       (unsigned long long)wal_first_index(s->wal), (unsigned long long)s->committed);
        goto fail;
    }
    if ((rc = wal_fence(s->wal, &s->fence, err)) < 0)
        goto fail;
    if (!(role = calloc(1, sizeof *role))) {
        rc = spur_fail(err, SPUR_ENOMEM, "store/local: out of memory");
        goto fail;
    }
    role->kind = ITEM_ROLE;
    list_init(&s->queue);
    list_init(&s->done);
    s->queue_bytes = s->queue_count = s->flushing_bytes = s->cut_index = 0;
    s->is_stopping = s->is_room_stopping = s->is_snapshotting = false;
    memset(&s->failed, 0, sizeof s->failed);
    memset(&s->full, 0, sizeof s->full);
    publish_state(s);
    if ((rc = thread_start(&s->log_thread, log_main, s, "log", err)) < 0)
        goto fail;
    if ((rc = thread_start(&s->room_thread, room_main, s, "room", err)) < 0) {
        pthread_mutex_lock(&s->lock);
        s->is_stopping = true;
        pthread_cond_signal(&s->log_wake);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->log_thread, NULL);
        goto fail;
    }
    s->is_started = s->is_running = true;
    pthread_mutex_lock(&s->lock);
    local_list_add(&s->done, role);
    local_ring(s);
    pthread_mutex_unlock(&s->lock);
    return 0;
fail:
    free(role);
    wal_close(s->wal);
    s->wal = NULL;
    return rc;
}

static void local_stop(void *self)
{
    struct local *s = self;

    if (!s->is_started)
        return;
    pthread_mutex_lock(&s->lock);
    s->is_stopping = true;
    pthread_cond_signal(&s->log_wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->log_thread, NULL);      /* first: it may wait for a spare that the other one makes */
    pthread_mutex_lock(&s->lock);
    s->is_room_stopping = true;
    pthread_cond_signal(&s->room_wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->room_thread, NULL);
    s->is_running = false;
    deliver(s);
    local_snapshot_stop(s);
    wal_close(s->wal);
    s->wal = NULL;
    s->is_started = false;
    s->role = SPUR_STORE_STARTING;
}

static void local_close(void *self)
{
    struct local *s = self;

    if (!s)
        return;
    local_stop(s);
    if (s->door) {
        s->door->self = NULL;
        if (!s->door->pending)
            free(s->door);
    }
    pthread_cond_destroy(&s->log_wake);
    pthread_cond_destroy(&s->room_wake);
    pthread_cond_destroy(&s->spare_made);
    pthread_mutex_destroy(&s->lock);
    free(s->recover_at);
    free(s->path);
    free(s);
}

int local_create(const struct spur_host *host, const struct local_config *config, void **self, struct spur_error *err)
{
    pthread_condattr_t attr;
    struct local *s = calloc(1, sizeof *s);

    if (!s || !(s->path = strdup(config->path)) || !(s->recover_at = strdup(config->recover_at ? config->recover_at : "")) ||
        !(s->door = calloc(1, sizeof *s->door))) {
        if (s) {
            free(s->recover_at);
            free(s->path);
        }
        free(s);
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    }
    s->host = host;
    s->io = config->io ? config->io : &wal_io_system;
    s->segment_bytes = config->segment_bytes;
    s->snapshot_bytes = config->snapshot_bytes;
    s->is_synced = config->is_synced;
    s->door->self = s;
    list_init(&s->queue);
    list_init(&s->done);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->log_wake, &attr);
    pthread_cond_init(&s->room_wake, &attr);
    pthread_cond_init(&s->spare_made, &attr);
    pthread_condattr_destroy(&attr);
    *self = s;
    return 0;
}

static int local_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct local_config config = { .path = SPUR_HAS(host, state_dir) ? host->state_dir(host->ctx) : NULL };
    long segment_mib = host->conf_int(conf, "segment_mib"), snapshot_mib = host->conf_int(conf, "snapshot_mib");

    if (!SPUR_HAS(host, post))
        return spur_fail(err, SPUR_EINVAL, "needs a host with a loop");
    if (!config.path || !*config.path)
        return spur_fail(err, SPUR_EINVAL, "the host names no folder for the log: set StateSaveLocation");
    if (segment_mib < 1 || segment_mib > 1024)
        return spur_fail(err, SPUR_EINVAL, "segment_mib = %ld: must lie between 1 and 1024", segment_mib);
    if (snapshot_mib < 1 || snapshot_mib > 1 << 20)
        return spur_fail(err, SPUR_EINVAL, "snapshot_mib = %ld: must lie between 1 and 1048576", snapshot_mib);
    if (sodium_init() < 0)
        return spur_fail(err, SPUR_EIO, "libsodium can't be initialised");
    config.segment_bytes = (uint64_t)segment_mib * MIB;
    config.snapshot_bytes = (uint64_t)snapshot_mib * MIB;
    config.is_synced = host->conf_int(conf, "fsync") != 0;
    config.recover_at = host->conf_text(conf, "recover_at");
    return local_create(host, &config, self, err);
}

static int local_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    struct local *s = self;
    long segment_mib = s->host->conf_int(conf, "segment_mib"), snapshot_mib = s->host->conf_int(conf, "snapshot_mib");
    const char *recover_at = s->host->conf_text(conf, "recover_at");

    if (snapshot_mib < 1 || snapshot_mib > 1 << 20)
        return spur_fail(err, SPUR_EINVAL, "snapshot_mib = %ld: must lie between 1 and 1048576", snapshot_mib);
    if ((uint64_t)segment_mib * MIB != s->segment_bytes || (s->host->conf_int(conf, "fsync") != 0) != s->is_synced ||
        strcmp(recover_at ? recover_at : "", s->recover_at) != 0)
        return spur_fail(err, SPUR_ERESTART, "segment_mib, fsync and recover_at count from the next start on");
    s->snapshot_bytes = (uint64_t)snapshot_mib * MIB;
    return 0;
}

static const struct spur_option local_options[] = {
    { "segment_mib",  SPUR_INT,  "64",   "size of one piece of the log, allocated ahead (MiB)" },
    { "snapshot_mib", SPUR_INT,  "256",  "log written since the last snapshot that makes a new one due (MiB); never less than that snapshot's size" },
    { "fsync",        SPUR_BOOL, "true", "wait for the disk before an answer; false only for tests: a power cut then loses acknowledged jobs" },
    { "recover_at",   SPUR_STRING, NULL, "without a backup: cut a damaged log at FILE:OFFSET, as the refusal names it; all entries behind it are lost" },
    { NULL, 0, NULL, NULL } };

const struct spur_store_ops local_ops = {
    .size = sizeof local_ops, .start = local_start, .propose = local_propose, .barrier = local_barrier, .snapshot = local_snapshot,
    .status = local_status, .member = local_member, .stop = local_stop,
};

SPUR_PLUGIN(store, local, .about = "write-ahead log and snapshots of a single controller in a folder of its disk", .options = local_options,
            .ops = &local_ops, .open = local_open, .reload = local_reload, .close = local_close);
