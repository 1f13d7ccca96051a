/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - the one ledger of allocations: what jobs hold on each node, by core, thread, memory and device.
 *
 * Invariant: a node's counters equal the sum over the allocations, of all jobs, that are not gone from it (ledger_rebuild makes them so
 * from nothing, and the tests compare). An allocation is checked in full before anything of it is charged. What an allocation holds is
 * written in the allocation itself (cores, threads of shared cores, device masks), so a release gives back exactly what was taken.
 * A suspended job holds memory and devices but lends its cores out (job.parked); it takes them back when nobody else has them.
 * Only a changed configuration can leave a node with more held than it has; then nothing is free there until jobs end.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

static uint32_t threads_per_core(const struct node *n)
{
    uint32_t cores = node_cores(n);

    return cores && n->conf->cpus > cores ? n->conf->cpus / cores : 1;
}

static struct node_gres *gres_row(const struct node *n, const char *name, const char *type)
{
    for (uint32_t i = 0; i < n->gres_count; i++)
        if (word_eq(n->gres[i].name, name) && (!type || !*type ? !n->gres[i].type : n->gres[i].type && word_eq(n->gres[i].type, type)))
            return &n->gres[i];
    return NULL;
}

/* A decision's row for one node, resolved against the present configuration; numbers that cannot be are refused here. */
int ledger_alloc_from(struct state *s, const Wire__NodeAlloc *w, struct node_alloc *out, struct spur_error *err)
{
    struct node *n = w->node < s->node_count && !strcmp(s->nodes[w->node].conf->name, w->name) ? &s->nodes[w->node] : state_node(s, w->name);
    uint32_t cores, count = 0;

    memset(out, 0, sizeof *out);
    if (!n)
        return spur_fail(err, SPUR_ESTALE, "node %.64s is not in the configuration", w->name);
    cores = node_cores(n);
    bitmap_init(&out->cores, cores);
    for (size_t i = 0; i < w->n_cores; i++) {
        if (i >= bitmap_words(cores) ? w->cores[i] != 0 : (i + 1 == bitmap_words(cores) && cores % 64 && w->cores[i] >> (cores % 64)))
            goto bad_cores;
        if (i < bitmap_words(cores))
            out->cores.words[i] = w->cores[i];
    }
    count = (uint32_t)bitmap_count(&out->cores);
    out->node = n->index;
    out->cpus = w->cpus;
    out->tasks = w->tasks;
    out->mem_mib = w->mem_mib;
    if (!count || !w->cpus || w->cpus > (uint64_t)count * threads_per_core(n))
        goto bad_cores;
    if (w->n_gres > 256)
        goto bad_gres;
    out->gres = w->n_gres ? mem_array(w->n_gres, sizeof *out->gres) : NULL;
    for (size_t i = 0; i < w->n_gres; i++) {
        const Wire__GresAlloc *g = w->gres[i];
        const struct node_gres *row = gres_row(n, g->name, g->type);

        if (!row)
            goto bad_gres;
        out->gres[out->gres_count++] = (struct gres_alloc){ mem_copy(row->name), mem_copy(row->type), g->count, g->mask };
    }
    return 0;

bad_cores:
    node_alloc_fini(out);
    return spur_fail(err, SPUR_EINVAL, "node %.64s: %u CPUs on %u cores are no possible allocation of it", w->name, w->cpus, count);
bad_gres:
    node_alloc_fini(out);
    return spur_fail(err, SPUR_ESTALE, "node %.64s has no such generic resource", w->name);
}

/* CR_CPU on nodes with several threads a core: how many threads of each core this takes. The fullest use of each core in order. */
static bool threads_spread(const struct node *n, struct node_alloc *a, bool commit)
{
    uint32_t left = a->cpus, per_core = threads_per_core(n), at = 0;
    uint8_t *threads = commit ? mem_alloc(bitmap_count(&a->cores) + 1) : NULL;

    for (size_t c = bitmap_first(&a->cores); c < a->cores.bits; c = bitmap_next(&a->cores, c), at++) {
        uint32_t held = n->core_threads_used ? n->core_threads_used[c] : 0, take = per_core > held ? per_core - held : 0;

        take = take < left ? take : left;
        left -= take;
        if (threads)
            threads[at] = (uint8_t)take;
    }
    if (commit) {
        free(a->threads);
        a->threads = threads;
    }
    return left == 0;
}

