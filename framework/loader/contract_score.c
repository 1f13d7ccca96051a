/* SPDX-License-Identifier: Apache-2.0 */
/* contract_score.c - promises of a score plugin: a set of the size asked, out of what is free, the same each time, with true numbers.
 *
 * Which set is best is the plugin's own affair, and tested beside it. Tables are made here, small and random; elements are longer than the plugin
 * knows them.
 */
#include <stdlib.h>
#include <string.h>
#include <spur/score.h>

#include "loader/contract.h"

struct wide_nic { struct spur_nic nic; char more[16]; };
struct bench {
    struct spur_device_table table;
    uint32_t mbps[SPUR_DEVICES_MAX * SPUR_DEVICES_MAX];
    uint8_t  links[SPUR_DEVICES_MAX * SPUR_DEVICES_MAX];
    int16_t  numa[SPUR_DEVICES_MAX], socket[SPUR_DEVICES_MAX], pcie_switch[SPUR_DEVICES_MAX];
    uint16_t card[SPUR_DEVICES_MAX];
    uint64_t near[SPUR_DEVICES_MAX];
    struct wide_nic nics[3];
};
struct wide_score { struct spur_score score; unsigned char more[32]; };

static uint64_t mask_of(uint32_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

static void bench_make(struct bench *b, uint32_t n, uint32_t kind, uint64_t *seed)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            uint32_t links = kind == 0 ? 0 : kind == 1 ? 8 : contract_random(seed) % 5;

            b->links[i * n + j] = b->links[j * n + i] = (uint8_t)links;
            b->mbps[i * n + j] = b->mbps[j * n + i] = links * 25000;
        }
        b->numa[i] = (int16_t)(kind == 0 ? -1 : (int)(i * 2 / n));
        b->socket[i] = b->numa[i];
        b->pcie_switch[i] = (int16_t)(kind == 0 ? -1 : (int)(i / 2));
        b->card[i] = (uint16_t)(n > 16 ? i / 8 : i);
        b->near[i] = UINT64_C(3) << (2 * i % 62);
    }
    for (uint32_t i = 0; i < 3; i++)
        b->nics[i].nic = (struct spur_nic){ .pcie_switch = (int16_t)i, .numa = 0, .mbps = 200000, .name = "nic" };
    b->table = (struct spur_device_table){ .size = sizeof b->table, .id = 1, .count = n, .mbps = b->mbps, .links = b->links, .numa = b->numa, .socket = b->socket,
                                           .pcie_switch = b->pcie_switch, .card = b->card, .near_cores = b->near, .core_words = 1, .nics = &b->nics[0].nic,
                                           .nic_count = kind == 0 ? 0 : 3, .nic_size = sizeof *b->nics };
}

static uint64_t sum_of(const struct bench *b, uint64_t mask)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < b->table.count; i++)
        for (uint32_t j = 0; j < i; j++)
            if ((mask >> i & 1) && (mask >> j & 1))
                sum += b->mbps[i * b->table.count + j];
    return sum;
}

static int ask_one(struct loaded *l, const struct bench *b, uint64_t free, uint64_t must, uint32_t k, struct wide_score *out, struct spur_error *err)
{
    struct { struct spur_score_ask ask; char more[16]; } ask = { { sizeof ask, k, free, must }, "" };
    const struct spur_score_ops *ops = loader_ops(l);
    int rc;

    memset(out, 0xa5, sizeof *out);
    out->score.size = sizeof *out;
    rc = ops->best(l->self, &b->table, &ask.ask, &out->score);
    CONTRACT_EXPECT(out->score.size == sizeof *out && out->more[0] == 0xa5 && out->more[31] == 0xa5, "best writes past the score it knows, or into its size");
    return rc;
}

