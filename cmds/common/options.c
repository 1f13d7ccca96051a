/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the one reader of command lines, environments and directives over a command's table; see options.h.
 *
 * Not getopt_long: its messages cannot be Slurm's, it keeps global state between the command line and the directives of a script, and a
 * refused option must be told from an unknown one. Abbreviations work as getopt_long's do: an exact name wins, else a prefix of one row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/commands.h"
#include "cmds/common/options.h"

static bool list_has(const char *list, const char *word, size_t n)
{
    for (const char *p = list; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strncmp(p, word, n) == 0 && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

/* The first word of `list` that starts so; *n becomes its length. NULL: none. */
static const char *list_starts(const char *list, const char *word, size_t *n)
{
    for (const char *p = list; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strncmp(p, word, *n) == 0)
            return *n = strcspn(p, " "), p;
    return NULL;
}

/* Exact name, else the only row that starts so; *many: more than one does, refused names counted too. */
static const struct option_row *row_long(const struct option_table *t, const char *word, size_t n, bool *many)
{
    const struct option_row *found = NULL;

    *many = false;
    for (size_t i = 0; i < t->count; i++) {
        const struct option_row *r = &t->rows[i];

        if (!r->name || strncmp(r->name, word, n) != 0)
            continue;
        if (r->name[n] == '\0')
            return *many = false, r;
        if (found && (found->take != r->take || found->own != r->own))
            *many = true;
        found = found ? found : r;
    }
    if (list_has(t->refused, word, n))
        return *many = false, NULL;
    if (found && list_starts(t->refused, word, &n))
        *many = true;
    return *many ? NULL : found;
}

static const struct option_row *row_letter(const struct option_table *t, char letter)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].letter == letter)
            return &t->rows[i];
    return NULL;
}

static void where_print(const struct option_table *t, const char *where)
{
    fprintf(stderr, "%s: ", t->command);
    if (where)
        fprintf(stderr, "error: %s: ", where);
}

/* The last line of a complaint about the shape of an option, and the exit code. */
static int read_on(const struct option_table *t)
{
    fprintf(stderr, "Try \"%s --help\" for more information\n", t->command);
    return t->unknown_exit;
}

static int unknown(const struct option_table *t, const char *word, size_t n, const char *where)
{
    const char **names = mem_array(t->count + 1, sizeof *names);
    char name[128];
    const char *near;
    size_t k = 0;

    snprintf(name, sizeof name, "%.*s", (int)(n < 100 ? n : 100), word);
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].name && t->rows[i].take)
            names[k++] = t->rows[i].name;
    near = word_nearest(name, names);
    where_print(t, where);
    fprintf(stderr, "unrecognized option '--%s'%s%s%s\n", name, near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
    free(names);
    return read_on(t);
}

static int refused(const struct option_table *t, const char *name, size_t n, const char *where)
{
    fprintf(stderr, "%s: error: %s%snot supported yet: %s%.*s\n", t->command, where ? where : "", where ? ": " : "", n == 1 ? "-" : "--", (int)n, name);
    return 1;
}

static int take(const struct option_table *t, const struct option_row *r, const char *value, enum option_source from, const char *where, void *request)
{
    struct spur_error err = { 0 };

    if (r->take(r->own ? r->own : request, value, from, &err) < 0) {
        fprintf(stderr, "%s: error: %s%s%s\n", t->command, where ? where : "", where ? ": " : "", err.text);
        return err.code == SPUR_EINVAL || err.code == SPUR_EUNSUPPORTED ? 1 : t->unknown_exit;
    }
    return 0;
}

