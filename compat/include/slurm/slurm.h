/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.h - the part of Slurm's C interface that libspur_compat offers, for programs written against it.
 *
 * Names, numbers and layouts are those of 22.05, so that programs compiled with Slurm's own header run with libslurm.so.38 of this folder's
 * library; the build holds sizes and offsets against that (compat/layout.c). What is declared here is there and works; functions of Slurm that
 * are not declared are not in the library. Members that spur has nothing for hold what 22.05 holds when a site does not use the feature.
 *
 * Calls ask the cluster each time: any thread may call, nothing is kept between calls but the file named to slurm_init(). They return
 * SLURM_SUCCESS, or SLURM_ERROR with errno set (slurm_errno.h). Texts and arrays inside an answer belong to it and go with its slurm_free_*().
 */
#ifndef _SLURM_H
#define _SLURM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- numbers that stand for "no value" and "no limit" ---------------------------------------------------------------------------- */

#define NO_VAL8     (0xfe)
#define NO_VAL16    (0xfffe)
#define NO_VAL      (0xfffffffe)
#define NO_VAL64    (0xfffffffffffffffe)
#define INFINITE8   (0xff)
#define INFINITE16  (0xffff)
#define INFINITE    (0xffffffff)
#define INFINITE64  (0xffffffffffffffff)
#define NICE_OFFSET 0x80000000
#define MEM_PER_CPU 0x8000000000000000
#define SHARED_FORCE 0x8000
#define CORE_SPEC_THREAD 0x8000
#define MAX_JOB_ID  (0x03FFFFFF)
#define SLURM_BIT(n) ((uint64_t)1 << n)

/* Numbers of steps that have a name. */
#define SLURM_MAX_NORMAL_STEP_ID (0xfffffff0)
#define SLURM_INTERACTIVE_STEP   (0xfffffffa)
#define SLURM_BATCH_SCRIPT       (0xfffffffb)
#define SLURM_EXTERN_CONT        (0xfffffffc)
#define SLURM_PENDING_STEP       (0xfffffffd)

/* ---- jobs ------------------------------------------------------------------------------------------------------------------------- */

enum job_states {
    JOB_PENDING, JOB_RUNNING, JOB_SUSPENDED, JOB_COMPLETE, JOB_CANCELLED, JOB_FAILED, JOB_TIMEOUT, JOB_NODE_FAIL, JOB_PREEMPTED, JOB_BOOT_FAIL, JOB_DEADLINE,
    JOB_OOM, JOB_END
};
#define JOB_STATE_BASE    0x000000ff
#define JOB_STATE_FLAGS   0xffffff00
#define JOB_LAUNCH_FAILED SLURM_BIT(8)
#define JOB_REQUEUE       SLURM_BIT(10)
#define JOB_REQUEUE_HOLD  SLURM_BIT(11)
#define JOB_SPECIAL_EXIT  SLURM_BIT(12)
#define JOB_RESIZING      SLURM_BIT(13)
#define JOB_CONFIGURING   SLURM_BIT(14)
#define JOB_COMPLETING    SLURM_BIT(15)
#define JOB_STOPPED       SLURM_BIT(16)
#define JOB_RECONFIG_FAIL SLURM_BIT(17)
#define JOB_POWER_UP_NODE SLURM_BIT(18)
#define JOB_REVOKED       SLURM_BIT(19)
#define JOB_REQUEUE_FED   SLURM_BIT(20)
#define JOB_RESV_DEL_HOLD SLURM_BIT(21)
#define JOB_SIGNALING     SLURM_BIT(22)
#define JOB_STAGE_OUT     SLURM_BIT(23)

