/* SPDX-License-Identifier: Apache-2.0 */
/* sodium.c - auth/sodium: each host has an Ed25519 key, and every host knows the public keys of those it has to believe.
 *
 * A proof says who speaks and is signed together with the handshake's transcript and the side that proves, so it is good for one
 * connection and one direction:
 *
 *     1 version | 1 role that is claimed | 1 role of the host | 1 length of the name | 4 uid | 4 gid | name | 32 public key | 64 signature
 *
 * A user is vouched for by the daemon of his host: the same proof with role USER, uid and gid by the kernel's word. A command has no key and
 * opens only `hosts`, to know a controller when it sees one. Whether a user has a job on the compute host that vouches for him is the
 * controller's to check: the plugin returns the host and its role. Root of a compute or login host is nobody elsewhere (root_from).
 *
 * Credentials are signed over a purpose tag, cluster and controller, and verified against the keys of controllers in `hosts`.
 * Every signed text begins with its own tag, so a signature of one kind is never one of another.
 */
#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "inside.h"

#define PROOF_HEAD 12
#define CREDENTIAL_TAG "spur credential 1"

/* A reading that failed while an older one stays in force is said here, once: the file is not read again before it changes. */
void say_kept(struct sodium *s, const struct spur_error *err)
{
    if (err->code && SPUR_HAS(s->host, log))
        s->host->log(s->host->ctx, SPUR_LOG_WARN, err->text);
}

static int own_key(struct sodium *s, const struct key_own **out, struct spur_error *err)
{
    struct spur_error kept = { 0 };
    int rc;

    if (s->role == SPUR_ROLE_NONE)
        return spur_fail(err, SPUR_EAUTH, "a command has no key of its own: the daemon of its host vouches for it");
    if ((rc = key_own_refresh(&s->ring, &kept)) < 0) {
        if (err)
            *err = kept;
        return rc;
    }
    say_kept(s, &kept);
    *out = key_own_find(&s->ring, s->name, s->role);
    if (!*out)
        return spur_fail(err, SPUR_EAUTH, "%s has no key for host %s (its first is for %s): make one with `spur cluster init`", s->ring.own_file.path, s->name,
                         s->ring.own_count ? s->ring.own[0].name : "nobody");
    return 0;
}

/* What is signed of a proof: tag, side, transcript, and the proof up to its signature. */
size_t proof_text(const struct spur_transcript *t, const uint8_t *proof, size_t n, uint8_t *out)
{
    size_t at = sizeof PROOF_TAG;

    memcpy(out, PROOF_TAG, at);
    out[at++] = t->by_server;
    memcpy(out + at, t->hash, sizeof t->hash);
    at += sizeof t->hash;
    memcpy(out + at, proof, n);
    return at + n;
}

static int make_proof(struct sodium *s, const struct spur_transcript *t, int role, uint32_t uid, uint32_t gid, uint8_t *buf, size_t *len, struct spur_error *err)
{
    uint8_t text[PROOF_TEXT_MAX];
    const struct key_own *own;
    size_t n, name_len;
    int rc;

    if ((rc = own_key(s, &own, err)) < 0)
        return rc;
    name_len = strlen(own->name);
    buf[0] = 1;
    buf[1] = (uint8_t)(role ? role : own->role);
    buf[2] = own->role;
    buf[3] = (uint8_t)name_len;
    put32(buf + 4, uid);
    put32(buf + 8, gid);
    memcpy(buf + PROOF_HEAD, own->name, name_len);
    memcpy(buf + PROOF_HEAD + name_len, own->public_key, 32);
    n = PROOF_HEAD + name_len + 32;
    crypto_sign_detached(buf + n, NULL, text, proof_text(t, buf, n, text), own->secret);
    *len = n + crypto_sign_BYTES;
    return 0;
}

static int sodium_prove(void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    return make_proof(self, t, SPUR_ROLE_NONE, UINT32_MAX, UINT32_MAX, buf, len, err);
}

static int sodium_vouch(void *self, const struct spur_transcript *t, uint32_t uid, uint32_t gid, uint8_t *buf, size_t *len, struct spur_error *err)
{
    if (t->by_server || uid == UINT32_MAX || gid == UINT32_MAX)
        return spur_fail(err, SPUR_EAUTH, "a user is never a server");
    return make_proof(self, t, SPUR_ROLE_USER, uid, gid, buf, len, err);
}

