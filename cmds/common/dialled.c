/* SPDX-License-Identifier: Apache-2.0 */
/* dialled.c - commands that the nodes of a step dial; see dialled.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/common/dialled.h"
#include "state/job.h"

static int job_lookup(struct client *c, struct arena *a, char *text, uint32_t *out, struct spur_error *err);

int step_name_parse(struct client *c, struct arena *a, const char *text, struct step_name *out, struct spur_error *err)
{
    char *job = arena_copy(a, text), *dot = strchr(job, '.');

    *out = (struct step_name){ 0 };
    if (dot) {
        *dot++ = '\0';
        out->has_step = true;
        if (word_eq(dot, "batch"))
            out->step_id = STEP_BATCH;
        else if (!number_u32(dot, &out->step_id))
            return spur_fail(err, SPUR_EINVAL, "Invalid job step id specified: %.60s", text);
    }
    if (number_u32(job, &out->job_id) && out->job_id)
        return 0;
    if (!strpbrk(job, "_+"))
        return spur_fail(err, SPUR_EINVAL, "Invalid job id specified: %.60s", text);
    return job_lookup(c, a, job, &out->job_id, err);
}

static int first_job(void *arg, void *part)
{
    const Wire__JobsReply *r = part;

    if (r->n_jobs && !*(uint32_t *)arg)
        *(uint32_t *)arg = r->jobs[0]->job_id;
    return 1;
}

static int job_lookup(struct client *c, struct arena *a, char *text, uint32_t *out, struct spur_error *err)
{
    Wire__JobsRequest q = WIRE__JOBS_REQUEST__INIT;
    int number, rc;

    q.id_texts = &text;
    q.n_id_texts = 1;
    *out = 0;
    rc = client_stream_keep(c, WIRE__MESSAGE_TYPE__JOBS, &q.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, a, first_job, out, &number, err);
    return rc < 0 ? rc : *out ? 0 : spur_fail(err, SPUR_ENOTFOUND, "Invalid job id specified: %.60s", text);
}

static int components_part(void *arg, void *part)
{
    const Wire__JobsReply *r = part;

    for (size_t i = 0; i < r->n_jobs; i++)
        if (r->jobs[i]->het_job_id && !r->jobs[i]->het_offset && r->jobs[i]->het_count > *(uint32_t *)arg)
            *(uint32_t *)arg = r->jobs[i]->het_count;
    return 1;
}

uint32_t job_components(struct client *c, struct arena *a, uint32_t job_id)
{
    Wire__JobsRequest q = WIRE__JOBS_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint32_t count = 1;
    int number;

    q.job_ids = &job_id;
    q.n_job_ids = 1;
    client_stream_keep(c, WIRE__MESSAGE_TYPE__JOBS, &q.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, a, components_part, &count, &number, &err);
    return count;
}

void step_name_print(const struct step_name *n, char out[32])
{
    if (!n->has_step)
        snprintf(out, 32, "%u", n->job_id);
    else if (n->step_id == STEP_BATCH)
        snprintf(out, 32, "%u.batch", n->job_id);
    else
        snprintf(out, 32, "%u.%u", n->job_id, n->step_id);
}

struct step_io *dialled_listen(struct client *c, struct spur_error *err)
{
    const struct config_hint *hint = client_hint(c);
    uint16_t first, last;

    config_hint_srun_ports(hint, &first, &last);
    return step_io_listen(hint->cluster, first, last, err);
}

int dialled_ask(struct client *c, struct step_io *io, Wire__DialRequest__Purpose purpose, const struct step_name *step, struct arena *a, Wire__DialReply **out, struct spur_error *err)
{
    Wire__DialRequest q = WIRE__DIAL_REQUEST__INIT;
    void *reply = NULL;
    int number, rc;

    q.purpose = purpose;
    q.job_id = step->job_id;
    q.has_step_id = step->has_step;
    q.step_id = step->step_id;
    q.io_host = (char *)(uintptr_t)step_io_host(io);
    q.io_port = step_io_port(io);
    q.io_key.data = (uint8_t *)(uintptr_t)step_io_key(io);
    q.io_key.len = 32;
    rc = client_call(c, WIRE__MESSAGE_TYPE__DIAL, &q.base, WIRE__MESSAGE_TYPE__DIALLED, &wire__dial_reply__descriptor, a, &reply, &number, err);
    *out = reply;
    return rc;
}

struct steps_seen { void (*fn)(void *arg, const Wire__StepInfo *s); void *arg; };

static int steps_part(void *arg, void *part)
{
    const struct steps_seen *seen = arg;
    const Wire__StepsReply *r = part;

    for (size_t i = 0; i < r->n_steps; i++)
        if (r->steps[i]->step_id != STEP_BATCH)
            seen->fn(seen->arg, r->steps[i]);
    return 1;
}

int steps_of_job(struct client *c, struct arena *a, uint32_t job_id, void (*fn)(void *arg, const Wire__StepInfo *s), void *arg, struct spur_error *err)
{
    Wire__StepsRequest q = WIRE__STEPS_REQUEST__INIT;
    struct steps_seen seen = { fn, arg };
    int number;

    q.job_ids = &job_id;
    q.n_job_ids = 1;
    return client_stream_keep(c, WIRE__MESSAGE_TYPE__STEPS, &q.base, WIRE__MESSAGE_TYPE__STEPS_PART, &wire__steps_reply__descriptor, a, steps_part, &seen, &number, err);
}

struct looking { uint32_t step_id; bool found; };

static void look(void *arg, const Wire__StepInfo *s)
{
    struct looking *l = arg;

    l->found = l->found || s->step_id == l->step_id;
}

bool step_is_alive(struct client *c, struct arena *a, const struct step_name *step)
{
    struct looking l = { .step_id = step->step_id };
    struct spur_error err = { 0 };

    return step->step_id == STEP_BATCH || steps_of_job(c, a, step->job_id, look, &l, &err) < 0 || l.found;
}
