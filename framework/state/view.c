/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - what select and priority plugins see of the nodes: kept beside the ledger, refreshed only where something has changed.
 *
 * Names point into the configuration and the nodes, so a changed configuration makes the whole view anew. Equal names of generic resources
 * and equal hardware have equal ids, so that plugins compare numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "state/overlay.h"

static uint32_t words_of(const struct node *n)
{
    return (uint32_t)bitmap_words(node_cores(n));
}

uint64_t view_serial(void)
{
    static uint64_t last;       /* of the process: a plugin outlives a state that was replaced by a snapshot */

    return ++last;
}

void view_log_restart(struct spur_view *view, struct view_log *log)
{
    log->count = 0;
    view->serial = view_serial();
    view->log = log->nodes;
    view->log_count = 0;
}

void view_log_add(struct spur_view *view, struct view_log *log, uint32_t i)
{
    if (log->count >= 2 * (view->node_count + 512u)) {
        view_log_restart(view, log);
        return;
    }
    if (log->count == log->room) {
        log->room = log->room ? log->room * 2 : 64;
        log->nodes = mem_grow(log->nodes, log->room, sizeof *log->nodes);
    }
    log->nodes[log->count++] = i;
    view->log = log->nodes;
    view->log_count = log->count;
}

void view_free(struct state *s)
{
    struct view_base *v = s->priv->view;

    if (!v)
        return;
    free(v->nodes);
    free(v->words);
    free(v->gres);
    free(v->threads);
    free(v->log.nodes);
    table_fini(&v->classes);
    arena_fini(&v->texts);
    bitmap_fini(&v->dirty);
    for (uint32_t i = 0; i < v->id_count; i++)
        free(v->ids[i]);
    free(v->ids);
    free(v);
    s->priv->view = NULL;
}

void view_rebuild(struct state *s)
{
    view_free(s);
    s->view_version++;
}

void view_touch(struct state *s, uint32_t node)
{
    struct view_base *v = s->priv->view;

    s->view_version++;
    if (v && node < v->dirty.bits) {
        bitmap_set(&v->dirty, node);
        v->is_dirty = true;
    }
}

static uint32_t id_of(struct view_base *v, const char *text)
{
    if (!text || !*text)
        return 0;
    for (uint32_t i = 0; i < v->id_count; i++)
        if (word_eq(v->ids[i], text))
            return i + 1;
    v->ids = mem_grow(v->ids, v->id_count + 1, sizeof *v->ids);
    v->ids[v->id_count] = mem_copy(text);
    return ++v->id_count;
}

/* Cores kept for the system (CoreSpecCount): the last ones, taken from the sockets in turn. */
static bool core_is_special(const struct node *n, uint32_t core)
{
    uint32_t sockets = n->conf->sockets, per = n->conf->cores_per_socket, socket, from_end;

    if (!n->conf->core_spec || !sockets || !per)
        return false;
    socket = core / per;
    from_end = per - 1 - core % per;
    return from_end * sockets + (sockets - 1 - socket) < n->conf->core_spec;
}

/* Nodes of equal hardware, devices and their links included, have equal numbers. */
static void node_class(struct view_base *v, const struct node *n, struct spur_node_view *nv)
{
    struct str key;
    uintptr_t class_id;

    str_init(&key);
    str_addf(&key, "%u %u %u %u %llu %llu %u %s %u", nv->sockets, nv->cores_per_socket, nv->threads_per_core, nv->cpus, (unsigned long long)n->conf->mem_mib,
             (unsigned long long)n->conf->mem_spec_mib, n->conf->core_spec, n->features ? n->features : n->conf->features ? n->conf->features : "",
             nv->devices ? nv->devices->id : 0);
    for (uint32_t g = 0; g < nv->gres_count; g++)
        str_addf(&key, " %u:%u:%llu:%llx", nv->gres[g].name_id, nv->gres[g].type_id, (unsigned long long)nv->gres[g].total, (unsigned long long)nv->gres[g].all_mask);
    class_id = (uintptr_t)table_get_text(&v->classes, key.text);
    if (!class_id) {
        class_id = table_count(&v->classes) + 1;
        table_put_text(&v->classes, arena_copy(&v->texts, key.text), (void *)class_id);
    }
    nv->class_id = (uint32_t)class_id;
    str_fini(&key);
}

