/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - picks the set of nodes: required ones first, then by weight, then as few as possible, the last one as tight as possible.
 *
 * What is left to cover is one number for tasks and one for each row of devices counted over the job. A node that covers all that
 * is left, but a task and a device for each node still owed to min_nodes, ends the search: the first such one by rank, which is the one
 * that leaves the least behind. Else the largest node is taken. Nodes of a lower weight are used up before the next weight is looked at.
 * When that runs into max_nodes, it is tried again without weights, and then with "largest" meaning each of the numbers alone: for tasks
 * alone the last is exact, for several numbers at once it is a good guess at a problem that has no fast exact answer.
 *
 * Tasks are shared out in the order taken, each node as many as fit but one for each that follows, as Slurm does (-N2 -n8 gives 7 and 1).
 * Whole nodes and --spread-job share evenly.
 */
#include "choose.h"

struct need { int64_t tasks, devices[TOPO_ROWS_MAX]; };

static bool key_less(const struct topo_key *a, const struct topo_key *b)
{
    if (a->weight != b->weight)
        return a->weight < b->weight;
    return a->key != b->key ? a->key < b->key : a->fit < b->fit;
}

/* ---- orders, sorted as far as they are looked at ----
 *
 * Most jobs take a few nodes of many: sorting all of 10,000 for them cost ten times what the rest of a decision costs. keys[0 .. sorted) are in
 * order; what follows is a heap that stands on its head, its root in the last place, so that a popped key finds its place free at the front. No
 * memory, no worst case, the same order everywhere. */

static void sift(struct topo_order *o, uint32_t at, uint32_t size, struct topo_key moving)
{
    struct topo_key *root = o->keys + o->count - 1;
    uint32_t child;

    while ((child = 2 * at + 1) < size) {
        if (child + 1 < size && key_less(root - child - 1, root - child))
            child++;
        if (!key_less(root - child, &moving))
            break;
        *(root - at) = *(root - child);
        at = child;
    }
    *(root - at) = moving;
}

void topo_order_start(struct topo_order *o, uint32_t count)
{
    o->count = count;
    o->sorted = 0;
    for (uint32_t at = count / 2; at-- > 0; )
        sift(o, at, count, *(o->keys + count - 1 - at));
}

/* The fit in place `i` of the order. */
uint32_t topo_order_at(struct topo_order *o, uint32_t i)
{
    for (; o->sorted <= i; o->sorted++) {
        struct topo_key least = o->keys[o->count - 1];

        if (o->count - o->sorted > 1)
            sift(o, 0, o->count - o->sorted - 1, o->keys[o->sorted]);
        o->keys[o->sorted] = least;
    }
    return o->keys[i].fit;
}

static bool is_required(const struct topo_ask *t, uint32_t node)
{
    return t->a.required && node / 64 < t->a.node_words && t->a.required[node / 64] >> node % 64 & 1;
}

static void take(const struct topo_ask *t, struct topo_room *room, struct need *need, uint32_t fit)
{
    struct topo_fit *f = &room->fits[fit];

    f->is_taken = true;
    room->chosen[room->count++] = fit;
    need->tasks -= f->tasks;
    for (uint32_t i = 0; i < t->row_count; i++)
        if (t->rows[i].of_job)
            need->devices[i] -= f->rows->most[i];
}

static bool is_covered(const struct topo_ask *t, const struct need *need)
{
    if (need->tasks > 0)
        return false;
    for (uint32_t i = 0; i < t->row_count; i++)
        if (need->devices[i] > 0)
            return false;
    return true;
}

/* Would this node leave no more than one task and the least devices for each of `others` nodes that come anyway? */
static bool covers(const struct topo_ask *t, const struct topo_fit *f, const struct need *need, uint32_t others)
{
    if ((int64_t)f->tasks < need->tasks - others)
        return false;
    for (uint32_t i = 0; t->of_job_count && i < t->row_count; i++)
        if (t->rows[i].of_job && (int64_t)f->rows->most[i] < need->devices[i] - others)
            return false;
    return true;
}