void options_help(const struct option_table *t)
{
    printf("%s\n", t->usage);
    for (size_t i = 0; i < t->count; i++) {
        const struct option_row *r = &t->rows[i];
        char left[80], letter[8] = "    ";

        if (!r->help || !r->take)
            continue;
        if (r->own && !t->rows[i - (i > 0)].own)
            printf("\nOptions provided by plugins:\n");
        if (r->letter)
            snprintf(letter, sizeof letter, "-%c%s", r->letter, r->name ? ", " : "  ");
        snprintf(left, sizeof left, "%s%s%s%s%s%s", letter, r->name ? "--" : "", r->name ? r->name : "",
                 r->argument >= OPTION_MAY ? "[=" : r->argument == OPTION_VALUE ? r->name ? "=" : " " : "",
                 r->argument == OPTION_NONE ? "" : r->value ? r->value : "VALUE", r->argument >= OPTION_MAY ? "]" : "");
        printf("  %-34s %s%s%s%s\n", left, r->help, r->env ? " [" : "", r->env ? r->env : "", r->env ? "]" : "");
    }
    printf("\n  %-34s %s\n  %-34s %s\n", "    --help", "this text", "-V, --version", "the Slurm generation this command speaks");
}

/* --autocomplete[=START]: the options as a shell would complete them, one a line; "=" behind those that take a value. */
static void options_words_print(const struct option_table *t, const char *start)
{
    size_t n = start ? strlen(start) : 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct option_row *r = &t->rows[i];

        if (!r->help || !r->take || !r->name)
            continue;
        if (!n || (n <= strlen(r->name) + 2 && !strncmp("--", start, n < 2 ? n : 2) && (n < 3 || !strncmp(r->name, start + 2, n - 2))))
            printf("--%s%s\n", r->name, r->argument == OPTION_VALUE ? "=" : "");
    }
    if (!n)
        puts("--help\n--version");
}

/* The word behind an option that may take it; "-" alone is one. */
static const char *next_if_word(const struct option_row *r, int argc, char **argv, int *i, int words)
{
    if (r->argument != OPTION_MAY_WORD || *i + 1 + words >= argc || (argv[*i + 1][0] == '-' && argv[*i + 1][1]))
        return NULL;
    return argv[++*i];
}

/* Reads the options of argv[from..]; shared by command line and directives. Words go to the end unless stops_at_word. */
static int read_words(const struct option_table *t, int argc, char **argv, int from, enum option_source source, const char *where, void *request, int *first)
{
    int words = 0, i = from, rc;

    for (; i + words < argc; i++) {
        char *arg = argv[i];

        if (strcmp(arg, "--") == 0) {
            i++;
            break;
        }
        if (arg[0] != '-' || arg[1] == '\0') {
            if (t->stops_at_word || source == FROM_SCRIPT)
                break;
            memmove(argv + i, argv + i + 1, (size_t)(argc - i - 1) * sizeof *argv);
            argv[argc - 1] = arg;
            words++;
            i--;
            continue;
        }
        if (arg[1] == '-') {
            size_t n = strcspn(arg + 2, "=");
            const char *value = arg[2 + n] == '=' ? arg + 3 + n : NULL;
            bool many;
            const struct option_row *r = row_long(t, arg + 2, n, &many);
            const char *known;
            size_t known_len = n;

            if (source == FROM_COMMAND_LINE && ((n == 4 && !strncmp(arg + 2, "help", 4)) || (n == 5 && !strncmp(arg + 2, "usage", 5)))) {
                options_help(t);
                return OPTIONS_DONE;
            }
            if (source == FROM_COMMAND_LINE && n == 7 && !strncmp(arg + 2, "version", 7)) {
                puts(SLURM_GENERATION);
                return OPTIONS_DONE;
            }
            if (source == FROM_COMMAND_LINE && n == 12 && !strncmp(arg + 2, "autocomplete", 12)) {
                options_words_print(t, value);
                return OPTIONS_DONE;
            }
            if (!r && !many && n > 0 && (known = list_starts(t->refused, arg + 2, &known_len)))
                return refused(t, known, known_len, where);
            if (many) {
                where_print(t, where);
                fprintf(stderr, "option '%.*s' is ambiguous\n", (int)n + 2, arg);
                return read_on(t);
            }
            if (!r)
                return unknown(t, arg + 2, n, where);
            if (!r->take)
                return refused(t, r->name, strlen(r->name), where);
            if (r->argument == OPTION_NONE && value) {
                where_print(t, where);
                fprintf(stderr, "option '--%s' doesn't allow an argument\n", r->name);
                return read_on(t);
            }
            if (r->argument == OPTION_VALUE && !value) {
                if (i + 1 + words >= argc) {
                    where_print(t, where);
                    fprintf(stderr, "option '--%s' requires an argument\n", r->name);
                    return read_on(t);
                }
                value = argv[++i];
            } else if (!value) {
                value = next_if_word(r, argc, argv, &i, words);
            }
            if ((rc = take(t, r, value, source, where, request)))
                return rc;
            continue;
        }
        for (char *p = arg + 1; *p; p++) {
            const struct option_row *r = row_letter(t, *p);
            const char *value = NULL;

            if (source == FROM_COMMAND_LINE && *p == 'V' && !r) {
                puts(SLURM_GENERATION);
                return OPTIONS_DONE;
            }
            if (source == FROM_COMMAND_LINE && *p == 'h' && !r) {
                options_help(t);
                return OPTIONS_DONE;
            }
            if (!r && t->refused_letters && strchr(t->refused_letters, *p))
                return refused(t, p, 1, where);
            if (!r) {
                where_print(t, where);
                fprintf(stderr, "invalid option -- '%c'\n", *p);
                return read_on(t);
            }
            if (!r->take)
                return refused(t, p, 1, where);
            if (r->argument != OPTION_NONE && p[1]) {
                value = p + 1 + (p[1] == '=' && r->argument >= OPTION_MAY);
            } else if (r->argument == OPTION_VALUE) {
                if (i + 1 + words >= argc) {
                    where_print(t, where);
                    fprintf(stderr, "option requires an argument -- '%c'\n", *p);
                    return read_on(t);
                }
                value = argv[++i];
            } else if (!p[1]) {
                value = next_if_word(r, argc, argv, &i, words);
            }
            if ((rc = take(t, r, value, source, where, request)))
                return rc;
            if (value)
                break;
        }
    }
    *first = i;
    return 0;
}

