/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h - a whole group of controllers in one process: the real consensus core of store/raft and the real apply, under a virtual
 * clock, with disks, network, clients and an administrator that one seed decides about.
 *
 *   drive.c    what the disk of a member has, and what a crash leaves of it
 *   member.c   the shell around the core: does what a `ready` says, as the controller's threads do
 *   host.c     the controller on top of it: entries, apply, snapshots, answers
 *   client.c   clients that repeat until they have an answer, and read
 *   nemesis.c  crashes, partitions, slow and lying disks, clocks, changes of membership
 *   check.c    the invariants, after each step
 *   run.c      one seed from start to end
 *
 * Nothing here reads a real clock, so the same seed gives the same run.
 */
#ifndef TEST_SIM_CLUSTER_H
#define TEST_SIM_CLUSTER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/table.h"
#include "core.h"
#include "sim/clock.h"
#include "sim/events.h"
#include "sim/network.h"
#include "sim/random.h"
#include "state/apply.h"

enum { MEMBERS = 24,        /* data folders that one run can have, one after the other: places 0.. of the network */
       CLIENTS = 5,         /* places MEMBERS.. */
       PLACES = MEMBERS + CLIENTS, OPS = 1024 };
#define NOBODY UINT32_MAX
#define MS 1000u
#define SECOND 1000000u

/* ---- the disk of a member (drive.c) ---- */

struct lump { unsigned refs; size_t n; uint64_t hash; uint8_t bytes[]; };
struct slot { uint64_t term; uint32_t type; struct lump *lump; };           /* an entry */
struct order {                          /* a write that is not confirmed yet */
    uint64_t seq;
    bool     has_vote; uint64_t term, vote;
    uint64_t first; struct slot *slots; size_t count;
    uint64_t commit;                    /* a note rides along: committed as far as known */
};
struct snapshot { uint64_t index, term; struct raft_members members; struct lump *bytes; bool is_bad; };
struct drive {
    uint64_t term, vote, commit;        /* durable */
    uint64_t first; struct slot *slots; size_t count, room;
    struct order *orders; size_t order_count, order_room;
    struct snapshot snapshots[2];       /* newest first; index 0: none */
    bool     is_flushing, is_full;
    uint64_t slow_until_us;
};
struct lump *lump_new(const void *data, size_t n);
struct lump *lump_hold(struct lump *b);
void lump_drop(struct lump *b);
void drive_fini(struct drive *d);
void drive_order(struct drive *d, const struct raft_ready *rd, uint64_t commit);
void drive_confirm(struct drive *d, size_t orders);                         /* the oldest ones are durable now */
void drive_crash(struct drive *d, struct sim_random *random);               /* any prefix of the records that were not durable survives */
bool drive_rot(struct drive *d, struct sim_random *random);                 /* a durable record is unreadable: it and all behind it is lost */
void drive_snapshot(struct drive *d, const struct snapshot *taken);
void drive_install(struct drive *d, const struct snapshot *got);
void drive_cut(struct drive *d, uint64_t index);
const struct slot *drive_slot(const struct drive *d, uint64_t index);       /* durable; NULL: not there */
void drive_last(const struct drive *d, uint64_t *index, uint64_t *term);    /* durable, snapshot included */
uint64_t drive_term_at(const struct drive *d, uint64_t index);              /* durable, snapshot's included; 0: not there */
bool drive_restore(struct drive *d, struct raft_restored *out, struct raft_entry **entries);    /* false: nothing can be made of it */

/* ---- members ---- */

struct proposal { uint32_t ops[16]; uint32_t count; struct proposal *next; };
struct member {
    struct cluster *c;
    unsigned place; uint64_t id;
    struct raft *raft;                  /* NULL: the process does not run */
    struct state *state;
    uint64_t applied, applied_term;     /* what `state` has */
    uint64_t told;                      /* how much of it the core knows to be applied */
    struct raft_members members_applied;/* the configuration as of `applied` */
    uint32_t life;                      /* counts starts: what was meant for an earlier one is dropped */
    bool is_gone;                       /* wiped, or taken out for good: never comes back */
    bool is_muted;                      /* rot was found; until the core says that it is over */
    bool is_paused; uint64_t paused_us; struct sim_event *backlog; size_t backlog_count, backlog_room;
    struct sim_clock boot, wall;
    struct drive drive;
    uint64_t tick_us;                   /* when the next tick is queued for; 0: none */
    struct proposal *proposals;         /* cookies that are out */
    uint32_t waiting[64]; uint32_t waiting_count; bool is_proposing;        /* requests for the next entry */
    int64_t cluster_base_ms; int64_t cluster_boot_ms;
    struct { uint64_t index, term, have, total; struct raft_members members; uint8_t *bytes; size_t room; bool is_installing; } incoming;
    bool is_snapshotting; uint64_t snapshot_due;
    bool is_leader_ready;
    uint64_t reads_next; struct read { uint64_t id; uint32_t client, request; uint64_t floor; } reads[16]; uint32_t read_count;
    /* as last seen by check.c */
    enum raft_role role; uint64_t term, commit, leader;
    struct { uint64_t index; struct raft_members members; } config_log[32]; uint32_t config_count;  /* configurations in the log as written */
};

/* ---- clients ---- */

enum op_kind { OP_SUBMIT, OP_ARRAY, OP_CANCEL };
struct op {
    enum op_kind kind; uint32_t client; uint8_t token[16]; int64_t token_wall_ms; uint32_t target;  /* job to cancel */
    uint32_t tasks;
    bool is_done; int code; uint32_t job_id;        /* as answered */
    uint64_t applied_at; uint32_t applied_job;      /* index of the one entry that did it */
    uint64_t invoked_us, done_us;
};
struct client { struct cluster *c; unsigned number; uint32_t op, request; unsigned asked, leader_hint; struct sim_clock wall; bool is_told, is_reading; uint64_t read_floor, reads; uint64_t since_us; };

