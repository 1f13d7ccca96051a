/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - packs and unpacks what members say to each other.
 *
 * A proven peer is still not believed: memory for a message is capped by its size (protobuf's structs are larger than their bytes), and
 * numbers go to the core as they are, which checks them. What does not decode closes the connection.
 */
#include "message.h"

#include <stdlib.h>
#include <string.h>

#include "raft.pb-c.h"

static void *capped_alloc(void *arg, size_t n)
{
    struct decoded *d = arg;

    if (n > d->cap - d->used)
        return NULL;
    d->used += n;
    return malloc(n);
}

static void capped_free(void *arg, void *p)
{
    (void)arg;
    free(p);
}

static uint8_t *packed(const ProtobufCMessage *m, size_t *n)
{
    uint8_t *out;

    *n = protobuf_c_message_get_packed_size(m);
    out = malloc(*n ? *n : 1);
    if (out)
        protobuf_c_message_pack(m, out);
    return out;
}

uint8_t *hello_pack(const struct hello *h, size_t *n)
{
    Raft__Hello m = RAFT__HELLO__INIT;

    m.protocol = h->protocol;
    m.member = h->member;
    m.group = h->group;
    m.name = (char *)h->name;
    m.addr = (char *)h->addr;
    m.line = h->line;
    m.is_fresh = h->is_fresh;
    m.feature = h->feature;
    m.has_former = h->former != 0;
    m.former = h->former;
    return packed(&m.base, n);
}

uint8_t *info_pack(const struct info *i, size_t *n)
{
    Raft__Info m = RAFT__INFO__INIT;

    m.flush_p50_us = i->flush_p50_us;
    m.flush_p99_us = i->flush_p99_us;
    m.feature = i->feature;
    m.applied = i->applied;
    m.is_outsider = i->is_outsider;
    return packed(&m.base, n);
}

uint8_t *refusal_pack(const char *text, size_t *n)
{
    Raft__Refusal m = RAFT__REFUSAL__INIT;

    m.text = (char *)text;
    return packed(&m.base, n);
}

uint8_t *message_pack(const struct raft_message *in, size_t *n)
{
    Raft__Message m = RAFT__MESSAGE__INIT;
    Raft__Entry *rows = NULL, **pointers = NULL;
    uint8_t members[sizeof(struct raft_members)], *out = NULL;

    m.type = in->type;
    m.to = in->to;
    m.term = in->term;
#define FIELD(name) m.has_##name = in->name != 0; m.name = in->name
    FIELD(index);
    FIELD(log_term);
    FIELD(commit);
    FIELD(round);
    FIELD(sent_ms);
    FIELD(reject);
    FIELD(by_transfer);
    FIELD(match);
    FIELD(hint_index);
    FIELD(hint_term);
    FIELD(offset);
    FIELD(total);
    FIELD(is_last);
#undef FIELD
    if (in->n) {
        m.has_data = true;
        m.data.data = (uint8_t *)in->data;
        m.data.len = in->n;
    }
    if (in->members && in->members->count) {
        m.has_members = true;
        m.members.data = members;
        m.members.len = raft_members_pack(in->members, members, sizeof members);
    }
    if (in->count) {
        rows = malloc(in->count * sizeof *rows);
        pointers = malloc(in->count * sizeof *pointers);
        if (!rows || !pointers)
            goto out;
        for (size_t i = 0; i < in->count; i++) {
            raft__entry__init(&rows[i]);
            rows[i].term = in->entries[i].term;
            rows[i].index = in->entries[i].index;
            rows[i].type = in->entries[i].type;
            rows[i].has_data = in->entries[i].n != 0;
            rows[i].data.data = (uint8_t *)in->entries[i].data;
            rows[i].data.len = in->entries[i].n;
            pointers[i] = &rows[i];
        }
        m.entries = pointers;
        m.n_entries = in->count;
    }
    out = packed(&m.base, n);
out:
    free(rows);
    free(pointers);
    return out;
}

static int copied(char *to, size_t room, const char *from)
{
    size_t n = strlen(from);

    if (n >= room)
        return SPUR_ECORRUPT;
    memcpy(to, from, n + 1);
    for (; *to; to++)
        if ((unsigned char)*to < 0x20 || *to == 0x7f)
            return SPUR_ECORRUPT;
    return 0;
}

int hello_unpack(struct hello *out, const void *data, size_t n)
{
    struct decoded cap = { .cap = 4096 };
    ProtobufCAllocator a = { .alloc = capped_alloc, .free = capped_free, .allocator_data = &cap };
    Raft__Hello *m = raft__hello__unpack(&a, n, data);
    int rc = 0;

    if (!m)
        return SPUR_ECORRUPT;
    *out = (struct hello){ .protocol = m->protocol, .line = m->line, .feature = m->feature, .member = m->member, .group = m->group, .former = m->former, .is_fresh = m->is_fresh };
    if (copied(out->name, sizeof out->name, m->name) < 0 || copied(out->addr, sizeof out->addr, m->addr) < 0 || !*out->name || m->member == RAFT_NOBODY ||
        (m->line != LINE_CONTROL && m->line != LINE_BULK))
        rc = SPUR_ECORRUPT;
    raft__hello__free_unpacked(m, &a);
    return rc;
}

int info_unpack(struct info *out, const void *data, size_t n)
{
    struct decoded cap = { .cap = 4096 };
    ProtobufCAllocator a = { .alloc = capped_alloc, .free = capped_free, .allocator_data = &cap };
    Raft__Info *m = raft__info__unpack(&a, n, data);

    if (!m)
        return SPUR_ECORRUPT;
    *out = (struct info){ m->flush_p50_us, m->flush_p99_us, m->feature, m->applied, m->is_outsider };
    raft__info__free_unpacked(m, &a);
    return 0;
}

int refusal_unpack(char text[400], const void *data, size_t n)
{
    struct decoded cap = { .cap = 4096 };
    ProtobufCAllocator a = { .alloc = capped_alloc, .free = capped_free, .allocator_data = &cap };
    Raft__Refusal *m = raft__refusal__unpack(&a, n, data);
    int rc;

    if (!m)
        return SPUR_ECORRUPT;
    rc = copied(text, 400, m->text);
    raft__refusal__free_unpacked(m, &a);
    return rc;
}

int message_unpack(struct decoded *out, const void *data, size_t n)
{
    ProtobufCAllocator a = { .alloc = capped_alloc, .free = capped_free, .allocator_data = out };
    Raft__Message *m;

    *out = (struct decoded){ .cap = 16 * n + (64u << 10) };
    if (!(m = raft__message__unpack(&a, n, data)))
        return SPUR_ECORRUPT;
    out->proto = m;
    out->m = (struct raft_message){ .type = m->type, .to = m->to, .term = m->term, .index = m->index, .log_term = m->log_term, .commit = m->commit,
                                    .round = m->round, .sent_ms = m->sent_ms, .reject = m->reject, .by_transfer = m->by_transfer, .match = m->match,
                                    .hint_index = m->hint_index, .hint_term = m->hint_term, .offset = m->offset, .total = m->total,
                                    .data = m->data.data, .n = m->data.len, .is_last = m->is_last };
    if (m->has_members) {
        if (!(out->members = malloc(sizeof *out->members)) || raft_members_unpack(out->members, m->members.data, m->members.len) < 0)
            goto corrupt;
        out->m.members = out->members;
    }
    if (m->n_entries) {
        if (!(out->entries = malloc(m->n_entries * sizeof *out->entries)))
            goto corrupt;
        for (size_t i = 0; i < m->n_entries; i++)
            out->entries[i] = (struct raft_entry){ .term = m->entries[i]->term, .index = m->entries[i]->index, .type = m->entries[i]->type,
                                                   .data = m->entries[i]->data.data, .n = m->entries[i]->data.len };
        out->m.entries = out->entries;
        out->m.count = m->n_entries;
    }
    return 0;
corrupt:
    message_free(out);
    return SPUR_ECORRUPT;
}

void message_free(struct decoded *d)
{
    ProtobufCAllocator a = { .alloc = capped_alloc, .free = capped_free, .allocator_data = d };

    if (d->proto)
        raft__message__free_unpacked(d->proto, &a);
    free(d->entries);
    free(d->members);
    d->proto = NULL;
    d->entries = NULL;
    d->members = NULL;
}
