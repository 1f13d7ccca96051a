/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - whole nodes: a job gets every core of the nodes it runs on, and a node has one job at a time.
 *
 * Nodes are a line. Among those of the lowest weight the shortest run of neighbours that holds the job is taken, then single nodes in
 * order of weight and position; when the job's maximum of nodes is too small for that, the nodes with the most CPUs. Keeps no index: each
 * call looks at the view, which costs one pass over the nodes (about 50 us for 10,000). "Never" is the same search with every allowed node empty.
 */
#include <stdlib.h>
#include <spur/select.h>

/* Why a node cannot hold any part of a job, in the order in which they are told. */
enum lack { LACK_NOTHING = 0, LACK_CPUS, LACK_SHAPE, LACK_MEMORY, LACK_GRES, LACK_KINDS };
static const char *const lack_words[] = { "", "too few CPUs", "too few sockets or cores", "too little memory", "too few generic resources" };

struct candidate {
    uint32_t node, weight, tasks;       /* tasks: most it can hold */
    uint64_t cpus;
    bool     required;
};

/* What idle nodes of equal hardware can hold, found once a call. */
#define CLASSES 64
struct class_room { uint32_t class_id, tasks; enum lack lack; };

/* The instance: only memory that is used again. */
struct linear { struct candidate *nodes; uint32_t room; };

struct search {
    const struct spur_view *view;
    const struct spur_ask *ask;
    bool     as_empty;                  /* every allowed node, as if nothing ran on it */
    struct candidate *nodes; uint32_t count;
    uint32_t allowed, required, required_found;
    uint32_t lacks[LACK_KINDS];
    struct class_room classes[CLASSES];
};

static int linear_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, sizeof(struct linear))))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    return 0;
}

static void linear_close(void *self)
{
    struct linear *l = self;

    if (l)
        free(l->nodes);
    free(l);
}

static int linear_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    (void)self;
    (void)conf;
    (void)err;
    return 0;
}

static bool bit(const uint64_t *words, uint32_t i)
{
    return words && (words[i / 64] >> (i % 64) & 1);
}

static const struct spur_gres_ask *ask_gres(const struct spur_ask *ask, uint32_t i)
{
    return (const struct spur_gres_ask *)(const void *)((const char *)ask->gres + (size_t)i * ask->gres_size);
}

static const struct spur_gres_view *node_gres(const struct spur_node_view *n, uint32_t i)
{
    return (const struct spur_gres_view *)(const void *)((const char *)n->gres + (size_t)i * n->gres_size);
}

static bool gres_is(const struct spur_gres_view *have, const struct spur_gres_ask *want)
{
    return strcmp(have->name, want->name) == 0 && (!want->type || !*want->type || strcmp(have->type ? have->type : "", want->type) == 0);
}

static uint64_t gres_free(const struct spur_gres_view *g, bool as_empty)
{
    if (as_empty)
        return g->total;
    return g->all_mask ? (uint64_t)__builtin_popcountll(g->free_mask) : g->total > g->used ? g->total - g->used : 0;
}

/* How much of row i of the ask a node has. */
static uint64_t gres_room(const struct search *s, const struct spur_node_view *n, uint32_t i)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < n->gres_count; k++)
        if (gres_is(node_gres(n, k), ask_gres(s->ask, i)))
            sum += gres_free(node_gres(n, k), s->as_empty);
    return sum;
}

static uint32_t cores_of(const struct spur_node_view *n)
{
    return n->sockets * n->cores_per_socket;
}

static uint32_t least(uint32_t a, uint64_t b)
{
    return b < a ? (uint32_t)b : a;
}

/* The memory a node must have for `tasks` tasks of the job with `cpus` CPUs, whatever way it was asked for. */
static uint64_t memory_of(const struct spur_ask *ask, const struct spur_node_view *n, uint64_t cpus, uint64_t gpus)
{
    if (ask->mem_per_node == SPUR_MEM_ALL || ask->mem_per_cpu == SPUR_MEM_ALL)
        return n->mem_total;
    if (ask->mem_per_node)
        return ask->mem_per_node;
    return ask->mem_per_cpu ? ask->mem_per_cpu * cpus : ask->mem_per_gpu * gpus;
}

