/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_directives.c - any bytes as a batch script: its #SBATCH lines are cut without reading past it, and what follows the first command says nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/common/directives.h"
#include "fuzz.h"

static void same(const struct directives *a, const struct directives *b)
{
    FUZZ_HOLDS(a->count == b->count && a->foreign_line == b->foreign_line && a->hetjob_line == b->hetjob_line && a->misspelt_line == b->misspelt_line);
    for (size_t i = 0; i < a->count; i++) {
        FUZZ_HOLDS(a->rows[i].line == b->rows[i].line && a->rows[i].argc == b->rows[i].argc && a->rows[i].argc > 0);
        FUZZ_HOLDS(a->rows[i].argv[a->rows[i].argc] == NULL);
        for (int k = 0; k < a->rows[i].argc; k++)
            FUZZ_HOLDS(strcmp(a->rows[i].argv[k], b->rows[i].argv[k]) == 0);
    }
}

int fuzz_one(const uint8_t *data, size_t size)
{
    static const char tail[] = "\ntrue\n#SBATCH --nodes=9 \"open\n#PBS -N x\n#SLURM\n";
    struct directives first, second;
    struct spur_error err = { 0 };
    struct arena a, b;
    char *exact = malloc(size + 1), *longer = malloc(size + sizeof tail);
    size_t words = 0;

    memcpy(exact, data, size);
    memcpy(longer, data, size);
    memcpy(longer + size, tail, sizeof tail);
    arena_init(&a, 0);
    arena_init(&b, 0);
    if (script_check(exact, size, &err) < 0)
        FUZZ_HOLDS(err.code < 0 && *err.text);
    if (directives_read(exact, size, &a, &first, &err) == 0) {
        FUZZ_HOLDS(directives_read(longer, size + sizeof tail - 1, &b, &second, &err) == 0);
        same(&first, &second);
        for (size_t i = 0; i < first.count; i++)
            for (int k = 0; k < first.rows[i].argc; k++)
                words += strlen(first.rows[i].argv[k]);
        FUZZ_HOLDS(words <= size);
    } else {
        FUZZ_HOLDS(err.code < 0 && strstr(err.text, "line "));
    }
    arena_fini(&a);
    arena_fini(&b);
    free(exact);
    free(longer);
    return 0;
}