static uint64_t share(uint64_t have, int64_t need)
{
    if (need <= 0)
        return 0;
    return have >= (uint64_t)need ? 1u << 20 : (have << 20) / (uint64_t)need;
}

/* `by`: 0 all numbers together, else 1 for tasks alone, 2 + row for one row. */
static uint64_t size_of(const struct topo_ask *t, const struct topo_fit *f, const struct need *need, uint32_t by)
{
    uint64_t sum = by < 2 ? share(f->tasks, need->tasks) : 0;

    for (uint32_t i = 0; t->of_job_count && i < t->row_count; i++)
        if (t->rows[i].of_job && (by == 0 || by == 2 + i))
            sum += share(f->rows->most[i], need->devices[i]);
    return sum;
}

/* One try over nodes [from, to) of the orders, which is one weight or all. */
static bool try_range(const struct topo_ask *t, struct topo_room *room, struct need *need, uint32_t from, uint32_t to, uint32_t least, uint32_t most,
                      bool in_order)
{
    uint32_t first = from, largest = from;      /* all before these are taken */

    while (room->count < least || !is_covered(t, need)) {
        uint32_t others = least > room->count + 1 ? least - room->count - 1 : 0, best = UINT32_MAX;

        while (first < to && room->fits[topo_order_at(&room->by_rank, first)].is_taken)
            first++;
        while (largest < to && room->fits[topo_order_at(&room->by_size, largest)].is_taken)
            largest++;
        if (first == to || room->count == most)
            return false;
        if (in_order) {
            take(t, room, need, topo_order_at(&room->by_rank, first));
            continue;
        }
        /* With tasks alone the largest one says at once that none covers: a job over all nodes does not become a square. */
        if (t->of_job_count || covers(t, &room->fits[topo_order_at(&room->by_size, largest)], need, others))
            for (uint32_t k = first; k < to && best == UINT32_MAX; k++) {
                const struct topo_fit *f = &room->fits[topo_order_at(&room->by_rank, k)];

                if (!f->is_taken && covers(t, f, need, others))
                    best = topo_order_at(&room->by_rank, k);
            }
        take(t, room, need, best != UINT32_MAX ? best : topo_order_at(&room->by_size, largest));
    }
    return true;
}

static void need_init(const struct topo_ask *t, struct need *need)
{
    need->tasks = t->a.tasks;
    for (uint32_t i = 0; i < t->row_count; i++)
        need->devices[i] = t->rows[i].of_job ? (int64_t)t->rows[i].ask->per_job : 0;
}

static void start_over(const struct topo_ask *t, struct topo_room *room, struct need *need)
{
    need_init(t, need);
    room->count = 0;
    for (uint32_t i = 0; i < room->fit_count; i++)
        room->fits[i].is_taken = false;
    for (uint32_t i = 0; t->a.required && i < room->fit_count; i++)
        if (is_required(t, room->fits[i].node))
            take(t, room, need, i);
}

static void orders_make(const struct topo_ask *t, struct topo_room *room, const struct need *need, bool by_weight, uint32_t by)
{
    for (uint32_t i = 0; i < room->fit_count; i++) {
        const struct topo_fit *f = &room->fits[i];
        /* Equal sizes go by rank; 39 bits of it are enough to tell used from unused and the tighter from the wider. */
        uint64_t size = size_of(t, f, need, by);

        room->by_rank.keys[i] = (struct topo_key){ .key = f->rank, .weight = by_weight ? f->weight : 0, .fit = i };
        room->by_size.keys[i] = (struct topo_key){ .key = (UINT64_C(0x1ffffff) - size) << 39 | f->rank >> 25, .weight = by_weight ? f->weight : 0, .fit = i };
    }
    topo_order_start(&room->by_rank, room->fit_count);
    topo_order_start(&room->by_size, room->fit_count);
}

