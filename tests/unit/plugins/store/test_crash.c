/* SPDX-License-Identifier: Apache-2.0 */
/* test_crash.c - the whole store with snapshots and cuts under crashes, damaged snapshots, a full disk and a disk that fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "trace.h"

#define KIB 1024u
#define MOST 900u

static struct world w;
static struct trace t;
static struct spur_error err;
static uint64_t hashes[4096];       /* of the state after so many entries */

static void setup(void) { world_init(&w); trace_init(&t); memset(&err, 0, sizeof err); }
static void teardown(void) { world_fini(&w); trace_fini(&t); }

static void hashes_make(uint64_t seed)
{
    uint8_t data[MOST];

    for (uint64_t i = 0; i + 1 < sizeof hashes / sizeof *hashes; i++)
        hashes[i + 1] = hash_entry(hashes[i], data, entry_make(data, MOST, seed, i));
}

static int propose_nth(uint64_t seed, uint64_t i, uint64_t cookie)
{
    uint8_t data[MOST];
    size_t n = entry_make(data, MOST, seed, i);

    return world_propose(&w, data, n, cookie, &err);
}

static void wait_snapshot(uint64_t index)
{
    struct spur_store_status st = { .size = sizeof st };
    time_t deadline = time(NULL) + 20;

    do {
        world_turn(&w);
        local_ops.status(w.store, &st);
        ck_assert_msg(time(NULL) < deadline, "no snapshot of entry %llu: %s", (unsigned long long)index, w.log);
    } while (st.snapshot_index < index);
}

/* Bursts of entries and snapshots between them, on the traced disk. */
static void live(uint64_t seed, int bursts)
{
    uint64_t random = seed, proposed = 0;

    ck_assert_msg(world_open(&w, 16 * KIB, 1u << 30, &t.io, &err) == 0, "%s", err.text);
    world_wait_role(&w, SPUR_STORE_LEADER);
    trace_told(&t, w.count, w.fence);
    for (int i = 0; i < bursts; i++) {
        uint64_t burst = 1 + random_next(&random) % 40, cookies = w.live;

        proposed = w.count;
        for (uint64_t k = 0; k < burst; k++)
            ck_assert_msg(propose_nth(seed, proposed + k, cookies + k + 1) == 0, "%s", err.text);
        while (w.live < cookies + burst) {
            world_wait(&w, w.live + 1);
            trace_told(&t, w.count, w.fence);
        }
        if (random_next(&random) % 3 == 0) {
            ck_assert_msg(local_ops.snapshot(w.store, &err) == 0, "%s", err.text);
            wait_snapshot(w.index);
        }
    }
    world_close(&w);
}

START_TEST(crashes_with_snapshots)
{
    uint64_t seed = 700 + (uint64_t)_i, random = seed;
    struct image m;
    size_t states = 0, snapshots = 0;

    if (getenv("STORE_TEST_SEED"))
        seed = random = strtoull(getenv("STORE_TEST_SEED"), NULL, 10);
    hashes_make(seed);
    live(seed, 14);
    live(seed, 6);
    for (size_t n = 0; n <= t.count; n++) {
        uint64_t acknowledged = n < t.count ? t.ops[n].acknowledged : t.acknowledged, fence = n < t.count ? t.ops[n].fence : t.fence;
        bool is_power = n % 2;

        if (is_power)
            image_power_cut(&m, &t, n, &random, -1);
        else
            image_after(&m, &t, n, n < t.count && t.ops[n].kind == OP_WRITE ? random_next(&random) % t.ops[n].n : 0);
        image_write(&m, w.folder);
        ck_assert_msg(world_open(&w, 16 * KIB, 1u << 30, NULL, &err) == 0, "seed %llu op %zu %s: %s", (unsigned long long)seed, n,
                      is_power ? "power cut" : "killed", err.text);
        world_wait_role(&w, SPUR_STORE_LEADER);
        ck_assert_msg(w.count >= acknowledged && w.count == w.index && w.hash == hashes[w.count] && w.fence > fence,
                      "seed %llu op %zu %s: %llu entries of %llu, fence %llu after %llu", (unsigned long long)seed, n, is_power ? "power cut" : "killed",
                      (unsigned long long)w.count, (unsigned long long)acknowledged, (unsigned long long)w.fence, (unsigned long long)fence);
        snapshots += (size_t)w.snapshot_reads;
        world_close(&w);
        image_fini(&m);
        states++;
    }
    printf("  seed %llu: %zu crashes of a store with snapshots, %zu started from one\n", (unsigned long long)seed, states, snapshots);
    ck_assert_uint_gt(snapshots, states / 4);
}
END_TEST

