/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - plays the nodes of a large mesh: a connection, a key and the real switch/wireguard each, on a device that is a table in memory.
 *
 *     mesh_agents NODES KEYS CLUSTER PORT ADDRESS FOLDER   KEYS: nodeI/host.key and nodeI/hosts for I from 1 to NODES + 1 (`spur cluster init`); FOLDER: for mesh keys
 *
 * All nodes but the last register, then each brings its mesh key; "meshed SECONDS BYTES RSS_PER_PEER" when everyone has all others as peers: bytes that came from the
 * controller, and what the process has grown by for each row of a peer table. Then the last node registers and brings its key: "joined MS BYTES", from
 * its key's registration until all others have it. "rekeyed MS BYTES": a new key of one node, likewise. Called by tests/bench/mesh.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "config/config.h"
#include "loader/loader.h"
#include "rpc/log.h"
#include "rpc/member.h"
#include "rpc/server.h"
#include "wire/unpack.h"
#include "../../plugins/switch/wireguard/device.h"

#define LOOK_MS 5

extern const struct spur_plugin spur_plugin_switch_wireguard;

struct node {
    unsigned number;
    char     name[16], folder[300];
    struct rpc_conn *conn;
    bool     is_in;
    struct spur_host host;
    struct loaded sw;
    struct member *member;
};

static uv_loop_t loop;
static struct rpc *rpc;
static struct node *nodes, *now;
static struct loaded *auth;
static struct config *auth_config;
static struct spur_host auth_host;
static const char *keys, *cluster, *address, *folder;
static unsigned count, in_count;
static uint16_t port;
static uint64_t bytes;
static uv_timer_t timer;

static void must(int rc, const struct spur_error *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "mesh_agents: %s\n", err->text);
    exit(1);
}

/* ---- a device in memory ---- */

struct device { struct device_peer *peers; size_t count; };

int device_open(struct device **out, const struct device_config *config, struct spur_error *err)
{
    (void)config;
    *out = calloc(1, sizeof **out);
    return *out ? 0 : spur_fail(err, SPUR_ENOMEM, "out of memory");
}
bool device_is_userspace(const struct device *d) { (void)d; return false; }
int  device_key(struct device *d, const uint8_t key[DEVICE_KEY], struct spur_error *err) { (void)d; (void)key; (void)err; return 0; }
int  device_addr(struct device *d, const struct ip *addr, struct spur_error *err) { (void)d; (void)addr; (void)err; return 0; }

int device_peers(struct device *d, const struct device_peer *before, size_t before_count, const struct device_peer *peers, size_t n, struct spur_error *err)
{
    struct device_peer *copy = malloc((n + 1) * sizeof *copy);

    (void)before;
    (void)before_count;
    if (!copy)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    memcpy(copy, peers, n * sizeof *copy);
    free(d->peers);
    d->peers = copy;
    __atomic_store_n(&d->count, n, __ATOMIC_RELEASE);
    return 0;
}

int device_look(struct device *d, struct device_peer **out, size_t *n, struct spur_error *err)
{
    *out = malloc((d->count + 1) * sizeof **out);
    if (!*out)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    if (d->count)
        memcpy(*out, d->peers, d->count * sizeof **out);
    *n = d->count;
    return 0;
}

void device_close(struct device *d, bool down)
{
    (void)down;
    if (d)
        free(d->peers);
    free(d);
}

/* ---- one node ---- */

static const char *option(const struct spur_conf *conf, const char *name)
{
    (void)conf;
    if (!strcmp(name, "full_mesh"))
        return "100000";
    for (const struct spur_option *o = spur_plugin_switch_wireguard.options; o->name; o++)
        if (!strcmp(o->name, name))
            return o->fallback;
    abort();
}
static long option_int(const struct spur_conf *conf, const char *name)
{
    const char *text = option(conf, name);

    return !strcmp(text, "yes") ? 1 : atol(text);
}
static const char *node_folder(void *ctx) { return ((struct node *)ctx)->folder; }
static const char *own_name(void *ctx) { (void)ctx; return now->name; }
static const char *own_role(void *ctx) { (void)ctx; return "agent"; }
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