/* Why a job waits, or has failed: those that are given here. */
enum job_state_reason {
    WAIT_NO_REASON = 0, WAIT_PRIORITY = 1, WAIT_DEPENDENCY = 2, WAIT_RESOURCES = 3, WAIT_PART_NODE_LIMIT = 4, WAIT_PART_TIME_LIMIT = 5, WAIT_PART_DOWN = 6,
    WAIT_PART_INACTIVE = 7, WAIT_HELD = 8, WAIT_TIME = 9, WAIT_LICENSES = 10, WAIT_ASSOC_JOB_LIMIT = 11, WAIT_RESERVATION = 14, WAIT_NODE_NOT_AVAIL = 15,
    WAIT_HELD_USER = 16, FAIL_DEFER = 18, FAIL_DOWN_PARTITION = 19, FAIL_DOWN_NODE = 20, FAIL_BAD_CONSTRAINTS = 21, FAIL_SYSTEM = 22, FAIL_LAUNCH = 23,
    FAIL_EXIT_CODE = 24, FAIL_TIMEOUT = 25, FAIL_INACTIVE_LIMIT = 26, FAIL_ACCOUNT = 27, FAIL_QOS = 28, WAIT_CLEANING = 35, WAIT_PROLOG = 36, WAIT_QOS = 37,
    WAIT_ACCOUNT = 38, WAIT_DEP_INVALID = 39, WAIT_MAX_REQUEUE = 71, WAIT_ARRAY_TASK_LIMIT = 72, FAIL_DEADLINE = 167, WAIT_PART_CONFIG = 178,
    WAIT_ACCOUNT_POLICY = 179, FAIL_OOM = 181, WAIT_PN_MEM_LIMIT = 182
};

/* job_desc_msg_t.shared and slurm_job_info_t.shared; NO_VAL16: as the partition says */
#define JOB_SHARED_NONE 0x0000
#define JOB_SHARED_OK   0x0001
#define JOB_SHARED_USER 0x0002
#define JOB_SHARED_MCS  0x0003

#define OPEN_MODE_APPEND   1
#define OPEN_MODE_TRUNCATE 2

#define MAIL_JOB_BEGIN      SLURM_BIT(0)
#define MAIL_JOB_END        SLURM_BIT(1)
#define MAIL_JOB_FAIL       SLURM_BIT(2)
#define MAIL_JOB_REQUEUE    SLURM_BIT(3)
#define MAIL_JOB_TIME100    SLURM_BIT(4)
#define MAIL_JOB_TIME90     SLURM_BIT(5)
#define MAIL_JOB_TIME80     SLURM_BIT(6)
#define MAIL_JOB_TIME50     SLURM_BIT(7)
#define MAIL_JOB_STAGE_OUT  SLURM_BIT(8)
#define MAIL_ARRAY_TASKS    SLURM_BIT(9)
#define MAIL_INVALID_DEPEND SLURM_BIT(10)

/* job_desc_msg_t.bitflags and slurm_job_info_t.bitflags */
#define KILL_INV_DEP      SLURM_BIT(0)
#define NO_KILL_INV_DEP   SLURM_BIT(1)
#define SPREAD_JOB        SLURM_BIT(8)
#define USE_MIN_NODES     SLURM_BIT(9)
#define JOB_NTASKS_SET    SLURM_BIT(14)
#define JOB_CPUS_SET      SLURM_BIT(15)
#define JOB_MEM_SET       SLURM_BIT(23)
#define USE_DEFAULT_ACCT  SLURM_BIT(25)
#define USE_DEFAULT_PART  SLURM_BIT(26)
#define USE_DEFAULT_QOS   SLURM_BIT(27)
#define USE_DEFAULT_WCKEY SLURM_BIT(28)

/* job_desc_msg_t.warn_flags, and flags of slurm_kill_job() */
#define KILL_JOB_BATCH  SLURM_BIT(0)
#define KILL_JOB_ARRAY  SLURM_BIT(1)
#define KILL_STEPS_ONLY SLURM_BIT(2)
#define KILL_FULL_JOB   SLURM_BIT(3)
#define KILL_HURRY      SLURM_BIT(5)
#define KILL_JOB_RESV   SLURM_BIT(8)

