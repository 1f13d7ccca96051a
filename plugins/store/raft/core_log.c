/* SPDX-License-Identifier: Apache-2.0 */
/* core_log.c - owns the entries: the newest in memory, the terms of all that the log on disk has, and the writes under way.
 *
 * Indices:  floor < mem_first <= last+1;  durable < next_write <= last+1;  applied <= handed <= commit <= last.
 * Rows lie in one array, so that messages, writes and committed entries can be lent as slices of it. What is applied and durable may
 * leave memory when the cache is full; its term stays known by runs, so a log of a million entries costs a few rows here.
 *
 * Writes are confirmed in their order. A tail that is cut off while its write is under way must not count as durable when the
 * confirmation comes: every write remembers the last entry it stands for, and cutting clamps that.
 */
#include "core_inside.h"

#include <stdlib.h>
#include <string.h>

#define ROW_BYTES 64u       /* what an entry costs beside its data, about */

uint64_t log_term(const struct log *l, uint64_t index)
{
    size_t low = 0, high = l->run_count;

    if (index == l->floor)
        return l->floor_term;
    if (index < l->floor || index > l->last)
        return 0;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;

        if (l->runs[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return l->runs[low].term;
}

uint64_t log_find(const struct log *l, uint64_t index, uint64_t term)
{
    size_t i = l->run_count;

    if (index > l->last)
        index = l->last;
    while (i-- > 0) {
        if (l->runs[i].first > index)
            continue;
        if (l->runs[i].term <= term)
            return index;
        index = l->runs[i].first - 1;
    }
    return index < l->floor ? index : l->floor;
}

const struct raft_entry *log_row(const struct log *l, uint64_t index)
{
    if (index < l->mem_first || index > l->last)
        return NULL;
    return &l->rows[l->head + (size_t)(index - l->mem_first)];
}

/* The term of the entry that is the last one now. */
static void run_push(struct log *l, uint64_t term)
{
    if (l->run_count && l->runs[l->run_count - 1].term == term)
        return;
    RAFT_MUST(term > (l->run_count ? l->runs[l->run_count - 1].term : 0) && term >= l->floor_term);
    l->runs = raft_grow(l->runs, &l->run_room, l->run_count, sizeof *l->runs);
    l->runs[l->run_count++] = (struct run){ l->last, term };
}

static void row_push(struct log *l, uint64_t term, uint32_t type, const void *data, size_t n, void *cookie)
{
    if (l->head + l->count == l->room) {
        if (l->head > l->room / 2) {
            memmove(l->rows, l->rows + l->head, l->count * sizeof *l->rows);
            memmove(l->cookies, l->cookies + l->head, l->count * sizeof *l->cookies);
            l->head = 0;
        } else {
            size_t room = l->room;

            l->rows = raft_grow(l->rows, &room, l->room, sizeof *l->rows);
            l->cookies = raft_grow(l->cookies, &l->room, l->room, sizeof *l->cookies);
            RAFT_MUST(room == l->room);
        }
    }
    l->last++;
    l->rows[l->head + l->count] = (struct raft_entry){ .term = term, .index = l->last, .type = type, .data = raft_copy(data, n), .n = n };
    l->cookies[l->head + l->count] = cookie;
    l->count++;
    l->bytes += n + ROW_BYTES;
    l->uncommitted_bytes += n;
    run_push(l, term);
}

static void row_free(struct log *l, size_t at)
{
    struct raft_entry *e = &l->rows[at];

    l->bytes -= e->n + ROW_BYTES;
    free((void *)e->data);
    e->data = NULL;
}

void log_init(struct log *l, const struct raft_restored *restored)
{
    size_t only_on_disk = 0;

    l->floor = restored->snapshot_index;
    l->floor_term = restored->snapshot_term;
    l->last = l->floor;
    l->mem_first = l->floor + 1;
    for (size_t i = 0; i < restored->count; i++)
        if (restored->entries[i].n && !restored->entries[i].data)
            only_on_disk = i + 1;
    RAFT_MUST(l->floor + only_on_disk <= restored->applied);
    for (size_t i = 0; i < restored->count; i++) {
        const struct raft_entry *e = &restored->entries[i];

        RAFT_MUST(e->index == l->last + 1 && e->term > 0);
        if (i >= only_on_disk) {
            row_push(l, e->term, e->type, e->data, e->n, NULL);
            continue;
        }
        l->last++;
        l->mem_first++;
        run_push(l, e->term);
    }
    l->next_write = l->last + 1;
    l->durable = l->last;
}

void log_fini(struct log *l)
{
    for (size_t i = 0; i < l->count; i++)
        row_free(l, l->head + i);
    free(l->rows);
    free(l->cookies);
    free(l->runs);
    free(l->writes);
}

uint64_t log_append(struct raft *r, uint64_t term, uint32_t type, const void *data, size_t n, void *cookie)
{
    row_push(&r->log, term, type, data, n, cookie);
    if (type == RAFT_ENTRY_MEMBERS) {
        struct raft_members m;

        RAFT_MUST(raft_members_unpack(&m, data, n) == 0);
        members_push(r, r->log.last, &m);
    }
    return r->log.last;
}

static void cookie_drop(struct raft *r, size_t at)
{
    struct log *l = &r->log;

    if (!l->cookies[at])
        return;
    r->dropped = raft_grow(r->dropped, &r->dropped_room, r->dropped_count, sizeof *r->dropped);
    r->dropped[r->dropped_count++] = (struct raft_dropped){ .index = l->rows[at].index, .cookie = l->cookies[at] };
    l->cookies[at] = NULL;
}

/* Proposals behind `after` are another leader's business now: he may have them or not. */
void log_drop_cookies(struct raft *r, uint64_t after)
{
    struct log *l = &r->log;

    for (uint64_t i = after + 1 > l->mem_first ? after + 1 : l->mem_first; i <= l->last; i++)
        cookie_drop(r, l->head + (size_t)(i - l->mem_first));
}

static void loaded_free(struct raft *r)
{
    for (size_t i = 0; i < r->loaded_count; i++)
        free((void *)r->loaded[i].data);
    free(r->loaded);
    r->loaded = NULL;
    r->loaded_count = 0;
}

void log_truncate(struct raft *r, uint64_t from)
{
    struct log *l = &r->log;

    RAFT_MUST(from > r->commit && from > l->floor && from >= l->mem_first && from <= l->last);
    RAFT_MUST(!r->is_lent);
    log_drop_cookies(r, from - 1);
    while (l->last >= from) {
        size_t at = l->head + l->count - 1;

        l->uncommitted_bytes -= l->rows[at].n;
        row_free(l, at);
        l->count--;
        l->last--;
    }
    while (l->run_count && l->runs[l->run_count - 1].first > l->last)
        l->run_count--;
    if (l->next_write > from)
        l->next_write = from;
    if (l->durable >= from)
        l->durable = from - 1;
    for (size_t i = 0; i < l->write_count; i++)
        if (l->writes[i].last >= from)
            l->writes[i].last = from - 1;
    members_cut(r, from);
}

/* The log holds nothing that counts: a snapshot that it does not lead up to stands in its place. */
void log_reset(struct raft *r, uint64_t index, uint64_t term)
{
    struct log *l = &r->log;

    RAFT_MUST(!r->is_lent);
    log_drop_cookies(r, 0);
    for (size_t i = 0; i < l->count; i++)
        row_free(l, l->head + i);
    l->head = l->count = l->run_count = 0;
    l->uncommitted_bytes = l->handed_bytes = 0;
    l->floor = l->last = l->durable = index;
    l->floor_term = term;
    l->mem_first = l->next_write = index + 1;
    for (size_t i = 0; i < l->write_count; i++)
        l->writes[i].last = 0;
    loaded_free(r);
    r->config_count = 0;
}

/* Forgets terms and rows up to `index`, which a snapshot stands for. */
void log_floor(struct raft *r, uint64_t index)
{
    struct log *l = &r->log;
    size_t gone = 0;

    if (index <= l->floor)
        return;
    RAFT_MUST(index <= l->last && index <= r->applied && index < l->next_write && !r->is_lent);
    l->floor_term = log_term(l, index);
    while (gone < l->run_count && (gone + 1 < l->run_count ? l->runs[gone + 1].first : l->last + 1) <= index + 1)
        gone++;
    if (gone)
        memmove(l->runs, l->runs + gone, (l->run_count - gone) * sizeof *l->runs);
    l->run_count -= gone;
    if (l->run_count && l->runs[0].first <= index)
        l->runs[0].first = index + 1;
    l->floor = index;
    while (l->count && l->mem_first <= index) {
        row_free(l, l->head++);
        l->count--;
        l->mem_first++;
    }
    if (l->mem_first <= index)
        l->mem_first = index + 1;
    /* A snapshot that is durable stands for entries whose own write is still under way. */
    if (l->durable < index)
        l->durable = index;
    if (r->loaded_count && r->loaded_first <= index)
        loaded_free(r);
    members_floor(r, index);
}

/* Rows leave memory from the front, when they are applied and durable and the cache is full. */
void log_evict(struct raft *r)
{
    struct log *l = &r->log;

    if (r->is_lent)
        return;
    while (l->count && l->bytes > r->config.cache_bytes && l->mem_first <= r->applied && l->mem_first <= l->durable) {
        row_free(l, l->head++);
        l->count--;
        l->mem_first++;
    }
}

uint64_t log_due_seq(const struct raft *r)
{
    return r->is_hard_dirty || r->log.next_write <= r->log.last ? r->log.ordered_seq + 1 : r->log.ordered_seq;
}

uint64_t log_order(struct raft *r)
{
    struct log *l = &r->log;

    l->writes = raft_grow(l->writes, &l->write_room, l->write_count, sizeof *l->writes);
    l->writes[l->write_count++] = (struct write){ .seq = ++l->ordered_seq, .last = l->last };
    l->next_write = l->last + 1;
    if (r->is_hard_dirty)
        r->hard_seq = l->ordered_seq;
    r->is_hard_dirty = false;
    return l->ordered_seq;
}

bool log_written(struct raft *r, uint64_t seq)
{
    struct log *l = &r->log;
    uint64_t before = l->durable;
    size_t n = 0;

    RAFT_MUST(seq <= l->ordered_seq);
    while (n < l->write_count && l->writes[n].seq <= seq) {
        if (l->writes[n].last > l->durable)
            l->durable = l->writes[n].last;
        n++;
    }
    if (n)
        memmove(l->writes, l->writes + n, (l->write_count - n) * sizeof *l->writes);
    l->write_count -= n;
    if (seq > l->written_seq)
        l->written_seq = seq;
    RAFT_MUST(l->durable < l->next_write);
    return l->durable > before;
}

/* ---- entries that only the disk still has ---- */

void raft_loaded(struct raft *r, uint64_t now_ms, const struct raft_entry *entries, size_t count)
{
    uint64_t first = r->load.first;

    input_begin(r, now_ms);
    if (!r->load.is_asked || (count && entries[0].index != first))
        return;         /* asked in an earlier leadership */
    r->load.is_asked = false;
    r->load.count = 0;
    loaded_free(r);
    if (r->role != RAFT_LEADER)
        return;
    r->loaded = count ? raft_alloc(count * sizeof *r->loaded) : NULL;
    for (size_t i = 0; i < count; i++) {
        const struct raft_entry *e = &entries[i];

        if (e->index != first + i || e->term == 0 || log_term(&r->log, e->index) != e->term)
            break;
        r->loaded[i] = *e;
        r->loaded[i].data = raft_copy(e->data, e->n);
        r->loaded_count++;
    }
    r->loaded_first = first;
    if (r->loaded_count)
        return;
    /* Cut off meanwhile, or damaged: what a snapshot holds helps every peer that is this far behind. */
    for (uint32_t i = 0; i < r->peer_count; i++) {
        struct peer *p = &r->peers[i];

        if (p->state != PEER_SNAPSHOT && p->next >= first && p->next < r->log.mem_first) {
            snapshot_peer_reset(p);
            p->state = PEER_SNAPSHOT;
        }
    }
}
