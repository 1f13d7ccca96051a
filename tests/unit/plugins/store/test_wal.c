/* SPDX-License-Identifier: Apache-2.0 */
/* test_wal.c - the log alone: after every crash that a disk model allows, and every flipped or cut byte, either all that was
 * acknowledged is there, in order, or the start is refused. Seeds are printed; STORE_TEST_SEED replays one. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <spur/plugin.h>

#include "crc32c.h"
#include "fixture.h"
#include "trace.h"

#define SEGMENT 8192u
#define MOST    700u

struct seen { uint64_t seed, count, hash; bool is_wrong; };

static char folder[64], log_text[8192];

static void log_line(void *arg, int level, const char *text)
{
    size_t used = strlen(log_text);

    (void)arg;
    (void)level;
    snprintf(log_text + used, sizeof log_text - used, "%s\n", text);
}

static int see(void *arg, const struct wal_record *r, struct spur_error *err)
{
    struct seen *s = arg;
    uint8_t data[MOST];
    size_t n = entry_make(data, MOST, s->seed, r->index - 1);

    (void)err;
    if (r->type != WAL_ENTRY || r->index != s->count + 1 || r->n != n || memcmp(r->data, data, n) != 0)
        s->is_wrong = true;
    s->count++;
    return 0;
}

static const char *recover_at;

static int log_open(struct wal **w, const struct wal_io *io, struct seen *s, uint64_t seed, struct spur_error *err)
{
    struct wal_config config = { .segment_bytes = SEGMENT, .is_synced = true, .io = io, .recover_at = recover_at, .log = log_line };
    int rc;

    memset(s, 0, sizeof *s);
    s->seed = seed;
    *w = NULL;
    log_text[0] = '\0';
    if ((rc = wal_open(w, folder, &config, err)) < 0)
        return rc;
    if ((rc = wal_replay(*w, see, s, err)) < 0) {
        wal_close(*w);
        *w = NULL;
    }
    return rc;
}

/* One flush with `entries` entries; makes room first. */
static int log_append(struct wal *w, uint64_t seed, uint64_t entries, struct spur_error *err)
{
    uint8_t data[MOST];
    uint64_t bytes = 0;
    int rc;

    for (uint64_t i = 0; i < entries; i++)
        bytes += wal_record_bytes(entry_make(data, MOST, seed, w->last_index + i));
    if (bytes > wal_room(w)) {
        if ((rc = wal_spare_make(w, 1, err)) < 0 || (rc = wal_roll(w, err)) < 0)
            return rc;
    }
    for (uint64_t i = 0, first = w->last_index; i < entries; i++) {
        size_t n = entry_make(data, MOST, seed, first + i);

        ck_assert_int_eq(wal_add(w, &(struct wal_record){ .type = WAL_ENTRY, .term = 1, .index = first + i + 1, .data = data, .n = n }), 0);
    }
    return wal_flush(w, err);
}

static uint64_t seed_take(uint64_t fallback)
{
    const char *text = getenv("STORE_TEST_SEED");

    return text ? strtoull(text, NULL, 10) : fallback;
}

/* A life of the log: a few starts, random flushes over several segments. Told to the trace as it goes. */
static void live(struct trace *t, uint64_t seed, int starts, int flushes, bool stops_cleanly)
{
    uint64_t random = seed;
    struct spur_error err;

    for (int k = 0; k < starts; k++) {
        struct wal *w;
        struct seen s;

        ck_assert_msg(log_open(&w, &t->io, &s, seed, &err) == 0, "seed %llu: %s", (unsigned long long)seed, err.text);
        ck_assert_uint_eq(s.count, t->acknowledged);
        ck_assert_int_eq(wal_fence(w, &t->fence, &err), 0);
        for (int i = 0; i < flushes; i++) {
            ck_assert_msg(log_append(w, seed, 1 + random_next(&random) % 4, &err) == 0, "%s", err.text);
            t->acknowledged = w->last_index;
        }
        if (!stops_cleanly && k + 1 == starts)
            w->is_broken = true;                    /* as kill -9 would: nothing more is written */
        wal_close(w);
    }
}

