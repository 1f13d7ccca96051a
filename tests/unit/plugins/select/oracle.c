/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.c - tries each subset of nodes, and on each node each number of tasks. Slow, plain, and written from the meaning of the options,
 * not from the plugin: where both agree on thousands of random cases, a mistake has to be made twice. */
#include "oracle.h"

#include <stdlib.h>

#define TRIES 40u       /* tasks or devices tried on one node */

static bool bit(const uint64_t *words, uint32_t i) { return words && words[i / 64] >> i % 64 & 1; }
static uint32_t core_count(const struct spur_node_view *n) { return n->sockets * n->cores_per_socket; }
static uint32_t usable_threads(const struct spur_ask *a, const struct spur_node_view *n)
{
    return a->threads_per_core && a->threads_per_core < n->threads_per_core ? a->threads_per_core : n->threads_per_core;
}

/* Cores that k tasks take, by putting one after the other onto cores. */
static uint32_t cores_taken(const struct spur_ask *a, const struct spur_node_view *n, uint32_t k)
{
    uint32_t usable = usable_threads(a, n), limit = a->tasks_per_core ? a->tasks_per_core : a->cr & SPUR_CR_ONE_TASK_PER_CORE ? 1 : 0;
    uint32_t cores = 0, group = 0, threads_left = 0;

    if (a->overcommit)
        k = 1;
    if (!limit) {               /* threads are one pool */
        for (uint32_t cpu = 0; cpu < k * a->cpus_per_task; cpu++, threads_left--)
            if (!threads_left) {
                cores++;
                threads_left = usable;
            }
        return cores;
    }
    /* Each group of `limit` tasks starts on fresh cores, as many as one task needs; more if the group's threads need them. */
    for (uint32_t task = 0, spaced = 0, pool = 0; task < k; task++) {
        if (group == 0)
            for (uint32_t cpu = 0; cpu < a->cpus_per_task; cpu += usable)
                spaced++;
        group = (group + 1) % limit;
        pool += a->cpus_per_task;
        cores = spaced > (pool + usable - 1) / usable ? spaced : (pool + usable - 1) / usable;
    }
    return cores;
}

static void socket_cores(const struct spur_ask *a, const struct spur_node_view *n, bool empty, uint32_t *count)
{
    for (uint32_t s = 0; s < n->sockets; s++) {
        count[s] = 0;
        for (uint32_t c = s * n->cores_per_socket; c < (s + 1) * n->cores_per_socket; c++)
            count[s] += empty || bit(n->core_free, c);
        if (count[s] < a->min_cores_per_socket || ((a->cr & SPUR_CR_SOCKET) && count[s] < n->cores_per_socket))
            count[s] = 0;
    }
}

/* The same with a limit of tasks a socket: each socket is filled before the next. False when they don't fit. */
static bool cores_taken_by_socket(const struct spur_ask *a, const struct spur_node_view *n, const uint32_t *sockets, uint32_t k, uint32_t *cores)
{
    *cores = 0;
    for (uint32_t s = 0; s < n->sockets; s++) {
        uint32_t here = 0;

        while (k && here < a->tasks_per_socket && cores_taken(a, n, here + 1) <= sockets[s]) {
            here++;
            k--;
        }
        if (here)
            *cores += a->cr & SPUR_CR_SOCKET ? n->cores_per_socket : cores_taken(a, n, here);
    }
    return k == 0;
}

static uint64_t devices_free(const struct spur_node_view *n, const struct spur_gres_ask *g, bool empty)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n->gres_count; i++) {
        const struct spur_gres_view *v = &n->gres[i];

        if (strcmp(v->name, g->name) == 0 && (!*g->type || strcmp(v->type, g->type) == 0))
            sum += empty ? v->total : v->all_mask ? (uint64_t)__builtin_popcountll(v->free_mask) : v->total - v->used;
    }
    return sum;
}

