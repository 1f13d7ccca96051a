/* SPDX-License-Identifier: Apache-2.0 */
/* contract_auth.c - promises of an auth plugin: it takes its own side's proofs, each for one handshake and one side, and nothing else.
 * What it needs to prove anything (keys, a running munged) comes by options and by the machine; without it `opens` fails with a sentence. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <spur/auth.h>

#include "loader/contract.h"

static struct spur_transcript transcript(uint8_t fill, bool by_server)
{
    struct spur_transcript t = { .size = sizeof t, .by_server = by_server, .cluster = "c1" };

    memset(t.hash, fill, sizeof t.hash);
    return t;
}

static int prove(const struct spur_auth_ops *ops, void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    int rc;

    memset(buf, 0xa5, SPUR_PROOF_MAX + 8);
    *len = SPUR_PROOF_MAX;
    err->text[0] = '\0';
    if ((rc = ops->prove(self, t, buf, len, err)) != 0)
        return spur_context(err, "prove");
    CONTRACT_EXPECT(*len > 0 && *len <= SPUR_PROOF_MAX, "a proof has %zu bytes: 1 to %d can be", *len, SPUR_PROOF_MAX);
    CONTRACT_EXPECT(buf[SPUR_PROOF_MAX] == 0xa5, "prove writes past %d bytes", SPUR_PROOF_MAX);
    return 0;
}

/* A proof that must not pass, and a sentence that must. */
static int refuses(const struct spur_auth_ops *ops, void *self, const struct spur_transcript *t, const uint8_t *buf, size_t len, const char *what, struct spur_error *err)
{
    struct spur_identity who = { .size = sizeof who };
    int rc;

    err->text[0] = '\0';
    rc = ops->check(self, t, buf, len, &who, err);
    CONTRACT_EXPECT(rc != 0, "%s is taken", what);
    CONTRACT_EXPECT(rc == SPUR_EAUTH && err->text[0], "%s is refused with %d \"%s\": SPUR_EAUTH and a sentence are wanted", what, rc, err->text);
    return 0;
}

static int proves_and_checks(struct contract *c, struct spur_error *err)
{
    uint8_t buf[SPUR_PROOF_MAX + 8];
    const struct spur_auth_ops *ops;
    struct loaded *l, *m;
    size_t len;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0 || (rc = contract_open(c, &m, err)) < 0)
        return rc;
    ops = loader_ops(l);
    for (int side = 0; side < 2; side++) {
        struct spur_transcript t = transcript((uint8_t)(7 + side), side == 1);
        struct { struct spur_identity who; unsigned char more[16]; } out;

        if ((rc = prove(ops, l->self, &t, buf, &len, err)) < 0)
            return rc;
        memset(&out, 0xa5, sizeof out);
        out.who.size = sizeof out.who;
        if ((rc = ops->check(m->self, &t, buf, len, &out.who, err)) != 0)
            return spur_context(err, "a proof by this plugin is not taken by another instance of it");
        CONTRACT_EXPECT(out.who.size == sizeof out.who && out.more[0] == 0xa5, "check writes past the identity or into its size");
        CONTRACT_EXPECT(out.who.role > SPUR_ROLE_NONE && out.who.role <= SPUR_ROLE_CONTROLLER, "the identity has role %d", out.who.role);
        CONTRACT_EXPECT(memchr(out.who.host, '\0', sizeof out.who.host), "the host of the identity has no end");
        CONTRACT_EXPECT(out.who.role != SPUR_ROLE_USER || out.who.uid == geteuid(), "the identity is user %u, this process runs as %u", out.who.uid, (unsigned)geteuid());
    }
    loader_close(m);
    loader_close(l);
    return 0;
}

