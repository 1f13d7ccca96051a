/* SPDX-License-Identifier: Apache-2.0 */
/* dialog.c - connects, shakes hands, sends and receives, blocking. The way to a local socket is a handful of system calls and no
 * cryptography; timeouts are the socket's own, so that a read costs one call. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/str.h"
#include "client/dialog.h"
#include "rpc/channel.h"
#include "rpc/local.h"

#define READ_BYTES (64u << 10)

void dialog_close(struct dialog *l)
{
    if (l->fd >= 0)
        close(l->fd);
    channel_destroy(l->channel);
    free(l->buf);
    l->fd = -1;
    l->channel = NULL;
    l->buf = NULL;
}

void dialog_timeout(struct dialog *l, unsigned timeout_ms)
{
    struct timeval t = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000 };

    if (l->has_timeout && l->timeout_ms == timeout_ms)
        return;
    l->has_timeout = true;
    l->timeout_ms = timeout_ms;
    setsockopt(l->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

static void dialog_up(struct dialog *l, int fd, struct channel *channel, unsigned timeout_ms)
{
    l->fd = fd;
    l->has_timeout = false;
    l->channel = channel;
    l->buf = mem_grow(NULL, READ_BYTES, 1);
    dialog_timeout(l, timeout_ms);
}

int dialog_local(struct dialog *l, const char *path, unsigned timeout_ms, struct spur_error *err)
{
    int fd = local_connect(path);

    if (fd < 0)
        return spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_ECLOSED, "cannot connect to %s: %s", path, strerror(errno));
    l->is_local = true;
    snprintf(l->peer, sizeof l->peer, "%s", path);
    dialog_up(l, fd, channel_local(), timeout_ms);
    return 0;
}

/* Writes all that the channel has for the wire. */
int dialog_flush(struct dialog *l, struct spur_error *err)
{
    struct str *out = channel_output(l->channel);
    size_t done = 0;

    while (done < out->len) {
        ssize_t n = send(l->fd, out->text + done, out->len - done, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return spur_fail(err, SPUR_ECLOSED, "connection to %s lost: %s", l->peer, strerror(errno));
        done += (size_t)n;
    }
    str_clear(out);
    return 0;
}

static int dialog_read(struct dialog *l, bool is_patient, struct spur_error *err)
{
    ssize_t n;

    do
        n = recv(l->fd, l->buf, READ_BYTES, 0);
    while (n < 0 && errno == EINTR && is_patient);
    if (n < 0 && errno == EINTR)
        return spur_fail(err, SPUR_ELATER, "interrupted by a signal");
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return spur_fail(err, SPUR_ETIMEOUT, "%s does not answer in time", l->peer);
    if (n < 0)
        return spur_fail(err, SPUR_ECLOSED, "connection to %s lost: %s", l->peer, strerror(errno));
    if (n == 0)
        return spur_fail(err, SPUR_ECLOSED, "%s closed the connection", l->peer);
    return channel_input(l->channel, l->buf, (size_t)n, err);
}

static int handshake(struct dialog *l, const struct dialog_auth *auth, struct spur_error *err)
{
    struct spur_identity id = { .size = sizeof id };
    uint8_t proof[SPUR_PROOF_MAX];
    const uint8_t *theirs;
    bool has_proved = false;
    size_t len;
    int rc;

    for (;;) {
        if ((rc = dialog_flush(l, err)) < 0)
            return rc;
        switch (channel_want(l->channel)) {
        case CHANNEL_BYTES:
            if ((rc = dialog_read(l, true, err)) == SPUR_ECLOSED && has_proved)
                return spur_fail(err, SPUR_EAUTH, "%s does not accept our identity: its log says why", l->peer);
            if (rc < 0)
                return rc;
            break;
        case CHANNEL_PROVE:
            if ((rc = auth->prove(auth->arg, channel_transcript(l->channel, false), proof, &len, err)) < 0 ||
                (rc = channel_proof(l->channel, proof, len, err)) < 0)
                return rc;
            has_proved = true;
            break;
        case CHANNEL_CHECK:
            theirs = channel_peer_proof(l->channel, &len);
            if ((rc = auth->check(auth->arg, channel_transcript(l->channel, true), theirs, len, &id, err)) < 0)
                return rc;
            if (id.role != SPUR_ROLE_CONTROLLER)
                return spur_fail(err, SPUR_EAUTH, "%s is %s, which is no controller", l->peer, *id.host ? id.host : "somebody");
            if ((rc = channel_checked(l->channel, err)) < 0)
                return rc;
            break;
        case CHANNEL_READY:
            return 0;
        case CHANNEL_BROKEN:
            return spur_fail(err, SPUR_ECLOSED, "connection to %s is broken", l->peer);
        }
    }
}

/* A connected socket within the deadline, or -1 and errno. */
static int connect_one(const struct addrinfo *to, unsigned timeout_ms)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), failed = 0, one = 1;
    socklen_t len = sizeof failed;
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    if (fd < 0)
        return -1;
    if (connect(fd, to->ai_addr, to->ai_addrlen) < 0) {
        failed = errno;
        if (failed == EINPROGRESS && (poll(&p, 1, (int)timeout_ms) <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0))
            failed = ETIMEDOUT;
    }
    if (failed) {
        close(fd);
        errno = failed;
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    return fd;
}

