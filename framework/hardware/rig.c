/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - the rows of a machine, and the table that placement computes with.
 *
 * What a pair of GPUs without a link is worth is the share of the slower of their two PCIe ports: 0.8 behind one switch, 0.7 behind several,
 * 0.6 within a NUMA node, 0.4 across. Only the order of these matters to placement; they are the shares that published measurements lie
 * near. A pair that is joined over other GPUs' links has no capacity of its own and counts 0: what crosses it is taken from the direct pairs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "hardware/rig.h"

#define PCIE_DEFAULT_MBPS 16000     /* third generation, 16 lanes: when the port's speed is unknown */
#define CORES_MAX 65536

void rig_fini(struct rig *m)
{
    free(m->gpus);
    free(m->nics);
    memset(m, 0, sizeof *m);
}

struct spur_gpu *rig_gpu_add(struct rig *m)
{
    struct spur_gpu *g;

    m->gpus = mem_grow(m->gpus, m->gpu_count + 1, sizeof *m->gpus);
    g = &m->gpus[m->gpu_count];
    memset(g, 0, sizeof *g);
    g->index = g->card = m->gpu_count++;
    snprintf(g->name, sizeof g->name, "gpu");
    g->count = 1;
    g->numa = g->pcie_switch = -1;
    return g;
}

struct spur_nic *rig_nic_add(struct rig *m)
{
    struct spur_nic *n;

    m->nics = mem_grow(m->nics, m->nic_count + 1, sizeof *m->nics);
    n = &m->nics[m->nic_count++];
    memset(n, 0, sizeof *n);
    n->pcie_switch = n->numa = -1;
    return n;
}

void rig_type(const char *words, char *out, size_t size)
{
    size_t n = 0;

    for (; *words && n + 1 < size; words++) {
        char c = *words >= 'A' && *words <= 'Z' ? (char)(*words + 32) : *words;

        if (c == '(' || c == ')')       /* Slurm's lists of devices have their own use of these */
            continue;
        out[n++] = (c >= 'a' && c <= 'z') || is_digit(c) || strchr("-._", c) ? c : '_';
    }
    out[n] = '\0';
}

uint32_t rig_link_mbps(const struct spur_gpu *g)
{
    static const struct { const char *word; uint32_t mbps; } speeds[] = {
        { "gb200", 50000 }, { "gb300", 50000 }, { "b200", 50000 }, { "b100", 50000 }, { "b300", 50000 }, { "p100", 20000 }, { "mi300", 64000 }, { "mi308", 64000 },
        { "mi325", 64000 }, { "mi350", 77000 }, { "mi355", 77000 } };

    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (strstr(g->type, speeds[i].word))
            return speeds[i].mbps;
    return g->flags & SPUR_GPU_ENV_ROCM && !(g->flags & SPUR_GPU_ENV_CUDA) ? 50000 : 25000;
}

/* In hundredths of the port's speed. */
static uint32_t path_share(const struct spur_gpu *a, const struct spur_gpu *b)
{
    static const uint8_t shares[] = { [SPUR_PATH_BOARD] = 90, [SPUR_PATH_SWITCH] = 80, [SPUR_PATH_SWITCHES] = 70, [SPUR_PATH_BRIDGE] = 60,
                                      [SPUR_PATH_NUMA] = 60, [SPUR_PATH_SYSTEM] = 40 };
    unsigned path = b->index < SPUR_GPU_MAX ? a->path[b->index] : SPUR_PATH_UNKNOWN;

    if (path > SPUR_PATH_UNKNOWN && path < sizeof shares)
        return shares[path];
    if (a->pcie_switch >= 0 && a->pcie_switch == b->pcie_switch)
        return shares[SPUR_PATH_SWITCH];
    return a->numa >= 0 && a->numa == b->numa ? shares[SPUR_PATH_NUMA] : shares[SPUR_PATH_SYSTEM];
}

void rig_paths(struct spur_gpu *gpus, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count; k++) {
            struct spur_gpu *a = &gpus[i], *b = &gpus[k];
            uint32_t speed = a->pcie_mbps && b->pcie_mbps ? (a->pcie_mbps < b->pcie_mbps ? a->pcie_mbps : b->pcie_mbps) : a->pcie_mbps | b->pcie_mbps;
            uint32_t mbps = a->mbps[k] < b->mbps[i] ? a->mbps[k] : b->mbps[i];
            int32_t links = a->links[k] < b->links[i] ? a->links[k] : b->links[i];

            if (!mbps && !(a->hops >> k & 1) && !(b->hops >> i & 1))
                mbps = (uint32_t)((uint64_t)(speed ? speed : PCIE_DEFAULT_MBPS) * path_share(a, b) / 100);
            a->mbps[k] = b->mbps[i] = mbps;
            a->links[k] = b->links[i] = links > 0 ? links : 0;
        }
    for (uint32_t i = 0; i < count; i++) {
        gpus[i].links[i] = -1;
        gpus[i].mbps[i] = 0;
    }
}

struct spur_device_table *rig_table(const struct rig *m)
{
    uint32_t n = m->gpu_count < SPUR_DEVICES_MAX ? m->gpu_count : SPUR_DEVICES_MAX, core_words = 0;
    struct bitmap near[SPUR_DEVICES_MAX];
    struct spur_device_table *t;
    struct spur_nic *nics;
    uint64_t *cores;
    uint32_t *mbps;
    int16_t *numa, *socket, *pcie_switch;
    uint16_t *card;
    uint8_t *links;

    if (!n)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t words;

