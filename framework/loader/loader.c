/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - opens, reloads, closes and lists plugins. Finding one is find.c, trusting and loading a file is file.c, its
 * options are options.c, the services it sees are front.c.
 *
 * An instance outlives the configuration it was opened with: option values are copied, and keys of slurm.conf can be asked for
 * during open and reload only, as plugin.h says.
 */
#include <dirent.h>
#include <stdlib.h>

#include "base/str.h"
#include "config/config.h"
#include "loader/file.h"
#include "loader/find.h"
#include "loader/front.h"
#include "loader/inside.h"
#include "loader/loader.h"
#include "loader/options.h"

struct loaded_inside {
    struct front front;
    struct spur_conf *conf;
    struct plugin_file file;
};

/* The text of a plugin's section and where it stands; NULL: none. */
static const char *section_of(const struct loader_source *source, const char *name, char *file, size_t room, unsigned *line)
{
    const char *path, *slash;

    *line = 1;
    snprintf(file, room, "options");
    if (source->options || !source->cfg)
        return source->options;
    path = source->cfg->path;
    slash = path ? strrchr(path, '/') : NULL;
    snprintf(file, room, "%.*sspur.conf", slash ? (int)(slash + 1 - path) : 0, path ? path : "");
    return config_spur_section(source->cfg, name, line);
}

static int conf_of(const struct spur_plugin *desc, const char *name, const struct loader_source *source, struct spur_conf **out, struct spur_error *err)
{
    char file[300];
    unsigned line;
    const char *text = section_of(source, name, file, sizeof file, &line);

    return options_parse(desc, name, text, file, line, out, err);
}

/* What both ways of opening share; takes `file` over, also when it fails. */
static int open_checked(const struct spur_plugin *desc, struct plugin_file *take_file, const struct loader_source *source, const struct spur_host *host,
                        struct loaded **out, struct spur_error *err)
{
    struct loaded *l = mem_alloc(sizeof *l);
    struct spur_error why = { 0 };
    int rc;

    l->inside = mem_alloc(sizeof *l->inside);
    l->inside->file = *take_file;
    *take_file = (struct plugin_file){ 0 };
    l->desc = desc;
    l->path = l->inside->file.path;
    snprintf(l->name, sizeof l->name, "%s/%s", loader_kind_name((enum spur_kind)desc->kind), desc->name);
    front_init(&l->inside->front, l->name, host);

    if ((rc = conf_of(desc, l->name, source, &l->inside->conf, err)) < 0)
        goto failed;
    if (options_sha256(l->inside->conf) && !l->path) {
        rc = spur_fail(err, SPUR_EDENIED, "%s: refused: the configuration gives a sha256, but the plugin is built in: there is no file to check", l->name);
        goto failed;
    }
    l->inside->front.cfg = source->cfg;
    rc = desc->open(&l->inside->front.host, l->inside->conf, &l->self, &why);
    l->inside->front.cfg = NULL;
    if (rc != 0) {
        rc = spur_fail(err, rc < 0 ? rc : SPUR_EINVAL, "%s: does not open: %s%s%s%s", l->name, why.text[0] ? why.text : spur_code_text(rc),
                       l->path ? " (" : "", l->path ? l->path : "", l->path ? ")" : "");
        goto failed;
    }
    *out = l;
    return 0;

failed:
    l->desc = NULL;     /* no instance to close */
    loader_close(l);
    return rc;
}

/* Hash, then load: a file that was exchanged must not run at all. `name` NULL: only the source's own options are known. */
static int file_open_hashed(const struct loader_source *source, const char *path, const char *name, struct plugin_file *out, struct spur_error *err)
{
    char file[300], hex[128];
    unsigned line;
    int rc;

    options_peek_sha256(name ? section_of(source, name, file, sizeof file, &line) : source->options, hex, sizeof hex);
    if (hex[0] && ((rc = file_trusted(path, err)) < 0 || (rc = file_hash_is(path, hex, err)) < 0))
        return rc;
    return file_open(path, source->kind, name ? strchr(name, '/') + 1 : NULL, out, err);
}

