/* SPDX-License-Identifier: Apache-2.0 */
/* devices.h - which of a node's free GPUs a job gets, as the score plugin says, and the cores near to them. Pure. */
#ifndef SELECT_TOPO_DEVICES_H
#define SELECT_TOPO_DEVICES_H

#include "fit.h"

/* The GPUs of a node and their links; NULL: none known. */
const struct spur_device_table *topo_table(const struct topo_ask *t, const struct spur_node_view *n);
/* All free GPUs of a node that a row may take; typed rows take those of their type. */
uint64_t topo_row_mask(struct topo_ask *t, const struct spur_node_view *n, uint32_t row);
/* The best `k` more of `free` beside those in `must`, with its numbers in `out` (may be NULL). The lowest ones where nothing is known of links. */
uint64_t topo_devices_best(const struct topo_ask *t, const struct spur_node_view *n, uint64_t free, uint64_t must, uint32_t k, struct spur_score *out);
/* The numbers of the GPUs of one pick; false: nothing is known of them. */
bool topo_pick_score(const struct topo_ask *t, const struct spur_node_view *n, const struct spur_node_pick *pick, struct spur_score *out);
/* All GPUs of a pick. */
uint64_t topo_pick_gpus(const struct spur_node_view *n, const struct spur_node_pick *pick);

#endif
