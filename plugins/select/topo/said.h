/* SPDX-License-Identifier: Apache-2.0 */
/* said.h - what is told about a placement: its score, and the one line for scontrol show job. Pure. */
#ifndef SELECT_TOPO_SAID_H
#define SELECT_TOPO_SAID_H

#include "choose.h"

#define TOPO_SAID_NODES 4u      /* nodes whose GPUs are named */

/* The last placement, in copies: explain comes after the view may have gone. */
struct topo_said {
    uint32_t nodes, first, leaves;  /* nodes of it; index of the first */
    uint64_t gpus;                  /* in all */
    uint64_t sum_mbps; double best_mbps;
    struct { char name[64]; uint64_t mask; } node[TOPO_SAID_NODES];
    char leaf[64];
};

/* GPUs of the same numbers for all nodes of a job: set t->rail when every node has them free and loses no bandwidth by them. */
void topo_rail(struct topo_ask *t, const struct spur_view *view, const struct topo_room *room);
/* From a finished placement: fills `said` and out->score. */
void topo_say(const struct topo_ask *t, const struct spur_view *view, struct spur_placement *out, struct topo_said *said);
int  topo_said_print(const struct topo_said *said, const struct spur_placement *out, char *buf, size_t len);

#endif
