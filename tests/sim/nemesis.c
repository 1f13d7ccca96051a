/* SPDX-License-Identifier: Apache-2.0 */
/* nemesis.c - what goes wrong, and the administrator who goes on changing the group meanwhile.
 *
 * Each kind of trouble comes at random times with a mean of its own; a run has some of the kinds only, so that rare combinations get
 * room. Nothing is done that no group survives: data is taken away for good from so few members only that every configuration that
 * may be in force keeps a majority.
 */
#include <string.h>

#include "cluster.h"
#include "faults.h"

static void again(struct cluster *c, uint64_t mean_us, void (*fn)(void *, uint64_t, void *))
{
    if (mean_us && !c->is_calm)
        sim_events_add(&c->events, now_us(c) + sim_random_below(&c->random, 2 * mean_us), fn, c, 0, NULL, NULL);
}

static struct member *some_member(struct cluster *c, bool is_running)
{
    for (int tries = 0; tries < 8; tries++) {
        struct member *m = c->members[sim_random_below(&c->random, c->member_count)];

        if (!m->is_gone && (!is_running || (m->raft && !m->is_paused)))
            return m;
    }
    return NULL;
}

/* Half of the trouble goes where it hurts. */
static struct member *victim(struct cluster *c)
{
    if (sim_random_below(&c->random, 2))
        for (unsigned i = 0; i < c->member_count; i++)
            if (member_is_leader(c->members[i]) && !c->members[i]->is_paused)
                return c->members[i];
    return some_member(c, true);
}

static struct member *leader(struct cluster *c)
{
    struct member *found = NULL;

    for (unsigned i = 0; i < c->member_count; i++)
        if (member_is_leader(c->members[i]) && !c->members[i]->is_paused && (!found || sim_random_below(&c->random, 2)))
            found = c->members[i];
    return found;
}

bool nemesis_may_lose(const struct cluster *c, const struct member *lost)
{
    if (!c->truth.commit)       /* the founder alone knows of the group */
        return false;
    for (unsigned i = 0; i < c->member_count; i++) {
        const struct member *m = c->members[i];

        for (uint32_t k = 0; !m->is_gone && k < m->config_count; k++) {
            const struct raft_members *g = &m->config_log[k].members;
            uint32_t voters = 0, there = 0, more = 0, more_there = 0;

            for (uint32_t v = 0; v < g->count; v++) {
                const struct member *o = member_by_id(c, g->rows[v].id);
                bool is_there = o && !o->is_gone && !o->is_muted && o != lost;

                voters += g->rows[v].is_voter;
                there += g->rows[v].is_voter && is_there;
                more += !g->rows[v].is_voter && g->rows[v].will_vote;       /* the leader may promote it at this moment */
                more_there += !g->rows[v].is_voter && g->rows[v].will_vote && is_there;
            }
            if (voters && (2 * there <= voters || 2 * (there + more_there) <= voters + more))
                return false;
        }
    }
    return true;
}

static void start_event(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)number;
    (void)data;
    member_start(m);
}

static void crash(struct member *m, bool is_power_cut, uint64_t away_us)
{
    struct cluster *c = m->c;

    member_crash(m, is_power_cut);
    sim_events_add(&c->events, now_us(c) + away_us, start_event, m, 0, NULL, NULL);
}

static void nemesis_crash(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.crash, nemesis_crash);
    m = victim(c);
    if (c->is_calm || !m)
        return;
    if (sim_random_below(&c->random, 10) == 0) {        /* the power of the room */
        for (unsigned i = 0; i < c->member_count; i++)
            if (c->members[i]->raft)
                crash(c->members[i], true, 5 * MS + sim_random_tail(&c->random, 300 * MS));
        return;
    }
    crash(m, sim_random_below(&c->random, 2), 5 * MS + sim_random_tail(&c->random, sim_random_below(&c->random, 2) ? 50 * MS : 800 * MS));
}

static void resume_event(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)data;
    if (m->life == number)
        member_pause(m, false);
}

