/* SPDX-License-Identifier: Apache-2.0 */
/* callback.c - dials a command that listens; see callback.h. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "client/callback.h"

int callback_next(struct link *l, char **next, uint32_t port, const char *cluster, const uint8_t key[32], struct spur_error *err)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list = NULL;
    char service[16], *host;
    bool tried = false;
    int one = 1;

    link_close(l);
    snprintf(service, sizeof service, "%u", port);
    while ((host = word_next(next, ", "))) {
        int fd, rc = getaddrinfo(host, service, &hints, &list);

        tried = true;
        if (rc != 0) {
            spur_fail(err, SPUR_ECLOSED, "cannot reach srun at %.100s port %s: %s", host, service, gai_strerror(rc));
            continue;
        }
        fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && (connect(fd, list->ai_addr, list->ai_addrlen) == 0 || errno == EINPROGRESS)) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            link_open(l, fd, channel_keyed(false, cluster ? cluster : "", key));
            freeaddrinfo(list);
            spur_fail(err, SPUR_ECLOSED, "srun at %.100s port %s does not answer", host, service);
            return 0;
        }
        spur_fail(err, SPUR_ECLOSED, "cannot reach srun at %.100s port %s: %s", host, service, strerror(errno));
        if (fd >= 0)
            close(fd);
        freeaddrinfo(list);
    }
    if (!tried && !err->text[0])
        spur_fail(err, SPUR_ECLOSED, "srun gave no address to connect to");
    return SPUR_ECLOSED;
}

int callback_connected(const struct link *l, struct spur_error *err)
{
    socklen_t len = sizeof (int);
    int cause = 0;

    getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &cause, &len);
    return cause ? spur_fail(err, SPUR_ECLOSED, "%s", strerror(cause)) : 0;
}
