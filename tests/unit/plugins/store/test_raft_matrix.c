/* SPDX-License-Identifier: Apache-2.0 */
/* test_raft_matrix.c - the crash matrix of a member's folder: the real writer and the real replay of store/raft, snapshots and all.
 *
 * A life is recorded: orders as a follower's core gives them (votes, entries, tails that a newer term replaces, notes of what is committed), own snapshots
 * with the log cut behind them, snapshots from the leader with the reset of the log. Every prefix of its file operations is then brought to a start
 * with every, or many, sets of unsynced sectors. What the start hands to the core must be what some moment between the last acknowledged order and
 * the crash had: term, vote, snapshot, entries. Nothing is handed to the host that was not committed.
 */
#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "raft.h"
#include "trace.h"

#define SEGMENT 8192u
#define RECORDS 2048u
#define ENTRIES 4096u
#define SETS    16u

enum record_kind { RECORD_VOTE, RECORD_ENTRY, RECORD_RESET };
struct record { enum record_kind kind; uint64_t term, index; uint32_t type; uint64_t hash; };       /* VOTE: index is who */
struct row { uint64_t term, hash; uint32_t type; };
struct model {
    struct record all[RECORDS]; size_t count, durable;
    struct { uint64_t index, term; } snapshots[128]; size_t snapshot_count;
    uint64_t committed[ENTRIES];        /* index -> hash of the entry that was committed there */
    uint64_t commit, term, vote, last, seq;
    uint64_t random;
};
struct image_of { uint64_t term, vote, base, base_term, last; struct row rows[ENTRIES]; };          /* the log at one moment */
struct member { struct store *s; struct spur_host host; const struct model *model; uint64_t snapshot, handed; bool is_wrong; char log[4096]; };

static char folder[64];
static struct raft_members group;

/* ---- a host that checks ---- */

static void host_log(void *ctx, int level, const char *text)
{
    struct member *m = ctx;
    size_t used = strlen(m->log);

    (void)level;
    snprintf(m->log + used, sizeof m->log - used, "%s\n", text);
}

static void host_committed(void *arg, uint64_t index, const void *data, size_t n, void *cookie)
{
    struct member *m = arg;

    (void)cookie;
    m->is_wrong |= index <= m->handed || index >= ENTRIES || index > m->model->commit || m->model->committed[index] != hash_entry(1, data, n);
    m->handed = index;
}

static int host_snapshot_read(void *arg, uint64_t index, const struct spur_store_source *source, struct spur_error *err)
{
    struct member *m = arg;
    uint64_t is_of = 0;

    (void)err;
    m->is_wrong |= source->read(source->arg, &is_of, sizeof is_of) != sizeof is_of || is_of != index;
    m->snapshot = m->handed = index;
    return 0;
}

static int member_open(struct member *m, const struct model *model, const struct wal_io *io, struct raft_restored *out, struct spur_error *err)
{
    static const struct spur_store_events events = { .size = sizeof events, .committed = host_committed, .snapshot_read = host_snapshot_read };
    struct raft_options o = { .segment_bytes = SEGMENT, .is_synced = true, .allow_network_fs = true, .io = io };
    void *self;
    int rc;

    memset(m, 0, sizeof *m);
    m->model = model;
    m->host = (struct spur_host){ .size = sizeof m->host, .ctx = m, .log = host_log };
    ck_assert_int_eq(store_raft_create(&m->host, folder, &o, &self, err), 0);
    m->s = self;
    m->s->events = events;
    m->s->events.arg = m;
    ck_assert(ring_init(&m->s->orders, 256));
    atomic_store(&m->s->writer_stops, true);            /* writer_main does what is there and returns */
    if ((rc = raft_replay(m->s, out, err)) == 0)
        m->s->wal->keep_segment = 0;
    return rc;
}

static void member_close(struct member *m)
{
    if (m->s->wal)
        m->s->wal->is_broken = true;                    /* as kill -9 would */
    wal_close(m->s->wal);
    ring_fini(&m->s->orders);
    free(m->s->door);
    free(m->s->path);
    free(m->s);
}

/* ---- a life ---- */

static void note(struct model *l, enum record_kind kind, uint64_t term, uint64_t index, uint32_t type, uint64_t hash)
{
    ck_assert_uint_lt(l->count, RECORDS);
    l->all[l->count++] = (struct record){ kind, term, index, type, hash };
}

/* Gives it to the writer and waits for the disk. */
static void write_order(struct member *m, struct model *l, struct trace *t, struct order *take_order)
{
    struct spur_error err;

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(wal_spare_make(m->s->wal, 2, &err), 0);
    ck_assert(ring_put(&m->s->orders, take_order));
    writer_main(m->s);
    ck_assert_msg(!m->s->wal->is_broken, "%s", m->log);
    l->durable = l->count;
    t->acknowledged = l->durable;
}

