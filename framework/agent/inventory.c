/* SPDX-License-Identifier: Apache-2.0 */
/* inventory.c - what the node registers with: machine, GPUs and their links, kernel, boot.
 *
 * Taken at start and when the configuration changes, on libuv's pool: a vendor's library may take seconds. With emulated hardware (sandboxes,
 * --emulate) the NodeLine of slurm.conf is the machine, and gres.conf's devices need not exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/hardware.h"
#include "agent/inside.h"
#include "hardware/rig.h"

#define HARDWARE_DEADLINE_MS 20000
#define SCAN_ROOM 256

struct taking {
    uv_work_t work;
    struct agent *agent;
    void (*then)(struct agent *a);
    struct hardware hardware;
    struct spur_gpu *gpus; uint32_t gpu_count;
    struct rig rig;             /* its GPUs by index, with their links; network devices */
    Wire__DeviceTable *devices;     /* of the rig: one for all nodes of this process */
    struct spur_error fault;        /* the scan's refusal: the node drains with it */
};

static Wire__GresAlloc *gres_row(Wire__NodeInventory *inv, const char *name, const char *type)
{
    Wire__GresAlloc *g;

    for (size_t i = 0; i < inv->n_gres; i++) {
        g = inv->gres[i];
        if (!strcmp(g->name, name) && !strcmp(g->type ? g->type : "", type ? type : ""))
            return g;
    }
    g = mem_alloc(sizeof *g);
    wire__gres_alloc__init(g);
    g->name = mem_copy(name);
    g->type = type && *type ? mem_copy(type) : NULL;
    g->has_count = g->has_mask = 1;
    inv->gres = mem_grow(inv->gres, inv->n_gres + 1, sizeof *inv->gres);
    inv->gres[inv->n_gres++] = g;
    return g;
}

static void gres_found(Wire__NodeInventory *inv, const struct spur_gpu *gpus, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        Wire__GresAlloc *g = gres_row(inv, gpus[i].name, gpus[i].type);

        g->count += gpus[i].count ? gpus[i].count : 1;
        if (!(gpus[i].flags & SPUR_GPU_COUNT_ONLY) && gpus[i].index < 64)
            g->mask |= UINT64_C(1) << gpus[i].index;
    }
}

/* Emulated hardware without lines in gres.conf: devices numbered as the node line counts them. */
static void gres_configured(Wire__NodeInventory *inv, const struct settings_node *node)
{
    uint32_t next = 0;

    for (size_t i = 0; i < node->gres_count; i++) {
        const struct config_gres *c = &node->gres[i];
        Wire__GresAlloc *g = gres_row(inv, c->name, c->type);

        if (g->count)
            continue;               /* gres.conf said it */
        g->count = c->count;
        if (!strcmp(c->name, "gpu"))
            for (uint64_t k = 0; k < c->count && next < 64; k++)
                g->mask |= UINT64_C(1) << next++;
    }
}

/* ---- devices and their links ---- */

/* Owned by the agent; the inventories of all its nodes point to it. */
static Wire__DeviceTable *devices_make(const struct rig *m)
{
    struct spur_device_table *t = rig_table(m);
    Wire__DeviceTable *w;
    uint32_t n;

    if (!t)
        return NULL;
    n = t->count;
    w = mem_alloc(sizeof *w);
    wire__device_table__init(w);
    w->has_count = 1;
    w->count = n;
    w->n_mbps = w->n_links = (size_t)n * n;
    w->mbps = mem_copy_bytes(t->mbps, w->n_mbps * sizeof *w->mbps);
    w->links = mem_array(w->n_links, sizeof *w->links);
    for (size_t i = 0; i < w->n_links; i++)
        w->links[i] = t->links[i];
    w->n_numa = w->n_socket = w->n_pcie_switch = w->n_card = w->n_near_cores = n;
    w->numa = mem_array(n, sizeof *w->numa);
    w->socket = mem_array(n, sizeof *w->socket);
    w->pcie_switch = mem_array(n, sizeof *w->pcie_switch);
    w->card = mem_array(n, sizeof *w->card);
    w->near_cores = mem_array(n, sizeof *w->near_cores);
    for (uint32_t i = 0; i < n; i++) {
        w->numa[i] = t->numa[i];
        w->socket[i] = t->socket[i];
        w->pcie_switch[i] = t->pcie_switch[i];
        w->card[i] = t->card[i];
        w->near_cores[i] = mem_copy(m->gpus[i].cores);
    }
    w->n_nics = t->nic_count;
    w->nics = mem_array(t->nic_count + 1u, sizeof *w->nics);
    for (uint32_t i = 0; i < t->nic_count; i++) {
        Wire__DeviceNic *nic = w->nics[i] = mem_alloc(sizeof *nic);

        wire__device_nic__init(nic);
        nic->name = mem_copy(t->nics[i].name);
        nic->has_pcie_switch = nic->has_numa = nic->has_mbps = 1;
        nic->pcie_switch = t->nics[i].pcie_switch;
        nic->numa = t->nics[i].numa;
        nic->mbps = t->nics[i].mbps;
    }
    free(t);
    return w;
}

