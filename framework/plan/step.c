/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - divides what a job holds among its steps: which nodes, cores, memory and devices an srun inside it gets, and where its tasks go.
 *
 * Called by admit for STEP_CREATE. Running steps keep what they have; a step with --overlap neither waits for others nor counts against
 * them. As in Slurm a step takes its nodes whole, unless --exact or --cpus-per-task (which implies it) narrows it to what its tasks need; memory
 * then follows its share of the CPUs when the user names none, so that steps with --exact run side by side. Devices that the step does
 * not ask for are inherited and shared: all of the job's that no other step has asked for by itself.
 * Of those it asks for it gets the best joined.
 * How many tasks each node gets is decided here by --distribution (state/layout.c), which of them follows from that. --distribution=arbitrary names the node
 * of each task, and so the nodes.
 *
 * SPUR_ELATER: would fit once other steps have ended (srun waits, as Slurm's does); the sentence names the resource that is missing.
 */
#include <string.h>
#include <spur/score.h>

#include "base/hostlist.h"
#include "base/str.h"
#include "plan/plan.h"
#include "state/layout.h"

#define SETS_OF 12                  /* devices of which every set is looked at: 4,096 */

struct slot {                       /* one node of the job as this step sees it */
    const struct node_alloc *alloc;
    struct bitmap free;             /* cores of the job that no step holds; arena */
    uint32_t threads;               /* CPUs a core counts for */
    uint32_t cpus_free, cpus_all;
    uint64_t mem_free;
    uint64_t *gres_free, *gres_mask;        /* a row of alloc->gres */
    bool     chosen, required;
    uint32_t room, tasks;           /* tasks that would fit now, tasks given */
    uint32_t room_ever;
    uint32_t named;                 /* tasks that --distribution=arbitrary puts here */
};

struct layout {
    const struct state *state;
    const struct job *job;
    const Wire__StepSpec *spec;
    struct arena *arena;
    struct slot *slots; uint32_t count;
    struct tres_row *per_node, *per_task, *per_step; size_t per_node_n, per_task_n, per_step_n;
    bool     exact, gres_asked, gres_none;
    uint32_t cpus_per_task, ntasks, nodes;
    struct layout_how how;
};

static bool step_runs(const struct step *st) { return st->state == JOB_RUNNING || st->state == JOB_SUSPENDED; }
static bool step_asked_gres(const Wire__StepSpec *spec)
{
    return spec && ((spec->tres_per_node && *spec->tres_per_node) || (spec->tres_per_task && *spec->tres_per_task) || (spec->tres_per_step && *spec->tres_per_step));
}

static uint64_t lowest_bits(uint64_t mask, uint64_t n)
{
    uint64_t out = 0;

    while (mask && n--) {
        out |= mask & -mask;
        mask &= mask - 1;
    }
    return out;
}

/* The n of `mask` that are joined best, as far as the node has told; every set is looked at, which is cheap for what one job holds on one node. */
static uint64_t best_bits(const struct spur_device_table *table, uint64_t mask, uint64_t n)
{
    uint64_t best = lowest_bits(mask, n), best_mbps = 0;
    uint8_t index[SETS_OF + 1];
    uint32_t have = 0;

    if (!table || n < 2 || (uint64_t)__builtin_popcountll(mask) <= n || __builtin_popcountll(mask) > SETS_OF || (table->count < 64 && mask >> table->count))
        return best;
    for (uint64_t bits = mask; bits; bits &= bits - 1)
        index[have++] = (uint8_t)__builtin_ctzll(bits);
    for (uint32_t set = 1; set < UINT32_C(1) << have; set++) {      /* rising: of equal ones the lowest stays */
        uint64_t mbps = 0;

        if ((uint64_t)__builtin_popcount(set) != n)
            continue;
        for (uint32_t a = set; a; a &= a - 1)
            for (uint32_t b = a & (a - 1); b; b &= b - 1)
                mbps += table->mbps[index[__builtin_ctz(a)] * table->count + index[__builtin_ctz(b)]];
        if (mbps > best_mbps) {
            best_mbps = mbps;
            best = 0;
            for (uint32_t a = set; a; a &= a - 1)
                best |= UINT64_C(1) << index[__builtin_ctz(a)];
        }
    }
    return best;
}

static void slot_take(struct slot *sl, const struct node_alloc *used, bool gres_too)
{
    if (used->cores.bits == sl->free.bits)
        bitmap_and_not(&sl->free, &used->cores);
    sl->cpus_free = sl->cpus_free > used->cpus ? sl->cpus_free - used->cpus : 0;
    sl->mem_free = sl->mem_free > used->mem_mib ? sl->mem_free - used->mem_mib : 0;
    for (uint32_t i = 0; gres_too && i < used->gres_count; i++)
        for (uint32_t k = 0; k < sl->alloc->gres_count; k++) {
            const struct gres_alloc *of = &sl->alloc->gres[k], *u = &used->gres[i];

            if (strcmp(of->name, u->name) || strcmp(of->type ? of->type : "", u->type ? u->type : ""))
                continue;
            sl->gres_free[k] = sl->gres_free[k] > u->count ? sl->gres_free[k] - u->count : 0;
            sl->gres_mask[k] &= ~u->mask;
        }
}

static void slots_fill(struct layout *l)
{
    l->slots = arena_alloc(l->arena, (l->job->alloc_count + 1) * sizeof *l->slots);
    for (uint32_t i = 0; i < l->job->alloc_count; i++) {
        const struct node_alloc *al = &l->job->allocs[i];
        struct slot *sl = &l->slots[l->count];
        size_t cores;

        if (al->gone || al->spare || al->node == NODE_REMOVED)
            continue;
        l->count++;
        sl->alloc = al;
        sl->free = (struct bitmap){ .bits = al->cores.bits, .words = arena_copy_bytes(l->arena, al->cores.words, (bitmap_words(al->cores.bits) + !al->cores.bits) * 8) };
        cores = bitmap_count(&al->cores);
        sl->threads = cores && al->cpus > cores ? (uint32_t)(al->cpus / cores) : 1;
        sl->cpus_free = sl->cpus_all = al->cpus;
        sl->mem_free = al->mem_mib;
        sl->gres_free = arena_alloc(l->arena, (al->gres_count + 1) * sizeof *sl->gres_free);
        sl->gres_mask = arena_alloc(l->arena, (al->gres_count + 1) * sizeof *sl->gres_mask);
        for (uint32_t k = 0; k < al->gres_count; k++) {
            sl->gres_free[k] = al->gres[k].count;
            sl->gres_mask[k] = al->gres[k].mask;
        }
        if (l->spec->overlap)
            continue;
        for (const struct step *st = l->job->steps; st; st = st->next) {
            if (!step_runs(st) || !st->spec || st->spec->overlap)
                continue;       /* the batch step holds nothing against its own sruns */
            for (uint32_t k = 0; k < st->alloc_count; k++)
                if (st->allocs[k].node == al->node)
                    slot_take(sl, &st->allocs[k], step_asked_gres(st->spec));
        }
    }
}

static uint32_t least(uint64_t a, uint64_t b) { uint64_t n = a < b ? a : b; return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n; }

/* How many of a kind the node offers: any type answers an ask without one. */
static uint64_t offered(const struct slot *sl, const struct tres_row *row, const uint64_t *counts)
{
    uint64_t n = 0;

    for (uint32_t k = 0; k < sl->alloc->gres_count; k++)
        if (strcmp(sl->alloc->gres[k].name, row->name) == 0 && (!row->type || (sl->alloc->gres[k].type && strcmp(sl->alloc->gres[k].type, row->type) == 0)))
            n += counts ? counts[k] : sl->alloc->gres[k].count;
    return n;
}

static uint64_t mem_for(const struct layout *l, const struct slot *sl, uint32_t tasks)
{
    uint64_t cpus = (uint64_t)tasks * l->cpus_per_task;

    if (l->spec->has_mem_per_node_mib)
        return l->spec->mem_per_node_mib ? l->spec->mem_per_node_mib : sl->alloc->mem_mib;
    if (l->spec->mem_per_cpu_mib)
        return l->spec->mem_per_cpu_mib * cpus;
    if (!l->exact)
        return sl->alloc->mem_mib;
    return cpus >= sl->cpus_all ? sl->alloc->mem_mib : sl->alloc->mem_mib * cpus / sl->cpus_all;
}

/* Sockets of the node on which the step can have a core. */
static uint64_t sockets_of(const struct layout *l, const struct slot *sl, bool ever)
{
    const struct config_node *conf = l->state->nodes[sl->alloc->node].conf;
    const struct bitmap *cores = ever ? &sl->alloc->cores : &sl->free;
    uint64_t n = 0;

    for (uint32_t s = 0; s < conf->sockets && conf->cores_per_socket; s++) {
        size_t first = (size_t)s * conf->cores_per_socket;

        n += bitmap_test(cores, first) || (first < cores->bits && bitmap_next(cores, first) < first + conf->cores_per_socket);
    }
    return n ? n : 1;
}

static uint32_t room_in(const struct layout *l, const struct slot *sl, bool ever, const char **missing)
{
    uint64_t cpus, mem = ever ? sl->alloc->mem_mib : sl->mem_free, room;
    size_t cores = ever ? bitmap_count(&sl->alloc->cores) : bitmap_count(&sl->free);

    cpus = cores ? (uint64_t)cores * sl->threads : ever ? sl->cpus_all : sl->cpus_free;
    if (cpus > sl->cpus_all)
        cpus = sl->cpus_all;
    if (!l->exact && !l->spec->overlap && cpus < sl->cpus_all) {
        *missing = "CPUs";          /* wants the node whole */
        return 0;
    }
    room = l->spec->overcommit ? (cpus ? UINT32_MAX : 0) : cpus / l->cpus_per_task;
    if (l->spec->threads_per_core && l->spec->threads_per_core < sl->threads && !l->spec->overcommit)
        room = cores * l->spec->threads_per_core / l->cpus_per_task;
    if (room == 0)
        *missing = "CPUs";
    if (l->spec->ntasks_per_node)
        room = least(room, l->spec->ntasks_per_node);
    if (l->spec->ntasks_per_core)
        room = least(room, (uint64_t)cores * l->spec->ntasks_per_core);
    if (l->spec->ntasks_per_socket)
        room = least(room, sockets_of(l, sl, ever) * l->spec->ntasks_per_socket);
    if (l->spec->has_mem_per_node_mib || !l->exact) {
        if (mem_for(l, sl, 1) > mem) {
            room = 0;
            *missing = "memory";
        }
    } else if (l->spec->mem_per_cpu_mib && room > mem / (l->spec->mem_per_cpu_mib * l->cpus_per_task)) {
        room = mem / (l->spec->mem_per_cpu_mib * l->cpus_per_task);
        if (!room)
            *missing = "memory";
    }
    for (size_t i = 0; i < l->per_node_n; i++)
        if (offered(sl, &l->per_node[i], ever ? NULL : sl->gres_free) < l->per_node[i].count) {
            room = 0;
            *missing = "generic resources";
        }
    for (size_t i = 0; i < l->per_task_n; i++)
        if (l->per_task[i].count && room > offered(sl, &l->per_task[i], ever ? NULL : sl->gres_free) / l->per_task[i].count) {
            room = offered(sl, &l->per_task[i], ever ? NULL : sl->gres_free) / l->per_task[i].count;
            if (!room)
                *missing = "generic resources";
        }
    return least(room, UINT32_MAX);
}

static int mark_named(struct layout *l, const char *list, bool required, uint32_t *count, struct spur_error *err)
{
    struct hostlist *h = NULL;
    int rc = hostlist_parse(list, &h, err);

    for (size_t i = 0; rc == 0 && i < hostlist_count(h); i++) {
        const struct node *n = state_node(l->state, hostlist_nth(h, i));
        struct slot *at = NULL;

        for (uint32_t k = 0; n && k < l->count && !at; k++)
            if (l->slots[k].alloc->node == n->index)
                at = &l->slots[k];
        if (!at && required)
            rc = spur_fail(err, SPUR_ENEVER, "Requested nodes not in this partition: node %s is not in the allocation of job %u", hostlist_nth(h, i), l->job->job_id);
        else if (at && required && !at->required) {
            at->required = true;
            ++*count;
        } else if (at && !required) {
            at->room = at->room_ever = 0;
            at->alloc = NULL;       /* not for this step */
        }
    }
    hostlist_destroy(h);
    return rc;
}

/* Tasks onto the chosen nodes, never beyond their room. */
static bool deal_tasks(struct layout *l, uint32_t ntasks)
{
    bool even = l->spec->overcommit && l->how.nodes != DEAL_CYCLIC && l->how.nodes != DEAL_PLANE;      /* no CPUs to count by */
    uint32_t *room = arena_alloc(l->arena, (l->nodes + 1u) * sizeof *room), *tasks = arena_alloc(l->arena, (l->nodes + 1u) * sizeof *tasks), n = 0;
    bool fits;

    for (uint32_t i = 0; i < l->count; i++) {
        l->slots[i].tasks = l->slots[i].named;
        if (l->slots[i].chosen && n < l->nodes)
            room[n++] = even ? least(l->slots[i].room, (ntasks + l->nodes - 1u) / l->nodes) : l->slots[i].room;
    }
    if (l->how.nodes == DEAL_ARBITRARY)
        return true;
    fits = layout_counts(&l->how, ntasks, room, n, tasks);
    n = 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->slots[i].chosen)
            l->slots[i].tasks = tasks[n++];
    return fits;
}

