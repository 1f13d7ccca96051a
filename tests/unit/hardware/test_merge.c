/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge.c - lines of gres.conf against what is found: who wins, what is completed, what is refused. */
#include "hardware/scan.h"
#include "test_hardware.h"

#define ALL (SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL | SPUR_GPU_ENV_INTEL)

/* Four found devices: 0-1 and 2-3 joined, 2 and 3 parts of one card. */
static struct spur_gpu four[4];
static struct rows found = { four, 4 };

static void four_make(void)
{
    memset(four, 0, sizeof four);
    for (uint32_t i = 0; i < 4; i++) {
        four[i] = (struct spur_gpu){ .index = i, .name = "gpu", .type = "nvidia_a100-sxm4", .count = 1, .numa = (int)i / 2, .pcie_switch = -1, .card = i == 3 ? 2 : i,
                                     .flags = SPUR_GPU_ENV_CUDA };
        snprintf(four[i].file, sizeof four[i].file, "/dev/nvidia%u", i);
        snprintf(four[i].uuid, sizeof four[i].uuid, "GPU-%u", i);
        snprintf(four[i].cores, sizeof four[i].cores, i < 2 ? "0-7" : "8-15");
        four[i].links[i] = -1;
        four[i].links[i ^ 1] = 4;
        four[i].mbps[i ^ 1] = 100000;
        four[i].hops = UINT64_C(1) << (3 - i);
    }
}

static struct rows written(struct spur_gpu *rows, uint32_t count)
{
    return (struct rows){ rows, count };
}

static struct spur_gpu line(uint32_t index, const char *file, const char *cores)
{
    struct spur_gpu g = { .index = index, .name = "gpu", .count = 1, .numa = -1, .pcie_switch = -1, .line = index + 1, .flags = ALL };

    snprintf(g.file, sizeof g.file, "%s", file);
    snprintf(g.cores, sizeof g.cores, "%s", cores);
    return g;
}

static int merge(struct spur_gpu *rows, uint32_t count, const struct config_gres *wants, size_t n, struct rows *out, struct spur_error *err)
{
    struct rows w = written(rows, count);

    four_make();
    memset(err, 0, sizeof *err);
    return rows_merge(&w, &found, "AutoDetect=nvml", "gres.conf", wants, n, out, err);
}

START_TEST(no_lines)
{
    const struct config_gres wants[] = { { .name = (char *)"gpu", .type = (char *)"A100", .count = 3 } };
    struct spur_error err;
    struct rows out;

    ck_assert_int_eq(merge(NULL, 0, wants, 1, &out, &err), 0);
    ck_assert_uint_eq(out.count, 4);
    ck_assert_str_eq(out.list[2].type, "A100");
    ck_assert_str_eq(out.list[3].type, "nvidia_a100-sxm4");         /* more than the node's line has */
    ck_assert_int_eq(out.list[0].links[1], 4);
    scan_rows_fini(&out);
}
END_TEST

/* The lines' order gives the numbers, and the matrix follows. */
START_TEST(lines_win)
{
    struct spur_gpu lines[3] = { line(0, "/dev/nvidia3", ""), line(1, "/dev/nvidia0", "0-7"), line(2, "/dev/nvidia2", "") };
    struct spur_error err;
    struct rows out;

    snprintf(lines[0].type, sizeof lines[0].type, "mine");
    lines[2].flags = SPUR_GPU_ENV_OPENCL;
    ck_assert_int_eq(merge(lines, 3, NULL, 0, &out, &err), 0);
    ck_assert_uint_eq(out.count, 3);
    ck_assert_str_eq(out.list[0].type, "mine");
    ck_assert_str_eq(out.list[0].uuid, "GPU-3");
    ck_assert_str_eq(out.list[0].cores, "8-15");
    ck_assert_uint_eq(out.list[0].flags, SPUR_GPU_ENV_CUDA);
    ck_assert_uint_eq(out.list[2].flags, SPUR_GPU_ENV_OPENCL);
    ck_assert_int_eq(out.list[0].links[2], 4);
    ck_assert_int_eq(out.list[0].links[0], -1);
    ck_assert_int_eq(out.list[0].links[1], 0);
    ck_assert_uint_eq(out.list[2].mbps[0], 100000);
    ck_assert_uint_eq(out.list[0].hops, 2);             /* 3 over to 0, which is 1 now */
    ck_assert_uint_eq(out.list[0].card, 2);
    ck_assert_uint_eq(out.list[2].card, 2);
    scan_rows_fini(&out);
}
END_TEST

