/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs a load through admit, plan and apply under a virtual clock; plugins come through the loader, as in the controller.
 *
 * Nothing here decides anything. A job is submitted when its time has come (admit, then apply), the plan is asked in slices until it has
 * nothing to do, its decisions are applied, and a started job reports its end when its duration has passed. What the controller's
 * loop, log and agents would add is left out: a decision is true as soon as it is made, and a node says at once that it is empty. The order of
 * events at one moment is ends, then submits, then the plan; so the same load gives the same schedule on every machine. Only the times of
 * decisions are measured, and they are reported apart.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admit/admit.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "loader/loader.h"
#include "plan/plan.h"
#include "sim/replay.h"

#define WALL_MS    INT64_C(1700000000000)       /* the virtual clock begins here */
#define PLACEMENTS 64                           /* as framework/controller/spurctld.c */
#define PURGE_MS   3600000
#define SIM_UID    1000

struct end { int64_t at_ms; uint32_t job; };

struct replay {
    const struct replay_options *o;
    struct state *state;
    struct plan *plan;
    struct loaded *select, *priority, *score;
    struct config *config;          /* for the loader */
    struct plan_plugins plugins;
    struct spur_select_ops select_ops;      /* the plugin's, with a clock around `place` */
    struct spur_host host;
    int64_t  now_ms;                /* since the first moment of the replay */
    uint64_t index, token, seq;
    struct arena arena;             /* of one turn */
    struct replay_job *jobs;
    struct table by_id;             /* job id -> index + 1 */
    struct end *ends; uint32_t end_count;   /* heap, earliest first */
    uint32_t pending, running;
    uint32_t *node_free;            /* GPUs free a node: for the measures */
    uint64_t gpus_busy, gpus_partial;       /* held; free on nodes that are partly held */
    double   busy_s, frag_s, free_s;        /* integrals */
    uint64_t *times; size_t time_count, time_room;     /* ns of each placement */
    double   submit_s, start_s, slice_s_max;
    uint64_t slices, starts;
    struct spur_error error;
};

