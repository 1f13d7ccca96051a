/* SPDX-License-Identifier: Apache-2.0 */
/* programs.c - reads the file of srun --multi-prog, as srun's manual has it.
 *
 *     # comment in the first column
 *     4-6       hostname
 *     1,7       echo task:%t
 *     0,2-3     echo  offset:%o 'not %t'
 *     *         sh -c "exit 3"        \
 *               and more words
 *
 * Ranks, then the program and its arguments, cut at blanks; both kinds of quotes keep blanks, between single ones nothing is written out; a backslash
 * takes the next character as it is, at the end of a line it joins the next one. %t is the number of the task, %o its place among the ranks of its line, from 0.
 * `*` is for all tasks that no line before has named. A task that two lines name is refused: one of them would never run.
 */
#include "state/programs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct line { const char *at, *end; unsigned number; };     /* one logical line, without its end */

/* The next line that says something. */
static bool line_next(const char **cursor, unsigned *number, struct line *l)
{
    while (**cursor) {
        l->at = *cursor;
        l->number = ++*number;
        for (l->end = l->at; *l->end && *l->end != '\n'; l->end++)
            if (l->end[0] == '\\' && l->end[1] == '\n') {
                l->end++;
                ++*number;
            }
        *cursor = l->end + (*l->end == '\n');
        if (l->end > l->at && l->end[-1] == '\r')
            l->end--;
        if (*l->at == '#')
            continue;
        while (l->at < l->end && strchr(" \t\\\n", *l->at) && *l->at)
            l->at++;
        if (l->at < l->end)
            return true;
    }
    return false;
}

/* Reads "4-6,9" at *at: 1 and the task's place among them, 0 when it is not. */
static int ranks_find(const struct line *l, const char **at, uint32_t task, uint32_t *offset, struct spur_error *err)
{
    const char *p = l->at;
    uint64_t before = 0;
    int found = 0;

    if (*p == '*' && (p + 1 == l->end || strchr(" \t", p[1]))) {
        *at = p + 1;
        *offset = task;
        return 1;
    }
    for (;;) {
        uint64_t first, last;

        if (!number_at(&p, &first) || first > UINT32_MAX)
            break;
        last = first;
        if (*p == '-') {
            p++;
            if (!number_at(&p, &last) || last > UINT32_MAX || last < first)
                break;
        }
        if (!found && task >= first && task <= last) {
            found = 1;
            *offset = (uint32_t)(before + task - first);
        }
        before += last - first + 1;
        if (p >= l->end || *p == ' ' || *p == '\t') {
            *at = p;
            return found;
        }
        if (*p++ != ',')
            break;
    }
    return spur_fail(err, SPUR_EINVAL, "line %u: \"%.*s\" is no list of tasks (such as 0,2-4 or *)", l->number, (int)(l->end - l->at < 40 ? l->end - l->at : 40), l->at);
}

/* One word at *at, behind blanks. 0: there is none. */
static int word_read(const struct line *l, const char **at, uint32_t task, uint32_t offset, struct str *out, struct spur_error *err)
{
    const char *p = *at;
    char quote = 0;

    while (p < l->end && (*p == ' ' || *p == '\t' || (p[0] == '\\' && p + 1 < l->end && p[1] == '\n')))
        p += *p == '\\' ? 2 : 1;
    if (p == l->end)
        return 0;
    for (; p < l->end && (quote || (*p != ' ' && *p != '\t')); p++) {
        if (quote != '\'' && *p == '\\' && p + 1 < l->end) {
            p++;
            if (*p != '\n')
                str_add_char(out, *p);
        } else if (quote ? *p == quote : *p == '\'' || *p == '"') {
            quote = quote ? 0 : *p;
        } else if (quote != '\'' && *p == '%' && p + 1 < l->end && (p[1] == 't' || p[1] == 'o')) {
            str_addf(out, "%u", *++p == 't' ? task : offset);
        } else {
            str_add_char(out, *p);
        }
    }
    *at = p;
    return quote ? spur_fail(err, SPUR_EINVAL, "line %u: a quote (%c) is not closed", l->number, quote) : 1;
}

static int words_read(const struct line *l, const char *at, uint32_t task, uint32_t offset, struct arena *a, char ***argv, size_t *argc, struct spur_error *err)
{
    char **words = NULL;
    size_t n = 0;
    struct str word;
    int rc;

    str_init(&word);
    while ((rc = word_read(l, &at, task, offset, &word, err)) > 0) {
        words = mem_grow(words, n + 2, sizeof *words);
        words[n++] = arena_copy(a, word.text);
        words[n] = NULL;
        str_clear(&word);
    }
    str_fini(&word);
    if (rc == 0 && n == 0)
        rc = spur_fail(err, SPUR_EINVAL, "line %u: no program behind the tasks", l->number);
    if (rc == 0) {
        *argv = arena_copy_bytes(a, words, (n + 1) * sizeof *words);
        *argc = n;
    }
    free(words);
    return rc;
}

int programs_task(const char *text, uint32_t task, struct arena *a, char ***argv, size_t *argc, struct spur_error *err)
{
    unsigned number = 0;
    struct line l;

    while (line_next(&text, &number, &l)) {
        uint32_t offset = 0;
        const char *at = l.at;
        int rc = ranks_find(&l, &at, task, &offset, err);

        if (rc < 0)
            return rc;
        if (rc)
            return words_read(&l, at, task, offset, a, argv, argc, err);
    }
    return spur_fail(err, SPUR_ENOTFOUND, "No executable program specified for this task: task %u is in no line of the file", task);
}

int programs_check(const char *text, uint32_t ntasks, struct spur_error *err)
{
    unsigned *named = mem_array((size_t)ntasks + 1, sizeof *named), number = 0;
    struct arena a;
    struct line l;
    int rc = 0;

    arena_init(&a, 0);
    while (rc == 0 && line_next(&text, &number, &l)) {
        bool is_rest = *l.at == '*';
        const char *at = l.at;
        uint32_t offset = 0;
        char **argv;
        size_t argc;

        for (uint32_t t = 0; rc == 0 && t < ntasks; t++) {
            int found = ranks_find(&l, &at, t, &offset, err);

            if (found < 0)
                rc = found;
            else if (found && named[t] && !is_rest)
                rc = spur_fail(err, SPUR_EINVAL, "line %u: task %u has a program in line %u already", l.number, t, named[t]);
            else if (found && !named[t])
                named[t] = l.number;
        }
        if (rc == 0)
            rc = words_read(&l, at, 0, 0, &a, &argv, &argc, err);
    }
    for (uint32_t t = 0; rc == 0 && t < ntasks; t++)
        if (!named[t])
            rc = spur_fail(err, SPUR_ENOTFOUND, "No executable program specified for this task: task %u is in no line of the file", t);
    arena_fini(&a);
    free(named);
    return rc;
}