static uint64_t gpus_a_node(const struct spur_ask *ask, const struct spur_node_view *n)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < ask->gres_count; i++)
        if (strcmp(ask_gres(ask, i)->name, "gpu") == 0)
            sum += ask_gres(ask, i)->per_node + ask_gres(ask, i)->per_socket * n->sockets;
    return sum;
}

/* How many tasks of the job one node can hold, 0 with the reason. */
static uint32_t tasks_of(const struct search *s, const struct spur_node_view *n, enum lack *lack)
{
    const struct spur_ask *ask = s->ask;
    uint32_t threads = n->threads_per_core, cores = cores_of(n), tasks;
    uint64_t cpus = n->cpus, memory = s->as_empty ? n->mem_total : n->mem_free, gpus = gpus_a_node(ask, n);

    if (ask->threads_per_core && ask->threads_per_core < threads)
        threads = ask->threads_per_core;
    cpus = least((uint32_t)cpus, (uint64_t)cores * threads);
    if (ask->max_cpus_per_node && cpus > ask->max_cpus_per_node)
        cpus = ask->max_cpus_per_node;
    *lack = LACK_CPUS;
    if (cpus < ask->min_cpus_node || cpus < ask->cpus_per_task || cpus < (uint64_t)ask->cpus_per_gpu * gpus)
        return 0;
    *lack = LACK_SHAPE;
    if (n->sockets < ask->min_sockets || n->cores_per_socket < ask->min_cores_per_socket || n->threads_per_core < ask->threads_per_core)
        return 0;
    tasks = ask->overcommit ? UINT32_MAX : (uint32_t)(cpus / ask->cpus_per_task);
    if (!ask->overcommit && (ask->cr & SPUR_CR_ONE_TASK_PER_CORE))
        tasks = least(tasks, cores);
    if (ask->tasks_per_core)
        tasks = least(tasks, (uint64_t)cores * ask->tasks_per_core);
    if (ask->tasks_per_socket)
        tasks = least(tasks, (uint64_t)n->sockets * ask->tasks_per_socket);
    if (ask->tasks_per_node) {
        *lack = LACK_CPUS;
        if (tasks < ask->tasks_per_node && ask->tasks >= (uint64_t)ask->tasks_per_node * ask->min_nodes)
            return 0;
        tasks = least(tasks, ask->tasks_per_node);
    }

    /* Without CR_Memory memory is not handed out, but a node that is too small for the job never fits. */
    *lack = LACK_MEMORY;
    if (!(ask->cr & SPUR_CR_MEMORY))
        memory = n->mem_total;
    if (memory_of(ask, n, ask->cpus_per_task, gpus) > memory)
        return 0;
    if (ask->mem_per_cpu && ask->mem_per_cpu != SPUR_MEM_ALL)
        tasks = least(tasks, memory / ask->mem_per_cpu / ask->cpus_per_task);

    *lack = LACK_GRES;
    for (uint32_t i = 0; i < ask->gres_count; i++) {
        const struct spur_gres_ask *want = ask_gres(ask, i);
        uint64_t room = gres_room(s, n, i);

        if (room < want->per_node || room < want->per_socket * n->sockets || (want->per_job && room == 0))
            return 0;
        if (want->per_task)
            tasks = least(tasks, room / want->per_task);
        if (tasks == 0)
            return 0;
    }
    *lack = tasks ? LACK_NOTHING : LACK_CPUS;
    return tasks;
}

/* Has an idle node all that its class has? A faulty device or memory that is set aside makes it a case of its own. */
static bool is_whole(const struct search *s, const struct spur_node_view *n)
{
    if (n->mem_free != n->mem_total)
        return false;
    for (uint32_t k = 0; k < n->gres_count && s->ask->gres_count; k++)
        if (node_gres(n, k)->free_mask != node_gres(n, k)->all_mask || node_gres(n, k)->used)
            return false;
    return true;
}

