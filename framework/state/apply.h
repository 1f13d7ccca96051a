/* SPDX-License-Identifier: Apache-2.0 */
/* apply.h - apply(state, entry) -> events: what is now true, the same on every replica.
 *
 * Total and deterministic: a bad or stale operation is answered by its result, never by an assert. Each op of an entry gets one
 * result, in order; each change that the world must hear of is an event. Results and events live in the arena given.
 */
#ifndef STATE_APPLY_H
#define STATE_APPLY_H

#include "state/state.h"

enum event_kind {
    EV_JOB_SUBMITTED,       /* job is pending */
    EV_JOB_STARTED,         /* launch it: batch script to its first node, or tell the waiting client of an allocation */
    EV_STEP_CREATED,        /* launch step on its nodes */
    EV_STEP_ENDED,
    EV_JOB_KILL,            /* end what runs of this job on its nodes: TERM, KillWait, KILL; until empty */
    EV_JOB_SIGNAL,          /* signal */
    EV_JOB_ENDED,           /* final state reached; may still be completing */
    EV_JOB_GONE,            /* nodes are empty, resources free */
    EV_JOB_REQUEUED,        /* pending again */
    EV_JOB_CHANGED,         /* something people see or the plan needs has changed */
    EV_JOB_PURGED,          /* forgotten: blobs may go */
    EV_NODE_CHANGED,        /* state or resources of a node */
    EV_CONFIG_CHANGED,
    EV_HOSTS_CHANGED,       /* keys of hosts, tokens */
    EV_ACCOUNTS_CHANGED,    /* accounts, users, associations */
    EV_MESH_RENEW,          /* a controller is to make a new mesh key; node: its place among mesh_hosts */
    EV_MESH_CHANGED,        /* key or endpoint of a node, NODE_REMOVED: of a controller: the others are to hear of it */
    EV_REPORT_TAKEN,        /* report (node, seq) is in: acknowledge it */
    EV_BLOB_DROPPED,        /* hash: no job names this blob any more */
    EV_JOB_FREEZE,          /* it is suspended, or goes on: as its state says */
    EV_JOB_NODES,           /* a node has left it, or a spare has taken its place: those that run it are told */
    EV_NODE_REBOOT,         /* node is empty and shall reboot */
    EV_ORPHAN,              /* node runs job_id/attempt that is not (or no longer) meant to be there: end it, until empty */
};
#define EVENT_NO_STEP UINT32_MAX
struct event {
    enum event_kind kind;
    uint32_t job_id, step_id, attempt;      /* step_id EVENT_NO_STEP: the job, not one step of it */
    uint32_t node;                  /* index, UINT32_MAX: none, or all nodes of the job that are not gone */
    int      signal;
    const uint8_t *hash;            /* EV_BLOB_DROPPED: 32 bytes, arena */
    uint64_t seq;
    bool     batch_only, full, end_step;
};
struct op_result {
    int      code;                  /* 0 or SPUR_E* */
    int      slurm_errno;           /* Slurm's number where programs know one, else 0 */
    char    *text;                  /* refusal, arena */
    uint32_t job_id, step_id;
    bool     repeated;              /* token was known: this is the first answer again */
};
struct applied {
    struct op_result *results; size_t result_count;
    struct event *events; size_t event_count;
};

/* The feature level of this program: what its apply understands. An operation of a higher level than that of every voter is not proposed, for the ones that do
 * not know it would leave it out (state_op_level). Raised with each new kind of operation, or a new field that changes what an old one does. */
#define STATE_LEVEL 4
uint32_t state_op_level(const Wire__Op *op);

int  apply(struct state *s, uint64_t index, const Wire__Entry *entry, struct arena *arena, struct applied *out);
/* The same from packed bytes. SPUR_ECORRUPT when it is no entry. */
int  apply_bytes(struct state *s, uint64_t index, const void *data, size_t n, struct arena *arena, struct applied *out, struct spur_error *err);
/* Is this token's answer known? For admit: 1 and the result, 0 unknown, SPUR_ESTALE when it is too old to tell. */
int  state_token(const struct state *s, const uint8_t token[16], int64_t token_wall_ms, struct op_result *out);
/* The cluster time at which a running job's limit, with OverTimeLimit, is reached; INT64_MAX: never. */
int64_t state_job_limit_ms(const struct state *s, const struct job *j);
/* Every effect that is not confirmed, as events again: what a new leader or a restarted controller must do. */
void state_reemit(const struct state *s, struct arena *arena, struct applied *out);

