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

#define HARDWARE_DEADLINE_MS 20000
#define SCAN_ROOM 256

struct taking {
    uv_work_t work;
    struct agent *agent;
    void (*then)(struct agent *a);
    struct hardware hardware;
    struct spur_gpu *gpus; uint32_t gpu_count;
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
        for (uint32_t k = i + 1; k < n && !strcmp(gpus[i].name, "gpu"); k++)
            if (!strcmp(gpus[k].name, "gpu") && gpus[k].index < SPUR_GPU_MAX && gpus[i].links[gpus[k].index] > 0) {
                Wire__GpuLink *l = mem_alloc(sizeof *l);

                wire__gpu_link__init(l);
                l->a = gpus[i].index;
                l->b = gpus[k].index;
                l->has_links = 1;
                l->links = (uint32_t)gpus[i].links[gpus[k].index];
                inv->links = mem_grow(inv->links, inv->n_links + 1, sizeof *inv->links);
                inv->links[inv->n_links++] = l;
            }
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

static void inventory_one_free(Wire__NodeInventory *inv)
{
    for (size_t i = 0; i < inv->n_gres; i++) {
        free(inv->gres[i]->name);
        free(inv->gres[i]->type);
        free(inv->gres[i]);
    }
    for (size_t i = 0; i < inv->n_links; i++)
        free(inv->links[i]);
    free(inv->gres);
    free(inv->links);
    free(inv->name);
    free(inv->os);
    free(inv->arch);
    free(inv->boot_id);
    free(inv->hostname);
    free(inv->addr);
    free(inv->fault);
    free(inv);
}

void inventory_free(struct agent *a)
{
    for (size_t i = 0; a->inventories && i < a->count; i++)
        inventory_one_free(a->inventories[i]);
    free(a->inventories);
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
}

static void taking_done(uv_work_t *w, int status)
{
    struct taking *t = w->data;
    struct agent *a = t->agent;

    (void)status;
    inventory_free(a);
    a->inventories = mem_array(a->count + 1, sizeof *a->inventories);
    for (size_t i = 0; i < a->count; i++)
        a->nodes[i].inventory = a->inventories[i] = inventory_make(a, i, t);
    if (t->fault.code)
        log_line(SPUR_LOG_ERROR, "inventory: %s", t->fault.text);
    a->gpus = mem_copy_bytes(t->gpus, t->gpu_count * sizeof *t->gpus);
    a->gpu_count = t->gpu_count;
    free(t->gpus);
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
