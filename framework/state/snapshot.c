/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - the whole state as a stream of records, and back.
 *
 *     "SPURSNP1"  { u32 length, u8 kind, packed message }...   little-endian; head, nodes, jobs, tokens, end
 *
 * Jobs stand in order of submission, nodes in order of the configuration, tokens in order of arrival: equal states give equal bytes, and
 * the digest is made of them. Indexes and the ledger are built again. The store checks the bytes; here a record that cannot be is refused
 * with its number, so that nothing is lost in silence.
 */
#include <stdlib.h>
#include <string.h>

#include "state/accounts.h"
#include "state/pack.h"
#include "wire/unpack.h"

#define SNAPSHOT_FORMAT 1
#define RECORD_MAX (1u << 30)
#define READ_AHEAD (256u << 10)
#define RESERVE_MAX 4000000u            /* entries made room for on the word of a head alone */

static const char magic[8] = "SPURSNP1";
enum record_kind { RECORD_HEAD = 1, RECORD_NODE, RECORD_JOB, RECORD_TOKEN, RECORD_END };

struct saving { snapshot_write_fn write; void *arg; uint64_t records; struct spur_error *err; struct arena arena;
                struct table numbers; };     /* id of a device table -> its number in the head */

static int put_bytes(struct saving *w, const void *data, size_t n)
{
    long rc = w->write(w->arg, data, n);

    if (rc == (long)n)
        return 0;
    return spur_fail(w->err, rc < 0 ? (int)rc : SPUR_EIO, "snapshot: record %llu could not be written", (unsigned long long)w->records);
}

static int put_record(struct saving *w, enum record_kind kind, const ProtobufCMessage *m)
{
    size_t n;
    uint8_t *data, head[5];
    int rc;

    data = wire_pack(m, &w->arena, &n);
    for (int i = 0; i < 4; i++)
        head[i] = (uint8_t)(n >> (8 * i));
    head[4] = (uint8_t)kind;
    rc = put_bytes(w, head, sizeof head);
    if (rc == 0)
        rc = put_bytes(w, data, n);
    w->records++;
    arena_reset(&w->arena);
    return rc;
}

/* The device tables, in the order in which the nodes name them first: an order that every replica has. */
static void head_devices(struct saving *w, const struct state *s, Wire__SnapHead *m)
{
    m->device_tables = arena_alloc(&w->arena, (devices_count(s) + 1u) * sizeof *m->device_tables);
    for (uint32_t i = 0; i < s->node_count; i++) {
        const struct devices *t = s->nodes[i].devices;
        ProtobufCBinaryData *to = &m->device_tables[m->n_device_tables];

        if (!t || table_get(&w->numbers, devices_table(t)->id))
            continue;
        to->data = (uint8_t *)(uintptr_t)devices_packed(t, &to->len);
        table_put(&w->numbers, devices_table(t)->id, (void *)(uintptr_t)++m->n_device_tables);
    }
}

static int put_head(struct saving *w, const struct state *s)
{
    Wire__SnapHead m = WIRE__SNAP_HEAD__INIT;
    Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;

    m.format = SNAPSHOT_FORMAT;
    m.index = s->index;
    m.fence = s->fence;
    m.cluster_ms = s->cluster_ms;
    m.wall_ms = s->wall_ms;
    m.next_job_id = s->next_job_id;
    m.has_mesh_next = s->mesh_next != 0;
    m.mesh_next = s->mesh_next;
    m.n_mesh_hosts = s->mesh_host_count;
    m.mesh_hosts = mesh_hosts_pack(s, &w->arena);
    m.config_version = s->config_version;
    m.has_token_floor_ms = 1;
    m.token_floor_ms = s->priv->token_floor_ms;
    m.node_count = s->node_count;
    m.job_count = (uint32_t)table_count(&s->jobs);
    m.accounts = s->accounts;
    m.token_count = (uint32_t)(s->priv->token_next - s->priv->token_first);
    if (s->config) {
        files.slurm = s->config->slurm_text;
        files.gres = s->config->gres_text;
        files.topology = s->config->topology_text;
        files.cgroup = s->config->cgroup_text;
        files.spur = s->config->spur_text;
        files.hosts = s->config->hosts_text;
        m.files = &files;
        m.n_partition_updates = s->priv->partition_update_count;
        m.partition_updates = s->priv->partition_updates;
    }
    head_devices(w, s, &m);
    return put_record(w, RECORD_HEAD, &m.base);
}

