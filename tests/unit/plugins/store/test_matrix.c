/* SPDX-License-Identifier: Apache-2.0 */
/* test_matrix.c - the crash matrix of a log as store/raft uses it: votes among the entries, tails that a newer term replaces, resets by a snapshot,
 * pieces that are cut off in front.
 *
 * One life is recorded, operation by operation. Then every prefix of it is brought to a start with every set of the unsynced 512-byte sectors where there
 * are few, with sampled sets where there are many. The log must start and give back what was written, in order, from the first record of one of its
 * pieces up to at least the last record that was acknowledged; term and vote by it are then never older than what the world was told.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "trace.h"

#define SEGMENT 8192u
#define RECORDS 2048u
#define SETS    32u         /* states of one prefix, at most */

struct written { uint32_t type; uint64_t term, index, hash, segment; size_t n; };
struct life {
    uint64_t seed, random;
    struct wal *w;
    struct written all[RECORDS]; size_t count;      /* every record that was ever given to the log, in order */
    size_t   durable;                               /* of these: acknowledged */
    uint64_t term, vote, last, first;               /* last entry; entries below `first` may be cut off */
};
struct seen { const struct life *l; size_t at; bool is_wrong; uint64_t term, vote; };

static char folder[64];

static bool is_same(const struct written *w, const struct wal_record *r)
{
    return w->type == r->type && w->term == r->term && w->index == r->index && w->n == r->n && w->hash == hash_entry(1, r->data, r->n);
}

/* Follows the history, from the first record of the oldest piece on. */
static int see(void *arg, const struct wal_record *r, struct spur_error *err)
{
    struct seen *s = arg;
    const struct life *l = s->l;

    (void)err;
    if (s->at >= l->count || !is_same(&l->all[s->at], r)) {
        s->is_wrong = true;
        return SPUR_EINVAL;
    }
    if (r->type == WAL_VOTE) {
        s->term = r->term;
        s->vote = r->index;
    }
    s->at++;
    return 0;
}

static int log_open(struct wal **w, const struct wal_io *io, struct seen *s, const struct life *l, struct spur_error *err)
{
    struct wal_config config = { .segment_bytes = SEGMENT, .is_synced = true, .is_indexed = true, .io = io };
    int rc;

    *s = (struct seen){ .l = l };
    *w = NULL;
    memset(err, 0, sizeof *err);
    if ((rc = wal_open(w, folder, &config, err)) < 0)
        return rc;
    while (s->at < l->count && l->all[s->at].segment < (*w)->segments[0].sequence)
        s->at++;
    if ((rc = wal_replay(*w, see, s, err)) < 0) {
        wal_close(*w);
        *w = NULL;
    }
    return rc;
}

/* ---- a life ---- */

static void note(struct life *l, const struct wal_record *r)
{
    ck_assert_uint_lt(l->count, RECORDS);
    l->all[l->count++] = (struct written){ .type = r->type, .term = r->term, .index = r->index, .n = r->n, .hash = hash_entry(1, r->data, r->n),
                                           .segment = l->w->segments[l->w->count - 1].sequence };
}

static int flush(struct life *l, struct spur_error *err)
{
    int rc = wal_flush(l->w, err);

    if (rc == 0) {
        l->durable = l->count;
        l->w->keep_segment = l->w->segments[l->w->count - 1].sequence;
    }
    return rc;
}

static int add(struct life *l, const struct wal_record *r, struct spur_error *err)
{
    struct wal_record vote = { .type = WAL_VOTE, .term = l->term, .index = l->vote };
    int rc;

    if (wal_record_bytes(r->n) > wal_room(l->w)) {
        if ((rc = flush(l, err)) < 0 || (rc = wal_spare_make(l->w, 1, err)) < 0 || (rc = wal_roll(l->w, err)) < 0)
            return rc;
        ck_assert_int_eq(wal_add(l->w, &vote), 0);
        note(l, &vote);
    }
    ck_assert_int_eq(wal_add(l->w, r), 0);
    note(l, r);
    return 0;
}

