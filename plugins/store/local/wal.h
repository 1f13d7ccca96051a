/* SPDX-License-Identifier: Apache-2.0 */
/* wal.h - a write-ahead log in a folder: segments of a fixed size, allocated ahead, checksummed records in one chain.
 *
 * Used by store/local, and by any store that keeps its entries in files of its own: nothing here knows who decides what is
 * committed. Order of calls: wal_open, wal_replay once, then wal_add ... wal_flush, wal_cut, wal_close, all of them by one
 * thread at a time. wal_spare_make alone may run beside them on another thread: it is the slow part, making room ahead.
 *
 * Promise: what was added before a wal_flush that returned 0 is read back by every later wal_replay, or that replay refuses
 * and names the damage. What was not flushed may or may not come back, in a prefix of its order.
 */
#ifndef STORE_WAL_H
#define STORE_WAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "superblock.h"
#include "wal_io.h"

/* ENTRY to MEMBERS of store/raft's are entries: they have an index of their own. VOTE: term, and in index who was voted for. COMMIT: everything up to index is known
 * to be committed. RESET: a snapshot of entry index, term stands in the place of all before it; the log goes on behind. */
enum wal_type { WAL_ENTRY = 1, WAL_VOTE = 2, WAL_FLUSH = 3, WAL_NOOP = 4, WAL_MEMBERS = 5, WAL_RESET = 6, WAL_COMMIT = 7 };
static inline bool wal_is_entry(uint32_t type) { return type == WAL_ENTRY || type == WAL_NOOP || type == WAL_MEMBERS; }

struct wal_record {
    uint32_t    type;           /* enum wal_type; WAL_FLUSH is the log's own and never shown */
    uint64_t    term, index;    /* WAL_ENTRY: index is one after the last, or lower to replace a tail (by a higher term) */
    const void *data;
    size_t      n;
};

struct wal_config {
    uint64_t segment_bytes;     /* a multiple of 4096, at least 16 KiB */
    bool     is_synced;         /* false: never waits for the disk, for tests */
    const struct wal_io *io;    /* NULL: the system's */
    const char *recover_at;     /* "log-0000000000000001:8192": this damage, and all behind it, is given up; NULL or "": none. Borrowed */
    void   (*log)(void *arg, int level, const char *text);     /* levels as enum spur_log_level */
    void    *arg;
    bool     is_indexed;        /* wal_load will be called */
};

/* Where an entry stands in the files: enough of them that few records are read to find any. */
struct wal_mark { uint64_t index, segment, offset; uint32_t chain; };

struct wal_segment {
    uint64_t sequence, size;
    uint64_t next_index;        /* the index that the first entry in it has */
    uint64_t end;               /* offset behind the last record */
};

struct wal {
    struct wal_config config;
    char    *path;
    int      folder, lock_fd;
    struct superblock super;
    struct wal_segment *segments;   /* oldest first; the last one is written to */
    size_t   count, room;
    int      fd;                    /* of the last segment; -1 before replay */
    uint32_t chain;                 /* CRC of the last record */
    uint64_t last_index;
    bool     is_attested;           /* a flush record stands at the end already */
    bool     is_broken;             /* a write or its confirmation failed: what the disk has is not known */
    uint8_t *buffer;                /* records of the next flush */
    size_t   used, buffer_size;
    uint32_t buffer_chain;
    uint64_t buffer_index;
    pthread_mutex_t spare_lock;     /* guards spare_count */
    unsigned spare_count;           /* files spare-0 .. are whole */
    uint64_t keep_segment;          /* wal_cut leaves this one and those behind it; 0: no such limit */
    pthread_mutex_t mark_lock;      /* guards the marks: wal_load runs beside the writer */
    struct wal_mark *marks;         /* index grows; an entry that replaces a tail has a mark of its own */
    size_t   mark_count, mark_room;
    uint64_t marked_at, marked_index;   /* bytes since the last mark; the entry seen last */
    struct wal_mark *buffer_marks;  /* of the next flush, with offsets in the buffer */
    size_t   buffer_mark_count, buffer_mark_room;
};

/* Opens the folder, takes its lock, reads the superblock; an empty folder becomes a store. Refuses a folder or files that others may read or
 * write (EDENIED), a folder in use (EBUSY), damage (ECORRUPT). */
int  wal_open(struct wal **out, const char *path, const struct wal_config *config, struct spur_error *err);
/* Reads all records, oldest first; `visit` may stop it by a negative code. Torn bytes at the end are dropped, and overwritten with zeros. */
int  wal_replay(struct wal *w, int (*visit)(void *arg, const struct wal_record *record, struct spur_error *err), void *arg, struct spur_error *err);
/* Counts one more start in the superblock and returns the fence by it. */
int  wal_fence(struct wal *w, uint64_t *fence, struct spur_error *err);

uint64_t wal_record_bytes(size_t n);                /* what a record with n bytes of data takes */
uint64_t wal_record_max(const struct wal *w);       /* most bytes of data that one record can have */
uint64_t wal_room(const struct wal *w);             /* bytes of records that can still be added before wal_roll is needed */
/* Copies; the caller has looked at wal_room. SPUR_ENOMEM: not added. */
int  wal_add(struct wal *w, const struct wal_record *record);
/* 0; SPUR_ENOSPACE: nothing of it is in the log, it may be added again; SPUR_EIO: the log is not to be used any more. */
int  wal_flush(struct wal *w, struct spur_error *err);
/* Goes on in the next segment: needs a spare. Nothing may be waiting for a flush. SPUR_ENOSPACE: there is none. */
int  wal_roll(struct wal *w, struct spur_error *err);

/* Makes one spare segment of full size, zeroed, if there are fewer than `wanted`; blocks. SPUR_ENOSPACE with path and missing room in err. */
int  wal_spare_make(struct wal *w, unsigned wanted, struct spur_error *err);
unsigned wal_spares(struct wal *w);
/* Entries first .. first+count-1 as far as they are there, in order, to `visit` (a negative code ends it); beside the writer, on one other thread. Returns how many;
 * 0: cut off meanwhile. `bytes_max`: of data in all, the first is given always. */
long wal_load(struct wal *w, uint64_t first, uint64_t count, uint64_t bytes_max, int (*visit)(void *arg, const struct wal_record *record), void *arg);
/* Removes the segments that hold nothing beyond entry `index`. */
int  wal_cut(struct wal *w, uint64_t index, struct spur_error *err);
uint64_t wal_bytes(const struct wal *w);            /* of records in all segments */
uint64_t wal_first_index(const struct wal *w);      /* of the oldest entry that the log may have */
/* Says in the superblock that all is durable as it stands, unless a flush has failed; unlocks, frees. Accepts NULL. */
void wal_close(struct wal *w);

/* For the files of this folder only. */
void wal_segment_name(char name[40], uint64_t sequence);
void wal_say(const struct wal *w, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
void wal_flush_record(const struct wal *w, uint8_t *out, uint32_t *chain);
int  wal_segment_open(struct wal *w, const struct wal_segment *s, struct spur_error *err);
uint64_t wal_folder_free(const struct wal *w);
/* An entry stands at `offset` of the segment; `chain`: CRC of the record before it. Replay and flush say so for each. */
void wal_mark(struct wal *w, uint64_t index, uint64_t segment, uint64_t offset, uint32_t chain, uint64_t bytes);
void wal_mark_forget(struct wal *w, uint64_t segment);      /* the segments before this one are gone */
void wal_mark_reset(struct wal *w);                 /* none of the entries counts any more */

#endif
