/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - one seed: draws a cluster and its troubles, lets them happen, then calm, and looks whether everybody comes to the same end. */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster.h"
#include "faults.h"

static void deliver(void *arg, unsigned from, unsigned to, const void *content)
{
    struct cluster *c = arg;

    if (to >= MEMBERS)
        client_receive(&c->clients[to - MEMBERS], content);
    else if (to < c->member_count)
        member_receive(c->members[to], from, content);
}

static uint64_t maybe(struct cluster *c, unsigned of, uint64_t low_us, uint64_t high_us)
{
    return sim_random_below(&c->random, 100) < of ? sim_random_between(&c->random, low_us, high_us) : 0;
}

static void draw(struct cluster *c)
{
    struct sim_random *r = &c->random;

    c->founders = 1 + (unsigned)sim_random_below(r, 5);
    if (c->founders == 1 || c->founders == 4)
        c->founders = sim_random_below(r, 3) ? 3 : c->founders;
    c->config = (struct raft_config){ .heartbeat_ms = 50, .election_min_ms = 250, .election_max_ms = 500, .drift_ms = 50,
        .append_bytes_max = sim_random_below(r, 2) ? 64 << 10 : 600, .append_entries_max = sim_random_below(r, 2) ? 256 : 1 + (uint32_t)sim_random_below(r, 8),
        .window_messages = 1 + (uint32_t)sim_random_below(r, 16), .cache_bytes = sim_random_below(r, 2) ? 1 << 20 : 500 };
    c->drift_ppm = sim_random_below(r, 2) ? 50000 : 200;
    c->is_purging = sim_random_below(r, 3) == 0;
    c->snapshot_every = (uint32_t)sim_random_between(r, 8, 150);
    c->chunk_bytes = (uint32_t)sim_random_between(r, 200, 8000);
    c->disk_us = (uint32_t)sim_random_between(r, 200, 5 * MS);
    c->think_us = (uint32_t)sim_random_between(r, 20 * MS, 200 * MS);
    c->plan_us = 150 * MS;
    c->weather = (struct sim_weather){ .delay_us = sim_random_between(r, 50, 2 * MS), .loss = sim_random_below(r, 3) ? 0 : 10000,
        .duplicate = sim_random_below(r, 2) ? 0 : 20000, .slow = sim_random_below(r, 2) ? 0 : 20000, .slow_us = 300 * MS };
    c->chances = (struct chances){ .crash = maybe(c, 70, 300 * MS, 4 * SECOND), .pause = maybe(c, 40, 400 * MS, 4 * SECOND), .split = maybe(c, 60, 500 * MS, 4 * SECOND),
        .one_way = maybe(c, 40, 500 * MS, 4 * SECOND), .pair = maybe(c, 40, 400 * MS, 4 * SECOND), .weather = maybe(c, 50, 500 * MS, 4 * SECOND), .wipe = maybe(c, 30, 1 * SECOND, 6 * SECOND),
        .member = maybe(c, 50, 300 * MS, 4 * SECOND), .transfer = maybe(c, 50, 200 * MS, 4 * SECOND), .resign = maybe(c, 30, 500 * MS, 4 * SECOND),
        .rot = maybe(c, 30, 500 * MS, 5 * SECOND), .full = maybe(c, 25, 500 * MS, 4 * SECOND), .slow_disk = maybe(c, 40, 500 * MS, 4 * SECOND),
        .sync_error = maybe(c, 25, 200 * MS, 2 * SECOND), .clock = maybe(c, 40, 500 * MS, 4 * SECOND), .bad_snapshot = maybe(c, 25, 500 * MS, 4 * SECOND) };
    if (sim_random_below(r, 2)) {       /* one trouble, or two or three, undisturbed by the others */
        uint64_t *all = (uint64_t *)&c->chances, kept = 0;
        size_t n = sizeof c->chances / sizeof *all;

        for (uint64_t i = 1 + sim_random_below(r, 3); i; i--)
            kept |= UINT64_C(1) << sim_random_below(r, n);
        for (size_t i = 0; i < n; i++)
            all[i] = kept >> i & 1 ? sim_random_between(r, 300 * MS, 2 * SECOND) : 0;
    }
    c->ambush = maybe(c, 35, 100000, 900000);
    c->late_votes = maybe(c, 40, 50000, 500000);
    switch (sim_random_below(r, 8)) {
    case 0:     /* leaders who are well, and one who does not hear them */
        c->founders = 3 + 2 * (unsigned)sim_random_below(r, 2);
        c->chances = (struct chances){ .pair = sim_random_between(r, 600 * MS, 1500 * MS) };
        c->ambush = 0;
        c->think_us = c->plan_us = 2 * SECOND;      /* nothing new, so that his log is as good as theirs */
        break;
    case 1:     /* elections in each other's way */
        c->founders = 3 + 2 * (unsigned)sim_random_below(r, 2);
        c->chances = (struct chances){ .transfer = sim_random_between(r, 150 * MS, 500 * MS), .crash = sim_random_below(r, 2) ? sim_random_between(r, 150 * MS, 600 * MS) : 0 };
        c->late_votes = 600000;
        c->weather.loss = sim_random_between(r, 50000, 400000);
        break;
    default:
        break;
    }
    c->calm_us = sim_random_between(r, 6 * SECOND, 20 * SECOND);
    c->end_us = c->calm_us + 30 * SECOND;
}