static int prove(void *self, const struct spur_transcript *t, uint8_t *proof, size_t *len, struct spur_error *err)
{
    (void)self;
    return ((const struct spur_auth_ops *)loader_ops(auth))->prove(auth->self, t, proof, len, err);
}
static int check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    (void)self;
    return ((const struct spur_auth_ops *)loader_ops(auth))->check(auth->self, t, proof, len, out, err);
}
static const struct spur_auth_ops proxy = { .size = sizeof proxy, .prove = prove, .check = check };

static void dial(struct node *n)
{
    struct spur_error err = { 0 };
    char spur[512];

    if (auth) {
        loader_close(auth);
        config_free(auth_config);
    }
    now = n;
    snprintf(spur, sizeof spur, "plugin \"auth/sodium\" { key_dir = \"%s/%s\" }\n", keys, n->name);
    must(config_parse("ClusterName=c\nSlurmctldHost=a\nNodeName=b\nPartitionName=p Nodes=b\n", NULL, NULL, NULL, spur, &auth_config, &err), &err);
    must(loader_open(SPUR_KIND_auth, "auth/sodium", auth_config, &auth_host, &auth, &err), &err);
    must(rpc_dial(rpc, address, port, n, &err), &err);
}

static void enrol(struct node *n)
{
    Wire__RegisterRequest m = WIRE__REGISTER_REQUEST__INIT;
    Wire__NodeInventory i = WIRE__NODE_INVENTORY__INIT, *row = &i;
    char boot[48];

    snprintf(boot, sizeof boot, "boot-of-node%u", n->number);
    i.name = n->name;
    i.boot_id = boot;
    i.has_sockets = i.has_cores_per_socket = i.has_threads_per_core = i.has_cpus = i.has_mem_mib = i.has_boards = 1;
    i.boards = i.sockets = i.threads_per_core = 1;
    i.cores_per_socket = i.cpus = 8;
    i.mem_mib = 16000;
    if (member_key(n->member)) {
        i.has_mesh_key = 1;
        i.mesh_key = (ProtobufCBinaryData){ 32, (uint8_t *)(uintptr_t)member_key(n->member) };
        i.mesh_endpoint = (char *)(uintptr_t)"192.0.2.1:51871";         /* no name to look up */
    }
    m.nodes = &row;
    m.n_nodes = 1;
    m.version = (char *)(uintptr_t)"bench";
    rpc_send(n->conn, WIRE__MESSAGE_TYPE__REGISTER, 1, &m.base);
}

static int64_t key_at;

static void news(void *arg, enum member_news what)
{
    if (what == MEMBER_SEEN)
        return;
    key_at = clock_mono_ms();
    enrol(arg);
}

static void join(struct node *n)
{
    static const struct spur_host plain = { .size = sizeof plain, .conf_text = option, .conf_int = option_int, .state_dir = node_folder };
    struct spur_error err = { 0 };

    snprintf(n->folder, sizeof n->folder, "%s/%s", folder, n->name);
    mkdir(n->folder, 0700);
    n->host = plain;
    n->host.ctx = n;
    n->sw = (struct loaded){ .desc = &spur_plugin_switch_wireguard, .name = "switch/wireguard" };
    must(spur_plugin_switch_wireguard.open(&n->host, NULL, &n->sw.self, &err), &err);
    n->member = member_create(&loop, &n->sw, news, n);
}

/* ---- what is measured ---- */

static void opened(void *arg, struct rpc_conn *c)
{
    struct node *n = rpc_user(c);

    (void)arg;
    n->conn = c;
    enrol(n);
}

static enum { CONNECTING, MESHING, JOINING, REKEYING } stage;
static int64_t since;
static uint64_t before_kib;

