/* SPDX-License-Identifier: Apache-2.0 */
/* last.c - what a vendor writes: a select plugin outside the tree, built with the installed headers and pkg-config alone.
 *
 * It places one-node jobs on the last node that fits, whole cores from the top, so that a placement by it cannot be mistaken for one of ours.
 * Everything it does not do is refused in words. README of this folder shows the three commands.
 */
#include <stdlib.h>
#include <spur/select.h>

struct last { const struct spur_host *host; long reserve; };

static int last_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct last *l = calloc(1, sizeof *l);

    if (!l)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    l->host = host;
    l->reserve = host->conf_int(conf, "reserve");
    *self = l;
    return 0;
}

static int last_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    struct last *l = self;

    (void)err;
    l->reserve = l->host->conf_int(conf, "reserve");
    return 0;
}

static uint64_t mem_of(const struct spur_node_view *n, const struct spur_ask *ask, uint32_t cpus)
{
    if (ask->mem_per_node == SPUR_MEM_ALL)
        return n->mem_total;
    return ask->mem_per_node ? ask->mem_per_node : ask->mem_per_cpu * cpus;
}

/* Do `cpus` CPUs and their memory fit on n, with what is free now or (empty) with all of it? */
static int fits(const struct last *l, const struct spur_node_view *n, const struct spur_ask *ask, uint32_t cpus, int empty)
{
    uint32_t have = empty ? n->cpus : n->cpus_free;
    uint64_t mem = mem_of(n, ask, cpus), mem_have = empty || !(ask->cr & SPUR_CR_MEMORY) ? n->mem_total : n->mem_free;

    if (!empty && (!(n->flags & SPUR_NODE_USABLE) || (n->flags & SPUR_NODE_EXCLUSIVE) || (ask->exclusive && n->jobs)))
        return 0;
    return have >= cpus + (uint32_t)l->reserve && mem_have >= mem;
}

static int last_place(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_placement *out, struct spur_error *err)
{
    const struct last *l = self;
    const struct spur_node_view *best = NULL;
    uint32_t cpus = ask->tasks * ask->cpus_per_task, left;
    struct spur_node_pick *pick;
    int could = 0;

    if (ask->min_nodes > 1 || ask->gres_count || ask->required || ask->overcommit || (ask->tasks_per_node && ask->tasks > ask->tasks_per_node))
        return spur_fail(err, SPUR_EUNSUPPORTED, "select/last places jobs of one node without --gres, -w and --overcommit only");
    for (uint32_t i = view->node_count; i-- > 0; ) {
        const struct spur_node_view *n = spur_view_node(view, i);

        if (!(ask->allowed[i / 64] >> (i % 64) & 1))
            continue;
        could |= fits(l, n, ask, cpus, 1);
        if (fits(l, n, ask, cpus, 0) && (!best || n->weight < best->weight))
            best = n;
    }
    if (!best && could)
        return spur_fail(err, SPUR_ELATER, "no node has %u CPUs and the memory free now", cpus);
    if (!best && ask->max_nodes > 1)
        return spur_fail(err, SPUR_EUNSUPPORTED, "select/last places jobs of one node only, and no allowed node has %u CPUs and the memory", cpus);
    if (!best)
        return spur_fail(err, SPUR_ENEVER, "no allowed node has %u CPUs and the memory", cpus);
    if (out->pick_room < 1)
        return spur_fail(err, SPUR_ELIMIT, "no room for a node");
    pick = spur_placement_pick(out, 0);
    memset(pick->cores, 0, pick->core_words * sizeof *pick->cores);
    left = (cpus + best->threads_per_core - 1) / best->threads_per_core;
    pick->cpus = left * best->threads_per_core;
    for (uint32_t c = best->sockets * best->cores_per_socket; c-- > 0 && left; ) {
        if (best->core_free[c / 64] >> (c % 64) & 1) {
            pick->cores[c / 64] |= UINT64_C(1) << (c % 64);
            left--;
        }
    }
    pick->node = best->index;
    pick->tasks = ask->tasks;
    pick->mem = ask->cr & SPUR_CR_MEMORY ? mem_of(best, ask, cpus) : 0;
    pick->gres_count = 0;
    out->pick_count = 1;
    out->score = 1;
    return 0;
}

static int last_explain(void *self, const struct spur_placement *out, char *buf, size_t len)
{
    (void)self;
    (void)out;
    snprintf(buf, len, "the last node that fits");
    return 0;
}

static const struct spur_option last_options[] = {
    { "reserve", SPUR_INT, "0", "CPUs to leave free on each node" }, { 0 } };
static const struct spur_select_ops last_ops = { .size = sizeof last_ops, .place = last_place, .explain = last_explain };

SPUR_PLUGIN(select, last, .about = "the last node that fits", .options = last_options,
            .ops = &last_ops, .open = last_open, .reload = last_reload, .close = free);
