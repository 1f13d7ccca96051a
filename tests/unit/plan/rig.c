/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - see rig.h. The select plugin here knows nodes, whole cores, memory and devices by count, and takes those with most room. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"
#include "rig.h"

/* ---- first fit ------------------------------------------------------------------------------------------------------------- */
static uint32_t count_bits(const uint64_t *words, uint32_t n)
{
    uint32_t c = 0;

    for (uint32_t i = 0; i < n; i++)
        c += (uint32_t)__builtin_popcountll(words[i]);
    return c;
}

/* Tasks that node `n` could take, when empty or now. */
static uint32_t node_room(const struct spur_ask *a, const struct spur_node_view *n, bool empty)
{
    uint32_t cores = empty ? n->sockets * n->cores_per_socket : count_bits(n->core_free, n->core_words), tasks;
    uint64_t mem = empty ? n->mem_total : n->mem_free;

    if (!empty && (!(n->flags & SPUR_NODE_USABLE) || (n->flags & SPUR_NODE_EXCLUSIVE) || (a->exclusive && !(n->flags & SPUR_NODE_IDLE))))
        return 0;
    tasks = cores * n->threads_per_core / a->cpus_per_task;
    if (a->tasks_per_node && tasks > a->tasks_per_node)
        tasks = a->tasks_per_node;
    if (a->min_cpus_node > cores * n->threads_per_core)
        return 0;
    if ((a->cr & SPUR_CR_MEMORY) && a->mem_per_node && (a->mem_per_node == SPUR_MEM_ALL ? mem < n->mem_total : a->mem_per_node > mem))
        return 0;
    if ((a->cr & SPUR_CR_MEMORY) && a->mem_per_cpu && tasks > mem / (a->mem_per_cpu * a->cpus_per_task))
        tasks = (uint32_t)(mem / (a->mem_per_cpu * a->cpus_per_task));
    for (uint32_t i = 0; i < a->gres_count; i++) {
        uint64_t have = 0;

        for (uint32_t k = 0; k < n->gres_count; k++)
            if (strcmp(n->gres[k].name, a->gres[i].name) == 0)
                have += empty ? n->gres[k].total : n->gres[k].total - n->gres[k].used;
        if (have < a->gres[i].per_node)
            return 0;
    }
    return tasks;
}

