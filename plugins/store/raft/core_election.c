/* SPDX-License-Identifier: Apache-2.0 */
/* core_election.c - owns roles, terms and votes: pre-vote, election, stepping down, hand-over.
 *
 * A vote is given once a term and told when the disk has it. A candidate asks, and counts itself, when its term, its vote and all
 * entries before are durable. Nobody votes, not even in a pre-vote, while a leader has been heard within the lowest election timeout: that is what the
 * leader's lease stands on. A member that has just started keeps that too, for it cannot know what it promised before.
 *
 * A connection to the leader that was reset says more than silence: the process has died, most likely. Then faith lasts two heartbeats only (promise_ms), and
 * the lease is no longer than that. Of two that ask at the same moment the one with the longer log, then with the higher id goes on.
 */
#include "core_inside.h"

#include <string.h>

void election_timer(struct raft *r)
{
    r->deadline = r->now + r->config.election_min_ms + raft_random(r, r->config.election_max_ms - r->config.election_min_ms + 1);
}

static void retry_soon(struct raft *r)
{
    r->deadline = r->now + RAFT_LOST_MS + raft_random(r, 2 * RAFT_LOST_MS + 1);
}

bool election_is_faithful(const struct raft *r)
{
    if (RAFT_FAULT(NOT_STICKY))
        return false;
    if (r->role == RAFT_LEADER)
        return true;
    return r->now < r->heard_ms + (r->is_leader_lost ? r->promise_ms : r->config.election_min_ms);
}

static void role_set(struct raft *r, enum raft_role role, uint64_t leader)
{
    if (r->role != role || r->leader != leader)
        r->is_role_dirty = true;
    r->role = role;
    r->leader = leader;
}

static void term_set(struct raft *r, uint64_t term, uint64_t vote)
{
    RAFT_MUST(term > r->term);
    r->term = term;
    r->vote = vote;
    r->is_hard_dirty = true;
    if (!RAFT_FAULT(OLD_TERM_ACK))
        r->matched = 0;
    r->last_round = r->last_sent_ms = 0;
    r->is_reply_due = false;
    r->is_leader_lost = false;
}

/* Everything that only a leader has. */
static void leader_undo(struct raft *r)
{
    log_drop_cookies(r, r->commit);
    read_refuse_all(r);
    r->is_leader_ready = r->is_ready_told = r->is_round_wanted = r->is_snapshot_wanted = false;
    r->transfer_to = RAFT_NOBODY;
    r->load.count = 0;
    r->load.is_asked = false;
    election_timer(r);
}

void become_follower(struct raft *r, uint64_t term, uint64_t leader)
{
    bool was_leader = r->role == RAFT_LEADER;

    if (term > r->term)
        term_set(r, term, RAFT_NOBODY);
    role_set(r, RAFT_FOLLOWER, leader);
    peers_free(r);
    if (was_leader)
        leader_undo(r);
}

void become_leader(struct raft *r)
{
    role_set(r, RAFT_LEADER, r->config.self);
    r->is_role_dirty = true;
    r->is_leader_ready = r->is_ready_told = r->is_lease_off = r->is_transfer_sent = false;
    r->transfer_to = RAFT_NOBODY;
    r->round = 0;
    r->since_ms = r->now;
    r->beat_ms = r->now;
    peers_rebuild(r, true);
    r->noop = log_append(r, r->term, RAFT_ENTRY_NOOP, NULL, 0, NULL);
    replicate_tick(r);
    replicate_commit(r);
}

/* ---- asking ---- */

static bool can_campaign(const struct raft *r)
{
    return members_is_voter(r, r->config.self) && !r->is_muted && r->now >= r->quiet_until && !r->receiving.is_installing && !r->has_chunk;
}

static void ask_all(struct raft *r, uint32_t type, uint64_t term, bool by_transfer)
{
    for (uint32_t i = 0; i < r->peer_count; i++) {
        struct raft_message m = { .type = type, .from = r->config.self, .to = r->peers[i].id, .term = term, .index = r->log.last,
                                  .log_term = log_term(&r->log, r->log.last), .by_transfer = by_transfer };

        if (!r->peers[i].is_voter)
            continue;
        if (type == RAFT_PREVOTE || RAFT_FAULT(EARLY_CANDIDACY))
            *message_new(r, type, m.to) = m;
        else
            message_hold(r, &m);
    }
}

/* Counts what has been answered: 1 won, -1 cannot be won any more, 0 open. */
static int answers_count(const struct raft *r, bool own)
{
    uint32_t granted = own, refused = 0, quorum = members_quorum(r), voters = members_voters(r);

    for (uint32_t i = 0; i < r->peer_count; i++) {
        const struct peer *p = &r->peers[i];

        if (p->is_voter && p->has_voted) {
            granted += p->has_granted;
            refused += !p->has_granted;
        }
    }
    return granted >= quorum ? 1 : voters - refused < quorum ? -1 : 0;
}

