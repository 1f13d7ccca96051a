/* SPDX-License-Identifier: Apache-2.0 */
/* test_cgroup.c - contain/cgroup on trees laid out by the test: what it finds, which files it writes, and what its program for devices answers. */
#include <check.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../../plugins/contain/cgroup/devices.h"
#include "../../../../plugins/contain/cgroup/tree.h"

extern const struct spur_plugin spur_plugin_contain_cgroup;

static char root[64];

static void put(const char *path, const char *text)
{
    char full[300];
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

static void is(const char *path, const char *text)
{
    char got[256];

    ck_assert_msg(file_read(root, path, got, sizeof got), "%s is not there", path);
    ck_assert_str_eq(got, text);
}

static void begin(void)
{
    strcpy(root, "/tmp/spur-cgroup.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void end(void)
{
    char command[100];

    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static const char *no_text(const struct spur_conf *conf, const char *name) { (void)conf; (void)name; return ""; }
static const char *mount_point(void *ctx, const char *key) { (void)ctx; return !strcmp(key, "CgroupMountpoint") ? root : NULL; }

static void *opened(void)
{
    static const struct spur_host host = { .size = sizeof host, .conf_text = no_text, .config = mount_point };
    void *self = NULL;

    ck_assert_int_eq(spur_plugin_contain_cgroup.open(&host, NULL, &self, NULL), 0);
    return self;
}

START_TEST(machines_are_told_apart)
{
    struct spur_error err = { 0 };
    struct tree t;
    char words[200];

    ck_assert_int_eq(tree_look(root, 0, &t, &err), SPUR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "proctrack/linuxproc"));
    put("freezer/cgroup.procs", "");
    put("memory/cgroup.procs", "");
    put("memory/memory.memsw.limit_in_bytes", "");
    ck_assert_int_eq(tree_look(root, 0, &t, &err), 0);
    ck_assert(!t.unified[0] && t.is_v1[CTL_MEMORY] && t.has_memsw && !t.is_v1[CTL_CPUSET]);
    ck_assert_ptr_nonnull(strstr(tree_words(&t, words, sizeof words), "version 1"));
    put("unified/cgroup.controllers", "cpuset pids\n");
    ck_assert_int_eq(tree_look(root, 0, &t, &err), 0);
    ck_assert(t.unified[0] && t.is_v1[CTL_MEMORY] && t.is_in_unified[CTL_CPUSET] && t.is_in_unified[CTL_PIDS] && !t.is_in_unified[CTL_IO]);
    ck_assert_ptr_nonnull(strstr(tree_words(&t, words, sizeof words), "hybrid"));
    ck_assert_int_eq(tree_look(root, 2, &t, &err), 0);
    ck_assert(!t.is_v1[CTL_MEMORY] && !t.is_in_unified[CTL_MEMORY]);
    ck_assert_int_eq(tree_look(root, 1, &t, &err), 0);
    ck_assert(!t.unified[0] && !t.is_in_unified[CTL_PIDS]);
    put("cgroup.controllers", "cpuset cpu io memory pids\n");
    ck_assert_int_eq(tree_look(root, 2, &t, &err), 0);
    ck_assert_str_eq(t.unified, root);
    ck_assert(t.is_in_unified[CTL_MEMORY] && t.is_in_unified[CTL_IO]);
}
END_TEST

static const struct spur_contain_step step = { .size = sizeof step, .job_id = 7, .step_id = 0, .step = "0", .scope = "s" };

START_TEST(limits_of_version_2)
{
    struct spur_contain_limits l = { .size = sizeof l, .cpus = "0-3", .memory = 1000, .memory_soft = 800, .memory_swap = 1500, .swappiness = SPUR_CONTAIN_NONE, .pids = 9 };
    const struct spur_contain_ops *ops = spur_plugin_contain_cgroup.ops;
    struct spur_error err = { 0 };
    void *self, *box;

    put("cgroup.controllers", "cpuset io memory pids\n");
    for (int i = 0; i < 2; i++) {
        static const char *const folders[] = { "s/job_7", "s/job_7/step_0" }, *const files[] = { "memory.max", "memory.high", "memory.swap.max", "cpuset.cpus", "pids.max", "cgroup.procs" };

        for (int k = 0; k < 6; k++) {
            char path[64];

            snprintf(path, sizeof path, "%s/%s", folders[i], files[k]);
            put(path, "");
        }
    }
    self = opened();
    ck_assert_msg(ops->create(self, &step, &l, &l, &box, &err) == 0, "%s", err.text);
    is("s/job_7/memory.max", "1000");
    is("s/job_7/step_0/memory.max", "1000");
    is("s/job_7/step_0/memory.high", "800");
    is("s/job_7/step_0/memory.swap.max", "500");
    is("s/job_7/step_0/cpuset.cpus", "0-3");
    is("s/job_7/step_0/pids.max", "9");
    ck_assert_uint_eq(ops->oom_kills(self, box), 0);
    put("s/job_7/step_0/memory.events", "low 0\nhigh 1\nmax 3\noom 2\noom_kill 2\n");
    ck_assert_uint_eq(ops->oom_kills(self, box), 2);
    ops->destroy(self, box);
    spur_plugin_contain_cgroup.close(self);
}
END_TEST

START_TEST(limits_of_version_1)
{
    struct spur_contain_limits l = { .size = sizeof l, .memory = 1000, .memory_soft = SPUR_CONTAIN_NONE, .memory_swap = 1500, .swappiness = 10, .pids = SPUR_CONTAIN_NONE };
    const struct spur_contain_ops *ops = spur_plugin_contain_cgroup.ops;
    struct spur_error err = { 0 };
    void *self, *box;

    put("freezer/cgroup.procs", "");
    put("memory/cgroup.procs", "");
    put("memory/s/job_7/step_0/memory.limit_in_bytes", "");
    put("memory/s/job_7/step_0/memory.memsw.limit_in_bytes", "");
    put("memory/s/job_7/step_0/memory.swappiness", "");
    self = opened();
    ck_assert_msg(ops->create(self, &step, NULL, &l, &box, &err) == 0, "%s", err.text);
    is("memory/s/job_7/step_0/memory.limit_in_bytes", "1000");
    is("memory/s/job_7/step_0/memory.memsw.limit_in_bytes", "1500");
    is("memory/s/job_7/step_0/memory.swappiness", "10");
    put("memory/s/job_7/step_0/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    ck_assert_uint_eq(ops->oom_kills(self, box), 1);
    ops->destroy(self, box);
    l.cpus = "0";               /* a controller that this machine lacks */
    ck_assert_int_lt(ops->create(self, &step, NULL, &l, &box, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "cpuset"));
    spur_plugin_contain_cgroup.close(self);
}
END_TEST

/* The few instructions that devices_program uses, as the kernel runs them. */
static int answer(const struct bpf_insn *p, size_t n, uint32_t type, uint32_t major, uint32_t minor)
{
    const struct bpf_cgroup_dev_ctx ctx = { .access_type = 2u << 16 | type, .major = major, .minor = minor };
    uint64_t r[11] = { 0 };

    for (size_t at = 0; at < n; at++) {
        switch (p[at].code) {
        case BPF_LDX | BPF_MEM | BPF_W: r[p[at].dst_reg] = *(const uint32_t *)(const void *)((const char *)&ctx + p[at].off); break;
        case BPF_ALU | BPF_AND | BPF_K: r[p[at].dst_reg] &= (uint32_t)p[at].imm; break;
        case BPF_ALU64 | BPF_MOV | BPF_K: r[p[at].dst_reg] = (uint64_t)p[at].imm; break;
        case BPF_JMP | BPF_JEQ | BPF_K: at += r[p[at].dst_reg] == (uint64_t)p[at].imm ? (size_t)p[at].off : 0; break;
        case BPF_JMP | BPF_JNE | BPF_K: at += r[p[at].dst_reg] != (uint64_t)p[at].imm ? (size_t)p[at].off : 0; break;
        case BPF_JMP | BPF_EXIT: return (int)r[0];
        default: ck_abort_msg("instruction %#x", p[at].code);
        }
    }
    ck_abort_msg("the program runs past its end");
    return -1;
}

START_TEST(devices_by_program)
{
    static const struct spur_contain_device rows[] = { { 195, 0, false }, { 195, 1, true }, { 235, 0, false }, { 226, 128, false }, { 226, 129, true } };
    static const struct { uint32_t type, major, minor; int may; } asked[] = {
        { BPF_DEVCG_DEV_CHAR, 195, 1, 1 }, { BPF_DEVCG_DEV_CHAR, 195, 0, 0 }, { BPF_DEVCG_DEV_CHAR, 195, 7, 0 }, { BPF_DEVCG_DEV_CHAR, 235, 0, 0 },
        { BPF_DEVCG_DEV_CHAR, 226, 129, 1 }, { BPF_DEVCG_DEV_CHAR, 226, 128, 0 }, { BPF_DEVCG_DEV_CHAR, 1, 3, 1 }, { BPF_DEVCG_DEV_CHAR, 5, 0, 1 },
        { BPF_DEVCG_DEV_BLOCK, 235, 0, 1 }, { BPF_DEVCG_DEV_CHAR, 1, 195, 1 } };
    struct bpf_insn p[128];
    size_t n = devices_program(rows, 5, sizeof *rows, NULL);

    ck_assert_uint_lt(n, 128);
    ck_assert_uint_eq(devices_program(rows, 5, sizeof *rows, p), n);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        ck_assert_msg(answer(p, n, asked[i].type, asked[i].major, asked[i].minor) == asked[i].may, "row %zu", i);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("contain");
    TCase *t = tcase_create("cgroup");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, machines_are_told_apart);
    tcase_add_test(t, limits_of_version_2);
    tcase_add_test(t, limits_of_version_1);
    tcase_add_test(t, devices_by_program);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
