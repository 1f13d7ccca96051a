/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - gres.conf against what is found: lines win, and a contradiction is said with file, line and both sides.
 *
 * Slurm's rule: with AutoDetect= a site may leave out File, Cores and Links; what it writes is checked. A device is known by its file. A line
 * without a file takes as many found devices of its type as its Count says. The numbers are those of the lines, so the matrix of what was
 * found is moved to them.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hardware/scan.h"

struct merging {
    const struct rows *found;
    const char *how, *source;
    int place[SPUR_GPU_MAX];            /* of a found row: its number in the result; -1 not taken */
    int from[SPUR_GPU_MAX];             /* of a number of the result: the found row; -1 none */
    struct rows *out;
    struct spur_error *err;
};

static bool is_device(const struct spur_gpu *g)
{
    return !strcmp(g->name, "gpu") && !(g->flags & SPUR_GPU_COUNT_ONLY);
}

/* "A100" is in "nvidia_a100-sxm4-80gb"; as Slurm compares types. */
static bool type_fits(const char *wanted, const char *found)
{
    size_t n = strlen(wanted);

    for (; n && *found; found++)
        if (strncasecmp(found, wanted, n) == 0)
            return true;
    return n == 0;
}

static struct spur_gpu *row_add(struct rows *r, const struct spur_gpu *from)
{
    r->list = mem_grow(r->list, r->count + 1, sizeof *r->list);
    r->list[r->count] = *from;
    return &r->list[r->count++];
}

static uint32_t devices_of(const struct rows *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->count; i++)
        n += is_device(&r->list[i]);
    return n;
}

/* A found device that nobody has taken: with this file (NULL: any), of this type (""): any. */
static int found_free(const struct merging *m, const char *file, const char *type)
{
    for (uint32_t i = 0; i < m->found->count && i < SPUR_GPU_MAX; i++) {
        const struct spur_gpu *g = &m->found->list[i];
        size_t n = strcspn(g->file, ",");

        if (!is_device(g) || m->place[i] >= 0 || !type_fits(type, g->type))
            continue;
        if (!file || !strcmp(g->file, file) || (strlen(file) == n && !strncmp(g->file, file, n)))
            return (int)i;
    }
    return -1;
}

static struct spur_gpu *device_take(struct merging *m, int found, uint32_t number)
{
    struct spur_gpu *row = row_add(m->out, &m->found->list[found]);

    m->place[found] = (int)number;
    m->from[number] = found;
    row->index = number;
    return row;
}

static int files_text(const struct rows *r, char *out, size_t size)
{
    int n = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < r->count; i++)
        if (is_device(&r->list[i]) && n < (int)size - 1)
            n += snprintf(out + n, size - (size_t)n, "%s%s", n ? " " : "", r->list[i].file);
    if (!n)
        snprintf(out, size, "none");
    return n;
}

/* A line with a file. Links are compared later, when all numbers are given. */
static int device_written(struct merging *m, const struct spur_gpu *w)
{
    int at = found_free(m, w->file, "");
    struct spur_gpu *row;
    char files[120];

    if (at < 0) {
        files_text(m->found, files, sizeof files);
        return spur_fail(m->err, SPUR_EINVAL, "%s:%u: File=%s is not among the devices that %s finds: %s", m->source, w->line, w->file, m->how, files);
    }
    if (w->cores[0] && m->found->list[at].cores[0] && strcmp(w->cores, m->found->list[at].cores))
        return spur_fail(m->err, SPUR_EINVAL, "%s:%u: Cores=%.60s of %s, but %s finds %.60s", m->source, w->line, w->cores, w->file, m->how, m->found->list[at].cores);
    row = device_take(m, at, w->index);
    row->line = w->line;
    if (w->type[0])
        snprintf(row->type, sizeof row->type, "%s", w->type);
    if (w->cores[0])
        snprintf(row->cores, sizeof row->cores, "%s", w->cores);
    if (w->flags != (SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL | SPUR_GPU_ENV_INTEL))
        row->flags = w->flags;      /* all is what a line without Flags= gets */
    return 0;
}

/* A line without a file: `count` of what is found. */
static int devices_counted(struct merging *m, const struct spur_gpu *w, uint32_t *next)
{
    for (uint64_t i = 0; i < w->count; i++) {
        int at = found_free(m, NULL, w->type);
        struct spur_gpu *row;

        if (at < 0 || *next >= SPUR_GPU_MAX)
            return spur_fail(m->err, SPUR_EINVAL, "%s:%u: Count=%llu%s%s, but %s finds %llu", m->source, w->line, (unsigned long long)w->count, w->type[0] ? " of Type=" : "",
                             w->type, m->how, (unsigned long long)i);
        row = device_take(m, at, (*next)++);
        row->line = w->line;
        if (w->type[0])
            snprintf(row->type, sizeof row->type, "%s", w->type);
        if (w->cores[0] && !row->cores[0])
            snprintf(row->cores, sizeof row->cores, "%s", w->cores);
    }
    return 0;
}

