/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - records of jobs and nodes to and from their snapshot messages. What can be computed again (ledger, indexes, texts) is not packed. */
#include <stdlib.h>
#include <string.h>

#include "state/pack.h"
#include "wire/unpack.h"

#define PUT(m, field, value) do { (m)->field = (value); (m)->has_##field = (m)->field != 0; } while (0)

static size_t used_words(const struct bitmap *b)
{
    size_t n = bitmap_words(b->bits);

    while (n && !b->words[n - 1])
        n--;
    return n;
}

static void words_put(const struct bitmap *b, size_t *n, uint64_t **words)
{
    *n = used_words(b);
    *words = b->words;      /* borrowed: packed before the next change */
}

static void words_take(struct bitmap *b, size_t bits, size_t n, const uint64_t *words)
{
    bitmap_init(b, bits);
    for (size_t i = 0; i < n && i < bitmap_words(bits); i++)
        b->words[i] = words[i];
    if (bits % 64 && bits)
        b->words[bits / 64] &= (UINT64_C(1) << (bits % 64)) - 1;
}

Wire__NodeAlloc *alloc_to_wire(const struct state *s, const struct node_alloc *a, struct arena *arena)
{
    Wire__NodeAlloc *w = arena_alloc(arena, sizeof *w);

    wire__node_alloc__init(w);
    w->node = a->node;
    w->name = a->node < s->node_count ? s->nodes[a->node].conf->name : a->lost_name ? a->lost_name : arena_copy(arena, "?");
    PUT(w, cpus, a->cpus);
    PUT(w, tasks, a->tasks);
    PUT(w, mem_mib, a->mem_mib);
    words_put(&a->cores, &w->n_cores, &w->cores);
    w->n_gres = a->gres_count;
    w->gres = arena_alloc(arena, (a->gres_count + 1u) * sizeof *w->gres);
    for (uint32_t i = 0; i < a->gres_count; i++) {
        Wire__GresAlloc *g = w->gres[i] = arena_alloc(arena, sizeof *g);

        wire__gres_alloc__init(g);
        g->name = a->gres[i].name;
        g->type = a->gres[i].type;
        PUT(g, count, a->gres[i].count);
        PUT(g, mask, a->gres[i].mask);
    }
    return w;
}

static Wire__SnapAlloc **allocs_pack(const struct state *s, const struct node_alloc *allocs, uint32_t count, struct arena *arena)
{
    Wire__SnapAlloc **list = arena_alloc(arena, (count + 1u) * sizeof *list);

    for (uint32_t i = 0; i < count; i++) {
        const struct node_alloc *a = &allocs[i];
        Wire__SnapAlloc *m = list[i] = arena_alloc(arena, sizeof *m);

        wire__snap_alloc__init(m);
        m->alloc = alloc_to_wire(s, a, arena);
        PUT(m, gone, a->gone);
        PUT(m, started, a->started);
        PUT(m, ready, a->ready);
        PUT(m, lost, a->node == NODE_REMOVED);
        PUT(m, spare, a->spare);
        PUT(m, core_bits, (uint32_t)a->cores.bits);
        m->has_threads = a->threads != NULL;
        if (a->threads)
            m->threads = (ProtobufCBinaryData){ bitmap_count(&a->cores), a->threads };
    }
    return list;
}

static bool allocs_unpack(struct state *s, Wire__SnapAlloc *const *list, size_t count, struct node_alloc **out, uint32_t *out_count)
{
    if (!count)
        return true;
    *out = mem_array(count, sizeof **out);
    *out_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const Wire__SnapAlloc *m = list[i];
        const Wire__NodeAlloc *w = m->alloc;
        struct node_alloc *a = &(*out)[i];

        a->node = w->node;
        if (m->core_bits > 1u << 20 || (!m->lost && (w->node >= s->node_count || strcmp(s->nodes[w->node].conf->name, w->name))))
            return false;
        if (m->lost)
            a->lost_name = mem_copy(w->name);
        a->cpus = w->cpus;
        a->tasks = w->tasks;
        a->mem_mib = w->mem_mib;
        a->gone = m->gone;
        a->started = m->started;
        a->ready = m->ready;
        a->spare = m->spare;
        words_take(&a->cores, m->core_bits, w->n_cores, w->cores);
        if (m->has_threads) {
            if (m->threads.len != bitmap_count(&a->cores))
                return false;
            a->threads = m->threads.len ? mem_copy_bytes(m->threads.data, m->threads.len) : NULL;
        }
        a->gres = w->n_gres ? mem_array(w->n_gres, sizeof *a->gres) : NULL;
        for (size_t g = 0; g < w->n_gres; g++)
            a->gres[a->gres_count++] = (struct gres_alloc){ mem_copy(w->gres[g]->name), mem_copy(w->gres[g]->type), w->gres[g]->count, w->gres[g]->mask };
    }
    return true;
}