/* The line of `hosts` that has this name, role and key; else the sentence says which of the three is not there. */
static int known_host(struct sodium *s, const char *name, int role, const uint8_t *public_key, struct spur_error *err)
{
    struct spur_error kept = { 0 };
    const struct key_host *h;
    size_t n;
    bool has_role = false;
    int barred, other = 0;

    if (key_hosts_refresh(&s->ring, &kept) < 0)
        return spur_fail(err, SPUR_EAUTH, "%s", kept.text);
    say_kept(s, &kept);
    /* ESTALE: it was good once, so whoever holds it may hear why it is not now. */
    if ((barred = key_barred(&s->ring, name, public_key)))
        return spur_fail(err, SPUR_ESTALE, barred == KEY_REVOKED ? "host %s was revoked: `spur token create --host %s` lets it join again with a new key"
                                                                : "host %s speaks with a key it has replaced (`spur host rotate`): is host.key an old copy? Name: %s", name, name);
    h = key_host_find(&s->ring, name, &n);
    for (size_t i = 0; i < n; i++) {
        if (h[i].role != role) {
            other = h[i].role < KEY_REVOKED ? h[i].role : other;
            continue;
        }
        has_role = true;
        if (sodium_memcmp(h[i].public_key, public_key, 32) == 0)
            return 0;
    }
    if (!has_role && !other)
        return spur_fail(err, SPUR_EAUTH, "host %s is not in %s: add it with `spur token create`, or with `spur cluster init` and copy the file here", name, s->ring.hosts_file.path);
    if (!has_role)
        return spur_fail(err, SPUR_EAUTH, "host %s speaks as a %s host, in %s it is a %s host", name, key_role_text(role), s->ring.hosts_file.path, key_role_text(other));
    return spur_fail(err, SPUR_EAUTH, "host %s speaks with a key that is not in %s (a new key? copy the new file here)", name, s->ring.hosts_file.path);
}

static int sodium_check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    struct sodium *s = self;
    uint8_t text[PROOF_TEXT_MAX];
    char name[64];
    size_t n, name_len;
    uint32_t uid, gid;
    int role, host_role, rc;

    if (len && proof[0] == TOKEN_PROOF)
        return token_check(s, t, proof, len, out, err);
    if (len < PROOF_HEAD || proof[0] != 1 || (name_len = proof[3]) == 0 || name_len > 63 || len != PROOF_HEAD + name_len + 32 + crypto_sign_BYTES ||
        memchr(proof + PROOF_HEAD, '\0', name_len))
        return spur_fail(err, SPUR_EAUTH, "the peer's proof is not one of auth/sodium (is AuthType the same on both sides?)");
    memcpy(name, proof + PROOF_HEAD, name_len);
    name[name_len] = '\0';
    for (size_t i = 0; i < name_len; i++)
        if (name[i] <= ' ' || name[i] >= 0x7f)
            return spur_fail(err, SPUR_EAUTH, "the peer's proof names a host that cannot be one");
    role = proof[1];
    host_role = proof[2];
    uid = get32(proof + 4);
    gid = get32(proof + 8);
    n = PROOF_HEAD + name_len + 32;
    if (host_role != SPUR_ROLE_NODE && host_role != SPUR_ROLE_LOGIN && host_role != SPUR_ROLE_CONTROLLER && host_role != SPUR_ROLE_TOKEN)
        return spur_fail(err, SPUR_EAUTH, "host %s claims role %d, which no host has", name, host_role);
    if (role == SPUR_ROLE_USER ? t->by_server || host_role == SPUR_ROLE_TOKEN || uid == UINT32_MAX || gid == UINT32_MAX : role != host_role || uid != UINT32_MAX || gid != UINT32_MAX)
        return spur_fail(err, SPUR_EAUTH, "host %s claims what its role does not allow", name);
    if ((rc = known_host(s, name, host_role, proof + n - 32, err)) < 0 && rc != SPUR_ESTALE)
        return rc;
    if (rc == SPUR_ESTALE && crypto_sign_verify_detached(proof + n, text, proof_text(t, proof, n, text), proof + n - 32) == 0)
        return rc;
    if (crypto_sign_verify_detached(proof + n, text, proof_text(t, proof, n, text), proof + n - 32) != 0)
        return spur_fail(err, SPUR_EAUTH, "the signature of host %s is wrong: it was made for another connection or changed", name);
    if (role == SPUR_ROLE_USER && uid == 0 && !s->root_from[host_role])
        return spur_fail(err, SPUR_EAUTH, "root of %s host %s is nobody here: run this on a controller, or as a user (root_from in spur.conf)", key_role_text(host_role), name);
    out->role = role;
    out->uid = uid;
    out->gid = gid;
    out->is_local = false;
    snprintf(out->host, sizeof out->host, "%s", name);
    if (out->size >= offsetof(struct spur_identity, host_role) + sizeof out->host_role)
        out->host_role = host_role;
    if (out->size >= offsetof(struct spur_identity, key) + sizeof out->key)
        memcpy(out->key, proof + n - 32, 32);
    return 0;
}

