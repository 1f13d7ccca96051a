/* SPDX-License-Identifier: Apache-2.0 */
/* core.c - the entry points of the consensus core: takes inputs, puts a ready together. core_inside.h says what the other files own.
 *
 * Inputs only change state and note what is due; raft_ready makes messages, writes and committed entries of it, as slices of the log
 * that nobody may move until raft_done. A message is believed as far as its sender's term and our log allow: what no right
 * peer can have sent is dropped and counted, never asserted on.
 */
#include "core_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMITTED_ENTRIES 4096u     /* in one ready */
#define COMMITTED_BYTES   (8u << 20)

#ifdef RAFT_FAULTS
uint32_t raft_faults;
#endif

_Noreturn void raft_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "store/raft: broken invariant at %s:%d: %s\n", file, line, condition);
    abort();
}

void *raft_alloc(size_t n)
{
    void *p = calloc(1, n ? n : 1);

    RAFT_MUST(p);
    return p;
}

void *raft_grow(void *rows, size_t *room, size_t count, size_t row_size)
{
    void *p;

    if (count < *room)
        return rows;
    *room = *room ? 2 * *room : 16;
    p = realloc(rows, *room * row_size);
    RAFT_MUST(p);
    return p;
}

void *raft_copy(const void *data, size_t n)
{
    void *p = n ? malloc(n) : NULL;

    RAFT_MUST(n == 0 || p);
    if (n)
        memcpy(p, data, n);
    return p;
}

/* splitmix64; the few bits of bias do not matter for a timer. */
uint64_t raft_random(struct raft *r, uint64_t below)
{
    uint64_t z = r->rng += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % (below ? below : 1);
}

struct raft_message *message_new(struct raft *r, uint32_t type, uint64_t to)
{
    struct raft_message *m;

    r->messages = raft_grow(r->messages, &r->message_room, r->message_count, sizeof *r->messages);
    m = &r->messages[r->message_count++];
    *m = (struct raft_message){ .type = type, .from = r->config.self, .to = to, .term = r->term };
    return m;
}

void message_hold(struct raft *r, const struct raft_message *m)
{
    uint64_t seq = log_due_seq(r);

    if (seq <= r->log.written_seq) {
        *message_new(r, m->type, m->to) = *m;
        return;
    }
    r->held = raft_grow(r->held, &r->held_room, r->held_count, sizeof *r->held);
    r->held[r->held_count++] = (struct held){ seq, *m };
}

/* What waited for the disk goes now, unless it belongs to a term that is over. */
static void held_release(struct raft *r)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->held_count; i++) {
        if (r->held[i].seq > r->log.written_seq)
            r->held[kept++] = r->held[i];
        else if (r->held[i].m.term == r->term && (r->held[i].m.type != RAFT_VOTE || r->role == RAFT_CANDIDATE))    /* nobody is asked any more who has lost meanwhile */
            *message_new(r, r->held[i].m.type, r->held[i].m.to) = r->held[i].m;
    }
    r->held_count = kept;
}

/* ---- making, ending ---- */

struct raft *raft_create(const struct raft_config *config, const struct raft_restored *restored)
{
    struct raft *r = raft_alloc(sizeof *r);
    uint64_t faith = 2u * config->heartbeat_ms;

    RAFT_MUST(config->self != RAFT_NOBODY && config->heartbeat_ms > 0 && config->election_min_ms >= faith && config->election_max_ms >= config->election_min_ms);
    RAFT_MUST(restored->applied >= restored->snapshot_index);
    r->config = *config;
    r->promise_ms = faith < config->election_min_ms ? faith : config->election_min_ms;
    r->rng = config->seed;
    r->role = RAFT_FOLLOWER;
    r->term = restored->term;
    r->vote = restored->vote;
    if (restored->snapshot_index) {
        r->snapshot_index = restored->snapshot_index;
        r->snapshot_term = restored->snapshot_term;
        r->snapshot_members = restored->snapshot_members;
        members_push(r, r->snapshot_index, &r->snapshot_members);
    }
    log_init(&r->log, restored);
    for (size_t i = 0; i < restored->count; i++) {
        struct raft_members m;

        if (restored->entries[i].type != RAFT_ENTRY_MEMBERS)
            continue;
        RAFT_MUST(raft_members_unpack(&m, restored->entries[i].data, restored->entries[i].n) == 0);
        members_push(r, restored->entries[i].index, &m);
    }
    /* An entry's term is a term that was lived in, whatever became of the write that noted it. */
    if (r->term < log_term(&r->log, r->log.last)) {
        r->term = log_term(&r->log, r->log.last);
        r->vote = RAFT_NOBODY;
        r->is_hard_dirty = true;
    }
    RAFT_MUST(restored->applied <= r->log.last);
    for (uint64_t i = r->log.mem_first; i <= restored->applied; i++)
        r->log.uncommitted_bytes -= log_row(&r->log, i)->n;
    r->commit = r->handed = r->applied = restored->applied;
    log_evict(r);
    r->is_role_dirty = false;
    r->is_members_dirty = r->members.count > 0;
    return r;
}

