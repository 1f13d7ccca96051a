/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - memory that dies together, in blocks that double up to 64 KiB.
 *
 * The newest block stands first; an allocation that does not fit gets a block of its own behind it, so that the room
 * left in the first is not wasted. The cap counts bytes given out, rounded up, not what the blocks take.
 */
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"

#define ARENA_ALIGN alignof(max_align_t)
#define ARENA_FIRST 1024u
#define ARENA_LARGEST 65536u

struct arena_block {
    struct arena_block *next;
    size_t size, used;
    alignas(max_align_t) char data[];
};

void arena_init(struct arena *a, size_t cap)
{
    *a = (struct arena){ .cap = cap };
}

static void arena_free(struct arena_block *b)
{
    while (b) {
        struct arena_block *next = b->next;

        free(b);
        b = next;
    }
}

void arena_fini(struct arena *a)
{
    arena_free(a->blocks);
    a->blocks = NULL;
    a->used = 0;
}

void arena_reset(struct arena *a)
{
    a->used = 0;
    if (!a->blocks)
        return;
    arena_free(a->blocks->next);
    a->blocks->next = NULL;
    a->blocks->used = 0;
}

/* Memory of blocks is not cleared beforehand: a block kept by arena_reset is dirty, so each allocation clears its own. */
static struct arena_block *arena_grow(struct arena *a, size_t size)
{
    size_t room = a->blocks ? a->blocks->size * 2 : ARENA_FIRST;
    struct arena_block *b;

    if (room > ARENA_LARGEST)
        room = ARENA_LARGEST;
    if (size > room / 2)
        room = size;
    b = mem_grow(NULL, sizeof *b + room, 1);
    b->size = room;
    b->used = 0;
    if (room == size && a->blocks) {
        b->next = a->blocks->next;
        a->blocks->next = b;
    } else {
        b->next = a->blocks;
        a->blocks = b;
    }
    return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
    struct arena_block *b = a->blocks;
    char *p;

    if (size > SIZE_MAX / 2 || (a->cap && size > a->cap))
        return a->cap ? NULL : mem_alloc(size);    /* mem_alloc ends the process: no arena holds that much */
    size = size ? (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1) : ARENA_ALIGN;
    if (a->cap && size > a->cap - a->used)
        return NULL;
    if (!b || size > b->size - b->used)
        b = arena_grow(a, size);
    p = b->data + b->used;
    b->used += size;
    a->used += size;
    return memset(p, 0, size);
}

char *arena_copy(struct arena *a, const char *text)
{
    return text ? arena_copy_bytes(a, text, strlen(text) + 1) : NULL;
}

void *arena_copy_bytes(struct arena *a, const void *data, size_t n)
{
    void *p = arena_alloc(a, n);

    if (p && n)
        memcpy(p, data, n);
    return p;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list args;
    char *p = NULL;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && (p = arena_alloc(a, (size_t)n + 1))) {
        va_start(args, format);
        vsnprintf(p, (size_t)n + 1, format, args);
        va_end(args);
    }
    return p;
}