static void candidate_check(struct raft *r)
{
    int result = answers_count(r, r->has_own_vote || RAFT_FAULT(EARLY_CANDIDACY));

    if (result > 0) {
        become_leader(r);
    } else if (result < 0) {
        become_follower(r, r->term, RAFT_NOBODY);
        retry_soon(r);          /* nobody leads, and the votes of this term are given away */
        r->deadline += raft_random(r, r->config.election_min_ms / 2 + 1);
    }
}

static void become_candidate(struct raft *r, bool by_transfer)
{
    term_set(r, r->term + 1, r->config.self);
    role_set(r, RAFT_CANDIDATE, RAFT_NOBODY);
    peers_rebuild(r, true);
    election_timer(r);
    r->has_own_vote = false;
    r->vote_seq = log_due_seq(r);
    ask_all(r, RAFT_VOTE, r->term, by_transfer);
    candidate_check(r);
}

static void become_precandidate(struct raft *r)
{
    role_set(r, RAFT_PRECANDIDATE, RAFT_NOBODY);
    peers_rebuild(r, true);
    if (r->is_leader_lost)
        retry_soon(r);
    else
        election_timer(r);
    if (answers_count(r, true) > 0)
        become_candidate(r, false);
    else
        ask_all(r, RAFT_PREVOTE, r->term + 1, false);
}

void election_tick(struct raft *r)
{
    if (r->now < r->deadline)
        return;
    if (can_campaign(r)) {
        become_precandidate(r);
        return;
    }
    role_set(r, RAFT_FOLLOWER, RAFT_NOBODY);
    election_timer(r);
}

void election_written(struct raft *r)
{
    if (r->role != RAFT_CANDIDATE || r->has_own_vote || r->log.written_seq < r->vote_seq)
        return;
    r->has_own_vote = true;
    candidate_check(r);
}

void raft_peer_lost(struct raft *r, uint64_t now_ms, uint64_t peer)
{
    input_begin(r, now_ms);
    if (r->role == RAFT_LEADER) {
        struct peer *p = peer_find(r, peer);

        if (p && p->state == PEER_SNAPSHOT)
            p->is_asked = p->has_chunk;
        else if (p)
            peer_probe(p, p->match + 1);
    } else if (r->role == RAFT_FOLLOWER && r->leader == peer && r->leader != RAFT_NOBODY) {
        uint64_t soon = r->now + RAFT_LOST_MS, faith = r->heard_ms + r->promise_ms;

        r->is_leader_lost = true;
        soon = (soon > faith ? soon : faith) + raft_random(r, 2 * RAFT_LOST_MS + 1);
        if (soon < r->deadline)
            r->deadline = soon;
    }
}

/* ---- answering ---- */

/* Compares the asker's log with ours: > 0 it has more. */
static int log_compare(const struct raft *r, const struct raft_message *m)
{
    uint64_t term = log_term(&r->log, r->log.last);

    if (m->log_term != term)
        return m->log_term > term ? 1 : -1;
    return m->index > r->log.last ? 1 : m->index < r->log.last ? -1 : 0;
}

void election_prevote(struct raft *r, const struct raft_message *m)
{
    int more = log_compare(r, m);
    bool granted = m->term > r->term && more >= 0 && !r->is_muted && !election_is_faithful(r);
    struct raft_message *reply;

    if (granted && r->role == RAFT_PRECANDIDATE)
        granted = more > 0 || m->from > r->config.self;
    reply = message_new(r, RAFT_PREVOTE_REPLY, m->from);
    reply->reject = !granted;
    reply->term = granted ? m->term : r->term;
    if (granted && r->role != RAFT_CANDIDATE) {
        uint64_t later = r->now + r->config.heartbeat_ms + raft_random(r, r->config.heartbeat_ms + 1);

        if (later > r->deadline)
            r->deadline = later;        /* let it try */
    }
}

void election_prevote_reply(struct raft *r, const struct raft_message *m)
{
    struct peer *p = peer_find(r, m->from);
    int result;

    if (r->role != RAFT_PRECANDIDATE || !p || (!m->reject && m->term != r->term + 1))
        return;
    p->has_voted = true;
    p->has_granted = !m->reject;
    result = answers_count(r, true);
    if (result > 0)
        become_candidate(r, false);
    else if (result < 0)
        become_follower(r, r->term, RAFT_NOBODY);       /* the timer goes on */
}

