/* SPDX-License-Identifier: Apache-2.0 */
/* munge.c - auth/munge: the site's MUNGE proves both ends of a channel and the users on it.
 *
 * A proof is a MUNGE credential whose payload holds the handshake's transcript and the side, so it is good for one connection and one
 * direction; MUNGE adds uid, gid, a time limit and its own guard against a second use. Daemons (root or SlurmUser) say role and host in the payload:
 *
 *     1 version | 1 role | 1 side | 1 length of name | 64 transcript | name | 32 public key of a controller
 *
 * What MUNGE cannot give: whoever has its key, root on any host, can be any user and any host. Spur says so once at start. For the same reason
 * `host` of a user is empty: MUNGE does not prove where somebody is.
 *
 * Launch credentials need a signature that nodes check on their own. MUNGE has none, so each controller makes an Ed25519 key at its first start
 * (state_dir/munge-signing.key, 0600) and shows the public half inside its proof. A node keeps what each controller it has met has shown; it
 * verifies against that. This is as strong as MUNGE itself, no stronger.
 *
 * munge_encode and munge_decode talk to munged: SPUR_CAP_MAY_BLOCK, called from several threads; the table of keys has a lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <munge.h>
#include <sodium.h>

#include <spur/auth.h>

#define PAYLOAD_HEAD 68
#define CREDENTIAL_TAG "spur munge credential 1"
#define KEYS_MAX 64                     /* controllers and their earlier keys */

struct shown { char name[64]; uint8_t public_key[32]; };

struct munge {
    const struct spur_host *host;
    char     name[64], socket[256];
    int      role;                      /* enum spur_role of this process; USER: a command */
    uid_t    slurm_uid;
    int      ttl;
    uint8_t *secret;                    /* of a controller: 64 bytes, locked */
    uint8_t  public_key[32];
    pthread_mutex_t lock;
    struct shown shown[KEYS_MAX];       /* under lock; oldest first */
    unsigned shown_count;
};

static void say(const struct munge *m, int level, const char *text)
{
    if (SPUR_HAS(m->host, log))
        m->host->log(m->host->ctx, level, text);
}

/* ---- proofs --------------------------------------------------------------------------------------------------------------- */

static munge_ctx_t context(const struct munge *m)
{
    munge_ctx_t ctx = munge_ctx_create();

    if (ctx && *m->socket)
        munge_ctx_set(ctx, MUNGE_OPT_SOCKET, m->socket);
    if (ctx && m->ttl > 0)
        munge_ctx_set(ctx, MUNGE_OPT_TTL, m->ttl);
    return ctx;
}

static int munge_prove(void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    struct munge *m = self;
    uint8_t payload[PAYLOAD_HEAD + 64 + 32];
    size_t name_len = strlen(m->name), n;
    munge_ctx_t ctx = context(m);
    munge_err_t rc;
    char *text = NULL;

    if (!ctx)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    payload[0] = 1;
    payload[1] = (uint8_t)m->role;
    payload[2] = t->by_server;
    payload[3] = (uint8_t)name_len;
    memcpy(payload + 4, t->hash, 64);
    memcpy(payload + PAYLOAD_HEAD, m->name, name_len);
    n = PAYLOAD_HEAD + name_len;
    if (m->secret) {
        memcpy(payload + n, m->public_key, 32);
        n += 32;
    }
    rc = munge_encode(&text, ctx, payload, (int)n);
    if (rc != EMUNGE_SUCCESS)
        spur_fail(err, SPUR_EAUTH, "munge: %s (is munged running here?)", munge_ctx_strerror(ctx) ? munge_ctx_strerror(ctx) : munge_strerror(rc));
    munge_ctx_destroy(ctx);
    if (rc != EMUNGE_SUCCESS)
        return SPUR_EAUTH;
    n = strlen(text);
    if (n > SPUR_PROOF_MAX) {
        free(text);
        return spur_fail(err, SPUR_EAUTH, "munge made a credential of %zu bytes: %u are room for", n, SPUR_PROOF_MAX);
    }
    memcpy(buf, text, n);
    *len = n;
    free(text);
    return 0;
}