static double clock_s(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the cluster ----------------------------------------------------------------------------------------------------------- */
static void conf_line(const struct replay_options *o, struct str *out, const char *key, const char *value)
{
    for (size_t i = 0; i < o->setting_count; i++)
        if (word_eq(o->settings[i].key, key))
            return;             /* theirs comes below */
    str_addf(out, "%s=%s\n", key, value);
}

static void conf_text(const struct replay_options *o, struct str *out)
{
    const struct machine *m = o->machine;
    char number[32];

    snprintf(number, sizeof number, "%u", o->load->count + 1000);
    conf_line(o, out, "ClusterName", "replay");
    conf_line(o, out, "SlurmctldHost", "replay");
    conf_line(o, out, "SelectType", "select/topo");
    conf_line(o, out, "SelectTypeParameters", "CR_Core");
    conf_line(o, out, "SchedulerType", "sched/backfill");
    conf_line(o, out, "PriorityType", "priority/basic");
    conf_line(o, out, "TopologyPlugin", "topology/tree");
    conf_line(o, out, "MaxJobCount", number);
    str_add(out, "GresTypes=gpu\n");
    for (size_t i = 0; i < o->setting_count; i++)
        str_addf(out, "%s=%s\n", o->settings[i].key, o->settings[i].value);
    str_addf(out, "NodeName=n[%04u-%04u] Sockets=%u CoresPerSocket=%u ThreadsPerCore=%u RealMemory=%u Gres=gpu:%s:%u\n", 1, o->nodes, m->rig.sockets,
             m->rig.cores_per_socket, m->rig.threads_per_core ? m->rig.threads_per_core : 1, 65536 * m->gpus, m->type, m->gpus);
    str_addf(out, "PartitionName=all Nodes=n[%04u-%04u] Default=YES MaxTime=UNLIMITED State=UP\n", 1, o->nodes);
}

static void topology_text(const struct replay_options *o, struct str *out)
{
    uint32_t leaves = (o->nodes + o->leaf - 1) / o->leaf, pods;

    for (uint32_t i = 0; i < leaves; i++)
        str_addf(out, "SwitchName=leaf%u Nodes=n[%04u-%04u]\n", i + 1, i * o->leaf + 1, (i + 1) * o->leaf < o->nodes ? (i + 1) * o->leaf : o->nodes);
    if (!o->pod) {
        if (leaves > 1)
            str_addf(out, "SwitchName=spine Switches=leaf[1-%u]\n", leaves);
        return;
    }
    pods = (leaves + o->pod - 1) / o->pod;
    for (uint32_t i = 0; i < pods; i++)
        str_addf(out, "SwitchName=pod%u Switches=leaf[%u-%u]\n", i + 1, i * o->pod + 1, (i + 1) * o->pod < leaves ? (i + 1) * o->pod : leaves);
    if (pods > 1)
        str_addf(out, "SwitchName=spine Switches=pod[1-%u]\n", pods);
}

/* One entry of the log, as the controller would have it. The results, or NULL with r->error. */
static const struct op_result *entry(struct replay *r, Wire__Op **ops, size_t n)
{
    Wire__Entry e = WIRE__ENTRY__INIT;
    struct applied out = { 0 };
    int rc;

    e.wall_ms = WALL_MS + r->now_ms;
    e.cluster_ms = 1000000 + r->now_ms;
    e.fence = 1;
    e.ops = ops;
    e.n_ops = n;
    if ((rc = apply(r->state, ++r->index, &e, &r->arena, &out)) < 0) {
        spur_fail(&r->error, rc, "an entry was not taken");
        return NULL;
    }
    plan_events(r->plan, r->state, out.events, out.event_count);
    return out.results;
}

static Wire__Op *op_make(struct replay *r)
{
    Wire__Op *op = arena_alloc(&r->arena, sizeof *op);

    wire__op__init(op);
    return op;
}

static int configure(struct replay *r, const char *slurm, const char *topology, const char *spur)
{
    Wire__Op *op = op_make(r);
    const struct op_result *result;

    op->config = arena_alloc(&r->arena, sizeof *op->config);
    wire__op_config__init(op->config);
    op->config->files = arena_alloc(&r->arena, sizeof *op->config->files);
    wire__config_files__init(op->config->files);
    op->config->files->slurm = arena_copy(&r->arena, slurm);
    op->config->files->topology = arena_copy(&r->arena, topology);
    op->config->files->spur = arena_copy(&r->arena, spur);
    if (!(result = entry(r, &op, 1)))
        return r->error.code;
    return result[0].code < 0 ? spur_fail(&r->error, result[0].code, "%s", result[0].text ? result[0].text : "the configuration was refused") : 0;
}

static int register_nodes(struct replay *r)
{
    const struct machine *m = r->o->machine;
    Wire__DeviceTable *devices = machine_devices(m, &r->arena);
    Wire__Op **ops = arena_alloc(&r->arena, (r->state->node_count + 1) * sizeof *ops);
    const struct op_result *results;

    for (uint32_t i = 0; i < r->state->node_count; i++) {
        const struct config_node *n = r->state->nodes[i].conf;
        Wire__NodeInventory *inv = arena_alloc(&r->arena, sizeof *inv);
        Wire__GresAlloc *g = arena_alloc(&r->arena, sizeof *g);

        ops[i] = op_make(r);
        ops[i]->register_node = arena_alloc(&r->arena, sizeof *ops[i]->register_node);
        wire__op_register__init(ops[i]->register_node);
        wire__node_inventory__init(inv);
        wire__gres_alloc__init(g);
        ops[i]->register_node->inventory = inv;
        inv->name = n->name;
        inv->has_boards = inv->has_sockets = inv->has_cores_per_socket = inv->has_threads_per_core = inv->has_cpus = inv->has_mem_mib = true;
        inv->boards = n->boards;
        inv->sockets = n->sockets;
        inv->cores_per_socket = n->cores_per_socket;
        inv->threads_per_core = n->threads_per_core;
        inv->cpus = n->cpus;
        inv->mem_mib = n->mem_mib;
        g->name = arena_copy(&r->arena, "gpu");
        g->type = arena_copy(&r->arena, m->type);
        g->has_count = g->has_mask = true;
        g->count = m->gpus;
        g->mask = m->gpus < 64 ? (UINT64_C(1) << m->gpus) - 1 : UINT64_MAX;
        inv->gres = arena_alloc(&r->arena, sizeof *inv->gres);
        inv->gres[0] = g;
        inv->n_gres = 1;
        inv->devices = r->o->no_links ? NULL : devices;
    }
    if (!(results = entry(r, ops, r->state->node_count)))
        return r->error.code;
    for (uint32_t i = 0; i < r->state->node_count; i++)
        if (results[i].code < 0)
            return spur_fail(&r->error, results[i].code, "%s", results[i].text ? results[i].text : "a node was refused");
    return 0;
}

/* The plugin's own place, with the time it took. `self` of the plugin stands behind the replay. */
static int timed_place(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_placement *out, struct spur_error *err)
{
    struct replay *r = self;
    const struct spur_select_ops *ops = loader_ops(r->select);
    double before = clock_s(CLOCK_MONOTONIC);
    int rc = ops->place(r->select->self, view, ask, out, err);

    if (r->time_count == r->time_room) {
        r->time_room = r->time_room ? r->time_room * 2 : 4096;
        r->times = mem_grow(r->times, r->time_room, sizeof *r->times);
    }
    r->times[r->time_count++] = (uint64_t)((clock_s(CLOCK_MONOTONIC) - before) * 1e9);
    return rc;
}

static void timed_changed(void *self, const struct spur_view *view, const uint32_t *nodes, size_t n)
{
    const struct replay *r = self;

    ((const struct spur_select_ops *)loader_ops(r->select))->changed(r->select->self, view, nodes, n);
}

static int timed_explain(void *self, const struct spur_placement *out, char *buf, size_t len)
{
    const struct replay *r = self;

    return ((const struct spur_select_ops *)loader_ops(r->select))->explain(r->select->self, out, buf, len);
}

static bool host_score(void *ctx, const struct spur_score_ops **ops, void **self)
{
    const struct replay *r = ctx;

    if (!r->score)
        return false;
    *ops = loader_ops(r->score);
    *self = r->score->self;
    return true;
}

static int plugins_open(struct replay *r, const char *slurm, const char *topology, const char *spur)
{
    const struct spur_select_ops *ops;
    int rc;

    if ((rc = config_parse(slurm, NULL, topology, NULL, spur, &r->config, &r->error)) < 0 ||
        (rc = loader_open(SPUR_KIND_score, config_text(r->config, CONF_ScoreType), r->config, &r->host, &r->score, &r->error)) < 0 ||
        (rc = loader_open(SPUR_KIND_select, config_text(r->config, CONF_SelectType), r->config, &r->host, &r->select, &r->error)) < 0 ||
        (rc = loader_open(SPUR_KIND_priority, config_text(r->config, CONF_PriorityType), r->config, &r->host, &r->priority, &r->error)) < 0)
        return rc;
    ops = loader_ops(r->select);
    r->select_ops = (struct spur_select_ops){ .size = sizeof r->select_ops, .place = timed_place, .changed = SPUR_HAS(ops, changed) ? timed_changed : NULL,
                                              .explain = SPUR_HAS(ops, explain) ? timed_explain : NULL };
    r->plugins = (struct plan_plugins){ &r->select_ops, r, loader_ops(r->priority), r->priority->self };
    return 0;
}

/* ---- measures --------------------------------------------------------------------------------------------------------------- */
static void measure(struct replay *r, int64_t until_ms)
{
    double seconds = (double)(until_ms - r->now_ms) / 1000;
    uint64_t all = (uint64_t)r->o->nodes * r->o->machine->gpus;

    r->busy_s += seconds * (double)r->gpus_busy;
    r->free_s += seconds * (double)(all - r->gpus_busy);
    r->frag_s += seconds * (double)r->gpus_partial;
}

static void hold(struct replay *r, uint32_t node, uint32_t gpus, bool take)
{
    uint32_t all = r->o->machine->gpus;

    r->gpus_partial -= r->node_free[node] < all ? r->node_free[node] : 0;
    r->node_free[node] = take ? r->node_free[node] - gpus : r->node_free[node] + gpus;
    r->gpus_partial += r->node_free[node] < all ? r->node_free[node] : 0;
    r->gpus_busy += take ? gpus : (uint64_t)0 - gpus;
}

static uint64_t gpu_mask(const struct node_alloc *a)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < a->gres_count; i++)
        if (!strcmp(a->gres[i].name, "gpu"))
            mask |= a->gres[i].mask;
    return mask;
}

