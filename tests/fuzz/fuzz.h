/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - what a fuzz entry defines, and the two things that every entry needs. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Looks at any bytes and returns 0. Ends the process, by FUZZ_HOLDS or a sanitizer, when the code under test is wrong. */
int fuzz_one(const uint8_t *data, size_t size);

/* The bytes as a text of their own, so that a sanitizer sees a read past their end; the caller frees it. */
char *fuzz_text(const uint8_t *data, size_t size);

#define FUZZ_HOLDS(condition) ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_broken(const char *condition, const char *file, int line);

#endif
