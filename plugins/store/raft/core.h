/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - the consensus of store/raft as a pure step function: inputs go in, a `ready` comes out.
 *
 * No I/O, clock, thread, lock or randomness of its own: the time is an argument, the seed of the election timers too. The same code
 * runs in the controller (raft.c: one thread calls it) and in the simulator (tests/sim). One thread at a time.
 *
 * The rule that keeps it safe: everything in a `ready` may be done at once and in any order. What must wait for the disk (a granted
 * vote, an acknowledged entry, the leader's own copy counting for a majority) is held back by the core until raft_written() has
 * confirmed the write it depends on, and comes in a later `ready`. Between raft_ready and raft_done no input may be given. Times are milliseconds of a clock that goes on while the machine sleeps.
 *
 * Algorithm: Ongaro's Raft (dissertation, 2014) with pre-vote (9.6), check-quorum, vote stickiness (no vote and no pre-vote while a leader
 * has been heard within the lowest election timeout), a no-op entry at the start of a term, learners, membership one at a time (4.1-4.3; a
 * configuration counts as soon as it is in the log and goes back when its entry is cut off), transfer of leadership (3.10), read index and
 * leader lease (6.4), pipelined append with a window for each peer and a conflict hint by term.
 */
#ifndef RAFT_CORE_H
#define RAFT_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#define RAFT_MEMBERS_MAX 16
#define RAFT_NOBODY 0u
#define RAFT_ENTRY_MAX (32u << 20)      /* bytes of data in one entry */

enum raft_role { RAFT_FOLLOWER, RAFT_PRECANDIDATE, RAFT_CANDIDATE, RAFT_LEADER };

/* A member is one data folder: its id is drawn at random when the folder is made, so a wiped host is somebody else and never votes twice. */
struct raft_member {
    uint64_t id;
    bool is_voter;
    bool will_vote;                     /* a learner that becomes a voter as soon as it has caught up */
    char name[64], addr[128];
};
struct raft_members { struct raft_member rows[RAFT_MEMBERS_MAX]; uint32_t count; };

enum raft_entry_type { RAFT_ENTRY_DATA = 1, RAFT_ENTRY_NOOP = 2, RAFT_ENTRY_MEMBERS = 3 };      /* MEMBERS: data is raft_members_pack's */
struct raft_entry {
    uint64_t term, index;
    uint32_t type;
    const void *data; size_t n;         /* borrowed from whoever gives it */
};

struct raft_config {
    uint64_t self;                      /* id of this member, never RAFT_NOBODY */
    uint32_t heartbeat_ms, election_min_ms, election_max_ms;
    uint32_t drift_ms;                  /* taken off the lease */
    uint32_t append_bytes_max, append_entries_max;      /* of one append message */
    uint32_t window_messages;           /* append messages under way to one peer */
    uint64_t cache_bytes;               /* entries kept in memory for peers, all not yet durable or applied aside */
    uint64_t seed;
};

/* What the disk had at start. Entries follow the snapshot without a gap; an empty folder has none of it: such a member never
 * campaigns, grants votes and takes entries from whoever has it in his configuration. */
struct raft_restored {
    uint64_t term, vote;                /* vote RAFT_NOBODY: none in this term */
    uint64_t snapshot_index, snapshot_term; struct raft_members snapshot_members;       /* index 0: none */
    const struct raft_entry *entries; size_t count;     /* copied as far as the cache holds; an applied one may come without its data (NULL): it is on disk only */
    uint64_t applied;                   /* >= snapshot_index: what the state has already */
};

