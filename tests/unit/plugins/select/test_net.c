/* SPDX-License-Identifier: Apache-2.0 */
/* test_net.c - select/topo in a network: whole nodes against brute force, GPUs by their links, rails, bound cores. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spur/score.h>

#include "fabric_judge.h"

extern const struct spur_plugin spur_plugin_select_topo, spur_plugin_score_links;

static void *topo, *links;

static bool score_links(void *ctx, const struct spur_score_ops **ops, void **self)
{
    (void)ctx;
    *ops = spur_plugin_score_links.ops;
    *self = links;
    return true;
}

static const struct spur_host host = { .size = sizeof host, .score = score_links };
static const struct spur_select_ops *ops;

static void setup(void)
{
    struct spur_error err;

    ops = spur_plugin_select_topo.ops;
    ck_assert_int_eq(spur_plugin_score_links.open(&host, NULL, &links, &err), 0);
    ck_assert_int_eq(spur_plugin_select_topo.open(&host, NULL, &topo, &err), 0);
}

static void teardown(void)
{
    spur_plugin_select_topo.close(topo);
    spur_plugin_score_links.close(links);
}

START_TEST(whole_nodes_are_exact)
{
    static const uint32_t segments[] = { 1, 1, 2, 4 };
    uint64_t seed = 40 + (uint64_t)_i;
    uint32_t fit = 0, levels[4] = { 0 };

    for (uint32_t round = 0; round < 1000; round++) {
        uint32_t segment = segments[_i], need;
        struct fabric_answer best, got;
        struct fabric_state s;

        fabric_random(&s, &seed);
        need = segment * (1 + fabric_draw(&seed) % (64 / segment));
        fabric_best(&s, need, segment, &best);
        ck_assert_msg(fabric_ask(ops, topo, &s, need, segment, &got), "seed %d round %u: what is given is not there, or not in segments", 40 + _i, round);
        ck_assert_msg(got.level == best.level && got.leaves == best.leaves && got.pods == best.pods && (got.level == 3 || got.waste == best.waste),
                      "seed %d round %u: %u nodes in segments of %u: level %u, %u leaves, %u pods, %u left over; best is level %u, %u leaves, %u pods, %u left over",
                      40 + _i, round, need, segment, got.level, got.leaves, got.pods, got.waste, best.level, best.leaves, best.pods, best.waste);
        fit += got.level < 3;
        levels[got.level]++;
    }
    printf("  segments of %u: %u of 1000 states fit (%u in a leaf, %u in a pod, %u across), all exact\n", segments[_i], fit, levels[0], levels[1], levels[2]);
}
END_TEST

/* ---- nodes of eight GPUs in pairs, two sockets of 16 cores ---- */

#define NODES 8
struct cluster {
    struct spur_view view;
    struct spur_node_view nodes[NODES];
    struct spur_gres_view gres[NODES];
    uint64_t cores[NODES];
    struct spur_device_table table;
    uint32_t mbps[64];
    uint8_t  count[64];
    int16_t  numa[8];
    uint16_t card[8];
    uint64_t near[8], allowed[1];
    struct spur_node_pick picks[NODES];
    uint64_t picked[NODES];
    struct spur_placement out;
    struct spur_gres_ask gpu;
    struct spur_ask ask;
};

