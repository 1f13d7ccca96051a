/* SPDX-License-Identifier: Apache-2.0 */
/* amd.c - AMD GPUs from what the kernel driver shows in sysfs: no ROCm library is asked, none needs to be there.
 *
 * A device is a KFD node with compute units and no processor cores, in the driver's order, which is also HIP's. Two GPUs are joined where the
 * driver lists an XGMI link (type 11) of the smallest weight between different cards; a larger weight is a way over other GPUs, and has no capacity
 * of its own. Several links of a pair show as max_bandwidth over min_bandwidth. Kernels of MI300 give 0 for both: then links and speed of the
 * generation stand in. Devices with one unique_id are partitions of one card. Health is the driver's own word: uncorrectable errors
 * counted by its RAS blocks, and whether the device is still there.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "amd.h"

/* What a generation is called, and what stands in where the kernel gives no numbers: GB/s of one XGMI link one way, links of a linked pair. */
static const struct generation { uint32_t device_id; const char *type; uint32_t link_gbs, links; } generations[] = {
    { 0x66a0, "mi60", 50, 1 }, { 0x66a1, "mi50", 50, 1 }, { 0x738c, "mi100", 50, 1 }, { 0x738e, "mi100", 50, 1 }, { 0x7408, "mi250x", 50, 1 }, { 0x740c, "mi250", 50, 1 },
    { 0x740f, "mi210", 50, 1 }, { 0x7410, "mi210", 50, 1 }, { 0x74a0, "mi300a", 64, 2 }, { 0x74a1, "mi300x", 64, 1 }, { 0x74a2, "mi308x", 64, 1 }, { 0x74a5, "mi325x", 64, 1 },
    { 0x75a0, "mi350x", 77, 1 }, { 0x75a3, "mi355x", 77, 1 } };
#define PARTITION_MBPS 819200u      /* between partitions of one card, where the kernel gives no number */

struct amd_device { char node_path[400], ras_path[400], name[32]; uint64_t unique_id; };
struct amd {
    const struct spur_host *host;
    char root[256];                 /* option; "" */
    long uncorrectable;
    struct amd_device devices[SPUR_GPU_MAX]; uint32_t count;    /* of the last scan */
};

static int amd_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    struct amd *a = self;

    (void)err;
    snprintf(a->root, sizeof a->root, "%s", a->host->conf_text(conf, "root"));
    a->uncorrectable = a->host->conf_int(conf, "uncorrectable");
    return 0;
}

static int amd_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct amd *a = calloc(1, sizeof *a);

    if (!a)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    a->host = host;
    amd_reload(a, conf, err);
    *self = a;
    return 0;
}

static const struct generation *generation_of(const struct kfd_node *n)
{
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++)
        if (generations[i].device_id == n->device_id)
            return &generations[i];
    return NULL;
}

static void type_name(const struct kfd_node *n, char *out, size_t size)
{
    const struct generation *g = generation_of(n);

    if (g)
        snprintf(out, size, "%s", g->type);
    else if (n->gfx_version)        /* 110000: gfx1100 */
        snprintf(out, size, "gfx%u%x%x", n->gfx_version / 10000, n->gfx_version / 100 % 100, n->gfx_version % 100);
    else
        snprintf(out, size, "amd_%04x", n->device_id);
}

/* One scan: which of the tree's nodes are devices, and what they become. */
struct scan { struct kfd kfd; const struct kfd_node *gpus[SPUR_GPU_MAX]; struct spur_gpu *rows; uint32_t count; uint32_t direct_weight; struct spur_error *err; };

static int gpu_index(const struct scan *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->gpus[i]->number == node)
            return (int)i;
    return -1;
}

static bool same_card(const struct kfd_node *a, const struct kfd_node *b)
{
    return a->unique_id && a->unique_id == b->unique_id;
}

/* The smallest weight of an XGMI link between two cards: one hop. */
static void weight_find(struct scan *s)
{
    s->direct_weight = UINT32_MAX;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->gpus[i]->link_count; k++) {
            const struct kfd_link *l = &s->gpus[i]->links[k];
            int to = gpu_index(s, l->to);

            if (l->type == KFD_LINK_XGMI && to >= 0 && !same_card(s->gpus[i], s->gpus[to]) && l->weight < s->direct_weight)
                s->direct_weight = l->weight;
        }
}

