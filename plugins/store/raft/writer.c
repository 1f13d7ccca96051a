/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c - the thread that owns the log: everything that was ordered while the last flush ran goes to the disk with one write and one fdatasync.
 *
 * Term and vote are records among the entries, so they share the flush. A segment that is cut off takes its records with it: so each new
 * segment begins with the vote again, and wal_cut leaves the one that has it. A note of what is committed rides along: a start
 * applies that far without asking anybody.
 *
 * No space: what was ordered stays here and is tried again; the leader hears of it (is_full) and hands over. A flush that the disk does not confirm ends the
 * store. The room thread makes segments ahead, which are also the reserve.
 */
#include "raft.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RETRY_MS 500
#define BATCH_ORDERS 256u

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- what others ask about the disk ---- */

static int us_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

void flush_times(struct store *s, uint32_t *p50, uint32_t *p99, uint32_t *most, int64_t since_ms, uint32_t *count)
{
    uint32_t us[FLUSH_TIMES], n = 0;

    pthread_mutex_lock(&s->room_lock);
    for (uint64_t i = 0; i < s->flushes && i < FLUSH_TIMES; i++)
        if (s->times[i].at_ms > since_ms)
            us[n++] = s->times[i].us;
    pthread_mutex_unlock(&s->room_lock);
    *count = n;
    *p50 = *p99 = *most = 0;
    if (!n)
        return;
    qsort(us, n, sizeof *us, us_compare);
    *p50 = us[n / 2];
    *p99 = us[n - 1 - n / 100];
    *most = us[n - 1];
}

void room_publish(struct store *s)
{
    unsigned spares = wal_spares(s->wal);

    atomic_store(&s->log_bytes, wal_bytes(s->wal));
    atomic_store(&s->log_room, wal_room(s->wal) + spares * wal_record_max(s->wal));
    atomic_store(&s->durable, s->wal->last_index);
    pthread_mutex_lock(&s->room_lock);
    /* A fresh store makes its first spare when it is used in earnest: a trial on a laptop never pays for it. */
    s->spares_wanted = s->wal->count > 1 || s->wal->segments[0].sequence > 1 ? 2 : wal_bytes(s->wal) > s->wal->config.segment_bytes / 4 ? 1 : 0;
    if (spares < s->spares_wanted)
        pthread_cond_signal(&s->room_wake);
    pthread_mutex_unlock(&s->room_lock);
}

/* ---- writing ---- */

/* Waits until there is a spare segment. False: the store stops. */
static bool spare_wait(struct store *s)
{
    bool is_there;

    pthread_mutex_lock(&s->room_lock);
    if (s->spares_wanted < 2)
        s->spares_wanted = 2;
    while (!(is_there = wal_spares(s->wal) > 0) && !atomic_load(&s->writer_stops)) {
        struct timespec until;

        if (s->full.code && !atomic_exchange(&s->is_full, true))
            raft_wake(s->wake_fd);
        pthread_cond_signal(&s->room_wake);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&s->spare_made, &s->room_lock, &until);
    }
    pthread_mutex_unlock(&s->room_lock);
    return is_there;
}

static int flush(struct store *s, struct spur_error *err)
{
    uint64_t segment = s->wal->segments[s->wal->count - 1].sequence;
    int64_t start = now_us();
    int rc = wal_flush(s->wal, err);

    if (rc < 0)
        return rc;
    start = now_us() - start;
    s->wal->keep_segment = segment;             /* the vote stands in it: room_make and vote_add see to that */
    atomic_store(&s->is_full, false);
    pthread_mutex_lock(&s->room_lock);
    s->times[s->flushes % FLUSH_TIMES].at_ms = boot_ms();
    s->times[s->flushes % FLUSH_TIMES].us = start > UINT32_MAX ? UINT32_MAX : (uint32_t)start;
    s->flushes++;
    pthread_mutex_unlock(&s->room_lock);
    return 0;
}

static int vote_add(struct store *s)
{
    return wal_add(s->wal, &(struct wal_record){ .type = WAL_VOTE, .term = s->term_noted, .index = s->vote_noted });
}

/* Room for one more record: what is gathered is flushed, the next segment begun, with the vote as its first record. */
static int room_make(struct store *s, size_t n, struct spur_error *err)
{
    int rc;

    if (wal_record_bytes(n) <= wal_room(s->wal))
        return 0;
    if ((rc = flush(s, err)) < 0)
        return rc;
    if (!wal_spares(s->wal) && !spare_wait(s))
        return spur_fail(err, SPUR_ECLOSED, "the store stops");
    if ((rc = wal_roll(s->wal, err)) < 0)
        return rc;
    return vote_add(s);
}

static int record_add(struct store *s, const struct wal_record *r, struct spur_error *err)
{
    int rc = room_make(s, r->n, err);

    if (rc == 0 && wal_add(s->wal, r) < 0) {
        s->wal->is_broken = true;               /* a part is in the buffer already */
        rc = spur_fail(err, SPUR_ENOMEM, "%s: out of memory for %zu bytes of log", s->path, r->n);
    }
    return rc;
}

