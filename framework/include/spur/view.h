/* SPDX-License-Identifier: Apache-2.0 */
/* spur/view.h - what select and priority plugins see of the cluster: nodes with what is free on them, one job's wish, a placement.
 *
 * Everything is borrowed for the duration of the call. Arrays carry an element size and are walked with it
 * (spur_view_node), so that elements may grow. Bitmaps are 64-bit words, bit i of word i/64. Sizes in MiB.
 */
#ifndef SPUR_VIEW_H
#define SPUR_VIEW_H

#include <stdbool.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spur_device_table;           /* spur/score.h */

#define SPUR_GRES_MAX_INDEX 64      /* devices of one kind on a node that have an index */

/* One kind of generic resource on a node. Devices with a file have an index; others (licenses, shards) are a count only. */
struct spur_gres_view {
    const char *name, *type;        /* "gpu", "mi300x"; type "" when untyped */
    uint32_t    name_id, type_id;   /* equal names have equal ids within one view; type_id 0: untyped */
    uint64_t    total, used;
    uint64_t    all_mask, free_mask;    /* device indices; 0 when the resource is a count only */
};

#define SPUR_NODE_USABLE    1u      /* up, not drained, responding: a job may start here */
#define SPUR_NODE_IDLE      2u      /* no job at all */
#define SPUR_NODE_EXCLUSIVE 4u      /* held whole by one job */

struct spur_node_view {
    uint32_t    index;              /* the node's number: bit in every node bitmap */
    uint32_t    flags;              /* SPUR_NODE_* */
    const char *name, *features;    /* features: "a,b" or "" */
    uint32_t    weight;             /* lower is taken first */
    uint32_t    sockets, cores_per_socket, threads_per_core, cpus;
    uint64_t    mem_total, mem_free;
    const uint64_t *core_free;      /* bitmap of cores no job holds; core c is on socket c / cores_per_socket */
    uint32_t    core_words;
    uint32_t    cpus_free;          /* threads on free cores (CR_CPU: CPUs not held, a core may be shared) */
    uint32_t    jobs;               /* running on it */
    const struct spur_gres_view *gres; uint32_t gres_count, gres_size;
    uint32_t    class_id;           /* nodes of equal hardware have equal ids; 0: not computed */
    /* since 0.2 */
    const struct spur_device_table *devices;    /* spur/score.h: the GPUs and their links; NULL: none known */
    const char *fabric;             /* nodes with the same text are joined by one NVLink or XGMI domain; "": none */
    const char *leaf, *block;       /* the leaf switch (topology.conf tree) and block it hangs on; "": none */
    /* since 0.3 */
    const char *path;               /* the switches or blocks above it, highest first, its leaf last: "core/pod1/leaf3"; the same text for all nodes of a leaf */
};

struct spur_view {
    uint32_t    size;
    uint32_t    node_size;          /* sizeof(struct spur_node_view) as the host was compiled */
    uint64_t    version;            /* grows with each change of the base; an overlay keeps its base's */
    bool        is_overlay;         /* base plus hypothetical releases at a time (backfill, preemption) */
    const void *nodes; uint32_t node_count;
    /* since 0.3: how a plugin keeps an index of each view it is asked about. A serial names one view as long as it lives and is never given again; 0: this host
     * gives none. log[0 .. log_count) are the nodes that have changed since the view was made, in order, a node as often as it did; what it said before stays,
     * so a plugin remembers how far it has read. When too much would stand in it the view gets another serial and an empty log. */
    uint64_t    serial;
    const uint32_t *log; uint32_t log_count;
};

static inline const struct spur_node_view *spur_view_node(const struct spur_view *v, uint32_t i)
{
    return (const struct spur_node_view *)(const void *)((const char *)v->nodes + (size_t)i * v->node_size);
}

/* How consumables are counted: SelectTypeParameters. */
#define SPUR_CR_CPU     1u          /* CPUs (threads) are handed out */
#define SPUR_CR_CORE    2u          /* whole cores */
#define SPUR_CR_SOCKET  4u          /* whole sockets */
#define SPUR_CR_MEMORY  8u
#define SPUR_CR_ONE_TASK_PER_CORE 16u
#define SPUR_CR_PACK    32u         /* CR_Pack_Nodes */
#define SPUR_CR_LLN     64u         /* least loaded nodes first */

