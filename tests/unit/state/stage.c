/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - ops made short, and the invariants that hold after any of them. */
#include "test_state.h"

void stage_open(struct stage *g, const char *text)
{
    memset(g, 0, sizeof *g);
    g->s = state_from_text(text);
    arena_init(&g->arena, 0);
}

void stage_close(struct stage *g)
{
    state_destroy(g->s);
    state_destroy(g->twin);
    arena_fini(&g->arena);
}

uint32_t dice_roll(struct dice *d, uint32_t sides)
{
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return sides ? (uint32_t)(d->state >> 33) % sides : 0;
}

static void twin_op(struct stage *g, const Wire__Entry *entry)
{
    uint8_t a[32], b[32];
    struct applied out;
    struct arena arena;

    arena_init(&arena, 0);
    apply(g->twin, g->twin->index + 1, entry, &arena, &out);
    ck_assert_int_eq(out.results[0].code, g->last.results[0].code);
    ck_assert_uint_eq(out.event_count, g->last.event_count);
    state_digest(g->s, a);
    state_digest(g->twin, b);
    ck_assert_msg(!memcmp(a, b, 32), "a state that was saved and loaded goes another way at index %llu", (unsigned long long)g->s->index);
    arena_fini(&arena);
    g->twin_ops++;
}

/* SPUR_TEST_CORPUS=FILE: what is applied, as fuzz_entry reads it. */
static void corpus_add(const Wire__Entry *entry)
{
    const char *path = getenv("SPUR_TEST_CORPUS");
    FILE *f = path ? fopen(path, "ab") : NULL;
    size_t n = wire__entry__get_packed_size(entry);
    uint8_t head[2] = { (uint8_t)n, (uint8_t)(n >> 8) }, *data;

    if (!f)
        return;
    if (n < 65536) {
        data = mem_alloc(n);
        wire__entry__pack(entry, data);
        fwrite(head, 1, 2, f);
        fwrite(data, 1, n, f);
        free(data);
    }
    fclose(f);
}

int stage_op(struct stage *g, Wire__Op *op)
{
    Wire__Entry entry = WIRE__ENTRY__INIT;

    arena_reset(&g->arena);
    entry.ops = &op;
    entry.n_ops = 1;
    entry.cluster_ms = g->s->cluster_ms;
    entry.wall_ms = g->s->wall_ms;
    entry.fence = 1;
    corpus_add(&entry);
    apply(g->s, g->s->index + 1, &entry, &g->arena, &g->last);
    if (g->twin)
        twin_op(g, &entry);
    return g->last.results[0].code;
}

void stage_wait(struct stage *g, int64_t seconds)
{
    g->s->cluster_ms += 1000 * seconds;
    g->s->wall_ms += 1000 * seconds;
    if (g->twin) {
        g->twin->cluster_ms = g->s->cluster_ms;
        g->twin->wall_ms = g->s->wall_ms;
    }
}

unsigned stage_events(const struct stage *g, enum event_kind kind)
{
    unsigned n = 0;

    for (size_t i = 0; i < g->last.event_count; i++)
        n += g->last.events[i].kind == kind;
    return n;
}

int do_submit(struct stage *g, const Wire__JobSpec *spec, uint32_t uid)
{
    Wire__OpSubmit submit = WIRE__OP_SUBMIT__INIT;
    Wire__Op op = WIRE__OP__INIT;
    int rc;

    submit.spec = (Wire__JobSpec *)spec;
    submit.uid = submit.gid = uid;
    op.submit = &submit;
    rc = stage_op(g, &op);
    return rc < 0 ? rc : (int)g->last.results[0].job_id;
}

int do_simple(struct stage *g, const char *name, const char *array, const char *dependency)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;

    spec.name = (char *)name;
    spec.array = (char *)array;
    spec.dependency = (char *)dependency;
    spec.has_is_batch = spec.is_batch = 1;
    spec.work_dir = (char *)"/home/u";
    return do_submit(g, &spec, 1000);
}

int do_start(struct stage *g, uint32_t job_id, uint32_t task, const char *node, const char *cores)
{
    Wire__OpStart start = WIRE__OP_START__INIT;
    Wire__NodeAlloc alloc = WIRE__NODE_ALLOC__INIT, *allocs = &alloc;
    Wire__Op op = WIRE__OP__INIT;
    struct node *n = state_node(g->s, node);
    struct job *j = state_job(g->s, job_id);
    struct bitmap set;
    int rc;

    bitmap_init(&set, 64);
    ck_assert_int_eq(bitmap_parse(&set, cores, NULL), 0);
    alloc.name = (char *)node;
    alloc.node = n ? n->index : 99;
    alloc.cores = set.words;
    alloc.n_cores = 1;
    alloc.has_cpus = alloc.has_tasks = alloc.has_mem_mib = 1;
    alloc.cpus = (uint32_t)bitmap_count(&set);
    alloc.tasks = 1;
    alloc.mem_mib = 100;
    start.job_id = job_id;
    start.attempt = j ? j->attempt : 0;
    start.has_array_task_id = task != UINT32_MAX;
    start.array_task_id = task;
    start.allocs = &allocs;
    start.n_allocs = 1;
    op.start = &start;
    rc = stage_op(g, &op);
    bitmap_fini(&set);
    return rc < 0 ? rc : (int)g->last.results[0].job_id;
}

