/* SPDX-License-Identifier: Apache-2.0 */
/* core_replicate.c - the leader's side of the log: where each peer stands, what he is sent next, and what is committed by it.
 *
 * PROBE: where the peer's log ends is a guess; one message is out, with few entries, and its answer or a timeout moves on.
 * REPLICATE: messages follow each other without waiting, window_messages at most; an answer frees those it covers.
 * SNAPSHOT: what the peer needs is not in the log any more (core_snapshot.c).
 *
 * A heartbeat names the entry that the peer is known to have, so it may overtake appends on its own connection and is never refused for that.
 * The answer says where the peer's log ends: if that is behind an append that was sent two heartbeats before the answered one, the append is lost
 * and sending begins again there. Entries of earlier terms are committed only together with one of this term (Raft 5.4.2).
 */
#include "core_inside.h"

#include <stdlib.h>
#include <string.h>

struct peer *peer_find(struct raft *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->peer_count; i++)
        if (r->peers[i].id == id)
            return &r->peers[i];
    return NULL;
}

static void peer_fini(struct peer *p)
{
    if (p->has_chunk)
        free((void *)p->chunk.data);
    p->has_chunk = false;
}

void peers_free(struct raft *r)
{
    for (uint32_t i = 0; i < r->peer_count; i++)
        peer_fini(&r->peers[i]);
    free(r->peers);
    r->peers = NULL;
    r->peer_count = 0;
}

/* One peer for each other member in force. Those who stay keep their progress, unless all begins afresh. */
void peers_rebuild(struct raft *r, bool is_fresh)
{
    struct peer *rows = raft_alloc((r->members.count + 1u) * sizeof *rows);
    uint32_t n = 0;

    RAFT_MUST(!r->is_lent);
    for (uint32_t i = 0; i < r->members.count; i++) {
        const struct raft_member *m = &r->members.rows[i];
        struct peer *old, *p = &rows[n];

        if (m->id == r->config.self)
            continue;
        old = is_fresh ? NULL : peer_find(r, m->id);
        if (old) {
            *p = *old;
            old->has_chunk = false;
        } else {
            p->id = m->id;
            p->heard_ms = r->now;
            p->next = r->log.last + 1;
            p->is_beat_due = true;
        }
        p->is_voter = m->is_voter;
        n++;
    }
    peers_free(r);
    r->peers = rows;
    r->peer_count = n;
}

void peer_probe(struct peer *p, uint64_t next)
{
    p->state = PEER_PROBE;
    p->next = next;
    p->is_probing = false;
    p->flight_head = p->flight_count = 0;
}

static uint64_t window(const struct raft *r)
{
    uint32_t n = r->config.window_messages;

    return n == 0 ? 1 : n > RAFT_WINDOW_MAX ? RAFT_WINDOW_MAX : n;
}

static void flight_push(struct peer *p, uint64_t last, uint64_t sent_ms)
{
    RAFT_MUST(p->flight_count < RAFT_WINDOW_MAX);
    p->flights[(p->flight_head + p->flight_count++) % RAFT_WINDOW_MAX] = (struct flight){ last, sent_ms };
}

static void flights_land(struct peer *p)
{
    while (p->flight_count && p->flights[p->flight_head].last <= p->match) {
        p->flight_head = (p->flight_head + 1) % RAFT_WINDOW_MAX;
        p->flight_count--;
    }
}

/* ---- what a ready carries ---- */

/* Entry and as many after it as one message may have. NULL: not in memory now. */
static const struct raft_entry *slice(const struct raft *r, uint64_t first, uint64_t bytes_max, size_t *count)
{
    const struct raft_entry *e = log_row(&r->log, first);
    size_t n, most, bytes = 0;

    if (e) {
        most = (size_t)(r->log.last - first + 1);
    } else if (r->loaded_count && first >= r->loaded_first && first < r->loaded_first + r->loaded_count) {
        e = &r->loaded[first - r->loaded_first];
        most = r->loaded_count - (size_t)(first - r->loaded_first);
    } else {
        return NULL;
    }
    if (most > r->config.append_entries_max && r->config.append_entries_max > 0)
        most = r->config.append_entries_max;
    for (n = 0; n < most; n++) {
        bytes += e[n].n;
        if (n > 0 && bytes > bytes_max)
            break;
    }
    *count = n;
    return e;
}

