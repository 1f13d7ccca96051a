/* SPDX-License-Identifier: Apache-2.0 */
/* snapfile.c - writes and reads one snapshot file.
 *
 * Written under a temporary name and renamed when the disk has it, so a file called snapshot-N is whole or damaged later.
 * Every byte is under a hash: data by its chunk's, header and hashes by the one at the end. Reading goes twice over the
 * data: first to check it, then to hand it out, since a host that was given half of a bad one could not go back.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE     /* sync_file_range */
#endif
#include "snapfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SNAPFILE_END_BYTES 64u
#define SNAPFILE_WRITEBACK (8u << 20)       /* start writing to the disk each so many bytes: one big fsync would starve the log's */

enum { SNAP_MAGIC = 0, SNAP_VERSION = 8, SNAP_CHUNK = 12, SNAP_ID = 16, SNAP_INDEX = 32, SNAP_TERM = 40, SNAP_EXTRA_N = 48,
       SNAP_EXTRA = 128 };
enum { END_BYTES = 0, END_CHUNKS = 8, END_MAGIC = 16, END_HASH = 32 };

static void snapfile_name(char name[40], uint64_t index)
{
    snprintf(name, 40, "snapshot-%016llx", (unsigned long long)index);
}

static int failed(struct snapfile_writer *w, int rc)
{
    return spur_fail(&w->err, wal_io_is_full(rc) ? SPUR_ENOSPACE : SPUR_EIO, "%s/%s: snapshot of %.1f MiB so far can't be written: %s", w->path, w->temporary,
                     (double)w->bytes / 1048576.0, strerror(-rc));
}

int snapfile_begin(struct snapfile_writer *w, int folder, const char *path, const struct wal_io *io, const uint8_t *id, uint64_t index,
                   struct spur_error *err)
{
    return snapfile_begin_as(w, "snapshot.tmp", folder, path, io, id, index, err);
}

int snapfile_begin_as(struct snapfile_writer *w, const char *temporary, int folder, const char *path, const struct wal_io *io, const uint8_t *id, uint64_t index,
                      struct spur_error *err)
{
    int rc;

    memset(w, 0, sizeof *w);
    w->temporary = temporary;
    w->io = io;
    w->path = path;
    w->folder = folder;
    w->index = index;
    w->at = WAL_HEADER_BYTES;
    w->chunk = malloc(SNAPFILE_CHUNK);
    if (!w->chunk) {
        w->fd = -1;
        return spur_fail(err, SPUR_ENOMEM, "%s: out of memory for a snapshot", path);
    }
    memcpy(w->header + SNAP_MAGIC, SNAPFILE_MAGIC, 8);
    put32(w->header + SNAP_VERSION, WAL_VERSION);
    put32(w->header + SNAP_CHUNK, SNAPFILE_CHUNK);
    memcpy(w->header + SNAP_ID, id, WAL_ID_BYTES);
    put64(w->header + SNAP_INDEX, index);
    rc = w->fd = io->create(io->arg, folder, w->temporary);
    if (rc >= 0)
        rc = wal_io_write(io, w->fd, w->temporary, w->header, sizeof w->header, 0);
    if (rc < 0) {
        rc = failed(w, rc);
        if (err)
            *err = w->err;
        snapfile_discard(w);
        return rc;
    }
    return 0;
}

int snapfile_stamp(struct snapfile_writer *w, uint64_t term, const void *extra, size_t n, struct spur_error *err)
{
    int rc;

    if (n > SNAPFILE_EXTRA)
        return spur_fail(err, SPUR_ELIMIT, "%s/%s: %zu bytes do not fit into the header", w->path, w->temporary, n);
    put64(w->header + SNAP_TERM, term);
    put32(w->header + SNAP_EXTRA_N, (uint32_t)n);
    if (n)
        memcpy(w->header + SNAP_EXTRA, extra, n);
    rc = wal_io_write(w->io, w->fd, w->temporary, w->header, sizeof w->header, 0);
    if (rc < 0) {
        rc = failed(w, rc);
        if (err)
            *err = w->err;
    }
    return rc;
}

