/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapfork.c - a snapshot written by a child: it is whole, its failures are told, and it keeps nothing of the parent alive. */
#include "fixture.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "snapfork.h"

Suite *snapfork_suite(void);

static char path[] = "/tmp/spur-snapfork-XXXXXX";
static int folder;
static const uint8_t id[16] = { 7 };
static struct snapfile_writer writer;
static struct snapfork child;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(path));
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder, 0);
    ck_assert_int_eq(snapfile_begin(&writer, folder, path, &wal_io_system, id, 5, NULL), 0);
}

static void teardown(void)
{
    unlinkat(folder, "snapshot-0000000000000005", 0);
    unlinkat(folder, "snapshot.tmp", 0);
    close(folder);
    rmdir(path);
}

static int fill_much(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    (void)err;
    for (int i = 0; i < 3000; i++)
        if (sink->write(sink->arg, arg, 1000) != 1000)
            return SPUR_EIO;
    return 0;
}

static int fill_fails(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    (void)arg;
    (void)sink;
    return spur_fail(err, SPUR_ENOSPACE, "scripts could not be written");
}

static int fill_waits(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    (void)arg;
    (void)sink;
    (void)err;
    while (pause() < 0) { }
    return 0;
}

static int finish(struct spur_error *err)
{
    int rc;

    while ((rc = snapfork_poll(&child, 1000, err)) == 0) { }
    return rc;
}

START_TEST(the_child_writes_what_was_at_the_fork)
{
    static char data[1000], back[1000];
    struct snapfile_reader r;
    uint64_t bytes = 0;
    long n;

    memset(data, 'a', sizeof data);
    ck_assert_int_eq(snapfork_begin(&child, &writer, fill_much, data, -1, 60, NULL), 0);
    memset(data, 'b', sizeof data);
    ck_assert_int_eq(finish(NULL), 1);
    ck_assert_int_eq(snapfile_publish(&writer, NULL), 0);
    ck_assert_int_eq(snapfile_open(&r, folder, path, id, 5, NULL), 0);
    ck_assert_uint_eq(r.bytes, 3000000);
    while ((n = snapfile_read(&r, back, sizeof back)) > 0) {
        for (long i = 0; i < n; i++)
            ck_assert_int_eq(back[i], 'a');
        bytes += (uint64_t)n;
    }
    ck_assert_uint_eq(bytes, 3000000);
    snapfile_close(&r);
}
END_TEST

START_TEST(its_failure_is_told_in_its_words)
{
    struct spur_error err = { 0 };

    ck_assert_int_eq(snapfork_begin(&child, &writer, fill_fails, NULL, -1, 60, &err), 0);
    ck_assert_int_eq(finish(&err), SPUR_ENOSPACE);
    ck_assert_str_eq(err.text, "scripts could not be written");
    snapfile_discard(&writer);
    ck_assert_int_ne(faccessat(folder, "snapshot.tmp", F_OK, 0), 0);
}
END_TEST

START_TEST(a_killed_child_is_a_failure)
{
    struct spur_error err = { 0 };

    ck_assert_int_eq(snapfork_begin(&child, &writer, fill_waits, NULL, -1, 60, &err), 0);
    ck_assert_int_eq(snapfork_poll(&child, 0, &err), 0);
    kill(child.pid, SIGKILL);
    ck_assert_int_eq(finish(&err), SPUR_EIO);
    ck_assert_int_eq(child.pid, 0);
    snapfile_discard(&writer);
}
END_TEST

START_TEST(a_child_that_takes_too_long_is_ended)
{
    struct spur_error err = { 0 };

    ck_assert_int_eq(snapfork_begin(&child, &writer, fill_waits, NULL, -1, 0, &err), 0);
    ck_assert_int_eq(finish(&err), SPUR_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "too long"));
    ck_assert_int_eq(child.pid, 0);
    snapfile_discard(&writer);
}
END_TEST

/* Peers of a parent that has died see the connection break, though the child goes on. */
START_TEST(sockets_are_not_kept_open)
{
    struct pollfd p;
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_eq(snapfork_begin(&child, &writer, fill_waits, NULL, -1, 60, NULL), 0);
    close(ends[1]);
    p = (struct pollfd){ .fd = ends[0], .events = POLLIN };
    ck_assert_int_eq(poll(&p, 1, 60000), 1);
    ck_assert_int_ne(p.revents & POLLHUP, 0);
    snapfork_kill(&child);
    snapfork_kill(&child);
    snapfile_discard(&writer);
    close(ends[0]);
}
END_TEST

Suite *snapfork_suite(void)
{
    Suite *s = suite_create("snapfork");
    TCase *t = tcase_create("child");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_child_writes_what_was_at_the_fork);
    tcase_add_test(t, its_failure_is_told_in_its_words);
    tcase_add_test(t, a_killed_child_is_a_failure);
    tcase_add_test(t, a_child_that_takes_too_long_is_ended);
    tcase_add_test(t, sockets_are_not_kept_open);
    suite_add_tcase(s, t);
    return s;
}