static struct raft_message *append_new(struct raft *r, struct peer *p, uint64_t before)
{
    struct raft_message *m = message_new(r, RAFT_APPEND, p->id);

    m->index = before;
    m->log_term = log_term(&r->log, before);
    m->commit = r->commit;
    m->round = r->round;
    m->sent_ms = r->now;
    p->sent_ms = r->now;
    p->commit_sent = r->commit;
    return m;
}

static bool probe_is_due(const struct raft *r, const struct peer *p)
{
    return p->state == PEER_PROBE && p->next > r->log.floor && (!p->is_probing || r->now >= p->probe_ms + 4u * r->config.heartbeat_ms);
}

static bool append_is_due(const struct raft *r, const struct peer *p)
{
    size_t count;

    return p->state == PEER_REPLICATE && p->flight_count < window(r) && p->next <= r->log.last && slice(r, p->next, 0, &count);
}

static bool load_is_due(const struct raft *r, const struct peer *p)
{
    size_t count;

    return p->state == PEER_REPLICATE && r->load.count == 0 && p->next > r->log.floor && p->next <= r->log.last && p->flight_count < window(r)
           && !slice(r, p->next, 0, &count);
}

static bool snapshot_is_due(const struct raft *r, const struct peer *p)
{
    return p->state != PEER_SNAPSHOT && p->next <= r->log.floor && p->has_answered;
}

bool replicate_has_work(const struct raft *r)
{
    if (r->role != RAFT_LEADER)
        return false;
    for (uint32_t i = 0; i < r->peer_count; i++) {
        const struct peer *p = &r->peers[i];

        if (p->is_beat_due || probe_is_due(r, p) || append_is_due(r, p) || load_is_due(r, p) || snapshot_is_due(r, p) || snapshot_has_work(r, p))
            return true;
    }
    return r->load.count && !r->load.is_asked;
}

void replicate_fill(struct raft *r)
{
    if (r->role != RAFT_LEADER)
        return;
    for (uint32_t i = 0; i < r->peer_count; i++) {
        struct peer *p = &r->peers[i];
        size_t count = 0;

        if (snapshot_is_due(r, p)) {
            snapshot_peer_reset(p);
            p->state = PEER_SNAPSHOT;
        }
        if (probe_is_due(r, p)) {
            struct raft_message *m = append_new(r, p, p->next - 1);

            p->flight_head = p->flight_count = 0;
            m->entries = p->next <= r->log.last ? slice(r, p->next, RAFT_PROBE_BYTES, &count) : NULL;
            if (m->entries && m->entries[0].n > RAFT_PROBE_BYTES)
                m->entries = NULL;
            m->count = m->entries ? count : 0;
            if (m->count)
                flight_push(p, m->index + m->count, r->now);
            p->is_probing = true;
            p->probe_ms = r->now;
            p->is_beat_due = p->is_beat_due && m->count;        /* a probe without entries is a heartbeat too */
        }
        while (append_is_due(r, p)) {
            struct raft_message *m = append_new(r, p, p->next - 1);

            m->entries = slice(r, p->next, r->config.append_bytes_max, &count);
            m->count = count;
            p->next += count;
            flight_push(p, p->next - 1, r->now);
        }
        if (load_is_due(r, p)) {
            r->load.first = p->next;
            r->load.count = r->config.append_entries_max ? r->config.append_entries_max : 64;
            if (r->log.mem_first - p->next < r->load.count)
                r->load.count = (uint32_t)(r->log.mem_first - p->next);
            r->load.is_asked = false;
        }
        snapshot_fill(r, p);
        if (p->is_beat_due) {
            p->is_beat_due = false;
            append_new(r, p, p->match >= r->log.floor ? p->match : 0);
        }
    }
}

/* ---- time ---- */

static uint64_t heard_of(const struct raft *r, const struct peer *p)
{
    (void)r;
    return p->heard_ms;
}

