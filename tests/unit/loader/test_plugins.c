/* SPDX-License-Identifier: Apache-2.0 */
/* test_plugins.c - what our own simple plugins decide: the numbers of the priority plugins, the nodes of select/linear, the lines of gpu/generic.
 * Their contracts are tested by tests/conformance. */
#include <check.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spur/gpu.h>
#include <spur/priority.h>
#include <spur/select.h>

#include "base/str.h"
#include "loader/loader.h"

static struct spur_error err;

static void says(const char *part)
{
    if (!strstr(err.text, part))
        ck_abort_msg("\"%s\" is not in: %s", part, err.text);
}

/* ---- priority ---- */

static const char *const (*settings)[2];
static char logged[2048];

static const char *setting(void *ctx, const char *key)
{
    (void)ctx;
    for (size_t i = 0; settings && settings[i][0]; i++)
        if (strcmp(settings[i][0], key) == 0)
            return settings[i][1];
    return NULL;
}

static void keep_line(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", text);
}

static const struct spur_host host = { .size = sizeof host, .config = setting, .log = keep_line };

static uint64_t rank_of(const char *plugin, const char *const (*keys)[2], const struct spur_job_view *job, int64_t now, struct spur_priority_factors *f)
{
    struct loaded *l;
    uint64_t rank;

    settings = keys;
    logged[0] = '\0';
    ck_assert_msg(loader_open(SPUR_KIND_priority, plugin, NULL, &host, &l, &err) == 0, "%s", err.text);
    if (f)
        f->size = sizeof *f;
    rank = ((const struct spur_priority_ops *)loader_ops(l))->rank(l->self, job, now, f);
    loader_close(l);
    return rank;
}

START_TEST(basic_counts_down)
{
    ck_assert_uint_eq(rank_of("basic", NULL, &(struct spur_job_view){ .job_id = 1 }, 0, NULL), 4294901759u);
    ck_assert_uint_eq(rank_of("basic", NULL, &(struct spur_job_view){ .job_id = 2 }, 0, NULL), 4294901758u);
    ck_assert_uint_eq(rank_of("basic", NULL, &(struct spur_job_view){ .job_id = 2, .nice = 100 }, 0, NULL), 4294901658u);
    ck_assert_uint_eq(rank_of("basic", NULL, &(struct spur_job_view){ .job_id = 2, .nice = -2000000000 }, 0, NULL), 4294967294u);
    ck_assert_uint_eq(rank_of("basic", NULL, &(struct spur_job_view){ .job_id = 4294967294u, .nice = 2147483645 }, 0, NULL), 1);
}
END_TEST

#define DAY INT64_C(86400)
static const struct spur_job_view job = {
    .job_id = 1, .submit_wall_s = 1000000, .eligible_wall_s = 1000000 + DAY, .nodes = 10, .cpus = 640, .time_limit_min = 64, .partition_factor = 30,
    .partition_factor_max = 120, .cluster_nodes = 100, .cluster_cpus = 12800 };

