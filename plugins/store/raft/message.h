/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - the core's messages and the shell's own as bytes (raft.proto). Everything that a peer sends is decoded here, under a cap. Pure. */
#ifndef RAFT_MESSAGE_H
#define RAFT_MESSAGE_H

#include "core.h"

#define RAFT_PROTOCOL 1u        /* N and N-1 understand each other */

enum frame_type { FRAME_HELLO = 1, FRAME_MESSAGE = 2, FRAME_INFO = 3, FRAME_REFUSAL = 4 };
enum line_kind { LINE_CONTROL = 1, LINE_BULK = 2 };

struct hello {
    uint32_t protocol, line, feature;
    uint64_t member, group, former;     /* former: the group that this one went on from by force */
    bool     is_fresh;
    char     name[64], addr[128];
};
struct info { uint32_t flush_p50_us, flush_p99_us, feature; uint64_t applied; bool is_outsider; };

/* Bytes to send, malloc'ed, *n of them; NULL: out of memory. */
uint8_t *hello_pack(const struct hello *h, size_t *n);
uint8_t *info_pack(const struct info *i, size_t *n);
uint8_t *refusal_pack(const char *text, size_t *n);
uint8_t *message_pack(const struct raft_message *m, size_t *n);

/* ECORRUPT: not such a message. */
int hello_unpack(struct hello *out, const void *data, size_t n);
int info_unpack(struct info *out, const void *data, size_t n);
int refusal_unpack(char text[400], const void *data, size_t n);
/* What was decoded: `m` points into it. */
struct decoded { struct raft_message m; void *proto; struct raft_entry *entries; struct raft_members *members; size_t used, cap; };
int  message_unpack(struct decoded *out, const void *data, size_t n);
void message_free(struct decoded *d);

#endif