static int chunk_out(struct snapfile_writer *w)
{
    int rc;

    if (w->chunks == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        uint8_t *bigger = realloc(w->hashes, room * SNAPFILE_HASH);

        if (!bigger)
            return spur_fail(&w->err, SPUR_ENOMEM, "%s: out of memory for a snapshot", w->path);
        w->hashes = bigger;
        w->room = room;
    }
    crypto_generichash(w->hashes + w->chunks * SNAPFILE_HASH, SNAPFILE_HASH, w->chunk, w->used, NULL, 0);
    rc = wal_io_write(w->io, w->fd, w->temporary, w->chunk, w->used, w->at);
    if (rc < 0)
        return failed(w, rc);
    w->at += w->used;
    w->used = 0;
    if (++w->chunks % (SNAPFILE_WRITEBACK / SNAPFILE_CHUNK) != 0)
        return 0;
    sync_file_range(w->fd, (off_t)(w->at - SNAPFILE_WRITEBACK), SNAPFILE_WRITEBACK, SYNC_FILE_RANGE_WRITE);
    if (w->is_patient && w->at > 2 * SNAPFILE_WRITEBACK + WAL_HEADER_BYTES)     /* the piece before this one: two are under way at most */
        sync_file_range(w->fd, (off_t)(w->at - 2 * SNAPFILE_WRITEBACK), SNAPFILE_WRITEBACK, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    return 0;
}

long snapfile_write(void *writer, const void *data, size_t n)
{
    struct snapfile_writer *w = writer;
    const uint8_t *p = data;
    size_t left = n;

    while (left > 0 && !w->err.code) {
        size_t piece = SNAPFILE_CHUNK - w->used < left ? SNAPFILE_CHUNK - w->used : left;

        memcpy(w->chunk + w->used, p, piece);
        w->used += piece;
        w->bytes += piece;
        p += piece;
        left -= piece;
        if (w->used == SNAPFILE_CHUNK)
            chunk_out(w);
    }
    return w->err.code ? w->err.code : (long)n;
}

static void end_hash(const uint8_t *header, const uint8_t *hashes, size_t chunks, uint8_t *end)
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, NULL, 0, SNAPFILE_HASH);
    crypto_generichash_update(&state, header, WAL_HEADER_BYTES);
    if (chunks)
        crypto_generichash_update(&state, hashes, chunks * SNAPFILE_HASH);
    crypto_generichash_update(&state, end, END_HASH);
    crypto_generichash_final(&state, end + END_HASH, SNAPFILE_HASH);
}

int snapfile_end(struct snapfile_writer *w, struct spur_error *err)
{
    uint8_t end[SNAPFILE_END_BYTES] = { 0 };
    int rc;

    if (!w->err.code && w->used)
        chunk_out(w);
    if (!w->err.code) {
        put64(end + END_BYTES, w->bytes);
        put64(end + END_CHUNKS, w->chunks);
        memcpy(end + END_MAGIC, SNAPFILE_MAGIC, 8);
        end_hash(w->header, w->hashes, w->chunks, end);
        rc = wal_io_write(w->io, w->fd, w->temporary, w->hashes, w->chunks * SNAPFILE_HASH, w->at);
        if (rc == 0)
            rc = wal_io_write(w->io, w->fd, w->temporary, end, sizeof end, w->at + w->chunks * SNAPFILE_HASH);
        if (rc < 0)
            failed(w, rc);
    }
    free(w->chunk);
    free(w->hashes);
    w->chunk = w->hashes = NULL;
    if (w->err.code && err)
        *err = w->err;
    return w->err.code;
}

int snapfile_publish(struct snapfile_writer *w, struct spur_error *err)
{
    char name[40];
    int rc;

    snapfile_name(name, w->index);
    rc = w->io->fdatasync(w->io->arg, w->fd, w->temporary);
    if (rc == 0)
        rc = w->io->rename(w->io->arg, w->folder, w->temporary, name);
    if (rc == 0)
        rc = w->io->sync_folder(w->io->arg, w->folder);
    if (rc < 0) {
        rc = failed(w, rc);
        if (err)
            *err = w->err;
        snapfile_discard(w);
        return rc;
    }
    close(w->fd);
    w->fd = -1;
    return 0;
}

void snapfile_discard(struct snapfile_writer *w)
{
    free(w->chunk);
    free(w->hashes);
    w->chunk = w->hashes = NULL;
    if (w->fd < 0)
        return;
    close(w->fd);
    w->fd = -1;
    w->io->unlink(w->io->arg, w->folder, w->temporary);
}

/* ---- reading ---- */

