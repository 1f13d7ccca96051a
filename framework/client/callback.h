/* SPDX-License-Identifier: Apache-2.0 */
/* callback.h - a process on a node dials a command (srun, sattach, sstat, sbcast) that listens with a key both know: the step's input and output and what is
 * asked of running steps go this way, and nothing listens on a node. */
#ifndef CLIENT_CALLBACK_H
#define CLIENT_CALLBACK_H

#include "client/link.h"

/* Begins to connect to the next address of the list; *next moves on in it. 0: l is open, and callback_connected is asked when it can be written; else there is none
 * left, with what the last one said in err. The clock starts with each address: CALLBACK_MS is enough for one. */
#define CALLBACK_MS 5000
int callback_next(struct link *l, char **next, uint32_t port, const char *cluster, const uint8_t key[32], struct spur_error *err);
int callback_connected(const struct link *l, struct spur_error *err);       /* 0, or why not */

#endif