static int fit(const struct spur_view *v, const struct spur_ask *a, struct spur_placement *out, bool empty)
{
    uint32_t chosen[1024], n = 0, tasks = 0, room[1024];

    for (uint32_t i = 0; i < v->node_count; i++) {      /* what must be in */
        if (!a->required || !(a->required[i / 64] >> (i % 64) & 1))
            continue;
        room[n] = a->allowed[i / 64] >> (i % 64) & 1 ? node_room(a, spur_view_node(v, i), empty) : 0;
        if (!room[n])
            return SPUR_ELATER;
        tasks += room[n];
        chosen[n++] = i;
    }
    while (n < a->max_nodes && (n < a->min_nodes || tasks < a->tasks)) {        /* then those with most room: so it fits whenever it can */
        uint32_t best = UINT32_MAX, most = 0;

        for (uint32_t i = 0; i < v->node_count; i++) {
            uint32_t can = a->allowed[i / 64] >> (i % 64) & 1 ? node_room(a, spur_view_node(v, i), empty) : 0;
            bool taken = false;

            for (uint32_t k = 0; k < n && !taken; k++)
                taken = chosen[k] == i;
            if (!taken && can > most) {
                most = can;
                best = i;
            }
        }
        if (best == UINT32_MAX)
            break;
        chosen[n] = best;
        room[n++] = most;
        tasks += most;
    }
    if (n < a->min_nodes || tasks < a->tasks)
        return SPUR_ELATER;
    if (!out)
        return 0;
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k && chosen[k] < chosen[k - 1]; k--) {
            uint32_t node = chosen[k], can = room[k];

            chosen[k] = chosen[k - 1];
            room[k] = room[k - 1];
            chosen[k - 1] = node;
            room[k - 1] = can;
        }
    for (uint32_t k = 1, leaves = 1; k < n && a->switches; k++)
        if ((leaves += strcmp(spur_view_node(v, chosen[k])->leaf, spur_view_node(v, chosen[k - 1])->leaf) != 0) > a->switches)
            return SPUR_ELATER;
    out->pick_count = n;
    tasks = a->tasks;
    for (uint32_t k = 0; k < n; k++) {
        const struct spur_node_view *node = spur_view_node(v, chosen[k]);
        struct spur_node_pick *p = spur_placement_pick(out, k);
        uint32_t later = n - k - 1, mine = tasks - later < room[k] ? tasks - later : room[k], cpus;
        uint32_t left;

        tasks -= mine;
        cpus = mine * a->cpus_per_task > a->min_cpus_node ? mine * a->cpus_per_task : a->min_cpus_node;
        if (a->exclusive)
            cpus = node->cpus;
        p->node = chosen[k];
        p->tasks = mine;
        p->mem = !(a->cr & SPUR_CR_MEMORY) ? 0 : a->mem_per_node == SPUR_MEM_ALL ? node->mem_total : a->mem_per_node ? a->mem_per_node : a->mem_per_cpu * cpus;
        memset(p->cores, 0, p->core_words * sizeof *p->cores);
        left = (cpus + node->threads_per_core - 1) / node->threads_per_core;
        for (uint32_t c = 0; c < node->core_words * 64 && left; c++)
            if (node->core_free[c / 64] >> (c % 64) & 1) {
                p->cores[c / 64] |= UINT64_C(1) << (c % 64);
                left--;
            }
        p->cpus = count_bits(p->cores, p->core_words) * node->threads_per_core;
        p->gres_count = 0;
        for (uint32_t i = 0; i < a->gres_count; i++)
            for (uint32_t g = 0; g < node->gres_count && a->gres[i].per_node; g++)
                if (strcmp(node->gres[g].name, a->gres[i].name) == 0) {
                    struct spur_gres_pick *gp = &p->gres[p->gres_count++];
                    uint64_t mask = node->gres[g].free_mask;

                    *gp = (struct spur_gres_pick){ i, g, a->gres[i].per_node, 0 };
                    for (uint64_t want = a->gres[i].per_node; want && mask; want--, mask &= mask - 1)
                        gp->mask |= mask & -mask;
                    break;
                }
    }
    return 0;
}

static int rig_place(void *self, const struct spur_view *v, const struct spur_ask *a, struct spur_placement *out, struct spur_error *err)
{
    struct rig *r = self;

    r->places++;
    if (fit(v, a, out, false) == 0)
        return 0;
    return fit(v, a, NULL, true) == 0 ? SPUR_ELATER : spur_fail(err, SPUR_ENEVER, "no set of %u nodes could hold it", a->min_nodes);
}

static uint64_t rig_rank(void *self, const struct spur_job_view *job, int64_t now, struct spur_priority_factors *out)
{
    const struct rig *r = self;

    (void)now;
    (void)out;
    return (uint64_t)(r->turned ? 1000000 + job->nice : 1000000 - job->nice);
}

static uint32_t rig_period(void *self) { return ((const struct rig *)self)->period; }

static const struct spur_select_ops select_ops = { .size = sizeof select_ops, .place = rig_place };
static const struct spur_priority_ops priority_ops = { .size = sizeof priority_ops, .rank = rig_rank, .period_s = rig_period };

/* ---- life ------------------------------------------------------------------------------------------------------------------ */
Wire__Op *rig_op(struct rig *r)
{
    Wire__Op *op = arena_alloc(&r->arena, sizeof *op);

    wire__op__init(op);
    return op;
}

static void apply_ops(struct rig *r, Wire__Op **ops, size_t n, struct applied *out)
{
    Wire__Entry e = WIRE__ENTRY__INIT;

    e.cluster_ms = r->cluster_ms;
    e.wall_ms = r->wall_ms;
    e.fence = 1;
    e.ops = ops;
    e.n_ops = n;
    ck_assert_int_eq(apply(r->s, ++r->index, &e, &r->arena, out), 0);
    plan_events(r->p, r->s, out->events, out->event_count);
}

int rig_apply(struct rig *r, Wire__Op *op, uint32_t *job_id)
{
    struct applied out = { 0 };

    apply_ops(r, &op, 1, &out);
    ck_assert_uint_eq(out.result_count, 1);
    if (job_id)
        *job_id = out.results[0].job_id;
    return out.results[0].code;
}

