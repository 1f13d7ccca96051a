/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.c - how two processes that have never met come to a sealed stream and to each other's identity.
 *
 *     client -> server  hello    8 magic | u16 wire version | 6 zero | 32 hash of the cluster's name | 32 X25519 public key
 *     server -> client  answer   the same with another magic
 *     client -> server  24 bytes stream header | sealed record: the client's proof
 *     server -> client  24 bytes stream header | sealed record: the server's proof
 *
 * Transcript = BLAKE2b-512 over a label, hello and answer. Keys = BLAKE2b-512 over a label and the transcript, keyed by the shared secret
 * (and the common key of a keyed channel): 32 bytes for each direction. A proof is bound to transcript and side, and it comes inside the
 * stream, so who relays one does not know the keys, and who knows the keys cannot show another's proof.
 *
 * The server always shows its own hello before it closes for another cluster or version, so that the client can say what differs.
 * There is one suite. A new one will have new magics, and a server that no longer wants the old one will not know them: no downgrade.
 */
#include <stdlib.h>
#include <string.h>

#include "rpc/channel_inside.h"

#define HELLO_LEN 80
#define POOL_SIZE 256
#define REFUSED_MARK "\377spur refuses\n"      /* in place of a server's proof; no plugin's proof begins like that */
#define REKEY_AFTER (UINT64_C(1) << 30)

static const char magic_client[9] = "SPURcl\r\n", magic_server[9] = "SPURsv\r\n";     /* \r\n: a text protocol's client is told apart at once */

struct channel_pool { unsigned count; uint8_t keys[POOL_SIZE][64]; };       /* public, then secret */

struct channel_pool *channel_pool_create(void)
{
    struct channel_pool *p;

    /* Locked as far as the limits go, and left out of cores. */
    if (sodium_init() < 0 || !(p = sodium_malloc(sizeof *p)))
        abort();
    p->count = 0;
    return p;
}

void channel_pool_destroy(struct channel_pool *p)
{
    sodium_free(p);         /* wipes */
}

bool channel_pool_fill(struct channel_pool *p, unsigned at_most)
{
    for (; p->count < POOL_SIZE && at_most; at_most--, p->count++)
        crypto_box_keypair(p->keys[p->count], p->keys[p->count] + 32);
    return p->count == POOL_SIZE;
}

static void take_key(struct channel *c, struct channel_pool *p)
{
    if (!p || !p->count) {
        crypto_box_keypair(c->public_key, c->secret_key);
        return;
    }
    p->count--;
    memcpy(c->public_key, p->keys[p->count], 32);
    memcpy(c->secret_key, p->keys[p->count] + 32, 32);
    sodium_memzero(p->keys[p->count], 64);
}

static void cluster_hash(const char *cluster, uint8_t out[32])
{
    crypto_generichash_state h;

    if (!cluster) {
        memset(out, 0, 32);
        return;
    }
    crypto_generichash_init(&h, NULL, 0, 32);
    crypto_generichash_update(&h, (const uint8_t *)"spur cluster 1", 15);
    crypto_generichash_update(&h, (const uint8_t *)cluster, strlen(cluster));
    crypto_generichash_final(&h, out, 32);
}

static void hello_pack(const struct channel *c, uint8_t out[HELLO_LEN])
{
    memset(out, 0, HELLO_LEN);
    memcpy(out, c->is_server ? magic_server : magic_client, 8);
    out[8] = WIRE_VERSION & 0xff;
    out[9] = WIRE_VERSION >> 8;
    cluster_hash(c->cluster, out + 16);
    memcpy(out + 48, c->public_key, 32);
}

