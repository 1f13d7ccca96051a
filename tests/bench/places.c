/* SPDX-License-Identifier: Apache-2.0 */
/* places.c - how good and how fast placement is: rows B1, B3, B4 of the placement benchmark. Prints numbers, asserts none.
 *
 *   places [--nodes N,N,...] [--type NAME]
 *
 * B1 every recorded node type, all free masks (16 GPUs: 400 drawn): share of sets with the best sum, and of those that are best in the whole order.
 * B3 1,000 drawn states of leaves and pods, with and without segments: share that is as good as trying every set of leaves.
 * B4 microseconds a decision on clusters of N nodes of eight GPUs that run about 70 % full, on the full path: partition, excluded nodes, CPUs and
 *    memory by GPU, weights, the view's log. And the time of 1,000 starts on an empty cluster.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spur/select.h>

#include "../unit/plugins/score/judge.h"
#include "../unit/plugins/select/fabric_judge.h"

extern const struct spur_plugin spur_plugin_select_topo, spur_plugin_score_links;

static const char *const types[] = { "rtx8000_bridge", "dgx1v", "dgx_a100", "hgx_h100", "hgx_h200", "gb200_nvl72_node", "l40s_pcie", "mi210_2hive", "mi250x_frontier",
                                     "mi300x", "mi300a", "dgx2_v100x16", "mi250_16gcd" };
static void *topo, *links;

static bool score_links(void *ctx, const struct spur_score_ops **ops, void **self)
{
    (void)ctx;
    *ops = spur_plugin_score_links.ops;
    *self = links;
    return true;
}

static const struct spur_host host = { .size = sizeof host, .score = score_links };

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* ---- B1 ---- */

static void sets(void)
{
    const struct spur_score_ops *ops = spur_plugin_score_links.ops;
    struct judge_node *y = malloc(sizeof *y);
    uint64_t seed = 17;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t cases = 0, optimal = 0, strict = 0;
        double first = 0, again = 0;
        char path[512];

        snprintf(path, sizeof path, "%s/topologies/%s.txt", TEST_DATA, types[i]);
        if (!judge_read(path, y)) {
            printf("B1 %s: cannot read %s\n", types[i], path);
            continue;
        }
        for (uint32_t m = 1; m < (y->n <= 8 ? 1u << y->n : 401u); m++) {
            uint32_t free = y->n <= 8 ? m : 1 + judge_draw(&seed) % 65535, ks = (uint32_t)__builtin_popcount(free);

            for (uint32_t k = y->n <= 8 ? 1 : 1 + judge_draw(&seed) % ks; k <= ks; k += y->n <= 8 ? 1 : ks) {
                struct spur_score_ask ask = { .size = sizeof ask, .k = k, .free = free };
                struct spur_score out = { .size = sizeof out };
                struct judge_value got, best;
                double from = now_us(), middle;

                ops->best(links, &y->table, &ask, &out);
                middle = now_us();
                ops->best(links, &y->table, &ask, &out);
                again += now_us() - middle;
                first += middle - from;
                judge_rate(y, (uint32_t)out.mask, free, &got);
                judge_best(y, free, k, &best);
                optimal += got.sum == best.sum;
                strict += judge_compare(&got, &best) == 0;
                cases++;
            }
        }
        printf("B1 %-18s %5u cases: %6.2f %% optimal, %6.2f %% strict; %.2f us an answer at first, %.2f us again\n", types[i], cases, 100.0 * optimal / cases,
               100.0 * strict / cases, first / cases, again / cases);
    }
    free(y);
}

/* ---- B3 ---- */

static void leaves(void)
{
    static const uint32_t segments[] = { 1, 2, 4 };

    for (size_t i = 0; i < 3; i++) {
        uint64_t seed = 99 + i;
        uint32_t exact = 0, fit = 0;
        double us = 0;

        for (uint32_t round = 0; round < 1000; round++) {
            struct fabric_answer best, got;
            struct fabric_state s;
            uint32_t need;
            double from;

            fabric_random(&s, &seed);
            need = segments[i] * (1 + fabric_draw(&seed) % (64 / segments[i]));
            fabric_best(&s, need, segments[i], &best);
            from = now_us();
            if (!fabric_ask(spur_plugin_select_topo.ops, topo, &s, need, segments[i], &got))
                continue;
            us += now_us() - from;
            exact += got.level == best.level && got.leaves == best.leaves && got.pods == best.pods && (got.level == 3 || got.waste == best.waste);
            fit += got.level < 3;
        }
        printf("B3 segments of %u: %u of 1000 states exact (%u fit), %.0f us a state with its index\n", segments[i], exact, fit, us / 1000);
    }
}

/* ---- B4 ---- */

