/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - one plugin file: may it be trusted, does it load, is its descriptor one that this spur can use. For the loader, and for framework/spank, whose plugins are trusted by the same rules. */
#ifndef LOADER_FILE_H
#define LOADER_FILE_H

#include <stdbool.h>
#include <spur/plugin.h>

struct plugin_file {
    const struct spur_plugin *desc;
    char *path;
    void *handle;               /* libltdl's */
};

/* Is there a regular file PATH? *is_ours: it names the symbol spur_plugin (looked for in its bytes, so that a foreign file's constructors never run). */
bool file_looks(const char *path, bool *is_ours);
/* Refuses a file, its folder or a parent that somebody other than root and this process's user owns or may write. */
int  file_trusted(const char *path, struct spur_error *err);
/* Refuses what is no shared library of this machine, and one that is shorter than its headers say. */
int  file_is_whole(const char *path, struct spur_error *err);
/* Loads and checks. `kind` SPUR_KIND_none: any. `expected`: the plugin's name by its file name, or NULL. */
int  file_open(const char *path, enum spur_kind kind, const char *expected, struct plugin_file *out, struct spur_error *err);
void file_close(struct plugin_file *f);
/* SHA-256 of the file against 64 hexadecimal digits. */
int  file_hash_is(const char *path, const char *hex, struct spur_error *err);

/* Checks a descriptor as such; `where` (file or "built in") begins the sentences. */
int  descriptor_check(const struct spur_plugin *desc, enum spur_kind kind, const char *where, struct spur_error *err);

#endif
