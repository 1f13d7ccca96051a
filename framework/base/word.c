/* SPDX-License-Identifier: Apache-2.0 */
/* word.c - what every reader of text needs: words without case, lists, the nearest known word, UTF-8, whole numbers.
 *
 * Knows ASCII only when it folds case, so that no answer depends on the locale of the process.
 */
#include <string.h>

#include "base/str.h"

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool word_eq(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    while (*a && lower(*a) == lower(*b))
        a++, b++;
    return lower(*a) == lower(*b);
}

bool word_starts(const char *text, const char *prefix)
{
    while (*prefix && lower(*text) == lower(*prefix))
        text++, prefix++;
    return !*prefix;
}

char *word_trim(char *text)
{
    size_t n;

    while (is_blank(*text))
        text++;
    n = strlen(text);
    while (n && is_blank(text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

char *word_next(char **cursor, const char *seps)
{
    char *word;

    if (!*cursor)
        return NULL;
    word = *cursor + strspn(*cursor, seps);
    if (!*word) {
        *cursor = NULL;
        return NULL;
    }
    *cursor = word + strcspn(word, seps);
    if (**cursor)
        *(*cursor)++ = '\0';
    else
        *cursor = NULL;
    return word;
}

#define NEAREST_MAX 64      /* no keyword of ours is longer; a longer text is near to none */

/* Levenshtein, without case, in one row. A swap of two neighbours counts as two: near enough for a hint. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[NEAREST_MAX + 1];

    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j], best = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));

            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b_len];
}

const char *word_nearest(const char *text, const char *const *words)
{
    size_t len = strlen(text), best = len / 3 + 2;
    const char *nearest = NULL;

    if (len > NEAREST_MAX)
        return NULL;
    for (; *words; words++) {
        size_t n = strlen(*words), d;

        if (n > NEAREST_MAX || n >= len + best || len >= n + best)
            continue;
        d = edit_distance(text, len, *words, n);
        if (d < best) {
            best = d;
            nearest = *words;
        }
    }
    return nearest;
}

size_t utf8_char(const char *text, uint32_t *point)
{
    const unsigned char *t = (const unsigned char *)text;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = t[0] < 0x80 ? 1 : t[0] >> 5 == 6 ? 2 : t[0] >> 4 == 14 ? 3 : t[0] >> 3 == 30 ? 4 : 0;
    uint32_t p;

    if (n < 2) {
        *point = t[0];
        return n;
    }
    p = t[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (t[i] >> 6 != 2)     /* the end mark fails here too, so nothing past it is read */
            return 0;
        p = p << 6 | (t[i] & 0x3f);
    }
    *point = p;
    return p < least[n] || p > 0x10ffff || (p >= 0xd800 && p <= 0xdfff) ? 0 : n;
}

void word_printable(const char *text, char *out, size_t out_size)
{
    size_t used = 0, n;
    uint32_t point;

    if (!out_size)
        return;
    for (; *text; text += n ? n : 1) {
        bool good;

        n = utf8_char(text, &point);
        good = n && point >= 0x20 && !(point >= 0x7f && point < 0xa0);
        if (used + (good ? n : 1) >= out_size)
            break;
        if (good) {
            memcpy(out + used, text, n);
            used += n;
        } else {
            out[used++] = '?';
        }
    }
    out[used] = '\0';
}

size_t utf8_cut(const char *text, size_t columns)
{
    const char *t = text;
    uint32_t point;

    for (; *t && columns; columns--) {
        size_t n = (unsigned char)*t < 0x80 ? 1 : utf8_char(t, &point);

        t += n ? n : 1;
    }
    return (size_t)(t - text);
}

size_t utf8_columns(const char *text)
{
    size_t columns = 0;

    for (; *text; columns++)
        text += (unsigned char)*text < 0x80 ? 1 : utf8_cut(text, 1);
    return columns;
}

bool number_at(const char **cursor, uint64_t *out)
{
    const char *p = *cursor;
    uint64_t n = 0;

    for (; is_digit(*p); p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return false;
    if (p == *cursor)
        return false;
    *cursor = p;
    *out = n;
    return true;
}

bool number_u64(const char *text, uint64_t *out)
{
    uint64_t n;

    if (!number_at(&text, &n) || *text)
        return false;
    *out = n;
    return true;
}

bool number_u32(const char *text, uint32_t *out)
{
    uint64_t n;

    if (!number_u64(text, &n) || n > UINT32_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

bool number_i64(const char *text, int64_t *out)
{
    bool negative = *text == '-';
    uint64_t n;

    if (!number_u64(text + negative, &n) || n > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}
