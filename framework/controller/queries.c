/* SPDX-License-Identifier: Apache-2.0 */
/* queries.c - reads: jobs, nodes, partitions, configuration, steps, counters; streamed in parts as fast as the peer takes them.
 *
 * A query remembers the ids that matched when it came and a cursor; each part is built from the state as it is then, in an arena that dies
 * with the part. A peer that does not read costs the ids only: the next part is built when its output has drained (query_drained).
 *
 * How new: the leader answers at once while he has his lease. Else, and when everything acknowledged anywhere is asked for (`fresh`), or an entry that he
 * does not have, the store says when he is up to date, or that he leads no more.
 * A follower answers from what it has, when that is not older than AGE_MAX_MS and holds the entry that the asker names; it waits a moment
 * for that entry. Otherwise it names the leader. An older answer goes only to who says that it will do (stale_ok), and says its age.
 * Who is connected and how loaded the nodes are is known to the leader alone, so it answers for nodes and counters while there is one.
 */
#include <stdlib.h>

#include "controller/ctl.h"
#include "wire/unpack.h"

#define QUERY_PART 256              /* rows a part */
#define QUERY_BACKLOG (1u << 20)    /* stop building at so many bytes unwritten */
#define AGE_MAX_MS 2000
#define INDEX_WAIT_MS 250           /* a follower that does not have the entry by then names the leader */

struct query {
    uint16_t type;
    uint64_t seq;
    uint32_t *ids; size_t count, next;
    uint64_t fields;
    bool     expand;
    struct arena arena; void *request;
    struct query *older;
    uint64_t conn, min_index; int64_t until_ms;     /* while it waits to begin */
};

static void query_free(struct query *q)
{
    free(q->ids);
    arena_fini(&q->arena);
    free(q);
}

void query_drop_all(struct peer *p)
{
    while (p->queries) {
        struct query *q = p->queries;

        p->queries = q->older;
        query_free(q);
    }
}

static void query_add(struct query *q, uint32_t id)
{
    if ((q->count & (q->count - 1)) == 0)
        q->ids = mem_grow(q->ids, q->count ? q->count * 2 : 16, sizeof *q->ids);
    q->ids[q->count++] = id;
}

/* ---- what matches --------------------------------------------------------------------------------------------------- */

/* A job that was asked for in several ways is shown once. */
static void query_unique(struct query *q)
{
    struct table seen;
    size_t kept = 0;

    table_init(&seen);
    for (size_t i = 0; i < q->count; i++)
        if (!table_get(&seen, q->ids[i])) {
            table_put(&seen, q->ids[i], q);
            q->ids[kept++] = q->ids[i];
        }
    q->count = kept;
    table_fini(&seen);
}

/* squeue and scontrol without --all: jobs of hidden partitions are for those who may do everything. */
static bool query_hides(const struct ctl *c, const struct peer *p, const Wire__JobsRequest *r, const struct job *j)
{
    const struct config *cfg = c->state->config;

    return r->has_hide_hidden && r->hide_hidden && p->rank < RANK_OPERATOR && j->part_index < cfg->partition_count && cfg->partitions[j->part_index].hidden;
}

/* One asked-for id: the job, its array's started tasks, or the task that has this id. */
static bool query_add_id(struct ctl *c, struct peer *p, struct query *q, uint32_t id)
{
    const Wire__JobsRequest *r = q->request;
    const struct job *j = state_job(c->state, id);
    bool found = false;

    if (j && admit_sees_job(c->state, j, rpc_identity(p->conn), p->rank)) {
        found = true;
        if (admit_matches(c->state, j, r) && !query_hides(c, p, r, j))
            query_add(q, id);
    }
    for (uint32_t k = 1; found && j->het_count && !j->het_offset && k < j->het_count; k++) {
        const struct job *part = het_part(c->state, j, k);

        if (part && admit_matches(c->state, part, r) && !query_hides(c, p, r, part))
            query_add(q, part->job_id);
    }
    if (j && j->array)
        for (uint32_t t = 0; t < j->array->task_job_count; t++) {
            uint32_t task = j->array->task_job[t];
            const struct job *tj = task && task != id ? state_job(c->state, task) : NULL;

            if (tj && admit_sees_job(c->state, tj, rpc_identity(p->conn), p->rank) && admit_matches(c->state, tj, r))
                query_add(q, task);
        }
    return found;
}

