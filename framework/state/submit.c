/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - a new job or array: limits that only the truth can check, its id, its record. */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

#define GROUPS_MAX 65536

static int array_make(struct doing *d, struct job *j, const char *text, struct spur_error *err)
{
    const struct config *c = d->s->config;
    int64_t most = c ? config_number(c, CONF_MaxArraySize) : 1001;
    struct array *a = mem_alloc(sizeof *a);
    size_t second;
    int rc;

    if (most <= 0) {
        free(a);
        return spur_fail(err, SPUR_EUNSUPPORTED, "array %.60s: job arrays are switched off here (MaxArraySize=0)", text);
    }
    rc = array_parse(text, most > 4000001 ? 4000001 : (uint32_t)most, &a->pending, &a->limit, err);
    if (rc < 0) {
        free(a);
        return rc;
    }
    a->task_count = (uint32_t)bitmap_count(&a->pending);
    a->min = (uint32_t)bitmap_first(&a->pending);
    a->max = (uint32_t)bitmap_last(&a->pending);
    second = bitmap_next(&a->pending, a->min);
    a->step_size = second < a->pending.bits ? (uint32_t)second - a->min : 1;
    for (size_t t = second; t < a->pending.bits; t = bitmap_next(&a->pending, t)) {
        size_t next = bitmap_next(&a->pending, t);

        if (next < a->pending.bits && next - t != a->step_size)
            a->step_size = 1;
    }
    j->array = a;
    j->array_job_id = j->job_id;
    return 0;
}

static uint32_t first_partition(const struct state *s, const char *names)
{
    const char *comma = names ? strchr(names, ',') : NULL;
    char *first = comma ? mem_copy_n(names, (size_t)(comma - names)) : mem_copy(names);
    const struct config_partition *p = s->config && first ? config_partition_find(s->config, first) : NULL;

    free(first);
    return p ? (uint32_t)(p - s->config->partitions) : UINT32_MAX;
}

uint32_t job_part_index(const struct state *s, const struct job *j)
{
    ptrdiff_t fallback = s->config ? config_default_partition(s->config) : -1;

    return j->partition ? first_partition(s, j->partition) : fallback >= 0 ? (uint32_t)fallback : UINT32_MAX;
}

/* One record, not entered yet; NULL: refused, in err. `first`: of a heterogeneous job, whose script and environment it is. */
static struct job *submit_make(struct doing *d, const Wire__OpSubmit *o, const Wire__JobSpec *spec, uint32_t id, const struct job *first, struct spur_error *err)
{
    struct state *s = d->s;
    struct job *j = job_create(s, id);

    job_take_spec(s, j, spec);
    if (spec->array && *spec->array && (o->n_het ? spur_fail(err, SPUR_EUNSUPPORTED, "arrays of heterogeneous jobs are not supported") : array_make(d, j, spec->array, err)) < 0)
        goto refused;
    j->uid = o->uid;
    j->gid = o->gid;
    j->user = share_text(s, o->user);
    j->group = share_text(s, o->group);
    j->group_count = (uint32_t)o->n_groups;
    j->groups = share_numbers(s, o->groups, (uint32_t)o->n_groups);
    j->requeue = spec->has_requeue ? spec->requeue : config_number(s->config, CONF_JobRequeue) != 0;
    j->part_index = job_part_index(s, j);
    j->submit_wall_s = s->wall_ms / 1000;
    j->submit_cluster_ms = s->cluster_ms;
    j->held_by_user = spec->hold || (spec->has_priority && spec->priority == 0);
    j->has_priority_set = spec->has_priority && spec->priority != 0;
    j->priority = j->has_priority_set ? spec->priority : 0;
    /* What all components wait for is kept once: a singleton would wait for its own fellows. */
    if (spec->dependency && *spec->dependency && !(first && o->spec->dependency && !strcmp(spec->dependency, o->spec->dependency)) &&
        dependency_set(d, j, spec->dependency, err) < 0) {
        d->result->slurm_errno = ESLURM_DEPENDENCY;
        goto refused;
    }
    if (o->n_het) {
        j->het_job_id = first ? first->job_id : id;
        j->het_offset = first ? id - first->job_id : 0;
        j->het_count = (uint32_t)o->n_het + 1;
    }
    j->has_script = !first && spec->has_script_hash;
    j->has_env = !first && spec->has_env_hash;
    if (j->has_script)
        j->script_hash = spec->script_hash.data;    /* lent until job_enter() puts the index's in its place */
    if (j->has_env)
        j->env_hash = spec->env_hash.data;
    if (!j->dep_count && !j->held_by_user)
        j->eligible_wall_s = j->begin_wall_s > j->submit_wall_s ? j->begin_wall_s : j->submit_wall_s;
    return j;

refused:
    job_destroy(s, j);
    return NULL;
}