enum raft_message_type {
    RAFT_PREVOTE = 1, RAFT_PREVOTE_REPLY, RAFT_VOTE, RAFT_VOTE_REPLY,
    RAFT_APPEND, RAFT_APPEND_REPLY,     /* an append without entries is the heartbeat */
    RAFT_SNAPSHOT, RAFT_SNAPSHOT_REPLY, /* chunk by chunk; the bytes are the shell's (struct raft_ready, send) */
    RAFT_TIMEOUT_NOW                    /* the leader hands over: campaign at once, without pre-vote */
};
/* One struct for all; which members count stands in the comment. `term`: of the sender, except in a pre-vote (the term he would have). */
struct raft_message {
    uint32_t type;
    uint64_t from, to, term;
    uint64_t index, log_term;           /* VOTE, PREVOTE: last entry of the candidate. APPEND: the entry before the first. SNAPSHOT, _REPLY: of the snapshot */
    uint64_t commit;                    /* APPEND */
    uint64_t round;                     /* APPEND, _REPLY: number of the heartbeat round, for lease and read index */
    uint64_t sent_ms;                   /* APPEND: the leader's clock, sent back unchanged in the reply */
    bool     reject;                    /* replies */
    bool     by_transfer;               /* VOTE: a transfer was ordered: stickiness does not hold */
    uint64_t match;                     /* APPEND_REPLY: all up to it is durable AND equal to this leader's log */
    uint64_t hint_index, hint_term;     /* APPEND_REPLY, reject: where to look next */
    const struct raft_entry *entries; size_t count;     /* APPEND; borrowed for the call, or until raft_done */
    uint64_t offset, total; const void *data; size_t n; bool is_last;   /* SNAPSHOT; _REPLY: offset is how far the receiver has got */
    const struct raft_members *members; /* SNAPSHOT: of the snapshot, in each chunk; else NULL */
};

/* What to do now. Borrowed until raft_done(). */
struct raft_ready {
    const struct raft_message *messages; size_t message_count;          /* to send; may be lost */
    /* To write, all of it with one flush, then raft_written(write_seq). 0: nothing. A new write may be ordered before the last is confirmed;
     * writes are done in their order. */
    uint64_t write_seq;
    bool     has_vote; uint64_t term, vote;     /* term and vote to store */
    const struct raft_entry *entries; size_t count;     /* first entry's index <= the last one written: cut the tail off there first */
    /* Committed and not handed out yet: apply them in order, then raft_applied(). Data is there; entries not DATA are for counting only. */
    const struct raft_entry *committed; size_t committed_count;
    const struct raft_read { uint64_t id, index; bool is_refused; } *reads; size_t read_count;      /* answer once `index` is applied */
    const struct raft_dropped { uint64_t index; void *cookie; } *dropped; size_t dropped_count;     /* proposals that another leader may or may not still commit */
    bool     has_role; enum raft_role role; uint64_t leader;            /* changed; leader RAFT_NOBODY: unknown */
    bool     is_leader_ready;           /* with has_role, or later with role LEADER: the no-op of this term is committed and all before it handed out */
    bool     has_members; const struct raft_members *members;           /* the configuration in force has changed */
    /* A peer is further behind than the log goes: send him the newest snapshot (from `offset`). The shell answers with raft_snapshot_chunk() one chunk at a time. */
    const struct raft_send { uint64_t to, offset; uint64_t snapshot_index; /* 0: from the start of the newest */ } *sends; size_t send_count;
    /* A chunk of a snapshot came from the leader: keep it; when is_last is whole, checked and durable: raft_snapshot_installed(). */
    const struct raft_message *chunk;
    /* Entries that a peer needs and the cache no longer has: read them from the log, raft_loaded(). */
    uint64_t load_first; uint32_t load_count;           /* count 0: none */
    bool     wants_snapshot;            /* a peer needs one and there is none: take one now */
};

struct raft;
struct raft *raft_create(const struct raft_config *config, const struct raft_restored *restored);
void raft_destroy(struct raft *r);

/* The founder of a group writes its first configuration, himself in it, as entry 1: only on a member with nothing at all. */
int  raft_found(struct raft *r, const struct raft_members *members, struct spur_error *err);
/* By an administrator's force on a member whose group has lost its majority: he alone is the voter from now on, all others are gone. */
int  raft_force_alone(struct raft *r, uint64_t now_ms, struct spur_error *err);