static Wire__SnapArray *array_pack(const struct array *a, struct arena *arena)
{
    Wire__SnapArray *m = arena_alloc(arena, sizeof *m);

    wire__snap_array__init(m);
    words_put(&a->pending, &m->n_pending, &m->pending);
    m->bits = (uint32_t)a->pending.bits;
    PUT(m, limit, a->limit);
    PUT(m, running, a->running);
    PUT(m, task_count, a->task_count);
    PUT(m, min, a->min);
    PUT(m, max, a->max);
    PUT(m, step_size, a->step_size);
    PUT(m, records, a->records);
    if (a->task_job) {
        m->n_task_job = a->task_job_count;
        m->task_job = a->task_job;
    }
    words_put(&a->started, &m->n_started, &m->started);
    words_put(&a->ended, &m->n_ended, &m->ended);
    words_put(&a->failed, &m->n_failed, &m->failed);
    return m;
}

static struct array *array_unpack(const Wire__SnapArray *m)
{
    struct array *a;

    if (m->bits > 4000001)
        return NULL;
    a = mem_alloc(sizeof *a);
    words_take(&a->pending, m->bits, m->n_pending, m->pending);
    a->limit = m->limit;
    a->running = m->running;
    a->task_count = m->task_count;
    a->min = m->min;
    a->max = m->max;
    a->step_size = m->step_size;
    a->records = m->records;
    if (m->n_task_job) {
        a->task_job_count = (uint32_t)m->n_task_job;
        a->task_job = mem_copy_bytes(m->task_job, m->n_task_job * sizeof *m->task_job);
    }
    if (m->n_started)
        words_take(&a->started, m->bits, m->n_started, m->started);
    if (m->n_ended)
        words_take(&a->ended, m->bits, m->n_ended, m->ended);
    if (m->n_failed)
        words_take(&a->failed, m->bits, m->n_failed, m->failed);
    return a;
}

static Wire__SnapStep *step_pack(const struct state *s, const struct step *st, struct arena *arena)
{
    Wire__SnapStep *m = arena_alloc(arena, sizeof *m);

    wire__snap_step__init(m);
    m->step_id = st->step_id;
    PUT(m, ntasks, st->ntasks);
    m->spec = st->spec;
    m->n_allocs = st->alloc_count;
    m->allocs = allocs_pack(s, st->allocs, st->alloc_count, arena);
    PUT(m, start_wall_s, st->start_wall_s);
    PUT(m, end_wall_s, st->end_wall_s);
    PUT(m, start_cluster_ms, st->start_cluster_ms);
    PUT(m, state, st->state);
    PUT(m, exit_status, st->exit_status);
    PUT(m, ended_nodes, st->ended_nodes);
    PUT(m, oom, st->oom);
    PUT(m, timed_out, st->timed_out);
    m->has_io_key = st->has_io_key;
    m->io_key = (ProtobufCBinaryData){ 32, (uint8_t *)st->io_key };
    m->io_host = st->io_host;
    PUT(m, io_port, st->io_port);
    m->has_env_hash = st->has_env;
    m->env_hash = (ProtobufCBinaryData){ 32, (uint8_t *)st->env_hash };
    return m;
}

static struct step *step_unpack(struct state *s, const Wire__SnapStep *m)
{
    struct step *st = mem_alloc(sizeof *st);
    size_t size;
    uint8_t *packed;

