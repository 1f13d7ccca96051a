/* SPDX-License-Identifier: Apache-2.0 */
/* core_snapshot.c - snapshots: of the own state, and those that travel to a peer who is further behind than the log goes.
 *
 * The bytes are the shell's. Here one chunk at a time is asked for, sent, kept and answered, so a break is resumed where it was and the
 * rate is the receiver's. While the last chunk is checked and put in place nothing committed is handed out and no candidacy begins.
 * What is acknowledged at the end is the snapshot's own index, never the log's last.
 *
 * The log is kept from the older of two snapshots on: if the newest turns out to be damaged, the one before and the log give the same.
 */
#include "core_inside.h"

#include <stdlib.h>
#include <string.h>

void raft_snapshot_taken(struct raft *r, uint64_t index, uint64_t term, const struct raft_members *members)
{
    uint64_t older = r->snapshot_index;

    RAFT_MUST(!r->is_lent);
    if (index <= r->snapshot_index)
        return;
    RAFT_MUST(index <= r->applied && log_term(&r->log, index) == term && members_valid(members));
    r->snapshot_index = index;
    r->snapshot_term = term;
    r->snapshot_members = *members;
    r->is_snapshot_wanted = false;
    log_floor(r, older);
    log_evict(r);
}

uint64_t raft_log_keep(const struct raft *r)
{
    return r->log.floor;
}

/* ---- sending ---- */

void snapshot_peer_reset(struct peer *p)
{
    if (p->has_chunk)
        free((void *)p->chunk.data);
    p->has_chunk = p->is_asked = p->is_probing = false;
    p->snapshot_index = p->offset = 0;
    p->asked_ms = 0;
    p->flight_head = p->flight_count = 0;
}

static bool is_overdue(const struct raft *r, const struct peer *p)
{
    return r->now >= p->asked_ms + 4u * r->config.election_max_ms;
}

bool snapshot_has_work(const struct raft *r, const struct peer *p)
{
    if (p->state != PEER_SNAPSHOT)
        return false;
    return p->has_chunk || ((!p->is_asked || is_overdue(r, p)) && r->now - p->heard_ms <= r->config.election_max_ms);
}

/* Sends the chunk that is there, or asks the shell for the next. */
void snapshot_fill(struct raft *r, struct peer *p)
{
    if (!snapshot_has_work(r, p))
        return;
    if (p->has_chunk) {
        struct raft_message *m = message_new(r, RAFT_SNAPSHOT, p->id);

        *m = p->chunk;                  /* the data lives until raft_done */
        m->members = &p->chunk_members;
        p->asked_ms = r->now;
        return;
    }
    p->is_asked = true;
    p->asked_ms = r->now;
    if (r->snapshot_index == 0) {
        r->is_snapshot_wanted = true;   /* looked at again when overdue */
        return;
    }
    if (p->snapshot_index && p->snapshot_index < r->log.floor)
        p->snapshot_index = p->offset = 0;      /* that one leads to nothing that the log still has */
    r->sends = raft_grow(r->sends, &r->send_room, r->send_count, sizeof *r->sends);
    r->sends[r->send_count++] = (struct raft_send){ .to = p->id, .offset = p->offset, .snapshot_index = p->snapshot_index };
}

/* n 0 and total 0: it cannot be read now; asked again later. */
void raft_snapshot_chunk(struct raft *r, uint64_t now_ms, uint64_t to, const struct raft_message *chunk)
{
    struct peer *p = peer_find(r, to);

    input_begin(r, now_ms);
    if (r->role != RAFT_LEADER || !p || p->state != PEER_SNAPSHOT || !p->is_asked || p->has_chunk || chunk->total == 0)
        return;
    RAFT_MUST(chunk->members && members_valid(chunk->members) && chunk->index > 0 && chunk->n <= RAFT_CHUNK_MAX);
    if (chunk->offset != p->offset || (p->snapshot_index && chunk->index != p->snapshot_index)) {
        p->snapshot_index = p->offset = 0;      /* the shell has a newer one only: from its start */
        p->is_asked = false;
        if (chunk->offset != 0)
            return;
        p->is_asked = true;
    }
    p->snapshot_index = chunk->index;
    p->chunk = (struct raft_message){ .type = RAFT_SNAPSHOT, .from = r->config.self, .to = to, .term = r->term, .index = chunk->index, .log_term = chunk->log_term,
                                      .offset = chunk->offset, .total = chunk->total, .n = chunk->n, .is_last = chunk->is_last,
                                      .data = raft_copy(chunk->data, chunk->n) };
    p->chunk_members = *chunk->members;
    p->has_chunk = true;
}

