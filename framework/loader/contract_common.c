/* SPDX-License-Identifier: Apache-2.0 */
/* contract_common.c - promises of every plugin: it opens, describes itself, keeps its state on `self`, and leaves the process as it was. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/contract.h"
#include "loader/inside.h"
#include "loader/options.h"

extern char **environ;

/* First case: everything else needs it. */
static int opens(struct contract *c, struct spur_error *err)
{
    struct loaded *l;
    int rc = contract_open(c, &l, err);

    if (rc == 0)
        loader_close(l);
    return rc;
}

static bool is_line(const char *text)
{
    return text && *text && !strchr(text, '\n') && strlen(text) < 200;
}

static int describes_itself(struct contract *c, struct spur_error *err)
{
    const struct spur_option *row;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    CONTRACT_EXPECT(is_line(l->desc->about), "about is not one line of text");
    CONTRACT_EXPECT(is_line(l->desc->version), "version is not one line of text");
    for (size_t i = 0; (row = options_row(l->desc, i)); i++)
        CONTRACT_EXPECT(is_line(row->help), "option %s has no line of help", row->name);
    loader_close(l);
    return 0;
}

static int two_instances(struct contract *c, struct spur_error *err)
{
    struct loaded *a, *b;
    int rc;

    if ((rc = contract_open(c, &a, err)) < 0)
        return rc;
    if ((rc = contract_open(c, &b, err)) < 0)
        return spur_context(err, "a second instance beside the first");
    CONTRACT_EXPECT(!a->self || a->self != b->self, "two instances share one self");
    loader_close(a);
    if ((rc = contract_open(c, &a, err)) < 0)
        return spur_context(err, "a new instance after the first was closed");
    loader_close(b);
    loader_close(a);
    return 0;
}

static int closes_null(struct contract *c, struct spur_error *err)
{
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    l->desc->close(NULL);
    loader_close(l);
    return 0;
}

static int reloads(struct contract *c, struct spur_error *err)
{
    const struct loader_source source = { .options = c->target->options };
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    if (!l->desc->reload) {
        loader_close(l);
        return CONTRACT_SKIP;
    }
    rc = loader_reload_source(l, &source, err);
    CONTRACT_EXPECT(rc == 0 || rc == SPUR_ERESTART, "reload with the same options: %s", err->text);
    loader_close(l);
    return 0;
}

/* What a plugin could change behind the host's back. */
struct surroundings {
    void  (*handlers[NSIG])(int);
    mode_t mask;
    char   cwd[512];
    size_t variables, files, threads;
};

static size_t entries(const char *path)
{
    DIR *d = opendir(path);
    size_t n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void look_around(struct surroundings *s)
{
    *s = (struct surroundings){ 0 };
    for (int i = 1; i < NSIG; i++) {
        struct sigaction a = { 0 };

        if (sigaction(i, NULL, &a) == 0)
            s->handlers[i] = a.sa_handler;
    }
    s->mask = umask(022);
    umask(s->mask);
    if (!getcwd(s->cwd, sizeof s->cwd))
        s->cwd[0] = '\0';
    for (s->variables = 0; environ[s->variables]; s->variables++)
        ;
    s->files = entries("/proc/self/fd");
    s->threads = entries("/proc/self/task");
}

static int leaves_the_process_alone(struct contract *c, struct spur_error *err)
{
    struct surroundings first, before, open, after;
    struct loaded *l;
    int rc;

    look_around(&first);
    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    look_around(&open);
    loader_close(l);
    /* Files and threads are counted around a second instance: a library may keep something for good at its first use. */
    look_around(&before);
    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    loader_close(l);
    look_around(&after);
    for (int i = 1; i < NSIG; i++)
        CONTRACT_EXPECT(first.handlers[i] == open.handlers[i], "open sets a handler for signal %d", i);
    CONTRACT_EXPECT(first.mask == open.mask, "open changes the umask");
    CONTRACT_EXPECT(strcmp(first.cwd, open.cwd) == 0, "open changes the working folder");
    CONTRACT_EXPECT(first.variables == open.variables, "open changes the environment");
    CONTRACT_EXPECT(before.files == after.files, "%zu files are open before open, %zu after close", before.files, after.files);
    CONTRACT_EXPECT(before.threads == after.threads, "%zu threads run before open, %zu after close", before.threads, after.threads);
    return 0;
}

const struct contract_case contract_common[] = {
    { "opens", opens },
    { "describes itself", describes_itself },
    { "two instances", two_instances },
    { "close accepts NULL", closes_null },
    { "reload with the same options", reloads },
    { "leaves the process alone", leaves_the_process_alone },
    { 0 } };