    st->step_id = m->step_id;
    st->ntasks = m->ntasks;
    st->start_wall_s = m->start_wall_s;
    st->end_wall_s = m->end_wall_s;
    st->start_cluster_ms = m->start_cluster_ms;
    st->state = (uint8_t)m->state;
    st->exit_status = m->exit_status;
    st->ended_nodes = m->ended_nodes;
    st->oom = m->oom;
    st->timed_out = m->timed_out;
    st->io_host = mem_copy(m->io_host);
    st->io_port = m->io_port;
    st->has_io_key = m->has_io_key && m->io_key.len == 32;
    if (st->has_io_key)
        memcpy(st->io_key, m->io_key.data, 32);
    st->has_env = m->has_env_hash && m->env_hash.len == 32;
    if (st->has_env)
        memcpy(st->env_hash, m->env_hash.data, 32);
    if (m->spec) {
        size = wire__step_spec__get_packed_size(m->spec);
        packed = mem_alloc(size ? size : 1);
        wire__step_spec__pack(m->spec, packed);
        st->spec = wire__step_spec__unpack(NULL, size, packed);
        free(packed);
    }
    if (!allocs_unpack(s, m->allocs, m->n_allocs, &st->allocs, &st->alloc_count)) {
        step_destroy(st);
        return NULL;
    }
    return st;
}

static Wire__SnapDep **deps_pack(const struct job *j, struct arena *arena)
{
    Wire__SnapDep **list = arena_alloc(arena, (j->dep_count + 1u) * sizeof *list);

    for (uint32_t i = 0; i < j->dep_count; i++) {
        const struct dep_term *t = &j->deps[i];
        Wire__SnapDep *m = list[i] = arena_alloc(arena, sizeof *m);

        wire__snap_dep__init(m);
        m->type = t->type;
        m->status = t->status;
        m->job_id = t->job_id;
        m->task_id = t->task_id;
        PUT(m, delay_min, t->delay_min);
        PUT(m, since_wall_s, t->since_wall_s);
        PUT(m, corr_bits, (uint32_t)t->ok.bits);
        words_put(&t->ok, &m->n_corr_ok, &m->corr_ok);
        words_put(&t->bad, &m->n_corr_bad, &m->corr_bad);
    }
    return list;
}

static bool deps_unpack(struct job *j, const Wire__SnapJob *m)
{
    if (!m->n_deps)
        return true;
    j->deps = mem_array(m->n_deps, sizeof *j->deps);
    j->dep_count = (uint32_t)m->n_deps;
    for (size_t i = 0; i < m->n_deps; i++) {
        const Wire__SnapDep *d = m->deps[i];
        struct dep_term *t = &j->deps[i];

        if (d->type > DEP_AFTERBURSTBUFFER || d->status > DEP_FAILED || d->corr_bits > 4000001)
            return false;
        t->type = (uint8_t)d->type;
        t->status = (uint8_t)d->status;
        t->job_id = d->job_id;
        t->task_id = d->task_id;
        t->delay_min = d->delay_min;
        t->since_wall_s = d->since_wall_s;
        if (d->corr_bits) {
            words_take(&t->ok, d->corr_bits, d->n_corr_ok, d->corr_ok);
            words_take(&t->bad, d->corr_bits, d->n_corr_bad, d->corr_bad);
        }
    }
    return true;
}

