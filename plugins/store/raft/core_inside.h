/* SPDX-License-Identifier: Apache-2.0 */
/* core_inside.h - what the files of the consensus core share; nobody else includes it.
 *
 * core.c         entry points: inputs are checked and handed on, a ready is put together
 * core_log.c     entries in memory, terms of all that the log has, writes under way, cookies of proposals
 * core_members.c configurations: pack, force, roll back, quorum, one change at a time
 * core_election.c pre-vote, vote, roles, hand-over
 * core_replicate.c leader -> followers: progress, windows, acknowledgements, commit
 * core_follow.c  follower: appends of the leader, and what is answered
 * core_read.c    lease and read index
 * core_snapshot.c snapshots taken, sent, received
 */
#ifndef RAFT_CORE_INSIDE_H
#define RAFT_CORE_INSIDE_H

#include "core.h"
#include "core_fault.h"

#define RAFT_WINDOW_MAX 64u
#define RAFT_TERM_MAX (UINT64_MAX >> 4)             /* a peer's numbers beyond are not believed: nothing here overflows */
#define RAFT_FORCE_TERMS (1u << 20)
#define RAFT_CHUNK_MAX (8u << 20)
#define RAFT_UNCOMMITTED_BYTES (128u << 20)         /* proposals beyond are refused */
#define RAFT_UNCOMMITTED_ENTRIES 65536u
#define RAFT_HANDED_BYTES (32u << 20)               /* committed data handed out and not applied yet */
#define RAFT_PROBE_BYTES (64u << 10)                /* entries that ride along while it is not known where a peer's log ends */
#define RAFT_NEWS_MS 5u                             /* followers hear of a commit at the next append, or after this */
#define RAFT_LOST_MS 20u                            /* a leader whose connection was reset may come back within */

/* Our own invariants; never what a peer says. Always compiled in: an abort is cheaper than a lie, and the daemon is started again. */
#define RAFT_MUST(condition) ((condition) ? (void)0 : raft_broken(#condition, __FILE__, __LINE__))
_Noreturn void raft_broken(const char *condition, const char *file, int line);
void *raft_alloc(size_t n);                         /* zeroed; ends the process when there is none */
void *raft_grow(void *rows, size_t *room, size_t count, size_t row_size);       /* room for one more */
void *raft_copy(const void *data, size_t n);        /* NULL for nothing */

struct run { uint64_t first, term; };               /* entries from `first` on have this term, up to the next run */

struct write { uint64_t seq, last; };               /* under way; `last` is clamped when a tail is cut off */

struct log {
    struct raft_entry *rows; void **cookies;        /* rows[head] is entry mem_first; data is owned here */
    size_t   head, count, room;
    uint64_t mem_first, last;
    uint64_t bytes, uncommitted_bytes, handed_bytes;
    uint64_t floor, floor_term;                     /* the last entry that the log does not have any more */
    struct run *runs; size_t run_count, run_room;   /* terms of floor+1 .. last */
    uint64_t next_write;                            /* first entry that no write was ordered for */
    uint64_t durable;
    struct write *writes; size_t write_count, write_room;
    uint64_t ordered_seq, written_seq;
};

enum progress { PEER_PROBE, PEER_REPLICATE, PEER_SNAPSHOT };
struct flight { uint64_t last, sent_ms; };

struct peer {
    uint64_t id;
    bool     is_voter, has_answered;                /* answered: in this term */
    bool     has_voted, has_granted;
    enum progress state;
    uint64_t match, next;
    uint64_t heard_ms, round, lease_ms;             /* lease_ms: our own send time of the newest append it has answered */
    uint64_t sent_ms, commit_sent;
    bool     is_beat_due;
    bool     is_probing; uint64_t probe_ms;         /* a probe is out since */
    struct flight flights[RAFT_WINDOW_MAX]; uint32_t flight_head, flight_count;
    uint64_t catch_target, catch_ms;                /* a learner's round of catching up */
    /* PEER_SNAPSHOT */
    uint64_t snapshot_index, offset, asked_ms;      /* index 0: not known yet; offset: what the peer has */
    bool     is_asked;                              /* the shell was asked for the chunk at `offset`, or it is under way */
    struct raft_message chunk; struct raft_members chunk_members; bool has_chunk;
};

struct config { uint64_t index; struct raft_members members; };
struct held   { uint64_t seq; struct raft_message m; };
struct read   { uint64_t id, round; };

struct raft {
    struct raft_config config;
    uint64_t rng, now, promise_ms;                  /* promise: how long a follower stays faithful to a leader whose connection was reset */
    bool     has_time, is_lent;

    uint64_t term, vote; bool is_hard_dirty; uint64_t hard_seq;         /* hard_seq: the write that holds the present term and vote */
    enum raft_role role; uint64_t leader;
    bool     is_role_dirty, is_muted; uint64_t mute_term;
    uint64_t deadline, quiet_until;                 /* of the election timer; no candidacy before quiet_until */
    uint64_t vote_seq; bool has_own_vote;           /* candidate: its own vote counts when this write is confirmed */

    struct log log;
    uint64_t commit, handed, applied;
    struct config *configs; size_t config_count, config_room;           /* by index; the first is at or below the floor */
    struct raft_members members; uint64_t members_index; bool is_members_dirty;     /* in force */

    /* Follower. */
    uint64_t heard_ms; bool is_leader_lost;
    uint64_t matched;                               /* all up to it equals the log of this term's leader */
    uint64_t last_round, last_sent_ms;
    bool     is_reply_due;
    struct { uint64_t from, index, term, total, offset; bool is_installing; } receiving;
    struct raft_message chunk; struct raft_members chunk_members; bool has_chunk;

