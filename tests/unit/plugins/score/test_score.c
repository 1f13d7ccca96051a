/* SPDX-License-Identifier: Apache-2.0 */
/* test_score.c - score plugins against brute force: every recorded node type, every free mask and size, and matrices nobody tuned to. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

extern const struct spur_plugin spur_plugin_score_links, spur_plugin_score_first;

static const char *const types[] = { "rtx8000_bridge", "dgx1v", "dgx_a100", "hgx_h100", "hgx_h200", "gb200_nvl72_node", "l40s_pcie", "mi210_2hive", "mi250x_frontier",
                                     "mi300x", "mi300a", "dgx2_v100x16", "mi250_16gcd" };

static void *links;

static void setup(void)
{
    static const struct spur_host host = { .size = sizeof host };
    struct spur_error err;

    ck_assert_int_eq(spur_plugin_score_links.open(&host, NULL, &links, &err), 0);
}

static void teardown(void) { spur_plugin_score_links.close(links); }

static void node_load(const char *name, struct judge_node *y)
{
    char path[512];

    snprintf(path, sizeof path, "%s/topologies/%s.txt", TEST_DATA, name);
    ck_assert_msg(judge_read(path, y), "%s", path);
    snprintf(y->name, sizeof y->name, "%s", name);
}

static uint32_t ask(const struct judge_node *y, uint32_t free, uint32_t k, struct spur_score *out)
{
    const struct spur_score_ops *ops = spur_plugin_score_links.ops;
    struct spur_score_ask a = { .size = sizeof a, .k = k, .free = free };
    int rc;

    *out = (struct spur_score){ .size = sizeof *out };
    rc = ops->best(links, &y->table, &a, out);
    ck_assert_msg(rc == 0, "%s: free 0x%x, k %u: %d", y->name, free, k, rc);
    ck_assert_msg((out->mask & ~(uint64_t)free) == 0 && (uint32_t)__builtin_popcountll(out->mask) == k, "%s: free 0x%x, k %u: 0x%llx", y->name, free, k,
                  (unsigned long long)out->mask);
    return (uint32_t)out->mask;
}

/* One question: the sum is the best there is, and so is the whole order up to what is left. */
static void check_one(const struct judge_node *y, uint32_t free, uint32_t k)
{
    struct judge_value got, best;
    struct spur_score score;
    uint32_t set = ask(y, free, k, &score);

    judge_rate(y, set, free, &got);
    judge_best(y, free, k, &best);
    ck_assert_msg(got.sum == best.sum, "%s: free 0x%x, k %u: 0x%x has %llu MB/s, the best %llu", y->name, free, k, set, (unsigned long long)got.sum, (unsigned long long)best.sum);
    ck_assert_msg(judge_compare(&got, &best) == 0, "%s: free 0x%x, k %u: 0x%x has ring %llu min %llu numa %u left %llu, the best %llu %llu %u %llu", y->name, free, k, set,
                  (unsigned long long)got.ring, (unsigned long long)got.min, got.numa, (unsigned long long)got.left, (unsigned long long)best.ring,
                  (unsigned long long)best.min, best.numa, (unsigned long long)best.left);
    ck_assert_msg(score.sum_mbps == got.sum && score.ring_mbps == got.ring && score.min_mbps == got.min && score.numa_count == got.numa && score.left_mbps == got.left,
                  "%s: free 0x%x, k %u: 0x%x is told with wrong numbers", y->name, free, k, set);
}

static uint32_t check_all(const struct judge_node *y)
{
    uint32_t count = 0;

    for (uint32_t free = 1; free < (1u << y->n); free++)
        for (uint32_t k = 1; k <= (uint32_t)__builtin_popcount(free); k++, count++)
            check_one(y, free, k);
    return count;
}

static uint32_t check_sampled(const struct judge_node *y, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t free = 1 + judge_draw(&seed) % ((1u << y->n) - 1);

        check_one(y, free, 1 + judge_draw(&seed) % (uint32_t)__builtin_popcount(free));
    }
    return count;
}

