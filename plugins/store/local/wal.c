/* SPDX-License-Identifier: Apache-2.0 */
/* wal.c - owns the segments of a log: opens the folder, appends, flushes, makes room ahead, cuts. Reading is wal_read.c.
 *
 * One flush is one pwrite and one fdatasync into blocks that were allocated and zeroed before, so the file system has no
 * metadata to commit. A flush never spans two segments: when it does not fit, the next segment is activated first, and a
 * segment is activated only when all before it is durable. The order of activation: header into the spare, fdatasync, rename to
 * its number, fsync of the folder, superblock. So a file log-N has a whole header at any moment, and the superblock knows how many
 * there must be.
 *
 * The flush record that attests flush k is written right after its fdatasync, before anyone is told: a process that dies
 * by kill -9 leaves proof of all that it acknowledged, and a flipped bit in the very last flush is seen as damage, not as torn.
 */
#include "wal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <spur/plugin.h>

#include "crc32c.h"

#define WAL_SPARES_MAX 4u
#define MIB (1024.0 * 1024.0)

void wal_segment_name(char name[40], uint64_t sequence)
{
    snprintf(name, 40, "log-%016llx", (unsigned long long)sequence);
}

static void spare_name(char name[40], unsigned i)
{
    snprintf(name, 40, "spare-%u", i);
}

void wal_say(const struct wal *w, int level, const char *format, ...)
{
    char text[400];
    va_list args;

    if (!w->config.log)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    w->config.log(w->config.arg, level, text);
}

uint64_t wal_folder_free(const struct wal *w)
{
    struct statvfs fs;

    if (fstatvfs(w->folder, &fs) < 0)
        return 0;
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

static struct wal_segment *last_segment(struct wal *w)
{
    return &w->segments[w->count - 1];
}

/* ---- opening ---- */

static int modes_check(const struct wal *w, int fd, const char *name, const char *wanted, struct spur_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return spur_fail(err, SPUR_EIO, "%s/%s: %s", w->path, name, strerror(errno));
    if (st.st_mode & 077)
        return spur_fail(err, SPUR_EDENIED, "%s%s%s: mode %04o lets others in: set it to %s", w->path, *name ? "/" : "", name,
                         (unsigned)st.st_mode & 07777, wanted);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return spur_fail(err, SPUR_EDENIED, "%s%s%s: belongs to uid %u, this daemon runs as uid %u: give it to that user", w->path,
                         *name ? "/" : "", name, (unsigned)st.st_uid, (unsigned)geteuid());
    return 0;
}

static int folder_open(struct wal *w, struct spur_error *err)
{
    if (mkdir(w->path, 0700) < 0 && errno != EEXIST)
        return spur_fail(err, SPUR_EIO, "%s: can't be made: %s", w->path, strerror(errno));
    w->folder = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->folder < 0)
        return spur_fail(err, errno == EACCES ? SPUR_EDENIED : SPUR_EIO, "%s: %s", w->path, strerror(errno));
    return modes_check(w, w->folder, "", "0700", err);
}

/* flock, not fcntl: its owner is the open file, so two stores in one process exclude each other too. */
static int lock_take(struct wal *w, struct spur_error *err)
{
    char text[32] = "";
    int rc;

    w->lock_fd = openat(w->folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (w->lock_fd < 0)
        return spur_fail(err, SPUR_EIO, "%s/lock: %s", w->path, strerror(errno));
    if ((rc = modes_check(w, w->lock_fd, "lock", "0600", err)) < 0)
        return rc;
    if (flock(w->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return spur_fail(err, SPUR_EIO, "%s/lock: %s", w->path, strerror(errno));
        if (wal_io_read(w->lock_fd, text, sizeof text - 1, 0) > 0)
            text[strcspn(text, "\n")] = '\0';
        return spur_fail(err, SPUR_EBUSY, "%s: in use by another daemon (process %s): stop that one first", w->path, *text ? text : "unknown");
    }
    snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(w->lock_fd, 0) < 0 || pwrite(w->lock_fd, text, strlen(text), 0) < 0)
        wal_say(w, SPUR_LOG_WARN, "%s/lock: the process number can't be noted: %s", w->path, strerror(errno));
    return 0;
}

static struct wal_segment *segment_push(struct wal *w)
{
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 8;
        struct wal_segment *bigger = realloc(w->segments, room * sizeof *bigger);

        if (!bigger)
            return NULL;
        w->segments = bigger;
        w->room = room;
    }
    memset(&w->segments[w->count], 0, sizeof *w->segments);
    return &w->segments[w->count++];
}

