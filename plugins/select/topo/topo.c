/* SPDX-License-Identifier: Apache-2.0 */
/* topo.c - select/topo: CPUs by socket, core and thread, memory and devices as consumables, GPUs by their links, nodes by the network.
 *
 * A decision does not look at nodes one by one: nodes with equal hardware and the same things free are one class (index.c), and one look at a class
 * says what each of them can hold (fit.c). A job that one node holds gets the node whose free GPUs make the best set, the lowest of equals. A job
 * of several nodes is placed in the network (net.c), or where there is none, or its nodes must differ, by number alone (choose.c). give.c then says
 * exactly what the job gets on each. When nothing is found the same question is asked of the empty cluster, which tells "later" from "never";
 * the answer of it names what is lacking. All memory is kept between calls.
 */
#include <stdlib.h>

#include <spur/select.h>

#include "choose.h"
#include "devices.h"
#include "give.h"
#include "index.h"
#include "net.h"
#include "quality.h"
#include "said.h"

#define GIVE_TRIES 256u                 /* nodes that turn out not to suit when cores and devices are counted out */

struct topo {
    const struct spur_host *host;
    struct topo_room room;
    struct topo_indexes indexes;
    struct topo_net net;
    struct topo_qualities qualities;
    struct class_fit { struct topo_fit fit; enum topo_why why; } *classes; uint32_t class_room;    /* of one decision: what a node of each class can hold */
    uint32_t whys[TOPO_WHY_COUNT];      /* how many nodes of this decision failed why */
    uint32_t allowed;
    uint64_t *banned; uint32_t banned_words, banned_count;     /* such nodes of this decision; words of 0 while there are none */
    struct topo_said said;              /* of the last placement */
};

static void room_fini(struct topo_room *r)
{
    free(r->fits);
    free(r->limits);
    free(r->by_rank.keys);
    free(r->by_size.keys);
    free(r->at);
    free(r->chosen);
    free(r->devices);
    memset(r, 0, sizeof *r);
}

static int room_grow(struct topo_room *r, uint32_t nodes)
{
    uint32_t room = nodes + nodes / 4 + 16;

    if (r->room && nodes <= r->room)
        return 0;
    room_fini(r);
    r->fits = calloc(room, sizeof *r->fits);
    r->limits = calloc(room, sizeof *r->limits);
    r->by_rank.keys = calloc(room, sizeof *r->by_rank.keys);
    r->by_size.keys = calloc(room, sizeof *r->by_size.keys);
    r->at = calloc(room, sizeof *r->at);
    r->chosen = calloc(5 * (size_t)room, sizeof *r->chosen);
    r->devices = calloc(room, sizeof *r->devices);
    if (!r->fits || !r->limits || !r->by_rank.keys || !r->by_size.keys || !r->at || !r->chosen || !r->devices) {
        room_fini(r);
        return SPUR_ENOMEM;
    }
    r->tasks = r->chosen + room;
    r->least = r->tasks + room;
    r->most = r->least + room;
    r->shares = r->most + room;
    r->room = room;
    return 0;
}

static int classes_grow(struct topo *topo, uint32_t count)
{
    struct class_fit *more;

    if (count <= topo->class_room)
        return 0;
    if (!(more = realloc(topo->classes, (count + 256) * sizeof *more)))
        return SPUR_ENOMEM;
    topo->classes = more;
    topo->class_room = count + 256;
    return 0;
}

static bool is_allowed(const struct spur_ask *a, uint32_t node)
{
    return a->allowed && node / 64 < a->node_words && a->allowed[node / 64] >> node % 64 & 1;
}

static bool is_banned(const struct topo *topo, uint32_t node)
{
    return topo->banned_count && node / 64 < topo->banned_words && topo->banned[node / 64] >> node % 64 & 1;
}

static bool ban(struct topo *topo, uint32_t node)
{
    if (node / 64 >= topo->banned_words) {
        uint32_t words = node / 64 + 64;
        uint64_t *more = realloc(topo->banned, words * sizeof *more);

        if (!more)
            return false;
        memset(more + topo->banned_words, 0, (words - topo->banned_words) * sizeof *more);
        topo->banned = more;
        topo->banned_words = words;
    }
    topo->banned[node / 64] |= UINT64_C(1) << node % 64;
    topo->banned_count++;
    return true;
}

/* Does the answer for one node of a class hold for all of it? */
static bool is_by_class(const struct topo_ask *t) { return !t->wants_sockets; }

