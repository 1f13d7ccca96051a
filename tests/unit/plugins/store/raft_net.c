/* SPDX-License-Identifier: Apache-2.0 */
/* raft_net.c - see raft_net.h. */
#include "raft_net.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct raft_member net_member_row(uint64_t id, bool is_voter)
{
    struct raft_member m;

    memset(&m, 0, sizeof m);
    m.id = id;
    m.is_voter = is_voter;
    snprintf(m.name, sizeof m.name, "c%u", (unsigned)id);
    snprintf(m.addr, sizeof m.addr, "c%u:6817", (unsigned)id);
    return m;
}

void net_init(struct net *n)
{
    memset(n, 0, sizeof *n);
    n->now = 1000;
    n->cache_bytes = 1u << 20;
    for (uint64_t id = 1; id <= NET_MEMBERS; id++) {
        n->members[id].id = id;
        n->members[id].first = 1;
    }
}

static void write_free(struct net_write *w)
{
    free(w->entries);
}

static void message_free(struct net_message *m)
{
    for (size_t i = 0; i < m->count; i++)
        free((void *)m->entries[i].data);
    free(m->entries);
    free(m->data);
}

void net_stop(struct net *n, uint64_t id)
{
    struct net_member *m = &n->members[id];

    raft_destroy(m->r);
    m->r = NULL;
    for (size_t i = 0; i < m->write_count; i++)
        write_free(&m->writes[i]);
    m->write_count = 0;
    m->is_leader_ready = false;
}

void net_fini(struct net *n)
{
    for (uint64_t id = 1; id <= NET_MEMBERS; id++)
        net_stop(n, id);
    for (size_t i = 0; i < n->count; i++)
        message_free(&n->queue[i]);
    free(n->queue);
}

void net_start(struct net *n, uint64_t id)
{
    struct net_member *m = &n->members[id];
    struct raft_config config = { .self = id, .heartbeat_ms = 50, .election_min_ms = 250, .election_max_ms = 500, .drift_ms = 10,
                                  .append_bytes_max = 4096, .append_entries_max = 16, .window_messages = 4, .cache_bytes = n->cache_bytes,
                                  .seed = id * 77 };
    struct raft_restored restored = { .term = m->term, .vote = m->vote, .snapshot_index = m->snapshot.index, .snapshot_term = m->snapshot.term,
                                      .snapshot_members = m->snapshot.members, .applied = m->snapshot.index };
    struct raft_entry *entries = calloc(NET_LOG, sizeof *entries);

    ck_assert_ptr_null(m->r);
    for (uint64_t i = m->snapshot.index + 1; i <= m->last; i++)
        entries[restored.count++] = (struct raft_entry){ .term = m->log[i].term, .index = i, .type = m->log[i].type, .data = m->log[i].text, .n = m->log[i].n };
    restored.entries = entries;
    m->applied = m->snapshot.index;
    memset(&m->incoming, 0, sizeof m->incoming);
    m->r = raft_create(&config, &restored);
    free(entries);
}

void net_found(struct net *n, uint32_t voters)
{
    struct raft_members all = { .count = voters };

    for (uint32_t i = 0; i < voters; i++) {
        all.rows[i] = net_member_row(i + 1, true);
        net_start(n, i + 1);
    }
    raft_tick(n->members[1].r, n->now);
    ck_assert_int_eq(raft_found(n->members[1].r, &all, NULL), 0);
}

/* ---- what a ready asks for ---- */

static void entry_set(struct net_entry *to, const struct raft_entry *e)
{
    to->term = e->term;
    to->type = e->type;
    to->n = e->n;
    ck_assert_uint_le(e->n, sizeof to->text);
    memcpy(to->text, e->data ? e->data : "", e->n);
}

static void disk_do(struct net_member *m, struct net_write *w, uint64_t now)
{
    if (w->has_vote) {
        m->term = w->term;
        m->vote = w->vote;
    }
    for (size_t i = 0; i < w->count; i++) {
        ck_assert_uint_le(w->first + i, m->last + 1);
        m->log[w->first + i] = w->entries[i];
        m->last = w->first + i;
    }
    raft_written(m->r, now, w->seq);
    write_free(w);
}

void net_write(struct net *n, uint64_t id)
{
    struct net_member *m = &n->members[id];

    for (size_t i = 0; i < m->write_count; i++)
        disk_do(m, &m->writes[i], n->now);
    m->write_count = 0;
}

