/* SPDX-License-Identifier: Apache-2.0 */
/* plugstack.h - plugstack.conf: which SPANK plugins stand in which order, and what they are told. */
#ifndef CONFIG_PLUGSTACK_H
#define CONFIG_PLUGSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <spur/error.h>

#include "base/arena.h"
#include "config/config.h"

struct plugstack_row {
    bool     required;
    char    *file;              /* of the plugin, as written */
    int      argc; char **argv; /* argv[argc] is NULL */
    char    *from; unsigned line;
};
struct plugstack {
    struct plugstack_row *rows; size_t count;
    struct arena arena;         /* of all texts */
};

/* One text: lines "required|optional FILE [ARGUMENTS]" and "include GLOB" (handed to `include`, which may be NULL: then refused). Blanks part words, both
 * quotes and a backslash keep them together, # begins a comment. Pure but for `include`. err: file, line and what is expected there. */
int  plugstack_parse(const char *text, size_t n, const char *name, struct plugstack *into,
                     int (*include)(void *arg, const char *pattern, struct plugstack *into, struct spur_error *err), void *arg, struct spur_error *err);
/* PATH and what it includes, patterns relative to PATH's folder, in the order of the names. A file that is not there is an empty stack. */
int  plugstack_read(const char *path, struct plugstack *out, struct spur_error *err);
void plugstack_fini(struct plugstack *p);

/* PlugStackConfig= (NULL: none) beside this slurm.conf: the path to read. */
void plugstack_path(const char *slurm_conf, const char *configured, char *out, size_t size);
/* The same for a command, which has no configuration but the file on its host: finds slurm.conf as all do, reads the two words it needs. Both out
 * are room of 1024. False: there is no stack to read. */
bool plugstack_hint(char *path, char *plugin_dir);

#endif
