/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - jobs, array records, their steps and the table of what may happen to them.
 *
 * Owned by the state tree alone; everybody else holds ids and looks up. Only apply (command.c, apply.c) changes a job. What the scheduler
 * needs hot stands in struct job; the rest of the request stays packed (spec) and is unpacked for display.
 * An array is one record: tasks that have not started are bits in `array->pending`; a started task is a job of its own that points to
 * the array's id. Task jobs get a fresh job id when they start; the last pending task takes the array's own id, as in Slurm.
 */
#ifndef STATE_JOB_H
#define STATE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bitmap.h"
#include "wire/spur.pb-c.h"

/* Base states: number, name, compact name as squeue prints them. Numbers are Slurm's. */
#define JOB_STATES(X) \
    X(JOB_PENDING,   0, "PENDING",   "PD") X(JOB_RUNNING,   1, "RUNNING",   "R")  X(JOB_SUSPENDED, 2, "SUSPENDED", "S") \
    X(JOB_COMPLETE,  3, "COMPLETED", "CD") X(JOB_CANCELLED, 4, "CANCELLED", "CA") X(JOB_FAILED,    5, "FAILED",    "F") \
    X(JOB_TIMEOUT,   6, "TIMEOUT",   "TO") X(JOB_NODE_FAIL, 7, "NODE_FAIL", "NF") X(JOB_PREEMPTED, 8, "PREEMPTED", "PR") \
    X(JOB_BOOT_FAIL, 9, "BOOT_FAIL", "BF") X(JOB_DEADLINE, 10, "DEADLINE",  "DL") X(JOB_OOM,      11, "OUT_OF_MEMORY", "OOM")
enum job_state {
#define JOB_STATE_ROW(name, number, text, compact) name = number,
    JOB_STATES(JOB_STATE_ROW)
#undef JOB_STATE_ROW
    JOB_STATE_COUNT
};
/* Flags beside the base state; names as squeue shows them when they hide the base state. */
#define JOB_FLAG_COMPLETING   0x0001u   /* ended, nodes not yet empty: "COMPLETING" CG */
#define JOB_FLAG_CONFIGURING  0x0002u   /* allocated, not all nodes have started: "CONFIGURING" CF */
#define JOB_FLAG_REQUEUE      0x0004u   /* goes back to PENDING when its nodes are empty: "REQUEUED" RQ */
#define JOB_FLAG_REQUEUE_HOLD 0x0008u   /* ... and held: "REQUEUE_HOLD" RH */
#define JOB_FLAG_SPECIAL_EXIT 0x0010u
#define JOB_FLAG_STOPPED      0x0020u
#define JOB_FLAG_RESIZING     0x0040u
#define JOB_FLAG_SIGNALING    0x0080u

static inline bool job_state_is_end(unsigned state) { return state > JOB_SUSPENDED; }
const char *job_state_name(unsigned state, unsigned flags, bool compact);   /* "COMPLETING" for RUNNING + flag, as squeue %T, %t */
bool job_state_parse(const char *text, unsigned *state, unsigned *flags);   /* long or compact, any case */

/* Why a job waits or ended: Slurm's words. */
#define JOB_REASONS(X) \
    X(None) X(Priority) X(Dependency) X(Resources) X(PartitionNodeLimit) X(PartitionTimeLimit) X(PartitionDown) X(PartitionInactive) \
    X(JobHeldAdmin) X(JobHeldUser) X(BeginTime) X(Licenses) X(Reservation) X(ReqNodeNotAvail) X(NodeDown) X(BadConstraints) X(SystemFailure) \
    X(JobLaunchFailure) X(NonZeroExitCode) X(RaisedSignal) X(TimeLimit) X(DependencyNeverSatisfied) X(JobHoldMaxRequeue) X(JobArrayTaskLimit) \
    X(DeadLine) X(PartitionConfig) X(OutOfMemory) X(MaxMemPerLimit) X(Constraints) X(SchedDefer) X(Cleaning) X(InvalidAccount) X(InvalidQOS) X(Prolog)