/* Any byte of a snapshot: the older one or the log alone takes over, or the start is refused; the state is never wrong. */
START_TEST(damaged_snapshots)
{
    struct image m;
    size_t fallbacks = 0, states = 0;
    struct image_file *newest = NULL;

    hashes_make(3);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, NULL, &err), 0);
    for (uint64_t i = 0; i < 120; i++) {
        ck_assert_int_eq(propose_nth(3, i, i + 1), 0);
        if (i % 30 == 29) {
            world_wait(&w, i + 1);
            ck_assert_int_eq(local_ops.snapshot(w.store, &err), 0);
            wait_snapshot(i + 1);
        }
    }
    world_wait(&w, 120);
    world_close(&w);
    image_read(&m, w.folder);
    for (size_t f = 0; f < m.count; f++)
        if (strncmp(m.files[f].name, "snapshot-", 9) == 0 && (!newest || strcmp(m.files[f].name, newest->name) > 0))
            newest = &m.files[f];
    ck_assert_str_eq(newest->name, "snapshot-0000000000000078");
    for (size_t at = 0; at < newest->size; at += at < 64 || at > 4000 ? 1 : 97) {
        newest->data[at] ^= (uint8_t)(1 << at % 8);
        image_write(&m, w.folder);
        ck_assert_msg(world_open(&w, 16 * KIB, 1u << 30, NULL, &err) == 0, "byte %zu: %s", at, err.text);
        ck_assert_uint_eq(w.count, 120);
        ck_assert_uint_eq(w.hash, hashes[120]);
        ck_assert_int_eq(w.snapshot_reads, 1);
        fallbacks += world_logged(&w, "an older one and the log are used instead");
        world_close(&w);
        w.log[0] = '\0';
        newest->data[at] ^= (uint8_t)(1 << at % 8);
        states++;
    }
    ck_assert_uint_eq(fallbacks, states);
    /* Both gone or damaged, and the log is cut: refused. */
    for (size_t f = 0; f < m.count; f++)
        if (strncmp(m.files[f].name, "snapshot-", 9) == 0)
            m.files[f].data[4100] ^= 1;
    image_write(&m, w.folder);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, NULL, &err), SPUR_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "snapshot-"));
    image_fini(&m);
}
END_TEST

/* The disk is full: refused with the path, accepted ones are kept, and it goes on when there is space. */
START_TEST(full_disk)
{
    uint64_t accepted = 0, refused = 0;
    time_t deadline = time(NULL) + 30;

    hashes_make(4);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, &t.io, &err), 0);
    world_wait_role(&w, SPUR_STORE_LEADER);
    pthread_mutex_lock(&t.lock);
    t.space = 3 * 16 * KIB;
    pthread_mutex_unlock(&t.lock);
    while (refused < 20) {
        int rc = propose_nth(4, accepted, accepted + 1);

        if (rc == 0) {
            world_wait(&w, ++accepted);
            if (w.dropped) {                    /* a proposal may be told later that there is no room: it is not in */
                ck_assert_int_eq(w.dropped_code, SPUR_ENOSPACE);
                accepted -= w.dropped;
                w.dropped = 0;
                refused++;
            }
        } else {
            ck_assert_int_eq(rc, SPUR_ENOSPACE);
            ck_assert_msg(strstr(err.text, w.folder) != NULL, "%s", err.text);
            refused++;
        }
    }
    ck_assert_uint_gt(accepted, 60);
    ck_assert_uint_eq(w.hash, hashes[accepted]);
    ck_assert(world_logged(&w, "no space"));
    pthread_mutex_lock(&t.lock);
    t.space = UINT64_MAX;
    pthread_mutex_unlock(&t.lock);
    while (propose_nth(4, accepted, accepted + 1) != 0) {
        world_turn(&w);
        ck_assert_msg(time(NULL) < deadline, "%s", err.text);
    }
    world_wait(&w, ++accepted);
    ck_assert_uint_eq(w.dropped, 0);
    ck_assert(world_logged(&w, "there is space for the log again"));
    world_close(&w);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, NULL, &err), 0);
    ck_assert_uint_eq(w.count, accepted);
    ck_assert_uint_eq(w.hash, hashes[accepted]);
}
END_TEST

/* A limit stands in the middle of the allocated piece (RLIMIT_FSIZE, a quota of a copy-on-write file system), with several waiting. */
START_TEST(file_size_limit)
{
    uint64_t proposed = 0, kept;
    time_t deadline = time(NULL) + 30;

    hashes_make(5);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, &t.io, &err), 0);
    world_wait_role(&w, SPUR_STORE_LEADER);
    pthread_mutex_lock(&t.lock);
    t.file_limit = 9 * KIB + 100;
    pthread_mutex_unlock(&t.lock);
    while (proposed < 3) {
        ck_assert_int_eq(propose_nth(5, proposed, proposed + 1), 0);
        world_wait(&w, ++proposed);
    }
    while (w.dropped < 3) {
        ck_assert_msg(time(NULL) < deadline, "nothing was dropped");
        if (propose_nth(5, proposed, proposed + 1) == 0)
            proposed++;
        world_turn(&w);
    }
    world_wait(&w, proposed);
    kept = w.live;
    ck_assert_uint_gt(kept, 2);
    ck_assert_int_eq(w.dropped_code, SPUR_ENOSPACE);
    ck_assert_uint_eq(w.role, SPUR_STORE_LEADER);
    pthread_mutex_lock(&t.lock);
    t.file_limit = UINT64_MAX;
    pthread_mutex_unlock(&t.lock);
    ck_assert_int_eq(propose_nth(5, 2000, proposed + 1), 0);
    world_wait(&w, proposed + 1);
    ck_assert_uint_eq(w.live, kept + 1);
    kept = w.hash;
    world_close(&w);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, NULL, &err), 0);
    ck_assert_uint_eq(w.hash, kept);
}
END_TEST

