/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - a user's own token, for programs on hosts that are none of the cluster: made by a controller, carried in SLURM_JWT.
 *
 * A token is "spur-user-1." and in base64 a certificate and the seed of the key it is for:
 *
 *     4 "SUT1" | 1 scope | 4 uid | 4 gid | 8 from | 8 until | 16 id | 32 hash of the cluster's name | 32 public key | 1 length | signer | 64 signature
 *
 * The signature is the controller's, under the purpose "spur-user-1". Who uses a token shows the certificate and signs the handshake's transcript with the
 * seed's key; the seed itself never travels, so somebody who plays a controller learns nothing that is good for another connection. A proof:
 *
 *     1 TOKEN_PROOF | certificate | 64 signature
 *
 * It ends with its time, with an `untoken` line of its id, or with the key of the controller that signed it. Root has none: his rights come from a host.
 */
#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "inside.h"

#define TOKEN_PREFIX  "spur-user-1."
#define TOKEN_PURPOSE "spur-user-1"
#define TOKEN_MAGIC   "SUT1"
#define CERT_FIXED    110               /* up to and with the length of the signer's name */
#define CERT_MAX      (CERT_FIXED + 63 + crypto_sign_BYTES)
#define CLOCKS_APART_S 300              /* a token from further in the future says that two clocks differ */

struct cert { int scope; uint32_t uid, gid; int64_t from, until; const uint8_t *id, *cluster, *public_key; char signer[64]; size_t signed_len, len; };

static void put64(uint8_t *at, uint64_t v)
{
    put32(at, (uint32_t)v);
    put32(at + 4, (uint32_t)(v >> 32));
}

static int64_t get64(const uint8_t *at) { return (int64_t)(get32(at) | (uint64_t)get32(at + 4) << 32); }

static void cluster_hash(const char *cluster, uint8_t out[32])
{
    crypto_generichash_state h;

    crypto_generichash_init(&h, NULL, 0, 32);
    crypto_generichash_update(&h, (const uint8_t *)"spur user token 1", 18);
    crypto_generichash_update(&h, (const uint8_t *)cluster, strlen(cluster));
    crypto_generichash_final(&h, out, 32);
}

/* The certificate at the beginning of `in`; false: it is none. */
static bool cert_read(const uint8_t *in, size_t n, struct cert *c)
{
    size_t name_len;

    if (n < CERT_FIXED || memcmp(in, TOKEN_MAGIC, 4) != 0 || (name_len = in[CERT_FIXED - 1]) == 0 || name_len > 63 || n < CERT_FIXED + name_len + crypto_sign_BYTES)
        return false;
    c->scope = in[4];
    c->uid = get32(in + 5);
    c->gid = get32(in + 9);
    c->from = get64(in + 13);
    c->until = get64(in + 21);
    c->id = in + 29;
    c->cluster = in + 45;
    c->public_key = in + 77;
    memcpy(c->signer, in + CERT_FIXED, name_len);
    c->signer[name_len] = '\0';
    for (size_t i = 0; i < name_len; i++)
        if (c->signer[i] <= ' ' || c->signer[i] >= 0x7f)
            return false;
    c->signed_len = CERT_FIXED + name_len;
    c->len = c->signed_len + crypto_sign_BYTES;
    return true;
}

int token_make(void *self, struct spur_user_token *t, char *buf, size_t n, struct spur_error *err)
{
    struct sodium *s = self;
    uint8_t out[CERT_MAX + crypto_sign_SEEDBYTES], *seed, secret[crypto_sign_SECRETKEYBYTES], id[16];
    size_t name_len = strlen(s->name), len = CERT_FIXED + name_len;
    int rc;

    if (t->uid == 0)
        return spur_fail(err, SPUR_EDENIED, "root has no tokens: his rights come from a controller's host");
    if (t->uid == UINT32_MAX || t->gid == UINT32_MAX || (t->scope != SPUR_SCOPE_ALL && t->scope != SPUR_SCOPE_READ) || name_len == 0 || name_len > 63)
        return spur_fail(err, SPUR_EINVAL, "no token can be made for user %u", t->uid);
    randombytes_buf(id, sizeof id);
    sodium_bin2hex(t->id, sizeof t->id, id, sizeof id);
    memcpy(out, TOKEN_MAGIC, 4);
    out[4] = (uint8_t)t->scope;
    put32(out + 5, t->uid);
    put32(out + 9, t->gid);
    put64(out + 13, (uint64_t)t->from_wall_s);
    put64(out + 21, (uint64_t)t->until_wall_s);
    memcpy(out + 29, id, sizeof id);
    cluster_hash(t->cluster, out + 45);
    seed = out + len + crypto_sign_BYTES;
    randombytes_buf(seed, crypto_sign_SEEDBYTES);
    crypto_sign_seed_keypair(out + 77, secret, seed);
    out[CERT_FIXED - 1] = (uint8_t)name_len;
    memcpy(out + CERT_FIXED, s->name, name_len);
    rc = sodium_sign(s, TOKEN_PURPOSE, out, len, out + len, err);
    len += crypto_sign_BYTES + crypto_sign_SEEDBYTES;
    if (rc == 0 && n < sizeof TOKEN_PREFIX + sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_URLSAFE_NO_PADDING))
        rc = spur_fail(err, SPUR_ELIMIT, "no room for a token");
    if (rc == 0) {
        strcpy(buf, TOKEN_PREFIX);
        sodium_bin2base64(buf + sizeof TOKEN_PREFIX - 1, n - (sizeof TOKEN_PREFIX - 1), out, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    }
    sodium_memzero(out, sizeof out);
    sodium_memzero(secret, sizeof secret);
    return rc;
}

