/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - a node type from our topology files, etc/topologies/NAME.json: what sandboxes emulate and what the tests place on.
 *
 * Wanted: cpu {packages, numa, cores_per_numa, threads_per_core}, gpus [{bdf, numa, pcisw}]. Optional: vendor, gpu, nics [{name, numa, pcisw,
 * gbps}], links and bw (n x n; GB/s in one direction), oam (dies of one package), nvlink_domain_nodes. A matrix of the wrong size or with
 * unequal halves is refused with row and column.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "hardware/rig.h"

struct reading { const char *path; json_t *top; struct rig *m; struct spur_error *err; };

static long number(const json_t *o, const char *key, long absent)
{
    const json_t *v = json_object_get(o, key);

    return json_is_integer(v) ? (long)json_integer_value(v) : absent;
}

static const char *text(const json_t *o, const char *key)
{
    const char *v = json_string_value(json_object_get(o, key));

    return v ? v : "";
}

static int cpus_read(struct reading *r, long *per_numa)
{
    const json_t *cpu = json_object_get(r->top, "cpu");
    long packages = number(cpu, "packages", 0), numa = number(cpu, "numa", 0), threads = number(cpu, "threads_per_core", 0);

    *per_numa = number(cpu, "cores_per_numa", 0);
    if (packages < 1 || numa < 1 || threads < 1 || *per_numa < 1 || packages > 64 || numa > 1024 || threads > 16 || *per_numa > 1024)
        return spur_fail(r->err, SPUR_EINVAL, "%s: cpu wants packages, numa, cores_per_numa and threads_per_core above 0", r->path);
    r->m->sockets = (uint32_t)packages;
    r->m->numa_nodes = (uint32_t)numa;
    r->m->cores_per_socket = (uint32_t)(numa * *per_numa / packages);
    r->m->threads_per_core = (uint32_t)threads;
    return 0;
}

static int gpus_read(struct reading *r, long per_numa)
{
    const json_t *list = json_object_get(r->top, "gpus"), *row;
    bool is_amd = strcmp(text(r->top, "vendor"), "amd") == 0;
    size_t i;

    if (!json_array_size(list) || json_array_size(list) > SPUR_GPU_MAX)
        return spur_fail(r->err, SPUR_EINVAL, "%s: %zu gpus; 1 to %d are possible", r->path, json_array_size(list), SPUR_GPU_MAX);
    json_array_foreach(list, i, row) {
        struct spur_gpu *g = rig_gpu_add(r->m);
        long numa = number(row, "numa", -1);

        rig_type(*text(r->top, "gpu") ? text(r->top, "gpu") : "gpu", g->type, sizeof g->type);
        snprintf(g->pci, sizeof g->pci, "%s", text(row, "bdf"));
        snprintf(g->file, sizeof g->file, is_amd ? "/dev/dri/renderD%zu" : "/dev/nvidia%zu", is_amd ? 128 + i : i);
        g->flags = is_amd ? SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL : SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_OPENCL;
        g->numa = (int32_t)numa;
        if (numa >= 0 && numa < (long)r->m->numa_nodes)
            snprintf(g->cores, sizeof g->cores, "%ld-%ld", numa * per_numa, (numa + 1) * per_numa - 1);
        g->pcie_switch = (int32_t)number(row, "pcisw", -1);
        g->pcie_mbps = (uint32_t)(1000 * number(r->top, "pcie_gbs", 0));
    }
    return 0;
}

/* bw and links: n x n each. */
static int matrix_read(struct reading *r, const char *key, bool is_bandwidth)
{
    const json_t *rows = json_object_get(r->top, key), *row;
    size_t n = r->m->gpu_count, i, k;

    if (!rows)
        return 0;
    if (json_array_size(rows) != n)
        return spur_fail(r->err, SPUR_EINVAL, "%s: %s has %zu rows for %zu gpus", r->path, key, json_array_size(rows), n);
    json_array_foreach(rows, i, row) {
        if (json_array_size(row) != n)
            return spur_fail(r->err, SPUR_EINVAL, "%s: %s row %zu has %zu places for %zu gpus", r->path, key, i, json_array_size(row), n);
        for (k = 0; k < n; k++) {
            double v = json_number_value(json_array_get(row, k)), back = json_number_value(json_array_get(json_array_get(rows, k), i));

            if (!json_is_number(json_array_get(row, k)) || !(v >= 0) || v > 1e6)
                return spur_fail(r->err, SPUR_EINVAL, "%s: %s row %zu column %zu: a number from 0 is wanted", r->path, key, i, k);
            if (v != back)      /* read from equal texts */
                return spur_fail(r->err, SPUR_EINVAL, "%s: %s row %zu column %zu is %g, row %zu column %zu is %g", r->path, key, i, k, v, k, i, back);
            if (i == k)
                continue;
            if (is_bandwidth)
                r->m->gpus[i].mbps[k] = (uint32_t)lround(v * 1000);
            else
                r->m->gpus[i].links[k] = (int32_t)v;
        }
    }
    return 0;
}

static void nics_read(struct reading *r)
{
    const json_t *list = json_object_get(r->top, "nics"), *row;
    size_t i;

    json_array_foreach(list, i, row) {
        struct spur_nic *n = rig_nic_add(r->m);

        snprintf(n->name, sizeof n->name, "%s", text(row, "name"));
        n->numa = (int16_t)number(row, "numa", -1);
        n->pcie_switch = (int16_t)number(row, "pcisw", -1);
        n->mbps = (uint32_t)(1000 * number(row, "gbps", 0));
    }
}

int rig_from_json(const char *path, struct rig *out, struct spur_error *err)
{
    struct reading r = { .path = path, .m = out, .err = err };
    json_error_t bad;
    long per_numa;
    int rc;

    r.top = json_load_file(path, 0, &bad);
    if (!r.top)
        return spur_fail(err, SPUR_ESYNTAX, "%s:%d: %s", path, bad.line, bad.text);
    snprintf(out->name, sizeof out->name, "%s", text(r.top, "name"));
    out->fabric_nodes = (uint32_t)number(r.top, "nvlink_domain_nodes", 0);
    if ((rc = cpus_read(&r, &per_numa)) == 0 && (rc = gpus_read(&r, per_numa)) == 0 && (rc = matrix_read(&r, "links", false)) == 0 &&
        (rc = matrix_read(&r, "bw", true)) == 0) {
        bool has_bw = json_object_get(r.top, "bw");

        nics_read(&r);
        for (uint32_t i = 0; has_bw && i < out->gpu_count; i++)     /* the file has said it all: 0 is 0 */
            for (uint32_t k = 0; k < out->gpu_count; k++)
                if (i != k && !out->gpus[i].mbps[k])
                    out->gpus[i].hops |= UINT64_C(1) << k;
        rig_paths(out->gpus, out->gpu_count);
    }
    json_decref(r.top);
    return rc;
}