static uint64_t rss_kib(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    malloc_trim(0);
    if (!f || fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (uint64_t)pages * (uint64_t)getpagesize() / 1024;
}

static void message(void *arg, struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    struct node *n = rpc_user(c);

    (void)arg;
    bytes += f->length + FRAME_HEADER;
    if (f->type == WIRE__MESSAGE_TYPE__REFUSED) {
        Wire__Refusal *no = wire__refusal__unpack(NULL, f->length, body);

        fprintf(stderr, "mesh_agents: %s: %s\n", n->name, no ? no->text : "refused");
        exit(1);
    }
    if (f->type == WIRE__MESSAGE_TYPE__AGENT_MESH && n->member) {
        Wire__MeshTable *t = wire__mesh_table__unpack(NULL, f->length, body);

        if (t)
            member_table(n->member, t);
        wire__mesh_table__free_unpacked(t, NULL);
    }
    if (f->type != WIRE__MESSAGE_TYPE__REGISTERED || n->is_in)
        return;
    n->is_in = true;
    if (++in_count < count) {
        dial(&nodes[in_count]);
    } else if (in_count == count) {
        before_kib = rss_kib();
        since = clock_mono_ms();
        bytes = 0;
        stage = MESHING;
        for (unsigned i = 0; i < count; i++)
            join(&nodes[i]);
    } else {
        bytes = 0;
        stage = JOINING;
        join(n);
    }
}

static void closed(void *arg, struct rpc_conn *c, const struct spur_error *why)
{
    (void)arg;
    fprintf(stderr, "mesh_agents: %s: %s\n", ((struct node *)rpc_user(c))->name, why ? why->text : "closed");
    exit(1);
}

/* Does everybody have `n` others as peers; KEY: this one among them? By the number first: it is cheap. */
static bool all_have(size_t n, const struct node *who)
{
    for (unsigned i = 0; i < in_count; i++) {
        struct spur_switch_node row;

        if (!nodes[i].member || !member_key(nodes[i].member))
            return false;
        if (who && &nodes[i] != who && (!member_row(nodes[i].member, who->name, &row) || memcmp(row.public_key, member_key(who->member), 32) != 0))
            return false;
        if (!member_is_set(nodes[i].member) || member_count(nodes[i].member) != n)
            return false;
    }
    return true;
}

static void looked(uv_timer_t *t)
{
    static uint8_t old[32];
    struct node *last = &nodes[count];

    (void)t;
    switch (stage) {
    case CONNECTING:
        return;
    case MESHING:
        if (!all_have(count, NULL))
            return;
        printf("meshed %.2f %llu %llu\n", (double)(clock_mono_ms() - since) / 1000, (unsigned long long)bytes,
               (unsigned long long)((rss_kib() - before_kib) * 1024 / ((uint64_t)count * (count - 1))));
        stage = CONNECTING;
        dial(last);
        break;
    case JOINING:
        if (!all_have(count + 1, last))
            return;
        printf("joined %lld %llu\n", (long long)(clock_mono_ms() - key_at), (unsigned long long)bytes);
        bytes = 0;
        stage = REKEYING;
        memcpy(old, member_key(last->member), sizeof old);
        member_rotate(last->member);
        break;
    case REKEYING:
        if (memcmp(old, member_key(last->member), sizeof old) == 0 || !all_have(count + 1, last))
            return;
        printf("rekeyed %lld %llu\n", (long long)(clock_mono_ms() - key_at), (unsigned long long)bytes);
        fflush(stdout);
        _exit(0);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct rpc_events events = { .message = message, .opened = opened, .closed = closed };
    struct spur_error err = { 0 };

    if (argc != 7 || (count = (unsigned)atoi(argv[1])) < 2)
        return 2;
    keys = argv[2];
    cluster = argv[3];
    port = (uint16_t)atoi(argv[4]);
    address = argv[5];
    folder = argv[6];
    log_open("/dev/null", SPUR_LOG_ERROR, &err);
    uv_loop_init(&loop);
    auth_host = (struct spur_host){ .size = sizeof auth_host, .host_name = own_name, .role = own_role, .state_dir = no_folder };
    nodes = calloc(count + 1, sizeof *nodes);
    if (!nodes)
        return 1;
    for (unsigned i = 0; i <= count; i++) {
        nodes[i].number = i + 1;
        snprintf(nodes[i].name, sizeof nodes[i].name, "node%u", i + 1);
    }
    rpc = rpc_create(&loop, cluster, &proxy, NULL, false, &events, NULL);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, looked, LOOK_MS, LOOK_MS);
    dial(&nodes[0]);
    return uv_run(&loop, UV_RUN_DEFAULT);
}
