/* SPDX-License-Identifier: Apache-2.0 */
/* inventory.c - what a node says of itself when it registers, against what is configured; nodes lost and changed by people.
 *
 * A node that has less than configured is drained with a reason of ours, and the same check lifts that drain; a drain by an administrator is
 * never lifted here. What has been running there and is no longer (another boot, a batch step that is absent) is lost; what runs and
 * should not is an orphan, and the node gets no job until it is gone.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

static uint64_t reported_gres(const Wire__NodeInventory *v, const char *name, const char *type)
{
    uint64_t count = 0;

    for (size_t i = 0; i < v->n_gres; i++)
        if (word_eq(v->gres[i]->name, name) && (!type || !*type || !v->gres[i]->type || !*v->gres[i]->type || word_eq(v->gres[i]->type, type)))
            count += v->gres[i]->count;
    return count;
}

/* What is wrong, in Slurm's words; nothing is added when nothing is. */
static void inventory_fault(const struct config *c, const struct node *n, const Wire__NodeInventory *v, struct str *out)
{
    const struct config_node *conf = n->conf;
    uint32_t cores = v->sockets * v->cores_per_socket;
    bool trusted = config_has_word(c, CONF_SlurmdParameters, "config_overrides");

    if (v->fault && *v->fault)
        str_addf(out, "%s", v->fault);
    else if (!trusted && v->has_cpus && v->cpus < conf->cpus)
        str_addf(out, "Low socket*core*thread count, Low CPUs (reported:%u < configured:%u)", v->cpus, conf->cpus);
    else if (!trusted && v->has_sockets && v->has_cores_per_socket && cores && cores < node_cores(n) && conf->cpus > v->cpus)
        str_addf(out, "Low socket*core*thread count (reported:%u < configured:%u)", cores, node_cores(n));
    else if (!trusted && v->has_mem_mib && v->mem_mib < conf->mem_mib)
        str_addf(out, "Low RealMemory (reported:%llu < 100.00%% of configured:%llu)", (unsigned long long)v->mem_mib, (unsigned long long)conf->mem_mib);
    else if (!trusted && v->has_tmp_mib && v->tmp_mib < conf->tmp_mib)
        str_addf(out, "Low TmpDisk (reported:%llu < configured:%llu)", (unsigned long long)v->tmp_mib, (unsigned long long)conf->tmp_mib);
    for (size_t i = 0; !out->len && i < conf->gres_count; i++) {
        const struct config_gres *g = &conf->gres[i];
        uint64_t has = reported_gres(v, g->name, g->type), wanted = g->count;

        if (!g->type)
            for (size_t k = 0; k < conf->gres_count; k++)
                wanted += k != i && word_eq(conf->gres[k].name, g->name) ? conf->gres[k].count : 0;
        if (has < wanted && !word_eq(g->name, "mps") && !word_eq(g->name, "shard") && !g->no_consume)
            str_addf(out, "gres/%s count reported lower than configured (%llu < %llu)", g->name, (unsigned long long)has, (unsigned long long)wanted);
    }
}

/* The GPUs and their links. A table that cannot be is a fault of the node, and the old one is not believed any more either. */
static void devices_keep(struct state *s, struct node *n, const Wire__NodeInventory *v, struct str *fault)
{
    struct spur_error err = { 0 };
    struct devices *now;

    if (devices_hold(s, v->devices, &now, &err) < 0 && !fault->len)
        str_addf(fault, "%s", err.text);
    devices_drop(s, n->devices);
    n->devices = now;
    share_set(s, &n->fabric, v->fabric);
}

static void inventory_keep(struct node *n, const Wire__NodeInventory *v, const char *version)
{
    if (v->has_boards)
        n->boards = v->boards;
    if (v->has_sockets)
        n->sockets = v->sockets;
    if (v->has_cores_per_socket)
        n->cores_per_socket = v->cores_per_socket;
    if (v->has_threads_per_core)
        n->threads_per_core = v->threads_per_core;
    if (v->has_cpus)
        n->cpus = v->cpus;
    if (v->has_mem_mib)
        n->mem_mib = v->mem_mib;
    if (v->has_tmp_mib)
        n->tmp_mib = v->tmp_mib;
    text_set(&n->version, version);
    text_set(&n->os, v->os);
    text_set(&n->arch, v->arch);
    if (n->flags & NODE_FLAG_CLOUD) {       /* others are where the configuration says */
        text_set(&n->addr, v->addr);
        text_set(&n->hostname, v->hostname);
    }
    text_set(&n->boot_id, v->boot_id);
    n->boot_wall_s = v->boot_wall_s;
    n->agent_start_wall_s = v->start_wall_s;
}

