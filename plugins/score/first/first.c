/* SPDX-License-Identifier: Apache-2.0 */
/* first.c - score/first: the lowest free devices, whatever joins them. What schedulers without knowledge of links do; for comparison, and for sites
 * that want device numbers without gaps.
 *
 * Its numbers are true all the same, but for the ring: that is the one in the order of indices, as a job that does not look would build it.
 */
#include <stdlib.h>

#include <spur/score.h>

static uint64_t mbps(const struct spur_device_table *t, uint32_t i, uint32_t j) { return t->mbps[i * t->count + j]; }

static uint64_t sum_of(const struct spur_device_table *t, uint64_t mask)
{
    uint64_t sum = 0;

    for (; mask; mask &= mask - 1)
        for (uint64_t m = mask & (mask - 1); m; m &= m - 1)
            sum += mbps(t, (uint32_t)__builtin_ctzll(mask), (uint32_t)__builtin_ctzll(m));
    return sum;
}

static uint64_t lowest(const struct spur_device_table *t, uint64_t mask, uint32_t k)
{
    uint64_t out = 0;

    for (uint32_t i = 0; i < t->count && k > 0; i++)
        if (mask >> i & 1) {
            out |= UINT64_C(1) << i;
            k--;
        }
    return out;
}

static int first_rate(void *self, const struct spur_device_table *t, uint64_t mask, uint64_t free, struct spur_score *out)
{
    uint64_t all = t->count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << t->count) - 1, whole, least = UINT64_MAX, ring = UINT64_MAX;
    uint32_t k = (uint32_t)__builtin_popcountll(mask), first = 0, last = UINT32_MAX;

    (void)self;
    if (!mask || (mask & ~all))
        return SPUR_EINVAL;
    out->mask = mask;
    out->sum_mbps = sum_of(t, mask);
    out->left_mbps = sum_of(t, free & all & ~mask);
    out->numa_count = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        bool is_new = mask >> i & 1;

        for (uint32_t j = 0; j < i; j++) {
            if (!(mask >> i & 1) || !(mask >> j & 1))
                continue;
            if (mbps(t, i, j) < least)
                least = mbps(t, i, j);
            is_new = is_new && t->numa[i] != t->numa[j];
        }
        out->numa_count += is_new;
        if (!(mask >> i & 1))
            continue;
        if (last == UINT32_MAX)
            first = i;
        else if (mbps(t, last, i) < ring)
            ring = mbps(t, last, i);
        last = i;
    }
    if (k > 2 && mbps(t, last, first) < ring)
        ring = mbps(t, last, first);
    out->min_mbps = k > 1 ? least : 0;
    out->ring_mbps = k > 1 ? ring : 0;
    whole = sum_of(t, lowest(t, all, k));
    out->share = whole && out->sum_mbps < whole ? (double)out->sum_mbps / (double)whole : 1.0;
    return 0;
}

static int first_best(void *self, const struct spur_device_table *t, const struct spur_score_ask *ask, struct spur_score *out)
{
    uint64_t all = t->count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << t->count) - 1, free = ask->free & all;
    uint32_t fixed = (uint32_t)__builtin_popcountll(ask->must);

    if (ask->k < 1 || fixed > ask->k)
        return SPUR_EINVAL;
    if ((uint32_t)__builtin_popcountll(free) < ask->k || (ask->must & ~free))
        return SPUR_ELATER;
    return first_rate(self, t, ask->must | lowest(t, free & ~ask->must, ask->k - fixed), free, out);
}

static int first_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, 1)))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    return 0;
}

static const struct spur_option first_options[] = { { NULL, 0, NULL, NULL } };
static const struct spur_score_ops first_ops = { .size = sizeof first_ops, .best = first_best, .rate = first_rate };

SPUR_PLUGIN(score, first, .about = "the lowest free devices, whatever joins them", .options = first_options, .ops = &first_ops,
            .open = first_open, .close = free);
