/* SPDX-License-Identifier: Apache-2.0 */
/* links.c - the connections between members: listening, dialling, hellos, bytes in and out. On consensus' thread; meet.c does all that blocks.
 *
 * Every member dials every other one, twice: control (votes, heartbeats, acknowledgements) and bulk (entries, snapshots), and speaks only on
 * what it has dialled itself; what others have dialled it only listens to. So there is never a question which of two connections counts, a chunk of
 * a snapshot never stands before a heartbeat, and a network that loses one direction looks like one that loses one direction. Hellos go both
 * ways on each: group and member are said inside the proven channel, and a message counts as from whoever said hello there.
 *
 * A reset is the fastest sign that a leader has died: the core is told at once.
 */
#include "raft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MS      5000
#define MEETINGS_MAX  32u               /* accepted and not proven yet */
#define BACKOFF_MIN   20u
#define BACKOFF_MAX   1000u
#define VISITS_MAX    40u               /* connections of one member in ten seconds; more is a flood */
#define OUTPUT_MAX    (48u << 20)       /* more waiting for a peer that does not read: messages are dropped, as the core expects of a network */

static const char *line_name(const struct line *l)
{
    return l->has_hello ? l->hello.name : l->host ? l->host->name : l->addr;
}

/* ---- listening ---- */

static int listen_at(struct store *s, const struct addrinfo *a, const char *port, struct spur_error *err)
{
    int one = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "port %s: %s", port, strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, 64) < 0) {
        int error = errno;

        close(fd);
        return spur_fail(err, error == EADDRINUSE ? SPUR_EBUSY : SPUR_EIO, "cannot listen on port %s for the other controllers: %s: set `port` of plugin \"store/raft\"", port,
                         strerror(error));
    }
    s->listen_fd = fd;
    return 0;
}

/* A loopback address is bound as it is, so that several controllers fit one machine; any other name may stand for several interfaces: all of them. */
int lines_listen(struct store *s, struct spur_error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST }, *all = NULL;
    char host[128], *port;
    int rc;

    snprintf(host, sizeof host, "%s", s->addr);
    port = strrchr(host, ':');
    *port++ = '\0';
    if (getaddrinfo(strncmp(host, "127.", 4) == 0 ? host : "::", port, &hints, &all) != 0)
        return spur_fail(err, SPUR_EINVAL, "cannot listen on %s", s->addr);
    rc = listen_at(s, all, port, err);
    freeaddrinfo(all);
    if (rc < 0 && rc != SPUR_EBUSY && strncmp(host, "127.", 4) != 0) {      /* a machine without IPv6 */
        if (getaddrinfo("0.0.0.0", port, &hints, &all) != 0)
            return rc;
        rc = listen_at(s, all, port, err);
        freeaddrinfo(all);
    }
    return rc;
}

void lines_accept(struct store *s)
{
    for (int i = 0; i < 16; i++) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        struct meeting *m;
        int fd = accept4(s->listen_fd, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0)
            return;
        if (s->meetings_open >= MEETINGS_MAX || !(m = calloc(1, sizeof *m))) {
            raft_say_rarely(s, "strangers", "%u connections are not proven yet: more are closed", s->meetings_open);
            close(fd);
            continue;
        }
        m->fd = fd;
        if (getnameinfo((struct sockaddr *)&from, n, m->addr, sizeof m->addr, NULL, 0, NI_NUMERICHOST) != 0)
            snprintf(m->addr, sizeof m->addr, "somebody");
        if (meet_start(s, m) == 0)
            s->meetings_open++;
    }
}

/* ---- from a meeting to a line ---- */

static void hello_make(const struct store *s, struct hello *h, uint32_t kind)
{
    *h = (struct hello){ .protocol = RAFT_PROTOCOL, .line = kind, .feature = s->events.feature, .member = s->id, .group = s->group, .former = s->former, .is_fresh = s->is_fresh };
    snprintf(h->name, sizeof h->name, "%s", s->name);
    snprintf(h->addr, sizeof h->addr, "%s", s->addr);
}

static void hello_send(struct store *s, struct line *l)
{
    struct hello h;
    uint8_t *data;
    size_t n;

    hello_make(s, &h, l->kind);
    if ((data = hello_pack(&h, &n)))
        line_send(s, l, FRAME_HELLO, data, n);
    free(data);
}

