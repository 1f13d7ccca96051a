/* SPDX-License-Identifier: Apache-2.0 */
/* channel_inside.h - what channel.c (sealed stream) and handshake.c share. Nobody else includes it. */
#ifndef RPC_CHANNEL_INSIDE_H
#define RPC_CHANNEL_INSIDE_H

#include <sodium.h>

#include "rpc/channel.h"

#define RECORD_HEAD 4
#define RECORD_TAIL crypto_secretstream_xchacha20poly1305_ABYTES
#define RECORD_MAX  (32u << 10)                     /* plain bytes of one record: what a peer must hold before it can hand over any */
#define CHANNEL_UNKNOWN_MAX FRAME_MAX_UNKNOWN       /* bytes kept of a peer that is not known */
#define CHANNEL_KEEP (16u << 10)                    /* an empty buffer up to this size is kept for the next message */

enum channel_state {
    STATE_HELLO,        /* server: waits for the hello */
    STATE_ANSWER,       /* client: waits for the answer */
    STATE_PROVE,        /* our proof is due */
    STATE_PROOF,        /* waits for the peer's proof */
    STATE_CHECK,        /* the peer's proof is to be checked */
    STATE_READY,
    STATE_BROKEN,
};

struct channel {
    enum channel_state state;
    bool     is_local, is_server, is_keyed;
    uint16_t version;                               /* of the frames we send: the lower of both sides */
    struct str raw, plain, out, scratch;            /* scratch: a message while it is sealed */
    size_t   plain_at;                              /* bytes of `plain` already handed over */
    uint64_t sealed, rekey_after;                   /* bytes since our last rekey */
    crypto_secretstream_xchacha20poly1305_state push, pull;
    char    *cluster;
    struct spur_transcript mine, theirs;
    /* Of the handshake only. */
    uint8_t  hello[80];                             /* ours while a client waits for the answer */
    uint8_t  public_key[32], secret_key[32];        /* ephemeral; the secret is wiped as soon as the shared one is made */
    uint8_t  key[32];                               /* of a keyed channel */
    uint8_t  header[crypto_secretstream_xchacha20poly1305_HEADERBYTES];     /* of our stream, goes in front of our first record */
    uint8_t  seal_out[32], seal_in[32];
    uint8_t *proof; size_t proof_len;               /* the peer's, until it is checked */
};

void *channel_room(struct str *s, size_t n);        /* room for n bytes at the end; `len` is the caller's to move */
void  channel_eat(struct str *s, size_t n);         /* drops n bytes off the front */
int   channel_break(struct channel *c);
void  channel_seal(struct channel *c, const uint8_t *data, size_t n);
/* Opens the record at `*used` of raw into `plain` (NULL: behind c->plain; the caller moves its len): 1, 0 not whole yet, negative broken. */
int   channel_open_record(struct channel *c, size_t *used, uint8_t *plain, size_t max, size_t *n, struct spur_error *err);
int   channel_handshake(struct channel *c, struct spur_error *err);         /* goes as far as the bytes at hand let it */

#endif
