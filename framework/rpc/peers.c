/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - channel.c for threads of plugins: blocks in the handshake, with a deadline; afterwards bytes in, messages out.
 *
 * A store's consensus must not wait for the loop, and the loop's auth plugin belongs to the loop's thread. So there is an instance of
 * the plugin for this alone, behind a lock (one that may block is called as it is everywhere: by several threads at once).
 * The purpose of a connection goes into the handshake beside the cluster's name: a port of one purpose never serves another.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/channel.h"
#include "rpc/peers.h"

struct peers {
    struct spur_channels table;
    char    *cluster;
    const struct spur_auth_ops *auth;
    void    *auth_self;
    bool     may_block;
    pthread_mutex_t lock;       /* around calls of the auth plugin */
};

struct spur_channel { struct channel *inner; size_t written; };

static int prove(struct peers *p, struct channel *c, struct spur_error *err)
{
    uint8_t proof[SPUR_PROOF_MAX];
    size_t len = 0;
    int rc;

    if (!p->may_block)
        pthread_mutex_lock(&p->lock);
    rc = p->auth->prove(p->auth_self, channel_transcript(c, false), proof, &len, err);
    if (!p->may_block)
        pthread_mutex_unlock(&p->lock);
    if (rc < 0)
        return spur_context(err, "cannot prove who we are");
    if (len > sizeof proof)
        return spur_fail(err, SPUR_EINVAL, "the auth plugin made a proof of %zu bytes", len);
    return channel_proof(c, proof, len, err);
}

static int check(struct peers *p, struct channel *c, struct spur_identity *peer, struct spur_error *err)
{
    struct spur_identity found = { .size = sizeof found, .uid = UINT32_MAX, .gid = UINT32_MAX };
    size_t len, size = peer->size;
    const uint8_t *proof = channel_peer_proof(c, &len);
    int rc;

    if (!p->may_block)
        pthread_mutex_lock(&p->lock);
    rc = p->auth->check(p->auth_self, channel_transcript(c, true), proof, len, &found, err);
    if (!p->may_block)
        pthread_mutex_unlock(&p->lock);
    if (rc < 0)
        return rc;
    found.host[sizeof found.host - 1] = '\0';
    memcpy(peer, &found, size < sizeof found ? size : sizeof found);
    peer->size = (uint32_t)size;
    return channel_checked(c, err);
}

static int wait_for(int fd, short events, int64_t deadline_ms, struct spur_error *err)
{
    struct pollfd f = { .fd = fd, .events = events };
    int64_t left = deadline_ms - clock_boot_ms();
    int n = left > 0 ? poll(&f, 1, left < 60000 ? (int)left : 60000) : 0;

    if (n < 0 && errno != EINTR)
        return spur_fail(err, SPUR_EIO, "poll: %s", strerror(errno));
    if (n == 0 && clock_boot_ms() >= deadline_ms)
        return spur_fail(err, SPUR_ETIMEOUT, "the other end says nothing");
    return 0;
}

static int output_all(struct channel *c, int fd, int64_t deadline_ms, struct spur_error *err)
{
    struct str *out = channel_output(c);
    size_t done = 0;
    int rc;

    while (done < out->len) {
        ssize_t n = send(fd, out->text + done, out->len - done, MSG_NOSIGNAL);

        if (n >= 0)
            done += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return spur_fail(err, SPUR_ECLOSED, "%s", strerror(errno));
        else if ((rc = wait_for(fd, POLLOUT, deadline_ms, err)) < 0)
            return rc;
    }
    str_clear(out);
    return 0;
}

static int input_some(struct channel *c, int fd, int64_t deadline_ms, struct spur_error *err)
{
    uint8_t buf[4096];
    ssize_t n = recv(fd, buf, sizeof buf, 0);

    if (n > 0)
        return channel_input(c, buf, (size_t)n, err);
    if (n == 0)
        return spur_fail(err, SPUR_ECLOSED, "the other end closed the connection: its log says why");
    if (errno != EAGAIN && errno != EINTR)
        return spur_fail(err, SPUR_ECLOSED, "%s", strerror(errno));
    return wait_for(fd, POLLIN, deadline_ms, err);
}

static int peers_meet(void *ctx, int fd, bool has_dialled, const char *purpose, int64_t deadline_ms, struct spur_channel **out, struct spur_identity *peer,
                      struct spur_error *err)
{
    struct peers *p = ctx;
    char cluster[256];
    struct channel *c;
    int rc = 0;

    if (!p->auth)
        return spur_fail(err, SPUR_EAUTH, "this host has no auth plugin for channels of plugins");
    snprintf(cluster, sizeof cluster, "%s (%s)", p->cluster, purpose);
    c = has_dialled ? channel_client(cluster) : channel_server(cluster, NULL);
    while (rc == 0 && channel_want(c) != CHANNEL_READY) {
        switch (channel_want(c)) {
        case CHANNEL_PROVE:
            rc = prove(p, c, err);
            break;
        case CHANNEL_CHECK:
            rc = check(p, c, peer, err);
            break;
        default:
            if ((rc = output_all(c, fd, deadline_ms, err)) == 0)
                rc = input_some(c, fd, deadline_ms, err);
            break;
        }
    }
    if (rc == 0)
        rc = output_all(c, fd, deadline_ms, err);
    else if (channel_output(c)->len) {
        struct spur_error ignored;

        output_all(c, fd, deadline_ms, &ignored);       /* a server's hello, so that the client can say what differs */
    }
    if (rc < 0) {
        channel_destroy(c);
        return rc;
    }
    *out = mem_alloc(sizeof **out);
    (*out)->inner = c;
    return 0;
}

static int peers_send(struct spur_channel *c, uint16_t type, const void *data, size_t n, struct spur_error *err)
{
    return channel_send_bytes(c->inner, type, 0, data, n, err);
}

static size_t peers_output(struct spur_channel *c, const void **data)
{
    struct str *out = channel_output(c->inner);

    *data = out->text + c->written;
    return out->len - c->written;
}

static void peers_written(struct spur_channel *c, size_t n)
{
    struct str *out = channel_output(c->inner);

    c->written += n;
    if (c->written < out->len)
        return;
    c->written = 0;
    if (out->cap > 64u << 10)
        str_fini(out);
    else
        str_clear(out);
}

static int peers_input(struct spur_channel *c, const void *data, size_t n, struct spur_error *err)
{
    return channel_input(c->inner, data, n, err);
}

static int peers_next(struct spur_channel *c, uint16_t *type, const void **data, size_t *n, struct spur_error *err)
{
    struct frame f;
    const uint8_t *body = NULL;
    int rc = channel_next(c->inner, &f, &body, err);

    if (rc == 1) {
        *type = f.type;
        *data = body;
        *n = f.length;
    }
    return rc;
}

static void peers_close(struct spur_channel *c)
{
    if (!c)
        return;
    channel_destroy(c->inner);
    free(c);
}

struct peers *peers_create(const char *cluster)
{
    struct peers *p = mem_alloc(sizeof *p);

    p->table = (struct spur_channels){ .size = sizeof p->table, .ctx = p, .meet = peers_meet, .send = peers_send, .output = peers_output,
                                       .written = peers_written, .input = peers_input, .next = peers_next, .close = peers_close };
    p->cluster = mem_copy(cluster);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void peers_use(struct peers *p, const struct spur_auth_ops *auth, void *auth_self, bool may_block)
{
    p->auth = auth;
    p->auth_self = auth_self;
    p->may_block = may_block;
}

const struct spur_channels *peers_channels(const struct peers *p) { return &p->table; }

void peers_destroy(struct peers *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p->cluster);
    free(p);
}