void rig_init(struct rig *r, const char *conf)
{
    Wire__Op *op;
    Wire__OpConfig *c;

    memset(r, 0, sizeof *r);
    arena_init(&r->arena, 0);
    r->s = state_create();
    r->p = plan_create();
    r->plugins = (struct plan_plugins){ &select_ops, r, &priority_ops, r };
    r->wall_ms = 1700000000000;
    r->cluster_ms = 1000000;
    r->budget = 1000;
    op = rig_op(r);
    op->config = c = arena_alloc(&r->arena, sizeof *c);
    wire__op_config__init(c);
    c->files = arena_alloc(&r->arena, sizeof *c->files);
    wire__config_files__init(c->files);
    if (strstr(conf, TOPOLOGY_BEGINS)) {
        c->files->topology = arena_copy(&r->arena, strstr(conf, TOPOLOGY_BEGINS) + strlen(TOPOLOGY_BEGINS));
        conf = arena_printf(&r->arena, "%.*s", (int)(strstr(conf, TOPOLOGY_BEGINS) - conf), conf);
    }
    c->files->slurm = arena_printf(&r->arena, "ClusterName=test\nSlurmctldHost=ctl\n%s", conf);
    ck_assert_int_eq(rig_apply(r, op, NULL), 0);
    for (uint32_t i = 0; i < r->s->node_count; i++) {
        const struct config_node *n = r->s->nodes[i].conf;
        Wire__NodeInventory *inv = arena_alloc(&r->arena, sizeof *inv);

        op = rig_op(r);
        op->register_node = arena_alloc(&r->arena, sizeof *op->register_node);
        wire__op_register__init(op->register_node);
        wire__node_inventory__init(inv);
        op->register_node->inventory = inv;
        inv->name = n->name;
        inv->has_sockets = inv->has_cores_per_socket = inv->has_threads_per_core = inv->has_cpus = inv->has_mem_mib = true;
        inv->sockets = n->sockets;
        inv->cores_per_socket = n->cores_per_socket;
        inv->threads_per_core = n->threads_per_core;
        inv->cpus = n->cpus;
        inv->mem_mib = n->mem_mib;
        inv->has_boards = true;
        inv->boards = n->boards;
        inv->gres = arena_alloc(&r->arena, (n->gres_count + 1) * sizeof *inv->gres);
        for (size_t k = 0; k < n->gres_count; k++) {
            Wire__GresAlloc *g = arena_alloc(&r->arena, sizeof *g);

            wire__gres_alloc__init(g);
            g->name = n->gres[k].name;
            g->type = n->gres[k].type;
            g->has_count = g->has_mask = true;
            g->count = n->gres[k].count;
            g->mask = n->gres[k].count < 64 ? (UINT64_C(1) << n->gres[k].count) - 1 : UINT64_MAX;
            inv->gres[inv->n_gres++] = g;
        }
        ck_assert_int_eq(rig_apply(r, op, NULL), 0);
    }
}

void rig_fini(struct rig *r)
{
    plan_destroy(r->p);
    state_destroy(r->s);
    arena_fini(&r->arena);
}