static bool try_all(const struct topo_ask *t, struct topo_room *room, bool by_weight, bool in_order, uint32_t by, uint32_t least, uint32_t most)
{
    struct need need;

    start_over(t, room, &need);
    if (room->count > most)
        return false;
    if (room->count >= least && is_covered(t, &need))
        return true;
    orders_make(t, room, &need, by_weight, by);
    for (uint32_t from = 0, to; from < room->fit_count; from = to) {
        uint32_t weight = room->fits[topo_order_at(&room->by_rank, from)].weight;

        to = by_weight ? from : room->fit_count;
        for (uint32_t i = 0; by_weight && i < room->fit_count; i++)
            to += room->fits[i].weight == weight;
        if (try_range(t, room, &need, from, to, least, most, in_order))
            return true;
        if (room->count == most)
            return false;
    }
    return false;
}

/* Neighbours in the node table only. The shortest row that holds the job, the tightest of those; fits are in the order of nodes. */
static bool try_contiguous(const struct topo_ask *t, struct topo_room *room, uint32_t least, uint32_t most)
{
    uint32_t required = 0, best_first = 0, best_count = UINT32_MAX;
    uint64_t best_rank = 0;

    for (uint32_t i = 0; i < room->fit_count; i++)
        required += is_required(t, room->fits[i].node);
    for (uint32_t first = 0; first < room->fit_count; first++) {
        struct need need;
        uint32_t has_required = 0, i;
        uint64_t rank = 0;

        need_init(t, &need);
        room->count = 0;
        for (i = first; i < room->fit_count && room->count < most; i++) {
            if (i > first && room->fits[i].node != room->fits[i - 1].node + 1)
                break;
            take(t, room, &need, i);
            rank += room->fits[i].weight + (room->fits[i].rank >> 62);
            has_required += is_required(t, room->fits[i].node);
            if (room->count >= least && has_required == required && is_covered(t, &need))
                break;
        }
        if (room->count < least || has_required != required || !is_covered(t, &need))
            continue;
        if (room->count < best_count || (room->count == best_count && rank < best_rank)) {
            best_first = first;
            best_count = room->count;
            best_rank = rank;
        }
    }
    if (best_count == UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < best_count; i++)
        room->chosen[i] = best_first + i;
    room->count = best_count;
    return true;
}

static bool try_count(const struct topo_ask *t, struct topo_room *room, uint32_t least, uint32_t most)
{
    bool in_order = (t->a.cr & SPUR_CR_LLN) || t->a.spread;

    if (t->a.contiguous)
        return try_contiguous(t, room, least, most);
    if (try_all(t, room, true, in_order, 0, least, most) || try_all(t, room, false, false, 0, least, most))
        return true;
    if (t->of_job_count && try_all(t, room, false, false, 1, least, most))
        return true;
    for (uint32_t i = 0; t->of_job_count && i < t->row_count; i++)
        if (t->rows[i].of_job && try_all(t, room, false, false, 2 + i, least, most))
            return true;
    return false;
}

/* ---- sharing out ---- */

/* Each of `count` nodes gets its least, then as much as fits in the order taken, or evenly. */
static void share_out(uint32_t *out, const uint32_t *least, const uint32_t *most, uint32_t count, uint64_t total, bool evenly)
{
    uint64_t left = total;

    for (uint32_t i = 0; i < count; i++) {
        out[i] = least[i];
        left -= least[i] < left ? least[i] : left;
    }
    while (left > 0) {
        uint64_t before = left, each = left / count;

        for (uint32_t i = 0; i < count && left > 0; i++) {
            uint64_t free = most[i] - out[i], give = evenly ? (each ? each : 1) : left;

            if (give > free)
                give = free;
            if (give > left)
                give = left;
            out[i] += (uint32_t)give;
            left -= give;
        }
        if (left == before)
            break;
    }
}

