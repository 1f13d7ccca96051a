/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that dies together: everything decoded from one message, everything one pass needs.
 * With a cap, arena_alloc returns NULL beyond it (decoding outside data); without, it never returns NULL. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *blocks;
    size_t used, cap;           /* bytes given out; cap 0: no limit */
};

void  arena_init(struct arena *a, size_t cap);
void  arena_fini(struct arena *a);
void  arena_reset(struct arena *a);                     /* keeps one block */
void *arena_alloc(struct arena *a, size_t size);        /* zeroed, aligned for anything */
char *arena_copy(struct arena *a, const char *text);    /* NULL gives NULL */
void *arena_copy_bytes(struct arena *a, const void *data, size_t n);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
