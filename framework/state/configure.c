/* SPDX-License-Identifier: Apache-2.0 */
/* configure.c - a new configuration from the log: nodes keep their states by name, jobs keep what they hold.
 *
 * Allocations name nodes by index, so each is pointed at the node's new place. A job on a node that is no longer configured is lost there
 * (requeued or failed, as when the node dies); jobs that merely could have run there, or have ended there, stay as they are. What scontrol
 * has set on nodes stays, except features and weight, which the new files say; what it set on partitions goes unless ReconfigFlags=KeepPartInfo
 * (or, for their State, KeepPartState), as in Slurm.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

void state_counting(struct state *s)
{
    const struct config *c = s->config;
    const char *type = config_text(c, CONF_SelectType);
    bool linear = type && strstr(type, "linear");

    s->priv->cr = 0;
    if (config_has_word(c, CONF_SelectTypeParameters, "CR_CPU") || config_has_word(c, CONF_SelectTypeParameters, "CR_CPU_MEMORY"))
        s->priv->cr |= SPUR_CR_CPU;
    else if (config_has_word(c, CONF_SelectTypeParameters, "CR_SOCKET") || config_has_word(c, CONF_SelectTypeParameters, "CR_SOCKET_MEMORY"))
        s->priv->cr |= SPUR_CR_SOCKET;
    else
        s->priv->cr |= SPUR_CR_CORE;
    if (config_has_word(c, CONF_SelectTypeParameters, "CR_MEMORY") || config_has_word(c, CONF_SelectTypeParameters, "CR_CORE_MEMORY") ||
        config_has_word(c, CONF_SelectTypeParameters, "CR_CPU_MEMORY") || config_has_word(c, CONF_SelectTypeParameters, "CR_SOCKET_MEMORY"))
        s->priv->cr |= SPUR_CR_MEMORY;
    s->priv->cores_whole = linear || !(s->priv->cr & SPUR_CR_CPU);
}

/* Moves what lives in a node's record, and is not the file's to say, from its old place. */
static void node_inherit(struct node *n, struct node *old, bool state_changed)
{
    struct node fresh = *n;
    const struct config_node *conf = n->conf;

    *n = *old;
    n->index = fresh.index;
    n->conf = conf;
    n->cores_used = fresh.cores_used;
    n->core_threads_used = NULL;
    n->jobs = 0;        /* the ledger is built anew */
    n->gres = NULL;
    n->gres_count = 0;
    n->weight = conf->weight;
    free(n->features);
    n->features = NULL;
    if (!old->registered) {     /* what it has is not known: the file says it */
        n->boards = fresh.boards;
        n->sockets = fresh.sockets;
        n->cores_per_socket = fresh.cores_per_socket;
        n->threads_per_core = fresh.threads_per_core;
        n->cpus = fresh.cpus;
        n->mem_mib = fresh.mem_mib;
        n->tmp_mib = fresh.tmp_mib;
    }
    if (state_changed) {
        n->base = fresh.base == NODE_UNKNOWN && old->base == NODE_IDLE ? NODE_IDLE : fresh.base;
        n->flags = (old->flags & NODE_FLAG_INVALID_REG) | fresh.flags;
        if (fresh.reason) {
            free(n->reason);
            n->reason = fresh.reason;
            fresh.reason = NULL;
        }
    }
    free(fresh.reason);
    for (uint32_t i = 0; i < old->gres_count; i++) {
        free(old->gres[i].name);
        free(old->gres[i].type);
    }
    free(old->gres);
    bitmap_fini(&old->cores_used);
    free(old->core_threads_used);
    memset(old, 0, sizeof *old);
}

static void allocs_point(struct node_alloc *allocs, uint32_t count, const uint32_t *place, struct node *old_nodes, uint32_t old_count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct node_alloc *a = &allocs[i];

        if (a->node >= old_count)
            continue;
        if (place[a->node] == NODE_REMOVED)
            text_set(&a->lost_name, old_nodes[a->node].conf->name);
        a->node = place[a->node];
    }
}

/* Same partitions, found by name; a pending job's text stays even when its partition has gone: it then waits with a reason. */
static void jobs_point(struct state *s, const uint32_t *place, struct node *old_nodes, uint32_t old_count)
{
    struct job *j;

    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        allocs_point(j->allocs, j->alloc_count, place, old_nodes, old_count);
        for (struct step *st = j->steps; st; st = st->next)
            allocs_point(st->allocs, st->alloc_count, place, old_nodes, old_count);
        j->part_index = job_part_index(s, j);
    }
}

/* Jobs that run on a node which is no longer there. The others of the job are emptied as after any loss. */
static void jobs_lose_removed(struct doing *d)
{
    struct job *j;

    for (size_t at = 0; (j = table_next(&d->s->jobs, &at)); ) {
        if (j->state == JOB_PENDING || job_phase(j) == PHASE_ENDED)
            continue;
        for (uint32_t i = j->alloc_count; i-- > 0; )        /* backwards: a loss may take the allocation out of the list, or all of them */
            if (i < j->alloc_count && j->allocs[i].node == NODE_REMOVED && !j->allocs[i].gone)
                job_lost_on(d, j, i, "the node was taken out of the configuration");
    }
}

