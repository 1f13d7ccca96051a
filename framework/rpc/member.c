/* SPDX-License-Identifier: Apache-2.0 */
/* member.c - a daemon's own place in the switch plugin's mesh: its key goes out by its host's hand, the table of the others comes back.
 *
 * All calls of the plugin but job_join and job_leave may wait for a device, so they run on libuv's pool, one at a time: what is asked meanwhile waits as a
 * flag, never as a queue. Names in endpoints are looked up there, too. A daemon whose interface cannot be made works on without the mesh; a look that
 * fails means that the interface has gone (its program was killed, somebody removed it), and it is made anew.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/str.h"
#include "rpc/log.h"
#include "rpc/member.h"

#define LOOK_MS  5000           /* how old what is told of peers may be */
#define LOOK_NEW_MS 200         /* after another set of peers */
#define AGAIN_MS 10000          /* after a failure */

enum member_task { MEMBER_NONE, MEMBER_UP, MEMBER_ROTATE, MEMBER_PEERS, MEMBER_LOOK };

struct row { char *name, *endpoint, *numeric, *addr; uint8_t key[32]; };       /* numeric: its endpoint looked up; NULL: not yet */

struct member {
    uv_loop_t *loop;
    struct loaded *sw;
    const struct spur_switch_ops *ops;
    void     (*changed)(void *arg, enum member_news news); void *arg;
    uv_work_t  work;
    uv_timer_t timer;               /* a look, or the next try */
    enum member_task task;            /* on the pool now */
    bool      is_up, is_keyed, wants_rotate, wants_peers, is_new, is_told_failed, drains, is_stopping;     /* drains: the fault is one of the node; is_new: peers have just been set */
    struct row *rows; size_t count; /* the table, sorted by name */
    uint8_t   key[32]; char endpoint[300];      /* of this node */
    /* what the pool works on, and its answer */
    struct row *given; size_t given_count;
    struct spur_switch_node me;
    struct spur_switch_peer *seen; size_t seen_count;
    char      status[300], fault[240];
    int       rc; struct spur_error err;
};

/* ---- on the pool ---- */

/* "name:port" or "[name]:port" as numbers; NULL: it cannot be looked up, and the plugin names it. */
static char *endpoint_numeric(const char *text)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM }, *list = NULL;
    const char *colon = strrchr(text, ':');
    char host[256], number[64];
    struct str out;
    size_t n = colon ? (size_t)(colon - text) : 0;

    if (!colon || n >= sizeof host)
        return NULL;
    if (n > 2 && *text == '[' && text[n - 1] == ']')
        snprintf(host, sizeof host, "%.*s", (int)n - 2, text + 1);
    else
        snprintf(host, sizeof host, "%.*s", (int)n, text);
    if (inet_pton(AF_INET, host, number) == 1 || inet_pton(AF_INET6, host, number) == 1)
        return mem_copy(text);
    str_init(&out);
    if (getaddrinfo(host, colon + 1, &hints, &list) == 0 && getnameinfo(list->ai_addr, list->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST) == 0)
        str_addf(&out, strchr(number, ':') ? "[%s]%s" : "%s%s", number, colon);
    if (list)
        freeaddrinfo(list);
    if (!out.len) {
        str_fini(&out);
        return NULL;
    }
    return str_take(&out);
}

static int give_peers(struct member *m)
{
    struct spur_switch_node *nodes = mem_array(m->given_count + 1, sizeof *nodes);
    int rc;

    for (size_t i = 0; i < m->given_count; i++) {
        struct row *r = &m->given[i];

        if (r->endpoint && !r->numeric)
            r->numeric = endpoint_numeric(r->endpoint);
        nodes[i] = (struct spur_switch_node){ .name = r->name, .endpoint = r->numeric ? r->numeric : r->endpoint, .mesh_addr = r->addr };
        memcpy(nodes[i].public_key, r->key, sizeof r->key);
    }
    rc = m->ops->peers(m->sw->self, nodes, (uint32_t)m->given_count, sizeof *nodes, &m->err);
    free(nodes);
    return rc;
}

