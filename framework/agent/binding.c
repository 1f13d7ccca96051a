/* SPDX-License-Identifier: Apache-2.0 */
/* binding.c - what --gpu-bind comes to here: the step's words, this node's devices and their cores, a set of devices for each task.
 *
 * A step that says nothing is bound by what it asks for: --gpus-per-task gives each task its own, --ntasks-per-gpu so many tasks one device; without
 * either every task sees all devices of the step. The rules themselves are in state/bind.c. Called by the supervisor before it forks.
 */
#include "agent/binding.h"

#include <stdlib.h>
#include <string.h>

#include "agent/environment.h"
#include "base/str.h"
#include "state/apply.h"
#include "state/bind.h"

static uint32_t gpus_per_task(const Wire__StepSpec *step)
{
    struct tres_row *rows = NULL;
    uint64_t count = 0;
    size_t n = 0;

    if (!step->tres_per_task || !*step->tres_per_task || tres_parse(step->tres_per_task, &rows, &n, NULL) < 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].name && (!strcmp(rows[i].name, "gpu") || !strcmp(rows[i].name, "gres/gpu")))
            count += rows[i].count;
    tres_free(rows, n);
    return count < 64 ? (uint32_t)count : 64;
}

static void wanted(const Wire__StepOrder *order, struct bind *b)
{
    const Wire__StepSpec *step = order->launch->step;
    const Wire__JobSpec *spec = order->launch->spec;
    uint32_t n;

    memset(b, 0, sizeof *b);
    if (!step)
        return;
    if (step->gpu_bind && *step->gpu_bind) {
        if (bind_parse(step->gpu_bind, b, NULL) < 0)
            memset(b, 0, sizeof *b);        /* admit has let it pass, so it is of a newer version: unbound */
    } else if ((n = gpus_per_task(step))) {
        b->kind = BIND_PER_TASK;
        b->count = n;
    } else if (spec && spec->has_ntasks_per_gpu && spec->ntasks_per_gpu) {
        b->kind = BIND_SINGLE;
        b->count = spec->ntasks_per_gpu;
    }
}

static void mask_add(struct str *out, uint64_t mask)
{
    struct bitmap b = { .bits = 64, .words = &mask };

    bitmap_print(&b, out);
}

static char *line_of(const Wire__StepOrder *order, const struct bind *b, uint32_t local, uint64_t mask, uint64_t all, uint8_t notes)
{
    struct str out;

    str_init(&out);
    if (b->verbose) {
        str_addf(&out, "gpu-bind: %s: task %u: gpu ", order->node, order_task(order, local));
        mask_add(&out, mask);
        str_add(&out, " of ");
        mask_add(&out, all);
        str_add_char(&out, '\n');
    }
    if (notes & BIND_NOTE_OUTSIDE) {
        str_addf(&out, "slurmstepd: error: task %u: none of the GPUs that --gpu-bind names is the step's on %s; it gets gpu ", order_task(order, local), order->node);
        mask_add(&out, mask);
        str_add_char(&out, '\n');
    }
    if ((notes & BIND_NOTE_FAR) && b->kind != BIND_PER_TASK) {
        str_addf(&out, "slurmstepd: task %u: no GPU near its cores is left on %s; it gets gpu ", order_task(order, local), order->node);
        mask_add(&out, mask);
        str_add_char(&out, '\n');
    }
    if (!out.len) {
        str_fini(&out);
        return NULL;
    }
    return str_take(&out);
}

/* The cores that each task is bound to, of `bits` bits; NULL when they are bound to none. */
static struct bitmap *task_cores(const Wire__StepOrder *order, const struct cpus *cpus, uint32_t tasks, size_t bits)
{
    struct bitmap *out;

    if (!cpus || !bits || cpus->count != tasks || !tasks || !cpus->tasks[0].bound)
        return NULL;
    out = mem_array(tasks, sizeof *out);
    for (uint32_t t = 0; t < tasks; t++) {
        bitmap_init(&out[t], bits);
        for (size_t c = 0; c < order->n_cores && c < bits; c++)
            for (size_t k = 0; k < order->cores[c]->n_pus; k++)
                if (bitmap_test(&cpus->tasks[t].mask, order->cores[c]->pus[k]))
                    bitmap_set(&out[t], c);
    }
    return out;
}

void binding_init(struct binding *b, const Wire__StepOrder *order, const struct cpus *cpus)
{
    const Wire__NodeAlloc *alloc = order_alloc(order);
    uint64_t all = order_gpu_mask(order);
    struct bitmap near[64], cores = { .bits = alloc ? alloc->n_cores * 64 : 0, .words = alloc ? alloc->cores : NULL };
    struct bind_device devices[64];
    struct bind_node node = { .devices = devices, .cores = cores.bits ? &cores : NULL, .tasks = order_local_tasks(order) };
    struct bitmap *bound = task_cores(order, cpus, node.tasks, cores.bits);
    struct bind how;
    uint8_t *notes;

    wanted(order, &how);
    memset(near, 0, sizeof near);
    for (uint32_t i = 0; i < 64; i++)
        if (all >> i & 1)
            devices[node.device_count++] = (struct bind_device){ .index = i };
    for (size_t i = 0; i < order->n_gpus; i++) {
        const Wire__OrderGpu *g = order->gpus[i];

        for (uint32_t k = 0; k < node.device_count; k++)
            if (devices[k].index == g->index && g->n_mbps >= 64)
                devices[k].mbps = g->mbps;
        if (!cores.bits || g->index >= 64 || !g->cores || !*g->cores || near[g->index].words)
            continue;
        bitmap_init(&near[g->index], cores.bits);
        if (bitmap_parse(&near[g->index], g->cores, NULL) < 0)
            continue;               /* cores that this node does not have: near to none that matters */
        for (uint32_t k = 0; k < node.device_count; k++)
            if (devices[k].index == g->index)
                devices[k].cores = &near[g->index];
    }
    *b = (struct binding){ .tasks = node.tasks };
    b->masks = mem_array(node.tasks + 1, sizeof *b->masks);
    b->lines = mem_array(node.tasks + 1, sizeof *b->lines);
    notes = mem_alloc(node.tasks + 1);
    node.task_cores = bound;
    bind_tasks(&how, &node, b->masks, notes);
    for (uint32_t t = 0; t < node.tasks; t++)
        b->lines[t] = all ? line_of(order, &how, t, b->masks[t], all, notes[t]) : NULL;
    for (uint32_t i = 0; i < 64; i++)
        bitmap_fini(&near[i]);
    for (uint32_t t = 0; bound && t < node.tasks; t++)
        bitmap_fini(&bound[t]);
    free(bound);
    bind_fini(&how);
    free(notes);
}

void binding_fini(struct binding *b)
{
    for (uint32_t t = 0; t < b->tasks; t++)
        free(b->lines[t]);
    free(b->lines);
    free(b->masks);
    memset(b, 0, sizeof *b);
}