/* The rows that are GPUs with a number, in its order; false when the numbers have a gap (then nothing can be said by index). */
static bool rig_take(struct rig *m, const struct spur_gpu *rows, uint32_t count)
{
    uint32_t wanted = 0;

    for (uint32_t i = 0; i < count; i++)
        wanted += !strcmp(rows[i].name, "gpu") && !(rows[i].flags & SPUR_GPU_COUNT_ONLY);
    for (uint32_t index = 0; index < wanted; index++) {
        uint32_t i = 0;

        while (i < count && (strcmp(rows[i].name, "gpu") || rows[i].flags & SPUR_GPU_COUNT_ONLY || rows[i].index != index))
            i++;
        if (i == count) {
            m->gpu_count = 0;
            return false;
        }
        *rig_gpu_add(m) = rows[i];
    }
    rig_paths(m->gpus, m->gpu_count);
    return true;
}

/* "node12": 11, so that the nodes of a sandbox, each with an agent of its own, fall into domains as their numbers say. */
static size_t node_number(const char *name)
{
    size_t n = strlen(name);
    uint64_t number = 0;
    const char *at;

    while (n && is_digit(name[n - 1]))
        n--;
    at = name + n;
    return number_at(&at, &number) && number ? (size_t)number - 1 : 0;
}

/* Which NVLink domain an emulated node is in: as many nodes share one as the topology says. */
static char *emulated_fabric(const struct rig *m, size_t node)
{
    struct str out;

    if (!m->fabric_nodes)
        return NULL;
    str_init(&out);
    str_addf(&out, "%s-%zu", m->name[0] ? m->name : "domain", node / m->fabric_nodes);
    return str_take(&out);
}

static Wire__NodeInventory *inventory_make(const struct agent *a, size_t i, const struct taking *t)
{
    const struct settings_node *node = &a->set->nodes[i];
    Wire__NodeInventory *inv = mem_alloc(sizeof *inv);
    struct utsname os;
    struct sysinfo info;
    bool emulated = a->set->emulate_hardware;
    const struct hardware *h = &t->hardware;
    struct str text;

    wire__node_inventory__init(inv);
    inv->name = mem_copy(hostlist_nth(a->set->names, i));
    inv->has_boards = inv->has_sockets = inv->has_cores_per_socket = inv->has_threads_per_core = inv->has_cpus = inv->has_mem_mib = inv->has_tmp_mib = 1;
    inv->boards = emulated ? node->boards : h->boards;
    inv->sockets = emulated ? node->sockets : h->sockets;
    inv->cores_per_socket = emulated ? node->cores_per_socket : h->cores_per_socket;
    inv->threads_per_core = emulated ? node->threads_per_core : h->threads_per_core;
    inv->cpus = emulated ? node->cpus : h->cpus;
    inv->mem_mib = emulated ? node->mem_mib : h->mem_mib;
    inv->tmp_mib = emulated ? node->tmp_mib : h->tmp_mib;
    if (!a->is_emulated)
        gres_found(inv, t->gpus, t->gpu_count);
    if (emulated)
        gres_configured(inv, node);
    inv->devices = t->devices;
    inv->fabric = emulated ? emulated_fabric(&t->rig, a->is_emulated ? i : node_number(inv->name)) : t->rig.gpu_count ? mem_copy(t->rig.gpus[0].fabric) : NULL;
    if (uname(&os) == 0) {
        str_init(&text);
        str_addf(&text, "%s %s %s", os.sysname, os.release, os.version);
        inv->os = str_take(&text);
        inv->arch = mem_copy(os.machine);
    }
    if (sysinfo(&info) == 0) {
        inv->has_boot_wall_s = 1;
        inv->boot_wall_s = time(NULL) - info.uptime;
    }
    inv->boot_id = mem_copy(boot_id());
    inv->hostname = mem_copy(a->set->host);
    inv->addr = mem_copy(node->addr);
    if (t->fault.code)
        inv->fault = mem_copy(t->fault.text);
    return inv;
}

static void devices_free(Wire__DeviceTable *w)
{
    if (w)
        wire__device_table__free_unpacked(w, NULL);
}

static void inventory_one_free(Wire__NodeInventory *inv)
{
    for (size_t i = 0; i < inv->n_gres; i++) {
        free(inv->gres[i]->name);
        free(inv->gres[i]->type);
        free(inv->gres[i]);
    }
    free(inv->gres);
    free(inv->name);
    free(inv->os);
    free(inv->arch);
    free(inv->boot_id);
    free(inv->hostname);
    free(inv->addr);
    free(inv->fault);
    free(inv->fabric);
    free(inv);
}

void inventory_free(struct agent *a)
{
    for (size_t i = 0; a->inventories && i < a->count; i++)
        inventory_one_free(a->inventories[i]);
    free(a->inventories);
    devices_free(a->devices);
    a->devices = NULL;
    free(a->gpus);
    a->inventories = NULL;
    a->gpus = NULL;
    a->gpu_count = 0;
}

