/* SPDX-License-Identifier: Apache-2.0 */
/* inventory.c - what the node registers with: machine, GPUs and their links, kernel, boot; and what is wrong with it.
 *
 * Taken at start and when the configuration changes: the processors by a helper (on libuv's pool, which waits for it), the GPUs by the probe. With
 * emulated hardware (sandboxes, --emulate) the NodeLine of slurm.conf is the machine, and gres.conf's devices need not exist. A node with a
 * fault registers all the same: the leader drains it with the words given here, and lifts the drain when they are gone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/gpus.h"
#include "agent/hardware.h"
#include "agent/inside.h"
#include "hardware/rig.h"

#define HARDWARE_DEADLINE_MS 20000

struct taking {
    uv_work_t work;
    struct agent *agent;
    void (*then)(struct agent *a);
    struct hardware hardware;
    struct rows rows;               /* of the probe */
    struct rig rig;             /* its GPUs by index, with their links; network devices */
    Wire__DeviceTable *devices;     /* of the rig: one for all nodes of this process */
    struct probe_health health;     /* of the devices found */
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
        gres_found(inv, t->rows.list, t->rows.count);
    if (emulated && !t->fault.code && !settings_autodetect(a->set))
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

/* ---- taking it ---- */

/* The whole truth about what is wrong, into every inventory of this process. */
static void faults_put(struct agent *a)
{
    const char *text = a->scan_fault[0] ? a->scan_fault : a->gpu_fault[0] ? a->gpu_fault : a->program_fault[0] ? a->program_fault :
                       a->stuck_fault[0] ? a->stuck_fault : a->contain_fault[0] ? a->contain_fault : NULL;

    for (size_t i = 0; a->inventories && i < a->count; i++) {
        Wire__NodeInventory *inv = a->inventories[i];

        free(inv->fault);
        inv->fault = mem_copy(text);
        inv->has_fault_mask = a->gpu_faulty != 0;
        inv->fault_mask = a->gpu_faulty;
    }
}

void inventory_tell(struct agent *a)
{
    for (size_t i = 0; i < a->count; i++)
        node_register(&a->nodes[i]);
}

static void fault_change(struct agent *a, char *kept, size_t size, const char *text, bool more)
{
    if (!strcmp(kept, text ? text : "") && !more)
        return;
    if (text && strcmp(kept, text))
        log_line(SPUR_LOG_ERROR, "health: %s", text);
    else if (!text)
        log_line(SPUR_LOG_INFO, "health: all is well again");
    snprintf(kept, size, "%s", text ? text : "");
    faults_put(a);
    inventory_tell(a);
}

void inventory_health(struct agent *a, uint64_t faulty, const char *text)
{
    bool more = faulty != a->gpu_faulty;

    a->gpu_faulty = faulty;
    fault_change(a, a->gpu_fault, sizeof a->gpu_fault, text, more);
}

void inventory_program(struct agent *a, const char *text)
{
    fault_change(a, a->program_fault, sizeof a->program_fault, text, false);
}

void inventory_contain(struct agent *a, const char *text)
{
    fault_change(a, a->contain_fault, sizeof a->contain_fault, text, false);
}

void inventory_stuck(struct agent *a, const char *text)
{
    fault_change(a, a->stuck_fault, sizeof a->stuck_fault, text, false);
}

/* Everything has been asked. */
static void taking_over(struct taking *t)
{
    struct agent *a = t->agent;

    inventory_free(a);
    a->taking = NULL;
    a->devices = t->devices = devices_make(&t->rig);
    a->inventories = mem_array(a->count + 1, sizeof *a->inventories);
    for (size_t i = 0; i < a->count; i++)
        a->nodes[i].inventory = a->inventories[i] = inventory_make(a, i, t);
    if (t->fault.code)
        log_line(SPUR_LOG_ERROR, "inventory: %s", t->fault.text);
    snprintf(a->scan_fault, sizeof a->scan_fault, "%s", t->fault.code ? t->fault.text : "");
    a->gpu_faulty = t->health.faulty;
    snprintf(a->gpu_fault, sizeof a->gpu_fault, "%s", t->health.faulty ? t->health.text : "");
    if (a->gpu_fault[0])
        log_line(SPUR_LOG_ERROR, "health: %s", a->gpu_fault);
    faults_put(a);
    a->gpus = t->rows.count ? mem_copy_bytes(t->rows.list, t->rows.count * sizeof *t->rows.list) : NULL;
    a->gpu_count = t->rows.count;
    scan_rows_fini(&t->rows);
    rig_fini(&t->rig);
    if (!a->is_stopping) {
        t->then(a);
        if (a->take_again)
            inventory_take(a, inventory_tell);
    }
    a->take_again = false;
    free(t);
}

static void probed(struct agent *a, struct gpus_answer *take)
{
    struct taking *t = a->taking;
    const struct settings *set = a->set;

    t->fault = take->fault;
    t->health = take->health;
    t->rows = take->rows;
    t->rig = take->rig;
    if (!t->rig.cores_per_socket)
        t->rig.cores_per_socket = set->emulate_hardware ? set->nodes[0].cores_per_socket : t->hardware.cores_per_socket;
    if (!t->fault.code && rig_take(&t->rig, &t->rows))
        rig_paths(t->rig.gpus, t->rig.gpu_count);
    taking_over(t);
}