/* What travels: a message of the core with all it borrows, or a client's request or answer. */
enum letter_kind { LETTER_RAFT, LETTER_REQUEST, LETTER_ANSWER };
struct letter {
    enum letter_kind kind; uint32_t life;
    uint32_t op, request, client; bool is_read;
    int code; uint32_t job_id, hint; uint64_t index;
    struct raft_message m;
};

/* ---- the truth (check.c) ---- */

struct fact { uint64_t term, hash, committed_in; uint32_t type; bool is_known, has_digest; uint8_t digest[32]; };
struct truth {
    struct fact *facts; uint64_t room, commit;
    struct pair { uint64_t index, term, before, hash; } *pairs; size_t pair_room, pair_count;   /* each entry that was ever in a log, with the term before it: log matching */
    struct { uint64_t member, term, for_whom; } *votes; size_t vote_count, vote_room;
    struct { uint64_t term, leader; } *leaders; size_t leader_count, leader_room;
    uint64_t acknowledged;              /* highest index that a client has been told */
    uint32_t jobs[8192];                /* job id -> op + 1 */
};

struct chances { uint64_t crash, pause, split, one_way, pair, weather, wipe, member, transfer, resign, rot, full, slow_disk, sync_error, clock, bad_snapshot; };   /* mean time between, us; 0: never */
struct cluster {
    uint64_t seed; bool is_verbose;
    struct sim_random random;
    struct sim_events events;
    struct sim_network network;
    struct sim_weather weather;         /* the usual one of this run */
    struct member *members[MEMBERS]; unsigned member_count, founders; struct raft_members group;      /* as founded */
    struct client clients[CLIENTS];
    struct op ops[OPS]; uint32_t op_count;
    struct truth truth;
    struct chances chances;
    struct raft_config config;
    uint64_t ambush, late_votes;        /* chances per million: a new leader is hit; a request for a vote, or a piece of a snapshot, comes late once more */
    uint32_t snapshot_every, chunk_bytes, disk_us, think_us, plan_us, drift_ppm;
    bool is_purging;                    /* ended jobs are forgotten now and then */
    bool is_calm;                       /* no more faults */
    uint64_t calm_us, end_us;
    bool has_failed; char failure[400];
    uint64_t steps, elections, restarts, acknowledged, reads, snapshots, installs, changes, jobs, unmuted, lived_us;
    sigjmp_buf aborted;
};

void say(struct cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));             /* the trace of --verbose */
void fail(struct cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));            /* an invariant is broken: the run ends */
static inline uint64_t now_us(const struct cluster *c) { return c->events.now_us; }

struct member *member_new(struct cluster *c);
struct member *member_by_id(const struct cluster *c, uint64_t id);
void member_start(struct member *m);
void member_crash(struct member *m, bool is_power_cut);
void member_free(struct member *m);
void member_pause(struct member *m, bool is_paused);
void member_applied(struct member *m, uint64_t index);
void member_step(struct member *m);                     /* after any input to the core */
void member_later(struct member *m, uint64_t delay_us, void (*fn)(void *, uint64_t, void *), uint64_t number, void *data, void (*drop)(void *));   /* forgotten when the process dies, waits while it is stopped */
void member_receive(struct member *m, unsigned from, const struct letter *letter);
uint64_t member_now_ms(const struct member *m);
bool member_is_leader(const struct member *m);
void letter_send(struct cluster *c, unsigned from, unsigned to, struct letter *take_letter);
struct letter *letter_of(const struct raft_message *m);
void letter_free(void *letter);

void host_open(struct member *m, const struct snapshot *from);
void host_replay(struct member *m, struct raft_restored *restored, struct raft_entry *entries);     /* what the log says is committed is applied before anybody is asked */
void host_close(struct member *m);
void host_request(struct member *m, const struct letter *letter);
void host_apply(struct member *m, const struct raft_entry *e);
void host_dropped(struct member *m, void *cookie);
void host_read_done(struct member *m, const struct raft_read *r);
void host_leader_ready(struct member *m);
void host_snapshot_maybe(struct member *m, bool is_wanted);
void host_install(struct member *m);
struct lump *host_save(struct member *m);
void host_lost_leadership(struct member *m);

void client_start(struct cluster *c, unsigned number);
void client_receive(struct client *client, const struct letter *letter);
bool clients_are_done(const struct cluster *c);

void nemesis_start(struct cluster *c);
void nemesis_calm(struct cluster *c);
void nemesis_elected(struct member *m);                  /* somebody leads: the best moment to hurt him */
bool nemesis_may_lose(const struct cluster *c, const struct member *m);         /* would every group still have a majority without it? */

void check_ready(struct member *m, const struct raft_ready *rd);
void check_step(struct member *m);
void check_apply(struct member *m, const struct raft_entry *e);
void check_digest(struct member *m, uint64_t index);
void check_result(struct member *m, uint64_t index, const Wire__Op *op, const struct op_result *result);
void check_leader_state(struct member *m);
bool check_is_settled(struct cluster *c, char *why, size_t room);      /* everybody has the same and nobody waits */
void check_installed(struct member *m);
void check_start(struct member *m, const struct raft_restored *restored);
void check_fini(struct truth *t);

/* One seed. 0: no invariant was broken. */
int  run_seed(uint64_t seed, bool is_verbose, char *failure, size_t room, struct cluster *statistics);

#endif
