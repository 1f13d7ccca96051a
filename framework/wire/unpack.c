/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c - protobuf-c with an arena for its allocator.
 *
 * protobuf-c asks for memory in proportion to what a message claims to repeat, before it has read the elements; the arena's cap
 * is what stops a small message from costing much memory. A failed unpack leaves its garbage in the arena: it dies with it.
 * The schema has no recursive message, so depth is bounded by the schema.
 */
#include <stdbool.h>

#include "wire/unpack.h"

static void *unpack_alloc(void *data, size_t size)
{
    return arena_alloc(data, size ? size : 1);
}

static void unpack_free(void *data, void *pointer)
{
    (void)data;
    (void)pointer;
}

/* protobuf-c takes a field of number 0 when its tag is written too long (80 00), keeps it as an unknown field, and packs it short, which
 * nobody unpacks: such a message, put into the log, would be a log that no replica reads. */
static bool is_sound(const ProtobufCMessage *m)
{
    for (unsigned i = 0; i < m->n_unknown_fields; i++)
        if (m->unknown_fields[i].tag == 0)
            return false;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const void *at = (const char *)m + f->offset;

        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t count = *(const size_t *)((const char *)m + f->quantifier_offset);
            ProtobufCMessage *const *list = *(ProtobufCMessage *const *const *)at;

            for (size_t k = 0; k < count; k++)
                if (!is_sound(list[k]))
                    return false;
        } else if (*(ProtobufCMessage *const *)at && !is_sound(*(ProtobufCMessage *const *)at)) {
            return false;
        }
    }
    return true;
}

void *wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t n, struct arena *a)
{
    ProtobufCAllocator allocator = { .alloc = unpack_alloc, .free = unpack_free, .allocator_data = a };
    ProtobufCMessage *m = protobuf_c_message_unpack(d, &allocator, n, data);

    return m && is_sound(m) ? m : NULL;
}

void *wire_unpack_bounded(const ProtobufCMessageDescriptor *d, const void *data, size_t n, struct arena *a)
{
    size_t cap = a->cap;
    void *m;

    a->cap = a->used + WIRE_UNPACK_ROOM(n);
    m = wire_unpack(d, data, n, a);
    a->cap = cap;
    return m;
}

void *wire_pack(const ProtobufCMessage *m, struct arena *a, size_t *n)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *data = arena_alloc(a, size ? size : 1);

    *n = data ? protobuf_c_message_pack(m, data) : 0;
    return data;
}
