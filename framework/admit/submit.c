/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - a request to run a job becomes OpSubmit, with the identity of the channel and nothing of it from the message.
 *
 * The spec in the operation is a copy of the request's with defaults filled in; its texts are the request's own and live as long as
 * that. What is left absent is derived at each start (tasks, memory), so that a changed partition or default holds for jobs that wait.
 */
#include <stdlib.h>
#include <string.h>

#include "admit/private.h"
#include "base/duration.h"
#include "base/str.h"
#include "plan/ask.h"

#define SCRIPT_MAX (4u << 20)       /* unless SchedulerParameters=max_script_size says otherwise */
#define ENV_MAX    (16u << 20)

static const Wire__Blob *blob_of(const Wire__SubmitRequest *r, bool has, ProtobufCBinaryData hash)
{
    for (size_t i = 0; has && i < r->n_blobs; i++)
        if (r->blobs[i]->hash.len == hash.len && memcmp(r->blobs[i]->hash.data, hash.data, hash.len) == 0)
            return r->blobs[i];
    return NULL;
}

static int check_blobs(const struct state *s, const Wire__SubmitRequest *r, struct admitted *out, struct spur_error *err)
{
    const Wire__JobSpec *spec = r->spec;
    const Wire__Blob *script = blob_of(r, spec->has_script_hash, spec->script_hash), *env = blob_of(r, spec->has_env_hash, spec->env_hash);
    char buf[32];
    const char *text = config_word_value(s->config, CONF_SchedulerParameters, "max_script_size", buf, sizeof buf);
    uint64_t most = SCRIPT_MAX;

    if (text)
        number_u64(text, &most);
    if (r->n_blobs > 2)
        return deny(out, err, REFUSE_BAD_REQUEST, "%zu blobs, a job has a script and an environment", r->n_blobs);
    if ((spec->has_script_hash && spec->script_hash.len != 32) || (spec->has_env_hash && spec->env_hash.len != 32))
        return deny(out, err, REFUSE_BAD_REQUEST, "hashes have 32 bytes");
    if (spec->is_batch && !spec->has_script_hash)
        return deny(out, err, REFUSE_NO_SCRIPT, NULL);
    if (spec->has_script_hash && (!script || script->data.len == 0))
        return deny(out, err, REFUSE_NO_SCRIPT, script ? "the script is empty" : "the script did not come with the request");
    if (script && script->data.len > most)
        return deny(out, err, REFUSE_TOO_LONG, "the script has %zu bytes, the limit is %llu (SchedulerParameters=max_script_size)", script->data.len, (unsigned long long)most);
    if (spec->has_env_hash && !env)
        return deny(out, err, REFUSE_NO_ENVIRONMENT, "the environment did not come with the request");
    if (env && env->data.len > ENV_MAX)
        return deny(out, err, REFUSE_TOO_LONG, "the environment has %zu bytes, the limit is %u; use --export to leave out what is not needed", env->data.len, ENV_MAX);
    return 0;
}

/* "a,b": its names. Absent: the default one. DRAIN and INACTIVE give way to their Alternate. */
static int fill_partition(const struct state *s, Wire__JobSpec *spec, struct arena *a, struct admitted *out, struct spur_error *err)
{
    ptrdiff_t fallback = config_default_partition(s->config);
    const struct config_partition *p;

    if (!spec->partition || !*spec->partition) {
        if (fallback < 0)
            return deny(out, err, REFUSE_PARTITION_MISSING, NULL);
        spec->partition = s->config->partitions[fallback].name;
    }
    if (strlen(spec->partition) > 1024)
        return deny(out, err, REFUSE_TOO_LONG, "partition has %zu characters, the limit is 1024", strlen(spec->partition));
    p = config_partition_find(s->config, spec->partition);
    if (p && p->alternate && (word_eq(p->state, "DRAIN") || word_eq(p->state, "INACTIVE")) && config_partition_find(s->config, p->alternate)) {
        warn(out, a, "partition %s is in state %s, using %s", p->name, p->state, p->alternate);
        p = config_partition_find(s->config, p->alternate);
    }
    spec->partition = arena_copy(a, p ? p->name : spec->partition);
    if (!p) {
        char *text = arena_copy(a, spec->partition), *at = text, *first = word_next(&at, ",");

        p = first ? config_partition_find(s->config, first) : NULL;
    }
    if (p && !spec->has_time_limit_min) {       /* the record shows it from the submit on, as measured on Slurm; of a list the first one counts */
        spec->has_time_limit_min = true;
        spec->time_limit_min = p->default_time_min != MINUTES_NOT_SET ? p->default_time_min : p->max_time_min;
    }
    return 0;
}

static void fill(const struct state *s, Wire__JobSpec *spec, struct arena *a, const struct asker *asker)
{
    (void)a;
    if (!spec->name || !*spec->name)
        spec->name = (char *)(uintptr_t)(spec->is_batch ? "sbatch" : "interactive");
    if (!spec->has_requeue) {
        spec->has_requeue = true;
        spec->requeue = config_number(s->config, CONF_JobRequeue) != 0;
    }
    if (spec->begin_wall_s && spec->begin_wall_s <= asker->facts->wall_ms / 1000) {
        spec->has_begin_wall_s = false;         /* already there: now */
        spec->begin_wall_s = 0;
    }
    if (spec->has_priority && spec->priority == 0)
        spec->has_hold = spec->hold = true;
    if (spec->has_min_nodes && !spec->has_max_nodes && !(spec->has_ntasks && spec->ntasks > spec->min_nodes)) {
        spec->has_max_nodes = true;
        spec->max_nodes = spec->min_nodes;
    }
}

