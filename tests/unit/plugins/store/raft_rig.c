/* SPDX-License-Identifier: Apache-2.0 */
/* raft_rig.c - see raft_rig.h. Nothing here sleeps to wait: it polls with a deadline. */
#include "raft_rig.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"
#include "rpc/peers.h"

/* ---- the host ---- */

static void host_log(void *ctx, int level, const char *text)
{
    struct node *n = ctx;
    size_t used;

    (void)level;
    pthread_mutex_lock(&n->lock);
    used = strlen(n->log);
    if (used > sizeof n->log - 600) {
        memmove(n->log, n->log + sizeof n->log / 2, used - sizeof n->log / 2 + 1);
        used = strlen(n->log);
    }
    snprintf(n->log + used, sizeof n->log - used, "%s: %s\n", n->name, text);
    pthread_mutex_unlock(&n->lock);
}

static void host_post(void *ctx, void (*fn)(void *arg), void *arg)
{
    struct node *n = ctx;

    pthread_mutex_lock(&n->lock);
    if (n->post_count == sizeof n->posts / sizeof *n->posts)
        abort();
    n->posts[n->post_count++] = (struct rig_post){ fn, arg };
    pthread_mutex_unlock(&n->lock);
}

static int64_t host_now(void *ctx) { (void)ctx; return boot_ms(); }
static const char *host_name(void *ctx) { return ((struct node *)ctx)->name; }
static const char *host_role(void *ctx) { (void)ctx; return "controller"; }
static const char *host_state_dir(void *ctx) { return ((struct node *)ctx)->folder; }

static int host_controller(void *ctx, uint32_t i, struct spur_controller *out)
{
    struct node *n = ctx;

    if (i >= n->rig->listed)
        return SPUR_ENOTFOUND;
    snprintf(out->name, sizeof out->name, "%s", n->rig->nodes[i].name);
    snprintf(out->addr, sizeof out->addr, "%s", n->rig->nodes[i].addr);
    return 0;
}

/* Proves by word: the name, and whether it says it is a controller. */
static int auth_prove(void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    struct node *n = self;

    (void)err;
    memcpy(buf, t->hash, 32);
    buf[31] ^= t->by_server;
    memcpy(buf + 32, n->name, sizeof n->name);
    *len = 32 + sizeof n->name;
    return 0;
}

static int auth_check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    (void)self;
    if (len != 32 + sizeof ((struct node *)0)->name || memcmp(proof, t->hash, 31) != 0 || proof[31] != (t->hash[31] ^ t->by_server))
        return spur_fail(err, SPUR_EAUTH, "not a proof of this handshake");
    memcpy(out->host, proof + 32, sizeof ((struct node *)0)->name);
    out->role = strncmp(out->host, "node", 4) == 0 ? SPUR_ROLE_NODE : SPUR_ROLE_CONTROLLER;
    return 0;
}

static const struct spur_auth_ops auth_ops = { .size = sizeof auth_ops, .prove = auth_prove, .check = auth_check };

/* The cut: nothing goes out, what comes is lost, nobody is met; connections stay as they are. Afterwards a stream with a hole in it does not open, and
 * a new connection is made. */
struct spur_channel { struct spur_channel *real; struct node *node; };     /* the framework's own is another one, behind `real` */

static const struct spur_channels *real_of(const struct node *n) { return peers_channels(n->peers); }

static int cut_meet(void *ctx, int fd, bool has_dialled, const char *purpose, int64_t deadline_ms, struct spur_channel **out, struct spur_identity *peer,
                    struct spur_error *err)
{
    struct node *n = ctx;
    struct spur_channel *real;
    int rc;

    if (atomic_load(&n->is_cut))
        return spur_fail(err, SPUR_ECLOSED, "%s is cut off", n->name);
    rc = real_of(n)->meet(real_of(n)->ctx, fd, has_dialled, purpose, deadline_ms, &real, peer, err);
    if (rc < 0)
        return rc;
    *out = malloc(sizeof **out);
    **out = (struct spur_channel){ real, n };
    return 0;
}

static int cut_send(struct spur_channel *c, uint16_t type, const void *data, size_t n, struct spur_error *err)
{
    return real_of(c->node)->send(c->real, type, data, n, err);
}

static size_t cut_output(struct spur_channel *c, const void **data)
{
    return atomic_load(&c->node->is_cut) ? 0 : real_of(c->node)->output(c->real, data);
}

