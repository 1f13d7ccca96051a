/* SPDX-License-Identifier: Apache-2.0 */
/* test_raft_core.c - the rules of the consensus core one by one; random histories are tests/sim. */
#include "raft_net.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct net net;

static void setup(void) { net_init(&net); }
static void teardown(void) { net_fini(&net); }

static uint64_t other_than(uint64_t a, uint64_t b)
{
    for (uint64_t id = 1; id <= 3; id++)
        if (id != a && id != b)
            return id;
    return 0;
}

START_TEST(alone_leads_at_once)
{
    net_found(&net, 1);
    ck_assert_uint_eq(net_leader(&net, 5), 1);
    ck_assert_int_eq(net_propose(&net, 1, "a"), 0);
    net_pump(&net);
    ck_assert(net_has_applied(&net, 1, "a"));
    net_stop(&net, 1);
    net_start(&net, 1);
    ck_assert_uint_eq(net_leader(&net, 5), 1);
    ck_assert(net_has_applied(&net, 1, "a"));
}
END_TEST

START_TEST(three_elect_and_replicate)
{
    uint64_t leader, index;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    ck_assert_uint_ne(leader, 0);
    ck_assert_int_eq(net_propose(&net, leader, "a"), 0);
    ck_assert_int_eq(net_propose(&net, leader, "b"), 0);
    net_run(&net, 60);
    for (uint64_t id = 1; id <= 3; id++)
        ck_assert(net_has_applied(&net, id, "a") && net_has_applied(&net, id, "b"));
    ck_assert_int_eq(raft_propose(net.members[other_than(leader, 0)].r, net.now, "x", 1, NULL, &index, NULL), SPUR_ENOTLEADER);
}
END_TEST

START_TEST(leader_killed)
{
    uint64_t leader, next;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_propose(&net, leader, "a");
    net_run(&net, 60);
    net_stop(&net, leader);
    next = net_other_leader(&net, 1500, leader);
    ck_assert(next && next != leader);
    net_propose(&net, next, "b");
    net_run(&net, 60);
    net_start(&net, leader);
    net_run(&net, 300);
    ck_assert(net_has_applied(&net, leader, "b"));
}
END_TEST

/* A reset connection is answered within a few heartbeats, not after the election timeout. */
START_TEST(reset_connections_elect_soon)
{
    uint64_t leader, start;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 200);
    net_stop(&net, leader);
    for (uint64_t id = 1; id <= 3; id++)
        if (id != leader)
            raft_peer_lost(net.members[id].r, net.now, leader);
    start = net.now;
    ck_assert_uint_ne(net_leader(&net, 1500), 0);
    ck_assert_uint_le(net.now - start, 240);
}
END_TEST

/* One follower that lost its connection alone disturbs nobody. */
START_TEST(one_reset_connection_changes_nothing)
{
    uint64_t leader, term;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 200);
    term = net_status(&net, leader).term;
    net.cut[leader][other_than(leader, 0)] = net.cut[other_than(leader, 0)][leader] = true;
    raft_peer_lost(net.members[other_than(leader, 0)].r, net.now, leader);
    net_run(&net, 2000);
    ck_assert_uint_eq(net_status(&net, leader).term, term);
    ck_assert_int_eq(net_status(&net, leader).role, RAFT_LEADER);
}
END_TEST

START_TEST(isolated_leader_steps_down)
{
    uint64_t leader, next;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    net_isolate(&net, leader, true);
    net_propose(&net, leader, "lost");
    next = net_other_leader(&net, 1500, leader);
    ck_assert(next && next != leader);
    net_run(&net, 600);
    ck_assert_int_ne(net_status(&net, leader).role, RAFT_LEADER);
    ck_assert_uint_eq(net.members[leader].dropped_count, 1);
    net_propose(&net, next, "kept");
    net_isolate(&net, leader, false);
    net_run(&net, 1000);
    ck_assert(net_has_applied(&net, leader, "kept") && !net_has_applied(&net, leader, "lost"));
}
END_TEST

