/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c - protobuf-c with an arena for its allocator.
 *
 * protobuf-c asks for memory in proportion to what a message claims to repeat, before it has read the elements; the arena's cap
 * is what stops a small message from costing much memory. A failed unpack leaves its garbage in the arena: it dies with it.
 * The schema has no recursive message, so depth is bounded by the schema.
 */
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

void *wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t n, struct arena *a)
{
    ProtobufCAllocator allocator = { .alloc = unpack_alloc, .free = unpack_free, .allocator_data = a };

    return protobuf_c_message_unpack(d, &allocator, n, data);
}

void *wire_pack(const ProtobufCMessage *m, struct arena *a, size_t *n)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *data = arena_alloc(a, size ? size : 1);

    *n = data ? protobuf_c_message_pack(m, data) : 0;
    return data;
}
