/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - which task of a step is on which node: the words of --distribution, and the numbers of the tasks that they give. Pure. */
#ifndef STATE_LAYOUT_H
#define STATE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

enum deal { DEAL_DEFAULT, DEAL_BLOCK, DEAL_CYCLIC, DEAL_FCYCLIC, DEAL_PLANE, DEAL_ARBITRARY };

struct layout_how {
    enum deal nodes, sockets, cores;        /* the three levels; DEFAULT: block; cyclic; as the sockets */
    uint32_t  plane;                        /* tasks of a plane; 0: not said */
    bool      pack, no_pack;
};

/* "cyclic:block:fcyclic,Pack", "plane=4", "arbitrary", "*": the value of -m. NULL and "": defaults. */
int layout_parse(const char *text, struct layout_how *out, struct spur_error *err);

/* How many tasks each node gets: each at least one while there are enough, none more than its room; `named` (arbitrary): as the list has it. False: they do not fit. */
bool layout_counts(const struct layout_how *how, uint32_t ntasks, const uint32_t *room, uint32_t nodes, uint32_t *tasks);
/* The tasks of each node in rising order, node after node: ids[] has room for the sum of tasks[]. named: node of each task in turn, for DEAL_ARBITRARY
 * (NULL: as block). */
void layout_ids(const struct layout_how *how, const uint32_t *tasks, uint32_t nodes, const uint32_t *named, uint32_t *ids);
/* Is it as with block: the first node has tasks 0 to n-1, and so on? */
bool layout_is_plain(const struct layout_how *how, uint32_t nodes);

/* The node of each task from a list of names in the order of tasks ("n2,n1,n1"), out[ntasks]: index in names[nodes]. False: one is not among them, or there are too few. */
bool layout_named(const char *list, const char *const *names, uint32_t nodes, uint32_t ntasks, uint32_t *out);

#endif