/* Nothing counts before the disk has it: no vote, no candidacy, no acknowledgement, no own copy. */
START_TEST(the_disk_comes_first)
{
    uint64_t leader, a, b;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    a = other_than(leader, 0);
    b = other_than(leader, a);
    net.members[a].is_disk_stopped = net.members[b].is_disk_stopped = true;
    net_propose(&net, leader, "a");
    net_run(&net, 200);
    ck_assert(!net_has_applied(&net, leader, "a"));
    ck_assert_int_eq(net_status(&net, leader).role, RAFT_LEADER);        /* a slow disk costs no leadership */
    net_write(&net, a);
    net_run(&net, 10);
    ck_assert(net_has_applied(&net, leader, "a"));

    net_stop(&net, leader);
    net_run(&net, 2000);
    ck_assert_uint_eq(net_leader(&net, 1), 0);
    net.members[a].is_disk_stopped = false;
    net_write(&net, a);
    net_run(&net, 1500);
    ck_assert_int_ne(net_status(&net, a).role, RAFT_LEADER);             /* b's vote is not written */
    net.members[b].is_disk_stopped = false;
    net_write(&net, b);
    ck_assert_uint_ne(net_leader(&net, 1500), 0);
}
END_TEST

/* A tail that is cut off while its write is under way is not durable when the confirmation comes. */
START_TEST(late_completion_of_a_cut_tail)
{
    uint64_t leader, a, next;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    a = other_than(leader, 0);
    net_isolate(&net, leader, true);
    net.cut[leader][a] = false;                 /* its entries arrive at `a`, answers do not */
    net.members[a].is_disk_stopped = true;
    net_propose(&net, leader, "one");
    net_propose(&net, leader, "two");
    net_pump(&net);
    net_stop(&net, leader);
    net.cut[leader][a] = true;
    /* `a` has a longer log and its vote waits for the disk: it is the only one who can lead, and must not before its entries are durable. */
    net_run(&net, 1000);
    ck_assert_int_ne(net_status(&net, a).role, RAFT_LEADER);
    net.members[a].is_disk_stopped = false;
    net_write(&net, a);
    next = net_other_leader(&net, 3000, leader);
    ck_assert_uint_eq(next, a);
    net_run(&net, 100);
    ck_assert(net_has_applied(&net, a, "two"));
}
END_TEST

START_TEST(hand_over)
{
    uint64_t leader, to, start, index;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    to = other_than(leader, 0);
    ck_assert_int_eq(raft_transfer(net.members[leader].r, net.now, to, NULL), 0);
    ck_assert_int_eq(raft_propose(net.members[leader].r, net.now, "x", 1, NULL, &index, NULL), SPUR_EBUSY);
    ck_assert(!raft_has_lease(net.members[leader].r, net.now));
    start = net.now;
    ck_assert_uint_eq(net_leader(&net, 100), to);
    ck_assert_uint_le(net.now - start, 5);
    net_isolate(&net, other_than(leader, to), true);
    net_stop(&net, leader);
    net_run(&net, 600);
    ck_assert_int_eq(raft_transfer(net.members[to].r, net.now, RAFT_NOBODY, NULL), SPUR_ENOTLEADER);
}
END_TEST

START_TEST(resigning_names_a_successor)
{
    uint64_t leader, next, start;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    raft_resign(net.members[leader].r, net.now);
    start = net.now;
    next = net_other_leader(&net, 1500, leader);
    ck_assert(next && next != leader);
    ck_assert_uint_le(net.now - start, 5);
}
END_TEST

START_TEST(reads_by_lease_and_by_round)
{
    uint64_t leader, before;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    ck_assert(raft_has_lease(net.members[leader].r, net.now));
    ck_assert(!raft_has_lease(net.members[leader].r, net.now + 100));
    net_propose(&net, leader, "a");
    net_run(&net, 10);
    ck_assert_int_eq(raft_read(net.members[leader].r, net.now, 7, NULL), 0);
    net_pump(&net);
    ck_assert_uint_eq(net.members[leader].read_count, 1);
    ck_assert_uint_eq(net.members[leader].read_indices[0], net_status(&net, leader).commit);
    /* Isolated: the lease ends, and no round is answered. */
    net_isolate(&net, leader, true);
    net_run(&net, 120);
    ck_assert(!raft_has_lease(net.members[leader].r, net.now));
    ck_assert_int_eq(raft_read(net.members[leader].r, net.now, 8, NULL), 0);
    before = net.members[leader].read_count;
    net_run(&net, 50);
    ck_assert_uint_eq(net.members[leader].read_count, before);
    net_run(&net, 1000);
    ck_assert_uint_eq(net.members[leader].refused_count, 1);
    ck_assert_int_eq(raft_read(net.members[leader].r, net.now, 9, NULL), SPUR_ENOTLEADER);
}
END_TEST

