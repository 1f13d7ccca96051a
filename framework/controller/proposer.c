/* SPDX-License-Identifier: Apache-2.0 */
/* proposer.c - one entry is one batch: everything that has queued since the last one went to the store.
 *
 * An idle controller pays one flush a request; a busy one fills each entry while the last is being written. A proposal
 * (the ops of one request) is never split over entries. Each gets its results, or the reason why its entry was dropped, exactly once, from
 * the loop, never from within propose(). Called by dispatch, nodes, effects and the plan; called back by the store.
 *
 * A store that is busy for a moment (the leadership is being handed over, too much waits for the disk) says SPUR_EBUSY and has kept nothing: what
 * it did not take goes back to the head of the queue, in its order, and is proposed again some milliseconds later. When another leads by
 * then, the answer is where to ask; so a planned hand-over fails no call.
 */
#include <stdlib.h>

#include "controller/ctl.h"

#define ENTRY_OPS_MAX   4096
#define ENTRY_BYTES_MAX (1u << 20)
#define ENTRIES_IN_FLIGHT 8
#define BUSY_MS         5               /* until it is tried again */
#define BUSY_MOST_MS    2000            /* busy for so long is an answer */

struct proposal {
    Wire__Op **ops; size_t n;
    struct proposal_blobs blobs;
    struct arena arena;
    proposed_fn done; void *arg;
    uint32_t level;             /* the feature level it needs */
    struct proposal *next;
};
struct flight { struct proposal *first; uint8_t *packed; };     /* the cookie of one entry */
struct proposer {
    struct proposal *first, **last; size_t queued, in_flight;
    struct proposal **back;     /* behind what has come back from a busy store; NULL: nothing has */
    int64_t  busy_since_ms;     /* 0: the store takes entries */
    bool     is_resting;
    uv_timer_t timer;
};

void proposer_create(struct ctl *c)
{
    c->proposer = mem_alloc(sizeof *c->proposer);
    c->proposer->last = &c->proposer->first;
    uv_timer_init(c->loop, &c->proposer->timer);
    c->proposer->timer.data = c->proposer;
}

static void proposal_end(struct ctl *c, struct proposal *p, const struct op_result *results, const struct spur_error *err)
{
    if (p->done)
        p->done(c, p->arg, results, results ? p->n : 0, err);
    arena_fini(&p->arena);
    free(p);
}

void proposer_destroy(struct ctl *c)
{
    struct spur_error err = { 0 };

    if (!c->proposer)
        return;
    spur_fail(&err, SPUR_ECLOSED, "the controller is stopping");
    while (c->proposer->first) {
        struct proposal *p = c->proposer->first;

        c->proposer->first = p->next;
        proposal_end(c, p, NULL, &err);
    }
    free(c->proposer);          /* the loop has ended, and its handles are closed */
    c->proposer = NULL;
}

void propose(struct ctl *c, Wire__Op **ops, size_t n, const struct proposal_blobs *blobs, struct arena *take_arena, proposed_fn done, void *arg)
{
    struct proposal *p = mem_alloc(sizeof *p);

    p->ops = ops;
    p->n = n;
    if (blobs)
        p->blobs = *blobs;
    p->arena = *take_arena;
    arena_init(take_arena, 0);
    p->done = done;
    p->arg = arg;
    for (size_t i = 0; i < n; i++)
        if (state_op_level(ops[i]) > p->level)
            p->level = state_op_level(ops[i]);
    *c->proposer->last = p;
    c->proposer->last = &p->next;
    c->proposer->queued += n;
}

static size_t proposal_bytes(const struct proposal *p)
{
    size_t bytes = 0;

    for (size_t i = 0; i < p->n; i++)
        bytes += wire__op__get_packed_size(p->ops[i]);
    for (size_t i = 0; i < p->blobs.count; i++)
        bytes += p->blobs.blobs[i]->data.len + 48;
    return bytes;
}

/* Takes proposals off the queue up to an entry's limits; at least one. */
static struct proposal *proposer_take(struct proposer *q, size_t *ops, size_t *blobs)
{
    struct proposal *first = q->first, *p = first, *last = NULL;
    size_t bytes = 0;

    *ops = *blobs = 0;
    while (p) {
        size_t more = proposal_bytes(p);

        if (last && (*ops + p->n > ENTRY_OPS_MAX || bytes + more > ENTRY_BYTES_MAX || p->level > first->level))
            break;
        bytes += more;
        *ops += p->n;
        *blobs += p->blobs.count;
        last = p;
        p = p->next;
    }
    q->first = p;
    if (!p)
        q->last = &q->first;
    last->next = NULL;
    q->queued -= *ops;
    q->back = NULL;
    return first;
}

static void proposer_drop(struct ctl *c, struct proposal *p, const struct spur_error *err)
{
    while (p) {
        struct proposal *next = p->next;

        proposal_end(c, p, NULL, err);
        p = next;
    }
}

static void rested(uv_timer_t *timer) { ((struct proposer *)timer->data)->is_resting = false; }      /* the loop flushes before it sleeps */

/* The store has not taken it. True: it waits at the head of the queue. */
static bool proposer_keep(struct ctl *c, struct proposal *first, const struct spur_error *why)
{
    struct proposer *q = c->proposer;
    struct proposal *last = first, **at = q->back ? q->back : &q->first;
    int64_t now = clock_boot_ms();

    if (why->code != SPUR_EBUSY || c->is_stopping || (q->busy_since_ms && now - q->busy_since_ms > BUSY_MOST_MS)) {
        q->busy_since_ms = 0;
        return false;
    }
    if (!q->busy_since_ms)
        q->busy_since_ms = now;
    for (;; last = last->next) {
        q->queued += last->n;
        if (!last->next)
            break;
    }
    if (!(last->next = *at))
        q->last = &last->next;
    *at = first;
    q->back = &last->next;
    q->is_resting = true;
    uv_timer_start(&q->timer, rested, BUSY_MS, 0);
    return true;
}

