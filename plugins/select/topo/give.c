/* SPDX-License-Identifier: Apache-2.0 */
/* give.c - hands out cores and devices on one node.
 *
 * Cores go socket by socket: into one socket if one has enough, and then the one that is left fullest by it; else the freest
 * sockets are filled until the rest fits in one. Inside a socket the lowest cores are taken. Whole cores with all their threads count
 * as CPUs, except where CPUs are handed out one by one (CR_CPU): there `cores` are those that the CPUs may be on, lowest first, and
 * the ledger counts the threads.
 */
#include "give.h"

struct cores {
    const struct spur_node_view *n;
    uint32_t free[TOPO_SOCKETS_MAX];    /* of each socket, not given yet */
    uint32_t sockets;
    uint64_t *given; uint32_t words;
    uint32_t count, sockets_used;
    bool     used[TOPO_SOCKETS_MAX];
};

static bool core_is_free(const struct spur_node_view *n, uint32_t c)
{
    return c / 64 < n->core_words && n->core_free[c / 64] >> c % 64 & 1;
}

/* The lowest `want` cores of socket s that are free and not given. */
static void socket_give(struct cores *c, uint32_t s, uint32_t want)
{
    uint32_t first = s * c->n->cores_per_socket, end = first + c->n->cores_per_socket;

    if (!want)
        return;
    if (!c->used[s]) {
        c->used[s] = true;
        c->sockets_used++;
    }
    for (uint32_t core = first; core < end && want > 0; core++) {
        if (!core_is_free(c->n, core) || core / 64 >= c->words || c->given[core / 64] >> core % 64 & 1)
            continue;
        c->given[core / 64] |= UINT64_C(1) << core % 64;
        c->free[s]--;
        c->count++;
        want--;
    }
}

/* The tightest socket that holds `want`, else the freest; sockets already used come first among equals. */
static uint32_t socket_best(const struct cores *c, uint32_t want, bool unused_only)
{
    uint32_t tight = UINT32_MAX, freest = UINT32_MAX;

    for (uint32_t s = 0; s < c->sockets; s++) {
        if (!c->free[s] || (unused_only && c->used[s]))
            continue;
        if (c->free[s] >= want && (tight == UINT32_MAX || c->free[s] < c->free[tight]))
            tight = s;
        if (freest == UINT32_MAX || c->free[s] > c->free[freest])
            freest = s;
    }
    return tight != UINT32_MAX ? tight : freest;
}

static bool sockets_fill(struct cores *c, uint32_t want, uint32_t span)
{
    while (want > 0) {
        bool owes = c->sockets_used < span;
        uint32_t keep = owes ? span - c->sockets_used - 1 : 0, s, take;

        if (keep >= want)
            keep = want - 1;
        s = socket_best(c, want - keep, owes);
        if (s == UINT32_MAX)
            return false;
        take = want - keep < c->free[s] ? want - keep : c->free[s];
        socket_give(c, s, take);
        want -= take;
    }
    return true;
}

/* With --ntasks-per-socket: so many tasks' cores in each socket, lowest socket first. */
static void tasks_fill(const struct topo_ask *t, struct cores *c, uint32_t tasks)
{
    for (uint32_t s = 0; s < c->sockets && tasks > 0; s++) {
        uint32_t fit = topo_tasks_here(t, c->n, c->free[s], tasks);

        if (fit)
            socket_give(c, s, topo_cores_for(t, c->n, fit));
        tasks -= fit;
    }
}

static void free_all(const struct spur_node_view *n, uint64_t *out, uint32_t words)
{
    for (uint32_t i = 0; i < words && i < n->core_words; i++)
        out[i] = n->core_free[i];
}

