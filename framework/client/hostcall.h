/* SPDX-License-Identifier: Apache-2.0 */
/* hostcall.h - a host itself asks the cluster, with its own key: to join, to change its key, for the keys of others. No user is behind it. */
#ifndef CLIENT_HOSTCALL_H
#define CLIENT_HOSTCALL_H

#include <spur/plugin.h>

#include "base/arena.h"
#include "config/config.h"
#include "wire/spur.pb-c.h"

/* One request, one answer. The controllers of `hint` are tried in turn, and the leader that one of them names. Blocks, some seconds a controller. A refusal
 * becomes err with the controller's sentence. */
int host_call(const struct config_hint *hint, const struct spur_host *host, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type,
              const ProtobufCMessageDescriptor *reply_desc, struct arena *a, void **reply, struct spur_error *err);

#endif
