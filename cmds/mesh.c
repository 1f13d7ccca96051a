/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - `spur mesh`: who is in the switch plugin's mesh, how this host's interface does, and new keys.
 *
 * The table of the cluster comes from the leader. What this host's interface says of its peers (last handshake, bytes) comes from the agent
 * here, by its local socket, when there is one; it answers while no controller does, and to root of a node, who is nobody elsewhere.
 */
#include <dirent.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/client.h"
#include "client/dialog.h"
#include "cmds/commands.h"
#include "cmds/common/json.h"
#include "config/config.h"
#include "wire/unpack.h"

#define AGENT_MS 2000

static const char usage_text[] =
    "Usage: spur mesh status [--json]\n"
    "       spur mesh rotate [NODES]\n"
    "\n"
    "  status      the nodes of the mesh and the controllers in it, their addresses and endpoints; on a node, what its interface knows of the others, too;\n"
    "              --json: the same for programs\n"
    "  rotate      these nodes (a host list), or all and the controllers, make a new key; connections through the mesh go on\n"
    "\n"
    "Exit status: 0 done, 1 not.\n";

static int usage(FILE *out)
{
    fputs(usage_text, out);
    return out == stdout ? 0 : 1;
}

/* The agent of this host. 1: it answered; 0: there is none. */
static int ask_agent(const struct config_hint *hint, struct arena *a, Wire__MeshReply **out)
{
    const Wire__Empty empty = WIRE__EMPTY__INIT;
    struct dialog l = DIALOG_INIT;
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    char path[600];

    *out = NULL;
    snprintf(path, sizeof path, "%s/node.sock", hint->run_dir);
    if (dialog_local(&l, path, AGENT_MS, &err) == 0 && dialog_send(&l, WIRE__MESSAGE_TYPE__MESH, &empty.base, &err) == 0 && dialog_next(&l, &f, &body, &err) > 0 &&
        f.type == WIRE__MESSAGE_TYPE__MESH_ROWS)
        *out = wire_unpack(&wire__mesh_reply__descriptor, body, f.length, a);
    dialog_close(&l);
    return *out != NULL;
}

/* The first 8 bytes tell keys apart; nobody types one. */
static const char *key_short(const ProtobufCBinaryData *key, char out[20])
{
    out[0] = '\0';
    snprintf(out, 20, "-");
    for (size_t i = 0; i < 8 && i < key->len; i++)
        snprintf(out + 2 * i, 3, "%02x", key->data[i]);
    return out;
}

static void print_ago(int64_t s, char out[32])
{
    if (s < 0)
        snprintf(out, 32, "never");
    else if (s < 600)
        snprintf(out, 32, "%" PRId64 " s ago", s);
    else
        snprintf(out, 32, "%" PRId64 " min ago", s / 60);
}

static const char *agent_word(const Wire__MeshNode *n)
{
    if (n->controller)
        return n->connected ? "leader" : "controller";
    return n->connected ? "connected" : "away";
}

static void print_text(const Wire__MeshReply *all, const Wire__MeshReply *own)
{
    char text[32];

    if (all->n_nodes)
        printf("%-20s %-18s %-28s %-17s %s\n", "NODE", "MESH ADDRESS", "ENDPOINT", "KEY", "AGENT");
    for (size_t i = 0; i < all->n_nodes; i++)
        printf("%-20s %-18s %-28s %-17s %s\n", all->nodes[i]->name, all->nodes[i]->addr, all->nodes[i]->endpoint ? all->nodes[i]->endpoint : "-",
               key_short(&all->nodes[i]->key, text), agent_word(all->nodes[i]));
    if (!own)
        return;
    printf("%sThis host: %s\n", all->n_nodes ? "\n" : "", own->status && *own->status ? own->status : "no news yet");
    if (own->n_peers)
        printf("%-20s %-18s %-28s %-14s %12s %12s\n", "PEER", "MESH ADDRESS", "ENDPOINT", "HEARD", "RECEIVED", "SENT");
    for (size_t i = 0; i < own->n_peers; i++) {
        const Wire__MeshPeer *p = own->peers[i];

        print_ago(p->heard_s, text);
        printf("%-20s %-18s %-28s %-14s %12" PRIu64 " %12" PRIu64 "\n", p->name, p->addr, p->endpoint && *p->endpoint ? p->endpoint : "-", text, p->rx_bytes, p->tx_bytes);
    }
}