static bool cores_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, uint64_t gpus, struct spur_node_pick *pick, uint32_t *sockets_used)
{
    struct cores c = { .n = n, .given = pick->cores, .words = pick->core_words };
    uint32_t threads = topo_threads(n), usable = topo_usable_threads(t, n), want = topo_cores_for(t, n, tasks);
    uint64_t for_gpus = (gpus * t->a.cpus_per_gpu + usable - 1) / usable, at_least = (t->a.min_cpus_node + threads - 1) / threads;

    if (for_gpus > want)
        want = (uint32_t)for_gpus;
    if (at_least > want)
        want = (uint32_t)at_least;
    if (t->span > want)
        want = t->span;
    c.sockets = n->sockets < TOPO_SOCKETS_MAX ? n->sockets : TOPO_SOCKETS_MAX;
    topo_sockets(t, n, false, c.free);
    if (t->by_socket && n->cores_per_socket)
        want = (want + n->cores_per_socket - 1) / n->cores_per_socket * n->cores_per_socket;
    if (t->a.tasks_per_socket)
        tasks_fill(t, &c, tasks);
    if (c.count < want && !sockets_fill(&c, want - c.count, t->span))
        return false;
    if (t->by_socket)               /* tasks by socket may have begun several: each is the job's as a whole */
        for (uint32_t s = 0; s < c.sockets; s++)
            if (c.used[s])
                socket_give(&c, s, c.free[s]);
    *sockets_used = c.sockets_used;
    if (t->a.exclusive)
        free_all(n, pick->cores, pick->core_words);
    pick->cpus = 0;
    for (uint32_t i = 0; i < pick->core_words; i++)
        pick->cpus += (uint32_t)__builtin_popcountll(pick->cores[i]) * threads;
    return true;
}

/* CR_CPU: the lowest cores with a free thread that surely hold so many CPUs, whichever of their threads are free. */
static bool cpus_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, uint64_t gpus, struct spur_node_pick *pick, uint32_t *sockets_used)
{
    uint32_t threads = topo_threads(n), cores = 0, held, taken = 0;
    uint64_t want = t->a.overcommit ? t->a.cpus_per_task : (uint64_t)tasks * t->a.cpus_per_task;

    if (want < t->a.min_cpus_node)
        want = t->a.min_cpus_node;
    if (want < gpus * t->a.cpus_per_gpu)
        want = gpus * t->a.cpus_per_gpu;
    if (want > n->cpus_free)
        return false;
    if (t->a.exclusive)
        want = n->cpus_free;
    for (uint32_t i = 0; i < n->core_words; i++)
        cores += (uint32_t)__builtin_popcountll(n->core_free[i]);
    held = cores * threads > n->cpus_free ? cores * threads - n->cpus_free : 0;
    for (uint32_t core = 0; core < n->core_words * 64 && core / 64 < pick->core_words; core++) {
        /* Of the cores taken so far all held threads may be on these: at most all but one of each. */
        uint64_t lost = held < taken * (threads - 1) ? held : taken * (threads - 1);

        if ((uint64_t)taken * threads - lost >= want)
            break;
        if (!core_is_free(n, core))
            continue;
        pick->cores[core / 64] |= UINT64_C(1) << core % 64;
        taken++;
    }
    pick->cpus = (uint32_t)want;
    *sockets_used = 1;
    return true;
}

/* Which devices of one kind: the lowest free ones. */
static uint64_t devices_pick(uint64_t free_mask, uint64_t count)
{
    uint64_t mask = 0;

    while (count-- > 0 && free_mask) {
        mask |= free_mask & -free_mask;
        free_mask &= free_mask - 1;
    }
    return mask;
}

