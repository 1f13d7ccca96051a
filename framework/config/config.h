/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the resolved, read-only configuration: what slurm.conf, gres.conf, topology.conf, cgroup.conf, includes and spur.conf mean.
 *
 * Made by config_load() (files, by the daemons at first start and at reconfigure, by `spur config check`) or config_parse()
 * (texts, by apply from the log: pure, no file is touched). One struct for the whole process, never changed after it is
 * made. Every keyword of the family stands in keys.def with its kind, default and what spur does with it.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/bitmap.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "base/table.h"

/* What spur does with a keyword. */
enum config_effect {
    CONFIG_ACTS,        /* does what Slurm's manual says */
    CONFIG_MAPPED,      /* done by another part: the note says which */
    CONFIG_NO_EFFECT,   /* known, without effect here: one warning with the reason */
    CONFIG_OBSOLETE,    /* known from older Slurm, accepted with a warning (FastSchedule, CacheGroups, ...) */
};

/* What a value is written as; `number` of the value in its unit. The lists of words have one spelling and order (words.c). */
enum config_type {
    CONFIG_STRING,      /* any text, kept as written */
    CONFIG_LOWER,       /* text, in lower case */
    CONFIG_SECRET,      /* text that is never shown */
    CONFIG_MANY,        /* may be given several times: the values, one a line */
    CONFIG_BOOL,        /* Yes No; number 1 0 */
    CONFIG_U16, CONFIG_U32, CONFIG_U64,     /* counts; UNLIMITED and INFINITE are the type's largest */
    CONFIG_ARRAY,       /* MaxArraySize: at most 4000001 */
    CONFIG_PORT,        /* one port */
    CONFIG_PORTS,       /* "6817" or "6820-6830"; number is the first */
    CONFIG_SEC16, CONFIG_SEC32,     /* "60 sec"; SEC32 shows INFINITE as -1 */
    CONFIG_MIN16,       /* "10 min" or UNLIMITED: 65535 */
    CONFIG_USEC, CONFIG_RATE, CONFIG_PERCENT,   /* "2000 usec", "300 nodes/min", "110 percent" */
    CONFIG_SPAN, CONFIG_SPAN_SEC,   /* "7-00:00:00": number in seconds, -1 for none; the first in whole minutes, rounded up */
    CONFIG_MEMORY,      /* MiB; 0 is UNLIMITED */
    CONFIG_LEVEL,       /* quiet fatal error info verbose debug .. debug5; number 0 .. 9 */
    CONFIG_USER,        /* name of a user, or a uid */
    CONFIG_ENFORCE, CONFIG_STORE, CONFIG_GOVERNOR, CONFIG_DEBUG, CONFIG_HEALTH, CONFIG_PREEMPT, CONFIG_PRIORITY, CONFIG_PRIVATE, CONFIG_PROLOG,
    CONFIG_LIMITS, CONFIG_RECONFIG, CONFIG_SELECT, CONFIG_TASKPARAM, CONFIG_LOGTIME, CONFIG_PARTLIMITS, CONFIG_PERIOD,     /* lists of words */
};

/* Rows of keys.def: CONFIG_KEY(Name, TYPE, "default as show config prints it", EFFECT, "note"). The enum is CONF_Name. */
enum config_key {
#define CONFIG_KEY(name, type, fallback, effect, note) CONF_##name,
#include "config/keys.def"
#undef CONFIG_KEY
    CONF_COUNT
};

struct config_value {
    char   *text;       /* canonical, as `scontrol show config` prints it; NULL when neither set nor defaulted: shown as (null) */
    int64_t number;     /* seconds, minutes, count, MiB or 0/1, by the key's type */
    bool    is_set;     /* given in a file */
};

/* One kind of generic resource of a node line: Gres=gpu:mi300x:8. */
struct config_gres {
    char    *name, *type;       /* type NULL when untyped */
    uint64_t count;
    bool     no_consume;
};