/* tasks_of, remembered for the nodes of one class that are idle or looked at as if they were. */
static uint32_t tasks_of_class(struct search *s, const struct spur_node_view *n, enum lack *lack)
{
    struct class_room *c = &s->classes[n->class_id % CLASSES];

    if (!n->class_id || (!s->as_empty && !is_whole(s, n)))
        return tasks_of(s, n, lack);
    if (c->class_id != n->class_id) {
        c->tasks = tasks_of(s, n, &c->lack);
        c->class_id = n->class_id;
    }
    *lack = c->lack;
    return c->tasks;
}

static void candidates(struct search *s)
{
    const struct spur_ask *ask = s->ask;

    for (uint32_t i = 0; i < s->view->node_count; i++) {
        const struct spur_node_view *n = spur_view_node(s->view, i);
        bool required = bit(ask->required, i);
        enum lack lack;
        uint32_t tasks;

        s->required += required;
        if (!bit(ask->allowed, i))
            continue;
        s->allowed++;
        if (!s->as_empty && (!(n->flags & SPUR_NODE_USABLE) || n->jobs || (n->flags & SPUR_NODE_EXCLUSIVE)))
            continue;
        if (!(tasks = tasks_of_class(s, n, &lack))) {
            s->lacks[lack]++;
            continue;
        }
        s->required_found += required;
        s->nodes[s->count++] = (struct candidate){ i, n->weight, tasks, n->cpus, required };
    }
}

/* What is still missing while nodes are added one by one. */
struct tally { uint64_t tasks; uint32_t nodes; uint64_t gres[SPUR_PICKS_MAX]; };

static void tally_add(const struct search *s, struct tally *t, const struct candidate *c)
{
    t->tasks += c->tasks;
    t->nodes++;
    for (uint32_t i = 0; i < s->ask->gres_count && i < SPUR_PICKS_MAX; i++)
        t->gres[i] += gres_room(s, spur_view_node(s->view, c->node), i);
}

static bool tally_is_enough(const struct search *s, const struct tally *t)
{
    if (t->nodes < s->ask->min_nodes || t->tasks < s->ask->tasks)
        return false;
    for (uint32_t i = 0; i < s->ask->gres_count && i < SPUR_PICKS_MAX; i++)
        if (t->gres[i] < ask_gres(s->ask, i)->per_job)
            return false;
    return true;
}

static int by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->required != y->required)
        return x->required ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int by_size(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->required != y->required)
        return x->required ? -1 : 1;
    if (x->tasks != y->tasks)
        return x->tasks > y->tasks ? -1 : 1;
    return by_weight(a, b);
}

/* Brings the nodes of the lowest weight to the front, in their order; how many. The order of the others is lost. */
static uint32_t lightest_first(struct search *s)
{
    uint32_t weight = UINT32_MAX, n = 0;

    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].weight < weight)
            weight = s->nodes[i].weight;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->nodes[i].weight == weight) {
            struct candidate c = s->nodes[i];

            if (i != n) {
                s->nodes[i] = s->nodes[n];
                s->nodes[n] = c;
            }
            n++;
        }
    }
    return n;
}

/* The most nodes the job may get, and how many it is glad to have. A node without a task would be held for nothing. */
static uint32_t most(const struct search *s, uint32_t room)
{
    uint32_t limit = s->ask->max_nodes < room ? s->ask->max_nodes : room;

    if (s->ask->tasks_set && s->ask->tasks >= s->ask->min_nodes && s->ask->tasks < limit)
        limit = s->ask->tasks;
    return limit;
}

static uint32_t wanted(const struct search *s, uint32_t room)
{
    uint32_t want = SPUR_COVERS(s->ask, want_nodes) ? s->ask->want_nodes : 0;

    if (s->ask->spread)
        want = s->ask->max_nodes < s->ask->tasks ? s->ask->max_nodes : s->ask->tasks;
    return want > most(s, room) ? most(s, room) : want;
}

