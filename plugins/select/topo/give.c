/* SPDX-License-Identifier: Apache-2.0 */
/* give.c - hands out cores and devices on one node.
 *
 * Cores go socket by socket: into one socket if one has enough, and then the one that is left fullest by it; else the freest
 * sockets are filled until the rest fits in one. Inside a socket the lowest cores are taken. Whole cores with all their threads count
 * as CPUs, except where CPUs are handed out one by one (CR_CPU): there `cores` are those that the CPUs may be on, lowest first, and
 * the ledger counts the threads.
 */
#include "give.h"

#include "devices.h"

struct cores {
    const struct spur_node_view *n;
    uint32_t free[TOPO_SOCKETS_MAX];    /* of each socket, not given yet */
    uint32_t sockets;
    uint64_t *given; uint32_t words;
    uint32_t count, sockets_used;
    bool     used[TOPO_SOCKETS_MAX];
    uint8_t  gpus[TOPO_SOCKETS_MAX];    /* of the job's GPUs, those near to each socket */
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

/* The socket nearest to the job's GPUs; among equals the tightest one that holds `want`, else the freest. */
static uint32_t socket_best(const struct cores *c, uint32_t want, bool unused_only)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t s = 0; s < c->sockets; s++) {
        bool holds = c->free[s] >= want;

        if (!c->free[s] || (unused_only && c->used[s]))
            continue;
        if (best != UINT32_MAX) {
            bool best_holds = c->free[best] >= want;

            if (c->gpus[s] != c->gpus[best] ? c->gpus[s] < c->gpus[best] :
                holds != best_holds ? best_holds : holds ? c->free[s] >= c->free[best] : c->free[s] <= c->free[best])
                continue;
        }
        best = s;
    }
    return best;
}

static uint64_t near_word(const struct spur_device_table *table, uint32_t device, uint32_t word)
{
    return table->near_cores && word < table->core_words ? table->near_cores[(size_t)device * table->core_words + word] : 0;
}

/* Cores near to the job's GPUs, from each GPU's neighbourhood in proportion; what is lacking there is not filled up here. */
static void near_fill(struct cores *c, const struct spur_device_table *table, uint64_t gpus, uint32_t want)
{
    uint32_t count = (uint32_t)__builtin_popcountll(gpus), rank = 0, done = 0;

    for (int round = 0; round < 2; round++)
        for (uint64_t rest = gpus; rest && done < want; rest &= rest - 1) {
            uint32_t device = (uint32_t)__builtin_ctzll(rest), quota = round ? want - done : (want * (rank + 1) + count - 1) / count - (want * rank + count - 1) / count;

            rank++;
            for (uint32_t w = 0; w < c->words && w < c->n->core_words && quota > 0; w++)
                for (uint64_t bits = c->n->core_free[w] & near_word(table, device, w) & ~c->given[w]; bits && quota > 0; bits &= bits - 1) {
                    uint32_t s = (w * 64 + (uint32_t)__builtin_ctzll(bits)) / (c->n->cores_per_socket ? c->n->cores_per_socket : 1);

                    if (s >= c->sockets || !c->free[s])
                        continue;
                    c->given[w] |= bits & -bits;
                    c->free[s]--;
                    c->count++;
                    if (!c->used[s]) {
                        c->used[s] = true;
                        c->sockets_used++;
                    }
                    quota--;
                    done++;
                }
        }
}

