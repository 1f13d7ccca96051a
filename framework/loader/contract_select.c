/* SPDX-License-Identifier: Apache-2.0 */
/* contract_select.c - promises of a select plugin: what it hands out is free, allowed, enough, and counted once.
 *
 * Clusters are made here, small enough to reason about or random. Their elements are longer than the plugin knows them, so every case
 * also shows that arrays are walked with the sizes given. Quality (which GPUs, which leaf) is each plugin's own affair and tested beside it.
 */
#include <stdlib.h>
#include <string.h>
#include <spur/select.h>

#include "loader/contract.h"

#define NODES 24
#define WORDS 4         /* of a node's core bitmap */

struct wide_gres { struct spur_gres_view gres; char more[16]; };
struct wide_node { struct spur_node_view node; char more[40]; };
struct wide_pick { struct spur_node_pick pick; char more[24]; };
struct wide_ask { struct spur_ask ask; char more[32]; };

/* A cluster, one wish and the room for its placement, in one piece, so that a changed byte can be seen. */
struct bed {
    struct wide_node nodes[NODES];
    struct wide_gres gres[NODES][2];
    uint64_t cores[NODES][WORDS];
    char names[NODES][8];
    struct spur_view view;
    uint64_t allowed[1], required[1];
    struct { struct spur_gres_ask gres; char more[8]; } wishes[3];
    struct wide_ask ask;
};
struct places {
    struct wide_pick picks[NODES];
    uint64_t cores[NODES][WORDS];
    struct spur_placement out;
};

static struct spur_node_view *node_of(struct bed *b, uint32_t i) { return &b->nodes[i].node; }

static uint64_t mask_of(uint32_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

/* Node i is all free: `gpus` devices, and a count-only resource "licence". */
static void node_make(struct bed *b, uint32_t i, uint32_t sockets, uint32_t cores, uint32_t threads, uint64_t mem, uint32_t gpus)
{
    struct spur_node_view *n = node_of(b, i);
    uint32_t all = sockets * cores;

    snprintf(b->names[i], sizeof b->names[i], "n%u", i);
    b->gres[i][0].gres = (struct spur_gres_view){ "gpu", "a100", 1, 1, gpus, 0, mask_of(gpus), mask_of(gpus) };
    b->gres[i][1].gres = (struct spur_gres_view){ "licence", "", 2, 0, 10, 0, 0, 0 };
    memset(b->cores[i], 0, sizeof b->cores[i]);
    for (uint32_t c = 0; c < all; c++)
        b->cores[i][c / 64] |= UINT64_C(1) << (c % 64);
    *n = (struct spur_node_view){
        .index = i, .flags = SPUR_NODE_USABLE | SPUR_NODE_IDLE, .name = b->names[i], .features = "", .weight = 1, .sockets = sockets,
        .cores_per_socket = cores, .threads_per_core = threads, .cpus = all * threads, .mem_total = mem, .mem_free = mem, .core_free = b->cores[i],
        .core_words = WORDS, .cpus_free = all * threads, .gres = &b->gres[i][0].gres, .gres_count = 2, .gres_size = sizeof(struct wide_gres),
        .class_id = 0 };
}

/* A job takes cores [0, cores), GPUs [0, gpus) and memory of node i. */
static void node_use(struct bed *b, uint32_t i, uint32_t cores, uint32_t gpus, uint64_t mem)
{
    struct spur_node_view *n = node_of(b, i);

    for (uint32_t c = 0; c < cores; c++)
        b->cores[i][c / 64] &= ~(UINT64_C(1) << (c % 64));
    n->cpus_free = n->cpus - cores * n->threads_per_core;
    n->mem_free = n->mem_total - mem;
    b->gres[i][0].gres.used = gpus;
    b->gres[i][0].gres.free_mask = b->gres[i][0].gres.all_mask & ~mask_of(gpus);
    n->flags &= ~SPUR_NODE_IDLE;
    n->jobs = 1;
}

static void bed_make(struct bed *b, uint32_t count)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < count; i++)
        node_make(b, i, 2, 8, 2, 64000, 4);
    b->view = (struct spur_view){ .size = sizeof b->view, .node_size = sizeof(struct wide_node), .version = 1, .nodes = b->nodes, .node_count = count };
    b->allowed[0] = mask_of(count);
    b->ask.ask = (struct spur_ask){
        .size = sizeof b->ask, .job_id = 1, .min_nodes = 1, .max_nodes = UINT32_MAX, .tasks = 1, .cpus_per_task = 1,
        .gres = &b->wishes[0].gres, .gres_size = sizeof b->wishes[0], .allowed = b->allowed, .node_words = 1, .cr = SPUR_CR_CORE | SPUR_CR_MEMORY };
}

