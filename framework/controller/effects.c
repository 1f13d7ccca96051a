/* SPDX-License-Identifier: Apache-2.0 */
/* effects.c - what apply said, done in the world: launches, signals, kills, answers. On the leader only.
 *
 * Every effect is idempotent by job id and attempt and carries the fencing number, so it may be sent again at any time: when a node
 * comes back, when a launch was not confirmed, when a new leader walks the state. Nothing waits for a node: each launch has a deadline
 * (BatchStartTimeout), each kill is repeated until the node says that nothing of the job is alive there.
 */
#include <stdlib.h>

#include "controller/ctl.h"
#include "state/layout.h"
#include "wire/credential.h"

#define PROPOSE_AGAIN_MS 2000
#define CREDENTIAL_LIFE_MS 300000

static int64_t launch_deadline_ms(const struct ctl *c)
{
    const struct config *cfg = c->state->config;
    int64_t s = config_number(cfg, CONF_BatchStartTimeout);
    const char *prolog = config_text(cfg, CONF_Prolog);

    return ((s > 0 ? s : 10) + (prolog && *prolog ? config_hook_timeout_s(cfg, CONF_PrologTimeout) : 0)) * 1000;
}

/* ---- launch ------------------------------------------------------------------------------------------------------------ */

static Wire__NodeAlloc *effect_alloc(const struct ctl *c, const struct node_alloc *na, struct arena *a)
{
    Wire__NodeAlloc *w = arena_alloc(a, sizeof *w);

    wire__node_alloc__init(w);
    w->node = na->node;
    w->name = na->node < c->state->node_count ? c->state->nodes[na->node].conf->name : (char *)"?";
    w->has_cpus = w->has_tasks = w->has_mem_mib = 1;
    w->cpus = na->cpus;
    w->tasks = na->tasks;
    w->mem_mib = na->mem_mib;
    w->n_cores = bitmap_words(na->cores.bits);
    w->cores = na->cores.words;
    w->n_gres = na->gres_count;
    w->gres = arena_alloc(a, (na->gres_count + 1) * sizeof *w->gres);
    for (uint32_t i = 0; i < na->gres_count; i++) {
        w->gres[i] = arena_alloc(a, sizeof **w->gres);
        wire__gres_alloc__init(w->gres[i]);
        w->gres[i]->name = na->gres[i].name;
        w->gres[i]->type = na->gres[i].type;
        w->gres[i]->has_count = w->gres[i]->has_mask = 1;
        w->gres[i]->count = na->gres[i].count;
        w->gres[i]->mask = na->gres[i].mask;
    }
    return w;
}

/* Tasks that are not simply first_task and those behind it. */
static void effect_task_ids(Wire__Launch *l, const Wire__StepSpec *spec, struct arena *a)
{
    uint32_t n = (uint32_t)l->n_step_nodes, total = 0, *tasks, *ids, *named = NULL;
    struct layout_how how;
    const char **names;

    if (!spec || layout_parse(spec->distribution, &how, NULL) < 0 || layout_is_plain(&how, n))
        return;
    tasks = arena_alloc(a, (n + 1) * sizeof *tasks);
    names = arena_alloc(a, (n + 1) * sizeof *names);
    for (uint32_t i = 0; i < n; i++) {
        tasks[i] = l->step_nodes[i]->tasks;
        names[i] = l->step_nodes[i]->name;
        total += tasks[i];
    }
    ids = arena_alloc(a, (total + 1) * sizeof *ids);
    if (how.nodes == DEAL_ARBITRARY) {
        named = arena_alloc(a, (total + 1) * sizeof *named);
        if (!layout_named(spec->task_nodes, names, n, total, named))
            return;
    }
    layout_ids(&how, tasks, n, named, ids);
    for (uint32_t i = 0; i < n; ids += tasks[i++]) {
        l->step_nodes[i]->n_task_ids = tasks[i];
        l->step_nodes[i]->task_ids = ids;
        l->step_nodes[i]->first_task = tasks[i] ? ids[0] : 0;
    }
}

