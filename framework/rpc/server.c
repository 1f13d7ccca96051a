/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - sockets, bytes and deadlines of one process's connections. identify.c asks the auth plugin, dial.c connects out.
 *
 * Called by controller and agent through server.h. A connection is on the list `unknown` until its peer's identity is proven, then on `known`.
 * It goes in three steps: is_ending (rpc_close: write what is queued, hand over nothing more), is_closing (uv_close was called), is_closed (libuv
 * has let go); it is freed when it is closed and no job of the pool will come back to it. No callback of the holder comes after `closed`.
 *
 * Bounds against strangers: a deadline for the handshake, a number of unknown connections in all and by address (the oldest goes: a real peer is through in
 * milliseconds), 16 KiB of bytes, no thread, no auth call before the handshake's arithmetic fits. Bounds against friends: RPC_HIGH_WATER stops
 * reading, RPC_BACKLOG_MAX closes, one user holds at most a quarter of the process's descriptors.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/local.h"
#include "rpc/server_inside.h"

#define SWEEP_MS 200
#define POOL_BATCH 32               /* keys made in one turn: about 1 ms */
#define REFUSAL_LINES 10
#define REFUSAL_MS 10000
#define TCP_BACKLOG 4096

struct rpc_listener {
    struct rpc *r;
    struct rpc_listener *next;
    union { uv_handle_t handle; uv_stream_t stream; uv_tcp_t tcp; uv_pipe_t pipe; } h;
    char *path;                     /* of a local one */
};

/* ---- lists, deadlines, the log ---------------------------------------------------------------------------------------- */

static void list_add(struct rpc_list *l, struct rpc_conn *c)
{
    c->prev = l->last;
    c->next = NULL;
    if (l->last)
        l->last->next = c;
    else
        l->first = c;
    l->last = c;
}

static void list_del(struct rpc_list *l, struct rpc_conn *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        l->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    else
        l->last = c->prev;
    c->prev = c->next = NULL;
}

static void on_sweep(uv_timer_t *t);

