/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - one node's connection to the leader: dial, register, heartbeats, reports out, launches and kills in.
 *
 * The agent dials; nothing listens for controllers on a node. The controllers of slurm.conf are tried in turn until one takes the registration: a
 * follower names the leader, or keeps the registration until there is one, and the next dial goes there. A lost leader is looked for at once, within
 * a time by chance that the leader has set by the number of nodes, so that 10,000 agents do not come back in one millisecond. After that retries wait
 * 0.1 s and twice as long each round up to 3 s, plus up to as much again. A controller whose host is off takes long to say so: after
 * DIAL_NEXT_MS the next one is dialled beside it. Nothing here ends the process: no network, no name service, no controller are
 * normal times. Two heartbeats without an answer count as a dead connection.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "agent/container.h"
#include "agent/inside.h"
#include "agent/jobnodes.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS  3000
#define BEATS_LOST       2
#define BEATS_STALE      3              /* of the four in SlurmdTimeout: what comes after so long a silence may be older than the loss of this node */
#define SPOOL_FREE_MIN   (1u << 20)
#define SPOOL_FREE_AGAIN (2u << 20)
#define SPOOL_FILES_MIN  16
#define DIAL_NEXT_MS     1000
#define DIALS_MAX        3
#define BEAT_MESH_MS     5000
#define CLOCKS_MS        60000      /* apart from the controller's: said; launches are good for five minutes */
#define REGISTER_MS      10000      /* for the answer to a registration */
#define REGISTER_GROUP_MS 3000      /* the same where there are other controllers to ask */

static void dial(struct identity *n);

static void timer_fired(uv_timer_t *t);

static void arm(struct identity *n, uint32_t ms)
{
    uv_timer_start(&n->timer, timer_fired, ms, 0);
}

static void retry(struct identity *n)
{
    uint32_t wait = n->backoff_ms + randombytes_uniform(n->backoff_ms + 1);

    if (n->agent->is_stopping)
        return;
    n->controller = (n->controller + 1) % (uint32_t)n->agent->set->controller_count;
    if (n->controller == 0)
        n->backoff_ms = n->backoff_ms * 2 > BACKOFF_LAST_MS ? BACKOFF_LAST_MS : n->backoff_ms * 2;
    arm(n, wait);
}

static void dial(struct identity *n)
{
    const struct settings *set = n->agent->set;
    bool is_guest = n->is_guest_next && *n->guest;
    const char *to = is_guest ? n->guest : set->controllers[n->controller].addr;
    struct spur_error err = { 0 };

    if (n->conn || n->agent->is_stopping)
        return;
    n->is_guest_next = false;
    n->dialling++;
    if (rpc_dial(n->agent->rpc, to, is_guest ? n->guest_port : set->port, n, &err) < 0) {
        n->dialling--;
        log_line(SPUR_LOG_DEBUG, "%s: controller %s: %s", n->name, to, err.text);
        if (!n->dialling)
            retry(n);
        return;
    }
    if (set->controller_count > 1 && n->dialling < DIALS_MAX)
        arm(n, DIAL_NEXT_MS);
}

/* The leader has gone: somebody else knows, or will know in a moment, who leads. */
static void look_around(struct identity *n)
{
    uint32_t count = (uint32_t)n->agent->set->controller_count;

    if (n->agent->is_stopping)
        return;
    if (count > 1)
        n->controller = (n->controller + 1 + randombytes_uniform(count - 1)) % count;
    arm(n, randombytes_uniform(n->spread_ms + 10));
}

void node_start(struct identity *n, uint32_t after_ms)
{
    n->backoff_ms = BACKOFF_FIRST_MS;
    arm(n, after_ms);
}

void node_stop(struct identity *n)
{
    uv_timer_stop(&n->timer);
    if (n->before)
        rpc_close(n->before, "the agent stops");
    if (n->conn)
        rpc_close(n->conn, "the agent stops");
}