struct config_node {
    char    *name, *addr, *hostname;    /* one struct a node: ranges are expanded */
    uint16_t port;
    uint32_t boards, sockets, cores_per_socket, threads_per_core, cpus;   /* resolved as Slurm does from what was given; sockets of the whole node */
    uint64_t mem_mib, tmp_mib;          /* RealMemory (default 1), TmpDisk */
    uint32_t weight;                    /* default 1 */
    uint32_t core_spec, mem_spec_mib;
    char    *cpu_spec_list;
    char    *features;                  /* "a,b" or NULL */
    char    *gres_text;                 /* as written: "gpu:rtx3090:8,mps:800" or NULL */
    struct config_gres *gres; size_t gres_count;
    char    *state, *reason;            /* UNKNOWN unless given; reason from the line or DownNodes */
    char    *parameters;
    int32_t  leaf;                      /* index of its leaf switch or block in config->switches; -1: none */
};

/* A switch of a tree, or a block: leaves name nodes, the others name switches. Of blocks only the base blocks stand here. */
struct config_switch {
    char    *name, *nodes_text, *switches_text, *link_speed;    /* as written; NULL when not given */
    uint32_t level;                     /* 0: a leaf */
    int32_t  parent;                    /* index of the switch above it, -1: none */
    char    *path;                      /* of a leaf: what is above it, highest first, and itself: "core/pod1/leaf3" */
    uint32_t nodes;                     /* of a leaf: how many hang on it */
    unsigned line; char *file;
};
enum config_topology { TOPOLOGY_FLAT, TOPOLOGY_TREE, TOPOLOGY_BLOCK };

struct config_partition {
    char    *name;
    char    *nodes_text;                /* ranged, sorted, as show partition prints Nodes= */
    struct bitmap nodes;                /* index into config->nodes */
    uint64_t least_mem_mib;             /* memory of its smallest node; 0: no nodes. config_partition_measure() after nodes has changed */
    bool     is_default, hidden, root_only, req_resv, lln, exclusive_user, disable_root_jobs;
    bool     exclusive_nodes;           /* OverSubscribe=EXCLUSIVE */
    bool     exclusive_topo;            /* ExclusiveTopo=YES */
    char    *state;                     /* UP DOWN DRAIN INACTIVE */
    char    *oversubscribe;             /* NO EXCLUSIVE YES:4 FORCE:4 as shown */
    uint32_t max_share;                 /* jobs a resource, from OverSubscribe: 1, or n of YES:n and FORCE:n; 0 with EXCLUSIVE */
    bool     share_forced;              /* FORCE */
    uint32_t max_time_min, default_time_min;    /* minutes; MINUTES_UNLIMITED, MINUTES_NOT_SET for no DefaultTime */
    uint32_t min_nodes, max_nodes;      /* UINT32_MAX: unlimited */
    uint32_t max_cpus_per_node, max_cpus_per_socket;   /* UINT32_MAX: unlimited */
    uint32_t over_time_limit;           /* minutes; MINUTES_UNLIMITED; MINUTES_NOT_SET: the global OverTimeLimit */
    uint32_t grace_time;                /* seconds */
    uint16_t priority_tier, priority_job_factor;    /* 1, 1 */
    uint64_t def_mem_per_cpu, def_mem_per_node, max_mem_per_cpu, max_mem_per_node;    /* MiB, 0: none */
    bool     def_mem_set, def_mem_is_cpu, max_mem_set, max_mem_is_cpu;  /* set: stands for the global value even when 0 (no limit); is_cpu: by CPU, else by node */
    char    *job_defaults;              /* "DefCpuPerGPU=3,DefMemPerGPU=60000" or NULL */
    uint64_t def_cpu_per_gpu, def_mem_per_gpu;
    char    *allow_groups, *allow_accounts, *allow_qos, *deny_accounts, *deny_qos, *alloc_nodes, *qos, *alternate, *preempt_mode, *tres_weights, *cpu_bind, *select_params;
    char    *suspend_time, *suspend_timeout, *resume_timeout;   /* as shown, or NULL */
    char    *nodesets;                  /* names of node sets in Nodes=, "a,b", or NULL */
    bool     power_down_on_idle;
};

/* One line of gres.conf, resolved: which nodes, which devices. */
struct config_gres_line {
    char    *nodes;                     /* hostlist text or NULL: all nodes */
    char    *name, *type, *autodetect;
    struct hostlist *files;             /* expanded File= or MultipleFiles=, or NULL */
    bool     files_are_one;             /* MultipleFiles=: one device behind all of them */
    char    *cores, *links, *flags;
    uint64_t count;
    bool     count_set;
    unsigned line; char *file;          /* for messages */
};

