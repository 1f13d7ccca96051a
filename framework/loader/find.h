/* SPDX-License-Identifier: Apache-2.0 */
/* find.h - from a configured name to one built-in descriptor or one file. Inside the loader only. */
#ifndef LOADER_FIND_H
#define LOADER_FIND_H

#include <stdbool.h>
#include <spur/plugin.h>

struct config;

struct found {
    char name[80];                      /* "select/topo" */
    const struct spur_plugin *builtin;  /* NULL: the file */
    char path[512];                     /* "" when built in */
    bool is_alias;
};

int find_plugin(enum spur_kind kind, const char *wanted, const struct config *cfg, struct found *out, struct spur_error *err);

/* Folders looked in, in order; dirs[i] is NULL at the end. Freed with find_dirs_free. */
char **find_dirs(const struct config *cfg);
void   find_dirs_free(char **dirs);

#endif
