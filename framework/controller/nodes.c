/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - agents: registration, heartbeats, reports, silence.
 *
 * Agents dial the controller; nothing listens on a node. One connection speaks for one node, or for many (`spurd --emulate`). A connection that
 * closes starts the clock of SlurmdTimeout; a node that has not come back by then is lost, in the log, and its jobs with it. What the
 * state does not replicate (load, free memory, who is connected) is written here as advice.
 */
#include <stdlib.h>

#include "controller/ctl.h"
#include "wire/unpack.h"

#define LOST_AGAIN_MS 2000
#define SPREAD_NODES_PER_MS 5      /* a new leader takes 5,000 agents a second: a handshake costs it 0.1 to 0.2 ms */

struct peer *nodes_agent(struct ctl *c, uint32_t node) { return node < c->agent_room ? c->agent_of[node] : NULL; }

static int64_t nodes_timeout_ms(const struct ctl *c)
{
    int64_t s = config_number(c->state->config, CONF_SlurmdTimeout);

    return (s > 0 ? s : INT32_MAX / 1000) * 1000;
}

/* Alone: often enough for SlurmdTimeout. In a group a leader may be cut off while his connections stay up, and only a beat without an answer
 * shows it: each second in a small cluster, each 3.5 s with 10,000 nodes, which costs the leader a few percent of a core. */
static uint32_t nodes_beat_ms(const struct ctl *c)
{
    int64_t ms = nodes_timeout_ms(c) / 4;
    uint32_t voters, reachable;

    group_voters(c, &voters, &reachable);
    if (voters > 1 && ms > 1000 + c->state->node_count / 4)
        ms = 1000 + c->state->node_count / 4;
    return (uint32_t)(ms > 30000 ? 30000 : ms);
}

static void nodes_room(struct ctl *c)
{
    if (c->agent_room >= c->state->node_count)
        return;
    c->agent_of = mem_grow(c->agent_of, c->state->node_count, sizeof *c->agent_of);
    memset(c->agent_of + c->agent_room, 0, (c->state->node_count - c->agent_room) * sizeof *c->agent_of);
    c->is_armed = mem_grow(c->is_armed, c->state->node_count, sizeof *c->is_armed);
    memset(c->is_armed + c->agent_room, 0, (c->state->node_count - c->agent_room) * sizeof *c->is_armed);
    c->agent_room = c->state->node_count;
}

/* One alarm a node is under way at any time; it re-arms itself while the node is up. */
static void nodes_arm(struct ctl *c, uint32_t node, int64_t in_ms)
{
    if (c->is_armed[node])
        return;
    c->is_armed[node] = true;
    alarm_set(c, in_ms, ALARM_NODE_SILENT, node);
}

/* Set up by people while its agent is away: lost again, unless it comes. */
void nodes_changed(struct ctl *c, uint32_t node)
{
    struct node *n = &c->state->nodes[node];

    if (node >= c->agent_room || c->agent_of[node] || c->is_armed[node] || (n->base != NODE_IDLE && n->base != NODE_UNKNOWN))
        return;
    n->heard_ms = clock_boot_ms();
    nodes_arm(c, node, nodes_timeout_ms(c));
}

void nodes_watch(struct ctl *c)
{
    nodes_room(c);
    for (uint32_t i = 0; i < c->state->node_count; i++)
        if (!c->agent_of[i]) {
            c->state->nodes[i].heard_ms = clock_boot_ms();
            state_node_away(c->state, &c->state->nodes[i], true);
            nodes_arm(c, i, nodes_timeout_ms(c));
        }
}

