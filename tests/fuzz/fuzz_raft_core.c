/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_raft_core.c - any sequence of messages and events into one member of a consensus group: it never asserts, never takes back what it has committed.
 *
 * The bytes are a program: an operation, then its arguments. Peers say anything, mostly numbers near the ones that the core has itself; the shell
 * around it does its part rightly (writes in order, applies in order, installs what was received whole), for that is what the core may rely on.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "fuzz.h"

#define SELF 1u
#define STEPS_MAX 4000
#define KNOWN 4096

struct member {
    struct raft *r;
    const uint8_t *at, *end;
    uint64_t now, ordered, confirmed, applied, handed, read;
    uint64_t terms[KNOWN];                      /* of what was handed out, by index */
    struct { uint64_t index, term; struct raft_members members; bool is_due; } incoming;
    uint64_t load_first; uint32_t load_count;
    struct raft_send send; bool has_send;
};

static uint8_t byte(struct member *m)
{
    return m->at < m->end ? *m->at++ : 0;
}

/* A number near `base`, or far off. */
static uint64_t number(struct member *m, uint64_t base)
{
    uint8_t b = byte(m);

    if (b < 200)
        return base + b % 8 < 4 ? 0 : base + b % 8 - 4;
    if (b < 220)
        return b % 8u;
    if (b < 240)
        return base * (b % 4u);
    return b < 250 ? UINT64_MAX >> (b - 240) * 6 : (uint64_t)b << 8 * (b - 248);
}

static void act(struct member *m)
{
    struct raft_ready ready;
    uint64_t applied = 0;

    while (raft_has_ready(m->r)) {
        raft_ready(m->r, &ready);
        FUZZ_HOLDS(ready.write_seq == 0 || ready.write_seq == m->ordered + 1);
        if (ready.write_seq)
            m->ordered = ready.write_seq;
        for (size_t i = 0; i < ready.committed_count; i++) {
            const struct raft_entry *e = &ready.committed[i];

            FUZZ_HOLDS(e->index == m->handed + 1 && e->term > 0);
            m->handed = e->index;
            if (e->index < KNOWN)
                m->terms[e->index] = e->term;
            applied = e->index;
        }
        for (size_t i = 0; i < ready.message_count; i++) {
            const struct raft_message *out = &ready.messages[i];

            FUZZ_HOLDS(out->from == SELF && out->to != SELF && out->type >= RAFT_PREVOTE && out->type <= RAFT_TIMEOUT_NOW);
            for (size_t k = 0; k < out->count; k++)
                FUZZ_HOLDS(out->entries[k].index == out->index + 1 + k);
        }
        if (ready.load_count) {
            m->load_first = ready.load_first;
            m->load_count = ready.load_count;
        }
        if (ready.send_count) {
            m->send = ready.sends[0];
            m->has_send = true;
        }
        if (ready.chunk && ready.chunk->is_last) {
            m->incoming.index = ready.chunk->index;
            m->incoming.term = ready.chunk->log_term;
            m->incoming.members = *ready.chunk->members;
            m->incoming.is_due = true;
        }
        raft_done(m->r);
    }
    if (applied)
        m->applied = applied;
}

static void members_make(struct member *m, struct raft_members *out)
{
    memset(out, 0, sizeof *out);
    out->count = 1 + byte(m) % 4u;
    for (uint32_t i = 0; i < out->count; i++) {
        out->rows[i].id = i + 1;
        out->rows[i].is_voter = i == 0 || byte(m) % 2;
        out->rows[i].will_vote = byte(m) % 8 == 0;
        memset(out->rows[i].name, 'a', byte(m) % (sizeof out->rows[i].name + 1));
    }
    if (byte(m) > 250)
        out->rows[0].id = 0;
}

