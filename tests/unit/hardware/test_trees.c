/* SPDX-License-Identifier: Apache-2.0 */
/* test_trees.c - KFD trees and hwloc files: the matrix of each node type, and what is refused of a tree that is not whole. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hardware/scan.h"
#include "test_hardware.h"

static void is_fixture(const struct rig *m, const struct fixture *f, const char *kind)
{
    ck_assert_msg(m->gpu_count == f->count, "%s.%s: %u GPUs, not %u", f->name, kind, m->gpu_count, f->count);
    for (uint32_t i = 0; i < f->count; i++) {
        ck_assert_msg(!strcmp(m->gpus[i].pci, f->gpus[i].bdf), "%s.%s: gpu %u is %s, not %s", f->name, kind, i, m->gpus[i].pci, f->gpus[i].bdf);
        ck_assert_msg(m->gpus[i].numa == f->gpus[i].numa, "%s.%s: gpu %u on NUMA node %d, not %d", f->name, kind, i, (int)m->gpus[i].numa, f->gpus[i].numa);
        for (uint32_t k = 0; k < f->count; k++) {
            ck_assert_msg(i == k || m->gpus[i].mbps[k] == f->mbps[i][k], "%s.%s: bw %u %u is %u, not %u", f->name, kind, i, k, m->gpus[i].mbps[k], f->mbps[i][k]);
            ck_assert_msg(i == k || m->gpus[i].links[k] == (int32_t)f->links[i][k], "%s.%s: links %u %u are %d, not %u", f->name, kind, i, k, (int)m->gpus[i].links[k], f->links[i][k]);
        }
    }
}

static void read_data(const char *name, const char *ending, struct rig *m)
{
    struct spur_error err = { 0 };
    char path[512];

    snprintf(path, sizeof path, TEST_DATA "/topologies/%s.%s", name, ending);
    ck_assert_msg(rig_read(path, m, &err) == 0, "%s", err.text);
}

START_TEST(kfd_is_the_fixture)
{
    struct fixture f;
    struct rig m;

    if (!fixture_is_amd(fixture_names[_i]))
        return;
    fixture_read(fixture_names[_i], &f);
    read_data(f.name, "kfdtree", &m);
    is_fixture(&m, &f, "kfdtree");
    ck_assert_uint_eq(m.gpus[1].flags, SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL);
    ck_assert_str_eq(m.gpus[1].file, "/dev/dri/renderD129");
    rig_fini(&m);
}
END_TEST

START_TEST(xml_is_the_fixture)
{
    struct fixture f;
    struct rig m;

    fixture_read(fixture_names[_i], &f);
    read_data(f.name, "xml", &m);
    is_fixture(&m, &f, "xml");
    ck_assert_uint_eq(m.nic_count, f.nics);
    for (uint32_t i = 0; i < f.nics; i++) {
        uint32_t k = 0;

        while (k < m.nic_count && strcmp(m.nics[k].name, f.nic[i].name))
            k++;
        ck_assert_uint_lt(k, m.nic_count);
        ck_assert_int_eq(m.nics[k].numa, f.nic[i].numa);
        for (uint32_t g = 0; g < f.count; g++)      /* on one switch with the same GPUs, whatever the switches are numbered */
            ck_assert_int_eq(m.nics[k].pcie_switch == m.gpus[g].pcie_switch, f.nic[i].pcisw == f.gpus[g].pcisw);
    }
    rig_fini(&m);
}
END_TEST

START_TEST(types)
{
    struct rig m;

    read_data("mi300x", "kfdtree", &m);
    ck_assert_str_eq(m.gpus[0].type, "mi300x");
    rig_fini(&m);
    read_data("mi250x_frontier", "xml", &m);
    ck_assert_str_eq(m.gpus[0].type, "mi250x_gcd");
    ck_assert_str_eq(m.gpus[0].cores, "48-63");
    ck_assert_uint_eq(m.cores_per_socket, 64);
    ck_assert_uint_eq(m.threads_per_core, 2);
    rig_fini(&m);
}
END_TEST