        bitmap_init(&near[i], CORES_MAX);
        if (m->gpus[i].cores[0] && bitmap_parse(&near[i], m->gpus[i].cores, NULL) < 0)
            bitmap_zero(&near[i]);
        words = bitmap_empty(&near[i]) ? 0 : (uint32_t)(bitmap_last(&near[i]) / 64 + 1);
        core_words = words > core_words ? words : core_words;
    }
    t = mem_alloc(sizeof *t + (size_t)n * core_words * sizeof *cores + m->nic_count * sizeof *nics + (size_t)n * n * sizeof *mbps +
                  (size_t)n * (3 * sizeof *numa + sizeof *card) + (size_t)n * n);
    cores = (uint64_t *)(void *)(t + 1);
    nics = (struct spur_nic *)(void *)(cores + (size_t)n * core_words);
    mbps = (uint32_t *)(void *)(nics + m->nic_count);
    numa = (int16_t *)(void *)(mbps + (size_t)n * n);
    socket = numa + n;
    pcie_switch = socket + n;
    card = (uint16_t *)(pcie_switch + n);
    links = (uint8_t *)(card + n);
    for (uint32_t i = 0; i < n; i++) {
        const struct spur_gpu *g = &m->gpus[i];

        numa[i] = (int16_t)g->numa;
        socket[i] = m->cores_per_socket && !bitmap_empty(&near[i]) ? (int16_t)(bitmap_first(&near[i]) / m->cores_per_socket) : -1;
        pcie_switch[i] = (int16_t)g->pcie_switch;
        card[i] = (uint16_t)g->card;
        for (uint32_t k = 0; k < n; k++) {
            mbps[i * n + k] = k == i ? 0 : g->mbps[k];
            links[i * n + k] = (uint8_t)(k == i || g->links[k] < 0 ? 0 : g->links[k] > UINT8_MAX ? UINT8_MAX : g->links[k]);
        }
        if (core_words)
            memcpy(cores + (size_t)i * core_words, near[i].words, core_words * sizeof *cores);
    }
    if (m->nic_count)
        memcpy(nics, m->nics, m->nic_count * sizeof *nics);
    *t = (struct spur_device_table){ .size = sizeof *t, .id = 1, .count = n, .mbps = mbps, .links = links, .numa = numa, .socket = socket, .pcie_switch = pcie_switch,
                                     .card = card, .near_cores = cores, .core_words = core_words, .nics = nics, .nic_count = m->nic_count, .nic_size = sizeof *nics };
    for (uint32_t i = 0; i < n; i++)
        bitmap_fini(&near[i]);
    return t;
}

/* ---- for people ---- */

void rig_print_gres(const struct rig *m, const char *node, struct str *out)
{
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        const struct spur_gpu *g = &m->gpus[i];

        if (node)
            str_addf(out, "NodeName=%s ", node);
        str_addf(out, "Name=%s", g->name);
        if (g->type[0])
            str_addf(out, " Type=%s", g->type);
        if (g->file[0])
            str_addf(out, " %s=%s", strchr(g->file, ',') ? "MultipleFiles" : "File", g->file);
        if (g->cores[0])
            str_addf(out, " Cores=%s", g->cores);
        str_add(out, " Links=");
        for (uint32_t k = 0; k < m->gpu_count; k++)
            str_addf(out, "%s%d", k ? "," : "", k == i ? -1 : (int)g->links[k]);
        if ((g->flags & (SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM)) == SPUR_GPU_ENV_CUDA)
            str_add(out, " Flags=nvidia_gpu_env");
        else if ((g->flags & (SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM)) == SPUR_GPU_ENV_ROCM)
            str_add(out, " Flags=amd_gpu_env");
        str_add_char(out, '\n');
    }
}

static void number_or_dash(struct str *out, const char *name, int n)
{
    if (n >= 0)
        str_addf(out, " %s %d", name, n);
}

static void matrix_print(const struct rig *m, const char *title, bool is_mbps, struct str *out)
{
    str_addf(out, "# %-5s", title);
    for (uint32_t k = 0; k < m->gpu_count; k++)
        str_addf(out, " %6u", k);
    str_add_char(out, '\n');
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        str_addf(out, "# %5u", i);
        for (uint32_t k = 0; k < m->gpu_count; k++)
            if (i == k)
                str_add(out, "      x");
            else if (is_mbps)
                str_addf(out, " %6.5g", m->gpus[i].mbps[k] / 1000.0);
            else
                str_addf(out, " %6d", (int)m->gpus[i].links[k]);
        str_add_char(out, '\n');
    }
}

void rig_print(const struct rig *m, struct str *out)
{
    for (uint32_t i = 0; i < m->gpu_count; i++) {
        const struct spur_gpu *g = &m->gpus[i];

        str_addf(out, "# gpu %u: %s", i, g->type[0] ? g->type : "untyped");
        if (g->pci[0])
            str_addf(out, " pci %s", g->pci);
        number_or_dash(out, "numa", g->numa);
        number_or_dash(out, "switch", g->pcie_switch);
        if (g->card != i)
            str_addf(out, " part of card %u", g->card);
        if (g->uuid[0])
            str_addf(out, " uuid %s", g->uuid);
        if (g->fabric[0])
            str_addf(out, " fabric %s", g->fabric);
        str_add_char(out, '\n');
    }
    for (uint32_t i = 0; i < m->nic_count; i++) {
        str_addf(out, "# nic %s:", m->nics[i].name);
        number_or_dash(out, "numa", m->nics[i].numa);
        number_or_dash(out, "switch", m->nics[i].pcie_switch);
        if (m->nics[i].mbps)
            str_addf(out, " %u Gb/s", m->nics[i].mbps / 1000);
        str_add_char(out, '\n');
    }
    if (m->gpu_count > 1) {
        matrix_print(m, "links", false, out);
        matrix_print(m, "GB/s", true, out);
    }
}
