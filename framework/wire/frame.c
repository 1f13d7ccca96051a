/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - the 16 bytes in front of every message. Called by the channel for each message in and out; the first thing that
 * bytes from outside meet, so it refuses what is too long before anybody makes room for it. */
#include "wire/frame.h"

static void put(uint8_t *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *in, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

void frame_pack(const struct frame *f, uint8_t out[FRAME_HEADER])
{
    put(out, f->length, 4);
    put(out + 4, f->type, 2);
    put(out + 6, f->version, 2);
    put(out + 8, f->seq, 8);
}

int frame_unpack(struct frame *f, const uint8_t in[FRAME_HEADER], uint32_t max, struct spur_error *err)
{
    f->length = (uint32_t)get(in, 4);
    f->type = (uint16_t)get(in + 4, 2);
    f->version = (uint16_t)get(in + 6, 2);
    f->seq = get(in + 8, 8);
    if (f->version != WIRE_VERSION && (f->version != WIRE_VERSION - 1 || f->version == 0))
        return spur_fail(err, SPUR_ECORRUPT, "message of wire version %u: this spur speaks %u (random bytes, or a spur of another release?)",
                         f->version, WIRE_VERSION);
    if (f->length > max)
        return spur_fail(err, SPUR_ELIMIT, "message of %u bytes: the limit is %u", f->length, max);
    return 0;
}
