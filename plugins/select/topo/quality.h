/* SPDX-License-Identifier: Apache-2.0 */
/* quality.h - how good the best set of k GPUs among the free ones of a node would be, remembered for each type and mask. */
#ifndef SELECT_TOPO_QUALITY_H
#define SELECT_TOPO_QUALITY_H

#include "fit.h"

#define TOPO_QUALITY_TYPES 16u

struct topo_quality_type;
struct topo_qualities {
    struct topo_quality_type *types[TOPO_QUALITY_TYPES]; uint32_t next;
    const struct spur_score_ops *ops; void *self;       /* of whom the answers are */
};

/* Higher is better; sum of bandwidth first, then the ring, then the fewest links cut to devices that stay free (nothing where all are joined alike).
 * 0 when nothing is known or fewer than k are free. */
uint64_t topo_quality(struct topo_qualities *all, const struct topo_ask *t, const struct spur_node_view *n, uint64_t free, uint32_t k);
/* Tables may have been exchanged: what is remembered is compared with them again. Once a decision. */
void topo_qualities_check(struct topo_qualities *all, const struct topo_ask *t);
void topo_qualities_fini(struct topo_qualities *all);

#endif