static int query_jobs(struct ctl *c, struct peer *p, struct query *q, struct spur_error *err)
{
    const Wire__JobsRequest *r = q->request;
    const struct job *j;
    size_t asked = r->n_job_ids + r->n_id_texts, found = 0;

    q->fields = r->has_fields ? r->fields : ~UINT64_C(0);
    q->expand = r->has_expand_arrays && r->expand_arrays;
    for (size_t i = 0; i < r->n_nodes; i++)
        if (!strpbrk(r->nodes[i], "[,") && !state_node(c->state, r->nodes[i]))
            return spur_fail(err, SPUR_EINVAL, "Invalid node name %.64s", r->nodes[i]);
    if (!asked) {
        for (size_t i = 0; (j = table_next(&c->state->jobs, &i)); )
            if (admit_sees_job(c->state, j, rpc_identity(p->conn), p->rank) && admit_matches(c->state, j, r) && !query_hides(c, p, r, j))
                query_add(q, j->job_id);
        return 0;
    }
    for (size_t i = 0; i < r->n_job_ids; i++)
        found += query_add_id(c, p, q, r->job_ids[i]);
    for (size_t i = 0; i < r->n_id_texts; i++) {
        struct bitmap tasks;
        bool has_tasks = false;
        uint32_t id;

        bitmap_init(&tasks, 0);
        if (job_id_parse(r->id_texts[i], &id, &tasks, &has_tasks, err) < 0) {
            bitmap_fini(&tasks);
            return err->code;
        }
        if (strchr(r->id_texts[i], '+')) {
            j = het_named(c->state, r->id_texts[i]);
            if (j && admit_sees_job(c->state, j, rpc_identity(p->conn), p->rank)) {
                found++;
                if (admit_matches(c->state, j, r))
                    query_add(q, j->job_id);
            }
        } else if (!has_tasks) {
            found += query_add_id(c, p, q, id);
        } else {
            bool pending_added = false;

            j = state_job(c->state, id);
            found += j && j->array_job_id == id && admit_sees_job(c->state, j, rpc_identity(p->conn), p->rank);     /* the array is known, also when none of these is there */
            for (size_t t = bitmap_first(&tasks); t < tasks.bits; t = bitmap_next(&tasks, t)) {
                const struct job *tj = state_array_task(c->state, id, (uint32_t)t);
                bool is_pending = j && j->array && bitmap_test(&j->array->pending, t);

                /* a task that he may not see is one that is not there */
                if (tj ? !admit_sees_job(c->state, tj, rpc_identity(p->conn), p->rank) : !j || !admit_sees_job(c->state, j, rpc_identity(p->conn), p->rank))
                    continue;
                if (tj) {
                    found++;
                    if (admit_matches(c->state, tj, r))
                        query_add(q, tj->job_id);
                } else if (is_pending) {
                    found++;
                    if (!pending_added && admit_matches(c->state, j, r))
                        query_add(q, id);
                    pending_added = true;
                }
            }
        }
        bitmap_fini(&tasks);
    }
    if (!found && asked == 1)
        return spur_fail(err, SPUR_ENOTFOUND, "Invalid job id specified");
    query_unique(q);
    return 0;
}

static int query_nodes(struct ctl *c, struct query *q, struct spur_error *err)
{
    const Wire__NodesRequest *r = q->request;

    q->fields = r->has_fields ? r->fields : ~UINT64_C(0);
    if (!r->n_nodes) {
        for (uint32_t i = 0; i < c->state->node_count; i++)
            query_add(q, i);
        return 0;
    }
    for (size_t i = 0; i < r->n_nodes; i++) {
        struct hostlist *h;

        if (hostlist_parse(r->nodes[i], &h, err) < 0)
            return err->code;
        for (size_t k = 0; k < hostlist_count(h); k++) {
            const struct node *n = state_node(c->state, hostlist_nth(h, k));

            if (n)
                query_add(q, n->index);
        }
        hostlist_destroy(h);
    }
    return 0;
}

