/* SPDX-License-Identifier: Apache-2.0 */
/* overlay.h - the memory behind a view, shared by view.c and overlay.c. Internal to state/. */
#ifndef STATE_OVERLAY_H
#define STATE_OVERLAY_H

#include "state/private.h"

/* What has changed in a view since it was made, for plugins that keep an index of it (spur/view.h). */
struct view_log { uint32_t *nodes; uint32_t count, room; };
/* One that no view in this process has had. */
uint64_t view_serial(void);
/* Node `i` has changed. Begins anew, with another serial, when the log says more than a fresh look would. */
void view_log_add(struct spur_view *view, struct view_log *log, uint32_t i);
void view_log_restart(struct spur_view *view, struct view_log *log);

struct view_base {
    struct spur_view view;
    struct view_log log;
    struct spur_node_view *nodes;   /* and behind them, in the same memory, word_at, gres_at, core_at and device_ids */
    size_t   *word_at, *gres_at, *core_at;
    uint32_t *device_ids;           /* of the table that a node's class was made with */
    uint64_t *words; size_t word_count;
    struct spur_gres_view *gres; size_t gres_count;
    uint16_t *threads; size_t core_count;   /* threads held of each core */
    struct bitmap dirty; bool is_dirty;
    struct table classes; struct arena texts;   /* what a node's hardware is, as text -> its class_id */
    char    **ids; uint32_t id_count;       /* names and types of generic resources; id is index + 1 */
};

#endif