static int order_write(struct store *s, const struct order *o, struct spur_error *err)
{
    static const uint32_t types[] = { [RAFT_ENTRY_DATA] = WAL_ENTRY, [RAFT_ENTRY_NOOP] = WAL_NOOP, [RAFT_ENTRY_MEMBERS] = WAL_MEMBERS };
    int rc = 0;

    if (o->kind == ORDER_RESET)
        return record_add(s, &(struct wal_record){ .type = WAL_RESET, .term = o->term, .index = o->index }, err);
    if (o->has_vote) {
        s->term_noted = o->term;
        s->vote_noted = o->vote;
        rc = record_add(s, &(struct wal_record){ .type = WAL_VOTE, .term = o->term, .index = o->vote }, err);
    }
    for (size_t i = 0; i < o->count && rc == 0; i++) {
        const struct raft_entry *e = &o->entries[i];

        rc = record_add(s, &(struct wal_record){ .type = types[e->type], .term = e->term, .index = e->index, .data = e->data, .n = e->n }, err);
    }
    if (rc == 0 && o->commit > s->commit_noted) {
        s->commit_noted = o->commit;
        rc = record_add(s, &(struct wal_record){ .type = WAL_COMMIT, .term = s->term_noted, .index = o->commit }, err);
    }
    return rc;
}

/* All orders of a batch and one flush. After "no space" nothing since the last flush is in the log: the whole batch again, entries that are there already
 * replace themselves. */
static int batch_write(struct store *s, struct order **batch, size_t n, struct spur_error *err)
{
    for (;;) {
        int rc = 0;

        for (size_t i = 0; i < n && rc == 0; i++)
            if (batch[i]->kind != ORDER_CUT)
                rc = order_write(s, batch[i], err);
        if (rc == 0)
            rc = flush(s, err);
        if (rc != SPUR_ENOSPACE || s->wal->is_broken)
            return rc;
        if (!atomic_exchange(&s->is_full, true)) {
            raft_say(s, SPUR_LOG_ERROR, "%s", err->text);
            raft_wake(s->wake_fd);
        }
        if (atomic_load(&s->writer_stops))
            return spur_fail(err, SPUR_ECLOSED, "the store stops");
        poll(NULL, 0, RETRY_MS);
    }
}

static size_t batch_take(struct store *s, struct order **batch)
{
    uint64_t bytes = 0;
    size_t n = 0;

    while (n < BATCH_ORDERS && bytes < 4 * MIB && (batch[n] = ring_take(&s->orders))) {
        for (size_t i = 0; i < batch[n]->count; i++)
            bytes += wal_record_bytes(batch[n]->entries[i].n);
        n++;
    }
    return n;
}

void *writer_main(void *arg)
{
    struct store *s = arg;
    struct order *batch[BATCH_ORDERS];
    struct spur_error err;
    bool has_failed = false;

    for (;;) {
        size_t n = batch_take(s, batch);
        uint64_t count, seq = 0;
        int rc;

        if (!n) {
            if (atomic_load(&s->writer_stops))
                break;
            if (read(s->writer_fd, &count, sizeof count) < 0 && errno != EINTR)
                break;
            continue;
        }
        memset(&err, 0, sizeof err);
        rc = has_failed ? SPUR_EIO : batch_write(s, batch, n, &err);
        for (size_t i = 0; i < n; i++) {
            if (batch[i]->kind == ORDER_WRITE)
                seq = batch[i]->seq;
            if (batch[i]->kind == ORDER_CUT && rc == 0 && wal_cut(s->wal, batch[i]->index, &err) < 0)
                raft_say(s, SPUR_LOG_WARN, "%s", err.text);
            free(batch[i]);
        }
        if (rc == 0) {
            room_publish(s);
            if (seq) {
                atomic_store(&s->written, seq);
                raft_wake(s->wake_fd);
            }
        } else if (rc != SPUR_ECLOSED && !has_failed) {
            has_failed = true;
            consensus_fail(s, &err);
        }
    }
    return NULL;
}

/* ---- segments ahead ---- */

static void spare_try(struct store *s, unsigned wanted)
{
    struct spur_error err = { 0 };
    int rc = wal_spare_make(s->wal, wanted, &err);

    if (rc >= 0)
        atomic_fetch_add(&s->log_room, wal_record_max(s->wal));         /* until the writer counts again */
    pthread_mutex_lock(&s->room_lock);
    s->room_tries++;
    if (rc < 0 && !s->full.code)
        raft_say(s, SPUR_LOG_ERROR, "%s; %s", err.text, wal_spares(s->wal) ? "the log goes on in its reserve" : "entries are refused when the last piece is full");
    if (rc >= 0 && s->full.code)
        raft_say(s, SPUR_LOG_INFO, "there is space for the log again");
    s->full = err;
    if (rc < 0)
        s->full.code = rc;
    pthread_cond_broadcast(&s->spare_made);
    pthread_mutex_unlock(&s->room_lock);
}

void *room_main(void *arg)
{
    struct store *s = arg;

    pthread_mutex_lock(&s->room_lock);
    while (!s->room_stops) {
        if (wal_spares(s->wal) < s->spares_wanted) {
            unsigned wanted = s->spares_wanted;

            pthread_mutex_unlock(&s->room_lock);
            spare_try(s, wanted);
            pthread_mutex_lock(&s->room_lock);
            if (s->full.code && !s->room_stops) {
                struct timespec until;

                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec++;
                pthread_cond_timedwait(&s->room_wake, &s->room_lock, &until);
            }
        } else {
            pthread_cond_wait(&s->room_wake, &s->room_lock);
        }
    }
    pthread_mutex_unlock(&s->room_lock);
    return NULL;
}