static void hear(struct member *m)
{
    struct raft_status s;
    struct raft_message in = { 0 };
    struct raft_entry entries[8];
    struct raft_members members;
    uint8_t packed[8][RAFT_MEMBERS_MAX * sizeof(struct raft_member)];
    uint64_t term;

    raft_status(m->r, &s);
    members_make(m, &members);
    in.type = byte(m) % 12u;
    in.from = 1 + byte(m) % 5u;
    in.to = byte(m) > 250 ? 3 : SELF;
    in.term = number(m, s.term);
    in.index = number(m, byte(m) % 2 ? s.last_index : s.commit);
    in.log_term = number(m, raft_term_at(m->r, in.index));
    in.commit = number(m, s.last_index);
    in.round = number(m, 2);
    in.sent_ms = number(m, m->now);
    in.reject = byte(m) % 2;
    in.by_transfer = byte(m) % 2;
    in.match = number(m, s.last_index);
    in.hint_index = number(m, s.last_index);
    in.hint_term = number(m, s.term);
    in.offset = number(m, 0);
    in.n = byte(m) % 16u;
    in.data = packed;
    in.total = number(m, in.offset + in.n + 3);
    in.is_last = byte(m) % 2;
    if (byte(m) % 2) {
        in.total = in.offset + in.n;
        in.is_last = true;
    }
    in.members = byte(m) > 250 ? NULL : &members;
    in.count = byte(m) % 8u;
    memset(packed, 0, sizeof packed);
    term = number(m, in.log_term);
    for (size_t i = 0; i < in.count; i++) {
        term += byte(m) % 8 == 0;
        entries[i] = (struct raft_entry){ .index = in.index + 1 + i + (byte(m) > 250), .term = term, .type = byte(m) % 4u, .data = packed[i], .n = byte(m) % 32u };
        if (entries[i].type == RAFT_ENTRY_MEMBERS && members.rows[0].id) {
            members_make(m, &members);
            entries[i].n = raft_members_pack(&members, packed[i], sizeof packed[i]);
            if (byte(m) > 200)
                packed[i][byte(m)] ^= byte(m);
        }
    }
    in.entries = entries;
    if (m->handed < UINT64_MAX / 32)
        raft_message(m->r, m->now, &in);
}

static void shell(struct member *m, uint8_t op)
{
    struct raft_status s;
    struct raft_member row = { .id = 1 + byte(m) % 6u, .is_voter = byte(m) % 2, .name = "n", .addr = "a:1" };
    uint64_t index;

    raft_status(m->r, &s);
    switch (op % 16) {
    case 0: m->now += byte(m); raft_tick(m->r, m->now); break;
    case 1: m->now += 100u * byte(m); raft_tick(m->r, m->now); break;
    case 2:
        if (m->confirmed < m->ordered)
            raft_written(m->r, m->now, ++m->confirmed);
        break;
    case 3:
        m->confirmed = m->ordered;
        raft_written(m->r, m->now, m->confirmed);
        break;
    case 4: raft_applied(m->r, m->applied); break;
    case 5: raft_propose(m->r, m->now, "entry", byte(m) % 6u, m, &index, NULL); break;
    case 6: raft_read(m->r, m->now, ++m->read, NULL); break;
    case 7: raft_member_add(m->r, m->now, &row, NULL); break;
    case 8: raft_member_remove(m->r, m->now, row.id, NULL); break;
    case 9: raft_transfer(m->r, m->now, row.id % 5, NULL); break;
    case 10: raft_resign(m->r, m->now); break;
    case 11: raft_peer_lost(m->r, m->now, row.id); break;
    case 12:
        if (s.applied > s.snapshot_index && raft_members_at(m->r, s.applied)->count)
            raft_snapshot_taken(m->r, s.applied, raft_term_at(m->r, s.applied), raft_members_at(m->r, s.applied));
        break;
    case 13:
        if (!m->incoming.is_due)
            break;
        m->incoming.is_due = false;
        if (byte(m) % 4 == 0) {
            raft_snapshot_refused(m->r, m->now);
        } else {
            if (m->incoming.index > m->handed)
                m->handed = m->applied = m->incoming.index;
            raft_snapshot_installed(m->r, m->now, m->incoming.index, m->incoming.term, &m->incoming.members);
        }
        break;
    case 14:
        if (m->load_count) {
            struct raft_entry rows[4] = { { 0 } };
            uint32_t n = byte(m) % 5u;

            for (uint32_t i = 0; i < n; i++)
                rows[i] = (struct raft_entry){ .index = m->load_first + i, .term = raft_term_at(m->r, m->load_first + i), .type = RAFT_ENTRY_DATA };
            m->load_count = 0;
            raft_loaded(m->r, m->now, rows, n);
        }
        break;
    default:
        if (m->has_send && s.snapshot_index) {
            struct raft_message chunk = { .index = s.snapshot_index, .log_term = raft_term_at(m->r, s.snapshot_index), .offset = m->send.offset, .total = 40,
                                          .data = "0123456789012345678901234567890123456789", .members = raft_members_at(m->r, s.applied) };

            if (m->send.snapshot_index != s.snapshot_index || chunk.offset >= 40)
                chunk.offset = 0;
            chunk.n = 40 - chunk.offset < 16 ? 40 - chunk.offset : 16;
            chunk.is_last = chunk.offset + chunk.n == 40;
            m->has_send = false;
            raft_snapshot_chunk(m->r, m->now, m->send.to, &chunk);
        }
        break;
    }
}