void raft_destroy(struct raft *r)
{
    if (!r)
        return;
    if (r->has_chunk)
        free((void *)r->chunk.data);
    for (size_t i = 0; i < r->loaded_count; i++)
        free((void *)r->loaded[i].data);
    free(r->loaded);
    peers_free(r);
    log_fini(&r->log);
    free(r->configs);
    free(r->reads);
    free(r->messages);
    free(r->held);
    free(r->answers);
    free(r->dropped);
    free(r->sends);
    free(r);
}

/* ---- inputs ---- */

void input_begin(struct raft *r, uint64_t now_ms)
{
    RAFT_MUST(!r->is_lent);
    if (!r->has_time) {
        /* What this member promised before it was started is not known: it is faithful to whoever leads for one election timeout. */
        r->has_time = true;
        r->now = r->heard_ms = now_ms;
        if (members_voters(r) == 1 && members_is_voter(r, r->config.self))
            r->deadline = now_ms;
        else
            election_timer(r);
    }
    if (now_ms > r->now)
        r->now = now_ms;
}

void raft_tick(struct raft *r, uint64_t now_ms)
{
    input_begin(r, now_ms);
    if (r->role == RAFT_LEADER)
        replicate_tick(r);
    else
        election_tick(r);
}

uint64_t raft_next_ms(const struct raft *r)
{
    uint64_t next = r->role == RAFT_LEADER ? r->beat_ms : r->deadline;

    for (uint32_t i = 0; r->role == RAFT_LEADER && i < r->peer_count; i++)
        if (r->peers[i].commit_sent < r->commit && r->peers[i].sent_ms + RAFT_NEWS_MS < next)
            next = r->peers[i].sent_ms + RAFT_NEWS_MS;
    return r->has_time ? next : 0;
}

/* A message of an earlier term: its sender must hear that the world has moved on, or he would go on forever. */
static void refuse_old(struct raft *r, const struct raft_message *m)
{
    if (m->type == RAFT_VOTE)
        message_new(r, RAFT_VOTE_REPLY, m->from)->reject = true;
    else if (m->type == RAFT_APPEND || m->type == RAFT_SNAPSHOT)
        message_new(r, RAFT_APPEND_REPLY, m->from)->reject = true;
}

/* Brings the term up to the message's; false: the message ends here. */
static bool term_follow(struct raft *r, const struct raft_message *m)
{
    switch (m->type) {
    case RAFT_VOTE:
        if (election_is_faithful(r) && !m->by_transfer)
            return false;
        become_follower(r, m->term, RAFT_NOBODY);
        return true;
    case RAFT_APPEND: case RAFT_SNAPSHOT:
        become_follower(r, m->term, RAFT_NOBODY);
        return true;
    case RAFT_PREVOTE_REPLY:
        if (!m->reject)
            return true;
        become_follower(r, m->term, RAFT_NOBODY);
        return false;
    case RAFT_TIMEOUT_NOW:
        return false;
    default:
        become_follower(r, m->term, RAFT_NOBODY);
        return false;
    }
}

void raft_message(struct raft *r, uint64_t now_ms, const struct raft_message *m)
{
    input_begin(r, now_ms);
    if (m->to != r->config.self || m->from == r->config.self || m->from == RAFT_NOBODY || m->term > RAFT_TERM_MAX
        || (m->term == 0 && m->type != RAFT_PREVOTE_REPLY)) {      /* who has never seen a term can only refuse */
        r->broken_messages++;
        return;
    }
    if (m->type == RAFT_PREVOTE) {
        election_prevote(r, m);
        return;
    }
    if (m->type == RAFT_PREVOTE_REPLY && m->term <= r->term) {
        election_prevote_reply(r, m);
        return;
    }
    if (m->term < r->term && !(RAFT_FAULT(OLD_LEADERS_SNAPSHOT) && m->type == RAFT_SNAPSHOT)) {
        refuse_old(r, m);
        return;
    }
    if (m->term > r->term && !term_follow(r, m))
        return;
    switch (m->type) {
    case RAFT_PREVOTE_REPLY:  election_prevote_reply(r, m); break;
    case RAFT_VOTE:           election_vote(r, m); break;
    case RAFT_VOTE_REPLY:     election_vote_reply(r, m); break;
    case RAFT_APPEND:         follow_append(r, m); break;
    case RAFT_APPEND_REPLY:   replicate_reply(r, m); break;
    case RAFT_SNAPSHOT:       snapshot_message(r, m); break;
    case RAFT_SNAPSHOT_REPLY: snapshot_reply(r, m); break;
    case RAFT_TIMEOUT_NOW:    election_timeout_now(r, m); break;
    default:                  r->broken_messages++; break;
    }
}