static bool step_matches(const Wire__StepsRequest *r, const struct job *j)
{
    bool wanted = !r->n_job_ids && !r->n_uids && !r->n_id_texts;

    for (size_t k = 0; k < r->n_job_ids; k++)
        wanted |= r->job_ids[k] == j->job_id || r->job_ids[k] == j->array_job_id || r->job_ids[k] == j->het_job_id;
    for (size_t k = 0; k < r->n_uids; k++)
        wanted |= r->uids[k] == j->uid;
    return wanted;
}

/* The jobs that have steps; a single id that is none is refused, as for jobs. */
static int query_steps(struct ctl *c, struct peer *p, struct query *q, struct spur_error *err)
{
    const Wire__StepsRequest *r = q->request;
    size_t asked = r->n_job_ids + r->n_id_texts, found = 0;
    const struct job *j;

    for (size_t i = 0; i < r->n_id_texts; i++) {
        struct bitmap tasks;
        bool has_tasks = false;
        uint32_t id;

        bitmap_init(&tasks, 0);
        if (job_id_parse(r->id_texts[i], &id, &tasks, &has_tasks, err) < 0) {
            bitmap_fini(&tasks);
            return err->code;
        }
        for (size_t k = 0; (j = table_next(&c->state->jobs, &k)); ) {
            bool is_it = has_tasks ? j->array_job_id == id && bitmap_test(&tasks, j->array_task_id) : j->job_id == id || j->array_job_id == id ||
                         (j->het_job_id == id && !strchr(r->id_texts[i], '+'));

            if (!is_it || !admit_sees_job(c->state, j, rpc_identity(p->conn), p->rank))
                continue;
            found++;
            query_add(q, j->job_id);
        }
        bitmap_fini(&tasks);
    }
    for (size_t i = 0; (j = table_next(&c->state->jobs, &i)); )
        if (step_matches(r, j) && admit_sees_job(c->state, j, rpc_identity(p->conn), p->rank)) {
            found++;
            query_add(q, j->job_id);
        }
    if (asked == 1 && !found)
        return spur_fail(err, SPUR_ENOTFOUND, "Invalid job id specified");
    return 0;
}

static uint32_t query_age_ms(const struct ctl *c)
{
    int64_t age = group_age_ms(c);

    return age > UINT32_MAX ? UINT32_MAX : (uint32_t)age;
}

#define REPLY_AGE(c, reply) \
    do { (reply).has_index = (reply).has_age_ms = 1; (reply).index = (c)->state->index; (reply).age_ms = query_age_ms(c); } while (0)

/* ---- parts ---------------------------------------------------------------------------------------------------------- */

static void query_part_jobs(struct ctl *c, struct peer *p, struct query *q, struct arena *a, size_t end)
{
    Wire__JobsReply reply = WIRE__JOBS_REPLY__INIT;
    int64_t now = clock_wall_ms();

    reply.jobs = arena_alloc(a, (end - q->next + 1) * sizeof *reply.jobs);
    for (; q->next < end; q->next++) {
        const struct job *j = state_job(c->state, q->ids[q->next]);

        if (j)
            reply.jobs[reply.n_jobs++] = job_info(c->state, j, q->fields, now / 1000, a);
    }
    reply.has_last = reply.has_wall_ms = 1;
    reply.last = q->next == q->count;
    reply.wall_ms = now;
    REPLY_AGE(c, reply);
    reply.cluster = (char *)(uintptr_t)config_text(c->state->config, CONF_ClusterName);
    rpc_send(p->conn, WIRE__MESSAGE_TYPE__JOBS_PART, q->seq, &reply.base);
}