/* How tasks go to nodes: job_desc_msg_t.task_dist. Others are refused. */
enum task_dist_states { SLURM_DIST_CYCLIC = 0x0001, SLURM_DIST_BLOCK = 0x0002, SLURM_DIST_ARBITRARY = 0x0003, SLURM_DIST_PLANE = 0x0004, SLURM_DIST_UNKNOWN = 0x2000 };
typedef enum task_dist_states task_dist_states_t;

/* show_flags of the slurm_load_*() */
#define SHOW_ALL    0x0001      /* hidden partitions too */
#define SHOW_DETAIL 0x0002      /* devices of each node; places in the node table */
#define SHOW_MIXED  0x0008      /* NODE_STATE_MIXED (given in any case) */
#define SHOW_LOCAL  0x0010
#define SHOW_SIBLING 0x0020
#define SHOW_FEDERATION 0x0040
#define SHOW_FUTURE 0x0080      /* nodes in state FUTURE too */

/* ---- nodes and partitions --------------------------------------------------------------------------------------------------------- */

enum node_states { NODE_STATE_UNKNOWN, NODE_STATE_DOWN, NODE_STATE_IDLE, NODE_STATE_ALLOCATED, NODE_STATE_ERROR, NODE_STATE_MIXED, NODE_STATE_FUTURE, NODE_STATE_END };
#define NODE_STATE_BASE  0x0000000f
#define NODE_STATE_FLAGS 0xfffffff0
#define NODE_STATE_NET          SLURM_BIT(4)
#define NODE_STATE_RES          SLURM_BIT(5)
#define NODE_STATE_UNDRAIN      SLURM_BIT(6)
#define NODE_STATE_CLOUD        SLURM_BIT(7)
#define NODE_RESUME             SLURM_BIT(8)
#define NODE_STATE_DRAIN        SLURM_BIT(9)
#define NODE_STATE_COMPLETING   SLURM_BIT(10)
#define NODE_STATE_NO_RESPOND   SLURM_BIT(11)
#define NODE_STATE_POWERED_DOWN SLURM_BIT(12)
#define NODE_STATE_FAIL         SLURM_BIT(13)
#define NODE_STATE_POWERING_UP  SLURM_BIT(14)
#define NODE_STATE_MAINT        SLURM_BIT(15)
#define NODE_STATE_REBOOT_REQUESTED SLURM_BIT(16)
#define NODE_STATE_REBOOT_CANCEL SLURM_BIT(17)
#define NODE_STATE_POWERING_DOWN SLURM_BIT(18)
#define NODE_STATE_DYNAMIC_FUTURE SLURM_BIT(19)
#define NODE_STATE_REBOOT_ISSUED SLURM_BIT(20)
#define NODE_STATE_PLANNED      SLURM_BIT(21)
#define NODE_STATE_INVALID_REG  SLURM_BIT(22)
#define NODE_STATE_POWER_DOWN   SLURM_BIT(23)
#define NODE_STATE_POWER_UP     SLURM_BIT(24)
#define NODE_STATE_POWER_DRAIN  SLURM_BIT(25)
#define NODE_STATE_DYNAMIC_NORM SLURM_BIT(26)

#define PARTITION_SUBMIT   0x01
#define PARTITION_SCHED    0x02
#define PARTITION_DOWN     (PARTITION_SUBMIT)
#define PARTITION_UP       (PARTITION_SUBMIT | PARTITION_SCHED)
#define PARTITION_DRAIN    (PARTITION_SCHED)
#define PARTITION_INACTIVE 0x00

#define PART_FLAG_DEFAULT   0x0001
#define PART_FLAG_HIDDEN    0x0002
#define PART_FLAG_NO_ROOT   0x0004
#define PART_FLAG_ROOT_ONLY 0x0008
#define PART_FLAG_REQ_RESV  0x0010
#define PART_FLAG_LLN       0x0020
#define PART_FLAG_EXCLUSIVE_USER 0x0040

