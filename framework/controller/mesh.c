/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - the switch plugin's mesh, seen from the leader: each node's public key goes to every other node.
 *
 * Keys come with registrations and live in the state (node.mesh_*); the address of a node is the plugin's answer to its number. What changes within
 * SETTLE_MS goes out as one message, so that a thousand nodes that start together do not cost a million messages; a node that registers gets the whole
 * table. Where the plugin says SPUR_SWITCH_BY_JOB, a node is told of its circle alone: itself and the nodes that it shares a job with. A job's nodes hear
 * of each other before its launch, on the same connections, and forget each other after it; what a node was told last is known by its hash, so only
 * changes are sent. Controllers that are in the mesh (seat.c) are told to every node, always. Nothing here is a secret, and nobody names an address for himself.
 */
#include <sodium.h>
#include <stdlib.h>
#include <spur/switch.h>

#include "base/hostlist.h"
#include "controller/ctl.h"

#define SETTLE_MS 50

struct mesh {
    const struct spur_switch_ops *ops;
    uv_timer_t timer;
    bool    *is_changed; uint32_t room;     /* by node index; by job: this node's circle may have changed */
    uint64_t *told;                         /* by node index: hash of what its agent was told last; by job only */
    bool     all_changed;                   /* as if each node stood in is_changed */
    bool     hosts_changed;                 /* a controller: all are told */
};

void mesh_create(struct ctl *c)
{
    const struct spur_switch_ops *ops = loader_ops(c->sw);

    if (!SPUR_HAS(ops, address))
        return;
    c->mesh = mem_alloc(sizeof *c->mesh);
    c->mesh->ops = ops;
    uv_timer_init(c->loop, &c->mesh->timer);
    c->mesh->timer.data = c;
}

void mesh_destroy(struct ctl *c)        /* the loop is closed by now, and its handles with it */
{
    if (c->mesh) {
        free(c->mesh->is_changed);
        free(c->mesh->told);
    }
    free(c->mesh);
    c->mesh = NULL;
}

uint32_t mesh_traits(const struct ctl *c)
{
    return c->mesh && SPUR_HAS(c->mesh->ops, traits) ? c->mesh->ops->traits(c->sw->self, c->state->node_count) : 0;
}

bool mesh_wants_alone(const struct ctl *c) { return mesh_traits(c) & SPUR_SWITCH_ALONE; }

static void mesh_room(struct ctl *c)
{
    struct mesh *m = c->mesh;
    uint32_t n = c->state->node_count;

    if (n <= m->room)
        return;
    m->is_changed = mem_grow(m->is_changed, n, sizeof *m->is_changed);
    m->told = mem_grow(m->told, n, sizeof *m->told);
    memset(m->is_changed + m->room, 0, (n - m->room) * sizeof *m->is_changed);
    memset(m->told + m->room, 0, (n - m->room) * sizeof *m->told);
    m->room = n;
}

/* ":port" is at the address that the cluster knows. */
static char *mesh_endpoint(const char *end, const char *at, struct arena *a)
{
    if (*end == ':')
        return arena_printf(a, strchr(at, ':') ? "[%s]%s" : "%s%s", at, end);
    return *end ? arena_copy(a, end) : NULL;
}

/* NULL: it has no place in the mesh. */
static Wire__MeshNode *mesh_row(struct ctl *c, const struct node *n, struct arena *a)
{
    const char *end = n->mesh_endpoint ? n->mesh_endpoint : "", *at = n->addr && *n->addr ? n->addr : n->conf->addr;
    struct spur_error err = { 0 };
    Wire__MeshNode *row;

    if (!n->mesh_number)
        return NULL;
    row = arena_alloc(a, sizeof *row);
    wire__mesh_node__init(row);
    row->addr = arena_alloc(a, 64);
    if (c->mesh->ops->address(c->sw->self, n->mesh_number, row->addr, &err) < 0) {
        log_line(SPUR_LOG_ERROR, "node %s gets no mesh address: %s", n->conf->name, err.text);
        return NULL;
    }
    row->name = n->conf->name;
    if (!sodium_is_zero(n->mesh_key, sizeof n->mesh_key)) {     /* none: its host was revoked, nobody has it as a peer */
        row->has_key = 1;
        row->key = (ProtobufCBinaryData){ sizeof n->mesh_key, (uint8_t *)(uintptr_t)n->mesh_key };
    }
    row->endpoint = mesh_endpoint(end, at, a);
    row->has_connected = 1;
    row->connected = nodes_agent(c, n->index) != NULL;
    return row;
}