START_TEST(a_round_answers_without_lease)
{
    uint64_t leader;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    net.now += 95;      /* the loop was away: too late for the lease */
    ck_assert(!raft_has_lease(net.members[leader].r, net.now));
    ck_assert_int_eq(raft_read(net.members[leader].r, net.now, 5, NULL), 0);
    net_pump(&net);
    ck_assert_uint_eq(net.members[leader].read_count, 1);
}
END_TEST

START_TEST(grow_to_five_and_shrink)
{
    uint64_t leader;
    struct raft_member row;

    net_found(&net, 1);
    ck_assert_uint_eq(net_leader(&net, 10), 1);
    for (int i = 0; i < 100; i++)
        net_propose(&net, 1, "x");
    for (uint64_t id = 2; id <= 5; id++) {
        net_start(&net, id);
        row = net_member_row(id, true);
        ck_assert_int_eq(raft_member_add(net.members[1].r, net.now, &row, NULL), 0);
        row = net_member_row(6, true);
        ck_assert_int_eq(raft_member_add(net.members[1].r, net.now, &row, NULL), SPUR_EBUSY);
        net_run(&net, 300);
        ck_assert_uint_eq(net_status(&net, 1).members.count, id);
        ck_assert(net_status(&net, id).members.rows[id - 1].is_voter);
        ck_assert(net_has_applied(&net, id, "x"));
    }
    net_stop(&net, 4);
    net_stop(&net, 5);
    leader = net_leader(&net, 1500);
    ck_assert_uint_ne(leader, 0);
    net_propose(&net, leader, "three of five");
    net_run(&net, 100);
    ck_assert(net_has_applied(&net, 3, "three of five"));
    ck_assert_int_eq(raft_member_remove(net.members[leader].r, net.now, 4, NULL), 0);
    net_run(&net, 100);
    ck_assert_int_eq(raft_member_remove(net.members[leader].r, net.now, 5, NULL), 0);
    net_run(&net, 100);
    /* The leader removes himself: he steps down when that is committed, another leads at once. */
    ck_assert_int_eq(raft_member_remove(net.members[leader].r, net.now, leader, NULL), 0);
    net_run(&net, 20);
    ck_assert_int_eq(net_status(&net, leader).role, RAFT_FOLLOWER);
    ck_assert_uint_ne(net_leader(&net, 1000), leader);
    ck_assert_uint_ne(net_leader(&net, 1), 0);
    net_run(&net, 3000);
    ck_assert_int_eq(net_status(&net, leader).role, RAFT_FOLLOWER);
}
END_TEST

/* A configuration counts when it is appended and is gone when its entry is cut off. */
START_TEST(configuration_rolls_back)
{
    uint64_t leader, next;
    struct raft_member row = net_member_row(4, false);

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    net_isolate(&net, leader, true);
    ck_assert_int_eq(raft_member_add(net.members[leader].r, net.now, &row, NULL), 0);
    ck_assert_uint_eq(net_status(&net, leader).members.count, 4);
    next = net_other_leader(&net, 1500, leader);
    net_propose(&net, next, "a");
    net_isolate(&net, leader, false);
    net_run(&net, 1000);
    ck_assert_uint_eq(net_status(&net, leader).members.count, 3);
    ck_assert(net_has_applied(&net, leader, "a"));
}
END_TEST

START_TEST(learner_reads_and_never_votes)
{
    struct raft_member row = net_member_row(2, false);

    net_found(&net, 1);
    net_leader(&net, 10);
    net_start(&net, 2);
    ck_assert_int_eq(raft_member_add(net.members[1].r, net.now, &row, NULL), 0);
    net_propose(&net, 1, "a");
    net_run(&net, 1000);
    ck_assert(net_has_applied(&net, 2, "a"));
    net_stop(&net, 1);
    net_run(&net, 3000);
    ck_assert_int_eq(net_status(&net, 2).role, RAFT_FOLLOWER);
    /* An administrator's word. */
    ck_assert_int_eq(raft_force_alone(net.members[2].r, net.now, NULL), 0);
    ck_assert_uint_eq(net_leader(&net, 10), 2);
    ck_assert_uint_eq(net_status(&net, 2).members.count, 1);
    ck_assert_int_eq(net_propose(&net, 2, "b"), 0);
    net_run(&net, 10);
    ck_assert(net_has_applied(&net, 2, "b"));
}
END_TEST

