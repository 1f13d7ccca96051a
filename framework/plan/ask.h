/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - one job's wish in one partition, as the plan asks it: one or more asks to be tried in order.
 *
 * More than one comes of --prefer (first the nodes preferred, then any) and of "[r1|r2]" constraints (one alternative after the other).
 */
#ifndef PLAN_ASK_H
#define PLAN_ASK_H

#include "plan/plan.h"

struct wish {
    struct spur_ask *asks; uint32_t count;  /* count >= 1; in the arena */
    uint32_t time_limit_min;                /* resolved for the partition; MINUTES_UNLIMITED is possible */
    uint32_t time_min_min;                  /* 0: not asked */
    bool     alone;                         /* its leaves for itself (--exclusive=topo) */
    uint64_t hash;                          /* equal wishes have equal hashes: what failed for one fails for the other */
};

int wish_build(struct state *s, const Wire__JobSpec *spec, const struct config_partition *part, struct arena *a, struct wish *out, struct spur_error *err);

/* SelectTypeParameters as SPUR_CR_* bits; CR_Core_Memory is the default for cons_tres-like plugins that name none: cores. */
uint32_t select_parameters(const struct config *c, const struct config_partition *part);
/* Minutes the job may run in this partition: what it asked, else DefaultTime, else MaxTime. */
uint32_t wish_time_limit(const Wire__JobSpec *spec, const struct config_partition *part);

/* Which of the partition's own limits the wish breaks: REASON_None, PartitionNodeLimit, PartitionTimeLimit, MaxMemPerLimit, with the sentence
 * in err. The same function answers for a submit, an update and the plan. */
unsigned partition_limit(const struct config *c, const struct config_partition *part, const Wire__JobSpec *spec, struct spur_error *err);

#endif
