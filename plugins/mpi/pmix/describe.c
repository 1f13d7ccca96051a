/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - tells libpmix of the step before its tasks are there: which node has which ranks, sizes, folders, and who of them is here.
 *
 * A rank asks for all of this without a message between nodes. Where tasks are bound is not known yet: libraries find their own place by hwloc.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

struct infos { pmix_info_t *at; size_t n, room; bool full; };
struct text { char *at; size_t len, room; bool full; };

static pmix_info_t *info_next(struct infos *l, const char *key)
{
    pmix_info_t *i;

    if (l->n == l->room) {
        size_t room = l->room ? l->room * 2 : 16;
        pmix_info_t *grown = realloc(l->at, room * sizeof *grown);

        if (!grown) {
            l->full = true;
            return NULL;
        }
        l->at = grown;
        l->room = room;
    }
    i = &l->at[l->n++];
    PMIX_INFO_CONSTRUCT(i);
    PMIX_LOAD_KEY(i->key, key);
    return i;
}

static void info_load(struct infos *l, const char *key, const void *value, pmix_data_type_t type)
{
    pmix_info_t *i = value ? info_next(l, key) : NULL;

    if (!i || PMIx_Info_load(i, key, value, type) != PMIX_SUCCESS)
        l->full = true;
}

static void info_number(struct infos *l, const char *key, uint32_t v) { info_load(l, key, &v, PMIX_UINT32); }

static void info_small(struct infos *l, const char *key, uint32_t v)
{
    uint16_t small = v > UINT16_MAX ? UINT16_MAX : (uint16_t)v;

    info_load(l, key, &small, PMIX_UINT16);
}

static void info_rank(struct infos *l, const char *key, uint32_t rank)
{
    pmix_rank_t v = rank;

    info_load(l, key, &v, PMIX_PROC_RANK);
}

/* `inner` becomes the value, and belongs to it. */
static void info_array(struct infos *l, const char *key, struct infos *inner)
{
    pmix_data_array_t *a = malloc(sizeof *a);
    pmix_info_t *i = a ? info_next(l, key) : NULL;

    l->full = l->full || inner->full || !i;
    if (!i) {
        free(a);
        return;
    }
    *a = (pmix_data_array_t){ .type = PMIX_INFO, .size = inner->n, .array = inner->at };
    i->value.type = PMIX_DATA_ARRAY;
    i->value.data.darray = a;
}

static void infos_free(struct infos *l)
{
    if (l->at)
        PMIX_INFO_FREE(l->at, l->n);
}

static void text_add(struct text *t, const char *more)
{
    size_t n = strlen(more);

    if (t->len + n + 1 > t->room) {
        size_t room = (t->len + n + 1) * 2;
        char *grown = realloc(t->at, room);

        if (!grown) {
            t->full = true;
            return;
        }
        t->at = grown;
        t->room = room;
    }
    memcpy(t->at + t->len, more, n + 1);
    t->len += n;
}

static void text_number(struct text *t, uint32_t v, const char *before)
{
    char number[16];

    snprintf(number, sizeof number, "%u", v);
    text_add(t, before);
    text_add(t, number);
}

/* "n1,n2,n3" and "0,1;2,3;4,5", in libpmix' own short form. */
static void maps(struct infos *l, const struct spur_mpi_step *s)
{
    struct text nodes = { 0 }, ranks = { 0 };
    char *node_map = NULL, *rank_map = NULL;

    text_add(&nodes, "");
    text_add(&ranks, "");
    for (uint32_t n = 0; n < s->node_count; n++) {
        if (n) {
            text_add(&nodes, ",");
            text_add(&ranks, ";");
        }
        text_add(&nodes, s->nodes[n]);
        for (uint32_t k = s->first[n]; k < s->first[n + 1]; k++)
            text_number(&ranks, s->tasks[k], k > s->first[n] ? "," : "");
    }
    if (nodes.full || ranks.full || PMIx_generate_regex(nodes.at, &node_map) != PMIX_SUCCESS || PMIx_generate_ppn(ranks.at, &rank_map) != PMIX_SUCCESS) {
        l->full = true;
    } else {
        info_load(l, PMIX_NODE_MAP, node_map, PMIX_REGEX);
        info_load(l, PMIX_PROC_MAP, rank_map, PMIX_REGEX);
    }
    free(node_map);
    free(rank_map);
    free(nodes.at);
    free(ranks.at);
}

