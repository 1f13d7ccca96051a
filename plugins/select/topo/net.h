/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - which nodes of a network a job of several nodes gets: close together, in few leaves, with little left over. */
#ifndef SELECT_TOPO_NET_H
#define SELECT_TOPO_NET_H

#include "choose.h"
#include "fabric.h"
#include "index.h"

struct topo_net {
    struct fabric_room fabric;
    struct fabric_leaf *leaves, *best;  /* of one attempt; takes of the best one */
    uint32_t *leaf_number, *best_number;    /* which leaf of the index each is */
    uint32_t *first, *fits;             /* candidates of leaf l: fits[first[l] .. first[l + 1]) */
    uint32_t *totals, *starts;          /* of groups */
    uint32_t *by_group;
    uint32_t leaf_room, fit_room, group_room;
};
void topo_net_fini(struct topo_net *net);

enum topo_net_answer {
    TOPO_NET_CHOSEN,        /* room->chosen is filled, tasks and devices are shared out */
    TOPO_NET_LATER,         /* the nodes are there, but not so close together as asked (--switches, --segment) */
    TOPO_NET_OPEN           /* no number of equal nodes does it: choose without looking at the network */
};
/* `quality` of a fit: higher is taken first inside a leaf; NULL: by rank. */
enum topo_net_answer topo_net_choose(struct topo_net *net, const struct topo_ask *t, struct topo_room *room, const struct topo_index *x,
                                     uint64_t (*quality)(void *arg, uint32_t fit), void *arg);

#endif
