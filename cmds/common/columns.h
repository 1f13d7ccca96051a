/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - formats of squeue and sinfo: "%.18i %.9P" letters and "jobid:8,name:.10|" names, parsed once, printed a row at a time.
 *
 * A command gives a table of fields (name for -O, letter for -o, heading, what it needs from the controller, a function that prints the value of
 * one row). Widths count characters, not bytes; a value is cut at a character's edge. Pure.
 */
#ifndef CMDS_COMMON_COLUMNS_H
#define CMDS_COMMON_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/str.h"

struct column_field {
    const char *name;           /* of -O: "JobID"; NULL: letter only */
    char        letter;         /* of -o; 0: none */
    const char *heading;        /* "JOBID" */
    uint64_t    needs;          /* JOB_FIELD_* and the like: what the query must ask for */
    void      (*print)(const void *row, struct str *out);
};

struct column {
    const struct column_field *field;   /* NULL: only the text before */
    char    *before;            /* literal text in front of the value */
    char    *after;             /* -O: text behind the value ("|" of "name:10|") */
    uint32_t width;             /* 0: as long as it is */
    bool     right;             /* right-aligned */
    bool     fits;              /* "%#9P": grows to its longest value, see columns_fit() */
};
struct columns { struct column *list; size_t count; char *tail; };

/* "%.18i %j": letters; "%all" is all of them. An unknown letter is refused by name; "%-5i" is refused. */
int  columns_parse(const char *format, const struct column_field *fields, size_t field_count, struct columns *out, struct spur_error *err);
/* "JobID:8,Name:.4|": names, default width 20, any text after the width as the suffix of the value. */
int  columns_parse_names(const char *format, const struct column_field *fields, size_t field_count, struct columns *out, struct spur_error *err);
uint64_t columns_needs(const struct columns *c);
void columns_fit(struct columns *c, const void *row, struct str *scratch);     /* for each row, before the first is printed */
void columns_heading(const struct columns *c, struct str *out);                /* adds a line to out */
void columns_row(const struct columns *c, const void *row, struct str *scratch, struct str *out);
void columns_fini(struct columns *c);

#endif
