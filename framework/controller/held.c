/* SPDX-License-Identifier: Apache-2.0 */
/* held.c - the failed end of a batch script whose job has a node that does not answer: kept back until it is known what has become of that node.
 *
 * When a machine dies the tasks on the others see it first: their connections break, the script fails, and the job would be FAILED before the node is known
 * to be lost. So the report waits, not longer than SlurmdTimeout lets a node be silent. Is the node lost, the job is requeued or ends with NODE_FAIL, as if the script
 * still ran; does it answer again with its part of the job, the failure is the script's own. Nothing of this is replicated: a report that was not acknowledged
 * stays in the agent's spool, and comes again, to another leader too. Called by nodes.c; on the loop.
 */
#include <stdlib.h>

#include "controller/ctl.h"
#include "state/job.h"
#include "wire/unpack.h"

#define HELD_MAX 10000u         /* reports: more are taken as they come */

struct held { struct held *next; uint64_t conn, seq; uint32_t job_id, attempt; uint8_t *packed; size_t size; };

/* Does this job run, with a node that has no connection and is not down? */
static bool is_undecided(const struct ctl *c, uint32_t job_id, uint32_t attempt)
{
    const struct job *j = state_job(c->state, job_id);

    if (!j || j->state != JOB_RUNNING || j->attempt != attempt)
        return false;
    for (uint32_t i = 0; i < j->alloc_count; i++) {
        uint32_t node = j->allocs[i].node;

        if (!j->allocs[i].gone && node < c->state->node_count && c->state->nodes[node].away && c->state->nodes[node].base != NODE_DOWN)
            return true;
    }
    return false;
}

bool held_take(struct ctl *c, struct peer *p, uint64_t seq, const Wire__Report *m)
{
    bool is_batch = !m->has_step_id || m->step_id == STEP_BATCH;
    struct held *h;

    if (m->kind != WIRE__REPORT__KIND__ENDED || !is_batch || !m->status || c->held_count >= HELD_MAX || !is_undecided(c, m->job_id, m->attempt))
        return false;
    h = mem_alloc(sizeof *h);
    h->conn = p->number;
    h->seq = seq;
    h->job_id = m->job_id;
    h->attempt = m->attempt;
    h->size = wire__report__get_packed_size(m);
    h->packed = mem_alloc(h->size + 1);
    wire__report__pack(m, h->packed);
    h->next = c->held;
    c->held = h;
    c->held_count++;
    log_line(SPUR_LOG_INFO, "job %u: its script has failed while a node of it does not answer: waits for what becomes of the node", m->job_id);
    return true;
}

static void held_free(struct held *h)
{
    free(h->packed);
    free(h);
}

void held_look(struct ctl *c)
{
    for (struct held **at = &c->held; *at; ) {
        struct held *h = *at;
        struct peer *p = ctl_peer(c, h->conn);
        struct arena arena;
        Wire__Report *m;

        if (p && is_undecided(c, h->job_id, h->attempt)) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        c->held_count--;
        arena_init(&arena, 0);
        if (p && (m = wire_unpack(&wire__report__descriptor, h->packed, h->size, &arena)))
            nodes_report(c, p, h->seq, m, &arena);
        arena_fini(&arena);
        held_free(h);
    }
}

void held_forget(struct ctl *c)
{
    while (c->held) {
        struct held *h = c->held;

        c->held = h->next;
        held_free(h);
    }
    c->held_count = 0;
}