/* Opens what is in the folder and checks it against what the world was told; goes on with it if `continues`. */
static void must_hold(uint64_t seed, uint64_t acknowledged, uint64_t fence, bool continues, const char *what, size_t at)
{
    struct spur_error err = { 0 };
    struct wal *w;
    struct seen s;
    uint64_t now = 0;
    int rc = log_open(&w, NULL, &s, seed, &err);

    ck_assert_msg(rc == 0, "seed %llu %s %zu: refused: %s", (unsigned long long)seed, what, at, err.text);
    ck_assert_msg(!s.is_wrong && s.count >= acknowledged, "seed %llu %s %zu: %llu entries of %llu%s", (unsigned long long)seed, what, at,
                  (unsigned long long)s.count, (unsigned long long)acknowledged, s.is_wrong ? ", wrong ones" : "");
    ck_assert_int_eq(wal_fence(w, &now, &err), 0);
    ck_assert_msg(now > fence, "seed %llu %s %zu: fence %llu after %llu", (unsigned long long)seed, what, at, (unsigned long long)now, (unsigned long long)fence);
    if (continues) {
        uint64_t count = s.count;

        ck_assert_msg(log_append(w, seed, 3, &err) == 0 && log_append(w, seed, 1, &err) == 0, "seed %llu %s %zu: %s", (unsigned long long)seed, what, at, err.text);
        wal_close(w);
        ck_assert_msg(log_open(&w, NULL, &s, seed, &err) == 0, "seed %llu %s %zu: second start: %s", (unsigned long long)seed, what, at, err.text);
        ck_assert(!s.is_wrong && s.count == count + 4);
    }
    wal_close(w);
}

static void setup(void) { folder_make(folder); }
static void teardown(void) { folder_remove(folder); }

START_TEST(crc_known_answers)
{
    uint8_t data[1000];
    uint64_t random = 5;

    ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283);
    ck_assert_uint_eq(crc32c_software(0, "123456789", 9), 0xe3069283);
    for (int i = 0; i < 300; i++) {
        size_t n = random_next(&random) % sizeof data, cut = n ? random_next(&random) % n : 0;

        for (size_t k = 0; k < n; k++)
            data[k] = (uint8_t)random_next(&random);
        ck_assert_uint_eq(crc32c(7, data, n), crc32c_software(7, data, n));
        ck_assert_uint_eq(crc32c(crc32c(0, data, cut), data + cut, n - cut), crc32c(0, data, n));
    }
}
END_TEST

START_TEST(lives_come_back)
{
    struct trace t;
    struct wal *w;
    struct seen s;
    struct spur_error err;

    trace_init(&t);
    live(&t, 11, 4, 12, true);
    ck_assert_int_eq(log_open(&w, NULL, &s, 11, &err), 0);
    ck_assert_uint_eq(s.count, t.acknowledged);
    ck_assert(!s.is_wrong);
    ck_assert_uint_gt(w->count, 4);
    ck_assert_str_eq(log_text, "");
    /* Cut: only what lies wholly below the index. */
    ck_assert_int_eq(wal_cut(w, w->segments[2].next_index - 1, &err), 0);
    ck_assert_uint_eq(w->segments[0].sequence, 3);
    ck_assert_uint_eq(wal_first_index(w), w->segments[0].next_index);
    wal_close(w);
    trace_fini(&t);
}
END_TEST

/* The process dies at every byte of everything it writes. */
START_TEST(killed_at_every_byte)
{
    uint64_t seed = seed_take(100 + (uint64_t)_i);
    struct trace t;
    struct image m;
    size_t states = 0;

    trace_init(&t);
    live(&t, seed, 2, 6, true);
    for (size_t n = 0; n < t.count; n++) {
        const struct op *op = &t.ops[n];
        bool is_long = op->kind == OP_WRITE && op->n > 2048;     /* zeros of a spare, a header: each 64th byte will do */

        for (size_t torn = 0; torn < (op->kind == OP_WRITE ? op->n : 1); torn += is_long ? 61 : 1) {
            image_after(&m, &t, n, torn);
            image_write(&m, folder);
            must_hold(seed, op->acknowledged, op->fence, states % 50 == 0, "op", n);
            image_fini(&m);
            states++;
        }
    }
    printf("  seed %llu: %zu operations, %zu states of a killed process\n", (unsigned long long)seed, t.count, states);
    trace_fini(&t);
}
END_TEST

/* Power fails: none, all, or any set of the unsynced sectors are there. */
START_TEST(power_cut_at_every_operation)
{
    uint64_t seed = seed_take(200 + (uint64_t)_i), random = seed;
    struct trace t;
    struct image m;
    size_t states = 0;

    trace_init(&t);
    live(&t, seed, 3, 8, _i % 2);
    for (size_t n = 0; n <= t.count; n++) {
        uint64_t acknowledged = n < t.count ? t.ops[n].acknowledged : t.acknowledged, fence = n < t.count ? t.ops[n].fence : t.fence;

        for (int k = 0; k < 14; k++) {
            image_power_cut(&m, &t, n, &random, k == 0 ? 0 : k == 1 ? 1 : -1);
            image_write(&m, folder);
            must_hold(seed, acknowledged, fence, states % 20 == 0, "power cut after op", n);
            image_fini(&m);
            states++;
        }
    }
    printf("  seed %llu: %zu operations, %zu states after a power cut\n", (unsigned long long)seed, t.count, states);
    trace_fini(&t);
}
END_TEST

