/* SPDX-License-Identifier: Apache-2.0 */
/* configless.h - `spurd --conf-server`: a node without a slurm.conf of its own. */
#ifndef AGENT_CONFIGLESS_H
#define AGENT_CONFIGLESS_H

#include "config/config.h"

/* Asks the controllers until one answers (a node boots before its controllers), keeps the files in the spool's conf-cache and loads them from there, so that
 * jobs find them by SLURM_CONF. Only a configuration that cannot be used is an error. `name`, as -N gives it, or NULL. */
int configless_load(const char *servers, const char *name, struct config **out, struct spur_error *err);

#endif