/* Keys that were replaced end nothing that is under way: they are good for no new connection. */
static int sodium_stands(void *self, const struct spur_identity *id, struct spur_error *err)
{
    static const uint8_t none[32];
    struct sodium *s = self;
    struct spur_error kept = { 0 };

    if (id->is_local || id->size < sizeof *id)
        return 0;
    if (key_hosts_refresh(&s->ring, &kept) < 0)
        return 0;
    say_kept(s, &kept);
    if (*id->token)
        return token_stands(s, id, err);
    if (memcmp(id->key, none, 32) != 0 && key_barred(&s->ring, id->host, id->key) == KEY_REVOKED)
        return spur_fail(err, SPUR_EAUTH, "host %s was revoked", id->host);
    return 0;
}

/* ---- credentials ---------------------------------------------------------------------------------------------------------- */

/* Hash of what is signed, each part with its length in front. */
static void credential_hash(const char *purpose, const char *signer, const void *data, size_t n, uint8_t out[sizeof CREDENTIAL_TAG + 64])
{
    crypto_generichash_state h;
    const struct { const void *at; size_t n; } parts[] = { { purpose, strlen(purpose) }, { signer, strlen(signer) }, { data, n } };

    crypto_generichash_init(&h, NULL, 0, 64);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint8_t length[8] = { 0 };

        put32(length, (uint32_t)parts[i].n);
        put32(length + 4, (uint32_t)((uint64_t)parts[i].n >> 32));
        crypto_generichash_update(&h, length, sizeof length);
        crypto_generichash_update(&h, parts[i].at, parts[i].n);
    }
    memcpy(out, CREDENTIAL_TAG, sizeof CREDENTIAL_TAG);
    crypto_generichash_final(&h, out + sizeof CREDENTIAL_TAG, 64);
}

int sodium_sign(void *self, const char *purpose, const void *data, size_t n, uint8_t signature[64], struct spur_error *err)
{
    struct sodium *s = self;
    const struct key_own *own;
    uint8_t text[sizeof CREDENTIAL_TAG + 64];
    int rc;

    if ((rc = own_key(s, &own, err)) < 0)
        return rc;
    if (own->role != SPUR_ROLE_CONTROLLER)
        return spur_fail(err, SPUR_EDENIED, "%s is a %s host: only controllers sign", own->name, key_role_text(own->role));
    credential_hash(purpose, own->name, data, n, text);
    crypto_sign_detached(signature, NULL, text, sizeof text, own->secret);
    return 0;
}

int sodium_verify(void *self, const char *purpose, const char *signer, const void *data, size_t n, const uint8_t signature[64], struct spur_error *err)
{
    struct sodium *s = self;
    struct spur_error kept = { 0 };
    const struct key_host *h;
    uint8_t text[sizeof CREDENTIAL_TAG + 64];
    size_t count;
    bool is_controller = false;

    if (key_hosts_refresh(&s->ring, &kept) < 0)
        return spur_fail(err, SPUR_EAUTH, "%s", kept.text);
    say_kept(s, &kept);
    h = key_host_find(&s->ring, signer, &count);
    credential_hash(purpose, signer, data, n, text);
    for (size_t i = 0; i < count; i++) {
        if (h[i].role != SPUR_ROLE_CONTROLLER || key_barred(&s->ring, signer, h[i].public_key))
            continue;
        is_controller = true;
        if (crypto_sign_verify_detached(signature, text, sizeof text, h[i].public_key) == 0)
            return 0;
    }
    if (!is_controller)
        return spur_fail(err, SPUR_EAUTH, "%.63s is no controller in %s", signer, s->ring.hosts_file.path);
    return spur_fail(err, SPUR_EAUTH, "the signature is not one of controller %s for this purpose", signer);
}

/* ---- opening -------------------------------------------------------------------------------------------------------------- */

static void sodium_close(void *self)
{
    struct sodium *s = self;

    if (!s)
        return;
    key_ring_fini(&s->ring);
    free(s);
}

static int options(struct sodium *s, const struct spur_conf *conf, struct spur_error *err)
{
    const char *at = s->host->conf_text(conf, "root_from");

    memset(s->root_from, 0, sizeof s->root_from);
    while (at && *at) {
        size_t n = strcspn(at, ", ");
        bool is_known = n == 0;

        for (int role = SPUR_ROLE_NODE; role <= SPUR_ROLE_CONTROLLER; role++)
            if (strlen(key_role_text(role)) == n && strncmp(key_role_text(role), at, n) == 0)
                s->root_from[role] = is_known = true;
        if (!is_known)
            return spur_fail(err, SPUR_EINVAL, "root_from: '%.*s' is none of controller, login, compute", (int)n, at);
        at += n + (at[n] != '\0');
    }
    return 0;
}