static void order_entries(struct model *l, struct order *o, uint64_t count)
{
    o->entries = (struct raft_entry *)(o + 1);
    for (uint64_t i = 0; i < count; i++) {
        struct raft_entry *e = &o->entries[o->count++];
        uint8_t *data = (uint8_t *)(o->entries + 8) + i * 800;

        *e = (struct raft_entry){ .term = l->term, .index = ++l->last, .type = RAFT_ENTRY_DATA, .data = data };
        ck_assert_uint_lt(l->last, ENTRIES);
        if (l->last == 1) {
            e->type = RAFT_ENTRY_MEMBERS;
            e->n = raft_members_pack(&group, data, 800);
        } else if (random_next(&l->random) % 6 == 0) {
            e->type = RAFT_ENTRY_NOOP;
        } else {
            e->n = entry_make(data, random_next(&l->random) % 4 ? 200 : 700, l->random, l->last);
        }
        note(l, RECORD_ENTRY, e->term, e->index, e->type, hash_entry(1, data, e->n));
    }
}

static void turn_orders(struct member *m, struct model *l, struct trace *t)
{
    struct order *o = calloc(1, sizeof *o + 8 * sizeof *o->entries + 8 * 800);
    uint64_t what = random_next(&l->random) % 8;

    o->kind = ORDER_WRITE;
    o->seq = ++l->seq;
    if (what < 3 || !l->term) {
        l->term += 1 + random_next(&l->random) % 2;
        l->vote = random_next(&l->random) % 3;
        o->has_vote = true;
        o->term = l->term;
        o->vote = l->vote;
        note(l, RECORD_VOTE, l->term, l->vote, 0, 0);
        if (what < 2 && l->last > l->commit)            /* what is not committed may be replaced */
            l->last -= random_next(&l->random) % (l->last - l->commit + 1);
    }
    if (what != 2)
        order_entries(l, o, 1 + random_next(&l->random) % 4);
    o->commit = l->commit;
    write_order(m, l, t, o);
}

/* What is durable here and what its leader said is committed. */
static void turn_commit(struct member *m, struct model *l)
{
    uint64_t to = l->commit + random_next(&l->random) % (l->last - l->commit + 1);

    for (size_t i = 0; i < l->count; i++)               /* the newest record of an index counts */
        if (l->all[i].kind == RECORD_ENTRY && l->all[i].index > l->commit && l->all[i].index <= to) {
            l->committed[l->all[i].index] = l->all[i].hash;
            if (l->all[i].index == to)
                m->s->handed_term = l->all[i].term;
        }
    m->s->handed = l->commit = to;
}

static void snapshot_write(struct member *m, struct model *l, const char *temporary, uint64_t index, uint64_t term)
{
    struct store *s = m->s;
    struct snapfile_writer w = { 0 };
    uint8_t extra[SNAPFILE_EXTRA];
    struct spur_error err;

    ck_assert_uint_lt(l->snapshot_count, 128);
    l->snapshots[l->snapshot_count].index = index;
    l->snapshots[l->snapshot_count++].term = term;
    ck_assert_int_eq(snapfile_begin_as(&w, temporary, s->wal->folder, s->path, s->wal->config.io, s->wal->super.id, index, &err), 0);
    ck_assert_int_eq(snapfile_stamp(&w, term, extra, raft_members_pack(&group, extra, sizeof extra), &err), 0);
    ck_assert_int_eq(snapfile_write(&w, &index, sizeof index), sizeof index);
    ck_assert_int_eq(snapfile_end(&w, &err), 0);
    ck_assert_int_eq(snapfile_publish(&w, &err), 0);
}

static void turn_snapshot(struct member *m, struct model *l, struct trace *t)
{
    struct store *s = m->s;
    struct order *o;
    uint64_t keep;

    if (!s->handed || (l->snapshot_count && l->snapshots[l->snapshot_count - 1].index >= s->handed))
        return;
    snapshot_write(m, l, "snapshot.tmp", s->handed, s->handed_term);
    t->fence = s->handed;
    keep = snapfile_trim(s->wal->folder, s->wal->config.io, 2);
    if (!keep)
        return;
    o = calloc(1, sizeof *o);
    o->kind = ORDER_CUT;
    o->index = keep;
    write_order(m, l, t, o);
}

