/* SPDX-License-Identifier: Apache-2.0 */
/* wal_read.c - reads a log back at start and tells a torn end from damage.
 *
 * Walks the chain of records over all segments. Where it breaks in the last one, the question is whether anyone may have
 * been told that the bytes there are durable. The highest attested place answers: it is the largest of what the superblock, the flush
 * records before the break and those found behind it say. Break at or above it: the last flush never finished, its rest is dropped and
 * overwritten with zeros (else a record that happens to fit the chain could come to life behind a later one). Break below it: damage,
 * refused. A break in an earlier segment is damage always, for the next header attests that one's end.
 *
 * An administrator without a backup may give up what follows a damage, by naming it (recover_at): the log is cut there as if torn, and
 * whole pieces behind it are set aside under another name.
 *
 * A record of a flush that did not finish may be whole. It is kept: it was proposed, and nobody was told that it failed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE     /* SEEK_DATA */
#endif
#include "wal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spur/plugin.h>

#include "crc32c.h"

struct wal_reader {
    struct wal *w;
    int       (*visit)(void *arg, const struct wal_record *record, struct spur_error *err);
    void       *arg;
    uint8_t    *bytes;                  /* one whole segment */
    uint64_t    room, known;            /* bytes[known..] are zeros that were not even read: nothing was ever written there */
    uint64_t    durable_segment, durable_offset;    /* highest attested place */
    char        name[40];
    uint64_t    damage_at;              /* offset in file `name`, set with SPUR_ECORRUPT */
    bool        has_damage_at;
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int damaged(struct wal_reader *r, uint64_t offset, const char *what, struct spur_error *err)
{
    r->damage_at = offset;
    r->has_damage_at = true;
    return spur_fail(err, SPUR_ECORRUPT, "%s/%s: damaged at offset %llu: %s: bring the folder back from a backup (or see recover_at)", r->w->path,
                     r->name, (unsigned long long)offset, what);
}

static void attested(struct wal_reader *r, uint64_t segment, uint64_t offset)
{
    if (segment > r->durable_segment || (segment == r->durable_segment && offset > r->durable_offset)) {
        r->durable_segment = segment;
        r->durable_offset = offset;
    }
}

/* A flush record's data that proves itself: this store, this place, its own CRC. */
static bool flush_is_genuine(const struct wal_reader *r, const struct wal_segment *s, const uint8_t *data, uint64_t at)
{
    return memcmp(data + FLUSH_ID, r->w->super.id, WAL_ID_BYTES) == 0 && get64(data + FLUSH_SEGMENT) == s->sequence &&
           get64(data + FLUSH_OFFSET) == at && crc32c(0, data, FLUSH_CRC) == get32(data + FLUSH_CRC);
}

static int header_check(struct wal_reader *r, struct wal_segment *s, bool is_first, uint64_t previous_end, struct spur_error *err)
{
    const uint8_t *b = r->bytes;
    struct wal *w = r->w;

    if (memcmp(b + SEG_MAGIC, WAL_SEGMENT_MAGIC, 8) != 0 || crc32c(0, b, SEG_CRC) != get32(b + SEG_CRC))
        return damaged(r, 0, "the header's checksum differs", err);
    if (get32(b + SEG_VERSION) != WAL_VERSION)
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s/%s: written in format %u, this version reads format %d: use the newer version", w->path, r->name,
                         (unsigned)get32(b + SEG_VERSION), WAL_VERSION);
    if (memcmp(b + SEG_ID, w->super.id, WAL_ID_BYTES) != 0)
        return spur_fail(err, SPUR_ECORRUPT, "%s/%s: belongs to another store than the superblock beside it: bring the right file back", w->path, r->name);
    if (get64(b + SEG_SEQUENCE) != s->sequence)
        return spur_fail(err, SPUR_ECORRUPT, "%s/%s: is piece %llu by its header: the file was renamed or copied", w->path, r->name,
                         (unsigned long long)get64(b + SEG_SEQUENCE));
    s->size = get64(b + SEG_SIZE);
    s->next_index = get64(b + SEG_NEXT_INDEX);
    if (is_first) {
        w->chain = get32(b + SEG_CHAIN);
        w->last_index = s->next_index - 1;
    } else if (get64(b + SEG_PREV_END) != previous_end || get32(b + SEG_CHAIN) != w->chain || s->next_index != w->last_index + 1) {
        /* The break is in the file before: the caller says so with that one's name. */
        return SPUR_ESTALE;
    }
    attested(r, s->sequence, WAL_HEADER_BYTES);
    return 0;
}

