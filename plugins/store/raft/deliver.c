/* SPDX-License-Identifier: Apache-2.0 */
/* deliver.c - the way to the loop: committed entries, roles, snapshots, in the order in which consensus decided them; and what the loop sends back.
 *
 * Consensus puts items into a ring and posts one call to the loop, which takes all that is there. Whoever proposed keeps a list of what is not answered
 * yet, so that at a stop everything is answered, wherever it got stuck. Snapshots are written and read here, because the state is the loop's.
 */
#include "raft.h"

#include <stdio.h>
#include <stdlib.h>

#define CHILD_SECONDS 1800               /* longer than this no child writes a snapshot: something is wrong with it */
#define DELIVER_MS 20           /* one turn's share; the rest comes in the next */

/* ---- consensus' side ---- */

static uint64_t item_bytes(const struct item *item) { return sizeof *item + item->n; }

void item_tell(struct store *s, struct item *item)
{
    item->next = NULL;
    if (item->kind == ITEM_ENTRY)
        s->done_put += item_bytes(item);
    if (!s->done_first && ring_put(&s->done, item)) {
        raft_ring_loop(s);
        return;
    }
    *s->done_end = item;
    s->done_end = &item->next;
}

void tell_flush(struct store *s)
{
    while (s->done_first) {
        struct item *next = s->done_first->next;

        if (!ring_put(&s->done, s->done_first))
            break;
        if (!(s->done_first = next))
            s->done_end = &s->done_first;
        raft_ring_loop(s);
    }
    s->done_bytes = s->done_put - atomic_load(&s->done_taken);
}

static void door_opened(void *arg)
{
    struct door *door = arg;
    struct store *s = door->self;

    if (!s) {                           /* closed meanwhile */
        if (--door->pending == 0)
            free(door);
        return;
    }
    pthread_mutex_lock(&s->door_lock);
    door->pending--;
    s->is_posted = false;
    pthread_mutex_unlock(&s->door_lock);
    raft_deliver(s);
}

void raft_ring_loop(struct store *s)
{
    bool is_due;

    pthread_mutex_lock(&s->door_lock);
    is_due = !s->is_posted;
    if (is_due) {
        s->is_posted = true;
        s->door->pending++;
    }
    pthread_mutex_unlock(&s->door_lock);
    if (is_due)
        s->host->post(s->host->ctx, door_opened, s->door);
}

/* ---- the loop's side ---- */

bool raft_ask(struct store *s, struct item *item)
{
    if (!ring_put(&s->asks, item))
        return false;
    raft_wake(s->wake_fd);
    return true;
}

static void ask_surely(struct store *s, struct item *item)
{
    struct item **at = &s->late;

    if (!s->late && raft_ask(s, item))
        return;
    item->next = NULL;
    while (*at)
        at = &(*at)->next;
    *at = item;
}

static bool can_snapshot(const struct store *s) { return SPUR_HAS(&s->events, snapshot_write); }

int raft_snapshot_take(struct store *s, struct spur_error *err)
{
    struct snapfile_writer *w = calloc(1, sizeof *w);
    struct spur_store_sink sink = { .arg = w, .write = snapfile_write };
    struct job *j = calloc(1, sizeof *j);
    uint8_t extra[SNAPFILE_EXTRA];
    size_t n = raft_members_pack(&s->handed_members, extra, sizeof extra);
    int rc;

    if (!w || !j) {
        free(w);
        free(j);
        return spur_fail(err, SPUR_ENOMEM, "out of memory for a snapshot");
    }
    rc = snapfile_begin(w, s->wal->folder, s->path, s->wal->config.io, s->wal->super.id, s->handed, err);
    if (rc == 0)
        rc = snapfile_stamp(w, s->handed_term, extra, n, err);
    if (rc == 0 && s->wal->config.io == &wal_io_system)
        j->is_forked = snapfork_begin(&j->fork, w, s->events.snapshot_write, s->events.arg, s->wal->lock_fd, CHILD_SECONDS, NULL) == 0;
    if (rc == 0 && !j->is_forked) {         /* no memory for a child: here, on the loop */
        rc = s->events.snapshot_write(s->events.arg, &sink, err);
        if (rc == 0 || w->err.code)
            rc = snapfile_end(w, err);
    }
    if (rc < 0) {
        snapfile_discard(w);
        free(w);
        free(j);
        return rc;
    }
    j->kind = JOB_PUBLISH;
    j->index = s->handed;
    j->term = s->handed_term;
    j->members = s->handed_members;
    j->writer = w;
    s->is_snapshotting = true;
    s->since_snapshot = 0;
    files_put(s, j);
    return 0;
}

/* When the log has grown by as much as a snapshot takes. Members take turns: the leader waits longest, followers differ by their identity. */
static void snapshot_if_due(struct store *s)
{
    uint64_t due = s->snapshot_size > s->o.snapshot_bytes ? s->snapshot_size : s->o.snapshot_bytes;
    struct spur_error err = { 0 };

    if (s->handed_members.count > 1)
        due += due / 16 * (s->role == SPUR_STORE_LEADER ? 8 : s->id % 8);
    if (due < s->snapshot_retry)
        due = s->snapshot_retry;
    if (s->is_snapshotting || s->since_snapshot <= due || !can_snapshot(s) || !s->is_running || s->handed == s->snapshot_index)
        return;
    if (raft_snapshot_take(s, &err) < 0) {
        raft_say(s, SPUR_LOG_ERROR, "%s", err.text);
        s->snapshot_retry = s->since_snapshot + due / 4;
    }
}

