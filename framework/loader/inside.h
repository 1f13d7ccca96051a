/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - opening with every choice explicit: what loader.h's calls and the contract suites share. Inside the loader only. */
#ifndef LOADER_INSIDE_H
#define LOADER_INSIDE_H

#include "loader/loader.h"

struct loader_source {
    enum spur_kind kind;
    const char *wanted, *path;          /* one of them */
    const struct config *cfg;
    const char *options;                /* section text that replaces the configuration's; NULL: the configuration's */
};
int loader_open_source(const struct loader_source *source, const struct spur_host *host, struct loaded **out, struct spur_error *err);
int loader_reload_source(struct loaded *l, const struct loader_source *source, struct spur_error *err);

#endif