static void query_part_nodes(struct ctl *c, struct peer *p, struct query *q, struct arena *a, size_t end)
{
    Wire__NodesReply reply = WIRE__NODES_REPLY__INIT;

    reply.nodes = arena_alloc(a, (end - q->next + 1) * sizeof *reply.nodes);
    for (; q->next < end; q->next++)
        if (q->ids[q->next] < c->state->node_count) {
            Wire__NodeInfo *n = reply.nodes[reply.n_nodes++] = node_info(c->state, &c->state->nodes[q->ids[q->next]], q->fields, a);

            for (size_t i = 0; n->devices && i + 1 < reply.n_nodes; i++)
                if (reply.nodes[i]->devices && reply.nodes[i]->device_type == n->device_type)
                    n->devices = NULL;          /* a table once a part */
        }
    reply.has_last = reply.has_wall_ms = 1;
    reply.last = q->next == q->count;
    reply.wall_ms = clock_wall_ms();
    REPLY_AGE(c, reply);
    reply.cluster = (char *)(uintptr_t)config_text(c->state->config, CONF_ClusterName);
    rpc_send(p->conn, WIRE__MESSAGE_TYPE__NODES_PART, q->seq, &reply.base);
}

static void query_part_partitions(struct ctl *c, struct peer *p, struct query *q, struct arena *a, size_t end)
{
    Wire__PartitionsReply reply = WIRE__PARTITIONS_REPLY__INIT;

    reply.partitions = arena_alloc(a, (end - q->next + 1) * sizeof *reply.partitions);
    for (; q->next < end; q->next++)
        if (q->ids[q->next] < c->state->config->partition_count)
            reply.partitions[reply.n_partitions++] = partition_info(c->state, &c->state->config->partitions[q->ids[q->next]], a);
    reply.has_last = reply.has_wall_ms = 1;
    reply.last = q->next == q->count;
    reply.wall_ms = clock_wall_ms();
    REPLY_AGE(c, reply);
    reply.cluster = (char *)(uintptr_t)config_text(c->state->config, CONF_ClusterName);
    rpc_send(p->conn, WIRE__MESSAGE_TYPE__PARTITIONS_PART, q->seq, &reply.base);
}

static void query_part_steps(struct ctl *c, struct peer *p, struct query *q, struct arena *a, size_t end)
{
    Wire__StepsReply reply = WIRE__STEPS_REPLY__INIT;
    size_t room = 0, first = q->next;
    int64_t now_s = clock_wall_ms() / 1000;

    for (size_t i = first; i < end; i++) {
        const struct job *j = state_job(c->state, q->ids[i]);

        room++;
        for (const struct step *s = j ? j->steps : NULL; s; s = s->next)
            room++;
    }
    reply.steps = arena_alloc(a, (room + 1) * sizeof *reply.steps);
    for (; q->next < end; q->next++) {
        const struct job *j = state_job(c->state, q->ids[q->next]);

        if (j && j->is_batch && j->state == JOB_RUNNING && j->alloc_count) {    /* the batch step has no record: it is as long as the job */
            struct step batch = { .step_id = STEP_BATCH, .ntasks = 1, .allocs = j->allocs, .alloc_count = 1, .start_wall_s = j->start_wall_s, .state = JOB_RUNNING };

            reply.steps[reply.n_steps++] = step_info(c->state, j, &batch, now_s, a);
        }
        for (const struct step *s = j ? j->steps : NULL; s; s = s->next)
            reply.steps[reply.n_steps++] = step_info(c->state, j, s, now_s, a);
    }
    reply.has_last = reply.has_wall_ms = 1;
    reply.last = q->next == q->count;
    reply.wall_ms = clock_wall_ms();
    REPLY_AGE(c, reply);
    rpc_send(p->conn, WIRE__MESSAGE_TYPE__STEPS_PART, q->seq, &reply.base);
}

struct rows { Wire__ConfigReply reply; struct arena *a; size_t room; const char *boot, *conf; uint32_t next_job_id; };

