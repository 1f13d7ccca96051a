/* SPDX-License-Identifier: Apache-2.0 */
/* taskset.h - which tasks of job arrays were asked for: "12_3", "12_[5-7]"; "12" means all of them.
 *
 * The controller answers with the record that stands for all waiting tasks of an array; here it is narrowed to those that were named.
 */
#ifndef CMDS_COMMON_TASKSET_H
#define CMDS_COMMON_TASKSET_H

#include <stdbool.h>
#include <spur/error.h>

#include "base/bitmap.h"
#include "base/table.h"
#include "wire/spur.pb-c.h"

struct taskset { struct table by_job; };

void taskset_init(struct taskset *t);
int  taskset_add(struct taskset *t, const char *id, struct spur_error *err);      /* an id as people write it; refused in Slurm's words */
void taskset_fini(struct taskset *t);
/* Were only some tasks of this record asked for? */
bool taskset_narrows(const struct taskset *t, const Wire__JobInfo *j);
/* The waiting tasks of the record that were asked for, into `out` (not initialised before; bitmap_fini() it). */
void taskset_tasks(const struct taskset *t, const Wire__JobInfo *j, struct bitmap *out);

#endif