/* Its place in the mesh. The number is given once and stays, so its address does. */
static void mesh_keep(struct doing *d, struct node *n, const Wire__NodeInventory *v)
{
    const char *end = v->mesh_endpoint ? v->mesh_endpoint : "";

    if (!v->has_mesh_key || v->mesh_key.len != sizeof n->mesh_key)
        return;
    if (n->mesh_number && memcmp(n->mesh_key, v->mesh_key.data, sizeof n->mesh_key) == 0 && !strcmp(n->mesh_endpoint ? n->mesh_endpoint : "", end))
        return;
    if (!n->mesh_number)
        n->mesh_number = ++d->s->mesh_next;
    memcpy(n->mesh_key, v->mesh_key.data, sizeof n->mesh_key);
    text_set(&n->mesh_endpoint, end);
    tell(d, EV_MESH_CHANGED, NULL)->node = n->index;
}

/* Boot ids say it exactly. Without one only the boot time is left, and that moves when a clock is set: a quarter of an hour is let pass. */
static bool has_rebooted(const struct node *n, const Wire__NodeInventory *v)
{
    if (!n->registered)
        return false;
    if (n->boot_id && v->boot_id && *v->boot_id)
        return strcmp(n->boot_id, v->boot_id) != 0;
    return n->boot_wall_s && v->has_boot_wall_s && v->boot_wall_s > n->boot_wall_s + 900;
}

static bool lists_batch(const Wire__NodeInventory *v, uint32_t job_id, uint32_t attempt)
{
    for (size_t i = 0; i < v->n_steps; i++)
        if (v->steps[i]->job_id == job_id && v->steps[i]->step_id == STEP_BATCH && v->steps[i]->attempt == attempt)
            return true;
    return false;
}

static void lose_jobs(struct doing *d, struct node *n, const Wire__NodeInventory *v, bool all, const char *why)
{
    uint32_t count, *ids = state_jobs_on(n, d->arena, &count);

    for (uint32_t i = 0; i < count; i++) {
        struct job *j = state_job(d->s, ids[i]);
        struct node_alloc *a = j ? job_alloc_on(j, n->index) : NULL;

        if (!a || a->gone)
            continue;
        if (all || (j->is_batch && a == j->allocs && a->started && !(j->flags & JOB_FLAG_COMPLETING) && !lists_batch(v, j->job_id, j->attempt)))
            job_lost_on(d, j, (uint32_t)(a - j->allocs), why);
    }
}

/* GPUs that cannot be used any more: jobs that hold one end here, and go on elsewhere as their own flags say. */
static void lose_broken(struct doing *d, struct node *n, const Wire__NodeInventory *v)
{
    uint32_t count, *ids;

    if (!v->fault_mask)
        return;
    ids = state_jobs_on(n, d->arena, &count);
    for (uint32_t i = 0; i < count; i++) {
        struct job *j = state_job(d->s, ids[i]);
        struct node_alloc *a = j ? job_alloc_on(j, n->index) : NULL;
        uint64_t held = 0;

        for (uint32_t k = 0; a && k < a->gres_count; k++)
            held |= word_eq(a->gres[k].name, "gpu") ? a->gres[k].mask : 0;
        if (held & v->fault_mask)
            job_broken_on(d, j, (uint32_t)(a - j->allocs), v->fault && *v->fault ? v->fault : "a GPU has failed");
    }
}

void node_orphan(struct doing *d, struct node *n, uint32_t job_id, uint32_t attempt)
{
    struct event *e;

    node_foreign_add(n, job_id, attempt);
    e = tell(d, EV_ORPHAN, NULL);
    e->job_id = job_id;
    e->attempt = attempt;
    e->node = n->index;
    node_changed(d, n);
}

