/* SPDX-License-Identifier: Apache-2.0 */
/* jobnodes.h - the list of a job's nodes, in the folder of each of its steps. */
#ifndef AGENT_JOBNODES_H
#define AGENT_JOBNODES_H

#include "wire/spur.pb-c.h"

#define JOB_NODES_FILE "nodes"

struct identity;
void job_nodes_write(int spool_fd, const char *folder, const char *nodes, uid_t owner);      /* owner -1: as the file is */
void job_nodes_take(struct identity *n, const Wire__JobNodes *m);      /* the leader's word: they have changed */

#endif
