/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - classes of equal nodes, one index for each view that is asked about.
 *
 * An index is made by one pass over the nodes and then follows the view's log (spur/view.h): a node that has changed moves to another class. Classes
 * of many nodes keep a bitmap, small ones a short list, so that memory stays linear. At most a dozen views have one; the one not used longest goes.
 * A host that gives no serial gets a fresh index for each question: then a decision costs one pass, as it would without any index.
 */
#include <stdlib.h>

#include "index.h"

#define NONE UINT32_MAX

static void index_free(struct topo_index *x)
{
    if (!x)
        return;
    for (uint32_t i = 0; i < x->class_count; i++)
        free(x->classes[i].bits);
    free(x->classes);
    free(x->slots);
    free(x->class_of);
    free(x->leaf_of);
    free(x->fabric_of);
    free(x->leaves);
    free(x);
}

void topo_indexes_fini(struct topo_indexes *all)
{
    for (uint32_t i = 0; i < TOPO_INDEXES; i++)
        index_free(all->of[i]);
    index_free(all->scratch);
    memset(all, 0, sizeof *all);
}

/* ---- classes ---- */

static void key_make(const struct spur_view *view, const struct spur_node_view *n, struct topo_class_key *k)
{
    memset(k, 0, sizeof *k);
    k->weight = n->weight;
    k->flags = n->flags & (SPUR_NODE_USABLE | SPUR_NODE_EXCLUSIVE);
    k->has_jobs = n->jobs > 0;
    k->sockets = n->sockets;
    k->cores_per_socket = n->cores_per_socket;
    k->threads_per_core = n->threads_per_core;
    k->cpus = n->cpus;
    k->cpus_free = n->cpus_free;
    k->mem_total = n->mem_total;
    k->mem_free = n->mem_free;
    for (uint32_t i = 0; i < n->core_words; i++)
        k->cores_free += (uint32_t)__builtin_popcountll(n->core_free[i]);
    if (view->node_size >= offsetof(struct spur_node_view, devices) + sizeof n->devices && n->devices) {
        k->devices = n->devices;
        k->device_id = n->devices->id;
    }
    k->gres_count = n->gres_count;
    for (uint32_t i = 0; i < n->gres_count; i++) {
        const struct spur_gres_view *g = topo_gres(n, i);

        if (i == TOPO_KEY_GRES || !g->name_id || (!g->type_id && g->type && *g->type)) {
            k->alone = n->index + 1;
            return;
        }
        k->gres[i].name_id = g->name_id;
        k->gres[i].type_id = g->type_id;
        k->gres[i].total = g->total;
        k->gres[i].free = topo_gres_free(g, false);
        k->gres[i].all_mask = g->all_mask;
        k->gres[i].free_mask = g->free_mask;
    }
}

