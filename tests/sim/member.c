/* SPDX-License-Identifier: Apache-2.0 */
/* member.c - one controller process around the real core: gives it ticks, messages and confirmations, and does what its `ready` says.
 *
 * Everything that takes time in the real shell takes virtual time here: a flush, reading a chunk, handing entries to the state. What was
 * under way when the process dies is forgotten (member->life), what comes while it is stopped waits in its backlog, as in a socket's buffer.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster.h"
#include "faults.h"

/* ---- letters ---- */

struct letter *letter_of(const struct raft_message *m)
{
    struct letter *l = mem_alloc(sizeof *l);
    struct raft_entry *entries = NULL;

    l->kind = LETTER_RAFT;
    l->m = *m;
    if (m->count) {
        entries = mem_array(m->count, sizeof *entries);
        for (size_t i = 0; i < m->count; i++) {
            void *data = m->entries[i].n ? mem_alloc(m->entries[i].n) : NULL;

            if (data)
                memcpy(data, m->entries[i].data, m->entries[i].n);
            entries[i] = m->entries[i];
            entries[i].data = data;
        }
    }
    l->m.entries = entries;
    l->m.data = NULL;
    if (m->members) {
        struct raft_members *members = mem_alloc(sizeof *members);

        *members = *m->members;
        l->m.members = members;
    }
    if (m->n) {
        void *data = mem_alloc(m->n);

        memcpy(data, m->data, m->n);
        l->m.data = data;
    }
    return l;
}

void letter_free(void *letter)
{
    struct letter *l = letter;

    for (size_t i = 0; l->kind == LETTER_RAFT && i < l->m.count; i++)
        free((void *)l->m.entries[i].data);
    if (l->kind == LETTER_RAFT) {
        free((void *)l->m.entries);
        free((void *)l->m.data);
        free((void *)l->m.members);
    }
    free(l);
}

void letter_send(struct cluster *c, unsigned from, unsigned to, struct letter *take_letter)
{
    sim_network_send(&c->network, from, to, take_letter, letter_free);
}

/* ---- time ---- */

struct later { struct member *m; uint32_t life; void (*fn)(void *, uint64_t, void *); void *data; void (*drop)(void *); };

static void later_drop(void *data)
{
    struct later *l = data;

    if (l->drop)
        l->drop(l->data);
    free(l);
}

static void later_fire(void *arg, uint64_t number, void *data)
{
    struct later *l = data;
    struct member *m = l->m;

    (void)arg;
    if (l->life != m->life || !m->raft) {
        later_drop(l);
        return;
    }
    if (m->is_paused) {
        if (m->backlog_count == m->backlog_room)
            m->backlog = mem_grow(m->backlog, m->backlog_room = m->backlog_room ? 2 * m->backlog_room : 64, sizeof *m->backlog);
        m->backlog[m->backlog_count++] = (struct sim_event){ .fire = later_fire, .drop = later_drop, .number = number, .data = l };
        return;
    }
    l->fn(m, number, l->data);
    l->drop = NULL;
    later_drop(l);
}

/* fn gets the member as `arg` and owns `data`. */
void member_later(struct member *m, uint64_t delay_us, void (*fn)(void *, uint64_t, void *), uint64_t number, void *data, void (*drop)(void *))
{
    struct later *l = mem_alloc(sizeof *l);

    *l = (struct later){ .m = m, .life = m->life, .fn = fn, .data = data, .drop = drop };
    sim_events_add(&m->c->events, now_us(m->c) + delay_us, later_fire, NULL, number, l, later_drop);
}

uint64_t member_now_ms(const struct member *m)
{
    return (uint64_t)sim_clock_us(&m->boot, now_us(m->c)) / 1000;
}

static void tick(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)data;
    if (number != m->tick_us)       /* another was queued for earlier */
        return;
    m->tick_us = 0;
    raft_tick(m->raft, member_now_ms(m));
    member_step(m);
}

