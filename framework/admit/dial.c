/* SPDX-License-Identifier: Apache-2.0 */
/* dial.c - sattach, sstat and sbcast: may he reach the nodes of this job? Owner and administrators; others are told what they may know of the job. */
#include <string.h>

#include "admit/private.h"

int admit_dial(struct state *s, const Wire__DialRequest *r, const struct spur_identity *who, struct admitted *out, const struct job **job, const struct step **step,
               struct spur_error *err)
{
    enum rank rank = admit_rank(s, who);
    const struct job *j = state_job(s, r->job_id);
    const struct step *st = NULL;

    *job = j;
    *step = NULL;
    if (!j || !admit_sees_job(s, j, who, rank))
        return deny(out, err, REFUSE_JOB_UNKNOWN, "%u", r->job_id);
    if (!admit_owns_job(j, who, rank))
        return deny(out, err, REFUSE_DENIED, "job %u is another user's", r->job_id);
    if (r->io_key.len != 32 || !r->io_port || r->io_port > 65535 || !*r->io_host || strlen(r->io_host) > 1024)
        return deny(out, err, REFUSE_BAD_REQUEST, "no address to dial, or a key of %zu bytes, not 32", r->io_key.len);
    if (j->state == JOB_PENDING)
        return deny(out, err, REFUSE_JOB_PENDING, "job %u", r->job_id);
    if (job_state_is_end(j->state) || !j->alloc_count)
        return deny(out, err, REFUSE_JOB_DONE, "job %u", r->job_id);
    if (!r->has_step_id)
        return r->purpose == WIRE__DIAL_REQUEST__PURPOSE__SBCAST ? 0 : deny(out, err, REFUSE_BAD_REQUEST, "no step of job %u is named", r->job_id);
    if (r->step_id == STEP_BATCH)
        return j->is_batch ? 0 : deny(out, err, REFUSE_JOB_UNKNOWN, "%u has no batch step", r->job_id);
    for (st = j->steps; st && st->step_id != r->step_id; st = st->next)
        ;
    if (!st)
        return deny(out, err, REFUSE_JOB_UNKNOWN, "job %u has no step %u now", r->job_id, r->step_id);
    if (job_state_is_end(st->state))
        return deny(out, err, REFUSE_JOB_DONE, "step %u.%u", r->job_id, r->step_id);
    *step = st;
    return 0;
}
