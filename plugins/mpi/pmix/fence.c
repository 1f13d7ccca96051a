/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - a fence is a gather of the nodes that have a rank in it; libpmix says when all ranks of this node are there and what they bring.
 *
 * Nodes agree on a fence by the set of its ranks and by how many fences that set has had: the ranks of a set meet in one order everywhere, fences of different sets may
 * overtake each other. The key has a hash of the set; two sets of one hash would have to be on the same nodes too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

struct fence {
    struct fence *next;
    uint64_t set;
    char     key[48];
    uint32_t *nodes, count;
    char    *data; size_t len;
    pmix_modex_cbfunc_t done; void *arg;
};
struct fence_round { struct fence_round *next; uint64_t set; uint32_t number; };

static void fence_free(struct fence *f)
{
    if (!f)
        return;
    free(f->nodes);
    free(f->data);
    free(f);
}

static void fence_fail(struct fence *f, pmix_status_t status)
{
    f->done(status, NULL, 0, f->arg, NULL, NULL);
    fence_free(f);
}

/* The number of the next fence of this set; negative: out of memory. */
static int64_t next_round(struct pmix *p, uint64_t set)
{
    struct fence_round *r = p->rounds;

    while (r && r->set != set)
        r = r->next;
    if (!r) {
        if (!(r = calloc(1, sizeof *r)))
            return -1;
        r->set = set;
        r->next = p->rounds;
        p->rounds = r;
    }
    return r->number++;
}

static void fence_begin(void *arg)
{
    struct fence *f = arg;
    struct pmix *p = pmix_served;
    struct spur_error err = { 0 };
    int64_t round = p->lost[0] ? -1 : next_round(p, f->set);

    if (round < 0) {
        fence_fail(f, p->lost[0] ? PMIX_ERR_LOST_CONNECTION : PMIX_ERR_NOMEM);
        return;
    }
    snprintf(f->key, sizeof f->key, "pmix/%016llx/%lld", (unsigned long long)f->set, (long long)round);
    f->next = p->fences;
    p->fences = f;
    if (p->step->gather(p->step->ctx, f->key, f->nodes, f->count, f->data, f->len, &err) < 0) {
        p->host->log(p->host->ctx, SPUR_LOG_WARN, err.text);
        p->fences = f->next;
        fence_fail(f, PMIX_ERR_OUT_OF_RESOURCE);
        return;
    }
    free(f->data);
    f->data = NULL;
}

static int by_number(const void *a, const void *b) { return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : *(const uint32_t *)a > *(const uint32_t *)b; }

/* The ranks' set as a number, and their nodes. */
static bool fence_place(struct fence *f, const pmix_proc_t procs[], size_t nprocs)
{
    const struct spur_mpi_step *s = pmix_served->step;
    uint32_t *ranks = malloc((nprocs + 1) * sizeof *ranks);
    bool *has = calloc(s->node_count, sizeof *has), fine;

    f->set = UINT64_C(1469598103934665603);
    f->nodes = malloc(s->node_count * sizeof *f->nodes);
    fine = ranks && has && f->nodes;
    for (size_t i = 0; fine && i < nprocs; i++) {
        uint32_t node = pmix_node_of(&procs[i]);

        ranks[i] = procs[i].rank;
        if (procs[i].rank == PMIX_RANK_WILDCARD && PMIX_CHECK_NSPACE(procs[i].nspace, pmix_served->nspace))
            for (uint32_t n = 0; n < s->node_count; n++)
                has[n] = has[n] || s->first[n + 1] > s->first[n];
        else if (node < s->node_count)
            has[node] = true;
        else
            fine = false;
    }
    if (fine) {
        qsort(ranks, nprocs, sizeof *ranks, by_number);
        for (size_t i = 0; i < nprocs; i++)
            for (int b = 0; b < 4; b++)
                f->set = (f->set ^ (ranks[i] >> 8 * b & 255)) * UINT64_C(1099511628211);
        for (uint32_t n = 0; n < s->node_count; n++)
            if (has[n])
                f->nodes[f->count++] = n;
    }
    free(ranks);
    free(has);
    return fine && f->count > 0;
}

pmix_status_t fence_called(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t done, void *arg)
{
    struct fence *f = calloc(1, sizeof *f);

    (void)info;
    (void)ninfo;
    if (!f || !fence_place(f, procs, nprocs)) {
        fence_free(f);
        return f ? PMIX_ERR_NOT_SUPPORTED : PMIX_ERR_NOMEM;
    }
    f->done = done;
    f->arg = arg;
    f->data = data;                     /* libpmix has let go of it */
    f->len = ndata;
    return pmix_post(fence_begin, f) ? PMIX_SUCCESS : PMIX_ERR_NOMEM;
}

void fence_gathered(struct pmix *p, const char *key, const struct spur_mpi_part *parts, uint32_t count, uint32_t part_size)
{
    struct fence **at = &p->fences, *f;
    size_t len = 0, used = 0;
    char *all;

    while (*at && strcmp((*at)->key, key))
        at = &(*at)->next;
    if (!(f = *at))
        return;                         /* one that has failed in between */
    *at = f->next;
    for (uint32_t i = 0; i < count; i++)
        len += ((const struct spur_mpi_part *)(const void *)((const char *)parts + (size_t)i * part_size))->len;
    if (!(all = malloc(len + 1))) {
        fence_fail(f, PMIX_ERR_NOMEM);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct spur_mpi_part *part = (const struct spur_mpi_part *)(const void *)((const char *)parts + (size_t)i * part_size);

        if (part->len)
            memcpy(all + used, part->data, part->len);
        used += part->len;
    }
    f->done(PMIX_SUCCESS, all, len, f->arg, free, all);
    fence_free(f);
}

void fence_lost(struct pmix *p)
{
    while (p->fences) {
        struct fence *f = p->fences;

        p->fences = f->next;
        fence_fail(f, PMIX_ERR_LOST_CONNECTION);
    }
}

void fence_close(struct pmix *p)
{
    for (struct fence *f = p->fences, *next; f; f = next) {
        next = f->next;
        fence_free(f);
    }
    for (struct fence_round *r = p->rounds, *next; r; r = next) {
        next = r->next;
        free(r);
    }
}