#define PREEMPT_MODE_OFF      0x0000
#define PREEMPT_MODE_SUSPEND  0x0001
#define PREEMPT_MODE_REQUEUE  0x0002
#define PREEMPT_MODE_CANCEL   0x0008
#define PREEMPT_MODE_COND_OFF 0x0010
#define PREEMPT_MODE_WITHIN   0x4000
#define PREEMPT_MODE_GANG     0x8000

/* ---- records ---------------------------------------------------------------------------------------------------------------------- */

typedef int64_t bitstr_t;
typedef struct hostlist *hostlist_t;            /* opaque */
typedef struct xlist *List;                     /* opaque */
typedef struct job_resources job_resources_t;   /* opaque */
typedef struct dynamic_plugin_data { void *data; uint32_t plugin_id; } dynamic_plugin_data_t;
typedef struct { unsigned char type; unsigned char hash[32]; } slurm_hash_t;
typedef struct slurm_step_id_msg { uint32_t job_id, step_het_comp, step_id; } slurm_step_id_t;

typedef struct acct_gather_energy {
    uint32_t ave_watts;
    uint64_t base_consumed_energy, consumed_energy;
    uint32_t current_watts;
    uint64_t previous_consumed_energy;
    time_t poll_time;
} acct_gather_energy_t;

typedef struct ext_sensors_data {
    uint64_t consumed_energy;
    uint32_t temperature;
    time_t energy_update_time;
    uint32_t current_watts;
} ext_sensors_data_t;

typedef struct power_mgmt_data {
    uint32_t cap_watts, current_watts;
    uint64_t joule_counter;
    uint32_t new_cap_watts, max_watts, min_watts;
    time_t new_job_time;
    uint16_t state;
    uint64_t time_usec;
} power_mgmt_data_t;

/* What a job is asked for with. Call slurm_init_job_desc_msg() first, then set what is wanted: a member that is left alone is not asked for, and one that
 * cannot be had here is refused at submit with ESLURM_NOT_SUPPORTED, never passed over. Texts are borrowed until the call returns. */
typedef struct job_descriptor {
    char *account, *acctg_freq, *admin_comment, *alloc_node;
    uint16_t alloc_resp_port;
    uint32_t alloc_sid, argc;
    char **argv, *array_inx;             /* argv[0]: the script as its user named it; arguments follow */
    bitstr_t *array_bitmap;              /* not read: array_inx says it */
    char *batch_features;
    time_t begin_time;
    uint64_t bitflags;                   /* KILL_INV_DEP, SPREAD_JOB, ... */
    char *burst_buffer, *clusters, *cluster_features, *comment;
    uint16_t contiguous;                 /* 1: neighbours only */
    char *container;
    uint16_t core_spec;
    char *cpu_bind;
    uint16_t cpu_bind_type;
    uint32_t cpu_freq_min, cpu_freq_max, cpu_freq_gov;
    char *cpus_per_tres;
    void *crontab_entry;
    time_t deadline;
    uint32_t delay_boot;
    char *dependency;
    time_t end_time;
    char **environment;                  /* NAME=value, env_size of them; all that the job gets */
    slurm_hash_t env_hash;
    uint32_t env_size;
    char *extra, *exc_nodes, *features;
    uint64_t fed_siblings_active, fed_siblings_viable;
    uint32_t group_id, het_job_offset;
    uint16_t immediate;
    uint32_t job_id;
    char *job_id_str;
    uint16_t kill_on_node_fail;          /* 0: the job survives a lost node */
    char *licenses;
    uint16_t mail_type;                  /* MAIL_* */
    char *mail_user, *mcs_label, *mem_bind;
    uint16_t mem_bind_type;
    char *mem_per_tres, *name, *network;
    uint32_t nice, num_tasks;            /* nice with NICE_OFFSET added */
    uint8_t open_mode;                   /* OPEN_MODE_* */
    char *origin_cluster;
    uint16_t other_port;
    uint8_t overcommit;
    char *partition;
    uint16_t plane_size;
    uint8_t power_flags;
    char *prefer;
    uint32_t priority, profile;          /* priority 0: held */
    char *qos;
    uint16_t reboot;
    char *resp_host;
    uint16_t restart_cnt;
    char *req_nodes;
    uint16_t requeue;
    char *reservation, *script;
    void *script_buf;
    slurm_hash_t script_hash;
    uint16_t shared;                     /* JOB_SHARED_* */
    uint32_t site_factor;
    char **spank_job_env;
    uint32_t spank_job_env_size;
    char *submit_line;
    uint32_t task_dist, time_limit, time_min; /* enum task_dist_states; limits in minutes */
    char *tres_bind, *tres_freq, *tres_per_job, *tres_per_node, *tres_per_socket, *tres_per_task; /* "gres:gpu:2,gres:gpu:a100:1" */
    uint32_t user_id;                    /* the caller, or NO_VAL */
    uint16_t wait_all_nodes, warn_flags, warn_signal, warn_time;
    char *work_dir;
    uint16_t cpus_per_task;
    uint32_t min_cpus, max_cpus, min_nodes, max_nodes;
    uint16_t boards_per_node, sockets_per_board, sockets_per_node, cores_per_socket, threads_per_core, ntasks_per_node, ntasks_per_socket;
    uint16_t ntasks_per_core, ntasks_per_board, ntasks_per_tres, pn_min_cpus;
    uint64_t pn_min_memory;              /* MiB a node; with MEM_PER_CPU: a CPU; 0: all of the node */
    uint32_t pn_min_tmp_disk;
    char *req_context;
    uint32_t req_switch;
    dynamic_plugin_data_t *select_jobinfo;
    char *selinux_context, *std_err, *std_in, *std_out;
    uint64_t *tres_req_cnt;
    uint32_t wait4switch;
    char *wckey;
    uint16_t x11;
    char *x11_magic_cookie, *x11_target;
    uint16_t x11_target_port;
} job_desc_msg_t;

