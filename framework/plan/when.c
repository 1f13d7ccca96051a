/* SPDX-License-Identifier: Apache-2.0 */
/* when.c - the earliest moment at which a wish would fit: --test-only, and estimates.
 *
 * Counts on running jobs lasting until their limits and looks past the queue: an answer for one job must not cost a pass. Which is what the
 * user is told, too: "could start at", not "will".
 */
#include "plan/private.h"

int64_t plan_when(struct plan *p, struct state *s, const struct plan_plugins *plugins, const struct spur_ask *ask, const struct config_partition *part,
                  uint32_t time_limit_min, int64_t now_wall_s, struct spur_placement *where, struct spur_error *err)
{
    struct horizon h;
    struct overlay *base;
    size_t low = 0, high;
    int64_t found = 0;
    int rc;

    (void)part;
    (void)time_limit_min;
    if (!p->built)
        plan_events(p, s, NULL, 0);
    base = overlay_create(s);
    for (size_t i = 0; i < p->flight_count; i++)
        overlay_take_allocs(base, p->flights[i].allocs, p->flights[i].alloc_count);
    horizon_init(&h);
    if (SPUR_HAS(plugins->select, changed) && p->all_changed)
        plugins->select->changed(plugins->select_self, state_view(s), NULL, 0);
    where->pick_count = 0;
    rc = plugins->select->place(plugins->select_self, overlay_view(base), ask, where, err);
    if (rc == 0 && where->pick_count) {
        found = now_wall_s;
        goto out;
    }
    if (spur_select_is_never(rc))
        goto out;
    horizon_fill(&h, s, &p->running, now_wall_s, s->cluster_ms, p->params.resolution_s);
    high = h.count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        struct overlay *o = horizon_at(&h, s, base, h.releases[mid].at_s);

        where->pick_count = 0;
        rc = plugins->select->place(plugins->select_self, overlay_view(o), ask, where, err);
        overlay_destroy(o);
        if (rc == 0 && where->pick_count) {
            high = mid;
            found = h.releases[mid].at_s;
        } else {
            low = mid + 1;
        }
    }
    if (found) {        /* once more: the last probe need not have been the one that fits */
        struct overlay *o = horizon_at(&h, s, base, found);

        where->pick_count = 0;
        if (plugins->select->place(plugins->select_self, overlay_view(o), ask, where, err) != 0)
            found = 0;
        overlay_destroy(o);
    }
    if (!found)
        spur_fail(err, SPUR_ENEVER, "Requested node configuration is not available now: nodes that could take the job are down, drained or not answering");
out:
    horizon_fini(&h);
    overlay_destroy(base);
    return found;
}
