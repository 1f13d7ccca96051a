/* SPDX-License-Identifier: Apache-2.0 */
/* str.c - the growable text buffer behind everything that is printed.
 *
 * A fresh buffer points at one shared empty text and owns no memory until something is added: many are initialised
 * and stay empty. `cap` 0 marks that text as not ours; it is never written to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static char str_nothing[1];

void str_init(struct str *s)
{
    *s = (struct str){ .text = str_nothing };
}

void str_fini(struct str *s)
{
    if (s->cap)
        free(s->text);
    str_init(s);
}

void str_clear(struct str *s)
{
    s->len = 0;
    if (s->cap)
        s->text[0] = '\0';
}

/* Room for `more` bytes and the end mark. */
static void str_reserve(struct str *s, size_t more)
{
    size_t need = s->len + more + 1, cap = s->cap ? s->cap : 32;

    if (need <= s->cap)
        return;
    while (cap < need)
        cap *= 2;
    s->text = mem_grow(s->cap ? s->text : NULL, cap, 1);
    s->cap = cap;
}

void str_add_n(struct str *s, const char *text, size_t n)
{
    if (!n)
        return;
    str_reserve(s, n);
    memcpy(s->text + s->len, text, n);
    s->len += n;
    s->text[s->len] = '\0';
}

void str_add(struct str *s, const char *text)
{
    str_add_n(s, text, strlen(text));
}

void str_add_char(struct str *s, char c)
{
    str_add_n(s, &c, 1);
}

void str_add_blanks(struct str *s, size_t n)
{
    if (!n)
        return;
    str_reserve(s, n);
    memset(s->text + s->len, ' ', n);
    s->len += n;
    s->text[s->len] = '\0';
}

void str_add_number(struct str *s, uint64_t n)
{
    char digits[20], *p = digits + sizeof digits;

    do
        *--p = (char)('0' + n % 10);
    while (n /= 10);
    str_add_n(s, p, (size_t)(digits + sizeof digits - p));
}

void str_addf(struct str *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    str_vaddf(s, format, args);
    va_end(args);
}

void str_vaddf(struct str *s, const char *format, va_list args)
{
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(s->cap ? s->text + s->len : NULL, s->cap ? s->cap - s->len : 0, format, args);
    if (n > 0 && s->len + (size_t)n + 1 > s->cap) {
        str_reserve(s, (size_t)n);
        n = vsnprintf(s->text + s->len, s->cap - s->len, format, again);
    }
    va_end(again);
    if (n > 0)
        s->len += (size_t)n;
}

char *str_take(struct str *s)
{
    char *text = s->cap ? s->text : mem_copy("");

    str_init(s);
    return text;
}
