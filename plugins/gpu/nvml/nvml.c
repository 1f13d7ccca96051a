/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - NVIDIA GPUs through the driver's own library, libnvidia-ml.so.1, opened when a scan asks for it.
 *
 * Devices are numbered as the library does, which is by PCI address and what CUDA_DEVICE_ORDER=PCI_BUS_ID means. A link joins the GPU at its other
 * end; a link that ends at a switch joins its GPU to every GPU with links to switches of the same fabric, with the smaller number of the two
 * (behind NVSwitch the other end is never a GPU, so counting those alone finds no link at all). A GPU with MIG on is not a device: its MIG
 * instances are, parts of one card, and without links, as the driver joins none of them to another.
 *
 * Xids that a program can cause by itself are nobody's reason to drain a node; the others are, and so is a GPU that has fallen off the bus.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <spur/gpu.h>

#include "inside.h"
#include "nvml.h"

#define GPUS_MAX 64

struct nvml_device_row { struct nvml_device *handle, *parent; unsigned gpu; char uuid[96]; char fault[96]; };
struct nvml {
    const struct spur_host *host;
    char library[256], ignored[128];
    void *lib;
    struct nvml_calls call;
    bool is_started;
    struct nvml_event_set *events;
    struct nvml_device_row rows[SPUR_GPU_MAX]; uint32_t count;      /* of the last scan */
};

static int nvml_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    struct nvml *n = self;

    (void)err;
    snprintf(n->library, sizeof n->library, "%s", n->host->conf_text(conf, "library"));
    snprintf(n->ignored, sizeof n->ignored, ",%s,", n->host->conf_text(conf, "ignore_xids"));
    return 0;
}

static int nvml_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct nvml *n = calloc(1, sizeof *n);

    if (!n)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    n->host = host;
    nvml_reload(n, conf, err);
    *self = n;
    return 0;
}

static void library_close(struct nvml *n)
{
    if (n->events && n->call.event_set_free)
        n->call.event_set_free(n->events);
    n->events = NULL;
    if (n->is_started)
        n->call.shutdown();
    n->is_started = false;
    if (n->lib)
        dlclose(n->lib);
    n->lib = NULL;
}

static void nvml_close(void *self)
{
    if (self)
        library_close(self);
    free(self);
}

static const char *error_text(const struct nvml *n, int code, char buf[32])
{
    const char *text = n->call.error_text ? n->call.error_text(code) : NULL;

    if (text)
        return text;
    snprintf(buf, 32, "error %d", code);
    return buf;
}

static int call_fail(const struct nvml *n, struct spur_error *err, int code, const char *function, unsigned gpu)
{
    char buf[32];

    return spur_fail(err, SPUR_EIO, "%s of GPU %u: %s", function, gpu, error_text(n, code, buf));
}