static void effect_step_nodes(const struct ctl *c, Wire__Launch *l, const struct node_alloc *allocs, uint32_t n, struct arena *a);

/* Over several components: their nodes one component after the other, with ranks that count on. Each deals its tasks as its own options say. */
static void effect_het_nodes(const struct ctl *c, Wire__Launch *l, const struct job *j, const struct step *st, uint32_t rank, struct arena *a)
{
    uint32_t count = het_step_parts(c, j, st), rows = 0, tasks = 0;

    for (uint32_t k = 0; k < count; k++)
        rows += het_step_part(c, st, k, NULL) ? het_step_part(c, st, k, NULL)->alloc_count : 0;
    l->step_nodes = arena_alloc(a, (rows + 1) * sizeof *l->step_nodes);
    l->n_step_nodes = 0;
    for (uint32_t k = 0; k < count; k++) {
        const struct job *owner = NULL;
        const struct step *part = het_step_part(c, st, k, &owner);
        Wire__Launch own = WIRE__LAUNCH__INIT;

        if (!part)
            continue;
        if (owner == j) {
            l->has_step_row = true;
            l->step_row = (uint32_t)l->n_step_nodes + rank;
        }
        effect_step_nodes(c, &own, part->allocs, part->alloc_count, a);
        effect_task_ids(&own, part->spec, a);
        for (size_t i = 0; i < own.n_step_nodes; i++) {
            Wire__StepNode *row = own.step_nodes[i];

            row->first_task += tasks;
            for (size_t t = 0; t < row->n_task_ids; t++)
                row->task_ids[t] += tasks;
            l->step_nodes[l->n_step_nodes++] = row;
        }
        tasks += part->ntasks;
    }
}

static void effect_step_nodes(const struct ctl *c, Wire__Launch *l, const struct node_alloc *allocs, uint32_t n, struct arena *a)
{
    uint32_t task = 0;

    l->n_step_nodes = n;
    l->step_nodes = arena_alloc(a, (n + 1) * sizeof *l->step_nodes);
    for (uint32_t i = 0; i < n; i++) {
        l->step_nodes[i] = arena_alloc(a, sizeof **l->step_nodes);
        wire__step_node__init(l->step_nodes[i]);
        l->step_nodes[i]->name = allocs[i].node < c->state->node_count ? c->state->nodes[allocs[i].node].conf->name : (char *)"?";
        l->step_nodes[i]->tasks = allocs[i].tasks;
        l->step_nodes[i]->has_first_task = 1;
        l->step_nodes[i]->first_task = task;
        task += allocs[i].tasks;
    }
}

/* In a group only: a member that got a snapshot may still be without it. Alone, a blob that is gone is gone, and the agent says what that means. */
static bool effect_lacks_blob(struct ctl *c, const struct job *j, const struct step *st)
{
    if (!loader_can(c->store, SPUR_CAP_REPLICATED))
        return false;
    if (st)
        return st->has_env && !blobs_has(c, st->env_hash);
    return (j->has_script && !blobs_has(c, j->script_hash)) || (j->has_env && !blobs_has(c, j->env_hash));
}

