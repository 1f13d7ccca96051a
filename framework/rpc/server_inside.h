/* SPDX-License-Identifier: Apache-2.0 */
/* server_inside.h - what server.c (sockets and bytes), dial.c and identify.c share. Nobody else includes it. */
#ifndef RPC_SERVER_INSIDE_H
#define RPC_SERVER_INSIDE_H

#include "base/str.h"
#include "rpc/channel.h"
#include "rpc/log.h"
#include "rpc/server.h"

#define RPC_READ (64u << 10)
#define RPC_BUCKETS 1024

struct rpc_list { struct rpc_conn *first, *last; };

struct rpc {
    uv_loop_t *loop;
    char    *cluster, host[64];
    const struct spur_auth_ops *auth;
    void    *auth_self;
    bool     auth_may_block, is_ending, is_timing;
    struct rpc_events ev;
    void    *arg;
    struct rpc_list unknown, known;                 /* unknown: oldest first */
    struct rpc_conn *dirty;                         /* have output that no write carries yet */
    struct rpc_listener *listeners;
    struct channel_pool *pool;
    bool     is_pool_full;
    uv_timer_t sweep;                               /* runs only while something has a deadline or the pool wants keys */
    uv_idle_t  flush;                               /* runs only while `dirty` is not empty */
    unsigned handles;                               /* sweep, flush, listeners, connections: r dies with the last */
    unsigned timed;                                 /* connections with a deadline */
    unsigned unknown_count, user_count_max;
    uint16_t by_address[RPC_BUCKETS];               /* unknown ones; addresses that share a bucket share the bound */
    uint16_t by_uid[RPC_BUCKETS];                   /* known ones of users */
    struct { uint64_t since_ms; unsigned lines, hidden; } refusals;
    struct rpc_counters counters;
    char    *read_buf;
};

struct rpc_conn {
    struct rpc *r;
    struct rpc_conn *prev, *next, *dirty_next;
    union { uv_handle_t handle; uv_stream_t stream; uv_tcp_t tcp; uv_pipe_t pipe; } h;
    struct channel *channel;
    struct spur_identity identity;
    char     peer[64];
    void    *user;
    bool     is_dialled, is_local, is_opened, is_ending, is_closing, is_closed, is_reading, is_writing, is_dirty, is_high, is_counted, is_pumping;
    unsigned work;                                  /* jobs on the pool that will come back to us */
    uint16_t address, uid_bucket;                   /* buckets */
    uint64_t deadline;                              /* 0: none */
    struct str sending; size_t sending_left;
    uv_write_t write;
    struct spur_error why;
    struct rpc_dial *dial;                          /* until connected */
};

struct rpc_conn *rpc_conn_create(struct rpc *r, bool is_local, bool is_dialled);
void rpc_conn_close(struct rpc_conn *c, const struct spur_error *why);      /* at once; the first reason stays */
void rpc_conn_deadline(struct rpc_conn *c, unsigned ms);                    /* 0: none */
void rpc_conn_start(struct rpc_conn *c);                                    /* the socket is connected: greet and read */
void rpc_conn_dirty(struct rpc_conn *c);
void rpc_conn_read(struct rpc_conn *c);                                     /* starts or stops reading, as its state wants */
void rpc_conn_free_if_done(struct rpc_conn *c);
void rpc_conn_on_close(uv_handle_t *h);
void rpc_handle_gone(struct rpc *r);
void rpc_refusal_log(struct rpc *r, const char *peer, const char *text);
void rpc_identify(struct rpc_conn *c);                                      /* identify.c: goes as far in the handshake as it can */
void rpc_known(struct rpc_conn *c);                                         /* server.c: identity is there */
void rpc_unknown_gone(struct rpc_conn *c);
void rpc_dial_free(struct rpc_conn *c);

#endif