/* Set down by people: its agent may be well, so what runs there is ended. */
static void evict_jobs(struct doing *d, struct node *n)
{
    uint32_t count, *ids = state_jobs_on(n, d->arena, &count);

    for (uint32_t i = 0; i < count; i++) {
        const struct job *j = state_job(d->s, ids[i]);

        if (j && n->registered && !n->lost && job_phase(j) != PHASE_COMPLETING && job_phase(j) != PHASE_REQUEUEING)
            node_orphan(d, n, j->job_id, j->attempt);
    }
    lose_jobs(d, n, NULL, true, "the node was set down");
}

static void find_orphans(struct doing *d, struct node *n, const Wire__NodeInventory *v)
{
    n->foreign_count = 0;
    for (size_t i = 0; i < v->n_steps && i < 4096; i++) {
        const Wire__RunningStep *r = v->steps[i];
        struct job *j = state_job(d->s, r->job_id);
        const struct node_alloc *a = j && j->state != JOB_PENDING ? job_alloc_on(j, n->index) : NULL;
        uint32_t before = n->foreign_count;
        struct event *e;

        if (a && !a->gone && r->attempt == j->attempt)
            continue;
        node_foreign_add(n, r->job_id, r->attempt);
        if (n->foreign_count == before)
            continue;
        e = tell(d, EV_ORPHAN, NULL);
        e->job_id = r->job_id;
        e->attempt = r->attempt;
        e->node = n->index;
    }
}

static void node_up(struct node *n)
{
    n->base = NODE_IDLE;
    n->lost = false;
    n->flags &= ~NODE_FLAG_NO_RESPOND;
    n->registered = true;
}

/* May a registration bring it back? ReturnToService: 0 never by itself, 1 when it was only lost, 2 always. */
static bool may_return(const struct config *c, const struct node *n)
{
    int64_t rule = config_number(c, CONF_ReturnToService);

    if (n->flags & NODE_FLAG_REBOOT_ISSUED)
        return false;
    if (n->base != NODE_DOWN)
        return n->base != NODE_FUTURE;
    return rule >= 2 || (rule == 1 && n->lost);
}

void op_register(struct doing *d, const Wire__OpRegister *o)
{
    struct state *s = d->s;
    const Wire__NodeInventory *v = o->inventory;
    struct node *n = state_node(s, v->name);
    struct str fault;

    if (!n) {
        refuse(d, SPUR_ENOTFOUND, ESLURM_INVALID_NODE_NAME, "node %.64s is not in the configuration", v->name);
        return;
    }
    if (has_rebooted(n, v)) {
        lose_jobs(d, n, v, true, "the node was rebooted");
        node_reboot_over(d, n);
    } else
        lose_jobs(d, n, v, false, "the batch script is no longer there");
    lose_broken(d, n, v);
    find_orphans(d, n, v);
    inventory_keep(n, v, o->version);
    mesh_keep(d, n, v);
    if (!n->last_busy_wall_s)
        n->last_busy_wall_s = d->s->wall_ms / 1000;
    n->flags &= ~(NODE_FLAG_NO_RESPOND | NODE_FLAG_POWERED_DOWN);
    str_init(&fault);
    inventory_fault(s->config, n, v, &fault);
    devices_keep(s, n, v, &fault);
    if (fault.len) {
        n->flags |= NODE_FLAG_INVALID_REG;
        if (!(n->flags & NODE_FLAG_DRAIN) || n->reason_is_ours || !n->reason) {
            if (!n->reason || strcmp(n->reason, fault.text) || !n->reason_is_ours)
                node_set_reason(d, n, fault.text, true, "slurm", 0);
            n->flags |= NODE_FLAG_DRAIN;
        }
    } else {
        if (n->reason_is_ours && (n->base != NODE_DOWN || may_return(s->config, n))) {
            if (n->flags & NODE_FLAG_INVALID_REG)
                n->flags &= ~NODE_FLAG_DRAIN;
            node_set_reason(d, n, NULL, false, NULL, 0);
        }
        n->flags &= ~NODE_FLAG_INVALID_REG;
        n->launch_fails = 0;
    }
    str_fini(&fault);
    if (may_return(s->config, n))
        node_up(n);
    n->registered = true;
    node_changed(d, n);
}