static void tick_plan(struct member *m)
{
    uint64_t next = raft_next_ms(m->raft), at, now = now_us(m->c);

    if (next == UINT64_MAX)
        return;
    at = sim_clock_when(&m->boot, (int64_t)next * 1000);
    at = at <= now ? now + 500 : at;
    at += sim_random_below(&m->c->random, sim_random_below(&m->c->random, 50) ? 1500 : 30 * MS);        /* a late tick is only late */
    if (m->tick_us && m->tick_us <= at)
        return;
    m->tick_us = at;
    member_later(m, at - now, tick, at, NULL, NULL);
}

/* ---- the disk ---- */

static void flush_start(struct member *m);

static void flush_done(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    struct drive *d = &m->drive;
    uint64_t seq;

    (void)data;
    d->is_flushing = false;
    if (d->is_full && !m->c->is_calm) {         /* nothing goes through until there is room */
        member_later(m, 20 * MS, flush_done, number, NULL, NULL);
        d->is_flushing = true;
        return;
    }
    assert(number <= d->order_count && number > 0);
    seq = d->orders[number - 1].seq;
    drive_confirm(d, number);
    if (!SIM_FAULT(WRITTEN_EARLY))
        raft_written(m->raft, member_now_ms(m), seq);
    flush_start(m);
    member_step(m);
}

/* One flush for all that waits, as the log's thread does it; what is ordered meanwhile goes with the next. */
static void flush_start(struct member *m)
{
    struct drive *d = &m->drive;
    struct cluster *c = m->c;
    uint64_t takes = sim_random_tail(&c->random, c->disk_us), n = d->order_count;

    if (d->is_flushing || !n)
        return;
    if (sim_random_below(&c->random, 8) == 0)
        n = 1 + sim_random_below(&c->random, n);
    if (now_us(c) < d->slow_until_us)
        takes += sim_random_below(&c->random, 400 * MS);
    d->is_flushing = true;
    member_later(m, takes, flush_done, n, NULL, NULL);
}

static void written_early(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)data;
    raft_written(m->raft, member_now_ms(m), number);
    member_step(m);
}

/* ---- what a ready asks for ---- */

void member_applied(struct member *m, uint64_t index)
{
    if (index <= m->told)
        return;
    m->told = index;
    raft_applied(m->raft, index);
}

static void applied_told(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)data;
    member_applied(m, number);
    member_step(m);
}

static void chunk_read(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    struct raft_send *s = data;
    const struct snapshot *snap = &m->drive.snapshots[0];
    struct raft_message chunk = { .type = RAFT_SNAPSHOT, .to = s->to };

    (void)number;
    if (s->snapshot_index && m->drive.snapshots[1].index == s->snapshot_index)
        snap = &m->drive.snapshots[1];
    if (s->snapshot_index && snap->index != s->snapshot_index)
        s->offset = 0;                  /* that one is gone: the newest, from its start */
    if (snap->index && !snap->is_bad && s->offset <= snap->bytes->n) {
        size_t left = snap->bytes->n - (size_t)s->offset;

        chunk.index = snap->index;
        chunk.log_term = snap->term;
        chunk.members = &snap->members;
        chunk.offset = s->offset;
        chunk.total = snap->bytes->n;
        chunk.n = left < m->c->chunk_bytes ? left : m->c->chunk_bytes;
        chunk.data = snap->bytes->bytes + s->offset;
        chunk.is_last = chunk.n == left;
        raft_snapshot_chunk(m->raft, member_now_ms(m), s->to, &chunk);
    }
    free(s);
    member_step(m);
}

