/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c - the disk of a member, at the level of records: writes become durable in their order when they are confirmed.
 *
 * A crash leaves any prefix of the records that were not confirmed: the log's chain of checksums makes anything else into that (the real log
 * proves it: tests/unit/plugins/store/test_matrix.c). Rot is only put below what the log attests; what it takes away is what the
 * real log would refuse to read: the record and all behind it. Term and vote are told apart from that: they stand in the superblock too.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster.h"
#include "faults.h"

struct lump *lump_new(const void *data, size_t n)
{
    struct lump *b = mem_alloc(sizeof *b + n);

    b->refs = 1;
    b->n = n;
    if (n)
        memcpy(b->bytes, data, n);
    b->hash = sim_hash(n, b->bytes, n);
    return b;
}

struct lump *lump_hold(struct lump *b)
{
    b->refs++;
    return b;
}

void lump_drop(struct lump *b)
{
    if (b && !--b->refs)
        free(b);
}

static void slots_drop(struct slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        lump_drop(slots[i].lump);
}

static void order_fini(struct order *o)
{
    slots_drop(o->slots, o->count);
    free(o->slots);
}

void drive_fini(struct drive *d)
{
    slots_drop(d->slots, d->count);
    free(d->slots);
    for (size_t i = 0; i < d->order_count; i++)
        order_fini(&d->orders[i]);
    free(d->orders);
    lump_drop(d->snapshots[0].bytes);
    lump_drop(d->snapshots[1].bytes);
    memset(d, 0, sizeof *d);
}

void drive_order(struct drive *d, const struct raft_ready *rd, uint64_t commit)
{
    struct order *o;

    if (d->order_count == d->order_room)
        d->orders = mem_grow(d->orders, d->order_room = d->order_room ? 2 * d->order_room : 8, sizeof *d->orders);
    o = &d->orders[d->order_count++];
    *o = (struct order){ .seq = rd->write_seq, .has_vote = rd->has_vote, .term = rd->term, .vote = rd->vote, .count = rd->count, .commit = commit };
    if (!rd->count)
        return;
    o->first = rd->entries[0].index;
    o->slots = mem_array(rd->count, sizeof *o->slots);
    for (size_t i = 0; i < rd->count; i++)
        o->slots[i] = (struct slot){ .term = rd->entries[i].term, .type = rd->entries[i].type, .lump = lump_new(rd->entries[i].data, rd->entries[i].n) };
}

static void append(struct drive *d, uint64_t index, const struct slot *s)
{
    if (!d->count || index > d->first + d->count || index < d->first) {     /* a new start behind a snapshot */
        slots_drop(d->slots, d->count);
        d->count = 0;
        d->first = index;
    } else if (SIM_FAULT(TAIL_KEPT) && index < d->first + d->count) {
        struct slot *old = &d->slots[index - d->first];

        lump_drop(old->lump);
        *old = (struct slot){ .term = s->term, .type = s->type, .lump = lump_hold(s->lump) };
        return;
    } else {
        slots_drop(d->slots + (index - d->first), d->count - (index - d->first));
        d->count = index - d->first;
    }
    if (d->count == d->room)
        d->slots = mem_grow(d->slots, d->room = d->room ? 2 * d->room : 64, sizeof *d->slots);
    d->slots[d->count++] = (struct slot){ .term = s->term, .type = s->type, .lump = lump_hold(s->lump) };
}

/* The first `records` of an order: its vote comes before its entries, the note of what is committed last. */
static void perform(struct drive *d, const struct order *o, size_t records)
{
    if (o->has_vote && records) {
        d->term = o->term;
        d->vote = o->vote;
        records--;
    }
    for (size_t i = 0; i < o->count && i < records; i++)
        append(d, o->first + i, &o->slots[i]);
    if (records > o->count && o->commit > d->commit)
        d->commit = o->commit;
}

static void orders_drop(struct drive *d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order_fini(&d->orders[i]);
    if (n && n < d->order_count)
        memmove(d->orders, d->orders + n, (d->order_count - n) * sizeof *d->orders);
    d->order_count -= n;
}

void drive_confirm(struct drive *d, size_t orders)
{
    for (size_t i = 0; i < orders; i++)
        perform(d, &d->orders[i], d->orders[i].count + 2);
    orders_drop(d, orders);
}