struct config_controller { char *host, *addr; };        /* SlurmctldHost=host(addr), ControlMachine/BackupController too */

/* cgroup.conf. Percents in hundredths: 10000 is all. */
struct config_cgroup {
    char    *mountpoint, *plugin;       /* NULL: not given */
    bool     cores, devices, ram, swap; /* Constrain...=yes */
    uint32_t allowed_ram, allowed_swap; /* AllowedRAMSpace (10000), AllowedSwapSpace (0): of the memory a job was given */
    uint32_t max_ram, max_swap;         /* MaxRAMPercent, MaxSwapPercent (10000): of the machine's */
    uint64_t min_ram_mib;               /* MinRAMSpace (30) */
    int32_t  swappiness;                /* MemorySwappiness, -1: not given */
};

struct config_note {            /* what `spur config check` prints for one line */
    char    *file; unsigned line;
    char    *key, *value;
    enum config_effect effect;
    bool     is_error;
    char    *text;
};

/* Rows of spur.def: CONFIG_SETTING(name, TYPE, default, help), the scalar settings of spur.conf. The enum is SETTING_name. */
enum config_setting {
#define CONFIG_SETTING(name, type, fallback, help) SETTING_##name,
#include "config/spur.def"
#undef CONFIG_SETTING
    CONF_SETTINGS
};

struct config_section { char *name, *text; unsigned line; };    /* plugin "kind/name" { text }: text without the braces, line of the brace */

struct config {
    struct config_value values[CONF_COUNT];
    struct config_value settings[CONF_SETTINGS];
    /* Names of `admins`, `operators` and `coordinators` with their numbers, as the controller has looked them up (controller/roles.c); no part of the log. */
    struct config_user { char *name; uint32_t uid; } *users; size_t user_count;
    bool has_users;
    struct config_section *sections; size_t section_count;
    struct config_controller *controllers; size_t controller_count;
    struct config_cgroup cgroup;
    struct config_node *nodes; size_t node_count;           /* in file order; index is the node's number everywhere */
    struct table node_by_name;                              /* name -> struct config_node* */
    struct config_partition *partitions; size_t partition_count;
    enum config_topology topology;                          /* what steers placement: of TopologyPlugin, or of topology.yaml */
    struct config_switch *switches; size_t switch_count;    /* in file order; none when flat */
    uint32_t *block_sizes; size_t block_size_count;         /* BlockSizes, base blocks first */
    struct config_gres_line *gres_lines; size_t gres_line_count;
    struct config_note *notes; size_t note_count;
    char    *slurm_text, *gres_text, *topology_text, *cgroup_text, *spur_text;     /* flattened sources: what the log carries */
    char    *hosts_text;                                /* beside them in the log, of no file: hosts that joined (controller/joins.c); NULL: none */
    char    *path;                                          /* of slurm.conf, when from a file */
};

/* Reads PATH (NULL: $SLURM_CONF, else SYSCONFDIR/slurm.conf as --sysconfdir says, else /etc/slurm/slurm.conf) and the files beside it. Fails with file, line,
 * word and nearest known key. With `keep_going`, errors are collected as notes (is_error), the first is
 * returned at the end, and *out is there all the same, for its notes; without, *out is NULL after an error. */
int  config_load(const char *path, bool keep_going, struct config **out, struct spur_error *err);
/* The same from texts, for apply: slurm is flattened (no include lines); any of the others may be NULL. Pure. */
int  config_parse(const char *slurm, const char *gres, const char *topology, const char *cgroup, const char *spur, struct config **out, struct spur_error *err);
void config_free(struct config *c);

