/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - sends by weather and links. */
#include "sim/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void sim_network_init(struct sim_network *n, struct sim_events *events, struct sim_random *random, unsigned places,
                      void (*deliver)(void *arg, unsigned from, unsigned to, const void *content), void *arg)
{
    memset(n, 0, sizeof *n);
    n->events = events;
    n->random = random;
    n->places = places;
    n->links = mem_array((size_t)places * places, sizeof *n->links);
    n->deliver = deliver;
    n->arg = arg;
}

void sim_network_fini(struct sim_network *n)
{
    free(n->links);
    memset(n, 0, sizeof *n);
}

static void packet_drop(void *data)
{
    struct sim_packet *p = data;

    if (--p->refs)
        return;
    p->drop(p->content);
    free(p);
}

static void packet_arrives(void *arg, uint64_t number, void *data)
{
    struct sim_network *n = arg;
    struct sim_packet *p = data;

    (void)number;
    n->delivered++;
    n->deliver(n->arg, p->from, p->to, p->content);
    packet_drop(p);
}

void sim_network_send(struct sim_network *n, unsigned from, unsigned to, void *content, void (*drop)(void *))
{
    const struct sim_weather *w = &n->weather;
    struct sim_packet *p;

    n->sent++;
    if (sim_network_link(n, from, to)->is_cut || sim_random_chance(n->random, w->loss)) {
        n->lost++;
        drop(content);
        return;
    }
    p = mem_alloc(sizeof *p);
    *p = (struct sim_packet){ .refs = 1 + sim_random_chance(n->random, w->duplicate), .from = from, .to = to, .content = content, .drop = drop };
    for (unsigned i = p->refs; i; i--) {
        uint64_t delay = sim_random_tail(n->random, w->delay_us);

        if (sim_random_chance(n->random, w->slow))
            delay += sim_random_below(n->random, w->slow_us);
        sim_events_add(n->events, n->events->now_us + delay, packet_arrives, n, 0, p, packet_drop);
    }
}

struct sim_link *sim_network_link(struct sim_network *n, unsigned from, unsigned to)
{
    return &n->links[from * n->places + to];
}

void sim_network_heal(struct sim_network *n)
{
    memset(n->links, 0, (size_t)n->places * n->places * sizeof *n->links);
}

void sim_network_split(struct sim_network *n, uint64_t side)
{
    for (unsigned a = 0; a < n->places; a++)
        for (unsigned b = 0; b < n->places; b++)
            sim_network_link(n, a, b)->is_cut = (side >> a & 1) != (side >> b & 1);
}
