/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c - how many tasks, and how many devices of each kind, one node can hold of one wish.
 *
 * Called for each node of the cluster at each decision, so it does no more than a few divisions: sockets are looked at only when
 * the wish depends on them. CPUs are counted as Slurm does: whole cores with all their threads where cores are handed out, so
 * memory by CPU is paid for each thread of them.
 */
#include "fit.h"

static const char *const why_texts[] = {
#define TOPO_WHY_ROW(name, text) text,
    TOPO_WHYS(TOPO_WHY_ROW)
#undef TOPO_WHY_ROW
};

const char *topo_why_text(enum topo_why why)
{
    return why_texts[why];
}

static uint32_t min32(uint64_t a, uint64_t b)
{
    uint64_t least = a < b ? a : b;

    return least > UINT32_MAX ? UINT32_MAX : (uint32_t)least;
}

static uint64_t div_up(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

static const struct spur_gres_ask *ask_row(const struct spur_ask *a, uint32_t i)
{
    return (const struct spur_gres_ask *)(const void *)((const char *)a->gres + (size_t)i * a->gres_size);
}

static int row_init(struct topo_ask *t, struct topo_row *row, const struct spur_gres_ask *g, struct spur_error *err)
{
    struct spur_ask *a = &t->a;
    const char *colon = *g->type ? ":" : "";

    row->ask = g;
    row->is_gpu = strcmp(g->name, "gpu") == 0;
    row->is_typed = *g->type != '\0';
    if (g->per_job && g->per_node) {
        uint64_t nodes = g->per_job / g->per_node;

        if (g->per_job % g->per_node || nodes < a->min_nodes || nodes > a->max_nodes)
            return spur_fail(err, SPUR_ENEVER, "%s%s%s: %llu in all and %llu a node don't give a number of nodes between %u and %u", g->name, colon, g->type,
                             (unsigned long long)g->per_job, (unsigned long long)g->per_node, a->min_nodes, a->max_nodes);
        a->min_nodes = a->max_nodes = (uint32_t)nodes;
        if (a->tasks < a->min_nodes && !a->tasks_set)
            a->tasks = a->min_nodes;
    } else if (g->per_job && g->per_task) {
        if (g->per_task * a->tasks != g->per_job)
            return spur_fail(err, SPUR_ENEVER, "%s%s%s: %llu in all and %llu a task don't go together with %u tasks", g->name, colon, g->type,
                             (unsigned long long)g->per_job, (unsigned long long)g->per_task, a->tasks);
    } else if (g->per_job) {
        row->of_job = true;
        t->of_job_count++;
    }
    if (g->per_socket) {
        t->wants_sockets = true;
        if (a->min_sockets > 1)
            t->span = a->min_sockets;
    }
    if (row->is_gpu) {
        t->gpus_per_node += g->per_node + g->per_socket * (a->min_sockets ? a->min_sockets : 1);
        t->gpus_per_task += g->per_task;
    }
    return 0;
}

int topo_ask_init(struct topo_ask *t, const struct spur_ask *ask, struct spur_error *err)
{
    struct spur_ask *a = &t->a;
    int rc;

    memset(t, 0, sizeof *t);
    memcpy(a, ask, ask->size < sizeof *a ? ask->size : sizeof *a);
    if (a->min_nodes < 1)
        a->min_nodes = 1;
    if (a->tasks < 1)
        a->tasks = 1;
    if (a->cpus_per_task < 1)
        a->cpus_per_task = 1;
    if (a->max_nodes < a->min_nodes)
        return spur_fail(err, SPUR_ENEVER, "at least %u nodes are asked and at most %u allowed", a->min_nodes, a->max_nodes);
    if (a->gres_count > TOPO_ROWS_MAX)
        return spur_fail(err, SPUR_ELIMIT, "%u kinds of generic resources are asked, %u is the limit", a->gres_count, TOPO_ROWS_MAX);
    t->by_cpu = (a->cr & SPUR_CR_CPU) && !(a->cr & (SPUR_CR_CORE | SPUR_CR_SOCKET));
    t->by_socket = (a->cr & SPUR_CR_SOCKET) != 0;
    t->counts_memory = (a->cr & SPUR_CR_MEMORY) != 0;
    t->tasks_per_core = a->tasks_per_core ? a->tasks_per_core : a->cr & SPUR_CR_ONE_TASK_PER_CORE ? 1 : TOPO_NO_LIMIT;
    /* Where a core may not be filled with tasks, whole cores are what is counted. */
    if (a->threads_per_core || t->tasks_per_core != TOPO_NO_LIMIT)
        t->by_cpu = false;
    t->wants_sockets = t->by_socket || a->tasks_per_socket || a->min_sockets || a->min_cores_per_socket;
    t->span = 1;
    t->row_count = a->gres_count;
    for (uint32_t i = 0; i < t->row_count; i++) {
        if ((rc = row_init(t, &t->rows[i], ask_row(a, i), err)) < 0)
            return rc;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(t->rows[k].ask->name, t->rows[i].ask->name) == 0)
                t->rows[k].is_shared = t->rows[i].is_shared = true;
    }
    return 0;
}