static bool texts_equal(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

static char *kept_state(const struct config *old, const char *name)
{
    const struct config_partition *p = config_partition_find(old, name);

    return p ? mem_copy(p->state) : NULL;
}

static void partition_update_only_state(Wire__PartitionUpdateRequest *u, char *take_state)
{
    for (size_t i = 0; i < u->n_set; i++)
        wire__key_value__free_unpacked(u->set[i], NULL);
    free(u->set);
    u->set = mem_alloc(sizeof *u->set);
    u->n_set = 1;
    u->set[0] = mem_alloc(sizeof **u->set);
    wire__key_value__init(u->set[0]);
    u->set[0]->key = mem_copy("State");
    u->set[0]->value = take_state;
}

static void partitions_keep(struct state *s, const struct config *old, bool changed)
{
    struct spur_error err;
    size_t kept = 0;
    bool all = !changed || config_has_word(s->config, CONF_ReconfigFlags, "KeepPartInfo"), state_only = !all && config_has_word(s->config, CONF_ReconfigFlags, "KeepPartState");

    for (size_t i = 0; i < s->priv->partition_update_count; i++) {
        Wire__PartitionUpdateRequest *u = s->priv->partition_updates[i];

        if (state_only && !u->create && !u->delete_) {
            char *state = config_partition_find(s->config, u->name) ? kept_state(old, u->name) : NULL;

            if (!state) {
                wire__partition_update_request__free_unpacked(u, NULL);
                continue;
            }
            partition_update_only_state(u, state);
        } else if (!all) {
            wire__partition_update_request__free_unpacked(u, NULL);
            continue;
        }
        partition_change(s, u, &err);   /* what no longer fits the new files is simply without effect */
        s->priv->partition_updates[kept++] = u;
    }
    s->priv->partition_update_count = kept;
}

void op_config(struct doing *d, const Wire__OpConfig *o)
{
    struct state *s = d->s;
    const Wire__ConfigFiles *f = o->files;
    struct config *c = NULL, *old = s->config;
    struct spur_error err = { 0 };
    struct node *old_nodes = s->nodes;
    uint32_t old_count = s->node_count, *place;

    if (!f->slurm) {
        refuse(d, SPUR_EINVAL, 0, "a configuration without slurm.conf");
        return;
    }
    if (config_parse(f->slurm, f->gres, f->topology, f->cgroup, f->spur, &c, &err) < 0) {
        refuse(d, err.code, 0, "%s", err.text);
        return;
    }
    /* Files of a controller say nothing of hosts that joined: what the log knows of them stays. */
    c->hosts_text = !f->hosts && old && old->hosts_text ? mem_copy(old->hosts_text) : f->hosts && *f->hosts ? mem_copy(f->hosts) : NULL;
    s->config = c;
    s->config_version++;
    state_counting(s);
    s->node_count = (uint32_t)c->node_count;
    s->nodes = mem_array(s->node_count ? s->node_count : 1, sizeof *s->nodes);
    place = mem_array(old_count ? old_count : 1, sizeof *place);
    for (uint32_t i = 0; i < old_count; i++)
        place[i] = NODE_REMOVED;
    for (uint32_t i = 0; i < s->node_count; i++) {
        const struct config_node *before = old ? config_node_find(old, c->nodes[i].name) : NULL;
        struct node *n = &s->nodes[i];

        node_setup(n, &c->nodes[i], i);
        if (before)
            place[before - old->nodes] = i;
    }
    jobs_point(s, place, old_nodes, old_count);
    for (uint32_t i = 0; i < old_count; i++) {
        const struct config_node *before = &old->nodes[i];

        if (place[i] == NODE_REMOVED)
            continue;
        node_inherit(&s->nodes[place[i]], &old_nodes[i], !texts_equal(before->state, s->nodes[place[i]].conf->state));
    }
    for (uint32_t i = 0; i < s->node_count; i++)
        node_gres_setup(s, &s->nodes[i]);
    if (old)
        partitions_keep(s, old, !texts_equal(old->slurm_text, c->slurm_text));
    view_rebuild(s);
    ledger_rebuild(s);
    jobs_lose_removed(d);
    for (uint32_t i = 0; i < old_count; i++)
        node_record_fini(s, &old_nodes[i]);
    free(old_nodes);
    free(place);
    config_free(old);
    if (s->next_job_id == 1 && !table_count(&s->jobs) && config_number(c, CONF_FirstJobId) > 1)
        s->next_job_id = (uint32_t)config_number(c, CONF_FirstJobId);
    tell(d, EV_CONFIG_CHANGED, NULL);
}