static int snapfile_check(struct snapfile_reader *r, const char *path, const char *name, const uint8_t *id, struct spur_error *err)
{
    uint8_t header[WAL_HEADER_BYTES], end[SNAPFILE_END_BYTES], wanted[SNAPFILE_END_BYTES], hash[SNAPFILE_HASH];
    uint8_t *hashes = NULL, *chunk = NULL;
    uint64_t chunks, at;
    int rc = 0;

    if (r->file_bytes < sizeof header + sizeof end || wal_io_read(r->fd, header, sizeof header, 0) != (ssize_t)sizeof header ||
        wal_io_read(r->fd, end, sizeof end, r->file_bytes - sizeof end) != (ssize_t)sizeof end)
        return spur_fail(err, SPUR_ECORRUPT, "%s/%s: the file ends at offset %llu, that is too short", path, name, (unsigned long long)r->file_bytes);
    r->bytes = get64(end + END_BYTES);
    chunks = get64(end + END_CHUNKS);
    if (memcmp(end + END_MAGIC, SNAPFILE_MAGIC, 8) != 0 || r->bytes > r->file_bytes || chunks != (r->bytes + SNAPFILE_CHUNK - 1) / SNAPFILE_CHUNK ||
        sizeof header + r->bytes + chunks * SNAPFILE_HASH + sizeof end != r->file_bytes)
        return spur_fail(err, SPUR_ECORRUPT, "%s/%s: damaged: its end at offset %llu does not describe the file", path, name,
                         (unsigned long long)(r->file_bytes - sizeof end));
    hashes = malloc(chunks * SNAPFILE_HASH + 1);
    chunk = malloc(SNAPFILE_CHUNK);
    if (!hashes || !chunk) {
        rc = spur_fail(err, SPUR_ENOMEM, "%s/%s: out of memory", path, name);
        goto out;
    }
    at = sizeof header + r->bytes;
    if (wal_io_read(r->fd, hashes, chunks * SNAPFILE_HASH, at) != (ssize_t)(chunks * SNAPFILE_HASH)) {
        rc = spur_fail(err, SPUR_EIO, "%s/%s: can't be read at offset %llu: %s", path, name, (unsigned long long)at, strerror(errno));
        goto out;
    }
    memcpy(wanted, end, sizeof wanted);
    end_hash(header, hashes, chunks, wanted);
    if (memcmp(wanted, end, sizeof wanted) != 0) {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s/%s: damaged: header or the list of hashes at offset %llu", path, name, (unsigned long long)at);
        goto out;
    }
    if (get32(header + SNAP_VERSION) != WAL_VERSION) {
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "%s/%s: written in format %u, this version reads format %d: use the newer version", path, name,
                       (unsigned)get32(header + SNAP_VERSION), WAL_VERSION);
        goto out;
    }
    if (memcmp(header + SNAP_ID, id, WAL_ID_BYTES) != 0 || get64(header + SNAP_INDEX) != r->index) {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s/%s: belongs to another store or was renamed: it is entry %llu by its header", path, name,
                       (unsigned long long)get64(header + SNAP_INDEX));
        goto out;
    }
    r->term = get64(header + SNAP_TERM);
    r->extra_n = get32(header + SNAP_EXTRA_N) < SNAPFILE_EXTRA ? get32(header + SNAP_EXTRA_N) : SNAPFILE_EXTRA;
    memcpy(r->extra, header + SNAP_EXTRA, r->extra_n);
    at = sizeof header;
    for (uint64_t i = 0; i < chunks; i++) {
        uint64_t left = sizeof header + r->bytes - at;
        size_t n = left < SNAPFILE_CHUNK ? (size_t)left : SNAPFILE_CHUNK;
        ssize_t got = wal_io_read(r->fd, chunk, n, at);

        if (got != (ssize_t)n) {
            rc = spur_fail(err, SPUR_EIO, "%s/%s: can't be read at offset %llu: %s", path, name, (unsigned long long)at,
                           got < 0 ? strerror((int)-got) : "the file ends there");
            goto out;
        }
        crypto_generichash(hash, sizeof hash, chunk, n, NULL, 0);
        if (memcmp(hash, hashes + i * SNAPFILE_HASH, SNAPFILE_HASH) != 0) {
            rc = spur_fail(err, SPUR_ECORRUPT, "%s/%s: damaged between offset %llu and %llu", path, name, (unsigned long long)at,
                           (unsigned long long)(at + n));
            goto out;
        }
        at += n;
    }
out:
    free(hashes);
    free(chunk);
    return rc;
}

int snapfile_open(struct snapfile_reader *r, int folder, const char *path, const uint8_t *id, uint64_t index, struct spur_error *err)
{
    char name[40];
    struct stat st;
    int rc;

    memset(r, 0, sizeof *r);
    r->index = index;
    snapfile_name(name, index);
    r->fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (r->fd < 0 || fstat(r->fd, &st) < 0) {
        rc = spur_fail(err, SPUR_EIO, "%s/%s: %s", path, name, strerror(errno));
        snapfile_close(r);
        return rc;
    }
    r->file_bytes = (uint64_t)st.st_size;
    if ((rc = snapfile_check(r, path, name, id, err)) < 0)
        snapfile_close(r);
    return rc;
}

long snapfile_read(void *reader, void *data, size_t n)
{
    struct snapfile_reader *r = reader;
    ssize_t got;

    if (n > r->bytes - r->at)
        n = (size_t)(r->bytes - r->at);
    got = wal_io_read(r->fd, data, n, WAL_HEADER_BYTES + r->at);
    if (got < 0)
        return SPUR_EIO;
    r->at += (uint64_t)got;
    return (long)got;
}

void snapfile_close(struct snapfile_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

int snapfile_list(int folder, uint64_t *indices, int max)
{
    int copy = dup(folder), n = 0;
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *e;

    if (!d)
        return SPUR_EIO;
    rewinddir(d);
    while ((e = readdir(d))) {
        unsigned long long index;
        char end;
        int i;

        if (sscanf(e->d_name, "snapshot-%16llx%c", &index, &end) != 1)
            continue;
        for (i = n < max ? n++ : max; i > 0 && indices[i - 1] < index; i--)
            if (i < max)
                indices[i] = indices[i - 1];
        if (i < max)
            indices[i] = index;
    }
    closedir(d);
    return n;
}

uint64_t snapfile_trim(int folder, const struct wal_io *io, int keep)
{
    uint64_t indices[32];
    int n = snapfile_list(folder, indices, 32);

    for (int i = keep; i < n; i++) {
        char name[40];

        snapfile_name(name, indices[i]);
        io->unlink(io->arg, folder, name);
    }
    return n >= keep ? indices[keep - 1] : 0;
}
