/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c - loads the plugins of a stack and calls their hooks.
 *
 * A plugin's undefined symbols (spank_get_item, slurm_error, ...) are found in this program, which exports just those (exports.list). It is bound at
 * once, so a function that is not there is a sentence when the plugin loads and not a crash in the middle of a launch; one that wants Slurm's
 * interface too without having linked it gets our libslurm beside it.
 * A file is trusted under the rules of spur's own plugins: nobody but root and the caller may be able to write it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "loader/file.h"
#include "spank/inside.h"

struct spank_stack *spank_stack_here;
static struct spank_mark *mark_here;        /* before there is a stack: its plugins' constructors may crash too */

void spank_mark_in(struct spank_mark *mark) { mark_here = mark; }

static void mark(const char *what, const char *who)
{
    if (mark_here)
        snprintf(mark_here->text, sizeof mark_here->text, "%.63s%.130s", what, who);
}

static const char *const hook_names[] = {
#define SPANK_HOOK(name) "slurm_spank_" #name,
#include "spank/hooks.def"
#undef SPANK_HOOK
};

const char *spank_hook_name(enum spank_hook hook) { return hook_names[hook]; }

/* ---- loading ---- */

/* The file of a row: as written when it has a slash in front, else the first of the folders that has it. */
static char *find(const char *file, const char *plugin_dir)
{
    char *dirs, *cursor, *dir, *found = NULL;
    struct str path;

    if (*file == '/')
        return mem_copy(file);
    str_init(&path);
    str_addf(&path, "%s%s%s:%s", plugin_dir ? plugin_dir : "", plugin_dir && *plugin_dir ? ":" : "", SPUR_LIBDIR "/slurm", SPUR_PLUGINDIR);
    cursor = dirs = str_take(&path);
    while (!found && (dir = word_next(&cursor, ":"))) {
        str_init(&path);
        str_addf(&path, "%s/%s", dir, file);
        if (access(path.text, F_OK) == 0)
            found = str_take(&path);
        else
            str_fini(&path);
    }
    free(dirs);
    return found;
}

static void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = library ? NULL : dlerror();

    if (!library && why && strstr(why, "undefined symbol: slurm") && dlopen(SPUR_LIBDIR "/spur/compat/libslurm.so.38", RTLD_NOW | RTLD_GLOBAL))
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library && !why)
        dlerror();
    return library;
}

static int load(struct spank_stack *s, struct spank_plugin *p, const struct plugstack_row *row, const char *plugin_dir, struct spur_error *err)
{
    const char *type, *why;
    const unsigned *version;
    int rc;

    p->row = row;
    p->handle = (struct spank_handle){ HANDLE_MAGIC, s, p, SPANK_HOOKS };
    if (!(p->path = find(row->file, plugin_dir)))
        return spur_fail(err, SPUR_ENOTFOUND, "%.60s: not found in PluginDir (%.80s) nor in " SPUR_LIBDIR "/slurm", row->file, plugin_dir && *plugin_dir ? plugin_dir : "not set");
    if (access(p->path, R_OK) < 0)
        return spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%.150s: %s", p->path, strerror(errno));
    if ((rc = file_trusted(p->path, err)) < 0 || (rc = file_is_whole(p->path, err)) < 0)
        return rc;
    mark("loading ", p->path);
    if (!(p->library = open_library(p->path))) {
        dlerror();
        dlopen(p->path, RTLD_NOW | RTLD_LOCAL);     /* once more, for its words */
        why = dlerror();
        return spur_fail(err, SPUR_EINVAL, "%.100s does not load: %.120s", p->path, why ? why : "unknown reason");
    }
    type = dlsym(p->library, "plugin_type");
    p->name = dlsym(p->library, "plugin_name");
    version = dlsym(p->library, "spank_plugin_version");
    p->version = version ? *version : 0;
    if (!type || !p->name || !dlsym(p->library, "plugin_version"))
        return spur_fail(err, SPUR_EINVAL, "%.140s is no SPANK plugin: it exports no %s; SPANK_PLUGIN(name, version) makes it", p->path,
                         !type ? "plugin_type" : !p->name ? "plugin_name" : "plugin_version");
    if (strcmp(type, "spank") != 0)
        return spur_fail(err, SPUR_EINVAL, "%.140s is a plugin of type %.40s, not spank", p->path, type);
    for (int i = 0; i < SPANK_HOOKS; i++)
        p->hooks[i] = (spank_f *)(uintptr_t)dlsym(p->library, hook_names[i]);
    return 0;
}

