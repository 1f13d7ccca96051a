/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - collects each gather of a step's nodes and hands its parts out when the last of them has come.
 *
 * srun has an encrypted channel with every supervisor of the step, keyed by that step's secret; so the exchange between nodes costs no port to listen on
 * and no key that srun has not got. It is a star and not a tree: n messages in, n out, each out as long as all in. A fence of 1,024 ranks on
 * 128 nodes with 200 bytes a rank is 200 KiB in and 26 MiB out (framework/doc/mpi.md has a measured figure).
 * Lives in step_io; gathers that never become whole die with it. What may wait is bounded, for a supervisor is believed but its tasks are not.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/str.h"
#include "client/relay.h"
#include "wire/frame.h"

#define WAITING_MAX (1u << 30)              /* bytes of parts and messages that wait in one srun */
#define WHOLE_MAX   (FRAME_MAX - (1u << 20))    /* bytes of one gather: it has to fit a message */
#define GATHERS_MAX 4096                    /* that wait at one time */

struct gather {
    struct gather *next;
    char    *key;
    struct bitmap nodes, given;
    ProtobufCBinaryData *parts;             /* by node */
    size_t   bytes;
};

struct held { struct held *next; uint32_t node; Wire__IoMpi m; ProtobufCBinaryData part; };

struct relay {
    uint32_t nodes;
    bool   (*deliver)(void *arg, uint32_t node, const Wire__IoMpi *m); void *arg;
    struct gather *gathers; size_t gather_count;
    struct held *held;                      /* in order */
    size_t   waiting;
};

struct relay *relay_create(uint32_t nodes, bool (*deliver)(void *arg, uint32_t node, const Wire__IoMpi *m), void *arg)
{
    struct relay *r = mem_alloc(sizeof *r);

    r->nodes = nodes;
    r->deliver = deliver;
    r->arg = arg;
    return r;
}

static void gather_free(struct relay *r, struct gather *g)
{
    for (uint32_t i = 0; i < r->nodes; i++)
        free(g->parts[i].data);
    free(g->parts);
    free(g->key);
    bitmap_fini(&g->nodes);
    bitmap_fini(&g->given);
    free(g);
}

static void held_free(struct held *h)
{
    free(h->part.data);
    free(h);
}

void relay_destroy(struct relay *r)
{
    if (!r)
        return;
    for (struct gather *g = r->gathers, *next; g; g = next) {
        next = g->next;
        gather_free(r, g);
    }
    for (struct held *h = r->held, *next; h; h = next) {
        next = h->next;
        held_free(h);
    }
    free(r);
}

/* ---- gathers ---- */

static int wanted_nodes(const struct relay *r, uint32_t from, const Wire__IoMpi *m, struct bitmap *out, struct spur_error *err)
{
    for (uint32_t i = 0; m->n_nodes == 0 && i < r->nodes; i++)
        bitmap_set(out, i);
    for (size_t i = 0; i < m->n_nodes; i++) {
        if (m->nodes[i] >= r->nodes)
            return spur_fail(err, SPUR_EINVAL, "gather %.60s names node %u of a step of %u", m->key, m->nodes[i], r->nodes);
        bitmap_set(out, m->nodes[i]);
    }
    if (!bitmap_test(out, from))
        return spur_fail(err, SPUR_EINVAL, "gather %.60s has a part of node %u, which is none of its nodes", m->key, from);
    return 0;
}

static void gather_done(struct relay *r, struct gather *g)
{
    Wire__IoMpi m = WIRE__IO_MPI__INIT;
    ProtobufCBinaryData *parts = mem_array(r->nodes, sizeof *parts);
    uint32_t *nodes = mem_array(r->nodes, sizeof *nodes);
    size_t n = 0;

    m.kind = WIRE__IO_MPI__KIND__GATHERED;
    m.key = g->key;
    for (uint32_t i = 0; i < r->nodes; i++)
        if (bitmap_test(&g->nodes, i)) {
            nodes[n] = i;
            parts[n++] = g->parts[i];
        }
    m.nodes = nodes;
    m.parts = parts;
    m.n_nodes = m.n_parts = n;
    for (size_t i = 0; i < n; i++)
        r->deliver(r->arg, nodes[i], &m);   /* all of them are there: each has given a part */
    free(parts);
    free(nodes);
}

