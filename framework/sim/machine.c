/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - reads a topology file (etc/topologies) and knows the best that such a node can give.
 *
 * The best sum of each size is found by looking at every set for nodes of up to 20 GPUs: it is the yardstick that placements are
 * measured with, so it owes nothing to the code it measures. Above that a set is grown from every start and mended by exchanges.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/machine.h"

#define EXACT_MAX 20

uint64_t machine_sum(const struct machine *m, uint64_t mask)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < m->gpus; i++)
        for (uint32_t k = i + 1; k < m->gpus; k++)
            if ((mask >> i & 1) && (mask >> k & 1))
                sum += m->mbps[i][k];
    return sum;
}

static uint64_t joined(const struct machine *m, uint64_t mask, uint32_t gpu)
{
    uint64_t sum = 0;

    for (uint64_t bits = mask; bits; bits &= bits - 1)
        sum += m->mbps[gpu][__builtin_ctzll(bits)];
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

/* ---- the file ------------------------------------------------------------------------------------------------------------- */
static int bad(const char *path, struct spur_error *err, const char *what)
{
    return spur_fail(err, SPUR_EINVAL, "%.120s: %s", path, what);
}

static uint32_t number(const json_t *object, const char *key, uint32_t fallback)
{
    const json_t *v = json_object_get(object, key);

    return json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) < 4e9 ? (uint32_t)json_number_value(v) : fallback;
}

static int place(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_integer(v) && json_integer_value(v) >= -1 && json_integer_value(v) < 32767 ? (int)json_integer_value(v) : -1;
}

static int read_matrix(const json_t *top, const char *key, double scale, uint32_t n, uint32_t out[SPUR_DEVICES_MAX][SPUR_DEVICES_MAX], const char *path, struct spur_error *err)
{
    const json_t *rows = json_object_get(top, key);

    if (json_array_size(rows) != n)
        return spur_fail(err, SPUR_EINVAL, "%.120s: \"%s\" has %zu rows, the file has %u GPUs", path, key, json_array_size(rows), n);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);

        if (json_array_size(row) != n)
            return spur_fail(err, SPUR_EINVAL, "%.120s: \"%s\", row %u has %zu numbers, the file has %u GPUs", path, key, i, json_array_size(row), n);
        for (uint32_t k = 0; k < n; k++) {
            double v = json_number_value(json_array_get(row, k)) * scale;

            if (!json_is_number(json_array_get(row, k)) || v < 0 || v > 4e9)
                return spur_fail(err, SPUR_EINVAL, "%.120s: \"%s\", row %u, column %u is no number of links or GB/s", path, key, i, k);
            out[i][k] = i == k ? 0 : (uint32_t)(v + 0.5);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (out[i][k] != out[k][i])
                return spur_fail(err, SPUR_EINVAL, "%.120s: \"%s\" is not symmetric: row %u, column %u", path, key, i, k);
    return 0;
}

