/* SPDX-License-Identifier: Apache-2.0 */
/* private.h - what the files of state/ share and nobody else sees: the indexes behind struct state, and the calls between the nouns.
 *
 * An apply runs in one `struct doing`: it gathers events and the work that one change causes elsewhere (a job's end wakes its dependents),
 * so that chains of any length are walked in a loop, never in recursion.
 */
#ifndef STATE_PRIVATE_H
#define STATE_PRIVATE_H

#include <spur/score.h>

#include "state/apply.h"

struct list32 { uint32_t *ids; uint32_t count, room; };
void list32_add(struct list32 *l, uint32_t id);         /* once each */
void list32_fini(struct list32 *l);

struct token {                      /* token.c */
    uint8_t  bytes[16];
    int64_t  wall_ms, born_wall_ms; /* when it came here; when the client made it */
    uint32_t job_id, step_id;
};
struct view_base;                   /* configure.c */
void state_counting(struct state *s);                           /* how the configuration counts consumables */

/* view.c */

struct state_private {
    struct table dependents;        /* job id -> struct list32 of the jobs that wait for it (dependency.c) */
    struct table names;             /* hash of uid and name -> first job of that name; running ones stand in front */
    struct table ended;             /* job id -> job, in the order they became forgettable */
    struct table blobs;             /* first bytes of a hash -> struct blob (blob.c) */
    struct table shared;            /* text -> struct shared (share.c) */
    struct table devices; uint32_t device_id;       /* hash -> struct devices (devices.c); the id given last */
    struct token *tokens; uint64_t token_first, token_next; uint64_t token_room;    /* ring: number n stands at n % token_room */
    int64_t  token_floor_ms;        /* tokens born no later may have been dropped */
    Wire__PartitionUpdateRequest **partition_updates; size_t partition_update_count;   /* by scontrol, since the configuration; owned */
    uint64_t next_seq, task_total;
    struct view_base *view;
    uint32_t cr;                    /* SPUR_CR_* of the configuration */
    bool     cores_whole;           /* a core goes to one job only */
    bool     has_singletons;        /* some job waits or has waited for its turn: chains of names matter */
};

struct doing {
    struct state *s;
    struct arena *arena;
    struct event *events; size_t event_count, event_room;
    struct list32 woken;            /* jobs whose dependencies may have changed */
    const Wire__Op *op;
    struct op_result *result;
    uint32_t op_uid; bool has_uid;
};

int  refuse(struct doing *d, int code, int slurm_errno, const char *format, ...) __attribute__((format(printf, 4, 5)));
struct event *tell(struct doing *d, enum event_kind kind, const struct job *j);
/* Slurm's numbers that programs know. */
enum { ESLURM_INVALID_PARTITION_NAME = 2000, ESLURM_INVALID_JOB_ID = 2017, ESLURM_INVALID_NODE_NAME = 2018, ESLURM_TRANSITION_STATE_NO_UPDATE = 2020,
       ESLURM_ALREADY_DONE = 2021, ESLURM_JOB_PENDING = 2024, ESLURM_INVALID_NODE_STATE = 2028, ESLURM_NOT_SUPPORTED = 2036, ESLURM_DISABLED = 2037,
       ESLURM_DEPENDENCY = 2038, ESLURM_BATCH_ONLY = 2039, ESLURM_NODES_BUSY = 2059, ESLURM_NOT_HET_JOB_LEADER = 2107, ESLURM_NOT_WHOLE_HET_JOB = 2108 };

/* rules.c - the table of what may happen to a job. */
#define JOB_PHASES(X) X(PENDING) X(LAUNCHING) X(RUNNING) X(REQUEUEING) X(COMPLETING) X(ENDED) X(SUSPENDED)
enum job_phase {
#define JOB_PHASE_ROW(name) PHASE_##name,
    JOB_PHASES(JOB_PHASE_ROW)
#undef JOB_PHASE_ROW
    PHASE_COUNT
};
#define JOB_HAPPENINGS(X) X(START) X(LAUNCHED) X(EXIT_OK) X(EXIT_BAD) X(OOM) X(CANCEL) X(TIMEOUT) X(DEADLINE) X(NODE_LOST) X(LAUNCH_FAILED) X(REQUEUE) X(EMPTY) X(PURGE) X(SUSPEND) X(RESUME)
enum job_happening {
#define JOB_HAPPENING_ROW(name) JOB_##name##_,
    JOB_HAPPENINGS(JOB_HAPPENING_ROW)
#undef JOB_HAPPENING_ROW
    HAPPENING_COUNT
};
#define EFFECT_CHARGE  0x01u    /* allocation enters the ledger; launch it */
#define EFFECT_END     0x02u    /* final state, end time, reason */
#define EFFECT_KILL    0x04u    /* agents end what is left */
#define EFFECT_GONE    0x08u    /* nodes are empty */
#define EFFECT_AGAIN   0x10u    /* back into the queue */
#define EFFECT_FORGET  0x20u
#define EFFECT_ASK     0x40u    /* remember that it shall be requeued */
#define EFFECT_FREEZE  0x80u    /* processes stand still or go on, cores are lent out or taken back */
struct job_rule { uint8_t phase, what, next; int8_t state; uint8_t effects; };    /* state: final state, -1: unchanged */
const struct job_rule *job_rule(enum job_phase phase, enum job_happening what);  /* NULL: cannot happen */
enum job_phase job_phase(const struct job *j);
const char *job_phase_name(enum job_phase p);
const char *job_happening_name(enum job_happening h);