/* What each allowed node can hold, in the order of nodes. Nodes of a class are looked at once. */
static void fits_make(struct topo *topo, struct topo_ask *t, const struct spur_view *view, const struct topo_index *x, bool empty)
{
    struct topo_room *room = &topo->room;
    bool by_class = x && is_by_class(t);

    room->fit_count = topo->allowed = 0;
    memset(room->at, 0, room->room * sizeof *room->at);
    memset(topo->whys, 0, sizeof topo->whys);
    for (uint32_t c = 0; by_class && c < x->class_count; c++)
        topo->classes[c].why = TOPO_WHY_COUNT;
    for (uint32_t i = 0; i < view->node_count; i++) {
        struct class_fit *known = by_class ? &topo->classes[x->class_of[i]] : NULL;
        struct topo_fit *f = &room->fits[room->fit_count];
        const struct spur_node_view *n;
        enum topo_why why;

        if (x && !is_allowed(&t->a, i))
            continue;
        if (known && known->why != TOPO_WHY_COUNT) {
            topo->allowed++;
            topo->whys[known->why]++;
            if (known->why == TOPO_FITS && !(!empty && is_banned(topo, i))) {
                *f = known->fit;
                f->node = i;
                f->rank = (f->rank & ~(uint64_t)UINT32_MAX) | i;
                room->at[i] = ++room->fit_count;
            }
            continue;
        }
        n = spur_view_node(view, i);
        if (!is_allowed(&t->a, n->index) || n->index >= room->room)
            continue;
        topo->allowed++;
        f->rows = by_class ? &room->limits[x->class_of[i]] : &room->limits[room->fit_count];
        why = topo_fit_node(t, n, empty, f);
        if (known) {
            known->why = why;
            known->fit = *f;
        }
        topo->whys[why]++;
        if (why == TOPO_FITS && !(!empty && is_banned(topo, n->index)))
            room->at[n->index] = ++room->fit_count;
    }
}

/* ---- why never ---- */

static const struct spur_node_view *node_by_index(const struct spur_view *view, uint32_t index)
{
    if (index < view->node_count && spur_view_node(view, index)->index == index)
        return spur_view_node(view, index);
    for (uint32_t i = 0; i < view->node_count; i++)
        if (spur_view_node(view, i)->index == index)
            return spur_view_node(view, i);
    return NULL;
}

/* What no allowed node has enough of, with the largest there is. */
static int never_one_node(struct topo *topo, struct topo_ask *t, const struct spur_view *view, struct spur_error *err)
{
    const struct spur_ask *a = &t->a;
    uint64_t cpus = 0, memory = 0, gres[TOPO_ROWS_MAX] = { 0 };
    enum topo_why why = TOPO_UNUSABLE;

    for (uint32_t i = 0; i < view->node_count; i++) {
        const struct spur_node_view *n = spur_view_node(view, i);

        if (!is_allowed(a, n->index))
            continue;
        if (n->cpus > cpus)
            cpus = n->cpus;
        if (n->mem_total > memory)
            memory = n->mem_total;
        for (uint32_t r = 0; r < t->row_count; r++) {
            uint64_t sum = 0;

            for (uint32_t k = 0; k < n->gres_count; k++)
                if (topo_row_matches(&t->rows[r], topo_gres(n, k)))
                    sum += topo_gres(n, k)->total;
            if (sum > gres[r])
                gres[r] = sum;
        }
    }
    for (uint32_t r = 0; r < t->row_count; r++) {
        const struct spur_gres_ask *g = t->rows[r].ask;
        uint64_t want = g->per_node > g->per_task ? g->per_node : g->per_task;

        if (g->per_socket * t->span > want)
            want = g->per_socket * t->span;
        if (t->rows[r].of_job && !want)
            want = 1;
        if (want > gres[r])
            return spur_fail(err, SPUR_ENEVER, "%s%s%s: %llu on one node asked, the most that one of the %u allowed nodes has is %llu", g->name,
                             *g->type ? ":" : "", g->type, (unsigned long long)want, topo->allowed, (unsigned long long)gres[r]);
    }
    if (a->mem_per_node && a->mem_per_node != SPUR_MEM_ALL && a->mem_per_node > memory)
        return spur_fail(err, SPUR_ENEVER, "memory: %llu MiB a node asked, the largest of the %u allowed nodes has %llu MiB",
                         (unsigned long long)a->mem_per_node, topo->allowed, (unsigned long long)memory);
    if (a->cpus_per_task > cpus || a->min_cpus_node > cpus)
        return spur_fail(err, SPUR_ENEVER, "CPUs: %u on one node asked, the largest of the %u allowed nodes has %llu",
                         a->cpus_per_task > a->min_cpus_node ? a->cpus_per_task : a->min_cpus_node, topo->allowed, (unsigned long long)cpus);
    if (a->max_cpus_per_node && a->cpus_per_task > a->max_cpus_per_node)
        return spur_fail(err, SPUR_ENEVER, "CPUs: %u a task asked, the partition gives at most %u of a node (MaxCPUsPerNode)", a->cpus_per_task,
                         a->max_cpus_per_node);
    for (uint32_t w = TOPO_UNUSABLE; w < TOPO_WHY_COUNT; w++)
        if (topo->whys[w] > topo->whys[why])
            why = (enum topo_why)w;
    return spur_fail(err, SPUR_ENEVER, "none of the %u allowed nodes can hold a single task: one %s for it",
                     topo->allowed, topo_why_text(why));
}

