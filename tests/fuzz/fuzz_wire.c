/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire.c - bytes from the wire: as a stranger's handshake, as a known peer's frames, as each message of the schema.
 *
 * The first byte of an input chooses: 0 a server that waits for a hello, 1 a server after a good hello, 2 a client that waits for an answer,
 * 3 frames on a local channel, 4 frames inside the sealed stream, 5 the text of a message (the next byte says which), 6 a frame's header,
 * 7 the same as 0 but in small pieces. Memory is bounded in all of them.
 */
#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "base/arena.h"
#include "fuzz.h"
#include "rpc/channel_inside.h"
#include "wire/credential.h"
#include "wire/unpack.h"

#define UNKNOWN_MEMORY (64u << 10)

static const ProtobufCMessageDescriptor *const messages[] = {
    &wire__refusal__descriptor, &wire__submit_request__descriptor, &wire__submit_reply__descriptor, &wire__jobs_request__descriptor, &wire__jobs_reply__descriptor,
    &wire__nodes_request__descriptor, &wire__nodes_reply__descriptor, &wire__partitions_reply__descriptor, &wire__config_reply__descriptor, &wire__cancel_request__descriptor,
    &wire__job_update_request__descriptor, &wire__node_update_request__descriptor, &wire__wait_request__descriptor, &wire__step_request__descriptor,
    &wire__step_reply__descriptor, &wire__steps_request__descriptor, &wire__steps_reply__descriptor, &wire__config_files__descriptor, &wire__register_request__descriptor,
    &wire__register_reply__descriptor, &wire__heartbeat__descriptor, &wire__report__descriptor, &wire__report_ack__descriptor, &wire__launch__descriptor,
    &wire__kill__descriptor, &wire__credential__descriptor, &wire__vouch_request__descriptor, &wire__vouch_reply__descriptor, &wire__entry__descriptor,
    &wire__io_hello__descriptor, &wire__io_data__descriptor, &wire__io_exit__descriptor, &wire__step_hello__descriptor, &wire__partition_update_request__descriptor,
    &wire__blob__descriptor, &wire__pong__descriptor, &wire__done_reply__descriptor,
};

/* All there are. Chosen by a hash of the name, so that an input means the same message when another one joins the schema. */
static const ProtobufCMessageDescriptor *const every_message[] = {
#include "messages.h"
};

static const ProtobufCMessageDescriptor *message_near(uint8_t key)
{
    const ProtobufCMessageDescriptor *best = NULL;
    unsigned least = UINT32_MAX;

    for (size_t i = 0; i < sizeof every_message / sizeof *every_message; i++) {
        unsigned hash = 2166136261u;

        for (const char *c = every_message[i]->name; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 16777619u;
        hash = (((hash >> 16) ^ hash) & 0xff) ^ key;
        hash = hash << 8 | (unsigned)i;
        if (hash < least) {
            least = hash;
            best = every_message[i];
        }
    }
    return best;
}

/* What unpacks packs again, to something that unpacks to the same bytes. */
static void message(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *d;
    struct arena a, b;
    void *m, *again;
    uint8_t *one, *two;
    size_t n, k;

    if (!size)
        return;
    d = messages[data[0] % (sizeof messages / sizeof *messages)];
    if (data[0] >= 128 && size > 1) {
        d = message_near(data[1]);
        data++;
        size--;
    }
    arena_init(&a, 1 << 20);
    arena_init(&b, 0);
    m = wire_unpack(d, data + 1, size - 1, &a);
    FUZZ_HOLDS(a.used <= 1 << 20);
    if (m && (one = wire_pack(m, &b, &n))) {
        FUZZ_HOLDS((again = wire_unpack(d, one, n, &b)));
        FUZZ_HOLDS((two = wire_pack(again, &b, &k)) && k == n && !memcmp(one, two, n));
    }
    arena_fini(&a);
    arena_fini(&b);
}

static void drain(struct channel *c)
{
    struct spur_error err;
    struct frame f;
    const uint8_t *body;
    unsigned sum = 0;

    while (channel_next(c, &f, &body, &err) > 0)
        for (uint32_t i = 0; i < f.length; i += 64)     /* every page of the body may be read */
            sum += body[i];
    (void)sum;
}

/* As the server does: until it breaks or wants what only a plugin has. */
static void feed(struct channel *c, const uint8_t *data, size_t size, size_t piece, bool is_known)
{
    struct spur_error err = { 0 };

    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < piece ? size - at : piece;
        err.text[0] = '\0';
        if (channel_input(c, data + at, n, &err) < 0) {
            FUZZ_HOLDS(err.text[0] && channel_want(c) == CHANNEL_BROKEN);
            return;
        }
        FUZZ_HOLDS(is_known || channel_memory(c) < UNKNOWN_MEMORY);
        if (channel_want(c) == CHANNEL_CHECK || channel_want(c) == CHANNEL_PROVE)
            return;
        drain(c);
    }
}

static void carry(struct channel *from, struct channel *to)
{
    struct spur_error err;
    struct str *out = channel_output(from);

    FUZZ_HOLDS(channel_input(to, out->text, out->len, &err) == 0);
    str_clear(out);
}

static void handshake(const uint8_t *data, size_t size, int how)
{
    struct channel *client = channel_client("c1"), *server = channel_server("c1", NULL);

    if (how == 1)
        carry(client, server);
    feed(how == 2 ? client : server, data, size, how == 7 ? 3 : 4096, false);
    channel_destroy(client);
    channel_destroy(server);
}

/* Any frames, well sealed: what a known peer can do to us. */
static void sealed(const uint8_t *data, size_t size)
{
    static const uint8_t key[32] = "both know it";
    struct channel *a = channel_keyed(false, "c1", key), *b = channel_keyed(true, "c1", key);
    struct str *out;

    carry(a, b);
    carry(b, a);
    carry(a, b);
    carry(b, a);
    FUZZ_HOLDS(channel_want(a) == CHANNEL_READY && channel_want(b) == CHANNEL_READY);
    channel_seal(a, data, size < 30000 ? size : 30000);
    out = channel_output(a);
    feed(b, (const uint8_t *)out->text, out->len, 777, true);
    channel_destroy(a);
    channel_destroy(b);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    struct frame f, g;
    struct channel *c;
    uint8_t head[FRAME_HEADER];

    if (!size)
        return 0;
    switch (data[0] % 8) {
    case 3:
        c = channel_local();
        feed(c, data + 1, size - 1, 100, true);
        channel_destroy(c);
        break;
    case 4:
        sealed(data + 1, size - 1);
        break;
    case 5:
        message(data + 1, size - 1);
        break;
    case 6:
        if (size >= 1 + FRAME_HEADER && frame_unpack(&f, data + 1, FRAME_MAX, NULL) == 0) {
            frame_pack(&f, head);
            FUZZ_HOLDS(f.length <= FRAME_MAX && frame_unpack(&g, head, FRAME_MAX, NULL) == 0 && !memcmp(&f, &g, sizeof f));
        }
        break;
    default:
        handshake(data + 1, size - 1, data[0] % 8);
    }
    return 0;
}
