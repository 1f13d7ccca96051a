/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - the start: opens the folder, reads snapshot and log back, applies what is known to be committed, and hands the rest to the core.
 *
 * Committed is what a note in the log says, or everything in a group of one. What lies behind may still be replaced by a leader, so it is kept in memory
 * until the core decides. An entry that a newer one replaced is dropped as the replay meets the newer one.
 *
 * Damage: a member of a group moves the damaged files aside, names file and offset, and comes back with a new identity, which the leader fills
 * again; the old one never votes any more. Alone there is nobody to fill it: it stops and names recover_at.
 *
 * A folder of store/local is taken over as a group of one: same files, its entries carry the number of its starts as their term.
 */
#include "raft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CACHE_BYTES (16u << 20)         /* data of applied entries that is kept for peers; as consensus' cache */

struct replay {
    struct store *s;
    struct raft_restored *out;
    struct raft_entry *entries; size_t count, room;     /* behind the snapshot */
    uint64_t cached, evicted;           /* bytes of data held; rows below `evicted` have none */
    uint64_t known, term_at_snapshot;   /* the highest note of what is committed */
    bool     has_members;
};

/* ---- the folder ---- */

/* A file system that another machine can have mounted too breaks the lock, and its fsync promises nothing that is known here. */
static int fs_check(struct store *s, struct spur_error *err)
{
    static const struct { unsigned long magic; const char *name; } rows[] = {
        { 0x6969, "NFS" }, { 0x0BD00BD0, "Lustre" }, { 0x47504653, "GPFS" }, { 0xFF534D42, "CIFS" }, { 0xFE534D42, "SMB" }, { 0x517B, "SMB" },
        { 0x65735546, "FUSE" }, { 0x00C36400, "Ceph" }, { 0x01021997, "9p" }, { 0x5346414F, "AFS" }, { 0x7461636F, "OCFS2" }, { 0x01161970, "GFS2" },
        { 0x19830326, "BeeGFS" }, { 0xAAD7AAEA, "PanFS" }, { 0x013111A8, "an InfiniBand file system" } };
    struct statfs fs;

    if (mkdir(s->path, 0700) < 0 && errno != EEXIST)
        return spur_fail(err, SPUR_EIO, "%s: can't be made: %s", s->path, strerror(errno));
    if (s->o.allow_network_fs || statfs(s->path, &fs) < 0)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (((unsigned long)fs.f_type & 0xffffffffUL) == rows[i].magic)
            return spur_fail(err, SPUR_EUNSUPPORTED, "%s lies on %s: each controller keeps its state on a disk of its own; set StateSaveLocation to a local folder, or "
                             "allow_network_fs = true if this one is mounted nowhere else", s->path, rows[i].name);
    return 0;
}

static void wal_says(void *arg, int level, const char *text) { raft_say(arg, level, "%s", text); }

static int log_open(struct store *s, struct spur_error *err)
{
    struct wal_config config = { .segment_bytes = s->o.segment_bytes, .is_synced = s->o.is_synced, .io = s->o.io, .recover_at = s->o.recover_at,
                                 .log = wal_says, .arg = s, .is_indexed = true };

    return wal_open(&s->wal, s->path, &config, err);
}

/* Everything that is the log's goes into a folder beside it; the roster stays, so that the group is known. The superblock goes first: without it nothing
 * of the rest can be taken for a log again, wherever the power fails. */
