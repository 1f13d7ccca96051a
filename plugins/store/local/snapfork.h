/* SPDX-License-Identifier: Apache-2.0 */
/* snapfork.h - a snapshot written by a forked child, so that the loop pauses for the fork alone.
 *
 * The child has the state as it was at that moment (copy on write), writes it with the lowest priorities, waits for the disk and says by a pipe how
 * it went. The pause is what the kernel needs to copy page tables, and each first write after it copies a page: both are small only while the heap
 * stands in huge pages, so this file asks for those as the heap grows and puts split ones together again after a child has ended (snapfork_tend).
 * One child at a time for each struct; begin, poll and end by one thread at a time; nothing here blocks unless told so.
 */
#ifndef STORE_SNAPFORK_H
#define STORE_SNAPFORK_H

#include <stdbool.h>
#include <sys/types.h>
#include <spur/store.h>

#include "snapfile.h"

struct snapfork {
    pid_t    pid;               /* 0: none */
    int      pipe;              /* readable when the child has an answer, or has died */
    struct snapfile_writer *writer;
    int64_t  deadline_ms;       /* CLOCK_MONOTONIC */
    uint32_t pause_us;          /* what the fork took */
};

typedef int (*snapfork_fill)(void *arg, const struct spur_store_sink *sink, struct spur_error *err);

/* Once at the start, on the main thread, before the state grows: memory comes in large steps from then on. */
void snapfork_prepare(void);
/* `w` has been begun and stays the caller's; when poll says 1 it is ended, and snapfile_publish is next. fill(arg, ...) runs in the child: it may allocate, it must
 * not use the loop, sockets or threads. `close_fd`: one more descriptor that the child must not keep (-1: none). After `seconds` the child is
 * killed. 0; ENOMEM, EIO: there is no child, write it here instead. */
int  snapfork_begin(struct snapfork *f, struct snapfile_writer *w, snapfork_fill fill, void *arg, int close_fd, unsigned seconds, struct spur_error *err);
/* Waits `wait_ms` at most (-1: until it ends). 0 still writing; 1 written and on the disk; negative: failed, the child is gone, the file is not usable. */
int  snapfork_poll(struct snapfork *f, int wait_ms, struct spur_error *err);
/* Kills the child, if there is one. Any state of f after begin. */
void snapfork_kill(struct snapfork *f);
/* A slice of at most about 1 ms of looking after the heap's pages, on the main thread, between two turns. True: there is more to do soon. */
bool snapfork_tend(void);

#endif