static int put_token(struct saving *w, const struct token *t)
{
    Wire__SnapToken m = WIRE__SNAP_TOKEN__INIT;

    m.token = (ProtobufCBinaryData){ 16, (uint8_t *)t->bytes };
    m.wall_ms = t->wall_ms;
    m.has_born_wall_ms = 1;
    m.born_wall_ms = t->born_wall_ms;
    m.has_job_id = t->job_id != 0;
    m.job_id = t->job_id;
    m.has_step_id = t->step_id != 0;
    m.step_id = t->step_id;
    return put_record(w, RECORD_TOKEN, &m.base);
}

int state_save(const struct state *s, snapshot_write_fn write, void *arg, struct spur_error *err)
{
    struct saving w = { .write = write, .arg = arg, .err = err };
    const struct job *j;
    Wire__SnapEnd end = WIRE__SNAP_END__INIT;
    int rc = put_bytes(&w, magic, sizeof magic);

    arena_init(&w.arena, 0);
    table_init(&w.numbers);
    if (rc == 0)
        rc = put_head(&w, s);
    for (uint32_t i = 0; rc == 0 && i < s->node_count; i++) {
        const struct devices *t = s->nodes[i].devices;
        uint32_t number = t ? (uint32_t)(uintptr_t)table_get(&w.numbers, devices_table(t)->id) : 0;

        rc = put_record(&w, RECORD_NODE, &node_pack(&s->nodes[i], number, &w.arena)->base);
    }
    for (size_t at = 0; rc == 0 && (j = table_next(&s->jobs, &at)); )
        rc = put_record(&w, RECORD_JOB, &job_pack(s, j, &w.arena)->base);
    for (uint64_t n = s->priv->token_first; rc == 0 && n < s->priv->token_next; n++)
        rc = put_token(&w, &s->priv->tokens[n % s->priv->token_room]);
    end.records = w.records;
    if (rc == 0)
        rc = put_record(&w, RECORD_END, &end.base);
    table_fini(&w.numbers);
    arena_fini(&w.arena);
    return rc;
}

/* ---- and back ---- */

struct loading { snapshot_read_fn read; void *arg; uint64_t records; struct spur_error *err; struct arena arena; struct state *s; Wire__SnapHead *head; struct arena head_arena;
                 uint8_t *ahead; size_t at, filled;         /* read ahead: a record is two small pieces, and each read is a call of the system */
                 uint32_t nodes, jobs, tokens; struct devices **tables; size_t table_count; };      /* tables: those of the head, each held */

static int get_bytes(struct loading *r, void *data, size_t n)
{
    for (size_t done = 0; done < n; ) {
        size_t piece = r->filled - r->at < n - done ? r->filled - r->at : n - done;
        long rc;

        memcpy((char *)data + done, r->ahead + r->at, piece);
        r->at += piece;
        done += piece;
        if (done == n)
            break;
        rc = r->read(r->arg, r->ahead, READ_AHEAD);
        if (rc <= 0)
            return spur_fail(r->err, rc < 0 ? (int)rc : SPUR_ECORRUPT, "snapshot: ends in record %llu", (unsigned long long)r->records);
        r->at = 0;
        r->filled = (size_t)rc;
    }
    return 0;
}

static int bad_record(struct loading *r, const char *what)
{
    return spur_fail(r->err, SPUR_ECORRUPT, "snapshot: record %llu: %s", (unsigned long long)r->records, what);
}