static const char *controller_addr(const struct ctl *c, const char *name, struct arena *a)
{
    const struct config *cfg = c->state->config ? c->state->config : c->file_config;
    const char *addr;

    for (size_t i = 0; i < cfg->controller_count; i++)
        if (word_eq(cfg->controllers[i].host, name))
            return cfg->controllers[i].addr ? cfg->controllers[i].addr : cfg->controllers[i].host;
    addr = group_member_addr(c, name, a);           /* one that joined with a token stands in no file */
    return addr ? addr : name;
}

/* Of a controller; connected: it is the one that says so. */
static Wire__MeshNode *mesh_host_row(struct ctl *c, const struct mesh_host *h, struct arena *a)
{
    Wire__MeshNode *row = arena_alloc(a, sizeof *row);
    struct spur_error err = { 0 };

    wire__mesh_node__init(row);
    row->addr = arena_alloc(a, 64);
    if (c->mesh->ops->address(c->sw->self, h->number, row->addr, &err) < 0) {
        log_line(SPUR_LOG_ERROR, "controller %s gets no mesh address: %s", h->name, err.text);
        return NULL;
    }
    row->name = arena_printf(a, "controller/%s", h->name);
    row->has_controller = row->controller = 1;
    if (!sodium_is_zero(h->key, sizeof h->key)) {
        row->has_key = 1;
        row->key = (ProtobufCBinaryData){ sizeof h->key, (uint8_t *)(uintptr_t)h->key };
    }
    row->endpoint = mesh_endpoint(h->endpoint ? h->endpoint : "", controller_addr(c, h->name, a), a);
    row->has_connected = 1;
    row->connected = word_eq(h->name, c->name);
    return row;
}

static void mesh_hosts(struct ctl *c, Wire__MeshTable *t, struct arena *a)
{
    for (uint32_t i = 0; i < c->state->mesh_host_count; i++) {
        Wire__MeshNode *row = mesh_host_row(c, &c->state->mesh_hosts[i], a);

        if (row)
            t->nodes[t->n_nodes++] = row;
    }
}

static size_t mesh_most(const struct ctl *c) { return c->state->node_count + c->state->mesh_host_count + 1u; }

/* Itself and all that it shares a job with; components of a heterogeneous job are one. */
static void mesh_circle(const struct ctl *c, uint32_t node, struct bitmap *out)
{
    const struct node *n = &c->state->nodes[node];

    bitmap_set(out, node);
    for (uint32_t i = 0; i < n->jobs; i++) {
        const struct job *j = state_job(c->state, n->job_ids[i]);

        for (uint32_t part = 0; j && part < (j->het_count ? j->het_count : 1); part++) {
            const struct job *of = j->het_count ? het_part(c->state, j, part) : j;

            for (uint32_t k = 0; of && k < of->alloc_count; k++)
                if (!of->allocs[k].gone && of->allocs[k].node != NODE_REMOVED)
                    bitmap_set(out, of->allocs[k].node);
        }
    }
}

/* All nodes, or those that have changed. */
static void mesh_table(struct ctl *c, bool whole, Wire__MeshTable *t, struct arena *a)
{
    wire__mesh_table__init(t);
    t->has_whole = 1;
    t->whole = whole;
    t->nodes = arena_alloc(a, mesh_most(c) * sizeof *t->nodes);
    for (uint32_t i = 0; i < c->state->node_count; i++) {
        Wire__MeshNode *row = whole || (i < c->mesh->room && c->mesh->is_changed[i]) ? mesh_row(c, &c->state->nodes[i], a) : NULL;

        if (row)
            t->nodes[t->n_nodes++] = row;
    }
    if (whole || c->mesh->hosts_changed)
        mesh_hosts(c, t, a);
}

void mesh_whole(struct ctl *c, Wire__MeshTable *t, struct arena *a) { mesh_table(c, true, t, a); }

