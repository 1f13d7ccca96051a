/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - --json of the query commands: Slurm's data_parser shape ({"jobs":[...],"meta":{...},"errors":[]}), written as it goes.
 *
 * Own writer, 100 lines, instead of a tree in memory: a queue of 100,000 jobs is streamed. Text that is no valid UTF-8 has its bad bytes replaced.
 */
#ifndef CMDS_COMMON_JSON_H
#define CMDS_COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "wire/spur.pb-c.h"

struct json_writer;
struct json_writer *json_begin_on(FILE *out, const char *command, const char *array);
struct json_writer *json_begin(const char *command, const char *array);    /* prints the opening and "array": [ */
void json_end(struct json_writer *w);                                       /* closes it, meta and errors, a newline; frees */
/* Building blocks: `key` NULL inside arrays. */
void json_open(struct json_writer *w, const char *key, char bracket);      /* '{' or '[' */
void json_close(struct json_writer *w);
void json_text(struct json_writer *w, const char *key, const char *value); /* NULL: "" */
void json_number(struct json_writer *w, const char *key, int64_t value);
void json_bool(struct json_writer *w, const char *key, bool value);
/* {"set": true, "infinite": false, "number": N} as newer Slurm writes numbers that may be absent or unlimited. */
void json_optional(struct json_writer *w, const char *key, bool is_set, bool is_infinite, int64_t value);

/* json_records.c */
void json_job(struct json_writer *w, const Wire__JobInfo *j, const char *cluster, bool only_state);
void json_node(struct json_writer *w, const Wire__NodeInfo *n, const char *cluster);
void json_partition(struct json_writer *w, const char *key, const Wire__PartitionInfo *p, const char *cluster);
void json_place(struct json_writer *w, const Wire__PartitionInfo *p, const Wire__NodeInfo *n, unsigned kind, const char *cluster);     /* of sinfo */

#endif
