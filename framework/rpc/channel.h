/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - the encrypted channel as a pure state machine: bytes in, bytes and messages out. No socket, no clock.
 *
 * Handshake (all TCP): hello and answer carry fresh X25519 keys, the wire version and a hash of the cluster's name; keys
 * come from BLAKE2b over the shared secret and the transcript; then each side sends its auth plugin's proof of the transcript,
 * sealed, the client first: a server says nothing about itself to somebody it does not know. After that every frame travels in sealed
 * records (XChaCha20-Poly1305 secretstream, rekeyed each GiB). A peer that is not yet known costs at most 64 KiB and one scalar
 * multiplication; ephemeral keys are made ahead (struct channel_pool). No negotiation to anything weaker.
 * framework/doc/wire.md has the bytes. A local (Unix) socket skips all of it: the kernel's peer credentials are the identity.
 *
 * Once a call has failed the channel is CHANNEL_BROKEN and stays so: close the connection.
 */
#ifndef RPC_CHANNEL_H
#define RPC_CHANNEL_H

#include <stdbool.h>
#include <spur/auth.h>

#include "base/str.h"
#include "wire/frame.h"

struct channel;
struct channel_pool;
/* Calls of the auth plugin may have to leave the loop (SPUR_CAP_MAY_BLOCK), so the channel stops and says what it needs. */
enum channel_want { CHANNEL_BYTES, CHANNEL_PROVE, CHANNEL_CHECK, CHANNEL_READY, CHANNEL_BROKEN };

/* Ephemeral key pairs made ahead, each used once. One owner, one thread. */
struct channel_pool *channel_pool_create(void);
void channel_pool_destroy(struct channel_pool *p);          /* wipes; accepts NULL */
bool channel_pool_fill(struct channel_pool *p, unsigned at_most);           /* makes some; true when it is full now */

struct channel *channel_client(const char *cluster);        /* NULL: whatever cluster answers (a host that asks for its configuration) */
struct channel *channel_server(const char *cluster, struct channel_pool *pool);     /* pool NULL or empty: makes its key now */
struct channel *channel_local(void);                        /* frames as they are */
/* With a key both sides know already instead of an auth plugin (step I/O): same handshake, the key goes into it, the proof is a keyed hash.
 * It never stops at CHANNEL_PROVE or CHANNEL_CHECK. */
struct channel *channel_keyed(bool is_server, const char *cluster, const uint8_t key[32]);
void channel_destroy(struct channel *c);                    /* wipes keys; accepts NULL */
enum channel_want channel_want(const struct channel *c);
const struct spur_transcript *channel_transcript(const struct channel *c, bool of_peer);    /* what to prove / to check */
int  channel_proof(struct channel *c, const uint8_t *proof, size_t len, struct spur_error *err);            /* after CHANNEL_PROVE */
const uint8_t *channel_peer_proof(const struct channel *c, size_t *len);                                   /* at CHANNEL_CHECK */
int  channel_checked(struct channel *c, struct spur_error *err);                                            /* after CHANNEL_CHECK went well */
/* Instead of `checked`, as a server: the reason goes out sealed, and the channel is over. Only for who has shown a key that was known. */
void channel_refuse(struct channel *c, const char *text);
/* Bytes from the wire. At CHANNEL_PROVE and CHANNEL_CHECK do not read on: a little is kept, more is an error. */
int  channel_input(struct channel *c, const void *data, size_t n, struct spur_error *err);
/* Next whole message: 1 and frame/body (borrowed until the next call on c), 0 none yet, negative: broken. */
int  channel_next(struct channel *c, struct frame *f, const uint8_t **body, struct spur_error *err);
/* body NULL: empty. Only at CHANNEL_READY. A body over FRAME_MAX is SPUR_ELIMIT and leaves the channel as it was. */
int  channel_send(struct channel *c, uint16_t type, uint64_t seq, const ProtobufCMessage *body, struct spur_error *err);
/* The same for a body that is packed already. */
int  channel_send_bytes(struct channel *c, uint16_t type, uint64_t seq, const void *body, size_t n, struct spur_error *err);
struct str *channel_output(struct channel *c);              /* bytes for the wire; the caller clears what it has written */
size_t channel_memory(const struct channel *c);             /* bytes held now: for bounds and their tests */
void channel_rekey_after(struct channel *c, uint64_t bytes);        /* other than 1 GiB: tests */

#endif
