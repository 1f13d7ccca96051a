/* SPDX-License-Identifier: Apache-2.0 */
/* test_local.c - store/local as its host sees it: start, propose, replay, snapshots, the lock, a full disk, a failing disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

#define KIB 1024u
#define MIB (1024u * KIB)

static struct world w;
static struct spur_error err;

static void setup(void) { world_init(&w); memset(&err, 0, sizeof err); }
static void teardown(void) { world_fini(&w); }

static void must_open(uint64_t segment, uint64_t snapshot)
{
    int rc = world_open(&w, segment, snapshot, NULL, &err);

    ck_assert_msg(rc == 0, "open: %s", err.text);
    world_wait_role(&w, SPUR_STORE_LEADER);
}

/* Proposes entries [from, to) of seed and returns the hash that the state has after them, starting from `hash`. */
static uint64_t propose_range(uint64_t seed, uint64_t from, uint64_t to, uint64_t hash)
{
    uint8_t data[2000];

    for (uint64_t i = from; i < to; i++) {
        size_t n = entry_make(data, sizeof data, seed, i);
        int rc = world_propose(&w, data, n, i + 1, &err);

        ck_assert_msg(rc == 0, "propose %llu: %s", (unsigned long long)i, err.text);
        hash = hash_entry(hash, data, n);
    }
    return hash;
}

START_TEST(entries_come_back_in_order)
{
    uint64_t hash, fence;

    must_open(64 * KIB, 256 * MIB);
    hash = propose_range(1, 0, 500, 0);
    world_wait(&w, 500);
    ck_assert_uint_eq(w.hash, hash);
    ck_assert_uint_eq(w.count, 500);
    fence = w.fence;
    world_close(&w);

    must_open(64 * KIB, 256 * MIB);
    ck_assert_uint_eq(w.hash, hash);
    ck_assert_uint_eq(w.count, 500);
    ck_assert_uint_gt(w.fence, fence);
    hash = propose_range(1, 500, 600, hash);
    world_wait(&w, 100);
    world_close(&w);

    must_open(1 * MIB, 256 * MIB);          /* another size of piece: the old ones are read as they are */
    ck_assert_uint_eq(w.hash, hash);
    ck_assert_uint_eq(w.count, 600);
}
END_TEST

START_TEST(stop_tells_everything)
{
    must_open(64 * KIB, 256 * MIB);
    propose_range(2, 0, 300, 0);
    local_ops.stop(w.store);
    ck_assert_uint_eq(w.live, 300);
    ck_assert_int_eq(world_propose(&w, "x", 1, 1000, &err), SPUR_ENOTLEADER);
}
END_TEST

START_TEST(snapshots_cut_the_log)
{
    struct spur_store_status st = { .size = sizeof st };
    uint64_t hash = 0, before;

    w.padding = 3 * MIB + 17;
    must_open(64 * KIB, 4 * MIB);
    ck_assert_int_eq(local_ops.snapshot(w.store, &err), 0);     /* nothing to do */
    hash = propose_range(3, 0, 400, hash);
    world_wait(&w, 400);
    ck_assert_int_eq(local_ops.snapshot(w.store, &err), 0);
    do {
        world_turn(&w);
        local_ops.status(w.store, &st);
    } while (st.snapshot_index != 400);
    before = st.log_bytes;
    hash = propose_range(3, 400, 800, hash);
    world_wait(&w, 800);
    ck_assert_int_eq(local_ops.snapshot(w.store, &err), 0);
    do {
        world_turn(&w);
        local_ops.status(w.store, &st);
    } while (st.snapshot_index != 800);
    hash = propose_range(3, 800, 810, hash);
    world_wait(&w, 810);
    local_ops.status(w.store, &st);
    ck_assert_uint_lt(st.log_bytes, before + 300000);           /* the first 400 entries are cut off: the older snapshot has them */
    ck_assert_uint_eq(st.committed, 810);
    ck_assert_uint_eq(st.durable, 810);
    world_close(&w);

    must_open(64 * KIB, 4 * MIB);
    ck_assert_uint_eq(w.hash, hash);
    ck_assert_uint_eq(w.count, 810);
    ck_assert_int_eq(w.snapshot_reads, 1);
}
END_TEST

START_TEST(two_daemons_on_one_folder)
{
    struct world other;

    must_open(64 * KIB, 4 * MIB);
    world_init(&other);
    folder_remove(other.folder);
    snprintf(other.folder, sizeof other.folder, "%s", w.folder);
    ck_assert_int_eq(world_open(&other, 64 * KIB, 4 * MIB, NULL, &err), SPUR_EBUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "in use by another daemon"));
}
END_TEST

START_TEST(loose_modes_are_refused)
{
    char file[128];

    chmod(w.folder, 0750);
    ck_assert_int_eq(world_open(&w, 64 * KIB, 4 * MIB, NULL, &err), SPUR_EDENIED);
    ck_assert_ptr_nonnull(strstr(err.text, "0700"));
    chmod(w.folder, 0700);
    must_open(64 * KIB, 4 * MIB);
    world_close(&w);
    snprintf(file, sizeof file, "%s/log-0000000000000001", w.folder);
    ck_assert_int_eq(chmod(file, 0644), 0);
    ck_assert_int_eq(world_open(&w, 64 * KIB, 4 * MIB, NULL, &err), SPUR_EDENIED);
    ck_assert_ptr_nonnull(strstr(err.text, "log-0000000000000001"));
}
END_TEST

Suite *local_suite(void);
Suite *local_suite(void)
{
    Suite *s = suite_create("store/local");
    TCase *c = tcase_create("host");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, entries_come_back_in_order);
    tcase_add_test(c, stop_tells_everything);
    tcase_add_test(c, snapshots_cut_the_log);
    tcase_add_test(c, two_daemons_on_one_folder);
    tcase_add_test(c, loose_modes_are_refused);
    suite_add_tcase(s, c);
    return s;
}
