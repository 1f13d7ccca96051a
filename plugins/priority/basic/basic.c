/* SPDX-License-Identifier: Apache-2.0 */
/* basic.c - first come, first served: each job's priority is a little lower than that of the job before it.
 *
 * Job ids are handed out in the order of submission, so the priority is a fixed number less the id and nothing has to be
 * remembered or replicated. The numbers are those that Slurm's own priority/basic shows for a fresh cluster (4294901759 for job 1).
 */
#include <stdlib.h>
#include <spur/priority.h>

#define FIRST INT64_C(4294901760)

static int basic_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, 1)))
        return spur_fail(err, SPUR_ENOMEM, "priority/basic: out of memory");
    return 0;
}

static int basic_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    (void)self;
    (void)conf;
    (void)err;
    return 0;
}

static uint64_t basic_rank(void *self, const struct spur_job_view *job, int64_t now, struct spur_priority_factors *out)
{
    int64_t rank = FIRST - (int64_t)job->job_id - job->nice;

    (void)self;
    (void)now;
    if (out) {
        uint32_t size = out->size;

        memset(out, 0, size < sizeof *out ? size : sizeof *out);
        out->size = size;
        if (SPUR_COVERS(out, nice))
            out->nice = job->nice;
    }
    return rank < 1 ? 1 : rank > (int64_t)UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint64_t)rank;
}

static const struct spur_priority_ops basic_ops = { .size = sizeof basic_ops, .rank = basic_rank };

SPUR_PLUGIN(priority, basic, .about = "first come, first served",
            .ops = &basic_ops, .open = basic_open, .reload = basic_reload, .close = free);
