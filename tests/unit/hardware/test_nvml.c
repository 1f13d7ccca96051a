/* SPDX-License-Identifier: Apache-2.0 */
/* test_nvml.c - gpu/nvml against the tests' own library: the matrices of the NVIDIA node types, switches, MIG, domains, errors, events. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "hardware/scan.h"
#include "test_hardware.h"

static char text_path[60], conf[400];
static struct config *cfg;
static struct loaded *plugin;

static void stub_begin(void)
{
    struct spur_error err = { 0 };
    int fd;

    snprintf(text_path, sizeof text_path, "/tmp/spur-nvml-XXXXXX");
    fd = mkstemp(text_path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    setenv("SPUR_STUB_NVML", text_path, 1);
    snprintf(conf, sizeof conf, "plugin \"gpu/nvml\" {\n  library = \"%s\"\n}\n", TEST_STUB);
    ck_assert_msg(config_parse("ClusterName=t\nSlurmctldHost=c\nNodeName=n1\nPartitionName=p Nodes=n1\n", NULL, NULL, NULL, conf, &cfg, &err) == 0, "%s", err.text);
    ck_assert_msg(loader_open(SPUR_KIND_gpu, "gpu/nvidia", cfg, NULL, &plugin, &err) == 0, "%s", err.text);
}

static void stub_end(void)
{
    loader_close(plugin);
    config_free(cfg);
    unlink(text_path);
}

__attribute__((format(printf, 1, 2)))
static void say(const char *format, ...)
{
    FILE *f = fopen(text_path, "a");
    va_list args;

    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fclose(f);
}

static void scan(struct rig *m)
{
    struct spur_error err = { 0 };
    struct rows rows;

    memset(m, 0, sizeof *m);
    ck_assert_msg(rows_scan(plugin, NULL, 0, "/nowhere", true, &rows, &err) == 0, "%s", err.text);
    ck_assert(rig_take(m, &rows));
    rig_paths(m->gpus, m->gpu_count);
    scan_rows_fini(&rows);
}

static const struct { const char *name; unsigned arch, gen; bool has_switch; } boards[] = {
    { "rtx8000_bridge", 6, 3, false }, { "dgx1v", 5, 3, false }, { "dgx2_v100x16", 5, 3, true }, { "dgx_a100", 7, 4, true }, { "hgx_h100", 9, 5, true },
    { "hgx_h200", 9, 5, true }, { "gb200_nvl72_node", 10, 5, true }, { "l40s_pcie", 8, 4, false } };

/* Writes a node type as its library would see it: links between GPUs, or links that end at switches. */
static void board_say(const struct fixture *f, unsigned arch, unsigned gen, bool has_switch)
{
    for (uint32_t i = 0; i < f->count; i++) {
        say("gpu %u bdf %s minor %u name NVIDIA_Some arch %u gen %u\n", i, f->gpus[i].bdf, i, arch, gen);
        if (has_switch)
            say("switch %u %u\n", i, f->links[i][i ? 0 : 1]);
        for (uint32_t k = 0; k < i; k++) {
            if (!has_switch && f->links[i][k])
                say("link %u %u %u\n", i, k, f->links[i][k]);
            say("ancestor %u %u %d\n", i, k, f->gpus[i].pcisw == f->gpus[k].pcisw ? 10 : f->gpus[i].numa == f->gpus[k].numa ? 40 : 50);
        }
    }
}

START_TEST(nvml_is_the_fixture)
{
    struct fixture f;
    struct rig m;

    stub_begin();
    fixture_read(boards[_i].name, &f);
    board_say(&f, boards[_i].arch, boards[_i].gen, boards[_i].has_switch);
    scan(&m);
    ck_assert_uint_eq(m.gpu_count, f.count);
    for (uint32_t i = 0; i < f.count; i++) {
        ck_assert_str_eq(m.gpus[i].pci, f.gpus[i].bdf);
        for (uint32_t k = 0; k < f.count; k++) {
            ck_assert_msg(m.gpus[i].mbps[k] == f.mbps[i][k], "%s: bw %u %u is %u, not %u", f.name, i, k, m.gpus[i].mbps[k], f.mbps[i][k]);
            ck_assert_msg(i == k || m.gpus[i].links[k] == (int32_t)f.links[i][k], "%s: links %u %u are %d, not %u", f.name, i, k, (int)m.gpus[i].links[k], f.links[i][k]);
        }
    }
    ck_assert_str_eq(m.gpus[0].type, "nvidia_some");
    ck_assert_str_eq(m.gpus[1].uuid, "GPU-00000001-stub");
    rig_fini(&m);
    stub_end();
}
END_TEST

