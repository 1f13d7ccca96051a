/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - jobs and steps as people see them. Nodes and partitions stand in show.c.
 *
 * Texts that stand in the record are lent to the message: it is packed before the next apply. What must be made is made in the arena, and
 * only when asked for (JOB_FIELD_*), so that a bare list of many jobs costs next to nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "state/pack.h"

#define SHOW(m, field, value) do { (m)->has_##field = 1; (m)->field = (value); } while (0)
/* For fields of which absent means 0, as most are most of the time: each one sent costs the reader of a long queue some 150 instructions a job. */
#define SHOW_SOME(m, field, value) do { (m)->field = (value); (m)->has_##field = (m)->field != 0; } while (0)

static char *arena_take(struct arena *a, struct str *s)
{
    char *text = s->len ? arena_copy(a, s->text) : NULL;

    str_fini(s);
    return text;
}

/* "16(x2),8" */
static char *print_runs(const struct job *j, bool tasks, struct arena *a)
{
    struct str out;

    str_init(&out);
    for (uint32_t i = 0, end, count = job_members(j); i < count; i = end) {
        uint32_t n = tasks ? j->allocs[i].tasks : j->allocs[i].cpus;

        for (end = i + 1; end < count && (tasks ? j->allocs[end].tasks : j->allocs[end].cpus) == n; end++)
            ;
        str_addf(&out, "%s%u", i ? "," : "", n);
        if (end - i > 1)
            str_addf(&out, "(x%u)", end - i);
    }
    return arena_take(a, &out);
}

/* ---- trackable resources ---- */

struct total { const char *name, *type; uint64_t count; };
struct totals { struct total rows[32]; unsigned count; };

static void total_add(struct totals *t, const char *name, const char *type, uint64_t count)
{
    for (unsigned i = 0; i < t->count; i++)
        if (word_eq(t->rows[i].name, name) && (type ? t->rows[i].type && word_eq(t->rows[i].type, type) : !t->rows[i].type)) {
            t->rows[i].count += count;
            return;
        }
    if (t->count < sizeof t->rows / sizeof *t->rows)
        t->rows[t->count++] = (struct total){ name, type, count };
}

static bool total_known(const struct totals *t, unsigned before, const char *name)
{
    for (unsigned i = 0; i < before; i++)
        if (word_eq(t->rows[i].name, name))
            return true;
    return false;
}