/* Can node n hold k tasks, and d[row] devices of rows counted over the job? */
static bool node_holds(const struct wish *w, const struct spur_node_view *n, bool empty, uint32_t k, const uint64_t *d)
{
    const struct spur_ask *a = &w->ask;
    uint32_t sockets[16], cores = cores_taken(a, n, k), have = 0, nonempty = 0;
    uint64_t gpus = 0, memory, cpus;

    if (!bit(a->allowed, n->index) || (!empty && (!(n->flags & SPUR_NODE_USABLE) || (a->exclusive && n->jobs))))
        return false;
    if (n->sockets < a->min_sockets || n->cores_per_socket < a->min_cores_per_socket || n->threads_per_core < a->threads_per_core)
        return false;
    if (a->tasks_per_node && (k > a->tasks_per_node || (!a->tasks_set && k != a->tasks_per_node)))
        return false;
    for (uint32_t i = 0; i < a->gres_count; i++) {
        const struct spur_gres_ask *g = &w->gres[i];
        uint64_t want = g->per_node;

        if (g->per_task * k > want)
            want = g->per_task * k;
        if (g->per_job && !g->per_node && !g->per_task)
            want = d[i];
        if (want > devices_free(n, g, empty))
            return false;
        if (strcmp(g->name, "gpu") == 0)
            gpus += want;
    }
    socket_cores(a, n, empty, sockets);
    if (a->tasks_per_socket && !cores_taken_by_socket(a, n, sockets, k, &cores))
        return false;
    while (cores * usable_threads(a, n) < gpus * a->cpus_per_gpu || cores * n->threads_per_core < a->min_cpus_node)
        cores++;
    for (uint32_t s = 0; s < n->sockets; s++) {
        have += sockets[s];
        nonempty += sockets[s] > 0;
    }
    if (nonempty < a->min_sockets)
        return false;
    if (a->cr & SPUR_CR_SOCKET)
        cores = (cores + n->cores_per_socket - 1) / n->cores_per_socket * n->cores_per_socket;
    if (cores > have)
        return false;
    cpus = (uint64_t)cores * n->threads_per_core;
    if (a->max_cpus_per_node && cpus > a->max_cpus_per_node)
        return false;
    memory = empty || !(a->cr & SPUR_CR_MEMORY) ? n->mem_total : n->mem_free;
    if (a->mem_per_node == SPUR_MEM_ALL)
        return memory == n->mem_total;
    return a->mem_per_node <= memory && a->mem_per_cpu * cpus <= memory && a->mem_per_gpu * gpus <= memory;
}

static bool is_of_job(const struct spur_gres_ask *g) { return g->per_job && !g->per_node && !g->per_task; }

static bool subset_can(const struct cluster *c, const struct wish *w, bool empty, uint32_t set)
{
    const struct spur_ask *a = &w->ask;
    uint64_t tasks = 0, devices[8] = { 0 }, none[8];
    uint32_t count = (uint32_t)__builtin_popcount(set), first = 32, last = 0;

    if (count < a->min_nodes || count > a->max_nodes || (a->tasks_set && count > a->tasks))
        return false;
    for (uint32_t i = 0; i < a->gres_count; i++) {
        none[i] = 1;
        if (is_of_job(&w->gres[i]) && count > w->gres[i].per_job)
            return false;
        if (w->gres[i].per_job && w->gres[i].per_node && count * w->gres[i].per_node != w->gres[i].per_job)
            return false;
    }
    for (uint32_t n = 0; n < c->view.node_count; n++) {
        const struct spur_node_view *node = &c->nodes[n];
        uint32_t most = 0;

        if (bit(a->required, n) && !(set >> n & 1))
            return false;
        if (!(set >> n & 1))
            continue;
        if (first == 32)
            first = n;
        last = n;
        for (uint32_t k = 1; k <= TRIES; k++)
            if (node_holds(w, node, empty, k, none))
                most = k;
        if (!most)
            return false;
        tasks += most;
        for (uint32_t i = 0; i < a->gres_count; i++) {
            uint64_t more[8];

            if (!is_of_job(&w->gres[i]))
                continue;
            memcpy(more, none, sizeof more);
            for (more[i] = TRIES; more[i] > 1 && !node_holds(w, node, empty, a->tasks_per_node && !a->tasks_set ? a->tasks_per_node : 1, more); more[i]--)
                ;
            devices[i] += more[i];
        }
    }
    if (a->contiguous && last - first + 1 != count)
        return false;
    for (uint32_t i = 0; i < a->gres_count; i++)
        if (is_of_job(&w->gres[i]) && devices[i] < w->gres[i].per_job)
            return false;
    return tasks >= a->tasks;
}

