/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - direct modex: what one rank has put, asked of the server of its node when a rank elsewhere wants it and no fence has brought it.
 *
 * "Q", number of the question, rank; "A", number, status, data; numbers of 4 bytes, low first. libpmix answers a question once the rank has committed what it
 * put; a rank that ends without is answered for, and so is every question when a node is lost, so that nobody waits for ever.
 */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

/* A question of ours. */
struct asked { struct asked *next; uint32_t number, node, rank; pmix_modex_cbfunc_t done; void *arg; };
/* A question to us that libpmix has. Freed when it answers. */
struct wanted { struct wanted *next; uint32_t from, number, rank; bool is_answered; pmix_status_t status; char *data; size_t len; };

/* ---- asking ---- */

static void ask(void *arg)
{
    struct asked *a = arg;
    struct pmix *p = pmix_served;
    struct spur_error err = { 0 };
    unsigned char out[9] = { 'Q' };

    a->number = ++p->last_ask;
    put32(out + 1, a->number);
    put32(out + 5, a->rank);
    if (p->lost[0] || p->step->send(p->step->ctx, a->node, out, sizeof out, &err) < 0) {
        a->done(PMIX_ERR_LOST_CONNECTION, NULL, 0, a->arg, NULL, NULL);
        free(a);
        return;
    }
    a->next = p->asked;
    p->asked = a;
}

pmix_status_t fetch_called(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_modex_cbfunc_t done, void *arg)
{
    uint32_t node = pmix_node_of(proc);
    struct asked *a;

    (void)info;
    (void)ninfo;
    if (node == UINT32_MAX || node == pmix_served->step->node_rank)
        return PMIX_ERR_NOT_FOUND;      /* of another step, or here: libpmix would have it */
    if (!(a = calloc(1, sizeof *a)))
        return PMIX_ERR_NOMEM;
    a->node = node;
    a->rank = proc->rank;
    a->done = done;
    a->arg = arg;
    return pmix_post(ask, a) ? PMIX_SUCCESS : PMIX_ERR_NOMEM;
}

static void take_answer(struct pmix *p, const unsigned char *data, size_t len)
{
    struct asked **at = &p->asked, *a;
    uint32_t number = get32(data + 1);
    pmix_status_t status = (pmix_status_t)get32(data + 5);
    char *copy = NULL;

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (!(a = *at))
        return;
    *at = a->next;
    if (status == PMIX_SUCCESS && !(copy = malloc(len - 9 + 1)))
        status = PMIX_ERR_NOMEM;
    if (copy)
        memcpy(copy, data + 9, len - 9);
    a->done(status, copy, copy ? len - 9 : 0, a->arg, copy ? free : NULL, copy);
    free(a);
}

/* ---- answering ---- */

static void answer(struct pmix *p, struct wanted *w, pmix_status_t status, const char *data, size_t len)
{
    unsigned char *out = malloc(9 + len), small[9];
    struct spur_error err = { 0 };

    if (w->is_answered) {
        free(out);
        return;
    }
    w->is_answered = true;
    if (!out && status == PMIX_SUCCESS)
        status = PMIX_ERR_NOMEM;
    if (!out)
        len = 0;
    (out ? out : small)[0] = 'A';
    put32((out ? out : small) + 1, w->number);
    put32((out ? out : small) + 5, (uint32_t)status);
    if (len)
        memcpy(out + 9, data, len);
    if (p->step->send(p->step->ctx, w->from, out ? out : small, 9 + len, &err) < 0)
        p->host->log(p->host->ctx, SPUR_LOG_WARN, err.text);
    free(out);
}

static void wanted_drop(struct pmix *p, struct wanted *w)
{
    struct wanted **at = &p->wanted;

    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
    free(w->data);
    free(w);
}

static void fetched(void *arg)
{
    struct wanted *w = arg;

    answer(pmix_served, w, w->status, w->data, w->len);
    wanted_drop(pmix_served, w);
}

/* On libpmix' thread; the data is libpmix'. */
static void have(pmix_status_t status, char *data, size_t len, void *arg)
{
    struct wanted *w = arg;

    w->status = status;
    if (status == PMIX_SUCCESS && len > 0) {
        if ((w->data = malloc(len))) {
            memcpy(w->data, data, len);
            w->len = len;
        } else {
            w->status = PMIX_ERR_NOMEM;
        }
    }
    pmix_post(fetched, w);
}

/* ---- ranks that have ended ---- */

struct limit { uint32_t from, number; };

static void limit_reached(void *arg)
{
    struct limit *l = arg;

    for (struct wanted *w = pmix_served->wanted; w; w = w->next)
        if (w->from == l->from && w->number == l->number)
            answer(pmix_served, w, PMIX_ERR_NOT_FOUND, NULL, 0);
    free(l);
}

static void limit_passed(pmix_status_t status, void *arg)
{
    (void)status;
    pmix_post(limit_reached, arg);
}

/* The rank has ended: what it gave libpmix has, and answers at once; what it did not give will never come, and libpmix would wait. Its thread takes requests in their order, so
 * one that always answers, and means nothing, says when the other would have been answered. */
static void limit(struct pmix *p, struct wanted *w)
{
    struct limit *l = malloc(sizeof *l);
    pmix_nspace_t nobody;

    PMIX_LOAD_NSPACE(nobody, "spur.nobody");
    if (!l) {
        answer(p, w, PMIX_ERR_NOMEM, NULL, 0);
        return;
    }
    *l = (struct limit){ .from = w->from, .number = w->number };
    PMIx_server_deregister_nspace(nobody, limit_passed, l);
}

static void take_question(struct pmix *p, uint32_t from, const unsigned char *data)
{
    struct wanted *w = calloc(1, sizeof *w), none = { .from = from, .number = get32(data + 1) };
    uint32_t rank = get32(data + 5);
    pmix_proc_t proc;
    pmix_status_t rc;

    if (!w) {
        answer(p, &none, PMIX_ERR_NOMEM, NULL, 0);
        return;
    }
    *w = none;
    w->rank = rank;
    w->next = p->wanted;
    p->wanted = w;
    PMIX_LOAD_PROCID(&proc, p->nspace, rank);
    rc = rank < p->step->ntasks && p->node_of[rank] == p->step->node_rank ? PMIx_server_dmodex_request(&proc, have, w) : PMIX_ERR_NOT_FOUND;
    if (rc != PMIX_SUCCESS) {
        answer(p, w, rc, NULL, 0);
        wanted_drop(p, w);
        return;
    }
    for (uint32_t i = 0; i < p->count; i++)
        if (p->ranks[i].global == rank && p->ranks[i].ended)
            limit(p, w);
}

void fetch_received(struct pmix *p, uint32_t from, const unsigned char *data, size_t len)
{
    if (len == 9 && data[0] == 'Q')
        take_question(p, from, data);
    else if (len >= 9 && data[0] == 'A')
        take_answer(p, data, len);
}

void fetch_ended(struct pmix *p, uint32_t rank)
{
    for (struct wanted *w = p->wanted; w; w = w->next)
        if (w->rank == rank)
            limit(p, w);
}

void fetch_lost(struct pmix *p)
{
    while (p->asked) {
        struct asked *a = p->asked;

        p->asked = a->next;
        a->done(PMIX_ERR_LOST_CONNECTION, NULL, 0, a->arg, NULL, NULL);
        free(a);
    }
}

void fetch_close(struct pmix *p)
{
    while (p->wanted)
        wanted_drop(p, p->wanted);
    for (struct asked *a = p->asked, *next; a; a = next) {
        next = a->next;
        free(a);
    }
}
