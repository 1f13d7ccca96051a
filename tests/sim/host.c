/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - the controller on top of a member: requests become entries, committed entries go through the real apply, answers go out.
 *
 * On the leader a planner starts jobs on cores that look free in its own state and reports their ends, so stale decisions of an old leader
 * are proposed too. Times in entries are stamped as the controller does: cluster_ms by the boot clock, wall_ms by one that is set at will.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster.h"
#include "state/private.h"
#include "wire/unpack.h"
#include "faults.h"

static const char slurm_conf[] = "ClusterName=sim\nSlurmctldHost=ctl\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nReturnToService=1\n"
                                 "NodeName=n[1-2] CPUs=8 State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES\n";

/* ---- snapshots ---- */

struct stream { uint8_t *data; size_t len, at, room; };

static long stream_write(void *arg, const void *data, size_t n)
{
    struct stream *s = arg;

    if (s->len + n > s->room)
        s->data = mem_grow(s->data, s->room = 2 * (s->len + n), 1);
    memcpy(s->data + s->len, data, n);
    s->len += n;
    return (long)n;
}

static long stream_read(void *arg, void *data, size_t n)
{
    struct stream *s = arg;

    n = n < s->len - s->at ? n : s->len - s->at;
    memcpy(data, s->data + s->at, n);
    s->at += n;
    return (long)n;
}

struct lump *host_save(struct member *m)
{
    struct stream s = { 0 };
    struct spur_error err;
    struct lump *b = NULL;

    if (state_save(m->state, stream_write, &s, &err) < 0)
        fail(m->c, "m%u: state_save: %s", m->place, err.text);
    b = lump_new(s.data, s.len);
    free(s.data);
    return b;
}

static struct state *load(struct member *m, const struct snapshot *from)
{
    struct stream s = { .data = from->bytes->bytes, .len = from->bytes->n };
    struct state *state = NULL;
    struct spur_error err;

    if (state_load(&state, stream_read, &s, &err) < 0) {
        fail(m->c, "m%u: snapshot %llu does not load: %s", m->place, (unsigned long long)from->index, err.text);
        return state_create();
    }
    if (SIM_FAULT(NO_TOKENS_IN_SNAPSHOT)) {
        while (state->priv->token_first < state->priv->token_next)
            state->priv->token_first++;
        table_fini(&state->tokens);
        table_init(&state->tokens);
    }
    return state;
}

void host_open(struct member *m, const struct snapshot *from)
{
    m->state = from ? load(m, from) : state_create();
    m->applied = from ? from->index : 0;
    m->applied_term = from ? from->term : 0;
    m->members_applied = from ? from->members : (struct raft_members){ .count = 0 };
    m->snapshot_due = m->applied + m->c->snapshot_every;
    m->cluster_base_ms = m->state->cluster_ms;
    m->cluster_boot_ms = (int64_t)member_now_ms(m);
    if (from)
        check_digest(m, from->index);
}

void host_replay(struct member *m, struct raft_restored *restored, struct raft_entry *entries)
{
    uint64_t last = restored->snapshot_index + restored->count, drop;

    while (m->applied < last && m->applied < m->drive.commit && !m->c->has_failed)
        host_apply(m, &entries[m->applied - restored->snapshot_index]);
    restored->applied = m->applied;
    /* Of what is applied the data may be left on the disk. */
    drop = sim_random_below(&m->c->random, 2) ? sim_random_below(&m->c->random, m->applied - restored->snapshot_index + 1) : 0;
    for (uint64_t i = 0; i < drop; i++)
        if (entries[i].type == RAFT_ENTRY_DATA)
            entries[i].data = NULL;
}

void host_close(struct member *m)
{
    struct proposal *next;

    state_destroy(m->state);
    m->state = NULL;
    for (; m->proposals; m->proposals = next) {
        next = m->proposals->next;
        free(m->proposals);
    }
}

static void snapshot_free(void *data)
{
    struct snapshot *s = data;

    lump_drop(s->bytes);
    free(s);
}

