/* SPDX-License-Identifier: Apache-2.0 */
/* plugins.h - the SPANK plugins of srun, sbatch and salloc: their options in the command's table, their hooks around its work.
 *
 * The order in a command:
 *     plugins_open            before the options are read: loads the stack, slurm_spank_init registers options
 *     plugins_rows            room for their rows; plugins_table puts them behind the command's own
 *     (options are read; a command that reads its line twice calls plugins_forget between)
 *     plugins_ready           callbacks of the options, slurm_spank_init_post_opt; the environment and the record then carry what was given
 *     plugins_allocated       srun: job and step are known: slurm_spank_local_user_init
 *     plugins_close           slurm_spank_exit
 * All of it does nothing where the site has no plugstack.conf: struct plugins is then NULL, which every function takes.
 */
#ifndef CMDS_COMMON_PLUGINS_H
#define CMDS_COMMON_PLUGINS_H

#include "cmds/common/request.h"

struct plugins;
/* command: REQUEST_SRUN is the local context, the others are allocators. 0, or an exit code after a sentence on stderr. */
int    plugins_open(unsigned command, struct plugins **out);
size_t plugins_rows(const struct plugins *p);
void   plugins_table(struct plugins *p, struct option_row *rows, struct option_table *table);
void   plugins_forget(struct plugins *p);
/* 0, or an exit code after a sentence on stderr. */
int    plugins_ready(struct plugins *p, struct request *r);
int    plugins_allocated(struct plugins *p, uint32_t job_id, uint32_t step_id, uint32_t nodes, uint32_t tasks);
void   plugins_close(struct plugins *p);

#endif
