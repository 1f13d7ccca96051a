/* SPDX-License-Identifier: Apache-2.0 */
/* member.h - a daemon's own place in the switch plugin's mesh. The agent of a node has one, and a controller where the plugin says so. On the loop's thread. */
#ifndef RPC_MEMBER_H
#define RPC_MEMBER_H

#include <spur/switch.h>
#include <uv.h>

#include "loader/loader.h"
#include "rpc/server.h"
#include "wire/spur.pb-c.h"

struct member;
/* MEMBER_SELF: key, endpoint or fault may be others than before; MEMBER_KEY: a new key took the old one's place; MEMBER_SEEN: peers were looked at anew. */
enum member_news { MEMBER_SELF, MEMBER_KEY, MEMBER_SEEN };

/* NULL: the plugin has no mesh. Its interface is made soon, and again after a while when that fails. */
struct member *member_create(uv_loop_t *loop, struct loaded *sw, void (*changed)(void *arg, enum member_news news), void *arg);
void member_stop(struct member *m);             /* while the loop still turns */
void member_free(struct member *m);             /* when it has ended */
/* All of these take NULL, but member_endpoint. Texts are borrowed until the loop turns. */
const uint8_t *member_key(const struct member *m);          /* 32 bytes; NULL: there is none yet */
const char *member_endpoint(const struct member *m);
const char *member_fault(const struct member *m);           /* why jobs that need the mesh cannot run here; NULL: they can */
bool member_row(const struct member *m, const char *name, struct spur_switch_node *out);
bool member_is_busy(const struct member *m);                /* what it knows of peers is being read just now */
/* Seconds since the last handshake with the peer of this name, as of the last look, and its address; negative: never, or there is none. */
int64_t member_heard(const struct member *m, const char *name, const char **addr);
size_t member_count(const struct member *m);                /* rows of the table, this daemon's own too */
bool member_is_set(const struct member *m);                 /* the interface has the table as it is */
void member_table(struct member *m, const Wire__MeshTable *t);      /* who is in the mesh, or what has changed in it */
void member_rotate(struct member *m);
void member_answer(const struct member *m, const char *plugin, struct rpc_conn *c, uint64_t seq);     /* MESH of a local client */

#endif