void drive_crash(struct drive *d, struct sim_random *random)
{
    size_t whole = sim_random_below(random, d->order_count + 1);

    if (sim_random_below(random, 3) == 0)
        whole = 0;
    drive_confirm(d, whole);
    if (d->order_count)
        perform(d, &d->orders[0], sim_random_below(random, d->orders[0].count + 3));
    orders_drop(d, d->order_count);
    d->is_flushing = d->is_full = false;
}

bool drive_rot(struct drive *d, struct sim_random *random)
{
    size_t keep;

    if (d->count < 2)
        return false;
    keep = sim_random_below(random, d->count);
    slots_drop(d->slots + keep, d->count - keep);
    d->count = keep;
    return true;
}

void drive_snapshot(struct drive *d, const struct snapshot *taken)
{
    lump_drop(d->snapshots[1].bytes);
    d->snapshots[1] = d->snapshots[0];
    d->snapshots[0] = *taken;
    lump_hold(taken->bytes);
}

void drive_install(struct drive *d, const struct snapshot *got)
{
    bool continues = drive_term_at(d, got->index) == got->term;

    lump_drop(d->snapshots[1].bytes);
    lump_drop(d->snapshots[0].bytes);
    memset(d->snapshots, 0, sizeof d->snapshots);
    d->snapshots[0] = *got;
    lump_hold(got->bytes);
    /* The log that comes back at a start must continue the snapshot. What is still under way is not in it: the core knows what it ordered. */
    if (!continues) {
        slots_drop(d->slots, d->count);
        d->count = 0;
    }
}

void drive_cut(struct drive *d, uint64_t index)
{
    size_t n;

    if (!d->count || index < d->first)
        return;
    n = index - d->first + 1 < d->count ? index - d->first + 1 : d->count;
    slots_drop(d->slots, n);
    memmove(d->slots, d->slots + n, (d->count - n) * sizeof *d->slots);
    d->count -= n;
    d->first += n;
}

const struct slot *drive_slot(const struct drive *d, uint64_t index)
{
    return d->count && index >= d->first && index < d->first + d->count ? &d->slots[index - d->first] : NULL;
}

uint64_t drive_term_at(const struct drive *d, uint64_t index)
{
    const struct slot *s = drive_slot(d, index);

    if (s)
        return s->term;
    for (int i = 0; i < 2; i++)
        if (index && d->snapshots[i].index == index)
            return d->snapshots[i].term;
    return 0;
}

void drive_last(const struct drive *d, uint64_t *index, uint64_t *term)
{
    *index = d->snapshots[0].index;
    *term = d->snapshots[0].term;
    if (d->count && d->first + d->count - 1 > *index) {
        *index = d->first + d->count - 1;
        *term = d->slots[d->count - 1].term;
    }
}

bool drive_restore(struct drive *d, struct raft_restored *out, struct raft_entry **entries)
{
    uint64_t from;

    if (d->snapshots[0].index && d->snapshots[0].is_bad) {      /* the older one and the log since */
        if (d->snapshots[1].index ? !d->count || d->first > d->snapshots[1].index + 1 : !d->count || d->first > 1)
            return false;
        lump_drop(d->snapshots[0].bytes);
        d->snapshots[0] = d->snapshots[1];
        memset(&d->snapshots[1], 0, sizeof d->snapshots[1]);
    }
    memset(out, 0, sizeof *out);
    out->term = d->term;
    out->vote = SIM_FAULT(VOTE_FORGOTTEN) ? RAFT_NOBODY : d->vote;
    out->snapshot_index = d->snapshots[0].index;
    out->snapshot_term = d->snapshots[0].term;
    out->snapshot_members = d->snapshots[0].members;
    out->applied = out->snapshot_index;
    if (out->term < out->snapshot_term)
        out->term = out->snapshot_term;
    /* A snapshot may be durable before the log that it continues: of own state while the flush was slow, or from the leader. */
    if (drive_slot(d, out->snapshot_index) && drive_slot(d, out->snapshot_index)->term != out->snapshot_term) {
        slots_drop(d->slots, d->count);
        d->count = 0;
    }
    from = out->snapshot_index + 1;
    if (d->count && d->first > from)
        return false;
    for (uint64_t i = from; d->count && i < d->first + d->count; i++) {
        const struct slot *s = drive_slot(d, i);

        if (out->count % 64 == 0)
            *entries = mem_grow(*entries, out->count + 64, sizeof **entries);
        (*entries)[out->count++] = (struct raft_entry){ .term = s->term, .index = i, .type = s->type, .data = s->lump->bytes, .n = s->lump->n };
    }
    out->entries = *entries;
    return true;
}
