/* SPDX-License-Identifier: Apache-2.0 */
/* give.h - the cores, CPUs, memory and devices that a job gets on one node, once it is known how many tasks run there. Pure. */
#ifndef SELECT_TOPO_GIVE_H
#define SELECT_TOPO_GIVE_H

#include "fit.h"

/* Fills `pick` (its cores bitmap has room for core_words). devices[row]: for rows counted over the job. False: it does not fit after all. */
bool topo_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, const uint32_t *devices, struct spur_node_pick *pick);

#endif
