/* SPDX-License-Identifier: Apache-2.0 */
/* contract_store.c - promises of a store: what it said is committed is there after any end of the process, once, in order.
 *
 * The state that a host would keep is here a running hash and a count of the entries, so a lost, doubled or reordered entry shows. Works
 * for one member: a replicated store must lead alone when it is told of no others.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <spur/store.h>

#include "base/str.h"
#include "loader/contract.h"

#define PATIENCE_MS 15000

/* The host behind a store. */
struct world {
    struct contract *c;
    struct loaded *l;
    const struct spur_store_ops *ops;
    uint64_t count, hash, last_index;       /* the state: entries applied */
    uint64_t cookies, dropped, wrong, snapshots_read;
    uint64_t next_cookie;                   /* cookies come back in the order proposed */
    bool     is_leader, has_failed, is_done, in_start;
    uint64_t wait_count, fence;
    char     trouble[160];
    int      tell;                          /* pipe that hears of each committed entry, -1 */
    struct spur_store_events events;
};

static uint64_t hash_add(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *at = data;

    hash ^= UINT64_C(0x9e3779b97f4a7c15) + n;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void trouble(struct world *w, const char *text)
{
    if (!w->wrong++)
        snprintf(w->trouble, sizeof w->trouble, "%s", text);
}

static void world_look(struct world *w)
{
    w->is_done = (w->is_leader || w->has_failed) && w->cookies + w->dropped >= w->wait_count;
}

static void on_committed(void *arg, uint64_t index, const void *data, size_t n, void *cookie)
{
    struct world *w = arg;

    if (index <= w->last_index)
        trouble(w, "an entry comes with an index that is not higher than the one before");
    w->last_index = index;
    w->count++;
    w->hash = hash_add(w->hash, data, n);
    if (cookie) {
        w->cookies++;
        if ((uintptr_t)cookie != ++w->next_cookie)
            trouble(w, "entries do not come in the order in which they were proposed");
        if (w->tell >= 0 && write(w->tell, &w->count, sizeof w->count) != (ssize_t)sizeof w->count)
            trouble(w, "the test's pipe is closed");
    }
    world_look(w);
}

static void on_dropped(void *arg, void *cookie, const struct spur_error *why)
{
    struct world *w = arg;

    if (!cookie || !why || why->code >= 0 || !why->text[0])
        trouble(w, "a proposal is dropped without its cookie or without a sentence");
    w->dropped++;
    w->next_cookie++;
    world_look(w);
}

static void on_role(void *arg, enum spur_store_role role, uint64_t fence, const char *leader, const struct spur_error *err)
{
    struct world *w = arg;

    (void)leader;
    if (role == SPUR_STORE_LEADER && fence == 0)
        trouble(w, "leadership comes with fence 0");
    if (role == SPUR_STORE_FAILED && (!err || !err->text[0]))
        trouble(w, "the store fails without a sentence");
    w->is_leader = role == SPUR_STORE_LEADER;
    w->has_failed |= role == SPUR_STORE_FAILED;
    w->fence = fence;
    world_look(w);
}

static int on_snapshot_write(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    struct world *w = arg;
    const uint64_t state[2] = { w->count, w->hash };
    const char filler[1000] = { 0 };

    if (sink->write(sink->arg, state, sizeof state) != (long)sizeof state)
        return spur_fail(err, SPUR_EIO, "the sink takes no bytes");
    for (int i = 0; i < 100; i++)
        if (sink->write(sink->arg, filler, sizeof filler) != (long)sizeof filler)
            return spur_fail(err, SPUR_EIO, "the sink takes no bytes");
    return 0;
}

static int on_snapshot_read(void *arg, uint64_t index, const struct spur_store_source *source, struct spur_error *err)
{
    struct world *w = arg;
    uint64_t state[2];
    char rest[777];
    size_t got = 0, more = 0;
    long n;

    while (got < sizeof state && (n = source->read(source->arg, (char *)state + got, sizeof state - got)) > 0)
        got += (size_t)n;
    while ((n = source->read(source->arg, rest, sizeof rest)) > 0)
        more += (size_t)n;
    if (n < 0 || got != sizeof state || more != 100000)
        return spur_fail(err, SPUR_ECORRUPT, "the snapshot has %zu bytes more, 100000 were written", more);
    w->snapshots_read++;
    w->count = state[0];
    w->hash = state[1];
    w->last_index = index;
    return 0;
}

static int world_open(struct world *w, struct contract *c, struct spur_error *err)
{
    int rc;

    *w = (struct world){ .c = c, .tell = -1 };
    w->events = (struct spur_store_events){ .size = sizeof w->events, .arg = w, .committed = on_committed, .dropped = on_dropped, .role = on_role,
                                            .snapshot_write = on_snapshot_write, .snapshot_read = on_snapshot_read };
    if ((rc = contract_open(c, &w->l, err)) < 0)
        return rc;
    w->ops = loader_ops(w->l);
    if ((rc = w->ops->start(w->l->self, &w->events, err)) < 0)
        return spur_context(err, "start");
    CONTRACT_EXPECT(contract_loop(c, &w->is_done, PATIENCE_MS) && w->is_leader, "a store with one member does not lead after %d s", PATIENCE_MS / 1000);
    return 0;
}

/* What was posted before stop returned runs before the plugin is gone, as the loop of a daemon would run it: its code may be unmapped afterwards. */
static void world_unload(struct world *w)
{
    bool never = false;

    contract_loop(w->c, &never, 0);
    loader_close(w->l);
}

static int world_close(struct world *w, struct spur_error *err)
{
    w->ops->stop(w->l->self);
    world_unload(w);
    CONTRACT_EXPECT(w->wrong == 0, "%s", w->trouble);
    return 0;
}

/* Proposes entries from, from+1, ...; adds their hash to *hash. */
static int world_propose(struct world *w, uint64_t from, uint64_t count, size_t size, uint64_t *hash, struct spur_error *err)
{
    char *data = mem_alloc(size);
    int rc = 0;

    for (uint64_t i = from; i < from + count && rc == 0; i++) {
        snprintf(data, size, "entry %llu", (unsigned long long)i);
        *hash = hash_add(*hash, data, size);
        rc = w->ops->propose(w->l->self, data, size, (void *)(uintptr_t)++w->wait_count, err);
        if (rc == SPUR_EBUSY || rc == SPUR_ELIMIT) {     /* full for now: let it work, then the same entry again */
            uint64_t had = w->cookies + w->dropped;

            w->is_done = false;
            w->wait_count--;
            contract_loop(w->c, &w->is_done, 50);
            if (w->cookies + w->dropped > had)
                rc = w->ops->propose(w->l->self, data, size, (void *)(uintptr_t)++w->wait_count, err);
        }
        memset(data, 'x', size < 32 ? size : 32);     /* the store has its own copy */
    }
    free(data);
    return rc;
}

static int world_settle(struct world *w, struct spur_error *err)
{
    world_look(w);
    CONTRACT_EXPECT(contract_loop(w->c, &w->is_done, PATIENCE_MS), "%llu of %llu proposals are answered after %d s", (unsigned long long)(w->cookies + w->dropped),
                    (unsigned long long)w->wait_count, PATIENCE_MS / 1000);
    CONTRACT_EXPECT(w->dropped == 0, "%llu proposals are dropped with nothing wrong", (unsigned long long)w->dropped);
    CONTRACT_EXPECT(w->wrong == 0, "%s", w->trouble);
    return 0;
}

#define TRY(call) do { if ((rc = (call)) < 0) return rc; } while (0)

static int commits_in_order(struct contract *c, struct spur_error *err)
{
    struct world w;
    uint64_t hash = 0;
    int rc;

    TRY(world_open(&w, c, err));
    TRY(world_propose(&w, 0, 1000, 40, &hash, err));
    TRY(world_propose(&w, 1000, 3, 200000, &hash, err));
    TRY(world_settle(&w, err));
    CONTRACT_EXPECT(w.count == 1003 && w.hash == hash, "%llu entries come back, 1003 were proposed, or their bytes differ", (unsigned long long)w.count);
    return world_close(&w, err);
}

static int replays_after_a_stop(struct contract *c, struct spur_error *err)
{
    struct world w;
    uint64_t hash = 0, fence = 0, last = 0;
    int rc;

    for (unsigned round = 0; round < 4; round++) {
        TRY(world_open(&w, c, err));
        CONTRACT_EXPECT(w.count == round * 200 && w.hash == hash, "start %u: %llu entries come back, %u were committed, or their bytes differ", round,
                        (unsigned long long)w.count, round * 200);
        CONTRACT_EXPECT(w.last_index >= last, "start %u: the last index is %llu, it was %llu", round, (unsigned long long)w.last_index, (unsigned long long)last);
        CONTRACT_EXPECT(w.fence > fence, "start %u: fence %llu after %llu: it must grow", round, (unsigned long long)w.fence, (unsigned long long)fence);
        fence = w.fence;
        TRY(world_propose(&w, round * 200, 200, 64, &hash, err));
        TRY(world_settle(&w, err));
        last = w.last_index;
        TRY(world_close(&w, err));
    }
    return 0;
}

static int snapshots(struct contract *c, struct spur_error *err)
{
    struct world w;
    uint64_t hash = 0, snapshot_index = 0;
    int rc;

    TRY(world_open(&w, c, err));
    if (!SPUR_HAS(w.ops, snapshot))
        return CONTRACT_SKIP;
    for (unsigned round = 0; round < 3; round++) {
        struct spur_store_status s;
        bool never = false;

        TRY(world_propose(&w, round * 100, 100, 500, &hash, err));
        TRY(world_settle(&w, err));
        TRY(w.ops->snapshot(w.l->self, err));
        /* It may be written by a thread of the store: wait until status knows it. */
        for (unsigned i = 0; i < 500; i++) {
            s = (struct spur_store_status){ .size = sizeof s };
            w.ops->status(w.l->self, &s);
            if (s.snapshot_index > snapshot_index)
                break;
            contract_loop(c, &never, 10);
        }
        CONTRACT_EXPECT(s.snapshot_index > snapshot_index, "status does not know the snapshot that was taken");
        snapshot_index = s.snapshot_index;
        TRY(world_propose(&w, round * 100 + 50, 0, 500, &hash, err));
        TRY(world_close(&w, err));
        TRY(world_open(&w, c, err));
        CONTRACT_EXPECT(w.count == (round + 1) * 100 && w.hash == hash, "after a snapshot and a restart the state has %llu entries, %u were committed, or differs",
                        (unsigned long long)w.count, (round + 1) * 100);
        CONTRACT_EXPECT(w.snapshots_read == 1, "the snapshot is read %llu times at a start", (unsigned long long)w.snapshots_read);
    }
    return world_close(&w, err);
}

/* A member that is killed while it works: every entry whose commit was told is there afterwards. */
static int survives_kill(struct contract *c, struct spur_error *err)
{
    uint64_t least = 0;

    for (unsigned round = 0; round < 5; round++) {
        struct world w;
        uint64_t told = 0, last = 0;
        int ends[2], rc;
        pid_t child;

        if (pipe(ends) < 0 || (child = fork()) < 0)
            return spur_fail(err, SPUR_EIO, "cannot start a process");
        if (child == 0) {
            uint64_t hash = 0;

            close(ends[0]);
            if (world_open(&w, c, err) < 0)
                _exit(1);
            w.tell = ends[1];
            for (uint64_t i = 0; ; i += 10) {
                if (world_propose(&w, i, 10, 100, &hash, err) < 0)
                    _exit(1);
                w.is_done = false;
                contract_loop(c, &w.is_done, 2);
            }
        }
        close(ends[1]);
        while (last < least + 60 + round * 37 && read(ends[0], &told, sizeof told) == (ssize_t)sizeof told)
            last = told;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        while (read(ends[0], &told, sizeof told) == (ssize_t)sizeof told)
            last = told;
        close(ends[0]);
        CONTRACT_EXPECT(last > least, "round %u: the store tells no commit", round);
        TRY(world_open(&w, c, err));
        CONTRACT_EXPECT(w.count >= last, "round %u: %llu entries were told to be committed, %llu are there after kill -9", round, (unsigned long long)last,
                        (unsigned long long)w.count);
        least = w.count;
        TRY(world_close(&w, err));
    }
    return 0;
}

static int stop_answers_everything(struct contract *c, struct spur_error *err)
{
    struct world w;
    uint64_t hash = 0, told, count;
    int rc;

    TRY(world_open(&w, c, err));
    TRY(world_propose(&w, 0, 100, 100, &hash, err));
    w.ops->stop(w.l->self);
    w.is_done = false;
    w.wait_count = UINT64_MAX;
    contract_loop(c, &w.is_done, 200);      /* what was posted before stop returned */
    told = w.cookies + w.dropped;
    CONTRACT_EXPECT(told == 100, "stop leaves %llu of 100 proposals without an answer", (unsigned long long)(100 - told));
    count = w.cookies;
    world_unload(&w);
    TRY(world_open(&w, c, err));
    CONTRACT_EXPECT(w.count >= count, "%llu entries were committed before stop, %llu are there after it", (unsigned long long)count, (unsigned long long)w.count);
    return world_close(&w, err);
}

static int status_is_sane(struct contract *c, struct spur_error *err)
{
    struct { struct spur_store_status s; unsigned char more[32]; } out;
    struct world w;
    uint64_t hash = 0;
    int rc;

    TRY(world_open(&w, c, err));
    TRY(world_propose(&w, 0, 10, 100, &hash, err));
    TRY(world_settle(&w, err));
    memset(&out, 0xa5, sizeof out);
    out.s.size = sizeof out.s;
    w.ops->status(w.l->self, &out.s);
    CONTRACT_EXPECT(out.s.size == sizeof out.s && out.more[0] == 0xa5, "status writes past its struct or into its size");
    CONTRACT_EXPECT(out.s.role == SPUR_STORE_LEADER && out.s.fence == w.fence, "status and the role event differ");
    CONTRACT_EXPECT(out.s.committed >= w.last_index && out.s.durable >= w.last_index, "status says %llu committed, %llu durable; entry %llu was handed out",
                    (unsigned long long)out.s.committed, (unsigned long long)out.s.durable, (unsigned long long)w.last_index);
    CONTRACT_EXPECT(out.s.member_count >= 1, "status counts no member");
    memset(&out, 0xa5, sizeof out);
    out.s.size = offsetof(struct spur_store_status, committed);
    w.ops->status(w.l->self, &out.s);
    CONTRACT_EXPECT(((unsigned char *)&out)[out.s.size] == 0xa5, "status writes past the size of its caller's struct");
    if (SPUR_HAS(w.ops, member)) {
        struct spur_store_member m;

        memset(&m, 0xa5, sizeof m);
        CONTRACT_EXPECT(w.ops->member(w.l->self, 0, &m) == 0 && m.name[0] && memchr(m.name, '\0', sizeof m.name), "member 0 has no name");
        CONTRACT_EXPECT(w.ops->member(w.l->self, 1000000, &m) < 0, "there is a member 1000000");
    }
    return world_close(&w, err);
}

static void barrier_done(void *arg, const struct spur_error *err)
{
    *(int *)arg = err && err->code < 0 ? -1 : 1;
}

static int barrier_comes_after(struct contract *c, struct spur_error *err)
{
    struct world w;
    uint64_t hash = 0;
    int passed = 0, rc;

    TRY(world_open(&w, c, err));
    if (!SPUR_HAS(w.ops, barrier))
        return CONTRACT_SKIP;
    for (unsigned round = 0; round < 20; round++) {
        bool never = false;

        TRY(world_propose(&w, round * 5, 5, 100, &hash, err));
        TRY(world_settle(&w, err));
        passed = 0;
        TRY(w.ops->barrier(w.l->self, barrier_done, &passed, err));
        for (unsigned i = 0; i < 1000 && !passed; i++)
            contract_loop(c, &never, 5);
        CONTRACT_EXPECT(passed == 1, "a leader's barrier %s", passed ? "fails" : "does not come");
    }
    return world_close(&w, err);
}

const struct contract_case contract_store[] = {
    { "commits in order", commits_in_order },
    { "replays after a stop", replays_after_a_stop },
    { "snapshots cut the replay", snapshots },
    { "survives kill -9", survives_kill },
    { "stop answers every proposal", stop_answers_everything },
    { "status keeps to its struct", status_is_sane },
    { "a barrier comes after what was committed", barrier_comes_after },
    { 0 } };
