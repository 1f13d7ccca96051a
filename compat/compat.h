/* SPDX-License-Identifier: Apache-2.0 */
/* compat.h - inside the compatibility library: how its calls ask the cluster, fail, and build answers that are freed in one piece.
 *
 * A call opens a client, asks, closes it: nothing outlives the call but the answer, so any thread may call. An answer is one allocation
 * whose first member is the struct that Slurm's clients know, with an arena behind it for all its texts.
 */
#ifndef COMPAT_COMPAT_H
#define COMPAT_COMPAT_H

#include <slurm/slurm.h>

#include "base/arena.h"
#include "base/table.h"
#include "client/client.h"
#include "states.h"

/* ---- asking (ask.c) ---- */
struct ask { struct client *client; struct arena arena; };      /* arena: of what is asked and answered, not of what the caller gets */
int  ask_open(struct ask *k);                                   /* 0; SLURM_ERROR with errno set, and nothing to close */
void ask_close(struct ask *k);                                  /* keeps errno */
int  ask_call(struct ask *k, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *d, void **reply);
int  ask_stream(struct ask *k, uint16_t type, const ProtobufCMessage *request, uint16_t part_type, const ProtobufCMessageDescriptor *d,
                int (*fn)(void *arg, void *part), void *arg);
void ask_token(struct ask *k, ProtobufCBinaryData *token, int64_t *wall_ms);

int  refuse(int number);                                        /* sets errno, returns SLURM_ERROR */
int  number_of(int code);                                       /* Slurm's number for a SPUR_E code */

/* ---- building answers (text.c) ---- */
char    *text_of(struct arena *a, const char *text);            /* a copy; NULL for NULL and "" */
uint32_t reason_number(const char *word);                       /* "Priority": WAIT_PRIORITY */

/* Where each node stands in the answer of slurm_load_node(): node_inx of jobs and partitions. */
struct places { struct table by_name; struct arena arena; uint32_t count; };
int      places_load(struct places *p, struct ask *k);          /* 0; SLURM_ERROR: nothing to free */
void     places_fini(struct places *p);
int32_t *places_of(const struct places *p, const char *nodes, struct arena *a);    /* first, last, ..., -1; p NULL: just the -1 */

#endif