/* Everything that is found, under the types of the node's line as far as their counts go. */
static void devices_found(struct merging *m, const struct config_gres *wants, size_t want_count)
{
    uint64_t left[64];
    uint32_t next = 0;

    for (size_t k = 0; k < want_count && k < 64; k++)
        left[k] = wants[k].count;
    for (uint32_t i = 0; i < m->found->count && next < SPUR_GPU_MAX; i++) {
        struct spur_gpu *row;

        if (!is_device(&m->found->list[i]))
            continue;
        row = device_take(m, (int)i, next++);
        for (size_t k = 0; k < want_count && k < 64; k++)
            if (!strcasecmp(wants[k].name, "gpu") && wants[k].type && left[k] && type_fits(wants[k].type, row->type)) {
                snprintf(row->type, sizeof row->type, "%s", wants[k].type);
                left[k]--;
                break;
            }
    }
}

/* The matrices, from the numbers of what was found to those of the result. */
static void matrices_move(struct merging *m)
{
    for (uint32_t i = 0; i < m->out->count; i++) {
        struct spur_gpu *row = &m->out->list[i];
        const struct spur_gpu *old;

        if (!is_device(row) || m->from[row->index] < 0)
            continue;
        old = &m->found->list[m->from[row->index]];
        memset(row->links, 0, sizeof row->links);
        memset(row->mbps, 0, sizeof row->mbps);
        memset(row->path, 0, sizeof row->path);
        row->hops = 0;
        for (uint32_t k = 0; k < SPUR_GPU_MAX; k++) {
            uint32_t at = m->from[k] >= 0 ? m->found->list[m->from[k]].index : SPUR_GPU_MAX;

            if (at >= SPUR_GPU_MAX)
                continue;
            row->links[k] = old->links[at];
            row->mbps[k] = old->mbps[at];
            row->path[k] = old->path[at];
            if (old->hops >> at & 1)
                row->hops |= UINT64_C(1) << k;
        }
        row->links[row->index] = -1;
        row->card = old->card < SPUR_GPU_MAX && m->place[old->card] >= 0 ? (uint32_t)m->place[old->card] : row->index;
    }
}

static int links_compare(const struct merging *m, const struct rows *written)
{
    for (uint32_t i = 0; i < written->count; i++) {
        const struct spur_gpu *w = &written->list[i], *row = NULL;

        if (!is_device(w) || !w->file[0] || w->links[w->index] != -1)
            continue;       /* its line has no Links */
        for (uint32_t k = 0; k < m->out->count && !row; k++)
            if (is_device(&m->out->list[k]) && m->out->list[k].index == w->index)
                row = &m->out->list[k];
        for (uint32_t k = 0; row && k < SPUR_GPU_MAX; k++)
            if (m->from[k] >= 0 && k != w->index && w->links[k] != row->links[k])
                return spur_fail(m->err, SPUR_EINVAL, "%s:%u: Links row %u column %u is %d, but %s finds %d", m->source, w->line, w->index, k, (int)w->links[k], m->how,
                                 (int)row->links[k]);
    }
    return 0;
}

/* A share names the file of its GPU; its number is that of the GPU, which may only be known now. */
static void shares_point(struct rows *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < r->count; k++)
            if (strcmp(r->list[i].name, "gpu") && r->list[i].file[0] && is_device(&r->list[k]) && !strcmp(r->list[i].file, r->list[k].file))
                r->list[i].index = r->list[k].index;
}

int rows_merge(const struct rows *written, const struct rows *found, const char *how, const char *source, const struct config_gres *wants, size_t want_count,
               struct rows *out, struct spur_error *err)
{
    struct merging m = { .found = found, .how = how, .source = source, .out = out, .err = err };
    uint32_t next = devices_of(written), gpu_lines = 0;
    int rc = 0;

    *out = (struct rows){ 0 };
    memset(m.place, 0xff, sizeof m.place);
    memset(m.from, 0xff, sizeof m.from);
    for (uint32_t i = 0; rc == 0 && i < written->count; i++)
        if (is_device(&written->list[i]) && ++gpu_lines)
            rc = device_written(&m, &written->list[i]);
    for (uint32_t i = 0; rc == 0 && i < written->count; i++) {
        const struct spur_gpu *w = &written->list[i];

        if (!strcmp(w->name, "gpu") && w->flags & SPUR_GPU_COUNT_ONLY && ++gpu_lines)
            rc = devices_counted(&m, w, &next);
        else if (strcmp(w->name, "gpu"))
            row_add(out, w);
    }
    if (rc == 0 && !gpu_lines)
        devices_found(&m, wants, want_count);
    if (rc == 0) {
        matrices_move(&m);
        shares_point(out);
        rc = links_compare(&m, written);
    }
    if (rc < 0)
        scan_rows_fini(out);
    return rc;
}