static void cut_written(struct spur_channel *c, size_t n) { real_of(c->node)->written(c->real, n); }

static int cut_input(struct spur_channel *c, const void *data, size_t n, struct spur_error *err)
{
    return atomic_load(&c->node->is_cut) ? 0 : real_of(c->node)->input(c->real, data, n, err);
}

static int cut_next(struct spur_channel *c, uint16_t *type, const void **data, size_t *n, struct spur_error *err)
{
    return real_of(c->node)->next(c->real, type, data, n, err);
}

static void cut_close(struct spur_channel *c)
{
    if (!c)
        return;
    real_of(c->node)->close(c->real);
    free(c);
}

/* ---- the state ---- */

static void on_committed(void *arg, uint64_t index, const void *data, size_t n, void *cookie)
{
    struct node *node = arg;
    struct rig *r = node->rig;
    unsigned number;

    ck_assert_msg(index > node->index, "%s: entry %llu after %llu", node->name, (unsigned long long)index, (unsigned long long)node->index);
    node->index = index;
    node->count++;
    node->hash = hash_entry(node->hash, data, n);
    if (n >= sizeof number) {
        memcpy(&number, data, sizeof number);
        ck_assert_uint_lt(number, RIG_NUMBERS);
        node->seen[number]++;
        if (cookie) {
            ck_assert_uint_eq((uintptr_t)cookie, number);
            r->acked[number]++;
        }
    }
    if (cookie)
        r->answers++;
}

static void on_dropped(void *arg, void *cookie, const struct spur_error *why)
{
    struct node *node = arg;

    ck_assert(cookie && why->code < 0 && *why->text);
    node->rig->answers++;
    node->rig->failures++;
}

static void on_role(void *arg, enum spur_store_role role, uint64_t fence, const char *leader, const struct spur_error *err)
{
    struct node *node = arg;

    if (role == SPUR_STORE_LEADER) {
        ck_assert_str_eq(leader, node->name);
        for (unsigned i = 0; i < node->rig->count; i++)
            ck_assert(&node->rig->nodes[i] == node || node->rig->nodes[i].role != SPUR_STORE_LEADER || node->rig->nodes[i].fence != fence);
    }
    node->role = role;
    node->fence = fence;
    snprintf(node->leader, sizeof node->leader, "%s", leader ? leader : "");
    if (err)
        node->failed = *err;
}

static int on_snapshot_write(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    struct node *n = arg;
    static const char padding[300000] = { 1 };
    const uint64_t words[3] = { n->hash, n->count, n->index };

    for (unsigned i = 0; i < 8; i++)
        if (sink->write(sink->arg, padding, sizeof padding) < 0)
            return spur_fail(err, SPUR_EIO, "the sink takes nothing");
    if (sink->write(sink->arg, words, sizeof words) < 0 || sink->write(sink->arg, n->seen, sizeof n->seen) < 0)
        return spur_fail(err, SPUR_EIO, "the sink takes nothing");
    return 0;
}

static bool read_all(const struct spur_store_source *s, void *to, size_t n)
{
    uint8_t *p = to;

    while (n) {
        long got = s->read(s->arg, p, n);

        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static int on_snapshot_read(void *arg, uint64_t index, const struct spur_store_source *source, struct spur_error *err)
{
    struct node *n = arg;
    static char padding[300000];
    uint64_t words[3];

    for (unsigned i = 0; i < 8; i++)
        if (!read_all(source, padding, sizeof padding))
            return spur_fail(err, SPUR_ECORRUPT, "too short");
    if (!read_all(source, words, sizeof words) || !read_all(source, n->seen, sizeof n->seen))
        return spur_fail(err, SPUR_ECORRUPT, "too short");
    n->hash = words[0];
    n->count = words[1];
    n->index = index;
    n->installs++;
    return 0;
}

/* ---- up and down ---- */

/* Below what the system gives out by itself: nobody gets it between this look and the member's own. */
static unsigned free_port(const char *addr, unsigned i)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    unsigned port = 10000 + ((unsigned)getpid() * 37 + i * 4001) % 20000;

    inet_pton(AF_INET, addr, &a.sin_addr);
    for (;; port = port < 29999 ? port + 1 : 10000) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        bool is_free;

        a.sin_port = htons((uint16_t)port);
        is_free = bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0;
        close(fd);
        if (is_free)
            return port;
    }
}

