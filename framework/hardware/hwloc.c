/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc.c - a machine as hwloc knows it: of this host, or from an XML file that hwloc or lstopo has written.
 *
 * The library is opened at first use, so that nothing that does not ask for hardware pays for it. What is taken: cores and NUMA nodes, PCI tree,
 * network devices, and of a file also the distance matrices that hwloc's GPU backends write (NVLinkBandwidth, XGMIBandwidth, XGMIHops).
 * GPUs are recognised by PCI class and vendor. Their numbers come from the names of their OS devices (nvml3, rsmi3) where there are any:
 * hwloc's own order is that of NUMA nodes, and differs. On a live host the vendor backends of hwloc are kept out: they load vendor libraries,
 * which is the business of our plugins.
 */
#include <dlfcn.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "hardware/rig.h"

/* Every call of the library that is made, by name. */
#define CALLS(X) X(hwloc_topology_init) X(hwloc_topology_destroy) X(hwloc_topology_set_xml) X(hwloc_topology_set_io_types_filter) X(hwloc_topology_load) \
    X(hwloc_get_type_depth) X(hwloc_get_nbobjs_by_depth) X(hwloc_get_obj_by_depth) X(hwloc_distances_get) X(hwloc_distances_release) \
    X(hwloc_distances_get_name) X(hwloc_bitmap_first) X(hwloc_bitmap_weight) X(hwloc_bitmap_intersects)
struct calls {
#define CALL_MEMBER(name) __typeof__(&name) name;
    CALLS(CALL_MEMBER)
#undef CALL_MEMBER
};

struct reading { struct calls call; hwloc_topology_t t; struct rig *m; hwloc_obj_t pci[SPUR_GPU_MAX]; uint32_t nvml[SPUR_GPU_MAX]; uint32_t count; hwloc_obj_t switches[64]; uint32_t switch_count; };

static void *library(struct calls *c)
{
    static const char *const names[] = { "libhwloc.so.15", "libhwloc.so", NULL };
    void *lib = NULL;
    bool whole = true;

    for (int i = 0; names[i] && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW);
    if (!lib)
        return NULL;
#define CALL_FIND(name) *(void **)&c->name = dlsym(lib, #name); whole = whole && c->name;
    CALLS(CALL_FIND)
#undef CALL_FIND
    if (whole)
        return lib;
    dlclose(lib);
    return NULL;
}

static bool is_gpu(const struct hwloc_obj *o)
{
    unsigned class_id = o->attr->pcidev.class_id, vendor = o->attr->pcidev.vendor_id;

    return (class_id == 0x0300 || class_id == 0x0302 || class_id == 0x0380 || class_id == 0x1200) && (vendor == 0x10de || vendor == 0x1002);
}

static hwloc_obj_t object(const struct reading *r, int depth, unsigned i)
{
    return r->call.hwloc_get_obj_by_depth(r->t, depth, i);
}

/* "nvml3" or "rsmi3" below it: 3. */
static uint32_t vendor_number(hwloc_obj_t pci)
{
    uint32_t n;

    for (hwloc_obj_t o = pci->io_first_child; o; o = o->next_sibling)
        if (o->name && (sscanf(o->name, "nvml%u", &n) == 1 || sscanf(o->name, "rsmi%u", &n) == 1))
            return n;
    return UINT32_MAX;
}

static int by_number(const void *a, const void *b)
{
    const hwloc_obj_t x = *(const hwloc_obj_t *)a, y = *(const hwloc_obj_t *)b;
    uint32_t m = vendor_number(x), n = vendor_number(y);
    const struct hwloc_pcidev_attr_s *p = &x->attr->pcidev, *q = &y->attr->pcidev;
    uint64_t s = (uint64_t)p->domain << 16 | (unsigned)p->bus << 8 | (unsigned)p->dev << 3 | p->func;
    uint64_t t = (uint64_t)q->domain << 16 | (unsigned)q->bus << 8 | (unsigned)q->dev << 3 | q->func;

    return m != n ? (m < n ? -1 : 1) : s < t ? -1 : s > t;
}