static int look_at_peers(struct member *m)
{
    struct spur_switch_peer p = { .size = sizeof p };
    int rc = 0;

    free(m->seen);
    m->seen = NULL;
    m->seen_count = 0;
    for (uint32_t i = 0; SPUR_HAS(m->ops, peer) && (rc = m->ops->peer(m->sw->self, i, &p, &m->err)) == 0; i++) {
        m->seen = mem_grow(m->seen, m->seen_count + 1, sizeof *m->seen);
        m->seen[m->seen_count++] = p;
    }
    if (rc != SPUR_ENOTFOUND)
        return rc;
    m->status[0] = '\0';
    rc = SPUR_HAS(m->ops, status) ? m->ops->status(m->sw->self, m->status, sizeof m->status) : 0;
    return rc < 0 ? spur_fail(&m->err, rc, "%s", m->status) : 0;
}

static void on_pool(uv_work_t *work)
{
    struct member *m = work->data;

    memset(&m->err, 0, sizeof m->err);
    switch (m->task) {
    case MEMBER_UP:     m->rc = m->ops->node_up(m->sw->self, &m->me, &m->err); break;
    case MEMBER_ROTATE: m->rc = m->ops->rotate(m->sw->self, &m->me, &m->err); break;
    case MEMBER_PEERS:  m->rc = give_peers(m); break;
    case MEMBER_LOOK:   m->rc = look_at_peers(m); break;
    case MEMBER_NONE:   break;
    }
}

/* ---- on the loop ---- */

static void rows_free(struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(rows[i].name);
        free(rows[i].endpoint);
        free(rows[i].numeric);
        free(rows[i].addr);
    }
    free(rows);
}

static int row_compare(const void *a, const void *b) { return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name); }

/* What was looked up is not looked up again at each change of somebody else: only when the endpoint changes, or the whole table comes anew. */
static void names_keep(struct member *m)
{
    for (size_t i = 0; i < m->given_count; i++) {
        struct row *r = m->count ? bsearch(&m->given[i], m->rows, m->count, sizeof *r, row_compare) : NULL;

        if (!r || r->numeric || !r->endpoint || !m->given[i].endpoint || strcmp(r->endpoint, m->given[i].endpoint) != 0 ||
            !m->given[i].numeric)                                       /* not found: tried again next time */
            continue;
        r->numeric = m->given[i].numeric;
        m->given[i].numeric = NULL;
    }
}

static void key_taken(struct member *m)
{
    bool is_other = m->is_keyed && memcmp(m->key, m->me.public_key, sizeof m->key) != 0;

    m->is_keyed = true;
    memcpy(m->key, m->me.public_key, sizeof m->key);
    snprintf(m->endpoint, sizeof m->endpoint, "%s", m->me.endpoint ? m->me.endpoint : "");
    m->changed(m->arg, is_other ? MEMBER_KEY : MEMBER_SELF);
}

/* A node that jobs need the mesh on is drained while it fails. */
static void needed_tell(struct member *m, bool failed)
{
    bool is_needed = SPUR_HAS(m->ops, traits) && m->ops->traits(m->sw->self, 0) & SPUR_SWITCH_NEEDED;

    if (m->drains == (failed && is_needed))
        return;
    m->drains = failed && is_needed;
    m->changed(m->arg, MEMBER_SELF);
}

static void rang(uv_timer_t *timer);
static void next_task(struct member *m);

static void done(uv_work_t *work, int status)
{
    struct member *m = work->data;
    enum member_task was = m->task;

    (void)status;
    m->task = MEMBER_NONE;
    names_keep(m);
    rows_free(m->given, m->given_count);
    m->given = NULL;
    m->given_count = 0;
    if (m->is_stopping)
        return;
    if (m->rc < 0) {
        if (!m->is_told_failed)
            log_line(SPUR_LOG_ERROR, "mesh: %s", m->err.text);
        m->is_told_failed = true;
        snprintf(m->fault, sizeof m->fault, "%s", m->err.text);
        needed_tell(m, true);
        m->is_up = m->is_up && was != MEMBER_LOOK;      /* the next try makes it anew, and sets its peers */
        if (was == MEMBER_LOOK) {
            m->seen_count = 0;
            m->changed(m->arg, MEMBER_SEEN);
        }
        m->wants_peers = m->wants_peers || was == MEMBER_PEERS;
        m->wants_rotate = m->wants_rotate || was == MEMBER_ROTATE;
        uv_timer_start(&m->timer, rang, was == MEMBER_LOOK ? 0 : AGAIN_MS, 0);
        return;
    }
    if (was == MEMBER_UP)
        m->is_up = m->wants_peers = true;
    m->is_new = m->is_new || was == MEMBER_PEERS;
    if (was == MEMBER_LOOK)
        m->changed(m->arg, MEMBER_SEEN);
    if (was == MEMBER_PEERS || was == MEMBER_ROTATE) {
        m->is_told_failed = false;
        needed_tell(m, false);
    }
    if (was == MEMBER_UP || was == MEMBER_ROTATE)
        key_taken(m);
    next_task(m);
}