/* Drivers that do not name the type of the far end, nor the architecture: what is no GPU of this node is a switch. */
START_TEST(old_driver)
{
    struct rig m;

    stub_begin();
    say("gpu 0 bdf 0000:01:00.0 minor 0 name V100 arch 0 gen 3\ngpu 1 bdf 0000:02:00.0 minor 1 name V100 arch 0 gen 3\nswitch 0 6\nswitch 1 5\n"
        "fail nvmlDeviceGetNvLinkRemoteDeviceType 3\n");
    scan(&m);
    ck_assert_int_eq(m.gpus[0].links[1], 5);        /* the smaller number of the two */
    ck_assert_uint_eq(m.gpus[0].mbps[1], 125000);
    rig_fini(&m);
    stub_end();
}
END_TEST

START_TEST(domains)
{
    struct rig m;

    stub_begin();
    for (unsigned i = 0; i < 4; i++)
        say("gpu %u bdf 0000:0%u:00.0 minor %u name GB200 arch 10 gen 5\nswitch %u 18\nfabric %u 00112233445566778899aabbccddeeff %u\n", i, i + 1, i, i, i, i < 3 ? 7 : 8);
    scan(&m);
    ck_assert_str_eq(m.gpus[0].fabric, "00112233445566778899aabbccddeeff.7");
    ck_assert_uint_eq(m.gpus[0].mbps[2], 900000);
    ck_assert_int_eq(m.gpus[0].links[3], 0);        /* another clique: no way over the switches */
    rig_fini(&m);
    stub_end();
}
END_TEST

START_TEST(mig)
{
    struct rig m;

    stub_begin();
    say("gpu 0 bdf 0000:01:00.0 minor 0 name A100 arch 7 gen 4\ngpu 1 bdf 0000:02:00.0 minor 1 name A100 arch 7 gen 4\ngpu 2 bdf 0000:03:00.0 minor 2 name A100 arch 7 gen 4\n"
        "switch 0 12\nswitch 1 12\nswitch 2 12\nmig 1 3g.20gb 1 0\nmig 1 3g.20gb 2 0\n");
    scan(&m);
    ck_assert_uint_eq(m.gpu_count, 4);
    ck_assert_str_eq(m.gpus[1].type, "a100_mig_3g.20gb");
    ck_assert_str_eq(m.gpus[1].uuid, "MIG-00000001-0-stub");
    ck_assert_str_eq(m.gpus[2].file, "/dev/nvidia1");
    ck_assert_uint_eq(m.gpus[1].card, 1);
    ck_assert_uint_eq(m.gpus[2].card, 1);
    ck_assert_uint_eq(m.gpus[3].card, 3);
    ck_assert_int_eq(m.gpus[1].links[0], 0);
    ck_assert_int_eq(m.gpus[1].links[2], 0);
    ck_assert_int_eq(m.gpus[0].links[3], 12);
    rig_fini(&m);
    stub_end();
}
END_TEST

static void file_put(const char *root, const char *name, const char *text)
{
    char path[300];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    ck_assert_ptr_nonnull((f = fopen(path, "w")));
    fputs(text, f);
    fclose(f);
}

static void scan_root(const char *root, struct rig *m)
{
    struct spur_error err = { 0 };
    struct rows rows;

    memset(m, 0, sizeof *m);
    ck_assert_msg(rows_scan(plugin, NULL, 0, root, true, &rows, &err) == 0, "%s", err.text);
    ck_assert(rig_take(m, &rows));
    scan_rows_fini(&rows);
}

