/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c - chooses leaves for a job of whole nodes.
 *
 * The fewest leaves is easy: the largest ones first. Among all choices of so many leaves, those in the fewest pods are wanted, and of these the one that
 * leaves the fewest nodes over. That is a knapsack, but a small one: since one leaf less would not do, the units given away against the largest leaves
 * are few. The table goes leaf by leaf, pod after pod; a cell is (pod begun?, pods, leaves, units given away) and holds the fewest idle nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define NONE UINT32_MAX

void fabric_fini(struct fabric_room *room)
{
    free(room->values);
    free(room->order);
    *room = (struct fabric_room){ 0 };
}

bool fabric_cheaper(const struct fabric_cost *a, const struct fabric_cost *b)
{
    if (a->leaves != b->leaves)
        return a->leaves < b->leaves;
    return a->pods != b->pods ? a->pods < b->pods : a->idle < b->idle;
}

static bool order_room(struct fabric_room *room, uint32_t count)
{
    uint32_t *more;

    if (count <= room->order_room)
        return true;
    if (!(more = realloc(room->order, (size_t)(count + 64) * sizeof *more)))
        return false;
    room->order = more;
    room->order_room = count + 64;
    return true;
}

/* Largest first, then by number; shell sort: no memory, no function pointer. */
static void order_by_size(uint32_t *order, uint32_t n, const struct fabric_leaf *leaves)
{
    static const uint32_t gaps[] = { 3937, 1968, 701, 301, 132, 57, 23, 10, 4, 1 };

    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (uint32_t i = gaps[g]; i < n; i++) {
            uint32_t moving = order[i], k = i;

            for (; k >= gaps[g]; k -= gaps[g]) {
                uint32_t other = order[k - gaps[g]];

                if (leaves[other].units > leaves[moving].units || (leaves[other].units == leaves[moving].units && other < moving))
                    break;
                order[k] = other;
            }
            order[k] = moving;
        }
}

uint32_t fabric_fewest(struct fabric_room *room, const struct fabric_leaf *leaves, uint32_t count, uint32_t need)
{
    uint64_t sum = 0;
    uint32_t n = 0;

    if (!order_room(room, count))
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += leaves[i].units;
        if (leaves[i].units)
            room->order[n++] = i;
    }
    if (sum < need)
        return 0;
    order_by_size(room->order, n, leaves);
    sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((sum += leaves[room->order[i]].units) >= need)
            return i + 1;
    return 0;
}

/* The leaves marked with take = 1 get their units: the largest are filled, each gets one at least. */
static void take_all(struct fabric_leaf *leaves, const uint32_t *order, uint32_t n, uint32_t chosen, uint32_t need)
{
    for (uint32_t i = 0; i < n && chosen > 0; i++) {
        struct fabric_leaf *l = &leaves[order[i]];
        uint32_t most = need - (chosen - 1);

        if (!l->take)
            continue;
        l->take = l->units < most ? l->units : most;
        need -= l->take;
        chosen--;
    }
}

static void cost_of(const struct fabric_leaf *leaves, uint32_t count, struct fabric_cost *cost)
{
    *cost = (struct fabric_cost){ 0 };
    for (uint32_t i = 0; i < count; i++) {
        bool is_new = leaves[i].take;

        if (!leaves[i].take)
            continue;
        cost->leaves++;
        cost->idle += leaves[i].idle;
        for (uint32_t k = 0; k < i && is_new; k++)
            is_new = !leaves[k].take || leaves[k].pod != leaves[i].pod;
        cost->pods += is_new;
    }
}

/* Without the table: the largest, the last one as tight as possible. `order` has the n that are not empty, largest first. */
static void choose_largest(struct fabric_leaf *leaves, const uint32_t *order, uint32_t n, uint32_t fewest, uint32_t need)
{
    uint64_t sum = 0;
    uint32_t last = fewest - 1;

    for (uint32_t i = 0; i + 1 < fewest; i++) {
        leaves[order[i]].take = 1;
        sum += leaves[order[i]].units;
    }
    for (uint32_t i = fewest; i < n && sum + leaves[order[i]].units >= need; i++)
        if (leaves[order[i]].idle < leaves[order[last]].idle)
            last = i;
    leaves[order[last]].take = 1;
}

struct cells { uint32_t pods, leaves, given; };     /* largest index of each, +1 */

static uint64_t cell(const struct cells *s, uint32_t begun, uint32_t pod, uint32_t leaf, uint32_t given)
{
    return (((uint64_t)begun * s->pods + pod) * s->leaves + leaf) * s->given + given;
}