Wire__SnapJob *job_pack(const struct state *s, const struct job *j, struct arena *arena)
{
    Wire__SnapJob *m = arena_alloc(arena, sizeof *m);
    size_t steps = 0;

    wire__snap_job__init(m);
    m->job_id = j->job_id;
    PUT(m, array_job_id, j->array_job_id);
    m->has_array_task_id = j->array_task_id != UINT32_MAX;
    m->array_task_id = j->array_task_id;
    m->array = j->array ? array_pack(j->array, arena) : NULL;
    m->state = j->state;
    PUT(m, flags, j->flags);
    PUT(m, reason, j->reason);
    m->reason_text = j->reason_text;
    PUT(m, uid, j->uid);
    PUT(m, gid, j->gid);
    m->user = j->user;
    m->group = j->group;
    m->n_groups = j->group_count;
    m->groups = j->groups;
    m->has_spec = 1;
    m->spec = (ProtobufCBinaryData){ j->spec_len, j->spec };
    m->partition = j->partition;
    PUT(m, time_limit_min, j->time_limit_min);
    PUT(m, nice, j->nice);
    PUT(m, requeue, j->requeue);
    PUT(m, held_by_user, j->held_by_user);
    PUT(m, held_by_admin, j->held_by_admin);
    PUT(m, has_priority_set, j->has_priority_set);
    if (j->has_priority_set || j->state != JOB_PENDING)     /* while it waits, the rank is the leader's advice */
        PUT(m, priority, j->priority);
    PUT(m, submit_wall_s, j->submit_wall_s);
    PUT(m, submit_cluster_ms, j->submit_cluster_ms);
    PUT(m, eligible_wall_s, j->eligible_wall_s);
    PUT(m, begin_wall_s, j->begin_wall_s);
    PUT(m, deadline_wall_s, j->deadline_wall_s);
    PUT(m, start_wall_s, j->start_wall_s);
    PUT(m, start_cluster_ms, j->start_cluster_ms);
    PUT(m, end_wall_s, j->end_wall_s);
    PUT(m, end_cluster_ms, j->end_cluster_ms);
    m->n_deps = j->dep_count;
    m->deps = deps_pack(j, arena);
    PUT(m, deps_any, j->deps_any);
    PUT(m, attempt, j->attempt);
    PUT(m, restarts, j->restarts);
    PUT(m, exit_status, j->exit_status);
    PUT(m, derived_status, j->derived_status);
    m->n_allocs = j->alloc_count;
    m->allocs = allocs_pack(s, j->allocs, j->alloc_count, arena);
    PUT(m, total_cpus, j->total_cpus);
    for (const struct step *st = j->steps; st; st = st->next)
        steps++;
    m->steps = arena_alloc(arena, (steps + 1) * sizeof *m->steps);
    for (const struct step *st = j->steps; st; st = st->next)
        m->steps[m->n_steps++] = step_pack(s, st, arena);
    PUT(m, next_step, j->next_step);
    m->why_there = j->why_there;
    m->leaves = j->leaves;
    m->fabric = j->fabric;
    m->has_share_permille = j->has_share;
    m->share_permille = j->share_permille;
    m->failed_node = j->failed_node;
    m->has_script_hash = j->has_script;
    m->script_hash = (ProtobufCBinaryData){ 32, (uint8_t *)j->script_hash };
    m->has_env_hash = j->has_env;
    m->env_hash = (ProtobufCBinaryData){ 32, (uint8_t *)j->env_hash };
    PUT(m, kill_pending, j->kill_pending);
    PUT(m, ntasks, j->ntasks);
    PUT(m, exclusive, j->exclusive);
    PUT(m, awaits, j->awaits);
    PUT(m, parked, j->parked);
    PUT(m, launch_fails, j->launch_fails);
    PUT(m, suspend_wall_s, j->suspend_wall_s);
    PUT(m, suspend_cluster_ms, j->suspend_cluster_ms);
    PUT(m, suspended_ms, j->suspended_ms);
    PUT(m, het_job_id, j->het_job_id);
    PUT(m, het_offset, j->het_offset);
    PUT(m, het_count, j->het_count);
    return m;
}

/* NULL: a record that cannot be. The job is not entered into the table yet. */
struct job *job_unpack(struct state *s, const Wire__SnapJob *m, struct arena *arena)
{
    struct job *j = job_create(s, m->job_id);
    struct step **tail = &j->steps;
    Wire__JobSpec *spec = wire_unpack(&wire__job_spec__descriptor, m->spec.data, m->spec.len, arena);