bool oracle_can(const struct cluster *c, const struct wish *w, bool empty)
{
    for (uint32_t set = 1; set < 1u << c->view.node_count; set++)
        if (subset_can(c, w, empty, set))
            return true;
    return false;
}

uint32_t oracle_fewest(const struct cluster *c, const struct wish *w)
{
    uint32_t fewest = UINT32_MAX;

    for (uint32_t set = 1; set < 1u << c->view.node_count; set++)
        if ((uint32_t)__builtin_popcount(set) < fewest && subset_can(c, w, false, set))
            fewest = (uint32_t)__builtin_popcount(set);
    return fewest;
}

/* ---- is it right? ---- */

static const char *devices_fault(const struct wish *w, const struct spur_node_view *n, const struct spur_node_pick *k, uint64_t *gpus, uint64_t *of_job)
{
    const struct spur_ask *a = &w->ask;
    uint64_t got[8] = { 0 }, taken[CLUSTER_GRES] = { 0 }, counted[CLUSTER_GRES] = { 0 };

    for (uint32_t i = 0; i < k->gres_count; i++) {
        const struct spur_gres_pick *g = &k->gres[i];
        const struct spur_gres_view *v;

        if (g->gres >= n->gres_count)
            return "a device of no kind";
        v = &n->gres[g->gres];
        if (v->all_mask && ((uint64_t)__builtin_popcountll(g->mask) != g->count || g->mask & ~v->free_mask || g->mask & taken[g->gres]))
            return "devices that are not free, or twice the same, or not as many as counted";
        taken[g->gres] |= g->mask;
        counted[g->gres] += g->count;
        if (counted[g->gres] > v->total - v->used)
            return "more of a resource than is free";
        if (strcmp(v->name, "gpu") == 0)
            *gpus += g->count;
        if (g->ask == SPUR_ASK_NONE) {
            if (!a->exclusive)
                return "a device that was not asked for";
            continue;
        }
        if (g->ask >= a->gres_count || strcmp(w->gres[g->ask].name, v->name) != 0 || (*w->gres[g->ask].type && strcmp(w->gres[g->ask].type, v->type) != 0))
            return "a device of another kind than asked";
        got[g->ask] += g->count;
    }
    for (uint32_t i = 0; i < a->gres_count; i++) {
        uint64_t want = w->gres[i].per_node > w->gres[i].per_task * k->tasks ? w->gres[i].per_node : w->gres[i].per_task * k->tasks;

        if (is_of_job(&w->gres[i]) ? !got[i] : a->exclusive ? got[i] < want : got[i] != want)
            return "not the number of devices asked";
        of_job[i] += got[i];
    }
    return NULL;
}