static void json_peer(struct json_writer *w, const char *key, const Wire__MeshPeer *p)
{
    json_open(w, key, '{');
    json_text(w, "endpoint", p->endpoint);
    json_number(w, "heard_seconds", p->heard_s);
    json_number(w, "received_bytes", (int64_t)p->rx_bytes);
    json_number(w, "sent_bytes", (int64_t)p->tx_bytes);
    json_close(w);
}

static void print_json(const Wire__MeshReply *all, const Wire__MeshReply *own)
{
    struct json_writer *w = json_begin("mesh", "nodes");
    char text[32];

    for (size_t i = 0; i < all->n_nodes; i++) {
        const Wire__MeshNode *n = all->nodes[i];

        json_open(w, NULL, '{');
        json_text(w, "name", n->name);
        json_text(w, "address", n->addr);
        json_text(w, "endpoint", n->endpoint);
        json_text(w, "key", key_short(&n->key, text));
        json_bool(w, "connected", n->connected);
        for (size_t k = 0; own && k < own->n_peers; k++)
            if (!strcmp(own->peers[k]->name, n->name))
                json_peer(w, "from_here", own->peers[k]);
        json_close(w);
    }
    for (size_t k = 0; own && !all->n_nodes && k < own->n_peers; k++) {
        json_open(w, NULL, '{');
        json_text(w, "name", own->peers[k]->name);
        json_text(w, "address", own->peers[k]->addr);
        json_peer(w, "from_here", own->peers[k]);
        json_close(w);
    }
    json_end(w);
}

static int status(struct client *c, bool json)
{
    const Wire__Empty empty = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    Wire__MeshReply *all, *own, none = WIRE__MESH_REPLY__INIT;
    struct arena a;
    void *reply;
    int number = 0, rc = 1;

    arena_init(&a, 0);
    ask_agent(client_hint(c), &a, &own);
    if (client_call(c, WIRE__MESSAGE_TYPE__MESH, &empty.base, WIRE__MESSAGE_TYPE__MESH_ROWS, &wire__mesh_reply__descriptor, &a, &reply, &number, &err) < 0) {
        fprintf(stderr, "spur mesh: %s\n", err.text);
        if (!own)
            goto out;
        fprintf(stderr, "spur mesh: what this host knows:\n");
        reply = &none;
    }
    all = reply;
    if (!all->n_nodes && all->status && !own)
        fprintf(stderr, "spur mesh: no node is in a mesh; SwitchType is %s\n", all->status);
    else if (json)
        print_json(all, own), rc = 0;
    else
        print_text(all, own), rc = 0;
out:
    arena_fini(&a);
    return rc;
}

static int rotate(struct client *c, char *nodes)
{
    Wire__MeshRotateRequest r = WIRE__MESH_ROTATE_REQUEST__INIT;
    struct spur_error err = { 0 };
    struct arena a;
    void *reply;
    int number = 0, rc;

    r.nodes = nodes;
    arena_init(&a, 0);
    rc = client_call(c, WIRE__MESSAGE_TYPE__MESH_ROTATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply, &number, &err);
    if (rc < 0)
        fprintf(stderr, "spur mesh: %s\n", err.text);
    else if (((Wire__DoneReply *)reply)->text)
        puts(((Wire__DoneReply *)reply)->text);
    arena_fini(&a);
    return rc != 0;
}

int cmd_mesh(int argc, char **argv)
{
    static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    struct spur_error err = { 0 };
    struct client *c = NULL;
    bool json = false, is_status;
    int opt, rc;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (opt) {
        case 'j': json = true; break;
        case 'h': return usage(stdout);
        default: return 1;
        }
    if (optind >= argc)
        return usage(stderr);
    is_status = !strcmp(argv[optind], "status");
    if (!is_status && strcmp(argv[optind], "rotate") != 0) {
        fprintf(stderr, "spur mesh: there is no \"%s\": status and rotate are known\n", argv[optind]);
        return 1;
    }
    if (optind + (is_status ? 1 : 2) < argc || (json && !is_status)) {
        fprintf(stderr, "spur mesh %s: too many arguments\n", argv[optind]);
        return 1;
    }
    if (client_open(NULL, &c, &err) < 0) {
        fprintf(stderr, "spur mesh: %s\n", err.text);
        return 1;
    }
    rc = is_status ? status(c, json) : rotate(c, optind + 1 < argc ? argv[optind + 1] : NULL);
    client_close(c);
    return rc;
}
