/* SPDX-License-Identifier: Apache-2.0 */
/* meshhost.c - controllers in the switch plugin's mesh: their public keys, and the numbers that their addresses follow from.
 *
 * Nodes and controllers draw from one row of numbers, so no two ever have one address. A number is given once: a controller that was away, or was revoked and
 * joined anew, is where it was. A key that somebody else shows is refused here, for whoever proposed it cannot have known of a neighbour in its entry.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

#define MESH_HOSTS_MAX 64u          /* controllers that ever were; a group has 3 to 7 */

const struct mesh_host *state_mesh_host(const struct state *s, const char *name)
{
    for (uint32_t i = 0; i < s->mesh_host_count; i++)
        if (word_eq(s->mesh_hosts[i].name, name))
            return &s->mesh_hosts[i];
    return NULL;
}

static const char *key_owner(const struct state *s, const uint8_t *key, const char *but)
{
    for (uint32_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].mesh_number && memcmp(s->nodes[i].mesh_key, key, 32) == 0)
            return s->nodes[i].conf->name;
    for (uint32_t i = 0; i < s->mesh_host_count; i++)
        if (!word_eq(s->mesh_hosts[i].name, but) && memcmp(s->mesh_hosts[i].key, key, 32) == 0)
            return s->mesh_hosts[i].name;
    return NULL;
}

static struct mesh_host *host_add(struct state *s, const char *name, uint64_t number)
{
    struct mesh_host *h;

    s->mesh_hosts = mem_grow(s->mesh_hosts, s->mesh_host_count + 1, sizeof *s->mesh_hosts);
    h = &s->mesh_hosts[s->mesh_host_count++];
    *h = (struct mesh_host){ .name = mem_copy(name), .number = number };
    return h;
}

void op_mesh_host(struct doing *d, const Wire__OpMeshHost *o)
{
    struct state *s = d->s;
    struct mesh_host *h = (struct mesh_host *)(uintptr_t)state_mesh_host(s, o->name);
    bool has_key = o->has_key && o->key.len == 32 && !sodium_is_zero(o->key.data, 32);
    const char *end = o->endpoint ? o->endpoint : "", *owner;

    if (!*o->name || strlen(o->name) > 63 || strlen(end) > 255 || (o->has_key && !has_key)) {
        refuse(d, SPUR_EINVAL, 0, "a controller in the mesh has a name of 1 to 63 characters, a key of 32 bytes and an endpoint");
        return;
    }
    if ((!has_key || o->renew) && !h)
        return;
    if (o->renew) {
        tell(d, EV_MESH_RENEW, NULL)->node = (uint32_t)(h - s->mesh_hosts);
        return;
    }
    if (has_key && (owner = key_owner(s, o->key.data, o->name))) {
        refuse(d, SPUR_EDENIED, 0, "controller %.63s brings the mesh key of %.63s", o->name, owner);
        return;
    }
    if (!h && s->mesh_host_count >= MESH_HOSTS_MAX) {
        refuse(d, SPUR_ELIMIT, 0, "%u controllers were in the mesh already", MESH_HOSTS_MAX);
        return;
    }
    if (!h)
        h = host_add(s, o->name, ++s->mesh_next);
    memset(h->key, 0, sizeof h->key);
    if (has_key)
        memcpy(h->key, o->key.data, sizeof h->key);
    text_set(&h->endpoint, has_key ? end : NULL);
    tell(d, EV_MESH_CHANGED, NULL)->node = NODE_REMOVED;
}

Wire__SnapMeshHost **mesh_hosts_pack(const struct state *s, struct arena *a)
{
    Wire__SnapMeshHost **rows = arena_alloc(a, (s->mesh_host_count + 1u) * sizeof *rows);

    for (uint32_t i = 0; i < s->mesh_host_count; i++) {
        const struct mesh_host *h = &s->mesh_hosts[i];

        rows[i] = arena_alloc(a, sizeof **rows);
        wire__snap_mesh_host__init(rows[i]);
        rows[i]->name = h->name;
        rows[i]->number = h->number;
        rows[i]->has_key = 1;
        rows[i]->key = (ProtobufCBinaryData){ sizeof h->key, (uint8_t *)(uintptr_t)h->key };
        rows[i]->endpoint = h->endpoint;
    }
    return rows;
}

bool mesh_hosts_take(struct state *s, Wire__SnapMeshHost *const *rows, size_t n)
{
    if (n > MESH_HOSTS_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct mesh_host *h;

        if (!rows[i]->number || rows[i]->number > s->mesh_next || !rows[i]->has_key || rows[i]->key.len != sizeof h->key || state_mesh_host(s, rows[i]->name))
            return false;
        h = host_add(s, rows[i]->name, rows[i]->number);
        memcpy(h->key, rows[i]->key.data, sizeof h->key);
        text_set(&h->endpoint, rows[i]->endpoint);
    }
    return true;
}

void mesh_hosts_free(struct state *s)
{
    for (uint32_t i = 0; i < s->mesh_host_count; i++) {
        free(s->mesh_hosts[i].name);
        free(s->mesh_hosts[i].endpoint);
    }
    free(s->mesh_hosts);
}
