/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - the device tables of the nodes: which GPUs there are and how they are joined, once for all nodes whose tables say the same.
 *
 * A node holds a pointer, so a hundred thousand equal nodes cost one table. What is kept of a table is what it says, packed anew: equal
 * contents are equal bytes, whoever sent them. A table is never changed; its id is never used again within one state, so a plugin may keep
 * what it has computed under that id. What arrives is outside data: a table that contradicts itself is refused with the reason.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"
#include "wire/unpack.h"

#define CORES_MAX 65536u
#define NICS_MAX 64u

struct devices {
    struct spur_device_table table;     /* first: a view shows its address */
    uint64_t users;
    char     key[2 * 16 + 1];
    uint8_t *packed; size_t size;
};

const struct spur_device_table *devices_table(const struct devices *t)
{
    return t ? &t->table : NULL;
}

const uint8_t *devices_packed(const struct devices *t, size_t *size)
{
    *size = t->size;
    return t->packed;
}

/* Room for everything of a table behind its head, in one memory; filled from a message that devices_check has passed. */
static struct devices *devices_make(const Wire__DeviceTable *w, const struct bitmap *near)
{
    uint32_t n = w->count, core_words = 0;
    struct devices *t;
    char *at;

    for (uint32_t i = 0; i < w->n_near_cores; i++) {
        uint32_t words = bitmap_empty(&near[i]) ? 0 : (uint32_t)(bitmap_last(&near[i]) / 64 + 1);

        core_words = words > core_words ? words : core_words;
    }
    t = mem_alloc(sizeof *t + (size_t)n * core_words * sizeof(uint64_t) + w->n_nics * sizeof(struct spur_nic) + (size_t)n * n * sizeof(uint32_t) +
                  (size_t)n * (3 * sizeof(int16_t) + sizeof(uint16_t)) + (size_t)n * n);
    at = (char *)(t + 1);
    t->table = (struct spur_device_table){ .size = sizeof t->table, .count = n, .core_words = core_words, .nic_count = (uint32_t)w->n_nics, .nic_size = sizeof(struct spur_nic) };
    uint64_t *cores = (uint64_t *)(void *)at;
    struct spur_nic *nics = (struct spur_nic *)(void *)(cores + (size_t)n * core_words);
    uint32_t *mbps = (uint32_t *)(void *)(nics + w->n_nics);
    int16_t *numa = (int16_t *)(void *)(mbps + (size_t)n * n), *socket = numa + n, *pcie_switch = socket + n;
    uint16_t *card = (uint16_t *)(pcie_switch + n);
    uint8_t *links = (uint8_t *)(card + n);

    for (uint32_t i = 0; i < n; i++) {
        numa[i] = w->n_numa ? (int16_t)w->numa[i] : -1;
        socket[i] = w->n_socket ? (int16_t)w->socket[i] : -1;
        pcie_switch[i] = w->n_pcie_switch ? (int16_t)w->pcie_switch[i] : -1;
        card[i] = w->n_card ? (uint16_t)w->card[i] : (uint16_t)i;
        for (uint32_t k = 0; k < n; k++) {
            mbps[i * n + k] = w->n_mbps && i != k ? w->mbps[i * n + k] : 0;
            links[i * n + k] = w->n_links && i != k ? (uint8_t)w->links[i * n + k] : 0;
        }
        for (uint32_t k = 0; i < w->n_near_cores && k < core_words && k < bitmap_words(near[i].bits); k++)
            cores[(size_t)i * core_words + k] = near[i].words[k];
    }
    for (size_t i = 0; i < w->n_nics; i++) {
        nics[i].pcie_switch = w->nics[i]->has_pcie_switch ? (int16_t)w->nics[i]->pcie_switch : -1;
        nics[i].numa = w->nics[i]->has_numa ? (int16_t)w->nics[i]->numa : -1;
        nics[i].mbps = w->nics[i]->mbps;
        if (w->nics[i]->name)
            memcpy(nics[i].name, w->nics[i]->name, strlen(w->nics[i]->name) < sizeof nics[i].name ? strlen(w->nics[i]->name) : sizeof nics[i].name - 1);
    }
    t->table.mbps = mbps;
    t->table.links = links;
    t->table.numa = numa;
    t->table.socket = socket;
    t->table.pcie_switch = pcie_switch;
    t->table.card = card;
    t->table.near_cores = cores;
    t->table.nics = nics;
    return t;
}