void lines_hello(struct store *s)
{
    for (struct line *l = s->lines; l; l = l->next)
        if (!l->is_dead && (l->has_dialled || l->has_hello))
            hello_send(s, l);
}

static void dial_later(struct store *s, struct host *h, uint32_t kind, int64_t now)
{
    uint32_t wait = h->backoff_ms[kind];

    h->dial_ms[kind] = now + wait / 2 + (uint32_t)((uint64_t)random() ^ s->id) % (wait + 1);
    h->backoff_ms[kind] = wait * 2 < BACKOFF_MAX ? wait * 2 : BACKOFF_MAX;
}

static void line_add(struct store *s, struct meeting *m, struct host *h, int64_t now)
{
    struct line *l = calloc(1, sizeof *l);

    if (!l) {
        s->host->channels->close(m->channel);
        close(m->fd);
        return;
    }
    l->fd = m->fd;
    l->channel = m->channel;
    l->has_dialled = m->has_dialled;
    l->kind = m->line;
    l->host = h;
    l->deadline_ms = now + HELLO_MS;
    snprintf(l->addr, sizeof l->addr, "%s", m->addr);
    l->next = s->lines;
    s->lines = l;
    if (h) {
        h->out[l->kind] = l;
        hello_send(s, l);
    }
}

void lines_met(struct store *s)
{
    struct meeting *m, *list;
    int64_t now = boot_ms();

    pthread_mutex_lock(&s->meet_lock);
    list = s->met;
    s->met = NULL;
    pthread_mutex_unlock(&s->meet_lock);
    while ((m = list)) {
        struct host *h = m->has_dialled ? raft_group_host(s, m->name) : NULL;

        list = m->next;
        if (!m->has_dialled)
            s->meetings_open--;
        if (h)
            h->is_dialling[m->line] = false;
        if (m->channel && (!m->has_dialled || h)) {
            line_add(s, m, h, now);
        } else if (m->channel) {
            s->host->channels->close(m->channel);
            close(m->fd);
        } else if (h) {
            snprintf(h->trouble, sizeof h->trouble, "%s", m->why.text);
            dial_later(s, h, m->line, now);
            if (m->why.code != SPUR_ECLOSED && m->why.code != SPUR_ETIMEOUT)
                raft_say_rarely(s, h->name, "%s: %s", h->name, m->why.text);
        } else if (!m->has_dialled && m->why.code != SPUR_ECLOSED) {
            raft_say_rarely(s, "refused", "a connection from %s is refused: %s", m->addr, m->why.text);
        }
        free(m);
    }
}

void lines_dial(struct store *s, int64_t now)
{
    if (s->listen_fd < 0)
        return;
    for (uint32_t i = 0; i < s->host_count; i++) {
        struct host *h = &s->hosts[i];

        for (uint32_t kind = LINE_CONTROL; kind <= LINE_BULK && !h->is_self; kind++) {
            struct meeting *m;

            if (h->out[kind] || h->is_dialling[kind] || now < h->dial_ms[kind] || !(m = calloc(1, sizeof *m)))
                continue;
            if (h->backoff_ms[kind] < BACKOFF_MIN)
                h->backoff_ms[kind] = BACKOFF_MIN;
            m->fd = -1;
            m->has_dialled = true;
            m->line = kind;
            snprintf(m->name, sizeof m->name, "%s", h->name);
            snprintf(m->addr, sizeof m->addr, "%s", h->addr);
            h->is_dialling[kind] = true;
            if (meet_start(s, m) < 0) {
                h->is_dialling[kind] = false;
                dial_later(s, h, kind, now);
            }
        }
    }
}

/* ---- bytes out ---- */

static void line_lost(struct store *s, struct line *l, const char *why)
{
    if (l->is_dead)
        return;
    l->is_dead = true;
    if (l->host && l->host->out[l->kind] == l) {
        int64_t now = boot_ms();

        l->host->out[l->kind] = NULL;
        dial_later(s, l->host, l->kind, now);
        if (why)
            snprintf(l->host->trouble, sizeof l->host->trouble, "%s", why);
    }
    if (l->has_hello && s->core && !l->is_replaced)
        raft_peer_lost(s->core, (uint64_t)boot_ms(), l->hello.member);
}