static void timing(struct rpc *r)
{
    bool wanted = r->timed || r->refusals.hidden || (r->pool && !r->is_pool_full);

    if (r->is_ending || wanted == r->is_timing)
        return;
    r->is_timing = wanted;
    if (wanted)
        uv_timer_start(&r->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    else
        uv_timer_stop(&r->sweep);
}

void rpc_conn_deadline(struct rpc_conn *c, unsigned ms)
{
    struct rpc *r = c->r;

    r->timed += (ms != 0) - (c->deadline != 0);
    c->deadline = ms ? uv_now(r->loop) + ms : 0;
    timing(r);
}

static void refusals_told(struct rpc *r)
{
    if (r->refusals.hidden)
        log_line(SPUR_LOG_WARN, "rpc: %u more connections were refused in the last %u seconds", r->refusals.hidden, REFUSAL_MS / 1000);
    r->refusals.hidden = r->refusals.lines = 0;
    r->refusals.since_ms = uv_now(r->loop);
}

void rpc_refusal_log(struct rpc *r, const char *peer, const char *text)
{
    r->counters.refused++;
    if (uv_now(r->loop) - r->refusals.since_ms >= REFUSAL_MS)
        refusals_told(r);
    if (r->refusals.lines++ < REFUSAL_LINES)
        log_line(SPUR_LOG_WARN, "rpc: %s refused: %s", peer, text);
    else
        r->refusals.hidden++;
    timing(r);
}

static void on_sweep(uv_timer_t *t)
{
    struct rpc *r = t->data;
    uint64_t now = uv_now(r->loop);
    struct rpc_list *lists[] = { &r->unknown, &r->known };
    struct spur_error err;

    for (unsigned i = 0; r->timed && i < 2; i++)
        for (struct rpc_conn *c = lists[i]->first, *next; c; c = next) {
            next = c->next;
            if (!c->deadline || c->deadline > now)
                continue;
            if (c->is_ending)
                spur_fail(&err, SPUR_ETIMEOUT, "the peer did not read what was left within %u ms", RPC_CLOSE_MS);
            else
                spur_fail(&err, SPUR_ETIMEOUT, "no proven identity within %u ms", RPC_HANDSHAKE_MS);
            rpc_conn_close(c, &err);
        }
    if (r->pool && !r->is_pool_full)
        r->is_pool_full = channel_pool_fill(r->pool, POOL_BATCH);
    if (now - r->refusals.since_ms >= REFUSAL_MS)
        refusals_told(r);
    timing(r);
}

/* ---- the life of a connection ------------------------------------------------------------------------------------------- */

struct rpc_conn *rpc_conn_create(struct rpc *r, bool is_local, bool is_dialled)
{
    struct rpc_conn *c = mem_alloc(sizeof *c);

    c->r = r;
    c->is_local = is_local;
    c->is_dialled = is_dialled;
    str_init(&c->sending);
    c->identity.size = sizeof c->identity;
    c->identity.uid = c->identity.gid = UINT32_MAX;
    strcpy(c->peer, is_local ? "local" : "?");
    if (is_local)
        uv_pipe_init(r->loop, &c->h.pipe, 0);
    else
        uv_tcp_init(r->loop, &c->h.tcp);
    c->h.handle.data = c;
    c->write.data = c;
    r->handles++;
    r->counters.open++;
    list_add(&r->unknown, c);
    rpc_conn_deadline(c, RPC_HANDSHAKE_MS);
    return c;
}

void rpc_handle_gone(struct rpc *r)
{
    if (--r->handles)
        return;
    channel_pool_destroy(r->pool);
    free(r->cluster);
    free(r->read_buf);
    free(r);
}

void rpc_unknown_gone(struct rpc_conn *c)
{
    if (!c->is_counted)
        return;
    c->is_counted = false;
    c->r->by_address[c->address]--;
    c->r->unknown_count--;
}

static void dirty_forget(struct rpc_conn *c)
{
    for (struct rpc_conn **at = &c->r->dirty; c->is_dirty && *at; at = &(*at)->dirty_next)
        if (*at == c) {
            *at = c->dirty_next;
            break;
        }
    c->is_dirty = false;
}

void rpc_conn_free_if_done(struct rpc_conn *c)
{
    struct rpc *r = c->r;

    if (!c->is_closed || c->work || c->is_pumping)
        return;
    if (c->is_opened || c->is_dialled) {
        r->counters.closed++;
        if (!r->is_ending && r->ev.closed)
            r->ev.closed(r->arg, c, &c->why);
    }
    list_del(c->is_opened ? &r->known : &r->unknown, c);
    if (c->is_opened && c->identity.role == SPUR_ROLE_USER)
        r->by_uid[c->uid_bucket]--;
    r->counters.open--;
    rpc_dial_free(c);
    channel_destroy(c->channel);
    str_fini(&c->sending);
    free(c);
    rpc_handle_gone(r);
}

void rpc_conn_on_close(uv_handle_t *h)
{
    struct rpc_conn *c = h->data;

    c->is_closed = true;
    rpc_conn_free_if_done(c);
}

void rpc_conn_close(struct rpc_conn *c, const struct spur_error *why)
{
    static const struct spur_error gone = { .code = SPUR_ECLOSED, .text = "closed" };
    struct rpc *r = c->r;

    if (c->is_closing)
        return;
    c->is_closing = true;
    if (!why)
        why = &gone;
    if (!c->why.code)
        c->why = *why;
    /* The log is for what a stranger or a broken peer did; ends of known ones are the holder's. */
    if (!r->is_ending && ((!c->is_opened && !c->is_dialled && why->code != SPUR_ECLOSED) ||
                          (c->is_opened && (why->code == SPUR_ECORRUPT || why->code == SPUR_EAUTH || why->code == SPUR_ELIMIT))))
        rpc_refusal_log(r, c->peer, c->why.text);
    rpc_conn_deadline(c, 0);
    rpc_unknown_gone(c);
    dirty_forget(c);
    if (!uv_is_closing(&c->h.handle))
        uv_close(&c->h.handle, rpc_conn_on_close);
}

void rpc_close(struct rpc_conn *c, const char *why)
{
    if (c->is_closing || c->is_ending)
        return;
    c->is_ending = true;
    spur_fail(&c->why, SPUR_ECLOSED, "%s", why ? why : "closed here");
    if (!c->is_opened || !rpc_backlog(c)) {
        rpc_conn_close(c, &c->why);
        return;
    }
    rpc_conn_read(c);
    rpc_conn_deadline(c, RPC_CLOSE_MS);
}

/* The peer is known from here on. */
void rpc_known(struct rpc_conn *c)
{
    struct rpc *r = c->r;
    struct spur_error err;

    if (c->identity.role == SPUR_ROLE_USER) {
        c->uid_bucket = (uint16_t)(c->identity.uid % RPC_BUCKETS);
        if (r->by_uid[c->uid_bucket] >= r->user_count_max) {
            spur_fail(&err, SPUR_ELIMIT, "user %u holds %u connections already", c->identity.uid, r->by_uid[c->uid_bucket]);
            rpc_conn_close(c, &err);
            return;
        }
        r->by_uid[c->uid_bucket]++;
    }
    rpc_unknown_gone(c);
    rpc_conn_deadline(c, 0);
    list_del(&r->unknown, c);
    list_add(&r->known, c);
    c->is_opened = true;
    if (r->ev.opened)
        r->ev.opened(r->arg, c);
}

/* ---- bytes out ---------------------------------------------------------------------------------------------------------- */

size_t rpc_backlog(const struct rpc_conn *c)
{
    return c->sending_left + (c->channel ? channel_output(c->channel)->len : 0);
}

static void pump(struct rpc_conn *c);
static void conn_flush(struct rpc_conn *c);

static void on_write(uv_write_t *req, int status)
{
    struct rpc_conn *c = req->data;
    struct spur_error err;

    c->is_writing = false;
    c->sending_left = 0;
    if (c->sending.cap > 16384)
        str_fini(&c->sending);
    else
        str_clear(&c->sending);
    if (c->is_closing)
        return;
    if (status < 0) {
        spur_fail(&err, SPUR_ECLOSED, "connection lost: %s", uv_strerror(status));
        rpc_conn_close(c, &err);
        return;
    }
    conn_flush(c);
}

static void conn_flush(struct rpc_conn *c)
{
    struct str *out;
    struct spur_error err;
    uv_buf_t buf;
    int n;

    if (c->is_closing || c->is_writing)
        return;
    if (!c->channel) {              /* dialled on this host: connected at once, told in this turn */
        rpc_conn_start(c);
        return;
    }
    out = channel_output(c->channel);
    if (out->len) {
        buf = uv_buf_init(out->text, (unsigned)out->len);
        n = uv_try_write(&c->h.stream, &buf, 1);
        if (n < 0 && n != UV_EAGAIN) {
            spur_fail(&err, SPUR_ECLOSED, "connection lost: %s", uv_strerror(n));
            rpc_conn_close(c, &err);
            return;
        }
        if (n < 0)
            n = 0;
        c->r->counters.bytes_out += out->len;
        if ((size_t)n < out->len) {             /* the rest changes owner: no byte is moved */
            struct str empty = c->sending;

            c->sending = *out;
            *out = empty;
            c->sending_left = c->sending.len - (size_t)n;
            c->is_writing = true;
            buf = uv_buf_init(c->sending.text + n, (unsigned)c->sending_left);
            n = uv_write(&c->write, &c->h.stream, &buf, 1, on_write);
            if (n < 0) {
                c->is_writing = false;
                spur_fail(&err, SPUR_ECLOSED, "connection lost: %s", uv_strerror(n));
                rpc_conn_close(c, &err);
                return;
            }
        } else if (out->cap > 16384) {
            str_fini(out);
        } else {
            str_clear(out);
        }
    }
    if (c->is_high && rpc_backlog(c) < RPC_HIGH_WATER / 2) {
        c->is_high = false;
        if (!c->is_ending && c->r->ev.drained)
            c->r->ev.drained(c->r->arg, c);
        pump(c);
    }
    if (c->is_ending && !c->is_closing && !rpc_backlog(c))
        rpc_conn_close(c, &c->why);
}

static void on_flush(uv_idle_t *idle)
{
    struct rpc *r = idle->data;
    struct rpc_conn *c;

    uv_idle_stop(idle);             /* first: a callback below may make the next one dirty */
    while ((c = r->dirty)) {
        r->dirty = c->dirty_next;
        c->is_dirty = false;
        conn_flush(c);
    }
}

void rpc_conn_dirty(struct rpc_conn *c)
{
    struct rpc *r = c->r;

    if (c->is_dirty || c->is_closing || c->is_writing)
        return;
    c->is_dirty = true;
    c->dirty_next = r->dirty;
    r->dirty = c;
    uv_idle_start(&r->flush, on_flush);
}

int rpc_send(struct rpc_conn *c, uint16_t type, uint64_t seq, const ProtobufCMessage *body)
{
    struct spur_error err;
    int rc;

    if (c->is_closing || c->is_ending || !c->is_opened)
        return SPUR_ECLOSED;
    if (rpc_backlog(c) > RPC_BACKLOG_MAX) {
        spur_fail(&err, SPUR_ELIMIT, "the peer does not read: %zu bytes wait for it", rpc_backlog(c));
        rpc_conn_close(c, &err);
        return SPUR_ELIMIT;
    }
    if ((rc = channel_send(c->channel, type, seq, body, &err)) < 0) {
        log_line(SPUR_LOG_ERROR, "rpc: message %u to %s: %s", type, c->peer, err.text);
        return rc;
    }
    if (rpc_backlog(c) >= RPC_HIGH_WATER)
        c->is_high = true;
    rpc_conn_dirty(c);
    return 0;
}

static int refuse(struct rpc_conn *c, uint64_t seq, int code, const char *text, int slurm_errno, const char *leader)
{
    Wire__Refusal m = WIRE__REFUSAL__INIT;

    m.code = code;
    m.text = (char *)text;
    m.has_slurm_errno = slurm_errno != 0;
    m.slurm_errno = slurm_errno;
    m.leader = (char *)leader;
    return rpc_send(c, WIRE__MESSAGE_TYPE__REFUSED, seq, &m.base);
}

int rpc_refuse(struct rpc_conn *c, uint64_t seq, const struct spur_error *err, int slurm_errno)
{
    return refuse(c, seq, err->code, err->text, slurm_errno, NULL);
}

int rpc_refuse_leader(struct rpc_conn *c, uint64_t seq, const char *leader)
{
    return refuse(c, seq, SPUR_ENOTLEADER, leader ? "another controller leads" : "no controller leads now", 0, leader);
}

/* ---- bytes in ----------------------------------------------------------------------------------------------------------- */

/* Hands over what is whole, as long as the peer reads its answers. */
static void pump(struct rpc_conn *c)
{
    struct rpc *r = c->r;
    struct spur_error err;
    struct frame f;
    const uint8_t *body;
    int rc = 0;

    if (c->is_pumping)
        return;
    c->is_pumping = true;
    while (c->is_opened && !c->is_closing && !c->is_ending && !c->is_high && !r->is_ending) {
        if ((rc = channel_next(c->channel, &f, &body, &err)) <= 0)
            break;
        if (r->ev.message)
            r->ev.message(r->arg, c, &f, body);
    }
    c->is_pumping = false;
    if (rc < 0)
        rpc_conn_close(c, &err);
    rpc_conn_read(c);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct rpc_conn *c = h->data;

    (void)suggested;
    *buf = uv_buf_init(c->r->read_buf, RPC_READ);       /* one for all: what is read is copied before the next read */
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct rpc_conn *c = s->data;
    struct spur_error err;

    if (n == 0 || c->is_closing)
        return;
    if (n < 0) {
        if (n == UV_EOF && c->is_dialled && !c->is_opened)
            spur_fail(&err, SPUR_ECLOSED, "%s closed the connection during the handshake: its log says why", c->peer);
        else if (n == UV_EOF)
            spur_fail(&err, SPUR_ECLOSED, "the peer closed the connection");
        else
            spur_fail(&err, SPUR_ECLOSED, "connection lost: %s", uv_strerror((int)n));
        rpc_conn_close(c, &err);
        return;
    }
    c->r->counters.bytes_in += (uint64_t)n;
    if (channel_input(c->channel, buf->base, (size_t)n, &err) < 0) {
        if (channel_output(c->channel)->len)
            conn_flush(c);                              /* a server's hello, so that the client can say what differs */
        rpc_conn_close(c, &err);
        return;
    }
    if (!c->is_opened)
        rpc_identify(c);
    if (!c->is_closing && channel_output(c->channel)->len)
        rpc_conn_dirty(c);
    if (c->is_opened)
        pump(c);
}

void rpc_conn_read(struct rpc_conn *c)
{
    enum channel_want want = c->channel ? channel_want(c->channel) : CHANNEL_BROKEN;
    bool wanted = !c->is_closing && !c->is_ending && !c->is_high && (want == CHANNEL_BYTES || want == CHANNEL_READY);

    if (wanted == c->is_reading || c->is_closing)
        return;
    c->is_reading = wanted;
    if (wanted)
        uv_read_start(&c->h.stream, on_alloc, on_read);
    else
        uv_read_stop(&c->h.stream);
}

/* The socket is connected, or a job of the pool has brought the handshake on. */
void rpc_conn_start(struct rpc_conn *c)
{
    if (c->is_closing)
        return;
    if (!c->channel) {
        if (!c->is_local) {
            uv_tcp_nodelay(&c->h.tcp, 1);
            uv_tcp_keepalive(&c->h.tcp, 1, 30);
        }
        if (c->is_local)
            c->channel = channel_local();
        else if (c->is_dialled)
            c->channel = channel_client(c->r->cluster);
        else
            c->channel = channel_server(c->r->cluster, c->r->pool);
    }
    if (channel_output(c->channel)->len)
        rpc_conn_dirty(c);
    rpc_identify(c);
    if (c->is_opened)
        pump(c);
    rpc_conn_read(c);
}

/* ---- accepting ---------------------------------------------------------------------------------------------------------- */

/* Room for one more stranger of this address: the oldest one goes. */
static void make_room(struct rpc *r, uint16_t address)
{
    struct spur_error err;
    bool of_address = r->by_address[address] >= RPC_UNKNOWN_ADDRESS_MAX;

    if (!of_address && r->unknown_count < RPC_UNKNOWN_MAX)
        return;
    for (struct rpc_conn *c = r->unknown.first; c; c = c->next)
        if (c->is_counted && (!of_address || c->address == address)) {
            spur_fail(&err, SPUR_ELIMIT, "too many unknown connections %s (%u): the oldest is closed", of_address ? "from this address" : "in all",
                      of_address ? RPC_UNKNOWN_ADDRESS_MAX : RPC_UNKNOWN_MAX);
            rpc_conn_close(c, &err);
            return;
        }
}

static void name_peer(struct rpc_conn *c)
{
    struct sockaddr_storage from;
    int len = sizeof from;
    char text[48];
    const struct sockaddr_in *v4 = (const void *)&from;
    const struct sockaddr_in6 *v6 = (const void *)&from;
    uint32_t sum = 0;

    if (uv_tcp_getpeername(&c->h.tcp, (struct sockaddr *)&from, &len) < 0)
        return;
    if (from.ss_family == AF_INET) {
        uv_ip4_name(v4, text, sizeof text);
        snprintf(c->peer, sizeof c->peer, "%s:%u", text, ntohs(v4->sin_port));
        sum = ntohl(v4->sin_addr.s_addr);
    } else if (from.ss_family == AF_INET6) {
        uv_ip6_name(v6, text, sizeof text);
        snprintf(c->peer, sizeof c->peer, "[%s]:%u", text, ntohs(v6->sin6_port));
        for (unsigned i = 0; i < 8; i++)        /* of one /64 all are one */
            sum = sum * 31 + v6->sin6_addr.s6_addr[i];
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
            for (unsigned i = 12; i < 16; i++)
                sum = sum * 31 + v6->sin6_addr.s6_addr[i];
    }
    c->address = (uint16_t)((sum ^ sum >> 10 ^ sum >> 20) % RPC_BUCKETS);
}

static void on_connection(uv_stream_t *s, int status)
{
    struct rpc_listener *l = s->data;
    struct rpc *r = l->r;
    struct rpc_conn *c;
    struct spur_error err;

    if (status < 0 || r->is_ending)
        return;
    c = rpc_conn_create(r, l->path != NULL, false);
    if ((status = uv_accept(s, &c->h.stream)) < 0) {
        spur_fail(&err, SPUR_ECLOSED, "accept: %s", uv_strerror(status));
        rpc_conn_close(c, &err);
        return;
    }
    r->counters.accepted++;
    if (!c->is_local) {
        name_peer(c);
        make_room(r, c->address);
        c->is_counted = true;
        r->by_address[c->address]++;
        r->unknown_count++;
        if (r->is_pool_full) {
            r->is_pool_full = false;
            timing(r);
        }
    }
    rpc_conn_start(c);
}

static struct rpc_listener *listener_create(struct rpc *r, const char *path)
{
    struct rpc_listener *l = mem_alloc(sizeof *l);

    l->r = r;
    l->path = mem_copy(path);
    if (path)
        uv_pipe_init(r->loop, &l->h.pipe, 0);
    else
        uv_tcp_init(r->loop, &l->h.tcp);
    l->h.handle.data = l;
    l->next = r->listeners;
    r->listeners = l;
    r->handles++;
    return l;
}

static void on_listener_close(uv_handle_t *h)
{
    struct rpc_listener *l = h->data;
    struct rpc *r = l->r;

    free(l->path);
    free(l);
    rpc_handle_gone(r);
}

static void listener_close(struct rpc_listener *l)
{
    struct rpc_listener **at = &l->r->listeners;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    uv_close(&l->h.handle, on_listener_close);
}

int rpc_listen_tcp(struct rpc *r, const char *addr, uint16_t port, uint16_t *bound, struct spur_error *err)
{
    struct sockaddr_storage at;
    struct rpc_listener *l;
    int rc, len = sizeof at;

    if (!r->auth)
        return spur_fail(err, SPUR_EINVAL, "cannot listen on TCP without an auth plugin");
    if (addr && uv_ip4_addr(addr, port, (struct sockaddr_in *)&at) < 0 && uv_ip6_addr(addr, port, (struct sockaddr_in6 *)&at) < 0)
        return spur_fail(err, SPUR_EINVAL, "cannot listen on %s: not a numeric address", addr);
    if (!r->pool) {
        r->pool = channel_pool_create();
        channel_pool_fill(r->pool, POOL_BATCH);
        timing(r);
    }
    l = listener_create(r, NULL);
    if (!addr && (uv_ip6_addr("::", port, (struct sockaddr_in6 *)&at), rc = uv_tcp_bind(&l->h.tcp, (struct sockaddr *)&at, 0)) < 0) {
        listener_close(l);                      /* a kernel without IPv6 */
        l = listener_create(r, NULL);
        uv_ip4_addr("0.0.0.0", port, (struct sockaddr_in *)&at);
        rc = uv_tcp_bind(&l->h.tcp, (struct sockaddr *)&at, 0);
    } else if (addr) {
        rc = uv_tcp_bind(&l->h.tcp, (struct sockaddr *)&at, 0);
    }
    if (rc == 0)
        rc = uv_listen(&l->h.stream, TCP_BACKLOG, on_connection);
    if (rc == 0)
        rc = uv_tcp_getsockname(&l->h.tcp, (struct sockaddr *)&at, &len);
    if (rc < 0) {
        listener_close(l);
        return spur_fail(err, rc == UV_EADDRINUSE ? SPUR_EEXISTS : SPUR_EIO, "cannot listen on %s port %u: %s", addr ? addr : "any address", port, uv_strerror(rc));
    }
    if (bound)
        *bound = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port : ((struct sockaddr_in6 *)&at)->sin6_port);
    return 0;
}