START_TEST(counts_and_shares)
{
    struct spur_gpu lines[2] = { line(0, "", ""), line(0, "/dev/nvidia1", "") };
    struct spur_error err;
    struct rows out;

    lines[0].flags |= SPUR_GPU_COUNT_ONLY;
    lines[0].count = 2;
    snprintf(lines[0].type, sizeof lines[0].type, "a100");
    snprintf(lines[1].name, sizeof lines[1].name, "shard");
    lines[1].flags = 0;
    lines[1].count = 8;
    ck_assert_int_eq(merge(lines, 2, NULL, 0, &out, &err), 0);
    ck_assert_uint_eq(out.count, 3);
    ck_assert_str_eq(out.list[1].file, "/dev/nvidia1");
    ck_assert_str_eq(out.list[2].name, "shard");
    ck_assert_uint_eq(out.list[2].index, 1);
    scan_rows_fini(&out);
    lines[0].count = 5;
    ck_assert_int_eq(merge(lines, 1, NULL, 0, &out, &err), SPUR_EINVAL);
    ck_assert_str_eq(err.text, "gres.conf:1: Count=5 of Type=a100, but AutoDetect=nvml finds 4");
}
END_TEST

START_TEST(contradictions)
{
    struct spur_gpu lines[2] = { line(0, "/dev/nvidia0", ""), line(1, "/dev/nvidia7", "") };
    struct spur_error err;
    struct rows out;

    ck_assert_int_eq(merge(lines, 2, NULL, 0, &out, &err), SPUR_EINVAL);
    ck_assert_str_eq(err.text, "gres.conf:2: File=/dev/nvidia7 is not among the devices that AutoDetect=nvml finds: /dev/nvidia0 /dev/nvidia1 /dev/nvidia2 /dev/nvidia3");
    lines[1] = line(1, "/dev/nvidia1", "8-15");
    ck_assert_int_eq(merge(lines, 2, NULL, 0, &out, &err), SPUR_EINVAL);
    ck_assert_str_eq(err.text, "gres.conf:2: Cores=8-15 of /dev/nvidia1, but AutoDetect=nvml finds 0-7");
    lines[1] = line(1, "/dev/nvidia1", "0-7");
    lines[1].links[0] = 2;
    lines[1].links[1] = -1;
    ck_assert_int_eq(merge(lines, 2, NULL, 0, &out, &err), SPUR_EINVAL);
    ck_assert_str_eq(err.text, "gres.conf:2: Links row 1 column 0 is 2, but AutoDetect=nvml finds 4");
    lines[1].links[0] = 4;
    ck_assert_int_eq(merge(lines, 2, NULL, 0, &out, &err), 0);
    scan_rows_fini(&out);
    ck_assert_int_eq(merge(lines, 0, NULL, 0, &out, &err), 0);
    scan_rows_fini(&out);
}
END_TEST

Suite *merge_suite(void)
{
    Suite *s = suite_create("merge");
    TCase *t = tcase_create("merge");

    tcase_add_test(t, no_lines);
    tcase_add_test(t, lines_win);
    tcase_add_test(t, counts_and_shares);
    tcase_add_test(t, contradictions);
    suite_add_tcase(s, t);
    return s;
}
