/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - a job of several nodes in the network: the lowest level that holds it, the fewest leaves, the tightest of them.
 *
 * Most such jobs need n nodes of which each can do its n-th part; then any n nodes will do and only their number a leaf matters (fabric.c). Levels are
 * an NVLink domain, a leaf, what is above leaves, and so on up to the whole cluster; the first level with a group that holds the job is taken. Node
 * weight comes before closeness, as in Slurm: nodes of a higher weight are looked at only when those of lower ones are too few.
 */
#include <stdlib.h>
#include <string.h>

#include "net.h"

#define TRIES 16u           /* numbers of nodes tried for a job that leaves it open */
#define GROUPS_MAX 64u      /* groups of one level that are worked out in full */

void topo_net_fini(struct topo_net *net)
{
    fabric_fini(&net->fabric);
    free(net->leaves);
    free(net->first);
    free(net->fits);
    free(net->totals);
    memset(net, 0, sizeof *net);
}

static bool net_grow(struct topo_net *net, uint32_t leaves, uint32_t fits, uint32_t groups)
{
    if (leaves + 2 > net->leaf_room) {
        uint32_t room = leaves + leaves / 4 + 16;

        free(net->leaves);
        free(net->first);
        net->leaf_room = 0;
        net->leaves = malloc(2 * (size_t)room * sizeof *net->leaves);
        net->first = malloc(4 * (size_t)room * sizeof *net->first);
        if (!net->leaves || !net->first)
            return false;
        net->best = net->leaves + room;
        net->leaf_number = net->first + room;
        net->best_number = net->leaf_number + room;
        net->by_group = net->best_number + room;
        net->leaf_room = room;
    }
    if (fits > net->fit_room) {
        free(net->fits);
        net->fit_room = 0;
        if (!(net->fits = malloc((size_t)(fits + 64) * sizeof *net->fits)))
            return false;
        net->fit_room = fits + 64;
    }
    if (groups + 2 > net->group_room) {
        free(net->totals);
        net->group_room = 0;
        if (!(net->totals = malloc(2 * (size_t)(groups + 16) * sizeof *net->totals)))
            return false;
        net->starts = net->totals + groups + 16;
        net->group_room = groups + 16;
    }
    return true;
}

static uint32_t div_up(uint64_t n, uint64_t by) { return (uint32_t)((n + by - 1) / by); }

static bool is_required(const struct topo_ask *t, uint32_t node)
{
    return t->a.required && node / 64 < t->a.node_words && t->a.required[node / 64] >> node % 64 & 1;
}

/* ---- n nodes that are equal as far as the job goes ---- */

struct search {
    struct topo_net *net;
    const struct topo_ask *t;
    struct topo_room *room;
    const struct topo_index *x;
    uint32_t n, segment;            /* nodes; nodes a segment, 1 without */
    uint32_t weight;                /* nodes up to this one */
    uint32_t fabric;                /* nodes of this domain only; 0: all */
    uint32_t tasks, rows[TOPO_ROWS_MAX];    /* each node's part */
};

static bool fits_part(const struct search *s, const struct topo_fit *f)
{
    if (f->tasks < s->tasks)
        return false;
    for (uint32_t i = 0; s->t->of_job_count && i < s->t->row_count; i++)
        if (s->t->rows[i].of_job && f->rows->most[i] < s->rows[i])
            return false;
    return true;
}

static bool is_candidate(const struct search *s, const struct topo_fit *f)
{
    return (f->weight <= s->weight || is_required(s->t, f->node)) && (!s->fabric || s->x->fabric_of[f->node] == s->fabric) && fits_part(s, f);
}

static void parts_set(struct search *s, uint32_t n)
{
    s->n = n;
    s->tasks = div_up(s->t->a.tasks, n);
    for (uint32_t i = 0; i < s->t->row_count; i++)
        s->rows[i] = s->t->rows[i].of_job ? div_up(s->t->rows[i].ask->per_job, n) : 0;
}

