/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - the replicated truth: configuration, nodes, jobs, tokens; what apply makes of the log.
 *
 * Pure: no clock, file, thread, plugin, float or hash order. The controller's loop owns one; the simulator many.
 */
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>
#include <spur/view.h>

#include "base/arena.h"
#include "base/bitmap.h"
#include "base/table.h"
#include "config/config.h"
#include "state/job.h"

/* Base states of a node (Slurm's numbers) and flags. ALLOCATED, MIXED, IDLE follow from what jobs hold; node_state_now() says which. */
enum node_state { NODE_UNKNOWN = 0, NODE_DOWN = 1, NODE_IDLE = 2, NODE_ALLOCATED = 3, NODE_ERROR = 4, NODE_MIXED = 5, NODE_FUTURE = 6 };
#define NODE_FLAG_DRAIN      0x0001u
#define NODE_FLAG_COMPLETING 0x0002u
#define NODE_FLAG_NO_RESPOND 0x0004u
#define NODE_FLAG_CLOUD      0x0008u
#define NODE_FLAG_FAIL       0x0010u
#define NODE_FLAG_MAINT      0x0020u
#define NODE_FLAG_RESERVED   0x0040u
#define NODE_FLAG_INVALID_REG 0x0080u
#define NODE_FLAG_POWERED_DOWN 0x0100u
#define NODE_FLAG_PLANNED    0x0200u
#define NODE_FLAG_REBOOT_REQUESTED 0x0400u
#define NODE_FLAG_REBOOT_ISSUED 0x0800u     /* told to reboot, not back yet */
#define NODE_FLAG_REBOOT_ASAP 0x1000u       /* drained for it */
#define NODE_FLAG_NEXT_DOWN  0x2000u        /* what it shall be after the reboot */
#define NODE_FLAG_NEXT_RESUME 0x4000u

struct devices;
struct node_gres { char *name, *type; uint64_t total, used, all_mask, used_mask; bool no_consume; };

struct node {
    uint32_t index;                 /* in config->nodes */
    const struct config_node *conf;
    uint8_t  base;                  /* UNKNOWN DOWN IDLE(=up) FUTURE */
    uint32_t flags;
    char    *reason; uint32_t reason_uid; char *reason_user; int64_t reason_wall_s;
    bool     reason_is_ours;        /* set by the controller (lost, inventory): lifted by the same check; an admin's never */
    bool     registered;            /* has reported since the last DOWN */
    /* from its registration; equal to conf until then */
    uint32_t boards, sockets, cores_per_socket, threads_per_core, cpus; uint64_t mem_mib, tmp_mib;
    char    *version, *os, *arch, *addr, *hostname; int64_t boot_wall_s, agent_start_wall_s;
    /* the ledger */
    struct bitmap cores_used;       /* whole cores held (CR_CPU: cores with no free thread) */
    uint16_t *core_threads_used;    /* a core: threads held (CR_CPU), else NULL */
    uint32_t cpus_used, jobs; uint64_t mem_used;
    uint32_t *job_ids, job_room;    /* who they are, in no order: state_jobs_on() sorts */
    uint32_t exclusive_job;         /* 0: none */
    struct node_gres *gres; uint32_t gres_count;
    int64_t  last_busy_wall_s;
    char    *comment, *extra, *features;    /* features: overrides conf when updated */
    uint32_t weight;
    char    *boot_id, *instance_id, *instance_type;
    uint64_t mesh_number; uint8_t mesh_key[32]; char *mesh_endpoint;    /* 0: never in the mesh; its address follows from the number and stays */
    struct devices *devices; char *fabric;      /* its GPUs and their links (devices.c); the domain beyond the node (share.c): NULL none */
    uint32_t completing;            /* jobs that have ended and are not gone from here; shown as NODE_FLAG_COMPLETING */
    bool     lost;                  /* DOWN because it stopped answering (ReturnToService=1 lifts only that) */
    uint64_t reboot_number; int64_t reboot_cluster_ms;      /* of the reboot asked for last; when it was issued */
    uint32_t launch_fails;          /* in a row: jobs that it did not start */
    struct node_foreign { uint32_t job_id, attempt; } *foreign; uint32_t foreign_count;   /* runs there and should not: no new job until it is gone */
    /* advice from heartbeats; in no snapshot */
    uint32_t load_hundredths; uint64_t mem_free_mib; int64_t heard_ms; bool connected;
    bool     away;                  /* the leader has no connection to it: not usable for now (state_node_away) */
};

/* A controller in the mesh. Key all zero: it has left; its number, and so its address, stay its own. */
struct mesh_host { char *name; uint64_t number; uint8_t key[32]; char *endpoint; };

struct state {
    Wire__Accounts *accounts;       /* who may charge what (accounts.c); owned; NULL: as a cluster begins */
    struct config *config; uint64_t config_version;     /* version: grows with each OpConfig; NULL until the first */
    struct node *nodes; uint32_t node_count;
    struct table jobs;              /* job_id -> struct job*, in order of submission */
    uint32_t next_job_id;
    uint64_t mesh_next;             /* number of the last node or controller that joined the mesh */
    struct mesh_host *mesh_hosts; uint32_t mesh_host_count;     /* controllers in it, in the order in which they came; meshhost.c */
    struct table tokens;            /* see token.c */
    int64_t  cluster_ms, wall_ms;   /* of the last entry; never go back */
    uint64_t index, fence;          /* of the last entry */
    uint64_t view_version;          /* grows with each change of what a job could get */
    uint32_t running_jobs, pending_jobs;
    struct state_private *priv;     /* indexes: dependents, blobs in use, view cache, tokens in order, ended jobs in order */
};

