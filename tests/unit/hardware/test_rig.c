/* SPDX-License-Identifier: Apache-2.0 */
/* test_rig.c - the rows of a machine from our JSON, the table made of them, the ready lines. */
#include <stdio.h>
#include <unistd.h>

#include "test_hardware.h"

static void read_json(const char *name, struct rig *m)
{
    struct spur_error err = { 0 };
    char path[512];

    snprintf(path, sizeof path, TEST_TOPOLOGIES "/%s.json", name);
    ck_assert_msg(rig_read(path, m, &err) == 0, "%s", err.text);
}

START_TEST(json_is_the_fixture)
{
    struct fixture f;
    struct rig m;
    struct spur_device_table *t;

    fixture_read(fixture_names[_i], &f);
    read_json(fixture_names[_i], &m);
    t = rig_table(&m);
    ck_assert_uint_eq(t->count, f.count);
    ck_assert_uint_eq(t->nic_count, f.nics);
    for (uint32_t i = 0; i < f.count; i++) {
        ck_assert_str_eq(m.gpus[i].pci, f.gpus[i].bdf);
        ck_assert_int_eq(t->numa[i], f.gpus[i].numa);
        ck_assert_int_eq(t->pcie_switch[i], f.gpus[i].pcisw);
        ck_assert_int_ge(t->socket[i], 0);
        for (uint32_t k = 0; k < f.count; k++) {
            ck_assert_msg(t->mbps[i * f.count + k] == f.mbps[i][k], "%s: bw %u %u is %u, not %u", f.name, i, k, t->mbps[i * f.count + k], f.mbps[i][k]);
            ck_assert_uint_eq(t->links[i * f.count + k], f.links[i][k]);
        }
    }
    for (uint32_t i = 0; i < f.nics; i++) {
        ck_assert_str_eq(t->nics[i].name, f.nic[i].name);
        ck_assert_uint_eq(t->nics[i].mbps, f.nic[i].gbps * 1000);
        ck_assert_int_eq(t->nics[i].pcie_switch, f.nic[i].pcisw);
    }
    free(t);
    rig_fini(&m);
}
END_TEST

START_TEST(ready_lines)
{
    struct rig m;
    struct str out;

    str_init(&out);
    read_json("mi300a", &m);
    rig_print_gres(&m, "n1", &out);
    ck_assert_int_eq(strncmp(out.text, "NodeName=n1 Name=gpu Type=mi300a File=/dev/dri/renderD128 Cores=48-71 Links=-1,2,2,2 Flags=amd_gpu_env\n", 100), 0);
    rig_fini(&m);
    str_clear(&out);
    read_json("l40s_pcie", &m);
    rig_print(&m, &out);
    ck_assert_ptr_nonnull(strstr(out.text, "# gpu 3: l40s pci 0000:42:00.0 numa 0 switch 1\n"));
    ck_assert_ptr_nonnull(strstr(out.text, "#     7   12.8   12.8   12.8   12.8   19.2   19.2   25.6      x\n"));
    ck_assert_ptr_nonnull(strstr(out.text, "# nic mlx5_1: numa 1 switch 3 400 Gb/s\n"));
    rig_fini(&m);
    str_fini(&out);
}
END_TEST

static const struct { const char *text, *sentence; } bad[] = {
    { "{", "t.json:1: " },
    { "{}", "t.json: cpu wants packages, numa, cores_per_numa and threads_per_core above 0" },
    { "{\"cpu\":{\"packages\":1,\"numa\":1,\"cores_per_numa\":4,\"threads_per_core\":1},\"gpus\":[]}", "t.json: 0 gpus; 1 to 64 are possible" },
    { "{\"cpu\":{\"packages\":1,\"numa\":1,\"cores_per_numa\":4,\"threads_per_core\":1},\"gpus\":[{},{}],\"bw\":[[0,1]]}", "t.json: bw has 1 rows for 2 gpus" },
    { "{\"cpu\":{\"packages\":1,\"numa\":1,\"cores_per_numa\":4,\"threads_per_core\":1},\"gpus\":[{},{}],\"links\":[[0,1],[1]]}", "t.json: links row 1 has 1 places for 2 gpus" },
    { "{\"cpu\":{\"packages\":1,\"numa\":1,\"cores_per_numa\":4,\"threads_per_core\":1},\"gpus\":[{},{}],\"bw\":[[0,1],[2,0]]}", "t.json: bw row 0 column 1 is 1, row 1 column 0 is 2" },
    { "{\"cpu\":{\"packages\":1,\"numa\":1,\"cores_per_numa\":4,\"threads_per_core\":1},\"gpus\":[{},{}],\"bw\":[[0,-1],[-1,0]]}", "t.json: bw row 0 column 1: a number from 0 is wanted" },
    { "{\"cpu\":{\"packages\":1,\"numa\":1,\"cores_per_numa\":4,\"threads_per_core\":1},\"gpus\":[{},{}],\"bw\":[[0,\"x\"],[1,0]]}", "t.json: bw row 0 column 1: a number from 0 is wanted" },
};

START_TEST(bad_json)
{
    struct spur_error err = { 0 };
    struct rig m;
    char dir[] = "/tmp/spur-hardware-XXXXXX";
    FILE *f;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    f = fopen("t.json", "w");
    fputs(bad[_i].text, f);
    fclose(f);
    ck_assert_int_lt(rig_read("t.json", &m, &err), 0);
    ck_assert_msg(strncmp(err.text, bad[_i].sentence, strlen(bad[_i].sentence)) == 0, "%s", err.text);
    ck_assert_int_eq(rig_read("none.json", &m, &err), SPUR_ENOTFOUND);
    unlink("t.json");
    rmdir(dir);
}
END_TEST

/* A pair without a link is worth the share of its PCIe path; what one end says less of counts for both. */
START_TEST(paths)
{
    struct rig m = { 0 };

    for (int i = 0; i < 4; i++)
        rig_gpu_add(&m)->pcie_mbps = i < 2 ? 32000 : 16000;
    m.gpus[0].numa = m.gpus[1].numa = m.gpus[2].numa = 0;
    m.gpus[3].numa = 1;
    m.gpus[0].pcie_switch = m.gpus[1].pcie_switch = 7;
    m.gpus[0].path[3] = SPUR_PATH_SWITCHES;
    m.gpus[2].hops = 1u << 3;
    m.gpus[1].mbps[3] = 100000;
    m.gpus[3].mbps[1] = 50000;
    m.gpus[1].links[3] = 2;
    m.gpus[3].links[1] = 1;
    rig_paths(m.gpus, 4);
    ck_assert_uint_eq(m.gpus[0].mbps[1], 25600);
    ck_assert_uint_eq(m.gpus[1].mbps[0], 25600);
    ck_assert_uint_eq(m.gpus[0].mbps[2], 9600);
    ck_assert_uint_eq(m.gpus[0].mbps[3], 11200);
    ck_assert_uint_eq(m.gpus[2].mbps[3], 0);
    ck_assert_uint_eq(m.gpus[1].mbps[3], 50000);
    ck_assert_int_eq(m.gpus[1].links[3], 1);
    ck_assert_int_eq(m.gpus[2].links[2], -1);
    rig_fini(&m);
}
END_TEST

Suite *rig_suite(void)
{
    Suite *s = suite_create("rig");
    TCase *t = tcase_create("rig");

    tcase_add_loop_test(t, json_is_the_fixture, 0, 13);
    tcase_add_test(t, ready_lines);
    tcase_add_loop_test(t, bad_json, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, paths);
    suite_add_tcase(s, t);
    return s;
}