    if (!spec || !m->job_id || m->state >= JOB_STATE_COUNT || m->reason >= REASON_COUNT)
        goto bad;
    if (spec->has_script_hash || spec->has_env_hash || !m->spec.len) {
        job_take_spec(s, j, spec);
    } else {
        j->spec = mem_copy_bytes(m->spec.data, m->spec.len);
        j->spec_len = (uint32_t)m->spec.len;
        job_take_hot(s, j, spec);
    }
    j->array_job_id = m->array_job_id;
    j->array_task_id = m->has_array_task_id ? m->array_task_id : UINT32_MAX;
    if (m->array && !(j->array = array_unpack(m->array)))
        goto bad;
    j->state = (uint8_t)m->state;
    j->flags = m->flags;
    j->reason = (uint16_t)m->reason;
    j->reason_text = mem_copy(m->reason_text);
    j->uid = m->uid;
    j->gid = m->gid;
    j->user = share_text(s, m->user);
    j->group = share_text(s, m->group);
    j->group_count = (uint32_t)m->n_groups;
    j->groups = share_numbers(s, m->groups, (uint32_t)m->n_groups);
    if (!j->partition || !m->partition || strcmp(j->partition, m->partition))
        share_set(s, &j->partition, m->partition);
    j->time_limit_min = m->time_limit_min;
    j->nice = m->nice;
    j->requeue = m->requeue;
    j->held_by_user = m->held_by_user;
    j->held_by_admin = m->held_by_admin;
    j->has_priority_set = m->has_priority_set;
    j->priority = m->priority;
    j->submit_wall_s = m->submit_wall_s;
    j->submit_cluster_ms = m->submit_cluster_ms;
    j->eligible_wall_s = m->eligible_wall_s;
    j->begin_wall_s = m->begin_wall_s;
    j->deadline_wall_s = m->deadline_wall_s;
    j->start_wall_s = m->start_wall_s;
    j->start_cluster_ms = m->start_cluster_ms;
    j->end_wall_s = m->end_wall_s;
    j->end_cluster_ms = m->end_cluster_ms;
    j->deps_any = m->deps_any;
    j->attempt = m->attempt;
    j->restarts = m->restarts;
    j->exit_status = m->exit_status;
    j->derived_status = m->derived_status;
    j->total_cpus = m->total_cpus;
    j->next_step = m->next_step;
    j->why_there = mem_copy(m->why_there);
    j->leaves = mem_copy(m->leaves);
    j->fabric = mem_copy(m->fabric);
    j->has_share = m->has_share_permille;
    j->share_permille = m->share_permille;
    j->failed_node = mem_copy(m->failed_node);
    j->kill_pending = m->kill_pending;
    j->ntasks = m->ntasks;
    j->exclusive = m->exclusive;
    j->awaits = (uint8_t)m->awaits;
    j->parked = m->parked;
    j->launch_fails = (uint16_t)m->launch_fails;
    j->suspend_wall_s = m->suspend_wall_s;
    j->suspend_cluster_ms = m->suspend_cluster_ms;
    j->suspended_ms = m->suspended_ms;
    j->het_job_id = m->het_job_id;
    j->het_offset = m->het_offset;
    j->het_count = m->het_count;
    if (j->het_job_id && (j->het_offset >= j->het_count || j->het_count > HET_MAX || j->job_id - j->het_offset != j->het_job_id))
        goto bad;
    j->has_script = m->has_script_hash && m->script_hash.len == 32;
    if (j->has_script)
        j->script_hash = m->script_hash.data;     /* lent until job_enter() */
    j->has_env = m->has_env_hash && m->env_hash.len == 32;
    if (j->has_env)
        j->env_hash = m->env_hash.data;
    if (!deps_unpack(j, m) || !allocs_unpack(s, m->allocs, m->n_allocs, &j->allocs, &j->alloc_count))
        goto bad;
    if (!j->alloc_count && (j->state == JOB_RUNNING || j->state == JOB_SUSPENDED || j->flags & JOB_FLAG_COMPLETING))
        goto bad;
    for (size_t i = 0; i < m->n_steps; i++) {
        *tail = step_unpack(s, m->steps[i]);
        if (!*tail)
            goto bad;
        if ((*tail)->has_env)
            blob_hold(s, (*tail)->env_hash);
        tail = &(*tail)->next;
    }
    if (j->alloc_count)
        job_print_nodes(s, j);
    return j;

bad:
    job_destroy(s, j);
    return NULL;
}