START_TEST(multifactor_by_the_formula)
{
    static const struct { const char *const keys[8][2]; int32_t nice; int64_t site, now; uint64_t rank; } rows[] = {
        { { { "PriorityWeightAge", "1000" }, { "PriorityMaxAge", "10-00:00:00" } }, 0, 0, 1000000 + 6 * DAY, 500 },
        { { { "PriorityWeightAge", "1000" } }, 0, 0, 1000000 + DAY + 7 * DAY / 2, 500 },              /* 7-0 by default */
        { { { "PriorityWeightAge", "1000" }, { "PriorityMaxAge", "12:00:00" } }, 0, 0, 1000000 + 90 * DAY, 1000 },
        { { { "PriorityWeightAge", "1000" }, { "PriorityMaxAge", "1440" }, { "PriorityFlags", "accrue_always" } }, 0, 0, 1000000 + DAY / 2, 500 },
        { { { "PriorityWeightJobSize", "10000" } }, 0, 0, 0, 750 },                                     /* (10/100 + 640/12800) / 2 */
        { { { "PriorityWeightJobSize", "10000" }, { "PriorityFavorSmall", "Yes" } }, 0, 0, 0, 9250 },
        { { { "PriorityWeightJobSize", "128000" }, { "PriorityFlags", "FAIR_TREE,SMALL_RELATIVE_TO_TIME" } }, 0, 0, 0, 200 },    /* the larger of 10/100 and 640/12800, by 64 minutes */
        { { { "PriorityWeightPartition", "1000" } }, 0, 0, 0, 250 },
        { { { "PriorityWeightPartition", "10" }, { "PriorityFlags", "NO_NORMAL_PART" } }, 0, 0, 0, 300 },
        { { { "PriorityWeightPartition", "1000" } }, 100, 0, 0, 150 },
        { { { "PriorityWeightPartition", "1000" } }, -100, 5000, 0, 5350 },
        { { { "PriorityWeightPartition", "1000" } }, 2000000000, 0, 0, 1 },
        { { { "PriorityWeightPartition", "1000" } }, 0, 5000000000, 0, 4294967294 },
        { { { NULL, NULL } }, 0, 0, 0, 1 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spur_job_view j = job;

        j.nice = rows[i].nice;
        j.site_factor = rows[i].site;
        ck_assert_msg(rank_of("multifactor", rows[i].keys, &j, rows[i].now, NULL) == rows[i].rank, "row %zu: %llu", i,
                      (unsigned long long)rank_of("multifactor", rows[i].keys, &j, rows[i].now, NULL));
    }
}
END_TEST

START_TEST(multifactor_tells_what_it_cannot_do)
{
    static const char *const keys[][2] = { { "PriorityWeightFairshare", "100000" }, { "PriorityWeightQOS", "0" }, { "PriorityFlags", "INCR_ONLY" }, { NULL, NULL } };
    static const char *const bad[][2] = { { "PriorityMaxAge", "soon" }, { NULL, NULL } };
    struct spur_priority_factors f;
    struct loaded *l;

    rank_of("multifactor", keys, &job, 0, &f);
    ck_assert_ptr_nonnull(strstr(logged, "PriorityWeightFairshare=100000 adds nothing yet"));
    ck_assert_ptr_null(strstr(logged, "QOS"));
    ck_assert_ptr_nonnull(strstr(logged, "INCR_ONLY does nothing yet"));
    ck_assert_double_eq_tol(f.job_size, 0.075, 1e-9);
    ck_assert_double_eq(f.partition, 0.25);
    settings = bad;
    ck_assert_int_eq(loader_open(SPUR_KIND_priority, "multifactor", NULL, &host, &l, &err), SPUR_EINVAL);
    says("priority/multifactor: does not open: PriorityMaxAge=soon is not a time");
}
END_TEST

/* ---- select/linear ---- */

#define NODES 8
static struct spur_node_view nodes[NODES];
static uint64_t cores[NODES], picked_cores[NODES], allowed[1] = { 255 };
static struct spur_view view = { .size = sizeof view, .node_size = sizeof *nodes, .nodes = nodes, .node_count = NODES };
static struct spur_node_pick picks[NODES];
static struct spur_placement out;

/* Eight nodes of 4 cores; "busy" lists those with a job. */
static struct spur_ask linear_bed(const char *busy)
{
    for (uint32_t i = 0; i < NODES; i++) {
        bool has_job = strchr(busy, (int)('0' + i)) != NULL;

        cores[i] = has_job ? 0 : 15;
        nodes[i] = (struct spur_node_view){ .index = i, .flags = SPUR_NODE_USABLE | (has_job ? 0 : SPUR_NODE_IDLE), .name = "n", .features = "", .weight = 1, .sockets = 1,
                                            .cores_per_socket = 4, .threads_per_core = 1, .cpus = 4, .mem_total = 1000, .mem_free = has_job ? 0 : 1000, .core_free = &cores[i],
                                            .core_words = 1, .cpus_free = has_job ? 0 : 4, .jobs = has_job };
        picks[i] = (struct spur_node_pick){ .cores = &picked_cores[i], .core_words = 1 };
    }
    out = (struct spur_placement){ .size = sizeof out, .pick_size = sizeof *picks, .picks = picks, .pick_room = NODES };
    return (struct spur_ask){ .size = sizeof(struct spur_ask), .job_id = 1, .min_nodes = 1, .max_nodes = UINT32_MAX, .tasks = 1, .cpus_per_task = 1, .allowed = allowed,
                              .node_words = 1, .gres_size = sizeof(struct spur_gres_ask), .cr = SPUR_CR_MEMORY };
}

/* Places and gives "node:tasks node:tasks ...", or the code. */
static const char *linear_place(const struct spur_ask *ask)
{
    static char text[256];
    struct loaded *l;
    int rc;

    ck_assert_int_eq(loader_open(SPUR_KIND_select, "linear", NULL, NULL, &l, &err), 0);
    rc = ((const struct spur_select_ops *)loader_ops(l))->place(l->self, &view, ask, &out, &err);
    loader_close(l);
    if (rc)
        return rc == SPUR_ELATER ? "later" : rc == SPUR_ENEVER ? "never" : "error";
    text[0] = '\0';
    for (uint32_t i = 0; i < out.pick_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u:%u", i ? " " : "", picks[i].node, picks[i].tasks);
    return text;
}

START_TEST(linear_takes_runs_and_weights)
{
    struct spur_ask a = linear_bed("1");

    ck_assert_str_eq(linear_place(&a), "0:1");              /* the run of one is used up first */
    ck_assert(picks[0].cpus == 4 && picked_cores[0] == 15 && picks[0].mem == 1000);
    a.min_nodes = a.max_nodes = a.tasks = 2;
    ck_assert_str_eq(linear_place(&a), "2:1 3:1");
    a = linear_bed("14");
    a.min_nodes = a.max_nodes = a.tasks = 2;
    ck_assert_str_eq(linear_place(&a), "2:1 3:1");          /* not 5 6 7: that run stays whole */
    a.min_nodes = a.max_nodes = a.tasks = 4;
    ck_assert_str_eq(linear_place(&a), "0:1 2:1 3:1 5:1");
    a.contiguous = true;
    ck_assert_str_eq(linear_place(&a), "later");
    a = linear_bed("");
    nodes[5].weight = 0;
    ck_assert_str_eq(linear_place(&a), "5:1");
    a.tasks = 10;
    a.tasks_set = true;
    a.max_nodes = 3;
    ck_assert_str_eq(linear_place(&a), "5:4 0:4 1:2");
}
END_TEST

START_TEST(linear_ranges_tasks_and_verdicts)
{
    struct spur_ask a = linear_bed("01234");
    uint64_t required[1] = { 64 };

    a.min_nodes = 2;
    a.max_nodes = a.want_nodes = 4;
    a.tasks = 2;
    ck_assert_str_eq(linear_place(&a), "5:1 6:1 7:1");      /* -N 2-4: as many as are free */
    a.tasks = 5;
    a.tasks_set = true;
    a.want_nodes = 0;
    ck_assert_str_eq(linear_place(&a), "5:4 6:1");          /* block distribution keeps one for each node */
    a.tasks_per_node = 2;
    ck_assert_str_eq(linear_place(&a), "5:2 6:2 7:1");
    a = linear_bed("01234");
    a.required = required;
    ck_assert_str_eq(linear_place(&a), "6:1");
    a.min_nodes = a.max_nodes = a.tasks = 4;
    ck_assert_str_eq(linear_place(&a), "later");
    a.min_nodes = a.max_nodes = a.tasks = 9;
    ck_assert_str_eq(linear_place(&a), "never");
    says("9 nodes are asked for, 8 of the 8 allowed can hold a part of the job");
    a = linear_bed("");
    a.cpus_per_task = 5;
    ck_assert_str_eq(linear_place(&a), "never");
    says("(the others have too few CPUs)");
    a = linear_bed("");
    a.mem_per_node = 1001;
    ck_assert_str_eq(linear_place(&a), "never");
    says("too little memory");
    a.mem_per_node = 400;
    ck_assert_str_eq(linear_place(&a), "0:1");
    ck_assert_uint_eq(picks[0].mem, 400);
}
END_TEST

/* ---- gpu/generic ---- */

static struct spur_gpu gpus[80];
static struct spur_gpu_found found;

static int scan(const struct spur_gres_line *lines, uint32_t count, const char *root, bool emulate)
{
    struct loaded *l;
    int rc;

    ck_assert_int_eq(loader_open(SPUR_KIND_gpu, "generic", NULL, NULL, &l, &err), 0);
    found = (struct spur_gpu_found){ .size = sizeof found, .gpu_size = sizeof *gpus, .gpus = gpus, .room = 80 };
    rc = ((const struct spur_gpu_ops *)loader_ops(l))->scan(l->self, lines, count, sizeof *lines, root, emulate, &found, &err);
    loader_close(l);
    return rc;
}

START_TEST(generic_reads_lines)
{
    static const struct spur_gres_line lines[] = {
        { .name = "gpu", .type = "a100", .file = "/dev/nvidia[0-1,3]", .cores = "[0-7]", .flags = "nvidia_gpu_env", .source = "gres.conf", .line = 1 },
        { .name = "gpu", .type = "mi300x", .file = "/dev/dri/renderD[128,136]", .source = "gres.conf", .line = 2 },
        { .name = "shard", .count = "8", .file = "/dev/nvidia3", .source = "gres.conf", .line = 3 },
        { .name = "bandwidth", .count = "10G", .flags = "CountOnly", .source = "gres.conf", .line = 4 },
        { .name = "gpu", .type = "mig", .multiple_files = "/dev/nvidia4,/dev/nvidia-caps/nvidia-cap[21-22]", .source = "gres.conf", .line = 5 },
        { .source = "gres.conf", .line = 6 },       /* AutoDetect alone */
    };

    ck_assert_msg(scan(lines, 6, "/", true) == 0, "%s", err.text);
    ck_assert_uint_eq(found.count, 8);
    ck_assert(gpus[2].index == 2 && strcmp(gpus[2].file, "/dev/nvidia3") == 0 && strcmp(gpus[2].cores, "0-7") == 0 && gpus[2].flags == SPUR_GPU_ENV_CUDA);
    ck_assert(gpus[4].index == 4 && strcmp(gpus[4].file, "/dev/dri/renderD136") == 0 && strcmp(gpus[4].type, "mi300x") == 0);
    ck_assert(gpus[4].flags == (SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL | SPUR_GPU_ENV_INTEL));
    ck_assert(gpus[5].index == 2 && gpus[5].count == 8 && strcmp(gpus[5].name, "shard") == 0);
    ck_assert(gpus[6].count == UINT64_C(10) << 30 && (gpus[6].flags & SPUR_GPU_COUNT_ONLY));
    ck_assert(gpus[7].index == 5 && strcmp(gpus[7].file, "/dev/nvidia4,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22") == 0);
}
END_TEST

START_TEST(generic_refuses_contradictions)
{
    static const struct { struct spur_gres_line line; const char *part; } bad[] = {
        { { .name = "gpu", .file = "/dev/nvidia[0-3]", .count = "3" }, "gres.conf:7: Count=3 contradicts the 4 files of File=/dev/nvidia[0-3]" },
        { { .name = "gpu", .file = "/dev/nvidia0", .multiple_files = "/dev/nvidia1" }, "File and MultipleFiles exclude each other" },
        { { .name = "gpu", .count = "1", .links = "-1" }, "this one has no file" },
        { { .name = "gpu", .file = "/dev/nvidia0", .links = "-1,4" }, "Links row 0: Links=-1,4 has 2 places, the node has 1 devices" },
        { { .name = "gpu", .file = "/dev/nvidia0", .links = "4" }, "-1 must stand at the place of the device itself, which is 0" },
        { { .name = "gpu", .file = "/dev/nvidia0", .links = "-1,-1" }, "two places are -1" },
        { { .name = "gpu", .file = "/dev/nvidia0", .links = "-1,2,-3" }, "Links row 0 column 2 is -3: a number of links from 0 to 255, or -1" },
        { { .name = "gpu", .file = "/dev/nvidia0", .links = "-1,256" }, "Links row 0 column 1 is 256" },
        { { .name = "gpu", .file = "/dev/nvidia0", .links = "x" }, "numbers of links" },
        { { .name = "gpu", .file = "nvidia0" }, "not a full path" },
        { { .name = "gpu", .file = "/dev/nvidia[3-0]" }, "not a list of files" },
        { { .name = "gpu", .file = "/dev/nvidia[0-3" }, "not a list of files" },
        { { .name = "gpu", .file = "/dev/nvidia0,/dev/nvidia0" }, "already device 0 of gpu" },
        { { .name = "gpu", .file = "/dev/nvidia[0-64]" }, "more than 64 devices" },
        { { .name = "gpu", .file = "/dev/nvidia[0-99999]" }, "not a list of files" },
        { { .name = "gpu", .count = "0" }, "Count=0" }, { { .name = "gpu", .count = "4Q" }, "Count=4Q" },
        { { .name = "gpu", .file = "/dev/nvidia0", .cores = "7-3" }, "Cores=7-3" }, { { .name = "gpu", .file = "/dev/nvidia0", .cores = "0,,1" }, "Cores=0,,1" },
        { { .name = "gpu", .file = "/dev/nvidia0", .flags = "CountOnly" }, "CountOnly contradicts a device file" },
        { { .name = "gpu", .file = "/dev/nvidia0", .flags = "no_gpu_env,amd_gpu_env" }, "excludes the other environment flags" },
        { { .name = "gpu", .file = "/dev/nvidia0", .flags = "one_sharing,all_sharing" }, "exclude each other" },
        { { .name = "gpu", .file = "/dev/nvidia0", .flags = "nvida_gpu_env" }, "Flags=nvida_gpu_env: unknown" },
        { { .file = "/dev/nvidia0" }, "has no Name" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spur_gres_line line = bad[i].line;

        line.source = "gres.conf";
        line.line = 7;
        ck_assert_msg(scan(&line, 1, "/", true) == SPUR_EINVAL, "row %zu", i);
        says(bad[i].part);
        says("gres.conf:7: ");
    }
}
END_TEST

START_TEST(generic_links_over_lines)
{
    struct spur_gres_line lines[] = {
        { .name = "gpu", .type = "t", .file = "/dev/dri/renderD128", .links = "-1,4,2", .source = "gres.conf", .line = 1 },
        { .name = "gpu", .type = "t", .file = "/dev/dri/renderD129", .links = "4,-1,2", .source = "gres.conf", .line = 2 },
        { .name = "gpu", .type = "t", .file = "/dev/dri/renderD130", .links = "2,2,-1", .source = "gres.conf", .line = 3 } };

    ck_assert_msg(scan(lines, 3, "/", true) == 0, "%s", err.text);
    ck_assert(gpus[0].mbps[1] == 200000 && gpus[2].mbps[0] == 100000 && gpus[2].line == 3);
    ck_assert(gpus[1].links[0] == 4 && gpus[1].links[1] == -1 && gpus[2].links[0] == 2);
    lines[2].links = "2,1,-1";
    ck_assert_int_eq(scan(lines, 3, "/", true), SPUR_EINVAL);
    says("gres.conf:2: Links row 1 column 2 is 2, but row 2 column 1 (line 3) is 1");
    lines[2].links = "2,-1,2";
    ck_assert_int_eq(scan(lines, 3, "/", true), SPUR_EINVAL);
    says("gres.conf:3: Links=2,-1,2: -1 must stand at the place of the device itself, which is 2");
    lines[2].links = "2,2,-1";
    lines[2].flags = "amd_gpu_env";
    ck_assert_int_eq(scan(lines, 3, "/", true), SPUR_EINVAL);
    says("gres.conf:3: Flags=amd_gpu_env: another line of gpu t has other environment flags");
}
END_TEST

/* AMD: over a common neighbour there is no capacity; NVIDIA routes nothing over others, so PCI Express is left, by the cores. */
START_TEST(generic_weighs_links)
{
    struct spur_gres_line lines[] = {
        { .name = "gpu", .file = "/dev/dri/renderD128", .links = "-1,4,0", .cores = "0-7", .source = "gres.conf", .line = 1 },
        { .name = "gpu", .file = "/dev/dri/renderD129", .links = "4,-1,2", .cores = "0-7", .source = "gres.conf", .line = 2 },
        { .name = "gpu", .file = "/dev/dri/renderD130", .links = "0,2,-1", .cores = "8-15", .source = "gres.conf", .line = 3 } };

    ck_assert_msg(scan(lines, 3, "/", true) == 0, "%s", err.text);
    ck_assert(gpus[0].hops == 4 && gpus[2].hops == 1 && gpus[1].hops == 0 && gpus[0].mbps[2] == 0);
    lines[0].file = "/dev/nvidia0";
    lines[1].file = "/dev/nvidia1";
    lines[2].file = "/dev/nvidia2";
    ck_assert_msg(scan(lines, 3, "/", true) == 0, "%s", err.text);
    ck_assert(gpus[0].hops == 0 && gpus[0].mbps[1] == 100000 && gpus[0].path[1] == SPUR_PATH_NUMA && gpus[0].path[2] == SPUR_PATH_SYSTEM);
}
END_TEST

START_TEST(generic_looks_at_files)
{
    const struct spur_gres_line line = { .name = "gpu", .file = "/dev/nvidia[0-1]", .source = "gres.conf", .line = 1 };
    char root[] = "/tmp/test_plugins.XXXXXX", path[64], command[64];
    const struct spur_gpu_ops *ops;
    struct loaded *l;
    char buf[128];

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(path, sizeof path, "%s/dev", root);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/dev/nvidia0", root);
    fclose(fopen(path, "w"));
    ck_assert_int_eq(scan(&line, 1, root, false), SPUR_EINVAL);
    says("/dev/nvidia1: No such file");
    snprintf(path, sizeof path, "%s/dev/nvidia1", root);
    fclose(fopen(path, "w"));
    ck_assert_int_eq(scan(&line, 1, root, false), 0);
    ck_assert_uint_eq(found.count, 2);
    ck_assert_str_eq(gpus[1].file, "/dev/nvidia1");

    ck_assert_int_eq(loader_open(SPUR_KIND_gpu, "generic", NULL, NULL, &l, &err), 0);
    ops = loader_ops(l);
    ck_assert_int_eq(ops->scan(l->self, &line, 1, sizeof line, root, false, &found, &err), 0);
    ck_assert_int_eq(ops->health(l->self, 1, buf, sizeof buf), 0);
    unlink(path);
    ck_assert_int_eq(ops->health(l->self, 1, buf, sizeof buf), 1);
    ck_assert_ptr_nonnull(strstr(buf, "dev/nvidia1: No such file"));
    ck_assert_int_eq(ops->health(l->self, 0, buf, sizeof buf), 0);
    loader_close(l);
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins");
    TCase *t = tcase_create("plugins");
    SRunner *runner;
    int failed;

    tcase_add_test(t, basic_counts_down);
    tcase_add_test(t, multifactor_by_the_formula);
    tcase_add_test(t, multifactor_tells_what_it_cannot_do);
    tcase_add_test(t, linear_takes_runs_and_weights);
    tcase_add_test(t, linear_ranges_tasks_and_verdicts);
    tcase_add_test(t, generic_reads_lines);
    tcase_add_test(t, generic_refuses_contradictions);
    tcase_add_test(t, generic_links_over_lines);
    tcase_add_test(t, generic_weighs_links);
    tcase_add_test(t, generic_looks_at_files);
    suite_add_tcase(suite, t);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