/* Sends one step (or the batch script, st NULL; or its Prolog alone) of a job to one of its nodes. Nodes that are not connected get it when they register. */
static void effect_send(struct ctl *c, const struct job *j, const struct step *st, uint32_t rank, bool is_prolog)
{
    const struct node_alloc *allocs = st ? st->allocs : j->allocs;
    uint32_t count = st ? st->alloc_count : is_prolog ? j->alloc_count : job_members(j);      /* a Prolog runs on spares too */
    struct peer *agent = nodes_agent(c, allocs[rank].node);
    Wire__Launch l = WIRE__LAUNCH__INIT;
    Wire__Credential cred = WIRE__CREDENTIAL__INIT;
    struct spur_error err = { 0 };
    uint8_t signature[64], fabric[1024];
    struct arena a;

    if (!agent)
        return;
    if (!is_prolog && effect_lacks_blob(c, j, st)) {      /* after the fetch everything that is not confirmed is sent again */
        fetch_blobs(c);
        return;
    }
    arena_init(&a, 0);
    l.spec = job_spec(j, &a);
    l.job = job_info(c->state, j, ~UINT64_C(0), clock_wall_ms() / 1000, &a);
    l.has_node_rank = l.has_restarts = 1;
    l.restarts = j->restarts;
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (j->allocs[i].node == allocs[rank].node)
            l.node_rank = i;
    if (st) {
        l.step = st->spec;
    } else if (j->has_script && !is_prolog) {
        l.script.data = (uint8_t *)(uintptr_t)blobs_get(c, j->script_hash, &l.script.len);
        l.has_script = l.script.data != NULL;
        if (l.has_script)
            l.script.data = arena_copy_bytes(&a, l.script.data, l.script.len);
    }
    if (!is_prolog && (st ? st->has_env : j->has_env)) {
        l.env.data = (uint8_t *)(uintptr_t)blobs_get(c, st ? st->env_hash : j->env_hash, &l.env.len);
        l.has_env = l.env.data != NULL;
    }
    if (st && het_step_parts(c, j, st)) {
        effect_het_nodes(c, &l, j, st, rank, &a);
    } else {
        effect_step_nodes(c, &l, allocs, count, &a);
        effect_task_ids(&l, l.step, &a);
    }
    if (j->het_job_id)
        het_launch(c, j, st, &l, &a);

    cred.cluster = (char *)(uintptr_t)config_text(c->state->config, CONF_ClusterName);
    cred.job_id = j->job_id;
    cred.step_id = is_prolog ? STEP_EXTERN : st ? st->step_id : STEP_BATCH;
    cred.attempt = j->attempt;
    cred.uid = j->uid;
    cred.gid = j->gid;
    cred.n_groups = j->group_count;
    cred.groups = j->groups;
    cred.user = j->user;
    cred.n_nodes = count;
    cred.nodes = arena_alloc(&a, (count + 1) * sizeof *cred.nodes);
    for (uint32_t i = 0; i < count; i++)
        cred.nodes[i] = effect_alloc(c, &allocs[i], &a);
    cred.fabric.len = fabric_blob(j->fabric, fabric);
    cred.fabric.data = fabric;
    cred.has_fabric = cred.fabric.len != 0;
    cred.has_alone = cred.alone = 1;
    for (uint32_t i = 0; i < count; i++)
        cred.alone = cred.alone && allocs[i].node != NODE_REMOVED && c->state->nodes[allocs[i].node].exclusive_job == j->job_id;
    cred.fence = c->fence;
    cred.issued_wall_ms = clock_wall_ms();
    cred.expires_wall_ms = cred.issued_wall_ms + CREDENTIAL_LIFE_MS;
    if (st && st->has_io_key) {
        cred.has_io_key = cred.has_io_port = 1;
        cred.io_key.data = (uint8_t *)(uintptr_t)st->io_key;
        cred.io_key.len = sizeof st->io_key;
        cred.io_host = st->io_host;
        cred.io_port = st->io_port;
    }
    if (credential_seal(&cred, &l, &a, &err) < 0 ||
        c->auth_ops->sign(c->auth->self, CREDENTIAL_PURPOSE, l.credential.data, l.credential.len, signature, &err) < 0) {
        log_line(SPUR_LOG_ERROR, "job %u: cannot sign the launch: %s", j->job_id, err.text);
    } else {
        l.signature.data = signature;
        l.signature.len = sizeof signature;
        l.signer = c->name;
        rpc_send(agent->conn, WIRE__MESSAGE_TYPE__LAUNCH, 0, &l.base);
    }
    arena_fini(&a);
}

