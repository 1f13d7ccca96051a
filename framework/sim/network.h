/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - messages between places of a simulated cluster: late, twice, in another order, or never.
 *
 * Each direction of each pair of places is a link of its own, so a break may be one-way. What is under way when a link is cut arrives
 * nevertheless: a cut stops what is sent from then on.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "sim/events.h"
#include "sim/random.h"

struct sim_link { bool is_cut; };
/* The weather: one for all links. Chances are per million. */
struct sim_weather { uint64_t loss, duplicate, slow; uint64_t delay_us, slow_us; };
/* One message: the bytes follow. Freed by the network after the last delivery. */
struct sim_packet { unsigned refs, from, to; void *content; void (*drop)(void *content); };
struct sim_network {
    struct sim_events *events;
    struct sim_random *random;
    unsigned places;
    struct sim_link *links;             /* from * places + to */
    struct sim_weather weather;
    void (*deliver)(void *arg, unsigned from, unsigned to, const void *content);
    void *arg;
    uint64_t sent, lost, delivered;
};

void sim_network_init(struct sim_network *n, struct sim_events *events, struct sim_random *random, unsigned places,
                      void (*deliver)(void *arg, unsigned from, unsigned to, const void *content), void *arg);
void sim_network_fini(struct sim_network *n);           /* after the events have ended */
/* Takes `content`; `drop` frees it. */
void sim_network_send(struct sim_network *n, unsigned from, unsigned to, void *content, void (*drop)(void *));
struct sim_link *sim_network_link(struct sim_network *n, unsigned from, unsigned to);
void sim_network_heal(struct sim_network *n);           /* all links */
/* Places with bit 1 in `side` and the others no longer hear each other. */
void sim_network_split(struct sim_network *n, uint64_t side);

#endif
