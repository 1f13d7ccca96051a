/* SPDX-License-Identifier: Apache-2.0 */
/* overlay.c - copies of the view that may be changed: what would be free if these jobs ended, if that one started.
 *
 * Backfill asks the select plugin against them. An overlay borrows names from the state: after an apply it must follow the base before it is used
 * again, or go. Only one that was made from the base itself can follow.
 */
#include <stdlib.h>
#include <string.h>

#include "state/overlay.h"

struct overlay {
    struct spur_view view;
    struct view_log log;
    struct spur_node_view *nodes;
    uint64_t *words;
    struct spur_gres_view *gres;
    uint16_t *threads;
    size_t   *core_at;          /* of each node in threads */
    size_t word_count, gres_count, core_count;
    uint64_t base_serial; uint32_t base_read;       /* of the base it was made from: how much of its log is in here */
    bool   cores_whole;
};

static struct overlay *overlay_from(const struct spur_view *view, const struct spur_node_view *nodes, const uint64_t *words, size_t word_count,
                                    const struct spur_gres_view *gres, size_t gres_count, const uint16_t *threads, size_t core_count, const size_t *core_at,
                                    bool cores_whole)
{
    struct overlay *o = mem_alloc(sizeof *o);
    uint32_t n = view->node_count;

    o->nodes = mem_array(n ? n : 1, sizeof *o->nodes);
    memcpy(o->nodes, nodes, n * sizeof *nodes);
    o->words = mem_array(word_count ? word_count : 1, sizeof *o->words);
    memcpy(o->words, words, word_count * sizeof *words);
    o->gres = mem_array(gres_count ? gres_count : 1, sizeof *o->gres);
    memcpy(o->gres, gres, gres_count * sizeof *gres);
    o->word_count = word_count;
    o->gres_count = gres_count;
    o->core_count = core_count;
    o->cores_whole = cores_whole;
    if (!cores_whole) {
        o->threads = mem_array(core_count ? core_count : 1, sizeof *o->threads);
        memcpy(o->threads, threads, core_count * sizeof *threads);
        o->core_at = mem_array(n ? n : 1, sizeof *o->core_at);
        memcpy(o->core_at, core_at, n * sizeof *core_at);
    }
    for (uint32_t i = 0; i < n; i++) {
        o->nodes[i].core_free = o->words + (nodes[i].core_free - words);
        o->nodes[i].gres = o->gres + (nodes[i].gres - gres);
    }
    o->view = *view;
    o->view.nodes = o->nodes;
    o->view.is_overlay = true;
    view_log_restart(&o->view, &o->log);
    return o;
}

struct overlay *overlay_create(struct state *s)
{
    const struct spur_view *view = state_view(s);
    const struct view_base *v = s->priv->view;

    struct overlay *o = overlay_from(view, v->nodes, v->words, v->word_count, v->gres, v->gres_count, v->threads, v->core_count, v->core_at, s->priv->cores_whole);

    o->base_serial = view->serial;
    o->base_read = view->log_count;
    return o;
}

bool overlay_follow(struct overlay *o, struct state *s, const uint32_t **nodes, size_t *count)
{
    const struct spur_view *base = state_view(s);
    const struct view_base *v = s->priv->view;

    *nodes = base->log + o->base_read;
    *count = 0;
    if (base->serial != o->base_serial || base->log_count < o->base_read || v->word_count != o->word_count || v->gres_count != o->gres_count)
        return false;
    *count = base->log_count - o->base_read;
    for (size_t k = 0; k < *count; k++) {
        uint32_t i = (*nodes)[k];
        const struct spur_node_view *from = &v->nodes[i];
        size_t words = (size_t)(from->core_free - v->words), gres = (size_t)(from->gres - v->gres);

        o->nodes[i] = *from;
        o->nodes[i].core_free = o->words + words;
        o->nodes[i].gres = o->gres + gres;
        memcpy(o->words + words, from->core_free, from->core_words * sizeof *o->words);
        memcpy(o->gres + gres, from->gres, from->gres_count * sizeof *o->gres);
        if (!o->cores_whole)
            memcpy(o->threads + o->core_at[i], v->threads + v->core_at[i], (size_t)from->sockets * from->cores_per_socket * sizeof *o->threads);
        view_log_add(&o->view, &o->log, i);
    }
    o->base_read = base->log_count;
    o->view.version = base->version;
    return true;
}

