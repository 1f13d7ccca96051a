/* SPDX-License-Identifier: Apache-2.0 */
/* het.c - heterogeneous jobs in both passes: all components find a place at the same moment, or none starts.
 *
 * Only the first component stands in a lane, with its rank; the others come along at its turn. They are placed one after the other on a copy of what is
 * free, those with the fewest nodes to choose from first, so that a component that could go anywhere does not take what another one must have. When one
 * finds no place the lanes of all their partitions are blocked, for what stands behind would take the rest; backfill then reserves for all of
 * them at once. One operation starts them: apply takes all parts or none.
 */
#include "base/str.h"
#include "plan/private.h"

struct choice { const struct config_partition *part; struct wish *wish; };
struct piece {
    struct job *job;
    struct choice *choices; uint32_t count, at;     /* partitions that it may run in; at: where it was placed */
    uint32_t room;                                  /* nodes that its first wish allows */
    struct spur_placement *where; const struct spur_ask *which;
};
struct het {
    struct piece *pieces; uint32_t count;
    uint32_t *order;
    uint64_t hash;
    int64_t  length_s;
};

static bool piece_add(struct slice *sl, struct entry *e, struct piece *p, const struct config_partition *part)
{
    struct wish *w = slice_wish(sl, e, p->job, part);

    if (w)
        p->choices[p->count++] = (struct choice){ part, w };
    return w != NULL;
}

static void piece_choices(struct slice *sl, struct entry *e, struct piece *p)
{
    const struct config *c = sl->s->config;
    char *at = arena_copy(sl->arena, p->job->partition ? p->job->partition : ""), *word;

    p->choices = arena_alloc(sl->arena, (c->partition_count + 1) * sizeof *p->choices);
    while ((word = word_next(&at, ","))) {
        const struct config_partition *part = config_partition_find(c, word);

        if (part && p->count < c->partition_count)
            piece_add(sl, e, p, part);
    }
}

static uint32_t nodes_allowed(const struct wish *w)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->asks[0].node_words; i++)
        n += (uint32_t)__builtin_popcountll(w->asks[0].allowed[i]);
    return n;
}

struct het *slice_het(struct slice *sl, struct entry *e, struct job *leader, const struct config_partition *part)
{
    struct het *h = arena_alloc(sl->arena, sizeof *h);

    h->count = leader->het_count;
    h->pieces = arena_alloc(sl->arena, h->count * sizeof *h->pieces);
    h->order = arena_alloc(sl->arena, h->count * sizeof *h->order);
    for (uint32_t i = 0; i < h->count; i++) {
        struct piece *p = &h->pieces[i];
        uint32_t k = i;

        p->job = het_part(sl->s, leader, i);
        if (!p->job)
            return NULL;
        if (i == 0) {
            p->choices = arena_alloc(sl->arena, sizeof *p->choices);
            piece_add(sl, e, p, part);
        } else {
            piece_choices(sl, e, p);
        }
        if (slice_too_late(sl, e, p->job))
            return NULL;
        if (!p->count) {
            if (i)
                job_advise(leader, p->job->advice != REASON_None ? (enum job_reason)p->job->advice : REASON_PartitionConfig, p->job->advice_text);
            return NULL;
        }
        p->room = nodes_allowed(p->choices[0].wish);
        for (; k && h->pieces[h->order[k - 1]].room > p->room; k--)
            h->order[k] = h->order[k - 1];
        h->order[k] = i;
        for (uint32_t c = 0; c < p->count; c++) {
            int64_t length_s = (int64_t)limit_minutes(p->choices[c].wish->time_limit_min, p->choices[c].part) * 60;

            h->hash = (h->hash ^ p->choices[c].wish->hash) * UINT64_C(0x9e3779b97f4a7c15) + i;
            h->length_s = length_s > h->length_s ? length_s : h->length_s;
        }
    }
    return h;
}

uint64_t het_hash(const struct het *h) { return h->hash; }
int64_t het_length_s(const struct het *h) { return h->length_s; }

