/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h - one wish made ready, and what a single node can hold of it. Pure.
 *
 * All limits of a node are separable: so many tasks by its cores, by its memory, by each device; so many devices by their number
 * and by the CPUs and memory that each takes along. So a node is two kinds of numbers: most tasks, most devices of each row that
 * is asked for the job as a whole. Choosing nodes (choose.h) needs no more; handing out cores and devices is give.h.
 */
#ifndef SELECT_TOPO_FIT_H
#define SELECT_TOPO_FIT_H

#include <spur/score.h>
#include <spur/select.h>

#define TOPO_ROWS_MAX SPUR_PICKS_MAX
#define TOPO_SOCKETS_MAX 256u       /* a node with more is looked at without its sockets */
#define TOPO_NO_LIMIT UINT32_MAX

/* Why a node can't take a single task. One list makes constants and words. */
#define TOPO_WHYS(X) \
    X(TOPO_FITS,     "") \
    X(TOPO_UNUSABLE, "is not allowed or not usable") \
    X(TOPO_BUSY,     "is used by other jobs") \
    X(TOPO_HARDWARE, "has too few sockets, cores a socket or threads a core") \
    X(TOPO_CPUS,     "has too few CPUs") \
    X(TOPO_MEMORY,   "has too little memory") \
    X(TOPO_GRES,     "has too few devices")
enum topo_why {
#define TOPO_WHY_ROW(name, text) name,
    TOPO_WHYS(TOPO_WHY_ROW)
#undef TOPO_WHY_ROW
    TOPO_WHY_COUNT
};

struct topo_row {
    const struct spur_gres_ask *ask;
    uint32_t name_id, type_id;      /* in the view; found with the first node that has it, 0 until then */
    bool     is_gpu, is_typed;
    bool     is_shared;             /* another row asks for the same name */
    bool     of_job;                /* counted over all nodes of the job: per_job, not bound to node or task */
};

struct topo_ask {
    struct spur_ask a;              /* as asked, members that the host does not know are 0 */
    struct topo_row rows[TOPO_ROWS_MAX];
    uint32_t row_count, of_job_count;
    uint32_t tasks_per_core;        /* TOPO_NO_LIMIT: as many as threads */
    bool     by_cpu, by_socket, counts_memory;
    bool     wants_sockets;         /* something depends on where in the node the free cores are */
    uint32_t span;                  /* sockets that must be used, for gres per socket; 1 otherwise */
    uint64_t gpus_per_node, gpus_per_task;      /* sums over the gpu rows: fixed part, part that grows with tasks */
    uint32_t node_size;             /* of the view's nodes */
    const struct spur_score_ops *scorer; void *scorer_self;     /* NULL: none */
    uint64_t rail;                  /* GPUs free on every node of the job that lose nothing there: taken on each; 0: each node by itself */
};

/* Of rows counted over the job; equal nodes share one. */
struct topo_limits { uint32_t least[TOPO_ROWS_MAX], most[TOPO_ROWS_MAX]; };
struct topo_fit {
    uint32_t node, weight;
    uint32_t tasks;                 /* most; >= 1 when it fits */
    struct topo_limits *rows;       /* set by the caller, filled by topo_fit_node */
    uint64_t rank;                  /* lower is taken first among equals */
    bool     is_taken;
};

/* Refuses asks that contradict themselves: SPUR_ENEVER or SPUR_ELIMIT with the sentence. */
int  topo_ask_init(struct topo_ask *t, const struct spur_ask *ask, struct spur_error *err);
/* What node `n` can hold now, or `empty` of all jobs. */
enum topo_why topo_fit_node(struct topo_ask *t, const struct spur_node_view *n, bool empty, struct topo_fit *out);
const char *topo_why_text(enum topo_why why);

/* Shared with give.c. */
uint32_t topo_threads(const struct spur_node_view *n);                                 /* CPUs a core */
uint32_t topo_usable_threads(const struct topo_ask *t, const struct spur_node_view *n);     /* of them, those that tasks may use */
uint32_t topo_cores_for(const struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks);     /* cores that so many tasks take */
uint32_t topo_tasks_in(const struct topo_ask *t, const struct spur_node_view *n, uint32_t cores);      /* tasks that fit in so many cores */
/* --ntasks-per-socket: so many of `tasks` go into a socket with so many free cores; the lowest socket takes as many as it may, then the next. */
uint32_t topo_tasks_here(const struct topo_ask *t, const struct spur_node_view *n, uint32_t free, uint32_t tasks);
/* Free cores of each socket that may be used, in free[]; returns the number of sockets with any. */
uint32_t topo_sockets(const struct topo_ask *t, const struct spur_node_view *n, bool empty, uint32_t *free);
bool     topo_row_matches(struct topo_row *row, const struct spur_gres_view *g);
static inline const struct spur_gres_view *topo_gres(const struct spur_node_view *n, uint32_t i)
{
    return (const struct spur_gres_view *)(const void *)((const char *)n->gres + (size_t)i * n->gres_size);
}
uint64_t topo_gres_free(const struct spur_gres_view *g, bool empty);

#endif
