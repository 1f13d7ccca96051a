/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c - those who wait for a job to start or to end: sbatch --wait, srun. Answered by the event, never by polling.
 *
 * A waiter is a connection and a sequence number; it is forgotten with its connection. Answer: the job as it is, or a refusal when it is unknown.
 */
#include <stdlib.h>

#include "controller/ctl.h"

struct wait { uint64_t conn, seq; uint32_t job_id, task_id; Wire__WaitRequest__Until until; struct wait *next; };
struct waits { struct table by_job; };      /* job id -> list */

void waits_create(struct ctl *c)
{
    c->waits = mem_alloc(sizeof *c->waits);
    table_init(&c->waits->by_job);
}

static void waits_free(struct wait *w)
{
    while (w) {
        struct wait *next = w->next;

        free(w);
        w = next;
    }
}

/* Who waits asks the next leader: the client does that by itself when he is told. */
void waits_move(struct ctl *c)
{
    struct wait *w;

    for (size_t i = 0; (w = table_next(&c->waits->by_job, &i)); ) {
        for (const struct wait *x = w; x; x = x->next)
            group_refuse(c, x->conn, x->seq);
        waits_free(w);
    }
    table_fini(&c->waits->by_job);
    table_init(&c->waits->by_job);
}

void waits_destroy(struct ctl *c)
{
    struct wait *w;

    if (!c->waits)
        return;
    for (size_t i = 0; (w = table_next(&c->waits->by_job, &i)); )
        waits_free(w);
    table_fini(&c->waits->by_job);
    free(c->waits);
    c->waits = NULL;
}

static void wait_answer(struct ctl *c, const struct wait *w, const struct job *j)
{
    Wire__JobsReply reply = WIRE__JOBS_REPLY__INIT;
    Wire__JobInfo *info;
    struct arena a;

    arena_init(&a, 0);
    info = job_info(c->state, j, ~UINT64_C(0), clock_wall_ms() / 1000, &a);
    reply.jobs = &info;
    reply.n_jobs = 1;
    reply.has_last = reply.last = 1;
    reply.has_wall_ms = 1;
    reply.wall_ms = clock_wall_ms();
    ctl_send(c, w->conn, WIRE__MESSAGE_TYPE__JOBS_PART, w->seq, &reply.base);
    arena_fini(&a);
}

/* Of a heterogeneous job all components have to be ready. */
static bool is_ready(const struct ctl *c, const struct job *j)
{
    for (uint32_t k = 1; j->state == JOB_RUNNING && !j->het_offset && k < j->het_count; k++) {
        const struct job *part = het_part(c->state, j, k);

        if (part && part->state == JOB_RUNNING && part->flags & JOB_FLAG_CONFIGURING)
            return false;
    }
    return j->state != JOB_PENDING && !(j->state == JOB_RUNNING && j->flags & JOB_FLAG_CONFIGURING);
}

/* 1: answered. An array has ended when all its tasks have: no bit pending, none running. */
static bool wait_try(struct ctl *c, const struct wait *w)
{
    const struct job *j = state_job(c->state, w->job_id);
    struct spur_error err = { 0 };
    bool is_due;

    if (!j) {
        spur_fail(&err, SPUR_ENOTFOUND, "Invalid job id specified");
        ctl_refuse(c, w->conn, w->seq, &err, 2017);
        return true;
    }
    if (w->until == WIRE__WAIT_REQUEST__UNTIL__STARTED)
        is_due = is_ready(c, j);
    else if (j->array)
        is_due = bitmap_count(&j->array->ended) >= j->array->task_count;
    else
        is_due = job_state_is_end(j->state) && !(j->flags & (JOB_FLAG_REQUEUE | JOB_FLAG_REQUEUE_HOLD));
    if (is_due)
        wait_answer(c, w, j);
    return is_due;
}

void waits_add(struct ctl *c, struct peer *p, uint64_t seq, const Wire__WaitRequest *r)
{
    struct wait *w = mem_alloc(sizeof *w);

    w->conn = p->number;
    w->seq = seq;
    w->job_id = r->job_id;
    w->until = r->until;
    if (wait_try(c, w)) {
        free(w);
        return;
    }
    w->next = table_get(&c->waits->by_job, w->job_id);
    table_put(&c->waits->by_job, w->job_id, w);
}

void waits_event(struct ctl *c, uint32_t job_id)
{
    struct wait *w = table_get(&c->waits->by_job, job_id), *kept = NULL;

    if (!w)
        return;
    table_del(&c->waits->by_job, job_id);
    while (w) {
        struct wait *next = w->next;

        if (wait_try(c, w)) {
            free(w);
        } else {
            w->next = kept;
            kept = w;
        }
        w = next;
    }
    if (kept)
        table_put(&c->waits->by_job, job_id, kept);
}

void waits_forget(struct ctl *c, uint64_t conn)
{
    struct wait *w;

    for (size_t i = 0; (w = table_next(&c->waits->by_job, &i)); ) {
        uint32_t job_id = w->job_id;
        struct wait *kept = NULL;

        while (w) {
            struct wait *next = w->next;

            if (w->conn == conn) {
                free(w);
            } else {
                w->next = kept;
                kept = w;
            }
            w = next;
        }
        if (kept)
            table_put(&c->waits->by_job, job_id, kept);
        else
            table_del(&c->waits->by_job, job_id);
    }
}
