/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - the node's side of the switch plugin's mesh: what rpc/member.c knows, in the words of the agent.
 *
 * A node whose interface cannot be made works on without the mesh; where jobs need it (SPUR_SWITCH_NEEDED), it drains with the reason until the mesh is
 * there. The emulated nodes of a sandbox have none.
 */
#include <string.h>

#include "agent/inside.h"

#define MESH_FRESH_S  150           /* WireGuard makes a new handshake every two minutes */
#define MESH_AGAIN_MS 10000         /* from one try to the next */
#define MESH_LASTS_MS 20000
#define MESH_PAUSE_MAX_MS 600000

static void news(void *arg, enum member_news what)
{
    struct agent *a = arg;

    /* Nobody knows the new key yet, so nothing gets through the mesh: the leader is told outside of it. */
    for (size_t i = 0; what == MEMBER_KEY && i < a->count; i++)
        if (a->nodes[i].conn && a->nodes[i].in_mesh) {
            a->nodes[i].in_mesh = false;
            rpc_close(a->nodes[i].conn, "it has a new key");
        }
    if (what != MEMBER_SEEN)
        inventory_tell(a);
    for (size_t i = 0; what == MEMBER_SEEN && i < a->count; i++)
        node_mesh_way(&a->nodes[i]);
}

/* SPUR_SWITCH_CONTROL: a second connection to the leader, at its mesh address, beside the one that is there; when it stands, the first one goes (node.c). Only while
 * the leader's host is heard of there. A connection that does not last makes the next try wait longer: a mesh that takes small packets and drops large ones must
 * not take control down with it again and again. */
void node_mesh_way(struct identity *n)
{
    const struct agent *a = n->agent;
    const struct spur_switch_ops *ops = a->sw ? loader_ops(a->sw) : NULL;
    const char *addr, *colon;
    char name[80];
    struct spur_error err = { 0 };
    int64_t heard_s, now = clock_boot_ms();

    if (!a->mesh || !n->conn || !n->registered || a->is_stopping || !SPUR_HAS(ops, traits) || !(ops->traits(a->sw->self, 0) & SPUR_SWITCH_CONTROL))
        return;
    snprintf(name, sizeof name, "controller/%.63s", rpc_identity(n->conn)->host);
    heard_s = member_heard(a->mesh, name, &addr);
    if (n->in_mesh && heard_s < 0 && !member_is_busy(a->mesh)) {
        rpc_close(n->conn, "the mesh is down");
        return;
    }
    if (n->in_mesh || n->is_mesh_dialled || heard_s < 0 || heard_s > MESH_FRESH_S || now < n->mesh_after_ms)
        return;
    colon = strrchr(rpc_peer(n->conn), ':');
    if (!colon || !number_u32(colon + 1, &n->mesh_port))
        return;
    snprintf(n->mesh_addr, sizeof n->mesh_addr, "%s", addr);
    n->mesh_after_ms = now + (n->mesh_pause_ms > MESH_AGAIN_MS ? n->mesh_pause_ms : MESH_AGAIN_MS);
    if (rpc_dial(a->rpc, n->mesh_addr, (uint16_t)n->mesh_port, n, &err) < 0)
        return;
    n->dialling++;
    n->is_mesh_dialled = true;
}

void node_mesh_lost(struct identity *n)
{
    int64_t now = clock_boot_ms();
    bool has_lasted = now - n->mesh_since_ms >= MESH_LASTS_MS;

    n->mesh_pause_ms = has_lasted ? MESH_AGAIN_MS : n->mesh_pause_ms * 2 > MESH_PAUSE_MAX_MS ? MESH_PAUSE_MAX_MS : n->mesh_pause_ms * 2 + MESH_AGAIN_MS / 4;
    n->mesh_after_ms = has_lasted ? 0 : now + n->mesh_pause_ms;
    n->in_mesh = false;
}

void node_mesh_start(struct agent *a)
{
    if (!a->is_emulated)
        a->mesh = member_create(a->loop, a->sw, news, a);
}

void node_mesh_stop(struct agent *a) { member_stop(a->mesh); }

void node_mesh_free(struct agent *a)
{
    member_free(a->mesh);
    a->mesh = NULL;
}

void node_mesh_fill(const struct agent *a, Wire__NodeInventory *inv)
{
    const uint8_t *key = member_key(a->mesh);
    const char *fault = member_fault(a->mesh);

    if (fault && !inv->fault)
        inv->fault = (char *)(uintptr_t)fault;
    if (!key)
        return;
    inv->has_mesh_key = 1;
    inv->mesh_key = (ProtobufCBinaryData){ 32, (uint8_t *)(uintptr_t)key };
    inv->mesh_endpoint = (char *)(uintptr_t)member_endpoint(a->mesh);
}

bool node_mesh_row(const struct agent *a, const char *name, struct spur_switch_node *out) { return member_row(a->mesh, name, out); }

void node_mesh_table(struct agent *a, const Wire__MeshTable *t) { member_table(a->mesh, t); }

void node_mesh_rotate(struct agent *a) { member_rotate(a->mesh); }

void node_mesh_answer(struct agent *a, struct rpc_conn *c, uint64_t seq) { member_answer(a->mesh, a->sw ? a->sw->name : "none", c, seq); }
