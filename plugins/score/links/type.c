/* SPDX-License-Identifier: Apache-2.0 */
/* type.c - the exact best set of k of the free devices of one node type.
 *
 * Order: sum of pair bandwidth, best ring, worst pair, fewest NUMA nodes, what is kept among those that stay free, NIC bandwidth behind the
 * same PCIe switches, on uniform nodes the socket with the fewest free ones, lowest mask. All sets of the best sum are kept and sifted by one number
 * after the other, so the dear ones (ring) are computed only where they decide.
 *
 * Up to 16 devices every set is looked at: 256 x 9 answers for a node of eight, filled as they are asked for (the whole table takes some
 * 100 us); for 16 the newest 2,048 answers are kept (a full node, k = 8: 12,870 sets, under 1 ms). More than 16 are partitions of cards (64 of eight in
 * CPX): pairs within a card are the strongest, so the sum is largest with at most one card taken in part, and only those sets are looked at.
 */
#include <stdlib.h>

#include "type.h"

static uint64_t all_of(uint32_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }
static uint32_t bits_of(uint64_t mask) { return (uint32_t)__builtin_popcountll(mask); }

static const struct spur_nic *nic_at(const struct spur_device_table *t, uint32_t i)
{
    return (const struct spur_nic *)(const void *)((const char *)t->nics + (size_t)i * t->nic_size);
}

static bool nic_same(const struct spur_nic *a, const struct spur_nic *b)
{
    return a->pcie_switch == b->pcie_switch && a->numa == b->numa && a->mbps == b->mbps;
}

bool links_type_is(const struct links_type *y, const struct spur_device_table *t)
{
    uint32_t n = t->count;

    if (y->count != n || memcmp(y->mbps, t->mbps, (size_t)n * n * sizeof *y->mbps) != 0 || memcmp(y->numa, t->numa, n * sizeof *y->numa) != 0 ||
        memcmp(y->socket, t->socket, n * sizeof *y->socket) != 0 || memcmp(y->pcie_switch, t->pcie_switch, n * sizeof *y->pcie_switch) != 0 ||
        memcmp(y->card, t->card, n * sizeof *y->card) != 0 || y->nics_given != t->nic_count)
        return false;
    for (uint32_t i = 0; i < t->nic_count; i++)
        if (!nic_same(&y->nics[i], nic_at(t, i)))
            return false;
    return true;
}

void links_type_destroy(struct links_type *y)
{
    if (!y)
        return;
    free(y->mbps);
    free(y->numa);
    free(y->card);
    free(y->nics);
    free(y->sums);
    free(y->full);
    free(y->slots);
    free(y->ties);
    free(y);
}

static void type_cards(struct links_type *y)
{
    for (uint32_t i = 0; i < y->count; i++) {
        uint32_t c = 0;

        while (c < y->cards.count && y->cards.of[c] != y->card[i])
            c++;
        if (c == y->cards.count) {
            y->cards.of[c] = y->card[i];
            y->cards.count++;
        }
        y->cards.members[c] |= UINT64_C(1) << i;
    }
}

static void type_sums(struct links_type *y)
{
    uint32_t n = y->count;

    for (uint32_t mask = 1; mask < (1u << n); mask++) {
        uint32_t low = (uint32_t)__builtin_ctz(mask), rest = mask & (mask - 1);
        uint64_t sum = y->sums[rest];

        for (uint32_t m = rest; m; m &= m - 1)
            sum += y->mbps[low * n + (uint32_t)__builtin_ctz(m)];
        y->sums[mask] = sum;
    }
}

struct links_type *links_type_create(const struct spur_device_table *t)
{
    uint32_t n = t->count;
    struct links_type *y;