/* --distribution=arbitrary: the list says the nodes and how many tasks each one has. */
static int name_tasks(struct layout *l, uint32_t *named, struct spur_error *err)
{
    struct hostlist *h = NULL;
    int rc = hostlist_parse(l->spec->task_nodes, &h, err);

    if (rc == 0 && l->ntasks == 0)
        l->ntasks = least(hostlist_count(h), UINT32_MAX);
    if (rc == 0 && hostlist_count(h) < l->ntasks)
        rc = spur_fail(err, SPUR_EINVAL, "Task distribution specification invalid: %u tasks, the list names nodes for %zu", l->ntasks, hostlist_count(h));
    for (size_t t = 0; rc == 0 && t < l->ntasks; t++) {
        const struct node *n = state_node(l->state, hostlist_nth(h, t));
        struct slot *at = NULL;

        for (uint32_t k = 0; n && k < l->count && !at; k++)
            if (l->slots[k].alloc && l->slots[k].alloc->node == n->index)
                at = &l->slots[k];
        if (!at) {
            rc = spur_fail(err, SPUR_ENEVER, "Requested nodes not in this partition: node %s is not in the allocation of job %u", hostlist_nth(h, t), l->job->job_id);
            break;
        }
        *named += !at->required;
        at->required = true;
        at->named++;
    }
    hostlist_destroy(h);
    return rc;
}

