/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - moves bytes between a descriptor and a channel, never waiting. The channel has the cryptography, the caller has the poll(). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/link.h"

void link_open(struct link *l, int fd, struct channel *take_channel)
{
    l->fd = fd;
    l->channel = take_channel;
    l->written = 0;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void link_close(struct link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    channel_destroy(l->channel);
    l->fd = -1;
    l->channel = NULL;
    l->written = 0;
}

int link_read(struct link *l, size_t max, struct spur_error *err)
{
    uint8_t buf[32768];
    ssize_t n;
    int rc;

    while (max > 0) {
        n = recv(l->fd, buf, max < sizeof buf ? max : sizeof buf, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0)
            return spur_fail(err, SPUR_EIO, "read failed: %s", strerror(errno));
        if (n == 0)
            return spur_fail(err, SPUR_ECLOSED, "the other side has closed the connection");
        if ((rc = channel_input(l->channel, buf, (size_t)n, err)) < 0)
            return rc;
        max -= (size_t)n;
        if ((size_t)n < sizeof buf)
            return 0;
    }
    return 0;
}

int link_flush(struct link *l, struct spur_error *err)
{
    struct str *out = channel_output(l->channel);

    while (l->written < out->len) {
        ssize_t n = send(l->fd, out->text + l->written, out->len - l->written, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0)
            return spur_fail(err, errno == EPIPE || errno == ECONNRESET ? SPUR_ECLOSED : SPUR_EIO, "write failed: %s", strerror(errno));
        l->written += (size_t)n;
    }
    str_clear(out);
    l->written = 0;
    return 0;
}

size_t link_backlog(const struct link *l)
{
    return l->channel ? channel_output(l->channel)->len - l->written : 0;
}

int link_send(struct link *l, uint16_t type, uint64_t seq, const ProtobufCMessage *body, struct spur_error *err)
{
    return channel_send(l->channel, type, seq, body, err);
}

int link_next(struct link *l, struct frame *f, const uint8_t **body, struct spur_error *err)
{
    return channel_next(l->channel, f, body, err);
}
