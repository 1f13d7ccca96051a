/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - steps of a running job: made on part of what the job holds, ended node by node.
 *
 * A step is no entry of the ledger: the job holds the resources, step_place() of plan/ divides them and this file only checks that
 * a step stays within its job.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "state/private.h"

struct step *job_step(const struct job *j, uint32_t step_id)
{
    for (struct step *st = j->steps; st; st = st->next)
        if (st->step_id == step_id)
            return st;
    return NULL;
}

struct node_alloc *step_alloc_on(const struct step *st, uint32_t node)
{
    for (uint32_t i = 0; i < st->alloc_count; i++)
        if (st->allocs[i].node == node)
            return &st->allocs[i];
    return NULL;
}

/* The worse of two wait() statuses, as srun counts: a signal is 128 more than its number. */
static int32_t worse(int32_t a, int32_t b)
{
    int x = WIFSIGNALED(a) ? 128 + WTERMSIG(a) : WEXITSTATUS(a), y = WIFSIGNALED(b) ? 128 + WTERMSIG(b) : WEXITSTATUS(b);

    return y > x ? b : a;
}

/* A long job may make very many steps: only the newest of those that have ended are kept. Cut when the next one is made, so that who is
 * told of a step's end still finds it. */
#define ENDED_STEPS_KEPT 32

static void steps_trim(struct doing *d, struct job *j)
{
    unsigned ended = 0;

    for (struct step **at = &j->steps; *at; ) {
        struct step *st = *at;

        if (job_state_is_end(st->state) && ++ended > ENDED_STEPS_KEPT) {
            *at = st->next;
            if (st->has_env)
                blob_drop(d, st->env_hash);
            step_destroy(st);
            continue;
        }
        at = &st->next;
    }
}

void step_ended_on(struct doing *d, struct job *j, struct step *st, struct node_alloc *a, int32_t status, bool oom)
{
    if (a->gone || job_state_is_end(st->state))
        return;
    a->gone = a->started = true;
    st->exit_status = worse(st->exit_status, status);
    st->oom |= oom;
    if (++st->ended_nodes < st->alloc_count)
        return;
    st->end_wall_s = d->s->wall_ms / 1000;
    st->state = st->oom ? JOB_OOM : st->timed_out ? JOB_TIMEOUT : st->exit_status ? JOB_FAILED : JOB_COMPLETE;
    j->derived_status = worse(j->derived_status, st->exit_status);
    tell(d, EV_STEP_ENDED, j)->step_id = st->step_id;
}

/* Nothing of the job is alive on this node: what steps had there has ended, killed. */
void steps_gone_on(struct doing *d, struct job *j, uint32_t node)
{
    for (struct step *st = j->steps; st; st = st->next) {
        struct node_alloc *a = step_alloc_on(st, node);

        if (a)
            step_ended_on(d, j, st, a, SIGKILL, false);
    }
}

void steps_drop(struct doing *d, struct job *j)
{
    while (j->steps) {
        struct step *st = j->steps;

        j->steps = st->next;
        if (st->has_env)
            blob_drop(d, st->env_hash);
        step_destroy(st);
    }
}

static bool asks_gres(const Wire__StepSpec *spec)
{
    return (spec->tres_per_node && *spec->tres_per_node) || (spec->tres_per_task && *spec->tres_per_task) || (spec->tres_per_step && *spec->tres_per_step);
}

static bool clash_gres(const struct node_alloc *a, const struct node_alloc *b)
{
    for (uint32_t i = 0; i < a->gres_count; i++)
        for (uint32_t k = 0; k < b->gres_count; k++)
            if (word_eq(a->gres[i].name, b->gres[k].name) && a->gres[i].mask & b->gres[k].mask)
                return true;
    return false;
}

/* Two steps may have been placed before either was in the log: the later one has to wait for the earlier. NULL, or what they would share. */
static const char *clash(const struct job *j, const struct step *new, const Wire__StepSpec *spec)
{
    for (uint32_t i = 0; i < new->alloc_count && !spec->overlap; i++) {
        const struct node_alloc *mine = &new->allocs[i], *of_job = job_alloc_on(j, mine->node);
        uint64_t mem = mine->mem_mib;

        for (const struct step *st = j->steps; st; st = st->next) {
            const struct node_alloc *its = st->spec && !st->spec->overlap && !job_state_is_end(st->state) ? step_alloc_on(st, mine->node) : NULL;

            if (!its)
                continue;
            mem += its->mem_mib;
            if (its->cores.bits == mine->cores.bits && bitmap_overlap(&its->cores, &mine->cores))
                return "CPUs";
            if (of_job && of_job->mem_mib && mem > of_job->mem_mib)
                return "memory";
            if (asks_gres(spec) && asks_gres(st->spec) && clash_gres(its, mine))
                return "generic resources";
        }
    }
    return NULL;
}

struct step *step_make(struct doing *d, const Wire__OpStep *o, struct job **job)
{
    struct state *s = d->s;
    struct job *j = *job = state_job(s, o->job_id);
    struct spur_error err = { 0 };
    struct step *st;
    const char *busy;
    size_t size;
    uint8_t *packed;

