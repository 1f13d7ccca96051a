/* SPDX-License-Identifier: Apache-2.0 */
/* test_config_check.c - what `spur config check` prints about a line, and its exit status. */
#include <check.h>

#include "loader/loader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmds/commands.h"

#define PLUGINS "AuthType=auth/sodium\n"

static char dir[64], said[65536];

static void folder_make(void)
{
    snprintf(dir, sizeof dir, "/tmp/spur-check-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void folder_remove(void)
{
    static const char *const names[] = { "slurm.conf", "gres.conf", "spur.conf" };
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void file_write(const char *name, const char *text)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* Runs the command in a child; its output is in `said`. */
static int check(const char *option)
{
    char path[128];
    char *argv[] = { "config", "check", path, (char *)option, NULL };
    int fd[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    snprintf(path, sizeof path, "%s/slurm.conf", dir);
    ck_assert_int_eq(pipe(fd), 0);
    fflush(NULL);
    if ((pid = fork()) == 0) {
        dup2(fd[1], 1);
        dup2(fd[1], 2);
        close(fd[0]);
        status = cmd_config(option ? 4 : 3, argv);
        fflush(NULL);
        _exit(status);
    }
    close(fd[1]);
    while (n + 1 < sizeof said && (got = read(fd[0], said + n, sizeof said - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(fd[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define ck_assert_said(text) ck_assert_msg(strstr(said, text) != NULL, "said:\n%s\nnot: %s", said, text)

START_TEST(each_line)
{
    file_write("slurm.conf", PLUGINS "ClusterName=x\nSlurmctldHost=c\nSelectType=select/cons_tres\nFastSchedule=1\nMailProg=/bin/x\nNodeName=n1 Procs=2\n"
        "PartitionName=p Nodes=n1 Default=YES\n");
    file_write("gres.conf", "AutoDetect=off\n");
    ck_assert_int_eq(check(NULL), 0);
    ck_assert_said("slurm.conf:2: ClusterName=x: acts\n");
    ck_assert_said("slurm.conf:4: SelectType=select/cons_tres: mapped to select/topo\n");
    ck_assert_said("slurm.conf:5: FastSchedule=1: obsolete: ");
    ck_assert_said("slurm.conf:6: MailProg=/bin/x: no effect here: no mail is sent by this version\n");
    ck_assert_said("slurm.conf:7: Procs=2: mapped to CPUs\n");
    ck_assert_said("gres.conf:1: AutoDetect=off: acts\n");
    ck_assert_said("SelectType: select/topo, built in\n");
    ck_assert_said("1 node, 1 partition, 1 controller;");
    ck_assert_said("0 errors: the daemons would start\n");
    ck_assert_ptr_null(strstr(said, "error: "));
    ck_assert_int_eq(check("-q"), 0);
    ck_assert_ptr_null(strstr(said, "ClusterName"));
    ck_assert_said("slurm.conf:6: MailProg");
}
END_TEST

START_TEST(refused)
{
    file_write("slurm.conf", PLUGINS "ClusterName=x\nSlurmdTimeot=4\nSelectType=select/nosuch\nNodeName=n1 CPU=2\n");
    file_write("spur.conf", "plugin \"select/topo\" {\n  no_such_row = 1\n}\n");
    ck_assert_int_eq(check(NULL), 1);
    ck_assert_said("slurm.conf:3: SlurmdTimeot=4: error: unknown keyword \"SlurmdTimeot\" (nearest known: SlurmdTimeout)\n");
    ck_assert_said("slurm.conf:5: CPU=2: error: unknown keyword \"CPU\" on a NodeName line (nearest known: CPUs)\n");
    ck_assert_said("SelectType=select/nosuch: error: ");
    ck_assert_said("no_such_row");
    ck_assert_said("4 errors: the daemons would refuse it\n");
}
END_TEST

START_TEST(no_file)
{
    ck_assert_int_eq(check(NULL), 1);
    ck_assert_said("No such file");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("config_check");
    TCase *t = tcase_create("check");
    SRunner *r = srunner_create(s);
    int failed;

    loader_installed = "/nowhere";
    tcase_add_checked_fixture(t, folder_make, folder_remove);
    tcase_add_test(t, each_line);
    tcase_add_test(t, refused);
    tcase_add_test(t, no_file);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
