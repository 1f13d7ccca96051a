/* SPDX-License-Identifier: Apache-2.0 */
/* kill.c - ending, signalling, suspending and requeueing jobs and steps.
 *
 * SIGKILL to a job ends it, as scancel does. slurm_signal_job() means the steps alone, whatever the signal: KILL then goes to each step.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/str.h"
#include "compat.h"

/* errno for a row of the answer. "Too late" is also what a job says that waits: then its state decides. */
static int number_of_result(const Wire__JobResult *r)
{
    job_info_msg_t *jobs;
    int number;

    if (r->code != SPUR_ESTALE)
        return number_of(r->code);
    number = ESLURM_ALREADY_DONE;
    if (slurm_load_job(&jobs, r->job_id, SHOW_ALL) == 0) {
        if ((jobs->job_array[0].job_state & JOB_STATE_BASE) == JOB_PENDING)
            number = ESLURM_JOB_PENDING;
        slurm_free_job_info_msg(jobs);
    }
    return number;
}

static int done_check(const Wire__DoneReply *done)
{
    for (size_t i = 0; i < done->n_results; i++)
        if (done->results[i]->code)
            return refuse(number_of_result(done->results[i]));
    return SLURM_SUCCESS;
}

static int cancel(struct ask *k, char **ids, size_t count, uint32_t signal, uint16_t flags)
{
    Wire__CancelRequest r = WIRE__CANCEL_REQUEST__INIT;
    void *reply;

    r.n_ids = count;
    r.ids = ids;
    if (signal != SIGKILL || flags & KILL_JOB_BATCH) {
        r.has_signal = r.has_signal_set = r.signal_set = 1;
        r.signal = signal;
    }
    r.has_batch_only = r.batch_only = (flags & KILL_JOB_BATCH) != 0;
    r.has_full = r.full = (flags & KILL_FULL_JOB) != 0;
    r.has_token = r.has_token_wall_ms = 1;
    ask_token(k, &r.token, &r.token_wall_ms);
    if (ask_call(k, WIRE__MESSAGE_TYPE__CANCEL, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply) < 0)
        return SLURM_ERROR;
    return done_check(reply);
}

/* Signal 0: is there such a job, and has it not ended? */
static int job_alive(const char *job_id)
{
    job_info_msg_t *jobs;
    uint32_t id, state;

    if (!number_u32(job_id, &id))
        return refuse(ESLURM_INVALID_JOB_ID);
    if (slurm_load_job(&jobs, id, SHOW_ALL) < 0)
        return SLURM_ERROR;
    state = jobs->job_array[0].job_state & JOB_STATE_BASE;
    slurm_free_job_info_msg(jobs);
    return state > JOB_SUSPENDED ? refuse(ESLURM_ALREADY_DONE) : SLURM_SUCCESS;
}

struct steps { struct ask *k; char **ids; size_t count; };

static int steps_part(void *arg, void *part)
{
    struct steps *l = arg;
    const Wire__StepsReply *r = part;

    for (size_t i = 0; i < r->n_steps; i++) {
        const Wire__StepInfo *s = r->steps[i];

        if (s->state != JOB_RUNNING || s->step_id > SLURM_MAX_NORMAL_STEP_ID)
            continue;
        l->ids = mem_grow(l->ids, l->count + 1, sizeof *l->ids);
        l->ids[l->count++] = arena_printf(&l->k->arena, "%u.%u", s->job_id, s->step_id);
    }
    return 1;
}

/* All running steps of a job, named one by one. */
static int kill_steps(struct ask *k, char *job_id, uint32_t signal)
{
    Wire__StepsRequest r = WIRE__STEPS_REQUEST__INIT;
    struct steps l = { .k = k };
    int rc;

    r.n_id_texts = 1;
    r.id_texts = &job_id;
    rc = ask_stream(k, WIRE__MESSAGE_TYPE__STEPS, &r.base, WIRE__MESSAGE_TYPE__STEPS_PART, &wire__steps_reply__descriptor, steps_part, &l);
    if (rc == 0)
        rc = l.count ? cancel(k, l.ids, l.count, signal, 0) : job_alive(job_id);
    slurm_xfree_ptr(l.ids);
    return rc;
}

int slurm_kill_job2(const char *job_id, uint16_t signal, uint16_t flags, const char *sibling)
{
    struct ask k;
    char *id;
    int rc;

    if (!job_id || !*job_id || (sibling && *sibling) || signal > 64)
        return refuse(sibling && *sibling ? ESLURM_NOT_SUPPORTED : EINVAL);
    if (signal == 0)
        return job_alive(job_id);
    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    id = arena_copy(&k.arena, job_id);
    rc = flags & KILL_STEPS_ONLY && signal == SIGKILL ? kill_steps(&k, id, signal) : cancel(&k, &id, 1, signal, flags);
    ask_close(&k);
    return rc;
}

int slurm_kill_job(uint32_t job_id, uint16_t signal, uint16_t flags)
{
    char id[16];

    snprintf(id, sizeof id, "%u", job_id);
    return slurm_kill_job2(id, signal, flags, NULL);
}

int slurm_signal_job(uint32_t job_id, uint16_t signal)
{
    return slurm_kill_job(job_id, signal, KILL_STEPS_ONLY);
}

int slurm_kill_job_step(uint32_t job_id, uint32_t step_id, uint16_t signal)
{
    char id[48], *ids[] = { id };
    struct ask k;
    int rc;

    if (signal == 0 || signal > 64)
        return refuse(EINVAL);
    if (step_id == SLURM_BATCH_SCRIPT)
        return slurm_kill_job(job_id, signal, KILL_JOB_BATCH);
    if (step_id == SLURM_EXTERN_CONT)
        snprintf(id, sizeof id, "%u.extern", job_id);
    else if (step_id == SLURM_INTERACTIVE_STEP)
        snprintf(id, sizeof id, "%u.interactive", job_id);
    else
        snprintf(id, sizeof id, "%u.%u", job_id, step_id);
    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    rc = cancel(&k, ids, 1, signal, 0);
    ask_close(&k);
    return rc;
}

int slurm_signal_job_step(uint32_t job_id, uint32_t step_id, uint32_t signal)
{
    return slurm_kill_job_step(job_id, step_id, (uint16_t)(signal > 64 ? 0 : signal));
}

int slurm_terminate_job_step(uint32_t job_id, uint32_t step_id)
{
    return slurm_kill_job_step(job_id, step_id, SIGKILL);
}

static int update(uint32_t job_id, Wire__JobUpdateRequest__Verb verb)
{
    Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
    struct ask k;
    void *reply;
    char id[16];
    int rc;

    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    snprintf(id, sizeof id, "%u", job_id);
    r.ids = id;
    r.verb = verb;
    r.has_token = r.has_token_wall_ms = 1;
    ask_token(&k, &r.token, &r.token_wall_ms);
    rc = ask_call(&k, WIRE__MESSAGE_TYPE__JOB_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply);
    if (rc == 0)
        rc = done_check(reply);
    ask_close(&k);
    return rc;
}

int slurm_suspend(uint32_t job_id)
{
    return update(job_id, WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND);
}

int slurm_resume(uint32_t job_id)
{
    return update(job_id, WIRE__JOB_UPDATE_REQUEST__VERB__RESUME);
}

int slurm_requeue(uint32_t job_id, uint32_t flags)
{
    if (flags & ~(uint32_t)JOB_REQUEUE_HOLD)
        return refuse(ESLURM_NOT_SUPPORTED);
    return update(job_id, flags ? WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE_HOLD : WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE);
}