static int never(struct topo *topo, struct topo_ask *t, const struct spur_view *view, enum topo_lack lack, uint32_t which, struct spur_error *err)
{
    const struct spur_ask *a = &t->a;
    const struct spur_node_view *n;
    struct topo_limits limits;
    struct topo_fit fit = { .rows = &limits };
    uint64_t sum = 0;

    if (lack == TOPO_LACK_REQUIRED) {
        n = node_by_index(view, which);
        return spur_fail(err, SPUR_ENEVER, "node %s, which --nodelist asks for, %s", n ? n->name : "?",
                         n && is_allowed(a, which) ? topo_why_text(topo_fit_node(t, n, true, &fit)) : "may not be used by this job");
    }
    if (!topo->allowed)
        return spur_fail(err, SPUR_ENEVER, "no node may be used by this job: partition, features and excluded nodes leave none");
    if (!topo->room.fit_count)
        return never_one_node(topo, t, view, err);
    switch (lack) {
    case TOPO_LACK_DEVICES:
        for (uint32_t i = 0; i < topo->room.fit_count; i++)
            sum += topo->room.fits[i].rows->most[which];
        return spur_fail(err, SPUR_ENEVER, "%s%s%s: %llu asked, the %u nodes that fit have %llu together", t->rows[which].ask->name,
                         *t->rows[which].ask->type ? ":" : "", t->rows[which].ask->type, (unsigned long long)t->rows[which].ask->per_job,
                         topo->room.fit_count, (unsigned long long)sum);
    case TOPO_LACK_TASKS:
        for (uint32_t i = 0; i < topo->room.fit_count; i++)
            sum += topo->room.fits[i].tasks;
        return spur_fail(err, SPUR_ENEVER, "%u tasks of %u CPUs asked, the %u nodes that fit hold %llu together", a->tasks, a->cpus_per_task,
                         topo->room.fit_count, (unsigned long long)sum);
    case TOPO_LACK_CONTIGUOUS:
        return spur_fail(err, SPUR_ENEVER, "no row of neighbouring nodes holds %u tasks on %u nodes or more", a->tasks, a->min_nodes);
    default:
        if (a->min_nodes > which)
            return spur_fail(err, SPUR_ENEVER, "%u nodes asked, at most %u of the %u allowed can be used", a->min_nodes, which, topo->allowed);
        return spur_fail(err, SPUR_ENEVER, "%u tasks of %u CPUs and the devices asked don't fit on at most %u nodes", a->tasks, a->cpus_per_task, which);
    }
}

/* ---- the decision ---- */

static void picks_sort(struct topo_room *room)
{
    /* In the order of the node table, which is the order of ranks. Insertion: the order taken is nearly that already. */
    for (uint32_t i = 1; i < room->count; i++) {
        uint32_t chosen = room->chosen[i], tasks = room->tasks[i], k = i, devices[TOPO_ROWS_MAX];

        memcpy(devices, room->devices[i], sizeof devices);
        for (; k > 0 && room->fits[room->chosen[k - 1]].node > room->fits[chosen].node; k--) {
            room->chosen[k] = room->chosen[k - 1];
            room->tasks[k] = room->tasks[k - 1];
            memcpy(room->devices[k], room->devices[k - 1], sizeof devices);
        }
        room->chosen[k] = chosen;
        room->tasks[k] = tasks;
        memcpy(room->devices[k], devices, sizeof devices);
    }
}