/* A job. Of an array, tasks that have not started are one record. */
typedef struct job_info {
    char *account;
    time_t accrue_time;
    char *admin_comment, *alloc_node;
    uint32_t alloc_sid;
    bitstr_t *array_bitmap;
    uint32_t array_job_id, array_task_id, array_max_tasks; /* 0: of no array; array_task_id NO_VAL: the tasks of array_task_str */
    char *array_task_str;
    uint32_t assoc_id;
    char *batch_features;
    uint16_t batch_flag;                 /* 1: has a script */
    char *batch_host;
    uint64_t bitflags;
    uint16_t boards_per_node;
    char *burst_buffer, *burst_buffer_state, *cluster, *cluster_features, *command, *comment, *container;
    uint16_t contiguous, core_spec, cores_per_socket;
    double billable_tres;
    uint16_t cpus_per_task;
    uint32_t cpu_freq_min, cpu_freq_max, cpu_freq_gov;
    char *cpus_per_tres, *cronspec;
    time_t deadline;
    uint32_t delay_boot;
    char *dependency;
    uint32_t derived_ec;
    time_t eligible_time, end_time;
    char *exc_nodes;
    int32_t *exc_node_inx;
    uint32_t exit_code;                  /* as wait() gives it */
    char *features, *fed_origin_str;
    uint64_t fed_siblings_active;
    char *fed_siblings_active_str;
    uint64_t fed_siblings_viable;
    char *fed_siblings_viable_str;
    uint32_t gres_detail_cnt;
    char **gres_detail_str, *gres_total; /* with SHOW_DETAIL: a text for each node, "gpu:a100:2(IDX:0-1)" */
    uint32_t group_id, het_job_id;
    char *het_job_id_set;
    uint32_t het_job_offset, job_id;
    job_resources_t *job_resrcs;         /* always NULL: its layout is no part of the interface */
    uint32_t job_state;                  /* enum job_states and JOB_* flags */
    time_t last_sched_eval;
    char *licenses;
    uint16_t mail_type;
    char *mail_user;
    uint32_t max_cpus, max_nodes;
    char *mcs_label, *mem_per_tres, *name, *network, *nodes;
    uint32_t nice;                       /* NICE_OFFSET added */
    int32_t *node_inx;                   /* pairs first, last of places in slurm_load_node's array; -1 ends */
    uint16_t ntasks_per_core, ntasks_per_tres, ntasks_per_node, ntasks_per_socket, ntasks_per_board;
    uint32_t num_cpus, num_nodes, num_tasks;
    char *partition, *prefer;
    uint64_t pn_min_memory;              /* MiB; MEM_PER_CPU */
    uint16_t pn_min_cpus;
    uint32_t pn_min_tmp_disk;
    uint8_t power_flags;
    time_t preempt_time, preemptable_time, pre_sus_time;
    uint32_t priority, profile;
    char *qos;
    uint8_t reboot;
    char *req_nodes;
    int32_t *req_node_inx;
    uint32_t req_switch;
    uint16_t requeue;
    time_t resize_time;
    uint16_t restart_cnt;
    char *resv_name, *sched_nodes;
    dynamic_plugin_data_t *select_jobinfo;
    char *selinux_context;
    uint16_t shared, show_flags;         /* JOB_SHARED_* */
    uint32_t site_factor;
    uint16_t sockets_per_board, sockets_per_node;
    time_t start_time;
    uint16_t start_protocol_ver;
    char *state_desc;
    uint16_t state_reason;               /* enum job_state_reason */
    char *std_err, *std_in, *std_out;
    time_t submit_time, suspend_time;
    char *system_comment;
    uint32_t time_limit, time_min;       /* minutes, INFINITE, NO_VAL */
    uint16_t threads_per_core;
    char *tres_bind, *tres_freq, *tres_per_job, *tres_per_node, *tres_per_socket, *tres_per_task, *tres_req_str, *tres_alloc_str;
    uint32_t user_id;
    char *user_name;
    uint32_t wait4switch;
    char *wckey, *work_dir;
} slurm_job_info_t;
typedef slurm_job_info_t job_info_t;