/* life.c - carries out the rules. 0 or SPUR_ESTALE when the table has no such cell. */
struct job_detail { int32_t status; enum job_reason reason; const char *text; uint32_t node; };
int  job_happens(struct doing *d, struct job *j, enum job_happening what, const struct job_detail *detail);
int  job_start(struct doing *d, struct job *j, const Wire__OpStart *o, struct node_alloc *take_allocs, uint32_t count);
void job_node_gone(struct doing *d, struct job *j, uint32_t alloc_index);   /* nothing of the job is alive there: frees it, ends COMPLETING with the last one */
void job_broken_on(struct doing *d, struct job *j, uint32_t alloc_index, const char *why);    /* it cannot go on there, but is alive: ended, then as after a loss */
void job_lost_on(struct doing *d, struct job *j, uint32_t alloc_index, const char *why);      /* the node has died under it */
void job_emptied(struct doing *d, struct job *j);               /* ends COMPLETING if nothing is left to wait for */
int  job_suspend(struct doing *d, struct job *j, struct spur_error *err);
int  job_resume(struct doing *d, struct job *j, struct spur_error *err);      /* ELATER: its cores are in use */
void job_launch_failed(struct doing *d, struct job *j, const char *why);       /* a node did not take it: again elsewhere after a while, or held */
void job_print_nodes(struct state *s, struct job *j);
void job_kill_event(struct doing *d, const struct job *j);

/* job.c */
struct job *job_create(struct state *s, uint32_t job_id);       /* not in the table yet */
void job_destroy(struct state *s, struct job *j);
void job_enter(struct state *s, struct job *j);                 /* into the table and the indexes; counts */
void job_leave(struct state *s, struct job *j);                 /* out of them; does not free */
void job_take_spec(struct state *s, struct job *j, const Wire__JobSpec *spec);   /* packs it and fills the hot copies */
void job_take_hot(struct state *s, struct job *j, const Wire__JobSpec *spec);    /* the hot copies alone: j->spec holds it already */
void job_set_state(struct state *s, struct job *j, unsigned state);
uint32_t job_next_id(struct state *s);                          /* 0: none is free */
struct job *job_root(const struct state *s, const struct job *j);       /* the array's own record; j itself otherwise */
struct job *job_clone(struct state *s, const struct job *j, uint32_t job_id);
void node_alloc_fini(struct node_alloc *a);
void step_destroy(struct step *st);
void text_set(char **to, const char *text);                     /* NULL and "" clear */
char *job_id_text(const struct job *j, struct arena *a);        /* "12", "12_3", "12_[1-4]" */

/* step.c */
struct step *job_step(const struct job *j, uint32_t step_id);
struct node_alloc *step_alloc_on(const struct step *st, uint32_t node);
void step_ended_on(struct doing *d, struct job *j, struct step *st, struct node_alloc *a, int32_t status, bool oom);
void steps_gone_on(struct doing *d, struct job *j, uint32_t node);
void steps_drop(struct doing *d, struct job *j);

/* share.c: texts that many jobs have in common, once each */
char *share_text(struct state *s, const char *text);      /* NULL and "" give NULL */
uint32_t *share_numbers(struct state *s, const uint32_t *numbers, uint32_t count);        /* none: NULL */
void *share_more(void *shared);                     /* one more user of it */
void share_drop(struct state *s, const void *shared);           /* NULL is fine */
void share_set(struct state *s, char **to, const char *text);

