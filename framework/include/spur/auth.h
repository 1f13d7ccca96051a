/* SPDX-License-Identifier: Apache-2.0 */
/* spur/auth.h - the kind `auth`: proves who is at the other end of an encrypted channel (Slurm's AuthType). ABI 0.2.
 *
 * The channel itself (X25519 + XChaCha20-Poly1305) is the framework's and always there. Both sides hash the handshake; the
 * plugin proves and checks that hash, bound to the side it came from, and returns an identity. A plugin with SPUR_CAP_MAY_BLOCK
 * is called off the loop, by several threads at once. A client that has no configuration yet takes the cluster that answers: its `cluster` is "" then,
 * so bind to the hash, which covers the name, not to the name. Mandatory: prove, check.
 */
#ifndef SPUR_AUTH_H
#define SPUR_AUTH_H

#include <stdbool.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spur_role { SPUR_ROLE_NONE = 0, SPUR_ROLE_USER, SPUR_ROLE_NODE, SPUR_ROLE_LOGIN, SPUR_ROLE_CONTROLLER };

struct spur_identity {
    uint32_t size;
    int      role;              /* enum spur_role: what the other end is. USER: a person's command */
    uint32_t uid, gid;          /* of a user; 0xffffffff for others */
    char     host[64];          /* host that proved itself or vouched for the user; "" when the plugin cannot tell */
    bool     is_local;          /* from the kernel's peer credentials of a local socket */
    int      host_role;         /* enum spur_role of `host`, the one that vouched: a compute host (NODE) may only for users with a job on it. NONE: cannot tell */
};

#define SPUR_PROOF_MAX 4096
struct spur_transcript {
    uint32_t size;
    uint8_t  hash[64];          /* BLAKE2b-512 of the handshake so far, both ephemeral keys and the cluster's name included */
    bool     by_server;         /* which side the proof is of: a proof of one is none of the other */
    const char *cluster;
};

struct spur_auth_ops {
    uint32_t size;
    /* Prove this process's own identity (daemon: its host and role; command: the user who runs it). buf has SPUR_PROOF_MAX bytes; *len: bytes
     * written. EAUTH, with what to do, when there is no key or no daemon to ask. */
    int (*prove)(void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err);
    /* Prove, as a daemon, for the user `uid`, `gid` that the kernel reports on a local socket. Optional: without it users prove themselves. */
    int (*vouch)(void *self, const struct spur_transcript *t, uint32_t uid, uint32_t gid, uint8_t *buf, size_t *len, struct spur_error *err);
    /* Check the other end's proof and say who it is. Every failure is SPUR_EAUTH with what to do in the sentence. */
    int (*check)(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err);
    /* Sign and verify launch credentials: Ed25519 detached, 64 bytes, with the controller's own key. `signer`: name of the controller.
     * verify: 0, or EAUTH: signed by somebody else, changed, or a signer that is not known. Optional, but nothing can be launched without them. */
    int (*sign)(void *self, const char *purpose, const void *data, size_t n, uint8_t signature[64], struct spur_error *err);
    int (*verify)(void *self, const char *purpose, const char *signer, const void *data, size_t n, const uint8_t signature[64], struct spur_error *err);
    /* since 0.2, optional: plugins with keys of hosts. Lines are "NAME ROLE KEY\n", KEY in hex.
     * Hosts that have joined the cluster, as its state has them: these lines and no others are believed beside what the site has laid down itself. Kept for the next start. */
    int (*enrol)(void *self, const char *lines, struct spur_error *err);
    /* All hosts that are believed here now, as lines. Returns the bytes needed, the final zero included; writes when they fit. */
    long (*roster)(void *self, char *buf, size_t n, struct spur_error *err);
};

#ifdef __cplusplus
}
#endif
#endif
