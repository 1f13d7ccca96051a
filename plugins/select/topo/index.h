/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - the nodes of a view sorted into classes: nodes of one class have equal hardware and the same things free, so one look at one of them does for
 * all. Kept for each view by its log, so that a decision does not scan nodes.
 */
#ifndef SELECT_TOPO_INDEX_H
#define SELECT_TOPO_INDEX_H

#include "fit.h"

#define TOPO_KEY_GRES 4u

/* All that fit.c looks at, for wishes that do not depend on where in the node the free cores are. Zeroed, compared as bytes. */
struct topo_class_key {
    uint32_t alone;             /* number + 1 of a node that cannot be compared with others; else 0 */
    uint32_t weight, flags, has_jobs, sockets, cores_per_socket, threads_per_core, cpus, cores_free, cpus_free, device_id, gres_count;
    uint64_t mem_total, mem_free;
    const void *devices;
    struct { uint32_t name_id, type_id; uint64_t total, free, all_mask, free_mask; } gres[TOPO_KEY_GRES];
};

#define TOPO_FEW 16u
struct topo_class {
    struct topo_class_key key;
    uint32_t count, next;       /* next: in its slot, + 1 */
    uint32_t few[TOPO_FEW];     /* members in order while bits is NULL */
    uint64_t *bits;             /* members once they were more */
    uint32_t first_word;        /* no member is in a word before it */
};

/* The network: leaves, and groups of them at each level above. Level 0 of a leaf is the switch above it. */
#define TOPO_LEVELS 6u
struct topo_leaf { const char *path; const char *name; uint32_t up[TOPO_LEVELS]; };     /* up: numbers of groups, 0: the whole cluster */

struct topo_index {
    uint64_t serial, used;      /* used: when last, for eviction */
    uint32_t log_read, node_count;
    struct topo_class *classes; uint32_t class_count, class_room, unused;      /* unused: chain of free places, + 1 */
    uint32_t *slots, slot_mask; /* heads of chains, + 1 */
    uint32_t *class_of;         /* of each node */
    uint32_t words;
    uint32_t *leaf_of;          /* of each node; leaf 0 is "none" */
    uint32_t *fabric_of; uint32_t fabric_count;     /* of each node: its NVLink or XGMI domain beyond the node; 0: none */
    struct topo_leaf *leaves; uint32_t leaf_count, leaf_room;
    uint32_t group_count;
    bool     has_leaves, has_fabrics;
};

#define TOPO_INDEXES 12u
struct topo_indexes { struct topo_index *of[TOPO_INDEXES]; struct topo_index *scratch; uint64_t clock; };

/* The index of a view, up to date; NULL: out of memory, or a view whose nodes are not numbered by their place. Valid until the next call. */
struct topo_index *topo_index_of(struct topo_indexes *all, const struct spur_view *view);
void topo_indexes_fini(struct topo_indexes *all);
/* The first member at or behind `from` that is allowed; UINT32_MAX: none. */
uint32_t topo_class_next(const struct topo_index *x, struct topo_class *c, uint32_t from, const uint64_t *allowed, uint32_t words);
/* Members that are allowed. */
uint32_t topo_class_allowed(const struct topo_index *x, const struct topo_class *c, const uint64_t *allowed, uint32_t words);

#endif