/* A start that refuses must name a file and say where; one that does not must have everything. */
static void must_hold_or_refuse(uint64_t seed, uint64_t acknowledged, const char *file, size_t at, size_t *refused)
{
    struct spur_error err = { 0 };
    struct wal *w;
    struct seen s;

    if (log_open(&w, NULL, &s, seed, &err) < 0) {
        ck_assert_msg(strstr(err.text, folder) != NULL, "%s at %zu: %s", file, at, err.text);
        ++*refused;
        return;
    }
    if (wal_first_index(w) != 1) {                  /* its user looks whether a snapshot reaches that far */
        wal_close(w);
        ++*refused;
        return;
    }
    ck_assert_msg(!s.is_wrong && s.count == acknowledged, "seed %llu: %s at %zu: lost silently: %llu entries of %llu", (unsigned long long)seed, file, at,
                  (unsigned long long)s.count, (unsigned long long)acknowledged);
    wal_close(w);
}

START_TEST(every_flipped_byte)
{
    uint64_t seed = seed_take(300 + (uint64_t)_i);
    struct trace t;
    struct image m;
    size_t refused = 0, states = 0;

    trace_init(&t);
    live(&t, seed, 2, 5, _i % 2);                   /* after a clean stop, and after kill -9 */
    image_read(&m, folder);
    for (size_t f = 0; f < m.count; f++)
        for (size_t at = 0; at < m.files[f].size; at++) {
            /* Inside a header block's empty part and the zeros behind the log all bytes are alike. */
            uint8_t bit = (uint8_t)(1u << (at * 7 + f) % 8);

            if (m.files[f].data[at] == 0 && at % 4 && at + 8 < m.files[f].size && m.files[f].data[at + 1] == 0 && at > 256 && m.files[f].data[at - 1] == 0 && at % 37)
                continue;
            m.files[f].data[at] ^= bit;
            image_write(&m, folder);
            must_hold_or_refuse(seed, t.acknowledged, m.files[f].name, at, &refused);
            m.files[f].data[at] ^= bit;
            states++;
        }
    printf("  seed %llu: %zu flipped bytes, %zu refused\n", (unsigned long long)seed, states, refused);
    ck_assert_uint_gt(refused, states / 10);
    image_fini(&m);
    trace_fini(&t);
}
END_TEST

START_TEST(every_cut)
{
    uint64_t seed = seed_take(400 + (uint64_t)_i);
    struct trace t;
    struct image m;
    size_t refused = 0, states = 0;

    trace_init(&t);
    live(&t, seed, 2, 5, _i % 2);
    image_read(&m, folder);
    for (size_t f = 0; f < m.count; f++) {
        size_t size = m.files[f].size;

        for (size_t at = 0; at < size; at += at > 4096 || at < 64 ? 1 : 13) {
            m.files[f].size = at;
            image_write(&m, folder);
            must_hold_or_refuse(seed, t.acknowledged, m.files[f].name, at, &refused);
            states++;
        }
        m.files[f].size = size;
    }
    /* Whole files gone. */
    for (size_t f = 0; f < m.count; f++) {
        struct image_file gone = m.files[f];

        m.files[f] = m.files[m.count - 1];
        m.count--;
        image_write(&m, folder);
        must_hold_or_refuse(seed, t.acknowledged, gone.name, 0, &refused);
        m.files[m.count++] = m.files[f];
        m.files[f] = gone;
    }
    printf("  seed %llu: %zu cuts, %zu refused\n", (unsigned long long)seed, states, refused);
    image_fini(&m);
    trace_fini(&t);
}
END_TEST