static void cluster_make(struct cluster *c)
{
    static const char *const paths[] = { "core/left/l1", "core/left/l2", "core/right/l3", "core/right/l4" }, *const leaves[] = { "l1", "l2", "l3", "l4" };
    static uint64_t serial = 1000000;

    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < 8; i++) {
        for (uint32_t j = 0; j < 8; j++)
            c->mbps[i * 8 + j] = i == j ? 0 : i / 2 == j / 2 ? 200000 : i / 4 == j / 4 ? 50000 : 10000;
        c->numa[i] = (int16_t)(i / 4);
        c->card[i] = (uint16_t)i;
        c->near[i] = UINT64_C(0xf) << 4 * (i / 4 * 4 + i % 4);       /* four cores each, in its socket */
    }
    c->table = (struct spur_device_table){ .size = sizeof c->table, .id = 1, .count = 8, .mbps = c->mbps, .links = c->count, .numa = c->numa, .socket = c->numa, .pcie_switch = c->numa,
                                           .card = c->card, .near_cores = c->near, .core_words = 1 };
    for (uint32_t i = 0; i < NODES; i++) {
        c->cores[i] = 0xffffffff;
        c->gres[i] = (struct spur_gres_view){ .name = "gpu", .type = "", .name_id = 1, .total = 8, .all_mask = 255, .free_mask = 255 };
        c->nodes[i] = (struct spur_node_view){ .index = i, .flags = SPUR_NODE_USABLE | SPUR_NODE_IDLE, .name = "node", .features = "", .weight = 1, .sockets = 2,
                                               .cores_per_socket = 16, .threads_per_core = 1, .cpus = 32, .mem_total = 1000, .mem_free = 1000, .core_free = &c->cores[i],
                                               .core_words = 1, .cpus_free = 32, .gres = &c->gres[i], .gres_count = 1, .gres_size = sizeof c->gres[0], .devices = &c->table,
                                               .fabric = "", .block = "", .leaf = leaves[i / 2], .path = paths[i / 2] };
        c->picks[i].cores = &c->picked[i];
        c->picks[i].core_words = 1;
    }
    c->view = (struct spur_view){ .size = sizeof c->view, .node_size = sizeof c->nodes[0], .nodes = c->nodes, .node_count = NODES, .serial = ++serial };
    c->out = (struct spur_placement){ .size = sizeof c->out, .pick_size = sizeof c->picks[0], .picks = c->picks, .pick_room = NODES };
    c->gpu = (struct spur_gres_ask){ .name = "gpu", .type = "" };
    c->allowed[0] = 255;
    c->ask = (struct spur_ask){ .size = sizeof c->ask, .min_nodes = 1, .max_nodes = 1, .tasks = 1, .cpus_per_task = 1, .gres = &c->gpu, .gres_count = 1,
                                .gres_size = sizeof c->gpu, .allowed = c->allowed, .node_words = 1, .cr = SPUR_CR_CORE };
}

static void gpus_use(struct cluster *c, uint32_t node, uint64_t mask)
{
    c->gres[node].free_mask &= ~mask;
    c->gres[node].used = 8 - (uint64_t)__builtin_popcountll(c->gres[node].free_mask);
    c->nodes[node].jobs = 1;
    c->nodes[node].flags &= ~SPUR_NODE_IDLE;
}

static int place(struct cluster *c)
{
    struct spur_error err = { 0 };

    return ops->place(topo, &c->view, &c->ask, &c->out, &err);
}

START_TEST(one_node_by_links)
{
    struct cluster *c = malloc(sizeof *c);
    char line[200];

    cluster_make(c);
    for (uint32_t i = 0; i < NODES; i++)
        gpus_use(c, i, i == 5 ? 0x0f : 0x55);      /* one of each pair is gone, but on node 5 */
    c->gpu.per_node = 2;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 5);
    ck_assert_uint_eq(c->picks[0].gres[0].mask, 0x30);
    ck_assert(c->out.score == 1.0);
    ck_assert_int_eq(ops->explain(topo, &c->out, line, sizeof line), 0);
    ck_assert_str_eq(line, "GPUs 4,5 of node: 200 of 200 GB/s, leaf l3");
    ck_assert_uint_eq(c->picked[0], UINT64_C(0x10000));     /* the core is near to the first */
    c->allowed[0] = 3;
    c->view.serial++;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 0);
    ck_assert(c->out.score == 0.25);
    free(c);
}
END_TEST

START_TEST(weight_comes_before_links)
{
    struct cluster *c = malloc(sizeof *c);

    cluster_make(c);
    gpus_use(c, 0, 0x55);
    for (uint32_t i = 1; i < NODES; i++)
        c->nodes[i].weight = 10;
    c->gpu.per_node = 2;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 0);
    free(c);
}
END_TEST

START_TEST(the_log_is_followed)
{
    struct cluster *c = malloc(sizeof *c);
    uint32_t log[] = { 0, 1, 0 };

    cluster_make(c);
    c->gpu.per_node = 8;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 0);
    gpus_use(c, 0, 1);
    gpus_use(c, 1, 1);
    c->view.log = log;
    c->view.log_count = 2;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 2);
    c->gres[0].free_mask = 255;
    c->view.log_count = 3;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 0);
    free(c);
}
END_TEST

START_TEST(one_rail_on_all_nodes)
{
    struct cluster *c = malloc(sizeof *c);

    cluster_make(c);
    gpus_use(c, 2, 0x03);
    c->ask.min_nodes = c->ask.max_nodes = c->ask.tasks = 4;
    c->gpu.per_node = 2;
    c->allowed[0] = 0x0f;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->out.pick_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(c->picks[i].gres[0].mask, 0x0c);      /* 0x03 would do on three of them */
    free(c);
}
END_TEST

START_TEST(cores_in_proportion)
{
    struct cluster *c = malloc(sizeof *c);

    cluster_make(c);
    c->gpu.per_node = 8;
    c->ask.cpus_per_task = 8;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picked[0], UINT64_C(0x11111111));
    c->ask.gres_flags = SPUR_GRES_DISABLE_BINDING;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picked[0], UINT64_C(0xff));
    free(c);
}
END_TEST

