/* SPDX-License-Identifier: Apache-2.0 */
/* seat.c - this controller's own place in the switch plugin's mesh, where the plugin wants controllers there (SPUR_SWITCH_CONTROLLERS).
 *
 * The key is made here (rpc/member.c) and goes into the log: by the leader's own hand, or over a connection of its own to the leader, again and again until the
 * state has it. From then on nobody has to tell this controller anything: every key is in its own copy of the state, and each change of that sets its
 * peers, whoever leads. So an election changes nothing in the mesh. A host has one interface: where a controller's host is a compute node too,
 * the node is in the mesh and the controller stays out of it. The group's own traffic never needs the mesh.
 */
#include <sodium.h>
#include <spur/switch.h>
#include <stdlib.h>

#include "controller/ctl.h"
#include "rpc/member.h"

#define LOOK_MS   500
#define SETTLE_MS 50
#define AGAIN_MS  3000          /* after a key was said that the state does not show */

struct seat {
    uv_timer_t timer;
    struct member *member;      /* NULL: none */
    bool       is_refused, is_due, is_renew_due, is_dialling;         /* is_due: the table is another one */
    struct rpc_conn *conn;
    int64_t    said_ms;         /* when the own key was proposed or sent last */
};

static void seat_rang(uv_timer_t *timer);

static void seat_soon(struct seat *s, uint64_t ms)
{
    if (!uv_is_closing((uv_handle_t *)&s->timer))
        uv_timer_start(&s->timer, seat_rang, ms, LOOK_MS);
}

static void seat_news(void *arg, enum member_news what)
{
    struct ctl *c = arg;

    if (what != MEMBER_SEEN && c->seat) {
        c->seat->said_ms = 0;
        seat_soon(c->seat, 0);
    }
}

static void seat_open(struct ctl *c)
{
    struct seat *s = c->seat;
    const struct node *n = joins_node(c, c->name);

    if (n && !s->is_refused)
        log_line(SPUR_LOG_INFO, "this host is node %s, which is in the mesh: the controller here is not, and is reached outside of it", n->conf->name);
    s->is_refused = n != NULL;
    if (n)
        return;
    s->member = member_create(c->loop, c->sw, seat_news, c);
    s->is_due = true;
    if (s->is_renew_due)
        member_rotate(s->member);
    s->is_renew_due = false;
}

/* Does the state show the key that this controller has? */
static bool seat_is_known(const struct ctl *c)
{
    const uint8_t *key = member_key(c->seat->member);
    const struct mesh_host *h = state_mesh_host(c->state, c->name);

    return !key || (h && memcmp(h->key, key, sizeof h->key) == 0 && !strcmp(h->endpoint ? h->endpoint : "", member_endpoint(c->seat->member)));
}

static Wire__Op *seat_op(const char *name, const uint8_t *key, const char *endpoint, struct arena *a)
{
    Wire__Op *op = arena_alloc(a, sizeof *op);

    wire__op__init(op);
    op->mesh_host = arena_alloc(a, sizeof *op->mesh_host);
    wire__op_mesh_host__init(op->mesh_host);
    op->mesh_host->name = arena_copy(a, name);
    if (key) {
        op->mesh_host->has_key = 1;
        op->mesh_host->key = (ProtobufCBinaryData){ 32, arena_alloc(a, 32) };
        memcpy(op->mesh_host->key.data, key, 32);
        op->mesh_host->endpoint = arena_copy(a, endpoint ? endpoint : "");
    }
    return op;
}

static void seat_propose(struct ctl *c, const char *name, const uint8_t *key, const char *endpoint, proposed_fn done, void *arg)
{
    struct arena a;
    Wire__Op **ops;

    arena_init(&a, 0);
    ops = arena_alloc(&a, sizeof *ops);
    *ops = seat_op(name, key, endpoint, &a);
    propose(c, ops, 1, NULL, &a, done, arg);
}

static void seat_proposed(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    (void)c; (void)arg; (void)n; (void)err;
    if (results && results->code)
        log_line(SPUR_LOG_ERROR, "mesh: %s", results->text ? results->text : "the own key was refused");
}

static void seat_say(struct ctl *c)
{
    struct seat *s = c->seat;
    struct spur_error err = { 0 };
    char addr[160];

    s->said_ms = clock_boot_ms();
    if (group_leads(c)) {
        seat_propose(c, c->name, member_key(s->member), member_endpoint(s->member), seat_proposed, NULL);
        return;
    }
    if (s->is_dialling || s->conn || !group_leader_addr(c, addr) || word_eq(c->leader, c->name))
        return;
    s->is_dialling = rpc_dial(c->rpc, addr, (uint16_t)config_number(c->state->config, CONF_SlurmctldPort), s, &err) == 0;
    if (!s->is_dialling)
        log_line(SPUR_LOG_DEBUG, "mesh: %s: %s", addr, err.text);
}