/* The first nodes of the list that hold the job: how many, 0 when at most `room` do not. All required nodes stand in front. */
static uint32_t prefix(const struct search *s, const struct candidate *list, uint32_t count, uint32_t room)
{
    struct tally t = { 0 };
    uint32_t limit = most(s, room), want = wanted(s, room);
    bool is_enough = false;

    for (uint32_t i = 0; i < count && i < limit; i++) {
        tally_add(s, &t, &list[i]);
        is_enough = tally_is_enough(s, &t) && i + 1 >= s->required;
        if (is_enough && i + 1 >= want)
            return i + 1;
    }
    return is_enough ? t.nodes : 0;
}

/* The shortest run of neighbours among the first `count` that holds the job. First node's place in *from. */
static uint32_t run_find(const struct search *s, uint32_t count, uint32_t room, uint32_t *from)
{
    uint32_t best = 0, start = 0, length = 0;

    while (start < count) {
        uint32_t end = start + 1;

        while (end < count && s->nodes[end].node == s->nodes[end - 1].node + 1)
            end++;
        for (uint32_t at = start; at < end; at++) {
            struct tally t = { 0 };
            uint32_t i, found = 0, required = 0;

            for (i = at; i < end && t.nodes < most(s, room) && !found; i++) {
                tally_add(s, &t, &s->nodes[i]);
                required += s->nodes[i].required;
                if (tally_is_enough(s, &t) && required == s->required && t.nodes >= wanted(s, room))
                    found = t.nodes;
            }
            /* From here on there is only less of this run, unless it was the limit of nodes that ended the search. */
            if (!found && i == end)
                break;
            if (!found)
                continue;
            /* A run of just the right length wins over the beginning of a longer one: long runs stay whole for long jobs. */
            if (!best || found < best || (found == best && end - start < length)) {
                best = found;
                length = end - start;
                *from = at;
            }
            break;
        }
        start = end;
    }
    return best;
}

/* What a node adds to what is still missing, each kind of want weighing the same. */
static double worth(const struct search *s, const struct tally *t, const struct candidate *c)
{
    double sum = 0, need = s->ask->tasks;

    if (t->tasks < s->ask->tasks)
        sum += (c->tasks < need - (double)t->tasks ? c->tasks : need - (double)t->tasks) / need;
    for (uint32_t i = 0; i < s->ask->gres_count && i < SPUR_PICKS_MAX; i++) {
        double room = (double)gres_room(s, spur_view_node(s->view, c->node), i), left;

        need = (double)ask_gres(s->ask, i)->per_job;
        left = need - (double)t->gres[i];
        if (left > 0)
            sum += (room < left ? room : left) / need;
    }
    return sum;
}

/* The last resort when CPUs lie on some nodes and devices on others: always the node that brings the job furthest. */
static void order_by_need(struct search *s, uint32_t room)
{
    struct tally t = { 0 };

    for (uint32_t i = 0; i < s->count && i < most(s, room); i++) {
        uint32_t best = i;
        double best_worth = -1;
        struct candidate c;

        for (uint32_t k = i; k < s->count && !s->nodes[i].required; k++) {
            double w = worth(s, &t, &s->nodes[k]);

            if (w > best_worth) {
                best = k;
                best_worth = w;
            }
        }
        c = s->nodes[best];
        s->nodes[best] = s->nodes[i];
        s->nodes[i] = c;
        tally_add(s, &t, &c);
    }
}

/* Chooses; leaves the chosen ones at s->nodes[*from..]. */
static uint32_t choose(struct search *s, uint32_t room, uint32_t *from)
{
    uint32_t n, run, lightest;

    *from = 0;
    if (s->required_found < s->required)
        return 0;
    if (s->ask->contiguous)
        return run_find(s, s->count, room, from);
    if (s->count == 0)
        return 0;
    /* The common case without sorting: the nodes of the lowest weight, which stand in their order, are enough. */
    if (s->required == 0 && (n = prefix(s, s->nodes, lightest = lightest_first(s), room))) {
        if ((run = run_find(s, lightest, room, from)) && run <= n)
            return run;
        *from = 0;
        return n;
    }
    qsort(s->nodes, s->count, sizeof *s->nodes, by_weight);
    if ((n = prefix(s, s->nodes, s->count, room)))
        return n;
    qsort(s->nodes, s->count, sizeof *s->nodes, by_size);
    if ((n = prefix(s, s->nodes, s->count, room)))
        return n;
    order_by_need(s, room);
    return prefix(s, s->nodes, s->count, room);
}

