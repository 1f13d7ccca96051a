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
/* Packs a message of our own; bytes in the arena. NULL when the arena is full. */
void *wire_pack(const ProtobufCMessage *m, struct arena *a, size_t *n);

#endif
