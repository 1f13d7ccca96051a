/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - what nodes say about themselves and their jobs, and what administrators say about nodes and partitions.
 *
 * A node speaks for itself alone: registrations and reports count only for the node that the channel's identity names, and reports only for jobs
 * that it was given. What a node claims to have is held against the configuration by apply. A report that is merely late is passed on, so that
 * it gets its answer and leaves the node's spool.
 */
#include <string.h>

#include "admit/private.h"
#include "base/hostlist.h"
#include "base/str.h"

#define TEXT_MAX   1024u
#define STEPS_MAX  100000u
#define GRES_MAX   1024u
#define DEVICES_MAX 64u
#define NODES_MAX  100000u

static bool key_is_set(const uint8_t key[32])
{
    uint8_t any = 0;

    for (unsigned i = 0; i < 32; i++)
        any |= key[i];
    return any;
}

static bool text_fits(const char *text) { return !text || strlen(text) <= TEXT_MAX; }

/* Its size only; what it says is checked where it is kept. */
static bool devices_fit(const Wire__DeviceTable *t)
{
    if (t->n_mbps > DEVICES_MAX * DEVICES_MAX || t->n_links > DEVICES_MAX * DEVICES_MAX || t->n_numa > DEVICES_MAX || t->n_socket > DEVICES_MAX || t->n_pcie_switch > DEVICES_MAX ||
        t->n_card > DEVICES_MAX || t->n_near_cores > DEVICES_MAX || t->n_nics > DEVICES_MAX)
        return false;
    for (size_t i = 0; i < t->n_near_cores; i++)
        if (!text_fits(t->near_cores[i]))
            return false;
    for (size_t i = 0; i < t->n_nics; i++)
        if (!text_fits(t->nics[i]->name))
            return false;
    return true;
}

static const char *inventory_fault(const Wire__NodeInventory *n)
{
    if (!text_fits(n->name) || !text_fits(n->os) || !text_fits(n->arch) || !text_fits(n->fault) || !text_fits(n->addr) || !text_fits(n->hostname) || !text_fits(n->boot_id) ||
        !text_fits(n->mesh_endpoint))
        return "a text of more than 1024 characters";
    if (n->has_mesh_key && n->mesh_key.len != 32)
        return "a mesh key that has not 32 bytes";
    if (n->n_steps > STEPS_MAX)
        return "more than 100000 steps";
    if (n->n_gres > GRES_MAX)
        return "more than 1024 devices";
    if (n->devices && !devices_fit(n->devices))
        return "a device table of more than 64 devices, or with a text of more than 1024 characters";
    if (!text_fits(n->fabric))
        return "a text of more than 1024 characters";
    for (size_t i = 0; i < n->n_gres; i++)
        if (!text_fits(n->gres[i]->name) || !text_fits(n->gres[i]->type))
            return "a text of more than 1024 characters";
    return NULL;
}