int dialog_tcp(struct dialog *l, const char *host, uint16_t port, const char *cluster, const struct dialog_auth *auth, unsigned timeout_ms, struct spur_error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *all = NULL;
    char service[8];
    int rc, fd = -1;

    snprintf(l->peer, sizeof l->peer, "%.250s:%u", host, port);
    l->is_local = false;
    snprintf(service, sizeof service, "%u", port);
    if ((rc = getaddrinfo(host, service, &hints, &all)) != 0)
        return spur_fail(err, SPUR_ENOTFOUND, "cannot find the address of %s: %s", host, gai_strerror(rc));
    for (const struct addrinfo *to = all; to && fd < 0; to = to->ai_next)
        fd = connect_one(to, timeout_ms);
    rc = errno;
    freeaddrinfo(all);
    if (fd < 0)
        return spur_fail(err, SPUR_ECLOSED, "cannot connect to %s: %s", l->peer, strerror(rc));
    dialog_up(l, fd, channel_client(cluster), timeout_ms);
    if ((rc = handshake(l, auth, err)) < 0)
        dialog_close(l);
    return rc;
}

int dialog_send(struct dialog *l, uint16_t type, const ProtobufCMessage *body, struct spur_error *err)
{
    int rc = channel_send(l->channel, type, ++l->seq, body, err);

    return rc < 0 ? rc : dialog_flush(l, err);
}

int dialog_post(struct dialog *l, uint16_t type, const void *body, size_t n, size_t limit, struct spur_error *err)
{
    int rc = channel_send_bytes(l->channel, type, ++l->seq, body, n, err);

    return rc < 0 || channel_output(l->channel)->len <= limit ? rc : dialog_flush(l, err);
}

int dialog_any(struct dialog *l, struct frame *f, const uint8_t **body, bool wait, struct spur_error *err)
{
    int rc;

    while ((rc = channel_next(l->channel, f, body, err)) == 0 && wait)
        if ((rc = dialog_read(l, true, err)) < 0)
            return rc;
    return rc;
}

int dialog_next(struct dialog *l, struct frame *f, const uint8_t **body, struct spur_error *err)
{
    int rc;

    for (;;) {
        while ((rc = channel_next(l->channel, f, body, err)) > 0)
            if (f->seq == l->seq)           /* what is left of an answer given up before is passed over */
                return 1;
        if (rc < 0 || (rc = dialog_read(l, l->timeout_ms != 0, err)) < 0)
            return rc;
    }
}