typedef struct job_info_msg {
    time_t last_backfill, last_update;          /* last_update: the controller's time of the answer */
    uint32_t record_count;
    slurm_job_info_t *job_array;
} job_info_msg_t;

typedef struct node_info {
    char *arch, *bcast_address;
    uint16_t boards;
    time_t boot_time;
    char *cluster_name;
    uint16_t cores, core_spec_cnt;
    uint32_t cpu_bind, cpu_load;         /* hundredths; NO_VAL */
    uint64_t free_mem;                   /* MiB; NO_VAL64 */
    uint16_t cpus, cpus_efctv;
    char *cpu_spec_list;
    acct_gather_energy_t *energy;
    ext_sensors_data_t *ext_sensors;
    char *extra;
    power_mgmt_data_t *power;
    char *features, *features_act, *gres, *gres_drain, *gres_used;
    time_t last_busy;
    char *mcs_label;
    uint64_t mem_spec_limit;
    char *name;
    uint32_t next_state;
    char *node_addr, *node_hostname;
    uint32_t node_state;                 /* enum node_states and NODE_STATE_* flags */
    char *os;
    uint32_t owner;                      /* uid, or NO_VAL */
    char *partitions;
    uint16_t port;
    uint64_t real_memory;
    char *comment, *reason;
    time_t reason_time;
    uint32_t reason_uid;
    dynamic_plugin_data_t *select_nodeinfo;
    time_t slurmd_start_time;
    uint16_t sockets, threads;
    uint32_t tmp_disk, weight;
    char *tres_fmt_str, *version;
} node_info_t;

typedef struct node_info_msg {
    time_t last_update;
    uint32_t record_count;
    node_info_t *node_array;                    /* in the order of slurm.conf */
} node_info_msg_t;

