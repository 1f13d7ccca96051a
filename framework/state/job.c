/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - records of jobs: made, named, entered into the table and its indexes, forgotten.
 *
 * A record is changed by life.c (what happens to it) and update.c (what people change); this file only knows what a record is
 * made of. The request stays packed; its hashes are taken out of the packed form because the record carries them once.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"
#include "wire/unpack.h"

void text_set(char **to, const char *text)
{
    free(*to);
    *to = text && *text ? mem_copy(text) : NULL;
}

void list32_add(struct list32 *l, uint32_t id)
{
    for (uint32_t i = l->count; i-- > 0 && l->count - i < 8; )     /* doubles come in a row; the rest is harmless */
        if (l->ids[i] == id)
            return;
    if (l->count == l->room)
        l->ids = mem_grow(l->ids, l->room = l->room ? 2 * l->room : 2, sizeof *l->ids);
    l->ids[l->count++] = id;
}

void list32_fini(struct list32 *l)
{
    free(l->ids);
    *l = (struct list32){ 0 };
}

const char *job_state_name(unsigned state, unsigned flags, bool compact)
{
    static const struct { unsigned flag; const char *text, *compact; } shown[] = {
        { JOB_FLAG_COMPLETING, "COMPLETING", "CG" }, { JOB_FLAG_CONFIGURING, "CONFIGURING", "CF" }, { JOB_FLAG_RESIZING, "RESIZING", "RS" },
        { JOB_FLAG_REQUEUE_HOLD, "REQUEUE_HOLD", "RH" }, { JOB_FLAG_REQUEUE, "REQUEUED", "RQ" }, { JOB_FLAG_SPECIAL_EXIT, "SPECIAL_EXIT", "SE" },
        { JOB_FLAG_STOPPED, "STOPPED", "ST" }, { JOB_FLAG_SIGNALING, "SIGNALING", "SI" },
    };

    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (flags & shown[i].flag)
            return compact ? shown[i].compact : shown[i].text;
    switch (state) {
#define JOB_STATE_ROW(name, number, text, short_text) case name: return compact ? short_text : text;
    JOB_STATES(JOB_STATE_ROW)
#undef JOB_STATE_ROW
    default: return compact ? "?" : "UNKNOWN";
    }
}