static void snapshot_written(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    struct snapshot *s = data;
    uint64_t keep;

    (void)number;
    m->is_snapshotting = false;
    if (s->index > m->drive.snapshots[0].index) {
        drive_snapshot(&m->drive, s);
        m->c->snapshots++;
        say(m->c, "m%u: snapshot %llu", m->place, (unsigned long long)s->index);
        member_applied(m, s->index);
        raft_snapshot_taken(m->raft, s->index, s->term, &s->members);
        keep = raft_log_keep(m->raft);
        drive_cut(&m->drive, keep < m->drive.snapshots[1].index ? keep : m->drive.snapshots[1].index);
    }
    snapshot_free(s);
    member_step(m);
}

void host_snapshot_maybe(struct member *m, bool is_wanted)
{
    struct snapshot *s;

    if (m->is_snapshotting || m->incoming.is_installing || m->applied <= m->drive.snapshots[0].index || (m->applied < m->snapshot_due && !is_wanted))
        return;
    s = mem_alloc(sizeof *s);
    *s = (struct snapshot){ .index = m->applied, .term = m->applied_term, .members = m->members_applied, .bytes = host_save(m) };
    m->is_snapshotting = true;
    m->snapshot_due = m->applied + m->c->snapshot_every;
    check_digest(m, m->applied);
    member_later(m, sim_random_tail(&m->c->random, 20 * MS), snapshot_written, 0, s, snapshot_free);
}

static void installed(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    struct snapshot s = { .index = m->incoming.index, .term = m->incoming.term, .members = m->incoming.members };

    (void)data;
    if (m->drive.order_count && number < 1000) {            /* the log's thread does one thing after the other */
        member_later(m, 1 * MS, installed, number + 1, NULL, NULL);
        return;
    }
    m->incoming.is_installing = false;
    if (sim_random_below(&m->c->random, 20) == 0) {
        say(m->c, "m%u: snapshot %llu arrived damaged", m->place, (unsigned long long)s.index);
        raft_snapshot_refused(m->raft, member_now_ms(m));
        member_step(m);
        return;
    }
    s.bytes = lump_new(m->incoming.bytes, m->incoming.have);
    m->c->installs++;
    say(m->c, "m%u: snapshot %llu installed over %llu", m->place, (unsigned long long)s.index, (unsigned long long)m->applied);
    if (s.index > m->drive.snapshots[0].index)
        drive_install(&m->drive, &s);
    if (s.index > m->applied) {
        state_destroy(m->state);
        m->state = load(m, &s);
        m->applied = m->told = s.index;
        m->applied_term = s.term;
        m->members_applied = s.members;
        m->snapshot_due = s.index + m->c->snapshot_every;
        check_digest(m, s.index);
    }
    lump_drop(s.bytes);
    raft_snapshot_installed(m->raft, member_now_ms(m), s.index, s.term, &s.members);
    if (s.index == m->drive.snapshots[0].index)
        check_installed(m);
    member_step(m);
}

void host_install(struct member *m)
{
    uint64_t takes = sim_random_below(&m->c->random, 8) ? 10 * MS : 500 * MS;

    member_later(m, sim_random_tail(&m->c->random, takes), installed, 0, NULL, NULL);
}

/* ---- entries ---- */

static struct proposal *proposal_take(struct member *m, void *cookie)
{
    for (struct proposal **p = &m->proposals; *p; p = &(*p)->next)
        if (*p == cookie) {
            struct proposal *found = *p;

            *p = found->next;
            return found;
        }
    return NULL;
}

static void answer(struct member *m, uint32_t op, int code, uint32_t job_id, uint64_t index)
{
    struct letter *l = mem_alloc(sizeof *l);
    const struct raft *r = m->raft;
    struct raft_status st;

    l->kind = LETTER_ANSWER;
    l->op = op;
    l->code = code;
    l->job_id = job_id;
    l->index = index;
    l->hint = NOBODY;
    if (code == SPUR_ENOTLEADER) {
        struct member *leader;

        raft_status(r, &st);
        leader = st.leader ? member_by_id(m->c, st.leader) : NULL;
        l->hint = leader && leader != m ? leader->place : NOBODY;
    }
    letter_send(m->c, m->place, MEMBERS + m->c->ops[op].client, l);
}