void rig_init(struct rig *r, unsigned nodes, unsigned listed)
{
    char addr[32];

    memset(r, 0, sizeof *r);
    r->count = nodes;
    r->listed = listed;
    r->next = 1;
    /* An address of this process alone. */
    snprintf(addr, sizeof addr, "127.%u.%u.%u", 64 + ((unsigned)getpid() >> 16) % 64, (unsigned)getpid() >> 8 & 255, 1 + (unsigned)getpid() % 254);
    for (unsigned i = 0; i < nodes; i++) {
        struct node *n = &r->nodes[i];

        n->rig = r;
        snprintf(n->name, sizeof n->name, "c%u", i + 1);
        snprintf(n->addr, sizeof n->addr, "%s:%u", addr, free_port(addr, i));
        folder_make(n->folder);
        pthread_mutex_init(&n->lock, NULL);
        n->peers = peers_create("test");
        rig_auth(n);
        n->channels = (struct spur_channels){ .size = sizeof n->channels, .ctx = n, .meet = cut_meet, .send = cut_send, .output = cut_output,
                                              .written = cut_written, .input = cut_input, .next = cut_next, .close = cut_close };
        n->host = (struct spur_host){ .size = sizeof n->host, .ctx = n, .log = host_log, .post = host_post, .now_ms = host_now, .wall_ms = host_now,
                                      .host_name = host_name, .role = host_role, .state_dir = host_state_dir, .controller = host_controller, .channels = &n->channels };
        n->events = (struct spur_store_events){ .size = sizeof n->events, .arg = n, .committed = on_committed, .dropped = on_dropped, .role = on_role,
                                                .snapshot_write = on_snapshot_write, .snapshot_read = on_snapshot_read, .feature = 7 };
        n->segment_bytes = 8 * MIB;
        n->snapshot_bytes = 256 * MIB;
    }
}

extern const struct spur_plugin spur_plugin_store_raft;

int rig_open(struct node *n, struct spur_error *err)
{
    /* Patient timers: a loaded machine must not make elections of its own. */
    struct raft_options o = { .port = 1, .heartbeat_ms = 50, .election_min_ms = 400, .election_max_ms = 800, .watchdog_ms = 3000, .segment_bytes = n->segment_bytes,
                              .snapshot_bytes = n->snapshot_bytes, .snapshot_rate = n->snapshot_rate ? n->snapshot_rate : 1000 * MIB, .is_synced = true, .may_leave_slow_disk = n->may_leave_slow_disk, .io = n->io };
    int rc;

    n->hash = n->count = n->index = n->fence = n->installs = 0;
    memset(n->seen, 0, sizeof n->seen);
    n->role = SPUR_STORE_STARTING;
    n->leader[0] = '\0';
    n->failed.code = 0;
    n->is_standing = false;
    atomic_store(&n->is_cut, false);
    if ((rc = store_raft_create(&n->host, n->folder, &o, &n->store, err)) < 0)
        return rc;
    rc = store_raft_ops.start(n->store, &n->events, err);
    if (rc < 0) {
        spur_plugin_store_raft.close(n->store);
        n->store = NULL;
    }
    return rc;
}

void rig_up(struct node *n)
{
    struct spur_error err = { 0 };

    ck_assert_msg(rig_open(n, &err) == 0, "%s: %s", n->name, err.text);
}

static void node_turn(struct node *n)
{
    struct rig_post run[256];
    size_t count;

    pthread_mutex_lock(&n->lock);
    count = n->is_standing ? 0 : n->post_count;
    memcpy(run, n->posts, count * sizeof *run);
    if (count)
        n->post_count = 0;
    pthread_mutex_unlock(&n->lock);
    for (size_t i = 0; i < count; i++)
        run[i].fn(run[i].arg);
}

void rig_down(struct node *n)
{
    n->is_standing = false;
    spur_plugin_store_raft.close(n->store);
    n->store = NULL;
    node_turn(n);               /* what was posted before must find a closed door */
    n->role = SPUR_STORE_STARTING;
}

void rig_wipe(struct node *n)
{
    folder_remove(n->folder);
    folder_make(n->folder);
}

void rig_wipe_running(struct rig *r, struct node *n)
{
    (void)r;
    rig_down(n);
    rig_wipe(n);
    rig_up(n);
}

