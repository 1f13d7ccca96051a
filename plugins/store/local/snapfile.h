/* SPDX-License-Identifier: Apache-2.0 */
/* snapfile.h - one snapshot in one file: chunks of 1 MiB, each with its BLAKE2b-256, written aside and put in place whole.
 *
 *     0      4096 bytes: magic, version, chunk size, store, index; of a group also the term of that entry and the members (snapfile_stamp)
 *     4096   data, in chunks of 1 MiB, the last one shorter
 *     then   32 bytes hash a chunk
 *     then   64 bytes: number of bytes, number of chunks, magic, BLAKE2b-256 of header, hashes and these numbers
 *
 * Files are named snapshot-INDEX. A reader checks all of a file before it hands out the first byte.
 */
#ifndef STORE_SNAPFILE_H
#define STORE_SNAPFILE_H

#include <stdbool.h>

#include "wal_format.h"
#include "wal_io.h"

#define SNAPFILE_CHUNK (1u << 20)
#define SNAPFILE_HASH  32u
#define SNAPFILE_EXTRA 3968u

struct snapfile_writer {
    const struct wal_io *io;
    const char *path;           /* of the folder, for messages; borrowed */
    const char *temporary;      /* name until it is published */
    int      folder, fd;
    bool     is_patient;        /* may wait for the disk between chunks, so that the log's flushes never queue behind much of this */
    uint64_t index, bytes, at;  /* `at`: of the file */
    uint8_t *chunk;
    size_t   used;
    uint8_t *hashes;
    size_t   chunks, room;
    uint8_t  header[WAL_HEADER_BYTES];
    struct spur_error err;      /* the first failure; later writes repeat its code */
};

/* begin, write (a spur_store_sink), end; then publish: fsync, rename, fsync of the folder, on any thread. Discard frees at any point after begin. */
int  snapfile_begin(struct snapfile_writer *w, int folder, const char *path, const struct wal_io *io, const uint8_t *id, uint64_t index,
                    struct spur_error *err);
/* With a temporary name of its own: two may be written at one time. */
int  snapfile_begin_as(struct snapfile_writer *w, const char *temporary, int folder, const char *path, const struct wal_io *io, const uint8_t *id, uint64_t index,
                       struct spur_error *err);
long snapfile_write(void *writer, const void *data, size_t n);
int  snapfile_end(struct snapfile_writer *w, struct spur_error *err);
/* Between begin and end: what a group notes in the header; `extra` has at most SNAPFILE_EXTRA bytes. */
int  snapfile_stamp(struct snapfile_writer *w, uint64_t term, const void *extra, size_t n, struct spur_error *err);
int  snapfile_publish(struct snapfile_writer *w, struct spur_error *err);
void snapfile_discard(struct snapfile_writer *w);

struct snapfile_reader {
    int      fd;
    uint64_t bytes, at;         /* of the data */
    uint64_t file_bytes, index;
    uint64_t term;              /* as stamped; 0: not */
    uint8_t  extra[SNAPFILE_EXTRA];
    size_t   extra_n;
};
/* Opens and checks snapshot `index`. SPUR_ECORRUPT names file and offset. */
int  snapfile_open(struct snapfile_reader *r, int folder, const char *path, const uint8_t *id, uint64_t index, struct spur_error *err);
long snapfile_read(void *reader, void *data, size_t n);
void snapfile_close(struct snapfile_reader *r);

/* Indices of the snapshots in the folder, newest first, `max` at most. Number or a negative code. */
int  snapfile_list(int folder, uint64_t *indices, int max);
/* Removes all but the newest `keep`; returns the index of the oldest that is left, 0 if fewer are there. */
uint64_t snapfile_trim(int folder, const struct wal_io *io, int keep);

#endif
