/* SPDX-License-Identifier: Apache-2.0 */
/* cores.c - sockets, cores, threads and NUMA nodes one by one, for the binding of tasks.
 *
 * hwloc is asked in the helper process that counts the hardware (hardware.c), which prints a line a core; the agent keeps them in a few numbers a
 * core. Core i of a job is hwloc's i-th core: both count socket by socket. Where the line of slurm.conf says another shape than the machine has,
 * numbers mean nothing and no binding is offered.
 */
#include "agent/cores.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "agent/settings.h"
#include "base/bitmap.h"
#include "base/str.h"
#include "state/cpubind.h"

#define CALLS(X) X(hwloc_topology_init) X(hwloc_topology_destroy) X(hwloc_topology_set_xml) X(hwloc_topology_load) X(hwloc_get_type_depth) \
    X(hwloc_get_nbobjs_by_depth) X(hwloc_get_obj_by_depth) X(hwloc_bitmap_first) X(hwloc_bitmap_next) X(hwloc_bitmap_isincluded)
struct calls {
#define CALL_MEMBER(name) __typeof__(&name) name;
    CALLS(CALL_MEMBER)
#undef CALL_MEMBER
};

static bool library(struct calls *c)
{
    static const char *const names[] = { "libhwloc.so.15", "libhwloc.so", NULL };
    void *lib = NULL;
    bool whole = true;

    for (int i = 0; names[i] && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW);
    if (!lib)
        return false;
#define CALL_FIND(name) *(void **)&c->name = dlsym(lib, #name); whole = whole && c->name;
    CALLS(CALL_FIND)
#undef CALL_FIND
    return whole;       /* the library stays: this process is a helper or a test */
}

/* Number of the object of that type that holds `o`'s CPUs; 0 when there is none. */
static unsigned above(const struct calls *c, hwloc_topology_t t, hwloc_obj_type_t type, hwloc_obj_t o)
{
    int depth = c->hwloc_get_type_depth(t, type);
    unsigned n = depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE ? 0 : c->hwloc_get_nbobjs_by_depth(t, depth);

    for (unsigned i = 0; i < n; i++) {
        hwloc_obj_t at = c->hwloc_get_obj_by_depth(t, depth, i);

        if (at && at->cpuset && c->hwloc_bitmap_isincluded(o->cpuset, at->cpuset))
            return at->logical_index;
    }
    return 0;
}

int cores_print(const char *xml, FILE *out)
{
    struct calls c = { 0 };
    hwloc_topology_t t;
    unsigned n = 0;
    int depth;

    if (!library(&c) || c.hwloc_topology_init(&t) < 0)
        return -1;
    if ((!xml || c.hwloc_topology_set_xml(t, xml) == 0) && c.hwloc_topology_load(t) == 0) {
        depth = c.hwloc_get_type_depth(t, HWLOC_OBJ_CORE);
        if (depth < 0)
            depth = c.hwloc_get_type_depth(t, HWLOC_OBJ_PU);
        n = depth < 0 ? 0 : c.hwloc_get_nbobjs_by_depth(t, depth);
        for (unsigned i = 0; i < n; i++) {
            hwloc_obj_t o = c.hwloc_get_obj_by_depth(t, depth, i);

            fprintf(out, "%u %u", above(&c, t, HWLOC_OBJ_PACKAGE, o), above(&c, t, HWLOC_OBJ_NUMANODE, o));
            for (int pu = c.hwloc_bitmap_first(o->cpuset); pu >= 0; pu = c.hwloc_bitmap_next(o->cpuset, pu))
                fprintf(out, " %d", pu);
            fputc('\n', out);
        }
    }
    c.hwloc_topology_destroy(t);
    return n ? 0 : -1;
}

struct cores *cores_read(const char *lines)
{
    uint32_t count = 0, pus = 0, core = 0, at = 0;
    const char *p = lines;
    struct cores *c;
    char *room;