/* A MIG instance is opened through three files: the GPU's, and those of two capabilities. */
START_TEST(mig_files)
{
    char root[] = "/tmp/spur-nvml-XXXXXX", command[60];
    struct rig m;

    stub_begin();
    ck_assert_ptr_nonnull(mkdtemp(root));
    file_put(root, "proc/driver/nvidia/capabilities/gpu3/mig/gi5/access", "DeviceFileMinor: 21\nDeviceFileMode: 292\n");
    file_put(root, "proc/driver/nvidia/capabilities/gpu3/mig/gi5/ci0/access", "DeviceFileMinor: 22\n");
    say("gpu 0 bdf 0000:01:00.0 minor 3 name A100 arch 7 gen 4\nmig 0 1g.5gb 5 0\n");
    scan_root(root, &m);
    ck_assert_str_eq(m.gpus[0].file, "/dev/nvidia3,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22");
    rig_fini(&m);
    snprintf(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
    stub_end();
}
END_TEST

/* The driver without its library: devices by PCI address, no links. */
START_TEST(driver_alone)
{
    char root[] = "/tmp/spur-nvml-XXXXXX", command[60];
    struct spur_error err = { 0 };
    struct rows rows;
    struct rig m;

    stub_begin();
    ck_assert_ptr_nonnull(mkdtemp(root));
    say("fail nvmlInit_v2 9\n");
    file_put(root, "proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t\t NVIDIA L40S\nIRQ:   1\nGPU UUID: \t GPU-b\nDevice Minor: \t 0\n");
    file_put(root, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA L40S\nGPU UUID: \t GPU-a\nDevice Minor: \t 1\n");
    scan_root(root, &m);
    ck_assert_uint_eq(m.gpu_count, 2);
    ck_assert_str_eq(m.gpus[0].pci, "0000:01:00.0");
    ck_assert_str_eq(m.gpus[0].file, "/dev/nvidia1");
    ck_assert_str_eq(m.gpus[0].type, "nvidia_l40s");
    ck_assert_str_eq(m.gpus[1].uuid, "GPU-b");
    ck_assert_int_eq(m.gpus[0].links[1], 0);
    rig_fini(&m);
    file_put(root, "proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: NVIDIA L40S\n");
    ck_assert_int_eq(rows_scan(plugin, NULL, 0, root, true, &rows, &err), SPUR_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "0000:41:00.0/information: does not say the device's minor number"));
    snprintf(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
    stub_end();
}
END_TEST

/* What hwloc knows is matched by PCI address: its own order is another one on these nodes. */
START_TEST(matched_by_address)
{
    struct spur_error err = { 0 };
    struct fixture f;
    struct rig m, host;

    stub_begin();
    fixture_read("dgx_a100", &f);
    for (uint32_t i = 0; i < f.count; i++)
        say("gpu %u bdf %s minor %u name A100 arch 7 gen 4\nswitch %u 12\n", i, f.gpus[7 - i].bdf, i, i);     /* the library in another order than hwloc */
    scan(&m);
    memset(&host, 0, sizeof host);
    ck_assert_msg(rig_from_hwloc(TEST_DATA "/topologies/dgx_a100.xml", &host, &err) == 0, "%s", err.text);
    rig_match(&m, &host);
    for (uint32_t i = 0; i < f.count; i++) {
        char cores[32];

        ck_assert_int_eq(m.gpus[i].numa, f.gpus[7 - i].numa);
        snprintf(cores, sizeof cores, "%d-%d", 16 * f.gpus[7 - i].numa, 16 * f.gpus[7 - i].numa + 15);
        ck_assert_str_eq(m.gpus[i].cores, cores);
        for (uint32_t k = 0; k < f.count; k++)
            ck_assert_int_eq(m.gpus[i].pcie_switch == m.gpus[k].pcie_switch, f.gpus[7 - i].pcisw == f.gpus[7 - k].pcisw);
    }
    ck_assert_uint_eq(m.nic_count, f.nics);
    ck_assert_uint_eq(m.cores_per_socket, 64);
    rig_fini(&host);
    rig_fini(&m);
    stub_end();
}
END_TEST

/* One end says a link is up, the other that it is down. */
START_TEST(half_a_link)
{
    struct rig m;

    stub_begin();
    say("gpu 0 bdf 0000:01:00.0 minor 0 name V100 arch 5 gen 3\ngpu 1 bdf 0000:02:00.0 minor 1 name V100 arch 5 gen 3\nhalf 0 1 2\nhalf 1 0 1\n");
    scan(&m);
    ck_assert_int_eq(m.gpus[0].links[1], 1);
    ck_assert_int_eq(m.gpus[1].links[0], 1);
    ck_assert_uint_eq(m.gpus[1].mbps[0], 25000);
    rig_fini(&m);
    stub_end();
}
END_TEST

static const struct { const char *text; int code; const char *sentence; } refusals[] = {
    { "fail nvmlInit_v2 9\n", SPUR_ENOTFOUND, "nvmlInit: Driver Not Loaded" },
    { "fail nvmlInit_v2 999\n", SPUR_EIO, "nvmlInit: Unknown Error" },
    { "fail nvmlDeviceGetCount_v2 999\n", SPUR_EIO, "nvmlDeviceGetCount: Unknown Error" },
    { "fail nvmlDeviceGetHandleByIndex_v2 15\n", SPUR_EIO, "nvmlDeviceGetHandleByIndex of GPU 0: GPU is lost" },
    { "fail nvmlDeviceGetPciInfo_v3 999\n", SPUR_EIO, "nvmlDeviceGetPciInfo of GPU 0: Unknown Error" },
    { "lost 0\n", SPUR_EIO, "nvmlDeviceGetUUID of GPU 0: GPU is lost" },
};

START_TEST(refuses)
{
    struct spur_error err = { 0 };
    struct rows rows;

    stub_begin();
    say("gpu 0 bdf 0000:01:00.0 minor 0 name V100 arch 5 gen 3\n%s", refusals[_i].text);
    ck_assert_int_eq(rows_scan(plugin, NULL, 0, "/nowhere", true, &rows, &err), refusals[_i].code);
    ck_assert_str_eq(err.text, refusals[_i].sentence);
    stub_end();
}
END_TEST

START_TEST(no_library)
{
    struct spur_error err = { 0 };
    struct rows rows;

    stub_begin();
    loader_close(plugin);
    config_free(cfg);
    ck_assert_int_eq(config_parse("ClusterName=t\nSlurmctldHost=c\nNodeName=n1\nPartitionName=p Nodes=n1\n", NULL, NULL, NULL,
                                  "plugin \"gpu/nvml\" {\n  library = \"/nowhere/libnvidia-ml.so\"\n}\n", &cfg, &err), 0);
    ck_assert_int_eq(loader_open(SPUR_KIND_gpu, "gpu/nvml", cfg, NULL, &plugin, &err), 0);
    ck_assert_int_eq(rows_scan(plugin, NULL, 0, "/nowhere", true, &rows, &err), SPUR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/libnvidia-ml.so"));
    stub_end();
}
END_TEST

START_TEST(faults)
{
    const struct spur_gpu_ops *ops;
    struct rig m;
    char buf[120];

    stub_begin();
    ops = loader_ops(plugin);
    say("gpu 0 bdf 0000:01:00.0 minor 0 name V100 arch 5 gen 3\ngpu 1 bdf 0000:02:00.0 minor 1 name V100 arch 5 gen 3\n");
    scan(&m);
    rig_fini(&m);
    ck_assert_int_eq(ops->health(plugin->self, 0, buf, sizeof buf), 0);
    say("xid 1 31\n");          /* a program's own fault */
    ck_assert_int_eq(ops->health(plugin->self, 1, buf, sizeof buf), 0);
    say("xid 1 79\n");
    ck_assert_int_eq(ops->health(plugin->self, 0, buf, sizeof buf), 0);
    ck_assert_int_eq(ops->health(plugin->self, 1, buf, sizeof buf), 1);
    ck_assert_str_eq(buf, "gpu 1 (GPU-00000001-stub): Xid 79");
    say("lost 0\n");
    ck_assert_int_eq(ops->health(plugin->self, 0, buf, sizeof buf), 1);
    ck_assert_str_eq(buf, "gpu 0 (GPU-00000000-stub): the driver no longer shows it");
    ck_assert_int_eq(ops->health(plugin->self, 1, buf, sizeof buf), 1);        /* stays */
    ck_assert_int_eq(ops->health(plugin->self, 2, buf, sizeof buf), 0);
    stub_end();
}
END_TEST

Suite *nvml_suite(void)
{
    Suite *s = suite_create("nvml");
    TCase *t = tcase_create("nvml");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, nvml_is_the_fixture, 0, sizeof boards / sizeof *boards);
    tcase_add_test(t, old_driver);
    tcase_add_test(t, domains);
    tcase_add_test(t, mig);
    tcase_add_test(t, mig_files);
    tcase_add_test(t, driver_alone);
    tcase_add_test(t, matched_by_address);
    tcase_add_test(t, half_a_link);
    tcase_add_loop_test(t, refuses, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(t, no_library);
    tcase_add_test(t, faults);
    suite_add_tcase(s, t);
    return s;
}