static void rows_add(void *arg, const char *key, const char *value)
{
    struct rows *r = arg;
    Wire__KeyValue *kv = arena_alloc(r->a, sizeof *kv);

    if (r->reply.n_rows == r->room) {
        Wire__KeyValue **more = arena_alloc(r->a, (r->room * 2 + 64) * sizeof *more);

        if (r->room)
            memcpy(more, r->reply.rows, r->room * sizeof *more);
        r->reply.rows = more;
        r->room = r->room * 2 + 64;
    }
    wire__key_value__init(kv);
    kv->key = arena_copy(r->a, key);
    kv->value = arena_copy(r->a, value);
    r->reply.rows[r->reply.n_rows++] = kv;
}

static void rows_number(struct rows *r, const char *key, uint64_t value)
{
    rows_add(r, key, arena_printf(r->a, "%llu", (unsigned long long)value));
}

/* Rows of the configuration, with what only a running controller knows put in. */
static void config_row_add(void *arg, const char *key, const char *value)
{
    struct rows *r = arg;

    if (strcmp(key, "SLURM_CONF") == 0)
        rows_add(r, key, r->conf ? r->conf : value);
    else if (value)
        rows_add(r, key, value);
    else if (strcmp(key, "BOOT_TIME") == 0)
        rows_add(r, key, r->boot);
    else if (strcmp(key, "NEXT_JOB_ID") == 0)
        rows_number(r, key, r->next_job_id);
}

static void query_rows(struct ctl *c, struct peer *p, const struct query *q, struct arena *a)
{
    struct rows r = { .a = a };
    bool is_config = q->type == WIRE__MESSAGE_TYPE__CONFIG;

    wire__config_reply__init(&r.reply);
    if (is_config) {
        struct str boot;

        str_init(&boot);
        moment_print(c->boot_wall_ms / 1000, NULL, c->boot_wall_ms / 1000, &boot);
        r.boot = boot.text;
        r.conf = c->file_config->path;
        r.next_job_id = c->state->next_job_id;
        config_show(c->state->config, config_row_add, &r);
        if (!loader_can(c->auth, SPUR_CAP_HOST_IDENTITY))
            rows_add(&r, "AuthWarning", "who has the key of AuthType, root on any host, can be any user and any host; auth/sodium has a key for each host");
        str_fini(&boot);
    } else {
        struct spur_store_status st = { .size = sizeof st };
        struct rpc_counters rc = { 0 };

        c->store_ops->status(c->store->self, &st);
        rpc_counters(c->rpc, &rc);
        rows_number(&r, "Jobs", table_count(&c->state->jobs));
        rows_number(&r, "JobsPending", c->state->pending_jobs);
        rows_number(&r, "JobsRunning", c->state->running_jobs);
        rows_number(&r, "JobsSubmitted", c->submits);
        rows_number(&r, "JobsStarted", c->starts);
        rows_number(&r, "PlanPasses", c->passes);
        rows_number(&r, "Entries", c->entries);
        rows_number(&r, "LogIndex", c->state->index);
        rows_number(&r, "LogBytes", st.log_bytes);
        rows_number(&r, "Flushes", st.flushes);
        rows_number(&r, "FlushP50us", st.flush_p50_us);
        rows_number(&r, "FlushMaxus", st.flush_max_us);
        rows_number(&r, "Connections", rc.open);
        rows_number(&r, "ConnectionsAccepted", rc.accepted);
        rows_number(&r, "ConnectionsRefused", rc.refused);
        rows_number(&r, "BytesIn", rc.bytes_in);
        rows_number(&r, "BytesOut", rc.bytes_out);
    }
    REPLY_AGE(c, r.reply);
    r.reply.has_wall_ms = 1;
    r.reply.wall_ms = clock_wall_ms();
    rpc_send(p->conn, is_config ? WIRE__MESSAGE_TYPE__CONFIG_ROWS : WIRE__MESSAGE_TYPE__STATS_ROWS, q->seq, &r.reply.base);
}

