/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - one message on a channel: a fixed header of 16 bytes, little-endian, and a protobuf-c body.
 *
 *     u32 length of the body | u16 message type (spur.proto) | u16 wire version | u64 sequence number
 *
 * An answer carries the sequence number of its request. A body over FRAME_MAX closes the connection. Over TCP frames travel
 * only inside the sealed records of rpc/channel.h; on a local socket they travel as they are, in the kernel.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#include "wire/spur.pb-c.h"

#define FRAME_HEADER 16
#define FRAME_MAX    (64u << 20)            /* bytes of one body from a known peer */
#define FRAME_MAX_UNKNOWN (16u << 10)       /* before the peer is known */
#define WIRE_VERSION 1                      /* N; N-1 is understood too */

struct frame { uint32_t length; uint16_t type, version; uint64_t seq; };
void frame_pack(const struct frame *f, uint8_t out[FRAME_HEADER]);
int  frame_unpack(struct frame *f, const uint8_t in[FRAME_HEADER], uint32_t max, struct spur_error *err);

#endif