void rig_auth(struct node *n) { peers_use(n->peers, &auth_ops, n, true); }
void rig_cut(struct node *n) { atomic_store(&n->is_cut, true); }
void rig_heal(struct node *n) { atomic_store(&n->is_cut, false); }

void rig_fini(struct rig *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        struct node *n = &r->nodes[i];

        rig_down(n);
    }
    for (unsigned i = 0; i < r->count; i++) {
        struct node *n = &r->nodes[i];

        folder_remove(n->folder);
        peers_destroy(n->peers);
        pthread_mutex_destroy(&n->lock);
    }
}

void rig_turn(struct rig *r)
{
    for (unsigned i = 0; i < r->count; i++)
        node_turn(&r->nodes[i]);
    poll(NULL, 0, 1);
}

const char *rig_logs(struct rig *r)
{
    static char text[200000];
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < r->count; i++) {
        struct node *n = &r->nodes[i];
        struct spur_store_status st = { .size = sizeof st };

        if (n->store) {
            store_raft_ops.status(n->store, &st);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s: role %d fence %llu leader %s applied %llu of %llu (last %llu) count %llu members %u change '%s'\n", n->name, n->role,
                                     (unsigned long long)n->fence, n->leader, (unsigned long long)st.applied, (unsigned long long)st.committed,
                                     (unsigned long long)st.last_index, (unsigned long long)n->count, st.member_count, st.change);
        }
        pthread_mutex_lock(&n->lock);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", n->log);
        pthread_mutex_unlock(&n->lock);
    }
    return text;
}

/* ---- together ---- */

struct node *rig_leader(struct rig *r)
{
    struct node *best = NULL;

    for (unsigned i = 0; i < r->count; i++) {
        struct node *n = &r->nodes[i];

        if (n->store && n->role == SPUR_STORE_LEADER && !atomic_load(&n->is_cut) && !n->is_standing && (!best || n->fence > best->fence))
            best = n;
    }
    return best;
}

struct node *rig_lead(struct rig *r)
{
    struct node *n;

    rig_until(r, (n = rig_leader(r)) != NULL);
    return n;
}

void rig_propose(struct rig *r, unsigned count, size_t size)
{
    unsigned char *data = calloc(1, size);
    unsigned first = (unsigned)r->next;
    int64_t end = boot_ms() + 40000;

    r->next += count;
    ck_assert_uint_lt(r->next, RIG_NUMBERS);
    for (unsigned done = first; done < first + count; ) {
        uint64_t asked = 0, before = r->answers;
        unsigned number = done;

        for (; number < first + count && asked < 64; number++) {
            struct node *n = rig_leader(r);
            struct spur_error err = { 0 };

            if (r->acked[number] || !n)
                continue;
            memcpy(data, &number, sizeof number);
            if (store_raft_ops.propose(n->store, data, size, (void *)(uintptr_t)number, &err) < 0)
                break;
            asked++;
        }
        rig_until(r, r->answers >= before + asked);
        rig_turn(r);
        while (done < first + count && r->acked[done])
            done++;
        ck_assert_msg(boot_ms() < end, "%u of %u entries are acknowledged after 40 s\n%s", done - first, count, rig_logs(r));
    }
    free(data);
}

bool rig_agree(struct rig *r)
{
    struct node *first = NULL;

    for (unsigned i = 0; i < r->count; i++) {
        struct node *n = &r->nodes[i];

        if (!n->store || atomic_load(&n->is_cut))
            continue;
        if (!first)
            first = n;
        if (n->hash != first->hash || n->count != first->count)
            return false;
        for (unsigned k = 0; k < RIG_NUMBERS; k++)
            if (r->acked[k] && !n->seen[k])
                return false;
    }
    return first != NULL;
}

bool rig_logged(struct node *n, const char *text)
{
    bool found;

    pthread_mutex_lock(&n->lock);
    found = strstr(n->log, text) != NULL;
    pthread_mutex_unlock(&n->lock);
    return found;
}

void rig_forget_log(struct node *n)
{
    pthread_mutex_lock(&n->lock);
    n->log[0] = '\0';
    pthread_mutex_unlock(&n->lock);
}

struct spur_store_status rig_status(struct node *n)
{
    struct spur_store_status st = { .size = sizeof st };

    store_raft_ops.status(n->store, &st);
    return st;
}

unsigned rig_voters(struct node *n)
{
    return rig_status(n).voters;
}