static inline const char *config_text(const struct config *c, enum config_key k) { return c->values[k].text; }
static inline int64_t config_number(const struct config *c, enum config_key k) { return c->values[k].number; }
static inline const char *config_setting(const struct config *c, enum config_setting k) { return c->settings[k].text; }
/* The raw rows of spur.conf's section plugin "NAME" { ... }, or NULL: the loader reads them with the plugin's own options. *line: where they begin. */
const char *config_spur_section(const struct config *c, const char *plugin, unsigned *line);
/* Is WORD one of the comma-separated words of a list value? (SchedulerParameters, PrologFlags, ...) Without case. */
bool config_has_word(const struct config *c, enum config_key k, const char *word);
/* Value of "word=VALUE" inside a list value, or NULL; copied into buf. */
const char *config_word_value(const struct config *c, enum config_key k, const char *word, char *buf, size_t len);
/* Seconds that a hook has: of PrologTimeout or EpilogTimeout, else PrologEpilogTimeout, else CONFIG_HOOK_LONGEST_S: none is waited for for ever. */
#define CONFIG_HOOK_LONGEST_S 3600u
uint32_t config_hook_timeout_s(const struct config *c, enum config_key k);
const struct config_node *config_node_find(const struct config *c, const char *name);
const struct config_partition *config_partition_find(const struct config *c, const char *name);
ptrdiff_t config_default_partition(const struct config *c);     /* index, -1: none */
/* Effect and note of a global key, and its name as written in keys.def. */
const char *config_key_name(enum config_key k);
/* --- as scontrol shows it (show.c): KEY, VALUE pairs in Slurm's order, through a callback --- */
/* The generation of Slurm that programs are told: they read it to learn which options and formats to expect. */
#define CONFIG_SLURM_MAJOR "26"
#define CONFIG_SLURM_MINOR "05"
#define CONFIG_SLURM_VERSION CONFIG_SLURM_MAJOR "." CONFIG_SLURM_MINOR ".0"
/* `show config`. Values that only the running controller knows (BOOT_TIME, NEXT_JOB_ID) come as NULL: the caller puts them in. SlurmUser and SlurmdUser come as
 * bare names unless root: the command adds the uid with config_show_user. */
void config_show(const struct config *c, void (*row)(void *arg, const char *key, const char *value), void *arg);
/* "slurm(64030)", the bare name when there is no such user here. Asks the user database: never in the controller's loop. */
void config_show_user(const char *name, struct str *out);
/* The pairs of `show partition` that follow from the files. TRES comes as NULL. */
void config_show_partition(const struct config *c, const struct config_partition *p, void (*row)(void *arg, const char *key, const char *value), void *arg);
/* The pairs of `show node` that follow from the files; State is that of a node that has not answered yet. `n` is one of c->nodes. */
void config_show_node(const struct config *c, const struct config_node *n, void (*row)(void *arg, const char *key, const char *value), void *arg);
void config_partition_measure(const struct config *c, struct config_partition *p);
void config_partition_totals(const struct config *c, const struct config_partition *p, uint64_t *cpus, uint64_t *nodes, uint64_t *mem_mib);
/* CPUs of a node less those of CoreSpecCount or CPUSpecList: CPUEfctv. */
uint32_t config_node_usable_cpus(const struct config_node *n);

/* For commands: no more than they need, few system calls. Only SlurmctldHost/ControlMachine (+addr), SlurmctldPort, ClusterName, AuthType and, from
 * spur.conf beside it, run_dir. */
struct config_hint {
    char     path[1024];
    char     cluster[128], auth[64], run_dir[256];      /* run_dir: folder of the local sockets; default /run/spur */
    struct { char host[256], addr[256]; } controllers[8]; size_t controller_count;
    uint16_t port, port_last;                           /* SlurmctldPort, a range when port_last > port */
};
int  config_hint_read(const char *path, struct config_hint *out, struct spur_error *err);
/* Value of one more key, for who rarely asks: reads the file and what it includes again. False: it is not there. The last line of that key counts. */
bool config_hint_value(const struct config_hint *hint, const char *key, char *value, size_t size);
/* SrunPortRange, which srun alone asks for: reads the file and what it includes again. False (and zeros): any port. */
bool config_hint_srun_ports(const struct config_hint *hint, uint16_t *first, uint16_t *last);
/* PlugStackConfig and PluginDir of the file at `path` and what it includes; "" where it does not say. */
void config_hint_plugins(const char *path, char *plugstack, size_t plugstack_size, char *plugin_dir, size_t plugin_dir_size);

#endif