/* The cache is small: what a lagging peer needs is read from the disk; what the log no longer has comes as a snapshot. */
START_TEST(lagging_peer_is_filled_from_disk_then_by_snapshot)
{
    uint64_t leader, slow;
    char text[60];

    net.cache_bytes = 2000;
    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    slow = other_than(leader, 0);
    net_isolate(&net, slow, true);
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "entry %d with some text to make it longer", i);
        net_propose(&net, leader, text);
        net_run(&net, 1);
    }
    net_isolate(&net, slow, false);
    net_run(&net, 1500);
    ck_assert(net_has_applied(&net, slow, text));
    leader = net_leader(&net, 1500);
    ck_assert_uint_gt(net.members[leader].loads, 3);
    ck_assert_uint_eq(net.members[leader].chunks_sent, 0);

    net_isolate(&net, slow, true);
    for (int i = 0; i < 100; i++) {
        net_propose(&net, leader, text);
        net_run(&net, 1);
    }
    net_snapshot(&net, leader);
    net_propose(&net, leader, "after");
    net_run(&net, 10);
    net_snapshot(&net, leader);                 /* the log is kept from the older one on */
    ck_assert_uint_gt(raft_log_keep(net.members[leader].r), net.members[slow].applied);
    net_propose(&net, leader, "last");
    net_run(&net, 1);
    net_isolate(&net, slow, false);
    net_run(&net, 2500);
    leader = net_leader(&net, 1500);
    ck_assert(net_has_applied(&net, slow, "last"));
    ck_assert_uint_gt(net.members[slow].snapshot.index, 0);
    net_stop(&net, slow);
    net_start(&net, slow);
    net_run(&net, 1000);
    ck_assert(net_has_applied(&net, slow, "last"));
}
END_TEST

static bool drop_chunk_answers(const struct raft_message *m) { return m->type == RAFT_SNAPSHOT_REPLY; }

START_TEST(lost_chunk_answers_are_asked_for_again)
{
    uint64_t leader, slow;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    slow = other_than(leader, 0);
    net_stop(&net, slow);
    for (int i = 0; i < 50; i++)
        net_propose(&net, leader, "x");
    net_run(&net, 10);
    net_snapshot(&net, leader);
    net_propose(&net, leader, "y");
    net_run(&net, 10);
    net_snapshot(&net, leader);
    net.drop = drop_chunk_answers;
    net_start(&net, slow);
    net_run(&net, 1000);
    ck_assert(!net_has_applied(&net, slow, "y"));
    net.drop = NULL;
    net_run(&net, 10000);
    ck_assert(net_has_applied(&net, slow, "y"));
}
END_TEST

static bool drop_entries(const struct raft_message *m) { return m->type == RAFT_APPEND && m->count > 0; }

/* A lost append is found by the heartbeat's answer. */
START_TEST(lost_appends_are_sent_again)
{
    uint64_t leader;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    net.drop = drop_entries;
    for (int i = 0; i < 20; i++)
        net_propose(&net, leader, "x");
    net_run(&net, 10);
    net.drop = NULL;
    net_run(&net, 400);
    ck_assert(net_has_applied(&net, leader, "x"));
    ck_assert_uint_eq(net_status(&net, leader).commit, net_status(&net, leader).last_index);
}
END_TEST

START_TEST(muted_neither_votes_nor_campaigns)
{
    uint64_t leader, a, b;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    a = other_than(leader, 0);
    b = other_than(leader, a);
    raft_set_mute(net.members[a].r, true);
    net_stop(&net, leader);
    net_run(&net, 3000);
    ck_assert_uint_eq(net_leader(&net, 1), 0);
    ck_assert_uint_eq(net_status(&net, b).vote == b && net_status(&net, b).role == RAFT_LEADER, 0);
    net_start(&net, leader);
    ck_assert_uint_ne(net_leader(&net, 3000), 0);
    net_run(&net, 200);
    ck_assert(!net_status(&net, a).is_muted);   /* refilled by a leader that was elected without it */
}
END_TEST

static bool drop_timeout_now(const struct raft_message *m) { return m->type == RAFT_TIMEOUT_NOW; }

/* A hand-over that comes to nothing ends by itself; the lease does not come back in this term, for the order may only be late. */
START_TEST(hand_over_that_fails)
{
    uint64_t leader, term;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    term = net_status(&net, leader).term;
    net.drop = drop_timeout_now;
    ck_assert_int_eq(raft_transfer(net.members[leader].r, net.now, RAFT_NOBODY, NULL), 0);
    net_run(&net, 300);
    ck_assert_int_eq(net_propose(&net, leader, "x"), SPUR_EBUSY);
    net_run(&net, 300);
    ck_assert_int_eq(net_propose(&net, leader, "x"), 0);
    net_run(&net, 100);
    ck_assert_uint_eq(net_status(&net, leader).term, term);
    ck_assert(!raft_has_lease(net.members[leader].r, net.now));
    ck_assert_int_eq(raft_read(net.members[leader].r, net.now, 3, NULL), 0);
    net_pump(&net);
    ck_assert_uint_eq(net.members[leader].read_count, 1);
}
END_TEST

