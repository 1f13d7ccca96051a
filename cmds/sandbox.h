/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - the seam between sandbox.c (processes) and sandbox_conf.c (files) of `spur sandbox`. */
#ifndef CMDS_SANDBOX_H
#define CMDS_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/str.h"

#define SANDBOX_NODES_REAL 16       /* above so many nodes one process plays them all */

struct config;
struct sandbox {
    char dir[700], run[256];        /* absolute; run: folder of the sockets */
    uint32_t controllers, nodes, cpus;
    const char *gpus, *conf;        /* --gpus, --conf; NULL: none */
    struct str extra;               /* --set lines */
};

/* Writes every file of the cluster; *cfg is what they mean (config_free). */
int sandbox_conf_write(struct sandbox *s, struct config **cfg, struct spur_error *err);
/* Fills s->run of a cluster that is there. */
int sandbox_run_dir(struct sandbox *s, bool make, struct spur_error *err);
int sandbox_file_put(const char *path, const char *text, struct spur_error *err);
char *sandbox_file_get(const char *path);      /* whole text, free(); NULL: not there */

#endif