START_TEST(damage_is_told_from_a_torn_end)
{
    struct trace t;
    struct image m;
    struct wal *w;
    struct seen s;
    struct spur_error err;
    struct image_file *f;
    uint64_t end;

    trace_init(&t);
    live(&t, 21, 1, 2, false);
    image_read(&m, folder);
    f = image_file(&m, "log-0000000000000001");
    for (end = f->size; f->data[end - 1] == 0; end--)
        ;
    /* Garbage behind the end: dropped with one line. */
    memset(f->data + ((end + 7) & ~UINT64_C(7)), 0xa5, 100);
    image_write(&m, folder);
    ck_assert_int_eq(log_open(&w, NULL, &s, 21, &err), 0);
    ck_assert_uint_eq(s.count, t.acknowledged);
    ck_assert_msg(strstr(log_text, "torn end: 100 bytes") != NULL, "%s", log_text);
    wal_close(w);
    ck_assert_int_eq(log_open(&w, NULL, &s, 21, &err), 0);
    ck_assert_str_eq(log_text, "");                 /* once */
    wal_close(w);
    image_fini(&m);
    /* A bit in the last acknowledged flush: refused, with file and offset. */
    trace_fini(&t);
    folder_remove(folder);
    trace_init(&t);
    live(&t, 21, 1, 2, false);
    image_read(&m, folder);
    f = image_file(&m, "log-0000000000000001");
    f->data[((end + 7) & ~UINT64_C(7)) - 96 - 40] ^= 1;
    image_write(&m, folder);
    ck_assert_int_eq(log_open(&w, NULL, &s, 21, &err), SPUR_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "log-0000000000000001: damaged at offset "));
    image_fini(&m);
    trace_fini(&t);
}
END_TEST

/* No backup: the administrator names the damage, and the log ends there. Naming another one changes nothing. */
START_TEST(damage_is_given_up_by_name)
{
    struct trace t;
    struct image m;
    struct wal *w;
    struct seen s;
    struct spur_error err;
    char place[80], file[40];
    unsigned long long at;

    trace_init(&t);
    live(&t, 22, 1, 14, false);
    image_read(&m, folder);
    ck_assert_ptr_nonnull(image_file(&m, "log-0000000000000004"));
    image_file(&m, "log-0000000000000002")->data[6000] ^= 4;
    image_write(&m, folder);
    ck_assert_int_eq(log_open(&w, NULL, &s, 22, &err), SPUR_ECORRUPT);
    ck_assert_int_eq(sscanf(strstr(err.text, "log-"), "%39[^:]: damaged at offset %llu", file, &at), 2);
    recover_at = "log-0000000000000002:1";
    ck_assert_int_eq(log_open(&w, NULL, &s, 22, &err), SPUR_ECORRUPT);
    snprintf(place, sizeof place, "%s:%llu", file, at);
    recover_at = place;
    ck_assert_msg(log_open(&w, NULL, &s, 22, &err) == 0, "%s: %s", place, err.text);
    ck_assert(!s.is_wrong && s.count > 3 && s.count < t.acknowledged);
    ck_assert_ptr_nonnull(strstr(log_text, "are given up"));
    ck_assert_msg(log_append(w, 22, 2, &err) == 0, "%s", err.text);
    wal_close(w);
    at = s.count;
    ck_assert_msg(log_open(&w, NULL, &s, 22, &err) == 0, "%s", err.text);
    ck_assert(!s.is_wrong && s.count == at + 2);
    ck_assert_str_eq(log_text, "");
    wal_close(w);
    recover_at = NULL;
    image_fini(&m);
    /* A header that is gone takes its whole file with it. */
    image_read(&m, folder);
    ck_assert_ptr_nonnull(image_file(&m, "damaged-log-0000000000000003"));
    image_file(&m, "log-0000000000000002")->data[20] ^= 1;
    image_write(&m, folder);
    ck_assert_int_eq(log_open(&w, NULL, &s, 22, &err), SPUR_ECORRUPT);
    recover_at = "log-0000000000000002:0";
    ck_assert_msg(log_open(&w, NULL, &s, 22, &err) == 0, "%s", err.text);
    ck_assert(!s.is_wrong && s.count > 0 && w->count == 1);
    wal_close(w);
    recover_at = NULL;
    image_fini(&m);
    trace_fini(&t);
}
END_TEST

START_TEST(superblock_survives_a_lost_half)
{
    struct trace t;
    struct image m;

    for (int half = 0; half < 2; half++) {
        trace_init(&t);
        folder_remove(folder);
        live(&t, 31, 3, 2, true);
        image_read(&m, folder);
        memset(image_file(&m, "superblock")->data + half * 4096, 0xff, 4096);
        image_write(&m, folder);
        must_hold(31, t.acknowledged, t.fence, true, "half", (size_t)half);
        image_fini(&m);
        trace_fini(&t);
    }
}
END_TEST