int raft_propose(struct raft *r, uint64_t now_ms, const void *data, size_t n, void *cookie, uint64_t *index, struct spur_error *err)
{
    input_begin(r, now_ms);
    if (r->role != RAFT_LEADER)
        return spur_fail(err, SPUR_ENOTLEADER, "this controller does not lead: ask the one that does");
    if (n > RAFT_ENTRY_MAX)
        return spur_fail(err, SPUR_ELIMIT, "an entry of %zu bytes is larger than %u", n, RAFT_ENTRY_MAX);
    if (r->transfer_to != RAFT_NOBODY)
        return spur_fail(err, SPUR_EBUSY, "leadership is being handed over: try again in a moment");
    if (r->log.uncommitted_bytes > RAFT_UNCOMMITTED_BYTES || r->log.last - r->commit > RAFT_UNCOMMITTED_ENTRIES)
        return spur_fail(err, SPUR_EBUSY, "%llu entries wait for a majority of the controllers: try again in a moment",
                         (unsigned long long)(r->log.last - r->commit));
    *index = log_append(r, r->term, RAFT_ENTRY_DATA, data, n, cookie);
    return 0;
}

void *raft_cookie(const struct raft *r, uint64_t index, uint64_t term)
{
    const struct raft_entry *e = log_row(&r->log, index);

    return e && e->term == term ? r->log.cookies[e - r->log.rows] : NULL;
}

void raft_written(struct raft *r, uint64_t now_ms, uint64_t write_seq)
{
    bool has_grown;

    input_begin(r, now_ms);
    has_grown = log_written(r, write_seq);
    held_release(r);
    election_written(r);
    if (RAFT_FAULT(LATE_MEMBERS))
        members_refresh(r);
    if (r->role == RAFT_LEADER) {
        replicate_commit(r);
        read_check(r);
    } else if (has_grown || r->is_reply_due) {
        follow_reply(r);
        if (RAFT_FAULT(OLD_TERM_ACK) && has_grown && r->message_count && r->messages[r->message_count - 1].type == RAFT_APPEND_REPLY)
            r->messages[r->message_count - 1].match = r->log.durable;
    }
    log_evict(r);
}

void applied_set(struct raft *r, uint64_t index)
{
    for (uint64_t i = r->applied + 1; i <= index && i <= r->handed; i++)
        r->log.handed_bytes -= log_row(&r->log, i)->n;
    if (r->handed < index)
        r->handed = index;
    if (r->applied < index)
        r->applied = index;
}

void raft_applied(struct raft *r, uint64_t index)
{
    RAFT_MUST(!r->is_lent && index <= r->handed);
    applied_set(r, index);
    log_evict(r);
}

/* ---- output ---- */

static bool can_hand_out(const struct raft *r)
{
    return r->commit > r->handed && !r->receiving.is_installing && r->log.handed_bytes < RAFT_HANDED_BYTES;
}

static bool ready_is_due(const struct raft *r)
{
    return r->role == RAFT_LEADER && r->is_leader_ready && !r->is_ready_told && r->handed >= r->noop;
}

bool raft_has_ready(const struct raft *r)
{
    return r->message_count || r->is_hard_dirty || r->log.next_write <= r->log.last || can_hand_out(r) || r->answer_count || r->dropped_count
           || r->is_role_dirty || r->is_members_dirty || r->has_chunk || r->is_snapshot_wanted || r->is_round_wanted || ready_is_due(r)
           || replicate_has_work(r);
}

static void hand_out(struct raft *r, struct raft_ready *out)
{
    size_t n = 0, bytes = 0;

    if (!can_hand_out(r))
        return;
    out->committed = log_row(&r->log, r->handed + 1);
    RAFT_MUST(out->committed);
    while (n < COMMITTED_ENTRIES && r->handed < r->commit && (n == 0 || bytes + out->committed[n].n <= COMMITTED_BYTES)) {
        bytes += out->committed[n++].n;
        r->handed++;
    }
    out->committed_count = n;
    r->log.handed_bytes += bytes;
}