/* An operation that some voter's program does not know would be left out there: it waits for the upgrade of all. True: it was refused. */
static bool proposer_is_ahead(struct ctl *c)
{
    struct proposer *q = c->proposer;
    struct proposal *p = q->first;
    struct spur_error err = { 0 };
    uint32_t all = group_level(c);

    if (p->level <= all)
        return false;
    spur_fail(&err, SPUR_EUNSUPPORTED, "this needs feature level %u, and the controllers have %u in common: upgrade them all first (`spur controller status`)", p->level, all);
    if (!(q->first = p->next))
        q->last = &q->first;
    q->queued -= p->n;
    q->back = NULL;
    proposal_end(c, p, NULL, &err);
    return true;
}

void proposer_flush(struct ctl *c)
{
    struct proposer *q = c->proposer;

    while (q->first && q->in_flight < ENTRIES_IN_FLIGHT && !q->is_resting) {
        if (q->first->level > 1 && proposer_is_ahead(c))
            continue;
        Wire__Entry entry = WIRE__ENTRY__INIT;
        size_t ops, blobs, i = 0, b = 0, n;
        struct flight *f = mem_alloc(sizeof *f);
        struct spur_error err = { 0 };

        f->first = proposer_take(q, &ops, &blobs);
        entry.cluster_ms = ctl_cluster_ms(c);
        entry.wall_ms = clock_wall_ms();
        entry.fence = c->fence;
        entry.ops = mem_array(ops ? ops : 1, sizeof *entry.ops);
        entry.blobs = mem_array(blobs ? blobs : 1, sizeof *entry.blobs);
        for (struct proposal *p = f->first; p; p = p->next) {
            memcpy(entry.ops + i, p->ops, p->n * sizeof *p->ops);
            i += p->n;
            if (p->blobs.count)
                memcpy(entry.blobs + b, p->blobs.blobs, p->blobs.count * sizeof *entry.blobs);
            b += p->blobs.count;
        }
        entry.n_ops = ops;
        entry.n_blobs = blobs;
        n = wire__entry__get_packed_size(&entry);
        f->packed = mem_alloc(n);
        wire__entry__pack(&entry, f->packed);
        free(entry.ops);
        free(entry.blobs);
        q->in_flight++;
        if (c->store_ops->propose(c->store->self, f->packed, n, f, &err) < 0) {
            q->in_flight--;
            if (!proposer_keep(c, f->first, &err)) {
                log_line(err.code == SPUR_ENOTLEADER ? SPUR_LOG_DEBUG : SPUR_LOG_WARN, "store refused an entry: %s", err.text);
                proposer_drop(c, f->first, &err);
            }
            free(f->packed);
            free(f);
            continue;
        }
        free(f->packed);
        f->packed = NULL;
        c->entries++;
    }
}

bool proposer_is_idle(const struct ctl *c) { return !c->proposer->first && !c->proposer->in_flight; }

/* The store's callback, in order of the log; also at replay, when cookie is NULL. */
void proposer_committed(void *ctl, uint64_t index, const void *data, size_t n, void *cookie)
{
    struct ctl *c = ctl;
    struct flight *f = cookie;
    struct applied out = { 0 };
    struct spur_error err = { 0 };
    struct arena arena;
    Wire__Entry *entry;
    size_t done = 0;

    arena_init(&arena, 0);
    entry = wire__entry__unpack(NULL, n, data);
    if (!entry) {
        log_line(SPUR_LOG_ERROR, "entry %llu of the log cannot be read: not one of ours", (unsigned long long)index);
        spur_fail(&err, SPUR_ECORRUPT, "entry cannot be read");
    } else {
        for (size_t i = 0; i < entry->n_blobs; i++)
            if (entry->blobs[i]->hash.len == 32)
                blobs_put(c, entry->blobs[i]->hash.data, entry->blobs[i]->data.data, entry->blobs[i]->data.len);
        apply(c->state, index, entry, &arena, &out);
    }
    if (f) {
        struct proposal *p = f->first;

        c->proposer->in_flight--;
        c->proposer->busy_since_ms = 0;
        while (p) {
            struct proposal *next = p->next;
            size_t ops = p->n;          /* p is gone after its answer */
            bool is_whole = done + ops <= out.result_count;

            proposal_end(c, p, is_whole ? out.results + done : NULL, is_whole ? NULL : &err);
            done += is_whole ? ops : 0;
            p = next;
        }
        free(f);
    }
    if (c->is_live) {
        plan_events(c->plan, c->state, out.events, out.event_count);
        effects_run(c, out.events, out.event_count);
    } else {
        effects_follow(c, out.events, out.event_count);
    }
    if (c->waiting)
        query_applied(c);
    if (entry)
        wire__entry__free_unpacked(entry, NULL);
    arena_fini(&arena);
}

void proposer_dropped(void *ctl, void *cookie, const struct spur_error *why)
{
    struct ctl *c = ctl;
    struct flight *f = cookie;

    if (!f)
        return;
    c->proposer->in_flight--;
    if (!proposer_keep(c, f->first, why))
        proposer_drop(c, f->first, why);
    free(f);
}
