/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - formats of squeue and sinfo; see columns.h. Called by the query commands once to parse and once a row to print.
 *
 * Measured on Slurm 22.05: "%.3j" is right-aligned in 3, "%10i" left-aligned in 10, a value longer than its width is cut; "-O name:8" is
 * left-aligned in 8, "-O name:.12" right-aligned, text behind the width ends the value; without a width -O takes 20.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmds/common/columns.h"

#define WIDTH_MAX 1048576
#define NAMES_WIDTH 20

static struct column *columns_add(struct columns *c)
{
    c->list = mem_grow(c->list, c->count + 1, sizeof *c->list);
    memset(&c->list[c->count], 0, sizeof *c->list);
    return &c->list[c->count++];
}

static const char *width_parse(const char *p, struct column *col)
{
    uint64_t width = 0;

    if (*p == '#') {
        col->fits = true;
        p++;
    }
    if (*p == '.') {
        col->right = true;
        p++;
    }
    while (*p >= '0' && *p <= '9' && width < WIDTH_MAX)
        width = width * 10 + (uint64_t)(*p++ - '0');
    col->width = (uint32_t)width;
    return p;
}

/* "%all": every letter of the table with a bar between. */
static void columns_all(const struct column_field *fields, size_t field_count, struct str *text, struct columns *out)
{
    bool is_first = true;

    for (size_t i = 0; i < field_count; i++) {
        struct column col = { .field = &fields[i] };

        if (!fields[i].letter)
            continue;
        if (!is_first)
            str_add_char(text, '|');
        is_first = false;
        col.before = str_take(text);
        *columns_add(out) = col;
    }
}

int columns_parse(const char *format, const struct column_field *fields, size_t field_count, struct columns *out, struct spur_error *err)
{
    struct str text;
    const char *p = format;

    memset(out, 0, sizeof *out);
    str_init(&text);
    while (*p) {
        struct column col = { 0 };
        const struct column_field *f = NULL;

        if (*p != '%') {
            str_add_char(&text, *p++);
            continue;
        }
        if (p[1] == '%') {
            str_add_char(&text, '%');
            p += 2;
            continue;
        }
        if (strncasecmp(p + 1, "all", 3) == 0) {
            columns_all(fields, field_count, &text, out);
            p += 4;
            continue;
        }
        p = width_parse(p + 1, &col);
        for (size_t i = 0; i < field_count && !f; i++)
            if (fields[i].letter && fields[i].letter == *p)
                f = &fields[i];
        if (!f) {
            spur_fail(err, SPUR_EINVAL, *p ? "Invalid job format specification: %c" : "Invalid job format specification: %% at the end", *p);
            str_fini(&text);
            columns_fini(out);
            return err ? err->code : SPUR_EINVAL;
        }
        p++;
        col.field = f;
        col.before = str_take(&text);
        *columns_add(out) = col;
    }
    out->tail = str_take(&text);
    return 0;
}

/* One element runs to the next comma that is followed by a field's name: a suffix may hold anything else. */
int columns_parse_names(const char *format, const struct column_field *fields, size_t field_count, struct columns *out, struct spur_error *err)
{
    const char *p = format;

    memset(out, 0, sizeof *out);
    while (*p) {
        size_t n = strcspn(p, ":,");
        const struct column_field *f = NULL;
        struct column *col;
        const char *end;

        for (size_t i = 0; i < field_count && !f; i++)
            if (fields[i].name && strlen(fields[i].name) == n && strncasecmp(fields[i].name, p, n) == 0)
                f = &fields[i];
        if (!f) {
            spur_fail(err, SPUR_EINVAL, "Invalid job format specification: %.*s", (int)(n < 80 ? n : 80), p);
            columns_fini(out);
            return err ? err->code : SPUR_EINVAL;
        }
        col = columns_add(out);
        col->field = f;
        col->width = NAMES_WIDTH;
        p += n;
        if (*p == ':') {
            p = width_parse(p + 1, col);
            for (end = p; *end && *end != ','; end++)
                ;
            col->after = mem_copy_n(p, (size_t)(end - p));
            p = end;
        }
        if (*p == ',')
            p++;
    }
    return 0;
}

uint64_t columns_needs(const struct columns *c)
{
    uint64_t needs = 0;

    for (size_t i = 0; i < c->count; i++)
        needs |= c->list[i].field ? c->list[i].field->needs : 0;
    return needs;
}

static void column_put(const struct column *col, const char *value, struct str *out)
{
    size_t columns = utf8_columns(value), bytes = strlen(value);
    size_t pad = 0;

    if (col->width && columns > col->width) {
        bytes = utf8_cut(value, col->width);
        columns = col->width;
    }
    if (col->width > columns)
        pad = col->width - columns;
    if (col->before)
        str_add(out, col->before);
    if (col->right)
        str_add_blanks(out, pad);
    str_add_n(out, value, bytes);
    if (!col->right)
        str_add_blanks(out, pad);
    if (col->after)
        str_add(out, col->after);
}

void columns_heading(const struct columns *c, struct str *out)
{
    for (size_t i = 0; i < c->count; i++)
        column_put(&c->list[i], c->list[i].field->heading, out);
    str_add(out, c->tail ? c->tail : "");
    str_add_char(out, '\n');
}

void columns_row(const struct columns *c, const void *row, struct str *scratch, struct str *out)
{
    for (size_t i = 0; i < c->count; i++) {
        str_clear(scratch);
        c->list[i].field->print(row, scratch);
        str_printable(scratch, 0);
        column_put(&c->list[i], scratch->text, out);
    }
    str_add(out, c->tail ? c->tail : "");
    str_add_char(out, '\n');
}

void columns_fit(struct columns *c, const void *row, struct str *scratch)
{
    for (size_t i = 0; i < c->count; i++) {
        size_t width;

        if (!c->list[i].fits)
            continue;
        str_clear(scratch);
        c->list[i].field->print(row, scratch);
        width = utf8_columns(scratch->text);
        if (width > c->list[i].width && width < WIDTH_MAX)
            c->list[i].width = (uint32_t)width;
    }
}

void columns_fini(struct columns *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->list[i].before);
        free(c->list[i].after);
    }
    free(c->list);
    free(c->tail);
    memset(c, 0, sizeof *c);
}