static void found(struct cluster *c)
{
    struct raft_members *group = &c->group;

    group->count = c->founders;
    for (unsigned i = 0; i < c->founders; i++) {
        struct member *m = member_new(c);

        group->rows[i] = (struct raft_member){ .id = m->id, .is_voter = true };
        snprintf(group->rows[i].name, sizeof group->rows[i].name, "m%u", i);
        snprintf(group->rows[i].addr, sizeof group->rows[i].addr, "10.0.0.%u", i);
    }
    for (unsigned i = 0; i < c->founders; i++)
        member_start(c->members[i]);
}

static struct cluster *running;

/* The core's own assertions count as caught; the run is left as it stands. */
static void aborted(int sig)
{
    signal(sig, aborted);
    siglongjmp(running->aborted, sig);
}

static void show(struct cluster *c)
{
    for (unsigned i = 0; c->is_verbose && i < c->member_count; i++) {
        struct raft_status st;

        if (!c->members[i]->raft)
            continue;
        raft_status(c->members[i]->raft, &st);
        say(c, "m%u: role %d term %llu last %llu/%llu commit %llu applied %llu written %llu snapshot %llu%s", i, (int)st.role, (unsigned long long)st.term, (unsigned long long)st.last_index,
            (unsigned long long)st.last_term, (unsigned long long)st.commit, (unsigned long long)st.applied, (unsigned long long)st.written, (unsigned long long)st.snapshot_index,
            st.is_muted ? ", muted" : "");
        for (uint32_t k = 0; k < st.peer_count; k++)
            say(c, "    m%u: match %llu next %llu%s%s%s", member_by_id(c, st.peers[k].id) ? member_by_id(c, st.peers[k].id)->place : 99, (unsigned long long)st.peers[k].match,
                (unsigned long long)st.peers[k].next, st.peers[k].is_voter ? "" : ", learner", st.peers[k].is_active ? ", active" : "", st.peers[k].is_snapshotting ? ", snapshot" : "");
    }
}

/* Who may be lost for good and is needed for the first entries: nothing is wiped before the group stands. */
static void play(struct cluster *c)
{
    char why[200] = "nothing has happened";
    uint64_t look_us;

    draw(c);
    sim_network_init(&c->network, &c->events, &c->random, PLACES, deliver, c);
    c->network.weather = c->weather;
    found(c);
    for (unsigned i = 0; i < CLIENTS; i++)
        client_start(c, i);
    nemesis_start(c);
    while (!c->has_failed && now_us(c) < c->calm_us && sim_events_step(&c->events))
        ;
    if (!c->has_failed)
        nemesis_calm(c);
    for (look_us = now_us(c); !c->has_failed && sim_events_step(&c->events); )
        if (now_us(c) >= look_us) {
            look_us = now_us(c) + 100 * MS;
            if (check_is_settled(c, why, sizeof why))
                break;
            if (now_us(c) > c->end_us)
                show(c), fail(c, "liveness: 30 s after the last fault: %s", why);
        }
    c->jobs = 0;
    for (uint32_t i = 0; i < c->op_count; i++)
        c->jobs += c->ops[i].applied_at && c->ops[i].kind != OP_CANCEL;
}

int run_seed(uint64_t seed, bool is_verbose, char *failure, size_t room, struct cluster *statistics)
{
    struct cluster *c = mem_alloc(sizeof *c);
    int rc, sig;

    c->seed = seed;
    c->is_verbose = is_verbose;
    sim_random_seed(&c->random, seed);
    sim_events_init(&c->events);
    running = c;
    signal(SIGABRT, aborted);
    sig = sigsetjmp(c->aborted, 1);
    if (sig) {
        snprintf(failure, room, "at %.3f s: the core stopped itself (an assertion, see above)", (double)now_us(c) / SECOND);
        if (statistics)
            *statistics = *c;
        return -1;          /* what it held is lost: it may be half changed */
    }
    play(c);
    signal(SIGABRT, SIG_DFL);
    rc = c->has_failed ? -1 : 0;
    if (rc < 0)
        snprintf(failure, room, "%s", c->failure);
    c->lived_us = now_us(c);
    sim_events_fini(&c->events);
    for (unsigned i = 0; i < c->member_count; i++)
        member_free(c->members[i]);
    sim_network_fini(&c->network);
    check_fini(&c->truth);
    if (statistics)
        *statistics = *c;
    free(c);
    return rc;
}