int rpc_listen_local(struct rpc *r, const char *path, unsigned mode, struct spur_error *err)
{
    struct rpc_listener *l;
    int rc, fd = local_listen(path, mode, TCP_BACKLOG, err);

    if (fd < 0)
        return err ? err->code : SPUR_EIO;
    l = listener_create(r, path);
    if ((rc = uv_pipe_open(&l->h.pipe, fd)) < 0)
        close(fd);
    else
        rc = uv_listen(&l->h.stream, TCP_BACKLOG, on_connection);
    if (rc < 0) {
        unlink(path);
        listener_close(l);
        return spur_fail(err, SPUR_EIO, "%s: cannot listen: %s", path, uv_strerror(rc));
    }
    return 0;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------------- */

struct rpc *rpc_create(uv_loop_t *loop, const char *cluster, const struct spur_auth_ops *auth, void *auth_self, bool auth_may_block, const struct rpc_events *ev, void *arg)
{
    struct rpc *r = mem_alloc(sizeof *r);
    struct rlimit files = { 1024, 1024 };
    char *dot;

    signal(SIGPIPE, SIG_IGN);
    r->loop = loop;
    r->cluster = mem_copy(cluster);
    r->auth = auth;
    r->auth_self = auth_self;
    r->auth_may_block = auth_may_block;
    if (ev)
        r->ev = *ev;
    r->arg = arg;
    r->read_buf = mem_grow(NULL, RPC_READ, 1);
    r->refusals.since_ms = uv_now(loop);
    getrlimit(RLIMIT_NOFILE, &files);
    r->user_count_max = files.rlim_cur / 4 > 16384 ? 16384 : (unsigned)(files.rlim_cur / 4);
    if (gethostname(r->host, sizeof r->host - 1) == 0 && (dot = strchr(r->host, '.')))
        *dot = '\0';
    uv_timer_init(loop, &r->sweep);
    uv_idle_init(loop, &r->flush);
    r->sweep.data = r->flush.data = r;
    uv_unref((uv_handle_t *)&r->sweep);
    r->handles = 2;
    return r;
}

void rpc_set_host(struct rpc *r, const char *name)
{
    snprintf(r->host, sizeof r->host, "%s", name);
}

static void on_handle_close(uv_handle_t *h)
{
    rpc_handle_gone(h->data);
}

void rpc_destroy(struct rpc *r)
{
    if (!r || r->is_ending)
        return;
    if (r->refusals.hidden)
        refusals_told(r);
    r->is_ending = true;
    while (r->listeners) {
        if (r->listeners->path)
            unlink(r->listeners->path);
        listener_close(r->listeners);
    }
    for (struct rpc_conn *c = r->unknown.first, *next; c; c = next) {
        next = c->next;
        rpc_conn_close(c, NULL);
    }
    for (struct rpc_conn *c = r->known.first, *next; c; c = next) {
        next = c->next;
        rpc_conn_close(c, NULL);
    }
    uv_close((uv_handle_t *)&r->sweep, on_handle_close);
    uv_close((uv_handle_t *)&r->flush, on_handle_close);
}

const struct spur_identity *rpc_identity(const struct rpc_conn *c) { return &c->identity; }
const char *rpc_peer(const struct rpc_conn *c) { return c->peer; }
void *rpc_user(const struct rpc_conn *c) { return c->user; }
void rpc_set_user(struct rpc_conn *c, void *user) { c->user = user; }

void rpc_counters(const struct rpc *r, struct rpc_counters *out)
{
    *out = r->counters;
}
