/* SPDX-License-Identifier: Apache-2.0 */
/* dial.c - connects out: looks the name up off the loop, tries its addresses in turn, and hands the socket to server.c. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/local.h"
#include "rpc/server_inside.h"

struct rpc_dial {
    uv_getaddrinfo_t lookup;
    uv_connect_t connect;
    struct addrinfo *all, *next;        /* of the look-up */
    struct sockaddr_storage numeric;
    bool   is_numeric;
    struct spur_error last;
};

void rpc_dial_free(struct rpc_conn *c)
{
    if (!c->dial)
        return;
    uv_freeaddrinfo(c->dial->all);
    free(c->dial);
    c->dial = NULL;
}

static void try_next(struct rpc_conn *c);

static void on_again(uv_handle_t *h)
{
    struct rpc_conn *c = h->data;

    if (c->is_closing) {
        rpc_conn_on_close(h);
        return;
    }
    uv_tcp_init(c->r->loop, &c->h.tcp);
    c->h.handle.data = c;
    try_next(c);
}

static void on_connect(uv_connect_t *req, int status)
{
    struct rpc_conn *c = req->data;

    if (c->is_closing)
        return;
    if (status == 0) {
        rpc_dial_free(c);
        rpc_conn_start(c);
        return;
    }
    spur_fail(&c->dial->last, SPUR_ECLOSED, "cannot connect to %s: %s", c->peer, uv_strerror(status));
    if (!c->dial->next) {
        rpc_conn_close(c, &c->dial->last);
        return;
    }
    uv_close(&c->h.handle, on_again);           /* a socket that has failed once cannot be used again */
}

static void try_next(struct rpc_conn *c)
{
    struct rpc_dial *d = c->dial;
    const struct sockaddr *to;
    struct spur_error err;
    int rc;

    if (d->is_numeric) {
        to = (const struct sockaddr *)&d->numeric;
    } else {
        to = d->next->ai_addr;
        d->next = d->next->ai_next;
    }
    d->connect.data = c;
    if ((rc = uv_tcp_connect(&d->connect, &c->h.tcp, to, on_connect)) < 0) {
        spur_fail(&err, SPUR_ECLOSED, "cannot connect to %s: %s", c->peer, uv_strerror(rc));
        rpc_conn_close(c, &err);
    }
}

static void on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct rpc_conn *c = req->data;
    struct spur_error err;

    c->work--;
    c->dial->all = c->dial->next = found;
    if (!c->is_closing) {
        if (status < 0 || !found) {
            spur_fail(&err, SPUR_ENOTFOUND, "cannot find the address of %s: %s", c->peer, status < 0 ? uv_strerror(status) : "it has none");
            rpc_conn_close(c, &err);
        } else {
            try_next(c);
        }
    }
    rpc_conn_free_if_done(c);
}

int rpc_dial(struct rpc *r, const char *host, uint16_t port, void *user, struct spur_error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct rpc_conn *c;
    struct rpc_dial *d;
    char service[8];
    int rc = 0;

    if (!r->auth)
        return spur_fail(err, SPUR_EINVAL, "cannot connect to %s without an auth plugin", host);
    if (!*host || strlen(host) > 255 || !port)
        return spur_fail(err, SPUR_EINVAL, "cannot connect to '%s' port %u: not an address", host, port);
    c = rpc_conn_create(r, false, true);
    c->user = user;
    c->dial = d = mem_alloc(sizeof *d);
    snprintf(c->peer, sizeof c->peer, "%s:%u", host, port);
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)&d->numeric) == 0 || uv_ip6_addr(host, port, (struct sockaddr_in6 *)&d->numeric) == 0) {
        d->is_numeric = true;
        try_next(c);
        return 0;
    }
    snprintf(service, sizeof service, "%u", port);
    d->lookup.data = c;
    c->work++;
    if ((rc = uv_getaddrinfo(r->loop, &d->lookup, on_lookup, host, service, &hints)) < 0) {
        struct spur_error why;

        c->work--;
        spur_fail(&why, SPUR_ENOTFOUND, "cannot look up %s: %s", host, uv_strerror(rc));
        rpc_conn_close(c, &why);
    }
    return 0;
}

/* The kernel connects a local socket at once or not at all; only a full backlog could make it wait, and then the daemon is in trouble anyway. */
int rpc_dial_local(struct rpc *r, const char *path, void *user, struct spur_error *err)
{
    struct rpc_conn *c;
    int rc, fd = local_connect(path);

    if (fd < 0)
        return spur_fail(err, SPUR_ECLOSED, "cannot connect to %s: %s", path, strerror(errno));
    c = rpc_conn_create(r, true, true);
    c->user = user;
    if ((rc = uv_pipe_open(&c->h.pipe, fd)) < 0) {
        struct spur_error why;

        close(fd);
        spur_fail(&why, SPUR_EIO, "%s: %s", path, uv_strerror(rc));
        rpc_conn_close(c, &why);
        return 0;
    }
    rpc_conn_dirty(c);              /* opened comes in the next turn, never inside this call */
    return 0;
}
