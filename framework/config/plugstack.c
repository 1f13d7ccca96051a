/* SPDX-License-Identifier: Apache-2.0 */
/* plugstack.c - reads plugstack.conf, the stack of SPANK plugins.
 *
 * Read anew by each srun, sbatch and salloc and for each step on a node, so an edit acts on the next launch. Its grammar is its own: no KEY=VALUE, words
 * apart by blanks, one plugin a line. A line that cannot be read refuses the whole stack: half of a site's plugins (the half that keeps users
 * apart, say) must never be silently left out.
 */
#include "config/plugstack.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "config/source.h"

#define PLUGSTACK_BYTES (1u << 20)      /* of one file */
#define PLUGSTACK_ROWS  256
#define PLUGSTACK_WORDS 1024            /* of one line */
#define PLUGSTACK_DEPTH 8

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

/* The next word of [*at, end), unquoted, in the arena; NULL at the end of the line; *open: a quote is not closed. */
static char *next_word(const char **at, const char *end, struct arena *a, bool *open)
{
    const char *p = *at;
    char quote = '\0', *word, *out;

    while (p < end && is_blank(*p))
        p++;
    if (p == end || *p == '#') {
        *at = end;
        return NULL;
    }
    word = out = arena_alloc(a, (size_t)(end - p) + 1);
    for (; p < end && (quote || !is_blank(*p)); p++) {
        if (*p == '\\' && p + 1 < end)
            *out++ = *++p;
        else if (quote ? *p == quote : *p == '"' || *p == '\'')
            quote = quote ? '\0' : *p;
        else
            *out++ = *p;
    }
    *out = '\0';
    *open = quote != '\0';
    *at = p;
    return word;
}

static int row_add(struct plugstack *s, bool required, char **words, int count, const char *name, unsigned line, struct spur_error *err)
{
    struct plugstack_row *rows, *row;

    if (s->count == PLUGSTACK_ROWS)
        return spur_fail(err, SPUR_ELIMIT, "%.120s:%u: more than %u plugins", name, line, PLUGSTACK_ROWS);
    rows = arena_alloc(&s->arena, (s->count + 1) * sizeof *rows);
    if (s->count)
        memcpy(rows, s->rows, s->count * sizeof *rows);
    row = &rows[s->count];
    row->required = required;
    row->file = words[1];
    row->argc = count - 2;
    row->argv = arena_alloc(&s->arena, (size_t)(count - 1) * sizeof *row->argv);
    for (int i = 2; i < count; i++)
        row->argv[i - 2] = words[i];
    row->argv[row->argc] = NULL;
    row->from = arena_copy(&s->arena, name);
    row->line = line;
    s->rows = rows;
    s->count++;
    return 0;
}

static int take_line(const char *at, const char *end, const char *name, unsigned line, struct plugstack *into,
                     int (*include)(void *arg, const char *pattern, struct plugstack *into, struct spur_error *err), void *arg, struct spur_error *err)
{
    char *words[PLUGSTACK_WORDS], *word;
    bool open = false;
    int count = 0;

    while ((word = next_word(&at, end, &into->arena, &open))) {
        if (open)
            return spur_fail(err, SPUR_ESYNTAX, "%.120s:%u: a quote is not closed", name, line);
        if (count == PLUGSTACK_WORDS)
            return spur_fail(err, SPUR_ELIMIT, "%.120s:%u: more than %u words", name, line, PLUGSTACK_WORDS);
        words[count++] = word;
    }
    if (count == 0)
        return 0;
    if (word_eq(words[0], "include")) {
        if (count != 2)
            return spur_fail(err, SPUR_ESYNTAX, "%.120s:%u: include takes one file or pattern", name, line);
        if (!include)
            return spur_fail(err, SPUR_ESYNTAX, "%.120s:%u: nothing can be included here", name, line);
        return include(arg, words[1], into, err);
    }
    if (!word_eq(words[0], "required") && !word_eq(words[0], "optional"))
        return spur_fail(err, SPUR_ESYNTAX, "%.120s:%u: \"%.40s\": a line begins with required, optional or include", name, line, words[0]);
    if (count == 1)
        return spur_fail(err, SPUR_ESYNTAX, "%.120s:%u: %s needs the file of a plugin behind it", name, line, words[0]);
    return row_add(into, word_eq(words[0], "required"), words, count, name, line, err);
}

