/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - one question to the controllers, for commands that have just one. */
#ifndef CMDS_COMMON_ASK_H
#define CMDS_COMMON_ASK_H

#include "base/arena.h"
#include "client/client.h"

/* 0 and *reply in the arena; or the code, after "COMMAND: sentence" on stderr. */
int ask_once(const char *command, uint16_t type, const ProtobufCMessage *q, uint16_t reply_type, const ProtobufCMessageDescriptor *d, struct arena *a, void **reply);

#endif