static int place(struct contract *c, struct loaded *l, struct bed *b, struct places *p, struct spur_error *err)
{
    const struct spur_select_ops *ops = loader_ops(l);
    struct bed *before = contract_alloc(c, sizeof *before);
    int rc;

    memset(p, 0, sizeof *p);
    for (uint32_t i = 0; i < NODES; i++) {
        p->picks[i].pick.cores = p->cores[i];
        p->picks[i].pick.core_words = WORDS;
    }
    p->out = (struct spur_placement){ .size = sizeof p->out, .pick_size = sizeof(struct wide_pick), .picks = p->picks, .pick_room = NODES };
    memcpy(before, b, sizeof *b);
    err->text[0] = '\0';
    rc = ops->place(l->self, &b->view, &b->ask.ask, &p->out, err);
    if (memcmp(before, b, sizeof *b) != 0)
        rc = spur_fail(err, SPUR_EINVAL, "place changes the view or the ask");
    return rc;
}

static void changed(struct loaded *l, struct bed *b, const uint32_t *nodes, size_t n)
{
    const struct spur_select_ops *ops = loader_ops(l);

    b->view.version++;
    if (SPUR_HAS(ops, changed))
        ops->changed(l->self, &b->view, nodes, n);
}

static const char *verdict(int rc)
{
    return rc == 0 ? "placed" : rc == SPUR_ELATER ? "later" : rc == SPUR_ENEVER ? "never" : "an error";
}

static bool in(const uint64_t *words, uint32_t i) { return words[i / 64] >> (i % 64) & 1; }

/* One node of a placement: everything on it was free, and is enough for its tasks. */
static int pick_check(struct bed *b, const struct spur_node_pick *pick, struct spur_error *err)
{
    const struct spur_ask *ask = &b->ask.ask;
    const struct spur_node_view *n = node_of(b, pick->node);
    uint32_t cores = 0, all = n->sockets * n->cores_per_socket;
    uint64_t used_mask[2] = { 0 }, used_count[2] = { 0 };

    CONTRACT_EXPECT(pick->tasks >= 1, "node %u gets no task", pick->node);
    CONTRACT_EXPECT(pick->cpus >= 1 && pick->cpus <= n->cpus_free, "node %u: %u CPUs are taken, %u are free", pick->node, pick->cpus, n->cpus_free);
    CONTRACT_EXPECT(ask->overcommit || pick->cpus >= pick->tasks * ask->cpus_per_task, "node %u: %u CPUs for %u tasks of %u", pick->node, pick->cpus, pick->tasks,
                    ask->cpus_per_task);
    CONTRACT_EXPECT(!ask->tasks_per_node || pick->tasks <= ask->tasks_per_node, "node %u: %u tasks, at most %u are wanted", pick->node, pick->tasks, ask->tasks_per_node);
    for (uint32_t core = 0; core < WORDS * 64; core++) {
        if (!in(pick->cores, core))
            continue;
        cores++;
        CONTRACT_EXPECT(core < all && in(n->core_free, core), "node %u: core %u is taken and not free", pick->node, core);
    }
    CONTRACT_EXPECT(cores >= 1 && cores * n->threads_per_core >= pick->cpus, "node %u: %u CPUs on %u cores", pick->node, pick->cpus, cores);
    if (ask->cr & SPUR_CR_MEMORY) {
        uint64_t cpus = ask->overcommit ? 1 : (uint64_t)pick->tasks * ask->cpus_per_task;
        uint64_t needed = ask->mem_per_node == SPUR_MEM_ALL ? n->mem_total : ask->mem_per_node ? ask->mem_per_node : ask->mem_per_cpu * cpus;

        CONTRACT_EXPECT(pick->mem <= n->mem_free, "node %u: %llu MiB are taken, %llu are free", pick->node, (unsigned long long)pick->mem, (unsigned long long)n->mem_free);
        CONTRACT_EXPECT(pick->mem >= needed, "node %u: %llu MiB are taken, %llu are asked for", pick->node, (unsigned long long)pick->mem, (unsigned long long)needed);
    }
    if (ask->exclusive)
        CONTRACT_EXPECT(n->flags & SPUR_NODE_IDLE, "node %u is not idle, the job is to be alone", pick->node);
    for (uint32_t i = 0; i < pick->gres_count && i < SPUR_PICKS_MAX; i++) {
        const struct spur_gres_pick *g = &pick->gres[i];
        const struct spur_gres_view *have;

        CONTRACT_EXPECT((g->ask < ask->gres_count || (g->ask == SPUR_ASK_NONE && ask->exclusive)) && g->gres < n->gres_count,
                        "node %u: a resource row that does not exist", pick->node);
        have = &b->gres[pick->node][g->gres].gres;
        CONTRACT_EXPECT(g->ask == SPUR_ASK_NONE || strcmp(have->name, b->wishes[g->ask].gres.name) == 0, "node %u: %s is asked for, %s is given", pick->node, b->wishes[g->ask].gres.name, have->name);
        used_count[g->gres] += g->count;
        CONTRACT_EXPECT(used_count[g->gres] <= have->total - have->used, "node %u: %llu of %s are taken, %llu are free", pick->node,
                        (unsigned long long)used_count[g->gres], have->name, (unsigned long long)(have->total - have->used));
        if (have->all_mask) {
            CONTRACT_EXPECT((g->mask & ~have->free_mask) == 0 && (g->mask & used_mask[g->gres]) == 0, "node %u: a device of %s is taken that is not free", pick->node, have->name);
            CONTRACT_EXPECT((uint64_t)__builtin_popcountll(g->mask) == g->count, "node %u: %llu of %s are counted, the mask has %d", pick->node,
                            (unsigned long long)g->count, have->name, __builtin_popcountll(g->mask));
            used_mask[g->gres] |= g->mask;
        }
    }
    return 0;
}