    /* Leader. */
    struct peer *peers; uint32_t peer_count;
    uint64_t noop, round, beat_ms, since_ms;        /* noop: the first entry of this term */
    bool     is_round_wanted, is_leader_ready, is_ready_told, is_lease_off;
    uint64_t transfer_to, transfer_until; bool is_transfer_sent;
    struct read *reads; size_t read_count, read_room;

    uint64_t snapshot_index, snapshot_term; bool is_snapshot_wanted;
    struct raft_members snapshot_members;
    struct { uint64_t first; uint32_t count; bool is_asked; } load;
    struct raft_entry *loaded; size_t loaded_count; uint64_t loaded_first;

    /* Outputs that wait for a ready. */
    struct raft_message *messages; size_t message_count, message_room;
    struct held *held; size_t held_count, held_room;
    struct raft_read *answers; size_t answer_count, answer_room;
    struct raft_dropped *dropped; size_t dropped_count, dropped_room;
    struct raft_send *sends; size_t send_count, send_room;
    uint64_t broken_messages;
};

/* core.c */
void input_begin(struct raft *r, uint64_t now_ms);
void applied_set(struct raft *r, uint64_t index);
uint64_t raft_random(struct raft *r, uint64_t below);
struct raft_message *message_new(struct raft *r, uint32_t type, uint64_t to);       /* zeroed, from and term filled; goes with the next ready */
void message_hold(struct raft *r, const struct raft_message *m);        /* goes when all that waits for the disk now is durable */

/* core_log.c */
void     log_init(struct log *l, const struct raft_restored *restored);
void     log_fini(struct log *l);
uint64_t log_term(const struct log *l, uint64_t index);                 /* 0: not there */
uint64_t log_append(struct raft *r, uint64_t term, uint32_t type, const void *data, size_t n, void *cookie);
void     log_truncate(struct raft *r, uint64_t from);                   /* drops from..last */
void     log_reset(struct raft *r, uint64_t index, uint64_t term);      /* nothing but a snapshot */
void     log_floor(struct raft *r, uint64_t index);
void     log_evict(struct raft *r);
const struct raft_entry *log_row(const struct log *l, uint64_t index);  /* NULL: not in memory */
uint64_t log_find(const struct log *l, uint64_t index, uint64_t term);  /* last entry at or before `index` of a term no newer */
uint64_t log_order(struct raft *r);                                     /* everything not ordered yet goes into a new write: its seq */
bool     log_written(struct raft *r, uint64_t seq);                     /* true: `durable` has grown */
uint64_t log_due_seq(const struct raft *r);                             /* the write after which all there is now is durable */
void     log_drop_cookies(struct raft *r, uint64_t after);

/* core_members.c */
const struct raft_member *members_find(const struct raft_members *m, uint64_t id);
bool     members_valid(const struct raft_members *m);
void     members_push(struct raft *r, uint64_t index, const struct raft_members *m);
void     members_cut(struct raft *r, uint64_t from);                    /* roll back */
void     members_floor(struct raft *r, uint64_t index);
void     members_refresh(struct raft *r);
bool     members_is_voter(const struct raft *r, uint64_t id);
uint32_t members_voters(const struct raft *r);
uint32_t members_quorum(const struct raft *r);
uint64_t members_order(const struct raft *r, uint64_t own, uint64_t (*of)(const struct raft *r, const struct peer *p));    /* the value that a quorum of voters has reached */
void     members_promote(struct raft *r);
void     members_committed(struct raft *r);                             /* leader: step down when no voter any more */

/* core_election.c */
void election_timer(struct raft *r);
bool election_is_faithful(const struct raft *r);
void become_follower(struct raft *r, uint64_t term, uint64_t leader);
void become_leader(struct raft *r);
void election_tick(struct raft *r);
void election_written(struct raft *r);
void election_prevote(struct raft *r, const struct raft_message *m);
void election_prevote_reply(struct raft *r, const struct raft_message *m);
void election_vote(struct raft *r, const struct raft_message *m);
void election_vote_reply(struct raft *r, const struct raft_message *m);
void election_timeout_now(struct raft *r, const struct raft_message *m);
void election_hand_over(struct raft *r);                                /* leader: the target may have everything now */
void election_step_down(struct raft *r, bool with_successor);

/* core_replicate.c */
struct peer *peer_find(struct raft *r, uint64_t id);
void peers_rebuild(struct raft *r, bool is_fresh);
void peers_free(struct raft *r);
void peer_probe(struct peer *p, uint64_t next);
void replicate_tick(struct raft *r);
void replicate_reply(struct raft *r, const struct raft_message *m);
void replicate_commit(struct raft *r);
void replicate_fill(struct raft *r);                                    /* messages for all peers */
bool replicate_has_work(const struct raft *r);
bool replicate_heard(struct raft *r, struct peer *p, const struct raft_message *m);

/* core_follow.c */
void follow_append(struct raft *r, const struct raft_message *m);
bool follow_leader(struct raft *r, uint64_t from);                      /* false: cannot be */
void follow_reply(struct raft *r);
void follow_commit(struct raft *r, uint64_t commit);

/* core_read.c */
void     read_check(struct raft *r);
void     read_refuse_all(struct raft *r);
uint64_t lease_until(const struct raft *r);

/* core_snapshot.c */
void snapshot_message(struct raft *r, const struct raft_message *m);
void snapshot_reply(struct raft *r, const struct raft_message *m);
void snapshot_fill(struct raft *r, struct peer *p);
bool snapshot_has_work(const struct raft *r, const struct peer *p);
void snapshot_kept(struct raft *r);                                     /* the shell has taken the chunk */
void snapshot_peer_reset(struct peer *p);

#endif