#define LEAF 16u
struct cluster {
    uint32_t count, log_room;
    struct spur_view view;
    struct spur_node_view *nodes;
    struct spur_gres_view *gres;
    uint64_t (*cores)[2];
    uint64_t *allowed;
    uint32_t *log;
    char     (*leaves)[2][32];
    struct spur_node_pick *picks; uint64_t (*picked)[2];
    struct spur_placement out;
};

static void changed(struct cluster *c, uint32_t node)
{
    static uint64_t serial = 1;

    if (c->view.log_count == c->log_room) {
        c->view.log_count = 0;
        c->view.serial = ++serial + UINT64_C(1000000000);
        return;
    }
    c->log[c->view.log_count++] = node;
}

static void cluster_make(struct cluster *c, uint32_t count, struct judge_node *type)
{
    static uint64_t serial = UINT64_C(2000000000);

    memset(c, 0, sizeof *c);
    c->count = count;
    c->nodes = calloc(count, sizeof *c->nodes);
    c->gres = calloc(count, sizeof *c->gres);
    c->cores = calloc(count, sizeof *c->cores);
    c->allowed = calloc((count + 63) / 64, sizeof *c->allowed);
    c->log_room = 2 * count + 1024;
    c->log = calloc(c->log_room, sizeof *c->log);
    c->leaves = calloc(count / LEAF + 1, sizeof *c->leaves);
    c->picks = calloc(count, sizeof *c->picks);
    c->picked = calloc(count, sizeof *c->picked);
    for (uint32_t i = 0; i < count; i++) {
        if (i % LEAF == 0) {
            snprintf(c->leaves[i / LEAF][0], 32, "leaf%u", i / LEAF);
            snprintf(c->leaves[i / LEAF][1], 32, "core/pod%u/leaf%u", i / LEAF / 16, i / LEAF);
        }
        c->cores[i][0] = ~UINT64_C(0);
        c->cores[i][1] = UINT32_MAX;
        c->gres[i] = (struct spur_gres_view){ .name = "gpu", .type = "x", .name_id = 1, .type_id = 1, .total = 8, .all_mask = 255, .free_mask = 255 };
        c->nodes[i] = (struct spur_node_view){
            .index = i, .flags = SPUR_NODE_USABLE | SPUR_NODE_IDLE, .name = "node", .features = "", .weight = 1, .sockets = 2, .cores_per_socket = 48, .threads_per_core = 1,
            .cpus = 96, .mem_total = 1000000, .mem_free = 1000000, .core_free = c->cores[i], .core_words = 2, .cpus_free = 96, .gres = &c->gres[i], .gres_count = 1,
            .gres_size = sizeof *c->gres, .class_id = 1, .devices = &type->table, .fabric = "", .block = "", .leaf = c->leaves[i / LEAF][0], .path = c->leaves[i / LEAF][1] };
        if (i % 50)             /* a few are excluded */
            c->allowed[i / 64] |= UINT64_C(1) << i % 64;
        c->picks[i].cores = c->picked[i];
        c->picks[i].core_words = 2;
    }
    c->view = (struct spur_view){ .size = sizeof c->view, .node_size = sizeof *c->nodes, .version = 1, .nodes = c->nodes, .node_count = count, .serial = ++serial, .log = c->log };
    c->out = (struct spur_placement){ .size = sizeof c->out, .pick_size = sizeof *c->picks, .picks = c->picks, .pick_room = count };
}

static void cluster_free(struct cluster *c)
{
    free(c->nodes);
    free(c->gres);
    free(c->cores);
    free(c->allowed);
    free(c->log);
    free(c->leaves);
    free(c->picks);
    free(c->picked);
}

struct part { uint32_t node; uint64_t gpus, cores[2], mem; };
struct running { struct part *parts; uint32_t count; };

static void part_move(struct cluster *c, const struct part *p, bool take)
{
    struct spur_node_view *n = &c->nodes[p->node];
    uint32_t cores = (uint32_t)(__builtin_popcountll(p->cores[0]) + __builtin_popcountll(p->cores[1]));

    for (int w = 0; w < 2; w++)
        c->cores[p->node][w] ^= p->cores[w];
    c->gres[p->node].free_mask ^= p->gpus;
    c->gres[p->node].used = 8 - (uint64_t)__builtin_popcountll(c->gres[p->node].free_mask);
    n->cpus_free = take ? n->cpus_free - cores : n->cpus_free + cores;
    n->mem_free = take ? n->mem_free - p->mem : n->mem_free + p->mem;
    n->jobs = take ? n->jobs + 1 : n->jobs - 1;
    n->flags = SPUR_NODE_USABLE | (n->jobs ? 0 : SPUR_NODE_IDLE);
    changed(c, p->node);
}