uint32_t topo_threads(const struct spur_node_view *n)
{
    uint32_t cores = n->sockets * n->cores_per_socket;

    if (!cores || !n->cpus)
        return n->threads_per_core ? n->threads_per_core : 1;
    /* CPUs=cores on a machine with hyper-threads: the site counts a core as one CPU. The ledger divides just so. */
    return n->cpus > cores ? n->cpus / cores : 1;
}

uint32_t topo_usable_threads(const struct topo_ask *t, const struct spur_node_view *n)
{
    uint32_t threads = topo_threads(n);

    return t->a.threads_per_core && t->a.threads_per_core < threads ? t->a.threads_per_core : threads;
}

uint32_t topo_cores_for(const struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks)
{
    uint64_t usable = topo_usable_threads(t, n), cpus = t->a.cpus_per_task, cores;

    if (t->a.overcommit)
        tasks = 1;
    cores = div_up(tasks * cpus, usable);
    if (t->tasks_per_core != TOPO_NO_LIMIT) {
        uint64_t spaced = div_up(tasks, t->tasks_per_core) * div_up(cpus, usable);

        if (spaced > cores)
            cores = spaced;
    }
    return min32(cores, UINT32_MAX);
}

uint32_t topo_tasks_in(const struct topo_ask *t, const struct spur_node_view *n, uint32_t cores)
{
    uint64_t usable = topo_usable_threads(t, n), cpus = t->a.cpus_per_task, tasks = cores * usable / cpus;

    if (t->a.overcommit)
        return tasks ? TOPO_NO_LIMIT : 0;
    if (t->tasks_per_core != TOPO_NO_LIMIT) {
        uint64_t spaced = cores / div_up(cpus, usable) * t->tasks_per_core;

        if (spaced < tasks)
            tasks = spaced;
    }
    return min32(tasks, UINT32_MAX);
}

uint32_t topo_tasks_here(const struct topo_ask *t, const struct spur_node_view *n, uint32_t free, uint32_t tasks)
{
    uint32_t here = topo_tasks_in(t, n, free);

    if (here > t->a.tasks_per_socket)
        here = t->a.tasks_per_socket;
    return here < tasks ? here : tasks;
}

/* Do so many tasks, filled in socket by socket, take no more than `cores`? Each socket rounds up for itself. */
static bool tasks_fit_sockets(const struct topo_ask *t, const struct spur_node_view *n, const uint32_t *count, uint32_t tasks, uint32_t cores)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < n->sockets && s < TOPO_SOCKETS_MAX && tasks > 0; s++) {
        uint32_t here = topo_tasks_here(t, n, count[s], tasks);

        if (here)
            sum += t->by_socket ? n->cores_per_socket : topo_cores_for(t, n, here);
        tasks -= here;
    }
    return tasks == 0 && sum <= cores;
}

static uint32_t free_cores(const struct spur_node_view *n, bool empty)
{
    uint32_t count = 0;

    if (empty)
        return n->sockets * n->cores_per_socket;
    for (uint32_t i = 0; i < n->core_words; i++)
        count += (uint32_t)__builtin_popcountll(n->core_free[i]);
    return count;
}