/* A name that an earlier call counted is not counted again: --gpus=4 --gpus-per-task=1 says how 4 are shared out, it asks for no fifth. */
static void add_asked(struct totals *t, const char *text, uint64_t times, struct arena *a)
{
    struct tres_row *rows = NULL;
    unsigned before = t->count;
    size_t count = 0;

    if (!text || tres_parse(text, &rows, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (!total_known(t, before, rows[i].name))
            total_add(t, arena_copy(a, rows[i].name), NULL, rows[i].count * times);
    tres_free(rows, count);
}

static char *tres_print(uint64_t cpus, uint64_t mem_mib, uint32_t nodes, uint64_t billing, const struct totals *gres, struct arena *a)
{
    struct str out;

    str_init(&out);
    str_addf(&out, "cpu=%llu", (unsigned long long)cpus);
    if (mem_mib) {
        str_add(&out, ",mem=");
        mebibytes_print(mem_mib, &out);
    }
    if (nodes)
        str_addf(&out, ",node=%u", nodes);
    if (billing)
        str_addf(&out, ",billing=%llu", (unsigned long long)billing);
    for (unsigned i = 0; i < gres->count; i++)
        str_addf(&out, ",gres/%s%s%s=%llu", gres->rows[i].name, gres->rows[i].type ? ":" : "", gres->rows[i].type ? gres->rows[i].type : "",
                 (unsigned long long)gres->rows[i].count);
    return arena_take(a, &out);
}

static uint32_t asked_cpus(const struct job *j)
{
    uint64_t cpus = (uint64_t)j->ntasks * j->cpus_per_task;

    cpus = cpus < j->min_nodes ? j->min_nodes : cpus;
    return cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)cpus;
}

static const struct config_partition *job_part(const struct state *s, const struct job *j)
{
    return s->config && j->part_index < s->config->partition_count ? &s->config->partitions[j->part_index] : NULL;
}

/* A job that asked for no memory gets what the partition or the cluster gives: that is what its record says. */
static void memory_default(const struct state *s, const struct job *j, Wire__JobSpec *spec)
{
    const struct config_partition *part = job_part(s, j);

    if (!part || spec->has_mem_per_node_mib || spec->mem_per_cpu_mib || spec->mem_per_gpu_mib)
        return;
    if (part->def_mem_per_cpu || part->def_mem_per_node) {
        spec->mem_per_cpu_mib = part->def_mem_per_cpu;
        spec->mem_per_node_mib = part->def_mem_per_cpu ? 0 : part->def_mem_per_node;
    } else if (config_number(s->config, CONF_DefMemPerCPU) > 0) {
        spec->mem_per_cpu_mib = (uint64_t)config_number(s->config, CONF_DefMemPerCPU);
    } else if (config_number(s->config, CONF_DefMemPerNode) > 0) {
        spec->mem_per_node_mib = (uint64_t)config_number(s->config, CONF_DefMemPerNode);
    }
    spec->has_mem_per_cpu_mib = spec->mem_per_cpu_mib != 0;
    spec->has_mem_per_node_mib = spec->mem_per_node_mib != 0;
}

/* What a job gets that asks for all memory of its nodes, or for none in particular where memory is given out: the least it can be. */
static uint64_t memory_whole(const struct state *s, const struct job *j)
{
    const struct config_partition *part = job_part(s, j);
    const char *cr = s->config ? config_text(s->config, CONF_SelectTypeParameters) : NULL;

    return part && cr && (strstr(cr, "MEMORY") || strstr(cr, "Memory")) ? part->least_mem_mib * j->min_nodes : 0;
}

static void fill_tres(const struct state *s, const struct job *j, const Wire__JobSpec *spec, Wire__JobInfo *m, struct arena *a)
{
    struct totals asked = { 0 }, held = { 0 }, typed = { 0 };
    uint64_t cpus = asked_cpus(j), mem = 0, gpus = 0;
    struct str text;

    add_asked(&asked, spec->tres_per_job, 1, a);
    add_asked(&asked, spec->tres_per_node, j->min_nodes, a);
    add_asked(&asked, spec->tres_per_task, j->ntasks, a);
    add_asked(&asked, spec->tres_per_socket, (uint64_t)j->min_nodes * (spec->has_sockets_per_node && spec->sockets_per_node ? spec->sockets_per_node : 1), a);
    for (unsigned i = 0; i < asked.count; i++)
        gpus += word_eq(asked.rows[i].name, "gpu") ? asked.rows[i].count : 0;
    if (spec->has_cpus_per_gpu && spec->cpus_per_gpu * gpus > cpus)
        cpus = spec->cpus_per_gpu * gpus;
    if (spec->has_mem_per_node_mib)
        mem = spec->mem_per_node_mib * j->min_nodes;
    else if (spec->has_mem_per_cpu_mib)
        mem = spec->mem_per_cpu_mib * cpus;
    else if (spec->has_mem_per_gpu_mib)
        mem = spec->mem_per_gpu_mib * gpus;
    mem = mem ? mem : memory_whole(s, j);
    m->req_tres = tres_print(cpus, mem, j->min_nodes, cpus, &asked, a);
    if (!j->alloc_count)
        return;
    mem = 0;
    for (uint32_t i = 0; i < j->alloc_count; i++) {
        mem += j->allocs[i].mem_mib;
        for (uint32_t g = 0; g < j->allocs[i].gres_count; g++) {
            total_add(&held, j->allocs[i].gres[g].name, NULL, j->allocs[i].gres[g].count);
            total_add(&typed, j->allocs[i].gres[g].name, j->allocs[i].gres[g].type, j->allocs[i].gres[g].count);
        }
    }
    cpus = 0;
    for (uint32_t i = 0; i < j->alloc_count; i++)       /* spares are held like the others */
        cpus += j->allocs[i].cpus;
    m->alloc_tres = tres_print(cpus, mem, j->alloc_count, cpus, &held, a);
    str_init(&text);
    for (unsigned i = 0; i < typed.count; i++)
        str_addf(&text, "%s%s%s%s:%llu", i ? "," : "", typed.rows[i].name, typed.rows[i].type ? ":" : "", typed.rows[i].type ? typed.rows[i].type : "",
                 (unsigned long long)typed.rows[i].count);
    m->gres_alloc = arena_take(a, &text);
}

/* ---- jobs ---- */

static char *expand(const char *pattern, const char *fallback, const Wire__JobSpec *spec, const struct path_ids *ids, struct arena *a)
{
    struct str out;

    str_init(&out);
    path_expand(pattern && *pattern ? pattern : fallback, spec->work_dir, ids, &out);
    return arena_take(a, &out);
}

static void fill_paths(const struct state *s, const struct job *j, const Wire__JobSpec *spec, Wire__JobInfo *m, struct arena *a)
{
    struct path_ids ids = { .job_id = j->job_id, .array_job_id = j->array_job_id, .array_task_id = j->array_task_id, .user = j->user, .job_name = j->name };

    if (!het_leader(s, j)->is_batch)
        return;
    m->std_in = expand(spec->std_in, "/dev/null", spec, &ids, a);
    m->std_out = expand(spec->std_out, j->array_job_id ? "slurm-%A_%a.out" : "slurm-%j.out", spec, &ids, a);
    m->std_err = spec->std_err && *spec->std_err ? expand(spec->std_err, NULL, spec, &ids, a) : m->std_out;
}

static void fill_array(const struct state *s, const struct job *j, Wire__JobInfo *m, struct arena *a)
{
    const struct job *root = job_root(s, j);
    const struct array *array = root ? root->array : NULL;
    struct str tasks;

    SHOW(m, array_job_id, j->array_job_id);
    if (j->array_task_id != UINT32_MAX)
        SHOW(m, array_task_id, j->array_task_id);
    if (array) {
        if (array->limit)
            SHOW(m, array_throttle, array->limit);
        SHOW(m, array_count, array->task_count);
        SHOW(m, array_min, array->min);
        SHOW(m, array_max, array->max);
        SHOW(m, array_step, array->step_size);
        SHOW(m, array_running, array->running);
    }
    if (!job_is_task_set(j))
        return;
    str_init(&tasks);
    bitmap_print_steps(&j->array->pending, &tasks);
    if (array && array->limit && j->state == JOB_PENDING)
        str_addf(&tasks, "%%%u", array->limit);
    m->array_tasks = arena_take(a, &tasks);
}

static const char *pending_reason(const struct state *s, const struct job *j, int64_t now)
{
    enum job_reason why;

    job_eligible(s, j, now, &why, NULL);
    if (why == REASON_None && j->part_index == UINT32_MAX)
        why = REASON_PartitionConfig;
    return job_reason_name(why != REASON_None ? (unsigned)why : het_leader(s, j)->advice);
}

/* When it started, or is expected to; 0: not known. */
static int64_t shown_start(const struct state *s, const struct job *j, int64_t now)
{
    if (j->state != JOB_PENDING)
        return j->start_wall_s;
    if (het_leader(s, j)->advice_start_wall_s)
        return het_leader(s, j)->advice_start_wall_s;
    return j->begin_wall_s > now ? j->begin_wall_s : 0;
}

static void fill_times(const struct state *s, const struct job *j, Wire__JobInfo *m, int64_t now)
{
    bool limited = j->time_limit_min < MINUTES_NOT_SET;
    int64_t start = shown_start(s, j, now), end = j->end_wall_s, run = 0;

    if (j->state == JOB_PENDING) {
        end = start && limited ? start + 60 * (int64_t)j->time_limit_min : 0;
    } else if (job_state_is_end(j->state)) {
        run = j->alloc_count ? (j->end_cluster_ms - j->start_cluster_ms - j->suspended_ms) / 1000 : 0;
    } else {
        int64_t still = j->suspended_ms / 1000, by_cluster = (s->cluster_ms - j->start_cluster_ms) / 1000 - still;

        run = now > j->start_wall_s + still ? now - j->start_wall_s - still : 0;
        run = run < by_cluster ? by_cluster : run;
        if (j->state == JOB_SUSPENDED)
            run = (j->suspend_cluster_ms - j->start_cluster_ms) / 1000 - still;
        end = limited ? start + still + 60 * (int64_t)j->time_limit_min : 0;
    }
    SHOW_SOME(m, suspend_wall_s, j->suspend_wall_s);
    SHOW_SOME(m, suspended_s, job_suspended_ms(j, s->cluster_ms) / 1000);
    SHOW_SOME(m, submit_wall_s, j->submit_wall_s);
    SHOW_SOME(m, eligible_wall_s, j->eligible_wall_s ? j->eligible_wall_s : j->begin_wall_s);
    SHOW_SOME(m, accrue_wall_s, j->eligible_wall_s);
    SHOW_SOME(m, start_wall_s, start);
    SHOW_SOME(m, end_wall_s, end);
    SHOW_SOME(m, run_s, run);
    SHOW_SOME(m, last_sched_wall_s, j->last_sched_wall_s);
}

static char *job_spare_nodes(const struct state *s, const struct job *j, struct arena *a)
{
    struct hostlist *names = hostlist_create();
    struct str text;

    for (uint32_t i = job_members(j); i < j->alloc_count; i++)
        hostlist_add(names, j->allocs[i].node < s->node_count ? s->nodes[j->allocs[i].node].conf->name : j->allocs[i].lost_name);
    str_init(&text);
    hostlist_print(names, &text);
    hostlist_destroy(names);
    return arena_take(a, &text);
}

Wire__JobInfo *job_info(const struct state *s, const struct job *j, uint64_t fields, int64_t now, struct arena *a)
{
    Wire__JobInfo *m = arena_alloc(a, sizeof *m);
    Wire__JobSpec *spec = NULL;
    bool pending = j->state == JOB_PENDING;
    struct str text;

    wire__job_info__init(m);
    m->job_id = j->job_id;
    if (j->array_job_id)
        fill_array(s, j, m, a);
    if (j->het_job_id) {
        SHOW(m, het_job_id, j->het_job_id);
        SHOW_SOME(m, het_offset, j->het_offset);
        SHOW(m, het_count, j->het_count);
    }
    SHOW(m, state, j->state);
    SHOW_SOME(m, state_flags, j->flags);
    SHOW(m, uid, j->uid);
    SHOW(m, priority, j->held_by_admin || j->held_by_user ? 0 : j->has_priority_set || !pending ? j->priority : het_leader(s, j)->priority_advice);
    m->partition = j->partition ? j->partition : j->part_index < (s->config ? s->config->partition_count : 0) ? s->config->partitions[j->part_index].name : NULL;
    if (fields == JOB_FIELD_BARE) {
        SHOW_SOME(m, start_wall_s, shown_start(s, j, now));
        return m;
    }
    m->reason = (char *)(pending ? pending_reason(s, j, now) : job_reason_name(j->reason));
    SHOW_SOME(m, gid, j->gid);
    m->user = j->user;
    m->name = j->name;
    SHOW_SOME(m, is_batch, het_leader(s, j)->is_batch);     /* as Slurm shows the other components of a batch job */
    fill_times(s, j, m, now);
    SHOW(m, time_limit_min, j->time_limit_min);
    if (j->time_limit_min == MINUTES_NOT_SET && j->part_index < (s->config ? s->config->partition_count : 0))
        m->time_limit_min = s->config->partitions[j->part_index].max_time_min;      /* what it will get */
    m->nodes = j->nodes;
    if (j->alloc_count)
        m->batch_host = j->allocs[0].node < s->node_count ? s->nodes[j->allocs[0].node].conf->name : j->allocs[0].lost_name;
    SHOW(m, num_nodes, j->alloc_count ? job_members(j) : j->min_nodes);
    if (j->alloc_count || j->max_nodes)
        SHOW(m, num_nodes_max, j->alloc_count ? job_members(j) : j->max_nodes);
    SHOW(m, num_cpus, j->alloc_count ? j->total_cpus : asked_cpus(j));
    SHOW(m, num_tasks, j->ntasks);
    SHOW_SOME(m, restarts, j->restarts);
    SHOW_SOME(m, exit_status, j->exit_status);
    SHOW_SOME(m, derived_status, j->derived_status);
    SHOW_SOME(m, attempt, j->attempt);
    if (fields & (JOB_FIELD_SPEC | JOB_FIELD_TRES | JOB_FIELD_PATHS))
        spec = job_spec(j, a);
    if (spec && fields & JOB_FIELD_TRES)        /* a list without resources shows what was asked for */
        memory_default(s, j, spec);
    if (spec && j->het_offset)
        spec->is_batch = spec->has_is_batch = het_leader(s, j)->is_batch;
    if (fields & JOB_FIELD_SPEC)
        m->spec = spec;
    if (fields & JOB_FIELD_TRES && spec)
        fill_tres(s, j, spec, m, a);
    if (fields & JOB_FIELD_PATHS && spec)
        fill_paths(s, j, spec, m, a);
    if (fields & JOB_FIELD_LAYOUT && j->alloc_count) {
        m->cpus_per_node = print_runs(j, false, a);
        m->tasks_per_node = print_runs(j, true, a);
    }
    if (fields & JOB_FIELD_ALLOCS) {
        m->allocs = arena_alloc(a, (j->alloc_count + 1u) * sizeof *m->allocs);
        for (uint32_t i = 0; i < j->alloc_count; i++)
        {
            Wire__NodeAlloc *w = m->allocs[m->n_allocs++] = alloc_to_wire(s, &j->allocs[i], a);

            if (w->node < s->node_count) {
                w->has_threads_per_core = true;
                w->threads_per_core = s->nodes[w->node].conf->threads_per_core;
            }
        }
    }
    if (fields & JOB_FIELD_TEXTS) {
        m->reason_text = pending && j->reason != REASON_JobLaunchFailure ? het_leader(s, j)->advice_text : j->reason_text;
        m->group = j->group;
        m->qos = spec ? spec->qos : NULL;       /* unpacking the spec for it alone would cost more than the rest of the row */
        m->why_there = j->why_there;
        m->leaves = j->leaves;
        if (job_members(j) < j->alloc_count)
            m->spare_nodes = job_spare_nodes(s, j, a);
        m->has_share_permille = j->has_share;
        m->share_permille = j->share_permille;
        m->failed_node = j->failed_node;
        m->sched_nodes = pending ? j->sched_nodes : NULL;
        if (pending && (j->dep_count || het_leader(s, j)->dep_count)) {
            str_init(&text);
            dependency_print(s, j->dep_count ? j : het_leader(s, j), &text);
            m->dependency = arena_take(a, &text);
        }
    }
    return m;
}

/* ---- steps ---- */

Wire__StepInfo *step_info(const struct state *s, const struct job *j, const struct step *st, int64_t now, struct arena *a)
{
    Wire__StepInfo *m = arena_alloc(a, sizeof *m);
    struct hostlist *names = hostlist_create();
    struct totals gres = { 0 };
    uint64_t cpus = 0, mem = 0;
    uint32_t most = 0;
    struct str text;

    wire__step_info__init(m);
    m->job_id = j->job_id;
    m->step_id = st->step_id;
    m->name = st->spec && st->spec->name ? st->spec->name : st->step_id == STEP_BATCH ? (char *)"batch" : j->name;
    m->partition = j->partition;
    SHOW(m, uid, j->uid);
    m->user = j->user;
    for (uint32_t i = 0; i < st->alloc_count; i++) {
        const struct node_alloc *na = &st->allocs[i];

        hostlist_add(names, na->node < s->node_count ? s->nodes[na->node].conf->name : na->lost_name ? na->lost_name : "?");
        cpus += na->cpus;
        mem += na->mem_mib;
        most = na->tasks > most ? na->tasks : most;
        for (uint32_t g = 0; g < na->gres_count; g++)
            total_add(&gres, na->gres[g].name, NULL, na->gres[g].count);
    }
    str_init(&text);
    hostlist_print(names, &text);
    m->nodes = arena_take(a, &text);
    hostlist_destroy(names);
    SHOW(m, ntasks, st->ntasks);
    SHOW(m, num_nodes, st->alloc_count);
    SHOW(m, num_cpus, (uint32_t)cpus);
    SHOW(m, start_wall_s, st->start_wall_s);
    SHOW(m, run_s, st->end_wall_s ? st->end_wall_s - st->start_wall_s : now > st->start_wall_s ? now - st->start_wall_s : 0);
    SHOW(m, state, st->state);
    if (st->spec && st->spec->has_time_limit_min)
        SHOW(m, time_limit_min, st->spec->time_limit_min);
    if (j->array_job_id) {
        SHOW(m, array_job_id, j->array_job_id);
        SHOW(m, array_task_id, j->array_task_id);
    }
    m->tres = tres_print(cpus, mem, st->alloc_count, 0, &gres, a);
    m->id_text = st->step_id == STEP_BATCH ? arena_printf(a, "%s.batch", job_id_text(j, a)) : st->step_id == STEP_EXTERN ? arena_printf(a, "%s.extern", job_id_text(j, a)) :
                 st->step_id == STEP_INTERACTIVE ? arena_printf(a, "%s.interactive", job_id_text(j, a)) : arena_printf(a, "%s.%u", job_id_text(j, a), st->step_id);
    if (st->spec) {
        m->std_in = st->spec->std_in;
        m->std_out = st->spec->std_out;
        m->std_err = st->spec->std_err;
    }
    SHOW(m, tasks_per_node_max, most);
    return m;
}