struct building { Wire__Entry entry; Wire__Op *ops[64]; size_t count; struct arena arena; };

static void entry_open(struct building *b)
{
    memset(b, 0, sizeof *b);
    wire__entry__init(&b->entry);
    arena_init(&b->arena, 0);
}

static Wire__Op *op_add(struct building *b)
{
    Wire__Op *op = arena_alloc(&b->arena, sizeof *op);

    wire__op__init(op);
    b->ops[b->count++] = op;
    return op;
}

static int entry_propose(struct member *m, struct building *b, struct proposal *cookie)
{
    uint64_t index;
    struct spur_error err;
    uint8_t *bytes;
    size_t n;
    int rc;

    b->entry.ops = b->ops;
    b->entry.n_ops = b->count;
    b->entry.fence = m->term;
    b->entry.cluster_ms = m->cluster_base_ms + (int64_t)member_now_ms(m) - m->cluster_boot_ms;
    if (b->entry.cluster_ms < m->state->cluster_ms)
        b->entry.cluster_ms = m->state->cluster_ms;
    b->entry.wall_ms = sim_clock_us(&m->wall, now_us(m->c)) / 1000;
    n = wire__entry__get_packed_size(&b->entry);
    bytes = mem_alloc(n);
    wire__entry__pack(&b->entry, bytes);
    rc = raft_propose(m->raft, member_now_ms(m), bytes, n, cookie, &index, &err);
    free(bytes);
    arena_fini(&b->arena);
    return rc;
}

static void op_build(struct building *b, const struct op *o, uint32_t number)
{
    Wire__Op *op = op_add(b);

    op->has_token = 1;
    op->token = (ProtobufCBinaryData){ 16, (uint8_t *)o->token };
    op->has_token_wall_ms = 1;
    op->token_wall_ms = o->token_wall_ms;
    if (o->kind == OP_CANCEL) {
        op->cancel = arena_alloc(&b->arena, sizeof *op->cancel);
        wire__op_cancel__init(op->cancel);
        op->cancel->job_id = o->target;
        return;
    }
    op->submit = arena_alloc(&b->arena, sizeof *op->submit);
    wire__op_submit__init(op->submit);
    op->submit->uid = op->submit->gid = 1000 + o->client;
    op->submit->spec = arena_alloc(&b->arena, sizeof *op->submit->spec);
    wire__job_spec__init(op->submit->spec);
    op->submit->spec->name = arena_printf(&b->arena, "o%u", number);
    op->submit->spec->work_dir = arena_copy(&b->arena, "/");
    op->submit->spec->has_is_batch = op->submit->spec->is_batch = 1;
    if (o->kind == OP_ARRAY)
        op->submit->spec->array = arena_printf(&b->arena, "0-%u", o->tasks - 1);
}

static void propose_waiting(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    struct building b;
    struct proposal *p;
    int rc;

    (void)number;
    (void)data;
    m->is_proposing = false;
    if (!m->waiting_count)
        return;
    p = mem_alloc(sizeof *p);
    entry_open(&b);
    for (; p->count < m->waiting_count && p->count < 16; p->count++) {
        p->ops[p->count] = m->waiting[p->count];
        op_build(&b, &m->c->ops[p->ops[p->count]], p->ops[p->count]);
    }
    memmove(m->waiting, m->waiting + p->count, (m->waiting_count - p->count) * sizeof *m->waiting);
    m->waiting_count -= p->count;
    p->next = m->proposals;
    m->proposals = p;
    rc = entry_propose(m, &b, p);
    if (rc < 0) {
        proposal_take(m, p);
        for (uint32_t i = 0; i < p->count; i++)
            answer(m, p->ops[i], rc, 0, 0);
        free(p);
    }
    member_step(m);
}

