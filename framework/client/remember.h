/* SPDX-License-Identifier: Apache-2.0 */
/* remember.h - what a user's commands remember of a group of controllers between two calls: who led, and the last entry that an answer named. */
#ifndef CLIENT_REMEMBER_H
#define CLIENT_REMEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

struct remembered { char leader[64]; uint64_t index; };

/* False: nothing is remembered, or there is no safe place for it; *out is empty then. */
bool remember_read(const struct config_hint *hint, struct remembered *out);
/* Keeps the leader (NULL: as it was) and the index, unless a greater one is there; `is_back`: the index also when it is smaller, for the cluster has
 * begun anew. Failures are nobody's business: the next read is only a little less sure. */
void remember_write(const struct config_hint *hint, const char *leader, uint64_t index, bool is_back);

#endif