static uint32_t appends_seen;
static bool count_appends(const struct raft_message *m)
{
    appends_seen += m->type == RAFT_APPEND && m->count > 0;
    return m->type == RAFT_APPEND_REPLY;
}

START_TEST(window_of_a_peer)
{
    uint64_t leader;

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    appends_seen = 0;
    net.drop = count_appends;           /* nobody answers */
    for (int i = 0; i < 40; i++) {
        net_propose(&net, leader, "x");
        net_run(&net, 1);
    }
    ck_assert_uint_eq(appends_seen, 2 * 4);
}
END_TEST

/* What no right peer can have sent is dropped and counted. */
START_TEST(contradictions_are_dropped)
{
    uint64_t leader, a;
    struct raft_status s;
    struct raft_entry other = { .type = RAFT_ENTRY_DATA, .data = "other", .n = 5 };
    struct raft_message m = { .type = RAFT_APPEND, .entries = &other, .count = 1 };

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_propose(&net, leader, "a");
    net_run(&net, 100);
    a = other_than(leader, 0);
    ck_assert_uint_eq(net_status(&net, leader).broken_messages, 0);
    s = net_status(&net, a);
    m.from = leader;
    m.to = a;
    m.term = s.term;
    other.index = s.commit;             /* another entry where one is committed */
    other.term = s.term - 1;
    m.index = s.commit - 1;
    m.log_term = raft_term_at(net.members[a].r, m.index) < other.term ? raft_term_at(net.members[a].r, m.index) : other.term;
    raft_message(net.members[a].r, net.now, &m);
    m.from = other_than(leader, a);     /* a second leader of this term */
    other.index = s.last_index + 1;
    other.term = s.term;
    m.index = s.last_index;
    m.log_term = s.last_term;
    raft_message(net.members[a].r, net.now, &m);
    m.to = leader;                      /* and one told to the first */
    raft_message(net.members[leader].r, net.now, &m);
    m.to = a;
    m.from = leader;
    other.type = RAFT_ENTRY_MEMBERS;    /* a configuration that is none */
    raft_message(net.members[a].r, net.now, &m);
    ck_assert_uint_eq(net_status(&net, a).broken_messages, 3);
    ck_assert_uint_eq(net_status(&net, leader).broken_messages, 1);
    ck_assert_uint_eq(net_status(&net, a).last_index, s.last_index);
    ck_assert_uint_eq(net_status(&net, leader).role, RAFT_LEADER);
}
END_TEST

/* The promise of a vote is in the configuration: the next leader keeps it. */
START_TEST(promise_outlives_its_leader)
{
    uint64_t leader, next;
    struct raft_member row = net_member_row(4, true);

    net_found(&net, 3);
    leader = net_leader(&net, 1500);
    net_run(&net, 100);
    ck_assert_int_eq(raft_member_add(net.members[leader].r, net.now, &row, NULL), 0);
    net_run(&net, 100);
    ck_assert(!net_status(&net, leader).members.rows[3].is_voter && net_status(&net, leader).members.rows[3].will_vote);
    net_stop(&net, leader);
    next = net_other_leader(&net, 1500, leader);
    ck_assert_uint_ne(next, 0);
    net_start(&net, 4);
    net_run(&net, 300);
    ck_assert(net_status(&net, next).members.rows[3].is_voter);
    ck_assert_uint_eq(net_status(&net, next).members.count, 4);
}
END_TEST

