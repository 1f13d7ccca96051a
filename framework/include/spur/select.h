/* SPDX-License-Identifier: Apache-2.0 */
/* spur/select.h - the kind `select`: which nodes, cores and devices a job gets (Slurm's SelectType). ABI 0.3.
 *
 * Called by the plan pass on the leader only, on the loop's thread; a decision is a proposal that apply checks again, so
 * floats are fine and replicas need not agree. Mandatory: place.
 */
#ifndef SPUR_SELECT_H
#define SPUR_SELECT_H

#include <spur/view.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spur_select_ops {
    uint32_t size;
    /* These nodes differ from the version of the view seen before: bring your own index up to date. Optional. nodes NULL: all. */
    void (*changed)(void *self, const struct spur_view *view, const uint32_t *nodes, size_t n);
    /* Choose nodes, cores and devices for one job. Must not block, must not keep `view`. `view` may be an overlay: the base plus
     * hypothetical releases at a time, as backfill and preemption ask. Fills `out`, which the caller owns; in the base view only nodes
     * with SPUR_NODE_USABLE and a bit in ask->allowed may be taken.
     * 0 placed; SPUR_ELATER fits the cluster but not now; SPUR_ENEVER can't ever fit, with the reason in err; SPUR_EUNSUPPORTED this plugin
     * never does what the job asks for (several nodes, devices ...), with the reason: to the host the same as never. */
    int (*place)(void *self, const struct spur_view *view, const struct spur_ask *ask,
                 struct spur_placement *out, struct spur_error *err);
    /* Say in one line why `out` was chosen, for scontrol show job. Optional. */
    int (*explain)(void *self, const struct spur_placement *out, char *buf, size_t len);
    /* since 0.3: could the cluster ever hold this job, if nothing else ran? 0, or what place would answer (ENEVER, EUNSUPPORTED) with the reason in err. Asked at
     * each submit, so it should not cost more the more nodes there are. Optional: the host asks place otherwise. */
    int (*could)(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_error *err);
};

static inline bool spur_select_is_never(int rc) { return rc == SPUR_ENEVER || rc == SPUR_EUNSUPPORTED; }

#ifdef __cplusplus
}
#endif
#endif
