/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - what the servers of the mpi plugin say to each other goes through srun: one hub for a step's nodes. Pure: no socket, no clock. */
#ifndef CLIENT_RELAY_H
#define CLIENT_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#include "wire/spur.pb-c.h"

struct relay;
/* `deliver` is called for each message to a node; `m` is borrowed for the call. False: that node is not there yet, and what is said to it alone is kept. */
struct relay *relay_create(uint32_t nodes, bool (*deliver)(void *arg, uint32_t node, const Wire__IoMpi *m), void *arg);
void relay_destroy(struct relay *r);                        /* accepts NULL */
/* GATHER and SEND of node `from`. Negative, with a sentence: it contradicts itself or is over a limit. */
int  relay_take(struct relay *r, uint32_t from, const Wire__IoMpi *m, struct spur_error *err);
void relay_arrived(struct relay *r, uint32_t node);         /* it can be delivered to from now on */
void relay_lost(struct relay *r, const char *why);          /* a node is gone: said to all others */

#endif
