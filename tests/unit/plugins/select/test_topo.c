/* SPDX-License-Identifier: Apache-2.0 */
/* test_topo.c - select/topo by table: cluster, wish, expected placement or the words of the refusal. */
#include <check.h>
#include <stdlib.h>
#include <time.h>

#include "cluster.h"

#define C8   "n[1-4] 2s4c1t mem=1000"
#define HT   "n[1-2] 2s4c2t mem=1000"
#define GPU  "n[1-3] 2s8c1t mem=1000 gpu=8"
#define MIX  "n1 2s4c1t mem=1000\nn2 2s4c1t mem=1000 used=0-3\nn3 2s4c1t mem=1000"

/* Expected: a placement, or "later", or "never: words". */
static const struct row { const char *name, *cluster, *wish, *expected; } rows[] = {
    { "one task", C8, "", "n1:1t1c[0]m0" },
    { "8 tasks fill one", C8, "n=8", "n1:8t8c[0-7]m0" },
    { "9 tasks take two", C8, "n=9", "n1:8t8c[0-7]m0 n2:1t1c[0]m0" },
    { "-N2 -n2 one each", C8, "N=2 n=2", "n1:1t1c[0]m0 n2:1t1c[0]m0" },
    { "-N2 -n8 block", C8, "N=2 n=8", "n1:7t7c[0-6]m0 n2:1t1c[0]m0" },
    { "-N2 tpn=4", C8, "N=2 tpn=4", "n1:4t4c[0-3]m0 n2:4t4c[0-3]m0" },
    { "-n8 tpn=4 needs two", C8, "n=8 tpn=4 N=2-4", "n1:4t4c[0-3]m0 n2:4t4c[0-3]m0" },
    { "range wanted", C8, "N=2-4 want=4", "n1:1t1c[0]m0 n2:1t1c[0]m0 n3:1t1c[0]m0 n4:1t1c[0]m0" },
    { "range, fewer free", "n[1-3] 1s4c1t mem=10\nn4 1s4c1t mem=10 used=0-3", "N=2-4 want=4", "n1:1t1c[0]m0 n2:1t1c[0]m0 n3:1t1c[0]m0" },
    { "range not wanted", C8, "N=2-4", "n1:1t1c[0]m0 n2:1t1c[0]m0" },
    { "all CPUs", C8, "n=32", "n1:8t8c[0-7]m0 n2:8t8c[0-7]m0 n3:8t8c[0-7]m0 n4:8t8c[0-7]m0" },
    { "too many CPUs", C8, "n=33", "never: 33 tasks of 1 CPUs asked, the 4 nodes that fit hold 32 together" },
    { "too many for max nodes", C8, "n=17 N=1-2", "never: don't fit on at most 2 nodes" },
    { "too many nodes", C8, "N=5 n=5", "never: 5 nodes asked, at most 4 of the 4 allowed" },
    { "too many CPUs a task", C8, "c=9", "never: CPUs: 9 on one node asked, the largest of the 4 allowed nodes has 8" },
    { "too much memory", C8, "mem=2000", "never: memory: 2000 MiB a node asked, the largest of the 4 allowed nodes has 1000 MiB" },
    { "busy", "n1 2s4c1t mem=10 used=0-7", "n=1", "later" },
    { "partly used first", MIX, "n=2", "n2:2t2c[4-5]m0" },
    { "tight one", MIX, "n=5", "n1:5t5c[0-4]m0" },
    { "used and empty", MIX, "n=12", "n1:8t8c[0-7]m0 n2:4t4c[4-7]m0" },
    { "least loaded", MIX, "n=2 cr=core,lln", "n1:2t2c[0-1]m0" },
    { "spread", C8, "n=6 spread N=1-3", "n1:2t2c[0-1]m0 n2:2t2c[0-1]m0 n3:2t2c[0-1]m0" },
    { "lower weight first", "n[1-2] 1s4c1t mem=10 weight=9\nn3 1s4c1t mem=10 weight=2", "n=2", "n3:2t2c[0-1]m0" },
    { "weights add up", "n1 1s8c1t mem=10 weight=9\nn[2-3] 1s2c1t mem=10 weight=2", "n=6", "n1:2t2c[0-1]m0 n2:2t2c[0-1]m0 n3:2t2c[0-1]m0" },
    { "weight gives way", "n1 1s8c1t mem=10 weight=9\nn[2-3] 1s2c1t mem=10 weight=2", "n=8 N=1", "n1:8t8c[0-7]m0" },
    { "required", C8, "n=2 w=n3", "n3:2t2c[0-1]m0" },
    { "required and more", C8, "n=10 w=n3", "n1:2t2c[0-1]m0 n3:8t8c[0-7]m0" },
    { "required not allowed", C8, "w=n3 x=n3", "never: node n3, which --nodelist asks for, may not be used" },
    { "required too small", "n1 1s4c1t mem=10\nn2 1s8c1t mem=10", "c=8 w=n1", "never: node n1, which --nodelist asks for, has too few CPUs" },
    { "required busy", "n1 1s4c1t mem=10 used=0-3\nn2 1s4c1t mem=10", "w=n1", "later" },
    { "nothing allowed", "n1 1s4c1t mem=10", "x=n1", "never: no node may be used" },
    { "down", "n1 1s4c1t mem=10 down", "", "later" },
    { "contiguous", "n1 1s4c1t mem=10\nn2 1s4c1t mem=10 used=0-3\nn[3-4] 1s4c1t mem=10", "N=2 n=2 contiguous", "n3:1t1c[0]m0 n4:1t1c[0]m0" },
    { "contiguous, none", "n1 1s4c1t mem=10\nn2 1s4c1t mem=10 used=0-3\nn3 1s4c1t mem=10", "N=2 n=2 contiguous", "later" },
    { "contiguous with required", C8, "N=2 n=2 contiguous w=n4", "n3:1t1c[0]m0 n4:1t1c[0]m0" },

    { "threads: one task is a core", HT, "", "n1:1t2c[0]m0" },
    { "threads: two tasks a core", HT, "n=3", "n1:3t4c[0-1]m0" },
    { "threads: c=3 is two cores", HT, "c=3", "n1:1t4c[0-1]m0" },
    { "threads: 16 tasks", HT, "n=16", "n1:16t16c[0-7]m0" },
    { "nomultithread", HT, "n=4 threads=1", "n1:4t8c[0-3]m0" },
    { "nomultithread, 9 tasks", HT, "n=9 threads=1", "n1:8t16c[0-7]m0 n2:1t2c[0]m0" },
    { "one task a core", HT, "n=4 cr=core,one", "n1:4t8c[0-3]m0" },
    { "one task a core, c=2", HT, "n=4 c=2 cr=core,one", "n1:4t8c[0-3]m0" },
    { "one task a core, overruled", HT, "n=4 tpc=2 cr=core,one", "n1:4t4c[0-1]m0" },
    { "CR_CPU", HT, "n=3 cr=cpu", "n1:3t3c[0-1]m0" },
    { "CR_Socket", HT, "n=1 cr=socket", "n1:1t8c[0-3]m0" },
    { "CR_Socket, 9 CPUs", HT, "n=9 cr=socket", "n1:9t16c[0-7]m0" },
    { "CR_Socket, one broken", "n1 2s4c1t mem=10 used=1", "n=1 cr=socket", "n1:1t4c[4-7]m0" },
    { "CR_Socket, none whole", "n1 2s4c1t mem=10 used=1,5", "n=1 cr=socket", "later" },
    { "too few threads", C8, "threads=2", "never: has too few sockets, cores a socket or threads a core" },

    { "one socket that fits", "n1 2s4c1t mem=10 used=0", "n=4", "n1:4t4c[4-7]m0" },
    { "the tighter socket", "n1 2s4c1t mem=10 used=0", "n=3", "n1:3t3c[1-3]m0" },
    { "over two sockets", "n1 2s4c1t mem=10 used=0", "n=6", "n1:6t6c[1-2,4-7]m0" },
    { "tasks a socket", C8, "n=4 tps=2 N=1", "n1:4t4c[0-1,4-5]m0" },
    { "tasks a socket, too many", C8, "n=5 tps=2 N=1", "never: don't fit on at most 1 nodes" },
    { "sockets", C8, "sockets=2", "n1:1t1c[0]m0" },
    { "sockets, too many", C8, "sockets=3", "never: too few sockets" },
    { "free cores in a socket", "n1 2s4c1t mem=10 used=0-2\nn2 2s4c1t mem=10 used=0-2,4-5", "cores=4", "n1:1t1c[4]m0" },
    { "mincpus", C8, "mincpus=4", "n1:1t4c[0-3]m0" },
    { "mincpus too many", C8, "mincpus=9", "never: CPUs: 9 on one node" },
    { "MaxCPUsPerNode", C8, "n=8 maxcpus=4", "n1:4t4c[0-3]m0 n2:4t4c[0-3]m0" },
    { "MaxCPUsPerNode too small", C8, "c=6 maxcpus=4", "never: MaxCPUsPerNode" },
    { "overcommit", C8, "n=100 overcommit", "n1:100t1c[0]m0" },
    { "overcommit, two nodes", C8, "n=100 N=2 c=2 overcommit", "n1:50t2c[0-1]m0 n2:50t2c[0-1]m0" },

    { "memory a node", C8, "N=2 n=2 mem=600", "n1:1t1c[0]m600 n2:1t1c[0]m600" },
    { "memory a CPU", C8, "n=8 mempercpu=200", "n1:5t5c[0-4]m1000 n2:3t3c[0-2]m600" },
    { "memory a CPU, threads pay too", HT, "n=8 mempercpu=200", "n1:4t4c[0-1]m800 n2:4t4c[0-1]m800" },
    { "memory all", "n1 1s4c1t mem=1000 memused=1 used=0\nn2 1s4c1t mem=1000", "mem=all", "n2:1t1c[0]m1000" },
    { "memory used", "n1 1s4c1t mem=1000 memused=500\nn2 1s4c1t mem=1000", "mem=600", "n2:1t1c[0]m600" },
    { "memory not counted", "n1 1s4c1t mem=1000 memused=500", "mem=600 cr=core", "n1:1t1c[0]m0" },
    { "memory not counted, but too much", "n1 1s4c1t mem=1000", "mem=1600 cr=core", "never: memory" },
    { "memory a GPU", GPU, "gres=gpu:2 mempergpu=300", "n1:1t1c[0]m600gpu(0-1)" },
    { "memory a GPU, too much", GPU, "gres=gpu:4 mempergpu=300", "never: has too little memory" },

    { "exclusive", HT, "exclusive", "n1:1t16c[0-7]m0" },
    { "exclusive takes devices", GPU, "exclusive", "n1:1t16c[0-15]m0gpu(0-7)" },
    { "exclusive wants an empty node", MIX, "exclusive n=8 N=1", "n1:8t8c[0-7]m0" },
    { "exclusive shares evenly", C8, "exclusive N=2 n=10", "n1:5t8c[0-7]m0 n2:5t8c[0-7]m0" },
    { "exclusive, packed", C8, "exclusive N=2 n=10 cr=core,pack", "n1:8t8c[0-7]m0 n2:2t8c[0-7]m0" },
    { "exclusive, all used", "n1 1s4c1t mem=10 used=0", "exclusive", "later" },

    { "gres", GPU, "gres=gpu:2", "n1:1t1c[0]m0gpu(0-1)" },
    { "gres, lowest free", "n1 2s8c1t mem=10 gpu=8 gpuused=0,2", "gres=gpu:3", "n1:1t1c[0]m0gpu(1,3-4)" },
    { "gres, tighter node", "n1 2s8c1t mem=10 gpu=8 gpuused=0\nn2 2s8c1t mem=10 gpu=8 gpuused=0-3", "gres=gpu:2", "n2:1t1c[0]m0gpu(4-5)" },
    { "gres, too many", GPU, "gres=gpu:9", "never: gpu: 9 on one node asked, the most that one of the 3 allowed nodes has is 8" },
    { "gres, none there", C8, "gres=gpu:1", "never: gpu: 1 on one node asked" },
    { "gres, now used", "n1 2s8c1t mem=10 gpu=2 gpuused=0-1", "gres=gpu:1", "later" },
    { "gres a node, two nodes", GPU, "N=2 n=2 gres=gpu:8", "n1:1t1c[0]m0gpu(0-7) n2:1t1c[0]m0gpu(0-7)" },
    { "gres a task", GPU, "n=10 grestask=gpu:1", "n1:8t8c[0-7]m0gpu(0-7) n2:2t2c[0-1]m0gpu(0-1)" },
    { "gres a job, one node", GPU, "gresjob=gpu:4", "n1:1t1c[0]m0gpu(0-3)" },
    { "gres a job, two nodes", GPU, "gresjob=gpu:12", "n1:1t1c[0]m0gpu(0-7) n2:1t1c[0]m0gpu(0-3)" },
    { "gres a job, given nodes", GPU, "gresjob=gpu:12 N=2", "n1:1t1c[0]m0gpu(0-5) n2:1t1c[0]m0gpu(0-5)" },
    { "gres a job, one task", GPU, "gresjob=gpu:12 n=1", "never: don't fit on at most 1 nodes" },
    { "gres a job, too many", GPU, "gresjob=gpu:25", "never: gpu: 25 asked, the 3 nodes that fit have 24 together" },
    { "gres a job and a node", GPU, "gresjob=gpu:8 gres=gpu:4", "n1:1t1c[0]m0gpu(0-3) n2:1t1c[0]m0gpu(0-3)" },
    { "gres a job and a node, odd", GPU, "gresjob=gpu:7 gres=gpu:4", "never: 7 in all and 4 a node" },
    { "gres a socket", GPU, "gressocket=gpu:2 sockets=2 n=2", "n1:2t2c[0,8]m0gpu(0-3)" },
    { "gres a socket, one", GPU, "gressocket=gpu:2", "n1:1t1c[0]m0gpu(0-1)" },
    { "gres by type", "n1 1s4c1t mem=10 gpu=a100:2,h100:2", "gres=gpu:h100:2", "n1:1t1c[0]m0gpu(2-3)" },
    { "gres of any type", "n1 1s4c1t mem=10 gpu=a100:2,h100:2", "gres=gpu:3", "n1:1t1c[0]m0gpu(0-1)gpu(2)" },
    { "gres typed and any", "n1 1s4c1t mem=10 gpu=a100:2,h100:2", "gres=gpu:2 gres=gpu:a100:1", "n1:1t1c[0]m0gpu(0)gpu(1)gpu(2)" },
    { "gres typed and any, too many", "n1 1s4c1t mem=10 gpu=a100:2,h100:2", "gres=gpu:3 gres=gpu:a100:2", "never" },
    { "gres unknown type", "n1 1s4c1t mem=10 gpu=a100:2", "gres=gpu:h100:1", "never: gpu:h100: 1 on one node" },
    { "gres by count", "n1 1s4c1t mem=10 nic=4", "gres=nic:3", "n1:1t1c[0]m0nic3" },
    { "two kinds", "n1 1s4c1t mem=10 gpu=2 nic=4", "gres=nic:3 gres=gpu:1", "n1:1t1c[0]m0nic3gpu(0)" },
    { "CPUs a GPU", GPU, "gres=gpu:2 cpg=3", "n1:1t6c[0-5]m0gpu(0-1)" },
    { "CPUs a GPU, too many", GPU, "gres=gpu:8 cpg=3", "never: has too few CPUs" },
    { "CPUs a GPU of the job", GPU, "gresjob=gpu:8 cpg=4", "n1:1t16c[0-15]m0gpu(0-3) n2:1t16c[0-15]m0gpu(0-3)" },
    { "CPU jobs spare free GPUs", "n1 1s4c1t mem=10 gpu=4 gpuused=0\nn2 1s4c1t mem=10 gpu=4 gpuused=0-2", "n=1", "n2:1t1c[0]m0" },
};

