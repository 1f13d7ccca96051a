/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_plugstack.c - any bytes as plugstack.conf: rows are whole or there is a sentence with a line, and no word comes from nowhere. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "config/plugstack.h"
#include "fuzz.h"

static int included(void *arg, const char *pattern, struct plugstack *into, struct spur_error *err)
{
    (void)into;
    (void)err;
    FUZZ_HOLDS(pattern);
    ++*(size_t *)arg;
    return 0;
}

int fuzz_one(const uint8_t *data, size_t size)
{
    struct plugstack stack = { 0 };
    struct spur_error err = { 0 };
    char *exact = malloc(size + 1);
    size_t includes = 0, words = 0;

    memcpy(exact, data, size);
    arena_init(&stack.arena, 0);
    if (plugstack_parse(exact, size, "fuzz", &stack, included, &includes, &err) < 0)
        FUZZ_HOLDS(err.code < 0 && word_starts(err.text, "fuzz:"));
    for (size_t i = 0; i < stack.count; i++) {
        const struct plugstack_row *r = &stack.rows[i];

        FUZZ_HOLDS(r->file && r->line > 0 && r->argc >= 0 && r->argv[r->argc] == NULL);
        words += strlen(r->file);
        for (int k = 0; k < r->argc; k++)
            words += strlen(r->argv[k]);
    }
    FUZZ_HOLDS(words <= size);
    arena_fini(&stack.arena);
    free(exact);
    return 0;
}