/* The last hook of a component has ended: now the script of the first one may start. */
static void effect_start(struct ctl *c, const struct job *j);
static void effect_component_ready(struct ctl *c, const struct job *j)
{
    const struct job *first = het_leader(c->state, j);
    const char *prolog = config_text(c->state->config, CONF_PrologSlurmctld);

    if (first != j && !j->awaits && ((prolog && *prolog) || hooks_alloc_runs(c)) && first->is_batch && first->state == JOB_RUNNING && !first->awaits &&
        !(first->flags & JOB_FLAG_COMPLETING) && first->alloc_count && !first->allocs[0].started)
        effect_start(c, first);
}

static void effect_launch(struct ctl *c, const struct job *j, const struct step *st, uint32_t rank) { effect_send(c, j, st, rank, false); }
void effect_prolog(struct ctl *c, const struct job *j, uint32_t rank) { effect_send(c, j, NULL, rank, true); }

static void effect_start(struct ctl *c, const struct job *j)
{
    if (hooks_started(c, j)) {
        watch_limit(c, j);
        return;
    }
    c->starts++;
    if (j->is_batch && j->alloc_count && !het_awaits(c, j)) {
        effect_launch(c, j, NULL, 0);
        watch_launch(c, j, launch_deadline_ms(c));
    }
    watch_limit(c, j);
}

/* ---- kill and signal ---------------------------------------------------------------------------------------------------- */

static void effect_kill_on(struct ctl *c, uint32_t node, const Wire__Kill *k)
{
    struct peer *agent = nodes_agent(c, node);

    if (agent)
        rpc_send(agent->conn, WIRE__MESSAGE_TYPE__KILL, 0, &k->base);
}

static void kill_fill(struct ctl *c, const struct job *j, Wire__Kill *k, int signal)
{
    wire__kill__init(k);
    k->job_id = j->job_id;
    k->has_attempt = k->has_fence = 1;
    k->attempt = j->attempt;
    k->fence = c->fence;
    k->signal = (uint32_t)signal;
}

/* The arena holds what the Epilog is told of the job. */
static void kill_empty(struct ctl *c, const struct job *j, Wire__Kill *k, struct arena *a)
{
    const char *epilog = config_text(c->state->config, CONF_Epilog);

    kill_fill(c, j, k, 15);
    k->has_kill_wait_s = k->has_until_empty = 1;
    k->kill_wait_s = (uint32_t)config_number(c->state->config, CONF_KillWait);
    k->until_empty = 1;
    if ((epilog && *epilog) || config_text(c->state->config, CONF_PlugStackConfig) || job_spec(j, a)->n_spank_env)
        k->job = job_info(c->state, j, ~UINT64_C(0), clock_wall_ms() / 1000, a);
    k->why = (char *)(uintptr_t)(j->flags & (JOB_FLAG_REQUEUE | JOB_FLAG_REQUEUE_HOLD) ? "JOB REQUEUE" : j->state == JOB_TIMEOUT ? "TIME LIMIT" :
                                 j->state == JOB_PREEMPTED ? "PREEMPTION" : j->state == JOB_NODE_FAIL ? "NODE FAILURE" : NULL);
}

static void effect_kill(struct ctl *c, const struct job *j)
{
    struct arena a;
    Wire__Kill k;

    arena_init(&a, 0);
    kill_empty(c, j, &k, &a);
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].gone)
            effect_kill_on(c, j->allocs[i].node, &k);
    arena_fini(&a);
    hooks_killed(c, j);
    watch_kill(c, j);
}

static void effect_signal(struct ctl *c, const struct event *e)
{
    const struct job *j = state_job(c->state, e->job_id);
    Wire__Kill k;

    if (!j || !j->alloc_count)
        return;
    kill_fill(c, j, &k, e->signal);
    if (e->step_id != EVENT_NO_STEP) {
        k.has_step_id = 1;
        k.step_id = e->step_id;
    }
    k.has_batch_only = e->batch_only;
    k.batch_only = e->batch_only;
    k.has_full = e->full;
    k.full = e->full;
    if (e->end_step) {
        k.has_until_empty = k.until_empty = k.has_kill_wait_s = 1;
        k.kill_wait_s = (uint32_t)config_number(c->state->config, CONF_KillWait);
    }
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!e->batch_only || i == 0)
            effect_kill_on(c, j->allocs[i].node, &k);
}