static uint32_t task_count(const struct state *s, const Wire__JobSpec *spec)
{
    int64_t most = config_number(s->config, CONF_MaxArraySize);
    struct bitmap tasks;
    uint32_t limit, n = 1;

    if (!spec->array || !*spec->array)
        return 1;
    bitmap_init(&tasks, 0);
    if (array_parse(spec->array, most > 0 ? (uint32_t)most : 1001, &tasks, &limit, NULL) == 0)
        n = (uint32_t)bitmap_count(&tasks);
    bitmap_fini(&tasks);
    return n;
}

/* A component from the second on: what is the whole job's stands in the first. */
static int admit_part(struct state *s, const Wire__JobSpec *first, Wire__JobSpec *spec, const char *never, const struct asker *asker, struct arena *a, struct admitted *out,
                      struct spur_error *err)
{
    struct facts facts = *asker->facts;
    struct asker alone = *asker;
    int rc;

    facts.never = never;
    alone.facts = &facts;
    spec->has_is_batch = true;
    spec->is_batch = spec->has_script_hash = spec->has_env_hash = false;
    if ((spec->array && *spec->array) || (first->array && *first->array))
        return deny(out, err, REFUSE_ARRAY, "arrays of heterogeneous jobs are not supported");
    if (word_eq(spec->exclusive, "topo") || word_eq(first->exclusive, "topo"))
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--exclusive=topo is not for heterogeneous jobs");
    if (spec->dependency && strstr(spec->dependency, "singleton") && (!first->dependency || strcmp(spec->dependency, first->dependency)))
        return deny(out, err, REFUSE_DEPENDENCY, "singleton is for the first component of a heterogeneous job");
    if ((rc = fill_partition(s, spec, a, out, err)) < 0)
        return rc;
    fill(s, spec, a, &alone);
    if ((rc = check_account(s, facts.user, spec, a, out, err)) < 0 || (rc = check_spec(s, spec, NULL, &alone, a, out, err)) < 0)
        return rc;
    return check_dependency(s, spec->dependency, 0, out, err);
}

int admit_submit(struct state *s, const Wire__SubmitRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    Wire__JobSpec *spec = arena_copy_bytes(a, r->spec, sizeof *spec);
    int64_t most = config_number(s->config, CONF_MaxJobCount);
    Wire__OpSubmit *o;
    Wire__Op *op;
    uint32_t tasks;
    Wire__JobSpec **parts;
    int rc;

    if (who->role != SPUR_ROLE_USER || who->uid == UINT32_MAX)
        return deny(out, err, REFUSE_DENIED, "jobs are taken from users only");
    if (r->token.len != 16)
        return deny(out, err, REFUSE_BAD_REQUEST, "a token has 16 bytes, not %zu", r->token.len);
    if ((rc = check_token(s, true, r->token, r->token_wall_ms, out, err)) != 0)
        return rc < 0 ? rc : 0;
    if ((rc = fill_partition(s, spec, a, out, err)) < 0 || (rc = check_blobs(s, r, out, err)) < 0)
        return rc;
    fill(s, spec, a, &asker);
    if ((rc = check_account(s, f->user, spec, a, out, err)) < 0 || (rc = check_spec(s, spec, NULL, &asker, a, out, err)) < 0 || (rc = check_dependency(s, spec->dependency, 0, out, err)) < 0)
        return rc;
    if (spec->is_batch && !spec->work_dir)
        return deny(out, err, REFUSE_BAD_REQUEST, "a batch job needs a work directory");
    if (r->n_het >= HET_MAX)
        return deny(out, err, REFUSE_BAD_REQUEST, "a heterogeneous job of %zu components, the limit is %u", r->n_het + 1, HET_MAX);
    parts = arena_alloc(a, (r->n_het + 1) * sizeof *parts);
    for (size_t i = 0; i < r->n_het; i++) {
        parts[i] = arena_copy_bytes(a, r->het[i], sizeof **parts);
        if ((rc = admit_part(s, spec, parts[i], f->het_never ? f->het_never[i] : NULL, &asker, a, out, err)) < 0)
            return spur_context(err, "component %zu", i + 1);
    }
    tasks = r->n_het ? (uint32_t)r->n_het + 1 : task_count(s, spec);
    if (most > 0 && (uint64_t)table_count(&s->jobs) + tasks > (uint64_t)most)
        return deny(out, err, REFUSE_TOO_MANY_JOBS, "%zu jobs are known and %u more would be over MaxJobCount=%lld", table_count(&s->jobs), tasks, (long long)most);

    op = op_new(a, &asker, r->token, true, r->token_wall_ms);
    op->submit = o = arena_alloc(a, sizeof *o);
    wire__op_submit__init(o);
    o->spec = spec;
    o->het = parts;
    o->n_het = r->n_het;
    o->uid = who->uid;
    o->gid = who->gid;
    o->user = arena_copy(a, f->user);
    o->group = arena_copy(a, f->group);
    o->n_groups = f->group_count;
    o->groups = f->group_count ? arena_copy_bytes(a, f->groups, f->group_count * sizeof *f->groups) : NULL;
    op_add(out, a, op);
    return 0;
}
