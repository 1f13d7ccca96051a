/* SPDX-License-Identifier: Apache-2.0 */
/* het.c - heterogeneous jobs towards their nodes: a step over several components, and what each launch is told of the others.
 *
 * Each component's part of such a step is a step of that component, with the same number, and is launched by itself; what makes them one for the tasks are the rows
 * of all nodes that each launch carries (effects.c) and the variables that name the first component as the job.
 */
#include "controller/ctl.h"

void het_step_join(struct admitted *adm, struct arena *a)
{
    Wire__OpHetStep *o = arena_alloc(a, sizeof *o);
    uint32_t *jobs = arena_alloc(a, adm->op_count * sizeof *jobs);

    wire__op_het_step__init(o);
    o->parts = arena_alloc(a, adm->op_count * sizeof *o->parts);
    for (size_t i = 0; i < adm->op_count; i++) {
        o->parts[o->n_parts++] = adm->ops[i]->step;
        jobs[i] = adm->ops[i]->step->job_id;
    }
    for (size_t i = 0; i < o->n_parts; i++) {
        o->parts[i]->spec->n_het_jobs = o->n_parts;
        o->parts[i]->spec->het_jobs = jobs;
    }
    adm->ops[0]->step = NULL;
    adm->ops[0]->het_step = o;
    adm->op_count = 1;
}

uint32_t het_step_parts(const struct ctl *c, const struct job *j, const struct step *st)
{
    (void)c;
    return j->het_job_id && st && st->spec && st->spec->n_het_jobs > 1 ? (uint32_t)st->spec->n_het_jobs : 0;
}

const struct step *het_step_part(const struct ctl *c, const struct step *st, uint32_t k, const struct job **job)
{
    const struct job *j = st->spec && k < st->spec->n_het_jobs ? state_job(c->state, st->spec->het_jobs[k]) : NULL;
    const struct step *part = j ? j->steps : NULL;

    while (part && part->step_id != st->step_id)
        part = part->next;
    if (job)
        *job = j;
    return part;
}

void het_step_reply(const struct ctl *c, const struct job *j, const struct step *st, Wire__StepReply *reply, struct str *nodes, struct str *tasks, struct arena *a)
{
    struct hostlist *names = hostlist_create();
    uint32_t parts = het_step_parts(c, j, st), count = parts ? parts : 1;

    reply->part_nodes = arena_alloc(a, count * sizeof *reply->part_nodes);
    reply->n_part_nodes = parts;
    for (uint32_t k = 0; k < count; k++) {
        const struct step *part = parts ? het_step_part(c, st, k, NULL) : st;

        for (uint32_t i = 0; part && i < part->alloc_count; i++) {
            hostlist_add(names, part->allocs[i].node < c->state->node_count ? c->state->nodes[part->allocs[i].node].conf->name : "?");
            str_addf(tasks, "%s%u", tasks->len ? "," : "", part->allocs[i].tasks);
        }
        reply->part_nodes[k] = part ? part->alloc_count : 0;
        reply->ntasks += part ? part->ntasks : 0;
    }
    hostlist_print(names, nodes);
    hostlist_destroy(names);
}

bool het_awaits(const struct ctl *c, const struct job *j)
{
    bool waits = false;

    for (uint32_t k = 0; k < j->het_count; k++) {
        const struct job *part = het_part(c->state, j, k);

        waits |= part && part != j && part->state == JOB_RUNNING && part->flags & JOB_FLAG_CONFIGURING;
    }
    return waits;
}

struct launch_env { Wire__Launch *l; struct arena *a; size_t room; };

static void env_set(void *arg, const char *name, const char *value)
{
    struct launch_env *e = arg;
    Wire__KeyValue *kv = arena_alloc(e->a, sizeof *kv);

    if (e->l->n_het_env == e->room) {
        Wire__KeyValue **more = arena_alloc(e->a, (e->room = e->room ? 2 * e->room : 64) * sizeof *more);

        if (e->l->n_het_env)
            memcpy(more, e->l->het_env, e->l->n_het_env * sizeof *more);
        e->l->het_env = more;
    }
    wire__key_value__init(kv);
    kv->key = arena_copy(e->a, name);
    kv->value = arena_copy(e->a, value);
    e->l->het_env[e->l->n_het_env++] = kv;
}

/* The nodes and CPUs of all components that the step runs over, as if they were one job's: what an MPI program reads. */
static void env_joined(struct launch_env *e, Wire__JobInfo *const *parts, uint32_t count, const struct step *st)
{
    struct hostlist *names = hostlist_create();
    struct str nodes, cpus;
    uint32_t total = 0;

    str_init(&nodes);
    str_init(&cpus);
    for (uint32_t k = 0; k < count; k++) {
        struct hostlist *own = NULL;
        bool is_in = false;

        for (size_t i = 0; parts[k] && i < st->spec->n_het_jobs; i++)
            is_in |= st->spec->het_jobs[i] == parts[k]->job_id;
        if (!is_in || !parts[k]->nodes || hostlist_parse(parts[k]->nodes, &own, NULL) < 0)
            continue;
        for (size_t i = 0; i < hostlist_count(own); i++)
            hostlist_add(names, hostlist_nth(own, i));
        hostlist_destroy(own);
        total += parts[k]->num_nodes;
        str_addf(&cpus, "%s%s", cpus.len ? "," : "", parts[k]->cpus_per_node ? parts[k]->cpus_per_node : "");
    }
    hostlist_print(names, &nodes);
    env_set(e, "SLURM_JOB_NODELIST", nodes.text);
    env_set(e, "SLURM_NODELIST", nodes.text);
    env_set(e, "SLURM_JOB_NUM_NODES", arena_printf(e->a, "%u", total));
    env_set(e, "SLURM_JOB_CPUS_PER_NODE", cpus.text);
    hostlist_destroy(names);
    str_fini(&nodes);
    str_fini(&cpus);
}

void het_launch(const struct ctl *c, const struct job *j, const struct step *st, Wire__Launch *l, struct arena *a)
{
    struct launch_env e = { .l = l, .a = a };
    Wire__JobInfo **parts = arena_alloc(a, (j->het_count + 1) * sizeof *parts);

    for (uint32_t k = 0; k < j->het_count; k++) {
        const struct job *part = het_part(c->state, j, k);

        parts[k] = part ? job_info(c->state, part, JOB_FIELD_SPEC | JOB_FIELD_LAYOUT | JOB_FIELD_TEXTS, clock_wall_ms() / 1000, a) : NULL;
    }
    het_environment(parts, j->het_count, env_set, &e);
    env_set(&e, "SLURM_JOB_ID", arena_printf(a, "%u", j->het_job_id));
    env_set(&e, "SLURM_JOBID", arena_printf(a, "%u", j->het_job_id));
    if (het_step_parts(c, j, st))
        env_joined(&e, parts, j->het_count, st);
}
