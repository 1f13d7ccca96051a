/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - what libpmi and libpmi2 share: the descriptor to the launcher, and the tables of a program without one. Nothing of it is exported. */
#ifndef PMI_INSIDE_H
#define PMI_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What has come from the launcher and was not taken yet. */
struct pmi_input { char *text; size_t len, room; };

/* The descriptor in PMI_FD; -1: no launcher, the program is alone; -2: it names none that is open. */
int   pmi_descriptor(void);
int   pmi_number(const char *variable, int otherwise);      /* of the environment */
int   pmi_write(int fd, const char *text, size_t len);      /* all of it; negative: the launcher is gone */
/* The next `n` bytes (line: up to and with the next newline, n unused) at in->text; pmi_taken drops them. Waits. Its length; negative: gone, or over a limit. */
ssize_t pmi_read(int fd, struct pmi_input *in, size_t n, bool line);
void  pmi_taken(struct pmi_input *in, size_t n);

/* Cuts a copy of what fits, always with a NUL. False: it did not fit. */
bool  pmi_copy(char *out, int room, const char *text);

/* A table of texts by text, for who is alone: few entries, so a list. */
struct pmi_entry { struct pmi_entry *next; char *key, *value; };
const char *pmi_table_get(const struct pmi_entry *list, const char *key);
bool  pmi_table_put(struct pmi_entry **list, const char *key, const char *value);      /* false: no memory */
bool  pmi_table_drop(struct pmi_entry **list, const char *key);                        /* false: not there */
void  pmi_table_free(struct pmi_entry **list);

/* Ranks on the node of `rank` by "(vector,(node,nodes,size),...)", ascending. Their number, and the first `room` of them; -1: the text is none, or `rank` is not in it. */
int   pmi_mapping_ranks(const char *mapping, int size, int rank, int *ranks, int room);

#endif