int het_place(struct slice *sl, struct overlay *take, struct het *h, const struct bitmap *shut, struct spur_error *err)
{
    for (uint32_t i = 0; i < h->count; i++) {
        struct piece *p = &h->pieces[h->order[i]];
        int rc = SPUR_ELATER;
        bool never = true;

        for (p->at = 0; p->at < p->count; p->at++) {
            rc = slice_place(sl, overlay_view(take), p->choices[p->at].wish, p->job->job_id, shut, &p->where, &p->which, err);
            if (rc == 0)
                break;
            never = never && rc == SPUR_ENEVER;
        }
        if (rc < 0)
            return never ? SPUR_ENEVER : SPUR_ELATER;
        overlay_take(take, p->where, p->which);
    }
    return 0;
}

uint32_t het_count(const struct het *h) { return h->count; }
const struct spur_placement *het_where(const struct het *h, uint32_t i) { return h->pieces[i].where; }

void het_start(struct slice *sl, struct entry *e, struct het *h, bool by_backfill)
{
    Wire__Op *op = arena_alloc(sl->arena, sizeof *op);
    Wire__OpHetStart *o = arena_alloc(sl->arena, sizeof *o);

    wire__op__init(op);
    wire__op_het_start__init(o);
    op->het_start = o;
    o->parts = arena_alloc(sl->arena, h->count * sizeof *o->parts);
    for (uint32_t i = 0; i < h->count; i++) {
        struct piece *p = &h->pieces[i];
        const struct choice *c = &p->choices[p->at];

        o->parts[o->n_parts++] = slice_start_op(sl, e, p->job, UINT32_MAX, c->part, p->where, p->which, c->wish->time_limit_min, by_backfill);
    }
    slice_add_op(sl, op);
    e->flying = true;
}

/* Nobody behind it takes what one of its components waits for. */
static void het_block(struct slice *sl, struct lane *l, const struct het *h)
{
    struct plan *p = sl->p;

    lane_block(sl, l, h->pieces[0].job);
    for (uint32_t i = 1; i < h->count; i++)
        for (uint32_t c = 0; c < h->pieces[i].count; c++) {
            uint32_t part = (uint32_t)(h->pieces[i].choices[c].part - sl->s->config->partitions);

            for (uint32_t k = 0; k < p->queue.lane_count; k++)
                if (p->queue.lanes[k].part == part && !p->queue.lanes[k].blocked)
                    lane_block(sl, &p->queue.lanes[k], h->pieces[0].job);
        }
}

void het_turn(struct slice *sl, struct lane *l, struct entry *e, struct job *leader, const struct config_partition *part)
{
    struct plan *p = sl->p;
    struct het *h = slice_het(sl, e, leader, part);
    struct spur_error err = { 0 };
    struct overlay *free_now;
    uint64_t key;
    int rc = SPUR_ELATER;

    if (!h) {
        l->at++;
        return;
    }
    key = h->hash ^ (p->any_shut ? UINT64_C(0x5bd1e9955bd1e995) * (p->pass_number + 1) : 0);
    if (!failures_has(&p->failures, key)) {
        slice_view(sl);
        free_now = p->now ? overlay_copy(p->now) : overlay_create(sl->s);
        slice_spend(sl, units_here(sl->s, UNITS_OVERLAY));
        rc = het_place(sl, free_now, h, p->any_shut ? &p->shut : NULL, &err);
        overlay_destroy(free_now);
    }
    if (rc == 0) {
        het_start(sl, e, h, false);
        l->at++;
        return;
    }
    if (rc == SPUR_ENEVER) {
        job_advise(leader, REASON_BadConstraints, err.text[0] ? err.text : NULL);
        l->at++;
        return;
    }
    failures_add(&p->failures, key);
    for (uint32_t i = 0; i < h->count; i++)
        if (!slice_nodes_exist(sl, h->pieces[i].job, h->pieces[i].choices[0].wish, slice_view(sl))) {
            if (i)
                job_advise(leader, (enum job_reason)h->pieces[i].job->advice, h->pieces[i].job->advice_text);
            l->at++;
            return;
        }
    if (e->hopeless_until_ms > sl->now_ms) {
        job_advise(leader, REASON_Resources, NULL);
        l->at++;
        return;
    }
    het_block(sl, l, h);
    if (p->params.backfill && !p->backfill)
        p->backfill_due = true;
}
