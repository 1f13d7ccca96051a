/* SPDX-License-Identifier: Apache-2.0 */
/* choose.h - which of the nodes that fit make up the job, and how its tasks and devices are shared out among them. Pure. */
#ifndef SELECT_TOPO_CHOOSE_H
#define SELECT_TOPO_CHOOSE_H

#include "fit.h"

struct topo_key { uint64_t key; uint32_t weight, fit; };
struct topo_order { struct topo_key *keys; uint32_t count, sorted; };      /* of choose.c: sorted as far as it was looked at */
void     topo_order_start(struct topo_order *o, uint32_t count);            /* keys[0 .. count) are filled */
uint32_t topo_order_at(struct topo_order *o, uint32_t i);                   /* the fit in place i: weight, key, fit decide */

/* Room for one decision, kept between calls: all arrays have `room` elements. */
struct topo_room {
    uint32_t room;
    struct topo_fit *fits; uint32_t fit_count;
    struct topo_limits *limits;     /* one a class, or one a node where nodes are looked at one by one */
    struct topo_order by_rank, by_size;
    uint32_t *at;                   /* node index -> fit index + 1; 0: does not fit */
    /* the choice, in the order taken */
    uint32_t *chosen, *tasks, *least, *most, *shares; uint32_t count;
    uint32_t (*devices)[TOPO_ROWS_MAX];     /* for rows counted over the job */
};

/* What stands against it when no choice is found. */
enum topo_lack { TOPO_LACK_NONE, TOPO_LACK_REQUIRED, TOPO_LACK_NODES, TOPO_LACK_TASKS, TOPO_LACK_DEVICES, TOPO_LACK_CONTIGUOUS };

/* From room->fits to chosen, tasks and devices. If there is no choice: *lack says why, *which is the node, the row or the number of nodes meant. */
bool topo_choose(const struct topo_ask *t, struct topo_room *room, enum topo_lack *lack, uint32_t *which);

/* Tasks and devices of the nodes chosen. */
void topo_share(const struct topo_ask *t, struct topo_room *room);

#endif
