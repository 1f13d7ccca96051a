/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - records what a log does to its folder, and makes every folder that a crash could have left of it.
 *
 * Model of a disk: a write is durable after fdatasync of its file, names after a sync of the folder. Before that, a crash of the
 * process keeps all of it up to some byte; a power cut keeps any set of 512-byte sectors of the unsynced writes and any prefix of the
 * unsynced changes of names.
 */
#ifndef TEST_STORE_TRACE_H
#define TEST_STORE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include "wal_io.h"

enum op_kind { OP_CREATE, OP_ALLOCATE, OP_WRITE, OP_SYNC, OP_RENAME, OP_UNLINK, OP_SYNC_FOLDER };
struct op {
    enum op_kind kind;
    char     name[40], to[40];
    uint64_t at;                    /* offset, or size of OP_ALLOCATE */
    size_t   n;
    uint8_t *data;
    uint64_t acknowledged, fence;   /* what the world had been told before this op */
};

struct trace {
    struct wal_io io;
    pthread_mutex_t lock;           /* a store calls from two threads */
    struct op *ops; size_t count, room;
    uint64_t acknowledged, fence;   /* set by the test as it goes */
    /* Faults: the n-th call (from 1) fails with this errno, and so do all after it if `stays`. 0: none. */
    uint64_t calls, fail_at;
    int      fail_with;
    bool     stays, half_write;     /* half of the bytes of a failing write are written */
    bool     fails_sync_only;       /* counts calls of fdatasync alone */
    uint64_t file_limit;            /* as RLIMIT_FSIZE; UINT64_MAX: none */
    uint64_t space;                 /* bytes that may still be allocated; UINT64_MAX: no limit */
};

void trace_init(struct trace *t);
void trace_fini(struct trace *t);
void trace_told(struct trace *t, uint64_t acknowledged, uint64_t fence);

#define IMAGE_FILES 24
struct image_file { char name[40]; uint8_t *data; size_t size; };
struct image { struct image_file files[IMAGE_FILES]; size_t count; };

/* All of ops [0, n), and the first `torn` bytes of op n if that is a write. */
void image_after(struct image *m, const struct trace *t, size_t n, size_t torn);
/* What a power cut after n ops may leave; `pick` is asked for each sector and for the number of name changes (0..most). */
void image_power_cut(struct image *m, const struct trace *t, size_t n, uint64_t *seed, int how);
/* The same by choice: bit i of `kept` says whether unsynced sector i is there, and so many changes of names are. image_choices: how many there are. */
void image_choices(const struct trace *t, size_t n, size_t *sectors, size_t *names);
void image_power_cut_at(struct image *m, const struct trace *t, size_t n, uint64_t kept, size_t names);
void image_read(struct image *m, const char *folder);
void image_write(const struct image *m, const char *folder);        /* makes the folder, or replaces all files in it */
struct image_file *image_file(struct image *m, const char *name);
void image_fini(struct image *m);

#endif
