/* SPDX-License-Identifier: Apache-2.0 */
/* local_snapshot.c - when store/local takes a snapshot, and how it gets into its place.
 *
 * A forked child writes it (snapfork.c), so the loop stands still for the fork alone; the room thread waits for the child, renames the file and has the log
 * cut up to the older of two. Without a child (no memory for a fork, file operations of a test's own) it is written here, on the loop.
 */
#include <errno.h>
#include <stdlib.h>

#include "local_inside.h"

#define CHILD_SECONDS   1800                /* longer than this no child writes: something is wrong with it */
#define LOOK_MS         100
#define STOP_SNAPSHOT   (1u << 20)          /* a clean stop takes a snapshot when more log than this would be replayed ... */
#define STOP_CHEAP      (64u << 20)         /* ... and the last one was smaller than this */

/* ---- the room thread ---- */

/* The result goes to the loop; `keep`: the log may be cut up to there. */
static void snapshot_tell(struct local *s, uint64_t index, uint64_t size, int rc, const struct spur_error *why, uint64_t keep)
{
    struct item *item = calloc(1, sizeof *item);

    pthread_mutex_lock(&s->lock);
    s->publishing = NULL;
    s->is_forked = false;
    if (item) {
        item->kind = ITEM_SNAPSHOT;
        item->index = index;
        item->n = size;
        item->code = rc;
        item->why = *why;
        local_list_add(&s->done, item);
        local_ring(s);
    }
    if (keep) {
        s->cut_index = keep;                /* of the older one: the newest may turn out damaged */
        pthread_cond_signal(&s->log_wake);
    }
    pthread_mutex_unlock(&s->lock);
}

void local_snapshot_publish(struct local *s, struct snapfile_writer *w)
{
    struct spur_error err = { 0 };
    uint64_t index = w->index, size = w->bytes, keep = 0;
    int rc = snapfile_publish(w, &err);

    if (rc == 0)
        keep = snapfile_trim(s->wal->folder, s->io, 2);
    free(w);
    snapshot_tell(s, index, size, rc, &err, keep);
}

void local_snapshot_look(struct local *s)
{
    struct snapfile_writer *w = s->fork.writer;
    struct spur_error err = { 0 };
    bool is_stopping;
    uint64_t index = w->index;
    int rc;

    pthread_mutex_lock(&s->lock);
    is_stopping = s->is_room_stopping;
    pthread_mutex_unlock(&s->lock);
    if (is_stopping) {
        snapfork_kill(&s->fork);
        rc = spur_fail(&err, SPUR_ECLOSED, "%s: a snapshot was not finished before the stop", s->path);
    } else {
        rc = snapfork_poll(&s->fork, LOOK_MS, &err);
    }
    if (rc > 0) {
        pthread_mutex_lock(&s->lock);
        s->is_forked = false;
        s->publishing = w;
        pthread_mutex_unlock(&s->lock);
    } else if (rc < 0) {
        snapfile_discard(w);
        free(w);
        snapshot_tell(s, index, 0, rc, &err, 0);
    }
}

/* ---- the loop's thread ---- */

static bool can_snapshot(const struct local *s) { return SPUR_HAS(&s->events, snapshot_write); }

static int snapshot_begin(struct local *s, struct snapfile_writer **out, struct spur_error *err)
{
    struct snapfile_writer *w = calloc(1, sizeof *w);
    int rc;

    if (!w)
        return spur_fail(err, SPUR_ENOMEM, "store/local: out of memory for a snapshot");
    if ((rc = snapfile_begin(w, s->wal->folder, s->path, s->io, s->wal->super.id, s->committed, err)) < 0)
        free(w);
    else
        *out = w;
    return rc;
}

/* Writes the state into a temporary file, here and now; the disk is waited for elsewhere. Frees w when it fails. */
static int snapshot_fill(struct local *s, struct snapfile_writer *w, struct spur_error *err)
{
    struct spur_store_sink sink = { .arg = w, .write = snapfile_write };
    int rc = s->events.snapshot_write(s->events.arg, &sink, err);

    if (rc == 0 || w->err.code)
        rc = snapfile_end(w, err);
    if (rc < 0) {
        snapfile_discard(w);
        free(w);
    }
    return rc;
}