static void chunk_take(struct member *m, const struct raft_message *k)
{
    if (m->incoming.is_installing)
        return;
    if (k->offset == 0) {
        m->incoming.index = k->index;
        m->incoming.term = k->log_term;
        m->incoming.members = k->members ? *k->members : (struct raft_members){ .count = 0 };
        m->incoming.have = 0;
        m->incoming.total = k->total;
    }
    if (k->index != m->incoming.index || k->offset != m->incoming.have)
        return;
    if (k->offset + k->n > m->incoming.room)
        m->incoming.bytes = mem_grow(m->incoming.bytes, m->incoming.room = 2 * (k->offset + k->n) + 1024, 1);
    if (k->n)
        memcpy(m->incoming.bytes + k->offset, k->data, k->n);
    m->incoming.have += k->n;
    if (!k->is_last)
        return;
    if (m->incoming.have != m->incoming.total) {
        fail(m->c, "m%u: the last chunk of a snapshot came after %llu of %llu bytes", m->place, (unsigned long long)m->incoming.have, (unsigned long long)m->incoming.total);
        return;
    }
    m->incoming.is_installing = true;
    host_install(m);
}

static void entries_read(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    uint32_t wanted = *(uint32_t *)data, count = 0;
    struct raft_entry entries[256];

    free(data);
    while (count < wanted && count < 256) {
        const struct slot *s = drive_slot(&m->drive, number + count);

        if (!s)
            break;
        entries[count] = (struct raft_entry){ .term = s->term, .index = number + count, .type = s->type, .data = s->lump->bytes, .n = s->lump->n };
        count++;
    }
    raft_loaded(m->raft, member_now_ms(m), entries, count);
    member_step(m);
}

static void sent_late(void *arg, uint64_t number, void *data)
{
    letter_send(arg, (unsigned)(number >> 8), (unsigned)(number & 255), data);
}

/* It is on its way already: whoever sent it may die meanwhile. */
static void letter_late(struct member *m, const struct member *to, uint64_t delay_us, struct letter *take_letter)
{
    sim_events_add(&m->c->events, now_us(m->c) + delay_us, sent_late, m->c, (uint64_t)m->place << 8 | to->place, take_letter, letter_free);
}

static void member_act(struct member *m, const struct raft_ready *rd)
{
    struct cluster *c = m->c;

    if (rd->write_seq) {
        drive_order(&m->drive, rd, m->applied);
        flush_start(m);
        if (SIM_FAULT(WRITTEN_EARLY))
            member_later(m, 0, written_early, rd->write_seq, NULL, NULL);
    }
    for (size_t i = 0; i < rd->committed_count; i++)
        host_apply(m, &rd->committed[i]);
    if (rd->committed_count)
        member_later(m, sim_random_below(&c->random, sim_random_below(&c->random, 20) ? 1000 : 40 * MS), applied_told, rd->committed[rd->committed_count - 1].index, NULL, NULL);
    for (size_t i = 0; i < rd->read_count; i++)
        host_read_done(m, &rd->reads[i]);
    for (size_t i = 0; i < rd->dropped_count; i++)
        host_dropped(m, rd->dropped[i].cookie);
    if (rd->has_role) {
        say(c, "m%u: %s, leader %llx", m->place, rd->role == RAFT_LEADER ? "leads" : rd->role == RAFT_FOLLOWER ? "follows" : "campaigns", (unsigned long long)rd->leader);
        if (rd->role != RAFT_LEADER)
            host_lost_leadership(m);
    }
    if (rd->is_leader_ready)
        host_leader_ready(m);
    for (size_t i = 0; i < rd->send_count; i++) {
        struct raft_send *s = mem_alloc(sizeof *s);

        *s = rd->sends[i];
        member_later(m, sim_random_tail(&c->random, c->disk_us), chunk_read, 0, s, free);
    }
    if (rd->chunk)
        chunk_take(m, rd->chunk);
    if (rd->load_count) {
        uint32_t *n = mem_alloc(sizeof *n);

        *n = rd->load_count;
        member_later(m, sim_random_tail(&c->random, c->disk_us), entries_read, rd->load_first, n, free);
    }
    for (size_t i = 0; i < rd->message_count; i++) {
        const struct raft_message *k = &rd->messages[i];
        struct member *to = member_by_id(c, k->to);

        if (!to)
            continue;
        if (k->type == RAFT_TIMEOUT_NOW && sim_random_chance(&c->random, c->late_votes)) {     /* when others have lost patience already */
            letter_late(m, to, sim_random_below(&c->random, 450 * MS), letter_of(k));
            continue;
        }
        letter_send(c, m->place, to->place, letter_of(k));
        if ((k->type == RAFT_VOTE || k->type == RAFT_TIMEOUT_NOW || k->type == RAFT_SNAPSHOT) && sim_random_chance(&c->random, c->late_votes))
            letter_late(m, to, sim_random_below(&c->random, 700 * MS), letter_of(k));
    }
    host_snapshot_maybe(m, rd->wants_snapshot);
}