static uint32_t key_slot(const struct topo_index *x, const struct topo_class_key *k)
{
    const uint64_t *words = (const uint64_t *)(const void *)k;
    size_t used = offsetof(struct topo_class_key, gres) + (k->gres_count < TOPO_KEY_GRES ? k->gres_count : TOPO_KEY_GRES) * sizeof k->gres[0];
    uint64_t h = 0;

    for (size_t i = 0; i < used / sizeof *words; i++) {
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return (uint32_t)h & x->slot_mask;
}

static uint32_t class_find(struct topo_index *x, const struct topo_class_key *k)
{
    uint32_t slot = key_slot(x, k), at;
    struct topo_class *c;

    for (at = x->slots[slot]; at; at = x->classes[at - 1].next)
        if (memcmp(&x->classes[at - 1].key, k, sizeof *k) == 0)
            return at - 1;
    if ((at = x->unused)) {
        x->unused = x->classes[at - 1].next;
    } else {
        if (x->class_count == x->class_room) {
            uint32_t room = x->class_room ? x->class_room * 2 : 64;
            struct topo_class *more = realloc(x->classes, room * sizeof *more);

            if (!more)
                return NONE;
            x->classes = more;
            x->class_room = room;
        }
        at = ++x->class_count;
    }
    c = &x->classes[at - 1];
    *c = (struct topo_class){ .key = *k, .next = x->slots[slot] };
    x->slots[slot] = at;
    return at - 1;
}

static bool class_add(struct topo_index *x, struct topo_class *c, uint32_t node)
{
    if (!c->bits && c->count == TOPO_FEW) {
        if (!(c->bits = calloc(x->words, sizeof *c->bits)))
            return false;
        for (uint32_t i = 0; i < c->count; i++)
            c->bits[c->few[i] / 64] |= UINT64_C(1) << c->few[i] % 64;
        c->first_word = c->few[0] / 64;
    }
    if (c->bits) {
        c->bits[node / 64] |= UINT64_C(1) << node % 64;
        if (node / 64 < c->first_word)
            c->first_word = node / 64;
    } else {
        uint32_t k = c->count;

        for (; k > 0 && c->few[k - 1] > node; k--)
            c->few[k] = c->few[k - 1];
        c->few[k] = node;
    }
    c->count++;
    return true;
}

static void class_remove(struct topo_index *x, uint32_t at, uint32_t node)
{
    struct topo_class *c = &x->classes[at];
    uint32_t *link;

    c->count--;
    if (c->bits) {
        c->bits[node / 64] &= ~(UINT64_C(1) << node % 64);
    } else {
        uint32_t k = 0;

        while (c->few[k] != node)
            k++;
        for (; k < c->count; k++)
            c->few[k] = c->few[k + 1];
    }
    if (c->count)
        return;
    for (link = &x->slots[key_slot(x, &c->key)]; *link != at + 1; link = &x->classes[*link - 1].next)
        ;
    *link = c->next;
    free(c->bits);
    c->bits = NULL;
    c->next = x->unused;
    x->unused = at + 1;
}

static bool node_put(struct topo_index *x, const struct spur_view *view, uint32_t node)
{
    struct topo_class_key key;
    uint32_t to, from = x->class_of[node];

    key_make(view, spur_view_node(view, node), &key);
    if (from != NONE && memcmp(&x->classes[from].key, &key, sizeof key) == 0)
        return true;
    if ((to = class_find(x, &key)) == NONE || !class_add(x, &x->classes[to], node))
        return false;
    if (from != NONE)
        class_remove(x, from, node);
    x->class_of[node] = to;
    return true;
}

uint32_t topo_class_next(const struct topo_index *x, struct topo_class *c, uint32_t from, const uint64_t *allowed, uint32_t words)
{
    if (!allowed)
        return NONE;
    if (!c->bits) {
        for (uint32_t i = 0; i < c->count; i++)
            if (c->few[i] >= from && c->few[i] / 64 < words && (allowed[c->few[i] / 64] >> c->few[i] % 64 & 1))
                return c->few[i];
        return NONE;
    }
    while (c->first_word < x->words && !c->bits[c->first_word])
        c->first_word++;
    for (uint32_t w = from / 64 > c->first_word ? from / 64 : c->first_word; w < x->words && w < words; w++) {
        uint64_t bits = c->bits[w] & allowed[w];

        if (w == from / 64)
            bits &= ~UINT64_C(0) << from % 64;
        if (bits)
            return w * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return NONE;
}

uint32_t topo_class_allowed(const struct topo_index *x, const struct topo_class *c, const uint64_t *allowed, uint32_t words)
{
    uint32_t count = 0;

    for (uint32_t i = 0; allowed && !c->bits && i < c->count; i++)
        count += c->few[i] / 64 < words && (allowed[c->few[i] / 64] >> c->few[i] % 64 & 1);
    for (uint32_t w = c->first_word; allowed && c->bits && w < x->words && w < words; w++)
        count += (uint32_t)__builtin_popcountll(c->bits[w] & allowed[w]);
    return count;
}

/* ---- the network ---- */

static bool text_same(const char *a, size_t a_len, const char *b, size_t b_len) { return a_len == b_len && memcmp(a, b, a_len) == 0; }

/* The length of a path without its last `up` names; 0: that is the whole cluster. */
static size_t path_above(const char *path, uint32_t up)
{
    size_t len = strlen(path);

    for (; up > 0 && len > 0; up--) {
        while (len > 0 && path[len - 1] != '/')
            len--;
        if (len > 0)
            len--;
    }
    return len;
}

/* Texts and their numbers while a network is read: open addressing, grown by halves full. */
struct names { struct { const char *text; size_t len; uint32_t number; } *of; uint32_t mask, count; };

static uint32_t *name_find(struct names *t, const char *text, size_t len)
{
    uint64_t h = len;
    uint32_t at;

    if (2 * t->count >= t->mask) {
        struct names bigger = { .mask = t->mask ? 2 * t->mask + 1 : 127 };

        if (!(bigger.of = calloc(bigger.mask + 1u, sizeof *bigger.of)))
            return NULL;
        for (uint32_t i = 0; t->of && i <= t->mask; i++)
            if (t->of[i].text)
                *name_find(&bigger, t->of[i].text, t->of[i].len) = t->of[i].number;
        free(t->of);
        *t = bigger;
    }
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 29;
    for (at = (uint32_t)h & t->mask; t->of[at].text; at = (at + 1) & t->mask)
        if (text_same(t->of[at].text, t->of[at].len, text, len))
            return &t->of[at].number;
    t->of[at].text = text;
    t->of[at].len = len;
    t->of[at].number = 0;       /* not given yet: the caller gives one */
    t->count++;
    return &t->of[at].number;
}

/* Numbers for the groups above each leaf: equal beginnings of paths are one group. */
static bool groups_make(struct topo_index *x)
{
    struct names groups = { 0 };
    bool fine = true;

    x->group_count = 1;
    for (uint32_t l = 1; fine && l < x->leaf_count; l++)
        for (uint32_t up = 0; fine && up < TOPO_LEVELS; up++) {
            size_t len = path_above(x->leaves[l].path, up + 1);
            uint32_t *number = len ? name_find(&groups, x->leaves[l].path, len) : NULL;

            fine = !len || number;
            if (number && !*number)
                *number = x->group_count++;
            x->leaves[l].up[up] = number ? *number : 0;
        }
    free(groups.of);
    return fine;
}

static uint32_t leaf_find(struct topo_index *x, struct names *leaves, const char *path, const char *name, uint32_t last)
{
    uint32_t *number;

    if (last < x->leaf_count && x->leaves[last].path == path)
        return last;
    if (!(number = name_find(leaves, path, strlen(path))))
        return NONE;
    if (*number)
        return *number - 1;
    if (x->leaf_count == x->leaf_room) {
        uint32_t room = x->leaf_room ? x->leaf_room * 2 : 32;
        struct topo_leaf *more = realloc(x->leaves, room * sizeof *more);

        if (!more)
            return NONE;
        x->leaves = more;
        x->leaf_room = room;
    }
    x->leaves[x->leaf_count] = (struct topo_leaf){ .path = path, .name = name };
    *number = ++x->leaf_count;
    return x->leaf_count - 1;
}

static bool network_make(struct topo_index *x, const struct spur_view *view)
{
    bool has_path = view->node_size >= offsetof(struct spur_node_view, path) + sizeof(const char *);
    bool has_fabric = view->node_size >= offsetof(struct spur_node_view, fabric) + sizeof(const char *);
    struct names leaves = { 0 }, fabrics = { 0 };
    uint32_t last = leaf_find(x, &leaves, "", "", NONE);

    for (uint32_t i = 0; i < view->node_count && last != NONE; i++) {
        const struct spur_node_view *n = spur_view_node(view, i);
        const char *path = has_path && n->path && *n->path ? n->path : NULL;

        x->has_leaves = x->has_leaves || path;
        if (has_fabric && n->fabric && *n->fabric) {
            uint32_t *number = name_find(&fabrics, n->fabric, strlen(n->fabric));

            x->has_fabrics = true;
            if (!number)
                break;
            if (!*number)
                *number = ++x->fabric_count;
            x->fabric_of[i] = *number;
            path = path ? path : n->fabric;     /* without switches the NVLink domain is what nodes hang on */
        }
        if (!path)
            continue;
        if ((last = leaf_find(x, &leaves, path, n->leaf && *n->leaf ? n->leaf : path, last)) != NONE)
            x->leaf_of[i] = last;
    }
    free(leaves.of);
    free(fabrics.of);
    return last != NONE && groups_make(x);
}

/* ---- views ---- */

static struct topo_index *index_make(const struct spur_view *view)
{
    struct topo_index *x = calloc(1, sizeof *x);
    uint32_t slots = 256;

    if (!x)
        return NULL;
    while (slots < view->node_count && slots < 65536)
        slots *= 2;
    x->node_count = view->node_count;
    x->words = (view->node_count + 63) / 64;
    x->slot_mask = slots - 1;
    x->slots = calloc(slots, sizeof *x->slots);
    x->class_of = malloc((view->node_count + 1) * sizeof *x->class_of);
    x->leaf_of = calloc(view->node_count + 1, sizeof *x->leaf_of);
    x->fabric_of = calloc(view->node_count + 1, sizeof *x->fabric_of);
    if (!x->slots || !x->class_of || !x->leaf_of || !x->fabric_of || !network_make(x, view))
        goto failed;
    memset(x->class_of, 0xff, (view->node_count + 1) * sizeof *x->class_of);
    for (uint32_t i = 0; i < view->node_count; i++)
        if (spur_view_node(view, i)->index != i || !node_put(x, view, i))
            goto failed;
    if (view->size >= offsetof(struct spur_view, log_count) + sizeof view->log_count) {
        x->serial = view->serial;
        x->log_read = view->log_count;
    }
    return x;
failed:
    index_free(x);
    return NULL;
}

struct topo_index *topo_index_of(struct topo_indexes *all, const struct spur_view *view)
{
    bool has_serial = view->size >= offsetof(struct spur_view, log_count) + sizeof view->log_count && view->serial;
    uint32_t oldest = 0;

    if (!has_serial) {
        index_free(all->scratch);
        return all->scratch = index_make(view);
    }
    for (uint32_t i = 0; i < TOPO_INDEXES; i++) {
        struct topo_index *x = all->of[i];

        if (x && x->serial == view->serial && x->node_count == view->node_count) {
            for (; x->log_read < view->log_count; x->log_read++)
                if (view->log[x->log_read] < x->node_count && !node_put(x, view, view->log[x->log_read])) {
                    index_free(x);
                    return all->of[i] = NULL;
                }
            x->used = ++all->clock;
            return x;
        }
        if (!x || (all->of[oldest] && x->used < all->of[oldest]->used))
            oldest = i;
    }
    index_free(all->of[oldest]);
    if ((all->of[oldest] = index_make(view)))
        all->of[oldest]->used = ++all->clock;
    return all->of[oldest];
}