static uint64_t mesh_hash(const Wire__MeshTable *t)
{
    crypto_generichash_state h;
    uint8_t sum[crypto_generichash_BYTES];
    uint64_t out;

    crypto_generichash_init(&h, NULL, 0, sizeof sum);
    for (size_t i = 0; i < t->n_nodes; i++) {
        const Wire__MeshNode *n = t->nodes[i];

        crypto_generichash_update(&h, (const uint8_t *)n->name, strlen(n->name) + 1);
        if (n->has_key)
            crypto_generichash_update(&h, n->key.data, n->key.len);
        if (n->endpoint)
            crypto_generichash_update(&h, (const uint8_t *)n->endpoint, strlen(n->endpoint) + 1);
    }
    crypto_generichash_final(&h, sum, sizeof sum);
    memcpy(&out, sum, sizeof out);
    return out;
}

/* The circles of the agent's nodes, if they are not what it was told last. */
static void mesh_tell_circle(struct ctl *c, const struct peer *p, bool again)
{
    Wire__MeshTable t;
    struct bitmap circle = { 0 };
    struct arena a;
    uint64_t hash;

    mesh_room(c);
    bitmap_init(&circle, c->state->node_count);
    for (uint32_t i = 0; i < p->node_count; i++)
        mesh_circle(c, p->nodes[i], &circle);
    arena_init(&a, 0);
    wire__mesh_table__init(&t);
    t.has_whole = t.whole = 1;
    t.nodes = arena_alloc(&a, mesh_most(c) * sizeof *t.nodes);
    for (uint32_t i = 0; i < c->state->node_count; i++) {
        Wire__MeshNode *row = bitmap_test(&circle, i) ? mesh_row(c, &c->state->nodes[i], &a) : NULL;

        if (row)
            t.nodes[t.n_nodes++] = row;
    }
    mesh_hosts(c, &t, &a);
    hash = mesh_hash(&t);
    if (again || hash != c->mesh->told[p->nodes[0]])
        rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_MESH, 0, &t.base);
    c->mesh->told[p->nodes[0]] = hash;
    arena_fini(&a);
    bitmap_fini(&circle);
}

void mesh_for_agent(struct ctl *c, const struct peer *p)
{
    Wire__MeshTable t;
    struct arena a;

    if (!c->mesh || !p->node_count)
        return;
    if (mesh_traits(c) & SPUR_SWITCH_BY_JOB) {
        mesh_tell_circle(c, p, true);
        return;
    }
    arena_init(&a, 0);
    mesh_table(c, true, &t, &a);
    rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_MESH, 0, &t.base);
    arena_fini(&a);
}

static void mesh_tell(uv_timer_t *timer)
{
    struct ctl *c = timer->data;
    struct mesh *m = c->mesh;
    bool by_job;
    Wire__MeshTable t;
    struct arena a;

    if (!m || c->role != SPUR_STORE_LEADER)
        return;
    mesh_room(c);
    by_job = mesh_traits(c) & SPUR_SWITCH_BY_JOB;
    arena_init(&a, 0);
    wire__mesh_table__init(&t);
    if (!by_job)
        mesh_table(c, false, &t, &a);
    for (uint32_t i = 0; (by_job || t.n_nodes) && i < c->state->node_count; i++) {
        struct peer *p = by_job && !m->all_changed && !m->is_changed[i] ? NULL : nodes_agent(c, i);

        if (p && p->node_count && by_job)
            mesh_tell_circle(c, p, false);
        else if (p && p->node_count && p->nodes[0] == i)
            rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_MESH, 0, &t.base);
    }
    memset(m->is_changed, 0, m->room * sizeof *m->is_changed);
    m->all_changed = m->hosts_changed = false;
    arena_fini(&a);
}

static void mesh_tell_soon(struct ctl *c)
{
    if (!uv_is_active((uv_handle_t *)&c->mesh->timer))
        uv_timer_start(&c->mesh->timer, mesh_tell, SETTLE_MS, 0);
}

void mesh_changed(struct ctl *c, uint32_t node)
{
    struct mesh *m = c->mesh;
    struct bitmap circle = { 0 };

    if (!m)
        return;
    mesh_room(c);
    if (node == NODE_REMOVED) {
        m->hosts_changed = m->all_changed = true;
        mesh_tell_soon(c);
        return;
    }
    m->is_changed[node] = true;
    if (mesh_traits(c) & SPUR_SWITCH_BY_JOB) {
        bitmap_init(&circle, c->state->node_count);
        mesh_circle(c, node, &circle);
        for (uint32_t i = 0; i < c->state->node_count; i++)
            m->is_changed[i] = m->is_changed[i] || bitmap_test(&circle, i);
        bitmap_fini(&circle);
    }
    mesh_tell_soon(c);
}