    if (n < 1 || n > SPUR_DEVICES_MAX || !(y = calloc(1, sizeof *y)))
        return NULL;
    y->count = n;
    y->mbps = malloc((size_t)n * n * sizeof *y->mbps);
    y->numa = malloc(3 * n * sizeof *y->numa);
    y->card = malloc(n * sizeof *y->card);
    y->nics = calloc(t->nic_count ? t->nic_count : 1, sizeof *y->nics);
    if (n <= LINKS_EXACT_MAX) {
        y->sums = calloc((size_t)1 << n, sizeof *y->sums);
        y->ties = malloc((n <= LINKS_FULL_MAX ? 70 : LINKS_TIES_MAX) * sizeof *y->ties);
    }
    if (n <= LINKS_FULL_MAX)
        y->full = calloc(((size_t)1 << n) * (n + 1), sizeof *y->full);
    else
        y->slots = calloc(LINKS_SLOTS, sizeof *y->slots);
    if (!y->mbps || !y->numa || !y->card || !y->nics || (n <= LINKS_EXACT_MAX && (!y->sums || !y->ties)) || (!y->full && !y->slots)) {
        links_type_destroy(y);
        return NULL;
    }
    y->socket = y->numa + n;
    y->pcie_switch = y->socket + n;
    memcpy(y->mbps, t->mbps, (size_t)n * n * sizeof *y->mbps);
    memcpy(y->numa, t->numa, n * sizeof *y->numa);
    memcpy(y->socket, t->socket, n * sizeof *y->socket);
    memcpy(y->pcie_switch, t->pcie_switch, n * sizeof *y->pcie_switch);
    memcpy(y->card, t->card, n * sizeof *y->card);
    y->nics_given = t->nic_count;
    for (uint32_t i = 0; i < t->nic_count; i++) {
        memcpy(&y->nics[i], nic_at(t, i), t->nic_size < sizeof *y->nics ? t->nic_size : sizeof *y->nics);
        if (y->nics[i].pcie_switch < 0 || y->nic_count == LINKS_NICS_MAX)
            continue;
        for (uint32_t d = 0; d < n; d++)
            if (y->pcie_switch[d] == y->nics[i].pcie_switch)
                y->nic_behind[d] |= UINT64_C(1) << y->nic_count;
        y->nic_mbps[y->nic_count++] = y->nics[i].mbps;
    }
    y->is_uniform = n > 1;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            if (i != j && (!y->mbps[i * n + j] || y->mbps[i * n + j] != y->mbps[1]))
                y->is_uniform = false;
    type_cards(y);
    if (y->sums)
        type_sums(y);
    return y;
}

/* ---- the numbers of one set ---- */

static uint64_t sum_of(const struct links_type *y, uint64_t mask)
{
    uint64_t sum = 0;

    if (y->sums)
        return y->sums[mask];
    for (; mask; mask &= mask - 1) {
        const uint32_t *row = y->mbps + (uint32_t)__builtin_ctzll(mask) * y->count;

        for (uint64_t m = mask & (mask - 1); m; m &= m - 1)
            sum += row[__builtin_ctzll(m)];
    }
    return sum;
}

static uint64_t min_of(const struct links_type *y, uint64_t mask)
{
    uint64_t least = UINT64_MAX;

    if (bits_of(mask) < 2)
        return 0;
    for (; mask; mask &= mask - 1)
        for (uint64_t m = mask & (mask - 1); m; m &= m - 1) {
            uint64_t w = y->mbps[(uint32_t)__builtin_ctzll(mask) * y->count + (uint32_t)__builtin_ctzll(m)];

            if (w < least)
                least = w;
        }
    return least;
}

static uint32_t numa_of(const struct links_type *y, uint64_t mask)
{
    int16_t seen[SPUR_DEVICES_MAX];
    uint32_t n = 0;

    for (; mask; mask &= mask - 1) {
        int16_t numa = y->numa[__builtin_ctzll(mask)];
        uint32_t i = 0;

        while (i < n && seen[i] != numa)
            i++;
        if (i == n)
            seen[n++] = numa;
    }
    return n;
}

static uint64_t nic_of(const struct links_type *y, uint64_t mask)
{
    uint64_t nics = 0, sum = 0;

    for (; mask; mask &= mask - 1)
        nics |= y->nic_behind[__builtin_ctzll(mask)];
    for (; nics; nics &= nics - 1)
        sum += y->nic_mbps[__builtin_ctzll(nics)];
    return sum;
}