static uint32_t entry_type(uint64_t random)
{
    return random % 8 == 0 ? WAL_NOOP : random % 8 == 1 ? WAL_MEMBERS : WAL_ENTRY;
}

static int entries_add(struct life *l, uint64_t count, struct spur_error *err)
{
    uint8_t data[700];
    int rc = 0;

    for (uint64_t i = 0; i < count && rc == 0; i++) {
        struct wal_record r = { .type = entry_type(random_next(&l->random)), .term = l->term, .index = l->last + 1, .data = data };

        r.n = r.type == WAL_NOOP ? 0 : entry_make(data, random_next(&l->random) % 5 ? 300 : 700, l->seed, l->count);
        l->last++;
        rc = add(l, &r, err);
    }
    return rc;
}

/* One order of the core and its flush: a vote, a tail replaced, entries, what is committed; seldom a snapshot from the leader. */
static int turn(struct life *l, struct spur_error *err)
{
    uint64_t what = random_next(&l->random) % 16;
    int rc = 0;

    if (what < 5 || l->count == 0) {
        l->term += 1 + random_next(&l->random) % 2;
        l->vote = random_next(&l->random) % 4;
        rc = add(l, &(struct wal_record){ .type = WAL_VOTE, .term = l->term, .index = l->vote }, err);
        if (what < 3 && l->last > l->first)
            l->last -= random_next(&l->random) % (l->last - l->first < 6 ? l->last - l->first + 1 : 6);
    }
    if (rc == 0 && what == 15) {
        l->last = l->first = l->last + 5 + random_next(&l->random) % 20;
        rc = add(l, &(struct wal_record){ .type = WAL_RESET, .term = l->term, .index = l->last }, err);
    }
    if (rc == 0 && what != 4)
        rc = entries_add(l, 1 + random_next(&l->random) % 4, err);
    if (rc == 0 && what % 3 == 0)
        rc = add(l, &(struct wal_record){ .type = WAL_COMMIT, .term = l->term, .index = l->last }, err);
    return rc == 0 ? flush(l, err) : rc;
}

struct loading { const struct life *l; uint64_t index; bool is_wrong; };

static int load_see(void *arg, const struct wal_record *r)
{
    struct loading *g = arg;
    const struct written *w = NULL;

    for (size_t i = g->l->durable; i-- > 0 && !w && g->l->all[i].type != WAL_RESET; )
        if (wal_is_entry(g->l->all[i].type) && g->l->all[i].index == r->index)
            w = &g->l->all[i];
    g->is_wrong |= r->index != g->index || !w || !is_same(w, r);
    g->index++;
    return 0;
}

/* Entries are read back beside the writer as they count now, also behind a replaced tail. */
static void load_check(struct life *l)
{
    struct loading g = { .l = l };
    uint64_t first, count;

    if (l->last <= l->first)
        return;
    first = g.index = l->first + 1 + random_next(&l->random) % (l->last - l->first);
    count = 1 + random_next(&l->random) % 8;
    wal_load(l->w, first, count, 1 << 20, load_see, &g);
    ck_assert_msg(!g.is_wrong, "seed %llu: wal_load from %llu gives another entry at %llu", (unsigned long long)l->seed, (unsigned long long)first, (unsigned long long)g.index);
    ck_assert_msg(g.index >= (first + count - 1 < l->last ? first + count : l->last + 1), "seed %llu: wal_load from %llu ends before %llu", (unsigned long long)l->seed,
                  (unsigned long long)first, (unsigned long long)g.index);
}