void election_vote(struct raft *r, const struct raft_message *m)
{
    bool is_free = r->vote == RAFT_NOBODY || r->vote == m->from || (RAFT_FAULT(DOUBLE_VOTE) && m->by_transfer);
    bool granted = m->term == r->term && r->role == RAFT_FOLLOWER && r->leader == RAFT_NOBODY && is_free && !r->is_muted && log_compare(r, m) >= 0;
    struct raft_message reply = { .type = RAFT_VOTE_REPLY, .from = r->config.self, .to = m->from, .term = r->term, .reject = !granted };

    if (!granted) {
        *message_new(r, reply.type, reply.to) = reply;
        return;
    }
    if (r->vote != m->from)
        r->is_hard_dirty = true;
    r->vote = m->from;
    election_timer(r);
    if (RAFT_FAULT(EARLY_VOTE))
        *message_new(r, reply.type, reply.to) = reply;
    else
        message_hold(r, &reply);
}

void election_vote_reply(struct raft *r, const struct raft_message *m)
{
    struct peer *p = peer_find(r, m->from);

    if (r->role != RAFT_CANDIDATE || !p || m->term != r->term)
        return;
    p->has_voted = true;
    p->has_granted = !m->reject;
    candidate_check(r);
}

/* ---- handing over ---- */

void election_timeout_now(struct raft *r, const struct raft_message *m)
{
    if (m->term != r->term || r->role != RAFT_FOLLOWER || (r->leader != m->from && r->leader != RAFT_NOBODY) || !can_campaign(r))
        return;
    become_candidate(r, true);
}

static struct peer *peer_furthest(struct raft *r)
{
    struct peer *best = NULL;

    for (uint32_t i = 0; i < r->peer_count; i++) {
        struct peer *p = &r->peers[i];

        if (p->is_voter && p->has_answered && r->now - p->heard_ms <= r->config.election_min_ms && (!best || p->match > best->match))
            best = p;
    }
    return best;
}

static void timeout_now(struct raft *r, uint64_t to)
{
    message_new(r, RAFT_TIMEOUT_NOW, to);
    r->is_transfer_sent = r->is_lease_off = true;       /* the message may be late: no lease in this term any more */
}

int raft_transfer(struct raft *r, uint64_t now_ms, uint64_t to, struct spur_error *err)
{
    struct peer *p;

    input_begin(r, now_ms);
    if (r->role != RAFT_LEADER)
        return spur_fail(err, SPUR_ENOTLEADER, "this controller does not lead: ask the one that does");
    if (to == r->config.self)
        return spur_fail(err, SPUR_EEXISTS, "this controller leads already");
    if (r->transfer_to != RAFT_NOBODY)
        return spur_fail(err, SPUR_EBUSY, "leadership is being handed over already");
    if (to != RAFT_NOBODY && (!(p = peer_find(r, to)) || !p->is_voter))
        return spur_fail(err, SPUR_EINVAL, "that controller does not vote and so cannot lead");
    if (!(p = to == RAFT_NOBODY ? peer_furthest(r) : peer_find(r, to)) || !p->has_answered || r->now - p->heard_ms > r->config.election_max_ms)
        return spur_fail(err, SPUR_ELATER, "no other controller that votes answers now: nobody can take over");
    r->transfer_to = p->id;
    r->transfer_until = r->now + r->config.election_max_ms;
    r->is_transfer_sent = false;
    election_hand_over(r);
    return 0;
}

void election_hand_over(struct raft *r)
{
    struct peer *p;

    if (r->transfer_to == RAFT_NOBODY)
        return;
    p = peer_find(r, r->transfer_to);
    if (!p || !p->is_voter || r->now >= r->transfer_until) {
        r->transfer_to = RAFT_NOBODY;
        return;
    }
    if (!r->is_transfer_sent && p->match == r->log.last)
        timeout_now(r, p->id);
}

/* Whoever is furthest is told to campaign at once; if he lacks something, the others refuse him and their timers decide. */
void election_step_down(struct raft *r, bool with_successor)
{
    struct peer *p = with_successor ? peer_furthest(r) : NULL;

    if (p)
        timeout_now(r, p->id);
    become_follower(r, r->term, RAFT_NOBODY);
}

void raft_resign(struct raft *r, uint64_t now_ms)
{
    input_begin(r, now_ms);
    if (RAFT_FAULT(RESIGN_IGNORED))
        return;
    r->quiet_until = r->now + 4u * r->config.election_max_ms;
    if (r->role == RAFT_LEADER)
        election_step_down(r, true);
    else if (r->role != RAFT_FOLLOWER)
        become_follower(r, r->term, RAFT_NOBODY);
}

void raft_set_mute(struct raft *r, bool may_not_vote)
{
    r->is_muted = may_not_vote;
    r->mute_term = r->term;
    if (may_not_vote && r->role == RAFT_LEADER)
        election_step_down(r, true);
    else if (may_not_vote && r->role != RAFT_FOLLOWER)
        become_follower(r, r->term, RAFT_NOBODY);
}