/* Inputs. After any number of them: raft_ready, act, raft_done. */
void raft_tick(struct raft *r, uint64_t now_ms);                        /* at least each quarter of heartbeat_ms; a late tick is only late */
uint64_t raft_next_ms(const struct raft *r);                            /* when the next tick can matter */
void raft_message(struct raft *r, uint64_t now_ms, const struct raft_message *m);       /* m->from is who the channel proved; copies what it keeps */
void raft_peer_lost(struct raft *r, uint64_t now_ms, uint64_t peer);    /* the connection was reset: when it is the leader, ask for a pre-vote soon, not after the whole timeout */
/* Copies data. `cookie` comes back with the committed entry (raft_cookie) or in `dropped`. *index: where it will stand. ENOTLEADER, EBUSY (too much under way), ELIMIT. */
int  raft_propose(struct raft *r, uint64_t now_ms, const void *data, size_t n, void *cookie, uint64_t *index, struct spur_error *err);
void *raft_cookie(const struct raft *r, uint64_t index, uint64_t term); /* of an entry proposed here in this term; NULL: another's. Until raft_applied */
void raft_written(struct raft *r, uint64_t now_ms, uint64_t write_seq);
void raft_applied(struct raft *r, uint64_t index);
/* Answered through ready.reads with the id: everything committed anywhere before this call is at or below its index. Leader: lease or a round; others refuse (ENOTLEADER). */
int  raft_read(struct raft *r, uint64_t now_ms, uint64_t id, struct spur_error *err);
bool raft_has_lease(const struct raft *r, uint64_t now_ms);             /* true: nobody else can have committed anything at now_ms */
/* One at a time (EBUSY while the last is not committed). A voter is added as learner and promoted by the core when it has caught up. */
int  raft_member_add(struct raft *r, uint64_t now_ms, const struct raft_member *m, struct spur_error *err);     /* is_voter: to be promoted */
int  raft_member_remove(struct raft *r, uint64_t now_ms, uint64_t id, struct spur_error *err);
int  raft_transfer(struct raft *r, uint64_t now_ms, uint64_t to, struct spur_error *err);      /* RAFT_NOBODY: the one who is furthest */
void raft_resign(struct raft *r, uint64_t now_ms);                      /* the disk or the loop is not well: step down, do not campaign for a while */
void raft_set_mute(struct raft *r, bool may_not_vote);                  /* rot was found: neither votes nor campaigns until a leader elected later has refilled it */

/* Snapshots. */
void raft_snapshot_taken(struct raft *r, uint64_t index, uint64_t term, const struct raft_members *members);    /* of the own state, durable: forget the log up to raft_log_keep() */
uint64_t raft_log_keep(const struct raft *r);                           /* after snapshot_taken or _installed the log on disk may be cut up to this index */
void raft_snapshot_chunk(struct raft *r, uint64_t now_ms, uint64_t to, const struct raft_message *chunk);       /* index, log_term, offset, total, data, n, is_last, members; total 0: cannot be read now */
/* Durable and the state replaced. True: nothing of the old log counts any more, empty the one on disk before the next write. */
bool raft_snapshot_installed(struct raft *r, uint64_t now_ms, uint64_t index, uint64_t term, const struct raft_members *members);
void raft_snapshot_refused(struct raft *r, uint64_t now_ms);            /* damaged on arrival: ask for it again from the start */
void raft_loaded(struct raft *r, uint64_t now_ms, const struct raft_entry *entries, size_t count);      /* 0: not there any more: the peer gets a snapshot */

/* Output. */
bool raft_has_ready(const struct raft *r);
void raft_ready(struct raft *r, struct raft_ready *out);
void raft_done(struct raft *r);

struct raft_peer { uint64_t id, match, next; bool is_voter, is_active, is_snapshotting; uint64_t heard_ms; };
struct raft_status {
    enum raft_role role; uint64_t term, vote, leader, last_index, last_term, commit, applied, written, snapshot_index, lease_until_ms;
    bool is_muted, has_pending_members, is_leader_ready;
    uint64_t transfer_to;               /* RAFT_NOBODY: no hand-over under way */
    uint64_t broken_messages;           /* dropped because no right peer can have sent them */
    struct raft_members members; struct raft_peer peers[RAFT_MEMBERS_MAX]; uint32_t peer_count;
};
void raft_status(const struct raft *r, struct raft_status *out);
/* The configuration as of an entry that is applied and not cut off: what a snapshot at `index` has to carry. */
const struct raft_members *raft_members_at(const struct raft *r, uint64_t index);
/* Term of an entry that the log still has (snapshot's last included); 0: not there. For the simulator's invariants too. */
uint64_t raft_term_at(const struct raft *r, uint64_t index);

size_t raft_members_pack(const struct raft_members *m, uint8_t *out, size_t room);      /* bytes needed */
int    raft_members_unpack(struct raft_members *m, const void *data, size_t n);         /* ECORRUPT */

#endif
