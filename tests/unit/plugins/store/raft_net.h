/* SPDX-License-Identifier: Apache-2.0 */
/* raft_net.h - a few members of the consensus core in one process, for test_raft_core.c: messages, disks and time by hand.
 *
 * Each member has a disk (term, vote, entries, snapshot) that is written when the test lets it, a link to each other member that can be cut, and a
 * state: the list of what was applied. After every step the agreement of all states is checked. Randomness is the simulator's (tests/sim).
 */
#ifndef RAFT_NET_H
#define RAFT_NET_H

#include "core.h"

#define NET_MEMBERS 6
#define NET_LOG 4096

struct net_entry { uint64_t term; uint32_t type; char text[128]; size_t n; };
struct net_write { uint64_t seq, term, vote, first; bool has_vote; struct net_entry *entries; size_t count; };
struct net_snapshot { uint64_t index, term; struct raft_members members; };
struct net_member {
    uint64_t id;
    struct raft *r;                             /* NULL: it is down */
    /* disk */
    uint64_t term, vote;
    struct net_entry log[NET_LOG]; uint64_t first, last;        /* log[i] is entry i, first..last */
    struct net_snapshot snapshot, incoming;
    bool is_disk_stopped;
    struct net_write writes[256]; size_t write_count;
    /* state */
    uint64_t applied;
    uint64_t reads[64], read_count, refused_count, dropped_count, loads, chunks_sent, snapshots_wanted;
    uint64_t read_indices[64];
    bool is_leader_ready;
    bool does_not_apply;
};
struct net_message { struct raft_message m; struct raft_entry *entries; size_t count; void *data; struct raft_members members; };
struct net {
    struct net_member members[NET_MEMBERS + 1]; /* by id, from 1 */
    bool cut[NET_MEMBERS + 1][NET_MEMBERS + 1]; /* [from][to] */
    bool is_holding;                            /* messages wait in the queue */
    struct net_message *queue; size_t count, room;
    uint64_t now;
    uint64_t cache_bytes;
    struct net_entry truth[NET_LOG]; uint64_t truth_last;       /* what anybody has applied at an index */
    bool (*drop)(const struct raft_message *m);
};

void net_init(struct net *n);
void net_fini(struct net *n);
void net_start(struct net *n, uint64_t id);             /* from what is on its disk */
void net_stop(struct net *n, uint64_t id);              /* what is not written is lost */
void net_found(struct net *n, uint32_t voters);         /* starts 1..voters; the first founds the group of them all */
void net_pump(struct net *n);                           /* until nobody has anything to do */
void net_run(struct net *n, uint64_t ms);               /* a tick each millisecond, and pump */
uint64_t net_leader(struct net *n, uint64_t most_ms);   /* runs until the leader of the highest term is ready; 0: none came */
uint64_t net_other_leader(struct net *n, uint64_t most_ms, uint64_t but);
void net_isolate(struct net *n, uint64_t id, bool is_cut);
int  net_propose(struct net *n, uint64_t id, const char *text);
bool net_has_applied(const struct net *n, uint64_t id, const char *text);
struct raft_status net_status(const struct net *n, uint64_t id);
void net_write(struct net *n, uint64_t id);             /* lets a stopped disk do all it was asked */
void net_snapshot(struct net *n, uint64_t id);          /* takes one at what is applied */
struct raft_member net_member_row(uint64_t id, bool is_voter);

#endif
