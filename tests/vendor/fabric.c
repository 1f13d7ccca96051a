/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c - switch/fabric, a plugin as a vendor of a network would write it: the fabric has `ids` tenants' numbers, each job gets one of its own and finds it
 * in FABRIC_ID. Who gets none waits. Built by tests/integration/t-fabric with the installed headers alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <spur/switch.h>

#define MOST 64

struct fabric { long ids; unsigned char taken[MOST]; };

static int fabric_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct fabric *f = calloc(1, sizeof *f);

    if (!f)
        return spur_fail(err, SPUR_ENOMEM, "switch/fabric: out of memory");
    f->ids = host->conf_int(conf, "ids");
    if (f->ids < 1 || f->ids > MOST) {
        long ids = f->ids;

        free(f);
        return spur_fail(err, SPUR_EINVAL, "switch/fabric: ids = %ld: 1 to %d", ids, MOST);
    }
    *self = f;
    return 0;
}

static int fabric_allot(void *self, const struct spur_switch_job *job, void *blob, size_t *blob_len, struct spur_error *err)
{
    struct fabric *f = self;

    (void)job;
    for (long i = 0; i < f->ids; i++)
        if (!f->taken[i]) {
            f->taken[i] = 1;
            ((unsigned char *)blob)[0] = (unsigned char)(i + 1);
            *blob_len = 1;
            return 0;
        }
    return spur_fail(err, SPUR_ELATER, "switch/fabric: all %ld ids are in use", f->ids);
}

static unsigned id_of(const struct fabric *f, const struct spur_switch_job *job)
{
    unsigned id = job->blob_len == 1 ? *(const unsigned char *)job->blob : 0;

    return id <= (unsigned long)f->ids ? id : 0;
}

static void fabric_release(void *self, const struct spur_switch_job *job)
{
    struct fabric *f = self;

    if (id_of(f, job))
        f->taken[id_of(f, job) - 1] = 0;
}

static void fabric_adopt(void *self, const struct spur_switch_job *job)
{
    struct fabric *f = self;

    if (id_of(f, job))
        f->taken[id_of(f, job) - 1] = 1;
}

static int fabric_join(void *self, const struct spur_switch_job *job, const struct spur_switch_env *env, struct spur_error *err)
{
    char text[16];

    if (!id_of(self, job))
        return spur_fail(err, SPUR_EINVAL, "switch/fabric: job %u has no id of the fabric", job->job_id);
    snprintf(text, sizeof text, "%u", id_of(self, job));
    env->set(env->arg, "FABRIC_ID", text);
    return 0;
}

static void fabric_leave(void *self, const struct spur_switch_job *job) { (void)self; (void)job; }

static const struct spur_option fabric_options[] = { { "ids", SPUR_INT, "4", "numbers that the fabric has for jobs" }, { 0 } };
static const struct spur_switch_ops fabric_ops = { .size = sizeof fabric_ops, .allot = fabric_allot, .release = fabric_release, .adopt = fabric_adopt,
                                                   .job_join = fabric_join, .job_leave = fabric_leave };

SPUR_PLUGIN(switch, fabric, .about = "an id of the fabric for each job", .options = fabric_options, .ops = &fabric_ops, .open = fabric_open, .close = free);
