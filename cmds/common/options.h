/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - one table of options a command: name, letter, argument, environment twin, help, what it does.
 *
 * The table is everything: parsing, the environment's values, --help, the list of options that Slurm knows and spur does not do yet, and
 * the completions are made from it. A row with `take` NULL is known to Slurm and refused: "not supported yet: --x", exit 1. A
 * word that stands in no row is refused with the nearest known one, with the exit code Slurm's command uses (255 for the submitting
 * ones, 1 for the others).
 */
#ifndef CMDS_COMMON_OPTIONS_H
#define CMDS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <spur/error.h>

/* OPTION_MAY: --x or --x=value. OPTION_MAY_WORD: also --x value and -x value, when the next word is no option (squeue -j). */
enum option_argument { OPTION_NONE, OPTION_VALUE, OPTION_MAY, OPTION_MAY_WORD };

enum option_source { FROM_COMMAND_LINE, FROM_ENVIRONMENT, FROM_SCRIPT };

struct option_row {
    const char *name;           /* long name without dashes; NULL: a letter only */
    char        letter;         /* 0: none */
    enum option_argument argument;
    const char *value;          /* word for the value in --help: "N", "FILE"; NULL for none */
    const char *env;            /* environment twins, blank-separated, the first set one counts: "SBATCH_TIMELIMIT"; NULL: none */
    /* Takes the value (NULL when there is none) into `request`; err and a negative code when it is wrong: SPUR_EINVAL and SPUR_EUNSUPPORTED
     * exit 1, others the table's unknown_exit. */
    int       (*take)(void *request, const char *value, enum option_source from, struct spur_error *err);
    const char *help;           /* one line; NULL: not shown (old or alternate names) */
    void       *own;            /* of a plugin's row: handed to `take` instead of the request; such rows stand last */
};

struct option_table {
    const char *command;                    /* "sbatch": for messages */
    const char *usage;                      /* first lines of --help */
    const struct option_row *rows; size_t count;
    const char *refused;                    /* names Slurm knows and this command does not do yet, blank-separated: "bb bbf x11" */
    const char *refused_letters;
    int         unknown_exit;               /* exit code for unknown options */
    bool        stops_at_word;              /* the first word that is no option ends the options (sbatch, srun) */
    const char *refused_env;                /* twins of refused options, "VARIABLE=option" blank-separated; set to anything but 0 or no: refused */
};

/* Reads argv from argv[1]. Options may be --name value, --name=value, unambiguous prefixes, -xvalue, -x value, bundled letters.
 * *first: index of the first word that is no option (words are moved behind the options unless stops_at_word). On failure
 * prints the sentence and a hint to stderr as Slurm's commands do and returns the exit code to use; 0 when fine. --help, --usage and
 * --version print and return OPTIONS_DONE. --autocomplete prints the long options for a shell's completion. */
#define OPTIONS_DONE (-1)
int options_read(const struct option_table *t, int argc, char **argv, void *request, int *first);
/* The environment twins of all rows; a flag is set by an empty value, "yes" or a number other than 0. Returns the exit code to use, 0 when fine. */
int options_environment(const struct option_table *t, void *request);
/* One line's worth of words, as in a script's directive; where: "script.sh:3". Returns the exit code to use, 0 when fine. */
int options_words(const struct option_table *t, int argc, char **argv, const char *where, void *request);
void options_help(const struct option_table *t);

#endif