void raft_ready(struct raft *r, struct raft_ready *out)
{
    RAFT_MUST(!r->is_lent);
    memset(out, 0, sizeof *out);
    if (r->is_round_wanted && r->role == RAFT_LEADER) {
        r->round++;
        r->beat_ms = r->now + r->config.heartbeat_ms;
        for (uint32_t i = 0; i < r->peer_count; i++)
            r->peers[i].is_beat_due = true;
    }
    r->is_round_wanted = false;
    replicate_fill(r);
    if (r->is_hard_dirty || r->log.next_write <= r->log.last) {
        out->has_vote = r->is_hard_dirty;
        out->term = r->term;
        out->vote = r->vote;
        if (r->log.next_write <= r->log.last) {
            out->entries = log_row(&r->log, r->log.next_write);
            out->count = (size_t)(r->log.last - r->log.next_write + 1);
            RAFT_MUST(out->entries);
        }
        out->write_seq = log_order(r);
    }
    hand_out(r, out);
    out->messages = r->messages;
    out->message_count = r->message_count;
    out->reads = r->answers;
    out->read_count = r->answer_count;
    out->dropped = r->dropped;
    out->dropped_count = r->dropped_count;
    out->sends = r->sends;
    out->send_count = r->send_count;
    out->role = r->role;
    out->leader = r->leader;
    out->has_role = r->is_role_dirty || ready_is_due(r);
    if (ready_is_due(r))
        r->is_ready_told = true;
    out->is_leader_ready = r->role == RAFT_LEADER && r->is_ready_told;
    out->has_members = r->is_members_dirty;
    out->members = &r->members;
    if (r->has_chunk) {
        r->chunk.members = &r->chunk_members;
        out->chunk = &r->chunk;
    }
    if (r->load.count && !r->load.is_asked) {
        out->load_first = r->load.first;
        out->load_count = r->load.count;
        r->load.is_asked = true;
    }
    out->wants_snapshot = r->is_snapshot_wanted;
    r->is_role_dirty = r->is_members_dirty = r->is_snapshot_wanted = false;
    r->is_lent = true;
}

void raft_done(struct raft *r)
{
    RAFT_MUST(r->is_lent);
    r->is_lent = false;
    r->message_count = r->answer_count = r->dropped_count = r->send_count = 0;
    for (uint32_t i = 0; i < r->peer_count; i++)
        if (r->peers[i].has_chunk) {
            free((void *)r->peers[i].chunk.data);
            r->peers[i].chunk.data = NULL;
            r->peers[i].has_chunk = false;
        }
    if (r->has_chunk)
        snapshot_kept(r);
    log_evict(r);
}

/* ---- what people and tests look at ---- */

void raft_status(const struct raft *r, struct raft_status *out)
{
    memset(out, 0, sizeof *out);
    out->role = r->role;
    out->term = r->term;
    out->vote = r->vote;
    out->leader = r->leader;
    out->last_index = r->log.last;
    out->last_term = log_term(&r->log, r->log.last);
    out->commit = r->commit;
    out->applied = r->applied;
    out->written = r->log.durable;
    out->snapshot_index = r->snapshot_index;
    out->lease_until_ms = lease_until(r);
    out->is_muted = r->is_muted;
    out->has_pending_members = r->config_count && r->configs[r->config_count - 1].index > r->commit;
    out->is_leader_ready = r->role == RAFT_LEADER && r->is_leader_ready;
    out->transfer_to = r->transfer_to;
    out->broken_messages = r->broken_messages;
    out->members = r->members;
    if (r->role != RAFT_LEADER)
        return;
    for (uint32_t i = 0; i < r->peer_count && i < RAFT_MEMBERS_MAX; i++) {
        const struct peer *p = &r->peers[i];

        out->peers[out->peer_count++] = (struct raft_peer){ .id = p->id, .match = p->match, .next = p->next, .is_voter = p->is_voter,
            .is_active = p->has_answered && r->now - p->heard_ms <= r->config.election_max_ms, .is_snapshotting = p->state == PEER_SNAPSHOT,
            .heard_ms = p->heard_ms };
    }
}

uint64_t raft_term_at(const struct raft *r, uint64_t index)
{
    if (index == r->snapshot_index && index)
        return r->snapshot_term;
    return log_term(&r->log, index);
}
