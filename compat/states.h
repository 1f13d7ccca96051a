/* SPDX-License-Identifier: Apache-2.0 */
/* states.h - states of jobs and nodes in Slurm's numbers. Apart from compat.h, for state/job.h and slurm.h have names in common. */
#ifndef COMPAT_STATES_H
#define COMPAT_STATES_H

#include <stdbool.h>
#include <stdint.h>

uint32_t job_state_word(uint32_t state, uint32_t flags);        /* base state and Slurm's flag bits */
uint32_t node_state_word(uint32_t state, uint32_t flags);
uint64_t job_fields(bool with_detail);                          /* for JobsRequest.fields */

#endif