/* The device table that a node has registered with; NULL: none. Lives until the next apply. devices.c */
const struct spur_device_table *devices_table(const struct devices *t);

struct state *state_create(void);
void state_destroy(struct state *s);
struct job  *state_job(const struct state *s, uint32_t job_id);         /* NULL when unknown */
struct job  *state_array_task(const struct state *s, uint32_t array_job_id, uint32_t task_id);      /* started task's record or NULL */
struct job  *state_array_record(const struct state *s, uint32_t array_job_id, uint32_t task_id);    /* the record that stands for this task, started or not */
/* Of a heterogeneous job: its first component (j itself when it is none), and one by its place; NULL: no longer known. het.c */
#define HET_MAX 128u
struct job  *het_leader(const struct state *s, const struct job *j);
struct job  *het_part(const struct state *s, const struct job *j, uint32_t offset);
struct job  *het_named(const struct state *s, const char *id_text);           /* "12+1"; NULL: no such component */
struct node *state_node(const struct state *s, const char *name);
const struct mesh_host *state_mesh_host(const struct state *s, const char *name);       /* NULL: this controller was never in the mesh */
unsigned     node_state_now(const struct node *n);                     /* IDLE, MIXED, ALLOCATED, DOWN, ... */
/* As sinfo and scontrol spell it: "idle", "mix", "drain*"; long "IDLE+DRAIN+..." for scontrol show node when `full`. */
void         node_state_print(unsigned base_now, uint32_t flags, bool compact, bool full, struct str *out);
bool         node_is_usable(const struct node *n);                      /* up, not drained, answering, nothing foreign on it */
uint32_t     node_flags_now(const struct node *n);                     /* flags and what follows from jobs (COMPLETING) */
static inline uint32_t node_cores(const struct node *n) { return n->conf->sockets * n->conf->cores_per_socket; }
/* The leader's own knowledge of a connection: advice, in no snapshot. Followers and tests leave it alone: nodes are there. */
void         state_node_away(struct state *s, struct node *n, bool away);

/* May this pending job start at this wall time, as far as holds, dependencies, begin time and %limit say? If not: why, and from when on (INT64_MAX: an event comes first). */
bool         job_eligible(const struct state *s, const struct job *j, int64_t wall_now_s, enum job_reason *why, int64_t *when);
/* Does a dependency that can never be met end this job (--kill-on-invalid-dep, else kill_invalid_depend of the configuration)? dependency.c */
bool         job_ends_unmet(const struct state *s, const struct job *j);
/* Lowest task of a task set that may start now (aftercorr, %limit); UINT32_MAX: none. OpStart names it. */
uint32_t     array_next_task(const struct state *s, const struct job *j);

/* The view for plugins over the present ledger; borrowed until the next apply. Overlay: base plus what these jobs hold, released. */
const struct spur_view *state_view(struct state *s);
struct overlay;
struct overlay *overlay_create(struct state *s);                       /* copy of the base that can be changed */
struct overlay *overlay_copy(const struct overlay *o);
void  overlay_meet(struct overlay *to, const struct overlay *with);    /* leaves in `to` only what is free in both: cores, devices, memory, usable nodes */
void  overlay_destroy(struct overlay *o);
void  overlay_release(struct overlay *o, const struct node_alloc *allocs, uint32_t n);
void  overlay_take(struct overlay *o, const struct spur_placement *p, const struct spur_ask *ask);
void  overlay_take_allocs(struct overlay *o, const struct node_alloc *allocs, uint32_t n);
/* For a copy of the base that lives on over applies: each node that has changed in the base since is again as it is there. The nodes so changed, each once
 * or more, until the next apply. False: too much has changed, it must be made anew; nothing else may be done with it. */
bool  overlay_follow(struct overlay *o, struct state *s, const uint32_t **nodes, size_t *count);
const struct spur_view *overlay_view(struct overlay *o);

/* BLAKE2b-256 of everything replicated, for tests and the simulator. */
void  state_digest(const struct state *s, uint8_t out[32]);
/* Snapshot as a stream of length-prefixed records through write(); restore from the same. snapshot.c. Returns 0 or a code. */
typedef long (*snapshot_write_fn)(void *arg, const void *data, size_t n);
typedef long (*snapshot_read_fn)(void *arg, void *data, size_t n);
int   state_save(const struct state *s, snapshot_write_fn write, void *arg, struct spur_error *err);
int   state_load(struct state **out, snapshot_read_fn read, void *arg, struct spur_error *err);
/* Hashes of the blobs that jobs name, for the controller's blob folder: calls fn(arg, hash) once each. */
bool  state_blob_used(const struct state *s, const uint8_t hash[32]);
void  state_blobs(const struct state *s, void (*fn)(void *arg, const uint8_t hash[32]), void *arg);

/* For tests: "job 7 pending; node n1 gpus 8". text.c */
struct state *state_from_text(const char *text);

#endif