/* A controller has shown its key. The name is its own claim; only root and SlurmUser get here. */
static void remember(struct munge *m, const char *name, const uint8_t *public_key)
{
    pthread_mutex_lock(&m->lock);
    for (unsigned i = 0; i < m->shown_count; i++)
        if (!strcmp(m->shown[i].name, name) && !memcmp(m->shown[i].public_key, public_key, 32))
            goto out;
    if (m->shown_count == KEYS_MAX)
        memmove(m->shown, m->shown + 1, --m->shown_count * sizeof *m->shown);
    snprintf(m->shown[m->shown_count].name, sizeof m->shown->name, "%s", name);
    memcpy(m->shown[m->shown_count++].public_key, public_key, 32);
out:
    pthread_mutex_unlock(&m->lock);
}

/* What is wrong with a decoded payload, NULL: nothing. */
static const char *payload_fault(const struct spur_transcript *t, const uint8_t *p, size_t n)
{
    if (n < PAYLOAD_HEAD || p[0] != 1 || p[3] > 63 || n < (size_t)PAYLOAD_HEAD + p[3])
        return "it was made for something else";
    if (p[2] != t->by_server || sodium_memcmp(p + 4, t->hash, 64) != 0)
        return "it was made for another connection";
    if (n != (size_t)PAYLOAD_HEAD + p[3] + (p[1] == SPUR_ROLE_CONTROLLER ? 32u : 0u))
        return "it was made for something else";
    for (unsigned i = 0; i < p[3]; i++)
        if (p[PAYLOAD_HEAD + i] <= ' ' || p[PAYLOAD_HEAD + i] >= 0x7f)
            return "it names a host that cannot be one";
    return NULL;
}

static int munge_check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    struct munge *m = self;
    char text[SPUR_PROOF_MAX + 1], name[64];
    munge_ctx_t ctx;
    munge_err_t rc;
    uint8_t *p = NULL;
    const char *fault;
    uid_t uid;
    gid_t gid;
    int n = 0, role;

    if (len == 0 || len > SPUR_PROOF_MAX || len < 6 || memcmp(proof, "MUNGE:", 6) != 0 || memchr(proof, '\0', len))
        return spur_fail(err, SPUR_EAUTH, "the peer's proof is not one of auth/munge (is AuthType the same on both sides?)");
    memcpy(text, proof, len);
    text[len] = '\0';
    if (!(ctx = context(m)))
        return spur_fail(err, SPUR_EAUTH, "out of memory");
    rc = munge_decode(text, ctx, (void **)&p, &n, &uid, &gid);
    munge_ctx_destroy(ctx);
    if (rc != EMUNGE_SUCCESS) {
        free(p);
        if (rc == EMUNGE_CRED_EXPIRED || rc == EMUNGE_CRED_REWOUND)
            return spur_fail(err, SPUR_EAUTH, "munge: %s: the clocks of the two hosts are apart", munge_strerror(rc));
        return spur_fail(err, SPUR_EAUTH, "munge: %s%s", munge_strerror(rc), rc == EMUNGE_CRED_INVALID ? " (is munge.key the same on both hosts?)" : "");
    }
    if ((fault = n < 0 ? "it is empty" : payload_fault(t, p, (size_t)n))) {
        free(p);
        return spur_fail(err, SPUR_EAUTH, "the peer's MUNGE credential is of no use here: %s", fault);
    }
    role = p[1];
    memcpy(name, p + PAYLOAD_HEAD, p[3]);
    name[p[3]] = '\0';
    if (role == SPUR_ROLE_NODE || role == SPUR_ROLE_LOGIN || role == SPUR_ROLE_CONTROLLER) {
        if (uid != 0 && uid != m->slurm_uid) {
            free(p);
            return spur_fail(err, SPUR_EAUTH, "user %u claims to be the daemon of %s: only root and SlurmUser (%u) may", (unsigned)uid, name, (unsigned)m->slurm_uid);
        }
        if (role == SPUR_ROLE_CONTROLLER)
            remember(m, name, p + n - 32);
        out->uid = out->gid = UINT32_MAX;
        snprintf(out->host, sizeof out->host, "%s", name);
    } else if (role == SPUR_ROLE_USER && !t->by_server) {
        out->uid = uid;
        out->gid = gid;
        out->host[0] = '\0';
    } else {
        free(p);
        return spur_fail(err, SPUR_EAUTH, "the peer's MUNGE credential claims role %d, which it cannot have", role);
    }
    free(p);
    out->role = role;
    out->is_local = false;
    return 0;
}

