/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c - from the rows of gpu plugins to a rig. */
#include <stdlib.h>
#include <string.h>

#include "hardware/scan.h"

#define ROOM_FIRST 64
#define ROOM_MAX 65536

int rows_scan(const struct loaded *plugin, const struct spur_gres_line *lines, uint32_t line_count, const char *root, bool emulate, struct rows *out, struct spur_error *err)
{
    const struct spur_gpu_ops *ops = loader_ops(plugin);
    struct spur_gpu_found found = { .size = sizeof found, .gpu_size = sizeof(struct spur_gpu), .room = ROOM_FIRST };
    int rc;

    *out = (struct rows){ 0 };
    do {
        free(found.gpus);
        found.gpus = mem_array(found.room, sizeof *found.gpus);
        rc = ops->scan(plugin->self, lines, line_count, sizeof *lines, root, emulate, &found, err);
        if (rc != SPUR_ELIMIT || found.count <= found.room)
            break;
        found.room = found.count;
    } while (found.room <= ROOM_MAX);
    if (rc < 0) {
        free(found.gpus);
        return rc;
    }
    out->list = found.gpus;
    out->count = found.count;
    err->code = 0;
    err->text[0] = '\0';
    return 0;
}

void scan_rows_fini(struct rows *r)
{
    free(r->list);
    *r = (struct rows){ 0 };
}

static bool has_number(const struct spur_gpu *g)
{
    return !strcmp(g->name, "gpu") && !(g->flags & SPUR_GPU_COUNT_ONLY);
}

bool rig_take(struct rig *m, const struct rows *from)
{
    uint32_t wanted = 0, first = m->gpu_count;

    for (uint32_t i = 0; i < from->count; i++)
        wanted += has_number(&from->list[i]);
    for (uint32_t index = 0; index < wanted; index++) {
        uint32_t i = 0;

        while (i < from->count && !(has_number(&from->list[i]) && from->list[i].index == index))
            i++;
        if (i == from->count || m->gpu_count == SPUR_GPU_MAX) {
            m->gpu_count = first;
            return false;
        }
        *rig_gpu_add(m) = from->list[i];
    }
    return true;
}

void rig_match(struct rig *m, const struct rig *known)
{
    int place[SPUR_GPU_MAX];

    m->sockets = known->sockets;
    m->cores_per_socket = known->cores_per_socket;
    m->threads_per_core = known->threads_per_core;
    m->numa_nodes = known->numa_nodes;
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        struct spur_gpu *g = &m->gpus[i];

        place[i] = -1;
        for (uint32_t k = 0; k < known->gpu_count && g->pci[0] && place[i] < 0; k++)
            if (!strcmp(known->gpus[k].pci, g->pci))
                place[i] = (int)k;
        if (place[i] < 0)
            continue;
        if (known->gpus[place[i]].numa >= 0)
            g->numa = known->gpus[place[i]].numa;
        if (!g->cores[0])
            snprintf(g->cores, sizeof g->cores, "%s", known->gpus[place[i]].cores);
        g->pcie_switch = known->gpus[place[i]].pcie_switch;
        if (!g->pcie_mbps)
            g->pcie_mbps = known->gpus[place[i]].pcie_mbps;
        for (uint32_t k = 0; k < i; k++)
            if (place[k] >= 0 && known->gpus[place[i]].path[place[k]])
                g->path[k] = m->gpus[k].path[i] = known->gpus[place[i]].path[place[k]];
    }
    for (uint32_t i = 0; i < known->nic_count && m->nic_count < RIG_NICS_MAX; i++)
        *rig_nic_add(m) = known->nics[i];
}
