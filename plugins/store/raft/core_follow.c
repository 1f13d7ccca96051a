/* SPDX-License-Identifier: Apache-2.0 */
/* core_follow.c - the follower's side of the log: takes the leader's entries, and says how far they are durable and equal to his.
 *
 * What is acknowledged is min(durable, matched). `matched` starts at 0 in every term and grows only by what was compared with this
 * term's leader, so neither an old tail nor a late disk completion can count for him. Committed entries are in every later leader's log, hence
 * matched is never below `commit`. A message that contradicts this was sent by no right leader: it is dropped and counted.
 */
#include "core_inside.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool follow_leader(struct raft *r, uint64_t from)
{
    if (r->role == RAFT_LEADER || (r->role == RAFT_FOLLOWER && r->leader != RAFT_NOBODY && r->leader != from)) {
        r->broken_messages++;
        return false;
    }
    if (r->role != RAFT_FOLLOWER || r->leader != from)
        become_follower(r, r->term, from);
    r->is_leader_lost = false;
    r->heard_ms = r->now;
    election_timer(r);
    return true;
}

static struct raft_message *reply_new(struct raft *r)
{
    struct raft_message *m = message_new(r, RAFT_APPEND_REPLY, r->leader);

    m->round = r->last_round;
    m->sent_ms = r->last_sent_ms;
    m->match = smaller(r->log.durable, r->matched);
    if (RAFT_FAULT(UNBOUNDED_ACK))
        m->match = r->log.durable;
    if (RAFT_FAULT(ACK_UNWRITTEN))
        m->match = r->matched;
    m->hint_index = r->matched;         /* not the log's last: a tail of old would hide that an append was lost */
    m->hint_term = log_term(&r->log, r->matched);
    return m;
}

/* Waits for the disk while the present term is not written: a promise must outlive a crash. */
void follow_reply(struct raft *r)
{
    r->is_reply_due = true;
    if (r->leader == RAFT_NOBODY || r->role != RAFT_FOLLOWER || r->is_hard_dirty || r->hard_seq > r->log.written_seq)
        return;
    r->is_reply_due = false;
    reply_new(r);
}

static void reply_reject(struct raft *r, const struct raft_message *m)
{
    struct raft_message *reply = reply_new(r);

    if (r->is_hard_dirty || r->hard_seq > r->log.written_seq)
        reply->round = reply->sent_ms = reply->match = 0;       /* nothing is promised yet */
    reply->reject = true;
    reply->index = m->index;
    reply->hint_index = log_find(&r->log, m->index, m->log_term);
    if (reply->hint_index < r->commit)
        reply->hint_index = r->commit;
    reply->hint_term = log_term(&r->log, reply->hint_index);
}

void follow_commit(struct raft *r, uint64_t commit)
{
    if (commit <= r->commit)
        return;
    RAFT_MUST(commit <= r->log.last);
    for (uint64_t i = r->commit + 1; i <= commit; i++) {
        const struct raft_entry *e = log_row(&r->log, i);

        RAFT_MUST(e);
        r->log.uncommitted_bytes -= e->n;
    }
    r->commit = commit;
    /* A leader elected after the damage was found, and without our vote, has sent everything up to here: nothing that was lost can be missed. */
    if (r->is_muted && r->role == RAFT_FOLLOWER && log_term(&r->log, commit) > r->mute_term && r->log.durable >= commit)
        r->is_muted = false;
}

/* Shape of the entries: consecutive, terms growing and not newer than the message's, known types, configurations that can be read. */
static bool entries_valid(const struct raft_message *m)
{
    uint64_t term = m->log_term;

    if (m->count && !m->entries)
        return false;
    for (size_t i = 0; i < m->count; i++) {
        const struct raft_entry *e = &m->entries[i];
        struct raft_members members;

        if (e->index != m->index + 1 + i || e->term < term || e->term == 0 || e->term > m->term || e->n > RAFT_ENTRY_MAX || (e->n && !e->data))
            return false;
        if (e->type < RAFT_ENTRY_DATA || e->type > RAFT_ENTRY_MEMBERS)
            return false;
        if (e->type == RAFT_ENTRY_MEMBERS && raft_members_unpack(&members, e->data, e->n) < 0)
            return false;
        term = e->term;
    }
    return true;
}

void follow_append(struct raft *r, const struct raft_message *m)
{
    uint64_t last = m->index + m->count;
    bool is_new = false;

    if (!entries_valid(m) || m->index > RAFT_TERM_MAX || m->count > RAFT_TERM_MAX) {
        r->broken_messages++;
        return;
    }
    if (!follow_leader(r, m->from))
        return;
    if (m->round >= r->last_round) {
        r->last_round = m->round;
        if (m->sent_ms > r->last_sent_ms)
            r->last_sent_ms = m->sent_ms;
    }
    if (r->matched < r->commit)
        r->matched = r->commit;
    if (m->index > r->log.last || (m->index > r->log.floor && log_term(&r->log, m->index) != m->log_term)) {
        if (m->index <= r->commit)
            r->broken_messages++;
        else
            reply_reject(r, m);
        return;
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct raft_entry *e = &m->entries[i];

        if (e->index <= r->log.floor)
            continue;
        if (e->index <= r->log.last) {
            if (log_term(&r->log, e->index) == e->term)
                continue;
            if (e->index <= r->commit || e->index <= r->matched) {
                r->broken_messages++;
                return;
            }
            log_truncate(r, e->index);
        }
        if (e->term < log_term(&r->log, r->log.last)) {
            r->broken_messages++;
            return;
        }
        log_append(r, e->term, e->type, e->data, e->n, NULL);
        is_new = true;
    }
    if (last > r->matched)
        r->matched = last;
    follow_commit(r, smaller(m->commit, RAFT_FAULT(COMMIT_PAST_SENT) ? r->log.last : r->matched));
    if (is_new)
        r->is_reply_due = true;         /* when the disk has it */
    else
        follow_reply(r);
}