uint32_t node_hash(const struct identity *n)
{
    uint32_t h = 2166136261u;

    if (!n->agent->is_emulated)
        return 0;
    for (const char *p = n->name; *p; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    return h ? h : 1;
}

/* ---- registration and heartbeats ---- */

void node_register(struct identity *n)
{
    Wire__RegisterRequest req = WIRE__REGISTER_REQUEST__INIT;
    Wire__NodeInventory inv, *row = &inv;
    size_t count;

    if (!n->conn)
        return;
    inv = *n->inventory;
    if (!inv.fault && *n->agent->spool_fault)
        inv.fault = n->agent->spool_fault;
    node_mesh_fill(n->agent, &inv);
    inv.n_steps = count = steps_running(n, &inv.steps);
    inv.has_start_wall_s = 1;
    inv.start_wall_s = n->agent->start_wall_ms / 1000;
    req.n_nodes = 1;
    req.nodes = &row;
    req.version = (char *)(uintptr_t)PACKAGE_VERSION;
    req.has_config_version = 1;
    req.config_version = n->agent->config_version;
    rpc_send(n->conn, WIRE__MESSAGE_TYPE__REGISTER, ++n->seq, &req.base);
    for (size_t i = 0; i < count; i++)
        free(inv.steps[i]);
    free(inv.steps);
}

/* A step needs a folder and the report of its end; a node that has no room for them would let one job after the other fail. */
void node_check_spool(struct agent *a)
{
    struct statvfs vfs;
    uint64_t most = *a->spool_fault ? SPOOL_FREE_AGAIN : SPOOL_FREE_MIN;
    bool was_full = *a->spool_fault, is_full;

    if (a->is_emulated || fstatvfs(a->spool_fd, &vfs) < 0)
        return;
    is_full = (uint64_t)vfs.f_bavail * vfs.f_frsize < most || (vfs.f_files && vfs.f_favail < SPOOL_FILES_MIN);
    if (is_full == was_full)
        return;
    if (is_full)
        snprintf(a->spool_fault, sizeof a->spool_fault, "SlurmdSpoolDir %.100s is full", a->set->spool_dir);
    else
        a->spool_fault[0] = '\0';
    log_line(is_full ? SPUR_LOG_ERROR : SPUR_LOG_INFO, "%s", is_full ? a->spool_fault : "SlurmdSpoolDir has room again");
    inventory_tell(a);
}

static void send_spooled(struct identity *n, const struct spooled *e)
{
    Wire__Report *r = wire__report__unpack(NULL, e->len, e->bytes);

    if (r)
        rpc_send(n->conn, WIRE__MESSAGE_TYPE__REPORT, e->seq, &r->base);
    wire__report__free_unpacked(r, NULL);
}

static void send_all_spooled(struct identity *n)
{
    n->has_unsent = false;
    for (const struct spooled *e = spool_first(n->agent->spool); e; e = e->next)
        if (!strcmp(e->node, n->name))
            send_spooled(n, e);
}

/* In the mesh it is to show soon when that is down: the leader is still there, outside of it. */
static uint32_t beat_ms(const struct identity *n) { return n->in_mesh && n->heartbeat_ms > BEAT_MESH_MS ? BEAT_MESH_MS : n->heartbeat_ms; }

static void heartbeat(struct identity *n)
{
    Wire__Heartbeat h = WIRE__HEARTBEAT__INIT;
    Wire__NodeLoad load = WIRE__NODE_LOAD__INIT, *row = &load;
    struct sysinfo info;

    load.name = (char *)(uintptr_t)n->name;
    if (!n->agent->is_emulated && sysinfo(&info) == 0) {
        load.has_load_hundredths = load.has_mem_free_mib = 1;
        load.load_hundredths = (uint32_t)((uint64_t)info.loads[0] * 100 >> SI_LOAD_SHIFT);
        load.mem_free_mib = (uint64_t)info.freeram * info.mem_unit >> 20;
    }
    h.n_loads = 1;
    h.loads = &row;
    seen_prune(&n->agent->seen, clock_wall_ms());
    node_check_spool(n->agent);
    n->beats_unanswered++;
    rpc_send(n->conn, WIRE__MESSAGE_TYPE__HEARTBEAT, ++n->seq, &h.base);
    if (n->has_unsent)
        send_all_spooled(n);
    arm(n, beat_ms(n));
}

static void timer_fired(uv_timer_t *t)
{
    struct identity *n = t->data;

    if (!n->conn && n->dialling) {
        n->controller = (n->controller + 1) % (uint32_t)n->agent->set->controller_count;
        dial(n);
    } else if (!n->conn) {
        dial(n);
    } else if (!n->registered || n->beats_unanswered >= BEATS_LOST) {
        log_line(SPUR_LOG_WARN, "%s: controller %s does not answer", n->name, rpc_peer(n->conn));
        rpc_close(n->conn, "no answer");
    } else {
        heartbeat(n);
    }
}

/* "10.1.2.3:6817" is at 10.1.2.3, "[fd00::1]:6817" at fd00::1. */
static bool is_at(const char *peer, const char *addr)
{
    size_t n = strlen(addr);

    peer += *peer == '[';
    return n && strncmp(peer, addr, n) == 0 && (peer[n] == ':' || peer[n] == ']');
}

void node_connected(struct agent *a, struct rpc_conn *c)
{
    struct identity *n = rpc_user(c);
    const struct spur_identity *id = rpc_identity(c);
    bool into_mesh;

    if (!n)
        return;                         /* a local client: see vouching */
    n->dialling--;
    into_mesh = n->is_mesh_dialled && is_at(rpc_peer(c), n->mesh_addr);
    if (into_mesh)
        n->is_mesh_dialled = false;
    if (into_mesh && n->conn && !a->is_stopping && id->role == SPUR_ROLE_CONTROLLER && !strcmp(id->host, rpc_identity(n->conn)->host)) {
        n->before = n->conn;
        n->conn = NULL;
    }
    if (a->is_stopping || n->conn) {
        rpc_set_user(c, NULL);
        rpc_close(c, n->conn ? "another one was faster" : "the agent stops");
        return;
    }
    n->conn = c;
    if (id->role != SPUR_ROLE_CONTROLLER) {
        log_line(SPUR_LOG_ERROR, "%s: %s has not proven to be a controller: not taken", n->name, rpc_peer(c));
        rpc_close(c, "not a controller");
        return;
    }
    n->in_mesh = into_mesh;
    n->mesh_since_ms = clock_boot_ms();
    n->registered = false;
    n->beats_unanswered = 0;
    n->heard_ms = clock_boot_ms();
    arm(n, a->set->controller_count > 1 ? REGISTER_GROUP_MS : REGISTER_MS);
    node_register(n);
}

void node_closed(struct agent *a, struct rpc_conn *c, const struct spur_error *why)
{
    struct identity *n = rpc_user(c);

    (void)a;
    if (!n)
        return;
    if (n->before == c) {
        n->before = NULL;
        return;
    }
    if (n->conn == c && n->registered)
        log_line(SPUR_LOG_INFO, "%s: connection to %s has ended: %s", n->name, rpc_peer(c), why ? why->text : "closed");
    else if (why && why->code == SPUR_EAUTH)
        log_line(SPUR_LOG_ERROR, "%s: %s: %s", n->name, rpc_peer(c), why->text);
    else
        log_line(SPUR_LOG_DEBUG, "%s: %s: %s", n->name, rpc_peer(c), why ? why->text : "closed");
    if (n->conn == c) {
        bool was_registered = n->registered;

        n->conn = NULL;
        n->registered = false;
        if (n->in_mesh)
            node_mesh_lost(n);
        if (n->before) {                /* it has not come far: what was before goes on */
            n->conn = n->before;
            n->before = NULL;
            n->is_moving = false;
            n->beats_unanswered = 0;
            arm(n, REGISTER_GROUP_MS);
            node_register(n);
            return;
        }
        if (n->is_moving || was_registered)
            n->is_moving ? arm(n, randombytes_uniform(n->spread_ms + 1)) : look_around(n);
        else
            retry(n);
        n->is_moving = false;
    } else {
        n->dialling--;
        if (n->is_mesh_dialled && is_at(rpc_peer(c), n->mesh_addr))
            n->is_mesh_dialled = false;
        if (!n->conn && !n->dialling)
            retry(n);
    }
}

static void registered(struct identity *n, const Wire__RegisterReply *r)
{
    struct spur_error err = { 0 };

    for (size_t i = 0; i < r->n_refused; i++)
        log_line(SPUR_LOG_ERROR, "%s: the controller refuses this node: %s", n->name, r->refused[i]);
    if (r->n_refused) {
        n->backoff_ms = BACKOFF_LAST_MS;
        rpc_close(n->conn, "refused");
        return;
    }
    if (r->has_fence && seen_fence(&n->agent->seen, r->fence, &err) < 0) {
        log_line(SPUR_LOG_WARN, "%s: %s: %s", n->name, rpc_peer(n->conn), err.text);
        rpc_close(n->conn, "an old leader");
        return;
    }
    if (r->hosts && !n->registered)
        agent_enrol(n->agent, r->hosts);
    if (!n->registered)
        log_line(SPUR_LOG_INFO, "%s: registered with %s", n->name, rpc_peer(n->conn));
    if (!n->registered && r->has_wall_ms && llabs(r->wall_ms - clock_wall_ms()) > CLOCKS_MS)
        log_line(SPUR_LOG_WARN, "%s: this clock is %lld s %s that of %s: set it, or launches are taken for expired here", n->name, llabs(r->wall_ms - clock_wall_ms()) / 1000,
                 r->wall_ms < clock_wall_ms() ? "ahead of" : "behind", rpc_peer(n->conn));
    n->registered = true;
    n->beats_unanswered = 0;
    n->backoff_ms = BACKOFF_FIRST_MS;
    n->spread_ms = r->has_spread_ms ? r->spread_ms : 0;
    n->heartbeat_ms = r->has_heartbeat_ms && r->heartbeat_ms >= 100 ? r->heartbeat_ms : 30000;
    arm(n, beat_ms(n) / 2 + randombytes_uniform(beat_ms(n) / 2 + 1));
    send_all_spooled(n);
}

/* Who leads, in the words of a follower: a name of SlurmctldHost, or one with an address. False: nobody that could be found. */
static bool go_to(struct identity *n, const char *leader, const char *addr)
{
    const struct settings *set = n->agent->set;
    char *colon;
    uint32_t port = set->port;

    if (!leader || !*leader)
        return false;
    n->backoff_ms = BACKOFF_FIRST_MS;
    for (uint32_t i = 0; i < set->controller_count; i++)
        if (word_eq(set->controllers[i].host, leader)) {
            n->controller = i;
            return true;
        }
    if (!addr || !*addr || strlen(addr) >= sizeof n->guest)
        return false;
    snprintf(n->guest, sizeof n->guest, "%s", addr);
    if ((colon = strrchr(n->guest, ':')) && strchr(n->guest, ':') == colon) {
        if (!number_u32(colon + 1, &port) || port == 0 || port > 65535)
            return false;
        *colon = '\0';
    }
    n->guest_port = (uint16_t)port;
    n->is_guest_next = true;
    return true;
}

static void refused(struct identity *n, uint64_t seq, const Wire__Refusal *r)
{
    bool is_report = false;

    for (const struct spooled *e = spool_first(n->agent->spool); e; e = e->next)
        if (e->seq == seq)
            is_report = true;
    if (!is_report || r->code == SPUR_ENOTLEADER) {
        log_line(r->code == SPUR_ENOTLEADER ? SPUR_LOG_DEBUG : SPUR_LOG_ERROR, "%s: %s refuses: %s", n->name, rpc_peer(n->conn), r->text);
        n->is_moving = r->code == SPUR_ENOTLEADER && go_to(n, r->leader, r->leader_addr);
        rpc_close(n->conn, "refused");
    } else if (r->code == SPUR_EDENIED || r->code == SPUR_ENOTFOUND || r->code == SPUR_EINVAL) {
        log_line(SPUR_LOG_ERROR, "%s: report %llu is refused for good and dropped: %s", n->name, (unsigned long long)seq, r->text);
        spool_acked(n->agent->spool, seq, NULL);
    } else {
        log_line(SPUR_LOG_WARN, "%s: report %llu: %s; sent again with the next heartbeat", n->name, (unsigned long long)seq, r->text);
        n->has_unsent = true;
    }
}

/* ---- reports ---- */

void node_report(struct identity *n, Wire__Report *r, void (*then)(void *arg, uint64_t number), void *arg)
{
    const struct spooled *e;

    if (r->kind == WIRE__REPORT__KIND__STARTED)
        e = spool_add_volatile(n->agent->spool, r);
    else
        e = spool_add(n->agent->spool, r, then, arg);
    if (n->conn && n->registered)
        rpc_send(n->conn, WIRE__MESSAGE_TYPE__REPORT, e->seq, &r->base);
}

void node_report_text(struct identity *n, Wire__Report__Kind kind, uint32_t job_id, uint32_t step_id, uint32_t attempt, int status, const char *text)
{
    Wire__Report r = WIRE__REPORT__INIT;

    r.node = (char *)(uintptr_t)n->name;
    r.kind = kind;
    r.job_id = job_id;
    r.has_step_id = kind != WIRE__REPORT__KIND__GONE;
    r.step_id = step_id;
    r.attempt = attempt;
    r.has_status = kind == WIRE__REPORT__KIND__ENDED || kind == WIRE__REPORT__KIND__LAUNCH_FAILED;
    r.status = status;
    r.text = (char *)(uintptr_t)text;
    r.has_wall_ms = 1;
    r.wall_ms = clock_wall_ms();
    node_report(n, &r, NULL, NULL);
}

/* ---- what comes in ---- */


static void take_launch(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__Launch *l = wire__launch__unpack(NULL, f->length, body);

    if (l)
        launch_take(n, l, body, f->length);
    else
        log_line(SPUR_LOG_ERROR, "%s: a launch that cannot be read (%u bytes)", n->name, f->length);
    wire__launch__free_unpacked(l, NULL);
}

static void take_kill(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__Kill *k = wire__kill__unpack(NULL, f->length, body);

    if (k)
        steps_kill(n, k);
    wire__kill__free_unpacked(k, NULL);
}

static void take_register_reply(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__RegisterReply *r = wire__register_reply__unpack(NULL, f->length, body);

    if (r)
        registered(n, r);
    wire__register_reply__free_unpacked(r, NULL);
}

static void take_ack(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__ReportAck *r = wire__report_ack__unpack(NULL, f->length, body);

    if (r)
        spool_acked(n->agent->spool, r->seq, NULL);
    wire__report_ack__free_unpacked(r, NULL);
}

static void take_refusal(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__Refusal *r = wire__refusal__unpack(NULL, f->length, body);

    if (r)
        refused(n, f->seq, r);
    wire__refusal__free_unpacked(r, NULL);
}

static void take_beat_answer(struct identity *n, const struct frame *f, const uint8_t *body)
{
    (void)f;
    (void)body;
    n->beats_unanswered = 0;
    if (n->before && n->registered)
        rpc_close(n->before, "it goes on in the mesh");
}

static void take_config(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__ConfigFiles *c = wire__config_files__unpack(NULL, f->length, body);

    if (c)
        agent_config(n->agent, c);
    wire__config_files__free_unpacked(c, NULL);
}

static void take_mesh(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__MeshTable *t = wire__mesh_table__unpack(NULL, f->length, body);

    if (t)
        node_mesh_table(n->agent, t);
    wire__mesh_table__free_unpacked(t, NULL);
}

static void take_rotate(struct identity *n, const struct frame *f, const uint8_t *body)
{
    (void)f; (void)body;
    node_mesh_rotate(n->agent);
}

static void take_hosts(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__HostsText *m = wire__hosts_text__unpack(NULL, f->length, body);

    if (m)
        agent_enrol(n->agent, m->hosts);
    wire__hosts_text__free_unpacked(m, NULL);
}

static void take_reboot(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__NodeReboot *m = wire__node_reboot__unpack(NULL, f->length, body);

    if (m)
        node_reboot(n, m);
    wire__node_reboot__free_unpacked(m, NULL);
}

static void take_job_nodes(struct identity *n, const struct frame *f, const uint8_t *body)
{
    Wire__JobNodes *m = wire__job_nodes__unpack(NULL, f->length, body);

    if (m)
        job_nodes_take(n, m);
    wire__job_nodes__free_unpacked(m, NULL);
}

static void take_dial(struct identity *n, const struct frame *f, const uint8_t *body) { agent_dial(n, body, f->length); }

void node_message(struct agent *a, struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    static const struct { uint16_t type; void (*take)(struct identity *, const struct frame *, const uint8_t *); } rows[] = {
        { WIRE__MESSAGE_TYPE__LAUNCH, take_launch },            { WIRE__MESSAGE_TYPE__KILL, take_kill },
        { WIRE__MESSAGE_TYPE__REGISTERED, take_register_reply }, { WIRE__MESSAGE_TYPE__REPORT_OK, take_ack },
        { WIRE__MESSAGE_TYPE__REFUSED, take_refusal },          { WIRE__MESSAGE_TYPE__HEARTBEAT_OK, take_beat_answer },
        { WIRE__MESSAGE_TYPE__AGENT_CONFIG, take_config },      { WIRE__MESSAGE_TYPE__CONFIG_TEXTS, take_config },
        { WIRE__MESSAGE_TYPE__AGENT_HOSTS, take_hosts },
        { WIRE__MESSAGE_TYPE__AGENT_REBOOT, take_reboot },      { WIRE__MESSAGE_TYPE__AGENT_JOB_NODES, take_job_nodes },
        { WIRE__MESSAGE_TYPE__AGENT_MESH, take_mesh },          { WIRE__MESSAGE_TYPE__AGENT_MESH_ROTATE, take_rotate },
        { WIRE__MESSAGE_TYPE__AGENT_DIAL, take_dial },
    };
    struct identity *n = rpc_user(c);

    (void)a;
    if (!n || n->conn != c)
        return;
    /* This agent hung, or its network did: a launch that waited here since then may be of an attempt that has run elsewhere. What still holds is said again. */
    if (n->registered && clock_boot_ms() - n->heard_ms > (int64_t)BEATS_STALE * n->heartbeat_ms) {
        log_line(SPUR_LOG_WARN, "%s: nothing was heard of %s for %lld s: what it says now may be old, registering anew", n->name, rpc_peer(c),
                 (long long)(clock_boot_ms() - n->heard_ms) / 1000);
        rpc_close(c, "silent for too long");
        return;
    }
    n->heard_ms = clock_boot_ms();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == f->type) {
            rows[i].take(n, f, body);
            return;
        }
    log_line(SPUR_LOG_DEBUG, "%s: message type %u is not for an agent", n->name, f->type);
}