static int placement_check(struct bed *b, struct places *p, struct spur_error *err)
{
    const struct spur_ask *ask = &b->ask.ask;
    uint64_t seen = 0, tasks = 0, given[3] = { 0 };

    CONTRACT_EXPECT(p->out.pick_count >= ask->min_nodes && p->out.pick_count <= ask->max_nodes && p->out.pick_count <= NODES,
                    "%u nodes are given, %u to %u are asked for", p->out.pick_count, ask->min_nodes, ask->max_nodes);
    CONTRACT_EXPECT(p->out.score >= 0 && p->out.score <= 1, "the score is %g: 0 to 1 is the range", p->out.score);
    for (uint32_t i = 0; i < p->out.pick_count; i++) {
        const struct spur_node_pick *pick = &p->picks[i].pick;
        uint64_t here[3] = { 0 };

        CONTRACT_EXPECT(pick->node < b->view.node_count && in(b->allowed, pick->node), "node %u is given and not allowed", pick->node);
        CONTRACT_EXPECT(node_of(b, pick->node)->flags & SPUR_NODE_USABLE, "node %u is given and not usable", pick->node);
        CONTRACT_EXPECT(!(seen >> pick->node & 1), "node %u is given twice", pick->node);
        CONTRACT_EXPECT(pick->cores == p->cores[i], "the room for the cores of node %u was replaced: it is the host's", pick->node);
        seen |= UINT64_C(1) << pick->node;
        tasks += pick->tasks;
        if (pick_check(b, pick, err) < 0)
            return err->code;
        for (uint32_t k = 0; k < pick->gres_count; k++)
            if (pick->gres[k].ask != SPUR_ASK_NONE)
                here[pick->gres[k].ask] += pick->gres[k].count;
        for (uint32_t k = 0; k < ask->gres_count; k++) {
            const struct spur_gres_ask *wish = &b->wishes[k].gres;

            given[k] += here[k];
            CONTRACT_EXPECT(here[k] >= wish->per_node && here[k] >= wish->per_task * pick->tasks, "node %u: %llu of %s are given, %llu a node and %llu a task are asked for",
                            pick->node, (unsigned long long)here[k], wish->name, (unsigned long long)wish->per_node, (unsigned long long)wish->per_task);
        }
    }
    for (uint32_t k = 0; k < ask->gres_count; k++)
        CONTRACT_EXPECT(!b->wishes[k].gres.per_job || given[k] == b->wishes[k].gres.per_job || (ask->exclusive && given[k] > b->wishes[k].gres.per_job), "%llu of %s are given, %llu are asked for in all",
                        (unsigned long long)given[k], b->wishes[k].gres.name, (unsigned long long)b->wishes[k].gres.per_job);
    CONTRACT_EXPECT(tasks >= ask->tasks && (!ask->tasks_set || tasks == ask->tasks), "%llu tasks are placed, %u are asked for", (unsigned long long)tasks, ask->tasks);
    if (ask->required)
        CONTRACT_EXPECT((b->required[0] & ~seen) == 0, "a node that must be in is not");
    return 0;
}