static void nemesis_pause(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.pause, nemesis_pause);
    m = victim(c);
    if (c->is_calm || !m)
        return;
    member_pause(m, true);
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 500 * MS), resume_event, m, m->life, NULL, NULL);
}

static void heal_event(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;

    (void)number;
    (void)data;
    say(c, "the network is whole");
    sim_network_heal(&c->network);
}

static void nemesis_split(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;
    uint64_t side;

    (void)number;
    (void)data;
    again(c, c->chances.split, nemesis_split);
    if (c->is_calm)
        return;
    m = victim(c);
    side = sim_random_below(&c->random, 2) && m ? UINT64_C(1) << m->place | (sim_random_next(&c->random) << MEMBERS) : sim_random_next(&c->random);
    say(c, "the network is split: %llx", (unsigned long long)(side & ((1u << MEMBERS) - 1)));
    sim_network_split(&c->network, side);
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 900 * MS), heal_event, c, 0, NULL, NULL);
}

static void nemesis_one_way(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.one_way, nemesis_one_way);
    m = victim(c);
    if (c->is_calm || !m)
        return;
    for (unsigned i = 0; i < c->member_count; i++)      /* one peer, or all, hears m no more or is not heard by m */
        if (sim_random_below(&c->random, 2))
            sim_network_link(&c->network, sim_random_below(&c->random, 2) ? m->place : i, sim_random_below(&c->random, 2) ? i : m->place)->is_cut = i != m->place;
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 700 * MS), heal_event, c, 0, NULL, NULL);
}

static void pair_set(struct cluster *c, unsigned a, unsigned b, bool is_cut)
{
    sim_network_link(&c->network, a, b)->is_cut = sim_network_link(&c->network, b, a)->is_cut = is_cut;
}

static void pair_event(void *arg, uint64_t number, void *data)
{
    (void)data;
    pair_set(arg, (unsigned)(number >> 8), (unsigned)(number & 255), false);
}

/* The leader and one more do not hear each other, and all others hear both: this one will campaign against a leader who is well. */
static void nemesis_pair(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m, *other;

    (void)number;
    (void)data;
    again(c, c->chances.pair, nemesis_pair);
    m = leader(c);
    other = some_member(c, true);
    if (c->is_calm || !m || !other || m == other)
        return;
    say(c, "m%u and m%u do not hear each other", m->place, other->place);
    pair_set(c, m->place, other->place, true);
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 900 * MS), pair_event, c, m->place << 8 | other->place, NULL, NULL);
}

static void fair_event(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;

    (void)number;
    (void)data;
    c->network.weather = c->weather;
}

static void nemesis_weather(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;

    (void)number;
    (void)data;
    again(c, c->chances.weather, nemesis_weather);
    if (c->is_calm)
        return;
    c->network.weather = (struct sim_weather){ .loss = sim_random_below(&c->random, 2) ? sim_random_below(&c->random, 400000) : 0,
        .duplicate = sim_random_below(&c->random, 300000), .slow = sim_random_below(&c->random, 400000),
        .delay_us = c->weather.delay_us * (1 + sim_random_below(&c->random, 20)), .slow_us = sim_random_below(&c->random, 3 * SECOND) };
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 1 * SECOND), fair_event, c, 0, NULL, NULL);
}

/* The host is back with an empty folder, and so as somebody else. */
static void wipe(struct member *m)
{
    struct cluster *c = m->c;
    struct member *fresh = member_new(c);

    if (!fresh)
        return;
    say(c, "m%u is wiped, its host comes back as m%u", m->place, fresh->place);
    member_crash(m, true);
    m->is_gone = true;
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 100 * MS), start_event, fresh, 0, NULL, NULL);
}

/* By every configuration that it knows: a learner that has lost something would become a voter that may not vote. */
static bool is_voter(const struct member *m)
{
    for (uint32_t i = 0; i < m->config_count; i++) {
        const struct raft_members *g = &m->config_log[i].members;
        bool votes = false;

        for (uint32_t k = 0; k < g->count; k++)
            votes |= g->rows[k].id == m->id && g->rows[k].is_voter;
        if (!votes)
            return false;
    }
    return m->config_count > 0;
}