/* Free devices in the sockets that the set touches: on a uniform node the fewest are best, so that a whole socket stays for the next. */
static uint64_t crowd_of(const struct links_type *y, uint64_t mask, uint64_t free)
{
    uint64_t count = 0;

    for (uint64_t rest = free; y->is_uniform && rest; rest &= rest - 1) {
        int16_t socket = y->socket[__builtin_ctzll(rest)];

        for (uint64_t m = mask; m; m &= m - 1)
            if (y->socket[__builtin_ctzll(m)] == socket) {
                count++;
                break;
            }
    }
    return count;
}

void links_rate(const struct links_type *y, uint64_t mask, uint64_t free, struct links_answer *out)
{
    *out = (struct links_answer){ .mask = mask, .sum = sum_of(y, mask), .left = sum_of(y, free & ~mask), .ring = links_ring(y, mask), .min = min_of(y, mask),
                                  .numa = numa_of(y, mask), .is_known = true };
}

/* ---- the best set ---- */

/* Keeps the candidates for which `worth` is largest; larger is better. */
#define SIFT(worth) \
    do { \
        uint64_t best_ = 0; \
        uint32_t kept_ = 0; \
        for (uint32_t i_ = 0; i_ < count && count > 1; i_++) { \
            uint64_t mask = sets[i_], value_ = (worth); \
            if (value_ > best_ || kept_ == 0) { best_ = value_; kept_ = 0; } \
            if (value_ == best_) sets[kept_++] = sets[i_]; \
        } \
        if (count > 1) count = kept_; \
    } while (0)

static uint32_t sift_rings(const struct links_type *y, uint32_t *sets, uint32_t count)
{
    uint64_t best = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t ring;

        if (kept && best && !links_ring_holds(y, sets[i], best))    /* one table instead of one for each bandwidth */
            continue;
        ring = links_ring(y, sets[i]);
        if (ring > best || !kept) {
            best = ring;
            kept = 0;
        }
        if (ring == best)
            sets[kept++] = sets[i];
    }
    return kept;
}

static uint64_t sift(const struct links_type *y, uint32_t *sets, uint32_t count, uint64_t free)
{
    if (count > 1 && !y->is_uniform && bits_of(sets[0]) > 2)
        count = sift_rings(y, sets, count);
    if (!y->is_uniform)
        SIFT(min_of(y, mask));
    SIFT(UINT64_MAX - numa_of(y, mask));
    if (!y->is_uniform)
        SIFT(sum_of(y, free & ~mask));
    SIFT(nic_of(y, mask));
    SIFT(UINT64_MAX - crowd_of(y, mask, free));
    SIFT(UINT64_MAX - mask);
    return sets[0];
}

static uint64_t best_exact(struct links_type *y, uint64_t free, uint64_t must, uint32_t k)
{
    uint64_t choice = free & ~must, best = 0;
    uint32_t n = bits_of(choice), want = k - bits_of(must), count = 0, at[LINKS_EXACT_MAX + 1], place[LINKS_EXACT_MAX];

    if (want == 0)
        return must;
    for (uint32_t i = 0; choice; choice &= choice - 1)
        place[i++] = 1u << __builtin_ctzll(choice);
    for (uint32_t i = 0; i < want; i++)
        at[i] = i;
    for (;;) {
        uint32_t set = (uint32_t)must, i = want;

        for (uint32_t p = 0; p < want; p++)
            set |= place[at[p]];
        if (y->sums[set] > best || count == 0) {
            best = y->sums[set];
            count = 0;
        }
        if (y->sums[set] == best)
            y->ties[count++] = set;
        while (i > 0 && at[i - 1] == n - want + i - 1)
            i--;
        if (i == 0)
            break;
        at[i - 1]++;
        for (; i < want; i++)
            at[i] = at[i - 1] + 1;
    }
    return sift(y, y->ties, count, free);
}

/* Is the order of objectives better for a than for b? For sets of more than 16 devices, which are few. */
static bool is_better(const struct links_type *y, uint64_t a, uint64_t b, uint64_t free)
{
    struct links_answer x, z;
    uint64_t p, q;

    links_rate(y, a, free, &x);
    links_rate(y, b, free, &z);
    if (x.sum != z.sum)
        return x.sum > z.sum;
    if (x.ring != z.ring)
        return x.ring > z.ring;
    if (x.min != z.min)
        return x.min > z.min;
    if (x.numa != z.numa)
        return x.numa < z.numa;
    if (x.left != z.left)
        return x.left > z.left;
    if ((p = nic_of(y, a)) != (q = nic_of(y, b)))
        return p > q;
    if ((p = crowd_of(y, a, free)) != (q = crowd_of(y, b, free)))
        return p < q;
    return a < b;
}