/* Takes `count` of row `i` from a node, lowest devices first; of every kind when `i` is SPUR_ASK_NONE. */
static void gres_take(const struct search *s, const struct spur_node_view *n, uint32_t i, uint64_t count, struct spur_node_pick *pick)
{
    for (uint32_t k = 0; k < n->gres_count && count && pick->gres_count < SPUR_PICKS_MAX; k++) {
        const struct spur_gres_view *g = node_gres(n, k);
        uint64_t n_here, mask = 0, left = s->as_empty ? g->all_mask : g->free_mask;

        if (i != SPUR_ASK_NONE && !gres_is(g, ask_gres(s->ask, i)))
            continue;
        /* Two rows of the ask may match one resource ("gpu:1,gpu:a:1"): what the first took is gone. */
        n_here = gres_free(g, s->as_empty);
        for (uint32_t p = 0; p < pick->gres_count; p++) {
            if (pick->gres[p].gres == k) {
                n_here -= pick->gres[p].count;
                left &= ~pick->gres[p].mask;
            }
        }
        if (n_here > count)
            n_here = count;
        if (n_here == 0)
            continue;
        for (uint64_t need = g->all_mask ? n_here : 0; need; need--) {
            mask |= left & -left;
            left &= left - 1;
        }
        pick->gres[pick->gres_count++] = (struct spur_gres_pick){ i, k, n_here, mask };
        count -= n_here;
    }
}

static void fill(const struct search *s, const struct candidate *chosen, uint32_t count, struct spur_placement *out)
{
    uint64_t tasks_left = s->ask->tasks, later = 0, gres_left[SPUR_PICKS_MAX];

    for (uint32_t k = 0; k < count; k++)
        later += chosen[k].tasks;
    for (uint32_t i = 0; i < s->ask->gres_count && i < SPUR_PICKS_MAX; i++)
        gres_left[i] = ask_gres(s->ask, i)->per_job;
    for (uint32_t k = 0; k < count; k++) {
        const struct spur_node_view *n = spur_view_node(s->view, chosen[k].node);
        struct spur_node_pick *pick = spur_placement_pick(out, k);
        uint64_t after = count - k - 1, share = tasks_left > after ? tasks_left - after : 1, gpus = 0;

        pick->node = chosen[k].node;
        pick->cpus = n->cpus;
        /* Block by block, as Slurm's default distribution: a node is filled before the next, which keeps one task for each node after it. */
        later -= chosen[k].tasks;
        if (s->ask->overcommit && tasks_left) {     /* no CPU count says when a node is full: evenly, but never more than later nodes can make good */
            share = (tasks_left + after) / (after + 1);
            if (tasks_left > later && share < tasks_left - later)
                share = tasks_left - later;
        }
        pick->tasks = least(chosen[k].tasks, share);
        tasks_left -= pick->tasks < tasks_left ? pick->tasks : tasks_left;
        memset(pick->cores, 0, pick->core_words * sizeof *pick->cores);
        for (uint32_t c = 0; c < cores_of(n) && c / 64 < pick->core_words; c++)
            pick->cores[c / 64] |= UINT64_C(1) << (c % 64);
        pick->gres_count = 0;
        for (uint32_t i = 0; i < s->ask->gres_count && i < SPUR_PICKS_MAX; i++) {
            const struct spur_gres_ask *want = ask_gres(s->ask, i);
            uint64_t take = want->per_node;

            if (want->per_socket * n->sockets > take)
                take = want->per_socket * n->sockets;
            if (want->per_task * pick->tasks > take)
                take = want->per_task * pick->tasks;
            if (want->per_job) {
                uint64_t have = gres_room(s, n, i), spare = gres_left[i] > after ? gres_left[i] - after : gres_left[i] ? 1 : 0;

                take = have < spare ? have : spare;
                gres_left[i] -= take;
            }
            gres_take(s, n, i, take, pick);
            if (strcmp(want->name, "gpu") == 0)
                gpus += take;
        }
        if (s->ask->exclusive)      /* the job asked to have the node for itself: its devices too */
            gres_take(s, n, SPUR_ASK_NONE, UINT64_MAX, pick);
        pick->mem = 0;
        if (s->ask->cr & SPUR_CR_MEMORY) {
            pick->mem = memory_of(s->ask, n, n->cpus, gpus);
            if (pick->mem == 0 || pick->mem > n->mem_free)
                pick->mem = n->mem_free;
        }
    }
    out->pick_count = count;
    out->score = 1;
}