struct overlay *overlay_copy(const struct overlay *o)
{
    return overlay_from(&o->view, o->nodes, o->words, o->word_count, o->gres, o->gres_count, o->threads, o->core_count, o->core_at, o->cores_whole);
}

void overlay_destroy(struct overlay *o)
{
    if (!o)
        return;
    free(o->nodes);
    free(o->words);
    free(o->gres);
    free(o->threads);
    free(o->log.nodes);
    free(o->core_at);
    free(o);
}

const struct spur_view *overlay_view(struct overlay *o)
{
    return &o->view;
}

static uint64_t *node_words(struct overlay *o, const struct spur_node_view *n)
{
    return o->words + (n->core_free - o->words);
}

static struct spur_gres_view *node_gres_views(struct overlay *o, const struct spur_node_view *n)
{
    return o->gres + (n->gres - o->gres);
}

static uint32_t per_core(const struct spur_node_view *n)
{
    uint32_t cores = n->sockets * n->cores_per_socket;

    return cores && n->cpus > cores ? n->cpus / cores : 1;
}

static void core_give(struct overlay *o, struct spur_node_view *n, uint32_t core, uint32_t threads)
{
    uint64_t *words = node_words(o, n);

    if (!o->cores_whole) {
        uint16_t *held = &o->threads[o->core_at[n->index] + core];

        *held = (uint16_t)(*held > threads ? *held - threads : 0);
    }
    words[core / 64] |= UINT64_C(1) << (core % 64);
}

static uint32_t core_take(struct overlay *o, struct spur_node_view *n, uint32_t core, uint32_t threads)
{
    uint64_t *words = node_words(o, n), bit = UINT64_C(1) << (core % 64);
    uint16_t *held;
    uint32_t most = per_core(n);

    if (o->cores_whole) {
        words[core / 64] &= ~bit;
        return threads;
    }
    held = &o->threads[o->core_at[n->index] + core];
    threads = most > *held ? threads < most - *held ? threads : most - *held : 0;
    *held = (uint16_t)(*held + threads);
    if (*held >= most)
        words[core / 64] &= ~bit;
    return threads;
}

static void cpus_count(struct overlay *o, struct spur_node_view *n)
{
    uint32_t most = per_core(n), cores = n->sockets * n->cores_per_socket, count = 0;

    for (uint32_t w = 0; o->cores_whole && w < n->core_words; w++)
        count += (uint32_t)__builtin_popcountll(n->core_free[w]) * most;
    for (uint32_t c = 0; !o->cores_whole && c < cores; c++)
        count += most > o->threads[o->core_at[n->index] + c] ? most - o->threads[o->core_at[n->index] + c] : 0;
    n->cpus_free = count < n->cpus ? count : n->cpus;
}

static struct spur_gres_view *gres_find(struct overlay *o, const struct spur_node_view *n, const char *name, const char *type)
{
    struct spur_gres_view *g = node_gres_views(o, n);

    for (uint32_t i = 0; i < n->gres_count; i++)
        if (word_eq(g[i].name, name) && (type && *type ? word_eq(g[i].type, type) : !*g[i].type))
            return &g[i];
    return NULL;
}

void overlay_release(struct overlay *o, const struct node_alloc *allocs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct node_alloc *a = &allocs[i];
        struct spur_node_view *n;
        uint32_t at = 0;

        if (a->gone || a->node >= o->view.node_count)
            continue;
        n = &o->nodes[a->node];
        view_log_add(&o->view, &o->log, a->node);
        for (size_t c = bitmap_first(&a->cores); c < a->cores.bits && c < (size_t)n->core_words * 64; c = bitmap_next(&a->cores, c), at++)
            core_give(o, n, (uint32_t)c, a->threads ? a->threads[at] : per_core(n));
        cpus_count(o, n);
        n->mem_free = n->mem_free + a->mem_mib < n->mem_total ? n->mem_free + a->mem_mib : n->mem_total;
        n->jobs -= n->jobs > 0;
        n->flags &= ~SPUR_NODE_EXCLUSIVE;   /* a node held whole has one job, and it is this one */
        n->flags |= n->jobs ? 0 : SPUR_NODE_IDLE;
        for (uint32_t k = 0; k < a->gres_count; k++) {
            struct spur_gres_view *g = gres_find(o, n, a->gres[k].name, a->gres[k].type);

            if (!g)
                continue;
            g->used -= g->used < a->gres[k].count ? g->used : a->gres[k].count;
            g->free_mask |= a->gres[k].mask & g->all_mask;
        }
    }
}