static Wire__NodeAlloc *slot_alloc(struct layout *l, struct slot *sl)
{
    Wire__NodeAlloc *w = arena_alloc(l->arena, sizeof *w);
    uint32_t cpus = l->exact ? least((uint64_t)sl->tasks * l->cpus_per_task, sl->cpus_all) : sl->cpus_all, left;
    struct bitmap cores = { .bits = sl->free.bits, .words = arena_alloc(l->arena, (bitmap_words(sl->free.bits) + 1) * 8) };
    uint32_t per_core = l->spec->threads_per_core && l->spec->threads_per_core < sl->threads ? l->spec->threads_per_core : sl->threads;

    wire__node_alloc__init(w);
    w->node = sl->alloc->node;
    w->name = arena_copy(l->arena, l->state->nodes[sl->alloc->node].conf->name);
    left = (cpus + per_core - 1) / per_core;
    for (size_t c = bitmap_first(&sl->free); c < sl->free.bits && (left || !l->exact); c = bitmap_next(&sl->free, c)) {
        bitmap_set(&cores, c);
        left -= left > 0;
    }
    if (l->exact && bitmap_count(&cores) * sl->threads < sl->cpus_all && per_core == sl->threads && sl->threads > 1)
        cpus = least(bitmap_count(&cores) * sl->threads, sl->cpus_all);     /* whole cores: their other threads come along */
    w->has_cpus = w->has_tasks = w->has_mem_mib = true;
    w->cpus = cpus;
    w->tasks = sl->tasks;
    w->mem_mib = mem_for(l, sl, sl->tasks);
    if (w->mem_mib > sl->mem_free)
        w->mem_mib = sl->mem_free;
    w->cores = cores.words;
    w->n_cores = bitmap_words(cores.bits);
    w->gres = arena_alloc(l->arena, (sl->alloc->gres_count + 1) * sizeof *w->gres);
    if (!l->gres_asked && !l->gres_none)            /* inherited */
        for (uint32_t k = 0; k < sl->alloc->gres_count; k++) {
            const struct gres_alloc *g = &sl->alloc->gres[k];
            Wire__GresAlloc *out = arena_alloc(l->arena, sizeof *out);

            if (!sl->gres_free[k])
                continue;
            wire__gres_alloc__init(out);
            out->name = arena_copy(l->arena, g->name);
            out->type = arena_copy(l->arena, g->type);
            out->has_count = true;
            out->count = sl->gres_free[k];
            out->has_mask = g->mask != 0;
            out->mask = sl->gres_mask[k];
            w->gres[w->n_gres++] = out;
        }
    return w;
}

