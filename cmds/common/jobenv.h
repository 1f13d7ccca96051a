/* SPDX-License-Identifier: Apache-2.0 */
/* jobenv.h - SLURM_* variables of an allocation, for a command that runs here and not on a node (salloc). */
#ifndef CMDS_COMMON_JOBENV_H
#define CMDS_COMMON_JOBENV_H

#include "wire/spur.pb-c.h"

/* Sets them in this process's own environment; those of another job go first. The names are those of a batch script, less what is true on a node only. */
void job_environment(const Wire__JobInfo *job, const char *cluster);
/* And what all components of a heterogeneous job have, the first one's among them. */
void job_het_environment(Wire__JobInfo *const *parts, uint32_t count);

#endif
