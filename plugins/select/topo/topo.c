/* SPDX-License-Identifier: Apache-2.0 */
/* topo.c - select/topo: CPUs by socket, core and thread, memory and devices as consumables, several jobs on a node.
 *
 * A decision is three steps: what can each allowed node hold (fit.c), which nodes are taken (choose.c), what exactly does the job get
 * there (give.c). All memory is kept between calls and grows with the number of nodes. When nothing is found the same question is
 * asked of the empty cluster, which tells "later" from "never"; the answer of it names what is lacking.
 */
#include <stdlib.h>

#include <spur/select.h>

#include "choose.h"
#include "give.h"
#include "said.h"

struct topo {
    const struct spur_host *host;
    struct topo_room room;
    uint32_t whys[TOPO_WHY_COUNT];      /* how many nodes of this decision failed why */
    uint32_t allowed;
    struct topo_said said;              /* of the last placement */
};

static int room_grow(struct topo_room *r, uint32_t nodes)
{
    struct topo_room bigger = { .room = nodes + nodes / 4 + 16 };

    if (nodes <= r->room)
        return 0;
    bigger.fits = calloc(bigger.room, sizeof *bigger.fits);
    bigger.by_rank.keys = calloc(bigger.room, sizeof *bigger.by_rank.keys);
    bigger.by_size.keys = calloc(bigger.room, sizeof *bigger.by_size.keys);
    bigger.at = calloc(bigger.room, sizeof *bigger.at);
    bigger.chosen = calloc(5 * (size_t)bigger.room, sizeof *bigger.chosen);
    bigger.devices = calloc(bigger.room, sizeof *bigger.devices);
    if (!bigger.fits || !bigger.by_rank.keys || !bigger.by_size.keys || !bigger.at || !bigger.chosen || !bigger.devices) {
        free(bigger.fits);
        free(bigger.by_rank.keys);
        free(bigger.by_size.keys);
        free(bigger.at);
        free(bigger.chosen);
        free(bigger.devices);
        return SPUR_ENOMEM;
    }
    bigger.tasks = bigger.chosen + bigger.room;
    bigger.least = bigger.tasks + bigger.room;
    bigger.most = bigger.least + bigger.room;
    bigger.shares = bigger.most + bigger.room;
    free(r->fits);
    free(r->by_rank.keys);
    free(r->by_size.keys);
    free(r->at);
    free(r->chosen);
    free(r->devices);
    *r = bigger;
    return 0;
}

static bool is_allowed(const struct spur_ask *a, uint32_t node)
{
    return a->allowed && node / 64 < a->node_words && a->allowed[node / 64] >> node % 64 & 1;
}

static void fits_make(struct topo *topo, struct topo_ask *t, const struct spur_view *view, bool empty)
{
    struct topo_room *room = &topo->room;

    room->fit_count = topo->allowed = 0;
    memset(room->at, 0, room->room * sizeof *room->at);
    memset(topo->whys, 0, sizeof topo->whys);
    for (uint32_t i = 0; i < view->node_count; i++) {
        const struct spur_node_view *n = spur_view_node(view, i);
        enum topo_why why;

        if (!is_allowed(&t->a, n->index) || n->index >= room->room)
            continue;
        topo->allowed++;
        why = topo_fit_node(t, n, empty, &room->fits[room->fit_count]);
        topo->whys[why]++;
        if (why == TOPO_FITS)
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
    struct topo_fit fit;
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
            sum += topo->room.fits[i].row_most[which];
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

static int topo_place(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_placement *out, struct spur_error *err)
{
    struct topo *topo = self;
    struct topo_room *room = &topo->room;
    struct topo_ask t;
    enum topo_lack lack;
    uint32_t which = 0, top = 0;
    int rc;

    out->pick_count = 0;
    out->score = 1.0;
    if ((rc = topo_ask_init(&t, ask, err)) < 0)
        return rc;
    t.node_size = view->node_size;
    if (!SPUR_HAS(topo->host, score) || !topo->host->score(topo->host->ctx, &t.scorer, &t.scorer_self))
        t.scorer = NULL;
    for (uint32_t i = 0; i < view->node_count; i++)
        if (spur_view_node(view, i)->index >= top)
            top = spur_view_node(view, i)->index + 1;
    if (room_grow(room, top > view->node_count ? top : view->node_count) < 0)
        return spur_fail(err, SPUR_ENOMEM, "select/topo: out of memory for %u nodes", view->node_count);
    fits_make(topo, &t, view, false);
    if (!topo_choose(&t, room, &lack, &which)) {
        fits_make(topo, &t, view, true);
        if (!topo_choose(&t, room, &lack, &which))
            return never(topo, &t, view, lack, which, err);
        return spur_fail(err, SPUR_ELATER, "not enough free resources at present");
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
        if (!topo_give(&t, n, room->tasks[i], room->devices[i], pick))
            return spur_fail(err, SPUR_ELATER, "node %s: what is free does not suit all that is asked of it together", n->name);
    }
    out->pick_count = room->count;
    topo_say(&t, view, out, &topo->said);
    return 0;
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
    free(topo->room.fits);
    free(topo->room.by_rank.keys);
    free(topo->room.by_size.keys);
    free(topo->room.at);
    free(topo->room.chosen);
    free(topo->room.devices);
    free(topo);
}

static const struct spur_option topo_options[] = { { NULL, 0, NULL, NULL } };
static const struct spur_select_ops topo_ops = { .size = sizeof topo_ops, .place = topo_place, .explain = topo_explain };

SPUR_PLUGIN(select, topo, .about = "CPUs by socket, core and thread, memory and devices as consumables", .stands_for = "cons_tres cons_res cray_aries",
            .options = topo_options, .ops = &topo_ops, .open = topo_open, .close = topo_close);