static void queue_push(struct net *n, const struct raft_message *m)
{
    struct net_message *to;

    if (n->count == n->room) {
        n->room = n->room ? 2 * n->room : 64;
        n->queue = realloc(n->queue, n->room * sizeof *n->queue);
    }
    to = &n->queue[n->count++];
    memset(to, 0, sizeof *to);
    to->m = *m;
    to->count = m->count;
    to->entries = calloc(m->count + 1, sizeof *to->entries);
    for (size_t i = 0; i < m->count; i++) {
        to->entries[i] = m->entries[i];
        to->entries[i].data = malloc(m->entries[i].n + 1);
        memcpy((void *)to->entries[i].data, m->entries[i].data ? m->entries[i].data : "", m->entries[i].n);
    }
    to->data = malloc(m->n + 1);
    if (m->n)
        memcpy(to->data, m->data, m->n);
    if (m->members)
        to->members = *m->members;
}

static void apply(struct net *n, struct net_member *m, const struct raft_entry *e)
{
    struct net_entry row;

    ck_assert_uint_eq(e->index, m->applied + 1);
    entry_set(&row, e);
    if (e->index > n->truth_last) {
        ck_assert_uint_eq(e->index, n->truth_last + 1);
        n->truth[++n->truth_last] = row;
    } else {
        const struct net_entry *known = &n->truth[e->index];

        ck_assert_msg(known->term == row.term && known->n == row.n && known->type == row.type
                      && memcmp(known->text, row.text, row.n) == 0, "member %u applies something else at %u", (unsigned)m->id, (unsigned)e->index);
    }
    m->applied = e->index;
}

/* Snapshots here are 3 chunks of 1000 bytes. */
static void chunk_send(struct net *n, struct net_member *m, const struct raft_send *send)
{
    static char bytes[1000];
    struct raft_message chunk = { .index = m->snapshot.index, .log_term = m->snapshot.term, .offset = send->offset, .total = 3000, .data = bytes, .n = 1000,
                                  .members = &m->snapshot.members };

    if (send->snapshot_index && send->snapshot_index != m->snapshot.index)
        chunk.offset = 0;
    chunk.is_last = chunk.offset == 2000;
    m->chunks_sent++;
    raft_snapshot_chunk(m->r, n->now, send->to, &chunk);
}

static void load(struct net *n, struct net_member *m, uint64_t first, uint32_t count)
{
    struct raft_entry *rows = calloc(count, sizeof *rows);
    uint32_t got = 0;

    for (; got < count && first + got <= m->last && first + got >= m->first; got++)
        rows[got] = (struct raft_entry){ .term = m->log[first + got].term, .index = first + got, .type = m->log[first + got].type,
                                         .data = m->log[first + got].text, .n = m->log[first + got].n };
    m->loads++;
    raft_loaded(m->r, n->now, rows, got);
    free(rows);
}

static bool member_act(struct net *n, struct net_member *m)
{
    struct raft_ready ready;
    struct raft_send sends[NET_MEMBERS];
    size_t send_count = 0;
    struct net_snapshot installed = { 0 };
    uint64_t load_first, applied_to = 0;
    uint32_t load_count;
    bool has_write = false;

    if (!m->r || !raft_has_ready(m->r))
        return false;
    raft_ready(m->r, &ready);
    for (size_t i = 0; i < ready.message_count; i++)
        queue_push(n, &ready.messages[i]);
    if (ready.write_seq) {
        struct net_write *w = &m->writes[m->write_count++];

        ck_assert_uint_lt(m->write_count, 256);
        *w = (struct net_write){ .seq = ready.write_seq, .term = ready.term, .vote = ready.vote, .has_vote = ready.has_vote, .count = ready.count,
                                 .entries = calloc(ready.count + 1, sizeof *w->entries), .first = ready.count ? ready.entries[0].index : 0 };
        for (size_t i = 0; i < ready.count; i++)
            entry_set(&w->entries[i], &ready.entries[i]);
        has_write = true;
    }
    for (size_t i = 0; i < ready.committed_count; i++)
        apply(n, m, &ready.committed[i]);
    if (ready.committed_count)
        applied_to = ready.committed[ready.committed_count - 1].index;
    for (size_t i = 0; i < ready.read_count; i++) {
        m->refused_count += ready.reads[i].is_refused;
        if (!ready.reads[i].is_refused) {
            m->read_indices[m->read_count % 64] = ready.reads[i].index;
            m->reads[m->read_count++ % 64] = ready.reads[i].id;
        }
    }
    m->dropped_count += ready.dropped_count;
    if (ready.has_role)
        m->is_leader_ready = ready.role == RAFT_LEADER && ready.is_leader_ready;
    for (size_t i = 0; i < ready.send_count; i++)
        sends[send_count++] = ready.sends[i];
    if (ready.chunk && ready.chunk->is_last)
        installed = (struct net_snapshot){ ready.chunk->index, ready.chunk->log_term, *ready.chunk->members };
    load_first = ready.load_first;
    load_count = ready.load_count;
    m->snapshots_wanted += ready.wants_snapshot;
    raft_done(m->r);

    if (has_write && !m->is_disk_stopped)
        net_write(n, m->id);
    if (applied_to && !m->does_not_apply)
        raft_applied(m->r, applied_to);
    for (size_t i = 0; i < send_count; i++)
        chunk_send(n, m, &sends[i]);
    if (load_count)
        load(n, m, load_first, load_count);
    if (installed.index && installed.index > m->applied) {
        m->snapshot = installed;
        m->applied = installed.index;
        if (raft_snapshot_installed(m->r, n->now, installed.index, installed.term, &installed.members)) {
            for (size_t i = 0; i < m->write_count; i++)
                write_free(&m->writes[i]);
            m->write_count = 0;
            m->last = installed.index;
            m->first = installed.index + 1;
        }
    }
    return true;
}