static int segment_by_sequence(const void *a, const void *b)
{
    const struct wal_segment *x = a, *y = b;

    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* What lies in the folder: log segments, usable spares, left-over temporary files. */
static int folder_scan(struct wal *w, bool *has_snapshot, struct spur_error *err)
{
    int copy = dup(w->folder), rc = 0;
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *e;

    if (!d)
        return spur_fail(err, SPUR_EIO, "%s: %s", w->path, strerror(errno));
    rewinddir(d);
    while (rc == 0 && (e = readdir(d))) {
        unsigned long long number;
        char end;
        bool is_log = sscanf(e->d_name, "log-%16llx%c", &number, &end) == 1;

        if (is_log) {
            struct wal_segment *s = segment_push(w);

            if (!s)
                rc = spur_fail(err, SPUR_ENOMEM, "%s: out of memory", w->path);
            else
                s->sequence = number;
        }
        if (strncmp(e->d_name, "snapshot-", 9) == 0)
            *has_snapshot = true;
        if (strcmp(e->d_name, "spare.tmp") == 0 || strcmp(e->d_name, "log.tmp") == 0 || strcmp(e->d_name, "superblock.tmp") == 0)
            w->config.io->unlink(w->config.io->arg, w->folder, e->d_name);
        if (is_log || strcmp(e->d_name, "superblock") == 0 || strncmp(e->d_name, "snapshot-", 9) == 0) {
            int fd = openat(w->folder, e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

            if (fd < 0)
                rc = spur_fail(err, SPUR_EIO, "%s/%s: %s", w->path, e->d_name, strerror(errno));
            else
                rc = modes_check(w, fd, e->d_name, "0600", err);
            if (fd >= 0)
                close(fd);
        }
    }
    closedir(d);
    if (w->count)
        qsort(w->segments, w->count, sizeof *w->segments, segment_by_sequence);
    return rc;
}

/* Spares from the last run: kept when not smaller than this run's. On a disk that is full by now they are all there is. */
static void spares_adopt(struct wal *w)
{
    const struct wal_io *io = w->config.io;

    for (unsigned i = 0; i < WAL_SPARES_MAX; i++) {
        struct stat st;
        char name[40], to[40];

        spare_name(name, i);
        if (fstatat(w->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        spare_name(to, w->spare_count);
        if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < w->config.segment_bytes || st.st_size % 4096)
            io->unlink(io->arg, w->folder, name);
        else if (w->spare_count == i || io->rename(io->arg, w->folder, name, to) == 0)
            w->spare_count++;
    }
}

static void header_encode(const struct wal *w, const struct wal_segment *s, uint64_t previous_end, uint8_t *block)
{
    memset(block, 0, WAL_HEADER_BYTES);
    memcpy(block + SEG_MAGIC, WAL_SEGMENT_MAGIC, 8);
    put32(block + SEG_VERSION, WAL_VERSION);
    memcpy(block + SEG_ID, w->super.id, WAL_ID_BYTES);
    put64(block + SEG_SEQUENCE, s->sequence);
    put64(block + SEG_SIZE, s->size);
    put64(block + SEG_NEXT_INDEX, s->next_index);
    put64(block + SEG_PREV_END, previous_end);
    put32(block + SEG_CHAIN, w->chain);
    put32(block + SEG_CRC, crc32c(0, block, SEG_CRC));
}

static int no_space(const struct wal *w, struct spur_error *err)
{
    uint64_t avail = wal_folder_free(w), want = w->config.segment_bytes;

    if (avail < want)
        return spur_fail(err, SPUR_ENOSPACE, "%s: no space left: the next piece of the log takes %.1f MiB, %.1f MiB are free: free %.1f MiB", w->path,
                         (double)want / MIB, (double)avail / MIB, (double)(want - avail) / MIB);
    return spur_fail(err, SPUR_ENOSPACE, "%s: no space for the next piece of the log (%.1f MiB): a quota or file size limit stands against it",
                     w->path, (double)want / MIB);
}

/* The first segment of a new store. Allocated but not zeroed: a first start should not wait for that. */
static int first_segment_create(struct wal *w, struct spur_error *err)
{
    const struct wal_io *io = w->config.io;
    struct wal_segment *s = segment_push(w);
    uint8_t block[WAL_HEADER_BYTES];
    char name[40];
    int fd, rc;

    if (!s)
        return spur_fail(err, SPUR_ENOMEM, "%s: out of memory", w->path);
    *s = (struct wal_segment){ .sequence = 1, .size = w->config.segment_bytes, .next_index = 1 };
    wal_segment_name(name, 1);
    header_encode(w, s, 0, block);
    rc = fd = io->create(io->arg, w->folder, "log.tmp");
    if (fd >= 0)
        rc = io->allocate(io->arg, fd, "log.tmp", s->size);
    if (rc >= 0)
        rc = wal_io_write(io, fd, "log.tmp", block, sizeof block, 0);
    if (rc >= 0)
        rc = io->fdatasync(io->arg, fd, "log.tmp");
    if (fd >= 0)
        close(fd);
    if (rc >= 0)
        rc = io->rename(io->arg, w->folder, "log.tmp", name);
    if (rc >= 0)
        rc = io->sync_folder(io->arg, w->folder);
    if (rc < 0) {
        io->unlink(io->arg, w->folder, "log.tmp");
        return wal_io_is_full(rc) ? no_space(w, err) : spur_fail(err, SPUR_EIO, "%s/%s: can't be made: %s", w->path, name, strerror(-rc));
    }
    return 0;
}

/* On a small disk the log takes smaller pieces: at most an eighth of what is free. */
static void segment_size(struct wal *w)
{
    uint64_t avail = wal_folder_free(w), size = w->config.segment_bytes;

    while (size > 1u << 20 && size > avail / 8)
        size /= 2;
    size = (size + 4095) & ~UINT64_C(4095);
    if (size == w->config.segment_bytes)
        return;
    w->config.segment_bytes = size;
    wal_say(w, SPUR_LOG_WARN, "%s: only %.1f MiB are free: the log takes pieces of %.1f MiB", w->path, (double)avail / MIB, (double)size / MIB);
}

int wal_open(struct wal **out, const char *path, const struct wal_config *config, struct spur_error *err)
{
    struct wal *w = calloc(1, sizeof *w);
    bool has_snapshot = false, is_new = false;
    int rc;

    if (!w || !(w->path = strdup(path))) {
        free(w);
        return spur_fail(err, SPUR_ENOMEM, "%s: out of memory", path);
    }
    w->config = *config;
    if (!w->config.io)
        w->config.io = &wal_io_system;
    w->folder = w->lock_fd = w->fd = w->super.fd = -1;
    pthread_mutex_init(&w->spare_lock, NULL);
    pthread_mutex_init(&w->mark_lock, NULL);
    if ((rc = folder_open(w, err)) < 0 || (rc = lock_take(w, err)) < 0 || (rc = folder_scan(w, &has_snapshot, err)) < 0)
        goto fail;
    if ((rc = superblock_open(&w->super, w->folder, w->path, w->config.io, !w->count && !has_snapshot, &is_new, err)) < 0)
        goto fail;
    segment_size(w);
    spares_adopt(w);
    if (!w->count && w->super.segment) {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s: no log file is left, up to log-%016llx offset %llu must be there: bring them back from a backup", w->path,
                       (unsigned long long)w->super.segment, (unsigned long long)w->super.offset);
        goto fail;
    }
    if (!w->count && (rc = first_segment_create(w, err)) < 0)
        goto fail;
    *out = w;
    return 0;
fail:
    wal_close(w);
    return rc;
}

int wal_segment_open(struct wal *w, const struct wal_segment *s, struct spur_error *err)
{
    char name[40];
    int fd;

    wal_segment_name(name, s->sequence);
    fd = openat(w->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "%s/%s: %s", w->path, name, strerror(errno));
    return fd;
}

static int super_write(struct wal *w, struct spur_error *err)
{
    const struct wal_segment *s = last_segment(w);
    int rc;

    w->super.segment = s->sequence;
    w->super.offset = s->end;
    w->super.index = w->last_index;
    rc = superblock_write(&w->super, w->config.io, w->config.is_synced);
    if (rc < 0)
        return spur_fail(err, SPUR_EIO, "%s/superblock: %s", w->path, strerror(-rc));
    return 0;
}

int wal_fence(struct wal *w, uint64_t *fence, struct spur_error *err)
{
    int rc;

    w->super.fence++;
    if ((rc = super_write(w, err)) < 0)
        return rc;
    *fence = w->super.fence;
    return 0;
}

/* ---- appending ---- */

uint64_t wal_record_bytes(size_t n)
{
    return WAL_HEAD_BYTES + wal_padded(n);
}

uint64_t wal_record_max(const struct wal *w)
{
    return (w->config.segment_bytes - WAL_HEADER_BYTES - 2 * WAL_FLUSH_BYTES - WAL_HEAD_BYTES) & ~UINT64_C(7);
}

uint64_t wal_room(const struct wal *w)
{
    const struct wal_segment *s = &w->segments[w->count - 1];
    uint64_t taken = s->end + w->used + 2 * WAL_FLUSH_BYTES;    /* one before, one behind */

    return taken < s->size ? s->size - taken : 0;
}

static void record_encode(uint8_t *p, uint32_t *chain, const struct wal_record *r)
{
    size_t padded = wal_padded(r->n);

    memset(p, 0, WAL_HEAD_BYTES);
    put32(p + REC_LENGTH, (uint32_t)r->n);
    put32(p + REC_TYPE, r->type);
    put64(p + REC_TERM, r->term);
    put64(p + REC_INDEX, r->index);
    if (r->n)
        memcpy(p + WAL_HEAD_BYTES, r->data, r->n);
    memset(p + WAL_HEAD_BYTES + r->n, 0, padded - r->n);
    *chain = crc32c(*chain, p + 4, WAL_HEAD_BYTES - 4 + padded);
    put32(p + REC_CRC, *chain);
}

/* The flush record at the end of the last segment, attesting all before it. */
void wal_flush_record(const struct wal *w, uint8_t *out, uint32_t *chain)
{
    const struct wal_segment *s = &w->segments[w->count - 1];
    uint8_t data[WAL_FLUSH_DATA] = { 0 };

    memcpy(data + FLUSH_ID, w->super.id, WAL_ID_BYTES);
    put64(data + FLUSH_SEGMENT, s->sequence);
    put64(data + FLUSH_OFFSET, s->end);
    put64(data + FLUSH_DURABLE_SEGMENT, s->sequence);
    put64(data + FLUSH_DURABLE_OFFSET, s->end);
    put64(data + FLUSH_DURABLE_INDEX, w->last_index);
    put32(data + FLUSH_CRC, crc32c(0, data, FLUSH_CRC));
    record_encode(out, chain, &(struct wal_record){ .type = WAL_FLUSH, .index = w->last_index, .data = data, .n = sizeof data });
}

static int buffer_reserve(struct wal *w, size_t more)
{
    size_t size = w->buffer_size ? w->buffer_size : 4096;
    uint8_t *bigger;

    if (w->used + more <= w->buffer_size)
        return 0;
    while (size < w->used + more)
        size *= 2;
    bigger = realloc(w->buffer, size);
    if (!bigger)
        return SPUR_ENOMEM;
    w->buffer = bigger;
    w->buffer_size = size;
    return 0;
}

/* Notes where a record of the next flush stands; index 0: a RESET. */
static int buffer_mark(struct wal *w, const struct wal_record *r)
{
    if (!wal_is_entry(r->type) && r->type != WAL_RESET)
        return 0;
    if (w->buffer_mark_count == w->buffer_mark_room) {
        size_t room = w->buffer_mark_room ? 2 * w->buffer_mark_room : 16;
        struct wal_mark *bigger = realloc(w->buffer_marks, room * sizeof *bigger);

        if (!bigger)
            return SPUR_ENOMEM;
        w->buffer_marks = bigger;
        w->buffer_mark_room = room;
    }
    w->buffer_marks[w->buffer_mark_count++] = (struct wal_mark){ .index = r->type == WAL_RESET ? 0 : r->index, .segment = r->n, .offset = w->used,
                                                                 .chain = w->buffer_chain };
    return 0;
}

/* The flush is durable from offset `at` on: its entries may be read back. */
static void buffer_marks_take(struct wal *w, uint64_t segment, uint64_t at)
{
    for (size_t i = 0; i < w->buffer_mark_count; i++) {
        const struct wal_mark *m = &w->buffer_marks[i];

        if (m->index)
            wal_mark(w, m->index, segment, at + m->offset, m->chain, wal_record_bytes(m->segment));
        else
            wal_mark_reset(w);
    }
}

int wal_add(struct wal *w, const struct wal_record *r)
{
    size_t bytes = wal_record_bytes(r->n);

    if (buffer_reserve(w, bytes + WAL_FLUSH_BYTES) < 0)
        return SPUR_ENOMEM;
    if (!w->used) {
        w->buffer_chain = w->chain;
        w->buffer_index = w->last_index;
        if (!w->is_attested) {
            wal_flush_record(w, w->buffer, &w->buffer_chain);
            w->used = WAL_FLUSH_BYTES;
        }
    }
    if (w->config.is_indexed && buffer_mark(w, r) < 0)
        return SPUR_ENOMEM;
    record_encode(w->buffer + w->used, &w->buffer_chain, r);
    w->used += bytes;
    if (wal_is_entry(r->type) || r->type == WAL_RESET)
        w->buffer_index = r->index;
    return 0;
}

static void buffer_clear(struct wal *w)
{
    w->used = 0;
    w->buffer_mark_count = 0;
    if (w->buffer_size > 2u << 20) {        /* one huge entry should not be paid for as long as the daemon lives */
        free(w->buffer);
        w->buffer = NULL;
        w->buffer_size = 0;
    }
}

/* The flush record behind what is now durable. Not waited for; when it can't be written, the next flush starts with it. */
static void attest(struct wal *w, const char *name)
{
    struct wal_segment *s = last_segment(w);
    uint8_t record[WAL_FLUSH_BYTES];
    uint32_t chain = w->chain;

    wal_flush_record(w, record, &chain);
    w->is_attested = wal_io_write(w->config.io, w->fd, name, record, sizeof record, s->end) == 0;
    if (w->is_attested) {
        s->end += sizeof record;
        w->chain = chain;
    }
}

int wal_flush(struct wal *w, struct spur_error *err)
{
    const struct wal_io *io = w->config.io;
    struct wal_segment *s = last_segment(w);
    char name[40];
    size_t done, cleared;
    int rc, back;

    if (!w->used)
        return 0;
    wal_segment_name(name, s->sequence);
    rc = wal_io_write_some(io, w->fd, name, w->buffer, w->used, s->end, &done);
    if (rc < 0) {
        /* A part may be in the file. Whoever waits for it is told that it is not in the log, so it must not be found by the next start. */
        memset(w->buffer, 0, w->used);
        back = wal_io_write_some(io, w->fd, name, w->buffer, w->used, s->end, &cleared);
        if (wal_io_is_full(back) && cleared >= done)
            back = 0;
        if (back == 0 && w->config.is_synced)
            back = io->fdatasync(io->arg, w->fd, name);
        if (back == 0 && wal_io_is_full(rc)) {
            size_t bytes = w->used;

            buffer_clear(w);
            return spur_fail(err, SPUR_ENOSPACE, "%s/%s: no space left: %zu bytes could not be written: free space there", w->path, name, bytes);
        }
        w->is_broken = true;
        return spur_fail(err, SPUR_EIO, "%s/%s: write of %zu bytes at offset %llu failed: %s", w->path, name, w->used, (unsigned long long)s->end, strerror(-rc));
    }
    /* After a failed fsync the kernel may have dropped the pages and call them clean: trying again would prove nothing. */
    if (w->config.is_synced && (rc = io->fdatasync(io->arg, w->fd, name)) < 0) {
        w->is_broken = true;
        return spur_fail(err, SPUR_EIO, "%s/%s: the disk did not confirm %zu bytes at offset %llu: %s", w->path, name, w->used, (unsigned long long)s->end,
                         strerror(-rc));
    }
    buffer_marks_take(w, s->sequence, s->end);
    s->end += w->used;
    w->chain = w->buffer_chain;
    w->last_index = w->buffer_index;
    buffer_clear(w);
    attest(w, name);
    return 0;
}

/* ---- segments ahead and behind ---- */

unsigned wal_spares(struct wal *w)
{
    unsigned n;

    pthread_mutex_lock(&w->spare_lock);
    n = w->spare_count;
    pthread_mutex_unlock(&w->spare_lock);
    return n;
}

int wal_spare_make(struct wal *w, unsigned wanted, struct spur_error *err)
{
    static const uint8_t zeros[256 * 1024];
    const struct wal_io *io = w->config.io;
    const char *name = "spare.tmp";
    char to[40];
    int fd, rc;

    if (wal_spares(w) >= wanted || wanted > WAL_SPARES_MAX)
        return 0;
    rc = fd = io->create(io->arg, w->folder, name);
    if (fd >= 0)
        rc = io->allocate(io->arg, fd, name, w->config.segment_bytes);
    /* Real zeros, not only allocated blocks: else each flush would also commit the change of an extent. In pieces, so that the log's own
     * fdatasync does not stand behind 64 MiB of it. */
    for (uint64_t at = 0; rc >= 0 && at < w->config.segment_bytes; at += sizeof zeros) {
        size_t n = w->config.segment_bytes - at < sizeof zeros ? (size_t)(w->config.segment_bytes - at) : sizeof zeros;

        rc = wal_io_write(io, fd, name, zeros, n, at);
        if (rc >= 0 && at / sizeof zeros % 8 == 7)
            rc = io->fdatasync(io->arg, fd, name);
    }
    if (rc >= 0)
        rc = io->fdatasync(io->arg, fd, name);
    if (fd >= 0)
        close(fd);
    if (rc >= 0) {
        pthread_mutex_lock(&w->spare_lock);
        spare_name(to, w->spare_count);
        rc = io->rename(io->arg, w->folder, name, to);
        if (rc >= 0)
            w->spare_count++;
        pthread_mutex_unlock(&w->spare_lock);
    }
    if (rc < 0) {
        io->unlink(io->arg, w->folder, name);
        return wal_io_is_full(rc) ? no_space(w, err) : spur_fail(err, SPUR_EIO, "%s/%s: can't be made: %s", w->path, name, strerror(-rc));
    }
    return 0;
}

int wal_roll(struct wal *w, struct spur_error *err)
{
    const struct wal_io *io = w->config.io;
    struct wal_segment next = { .sequence = last_segment(w)->sequence + 1, .next_index = w->last_index + 1, .end = WAL_HEADER_BYTES };
    struct stat st;
    uint8_t block[WAL_HEADER_BYTES];
    char from[40], to[40];
    int fd, rc = 0;

    pthread_mutex_lock(&w->spare_lock);
    if (!w->spare_count) {
        pthread_mutex_unlock(&w->spare_lock);
        return no_space(w, err);
    }
    spare_name(from, w->spare_count - 1);
    fd = openat(w->folder, from, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    rc = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    /* The flush record at the end is not on the disk yet, and the new header continues from behind it. */
    if (rc == 0 && w->config.is_synced) {
        wal_segment_name(to, last_segment(w)->sequence);
        rc = io->fdatasync(io->arg, w->fd, to);
    }
    wal_segment_name(to, next.sequence);
    next.size = rc == 0 ? (uint64_t)st.st_size : 0;
    header_encode(w, &next, last_segment(w)->end, block);
    if (rc == 0)
        rc = wal_io_write(io, fd, from, block, sizeof block, 0);
    if (rc == 0 && w->config.is_synced)
        rc = io->fdatasync(io->arg, fd, from);
    if (rc == 0)
        rc = io->rename(io->arg, w->folder, from, to);
    if (rc == 0)
        w->spare_count--;
    pthread_mutex_unlock(&w->spare_lock);
    if (rc == 0 && w->config.is_synced)
        rc = io->sync_folder(io->arg, w->folder);
    if (rc < 0) {
        if (fd >= 0)
            close(fd);
        w->is_broken = true;
        return spur_fail(err, SPUR_EIO, "%s/%s: can't be taken into use as %s: %s", w->path, from, to, strerror(-rc));
    }
    if (!segment_push(w)) {
        close(fd);
        w->is_broken = true;    /* the new file is there by name, and would be missing in the list */
        return spur_fail(err, SPUR_ENOMEM, "%s: out of memory", w->path);
    }
    *last_segment(w) = next;
    close(w->fd);
    w->fd = fd;
    w->is_attested = true;      /* by the header */
    rc = super_write(w, err);
    w->is_broken = rc < 0;
    return rc;
}

int wal_cut(struct wal *w, uint64_t index, struct spur_error *err)
{
    const struct wal_io *io = w->config.io;
    size_t n = 0;
    int rc = 0;

    while (n + 1 < w->count && w->segments[n + 1].next_index <= index + 1 && (!w->keep_segment || w->segments[n].sequence < w->keep_segment)) {
        char name[40];

        wal_segment_name(name, w->segments[n].sequence);
        rc = io->unlink(io->arg, w->folder, name);
        if (rc < 0 && rc != -ENOENT) {
            spur_fail(err, SPUR_EIO, "%s/%s: can't be removed: %s", w->path, name, strerror(-rc));
            break;
        }
        n++;
        /* Each for itself: power may fail, and a hole in the middle of the log would look like damage. */
        if (w->config.is_synced)
            io->sync_folder(io->arg, w->folder);
    }
    if (n) {
        wal_mark_forget(w, w->segments[n].sequence);
        memmove(w->segments, w->segments + n, (w->count - n) * sizeof *w->segments);
        w->count -= n;
    }
    return rc < 0 && rc != -ENOENT ? SPUR_EIO : 0;
}

uint64_t wal_bytes(const struct wal *w)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < w->count; i++)
        sum += w->segments[i].end > WAL_HEADER_BYTES ? w->segments[i].end - WAL_HEADER_BYTES : 0;
    return sum;
}

uint64_t wal_first_index(const struct wal *w)
{
    return w->segments[0].next_index;
}

void wal_close(struct wal *w)
{
    int saved = errno;

    if (!w)
        return;
    if (w->fd >= 0) {
        struct spur_error ignored;
        char name[40];

        /* Everything flushed is durable, but for the flush record at the end. With that one too the superblock can say how far the log goes. */
        wal_segment_name(name, last_segment(w)->sequence);
        if (!w->is_broken && (!w->config.is_synced || w->config.io->fdatasync(w->config.io->arg, w->fd, name) == 0))
            super_write(w, &ignored);
        close(w->fd);
    }
    superblock_close(&w->super);
    if (w->lock_fd >= 0)
        close(w->lock_fd);
    if (w->folder >= 0)
        close(w->folder);
    pthread_mutex_destroy(&w->spare_lock);
    pthread_mutex_destroy(&w->mark_lock);
    free(w->marks);
    free(w->buffer_marks);
    free(w->segments);
    free(w->buffer);
    free(w->path);
    free(w);
    errno = saved;
}
