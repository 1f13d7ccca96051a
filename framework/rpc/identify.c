/* SPDX-License-Identifier: Apache-2.0 */
/* identify.c - who is at the other end: the kernel's word on a local socket, the auth plugin's on TCP; and vouching for local users.
 *
 * The plugin is called here and nowhere else in the server. One that may block gets its call on libuv's pool, with copies of all it reads;
 * the connection meanwhile reads nothing and cannot be freed (`work`).
 */
#include <stdlib.h>
#include <string.h>

#include "rpc/local.h"
#include "rpc/server_inside.h"

enum auth_call { AUTH_PROVE, AUTH_CHECK, AUTH_VOUCH };

/* One call of the plugin: arguments and result. */
struct auth_work {
    uv_work_t req;
    struct rpc_conn *c;
    const struct spur_auth_ops *ops;
    void    *self;
    enum auth_call call;
    struct spur_transcript transcript;
    uint32_t uid, gid;
    uint64_t seq;
    uint8_t  proof[SPUR_PROOF_MAX];
    size_t   len;
    struct spur_identity identity;
    struct spur_error err;
    int      rc;
};

static void auth_run(struct auth_work *w)
{
    w->err.code = 0;
    w->err.text[0] = '\0';
    switch (w->call) {
    case AUTH_PROVE:
        w->rc = w->ops->prove(w->self, &w->transcript, w->proof, &w->len, &w->err);
        break;
    case AUTH_CHECK:
        w->rc = w->ops->check(w->self, &w->transcript, w->proof, w->len, &w->identity, &w->err);
        break;
    case AUTH_VOUCH:
        w->rc = w->ops->vouch(w->self, &w->transcript, w->uid, w->gid, w->proof, &w->len, &w->err);
        break;
    }
    if (w->rc < 0 && !w->err.code)
        spur_fail(&w->err, w->rc, "the auth plugin fails without a reason");
    if (w->rc == 0 && w->call != AUTH_CHECK && w->len > sizeof w->proof)
        w->rc = spur_fail(&w->err, SPUR_EINVAL, "the auth plugin made a proof of %zu bytes", w->len);
}

/* The result goes back into the channel. */
static void auth_done(struct auth_work *w)
{
    struct rpc_conn *c = w->c;
    struct spur_error err = w->err;
    int rc = w->rc;

    if (w->call == AUTH_VOUCH) {
        Wire__VouchReply m = WIRE__VOUCH_REPLY__INIT;

        m.proof.data = w->proof;
        m.proof.len = w->len;
        if (rc == 0)
            rpc_send(c, WIRE__MESSAGE_TYPE__VOUCHED, w->seq, &m.base);
        else
            rpc_refuse(c, w->seq, &err, 0);
    } else if (w->call == AUTH_PROVE && rc == 0) {
        rc = channel_proof(c->channel, w->proof, w->len, &err);
        rpc_conn_dirty(c);
    } else if (w->call == AUTH_CHECK && rc == 0) {
        c->identity = w->identity;
        c->identity.size = sizeof c->identity;
        c->identity.is_local = false;
        c->identity.host[sizeof c->identity.host - 1] = '\0';
        rc = channel_checked(c->channel, &err);
    }
    /* Who is known, but no more, hears why: his key or his token is one that was good. A stranger hears nothing. */
    if (rc == SPUR_ESTALE && w->call == AUTH_CHECK && !c->is_dialled) {
        struct str *out;
        uv_buf_t last;

        channel_refuse(c->channel, err.text);
        out = channel_output(c->channel);
        last = uv_buf_init(out->text, (unsigned)out->len);
        uv_try_write(&c->h.stream, &last, 1);
        str_clear(out);
    }
    if (rc < 0 && w->call != AUTH_VOUCH) {
        if (w->call == AUTH_PROVE)
            spur_context(&err, "cannot prove who we are");
        if (w->call == AUTH_PROVE && !c->is_dialled)
            log_line(SPUR_LOG_ERROR, "rpc: %s: %s", c->peer, err.text);       /* our fault, not the peer's */
        rpc_conn_close(c, &err);
    }
}

static void on_pool(uv_work_t *req)
{
    auth_run(req->data);
}

static void on_pool_done(uv_work_t *req, int status)
{
    struct auth_work *w = req->data;
    struct rpc_conn *c = w->c;

    c->work--;
    if (!c->is_closing && status == 0) {
        auth_done(w);
        if (w->call != AUTH_VOUCH)
            rpc_conn_start(c);
    }
    free(w);
    rpc_conn_free_if_done(c);
}

