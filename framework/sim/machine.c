/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - a type of node, and the best that it can give.
 *
 * The best sum of each size is found by looking at every set for nodes of up to 20 GPUs: it is the yardstick that placements are
 * measured with, so it owes nothing to the code it measures. Above that a set is grown from every start and mended by exchanges.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/machine.h"

#define EXACT_MAX 20

static uint64_t pair(const struct machine *m, uint32_t i, uint32_t k) { return m->table->mbps[(size_t)i * m->gpus + k]; }

uint64_t machine_sum(const struct machine *m, uint64_t mask)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < m->gpus; i++)
        for (uint32_t k = i + 1; k < m->gpus; k++)
            if ((mask >> i & 1) && (mask >> k & 1))
                sum += pair(m, i, k);
    return sum;
}

static uint64_t joined(const struct machine *m, uint64_t mask, uint32_t gpu)
{
    uint64_t sum = 0;

    for (uint64_t bits = mask; bits; bits &= bits - 1)
        sum += pair(m, gpu, (uint32_t)__builtin_ctzll(bits));
    return sum;
}

/* Every set's sum is that of the set without its lowest member, plus that member's links. */
static void best_exact(struct machine *m)
{
    size_t sets = (size_t)1 << m->gpus;
    uint64_t *sum = mem_array(sets, sizeof *sum);

    for (size_t mask = 1; mask < sets; mask++) {
        uint64_t rest = mask & (mask - 1);
        int k = __builtin_popcountll(mask);

        sum[mask] = sum[rest] + joined(m, rest, (uint32_t)__builtin_ctzll(mask));
        if (sum[mask] > m->best_mbps[k])
            m->best_mbps[k] = sum[mask];
    }
    free(sum);
}

static uint64_t exchange(const struct machine *m, uint64_t set, uint64_t all)
{
    for (bool better = true; better; ) {
        better = false;
        for (uint64_t in = set; in && !better; in &= in - 1)
            for (uint64_t out = all & ~set; out && !better; out &= out - 1) {
                uint64_t less = set & ~(in & -in), more = less | (out & -out);

                if (joined(m, less, (uint32_t)__builtin_ctzll(out)) > joined(m, less, (uint32_t)__builtin_ctzll(in))) {
                    set = more;
                    better = true;
                }
            }
    }
    return set;
}

static void best_grown(struct machine *m)
{
    uint64_t all = m->gpus < 64 ? (UINT64_C(1) << m->gpus) - 1 : UINT64_MAX;

    for (uint32_t start = 0; start < m->gpus; start++) {
        uint64_t set = UINT64_C(1) << start;

        for (uint32_t k = 2; k <= m->gpus; k++) {
            uint64_t most = 0, sum;
            uint32_t take = UINT32_MAX;

            for (uint64_t out = all & ~set; out; out &= out - 1) {
                uint32_t gpu = (uint32_t)__builtin_ctzll(out);
                uint64_t gain = joined(m, set, gpu);

                if (take == UINT32_MAX || gain > most) {
                    most = gain;
                    take = gpu;
                }
            }
            set |= UINT64_C(1) << take;
            sum = machine_sum(m, exchange(m, set, all));
            if (sum > m->best_mbps[k])
                m->best_mbps[k] = sum;
        }
    }
}

/* A KFD tree knows GPUs and little else: then eight cores a GPU, and no fewer than the lists of near cores name, on as many sockets as GPUs are on. */
static void cores_default(struct machine *m)
{
    uint32_t sockets = 1, cores = 8 * m->gpus;

    if (m->rig.sockets && m->rig.cores_per_socket)
        return;
    for (uint32_t i = 0; i < m->gpus; i++) {
        for (uint32_t w = 0; w < m->table->core_words; w++)
            for (uint64_t bits = m->table->near_cores[(size_t)i * m->table->core_words + w]; bits; bits &= bits - 1)
                cores = w * 64 + (uint32_t)__builtin_ctzll(bits) >= cores ? w * 64 + (uint32_t)__builtin_ctzll(bits) + 1 : cores;
        if (m->table->socket[i] >= (int32_t)sockets && m->table->socket[i] < 64)
            sockets = (uint32_t)m->table->socket[i] + 1;
    }
    m->rig.sockets = sockets;
    m->rig.cores_per_socket = (cores + sockets - 1) / sockets;
}

int machine_read(const char *path, struct machine *m, struct spur_error *err)
{
    int rc;

    memset(m, 0, sizeof *m);
    if ((rc = rig_read(path, &m->rig, err)) < 0)
        return rc;
    m->table = rig_table(&m->rig);
    if (!m->table) {
        machine_fini(m);
        return spur_fail(err, SPUR_EINVAL, "%.120s: a node without GPUs", path);
    }
    m->gpus = m->table->count;
    cores_default(m);
    m->type = m->rig.gpus[0].type[0] ? m->rig.gpus[0].type : "gpu";
    if (m->gpus <= EXACT_MAX)
        best_exact(m);
    else
        best_grown(m);
    return 0;
}

void machine_fini(struct machine *m)
{
    free((void *)(uintptr_t)m->table);
    rig_fini(&m->rig);
    memset(m, 0, sizeof *m);
}

Wire__DeviceTable *machine_devices(const struct machine *m, struct arena *a)
{
    const struct spur_device_table *from = m->table;
    Wire__DeviceTable *t = arena_alloc(a, sizeof *t);
    uint32_t n = m->gpus;

    wire__device_table__init(t);
    t->has_count = true;
    t->count = n;
    t->n_mbps = t->n_links = (size_t)n * n;
    t->mbps = arena_copy_bytes(a, from->mbps, (size_t)n * n * sizeof *t->mbps);
    t->links = arena_alloc(a, (size_t)n * n * sizeof *t->links);
    for (size_t i = 0; i < (size_t)n * n; i++)
        t->links[i] = from->links[i];
    t->n_numa = t->n_socket = t->n_pcie_switch = t->n_card = t->n_near_cores = n;
    t->numa = arena_alloc(a, n * sizeof *t->numa);
    t->socket = arena_alloc(a, n * sizeof *t->socket);
    t->pcie_switch = arena_alloc(a, n * sizeof *t->pcie_switch);
    t->card = arena_alloc(a, n * sizeof *t->card);
    t->near_cores = arena_alloc(a, n * sizeof *t->near_cores);
    for (uint32_t i = 0; i < n; i++) {
        t->numa[i] = from->numa[i];
        t->socket[i] = from->socket[i];
        t->pcie_switch[i] = from->pcie_switch[i];
        t->card[i] = from->card[i];
        t->near_cores[i] = arena_copy(a, m->rig.gpus[i].cores);
    }
    t->nics = arena_alloc(a, (m->rig.nic_count + 1) * sizeof *t->nics);
    for (uint32_t i = 0; i < m->rig.nic_count; i++) {
        Wire__DeviceNic *nic = arena_alloc(a, sizeof *nic);

        wire__device_nic__init(nic);
        nic->name = arena_copy(a, m->rig.nics[i].name);
        nic->has_pcie_switch = nic->has_numa = nic->has_mbps = true;
        nic->pcie_switch = m->rig.nics[i].pcie_switch;
        nic->numa = m->rig.nics[i].numa;
        nic->mbps = m->rig.nics[i].mbps;
        t->nics[t->n_nics++] = nic;
    }
    return t;
}