static void link_take(struct scan *s, uint32_t from, uint32_t to, const struct kfd_link *l)
{
    const struct kfd_node *a = s->gpus[from];
    const struct generation *g = generation_of(a);
    struct spur_gpu *row = &s->rows[from];

    if (l->type == KFD_LINK_PCIE) {     /* 20 to the own processor and 20 from it is 40; between processors more is added */
        row->path[to] = l->weight <= 40 ? SPUR_PATH_NUMA : SPUR_PATH_SYSTEM;
        return;
    }
    if (l->type != KFD_LINK_XGMI)
        return;
    if (same_card(a, s->gpus[to])) {
        row->links[to] = 1;
        row->mbps[to] = l->max_mbps ? l->max_mbps : PARTITION_MBPS;
        row->path[to] = SPUR_PATH_BOARD;
    } else if (l->weight > s->direct_weight) {
        row->hops |= UINT64_C(1) << to;
    } else {
        uint32_t each = l->min_mbps ? l->min_mbps : (g ? g->link_gbs : 50) * 1000;

        row->links[to] = l->max_mbps ? (int32_t)(l->max_mbps / each ? l->max_mbps / each : 1) : (int32_t)(g ? g->links : 1);
        row->mbps[to] = l->max_mbps ? l->max_mbps : (uint32_t)row->links[to] * each;
    }
}

/* The processor node with the lightest link is the near one; processor nodes stand in the order of NUMA nodes. */
static void near_find(struct scan *s, uint32_t i)
{
    const struct kfd_node *n = s->gpus[i];
    uint32_t best = UINT32_MAX;

    for (uint32_t k = 0; k < n->link_count; k++) {
        const struct kfd_link *l = &n->links[k];
        int ordinal = 0;
        bool is_cpu = false;

        for (uint32_t c = 0; c < s->kfd.count && !is_cpu; c++) {
            is_cpu = s->kfd.nodes[c].is_cpu && s->kfd.nodes[c].number == l->to;
            ordinal += s->kfd.nodes[c].is_cpu && !is_cpu;
        }
        if (!is_cpu || l->is_p2p || l->weight >= best)
            continue;
        best = l->weight;
        s->rows[i].numa = ordinal;
        s->rows[i].pcie_mbps = l->type == KFD_LINK_PCIE ? l->max_mbps : 0;
    }
}

static int row_make(struct scan *s, uint32_t i, const char *root, bool emulate)
{
    const struct kfd_node *n = s->gpus[i];
    struct spur_gpu *row = &s->rows[i];
    char path[512];
    struct stat st;

    *row = (struct spur_gpu){ .index = i, .name = "gpu", .count = 1, .numa = -1, .pcie_switch = -1, .card = i, .flags = SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL };
    type_name(n, row->type, sizeof row->type);
    snprintf(row->file, sizeof row->file, "/dev/dri/renderD%u", n->render_minor);
    snprintf(path, sizeof path, "%s%s", root, row->file);
    if (!emulate && stat(path, &st) < 0)
        return spur_fail(s->err, SPUR_EIO, "KFD node %u: %s: %s", n->number, path, strerror(errno));
    /* the driver puts the number of a partition above the 16 bits of the address */
    snprintf(row->pci, sizeof row->pci, "%04x:%02x:%02x.%x", n->domain, n->location_id >> 8 & 0xff, n->location_id >> 3 & 0x1f, n->location_id & 7);
    if (n->unique_id)
        snprintf(row->uuid, sizeof row->uuid, "GPU-%016llx", (unsigned long long)n->unique_id);
    for (uint32_t k = 0; k < i; k++)
        if (same_card(n, s->gpus[k])) {
            row->card = k;
            break;
        }
    row->links[i] = -1;
    near_find(s, i);
    for (uint32_t k = 0; k < n->link_count; k++) {
        int to = gpu_index(s, n->links[k].to);
        bool known = false;

        for (uint32_t c = 0; c < s->kfd.count && !known; c++)
            known = s->kfd.nodes[c].number == n->links[k].to;
        if (!known)
            return spur_fail(s->err, SPUR_EINVAL, "KFD node %u: a link goes to node %u, which is not there", n->number, n->links[k].to);
        if (to >= 0 && (uint32_t)to != i)
            link_take(s, i, (uint32_t)to, &n->links[k]);
    }
    return 0;
}

static int amd_scan(void *self, const struct spur_gres_line *lines, uint32_t line_count, uint32_t line_size, const char *scan_root, bool emulate,
                    struct spur_gpu_found *found, struct spur_error *err)
{
    struct amd *a = self;
    struct scan s = { .err = err };
    const char *root = a->root[0] ? a->root : scan_root && strcmp(scan_root, "/") ? scan_root : "";
    int rc;