void member_step(struct member *m)
{
    unsigned rounds = 0;

    while (m->raft && !m->c->has_failed && raft_has_ready(m->raft)) {
        struct raft_ready rd;

        memset(&rd, 0, sizeof rd);
        raft_ready(m->raft, &rd);
        check_ready(m, &rd);
        member_act(m, &rd);
        raft_done(m->raft);
        if (++rounds > 10000) {
            fail(m->c, "m%u: there is always something ready", m->place);
            return;
        }
    }
    if (!m->raft || m->c->has_failed)
        return;
    check_step(m);
    tick_plan(m);
}

static void receive_late(void *arg, uint64_t number, void *data)
{
    struct letter *l = data;

    member_receive(arg, (unsigned)number, l);
    letter_free(l);
}

void member_receive(struct member *m, unsigned from, const struct letter *l)
{
    if (!m->raft)
        return;
    if (m->is_paused) {
        struct letter *copy;

        if (l->kind == LETTER_RAFT) {
            copy = letter_of(&l->m);
        } else {
            copy = mem_alloc(sizeof *copy);
            *copy = *l;
        }
        member_later(m, 0, receive_late, from, copy, letter_free);
        return;
    }
    if (l->kind == LETTER_RAFT)
        raft_message(m->raft, member_now_ms(m), &l->m);
    else
        host_request(m, l);
    member_step(m);
}

/* ---- life and death ---- */

struct member *member_by_id(const struct cluster *c, uint64_t id)
{
    for (unsigned i = 0; i < c->member_count; i++)
        if (c->members[i]->id == id)
            return c->members[i];
    return NULL;
}

bool member_is_leader(const struct member *m)
{
    return m->raft && m->role == RAFT_LEADER;
}

struct member *member_new(struct cluster *c)
{
    struct member *m;

    if (c->member_count == MEMBERS)
        return NULL;
    m = mem_alloc(sizeof *m);
    m->c = c;
    m->place = c->member_count;
    do
        m->id = sim_random_next(&c->random) >> 16;
    while (m->id == RAFT_NOBODY || member_by_id(c, m->id));
    c->members[c->member_count++] = m;
    sim_clock_set(&m->boot, now_us(c), (int64_t)sim_random_below(&c->random, 5000ull * SECOND), (int32_t)sim_random_below(&c->random, 2 * c->drift_ppm + 1) - (int32_t)c->drift_ppm);
    sim_clock_set(&m->wall, now_us(c), INT64_C(1700000000) * SECOND + (int64_t)sim_random_below(&c->random, 600ull * SECOND), 0);
    return m;
}