/* ---- jobs ------------------------------------------------------------------------------------------------------------------ */
void rig_spec(struct rig *r, Wire__JobSpec *spec, const char *wish)
{
    char *text = arena_copy(&r->arena, wish), *at = text, *word;

    wire__job_spec__init(spec);
    spec->name = arena_copy(&r->arena, "job");
    spec->partition = arena_copy(&r->arena, "p");
    spec->has_is_batch = spec->is_batch = true;
    while ((word = word_next(&at, " "))) {
        char *value = strchr(word, '=');
        uint32_t n = 0;

        if (value) {
            *value++ = '\0';
            number_u32(value, &n);
        }
#define SET(key, field) if (strcmp(word, key) == 0) { spec->has_##field = true; spec->field = n; }
        SET("tasks", ntasks)
        SET("cpus", cpus_per_task)
        SET("mem", mem_per_node_mib)
        SET("mempercpu", mem_per_cpu_mib)
        SET("time", time_limit_min)
        SET("tmp", tmp_mib)
        SET("switches", switches)
        SET("segment", segment)
        SET("tpn", ntasks_per_node)
#undef SET
        if (strcmp(word, "nodes") == 0) {
            char *dash = strchr(value, '-');
            uint32_t most = n;

            if (dash) {
                *dash = '\0';
                number_u32(value, &n);
                number_u32(dash + 1, &most);
            }
            spec->has_min_nodes = spec->has_max_nodes = true;
            spec->min_nodes = n;
            spec->max_nodes = most;
        }
        if (strcmp(word, "prio") == 0) {
            spec->has_priority = true;
            spec->priority = n;
        }
        if (strcmp(word, "nice") == 0) {
            spec->has_nice = true;
            spec->nice = (int32_t)n;
        }
        if (strcmp(word, "begin") == 0) {
            spec->has_begin_wall_s = true;
            spec->begin_wall_s = r->wall_ms / 1000 + n;
        }
        if (strcmp(word, "deadline") == 0) {
            spec->has_deadline_wall_s = true;
            spec->deadline_wall_s = r->wall_ms / 1000 + n;
        }
        if (strcmp(word, "part") == 0)
            spec->partition = value;
        if (strcmp(word, "array") == 0)
            spec->array = value;
        if (strcmp(word, "dep") == 0)
            spec->dependency = value;
        if (strcmp(word, "feat") == 0)
            spec->features = value;
        if (strcmp(word, "prefer") == 0)
            spec->prefer = value;
        if (strcmp(word, "w") == 0)
            spec->req_nodes = value;
        if (strcmp(word, "x") == 0)
            spec->exc_nodes = value;
        if (strcmp(word, "gres") == 0)
            spec->tres_per_node = value;
        if (strcmp(word, "name") == 0)
            spec->name = value;
        if (strcmp(word, "hold") == 0)
            spec->has_hold = spec->hold = true;
        if (strcmp(word, "kill") == 0)
            spec->has_kill_on_invalid_dep = spec->kill_on_invalid_dep = true;
        if (strcmp(word, "topo") == 0)
            spec->exclusive = arena_copy(&r->arena, "topo");
        if (strcmp(word, "excl") == 0)
            spec->exclusive = arena_copy(&r->arena, "exclusive");
    }
}

uint32_t rig_submit(struct rig *r, const char *wish) { return rig_submit_het(r, 1, &wish); }

uint32_t rig_submit_het(struct rig *r, uint32_t count, const char *const *wishes)
{
    Wire__Op *op = rig_op(r);
    uint32_t id = 0;

    op->submit = arena_alloc(&r->arena, sizeof *op->submit);
    wire__op_submit__init(op->submit);
    op->submit->spec = arena_alloc(&r->arena, sizeof *op->submit->spec);
    rig_spec(r, op->submit->spec, wishes[0]);
    op->submit->het = arena_alloc(&r->arena, count * sizeof *op->submit->het);
    for (uint32_t i = 1; i < count; i++) {
        Wire__JobSpec *spec = arena_alloc(&r->arena, sizeof *spec);

        rig_spec(r, spec, wishes[i]);
        spec->is_batch = false;
        op->submit->het[op->submit->n_het++] = spec;
    }
    op->submit->uid = op->submit->gid = 1000;
    op->submit->user = arena_copy(&r->arena, "alice");
    ck_assert_msg(rig_apply(r, op, &id) == 0, "submit %s", wishes[0]);
    return id;
}