static int damage_aside(struct store *s, struct spur_error *err)
{
    static const char *const prefixes[] = { "superblock", "log-", "spare-", "snapshot-", "damaged-log-" };
    int folder = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), to, rc = 0;
    struct timespec now;
    struct dirent *e;
    char name[64];
    DIR *d;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, sizeof name, "damaged.%lld", (long long)now.tv_sec);
    if (folder < 0 || (mkdirat(folder, name, 0700) < 0 && errno != EEXIST) || (to = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        rc = spur_fail(err, SPUR_EIO, "%s/%s: can't be made: %s", s->path, name, strerror(errno));
        if (folder >= 0)
            close(folder);
        return rc;
    }
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes && rc == 0; p++) {
        int copy = dup(folder);

        if (copy < 0 || !(d = fdopendir(copy))) {
            rc = spur_fail(err, SPUR_EIO, "%s: %s", s->path, strerror(errno));
            break;
        }
        rewinddir(d);
        while (rc == 0 && (e = readdir(d)))
            if (strncmp(e->d_name, prefixes[p], strlen(prefixes[p])) == 0 && renameat(folder, e->d_name, to, e->d_name) < 0)
                rc = spur_fail(err, SPUR_EIO, "%s/%s: can't be set aside: %s", s->path, e->d_name, strerror(errno));
        closedir(d);
        fsync(to);
        fsync(folder);
    }
    close(to);
    close(folder);
    return rc;
}

/* ---- rows ---- */

static struct raft_entry *row_at(struct replay *r, uint64_t index)
{
    return &r->entries[index - r->out->snapshot_index - 1];
}

static uint64_t rows_last(const struct replay *r) { return r->out->snapshot_index + r->count; }

static void row_forget(struct replay *r, struct raft_entry *e)
{
    if (!e->data)
        return;
    r->cached -= e->n;
    free((void *)e->data);
    e->data = NULL;
}

static void rows_cut(struct replay *r, uint64_t from)
{
    while (r->count && rows_last(r) >= from)
        row_forget(r, &r->entries[--r->count]);
}

static void apply_to(struct replay *r, uint64_t index)
{
    struct store *s = r->s;

    if (index > rows_last(r))
        index = rows_last(r);
    while (s->handed < index) {
        struct raft_entry *e = row_at(r, ++s->handed);

        s->handed_term = e->term;
        s->since_snapshot += wal_record_bytes(e->n);
        if (e->type == RAFT_ENTRY_DATA)
            s->events.committed(s->events.arg, e->index, e->data, e->n, NULL);
        else if (e->type == RAFT_ENTRY_MEMBERS)
            raft_members_unpack(&s->handed_members, e->data, e->n);
    }
    while (r->cached > CACHE_BYTES && r->out->snapshot_index + r->evicted < s->handed) {
        struct raft_entry *e = &r->entries[r->evicted++];

        if (e->type != RAFT_ENTRY_MEMBERS)
            row_forget(r, e);
    }
}

static int row_add(struct replay *r, const struct wal_record *w, struct spur_error *err)
{
    struct store *s = r->s;
    struct raft_entry *e;
    void *data = NULL;

    if (w->index == r->out->snapshot_index)
        r->term_at_snapshot = w->term;
    if (w->index <= r->out->snapshot_index) {
        rows_cut(r, 0);                     /* older than the snapshot: nothing behind it counts any more */
        return 0;
    }
    if (w->index <= s->handed)
        return spur_fail(err, SPUR_ECORRUPT, "%s: entry %llu was committed and is replaced later in the log: bring the folder back from a backup", s->path,
                         (unsigned long long)w->index);
    rows_cut(r, w->index);
    if (w->index != rows_last(r) + 1)
        return spur_fail(err, SPUR_ECORRUPT, "%s: entries %llu to %llu are missing between the snapshot and the log: bring the folder back from a backup", s->path,
                         (unsigned long long)rows_last(r) + 1, (unsigned long long)w->index - 1);
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        struct raft_entry *bigger = realloc(r->entries, room * sizeof *bigger);

        if (!bigger)
            return spur_fail(err, SPUR_ENOMEM, "%s: out of memory for the log", s->path);
        r->entries = bigger;
        r->room = room;
    }
    if (w->n && !(data = malloc(w->n)))
        return spur_fail(err, SPUR_ENOMEM, "%s: out of memory for the log", s->path);
    if (w->n)
        memcpy(data, w->data, w->n);
    e = &r->entries[r->count++];
    *e = (struct raft_entry){ .term = w->term, .index = w->index, .data = data, .n = w->n,
                              .type = w->type == WAL_ENTRY ? RAFT_ENTRY_DATA : w->type == WAL_NOOP ? RAFT_ENTRY_NOOP : RAFT_ENTRY_MEMBERS };
    r->cached += w->n;
    if (e->type == RAFT_ENTRY_MEMBERS) {
        struct raft_members m;

        if (raft_members_unpack(&m, e->data, e->n) < 0)
            return spur_fail(err, SPUR_ECORRUPT, "%s: entry %llu is no configuration: bring the folder back from a backup", s->path, (unsigned long long)e->index);
        r->has_members = true;
    }
    return 0;
}

