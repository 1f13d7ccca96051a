/* SPDX-License-Identifier: Apache-2.0 */
/* bitmap.h - fixed-size sets of small integers (nodes, cores, GPUs, array tasks) in 64-bit words.
 * Plain words, so that plugins see the same layout (spur/view.h). Bits past `bits` are always 0. */
#ifndef BASE_BITMAP_H
#define BASE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct bitmap {
    size_t    bits;
    uint64_t *words;
};

static inline size_t bitmap_words(size_t bits) { return (bits + 63) / 64; }
void   bitmap_init(struct bitmap *b, size_t bits);              /* all clear; owns words */
void   bitmap_fini(struct bitmap *b);
void   bitmap_copy(struct bitmap *to, const struct bitmap *from);   /* to: initialised, any size; becomes the same size */
void   bitmap_resize(struct bitmap *b, size_t bits);            /* new bits clear */
void   bitmap_fill(struct bitmap *b);
void   bitmap_zero(struct bitmap *b);
static inline bool bitmap_test(const struct bitmap *b, size_t i) { return i < b->bits && (b->words[i / 64] >> (i % 64) & 1); }
static inline void bitmap_set(struct bitmap *b, size_t i) { b->words[i / 64] |= UINT64_C(1) << (i % 64); }
static inline void bitmap_clear(struct bitmap *b, size_t i) { b->words[i / 64] &= ~(UINT64_C(1) << (i % 64)); }
void   bitmap_set_range(struct bitmap *b, size_t first, size_t last);
size_t bitmap_count(const struct bitmap *b);
bool   bitmap_empty(const struct bitmap *b);
size_t bitmap_first(const struct bitmap *b);                    /* b->bits when empty */
size_t bitmap_next(const struct bitmap *b, size_t after);       /* first set bit > after; b->bits at the end */
size_t bitmap_last(const struct bitmap *b);                     /* b->bits when empty */
void   bitmap_and(struct bitmap *a, const struct bitmap *b);    /* same size */
void   bitmap_or(struct bitmap *a, const struct bitmap *b);
void   bitmap_and_not(struct bitmap *a, const struct bitmap *b);
bool   bitmap_subset(const struct bitmap *a, const struct bitmap *of);
bool   bitmap_overlap(const struct bitmap *a, const struct bitmap *b);
bool   bitmap_equal(const struct bitmap *a, const struct bitmap *b);

/* Lists as people write them: "0-3,8,10-20:2". Parse refuses numbers >= b->bits, reversed ranges, step 0, empty text. */
struct spur_error;
int  bitmap_parse(struct bitmap *b, const char *text, struct spur_error *err);
void bitmap_print(const struct bitmap *b, struct str *out);             /* "0-3,8" */
void bitmap_print_steps(const struct bitmap *b, struct str *out);       /* as Slurm shows arrays: "0-98:2", but "1,3,5" */

#endif
