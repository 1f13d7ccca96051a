/* SPDX-License-Identifier: Apache-2.0 */
/* sysfs.c - where devices lie, from ROOT/sys alone: NUMA node, near cores, PCIe switch, network devices.
 *
 * For hosts without hwloc and for trees that are not this host's (a mounted root, a test). A PCI device's folder is reached by links whose
 * resolved path names every bridge above it; two devices on one switch share the bridge below the root. Cores are counted as slurmd does:
 * socket after socket, in each by their lowest thread.
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "hardware/scan.h"

#define THREADS_MAX 8192

static bool text_read(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n;

    out[0] = '\0';
    if (!f)
        return false;
    n = fread(out, 1, size - 1, f);
    fclose(f);
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return true;
}

static long number_read(const char *path, long absent)
{
    char text[64], *end;
    long n;

    if (!text_read(path, text, sizeof text))
        return absent;
    n = strtol(text, &end, 0);
    return end == text ? absent : n;
}

/* ---- cores ---- */

struct cores { int core_of[THREADS_MAX]; uint32_t count, sockets, threads; };    /* core_of: of a thread, -1: none */
struct thread { int package, first, number; };      /* first: lowest thread of its core */

static int by_place(const void *a, const void *b)
{
    const struct thread *x = a, *y = b;

    return x->package != y->package ? (x->package < y->package ? -1 : 1) : x->first != y->first ? (x->first < y->first ? -1 : 1) : x->number - y->number;
}

static void cores_read(const char *root, struct cores *c)
{
    struct thread *threads = mem_array(THREADS_MAX, sizeof *threads);
    char path[PATH_MAX], text[256];
    uint32_t n = 0;

    memset(c, 0, sizeof *c);
    for (int i = 0; i < THREADS_MAX; i++)
        c->core_of[i] = -1;
    for (int i = 0; i < THREADS_MAX; i++) {
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root, i);
        if (!text_read(path, text, sizeof text)) {
            if (i > 1024 + (n ? threads[n - 1].number : 0))     /* numbers may have gaps, but not such */
                break;
            continue;
        }
        threads[n].first = atoi(text);
        threads[n].number = i;
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/physical_package_id", root, i);
        threads[n++].package = (int)number_read(path, 0);
    }
    qsort(threads, n, sizeof *threads, by_place);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || threads[i].package != threads[i - 1].package)
            c->sockets++;
        if (i == 0 || threads[i].package != threads[i - 1].package || threads[i].first != threads[i - 1].first)
            c->count++;
        c->core_of[threads[i].number] = (int)c->count - 1;
    }
    c->threads = n;
    free(threads);
}

/* "0-15,64-79" of threads as a list of cores. */
static void cores_of(const struct cores *c, const char *threads, char *out, size_t size)
{
    struct bitmap set, near;
    struct str text;

    bitmap_init(&set, THREADS_MAX);
    bitmap_init(&near, c->count ? c->count : 1);
    str_init(&text);
    if (*threads && bitmap_parse(&set, threads, NULL) == 0) {
        for (size_t i = bitmap_first(&set); i < set.bits; i = bitmap_next(&set, i))
            if (c->core_of[i] >= 0)
                bitmap_set(&near, (size_t)c->core_of[i]);
        if (!bitmap_empty(&near))
            bitmap_print(&near, &text);
    }
    if (text.len && text.len < size)
        memcpy(out, text.text, text.len + 1);
    str_fini(&text);
    bitmap_fini(&near);
    bitmap_fini(&set);
}

/* ---- PCI ---- */

/* The addresses above a device, from the host bridge down: "0000:80:01.1", "0000:81:00.0", ... The first is the root port. */
struct way { char host[32]; char bridges[16][16]; uint32_t depth; };

static bool is_address(const char *word, size_t n)
{
    return n >= 12 && n < 16 && word[n - 2] == '.' && word[n - 5] == ':';
}

static bool way_read(const char *root, const char *pci, struct way *w)
{
    char path[PATH_MAX], real[PATH_MAX];

    memset(w, 0, sizeof *w);
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, pci);
    if (!realpath(path, real))
        return false;
    for (const char *at = real; *at; ) {
        size_t n = strcspn(at, "/");

        if (n > 3 && n < sizeof w->host && !strncmp(at, "pci", 3))
            snprintf(w->host, sizeof w->host, "%.*s", (int)n, at);
        else if (is_address(at, n) && w->depth < 16)
            snprintf(w->bridges[w->depth++], sizeof *w->bridges, "%.*s", (int)n, at);
        at += n + (at[n] == '/');
    }
    if (w->depth)
        w->depth--;     /* the device itself */
    return true;
}

