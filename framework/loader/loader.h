/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - finds a plugin by the name a configuration uses, checks it, opens it, and hands out its table of operations.
 *
 * Called by the controller, the agent, the client, the simulator and `spur plugin`. Every other part talks to plugins through
 * spur/KIND.h and never asks where one came from. A name is looked for in this order:
 *
 *   1. KIND_NAME.so in the folders of PluginDir, then in the folder spur was installed with (a file wins over a built-in);
 *   2. the table of built-in plugins;
 *   3. `stands_for` of the built-ins, then of the files: old names (cons_tres, cons_res) that mean another one.
 *
 * A plugin that is there and may not be used (writable by others, other ABI, fails in open) is an error in words that names the
 * file and both sides, never a reason to take the next one. Files are touched only when a name is looked for: a command that opens
 * a built-in with `cfg` NULL pays one stat. Not thread-safe: one thread of a process, before or on its loop.
 */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <spur/plugin.h>

struct config;

/* The built-in plugins, from the Makefile.inc files (framework/loader/builtin.c in the build folder); ends with NULL. */
extern const struct spur_plugin *const loader_builtins[];

/* An open plugin. Made by loader_open, freed by loader_close; fields are read-only for everybody else. */
struct loaded {
    const struct spur_plugin *desc;
    void       *self;           /* first argument of every operation */
    char        name[80];       /* "select/topo" */
    const char *path;           /* file it came from; NULL: built in */
    struct loaded_inside *inside;
};

/* Opens what WANTED means: "select/topo", "topo", or a name it stands for ("select/cons_tres"). Options come from
 * plugin "select/topo" { ... } of cfg's spur.conf; `cfg` NULL: defaults everywhere. `host` is borrowed until loader_close: the loader puts its own
 * table in front of it (option readers, keys of slurm.conf, the plugin's name in front of each log line), so `host` needs only what it has. Its
 * members may be NULL: the loader fills in clocks, a log to stderr, and host_name, role and state_dir as "". */
int loader_open(enum spur_kind kind, const char *wanted, const struct config *cfg, const struct spur_host *host,
                struct loaded **out, struct spur_error *err);
/* The same for one file, whatever its name: `spur plugin check`, conformance suites. `kind` SPUR_KIND_none: any. */
int loader_open_file(enum spur_kind kind, const char *path, const struct config *cfg, const struct spur_host *host,
                     struct loaded **out, struct spur_error *err);
void loader_close(struct loaded *l);                            /* accepts NULL */
/* New option values. SPUR_ERESTART: the plugin wants loader_close and loader_open, or has no reload and its options differ. */
int  loader_reload(struct loaded *l, const struct config *cfg, struct spur_error *err);

/* const struct spur_select_ops *ops = loader_ops(l); ops->place(l->self, ...). Mandatory members were checked at open; ask for others with SPUR_HAS. */
static inline const void *loader_ops(const struct loaded *l) { return l->desc->ops; }
static inline bool loader_can(const struct loaded *l, uint64_t cap) { return (l->desc->caps & cap) != 0; }

/* The folder spur was installed with, looked at last. A test points it to nowhere, so that what is installed on the machine does not matter. */
extern const char *loader_installed;

/* What a configured name means, without opening it: for `spur config check` and `scontrol show config`. */
struct loader_meaning {
    char name[80];              /* "select/topo" */
    bool is_alias, is_builtin;  /* is_alias: the name asked for is one that this plugin stands for */
    char path[512];             /* of the file, "" when built in */
};
int loader_resolve(enum spur_kind kind, const char *wanted, const struct config *cfg, struct loader_meaning *out, struct spur_error *err);

/* Is section i of cfg's spur.conf, plugin "..." { ... }, one that its plugin takes? Without opening it; for `spur config check`, which
 * reports also the sections of plugins that are not in use. The sentence has file and line. */
int loader_check_section(const struct config *cfg, size_t i, struct spur_error *err);

/* Every plugin that can be seen: built-ins first, then files, by name. A file that is refused comes with the sentence in `refusal`. */
struct loader_row {
    const char *name;           /* "select/topo"; of a refused file what its file name says, or "" */
    const struct spur_plugin *desc;     /* NULL when refused; valid during the callback only */
    const char *path;           /* NULL: built in */
    const char *refusal;        /* NULL: fine */
    bool is_shadowed;           /* a built-in behind a file of the same name */
};
void loader_list(const struct config *cfg, void (*row)(void *arg, const struct loader_row *row), void *arg);

/* "select" <-> SPUR_KIND_select; SPUR_KIND_none and NULL for unknown ones. */
enum spur_kind loader_kind(const char *name);
const char *loader_kind_name(enum spur_kind kind);

/* Lines of the loader itself ("select/topo: /usr/lib/... is used instead of the built-in one") go to the log of the `host` of loader_open; for calls without
 * one, to this; by default errors and warnings to stderr. */
void loader_log_to(void (*log)(void *ctx, int level, const char *text), void *ctx);

#endif
