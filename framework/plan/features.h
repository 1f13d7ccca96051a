/* SPDX-License-Identifier: Apache-2.0 */
/* features.h - constraint expressions of jobs, read once into the sets of nodes that satisfy them.
 *
 * An expression gives one set of nodes, except "[r1|r2]": all nodes of the job must come from the same alternative, so it gives one set
 * for each, to be tried in the order written.
 */
#ifndef PLAN_FEATURES_H
#define PLAN_FEATURES_H

#include <spur/error.h>

#include "base/bitmap.h"
#include "state/state.h"

#define FEATURES_CHOICES_MAX 32

struct features {
    struct bitmap choice[FEATURES_CHOICES_MAX];     /* at least one after features_init, each of the cluster's size */
    uint32_t count;
};

/* NULL and "" mean every node. SPUR_ESYNTAX for what cannot be read, SPUR_EUNSUPPORTED for counts of nodes, SPUR_ENOTFOUND for a name that no node has. */
int  features_init(struct features *f, const struct state *s, const char *expression, struct spur_error *err);
void features_fini(struct features *f);

#endif