/* Takes `want` of a kind from the node's free rows into w. */
static void slot_give_gres(struct layout *l, struct slot *sl, Wire__NodeAlloc *w, const struct tres_row *row, uint64_t want)
{
    for (uint32_t k = 0; k < sl->alloc->gres_count && want; k++) {
        const struct gres_alloc *g = &sl->alloc->gres[k];
        uint64_t n = want < sl->gres_free[k] ? want : sl->gres_free[k];
        Wire__GresAlloc *out;

        if (!n || strcmp(g->name, row->name) || (row->type && (!g->type || strcmp(g->type, row->type))))
            continue;
        out = arena_alloc(l->arena, sizeof *out);
        wire__gres_alloc__init(out);
        out->name = arena_copy(l->arena, g->name);
        out->type = arena_copy(l->arena, g->type);
        out->has_count = true;
        out->count = n;
        out->has_mask = g->mask != 0;
        out->mask = strcmp(g->name, "gpu") ? lowest_bits(sl->gres_mask[k], n) : best_bits(devices_table(l->state->nodes[sl->alloc->node].devices), sl->gres_mask[k], n);
        sl->gres_mask[k] &= ~out->mask;
        sl->gres_free[k] -= n;
        want -= n;
        for (size_t i = 0; i < w->n_gres; i++)
            if (strcmp(w->gres[i]->name, out->name) == 0 && strcmp(w->gres[i]->type ? w->gres[i]->type : "", out->type ? out->type : "") == 0) {
                w->gres[i]->count += n;
                w->gres[i]->mask |= out->mask;
                out = NULL;
                break;
            }
        if (out)
            w->gres[w->n_gres++] = out;
    }
}