START_TEST(recorded_types_are_strict)
{
    struct judge_node *y = calloc(1, sizeof *y);
    uint32_t count;

    node_load(types[_i], y);
    count = y->n <= 8 ? check_all(y) : check_sampled(y, 400, 11);
    printf("  %s: %u cases, all optimal and strict\n", types[_i], count);
    free(y);
}
END_TEST

START_TEST(random_matrices_are_strict)
{
    static const uint32_t sizes[] = { 4, 6, 8, 16 };
    struct judge_node *y = calloc(1, sizeof *y);
    uint64_t seed = 100 + (uint64_t)_i;
    uint32_t count = 0;

    for (uint32_t i = 0; i < (sizes[_i] == 16 ? 6 : 30); i++) {
        judge_random(y, sizes[_i], &seed);
        snprintf(y->name, sizeof y->name, "random matrix %u of %u", i, sizes[_i]);
        count += sizes[_i] < 16 ? check_all(y) : check_sampled(y, 20, seed);
    }
    printf("  random matrices of %u: %u cases, all optimal and strict\n", sizes[_i], count);
    free(y);
}
END_TEST

/* Links= of gres.conf instead of measured bandwidth: the sets are as good. */
START_TEST(links_rows_give_the_same)
{
    struct judge_node *measured = calloc(1, sizeof *measured), *told = calloc(1, sizeof *told);
    uint32_t count = 0;
    uint64_t seed = 5;

    node_load(types[_i], measured);
    *told = *measured;
    judge_by_links(told);
    for (uint32_t i = 0; i < (measured->n <= 8 ? (1u << measured->n) : 200); i++) {
        uint32_t free = measured->n <= 8 ? i : judge_draw(&seed) % ((1u << measured->n) - 1);

        for (uint32_t k = 1; k <= (uint32_t)__builtin_popcount(free); k += measured->n <= 8 ? 1 : 3, count++) {
            struct spur_score by_links, by_bandwidth;
            struct judge_value a, b;

            judge_rate(measured, ask(told, free, k, &by_links), free, &a);
            judge_rate(measured, ask(measured, free, k, &by_bandwidth), free, &b);
            ck_assert_msg(judge_compare(&a, &b) == 0, "%s: free 0x%x, k %u: 0x%llx by Links=, 0x%llx by bandwidth", types[_i], free, k, (unsigned long long)by_links.mask,
                          (unsigned long long)by_bandwidth.mask);
        }
    }
    printf("  %s: %u cases by Links= are as good\n", types[_i], count);
    free(measured);
    free(told);
}
END_TEST

/* 64 partitions of eight cards: whole cards, and at most one in part. */
START_TEST(partitions_stay_together)
{
    static uint32_t mbps[64 * 64];
    static uint8_t link_count[64 * 64];
    static uint64_t near[64];
    int16_t numa[64], none[64];
    uint16_t card[64];
    struct spur_device_table t = { .size = sizeof t, .id = 9, .count = 64, .mbps = mbps, .links = link_count, .numa = numa, .socket = numa, .pcie_switch = none, .card = card,
                                   .near_cores = near, .core_words = 1 };
    const struct spur_score_ops *ops = spur_plugin_score_links.ops;
    uint64_t seed = 3;

    for (uint32_t i = 0; i < 64; i++) {
        numa[i] = (int16_t)(i / 32);
        none[i] = -1;
        card[i] = (uint16_t)(i / 8);
        for (uint32_t j = 0; j < 64; j++)
            mbps[i * 64 + j] = i == j ? 0 : i / 8 == j / 8 ? 819200 : 64000;
    }
    for (uint32_t round = 0; round < 200; round++) {
        uint64_t free = ((uint64_t)judge_draw(&seed) << 32 | judge_draw(&seed) << 1) | judge_draw(&seed);
        uint32_t have = (uint32_t)__builtin_popcountll(free), k = 1 + judge_draw(&seed) % have, cards = 0, least = 0, left = k;
        struct spur_score_ask a = { .size = sizeof a, .k = k, .free = free };
        struct spur_score out = { .size = sizeof out };
        uint32_t sizes[8];

        ck_assert_int_eq(ops->best(links, &t, &a, &out), 0);
        ck_assert_uint_eq(__builtin_popcountll(out.mask), k);
        ck_assert_uint_eq(out.mask & ~free, 0);
        for (uint32_t c = 0; c < 8; c++) {
            sizes[c] = (uint32_t)__builtin_popcountll(free >> 8 * c & 255);
            cards += (out.mask >> 8 * c & 255) != 0;
        }
        while (left > 0) {      /* as few cards as can be: the fullest first */
            uint32_t best = 0;

            for (uint32_t c = 1; c < 8; c++)
                if (sizes[c] > sizes[best])
                    best = c;
            left -= sizes[best] < left ? sizes[best] : left;
            sizes[best] = 0;
            least++;
        }
        ck_assert_msg(cards == least, "%u of %u on %u cards, %u would do", k, have, cards, least);
    }
}
END_TEST

