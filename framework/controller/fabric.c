/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c - what the switch plugin allots to jobs: ids, addresses, rings of a fabric that has not enough for all.
 *
 * The leader asks before it proposes a start; what it gets (a blob, kept in hex) stands in the log with the start, so every controller knows it and it
 * travels with each launch. A job that gets nothing waits as if its start had been refused. It is given back when the job's nodes are empty, when it is
 * requeued, or when its start is refused after all. A controller that comes to lead teaches its instance what the log says is held, and one that
 * stops leading gives everything back to its own: there is one truth, the log.
 */
#include <sodium.h>
#include <stdlib.h>
#include <spur/switch.h>

#include "controller/ctl.h"

#define BLOB_MAX 1024u

struct held { uint32_t job_id, attempt; char *hex; };

static const struct spur_switch_ops *fabric_ops(const struct ctl *c)
{
    const struct spur_switch_ops *ops = loader_ops(c->sw);

    return SPUR_HAS(ops, allot) && SPUR_HAS(ops, release) ? ops : NULL;
}

size_t fabric_blob(const char *hex, uint8_t blob[BLOB_MAX])
{
    size_t len = 0;

    return hex && sodium_hex2bin(blob, BLOB_MAX, hex, strlen(hex), NULL, &len, NULL) == 0 ? len : 0;
}

static void fabric_release(struct ctl *c, uint32_t job_id, uint32_t attempt, const char *hex)
{
    const struct spur_switch_ops *ops = fabric_ops(c);
    uint8_t blob[BLOB_MAX];
    struct spur_switch_job job = { .size = sizeof job, .job_id = job_id, .attempt = attempt, .blob = blob, .blob_len = fabric_blob(hex, blob) };

    if (ops && job.blob_len)
        ops->release(c->sw->self, &job);
}

/* Names of the allocation, in rank order; in the arena. */
static const char *const *start_nodes(const struct ctl *c, const Wire__OpStart *o, struct arena *a)
{
    const char **names = arena_alloc(a, (o->n_allocs + 1) * sizeof *names);

    for (size_t i = 0; i < o->n_allocs; i++)
        names[i] = o->allocs[i]->name ? o->allocs[i]->name : o->allocs[i]->node < c->state->node_count ? c->state->nodes[o->allocs[i]->node].conf->name : "";
    return names;
}

static int start_allot(struct ctl *c, Wire__OpStart *o, struct arena *a, struct spur_error *err)
{
    const struct job *j = state_job(c->state, o->job_id);
    uint8_t blob[BLOB_MAX];
    size_t len = sizeof blob;
    struct spur_switch_job job = { .size = sizeof job, .job_id = o->job_id, .attempt = o->attempt + 1, .uid = j ? j->uid : 0, .nodes = start_nodes(c, o, a),
                                   .node_count = (uint32_t)o->n_allocs };
    int rc = fabric_ops(c)->allot(c->sw->self, &job, blob, &len, err);

    if (rc < 0 || len == 0)
        return rc;
    if (len > sizeof blob)
        return spur_fail(err, SPUR_ELIMIT, "%s allots %zu bytes to a job, the limit is %u", c->sw->name, len, BLOB_MAX);
    o->fabric = arena_alloc(a, 2 * len + 1);
    sodium_bin2hex(o->fabric, 2 * len + 1, blob, len);
    return 0;
}

void fabric_allot(struct ctl *c, struct decisions *d, struct arena *a)
{
    struct spur_error err = { 0 };
    size_t kept = 0;

    if (!fabric_ops(c))
        return;
    for (size_t i = 0; i < d->op_count; i++) {
        Wire__OpStart *o = d->ops[i]->start;
        Wire__OpHetStart *h = d->ops[i]->het_start;
        size_t parts = h ? h->n_parts : o ? 1 : 0, had = 0;

        while (had < parts && start_allot(c, h ? h->parts[had] : o, a, &err) == 0)
            had++;
        if (had < parts) {
            for (o = h ? h->parts[0] : o; h && had--; )
                fabric_release(c, h->parts[had]->job_id, 0, h->parts[had]->fabric);
            log_line(err.code == SPUR_ELATER ? SPUR_LOG_DEBUG : SPUR_LOG_ERROR, "job %u waits: %s", o->job_id, err.text);
            plan_refused(c->plan, c->state, o->job_id, o->has_array_task_id ? o->array_task_id : UINT32_MAX);
            continue;
        }
        d->ops[kept++] = d->ops[i];
    }
    d->op_count = kept;
}

void fabric_refused(struct ctl *c, const Wire__Op *op)
{
    if (op->start)
        fabric_release(c, op->start->job_id, 0, op->start->fabric);
    for (size_t i = 0; op->het_start && i < op->het_start->n_parts; i++)
        fabric_release(c, op->het_start->parts[i]->job_id, 0, op->het_start->parts[i]->fabric);
}

void fabric_started(struct ctl *c, const struct job *j)
{
    struct held *h = table_get(&c->fabric, j->job_id);

    if (!j->fabric || !fabric_ops(c) || !c->is_live || (h && h->attempt == j->attempt))     /* the last: said again after a pause */
        return;
    fabric_gone(c, j->job_id);
    h = mem_alloc(sizeof *h);
    *h = (struct held){ .job_id = j->job_id, .attempt = j->attempt, .hex = mem_copy(j->fabric) };
    table_put(&c->fabric, j->job_id, h);
}

static void held_drop(struct ctl *c, struct held *h)
{
    fabric_release(c, h->job_id, h->attempt, h->hex);
    table_del(&c->fabric, h->job_id);
    free(h->hex);
    free(h);
}

void fabric_gone(struct ctl *c, uint32_t job_id)
{
    struct held *h = table_get(&c->fabric, job_id);

    if (h)
        held_drop(c, h);
}

void fabric_follow(struct ctl *c)
{
    struct held *h;

    for (size_t i = 0; (h = table_next(&c->fabric, &i)); )
        held_drop(c, h);
}

void fabric_lead(struct ctl *c)
{
    const struct spur_switch_ops *ops = fabric_ops(c);
    const struct job *j;

    fabric_follow(c);
    for (size_t at = 0; ops && (j = table_next(&c->state->jobs, &at)); ) {
        uint8_t blob[BLOB_MAX];
        struct spur_switch_job job = { .size = sizeof job, .job_id = j->job_id, .attempt = j->attempt, .uid = j->uid, .blob = blob };

        if (!j->fabric || (job_state_is_end(j->state) && !(j->flags & JOB_FLAG_COMPLETING)))
            continue;
        job.blob_len = fabric_blob(j->fabric, blob);
        if (SPUR_HAS(ops, adopt))
            ops->adopt(c->sw->self, &job);
        fabric_started(c, j);
    }
}
