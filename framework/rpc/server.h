/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - accepts and dials channels on a libuv loop; hands over whole messages from peers whose identity is proven.
 *
 * One struct rpc a process role (controller, agent). All callbacks run on the loop. Connections are destroyed by rpc after the
 * closed callback; a holder forgets them there. Output is bounded: a peer that does not read is closed at RPC_BACKLOG_MAX bytes, and
 * above RPC_HIGH_WATER nothing more is read from it. What is sent in one turn of the loop goes out in one write.
 *
 * rpc logs (rpc/log.h, at most ten lines in ten seconds, then a count) each connection it refuses and each stream that breaks the protocol; the
 * holder logs the rest of `closed` as it likes. SIGPIPE is ignored from rpc_create on: a process that executes others puts it back for them.
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include <uv.h>
#include <spur/auth.h>

#include "wire/frame.h"

#define RPC_BACKLOG_MAX (64u << 20)
#define RPC_HIGH_WATER  (1u << 20)
#define RPC_HANDSHAKE_MS 5000           /* from connect or accept to a proven identity */
#define RPC_CLOSE_MS 5000               /* rpc_close: for what is still to be written */
#define RPC_UNKNOWN_MAX 4096            /* connections whose peer is not known yet: in all, */
#define RPC_UNKNOWN_ADDRESS_MAX 1024    /* and of one address; the oldest is closed for a new one */

struct rpc;
struct rpc_conn;
struct rpc_events {
    void (*message)(void *arg, struct rpc_conn *c, const struct frame *f, const uint8_t *body);     /* body borrowed */
    void (*opened)(void *arg, struct rpc_conn *c);                                   /* identity is known; also for dialled ones */
    /* The last word about c. Comes for each connection that was opened or dialled; one that was accepted and never known is rpc's own affair. */
    void (*closed)(void *arg, struct rpc_conn *c, const struct spur_error *why);
    void (*drained)(void *arg, struct rpc_conn *c);                                  /* output has gone from above RPC_HIGH_WATER to below half of it */
};
/* auth NULL: local sockets only. The events may be partly NULL. */
struct rpc *rpc_create(uv_loop_t *loop, const char *cluster, const struct spur_auth_ops *auth, void *auth_self, bool auth_may_block, const struct rpc_events *ev, void *arg);
/* Closes all, no callback comes any more. The loop must run until it has nothing left; until then a call of the auth plugin may still be under way. */
void rpc_destroy(struct rpc *r);
void rpc_set_host(struct rpc *r, const char *name);         /* `host` in the identity of local peers; else the machine's name */
int  rpc_listen_tcp(struct rpc *r, const char *addr, uint16_t port, uint16_t *bound, struct spur_error *err);     /* addr NULL: any; port 0: free one */
int  rpc_listen_local(struct rpc *r, const char *path, unsigned mode, struct spur_error *err);     /* replaces a dead socket, refuses a live one */
int  rpc_dial(struct rpc *r, const char *host, uint16_t port, void *user, struct spur_error *err);  /* opened or closed follows */
int  rpc_dial_local(struct rpc *r, const char *path, void *user, struct spur_error *err);
const struct spur_identity *rpc_identity(const struct rpc_conn *c);
const char *rpc_peer(const struct rpc_conn *c);             /* "10.0.0.1:4242" or "local pid 12", for logs */
void *rpc_user(const struct rpc_conn *c);
void  rpc_set_user(struct rpc_conn *c, void *user);
/* SPUR_ECLOSED: the connection is going down. SPUR_ELIMIT: message over FRAME_MAX (c stays), or backlog over RPC_BACKLOG_MAX (c closes). */
int   rpc_send(struct rpc_conn *c, uint16_t type, uint64_t seq, const ProtobufCMessage *body);
int   rpc_refuse(struct rpc_conn *c, uint64_t seq, const struct spur_error *err, int slurm_errno);
/* REFUSED with SPUR_ENOTLEADER and the leader's name (NULL: none is known now), which clients follow. */
int   rpc_refuse_leader(struct rpc_conn *c, uint64_t seq, const char *leader);
size_t rpc_backlog(const struct rpc_conn *c);               /* bytes not yet written */
void  rpc_close(struct rpc_conn *c, const char *why);       /* after what is queued has been written, or RPC_CLOSE_MS */
/* Answers a VOUCH that came on a local socket: this host's daemon proves for the user the kernel says is there. Everything else is refused. */
void  rpc_vouch_answer(struct rpc_conn *c, const struct frame *f, const uint8_t *body);
/* The auth plugin believes others than before: whoever is connected over TCP and does not stand any more is closed. Returns how many. */
unsigned rpc_recheck(struct rpc *r);
/* Counters for STATS: accepted, refused handshakes, bytes. */
struct rpc_counters { uint64_t accepted, refused, closed, bytes_in, bytes_out; uint32_t open; };
void  rpc_counters(const struct rpc *r, struct rpc_counters *out);

#endif