static int sets_are_right(struct contract *c, struct spur_error *err)
{
    static const uint32_t counts[] = { 1, 2, 3, 4, 6, 8, 12, 16, 33, 64 };
    struct bench *b = contract_alloc(c, sizeof *b), *before = contract_alloc(c, sizeof *b);
    struct wide_score first, again;
    struct loaded *l, *other;
    uint64_t seed = 7;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0 || (rc = contract_open(c, &other, err)) < 0)
        return rc;
    for (uint32_t round = 0; round < 240; round++) {
        uint32_t n = counts[round % 10], k = 1 + contract_random(&seed) % n, have;
        uint64_t free = ((uint64_t)contract_random(&seed) << 32 | contract_random(&seed)) & mask_of(n), must;

        if (round % 4 == 0)
            free = mask_of(n);
        must = round % 3 ? 0 : free & ((uint64_t)contract_random(&seed) << 32 | contract_random(&seed)) & ((uint64_t)contract_random(&seed) << 32 | contract_random(&seed));
        have = (uint32_t)__builtin_popcountll(free);
        if ((uint32_t)__builtin_popcountll(must) > k)
            must = 0;
        bench_make(b, n, round % 5, &seed);         /* all tables have the id 1: what it says counts, not its number */
        *before = *b;
        before->table = b->table;
        rc = ask_one(l, b, free, must, k, &first, err);
        CONTRACT_EXPECT(memcmp(before, b, sizeof *b) == 0, "best changes the table");
        if (have < k) {
            CONTRACT_EXPECT(rc == SPUR_ELATER, "%u of %u free devices are asked: best returns %d, SPUR_ELATER is wanted", k, have, rc);
            continue;
        }
        CONTRACT_EXPECT(rc == 0, "%u of %u free devices of %u are asked: best returns %d", k, have, n, rc);
        CONTRACT_EXPECT((first.score.mask & ~free) == 0, "devices 0x%llx are given, free are 0x%llx", (unsigned long long)first.score.mask, (unsigned long long)free);
        CONTRACT_EXPECT((uint32_t)__builtin_popcountll(first.score.mask) == k, "%u devices are asked, 0x%llx are given", k, (unsigned long long)first.score.mask);
        CONTRACT_EXPECT((must & ~first.score.mask) == 0, "0x%llx must be in, 0x%llx are given", (unsigned long long)must, (unsigned long long)first.score.mask);
        CONTRACT_EXPECT(first.score.sum_mbps == sum_of(b, first.score.mask), "the sum of 0x%llx is %llu MB/s, %llu are said", (unsigned long long)first.score.mask,
                        (unsigned long long)sum_of(b, first.score.mask), (unsigned long long)first.score.sum_mbps);
        CONTRACT_EXPECT(first.score.left_mbps == sum_of(b, free & ~first.score.mask), "what is left beside 0x%llx of 0x%llx is said to be %llu MB/s",
                        (unsigned long long)first.score.mask, (unsigned long long)free, (unsigned long long)first.score.left_mbps);
        CONTRACT_EXPECT(first.score.share >= 0 && first.score.share <= 1.000001, "the share is %f", first.score.share);
        if ((rc = ask_one(round % 2 ? other : l, b, free, must, k, &again, err)) < 0)
            return rc;
        CONTRACT_EXPECT(again.score.mask == first.score.mask, "the same question is answered by 0x%llx and then by 0x%llx", (unsigned long long)first.score.mask,
                        (unsigned long long)again.score.mask);
    }
    loader_close(l);
    loader_close(other);
    return 0;
}

static int refusals(struct contract *c, struct spur_error *err)
{
    struct bench *b = contract_alloc(c, sizeof *b);
    struct wide_score out;
    struct loaded *l;
    uint64_t seed = 3;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    bench_make(b, 8, 2, &seed);
    CONTRACT_EXPECT(ask_one(l, b, 0xff, 0, 9, &out, err) == SPUR_ELATER, "9 of 8 devices: SPUR_ELATER is wanted");
    CONTRACT_EXPECT(ask_one(l, b, 0, 0, 1, &out, err) == SPUR_ELATER, "none is free: SPUR_ELATER is wanted");
    CONTRACT_EXPECT(ask_one(l, b, 0x0f, 0x10, 2, &out, err) == SPUR_ELATER, "a device that must be in is not free: SPUR_ELATER is wanted");
    CONTRACT_EXPECT(ask_one(l, b, ~UINT64_C(0) << 8, 0, 1, &out, err) == SPUR_ELATER, "free are only devices that the table has not: SPUR_ELATER is wanted");
    CONTRACT_EXPECT(ask_one(l, b, 0xff, 0xff, 8, &out, err) == 0 && out.score.mask == 0xff, "all of 8 must be in: they are the answer");
    loader_close(l);
    return 0;
}

static int rates_agree(struct contract *c, struct spur_error *err)
{
    struct bench *b = contract_alloc(c, sizeof *b);
    struct wide_score best, rated;
    const struct spur_score_ops *ops;
    struct loaded *l;
    uint64_t seed = 5;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, rate))
        return CONTRACT_SKIP;
    for (uint32_t round = 0; round < 40; round++) {
        uint64_t free = 1 + contract_random(&seed) % 255;

        bench_make(b, 8, round % 5, &seed);
        if ((rc = ask_one(l, b, free, 0, 1 + contract_random(&seed) % (uint32_t)__builtin_popcountll(free), &best, err)) < 0)
            return spur_fail(err, rc, "best returns %d", rc);
        memset(&rated, 0xa5, sizeof rated);
        rated.score.size = sizeof rated;
        rc = ops->rate(l->self, &b->table, best.score.mask, free, &rated.score);
        CONTRACT_EXPECT(rc == 0, "rate of 0x%llx returns %d", (unsigned long long)best.score.mask, rc);
        CONTRACT_EXPECT(rated.more[0] == 0xa5, "rate writes past the score it knows");
        CONTRACT_EXPECT(rated.score.mask == best.score.mask && rated.score.sum_mbps == best.score.sum_mbps && rated.score.ring_mbps == best.score.ring_mbps &&
                        rated.score.min_mbps == best.score.min_mbps && rated.score.numa_count == best.score.numa_count && rated.score.left_mbps == best.score.left_mbps,
                        "best and rate disagree on the set 0x%llx of 0x%llx", (unsigned long long)best.score.mask, (unsigned long long)free);
    }
    loader_close(l);
    return 0;
}

const struct contract_case contract_score[] = {
    { "sets are free, full and the same each time", sets_are_right },
    { "refusals", refusals },
    { "best and rate agree", rates_agree },
    { 0 } };