static void read_request(struct member *m, const struct letter *l)
{
    struct spur_error err;
    uint64_t id = ++m->reads_next;

    if (m->read_count == 16)
        return;
    m->reads[m->read_count++] = (struct read){ .id = id, .client = l->client, .request = l->request, .floor = m->c->truth.commit };
    if (raft_read(m->raft, member_now_ms(m), id, &err) < 0)
        m->read_count--;        /* the client asks elsewhere when its time is up */
}

void host_request(struct member *m, const struct letter *l)
{
    struct spur_error err;
    struct op_result known;

    if (l->is_read) {
        read_request(m, l);
        return;
    }
    if (!member_is_leader(m) || !m->is_leader_ready || !m->state->config) {
        spur_fail(&err, SPUR_ENOTLEADER, "ask the leader");
        answer(m, l->op, SPUR_ENOTLEADER, 0, 0);
        return;
    }
    /* As admit does: a token that is known here is answered at once. Committed entries are the only ones that can be known. */
    if (state_token(m->state, m->c->ops[l->op].token, m->c->ops[l->op].token_wall_ms, &known) == 1) {
        answer(m, l->op, 0, known.job_id, m->applied);
        return;
    }
    if (m->waiting_count == 64)
        return;
    m->waiting[m->waiting_count++] = l->op;
    if (!m->is_proposing) {
        m->is_proposing = true;
        member_later(m, sim_random_below(&m->c->random, 3 * MS), propose_waiting, 0, NULL, NULL);
    }
}

void host_read_done(struct member *m, const struct raft_read *r)
{
    for (uint32_t i = 0; i < m->read_count; i++)
        if (m->reads[i].id == r->id) {
            struct read read = m->reads[i];
            struct letter *l;

            m->reads[i] = m->reads[--m->read_count];
            if (r->is_refused)
                return;
            if (r->index < read.floor)
                fail(m->c, "m%u: a read is granted at index %llu, but %llu was committed when it was asked for", m->place, (unsigned long long)r->index,
                     (unsigned long long)read.floor);
            if (m->applied < r->index)      /* committed entries come with the same ready or before */
                fail(m->c, "m%u: a read is granted at index %llu, handed out are %llu", m->place, (unsigned long long)r->index, (unsigned long long)m->applied);
            l = mem_alloc(sizeof *l);
            l->kind = LETTER_ANSWER;
            l->is_read = true;
            l->request = read.request;
            l->index = m->applied;
            letter_send(m->c, m->place, MEMBERS + read.client, l);
            return;
        }
    fail(m->c, "m%u: read %llu is answered that nobody waits for", m->place, (unsigned long long)r->id);
}

void host_apply(struct member *m, const struct raft_entry *e)
{
    struct proposal *p;
    struct applied out = { 0 };
    struct spur_error err;
    struct arena arena;
    Wire__Entry *entry;

    check_apply(m, e);
    if (m->c->has_failed)
        return;
    p = m->raft ? proposal_take(m, raft_cookie(m->raft, e->index, e->term)) : NULL;
    m->applied = e->index;
    m->applied_term = e->term;
    if (e->type == RAFT_ENTRY_MEMBERS && raft_members_unpack(&m->members_applied, e->data, e->n) < 0)
        fail(m->c, "m%u: members of entry %llu can't be read", m->place, (unsigned long long)e->index);
    if (e->type != RAFT_ENTRY_DATA)
        return;
    arena_init(&arena, 0);
    if (apply_bytes(m->state, e->index, e->data, e->n, &arena, &out, &err) < 0) {
        fail(m->c, "m%u: %s", m->place, err.text);
    } else {
        entry = wire_unpack(&wire__entry__descriptor, e->data, e->n, &arena);
        for (size_t i = 0; i < out.result_count; i++) {
            check_result(m, e->index, entry->ops[i], &out.results[i]);
            if (p && i < p->count)
                answer(m, p->ops[i], out.results[i].code, out.results[i].job_id, e->index);
        }
        if (e->index % 32 == 0)
            check_digest(m, e->index);
    }
    free(p);
    arena_fini(&arena);
}

/* Another leader may have it or not: the client is told nothing and asks again with the same token. */
void host_dropped(struct member *m, void *cookie)
{
    free(proposal_take(m, cookie));
}