/* What a device hangs on: the bridge nearest to the root that is a PCI one, else the host bridge itself. */
static hwloc_obj_t switch_above(hwloc_obj_t pci)
{
    hwloc_obj_t top = NULL, host = NULL;

    for (hwloc_obj_t o = pci->parent; o && o->type == HWLOC_OBJ_BRIDGE; o = o->parent) {
        if (o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
            top = o;
        else
            host = o;
    }
    return top ? top : host;
}

static int switch_number(struct reading *r, hwloc_obj_t pci)
{
    hwloc_obj_t s = switch_above(pci);

    if (!s)
        return -1;
    for (uint32_t i = 0; i < r->switch_count; i++)
        if (r->switches[i] == s)
            return (int)i;
    if (r->switch_count == sizeof r->switches / sizeof *r->switches)
        return -1;
    r->switches[r->switch_count++] = s;
    return (int)r->switch_count - 1;
}

static enum spur_path path_between(hwloc_obj_t a, hwloc_obj_t b)
{
    if (a->parent == b->parent && a->parent->type == HWLOC_OBJ_BRIDGE)
        return SPUR_PATH_SWITCH;
    for (hwloc_obj_t x = a->parent; x && x->type == HWLOC_OBJ_BRIDGE; x = x->parent)
        for (hwloc_obj_t y = b->parent; y && y->type == HWLOC_OBJ_BRIDGE; y = y->parent)
            if (x == y)
                return x->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? SPUR_PATH_SWITCHES : SPUR_PATH_BRIDGE;
    return SPUR_PATH_UNKNOWN;
}

/* NUMA node and cores of the processor part that a device hangs on; nothing when that is the whole machine of several NUMA nodes. */
static void near_find(const struct reading *r, hwloc_obj_t pci, int *numa, char *cores, size_t room)
{
    int depth = r->call.hwloc_get_type_depth(r->t, HWLOC_OBJ_CORE);
    unsigned count = depth < 0 ? 0 : r->call.hwloc_get_nbobjs_by_depth(r->t, depth);
    hwloc_obj_t at = pci;
    struct bitmap near;
    struct str text;

    *numa = -1;
    if (cores)
        cores[0] = '\0';
    while (at && !at->cpuset)
        at = at->parent;
    if (!at)
        return;
    if (at->nodeset && r->call.hwloc_bitmap_weight(at->nodeset) == 1)
        *numa = r->call.hwloc_bitmap_first(at->nodeset);
    else if (!at->parent)
        return;
    if (!cores || !count)
        return;
    bitmap_init(&near, count);
    for (unsigned i = 0; i < count; i++)
        if (r->call.hwloc_bitmap_intersects(object(r, depth, i)->cpuset, at->cpuset))
            bitmap_set(&near, object(r, depth, i)->logical_index);
    str_init(&text);
    bitmap_print(&near, &text);
    if (text.len < room)
        memcpy(cores, text.text, text.len + 1);
    str_fini(&text);
    bitmap_fini(&near);
}

static const char *info_of(hwloc_obj_t o, const char *name)
{
    for (unsigned i = 0; i < o->infos_count; i++)
        if (!strcmp(o->infos[i].name, name))
            return o->infos[i].value;
    return NULL;
}

static void gpu_take(struct reading *r, hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
    struct spur_gpu *g = rig_gpu_add(r->m);
    bool is_amd = a->vendor_id == 0x1002;
    const char *model = NULL, *render = NULL;
    int numa;

    for (hwloc_obj_t o = pci->io_first_child; o; o = o->next_sibling) {
        if (!model)
            model = info_of(o, "GPUModel");
        if (o->name && !strncmp(o->name, "renderD", 7))
            render = o->name;
    }
    snprintf(g->pci, sizeof g->pci, "%04x:%02x:%02x.%x", (unsigned)a->domain, (unsigned)a->bus, (unsigned)a->dev, (unsigned)a->func);
    rig_type(model ? model : pci->name ? pci->name : is_amd ? "amd" : "nvidia", g->type, sizeof g->type);
    if (render && is_amd)
        snprintf(g->file, sizeof g->file, "/dev/dri/%.40s", render);
    else
        snprintf(g->file, sizeof g->file, is_amd ? "/dev/dri/renderD%u" : "/dev/nvidia%u", is_amd ? 128 + g->index : g->index);
    g->flags = is_amd ? SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL : SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_OPENCL;
    near_find(r, pci, &numa, g->cores, sizeof g->cores);
    g->numa = numa;
    g->pcie_switch = switch_number(r, pci);
    g->pcie_mbps = a->linkspeed > 0 && a->linkspeed < 4000 ? (uint32_t)(a->linkspeed * 1000) : 0;
    for (uint32_t k = 0; k < g->index; k++)
        g->path[k] = r->m->gpus[k].path[g->index] = (uint8_t)path_between(pci, r->pci[k]);
}

static void nic_take(struct reading *r, hwloc_obj_t pci)
{
    const char *name = NULL;
    struct spur_nic *n;
    int numa;

    for (hwloc_obj_t o = pci->io_first_child; o; o = o->next_sibling) {
        if (o->type != HWLOC_OBJ_OS_DEVICE || !o->name)
            continue;
        if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            name = o->name;
        else if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && !name)
            name = o->name;
    }
    if (!name || r->m->nic_count == RIG_NICS_MAX)
        return;
    n = rig_nic_add(r->m);
    snprintf(n->name, sizeof n->name, "%.31s", name);
    near_find(r, pci, &numa, NULL, 0);
    n->numa = (int16_t)numa;
    n->pcie_switch = (int16_t)switch_number(r, pci);
    /* what its port can carry, while nobody knows more */
    n->mbps = pci->attr->pcidev.linkspeed > 0 && pci->attr->pcidev.linkspeed < 4000 ? (uint32_t)(pci->attr->pcidev.linkspeed * 8000) : 0;
}