static int take_tables(struct loading *r)
{
    r->tables = mem_array(r->head->n_device_tables + 1, sizeof *r->tables);
    for (size_t i = 0; i < r->head->n_device_tables; i++) {
        const ProtobufCBinaryData *from = &r->head->device_tables[i];
        int rc = devices_hold_packed(r->s, from->data, from->len, &r->tables[i], r->err);

        if (rc < 0)
            return spur_context(r->err, "snapshot");
        r->table_count++;
    }
    return 0;
}

static void drop_tables(struct loading *r)
{
    for (size_t i = 0; i < r->table_count; i++)
        devices_drop(r->s, r->tables[i]);
    free(r->tables);
}

static int take_head(struct loading *r, const uint8_t *data, size_t n)
{
    struct state *s = r->s;
    const Wire__ConfigFiles *f;
    struct spur_error err;

    r->head = wire_unpack(&wire__snap_head__descriptor, data, n, &r->head_arena);
    if (!r->head)
        return bad_record(r, "not readable");
    if (r->head->format > SNAPSHOT_FORMAT)
        return spur_fail(r->err, SPUR_EUNSUPPORTED, "snapshot: format %u, this version reads up to %d", r->head->format, SNAPSHOT_FORMAT);
    s->index = r->head->index;
    s->fence = r->head->fence;
    s->cluster_ms = r->head->cluster_ms;
    s->wall_ms = r->head->wall_ms;
    s->next_job_id = r->head->next_job_id;
    s->mesh_next = r->head->mesh_next;
    if (!mesh_hosts_take(s, r->head->mesh_hosts, r->head->n_mesh_hosts))
        return bad_record(r, "a controller in the mesh that cannot be");
    s->config_version = r->head->config_version;
    s->priv->token_floor_ms = r->head->token_floor_ms;
    table_reserve(&s->jobs, r->head->job_count < RESERVE_MAX ? r->head->job_count : RESERVE_MAX);
    token_reserve(s, r->head->token_count);
    if (take_tables(r) < 0)
        return r->err->code;
    if (r->head->accounts && !accounts_take(s, r->head->accounts))
        return bad_record(r, "accounts out of order");
    f = r->head->files;
    if (!f)
        return 0;
    if (config_parse(f->slurm, f->gres, f->topology, f->cgroup, f->spur, &s->config, r->err) < 0)
        return r->err ? spur_context(r->err, "snapshot") : SPUR_ECORRUPT;
    s->config->hosts_text = f->hosts ? mem_copy(f->hosts) : NULL;
    state_counting(s);
    s->node_count = (uint32_t)s->config->node_count;
    s->nodes = mem_array(s->node_count ? s->node_count : 1, sizeof *s->nodes);
    for (uint32_t i = 0; i < s->node_count; i++) {
        node_setup(&s->nodes[i], &s->config->nodes[i], i);
        node_gres_setup(s, &s->nodes[i]);
    }
    for (size_t i = 0; i < r->head->n_partition_updates; i++) {
        Wire__PartitionUpdateRequest *u = r->head->partition_updates[i];
        size_t size = wire__partition_update_request__get_packed_size(u);
        uint8_t *packed = mem_alloc(size ? size : 1);

        wire__partition_update_request__pack(u, packed);
        partition_change(s, u, &err);
        s->priv->partition_updates = mem_grow(s->priv->partition_updates, s->priv->partition_update_count + 1, sizeof *s->priv->partition_updates);
        s->priv->partition_updates[s->priv->partition_update_count++] = wire__partition_update_request__unpack(NULL, size, packed);
        free(packed);
    }
    return 0;
}

static int take_node(struct loading *r, const uint8_t *data, size_t n)
{
    Wire__SnapNode *m = wire_unpack(&wire__snap_node__descriptor, data, n, &r->arena);

    r->nodes++;
    return m && node_unpack(r->s, m, r->tables, r->table_count) ? 0 : bad_record(r, "a node that cannot be");
}

static int take_job(struct loading *r, const uint8_t *data, size_t n)
{
    Wire__SnapJob *m = wire_unpack(&wire__snap_job__descriptor, data, n, &r->arena);
    struct job *j;

    r->jobs++;
    if (!m || state_job(r->s, m->job_id) || !(j = job_unpack(r->s, m, &r->arena)))
        return bad_record(r, "a job that cannot be");
    j->part_index = job_part_index(r->s, j);
    job_enter(r->s, j);
    return 0;
}