    (void)lines;
    (void)line_count;
    (void)line_size;
    found->count = a->count = 0;
    if ((rc = kfd_read(root, &s.kfd, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < s.kfd.count; i++) {
        if (!s.kfd.nodes[i].is_gpu)
            continue;
        if (s.count == SPUR_GPU_MAX) {
            rc = spur_fail(err, SPUR_EUNSUPPORTED, "more than %d AMD devices on one node", SPUR_GPU_MAX);
            goto out;
        }
        s.gpus[s.count++] = &s.kfd.nodes[i];
    }
    s.rows = calloc(s.count ? s.count : 1, sizeof *s.rows);
    if (!s.rows) {
        rc = spur_fail(err, SPUR_ENOMEM, "out of memory");
        goto out;
    }
    weight_find(&s);
    for (uint32_t i = 0; rc == 0 && i < s.count; i++)
        rc = row_make(&s, i, root, emulate);
    if (rc < 0)
        goto out;
    found->count = s.count;
    if (s.count > found->room) {
        rc = spur_fail(err, SPUR_ELIMIT, "%u AMD devices, there is room for %u", s.count, found->room);
        goto out;
    }
    for (uint32_t i = 0; i < s.count; i++) {
        struct amd_device *d = &a->devices[i];
        char *to = (char *)found->gpus + (size_t)i * found->gpu_size;

        memset(to, 0, found->gpu_size);
        memcpy(to, &s.rows[i], found->gpu_size < sizeof *s.rows ? found->gpu_size : sizeof *s.rows);
        snprintf(d->node_path, sizeof d->node_path, "%.250s/sys/class/kfd/kfd/topology/nodes/%u/properties", root, s.gpus[i]->number);
        snprintf(d->ras_path, sizeof d->ras_path, "%.250s/sys/class/drm/renderD%u/device/ras", root, s.gpus[i]->render_minor);
        snprintf(d->name, sizeof d->name, "renderD%u", s.gpus[i]->render_minor);
        d->unique_id = s.gpus[i]->unique_id;
    }
    a->count = s.count;
out:
    free(s.rows);
    kfd_fini(&s.kfd);
    return rc;
}

/* "ue: 0\nce: 4\n": the uncorrectable ones. */
static uint64_t ras_read(const char *path)
{
    char text[128];
    unsigned long long n = 0;
    FILE *f = fopen(path, "re");
    size_t got;
    const char *at;

    if (!f)
        return 0;
    got = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[got] = '\0';
    return (at = strstr(text, "ue:")) && sscanf(at + 3, "%llu", &n) == 1 ? n : 0;
}

static int amd_health(void *self, uint32_t index, char *buf, size_t len)
{
    const struct amd *a = self;
    const struct amd_device *d;
    uint64_t unique_id = 0;
    struct dirent *e;
    DIR *dir;
    int bad = 0;

    if (len)
        buf[0] = '\0';
    if (index >= a->count)
        return 0;
    d = &a->devices[index];
    if (d->unique_id ? !kfd_number(d->node_path, "unique_id", &unique_id) || unique_id != d->unique_id : !kfd_number(d->node_path, "simd_count", &unique_id)) {
        snprintf(buf, len, "gpu %u (%s): the driver no longer shows it", index, d->name);
        return 1;
    }
    dir = opendir(d->ras_path);
    while (dir && !bad && (e = readdir(dir))) {
        size_t n = strlen(e->d_name);
        char path[700];
        uint64_t count;

        if (n < 10 || strcmp(e->d_name + n - 10, "_err_count"))
            continue;
        snprintf(path, sizeof path, "%s/%s", d->ras_path, e->d_name);
        count = ras_read(path);
        bad = count > (uint64_t)(a->uncorrectable > 0 ? a->uncorrectable : 0);
        if (bad)
            snprintf(buf, len, "gpu %u (%s): %llu uncorrectable errors in %.*s", index, d->name, (unsigned long long)count, (int)(n - 10), e->d_name);
    }
    if (dir)
        closedir(dir);
    return bad;
}

static const struct spur_option amd_options[] = {
    { "root", SPUR_STRING, NULL, "look for sys/ and dev/ below this folder instead of /" },
    { "uncorrectable", SPUR_INT, "0", "uncorrectable errors (RAS) a GPU may have since its driver loaded before the node is drained" },
    { 0 } };

static const struct spur_gpu_ops amd_ops = { .size = sizeof amd_ops, .scan = amd_scan, .health = amd_health };

SPUR_PLUGIN(gpu, amd, .caps = SPUR_CAP_MAY_BLOCK, .about = "AMD GPUs and their XGMI links, from the kernel's sysfs", .stands_for = "rsmi amdsmi",
            .options = amd_options, .ops = &amd_ops, .open = amd_open, .reload = amd_reload, .close = free);
