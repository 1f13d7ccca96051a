/* SPDX-License-Identifier: Apache-2.0 */
/* directives.h - is this text a batch script, and what do its #SBATCH lines say? A pure function over bytes. */
#ifndef CMDS_COMMON_DIRECTIVES_H
#define CMDS_COMMON_DIRECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <spur/error.h>

#include "base/arena.h"

/* 0, or why sbatch refuses it, in Slurm's words, without a dot too many: err.text may hold several lines. */
int script_check(const char *script, size_t n, struct spur_error *err);

struct directive {
    size_t line;                /* from 1 */
    int    argc; char **argv;   /* words of the line; argv[argc] is NULL */
};
struct directives {
    struct directive *rows; size_t count;
    size_t foreign_line;        /* first #PBS or #BSUB line among them; 0: none */
    const char *foreign;        /* "#PBS" */
    size_t hetjob_line;         /* first line that starts another component; 0: none */
    size_t misspelt_line;       /* first #SLURM line; 0: none */
};
/* Words are in the arena. err: a quote that is not closed, with its line. */
int directives_read(const char *script, size_t n, struct arena *a, struct directives *out, struct spur_error *err);

#endif
