/* SPDX-License-Identifier: Apache-2.0 */
/* programs.h - the file of srun --multi-prog: which program each task runs. Pure; srun checks the text, supervisors take their tasks' lines from it. */
#ifndef STATE_PROGRAMS_H
#define STATE_PROGRAMS_H

#include <stdint.h>
#include <spur/error.h>

#include "base/arena.h"

/* Is there a line for each of the tasks, and can all be read? The sentence names the line. */
int programs_check(const char *text, uint32_t ntasks, struct spur_error *err);
/* Program and arguments of a task with %t and %o written out, NULL-ended, in the arena. */
int programs_task(const char *text, uint32_t task, struct arena *a, char ***argv, size_t *argc, struct spur_error *err);

#endif
