/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.h - how many nodes of which leaf: the fewest leaves, the fewest pods, the least left over. Pure arithmetic, knows nothing of jobs. */
#ifndef SELECT_TOPO_FABRIC_H
#define SELECT_TOPO_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

struct fabric_leaf {
    uint32_t idle;          /* nodes that could be taken */
    uint32_t units;         /* of them in whole segments; without segments the same */
    uint32_t pod;           /* any number; equal ones are one pod */
    uint32_t take;          /* out: units */
};
struct fabric_cost { uint32_t leaves, pods; uint64_t idle; };      /* idle: nodes of the leaves taken, so what is left over is this less the job */

/* budget: cells of the table that may still be filled; set before each decision, so that a cluster of many groups does not hold the loop. */
struct fabric_room { uint64_t budget; uint32_t *values; uint64_t value_room; uint32_t *order; uint32_t order_room; };
void fabric_fini(struct fabric_room *room);

/* Takes `need` units of these leaves. False: there are not so many, or no memory. Exact as long as the table it needs has no more than FABRIC_EXACT cells
 * (it has 41,000 for 24 leaves in 4 pods and 200 nodes); beyond that the largest leaves and a tight last one. */
#define FABRIC_EXACT 4000000u
bool fabric_choose(struct fabric_room *room, struct fabric_leaf *leaves, uint32_t count, uint32_t need, struct fabric_cost *cost);
/* The fewest leaves that hold so many; 0: all of them do not. */
uint32_t fabric_fewest(struct fabric_room *room, const struct fabric_leaf *leaves, uint32_t count, uint32_t need);
/* a before b? */
bool fabric_cheaper(const struct fabric_cost *a, const struct fabric_cost *b);

#endif