static void one_rank(struct infos *l, const struct spur_mpi_step *s, uint32_t node, uint32_t local)
{
    struct infos of = { 0 };
    uint32_t rank = s->tasks[s->first[node] + local];
    bool no = false;

    info_rank(&of, PMIX_RANK, rank);
    info_number(&of, PMIX_APPNUM, 0);
    info_rank(&of, PMIX_GLOBAL_RANK, rank);
    info_rank(&of, PMIX_APP_RANK, rank);
    info_small(&of, PMIX_LOCAL_RANK, local);
    info_small(&of, PMIX_NODE_RANK, local);
    info_number(&of, PMIX_NODEID, node);
    info_load(&of, PMIX_HOSTNAME, s->nodes[node], PMIX_STRING);
    info_load(&of, PMIX_SPAWNED, &no, PMIX_BOOL);
    info_number(&of, PMIX_REINCARNATION, 0);
    info_array(l, PMIX_PROC_DATA, &of);
}

static void here(struct infos *l, const struct spur_mpi_step *s, uint32_t count)
{
    struct text peers = { 0 };

    for (uint32_t i = 0; i < count; i++)
        text_number(&peers, s->tasks[s->first[s->node_rank] + i], i ? "," : "");
    info_load(l, PMIX_LOCAL_PEERS, peers.at, PMIX_STRING);
    info_rank(l, PMIX_LOCALLDR, s->tasks[s->first[s->node_rank]]);
    info_number(l, PMIX_LOCAL_SIZE, count);
    info_number(l, PMIX_NODE_SIZE, count);
    info_number(l, PMIX_NODEID, s->node_rank);
    l->full = l->full || peers.full;
    free(peers.at);
}

static int register_step(struct pmix *p, struct spur_error *err)
{
    const struct spur_mpi_step *s = p->step;
    struct infos l = { 0 };
    bool yes = true;
    pmix_status_t rc;

    info_load(&l, PMIX_JOBID, p->nspace, PMIX_STRING);
    info_number(&l, PMIX_UNIV_SIZE, s->ntasks);
    info_number(&l, PMIX_JOB_SIZE, s->ntasks);
    info_number(&l, PMIX_MAX_PROCS, s->ntasks);
    info_number(&l, PMIX_JOB_NUM_APPS, 1);
    info_number(&l, PMIX_APP_SIZE, s->ntasks);
    info_number(&l, PMIX_NUM_NODES, s->node_count);
    info_load(&l, PMIX_TMPDIR, s->dir, PMIX_STRING);
    info_load(&l, PMIX_NSDIR, s->dir, PMIX_STRING);
    info_load(&l, PMIX_TDIR_RMCLEAN, &yes, PMIX_BOOL);      /* the folder goes with the step */
    maps(&l, s);
    here(&l, s, p->count);
    for (uint32_t n = 0; n < s->node_count; n++)
        for (uint32_t k = 0; k < s->first[n + 1] - s->first[n]; k++)
            one_rank(&l, s, n, k);
    rc = l.full ? PMIX_ERR_NOMEM : PMIx_server_register_nspace(p->nspace, (int)p->count, l.at, l.n, NULL, NULL);
    infos_free(&l);
    return rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED ? 0 : pmix_failed(err, "cannot register the step", rc);
}

static int register_ranks(struct pmix *p, struct spur_error *err)
{
    for (uint32_t i = 0; i < p->count; i++) {
        pmix_proc_t proc;
        pmix_status_t rc;

        PMIX_LOAD_PROCID(&proc, p->nspace, p->ranks[i].global);
        rc = PMIx_server_register_client(&proc, (uid_t)p->step->uid, (gid_t)p->step->gid, NULL, NULL, NULL);
        if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED)
            return pmix_failed(err, "cannot register a rank", rc);
    }
    return 0;
}

int describe_step(struct pmix *p, struct spur_error *err)
{
    int rc = p->count ? register_step(p, err) : 0;

    return rc < 0 ? rc : register_ranks(p, err);
}
