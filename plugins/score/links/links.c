/* SPDX-License-Identifier: Apache-2.0 */
/* links.c - score/links: which free devices of a node are joined best, exactly.
 *
 * Node types are told apart by what their tables say, not by their numbers, which may mean another table in the next view; all nodes of equal
 * hardware share one type (type.h). At most 64 types are kept, the one not asked for the longest goes first.
 */
#include <stdlib.h>

#include "type.h"

#define TYPES_MAX 64u

struct links { struct links_type *types; uint32_t count; };

static struct links_type *type_of(struct links *l, const struct spur_device_table *t)
{
    struct links_type **at = &l->types, *y;

    while (*at && !links_type_is(*at, t))
        at = &(*at)->next;
    if ((y = *at)) {
        *at = y->next;
    } else {
        if (!(y = links_type_create(t)))
            return NULL;
        if (++l->count > TYPES_MAX) {
            struct links_type **last = &l->types;

            while ((*last)->next)
                last = &(*last)->next;
            links_type_destroy(*last);
            *last = NULL;
            l->count--;
        }
    }
    y->next = l->types;
    l->types = y;
    return y;
}

static void fill(struct links_type *y, const struct links_answer *a, struct spur_score *out)
{
    struct links_answer best;
    uint64_t all = y->count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << y->count) - 1;
    uint32_t k = (uint32_t)__builtin_popcountll(a->mask);

    out->mask = a->mask;
    out->sum_mbps = a->sum;
    out->ring_mbps = a->ring;
    out->min_mbps = a->min;
    out->numa_count = a->numa;
    out->left_mbps = a->left;
    out->share = 1.0;
    if (k < 2)
        return;
    links_best(y, all, 0, k, &best);
    if (best.sum > a->sum)      /* more than 16 devices that are no partitions of cards: the empty node's set may be the worse guess */
        out->share = (double)a->sum / (double)best.sum;
}

static int links_best_op(void *self, const struct spur_device_table *table, const struct spur_score_ask *ask, struct spur_score *out)
{
    uint64_t all = table->count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << table->count) - 1, free = ask->free & all;
    struct links_answer a;
    struct links_type *y;

    if (ask->k < 1 || (uint32_t)__builtin_popcountll(ask->must) > ask->k)
        return SPUR_EINVAL;
    if ((uint32_t)__builtin_popcountll(free) < ask->k || (ask->must & ~free))
        return SPUR_ELATER;
    if (!(y = type_of(self, table)))
        return SPUR_ENOMEM;
    links_best(y, free, ask->must, ask->k, &a);
    fill(y, &a, out);
    return 0;
}

static int links_rate_op(void *self, const struct spur_device_table *table, uint64_t mask, uint64_t free, struct spur_score *out)
{
    uint64_t all = table->count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << table->count) - 1;
    struct links_answer a;
    struct links_type *y;

    if (!mask || (mask & ~all))
        return SPUR_EINVAL;
    if (!(y = type_of(self, table)))
        return SPUR_ENOMEM;
    links_rate(y, mask, free & all, &a);
    fill(y, &a, out);
    return 0;
}

static int links_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, sizeof(struct links))))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    return 0;
}

static void links_close(void *self)
{
    struct links *l = self;

    while (l && l->types) {
        struct links_type *next = l->types->next;

        links_type_destroy(l->types);
        l->types = next;
    }
    free(l);
}

static const struct spur_option links_options[] = { { NULL, 0, NULL, NULL } };
static const struct spur_score_ops links_ops = { .size = sizeof links_ops, .best = links_best_op, .rate = links_rate_op };

SPUR_PLUGIN(score, links, .about = "the free devices that are joined best: links, rings, NUMA nodes, NICs", .options = links_options, .ops = &links_ops,
            .open = links_open, .close = links_close);