static void unload(struct spank_plugin *p)
{
    if (p->library)
        dlclose(p->library);
    free(p->path);
    p->library = NULL;
    p->path = NULL;
}

/* The table that a plugin may export: not for sbatch and salloc, as Slurm has it. */
static void options_of_table(struct spank_plugin *p)
{
    const struct spank_option *o = p->handle.stack->context == S_CTX_ALLOCATOR ? NULL : dlsym(p->library, "spank_options");

    for (; o && o->name; o++)
        option_register(p, o);
}

static int open_rows(struct spank_stack *s, const struct plugstack_row *rows, size_t count, const char *plugin_dir, struct spank_stack **out, struct spur_error *err)
{
    int rc = 0;

    spank_calls_here();
    s->plugins = mem_array(count + 1, sizeof *s->plugins);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct spank_plugin *p = &s->plugins[s->count];

        if (load(s, p, &rows[i], plugin_dir, err) == 0) {
            s->count++;
            continue;
        }
        unload(p);
        memset(p, 0, sizeof *p);
        if (rows[i].required) {
            rc = spur_context(err, "required SPANK plugin");
        } else {
            spank_log_line(SPANK_LOG_ERROR, "optional SPANK plugin left out: %s", err->text);
            memset(err, 0, sizeof *err);
        }
    }
    if (rc < 0 || s->count == 0) {
        spank_stack_close(s);
        return rc < 0 ? rc : 0;
    }
    spank_stack_here = s;
    for (size_t i = 0; i < s->count; i++)
        options_of_table(&s->plugins[i]);
    *out = s;
    return 0;
}

int spank_stack_open(const char *path, const char *plugin_dir, spank_context_t context, struct spank_facts *facts, struct spank_stack **out, struct spur_error *err)
{
    struct spank_stack *s = mem_alloc(sizeof *s);
    int rc;

    *out = NULL;
    s->context = context;
    s->facts = facts;
    if ((rc = plugstack_read(path, &s->conf, err)) < 0) {
        free(s);
        return spur_context(err, "plugstack");
    }
    return open_rows(s, s->conf.rows, s->conf.count, plugin_dir, out, err);
}

int spank_stack_open_row(const struct plugstack_row *row, const char *plugin_dir, spank_context_t context, struct spank_facts *facts, struct spank_stack **out,
                         struct spur_error *err)
{
    struct spank_stack *s = mem_alloc(sizeof *s);

    *out = NULL;
    s->context = context;
    s->facts = facts;
    arena_init(&s->conf.arena, 0);
    return open_rows(s, row, 1, plugin_dir, out, err);
}

void spank_stack_close(struct spank_stack *s)
{
    if (!s)
        return;
    if (spank_stack_here == s)
        spank_stack_here = NULL;
    given_free(s);
    for (size_t i = 0; i < s->count; i++)
        unload(&s->plugins[i]);
    free(s->plugins);
    plugstack_fini(&s->conf);
    free(s);
}

/* ---- hooks ---- */

int spank_stack_call(struct spank_stack *s, enum spank_hook hook, struct spur_error *err)
{
    for (size_t i = 0; s && i < s->count; i++) {
        struct spank_plugin *p = &s->plugins[i];
        char where[64];
        int result;

        if (!p->hooks[hook])
            continue;
        p->handle.hook = hook;
        snprintf(where, sizeof where, "%s of ", hook_names[hook]);
        mark(where, p->name);
        result = p->hooks[hook](&p->handle, p->row->argc, p->row->argv);
        p->handle.hook = SPANK_HOOKS;
        if (result == 0)
            continue;
        if (p->row->required)
            return spur_fail(err, SPUR_EINVAL, "required SPANK plugin %.60s: %s() failed with rc=%d", p->name, hook_names[hook], result);
        spank_log_line(SPANK_LOG_VERBOSE, "optional SPANK plugin %s: %s() failed with rc=%d", p->name, hook_names[hook], result);
    }
    return 0;
}

bool spank_stack_has(const struct spank_stack *s, enum spank_hook hook)
{
    for (size_t i = 0; s && i < s->count; i++)
        if (s->plugins[i].hooks[hook])
            return true;
    return false;
}

size_t spank_stack_plugins(const struct spank_stack *s) { return s ? s->count : 0; }

void spank_stack_plugin(const struct spank_stack *s, size_t i, struct spank_stack_plugin *out)
{
    const struct spank_plugin *p = &s->plugins[i];

    *out = (struct spank_stack_plugin){ p->name, p->path, p->row->required, p->version };
}

bool spank_stack_plugin_has(const struct spank_stack *s, size_t i, enum spank_hook hook) { return s->plugins[i].hooks[hook] != NULL; }
