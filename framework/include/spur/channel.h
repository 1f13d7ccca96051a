/* SPDX-License-Identifier: Apache-2.0 */
/* spur/channel.h - encrypted channels of a plugin's own, between processes of one cluster. Offered by hosts with an auth plugin (spur_host.channels).
 *
 * The framework's channel (X25519, XChaCha20-Poly1305; framework/doc/wire.md) over a socket that the plugin has connected or accepted, with the
 * other end proven by the auth plugin. For threads of the plugin: no call needs or enters the loop. One channel belongs to one thread at a time.
 *
 *     meet                              both ends, on a socket; blocks until both are proven, or the deadline
 *     send ... output, written          messages are sealed into a buffer; the plugin writes it to its socket when that takes bytes
 *     input ... next                    bytes that came in; whole messages out
 *     close                             forgets keys and buffers; the socket stays the plugin's
 */
#ifndef SPUR_CHANNEL_H
#define SPUR_CHANNEL_H

#include <spur/auth.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spur_channel;

#define SPUR_CHANNEL_MESSAGE_MAX (64u << 20)

struct spur_channels {
    uint32_t size;
    void    *ctx;               /* of the host; first argument of meet */
    /* Handshake over `fd`, a connected stream socket that does not block; waits for it until `deadline_ms` (CLOCK_BOOTTIME). `purpose` ("store/raft") is
     * bound into the handshake: an end that came for something else is refused. `peer`: who it is, its size set by the caller. ECLOSED, ETIMEOUT, EAUTH, ECORRUPT with
     * the reason; the plugin closes fd. */
    int  (*meet)(void *ctx, int fd, bool has_dialled, const char *purpose, int64_t deadline_ms, struct spur_channel **out, struct spur_identity *peer,
                 struct spur_error *err);
    /* Seals one message behind those that wait. ELIMIT: over SPUR_CHANNEL_MESSAGE_MAX, the channel stays as it was. */
    int  (*send)(struct spur_channel *c, uint16_t type, const void *data, size_t n, struct spur_error *err);
    /* Bytes for the wire, borrowed until the next call; then how many of them the socket took. */
    size_t (*output)(struct spur_channel *c, const void **data);
    void (*written)(struct spur_channel *c, size_t n);
    /* Bytes from the wire. A negative code (EAUTH: changed, lost or repeated on the way) breaks the channel for good. */
    int  (*input)(struct spur_channel *c, const void *data, size_t n, struct spur_error *err);
    /* Next whole message: 1, with data borrowed until the next call; 0: none yet; negative: broken. */
    int  (*next)(struct spur_channel *c, uint16_t *type, const void **data, size_t *n, struct spur_error *err);
    void (*close)(struct spur_channel *c);          /* accepts NULL */
};

#ifdef __cplusplus
}
#endif
#endif