static int hello_check(struct channel *c, const uint8_t *in, struct spur_error *err)
{
    static const uint8_t zero[32];
    uint8_t hash[32];
    unsigned version = in[8] | in[9] << 8;

    if (memcmp(in, c->is_server ? magic_client : magic_server, 8) != 0)
        return spur_fail(err, SPUR_ECORRUPT, "the first bytes are no greeting of spur: something else talks on this port");
    /* N and N-1 are understood, so a peer that is one ahead is expected to come down to us. */
    if (version == 0 || version + 1 < WIRE_VERSION || version > WIRE_VERSION + 1)
        return spur_fail(err, SPUR_EUNSUPPORTED, "the peer speaks wire version %u, this spur %u: upgrade one release at a time", version, WIRE_VERSION);
    if (memcmp(in + 10, zero, 6) != 0)
        return spur_fail(err, SPUR_EUNSUPPORTED, "the greeting asks for something this spur does not know: the peer is a newer release");
    cluster_hash(c->cluster, hash);
    if (memcmp(in + 16, hash, 32) != 0 && !(c->is_server && !memcmp(in + 16, zero, 32)) && c->cluster)
        return spur_fail(err, SPUR_EAUTH, "the peer belongs to another cluster than %s (ClusterName differs)", c->cluster);
    c->version = version < WIRE_VERSION ? (uint16_t)version : WIRE_VERSION;
    return 0;
}

/* Hello and answer are there: transcript, keys, both directions of the stream. */
static int make_keys(struct channel *c, const uint8_t *hello, const uint8_t *answer, struct spur_error *err)
{
    uint8_t shared[32], keys[64];
    crypto_generichash_state h;
    const uint8_t *peer = (c->is_server ? hello : answer) + 48;
    int rc = crypto_scalarmult(shared, c->secret_key, peer);

    sodium_memzero(c->secret_key, sizeof c->secret_key);
    if (rc != 0)
        return spur_fail(err, SPUR_EAUTH, "the peer's ephemeral key is one that gives no secret");
    crypto_generichash_init(&h, NULL, 0, 64);
    crypto_generichash_update(&h, (const uint8_t *)"spur transcript 1", 18);
    crypto_generichash_update(&h, hello, HELLO_LEN);
    crypto_generichash_update(&h, answer, HELLO_LEN);
    crypto_generichash_final(&h, c->mine.hash, 64);
    memcpy(c->theirs.hash, c->mine.hash, 64);
    c->mine.by_server = c->is_server;
    c->theirs.by_server = !c->is_server;

    crypto_generichash_init(&h, shared, sizeof shared, sizeof keys);
    crypto_generichash_update(&h, (const uint8_t *)(c->is_keyed ? "spur keyed keys 1" : "spur authed key 1"), 18);
    crypto_generichash_update(&h, c->mine.hash, 64);
    if (c->is_keyed)
        crypto_generichash_update(&h, c->key, sizeof c->key);
    crypto_generichash_final(&h, keys, sizeof keys);
    memcpy(c->seal_out, keys + (c->is_server ? 32 : 0), 32);
    memcpy(c->seal_in, keys + (c->is_server ? 0 : 32), 32);
    crypto_secretstream_xchacha20poly1305_init_push(&c->push, c->header, c->seal_out);
    sodium_memzero(c->seal_out, sizeof c->seal_out);
    sodium_memzero(shared, sizeof shared);
    sodium_memzero(keys, sizeof keys);
    sodium_memzero(&h, sizeof h);
    return 0;
}

static void keyed_proof(const struct channel *c, const struct spur_transcript *t, uint8_t out[32])
{
    crypto_generichash_state h;
    uint8_t side = t->by_server;

    crypto_generichash_init(&h, c->key, sizeof c->key, 32);
    crypto_generichash_update(&h, (const uint8_t *)"spur keyed proof 1", 19);
    crypto_generichash_update(&h, &side, 1);
    crypto_generichash_update(&h, t->hash, 64);
    crypto_generichash_final(&h, out, 32);
}

static struct channel *channel_start(bool is_server, const char *cluster, const uint8_t *key, struct channel_pool *pool)
{
    struct channel *c = channel_local();