int ledger_check(const struct state *s, const struct node_alloc *a, bool exclusive, struct spur_error *err)
{
    const struct node *n = &s->nodes[a->node];
    const char *name = n->conf->name;

    if (n->exclusive_job)
        return spur_fail(err, SPUR_ESTALE, "node %s is held whole by job %u", name, n->exclusive_job);
    if (exclusive && n->jobs)
        return spur_fail(err, SPUR_ESTALE, "node %s is not idle: %u jobs hold parts of it", name, n->jobs);
    if (s->priv->cores_whole ? bitmap_overlap(&a->cores, &n->cores_used) : !threads_spread(n, (struct node_alloc *)a, false))
        return spur_fail(err, SPUR_ESTALE, "node %s: a core of this decision is held already", name);
    if (n->cpus_used + (uint64_t)a->cpus > n->conf->cpus)
        return spur_fail(err, SPUR_ESTALE, "node %s: %u CPUs asked, %u of %u are free", name, a->cpus, n->conf->cpus - n->cpus_used, n->conf->cpus);
    if (s->priv->cr & SPUR_CR_MEMORY) {
        uint64_t free_mib = n->conf->mem_mib > n->mem_used + n->conf->mem_spec_mib ? n->conf->mem_mib - n->mem_used - n->conf->mem_spec_mib : 0;

        if (a->mem_mib > free_mib)
            return spur_fail(err, SPUR_ESTALE, "node %s: %llu MiB asked, %llu are free", name, (unsigned long long)a->mem_mib, (unsigned long long)free_mib);
    }
    for (uint32_t i = 0; i < a->gres_count; i++) {
        const struct gres_alloc *g = &a->gres[i];
        const struct node_gres *row = gres_row(n, g->name, g->type);
        uint64_t asked = 0, asked_mask = 0;

        if (!row)
            return spur_fail(err, SPUR_ESTALE, "node %s has no %s", name, g->name);
        for (uint32_t k = 0; k <= i; k++)       /* several rows may name one resource: they add up */
            if (gres_row(n, a->gres[k].name, a->gres[k].type) == row) {
                if (asked_mask & a->gres[k].mask)
                    return spur_fail(err, SPUR_ESTALE, "node %s: a %s is named twice", name, g->name);
                asked_mask |= a->gres[k].mask;
                asked = asked + a->gres[k].count < asked ? UINT64_MAX : asked + a->gres[k].count;
            }
        if (row->no_consume)
            continue;
        if (row->all_mask && ((uint64_t)__builtin_popcountll(g->mask) != g->count || g->mask & ~row->all_mask || g->mask & row->used_mask))
            return spur_fail(err, SPUR_ESTALE, "node %s: a %s of this decision is held already", name, g->name);
        if (asked > row->total || row->used > row->total - asked)
            return spur_fail(err, SPUR_ESTALE, "node %s: %llu %s asked, %llu of %llu are held", name, (unsigned long long)asked, g->name,
                             (unsigned long long)row->used, (unsigned long long)row->total);
    }
    return 0;
}

static void ledger_cores(struct state *s, struct node *n, const struct node_alloc *a, bool take)
{
    uint32_t per_core = threads_per_core(n), at = 0;

    if (s->priv->cores_whole) {
        take ? bitmap_or(&n->cores_used, &a->cores) : bitmap_and_not(&n->cores_used, &a->cores);
        return;
    }
    if (!n->core_threads_used)
        n->core_threads_used = mem_array(n->cores_used.bits ? n->cores_used.bits : 1, sizeof *n->core_threads_used);
    for (size_t c = bitmap_first(&a->cores); c < a->cores.bits; c = bitmap_next(&a->cores, c), at++) {
        uint32_t threads = a->threads ? a->threads[at] : per_core, held = n->core_threads_used[c];

        held = take ? held + threads : held > threads ? held - threads : 0;
        n->core_threads_used[c] = (uint16_t)held;
        held >= per_core ? bitmap_set(&n->cores_used, c) : bitmap_clear(&n->cores_used, c);
    }
}

void ledger_park(struct state *s, const struct node_alloc *a)
{
    struct node *n = &s->nodes[a->node];

    assert(n->cpus_used >= a->cpus);
    ledger_cores(s, n, a, false);
    n->cpus_used -= a->cpus;
    view_touch(s, n->index);
}