static void emulated_rig(struct taking *t)
{
    if (t->agent->set->emulate_topology && !settings_autodetect(t->agent->set) && !t->fault.code) {
        rig_fini(&t->rig);
        if (rig_read(t->agent->set->emulate_topology, &t->rig, &t->fault) < 0)
            spur_context(&t->fault, "emulate_topology");
    }
}

static void emulated_probed(struct agent *a, struct gpus_answer *take)
{
    struct taking *t = a->taking;

    t->fault = take->fault;
    t->health = take->health;
    emulated_rig(t);
    take->fault = t->fault;
    if (a->set->emulate_topology && !settings_autodetect(a->set) && !t->fault.code) {
        t->rows = take->rows;
        rig_fini(&take->rig);
        taking_over(t);
    } else {
        probed(a, take);
    }
}

static void hardware_work(uv_work_t *w)
{
    struct taking *t = w->data;

    if (!t->agent->set->emulate_hardware)
        hardware_ask(&t->hardware, HARDWARE_DEADLINE_MS);
}

static void hardware_done(uv_work_t *w, int status)
{
    struct taking *t = w->data;
    struct agent *a = t->agent;
    const struct settings *set = a->set;

    (void)status;
    free(a->cores);
    a->cores = t->hardware.cores;
    t->hardware.cores = NULL;
    if (a->is_stopping || a->is_emulated || !(set->gres_line_count || settings_autodetect(set) || (set->gres_types && *set->gres_types))) {
        if (!a->is_stopping)
            emulated_rig(t);
        taking_over(t);
        return;
    }
    gpus_ask(a, set->emulate_hardware ? emulated_probed : probed);
}

void inventory_take(struct agent *a, void (*then)(struct agent *a))
{
    struct taking *t;

    if (a->taking) {        /* the settings have changed meanwhile: once more when this one is through */
        a->take_again = true;
        return;
    }
    t = mem_alloc(sizeof *t);
    a->taking = t;
    t->agent = a;
    t->then = then;
    t->work.data = t;
    uv_timer_stop(&a->gpu_timer);
    uv_queue_work(a->loop, &t->work, hardware_work, hardware_done);
}

/* ---- spurd -C ---- */

static void printed(struct agent *a, struct gpus_answer *take)
{
    struct rig *rig = mem_alloc(sizeof *rig);

    *rig = take->rig;
    if (!take->fault.code && rig_take(rig, &take->rows))
        rig_paths(rig->gpus, rig->gpu_count);
    if (take->fault.code)
        fprintf(stderr, "spurd: %s\n", take->fault.text);
    scan_rows_fini(&take->rows);
    a->printed = rig;
    gpus_stop(a);
}

/* "gpu:mi250x:8", types in the order of the devices. */
static void gres_text(const struct rig *m, struct str *out)
{
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        uint32_t count = 0;
        bool is_first = true;

        for (uint32_t k = 0; k < m->gpu_count; k++) {
            bool same = !strcmp(m->gpus[k].type, m->gpus[i].type);

            count += same;
            is_first = is_first && !(same && k < i);
        }
        if (is_first)
            str_addf(out, "%sgpu:%s:%u", out->len ? "," : "", m->gpus[i].type, count);
    }
}

static struct rig *rig_of_this_host(void)
{
    struct settings_node node = { .gres_count = 0 };
    struct settings set = { .nodes = &node, .autodetect = (char *)(uintptr_t)"full", .gpu_deadline_s = HARDWARE_DEADLINE_MS / 1000, .gpu_interval_s = 1 };
    struct agent *a = mem_alloc(sizeof *a);
    struct rig *rig;
    uv_loop_t loop;

    uv_loop_init(&loop);
    a->loop = &loop;
    a->set = &set;
    a->is_stopping = true;      /* nothing is looked at again */
    gpus_ask(a, printed);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    rig = a->printed;
    free(a);
    return rig;
}

int inventory_print(const char *name)
{
    struct hardware h;
    struct sysinfo info;
    char host[256] = "localhost";
    struct rig *rig = rig_of_this_host();
    struct str gres;

    hardware_ask(&h, HARDWARE_DEADLINE_MS);
    free(h.cores);
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    str_init(&gres);
    gres_text(rig, &gres);
    printf("NodeName=%s CPUs=%u Boards=%u SocketsPerBoard=%u CoresPerSocket=%u ThreadsPerCore=%u RealMemory=%llu%s%s\n", name ? name : host, h.cpus, h.boards,
           h.sockets, h.cores_per_socket, h.threads_per_core, (unsigned long long)h.mem_mib, gres.len ? " Gres=" : "", gres.text);
    if (sysinfo(&info) == 0)
        printf("UpTime=%ld-%02ld:%02ld:%02ld\n", info.uptime / 86400, info.uptime / 3600 % 24, info.uptime / 60 % 60, info.uptime % 60);
    if (rig->gpu_count) {
        str_clear(&gres);
        rig_print(rig, &gres);
        rig_print_gres(rig, name ? name : host, &gres);
        printf("# for gres.conf:\n%s", gres.text);
    }
    str_fini(&gres);
    rig_fini(rig);
    free(rig);
    return 0;
}