int do_report(struct stage *g, uint32_t job_id, int kind, const char *node, uint32_t attempt, int status)
{
    Wire__Report report = WIRE__REPORT__INIT;
    Wire__OpReport o = WIRE__OP_REPORT__INIT;
    Wire__Op op = WIRE__OP__INIT;

    report.node = (char *)node;
    report.kind = (Wire__Report__Kind)kind;
    report.job_id = job_id;
    report.has_step_id = 1;
    report.step_id = STEP_BATCH;
    report.attempt = attempt;
    report.has_status = 1;
    report.status = status;
    report.seq = 1;
    o.report = &report;
    op.report = &o;
    return stage_op(g, &op);
}

int do_cancel(struct stage *g, uint32_t job_id, const char *tasks)
{
    Wire__OpCancel cancel = WIRE__OP_CANCEL__INIT;
    Wire__Op op = WIRE__OP__INIT;

    cancel.job_id = job_id;
    cancel.tasks = (char *)tasks;
    op.cancel = &cancel;
    return stage_op(g, &op);
}

int do_run(struct stage *g, uint32_t job_id, uint32_t task, int status)
{
    const struct node *n = &g->s->nodes[0];
    char core[16];
    int id;
    const struct job *j;

    for (unsigned c = 0; c < node_cores(n); c++)
        if (!bitmap_test(&n->cores_used, c)) {
            snprintf(core, sizeof core, "%u", c);
            id = do_start(g, job_id, task, n->conf->name, core);
            if (id < 0)
                return id;
            j = state_job(g->s, (uint32_t)id);
            do_report(g, (uint32_t)id, WIRE__REPORT__KIND__STARTED, n->conf->name, j->attempt, 0);
            do_report(g, (uint32_t)id, WIRE__REPORT__KIND__ENDED, n->conf->name, j->attempt, status);
            do_report(g, (uint32_t)id, WIRE__REPORT__KIND__GONE, n->conf->name, j->attempt, 0);
            return id;
        }
    return SPUR_ELATER;
}

int do_update(struct stage *g, uint32_t job_id, const char *tasks, int verb, const char *key, const char *value, bool by_admin)
{
    Wire__KeyValue kv = WIRE__KEY_VALUE__INIT, *set = &kv;
    Wire__OpUpdate update = WIRE__OP_UPDATE__INIT;
    Wire__Op op = WIRE__OP__INIT;

    kv.key = (char *)key;
    kv.value = (char *)value;
    update.job_id = job_id;
    update.tasks = (char *)tasks;
    update.verb = (Wire__JobUpdateRequest__Verb)verb;
    update.has_by_admin = 1;
    update.by_admin = by_admin;
    if (key) {
        update.set = &set;
        update.n_set = 1;
    }
    op.update = &update;
    return stage_op(g, &op);
}

int do_register(struct stage *g, const char *node, uint64_t mem_mib, uint32_t cpus, const char *boot_id, const Wire__RunningStep *step)
{
    Wire__NodeInventory inventory = WIRE__NODE_INVENTORY__INIT;
    Wire__OpRegister o = WIRE__OP_REGISTER__INIT;
    Wire__Op op = WIRE__OP__INIT;
    Wire__RunningStep *steps = (Wire__RunningStep *)step;

    inventory.name = (char *)node;
    inventory.has_mem_mib = inventory.has_cpus = 1;
    inventory.mem_mib = mem_mib;
    inventory.cpus = cpus;
    inventory.boot_id = (char *)boot_id;
    if (step) {
        inventory.steps = &steps;
        inventory.n_steps = 1;
    }
    o.inventory = &inventory;
    op.register_node = &o;
    return stage_op(g, &op);
}

struct pipe { uint8_t *data; size_t len, at, room; };

static long pipe_write(void *arg, const void *data, size_t n)
{
    struct pipe *p = arg;

    if (p->len + n > p->room)
        p->data = mem_grow(p->data, p->room = 2 * (p->len + n), 1);
    memcpy(p->data + p->len, data, n);
    p->len += n;
    return (long)n;
}