int local_snapshot(void *self, struct spur_error *err)
{
    struct local *s = self;
    struct snapfile_writer *w;
    bool is_forked;
    int rc;

    if (!s->is_running || s->failed.code)
        return spur_fail(err, SPUR_EINVAL, "store/local: not running");
    if (!can_snapshot(s))
        return spur_fail(err, SPUR_EUNSUPPORTED, "store/local: this host writes no snapshots");
    if (s->is_snapshotting)
        return spur_fail(err, SPUR_EBUSY, "store/local: a snapshot is being written");
    if (s->committed == s->snapshot_index)
        return 0;
    if ((rc = snapshot_begin(s, &w, err)) < 0)
        return rc;
    is_forked = s->io == &wal_io_system && snapfork_begin(&s->fork, w, s->events.snapshot_write, s->events.arg, s->wal->lock_fd, CHILD_SECONDS, NULL) == 0;
    if (!is_forked && (rc = snapshot_fill(s, w, err)) < 0)
        return rc;
    s->is_snapshotting = true;
    s->since_snapshot = 0;
    pthread_mutex_lock(&s->lock);
    s->is_forked = is_forked;
    s->publishing = is_forked ? NULL : w;
    pthread_cond_signal(&s->room_wake);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

void local_snapshot_if_due(struct local *s)
{
    uint64_t due = s->snapshot_size > s->snapshot_bytes ? s->snapshot_size : s->snapshot_bytes;
    struct spur_error err = { 0 };

    if (due < s->snapshot_retry)
        due = s->snapshot_retry;
    if (s->is_snapshotting || s->since_snapshot <= due || !can_snapshot(s) || !s->is_running)
        return;
    if (local_snapshot(s, &err) < 0) {
        local_say(s, SPUR_LOG_ERROR, err.text);
        s->snapshot_retry = s->since_snapshot + due / 4;
    }
}

void local_snapshot_done(struct local *s, const struct item *item)
{
    s->is_snapshotting = false;
    if (item->code < 0) {
        local_say(s, SPUR_LOG_ERROR, item->why.text);
        s->snapshot_retry = s->since_snapshot + s->snapshot_bytes / 4;
        return;
    }
    s->snapshot_index = item->index;
    s->snapshot_size = item->n;
    s->snapshot_retry = 0;
}

int local_snapshot_load(struct local *s, struct spur_error *err)
{
    uint64_t indices[8];
    int n = snapfile_list(s->wal->folder, indices, 8), rc = 0;

    if (n < 0)
        return spur_fail(err, SPUR_EIO, "%s: can't be listed: %s", s->path, strerror(errno));
    for (int i = 0; i < n; i++) {
        struct snapfile_reader r;
        struct spur_store_source source = { .arg = &r, .read = snapfile_read };
        char text[300];

        rc = snapfile_open(&r, s->wal->folder, s->path, s->wal->super.id, indices[i], err);
        if (rc == 0) {
            if (!SPUR_HAS(&s->events, snapshot_read))
                rc = spur_fail(err, SPUR_EUNSUPPORTED, "%s: there is a snapshot, and this host reads none", s->path);
            else
                rc = s->events.snapshot_read(s->events.arg, indices[i], &source, err);
            snapfile_close(&r);
            if (rc < 0)
                return rc;
            s->committed = s->snapshot_index = indices[i];
            s->snapshot_size = r.bytes;
            return 0;
        }
        if (rc != SPUR_ECORRUPT)
            return rc;
        snprintf(text, sizeof text, "%s: an older one and the log are used instead", err->text);
        local_say(s, SPUR_LOG_WARN, text);
    }
    if (rc < 0 && wal_first_index(s->wal) == 1)
        rc = 0;                             /* no cut yet: the log alone is enough */
    return rc;
}

void local_snapshot_stop(struct local *s)
{
    struct snapfile_writer *w;
    struct spur_error err = { 0 };
    uint64_t keep;

    if (s->failed.code || !can_snapshot(s) || s->since_snapshot < STOP_SNAPSHOT || s->snapshot_size > STOP_CHEAP || s->committed == s->snapshot_index)
        return;
    if (snapshot_begin(s, &w, &err) < 0 || snapshot_fill(s, w, &err) < 0) {
        local_say(s, SPUR_LOG_WARN, err.text);
        return;
    }
    if (snapfile_publish(w, &err) < 0)
        local_say(s, SPUR_LOG_WARN, err.text);
    else if ((keep = snapfile_trim(s->wal->folder, s->io, 2)) > 0 && wal_cut(s->wal, keep, &err) < 0)
        local_say(s, SPUR_LOG_WARN, err.text);
    free(w);
}
