/* SPDX-License-Identifier: Apache-2.0 */
/* records.h - the KEY=VALUE records of `scontrol show`: lines of several pairs, or one line a record with -o. */
#ifndef CMDS_COMMON_RECORDS_H
#define CMDS_COMMON_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "wire/spur.pb-c.h"

struct record { bool one_line; struct str text; bool at_start; int64_t now_s; const char *time_format; };

void record_begin(struct record *r);                            /* keeps one_line, now_s, time_format */
void record_pair(struct record *r, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
void record_time(struct record *r, const char *key, int64_t wall_s, const char *none);
void record_line(struct record *r);                             /* the next pair stands on a new line, indented, unless one_line */
void record_end(struct record *r, bool blank_line);             /* prints it */

void record_job(struct record *r, const Wire__JobInfo *j, bool details);
void record_node(struct record *r, const Wire__NodeInfo *n, bool details);
void record_partition(struct record *r, const Wire__PartitionInfo *p);
void record_step(struct record *r, const Wire__StepInfo *s);

#endif