static struct row *rows_copy(const struct member *m)
{
    struct row *copy = mem_array(m->count + 1, sizeof *copy);

    for (size_t i = 0; i < m->count; i++) {
        copy[i] = (struct row){ .name = mem_copy(m->rows[i].name), .endpoint = mem_copy(m->rows[i].endpoint), .numeric = mem_copy(m->rows[i].numeric), .addr = mem_copy(m->rows[i].addr) };
        memcpy(copy[i].key, m->rows[i].key, sizeof copy[i].key);
    }
    return copy;
}

/* What is most urgent, when nothing is on the pool. Nothing at all: a look in a while. */
static void next_task(struct member *m)
{
    if (m->task != MEMBER_NONE || m->is_stopping)
        return;
    if (!m->is_up) {
        m->task = MEMBER_UP;
    } else if (m->wants_rotate) {
        m->wants_rotate = false;
        m->task = MEMBER_ROTATE;
    } else if (m->wants_peers) {
        m->wants_peers = false;
        m->task = MEMBER_PEERS;
        m->given = rows_copy(m);
        m->given_count = m->count;
    } else {
        uv_timer_start(&m->timer, rang, m->is_new ? LOOK_NEW_MS : LOOK_MS, 0);
        m->is_new = false;
        return;
    }
    uv_timer_stop(&m->timer);
    uv_queue_work(m->loop, &m->work, on_pool, done);
}

static void rang(uv_timer_t *timer)
{
    struct member *m = timer->data;

    if (m->task == MEMBER_NONE && m->is_up && !m->wants_rotate && !m->wants_peers) {
        m->task = MEMBER_LOOK;
        uv_queue_work(m->loop, &m->work, on_pool, done);
    } else {
        next_task(m);
    }
}

struct member *member_create(uv_loop_t *loop, struct loaded *sw, void (*changed)(void *arg, enum member_news news), void *arg)
{
    const struct spur_switch_ops *ops = sw ? loader_ops(sw) : NULL;
    struct member *m;

    if (!ops || !SPUR_HAS(ops, node_up) || !SPUR_HAS(ops, peers))
        return NULL;
    m = mem_alloc(sizeof *m);
    m->loop = loop;
    m->sw = sw;
    m->ops = ops;
    m->changed = changed;
    m->arg = arg;
    m->work.data = m;
    uv_timer_init(loop, &m->timer);
    m->timer.data = m;
    next_task(m);
    return m;
}

void member_stop(struct member *m)
{
    if (!m || m->is_stopping)
        return;
    m->is_stopping = true;
    uv_close((uv_handle_t *)&m->timer, NULL);
}

void member_free(struct member *m)
{
    if (!m)
        return;
    rows_free(m->rows, m->count);
    rows_free(m->given, m->given_count);
    free(m->seen);
    free(m);
}

const uint8_t *member_key(const struct member *m) { return m && m->is_keyed ? m->key : NULL; }

const char *member_endpoint(const struct member *m) { return m->endpoint; }

const char *member_fault(const struct member *m) { return m && m->drains ? m->fault : NULL; }

size_t member_count(const struct member *m) { return m ? m->count : 0; }

bool member_is_set(const struct member *m) { return m && m->is_up && !m->wants_peers && m->task != MEMBER_PEERS && !m->is_told_failed; }

bool member_is_busy(const struct member *m) { return m && m->task == MEMBER_LOOK; }