Wire__SnapNode *node_pack(const struct node *n, uint32_t table, struct arena *arena)
{
    Wire__SnapNode *m = arena_alloc(arena, sizeof *m);

    wire__snap_node__init(m);
    m->name = n->conf->name;
    m->base_state = n->base;
    PUT(m, flags, n->flags);
    m->reason = n->reason;
    PUT(m, reason_uid, n->reason_uid);
    m->reason_user = n->reason_user;
    PUT(m, reason_wall_s, n->reason_wall_s);
    PUT(m, reason_is_ours, n->reason_is_ours);
    PUT(m, registered, n->registered);
    PUT(m, boards, n->boards);
    PUT(m, sockets, n->sockets);
    PUT(m, cores_per_socket, n->cores_per_socket);
    PUT(m, threads_per_core, n->threads_per_core);
    PUT(m, cpus, n->cpus);
    PUT(m, mem_mib, n->mem_mib);
    PUT(m, tmp_mib, n->tmp_mib);
    m->version = n->version;
    m->os = n->os;
    m->arch = n->arch;
    m->addr = n->addr;
    m->hostname = n->hostname;
    PUT(m, boot_wall_s, n->boot_wall_s);
    PUT(m, agent_start_wall_s, n->agent_start_wall_s);
    PUT(m, last_busy_wall_s, n->last_busy_wall_s);
    m->comment = n->comment;
    m->extra = n->extra;
    m->features = n->features;
    PUT(m, weight, n->weight);
    m->boot_id = n->boot_id;
    m->instance_id = n->instance_id;
    m->instance_type = n->instance_type;
    PUT(m, lost, n->lost);
    PUT(m, reboot_number, n->reboot_number);
    PUT(m, reboot_cluster_ms, n->reboot_cluster_ms);
    PUT(m, launch_fails, n->launch_fails);
    PUT(m, mesh_number, n->mesh_number);
    m->has_mesh_key = n->mesh_number != 0;
    m->mesh_key = (ProtobufCBinaryData){ sizeof n->mesh_key, (uint8_t *)(uintptr_t)n->mesh_key };
    m->mesh_endpoint = n->mesh_endpoint;
    PUT(m, devices, table);
    m->fabric = n->fabric;
    m->n_foreign = n->foreign_count;
    m->foreign = arena_alloc(arena, (n->foreign_count + 1u) * sizeof *m->foreign);
    for (uint32_t i = 0; i < n->foreign_count; i++) {
        Wire__RunningStep *r = m->foreign[i] = arena_alloc(arena, sizeof *r);

        wire__running_step__init(r);
        r->job_id = n->foreign[i].job_id;
        r->attempt = n->foreign[i].attempt;
    }
    return m;
}

bool node_unpack(struct state *s, const Wire__SnapNode *m, struct devices *const *tables, size_t table_count)
{
    struct node *n = state_node(s, m->name);

    if (!n || m->base_state > NODE_FUTURE || m->devices > table_count)
        return false;
    n->base = (uint8_t)m->base_state;
    n->flags = m->flags;
    text_set(&n->reason, m->reason);
    n->reason_uid = m->reason_uid;
    n->reason_user = mem_copy(m->reason_user);
    n->reason_wall_s = m->reason_wall_s;
    n->reason_is_ours = m->reason_is_ours;
    n->registered = m->registered;
    n->boards = m->boards;
    n->sockets = m->sockets;
    n->cores_per_socket = m->cores_per_socket;
    n->threads_per_core = m->threads_per_core;
    n->cpus = m->cpus;
    n->mem_mib = m->mem_mib;
    n->tmp_mib = m->tmp_mib;
    n->version = mem_copy(m->version);
    n->os = mem_copy(m->os);
    n->arch = mem_copy(m->arch);
    n->addr = mem_copy(m->addr);
    n->hostname = mem_copy(m->hostname);
    n->boot_wall_s = m->boot_wall_s;
    n->agent_start_wall_s = m->agent_start_wall_s;
    n->last_busy_wall_s = m->last_busy_wall_s;
    n->comment = mem_copy(m->comment);
    n->extra = mem_copy(m->extra);
    n->features = mem_copy(m->features);
    n->weight = m->weight;
    n->boot_id = mem_copy(m->boot_id);
    n->instance_id = mem_copy(m->instance_id);
    n->instance_type = mem_copy(m->instance_type);
    n->lost = m->lost;
    n->reboot_number = m->reboot_number;
    n->reboot_cluster_ms = m->reboot_cluster_ms;
    n->launch_fails = m->launch_fails;
    if (m->has_mesh_key && m->mesh_key.len == sizeof n->mesh_key) {
        n->mesh_number = m->mesh_number;
        memcpy(n->mesh_key, m->mesh_key.data, sizeof n->mesh_key);
        n->mesh_endpoint = mem_copy(m->mesh_endpoint);
    }
    n->devices = m->devices ? devices_more(tables[m->devices - 1]) : NULL;
    share_set(s, &n->fabric, m->fabric);
    for (size_t i = 0; i < m->n_foreign; i++)
        node_foreign_add(n, m->foreign[i]->job_id, m->foreign[i]->attempt);
    return true;
}