void rig_pass(struct rig *r)
{
    r->started_count = 0;
    for (int round = 0; round < 10000; round++) {
        struct decisions d = { 0 };

        if (!plan_is_dirty(r->p) && plan_next_wall_ms(r->p) > r->wall_ms)
            return;
        plan_pass(r->p, r->s, &r->plugins, r->wall_ms, r->cluster_ms, (struct plan_budget){ r->budget }, &r->arena, &d);
        for (size_t i = 0; i < d.op_count; i++) {       /* one entry each, so that a test sees each before it is true */
            struct applied out = { 0 };

            if (d.ops[i]->start && r->on_start)
                r->on_start(r, state_job(r->s, d.ops[i]->start->job_id), d.ops[i]->start);
            apply_ops(r, &d.ops[i], 1, &out);
            if (out.results[0].code == SPUR_ESTALE && d.ops[i]->start && strstr(out.results[0].text, ": Dependency")) {
                plan_refused(r->p, r->s, d.ops[i]->start->job_id, d.ops[i]->start->has_array_task_id ? d.ops[i]->start->array_task_id : UINT32_MAX);      /* two of one singleton in one slice: the second was too late */
                r->refused++;
                continue;
            }
            ck_assert_msg(out.results[0].code == 0, "decision refused: %s", out.results[0].text ? out.results[0].text : "?");
            if ((d.ops[i]->start || d.ops[i]->het_start) && r->started_count < 4096) {
                r->by_backfill[r->started_count] = (d.ops[i]->start ? d.ops[i]->start : d.ops[i]->het_start->parts[0])->by_backfill;
                r->started[r->started_count++] = out.results[0].job_id;
            }
        }
        if (!d.more && !d.op_count && plan_is_dirty(r->p))
            rig_clock(r, 1);        /* backfill pauses between passes */
        else if (!d.more && !d.op_count)
            return;
    }
    ck_abort_msg("the plan never comes to rest");
}

static void report(struct rig *r, const char *node, Wire__Report__Kind kind, const struct job *j, int status)
{
    Wire__Op *op = rig_op(r);
    Wire__Report *rep = arena_alloc(&r->arena, sizeof *rep);

    op->report = arena_alloc(&r->arena, sizeof *op->report);
    wire__op_report__init(op->report);
    wire__report__init(rep);
    op->report->report = rep;
    rep->node = arena_copy(&r->arena, node);
    rep->kind = kind;
    rep->job_id = j->job_id;
    rep->has_step_id = true;
    rep->step_id = STEP_BATCH;
    rep->attempt = j->attempt;
    rep->has_status = true;
    rep->status = status;
    rep->seq = ++r->seq;
    ck_assert_int_eq(rig_apply(r, op, NULL), 0);
}

void rig_end(struct rig *r, uint32_t job_id, int status)
{
    struct job *j = state_job(r->s, job_id);
    uint32_t n = j->alloc_count;

    ck_assert(n > 0);
    report(r, r->s->nodes[j->allocs[0].node].conf->name, WIRE__REPORT__KIND__STARTED, j, 0);
    report(r, r->s->nodes[j->allocs[0].node].conf->name, WIRE__REPORT__KIND__ENDED, j, status);
    for (uint32_t i = 0; i < n; i++)
        report(r, r->s->nodes[j->allocs[i].node].conf->name, WIRE__REPORT__KIND__GONE, j, 0);
}

void rig_clock(struct rig *r, int64_t seconds)
{
    r->wall_ms += seconds * 1000;
    r->cluster_ms += seconds * 1000;
}

void rig_node(struct rig *r, const char *node, const char *key, const char *value)
{
    Wire__Op *op = rig_op(r);
    Wire__KeyValue *kv = arena_alloc(&r->arena, 2 * sizeof *kv), **set = arena_alloc(&r->arena, 2 * sizeof *set);

    op->node_update = arena_alloc(&r->arena, sizeof *op->node_update);
    wire__op_node_update__init(op->node_update);
    wire__key_value__init(&kv[0]);
    wire__key_value__init(&kv[1]);
    kv[0].key = arena_copy(&r->arena, key);
    kv[0].value = arena_copy(&r->arena, value);
    kv[1].key = arena_copy(&r->arena, "Reason");
    kv[1].value = arena_copy(&r->arena, "test");
    set[0] = &kv[0];
    set[1] = &kv[1];
    op->node_update->node = arena_copy(&r->arena, node);
    op->node_update->set = set;
    op->node_update->n_set = 2;
    ck_assert_int_eq(rig_apply(r, op, NULL), 0);
}

const char *rig_state(struct rig *r, uint32_t job_id)
{
    const struct job *j = state_job(r->s, job_id);

    return j ? job_state_name(j->state, 0, false) : "GONE";
}

const char *rig_reason(struct rig *r, uint32_t job_id) { return job_reason_name(state_job(r->s, job_id)->advice); }
