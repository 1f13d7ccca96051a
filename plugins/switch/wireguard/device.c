/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - picks the way to a WireGuard interface, and tells it no more than what has changed. */
#include <stdlib.h>
#include <string.h>

#include "device.h"

struct device {
    struct device_config config;
    struct netlink   *kernel;
    struct userspace *program;
    struct ip addr;             /* family 0: none yet */
};

static int open_kernel(struct device *d, struct spur_error *err)
{
    int rc = link_is_there(d->config.name) ? 0 : link_make(d->config.name, err);

    /* Opened after the link: making it is what loads the kernel's module. */
    return rc < 0 ? rc : netlink_open(&d->kernel, d->config.name, err);
}

int device_open(struct device **out, const struct device_config *config, struct spur_error *err)
{
    struct device *d = calloc(1, sizeof *d);
    struct spur_error first = { 0 };
    int rc = SPUR_EUNSUPPORTED;

    if (!d)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    d->config = *config;
    /* An interface that a program of an earlier run serves is that program's: the socket tells. */
    if (config->kind == DEVICE_KERNEL || (config->kind == DEVICE_AUTO && !link_is_there(config->name)))
        rc = open_kernel(d, &first);
    if (rc < 0 && config->kind != DEVICE_KERNEL && (rc = userspace_open(&d->program, config->name, config->program, err)) < 0 &&
        config->kind == DEVICE_AUTO && link_is_there(config->name))
        rc = open_kernel(d, &first);
    if (rc == 0)
        rc = d->kernel ? netlink_set(d->kernel, NULL, config->port, NULL, 0, err) : userspace_set(d->program, NULL, config->port, NULL, 0, err);
    if (rc < 0) {
        if (first.code && config->kind == DEVICE_KERNEL)
            *err = first;
        else if (first.code)
            spur_context(err, "%s, and", first.text);
        device_close(d, false);
        return rc;
    }
    *out = d;
    return 0;
}

bool device_is_userspace(const struct device *d) { return d->program != NULL; }

static int set(struct device *d, const uint8_t *key, const struct device_change *changes, size_t count, struct spur_error *err)
{
    return d->kernel ? netlink_set(d->kernel, key, 0, changes, count, err) : userspace_set(d->program, key, 0, changes, count, err);
}

int device_key(struct device *d, const uint8_t key[DEVICE_KEY], struct spur_error *err) { return set(d, key, NULL, 0, err); }

int device_addr(struct device *d, const struct ip *addr, struct spur_error *err)
{
    int rc;

    if (d->addr.family && ip_equal(&d->addr, addr))
        return 0;
    if (d->addr.family)
        link_addr(d->config.name, &d->addr, false, NULL);
    if ((rc = link_addr(d->config.name, addr, true, err)) < 0)
        return rc;
    d->addr = *addr;
    return link_up(d->config.name, d->config.mtu, err);
}

static int by_key(const void *a, const void *b)
{
    return memcmp((*(const struct device_peer *const *)a)->key, (*(const struct device_peer *const *)b)->key, DEVICE_KEY);
}

static const struct device_peer **sorted(const struct device_peer *peers, size_t count)
{
    const struct device_peer **rows = malloc((count ? count : 1) * sizeof *rows);

    for (size_t i = 0; rows && i < count; i++)
        rows[i] = &peers[i];
    if (rows && count)
        qsort(rows, count, sizeof *rows, by_key);
    return rows;
}

/* Is the peer as it was told? The endpoint counts only when it is given: WireGuard itself follows a peer that moves. */
static bool is_same(const struct device_peer *a, const struct device_peer *b)
{
    return a->keepalive_s == b->keepalive_s && ip_equal(&a->addr, &b->addr) && a->has_endpoint == b->has_endpoint &&
           (!a->has_endpoint || (a->endpoint.port == b->endpoint.port && ip_equal(&a->endpoint.ip, &b->endpoint.ip)));
}

int device_changes(const struct device_peer *before, size_t before_count, const struct device_peer *peers, size_t count,
                   struct device_change **out, size_t *change_count, struct spur_error *err)
{
    const struct device_peer **old = sorted(before, before_count), **now = sorted(peers, count);
    struct device_change *changes = malloc((before_count + count + 1) * sizeof *changes);
    size_t n = 0, i = 0, k = 0;

    if (!old || !now || !changes) {
        free(old);
        free(now);
        free(changes);
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    }
    /* Those that go come first: an address must have left its old key before another key gets it. */
    for (; i < before_count; i++) {
        while (k < count && by_key(&now[k], &old[i]) < 0)
            k++;
        if (k == count || by_key(&now[k], &old[i]) != 0)
            changes[n++] = (struct device_change){ old[i], true };
    }
    for (i = k = 0; k < count; k++) {
        while (i < before_count && by_key(&old[i], &now[k]) < 0)
            i++;
        if (i == before_count || by_key(&old[i], &now[k]) != 0 || !is_same(old[i], now[k]))
            changes[n++] = (struct device_change){ now[k], false };
    }
    free(old);
    free(now);
    *out = changes;
    *change_count = n;
    return 0;
}

int device_peers(struct device *d, const struct device_peer *before, size_t before_count, const struct device_peer *peers, size_t count, struct spur_error *err)
{
    struct device_change *changes;
    size_t n;
    int rc = device_changes(before, before_count, peers, count, &changes, &n, err);

    if (rc < 0)
        return rc;
    rc = n ? set(d, NULL, changes, n, err) : 0;
    free(changes);
    return rc;
}

int device_look(struct device *d, struct device_peer **out, size_t *count, struct spur_error *err)
{
    return d->kernel ? netlink_look(d->kernel, out, count, err) : userspace_look(d->program, out, count, err);
}

void device_close(struct device *d, bool down)
{
    if (!d)
        return;
    if (d->kernel && down)
        link_remove(d->config.name, NULL);
    netlink_close(d->kernel);
    userspace_close(d->program, down);
    free(d);
}