static int visit(void *arg, const struct wal_record *w, struct spur_error *err)
{
    struct replay *r = arg;

    switch (w->type) {
    case WAL_VOTE:
        r->out->term = w->term;
        r->out->vote = w->index;
        return 0;
    case WAL_COMMIT:
        if (w->index > r->known)
            r->known = w->index;
        apply_to(r, r->known);
        return 0;
    case WAL_RESET:
        if (w->index > r->out->snapshot_index)
            return spur_fail(err, SPUR_ECORRUPT, "%s: the snapshot of entry %llu, which the log builds on, is missing or damaged: bring it back from a backup", r->s->path,
                             (unsigned long long)w->index);
        rows_cut(r, 0);
        r->term_at_snapshot = w->index == r->out->snapshot_index ? w->term : 0;
        return 0;
    default:
        return row_add(r, w, err);
    }
}

/* ---- the snapshot ---- */

static int snapshot_load(struct store *s, struct raft_restored *out, bool *is_stamped, struct spur_error *err)
{
    uint64_t indices[8];
    int n = snapfile_list(s->wal->folder, indices, 8), rc = 0;

    *is_stamped = false;
    if (n < 0)
        return spur_fail(err, SPUR_EIO, "%s: can't be listed: %s", s->path, strerror(errno));
    for (int i = 0; i < n; i++) {
        struct snapfile_reader *r = malloc(sizeof *r);
        struct spur_store_source source = { .arg = r, .read = snapfile_read };

        if (!r)
            return spur_fail(err, SPUR_ENOMEM, "%s: out of memory", s->path);
        rc = snapfile_open(r, s->wal->folder, s->path, s->wal->super.id, indices[i], err);
        if (rc == 0) {
            if (!SPUR_HAS(&s->events, snapshot_read))
                rc = spur_fail(err, SPUR_EUNSUPPORTED, "%s: there is a snapshot, and this host reads none", s->path);
            else
                rc = s->events.snapshot_read(s->events.arg, indices[i], &source, err);
            snapfile_close(r);
            if (rc == 0) {
                out->snapshot_index = s->handed = s->snapshot_index = indices[i];
                out->snapshot_term = s->handed_term = r->term;
                s->snapshot_size = r->bytes;
                *is_stamped = r->extra_n && raft_members_unpack(&out->snapshot_members, r->extra, r->extra_n) == 0;
                s->handed_members = out->snapshot_members;
            }
            free(r);
            return rc;
        }
        free(r);
        if (rc != SPUR_ECORRUPT)
            return rc;
        raft_say(s, SPUR_LOG_WARN, "%s: an older one and the log are used instead", err->text);
    }
    if (rc < 0 && wal_first_index(s->wal) == 1)
        rc = 0;                             /* no cut yet: the log alone is enough */
    return rc;
}

/* ---- together ---- */

static void identity(struct store *s)
{
    uint8_t hash[16];

    crypto_generichash(hash, sizeof hash, s->wal->super.id, WAL_ID_BYTES, (const uint8_t *)"spur store/raft member 1", 24);
    memcpy(&s->id, hash, sizeof s->id);
    if (s->id == RAFT_NOBODY)
        s->id = 1;
}