typedef struct partition_info {
    char *allow_alloc_nodes, *allow_accounts, *allow_groups, *allow_qos, *alternate, *billing_weights_str, *cluster_name;
    uint16_t cr_type;
    uint32_t cpu_bind;
    uint64_t def_mem_per_cpu;            /* MiB; without MEM_PER_CPU: a node */
    uint32_t default_time;
    char *deny_accounts, *deny_qos;
    uint16_t flags;                      /* PART_FLAG_* */
    uint32_t grace_time;
    List job_defaults_list;
    char *job_defaults_str;
    uint32_t max_cpus_per_node;
    uint64_t max_mem_per_cpu;
    uint32_t max_nodes;
    uint16_t max_share;                  /* jobs a resource; SHARED_FORCE */
    uint32_t max_time, min_nodes;
    char *name;
    int32_t *node_inx;                   /* pairs first, last; -1 ends */
    char *nodes, *nodesets;
    uint16_t over_time_limit, preempt_mode, priority_job_factor, priority_tier; /* PREEMPT_MODE_* */
    char *qos_char;
    uint16_t resume_timeout, state_up;   /* PARTITION_* */
    uint32_t suspend_time;
    uint16_t suspend_timeout;
    uint32_t total_cpus, total_nodes;
    char *tres_fmt_str;
} partition_info_t;

typedef struct partition_info_msg {
    time_t last_update;
    uint32_t record_count;
    partition_info_t *partition_array;
} partition_info_msg_t;

typedef struct submit_response_msg {
    uint32_t job_id, step_id, error_code;
    char *job_submit_user_msg;                  /* warnings of the controller, a line each, or NULL */
} submit_response_msg_t;

/* ---- the library ------------------------------------------------------------------------------------------------------------------ */

/* conf: the slurm.conf to go by from now on; NULL: $SLURM_CONF, else the usual place. Not needed before other calls. */
void slurm_init(const char *conf);
void slurm_fini(void);
/* The same as slurm_init; SLURM_ERROR when the file cannot be read. */
int  slurm_conf_init(const char *file_name);
long slurm_api_version(void);                   /* SLURM_VERSION_NUM(38, 0, 0) */
/* Is the controller number `controller` (0: the first of slurm.conf) there? */
int  slurm_ping(int controller);
int  slurm_reconfigure(void);
/* Frees *p and sets it to NULL. Takes what this library hands out as "malloc" or "xmalloc". */
void slurm_xfree(void **p);
void slurm_xfree_ptr(void *p);

/* ---- host lists ------------------------------------------------------------------------------------------------------------------- */

hostlist_t slurm_hostlist_create(const char *text);     /* NULL: an empty list. Returns NULL with EINVAL for a text that is none */
void    slurm_hostlist_destroy(hostlist_t list);
int     slurm_hostlist_count(hostlist_t list);          /* -1 for NULL */
int     slurm_hostlist_find(hostlist_t list, const char *name);     /* place of the first such name, or -1 */
int     slurm_hostlist_push(hostlist_t list, const char *text);     /* names added; 0 for a text that is none */
int     slurm_hostlist_push_host(hostlist_t list, const char *name);
char   *slurm_hostlist_shift(hostlist_t list);          /* the first name leaves the list; free() it. NULL at the end */
void    slurm_hostlist_uniq(hostlist_t list);           /* sorts, drops doubles */
/* "n[1-4],login": bytes written, or -1 when it had to be cut to `size`. */
ssize_t slurm_hostlist_ranged_string(hostlist_t list, size_t size, char *buf);
char   *slurm_hostlist_ranged_string_malloc(hostlist_t list);       /* free() it */
char   *slurm_hostlist_ranged_string_xmalloc(hostlist_t list);      /* slurm_xfree() it */

/* ---- jobs ------------------------------------------------------------------------------------------------------------------------- */