/* Committed entries are handed out as fast as they are applied, not all at once. */
START_TEST(a_slow_state_is_not_flooded)
{
    static char block[1 << 20];
    struct raft_config config = { .self = 1, .heartbeat_ms = 50, .election_min_ms = 250, .election_max_ms = 500, .cache_bytes = 1 << 20 };
    struct raft_restored nothing = { 0 };
    struct raft_members alone = { .count = 1 };
    struct raft_ready ready;
    struct raft *r = raft_create(&config, &nothing);
    uint64_t index, handed = 0, bytes = 0;

    alone.rows[0] = net_member_row(1, true);
    raft_tick(r, 1);
    ck_assert_int_eq(raft_found(r, &alone, NULL), 0);
    for (int i = 0; i < 200; i++) {
        raft_tick(r, 2 + (uint64_t)i);
        if (i >= 10 && i < 70)
            ck_assert_int_eq(raft_propose(r, 2 + (uint64_t)i, block, sizeof block, NULL, &index, NULL), 0);
        while (raft_has_ready(r)) {
            uint64_t seq;

            raft_ready(r, &ready);
            seq = ready.write_seq;
            for (size_t k = 0; k < ready.committed_count; k++) {
                handed = ready.committed[k].index;
                bytes += ready.committed[k].n;
            }
            raft_done(r);
            if (seq)
                raft_written(r, 2 + (uint64_t)i, seq);
        }
    }
    ck_assert_uint_ge(bytes, 32u << 20);
    ck_assert_uint_le(bytes, 41u << 20);
    while (handed < index) {
        raft_applied(r, handed);
        ck_assert(raft_has_ready(r));
        raft_ready(r, &ready);
        handed = ready.committed[ready.committed_count - 1].index;
        raft_done(r);
    }
    raft_destroy(r);
}
END_TEST

START_TEST(members_from_the_wire_are_not_trusted)
{
    struct raft_members m = { .count = 2 }, back;
    uint8_t bytes[RAFT_MEMBERS_MAX * sizeof(struct raft_member)];
    size_t n;

    m.rows[0] = net_member_row(0xfedcba9876543210u, true);
    m.rows[1] = net_member_row(2, false);
    m.rows[1].will_vote = true;
    n = raft_members_pack(&m, bytes, sizeof bytes);
    ck_assert_uint_eq(raft_members_pack(&m, NULL, 0), n);
    ck_assert_int_eq(raft_members_unpack(&back, bytes, n), 0);
    ck_assert_mem_eq(&m, &back, sizeof m);
    for (size_t cut = 0; cut < n; cut++)
        ck_assert_int_eq(raft_members_unpack(&back, bytes, cut), SPUR_ECORRUPT);
    bytes[n] = 0;
    ck_assert_int_eq(raft_members_unpack(&back, bytes, n + 1), SPUR_ECORRUPT);
    for (size_t at = 0; at < n; at++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[at] ^= (uint8_t)(1 << bit);
            raft_members_unpack(&back, bytes, n);
            bytes[at] ^= (uint8_t)(1 << bit);
        }
    m.rows[1].id = m.rows[0].id;
    n = raft_members_pack(&m, bytes, sizeof bytes);
    ck_assert_int_eq(raft_members_unpack(&back, bytes, n), SPUR_ECORRUPT);
    m.rows[1] = net_member_row(2, false);
    m.rows[0].is_voter = false;
    n = raft_members_pack(&m, bytes, sizeof bytes);
    ck_assert_int_eq(raft_members_unpack(&back, bytes, n), SPUR_ECORRUPT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("raft core");
    TCase *t = tcase_create("rules");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, alone_leads_at_once);
    tcase_add_test(t, three_elect_and_replicate);
    tcase_add_test(t, leader_killed);
    tcase_add_test(t, reset_connections_elect_soon);
    tcase_add_test(t, one_reset_connection_changes_nothing);
    tcase_add_test(t, isolated_leader_steps_down);
    tcase_add_test(t, the_disk_comes_first);
    tcase_add_test(t, late_completion_of_a_cut_tail);
    tcase_add_test(t, hand_over);
    tcase_add_test(t, resigning_names_a_successor);
    tcase_add_test(t, reads_by_lease_and_by_round);
    tcase_add_test(t, a_round_answers_without_lease);
    tcase_add_test(t, grow_to_five_and_shrink);
    tcase_add_test(t, configuration_rolls_back);
    tcase_add_test(t, learner_reads_and_never_votes);
    tcase_add_test(t, lagging_peer_is_filled_from_disk_then_by_snapshot);
    tcase_add_test(t, lost_chunk_answers_are_asked_for_again);
    tcase_add_test(t, lost_appends_are_sent_again);
    tcase_add_test(t, muted_neither_votes_nor_campaigns);
    tcase_add_test(t, hand_over_that_fails);
    tcase_add_test(t, window_of_a_peer);
    tcase_add_test(t, contradictions_are_dropped);
    tcase_add_test(t, promise_outlives_its_leader);
    tcase_add_test(t, a_slow_state_is_not_flooded);
    tcase_add_test(t, members_from_the_wire_are_not_trusted);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
