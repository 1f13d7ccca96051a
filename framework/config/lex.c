/* SPDX-License-Identifier: Apache-2.0 */
/* lex.c - cuts configuration text into logical lines and KEY=VALUE pairs.
 *
 * The rules are those that Slurm's own daemons show when they are run: '#' starts a comment anywhere, also inside
 * quotes, unless a backslash stands before it; a backslash at the end of a line (blanks may follow, and CR) joins the next one, but
 * not inside a comment; quotes count only around a whole value; a value that opens a quote and never closes it ends
 * at the next blank; KEY= with nothing behind it is an error, KEY="" is the empty value. Pure.
 */
#include "config/lex.h"

#include <stdlib.h>
#include <string.h>

void lex_init(struct lex *l, const char *text, const char *file, unsigned line)
{
    memset(l, 0, sizeof *l);
    l->at = text ? text : "";
    l->file = mem_copy(file);
    l->next = line;
    str_init(&l->buf);
}

void lex_fini(struct lex *l)
{
    free(l->file);
    str_fini(&l->buf);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* "#@ LINE FILE": what follows comes from there. True when this physical line is such a mark. */
static bool place_mark(struct lex *l, const char *line, size_t len)
{
    const char *p = line + 3, *end = line + len;
    unsigned n = 0;

    if (len < 5 || memcmp(line, "#@ ", 3) != 0)
        return false;
    while (p < end && *p >= '0' && *p <= '9' && n < 100000000)
        n = n * 10 + (unsigned)(*p++ - '0');
    if (p == line + 3 || p >= end || *p != ' ')
        return false;
    p++;
    while (end > p && is_blank(end[-1]))
        end--;
    free(l->file);
    l->file = mem_copy_n(p, (size_t)(end - p));
    l->next = n;
    return true;
}

int lex_line(struct lex *l, struct spur_error *err)
{
    for (;;) {
        bool more = false, any = false;

        if (!*l->at)
            return 0;
        str_clear(&l->buf);
        l->line = l->next;
        do {
            const char *line = l->at, *end = strchr(line, '\n');
            size_t len = end ? (size_t)(end - line) : strlen(line), keep = 0;
            bool comment = false, was_continued = more;

            l->at = line + len + (end != NULL);
            if (place_mark(l, line, len)) {
                if (!was_continued)
                    break;
                continue;       /* a mark inside a continued line: sources never write one, but texts may hold anything */
            }
            l->next++;
            more = false;
            for (keep = 0; keep < len; keep++) {
                if (line[keep] == '\\' && keep + 1 < len) {
                    keep++;
                    continue;
                }
                if (line[keep] == '#') {
                    comment = true;
                    break;
                }
            }
            if (keep > len)
                keep = len;
            while (keep && is_blank(line[keep - 1]))
                keep--;
            if (!comment && keep && line[keep - 1] == '\\') {
                size_t slashes = 0;

                while (slashes < keep && line[keep - 1 - slashes] == '\\')
                    slashes++;
                if (slashes % 2) {
                    more = true;
                    keep--;
                }
            }
            if (l->buf.len + keep > LEX_LINE_MAX)
                return spur_fail(err, SPUR_ELIMIT, "%.100s line %u: longer than %u bytes", l->file ? l->file : "text", l->line, LEX_LINE_MAX);
            str_add_n(&l->buf, line, keep);
            any = true;
        } while (more && *l->at);
        if (any) {
            char *text = l->buf.text;
            size_t skip = 0;

            while (l->buf.len && is_blank(text[l->buf.len - 1]))
                text[--l->buf.len] = 0;
            while (is_blank(text[skip]))
                skip++;
            if (skip) {
                memmove(text, text + skip, l->buf.len - skip + 1);
                l->buf.len -= skip;
            }
            if (l->buf.len)
                return 1;
        }
    }
}

/* Drops each backslash and keeps what stands behind it. */
static void unescape(char *text)
{
    char *to = text;

    for (; *text; text++) {
        if (*text == '\\' && text[1])
            text++;
        *to++ = *text;
    }
    *to = 0;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

int lex_pair(char **cursor, struct lex_pair *out)
{
    char *p = *cursor, *key, *key_end, *close;

    while (is_blank(*p))
        p++;
    *cursor = p;
    if (!*p)
        return 0;
    key = p;
    while (is_word(*p))
        p++;
    key_end = p;
    while (is_blank(*p))
        p++;
    out->op = '=';
    if (*p && strchr("+-*/", *p) && p[1] == '=')
        out->op = *p++;
    if (key == key_end || *p != '=')
        return SPUR_ESYNTAX;
    p++;
    while (is_blank(*p))
        p++;
    if (!*p)
        return SPUR_ESYNTAX;
    if (*p == '"' && (close = strchr(p + 1, '"')) && (!close[1] || is_blank(close[1]))) {
        out->value = p + 1;
        p = close;
    } else {
        out->value = p;
        while (*p && !is_blank(*p))
            p++;
    }
    *key_end = 0;
    *cursor = *p ? p + 1 : p;
    *p = 0;
    out->key = key;
    unescape(out->value);
    return 1;
}

char *lex_include(struct lex *l)
{
    char *p = l->buf.text;

    if (!word_starts(p, "include") || !is_blank(p[7]))
        return NULL;
    p += 7;
    while (is_blank(*p))
        p++;
    /* "include = x" is a pair with an unknown key, not an include. */
    return *p && *p != '=' ? p : NULL;
}
