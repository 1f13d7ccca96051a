/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - lists of words from the command line (-j 1,2 -u a,b -w n[1-3]), and what all tables share: a row kept, a date line, --clusters.
 *
 * A list owns its words. Zeroed is empty.
 */
#ifndef CMDS_COMMON_LIST_H
#define CMDS_COMMON_LIST_H

#include <stddef.h>
#include <protobuf-c/protobuf-c.h>
#include <spur/error.h>

struct list { char **words; size_t count; };

void list_put(struct list *l, const char *word);            /* copies it */
void list_add(struct list *l, const char *text);            /* comma list; a comma inside brackets belongs to the word: 12_[1,3] */
/* The same; or "-": words of standard input, or a path: words of that file, cut at commas and blanks. */
int  list_add_from(struct list *l, const char *text, struct spur_error *err);
int  list_add_hosts(struct list *l, const char *text, struct spur_error *err);      /* "n[1-3],x": a word a host */
void list_fini(struct list *l);

/* Does this list of cluster names (--clusters) mean the cluster `own`, or all? If not: the sentence. NULL: no list, 0. */
int  cluster_is_own(const char *names, const char *own, struct spur_error *err);
void date_line(void);                                       /* "Mon Nov 30 15:51:47 2026" to stdout */

#endif