static uint64_t step_gres_free(const struct layout *l, const struct tres_row *row, bool ever)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < l->count; i++)
        if (l->slots[i].chosen)
            n += offered(&l->slots[i], row, ever ? NULL : l->slots[i].gres_free);
    return n;
}

/* Tasks that the best `nodes` nodes, the required ones among them, could ever hold. */
static uint64_t best_room(const struct layout *l, uint32_t nodes)
{
    uint64_t room = 0;
    uint32_t last = UINT32_MAX, left = nodes;

    for (uint32_t i = 0; i < l->count; i++)
        if (l->slots[i].required) {
            room += l->slots[i].room_ever;
            left -= left > 0;
        }
    while (left && last) {                  /* the others from the roomiest down, all of one size at a time */
        uint32_t size = 0;

        for (uint32_t i = 0; i < l->count; i++)
            if (!l->slots[i].required && l->slots[i].room_ever < last && l->slots[i].room_ever > size)
                size = l->slots[i].room_ever;
        for (uint32_t i = 0; i < l->count && left && size; i++)
            if (!l->slots[i].required && l->slots[i].room_ever == size) {
                room += size;
                left--;
            }
        last = size;
    }
    return room;
}

/* Which nodes: the required ones, then in the job's order those with room, until nodes and tasks are enough. */
static int choose_nodes(struct layout *l, uint32_t min_nodes, uint32_t max_nodes, uint32_t named, struct spur_error *err)
{
    const char *missing = "nodes";
    uint32_t usable = 0, usable_ever = 0;
    uint64_t room = 0, room_ever = 0;

    for (uint32_t i = 0; i < l->count; i++) {
        struct slot *sl = &l->slots[i];
        const char *why = NULL, *never = NULL;

        if (!sl->alloc || (l->spec->has_relative && i < l->spec->relative && !sl->required))
            continue;
        sl->room = room_in(l, sl, false, &why);
        sl->room_ever = room_in(l, sl, true, &never);
        usable += sl->room > 0;
        usable_ever += sl->room_ever > 0;
        if (!sl->room && why)
            missing = why;
        if (sl->required && sl->room && sl->named > sl->room)
            return spur_fail(err, sl->room_ever >= sl->named ? SPUR_ELATER : SPUR_ENEVER, sl->room_ever >= sl->named ? "Requested nodes are busy: CPUs of node %s for %u tasks are held by other steps"
                             : "More processors requested than permitted: node %s has no room for the %u tasks that the list gives it", l->state->nodes[sl->alloc->node].conf->name, sl->named);
        if (sl->required && !sl->room)
            return spur_fail(err, sl->room_ever ? SPUR_ELATER : SPUR_ENEVER, sl->room_ever ? "Requested nodes are busy: %s of node %s are held by other steps"
                             : "Requested node configuration is not available: not enough %s on node %s", missing, l->state->nodes[sl->alloc->node].conf->name);
        if (sl->required) {
            sl->chosen = true;
            l->nodes++;
            room += sl->room;
        }
    }
    for (uint32_t i = 0; i < l->count && l->nodes < max_nodes && !(named && l->nodes >= min_nodes && room >= l->ntasks); i++) {
        struct slot *sl = &l->slots[i];

        if (sl->chosen || !sl->alloc || !sl->room || (l->ntasks && l->nodes >= l->ntasks && l->nodes >= min_nodes) ||
            (l->nodes >= min_nodes && l->ntasks && room >= l->ntasks))
            continue;
        sl->chosen = true;
        l->nodes++;
        room += sl->room;
    }
    room_ever = best_room(l, max_nodes);
    if (l->nodes < min_nodes)
        return spur_fail(err, usable_ever >= min_nodes ? SPUR_ELATER : SPUR_ENEVER, usable_ever >= min_nodes ?
                         "Requested nodes are busy: %s of %u of %u nodes are held by other steps" : "Requested node configuration is not available: not enough %s for the step, %u of %u nodes could take part",
                         missing, usable_ever >= min_nodes ? min_nodes - usable : usable_ever, min_nodes);
    if (l->ntasks > room)
        return spur_fail(err, room_ever >= l->ntasks ? SPUR_ELATER : SPUR_ENEVER, room_ever >= l->ntasks ?
                         "Requested nodes are busy: %s for %u tasks are held by other steps" : "More processors requested than permitted: not enough %s in the allocation for %u tasks",
                         strcmp(missing, "nodes") ? missing : "CPUs", l->ntasks);
    return 0;
}