static bool is_builtin(const struct spur_plugin *desc)
{
    for (size_t i = 0; loader_builtins[i]; i++)
        if (loader_builtins[i]->kind == desc->kind && strcmp(loader_builtins[i]->name, desc->name) == 0)
            return true;
    return false;
}

static int open_source(const struct loader_source *source, const struct spur_host *host, struct loaded **out, struct spur_error *err)
{
    struct plugin_file file = { 0 };
    struct found found;
    const struct spur_plugin *desc;
    enum spur_kind kind = source->kind;
    int rc;

    if (!source->wanted) {
        if ((rc = file_open_hashed(source, source->path, NULL, &file, err)) < 0)
            return rc;
        return open_checked(file.desc, &file, source, host, out, err);
    }
    if ((rc = find_plugin(kind, source->wanted, source->cfg, &found, err)) < 0)
        return rc;
    if (found.is_alias)
        loader_say(SPUR_LOG_INFO, "%s means %s here", source->wanted, found.name);
    if (found.builtin) {
        if ((rc = descriptor_check(found.builtin, kind, found.name, err)) < 0)
            return rc;
        desc = found.builtin;
    } else {
        if ((rc = file_open_hashed(source, found.path, found.name, &file, err)) < 0)
            return rc;
        desc = file.desc;
        loader_say(SPUR_LOG_INFO, "%s: %s is used%s", found.name, found.path, is_builtin(desc) ? " instead of the built-in one" : "");
    }
    return open_checked(desc, &file, source, host, out, err);
}

int loader_open_source(const struct loader_source *source, const struct spur_host *host, struct loaded **out, struct spur_error *err)
{
    int rc;

    loader_say_through(host);
    rc = open_source(source, host, out, err);
    loader_say_through(NULL);
    return rc;
}

int loader_open(enum spur_kind kind, const char *wanted, const struct config *cfg, const struct spur_host *host,
                struct loaded **out, struct spur_error *err)
{
    const struct loader_source source = { .kind = kind, .wanted = wanted ? wanted : "", .cfg = cfg };

    return loader_open_source(&source, host, out, err);
}

int loader_open_file(enum spur_kind kind, const char *path, const struct config *cfg, const struct spur_host *host,
                     struct loaded **out, struct spur_error *err)
{
    const struct loader_source source = { .kind = kind, .path = path, .cfg = cfg };

    return loader_open_source(&source, host, out, err);
}

void loader_close(struct loaded *l)
{
    if (!l)
        return;
    if (l->desc)
        l->desc->close(l->self);
    options_free(l->inside->conf);
    file_close(&l->inside->file);
    free(l->inside);
    free(l);
}

int loader_reload_source(struct loaded *l, const struct loader_source *source, struct spur_error *err)
{
    struct spur_conf *conf;
    struct spur_error why = { 0 };
    int rc;

    if ((rc = conf_of(l->desc, l->name, source, &conf, err)) < 0)
        return rc;
    if (l->desc->reload) {
        l->inside->front.cfg = source->cfg;
        rc = l->desc->reload(l->self, conf, &why);
        l->inside->front.cfg = NULL;
        if (rc != 0)
            rc = spur_fail(err, rc < 0 ? rc : SPUR_EINVAL, "%s: does not take the new options: %s", l->name, why.text[0] ? why.text : spur_code_text(rc));
    } else if (!options_equal(l->inside->conf, conf)) {
        rc = spur_fail(err, SPUR_ERESTART, "%s: its options have changed and it takes new ones at a start only", l->name);
    }
    if (rc < 0) {
        options_free(conf);
        return rc;
    }
    options_free(l->inside->conf);
    l->inside->conf = conf;
    return 0;
}

int loader_reload(struct loaded *l, const struct config *cfg, struct spur_error *err)
{
    const struct loader_source source = { .cfg = cfg };

    return loader_reload_source(l, &source, err);
}