static void mask_print(uint64_t mask, struct str *out)
{
    struct bitmap b = { .bits = 64, .words = &mask };

    bitmap_print(&b, out);
}

/* Where it runs and how well its GPUs are joined. Neighbours with the same set share a text. */
static void note_start(struct replay *r, struct replay_job *job, const struct job *j)
{
    const struct machine *m = r->o->machine;
    uint64_t sum = 0, best = 0;
    struct bitmap leaves;
    struct str text;

    bitmap_init(&leaves, (r->o->nodes + r->o->leaf - 1) / r->o->leaf);
    str_init(&text);
    for (uint32_t i = 0, k; i < j->alloc_count; i = k) {
        uint64_t mask = gpu_mask(&j->allocs[i]);
        struct hostlist *h = hostlist_create();

        for (k = i; k < j->alloc_count && gpu_mask(&j->allocs[k]) == mask; k++) {
            uint32_t n = (uint32_t)__builtin_popcountll(mask);

            hostlist_add(h, r->state->nodes[j->allocs[k].node].conf->name);
            bitmap_set(&leaves, j->allocs[k].node / r->o->leaf);
            hold(r, j->allocs[k].node, n, true);
            sum += machine_sum(m, mask);
            best += m->best_mbps[n];
            job->has_pairs |= n > 1;
        }
        str_add(&text, text.len ? "+" : "");
        hostlist_print(h, &text);
        str_add_char(&text, ':');
        mask_print(mask, &text);
        hostlist_destroy(h);
    }
    job->leaves = (uint32_t)bitmap_count(&leaves);
    job->spans_nodes = j->alloc_count > 1;
    job->share = best ? (double)sum / (double)best : 1;
    job->where = str_take(&text);
    job->why = mem_copy(j->why_there);
    job->started = true;
    job->start_ms = r->now_ms;
    str_fini(&text);
    bitmap_fini(&leaves);
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------- */
static bool end_before(const struct end *a, const struct end *b) { return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->job < b->job; }

static void end_add(struct replay *r, int64_t at_ms, uint32_t job)
{
    uint32_t i = r->end_count++;

    r->ends[i] = (struct end){ at_ms, job };
    for (; i && end_before(&r->ends[i], &r->ends[(i - 1) / 2]); i = (i - 1) / 2) {
        struct end t = r->ends[i];

        r->ends[i] = r->ends[(i - 1) / 2];
        r->ends[(i - 1) / 2] = t;
    }
}

static uint32_t end_take(struct replay *r)
{
    uint32_t job = r->ends[0].job, i = 0;

    r->ends[0] = r->ends[--r->end_count];
    for (;;) {
        uint32_t child = 2 * i + 1;
        struct end t;

        if (child >= r->end_count)
            return job;
        if (child + 1 < r->end_count && end_before(&r->ends[child + 1], &r->ends[child]))
            child++;
        if (!end_before(&r->ends[child], &r->ends[i]))
            return job;
        t = r->ends[i];
        r->ends[i] = r->ends[child];
        r->ends[child] = t;
        i = child;
    }
}

static Wire__Op *report(struct replay *r, const struct job *j, uint32_t node, Wire__Report__Kind kind)
{
    Wire__Op *op = op_make(r);
    Wire__Report *rep = arena_alloc(&r->arena, sizeof *rep);

    op->report = arena_alloc(&r->arena, sizeof *op->report);
    wire__op_report__init(op->report);
    wire__report__init(rep);
    op->report->report = rep;
    rep->node = r->state->nodes[node].conf->name;
    rep->kind = kind;
    rep->job_id = j->job_id;
    rep->has_step_id = true;
    rep->step_id = STEP_BATCH;
    rep->attempt = j->attempt;
    rep->has_status = true;
    rep->seq = ++r->seq;
    return op;
}

static int end_job(struct replay *r, uint32_t at)
{
    struct replay_job *job = &r->jobs[at];
    const struct job *j = state_job(r->state, job->job_id);
    Wire__Op **ops = arena_alloc(&r->arena, (j->alloc_count + 2) * sizeof *ops);
    size_t n = 0;

    ops[n++] = report(r, j, j->allocs[0].node, WIRE__REPORT__KIND__ENDED);
    for (uint32_t i = 0; i < j->alloc_count; i++) {
        hold(r, j->allocs[i].node, (uint32_t)__builtin_popcountll(gpu_mask(&j->allocs[i])), false);
        ops[n++] = report(r, j, j->allocs[i].node, WIRE__REPORT__KIND__GONE);
    }
    job->end_ms = r->now_ms;
    r->running--;
    return entry(r, ops, n) ? 0 : r->error.code;
}

/* ---- submits ---------------------------------------------------------------------------------------------------------------- */
static const char script[] = "#!/bin/sh\n";

static void wish(const struct replay *r, struct arena *a, const struct load_job *from, Wire__JobSpec *spec)
{
    uint32_t per_node = r->o->machine->gpus, nodes = (from->gpus + per_node - 1) / per_node;
    double minutes = (double)from->duration_ms * r->o->limit_factor / 60000;

    wire__job_spec__init(spec);
    spec->name = arena_copy(a, "replay");
    spec->work_dir = arena_copy(a, "/");
    spec->has_is_batch = spec->is_batch = true;
    spec->has_min_nodes = spec->has_max_nodes = spec->has_ntasks = true;
    spec->min_nodes = spec->max_nodes = spec->ntasks = nodes;
    if (nodes == 1 || from->gpus % nodes == 0)
        spec->tres_per_node = arena_printf(a, "gres:gpu:%u", from->gpus / nodes);
    else
        spec->tres_per_job = arena_printf(a, "gres:gpu:%u", from->gpus);
    spec->has_time_limit_min = true;
    spec->time_limit_min = minutes < 1 ? 1 : minutes > 5e8 ? UINT32_C(500000000) : (uint32_t)minutes + (minutes > (uint32_t)minutes);
}

/* Could an empty cluster ever hold it? As the controller asks before each submit. */
static const char *never(struct replay *r, const Wire__JobSpec *spec)
{
    const struct config_partition *part = &r->state->config->partitions[0];
    const struct spur_select_ops *ops = loader_ops(r->select);
    struct spur_error err = { 0 };
    struct spur_ask ask;

    if (ask_build_spec(r->state, spec, part, &r->arena, &ask, &err) < 0 ||
        spur_select_is_never(ops->place(r->select->self, state_view(r->state), &ask, placement_room(r->state, &r->arena, ask.max_nodes), &err)))
        return arena_copy(&r->arena, err.text);
    return NULL;
}

static int submit(struct replay *r, uint32_t at)
{
    const struct load_job *from = &r->o->load->jobs[at];
    struct replay_job *job = &r->jobs[at];
    struct spur_identity who = { .size = sizeof who, .role = SPUR_ROLE_USER, .uid = SIM_UID, .gid = SIM_UID, .is_local = true };
    struct facts facts = { .user = "replay", .group = "replay", .wall_ms = WALL_MS + r->now_ms, .is_local = true };
    Wire__SubmitRequest request = WIRE__SUBMIT_REQUEST__INIT;
    Wire__Blob blob = WIRE__BLOB__INIT, *blobs[1] = { &blob };
    uint8_t token[16] = { 0 }, hash[32] = { 1 };
    struct admitted adm = { 0 };
    struct spur_error err = { 0 };
    Wire__JobSpec spec;
    const struct op_result *results;

    job->gpus = from->gpus;
    job->submit_ms = r->now_ms;
    wish(r, &r->arena, from, &spec);
    spec.has_script_hash = true;
    spec.script_hash.data = blob.hash.data = hash;
    spec.script_hash.len = blob.hash.len = sizeof hash;
    blob.data.data = (uint8_t *)(uintptr_t)script;
    blob.data.len = sizeof script - 1;
    r->token++;
    memcpy(token, &r->token, sizeof r->token);
    request.spec = &spec;
    request.token.data = token;
    request.token.len = sizeof token;
    request.token_wall_ms = facts.wall_ms;
    request.blobs = blobs;
    request.n_blobs = 1;
    facts.never = never(r, &spec);
    if (admit_submit(r->state, &request, &who, &facts, &r->arena, &adm, &err) < 0 || !adm.op_count) {
        job->refused = true;
        job->where = mem_copy(err.text[0] ? err.text : "refused");
        return 0;
    }
    if (!(results = entry(r, adm.ops, adm.op_count)))
        return r->error.code;
    if (results[0].code < 0) {
        job->refused = true;
        job->where = mem_copy(results[0].text ? results[0].text : "refused");
        return 0;
    }
    job->job_id = results[0].job_id;
    table_put(&r->by_id, job->job_id, (void *)(uintptr_t)(at + 1));
    r->pending++;
    return 0;
}

/* ---- the plan --------------------------------------------------------------------------------------------------------------- */
static int decide(struct replay *r, const struct decisions *d)
{
    const struct op_result *results = entry(r, d->ops, d->op_count);

    if (!results)
        return r->error.code;
    for (size_t i = 0; i < d->op_count; i++) {
        const Wire__OpStart *o = d->ops[i]->start;
        struct replay_job *job;
        uint32_t at;
        Wire__Op *op;

        if (results[i].code < 0 || !o) {
            plan_refused(r->plan, r->state, o ? o->job_id : d->ops[i]->cancel ? d->ops[i]->cancel->job_id : 0, o && o->has_array_task_id ? o->array_task_id : UINT32_MAX);
            continue;
        }
        at = (uint32_t)(uintptr_t)table_get(&r->by_id, o->job_id);
        if (!at--)
            continue;
        job = &r->jobs[at];
        note_start(r, job, state_job(r->state, job->job_id));
        r->pending--;
        r->running++;
        r->starts++;
        op = report(r, state_job(r->state, job->job_id), state_job(r->state, job->job_id)->allocs[0].node, WIRE__REPORT__KIND__STARTED);
        if (!entry(r, &op, 1))
            return r->error.code;
        end_add(r, r->o->fill ? INT64_MAX : r->now_ms + r->o->load->jobs[at].duration_ms, at);
    }
    return 0;
}

static int plan_turn(struct replay *r)
{
    struct decisions d;
    int rc;

    do {
        double before, took;

        if (!plan_is_dirty(r->plan) && plan_next_wall_ms(r->plan) > WALL_MS + r->now_ms)
            return 0;
        before = clock_s(CLOCK_THREAD_CPUTIME_ID);       /* what it costs, not what else the machine was doing */
        arena_reset(&r->arena);
        plan_pass(r->plan, r->state, &r->plugins, WALL_MS + r->now_ms, 1000000 + r->now_ms,
                  (struct plan_budget){ r->o->placements ? r->o->placements : PLACEMENTS }, &r->arena, &d);
        took = clock_s(CLOCK_THREAD_CPUTIME_ID) - before;
        r->slice_s_max = took > r->slice_s_max ? took : r->slice_s_max;
        r->slices++;
        if (d.op_count && (rc = decide(r, &d)) < 0)
            return rc;
    } while (d.more || d.op_count);
    return 0;
}

/* ---- the loop --------------------------------------------------------------------------------------------------------------- */
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int turns(struct replay *r)
{
    const struct load *load = r->o->load;
    int64_t purged_ms = 0;
    uint32_t next = 0, idle = 0;
    int rc = 0;

    while (rc == 0) {
        int64_t submit_ms = next < load->count ? r->o->fill ? 0 : load->jobs[next].submit_ms : INT64_MAX;
        int64_t end_ms = r->end_count ? r->ends[0].at_ms : INT64_MAX, wake_ms = INT64_MAX, at_ms;
        uint64_t starts = r->starts;
        double before;

        if (r->pending && plan_next_wall_ms(r->plan) != INT64_MAX)
            wake_ms = plan_next_wall_ms(r->plan) - WALL_MS;
        at_ms = least(least(submit_ms, end_ms), wake_ms);
        if (at_ms == INT64_MAX || (idle > 64 && submit_ms == INT64_MAX && end_ms == INT64_MAX))
            return 0;           /* all has ended, or what is left can never start */
        if (at_ms > r->now_ms) {
            measure(r, at_ms);
            r->now_ms = at_ms;
        }
        for (; rc == 0 && r->end_count && r->ends[0].at_ms <= r->now_ms; arena_reset(&r->arena))
            rc = end_job(r, end_take(r));
        before = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        for (; rc == 0 && next < load->count && (r->o->fill || load->jobs[next].submit_ms <= r->now_ms); next++, arena_reset(&r->arena))
            rc = submit(r, next);
        r->submit_s += clock_s(CLOCK_PROCESS_CPUTIME_ID) - before;
        before = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        if (rc == 0)
            rc = plan_turn(r);
        r->start_s += clock_s(CLOCK_PROCESS_CPUTIME_ID) - before;
        if (rc == 0 && r->now_ms - purged_ms > PURGE_MS) {
            Wire__Op *op = op_make(r);

            op->purge = arena_alloc(&r->arena, sizeof *op->purge);
            wire__op_purge__init(op->purge);
            op->purge->before_cluster_ms = 1000000 + r->now_ms - PURGE_MS;
            purged_ms = r->now_ms;
            rc = entry(r, &op, 1) ? 0 : r->error.code;
        }
        arena_reset(&r->arena);
        idle = r->starts == starts ? idle + 1 : 0;
    }
    return rc;
}

/* ---- what came of it -------------------------------------------------------------------------------------------------------- */
static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static double at_share(uint64_t *numbers, size_t n, double share)
{
    return n ? (double)numbers[(size_t)((double)(n - 1) * share + 0.5)] : 0;
}

static void summarise(struct replay *r, struct replay_summary *s)
{
    uint64_t *waits = mem_array(r->o->load->count + 1, sizeof *waits), wait_sum = 0;
    uint64_t all = (uint64_t)r->o->nodes * r->o->machine->gpus;
    uint32_t best = 0, one_leaf = 0;
    double ratio = 0;

    s->jobs = r->o->load->count;
    for (uint32_t i = 0; i < s->jobs; i++) {
        const struct replay_job *j = &r->jobs[i];

        s->refused += j->refused;
        s->waiting += !j->refused && !j->started;
        if (!j->started)
            continue;
        waits[s->started++] = (uint64_t)(j->start_ms - j->submit_ms);
        wait_sum += (uint64_t)(j->start_ms - j->submit_ms);
        if (j->has_pairs) {
            s->paired++;
            ratio += j->share;
            best += j->share > 0.999999;
        }
        if (j->spans_nodes) {
            s->multi_node++;
            one_leaf += j->leaves == 1;
        }
    }
    qsort(waits, s->started, sizeof *waits, by_number);
    s->bandwidth_ratio = s->paired ? ratio / s->paired : 1;
    s->best_share = s->paired ? (double)best / s->paired : 1;
    s->one_leaf_share = s->multi_node ? (double)one_leaf / s->multi_node : 1;
    s->wait_mean_s = s->started ? (double)wait_sum / s->started / 1000 : 0;
    s->wait_p95_s = at_share(waits, s->started, 0.95) / 1000;
    s->span_s = (double)r->now_ms / 1000;
    s->utilisation = r->now_ms ? r->busy_s / (s->span_s * (double)all) : (double)r->gpus_busy / (double)all;
    s->fragmentation = r->now_ms ? r->free_s > 0 ? r->frag_s / r->free_s : 0 : all > r->gpus_busy ? (double)r->gpus_partial / (double)(all - r->gpus_busy) : 0;
    s->decisions = r->time_count;
    s->slices = r->slices;
    qsort(r->times, r->time_count, sizeof *r->times, by_number);
    s->decision_us_median = at_share(r->times, r->time_count, 0.5) / 1000;
    s->decision_us_p95 = at_share(r->times, r->time_count, 0.95) / 1000;
    s->decision_us_max = at_share(r->times, r->time_count, 1) / 1000;
    s->slice_ms_max = r->slice_s_max * 1000;
    s->submit_s = r->submit_s;
    s->start_s = r->start_s;
    free(waits);
}

int replay_run(const struct replay_options *o, void (*row)(void *arg, const struct replay_job *j), void *arg, struct replay_summary *out, struct spur_error *err)
{
    struct replay r = { .o = o, .host = { .size = sizeof r.host, .ctx = &r, .score = host_score } };
    struct str slurm, topology;
    int rc;

    memset(out, 0, sizeof *out);
    str_init(&slurm);
    str_init(&topology);
    arena_init(&r.arena, 0);
    table_init(&r.by_id);
    r.state = state_create();
    r.plan = plan_create();
    r.jobs = mem_array(o->load->count + 1, sizeof *r.jobs);
    r.ends = mem_array(o->load->count + 1, sizeof *r.ends);
    r.node_free = mem_array(o->nodes + 1, sizeof *r.node_free);
    for (uint32_t i = 0; i < o->nodes; i++)
        r.node_free[i] = o->machine->gpus;
    conf_text(o, &slurm);
    topology_text(o, &topology);
    if ((rc = plugins_open(&r, slurm.text, topology.text, o->spur_conf)) < 0 || (rc = configure(&r, slurm.text, topology.text, o->spur_conf)) < 0 || (rc = register_nodes(&r)) < 0)
        goto out;
    if ((rc = turns(&r)) < 0)
        goto out;
    summarise(&r, out);
    for (uint32_t i = 0; row && i < o->load->count; i++)
        row(arg, &r.jobs[i]);
out:
    if (rc < 0 && err)
        *err = r.error;
    for (uint32_t i = 0; i < o->load->count; i++) {
        free(r.jobs[i].where);
        free(r.jobs[i].why);
    }
    free(r.jobs);
    free(r.ends);
    free(r.node_free);
    free(r.times);
    plan_destroy(r.plan);
    state_destroy(r.state);
    loader_close(r.select);
    loader_close(r.priority);
    loader_close(r.score);
    config_free(r.config);
    table_fini(&r.by_id);
    arena_fini(&r.arena);
    str_fini(&slurm);
    str_fini(&topology);
    return rc;
}
