/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - which controller is asked next, and how he is reached. Used by client.c and pipe.c only. */
#ifndef CLIENT_ROUTE_H
#define CLIENT_ROUTE_H

#include "client/dialog.h"
#include "client/prove.h"
#include "client/remember.h"
#include "config/config.h"

#define ROUTE_TARGETS_MAX 40
#define ROUTE_HEDGE_MS 250          /* in a group: a controller that is silent so long may be stopped, and another one is asked */

/* One way to a controller: a local socket (path) or TCP. name "": not known until he says it. */
struct target { char name[64]; char *path, *addr; uint16_t port; };

struct route {
    struct config_hint hint;
    struct target targets[ROUTE_TARGETS_MAX]; unsigned count;
    unsigned at;                    /* the one to ask next, or the one that is asked */
    unsigned round;                 /* times that all were tried in vain: time-outs grow with it */
    bool     has_all;               /* the row is complete, not the usual socket alone */
    bool     has_remembered; struct remembered remembered;
    struct prover *prover;
    struct spur_error refused;      /* somebody answered who did not know us: more telling than "connect failure" */
};

int  route_open(struct route *r, const char *conf_path, struct spur_error *err);
void route_close(struct route *r);
static inline bool route_is_group(const struct route *r) { return r->hint.controller_count > 1; }
/* The remembered leader is asked first by who changes something, a local socket by who reads. Once, before the first call. */
void route_prefer(struct route *r, bool for_leader);
/* Connects to the target at `at`, within a time that fits the round. */
int  route_dial(struct route *r, struct dialog *d, struct spur_error *err);
/* To the controller of line i of SlurmctldHost: his socket if it is here, else TCP. */
int  route_dial_to(struct route *r, size_t i, struct dialog *d, unsigned timeout_ms, struct spur_error *err);
/* To the next one. True: all have been tried. */
bool route_next(struct route *r);
/* The next one to ask is the controller of this name. addr ("host", "host:port"; NULL or "" when not known): for one that is in no file of ours. False: no way to him. */
bool route_to(struct route *r, const char *name, const char *addr);
const char *route_name(const struct route *r);      /* of the target at `at`; "" when it has none */

#endif
