/* SPDX-License-Identifier: Apache-2.0 */
/* spool.h - reports of this node, on disk until a controller has committed them.
 *
 * One file, appended: record after record with length and checksum; a torn tail is dropped at start. It is cut to nothing whenever all its
 * reports are acknowledged. A record may be sent twice (a crash between the answer and the cut): controllers take a report once by job,
 * step, attempt and kind. Numbers grow for ever, across restarts.
 */
#ifndef AGENT_SPOOL_H
#define AGENT_SPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <spur/error.h>

#include "wire/spur.pb-c.h"

struct spooled {
    uint64_t seq;               /* the report's number */
    char    *node;
    uint8_t *bytes; size_t len; /* packed Report */
    bool     durable, acked, in_memory;     /* in_memory: never written */
    void   (*then)(void *arg, uint64_t number); void *arg;      /* once, when durable or acknowledged; number 0: the spool was closed before */
    struct spooled *next;
};

struct spool;
/* loop NULL: synchronous (tests). folder_fd -1: memory only. now_wall_us: numbers start above it, so that a lost spool never repeats one. */
int  spool_open(uv_loop_t *loop, int folder_fd, uint64_t now_wall_us, struct spool **out, struct spur_error *err);
void spool_close(struct spool *s);
/* Gives r its number, keeps a packed copy. Never fails for the caller: what cannot be written now (disk full) is tried again each second. */
const struct spooled *spool_add(struct spool *s, Wire__Report *r, void (*then)(void *arg, uint64_t number), void *arg);
/* STARTED may be lost: it follows from the registration. Kept in memory, numbered, not written. */
const struct spooled *spool_add_volatile(struct spool *s, Wire__Report *r);
/* Takes it out; the packed report into *out (caller frees) when it was there. */
bool spool_acked(struct spool *s, uint64_t seq, Wire__Report **out);
/* Oldest first. */
const struct spooled *spool_first(const struct spool *s);
size_t spool_count(const struct spool *s);
size_t spool_dropped(const struct spool *s);    /* bytes of a torn tail at open */

#endif
