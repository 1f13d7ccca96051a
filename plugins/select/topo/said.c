/* SPDX-License-Identifier: Apache-2.0 */
/* said.c - the score and the one-line reason of a placement, and the rail: the same GPU numbers on every node of a job.
 *
 * Collectives over several nodes run along rails, NIC i of one node to NIC i of the next. So where a job takes a part of each node it takes the same
 * part, if every node has it free and no node could do better by itself.
 */
#include <stdarg.h>
#include <stdio.h>

#include "devices.h"
#include "give.h"
#include "said.h"

static const struct spur_node_view *node_at(const struct spur_view *view, uint32_t index)
{
    if (index < view->node_count && spur_view_node(view, index)->index == index)
        return spur_view_node(view, index);
    for (uint32_t i = 0; i < view->node_count; i++)
        if (spur_view_node(view, i)->index == index)
            return spur_view_node(view, i);
    return NULL;
}

void topo_rail(struct topo_ask *t, const struct spur_view *view, const struct topo_room *room)
{
    uint64_t common = ~UINT64_C(0), want = 0, rail;
    uint32_t row = UINT32_MAX;
    struct spur_score all;

    t->rail = 0;
    for (uint32_t i = 0; i < t->row_count; i++)
        if (t->rows[i].is_gpu) {
            if (row != UINT32_MAX || t->rows[i].ask->per_socket)
                return;
            row = i;
        }
    if (row == UINT32_MAX || room->count < 2 || !t->scorer)
        return;
    for (uint32_t i = 0; i < room->count; i++) {
        const struct spur_node_view *n = node_at(view, room->fits[room->chosen[i]].node);
        uint64_t here = topo_row_want(t, row, room->tasks[i], 1, room->devices[i]);

        if (!n || !topo_table(t, n) || (i && here != want))
            return;
        want = here;
        common &= topo_row_mask(t, n, row);
    }
    if (!want || want > 64 || (uint64_t)__builtin_popcountll(common) < want)
        return;
    rail = topo_devices_best(t, node_at(view, room->fits[room->chosen[0]].node), common, 0, (uint32_t)want, &all);
    for (uint32_t i = 0; i < room->count; i++) {
        const struct spur_node_view *n = node_at(view, room->fits[room->chosen[i]].node);
        uint64_t free = topo_row_mask(t, n, row);
        struct spur_score own, there = { .size = sizeof there };

        if (free & ~common) {
            topo_devices_best(t, n, free, 0, (uint32_t)want, &own);
            if (!SPUR_HAS(t->scorer, rate) || t->scorer->rate(t->scorer_self, topo_table(t, n), rail, free, &there) < 0 || there.sum_mbps < own.sum_mbps)
                return;
        }
    }
    t->rail = rail;
}

void topo_say(const struct topo_ask *t, const struct spur_view *view, struct spur_placement *out, struct topo_said *said)
{
    bool has_leaves = view->node_size >= offsetof(struct spur_node_view, leaf) + sizeof(const char *);
    const char *last = NULL;

    said->nodes = out->pick_count;
    said->gpus = said->sum_mbps = said->leaves = 0;
    said->best_mbps = 0;
    said->leaf[0] = '\0';
    said->first = out->pick_count ? spur_placement_pick(out, 0)->node : 0;
    out->score = 1.0;
    for (uint32_t i = 0; i < out->pick_count; i++) {
        const struct spur_node_pick *pick = spur_placement_pick(out, i);
        const struct spur_node_view *n = node_at(view, pick->node);
        uint64_t mask = n ? topo_pick_gpus(n, pick) : 0;
        struct spur_score score;

        if (!n)
            continue;
        said->gpus += (uint64_t)__builtin_popcountll(mask);
        if (i < TOPO_SAID_NODES) {
            snprintf(said->node[i].name, sizeof said->node[i].name, "%s", n->name);
            said->node[i].mask = mask;
        }
        if (has_leaves && n->leaf && *n->leaf && (!last || strcmp(last, n->leaf) != 0)) {
            said->leaves++;     /* nodes of a leaf mostly stand together; a leaf met twice is counted twice at worst */
            if (!last)
                snprintf(said->leaf, sizeof said->leaf, "%s", n->leaf);
            last = n->leaf;
        }
        if (mask && topo_pick_score(t, n, pick, &score)) {
            said->sum_mbps += score.sum_mbps;
            said->best_mbps += score.share > 0 ? (double)score.sum_mbps / score.share : 0;
            if (score.share <= 0)
                out->score = 0;
        }
    }
    if (said->best_mbps > 0)
        out->score = (double)said->sum_mbps / said->best_mbps;
}

static void put(char *buf, size_t len, size_t *at, const char *format, ...) __attribute__((format(printf, 4, 5)));
static void put(char *buf, size_t len, size_t *at, const char *format, ...)
{
    va_list args;
    int n;

    if (*at >= len)
        return;
    va_start(args, format);
    n = vsnprintf(buf + *at, len - *at, format, args);
    va_end(args);
    *at = n < 0 ? *at : *at + (size_t)n < len ? *at + (size_t)n : len - 1;
}

static void put_mask(char *buf, size_t len, size_t *at, uint64_t mask)
{
    const char *comma = "";

    while (mask) {
        uint32_t first = (uint32_t)__builtin_ctzll(mask), last = first;

        while (last < 63 && (mask >> (last + 1) & 1))
            last++;
        put(buf, len, at, last > first + 1 ? "%s%u-%u" : last > first ? "%s%u,%u" : "%s%u", comma, first, last);
        comma = ",";
        mask &= last == 63 ? 0 : ~UINT64_C(0) << (last + 1);
    }
}

int topo_said_print(const struct topo_said *said, const struct spur_placement *out, char *buf, size_t len)
{
    size_t at = 0;

    if (!len)
        return 0;
    buf[0] = '\0';
    if (!said->nodes || said->nodes != out->pick_count || said->first != spur_placement_pick(out, 0)->node)
        return 0;           /* of another placement than the last one nothing is known */
    if (said->gpus && said->nodes == 1) {
        put(buf, len, &at, said->gpus == 1 ? "GPU " : "GPUs ");
        put_mask(buf, len, &at, said->node[0].mask);
        put(buf, len, &at, " of %s", said->node[0].name);
    } else {
        put(buf, len, &at, said->nodes == 1 ? "%u node" : "%u nodes", said->nodes);
        if (said->gpus)
            put(buf, len, &at, ", %llu GPUs", (unsigned long long)said->gpus);
        for (uint32_t i = 1; i < said->nodes && said->gpus; i++) {
            if (i >= TOPO_SAID_NODES || said->node[i].mask != said->node[0].mask)
                break;
            if (i + 1 == said->nodes || i + 1 == TOPO_SAID_NODES) {
                put(buf, len, &at, ", numbers ");
                put_mask(buf, len, &at, said->node[0].mask);
                break;
            }
        }
    }
    if (said->best_mbps > 0)
        put(buf, len, &at, ": %llu of %llu GB/s", (unsigned long long)(said->sum_mbps / 1000), (unsigned long long)(said->best_mbps / 1000 + 0.5));
    if (said->leaves == 1)
        put(buf, len, &at, ", leaf %s", said->leaf);
    else if (said->leaves > 1)
        put(buf, len, &at, ", %u leaves", said->leaves);
    return 0;
}