static void node_refresh(struct state *s, struct view_base *v, uint32_t i)
{
    const struct node *n = &s->nodes[i];
    struct spur_node_view *nv = &v->nodes[i];
    uint64_t *words = v->words + v->word_at[i];
    uint32_t cores = node_cores(n), per_core = cores && n->conf->cpus > cores ? n->conf->cpus / cores : 1, free_cores = 0, special = 0;
    uint64_t held_mib = n->mem_used + n->conf->mem_spec_mib;

    memset(words, 0, words_of(n) * sizeof *words);
    for (uint32_t c = 0; c < cores; c++) {
        uint32_t held = n->core_threads_used ? n->core_threads_used[c] : 0;

        if (core_is_special(n, c)) {
            special++;
            v->threads[v->core_at[i] + c] = (uint16_t)per_core;
            continue;
        }
        v->threads[v->core_at[i] + c] = (uint16_t)(bitmap_test(&n->cores_used, c) ? per_core : held);
        if (!bitmap_test(&n->cores_used, c)) {
            words[c / 64] |= UINT64_C(1) << (c % 64);
            free_cores++;
        }
    }
    nv->flags = (node_is_usable(n) ? SPUR_NODE_USABLE : 0) | (n->jobs ? 0 : SPUR_NODE_IDLE) | (n->exclusive_job ? SPUR_NODE_EXCLUSIVE : 0);
    nv->features = n->features ? n->features : n->conf->features ? n->conf->features : "";
    nv->weight = n->weight;
    nv->mem_total = n->conf->mem_mib > n->conf->mem_spec_mib ? n->conf->mem_mib - n->conf->mem_spec_mib : 0;
    nv->mem_free = n->conf->mem_mib > held_mib ? n->conf->mem_mib - held_mib : 0;
    if (s->priv->cores_whole)
        nv->cpus_free = free_cores * per_core;
    else
        nv->cpus_free = n->conf->cpus > n->cpus_used + special * per_core ? n->conf->cpus - n->cpus_used - special * per_core : 0;
    if (nv->cpus_free > n->conf->cpus)
        nv->cpus_free = n->conf->cpus;
    nv->jobs = n->jobs;
    nv->fabric = n->fabric ? n->fabric : "";
    nv->devices = devices_table(n->devices);
    if (!nv->class_id || v->device_ids[i] != (nv->devices ? nv->devices->id : 0)) {      /* an address may be a freed table's */
        v->device_ids[i] = nv->devices ? nv->devices->id : 0;
        node_class(v, n, nv);
    }
    for (uint32_t g = 0; g < n->gres_count; g++) {
        struct spur_gres_view *gv = &v->gres[v->gres_at[i] + g];

        gv->used = n->gres[g].used < n->gres[g].total ? n->gres[g].used : n->gres[g].total;
        gv->free_mask = n->gres[g].all_mask & ~n->gres[g].used_mask;
    }
}

static void node_place(struct state *s, struct view_base *v, uint32_t i)
{
    const struct node *n = &s->nodes[i];
    struct spur_node_view *nv = &v->nodes[i];

    nv->index = i;
    nv->name = n->conf->name;
    nv->leaf = nv->block = nv->path = "";
    if (n->conf->leaf >= 0 && (size_t)n->conf->leaf < s->config->switch_count) {
        const struct config_switch *leaf = &s->config->switches[n->conf->leaf];

        nv->leaf = leaf->name;
        nv->block = s->config->topology == TOPOLOGY_BLOCK ? leaf->name : "";
        nv->path = leaf->path ? leaf->path : leaf->name;
    }
    nv->sockets = n->conf->sockets;
    nv->cores_per_socket = n->conf->cores_per_socket;
    nv->threads_per_core = n->conf->threads_per_core;
    nv->cpus = n->conf->cpus;
    nv->core_free = v->words + v->word_at[i];
    nv->core_words = words_of(n);
    nv->gres = v->gres + v->gres_at[i];
    nv->gres_count = n->gres_count;
    nv->gres_size = sizeof *v->gres;
    for (uint32_t g = 0; g < n->gres_count; g++) {
        struct spur_gres_view *gv = &v->gres[v->gres_at[i] + g];

        gv->name = n->gres[g].name;
        gv->type = n->gres[g].type ? n->gres[g].type : "";
        gv->name_id = id_of(v, gv->name);
        gv->type_id = id_of(v, gv->type);
        gv->total = n->gres[g].total;
        gv->all_mask = n->gres[g].all_mask;
    }
    node_refresh(s, v, i);
}

static void view_make(struct state *s)
{
    struct view_base *v = mem_alloc(sizeof *v);
    size_t words = 0, gres = 0, cores = 0;

    s->priv->view = v;
    v->nodes = mem_array(s->node_count ? s->node_count : 1, sizeof *v->nodes + 3 * sizeof(size_t) + sizeof(uint32_t));
    v->word_at = (size_t *)(void *)(v->nodes + s->node_count);
    v->gres_at = v->word_at + s->node_count;
    v->core_at = v->gres_at + s->node_count;
    v->device_ids = (uint32_t *)(void *)(v->core_at + s->node_count);
    for (uint32_t i = 0; i < s->node_count; i++) {
        v->word_at[i] = words;
        v->gres_at[i] = gres;
        v->core_at[i] = cores;
        words += words_of(&s->nodes[i]);
        gres += s->nodes[i].gres_count;
        cores += node_cores(&s->nodes[i]);
    }
    v->word_count = words;
    v->gres_count = gres;
    v->core_count = cores;
    v->words = mem_array(words ? words : 1, sizeof *v->words);
    v->gres = mem_array(gres ? gres : 1, sizeof *v->gres);
    v->threads = mem_array(cores ? cores : 1, sizeof *v->threads);
    bitmap_init(&v->dirty, s->node_count);
    table_init(&v->classes);
    arena_init(&v->texts, 0);
    for (uint32_t i = 0; i < s->node_count; i++)
        node_place(s, v, i);
    v->view = (struct spur_view){ .size = sizeof v->view, .node_size = sizeof *v->nodes, .nodes = v->nodes, .node_count = s->node_count,
                                  .serial = view_serial() };
}

const struct spur_view *state_view(struct state *s)
{
    struct view_base *v;

    if (!s->priv->view)
        view_make(s);
    v = s->priv->view;
    if (v->is_dirty) {
        for (size_t i = bitmap_first(&v->dirty); i < v->dirty.bits; i = bitmap_next(&v->dirty, i)) {
            node_refresh(s, v, (uint32_t)i);
            view_log_add(&v->view, &v->log, (uint32_t)i);
        }
        bitmap_zero(&v->dirty);
        v->is_dirty = false;
    }
    v->view.version = s->view_version;
    return &v->view;
}