START_TEST(disk_does_not_confirm)
{
    uint64_t told = 0, cookie = 0;

    hashes_make(6);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, &t.io, &err), 0);
    world_wait_role(&w, SPUR_STORE_LEADER);
    pthread_mutex_lock(&t.lock);
    t.fails_sync_only = true;
    t.calls = 0;
    t.fail_at = 6;
    t.fail_with = EIO;
    pthread_mutex_unlock(&t.lock);
    for (uint64_t i = 0; i < 40; i++) {
        if (propose_nth(6, i, ++cookie) < 0)
            break;
        world_wait(&w, i + 1);
    }
    world_wait_role(&w, SPUR_STORE_FAILED);
    ck_assert_uint_eq(w.live, 5);
    ck_assert_int_eq(w.dropped_code, SPUR_ESTALE);          /* nobody knows */
    ck_assert_int_eq(propose_nth(6, 50, ++cookie), SPUR_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "did not confirm"));
    ck_assert_uint_eq(t.calls, 6);                          /* it was not asked again */
    told = w.live;
    world_close(&w);
    ck_assert_uint_eq(t.calls, 6);
    ck_assert_int_eq(world_open(&w, 16 * KIB, 1u << 30, NULL, &err), 0);
    ck_assert_uint_ge(w.count, told);
    ck_assert_uint_le(w.count, told + 1);
    ck_assert_uint_eq(w.hash, hashes[w.count]);
}
END_TEST

/* A snapshot that can't be written is no harm. */
START_TEST(snapshot_without_room)
{
    hashes_make(7);
    ck_assert_int_eq(world_open(&w, 64 * KIB, 8 * KIB, &t.io, &err), 0);
    world_wait_role(&w, SPUR_STORE_LEADER);
    w.padding = 3000000;
    pthread_mutex_lock(&t.lock);
    t.fail_at = t.calls + 40;
    t.stays = false;
    t.fail_with = ENOSPC;
    pthread_mutex_unlock(&t.lock);
    for (uint64_t i = 0; i < 200; i++) {
        ck_assert_int_eq(propose_nth(7, i, i + 1), 0);
        world_wait(&w, i + 1);
    }
    ck_assert_uint_eq(w.live, 200 - w.dropped);
    world_close(&w);
    ck_assert_int_eq(world_open(&w, 64 * KIB, 1u << 30, NULL, &err), 0);
    ck_assert_uint_ge(w.count, 199);
}
END_TEST

/* A folder as format 1 wrote it must load for ever. STORE_TEST_WRITE=FOLDER makes such a folder; it is made once a format, then kept. */
START_TEST(format_1_loads)
{
    char data[512];
    const char *to = getenv("STORE_TEST_WRITE");
    struct image m;

    hashes_make(2);
    if (to) {
        live(2, 3);
        live(2, 1);
        image_read(&m, w.folder);
        image_write(&m, to);
    } else {
        snprintf(data, sizeof data, "%s/wal/format-1", TEST_DATA);
        image_read(&m, data);
        image_write(&m, w.folder);
    }
    ck_assert_msg(world_open(&w, 16 * KIB, 1u << 30, NULL, &err) == 0, "%s", err.text);
    world_wait_role(&w, SPUR_STORE_LEADER);
    ck_assert_int_eq(w.snapshot_reads, 1);
    ck_assert_uint_eq(w.count, 104);
    ck_assert_uint_eq(w.hash, hashes[104]);
    ck_assert_uint_eq(w.fence, 3);
    ck_assert_str_eq(w.log, "");
    image_fini(&m);
}
END_TEST

Suite *crash_suite(void);
Suite *crash_suite(void)
{
    Suite *s = suite_create("store/local: crashes");
    TCase *c = tcase_create("crashes");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, crashes_with_snapshots, 0, 3);
    tcase_add_test(c, damaged_snapshots);
    tcase_add_test(c, full_disk);
    tcase_add_test(c, file_size_limit);
    tcase_add_test(c, disk_does_not_confirm);
    tcase_add_test(c, snapshot_without_room);
    tcase_add_test(c, format_1_loads);
    suite_add_tcase(s, c);
    return s;
}