/* ---- one node for the whole job ---- */

/* A job that shares its node. One that wants a whole node is a job of one node in the network: it goes where the fewest are left over. */
static bool wants_one(const struct topo_ask *t, const struct topo_index *x)
{
    return !(t->a.exclusive && x->has_leaves) && t->a.min_nodes == 1 && t->a.want_nodes <= 1 && !t->a.required && !t->a.spread;
}

/* Can a node do all of it? */
static bool holds_all(const struct topo_ask *t, const struct topo_fit *f)
{
    if (f->tasks < t->a.tasks)
        return false;
    for (uint32_t i = 0; t->of_job_count && i < t->row_count; i++)
        if (t->rows[i].of_job && f->rows->most[i] < t->rows[i].ask->per_job)
            return false;
    return true;
}

/* GPUs of the first row that asks for some, on a node with so many tasks. 0: none are asked for. */
static uint32_t gpus_wanted(const struct topo_ask *t, uint32_t tasks, uint32_t nodes, uint32_t *row)
{
    for (uint32_t i = 0; i < t->row_count; i++) {
        const struct spur_gres_ask *g = t->rows[i].ask;
        uint64_t want = g->per_node;

        if (!t->rows[i].is_gpu)
            continue;
        want = g->per_task * tasks > want ? g->per_task * tasks : want;
        want = g->per_socket * t->span > want ? g->per_socket * t->span : want;
        want = t->rows[i].of_job && g->per_job / nodes > want ? g->per_job / nodes : want;
        *row = i;
        return want > 64 ? 0 : (uint32_t)want;
    }
    return 0;
}

struct best { uint32_t node, weight; uint64_t order; bool is_there; };

/* Lower weight, then what `order` says, lower first; the lowest node of equals. */
static bool is_before(const struct best *b, uint32_t weight, uint64_t order, uint32_t node)
{
    if (!b->is_there || weight != b->weight)
        return !b->is_there || weight < b->weight;
    return order != b->order ? order < b->order : node < b->node;
}

/* The first allowed node of a class at or behind `from` that fits; rank and rows of it in *f. UINT32_MAX: none. */
static uint32_t class_fits(struct topo *topo, struct topo_ask *t, const struct spur_view *view, struct topo_index *x, uint32_t c, struct topo_fit *f)
{
    bool once = is_by_class(t);
    uint32_t node = topo_class_next(x, &x->classes[c], 0, t->a.allowed, t->a.node_words);

    while (node != UINT32_MAX) {
        if (!is_banned(topo, node)) {
            if (topo_fit_node(t, spur_view_node(view, node), false, f) == TOPO_FITS)
                return node;
            if (once)
                return UINT32_MAX;
        }
        node = topo_class_next(x, &x->classes[c], node + 1, t->a.allowed, t->a.node_words);
    }
    return UINT32_MAX;
}

/* The node for a job that one node holds: of those of the lowest weight that fit at all the one with the best set of GPUs. UINT32_MAX: none, or
 * nodes of a lower weight are to be used up first. */
static uint32_t one_node(struct topo *topo, struct topo_ask *t, const struct spur_view *view, struct topo_index *x)
{
    uint32_t lightest = UINT32_MAX, row = 0, gpus = gpus_wanted(t, t->a.tasks, 1, &row);
    bool by_links = gpus && !(t->a.cr & SPUR_CR_LLN);
    struct best best = { 0 };

    for (uint32_t c = 0; c < x->class_count; c++) {
        struct topo_class *cl = &x->classes[c];
        const struct spur_node_view *n;
        struct topo_fit f = { .rows = &topo->room.limits[0] };
        uint64_t order;
        uint32_t node;

        if (!cl->count || !(cl->key.flags & SPUR_NODE_USABLE) || (cl->key.flags & SPUR_NODE_EXCLUSIVE) || (t->a.exclusive && cl->key.has_jobs) ||
            cl->key.weight > lightest || (node = class_fits(topo, t, view, x, c, &f)) == UINT32_MAX)
            continue;
        if (!holds_all(t, &f)) {
            if (t->a.max_nodes > 1)
                lightest = cl->key.weight;
            continue;
        }
        lightest = cl->key.weight;
        n = spur_view_node(view, node);
        order = by_links && cl->key.devices ? ~topo_quality(&topo->qualities, t, n, topo_row_mask(t, n, row), gpus) : f.rank >> 32;
        if (is_before(&best, cl->key.weight, order, node))
            best = (struct best){ .node = node, .weight = cl->key.weight, .order = order, .is_there = true };
    }
    return best.is_there && best.weight == lightest ? best.node : UINT32_MAX;
}