/* From the leader: further than the log goes, or over a tail that is not his. */
static void turn_install(struct member *m, struct model *l, struct trace *t)
{
    uint64_t index = l->last > l->commit && random_next(&l->random) % 2 ? l->commit + 1 + random_next(&l->random) % (l->last - l->commit) : l->last + 2;
    uint64_t term = l->term + 1;
    struct order *o = calloc(1, sizeof *o);

    ck_assert_uint_lt(index, ENTRIES);
    snapshot_write(m, l, "incoming.tmp", index, term);
    t->fence = index;
    snapfile_trim(m->s->wal->folder, m->s->wal->config.io, 2);
    if (random_next(&l->random) % 2) {                  /* an order that was on its way */
        struct order *vote = calloc(1, sizeof *vote);

        l->term = term;
        l->vote = 0;
        *vote = (struct order){ .kind = ORDER_WRITE, .seq = ++l->seq, .has_vote = true, .term = term };
        note(l, RECORD_VOTE, term, 0, 0, 0);
        write_order(m, l, t, vote);
    }
    o->kind = ORDER_RESET;
    o->index = index;
    o->term = term;
    note(l, RECORD_RESET, term, index, 0, 0);
    l->last = l->commit = m->s->handed = index;
    m->s->handed_term = term;
    write_order(m, l, t, o);
    if (l->term < term)
        l->term = term;
}

static void live(struct model *l, struct trace *t, uint64_t seed, int turns)
{
    struct raft_restored out;
    struct spur_error err;
    struct member m;

    memset(l, 0, sizeof *l);
    l->random = seed;
    ck_assert_msg(member_open(&m, l, &t->io, &out, &err) == 0, "%s", err.text);
    group = (struct raft_members){ .count = 2 };
    for (int i = 0; i < 2; i++) {
        group.rows[i].id = i ? 77 : m.s->id;
        group.rows[i].is_voter = true;
        snprintf(group.rows[i].name, sizeof group.rows[i].name, "c%d", i);
        snprintf(group.rows[i].addr, sizeof group.rows[i].addr, "127.0.0.%d:1", i);
    }
    for (int i = 0; i < turns; i++) {
        uint64_t what = random_next(&l->random) % 10;

        if (what < 6 || l->last < 3)
            turn_orders(&m, l, t);
        else if (what < 8)
            turn_commit(&m, l);
        else if (what < 9)
            turn_snapshot(&m, l, t);
        else if (random_next(&l->random) % 2)
            turn_install(&m, l, t);
    }
    raft_replay_free(&out);
    member_close(&m);
}

/* ---- what a start must give ---- */

static void image_at(struct image_of *g, const struct model *l, size_t records)
{
    g->term = g->vote = g->base = g->base_term = g->last = 0;
    for (size_t i = 0; i < records; i++) {
        const struct record *r = &l->all[i];

        if (r->kind == RECORD_VOTE) {
            g->term = r->term;
            g->vote = r->index;
        } else if (r->kind == RECORD_RESET) {
            g->base = g->last = r->index;
            g->base_term = r->term;
        } else {
            g->last = r->index;
            g->rows[r->index] = (struct row){ r->term, r->hash, r->type };
        }
    }
}

static bool is_equal(const struct image_of *g, const struct raft_restored *r)
{
    uint64_t s = r->snapshot_index, last = g->last, at_s = s == g->base ? g->base_term : s > g->base && s <= last ? g->rows[s].term : 0;

    if (r->term != g->term || r->vote != g->vote)
        return false;
    if (s && (s > last || (at_s && at_s != r->snapshot_term)))
        last = s;                       /* the snapshot is newer than the log, which ends before it or is another's */
    if (r->count != last - s)
        return false;
    for (size_t i = 0; i < r->count; i++) {
        const struct row *row = &g->rows[s + 1 + i];
        const struct raft_entry *e = &r->entries[i];

        if (e->index != s + 1 + i || e->term != row->term || e->type != row->type || (e->data && hash_entry(1, e->data, e->n) != row->hash))
            return false;
    }
    return true;
}

/* The log that came back can be written on, and a second start has that too. */
static void goes_on(struct member *m, const struct raft_restored *before, const char *where)
{
    struct order *o = calloc(1, sizeof *o + sizeof *o->entries);
    uint64_t last = before->snapshot_index + before->count, snapshot = before->snapshot_index, term = before->term + 1;
    const struct model *model = m->model;
    struct raft_restored out;
    struct spur_error err = { 0 };
    uint8_t data[1000];

    *o = (struct order){ .kind = ORDER_WRITE, .seq = 1, .has_vote = true, .term = term, .vote = 9, .count = 1, .entries = (struct raft_entry *)(o + 1) };
    o->entries[0] = (struct raft_entry){ .term = term, .index = last + 1, .type = RAFT_ENTRY_MEMBERS, .data = data, .n = raft_members_pack(&group, data, sizeof data) };
    ck_assert_int_eq(wal_spare_make(m->s->wal, 2, &err), 0);
    ck_assert(ring_put(&m->s->orders, o));
    writer_main(m->s);
    member_close(m);
    ck_assert_msg(member_open(m, model, NULL, &out, &err) == 0, "%s, second start: %s", where, err.text);
    ck_assert_msg(out.term == term && out.vote == 9 && out.snapshot_index == snapshot && out.count == last + 1 - snapshot && out.entries[out.count - 1].term == term,
                  "%s: what was written after the start is not there at the next", where);
    raft_replay_free(&out);
}