/* The one form of a table: every list full, so that "absent" and "the default" are the same bytes. */
static void devices_pack(struct devices *t, struct arena *a)
{
    const struct spur_device_table *d = &t->table;
    Wire__DeviceTable m = WIRE__DEVICE_TABLE__INIT;
    uint32_t n = d->count;
    struct bitmap cores;
    struct str text;
    void *packed;

    m.has_count = 1;
    m.count = n;
    m.n_mbps = m.n_links = (size_t)n * n;
    m.mbps = arena_alloc(a, m.n_mbps * sizeof *m.mbps);
    m.links = arena_alloc(a, m.n_links * sizeof *m.links);
    m.n_numa = m.n_socket = m.n_pcie_switch = m.n_card = m.n_near_cores = n;
    m.numa = arena_alloc(a, n * sizeof *m.numa);
    m.socket = arena_alloc(a, n * sizeof *m.socket);
    m.pcie_switch = arena_alloc(a, n * sizeof *m.pcie_switch);
    m.card = arena_alloc(a, n * sizeof *m.card);
    m.near_cores = arena_alloc(a, n * sizeof *m.near_cores);
    str_init(&text);
    for (uint32_t i = 0; i < n; i++) {
        m.numa[i] = d->numa[i];
        m.socket[i] = d->socket[i];
        m.pcie_switch[i] = d->pcie_switch[i];
        m.card[i] = d->card[i];
        for (uint32_t k = 0; k < n; k++) {
            m.mbps[i * n + k] = d->mbps[i * n + k];
            m.links[i * n + k] = d->links[i * n + k];
        }
        str_clear(&text);
        cores = (struct bitmap){ (size_t)d->core_words * 64, (uint64_t *)(uintptr_t)(d->near_cores + (size_t)i * d->core_words) };
        if (!bitmap_empty(&cores))
            bitmap_print(&cores, &text);
        m.near_cores[i] = arena_copy(a, text.text);
    }
    str_fini(&text);
    m.n_nics = d->nic_count;
    m.nics = arena_alloc(a, (d->nic_count + 1u) * sizeof *m.nics);
    for (uint32_t i = 0; i < d->nic_count; i++) {
        Wire__DeviceNic *nic = m.nics[i] = arena_alloc(a, sizeof *nic);

        wire__device_nic__init(nic);
        nic->name = (char *)(uintptr_t)d->nics[i].name;
        nic->has_pcie_switch = nic->has_numa = nic->has_mbps = 1;
        nic->pcie_switch = d->nics[i].pcie_switch;
        nic->numa = d->nics[i].numa;
        nic->mbps = d->nics[i].mbps;
    }
    packed = wire_pack(&m.base, a, &t->size);
    t->packed = mem_copy_bytes(packed, t->size);
}

static int place_check(const char *what, const int32_t *list, size_t have, uint32_t n, struct spur_error *err)
{
    if (have && have != n)
        return spur_fail(err, SPUR_EINVAL, "device table: %zu entries of %s for %u devices", have, what, n);
    for (size_t i = 0; i < have; i++)
        if (list[i] < -1 || list[i] > INT16_MAX)
            return spur_fail(err, SPUR_EINVAL, "device table: %s of device %zu is %d", what, i, (int)list[i]);
    return 0;
}