/* The lowest weight up to which there are enough; false: there are not. */
static bool weight_set(struct search *s)
{
    uint32_t count = 0, last = 0;
    bool any = false;

    s->weight = UINT32_MAX;
    for (uint32_t i = 0; s->t->a.required && i < s->t->a.node_words; i++)
        for (uint64_t bits = s->t->a.required[i]; bits; bits &= bits - 1) {
            uint32_t fit = s->room->at[i * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (!fit || !fits_part(s, &s->room->fits[fit - 1]))
                return false;
        }
    for (;;) {
        uint32_t least = UINT32_MAX, here = 0;

        for (uint32_t i = 0; i < s->room->fit_count; i++) {
            const struct topo_fit *f = &s->room->fits[i];

            if ((any && f->weight <= last) || f->weight > least || !fits_part(s, f))
                continue;
            here = f->weight < least ? 0 : here;
            least = f->weight;
            here++;
        }
        if (!here)
            return false;
        count += here;
        if (count >= s->n) {
            s->weight = least;
            return true;
        }
        any = true;
        last = least;
    }
}

/* Candidates by leaf, in the order of nodes. Returns how many there are. */
static uint32_t by_leaf(struct search *s)
{
    struct topo_net *net = s->net;
    uint32_t leaves = s->x->leaf_count, sum = 0;

    memset(net->first, 0, (leaves + 1) * sizeof *net->first);
    for (uint32_t i = 0; i < s->room->fit_count; i++)
        if (is_candidate(s, &s->room->fits[i]))
            net->first[s->x->leaf_of[s->room->fits[i].node]]++;
    for (uint32_t l = 0; l < leaves; l++) {
        uint32_t here = net->first[l];

        net->first[l] = sum;
        sum += here;
    }
    net->first[leaves] = sum;
    for (uint32_t i = 0; i < s->room->fit_count; i++)
        if (is_candidate(s, &s->room->fits[i]))
            net->fits[net->first[s->x->leaf_of[s->room->fits[i].node]]++] = i;
    for (uint32_t l = leaves; l > 0; l--)
        net->first[l] = net->first[l - 1];
    net->first[0] = 0;
    return sum;
}

static uint32_t idle_of(const struct search *s, uint32_t leaf) { return s->net->first[leaf + 1] - s->net->first[leaf]; }

/* Nodes that --nodelist wants of a leaf. */
static uint32_t required_of(const struct search *s, uint32_t leaf)
{
    uint32_t count = 0;

    for (uint32_t i = s->net->first[leaf]; s->t->a.required && i < s->net->first[leaf + 1]; i++)
        count += is_required(s->t, s->room->fits[s->net->fits[i]].node);
    return count;
}

static struct fabric_leaf leaf_of(const struct search *s, uint32_t leaf, bool by_pod)
{
    /* Nodes without a leaf are no neighbours of anybody: a pod of their own. */
    return (struct fabric_leaf){ .idle = idle_of(s, leaf), .units = idle_of(s, leaf) / s->segment,
                                 .pod = !by_pod ? 0 : leaf == 0 ? UINT32_MAX : s->x->leaves[leaf].up[0] ? s->x->leaves[leaf].up[0] : UINT32_MAX - leaf };
}

static void keep_best(struct search *s, uint32_t count)
{
    memcpy(s->net->best, s->net->leaves, count * sizeof *s->net->leaves);
    memcpy(s->net->best_number, s->net->leaf_number, count * sizeof *s->net->leaf_number);
}

/* One leaf that holds all: the one that is left fullest. */
static uint32_t solve_leaf(struct search *s)
{
    uint32_t units = s->n / s->segment, best = UINT32_MAX;

    for (uint32_t l = 1; l < s->x->leaf_count; l++)
        if (idle_of(s, l) / s->segment >= units && (best == UINT32_MAX || idle_of(s, l) < idle_of(s, best)))
            best = l;
    if (best == UINT32_MAX)
        return 0;
    s->net->leaf_number[0] = best;
    s->net->leaves[0] = leaf_of(s, best, false);
    s->net->leaves[0].take = units;
    keep_best(s, 1);
    return 1;
}

static uint32_t group_of(const struct search *s, uint32_t leaf, uint32_t level)
{
    return level >= TOPO_LEVELS || leaf == 0 ? 0 : s->x->leaves[leaf].up[level];
}

/* Fills net->leaves with the leaves of a group that have room. */
static uint32_t group_leaves(struct search *s, uint32_t from, uint32_t to, uint32_t level)
{
    uint32_t count = 0;

    for (uint32_t i = from; i < to; i++) {
        uint32_t leaf = s->net->by_group[i];

        if (idle_of(s, leaf) < s->segment)
            continue;
        s->net->leaf_number[count] = leaf;
        s->net->leaves[count++] = leaf_of(s, leaf, level > 0);
    }
    return count;
}

/* The best group of one level; TOPO_LEVELS: the whole cluster. Returns the number of leaves in net->best, 0: none holds the job. */
static uint32_t solve_level(struct search *s, uint32_t level)
{
    struct topo_net *net = s->net;
    uint32_t groups = level >= TOPO_LEVELS ? 1 : s->x->group_count, units = s->n / s->segment, sum = 0, found = 0, tried = 0, fewest = UINT32_MAX;
    struct fabric_cost best = { 0 }, cost;

    memset(net->totals, 0, groups * sizeof *net->totals);
    memset(net->starts, 0, (groups + 1) * sizeof *net->starts);
    for (uint32_t l = 0; l < s->x->leaf_count; l++) {
        net->totals[group_of(s, l, level)] += idle_of(s, l) / s->segment;
        net->starts[group_of(s, l, level)]++;
    }
    for (uint32_t g = 0; g <= groups; g++) {
        uint32_t here = g < groups ? net->starts[g] : 0;

        net->starts[g] = sum;
        sum += here;
    }
    for (uint32_t l = 0; l < s->x->leaf_count; l++)
        net->by_group[net->starts[group_of(s, l, level)]++] = l;
    for (uint32_t g = groups; g > 0; g--)
        net->starts[g] = net->starts[g - 1];
    net->starts[0] = 0;
    /* Group 0 is what has nothing above it: no group, but at the top everything. */
    for (uint32_t g = level >= TOPO_LEVELS ? 0 : 1; g < groups; g++) {
        uint32_t count, least;

        if (net->totals[g] < units)
            continue;
        count = group_leaves(s, net->starts[g], net->starts[g + 1], level);
        least = fabric_fewest(&net->fabric, net->leaves, count, units);
        if (!least || least > fewest || (least == fewest && tried >= GROUPS_MAX))
            continue;
        tried = least < fewest ? 0 : tried + 1;
        fewest = least;
        if (fabric_choose(&net->fabric, net->leaves, count, units, &cost) && (!found || fabric_cheaper(&cost, &best))) {
            best = cost;
            found = count;
            keep_best(s, count);
        }
    }
    return found;
}

/* --nodelist: the leaves of its nodes are in anyway; what they do not hold comes from the leaves nearest to the first of them. */
static uint32_t solve_required(struct search *s)
{
    struct topo_net *net = s->net;
    uint32_t left = s->n / s->segment, count = 0, anchor = 0;

    for (uint32_t l = 0; l < s->x->leaf_count; l++) {
        uint32_t wanted = required_of(s, l);

        if (!wanted)
            continue;
        anchor = anchor ? anchor : l;
        net->leaf_number[count] = l;
        net->leaves[count] = leaf_of(s, l, false);
        net->leaves[count].take = div_up(wanted, s->segment);
        if (net->leaves[count].take > net->leaves[count].units || net->leaves[count].take > left)
            return 0;
        left -= net->leaves[count++].take;
    }
    for (uint32_t i = 0; i < count && left > 0; i++) {
        uint32_t more = net->leaves[i].units - net->leaves[i].take;

        more = more < left ? more : left;
        net->leaves[i].take += more;
        left -= more;
    }
    for (uint32_t level = 0; left > 0 && level <= TOPO_LEVELS; level++)
        while (left > 0) {
            uint32_t best = UINT32_MAX;

            for (uint32_t l = 0; l < s->x->leaf_count; l++) {
                bool is_in = group_of(s, l, level) != group_of(s, anchor, level) || (level < TOPO_LEVELS && !group_of(s, anchor, level)) || idle_of(s, l) < s->segment;

                for (uint32_t i = 0; i < count && !is_in; i++)
                    is_in = net->leaf_number[i] == l;
                if (!is_in && (best == UINT32_MAX || (idle_of(s, l) / s->segment >= left ? idle_of(s, best) / s->segment < left || idle_of(s, l) < idle_of(s, best)
                                                                                         : idle_of(s, l) > idle_of(s, best))))
                    best = l;
            }
            if (best == UINT32_MAX)
                break;
            net->leaf_number[count] = best;
            net->leaves[count] = leaf_of(s, best, false);
            net->leaves[count].take = net->leaves[count].units < left ? net->leaves[count].units : left;
            left -= net->leaves[count++].take;
        }
    if (left)
        return 0;
    keep_best(s, count);
    return count;
}

static uint32_t solve(struct search *s)
{
    uint32_t found;

    if (by_leaf(s) < s->n || s->n % s->segment)
        return 0;
    if (s->t->a.required)
        return solve_required(s);
    found = solve_leaf(s);
    for (uint32_t level = 0; !found && level <= TOPO_LEVELS; level++)
        found = solve_level(s, level);
    return found;
}

/* ---- nodes of the leaves taken ---- */

static void nodes_take(struct search *s, uint32_t count, uint64_t (*quality)(void *arg, uint32_t fit), void *arg)
{
    struct topo_room *room = s->room;

    room->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t leaf = s->net->best_number[i], idle = idle_of(s, leaf), take = s->net->best[i].take * s->segment;
        const uint32_t *fits = s->net->fits + s->net->first[leaf];

        for (uint32_t k = 0; take && k < idle; k++) {
            const struct topo_fit *f = &room->fits[fits[k]];

            room->by_rank.keys[k] = (struct topo_key){ .key = is_required(s->t, f->node) ? 0 : 1 + (quality ? ~quality(arg, fits[k]) >> 1 : f->rank >> 1),
                                                       .weight = is_required(s->t, f->node) ? 0 : f->weight, .fit = fits[k] };
        }
        if (!take)
            continue;
        topo_order_start(&room->by_rank, idle);
        for (uint32_t k = 0; k < take; k++)
            room->chosen[room->count++] = topo_order_at(&room->by_rank, k);
    }
}