    for (const char *q = lines; *q; q++) {
        count += *q == '\n';
        pus += *q == ' ';
    }
    if (!count || pus < 2 * count || pus > 1u << 20)
        return NULL;
    c = mem_alloc(sizeof *c + (count + 1u) * sizeof(uint32_t) + pus * sizeof(uint32_t) + 2u * count * sizeof(uint16_t));
    room = (char *)(c + 1);
    c->first = (uint32_t *)(void *)room;
    c->pu = c->first + count + 1;
    c->socket = (uint16_t *)(void *)(c->pu + pus);
    c->ldom = c->socket + count;
    c->count = count;
    for (; *p; p++) {
        uint64_t socket, ldom, pu;

        if (!number_at(&p, &socket) || *p++ != ' ' || !number_at(&p, &ldom) || *p != ' ' || socket > UINT16_MAX || ldom > UINT16_MAX)
            break;
        c->socket[core] = (uint16_t)socket;
        c->ldom[core] = (uint16_t)ldom;
        c->first[core++] = at;
        while (*p == ' ') {
            p++;
            if (!number_at(&p, &pu) || pu > UINT32_MAX) {
                free(c);
                return NULL;
            }
            c->pu[at++] = (uint32_t)pu;
        }
        if (*p != '\n')
            break;
    }
    c->first[core] = at;
    if (*p || core != count) {
        free(c);
        return NULL;
    }
    return c;
}

bool cores_cpus(const struct cores *c, const struct bitmap *set, struct str *out)
{
    struct bitmap cpus;
    uint32_t most = 0;

    if (!c || bitmap_empty(set) || bitmap_last(set) >= c->count)
        return false;
    for (uint32_t i = 0; i < c->first[c->count]; i++)
        most = c->pu[i] > most ? c->pu[i] : most;
    if (most >= CPUBIND_CPUS)
        return false;
    bitmap_init(&cpus, (size_t)most + 1);
    for (size_t core = bitmap_first(set); core < set->bits; core = bitmap_next(set, core))
        for (uint32_t i = c->first[core]; i < c->first[core + 1]; i++)
            bitmap_set(&cpus, c->pu[i]);
    bitmap_print(&cpus, out);
    bitmap_fini(&cpus);
    return true;
}

/* ---- orders ---- */

static Wire__CpuCore *row_add(Wire__StepOrder *o, uint32_t socket, uint32_t ldom, uint32_t threads)
{
    Wire__CpuCore *row = mem_alloc(sizeof *row + threads * sizeof *row->pus);

    wire__cpu_core__init(row);
    row->has_socket = row->has_ldom = true;
    row->socket = socket;
    row->ldom = ldom;
    row->n_pus = threads;
    row->pus = (uint32_t *)(void *)(row + 1);
    o->cores[o->n_cores++] = row;
    return row;
}

void cores_order(const struct cores *c, const struct settings_node *line, int emulated, Wire__StepOrder *o)
{
    uint32_t n = line->sockets * line->cores_per_socket;

    if (emulated) {             /* numbered as Linux does: first threads of all cores, then the second ones */
        o->cores = mem_array(n + 1u, sizeof *o->cores);
        for (uint32_t i = 0; i < n; i++) {
            Wire__CpuCore *row = row_add(o, i / line->cores_per_socket, i / line->cores_per_socket, line->threads_per_core);

            for (uint32_t t = 0; t < line->threads_per_core; t++)
                row->pus[t] = i + t * n;
        }
        o->has_cores_emulated = o->cores_emulated = true;
        return;
    }
    if (!c || c->count != n)
        return;
    o->cores = mem_array(n + 1u, sizeof *o->cores);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t threads = c->first[i + 1] - c->first[i];
        Wire__CpuCore *row = row_add(o, c->socket[i], c->ldom[i], threads);

        memcpy(row->pus, c->pu + c->first[i], threads * sizeof *row->pus);
    }
}

void cores_order_free(Wire__StepOrder *o)
{
    for (size_t i = 0; i < o->n_cores; i++)
        free(o->cores[i]);
    free(o->cores);
}
