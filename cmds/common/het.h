/* SPDX-License-Identifier: Apache-2.0 */
/* het.h - the components of a heterogeneous job on a command line and in a script: " : " and "#SBATCH hetjob".
 *
 * Each component is a request of its own. What it does not say itself it takes from the one before, as far as that helps: the list of Slurm's page on
 * heterogeneous jobs (account, time, mem and the like; not partition, nodes, tasks, devices).
 */
#ifndef CMDS_COMMON_HET_H
#define CMDS_COMMON_HET_H

#include "cmds/common/directives.h"
#include "cmds/common/request.h"

struct het_words { int argc; char **argv; };    /* argv[0] stands before the first option, as in main() */

/* sbatch, salloc: options, ":", options, ... and the command. `typed` takes them all, for what counts once. first: of the last component's words, the one behind
 * its options; *count at least 1. 0, OPTIONS_DONE or an exit code. */
int  het_cut(const struct option_table *t, int argc, char **argv, struct request *typed, struct het_words **out, size_t *count, int *first);
/* srun: a program in each, so every lone ":" cuts; the last word of all is never one. */
void het_cut_programs(struct request *r, int argc, char **argv, struct het_words **out, size_t *count);
/* Rows of the script that are component k's; *rows NULL: it has none. Components of the script: het_script_count(). */
size_t het_script_count(const struct directives *d);
void het_script_rows(const struct directives *d, size_t k, const struct directive **rows, size_t *count);
/* After all sources of r and before request_finish: what it takes from the component before. */
void request_inherit(struct request *r, const struct request *before);

/* The environment as component `group` of the job sees it: NAME_HET_GROUP_N stands in the place of NAME. Ends with het_environ_leave(). */
void het_environ_enter(uint32_t group);
void het_environ_leave(void);
/* "0,2-4" -> ascending; 0 or SPUR_EINVAL with a sentence. */
int  het_groups_parse(struct request *r, const char *text, uint32_t **groups, size_t *count, struct spur_error *err);

#endif