/* It stands still, or goes on, as its state says. */
static void effect_freeze_on(struct ctl *c, const struct job *j, uint32_t node)
{
    Wire__Kill k;

    kill_fill(c, j, &k, 0);
    k.has_freeze = 1;
    k.freeze = j->state == JOB_SUSPENDED;
    effect_kill_on(c, node, &k);
}

static void effect_freeze(struct ctl *c, const struct job *j)
{
    if (j->state != JOB_SUSPENDED && j->state != JOB_RUNNING)
        return;
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].gone)
            effect_freeze_on(c, j, j->allocs[i].node);
}

/* Which nodes it has now, to one of them. */
static void effect_nodes_on(struct ctl *c, const struct job *j, uint32_t node)
{
    struct peer *agent = nodes_agent(c, node);
    Wire__JobNodes m = WIRE__JOB_NODES__INIT;

    m.job_id = j->job_id;
    m.attempt = j->attempt;
    m.nodes = j->nodes;
    if (agent && j->nodes)
        rpc_send(agent->conn, WIRE__MESSAGE_TYPE__AGENT_JOB_NODES, 0, &m.base);
}

static void effect_nodes(struct ctl *c, const struct job *j)
{
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (!j->allocs[i].gone)
            effect_nodes_on(c, j, j->allocs[i].node);
}

/* A node runs something that is not meant to be there: end it. */
static void effect_orphan(struct ctl *c, const struct event *e)
{
    Wire__Kill k = WIRE__KILL__INIT;
    struct peer *agent = nodes_agent(c, e->node);

    if (!agent)
        return;
    k.job_id = e->job_id;
    k.has_attempt = k.has_fence = k.has_kill_wait_s = k.has_until_empty = 1;
    k.attempt = e->attempt;
    k.fence = c->fence;
    k.signal = 15;
    k.kill_wait_s = (uint32_t)config_number(c->state->config, CONF_KillWait);
    k.until_empty = 1;
    log_line(SPUR_LOG_WARN, "node %s runs job %u attempt %u, which it should not: ending it", c->state->nodes[e->node].conf->name, e->job_id, e->attempt);
    rpc_send(agent->conn, WIRE__MESSAGE_TYPE__KILL, 0, &k.base);
}

/* ---- events ------------------------------------------------------------------------------------------------------------- */

static void effect_step(struct ctl *c, const struct event *e)
{
    const struct job *j = state_job(c->state, e->job_id);
    const struct step *st;

    for (st = j ? j->steps : NULL; st && st->step_id != e->step_id; st = st->next)
        ;
    if (!st)
        return;
    for (uint32_t i = 0; i < st->alloc_count; i++)
        effect_launch(c, j, st, i);
}

