/* SPDX-License-Identifier: Apache-2.0 */
/* raft.h - one member of a group: the threads of store/raft, what each of them owns, and how they hand things to each other.
 *
 *     loop        the host's: raft.c (ops), deliver.c (events). Proposes, applies, writes and reads snapshots.
 *     consensus   consensus.c, links.c, group.c, act.c: the core, the timers, the sockets. Never waits for anybody.
 *     writer      writer.c: the log; one write and one fdatasync for all that was ordered meanwhile.
 *     files       files.c: everything else on the disk that takes long: spare pieces on a thread of their own (room), snapshots and old entries on another.
 *     meetings    meet.c: one short-lived thread for each connection until both ends are proven.
 *
 * Handing over: rings without locks between loop and consensus and from consensus to the writer; numbers as atomics the other way; a list
 * under a lock (struct mailbox) where several write or little comes. Nothing of the loop's state is ever touched by another thread.
 */
#ifndef STORE_RAFT_H
#define STORE_RAFT_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <spur/channel.h>
#include <spur/store.h>

#include "../local/snapfile.h"
#include "../local/snapfork.h"
#include "../local/wal.h"
#include "core.h"
#include "message.h"
#include "ring.h"

#define RAFT_HOSTS_MAX  32u
#define FLUSH_TIMES     512u
#define INPUT_BYTES     (64u << 10)
#define MIB             (UINT64_C(1) << 20)

struct raft_options {
    uint32_t port;              /* 0: not said */
    uint32_t heartbeat_ms, election_min_ms, election_max_ms, watchdog_ms;
    uint64_t segment_bytes, snapshot_bytes, snapshot_rate;      /* rate: bytes a second to one peer */
    bool     is_synced, allow_network_fs, may_leave_slow_disk;
    char    *recover_at;
    const struct wal_io *io;    /* NULL: the system's; tests */
};

/* What goes between loop and consensus. Asked by the loop, or told to it, in order. */
enum item_kind {
    ITEM_ENTRY,                 /* a proposal; back: committed or dropped (why.code) */
    ITEM_BARRIER,
    ITEM_SKIP,                  /* an entry of the group's own: only counted */
    ITEM_MEMBERS,               /* likewise, with the configuration that it brings */
    ITEM_ROLE,
    ITEM_TAKE,                  /* a snapshot is wanted */
    ITEM_TAKEN,                 /* it is durable, or failed (why) */
    ITEM_INSTALL,               /* a snapshot from the leader is durable: read it; back: done */
    ITEM_ADD, ITEM_REMOVE, ITEM_TRANSFER, ITEM_FORCE, ITEM_RESIGN
};
struct item {
    struct item *next;
    enum item_kind kind;
    struct spur_error why;
    uint64_t index, term;
    void    *cookie;
    void   (*fn)(void *arg, const struct spur_error *err);
    void    *arg;
    enum spur_store_role role;
    bool     is_voter;
    char     name[64], addr[128];
    struct raft_members *members;       /* owned */
    bool     is_own;                    /* asked by the loop: in its list until it is answered */
    struct item *own_next, **own_at;
    size_t   n;
    uint8_t  data[];
};

/* To the writer. `entries` and their data lie behind the struct. */
enum order_kind { ORDER_WRITE, ORDER_RESET, ORDER_CUT };
struct order {
    struct order *next;
    enum order_kind kind;
    uint64_t seq, index, term, vote, commit;
    bool     has_vote;
    size_t   count;
    struct raft_entry *entries;
};

/* To the files thread and back. */
enum job_kind { JOB_PUBLISH, JOB_LOAD, JOB_SEND, JOB_CHUNK, JOB_ROSTER };
struct job {
    struct job *next;
    enum job_kind kind;
    int      code;
    struct spur_error why;
    uint64_t peer, index, term, first, offset, total, size;
    uint64_t group, former;             /* ROSTER */
    uint32_t count;
    bool     is_last;
    struct raft_members members;
    struct snapfile_writer *writer;     /* PUBLISH */
    struct snapfork fork; bool is_forked;       /* PUBLISH: a child still writes it */
    struct raft_entry *entries;         /* LOAD: owned, each with its data */
    uint8_t *data; size_t n;            /* SEND, CHUNK: owned */
    int64_t  due_ms;                    /* SEND: not before */
};
struct job_list { struct job *first, **end; };

/* A connection between accept or dial and the first hello; then a line. */
struct meeting {
    struct meeting *next;
    struct store *s;
    int      fd;
    bool     has_dialled;
    uint32_t line;
    char     name[64], addr[128];       /* dialled: whom; accepted: from where */
    struct spur_channel *channel;
    struct spur_identity who;
    struct spur_error why;
};

struct line {
    struct line *next;
    int      fd;
    bool     has_dialled, has_hello, is_dead, is_replaced;
    uint32_t kind;
    struct spur_channel *channel;
    struct hello hello;                 /* the other end's */
    struct host *host;                  /* dialled: whose; accepted: NULL or whose */
    char     addr[128];
    int64_t  deadline_ms;               /* for the hello */
};

