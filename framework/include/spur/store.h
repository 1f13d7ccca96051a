/* SPDX-License-Identifier: Apache-2.0 */
/* spur/store.h - the kind `store`: keeps the log of entries and the snapshots, and says who leads. ABI 0.2.
 *
 * The host proposes entries (opaque bytes), the store makes them durable on enough members and hands them back in order;
 * only then may the host answer its clients. Nothing here assumes Raft: a single file log is one, an outside engine could
 * be another. All ops are called on the loop's thread and return at once; slow work runs on the store's own threads,
 * results come back through the callbacks, always on the loop's thread (host->post). Mandatory: start, propose, stop, status.
 * The optional members beyond `member` are for groups of several (SPUR_CAP_REPLICATED). Structs here grow at their end with the minor of the ABI.
 */
#ifndef SPUR_STORE_H
#define SPUR_STORE_H

#include <stdbool.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spur_store_role { SPUR_STORE_STARTING = 0, SPUR_STORE_FOLLOWER, SPUR_STORE_LEADER, SPUR_STORE_LEARNER, SPUR_STORE_FAILED };

/* A stream of bytes to or from a snapshot; functions return bytes handled or a negative SPUR_E code. Any thread. */
struct spur_store_sink   { void *arg; long (*write)(void *arg, const void *data, size_t n); };
struct spur_store_source { void *arg; long (*read)(void *arg, void *data, size_t n); };     /* 0: end */

struct spur_store_events {
    uint32_t size;
    void    *arg;
    /* A committed entry, in order, each index once per run (replay at start included). Data is borrowed. `cookie`: as proposed here, else NULL. */
    void (*committed)(void *arg, uint64_t index, const void *data, size_t n, void *cookie);
    /* A proposal that will not be committed by this member (ESTALE, ENOTLEADER: it may or may not be committed by another; ENOSPACE, EIO: it is not). */
    void (*dropped)(void *arg, void *cookie, const struct spur_error *why);
    /* The role has changed. `fence` grows with each leadership anywhere: effects carry it. `leader`: member name or NULL. All entries of
     * earlier leaders have been handed out before SPUR_STORE_LEADER is told. SPUR_STORE_FAILED: the store cannot go on, err says why; end the process. */
    void (*role)(void *arg, enum spur_store_role role, uint64_t fence, const char *leader, const struct spur_error *err);
    /* Write the state as of the last entry handed out: called on the loop's thread, or in a child that the store has forked there, so it may allocate
     * and read, but changes nothing that lives on and uses no loop, lock or thread. / Replace the state by that snapshot, on the loop's thread. */
    int  (*snapshot_write)(void *arg, const struct spur_store_sink *sink, struct spur_error *err);
    int  (*snapshot_read)(void *arg, uint64_t index, const struct spur_store_source *source, struct spur_error *err);
    /* since 0.2 */
    uint32_t feature;           /* highest level of entries that this host can apply: the other members are told, see spur_store_status.feature_min */
};

