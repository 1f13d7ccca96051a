/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - the switch plugin's mesh, seen from the leader: each node's public key goes to every other node.
 *
 * Keys come with registrations and live in the state (node.mesh_*); the address of a node is the plugin's answer to its number. What changes within
 * SETTLE_MS goes out as one message, so that a thousand nodes that start together do not cost a million messages; a node that registers gets the whole
 * table. Nothing here is a secret, and nobody names an address for himself.
 */
#include <stdlib.h>
#include <spur/switch.h>

#include "base/hostlist.h"
#include "controller/ctl.h"

#define SETTLE_MS 50

struct mesh {
    const struct spur_switch_ops *ops;
    uv_timer_t timer;
    bool    *is_changed; uint32_t room;     /* by node index */
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
    if (c->mesh)
        free(c->mesh->is_changed);
    free(c->mesh);
    c->mesh = NULL;
}

/* NULL: it has no place in the mesh. */
static Wire__MeshNode *mesh_row(struct ctl *c, const struct node *n, struct arena *a)
{
    const char *end = n->mesh_endpoint ? n->mesh_endpoint : "", *at = n->addr && *n->addr ? n->addr : n->conf->addr;
    struct spur_error err = { 0 };
    Wire__MeshNode *row;
    struct str text;

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
    row->has_key = 1;
    row->key = (ProtobufCBinaryData){ sizeof n->mesh_key, (uint8_t *)(uintptr_t)n->mesh_key };
    str_init(&text);
    if (*end == ':')
        str_addf(&text, strchr(at, ':') ? "[%s]%s" : "%s%s", at, end);
    else
        str_add(&text, end);
    row->endpoint = text.len ? arena_copy(a, text.text) : NULL;
    str_fini(&text);
    row->has_connected = 1;
    row->connected = nodes_agent(c, n->index) != NULL;
    return row;
}

/* All nodes, or those that have changed. */
static void mesh_table(struct ctl *c, bool whole, Wire__MeshTable *t, struct arena *a)
{
    wire__mesh_table__init(t);
    t->has_whole = 1;
    t->whole = whole;
    t->nodes = arena_alloc(a, (c->state->node_count + 1u) * sizeof *t->nodes);
    for (uint32_t i = 0; i < c->state->node_count; i++) {
        Wire__MeshNode *row = whole || (i < c->mesh->room && c->mesh->is_changed[i]) ? mesh_row(c, &c->state->nodes[i], a) : NULL;

        if (row)
            t->nodes[t->n_nodes++] = row;
    }
}

void mesh_for_agent(struct ctl *c, const struct peer *p)
{
    Wire__MeshTable t;
    struct arena a;

    if (!c->mesh)
        return;
    arena_init(&a, 0);
    mesh_table(c, true, &t, &a);
    rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_MESH, 0, &t.base);
    arena_fini(&a);
}

static void mesh_tell(uv_timer_t *timer)
{
    struct ctl *c = timer->data;
    struct mesh *m = c->mesh;
    Wire__MeshTable t;
    struct arena a;

    if (!m || c->role != SPUR_STORE_LEADER)
        return;
    arena_init(&a, 0);
    mesh_table(c, false, &t, &a);
    for (uint32_t i = 0; t.n_nodes && i < c->state->node_count; i++) {
        struct peer *p = nodes_agent(c, i);

        if (p && p->node_count && p->nodes[0] == i)
            rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_MESH, 0, &t.base);
    }
    memset(m->is_changed, 0, m->room * sizeof *m->is_changed);
    arena_fini(&a);
}

void mesh_changed(struct ctl *c, uint32_t node)
{
    struct mesh *m = c->mesh;

    if (!m)
        return;
    if (node >= m->room) {
        m->is_changed = mem_grow(m->is_changed, c->state->node_count, sizeof *m->is_changed);
        memset(m->is_changed + m->room, 0, (c->state->node_count - m->room) * sizeof *m->is_changed);
        m->room = c->state->node_count;
    }
    m->is_changed[node] = true;
    if (!uv_is_active((uv_handle_t *)&m->timer))
        uv_timer_start(&m->timer, mesh_tell, SETTLE_MS, 0);
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

int mesh_rotate(struct ctl *c, const char *nodes, uint32_t *asked, struct spur_error *err)
{
    const Wire__Empty empty = WIRE__EMPTY__INIT;
    struct hostlist *list;
    int rc;

    *asked = 0;
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
    hostlist_destroy(list);
    return rc;
}