int loader_resolve(enum spur_kind kind, const char *wanted, const struct config *cfg, struct loader_meaning *out, struct spur_error *err)
{
    struct found found;
    int rc;

    if ((rc = find_plugin(kind, wanted, cfg, &found, err)) < 0)
        return rc;
    *out = (struct loader_meaning){ .is_alias = found.is_alias, .is_builtin = found.builtin != NULL };
    snprintf(out->name, sizeof out->name, "%s", found.name);
    snprintf(out->path, sizeof out->path, "%s", found.path);
    return 0;
}

int loader_check_section(const struct config *cfg, size_t i, struct spur_error *err)
{
    const struct loader_source source = { .cfg = cfg };
    const char *name = cfg->sections[i].name, *slash = strchr(name, '/');
    struct plugin_file file = { 0 };
    struct spur_conf *conf = NULL;
    char kind[32];
    struct found found;
    int rc;

    snprintf(kind, sizeof kind, "%.*s", slash ? (int)(slash - name) : 0, name);
    if (loader_kind(kind) == SPUR_KIND_none)
        rc = spur_fail(err, SPUR_ENOTFOUND, "%.80s: the name of a plugin is KIND/NAME, as in select/topo", name);
    else if ((rc = find_plugin(loader_kind(kind), name, cfg, &found, err)) == 0 && !word_eq(found.name, name))
        rc = spur_fail(err, SPUR_EINVAL, "%.80s means %s, so the section must be plugin \"%s\"", name, found.name, found.name);
    else if (rc == 0 && !found.builtin)
        rc = file_open(found.path, loader_kind(kind), strchr(found.name, '/') + 1, &file, err);
    if (rc < 0)
        return spur_context(err, "spur.conf:%u", cfg->sections[i].line);
    rc = conf_of(found.builtin ? found.builtin : file.desc, found.name, &source, &conf, err);
    options_free(conf);
    file_close(&file);
    return rc;
}

/* "select_topo.so" -> "select/topo"; false when the name has no known kind. */
static bool name_of_file(const char *file_name, char *out, size_t room)
{
    const char *under = strchr(file_name, '_'), *dot = strrchr(file_name, '.');
    char kind[32];

    if (!under || !dot || dot < under || strcmp(dot, ".so") != 0 || (size_t)(under - file_name) >= sizeof kind)
        return false;
    snprintf(kind, sizeof kind, "%.*s", (int)(under - file_name), file_name);
    if (loader_kind(kind) == SPUR_KIND_none)
        return false;
    snprintf(out, room, "%s/%.*s", kind, (int)(dot - under - 1), under + 1);
    return true;
}

static void dir_list(const char *dir, void (*row)(void *arg, const struct loader_row *row), void *arg)
{
    struct dirent **names = NULL;
    int count = scandir(dir, &names, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        struct loader_row r = { 0 };
        struct plugin_file file;
        struct spur_error why;
        char name[80], path[512];
        bool is_ours;

        if (name_of_file(names[i]->d_name, name, sizeof name) && snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name) < (int)sizeof path &&
            file_looks(path, &is_ours) && is_ours) {
            char *slash = strchr(name, '/');

            r.name = name;
            r.path = path;
            *slash = '\0';
            if (file_open(path, loader_kind(name), slash + 1, &file, &why) < 0)
                r.refusal = why.text;
            else
                r.desc = file.desc;
            *slash = '/';
            row(arg, &r);
            if (r.desc)
                file_close(&file);
        }
        free(names[i]);
    }
    free(names);
}

void loader_list(const struct config *cfg, void (*row)(void *arg, const struct loader_row *row), void *arg)
{
    char **dirs;

    for (size_t i = 0; loader_builtins[i]; i++) {
        struct loader_row r = { .desc = loader_builtins[i] };
        struct found found;
        char name[80];

        snprintf(name, sizeof name, "%s/%s", loader_kind_name((enum spur_kind)r.desc->kind), r.desc->name);
        r.name = name;
        r.is_shadowed = find_plugin((enum spur_kind)r.desc->kind, r.desc->name, cfg, &found, NULL) == 0 && !found.builtin;
        row(arg, &r);
    }
    dirs = find_dirs(cfg);
    for (size_t i = 0; dirs[i]; i++)
        dir_list(dirs[i], row, arg);
    find_dirs_free(dirs);
}
