/* SPDX-License-Identifier: Apache-2.0 */
/* seen.h - what the agent remembers across restarts to refuse old launches: the highest fencing number, and the attempts it has had. */
#ifndef AGENT_SEEN_H
#define AGENT_SEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/table.h"

#define SEEN_JOB_OVER 0xffffffffu       /* as step: the job's attempt has been told GONE: nothing of it may start again */

#define SEEN_PROLOG   0xfffffffeu       /* as step: the job's Prolog has run here */

struct seen_row;
struct seen {
    int      fence_fd;                  /* -1: memory only */
    int      folder_fd, fd;             /* fd: append to the file of attempts; -1: memory only (emulated nodes) */
    uint64_t fence;
    struct seen_row *rows; uint32_t count, room;
    uint32_t *index; uint32_t index_size;
    uint32_t appended, pruned, loaded;      /* rows written since the file was made new; rows left by the last seen_prune */
};

/* folder_fd -1: nothing on disk. Rows whose credential has expired are dropped. */
int  seen_open(struct seen *s, int folder_fd, int64_t now_wall_ms, struct spur_error *err);
void seen_close(struct seen *s);
/* A number not lower than any before: 0, and kept on disk before this returns when it is higher. SPUR_ESTALE. The file is written in place and has its room since
 * the start, so that a full disk does not shut the node out when another controller leads. */
int  seen_fence(struct seen *s, uint64_t fence, struct spur_error *err);
/* Seen by an agent before this one, so whether its step was ever started is not known here. */
bool seen_before(const struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node);
bool seen_has(const struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node);
/* node: hash of the node's name for emulated nodes, 0 else. Written, not synced: a crash of the machine ends the steps too. */
void seen_add(struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node, int64_t expires_wall_ms);
void seen_prune(struct seen *s, int64_t now_wall_ms);

#endif