bool line_send(struct store *s, struct line *l, uint16_t type, const void *data, size_t n)
{
    const void *out;
    struct spur_error err;

    if (l->is_dead)
        return false;
    if (s->host->channels->output(l->channel, &out) > OUTPUT_MAX)
        return false;
    if (s->host->channels->send(l->channel, type, data, n, &err) < 0) {
        raft_say_rarely(s, "send", "%s: %s", line_name(l), err.text);
        return false;
    }
    return true;
}

void line_write(struct store *s, struct line *l)
{
    const void *data;
    size_t n;

    while (!l->is_dead && (n = s->host->channels->output(l->channel, &data)) > 0) {
        ssize_t done = send(l->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (done > 0) {
            s->host->channels->written(l->channel, (size_t)done);
        } else if (errno != EINTR) {
            if (errno != EAGAIN)
                line_lost(s, l, strerror(errno));
            return;
        }
    }
}

void lines_send(struct store *s, const struct raft_message *m)
{
    struct host *h = raft_group_host_of(s, m->to);
    uint32_t kind = m->type == RAFT_SNAPSHOT || (m->type == RAFT_APPEND && m->count) ? LINE_BULK : LINE_CONTROL;
    struct line *l = h ? h->out[kind] : NULL;
    uint8_t *data;
    size_t n;

    if (!l || !l->has_hello || l->hello.member != m->to || l->hello.group != s->group || !s->group)
        return;
    if ((data = message_pack(m, &n)))
        line_send(s, l, FRAME_MESSAGE, data, n);
    free(data);
}

/* ---- bytes in ---- */

static void line_refuse(struct store *s, struct line *l, const char *kind, const char *text)
{
    uint8_t *data;
    size_t n;

    raft_say_rarely(s, kind, "%s (%s) is refused: %s", line_name(l), l->addr, text);
    if ((data = refusal_pack(text, &n))) {
        line_send(s, l, FRAME_REFUSAL, data, n);
        line_write(s, l);
    }
    free(data);
    l->is_replaced = true;              /* nothing of the group is lost with it */
    line_lost(s, l, text);
}

/* True: this end may speak here. */
static bool hello_check(struct store *s, struct line *l, const struct hello *h)
{
    char text[400];

    if (h->protocol + 1 < RAFT_PROTOCOL || h->protocol > RAFT_PROTOCOL + 1 || !h->protocol) {
        snprintf(text, sizeof text, "speaks version %u between controllers, this one %u: upgrade one release at a time", h->protocol, RAFT_PROTOCOL);
    } else if (h->member == s->id) {
        snprintf(text, sizeof text, "has the identity of %s itself: a data folder was copied, or SlurmctldHost has this host twice", s->name);
    } else if (l->has_dialled && strcmp(h->name, l->host->name) != 0) {
        snprintf(text, sizeof text, "at %s answers %s: the addresses in SlurmctldHost are mixed up", l->addr, h->name);
    } else if (h->group && s->group && h->group != s->group) {
        snprintf(text, sizeof text, "belongs to group %016llx, %s to %016llx: the data folder of one of them is of another cluster or time, move that one away",
                 (unsigned long long)h->group, s->name, (unsigned long long)s->group);
    } else {
        return true;
    }
    if (h->former && s->group && h->former == s->group)
        raft_group_superseded(s, h->name);
    line_refuse(s, l, "hello", text);
    return false;
}

static bool is_flood(struct store *s, const struct hello *hello)
{
    struct host *h = raft_group_host(s, hello->name);
    int64_t now = boot_ms();

    if (!h)
        return false;
    if (now > h->visits_ms + 10000) {
        h->visits_ms = now;
        h->visits = 0;
    }
    return ++h->visits > VISITS_MAX;
}

static void got_hello(struct store *s, struct line *l, const void *data, size_t n)
{
    struct hello h;
    bool is_first = !l->has_hello;

    if (hello_unpack(&h, data, n) < 0) {
        line_refuse(s, l, "garbage", "says no hello that can be read");
        return;
    }
    if (!hello_check(s, l, &h))
        return;
    if (!is_first && h.member != l->hello.member) {
        line_refuse(s, l, "garbage", "changes its identity");
        return;
    }
    if (!l->has_dialled) {
        l->kind = h.line;
        if (is_first && is_flood(s, &h)) {
            line_refuse(s, l, "flood", "connects again and again: it floods this controller");
            return;
        }
    }
    l->hello = h;
    l->has_hello = true;
    if (!l->has_dialled) {
        if (is_first) {
            /* A member that comes again has lost its old connection, or somebody plays with it: the newest counts. */
            for (struct line *o = s->lines; o; o = o->next)
                if (o != l && !o->has_dialled && o->has_hello && o->hello.member == h.member && o->kind == l->kind && !o->is_dead) {
                    o->is_replaced = true;
                    line_lost(s, o, NULL);
                }
            hello_send(s, l);
        }
    } else if (is_first) {
        l->host->backoff_ms[l->kind] = BACKOFF_MIN;
        l->host->trouble[0] = '\0';
    }
    raft_group_hello(s, l, &h);
}

static void got_message(struct store *s, struct line *l, const void *data, size_t n, int64_t now)
{
    struct decoded d;
    struct host *h;

    if (l->has_dialled || !l->has_hello || message_unpack(&d, data, n) < 0) {
        line_refuse(s, l, "garbage", "sends what is no message between controllers");
        return;
    }
    d.m.from = l->hello.member;
    if (s->group && l->hello.group == s->group && d.m.to == s->id) {
        if ((h = raft_group_host_of(s, d.m.from)))
            h->heard_ms = now;
        if (d.m.type == RAFT_APPEND && d.m.commit && !s->seen_commit) {
            s->seen_commit = d.m.commit;
            s->seen_ms = now;
        }
        raft_message(s->core, (uint64_t)now, &d.m);
        if (raft_has_ready(s->core))
            raft_act(s);
    }
    message_free(&d);
}

static void got_frame(struct store *s, struct line *l, uint16_t type, const void *data, size_t n, int64_t now)
{
    char text[400];
    struct info i;

    switch (type) {
    case FRAME_HELLO:
        got_hello(s, l, data, n);
        break;
    case FRAME_MESSAGE:
        got_message(s, l, data, n, now);
        break;
    case FRAME_INFO: {
        struct host *h = l->has_hello ? raft_group_host_of(s, l->hello.member) : NULL;

        if (h && info_unpack(&i, data, n) == 0) {
            h->info = i;
            h->feature = i.feature;
            h->heard_ms = now;
            if (i.is_outsider && !s->is_fresh)
                snprintf(s->change, sizeof s->change, "%s says that this member was taken out of the group: `spur controller add` brings it back", h->name);
        }
        break;
    }
    case FRAME_REFUSAL:
        if (refusal_unpack(text, data, n) == 0) {
            raft_say_rarely(s, "refused us", "%s refuses this controller: it %s", line_name(l), text);
            if (l->host)
                l->host->backoff_ms[l->kind] = BACKOFF_MAX;
        }
        line_lost(s, l, "refused");
        break;
    default:
        break;                  /* of a newer release */
    }
}

void line_read(struct store *s, struct line *l)
{
    struct spur_error err = { 0 };

    for (int round = 0; round < 16 && !l->is_dead; round++) {
        ssize_t n = recv(l->fd, s->input, INPUT_BYTES, MSG_DONTWAIT);
        const void *data;
        uint16_t type;
        size_t size;
        int rc;

        if (n <= 0) {
            if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
            line_lost(s, l, n == 0 ? "closed" : strerror(errno));
            return;
        }
        rc = s->host->channels->input(l->channel, s->input, (size_t)n, &err);
        while (rc >= 0 && !l->is_dead && (rc = s->host->channels->next(l->channel, &type, &data, &size, &err)) > 0)
            got_frame(s, l, type, data, size, boot_ms());
        if (rc < 0 && !l->is_dead) {
            raft_say_rarely(s, "channel", "the connection with %s (%s) is closed: %s", line_name(l), l->addr, err.text);
            line_lost(s, l, err.text);
        }
        if ((size_t)n < INPUT_BYTES)
            return;
    }
}

/* ---- the end ---- */

static void line_free(struct store *s, struct line *l)
{
    s->host->channels->close(l->channel);
    close(l->fd);
    free(l);
}

void lines_sweep(struct store *s, int64_t now)
{
    for (struct line **at = &s->lines; *at; ) {
        struct line *l = *at;

        if (!l->has_hello && !l->is_dead && now > l->deadline_ms)
            line_lost(s, l, "says no hello");
        if (!l->is_dead) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        line_free(s, l);
    }
}

void lines_close(struct store *s)
{
    while (s->lines) {
        struct line *l = s->lines;

        s->lines = l->next;
        line_write(s, l);
        line_free(s, l);
    }
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    s->listen_fd = -1;
}