/* `want` devices for row i, from each kind on the node that matches, in the node's order. */
static bool row_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t i, uint64_t want, struct spur_node_pick *pick)
{
    for (uint32_t k = 0; k < n->gres_count && want > 0; k++) {
        const struct spur_gres_view *g = topo_gres(n, k);
        uint64_t free = topo_gres_free(g, false), mask = g->free_mask, count;
        struct spur_gres_pick *p;

        if (!topo_row_matches(&t->rows[i], g))
            continue;
        for (uint32_t q = 0; q < pick->gres_count; q++)     /* what another row took of the same kind */
            if (pick->gres[q].gres == k) {
                free -= pick->gres[q].count < free ? pick->gres[q].count : free;
                mask &= ~pick->gres[q].mask;
            }
        count = want < free ? want : free;
        if (!count)
            continue;
        if (pick->gres_count == SPUR_PICKS_MAX)
            return false;
        p = &pick->gres[pick->gres_count++];
        *p = (struct spur_gres_pick){ .ask = i, .gres = k, .count = count, .mask = g->all_mask ? devices_pick(mask, count) : 0 };
        want -= count;
    }
    return want == 0;
}

static uint64_t row_want(const struct topo_ask *t, uint32_t i, uint32_t tasks, uint32_t sockets, const uint32_t *devices)
{
    const struct spur_gres_ask *g = t->rows[i].ask;
    uint64_t want = t->rows[i].of_job ? devices[i] : 0, others[3] = { g->per_node, g->per_task * tasks, g->per_socket * sockets };

    for (int k = 0; k < 3; k++)
        if (others[k] > want)
            want = others[k];
    return want;
}

/* Whole node: what is left of every kind goes to the job too. */
static void rest_give(const struct spur_node_view *n, struct spur_node_pick *pick)
{
    for (uint32_t k = 0; k < n->gres_count; k++) {
        const struct spur_gres_view *g = topo_gres(n, k);
        struct spur_gres_pick *last = NULL;
        uint64_t mask = g->free_mask, count = topo_gres_free(g, false);

        for (uint32_t q = 0; q < pick->gres_count; q++)
            if (pick->gres[q].gres == k) {
                last = &pick->gres[q];
                mask &= ~last->mask;
                count -= last->count < count ? last->count : count;
            }
        if (!count)
            continue;
        if (last) {
            last->count += count;
            last->mask |= mask;
        } else if (pick->gres_count < SPUR_PICKS_MAX) {
            pick->gres[pick->gres_count++] = (struct spur_gres_pick){ .ask = SPUR_ASK_NONE, .gres = k, .count = count, .mask = mask };
        }
    }
}

bool topo_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, const uint32_t *devices, struct spur_node_pick *pick)
{
    const struct spur_ask *a = &t->a;
    uint32_t sockets = 1;
    uint64_t gpus = 0, memory;

    pick->node = n->index;
    pick->tasks = tasks;
    pick->gres_count = 0;
    memset(pick->cores, 0, pick->core_words * sizeof *pick->cores);
    for (uint32_t i = 0; i < t->row_count; i++)
        if (t->rows[i].is_gpu)
            gpus += row_want(t, i, tasks, t->span, devices);
    if (!(t->by_cpu && !t->wants_sockets ? cpus_give : cores_give)(t, n, tasks, gpus, pick, &sockets))
        return false;
    /* Typed rows first: an untyped one must not take what they need. */
    for (int typed = 1; typed >= 0; typed--)
        for (uint32_t i = 0; i < t->row_count; i++)
            if (t->rows[i].is_typed == (bool)typed && !row_give(t, n, i, row_want(t, i, tasks, sockets, devices), pick))
                return false;
    memory = n->mem_free;
    if (a->mem_per_node == SPUR_MEM_ALL)
        pick->mem = n->mem_total;
    else if (a->mem_per_node)
        pick->mem = a->mem_per_node;
    else if (a->mem_per_cpu)
        pick->mem = a->mem_per_cpu * pick->cpus;
    else
        pick->mem = a->mem_per_gpu * gpus;
    if (!t->counts_memory)
        pick->mem = 0;              /* not handed out: nothing is charged */
    else if (pick->mem > memory && a->exclusive)
        pick->mem = memory;         /* by the CPUs that the tasks need it fits; the others come as a gift */
    if (a->exclusive)
        rest_give(n, pick);
    return pick->mem <= memory;
}
