/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.h - protobuf messages into and out of an arena, so that one decoded message is one memory that dies with it. */
#ifndef WIRE_UNPACK_H
#define WIRE_UNPACK_H

#include <stddef.h>
#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"

/* Decodes outside bytes; never free the result, its arena does. The arena's cap bounds what hostile bytes can make us allocate.
 * NULL: these bytes are no such message, or would pass the cap. */
void *wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t n, struct arena *a);
/* The same for an arena without a cap that lives on: the message itself may take WIRE_UNPACK_ROOM of it, no more. A few bytes can ask for many (an empty
 * string in a list costs 2 on the wire and 24 here), so 64 MiB of a known user must not become a gigabyte. */
void *wire_unpack_bounded(const ProtobufCMessageDescriptor *d, const void *data, size_t n, struct arena *a);
#define WIRE_UNPACK_ROOM(n) ((64u << 10) + 16 * (size_t)(n))
/* Packs a message of our own; bytes in the arena. NULL when the arena is full. */
void *wire_pack(const ProtobufCMessage *m, struct arena *a, size_t *n);

#endif