/* Every call fails once: EIO ends the log, ENOSPC may be tried again; nothing acknowledged is lost, nothing refused comes back. */
START_TEST(every_call_fails)
{
    int errors[] = { EIO, ENOSPC, EIO, ENOSPC };
    struct spur_error err;
    uint64_t seed = 500 + (uint64_t)_i;
    size_t rounds = 0;

    for (uint64_t fail = 1; fail < 400; fail++) {
        struct trace t;
        struct wal *w;
        struct seen s;
        uint64_t random = seed, told = 0;
        bool is_dead = false, was_asked = false;

        folder_remove(folder);
        trace_init(&t);
        t.fail_at = fail;
        t.fail_with = errors[_i];
        t.half_write = _i >= 2;
        if (log_open(&w, &t.io, &s, seed, &err) < 0) {
            trace_fini(&t);
            w = NULL;
            is_dead = true;
        }
        for (int i = 0; i < 16 && !is_dead; i++) {
            int rc = log_append(w, seed, 1 + random_next(&random) % 4, &err);

            if (rc == 0)
                told = w->last_index;
            else if (rc == SPUR_ENOSPACE)
                ck_assert_uint_eq(w->last_index, told);     /* and on it goes */
            else
                is_dead = true;
            was_asked = t.calls >= fail;
        }
        if (w) {
            if (!is_dead)
                w->is_broken = true;            /* as if killed: what is durable shows in the log alone */
            wal_close(w);
            trace_fini(&t);
        }
        ck_assert_msg(log_open(&w, NULL, &s, seed, &err) == 0, "call %llu: %s", (unsigned long long)fail, err.text);
        ck_assert_msg(!s.is_wrong && s.count >= told, "call %llu: %llu of %llu", (unsigned long long)fail, (unsigned long long)s.count, (unsigned long long)told);
        if (!is_dead)
            ck_assert_uint_eq(s.count, told);
        wal_close(w);
        rounds++;
        if (!was_asked && !is_dead)
            break;
    }
    ck_assert_uint_gt(rounds, 20);
}
END_TEST

START_TEST(replay_speed)
{
    struct wal_config config = { .segment_bytes = 64u << 20, .is_synced = false };
    struct spur_error err;
    struct wal *w;
    struct seen s;
    struct timespec from, to;
    uint8_t data[288] = { 1, 2, 3 };
    double ms;

    (void)s;
    ck_assert_int_eq(wal_open(&w, folder, &config, &err), 0);
    ck_assert_int_eq(wal_replay(w, see, &s, &err), 0);
    for (uint64_t i = 0; i < 190000; i++) {
        if (wal_room(w) < 400)
            break;
        ck_assert_int_eq(wal_add(w, &(struct wal_record){ .type = WAL_ENTRY, .index = i + 1, .data = data, .n = sizeof data }), 0);
        if (i % 64 == 63)
            ck_assert_int_eq(wal_flush(w, &err), 0);
    }
    ck_assert_int_eq(wal_flush(w, &err), 0);
    wal_close(w);
    clock_gettime(CLOCK_MONOTONIC, &from);
    ck_assert_int_eq(wal_open(&w, folder, &config, &err), 0);
    memset(&s, 0, sizeof s);
    ck_assert_int_eq(wal_replay(w, see, &s, &err), 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    printf("  replay of %llu records, %.1f MiB: %.1f ms\n", (unsigned long long)w->last_index, (double)wal_bytes(w) / 1048576.0, ms);
    wal_close(w);
}
END_TEST

Suite *wal_suite(void);
Suite *wal_suite(void)
{
    Suite *s = suite_create("store/local: log");
    TCase *c = tcase_create("log"), *crash = tcase_create("crash");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, crc_known_answers);
    tcase_add_test(c, lives_come_back);
    tcase_add_test(c, damage_is_told_from_a_torn_end);
    tcase_add_test(c, damage_is_given_up_by_name);
    tcase_add_test(c, superblock_survives_a_lost_half);
    tcase_add_test(c, replay_speed);
    tcase_add_loop_test(c, every_call_fails, 0, 4);
    suite_add_tcase(s, c);
    tcase_add_checked_fixture(crash, setup, teardown);
    tcase_set_timeout(crash, 600);
    tcase_add_loop_test(crash, killed_at_every_byte, 0, 1);
    tcase_add_loop_test(crash, power_cut_at_every_operation, 0, 4);
    tcase_add_loop_test(crash, every_flipped_byte, 0, 2);
    tcase_add_loop_test(crash, every_cut, 0, 2);
    suite_add_tcase(s, crash);
    return s;
}
