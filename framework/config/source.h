/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - configuration files as flat texts: the only part of config/ that touches files. Internal. */
#ifndef CONFIG_SOURCE_H
#define CONFIG_SOURCE_H

#include "base/str.h"
#include <spur/error.h>

#define SOURCE_MAX (64u << 20)      /* bytes of one flattened text */

/* PATH, or $SLURM_CONF, or SYSCONFDIR/slurm.conf when it is there, or /etc/slurm/slurm.conf. */
void source_path(const char *path, char *out, size_t size);
/* Folder of a file: "" when the path has none. */
void source_folder(const char *path, char *out, size_t size);
/* Reads DIR/NAME with the files it includes (relative ones beside it) into `out`, which starts each file with a place mark "#@ LINE NAME". */
int  source_read(const char *dir, const char *name, struct str *out, struct spur_error *err);
/* The same without includes and marks: spur.conf has a grammar of its own. */
int  source_read_plain(const char *dir, const char *name, struct str *out, struct spur_error *err);
/* Is there such a file? */
bool source_exists(const char *dir, const char *name);

#endif
