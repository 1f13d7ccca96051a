/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - from a configured name to one built-in descriptor or one file, in the order that loader.h promises.
 *
 * Both PluginDir and the folder of this installation are looked in: an old slurm.conf names Slurm's own folder, whose files are passed
 * over, and the modules that came with spur (auth/munge) must still be found.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "base/str.h"
#include "loader/file.h"
#include "loader/find.h"
#include "loader/front.h"
#include "loader/loader.h"

static const struct { const char *name; enum spur_kind kind; } kinds[] = {
#define KIND(name, number, major, minor) { #name, SPUR_KIND_##name },
    SPUR_KINDS(KIND)
#undef KIND
};

enum spur_kind loader_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (word_eq(kinds[i].name, name))
            return kinds[i].kind;
    return SPUR_KIND_none;
}

const char *loader_kind_name(enum spur_kind kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return NULL;
}

const char *loader_installed = SPUR_PLUGINDIR;

char **find_dirs(const struct config *cfg)
{
    int is_set;
    const char *given = config_key_text(cfg, "PluginDir", &is_set);
    char *copy = mem_copy(given && is_set ? given : ""), *cursor = copy, *word;
    char **dirs = mem_array(strlen(copy) + 3, sizeof *dirs);
    size_t n = 0;

    while ((word = word_next(&cursor, ":")))
        dirs[n++] = mem_copy(word_trim(word));
    if (n == 0 || strcmp(dirs[n - 1], loader_installed) != 0)
        dirs[n] = mem_copy(loader_installed);
    free(copy);
    return dirs;
}

void find_dirs_free(char **dirs)
{
    for (size_t i = 0; dirs && dirs[i]; i++)
        free(dirs[i]);
    free(dirs);
}

/* Is `name` one of the blank-separated words of a stands_for? */
static bool stands_for(const struct spur_plugin *desc, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = desc->stands_for; at && *at; ) {
        size_t word = strcspn(at, " ,");

        if (word == n && strncmp(at, name, n) == 0)
            return true;
        at += word + strspn(at + word, " ,");
    }
    return false;
}

static const struct spur_plugin *builtin_find(enum spur_kind kind, const char *name, bool *is_alias)
{
    for (size_t i = 0; loader_builtins[i]; i++)
        if (loader_builtins[i]->kind == kind && strcmp(loader_builtins[i]->name, name) == 0)
            return loader_builtins[i];
    for (size_t i = 0; loader_builtins[i]; i++) {
        if (loader_builtins[i]->kind == kind && stands_for(loader_builtins[i], name)) {
            *is_alias = true;
            return loader_builtins[i];
        }
    }
    return NULL;
}

/* KIND_NAME.so in one of the folders. *foreign: a file of that name that is not ours was passed over. */
static bool file_find(enum spur_kind kind, const char *name, char *const *dirs, char *path, size_t room, char *foreign)
{
    bool is_ours;

    for (size_t i = 0; dirs[i]; i++) {
        if (snprintf(path, room, "%s/%s_%s.so", dirs[i], loader_kind_name(kind), name) >= (int)room || !file_looks(path, &is_ours))
            continue;
        if (is_ours)
            return true;
        loader_say(SPUR_LOG_DEBUG, "%s is not a plugin of spur: passed over", path);
        snprintf(foreign, room, "%s", path);
    }
    *path = '\0';
    return false;
}

/* The file that stands for `name`. Only reached when nothing has this name; each file of the kind is opened for a look. */
static bool file_find_alias(enum spur_kind kind, const char *name, char *const *dirs, struct found *out)
{
    const char *kind_name = loader_kind_name(kind);
    size_t n = strlen(kind_name);
    bool is_found = false, is_ours;

    for (size_t i = 0; dirs[i] && !is_found; i++) {
        struct dirent **names = NULL;
        int count = scandir(dirs[i], &names, NULL, alphasort);

        for (int k = 0; k < count; k++) {
            struct plugin_file file;
            struct spur_error why;
            const char *file_name = names[k]->d_name, *dot = strrchr(file_name, '.');

            if (is_found || strncmp(file_name, kind_name, n) != 0 || file_name[n] != '_' || !dot || strcmp(dot, ".so") != 0)
                continue;
            snprintf(out->path, sizeof out->path, "%s/%s", dirs[i], file_name);
            if (!file_looks(out->path, &is_ours) || !is_ours)
                continue;
            if (file_open(out->path, kind, NULL, &file, &why) < 0) {
                loader_say(SPUR_LOG_WARN, "%s (looked at for %s/%s)", why.text, kind_name, name);
                continue;
            }
            if (stands_for(file.desc, name)) {
                is_found = true;
                snprintf(out->name, sizeof out->name, "%s/%s", kind_name, file.desc->name);
            }
            file_close(&file);
        }
        for (int k = 0; k < count; k++)
            free(names[k]);
        free(names);
    }
    if (!is_found)
        out->path[0] = '\0';
    return is_found;
}