/* Where the last byte may be that was ever written. A first segment is allocated and not zeroed, so most of it is a hole to the file system. */
static uint64_t written_end(int fd, uint64_t size)
{
    off_t end = 0, at;

    while ((at = lseek(fd, end, SEEK_DATA)) >= 0 && (uint64_t)at < size) {
        end = lseek(fd, at, SEEK_HOLE);
        if (end <= at)
            return size;
    }
    return at < 0 && errno != ENXIO ? size : (uint64_t)end < size ? (uint64_t)end : size;
}

/* Reads the file into r->bytes. A file is made at its full size and never changes it: longer means that something was appended by
 * someone else (dropped), shorter that a part is gone. */
static int segment_load(struct wal_reader *r, struct wal_segment *s, struct spur_error *err)
{
    struct wal *w = r->w;
    uint8_t header[WAL_HEADER_BYTES];
    struct stat st;
    ssize_t got;
    uint64_t size;
    int fd, rc = 0;

    wal_segment_name(r->name, s->sequence);
    fd = wal_segment_open(w, s, err);
    if (fd < 0)
        return fd;
    got = wal_io_read(fd, header, sizeof header, 0);
    if (got < 0 || fstat(fd, &st) < 0) {
        rc = spur_fail(err, SPUR_EIO, "%s/%s: %s", w->path, r->name, strerror(got < 0 ? (int)-got : errno));
        goto out;
    }
    size = (uint64_t)st.st_size;
    if ((size_t)got == sizeof header && crc32c(0, header, SEG_CRC) == get32(header + SEG_CRC)) {
        uint64_t whole = get64(header + SEG_SIZE);

        if (size > whole) {
            wal_say(w, SPUR_LOG_WARN, "%s/%s: %llu bytes behind its end at offset %llu are not the log's: dropped", w->path, r->name,
                    (unsigned long long)(size - whole), (unsigned long long)whole);
            if (ftruncate(fd, (off_t)whole) < 0)
                wal_say(w, SPUR_LOG_WARN, "%s/%s: can't be cut: %s", w->path, r->name, strerror(errno));
            size = whole;
        }
    } else if (size < WAL_HEADER_BYTES) {
        rc = damaged(r, size, "the file ends inside its header", err);
        goto out;
    }
    if (size > r->room) {
        uint8_t *bigger = realloc(r->bytes, size);

        if (!bigger) {
            rc = spur_fail(err, SPUR_ENOMEM, "%s/%s: out of memory for %llu bytes", w->path, r->name, (unsigned long long)size);
            goto out;
        }
        r->bytes = bigger;
        r->room = size;
    }
    r->known = written_end(fd, size);
    if (r->known < WAL_HEADER_BYTES)
        r->known = WAL_HEADER_BYTES;
    got = wal_io_read(fd, r->bytes, r->known, 0);
    if (got < 0)
        rc = spur_fail(err, SPUR_EIO, "%s/%s: %s", w->path, r->name, strerror((int)-got));
    else if ((uint64_t)got < r->known)
        rc = damaged(r, (uint64_t)got, "the file ends there", err);
    s->size = size;             /* of the file; header_check puts the header's */
out:
    close(fd);
    return rc;
}

/* The record at `at`: its size, or 0 when there is none that continues the chain. */
static uint64_t record_at(const struct wal_reader *r, uint64_t at, uint64_t limit, struct wal_record *out, uint32_t *crc)
{
    const uint8_t *p = r->bytes + at;
    uint64_t bytes;

    if (at + WAL_HEAD_BYTES > limit)
        return 0;
    out->type = get32(p + REC_TYPE);
    out->n = get32(p + REC_LENGTH);
    bytes = wal_record_bytes(out->n);
    if (out->type == 0 || bytes > limit - at)
        return 0;
    *crc = crc32c(r->w->chain, p + 4, bytes - 4);
    if (*crc != get32(p + REC_CRC))
        return 0;
    out->term = get64(p + REC_TERM);
    out->index = get64(p + REC_INDEX);
    out->data = p + WAL_HEAD_BYTES;
    return bytes;
}

static int segment_walk(struct wal_reader *r, struct wal_segment *s, uint64_t limit, struct spur_error *err)
{
    struct wal *w = r->w;
    struct wal_record record;
    uint64_t at = WAL_HEADER_BYTES, bytes;
    uint32_t crc;
    int rc;

    s->end = at;
    while ((bytes = record_at(r, at, limit, &record, &crc)) > 0) {
        if (record.type == WAL_FLUSH) {
            if (record.n != WAL_FLUSH_DATA || !flush_is_genuine(r, s, record.data, at))
                return damaged(r, at, "a flush record does not belong there", err);
            attested(r, get64((const uint8_t *)record.data + FLUSH_DURABLE_SEGMENT), get64((const uint8_t *)record.data + FLUSH_DURABLE_OFFSET));
        } else if (wal_is_entry(record.type) && (record.index > w->last_index + 1 || record.index == 0)) {
            return damaged(r, at, "an entry is missing before it", err);
        } else if (!wal_is_entry(record.type) && record.type != WAL_VOTE && record.type != WAL_RESET && record.type != WAL_COMMIT) {
            return spur_fail(err, SPUR_EUNSUPPORTED, "%s/%s: offset %llu: a record of type %u, which this version does not know: use the newer version",
                             w->path, r->name, (unsigned long long)at, (unsigned)record.type);
        } else {
            if (wal_is_entry(record.type) || record.type == WAL_RESET)
                w->last_index = record.index;
            if (w->config.is_indexed && wal_is_entry(record.type))
                wal_mark(w, record.index, s->sequence, at, w->chain, bytes);
            if (w->config.is_indexed && record.type == WAL_RESET)
                wal_mark_reset(w);
            if ((rc = r->visit(r->arg, &record, err)) < 0)
                return rc;
        }
        w->chain = crc;
        at += bytes;
        s->end = at;
    }
    return 0;
}