static void read_name(const json_t *top, const char *path, struct machine *m)
{
    const char *slash = strrchr(path, '/'), *name = json_string_value(json_object_get(top, "name"));
    size_t n = 0;

    name = name && *name ? name : slash ? slash + 1 : path;
    for (; *name && *name != '.' && n + 1 < sizeof m->name; name++) {
        char c = *name;

        m->name[n++] = (char)((c >= 'A' && c <= 'Z') ? c + 32 : (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ? c : '_');
    }
    m->name[n] = '\0';
}

int machine_read(const char *path, struct machine *m, struct spur_error *err)
{
    json_error_t why;
    json_t *top = json_load_file(path, 0, &why);
    const json_t *cpu, *gpus, *nics;
    int rc = 0;

    memset(m, 0, sizeof *m);
    if (!top)
        return why.line > 0 ? spur_fail(err, SPUR_EINVAL, "%.120s:%d: no topology in JSON: %.80s", path, why.line, why.text) : spur_fail(err, SPUR_ENOTFOUND, "%.120s", why.text);
    cpu = json_object_get(top, "cpu");
    gpus = json_object_get(top, "gpus");
    nics = json_object_get(top, "nics");
    read_name(top, path, m);
    m->packages = number(cpu, "packages", 1);
    m->numa = number(cpu, "numa", m->packages);
    m->cores_per_numa = number(cpu, "cores_per_numa", 8);
    m->threads_per_core = number(cpu, "threads_per_core", 1);
    m->gpus = (uint32_t)json_array_size(gpus);
    if (!m->gpus || m->gpus > SPUR_DEVICES_MAX) {
        rc = spur_fail(err, SPUR_EINVAL, "%.120s: %zu GPUs; a node has 1 to %d", path, json_array_size(gpus), SPUR_DEVICES_MAX);
        goto out;
    }
    if (!m->packages || !m->numa || m->numa % m->packages || !m->cores_per_numa || !m->threads_per_core || m->packages > 64 || m->numa > 256 || m->cores_per_numa > 1024 ||
        m->threads_per_core > 16) {
        rc = bad(path, err, "\"cpu\" gives no processors (packages, numa, cores_per_numa, threads_per_core; numa a multiple of packages)");
        goto out;
    }
    for (uint32_t i = 0; i < m->gpus; i++) {
        const json_t *g = json_array_get(gpus, i);

        if (number(g, "index", i) != i) {
            rc = bad(path, err, "\"gpus\" are not in the order of their index");
            goto out;
        }
        m->gpu_numa[i] = place(g, "numa");
        m->gpu_switch[i] = place(g, "pcisw");
        m->card[i] = number(g, "card", i);
        if (m->gpu_numa[i] >= (int32_t)m->numa) {
            rc = bad(path, err, "a GPU is on a NUMA node that \"cpu\" does not have");
            goto out;
        }
    }
    if ((rc = read_matrix(top, "bw", 1000, m->gpus, m->mbps, path, err)) < 0)
        goto out;
    if (json_object_get(top, "links") && (rc = read_matrix(top, "links", 1, m->gpus, m->links, path, err)) < 0)
        goto out;
    for (size_t i = 0; i < json_array_size(nics) && m->nic_count < sizeof m->nics / sizeof *m->nics; i++) {
        const json_t *n = json_array_get(nics, i);
        const char *name = json_string_value(json_object_get(n, "name"));

        m->nics[m->nic_count].pcie_switch = place(n, "pcisw");
        m->nics[m->nic_count].numa = place(n, "numa");
        m->nics[m->nic_count].mbps = number(n, "gbps", 0) * 1000;
        memcpy(m->nics[m->nic_count].name, name ? name : "", name ? strnlen(name, 31) : 0);
        m->nic_count++;
    }
    if (m->gpus <= EXACT_MAX)
        best_exact(m);
    else
        best_grown(m);
out:
    json_decref(top);
    return rc;
}

Wire__DeviceTable *machine_devices(const struct machine *m, struct arena *a)
{
    Wire__DeviceTable *t = arena_alloc(a, sizeof *t);
    uint32_t n = m->gpus;

    wire__device_table__init(t);
    t->has_count = true;
    t->count = n;
    t->n_mbps = t->n_links = (size_t)n * n;
    t->mbps = arena_alloc(a, (size_t)n * n * sizeof *t->mbps);
    t->links = arena_alloc(a, (size_t)n * n * sizeof *t->links);
    t->n_numa = t->n_socket = t->n_pcie_switch = t->n_card = t->n_near_cores = n;
    t->numa = arena_alloc(a, n * sizeof *t->numa);
    t->socket = arena_alloc(a, n * sizeof *t->socket);
    t->pcie_switch = arena_alloc(a, n * sizeof *t->pcie_switch);
    t->card = arena_alloc(a, n * sizeof *t->card);
    t->near_cores = arena_alloc(a, n * sizeof *t->near_cores);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            t->mbps[i * n + k] = m->mbps[i][k];
            t->links[i * n + k] = m->links[i][k];
        }
        t->numa[i] = m->gpu_numa[i];
        t->socket[i] = m->gpu_numa[i] < 0 ? -1 : m->gpu_numa[i] / (int32_t)(m->numa / m->packages);
        t->pcie_switch[i] = m->gpu_switch[i];
        t->card[i] = m->card[i];
        t->near_cores[i] = m->gpu_numa[i] < 0 ? arena_copy(a, "") :
                           arena_printf(a, "%u-%u", (uint32_t)m->gpu_numa[i] * m->cores_per_numa, ((uint32_t)m->gpu_numa[i] + 1) * m->cores_per_numa - 1);
    }
    t->nics = arena_alloc(a, (m->nic_count + 1) * sizeof *t->nics);
    for (uint32_t i = 0; i < m->nic_count; i++) {
        Wire__DeviceNic *nic = arena_alloc(a, sizeof *nic);

        wire__device_nic__init(nic);
        nic->name = arena_copy(a, m->nics[i].name);
        nic->has_pcie_switch = nic->has_numa = nic->has_mbps = true;
        nic->pcie_switch = m->nics[i].pcie_switch;
        nic->numa = m->nics[i].numa;
        nic->mbps = m->nics[i].mbps;
        t->nics[t->n_nics++] = nic;
    }
    return t;
}