static uint32_t leaves_taken(const struct search *s, uint32_t count)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < count; i++)
        taken += s->net->best[i].take > 0;
    return taken;
}

/* The nodes of one NVLink domain: one leaf of it, or the fewest. */
static uint32_t solve_fabric(struct search *s)
{
    struct fabric_cost cost;
    uint32_t count = 0, found;

    if (by_leaf(s) < s->n)
        return 0;
    if ((found = solve_leaf(s)))
        return found;
    for (uint32_t l = 0; l < s->x->leaf_count; l++)
        if (idle_of(s, l) >= s->segment) {
            s->net->leaf_number[count] = l;
            s->net->leaves[count++] = leaf_of(s, l, true);
        }
    if (!fabric_choose(&s->net->fabric, s->net->leaves, count, s->n / s->segment, &cost))
        return 0;
    keep_best(s, count);
    return count;
}

/* NVLink domains that are not the same as leaves: the tightest that holds the job. */
static uint32_t solve_fabrics(struct search *s)
{
    uint32_t *counts = s->net->totals, found = 0;

    if (!s->x->has_fabrics || !s->x->has_leaves || s->n % s->segment)
        return 0;
    memset(counts, 0, (s->x->fabric_count + 1) * sizeof *counts);
    for (uint32_t i = 0; i < s->room->fit_count; i++)
        if (is_candidate(s, &s->room->fits[i]))
            counts[s->x->fabric_of[s->room->fits[i].node]]++;
    for (uint32_t tries = 0; tries < TRIES && !found; tries++) {
        s->fabric = 0;
        for (uint32_t f = 1; f <= s->x->fabric_count; f++)
            if (counts[f] >= s->n && (!s->fabric || counts[f] < counts[s->fabric]))
                s->fabric = f;
        if (!s->fabric)
            break;
        counts[s->fabric] = 0;
        found = solve_fabric(s);
    }
    if (!found)
        s->fabric = 0;
    return found;
}

