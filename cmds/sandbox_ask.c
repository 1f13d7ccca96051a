/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_ask.c - what a sandbox cluster says of itself: its nodes through any controller, and each controller through its own socket.
 *
 * Called by sandbox.c between two looks at its deadline, so nothing here waits long: a controller that is stopped takes connections and never answers.
 */
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "client/dialog.h"
#include "cmds/sandbox.h"
#include "config/config.h"
#include "state/state.h"
#include "wire/unpack.h"

#define ROLE_MS 1000            /* for the answer of one controller */

static int tally_part(void *arg, void *part)
{
    struct tally *t = arg;
    const Wire__NodesReply *r = part;

    for (size_t i = 0; i < r->n_nodes; i++) {
        const Wire__NodeInfo *n = r->nodes[i];
        struct str state;

        t->nodes++;
        t->idle += n->state == NODE_IDLE && !(n->state_flags & (NODE_FLAG_NO_RESPOND | NODE_FLAG_DRAIN));
        str_init(&state);
        node_state_print(n->state, n->state_flags, true, false, &state);
        if (t->nodes <= SANDBOX_NODES_REAL)
            str_addf(&t->text, "  node %-16s %s\n", n->name, state.text);
        str_fini(&state);
    }
    return !r->last;
}

bool nodes_tally(const struct sandbox *s, struct tally *t)
{
    char conf[1024];
    Wire__NodesRequest request = WIRE__NODES_REQUEST__INIT;
    struct spur_error err = { 0 };
    struct client *c;
    int number, rc;

    t->nodes = t->idle = 0;
    str_clear(&t->text);
    snprintf(conf, sizeof conf, "%s/slurm.conf", s->dir);
    if (client_open(conf, &c, &err) < 0)
        return false;
    rc = client_stream(c, WIRE__MESSAGE_TYPE__NODES, &request.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, tally_part, t, &number, &err);
    client_close(c);
    return rc == 0;
}

void *controller_ask(const struct sandbox *s, const struct daemons *d, const char *name, uint16_t type, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                     struct arena *a)
{
    struct dialog talk = DIALOG_INIT;
    Wire__Empty nothing = WIRE__EMPTY__INIT;
    char path[400];
    struct frame f;
    const uint8_t *body;
    void *reply = NULL;

    /* The first one's is ctl.sock when it was alone at its start. */
    snprintf(path, sizeof path, "%s/ctl-%.64s.sock", s->run, name);
    if (dialog_local(&talk, path, ROLE_MS, NULL) < 0 && !strcmp(name, hostlist_nth(d->names, 0))) {
        snprintf(path, sizeof path, "%s/ctl.sock", s->run);
        dialog_local(&talk, path, ROLE_MS, NULL);
    }
    if (talk.fd >= 0 && dialog_send(&talk, type, &nothing.base, NULL) == 0 && dialog_next(&talk, &f, &body, NULL) > 0 && f.type == reply_type)
        reply = wire_unpack(reply_desc, body, f.length, a);
    dialog_close(&talk);
    return reply;
}

bool controller_role(const struct sandbox *s, const struct daemons *d, const char *name, char role[32], uint64_t *index)
{
    const Wire__Pong *pong;
    struct arena a;
    bool known;

    arena_init(&a, 64 << 10);
    pong = controller_ask(s, d, name, WIRE__MESSAGE_TYPE__PING, WIRE__MESSAGE_TYPE__PONG, &wire__pong__descriptor, &a);
    known = pong && pong->role;
    if (known) {
        snprintf(role, 32, "%s", pong->role);
        if (index)
            *index = pong->index;
    }
    arena_fini(&a);
    return known;
}

const char *controller_leading(const struct sandbox *s, const struct daemons *d)
{
    char role[32];

    for (uint32_t i = 0; i < d->controllers; i++)
        if (controller_role(s, d, hostlist_nth(d->names, i), role, NULL) && !strcmp(role, "leader"))
            return hostlist_nth(d->names, i);
    return NULL;
}