int64_t member_heard(const struct member *m, const char *name, const char **addr)
{
    for (size_t i = 0; m && m->task != MEMBER_LOOK && i < m->seen_count; i++)
        if (!strcmp(m->seen[i].name, name)) {
            *addr = m->seen[i].mesh_addr;
            return m->seen[i].heard_s;
        }
    return -1;
}

/* ---- what the leader says ---- */

bool member_row(const struct member *m, const char *name, struct spur_switch_node *out)
{
    struct row key = { .name = (char *)(uintptr_t)name }, *r = NULL;

    if (m && m->count)
        r = bsearch(&key, m->rows, m->count, sizeof *r, row_compare);
    if (!r)
        return false;
    *out = (struct spur_switch_node){ .name = r->name, .endpoint = r->endpoint, .mesh_addr = r->addr };
    memcpy(out->public_key, r->key, sizeof r->key);
    return true;
}

static void row_put(struct member *m, size_t sorted, const Wire__MeshNode *n)
{
    struct row key = { .name = n->name }, *r = sorted ? bsearch(&key, m->rows, sorted, sizeof *r, row_compare) : NULL;

    if (!r) {
        m->rows = mem_grow(m->rows, m->count + 1, sizeof *m->rows);
        r = &m->rows[m->count++];
        memset(r, 0, sizeof *r);
        r->name = mem_copy(n->name);
    }
    if (!r->endpoint || !n->endpoint || strcmp(r->endpoint, n->endpoint) != 0) {
        free(r->numeric);
        r->numeric = NULL;
    }
    free(r->endpoint);
    free(r->addr);
    r->endpoint = n->endpoint && *n->endpoint ? mem_copy(n->endpoint) : NULL;
    r->addr = n->addr && *n->addr ? mem_copy(n->addr) : NULL;
    memset(r->key, 0, sizeof r->key);
    if (n->has_key && n->key.len == sizeof r->key)
        memcpy(r->key, n->key.data, sizeof r->key);
}

void member_table(struct member *m, const Wire__MeshTable *t)
{
    size_t sorted;

    if (!m)
        return;
    if (t->whole) {
        rows_free(m->rows, m->count);
        m->rows = NULL;
        m->count = 0;
    }
    sorted = m->count;
    for (size_t i = 0; i < t->n_nodes; i++)
        row_put(m, sorted, t->nodes[i]);
    if (m->count)
        qsort(m->rows, m->count, sizeof *m->rows, row_compare);
    m->wants_peers = true;
    next_task(m);
}

void member_rotate(struct member *m)
{
    if (!m || !SPUR_HAS(m->ops, rotate))
        return;
    m->wants_rotate = true;
    next_task(m);
}

void member_answer(const struct member *m, const char *plugin, struct rpc_conn *c, uint64_t seq)
{
    Wire__MeshReply reply = WIRE__MESH_REPLY__INIT;
    struct spur_error err = { 0 };
    struct arena arena;

    if (!m) {
        spur_fail(&err, SPUR_EUNSUPPORTED, "SwitchType is %s, which makes no mesh; switch/wireguard does", plugin);
        rpc_refuse(c, seq, &err, 0);
        return;
    }
    arena_init(&arena, 0);
    reply.status = (char *)(uintptr_t)(m->is_told_failed ? m->fault : m->task == MEMBER_LOOK ? "" : m->status);
    reply.peers = arena_alloc(&arena, (m->seen_count + 1) * sizeof *reply.peers);
    for (; m->task != MEMBER_LOOK && reply.n_peers < m->seen_count; reply.n_peers++) {
        struct spur_switch_peer *p = &m->seen[reply.n_peers];
        Wire__MeshPeer *w = reply.peers[reply.n_peers] = arena_alloc(&arena, sizeof *w);

        wire__mesh_peer__init(w);
        w->name = p->name;
        w->endpoint = p->endpoint;
        w->addr = p->mesh_addr;
        w->has_heard_s = w->has_rx_bytes = w->has_tx_bytes = 1;
        w->heard_s = p->heard_s;
        w->rx_bytes = p->rx_bytes;
        w->tx_bytes = p->tx_bytes;
    }
    rpc_send(c, WIRE__MESSAGE_TYPE__MESH_ROWS, seq, &reply.base);
    arena_fini(&arena);
}