/* Leaves of one pod stand together in items[]. True: `take` is set for the best choice. */
static bool choose_exact(struct fabric_room *room, struct fabric_leaf *leaves, const uint32_t *items, uint32_t n, uint32_t fewest, uint32_t need, uint32_t largest,
                         uint32_t pods_most)
{
    struct cells s = { pods_most + 1, fewest + 1, (uint32_t)((uint64_t)fewest * largest - need) + 1 };
    uint64_t size = 2 * (uint64_t)s.pods * s.leaves * s.given, all = size * (n + 1);
    uint32_t *now, best_given = 0, best_begun = 0, pods;

    if (size > FABRIC_EXACT || all > FABRIC_EXACT || all > room->budget)
        return false;
    room->budget -= all;
    if (all > room->value_room) {
        uint32_t *more = realloc(room->values, (size_t)all * sizeof *more);

        if (!more)
            return false;
        room->values = more;
        room->value_room = all;
    }
    memset(room->values, 0xff, (size_t)all * sizeof *room->values);
    room->values[cell(&s, 0, 0, 0, 0)] = 0;
    /* Layer i: before item i is looked at. The layer after an item takes or leaves it; where the next item is of another pod, `begun` falls back. */
    for (uint32_t i = 0; i < n; i++) {
        const struct fabric_leaf *l = &leaves[items[i]];
        uint32_t *before = room->values + size * i, *after = before + size, less = largest - l->units;
        bool ends = i + 1 == n || leaves[items[i + 1]].pod != l->pod;

        for (uint32_t begun = 0; begun < 2; begun++)
            for (uint32_t pod = 0; pod < s.pods; pod++)
                for (uint32_t leaf = 0; leaf < s.leaves; leaf++)
                    for (uint32_t given = 0; given < s.given; given++) {
                        uint32_t value = before[cell(&s, begun, pod, leaf, given)];
                        uint64_t to = cell(&s, ends ? 0 : begun, pod, leaf, given);

                        if (value == NONE)
                            continue;
                        if (value < after[to])
                            after[to] = value;
                        if (leaf + 1 == s.leaves || pod + !begun >= s.pods || given + less >= s.given)
                            continue;
                        to = cell(&s, !ends, pod + !begun, leaf + 1, given + less);
                        if (value + l->idle < after[to])
                            after[to] = value + l->idle;
                    }
    }
    now = room->values + size * n;
    for (pods = 1; pods < s.pods; pods++) {
        uint32_t least = NONE;

        for (uint32_t given = 0; given < s.given; given++)
            if (now[cell(&s, 0, pods, fewest, given)] < least) {
                least = now[cell(&s, 0, pods, fewest, given)];
                best_given = given;
            }
        if (least != NONE)
            break;
    }
    if (pods == s.pods)
        return false;
    for (uint32_t i = n, leaf = fewest, pod = pods, given = best_given, begun = best_begun; i-- > 0; ) {
        const struct fabric_leaf *l = &leaves[items[i]];
        uint32_t *before = room->values + size * i, value = room->values[size * (i + 1) + cell(&s, begun, pod, leaf, given)], less = largest - l->units;
        bool ends = i + 1 == n || leaves[items[i + 1]].pod != l->pod, done = false;

        for (uint32_t was = 0; was < 2 && !done; was++) {
            if ((ends ? 0 : was) == begun && before[cell(&s, was, pod, leaf, given)] == value) {
                begun = was;
                done = true;
            } else if ((uint32_t)!ends == begun && leaf > 0 && pod >= (uint32_t)!was && given >= less &&
                       before[cell(&s, was, pod - !was, leaf - 1, given - less)] != NONE &&
                       before[cell(&s, was, pod - !was, leaf - 1, given - less)] + l->idle == value) {
                leaves[items[i]].take = 1;
                pod -= !was;
                leaf--;
                given -= less;
                begun = was;
                done = true;
            }
        }
    }
    return true;
}

/* Those that may be in a choice, pod by pod in the order of their numbers; of leaves that are alike no more than could be taken. */
static uint32_t items_make(struct fabric_leaf *leaves, const uint32_t *order, uint32_t n, uint32_t *items, uint32_t fewest, uint32_t need)
{
    uint64_t others = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i + 1 < fewest; i++)
        others += leaves[order[i]].units;
    for (uint32_t i = 0; i < n; i++) {
        const struct fabric_leaf *l = &leaves[order[i]];
        uint32_t alike = 0;

        if (others + l->units < need)
            break;
        for (uint32_t k = count; k-- > 0 && alike < fewest && leaves[items[k]].units == l->units; )
            alike += leaves[items[k]].pod == l->pod && leaves[items[k]].idle == l->idle;
        if (alike < fewest)
            items[count++] = order[i];
    }
    /* Stable, so that the largest and lowest of a pod come first. */
    for (uint32_t i = 1; i < count; i++) {
        uint32_t moving = items[i], k = i;

        for (; k > 0 && leaves[items[k - 1]].pod > leaves[moving].pod; k--)
            items[k] = items[k - 1];
        items[k] = moving;
    }
    return count;
}

static uint32_t pods_of(const struct fabric_leaf *leaves, const uint32_t *items, uint32_t n)
{
    uint32_t pods = 0;

    for (uint32_t i = 0; i < n; i++)
        pods += i == 0 || leaves[items[i]].pod != leaves[items[i - 1]].pod;
    return pods;
}

bool fabric_choose(struct fabric_room *room, struct fabric_leaf *leaves, uint32_t count, uint32_t need, struct fabric_cost *cost)
{
    uint32_t fewest, n = 0, *order, item_count, pods;
    bool found = false;

    for (uint32_t i = 0; i < count; i++)
        leaves[i].take = 0;
    if (!need || !order_room(room, 2 * count) || !(fewest = fabric_fewest(room, leaves, count, need)))
        return false;
    order = room->order;
    for (uint32_t i = 0; i < count; i++)
        n += leaves[i].units > 0;
    if (fewest > 1 && n <= 4096) {
        item_count = items_make(leaves, order, n, order + count, fewest, need);
        pods = pods_of(leaves, order + count, item_count);
        /* Few pods first: most answers need one or two, and the table grows with the number of pods that it counts to. */
        for (uint32_t most = 1; !found && most < 2 * pods; most *= 2)
            if (!(found = choose_exact(room, leaves, order + count, item_count, fewest, need, leaves[order[0]].units, most < pods ? most : pods)))
                for (uint32_t i = 0; i < count; i++)
                    leaves[i].take = 0;
    }
    if (!found)
        choose_largest(leaves, order, n, fewest, need);
    take_all(leaves, order, n, fewest, need);
    cost_of(leaves, count, cost);
    return true;
}