/* ---- cases: a row each of a small cluster, a wish and what must come ---- */

#define WISH(b) (&(b)->ask.ask)

static void wish_one(struct bed *b) { (void)b; }
static void wish_three_nodes(struct bed *b) { WISH(b)->min_nodes = WISH(b)->max_nodes = 3; WISH(b)->tasks = 3; }
static void wish_tasks(struct bed *b) { WISH(b)->tasks = 70; WISH(b)->tasks_set = true; }
static void wish_not_allowed(struct bed *b) { b->allowed[0] = 4; }
static void wish_unusable(struct bed *b) { for (uint32_t i = 0; i < 4; i++) node_of(b, i)->flags = i == 2 ? SPUR_NODE_USABLE | SPUR_NODE_IDLE : 0; }
static void wish_all_down(struct bed *b) { for (uint32_t i = 0; i < 4; i++) node_of(b, i)->flags = 0; }
static void wish_all_busy(struct bed *b) { for (uint32_t i = 0; i < 4; i++) node_use(b, i, 16, 4, 64000); }
static void wish_none_allowed(struct bed *b) { b->allowed[0] = 0; }
static void wish_too_many_nodes(struct bed *b) { WISH(b)->min_nodes = WISH(b)->max_nodes = WISH(b)->tasks = 5; }
static void wish_too_many_tasks(struct bed *b) { WISH(b)->tasks = 1000; }
static void wish_too_wide(struct bed *b) { WISH(b)->cpus_per_task = 33; }
static void wish_too_much_memory(struct bed *b) { WISH(b)->mem_per_node = 64001; }
static void wish_memory_in_use(struct bed *b) { for (uint32_t i = 0; i < 4; i++) node_use(b, i, 1, 0, 60000); WISH(b)->mem_per_node = 10000; }
static void wish_required(struct bed *b) { b->required[0] = 10; WISH(b)->required = b->required; WISH(b)->min_nodes = WISH(b)->max_nodes = WISH(b)->tasks = 2; }
static void wish_required_busy(struct bed *b) { wish_required(b); node_use(b, 3, 16, 4, 64000); }
static void wish_required_not_allowed(struct bed *b) { wish_required(b); b->allowed[0] = 7; }
static void wish_exclusive(struct bed *b) { WISH(b)->exclusive = true; for (uint32_t i = 0; i < 3; i++) node_use(b, i, 1, 0, 0); }
static void wish_exclusive_busy(struct bed *b) { WISH(b)->exclusive = true; for (uint32_t i = 0; i < 4; i++) node_use(b, i, 1, 0, 0); }
static void wish_gpus(struct bed *b, uint64_t job, uint64_t node, uint64_t task)
{
    b->wishes[0].gres = (struct spur_gres_ask){ .name = "gpu", .type = "", .per_job = job, .per_node = node, .per_task = task };
    WISH(b)->gres_count = 1;
}
static void wish_gpus_node(struct bed *b) { wish_gpus(b, 0, 3, 0); WISH(b)->min_nodes = WISH(b)->max_nodes = WISH(b)->tasks = 2; }
static void wish_gpus_job(struct bed *b) { wish_gpus(b, 6, 0, 0); }
static void wish_gpus_task(struct bed *b) { wish_gpus(b, 0, 0, 2); WISH(b)->tasks = 5; WISH(b)->tasks_set = true; }
static void wish_gpus_too_many(struct bed *b) { wish_gpus(b, 0, 5, 0); }
static void wish_gpus_busy(struct bed *b) { wish_gpus(b, 0, 2, 0); for (uint32_t i = 0; i < 4; i++) node_use(b, i, 1, 3, 0); }
static void wish_gpus_wrong_type(struct bed *b) { wish_gpus(b, 0, 1, 0); b->wishes[0].gres.type = "h100"; }
static void wish_no_such_gres(struct bed *b) { wish_gpus(b, 0, 1, 0); b->wishes[0].gres.name = "fpga"; }
static void wish_licence(struct bed *b) { wish_gpus(b, 0, 7, 0); b->wishes[0].gres.name = "licence"; }
static void wish_per_node(struct bed *b) { WISH(b)->tasks = 8; WISH(b)->tasks_set = true; WISH(b)->tasks_per_node = 2; WISH(b)->min_nodes = 4; }