/* ---- on the pool ---- */

static void scan_gpus(struct taking *t)
{
    const struct agent *a = t->agent;
    const struct settings *set = a->set;
    const struct spur_gpu_ops *ops = loader_ops(a->gpu);
    struct spur_gres_line *lines = mem_array(set->gres_line_count + 1, sizeof *lines);
    struct str *files = mem_array(set->gres_line_count + 1, sizeof *files), *counts = mem_array(set->gres_line_count + 1, sizeof *counts);
    struct spur_gpu_found found = { .size = sizeof found, .gpu_size = sizeof(struct spur_gpu), .room = SCAN_ROOM };
    int rc;

    for (size_t i = 0; i < set->gres_line_count; i++) {
        const struct config_gres_line *from = &set->gres_lines[i];

        str_init(&files[i]);
        str_init(&counts[i]);
        if (from->files)
            hostlist_print(from->files, &files[i]);
        if (from->count_set)
            str_addf(&counts[i], "%llu", (unsigned long long)from->count);
        lines[i] = (struct spur_gres_line){ .name = from->name, .type = from->type, .file = from->files && !from->files_are_one ? files[i].text : NULL,
                                            .multiple_files = from->files && from->files_are_one ? files[i].text : NULL, .cores = from->cores,
                                            .links = from->links, .flags = from->flags, .count = from->count_set ? counts[i].text : NULL,
                                            .source = from->file, .line = from->line };
    }
    do {
        free(found.gpus);
        found.gpus = mem_array(found.room, sizeof *found.gpus);
        rc = ops->scan(a->gpu->self, lines, (uint32_t)set->gres_line_count, sizeof *lines, "", set->emulate_hardware, &found, &t->fault);
        if (rc != SPUR_ELIMIT || found.count <= found.room)
            break;
        found.room = found.count;
    } while (found.room < 65536);
    if (rc == 0) {
        t->gpus = found.gpus;
        t->gpu_count = found.count;
        t->fault.code = 0;
    } else {
        free(found.gpus);
    }
    for (size_t i = 0; i < set->gres_line_count; i++) {
        str_fini(&files[i]);
        str_fini(&counts[i]);
    }
    free(files);
    free(counts);
    free(lines);
}

static void taking_work(uv_work_t *w)
{
    struct taking *t = w->data;

    if (!t->agent->set->emulate_hardware)
        hardware_ask(&t->hardware, HARDWARE_DEADLINE_MS);
    if (t->agent->gpu)
        scan_gpus(t);
    if (t->fault.code)
        return;
    if (t->agent->set->emulate_topology) {
        if (rig_read(t->agent->set->emulate_topology, &t->rig, &t->fault) < 0)
            spur_context(&t->fault, "emulate_topology");
    } else {
        t->rig.cores_per_socket = t->agent->set->emulate_hardware ? t->agent->set->nodes[0].cores_per_socket : t->hardware.cores_per_socket;
        rig_take(&t->rig, t->gpus, t->gpu_count);
    }
}

static void taking_done(uv_work_t *w, int status)
{
    struct taking *t = w->data;
    struct agent *a = t->agent;

    (void)status;
    inventory_free(a);
    a->devices = t->devices = devices_make(&t->rig);
    a->inventories = mem_array(a->count + 1, sizeof *a->inventories);
    for (size_t i = 0; i < a->count; i++)
        a->nodes[i].inventory = a->inventories[i] = inventory_make(a, i, t);
    if (t->fault.code)
        log_line(SPUR_LOG_ERROR, "inventory: %s", t->fault.text);
    a->gpus = mem_copy_bytes(t->gpus, t->gpu_count * sizeof *t->gpus);
    a->gpu_count = t->gpu_count;
    free(t->gpus);
    rig_fini(&t->rig);
    if (!a->is_stopping)
        t->then(a);
    free(t);
}

void inventory_take(struct agent *a, void (*then)(struct agent *a))
{
    struct taking *t = mem_alloc(sizeof *t);

    t->agent = a;
    t->then = then;
    t->work.data = t;
    uv_queue_work(a->loop, &t->work, taking_work, taking_done);
}

int inventory_print(const char *name)
{
    struct hardware h;
    struct sysinfo info;
    char host[256] = "localhost";

    hardware_ask(&h, HARDWARE_DEADLINE_MS);
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    printf("NodeName=%s CPUs=%u Boards=%u SocketsPerBoard=%u CoresPerSocket=%u ThreadsPerCore=%u RealMemory=%llu\n", name ? name : host, h.cpus, h.boards,
           h.sockets, h.cores_per_socket, h.threads_per_core, (unsigned long long)h.mem_mib);
    if (sysinfo(&info) == 0)
        printf("UpTime=%ld-%02ld:%02ld:%02ld\n", info.uptime / 86400, info.uptime / 3600 % 24, info.uptime / 60 % 60, info.uptime % 60);
    return 0;
}
