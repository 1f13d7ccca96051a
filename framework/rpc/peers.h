/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - the channels that plugins open themselves (spur/channel.h): the same handshake and sealing as everywhere, without a loop. */
#ifndef RPC_PEERS_H
#define RPC_PEERS_H

#include <spur/channel.h>

struct peers;

struct peers *peers_create(const char *cluster);
/* Before the first meet. `auth` is an instance of its own that no other code calls: it is called from threads of plugins, one at a time unless it may block. Borrowed
 * until destroy. */
void peers_use(struct peers *p, const struct spur_auth_ops *auth, void *auth_self, bool may_block);
const struct spur_channels *peers_channels(const struct peers *p);      /* for spur_host.channels */
void peers_destroy(struct peers *p);                                    /* after all who use it are closed; accepts NULL */

#endif
