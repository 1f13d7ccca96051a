/* SPDX-License-Identifier: Apache-2.0 */
/* het.c - heterogeneous jobs: several records, the components, that start together and end with the first one.
 *
 * Components have ids that follow each other, so the id of the first one (the leader), a place and their number are all that is kept, and
 * nothing has to be looked for. They are made by one operation, started by one (OpHetStart: all or none), and their steps by one too.
 * The first component carries the batch script. Its end is the end of all, and so is the loss of any: who requeues or loses
 * one asks for the leader (life.c). What ends one of the others alone - scancel 12+1, its own time limit - leaves the rest running.
 * Who waits: the job may start when each component could. Only the leader stands in the plan's queue.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

struct job *het_part(const struct state *s, const struct job *j, uint32_t offset)
{
    struct job *part = j->het_job_id && offset < j->het_count ? state_job(s, j->het_job_id + offset) : NULL;

    return part && part->het_job_id == j->het_job_id ? part : NULL;
}

struct job *het_leader(const struct state *s, const struct job *j)
{
    struct job *leader = j->het_offset ? het_part(s, j, 0) : NULL;

    return leader ? leader : (struct job *)(uintptr_t)j;
}

struct job *het_named(const struct state *s, const char *id_text)
{
    const char *plus = strchr(id_text, '+');
    char *head = plus ? mem_copy_n(id_text, (size_t)(plus - id_text)) : NULL;
    uint32_t id = 0, offset = 0;
    struct job *leader;
    bool fine = head && number_u32(head, &id) && number_u32(plus + 1, &offset);

    free(head);
    leader = fine ? state_job(s, id) : NULL;
    if (leader && (!leader->het_job_id || leader->het_offset))
        return NULL;
    if (leader)
        return het_part(s, leader, offset);
    leader = fine && offset ? state_job(s, id + offset) : NULL;     /* the first one is forgotten already */
    return leader && leader->het_job_id == id ? leader : NULL;
}

bool het_follows(const struct state *s, const struct job *j)
{
    const struct job *leader = j->het_offset ? het_part(s, j, 0) : NULL;
    enum job_phase phase = leader ? job_phase(leader) : PHASE_ENDED;

    return phase == PHASE_PENDING || phase == PHASE_REQUEUEING;
}

struct job **het_records(struct doing *d, struct job *j, bool alone, size_t *count)
{
    struct job **out = arena_alloc(d->arena, (j->het_count + 1) * sizeof *out);

    *count = 0;
    out[(*count)++] = j;
    for (uint32_t k = 1; k < j->het_count && !j->het_offset && !alone; k++) {
        struct job *part = het_part(d->s, j, k);

        if (part)
            out[(*count)++] = part;
    }
    return out;
}

#define ID_TRIES 1000000

uint32_t het_next_ids(struct state *s, uint32_t count)
{
    uint32_t first = job_next_id(s), have = 1;

    for (unsigned tries = 0; first && have < count; tries++) {
        uint32_t id = job_next_id(s);

        if (!id || tries == ID_TRIES)
            return 0;
        if (id == first + have) {
            have++;
        } else {
            first = id;
            have = 1;
        }
    }
    return first;
}

int het_refuse_single(struct doing *d, const struct job *j)
{
    return refuse(d, SPUR_EINVAL, ESLURM_NOT_WHOLE_HET_JOB, "Operation not permitted on individual component of heterogeneous job: name all of it (%u)", j->het_job_id);
}

bool het_forgettable(const struct state *s, const struct job *j, bool (*one)(const struct state *s, const struct job *j, int64_t before_cluster_ms), int64_t before_cluster_ms)
{
    for (uint32_t k = 0; k < j->het_count; k++) {
        const struct job *part = het_part(s, j, k);

        if (part && !one(s, part, before_cluster_ms))
            return false;
    }
    return true;
}

int het_suspend(struct doing *d, struct job *j, bool resume, struct spur_error *err)
{
    size_t count;
    struct job **parts = het_records(d, j, false, &count);
    int rc = 0;

    if (j->het_offset)
        return spur_fail(err, SPUR_EINVAL, "Job not heterogeneous job leader: only all of job %u can be suspended or resumed", j->het_job_id);
    /* First whether all of them can: a job that stands still in part is worse than one that does not. */
    for (size_t i = 0; i < count; i++) {
        struct job *part = parts[i];
        enum job_phase phase = job_phase(part);

        if (i && (phase == PHASE_COMPLETING || phase == PHASE_ENDED))
            continue;
        if (!resume && phase != PHASE_RUNNING)
            return job_suspend(d, part, err) < 0 ? err->code : 0;   /* says why not */
        for (uint32_t k = 0; resume && k < part->alloc_count; k++)
            if (phase != PHASE_SUSPENDED)
                return spur_fail(err, SPUR_EINVAL, "job %u is not suspended", part->job_id);
            else if (!part->allocs[k].gone && part->allocs[k].node != NODE_REMOVED && ledger_unpark_check(d->s, &part->allocs[k], err) < 0)
                return spur_context(err, "job %u cannot go on yet", j->job_id);
    }
    for (size_t i = 0; rc == 0 && i < count; i++)
        if (job_phase(parts[i]) == (resume ? PHASE_SUSPENDED : PHASE_RUNNING))
            rc = resume ? job_resume(d, parts[i], err) : job_suspend(d, parts[i], err);
    return rc;
}