int plugstack_parse(const char *text, size_t n, const char *name, struct plugstack *into,
                    int (*include)(void *arg, const char *pattern, struct plugstack *into, struct spur_error *err), void *arg, struct spur_error *err)
{
    const char *at = text, *end = text + n;

    if (n && memchr(text, '\0', n))
        return spur_fail(err, SPUR_ESYNTAX, "%.120s: has a NUL byte, so it is no text", name);
    for (unsigned line = 1; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        int rc = take_line(at, newline ? newline : end, name, line, into, include, arg, err);

        if (rc < 0)
            return rc;
        at = newline ? newline + 1 : end;
    }
    return 0;
}

/* ---- files ---- */

struct reading { const char *folder; int depth; };

static int read_file(struct reading *r, const char *path, bool must, struct plugstack *into, struct spur_error *err);

/* A folder that is not there matches nothing; one that cannot be read may hide plugins. */
static int glob_ends(const char *path, int cause)
{
    (void)path;
    errno = cause;
    return cause != ENOENT && cause != ENOTDIR;
}

static int read_pattern(void *arg, const char *pattern, struct plugstack *into, struct spur_error *err)
{
    struct reading *r = arg;
    char path[2048];
    glob_t found;
    int rc = 0, got;

    if ((size_t)snprintf(path, sizeof path, "%s%s%s", *pattern == '/' ? "" : r->folder, *pattern == '/' ? "" : "/", pattern) >= sizeof path)
        return spur_fail(err, SPUR_ELIMIT, "include %.100s...: the name is too long", pattern);
    if (r->depth == PLUGSTACK_DEPTH)
        return spur_fail(err, SPUR_ELIMIT, "include %.160s: more than %d files deep; does a file include itself?", path, PLUGSTACK_DEPTH);
    got = glob(path, 0, glob_ends, &found);
    if (got == GLOB_NOMATCH)
        return 0;               /* an empty plugstack.conf.d is no error */
    if (got)
        return spur_fail(err, SPUR_EIO, "include %.160s: cannot be read: %s", path, strerror(errno));
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        struct stat st;

        if (stat(found.gl_pathv[i], &st) == 0 && S_ISDIR(st.st_mode))
            continue;
        r->depth++;
        rc = read_file(r, found.gl_pathv[i], true, into, err);
        r->depth--;
    }
    globfree(&found);
    return rc;
}

static int read_file(struct reading *r, const char *path, bool must, struct plugstack *into, struct spur_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0;
    struct stat st;
    size_t n = 0;
    ssize_t got;
    char *text;

    if (fd < 0)
        return errno == ENOENT && !must ? 0 : spur_fail(err, SPUR_EIO, "%.150s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        rc = spur_fail(err, SPUR_EINVAL, "%.150s: is no file", path);
    else if (st.st_size > (off_t)PLUGSTACK_BYTES)
        rc = spur_fail(err, SPUR_ELIMIT, "%.150s: has %lld bytes, more than %u", path, (long long)st.st_size, PLUGSTACK_BYTES);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    text = mem_alloc((size_t)st.st_size + 1);
    while (n < (size_t)st.st_size && (got = read(fd, text + n, (size_t)st.st_size - n)) != 0) {
        if (got < 0 && errno != EINTR) {
            rc = spur_fail(err, SPUR_EIO, "%.150s: %s", path, strerror(errno));
            break;
        }
        n += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (rc == 0)
        rc = plugstack_parse(text, n, path, into, read_pattern, r, err);
    free(text);
    return rc;
}

int plugstack_read(const char *path, struct plugstack *out, struct spur_error *err)
{
    char folder[1024];
    struct reading r = { .folder = folder };
    int rc;

    memset(out, 0, sizeof *out);
    arena_init(&out->arena, 0);
    source_folder(path, folder, sizeof folder);
    if ((rc = read_file(&r, path, false, out, err)) < 0)
        plugstack_fini(out);
    return rc;
}

void plugstack_fini(struct plugstack *p)
{
    arena_fini(&p->arena);
    p->rows = NULL;
    p->count = 0;
}

void plugstack_path(const char *slurm_conf, const char *configured, char *out, size_t size)
{
    char folder[1024];

    if (configured && *configured == '/') {
        snprintf(out, size, "%s", configured);
        return;
    }
    source_folder(slurm_conf, folder, sizeof folder);
    snprintf(out, size, "%s/%s", folder, configured && *configured ? configured : "plugstack.conf");
}

bool plugstack_hint(char *path, char *plugin_dir)
{
    char conf[1024], configured[512] = "";

    source_path(NULL, conf, sizeof conf);
    config_hint_plugins(conf, configured, sizeof configured, plugin_dir, 1024);
    plugstack_path(conf, configured, path, 1024);
    return access(path, F_OK) == 0;
}