static void nemesis_wipe(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.wipe, nemesis_wipe);
    m = victim(c);
    if (c->is_calm || !m || !nemesis_may_lose(c, m) || c->member_count == MEMBERS)
        return;
    if (SIM_FAULT(AMNESIA)) {
        member_crash(m, true);
        drive_fini(&m->drive);
        crash(m, true, 50 * MS);
        return;
    }
    wipe(m);
}

static void nemesis_rot(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.rot, nemesis_rot);
    m = victim(c);
    if (c->is_calm || !m || m->is_muted || !nemesis_may_lose(c, m))
        return;
    if (!is_voter(m) || sim_random_below(&c->random, 2)) {      /* as store/raft does it: set aside, a new identity */
        wipe(m);
        return;
    }
    crash(m, true, 5 * MS + sim_random_tail(&c->random, 100 * MS));
    if (drive_rot(&m->drive, &c->random)) {
        m->is_muted = true;
        say(c, "m%u: rot", m->place);
    }
}

static void nemesis_bad_snapshot(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.bad_snapshot, nemesis_bad_snapshot);
    m = victim(c);
    if (c->is_calm || !m || !m->drive.snapshots[1].index || !m->drive.count || m->drive.first > m->drive.snapshots[1].index + 1)
        return;
    say(c, "m%u: the newest snapshot is damaged", m->place);
    crash(m, true, 5 * MS + sim_random_tail(&c->random, 100 * MS));
    m->drive.snapshots[0].is_bad = true;
}

static void room_event(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)number;
    (void)data;
    m->drive.is_full = false;
}

static void resign(struct member *m)
{
    struct raft_status st;

    raft_resign(m->raft, member_now_ms(m));
    raft_status(m->raft, &st);
    if (st.role == RAFT_LEADER)
        fail(m->c, "m%u was told to resign and leads on", m->place);
    member_step(m);
}

static void nemesis_full(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.full, nemesis_full);
    m = victim(c);
    if (c->is_calm || !m)
        return;
    say(c, "m%u: the disk is full", m->place);
    m->drive.is_full = true;
    resign(m);
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 800 * MS), room_event, m, 0, NULL, NULL);
}

static void nemesis_slow_disk(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.slow_disk, nemesis_slow_disk);
    m = victim(c);
    if (c->is_calm || !m)
        return;
    m->drive.slow_until_us = now_us(c) + sim_random_tail(&c->random, 1 * SECOND);
}

/* A flush fails: the process ends at once, what the disk has is anybody's guess. */
static void nemesis_sync_error(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.sync_error, nemesis_sync_error);
    m = victim(c);
    if (!c->is_calm && m && m->drive.is_flushing)
        crash(m, false, sim_random_tail(&c->random, 200 * MS));
}

static void nemesis_clock(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;
    int64_t by = (int64_t)sim_random_below(&c->random, 3600ull * SECOND) - 1800ll * SECOND;

    (void)number;
    (void)data;
    again(c, c->chances.clock, nemesis_clock);
    m = victim(c);
    if (c->is_calm || !m)
        return;
    say(c, "m%u: the wall clock jumps by %lld s", m->place, (long long)by / SECOND);
    sim_clock_jump(&m->wall, now_us(c), by);
    sim_clock_set(&m->boot, now_us(c), sim_clock_us(&m->boot, now_us(c)), (int32_t)sim_random_below(&c->random, 2 * c->drift_ppm + 1) - (int32_t)c->drift_ppm);
}

static void nemesis_transfer(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m, *to;
    struct spur_error err;

    (void)number;
    (void)data;
    again(c, c->chances.transfer, nemesis_transfer);
    m = leader(c);
    if (c->is_calm || !m)
        return;
    to = some_member(c, false);
    say(c, "m%u is asked to hand over to m%d", m->place, to ? (int)to->place : -1);
    raft_transfer(m->raft, member_now_ms(m), to && sim_random_below(&c->random, 3) ? to->id : RAFT_NOBODY, &err);
    member_step(m);
    if (sim_random_below(&c->random, 2))        /* the word is out, and others get impatient as well */
        crash(m, sim_random_below(&c->random, 2), sim_random_tail(&c->random, 300 * MS));
}