static void near_sockets(struct cores *c, const struct spur_device_table *table, uint64_t gpus)
{
    for (; gpus; gpus &= gpus - 1)
        for (uint32_t s = 0; s < c->sockets; s++) {
            bool is_near = false;

            for (uint32_t core = s * c->n->cores_per_socket; core < (s + 1) * c->n->cores_per_socket && !is_near; core++)
                is_near = near_word(table, (uint32_t)__builtin_ctzll(gpus), core / 64) >> core % 64 & 1;
            c->gpus[s] = (uint8_t)(c->gpus[s] + is_near);
        }
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

/* `near`: the job's GPUs whose neighbourhood comes first. */
static bool cores_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, uint64_t gpus, uint64_t near, struct spur_node_pick *pick,
                       uint32_t *sockets_used)
{
    const struct spur_device_table *table = topo_table(t, n);
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
    if (near && table)
        near_sockets(&c, table, near);
    if (t->a.tasks_per_socket)
        tasks_fill(t, &c, tasks);
    else if (near && table && !t->by_socket && t->span == 1)
        near_fill(&c, table, near, want);
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
static bool cpus_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, uint64_t gpus, uint64_t near, struct spur_node_pick *pick,
                      uint32_t *sockets_used)
{
    const struct spur_device_table *table = near ? topo_table(t, n) : NULL;
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
    for (uint32_t at = 0, all = n->core_words < pick->core_words ? n->core_words * 64 : pick->core_words * 64; at < 2 * all; at++) {
        uint32_t core = at % all;       /* those near to the GPUs, then the others */
        uint64_t nearby = 0;
        /* Of the cores taken so far all held threads may be on these: at most all but one of each. */
        uint64_t lost = held < taken * (threads - 1) ? held : taken * (threads - 1);

        if ((uint64_t)taken * threads - lost >= want)
            break;
        for (uint64_t rest = table ? near : 0; rest && !nearby; rest &= rest - 1)
            nearby = near_word(table, (uint32_t)__builtin_ctzll(rest), core / 64) >> core % 64 & 1;
        if (!core_is_free(n, core) || (at < all ? !nearby : nearby != 0))
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

/* What the rows before have taken of kind `k`. */
static uint64_t taken_of(const struct spur_node_pick *pick, uint32_t k, uint64_t *mask)
{
    uint64_t count = 0;

    *mask = 0;
    for (uint32_t q = 0; q < pick->gres_count; q++)
        if (pick->gres[q].gres == k) {
            count += pick->gres[q].count;
            *mask |= pick->gres[q].mask;
        }
    return count;
}

/* GPUs with per-socket counts: so many on each socket whose cores the job has, as far as they are there. */
static uint64_t gpus_of_sockets(const struct topo_ask *t, const struct spur_node_view *n, const struct spur_node_pick *pick, uint64_t free, uint64_t each, uint64_t want)
{
    const struct spur_device_table *table = topo_table(t, n);
    uint64_t chosen = 0;

    for (uint32_t s = 0; table && each && s < n->sockets && (uint64_t)__builtin_popcountll(chosen) + each <= want; s++) {
        uint64_t here = 0;
        bool is_used = false;

        for (uint32_t c = s * n->cores_per_socket; c < (s + 1) * n->cores_per_socket && !is_used; c++)
            is_used = c / 64 < pick->core_words && (pick->cores[c / 64] >> c % 64 & 1);
        for (uint32_t d = 0; is_used && d < table->count && d < 64; d++)
            if (table->socket[d] == (int16_t)s)
                here |= free & UINT64_C(1) << d;
        if ((uint64_t)__builtin_popcountll(here) >= each)
            chosen |= topo_devices_best(t, n, here, 0, (uint32_t)each, NULL);
    }
    return chosen;
}

/* The set of GPUs for row i, over all kinds on the node that match; 0: too few are free. Goes well with what the rows before have taken. */
static uint64_t gpus_choose(struct topo_ask *t, const struct spur_node_view *n, uint32_t i, uint64_t want, uint64_t within, const struct spur_node_pick *pick)
{
    uint64_t taken = topo_pick_gpus(n, pick), free = topo_row_mask(t, n, i) & ~taken & within, chosen = 0;

    if ((uint64_t)__builtin_popcountll(free) < want)
        return 0;
    if (t->rows[i].ask->per_socket)
        chosen = gpus_of_sockets(t, n, pick, free, t->rows[i].ask->per_socket, want);
    if (!chosen && !taken && (uint64_t)__builtin_popcountll(t->rail & free) == want && t->rail == (t->rail & free))
        return t->rail;
    want -= (uint64_t)__builtin_popcountll(chosen);
    return chosen | topo_devices_best(t, n, free & ~chosen, taken | chosen, (uint32_t)want, NULL);
}

/* `want` devices for row i, from each kind on the node that matches, in the node's order. `within`: GPUs that may be taken. */
static bool row_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t i, uint64_t want, uint64_t within, struct spur_node_pick *pick)
{
    uint64_t chosen = t->rows[i].is_gpu && want && want <= 64 ? gpus_choose(t, n, i, want, within, pick) : 0;

    for (uint32_t k = 0; k < n->gres_count && want > 0; k++) {
        const struct spur_gres_view *g = topo_gres(n, k);
        uint64_t free = topo_gres_free(g, false), taken, mask, count;
        struct spur_gres_pick *p;

        if (!topo_row_matches(&t->rows[i], g))
            continue;
        count = taken_of(pick, k, &taken);
        free -= count < free ? count : free;
        mask = g->free_mask & ~taken;
        if (g->all_mask && t->rows[i].is_gpu) {
            mask &= chosen;
            free = (uint64_t)__builtin_popcountll(mask);
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

uint64_t topo_row_want(const struct topo_ask *t, uint32_t i, uint32_t tasks, uint32_t sockets, const uint32_t *devices)
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

static bool rows_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, uint32_t sockets, const uint32_t *devices, uint64_t within,
                      struct spur_node_pick *pick)
{
    /* Typed rows first: an untyped one must not take what they need. */
    for (int typed = 1; typed >= 0; typed--)
        for (uint32_t i = 0; i < t->row_count; i++)
            if (t->rows[i].is_typed == (bool)typed && !row_give(t, n, i, topo_row_want(t, i, tasks, sockets, devices), within, pick))
                return false;
    return true;
}

/* --gres-flags=enforce-binding: cores near to the job's GPUs and no others. `masked` is the node with only those free. */
#define MASKED_WORDS 64u
static bool node_mask(const struct topo_ask *t, const struct spur_node_view *n, uint64_t gpus, struct spur_node_view *masked, uint64_t *words)
{
    const struct spur_device_table *table = topo_table(t, n);

    if (!table || !gpus || n->core_words > MASKED_WORDS)
        return false;
    memset(masked, 0, sizeof *masked);
    memcpy(masked, n, t->node_size < sizeof *masked ? t->node_size : sizeof *masked);
    masked->core_free = words;
    for (uint32_t w = 0; w < n->core_words; w++) {
        words[w] = 0;
        for (uint64_t rest = gpus; rest; rest &= rest - 1) {
            uint64_t near = near_word(table, (uint32_t)__builtin_ctzll(rest), w);
            bool is_any = true;         /* a device without cores of its own is near to all */

            for (uint32_t k = 0; k < table->core_words; k++)
                is_any = is_any && !near_word(table, (uint32_t)__builtin_ctzll(rest), k);
            words[w] |= n->core_free[w] & (is_any ? ~UINT64_C(0) : near);
        }
    }
    return true;
}

/* Devices and cores. Where GPUs are asked for by socket the cores come first, else the GPUs do and cores near to them are taken. */
static bool node_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, uint64_t gpus, const uint32_t *devices, uint64_t within,
                      struct spur_node_pick *pick)
{
    bool by_cpu = t->by_cpu && !t->wants_sockets, enforce = t->a.gres_flags & SPUR_GRES_ENFORCE_BINDING, sockets_first = false;
    struct spur_node_view masked;
    uint64_t words[MASKED_WORDS], near;
    uint32_t sockets = 1;

    pick->gres_count = 0;
    memset(pick->cores, 0, pick->core_words * sizeof *pick->cores);
    for (uint32_t i = 0; i < t->row_count; i++)
        sockets_first = sockets_first || t->rows[i].ask->per_socket;
    if (sockets_first)
        return (by_cpu ? cpus_give : cores_give)(t, n, tasks, gpus, 0, pick, &sockets) && rows_give(t, n, tasks, sockets, devices, within, pick);
    if (!rows_give(t, n, tasks, sockets, devices, within, pick))
        return false;
    near = gpus && !(t->a.gres_flags & SPUR_GRES_DISABLE_BINDING) ? topo_pick_gpus(n, pick) : 0;
    if (enforce && near && node_mask(t, n, near, &masked, words)) {
        n = &masked;
        masked.cpus_free = 0;
        for (uint32_t w = 0; w < n->core_words; w++)
            masked.cpus_free += (uint32_t)__builtin_popcountll(words[w]) * topo_threads(n);
    }
    return (by_cpu ? cpus_give : cores_give)(t, n, tasks, gpus, near, pick, &sockets);
}

/* With enforced binding the best set may lie where the cores are held: then each socket's GPUs are tried by themselves. */
static bool node_give_bound(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, uint64_t gpus, const uint32_t *devices, struct spur_node_pick *pick)
{
    const struct spur_device_table *table = topo_table(t, n);

    if (node_give(t, n, tasks, gpus, devices, ~UINT64_C(0), pick))
        return true;
    for (uint32_t s = 0; table && (t->a.gres_flags & SPUR_GRES_ENFORCE_BINDING) && s < n->sockets; s++) {
        uint64_t within = 0;

        for (uint32_t d = 0; d < table->count && d < 64; d++)
            within |= table->socket[d] == (int16_t)s ? UINT64_C(1) << d : 0;
        if (within && node_give(t, n, tasks, gpus, devices, within, pick))
            return true;
    }
    return false;
}

bool topo_give(struct topo_ask *t, const struct spur_node_view *n, uint32_t tasks, const uint32_t *devices, struct spur_node_pick *pick)
{
    const struct spur_ask *a = &t->a;
    uint64_t gpus = 0, memory;

    pick->node = n->index;
    pick->tasks = tasks;
    for (uint32_t i = 0; i < t->row_count; i++)
        if (t->rows[i].is_gpu)
            gpus += topo_row_want(t, i, tasks, t->span, devices);
    if (!node_give_bound(t, n, tasks, gpus, devices, pick))
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