static int gpu_of(const struct reading *r, hwloc_obj_t o)
{
    for (; o; o = o->parent)
        for (uint32_t i = 0; i < r->count; i++)
            if (r->pci[i] == o)
                return (int)i;
    return -1;
}

/* One matrix of MB/s. Ends that are no GPU are switches: two GPUs on switches get the smaller of what each has to them. */
static void bandwidth_take(struct reading *r, const struct hwloc_distances_s *d)
{
    uint64_t to_switches[SPUR_GPU_MAX] = { 0 };

    for (unsigned i = 0; i < d->nbobjs; i++) {
        int a = gpu_of(r, d->objs[i]);

        for (unsigned k = 0; a >= 0 && k < d->nbobjs; k++) {
            uint64_t v = d->values[i * d->nbobjs + k];
            int b = gpu_of(r, d->objs[k]);

            if (b < 0)
                to_switches[a] += v;
            else if (a != b && v < UINT32_MAX)
                r->m->gpus[a].mbps[b] = (uint32_t)v;
        }
    }
    for (uint32_t a = 0; a < r->count; a++)
        for (uint32_t b = 0; b < r->count; b++) {
            uint64_t v = to_switches[a] < to_switches[b] ? to_switches[a] : to_switches[b];
            struct spur_gpu *g = &r->m->gpus[a];

            if (a != b && v > g->mbps[b] && v < UINT32_MAX)
                g->mbps[b] = (uint32_t)v;
            if (a != b && g->mbps[b])
                g->links[b] = (int32_t)(g->mbps[b] / rig_link_mbps(g) ? g->mbps[b] / rig_link_mbps(g) : 1);
        }
}

static void hops_take(struct reading *r, const struct hwloc_distances_s *d)
{
    for (unsigned i = 0; i < d->nbobjs; i++)
        for (unsigned k = 0; k < d->nbobjs; k++) {
            int a = gpu_of(r, d->objs[i]), b = gpu_of(r, d->objs[k]);

            if (a >= 0 && b >= 0 && a != b && d->values[i * d->nbobjs + k] > 1)
                r->m->gpus[a].hops |= UINT64_C(1) << b;
        }
}