START_TEST(table)
{
    const struct row *r = &rows[_i];
    static struct cluster c;
    static struct wish w;
    static struct placed p;
    struct spur_error err;
    char text[2000];
    int rc;

    cluster_make(&c, r->cluster);
    wish_make(&w, &c, r->wish);
    rc = cluster_place(&c, &w, &p, &err);
    if (rc == 0)
        placed_print(&c, &p, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s%s%s", rc == SPUR_ELATER ? "later" : rc == SPUR_ENEVER ? "never" : "error", rc == SPUR_ELATER ? "" : ": ",
                 rc == SPUR_ELATER ? "" : err.text);
    if (strncmp(r->expected, "never: ", 7) == 0) {
        ck_assert_msg(rc == SPUR_ENEVER && strstr(err.text, r->expected + 7), "%s: got %s\nexpected %s", r->name, text, r->expected);
        return;
    }
    if (strcmp(r->expected, "never") == 0) {
        ck_assert_msg(rc == SPUR_ENEVER && *err.text, "%s: got %s", r->name, text);
        return;
    }
    ck_assert_msg(strcmp(text, r->expected) == 0, "%s: %s\ngot      %s\nexpected %s", r->name, r->wish, text, r->expected);
}
END_TEST

/* ---- how long a decision takes: printed, not judged ---- */

