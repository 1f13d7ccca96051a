/* SPDX-License-Identifier: Apache-2.0 */
/* give.h - the cores, CPUs, memory and devices that a job gets on one node, once it is known how many tasks run there. Pure. */
#ifndef SELECT_TOPO_GIVE_H
#define SELECT_TOPO_GIVE_H

#include "fit.h"

/* Fills `pick` (its cores bitmap has room for core_words). devices[row]: for rows counted over the job. False: it does not fit after all. */
/* Devices of row i on a node with so many tasks in so many sockets. */
uint64_t topo_row_want(const struct topo_ask *t, uint32_t i, uint32_t tasks, uint32_t sockets, const uint32_t *devices);
bool topo_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, const uint32_t *devices, struct spur_node_pick *pick);

#endif