/* ---- the leader's own work ---- */

static void start_op(struct building *b, const struct job *j, const struct node *n, uint32_t core)
{
    Wire__OpStart *start = arena_alloc(&b->arena, sizeof *start);
    Wire__NodeAlloc *alloc = arena_alloc(&b->arena, sizeof *alloc), **allocs = arena_alloc(&b->arena, sizeof *allocs);
    uint64_t *mask = arena_alloc(&b->arena, sizeof *mask);
    uint32_t task = job_is_task_set(j) ? (uint32_t)bitmap_first(&j->array->pending) : UINT32_MAX;

    wire__op_start__init(start);
    wire__node_alloc__init(alloc);
    *mask = UINT64_C(1) << core;
    alloc->name = n->conf->name;
    alloc->node = n->index;
    alloc->cores = mask;
    alloc->n_cores = 1;
    alloc->has_cpus = alloc->has_tasks = alloc->has_mem_mib = 1;
    alloc->cpus = alloc->tasks = 1;
    alloc->mem_mib = 1;
    *allocs = alloc;
    start->job_id = j->job_id;
    start->attempt = j->attempt;
    start->has_array_task_id = task != UINT32_MAX;
    start->array_task_id = task;
    start->allocs = allocs;
    start->n_allocs = 1;
    op_add(b)->start = start;
}

static void report_op(struct building *b, const struct job *j, const char *node, Wire__Report__Kind kind)
{
    Wire__OpReport *o = arena_alloc(&b->arena, sizeof *o);

    wire__op_report__init(o);
    o->report = arena_alloc(&b->arena, sizeof *o->report);
    wire__report__init(o->report);
    o->report->node = (char *)node;
    o->report->kind = kind;
    o->report->job_id = j->job_id;
    o->report->has_step_id = 1;
    o->report->step_id = STEP_BATCH;
    o->report->attempt = j->attempt;
    o->report->has_status = 1;
    o->report->seq = 1;
    op_add(b)->report = o;
}

static void configure_ops(struct building *b)
{
    Wire__OpConfig *config = arena_alloc(&b->arena, sizeof *config);

    wire__op_config__init(config);
    config->files = arena_alloc(&b->arena, sizeof *config->files);
    wire__config_files__init(config->files);
    config->files->slurm = (char *)slurm_conf;
    op_add(b)->config = config;
    for (int i = 1; i <= 2; i++) {
        Wire__OpRegister *o = arena_alloc(&b->arena, sizeof *o);

        wire__op_register__init(o);
        o->inventory = arena_alloc(&b->arena, sizeof *o->inventory);
        wire__node_inventory__init(o->inventory);
        o->inventory->name = arena_printf(&b->arena, "n%d", i);
        o->inventory->has_cpus = o->inventory->has_mem_mib = 1;
        o->inventory->cpus = 8;
        o->inventory->mem_mib = 16000;
        o->inventory->boot_id = arena_copy(&b->arena, "b");
        op_add(b)->register_node = o;
    }
}

static void key_value(struct building *b, Wire__KeyValue ***set, size_t *n, const char *key, const char *value)
{
    Wire__KeyValue *kv = arena_alloc(&b->arena, sizeof *kv);

    wire__key_value__init(kv);
    kv->key = arena_copy(&b->arena, key);
    kv->value = arena_copy(&b->arena, value);
    if (!*n)
        *set = arena_alloc(&b->arena, 4 * sizeof **set);
    (*set)[(*n)++] = kv;
}