/* ENOTFOUND: there is no such library, or no driver: a node without NVIDIA GPUs. */
static int library_open(struct nvml *n, struct spur_error *err)
{
    char buf[32];
    int rc;

    library_close(n);
    n->lib = dlopen(n->library, RTLD_NOW | RTLD_LOCAL);
    if (!n->lib)
        return spur_fail(err, SPUR_ENOTFOUND, "%s", dlerror());
#define CALL_FIND(function, member, parameters) \
    if (!(*(void **)&n->call.member = dlsym(n->lib, #function))) { \
        library_close(n); \
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s: has no %s; a driver from 450 on is wanted", n->library, #function); \
    }
#define MAY_FIND(function, member, parameters) *(void **)&n->call.member = dlsym(n->lib, #function);
    NVML_CALLS(CALL_FIND, MAY_FIND)
#undef CALL_FIND
#undef MAY_FIND
    *(void **)&n->call.error_text = dlsym(n->lib, "nvmlErrorString");
    rc = n->call.init();
    if (rc != NVML_OK) {
        spur_fail(err, rc == NVML_DRIVER_NOT_LOADED ? SPUR_ENOTFOUND : SPUR_EIO, "nvmlInit: %s", error_text(n, rc, buf));
        library_close(n);
        return err->code;
    }
    n->is_started = true;
    return 0;
}

/* ---- one GPU ---- */

struct gpu {
    struct nvml_device *handle;
    struct nvml_pci pci;
    unsigned minor, pcie_mbps, link_mbps, to_switches, to[GPUS_MAX];
    char uuid[96], type[64], fabric[64];
    bool has_mig;
    uint32_t first_row;
};

void nvml_type(const char *name, char *out, size_t size)
{
    size_t k = 0;

    for (; *name && k + 1 < size; name++) {
        unsigned char c = (unsigned char)*name;

        if (c == '(' || c == ')')
            continue;
        out[k++] = isalnum(c) || strchr("-._", c) ? (char)tolower(c) : '_';
    }
    out[k] = '\0';
}

/* MB/s of one link one way. The library's "version" counts half steps (3 is 2.2, 5 is 3.1), so the architecture is asked first. */
static unsigned link_speed(const struct nvml *n, struct nvml_device *handle, unsigned link)
{
    unsigned a = 0, version = 0;

    if (n->call.architecture && n->call.architecture(handle, &a) == NVML_OK && a >= 4 && a < 1000)
        return a == 4 ? 20000 : a < 10 ? 25000 : 50000;       /* Pascal; Volta to Hopper; Blackwell and on */
    if (n->call.link_version && n->call.link_version(handle, link, &version) == NVML_OK && version)
        return version == 1 ? 20000 : version < 7 ? 25000 : 50000;
    return 25000;
}

static bool same_place(const struct nvml_pci *a, const struct nvml_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

static void links_count(const struct nvml *n, struct gpu *gpus, unsigned count, unsigned i)
{
    struct gpu *g = &gpus[i];
    int (*remote_pci)(struct nvml_device *, unsigned, struct nvml_pci *) = n->call.link_remote_pci ? n->call.link_remote_pci : n->call.link_remote_pci_old;

    for (unsigned link = 0; n->call.link_state && link < NVML_LINKS_MAX; link++) {
        int active = 0, type = -1;
        struct nvml_pci far = { 0 };
        unsigned k = count;

        if (n->call.link_state(g->handle, link, &active) != NVML_OK || !active)
            continue;
        if (!g->link_mbps)
            g->link_mbps = link_speed(n, g->handle, link);
        if (n->call.link_remote_type && n->call.link_remote_type(g->handle, link, &type) != NVML_OK)
            type = -1;
        if (type == NVML_REMOTE_NPU)
            continue;
        if (type != NVML_REMOTE_SWITCH && remote_pci && remote_pci(g->handle, link, &far) == NVML_OK)
            for (k = 0; k < count && !same_place(&gpus[k].pci, &far); k++)
                ;
        if (k < count && k != i)
            g->to[k]++;
        else if (type == NVML_REMOTE_SWITCH || type == -1)      /* drivers that do not say the type: what is no GPU of this node is a switch */
            g->to_switches++;
    }
}

static void fabric_read(const struct nvml *n, struct gpu *g)
{
    struct nvml_fabric f = { .status = NVML_UNKNOWN };
    bool named = false;
    size_t at = 0;

    if (!n->call.fabric || n->call.fabric(g->handle, &f) != NVML_OK || f.state != NVML_FABRIC_COMPLETED || f.status != NVML_OK)
        return;
    for (int i = 0; i < 16; i++)
        named |= f.cluster[i] != 0;
    if (!named)
        return;         /* a fabric that ends with this node */
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(g->fabric + at, sizeof g->fabric - at, "%02x", f.cluster[i]);
    snprintf(g->fabric + at, sizeof g->fabric - at, ".%u", f.clique);
}

static int gpu_read(const struct nvml *n, unsigned i, struct gpu *g, struct spur_error *err)
{
    static const unsigned lane_mbps[] = { 0, 250, 500, 1000, 2000, 4000, 8000 };
    unsigned generation = 0, width = 0, mode = 0, pending = 0;
    char name[96] = "";
    int rc;

    if ((rc = n->call.handle(i, &g->handle)) != NVML_OK)
        return call_fail(n, err, rc, "nvmlDeviceGetHandleByIndex", i);
    if ((rc = n->call.pci(g->handle, &g->pci)) != NVML_OK)
        return call_fail(n, err, rc, "nvmlDeviceGetPciInfo", i);
    if ((rc = n->call.uuid(g->handle, g->uuid, sizeof g->uuid)) != NVML_OK)
        return call_fail(n, err, rc, "nvmlDeviceGetUUID", i);
    if ((rc = n->call.minor(g->handle, &g->minor)) != NVML_OK)
        return call_fail(n, err, rc, "nvmlDeviceGetMinorNumber", i);
    if (n->call.name(g->handle, name, sizeof name) == NVML_OK)
        nvml_type(name, g->type, sizeof g->type);
    if (n->call.pcie_generation && n->call.pcie_width && n->call.pcie_generation(g->handle, &generation) == NVML_OK &&
        n->call.pcie_width(g->handle, &width) == NVML_OK && generation < sizeof lane_mbps / sizeof *lane_mbps && width <= 32)
        g->pcie_mbps = lane_mbps[generation] * width;
    g->has_mig = n->call.mig_mode && n->call.mig_handle && n->call.mig_count && n->call.mig_mode(g->handle, &mode, &pending) == NVML_OK && mode == 1;
    fabric_read(n, g);
    return 0;
}

/* ---- rows ---- */

struct scan { struct nvml *n; struct gpu gpus[GPUS_MAX]; unsigned count; struct spur_gpu *rows; uint32_t row_count; const char *root; bool emulate; struct spur_error *err; };

static int file_check(struct scan *s, const char *file)
{
    char path[512];
    struct stat st;

    snprintf(path, sizeof path, "%.250s%s", s->root, file);
    if (s->emulate || stat(path, &st) == 0)
        return 0;
    return spur_fail(s->err, SPUR_EIO, "%s: %s", path, strerror(errno));     /* not ENOTFOUND: the GPU is there */
}

static struct spur_gpu *row_add(struct scan *s, unsigned i, struct nvml_device *handle, const char *uuid)
{
    const struct gpu *g = &s->gpus[i];
    struct nvml_device_row *kept;
    struct spur_gpu *row;

    if (s->row_count == SPUR_GPU_MAX)
        return NULL;
    kept = &s->n->rows[s->row_count];
    row = &s->rows[s->row_count];
    *row = (struct spur_gpu){ .index = s->row_count, .name = "gpu", .count = 1, .numa = -1, .pcie_switch = -1, .card = g->first_row,
                              .flags = SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_OPENCL, .pcie_mbps = g->pcie_mbps };
    snprintf(row->type, sizeof row->type, "%s", g->type);
    snprintf(row->file, sizeof row->file, "/dev/nvidia%u", g->minor);
    snprintf(row->pci, sizeof row->pci, "%04x:%02x:%02x.0", g->pci.domain & 0xffff, g->pci.bus & 0xff, g->pci.device & 0x1f);
    snprintf(row->uuid, sizeof row->uuid, "%.63s", uuid);
    snprintf(row->fabric, sizeof row->fabric, "%s", g->fabric);
    *kept = (struct nvml_device_row){ .handle = handle, .parent = g->handle, .gpu = i };
    snprintf(kept->uuid, sizeof kept->uuid, "%s", uuid);
    s->row_count++;
    return row;
}

/* "DeviceFileMinor: 12" of a capability: /dev/nvidia-caps/nvidia-cap12. */
static bool capability_add(struct scan *s, const char *name, struct spur_gpu *row)
{
    char path[512], line[128];
    unsigned minor;
    bool found = false;
    size_t at = strlen(row->file);
    FILE *f;

    snprintf(path, sizeof path, "%.250s/proc/driver/nvidia/capabilities/%s/access", s->root, name);
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "DeviceFileMinor: %u", &minor) == 1;
    if (f)
        fclose(f);
    if (found)
        snprintf(row->file + at, sizeof row->file - at, ",/dev/nvidia-caps/nvidia-cap%u", minor);
    return found;
}

static int mig_rows(struct scan *s, unsigned i)
{
    const struct nvml_calls *c = &s->n->call;
    struct gpu *g = &s->gpus[i];
    unsigned most = 0;
    int rc;

    if ((rc = c->mig_count(g->handle, &most)) != NVML_OK)
        return call_fail(s->n, s->err, rc, "nvmlDeviceGetMaxMigDeviceCount", i);
    for (unsigned k = 0; k < most && k < SPUR_GPU_MAX; k++) {
        struct nvml_device *handle;
        char uuid[96], name[96] = "", capability[64];
        unsigned gi = 0, ci = 0;
        struct spur_gpu *row;

        if (c->mig_handle(g->handle, k, &handle) != NVML_OK)
            continue;       /* places of instances that are not made */
        if ((rc = s->n->call.uuid(handle, uuid, sizeof uuid)) != NVML_OK)
            return call_fail(s->n, s->err, rc, "nvmlDeviceGetUUID of a MIG device", i);
        if (!(row = row_add(s, i, handle, uuid)))
            return spur_fail(s->err, SPUR_EUNSUPPORTED, "more than %d NVIDIA devices on one node", SPUR_GPU_MAX);
        if (c->name(handle, name, sizeof name) == NVML_OK && name[0])
            nvml_type(name, row->type, sizeof row->type);
        if (c->gpu_instance && c->compute_instance && c->gpu_instance(handle, &gi) == NVML_OK && c->compute_instance(handle, &ci) == NVML_OK) {
            snprintf(capability, sizeof capability, "gpu%u/mig/gi%u", g->minor, gi);
            if (capability_add(s, capability, row)) {
                snprintf(capability, sizeof capability, "gpu%u/mig/gi%u/ci%u", g->minor, gi, ci);
                capability_add(s, capability, row);
            }
        }
    }
    return 0;
}

static enum spur_path path_of(const struct nvml *n, const struct gpu *a, const struct gpu *b)
{
    int level;

    if (!n->call.ancestor || n->call.ancestor(a->handle, b->handle, &level) != NVML_OK)
        return SPUR_PATH_UNKNOWN;
    switch (level) {
    case NVML_ANCESTOR_INTERNAL:   return SPUR_PATH_BOARD;
    case NVML_ANCESTOR_SINGLE:     return SPUR_PATH_SWITCH;
    case NVML_ANCESTOR_MULTIPLE:   return SPUR_PATH_SWITCHES;
    case NVML_ANCESTOR_HOSTBRIDGE: return SPUR_PATH_BRIDGE;
    case NVML_ANCESTOR_NODE:       return SPUR_PATH_NUMA;
    case NVML_ANCESTOR_SYSTEM:     return SPUR_PATH_SYSTEM;
    default:                       return SPUR_PATH_UNKNOWN;
    }
}

static void pair_join(struct scan *s, uint32_t i, uint32_t k)
{
    const struct gpu *a = &s->gpus[s->n->rows[i].gpu], *b = &s->gpus[s->n->rows[k].gpu];
    unsigned links = a->to[s->n->rows[k].gpu], over;

    if (a == b) {
        s->rows[i].path[k] = SPUR_PATH_BOARD;
        return;
    }
    s->rows[i].path[k] = (uint8_t)path_of(s->n, a, b);
    if (a->has_mig || b->has_mig)
        return;
    over = a->to_switches < b->to_switches ? a->to_switches : b->to_switches;
    if (over && strcmp(a->fabric, b->fabric) == 0)
        links += over;
    s->rows[i].links[k] = (int32_t)links;
    s->rows[i].mbps[k] = links * (a->link_mbps && a->link_mbps < b->link_mbps ? a->link_mbps : b->link_mbps ? b->link_mbps : a->link_mbps);
}

static void events_watch(struct nvml *n, const struct scan *s)
{
    if (!n->call.event_set || !n->call.event_register || !n->call.event_wait || n->call.event_set(&n->events) != NVML_OK) {
        n->events = NULL;
        return;
    }
    for (unsigned i = 0; i < s->count; i++)
        n->call.event_register(s->gpus[i].handle, NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC, n->events);
}

static int rows_give(const struct scan *s, struct spur_gpu_found *found)
{
    found->count = s->row_count;
    if (s->row_count > found->room)
        return spur_fail(s->err, SPUR_ELIMIT, "%u NVIDIA devices, there is room for %u", s->row_count, found->room);
    for (uint32_t i = 0; i < s->row_count; i++) {
        char *to = (char *)found->gpus + (size_t)i * found->gpu_size;

        memset(to, 0, found->gpu_size);
        memcpy(to, &s->rows[i], found->gpu_size < sizeof *s->rows ? found->gpu_size : sizeof *s->rows);
    }
    return 0;
}

static int nvml_scan(void *self, const struct spur_gres_line *lines, uint32_t line_count, uint32_t line_size, const char *root, bool emulate,
                     struct spur_gpu_found *found, struct spur_error *err)
{
    struct nvml *n = self;
    struct scan *s = calloc(1, sizeof *s);
    char buf[32];
    int rc;

    (void)lines;
    (void)line_count;
    (void)line_size;
    found->count = n->count = 0;
    if (!s || !(s->rows = calloc(SPUR_GPU_MAX, sizeof *s->rows))) {
        free(s);
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    }
    s->n = n;
    s->root = root && strcmp(root, "/") ? root : "";
    s->emulate = emulate;
    s->err = err;
    if ((rc = library_open(n, err)) < 0) {
        int shown = rc == SPUR_ENOTFOUND ? proc_scan(s->root, s->rows, SPUR_GPU_MAX, err) : 0;

        if (shown > 0) {        /* the driver is here without its library: no links, and nobody to ask for health */
            s->row_count = (uint32_t)shown;
            rc = rows_give(s, found);
        } else if (shown < 0) {
            rc = shown;
        }
        goto out;
    }
    if ((rc = n->call.count(&s->count)) != NVML_OK) {
        rc = spur_fail(err, SPUR_EIO, "nvmlDeviceGetCount: %s", error_text(n, rc, buf));
        goto out;
    }
    if (s->count > GPUS_MAX) {
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "%u NVIDIA GPUs; %d are the limit", s->count, GPUS_MAX);
        goto out;
    }
    for (unsigned i = 0; rc == 0 && i < s->count; i++)
        rc = gpu_read(n, i, &s->gpus[i], err);
    for (unsigned i = 0; rc == 0 && i < s->count; i++)
        links_count(n, s->gpus, s->count, i);
    for (unsigned i = 0; rc == 0 && i < s->count; i++) {
        s->gpus[i].first_row = s->row_count;
        if (s->gpus[i].has_mig)
            rc = mig_rows(s, i);
        else if (!row_add(s, i, s->gpus[i].handle, s->gpus[i].uuid))
            rc = spur_fail(err, SPUR_EUNSUPPORTED, "more than %d NVIDIA devices on one node", SPUR_GPU_MAX);
        else
            rc = file_check(s, s->rows[s->row_count - 1].file);
    }
    if (rc < 0)
        goto out;
    for (uint32_t i = 0; i < s->row_count; i++)
        for (uint32_t k = 0; k < s->row_count; k++) {
            if (i != k)
                pair_join(s, i, k);
            else
                s->rows[i].links[i] = -1;
        }
    if ((rc = rows_give(s, found)) < 0)
        goto out;
    n->count = s->row_count;
    events_watch(n, s);
out:
    if (rc < 0)
        library_close(n);
    free(s->rows);
    free(s);
    return rc;
}

/* ---- health ---- */

static bool is_ignored(const struct nvml *n, unsigned long long xid)
{
    char word[32];

    snprintf(word, sizeof word, ",%llu,", xid);
    return strstr(n->ignored, word) != NULL;
}

/* All that has happened since the last look, onto the devices it happened to. */
static void events_take(struct nvml *n)
{
    struct nvml_event e;

    for (int i = 0; i < 1000 && n->events && n->call.event_wait(n->events, &e, 0) == NVML_OK; i++)
        for (uint32_t k = 0; k < n->count; k++) {
            struct nvml_device_row *r = &n->rows[k];

            if (r->fault[0] || (e.device != r->parent && e.device != r->handle))
                continue;
            if (e.type == NVML_EVENT_XID && !is_ignored(n, e.data))
                snprintf(r->fault, sizeof r->fault, "Xid %llu", e.data);
            else if (e.type == NVML_EVENT_DOUBLE_BIT_ECC)
                snprintf(r->fault, sizeof r->fault, "uncorrectable memory error");
        }
}

static int nvml_health(void *self, uint32_t index, char *buf, size_t len)
{
    struct nvml *n = self;
    struct nvml_device_row *r;
    char uuid[96];
    int rc;

    if (len)
        buf[0] = '\0';
    if (index >= n->count)
        return 0;
    events_take(n);
    r = &n->rows[index];
    if (!r->fault[0] && ((rc = n->call.uuid(r->handle, uuid, sizeof uuid)) == NVML_GPU_IS_LOST || rc == NVML_NOT_FOUND || (rc == NVML_OK && strcmp(uuid, r->uuid))))
        snprintf(r->fault, sizeof r->fault, "the driver no longer shows it");
    if (!r->fault[0])
        return 0;
    snprintf(buf, len, "gpu %u (%s): %s", index, r->uuid, r->fault);
    return 1;
}

static const struct spur_option nvml_options[] = {
    { "library", SPUR_STRING, "libnvidia-ml.so.1", "file of NVIDIA's management library" },
    { "ignore_xids", SPUR_STRING, "13,31,43,45,68,109", "Xids that do not drain the node: those that a program can cause by itself" },
    { 0 } };

static const struct spur_gpu_ops nvml_ops = { .size = sizeof nvml_ops, .scan = nvml_scan, .health = nvml_health };

SPUR_PLUGIN(gpu, nvml, .caps = SPUR_CAP_MAY_BLOCK, .about = "NVIDIA GPUs, NVLink, NVSwitch and MIG, through the driver's library", .stands_for = "nvidia nvidia_all",
            .options = nvml_options, .ops = &nvml_ops, .open = nvml_open, .reload = nvml_reload, .close = nvml_close);