    if (sodium_init() < 0)
        abort();
    c->is_local = false;
    c->is_server = is_server;
    c->rekey_after = REKEY_AFTER;
    c->cluster = mem_copy(cluster);
    c->mine.size = c->theirs.size = sizeof c->mine;
    c->mine.cluster = c->theirs.cluster = c->cluster ? c->cluster : "";
    if (key) {
        c->is_keyed = true;
        memcpy(c->key, key, sizeof c->key);
    }
    take_key(c, pool);
    c->state = is_server ? STATE_HELLO : STATE_ANSWER;
    if (!is_server) {
        hello_pack(c, c->hello);
        str_add_n(&c->out, (const char *)c->hello, HELLO_LEN);
    }
    return c;
}

struct channel *channel_client(const char *cluster)
{
    return channel_start(false, cluster, NULL, NULL);
}

struct channel *channel_server(const char *cluster, struct channel_pool *pool)
{
    return channel_start(true, cluster, NULL, pool);
}

struct channel *channel_keyed(bool is_server, const char *cluster, const uint8_t key[32])
{
    return channel_start(is_server, cluster, key, NULL);
}

const struct spur_transcript *channel_transcript(const struct channel *c, bool of_peer)
{
    return of_peer ? &c->theirs : &c->mine;
}

const uint8_t *channel_peer_proof(const struct channel *c, size_t *len)
{
    *len = c->proof_len;
    return c->proof;
}

static void handshake_over(struct channel *c)
{
    free(c->proof);
    c->proof = NULL;
    c->proof_len = 0;
    sodium_memzero(c->key, sizeof c->key);
}

/* Our proof is at hand: goes out sealed. The client then waits for the server's; the server is through. */
int channel_proof(struct channel *c, const uint8_t *proof, size_t len, struct spur_error *err)
{
    if (c->state != STATE_PROVE)
        return spur_fail(err, SPUR_EINVAL, "no proof is due on this channel now");
    if (len == 0 || len > SPUR_PROOF_MAX)
        return channel_break(c), spur_fail(err, SPUR_EINVAL, "the auth plugin made a proof of %zu bytes: 1 to %u are allowed", len, SPUR_PROOF_MAX);
    str_add_n(&c->out, (const char *)c->header, sizeof c->header);
    channel_seal(c, proof, len);
    c->state = c->is_server ? STATE_READY : STATE_PROOF;
    if (c->is_server)
        handshake_over(c);
    return 0;
}

int channel_checked(struct channel *c, struct spur_error *err)
{
    if (c->state != STATE_CHECK)
        return spur_fail(err, SPUR_EINVAL, "no proof is to be checked on this channel now");
    c->state = c->is_server ? STATE_PROVE : STATE_READY;
    if (!c->is_server)
        handshake_over(c);
    return 0;
}

void channel_refuse(struct channel *c, const char *text)
{
    char note[300];
    int n = snprintf(note, sizeof note, "%s%.240s", REFUSED_MARK, text);

    if (c->state != STATE_CHECK || !c->is_server)
        return;
    str_add_n(&c->out, (const char *)c->header, sizeof c->header);
    channel_seal(c, (const uint8_t *)note, (size_t)n);
    c->state = STATE_BROKEN;
}

/* The server's words stand in no proof: good for a human's eyes, and printed as such. */
static int refused(const uint8_t *note, size_t n, struct spur_error *err)
{
    char text[241];
    size_t mark = sizeof REFUSED_MARK - 1;

    snprintf(text, sizeof text, "%.*s", (int)(n - mark), (const char *)note + mark);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f)
            *at = '?';
    return spur_fail(err, SPUR_EAUTH, "refused: %s", text);
}

static int fail(struct channel *c)
{
    free(c->proof);
    c->proof = NULL;
    return channel_break(c);
}