static int sodium_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct sodium *s = calloc(1, sizeof *s);
    const char *dir = host->conf_text(conf, "key_dir"), *name = SPUR_HAS(host, host_name) ? host->host_name(host->ctx) : NULL;
    const char *role = SPUR_HAS(host, role) ? host->role(host->ctx) : NULL;
    const struct key_own *own;
    struct spur_error kept = { 0 };
    int rc;

    if (!s || sodium_init() < 0) {
        free(s);
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    }
    s->host = host;
    snprintf(s->name, sizeof s->name, "%s", name ? name : "");
    s->role = !role || !strcmp(role, "command") ? SPUR_ROLE_NONE : !strcmp(role, "controller") ? SPUR_ROLE_CONTROLLER :
              !strcmp(role, "logind") ? SPUR_ROLE_LOGIN : !strcmp(role, "token") ? SPUR_ROLE_TOKEN : SPUR_ROLE_NODE;
    key_ring_init(&s->ring, dir && *dir ? dir : SPUR_SYSCONFDIR "/spur/keys");
    if ((rc = options(s, conf, err)) < 0)
        goto fail;
    if (s->role != SPUR_ROLE_NONE && (rc = own_key(s, &own, err)) < 0)
        goto fail;
    if ((rc = key_hosts_refresh(&s->ring, &kept)) < 0) {
        spur_fail(err, rc, "%s", kept.text);
        goto fail;
    }
    *self = s;
    return 0;
fail:
    sodium_close(s);
    return rc;
}

static int sodium_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    struct sodium *s = self;
    const char *dir = s->host->conf_text(conf, "key_dir");
    char path[512];

    snprintf(path, sizeof path, "%s/hosts", dir && *dir ? dir : SPUR_SYSCONFDIR "/spur/keys");
    if (strcmp(path, s->ring.hosts_file.path) != 0)
        return SPUR_ERESTART;
    return options(s, conf, err);
}

static int sodium_enrol(void *self, const char *lines, struct spur_error *err)
{
    struct sodium *s = self;

    return key_joined_write(&s->ring, lines, err);
}

static bool is_believed(const struct sodium *s, const struct key_host *h)
{
    return h->role < SPUR_ROLE_TOKEN && !key_barred(&s->ring, h->name, h->public_key);
}

static long sodium_roster(void *self, char *buf, size_t n, struct spur_error *err)
{
    struct sodium *s = self;
    struct spur_error kept = { 0 };
    char key[65];
    size_t need = 1;
    int rc;

    if ((rc = key_hosts_refresh(&s->ring, &kept)) < 0)
        return spur_fail(err, rc, "%s", kept.text);
    say_kept(s, &kept);
    for (size_t i = 0; i < s->ring.host_count; i++)
        need += is_believed(s, &s->ring.hosts[i]) ? strlen(s->ring.hosts[i].name) + strlen(key_role_text(s->ring.hosts[i].role)) + 64 + 3 : 0;
    if (need > n)
        return (long)need;
    *buf = '\0';
    for (size_t i = 0, at = 0; i < s->ring.host_count; i++) {
        if (!is_believed(s, &s->ring.hosts[i]))
            continue;
        sodium_bin2hex(key, sizeof key, s->ring.hosts[i].public_key, 32);
        at += (size_t)snprintf(buf + at, n - at, "%s %s %s\n", s->ring.hosts[i].name, key_role_text(s->ring.hosts[i].role), key);
    }
    return (long)need;
}

static const struct spur_option sodium_options[] = {
    { "key_dir", SPUR_STRING, SPUR_SYSCONFDIR "/spur/keys", "folder with this host's key (host.key) and the public keys of others (hosts)" },
    { "root_from", SPUR_STRING, "controller", "roles of the hosts whose root is root of the cluster: controller, login, compute" },
    { 0 } };

static const struct spur_auth_ops sodium_ops = {
    .size = sizeof sodium_ops, .prove = sodium_prove, .vouch = sodium_vouch, .check = sodium_check, .sign = sodium_sign, .verify = sodium_verify,
    .enrol = sodium_enrol, .roster = sodium_roster, .stands = sodium_stands, .token_make = token_make, .token_prove = token_prove };

SPUR_PLUGIN(auth, sodium, .about = "a key for each host; daemons vouch for their users", .stands_for = "slurm none", .caps = SPUR_CAP_HOST_IDENTITY, .options = sodium_options,
            .ops = &sodium_ops, .open = sodium_open, .reload = sodium_reload, .close = sodium_close);
