/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - the switch of a site whose nodes reach each other as they are: no fabric to prepare, nothing to clean.
 *
 * It is also the shortest plugin of this kind that keeps its whole contract, so it doubles as the example.
 */
#include <stdlib.h>
#include <spur/switch.h>

/* `self` is one byte: instances must be told apart and closed like those of any plugin. */
static int none_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, 1)))
        return spur_fail(err, SPUR_ENOMEM, "switch/none: out of memory");
    return 0;
}

static int none_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    (void)self;
    (void)conf;
    (void)err;
    return 0;
}

static int none_join(void *self, const struct spur_switch_job *job, const struct spur_switch_env *env, struct spur_error *err)
{
    (void)self;
    (void)job;
    (void)env;
    (void)err;
    return 0;
}

static void none_leave(void *self, const struct spur_switch_job *job)
{
    (void)self;
    (void)job;
}

static int none_status(void *self, char *buf, size_t len)
{
    (void)self;
    snprintf(buf, len, "no fabric: nodes use the network they have");
    return 0;
}

static const struct spur_switch_ops none_ops = {
    .size = sizeof none_ops, .job_join = none_join, .job_leave = none_leave, .status = none_status };

SPUR_PLUGIN(switch, none, .about = "no fabric: nodes use the network they have", .stands_for = "generic",
            .ops = &none_ops, .open = none_open, .reload = none_reload, .close = free);
