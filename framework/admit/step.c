/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - srun inside an allocation: may he start a step there, and is the request sound? Where it goes is the plan's (step_place). */
#include <string.h>

#include "admit/private.h"
#include "base/str.h"
#include "state/bind.h"
#include "state/cpubind.h"
#include "state/layout.h"

#define STEP_ENV_MAX (16u << 20)
#define STEP_ARGV_MAX (2u << 20)

int admit_step(struct state *s, const Wire__StepRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    const ProtobufCMessageDescriptor *d = &wire__step_spec__descriptor;
    const struct job *j = state_job(s, r->job_id);
    int64_t most = config_number(s->config, CONF_MaxStepCount), per_node = config_number(s->config, CONF_MaxTasksPerNode);
    uint64_t argv = 0;
    struct layout_how how;
    struct cpubind cpu;
    struct membind mem;
    Wire__OpStep *o;
    Wire__Op *op;
    int rc;

    if (!j || !admit_sees_job(s, j, who, asker.rank))
        return deny(out, err, REFUSE_JOB_UNKNOWN, "%u", r->job_id);
    if (!admit_owns_job(j, who, asker.rank))
        return deny(out, err, REFUSE_DENIED, "job %u is another user's", r->job_id);
    if ((rc = check_token(s, r->has_token, r->token, r->token_wall_ms, out, err)) < 0)
        return rc;
    if (j->state == JOB_PENDING)
        return deny(out, err, REFUSE_JOB_PENDING, "job %u", r->job_id);
    if (job_state_is_end(j->state) || j->kill_pending)
        return deny(out, err, REFUSE_JOB_DONE, "job %u", r->job_id);
    if (j->state == JOB_SUSPENDED)
        return deny(out, err, REFUSE_DISABLED, "job %u is suspended", r->job_id);
    if (most > 0 && j->next_step >= (uint64_t)most)
        return deny(out, err, REFUSE_STEP_LIMIT, "job %u has had %u steps (MaxStepCount)", r->job_id, j->next_step);
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &d->fields[i];
        const char *text;

        if (field->type != PROTOBUF_C_TYPE_STRING || field->label == PROTOBUF_C_LABEL_REPEATED)
            continue;
        text = *(char *const *)(const void *)((const char *)r->spec + field->offset);
        if (text && strlen(text) > (strstr(field->name, "nodes") ? 64u << 10 : 4096u))
            return deny(out, err, REFUSE_TOO_LONG, "%s has %zu characters", field->name, strlen(text));
    }
    for (size_t i = 0; i < r->spec->n_argv; i++)
        argv += strlen(r->spec->argv[i]) + 1;
    if (r->spec->n_argv == 0)
        return deny(out, err, REFUSE_BAD_REQUEST, "no program to run");
    if (argv > STEP_ARGV_MAX || r->env.len > STEP_ENV_MAX)
        return deny(out, err, REFUSE_TOO_LONG, "arguments of %llu bytes (limit %u) and environment of %zu bytes (limit %u)", (unsigned long long)argv, STEP_ARGV_MAX,
                    r->env.len, STEP_ENV_MAX);
    if (r->has_io_key && r->io_key.len != 32)
        return deny(out, err, REFUSE_BAD_REQUEST, "the key of the step's input and output has %zu bytes, not 32", r->io_key.len);
    if ((r->io_host && strlen(r->io_host) > 255) || r->io_port > 65535)
        return deny(out, err, REFUSE_BAD_REQUEST, "no address of srun");
    if ((r->spec->has_ntasks && (r->spec->ntasks == 0 || r->spec->ntasks > (1u << 26))) ||
        (r->spec->ntasks_per_node && per_node > 0 && r->spec->ntasks_per_node > (uint64_t)per_node))
        return deny(out, err, REFUSE_TASK_COUNT, "%u tasks, %u a node", r->spec->ntasks, r->spec->ntasks_per_node);
    if ((r->spec->has_cpus_per_task && (r->spec->cpus_per_task == 0 || r->spec->cpus_per_task > 65534)))
        return deny(out, err, REFUSE_CPU_COUNT, "%u CPUs a task", r->spec->cpus_per_task);
    if (r->spec->gpu_bind && *r->spec->gpu_bind) {
        struct bind b;

        if (bind_parse(r->spec->gpu_bind, &b, err) < 0)
            return deny(out, err, REFUSE_GRES, "%s", arena_copy(a, err->text));
        bind_fini(&b);
    }
    if (layout_parse(r->spec->distribution, &how, err) < 0)
        return deny(out, err, REFUSE_BAD_REQUEST, "%s", arena_copy(a, err->text));
    if (cpubind_parse(r->spec->cpu_bind, &cpu, err) < 0 || (cpubind_fini(&cpu), membind_parse(r->spec->mem_bind, &mem, err)) < 0)
        return deny(out, err, REFUSE_BAD_REQUEST, "%s", arena_copy(a, err->text));
    membind_fini(&mem);
    if (r->spec->has_mem_per_node_mib + r->spec->has_mem_per_cpu_mib > 1)
        return deny(out, err, REFUSE_MEMORY, "--mem and --mem-per-cpu are mutually exclusive");

    op = op_new(a, &asker, r->token, r->has_token, r->token_wall_ms);
    op->step = o = arena_alloc(a, sizeof *o);
    wire__op_step__init(o);
    o->job_id = r->job_id;
    o->spec = arena_copy_bytes(a, r->spec, sizeof *o->spec);       /* the caller fills in the number of tasks */
    o->has_attempt = true;
    o->attempt = j->attempt;
    o->has_io_key = r->has_io_key;
    o->io_key = r->io_key;
    o->io_host = r->io_host;
    o->has_io_port = r->has_io_port;
    o->io_port = r->io_port;
    op_add(out, a, op);
    return 0;
}