void op_submit(struct doing *d, const Wire__OpSubmit *o)
{
    struct state *s = d->s;
    const Wire__JobSpec *spec = o->spec;
    int64_t most = s->config ? config_number(s->config, CONF_MaxJobCount) : 10000;
    struct spur_error err = { 0 };
    uint32_t id, next = s->next_job_id;
    size_t count = o->n_het + 1, made = 0;
    struct job **jobs;
    uint64_t tasks;

    if (!s->config) {
        refuse(d, SPUR_EBUSY, 0, "the cluster has no configuration yet");
        return;
    }
    if (o->n_groups > GROUPS_MAX) {
        refuse(d, SPUR_ELIMIT, 0, "%zu groups, the limit is %d", o->n_groups, GROUPS_MAX);
        return;
    }
    if (count > HET_MAX) {
        refuse(d, SPUR_ELIMIT, 0, "a heterogeneous job of %zu components, the limit is %u", count, HET_MAX);
        return;
    }
    if ((spec->has_script_hash && spec->script_hash.len != 32) || (spec->has_env_hash && spec->env_hash.len != 32)) {
        refuse(d, SPUR_EINVAL, 0, "a script or environment is named by something that is no hash");
        return;
    }
    if (most > 0 && s->priv->task_total >= (uint64_t)most) {
        refuse(d, SPUR_ELIMIT, 0, "%llu jobs are known, MaxJobCount is %lld: try again when some have ended", (unsigned long long)s->priv->task_total, (long long)most);
        return;
    }
    id = count > 1 ? het_next_ids(s, (uint32_t)count) : job_next_id(s);
    if (!id) {
        s->next_job_id = next;
        refuse(d, SPUR_ELIMIT, 0, "every job id from FirstJobId to MaxJobId is in use");
        return;
    }
    jobs = arena_alloc(d->arena, count * sizeof *jobs);
    for (; made < count; made++)
        if (!(jobs[made] = submit_make(d, o, made ? o->het[made - 1] : spec, id + (uint32_t)made, made ? jobs[0] : NULL, &err)))
            goto refused;
    tasks = jobs[0]->array ? jobs[0]->array->task_count : count;
    if (most > 0 && s->priv->task_total + tasks > (uint64_t)most) {
        spur_fail(&err, SPUR_ELIMIT, "%s of %llu tasks: %llu jobs are known, MaxJobCount is %lld", count > 1 ? "heterogeneous job" : "array", (unsigned long long)tasks,
                  (unsigned long long)s->priv->task_total, (long long)most);
        goto refused;
    }
    for (size_t i = 0; i < count; i++)
        job_enter(s, jobs[i]);
    d->result->job_id = id;
    for (size_t i = 0; i < count; i++)
        tell(d, EV_JOB_SUBMITTED, jobs[i]);
    for (size_t i = 0; i < count; i++)
        dependency_enter(d, jobs[i]);
    return;

refused:
    s->next_job_id = next;
    refuse(d, err.code, d->result->slurm_errno, "%s", err.text);
    while (made--)
        job_destroy(s, jobs[made]);
}
