/* SPDX-License-Identifier: Apache-2.0 */
/* str.h - a growable text buffer, and the few word helpers that every reader of text needs (memory.c, str.c, word.c).
 *
 * Memory: mem_* end the process with one line when memory is out; state is durable and a restart is the cure. Sizes that
 * come from outside are checked against a limit before they reach mem_*.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);                               /* zeroed */
void *mem_array(size_t count, size_t size);                 /* zeroed, multiplication checked */
void *mem_grow(void *old, size_t count, size_t size);       /* realloc of an array; new part not zeroed */
char *mem_copy(const char *text);                           /* NULL gives NULL */
char *mem_copy_n(const char *text, size_t n);
void *mem_copy_bytes(const void *data, size_t n);

struct str {
    char  *text;        /* always terminated; never NULL after str_init */
    size_t len, cap;
};

void str_init(struct str *s);
void str_fini(struct str *s);
void str_clear(struct str *s);
void str_add(struct str *s, const char *text);
void str_add_n(struct str *s, const char *text, size_t n);
void str_add_char(struct str *s, char c);
void str_add_blanks(struct str *s, size_t n);
void str_add_number(struct str *s, uint64_t n);             /* decimal; what a table prints most */
void str_addf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* From byte `from` on, control characters become '?', as many as their bytes: what others have named neither breaks a line nor reaches a terminal. */
void str_printable(struct str *s, size_t from);
void str_vaddf(struct str *s, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
char *str_take(struct str *s);                              /* gives the text away (free() it); s is fresh again */

bool  word_eq(const char *a, const char *b);                /* without case, ASCII only; NULLs are unequal to all but NULL */
bool  word_starts(const char *text, const char *prefix);    /* without case */
char *word_trim(char *text);                                /* in place: blanks off both ends, returns the first other */
/* Next element of a list cut at any of `seps`, empty elements skipped; *cursor moves on, NULL at the end. Changes text. */
char *word_next(char **cursor, const char *seps);
/* The word of `words` (NULL-ended) nearest to `text` by edit distance, or NULL when none is near (distance > len/3 + 1). */
const char *word_nearest(const char *text, const char *const *words);
/* Text made safe for one log or table line: control characters and invalid UTF-8 become '?'. Into out, cut at a character edge. */
void  word_printable(const char *text, char *out, size_t out_size);
/* Bytes of the valid UTF-8 character at `text`, or 0: surrogates, overlong forms and what is over U+10FFFF are none. */
size_t utf8_char(const char *text, uint32_t *point);
/* Length in bytes of the longest prefix of text that shows at most `columns` characters (UTF-8; a bad byte counts as one). */
size_t utf8_cut(const char *text, size_t columns);
size_t utf8_columns(const char *text);

/* Whole-string numbers: false when empty, trailing text, sign or overflow. */
bool number_u32(const char *text, uint32_t *out);
bool number_u64(const char *text, uint64_t *out);
bool number_i64(const char *text, int64_t *out);
/* The digits at *cursor, which moves past them; false, and not moved, when there are none or too many. */
bool number_at(const char **cursor, uint64_t *out);
static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

#endif