static int refuses_what_is_not_its_own(struct contract *c, struct spur_error *err)
{
    uint8_t buf[SPUR_PROOF_MAX + 8], bad[SPUR_PROOF_MAX + 8];
    const struct spur_auth_ops *ops;
    struct spur_transcript t = transcript(1, false), other = transcript(2, false), turned = transcript(1, true);
    uint64_t seed = 5;
    struct loaded *l;
    size_t len;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if ((rc = prove(ops, l->self, &t, buf, &len, err)) < 0 ||
        (rc = refuses(ops, l->self, &other, buf, len, "a proof of another handshake", err)) < 0)
        return rc;
    if ((rc = prove(ops, l->self, &t, buf, &len, err)) < 0 || (rc = refuses(ops, l->self, &turned, buf, len, "a proof of the other side", err)) < 0)
        return rc;
    if ((rc = prove(ops, l->self, &t, buf, &len, err)) < 0)
        return rc;
    for (size_t cut = 0; cut < len; cut += cut < 64 ? 1 : 7)
        if ((rc = refuses(ops, l->self, &t, buf, cut, "a proof that was cut", err)) < 0)
            return rc;
    for (unsigned i = 0; i < 200; i++) {
        size_t at = i < 8 ? i * len / 8 : contract_random(&seed) % len;

        memcpy(bad, buf, sizeof bad);
        bad[at] ^= (uint8_t)(1u << i % 8);
        /* A text form (base64) may have bits that mean nothing; the identity may not change by them. */
        if (ops->check(l->self, &t, bad, len, &(struct spur_identity){ .size = sizeof(struct spur_identity) }, err) == 0 && i < 8 && len <= 256)
            return spur_fail(err, SPUR_EINVAL, "a proof with bit %u of byte %zu turned is taken", i % 8, at);
    }
    for (unsigned i = 0; i < 200; i++) {
        size_t n = contract_random(&seed) % (SPUR_PROOF_MAX + 1);

        for (size_t k = 0; k < n; k++)
            bad[k] = (uint8_t)contract_random(&seed);
        if ((rc = refuses(ops, l->self, &t, bad, n, "a random proof", err)) < 0)
            return rc;
    }
    loader_close(l);
    return 0;
}

static int vouches(struct contract *c, struct spur_error *err)
{
    uint8_t buf[SPUR_PROOF_MAX + 8];
    struct spur_transcript t = transcript(9, false);
    struct spur_identity who = { .size = sizeof who };
    const struct spur_auth_ops *ops;
    struct loaded *l;
    size_t len = SPUR_PROOF_MAX;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, vouch))
        return CONTRACT_SKIP;
    if ((rc = ops->vouch(l->self, &t, 1234, 5678, buf, &len, err)) != 0)
        return CONTRACT_SKIP;       /* this host's role may not */
    if ((rc = ops->check(l->self, &t, buf, len, &who, err)) != 0)
        return spur_context(err, "a proof for user 1234 is not taken");
    CONTRACT_EXPECT(who.role == SPUR_ROLE_USER && who.uid == 1234 && who.gid == 5678, "vouched for user 1234:5678, the identity is role %d, %u:%u", who.role, who.uid, who.gid);
    loader_close(l);
    return 0;
}

static int signs(struct contract *c, struct spur_error *err)
{
    static const char data[] = "job 7 on n1";
    uint8_t signature[64], bad[64];
    const struct spur_auth_ops *ops;
    const char *me = "ctl1";
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, sign) || !SPUR_HAS(ops, verify))
        return CONTRACT_SKIP;
    if (ops->sign(l->self, "launch", data, sizeof data, signature, err) != 0) {
        CONTRACT_EXPECT(err->text[0], "sign fails without a sentence");
        return CONTRACT_SKIP;       /* not a controller's key */
    }
    if ((rc = ops->verify(l->self, "launch", me, data, sizeof data, signature, err)) != 0)
        return spur_context(err, "its own signature is not taken");
    memcpy(bad, signature, sizeof bad);
    bad[10] ^= 1;
    CONTRACT_EXPECT(ops->verify(l->self, "launch", me, data, sizeof data, bad, err) != 0, "a changed signature is taken");
    CONTRACT_EXPECT(ops->verify(l->self, "launch", me, data, sizeof data - 1, signature, err) != 0, "a signature of other data is taken");
    CONTRACT_EXPECT(ops->verify(l->self, "cancel", me, data, sizeof data, signature, err) != 0, "a signature for another purpose is taken");
    CONTRACT_EXPECT(ops->verify(l->self, "launch", "stranger", data, sizeof data, signature, err) != 0, "a signature by a stranger is taken");
    loader_close(l);
    return 0;
}

const struct contract_case contract_auth[] = {
    { "proves itself to another instance", proves_and_checks },
    { "refuses what is not its own", refuses_what_is_not_its_own },
    { "vouches for a user", vouches },
    { "signs and verifies", signs },
    { 0 } };