enum job_reason {
#define JOB_REASON_ROW(name) REASON_##name,
    JOB_REASONS(JOB_REASON_ROW)
#undef JOB_REASON_ROW
    REASON_COUNT
};
const char *job_reason_name(unsigned reason);

/* One term of a dependency, parsed when the job is submitted or updated. */
enum dep_type { DEP_AFTER, DEP_AFTERANY, DEP_AFTEROK, DEP_AFTERNOTOK, DEP_AFTERCORR, DEP_SINGLETON, DEP_AFTERBURSTBUFFER };
enum dep_status { DEP_WAITS, DEP_HOLDS, DEP_FAILED };
#define DEP_TASK_ALL UINT32_MAX
struct dep_term {
    uint8_t  type, status;
    uint32_t job_id, task_id;       /* task_id DEP_TASK_ALL: the whole job or array */
    uint32_t delay_min;             /* after:ID+MIN */
    int64_t  since_wall_s;          /* when an `after` with delay began to count; 0: not yet */
    struct bitmap ok, bad;          /* aftercorr: tasks whose counterpart has ended well, or otherwise; empty until the first */
};
void dep_terms_free(struct dep_term *terms, uint32_t count);

struct gres_alloc { char *name, *type; uint64_t count, mask; };
struct node_alloc {                 /* what a job holds on one node */
    uint32_t node;                  /* index in the configuration; NODE_REMOVED when the node is no longer in it (then lost_name) */
    char    *lost_name;
    uint32_t cpus, tasks;
    uint64_t mem_mib;
    struct bitmap cores;
    uint8_t *threads;               /* CR_CPU: threads held of each set core, in order; NULL: all of them */
    struct gres_alloc *gres; uint32_t gres_count;
    bool     gone;                  /* the agent has said that nothing of the job is alive there: resources are free */
    bool     started;
    bool     ready;                 /* its Prolog has run (PrologFlags=Alloc) */
    bool     spare;                 /* held, not used: takes the place of a node that is lost. Spares stand behind the others */
};

/* What of the site's hooks a job waits for: before its launch it is CONFIGURING, after its end COMPLETING (hooks.c). */
#define AWAITS_PROLOG_CTLD 0x1u     /* PrologSlurmctld */
#define AWAITS_PROLOGS     0x2u     /* the Prolog of each of its nodes */
#define AWAITS_EPILOG_CTLD 0x4u     /* EpilogSlurmctld */

#define NODE_REMOVED UINT32_MAX

#define STEP_BATCH  0xfffffffbu     /* Slurm's numbers for N.batch, N.extern, N.interactive */
#define STEP_EXTERN 0xfffffffcu
#define STEP_INTERACTIVE 0xfffffffau
struct step {
    uint32_t step_id, ntasks;
    Wire__StepSpec *spec;           /* owned; NULL for the batch step */
    struct node_alloc *allocs; uint32_t alloc_count;    /* subset of the job's nodes */
    int64_t  start_wall_s, end_wall_s, start_cluster_ms;
    uint8_t  state;                 /* enum job_state */
    int32_t  exit_status;           /* highest wait() status seen */
    uint32_t ended_nodes;
    bool     oom, timed_out;        /* on one of its nodes; the state says it once all have ended */
    uint8_t  io_key[32]; bool has_io_key; char *io_host; uint32_t io_port;
    uint8_t  env_hash[32]; bool has_env;
    struct step *next;
};

struct array {
    struct bitmap pending;          /* tasks that this record stands for: not started; once the record has ended: those that ended with it */
    /* what follows is kept in the array's own record only */
    uint32_t limit;                 /* %limit; 0: none */
    uint32_t running;               /* started and not ended */
    uint32_t task_count, min, max, step_size;   /* as submitted, for the environment */
    uint32_t *task_job; uint32_t task_job_count;    /* record of each task by task id; 0: this one; NULL until one is split off */
    struct bitmap started, ended, failed;   /* of all tasks, outlive their records; empty until the first */
    uint32_t records;               /* other records of this array that are not forgotten yet */
};