static const struct {
    const char *name;
    void (*make)(struct bed *b);
    int answer;
    bool is_plain;          /* every select plugin does this much; the rest may be answered with SPUR_EUNSUPPORTED */
} rows[] = {
    { "one task", wish_one, 0, true }, { "three nodes", wish_three_nodes, 0 }, { "more tasks than a node holds", wish_tasks, 0 },
    { "one node allowed", wish_not_allowed, 0, true }, { "one node usable", wish_unusable, 0, true }, { "no node up", wish_all_down, SPUR_ELATER, true },
    { "every node busy", wish_all_busy, SPUR_ELATER, true }, { "no node allowed", wish_none_allowed, SPUR_ENEVER },
    { "too many nodes", wish_too_many_nodes, SPUR_ENEVER }, { "too many tasks", wish_too_many_tasks, SPUR_ENEVER },
    { "a task wider than a node", wish_too_wide, SPUR_ENEVER }, { "more memory than a node has", wish_too_much_memory, SPUR_ENEVER },
    { "memory in use", wish_memory_in_use, SPUR_ELATER }, { "two nodes must be in", wish_required, 0 }, { "one that must be in is busy", wish_required_busy, SPUR_ELATER },
    { "one that must be in is not allowed", wish_required_not_allowed, SPUR_ENEVER }, { "alone on a node", wish_exclusive, 0 },
    { "alone, but every node has a job", wish_exclusive_busy, SPUR_ELATER }, { "GPUs a node", wish_gpus_node, 0 }, { "GPUs a job", wish_gpus_job, 0 },
    { "GPUs a task", wish_gpus_task, 0 }, { "more GPUs than a node has", wish_gpus_too_many, SPUR_ENEVER }, { "GPUs in use", wish_gpus_busy, SPUR_ELATER },
    { "GPUs of another type", wish_gpus_wrong_type, SPUR_ENEVER }, { "a resource that nobody has", wish_no_such_gres, SPUR_ENEVER },
    { "a count without devices", wish_licence, 0 }, { "tasks a node", wish_per_node, 0 },
};

static int answers(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p);
    unsigned unsupported = 0;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bed_make(b, 4);
        rows[i].make(b);
        changed(l, b, NULL, 0);
        rc = place(c, l, b, p, err);
        if (rc == SPUR_EUNSUPPORTED && !rows[i].is_plain && err->text[0]) {
            unsupported++;
            continue;
        }
        if (rc != rows[i].answer) {
            char said[240];

            snprintf(said, sizeof said, "%.120s", err->text);
            return spur_fail(err, SPUR_EINVAL, "%s: the answer is %s (%d%s%s), %s is right", rows[i].name, verdict(rc), rc, rc ? ": " : "", rc ? said : "", verdict(rows[i].answer));
        }
        CONTRACT_EXPECT(rc == 0 || err->text[0], "%s: %s is said without a reason", rows[i].name, verdict(rc));
        if (rc == 0 && placement_check(b, p, err) < 0)
            return spur_context(err, "%s", rows[i].name);
    }
    loader_close(l);
    *err = (struct spur_error){ 0 };
    if (unsupported)
        snprintf(err->text, sizeof err->text, "%u of %zu wishes are refused as not supported", unsupported, sizeof rows / sizeof *rows);
    return 0;
}

static int light_nodes_first(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p);
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    for (uint32_t light = 0; light < 6; light++) {
        bed_make(b, 6);
        for (uint32_t i = 0; i < 6; i++)
            node_of(b, i)->weight = i == light ? 5 : 10;
        changed(l, b, NULL, 0);
        rc = place(c, l, b, p, err);
        CONTRACT_EXPECT(rc == 0, "one task on six empty nodes: %s", err->text);
        CONTRACT_EXPECT(p->picks[0].pick.node == light, "node %u of weight 10 is taken before node %u of weight 5", p->picks[0].pick.node, light);
    }
    loader_close(l);
    return 0;
}

static int room_is_kept(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p);
    const struct spur_select_ops *ops;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    for (uint32_t room = 0; room < 4; room++) {
        bed_make(b, 8);
        WISH(b)->min_nodes = WISH(b)->max_nodes = WISH(b)->tasks = 4;
        changed(l, b, NULL, 0);
        memset(p, 0, sizeof *p);
        memset(p->picks, 0xa5, sizeof p->picks);
        for (uint32_t i = 0; i < room; i++)
            p->picks[i].pick = (struct spur_node_pick){ .cores = p->cores[i], .core_words = WORDS };
        p->out = (struct spur_placement){ .size = sizeof p->out, .pick_size = sizeof(struct wide_pick), .picks = p->picks, .pick_room = room };
        rc = ops->place(l->self, &b->view, &b->ask.ask, &p->out, err);
        CONTRACT_EXPECT(rc < 0, "four nodes are placed in a room for %u", room);
        for (size_t at = (size_t)room * sizeof *p->picks; at < sizeof p->picks; at++)
            CONTRACT_EXPECT(((unsigned char *)p->picks)[at] == 0xa5, "place writes past a room for %u nodes", room);
    }
    loader_close(l);
    return 0;
}

