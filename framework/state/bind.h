/* SPDX-License-Identifier: Apache-2.0 */
/* bind.h - which of a step's devices each task gets: the words of --gpu-bind and --tres-bind, and what they come to on a node. Pure. */
#ifndef STATE_BIND_H
#define STATE_BIND_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/bitmap.h"

enum bind_kind { BIND_NONE, BIND_CLOSEST, BIND_SINGLE, BIND_PER_TASK, BIND_MAP, BIND_MASK };
#define BIND_LIST_MAX 1024

struct bind {
    enum bind_kind kind;
    bool     verbose;               /* each task says on its standard error what it got */
    uint32_t count;                 /* SINGLE: tasks a device; PER_TASK: devices a task */
    uint64_t *masks; uint32_t mask_count;   /* MAP (one bit each), MASK: of task 0, 1, ..., again from the start behind the last */
};

/* "single:2", "verbose,closest", "map_gpu:0,1*4", "map:0", "mask_gpu:3,0xc", "per_task:2", "none": the value of --gpu-bind. */
int  bind_parse(const char *text, struct bind *out, struct spur_error *err);
/* "gres/gpu:closest": the value of --tres-bind, and of TresBind= in a record. Other resources than gres/gpu are refused. */
int  bind_parse_tres(const char *text, struct bind *out, struct spur_error *err);
void bind_fini(struct bind *b);

/* cores: near to it, NULL: any. mbps: to each other device by index, NULL: not known; a task with several gets such as are joined. */
struct bind_device { uint32_t index; const struct bitmap *cores; const uint32_t *mbps; };
/* One node of a step. Cores of task t: those it is bound to, else the t-th share of `cores` (NULL: none known), in order. */
struct bind_node {
    const struct bind_device *devices; uint32_t device_count;       /* the step's, by index */
    const struct bitmap *cores;
    const struct bitmap *task_cores;        /* a task; of as many bits as `cores`; NULL: tasks are not bound */
    uint32_t tasks;                 /* on this node */
};
/* Devices of each task into out[node->tasks], by index. Never one that the step does not have, and never none while the step has one.
 * *notes: bit BIND_NOTE_* where the wish could not be met to the letter. */
#define BIND_NOTE_FAR     1u        /* no near device was left, or there is none: a farther one */
#define BIND_NOTE_SHARED  2u        /* more tasks than devices: some share */
#define BIND_NOTE_OUTSIDE 4u        /* map or mask named none of the step's devices: the first one */
void bind_tasks(const struct bind *b, const struct bind_node *node, uint64_t *out, uint8_t *notes);

#endif
