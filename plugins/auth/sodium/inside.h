/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - what sodium.c (proofs of hosts, credentials) and token.c (proofs of users' own tokens) share. Nobody else includes it. */
#ifndef SODIUM_INSIDE_H
#define SODIUM_INSIDE_H

#include "keys.h"

#define PROOF_TAG "spur proof 1"            /* with its final zero */
#define PROOF_TEXT_MAX 1024
#define TOKEN_PROOF 2                       /* first byte of a proof made with a token; 1: of a host */

struct sodium {
    struct key_ring ring;
    const struct spur_host *host;
    char    name[64];           /* of this process's host, "" when nobody says */
    int     role;               /* enum spur_role of this process; NONE: a command */
    bool    root_from[SPUR_ROLE_TOKEN + 1];
};

static inline void put32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static inline uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* sodium.c */
void say_kept(struct sodium *s, const struct spur_error *err);
/* What is signed of a proof of at most 512 bytes: tag, side, transcript, and the proof up to its signature; `out` has PROOF_TEXT_MAX bytes. */
size_t proof_text(const struct spur_transcript *t, const uint8_t *proof, size_t n, uint8_t *out);
int  sodium_sign(void *self, const char *purpose, const void *data, size_t n, uint8_t signature[64], struct spur_error *err);
int  sodium_verify(void *self, const char *purpose, const char *signer, const void *data, size_t n, const uint8_t signature[64], struct spur_error *err);

/* token.c */
int  token_make(void *self, struct spur_user_token *t, char *buf, size_t n, struct spur_error *err);
int  token_prove(void *self, const char *token, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err);
int  token_check(struct sodium *s, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err);
int  token_stands(struct sodium *s, const struct spur_identity *id, struct spur_error *err);

#endif
