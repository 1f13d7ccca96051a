/* SPDX-License-Identifier: Apache-2.0 */
/* squeue.h - the lines of squeue: printed into memory as jobs come, kept with what they are sorted by, shown in order.
 *
 * A queue of 100,000 jobs costs its text and a few numbers a line, never the records.
 */
#ifndef CMDS_SQUEUE_H
#define CMDS_SQUEUE_H

#include <stdio.h>

#include "base/arena.h"
#include "base/table.h"
#include "cmds/common/jobfields.h"

#define ROWS_KEYS 8

struct row_key { int64_t number; const char *text; };       /* text: NULL for a number */
struct row_line;
struct rows {
    char letters[ROWS_KEYS]; bool down[ROWS_KEYS];
    const struct column_field *fields[ROWS_KEYS];
    size_t key_count;
    bool   of_steps;
    struct row_line *lines; size_t count;
    struct row_key *keys;           /* key_count a line */
    struct str text;                /* all lines; add to it, then rows_add_*() makes a line of what is new */
    size_t taken;
    struct arena arena; struct table words;
};

/* order: "P,t,-p"; a letter that is no field is refused by name. */
int  rows_init(struct rows *r, const char *order, bool of_steps, struct spur_error *err);
uint64_t rows_needs(const struct rows *r);                  /* JOB_FIELD_* of the fields sorted by */
void rows_add_job(struct rows *r, const struct job_row *row);
void rows_add_step(struct rows *r, const struct step_row *row);
void rows_show(struct rows *r, FILE *out);                  /* in order; r is empty again */
void rows_fini(struct rows *r);

#endif
