/* SPDX-License-Identifier: Apache-2.0 */
/* quality.c - the score plugin's answers, one number each, so that a decision over hundreds of free masks asks it for none.
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
    bool     is_checked;
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

uint64_t topo_quality(struct topo_qualities *all, const struct topo_ask *t, const struct spur_node_view *n, uint64_t free, uint32_t k)
{
    const struct spur_device_table *table = topo_table(t, n);
    struct topo_quality_type *y;
    struct spur_score score;
    struct place *p;
    uint64_t ring;
    uint32_t at;

    if (!table || !t->scorer || k < 2 || (uint32_t)__builtin_popcountll(free) < k || !(y = type_of(all, table)))
        return 0;
    at = table->count <= 8 ? (uint32_t)(free & 255) * 9 + k : (uint32_t)((free * UINT64_C(0x9e3779b97f4a7c15) + k * UINT64_C(0xbf58476d1ce4e5b9)) >> 40);
    p = &y->places[at & y->mask];
    if (p->is_known && p->free == free && p->k == k)
        return p->quality;
    topo_devices_best(t, n, free, 0, k, &score);
    ring = score.ring_mbps / 8 < 0xfffff ? score.ring_mbps / 8 : 0xfffff;
    *p = (struct place){ .free = free, .k = k, .is_known = true,
                         .quality = (score.sum_mbps < UINT64_C(0xfffffffffff) ? score.sum_mbps : UINT64_C(0xfffffffffff)) << 20 | ring };
    return p->quality;
}