void snapshot_reply(struct raft *r, const struct raft_message *m)
{
    struct peer *p = peer_find(r, m->from);

    if (r->role != RAFT_LEADER || !p || !replicate_heard(r, p, m))
        return;
    if (m->match > p->match)
        p->match = m->match;
    if (p->state == PEER_SNAPSHOT && m->index == p->snapshot_index && m->index > 0) {
        if (m->is_last || p->match >= m->index) {
            snapshot_peer_reset(p);
            peer_probe(p, (p->match > m->index ? p->match : m->index) + 1);
        } else if (!p->has_chunk && p->is_asked && m->offset <= p->chunk.total) {
            p->offset = m->offset;
            /* Everything is there and being put in place: the answer to that, or a heartbeat's, moves on. If it was lost, the last chunk goes again. */
            p->is_asked = m->offset > 0 && m->offset >= p->chunk.total;
            if (p->is_asked) {
                p->offset = p->chunk.offset;
                p->asked_ms = r->now;
            }
        }
    }
    replicate_commit(r);
    read_check(r);
}

/* ---- receiving ---- */

static void reply_offset(struct raft *r, uint64_t to)
{
    struct raft_message *m = message_new(r, RAFT_SNAPSHOT_REPLY, to);

    m->index = r->receiving.index;
    m->log_term = r->receiving.term;
    m->offset = r->receiving.offset;
    m->total = r->receiving.total;
}

static void reply_installed(struct raft *r, uint64_t to, uint64_t index, uint64_t term)
{
    struct raft_message *m = message_new(r, RAFT_SNAPSHOT_REPLY, to);

    m->index = index;
    m->log_term = term;
    m->match = r->log.durable < r->matched ? r->log.durable : r->matched;
    if (RAFT_FAULT(SNAPSHOT_ACK))
        m->match = r->log.last;
    m->is_last = true;
}

void snapshot_message(struct raft *r, const struct raft_message *m)
{
    if (!m->members || !members_valid(m->members) || m->index == 0 || m->index > RAFT_TERM_MAX || m->log_term == 0 || m->log_term > m->term
        || m->n > RAFT_CHUNK_MAX || (m->n && !m->data) || m->offset > m->total || m->n > m->total - m->offset || (m->n == 0 && !m->is_last)
        || m->is_last != (m->offset + m->n == m->total)) {
        r->broken_messages++;
        return;
    }
    if (!follow_leader(r, m->from))
        return;
    if (r->matched < r->commit)
        r->matched = r->commit;
    if (m->index <= r->commit) {
        reply_installed(r, m->from, m->index, m->log_term);
        return;
    }
    if (r->receiving.is_installing) {
        if (r->receiving.index == m->index && r->receiving.from == m->from)
            reply_offset(r, m->from);
        return;
    }
    if (r->has_chunk)
        return;
    if (r->receiving.from != m->from || r->receiving.index != m->index || r->receiving.term != m->log_term || r->receiving.total != m->total) {
        r->receiving.from = m->from;
        r->receiving.index = m->index;
        r->receiving.term = m->log_term;
        r->receiving.total = m->total;
        r->receiving.offset = 0;
    }
    if (m->offset != r->receiving.offset) {
        reply_offset(r, m->from);
        return;
    }
    r->chunk = *m;
    r->chunk.data = raft_copy(m->data, m->n);
    r->chunk_members = *m->members;
    r->has_chunk = true;
}

/* The shell has the chunk now, or will have it before any later one. */
void snapshot_kept(struct raft *r)
{
    r->receiving.offset += r->chunk.n;
    r->receiving.is_installing = r->chunk.is_last;
    free((void *)r->chunk.data);
    r->has_chunk = false;
    if (r->role == RAFT_FOLLOWER && r->leader == r->receiving.from)
        reply_offset(r, r->receiving.from);
}

bool raft_snapshot_installed(struct raft *r, uint64_t now_ms, uint64_t index, uint64_t term, const struct raft_members *members)
{
    bool is_reset = false;

    input_begin(r, now_ms);
    RAFT_MUST(members_valid(members) && index > 0 && term > 0);
    memset(&r->receiving, 0, sizeof r->receiving);
    if (index > r->commit) {
        RAFT_MUST(r->role != RAFT_LEADER && index > r->applied);        /* a leader has all that is committed */
        if (index <= r->log.last && log_term(&r->log, index) == term) {
            follow_commit(r, index);            /* the log leads up to it and goes on behind it: kept */
        } else {
            log_reset(r, index, term);
            r->commit = r->handed = index;
            r->applied = index;
            members_push(r, index, members);
            is_reset = true;
        }
    }
    applied_set(r, index);
    if (index > r->snapshot_index) {
        r->snapshot_index = index;
        r->snapshot_term = term;
        r->snapshot_members = *members;
    }
    if (r->matched < index)
        r->matched = index;                     /* committed: in the log of every leader from now on */
    if (r->role == RAFT_FOLLOWER && r->leader != RAFT_NOBODY)
        reply_installed(r, r->leader, index, term);
    return is_reset;
}

void raft_snapshot_refused(struct raft *r, uint64_t now_ms)
{
    uint64_t from = r->receiving.from;

    input_begin(r, now_ms);
    r->receiving.is_installing = false;
    r->receiving.offset = 0;
    if (from != RAFT_NOBODY && r->role == RAFT_FOLLOWER && r->leader == from)
        reply_offset(r, from);
}