/* A record that no flush of the group wrote: before the threads run. */
static int note(struct store *s, const struct wal_record *r, struct spur_error *err)
{
    struct spur_error why;
    int rc;

    if (wal_record_bytes(r->n) > wal_room(s->wal) &&
        ((rc = wal_spare_make(s->wal, 1, err)) < 0 || (rc = wal_roll(s->wal, err)) < 0))
        return rc;
    if (wal_add(s->wal, r) < 0)
        return spur_fail(err, SPUR_ENOMEM, "%s: out of memory", s->path);
    rc = wal_flush(s->wal, &why);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* store/local's folder becomes a group of one. */
static int take_over(struct store *s, struct replay *r, struct spur_error *err)
{
    uint8_t packed[sizeof(struct raft_members)];
    struct raft_members alone = { .count = 1 };
    uint64_t group = 0;
    struct wal_record w;
    int rc;

    alone.rows[0].id = s->id;
    alone.rows[0].is_voter = true;
    snprintf(alone.rows[0].name, sizeof alone.rows[0].name, "%s", s->name);
    snprintf(alone.rows[0].addr, sizeof alone.rows[0].addr, "%s", s->addr);
    while (!group)
        if (getrandom(&group, sizeof group, 0) != (ssize_t)sizeof group)
            return spur_fail(err, SPUR_EIO, "the system gives no random bytes");
    if ((rc = roster_write(s, &(struct roster){ .group = group, .members = alone }, err)) < 0)
        return rc;
    s->group = group;
    r->out->term = s->wal->super.fence + 1;
    r->out->vote = RAFT_NOBODY;
    w = (struct wal_record){ .type = WAL_VOTE, .term = r->out->term };
    if ((rc = note(s, &w, err)) < 0)
        return rc;
    w = (struct wal_record){ .type = WAL_MEMBERS, .term = r->out->term, .index = rows_last(r) + 1, .data = packed, .n = raft_members_pack(&alone, packed, sizeof packed) };
    if ((rc = note(s, &w, err)) < 0 || (rc = row_add(r, &w, err)) < 0)
        return rc;
    raft_say(s, SPUR_LOG_INFO, "%s: the folder of a single controller is taken over as group %016llx with one member", s->path, (unsigned long long)group);
    return 0;
}

/* The configuration in force: the last one in the log, else the snapshot's. */
static void members_last(struct replay *r, struct raft_members *out)
{
    *out = r->out->snapshot_members;
    for (size_t i = r->count; i-- > 0; )
        if (r->entries[i].type == RAFT_ENTRY_MEMBERS) {
            raft_members_unpack(out, r->entries[i].data, r->entries[i].n);
            return;
        }
}

static int settle(struct store *s, struct replay *r, bool is_stamped, struct spur_error *err)
{
    struct raft_restored *out = r->out;
    bool is_old = s->wal->last_index < out->snapshot_index ||
                  (is_stamped && r->term_at_snapshot && out->snapshot_term && r->term_at_snapshot != out->snapshot_term);
    int rc;

    if (is_old && !is_stamped)
        return spur_fail(err, SPUR_ECORRUPT, "%s: the log ends at entry %llu, the snapshot is of entry %llu: bring the folder back from a backup", s->path,
                         (unsigned long long)s->wal->last_index, (unsigned long long)out->snapshot_index);
    if (is_old) {
        /* A snapshot from the leader was durable, and the power failed before the log was told. */
        rows_cut(r, 0);
        if ((rc = note(s, &(struct wal_record){ .type = WAL_RESET, .term = out->snapshot_term, .index = out->snapshot_index }, err)) < 0)
            return rc;
    }
    if (!r->count && !out->snapshot_index)
        return 0;
    if (!is_stamped && !r->has_members) {
        if (s->group)
            return spur_fail(err, SPUR_ECORRUPT, "%s: the log has no configuration, and the file `members` names a group: bring the folder back from a backup", s->path);
        if ((rc = take_over(s, r, err)) < 0)
            return rc;
    }
    /* The snapshot is still one of store/local's: whoever took the folder over was the first member. */
    for (size_t i = 0; out->snapshot_index && !out->snapshot_members.count && i < r->count; i++)
        if (r->entries[i].type == RAFT_ENTRY_MEMBERS)
            raft_members_unpack(&out->snapshot_members, r->entries[i].data, r->entries[i].n);
    if (out->snapshot_index && !out->snapshot_term)
        out->snapshot_term = r->term_at_snapshot ? r->term_at_snapshot : 1;
    if (!s->handed_members.count)
        s->handed_members = out->snapshot_members;
    return 0;
}

static int replay_once(struct store *s, struct raft_restored *out, struct spur_error *err)
{
    struct replay r = { .s = s, .out = out };
    struct raft_members now;
    uint32_t voters = 0;
    bool is_stamped;
    int rc;

    s->handed = s->handed_term = s->since_snapshot = s->snapshot_index = s->snapshot_size = 0;
    memset(&s->handed_members, 0, sizeof s->handed_members);
    if ((rc = log_open(s, err)) < 0)
        return rc;
    identity(s);
    if ((rc = snapshot_load(s, out, &is_stamped, err)) < 0 || (rc = wal_replay(s->wal, visit, &r, err)) < 0 || (rc = settle(s, &r, is_stamped, err)) < 0)
        goto fail;
    members_last(&r, &now);
    for (uint32_t i = 0; i < now.count; i++)
        voters += now.rows[i].is_voter;
    for (uint32_t i = 0; i < now.count; i++)
        if (now.rows[i].id == s->id && now.rows[i].is_voter && voters == 1)
            apply_to(&r, rows_last(&r));        /* alone, what is durable is committed */
    apply_to(&r, r.known);
    s->is_fresh = !r.count && !out->snapshot_index;
    out->entries = r.entries;
    out->count = r.count;
    out->applied = s->handed;
    s->term_noted = out->term;
    s->vote_noted = out->vote;
    s->commit_noted = s->handed;
    s->config = now;
    /* The vote stands in the segment that is written to, so that older ones can be cut off. */
    if (out->term && (rc = note(s, &(struct wal_record){ .type = WAL_VOTE, .term = out->term, .index = out->vote }, err)) < 0)
        goto fail;
    return 0;
fail:
    rows_cut(&r, 0);
    free(r.entries);
    wal_close(s->wal);
    s->wal = NULL;
    return rc;
}

static int check_one(void *arg, const struct wal_record *w, struct spur_error *err)
{
    (void)arg;
    (void)w;
    (void)err;
    return 0;
}

/* Reads the whole log once without a word to the host: damage must be known before anything of it is applied. */
static int check(struct store *s, struct spur_error *err)
{
    int rc = log_open(s, err);

    if (rc < 0)
        return rc;
    rc = wal_replay(s->wal, check_one, NULL, err);
    wal_close(s->wal);
    s->wal = NULL;
    return rc;
}

int raft_replay(struct store *s, struct raft_restored *out, struct spur_error *err)
{
    struct roster known;
    struct spur_error why;
    int rc;

    memset(out, 0, sizeof *out);
    if ((rc = fs_check(s, err)) < 0)
        return rc;
    rc = roster_read(s->path, &known, err);
    if (rc < 0 && rc != SPUR_ENOTFOUND)
        return rc;
    if (known.is_superseded)
        return spur_fail(err, SPUR_ESTALE, "%s: another member was promoted by force and went on without this folder: move it away, then this controller joins again", s->path);
    s->group = known.group;
    s->former = known.former;
    if (known.members.count < 2 || ((rc = check(s, err)) == 0 && (rc = replay_once(s, out, err)) != SPUR_ECORRUPT))
        return known.members.count < 2 ? replay_once(s, out, err) : rc;
    if (rc != SPUR_ECORRUPT)
        return rc;
    why = *err;
    raft_say(s, SPUR_LOG_ERROR, "%s", why.text);
    raft_say(s, SPUR_LOG_ERROR, "this member does not vote with what is left; the damaged files are set aside, and it joins again as a new one");
    memset(out, 0, sizeof *out);
    if ((rc = damage_aside(s, err)) < 0)
        return rc;
    if (s->handed)          /* the host has a part of it already, and can't forget it */
        return spur_fail(err, SPUR_ECORRUPT, "%s; all of it is set aside: start again, then this member is filled by the others", why.text);
    return replay_once(s, out, err);
}

void raft_replay_free(struct raft_restored *r)
{
    for (size_t i = 0; i < r->count; i++)
        free((void *)r->entries[i].data);
    free((void *)r->entries);
    memset(r, 0, sizeof *r);
}
