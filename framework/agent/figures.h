/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h - what the tasks of a step use now (sstat): CPU time, memory, I/O, each with all that it has started. */
#ifndef AGENT_FIGURES_H
#define AGENT_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "wire/spur.pb-c.h"

/* Fills out->tasks and out->pids for tasks `ids` whose processes are `pids` (0: has ended), from /proc. figures_fini frees them. */
void figures_take(const uint32_t *pids, uint32_t count, const uint32_t *ids, Wire__StepFigures *out);
void figures_fini(Wire__StepFigures *f);

#endif