static int layout_gres(struct layout *l, struct spur_error *err)
{
    const Wire__StepSpec *s = l->spec;
    int rc;

    l->gres_none = word_eq(s->tres_per_node, "none") || word_eq(s->tres_per_node, "gres:none") || word_eq(s->tres_per_node, "gres/none");
    if (s->tres_per_node && *s->tres_per_node && !l->gres_none && (rc = tres_parse(s->tres_per_node, &l->per_node, &l->per_node_n, err)) < 0)
        return rc;
    if (s->tres_per_task && *s->tres_per_task && (rc = tres_parse(s->tres_per_task, &l->per_task, &l->per_task_n, err)) < 0)
        return rc;
    if (s->tres_per_step && *s->tres_per_step && (rc = tres_parse(s->tres_per_step, &l->per_step, &l->per_step_n, err)) < 0)
        return rc;
    l->gres_asked = l->per_node_n || l->per_task_n || l->per_step_n;
    return 0;
}

int step_place(struct state *s, const struct job *j, const Wire__StepSpec *spec, struct arena *a, Wire__NodeAlloc ***allocs, size_t *count, uint32_t *ntasks, struct spur_error *err)
{
    struct layout l = { .state = s, .job = j, .spec = spec, .arena = a };
    uint32_t named = 0, min_nodes, max_nodes, live = 0;
    int rc;

    *count = 0;
    if (!j->alloc_count)
        return spur_fail(err, SPUR_ESTALE, "Job is pending execution: job %u has no nodes yet", j->job_id);
    if ((rc = layout_gres(&l, err)) < 0)
        goto out;
    l.cpus_per_task = spec->cpus_per_task ? spec->cpus_per_task : 1;
    l.exact = (spec->exact || (spec->has_cpus_per_task && spec->cpus_per_task)) && !(spec->overcommit && !spec->exact);
    slots_fill(&l);
    if (spec->req_nodes && *spec->req_nodes && (rc = mark_named(&l, spec->req_nodes, true, &named, err)) < 0)
        goto out;
    if (spec->exc_nodes && *spec->exc_nodes && (rc = mark_named(&l, spec->exc_nodes, false, &named, err)) < 0)
        goto out;
    l.ntasks = spec->has_ntasks ? spec->ntasks : 0;
    if ((rc = layout_parse(spec->distribution, &l.how, err)) < 0 || (l.how.nodes == DEAL_ARBITRARY && (rc = name_tasks(&l, &named, err)) < 0))
        goto out;
    for (uint32_t i = 0; i < l.count; i++)
        live += l.slots[i].alloc && !(spec->has_relative && i < spec->relative);
    min_nodes = spec->has_min_nodes && spec->min_nodes ? spec->min_nodes : named;
    if (!min_nodes && spec->ntasks_per_node && l.ntasks)
        min_nodes = (l.ntasks + spec->ntasks_per_node - 1) / spec->ntasks_per_node;
    if (!min_nodes)
        min_nodes = l.ntasks ? 1 : live ? live : 1;
    if (l.how.nodes == DEAL_ARBITRARY)
        min_nodes = named;
    max_nodes = l.how.nodes == DEAL_ARBITRARY ? named : spec->has_max_nodes && spec->max_nodes ? spec->max_nodes : spec->has_min_nodes || !l.ntasks ? min_nodes : live;
    if (max_nodes < named || max_nodes < min_nodes) {
        rc = spur_fail(err, SPUR_EINVAL, "Node count specification invalid: %u nodes are named, %u at least and %u at most are asked for", named, min_nodes, max_nodes);
        goto out;
    }
    if (!l.ntasks)
        l.ntasks = spec->ntasks_per_node ? least((uint64_t)min_nodes * spec->ntasks_per_node, UINT32_MAX) : min_nodes;
    if (l.ntasks < min_nodes)
        min_nodes = l.ntasks > named ? l.ntasks : named ? named : 1;       /* as srun: no node without a task */
    if (max_nodes > l.ntasks)
        max_nodes = l.ntasks > min_nodes ? l.ntasks : min_nodes;
    if (min_nodes > l.count) {
        rc = spur_fail(err, SPUR_ENEVER, "Requested node configuration is not available: %u nodes asked for, job %u has %u", min_nodes, j->job_id, l.count);
        goto out;
    }
    if ((rc = choose_nodes(&l, min_nodes, max_nodes, named, err)) < 0)
        goto out;
    if (!deal_tasks(&l, l.ntasks)) {
        rc = spur_fail(err, SPUR_ELATER, "Requested nodes are busy: CPUs for %u tasks are held by other steps", l.ntasks);
        goto out;
    }
    for (size_t i = 0; i < l.per_step_n; i++)
        if (step_gres_free(&l, &l.per_step[i], false) < l.per_step[i].count) {
            bool ever = step_gres_free(&l, &l.per_step[i], true) >= l.per_step[i].count;

            rc = spur_fail(err, ever ? SPUR_ELATER : SPUR_ENEVER, ever ? "Requested nodes are busy: %s are held by other steps" :
                           "Insufficient GRES available in allocation: %s", l.per_step[i].name);
            goto out;
        }
    *allocs = arena_alloc(a, (l.nodes + 1) * sizeof **allocs);
    for (uint32_t i = 0; i < l.count; i++) {
        struct slot *sl = &l.slots[i];
        Wire__NodeAlloc *w;

        if (!sl->chosen || !sl->tasks)
            continue;
        w = slot_alloc(&l, sl);
        for (size_t k = 0; k < l.per_node_n; k++)
            slot_give_gres(&l, sl, w, &l.per_node[k], l.per_node[k].count);
        for (size_t k = 0; k < l.per_task_n; k++)
            slot_give_gres(&l, sl, w, &l.per_task[k], l.per_task[k].count * sl->tasks);
        (*allocs)[(*count)++] = w;
    }
    for (size_t k = 0; k < l.per_step_n; k++) {
        uint64_t want = l.per_step[k].count;
        size_t at = 0;

        for (uint32_t i = 0; i < l.count && want; i++) {
            struct slot *sl = &l.slots[i];
            uint64_t n;

            if (!sl->chosen || !sl->tasks)
                continue;
            n = offered(sl, &l.per_step[k], sl->gres_free);
            n = n < want ? n : want;
            slot_give_gres(&l, sl, (*allocs)[at++], &l.per_step[k], n);
            want -= n;
        }
    }
    *ntasks = l.ntasks;
    rc = 0;
out:
    tres_free(l.per_node, l.per_node_n);
    tres_free(l.per_task, l.per_task_n);
    tres_free(l.per_step, l.per_step_n);
    return rc;
}