static void live(struct life *l, struct trace *t, uint64_t seed, int turns)
{
    struct spur_error err;
    struct seen s;

    memset(l, 0, sizeof *l);
    l->seed = l->random = seed;
    ck_assert_msg(log_open(&l->w, &t->io, &s, l, &err) == 0, "%s", err.text);
    for (int i = 0; i < turns; i++) {
        ck_assert_msg(turn(l, &err) == 0, "%s", err.text);
        t->acknowledged = l->durable;
        load_check(l);
        if (random_next(&l->random) % 8 == 0 && l->last > 3) {     /* a snapshot: what is before it may go */
            uint64_t to = l->last - random_next(&l->random) % 3;

            if (to > l->first)
                l->first = to;
            ck_assert_int_eq(wal_cut(l->w, l->first, &err), 0);
        }
    }
    l->w->is_broken = true;             /* as kill -9 would: nothing more is written */
    wal_close(l->w);
}

/* Starts on what is in the folder. `told`: records that were acknowledged. */
static void must_hold(const struct life *l, size_t told, const char *what, size_t n, uint64_t set)
{
    uint64_t term = 0, vote = 0;
    struct spur_error err;
    struct wal *w;
    struct seen s;
    int rc = log_open(&w, NULL, &s, l, &err);

    ck_assert_msg(rc == 0, "seed %llu, %s %zu, set %llx: %s", (unsigned long long)l->seed, what, n, (unsigned long long)set, s.is_wrong ? "another record than was written" : err.text);
    ck_assert_msg(s.at >= told, "seed %llu, %s %zu, set %llx: %zu records of %zu", (unsigned long long)l->seed, what, n, (unsigned long long)set, s.at, told);
    for (size_t i = 0; i < s.at; i++)
        if (l->all[i].type == WAL_VOTE) {
            term = l->all[i].term;
            vote = l->all[i].index;
        }
    ck_assert_msg(s.term == term && s.vote == vote, "seed %llu, %s %zu, set %llx: term %llu after %llu", (unsigned long long)l->seed, what, n, (unsigned long long)set,
                  (unsigned long long)s.term, (unsigned long long)term);
    wal_close(w);
}

START_TEST(every_prefix_and_set_of_sectors)
{
    uint64_t seed = getenv("STORE_TEST_SEED") ? strtoull(getenv("STORE_TEST_SEED"), NULL, 10) : 700 + (uint64_t)_i, random = seed;
    struct life *l = malloc(sizeof *l);
    size_t states = 0, whole = 0;
    struct trace t;
    struct image m;

    trace_init(&t);
    live(l, &t, seed, 30);
    for (size_t n = 0; n <= t.count; n++) {
        size_t told = n < t.count ? t.ops[n].acknowledged : t.acknowledged, sectors, names, sets;
        bool is_whole;

        image_choices(&t, n, &sectors, &names);
        is_whole = sectors < 6 && (names + 1) << sectors <= SETS;
        sets = is_whole ? (names + 1) << sectors : SETS;
        whole += is_whole;
        for (size_t k = 0; k < sets; k++) {
            uint64_t kept = is_whole ? k & ((UINT64_C(1) << sectors) - 1) : k == 0 ? 0 : k == 1 ? UINT64_MAX : random_next(&random);

            image_power_cut_at(&m, &t, n, kept, is_whole ? k >> sectors : random_next(&random) % (names + 1));
            image_write(&m, folder);
            must_hold(l, told, "power cut after op", n, kept);
            image_fini(&m);
            states++;
        }
    }
    printf("  seed %llu: %zu records, %zu operations, %zu of them with every set of sectors, %zu starts\n", (unsigned long long)seed, l->count, t.count, whole, states);
    ck_assert_uint_gt(whole, t.count / 3);
    trace_fini(&t);
    free(l);
}
END_TEST