#define MANY 1000u

static struct spur_node_view many_nodes[MANY];
static struct spur_gres_view many_gpus[MANY];
static uint64_t many_free[MANY][2], many_picked[MANY][2], many_allowed[(MANY + 63) / 64];
static struct spur_node_pick many_picks[MANY];

static double microseconds(struct timespec from, struct timespec to, int rounds)
{
    return ((double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3) / rounds;
}

START_TEST(speed)
{
    extern const struct spur_plugin spur_plugin_select_topo;
    static const struct { const char *name; uint32_t nodes, tasks; uint64_t per_node, per_job, per_task; int rc; } jobs[] = {
        { "1 GPU", 1, 1, 1, 0, 0, 0 }, { "8 nodes of 8 GPUs", 8, 8, 8, 0, 0, 0 }, { "--gpus=64", 1, 1, 0, 64, 0, 0 }, { "512 tasks with a GPU each", 1, 512, 0, 0, 1, 0 },
        { "all nodes", 1000, 1000, 1, 0, 0, 0 }, { "all CPUs", 1, 90000, 0, 0, 0, 0 }, { "never", 1, 1, 9, 0, 0, SPUR_ENEVER } };
    const struct spur_select_ops *ops = spur_plugin_select_topo.ops;
    struct spur_view view = { .size = sizeof view, .node_size = sizeof many_nodes[0], .nodes = many_nodes, .node_count = MANY };
    struct spur_placement out = { .size = sizeof out, .pick_size = sizeof many_picks[0], .picks = many_picks, .pick_room = MANY };
    static const struct spur_host host = { .size = sizeof host };
    struct spur_error err;
    void *self;

    for (uint32_t i = 0; i < MANY; i++) {
        many_free[i][0] = UINT64_MAX << i % 7;
        many_free[i][1] = UINT32_MAX;
        many_gpus[i] = (struct spur_gres_view){ .name = "gpu", .type = "mi300x", .name_id = 1, .type_id = 1, .total = 8, .all_mask = 255, .free_mask = 255 };
        many_nodes[i] = (struct spur_node_view){ .index = i, .flags = SPUR_NODE_USABLE, .name = "n", .features = "", .weight = 1, .sockets = 2, .cores_per_socket = 48,
                                                 .threads_per_core = 1, .cpus = 96, .mem_total = 1 << 20, .mem_free = 1 << 20, .core_free = many_free[i],
                                                 .core_words = 2, .cpus_free = 96 - i % 7, .jobs = i % 7 != 0, .gres = &many_gpus[i], .gres_count = 1,
                                                 .gres_size = sizeof many_gpus[0] };
        many_allowed[i / 64] |= UINT64_C(1) << i % 64;
        many_picks[i].cores = many_picked[i];
        many_picks[i].core_words = 2;
    }
    ck_assert_int_eq(spur_plugin_select_topo.open(&host, NULL, &self, &err), 0);
    for (size_t k = 0; k < sizeof jobs / sizeof *jobs; k++) {
        struct spur_gres_ask gpu = { .name = "gpu", .type = "", .per_node = jobs[k].per_node, .per_job = jobs[k].per_job, .per_task = jobs[k].per_task };
        struct spur_ask ask = { .size = sizeof ask, .min_nodes = jobs[k].nodes, .max_nodes = UINT32_MAX, .tasks = jobs[k].tasks, .tasks_set = jobs[k].tasks > 1,
                                .cpus_per_task = 1, .gres = &gpu, .gres_count = gpu.per_node || gpu.per_job || gpu.per_task, .gres_size = sizeof gpu,
                                .allowed = many_allowed, .node_words = (MANY + 63) / 64, .cr = SPUR_CR_CORE | SPUR_CR_MEMORY, .mem_per_node = 1000 };
        struct timespec from, to;
        int rounds = 50;

        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int i = 0; i < rounds; i++) {
            int rc = ops->place(self, &view, &ask, &out, &err);

            ck_assert_msg(rc == jobs[k].rc, "%s: %s", jobs[k].name, err.text);
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("  1000 nodes, %s: %.0f us\n", jobs[k].name, microseconds(from, to, rounds));
    }
    spur_plugin_select_topo.close(self);
}
END_TEST

Suite *topo_suite(void);
Suite *topo_suite(void)
{
    Suite *s = suite_create("select/topo");
    TCase *t = tcase_create("table");

    tcase_add_loop_test(t, table, 0, sizeof rows / sizeof *rows);
    tcase_add_test(t, speed);
    suite_add_tcase(s, t);
    return s;
}