void replicate_tick(struct raft *r)
{
    if (members_order(r, r->now, heard_of) + r->config.election_max_ms < r->now) {
        become_follower(r, r->term, RAFT_NOBODY);       /* check-quorum: nobody may be listening any more */
        return;
    }
    if (r->now >= r->beat_ms) {
        r->round++;
        r->beat_ms = r->now + r->config.heartbeat_ms;
        for (uint32_t i = 0; i < r->peer_count; i++)
            r->peers[i].is_beat_due = true;
    }
    for (uint32_t i = 0; i < r->peer_count; i++) {
        struct peer *p = &r->peers[i];

        if (p->commit_sent < r->commit && r->now >= p->sent_ms + RAFT_NEWS_MS)
            p->is_beat_due = true;
    }
    election_hand_over(r);
    members_promote(r);
}

/* ---- answers ---- */

bool replicate_heard(struct raft *r, struct peer *p, const struct raft_message *m)
{
    if (m->round > r->round || m->sent_ms > r->now || m->match > r->log.last) {
        r->broken_messages++;
        return false;
    }
    p->heard_ms = r->now;
    p->has_answered = true;
    if (m->round > p->round)
        p->round = m->round;
    if (m->sent_ms > p->lease_ms)
        p->lease_ms = RAFT_FAULT(LEASE_FROM_REPLY) ? r->now : m->sent_ms;
    return true;
}

static void reply_rejected(struct raft *r, struct peer *p, const struct raft_message *m)
{
    uint64_t next;

    if (p->state == PEER_SNAPSHOT || (p->state == PEER_PROBE && m->index != p->next - 1 && m->index > p->match))
        return;
    if (p->state == PEER_REPLICATE && m->index >= p->next)
        return;
    next = log_find(&r->log, m->hint_index, m->hint_term) + 1;
    /* He denies what he had acknowledged: his disk has lost it, or this is an old answer. To believe the worse is safe. */
    if (m->index <= p->match)
        p->match = next - 1 < p->match ? next - 1 : p->match;
    if (next <= p->match)
        next = p->match + 1;
    if (next > m->index)
        next = m->index;
    peer_probe(p, next ? next : 1);
}

static void reply_accepted(struct raft *r, struct peer *p, const struct raft_message *m)
{
    if (m->match > p->match)
        p->match = m->match;
    if (p->state == PEER_SNAPSHOT) {
        if (p->snapshot_index && p->match >= p->snapshot_index)
            peer_probe(p, p->match + 1);
        return;
    }
    if (p->state == PEER_PROBE && p->match + 1 >= p->next) {
        /* The guess was right: go on behind what the probe carried. */
        p->state = PEER_REPLICATE;
        p->is_probing = false;
        p->next = p->flight_count ? p->flights[(p->flight_head + p->flight_count - 1) % RAFT_WINDOW_MAX].last + 1 : p->next;
    }
    if (p->next <= p->match)
        p->next = p->match + 1;
    flights_land(p);
    if (p->state == PEER_REPLICATE && p->flight_count) {
        const struct flight *oldest = &p->flights[p->flight_head];

        if (m->hint_index < oldest->last && m->sent_ms >= oldest->sent_ms + 2u * r->config.heartbeat_ms)
            peer_probe(p, p->match + 1);
    }
}

void replicate_reply(struct raft *r, const struct raft_message *m)
{
    struct peer *p = peer_find(r, m->from);

    if (r->role != RAFT_LEADER || !p || !replicate_heard(r, p, m))
        return;
    if (m->reject)
        reply_rejected(r, p, m);
    else
        reply_accepted(r, p, m);
    replicate_commit(r);
    read_check(r);
    if (r->role == RAFT_LEADER)
        election_hand_over(r);
}

static uint64_t match_of(const struct raft *r, const struct peer *p)
{
    (void)r;
    return p->match;
}

/* What a majority of the voters has durable, ourselves among them only when our own disk has it and we vote. */
void replicate_commit(struct raft *r)
{
    uint64_t index;

    if (r->role != RAFT_LEADER)
        return;
    index = members_order(r, RAFT_FAULT(LEADS_UNWRITTEN) ? r->log.last : r->log.durable, match_of);
    if (index <= r->commit || (log_term(&r->log, index) != r->term && !RAFT_FAULT(FIGURE8)))
        return;
    follow_commit(r, index);
    if (r->commit >= r->noop && !r->is_leader_ready) {
        r->is_leader_ready = true;
        read_check(r);
    }
    members_committed(r);
}
