/* SPDX-License-Identifier: Apache-2.0 */
/* local_inside.h - what local.c and local_snapshot.c share; nobody else includes it. */
#ifndef STORE_LOCAL_INSIDE_H
#define STORE_LOCAL_INSIDE_H

#include <pthread.h>
#include <stdbool.h>

#include "local.h"
#include "snapfile.h"
#include "snapfork.h"
#include "wal.h"

#define FLUSH_TIMES     512u

enum item_kind { ITEM_ENTRY, ITEM_BARRIER, ITEM_ROLE, ITEM_SNAPSHOT };

/* An entry on its way to the disk, then a result on its way to the loop. */
struct item {
    struct item *next;
    enum item_kind kind;
    int      code;                          /* of why; 0: committed */
    struct spur_error why;
    uint64_t index;
    void    *cookie;
    void   (*fn)(void *arg, const struct spur_error *err);
    void    *arg;
    size_t   n;
    unsigned char data[];
};

struct item_list { struct item *first, **end; };

/* What a posted call finds: it may run after the store is closed. Touched on the loop's thread, but for `pending` (under the lock). */
struct local_door { struct local *self; unsigned pending; };

struct local {
    const struct spur_host *host;
    const struct wal_io *io;
    char    *path, *recover_at;
    uint64_t segment_bytes, snapshot_bytes;
    bool     is_synced;
    struct local_door *door;

    struct spur_store_events events;
    struct wal *wal;                        /* of the log thread between start and stop */
    bool     is_started, is_running;        /* start was called; the threads run */
    pthread_t log_thread, room_thread;

    pthread_mutex_t lock;                   /* guards all below */
    pthread_cond_t  log_wake, room_wake, spare_made;
    struct item_list queue, done;
    uint64_t queue_bytes, queue_count;
    bool     is_posted, is_stopping, is_room_stopping;
    struct spur_error failed;               /* code set: SPUR_STORE_FAILED */
    struct spur_error full;                 /* code set: the last try to make a spare failed so */
    uint64_t room_tries;
    unsigned spares_wanted;
    uint64_t flushing_bytes;                /* taken from the queue, not yet in the log */
    uint64_t room;                          /* bytes left in the last segment, as of the last flush */
    uint64_t log_bytes, durable;
    uint64_t cut_index;                     /* the log thread shall cut up to here */
    struct snapfile_writer *publishing;     /* written, the room thread puts it in place */
    bool     is_forked;                     /* `fork` is writing one; the room thread waits for it */
    struct snapfork fork;
    uint64_t flushes, entries;
    struct { int64_t at_ms; uint32_t us; } times[FLUSH_TIMES];

    /* Of the loop's thread alone. */
    enum spur_store_role role;
    uint64_t fence, committed, since_snapshot, snapshot_size, snapshot_index, snapshot_retry;
    bool     is_snapshotting, is_delivering;
};

/* local.c */
void local_list_add(struct item_list *l, struct item *item);
void local_say(const struct local *s, int level, const char *text);
void local_ring(struct local *s);                       /* under the lock: the loop shall look at `done` */

/* local_snapshot.c; publish and look on the room thread, all else on the loop's */
int  local_snapshot(void *self, struct spur_error *err);
void local_snapshot_if_due(struct local *s);
void local_snapshot_done(struct local *s, const struct item *item);
int  local_snapshot_load(struct local *s, struct spur_error *err);      /* the newest whole one, if there is any */
void local_snapshot_stop(struct local *s);
void local_snapshot_publish(struct local *s, struct snapfile_writer *w);
void local_snapshot_look(struct local *s);              /* waits a little for the child; ends it when the store stops */

#endif