void nodes_leave(struct ctl *c)
{
    struct peer *p;

    held_forget(c);
    for (uint32_t i = 0; i < c->agent_room; i++) {
        c->is_armed[i] = false;
        if ((p = c->agent_of[i])) {
            group_refuse(c, p->number, 0);
            rpc_close(p->conn, "another controller leads");
            for (uint32_t k = 0; k < p->node_count; k++)
                if (p->nodes[k] < c->agent_room && c->agent_of[p->nodes[k]] == p)
                    c->agent_of[p->nodes[k]] = NULL;
            p->node_count = 0;
        }
    }
    for (uint32_t i = 0; i < c->state->node_count; i++) {       /* advice that nobody gives any more */
        c->state->nodes[i].load_hundredths = 0;
        c->state->nodes[i].mem_free_mib = 0;
        state_node_away(c->state, &c->state->nodes[i], false);
    }
}

/* What a registration is answered with, when its entry is in. */
struct registering { uint64_t conn, seq; Wire__RegisterReply *reply; };

static void registered(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct registering *r = arg;
    struct peer *p = ctl_peer(c, r->conn);

    if (!results) {
        group_refuse_dropped(c, r->conn, r->seq, err);
        return;
    }
    (void)n;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__REGISTERED, r->seq, &r->reply->base);
    if (!p)
        return;
    mesh_for_agent(c, p);
    effects_for_agent(c, p);
    ctl_plan_soon(c);
}

void nodes_register(struct ctl *c, struct peer *p, uint64_t seq, Wire__RegisterRequest *m, struct arena *take_arena)
{
    struct admitted adm = { 0 };
    struct spur_error err = { 0 };
    struct registering *r = arena_alloc(take_arena, sizeof *r);

    r->reply = arena_alloc(take_arena, sizeof *r->reply);
    wire__register_reply__init(r->reply);
    r->conn = p->number;
    r->seq = seq;
    if (admit_register(c->state, m, rpc_identity(p->conn), take_arena, &adm, r->reply, &err) < 0) {
        ctl_refuse(c, p->number, seq, &err, adm.slurm_errno);
        log_line(SPUR_LOG_WARN, "registration from %s refused: %s", rpc_peer(p->conn), err.text);
        if (adm.suspect)
            suspect_node(c, rpc_identity(p->conn), adm.suspect);
        return;
    }
    if (adm.suspect)
        suspect_node(c, rpc_identity(p->conn), adm.suspect);
    r->reply->has_config_version = r->reply->has_heartbeat_ms = r->reply->has_fence = 1;
    r->reply->config_version = c->state->config_version;
    r->reply->heartbeat_ms = nodes_beat_ms(c);
    r->reply->hosts = joins_for_agents(c, take_arena);
    r->reply->has_wall_ms = 1;
    r->reply->wall_ms = clock_wall_ms();
    r->reply->has_spread_ms = 1;
    r->reply->spread_ms = c->state->node_count / SPREAD_NODES_PER_MS;
    r->reply->fence = c->fence;
    nodes_room(c);
    for (size_t i = 0; i < adm.op_count; i++) {         /* those that it may speak for; launches of others do not go there */
        struct node *node = state_node(c->state, adm.ops[i]->register_node->inventory->name);

        if (!node)
            continue;
        if (c->agent_of[node->index] != p) {
            p->nodes = mem_grow(p->nodes, p->node_count + 1, sizeof *p->nodes);
            p->nodes[p->node_count++] = node->index;
        }
        c->agent_of[node->index] = p;
        state_node_away(c->state, node, false);
        node->heard_ms = clock_boot_ms();
        nodes_arm(c, node->index, nodes_timeout_ms(c));
    }
    p->heard_ms = clock_boot_ms();
    if (adm.op_count == 0) {
        registered(c, r, (struct op_result[]){ { 0 } }, 0, NULL);
        return;
    }
    propose(c, adm.ops, adm.op_count, NULL, take_arena, registered, r);
    held_look(c);               /* behind the registration, which says what still runs there */
}