/* The n-th call fails, for n = 1.. until a life passes untouched: what was acknowledged is there, and the records are those that were given. */
START_TEST(every_call_fails_once)
{
    static const int errors[] = { EIO, ENOSPC, EIO, ENOSPC };
    struct life *l = malloc(sizeof *l);
    uint64_t fail;
    bool was_asked = true;

    for (fail = 1; was_asked; fail++) {
        struct spur_error err;
        struct trace t;
        struct seen s;
        int rc;

        folder_remove(folder);
        trace_init(&t);
        t.fail_at = fail;
        t.fail_with = errors[_i];
        t.half_write = _i >= 2;
        memset(l, 0, sizeof *l);
        l->seed = l->random = 800 + (uint64_t)_i;
        if (log_open(&l->w, &t.io, &s, l, &err) < 0) {
            trace_fini(&t);
            continue;
        }
        for (int i = 0; i < 20; i++) {
            size_t begin = l->count;
            struct life before = { .random = l->random, .term = l->term, .vote = l->vote, .last = l->last, .first = l->first };

            rc = turn(l, &err);
            if (rc == SPUR_ENOSPACE && !l->w->is_broken && l->durable <= begin) {       /* nothing of it is there: the same again, as the writer does */
                l->count = l->durable;
                l->random = before.random;
                l->term = before.term;
                l->vote = before.vote;
                l->last = before.last;
                l->first = before.first;
                rc = turn(l, &err);
            }
            if (rc < 0)
                break;
        }
        was_asked = t.calls >= fail;
        l->w->is_broken = true;
        wal_close(l->w);
        must_hold(l, l->durable, "call", (size_t)fail, 0);
        trace_fini(&t);
        ck_assert_uint_lt(fail, 2000);
    }
    ck_assert_uint_gt(fail, 40);
    free(l);
}
END_TEST

/* A flipped bit anywhere: refused with file and offset, or everything is there. Term and vote never go back in silence. */
START_TEST(every_flipped_bit_of_votes_and_entries)
{
    struct life *l = malloc(sizeof *l);
    size_t refused = 0, states = 0;
    struct trace t;
    struct image m;

    trace_init(&t);
    live(l, &t, 900 + (uint64_t)_i, 8);
    image_read(&m, folder);
    for (size_t f = 0; f < m.count; f++) {
        struct image_file *file = &m.files[f];
        size_t end = file->size;

        while (end > 64 && file->data[end - 1] == 0)
            end--;
        for (size_t at = 0; at < end; at++) {
            uint8_t bit = (uint8_t)(1u << (at * 5 + f) % 8);
            struct spur_error err;
            struct wal *w;
            struct seen s;

            if (at > 128 && at < 4092 && file->data[at] == 0 && at % 61)        /* the empty part of a header */
                continue;
            file->data[at] ^= bit;
            image_write(&m, folder);
            if (log_open(&w, NULL, &s, l, &err) < 0) {
                ck_assert_msg(!s.is_wrong && strstr(err.text, folder), "%s at %zu: %s", file->name, at, err.text);
                refused++;
            } else {
                ck_assert_msg(s.at >= l->durable || wal_first_index(w) > 1, "%s at %zu: %zu records of %zu in silence", file->name, at, s.at, l->durable);
                wal_close(w);
            }
            file->data[at] ^= bit;
            states++;
        }
    }
    printf("  seed %d: %zu flipped bits, %zu refused\n", 900 + _i, states, refused);
    ck_assert_uint_gt(refused, states / 8);
    image_fini(&m);
    trace_fini(&t);
    free(l);
}
END_TEST

static void setup(void) { folder_make(folder); }
static void teardown(void) { folder_remove(folder); }

Suite *matrix_suite(void);
Suite *matrix_suite(void)
{
    Suite *s = suite_create("store/raft: crash matrix of the log");
    TCase *c = tcase_create("matrix");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, every_prefix_and_set_of_sectors, 0, 4);
    tcase_add_loop_test(c, every_call_fails_once, 0, 4);
    tcase_add_loop_test(c, every_flipped_bit_of_votes_and_entries, 0, 2);
    suite_add_tcase(s, c);
    return s;
}