    if (!j || j->state != JOB_RUNNING || j->flags & JOB_FLAG_COMPLETING) {
        refuse(d, j ? SPUR_ESTALE : SPUR_ENOTFOUND, j ? ESLURM_ALREADY_DONE : ESLURM_INVALID_JOB_ID, j ? "job %u is not running" : "job %u is not known", o->job_id);
        return NULL;
    }
    if (j->awaits & AWAITS_PROLOG_CTLD) {
        refuse(d, SPUR_EBUSY, 0, "job %u is being configured: its PrologSlurmctld has not ended", o->job_id);
        return NULL;
    }
    if (o->has_attempt && o->attempt != j->attempt) {
        refuse(d, SPUR_ESTALE, 0, "job %u has been started anew", o->job_id);
        return NULL;
    }
    if (!o->n_allocs || j->next_step >= 0xfffffff0u) {
        refuse(d, SPUR_EINVAL, 0, "job %u: a step on no node", o->job_id);
        return NULL;
    }
    if (s->config && config_number(s->config, CONF_MaxStepCount) > 0 && j->next_step >= config_number(s->config, CONF_MaxStepCount)) {
        refuse(d, SPUR_ELIMIT, 0, "job %u has had %u steps, MaxStepCount is %lld", o->job_id, j->next_step, (long long)config_number(s->config, CONF_MaxStepCount));
        return NULL;
    }
    st = mem_alloc(sizeof *st);
    st->allocs = mem_array(o->n_allocs, sizeof *st->allocs);
    for (size_t i = 0; i < o->n_allocs; i++) {
        struct node_alloc *ja;

        if (ledger_alloc_from(s, o->allocs[i], &st->allocs[i], &err) < 0)
            goto refused;
        st->alloc_count++;
        ja = job_alloc_on(j, st->allocs[i].node);
        if (!ja || ja->gone || ja->spare || !bitmap_subset(&st->allocs[i].cores, &ja->cores) || st->allocs[i].mem_mib > ja->mem_mib) {
            spur_fail(&err, SPUR_ESTALE, "node %.64s: the step asks for what the job does not hold", o->allocs[i]->name);
            goto refused;
        }
        for (size_t k = 0; k < i; k++)
            if (st->allocs[k].node == st->allocs[i].node) {
                spur_fail(&err, SPUR_EINVAL, "node %.64s is named twice", o->allocs[i]->name);
                goto refused;
            }
        for (uint32_t g = 0; g < st->allocs[i].gres_count; g++) {
            uint64_t mine = 0, count = 0;

            for (uint32_t k = 0; k < ja->gres_count; k++)
                if (word_eq(ja->gres[k].name, st->allocs[i].gres[g].name)) {
                    mine |= ja->gres[k].mask;
                    count += ja->gres[k].count;
                }
            if (st->allocs[i].gres[g].mask & ~mine || st->allocs[i].gres[g].count > count) {
                spur_fail(&err, SPUR_ESTALE, "node %.64s: the step asks for a %s that the job does not hold", o->allocs[i]->name, st->allocs[i].gres[g].name);
                goto refused;
            }
        }
    }
    if ((busy = clash(j, st, o->spec))) {
        step_destroy(st);
        refuse(d, SPUR_ELATER, ESLURM_NODES_BUSY, "Requested nodes are busy: %s are held by a step that came before", busy);
        return NULL;
    }
    size = wire__step_spec__get_packed_size(o->spec);
    packed = mem_alloc(size ? size : 1);
    wire__step_spec__pack(o->spec, packed);
    st->spec = wire__step_spec__unpack(NULL, size, packed);
    free(packed);
    if (!st->spec) {
        spur_fail(&err, SPUR_EINVAL, "the step's description cannot be kept");
        goto refused;
    }
    st->ntasks = o->has_ntasks ? o->ntasks : o->spec->has_ntasks ? o->spec->ntasks : 1;
    st->state = JOB_RUNNING;
    st->start_wall_s = s->wall_ms / 1000;
    st->start_cluster_ms = s->cluster_ms;
    if (o->has_io_key && o->io_key.len == 32) {
        memcpy(st->io_key, o->io_key.data, 32);
        st->has_io_key = true;
    }
    st->io_host = mem_copy(o->io_host);
    st->io_port = o->io_port;
    if (o->has_env_hash && o->env_hash.len == 32) {
        memcpy(st->env_hash, o->env_hash.data, 32);
        st->has_env = true;
    }
    return st;

refused:
    step_destroy(st);
    refuse(d, err.code, 0, "job %u: %s", o->job_id, err.text);
    return NULL;
}

void step_enter(struct doing *d, struct job *j, struct step *st, uint32_t step_id)
{
    st->step_id = step_id;
    j->next_step = step_id + 1;
    if (st->has_env)
        blob_hold(d->s, st->env_hash);
    steps_trim(d, j);
    st->next = j->steps;
    j->steps = st;
    d->result->job_id = j->job_id;
    d->result->step_id = st->step_id;
    tell(d, EV_STEP_CREATED, j)->step_id = st->step_id;
}

void op_step(struct doing *d, const Wire__OpStep *o)
{
    struct job *j;
    struct step *st = step_make(d, o, &j);

    if (st)
        step_enter(d, j, st, step_next_id(d->s, j));
}
