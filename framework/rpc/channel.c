/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - messages between processes: the sealed stream, and frames in both directions. handshake.c brings it up.
 *
 * Called by rpc/server.c (libuv), client/ (blocking) and the step's I/O. Owns three buffers: what came and is not opened yet, what is
 * opened and not handed over yet, what goes out. Each grows only by bytes that have really come, never by a length that a peer
 * claims, and big ones are given back when they run empty: ten thousand idle peers must cost little.
 *
 * A sealed record is u32 length of the plain part | ciphertext of length + 17 bytes; the length is authenticated too. Frames are
 * cut into records without regard to their edges, so a record never holds up a small message for long.
 */
#include <stdlib.h>
#include <string.h>

#include "rpc/channel_inside.h"

void *channel_room(struct str *s, size_t n)
{
    size_t cap = s->cap ? s->cap : 256;

    while (cap < s->len + n + 1)
        cap *= 2;
    if (cap != s->cap) {
        s->text = mem_grow(s->cap ? s->text : NULL, cap, 1);
        s->cap = cap;
    }
    return s->text + s->len;
}

/* Empties a buffer; a big one goes back to the heap. */
static void drained(struct str *s)
{
    if (s->cap > CHANNEL_KEEP)
        str_fini(s);
    else
        str_clear(s);
}

int channel_break(struct channel *c)
{
    c->state = STATE_BROKEN;
    str_fini(&c->raw);
    str_fini(&c->plain);
    c->plain_at = 0;
    return SPUR_ECLOSED;
}

void channel_destroy(struct channel *c)
{
    if (!c)
        return;
    str_fini(&c->raw);
    str_fini(&c->plain);
    str_fini(&c->out);
    str_fini(&c->scratch);
    free(c->proof);
    free(c->cluster);
    if (!c->is_local)
        sodium_memzero(c, sizeof *c);
    free(c);
}

struct channel *channel_local(void)
{
    struct channel *c = mem_alloc(sizeof *c);

    str_init(&c->raw);
    str_init(&c->plain);
    str_init(&c->out);
    str_init(&c->scratch);
    c->is_local = true;
    c->version = WIRE_VERSION;
    c->state = STATE_READY;
    return c;
}

enum channel_want channel_want(const struct channel *c)
{
    switch (c->state) {
    case STATE_PROVE: return CHANNEL_PROVE;
    case STATE_CHECK: return CHANNEL_CHECK;
    case STATE_READY: return CHANNEL_READY;
    case STATE_BROKEN: return CHANNEL_BROKEN;
    default: return CHANNEL_BYTES;
    }
}

struct str *channel_output(struct channel *c)
{
    return &c->out;
}

size_t channel_memory(const struct channel *c)
{
    return sizeof *c + c->raw.cap + c->plain.cap + c->out.cap + c->scratch.cap;
}

void channel_rekey_after(struct channel *c, uint64_t bytes)
{
    c->rekey_after = bytes;
}

void channel_seal(struct channel *c, const uint8_t *data, size_t n)
{
    uint8_t *out = channel_room(&c->out, RECORD_HEAD + n + RECORD_TAIL);
    uint8_t tag = crypto_secretstream_xchacha20poly1305_TAG_MESSAGE;

    c->sealed += n;
    if (c->sealed >= c->rekey_after) {
        tag = crypto_secretstream_xchacha20poly1305_TAG_REKEY;
        c->sealed = 0;
    }
    for (unsigned i = 0; i < RECORD_HEAD; i++)
        out[i] = (uint8_t)(n >> (8 * i));
    crypto_secretstream_xchacha20poly1305_push(&c->push, out + RECORD_HEAD, NULL, data, n, out, RECORD_HEAD, tag);
    c->out.len += RECORD_HEAD + n + RECORD_TAIL;
    c->out.text[c->out.len] = '\0';
}

int channel_open_record(struct channel *c, size_t *used, uint8_t *plain, size_t max, size_t *n, struct spur_error *err)
{
    const uint8_t *in = (const uint8_t *)c->raw.text + *used;
    size_t have = c->raw.len - *used, len;
    uint8_t tag;

    if (have < RECORD_HEAD)
        return 0;
    len = (size_t)in[0] | (size_t)in[1] << 8 | (size_t)in[2] << 16 | (size_t)in[3] << 24;
    if (len > max)
        return channel_break(c), spur_fail(err, SPUR_ELIMIT, "sealed record of %zu bytes: the limit is %zu%s", len, max,
                                           c->state == STATE_READY ? "" : " before the peer is known");
    if (have < RECORD_HEAD + len + RECORD_TAIL)
        return 0;
    if (!plain)
        plain = channel_room(&c->plain, len);
    if (crypto_secretstream_xchacha20poly1305_pull(&c->pull, plain, NULL, &tag, in + RECORD_HEAD, len + RECORD_TAIL, in, RECORD_HEAD) != 0)
        return channel_break(c), spur_fail(err, SPUR_EAUTH, "a sealed record does not open: it was changed, lost or repeated on the way%s",
                                           c->state == STATE_READY ? "" : ", or the two ends hold different keys");
    if (tag != crypto_secretstream_xchacha20poly1305_TAG_MESSAGE && tag != crypto_secretstream_xchacha20poly1305_TAG_REKEY)
        return channel_break(c), spur_fail(err, SPUR_ECORRUPT, "a sealed record has tag %u, which no spur sends", tag);
    *n = len;
    *used += RECORD_HEAD + len + RECORD_TAIL;
    return 1;
}

