/* SPDX-License-Identifier: Apache-2.0 */
/* test_group_log.c - the log as a group uses it: votes, notes of what is committed, tails that are replaced, a snapshot in the place of it all.
 *
 * The model is the list of records as they were added. After any crash a replay shows a beginning of that list that has at least what was flushed; and
 * entries read back one by one are the live ones, whatever was replaced before them.
 */
#include <stdlib.h>

#include "fixture.h"
#include "trace.h"

#define SEGMENT 16384u
#define RECORDS 4096u

struct row { uint32_t type; uint64_t term, index, seed; size_t n; };
struct model {
    struct row rows[RECORDS]; size_t count;         /* all that was ever added */
    struct row live[RECORDS]; uint64_t first, last; /* live[i % RECORDS]: the entry i; first: behind the last reset */
    uint64_t random, term, snapshot;
};
struct seen { const struct model *m; size_t count; bool is_wrong; };

static char folder[64];

static void row_data(const struct row *r, uint8_t *out)
{
    uint64_t state = r->seed;

    for (size_t i = 0; i < r->n; i++)
        out[i] = (uint8_t)random_next(&state);
}

static bool row_same(const struct row *r, const struct wal_record *w)
{
    uint8_t data[4096];

    row_data(r, data);
    return r->type == w->type && r->term == w->term && r->index == w->index && r->n == w->n && (r->n == 0 || memcmp(data, w->data, r->n) == 0);
}

static int see(void *arg, const struct wal_record *w, struct spur_error *err)
{
    struct seen *s = arg;

    (void)err;
    if (s->count >= s->m->count || !row_same(&s->m->rows[s->count], w))
        s->is_wrong = true;
    s->count++;
    return 0;
}

static int log_open(struct wal **w, const struct wal_io *io, struct seen *s, const struct model *m, struct spur_error *err)
{
    struct wal_config config = { .segment_bytes = SEGMENT, .is_synced = true, .io = io, .is_indexed = true };
    int rc;

    *s = (struct seen){ .m = m };
    if ((rc = wal_open(w, folder, &config, err)) < 0)
        return rc;
    if ((rc = wal_replay(*w, see, s, err)) < 0) {
        wal_close(*w);
        *w = NULL;
    }
    return rc;
}

static void add(struct model *m, struct wal *w, struct row r)
{
    uint8_t data[4096];
    struct spur_error err;

    if (wal_record_bytes(r.n) > wal_room(w)) {
        ck_assert_int_eq(wal_flush(w, &err), 0);
        ck_assert_msg(wal_spare_make(w, 1, &err) == 0 && wal_roll(w, &err) == 0, "%s", err.text);
    }
    row_data(&r, data);
    ck_assert_int_eq(wal_add(w, &(struct wal_record){ .type = r.type, .term = r.term, .index = r.index, .data = data, .n = r.n }), 0);
    ck_assert_uint_lt(m->count, RECORDS);
    m->rows[m->count++] = r;
    if (wal_is_entry(r.type)) {
        m->live[r.index % RECORDS] = r;
        m->last = r.index;
    } else if (r.type == WAL_RESET) {
        m->first = r.index + 1;
        m->last = m->snapshot = r.index;
    }
}

/* One turn of a member: a few records, as a group would order them. */
static void turn(struct model *m, struct wal *w, bool may_reset)
{
    static const uint32_t types[] = { WAL_ENTRY, WAL_ENTRY, WAL_ENTRY, WAL_NOOP, WAL_MEMBERS };
    uint64_t what = random_next(&m->random) % 12, n = 1 + random_next(&m->random) % 5;

    if (what == 0) {
        m->term += 1 + random_next(&m->random) % 3;
        add(m, w, (struct row){ .type = WAL_VOTE, .term = m->term, .index = random_next(&m->random) });
    }
    if (what == 1 && m->last > m->first + 3) {          /* a new leader's tail */
        m->term++;
        m->last -= random_next(&m->random) % 3;
        m->last--;
    }
    if (what == 2 && may_reset)
        add(m, w, (struct row){ .type = WAL_RESET, .term = m->term, .index = m->last + random_next(&m->random) % 50 });
    for (uint64_t i = 0; i < n; i++)
        add(m, w, (struct row){ .type = types[random_next(&m->random) % 5], .term = m->term, .index = m->last + 1, .seed = m->random, .n = random_next(&m->random) % 900 });
    if (what > 6)
        add(m, w, (struct row){ .type = WAL_COMMIT, .term = m->term, .index = m->last });
}

struct load { const struct model *m; uint64_t next; bool is_wrong; };

static int loaded(void *arg, const struct wal_record *w)
{
    struct load *l = arg;

    if (w->index != l->next || !row_same(&l->m->live[w->index % RECORDS], w))
        l->is_wrong = true;
    l->next++;
    return 0;
}