void member_start(struct member *m)
{
    struct cluster *c = m->c;
    struct raft_config config = c->config;
    struct raft_restored restored;
    struct raft_entry *entries = NULL;
    struct spur_error err;

    if (m->raft || m->is_gone)
        return;
    m->life++;
    if (!drive_restore(&m->drive, &restored, &entries)) {
        free(entries);
        fail(c, "m%u: its disk does not fit together", m->place);
        return;
    }
    host_open(m, restored.snapshot_index ? &m->drive.snapshots[0] : NULL);
    check_start(m, &restored);
    host_replay(m, &restored, entries);
    config.self = m->id;
    config.seed = sim_random_next(&c->random);
    m->raft = raft_create(&config, &restored);
    if (!m->raft) {
        fail(c, "m%u: raft_create refused what the disk had", m->place);
        free(entries);
        return;
    }
    if (m->is_muted && !SIM_FAULT(ROT_IGNORED))
        raft_set_mute(m->raft, true);
    free(entries);
    say(c, "m%u: starts, life %u, term %llu, snapshot %llu, log to %llu%s", m->place, m->life, (unsigned long long)restored.term, (unsigned long long)restored.snapshot_index,
        (unsigned long long)(restored.count ? restored.entries ? restored.snapshot_index + restored.count : 0 : restored.snapshot_index), m->is_muted ? ", muted" : "");
    m->tick_us = 0;
    m->told = m->applied;
    /* The first one founds the group; again, when he died before the disk had it. */
    if (m->place == 0 && !m->is_muted && restored.term < 2 && !restored.count && !restored.snapshot_index && raft_found(m->raft, &c->group, &err) < 0)
        fail(c, "raft_found: %s", err.text);
    raft_tick(m->raft, member_now_ms(m));
    member_step(m);
}

static void peer_lost(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)data;
    raft_peer_lost(m->raft, member_now_ms(m), number);
    member_step(m);
}

static void member_stop(struct member *m)
{
    raft_destroy(m->raft);
    m->raft = NULL;
    host_close(m);
    for (size_t i = 0; i < m->backlog_count; i++)
        m->backlog[i].drop(m->backlog[i].data);
    m->backlog_count = 0;
    free(m->incoming.bytes);
    memset(&m->incoming, 0, sizeof m->incoming);
    m->is_paused = m->is_proposing = m->is_snapshotting = m->is_leader_ready = false;
    m->waiting_count = m->read_count = 0;
    m->role = RAFT_FOLLOWER;
    m->life++;
}

void member_crash(struct member *m, bool is_power_cut)
{
    struct cluster *c = m->c;

    if (!m->raft)
        return;
    say(c, "m%u: %s", m->place, is_power_cut ? "power cut" : "killed");
    member_stop(m);
    drive_crash(&m->drive, &c->random);
    if (is_power_cut)       /* the machine starts anew: so does its clock */
        sim_clock_set(&m->boot, now_us(c), (int64_t)sim_random_below(&c->random, 50ull * SECOND), m->boot.drift_ppm);
    for (unsigned i = 0; !is_power_cut && i < c->member_count; i++)
        if (c->members[i] != m && c->members[i]->raft && !sim_network_link(&c->network, m->place, i)->is_cut)
            member_later(c->members[i], sim_random_tail(&c->random, c->weather.delay_us), peer_lost, m->id, NULL, NULL);
}

void member_pause(struct member *m, bool is_paused)
{
    struct sim_event *backlog = m->backlog;
    size_t count = m->backlog_count;
    uint32_t life = m->life;

    if (!m->raft || m->is_paused == is_paused)
        return;
    say(m->c, "m%u: %s", m->place, is_paused ? "stopped" : "goes on");
    m->is_paused = is_paused;
    if (is_paused) {
        m->paused_us = now_us(m->c);
        return;
    }
    if (SIM_FAULT(CLOCK_STOPS))
        sim_clock_jump(&m->boot, now_us(m->c), (int64_t)m->paused_us - (int64_t)now_us(m->c));
    m->backlog = NULL;
    m->backlog_count = m->backlog_room = 0;
    for (size_t i = 0; i < count; i++) {
        if (m->life != life || m->c->has_failed)
            backlog[i].drop(backlog[i].data);
        else
            backlog[i].fire(backlog[i].arg, backlog[i].number, backlog[i].data);
    }
    free(backlog);
}

void member_free(struct member *m)
{
    if (m->raft)
        member_stop(m);
    free(m->backlog);
    drive_fini(&m->drive);
    free(m);
}
