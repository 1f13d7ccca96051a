/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the main function of every command (commands.def), and the version programs read. */
#ifndef CMDS_COMMANDS_H
#define CMDS_COMMANDS_H

#include <stdbool.h>
#include "config.h"
#include "config/config.h"

/* What `sinfo --version` prints; the daemons say the same. */
#define SLURM_GENERATION "slurm " CONFIG_SLURM_VERSION

#define COMMAND(name, function, folder, about) int function(int argc, char **argv);
#include "cmds/commands.def"
#undef COMMAND

#endif