/* ---- later or never ---- */

/* Would so many nodes of the empty cluster surely do? Looks at classes until they are enough. */
static bool surely(struct topo *topo, struct topo_ask *t, const struct spur_view *view, struct topo_index *x, uint32_t nodes)
{
    const struct spur_ask *a = &t->a;
    uint64_t tasks = (a->tasks + (uint64_t)nodes - 1) / nodes, have = 0;

    if (nodes < 1 || (a->tasks_set && a->tasks < nodes))
        return false;
    for (uint32_t i = 0; i < t->row_count; i++)
        if (t->rows[i].of_job && t->rows[i].ask->per_job < nodes)
            return false;       /* a device on each of them */
    for (uint32_t c = 0; c < x->class_count && have < nodes; c++) {
        struct topo_fit f = { .rows = &topo->room.limits[0] };
        uint32_t node = x->classes[c].count ? topo_class_next(x, &x->classes[c], 0, a->allowed, a->node_words) : UINT32_MAX;
        bool fits = node != UINT32_MAX && topo_fit_node(t, spur_view_node(view, node), true, &f) == TOPO_FITS && f.tasks >= tasks;

        for (uint32_t i = 0; fits && i < t->row_count; i++)
            fits = !t->rows[i].of_job || f.rows->most[i] >= (t->rows[i].ask->per_job + nodes - 1) / nodes;
        if (fits)
            have += topo_class_allowed(x, &x->classes[c], a->allowed, a->node_words);
    }
    return have >= nodes;
}

/* --gres-flags=enforce-binding: has any node, when empty, the cores asked for near to the GPUs asked for? Counted out on one node of each class. */
static bool could_bind(struct topo *topo, struct topo_ask *t, const struct spur_view *view, struct topo_index *x)
{
    for (uint32_t c = 0; c < x->class_count; c++) {
        uint32_t node = x->classes[c].count ? topo_class_next(x, &x->classes[c], 0, t->a.allowed, t->a.node_words) : UINT32_MAX;
        struct topo_fit f = { .rows = &topo->room.limits[0] };
        struct spur_gres_view gres[TOPO_KEY_GRES];
        struct spur_node_view empty;
        uint64_t free[64], cores[64];
        struct spur_node_pick pick = { .cores = cores, .core_words = 64 };
        uint32_t devices[TOPO_ROWS_MAX] = { 0 }, all;

        if (node == UINT32_MAX || topo_fit_node(t, spur_view_node(view, node), true, &f) != TOPO_FITS)
            continue;
        memset(&empty, 0, sizeof empty);
        memcpy(&empty, spur_view_node(view, node), view->node_size < sizeof empty ? view->node_size : sizeof empty);
        if (empty.core_words > 64 || empty.gres_count > TOPO_KEY_GRES)
            return true;
        all = empty.sockets * empty.cores_per_socket;
        for (uint32_t w = 0; w < 64; w++)
            free[w] = w * 64 + 64 <= all ? ~UINT64_C(0) : w * 64 >= all ? 0 : (UINT64_C(1) << all % 64) - 1;
        for (uint32_t i = 0; i < empty.gres_count; i++) {
            memcpy(&gres[i], topo_gres(&empty, i), empty.gres_size < sizeof gres[i] ? empty.gres_size : sizeof gres[i]);
            gres[i].free_mask = gres[i].all_mask;
            gres[i].used = 0;
        }
        empty.core_free = free;
        empty.cpus_free = empty.cpus;
        empty.mem_free = empty.mem_total;
        empty.gres = gres;
        empty.gres_size = sizeof gres[0];
        for (uint32_t i = 0; i < t->row_count; i++)
            devices[i] = t->rows[i].of_job ? (uint32_t)((t->rows[i].ask->per_job + t->a.max_nodes - 1) / t->a.max_nodes) : 0;
        if (topo_give(t, &empty, t->a.tasks_per_node ? t->a.tasks_per_node : 1, devices, &pick))
            return true;
    }
    return false;
}