bool job_state_parse(const char *text, unsigned *state, unsigned *flags)
{
    static const struct { const char *text, *compact; unsigned state, flags; } words[] = {
#define JOB_STATE_ROW(name, number, long_text, short_text) { long_text, short_text, name, 0 },
        JOB_STATES(JOB_STATE_ROW)
#undef JOB_STATE_ROW
        { "CANCELED", "CA", JOB_CANCELLED, 0 }, { "COMPLETE", "CD", JOB_COMPLETE, 0 },
        { "COMPLETING", "CG", UINT32_MAX, JOB_FLAG_COMPLETING }, { "CONFIGURING", "CF", UINT32_MAX, JOB_FLAG_CONFIGURING },
        { "RESIZING", "RS", UINT32_MAX, JOB_FLAG_RESIZING }, { "REQUEUED", "RQ", UINT32_MAX, JOB_FLAG_REQUEUE },
        { "REQUEUE_HOLD", "RH", UINT32_MAX, JOB_FLAG_REQUEUE_HOLD }, { "SPECIAL_EXIT", "SE", UINT32_MAX, JOB_FLAG_SPECIAL_EXIT },
        { "STOPPED", "ST", UINT32_MAX, JOB_FLAG_STOPPED }, { "SIGNALING", "SI", UINT32_MAX, JOB_FLAG_SIGNALING },
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (word_eq(text, words[i].text) || word_eq(text, words[i].compact)) {
            *state = words[i].state;
            *flags = words[i].flags;
            return true;
        }
    return false;
}

const char *job_reason_name(unsigned reason)
{
    static const char *const names[] = {
#define JOB_REASON_ROW(name) #name,
        JOB_REASONS(JOB_REASON_ROW)
#undef JOB_REASON_ROW
    };

    return reason < REASON_COUNT ? names[reason] : "None";
}

struct job *job_create(struct state *s, uint32_t job_id)
{
    struct job *j = mem_alloc(sizeof *j);

    j->job_id = job_id;
    j->array_task_id = UINT32_MAX;
    j->part_index = UINT32_MAX;
    j->seq = s->priv->next_seq++;
    return j;
}

void node_alloc_fini(struct node_alloc *a)
{
    for (uint32_t i = 0; i < a->gres_count; i++) {
        free(a->gres[i].name);
        free(a->gres[i].type);
    }
    free(a->gres);
    free(a->threads);
    free(a->lost_name);
    bitmap_fini(&a->cores);
    memset(a, 0, sizeof *a);
}

void step_destroy(struct step *st)
{
    if (!st)
        return;
    for (uint32_t i = 0; i < st->alloc_count; i++)
        node_alloc_fini(&st->allocs[i]);
    free(st->allocs);
    free(st->io_host);
    if (st->spec)
        wire__step_spec__free_unpacked(st->spec, NULL);
    free(st);
}

void dep_terms_free(struct dep_term *terms, uint32_t count)
{
    for (uint32_t i = 0; terms && i < count; i++) {
        bitmap_fini(&terms[i].ok);
        bitmap_fini(&terms[i].bad);
    }
    free(terms);
}

void job_destroy(struct state *s, struct job *j)
{
    if (!j)
        return;
    array_free(j->array);
    dep_terms_free(j->deps, j->dep_count);
    for (uint32_t i = 0; i < j->alloc_count; i++)
        node_alloc_fini(&j->allocs[i]);
    free(j->allocs);
    while (j->steps) {
        struct step *next = j->steps->next;

        step_destroy(j->steps);
        j->steps = next;
    }
    free(j->advice_text);
    free(j->sched_nodes);
    free(j->reason_text);
    share_drop(s, j->user);
    share_drop(s, j->group);
    share_drop(s, j->groups);
    free(j->spec);
    free(j->name);
    share_drop(s, j->partition);
    free(j->why_there);
    free(j->leaves);
    free(j->fabric);
    free(j->failed_node);
    free(j->nodes);
    free(j);
}

Wire__JobSpec *job_spec(const struct job *j, struct arena *a)
{
    return wire_unpack(&wire__job_spec__descriptor, j->spec, j->spec_len, a);
}

void job_take_spec(struct state *s, struct job *j, const Wire__JobSpec *spec)
{
    Wire__JobSpec bare = *spec;

    bare.has_script_hash = bare.has_env_hash = 0;
    free(j->spec);
    j->spec_len = (uint32_t)wire__job_spec__get_packed_size(&bare);
    j->spec = mem_alloc(j->spec_len ? j->spec_len : 1);
    wire__job_spec__pack(&bare, j->spec);
    job_take_hot(s, j, spec);
}

/* Nodes and tasks a request asks for when it does not say: Slurm's rules for --ntasks-per-node and -N. */
void job_take_hot(struct state *s, struct job *j, const Wire__JobSpec *spec)
{
    uint32_t per_node = spec->has_ntasks_per_node && spec->ntasks_per_node ? spec->ntasks_per_node : 1;

    text_set(&j->name, spec->name);
    share_set(s, &j->partition, spec->partition);
    j->min_nodes = spec->has_min_nodes && spec->min_nodes ? spec->min_nodes : 1;
    j->max_nodes = spec->has_max_nodes && spec->max_nodes >= j->min_nodes ? spec->max_nodes : spec->has_min_nodes ? j->min_nodes : 0;
    if (spec->has_max_nodes && spec->max_nodes < j->min_nodes)
        j->max_nodes = j->min_nodes;
    j->ntasks = spec->has_ntasks && spec->ntasks ? spec->ntasks : (uint64_t)j->min_nodes * per_node > UINT32_MAX ? UINT32_MAX : j->min_nodes * per_node;
    j->cpus_per_task = spec->has_cpus_per_task && spec->cpus_per_task ? spec->cpus_per_task : 1;
    j->time_limit_min = spec->has_time_limit_min ? spec->time_limit_min : UINT32_MAX - 1;
    j->nice = spec->nice;
    j->begin_wall_s = spec->has_begin_wall_s ? spec->begin_wall_s : 0;
    j->deadline_wall_s = spec->has_deadline_wall_s ? spec->deadline_wall_s : 0;
    j->is_batch = spec->is_batch;
    j->no_kill = spec->no_kill;
    j->spares = spec->spares;
    j->kill_invalid_dep = spec->has_kill_on_invalid_dep && spec->kill_on_invalid_dep;
    j->keep_invalid_dep = spec->has_kill_on_invalid_dep && !spec->kill_on_invalid_dep;
    j->exclusive = spec->exclusive && (word_eq(spec->exclusive, "exclusive") || word_eq(spec->exclusive, "yes"));
}

struct job *state_job(const struct state *s, uint32_t job_id)
{
    return table_get(&s->jobs, job_id);
}

struct job *job_root(const struct state *s, const struct job *j)
{
    struct job *root = j->array_job_id ? table_get(&s->jobs, j->array_job_id) : NULL;

    return root ? root : table_get(&s->jobs, j->job_id);
}

static void job_count(struct state *s, const struct job *j, int by)
{
    if (j->state == JOB_PENDING)
        s->pending_jobs += (uint32_t)by;
    else if (!job_state_is_end(j->state))
        s->running_jobs += (uint32_t)by;
}

void job_set_state(struct state *s, struct job *j, unsigned state)
{
    job_count(s, j, -1);
    j->state = (uint8_t)state;
    job_count(s, j, 1);
}

static uint64_t job_task_count(const struct job *j)
{
    return job_is_task_set(j) ? bitmap_count(&j->array->pending) : 1;
}

void job_enter(struct state *s, struct job *j)
{
    table_put(&s->jobs, j->job_id, j);
    s->priv->task_total += job_task_count(j);
    job_count(s, j, 1);
    if (job_phase(j) != PHASE_ENDED)
        name_enter(s, j);
    if (j->has_script)
        j->script_hash = blob_hold(s, j->script_hash);
    if (j->has_env)
        j->env_hash = blob_hold(s, j->env_hash);
}

void job_leave(struct state *s, struct job *j)
{
    s->priv->task_total -= job_task_count(j);
    job_count(s, j, -1);
    name_leave(s, j);
    dependency_leave(j);
    table_del(&s->priv->ended, j->job_id);
    table_del(&s->jobs, j->job_id);
}

/* Ids run from FirstJobId to MaxJobId and start over; living records are stepped over. */
uint32_t job_next_id(struct state *s)
{
    int64_t first = s->config ? config_number(s->config, CONF_FirstJobId) : 1, last = s->config ? config_number(s->config, CONF_MaxJobId) : 0;
    uint64_t tries;

    if (first < 1 || first >= UINT32_MAX)
        first = 1;
    if (last < first || last >= UINT32_MAX)
        last = 0x03ff0000 < first ? first : 0x03ff0000;
    tries = (uint64_t)(last - first) + 1;
    for (; tries; tries--) {
        uint32_t id = s->next_job_id < first || s->next_job_id > last ? (uint32_t)first : s->next_job_id;

        s->next_job_id = id + 1 > last ? (uint32_t)first : id + 1;
        if (!state_job(s, id))
            return id;
    }
    return 0;
}

/* A record like j under another id: what was asked and who asked; no allocation, steps or array of its own. */
struct job *job_clone(struct state *s, const struct job *j, uint32_t job_id)
{
    struct job *c = job_create(s, job_id);
    uint64_t seq = c->seq;

    *c = *j;
    c->job_id = job_id;
    c->seq = seq;
    c->array = NULL;
    c->name_next = c->name_prev = NULL;
    c->advice_text = c->sched_nodes = c->why_there = c->leaves = c->fabric = c->failed_node = c->nodes = NULL;
    c->allocs = NULL;
    c->alloc_count = 0;
    c->steps = NULL;
    c->next_step = 0;
    c->reason_text = mem_copy(j->reason_text);
    share_more(j->user);
    share_more(j->group);
    share_more(j->groups);
    share_more(j->partition);
    c->name = mem_copy(j->name);
    c->spec = mem_copy_bytes(j->spec, j->spec_len);
    c->deps = j->dep_count ? mem_copy_bytes(j->deps, j->dep_count * sizeof *j->deps) : NULL;
    for (uint32_t i = 0; i < j->dep_count; i++) {
        bitmap_init(&c->deps[i].ok, 0);
        bitmap_init(&c->deps[i].bad, 0);
        bitmap_copy(&c->deps[i].ok, &j->deps[i].ok);
        bitmap_copy(&c->deps[i].bad, &j->deps[i].bad);
    }
    return c;
}

char *job_id_text(const struct job *j, struct arena *a)
{
    struct str tasks;
    char *text;

    if (j->het_job_id)
        return arena_printf(a, "%u+%u", j->het_job_id, j->het_offset);
    if (!j->array_job_id)
        return arena_printf(a, "%u", j->job_id);
    if (j->array_task_id != UINT32_MAX)
        return arena_printf(a, "%u_%u", j->array_job_id, j->array_task_id);
    str_init(&tasks);
    if (j->array)
        bitmap_print(&j->array->pending, &tasks);
    text = arena_printf(a, "%u_[%s]", j->array_job_id, tasks.text);
    str_fini(&tasks);
    return text;
}

struct node_alloc *job_alloc_on(const struct job *j, uint32_t node)
{
    for (uint32_t i = 0; i < j->alloc_count; i++)
        if (j->allocs[i].node == node)
            return &j->allocs[i];
    return NULL;
}

static bool record_eligible(const struct state *s, const struct job *j, int64_t wall_now_s, enum job_reason *why, int64_t *when)
{
    int64_t from = 0;
    bool never = false;

    *when = INT64_MAX;
    if (j->state != JOB_PENDING)
        return *why = REASON_None, false;
    if (j->held_by_admin || j->held_by_user) {
        *why = j->reason == REASON_JobHoldMaxRequeue || j->reason == REASON_JobLaunchFailure ? (enum job_reason)j->reason : j->held_by_admin ? REASON_JobHeldAdmin : REASON_JobHeldUser;
        return false;
    }
    if (j->dep_count && !dependency_holds(j, wall_now_s, &never, &from)) {
        *why = never ? REASON_DependencyNeverSatisfied : REASON_Dependency;
        *when = from;
        return false;
    }
    if (j->begin_wall_s > wall_now_s) {
        *why = REASON_BeginTime;
        *when = j->begin_wall_s;
        return false;
    }
    if (j->array_job_id) {
        const struct job *root = job_root(s, j);

        if (root && root->array && root->array->limit && root->array->running >= root->array->limit)
            return *why = REASON_JobArrayTaskLimit, false;
        if (job_is_task_set(j) && array_next_task(s, j) == UINT32_MAX)
            return *why = REASON_Dependency, false;
    }
    *why = REASON_None;
    *when = wall_now_s;
    return true;
}

/* A heterogeneous job may start when each of its components may; until then each says what it waits for itself, or what another one does. */
bool job_eligible(const struct state *s, const struct job *j, int64_t wall_now_s, enum job_reason *why, int64_t *when)
{
    enum job_reason unused_why;
    int64_t unused_when, latest;
    bool fine;

    why = why ? why : &unused_why;
    when = when ? when : &unused_when;
    fine = record_eligible(s, j, wall_now_s, why, when);
    if (!fine && (*why != REASON_BeginTime || !j->het_count))
        return false;
    if (fine && !j->het_count)
        return true;
    latest = *when;
    for (uint32_t k = 0; k < j->het_count; k++) {
        const struct job *part = het_part(s, j, k);
        enum job_reason its = REASON_None;
        int64_t then = INT64_MAX;

        if (part == j)
            continue;
        if (!part || part->state != JOB_PENDING) {      /* being emptied for the next attempt */
            *why = fine ? REASON_Cleaning : *why;
            *when = INT64_MAX;
            return false;
        }
        if (record_eligible(s, part, wall_now_s, &its, &then))
            continue;
        *why = fine ? its : *why;
        fine = false;
        if (then == INT64_MAX) {
            *when = then;
            return false;
        }
        latest = then > latest ? then : latest;
    }
    *when = latest;
    return fine;
}