static void share_tasks(const struct topo_ask *t, struct topo_room *room)
{
    const struct spur_ask *a = &t->a;
    uint32_t each = a->tasks_per_node && !a->tasks_set ? a->tasks_per_node : 1;
    uint64_t total = a->tasks;

    if (!a->tasks_set && total < (uint64_t)room->count * each)
        total = (uint64_t)room->count * each;
    for (uint32_t i = 0; i < room->count; i++) {
        room->least[i] = each;
        room->most[i] = room->fits[room->chosen[i]].tasks;
    }
    share_out(room->tasks, room->least, room->most, room->count, total, a->spread || a->overcommit || (a->exclusive && !(a->cr & SPUR_CR_PACK)));
}

/* Evenly where the user gave the number of nodes, else as full as the nodes were taken. */
static void share_devices(const struct topo_ask *t, struct topo_room *room, uint32_t row)
{
    for (uint32_t i = 0; i < room->count; i++) {
        room->least[i] = room->fits[room->chosen[i]].rows->least[row];
        room->most[i] = room->fits[room->chosen[i]].rows->most[row];
    }
    share_out(room->shares, room->least, room->most, room->count, t->rows[row].ask->per_job, t->a.spread || room->count == t->a.min_nodes);
    for (uint32_t i = 0; i < room->count; i++)
        room->devices[i][row] = room->shares[i];
}

void topo_share(const struct topo_ask *t, struct topo_room *room)
{
    share_tasks(t, room);
    for (uint32_t i = 0; i < t->row_count; i++)
        if (t->rows[i].of_job)
            share_devices(t, room, i);
}

static void lack_find(const struct topo_ask *t, const struct topo_room *room, uint32_t most, enum topo_lack *lack, uint32_t *which)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < t->row_count; i++) {
        if (!t->rows[i].of_job)
            continue;
        sum = 0;
        for (uint32_t k = 0; k < room->fit_count; k++)
            sum += room->fits[k].rows->most[i];
        if (sum < t->rows[i].ask->per_job) {
            *lack = TOPO_LACK_DEVICES;
            *which = i;
            return;
        }
    }
    sum = 0;
    for (uint32_t k = 0; k < room->fit_count; k++)
        sum += room->fits[k].tasks;
    *lack = sum < t->a.tasks ? TOPO_LACK_TASKS : t->a.contiguous ? TOPO_LACK_CONTIGUOUS : TOPO_LACK_NODES;
    *which = most;
}

bool topo_choose(const struct topo_ask *t, struct topo_room *room, enum topo_lack *lack, uint32_t *which)
{
    const struct spur_ask *a = &t->a;
    uint64_t most = a->max_nodes, least = a->min_nodes, wanted;
    bool is_found;

    for (uint32_t word = 0; a->required && word < a->node_words; word++)
        for (uint64_t bits = a->required[word]; bits; bits &= bits - 1) {
            uint32_t node = word * 64 + (uint32_t)__builtin_ctzll(bits);

            if (node >= room->room || !room->at[node]) {
                *lack = TOPO_LACK_REQUIRED;
                *which = node;
                return false;
            }
        }
    if (room->fit_count < most)
        most = room->fit_count;
    if (a->tasks_set && a->tasks < most)
        most = a->tasks;                        /* a node without a task is none */
    for (uint32_t i = 0; i < t->row_count; i++)
        if (t->rows[i].of_job && t->rows[i].ask->per_job < most)
            most = t->rows[i].ask->per_job;
    if (least > most) {
        *lack = TOPO_LACK_NODES;
        *which = (uint32_t)most;
        lack_find(t, room, (uint32_t)most, lack, which);
        return false;
    }
    wanted = a->spread ? most : a->want_nodes > most ? most : a->want_nodes;
    is_found = wanted > least && try_count(t, room, (uint32_t)wanted, (uint32_t)most);
    /* Fewer than wanted: in a row of neighbours each number is another question, elsewhere only the least is. */
    while (!is_found && a->contiguous && wanted > least + 1)
        is_found = try_count(t, room, (uint32_t)--wanted, (uint32_t)most);
    if (!is_found && !try_count(t, room, (uint32_t)least, (uint32_t)most)) {
        lack_find(t, room, (uint32_t)most, lack, which);
        return false;
    }
    topo_share(t, room);
    *lack = TOPO_LACK_NONE;
    return true;
}