static void check_load(const struct model *m, struct wal *w, uint64_t first, uint64_t count)
{
    struct load l = { .m = m, .next = first };
    uint64_t wanted = first > m->last ? 0 : m->last - first + 1 < count ? m->last - first + 1 : count;
    long got = wal_load(w, first, count, 1u << 30, loaded, &l);

    ck_assert_msg(!l.is_wrong && got == (long)wanted, "entries %llu and %llu more: %ld of %llu%s", (unsigned long long)first, (unsigned long long)count, got,
                  (unsigned long long)wanted, l.is_wrong ? ", wrong ones" : "");
}

static struct model *model_new(uint64_t seed)
{
    struct model *m = calloc(1, sizeof *m);

    m->random = seed;
    m->first = 1;
    m->term = 1;
    return m;
}

START_TEST(entries_are_read_back)
{
    struct model *m = model_new(1000 + (uint64_t)_i);
    struct spur_error err = { 0 };
    struct wal *w;
    struct seen s;

    folder_make(folder);
    for (unsigned start = 0; start < 4; start++) {
        ck_assert_msg(log_open(&w, NULL, &s, m, &err) == 0, "%s", err.text);
        ck_assert(!s.is_wrong && s.count == m->count);
        for (unsigned i = 0; i < 60; i++) {
            uint64_t span = m->last >= m->first ? m->last - m->first + 1 : 1;

            if (m->last >= m->first) {
                check_load(m, w, m->first + random_next(&m->random) % span, 1 + random_next(&m->random) % 40);
                check_load(m, w, m->first, span);
            }
            turn(m, w, i % 10 == 0);
            ck_assert_msg(wal_flush(w, &err) == 0, "%s", err.text);
        }
        check_load(m, w, m->last + 1, 5);
        wal_close(w);
    }
    folder_remove(folder);
    free(m);
}
END_TEST

/* Cut at the front: what is left is read, what is gone is not; the segment with the vote stays. */
START_TEST(the_front_is_cut)
{
    struct model *m = model_new(7);
    struct spur_error err = { 0 };
    struct load l = { .m = m };
    uint64_t kept;
    struct wal *w;
    struct seen s;

    folder_make(folder);
    ck_assert_int_eq(log_open(&w, NULL, &s, m, &err), 0);
    for (unsigned i = 0; i < 150; i++) {
        turn(m, w, false);
        ck_assert_int_eq(wal_flush(w, &err), 0);
    }
    ck_assert_uint_gt(w->count, 4);
    w->keep_segment = w->segments[2].sequence;
    ck_assert_int_eq(wal_cut(w, m->last, &err), 0);
    ck_assert_uint_eq(w->segments[0].sequence, w->keep_segment);
    kept = wal_first_index(w);
    l.next = 1;
    ck_assert_int_eq(wal_load(w, 1, 5, 1000, loaded, &l), 0);
    check_load(m, w, kept, 10);
    check_load(m, w, m->last, 1);
    wal_close(w);
    folder_remove(folder);
    free(m);
}
END_TEST

/* Power fails at every operation: a beginning of what was added, with all that was flushed. */
START_TEST(power_cut)
{
    struct model *m = model_new(2000 + (uint64_t)_i);
    uint64_t random = 5 + (uint64_t)_i;
    struct spur_error err = { 0 };
    size_t states = 0;
    struct trace t;
    struct image image;
    struct wal *w;
    struct seen s;

    folder_make(folder);
    trace_init(&t);
    for (unsigned start = 0; start < 2; start++) {
        ck_assert_msg(log_open(&w, &t.io, &s, m, &err) == 0, "%s", err.text);
        for (unsigned i = 0; i < 14; i++) {
            turn(m, w, i % 5 == 0);
            ck_assert_int_eq(wal_flush(w, &err), 0);
            trace_told(&t, m->count, 0);
        }
        w->is_broken = _i % 2;
        wal_close(w);
    }
    for (size_t n = 0; n <= t.count; n++) {
        uint64_t told = n < t.count ? t.ops[n].acknowledged : t.acknowledged;

        for (int k = 0; k < 5; k++) {
            image_power_cut(&image, &t, n, &random, k == 0 ? 0 : k == 1 ? 1 : -1);
            image_write(&image, folder);
            ck_assert_msg(log_open(&w, NULL, &s, m, &err) == 0, "after op %zu: refused: %s", n, err.text);
            ck_assert_msg(!s.is_wrong && s.count >= told, "after op %zu: %zu records of %llu%s", n, s.count, (unsigned long long)told, s.is_wrong ? ", wrong ones" : "");
            wal_close(w);
            image_fini(&image);
            states++;
        }
    }
    printf("  seed %d: %zu operations, %zu states of a group's log after a power cut\n", 2000 + _i, t.count, states);
    trace_fini(&t);
    folder_remove(folder);
    free(m);
}
END_TEST

Suite *group_log_suite(void);
Suite *group_log_suite(void)
{
    Suite *s = suite_create("store/raft: log");
    TCase *c = tcase_create("log");

    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, entries_are_read_back, 0, 5);
    tcase_add_test(c, the_front_is_cut);
    tcase_add_loop_test(c, power_cut, 0, 3);
    suite_add_tcase(s, c);
    return s;
}
