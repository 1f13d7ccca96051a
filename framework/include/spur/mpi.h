/* SPDX-License-Identifier: Apache-2.0 */
/* spur/mpi.h - the kind `mpi`: how the tasks of a step find each other (Slurm's MpiDefault and srun --mpi). ABI 0.1.
 *
 * A plugin with SPUR_CAP_SERVES is opened once for each node of a step, in a process of its own that runs as the step's user beside the tasks; one
 * without it needs no such process, and none of its operations is called. The host watches descriptors, carries what the
 * servers of the nodes say to each other over the step's encrypted channels, and keeps the tasks from starting until `start` and
 * `task` have returned. All operations are called on one thread, that of host->post; what a step says stays valid until `close`.
 * A server never outlives its step: it is killed with it. Mandatory: start, task.
 */
#ifndef SPUR_MPI_H
#define SPUR_MPI_H

#include <stdbool.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number that a task finds its end of the socket under, for variables like PMI_FD. */
#define SPUR_MPI_TASK_FD 4
#define SPUR_MPI_KEY_MAX 255        /* bytes of a gather's key */

/* What one node gave to a gather. */
struct spur_mpi_part { uint32_t node; const void *data; size_t len; };

struct spur_mpi_step {
    uint32_t size;
    uint32_t job_id, step_id, uid, gid;
    uint32_t ntasks;                    /* of the whole step */
    uint32_t node_count, node_rank;     /* of the step; node_rank: this one's place */
    const char *const *nodes;           /* names, by place */
    const uint32_t *tasks, *first;      /* numbers of the tasks, node by node; first: node_count + 1 places, node i has tasks[first[i]] .. tasks[first[i + 1] - 1] */
    const char *cluster;
    const char *dir;                    /* an empty folder of the user's on this node, gone with the step */
    void *ctx;                          /* of the calls below: on the thread of the operations only */
    /* Gives this node's part of a gather; `gathered` brings the parts of all of `nodes` (count 0: every node of the step) once each of them has given
     * one. Nodes agree on a gather by its key; a key may be used again when its gather is over. A code and a sentence when it cannot be asked. */
    int  (*gather)(void *ctx, const char *key, const uint32_t *nodes, uint32_t count, const void *data, size_t len, struct spur_error *err);
    /* To the plugin of another node: `received` there. In order, and kept until that node is there. */
    int  (*send)(void *ctx, uint32_t node, const void *data, size_t len, struct spur_error *err);
    /* Ends the step; the sentence and the exit code reach the user at srun. */
    void (*abort)(void *ctx, int exit_code, const char *text);
};

/* The host collects NAME=value pairs for a task's environment; a pair may replace what is there. */
struct spur_mpi_env { uint32_t size; void *arg; void (*set)(void *arg, const char *name, const char *value); };

struct spur_mpi_ops {
    uint32_t size;
    /* Before any task of this node. */
    int  (*start)(void *self, const struct spur_mpi_step *step, struct spur_error *err);
    /* For each task of this node, 0 first. `fd`: this side of a stream socket, non-blocking and the host's, whose other side the task gets
     * as SPUR_MPI_TASK_FD; -1 when there is no `input`. */
    int  (*task)(void *self, uint32_t local, int fd, const struct spur_mpi_env *env, struct spur_error *err);
    /* There is something to read from that task. Negative: do not ask again; the host closes the descriptor. Without it tasks get no socket. */
    int  (*input)(void *self, uint32_t local);
    void (*ended)(void *self, uint32_t local, int status);      /* wait() status of a task of this node. Optional */
    void (*gathered)(void *self, const char *key, const struct spur_mpi_part *parts, uint32_t count, uint32_t part_size);   /* by node; wanted by who calls gather */
    void (*received)(void *self, uint32_t from, const void *data, size_t len);      /* wanted by who calls send */
    /* A node, or the way to all others, is gone: gathers that wait will not come. More than once, perhaps. Optional. */
    void (*lost)(void *self, const char *why);
};

#ifdef __cplusplus
}
#endif
#endif
