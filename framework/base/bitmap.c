/* SPDX-License-Identifier: Apache-2.0 */
/* bitmap.c - sets of small integers; a word at a time wherever a loop runs over a whole set.
 *
 * Invariant: bits past `bits` in the last word are 0, so count, empty and equal need no mask. Only bitmap_fill and
 * bitmap_resize can break it, and both repair it.
 */
#include <stdlib.h>
#include <string.h>
#include <spur/error.h>

#include "base/bitmap.h"

void bitmap_init(struct bitmap *b, size_t bits)
{
    b->bits = bits;
    b->words = bits ? mem_array(bitmap_words(bits), sizeof *b->words) : NULL;
}

void bitmap_fini(struct bitmap *b)
{
    free(b->words);
    *b = (struct bitmap){ 0 };
}

static void bitmap_mask_end(struct bitmap *b)
{
    if (b->bits % 64)
        b->words[b->bits / 64] &= (UINT64_C(1) << (b->bits % 64)) - 1;
}

void bitmap_copy(struct bitmap *to, const struct bitmap *from)
{
    if (to == from)
        return;
    if (bitmap_words(to->bits) != bitmap_words(from->bits)) {
        bitmap_fini(to);
        bitmap_init(to, from->bits);
    }
    to->bits = from->bits;
    if (from->bits)
        memcpy(to->words, from->words, bitmap_words(from->bits) * sizeof *to->words);
}

void bitmap_resize(struct bitmap *b, size_t bits)
{
    size_t old = bitmap_words(b->bits), words = bitmap_words(bits);

    if (!words) {
        bitmap_fini(b);
        return;
    }
    if (words != old)
        b->words = mem_grow(b->words, words, sizeof *b->words);
    if (words > old)
        memset(b->words + old, 0, (words - old) * sizeof *b->words);
    b->bits = bits;
    bitmap_mask_end(b);
}

void bitmap_fill(struct bitmap *b)
{
    if (!b->bits)
        return;
    memset(b->words, 0xff, bitmap_words(b->bits) * sizeof *b->words);
    bitmap_mask_end(b);
}

void bitmap_zero(struct bitmap *b)
{
    if (b->bits)
        memset(b->words, 0, bitmap_words(b->bits) * sizeof *b->words);
}

void bitmap_set_range(struct bitmap *b, size_t first, size_t last)
{
    for (size_t w = first / 64; first <= last && w <= last / 64; w++) {
        uint64_t mask = ~UINT64_C(0);

        if (w == first / 64)
            mask &= ~UINT64_C(0) << (first % 64);
        if (w == last / 64)
            mask &= ~UINT64_C(0) >> (63 - last % 64);
        b->words[w] |= mask;
    }
}

size_t bitmap_count(const struct bitmap *b)
{
    size_t n = 0;

    for (size_t w = 0; w < bitmap_words(b->bits); w++)
        n += (size_t)__builtin_popcountll(b->words[w]);
    return n;
}

bool bitmap_empty(const struct bitmap *b)
{
    return bitmap_first(b) == b->bits;
}

/* First set bit >= from. */
static size_t bitmap_from(const struct bitmap *b, size_t from)
{
    uint64_t word;

    if (from >= b->bits)
        return b->bits;
    word = b->words[from / 64] & (~UINT64_C(0) << (from % 64));
    for (size_t w = from / 64;;) {
        if (word)
            return w * 64 + (size_t)__builtin_ctzll(word);
        if (++w == bitmap_words(b->bits))
            return b->bits;
        word = b->words[w];
    }
}

size_t bitmap_first(const struct bitmap *b)
{
    return bitmap_from(b, 0);
}

size_t bitmap_next(const struct bitmap *b, size_t after)
{
    return bitmap_from(b, after + 1);
}

size_t bitmap_last(const struct bitmap *b)
{
    for (size_t w = bitmap_words(b->bits); w-- > 0;)
        if (b->words[w])
            return w * 64 + 63 - (size_t)__builtin_clzll(b->words[w]);
    return b->bits;
}

void bitmap_and(struct bitmap *a, const struct bitmap *b)
{
    for (size_t w = 0; w < bitmap_words(a->bits); w++)
        a->words[w] &= b->words[w];
}