static uint64_t lowest(uint64_t mask, uint32_t count)
{
    uint64_t out = 0;

    for (; count > 0 && mask; count--, mask &= mask - 1)
        out |= mask & -mask;
    return out;
}

/* Devices behind cards: sets of cards that hold k with none to spare, the spare partitions left on one of them. */
static uint64_t best_cards(const struct links_type *y, uint64_t free, uint64_t must, uint32_t k)
{
    uint64_t best = 0;
    uint32_t cards = y->cards.count;

    if (cards > LINKS_EXACT_MAX || cards == y->count)
        return 0;
    for (uint32_t set = 1; set < (1u << cards); set++) {
        uint32_t have = 0, least = UINT32_MAX;

        for (uint32_t c = 0; c < cards; c++)
            if (set >> c & 1) {
                uint32_t n = bits_of(free & y->cards.members[c]);

                have += n;
                least = n < least ? n : least;
            }
        if (have < k || least == 0 || have - k >= least)
            continue;
        for (uint32_t part = 0; part < cards; part++) {
            uint64_t mask = 0;

            if (!(set >> part & 1) || bits_of(free & y->cards.members[part]) < have - k)
                continue;
            for (uint32_t c = 0; c < cards; c++) {
                uint64_t here = free & y->cards.members[c];

                if (!(set >> c & 1))
                    continue;
                if (c == part) {
                    uint64_t fixed = here & must;
                    uint32_t keep = bits_of(here) - (have - k);

                    here = keep >= bits_of(fixed) ? fixed | lowest(here & ~fixed, keep - bits_of(fixed)) : 0;
                }
                mask |= here;
            }
            if ((mask & must) == must && bits_of(mask) == k && (!best || is_better(y, mask, best, free)))
                best = mask;
            if (have == k)
                break;
        }
    }
    return best;
}

/* More than 16 devices that are no partitions, or a `must` that no set of cards has: what adds most, one by one, then exchanges while they gain. */
static uint64_t best_greedy(const struct links_type *y, uint64_t free, uint64_t must, uint32_t k)
{
    uint64_t mask = must;

    while (bits_of(mask) < k) {
        uint64_t best = 0;

        for (uint64_t m = free & ~mask; m; m &= m - 1) {
            uint64_t bit = m & -m;

            if (!best || sum_of(y, mask | bit) > sum_of(y, mask | best))
                best = bit;
        }
        mask |= best;
    }
    for (uint32_t round = 0; round < 2 * k; round++) {
        uint64_t best = mask;

        for (uint64_t out = mask & ~must; out; out &= out - 1)
            for (uint64_t in = free & ~mask; in; in &= in - 1) {
                uint64_t other = (mask & ~(out & -out)) | (in & -in);

                if (sum_of(y, other) > sum_of(y, best))
                    best = other;
            }
        if (best == mask)
            break;
        mask = best;
    }
    return mask;
}

void links_best(struct links_type *y, uint64_t free, uint64_t must, uint32_t k, struct links_answer *out)
{
    struct links_answer *known = NULL;
    uint64_t mask;

    free &= all_of(y->count);
    if (!must && y->full) {
        known = &y->full[free * (y->count + 1) + k];
    } else if (!must) {
        uint64_t hash = (free * UINT64_C(0x9e3779b97f4a7c15) + k) * UINT64_C(0xbf58476d1ce4e5b9);
        struct links_slot *slot = &y->slots[hash >> 32 & (LINKS_SLOTS - 1)];

        if (slot->free != free || slot->k != k)
            *slot = (struct links_slot){ .free = free, .k = k };
        known = &slot->answer;
    }
    if (known && known->is_known) {
        *out = *known;
        return;
    }
    if (y->sums)
        mask = best_exact(y, free, must, k);
    else if (!(mask = best_cards(y, free, must, k)))
        mask = best_greedy(y, free, must, k);
    links_rate(y, mask, free, out);
    if (known)
        *known = *out;
}