/* What people see, built from state (info.c); strings in the arena. */
struct job_query { const char *const *partitions; };
Wire__JobInfo  *job_info(const struct state *s, const struct job *j, uint64_t fields, int64_t wall_now_s, struct arena *a);
Wire__NodeInfo *node_info(const struct state *s, const struct node *n, uint64_t fields, struct arena *a);
#define NODE_FIELD_DETAILS 1u   /* all but name, state, flags, partitions and counts of CPUs, which are always filled */
#define NODE_FIELD_DEVICES 2u   /* GPUs by number, their table, where the node hangs */
Wire__PartitionInfo *partition_info(const struct state *s, const struct config_partition *p, struct arena *a);
Wire__StepInfo *step_info(const struct state *s, const struct job *j, const struct step *st, int64_t wall_now_s, struct arena *a);
#define JOB_FIELD_SPEC    1u    /* fills spec */
#define JOB_FIELD_ALLOCS  2u
#define JOB_FIELD_TRES    4u    /* req_tres, alloc_tres, gres_alloc */
#define JOB_FIELD_PATHS   8u    /* std_in, std_out, std_err expanded */
#define JOB_FIELD_LAYOUT 16u    /* cpus_per_node, tasks_per_node */
#define JOB_FIELD_TEXTS  32u    /* reason_text, dependency, why_there, sched_nodes, group, qos */
#define JOB_FIELD_BARE   64u    /* alone: ids, tasks, state, flags, user id, partition, priority and start, and nothing else */

/* SLURM_HET_SIZE and NAME_HET_GROUP_N of the components of a heterogeneous job; a component that is no longer known is NULL. hetenv.c */
void het_environment(Wire__JobInfo *const *parts, uint32_t count, void (*set)(void *arg, const char *name, const char *value), void *arg);
/* What a prolog or epilog finds in its environment. context: SLURM_SCRIPT_CONTEXT, "prolog_slurmd". hookenv.c */
void hook_environment(const Wire__JobInfo *job, const char *context, bool is_epilog, void (*set)(void *arg, const char *name, const char *value), void *arg);

/* Ids as users write them: "12", "12_3", "12_[1-4,7]"; "12+1", the component whose own id is 13: het_named() of state.h says whether that is one.
 * tasks: NULL when the whole job is meant. */
int  job_id_parse(const char *text, uint32_t *job_id, struct bitmap *tasks, bool *has_tasks, struct spur_error *err);
/* Dependency text -> terms; checks words and numbers, not existence. dependency.c */
int  dependency_parse(const char *text, struct dep_term **terms, uint32_t *count, bool *any, struct spur_error *err);
/* Array text "0-99:2%5" -> bitmap and limit, at most max_size tasks, ids below max_size. array.c */
int  array_parse(const char *text, uint32_t max_size, struct bitmap *out, uint32_t *limit, struct spur_error *err);
/* "%x-%j.out" -> path: %A %a %J %j %N %n %s %t %u %x %b %%, width "%5j"; work_dir in front of relative ones. path.c */
struct path_ids { uint32_t job_id, array_job_id, array_task_id, step_id, node_rank, task; const char *user, *job_name, *node, *short_host; bool has_step, has_task, has_node; };
void path_expand(const char *pattern, const char *work_dir, const struct path_ids *ids, struct str *out);
/* TRES texts: "gres:gpu:a100:4,gres:lustre:1", "gpu:2", "gres/gpu=2" -> rows. tres.c */
struct tres_row { char *name, *type; uint64_t count; };
int  tres_parse(const char *text, struct tres_row **rows, size_t *count, struct spur_error *err);
void tres_free(struct tres_row *rows, size_t count);

#endif