/* What no honest agent says of itself, however it is configured; NULL: nothing of that kind. */
static const char *inventory_lie(const struct state *s, const struct node *own, const Wire__NodeInventory *n, struct arena *a)
{
    const char *end = n->mesh_endpoint ? n->mesh_endpoint : "", *colon = strrchr(end, ':');
    uint64_t gpus = 0;
    uint32_t port;

    for (size_t i = 0; i < n->n_gres; i++)
        if (n->gres[i]->name && word_eq(n->gres[i]->name, "gpu"))
            gpus += n->gres[i]->count;
    if (gpus > DEVICES_MAX)
        return arena_printf(a, "claims %llu GPUs, and a node has at most %u", (unsigned long long)gpus, DEVICES_MAX);
    if (*end && (!colon || !number_u32(colon + 1, &port) || !port || port > 65535 || strspn(end, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:[]%") != strlen(end)))
        return arena_printf(a, "says that its mesh ends at %.60s, which is no address and port", end);
    if (n->mesh_key.len != sizeof own->mesh_key || memcmp(own->mesh_key, n->mesh_key.data, sizeof own->mesh_key) == 0)
        return NULL;
    for (uint32_t i = 0; i < s->node_count; i++)
        if (&s->nodes[i] != own && s->nodes[i].mesh_number && memcmp(s->nodes[i].mesh_key, n->mesh_key.data, sizeof own->mesh_key) == 0 && key_is_set(s->nodes[i].mesh_key))
            return arena_printf(a, "brings the mesh key of node %.60s", s->nodes[i].conf->name);
    for (uint32_t i = 0; i < s->mesh_host_count; i++)
        if (memcmp(s->mesh_hosts[i].key, n->mesh_key.data, sizeof own->mesh_key) == 0 && key_is_set(s->mesh_hosts[i].key))
            return arena_printf(a, "brings the mesh key of controller %.60s", s->mesh_hosts[i].name);
    return NULL;
}

int admit_register(struct state *s, const Wire__RegisterRequest *r, const struct spur_identity *who, struct arena *a, struct admitted *out, Wire__RegisterReply *reply, struct spur_error *err)
{
    if (who->role != SPUR_ROLE_NODE && who->role != SPUR_ROLE_CONTROLLER)
        return deny(out, err, REFUSE_DENIED, "only a node registers");
    if (!r->n_nodes)
        return deny(out, err, REFUSE_BAD_REQUEST, "a registration without a node");
    if (r->n_nodes > NODES_MAX || !text_fits(r->version))
        return deny(out, err, REFUSE_TOO_LONG, "a registration of %zu nodes", r->n_nodes);
    reply->refused = arena_alloc(a, r->n_nodes * sizeof *reply->refused);
    for (size_t i = 0; i < r->n_nodes; i++) {
        const Wire__NodeInventory *n = r->nodes[i];
        const char *fault = inventory_fault(n);
        Wire__OpRegister *o;
        Wire__Op *op;

        if (!fault && !state_node(s, n->name)) {
            fault = "is not in the configuration";
        } else if (!fault && !speaks_for(s, who, n->name)) {
            fault = "is not this host's name";
            out->suspect = arena_printf(a, "wanted to register as node %.60s", n->name);
        } else if (!fault && (fault = inventory_lie(s, state_node(s, n->name), n, a))) {
            out->suspect = fault;
        }
        if (fault) {
            reply->refused[reply->n_refused++] = arena_printf(a, "node %.64s: %s", n->name, fault);
            continue;
        }
        op = op_new(a, NULL, (ProtobufCBinaryData){ 0 }, false, 0);
        op->register_node = o = arena_alloc(a, sizeof *o);
        wire__op_register__init(o);
        o->inventory = (Wire__NodeInventory *)(uintptr_t)n;
        o->version = r->version;
        op_add(out, a, op);
    }
    if (out->op_count == 0)
        return deny(out, err, REFUSE_DENIED, "%s (host %.64s)", reply->refused[0], who->host);
    return 0;
}

int admit_report(struct state *s, const Wire__Report *r, const struct spur_identity *who, struct arena *a, struct admitted *out, struct spur_error *err)
{
    const struct node *n = state_node(s, r->node);
    const struct job *j = state_job(s, r->job_id);
    Wire__OpReport *o;
    Wire__Op *op;

    if (!text_fits(r->node) || !text_fits(r->drain) || (r->text && strlen(r->text) > 8192))
        return deny(out, err, REFUSE_TOO_LONG, "a text of the report");
    if (n && !speaks_for(s, who, r->node))
        out->suspect = arena_printf(a, "reported for node %.60s", n->conf->name);
    if (!n || out->suspect)
        return deny(out, err, REFUSE_DENIED, "host %.64s does not speak for node %.64s", who->host, r->node);
    if (j && j->attempt == r->attempt && j->alloc_count && !job_state_is_end(j->state)) {
        bool given = false;

        for (uint32_t i = 0; i < j->alloc_count && !given; i++)
            given = j->allocs[i].node == n->index;
        for (uint32_t i = 0; i < n->foreign_count && !given; i++)       /* it had a part in it, and is to say when nothing is left */
            given = n->foreign[i].job_id == r->job_id && n->foreign[i].attempt == r->attempt;
        /* A job that may go on without one of its nodes has forgotten who that was: what is told again then is only late. */
        if (!given && !j->no_kill && !j->spares)
            out->suspect = arena_printf(a, "reported on job %u, which it was never given", r->job_id);
        if (!given)
            return deny(out, err, REFUSE_DENIED, "node %.64s reports on job %u, which it was never given", r->node, r->job_id);
    }
    op = op_new(a, NULL, (ProtobufCBinaryData){ 0 }, false, 0);
    op->report = o = arena_alloc(a, sizeof *o);
    wire__op_report__init(o);
    o->report = (Wire__Report *)(uintptr_t)r;
    op_add(out, a, op);
    return 0;
}

/* ---- administrators -------------------------------------------------------------------------------------------------------- */
static const char *value_of(Wire__KeyValue *const *set, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (word_eq(set[i]->key, key))
            return set[i]->value ? set[i]->value : "";
    return NULL;
}

static int check_set(Wire__KeyValue *const *set, size_t n, struct admitted *out, struct spur_error *err)
{
    if (n > 256)
        return deny(out, err, REFUSE_TOO_LONG, "%zu values in one update, the limit is 256", n);
    for (size_t i = 0; i < n; i++)
        if (strlen(set[i]->key) > 64 || (set[i]->value && strlen(set[i]->value) > (64u << 10)))
            return deny(out, err, REFUSE_TOO_LONG, "%.64s has a value of %zu characters, the limit is %u", set[i]->key, set[i]->value ? strlen(set[i]->value) : 0, 64u << 10);
    return 0;
}

/* "n[1-3]", or ALL. NULL: refused. */
static struct hostlist *nodes_named(const struct state *s, const char *nodes, struct admitted *out, struct spur_error *err)
{
    struct hostlist *h = NULL;
    struct spur_error why = { 0 };

    if (strlen(nodes) > (64u << 10)) {
        deny(out, err, REFUSE_TOO_LONG, "NodeName of %zu characters, the limit is %u", strlen(nodes), 64u << 10);
        return NULL;
    }
    if (word_eq(nodes, "ALL")) {
        h = hostlist_create();
        for (uint32_t i = 0; i < s->node_count; i++)
            hostlist_add(h, s->nodes[i].conf->name);
    } else if (hostlist_parse(nodes, &h, &why) < 0) {
        deny(out, err, REFUSE_NODE_UNKNOWN, "%s", why.text);
        return NULL;
    }
    if (hostlist_count(h))
        return h;
    deny(out, err, REFUSE_NODE_UNKNOWN, "no node is named");
    hostlist_destroy(h);
    return NULL;
}

int admit_node_reboot(struct state *s, const Wire__NodeRebootRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    const char *program = config_text(s->config, CONF_RebootProgram);
    struct hostlist *h;
    int rc;

    if (asker.rank < RANK_ADMIN)
        return deny(out, err, REFUSE_DENIED, "only administrators reboot nodes");
    if ((rc = check_token(s, r->has_token, r->token, r->token_wall_ms, out, err)) != 0)
        return rc < 0 ? rc : 0;
    if (!r->cancel && !(program && *program))
        return deny(out, err, REFUSE_BAD_REQUEST, "RebootProgram is not set in slurm.conf");
    if (!text_fits(r->reason) || !text_fits(r->next_state))
        return deny(out, err, REFUSE_TOO_LONG, "a reason of more than %u characters", TEXT_MAX);
    if (r->next_state && *r->next_state && !word_eq(r->next_state, "RESUME") && !word_eq(r->next_state, "DOWN"))
        return deny(out, err, REFUSE_BAD_REQUEST, "nextstate=%.40s is neither RESUME nor DOWN", r->next_state);
    if (!(h = nodes_named(s, r->nodes, out, err)))
        return err->code;
    for (size_t i = 0; i < hostlist_count(h) && rc == 0; i++) {
        const struct node *n = state_node(s, hostlist_nth(h, i));
        Wire__OpNodeReboot *o;
        Wire__Op *op;

        if (!n) {
            rc = deny(out, err, REFUSE_NODE_UNKNOWN, "%.64s", hostlist_nth(h, i));
            break;
        }
        op = op_new(a, &asker, r->token, r->has_token, r->token_wall_ms);
        op->node_reboot = o = arena_alloc(a, sizeof *o);
        wire__op_node_reboot__init(o);
        o->node = arena_copy(a, n->conf->name);
        o->has_asap = o->has_cancel = true;
        o->asap = r->asap;
        o->cancel = r->cancel;
        o->next_state = r->next_state;
        o->reason = r->reason;
        o->user = f->user ? arena_copy(a, f->user) : arena_printf(a, "%u", who->uid);
        op_add(out, a, op);
    }
    hostlist_destroy(h);
    return rc;
}

int admit_node_update(struct state *s, const Wire__NodeUpdateRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    const char *state = value_of(r->set, r->n_set, "State"), *reason = value_of(r->set, r->n_set, "Reason");
    struct hostlist *h;
    int rc;

    if (asker.rank < RANK_OPERATOR)
        return deny(out, err, REFUSE_DENIED, "only operators update nodes");
    if ((rc = check_set(r->set, r->n_set, out, err)) < 0)
        return rc;
    if ((rc = check_token(s, r->has_token, r->token, r->token_wall_ms, out, err)) != 0)
        return rc < 0 ? rc : 0;
    if (!(h = nodes_named(s, r->nodes, out, err)))
        return err->code;
    for (size_t i = 0; i < hostlist_count(h) && rc == 0; i++) {
        const struct node *n = state_node(s, hostlist_nth(h, i));
        Wire__OpNodeUpdate *o;
        Wire__Op *op;

        if (!n) {
            rc = deny(out, err, REFUSE_NODE_UNKNOWN, "%.64s", hostlist_nth(h, i));
            break;
        }
        if (state && (word_starts(state, "DRAIN") || word_starts(state, "DOWN") || word_starts(state, "FAIL")) && !(reason && *reason) && !n->reason) {
            rc = deny(out, err, REFUSE_BAD_REQUEST, "you must specify a reason when putting node %.64s into state %.32s (Reason=...)", n->conf->name, state);
            break;
        }
        op = op_new(a, &asker, r->token, r->has_token, r->token_wall_ms);
        op->node_update = o = arena_alloc(a, sizeof *o);
        wire__op_node_update__init(o);
        o->node = arena_copy(a, n->conf->name);
        o->set = r->set;
        o->n_set = r->n_set;
        o->user = f->user ? arena_copy(a, f->user) : arena_printf(a, "%u", who->uid);
        op_add(out, a, op);
    }
    hostlist_destroy(h);
    return rc;
}

int admit_partition_update(struct state *s, const Wire__PartitionUpdateRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    const struct config_partition *p = config_partition_find(s->config, r->name);
    Wire__OpPartition *o;
    Wire__Op *op;
    int rc;

    if (asker.rank < RANK_ADMIN)
        return deny(out, err, REFUSE_DENIED, "only administrators change partitions");
    if ((rc = check_set(r->set, r->n_set, out, err)) < 0)
        return rc;
    if ((rc = check_token(s, r->has_token, r->token, r->token_wall_ms, out, err)) != 0)
        return rc < 0 ? rc : 0;
    if (!text_fits(r->name))
        return deny(out, err, REFUSE_TOO_LONG, "a partition name of %zu characters", strlen(r->name));
    if (!p != (r->create != 0))
        return deny(out, err, REFUSE_PARTITION_UNKNOWN, r->create ? "%.64s exists already" : "%.64s", r->name);
    op = op_new(a, &asker, r->token, r->has_token, r->token_wall_ms);
    op->partition = o = arena_alloc(a, sizeof *o);
    wire__op_partition__init(o);
    o->update = (Wire__PartitionUpdateRequest *)(uintptr_t)r;
    op_add(out, a, op);
    return 0;
}