uint32_t topo_sockets(const struct topo_ask *t, const struct spur_node_view *n, bool empty, uint32_t *count)
{
    uint32_t sockets = 0;

    for (uint32_t s = 0; s < n->sockets && s < TOPO_SOCKETS_MAX; s++) {
        count[s] = empty ? n->cores_per_socket : 0;
        for (uint32_t c = s * n->cores_per_socket; !empty && c < (s + 1) * n->cores_per_socket; c++)
            if (c / 64 < n->core_words && n->core_free[c / 64] >> c % 64 & 1)
                count[s]++;
        if (count[s] < t->a.min_cores_per_socket || (t->by_socket && count[s] < n->cores_per_socket))
            count[s] = 0;
        if (count[s])
            sockets++;
    }
    return sockets;
}

bool topo_row_matches(struct topo_row *row, const struct spur_gres_view *g)
{
    if (row->name_id ? g->name_id != row->name_id : strcmp(g->name, row->ask->name) != 0)
        return false;
    row->name_id = g->name_id;
    if (!row->is_typed)
        return true;
    if (row->type_id)
        return g->type_id == row->type_id;
    if (!g->type || strcmp(g->type, row->ask->type) != 0)
        return false;
    row->type_id = g->type_id;
    return true;
}

uint64_t topo_gres_free(const struct spur_gres_view *g, bool empty)
{
    if (empty)
        return g->total;
    if (g->all_mask)
        return (uint64_t)__builtin_popcountll(g->free_mask);
    return g->total > g->used ? g->total - g->used : 0;
}

/* Devices free for a row. Where rows share a name, the others' least needs are set aside first: typed ones from their type, and
 * an untyped row gets what all of them leave. */
static uint64_t row_free(struct topo_ask *t, const struct spur_node_view *n, uint32_t i, bool empty, uint64_t *of_gpus)
{
    struct topo_row *row = &t->rows[i];
    uint64_t sum = 0, aside = 0;

    for (uint32_t k = 0; k < n->gres_count; k++)
        if (topo_row_matches(row, topo_gres(n, k)))
            sum += topo_gres_free(topo_gres(n, k), empty);
    for (uint32_t k = 0; row->is_shared && !row->is_typed && k < t->row_count; k++) {
        const struct spur_gres_ask *other = t->rows[k].ask;

        if (k != i && strcmp(other->name, row->ask->name) == 0)
            aside += other->per_node + other->per_task + other->per_socket * t->span + (t->rows[k].of_job ? 1 : 0);
    }
    if (row->is_gpu)
        *of_gpus += sum;
    return sum > aside ? sum - aside : 0;
}

/* The most cores that `sockets` of the node's sockets have together. */
static uint32_t cores_of_largest(const struct spur_node_view *n, const uint32_t *count, uint64_t sockets)
{
    uint32_t sum = 0;
    bool used[TOPO_SOCKETS_MAX] = { false };

    for (uint64_t i = 0; i < sockets && i < n->sockets && i < TOPO_SOCKETS_MAX; i++) {
        uint32_t best = TOPO_SOCKETS_MAX;

        for (uint32_t s = 0; s < n->sockets && s < TOPO_SOCKETS_MAX; s++)
            if (!used[s] && (best == TOPO_SOCKETS_MAX || count[s] > count[best]))
                best = s;
        if (best == TOPO_SOCKETS_MAX)
            break;
        used[best] = true;
        sum += count[best];
    }
    return sum;
}

/* The node's free cores that this wish can use, after all that limits cores; and the tasks that fit in them. */
static enum topo_why cores_fit(struct topo_ask *t, const struct spur_node_view *n, bool empty, uint64_t memory, uint32_t *cores_out, uint32_t *tasks_out)
{
    const struct spur_ask *a = &t->a;
    uint32_t count[TOPO_SOCKETS_MAX], threads = topo_threads(n), cores, usable, tasks;
    uint64_t per_core = a->mem_per_cpu * threads, most;
    bool by_memory = false;