/* Runs the call, here or on the pool. True: it has run and its result is in. */
static bool auth_call(struct rpc_conn *c, struct auth_work *w)
{
    struct rpc *r = c->r;

    w->c = c;
    w->ops = r->auth;
    w->self = r->auth_self;
    w->identity.size = sizeof w->identity;
    w->identity.uid = w->identity.gid = UINT32_MAX;
    w->req.data = w;
    if (r->auth_may_block) {
        c->work++;
        if (uv_queue_work(r->loop, &w->req, on_pool, on_pool_done) == 0)
            return false;
        c->work--;
    }
    auth_run(w);
    auth_done(w);
    free(w);
    return true;
}

static void local_identity(struct rpc_conn *c)
{
    uv_os_fd_t fd;
    uid_t uid;
    gid_t gid;
    pid_t pid;
    struct spur_error err;

    if (uv_fileno(&c->h.handle, &fd) < 0 || !local_peer(fd, &uid, &gid, &pid)) {
        spur_fail(&err, SPUR_EAUTH, "the kernel does not say who is at the other end");
        rpc_conn_close(c, &err);
        return;
    }
    c->identity.role = SPUR_ROLE_USER;
    c->identity.uid = uid;
    c->identity.gid = gid;
    c->identity.is_local = true;
    snprintf(c->identity.host, sizeof c->identity.host, "%s", c->r->host);
    snprintf(c->peer, sizeof c->peer, "local pid %ld", (long)pid);
    rpc_known(c);
}

void rpc_identify(struct rpc_conn *c)
{
    struct auth_work *w;
    const uint8_t *proof;
    enum channel_want want;

    while (!c->is_closing && !c->is_opened && !c->work) {
        want = channel_want(c->channel);
        if (want == CHANNEL_READY) {
            if (c->is_local)
                local_identity(c);
            else
                rpc_known(c);
            continue;
        }
        if (want != CHANNEL_PROVE && want != CHANNEL_CHECK)
            break;
        w = mem_alloc(sizeof *w);
        w->call = want == CHANNEL_PROVE ? AUTH_PROVE : AUTH_CHECK;
        w->transcript = *channel_transcript(c->channel, want == CHANNEL_CHECK);
        if (want == CHANNEL_CHECK) {
            proof = channel_peer_proof(c->channel, &w->len);
            memcpy(w->proof, proof, w->len);
        }
        auth_call(c, w);
    }
    rpc_conn_read(c);
}

unsigned rpc_recheck(struct rpc *r)
{
    struct spur_error err;
    unsigned closed = 0;

    if (!r->auth || !SPUR_HAS(r->auth, stands))
        return 0;
    for (struct rpc_conn *c = r->known.first; c; c = c->next) {
        if (c->is_local || c->is_closing)
            continue;
        err.code = 0;
        if (r->auth->stands(r->auth_self, &c->identity, &err) < 0) {
            rpc_conn_close(c, &err);
            closed++;
        }
    }
    return closed;
}

void rpc_vouch_answer(struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    struct rpc *r = c->r;
    struct spur_error err;
    Wire__VouchRequest *m = NULL;
    struct auth_work *w;

    if (!c->is_local || c->is_dialled)
        spur_fail(&err, SPUR_EDENIED, "this host vouches only for its own users, on its local socket");
    else if (!r->auth || !SPUR_HAS(r->auth, vouch))
        spur_fail(&err, SPUR_EUNSUPPORTED, "with this AuthType users prove themselves: nobody vouches");
    else if (f->length > 256 || !(m = wire__vouch_request__unpack(NULL, f->length, body)) || m->transcript.len != 64)
        spur_fail(&err, SPUR_ECORRUPT, "not a request to vouch: it holds the 64 bytes of a handshake");
    else {
        w = mem_alloc(sizeof *w);
        w->call = AUTH_VOUCH;
        w->transcript.size = sizeof w->transcript;
        w->transcript.cluster = r->cluster;
        w->transcript.by_server = false;            /* a user is never a server */
        memcpy(w->transcript.hash, m->transcript.data, 64);
        w->uid = c->identity.uid;
        w->gid = c->identity.gid;
        w->seq = f->seq;
        auth_call(c, w);
        wire__vouch_request__free_unpacked(m, NULL);
        return;
    }
    if (m)
        wire__vouch_request__free_unpacked(m, NULL);
    rpc_refuse(c, f->seq, &err, 0);
}