static void nemesis_resign(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m;

    (void)number;
    (void)data;
    again(c, c->chances.resign, nemesis_resign);
    m = leader(c);
    if (!c->is_calm && m)
        resign(m);
}

/* ---- the administrator ---- */

static bool is_in(const struct raft_members *g, uint64_t id)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->rows[i].id == id)
            return true;
    return false;
}

static void add(struct member *at, struct member *m, bool is_voter)
{
    struct raft_member row = { .id = m->id, .is_voter = is_voter };
    struct spur_error err;

    snprintf(row.name, sizeof row.name, "m%u", m->place);
    snprintf(row.addr, sizeof row.addr, "10.0.0.%u", m->place);
    if (raft_member_add(at->raft, member_now_ms(at), &row, &err) == 0) {
        at->c->changes++;
        say(at->c, "m%u adds m%u", at->place, m->place);
    }
    member_step(at);
}

static bool take_out(struct member *at, uint64_t id)
{
    struct spur_error err;
    int rc = raft_member_remove(at->raft, member_now_ms(at), id, &err);

    if (rc == 0) {
        at->c->changes++;
        say(at->c, "m%u removes m%u", at->place, member_by_id(at->c, id)->place);
    }
    member_step(at);
    return rc == 0;
}

/* Dead ones out, their successors in; learners become voters. Goes on when all is calm. */
static void admin(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m = leader(c);
    struct raft_status st;

    (void)number;
    (void)data;
    sim_events_add(&c->events, now_us(c) + 50 * MS + sim_random_tail(&c->random, 300 * MS), admin, c, 0, NULL, NULL);
    if (!m || !m->is_leader_ready)
        return;
    raft_status(m->raft, &st);
    for (uint32_t i = 0; i < st.members.count; i++) {
        const struct member *o = member_by_id(c, st.members.rows[i].id);

        if (o && o->is_gone) {
            take_out(m, o->id);
            return;
        }
    }
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *o = c->members[i];

        if (!o->is_gone && o->raft && !is_in(&st.members, o->id) && st.members.count < 7) {
            add(m, o, c->is_calm || sim_random_below(&c->random, 4));
            return;
        }
    }
    /* Who has lost a part of his log votes again when a leader of a later term has refilled him. */
    for (uint32_t i = 0; c->is_calm && i < st.members.count; i++) {
        const struct member *o = member_by_id(c, st.members.rows[i].id);

        if (o && o->is_muted && o != m)
            for (uint32_t k = 0; k < st.members.count; k++) {
                const struct member *to = member_by_id(c, st.members.rows[k].id);
                struct spur_error err;

                if (to == m || !to || to->is_muted || raft_transfer(m->raft, member_now_ms(m), to->id, &err) < 0)
                    continue;
                member_step(m);
                return;
            }
    }
    for (uint32_t i = 0; i < st.members.count; i++)
        if (!st.members.rows[i].is_voter && (c->is_calm || sim_random_below(&c->random, 3) == 0)) {
            add(m, member_by_id(c, st.members.rows[i].id), true);
            return;
        }
}

static void stop_event(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;

    (void)number;
    (void)data;
    member_crash(m, false);
}

static void nemesis_member_once(void *arg, uint64_t number, void *data);