void op_node_lost(struct doing *d, const Wire__OpNodeLost *o)
{
    struct state *s = d->s;
    struct node *n = state_node(s, o->node);

    if (!n) {
        refuse(d, SPUR_ENOTFOUND, ESLURM_INVALID_NODE_NAME, "node %.64s is not in the configuration", o->node);
        return;
    }
    if (o->back) {
        n->flags &= ~NODE_FLAG_NO_RESPOND;
        if (n->base == NODE_DOWN && n->lost && n->registered && may_return(s->config, n)) {
            if (n->reason_is_ours && !(n->flags & NODE_FLAG_INVALID_REG))
                node_set_reason(d, n, NULL, false, NULL, 0);
            node_up(n);
        }
        node_changed(d, n);
        return;
    }
    if (n->base == NODE_FUTURE) {
        refuse(d, SPUR_ESTALE, 0, "node %s is not in use", n->conf->name);
        return;
    }
    if (n->flags & NODE_FLAG_REBOOT_ISSUED) {      /* empty, and whether it answers is another question */
        node_reboot_failed(d, n, o->reason);
        node_changed(d, n);
        return;
    }
    if (n->base != NODE_DOWN) {
        n->base = NODE_DOWN;
        n->lost = true;
        if (!(n->flags & NODE_FLAG_DRAIN) || !n->reason || n->reason_is_ours)
            node_set_reason(d, n, o->reason && *o->reason ? o->reason : "Not responding", true, "slurm", 0);
    }
    n->flags |= NODE_FLAG_NO_RESPOND;
    n->foreign_count = 0;
    lose_jobs(d, n, NULL, true, "the node was lost");
    node_changed(d, n);
}

/* ---- changed by people ---- */

static int state_set(struct doing *d, struct node *n, const char *word, const char *reason, const char *user, struct spur_error *err)
{
    uint32_t uid = d->has_uid ? d->op_uid : 0;
    bool is_drain = word_eq(word, "DRAIN") || word_eq(word, "DRAINED") || word_eq(word, "DRAINING");

    if (is_drain || word_eq(word, "FAIL") || word_eq(word, "FAILING")) {
        if (!reason && !n->reason)
            return spur_fail(err, SPUR_EINVAL, "State=%s needs a Reason=", word);
        n->flags |= is_drain ? NODE_FLAG_DRAIN : NODE_FLAG_FAIL;
        if (reason)
            node_set_reason(d, n, reason, false, user, uid);
        n->reason_is_ours = false;
    } else if (word_eq(word, "DOWN")) {
        if (!reason && !n->reason)
            return spur_fail(err, SPUR_EINVAL, "State=DOWN needs a Reason=");
        n->base = NODE_DOWN;
        if (reason)
            node_set_reason(d, n, reason, false, user, uid);
        n->reason_is_ours = false;
        evict_jobs(d, n);
        n->lost = false;
    } else if (word_eq(word, "RESUME") || word_eq(word, "IDLE")) {
        if (n->base == NODE_FUTURE)
            return spur_fail(err, SPUR_EINVAL, "node %s is FUTURE: give it a hardware line and reconfigure", n->conf->name);
        if (n->flags & NODE_FLAG_INVALID_REG)
            return spur_fail(err, SPUR_EINVAL, "node %s reports less than it is configured with: %s", n->conf->name, n->reason ? n->reason : "?");
        n->flags &= ~(NODE_FLAG_DRAIN | NODE_FLAG_FAIL);
        if (n->base == NODE_DOWN)
            n->base = n->registered && !(n->flags & NODE_FLAG_NO_RESPOND) ? NODE_IDLE : NODE_UNKNOWN;
        n->lost = false;
        node_set_reason(d, n, NULL, false, NULL, 0);
    } else if (word_eq(word, "UNDRAIN")) {
        if (n->flags & NODE_FLAG_INVALID_REG)
            return spur_fail(err, SPUR_EINVAL, "node %s reports less than it is configured with: %s", n->conf->name, n->reason ? n->reason : "?");
        n->flags &= ~NODE_FLAG_DRAIN;
        if (n->base != NODE_DOWN)
            node_set_reason(d, n, NULL, false, NULL, 0);
    } else if (word_starts(word, "POWER")) {
        return spur_fail(err, SPUR_EUNSUPPORTED, "State=%.40s: nodes are not powered up and down here; `scontrol reboot` restarts them", word);
    } else if (word_eq(word, "NORESP")) {
        n->flags |= NODE_FLAG_NO_RESPOND;
    } else if (word_eq(word, "FUTURE")) {
        if (n->jobs)
            return spur_fail(err, SPUR_EBUSY, "node %s has %u jobs", n->conf->name, n->jobs);
        n->base = NODE_FUTURE;
        n->flags = 0;
    } else {
        return spur_fail(err, SPUR_EUNSUPPORTED, "State=%.40s is not supported here (DOWN, DRAIN, FAIL, FUTURE, NORESP, RESUME, IDLE, UNDRAIN are)", word);
    }
    return 0;
}

