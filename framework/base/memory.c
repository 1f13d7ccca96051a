/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - the mem_* calls: allocation that either succeeds or ends the process with one line.
 *
 * What matters is durable, so a restart is the cure, and no caller needs a path that was never tested. An overflow of
 * count * size is our own bug (sizes from outside are checked before) and ends the process in the same way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static _Noreturn void mem_out(size_t count, size_t size)
{
    fprintf(stderr, "spur: out of memory (asked for %zu * %zu bytes)\n", count, size);
    abort();
}

void *mem_alloc(size_t size)
{
    return mem_array(1, size);
}

void *mem_array(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);

    if (!p)
        mem_out(count, size);
    return p;
}

void *mem_grow(void *old, size_t count, size_t size)
{
    void *p = reallocarray(old, count ? count : 1, size ? size : 1);

    if (!p)
        mem_out(count, size);
    return p;
}

char *mem_copy(const char *text)
{
    return text ? mem_copy_bytes(text, strlen(text) + 1) : NULL;
}

char *mem_copy_n(const char *text, size_t n)
{
    char *copy = mem_grow(NULL, n + 1, 1);

    if (n)
        memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

void *mem_copy_bytes(const void *data, size_t n)
{
    void *copy = mem_grow(NULL, n, 1);

    if (n)
        memcpy(copy, data, n);
    return copy;
}
