/* SPDX-License-Identifier: Apache-2.0 */
/* horizon.h - when what runs now will have ended: the cluster as it will look at a later moment.
 *
 * A running job is taken to last until its limit; without one, until the MaxTime of its partition, or a year. Moments are rounded up to
 * the resolution, so that ten thousand jobs make a few hundred moments.
 */
#ifndef PLAN_HORIZON_H
#define PLAN_HORIZON_H

#include "state/state.h"

#define HORIZON_YEAR_MIN (366u * 24 * 60)

struct release { int64_t at_s; uint32_t job_id; };
struct horizon {
    struct release *releases; size_t count, room;       /* by time, then id */
};

void horizon_init(struct horizon *h);
void horizon_fini(struct horizon *h);
/* The jobs in `ids` (values are ids), as seen now. */
void horizon_fill(struct horizon *h, const struct state *s, const struct table *ids, int64_t now_s, int64_t cluster_ms, int64_t resolution_s);
int64_t horizon_end_s(const struct state *s, const struct job *j, int64_t now_s, int64_t cluster_ms, int64_t resolution_s);
/* Copy of `base` with everything released that ends at or before at_s. */
struct overlay *horizon_at(const struct horizon *h, const struct state *s, const struct overlay *base, int64_t at_s);
uint32_t limit_minutes(uint32_t limit_min, const struct config_partition *part);        /* no limit becomes MaxTime or a year */

#endif