/* Server: the hello. */
static int got_hello(struct channel *c, struct spur_error *err)
{
    uint8_t answer[HELLO_LEN];
    int rc = hello_check(c, (const uint8_t *)c->raw.text, err);

    /* Of something that is not spur we know enough: it gets no byte back. */
    if (rc == SPUR_ECORRUPT)
        return fail(c), rc;
    hello_pack(c, answer);
    str_add_n(&c->out, (const char *)answer, HELLO_LEN);
    if (rc == 0)
        rc = make_keys(c, (const uint8_t *)c->raw.text, answer, err);
    if (rc < 0)
        return fail(c), rc;
    channel_eat(&c->raw, HELLO_LEN);
    c->state = STATE_PROOF;
    return 0;
}

static int got_answer(struct channel *c, struct spur_error *err)
{
    int rc = hello_check(c, (const uint8_t *)c->raw.text, err);

    if (rc == 0)
        rc = make_keys(c, c->hello, (const uint8_t *)c->raw.text, err);
    if (rc < 0)
        return fail(c), rc;
    channel_eat(&c->raw, HELLO_LEN);
    c->state = STATE_PROVE;
    return 0;
}

/* 1: the proof is whole and lies in c->proof; 0: not yet. */
static int got_proof(struct channel *c, struct spur_error *err)
{
    size_t used = sizeof c->header, n = 0;
    uint8_t proof[SPUR_PROOF_MAX];
    int rc;

    if (c->raw.len < sizeof c->header)
        return 0;
    crypto_secretstream_xchacha20poly1305_init_pull(&c->pull, (const uint8_t *)c->raw.text, c->seal_in);
    rc = channel_open_record(c, &used, proof, sizeof proof, &n, err);
    if (rc <= 0)
        return rc < 0 ? fail(c), rc : 0;
    sodium_memzero(c->seal_in, sizeof c->seal_in);
    if (c->is_server && c->raw.len > used)
        return fail(c), spur_fail(err, SPUR_ECORRUPT, "the peer goes on talking before its proof is checked");
    channel_eat(&c->raw, used);
    if (!c->is_server && n > sizeof REFUSED_MARK - 1 && memcmp(proof, REFUSED_MARK, sizeof REFUSED_MARK - 1) == 0)
        return fail(c), refused(proof, n, err);
    c->proof = mem_copy_bytes(proof, n);
    c->proof_len = n;
    c->state = STATE_CHECK;
    return 1;
}

int channel_handshake(struct channel *c, struct spur_error *err)
{
    uint8_t proof[32];
    int rc;

    for (;;)
        switch (c->state) {
        case STATE_HELLO:
        case STATE_ANSWER:
            if (c->raw.len < HELLO_LEN && memcmp(c->raw.text, c->is_server ? magic_client : magic_server, c->raw.len < 8 ? c->raw.len : 8) == 0)
                return 0;
            if (c->raw.len < HELLO_LEN)     /* wrong from its first byte on: no need to wait for the rest */
                return fail(c), spur_fail(err, SPUR_ECORRUPT, "the first bytes are no greeting of spur: something else talks on this port");
            if ((rc = c->is_server ? got_hello(c, err) : got_answer(c, err)) < 0)
                return rc;
            break;
        case STATE_PROVE:
            if (!c->is_keyed)
                return 0;
            keyed_proof(c, &c->mine, proof);
            if ((rc = channel_proof(c, proof, sizeof proof, err)) < 0)
                return rc;
            break;
        case STATE_PROOF:
            if ((rc = got_proof(c, err)) <= 0)
                return rc;
            break;
        case STATE_CHECK:
            if (!c->is_keyed)
                return 0;
            keyed_proof(c, &c->theirs, proof);
            if (c->proof_len != sizeof proof || sodium_memcmp(c->proof, proof, sizeof proof) != 0)
                return fail(c), spur_fail(err, SPUR_EAUTH, "the peer does not hold the key of this connection");
            if ((rc = channel_checked(c, err)) < 0)
                return rc;
            break;
        case STATE_READY:
        case STATE_BROKEN:
            return 0;
        }
}
