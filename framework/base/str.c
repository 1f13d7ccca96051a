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

/* The conversions that nearly all formats are made of: %s %.*s %.5s %c %%, and %d %u with l, ll, z, and a width with or without zeros. Anything
 * else: false, with `s` as it was, and libc does it. Measured: vsnprintf was two thirds of `scontrol show job`, this costs less than half of it. */
static bool format_simple(struct str *s, const char *format, va_list args)
{
    size_t start = s->len;
    const char *p = format;

    for (;;) {
        size_t n = strcspn(p, "%"), width = 0, most = SIZE_MAX, len = 0;
        char pad = ' ', digits[24], *d = digits + sizeof digits;
        const char *text;
        bool is_negative = false;
        uint64_t value = 0;
        enum { INT, LONG, LONG_LONG, SIZE } length = INT;

        str_add_n(s, p, n);
        p += n;
        if (!*p)
            return true;
        p++;
        if (*p == '0')
            pad = *p++;
        for (; is_digit(*p) && width < 1000; p++)
            width = width * 10 + (size_t)(*p - '0');
        if (p[0] == '.' && p[1] == '*') {
            int given = va_arg(args, int);

            most = given < 0 ? SIZE_MAX : (size_t)given;
            p += 2;
        } else if (*p == '.') {
            for (most = 0, p++; is_digit(*p) && most < 100000; p++)
                most = most * 10 + (size_t)(*p - '0');
        }
        for (; *p == 'l' && length < LONG_LONG; p++)
            length++;
        if (*p == 'z' && length == INT) {
            length = SIZE;
            p++;
        }
        switch (*p++) {
        case '%': str_add_char(s, '%'); continue;
        case 'c': str_add_char(s, (char)va_arg(args, int)); continue;
        case 's':
            text = va_arg(args, const char *);
            text = text ? text : "(null)";
            len = strnlen(text, most);
            if (pad == '0' || length != INT)
                goto not_simple;
            if (width > len)
                str_add_blanks(s, width - len);
            str_add_n(s, text, len);
            continue;
        case 'u':
            value = length == INT ? va_arg(args, unsigned) : length == LONG ? va_arg(args, unsigned long) :
                    length == SIZE ? va_arg(args, size_t) : va_arg(args, unsigned long long);
            break;
        case 'd': {
            int64_t given = length == INT ? va_arg(args, int) : length == LONG ? va_arg(args, long) :
                            length == SIZE ? (int64_t)va_arg(args, size_t) : va_arg(args, long long);

            is_negative = given < 0;
            value = is_negative ? -(uint64_t)given : (uint64_t)given;
            break;
        }
        default: goto not_simple;
        }
        if (most != SIZE_MAX)
            goto not_simple;
        do
            *--d = (char)('0' + value % 10);
        while (value /= 10);
        len = (size_t)(digits + sizeof digits - d) + is_negative;
        if (is_negative && pad == '0')
            str_add_char(s, '-');
        for (; width > len; width--)
            str_add_char(s, pad);
        if (is_negative && pad != '0')
            str_add_char(s, '-');
        str_add_n(s, d, (size_t)(digits + sizeof digits - d));
    }
not_simple:
    s->len = start;
    if (s->cap)
        s->text[start] = '\0';
    return false;
}

void str_vaddf(struct str *s, const char *format, va_list args)
{
    va_list again;
    int n;

    va_copy(again, args);
    if (format_simple(s, format, again)) {
        va_end(again);
        return;
    }
    va_end(again);
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

void str_printable(struct str *s, size_t from)
{
    for (size_t i = from; i < s->len; i++) {
        unsigned char c = (unsigned char)s->text[i], next = (unsigned char)s->text[i + 1];

        if (c < 0x20 || c == 0x7f)
            s->text[i] = '?';
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0)      /* U+0080 to U+009F */
            s->text[i] = s->text[i + 1] = '?';
    }
}
