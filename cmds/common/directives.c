/* SPDX-License-Identifier: Apache-2.0 */
/* directives.c - the head of a batch script: lines "#SBATCH OPTIONS" before the first command.
 *
 * Measured on Slurm's sbatch: the word stands at the very start of the line, in capitals, and needs no blank behind it; blank lines and
 * comments, also indented ones, do not end the head, any other line does. Within a line words are apart by blanks; both kinds of quotes keep
 * blanks and #, and may stand inside a word; a backslash takes the next character as it is, also inside either quotes; an unquoted # ends
 * the line wherever it stands. Lines may be of any length, and the last one needs no newline.
 */
#include <string.h>

#include "cmds/common/directives.h"

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }

int script_check(const char *script, size_t n, struct spur_error *err)
{
    size_t i;

    if (n == 0)
        return spur_fail(err, SPUR_EINVAL, "Batch script is empty!");
    for (i = 0; i < n && (is_blank(script[i]) || script[i] == '\n'); i++)
        ;
    if (i == n)
        return spur_fail(err, SPUR_EINVAL, "Batch script contains only whitespace!");
    if (n < 2 || script[0] != '#' || script[1] != '!')
        return spur_fail(err, SPUR_EINVAL, "This does not look like a batch script.  The first\n"
                         "line must start with #! followed by the path to an interpreter.\nFor instance: #!/bin/sh");
    if (memchr(script, '\0', n))
        return spur_fail(err, SPUR_EINVAL, "The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'.");
    for (const char *at = script; (at = memchr(at, '\r', n - (size_t)(at - script))); at++)
        if (at + 1 < script + n && at[1] == '\n')
            return spur_fail(err, SPUR_EINVAL, "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n).");
    return 0;
}

/* Cuts text[0..n) into words, in place and ending in NULs; text has room for one byte more. Returns how many, or -1 for an open quote. */
static int words_cut(char *text, size_t n, struct arena *a, char ***argv)
{
    char *out = text;
    size_t count = 0, room = 8, i = 0;
    char **words = arena_alloc(a, room * sizeof *words);

    for (;;) {
        char quote = '\0';

        while (i < n && is_blank(text[i]))
            i++;
        if (i >= n || text[i] == '#')
            break;
        if (count + 2 > room) {
            char **more = arena_alloc(a, room * 2 * sizeof *words);

            memcpy(more, words, count * sizeof *words);
            words = more;
            room *= 2;
        }
        words[count++] = out;
        for (; i < n && (quote || (!is_blank(text[i]) && text[i] != '#')); i++) {
            if (text[i] == '\\' && i + 1 < n)
                *out++ = text[++i];
            else if (text[i] == '\\')
                continue;                   /* at the end of the line: nothing to take */
            else if (quote ? text[i] == quote : text[i] == '"' || text[i] == '\'')
                quote = quote ? '\0' : text[i];
            else
                *out++ = text[i];
        }
        if (quote)
            return -1;
        /* the byte under `out` has been read: at the latest it is the blank that ended the word, or the room at the end */
        if (i < n && text[i] == '#')
            n = i;
        i++;
        *out++ = '\0';
    }
    words[count] = NULL;
    *argv = words;
    return (int)count;
}

static bool starts(const char *line, size_t n, const char *word)
{
    size_t len = strlen(word);

    return n >= len && memcmp(line, word, len) == 0;
}

static bool is_command(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_blank(line[i]))
            return line[i] != '#';
    return false;
}

int directives_read(const char *script, size_t n, struct arena *a, struct directives *out, struct spur_error *err)
{
    const char *at = script, *end = script + n, *next;
    size_t room = 0;

    memset(out, 0, sizeof *out);
    for (size_t line = 1; at < end; line++, at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        struct directive d = { .line = line };
        char *text;

        next = newline ? newline + 1 : end;
        if ((starts(at, len, "#PBS") || starts(at, len, "#BSUB")) && !out->foreign_line) {
            out->foreign_line = line;
            out->foreign = at[1] == 'P' ? "#PBS" : "#BSUB";
        }
        if (starts(at, len, "#SLURM") && !out->misspelt_line)
            out->misspelt_line = line;
        if (!starts(at, len, "#SBATCH")) {
            if (is_command(at, len))
                break;
            continue;
        }
        text = arena_alloc(a, len - 7 + 2);
        memcpy(text, at + 7, len - 7);
        if ((d.argc = words_cut(text, len - 7, a, &d.argv)) < 0)
            return spur_fail(err, SPUR_EINVAL, "line %zu: a quote is not closed in [%.*s]", line, (int)(len - 7 < 80 ? len - 7 : 80), at + 7);
        if (d.argc == 0)
            continue;
        if (!out->hetjob_line && (!strcmp(d.argv[0], "hetjob") || !strcmp(d.argv[0], "packjob")))
            out->hetjob_line = line;
        if (out->count == room) {
            struct directive *rows = arena_alloc(a, (room ? room * 2 : 16) * sizeof *rows);

            if (room)
                memcpy(rows, out->rows, room * sizeof *rows);
            out->rows = rows;
            room = room ? room * 2 : 16;
        }
        out->rows[out->count++] = d;
    }
    return 0;
}