static int take_gather(struct relay *r, uint32_t from, const Wire__IoMpi *m, struct spur_error *err)
{
    struct gather **at = &r->gathers, *g;
    struct bitmap nodes;
    int rc;

    if (!m->key || !*m->key || strlen(m->key) > 255 || m->n_parts != 1)
        return spur_fail(err, SPUR_EINVAL, "a gather without a key or with %zu parts", m->n_parts);
    bitmap_init(&nodes, r->nodes);
    if ((rc = wanted_nodes(r, from, m, &nodes, err)) < 0) {
        bitmap_fini(&nodes);
        return rc;
    }
    while (*at && (strcmp((*at)->key, m->key) || !bitmap_equal(&(*at)->nodes, &nodes)))
        at = &(*at)->next;
    if (!*at) {
        if (r->gather_count >= GATHERS_MAX) {
            bitmap_fini(&nodes);
            return spur_fail(err, SPUR_ELIMIT, "%u gathers wait for parts of other nodes, and srun holds no more", GATHERS_MAX);
        }
        g = mem_alloc(sizeof *g);
        g->key = mem_copy(m->key);
        g->nodes = nodes;
        bitmap_init(&g->given, r->nodes);
        g->parts = mem_array(r->nodes, sizeof *g->parts);
        *at = g;
        r->gather_count++;
    } else {
        bitmap_fini(&nodes);
        g = *at;
    }
    if (bitmap_test(&g->given, from))
        return spur_fail(err, SPUR_EINVAL, "node %u gives a second part of gather %.60s", from, m->key);
    if (g->bytes + m->parts[0].len > WHOLE_MAX || r->waiting + m->parts[0].len > WAITING_MAX)
        return spur_fail(err, SPUR_ELIMIT, "the ranks exchange more than %zu MiB at once (gather %.60s), and srun carries no more", (size_t)WHOLE_MAX >> 20, m->key);
    bitmap_set(&g->given, from);
    g->parts[from].len = m->parts[0].len;
    g->parts[from].data = m->parts[0].len ? mem_copy_bytes(m->parts[0].data, m->parts[0].len) : NULL;
    g->bytes += m->parts[0].len;
    r->waiting += m->parts[0].len;
    if (bitmap_equal(&g->given, &g->nodes)) {
        *at = g->next;
        r->gather_count--;
        r->waiting -= g->bytes;
        gather_done(r, g);
        gather_free(r, g);
    }
    return 0;
}

/* ---- to one node ---- */

static int take_send(struct relay *r, uint32_t from, const Wire__IoMpi *m, struct spur_error *err)
{
    Wire__IoMpi out = WIRE__IO_MPI__INIT;
    struct held **end = &r->held, *h;

    if (!m->has_peer || m->peer >= r->nodes || m->n_parts != 1)
        return spur_fail(err, SPUR_EINVAL, "a message to node %u of a step of %u", m->peer, r->nodes);
    out.kind = WIRE__IO_MPI__KIND__SEND;
    out.has_peer = 1;
    out.peer = from;
    out.n_parts = 1;
    out.parts = m->parts;
    if (r->deliver(r->arg, m->peer, &out))
        return 0;
    if (r->waiting + m->parts[0].len > WAITING_MAX)
        return spur_fail(err, SPUR_ELIMIT, "more than %u MiB wait for node %u", WAITING_MAX >> 20, m->peer);
    h = mem_alloc(sizeof *h);
    h->node = m->peer;
    h->m = out;
    h->part.len = m->parts[0].len;
    h->part.data = h->part.len ? mem_copy_bytes(m->parts[0].data, h->part.len) : NULL;
    h->m.parts = &h->part;
    r->waiting += h->part.len;
    while (*end)
        end = &(*end)->next;
    *end = h;
    return 0;
}

int relay_take(struct relay *r, uint32_t from, const Wire__IoMpi *m, struct spur_error *err)
{
    if (from >= r->nodes)
        return spur_fail(err, SPUR_EINVAL, "node %u of a step of %u", from, r->nodes);
    if (m->kind == WIRE__IO_MPI__KIND__GATHER)
        return take_gather(r, from, m, err);
    if (m->kind == WIRE__IO_MPI__KIND__SEND)
        return take_send(r, from, m, err);
    return 0;                               /* of a newer supervisor */
}

void relay_arrived(struct relay *r, uint32_t node)
{
    for (struct held **at = &r->held, *h; (h = *at); ) {
        if (h->node != node || !r->deliver(r->arg, node, &h->m)) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        r->waiting -= h->part.len;
        held_free(h);
    }
}

void relay_lost(struct relay *r, const char *why)
{
    Wire__IoMpi m = WIRE__IO_MPI__INIT;

    m.kind = WIRE__IO_MPI__KIND__LOST;
    m.text = (char *)(uintptr_t)why;
    for (uint32_t i = 0; i < r->nodes; i++)
        r->deliver(r->arg, i, &m);
}