void overlay_take_allocs(struct overlay *o, const struct node_alloc *allocs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct node_alloc *a = &allocs[i];
        struct spur_node_view *n;
        uint32_t at = 0, left = a->cpus;

        if (a->node >= o->view.node_count)
            continue;
        n = &o->nodes[a->node];
        view_log_add(&o->view, &o->log, a->node);
        for (size_t c = bitmap_first(&a->cores); c < a->cores.bits && c < (size_t)n->core_words * 64; c = bitmap_next(&a->cores, c), at++)
            left -= core_take(o, n, (uint32_t)c, a->threads ? a->threads[at] : left < per_core(n) ? left : per_core(n));
        cpus_count(o, n);
        n->mem_free -= n->mem_free < a->mem_mib ? n->mem_free : a->mem_mib;
        n->jobs++;
        n->flags &= ~SPUR_NODE_IDLE;
        for (uint32_t k = 0; k < a->gres_count; k++) {
            struct spur_gres_view *g = gres_find(o, n, a->gres[k].name, a->gres[k].type);

            if (!g)
                continue;
            g->used = g->used + a->gres[k].count < g->total ? g->used + a->gres[k].count : g->total;
            g->free_mask &= ~a->gres[k].mask;
        }
    }
}

void overlay_take(struct overlay *o, const struct spur_placement *p, const struct spur_ask *ask)
{
    for (uint32_t i = 0; i < p->pick_count; i++) {
        const struct spur_node_pick *pick = spur_placement_pick(p, i);
        struct spur_node_view *n;
        uint32_t left = pick->cpus;

        if (pick->node >= o->view.node_count)
            continue;
        n = &o->nodes[pick->node];
        view_log_add(&o->view, &o->log, pick->node);
        for (uint32_t c = 0; c < pick->core_words * 64 && c < n->core_words * 64; c++)
            if (pick->cores[c / 64] >> (c % 64) & 1)
                left -= core_take(o, n, c, left < per_core(n) ? left : per_core(n));
        cpus_count(o, n);
        n->mem_free -= n->mem_free < pick->mem ? n->mem_free : pick->mem;
        n->jobs++;
        n->flags &= ~SPUR_NODE_IDLE;
        n->flags |= ask && ask->exclusive ? SPUR_NODE_EXCLUSIVE : 0;
        for (uint32_t k = 0; k < pick->gres_count && k < SPUR_PICKS_MAX; k++) {
            struct spur_gres_view *g;

            if (pick->gres[k].gres >= n->gres_count)
                continue;
            g = &node_gres_views(o, n)[pick->gres[k].gres];
            g->used = g->used + pick->gres[k].count < g->total ? g->used + pick->gres[k].count : g->total;
            g->free_mask &= ~pick->gres[k].mask;
        }
    }
}

/* What is free in both: a job that shall run from one moment on through another needs it free at both. */
void overlay_meet(struct overlay *to, const struct overlay *with)
{
    if (to->view.node_count != with->view.node_count || to->word_count != with->word_count || to->gres_count != with->gres_count)
        return;
    view_log_restart(&to->view, &to->log);
    for (size_t i = 0; i < to->word_count; i++)
        to->words[i] &= with->words[i];
    for (size_t i = 0; !to->cores_whole && i < to->core_count; i++)
        if (with->threads[i] > to->threads[i])
            to->threads[i] = with->threads[i];
    for (size_t i = 0; i < to->gres_count; i++) {
        to->gres[i].free_mask &= with->gres[i].free_mask;
        if (with->gres[i].used > to->gres[i].used)
            to->gres[i].used = with->gres[i].used;
        if (to->gres[i].all_mask) {     /* indices free in both may be fewer than either count says */
            uint64_t unfree = to->gres[i].total - (uint64_t)__builtin_popcountll(to->gres[i].free_mask);

            if (unfree > to->gres[i].used)
                to->gres[i].used = unfree;
        }
    }
    for (uint32_t i = 0; i < to->view.node_count; i++) {
        struct spur_node_view *a = &to->nodes[i];
        const struct spur_node_view *b = &with->nodes[i];

        a->flags = (a->flags & b->flags & (SPUR_NODE_USABLE | SPUR_NODE_IDLE)) | ((a->flags | b->flags) & SPUR_NODE_EXCLUSIVE);
        if (b->mem_free < a->mem_free)
            a->mem_free = b->mem_free;
        if (b->jobs > a->jobs)
            a->jobs = b->jobs;
        cpus_count(to, a);
    }
}