void nodes_heartbeat(struct ctl *c, struct peer *p, uint64_t seq, const Wire__Heartbeat *h)
{
    Wire__Empty ok = WIRE__EMPTY__INIT;

    p->heard_ms = clock_boot_ms();
    for (uint32_t i = 0; i < p->node_count; i++)
        c->state->nodes[p->nodes[i]].heard_ms = p->heard_ms;
    for (size_t i = 0; i < h->n_loads; i++) {
        struct node *node = state_node(c->state, h->loads[i]->name);

        if (node && nodes_agent(c, node->index) != p && rpc_identity(p->conn)->role == SPUR_ROLE_NODE && joins_node(c, rpc_identity(p->conn)->host) != node)
            suspect_node(c, rpc_identity(p->conn), "told the load of another node");
        if (!node || nodes_agent(c, node->index) != p)
            continue;
        node->load_hundredths = h->loads[i]->load_hundredths;
        node->mem_free_mib = h->loads[i]->mem_free_mib;
    }
    ctl_send(c, p->number, WIRE__MESSAGE_TYPE__HEARTBEAT_OK, seq, &ok.base);
}

struct reporting { uint64_t conn, seq; Wire__ReportAck ack; };

static void reported(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct reporting *r = arg;

    (void)n;
    if (results)        /* a stale report is acknowledged as well: it must leave the node's spool */
        ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__REPORT_OK, r->seq, &r->ack.base);
    else
        group_refuse_dropped(c, r->conn, r->seq, err);
}

void nodes_report(struct ctl *c, struct peer *p, uint64_t seq, const Wire__Report *m, struct arena *take_arena)
{
    struct admitted adm = { 0 };
    struct spur_error err = { 0 };
    struct reporting *r;

    if (admit_report(c->state, m, rpc_identity(p->conn), take_arena, &adm, &err) < 0) {
        ctl_refuse(c, p->number, seq, &err, adm.slurm_errno);
        log_line(SPUR_LOG_WARN, "report from %s refused: %s", rpc_peer(p->conn), err.text);
        if (adm.suspect)
            suspect_node(c, rpc_identity(p->conn), adm.suspect);
        return;
    }
    if (held_take(c, p, seq, m))
        return;
    r = arena_alloc(take_arena, sizeof *r);
    wire__report_ack__init(&r->ack);
    r->conn = p->number;
    r->seq = seq;
    r->ack.seq = m->seq;
    r->ack.node = m->node;
    if (adm.op_count == 0) {
        reported(c, r, (struct op_result[]){ { 0 } }, 0, NULL);
        return;
    }
    propose(c, adm.ops, adm.op_count, NULL, take_arena, reported, r);
}

static int64_t nodes_reboot_left_ms(struct ctl *c, const struct node *n)
{
    int64_t s = config_number(c->state->config, CONF_ResumeTimeout);

    return n->reboot_cluster_ms + (s > 0 ? s : 60) * 1000 - ctl_cluster_ms(c);
}

void nodes_reboot(struct ctl *c, uint32_t node)
{
    const struct node *n = &c->state->nodes[node];
    struct peer *p = nodes_agent(c, node);
    Wire__NodeReboot m = WIRE__NODE_REBOOT__INIT;

    if (!(n->flags & NODE_FLAG_REBOOT_ISSUED))
        return;
    m.node = n->conf->name;
    m.number = n->reboot_number;
    m.reason = n->reason;
    if (p)
        rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_REBOOT, 0, &m.base);
    alarm_set(c, nodes_reboot_left_ms(c, n), ALARM_NODE_REBOOT, node);
}

void nodes_gone(struct ctl *c, struct peer *p)
{
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t node = p->nodes[i];

        if (nodes_agent(c, node) != p)
            continue;
        c->agent_of[node] = NULL;
        if (node >= c->state->node_count || c->is_stopping || c->role != SPUR_STORE_LEADER)
            continue;
        state_node_away(c->state, &c->state->nodes[node], true);
        c->state->nodes[node].heard_ms = clock_boot_ms();
        nodes_arm(c, node, nodes_timeout_ms(c));
    }
}

struct losing { uint32_t node; enum alarm_kind kind; };

