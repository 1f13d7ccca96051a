/* SPDX-License-Identifier: Apache-2.0 */
/* lex.h - lines and KEY=VALUE pairs of the slurm.conf family. Internal to config/. */
#ifndef CONFIG_LEX_H
#define CONFIG_LEX_H

#include <spur/error.h>

#include "base/str.h"

#define LEX_LINE_MAX (4u << 20)     /* bytes of one logical line; a site's longest node lists are some 100 KiB */

/* Where a text stands. The flattened form of several files carries "#@ LINE FILE" comments, written by source.c. */
struct lex {
    const char *at;             /* next byte of the text */
    char       *file;           /* owned; of the line just read */
    unsigned    line;           /* first physical line of the logical line just read */
    unsigned    next;           /* physical line at `at` */
    struct str  buf;            /* the logical line: comment cut off, continuations joined, blanks at the ends trimmed, escapes still in */
};

void lex_init(struct lex *l, const char *text, const char *file, unsigned line);
void lex_fini(struct lex *l);
/* 1 with a line that is not empty in l->buf, 0 at the end, or SPUR_ELIMIT. */
int  lex_line(struct lex *l, struct spur_error *err);

struct lex_pair {
    char *key, *value;          /* inside the line's buffer; value without quotes, escapes resolved; "" only for KEY="" */
    char  op;                   /* '=' or the sign before it: + - * / */
};
/* Cuts the next KEY=VALUE out of *cursor (changes the text). 1 a pair, 0 nothing left, SPUR_ESYNTAX: *cursor points at the odd text. */
int  lex_pair(char **cursor, struct lex_pair *out);
/* Is this line "Include FILE", in any case? Then the name, trimmed, inside the buffer; else NULL. */
char *lex_include(struct lex *l);

#endif