/* Opens all whole records at the front of `raw`. */
static int open_records(struct channel *c, struct spur_error *err)
{
    size_t used = 0, n;
    int rc;

    while ((rc = channel_open_record(c, &used, NULL, RECORD_MAX, &n, err)) > 0)
        c->plain.len += n;
    if (rc < 0)
        return rc;
    channel_eat(&c->raw, used);
    return 0;
}

void channel_eat(struct str *s, size_t n)
{
    if (!n)
        return;
    s->len -= n;
    if (!s->len)
        drained(s);
    else
        memmove(s->text, s->text + n, s->len);
}

int channel_input(struct channel *c, const void *data, size_t n, struct spur_error *err)
{
    struct str *to = c->is_local ? &c->plain : &c->raw;
    size_t limit;

    if (c->state == STATE_BROKEN)
        return spur_fail(err, SPUR_ECLOSED, "the channel is closed");
    if (c->plain_at) {
        channel_eat(&c->plain, c->plain_at);
        c->plain_at = 0;
    }
    /* A server that knows us may send more than its proof at once; a client has nothing to say before it knows the server. */
    limit = c->is_server ? CHANNEL_UNKNOWN_MAX : 8 * CHANNEL_UNKNOWN_MAX;
    if (c->state != STATE_READY && c->raw.len + n > limit)
        return channel_break(c), spur_fail(err, SPUR_ELIMIT, "more than %zu bytes before the peer is known", limit);
    memcpy(channel_room(to, n), data, n);
    to->len += n;
    if (c->state == STATE_READY)
        return c->is_local ? 0 : open_records(c, err);
    return channel_handshake(c, err);
}

int channel_next(struct channel *c, struct frame *f, const uint8_t **body, struct spur_error *err)
{
    size_t have;
    int rc;

    if (c->state != STATE_READY)
        return c->state == STATE_BROKEN ? spur_fail(err, SPUR_ECLOSED, "the channel is closed") : 0;
    /* What came in the same read as the peer's proof. */
    if (c->raw.len && !c->is_local && !c->plain.len && (rc = open_records(c, err)) < 0)
        return rc;
    have = c->plain.len - c->plain_at;
    if (have < FRAME_HEADER)
        goto none;
    if ((rc = frame_unpack(f, (const uint8_t *)c->plain.text + c->plain_at, FRAME_MAX, err)) < 0) {
        channel_break(c);
        return rc;
    }
    if (have - FRAME_HEADER < f->length)
        goto none;
    *body = (const uint8_t *)c->plain.text + c->plain_at + FRAME_HEADER;
    c->plain_at += FRAME_HEADER + f->length;
    return 1;
none:
    if (!have) {
        drained(&c->plain);
        c->plain_at = 0;
    }
    return 0;
}

/* Room for a frame of `size` bytes and its head, where it is packed before it is sealed. */
static int frame_begin(struct channel *c, uint16_t type, uint64_t seq, size_t size, uint8_t **body, struct spur_error *err)
{
    struct frame f = { .length = (uint32_t)size, .type = type, .version = c->version, .seq = seq };
    struct str *to = c->is_local ? &c->out : &c->scratch;

    if (c->state != STATE_READY)
        return spur_fail(err, SPUR_ECLOSED, c->state == STATE_BROKEN ? "the channel is closed" : "the channel is not open yet");
    if (size > FRAME_MAX)
        return spur_fail(err, SPUR_ELIMIT, "message of %zu bytes: the limit is %u", size, FRAME_MAX);
    *body = channel_room(to, FRAME_HEADER + size);
    frame_pack(&f, *body);
    *body += FRAME_HEADER;
    return 0;
}

static void frame_end(struct channel *c, const uint8_t *body, size_t size)
{
    const uint8_t *at = body - FRAME_HEADER;

    size += FRAME_HEADER;
    if (c->is_local) {
        c->out.len += size;
        return;
    }
    channel_room(&c->out, size + (size / RECORD_MAX + 1) * (RECORD_HEAD + RECORD_TAIL));
    for (size_t done = 0, n; done < size; done += n) {
        n = size - done < RECORD_MAX ? size - done : RECORD_MAX;
        channel_seal(c, at + done, n);
    }
    drained(&c->scratch);
}

int channel_send(struct channel *c, uint16_t type, uint64_t seq, const ProtobufCMessage *body, struct spur_error *err)
{
    size_t size = body ? protobuf_c_message_get_packed_size(body) : 0;
    uint8_t *at;
    int rc = frame_begin(c, type, seq, size, &at, err);

    if (rc < 0)
        return rc;
    if (body)
        protobuf_c_message_pack(body, at);
    frame_end(c, at, size);
    return 0;
}

int channel_send_bytes(struct channel *c, uint16_t type, uint64_t seq, const void *body, size_t n, struct spur_error *err)
{
    uint8_t *at;
    int rc = frame_begin(c, type, seq, n, &at, err);

    if (rc < 0)
        return rc;
    if (n)
        memcpy(at, body, n);
    frame_end(c, at, n);
    return 0;
}