/* An overlay is looked at as it is; what was told by `changed` is the base. */
static int overlays(struct contract *c, struct spur_error *err)
{
    struct bed *busy = contract_alloc(c, sizeof *busy), *ahead = contract_alloc(c, sizeof *ahead);
    struct places *p = contract_alloc(c, sizeof *p);
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    bed_make(busy, 4);
    wish_all_busy(busy);
    bed_make(ahead, 4);
    ahead->view.is_overlay = true;
    changed(l, busy, NULL, 0);
    ahead->view.version = busy->view.version;
    for (unsigned round = 0; round < 3; round++) {
        rc = place(c, l, busy, p, err);
        CONTRACT_EXPECT(rc == SPUR_ELATER, "on a busy cluster the answer is %s", verdict(rc));
        rc = place(c, l, ahead, p, err);
        CONTRACT_EXPECT(rc == 0, "on an overlay where every job has ended the answer is %s: %s", verdict(rc), err->text);
        if (placement_check(ahead, p, err) < 0)
            return spur_context(err, "on an overlay");
    }
    loader_close(l);
    return 0;
}

static void wish_random(struct bed *b, uint64_t *seed)
{
    struct spur_ask *a = WISH(b);
    uint32_t n = b->view.node_count;

    a->min_nodes = contract_random(seed) % 3 ? 1 : 1 + contract_random(seed) % n;
    a->max_nodes = contract_random(seed) % 2 ? a->min_nodes + contract_random(seed) % 4 : UINT32_MAX;
    a->tasks = contract_random(seed) % 2 ? a->min_nodes : a->min_nodes + contract_random(seed) % 64;
    a->tasks_set = a->tasks != a->min_nodes;
    if (contract_random(seed) % 4 == 0)
        a->want_nodes = a->max_nodes == UINT32_MAX ? 0 : a->max_nodes;
    a->cpus_per_task = 1 + contract_random(seed) % 3 * (contract_random(seed) % 4);
    a->tasks_per_node = contract_random(seed) % 5 ? 0 : 1 + contract_random(seed) % 8;
    a->exclusive = contract_random(seed) % 6 == 0;
    a->contiguous = contract_random(seed) % 8 == 0;
    a->overcommit = contract_random(seed) % 12 == 0;
    a->spread = contract_random(seed) % 10 == 0;
    switch (contract_random(seed) % 4) {
    case 0: a->mem_per_node = contract_random(seed) % 70000; break;
    case 1: a->mem_per_cpu = contract_random(seed) % 3000; break;
    case 2: a->mem_per_node = SPUR_MEM_ALL; break;
    }
    a->cr = SPUR_CR_CORE | (contract_random(seed) % 2 ? SPUR_CR_MEMORY : 0) | (contract_random(seed) % 4 ? 0 : SPUR_CR_ONE_TASK_PER_CORE) |
            (contract_random(seed) % 6 ? 0 : SPUR_CR_LLN) | (contract_random(seed) % 6 ? 0 : SPUR_CR_PACK);
    switch (contract_random(seed) % 6) {
    case 0: wish_gpus(b, 0, 1 + contract_random(seed) % 8, 0); break;
    case 1: wish_gpus(b, a->min_nodes + contract_random(seed) % 12, 0, 0); break;
    case 2: wish_gpus(b, 0, 0, 1 + contract_random(seed) % 2); break;
    case 3: wish_gpus(b, 0, 1 + contract_random(seed) % 2, 0);
            b->wishes[1].gres = (struct spur_gres_ask){ .name = "licence", .type = "", .per_node = contract_random(seed) % 12 };
            a->gres_count = 2; break;
    }
    b->allowed[0] = mask_of(n) & ~((uint64_t)contract_random(seed) & contract_random(seed));
    if (contract_random(seed) % 8 == 0) {
        b->required[0] = UINT64_C(1) << contract_random(seed) % n;
        a->required = b->required;
    }
}