/* devices.c: device tables, once for all nodes that send the same. Holding counts a user; NULL is no table. */
int  devices_hold(struct state *s, const Wire__DeviceTable *w, struct devices **out, struct spur_error *err);  /* EINVAL, ELIMIT: it contradicts itself */
int  devices_hold_packed(struct state *s, const void *data, size_t size, struct devices **out, struct spur_error *err);
struct devices *devices_more(struct devices *t);                /* one more user of it */
void devices_drop(struct state *s, struct devices *t);
const uint8_t *devices_packed(const struct devices *t, size_t *size);
uint32_t devices_count(const struct state *s);

/* ledger.c */
int  ledger_alloc_from(struct state *s, const Wire__NodeAlloc *w, struct node_alloc *out, struct spur_error *err);
int  ledger_check(const struct state *s, const struct node_alloc *a, bool exclusive, struct spur_error *err);
void ledger_charge(struct state *s, struct job *j, struct node_alloc *a);
void ledger_release(struct state *s, const struct job *j, const struct node_alloc *a);
/* A suspended job: its cores go, memory and devices stay; and back, after a check of each node. */
void ledger_park(struct state *s, const struct node_alloc *a);
int  ledger_unpark_check(const struct state *s, const struct node_alloc *a, struct spur_error *err);
void ledger_unpark(struct state *s, struct node_alloc *a);
void ledger_rebuild(struct state *s);                           /* from the jobs; after a changed configuration and a snapshot */

/* node.c, inventory.c */
bool node_may_start(const struct node *n);                      /* as all replicas see it: without the leader's own knowledge */
void node_setup(struct node *n, const struct config_node *conf, uint32_t index);
void node_gres_setup(struct state *s, struct node *n);
void node_record_fini(struct state *s, struct node *n);
void node_set_reason(struct doing *d, struct node *n, const char *reason, bool ours, const char *user, uint32_t uid);
void node_changed(struct doing *d, struct node *n);
void node_foreign_add(struct node *n, uint32_t job_id, uint32_t attempt);
bool node_foreign_remove(struct node *n, uint32_t job_id, uint32_t attempt);
uint32_t *state_jobs_on(const struct node *n, struct arena *a, uint32_t *count);    /* ids of jobs that hold something there, ascending */
struct node_alloc *job_alloc_on(const struct job *j, uint32_t node);

/* array.c */
struct job *array_split(struct state *s, struct job *j, const struct bitmap *tasks);     /* record for these tasks of j (j itself when they are all); NULL: no id is free */
void array_free(struct array *a);
void array_task_started(struct state *s, struct job *j);
void array_task_ended(struct state *s, struct job *j, bool ok);
void array_task_requeued(struct state *s, struct job *j, bool was_end);
bool array_complete(const struct job *root);

/* het.c */
struct job **het_records(struct doing *d, struct job *j, bool alone, size_t *count);    /* what an operation on j means, in the arena: all components when j is the first, else j */
bool het_follows(const struct state *s, const struct job *j);                   /* a component that ended by itself, and whose job is on its way back into the queue */
uint32_t het_next_ids(struct state *s, uint32_t count);                         /* first of so many ids that follow each other; 0: there are none */
int  het_refuse_single(struct doing *d, const struct job *j);
bool het_forgettable(const struct state *s, const struct job *j, bool (*one)(const struct state *s, const struct job *j, int64_t before_cluster_ms), int64_t before_cluster_ms);
int  het_suspend(struct doing *d, struct job *j, bool resume, struct spur_error *err);
int  start_prepare(struct doing *d, const Wire__OpStart *o, const struct config_partition **part, struct node_alloc **allocs, uint32_t *count);
struct step *step_make(struct doing *d, const Wire__OpStep *o, struct job **job);       /* NULL: refused, and the result says so */
void step_enter(struct doing *d, struct job *j, struct step *st, uint32_t step_id);
uint32_t step_next_id(const struct state *s, const struct job *j);              /* components count together */

/* dependency.c */
void dependency_enter(struct doing *d, struct job *j);          /* after deps are set: registers, evaluates */
void dependency_index(struct state *s, struct job *j);          /* registers only (snapshot) */
void dependency_leave(struct job *j);                           /* it waits for nothing any more */
void dependency_started(struct job *j);
void dependency_narrow(struct job *j);
void dependency_forget(struct state *s, uint32_t job_id);       /* nobody can wait for this id any more */
void dependency_notify(struct doing *d, struct job *j);         /* j has started, ended or been emptied */
void dependency_settle(struct doing *d);                        /* works off d->woken */
int  dependency_set(struct doing *d, struct job *j, const char *text, struct spur_error *err);
void dependency_print(const struct state *s, const struct job *j, struct str *out);
bool dependency_holds(const struct job *j, int64_t wall_now_s, bool *never, int64_t *when);
bool dependency_task_holds(const struct job *j, uint32_t task, int64_t wall_now_s);
void name_enter(struct state *s, struct job *j);
void name_leave(struct state *s, struct job *j);
void name_moved(struct doing *d, struct job *j);                /* it has started, ended or come back */