static int devices_check(const Wire__DeviceTable *w, struct spur_error *err)
{
    uint32_t n = w->count;
    int rc;

    if (n > SPUR_DEVICES_MAX)
        return spur_fail(err, SPUR_ELIMIT, "device table: %u devices, the limit is %d", n, SPUR_DEVICES_MAX);
    if ((w->n_mbps && w->n_mbps != (size_t)n * n) || (w->n_links && w->n_links != (size_t)n * n))
        return spur_fail(err, SPUR_EINVAL, "device table: %zu bandwidths and %zu links for %u devices", w->n_mbps, w->n_links, n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            if (w->n_mbps && w->mbps[i * n + k] != w->mbps[k * n + i])
                return spur_fail(err, SPUR_EINVAL, "device table: bandwidth %u from device %u to %u, %u back", w->mbps[i * n + k], i, k, w->mbps[k * n + i]);
            if (w->n_links && (w->links[i * n + k] != w->links[k * n + i] || w->links[i * n + k] > UINT8_MAX))
                return spur_fail(err, SPUR_EINVAL, "device table: %u links from device %u to %u, %u back", w->links[i * n + k], i, k, w->links[k * n + i]);
        }
    if ((rc = place_check("numa", w->numa, w->n_numa, n, err)) < 0 || (rc = place_check("socket", w->socket, w->n_socket, n, err)) < 0 ||
        (rc = place_check("pcie_switch", w->pcie_switch, w->n_pcie_switch, n, err)) < 0)
        return rc;
    if ((w->n_card && w->n_card != n) || w->n_near_cores > n || w->n_nics > NICS_MAX)
        return spur_fail(err, SPUR_EINVAL, "device table: %zu cards, %zu core lists, %zu network devices for %u devices", w->n_card, w->n_near_cores, w->n_nics, n);
    for (size_t i = 0; i < w->n_card; i++)
        if (w->card[i] > UINT16_MAX)
            return spur_fail(err, SPUR_EINVAL, "device table: card of device %zu is %u", i, w->card[i]);
    for (size_t i = 0; i < w->n_nics; i++)
        if (w->nics[i]->pcie_switch < -1 || w->nics[i]->pcie_switch > INT16_MAX || w->nics[i]->numa < -1 || w->nics[i]->numa > INT16_MAX)
            return spur_fail(err, SPUR_EINVAL, "device table: network device %zu hangs on switch %d, NUMA node %d", i, (int)w->nics[i]->pcie_switch, (int)w->nics[i]->numa);
    return 0;
}

int devices_hold(struct state *s, const Wire__DeviceTable *w, struct devices **out, struct spur_error *err)
{
    struct bitmap near[SPUR_DEVICES_MAX] = { { 0 } };
    struct devices *t, *known;
    uint8_t hash[16];
    struct arena a;
    int rc;

    *out = NULL;
    if (!w || !w->count)
        return 0;
    if ((rc = devices_check(w, err)) < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < w->n_near_cores; i++) {
        bitmap_init(&near[i], CORES_MAX);
        if (*w->near_cores[i])
            rc = bitmap_parse(&near[i], w->near_cores[i], err);
    }
    if (rc == 0) {
        arena_init(&a, 0);
        t = devices_make(w, near);
        devices_pack(t, &a);
        crypto_generichash(hash, sizeof hash, t->packed, t->size, NULL, 0);
        sodium_bin2hex(t->key, sizeof t->key, hash, sizeof hash);
        known = table_get_text(&s->priv->devices, t->key);
        if (known) {
            free(t->packed);
            free(t);
            t = known;
        } else {
            t->table.id = ++s->priv->device_id;
            table_put_text(&s->priv->devices, t->key, t);
        }
        t->users++;
        *out = t;
        arena_fini(&a);
    } else {
        spur_context(err, "device table");
    }
    for (size_t i = 0; i < w->n_near_cores; i++)
        bitmap_fini(&near[i]);
    return rc;
}

int devices_hold_packed(struct state *s, const void *data, size_t size, struct devices **out, struct spur_error *err)
{
    struct arena a;
    const Wire__DeviceTable *w;
    int rc;

    arena_init(&a, 0);
    w = wire_unpack(&wire__device_table__descriptor, data, size, &a);
    rc = w ? devices_hold(s, w, out, err) : spur_fail(err, SPUR_ECORRUPT, "device table: not readable");
    arena_fini(&a);
    return rc;
}

struct devices *devices_more(struct devices *t)
{
    if (t)
        t->users++;
    return t;
}

void devices_drop(struct state *s, struct devices *t)
{
    if (!t || --t->users)
        return;
    table_del_text(&s->priv->devices, t->key);
    free(t->packed);
    free(t);
}

uint32_t devices_count(const struct state *s)
{
    return (uint32_t)table_count(&s->priv->devices);
}