START_TEST(binding_is_enforced)
{
    struct cluster *c = malloc(sizeof *c);

    cluster_make(c);
    c->cores[0] = 0xffff0000;       /* of the first socket no core is free */
    c->nodes[0].cpus_free = 16;
    c->nodes[0].jobs = 1;
    c->allowed[0] = 1;
    c->gpu.per_node = 2;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].gres[0].mask, 0x03);
    c->ask.gres_flags = SPUR_GRES_ENFORCE_BINDING;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].gres[0].mask, 0x30);
    ck_assert_uint_eq(c->picked[0] & 0xffff, 0);
    c->ask.cpus_per_task = 9;       /* two GPUs have eight cores near to them */
    ck_assert_int_eq(place(c), SPUR_ENEVER);
    c->allowed[0] = 3;
    ck_assert_int_eq(place(c), SPUR_ENEVER);
    c->ask.cpus_per_task = 8;
    ck_assert_int_eq(place(c), 0);
    free(c);
}
END_TEST

START_TEST(switches_and_segments)
{
    struct cluster *c = malloc(sizeof *c);

    cluster_make(c);
    c->ask.min_nodes = c->ask.max_nodes = c->ask.tasks = 3;
    c->gpu.per_node = 8;
    c->ask.switches = 1;
    ck_assert_int_eq(place(c), SPUR_ELATER);
    c->ask.switches = 2;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 0);
    ck_assert_uint_eq(c->picks[2].node, 2);
    c->ask.segment = 2;
    ck_assert_int_eq(place(c), SPUR_ENEVER);
    c->ask.min_nodes = c->ask.max_nodes = c->ask.tasks = 4;
    gpus_use(c, 1, 1);
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 4);     /* l1 has one node left */
    ck_assert_uint_eq(c->picks[3].node, 7);
    c->ask.switches = 0;
    c->ask.segment = 0;
    c->ask.min_nodes = c->ask.max_nodes = c->ask.tasks = 3;
    c->allowed[0] = 0x3f;
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 0);     /* both levels hold three: left is the tighter pod */
    free(c);
}
END_TEST

START_TEST(nvlink_domains_come_first)
{
    struct cluster *c = malloc(sizeof *c);

    cluster_make(c);
    for (uint32_t i = 0; i < NODES; i++)
        c->nodes[i].fabric = i >= 3 && i < 6 ? "d2" : i < 3 ? "d1" : "";
    c->ask.min_nodes = c->ask.max_nodes = c->ask.tasks = 3;
    c->gpu.per_node = 8;
    gpus_use(c, 0, 1);
    ck_assert_int_eq(place(c), 0);
    ck_assert_uint_eq(c->picks[0].node, 3);
    ck_assert_uint_eq(c->picks[2].node, 5);
    free(c);
}
END_TEST

START_TEST(could_looks_at_classes)
{
    struct cluster *c = malloc(sizeof *c);
    struct spur_error err = { 0 };

    cluster_make(c);
    for (uint32_t i = 0; i < NODES; i++)
        gpus_use(c, i, 255);
    c->gpu.per_node = 8;
    ck_assert_int_eq(ops->could(topo, &c->view, &c->ask, &err), 0);
    c->gpu.per_node = 9;
    ck_assert_int_eq(ops->could(topo, &c->view, &c->ask, &err), SPUR_ENEVER);
    ck_assert_ptr_nonnull(strstr(err.text, "gpu: 9 on one node asked"));
    c->gpu.per_node = 8;
    c->ask.min_nodes = c->ask.max_nodes = c->ask.tasks = 9;
    ck_assert_int_eq(ops->could(topo, &c->view, &c->ask, &err), SPUR_ENEVER);
    free(c);
}
END_TEST

Suite *net_suite(void);
Suite *net_suite(void)
{
    Suite *s = suite_create("select/topo: network");
    TCase *t = tcase_create("net");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, whole_nodes_are_exact, 0, 4);
    tcase_add_test(t, one_node_by_links);
    tcase_add_test(t, weight_comes_before_links);
    tcase_add_test(t, the_log_is_followed);
    tcase_add_test(t, one_rail_on_all_nodes);
    tcase_add_test(t, cores_in_proportion);
    tcase_add_test(t, binding_is_enforced);
    tcase_add_test(t, switches_and_segments);
    tcase_add_test(t, nvlink_domains_come_first);
    tcase_add_test(t, could_looks_at_classes);
    suite_add_tcase(s, t);
    return s;
}