static void must_hold(const struct model *l, size_t told, uint64_t snapshot_told, uint64_t seed, size_t n, uint64_t set)
{
    static struct image_of g;
    struct raft_restored out;
    struct spur_error err = { 0 };
    struct member m;
    bool is_found = false, is_known;
    int rc = member_open(&m, l, NULL, &out, &err);
    char where[100];

    snprintf(where, sizeof where, "seed %llu, power cut after op %zu, set %llx", (unsigned long long)seed, n, (unsigned long long)set);
    ck_assert_msg(rc == 0, "%s: %s", where, err.text);
    ck_assert_msg(!m.is_wrong, "%s: the host is handed something that was not committed, or another snapshot", where);
    ck_assert_msg(out.applied == m.s->handed && m.handed <= out.applied, "%s: applied %llu, handed %llu", where, (unsigned long long)out.applied, (unsigned long long)m.handed);
    ck_assert_msg(out.snapshot_index >= snapshot_told, "%s: snapshot %llu, there was %llu", where, (unsigned long long)out.snapshot_index, (unsigned long long)snapshot_told);
    is_known = !out.snapshot_index;
    for (size_t i = 0; i < l->snapshot_count; i++)
        is_known |= l->snapshots[i].index == out.snapshot_index && l->snapshots[i].term == out.snapshot_term;
    ck_assert_msg(is_known, "%s: snapshot %llu of term %llu was never taken", where, (unsigned long long)out.snapshot_index, (unsigned long long)out.snapshot_term);
    for (size_t p = told; p <= l->count && !is_found; p++) {
        image_at(&g, l, p);
        is_found = is_equal(&g, &out);
    }
    ck_assert_msg(is_found, "%s: term %llu vote %llu snapshot %llu/%llu and %zu entries: no moment since record %zu had that", where, (unsigned long long)out.term,
                  (unsigned long long)out.vote, (unsigned long long)out.snapshot_index, (unsigned long long)out.snapshot_term, out.count, told);
    goes_on(&m, &out, where);
    raft_replay_free(&out);
    member_close(&m);
}

START_TEST(every_prefix_of_a_members_life)
{
    uint64_t seed = getenv("STORE_TEST_SEED") ? strtoull(getenv("STORE_TEST_SEED"), NULL, 10) : 40 + (uint64_t)_i, random = seed;
    struct model *l = malloc(sizeof *l);
    size_t states = 0;
    struct trace t;
    struct image m;

    trace_init(&t);
    live(l, &t, seed, 40);
    for (size_t n = 0; n <= t.count; n++) {
        size_t told = n < t.count ? t.ops[n].acknowledged : t.acknowledged, sectors, names, sets;
        uint64_t snapshot = n < t.count ? t.ops[n].fence : t.fence;
        bool is_whole;

        if (n < t.count && n && t.ops[n].kind == OP_WRITE && t.ops[n - 1].kind == OP_WRITE && t.ops[n].n > 60000)
            continue;                   /* the zeros of a spare */
        image_choices(&t, n, &sectors, &names);
        is_whole = sectors < 5 && (names + 1) << sectors <= SETS;
        sets = is_whole ? (names + 1) << sectors : SETS;
        for (size_t k = 0; k < sets; k++) {
            uint64_t kept = is_whole ? k & ((UINT64_C(1) << sectors) - 1) : k == 0 ? 0 : k == 1 ? UINT64_MAX : random_next(&random);

            image_power_cut_at(&m, &t, n, kept, is_whole ? k >> sectors : random_next(&random) % (names + 1));
            image_write(&m, folder);
            must_hold(l, told, snapshot, seed, n, kept);
            image_fini(&m);
            states++;
        }
    }
    printf("  seed %llu: %zu records, %zu snapshots, %zu operations, %zu starts\n", (unsigned long long)seed, l->count, l->snapshot_count, t.count, states);
    trace_fini(&t);
    free(l);
}
END_TEST

static void setup(void) { folder_make(folder); }
static void teardown(void) { folder_remove(folder); }

int main(void)
{
    Suite *s = suite_create("store/raft: crash matrix of a member");
    TCase *c = tcase_create("matrix");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, every_prefix_of_a_members_life, 0, 6);
    suite_add_tcase(s, c);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
