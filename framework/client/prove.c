/* SPDX-License-Identifier: Apache-2.0 */
/* prove.c - opens the auth plugin for a connection that leaves this host, and asks the daemon here to vouch for the user.
 *
 * A command has no key of its own. Where the plugin can vouch (auth/sodium), any daemon of this host does it on its local socket: it sees by the
 * kernel's word who asks. Where it cannot (auth/munge), the plugin proves the user itself. Only this path reads the
 * configuration whole, for the plugin's options.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/prove.h"
#include "loader/loader.h"
#include "wire/unpack.h"

#define VOUCH_MS 5000
#define VOUCH_FIRST_MS 300      /* a daemon that is stopped takes connections and says nothing: all are asked shortly before any is waited for */

struct prover {
    struct loaded *auth;
    const struct spur_auth_ops *ops;
    bool  is_command;
    char  run_dir[256];
    struct config *config;
};

static const char *no_name(void *ctx) { (void)ctx; return ""; }
static const char *command_role(void *ctx) { (void)ctx; return "command"; }

const char *prover_token(void)
{
    const char *token = getenv("SLURM_JWT");

    return token && *token ? token : NULL;
}

int prover_open(const struct config_hint *hint, const struct spur_host *host, struct prover **out, struct spur_error *err)
{
    static const struct spur_host command = { .size = sizeof command, .host_name = no_name, .role = command_role };
    struct prover *p = mem_alloc(sizeof *p);
    struct spur_error ignored;
    int rc;

    p->is_command = !host;
    snprintf(p->run_dir, sizeof p->run_dir, "%s", hint->run_dir);
    /* A broken line elsewhere in the file is not this command's business. */
    if (*hint->path && config_load(hint->path, true, &p->config, &ignored) < 0 && p->config) {
        config_free(p->config);
        p->config = NULL;
    }
    if ((rc = loader_open(SPUR_KIND_auth, hint->auth, p->config, host ? host : &command, &p->auth, err)) < 0) {
        prover_close(p);
        return rc;
    }
    p->ops = loader_ops(p->auth);
    *out = p;
    return 0;
}

void prover_close(struct prover *p)
{
    if (!p)
        return;
    loader_close(p->auth);
    config_free(p->config);
    free(p);
}

static int vouch_at(const char *path, unsigned timeout_ms, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    Wire__VouchRequest q = WIRE__VOUCH_REQUEST__INIT;
    struct dialog l = DIALOG_INIT;
    struct arena a;
    struct frame f;
    const uint8_t *body;
    Wire__VouchReply *reply;
    int rc;

    q.transcript.data = (uint8_t *)t->hash;
    q.transcript.len = sizeof t->hash;
    arena_init(&a, 64 << 10);
    if ((rc = dialog_local(&l, path, timeout_ms, err)) == 0 && (rc = dialog_send(&l, WIRE__MESSAGE_TYPE__VOUCH, &q.base, err)) == 0 &&
        (rc = dialog_next(&l, &f, &body, err)) > 0) {
        if (f.type == WIRE__MESSAGE_TYPE__REFUSED) {
            Wire__Refusal *no = wire_unpack(&wire__refusal__descriptor, body, f.length, &a);

            rc = spur_fail(err, no ? SPUR_EAUTH : SPUR_ECORRUPT, "%s: %s", path, no ? no->text : "an answer that cannot be read");
        } else if (f.type != WIRE__MESSAGE_TYPE__VOUCHED || !(reply = wire_unpack(&wire__vouch_reply__descriptor, body, f.length, &a)) ||
                   reply->proof.len == 0 || reply->proof.len > SPUR_PROOF_MAX) {
            rc = spur_fail(err, SPUR_ECORRUPT, "%s: an answer that is no proof", path);
        } else {
            memcpy(buf, reply->proof.data, reply->proof.len);
            *len = reply->proof.len;
            rc = 0;
        }
    }
    dialog_close(&l);
    arena_fini(&a);
    return rc;
}

/* Any daemon of this host will do: node.sock, ctl.sock, login.sock, or the several of a sandbox. */
static int ask_to_vouch(struct prover *p, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    struct spur_error one, last = { 0 };
    char path[600];

    for (unsigned pass = 0; pass < 2; pass++) {
        DIR *d = opendir(p->run_dir);
        struct dirent *e;

        while (d && (e = readdir(d))) {
            size_t n = strlen(e->d_name);

            if (n < 6 || strcmp(e->d_name + n - 5, ".sock") != 0)
                continue;
            snprintf(path, sizeof path, "%s/%s", p->run_dir, e->d_name);
            if (vouch_at(path, pass ? VOUCH_MS : VOUCH_FIRST_MS, t, buf, len, &one) == 0) {
                closedir(d);
                return 0;
            }
            if (!last.code || one.code == SPUR_EAUTH)
                last = one;
        }
        if (d)
            closedir(d);
    }
    if (last.code)
        return spur_fail(err, SPUR_EAUTH, "no daemon of this host vouches for you: %s", last.text);
    return spur_fail(err, SPUR_EAUTH, "no daemon of this host can vouch for you: there is no socket of spurd or spurctld in %s (is one running here?)", p->run_dir);
}

static int prover_prove(void *arg, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    struct prover *p = arg;

    if (p->is_command && prover_token()) {
        if (!SPUR_HAS(p->ops, token_prove))
            return spur_fail(err, SPUR_EAUTH, "SLURM_JWT is set, but AuthType=%s knows no tokens of users: unset it", p->auth->name);
        return p->ops->token_prove(p->auth->self, prover_token(), t, buf, len, err);
    }
    if (p->is_command && SPUR_HAS(p->ops, vouch))
        return ask_to_vouch(p, t, buf, len, err);
    return p->ops->prove(p->auth->self, t, buf, len, err);
}

static int prover_check(void *arg, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    struct prover *p = arg;

    return p->ops->check(p->auth->self, t, proof, len, out, err);
}

struct dialog_auth prover_auth(struct prover *p)
{
    return (struct dialog_auth){ prover_prove, prover_check, p };
}
