/* SPDX-License-Identifier: Apache-2.0 */
/* meet.c - a connection from its first packet until both ends are proven: looking up, connecting, the handshake. All of it may block.
 *
 * Each has a thread of its own for some milliseconds, so that neither a slow stranger nor a name server that is down holds up the others or the
 * consensus. The result goes to consensus by a list. A stop shuts the sockets down, which ends every wait at once.
 */
#include "raft.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS  2000
#define MEET_MS     5000

static int fd_of(struct meeting *m, int fd)         /* the stop looks at it */
{
    struct store *s = m->s;

    pthread_mutex_lock(&s->meet_lock);
    m->fd = fd;
    if (atomic_load(&s->is_stopping) && fd >= 0)
        shutdown(fd, SHUT_RDWR);
    pthread_mutex_unlock(&s->meet_lock);
    return fd;
}

static int connect_one(struct meeting *m, const struct addrinfo *a, int64_t deadline)
{
    struct pollfd p = { .events = POLLOUT };
    int error = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof error;

    if (fd < 0)
        return spur_fail(&m->why, SPUR_EIO, "%s: %s", m->addr, strerror(errno));
    fd_of(m, fd);
    p.fd = fd;
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS) {
        error = errno;
    } else {
        int64_t left;

        while ((left = deadline - boot_ms()) > 0 && poll(&p, 1, (int)left) < 0 && errno == EINTR)
            ;
        if (!p.revents)
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
            error = errno;
    }
    if (!error)
        return 0;
    fd_of(m, -1);
    close(fd);
    return spur_fail(&m->why, SPUR_ECLOSED, "cannot connect to %s: %s", m->addr, strerror(error));
}

static int connect_any(struct meeting *m)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST }, *all = NULL;
    char host[128], *port;
    int rc;

    snprintf(host, sizeof host, "%s", m->addr);
    if (!(port = strrchr(host, ':')))
        return spur_fail(&m->why, SPUR_EINVAL, "%s: no address:port", m->addr);
    *port++ = '\0';
    if (*host == '[' && host[strlen(host) - 1] == ']') {
        memmove(host, host + 1, strlen(host));
        host[strlen(host) - 1] = '\0';
    }
    rc = getaddrinfo(host, port, &hints, &all);
    if (rc == EAI_NONAME) {
        hints.ai_flags = AI_NUMERICSERV;
        rc = getaddrinfo(host, port, &hints, &all);
    }
    if (rc)
        return spur_fail(&m->why, SPUR_ENOTFOUND, "cannot find the address of %s: %s", host, gai_strerror(rc));
    rc = SPUR_ECLOSED;
    for (struct addrinfo *a = all; a && rc < 0 && !atomic_load(&m->s->is_stopping); a = a->ai_next)
        rc = connect_one(m, a, boot_ms() + CONNECT_MS);
    freeaddrinfo(all);
    return rc;
}

static void *meet_main(void *arg)
{
    struct meeting *m = arg, **at;
    struct store *s = m->s;
    const struct spur_channels *c = s->host->channels;
    int one = 1, silence_ms = 3000, rc = 0;

    if (m->has_dialled)
        rc = connect_any(m);
    if (rc == 0) {
        setsockopt(m->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        /* After a partition the kernel would wait ever longer before it sends again; a new connection is made at once. */
        setsockopt(m->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
        setsockopt(m->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        m->who.size = sizeof m->who;
        rc = c->meet(c->ctx, m->fd, m->has_dialled, "store/raft", boot_ms() + MEET_MS, &m->channel, &m->who, &m->why);
    }
    if (rc == 0 && m->who.role != SPUR_ROLE_CONTROLLER)
        rc = spur_fail(&m->why, SPUR_EDENIED, "%s is no controller", *m->who.host ? m->who.host : m->addr);
    if (rc < 0) {
        int fd = m->fd;

        c->close(m->channel);
        m->channel = NULL;
        fd_of(m, -1);
        if (fd >= 0)
            close(fd);
    }
    pthread_mutex_lock(&s->meet_lock);
    for (at = &s->meeting; *at != m; at = &(*at)->next)
        ;
    *at = m->next;
    m->next = s->met;
    s->met = m;
    s->meet_count--;
    pthread_cond_signal(&s->meet_over);
    raft_wake(s->wake_fd);
    pthread_mutex_unlock(&s->meet_lock);
    return NULL;
}

int meet_start(struct store *s, struct meeting *m)
{
    struct spur_error err;
    pthread_t thread;
    int rc;

    m->s = s;
    pthread_mutex_lock(&s->meet_lock);
    m->next = s->meeting;
    s->meeting = m;
    s->meet_count++;
    rc = raft_thread(&thread, meet_main, m, "meeting", &err);
    if (rc < 0) {
        s->meeting = m->next;
        s->meet_count--;
    } else {
        pthread_detach(thread);
    }
    pthread_mutex_unlock(&s->meet_lock);
    if (rc < 0) {
        raft_say_rarely(s, "meeting", "%s", err.text);
        if (m->fd >= 0)
            close(m->fd);
        free(m);
    }
    return rc;
}

void meet_stop(struct store *s)
{
    pthread_mutex_lock(&s->meet_lock);
    for (struct meeting *m = s->meeting; m; m = m->next)
        if (m->fd >= 0)
            shutdown(m->fd, SHUT_RDWR);
    while (s->meet_count)
        pthread_cond_wait(&s->meet_over, &s->meet_lock);
    while (s->met) {
        struct meeting *m = s->met;

        s->met = m->next;
        s->host->channels->close(m->channel);
        if (m->fd >= 0)
            close(m->fd);
        free(m);
    }
    pthread_mutex_unlock(&s->meet_lock);
}