/* What administrators and clocks do: jobs held, let go, run again; nodes drained, lost and back; ended jobs forgotten. */
static void other_op(struct member *m, struct building *b)
{
    struct cluster *c = m->c;
    const struct node *n = &m->state->nodes[sim_random_below(&c->random, m->state->node_count)];
    uint64_t what = sim_random_below(&c->random, 8);

    if (what < 4) {
        static const Wire__JobUpdateRequest__Verb verbs[] = { WIRE__JOB_UPDATE_REQUEST__VERB__HOLD, WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE,
                                                              WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE, WIRE__JOB_UPDATE_REQUEST__VERB__SET };
        Wire__OpUpdate *o = arena_alloc(&b->arena, sizeof *o);

        wire__op_update__init(o);
        o->job_id = 1 + (uint32_t)sim_random_below(&c->random, m->state->next_job_id);
        o->verb = verbs[what];
        o->has_by_admin = o->by_admin = 1;
        if (what == 3)
            key_value(b, &o->set, &o->n_set, "TimeLimit", sim_random_below(&c->random, 2) ? "10" : "2-00:00:00");
        op_add(b)->update = o;
    } else if (what < 6) {
        Wire__OpNodeUpdate *o = arena_alloc(&b->arena, sizeof *o);

        wire__op_node_update__init(o);
        o->node = n->conf->name;
        key_value(b, &o->set, &o->n_set, "State", sim_random_below(&c->random, 3) ? "RESUME" : "DRAIN");
        key_value(b, &o->set, &o->n_set, "Reason", "sim");
        op_add(b)->node_update = o;
    } else if (what == 6) {
        Wire__OpNodeLost *o = arena_alloc(&b->arena, sizeof *o);

        wire__op_node_lost__init(o);
        o->node = n->conf->name;
        o->has_back = 1;
        o->back = sim_random_below(&c->random, 3) > 0;
        op_add(b)->node_lost = o;
    } else if (c->is_purging) {
        Wire__OpPurge *o = arena_alloc(&b->arena, sizeof *o);

        wire__op_purge__init(o);
        o->before_cluster_ms = m->state->cluster_ms - 1000;
        op_add(b)->purge = o;
    }
}

static void plan(void *arg, uint64_t number, void *data)
{
    struct member *m = arg;
    struct cluster *c = m->c;
    struct building b;
    const struct job *j;

    (void)data;
    if (!m->is_leader_ready || number != m->term)
        return;
    member_later(m, sim_random_tail(&c->random, c->plan_us), plan, number, NULL, NULL);
    entry_open(&b);
    if (!m->state->config)
        configure_ops(&b);
    for (size_t at = 0; m->state->config && b.count < 6 && (j = table_next(&m->state->jobs, &at)); ) {
        enum job_phase phase = job_phase(j);
        const struct node *n = &m->state->nodes[sim_random_below(&c->random, m->state->node_count)];
        uint32_t core = (uint32_t)sim_random_below(&c->random, 8);

        if (phase == PHASE_ENDED || sim_random_below(&c->random, 3))
            continue;
        if (phase == PHASE_PENDING && !bitmap_test(&n->cores_used, core))
            start_op(&b, j, n, core);
        else if (phase == PHASE_LAUNCHING)
            report_op(&b, j, m->state->nodes[j->allocs[0].node].conf->name, WIRE__REPORT__KIND__STARTED);
        else if (phase == PHASE_RUNNING)
            report_op(&b, j, m->state->nodes[j->allocs[0].node].conf->name, WIRE__REPORT__KIND__ENDED);
        else if (phase == PHASE_COMPLETING)
            report_op(&b, j, m->state->nodes[j->allocs[0].node].conf->name, WIRE__REPORT__KIND__GONE);
    }
    if (m->state->config && sim_random_below(&c->random, 4) == 0)
        other_op(m, &b);
    if (b.count && m->proposals == NULL)
        entry_propose(m, &b, NULL);
    else
        arena_fini(&b.arena);
    member_step(m);
}

void host_leader_ready(struct member *m)
{
    if (m->is_leader_ready)
        return;
    m->is_leader_ready = true;
    m->cluster_base_ms = m->state->cluster_ms;
    m->cluster_boot_ms = (int64_t)member_now_ms(m);
    say(m->c, "m%u: leader ready in term %llu at %llu", m->place, (unsigned long long)m->term, (unsigned long long)m->applied);
    check_leader_state(m);
    member_later(m, 1 * MS, plan, m->term, NULL, NULL);
}

void host_lost_leadership(struct member *m)
{
    m->is_leader_ready = false;
    m->waiting_count = 0;
}