struct spur_gres_ask {
    const char *name, *type;        /* type "" for any */
    uint64_t per_job, per_node, per_socket, per_task;   /* 0: not asked that way */
};

/* One job's wish, normalised: defaults filled, absent numbers 0. */
struct spur_ask {
    uint32_t size;
    uint32_t job_id;
    uint32_t min_nodes, max_nodes;          /* both >= 1 */
    uint32_t tasks;                         /* >= 1 */
    bool     tasks_set;                     /* the user gave -n */
    uint32_t cpus_per_task;                 /* >= 1 */
    uint32_t tasks_per_node, tasks_per_socket, tasks_per_core;      /* 0: free */
    uint32_t min_cpus_node, min_sockets, min_cores_per_socket, threads_per_core;
    uint64_t mem_per_node, mem_per_cpu, mem_per_gpu;        /* 0: none; SPUR_MEM_ALL: all of the node */
    uint64_t tmp;
    uint32_t cpus_per_gpu;
    const struct spur_gres_ask *gres; uint32_t gres_count, gres_size;
    const uint64_t *allowed;                /* bitmap of nodes the framework lets it use: partition, features, state, -x */
    const uint64_t *required;               /* -w: all of these must be in; may be NULL */
    uint32_t node_words;
    bool     exclusive;                     /* whole nodes */
    bool     overcommit, contiguous, spread;
    uint32_t cr;                            /* SPUR_CR_* */
    uint32_t switches;                      /* at most so many leaf switches; 0: any */
    uint32_t segment;                       /* nodes a group under one switch (--segment); 0: any */
    uint32_t max_cpus_per_node;             /* of the partition; 0: none */
    uint32_t want_nodes;                    /* min_nodes..max_nodes: as many as this when they are free (-N 2-4: 4); 0: no more than the tasks need */
    /* since 0.3 */
    uint32_t gres_flags;                    /* SPUR_GRES_* */
};
#define SPUR_GRES_ENFORCE_BINDING 1u        /* cores near to the job's GPUs only */
#define SPUR_GRES_DISABLE_BINDING 2u        /* any cores, near or not */
#define SPUR_MEM_ALL UINT64_MAX

/* ask: which row of the ask this serves, or SPUR_ASK_NONE: held because the job has the node for itself (exclusive). gres: which row of the node's. */
struct spur_gres_pick { uint32_t ask; uint32_t gres; uint64_t count, mask; };
#define SPUR_ASK_NONE UINT32_MAX

#define SPUR_PICKS_MAX 16
struct spur_node_pick {
    uint32_t  node;                         /* index in the view */
    uint32_t  cpus, tasks;
    uint64_t  mem;
    uint64_t *cores; uint32_t core_words;   /* bitmap, room for the node's core_words; the host's memory */
    struct spur_gres_pick gres[SPUR_PICKS_MAX]; uint32_t gres_count;
};
struct spur_placement {
    uint32_t size;
    uint32_t pick_size;                     /* sizeof(struct spur_node_pick) as the host was compiled */
    void    *picks; uint32_t pick_room;     /* the caller's memory: room for so many nodes, cores included */
    uint32_t pick_count;                    /* filled: in order of node rank */
    double   score;                         /* 0..1: share of the best conceivable; plugins that do not score give 1 */
};
static inline struct spur_node_pick *spur_placement_pick(const struct spur_placement *p, uint32_t i)
{
    return (struct spur_node_pick *)(void *)((char *)p->picks + (size_t)i * p->pick_size);
}

/* What priority plugins see of one job. */
struct spur_job_view {
    uint32_t size;
    uint32_t job_id, uid;
    int64_t  eligible_wall_s, submit_wall_s;
    uint32_t nodes, cpus;                   /* asked */
    uint64_t mem_mib;                       /* asked in all */
    uint32_t time_limit_min;                /* UINT32_MAX or 0: no limit */
    int32_t  nice;
    uint32_t partition_factor, partition_tier;      /* PriorityJobFactor, PriorityTier */
    uint32_t partition_factor_max;          /* highest PriorityJobFactor of any partition */
    int64_t  site_factor;
    uint32_t cluster_nodes, cluster_cpus;
    const char *account, *qos, *partition;
};

#ifdef __cplusplus
}
#endif
#endif
