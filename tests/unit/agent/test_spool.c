/* SPDX-License-Identifier: Apache-2.0 */
/* test_spool.c - reports on disk, and what the agent remembers of launches. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/seen.h"
#include "agent/spool.h"
#include "rpc/folder.h"
#include "test_agent.h"

static char dir[64];
static int fd;

static void setup(void)
{
    strcpy(dir, "/tmp/spur-spool-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    fd = open(dir, O_DIRECTORY | O_RDONLY);
}

static void teardown(void)
{
    int parent = open("/tmp", O_DIRECTORY | O_RDONLY);

    folder_remove(parent, dir + 5, NULL);
    close(parent);
    close(fd);
}

static unsigned durable;
static void is_durable(void *arg, uint64_t number) { (void)arg; (void)number; durable++; }

static uint64_t add(struct spool *s, uint32_t job_id)
{
    Wire__Report r = WIRE__REPORT__INIT;

    r.node = "n1";
    r.kind = WIRE__REPORT__KIND__ENDED;
    r.job_id = job_id;
    return spool_add(s, &r, is_durable, NULL)->seq;
}

static off_t file_size(void)
{
    struct stat st;

    return fstatat(fd, "reports", &st, 0) == 0 ? st.st_size : -1;
}

static uint32_t job_of(const struct spooled *e)
{
    Wire__Report *r = wire__report__unpack(NULL, e->len, e->bytes);
    uint32_t id = r ? r->job_id : 0;

    wire__report__free_unpacked(r, NULL);
    return id;
}

START_TEST(reports_come_back_in_order)
{
    struct spool *s;
    uint64_t first, last;

    ck_assert_int_eq(spool_open(NULL, fd, 1000, &s, NULL), 0);
    durable = 0;
    first = add(s, 1);
    add(s, 2);
    last = add(s, 3);
    ck_assert_uint_eq(durable, 3);
    ck_assert_uint_gt(first, 1000);
    ck_assert(spool_acked(s, first + 1, NULL));
    ck_assert(!spool_acked(s, first + 1, NULL));
    spool_close(s);
    ck_assert_int_eq(spool_open(NULL, fd, 5, &s, NULL), 0);         /* the clock has gone back */
    ck_assert_uint_eq(spool_count(s), 3);       /* an acknowledged one may come again: controllers take a report once */
    ck_assert_uint_eq(job_of(spool_first(s)), 1);
    ck_assert_uint_gt(add(s, 4), last);
    spool_close(s);
}
END_TEST

START_TEST(an_acknowledged_spool_is_cut)
{
    struct spool *s;
    uint64_t a, b;

    ck_assert_int_eq(spool_open(NULL, fd, 1, &s, NULL), 0);
    a = add(s, 1);
    b = add(s, 2);
    ck_assert_int_gt(file_size(), 0);
    spool_acked(s, a, NULL);
    ck_assert_int_gt(file_size(), 0);
    spool_acked(s, b, NULL);
    ck_assert_int_eq(file_size(), 0);
    add(s, 3);
    spool_close(s);
    ck_assert_int_eq(spool_open(NULL, fd, 1, &s, NULL), 0);
    ck_assert_uint_eq(spool_count(s), 1);
    ck_assert_uint_eq(job_of(spool_first(s)), 3);
    spool_close(s);
}
END_TEST

/* Whatever the cut, what comes back is a prefix of what was written, and the file can be written on. */
START_TEST(a_torn_tail_is_dropped)
{
    struct spool *s;
    off_t whole, half;

    ck_assert_int_eq(spool_open(NULL, fd, 1, &s, NULL), 0);
    add(s, 1);
    half = file_size();
    add(s, 2);
    whole = file_size();
    spool_close(s);
    for (off_t cut = whole; cut-- > half; ) {
        {
            int f = openat(fd, "reports", O_WRONLY);

            ck_assert_int_eq(ftruncate(f, cut), 0);
            close(f);
        }
        ck_assert_int_eq(spool_open(NULL, fd, 1, &s, NULL), 0);
        ck_assert_uint_eq(spool_count(s), 1);
        ck_assert_uint_eq(spool_dropped(s), (size_t)(cut - half));
        spool_close(s);
        if (cut > half) {               /* make it longer again for the next round */
            ck_assert_int_eq(spool_open(NULL, fd, 1, &s, NULL), 0);
            ck_assert_uint_eq(spool_dropped(s), 0);
            add(s, 2);
            spool_close(s);
        }
    }
}
END_TEST

