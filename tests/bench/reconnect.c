/* SPDX-License-Identifier: Apache-2.0 */
/* reconnect.c - plays the agents of many nodes, each with a connection and a key of its own, which come back when their controller goes.
 *
 *     reconnect NODES KEYS CLUSTER PORT ADDRESS...     KEYS: a folder with nodeI/host.key and nodeI/hosts for I from 1 (`spur cluster init`)
 *
 * Prints "registered SECONDS" when all nodes are registered for the first time, and "again SECONDS REFUSED" each time all are again after connections were lost, counted from the
 * first loss. LANES handshakes are under way at a time. Runs until its standard input ends. Called by tests/bench/reconnect.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "config/config.h"
#include "loader/loader.h"
#include "rpc/log.h"
#include "rpc/server.h"
#include "wire/unpack.h"

#define LANES 100
#define AGAIN_MS 20

struct node { unsigned number; bool is_in; struct node *next; };
/* One handshake at a time, so the auth plugin's instance is that of the node under way. */
struct lane { struct rpc *rpc; struct node *todo, *now; unsigned at; struct spur_host host; char name[16]; struct loaded *auth; struct config *cfg; uv_timer_t pause; };

static uv_loop_t loop;
static struct lane lanes[LANES];
static struct node *nodes;
static const char *keys, *cluster, *addresses[8];
static unsigned node_count, address_count, in_count, refused;
static uint16_t port;
static int64_t since;
static bool was_in;

static const char *own_name(void *ctx) { return ((struct lane *)ctx)->name; }
static const char *own_role(void *ctx) { (void)ctx; return "agent"; }
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

static void must(int rc, const struct spur_error *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "reconnect: %s\n", err->text);
    exit(1);
}

static int prove(void *self, const struct spur_transcript *t, uint8_t *proof, size_t *len, struct spur_error *err)
{
    struct lane *l = self;

    return ((const struct spur_auth_ops *)loader_ops(l->auth))->prove(l->auth->self, t, proof, len, err);
}

static int check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    struct lane *l = self;

    return ((const struct spur_auth_ops *)loader_ops(l->auth))->check(l->auth->self, t, proof, len, out, err);
}

static const struct spur_auth_ops auth = { .size = sizeof auth, .prove = prove, .check = check };

static void become(struct lane *l, struct node *n)
{
    struct spur_error err = { 0 };
    char spur[512];

    if (l->auth) {
        loader_close(l->auth);
        config_free(l->cfg);
        l->auth = NULL;
    }
    l->now = n;
    snprintf(l->name, sizeof l->name, "node%u", n->number);
    snprintf(spur, sizeof spur, "plugin \"auth/sodium\" { key_dir = \"%s/%s\" }\n", keys, l->name);
    must(config_parse("ClusterName=c\nSlurmctldHost=a\nNodeName=b\nPartitionName=p Nodes=b\n", NULL, NULL, NULL, spur, &l->cfg, &err), &err);
    must(loader_open(SPUR_KIND_auth, "auth/sodium", l->cfg, &l->host, &l->auth, &err), &err);
}

static void lane_dial(struct lane *l)
{
    struct spur_error err = { 0 };

    if (l->now || !l->todo)
        return;
    become(l, l->todo);
    l->todo = l->todo->next;
    if (rpc_dial(l->rpc, addresses[l->at % address_count], port, l->now, &err) < 0)
        must(-1, &err);
}

static void paused(uv_timer_t *t) { lane_dial(t->data); }

/* This node comes again, by another controller, after a moment. */
static void lane_again(struct lane *l, struct node *n)
{
    n->next = l->todo;
    l->todo = n;
    if (l->now == n) {
        l->now = NULL;
        l->at++;
    }
    uv_timer_start(&l->pause, paused, AGAIN_MS, 0);
}

static void opened(void *arg, struct rpc_conn *c)
{
    struct lane *l = arg;
    Wire__RegisterRequest m = WIRE__REGISTER_REQUEST__INIT;
    Wire__NodeInventory i = WIRE__NODE_INVENTORY__INIT, *row = &i;
    struct node *n = rpc_user(c);
    char boot[48];

    snprintf(boot, sizeof boot, "boot-of-node%u", n->number);
    i.name = l->name;
    i.boot_id = boot;
    i.has_sockets = i.has_cores_per_socket = i.has_threads_per_core = i.has_cpus = i.has_mem_mib = i.has_boards = 1;
    i.boards = i.sockets = i.threads_per_core = 1;
    i.cores_per_socket = i.cpus = 8;
    i.mem_mib = 16000;
    m.nodes = &row;
    m.n_nodes = 1;
    m.version = (char *)(uintptr_t)"bench";
    rpc_send(c, WIRE__MESSAGE_TYPE__REGISTER, 1, &m.base);
}

static void message(void *arg, struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    struct lane *l = arg;
    struct node *n = rpc_user(c);

    (void)body;
    if (f->type == WIRE__MESSAGE_TYPE__REFUSED) {
        refused++;
        rpc_close(c, "not the leader");
    } else if (f->type == WIRE__MESSAGE_TYPE__REGISTERED && !n->is_in) {
        n->is_in = true;
        l->now = NULL;
        lane_dial(l);
        if (++in_count == node_count) {
            printf("%s %.2f %u\n", was_in ? "again" : "registered", (double)(clock_mono_ms() - since) / 1000, refused);
            fflush(stdout);
            was_in = true;
            refused = 0;
        }
    }
}

static void closed(void *arg, struct rpc_conn *c, const struct spur_error *why)
{
    struct node *n = rpc_user(c);

    (void)why;
    if (n->is_in) {
        if (in_count == node_count)
            since = clock_mono_ms();
        n->is_in = false;
        in_count--;
    }
    lane_again(arg, n);
}

static void input(uv_poll_t *p, int status, int events)
{
    (void)p, (void)status, (void)events;
    if (getchar() == EOF)
        exit(0);
}

int main(int argc, char **argv)
{
    static const struct rpc_events events = { .message = message, .opened = opened, .closed = closed };
    struct spur_error err = { 0 };
    uv_poll_t in;

    if (argc < 6 || (node_count = (unsigned)atoi(argv[1])) == 0)
        return 2;
    keys = argv[2];
    cluster = argv[3];
    port = (uint16_t)atoi(argv[4]);
    for (int i = 5; i < argc && address_count < 8; i++)
        addresses[address_count++] = argv[i];
    log_open("/dev/null", SPUR_LOG_ERROR, &err);
    uv_loop_init(&loop);
    nodes = calloc(node_count, sizeof *nodes);
    if (!nodes)
        return 1;
    for (unsigned i = 0; i < LANES; i++) {
        struct lane *l = &lanes[i];

        l->host = (struct spur_host){ .size = sizeof l->host, .ctx = l, .host_name = own_name, .role = own_role, .state_dir = no_folder };
        l->rpc = rpc_create(&loop, cluster, &auth, l, false, &events, l);
        uv_timer_init(&loop, &l->pause);
        l->pause.data = l;
    }
    for (unsigned i = node_count; i-- > 0; ) {
        struct lane *l = &lanes[i % LANES];

        nodes[i] = (struct node){ .number = i + 1, .next = l->todo };
        l->todo = &nodes[i];
    }
    since = clock_mono_ms();
    for (unsigned i = 0; i < LANES; i++)
        lane_dial(&lanes[i]);
    uv_poll_init(&loop, &in, 0);
    uv_poll_start(&in, UV_READABLE, input);
    return uv_run(&loop, UV_RUN_DEFAULT);
}