static long pipe_read(void *arg, void *data, size_t n)
{
    struct pipe *p = arg;

    n = n < p->len - p->at ? n : p->len - p->at;
    memcpy(data, p->data + p->at, n);
    p->at += n;
    return (long)n;
}

struct state *stage_copy(const struct stage *g)
{
    struct pipe p = { 0 };
    struct spur_error err = { 0 };
    struct state *copy = NULL;
    uint8_t a[32], b[32];

    ck_assert_int_eq(state_save(g->s, pipe_write, &p, &err), 0);
    ck_assert_msg(state_load(&copy, pipe_read, &p, &err) == 0, "%s", err.text);
    state_digest(g->s, a);
    state_digest(copy, b);
    ck_assert_mem_eq(a, b, 32);
    free(p.data);
    return copy;
}

uint8_t *stage_bytes(const struct stage *g, size_t *len)
{
    struct pipe p = { 0 };

    ck_assert_int_eq(state_save(g->s, pipe_write, &p, NULL), 0);
    *len = p.len;
    return p.data;
}

struct state *stage_load(const uint8_t *bytes, size_t len)
{
    struct pipe p = { .data = (uint8_t *)bytes, .len = len };
    struct spur_error err = { 0 };
    struct state *s = NULL;

    if (state_load(&s, pipe_read, &p, &err) < 0) {
        ck_assert(*err.text);
        return NULL;
    }
    return s;
}

/* ---- invariants ---- */

static void check_node(const struct state *s, const struct node *n)
{
    uint32_t cpus = 0, jobs = 0;
    uint64_t mem = 0, gpus = 0;
    struct bitmap cores;
    const struct job *j;

    bitmap_init(&cores, node_cores(n));
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        const struct node_alloc *a = j->state == JOB_PENDING ? NULL : job_alloc_on(j, n->index);

        if (!a || a->gone)
            continue;
        ck_assert_msg(job_phase(j) != PHASE_ENDED, "job %u holds something and has ended", j->job_id);
        if (!j->parked) {       /* a suspended one has lent its cores out */
            ck_assert_msg(!s->priv->cores_whole || !bitmap_overlap(&cores, &a->cores), "a core of %s is held twice", n->conf->name);
            bitmap_or(&cores, &a->cores);
            cpus += a->cpus;
        }
        mem += a->mem_mib;
        jobs++;
        for (uint32_t g = 0; g < a->gres_count; g++) {
            ck_assert_msg(!(gpus & a->gres[g].mask), "a device of %s is held twice", n->conf->name);
            gpus |= a->gres[g].mask;
        }
    }
    ck_assert_uint_eq(cpus, n->cpus_used);
    ck_assert_uint_eq(mem, n->mem_used);
    ck_assert_uint_eq(jobs, n->jobs);
    ck_assert_uint_le(bitmap_count(&cores), n->conf->cpus);     /* by core: a node that was configured smaller under a job has less than the job's count says */
    if (s->priv->cr & SPUR_CR_MEMORY)
        ck_assert_uint_le(mem, n->conf->mem_mib);
    if (s->priv->cores_whole)
        ck_assert(bitmap_equal(&cores, &n->cores_used));
    for (uint32_t g = 0; g < n->gres_count; g++)
        ck_assert_uint_le(n->gres[g].used, n->gres[g].total);
    bitmap_fini(&cores);
}

static void check_array(const struct state *s, const struct job *root)
{
    uint32_t running = 0, records = 0;
    const struct job *j;

    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        if (j->array_job_id != root->job_id)
            continue;
        running += j->alloc_count && job_phase(j) != PHASE_ENDED;
        records += j != root;
    }
    ck_assert_uint_eq(running, root->array->running);
    ck_assert_uint_eq(records, root->array->records);
}

void stage_check(const struct stage *g)
{
    const struct state *s = g->s;
    const struct job *j;
    uint32_t pending = 0, running = 0;
    uint64_t tasks = 0;

    for (uint32_t i = 0; i < s->node_count; i++)
        check_node(s, &s->nodes[i]);
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        pending += j->state == JOB_PENDING;
        running += j->state != JOB_PENDING && !job_state_is_end(j->state);
        tasks += job_is_task_set(j) ? bitmap_count(&j->array->pending) : 1;
        if (job_phase(j) == PHASE_ENDED)
            ck_assert_ptr_eq(table_get(&s->priv->ended, j->job_id), j);
        else
            ck_assert_ptr_null(table_get(&s->priv->ended, j->job_id));
        if (j->state == JOB_PENDING)
            ck_assert_uint_eq(j->alloc_count, 0);
        if (j->array && j->array_job_id == j->job_id)
            check_array(s, j);
    }
    ck_assert_uint_eq(pending, s->pending_jobs);
    ck_assert_uint_eq(running, s->running_jobs);
    ck_assert_uint_eq(tasks, s->priv->task_total);
}