static int decide(struct cluster *c, uint32_t gpus, double *us)
{
    struct spur_gres_ask gpu = { .name = "gpu", .type = "" };
    uint32_t nodes = (gpus + 7) / 8;
    struct spur_ask ask = { .size = sizeof ask, .min_nodes = nodes, .max_nodes = nodes, .tasks = nodes, .tasks_set = true, .cpus_per_task = 1, .cpus_per_gpu = 8,
                            .mem_per_gpu = 60000 + 1000 * (gpus % 5), .gres = &gpu, .gres_count = 1, .gres_size = sizeof gpu, .allowed = c->allowed,
                            .node_words = (c->count + 63) / 64, .cr = SPUR_CR_CORE | SPUR_CR_MEMORY };
    const struct spur_select_ops *ops = spur_plugin_select_topo.ops;
    struct spur_error err;
    double from;
    int rc;

    gpu.per_node = gpus / nodes;
    from = now_us();
    rc = ops->place(topo, &c->view, &ask, &c->out, &err);
    *us = now_us() - from;
    return rc;
}

static struct running take(struct cluster *c)
{
    struct running r = { calloc(c->out.pick_count, sizeof *r.parts), c->out.pick_count };

    for (uint32_t i = 0; i < r.count; i++) {
        r.parts[i] = (struct part){ .node = c->picks[i].node, .gpus = c->picks[i].gres[0].mask, .cores = { c->picked[i][0], c->picked[i][1] }, .mem = c->picks[i].mem };
        part_move(c, &r.parts[i], true);
    }
    return r;
}

static uint32_t gpus_draw(uint64_t *seed)
{
    static const uint32_t of[] = { 55, 1, 71, 2, 84, 4, 94, 8, 97, 16, 99, 32, 100, 64 };
    uint32_t p = judge_draw(seed) % 100, i = 0;

    while (p >= of[i])
        i += 2;
    return of[i + 1];
}

static void decisions(uint32_t count, struct judge_node *type)
{
    uint32_t room = count * 8, jobs = 0, rounds = count >= 100000 ? 2000 : 4000, placed = 0;
    struct running *running = calloc(room, sizeof *running);
    double *us = calloc(rounds, sizeof *us), one, sum = 0;
    uint64_t seed = 7, busy = 0, used;
    struct cluster c;

    cluster_make(&c, count, type);
    for (uint32_t i = 0; i < 1000; i++)
        if (decide(&c, gpus_draw(&seed), &one) == 0) {
            running[jobs++] = take(&c);
            sum += one;
        }
    printf("B4 %6u nodes: %u starts on an empty cluster in %.1f ms\n", count, jobs, sum / 1000);
    for (used = 0; busy * 10 < (uint64_t)count * 8 * 7 && used < room; used++) {
        uint32_t gpus = gpus_draw(&seed);

        if (decide(&c, gpus, &one) == 0 && jobs < room) {
            running[jobs++] = take(&c);
            busy += gpus;
        }
    }
    for (uint32_t i = 0; i < rounds; i++) {     /* now one comes and one goes */
        uint32_t gone = judge_draw(&seed) % jobs;

        if (decide(&c, gpus_draw(&seed), &us[i]) == 0 && jobs < room) {
            running[jobs++] = take(&c);
            placed++;
        }
        for (uint32_t k = 0; k < running[gone].count; k++)
            part_move(&c, &running[gone].parts[k], false);
        free(running[gone].parts);
        running[gone] = running[--jobs];
    }
    qsort(us, rounds, sizeof *us, ascending);
    printf("B4 %6u nodes, 70 %% full: %.1f us a decision in the median, %.1f us at 95 %%, %.1f us at most; %u of %u placed\n", count, us[rounds / 2], us[rounds * 95 / 100],
           us[rounds - 1], placed, rounds);
    for (uint32_t i = 0; i < jobs; i++)
        free(running[i].parts);
    free(running);
    free(us);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    const char *nodes = "1000,10000,100000", *type = "mi250x_frontier";
    struct judge_node *y = malloc(sizeof *y);
    struct spur_error err;
    char path[512];

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--nodes") == 0)
            nodes = argv[i + 1];
        if (strcmp(argv[i], "--type") == 0)
            type = argv[i + 1];
    }
    snprintf(path, sizeof path, "%s/topologies/%s.txt", TEST_DATA, type);
    if (!judge_read(path, y) || y->n != 8 || spur_plugin_score_links.open(&host, NULL, &links, &err) < 0 || spur_plugin_select_topo.open(&host, NULL, &topo, &err) < 0) {
        fprintf(stderr, "places: %s is no type of eight GPUs\n", type);
        return 1;
    }
    sets();
    leaves();
    for (const char *at = nodes; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        decisions((uint32_t)strtoul(at, NULL, 10), y);
    spur_plugin_select_topo.close(topo);
    spur_plugin_score_links.close(links);
    free(y);
    return 0;
}