static const char *cores_fault(const struct wish *w, const struct spur_node_view *n, const struct spur_node_pick *k, uint64_t gpus)
{
    const struct spur_ask *a = &w->ask;
    uint32_t cores = 0, used[16] = { 0 }, free_of[16], left = k->tasks;

    socket_cores(a, n, false, free_of);
    for (uint32_t c = 0; c < k->core_words * 64; c++) {
        if (!bit(k->cores, c))
            continue;
        if (c >= core_count(n) || !bit(n->core_free, c))
            return "a core that is not free";
        cores++;
        used[c / n->cores_per_socket]++;
        if (!a->exclusive && !free_of[c / n->cores_per_socket])
            return "a core of a socket that may not be used";
    }
    if (k->cpus != cores * n->threads_per_core)
        return "CPUs are not the threads of the cores";
    if (cores < cores_taken(a, n, k->tasks))
        return "too few cores for the tasks";
    if (k->cpus < a->min_cpus_node || cores * usable_threads(a, n) < a->cpus_per_gpu * (a->exclusive ? 0 : gpus))
        return "too few CPUs";
    if (!a->exclusive && a->max_cpus_per_node && k->cpus > a->max_cpus_per_node)
        return "more CPUs than the partition gives";
    for (uint32_t s = 0; s < n->sockets; s++) {
        uint32_t here = 0;

        if ((a->cr & SPUR_CR_SOCKET) && used[s] && used[s] != n->cores_per_socket)
            return "a part of a socket";
        while (a->tasks_per_socket && left && here < a->tasks_per_socket && cores_taken(a, n, here + 1) <= used[s]) {
            here++;
            left--;
        }
    }
    if (a->tasks_per_socket && left)
        return "too many tasks a socket";
    /* Nothing is given that nobody needs. */
    if (!a->exclusive && !(a->cr & SPUR_CR_SOCKET) && !a->tasks_per_socket) {
        uint32_t need = cores_taken(a, n, k->tasks);

        while (need * n->threads_per_core < a->min_cpus_node || need * usable_threads(a, n) < a->cpus_per_gpu * gpus)
            need++;
        if (cores != need)
            return "more cores than needed";
    }
    return NULL;
}

static const char *memory_fault(const struct wish *w, const struct spur_node_view *n, const struct spur_node_pick *k, uint64_t gpus)
{
    const struct spur_ask *a = &w->ask;
    uint64_t want = a->mem_per_node == SPUR_MEM_ALL ? n->mem_total : a->mem_per_node ? a->mem_per_node : a->mem_per_cpu ? a->mem_per_cpu * k->cpus : a->mem_per_gpu * gpus;

    if (!(a->cr & SPUR_CR_MEMORY))
        return k->mem ? "memory is charged though it is not handed out" : NULL;
    if (k->mem > n->mem_free)
        return "more memory than is free";
    if (a->exclusive)
        return NULL;
    return k->mem == want ? NULL : "not the memory asked";
}

const char *oracle_fault(const struct cluster *c, const struct wish *w, const struct placed *p)
{
    const struct spur_ask *a = &w->ask;
    uint64_t tasks = 0, of_job[8] = { 0 };
    uint32_t required = 0;

    if (p->p.pick_count < a->min_nodes || p->p.pick_count > a->max_nodes)
        return "not the number of nodes asked";
    for (uint32_t i = 0; i < p->p.pick_count; i++) {
        const struct spur_node_pick *k = &p->picks[i];
        const struct spur_node_view *n = &c->nodes[k->node];
        const char *fault;
        uint64_t gpus = 0;

        if (i && k->node <= p->picks[i - 1].node)
            return "nodes are not in order";
        if (i && a->contiguous && k->node != p->picks[i - 1].node + 1)
            return "nodes are not neighbours";
        if (!bit(a->allowed, k->node) || !(n->flags & SPUR_NODE_USABLE))
            return "a node that may not be used";
        if (a->exclusive && n->jobs)
            return "a node that is not free as a whole";
        if (!k->tasks || (a->tasks_per_node && (k->tasks > a->tasks_per_node || (!a->tasks_set && k->tasks != a->tasks_per_node))))
            return "not the number of tasks on a node";
        required += bit(a->required, k->node);
        tasks += k->tasks;
        if ((fault = devices_fault(w, n, k, &gpus, of_job)) || (fault = cores_fault(w, n, k, gpus)) || (fault = memory_fault(w, n, k, gpus)))
            return fault;
    }
    for (uint32_t i = 0; i < a->gres_count; i++)
        if (is_of_job(&w->gres[i]) && (a->exclusive ? of_job[i] < w->gres[i].per_job : of_job[i] != w->gres[i].per_job))
            return "not the number of devices of the job";
    if (a->required && required != (uint32_t)__builtin_popcountll(a->required[0]))
        return "a node of --nodelist is missing";
    if (a->tasks_set ? tasks != a->tasks : tasks < a->tasks)
        return "not the number of tasks";
    return NULL;
}
