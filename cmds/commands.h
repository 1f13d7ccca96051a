/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the main function of every command (commands.def), and the version programs read. */
#ifndef CMDS_COMMANDS_H
#define CMDS_COMMANDS_H

#include <stdbool.h>
#include "config.h"

/* What `sinfo --version`, `slurmctld -V` print: programs read it to learn which options and formats to expect. */
#define SLURM_GENERATION "slurm 26.05.0"

#define COMMAND(name, function, folder, about) int function(int argc, char **argv);
#include "cmds/commands.def"
#undef COMMAND

#endif
