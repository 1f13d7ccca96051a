/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - writes JSON as it goes; see json.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/commands.h"
#include "cmds/common/json.h"

#define DEPTH_MAX 16
#define FLUSH_AT  65536

struct json_writer { FILE *out; struct str text; char closes[DEPTH_MAX]; int depth; bool is_fresh[DEPTH_MAX + 1]; const char *command; };

static void quote(struct json_writer *w, const char *text)
{
    const unsigned char *p = (const unsigned char *)(text ? text : ""), *from = p;

    str_add_char(&w->text, '"');
    while (*p) {
        uint32_t point;
        size_t n = utf8_char((const char *)p, &point);

        if (n && *p != '"' && *p != '\\' && *p >= 0x20 && *p != 0x7f) {
            p += n;
            continue;
        }
        str_add_n(&w->text, (const char *)from, (size_t)(p - from));
        if (*p == '"' || *p == '\\') {
            str_add_char(&w->text, '\\');
            str_add_char(&w->text, (char)*p);
        } else if (n) {
            str_addf(&w->text, "\\u%04x", *p);
        } else {
            str_add(&w->text, "\xef\xbf\xbd");       /* no UTF-8: the sign for a bad character */
        }
        from = ++p;
    }
    str_add_n(&w->text, (const char *)from, (size_t)(p - from));
    str_add_char(&w->text, '"');
}

static void line_begin(struct json_writer *w)
{
    if (w->text.len > FLUSH_AT) {
        fwrite(w->text.text, 1, w->text.len, w->out);
        str_clear(&w->text);
    }
    str_add_char(&w->text, '\n');
    for (int i = 0; i < w->depth; i++)
        str_add(&w->text, "  ");
}

static void key_put(struct json_writer *w, const char *key)
{
    if (!w->is_fresh[w->depth])
        str_add_char(&w->text, ',');
    w->is_fresh[w->depth] = false;
    line_begin(w);
    if (key) {
        quote(w, key);
        str_add(&w->text, ": ");
    }
}

void json_open(struct json_writer *w, const char *key, char bracket)
{
    key_put(w, key);
    str_add_char(&w->text, bracket);
    if (w->depth + 1 >= DEPTH_MAX)
        abort();        /* our own nesting, never the data's */
    w->closes[w->depth++] = bracket == '{' ? '}' : ']';
    w->is_fresh[w->depth] = true;
}

void json_close(struct json_writer *w)
{
    bool is_empty = w->is_fresh[w->depth];

    w->depth--;
    if (!is_empty)
        line_begin(w);
    str_add_char(&w->text, w->closes[w->depth]);
}

static void integer(struct json_writer *w, int64_t value)
{
    char digits[24], *p = digits + sizeof digits;
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        *--p = (char)('0' + n % 10);
    while (n /= 10);
    if (value < 0)
        *--p = '-';
    str_add_n(&w->text, p, (size_t)(digits + sizeof digits - p));
}

void json_text(struct json_writer *w, const char *key, const char *value) { key_put(w, key); quote(w, value); }
void json_number(struct json_writer *w, const char *key, int64_t value) { key_put(w, key); integer(w, value); }
void json_bool(struct json_writer *w, const char *key, bool value) { key_put(w, key); str_add(&w->text, value ? "true" : "false"); }

void json_optional(struct json_writer *w, const char *key, bool is_set, bool is_infinite, int64_t value)
{
    is_set = is_set && !is_infinite;
    key_put(w, key);
    str_add(&w->text, is_set ? "{ \"set\": true, \"infinite\": false, \"number\": " : is_infinite ? "{ \"set\": false, \"infinite\": true, \"number\": "
                                                                                        : "{ \"set\": false, \"infinite\": false, \"number\": ");
    integer(w, is_set ? value : 0);
    str_add(&w->text, " }");
}

struct json_writer *json_begin_on(FILE *out, const char *command, const char *array)
{
    struct json_writer *w = mem_alloc(sizeof *w);

    w->out = out;
    w->command = command;
    str_init(&w->text);
    str_add_char(&w->text, '{');
    w->closes[w->depth++] = '}';
    w->is_fresh[w->depth] = true;
    json_open(w, array, '[');
    return w;
}

struct json_writer *json_begin(const char *command, const char *array) { return json_begin_on(stdout, command, array); }

void json_end(struct json_writer *w)
{
    json_close(w);
    json_open(w, "meta", '{');
    json_open(w, "plugin", '{');
    json_text(w, "type", "");
    json_text(w, "name", "");
    json_text(w, "data_parser", "data_parser/v0.0.43");
    json_close(w);
    json_open(w, "slurm", '{');
    json_open(w, "version", '{');
    json_text(w, "major", CONFIG_SLURM_MAJOR);
    json_text(w, "micro", "0");
    json_text(w, "minor", CONFIG_SLURM_MINOR);
    json_close(w);
    json_text(w, "release", CONFIG_SLURM_VERSION);
    json_close(w);
    json_open(w, "command", '[');
    json_text(w, NULL, w->command);
    json_close(w);
    json_close(w);
    json_open(w, "errors", '[');
    json_close(w);
    json_open(w, "warnings", '[');
    json_close(w);
    json_close(w);
    str_add_char(&w->text, '\n');
    fwrite(w->text.text, 1, w->text.len, w->out);
    str_fini(&w->text);
    free(w);
}
