/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.c - files on disk: includes, files beside the main one, damage, and the hints of commands. */
#include "test_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

static char dir[64];

static void folder_make(void)
{
    snprintf(dir, sizeof dir, "/tmp/spur-config-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void folder_remove(void)
{
    static const char *const names[] = { "slurm.conf", "gres.conf", "topology.conf", "cgroup.conf", "spur.conf", "site.conf", "site.gres.conf", "sub/a.conf", "sub/x-b.conf" };
    char path[160];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/sub", dir);
    rmdir(path);
    rmdir(dir);
}

static const char *file_write(const char *name, const char *text, size_t len)
{
    static char path[160];
    FILE *f;

    snprintf(path, sizeof path, "%s/sub", dir);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, len, f), len);
    fclose(f);
    return path;
}

static const char *text_write(const char *name, const char *text)
{
    return file_write(name, text, strlen(text));
}

START_TEST(includes)
{
    struct config *c;
    struct spur_error err = { 0 };
    const char *path;

    text_write("sub/a.conf", "NodeName=a\nInclude sub/%c-b.conf\nNodeName=d\n");
    text_write("sub/x-b.conf", "NodeName=b\nNodeName=c Bad=1");
    path = text_write("slurm.conf", "ClusterName=X\ninclude sub/a.conf # all\nPartitionName=p Nodes=ALL");
    ck_assert_int_lt(config_load(path, false, &c, &err), 0);
    ck_assert_msg(strstr(err.text, "sub/x-b.conf line 2: unknown keyword \"Bad\"") != NULL, "%s", err.text);
    text_write("sub/x-b.conf", "NodeName=b\nNodeName=c");
    path = text_write("slurm.conf", "ClusterName=X\ninclude sub/a.conf # all\nPartitionName=p Nodes=ALL");
    ck_assert_msg(config_load(path, false, &c, &err) == 0, "%s", err.text);
    ck_assert_str_eq(c->partitions[0].nodes_text, "a,b,c,d");
    ck_assert_str_eq(c->notes[5].file, "slurm.conf");
    ck_assert_uint_eq(c->notes[5].line, 3);
    config_free(c);
    text_write("sub/a.conf", "NodeName=a\nInclude %c-b.conf\nNodeName=d\n");      /* beside the file that includes it */
    path = text_write("slurm.conf", "ClusterName=X\ninclude sub/a.conf # all\nPartitionName=p Nodes=ALL");
    ck_assert_msg(config_load(path, false, &c, &err) == 0, "%s", err.text);
    ck_assert_str_eq(c->partitions[0].nodes_text, "a,b,c,d");
    config_free(c);
}
END_TEST

START_TEST(damage)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_int_eq(config_load("/nonexistent/slurm.conf", false, &c, &err), SPUR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/slurm.conf"));
    ck_assert_int_lt(config_load(text_write("slurm.conf", "ClusterName=x\nInclude missing.conf\n"), false, &c, &err), 0);
    ck_assert_msg(strstr(err.text, "slurm.conf line 2: include") != NULL, "%s", err.text);
    ck_assert_int_lt(config_load(text_write("slurm.conf", "Include slurm.conf\n"), false, &c, &err), 0);
    ck_assert_int_lt(config_load(file_write("slurm.conf", "A=1\0B=2", 7), false, &c, &err), 0);
    ck_assert_msg(strstr(err.text, "zero byte") != NULL, "%s", err.text);
    ck_assert_int_lt(config_load(dir, false, &c, &err), 0);
}
END_TEST

START_TEST(files_beside)
{
    struct config *c;
    struct spur_error err = { 0 };
    const char *path;

    text_write("gres.conf", "Name=gpu Count=1\n");
    text_write("site.gres.conf", "Name=gpu Count=2\n");
    text_write("cgroup.conf", "ConstrainCores=yes\n");
    text_write("spur.conf", "run_dir = /run/here\n");
    path = text_write("site.conf", "ClusterName=x\nGresTypes=gpu\n");
    ck_assert_msg(config_load(path, false, &c, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(c->gres_lines[0].count, 2);
    ck_assert_str_eq(config_setting(c, SETTING_run_dir), "/run/here");
    ck_assert_str_eq(c->path, path);
    config_free(c);
    path = text_write("slurm.conf", "ClusterName=x\nGresTypes=gpu\n");
    ck_assert_msg(config_load(path, false, &c, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(c->gres_lines[0].count, 1);
    config_free(c);
}
END_TEST

/* All errors of a file at once, for `spur config check`. */
START_TEST(keep_going)
{
    struct config *c;
    struct spur_error err = { 0 };
    size_t errors = 0;
    const char *path = text_write("slurm.conf", "ClusterName=x\nSlurmdTimeot=1\nNodeName=a CPUs=x\nKillWait=a\nPartitionName=p Nodes=zz\nNodeName=b\n");

    ck_assert_int_lt(config_load(path, true, &c, &err), 0);
    ck_assert_ptr_nonnull(c);
    ck_assert_msg(strstr(err.text, "line 2") != NULL, "%s", err.text);
    for (size_t i = 0; i < c->note_count; i++)
        errors += c->notes[i].is_error;
    ck_assert_uint_eq(errors, 4);
    ck_assert_ptr_nonnull(config_node_find(c, "b"));
    config_free(c);
}
END_TEST

START_TEST(hints)
{
    struct config_hint h;
    struct spur_error err = { 0 };
    const char *path;

    text_write("spur.conf", "# x\nplugin \"a/b\" {\n  run_dir = \"/no\"\n}\nrun_dir = \"/run/x\"\n");
    path = text_write("slurm.conf", "NodeName=a \\\n  SlurmctldHost=no\nclustername = Big # c\nSlurmctldHost=m1(192.0.2.1)\nSlurmctldHost =m2\r\nSlurmctldPort=6820-6830\n#AuthType=auth/none\nAuthType=auth/sodium");
    ck_assert_int_eq(config_hint_read(path, &h, &err), 0);
    ck_assert_str_eq(h.cluster, "big");
    ck_assert_uint_eq(h.controller_count, 2);
    ck_assert_str_eq(h.controllers[0].host, "m1");
    ck_assert_str_eq(h.controllers[0].addr, "192.0.2.1");
    ck_assert_str_eq(h.controllers[1].addr, "m2");
    ck_assert_uint_eq(h.port, 6820);
    ck_assert_uint_eq(h.port_last, 6830);
    ck_assert_str_eq(h.auth, "auth/sodium");
    ck_assert_str_eq(h.run_dir, "/run/x");
    text_write("sub/a.conf", "ControlMachine=old\nControlAddr=192.0.2.9\nBackupController=old2\n");
    path = text_write("slurm.conf", "ClusterName=x\nInclude sub/a.conf\n");
    ck_assert_int_eq(config_hint_read(path, &h, &err), 0);
    ck_assert_uint_eq(h.controller_count, 2);
    ck_assert_str_eq(h.controllers[0].addr, "192.0.2.9");
    ck_assert_str_eq(h.controllers[1].host, "old2");
    ck_assert_uint_eq(h.port, 6817);
    ck_assert_int_eq(config_hint_read("/nonexistent/slurm.conf", &h, &err), SPUR_ENOTFOUND);
}
END_TEST

void add_files(Suite *s)
{
    TCase *t = tcase_create("files");

    tcase_add_checked_fixture(t, folder_make, folder_remove);
    tcase_add_test(t, includes);
    tcase_add_test(t, damage);
    tcase_add_test(t, files_beside);
    tcase_add_test(t, keep_going);
    tcase_add_test(t, hints);
    suite_add_tcase(s, t);
}
