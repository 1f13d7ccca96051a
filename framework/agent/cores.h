/* SPDX-License-Identifier: Apache-2.0 */
/* cores.h - the cores of this machine with their threads, in the order in which jobs are given cores. */
#ifndef AGENT_CORES_H
#define AGENT_CORES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "wire/spur.pb-c.h"

/* One memory; NULL: not known. pus of core i: pu[first[i]] to pu[first[i + 1] - 1]. */
struct cores { uint32_t count; uint16_t *socket, *ldom; uint32_t *first, *pu; };

/* Of this host, or of an XML file of hwloc (for tests): a line a core, "SOCKET LDOM PU...", as cores_read takes them. False: hwloc does not know. */
int  cores_print(const char *xml, FILE *out);
struct cores *cores_read(const char *lines);        /* free(): NULL when they are not whole */

struct bitmap;
struct str;
/* All CPUs of the cores in the set, as a list. False, and nothing is written: they are not known, or the set has none, or others. */
bool cores_cpus(const struct cores *c, const struct bitmap *set, struct str *out);

struct settings_node;
/* The rows of an order: of `c` when that has the shape of the node's line, or, emulated, of the line itself. */
void cores_order(const struct cores *c, const struct settings_node *line, int emulated, Wire__StepOrder *o);
void cores_order_free(Wire__StepOrder *o);

#endif