static enum spur_path way_between(const struct way *a, const struct way *b)
{
    uint32_t common = 0;

    while (common < a->depth && common < b->depth && !strcmp(a->bridges[common], b->bridges[common]))
        common++;
    if (common)     /* a switch is two bridges deep: its upstream port is shared, the downstream ports are not */
        return a->depth - common <= 1 && b->depth - common <= 1 ? SPUR_PATH_SWITCH : SPUR_PATH_SWITCHES;
    return a->host[0] && !strcmp(a->host, b->host) ? SPUR_PATH_BRIDGE : SPUR_PATH_UNKNOWN;
}

struct switches { char names[256][32]; uint32_t count; };

static int switch_number(struct switches *s, const struct way *w)
{
    const char *name = w->depth ? w->bridges[0] : w->host;

    if (!*name)
        return -1;
    for (uint32_t i = 0; i < s->count; i++)
        if (!strcmp(s->names[i], name))
            return (int)i;
    if (s->count == 256)
        return -1;
    snprintf(s->names[s->count++], sizeof *s->names, "%s", name);
    return (int)s->count - 1;
}

/* GB/s of a port: its generation's transfers a second times its lanes; "16.0 GT/s PCIe" and "16". */
static uint32_t port_mbps(const char *root, const char *pci)
{
    static const struct { double gts; uint32_t lane_mbps; } generations[] = { { 2.5, 250 }, { 5, 500 }, { 8, 1000 }, { 16, 2000 }, { 32, 4000 }, { 64, 8000 } };
    char path[PATH_MAX], text[64];
    double gts;
    long lanes;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/max_link_width", root, pci);
    lanes = number_read(path, 0);
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/max_link_speed", root, pci);
    if (!text_read(path, text, sizeof text) || lanes < 1 || lanes > 32)
        return 0;
    gts = strtod(text, NULL);
    for (size_t i = sizeof generations / sizeof *generations; i-- > 0; )
        if (gts >= generations[i].gts)
            return generations[i].lane_mbps * (uint32_t)lanes;
    return 0;
}

/* ---- network devices ---- */

/* First name in a folder, "." and ".." left out. */
static bool first_name(const char *path, char *out, size_t size)
{
    DIR *dir = opendir(path);
    struct dirent *d;

    out[0] = '\0';
    while (dir && (d = readdir(dir)))
        if (d->d_name[0] != '.' && (!out[0] || strcmp(d->d_name, out) < 0))
            snprintf(out, size, "%.31s", d->d_name);
    if (dir)
        closedir(dir);
    return out[0] != '\0';
}

uint32_t rig_nic_mbps(const char *root, const char *name)
{
    char path[PATH_MAX], text[64];
    long n;

    snprintf(path, sizeof path, "%s/sys/class/infiniband/%s/ports/1/rate", root, name);
    if (text_read(path, text, sizeof text) && (n = strtol(text, NULL, 10)) > 0)
        return (uint32_t)n * 1000;      /* "200 Gb/sec (4X HDR)" */
    snprintf(path, sizeof path, "%s/sys/class/net/%s/speed", root, name);
    n = number_read(path, 0);
    return n > 0 ? (uint32_t)n : 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct spur_nic *)a)->name, ((const struct spur_nic *)b)->name);
}

static void nics_read(struct rig *m, const char *root, struct switches *switches)
{
    char path[PATH_MAX], device[PATH_MAX];
    struct dirent *d;
    DIR *dir;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root);
    dir = opendir(path);
    while (dir && (d = readdir(dir)) && m->nic_count < RIG_NICS_MAX) {
        struct spur_nic *n;
        struct way w;
        char name[32];

        if (d->d_name[0] == '.')
            continue;
        snprintf(device, sizeof device, "%.3800s/%.64s/class", path, d->d_name);
        if (number_read(device, 0) >> 16 != 0x02)
            continue;
        snprintf(device, sizeof device, "%.3800s/%.64s/infiniband", path, d->d_name);
        if (!first_name(device, name, sizeof name)) {
            snprintf(device, sizeof device, "%.3800s/%.64s/net", path, d->d_name);
            if (!first_name(device, name, sizeof name))
                continue;
        }
        n = rig_nic_add(m);
        snprintf(n->name, sizeof n->name, "%s", name);
        snprintf(device, sizeof device, "%.3800s/%.64s/numa_node", path, d->d_name);
        n->numa = (int16_t)number_read(device, -1);
        n->pcie_switch = way_read(root, d->d_name, &w) ? (int16_t)switch_number(switches, &w) : -1;
        n->mbps = rig_nic_mbps(root, name);
    }
    if (dir)
        closedir(dir);
    if (m->nic_count)
        qsort(m->nics, m->nic_count, sizeof *m->nics, by_name);
}

