/* SPDX-License-Identifier: Apache-2.0 */
/* watchers.c - the connections of sattach and sstat; see watchers.h. Memory: what waits for one is bounded by watchers_room and the size of one read. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/watchers.h"
#include "base/clock.h"
#include "base/str.h"
#include "client/callback.h"
#include "wire/credential.h"

#define OUT_LIMIT (256u << 10)
#define STALL_MS  10000
#define READ_MAX  (64u << 10)

struct watcher {
    struct link link;
    char    *hosts, *next;
    uint32_t port;
    uint8_t  key[32];
    bool     is_figures, connected, greeted, is_shut;
    int64_t  deadline_ms;           /* until it is connected; afterwards while output waits for it */
    size_t   backlog;               /* as it was last */
    uint64_t received, credit, sequence;
};

struct watchers {
    char *cluster;
    struct watched of;
    struct watcher *list[WATCHERS_MAX]; size_t count;
};

struct watchers *watchers_create(const char *cluster, const struct watched *of)
{
    struct watchers *w = mem_alloc(sizeof *w);

    w->cluster = mem_copy(cluster ? cluster : "");
    w->of = *of;
    return w;
}

static void watcher_free(struct watcher *one)
{
    link_close(&one->link);
    sodium_memzero(one->key, sizeof one->key);
    free(one->hosts);
    free(one);
}

void watchers_destroy(struct watchers *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        watcher_free(w->list[i]);
    free(w->cluster);
    free(w);
}

static void connect_next(struct watchers *w, struct watcher *one)
{
    struct spur_error err = { 0 };

    one->connected = false;
    one->deadline_ms = clock_boot_ms() + CALLBACK_MS;
    if (callback_next(&one->link, &one->next, one->port, w->cluster, one->key, &err) < 0)
        link_close(&one->link);
}

void watchers_dial(struct watchers *w, const Wire__Credential *grant)
{
    struct watcher *one;

    if (w->count == WATCHERS_MAX || grant->io_key.len != sizeof one->key || !grant->io_host)
        return;
    one = w->list[w->count++] = mem_alloc(sizeof *one);
    one->link.fd = -1;
    one->hosts = one->next = mem_copy(grant->io_host);
    one->port = grant->io_port;
    memcpy(one->key, grant->io_key.data, sizeof one->key);
    one->is_figures = !strcmp(grant->purpose, CREDENTIAL_PURPOSE_SSTAT);
    connect_next(w, one);
}

void watcher_send(struct watcher *one, uint16_t type, const ProtobufCMessage *body)
{
    struct spur_error err = { 0 };

    if (one->link.fd < 0)
        return;
    if (link_send(&one->link, type, ++one->sequence, body, &err) < 0 || link_flush(&one->link, &err) < 0) {
        link_close(&one->link);
        return;
    }
    if (link_backlog(&one->link) >= OUT_LIMIT && one->backlog < OUT_LIMIT)
        one->deadline_ms = clock_boot_ms() + STALL_MS;
    one->backlog = link_backlog(&one->link);
}

void watchers_send(struct watchers *w, uint16_t type, const ProtobufCMessage *body)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->list[i]->greeted && !w->list[i]->is_figures)
            watcher_send(w->list[i], type, body);
}

void watcher_input(struct watcher *one, size_t n) { one->received += n; }

static void say_credit(struct watcher *one)
{
    Wire__IoData d = WIRE__IO_DATA__INIT;

    if (!one->greeted || one->is_figures || one->received + WATCHER_WINDOW == one->credit)
        return;
    one->credit = one->received + WATCHER_WINDOW;
    d.task = UINT32_MAX;
    d.has_credit = 1;
    d.credit = one->credit;
    watcher_send(one, WIRE__MESSAGE_TYPE__IO_STDIN, &d.base);
}

void watchers_credit(struct watchers *w)
{
    for (size_t i = 0; i < w->count; i++)
        say_credit(w->list[i]);
}

bool watchers_room(const struct watchers *w)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->list[i]->greeted && link_backlog(&w->list[i]->link) >= OUT_LIMIT)
            return false;
    return true;
}

/* The last word is followed by the end of what we send, and then the other side has to close: a close with input that nobody has read would reset the
 * connection, and what has not been read at the other end would go with it. */
bool watchers_done(struct watchers *w)
{
    for (size_t i = 0; i < w->count; i++) {
        struct watcher *one = w->list[i];

        if (one->link.fd < 0 || one->is_shut || !one->greeted || link_backlog(&one->link))
            continue;
        one->is_shut = true;
        shutdown(one->link.fd, SHUT_WR);
        one->deadline_ms = clock_boot_ms() + STALL_MS;
    }
    return w->count == 0;
}

size_t watchers_poll(struct watchers *w, struct pollfd *fds)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct watcher *one = w->list[i];

        fds[i] = (struct pollfd){ .fd = one->link.fd, .events = (short)(!one->connected ? POLLOUT : POLLIN | (link_backlog(&one->link) ? POLLOUT : 0)) };
    }
    return w->count;
}

/* False: it is over with this connection. */
static bool one_handle(struct watchers *w, struct watcher *one, short got)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = 0, next = 0;

    if (!one->connected) {
        if (callback_connected(&one->link, &err) < 0)
            return false;
        one->connected = true;
    }
    if (got & (POLLIN | POLLHUP | POLLERR))
        rc = link_read(&one->link, READ_MAX, &err);
    while (rc >= 0 && one->link.fd >= 0 && (next = link_next(&one->link, &f, &body, &err)) > 0)
        if (one->greeted && !one->is_figures)
            w->of.message(w->of.arg, one, &f, body);
    if (rc < 0 || next < 0 || one->link.fd < 0)
        return false;
    if (!one->greeted && channel_want(one->link.channel) == CHANNEL_READY) {
        one->greeted = true;
        one->deadline_ms = INT64_MAX;
        (one->is_figures ? w->of.figures : w->of.greet)(w->of.arg, one);
    }
    return one->link.fd >= 0 && link_flush(&one->link, &err) >= 0;
}

void watchers_handle(struct watchers *w, const struct pollfd *fds, size_t n, int64_t now_ms)
{
    size_t kept = 0;

    for (size_t i = 0; i < w->count; i++) {
        struct watcher *one = w->list[i];
        bool was_greeted = one->greeted;

        if (i < n && fds[i].fd >= 0 && fds[i].fd == one->link.fd && fds[i].revents && !one_handle(w, one, fds[i].revents))
            link_close(&one->link);
        if (one->link.fd >= 0 && one->greeted && !one->is_shut) {
            size_t backlog = link_backlog(&one->link);

            if (backlog < OUT_LIMIT)
                one->deadline_ms = INT64_MAX;
            else if (backlog < one->backlog)
                one->deadline_ms = now_ms + STALL_MS;
            one->backlog = backlog;
        }
        if (one->link.fd >= 0 && now_ms >= one->deadline_ms)
            link_close(&one->link);
        if (one->link.fd < 0 && !one->greeted && !was_greeted)
            connect_next(w, one);
    }
    for (size_t i = 0; i < w->count; i++)
        if (w->list[i]->link.fd >= 0)
            w->list[kept++] = w->list[i];
        else
            watcher_free(w->list[i]);
    w->count = kept;
}

int64_t watchers_deadline(const struct watchers *w)
{
    int64_t at = INT64_MAX;

    for (size_t i = 0; i < w->count; i++)
        at = w->list[i]->deadline_ms < at ? w->list[i]->deadline_ms : at;
    return at;
}