/* 0: the empty cluster could hold it. */
static int could(struct topo *topo, struct topo_ask *t, const struct spur_view *view, struct topo_index *x, struct spur_error *err)
{
    const struct spur_ask *a = &t->a;
    enum topo_lack lack;
    uint32_t which = 0, most = a->max_nodes < view->node_count ? a->max_nodes : view->node_count, row = 0;
    uint32_t gpus = gpus_wanted(t, a->tasks, 1, &row);

    if (x && (a->gres_flags & SPUR_GRES_ENFORCE_BINDING) && !could_bind(topo, t, view, x))
        return spur_fail(err, SPUR_ENEVER, "no allowed node has %u CPUs near to the GPUs asked for (--gres-flags=enforce-binding)",
                         a->cpus_per_task > a->min_cpus_node ? a->cpus_per_task : a->min_cpus_node);
    if (x && !a->required && !a->contiguous && !(a->tasks_set && a->tasks < a->min_nodes)) {
        uint32_t spread = gpus ? (gpus + 7) / 8 : 1;        /* a second guess; which numbers are tried is a matter of speed alone */

        if (surely(topo, t, view, x, a->min_nodes) || (most > a->min_nodes && surely(topo, t, view, x, most)) ||
            (spread > a->min_nodes && spread < most && surely(topo, t, view, x, spread)))
            return 0;
    }
    fits_make(topo, t, view, x, true);
    return topo_choose(t, &topo->room, &lack, &which) ? 0 : never(topo, t, view, lack, which, err);
}

/* ---- the decision ---- */

struct quality_of { struct topo *topo; struct topo_ask *t; const struct spur_view *view; uint32_t row, gpus; };

static uint64_t fit_quality(void *arg, uint32_t fit)
{
    struct quality_of *q = arg;
    const struct spur_node_view *n = spur_view_node(q->view, q->topo->room.fits[fit].node);

    return topo_quality(&q->topo->qualities, q->t, n, topo_row_mask(q->t, n, q->row), q->gpus);
}

/* 0: chosen; ELATER: they are there, but not so close together as asked; ENEVER: none. */
static int nodes_choose(struct topo *topo, struct topo_ask *t, const struct spur_view *view, struct topo_index *x)
{
    struct quality_of q = { .topo = topo, .t = t, .view = view };
    enum topo_lack lack;
    uint32_t which = 0, one;

    if (x && wants_one(t, x) && (one = one_node(topo, t, view, x)) != UINT32_MAX) {
        struct topo_fit *f = &topo->room.fits[0];

        f->rows = &topo->room.limits[0];
        topo_fit_node(t, spur_view_node(view, one), false, f);
        topo->room.fit_count = topo->room.count = 1;
        topo->room.chosen[0] = 0;
        topo_share(t, &topo->room);
        return 0;
    }
    if (x && wants_one(t, x) && t->a.max_nodes == 1)
        return SPUR_ENEVER;
    fits_make(topo, t, view, x, false);
    if (x && (x->has_leaves || x->has_fabrics) && !t->a.contiguous && !t->a.spread && (t->a.max_nodes > 1 || t->a.exclusive)) {
        q.gpus = gpus_wanted(t, 1, t->a.min_nodes, &q.row);
        switch (topo_net_choose(&topo->net, t, &topo->room, x, q.gpus && t->scorer && !(t->a.cr & SPUR_CR_LLN) ? fit_quality : NULL, &q)) {
        case TOPO_NET_CHOSEN: return 0;
        case TOPO_NET_LATER: return SPUR_ELATER;
        case TOPO_NET_OPEN: break;
        }
    }
    return topo_choose(t, &topo->room, &lack, &which) ? 0 : SPUR_ENEVER;
}