static void snapshot_taken(struct store *s, const struct item *item)
{
    s->is_snapshotting = false;
    if (item->why.code < 0) {
        raft_say(s, SPUR_LOG_ERROR, "%s", item->why.text);
        s->snapshot_retry = s->since_snapshot + s->o.snapshot_bytes / 4;
        return;
    }
    if (item->index > s->snapshot_index) {
        s->snapshot_index = item->index;
        s->snapshot_size = item->n;
    }
    s->snapshot_retry = 0;
}

static void wanted(struct store *s)
{
    struct spur_error err = { 0 };

    if (!s->is_snapshotting && can_snapshot(s) && s->is_running && s->handed && raft_snapshot_take(s, &err) < 0)
        raft_say(s, SPUR_LOG_ERROR, "%s", err.text);
}

/* The state becomes that of a snapshot. A failure leaves it in pieces: the store ends. True: the item goes back to consensus. */
static bool install(struct store *s, struct item *item)
{
    struct snapfile_reader *r = malloc(sizeof *r);
    struct spur_store_source source = { .arg = r, .read = snapfile_read };
    struct spur_error err = { 0 };
    int rc = r ? 0 : spur_fail(&err, SPUR_ENOMEM, "out of memory");

    if (rc == 0)
        rc = snapfile_open(r, s->wal->folder, s->path, s->wal->super.id, item->index, &err);
    if (rc == 0) {
        rc = SPUR_HAS(&s->events, snapshot_read) ? s->events.snapshot_read(s->events.arg, item->index, &source, &err) :
             spur_fail(&err, SPUR_EUNSUPPORTED, "this host reads no snapshots");
        snapfile_close(r);
    }
    free(r);
    if (rc < 0) {
        spur_context(&err, "the snapshot of entry %llu from the leader", (unsigned long long)item->index);
        consensus_fail(s, &err);
        return false;
    }
    s->handed = s->snapshot_index = item->index;
    s->handed_term = item->term;
    s->handed_members = *item->members;
    s->snapshot_size = item->n;
    s->since_snapshot = 0;
    atomic_store(&s->applied, item->index);
    return true;
}

static void role_told(struct store *s, const struct item *item)
{
    const struct spur_error *why = item->why.code ? &item->why : NULL;

    if (!why && item->role == s->told_role && item->term == s->told_fence && strcmp(item->name, s->told_leader) == 0)
        return;
    s->role = s->told_role = item->role;
    s->fence = s->told_fence = item->term;
    snprintf(s->told_leader, sizeof s->told_leader, "%s", item->name);
    if (s->events.role)
        s->events.role(s->events.arg, item->role, item->term, *item->name ? s->told_leader : NULL, why);
}

void own_add(struct store *s, struct item *item)
{
    item->is_own = true;
    item->own_next = s->own;
    item->own_at = &s->own;
    if (s->own)
        s->own->own_at = &item->own_next;
    s->own = item;
    if (item->kind == ITEM_ENTRY) {
        s->own_bytes += item_bytes(item);
        s->own_entries++;
    }
}

void own_remove(struct store *s, struct item *item)
{
    if (!item->is_own)
        return;
    *item->own_at = item->own_next;
    if (item->own_next)
        item->own_next->own_at = item->own_at;
    item->is_own = false;
    if (item->kind == ITEM_ENTRY) {
        s->own_bytes -= item_bytes(item);
        s->own_entries--;
    }
}

static void entry_told(struct store *s, struct item *item)
{
    atomic_fetch_add(&s->done_taken, item_bytes(item));
    own_remove(s, item);
    if (item->why.code < 0) {
        s->events.dropped(s->events.arg, item->cookie, &item->why);
        return;
    }
    s->handed = item->index;
    s->handed_term = item->term;
    s->since_snapshot += wal_record_bytes(item->n);
    s->entries++;
    s->events.committed(s->events.arg, item->index, item->data, item->n, item->cookie);
}

static void item_told(struct store *s, struct item *item)
{
    switch (item->kind) {
    case ITEM_ENTRY:
        entry_told(s, item);
        break;
    case ITEM_SKIP:
    case ITEM_MEMBERS:
        s->handed = item->index;
        s->handed_term = item->term;
        if (item->members)
            s->handed_members = *item->members;
        break;
    case ITEM_BARRIER:
        own_remove(s, item);
        if (!item->why.code)
            atomic_fetch_add(&s->barrier_count, 1);
        item->fn(item->arg, item->why.code ? &item->why : NULL);
        break;
    case ITEM_ROLE:
        role_told(s, item);
        break;
    case ITEM_TAKE:
        wanted(s);
        break;
    case ITEM_TAKEN:
        snapshot_taken(s, item);
        break;
    case ITEM_INSTALL:
        if (install(s, item)) {
            ask_surely(s, item);
            return;
        }
        break;
    default:
        break;
    }
    free(item->members);
    free(item);
}

void raft_deliver(struct store *s)
{
    struct item *item;
    uint64_t before = s->handed;
    int64_t start;
    unsigned n = 0;

    if (s->is_delivering)               /* a callback that calls stop: the outer call goes on with the ring */
        return;
    s->is_delivering = true;
    start = boot_ms();
    atomic_store(&s->loop_seen_ms, start);
    atomic_store(&s->is_pinged, false);
    while ((item = ring_take(&s->done))) {
        item_told(s, item);
        if (++n % 64 == 0 && s->is_running && boot_ms() - start > DELIVER_MS) {
            raft_ring_loop(s);
            break;
        }
    }
    s->is_delivering = false;
    if (s->handed > before) {
        atomic_store(&s->applied, s->handed);
        raft_wake(s->wake_fd);
    }
    while ((item = s->late)) {
        struct item *next = item->next;

        if (!raft_ask(s, item))
            break;
        s->late = next;
    }
    snapshot_if_due(s);
    if (s->is_running && snapfork_tend())       /* the heap's pages, a slice a turn */
        raft_ring_loop(s);
}