/* ---- credentials ---------------------------------------------------------------------------------------------------------- */

static void credential_text(const char *purpose, const char *signer, const void *data, size_t n, uint8_t out[sizeof CREDENTIAL_TAG + 64])
{
    crypto_generichash_state h;
    const struct { const void *at; size_t n; } parts[] = { { purpose, strlen(purpose) }, { signer, strlen(signer) }, { data, n } };

    crypto_generichash_init(&h, NULL, 0, 64);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint8_t length[8];

        for (int k = 0; k < 8; k++)
            length[k] = (uint8_t)((uint64_t)parts[i].n >> 8 * k);
        crypto_generichash_update(&h, length, sizeof length);
        crypto_generichash_update(&h, parts[i].at, parts[i].n);
    }
    memcpy(out, CREDENTIAL_TAG, sizeof CREDENTIAL_TAG);
    crypto_generichash_final(&h, out + sizeof CREDENTIAL_TAG, 64);
}

static int munge_sign(void *self, const char *purpose, const void *data, size_t n, uint8_t signature[64], struct spur_error *err)
{
    struct munge *m = self;
    uint8_t text[sizeof CREDENTIAL_TAG + 64];

    if (!m->secret)
        return spur_fail(err, SPUR_EDENIED, "only controllers sign");
    credential_text(purpose, m->name, data, n, text);
    crypto_sign_detached(signature, NULL, text, sizeof text, m->secret);
    return 0;
}

static int munge_verify(void *self, const char *purpose, const char *signer, const void *data, size_t n, const uint8_t signature[64], struct spur_error *err)
{
    struct munge *m = self;
    uint8_t text[sizeof CREDENTIAL_TAG + 64];
    bool is_known = false, is_good = false;

    credential_text(purpose, signer, data, n, text);
    pthread_mutex_lock(&m->lock);
    for (unsigned i = 0; i < m->shown_count && !is_good; i++)
        if (!strcmp(m->shown[i].name, signer)) {
            is_known = true;
            is_good = crypto_sign_verify_detached(signature, text, sizeof text, m->shown[i].public_key) == 0;
        }
    pthread_mutex_unlock(&m->lock);
    if (is_good)
        return 0;
    if (!is_known)
        return spur_fail(err, SPUR_EAUTH, "controller %.63s has shown no key yet on any connection of this host", signer);
    return spur_fail(err, SPUR_EAUTH, "the signature is not one of controller %.63s for this purpose", signer);
}

/* ---- opening -------------------------------------------------------------------------------------------------------------- */

/* The controller's signing key: made at the first start, the same afterwards. Without a state folder it lives as long as the process. */
static int signing_key(struct munge *m, const char *dir, struct spur_error *err)
{
    uint8_t seed[32];
    char path[512];
    struct stat st;
    int fd;

    if (!(m->secret = sodium_malloc(crypto_sign_SECRETKEYBYTES)))
        return spur_fail(err, SPUR_ENOMEM, "no locked memory for a key (RLIMIT_MEMLOCK?)");
    snprintf(path, sizeof path, "%s/munge-signing.key", dir);
    randombytes_buf(seed, sizeof seed);
    if (*dir) {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            if (write(fd, seed, sizeof seed) != sizeof seed || fsync(fd) < 0) {
                close(fd);
                unlink(path);
                return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
            }
        } else if (errno == EEXIST && (fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) >= 0) {
            if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0)) {
                close(fd);
                return spur_fail(err, SPUR_EDENIED, "%s can be reached by others: remove it, a new one is made", path);
            }
            if (read(fd, seed, sizeof seed) != sizeof seed) {
                close(fd);
                return spur_fail(err, SPUR_ECORRUPT, "%s is cut: remove it, a new one is made", path);
            }
        } else {
            return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
        }
        close(fd);
    }
    crypto_sign_seed_keypair(m->public_key, m->secret, seed);
    sodium_memzero(seed, sizeof seed);
    sodium_mprotect_readonly(m->secret);
    return 0;
}