static int node_set_one(struct doing *d, struct node *n, const char *key, const char *value, const char *reason, const char *user, struct spur_error *err)
{
    if (word_eq(key, "State"))
        return state_set(d, n, value, reason, user, err);
    if (word_eq(key, "Reason")) {
        if (!n->reason || !value || strcmp(n->reason, value))
            node_set_reason(d, n, value, false, user, d->has_uid ? d->op_uid : 0);
        n->reason_is_ours = false;
    } else if (word_eq(key, "Comment")) {
        text_set(&n->comment, value);
    } else if (word_eq(key, "Extra")) {
        text_set(&n->extra, value);
    } else if (word_eq(key, "InstanceId")) {
        text_set(&n->instance_id, value);
    } else if (word_eq(key, "InstanceType")) {
        text_set(&n->instance_type, value);
    } else if (word_eq(key, "Features") || word_eq(key, "AvailableFeatures") || word_eq(key, "ActiveFeatures")) {
        free(n->features);
        n->features = mem_copy(value ? value : "");     /* "" takes the configured ones away */
        view_rebuild(d->s);
    } else if (word_eq(key, "Weight")) {
        if (!value || !number_u32(value, &n->weight))
            return spur_fail(err, SPUR_EINVAL, "Weight=%.40s is no number", value ? value : "");
    } else if (word_eq(key, "MeshKey")) {           /* taken away only: a key comes from its node */
        if (value && *value)
            return spur_fail(err, SPUR_EDENIED, "MeshKey: a node makes its key itself");
        memset(n->mesh_key, 0, sizeof n->mesh_key);
        text_set(&n->mesh_endpoint, NULL);
        tell(d, EV_MESH_CHANGED, NULL)->node = n->index;
    } else if (word_eq(key, "NodeAddr")) {
        text_set(&n->addr, value);
    } else if (word_eq(key, "NodeHostName")) {
        text_set(&n->hostname, value);
    } else {
        return spur_fail(err, SPUR_EUNSUPPORTED, "%.60s of a node cannot be changed here", key);
    }
    return 0;
}

void op_node_update(struct doing *d, const Wire__OpNodeUpdate *o)
{
    struct node *n = state_node(d->s, o->node);
    struct spur_error err = { 0 };
    const char *reason = NULL;

    if (!n) {
        refuse(d, SPUR_ENOTFOUND, ESLURM_INVALID_NODE_NAME, "node %.64s is not in the configuration", o->node);
        return;
    }
    for (size_t i = 0; i < o->n_set; i++)
        if (word_eq(o->set[i]->key, "Reason"))
            reason = o->set[i]->value;
    for (size_t i = 0; i < o->n_set; i++)
        if (node_set_one(d, n, o->set[i]->key, o->set[i]->value ? o->set[i]->value : "", reason, o->user, &err) < 0) {
            refuse(d, err.code, ESLURM_INVALID_NODE_STATE, "%s", err.text);
            break;
        }
    node_changed(d, n);
}
