/* SPDX-License-Identifier: Apache-2.0 */
/* kfd.c - the topology that the amdgpu driver shows below /sys/class/kfd: processors, GPUs, and the links of each.
 *
 * nodes/N/properties and nodes/N/{io_links,p2p_links}/M/properties are lines "key value". What the driver counts it must also show: a tree with
 * files missing (a driver that is half loaded, a bind mount that is not whole) is refused, so that a matrix is never half true.
 * A node that a device cgroup hides cannot be read (EPERM); it is no GPU of ours.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "amd.h"

struct pairs { char text[8192]; };

/* 0, or a negative errno. */
static int pairs_read(const char *path, struct pairs *out)
{
    FILE *f = fopen(path, "re");
    size_t n;
    int rc = 0;

    if (!f)
        return -errno;
    errno = 0;
    n = fread(out->text, 1, sizeof out->text - 1, f);
    if (n == 0 && ferror(f))
        rc = errno ? -errno : -EIO;
    out->text[n] = '\0';
    fclose(f);
    return rc;
}

static bool pairs_number(const struct pairs *p, const char *key, uint64_t *out)
{
    size_t n = strlen(key);

    for (const char *at = p->text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, key, n) == 0 && at[n] == ' ') {
            char *end;

            errno = 0;
            *out = strtoull(at + n + 1, &end, 10);
            return end != at + n + 1 && errno == 0;
        }
    return false;
}

static uint32_t pairs_u32(const struct pairs *p, const char *key)
{
    uint64_t v = 0;

    return pairs_number(p, key, &v) && v <= UINT32_MAX ? (uint32_t)v : 0;
}

bool kfd_number(const char *path, const char *key, uint64_t *out)
{
    struct pairs p;

    return pairs_read(path, &p) == 0 && pairs_number(&p, key, out);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Numbers of the folders in `path`, ascending. -1: there is no such folder. */
static int folders(const char *path, uint32_t *out, int room)
{
    DIR *dir = opendir(path);
    struct dirent *d;
    int n = 0;

    if (!dir)
        return -1;
    while ((d = readdir(dir)))
        if (isdigit((unsigned char)d->d_name[0]) && n < room)
            out[n++] = (uint32_t)strtoul(d->d_name, NULL, 10);
    closedir(dir);
    qsort(out, (size_t)n, sizeof *out, by_number);
    return n;
}

static int links_read(const char *node_path, const char *folder, bool is_p2p, uint32_t counted, struct kfd_node *n, struct spur_error *err)
{
    uint32_t numbers[KFD_LINKS_MAX];
    char path[512];
    struct pairs p;
    int count;

    snprintf(path, sizeof path, "%s/%s", node_path, folder);
    count = folders(path, numbers, KFD_LINKS_MAX);
    if ((count < 0 ? 0 : (uint32_t)count) != counted)
        return spur_fail(err, SPUR_EINVAL, "%s: the driver counts %u links, %d are there", path, counted, count < 0 ? 0 : count);
    for (int i = 0; i < count; i++) {
        struct kfd_link *l, *grown = realloc(n->links, (n->link_count + 1u) * sizeof *n->links);
        int rc;

        if (!grown)
            return spur_fail(err, SPUR_ENOMEM, "out of memory");
        n->links = grown;
        snprintf(path, sizeof path, "%s/%s/%u/properties", node_path, folder, numbers[i]);
        if ((rc = pairs_read(path, &p)) == -EPERM)
            continue;       /* to a GPU that a device cgroup hides */
        if (rc < 0)
            return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(-rc));
        l = &n->links[n->link_count];
        *l = (struct kfd_link){ .to = pairs_u32(&p, "node_to"), .type = pairs_u32(&p, "type"), .weight = pairs_u32(&p, "weight"),
                                .min_mbps = pairs_u32(&p, "min_bandwidth"), .max_mbps = pairs_u32(&p, "max_bandwidth"), .is_p2p = is_p2p };
        if (pairs_u32(&p, "node_from") != n->number)
            return spur_fail(err, SPUR_EINVAL, "%s: begins at node %u, but belongs to node %u", path, pairs_u32(&p, "node_from"), n->number);
        n->link_count++;
    }
    return 0;
}

static int node_read(const char *base, uint32_t number, struct kfd_node *n, struct spur_error *err)
{
    char node_path[400], path[512];
    struct pairs p;
    uint64_t v;
    int rc;

    snprintf(node_path, sizeof node_path, "%.300s/%u", base, number);
    snprintf(path, sizeof path, "%s/properties", node_path);
    n->number = number;
    if ((rc = pairs_read(path, &p)) == -EPERM)
        return 0;
    if (rc < 0)
        return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(-rc));
    if (!pairs_number(&p, "simd_count", &v))
        return spur_fail(err, SPUR_EINVAL, "%s: has no simd_count", path);
    n->is_cpu = pairs_u32(&p, "cpu_cores_count") > 0;
    n->is_gpu = v > 0 && !n->is_cpu && pairs_u32(&p, "vendor_id") == KFD_VENDOR_AMD;
    n->location_id = pairs_u32(&p, "location_id");
    n->domain = pairs_u32(&p, "domain");
    n->render_minor = pairs_u32(&p, "drm_render_minor");
    n->device_id = pairs_u32(&p, "device_id");
    n->gfx_version = pairs_u32(&p, "gfx_target_version");
    pairs_number(&p, "unique_id", &n->unique_id);
    pairs_number(&p, "hive_id", &n->hive_id);
    if (!n->is_gpu)
        return 0;       /* what joins processors says nothing of GPUs */
    if ((rc = links_read(node_path, "io_links", false, pairs_u32(&p, "io_links_count"), n, err)) < 0)
        return rc;
    return links_read(node_path, "p2p_links", true, pairs_u32(&p, "p2p_links_count"), n, err);
}

int kfd_read(const char *root, struct kfd *out, struct spur_error *err)
{
    uint32_t numbers[KFD_NODES_MAX];
    char base[300];
    int count, rc = 0;

    *out = (struct kfd){ 0 };
    if (snprintf(base, sizeof base, "%s/sys/class/kfd/kfd/topology/nodes", root) >= (int)sizeof base)
        return spur_fail(err, SPUR_ELIMIT, "root %.80s...: longer than 250 characters", root);
    count = folders(base, numbers, KFD_NODES_MAX);
    if (count <= 0)
        return 0;
    out->nodes = calloc((size_t)count, sizeof *out->nodes);
    if (!out->nodes)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    out->count = (uint32_t)count;
    for (uint32_t i = 0; rc == 0 && i < out->count; i++)
        rc = node_read(base, numbers[i], &out->nodes[i], err);
    if (rc < 0)
        kfd_fini(out);
    return rc;
}

void kfd_fini(struct kfd *k)
{
    for (uint32_t i = 0; i < k->count; i++)
        free(k->nodes[i].links);
    free(k->nodes);
    *k = (struct kfd){ 0 };
}