/* A host that is or may become a member: by SlurmctldHost, by the configuration, by an administrator's word. */
struct host {
    char     name[64], addr[128];
    uint32_t listed;                    /* number of its SlurmctldHost line, from 1; 0: none */
    bool     is_self, is_seen;          /* is_seen: said hello since its line is up */
    uint64_t id, group;                 /* of its last hello */
    bool     is_fresh;
    uint32_t feature;
    struct info info;
    int64_t  heard_ms;
    struct line *out[3];                /* by kind */
    bool     is_dialling[3];
    int64_t  dial_ms[3];
    uint32_t backoff_ms[3];
    int64_t  tokens_ms;                 /* the next chunk of a snapshot goes not before */
    uint32_t visits; int64_t visits_ms; /* connections from it within the last ten seconds */
    char     trouble[240];
};

struct door { struct store *self; unsigned pending; };       /* what a posted call finds; under door_lock */

struct store {
    const struct spur_host *host;
    struct raft_options o;
    char    *path;
    char     name[64], addr[128];       /* of this member; addr: address:port */
    uint64_t id;
    struct spur_store_events events;
    bool     is_started, is_running;

    /* Of the loop. */
    enum spur_store_role role;
    uint64_t fence, handed, handed_term, since_snapshot, snapshot_size, snapshot_index, snapshot_retry, entries;
    struct raft_members handed_members;
    bool     is_snapshotting, is_delivering, is_stopping_ask;
    struct item *own;                   /* proposals and barriers that are not answered */
    struct item *late;                  /* did not fit into the ring */
    uint64_t own_bytes;
    uint32_t own_entries;
    enum spur_store_role told_role; uint64_t told_fence; char told_leader[64];

    /* Loop and consensus. */
    struct ring asks, done;
    atomic_int   may_propose;           /* this member leads */
    atomic_ullong applied;
    atomic_ullong barrier_count;
    atomic_llong loop_seen_ms, fresh_ms, lease_ms;
    atomic_bool  is_pinged;
    pthread_mutex_t door_lock;
    struct door *door;
    bool     is_posted;                 /* under door_lock */
    pthread_mutex_t status_lock;
    struct spur_store_status status;    /* as consensus last saw it */
    struct spur_store_member members[RAFT_MEMBERS_MAX];
    struct spur_error failed;           /* under status_lock; code set: FAILED */

    /* Of consensus. */
    pthread_t consensus;
    int      wake_fd, listen_fd;
    atomic_bool is_stopping;
    struct raft *core;
    struct item *done_first, **done_end;        /* did not fit into the ring */
    uint64_t done_bytes, done_put;
    struct order *orders_first, **orders_end;
    struct line *lines;
    uint8_t *input;                     /* INPUT_BYTES for what a socket has */
    struct host hosts[RAFT_HOSTS_MAX]; uint32_t host_count, listed_count;
    uint64_t group, former;             /* former: of before the last promotion by force */
    bool     is_fresh;
    struct raft_members config;
    enum raft_role core_role; uint64_t core_leader; bool is_leader_told;
    uint64_t write_done;
    struct item *barriers, **barriers_end;      /* confirmed by the core, wait for their index to be handed out */
    struct item *held, **held_end;              /* proposals that the core does not take now: a hand-over, or too much under way */
    struct item *reads;                         /* wait for the core */
    uint64_t next_read, handed_out;             /* the last entry put into `done` */
    atomic_ullong done_taken;                   /* bytes of entries that the loop has taken */
    uint64_t seen_commit; int64_t seen_ms;      /* age: the leader's commit that is not applied here yet, and when it was heard */
    int64_t  house_ms, info_ms, status_ms, slow_since_ms, found_since_ms, full_ms, wanted_until_ms, start_ms, hand_over_ms;
    struct { char name[64], addr[128]; bool is_voter; } wanted;
    char     change[400];
    struct job *delayed;                /* chunks that would be over the rate */
    uint64_t snapshot_known;            /* index of the newest snapshot on disk */
    uint32_t meetings_open;             /* accepted, not proven yet */
    struct { char text[64]; int64_t until_ms; uint32_t more; } said[16];
    pthread_mutex_t roster_lock;
    uint64_t roster_seq;                /* under roster_lock */

    /* Meetings. */
    pthread_mutex_t meet_lock;
    pthread_cond_t  meet_over;
    struct meeting *met;                /* results for consensus */
    struct meeting *meeting;            /* under way: for stop */
    unsigned meet_count;

    /* Writer. */
    pthread_t writer;
    int      writer_fd;
    struct ring orders;
    struct wal *wal;
    uint64_t commit_noted, term_noted, vote_noted;
    atomic_ullong written, durable, log_bytes, log_room;
    atomic_bool  is_full;
    atomic_bool  is_cramped;            /* an entry found no room here: another member may have some, so the leadership goes there */
    atomic_llong cramped_ms;            /* when that was last done */
    atomic_bool  writer_stops;
    pthread_mutex_t room_lock;
    pthread_cond_t  room_wake, spare_made;
    struct spur_error full;             /* under room_lock, as all below */
    uint64_t room_tries;
    unsigned spares_wanted;
    bool     room_stops;
    struct { int64_t at_ms; uint32_t us; } times[FLUSH_TIMES];
    uint64_t flushes;