static int never(const struct search *s, uint32_t room, struct spur_error *err)
{
    const struct spur_ask *ask = s->ask;
    enum lack worst = LACK_NOTHING;

    if (s->allowed == 0)
        return spur_fail(err, SPUR_ENEVER, "no node is allowed for this job");
    if (s->required_found < s->required)
        return spur_fail(err, SPUR_ENEVER, "%u of the %u nodes that must be in cannot hold a part of the job or are not allowed", s->required - s->required_found,
                         s->required);
    if (s->required > most(s, room))
        return spur_fail(err, SPUR_ENEVER, "%u nodes must be in, at most %u may be used", s->required, most(s, room));
    for (enum lack l = LACK_CPUS; l < LACK_KINDS; l++)
        if (s->lacks[l] && (!worst || s->lacks[l] > s->lacks[worst]))
            worst = l;
    if (s->count < ask->min_nodes)
        return spur_fail(err, SPUR_ENEVER, "%u nodes are asked for, %u of the %u allowed can hold a part of the job%s%s%s", ask->min_nodes, s->count, s->allowed,
                         worst ? " (the others have " : "", lack_words[worst], worst ? ")" : "");
    return spur_fail(err, SPUR_ENEVER, "%u tasks of %u CPUs do not fit on %u%s nodes (%u can hold a part of the job)%s", ask->tasks, ask->cpus_per_task,
                     most(s, room) < s->count ? most(s, room) : s->count, ask->contiguous ? " neighbouring" : "", s->count,
                     ask->gres_count ? ", or their generic resources do not add up" : "");
}

static int linear_place(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_placement *out, struct spur_error *err)
{
    struct search s = { .view = view, .ask = ask };
    struct linear *l = self;
    uint32_t from, count;

    if (ask->gres_count > SPUR_PICKS_MAX)
        return spur_fail(err, SPUR_ELIMIT, "%u kinds of generic resources are asked for, at most %d can be", ask->gres_count, SPUR_PICKS_MAX);
    if (view->node_count > l->room) {
        struct candidate *more = realloc(l->nodes, view->node_count * sizeof *more);

        if (!more)
            return spur_fail(err, SPUR_ENOMEM, "out of memory");
        l->nodes = more;
        l->room = view->node_count;
    }
    s.nodes = l->nodes;
    candidates(&s);
    count = choose(&s, out->pick_room, &from);
    if (count) {
        fill(&s, s.nodes + from, count, out);
        return 0;
    }
    s.as_empty = true;
    s.count = s.allowed = s.required = s.required_found = 0;
    memset(s.lacks, 0, sizeof s.lacks);
    memset(s.classes, 0, sizeof s.classes);
    candidates(&s);
    if (choose(&s, out->pick_room, &from))
        return spur_fail(err, SPUR_ELATER, "fits, but not enough whole nodes are free now");
    return never(&s, out->pick_room, err);
}

static int linear_explain(void *self, const struct spur_placement *out, char *buf, size_t len)
{
    (void)self;
    snprintf(buf, len, "%u whole node%s, lowest weight first", out->pick_count, out->pick_count == 1 ? "" : "s");
    return 0;
}

static const struct spur_select_ops linear_ops = { .size = sizeof linear_ops, .place = linear_place, .explain = linear_explain };

SPUR_PLUGIN(select, linear, .about = "whole nodes, one job on each",
            .ops = &linear_ops, .open = linear_open, .reload = linear_reload, .close = linear_close);