struct spur_store_member {
    char name[64], addr[128];
    enum spur_store_role role;
    bool voter, reachable;
    uint64_t index;             /* of the last entry that it is known to have on its disk */
    /* since 0.2 */
    uint64_t lag;               /* entries that it is behind the leader; known on the leader and on the member itself */
    int64_t  heard_ms;          /* how long ago it was heard of; 0: this member itself; -1: never */
    uint32_t flush_p50_us, flush_p99_us;        /* of its disk, as it last said; 0: not known */
    uint32_t feature;           /* spur_store_events.feature of its host; 0: not known */
    bool is_self, is_installing;                /* is_installing: gets a snapshot now */
};
struct spur_store_status {
    uint32_t size;
    enum spur_store_role role;
    uint64_t fence, committed, durable, snapshot_index;     /* the last three: indices of entries; 0: none */
    uint64_t log_bytes, log_limit, disk_free;               /* bytes */
    uint32_t flush_p50_us, flush_max_us;    /* of the last minute */
    uint32_t member_count;
    uint64_t flushes, entries;              /* since start */
    /* since 0.2 */
    uint64_t term, last_index, applied;     /* applied: the last entry handed out here */
    /* Age of what this member shows, in milliseconds: everything committed so long ago has been handed out here. A leader with a lease: 0. -1: no leader was
     * ever heard. Grows while there is no leader. */
    int64_t  age_ms;
    uint32_t flush_p99_us;
    uint32_t voters, voters_reachable;      /* fewer than a majority reachable: nothing will be committed */
    uint32_t feature_min;                   /* the lowest level of all voters: entries of a higher one must not be proposed. 0: some voter was not heard yet */
    bool     has_leader, is_muted;          /* is_muted: damage was found here, this member does not vote until it is refilled */
    uint64_t barriers;                      /* linearizable reads answered since start */
    char     leader[64], leader_addr[128];  /* "" : nobody is known; the address is the store's own, not the clients' */
    char     group[40];                     /* identity of the group; "": not founded yet */
    char     change[200];                   /* in words: what is under way (founding, a member that joins, a hand-over), or why the last such thing failed; "" */
};

struct spur_store_ops {
    uint32_t size;
    /* Reads what is there, replays it through events->snapshot_read and events->committed, then tells a role. Replay happens before start returns.
     * `events` is borrowed until stop. ECORRUPT, EIO, EBUSY (another process has it): nothing was changed, and the sentence says what to do. */
    int  (*start)(void *self, const struct spur_store_events *events, struct spur_error *err);
    /* Make this entry durable. Copies data. 0: one of committed/dropped follows with the cookie; else refused at once (ENOTLEADER, ENOSPACE, EBUSY, ELIMIT). */
    int  (*propose)(void *self, const void *data, size_t n, void *cookie, struct spur_error *err);
    /* Calls fn(arg, err) on the loop when everything committed anywhere before this call has been handed out here (linearizable read). Optional. */
    int  (*barrier)(void *self, void (*fn)(void *arg, const struct spur_error *err), void *arg, struct spur_error *err);
    /* Take a snapshot now and cut the log; otherwise the store decides by size. Optional. */
    int  (*snapshot)(void *self, struct spur_error *err);
    /* Fills what out->size covers; the caller sets it. */
    void (*status)(void *self, struct spur_store_status *out);
    /* Member i of status.member_count. Optional. */
    int  (*member)(void *self, uint32_t i, struct spur_store_member *out);
    /* Membership and leadership changes, for stores with SPUR_CAP_REPLICATED. Optional. On the leader only (ENOTLEADER), one at a time (EBUSY). 0: begun; the
     * end is seen in status (change) and member. member_add asks `addr` for its identity first; the new one is a learner until it has caught up, then a voter when so asked. */
    int  (*member_add)(void *self, const char *name, const char *addr, bool voter, struct spur_error *err);
    int  (*member_remove)(void *self, const char *name, struct spur_error *err);
    int  (*transfer)(void *self, const char *to, struct spur_error *err);       /* to NULL: whoever is furthest */
    /* Finishes what was proposed (dropped or committed is told for each), closes files. Blocks shortly. Nothing is posted after it has returned; what was posted before
     * is run, or never run, but not after close: a module's code is gone then. */
    void (*stop)(void *self);
    /* since 0.2, optional */
    /* This member alone is the group from now on: for a site whose majority is lost for good. What only the others had is lost. Works on a follower or a learner
     * without a leader; EBUSY while a leader is heard. */
    int  (*promote_force)(void *self, struct spur_error *err);
    /* The host is about to stop or is not well: hand the leadership over, or at least step down. Nothing on a follower. Begun at once, told by the role event. */
    int  (*resign)(void *self, struct spur_error *err);
};

#ifdef __cplusplus
}
#endif
#endif
