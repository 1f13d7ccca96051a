/* SPDX-License-Identifier: Apache-2.0 */
/* quality.c - the score plugin's answers, one number each, so that a decision over hundreds of free masks asks it for none.
 *
 * Between nodes: the sum over the pairs of the best set there, its ring, and then the bandwidth that the set would be cut off from among the GPUs that stay
 * free, less of it first: so a job of one GPU takes one whose partners are gone already, wherever that is. Where all pairs are alike the cut says only how
 * full a node is, and packing by it costs jobs of several nodes their leaf: there it is left out. Measured over five replays of 6,000 jobs, the cut
 * takes the mean share of the best bandwidth on MI250X from 0.972 to 0.981.
 *
 * Nodes of up to eight GPUs have a place for each mask and k; others share 4,096 places. A table is known again by its address and number, and
 * compared by what it says at the first use in a decision: an address may be a freed table's.
 */
#include <stdlib.h>

#include "devices.h"
#include "quality.h"

#define PLACES 4096u

struct place { uint64_t free; uint32_t k; bool is_known; uint64_t quality; };
struct topo_quality_type {
    const struct spur_device_table *table;
    uint32_t id, count;
    bool     is_checked, is_uneven;
    uint32_t *mbps;
    struct place *places; uint32_t mask;
};

static void type_free(struct topo_quality_type *y)
{
    if (!y)
        return;
    free(y->mbps);
    free(y->places);
    free(y);
}

void topo_qualities_fini(struct topo_qualities *all)
{
    for (uint32_t i = 0; i < TOPO_QUALITY_TYPES; i++)
        type_free(all->types[i]);
    memset(all, 0, sizeof *all);
}

void topo_qualities_check(struct topo_qualities *all, const struct topo_ask *t)
{
    if (all->ops != t->scorer || all->self != t->scorer_self)
        topo_qualities_fini(all);
    all->ops = t->scorer;
    all->self = t->scorer_self;
    for (uint32_t i = 0; i < TOPO_QUALITY_TYPES; i++)
        if (all->types[i])
            all->types[i]->is_checked = false;
}

static struct topo_quality_type *type_make(const struct spur_device_table *table)
{
    struct topo_quality_type *y = calloc(1, sizeof *y);
    size_t pairs = (size_t)table->count * table->count;

    if (!y)
        return NULL;
    *y = (struct topo_quality_type){ .table = table, .id = table->id, .count = table->count, .is_checked = true, .mask = PLACES - 1 };
    y->mbps = malloc(pairs * sizeof *y->mbps);
    y->places = calloc(PLACES, sizeof *y->places);
    if (!y->mbps || !y->places) {
        type_free(y);
        return NULL;
    }
    memcpy(y->mbps, table->mbps, pairs * sizeof *y->mbps);
    for (uint32_t i = 0; i < table->count; i++)
        for (uint32_t j = 0; j < i; j++)
            y->is_uneven |= table->mbps[i * table->count + j] != table->mbps[table->count];
    return y;
}

static struct topo_quality_type *type_of(struct topo_qualities *all, const struct spur_device_table *table)
{
    uint32_t i = 0;

    while (i < TOPO_QUALITY_TYPES && !(all->types[i] && all->types[i]->table == table && all->types[i]->id == table->id && all->types[i]->count == table->count))
        i++;
    if (i < TOPO_QUALITY_TYPES && !all->types[i]->is_checked) {
        all->types[i]->is_checked = true;
        if (memcmp(all->types[i]->mbps, table->mbps, (size_t)table->count * table->count * sizeof *table->mbps) != 0) {
            type_free(all->types[i]);
            all->types[i] = type_make(table);
        }
    }
    if (i < TOPO_QUALITY_TYPES)
        return all->types[i];
    i = all->next++ % TOPO_QUALITY_TYPES;
    type_free(all->types[i]);
    return all->types[i] = type_make(table);
}

static uint64_t at_most(uint64_t n, unsigned bits) { return n >> bits ? (UINT64_C(1) << bits) - 1 : n; }

static uint64_t cut(const struct spur_device_table *table, uint64_t from, uint64_t to)
{
    uint64_t mbps = 0;

    for (uint64_t a = from; a; a &= a - 1)
        for (uint64_t b = to; b; b &= b - 1)
            mbps += table->mbps[(uint32_t)__builtin_ctzll(a) * table->count + (uint32_t)__builtin_ctzll(b)];
    return mbps;
}

uint64_t topo_quality(struct topo_qualities *all, const struct topo_ask *t, const struct spur_node_view *n, uint64_t free, uint32_t k)
{
    const struct spur_device_table *table = topo_table(t, n);
    struct topo_quality_type *y;
    struct spur_score score;
    struct place *p;
    uint64_t sum, ring, loss;
    uint32_t at;

    if (!table || !t->scorer || !k || (uint32_t)__builtin_popcountll(free) < k || !(y = type_of(all, table)))
        return 0;
    at = table->count <= 8 ? (uint32_t)(free & 255) * 9 + k : (uint32_t)((free * UINT64_C(0x9e3779b97f4a7c15) + k * UINT64_C(0xbf58476d1ce4e5b9)) >> 40);
    p = &y->places[at & y->mask];
    if (p->is_known && p->free == free && p->k == k)
        return p->quality;
    topo_devices_best(t, n, free, 0, k, &score);
    sum = at_most(score.sum_mbps >> 4, 28);
    ring = at_most(score.ring_mbps >> 6, 16);
    loss = at_most(y->is_uneven ? cut(table, score.mask, free & ~score.mask) >> 8 : 0, 20);
    *p = (struct place){ .free = free, .k = k, .is_known = true, .quality = sum << 36 | ring << 20 | (0xfffff - loss) };
    return p->quality;
}