void net_pump(struct net *n)
{
    bool is_busy = true;

    for (int turns = 0; is_busy; turns++) {
        ck_assert_int_lt(turns, 100000);
        is_busy = false;
        for (uint64_t id = 1; id <= NET_MEMBERS; id++)
            while (member_act(n, &n->members[id]))
                is_busy = true;
        if (n->is_holding)
            break;
        for (size_t i = 0; i < n->count; i++) {
            struct net_message *q = &n->queue[i];
            struct net_member *to = &n->members[q->m.to];

            q->m.entries = q->entries;
            q->m.data = q->data;
            q->m.members = q->m.members ? &q->members : NULL;
            if (to->r && !n->cut[q->m.from][q->m.to] && !(n->drop && n->drop(&q->m)))
                raft_message(to->r, n->now, &q->m);
            message_free(q);
            is_busy = true;
        }
        n->count = 0;
    }
}

void net_run(struct net *n, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        n->now++;
        for (uint64_t id = 1; id <= NET_MEMBERS; id++)
            if (n->members[id].r)
                raft_tick(n->members[id].r, n->now);
        net_pump(n);
    }
}

struct raft_status net_status(const struct net *n, uint64_t id)
{
    struct raft_status s;

    raft_status(n->members[id].r, &s);
    return s;
}

uint64_t net_other_leader(struct net *n, uint64_t most_ms, uint64_t but)
{
    for (uint64_t i = 0; i < most_ms; i++) {
        uint64_t leader = 0, term = 0;

        net_run(n, 1);
        for (uint64_t id = 1; id <= NET_MEMBERS; id++) {
            struct raft_status s;

            if (!n->members[id].r)
                continue;
            s = net_status(n, id);
            if (s.role == RAFT_LEADER && s.term > term) {
                leader = n->members[id].is_leader_ready ? id : 0;
                term = s.term;
            }
        }
        if (leader && leader != but)
            return leader;
    }
    return 0;
}

uint64_t net_leader(struct net *n, uint64_t most_ms)
{
    return net_other_leader(n, most_ms, 0);
}

void net_isolate(struct net *n, uint64_t id, bool is_cut)
{
    for (uint64_t other = 1; other <= NET_MEMBERS; other++)
        n->cut[id][other] = n->cut[other][id] = is_cut && id != other;
}

int net_propose(struct net *n, uint64_t id, const char *text)
{
    uint64_t index;

    return raft_propose(n->members[id].r, n->now, text, strlen(text), n, &index, NULL);
}

bool net_has_applied(const struct net *n, uint64_t id, const char *text)
{
    for (uint64_t i = 1; i <= n->members[id].applied; i++)
        if (n->truth[i].n == strlen(text) && memcmp(n->truth[i].text, text, n->truth[i].n) == 0)
            return true;
    return false;
}

void net_snapshot(struct net *n, uint64_t id)
{
    struct net_member *m = &n->members[id];

    m->snapshot = (struct net_snapshot){ m->applied, raft_term_at(m->r, m->applied), *raft_members_at(m->r, m->applied) };
    raft_snapshot_taken(m->r, m->snapshot.index, m->snapshot.term, &m->snapshot.members);
    m->first = raft_log_keep(m->r) + 1;
}