    usable = cores = free_cores(n, empty);
    if (t->wants_sockets) {
        uint32_t sockets = topo_sockets(t, n, empty, count);

        if (sockets < a->min_sockets || !sockets)
            return TOPO_CPUS;
        usable = 0;
        for (uint32_t s = 0; s < n->sockets && s < TOPO_SOCKETS_MAX; s++)
            usable += count[s];
        for (uint32_t i = 0; i < t->row_count; i++) {
            uint64_t per_socket = t->rows[i].ask->per_socket, unused = 0;

            if (!per_socket)
                continue;
            /* As many sockets as have their devices. */
            most = row_free(t, n, i, empty, &unused) / per_socket;
            if (most < t->span)
                return TOPO_GRES;
            most = cores_of_largest(n, count, a->min_sockets ? a->min_sockets : most);
            if (most < usable)
                usable = (uint32_t)most;
        }
    }
    cores = usable;
    if (a->max_cpus_per_node && cores > a->max_cpus_per_node / threads)
        cores = a->max_cpus_per_node / threads;
    if (per_core && cores > memory / per_core) {
        cores = min32(memory / per_core, UINT32_MAX);
        by_memory = true;
    }
    if (t->by_socket && n->cores_per_socket)
        cores -= cores % n->cores_per_socket;
    if (cores < div_up(a->min_cpus_node, threads) || cores < t->span)
        return by_memory ? TOPO_MEMORY : TOPO_CPUS;
    tasks = topo_tasks_in(t, n, cores);
    if (a->tasks_per_socket) {
        uint32_t fits = 0, not = min32((uint64_t)a->tasks_per_socket * n->sockets, tasks) + 1;

        while (not - fits > 1) {
            uint32_t half = fits + (not - fits) / 2;

            if (tasks_fit_sockets(t, n, count, half, cores))
                fits = half;
            else
                not = half;
        }
        tasks = fits;
    }
    *cores_out = cores;
    *tasks_out = tasks;
    return tasks ? TOPO_FITS : by_memory ? TOPO_MEMORY : TOPO_CPUS;
}

/* The same where CPUs are handed out one by one. */
static enum topo_why cpus_fit(const struct topo_ask *t, const struct spur_node_view *n, bool empty, uint64_t memory, uint64_t *cpus_out, uint32_t *tasks_out)
{
    const struct spur_ask *a = &t->a;
    uint64_t cpus = empty ? n->cpus : n->cpus_free;
    bool by_memory = false;

    if (a->max_cpus_per_node && cpus > a->max_cpus_per_node)
        cpus = a->max_cpus_per_node;
    if (a->mem_per_cpu && cpus > memory / a->mem_per_cpu) {
        cpus = memory / a->mem_per_cpu;
        by_memory = true;
    }
    if (cpus < a->min_cpus_node || cpus < a->cpus_per_task)
        return by_memory ? TOPO_MEMORY : TOPO_CPUS;
    *cpus_out = cpus;
    *tasks_out = a->overcommit ? TOPO_NO_LIMIT : min32(cpus / a->cpus_per_task, UINT32_MAX);
    return TOPO_FITS;
}

static enum topo_why gres_fit(struct topo_ask *t, const struct spur_node_view *n, bool empty, uint64_t cpus, uint64_t memory, struct topo_fit *f, uint64_t *gpus_free)
{
    const struct spur_ask *a = &t->a;
    uint64_t gpus_most = UINT64_MAX;            /* by the CPUs and the memory that each takes */