/* All jobs that are known: waiting, running, ended within MinJobAge. update_time is not used: the answer is always whole. */
int  slurm_load_jobs(time_t update_time, job_info_msg_t **out, uint16_t show_flags);
int  slurm_load_job(job_info_msg_t **out, uint32_t job_id, uint16_t show_flags);            /* one job, or all records of an array */
int  slurm_load_job_user(job_info_msg_t **out, uint32_t user_id, uint16_t show_flags);
void slurm_free_job_info_msg(job_info_msg_t *msg);
void slurm_get_job_stdin(char *buf, int size, job_info_t *job);
void slurm_get_job_stdout(char *buf, int size, job_info_t *job);
void slurm_get_job_stderr(char *buf, int size, job_info_t *job);
int  slurm_get_end_time(uint32_t job_id, time_t *end);          /* job_id 0: the job this process belongs to (SLURM_JOB_ID) */
long slurm_get_rem_time(uint32_t job_id);                       /* seconds; INFINITE without a limit */
int  slurm_job_batch_script(FILE *out, uint32_t job_id);

void slurm_init_job_desc_msg(job_desc_msg_t *desc);
int  slurm_submit_batch_job(job_desc_msg_t *desc, submit_response_msg_t **out);
void slurm_free_submit_response_response_msg(submit_response_msg_t *msg);

/* SIGKILL ends the job, as scancel does; other signals go to its steps, with KILL_JOB_BATCH to the batch shell alone, with KILL_FULL_JOB to both. */
int  slurm_kill_job(uint32_t job_id, uint16_t signal, uint16_t flags);
int  slurm_kill_job2(const char *job_id, uint16_t signal, uint16_t flags, const char *sibling);     /* "12", "12_3", "12_[1-4]"; sibling: NULL */
int  slurm_kill_job_step(uint32_t job_id, uint32_t step_id, uint16_t signal);
int  slurm_signal_job(uint32_t job_id, uint16_t signal);        /* to all steps */
int  slurm_signal_job_step(uint32_t job_id, uint32_t step_id, uint32_t signal);
int  slurm_terminate_job_step(uint32_t job_id, uint32_t step_id);
int  slurm_suspend(uint32_t job_id);
int  slurm_resume(uint32_t job_id);
int  slurm_requeue(uint32_t job_id, uint32_t flags);            /* flags: 0, or JOB_REQUEUE_HOLD */

/* ---- nodes and partitions --------------------------------------------------------------------------------------------------------- */

int  slurm_load_node(time_t update_time, node_info_msg_t **out, uint16_t show_flags);
int  slurm_load_node_single(node_info_msg_t **out, char *name, uint16_t show_flags);
void slurm_free_node_info_msg(node_info_msg_t *msg);
/* Fills node_array[].partitions anew, from these partitions only. */
void slurm_populate_node_partitions(node_info_msg_t *nodes, partition_info_msg_t *partitions);

/* What is in use on a node, out of its select_nodeinfo. */
enum select_nodedata_type { SELECT_NODEDATA_SUBCNT = 2, SELECT_NODEDATA_PTR = 5, SELECT_NODEDATA_MEM_ALLOC = 8, SELECT_NODEDATA_TRES_ALLOC_FMT_STR = 9,
                            SELECT_NODEDATA_TRES_ALLOC_WEIGHTED = 10 };
/* SUBCNT: uint16_t, CPUs in this state; MEM_ALLOC: uint64_t, MiB; TRES_ALLOC_FMT_STR: char *, to slurm_xfree(). Others are refused. */
int  slurm_get_select_nodeinfo(dynamic_plugin_data_t *nodeinfo, enum select_nodedata_type type, enum node_states state, void *data);

int  slurm_load_partitions(time_t update_time, partition_info_msg_t **out, uint16_t show_flags);
void slurm_free_partition_info_msg(partition_info_msg_t *msg);

/* ---- for pam_slurm ---------------------------------------------------------------------------------------------------------------- */

/* Name of this host's node in slurm.conf, or NULL; slurm_xfree() it. host: what gethostname() says, with or without domain. */
char *slurm_conf_get_nodename(const char *host);
/* The same for this host, by its own names and addresses. */
char *slurm_conf_get_aliased_nodename(void);

#ifdef __cplusplus
}
#endif
#endif