void bitmap_or(struct bitmap *a, const struct bitmap *b)
{
    for (size_t w = 0; w < bitmap_words(a->bits); w++)
        a->words[w] |= b->words[w];
}

void bitmap_and_not(struct bitmap *a, const struct bitmap *b)
{
    for (size_t w = 0; w < bitmap_words(a->bits); w++)
        a->words[w] &= ~b->words[w];
}

bool bitmap_subset(const struct bitmap *a, const struct bitmap *of)
{
    for (size_t w = 0; w < bitmap_words(a->bits); w++)
        if (a->words[w] & ~of->words[w])
            return false;
    return true;
}

bool bitmap_overlap(const struct bitmap *a, const struct bitmap *b)
{
    for (size_t w = 0; w < bitmap_words(a->bits); w++)
        if (a->words[w] & b->words[w])
            return true;
    return false;
}

bool bitmap_equal(const struct bitmap *a, const struct bitmap *b)
{
    return a->bits == b->bits && (!a->bits || !memcmp(a->words, b->words, bitmap_words(a->bits) * sizeof *a->words));
}

int bitmap_parse(struct bitmap *b, const char *text, struct spur_error *err)
{
    const char *p = text;

    bitmap_zero(b);
    for (;;) {
        const char *start = p;
        uint64_t first, last, step = 1;
        int shown;

        if (!number_at(&p, &first))
            return spur_fail(err, SPUR_ESYNTAX, "\"%.60s\": a number is missing or too large at \"%.20s\"", text, start);
        last = first;
        if (*p == '-' && (p++, !number_at(&p, &last)))
            return spur_fail(err, SPUR_ESYNTAX, "\"%.60s\": a number is missing or too large at \"%.20s\"", text, start);
        if (*p == ':' && (p++, !number_at(&p, &step)))
            return spur_fail(err, SPUR_ESYNTAX, "\"%.60s\": a step is missing or too large at \"%.20s\"", text, start);
        if (*p && *p != ',')
            return spur_fail(err, SPUR_ESYNTAX, "\"%.60s\": unexpected text \"%.20s\"", text, p);
        shown = (int)(p - start) > 40 ? 40 : (int)(p - start);
        if (last < first)
            return spur_fail(err, SPUR_EINVAL, "\"%.60s\": %.*s runs backwards", text, shown, start);
        if (!step)
            return spur_fail(err, SPUR_EINVAL, "\"%.60s\": the step of %.*s is 0, it must be at least 1", text, shown, start);
        if (last >= b->bits)
            return spur_fail(err, SPUR_ELIMIT, "\"%.60s\": %llu is too large, the limit is %zu", text,
                             (unsigned long long)last, b->bits ? b->bits - 1 : 0);
        if (step == 1)
            bitmap_set_range(b, first, last);
        else
            for (size_t i = first;; i += step) {
                bitmap_set(b, i);
                if (last - i < step)
                    break;
            }
        if (!*p++)
            return 0;
    }
}

void bitmap_print(const struct bitmap *b, struct str *out)
{
    const char *comma = "";

    for (size_t i = bitmap_first(b), last; i < b->bits; i = bitmap_next(b, last), comma = ",") {
        for (last = i; bitmap_test(b, last + 1); last++)
            ;
        if (last == i)
            str_addf(out, "%s%zu", comma, i);
        else
            str_addf(out, "%s%zu-%zu", comma, i, last);
    }
}

/* Slurm takes the short form from six members on, and only when they span more than ten numbers (measured on 22.05). */
void bitmap_print_steps(const struct bitmap *b, struct str *out)
{
    size_t first = bitmap_first(b), last = bitmap_last(b), step = bitmap_next(b, first) - first, count = 1;

    for (size_t at = first; at != last; count++) {
        size_t next = bitmap_next(b, at);

        if (next >= b->bits || next - at != step)
            break;
        at = next;
    }
    if (step > 1 && count >= 6 && last - first > 10 && first + (count - 1) * step == last)
        str_addf(out, "%zu-%zu:%zu", first, last, step);
    else
        bitmap_print(b, out);
}
