/* SPDX-License-Identifier: Apache-2.0 */
/* test_drop.c - becoming the user. As root all of it is tried in children; as a plain user what such an agent may do. */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/drop.h"
#include "test_agent.h"

#define STRANGER 54321

/* Exit code of a child that drops: 0 dropped and right, 1 refused, 2 dropped but wrong. */
static int drop_in_child(const struct drop *d, int fail_at, int lie_at)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct spur_error err = { 0 };
        uid_t r, e, s;
        char line[256];
        FILE *f;

        drop_fail_at = fail_at;
        drop_lie_at = lie_at;
        if (drop_become(d, &err) < 0)
            _exit(1);
        getresuid(&r, &e, &s);
        if (r != d->uid || e != d->uid || s != d->uid || getgid() != d->gid || setuid(0) == 0)
            _exit(2);
        f = fopen("/proc/self/status", "r");
        while (f && fgets(line, sizeof line, f))
            if ((!strncmp(line, "CapEff:", 7) || !strncmp(line, "CapPrm:", 7) || !strncmp(line, "CapInh:", 7)) && strtoull(line + 7, NULL, 16))
                _exit(2);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

START_TEST(root_becomes_the_user)
{
    gid_t groups[] = { 11111, 22222 };
    struct drop d = { .uid = STRANGER, .gid = STRANGER, .groups = groups, .group_count = 2 };

    if (geteuid() != 0)
        return;
    ck_assert_int_eq(drop_in_child(&d, 0, 0), 0);
}
END_TEST

START_TEST(each_call_that_fails_ends_it)
{
    gid_t groups[] = { 11111 };
    struct drop d = { .uid = STRANGER, .gid = STRANGER, .groups = groups, .group_count = 1 };

    if (geteuid() != 0)
        return;
    /* setgroups, setresgid, setresuid; then what reads them back: ids, filesystem ids, groups counted and read; root tried, capset, capget */
    for (int i = 1; i <= 10; i++)
        ck_assert_int_eq(drop_in_child(&d, i, 0), 1);
    ck_assert_int_eq(drop_in_child(&d, 11, 0), 0);
}
END_TEST

/* A call that reports success and has changed nothing is found by what is read back. */
START_TEST(each_call_that_lies_is_found)
{
    gid_t groups[] = { 11111 };
    struct drop d = { .uid = STRANGER, .gid = STRANGER, .groups = groups, .group_count = 1 };

    if (geteuid() != 0)
        return;
    for (int i = 1; i <= 3; i++)
        ck_assert_int_eq(drop_in_child(&d, 0, i), 1);
    ck_assert_int_eq(drop_in_child(&d, 0, 4), 0);       /* the kernel has taken the capabilities with the ids already */
}
END_TEST

START_TEST(nobody_is_no_user)
{
    struct drop d = { .uid = (uid_t)-1, .gid = 1 };
    struct spur_error err = { 0 };

    ck_assert_int_eq(drop_possible(&d, &err), SPUR_EDENIED);
    d.uid = 1;
    d.gid = (gid_t)-1;
    ck_assert_int_eq(drop_possible(&d, &err), SPUR_EDENIED);
}
END_TEST

START_TEST(a_plain_agent_serves_its_own_user_only)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct drop own = { .uid = STRANGER, .gid = STRANGER }, other = { .uid = STRANGER + 1, .gid = STRANGER };
        struct spur_error err = { 0 };

        if (geteuid() == 0) {
            if (setgroups(0, NULL) < 0 || setresgid(STRANGER, STRANGER, STRANGER) < 0 || setresuid(STRANGER, STRANGER, STRANGER) < 0)
                _exit(10);
        } else {
            own.uid = geteuid();
            own.gid = getegid();
            other.uid = own.uid + 1;
            other.gid = own.gid;
        }
        if (drop_possible(&other, &err) != SPUR_EDENIED || !strstr(err.text, "can only start jobs of user"))
            _exit(11);
        if (drop_become(&other, &err) == 0)
            _exit(12);
        _exit(drop_become(&own, &err) == 0 ? 0 : 13);
    }
    waitpid(pid, &status, 0);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

TCase *case_drop(void)
{
    TCase *t = tcase_create("drop");

    tcase_add_test(t, root_becomes_the_user);
    tcase_add_test(t, each_call_that_fails_ends_it);
    tcase_add_test(t, each_call_that_lies_is_found);
    tcase_add_test(t, nobody_is_no_user);
    tcase_add_test(t, a_plain_agent_serves_its_own_user_only);
    return t;
}