/* Leads a group of one with two learners, and its log has been cut: what was proposed is only in a snapshot. */
static void lead(struct member *m)
{
    struct raft_members alone = { .count = 1, .rows = { { .id = SELF, .is_voter = true, .name = "n", .addr = "a:1" } } };
    uint64_t index;

    raft_found(m->r, &alone, NULL);
    for (int turn = 0; turn < 40; turn++) {
        struct raft_member row = { .id = turn < 20 ? 2 : 3, .is_voter = turn < 20, .name = "n", .addr = "a:1" };

        raft_tick(m->r, ++m->now);
        raft_propose(m->r, m->now, "0123456789", 10, NULL, &index, NULL);
        if (turn % 10 == 9)
            raft_member_add(m->r, m->now, &row, NULL);
        act(m);
        m->confirmed = m->ordered;
        raft_written(m->r, m->now, m->confirmed);
        act(m);
        raft_applied(m->r, m->applied);
        if (turn % 16 == 5)
            raft_snapshot_taken(m->r, m->applied, raft_term_at(m->r, m->applied), raft_members_at(m->r, m->applied));
    }
}

int fuzz_one(const uint8_t *data, size_t size)
{
    struct raft_config config = { .self = SELF, .heartbeat_ms = 50, .election_min_ms = 250, .election_max_ms = 500, .drift_ms = 10, .append_bytes_max = 64,
                                  .append_entries_max = 4, .window_messages = 3, .cache_bytes = 512, .seed = size };
    struct raft_restored restored = { 0 };
    struct member *m = calloc(1, sizeof *m);
    struct raft_members members = { .count = 3 };
    struct raft_status before, after;
    uint8_t mode;

    if (!m)
        abort();
    m->at = data;
    m->end = data + size;
    m->now = 1000;
    mode = byte(m);
    for (uint32_t i = 0; i < members.count; i++)
        members.rows[i] = (struct raft_member){ .id = i + 1, .is_voter = i != 2 || mode % 2, .name = "n", .addr = "a:1" };
    if (mode % 8 == 0) {
        members.count = 1;
    } else if (mode % 8 == 1) {
        restored = (struct raft_restored){ .term = 5, .vote = 2, .snapshot_index = 10, .snapshot_term = 4, .snapshot_members = members, .applied = 10 };
        m->handed = m->applied = 10;
    }
    m->r = raft_create(&config, &restored);
    raft_tick(m->r, m->now);
    if (mode % 8 == 5)
        lead(m);
    else if (mode % 8 < 5 && mode % 8 != 1)
        raft_found(m->r, &members, NULL);
    for (int steps = 0; m->at < m->end && steps < STEPS_MAX; steps++) {
        uint8_t op = byte(m);

        raft_status(m->r, &before);
        if (op < 128)
            hear(m);
        else
            shell(m, op);
        raft_status(m->r, &after);
        FUZZ_HOLDS(after.term >= before.term && after.commit >= before.commit && after.commit <= after.last_index && after.written <= after.last_index);
        FUZZ_HOLDS(after.term > before.term || before.vote == RAFT_NOBODY || after.vote == before.vote);
        FUZZ_HOLDS(after.members.count <= RAFT_MEMBERS_MAX);
        if (op % 4)
            act(m);
    }
    raft_destroy(m->r);
    free(m);
    return 0;
}