    if (a->cpus_per_gpu)
        gpus_most = cpus / a->cpus_per_gpu;
    if (a->mem_per_gpu && memory / a->mem_per_gpu < gpus_most)
        gpus_most = memory / a->mem_per_gpu;
    for (uint32_t i = 0; i < t->row_count; i++) {
        const struct spur_gres_ask *g = t->rows[i].ask;
        uint64_t have = row_free(t, n, i, empty, gpus_free), fixed = g->per_node;

        if (g->per_socket * t->span > fixed)
            fixed = g->per_socket * t->span;
        if (fixed > have || g->per_task > have)
            return TOPO_GRES;
        if (g->per_task && have / g->per_task < f->tasks)
            f->tasks = min32(have / g->per_task, UINT32_MAX);
        if (t->rows[i].of_job) {
            f->rows->least[i] = min32(fixed ? fixed : 1, UINT32_MAX);
            f->rows->most[i] = min32(have, t->rows[i].is_gpu ? gpus_most : UINT64_MAX);
            if (f->rows->most[i] < f->rows->least[i])
                return have < f->rows->least[i] ? TOPO_GRES : TOPO_CPUS;
        }
    }
    if (t->gpus_per_node > gpus_most || t->gpus_per_task > gpus_most)
        return a->mem_per_gpu && (!a->cpus_per_gpu || memory / a->mem_per_gpu < cpus / a->cpus_per_gpu) ? TOPO_MEMORY : TOPO_CPUS;
    if (t->gpus_per_task && gpus_most != UINT64_MAX && gpus_most / t->gpus_per_task < f->tasks)
        f->tasks = min32(gpus_most / t->gpus_per_task, UINT32_MAX);
    return TOPO_FITS;
}

static uint64_t clamp(uint64_t v, uint64_t most) { return v < most ? v : most; }

/* Among nodes of one weight: partly used ones before empty ones, then those with the least free devices and CPUs. With LLN the other way round. */
static uint64_t rank_of(const struct topo_ask *t, const struct spur_node_view *n, uint64_t gpus_free)
{
    uint64_t free_permille = n->cpus ? (uint64_t)n->cpus_free * 1000 / n->cpus : 0;

    if (!t->row_count)
        for (uint32_t i = 0; i < n->gres_count; i++)
            gpus_free += topo_gres_free(topo_gres(n, i), false);
    if (t->a.cr & SPUR_CR_LLN)
        return (1000 - clamp(free_permille, 1000)) << 32 | n->index;
    return (uint64_t)(n->jobs == 0) << 62 | clamp(gpus_free, 0x3fff) << 48 | clamp(n->cpus_free, 0xffff) << 32 | n->index;
}

enum topo_why topo_fit_node(struct topo_ask *t, const struct spur_node_view *n, bool empty, struct topo_fit *f)
{
    const struct spur_ask *a = &t->a;
    uint64_t memory = empty || !t->counts_memory ? n->mem_total : n->mem_free, cpus = 0, gpus_free = 0;
    uint32_t cores = 0;
    enum topo_why why;

    f->node = n->index;
    f->weight = n->weight;
    f->is_taken = false;
    if (!empty && (!(n->flags & SPUR_NODE_USABLE)))
        return TOPO_UNUSABLE;
    if (!empty && ((n->flags & SPUR_NODE_EXCLUSIVE) || (a->exclusive && n->jobs)))
        return TOPO_BUSY;
    if (n->sockets < a->min_sockets || n->cores_per_socket < a->min_cores_per_socket || n->threads_per_core < a->threads_per_core)
        return TOPO_HARDWARE;
    if (a->mem_per_node == SPUR_MEM_ALL ? memory < n->mem_total : a->mem_per_node > memory)
        return TOPO_MEMORY;
    if (t->by_cpu && !t->wants_sockets) {
        if ((why = cpus_fit(t, n, empty, memory, &cpus, &f->tasks)) != TOPO_FITS)
            return why;
    } else {
        if ((why = cores_fit(t, n, empty, memory, &cores, &f->tasks)) != TOPO_FITS)
            return why;
        cpus = (uint64_t)cores * topo_usable_threads(t, n);
    }
    if ((why = gres_fit(t, n, empty, cpus, memory, f, &gpus_free)) != TOPO_FITS)
        return why;
    if (a->tasks_per_node) {
        if (!a->tasks_set && f->tasks < a->tasks_per_node)
            return TOPO_CPUS;
        if (f->tasks > a->tasks_per_node)
            f->tasks = a->tasks_per_node;
    }
    if (!f->tasks)
        return TOPO_GRES;
    f->rank = rank_of(t, n, gpus_free);
    return TOPO_FITS;
}