static void nemesis_member(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    struct member *m = leader(c), *o;
    struct raft_status st;

    (void)number;
    (void)data;
    again(c, c->chances.member, nemesis_member);
    if (c->is_calm || !m || !m->is_leader_ready)
        return;
    if (sim_random_below(&c->random, 3) == 0)    /* an impatient administrator asks twice */
        sim_events_add(&c->events, now_us(c) + sim_random_below(&c->random, 5 * MS), nemesis_member_once, c, 0, NULL, NULL);
    raft_status(m->raft, &st);
    if (st.members.count < 3 + sim_random_below(&c->random, 3)) {
        o = member_new(c);
        if (o)
            member_start(o);
        return;                         /* the administrator sees it */
    }
    o = member_by_id(c, st.members.rows[sim_random_below(&c->random, st.members.count)].id);
    if (!o || !nemesis_may_lose(c, o) || st.members.count < 3)
        return;
    if (take_out(m, o->id)) {
        /* It runs on for a while, and must not disturb. */
        o->is_gone = true;
        sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 2 * SECOND), stop_event, o, 0, NULL, NULL);
    }
}

static void nemesis_member_once(void *arg, uint64_t number, void *data)
{
    struct cluster *c = arg;
    uint64_t mean = c->chances.member;

    c->chances.member = 0;
    nemesis_member(arg, number, data);
    c->chances.member = mean;
}

static void ambush(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    struct cluster *c = m->c;

    (void)number;
    (void)data;
    if (c->is_calm)
        return;
    switch (sim_random_below(&c->random, 4)) {
    case 0:
        sim_network_split(&c->network, UINT64_C(1) << m->place);
        sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 600 * MS), heal_event, c, 0, NULL, NULL);
        break;
    case 1:
        member_pause(m, true);
        sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 400 * MS), resume_event, m, m->life, NULL, NULL);
        break;
    default:
        crash(m, sim_random_below(&c->random, 2), sim_random_tail(&c->random, sim_random_below(&c->random, 2) ? 20 * MS : 500 * MS));
    }
}

void nemesis_elected(struct member *m)
{
    struct cluster *c = m->c;
    struct member *other;

    if (c->is_calm || !sim_random_chance(&c->random, c->ambush))
        return;
    if (sim_random_below(&c->random, 3) == 0) {         /* before his first message leaves: some hear of him, or nobody */
        uint64_t who = sim_random_below(&c->random, 2) ? UINT64_MAX : sim_random_next(&c->random);

        for (unsigned i = 0; i < c->member_count; i++)
            if (i != m->place && (who >> i & 1))
                sim_network_link(&c->network, m->place, i)->is_cut = sim_network_link(&c->network, i, m->place)->is_cut = true;
        sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 600 * MS), heal_event, c, 0, NULL, NULL);
        return;
    }
    member_later(m, sim_random_below(&c->random, 12 * MS), ambush, 0, NULL, NULL);
    other = some_member(c, true);
    if (other && other != m && sim_random_below(&c->random, 2))
        member_later(other, sim_random_below(&c->random, 12 * MS), ambush, 0, NULL, NULL);
}

void nemesis_start(struct cluster *c)
{
    const struct chances *k = &c->chances;
    struct { uint64_t mean; void (*fn)(void *, uint64_t, void *); } all[] = {
        { k->crash, nemesis_crash }, { k->pause, nemesis_pause }, { k->split, nemesis_split }, { k->one_way, nemesis_one_way }, { k->pair, nemesis_pair }, { k->weather, nemesis_weather },
        { k->wipe, nemesis_wipe }, { k->member, nemesis_member }, { k->transfer, nemesis_transfer }, { k->resign, nemesis_resign }, { k->rot, nemesis_rot },
        { k->full, nemesis_full }, { k->slow_disk, nemesis_slow_disk }, { k->sync_error, nemesis_sync_error }, { k->clock, nemesis_clock },
        { k->bad_snapshot, nemesis_bad_snapshot } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        again(c, all[i].mean, all[i].fn);
    admin(c, 0, NULL);
}

/* Everything is mended; what may come back comes back. */
void nemesis_calm(struct cluster *c)
{
    c->is_calm = true;
    say(c, "calm");
    sim_network_heal(&c->network);
    c->network.weather = (struct sim_weather){ .delay_us = c->weather.delay_us };
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = c->members[i];

        m->drive.is_full = false;
        m->drive.slow_until_us = 0;
        if (m->is_gone)
            member_crash(m, false);
        else if (m->is_paused)
            member_pause(m, false);
        member_start(m);
    }
}