int ledger_unpark_check(const struct state *s, const struct node_alloc *a, struct spur_error *err)
{
    const struct node *n = &s->nodes[a->node];
    uint32_t per_core = threads_per_core(n), at = 0;

    if (s->priv->cores_whole ? bitmap_overlap(&a->cores, &n->cores_used) : n->cpus_used + (uint64_t)a->cpus > n->conf->cpus)
        return spur_fail(err, SPUR_ELATER, "node %s: its CPUs are in use by other jobs", n->conf->name);
    for (size_t c = bitmap_first(&a->cores); !s->priv->cores_whole && c < a->cores.bits; c = bitmap_next(&a->cores, c), at++)
        if (n->core_threads_used && n->core_threads_used[c] + (a->threads ? a->threads[at] : per_core) > per_core)
            return spur_fail(err, SPUR_ELATER, "node %s: its CPUs are in use by other jobs", n->conf->name);
    return 0;
}

void ledger_unpark(struct state *s, struct node_alloc *a)
{
    struct node *n = &s->nodes[a->node];

    if (!s->priv->cores_whole && !a->threads)
        threads_spread(n, a, true);
    ledger_cores(s, n, a, true);
    n->cpus_used += a->cpus;
    view_touch(s, n->index);
}

void ledger_charge(struct state *s, struct job *j, struct node_alloc *a)
{
    struct node *n = &s->nodes[a->node];

    if (!j->parked)
        ledger_unpark(s, a);
    n->mem_used += a->mem_mib;
    if (n->jobs == n->job_room)
        n->job_ids = mem_grow(n->job_ids, n->job_room = n->job_room ? 2 * n->job_room : 4, sizeof *n->job_ids);
    n->job_ids[n->jobs++] = j->job_id;
    if (j->exclusive)
        n->exclusive_job = j->job_id;
    for (uint32_t i = 0; i < a->gres_count; i++) {
        struct node_gres *row = gres_row(n, a->gres[i].name, a->gres[i].type);

        if (!row || row->no_consume)
            continue;
        row->used += a->gres[i].count;
        row->used_mask |= a->gres[i].mask;
    }
    if (j->flags & JOB_FLAG_COMPLETING)
        n->completing++;
    view_touch(s, n->index);
}

void ledger_release(struct state *s, const struct job *j, const struct node_alloc *a)
{
    struct node *n;

    if (a->node == NODE_REMOVED)
        return;
    n = &s->nodes[a->node];
    assert(n->mem_used >= a->mem_mib && n->jobs);       /* what is released was charged */
    if (!j->parked)
        ledger_park(s, a);
    n->mem_used -= a->mem_mib;
    for (uint32_t i = 0; i < n->jobs; i++)
        if (n->job_ids[i] == j->job_id) {
            n->job_ids[i] = n->job_ids[--n->jobs];
            break;
        }
    if (n->exclusive_job == j->job_id)
        n->exclusive_job = 0;
    for (uint32_t i = 0; i < a->gres_count; i++) {
        struct node_gres *row = gres_row(n, a->gres[i].name, a->gres[i].type);

        if (!row || row->no_consume)
            continue;
        row->used -= a->gres[i].count < row->used ? a->gres[i].count : row->used;
        row->used_mask &= ~a->gres[i].mask;
    }
    if (j->flags & JOB_FLAG_COMPLETING)
        n->completing--;
    n->last_busy_wall_s = s->wall_ms / 1000;
    view_touch(s, n->index);
}

void ledger_rebuild(struct state *s)
{
    struct job *j;

    for (uint32_t i = 0; i < s->node_count; i++) {
        struct node *n = &s->nodes[i];

        bitmap_resize(&n->cores_used, node_cores(n));
        bitmap_zero(&n->cores_used);
        free(n->core_threads_used);
        n->core_threads_used = NULL;
        n->cpus_used = n->jobs = n->exclusive_job = n->completing = 0;
        n->mem_used = 0;
        for (uint32_t g = 0; g < n->gres_count; g++)
            n->gres[g].used = n->gres[g].used_mask = 0;
    }
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        if (j->state == JOB_PENDING || job_phase(j) == PHASE_ENDED)
            continue;
        for (uint32_t i = 0; i < j->alloc_count; i++) {
            struct node_alloc *a = &j->allocs[i];

            if (a->gone || a->node == NODE_REMOVED)
                continue;
            if (a->cores.bits != node_cores(&s->nodes[a->node])) {     /* the node has been configured anew: hold what is left of it */
                bitmap_resize(&a->cores, node_cores(&s->nodes[a->node]));
                free(a->threads);
                a->threads = NULL;
            }
            if (s->priv->cores_whole) {
                free(a->threads);
                a->threads = NULL;
            }
            ledger_charge(s, j, a);
        }
    }
}