static int not_found(enum spur_kind kind, const char *name, char *const *dirs, const char *foreign, struct spur_error *err)
{
    struct str offered;
    const char *kind_name = loader_kind_name(kind);

    str_init(&offered);
    for (size_t i = 0; loader_builtins[i]; i++)
        if (loader_builtins[i]->kind == kind)
            str_addf(&offered, "%s%s/%s", offered.len ? ", " : "", kind_name, loader_builtins[i]->name);
    if (*foreign)
        spur_fail(err, SPUR_ENOTFOUND, "%s/%s: no such plugin; %s is Slurm's own, which spur cannot use; built in: %s", kind_name, name, foreign, offered.text);
    else
        spur_fail(err, SPUR_ENOTFOUND, "%s/%s: no such plugin: no %s_%s.so in %s%s%s; built in: %s", kind_name, name, kind_name, name, dirs[0],
                  dirs[1] ? " or " : "", dirs[1] ? dirs[1] : "", offered.len ? offered.text : "none");
    str_fini(&offered);
    return SPUR_ENOTFOUND;
}

/* "select/topo", "topo", " Select/Topo" -> "topo". */
static int name_parse(enum spur_kind kind, const char *wanted, char *name, size_t room, struct spur_error *err)
{
    const char *kind_name = loader_kind_name(kind), *slash = wanted ? strchr(wanted, '/') : NULL, *from = slash ? slash + 1 : wanted;
    size_t n = 0;

    if (!kind_name)
        return spur_fail(err, SPUR_EINVAL, "plugin kind %d is unknown", (int)kind);
    if (!wanted || !*wanted || !*from)
        return spur_fail(err, SPUR_EINVAL, "no name of a %s plugin is given", kind_name);
    if (slash && ((size_t)(slash - wanted) != strlen(kind_name) || strncasecmp(wanted, kind_name, strlen(kind_name)) != 0))
        return spur_fail(err, SPUR_EINVAL, "%.80s: a %s plugin is wanted here, so the name must begin with %s/", wanted, kind_name, kind_name);
    for (; from[n] && n + 1 < room; n++) {
        if (!isalnum((unsigned char)from[n]) && from[n] != '_' && from[n] != '-')
            return spur_fail(err, SPUR_EINVAL, "%.80s: a plugin's name is of letters, digits, _ and -", wanted);
        name[n] = (char)tolower((unsigned char)from[n]);
    }
    if (from[n] || n >= 48)
        return spur_fail(err, SPUR_ELIMIT, "%.80s: longer than a plugin's name can be (47)", wanted);
    name[n] = '\0';
    return 0;
}

int find_plugin(enum spur_kind kind, const char *wanted, const struct config *cfg, struct found *out, struct spur_error *err)
{
    char name[64], foreign[sizeof out->path] = "";
    char **dirs = NULL;
    int rc;

    *out = (struct found){ 0 };
    if ((rc = name_parse(kind, wanted, name, sizeof name, err)) < 0)
        return rc;
    dirs = find_dirs(cfg);
    if (file_find(kind, name, dirs, out->path, sizeof out->path, foreign)) {
        snprintf(out->name, sizeof out->name, "%s/%s", loader_kind_name(kind), name);
    } else if ((out->builtin = builtin_find(kind, name, &out->is_alias))) {
        snprintf(out->name, sizeof out->name, "%s/%s", loader_kind_name(kind), out->builtin->name);
        if (out->is_alias)
            file_find(kind, out->builtin->name, dirs, out->path, sizeof out->path, foreign);
    } else if (file_find_alias(kind, name, dirs, out)) {
        out->is_alias = true;
    } else {
        rc = not_found(kind, name, dirs, foreign, err);
    }
    if (out->path[0])
        out->builtin = NULL;
    find_dirs_free(dirs);
    return rc;
}