/* A full disk drops entries: looked at again, until the loss is in the log. */
static void lost_told(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    const struct losing *l = arg;

    (void)n; (void)err;
    if (results || c->is_stopping)
        return;
    if (l->kind == ALARM_NODE_SILENT)
        nodes_arm(c, l->node, LOST_AGAIN_MS);
    else
        alarm_set(c, LOST_AGAIN_MS, l->kind, l->node);
}

static void nodes_lose(struct ctl *c, const struct node *n, const char *reason, enum alarm_kind kind)
{
    struct arena arena;
    Wire__OpNodeLost *lost;
    Wire__Op *op, **ops;
    struct losing *l;

    arena_init(&arena, 0);
    lost = arena_alloc(&arena, sizeof *lost);
    op = arena_alloc(&arena, sizeof *op);
    ops = arena_alloc(&arena, sizeof *ops);
    wire__op_node_lost__init(lost);
    wire__op__init(op);
    lost->node = arena_copy(&arena, n->conf->name);
    lost->reason = arena_copy(&arena, reason);
    op->node_lost = lost;
    *ops = op;
    l = arena_alloc(&arena, sizeof *l);
    *l = (struct losing){ n->index, kind };
    propose(c, ops, 1, NULL, &arena, lost_told, l);
}

/* Rings ResumeTimeout after a reboot was issued. */
void nodes_reboot_alarm(struct ctl *c, uint32_t node)
{
    const struct node *n = node < c->state->node_count ? &c->state->nodes[node] : NULL;

    if (!n || !(n->flags & NODE_FLAG_REBOOT_ISSUED))
        return;
    if (nodes_reboot_left_ms(c, n) > 0) {
        alarm_set(c, nodes_reboot_left_ms(c, n), ALARM_NODE_REBOOT, node);
        return;
    }
    log_line(SPUR_LOG_ERROR, "node %s has not come back from its reboot within ResumeTimeout: down", n->conf->name);
    nodes_lose(c, n, "reboot timed out", ALARM_NODE_REBOOT);
}

/* Rings SlurmdTimeout after the last sign of a node: lost, unless it has been heard since. */
void nodes_alarm(struct ctl *c, uint32_t node)
{
    struct node *n = node < c->state->node_count ? &c->state->nodes[node] : NULL;
    int64_t silent;

    if (!n)
        return;
    c->is_armed[node] = false;
    if (c->role != SPUR_STORE_LEADER)
        return;
    silent = clock_boot_ms() - n->heard_ms;
    if (silent < nodes_timeout_ms(c)) {
        nodes_arm(c, node, nodes_timeout_ms(c) - silent);
        return;
    }
    if (n->base == NODE_DOWN || n->base == NODE_FUTURE || n->flags & NODE_FLAG_CLOUD)
        return;
    log_line(SPUR_LOG_ERROR, "node %s is silent for %lld s: down", n->conf->name, (long long)(silent / 1000));
    if (nodes_agent(c, node))       /* should it only have hung: it dials again, registers, and what it still runs is looked at */
        rpc_close(nodes_agent(c, node)->conn, "silent for SlurmdTimeout");
    nodes_lose(c, n, "Not responding", ALARM_NODE_SILENT);
}

void ctl_config_texts(const struct ctl *c, Wire__ConfigFiles *out)
{
    const struct config *cfg = c->state->config;

    wire__config_files__init(out);
    out->slurm = cfg->slurm_text;
    out->gres = cfg->gres_text;
    out->topology = cfg->topology_text;
    out->cgroup = cfg->cgroup_text;
    out->spur = cfg->spur_text;
    out->hosts = cfg->hosts_text;
    out->has_version = true;
    out->version = c->state->config_version;
}

/* The configuration of the log, to every agent that is here; others get it when they ask or start anew. */
void nodes_configure(struct ctl *c)
{
    Wire__ConfigFiles files;

    ctl_config_texts(c, &files);
    for (uint32_t i = 0; i < c->state->node_count; i++) {
        struct peer *p = nodes_agent(c, i);

        if (p && p->node_count && p->nodes[0] == i)      /* one that speaks for many hears it once */
            rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_CONFIG, 0, &files.base);
    }
}
