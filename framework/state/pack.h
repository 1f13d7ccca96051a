/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - snapshot messages of jobs and nodes. They borrow from the record: pack them before it changes. Internal to state/. */
#ifndef STATE_PACK_H
#define STATE_PACK_H

#include "state/private.h"

Wire__NodeAlloc *alloc_to_wire(const struct state *s, const struct node_alloc *a, struct arena *arena);
Wire__SnapJob  *job_pack(const struct state *s, const struct job *j, struct arena *arena);
struct job     *job_unpack(struct state *s, const Wire__SnapJob *m, struct arena *arena);     /* arena: for the request while it is looked at */
Wire__SnapNode *node_pack(const struct node *n, uint32_t table, struct arena *arena);      /* table: number of its device table, 0: none */
bool            node_unpack(struct state *s, const Wire__SnapNode *m, struct devices *const *tables, size_t table_count);

#endif