    /* Files. */
    pthread_t room, files;
    pthread_mutex_t jobs_lock;
    pthread_cond_t  jobs_wake;
    struct job_list jobs, jobs_done;
    struct job *forked;                 /* of the files thread: waits for its child */
    bool     files_stop;
    struct snapfile_writer *incoming; uint64_t incoming_index, incoming_term; struct raft_members incoming_members;
    struct snapfile_reader *outgoing;
};

static inline int64_t boot_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void raft_say(const struct store *s, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same, but a line of this kind (its first words) at most once a minute, with a count of what was left out. Consensus. */
void raft_say_rarely(struct store *s, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
void raft_wake(int fd);                                      /* an eventfd */
int  raft_thread(pthread_t *thread, void *(*fn)(void *), void *arg, const char *name, struct spur_error *err);

/* raft.c: for tests, with options and file operations of one's own. */
int store_raft_create(const struct spur_host *host, const char *path, const struct raft_options *o, void **self, struct spur_error *err);
extern const struct spur_store_ops store_raft_ops;

/* deliver.c: to the loop. */
void item_tell(struct store *s, struct item *item);     /* consensus: takes the item */
void tell_flush(struct store *s);                       /* consensus: what did not fit before */
void raft_ring_loop(struct store *s);                        /* any thread: the loop shall look */
void raft_deliver(struct store *s);                          /* loop */
void own_add(struct store *s, struct item *item);       /* loop: proposals and barriers until they are answered */
void own_remove(struct store *s, struct item *item);
int  raft_snapshot_take(struct store *s, struct spur_error *err);
bool raft_ask(struct store *s, struct item *item);           /* loop: false when full; the item stays the caller's */

/* consensus.c */
void *consensus_main(void *store);
void consensus_fail(struct store *s, const struct spur_error *why);    /* any thread */
void raft_status_make(struct store *s);
/* act.c */
void raft_act(struct store *s);                              /* does what the core has ready */
void order_send(struct store *s, struct order *o);
void orders_flush(struct store *s);
void jobs_take(struct store *s);
void jobs_release(struct store *s, int64_t now);        /* chunks of snapshots whose time has come */
/* links.c */
int  lines_listen(struct store *s, struct spur_error *err);
void lines_accept(struct store *s);
void lines_met(struct store *s);                        /* takes results of meetings */
void lines_dial(struct store *s, int64_t now);
bool line_send(struct store *s, struct line *l, uint16_t type, const void *data, size_t n);
void line_write(struct store *s, struct line *l);
void line_read(struct store *s, struct line *l);
void lines_hello(struct store *s);                      /* something in our hello has changed */
void lines_sweep(struct store *s, int64_t now);         /* closes the dead */
void lines_close(struct store *s);
void lines_send(struct store *s, const struct raft_message *m);
/* group.c */
void raft_group_hosts(struct store *s);                      /* from SlurmctldHost, at start */
struct host *raft_group_host(struct store *s, const char *name);
struct host *raft_group_host_of(struct store *s, uint64_t id);
struct host *raft_group_host_add(struct store *s, const char *name, const char *addr);
void raft_group_hello(struct store *s, struct line *l, const struct hello *h);
void raft_group_turn(struct store *s, int64_t now);
void raft_group_members(struct store *s, const struct raft_members *m);
int  raft_group_force(struct store *s, struct spur_error *err);
void raft_group_superseded(struct store *s, const char *by);
/* roster.c: the file `members` beside the log. */
struct roster { uint64_t group, former; bool is_superseded; struct raft_members members; };     /* is_superseded: the others went on without this folder */
int  roster_read(const char *path, struct roster *out, struct spur_error *err);
int  roster_write(struct store *s, const struct roster *r, struct spur_error *err);     /* now */
uint64_t roster_seq(struct store *s);
int  roster_follow(struct store *s, uint64_t seq, const struct roster *r, struct spur_error *err);      /* unless roster_write came after roster_seq */
/* meet.c */
int  meet_start(struct store *s, struct meeting *m);    /* takes it */
void meet_stop(struct store *s);
/* writer.c */
void *writer_main(void *store);
void *room_main(void *store);
void flush_times(struct store *s, uint32_t *p50, uint32_t *p99, uint32_t *most, int64_t since_ms, uint32_t *count);
void room_publish(struct store *s);
/* files.c */
void *files_main(void *store);
void files_put(struct store *s, struct job *j);
void raft_job_free(struct job *j);
/* replay.c */
int  raft_replay(struct store *s, struct raft_restored *out, struct spur_error *err);
void raft_replay_free(struct raft_restored *r);

#endif
