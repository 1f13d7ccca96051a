/* SPDX-License-Identifier: Apache-2.0 */
/* spur/auth.h - the kind `auth`: proves who is at the other end of an encrypted channel (Slurm's AuthType). ABI 0.3.
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

/* TOKEN (since 0.3): the bearer of a one-time token, whose host is about to join: good for that alone. */
enum spur_role { SPUR_ROLE_NONE = 0, SPUR_ROLE_USER, SPUR_ROLE_NODE, SPUR_ROLE_LOGIN, SPUR_ROLE_CONTROLLER, SPUR_ROLE_TOKEN };
/* What a user's own token is good for. ALL: what the user may, but for making tokens. */
enum spur_scope { SPUR_SCOPE_NONE = 0, SPUR_SCOPE_ALL, SPUR_SCOPE_READ };

struct spur_identity {
    uint32_t size;
    int      role;              /* enum spur_role: what the other end is. USER: a person's command */
    uint32_t uid, gid;          /* of a user; 0xffffffff for others */
    char     host[64];          /* host that proved itself or vouched for the user; "" when the plugin cannot tell */
    bool     is_local;          /* from the kernel's peer credentials of a local socket */
    int      host_role;         /* enum spur_role of `host`, the one that vouched: a compute host (NODE) may only for users with a job on it. NONE: cannot tell */
    /* since 0.3 */
    uint8_t  key[32];           /* the key of `host` that made the proof; zeros: there is none */
    char     token[36];         /* a user's own token: its id; "": he came another way */
    int      scope;             /* enum spur_scope of that token */
    int64_t  until_wall_s;      /* and its end */
};

/* A user's own token for programs that are on no host of the cluster (since 0.3). */
struct spur_user_token {
    uint32_t size;
    uint32_t uid, gid;
    int      scope;             /* enum spur_scope */
    int64_t  from_wall_s, until_wall_s;
    const char *cluster;
    char     id[36];            /* out: hex, to revoke it by */
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
    /* Check the other end's proof and say who it is. Every failure is SPUR_EAUTH with what to do in the sentence; SPUR_ESTALE (since 0.3)
     * when the other end holds what was good once (revoked, expired): he is told the sentence. */
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
    /* since 0.3, optional. enrol takes more lines: "NAME token KEY" (of who brings a token), "NAME revoked KEY" (nobody is believed with it, whatever other
     * file has it, and who is connected with it goes), "NAME retired KEY" (nobody new is), "ID untoken SECOND" (a user's token that ended early).
     * Does an identity that was checked when its connection began still stand? 0, or EAUTH with the reason. */
    int (*stands)(void *self, const struct spur_identity *id, struct spur_error *err);
    /* Makes a user's token, as a controller: text into buf, its id into t. The text is a secret. */
    int (*token_make)(void *self, struct spur_user_token *t, char *buf, size_t n, struct spur_error *err);
    /* Proves the user of a token: what `prove` is for a daemon. The token itself never leaves this process. */
    int (*token_prove)(void *self, const char *token, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err);
};

#ifdef __cplusplus
}
#endif
#endif