void mesh_job(struct ctl *c, const struct job *j, bool starts)
{
    if (!c->mesh || (j && j->alloc_count < 2 && !j->het_count) || !(mesh_traits(c) & SPUR_SWITCH_BY_JOB))
        return;
    mesh_room(c);
    c->mesh->all_changed = c->mesh->all_changed || !j;
    for (uint32_t part = 0; j && part < (j->het_count ? j->het_count : 1); part++) {
        const struct job *of = j->het_count ? het_part(c->state, j, part) : j;

        for (uint32_t i = 0; of && i < of->alloc_count; i++)
            if (of->allocs[i].node != NODE_REMOVED)
                c->mesh->is_changed[of->allocs[i].node] = true;
    }
    if (starts)
        mesh_tell(&c->mesh->timer);
    else
        mesh_tell_soon(c);
}

void mesh_configure(struct ctl *c)
{
    if (!c->mesh)
        return;
    mesh_room(c);
    if (c->mesh->room)
        memset(c->mesh->told, 0, c->mesh->room * sizeof *c->mesh->told);
    mesh_job(c, NULL, false);
}

void mesh_list(struct ctl *c, Wire__MeshReply *out, struct arena *a)
{
    Wire__MeshTable t;

    wire__mesh_reply__init(out);
    if (!c->mesh)
        return;
    mesh_table(c, true, &t, a);
    out->nodes = t.nodes;
    out->n_nodes = t.n_nodes;
}

/* The named nodes must be there, all of them, before one is told. */
static int mesh_named(struct ctl *c, const char *nodes, struct hostlist **list, struct spur_error *err)
{
    *list = NULL;
    if (nodes && hostlist_parse(nodes, list, err) < 0)
        return err->code;
    for (size_t i = 0; *list && i < hostlist_count(*list); i++)
        if (!state_node(c->state, hostlist_nth(*list, i)))
            return spur_fail(err, SPUR_ENOTFOUND, "node %s is not in the configuration", hostlist_nth(*list, i));
    return 0;
}

/* By the log: the other controllers have no connection to this one. */
static void mesh_renew(struct ctl *c, const char *name)
{
    struct arena a;
    Wire__Op **ops, *op;

    arena_init(&a, 0);
    ops = arena_alloc(&a, sizeof *ops);
    *ops = op = arena_alloc(&a, sizeof *op);
    wire__op__init(op);
    op->mesh_host = arena_alloc(&a, sizeof *op->mesh_host);
    wire__op_mesh_host__init(op->mesh_host);
    op->mesh_host->name = arena_copy(&a, name);
    op->mesh_host->has_renew = op->mesh_host->renew = 1;
    propose(c, ops, 1, NULL, &a, NULL, NULL);
}

int mesh_rotate(struct ctl *c, const char *nodes, uint32_t *asked, uint32_t *controllers, struct spur_error *err)
{
    const Wire__Empty empty = WIRE__EMPTY__INIT;
    struct hostlist *list;
    int rc;

    *asked = *controllers = 0;
    if (!c->mesh)
        return spur_fail(err, SPUR_EUNSUPPORTED, "SwitchType is %s, which makes no mesh; switch/wireguard does", c->sw->name);
    rc = mesh_named(c, nodes, &list, err);
    for (uint32_t i = 0; rc == 0 && i < c->state->node_count; i++) {
        struct peer *p = nodes_agent(c, i);

        if (!p || !c->state->nodes[i].mesh_number || (list && hostlist_find(list, c->state->nodes[i].conf->name) < 0))
            continue;
        rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_MESH_ROTATE, 0, &empty.base);
        ++*asked;
    }
    for (uint32_t i = 0; rc == 0 && !list && i < c->state->mesh_host_count; i++) {
        if (sodium_is_zero(c->state->mesh_hosts[i].key, 32))
            continue;
        mesh_renew(c, c->state->mesh_hosts[i].name);
        ++*controllers;
    }
    hostlist_destroy(list);
    return rc;
}