/* Flush records behind a break: they can't be reached by the chain, but prove themselves. */
static void find_attested(struct wal_reader *r, const struct wal_segment *s, uint64_t from, uint64_t limit)
{
    for (uint64_t at = from; at + WAL_FLUSH_BYTES <= limit; at += 8) {
        const uint8_t *p = r->bytes + at;

        if (get32(p + REC_TYPE) == WAL_FLUSH && get32(p + REC_LENGTH) == WAL_FLUSH_DATA && flush_is_genuine(r, s, p + WAL_HEAD_BYTES, at))
            attested(r, get64(p + WAL_HEAD_BYTES + FLUSH_DURABLE_SEGMENT), get64(p + WAL_HEAD_BYTES + FLUSH_DURABLE_OFFSET));
    }
}

/* Overwrites the torn bytes [from, size) of the last segment. */
static int tail_clear(struct wal *w, const struct wal_segment *s, const struct wal_reader *r, uint64_t limit, struct spur_error *err)
{
    static const uint8_t zeros[65536];
    int rc = 0;

    for (uint64_t at = s->end; rc == 0 && at < limit; ) {
        size_t n = limit - at < sizeof zeros ? (size_t)(limit - at) : sizeof zeros;

        if (!wal_is_zero(r->bytes + at, n))
            rc = wal_io_write(w->config.io, w->fd, r->name, zeros, n, at);
        at += n;
    }
    if (rc < 0)
        return spur_fail(err, SPUR_EIO, "%s/%s: the torn end can't be cleared: %s", w->path, r->name, strerror(-rc));
    return 0;
}

/* The end of the last segment: torn or damaged? `is_given_up`: whatever it is, it goes. */
static int tail_settle(struct wal_reader *r, struct wal_segment *s, uint64_t file_bytes, bool is_given_up, struct spur_error *err)
{
    struct wal *w = r->w;
    const struct wal_io *io = w->config.io;
    uint64_t limit = least(least(file_bytes, s->size), r->known), lost = 0;
    bool is_clean = s->end >= limit || wal_is_zero(r->bytes + s->end, (size_t)(limit - s->end));
    int rc;

    if (!is_clean)
        find_attested(r, s, s->end, limit);
    if (!is_given_up && r->durable_segment > s->sequence) {
        wal_segment_name(r->name, r->durable_segment);
        return spur_fail(err, SPUR_ECORRUPT, "%s/%s: is missing, the log is known to be durable up to its offset %llu: bring it back from a backup", w->path,
                         r->name, (unsigned long long)r->durable_offset);
    }
    if (!is_given_up && r->durable_segment == s->sequence && r->durable_offset > s->end) {
        char what[120];

        snprintf(what, sizeof what, "the log was durable up to offset %llu", (unsigned long long)r->durable_offset);
        return damaged(r, s->end, what, err);
    }
    if (file_bytes < s->size) {
        /* Where a whole empty head follows the last record, the log had ended there: then only zeros are gone. */
        if (!is_given_up && (s->end + WAL_HEAD_BYTES > file_bytes || !is_clean))
            return damaged(r, file_bytes, "the file was cut there", err);
        wal_say(w, SPUR_LOG_WARN, "%s/%s: the file was cut at offset %llu, behind the last record: made whole again", w->path, r->name,
                (unsigned long long)file_bytes);
        rc = io->allocate(io->arg, w->fd, r->name, s->size);
        if (rc < 0)
            return spur_fail(err, wal_io_is_full(rc) ? SPUR_ENOSPACE : SPUR_EIO, "%s/%s: can't be made whole again: %s", w->path, r->name, strerror(-rc));
    }
    for (uint64_t at = limit; !is_clean && at > s->end && !lost; at--)
        if (r->bytes[at - 1])
            lost = at - s->end;
    if (lost) {
        wal_say(w, SPUR_LOG_WARN, "%s/%s: torn end: %llu bytes at offset %llu were never confirmed: dropped; entry %llu is the last", w->path, r->name,
                (unsigned long long)lost, (unsigned long long)s->end, (unsigned long long)w->last_index);
        if ((rc = tail_clear(w, s, r, limit, err)) < 0)
            return rc;
    }
    /* What was read may be in the page cache only, left by a process that died before its fdatasync. It counts from here on. */
    if (w->config.is_synced && (rc = io->fdatasync(io->arg, w->fd, r->name)) < 0)
        return spur_fail(err, SPUR_EIO, "%s/%s: the disk did not confirm the log: %s", w->path, r->name, strerror(-rc));
    return 0;
}