int options_read(const struct option_table *t, int argc, char **argv, void *request, int *first)
{
    return read_words(t, argc, argv, 1, FROM_COMMAND_LINE, NULL, request, first);
}

/* Slurm's rule for flags in the environment: set but empty, "yes", or a number other than 0. */
static bool flag_is_set(const char *value)
{
    uint64_t n;

    return !*value || word_eq(value, "yes") || (number_u64(value, &n) && n != 0);
}

static int refused_environment(const struct option_table *t)
{
    for (const char *p = t->refused_env; p && *p; p += strcspn(p, " "), p += strspn(p, " ")) {
        size_t n = strcspn(p, "="), option = strcspn(p + n + 1, " ");
        char name[64];
        const char *value;

        snprintf(name, sizeof name, "%.*s", (int)n, p);
        value = getenv(name);
        if (value && *value && strcmp(value, "0") && !word_eq(value, "no"))
            return refused(t, p + n + 1, option, name);
    }
    return 0;
}

int options_environment(const struct option_table *t, void *request)
{
    int refusal = refused_environment(t);

    if (refusal)
        return refusal;
    for (size_t i = 0; i < t->count; i++) {
        const struct option_row *r = &t->rows[i];
        const char *p = r->take ? r->env : NULL;

        while (p && *p) {
            char name[64];
            size_t n = strcspn(p, " ");
            const char *value;
            int rc;

            snprintf(name, sizeof name, "%.*s", (int)n, p);
            p += n + strspn(p + n, " ");
            value = getenv(name);
            if (!value || (!*value && r->argument == OPTION_VALUE))
                continue;
            if (r->argument == OPTION_NONE && !flag_is_set(value))
                break;
            if ((rc = take(t, r, *value && r->argument != OPTION_NONE ? value : NULL, FROM_ENVIRONMENT, name, request)))
                return rc;
            break;
        }
    }
    return 0;
}

int options_words(const struct option_table *t, int argc, char **argv, const char *where, void *request)
{
    int first, rc = read_words(t, argc, argv, 0, FROM_SCRIPT, where, request, &first);

    if (rc == 0 && first < argc) {
        fprintf(stderr, "%s: error: %s: Invalid directive found in batch script: %s\n", t->command, where, argv[first]);
        return t->unknown_exit;
    }
    return rc;
}