static void seat_rang(uv_timer_t *timer)
{
    struct ctl *c = timer->data;
    struct seat *s = c->seat;
    Wire__MeshTable t;
    struct arena a;

    if (c->is_stopping || !c->is_started || !c->state->config || c->is_config_due)
        return;
    if (!s->member && mesh_traits(c) & SPUR_SWITCH_CONTROLLERS)
        seat_open(c);
    if (!s->member)
        return;
    if (!seat_is_known(c) && clock_boot_ms() - s->said_ms >= AGAIN_MS)
        seat_say(c);
    if (!s->is_due)
        return;
    s->is_due = false;
    arena_init(&a, 0);
    mesh_whole(c, &t, &a);
    member_table(s->member, &t);
    arena_fini(&a);
}

void seat_changed(struct ctl *c)
{
    if (!c->seat || c->seat->is_due)
        return;
    c->seat->is_due = true;
    seat_soon(c->seat, SETTLE_MS);
}

void seat_renew(struct ctl *c, uint32_t host)
{
    if (!c->seat || host >= c->state->mesh_host_count || !word_eq(c->state->mesh_hosts[host].name, c->name))
        return;
    c->seat->is_renew_due = !c->seat->member;       /* it has just started */
    member_rotate(c->seat->member);
}

void seat_forget(struct ctl *c, const char *name)
{
    const struct mesh_host *h = state_mesh_host(c->state, name);

    if (h && !sodium_is_zero(h->key, sizeof h->key))
        seat_propose(c, name, NULL, NULL, NULL, NULL);
}

int seat_take(struct ctl *c, const struct spur_identity *who, const Wire__OpMeshHost *m, proposed_fn done, void *arg, struct spur_error *err)
{
    if (*who->host && !word_eq(who->host, m->name))
        return spur_fail(err, SPUR_EDENIED, "controller %.63s brings a mesh key for %.63s", who->host, m->name);
    if (loader_can(c->store, SPUR_CAP_REPLICATED) && !group_is_member(c, m->name))
        return spur_fail(err, SPUR_EDENIED, "%.63s is no member of the group of controllers", m->name);
    if (!m->has_key || m->key.len != 32 || sodium_is_zero(m->key.data, 32))
        return spur_fail(err, SPUR_EINVAL, "a mesh key has 32 bytes");
    seat_propose(c, m->name, m->key.data, m->endpoint, done, arg);
    return 0;
}

bool seat_is(const struct ctl *c, const struct rpc_conn *conn) { return c->seat && rpc_user(conn) == c->seat; }

void seat_opened(struct ctl *c, struct rpc_conn *conn)
{
    struct seat *s = c->seat;
    Wire__OpMeshHost m = WIRE__OP_MESH_HOST__INIT;

    s->is_dialling = false;
    s->conn = conn;
    if (rpc_identity(conn)->role != SPUR_ROLE_CONTROLLER || !member_key(s->member)) {
        rpc_close(conn, "no controller");
        return;
    }
    m.name = c->name;
    m.has_key = 1;
    m.key = (ProtobufCBinaryData){ 32, (uint8_t *)(uintptr_t)member_key(s->member) };
    m.endpoint = (char *)(uintptr_t)member_endpoint(s->member);
    rpc_send(conn, WIRE__MESSAGE_TYPE__CONTROLLER_MESH, 1, &m.base);
}

/* DONE, or a refusal: either way the state tells whether it is there, and the next look asks again. */
void seat_message(struct ctl *c, const struct frame *f, const uint8_t *body)
{
    Wire__Refusal *no = f->type == WIRE__MESSAGE_TYPE__REFUSED ? wire__refusal__unpack(NULL, f->length, body) : NULL;

    if (no)
        log_line(no->code == SPUR_ENOTLEADER ? SPUR_LOG_DEBUG : SPUR_LOG_ERROR, "mesh: %s", no->text);
    wire__refusal__free_unpacked(no, NULL);
    rpc_close(c->seat->conn, "that was all");
}

void seat_closed(struct ctl *c, const struct spur_error *why)
{
    (void)why;
    c->seat->is_dialling = false;
    c->seat->conn = NULL;
}

void seat_create(struct ctl *c)
{
    if (!c->mesh)
        return;
    c->seat = mem_alloc(sizeof *c->seat);
    uv_timer_init(c->loop, &c->seat->timer);
    c->seat->timer.data = c;
    seat_soon(c->seat, LOOK_MS);
}

void seat_close(struct ctl *c)
{
    if (!c->seat)
        return;
    member_stop(c->seat->member);
    uv_close((uv_handle_t *)&c->seat->timer, NULL);
}

void seat_destroy(struct ctl *c)
{
    if (c->seat)
        member_free(c->seat->member);
    free(c->seat);
    c->seat = NULL;
}