START_TEST(must_is_kept)
{
    const struct spur_score_ops *ops = spur_plugin_score_links.ops;
    struct judge_node *y = calloc(1, sizeof *y);
    struct spur_score out = { .size = sizeof out };
    struct spur_score_ask a = { .size = sizeof a, .k = 2, .free = 0xff, .must = 0x20 };

    node_load("mi250x_frontier", y);
    ck_assert_int_eq(ops->best(links, &y->table, &a, &out), 0);
    ck_assert_uint_eq(out.mask, 0x30);      /* GCD 4 shares the card */
    ck_assert(out.share == 1.0);
    a.free = 0xef;
    ck_assert_int_eq(ops->best(links, &y->table, &a, &out), 0);
    ck_assert_uint_eq(out.mask, 0x22);      /* one link to GCD 1 or to 7: what is left decides, as for all */
    ck_assert(out.share == 0.25);
    free(y);
}
END_TEST

START_TEST(a_single_gpu_leaves_whole_pairs)
{
    struct judge_node *y = calloc(1, sizeof *y);
    struct spur_score out;

    node_load("mi250x_frontier", y);
    ck_assert_uint_eq(ask(y, 0xfe, 1, &out), 0x02);     /* its partner has gone */
    ck_assert_uint_eq(ask(y, 0xdf, 1, &out), 0x10);
    free(y);
}
END_TEST

START_TEST(first_takes_the_lowest)
{
    static const struct spur_host host = { .size = sizeof host };
    const struct spur_score_ops *ops = spur_plugin_score_first.ops;
    struct judge_node *y = calloc(1, sizeof *y);
    struct spur_score out = { .size = sizeof out };
    struct spur_score_ask a = { .size = sizeof a, .k = 2, .free = 0xfe };
    struct spur_error err;
    void *self;

    node_load("mi250x_frontier", y);
    ck_assert_int_eq(spur_plugin_score_first.open(&host, NULL, &self, &err), 0);
    ck_assert_int_eq(ops->best(self, &y->table, &a, &out), 0);
    ck_assert_uint_eq(out.mask, 0x06);
    ck_assert_uint_eq(out.sum_mbps, 0);
    spur_plugin_score_first.close(self);
    free(y);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("score");
    TCase *t = tcase_create("links");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, recorded_types_are_strict, 0, (int)(sizeof types / sizeof *types));
    tcase_add_loop_test(t, random_matrices_are_strict, 0, 4);
    tcase_add_loop_test(t, links_rows_give_the_same, 0, (int)(sizeof types / sizeof *types));
    tcase_add_test(t, partitions_stay_together);
    tcase_add_test(t, must_is_kept);
    tcase_add_test(t, a_single_gpu_leaves_whole_pairs);
    tcase_add_test(t, first_takes_the_lowest);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
