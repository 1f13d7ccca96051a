/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - asks the score plugin which of a node's free GPUs go together best.
 *
 * The plugin is the host's (ScoreType) and may be absent, as in tests; a node may have told nothing of its links, or a table that knows fewer devices
 * than gres.conf. Then the lowest free ones are taken.
 */
#include "devices.h"

const struct spur_device_table *topo_table(const struct topo_ask *t, const struct spur_node_view *n)
{
    return t->node_size >= offsetof(struct spur_node_view, devices) + sizeof n->devices ? n->devices : NULL;
}

static uint64_t table_mask(const struct spur_device_table *table)
{
    return table->count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << table->count) - 1;
}

uint64_t topo_row_mask(struct topo_ask *t, const struct spur_node_view *n, uint32_t row)
{
    uint64_t mask = 0;

    for (uint32_t k = 0; k < n->gres_count; k++)
        if (topo_row_matches(&t->rows[row], topo_gres(n, k)))
            mask |= topo_gres(n, k)->free_mask;
    return mask;
}

static uint64_t lowest(uint64_t mask, uint32_t count)
{
    uint64_t out = 0;

    for (; count > 0 && mask; count--, mask &= mask - 1)
        out |= mask & -mask;
    return out;
}

uint64_t topo_devices_best(const struct topo_ask *t, const struct spur_node_view *n, uint64_t free, uint64_t must, uint32_t k, struct spur_score *out)
{
    const struct spur_device_table *table = topo_table(t, n);
    struct spur_score score = { .size = sizeof score, .share = 1.0 };
    struct spur_score_ask ask = { .size = sizeof ask, .k = k + (uint32_t)__builtin_popcountll(must), .free = free | must, .must = must };

    if (!k || !table || !t->scorer || ((free | must) & ~table_mask(table)) || t->scorer->best(t->scorer_self, table, &ask, &score) < 0 ||
        (score.mask & ~ask.free) || (must & ~score.mask) || (uint32_t)__builtin_popcountll(score.mask) != ask.k) {
        score = (struct spur_score){ .size = sizeof score, .mask = must | lowest(free & ~must, k), .share = 1.0 };
    }
    if (out)
        *out = score;
    return score.mask & ~must;
}

uint64_t topo_pick_gpus(const struct spur_node_view *n, const struct spur_node_pick *pick)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < pick->gres_count && i < SPUR_PICKS_MAX; i++)
        if (pick->gres[i].gres < n->gres_count && strcmp(topo_gres(n, pick->gres[i].gres)->name, "gpu") == 0)
            mask |= pick->gres[i].mask;
    return mask;
}

bool topo_pick_score(const struct topo_ask *t, const struct spur_node_view *n, const struct spur_node_pick *pick, struct spur_score *out)
{
    const struct spur_device_table *table = topo_table(t, n);
    uint64_t mask = topo_pick_gpus(n, pick), free = 0;

    *out = (struct spur_score){ .size = sizeof *out, .mask = mask, .share = 1.0 };
    if (!mask || !table || !t->scorer || (mask & ~table_mask(table)) || !SPUR_HAS(t->scorer, rate))
        return false;
    for (uint32_t k = 0; k < n->gres_count; k++)
        if (strcmp(topo_gres(n, k)->name, "gpu") == 0)
            free |= topo_gres(n, k)->free_mask;
    return t->scorer->rate(t->scorer_self, table, mask, free & table_mask(table), out) == 0;
}