static void cluster_random(struct bed *b, uint64_t *seed)
{
    static const uint32_t gpus[] = { 0, 1, 4, 8, 16 };

    bed_make(b, 1 + contract_random(seed) % NODES);
    for (uint32_t i = 0; i < b->view.node_count; i++) {
        node_make(b, i, 1 + contract_random(seed) % 2, 1 + contract_random(seed) % 16, 1 + contract_random(seed) % 2, 1000 + contract_random(seed) % 64000,
                  gpus[contract_random(seed) % 5]);
        node_of(b, i)->weight = 1 + contract_random(seed) % 3;
    }
}

static void cluster_busy(struct bed *b, uint64_t *seed)
{
    for (uint32_t i = 0; i < b->view.node_count; i++) {
        struct spur_node_view *n = node_of(b, i);
        uint32_t total = (uint32_t)b->gres[i][0].gres.total;

        if (contract_random(seed) % 3 == 0)
            node_use(b, i, 1 + contract_random(seed) % (n->sockets * n->cores_per_socket), contract_random(seed) % (total + 1), contract_random(seed) % (n->mem_total + 1));
        if (contract_random(seed) % 10 == 0)
            n->flags &= ~SPUR_NODE_USABLE;
        /* A job that holds its node whole. */
        if (n->jobs && contract_random(seed) % 5 == 0)
            n->flags |= SPUR_NODE_EXCLUSIVE;
    }
}

static int random_jobs(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p);
    unsigned counts[4] = { 0 };
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    for (uint64_t round = 1; round <= 4000; round++) {
        uint64_t seed = round;
        int empty;

        cluster_random(b, &seed);
        wish_random(b, &seed);
        changed(l, b, NULL, 0);
        empty = place(c, l, b, p, err);
        if (empty == SPUR_EUNSUPPORTED) {
            counts[3]++;
            continue;
        }
        CONTRACT_EXPECT(empty == 0 || empty == SPUR_ENEVER, "seed %llu: on an empty cluster the answer is %s (%d): placed or never is wanted", (unsigned long long)round,
                        verdict(empty), empty);
        if (empty == 0 && placement_check(b, p, err) < 0)
            return spur_context(err, "seed %llu", (unsigned long long)round);
        cluster_busy(b, &seed);
        changed(l, b, NULL, 0);
        rc = place(c, l, b, p, err);
        CONTRACT_EXPECT(empty == SPUR_ENEVER ? rc == SPUR_ENEVER : rc == 0 || rc == SPUR_ELATER,
                        "seed %llu: %s on the empty cluster, %s (%d) when a part of it is in use", (unsigned long long)round, verdict(empty), verdict(rc), rc);
        for (uint32_t i = 0; rc == 0 && i < p->out.pick_count; i++)
            CONTRACT_EXPECT(!(node_of(b, p->picks[i].pick.node)->flags & SPUR_NODE_EXCLUSIVE), "seed %llu: node %u is held whole by another job",
                            (unsigned long long)round, p->picks[i].pick.node);
        if (rc == 0 && placement_check(b, p, err) < 0)
            return spur_context(err, "seed %llu, in use", (unsigned long long)round);
        counts[rc == 0 ? 0 : rc == SPUR_ELATER ? 1 : 2]++;
    }
    CONTRACT_EXPECT(counts[0] > (4000 - counts[3]) / 10, "of 4000 random jobs only %u are placed", counts[0]);
    loader_close(l);
    *err = (struct spur_error){ 0 };
    if (counts[3])
        snprintf(err->text, sizeof err->text, "%u of 4000 are refused as not supported", counts[3]);
    return 0;
}

/* Two instances, told the same, answer the same: nothing hides in a global or in chance. */
static int same_again(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p), *q = contract_alloc(c, sizeof *q);
    struct loaded *l, *m;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0 || (rc = contract_open(c, &m, err)) < 0)
        return rc;
    for (uint64_t round = 1; round <= 300; round++) {
        uint64_t seed = round * 7919;
        int other;

        cluster_random(b, &seed);
        cluster_busy(b, &seed);
        wish_random(b, &seed);
        changed(l, b, NULL, 0);
        b->view.version--;
        changed(m, b, NULL, 0);
        rc = place(c, l, b, p, err);
        other = place(c, m, b, q, err);
        CONTRACT_EXPECT(rc == other && p->out.pick_count == q->out.pick_count, "seed %llu: two instances differ", (unsigned long long)round);
        for (uint32_t i = 0; rc == 0 && i < p->out.pick_count; i++)
            CONTRACT_EXPECT(p->picks[i].pick.node == q->picks[i].pick.node && memcmp(p->cores[i], q->cores[i], sizeof p->cores[i]) == 0,
                            "seed %llu: two instances take different nodes or cores", (unsigned long long)round);
    }
    loader_close(m);
    loader_close(l);
    return 0;
}