void effects_run(struct ctl *c, const struct event *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct event *e = &events[i];
        const struct job *j = e->job_id ? state_job(c->state, e->job_id) : NULL;

        switch (e->kind) {
        case EV_JOB_STARTED:
            if (j) {
                fabric_started(c, j);
                mesh_job(c, j, true);       /* its nodes know each other before its first task asks */
                effect_start(c, j);
                effect_component_ready(c, j);
            }
            waits_event(c, e->job_id);
            if (j && j->het_offset)
                waits_event(c, j->het_job_id);
            break;
        case EV_STEP_CREATED:
            effect_step(c, e);
            stepwaits_event(c, e->job_id);
            break;
        case EV_JOB_KILL:
            if (j)
                effect_kill(c, j);
            break;
        case EV_JOB_SIGNAL:
            effect_signal(c, e);
            break;
        case EV_JOB_ENDED:
            alarm_set(c, (config_number(c->state->config, CONF_MinJobAge) + 1) * 1000, ALARM_PURGE, 0);
            /* fall through */
        case EV_JOB_GONE:
            if (e->kind == EV_JOB_GONE) {
                watch_forget(c, e->job_id);
                fabric_gone(c, e->job_id);
            }
            mesh_job(c, j, false);
            waits_event(c, e->job_id);
            stepwaits_event(c, e->job_id);
            if (j && j->array_job_id && j->array_job_id != j->job_id)
                waits_event(c, j->array_job_id);
            ctl_plan_soon(c);
            break;
        case EV_CONFIG_CHANGED:
            log_level(log_level_of((unsigned)config_number(c->state->config, CONF_SlurmctldDebug)) + c->verbose);
            log_line(SPUR_LOG_INFO, "configuration version %llu: %u nodes, %zu partitions", (unsigned long long)c->state->config_version, c->state->node_count,
                     c->state->config->partition_count);
            ctl_plugins_take(c);
            joins_changed(c);
            nodes_watch(c);
            nodes_configure(c);
            mesh_configure(c);
            ctl_plan_soon(c);
            break;
        case EV_HOSTS_CHANGED:
            joins_changed(c);
            break;
        case EV_ACCOUNTS_CHANGED:
            roles_changed(c);
            break;
        case EV_JOB_CHANGED:
            if (j)
                watch_limit(c, j);
            mesh_job(c, j, false);
            ctl_plan_soon(c);
            break;
        case EV_JOB_REQUEUED:
            watch_forget(c, e->job_id);
            fabric_gone(c, e->job_id);
            mesh_job(c, NULL, false);
            /* fall through */
        case EV_JOB_SUBMITTED:
            ctl_plan_soon(c);
            break;
        case EV_NODE_CHANGED:
            nodes_changed(c, e->node);
            held_look(c);
            ctl_plan_soon(c);
            break;
        case EV_MESH_CHANGED:
            mesh_changed(c, e->node);
            seat_changed(c);
            break;
        case EV_MESH_RENEW:
            seat_renew(c, e->node);
            break;
        case EV_ORPHAN:
            effect_orphan(c, e);
            break;
        case EV_JOB_FREEZE:
            if (j)
                effect_freeze(c, j);
            break;
        case EV_JOB_NODES:
            if (j) {
                log_line(SPUR_LOG_INFO, "job %u: node %s has left it: it goes on with %s", j->job_id, j->failed_node ? j->failed_node : "?", j->nodes ? j->nodes : "?");
                effect_nodes(c, j);
                mesh_job(c, j, false);
            }
            break;
        case EV_NODE_REBOOT:
            nodes_reboot(c, e->node);
            break;
        case EV_BLOB_DROPPED:
            blobs_drop(c, e->hash);
            break;
        case EV_STEP_ENDED:
            stepwaits_event(c, e->job_id);
            break;
        case EV_JOB_PURGED: case EV_REPORT_TAKEN:
            break;
        }
    }
}

void effects_follow(struct ctl *c, const struct event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (events[i].kind == EV_BLOB_DROPPED)
            blobs_drop(c, events[i].hash);
        else if (events[i].kind == EV_HOSTS_CHANGED && c->is_started)
            joins_changed(c);
        else if (events[i].kind == EV_ACCOUNTS_CHANGED)
            roles_changed(c);
        else if (events[i].kind == EV_MESH_CHANGED && c->is_started)
            seat_changed(c);
        else if (events[i].kind == EV_MESH_RENEW && c->is_started)
            seat_renew(c, events[i].node);
        else if (events[i].kind == EV_CONFIG_CHANGED && c->is_started)
            ctl_config_followed(c);
}

/* ---- alarms ------------------------------------------------------------------------------------------------------------- */

struct proposed { enum alarm_kind kind; uint64_t id; };

/* A full disk drops entries: the alarm rings again, until one is in. */
static void effect_proposed(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    const struct proposed *p = arg;

    (void)n; (void)err;
    if (!results && !c->is_stopping)
        alarm_set(c, PROPOSE_AGAIN_MS, p->kind, p->id);
}

