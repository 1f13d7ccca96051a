/* SPDX-License-Identifier: Apache-2.0 */
/* front.h - the table of host services that a plugin sees: the loader's own in front of its caller's. Inside the loader only. */
#ifndef LOADER_FRONT_H
#define LOADER_FRONT_H

#include <spur/plugin.h>

struct config;
struct spur_conf;

struct front {
    struct spur_host host;          /* what the plugin gets; ctx is this struct */
    const struct spur_host *behind; /* the caller's; may be NULL */
    const struct config *cfg;       /* set while open or reload runs, NULL otherwise */
    char name[80];
};

void front_init(struct front *f, const char *name, const struct spur_host *behind);

/* The value of a key of slurm.conf by its name, in any case; NULL when unset, unknown or without configuration. */
const char *config_key_text(const struct config *cfg, const char *key, int *is_set);

/* While a plugin is looked for, the loader's own lines go to the log of its caller; NULL: no more. */
void loader_say_through(const struct spur_host *host);
/* One line of the loader itself. */
void loader_say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