static int take_token(struct loading *r, const uint8_t *data, size_t n)
{
    Wire__SnapToken *m = wire_unpack(&wire__snap_token__descriptor, data, n, &r->arena);
    int64_t wall = r->s->wall_ms;

    r->tokens++;
    if (!m || m->token.len != 16)
        return bad_record(r, "a token that cannot be");
    r->s->wall_ms = m->wall_ms;
    token_add(r->s, m->token.data, m->born_wall_ms, m->job_id, m->step_id);
    r->s->wall_ms = wall;
    return 0;
}

/* What is not in the records: who has ended, who waits for whom, the ledger. */
static int finish(struct loading *r)
{
    struct state *s = r->s;
    struct job *j;

    if (r->nodes != s->node_count || r->jobs != r->head->job_count || r->tokens != r->head->token_count)
        return bad_record(r, "fewer records than the head says");
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); )
        if (j->array)
            j->array->running = j->array->records = 0;
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        if (j->array_job_id && (!state_job(s, j->array_job_id) || !state_job(s, j->array_job_id)->array))
            return bad_record(r, "a task without its array");
        if (j->array_job_id) {
            struct array *a = state_job(s, j->array_job_id)->array;

            a->running += j->alloc_count && job_phase(j) != PHASE_ENDED;
            a->records += j->array_job_id != j->job_id;
        }
        dependency_index(s, j);
        if (job_phase(j) == PHASE_ENDED)
            table_put(&s->priv->ended, j->job_id, j);
    }
    ledger_rebuild(s);
    view_rebuild(s);
    return 0;
}

int state_load(struct state **out, snapshot_read_fn read, void *arg, struct spur_error *err)
{
    struct spur_error unheard = { 0 };
    struct loading r = { .read = read, .arg = arg, .err = err ? err : &unheard, .s = state_create(),
                         .ahead = mem_grow(NULL, READ_AHEAD, 1) };
    char start[sizeof magic];
    uint8_t head[5], *data = NULL;
    uint32_t room = 0;
    bool ended = false;
    int rc = get_bytes(&r, start, sizeof start);

    arena_init(&r.arena, 0);
    arena_init(&r.head_arena, 0);
    if (rc == 0 && memcmp(start, magic, sizeof magic))
        rc = spur_fail(r.err, SPUR_ECORRUPT, "snapshot: does not begin as one");
    while (rc == 0 && !ended) {
        uint32_t n = 0;

        rc = get_bytes(&r, head, sizeof head);
        if (rc < 0)
            break;
        for (int i = 0; i < 4; i++)
            n |= (uint32_t)head[i] << (8 * i);
        if (n > RECORD_MAX) {
            rc = bad_record(&r, "longer than any record");
            break;
        }
        if (n > room)
            data = mem_grow(data, room = n, 1);
        rc = n ? get_bytes(&r, data, n) : 0;
        if (rc < 0)
            break;
        if ((head[4] == RECORD_HEAD) != !r.head)
            rc = bad_record(&r, "out of order");
        else if (head[4] == RECORD_HEAD)
            rc = take_head(&r, data, n);
        else if (head[4] == RECORD_NODE)
            rc = take_node(&r, data, n);
        else if (head[4] == RECORD_JOB)
            rc = take_job(&r, data, n);
        else if (head[4] == RECORD_TOKEN)
            rc = take_token(&r, data, n);
        else if (head[4] == RECORD_END)
            ended = true;
        else
            rc = bad_record(&r, "of a kind that this version does not know");
        r.records++;
        arena_reset(&r.arena);
    }
    if (rc == 0)
        rc = finish(&r);
    drop_tables(&r);
    free(data);
    free(r.ahead);
    arena_fini(&r.arena);
    arena_fini(&r.head_arena);
    if (rc < 0) {
        state_destroy(r.s);
        return rc;
    }
    *out = r.s;
    return 0;
}
