/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - reads configuration files and flattens their includes into one text.
 *
 * The flat text is what the log carries: any replica can read it again without the files. Each file begins with a comment "#@ LINE NAME", and so does
 * the rest of a file behind an include, so that every message can name the right line. Names are relative to the main file, for the
 * text should be the same on controllers that keep it in different folders. Include takes %c for the cluster's name, no wildcards, as in Slurm.
 */
#include "config/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/lex.h"

#define INCLUDE_DEPTH 10

void source_path(const char *path, char *out, size_t size)
{
    const char *env = getenv("SLURM_CONF");

    if (path && *path)
        snprintf(out, size, "%s", path);
    else if (env && *env)
        snprintf(out, size, "%s", env);
    else {
        snprintf(out, size, "%s/slurm.conf", SPUR_SYSCONFDIR);
        if (access(out, R_OK) < 0)
            snprintf(out, size, "/etc/slurm/slurm.conf");
    }
}

void source_folder(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        snprintf(out, size, ".");
    else
        snprintf(out, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static void join(const char *dir, const char *name, struct str *out)
{
    str_clear(out);
    if (*name == '/')
        str_add(out, name);
    else
        str_addf(out, "%s%s%s", dir, *dir && dir[strlen(dir) - 1] != '/' ? "/" : "", name);
}

bool source_exists(const char *dir, const char *name)
{
    struct str path;
    bool is;

    str_init(&path);
    join(dir, name, &path);
    is = access(path.text, F_OK) == 0;
    str_fini(&path);
    return is;
}

int source_read_plain(const char *dir, const char *name, struct str *out, struct spur_error *err)
{
    struct str path;
    struct stat st;
    char buf[16384];
    ssize_t n;
    int fd = -1, rc = 0;

    str_init(&path);
    join(dir, name, &path);
    if ((fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(fd, &st) < 0) {
        rc = spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%.150s: %s", path.text, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = spur_fail(err, SPUR_EIO, "%.150s: not a file", path.text);
        goto out;
    }
    while ((n = read(fd, buf, sizeof buf)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = spur_fail(err, SPUR_EIO, "%.150s: %s", path.text, strerror(errno));
            goto out;
        }
        if (memchr(buf, 0, (size_t)n)) {
            rc = spur_fail(err, SPUR_ESYNTAX, "%.150s: holds a zero byte, so it is not a text", path.text);
            goto out;
        }
        if (out->len + (size_t)n > SOURCE_MAX) {
            rc = spur_fail(err, SPUR_ELIMIT, "%.150s: with its includes larger than %u MiB", path.text, SOURCE_MAX >> 20);
            goto out;
        }
        str_add_n(out, buf, (size_t)n);
    }
out:
    if (fd >= 0)
        close(fd);
    str_fini(&path);
    return rc;
}

struct flatten {
    const char *dir;
    char  cluster[128];     /* from the last ClusterName line, for %c */
    struct str *out;
};

static void cluster_learn(struct flatten *f, const char *line)
{
    struct lex_pair pair;
    char *copy, *cursor;

    if (!word_starts(line, "clustername"))
        return;
    copy = cursor = mem_copy(line);
    if (lex_pair(&cursor, &pair) > 0 && word_eq(pair.key, "ClusterName")) {
        snprintf(f->cluster, sizeof f->cluster, "%s", pair.value);
        for (char *p = f->cluster; *p; p++)
            *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
    }
    free(copy);
}

static void name_expand(const struct flatten *f, const char *name, struct str *out)
{
    for (; *name; name++) {
        if (*name == '%' && name[1] == 'c') {
            str_add(out, f->cluster);
            name++;
        } else if (*name != '"') {
            str_add_char(out, *name);
        }
    }
}

/* A name in an included file means the file beside that one, as in Slurm; if there is none, the one beside the main file. */
static void name_place(const struct flatten *f, const char *from, struct str *name)
{
    const char *slash = strrchr(from, '/');
    struct str beside;

    if (!slash || name->text[0] == '/')
        return;
    str_init(&beside);
    str_add_n(&beside, from, (size_t)(slash + 1 - from));
    str_add(&beside, name->text);
    if (source_exists(f->dir, beside.text)) {
        str_clear(name);
        str_add(name, beside.text);
    }
    str_fini(&beside);
}

static int flatten(struct flatten *f, const char *name, int depth, struct spur_error *err)
{
    struct str text, inner;
    struct lex lex;
    const char *from;
    char *include;
    int rc;

    str_init(&text);
    str_init(&inner);
    lex_init(&lex, "", name, 1);
    if (depth > INCLUDE_DEPTH) {
        rc = spur_fail(err, SPUR_ELIMIT, "files include each other more than %d deep", INCLUDE_DEPTH);
        goto out;
    }
    if ((rc = source_read_plain(f->dir, name, &text, err)) < 0)
        goto out;
    lex_fini(&lex);
    lex_init(&lex, text.text, name, 1);
    str_addf(f->out, "#@ 1 %s\n", name);
    from = lex.at;
    while ((rc = lex_line(&lex, err)) > 0) {
        if (!(include = lex_include(&lex))) {
            cluster_learn(f, lex.buf.text);
            str_add_n(f->out, from, (size_t)(lex.at - from));
            from = lex.at;
            continue;
        }
        from = lex.at;
        str_clear(&inner);
        name_expand(f, include, &inner);
        if (inner.len)
            name_place(f, name, &inner);
        if ((rc = flatten(f, inner.text, depth + 1, err)) < 0) {
            spur_context(err, "%.80s line %u: include", name, lex.line);
            goto out;
        }
        str_addf(f->out, "#@ %u %s\n", lex.next, name);
    }
    if (rc < 0)
        goto out;
    str_add(f->out, from);
    if (f->out->len && f->out->text[f->out->len - 1] != '\n')
        str_add_char(f->out, '\n');
    if (f->out->len > SOURCE_MAX)
        rc = spur_fail(err, SPUR_ELIMIT, "%.80s: with its includes larger than %u MiB", name, SOURCE_MAX >> 20);
out:
    lex_fini(&lex);
    str_fini(&text);
    str_fini(&inner);
    return rc;
}

int source_read(const char *dir, const char *name, struct str *out, struct spur_error *err)
{
    struct flatten f = { .dir = dir, .out = out };

    return flatten(&f, name, 0, err);
}