static void effect_propose(struct ctl *c, Wire__Op *op, enum alarm_kind kind, uint64_t id, struct arena *take_arena)
{
    Wire__Op **ops = arena_alloc(take_arena, sizeof *ops);
    struct proposed *p = arena_alloc(take_arena, sizeof *p);

    *ops = op;
    *p = (struct proposed){ kind, id };
    propose(c, ops, 1, NULL, take_arena, effect_proposed, p);
}

/* A launch that its node has not confirmed. A node that is away is waited for: it registers and gets it again, or is lost. Else the job goes
 * back to the queue, where it may, or has failed. */
static void effect_launch_late(struct ctl *c, const struct job *j)
{
    const char *node = c->state->nodes[j->allocs[0].node].conf->name;
    struct arena a;
    Wire__Report *r;
    Wire__Op *op;

    if (!nodes_agent(c, j->allocs[0].node)) {
        watch_launch(c, j, launch_deadline_ms(c));
        return;
    }
    log_line(SPUR_LOG_WARN, "job %u: node %s did not confirm the launch within %lld s", j->job_id, node, (long long)(launch_deadline_ms(c) / 1000));
    arena_init(&a, 0);
    op = arena_alloc(&a, sizeof *op);
    wire__op__init(op);
    op->report = arena_alloc(&a, sizeof *op->report);
    wire__op_report__init(op->report);
    r = arena_alloc(&a, sizeof *r);
    wire__report__init(r);
    r->node = arena_copy(&a, node);
    r->kind = WIRE__REPORT__KIND__LAUNCH_FAILED;
    r->job_id = j->job_id;
    r->has_step_id = 1;
    r->step_id = STEP_BATCH;
    r->attempt = j->attempt;
    r->has_node_fault = r->node_fault = j->requeue;
    r->text = arena_printf(&a, "node %s did not confirm the launch within %lld s", node, (long long)(launch_deadline_ms(c) / 1000));
    op->report->report = r;
    effect_propose(c, op, ALARM_LAUNCH, (uint64_t)j->job_id << 32 | j->attempt, &a);
}

static void effect_limit(struct ctl *c, const struct job *j)
{
    struct arena a;
    Wire__Op *op;

    arena_init(&a, 0);
    op = arena_alloc(&a, sizeof *op);
    wire__op__init(op);
    op->time_limit = arena_alloc(&a, sizeof *op->time_limit);
    wire__op_time_limit__init(op->time_limit);
    op->time_limit->job_id = j->job_id;
    effect_propose(c, op, ALARM_JOB_LIMIT, j->job_id, &a);
}

void effect_warn(struct ctl *c, const struct job *j, int signal, bool batch_only)
{
    struct event e = { .kind = EV_JOB_SIGNAL, .job_id = j->job_id, .signal = signal, .batch_only = batch_only, .step_id = EVENT_NO_STEP };

    effect_signal(c, &e);
}

static void effect_purge(struct ctl *c)
{
    struct arena a;
    Wire__Op *op;

    arena_init(&a, 0);
    op = arena_alloc(&a, sizeof *op);
    wire__op__init(op);
    op->purge = arena_alloc(&a, sizeof *op->purge);
    wire__op_purge__init(op->purge);
    op->purge->before_cluster_ms = ctl_cluster_ms(c) - config_number(c->state->config, CONF_MinJobAge) * 1000;
    c->purge_after_ms = clock_boot_ms() + 10000;
    effect_propose(c, op, ALARM_PURGE, 0, &a);
}