static int explains(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p);
    const struct spur_select_ops *ops;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, explain))
        return CONTRACT_SKIP;
    bed_make(b, 4);
    changed(l, b, NULL, 0);
    CONTRACT_EXPECT((rc = place(c, l, b, p, err)) == 0, "one task on four empty nodes: %s", err->text);
    for (size_t len = 1; len < 200; len = len * 2 + 1) {
        char buf[256];

        memset(buf, 'x', sizeof buf);
        ops->explain(l->self, &p->out, buf, len);
        CONTRACT_EXPECT(memchr(buf, '\0', len) && buf[len] == 'x' && !strchr(buf, '\n'), "explain does not keep to one line of %zu bytes", len);
    }
    loader_close(l);
    return 0;
}

/* A view with a serial changes by its log; another serial is another view, at the same address. */
static int logs_are_followed(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p);
    uint32_t log[NODES * 2];
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    bed_make(b, 6);
    b->view.serial = UINT64_C(1) << 40;
    b->view.log = log;
    WISH(b)->exclusive = true;
    for (uint32_t round = 0; round < 6; round++) {
        rc = place(c, l, b, p, err);
        CONTRACT_EXPECT(rc == 0, "a whole node, %u of 6 are in use: %s", round, err->text);
        CONTRACT_EXPECT(node_of(b, p->picks[0].pick.node)->jobs == 0, "node %u is given and in use, as the log says", p->picks[0].pick.node);
        node_use(b, p->picks[0].pick.node, 16, 4, 64000);
        log[b->view.log_count++] = p->picks[0].pick.node;
        b->view.version++;
    }
    rc = place(c, l, b, p, err);
    CONTRACT_EXPECT(rc == SPUR_ELATER, "a whole node, all are in use: %s where \"later\" is right", verdict(rc));
    bed_make(b, 6);
    b->view.serial = (UINT64_C(1) << 40) + 1;
    rc = place(c, l, b, p, err);
    CONTRACT_EXPECT(rc == 0, "another view, where all nodes are free: %s", err->text);
    loader_close(l);
    return 0;
}

/* What could never run on an empty cluster is what place says of the empty cluster. */
static int could_agrees(struct contract *c, struct spur_error *err)
{
    struct bed *b = contract_alloc(c, sizeof *b);
    struct places *p = contract_alloc(c, sizeof *p);
    const struct spur_select_ops *ops;
    struct loaded *l;
    uint64_t seed = 21;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, could))
        return CONTRACT_SKIP;
    for (uint32_t round = 0; round < 400; round++) {
        struct spur_error why = { 0 };
        int never;

        bed_make(b, 1 + contract_random(&seed) % 8);
        WISH(b)->min_nodes = WISH(b)->max_nodes = 1 + contract_random(&seed) % 9;
        WISH(b)->tasks = WISH(b)->min_nodes * (1 + contract_random(&seed) % 6);
        WISH(b)->tasks_set = true;
        WISH(b)->cpus_per_task = 1 + contract_random(&seed) % 10;
        b->wishes[0].gres = (struct spur_gres_ask){ .name = "gpu", .type = "", .per_node = contract_random(&seed) % 6 };
        WISH(b)->gres_count = b->wishes[0].gres.per_node > 0;
        changed(l, b, NULL, 0);
        never = ops->could(l->self, &b->view, &b->ask.ask, &why);
        rc = place(c, l, b, p, err);
        CONTRACT_EXPECT(spur_select_is_never(rc) == spur_select_is_never(never), "round %u: could says %s and place, of the empty cluster, %s", round, verdict(never), verdict(rc));
        CONTRACT_EXPECT(never == 0 || why.text[0], "could says never without a sentence");
        err->code = 0;
    }
    loader_close(l);
    return 0;
}

const struct contract_case contract_select[] = {
    { "the right answer to plain wishes", answers },
    { "nodes of low weight first", light_nodes_first },
    { "never more than the room for picks", room_is_kept },
    { "overlays are looked at as they are", overlays },
    { "random jobs on random clusters", random_jobs },
    { "the same again from another instance", same_again },
    { "explain is one line in its buffer", explains },
    { "a view's log is followed", logs_are_followed },
    { "could agrees with place", could_agrees },
    { 0 } };
