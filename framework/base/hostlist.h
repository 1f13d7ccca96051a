/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.h - names of nodes in Slurm's list form: "n[01-36],login,r[1-2]c[1-4]-ib".
 *
 * Understands several brackets in one name, text after a bracket, leading zeros, dots, dashes and underscores, and
 * plain numbers at the end of names when it makes ranges. Order is kept, doubles stay unless hostlist_uniq.
 * Refuses unclosed, stray, nested or reversed brackets, names over 255 bytes and more than HOSTLIST_MAX names, naming the offending text;
 * a refused text adds no name.
 */
#ifndef BASE_HOSTLIST_H
#define BASE_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <spur/error.h>

#include "base/str.h"

#define HOSTLIST_MAX 1000000      /* names one list may expand to */

struct hostlist;    /* the expanded names, in order */

int    hostlist_parse(const char *text, struct hostlist **out, struct spur_error *err);     /* "" and NULL: empty list */
struct hostlist *hostlist_create(void);
void   hostlist_destroy(struct hostlist *h);
void   hostlist_add(struct hostlist *h, const char *name);          /* one literal name, copied */
int    hostlist_add_list(struct hostlist *h, const char *text, struct spur_error *err);
size_t hostlist_count(const struct hostlist *h);
const char *hostlist_nth(const struct hostlist *h, size_t i);       /* borrowed until the list changes */
ptrdiff_t hostlist_find(const struct hostlist *h, const char *name);    /* index of the first such name, or -1; keeps an index inside, so one thread a list */
bool   hostlist_remove(struct hostlist *h, size_t i);
void   hostlist_sort(struct hostlist *h);       /* by text, then digits, then number: n2 < n10 < n002; r2c1 < r10c1 */
void   hostlist_uniq(struct hostlist *h);       /* sorts and drops doubles; then equal sets print alike, however they were written */
void   hostlist_print(const struct hostlist *h, struct str *out);   /* ranged, order kept, exactly as `scontrol show hostlist` */

#endif