/* true: all sent. */
static bool query_run(struct ctl *c, struct peer *p, struct query *q)
{
    do {
        size_t end = q->next + QUERY_PART < q->count ? q->next + QUERY_PART : q->count;
        struct arena a;

        if (rpc_backlog(p->conn) > QUERY_BACKLOG)
            return false;
        arena_init(&a, 0);
        switch (q->type) {
        case WIRE__MESSAGE_TYPE__JOBS:       query_part_jobs(c, p, q, &a, end); break;
        case WIRE__MESSAGE_TYPE__NODES:      query_part_nodes(c, p, q, &a, end); break;
        case WIRE__MESSAGE_TYPE__PARTITIONS: query_part_partitions(c, p, q, &a, end); break;
        case WIRE__MESSAGE_TYPE__STEPS:      query_part_steps(c, p, q, &a, end); break;
        default:                             query_rows(c, p, q, &a); break;
        }
        arena_fini(&a);
    } while (q->next < q->count);
    return true;
}

void query_drained(void *ctl, struct rpc_conn *conn)
{
    struct ctl *c = ctl;
    struct peer *p = rpc_user(conn);

    while (p && p->queries) {
        struct query *q = p->queries;

        if (!query_run(c, p, q))
            return;
        p->queries = q->older;
        query_free(q);
    }
}

/* ---- beginning ------------------------------------------------------------------------------------------------------ */

static const ProtobufCMessageDescriptor *query_body(uint16_t type)
{
    switch (type) {
    case WIRE__MESSAGE_TYPE__JOBS:  return &wire__jobs_request__descriptor;
    case WIRE__MESSAGE_TYPE__NODES: return &wire__nodes_request__descriptor;
    case WIRE__MESSAGE_TYPE__STEPS: return &wire__steps_request__descriptor;
    default:                        return &wire__empty__descriptor;
    }
}

static const Wire__Read *query_read(const struct query *q)
{
    switch (q->type) {
    case WIRE__MESSAGE_TYPE__JOBS:  return ((const Wire__JobsRequest *)q->request)->read;
    case WIRE__MESSAGE_TYPE__NODES: return ((const Wire__NodesRequest *)q->request)->read;
    case WIRE__MESSAGE_TYPE__STEPS: return ((const Wire__StepsRequest *)q->request)->read;
    default:                        return ((const Wire__Empty *)q->request)->read;
    }
}

static void query_begin(struct ctl *c, struct peer *p, struct query *q)
{
    struct query **last;
    struct spur_error err = { 0 };
    int rc = 0;

    if (q->type == WIRE__MESSAGE_TYPE__JOBS)
        rc = query_jobs(c, p, q, &err);
    else if (q->type == WIRE__MESSAGE_TYPE__NODES)
        rc = query_nodes(c, q, &err);
    else if (q->type == WIRE__MESSAGE_TYPE__STEPS)
        rc = query_steps(c, p, q, &err);
    else if (q->type == WIRE__MESSAGE_TYPE__PARTITIONS)
        for (uint32_t i = 0; i < c->state->config->partition_count; i++)
            query_add(q, i);
    if (rc < 0) {
        rpc_refuse(p->conn, q->seq, &err, rc == SPUR_ENOTFOUND ? 2017 : rc == SPUR_EINVAL ? 2018 : 0);
        query_free(q);
        return;
    }
    if (!p->queries && query_run(c, p, q)) {
        query_free(q);
        return;
    }
    for (last = &p->queries; *last; last = &(*last)->older)
        ;
    *last = q;
}

struct fresh { struct ctl *c; struct query *q; };

/* The store's word on a `fresh` query: here, or it is known where. */
static void query_fresh(void *arg, const struct spur_error *err)
{
    struct fresh *f = arg;
    struct ctl *c = f->c;
    struct query *q = f->q;
    struct peer *p = ctl_peer(c, q->conn);

    free(f);
    if (p && err && err->code) {
        group_refuse(c, q->conn, q->seq);
        query_free(q);
    } else if (p) {
        query_begin(c, p, q);
    } else {
        query_free(q);
    }
}