/* ---- trees made for one case ---- */

static char root[40];

__attribute__((format(printf, 2, 3)))
static void put(const char *name, const char *format, ...)
{
    char path[700];
    va_list args;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    f = fopen(path, "w");
    ck_assert_msg(f != NULL, "%s", path);
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fclose(f);
}

#define KFD "sys/class/kfd/kfd/topology/nodes/"

static void cpu_node(int n)
{
    char name[100];

    snprintf(name, sizeof name, KFD "%d/properties", n);
    put(name, "cpu_cores_count 32\nsimd_count 0\nio_links_count 0\np2p_links_count 0\n");
}

static void gpu_node(int n, int links, unsigned long long unique)
{
    char name[100];

    snprintf(name, sizeof name, KFD "%d/properties", n);
    put(name, "cpu_cores_count 0\nsimd_count 440\nio_links_count %d\np2p_links_count 0\nvendor_id 4098\ndevice_id 29857\nlocation_id %d\ndomain 0\ndrm_render_minor %d\nunique_id %llu\n",
        links, n << 8, 127 + n, unique);
}

static void link_put(int from, int number, int to, int type, int weight, int min, int max)
{
    char name[100];

    snprintf(name, sizeof name, KFD "%d/io_links/%d/properties", from, number);
    put(name, "type %d\nnode_from %d\nnode_to %d\nweight %d\nmin_bandwidth %d\nmax_bandwidth %d\n", type, from, to, weight, min, max);
}

