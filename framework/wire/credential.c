/* SPDX-License-Identifier: Apache-2.0 */
/* credential.c - packs a launch credential and checks one; the digest that ties it to argv, environment and script. */
#include <sodium.h>
#include <string.h>

#include "wire/credential.h"
#include "wire/unpack.h"

static void digest_number(crypto_generichash_state *h, uint64_t n)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(n >> (8 * i));
    crypto_generichash_update(h, bytes, sizeof bytes);
}

static void digest_bytes(crypto_generichash_state *h, const void *data, size_t n)
{
    digest_number(h, n);
    if (n)
        crypto_generichash_update(h, data, n);
}

void launch_digest(const Wire__Launch *l, uint8_t out[32])
{
    static const char domain[] = "spur-launch-digest-1";    /* its final NUL is part of it */
    char **argv = l->step ? l->step->argv : l->spec ? l->spec->argv : NULL;
    size_t argc = l->step ? l->step->n_argv : l->spec ? l->spec->n_argv : 0;
    crypto_generichash_state h;

    crypto_generichash_init(&h, NULL, 0, 32);
    crypto_generichash_update(&h, (const uint8_t *)domain, sizeof domain);
    digest_number(&h, argc);
    for (size_t i = 0; i < argc; i++)
        digest_bytes(&h, argv[i], strlen(argv[i]));
    digest_bytes(&h, l->env.data, l->has_env ? l->env.len : 0);
    digest_bytes(&h, l->script.data, l->has_script ? l->script.len : 0);
    crypto_generichash_final(&h, out, 32);
}

int credential_seal(Wire__Credential *c, Wire__Launch *l, struct arena *a, struct spur_error *err)
{
    size_t n;

    c->purpose = arena_copy(a, CREDENTIAL_PURPOSE);
    c->digest = (ProtobufCBinaryData){ 32, arena_alloc(a, 32) };
    if (!c->digest.data)
        return spur_fail(err, SPUR_ENOMEM, "launch credential: no memory");
    launch_digest(l, c->digest.data);
    l->credential.data = wire_pack(&c->base, a, &n);
    l->credential.len = n;
    if (!l->credential.data)
        return spur_fail(err, SPUR_ENOMEM, "launch credential: no memory");
    if (n > CREDENTIAL_MAX)
        return spur_fail(err, SPUR_ELIMIT, "launch credential of job %u: %zu bytes, the limit is %u", c->job_id, n, CREDENTIAL_MAX);
    return 0;
}

int credential_open(const Wire__Launch *l, const char *cluster, const char *node, uint64_t fence_seen, int64_t now_wall_ms,
                    struct arena *a, Wire__Credential **out, struct spur_error *err)
{
    uint8_t digest[32];
    Wire__Credential *c;
    size_t i;

    if (l->credential.len > CREDENTIAL_MAX)
        return spur_fail(err, SPUR_ELIMIT, "launch credential: %zu bytes, the limit is %u", l->credential.len, CREDENTIAL_MAX);
    c = wire_unpack(&wire__credential__descriptor, l->credential.data, l->credential.len, a);
    if (!c)
        return spur_fail(err, SPUR_EAUTH, "launch credential: not readable");
    if (strcmp(c->purpose, CREDENTIAL_PURPOSE))
        return spur_fail(err, SPUR_EAUTH, "launch credential: made for another purpose than starting a step");
    if (strcmp(c->cluster, cluster))
        return spur_fail(err, SPUR_EAUTH, "launch credential of job %u: made for cluster %.64s, this is %.64s", c->job_id, c->cluster, cluster);
    if (c->fence < fence_seen)
        return spur_fail(err, SPUR_ESTALE, "launch credential of job %u: signed under fencing number %llu, a newer leader has shown %llu", c->job_id,
                         (unsigned long long)c->fence, (unsigned long long)fence_seen);
    if (now_wall_ms > c->expires_wall_ms)
        return spur_fail(err, SPUR_ESTALE, "launch credential of job %u: expired %lld s ago; if that surprises, compare the clocks of node and controller",
                         c->job_id, (long long)(now_wall_ms - c->expires_wall_ms) / 1000);
    for (i = 0; i < c->n_nodes && strcmp(c->nodes[i]->name, node); i++)
        ;
    if (i == c->n_nodes)
        return spur_fail(err, SPUR_EAUTH, "launch credential of job %u: node %.64s is not in it", c->job_id, node);
    launch_digest(l, digest);
    if (c->digest.len != sizeof digest || sodium_memcmp(digest, c->digest.data, sizeof digest))
        return spur_fail(err, SPUR_EAUTH, "launch credential of job %u: arguments, environment or script are not those that were signed", c->job_id);
    *out = c;
    return 0;
}