/* hooks.c */
void hooks_begin(const struct state *s, struct job *j);         /* it starts: what it has to wait for */
void hooks_end(const struct state *s, struct job *j);           /* it has ended or is requeued, and held nodes */
void hooks_ready(struct doing *d, struct job *j, struct node_alloc *a);         /* the Prolog of this node has run */
bool hooks_report(struct doing *d, struct job *j, struct node_alloc *a, const Wire__Report *r);     /* LAUNCH_FAILED by a Prolog: true when that was it */
void hooks_drain(struct doing *d, struct node *n, const char *reason);

/* token.c, blob.c */
struct token *token_find(const struct state *s, const uint8_t bytes[16]);
void token_add(struct state *s, const uint8_t bytes[16], int64_t born_wall_ms, uint32_t job_id, uint32_t step_id);
void token_reserve(struct state *s, uint32_t count);
void token_expire(struct state *s);
const uint8_t *blob_hold(struct state *s, const uint8_t hash[32]);      /* the index's own copy: lives until the last drop */
void blob_drop(struct doing *d, const uint8_t hash[32]);
void blobs_fini(struct state *s);

/* configure.c */
void state_counting(struct state *s);                           /* how the configuration counts consumables */

/* view.c */
void view_touch(struct state *s, uint32_t node);
void view_rebuild(struct state *s);
void view_free(struct state *s);

/* one function an op */
void op_config(struct doing *d, const Wire__OpConfig *o);
void op_submit(struct doing *d, const Wire__OpSubmit *o);
void op_start(struct doing *d, const Wire__OpStart *o);
void op_report(struct doing *d, const Wire__OpReport *o);
void op_cancel(struct doing *d, const Wire__OpCancel *o);
void op_update(struct doing *d, const Wire__OpUpdate *o);
void op_register(struct doing *d, const Wire__OpRegister *o);
void op_node_update(struct doing *d, const Wire__OpNodeUpdate *o);
void op_node_lost(struct doing *d, const Wire__OpNodeLost *o);
void op_node_reboot(struct doing *d, const Wire__OpNodeReboot *o);
void node_reboot_over(struct doing *d, struct node *n);          /* it has registered, with another boot */
void node_reboot_failed(struct doing *d, struct node *n, const char *why);
/* Something of this attempt is alive on a node that has no part in it: it is ended, and no other job comes until it is. */
void node_orphan(struct doing *d, struct node *n, uint32_t job_id, uint32_t attempt);
void node_reboot_if_empty(struct doing *d, struct node *n);     /* the last job has left it: what was asked for is due */
void op_time_limit(struct doing *d, const Wire__OpTimeLimit *o);
void op_step(struct doing *d, const Wire__OpStep *o);
void op_purge(struct doing *d, const Wire__OpPurge *o);
void op_partition(struct doing *d, const Wire__OpPartition *o);
void op_hook(struct doing *d, const Wire__OpHook *o);
void op_het_start(struct doing *d, const Wire__OpHetStart *o);
void op_het_step(struct doing *d, const Wire__OpHetStep *o);
void op_hosts(struct doing *d, const Wire__OpHosts *o);
/* meshhost.c */
void op_mesh_host(struct doing *d, const Wire__OpMeshHost *o);
bool mesh_hosts_take(struct state *s, Wire__SnapMeshHost *const *rows, size_t n);       /* of a snapshot; false: they cannot be */
Wire__SnapMeshHost **mesh_hosts_pack(const struct state *s, struct arena *a);
void mesh_hosts_free(struct state *s);
void op_accounts(struct doing *d, const Wire__AccountChange *o);
int  partition_change(struct state *s, const Wire__PartitionUpdateRequest *u, struct spur_error *err);     /* on the configuration; partition.c */
uint32_t job_part_index(const struct state *s, const struct job *j);     /* of the first partition it asks for */
int  job_update_set(struct doing *d, struct job *j, Wire__KeyValue *const *set, size_t n, bool by_admin, struct spur_error *err);
/* Records named by an op: the job, or the tasks of an array, split off as records of their own when they are part of one. */
size_t command_records(struct doing *d, uint32_t job_id, const char *tasks, bool has_task, uint32_t task, bool split, struct job ***out);

#endif