static void munge_close(void *self)
{
    struct munge *m = self;

    if (!m)
        return;
    sodium_free(m->secret);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static int slurm_user(struct munge *m, struct spur_error *err)
{
    const char *name = SPUR_HAS(m->host, config) ? m->host->config(m->host->ctx, "SlurmUser") : NULL;
    char buf[4096], *end;
    struct passwd pw, *found = NULL;
    unsigned long number;

    m->slurm_uid = 0;
    if (!name || !*name)
        return 0;
    number = strtoul(name, &end, 10);
    if (*end) {
        size_t n = strcspn(name, "(");          /* "slurm(64030)", as show config prints it */
        char plain[64];

        if (n >= sizeof plain)
            return spur_fail(err, SPUR_EINVAL, "SlurmUser=%s: too long", name);
        memcpy(plain, name, n);
        plain[n] = '\0';
        if (getpwnam_r(plain, &pw, buf, sizeof buf, &found) != 0 || !found)
            return m->role == SPUR_ROLE_USER ? 0 : spur_fail(err, SPUR_ENOTFOUND, "SlurmUser=%s: no such user on this host", plain);
        number = pw.pw_uid;
    }
    m->slurm_uid = (uid_t)number;
    return 0;
}

static int munge_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct munge *m = calloc(1, sizeof *m);
    const char *socket = host->conf_text(conf, "socket"), *name = SPUR_HAS(host, host_name) ? host->host_name(host->ctx) : NULL;
    const char *role = SPUR_HAS(host, role) ? host->role(host->ctx) : NULL, *dir = SPUR_HAS(host, state_dir) ? host->state_dir(host->ctx) : NULL;
    struct spur_transcript t = { .size = sizeof t };
    uint8_t buf[SPUR_PROOF_MAX];
    size_t len;
    int rc;

    if (!m || sodium_init() < 0) {
        free(m);
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    }
    pthread_mutex_init(&m->lock, NULL);
    m->host = host;
    snprintf(m->name, sizeof m->name, "%s", name ? name : "");
    snprintf(m->socket, sizeof m->socket, "%s", socket ? socket : "");
    m->ttl = (int)host->conf_int(conf, "ttl");
    m->role = !role || !*role || !strcmp(role, "command") ? SPUR_ROLE_USER : !strcmp(role, "controller") ? SPUR_ROLE_CONTROLLER :
              !strcmp(role, "logind") ? SPUR_ROLE_LOGIN : SPUR_ROLE_NODE;
    if ((rc = slurm_user(m, err)) < 0 || (m->role == SPUR_ROLE_CONTROLLER && (rc = signing_key(m, dir ? dir : "", err)) < 0)) {
        munge_close(m);
        return rc;
    }
    if (m->role != SPUR_ROLE_USER) {
        /* A daemon that cannot prove itself should say so now, not at each connection. */
        if ((rc = munge_prove(m, &t, buf, &len, err)) < 0) {
            munge_close(m);
            return rc;
        }
        say(m, SPUR_LOG_WARN, "who has the MUNGE key, root on any host, can be any user and any host of this cluster; auth/sodium has a key for each host");
    }
    if (m->role == SPUR_ROLE_CONTROLLER)
        remember(m, m->name, m->public_key);
    *self = m;
    return 0;
}

static const struct spur_option munge_options[] = {
    { "socket", SPUR_STRING, NULL, "socket of munged; unset: where libmunge looks" },
    { "ttl", SPUR_INT, "0", "seconds a proof is good for; 0: as munged says" },
    { 0 } };

static const struct spur_auth_ops munge_ops = {
    .size = sizeof munge_ops, .prove = munge_prove, .check = munge_check, .sign = munge_sign, .verify = munge_verify };

SPUR_PLUGIN(auth, munge, .about = "the site's MUNGE proves users and daemons", .caps = SPUR_CAP_MAY_BLOCK, .options = munge_options,
            .ops = &munge_ops, .open = munge_open, .close = munge_close);
