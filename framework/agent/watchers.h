/* SPDX-License-Identifier: Apache-2.0 */
/* watchers.h - commands beside srun that a supervisor has dialled: sattach, which gets the step's output from then on and may give input, and sstat. */
#ifndef AGENT_WATCHERS_H
#define AGENT_WATCHERS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/link.h"
#include "wire/spur.pb-c.h"

#define WATCHERS_MAX   16           /* at once; one more is not dialled */
#define WATCHER_WINDOW (16u << 10)  /* of input that one may have on its way */

struct watcher;
struct watchers;
/* What they ask of the step. */
struct watched {
    void *arg;
    void (*greet)(void *arg, struct watcher *w);        /* a sattach is there: hello, and the tasks that have ended */
    void (*figures)(void *arg, struct watcher *w);      /* a sstat is there: its one message */
    void (*message)(void *arg, struct watcher *w, const struct frame *f, const uint8_t *body);
};

struct watchers *watchers_create(const char *cluster, const struct watched *of);
void   watchers_destroy(struct watchers *w);
void   watchers_dial(struct watchers *w, const Wire__Credential *grant);        /* checked by the agent */
void   watchers_send(struct watchers *w, uint16_t type, const ProtobufCMessage *body);              /* to every sattach */
void   watcher_send(struct watcher *w, uint16_t type, const ProtobufCMessage *body);                /* to this one */
void   watcher_input(struct watcher *w, size_t n);      /* it has sent so much */
/* All input has been taken by the tasks: they may send more. */
void   watchers_credit(struct watchers *w);
/* May more output be read? A watcher that takes none of it for ten seconds is dropped, so that it does not hold the tasks up. */
bool   watchers_room(const struct watchers *w);
bool   watchers_done(struct watchers *w);   /* asked at the end of the step: all has been written and read */
size_t watchers_poll(struct watchers *w, struct pollfd *fds);               /* at most WATCHERS_MAX */
void   watchers_handle(struct watchers *w, const struct pollfd *fds, size_t n, int64_t now_ms);
int64_t watchers_deadline(const struct watchers *w);

#endif