/* /dev/dri/renderD128: its folder in sysfs. */
static void drm_find(struct spur_gpu *g, const char *root)
{
    char path[PATH_MAX], real[PATH_MAX];
    const char *name = strrchr(g->file, '/');

    snprintf(path, sizeof path, "%s/sys/class/drm/%.64s/device", root, name ? name + 1 : "");
    if (!realpath(path, real) || !(name = strrchr(real, '/')) || !is_address(name + 1, strlen(name + 1)))
        return;
    snprintf(g->pci, sizeof g->pci, "%.15s", name + 1);
}

/* /dev/nvidia3: the driver says the minor number of each address. */
static void nvidia_find(struct spur_gpu *g, const char *root)
{
    char path[PATH_MAX], line[256];
    unsigned wanted, minor;
    struct dirent *d;
    DIR *dir;

    if (sscanf(g->file, "/dev/nvidia%u", &wanted) != 1)
        return;
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus", root);
    dir = opendir(path);
    while (dir && !g->pci[0] && (d = readdir(dir))) {
        FILE *f;

        snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus/%.64s/information", root, d->d_name);
        f = d->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "Device Minor: %u", &minor) == 1 && minor == wanted)
                snprintf(g->pci, sizeof g->pci, "%.19s", d->d_name);
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
}

void rig_find_pci(struct rig *m, const char *root)
{
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        if (m->gpus[i].pci[0])
            continue;
        if (!strncmp(m->gpus[i].file, "/dev/dri/", 9))
            drm_find(&m->gpus[i], root);
        else
            nvidia_find(&m->gpus[i], root);
    }
}

void rig_from_sysfs(struct rig *m, const char *root)
{
    struct cores *cores = mem_alloc(sizeof *cores);
    struct switches *switches = mem_alloc(sizeof *switches);
    struct way *ways = mem_array(m->gpu_count + 1, sizeof *ways);
    char path[PATH_MAX], text[1024];

    if (!strcmp(root, "/"))
        root = "";
    cores_read(root, cores);
    if (cores->count) {
        m->sockets = cores->sockets;
        m->cores_per_socket = cores->count / cores->sockets;
        m->threads_per_core = cores->threads / cores->count;
    }
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        struct spur_gpu *g = &m->gpus[i];
        long numa;

        if (!g->pci[0] || !way_read(root, g->pci, &ways[i]))
            continue;
        snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/numa_node", root, g->pci);
        if ((numa = number_read(path, -1)) >= 0)
            g->numa = (int32_t)numa;
        snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/local_cpulist", root, g->pci);
        if (!g->cores[0] && text_read(path, text, sizeof text))
            cores_of(cores, text, g->cores, sizeof g->cores);
        g->pcie_switch = switch_number(switches, &ways[i]);
        if (!g->pcie_mbps)
            g->pcie_mbps = port_mbps(root, g->pci);
        for (uint32_t k = 0; k < i; k++) {
            enum spur_path between = ways[k].depth || ways[k].host[0] ? way_between(&ways[i], &ways[k]) : SPUR_PATH_UNKNOWN;

            if (between != SPUR_PATH_UNKNOWN)
                g->path[k] = m->gpus[k].path[i] = (uint8_t)between;
        }
    }
    /* a device without a PCI folder (a tree that is the driver's alone): its NUMA node still says its cores */
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        struct spur_gpu *g = &m->gpus[i];

        if (g->cores[0] || g->numa < 0)
            continue;
        snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, (int)g->numa);
        if (text_read(path, text, sizeof text))
            cores_of(cores, text, g->cores, sizeof g->cores);
    }
    nics_read(m, root, switches);
    free(ways);
    free(switches);
    free(cores);
}