static void distances_take(struct reading *r)
{
    struct hwloc_distances_s *list[16];
    unsigned n = sizeof list / sizeof *list;

    if (r->call.hwloc_distances_get(r->t, &n, list, 0, 0) < 0)
        return;
    for (unsigned i = 0; i < n && i < sizeof list / sizeof *list; i++) {
        const char *name = r->call.hwloc_distances_get_name(r->t, list[i]);

        if (name && (!strcmp(name, "NVLinkBandwidth") || !strcmp(name, "XGMIBandwidth")))
            bandwidth_take(r, list[i]);
        else if (name && !strcmp(name, "XGMIHops"))
            hops_take(r, list[i]);
        r->call.hwloc_distances_release(r->t, list[i]);
    }
    for (uint32_t i = 0; i < r->count; i++)     /* a direct link is no hop, whatever else is written */
        for (uint32_t k = 0; k < r->count; k++)
            if (r->m->gpus[i].mbps[k])
                r->m->gpus[i].hops &= ~(UINT64_C(1) << k);
}

static unsigned count_of(const struct reading *r, hwloc_obj_type_t type)
{
    int depth = r->call.hwloc_get_type_depth(r->t, type);

    return depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE ? 0 : r->call.hwloc_get_nbobjs_by_depth(r->t, depth);
}

static int take_all(struct reading *r, const char *what, struct spur_error *err)
{
    unsigned pci_count = r->call.hwloc_get_nbobjs_by_depth(r->t, HWLOC_TYPE_DEPTH_PCI_DEVICE);
    unsigned packages = count_of(r, HWLOC_OBJ_PACKAGE), cores = count_of(r, HWLOC_OBJ_CORE), pus = count_of(r, HWLOC_OBJ_PU);

    r->m->sockets = packages ? packages : 1;
    r->m->cores_per_socket = (cores ? cores : pus) / r->m->sockets;
    r->m->threads_per_core = cores ? pus / cores : 1;
    r->m->numa_nodes = count_of(r, HWLOC_OBJ_NUMANODE);
    for (unsigned i = 0; i < pci_count; i++) {
        hwloc_obj_t o = object(r, HWLOC_TYPE_DEPTH_PCI_DEVICE, i);

        if (!is_gpu(o))
            continue;
        if (r->count == SPUR_GPU_MAX)
            return spur_fail(err, SPUR_ELIMIT, "%s: more than %d GPUs", what, SPUR_GPU_MAX);
        r->pci[r->count++] = o;
    }
    qsort(r->pci, r->count, sizeof *r->pci, by_number);
    for (uint32_t i = 0; i < r->count; i++)
        gpu_take(r, r->pci[i]);
    for (unsigned i = 0; i < pci_count; i++) {
        hwloc_obj_t o = object(r, HWLOC_TYPE_DEPTH_PCI_DEVICE, i);

        if (o->attr->pcidev.class_id >> 8 == 0x02)
            nic_take(r, o);
    }
    distances_take(r);
    return 0;
}

int rig_from_hwloc(const char *xml, struct rig *out, struct spur_error *err)
{
    struct reading r = { .m = out };
    void *lib = library(&r.call);
    int rc = 0;

    if (!lib)
        return spur_fail(err, SPUR_ENOTFOUND, "%s: libhwloc.so.15 is not installed (Debian: libhwloc15)", xml ? xml : "this machine");
    if (!xml)
        setenv("HWLOC_COMPONENTS", "-opencl,-gl,-cuda,-nvml,-rsmi,-levelzero", 0);
    setenv("HWLOC_HIDE_ERRORS", "2", 0);        /* the sentence is ours */
    if (r.call.hwloc_topology_init(&r.t) < 0) {
        dlclose(lib);
        return spur_fail(err, SPUR_ENOMEM, "hwloc does not start");
    }
    r.call.hwloc_topology_set_io_types_filter(r.t, HWLOC_TYPE_FILTER_KEEP_ALL);
    if ((xml && r.call.hwloc_topology_set_xml(r.t, xml) < 0) || r.call.hwloc_topology_load(r.t) < 0)
        rc = spur_fail(err, SPUR_ESYNTAX, "%s: hwloc %x.%x cannot read this; a file of version 2 is wanted (lstopo FILE.xml)", xml ? xml : "this machine",
                       HWLOC_API_VERSION >> 16, HWLOC_API_VERSION >> 8 & 0xff);
    else
        rc = take_all(&r, xml ? xml : "this machine", err);
    r.call.hwloc_topology_destroy(r.t);
    dlclose(lib);
    return rc;
}