void effects_alarm(struct ctl *c, int kind, uint64_t id)
{
    uint32_t job_id = kind == ALARM_LAUNCH || kind == ALARM_KILL_AGAIN ? (uint32_t)(id >> 32) : (uint32_t)id;
    const struct job *j = job_id ? state_job(c->state, job_id) : NULL;
    bool is_this = j && (uint32_t)id == j->attempt;

    if (c->role != SPUR_STORE_LEADER || c->is_stopping)
        return;
    switch (kind) {
    case ALARM_LAUNCH:
        if (is_this && j->state == JOB_RUNNING && !(j->flags & JOB_FLAG_COMPLETING) && j->alloc_count && !j->allocs[0].started && watch_launch_rang(c, j))
            effect_launch_late(c, j);
        break;
    case ALARM_KILL_AGAIN:
        if (is_this && j->flags & JOB_FLAG_COMPLETING && watch_kill_rang(c, j))
            effect_kill(c, j);
        break;
    case ALARM_NODE_REBOOT:
        nodes_reboot_alarm(c, (uint32_t)id);
        break;
    case ALARM_JOB_LIMIT:
        if (j && j->state == JOB_RUNNING && !(j->flags & JOB_FLAG_COMPLETING) && watch_limit_rang(c, j))
            effect_limit(c, j);
        break;
    case ALARM_PURGE:           /* one purge in ten seconds clears all that are due */
        if (config_number(c->state->config, CONF_MinJobAge) > 0) {
            if (clock_boot_ms() >= c->purge_after_ms)
                effect_purge(c);
            else
                alarm_set(c, c->purge_after_ms - clock_boot_ms() + 1, ALARM_PURGE, 0);
        }
        break;
    case ALARM_STEP_WAIT:
        stepwaits_rang(c);
        return;
    case ALARM_HOOK:
        hooks_alarm(c, (uint32_t)(id >> 32), (uint32_t)id);
        break;
    default:
        break;
    }
}

/* ---- again -------------------------------------------------------------------------------------------------------------- */

void effects_reemit(struct ctl *c)
{
    struct applied out = { 0 };
    struct arena a;

    arena_init(&a, 0);
    state_reemit(c->state, &a, &out);
    effects_run(c, out.events, out.event_count);
    arena_fini(&a);
}

/* Nodes have registered: launch what they have not confirmed, repeat kills. What they run and should not is EV_ORPHAN. */
static void effects_again(struct ctl *c, const struct job *j, uint32_t rank)
{
    uint32_t node = j->allocs[rank].node;

    if (j->flags & JOB_FLAG_COMPLETING) {
        struct arena a;
        Wire__Kill k;

        arena_init(&a, 0);
        kill_empty(c, j, &k, &a);
        effect_kill_on(c, node, &k);
        arena_fini(&a);
        return;
    }
    if (j->state == JOB_SUSPENDED || (j->state == JOB_RUNNING && j->suspended_ms))
        effect_freeze_on(c, j, node);
    if (j->state != JOB_RUNNING)
        return;
    if (j->failed_node)
        effect_nodes_on(c, j, node);
    if (j->awaits & AWAITS_PROLOG_CTLD)
        return;
    if (!j->allocs[rank].ready && hooks_alloc_runs(c))
        effect_prolog(c, j, rank);
    if (j->is_batch && rank == 0 && !j->allocs[0].started && !j->awaits && !het_awaits(c, j)) {
        effect_launch(c, j, NULL, 0);
        watch_launch(c, j, launch_deadline_ms(c));
    }
    for (const struct step *st = j->steps; st; st = st->next)
        for (uint32_t i = 0; i < st->alloc_count; i++)
            if (st->allocs[i].node == node && !st->allocs[i].started && !st->allocs[i].gone && !job_state_is_end(st->state))
                effect_launch(c, j, st, i);
}

void effects_for_agent(struct ctl *c, const struct peer *p)
{
    /* By the nodes' own lists: ten thousand agents that follow a new leader must not walk the queue each. */
    for (uint32_t i = 0; i < p->node_count; i++) {
        const struct node *n = p->nodes[i] < c->state->node_count ? &c->state->nodes[p->nodes[i]] : NULL;

        if (n && n->flags & NODE_FLAG_REBOOT_ISSUED)
            nodes_reboot(c, n->index);
        for (uint32_t k = 0; n && k < n->jobs; k++) {
            const struct job *j = state_job(c->state, n->job_ids[k]);

            for (uint32_t r = 0; j && r < j->alloc_count; r++)
                if (j->allocs[r].node == n->index && !j->allocs[r].gone && nodes_agent(c, n->index) == p)
                    effects_again(c, j, r);
        }
    }
}
