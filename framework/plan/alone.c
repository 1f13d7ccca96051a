/* SPDX-License-Identifier: Apache-2.0 */
/* alone.c - jobs that have their leaves for themselves: --exclusive=topo, and partitions with ExclusiveTopo=YES.
 *
 * While such a job runs, or its start is on its way, nobody else gets a node under its leaf switches (or in its blocks), and it starts only where nobody is.
 * Known from the running jobs alone, so nothing of it is in the state. Where there is no topology the option changes nothing. A reservation for such a
 * job is searched in what is free now: while its leaves are busy it has none, and waits its turn.
 */
#include "plan/private.h"

#include <string.h>

bool spec_is_alone(const struct state *s, const Wire__JobSpec *spec, const struct config_partition *part)
{
    return s->config && s->config->topology != TOPOLOGY_FLAT && (word_eq(spec->exclusive, "topo") || (part && part->exclusive_topo));
}

bool job_is_alone(const struct state *s, const struct job *j)
{
    struct arena a;
    Wire__JobSpec *spec;
    bool is_alone;

    if (!s->config || s->config->topology == TOPOLOGY_FLAT)
        return false;
    arena_init(&a, 0);
    spec = job_spec(j, &a);
    is_alone = spec && spec_is_alone(s, spec, j->part_index < s->config->partition_count ? &s->config->partitions[j->part_index] : NULL);
    arena_fini(&a);
    return is_alone;
}

static void mark(const struct state *s, struct bitmap *leaves, const struct node_alloc *allocs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!allocs[i].gone && allocs[i].node < s->node_count && s->nodes[allocs[i].node].conf->leaf >= 0)
            bitmap_set(leaves, (size_t)s->nodes[allocs[i].node].conf->leaf);
}

const struct bitmap *slice_avoid(struct slice *sl, bool for_alone)
{
    const struct plan *p = sl->p;
    const struct state *s = sl->s;
    struct bitmap leaves, *nodes;
    bool any = for_alone || table_count(&p->alone) > 0;
    size_t at = 0;
    void *id;

    for (size_t i = 0; i < p->flight_count && !any; i++)
        any = p->flights[i].alone;
    if (!any || !s->config || s->config->topology == TOPOLOGY_FLAT)
        return NULL;
    leaves = (struct bitmap){ .bits = s->config->switch_count, .words = arena_alloc(sl->arena, (bitmap_words(s->config->switch_count) + 1) * sizeof(uint64_t)) };
    nodes = arena_alloc(sl->arena, sizeof *nodes);
    *nodes = (struct bitmap){ .bits = s->node_count, .words = arena_alloc(sl->arena, (bitmap_words(s->node_count) + 1) * sizeof(uint64_t)) };
    for (uint32_t i = 0; for_alone && i < s->node_count; i++)
        if (s->nodes[i].jobs && s->nodes[i].conf->leaf >= 0)
            bitmap_set(&leaves, (size_t)s->nodes[i].conf->leaf);
    while ((id = table_next(&p->alone, &at))) {
        const struct job *j = state_job(s, (uint32_t)(uintptr_t)id);

        if (j)
            mark(s, &leaves, j->allocs, j->alloc_count);
    }
    for (size_t i = 0; i < p->flight_count; i++)
        if (for_alone || p->flights[i].alone)
            mark(s, &leaves, p->flights[i].allocs, p->flights[i].alloc_count);
    for (uint32_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].conf->leaf >= 0 && bitmap_test(&leaves, (size_t)s->nodes[i].conf->leaf))
            bitmap_set(nodes, i);
    return nodes;
}