static int topo_begin(struct topo *topo, struct topo_ask *t, const struct spur_view *view, const struct spur_ask *ask, struct topo_index **x, struct spur_error *err)
{
    uint32_t top = 0;
    int rc;

    if ((rc = topo_ask_init(t, ask, err)) < 0)
        return rc;
    t->node_size = view->node_size;
    if (!SPUR_HAS(topo->host, score) || !topo->host->score(topo->host->ctx, &t->scorer, &t->scorer_self))
        t->scorer = NULL;
    topo_qualities_check(&topo->qualities, t);
    if (topo->banned_count)
        memset(topo->banned, 0, topo->banned_words * sizeof *topo->banned);
    topo->banned_count = 0;
    *x = topo_index_of(&topo->indexes, view);       /* NULL: every node is looked at */
    for (uint32_t i = 0; !*x && i < view->node_count; i++)
        if (spur_view_node(view, i)->index >= top)
            top = spur_view_node(view, i)->index + 1;
    if (*x && top < (*x)->class_count)
        top = (*x)->class_count;
    if (room_grow(&topo->room, top > view->node_count ? top : view->node_count) < 0 || (*x && classes_grow(topo, (*x)->class_count) < 0))
        return spur_fail(err, SPUR_ENOMEM, "select/topo: out of memory for %u nodes", view->node_count);
    if (t->a.segment > 1 && *x && (*x)->has_leaves && t->a.min_nodes == t->a.max_nodes && t->a.min_nodes % t->a.segment)
        return spur_fail(err, SPUR_ENEVER, "%u nodes cannot be cut into segments of %u (--segment)", t->a.min_nodes, t->a.segment);
    return 0;
}

static int topo_place(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_placement *out, struct spur_error *err)
{
    struct topo *topo = self;
    struct topo_room *room = &topo->room;
    struct topo_index *x;
    struct topo_ask t;
    int rc;

    out->pick_count = 0;
    out->score = 1.0;
    if ((rc = topo_begin(topo, &t, view, ask, &x, err)) < 0)
        return rc;
again:
    if ((rc = nodes_choose(topo, &t, view, x)) != 0) {
        if (rc == SPUR_ELATER)
            return spur_fail(err, SPUR_ELATER, "enough is free, but not under so few switches or in such segments");
        if ((rc = could(topo, &t, view, x, err)) < 0)
            return rc;
        return spur_fail(err, SPUR_ELATER, topo->banned_count ? "what is free does not suit all that is asked together" : "not enough free resources at present");
    }
    if (room->count > out->pick_room)
        return spur_fail(err, SPUR_ELIMIT, "select/topo: %u nodes chosen, the caller has room for %u", room->count, out->pick_room);
    picks_sort(room);
    topo_rail(&t, view, room);
    for (uint32_t i = 0; i < room->count; i++) {
        const struct spur_node_view *n = node_by_index(view, room->fits[room->chosen[i]].node);
        struct spur_node_pick *pick = spur_placement_pick(out, i);

        if (!n || pick->core_words < n->core_words)
            return spur_fail(err, SPUR_ELIMIT, "select/topo: the caller has no room for the cores of node %s", n ? n->name : "?");
        if (topo_give(&t, n, room->tasks[i], room->devices[i], pick))
            continue;
        /* Counts were enough and places are not: bound cores, kinds of devices that exclude each other. Another node may do. */
        if (topo->banned_count == GIVE_TRIES || !ban(topo, n->index))
            return spur_fail(err, SPUR_ELATER, "node %s: what is free does not suit all that is asked of it together", n->name);
        goto again;
    }
    out->pick_count = room->count;
    topo_say(&t, view, out, &topo->said);
    return 0;
}

static int topo_could(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_error *err)
{
    struct topo_index *x;
    struct topo_ask t;
    int rc = topo_begin(self, &t, view, ask, &x, err);

    return rc < 0 ? rc : could(self, &t, view, x, err);
}

static int topo_explain(void *self, const struct spur_placement *out, char *buf, size_t len)
{
    struct topo *topo = self;

    return topo_said_print(&topo->said, out, buf, len);
}

static int topo_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct topo *topo = calloc(1, sizeof *topo);

    (void)conf;
    if (!topo)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    topo->host = host;
    *self = topo;
    return 0;
}

static void topo_close(void *self)
{
    struct topo *topo = self;

    if (!topo)
        return;
    room_fini(&topo->room);
    topo_indexes_fini(&topo->indexes);
    topo_net_fini(&topo->net);
    topo_qualities_fini(&topo->qualities);
    free(topo->classes);
    free(topo->banned);
    free(topo);
}

static const struct spur_option topo_options[] = { { NULL, 0, NULL, NULL } };
static const struct spur_select_ops topo_ops = { .size = sizeof topo_ops, .place = topo_place, .explain = topo_explain, .could = topo_could };

SPUR_PLUGIN(select, topo, .about = "CPUs, memory and devices as consumables; GPUs by their links, nodes by the network", .caps = SPUR_CAP_LINKS, .stands_for = "cons_tres cons_res cray_aries",
            .options = topo_options, .ops = &topo_ops, .open = topo_open, .close = topo_close);