enum topo_net_answer topo_net_choose(struct topo_net *net, const struct topo_ask *t, struct topo_room *room, const struct topo_index *x,
                                     uint64_t (*quality)(void *arg, uint32_t fit), void *arg)
{
    struct search s = { .net = net, .t = t, .room = room, .x = x, .segment = t->a.segment ? t->a.segment : 1 };
    uint64_t most = t->a.max_nodes, least = t->a.min_nodes, wanted;
    uint32_t tasks_most = 0, rows_most[TOPO_ROWS_MAX] = { 0 };
    bool enough = false;

    if (!net_grow(net, x->leaf_count, room->fit_count, x->group_count > x->fabric_count ? x->group_count : x->fabric_count))
        return TOPO_NET_OPEN;
    net->fabric.budget = FABRIC_EXACT + FABRIC_EXACT / 2;
    most = room->fit_count < most ? room->fit_count : most;
    if (t->a.tasks_set && t->a.tasks < most)
        most = t->a.tasks;
    for (uint32_t i = 0; i < room->fit_count; i++) {
        const struct topo_fit *f = &room->fits[i];

        tasks_most = f->tasks > tasks_most ? f->tasks : tasks_most;
        for (uint32_t k = 0; t->of_job_count && k < t->row_count; k++)
            if (t->rows[k].of_job && f->rows->most[k] > rows_most[k])
                rows_most[k] = f->rows->most[k];
    }
    if (!tasks_most)
        return TOPO_NET_OPEN;
    least = div_up(t->a.tasks, tasks_most) > least ? div_up(t->a.tasks, tasks_most) : least;
    for (uint32_t k = 0; k < t->row_count; k++)
        if (t->rows[k].of_job) {
            if (!rows_most[k])
                return TOPO_NET_OPEN;
            least = div_up(t->rows[k].ask->per_job, rows_most[k]) > least ? div_up(t->rows[k].ask->per_job, rows_most[k]) : least;
            most = t->rows[k].ask->per_job < most ? t->rows[k].ask->per_job : most;
        }
    least = div_up(least, s.segment) * (uint64_t)s.segment;
    wanted = t->a.want_nodes > most ? most : t->a.want_nodes;
    wanted -= wanted % s.segment;
    for (uint32_t try = 0; try < TRIES; try++) {
        /* As many as wanted when they are free, else down to the least; where nothing is wanted, as few as do. */
        uint64_t n = wanted > least ? (try < TRIES - 1 && wanted - (uint64_t)try * s.segment > least ? wanted - (uint64_t)try * s.segment : least)
                                    : least + (uint64_t)try * s.segment;
        uint32_t found = 0;

        if (n < least || n > most)
            break;
        parts_set(&s, (uint32_t)n);
        if (!weight_set(&s))
            continue;
        enough = true;
        s.fabric = 0;
        if (!t->a.required)
            found = solve_fabrics(&s);
        if (!found)
            found = solve(&s);
        if (!found && s.weight != UINT32_MAX) {     /* enough of low weight, but not in whole segments */
            s.weight = UINT32_MAX;
            found = solve(&s);
        }
        if (!found || (t->a.switches && leaves_taken(&s, found) > t->a.switches))
            continue;
        nodes_take(&s, found, quality, arg);
        topo_share(t, room);
        return TOPO_NET_CHOSEN;
    }
    return enough && (t->a.switches || s.segment > 1) ? TOPO_NET_LATER : TOPO_NET_OPEN;
}
