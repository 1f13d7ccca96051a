/* SPDX-License-Identifier: Apache-2.0 */
/* spur/switch.h - the kind `switch`: the fabric between the nodes of a job (Slurm's SwitchType). ABI 0.4.
 *
 * Controller side: allot/release hand out what a job needs (addresses, fabric ids) and keep it in an opaque blob that travels with the launch.
 * Node side: node_up when the agent starts, peers when the set changes, job_join before a step of a job starts on the node,
 * job_leave when its last process has gone. Must not block: fabrics that wait set SPUR_CAP_MAY_BLOCK. Mandatory: job_join, job_leave.
 * A host that has a mesh (address, node_up and peers are there) calls node_up, peers, rotate, peer and status on a thread of its pool, one at a time, and
 * job_join and job_leave on the loop's, perhaps beside one of those; allot, release and adopt on the loop's too. What is handed in is
 * borrowed until the call returns. A controller that is in the mesh (SPUR_SWITCH_CONTROLLERS) makes the calls of a node, too; its rows are named
 * controller/NAME. A failure is a negative code with a sentence, which reaches the user: a step whose job_join fails does not start.
 */
#ifndef SPUR_SWITCH_H
#define SPUR_SWITCH_H

#include <stdbool.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One node of the cluster. The set that `peers` gets has this node itself in it: the row with the key that node_up gave, and so its own mesh_addr. */
struct spur_switch_node { const char *name, *addr; uint8_t public_key[32]; const char *endpoint, *mesh_addr; };     /* texts NULL: unknown; key all zero: none */
struct spur_switch_job {
    uint32_t size;
    uint32_t job_id, step_id, attempt, uid;
    const char *const *nodes; uint32_t node_count;      /* of the job, in rank order */
    const void *blob; size_t blob_len;                  /* what allot gave */
    /* since 0.3 */
    const struct spur_switch_node *rows; uint32_t row_size;     /* what the host knows of `nodes`, one row each, row_size bytes apart; NULL: nothing */
    uint32_t flags;                                     /* SPUR_SWITCH_JOB_* */
};
#define SPUR_SWITCH_JOB_ALONE 1u                        /* no other job is on its nodes */
/* What is known of a peer; ages in seconds, -1: never. */
struct spur_switch_peer { uint32_t size; char name[64], endpoint[80], mesh_addr[64]; int64_t heard_s; uint64_t rx_bytes, tx_bytes; };
/* The host collects NAME=value pairs for the job's environment, and (since 0.3) names and addresses for a file like /etc/hosts of the step. */
struct spur_switch_env {
    uint32_t size; void *arg;
    void (*set)(void *arg, const char *name, const char *value);
    void (*host)(void *arg, const char *addr, const char *name);
};

/* What `traits` says. */
#define SPUR_SWITCH_BY_JOB 1u       /* a node hears only of the nodes that it shares a job with, and of itself */
#define SPUR_SWITCH_NEEDED 2u       /* a node that node_up or peers fails on drains with that reason */
#define SPUR_SWITCH_ALONE  4u       /* a job that may get several nodes must have them alone; others are refused when they are submitted */
/* since 0.4 */
#define SPUR_SWITCH_CONTROLLERS 8u  /* controllers are in the mesh, too: every node is told of them, always */
#define SPUR_SWITCH_CONTROL 16u     /* a node speaks to the controller that leads at its mesh address while it hears of it there */

struct spur_switch_ops {
    uint32_t size;
    /* Controller that leads: what the job needs, before it starts. blob: room for *blob_len (1024) bytes; *blob_len: bytes written, 0: it needs nothing.
     * ELATER: nothing is free now, the job waits. job_id is the array's for an array's task. release gives back what the blob says, once for each allot or
     * adopt; it names the job as far as that is known. Both or none. Optional. */
    int  (*allot)(void *self, const struct spur_switch_job *job, void *blob, size_t *blob_len, struct spur_error *err);
    void (*release)(void *self, const struct spur_switch_job *job);
    /* Node: fills in this node's key and endpoint (address:port; ":port" means: at the node's address; borrowed until the next call). Then the whole set of the others, each time it changes; peer_size: bytes an element. Optional. */
    int  (*node_up)(void *self, struct spur_switch_node *me, struct spur_error *err);
    int  (*peers)(void *self, const struct spur_switch_node *peers, uint32_t n, uint32_t peer_size, struct spur_error *err);
    /* Node, once a step of a job: joins before it starts, leaves when its container is empty. */
    int  (*job_join)(void *self, const struct spur_switch_job *job, const struct spur_switch_env *env, struct spur_error *err);
    void (*job_leave)(void *self, const struct spur_switch_job *job);
    int  (*status)(void *self, char *buf, size_t len);      /* one line for people, NUL-ended within len; 0 or a code. Optional. */
    /* since 0.2, all optional */
    /* Controller: the address of the n-th node that ever joined (n from 1): pure, the same on every controller. ELIMIT: the prefix is full. */
    int  (*address)(void *self, uint64_t n, char addr[64], struct spur_error *err);
    /* Node: makes a new key, which is in force when `me` is filled; the host tells the others. */
    int  (*rotate)(void *self, struct spur_switch_node *me, struct spur_error *err);
    /* Node: row i of the peers, as they were when row 0 was asked for; ENOTFOUND behind the last. */
    int  (*peer)(void *self, uint32_t i, struct spur_switch_peer *out, struct spur_error *err);
    /* since 0.3, optional. Controller and node, on the loop: SPUR_SWITCH_* bits of a cluster with so many nodes; pure, the same everywhere. */
    uint32_t (*traits)(void *self, uint32_t node_count);
    /* Controller: it leads from now on, and this job holds what the blob says; an instance that has just stopped leading was given all back. */
    void (*adopt)(void *self, const struct spur_switch_job *job);
};

#ifdef __cplusplus
}
#endif
#endif