static void query_wait_fresh(struct ctl *c, struct query *q)
{
    struct fresh *f = mem_alloc(sizeof *f);
    struct spur_error err = { 0 };

    *f = (struct fresh){ c, q };
    if (!SPUR_HAS(c->store_ops, barrier))
        query_fresh(f, NULL);       /* one controller that has no such word: what it shows is what there is */
    else if (c->store_ops->barrier(c->store->self, query_fresh, f, &err) < 0)
        query_fresh(f, &err);
}

/* Those that wait for an entry: looked at with each that is applied, and when their time is over. */
void query_applied(struct ctl *c)
{
    int64_t now = c->waiting ? clock_boot_ms() : 0;

    for (struct query **at = &c->waiting, *q; (q = *at); ) {
        struct peer *p = ctl_peer(c, q->conn);

        if (p && q->min_index > c->state->index && q->until_ms > now && !group_leads(c)) {
            at = &q->older;
            continue;
        }
        *at = q->older;
        q->older = NULL;
        if (p && (q->min_index <= c->state->index || group_leads(c))) {
            query_begin(c, p, q);
        } else {
            group_refuse(c, q->conn, q->seq);
            query_free(q);
        }
        at = &c->waiting;           /* a query that began may have changed the list */
    }
}

static void query_late(uv_timer_t *timer)
{
    struct ctl *c = timer->data;

    query_applied(c);
    if (c->waiting)
        uv_timer_start(timer, query_late, INDEX_WAIT_MS / 4, 0);
}

void query_waiting_drop(struct ctl *c)
{
    while (c->waiting) {
        struct query *q = c->waiting;

        c->waiting = q->older;
        query_free(q);
    }
}

void query_start(struct ctl *c, struct peer *p, uint16_t type, uint64_t seq, const uint8_t *body, size_t n)
{
    struct query *q = mem_alloc(sizeof *q);
    struct spur_error err = { 0 };
    const Wire__Read *read;
    bool is_leaders = type == WIRE__MESSAGE_TYPE__NODES || type == WIRE__MESSAGE_TYPE__STATS, will_do, is_old;

    arena_init(&q->arena, 0);
    q->type = type;
    q->seq = seq;
    q->conn = p->number;
    q->request = wire_unpack_bounded(query_body(type), body, n, &q->arena);
    if (!q->request) {
        spur_fail(&err, SPUR_ESYNTAX, "message %u cannot be read", type);
        rpc_refuse(p->conn, seq, &err, 0);
        query_free(q);
        return;
    }
    read = query_read(q);
    will_do = read && read->has_stale_ok && read->stale_ok;
    if (c->role == SPUR_STORE_LEADER) {
        /* Less than this user has seen, or no lease for long, as after a pause: another one may lead by now. The majority knows. */
        if (read && ((read->has_fresh && read->fresh) || (read->has_min_index && read->min_index > c->state->index) || (!will_do && group_has_lost_lease(c, AGE_MAX_MS))))
            query_wait_fresh(c, q);
        else
            query_begin(c, p, q);
        return;
    }
    is_old = group_age_ms(c) > AGE_MAX_MS;
    if (will_do && is_old) {
        query_begin(c, p, q);
    } else if (is_old || (read && read->has_fresh && read->fresh) || (is_leaders && *c->leader && !will_do)) {
        group_refuse(c, p->number, seq);
        query_free(q);
    } else if (read && read->has_min_index && read->min_index > c->state->index) {
        q->min_index = read->min_index;
        q->until_ms = clock_boot_ms() + INDEX_WAIT_MS;
        q->older = c->waiting;
        c->waiting = q;
        if (!uv_is_active((uv_handle_t *)&c->reads))
            uv_timer_start(&c->reads, query_late, INDEX_WAIT_MS, 0);
    } else {
        query_begin(c, p, q);
    }
}
