/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - the best ring of a set: the cycle through all its devices whose weakest pair is strongest.
 *
 * Collectives run in rings, so of two sets with equal sums the one with a ring of direct links is worth more. For a given bandwidth "is there a
 * cycle of such pairs" is answered by a table over subsets (Held and Karp's, with bits for ends); the best bandwidth is searched among those that occur.
 * The second strongest pair of the device that is joined worst is an upper bound, and on uniform fabrics it is the answer.
 */
#include <stdlib.h>

#include "type.h"

struct ring { uint32_t k; uint32_t at[SPUR_DEVICES_MAX]; };

static void ring_of(struct ring *r, uint64_t mask)
{
    r->k = 0;
    for (; mask; mask &= mask - 1)
        r->at[r->k++] = (uint32_t)__builtin_ctzll(mask);
}

static uint64_t pair(const struct links_type *y, const struct ring *r, uint32_t i, uint32_t j) { return y->mbps[r->at[i] * y->count + r->at[j]]; }

static bool cycle_exists(const struct links_type *y, const struct ring *r, uint64_t least)
{
    uint16_t joined[LINKS_EXACT_MAX] = { 0 }, *ends;
    uint32_t full = (1u << r->k) - 1;
    bool is_there;

    for (uint32_t i = 0; i < r->k; i++) {
        for (uint32_t j = 0; j < r->k; j++)
            if (i != j && pair(y, r, i, j) >= least)
                joined[i] |= (uint16_t)(1u << j);
        if (__builtin_popcount(joined[i]) < 2)
            return false;
    }
    /* ends[S]: devices at which a path from the first one through all of S may end. S always holds the first. */
    if (!(ends = calloc((size_t)full + 1, sizeof *ends)))
        return false;
    ends[1] = 1;
    for (uint32_t set = 3; set <= full; set += 2) {
        uint16_t found = 0;

        for (uint32_t rest = set & ~1u; rest; rest &= rest - 1) {
            uint32_t bit = rest & -rest;

            if (ends[set ^ bit] & joined[__builtin_ctz(bit)])
                found |= (uint16_t)bit;
        }
        ends[set] = found;
    }
    is_there = (ends[full] & joined[0]) != 0;
    free(ends);
    return is_there;
}

/* Dirac: when each is joined with at least half of the others, there is a cycle. Enough for partitions of cards that are all joined. */
static bool cycle_surely(const struct links_type *y, const struct ring *r, uint64_t least)
{
    for (uint32_t i = 0; i < r->k; i++) {
        uint32_t joined = 0;

        for (uint32_t j = 0; j < r->k; j++)
            joined += i != j && pair(y, r, i, j) >= least;
        if (2 * joined < r->k)
            return false;
    }
    return true;
}

static bool holds(const struct links_type *y, const struct ring *r, uint64_t least)
{
    if (least == 0)
        return true;
    return r->k <= LINKS_EXACT_MAX ? cycle_exists(y, r, least) : cycle_surely(y, r, least);
}

bool links_ring_holds(const struct links_type *y, uint64_t mask, uint64_t least)
{
    struct ring r;

    ring_of(&r, mask);
    if (r.k < 2)
        return least == 0;
    if (r.k == 2)
        return pair(y, &r, 0, 1) >= least;
    return holds(y, &r, least);
}

static int descending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

uint64_t links_ring(const struct links_type *y, uint64_t mask)
{
    struct ring r;
    uint64_t bound = UINT64_MAX, weakest = UINT64_MAX;
    uint32_t values[SPUR_DEVICES_MAX * 2], n = 0;

    ring_of(&r, mask);
    if (r.k < 2)
        return 0;
    if (r.k == 2)
        return pair(y, &r, 0, 1);
    for (uint32_t i = 0; i < r.k; i++) {
        uint64_t first = 0, second = 0;

        for (uint32_t j = 0; j < r.k; j++) {
            uint64_t w = i == j ? 0 : pair(y, &r, i, j);

            if (i != j && w < weakest)
                weakest = w;
            if (w > first) {
                second = first;
                first = w;
            } else if (w > second) {
                second = w;
            }
        }
        if (second < bound)
            bound = second;
    }
    if (bound == weakest || r.k == 3)
        return r.k == 3 ? weakest : bound;
    /* The bandwidths that occur between the two, strongest first: few in any real machine. */
    for (uint32_t i = 0; i < r.k; i++)
        for (uint32_t j = 0; j < i; j++) {
            uint32_t w = (uint32_t)pair(y, &r, i, j), v = 0;

            while (v < n && values[v] != w)
                v++;
            if (v == n && w <= bound && w > weakest && n < sizeof values / sizeof *values)
                values[n++] = w;
        }
    qsort(values, n, sizeof *values, descending);
    if (n > 8) {            /* a matrix of many different numbers: halve */
        uint32_t lo = 0, hi = n;    /* values[hi..] hold; values[..lo) do not */

        while (lo < hi) {
            uint32_t half = (lo + hi) / 2;

            if (holds(y, &r, values[half]))
                hi = half;
            else
                lo = half + 1;
        }
        return hi < n ? values[hi] : weakest;
    }
    for (uint32_t v = 0; v < n; v++)
        if (holds(y, &r, values[v]))
            return values[v];
    return weakest;
}