static void tree_begin(void)
{
    snprintf(root, sizeof root, "/tmp/spur-hardware-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void tree_end(void)
{
    char command[100];

    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

/* Every discrete GPU has a link of type 2 to its processor: that is PCI Express, and joins no two GPUs. */
START_TEST(pcie_only)
{
    struct spur_error err = { 0 };
    struct rig m;

    tree_begin();
    cpu_node(0);
    for (int i = 1; i <= 2; i++) {
        gpu_node(i, 1, 0);
        link_put(i, 0, 0, 2, 20, 312, 32000);
    }
    ck_assert_msg(rig_read(root, &m, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(m.gpu_count, 2);
    ck_assert_int_eq(m.gpus[0].links[1], 0);
    ck_assert_uint_eq(m.gpus[0].mbps[1], 19200);
    ck_assert_uint_eq(m.gpus[0].card, 0);
    ck_assert_uint_eq(m.gpus[1].card, 1);
    rig_fini(&m);
    tree_end();
}
END_TEST

/* Eight cards of eight partitions each: 64 devices; inside a card light links, between cards one link. */
START_TEST(partitions)
{
    struct spur_error err = { 0 };
    struct rig m;

    tree_begin();
    cpu_node(0);
    for (int i = 1; i <= 64; i++) {
        int n = 0;

        gpu_node(i, 64, 900u + (unsigned)(i - 1) / 8);
        link_put(i, n++, 0, 2, 20, 312, 64000);
        for (int k = 1; k <= 64; k++)
            if (k != i)
                (i - 1) / 8 == (k - 1) / 8 ? link_put(i, n++, k, 11, 13, 819200, 819200) : link_put(i, n++, k, 11, 41, 0, 0);
    }
    ck_assert_msg(rig_read(root, &m, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(m.gpu_count, 64);
    for (uint32_t i = 0; i < 64; i++) {
        ck_assert_uint_eq(m.gpus[i].card, i / 8 * 8);
        for (uint32_t k = 0; k < 64; k++)
            ck_assert_uint_eq(m.gpus[i].mbps[k], i == k ? 0 : i / 8 == k / 8 ? 819200 : 64000);
    }
    rig_fini(&m);
    tree_end();
}
END_TEST

/* Two links from one end, one from the other (a lane is down): one counts. */
START_TEST(uneven_ends)
{
    struct spur_error err = { 0 };
    struct rig m;

    tree_begin();
    cpu_node(0);
    gpu_node(1, 2, 1);
    gpu_node(2, 2, 2);
    link_put(1, 0, 0, 2, 20, 312, 32000);
    link_put(2, 0, 0, 2, 20, 312, 32000);
    link_put(1, 1, 2, 11, 15, 50000, 100000);
    link_put(2, 1, 1, 11, 15, 50000, 50000);
    ck_assert_msg(rig_read(root, &m, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(m.gpus[0].mbps[1], 50000);
    ck_assert_int_eq(m.gpus[0].links[1], 1);
    rig_fini(&m);
    tree_end();
}
END_TEST

static void refused(const char *sentence)
{
    struct spur_error err = { 0 };
    struct rig m;

    ck_assert_int_lt(rig_read(root, &m, &err), 0);
    ck_assert_msg(strstr(err.text, sentence) != NULL, "\"%s\" says nothing of \"%s\"", err.text, sentence);
    ck_assert_uint_eq(m.gpu_count, 0);
}

START_TEST(not_whole)
{
    char path[200];
    struct spur_error err = { 0 };
    struct rig m;

    tree_begin();
    cpu_node(0);
    gpu_node(1, 2, 1);
    gpu_node(2, 1, 2);
    link_put(1, 0, 0, 2, 20, 312, 32000);
    link_put(2, 0, 0, 2, 20, 312, 32000);
    refused("nodes/1/io_links: the driver counts 2 links, 1 are there");
    link_put(1, 1, 9, 11, 15, 50000, 50000);
    refused("KFD node 1: a link goes to node 9, which is not there");
    put(KFD "1/io_links/1/properties", "type 11\nnode_from 2\nnode_to 2\nweight 15\n");
    refused("nodes/1/io_links/1/properties: begins at node 2, but belongs to node 1");
    link_put(1, 1, 2, 11, 15, 50000, 50000);
    put(KFD "2/properties", "cpu_cores_count 0\n");
    refused("nodes/2/properties: has no simd_count");
    snprintf(path, sizeof path, "%s/" KFD "2/properties", root);
    unlink(path);
    refused("nodes/2/properties: No such file or directory");
    tree_end();
    tree_begin();
    put("sys/x", "1\n");
    ck_assert_int_eq(rig_read(root, &m, &err), 0);      /* no AMD driver: no device, and nothing wrong */
    ck_assert_uint_eq(m.gpu_count, 0);
    rig_fini(&m);
    tree_end();
}
END_TEST

/* Where devices hang is read by PCI address from sysfs: two on one switch, one on another, a network device beside it, and one that shares only the host bridge. */
START_TEST(places)
{
    static const char *const at[] = { "pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:01.0/0000:02:00.0", "pci0000:80/0000:80:01.0/0000:03:00.0", "pci0000:80/0000:80:03.0/0000:05:00.0" };
    struct spur_error err = { 0 };
    char name[300], target[300], path[300];
    struct rig m;

    tree_begin();
    cpu_node(0);
    cpu_node(1);
    for (int i = 0; i < 8; i++) {       /* two sockets of two cores of two threads, numbered across */
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
        put(name, "%d,%d\n", i % 4, i % 4 + 4);
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/physical_package_id", i);
        put(name, "%d\n", i % 2);
    }
    for (int i = 0; i < 4; i++) {
        int bus = i < 3 ? i + 1 : 5;

        gpu_node(2 + i, 1, 10 + (unsigned)i);
        snprintf(name, sizeof name, KFD "%d/properties", 2 + i);
        put(name, "cpu_cores_count 0\nsimd_count 440\nio_links_count 1\np2p_links_count 0\nvendor_id 4098\ndevice_id 29711\nlocation_id %d\ndomain 0\ndrm_render_minor %d\nunique_id %d\n",
            bus << 8, 128 + i, 10 + i);
        link_put(2 + i, 0, i >= 2, 2, 20, 312, 32000);
        snprintf(name, sizeof name, "sys/devices/%s/numa_node", at[i]);
        put(name, "%d\n", i >= 2);
        snprintf(name, sizeof name, "sys/devices/%s/local_cpulist", at[i]);
        put(name, i >= 2 ? "1,3,5,7\n" : "0,2,4,6\n");
        snprintf(path, sizeof path, "%s/sys/bus/pci/devices/0000:%02d:00.0", root, bus);
        put("sys/bus/pci/devices/x", "0\n");
        snprintf(target, sizeof target, "../../../devices/%s", at[i]);
        ck_assert_int_eq(symlink(target, path), 0);
    }
    put("sys/devices/pci0000:80/0000:80:01.0/0000:04:00.0/class", "0x020700\n");
    put("sys/devices/pci0000:80/0000:80:01.0/0000:04:00.0/numa_node", "1\n");
    put("sys/devices/pci0000:80/0000:80:01.0/0000:04:00.0/infiniband/mlx5_0/x", "1\n");
    put("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/0000:04:00.0", root);
    ck_assert_int_eq(symlink("../../../devices/pci0000:80/0000:80:01.0/0000:04:00.0", path), 0);
    ck_assert_msg(rig_read(root, &m, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(m.sockets, 2);
    ck_assert_uint_eq(m.cores_per_socket, 2);
    ck_assert_uint_eq(m.threads_per_core, 2);
    ck_assert_str_eq(m.gpus[0].cores, "0-1");
    ck_assert_str_eq(m.gpus[2].cores, "2-3");
    ck_assert_int_eq(m.gpus[2].numa, 1);
    ck_assert_int_eq(m.gpus[0].pcie_switch, m.gpus[1].pcie_switch);
    ck_assert_int_ne(m.gpus[0].pcie_switch, m.gpus[2].pcie_switch);
    ck_assert_uint_eq(m.gpus[0].mbps[1], 25600);
    ck_assert_uint_eq(m.gpus[0].mbps[2], 12800);
    ck_assert_uint_eq(m.gpus[2].path[3], SPUR_PATH_BRIDGE);
    ck_assert_int_ne(m.gpus[2].pcie_switch, m.gpus[3].pcie_switch);
    ck_assert_uint_eq(m.nic_count, 1);
    ck_assert_str_eq(m.nics[0].name, "mlx5_0");
    ck_assert_uint_eq(m.nics[0].mbps, 400000);
    ck_assert_int_eq(m.nics[0].pcie_switch, m.gpus[2].pcie_switch);
    rig_fini(&m);
    tree_end();
}
END_TEST

START_TEST(not_a_topology)
{
    struct spur_error err = { 0 };
    char path[200];
    struct rig m;

    tree_begin();
    put("a.xml", "<x/>");
    put("b.kfdtree", "properties\n");
    put("c.kfdtree", "== ../x\n");
    put("d.txt", "gpus 4\n");
    snprintf(path, sizeof path, "%s/a.xml", root);
    ck_assert_int_eq(rig_read(path, &m, &err), SPUR_ESYNTAX);
    snprintf(path, sizeof path, "%s/b.kfdtree", root);
    ck_assert_int_eq(rig_read(path, &m, &err), SPUR_ESYNTAX);
    snprintf(path, sizeof path, "%s/c.kfdtree", root);
    ck_assert_int_eq(rig_read(path, &m, &err), SPUR_EINVAL);
    snprintf(path, sizeof path, "%s/d.txt", root);
    ck_assert_int_eq(rig_read(path, &m, &err), SPUR_EUNSUPPORTED);
    ck_assert_int_eq(rig_read(root, &m, &err), SPUR_EINVAL);
    tree_end();
}
END_TEST

Suite *trees_suite(void)
{
    Suite *s = suite_create("trees");
    TCase *t = tcase_create("trees");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, kfd_is_the_fixture, 0, 13);
    tcase_add_loop_test(t, xml_is_the_fixture, 0, 13);
    tcase_add_test(t, types);
    tcase_add_test(t, pcie_only);
    tcase_add_test(t, partitions);
    tcase_add_test(t, uneven_ends);
    tcase_add_test(t, not_whole);
    tcase_add_test(t, places);
    tcase_add_test(t, not_a_topology);
    suite_add_tcase(s, t);
    return s;
}
