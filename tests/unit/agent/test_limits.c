/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c - the arithmetic of cgroup.conf, CPUs of cores and devices of GPUs, on trees of the test's own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/limits.h"
#include "test_agent.h"

#define MIB (UINT64_C(1) << 20)
#define NONE UINT64_MAX

START_TEST(memory_by_the_manual)
{
    static const struct { struct config_cgroup g; uint64_t given, hard, soft, both; } rows[] = {     /* MiB, on a machine of 1000 */
        { { .allowed_ram = 10000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 100, NONE, NONE, NONE },
        { { .ram = true, .allowed_ram = 10000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 100, 100, 100, NONE },
        { { .ram = true, .allowed_ram = 15000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 100, 150, 100, NONE },
        { { .ram = true, .allowed_ram = 5000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 100, 50, 50, NONE },
        { { .ram = true, .allowed_ram = 10000, .max_ram = 5000, .max_swap = 10000, .min_ram_mib = 30 }, 800, 500, 500, NONE },
        { { .ram = true, .allowed_ram = 10000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 4, 30, 30, NONE },
        { { .ram = true, .allowed_ram = 10000, .max_ram = 8000, .max_swap = 10000, .min_ram_mib = 30 }, 0, 800, 800, NONE },
        { { .ram = true, .swap = true, .allowed_ram = 10000, .allowed_swap = 5000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 100, 100, 100, 150 },
        { { .ram = true, .swap = true, .allowed_ram = 10000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 100, 100, 100, 100 },
        { { .swap = true, .allowed_ram = 20000, .allowed_swap = 5000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30 }, 100, 150, 100, 150 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct limits_memory m = limits_memory(&rows[i].g, rows[i].given * MIB, 1000 * MIB);

        ck_assert_msg(m.hard == (rows[i].hard == NONE ? NONE : rows[i].hard * MIB), "row %zu: hard %llu", i, (unsigned long long)(m.hard / MIB));
        ck_assert_msg(m.soft == (rows[i].soft == NONE ? NONE : rows[i].soft * MIB), "row %zu: soft %llu", i, (unsigned long long)(m.soft / MIB));
        ck_assert_msg(m.with_swap == (rows[i].both == NONE ? NONE : rows[i].both * MIB), "row %zu: both %llu", i, (unsigned long long)(m.with_swap / MIB));
    }
}
END_TEST

static void put(const char *root, const char *path, const char *text)
{
    char full[600];
    FILE *f;

    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *s = full + 1; (s = strchr(s, '/')); s++) {
        *s = '\0';
        mkdir(full, 0755);
        *s = '/';
    }
    ck_assert_ptr_nonnull(f = fopen(full, "w"));
    fputs(text, f);
    fclose(f);
}

static void root_make(char root[64])
{
    strcpy(root, "/tmp/spur-limits.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void root_remove(const char *root)
{
    char command[100];

    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

/* Two sockets of two cores with two threads, numbered as most machines do: CPU n and n + 4 are one core; core ids have a gap. */
START_TEST(cpus_of_cores)
{
    static const int package[4] = { 0, 0, 1, 1 }, core[4] = { 0, 8, 0, 8 };
    static const struct { uint64_t cores; const char *cpus; } rows[] = { { 1, "0,4" }, { 2, "1,5" }, { 4, "2,6" }, { 9, "0,3-4,7" }, { 15, "0-7" }, { 16, NULL }, { 0, NULL } };
    char root[64], path[128], text[16];

    root_make(root);
    for (int c = 0; c < 8; c++) {
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/physical_package_id", c);
        snprintf(text, sizeof text, "%d\n", package[c % 4]);
        put(root, path, text);
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/core_id", c);
        snprintf(text, sizeof text, "%d\n", core[c % 4]);
        put(root, path, text);
    }
    put(root, "sys/devices/system/cpu/cpu9/online", "0\n");
    put(root, "sys/devices/system/cpu/cpufreq/boost", "0\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t word = rows[i].cores;
        struct bitmap b = { .bits = 64, .words = &word };
        struct str out;

        str_init(&out);
        ck_assert_int_eq(limits_cpus(root, &b, &out), rows[i].cpus != NULL);
        if (rows[i].cpus)
            ck_assert_str_eq(out.text, rows[i].cpus);
        str_fini(&out);
    }
    root_remove(root);
}
END_TEST

static bool may(const char *root, const struct limits_devices *d, const char *path, const char *own)
{
    for (size_t i = 0; i < d->count; i++)
        if (!strcmp(d->list[i].path, path))
            return limits_may_open(root, &d->list[i], &own, own ? 1 : 0);
    ck_abort_msg("%s is not among the devices", path);
    return false;
}

START_TEST(devices_of_both_vendors)
{
    struct limits_devices d;
    char root[64], path[256];

    root_make(root);
    put(root, "dev/nvidia0", "c 195:0");
    put(root, "dev/nvidia1", "c 195:1");
    put(root, "dev/nvidiactl", "c 195:255");
    put(root, "dev/nvidia-uvm", "c 510:0");
    put(root, "dev/nvidia-caps/nvidia-cap1", "c 511:1");
    put(root, "dev/kfd", "c 235:0");
    put(root, "dev/dri/renderD128", "c 226:128");
    put(root, "dev/dri/renderD129", "c 226:129");
    put(root, "dev/dri/card0", "c 226:0");
    put(root, "dev/dri/card1", "c 226:1");
    put(root, "dev/null", "c 1:3");
    put(root, "dev/nvidia-notes", "c 1:1");
    for (int i = 0; i < 2; i++) {
        char to[64];

        snprintf(to, sizeof to, "../../../pci%d", i);
        snprintf(path, sizeof path, "sys/class/drm/renderD%d/x", 128 + i);
        put(root, path, "");
        snprintf(path, sizeof path, "%s/sys/class/drm/renderD%d/device", root, 128 + i);
        ck_assert_int_eq(symlink(to, path), 0);
        snprintf(path, sizeof path, "sys/class/drm/card%d/x", i);
        put(root, path, "");
        snprintf(path, sizeof path, "%s/sys/class/drm/card%d/device", root, i);
        ck_assert_int_eq(symlink(to, path), 0);
    }
    limits_devices(root, &d);
    ck_assert_uint_eq(d.count, 10);
    for (size_t i = 0; i < d.count; i++)
        ck_assert(!limits_may_open(root, &d.list[i], NULL, 0));        /* a job without GPUs opens none */
    ck_assert(may(root, &d, "/dev/nvidia1", "/dev/nvidia1") && !may(root, &d, "/dev/nvidia0", "/dev/nvidia1"));
    ck_assert(may(root, &d, "/dev/nvidiactl", "/dev/nvidia1") && may(root, &d, "/dev/nvidia-uvm", "/dev/nvidia1"));
    ck_assert(may(root, &d, "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia1") && !may(root, &d, "/dev/kfd", "/dev/nvidia1"));
    ck_assert(may(root, &d, "/dev/dri/renderD129", "/dev/dri/renderD129") && !may(root, &d, "/dev/dri/renderD128", "/dev/dri/renderD129"));
    ck_assert(may(root, &d, "/dev/kfd", "/dev/dri/renderD129") && !may(root, &d, "/dev/nvidiactl", "/dev/dri/renderD129"));
    ck_assert(may(root, &d, "/dev/dri/card1", "/dev/dri/renderD129") && !may(root, &d, "/dev/dri/card0", "/dev/dri/renderD129"));
    limits_devices_fini(&d);
    root_remove(root);
}
END_TEST

TCase *case_limits(void)
{
    TCase *t = tcase_create("limits");

    tcase_add_test(t, memory_by_the_manual);
    tcase_add_test(t, cpus_of_cores);
    tcase_add_test(t, devices_of_both_vendors);
    return t;
}