static int segment_read(struct wal_reader *r, size_t i, struct spur_error *err)
{
    struct wal *w = r->w;
    struct wal_segment *s = &w->segments[i], *previous = i ? s - 1 : NULL;
    uint64_t file_bytes;
    int rc;

    if (previous && previous->sequence + 1 != s->sequence) {
        wal_segment_name(r->name, previous->sequence + 1);
        return spur_fail(err, SPUR_ECORRUPT, "%s/%s: is missing between its neighbours: bring it back from a backup", w->path, r->name);
    }
    if ((rc = segment_load(r, s, err)) < 0)
        return rc;
    file_bytes = s->size;
    rc = header_check(r, s, !previous, previous ? previous->end : 0, err);
    if (rc == SPUR_ESTALE) {
        wal_segment_name(r->name, previous->sequence);
        rc = damaged(r, previous->end, "the next file continues from elsewhere", err);
    }
    if (rc < 0 || (rc = segment_walk(r, s, least(least(file_bytes, s->size), r->known), err)) < 0 || i + 1 < w->count)
        return rc;
    if ((rc = w->fd = wal_segment_open(w, s, err)) < 0)
        return rc;
    return tail_settle(r, s, file_bytes, false, err);
}

/* The damage is the one that the administrator has named: segment `name` ends there, and those behind it are set aside. */
static int give_up(struct wal_reader *r, struct spur_error *err)
{
    struct wal *w = r->w;
    const struct wal_io *io = w->config.io;
    struct wal_segment *last;
    uint64_t file_bytes;
    size_t keep = 0;
    char name[40], to[60];
    int rc;

    do {
        if (keep == w->count)
            return SPUR_ECORRUPT;
        wal_segment_name(name, w->segments[keep++].sequence);
    } while (strcmp(name, r->name) != 0);
    if (r->damage_at < WAL_HEADER_BYTES)
        keep--;                         /* its header: nothing of it can be used */
    if (!keep)
        return SPUR_ECORRUPT;           /* nothing would be left to go on from */
    for (size_t i = keep; i < w->count; i++) {
        wal_segment_name(name, w->segments[i].sequence);
        snprintf(to, sizeof to, "damaged-%s", name);
        if ((rc = io->rename(io->arg, w->folder, name, to)) < 0)
            return spur_fail(err, SPUR_EIO, "%s/%s: can't be set aside: %s", w->path, name, strerror(-rc));
    }
    w->count = keep;
    last = &w->segments[keep - 1];
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    if ((rc = segment_load(r, last, err)) < 0)
        return rc;
    file_bytes = last->size;
    last->size = get64(r->bytes + SEG_SIZE);
    wal_say(w, SPUR_LOG_ERROR, "%s/%s: recover_at: all entries after %llu are given up", w->path, r->name, (unsigned long long)w->last_index);
    if ((rc = w->fd = wal_segment_open(w, last, err)) < 0 || (rc = tail_settle(r, last, file_bytes, true, err)) < 0)
        return rc;
    rc = io->sync_folder(io->arg, w->folder);
    return rc < 0 ? spur_fail(err, SPUR_EIO, "%s: %s", w->path, strerror(-rc)) : 0;
}

int wal_replay(struct wal *w, int (*visit)(void *, const struct wal_record *, struct spur_error *), void *arg, struct spur_error *err)
{
    struct wal_reader r = { .w = w, .visit = visit, .arg = arg, .durable_segment = w->super.segment, .durable_offset = w->super.offset };
    char place[80];
    int rc = 0;

    for (size_t i = 0; i < w->count && rc >= 0; i++) {
        rc = segment_read(&r, i, err);
        if (rc == SPUR_ECORRUPT && r.has_damage_at && w->config.recover_at) {
            snprintf(place, sizeof place, "%s:%llu", r.name, (unsigned long long)r.damage_at);
            if (strcmp(place, w->config.recover_at) == 0) {
                rc = give_up(&r, err);
                break;
            }
        }
    }
    if (rc < 0 && w->fd >= 0) {     /* wal_close must not attest a log that was not accepted */
        close(w->fd);
        w->fd = -1;
    }
    free(r.bytes);
    return rc < 0 ? rc : 0;
}