int token_prove(void *self, const char *token, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    uint8_t bin[CERT_MAX + crypto_sign_SEEDBYTES + 3], public_key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES], text[PROOF_TEXT_MAX];
    struct cert c;
    size_t n = 0;
    int rc = 0;

    (void)self;
    if (strncmp(token, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1) != 0)
        return spur_fail(err, SPUR_EAUTH, "SLURM_JWT is no token of this cluster: one begins with %s and `scontrol token` makes it", TOKEN_PREFIX);
    if (sodium_base642bin(bin, sizeof bin, token + sizeof TOKEN_PREFIX - 1, strlen(token) - (sizeof TOKEN_PREFIX - 1), NULL, &n, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        !cert_read(bin, n, &c) || n != c.len + crypto_sign_SEEDBYTES)
        rc = spur_fail(err, SPUR_EAUTH, "the token in SLURM_JWT is damaged: copy it whole, or make another with `scontrol token`");
    if (rc == 0) {
        crypto_sign_seed_keypair(public_key, secret, bin + c.len);
        buf[0] = TOKEN_PROOF;
        memcpy(buf + 1, bin, c.len);
        crypto_sign_detached(buf + 1 + c.len, NULL, text, proof_text(t, buf, 1 + c.len, text), secret);
        *len = 1 + c.len + crypto_sign_BYTES;
        sodium_memzero(secret, sizeof secret);
    }
    sodium_memzero(bin, sizeof bin);
    return rc;
}

static bool is_ended(const struct sodium *s, const char *id)
{
    size_t n;
    const struct key_host *h = key_host_find(&s->ring, id, &n);

    for (size_t i = 0; i < n; i++)
        if (h[i].role == KEY_UNTOKEN)
            return true;
    return false;
}

static int64_t now_s(const struct sodium *s)
{
    return SPUR_HAS(s->host, wall_ms) ? s->host->wall_ms(s->host->ctx) / 1000 : INT64_MAX;      /* no clock: everything has expired */
}

int token_stands(struct sodium *s, const struct spur_identity *id, struct spur_error *err)
{
    if (is_ended(s, id->token))
        return spur_fail(err, SPUR_EAUTH, "the token %s of user %u was revoked", id->token, id->uid);
    if (id->until_wall_s < now_s(s))
        return spur_fail(err, SPUR_EAUTH, "the token of user %u has expired: `scontrol token` makes another", id->uid);
    return 0;
}

int token_check(struct sodium *s, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    uint8_t text[PROOF_TEXT_MAX], hash[32];
    struct spur_error kept = { 0 };
    char id[36];
    struct cert c;
    int64_t now = now_s(s);
    int rc;

    if (out->size < sizeof *out)
        return spur_fail(err, SPUR_EAUTH, "this host is too old for tokens of users");
    if (t->by_server || !cert_read(proof + 1, len - 1, &c) || len != 1 + c.len + crypto_sign_BYTES)
        return spur_fail(err, SPUR_EAUTH, "the peer's proof is no token of a user");
    cluster_hash(t->cluster, hash);
    if (memcmp(hash, c.cluster, 32) != 0)
        return spur_fail(err, SPUR_EAUTH, "the token is of another cluster than %s: `scontrol token` makes one here", t->cluster);
    if ((rc = sodium_verify(s, TOKEN_PURPOSE, c.signer, proof + 1, c.signed_len, proof + 1 + c.signed_len, err)) < 0)
        return spur_context(err, "the token is not good (any more)"), rc;
    if (crypto_sign_verify_detached(proof + 1 + c.len, text, proof_text(t, proof, 1 + c.len, text), c.public_key) != 0)
        return spur_fail(err, SPUR_EAUTH, "the token was shown by somebody who does not hold it, or on another connection");
    if (c.uid == 0 || c.uid == UINT32_MAX || c.gid == UINT32_MAX || (c.scope != SPUR_SCOPE_ALL && c.scope != SPUR_SCOPE_READ))
        return spur_fail(err, SPUR_EAUTH, "the token is for nobody");
    if (c.until < now)
        return spur_fail(err, SPUR_ESTALE, "the token of user %u expired %lld s ago: `scontrol token` makes another", c.uid, (long long)(now - c.until));
    if (c.from > now + CLOCKS_APART_S)
        return spur_fail(err, SPUR_ESTALE, "the token of user %u was made %lld s in the future: the clocks of two controllers are apart by as much", c.uid, (long long)(c.from - now));
    if (key_hosts_refresh(&s->ring, &kept) < 0)
        return spur_fail(err, SPUR_EAUTH, "%s", kept.text);
    say_kept(s, &kept);
    sodium_bin2hex(id, sizeof id, c.id, 16);
    if (is_ended(s, id))
        return spur_fail(err, SPUR_ESTALE, "the token %s of user %u was revoked", id, c.uid);
    out->role = SPUR_ROLE_USER;
    out->uid = c.uid;
    out->gid = c.gid;
    out->is_local = false;
    out->host[0] = '\0';
    out->host_role = SPUR_ROLE_NONE;
    snprintf(out->token, sizeof out->token, "%s", id);
    out->scope = c.scope;
    out->until_wall_s = c.until;
    return 0;
}