/* ---- start ---- */

struct part { const Wire__OpStart *op; const struct config_partition *partition; struct node_alloc *allocs; uint32_t count; bool exclusive, was_exclusive; };

/* Parts may share a node: each is checked with those before it charged. What is charged for that is given back, whatever the outcome. */
static bool parts_prepare(struct doing *d, struct part *parts, size_t n, const struct job *leader)
{
    struct state *s = d->s;
    int64_t **busy = arena_alloc(d->arena, n * sizeof *busy);
    size_t charged = 0;
    bool fine = true;

    for (size_t i = 0; i < n && fine; i++) {
        struct part *p = &parts[i];
        struct job *j = het_part(s, leader, (uint32_t)i);

        if (!j || p->op->job_id != j->job_id) {
            refuse(d, SPUR_ESTALE, 0, "job %u: component %zu of a decision is not its own", leader->job_id, i);
            fine = false;
        } else if (start_prepare(d, p->op, &p->partition, &p->allocs, &p->count) < 0) {
            fine = false;
        } else {
            busy[i] = arena_alloc(d->arena, (p->count + 1) * sizeof **busy);
            p->was_exclusive = j->exclusive;
            j->exclusive |= p->partition && p->partition->exclusive_nodes;
            for (uint32_t k = 0; k < p->count; k++) {
                busy[i][k] = s->nodes[p->allocs[k].node].last_busy_wall_s;
                ledger_charge(s, j, &p->allocs[k]);
            }
            charged++;
        }
    }
    while (charged--) {
        struct part *p = &parts[charged];
        struct job *j = het_part(s, leader, (uint32_t)charged);

        for (uint32_t k = p->count; k--; ) {
            ledger_release(s, j, &p->allocs[k]);
            s->nodes[p->allocs[k].node].last_busy_wall_s = busy[charged][k];
        }
        j->exclusive = p->was_exclusive;
    }
    return fine;
}

void op_het_start(struct doing *d, const Wire__OpHetStart *o)
{
    struct job *leader = o->n_parts ? state_job(d->s, o->parts[0]->job_id) : NULL;
    struct part *parts;

    if (!leader || !leader->het_job_id || leader->het_offset || leader->het_count != o->n_parts) {
        refuse(d, SPUR_ESTALE, ESLURM_INVALID_JOB_ID, "job %u is no heterogeneous job of %zu components", o->n_parts ? o->parts[0]->job_id : 0, o->n_parts);
        return;
    }
    parts = arena_alloc(d->arena, o->n_parts * sizeof *parts);
    for (size_t i = 0; i < o->n_parts; i++)
        parts[i] = (struct part){ .op = o->parts[i] };
    d->result->job_id = leader->job_id;
    if (!parts_prepare(d, parts, o->n_parts, leader)) {
        for (size_t i = 0; i < o->n_parts; i++) {
            for (uint32_t k = 0; k < parts[i].count; k++)
                node_alloc_fini(&parts[i].allocs[k]);
            free(parts[i].allocs);
        }
        return;
    }
    for (size_t i = 0; i < o->n_parts; i++)
        job_start(d, het_part(d->s, leader, (uint32_t)i), parts[i].op, parts[i].allocs, parts[i].count);
}

/* ---- steps ---- */

uint32_t step_next_id(const struct state *s, const struct job *j)
{
    uint32_t next = j->next_step;

    for (uint32_t k = 0; k < j->het_count; k++) {
        const struct job *part = het_part(s, j, k);

        next = part && part->next_step > next ? part->next_step : next;
    }
    return next;
}

void op_het_step(struct doing *d, const Wire__OpHetStep *o)
{
    struct step **steps = arena_alloc(d->arena, (o->n_parts + 1) * sizeof *steps);
    struct job **jobs = arena_alloc(d->arena, (o->n_parts + 1) * sizeof *jobs);
    size_t made = 0;
    uint32_t id = 0;

    if (o->n_parts < 2 || o->n_parts > HET_MAX) {
        refuse(d, SPUR_EINVAL, 0, "a step over %zu components", o->n_parts);
        return;
    }
    for (; made < o->n_parts; made++) {
        uint32_t next;

        if (!(steps[made] = step_make(d, o->parts[made], &jobs[made])))
            break;
        next = step_next_id(d->s, jobs[made]);
        id = next > id ? next : id;
        if (!jobs[made]->het_job_id || jobs[made]->het_job_id != jobs[0]->het_job_id || (made && jobs[made]->het_offset <= jobs[made - 1]->het_offset)) {
            refuse(d, SPUR_EINVAL, 0, "jobs %u and %u are not components of one heterogeneous job, in their order", jobs[0]->job_id, jobs[made]->job_id);
            made++;
            break;
        }
    }
    for (size_t i = 0; i < made; i++)
        if (d->result->code)
            step_destroy(steps[i]);
        else
            step_enter(d, jobs[i], steps[i], id);
    if (!d->result->code)
        d->result->job_id = jobs[0]->job_id;
}
