/* SPDX-License-Identifier: Apache-2.0 */
/* horizon.c - ends of running jobs in order, and overlays that look ahead. */
#include "plan/horizon.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"

void horizon_init(struct horizon *h) { memset(h, 0, sizeof *h); }

void horizon_fini(struct horizon *h)
{
    free(h->releases);
    memset(h, 0, sizeof *h);
}

uint32_t limit_minutes(uint32_t limit_min, const struct config_partition *part)
{
    if (limit_min == MINUTES_UNLIMITED || limit_min == MINUTES_NOT_SET)
        limit_min = part && part->max_time_min != MINUTES_UNLIMITED ? part->max_time_min : HORIZON_YEAR_MIN;
    return limit_min < HORIZON_YEAR_MIN ? limit_min : HORIZON_YEAR_MIN;
}

int64_t horizon_end_s(const struct state *s, const struct job *j, int64_t now_s, int64_t cluster_ms, int64_t resolution_s)
{
    const struct config_partition *part = j->part_index < s->config->partition_count ? &s->config->partitions[j->part_index] : NULL;
    int64_t left_s = (j->start_cluster_ms + job_suspended_ms(j, cluster_ms) - cluster_ms) / 1000 + (int64_t)limit_minutes(j->time_limit_min, part) * 60;

    /* Over its limit, or ended and not yet empty: it will be gone soon. */
    if (left_s < resolution_s || j->state != JOB_RUNNING)
        left_s = j->state == JOB_SUSPENDED && left_s > resolution_s ? left_s : resolution_s;
    return now_s + (left_s + resolution_s - 1) / resolution_s * resolution_s;
}

static int compare(const void *a, const void *b)
{
    const struct release *x = a, *y = b;

    return x->at_s != y->at_s ? (x->at_s < y->at_s ? -1 : 1) : x->job_id < y->job_id ? -1 : x->job_id > y->job_id;
}

void horizon_fill(struct horizon *h, const struct state *s, const struct table *ids, int64_t now_s, int64_t cluster_ms, int64_t resolution_s)
{
    void *v;

    h->count = 0;
    for (size_t i = 0; (v = table_next(ids, &i)); ) {
        const struct job *j = state_job(s, (uint32_t)(uintptr_t)v);

        if (!j || !j->alloc_count)
            continue;
        if (h->count == h->room) {
            h->room = h->room ? h->room * 2 : 64;
            h->releases = mem_grow(h->releases, h->room, sizeof *h->releases);
        }
        h->releases[h->count++] = (struct release){ horizon_end_s(s, j, now_s, cluster_ms, resolution_s), j->job_id };
    }
    if (h->count)
        qsort(h->releases, h->count, sizeof *h->releases, compare);
}

struct overlay *horizon_at(const struct horizon *h, const struct state *s, const struct overlay *base, int64_t at_s)
{
    struct overlay *o = overlay_copy(base);

    for (size_t i = 0; i < h->count && h->releases[i].at_s <= at_s; i++) {
        const struct job *j = state_job(s, h->releases[i].job_id);

        /* One that has ended meanwhile is free in the newer base only: releasing less is the careful side. */
        if (j && j->alloc_count && !j->parked)          /* whose cores others have: nobody knows when it goes on */
            for (uint32_t k = 0; k < j->alloc_count; k++)
                if (!j->allocs[k].gone && j->allocs[k].node != NODE_REMOVED)
                    overlay_release(o, &j->allocs[k], 1);
    }
    return o;
}