START_TEST(a_flipped_bit_is_seen)
{
    struct spool *s;
    off_t size;

    ck_assert_int_eq(spool_open(NULL, fd, 1, &s, NULL), 0);
    add(s, 1);
    add(s, 2);
    size = file_size();
    spool_close(s);
    for (off_t i = 0; i < size; i++) {
        int f = openat(fd, "reports", O_RDWR);
        char byte, keep[4096];

        ck_assert_int_eq(pread(f, keep, (size_t)size, 0), size);
        byte = (char)(keep[i] ^ 0x10);
        ck_assert_int_eq(pwrite(f, &byte, 1, i), 1);
        close(f);
        ck_assert_int_eq(spool_open(NULL, fd, 1, &s, NULL), 0);
        ck_assert_uint_lt(spool_count(s), 2);
        spool_close(s);
        f = openat(fd, "reports", O_RDWR | O_TRUNC);
        ck_assert_int_eq(pwrite(f, keep, (size_t)size, 0), size);
        close(f);
    }
}
END_TEST

START_TEST(the_fence_never_goes_back)
{
    struct seen s;
    struct spur_error err = { 0 };

    ck_assert_int_eq(seen_open(&s, fd, 1000, &err), 0);
    ck_assert_int_eq(seen_fence(&s, 7, &err), 0);
    ck_assert_int_eq(seen_fence(&s, 7, &err), 0);
    ck_assert_int_eq(seen_fence(&s, 6, &err), SPUR_ESTALE);
    seen_close(&s);
    ck_assert_int_eq(seen_open(&s, fd, 1000, &err), 0);
    ck_assert_int_eq(seen_fence(&s, 6, &err), SPUR_ESTALE);
    ck_assert_int_eq(seen_fence(&s, 8, &err), 0);
    seen_close(&s);
}
END_TEST

START_TEST(attempts_are_remembered_until_they_expire)
{
    struct seen s;
    struct spur_error err = { 0 };

    ck_assert_int_eq(seen_open(&s, fd, 1000, &err), 0);
    for (uint32_t i = 0; i < 1000; i++)
        seen_add(&s, i, 0, 1, 0, i % 2 ? 2000 : 5000);
    ck_assert(seen_has(&s, 999, 0, 1, 0));
    ck_assert(!seen_has(&s, 999, 0, 2, 0));
    ck_assert(!seen_has(&s, 999, 1, 1, 0));
    seen_close(&s);
    ck_assert_int_eq(seen_open(&s, fd, 3000, &err), 0);
    ck_assert(!seen_has(&s, 999, 0, 1, 0));
    ck_assert(seen_has(&s, 998, 0, 1, 0));
    seen_prune(&s, 6000);
    ck_assert(!seen_has(&s, 998, 0, 1, 0));
    seen_close(&s);
}
END_TEST

START_TEST(folders_are_emptied_without_following_links)
{
    char path[128], outside[128];
    FILE *f;

    snprintf(outside, sizeof outside, "%s/outside", dir);
    ck_assert_int_eq(mkdir(outside, 0755), 0);
    snprintf(path, sizeof path, "%s/outside/kept", dir);
    f = fopen(path, "w");
    fclose(f);
    ck_assert_int_eq(mkdirat(fd, "job", 0755), 0);
    ck_assert_int_eq(mkdirat(fd, "job/below", 0755), 0);
    ck_assert_int_eq(symlinkat(outside, fd, "job/link"), 0);
    ck_assert_int_eq(symlinkat(outside, fd, "job/below/link"), 0);
    ck_assert_int_eq(folder_remove(fd, "job", NULL), 0);
    ck_assert_int_lt(faccessat(fd, "job", F_OK, 0), 0);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(symlinkat(outside, fd, "planted"), 0);
    ck_assert_int_lt(folder_remove(fd, "planted", NULL), 0);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

TCase *case_spool(void)
{
    TCase *t = tcase_create("spool");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, reports_come_back_in_order);
    tcase_add_test(t, an_acknowledged_spool_is_cut);
    tcase_add_test(t, a_torn_tail_is_dropped);
    tcase_add_test(t, a_flipped_bit_is_seen);
    tcase_add_test(t, the_fence_never_goes_back);
    tcase_add_test(t, attempts_are_remembered_until_they_expire);
    tcase_add_test(t, folders_are_emptied_without_following_links);
    return t;
}