struct job {
    uint32_t job_id;
    uint32_t array_job_id, array_task_id;   /* 0, UINT32_MAX: not of an array */
    uint32_t het_job_id, het_offset, het_count;     /* of a heterogeneous job (het.c): its first component's id, which one this is, of how many; 0: none */
    uint32_t flags;
    struct array *array;            /* the array's own record, and one that stands for several of its tasks (split off by a cancel or an update) */
    uint8_t  state;
    bool     is_batch, requeue, held_by_user, held_by_admin, has_priority_set;
    bool     has_script, has_env;
    bool     deps_any;              /* deps are joined by '?' */
    bool     kill_pending;          /* limit passed or cancelled: agents have been told */
    bool     exclusive;             /* holds its nodes whole */
    bool     parked;                /* suspended: its cores are for others to use, its memory and devices are not */
    bool     no_kill, kill_invalid_dep, keep_invalid_dep;  /* out of spec; the last two: --kill-on-invalid-dep=yes, =no, neither */
    uint8_t  awaits;                /* AWAITS_* */
    uint16_t launch_fails;          /* launches in a row that a node did not take */
    uint16_t reason;                /* set by apply: held, ended, ... */
    uint16_t advice;                /* REASON_* of the last plan pass; leader only, in no snapshot and no digest */
    uint32_t uid, gid, group_count;
    char    *advice_text, *sched_nodes; int64_t advice_start_wall_s;    /* likewise: e.g. the node that is not available; backfill's reservation */
    uint64_t priority_advice;
    char    *reason_text;
    char    *user, *group;          /* shared between jobs (share.c): never written to */
    uint32_t *groups;               /* shared */
    uint8_t *spec;                  /* packed Wire__JobSpec, without the hashes */
    /* hot copies out of spec */
    char    *name;
    char    *partition;             /* as asked, or where it runs; shared */
    uint32_t spec_len;
    uint32_t part_index;            /* first of the asked partitions; the one it runs in once started */
    uint32_t min_nodes, max_nodes, ntasks, cpus_per_task, time_limit_min;
    int32_t  nice;
    uint64_t priority;              /* set by hand when has_priority_set, else the last rank: advice */
    int64_t  submit_wall_s, submit_cluster_ms, eligible_wall_s, begin_wall_s, deadline_wall_s;
    int64_t  start_wall_s, start_cluster_ms, end_wall_s, end_cluster_ms, last_sched_wall_s;
    struct dep_term *deps;
    struct node_alloc *allocs;
    struct step *steps;
    uint32_t dep_count, alloc_count, next_step;
    uint32_t total_cpus;
    uint32_t attempt;               /* counts starts; a report of another attempt is stale */
    uint32_t restarts;
    uint32_t spares;                /* out of spec */
    int64_t  suspend_wall_s, suspend_cluster_ms, suspended_ms;      /* since when; how long in all before that */
    int32_t  exit_status, derived_status;
    char    *why_there, *failed_node;
    char    *fabric;                /* what the switch plugin allotted, in hex; NULL: nothing */
    char    *leaves;                /* leaf switches it was placed under, ranged; NULL: no topology */
    bool     has_share; uint32_t share_permille;    /* of its GPUs: link bandwidth against the best of the node type */
    char    *nodes;                 /* allocated, ranged; NULL until the first start */
    const uint8_t *script_hash, *env_hash;  /* 32 bytes, the blob index's; NULL: none */
    uint64_t seq;                   /* order of submission */
    struct job *name_next, *name_prev;      /* jobs of this user with this name (dependency.c) */
};

/* A record that stands for tasks not started yet: it is started task by task, and shown as N_[1-4]. */
static inline bool job_is_task_set(const struct job *j) { return j->array && j->array_task_id == UINT32_MAX; }
/* The request, unpacked into the arena (with cap 0 it is never NULL: apply packed it). */
Wire__JobSpec *job_spec(const struct job *j, struct arena *a);

/* Nodes that are the job's own, which are the first of its allocations: all but the spares. */
uint32_t job_members(const struct job *j);
/* How long it has been suspended, up to now (cluster time). */
int64_t job_suspended_ms(const struct job *j, int64_t cluster_ms);

struct state;
void job_free(struct job *j);

#endif
