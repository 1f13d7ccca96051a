/* SPDX-License-Identifier: Apache-2.0 */
/* test_random.c - long random lives: whatever comes, the invariants hold after each op, a state that was saved and loaded stays equal,
 * final states stay final, and who may start is what a slow model says that remembers everything.
 *
 * SPUR_TEST_SEED=N replays one life and SPUR_TEST_OPS=N makes it longer. Ids are not reused here, so that the model can be a plain table.
 */
#include "test_state.h"

enum { IDS = 4096, TASKS = 32 };

struct wait { int type; uint32_t id; bool held, failed, task_held[TASKS], task_failed[TASKS]; };    /* type 5: singleton */
struct fate {
    bool known, begun, ended, ok, any, is_array;
    struct { bool exists, begun, ended, ok; } tasks[TASKS];
    struct wait waits[4]; unsigned wait_count;
};
struct life {
    struct stage g;
    struct dice dice;
    struct fate *fates;         /* by job id; array tasks live in their array's */
    uint8_t  *final;            /* by job id: final state + 1 of the present attempt */
    unsigned seed, ops;
};

static uint32_t roll(struct life *l, uint32_t sides)
{
    return dice_roll(&l->dice, sides);
}

/* A job in a given sort of state, by chance; NULL: none. */
static struct job *some_job(struct life *l, int phase)
{
    struct job *j, *found = NULL;
    uint32_t n = 0;

    for (size_t at = 0; (j = table_next(&l->g.s->jobs, &at)); )
        if ((phase < 0 || (int)job_phase(j) == phase) && roll(l, ++n) == 0)
            found = j;
    return found;
}

/* ---- the model ---- */

static struct fate *fate_of(struct life *l, const struct job *j, uint32_t *task)
{
    *task = j->array_job_id ? j->array_task_id : UINT32_MAX;
    return &l->fates[j->array_job_id ? j->array_job_id : j->job_id];
}

static void learn(struct life *l)
{
    const struct applied *a = &l->g.last;

    for (size_t i = 0; i < a->event_count; i++) {
        const struct event *e = &a->events[i];
        struct job *j = e->job_id && e->job_id < IDS ? state_job(l->g.s, e->job_id) : NULL;
        struct fate *f;
        uint32_t task;

        if (!j || (e->kind != EV_JOB_STARTED && e->kind != EV_JOB_GONE && e->kind != EV_JOB_REQUEUED))
            continue;
        f = fate_of(l, j, &task);
        if (job_is_task_set(j)) {
            for (uint32_t t = 0; t < TASKS; t++)
                if (bitmap_test(&j->array->pending, t)) {
                    f->tasks[t].ended = e->kind == EV_JOB_GONE;
                    f->tasks[t].ok = false;
                }
        } else if (task != UINT32_MAX) {
            f->tasks[task].begun |= e->kind == EV_JOB_STARTED;
            f->tasks[task].ended = e->kind == EV_JOB_GONE;
            f->tasks[task].ok = j->state == JOB_COMPLETE;
        } else {
            f->begun |= e->kind == EV_JOB_STARTED;
            f->ended = e->kind == EV_JOB_GONE;
            f->ok = j->state == JOB_COMPLETE;
        }
    }
}

static struct fate whole(const struct fate *f)
{
    struct fate w = { .begun = true, .ended = true, .ok = true };

    if (!f->is_array)
        return (struct fate){ .begun = f->begun || f->ended, .ended = f->ended, .ok = f->ended && f->ok, .any = f->ended && !f->ok };
    for (int t = 0; t < TASKS; t++) {
        if (!f->tasks[t].exists)
            continue;
        w.begun &= f->tasks[t].begun || f->tasks[t].ended;
        w.ended &= f->tasks[t].ended;
        w.any |= f->tasks[t].ended && !f->tasks[t].ok;      /* any: something has failed */
    }
    w.ok = w.ended && !w.any;
    return w;
}

/* Answers once given stay: each waiting job looks at those it waits for after every op. */
static void ponder(struct fate *f, const struct fate *all)
{
    for (unsigned i = 0; i < f->wait_count; i++) {
        struct wait *w = &f->waits[i];
        const struct fate *p = &all[w->id];
        struct fate o = w->type == 5 ? (struct fate){ 0 } : whole(p);

        if (w->type == 5)
            continue;
        if (w->type == 4 && f->is_array && p->is_array) {
            for (int t = 0; t < TASKS; t++) {
                bool has = p->tasks[t].exists;

                if (w->task_held[t] || w->task_failed[t])
                    continue;
                w->task_held[t] = has ? p->tasks[t].ended && p->tasks[t].ok : o.ok;
                w->task_failed[t] = has ? p->tasks[t].ended && !p->tasks[t].ok : o.any;
            }
            continue;
        }
        if (w->held || w->failed)
            continue;
        switch (w->type) {
        case 0: w->held = o.begun; break;
        case 1: w->held = o.ended; break;
        case 2: case 4: w->failed = o.any; w->held = o.ok; break;
        default: w->held = o.ended && o.any; w->failed = o.ok;
        }
    }
}

static bool first_of_name(const struct state *s, const struct job *j)
{
    const struct job *k;

    for (size_t at = 0; (k = table_next(&s->jobs, &at)); )
        if (k != j && k->uid == j->uid && !strcmp(k->name, j->name) && job_phase(k) != PHASE_ENDED && (k->state != JOB_PENDING || k->seq < j->seq))
            return false;
    return true;
}

static bool may(const struct state *s, const struct fate *f, const struct job *j, uint32_t task, bool *never)
{
    unsigned held = 0, failed = 0, count = 0;

    for (unsigned i = 0; i < f->wait_count; i++) {
        const struct wait *w = &f->waits[i];
        bool by_task = task != UINT32_MAX;

        if (j->attempt && w->type != 5)
            continue;       /* it has run: only its turn counts */
        count++;
        if (w->type == 5) {
            held += first_of_name(s, j);
            continue;
        }
        held += w->held || (by_task && w->task_held[task]);
        failed += w->failed || (by_task && w->task_failed[task]);
    }
    *never = f->any ? count && failed == count : failed != 0;
    return !count || (f->any ? held != 0 : held == count);
}

static void check_waiting(struct life *l)
{
    const struct state *s = l->g.s;
    const struct job *j;

    for (uint32_t id = 1; id < s->next_job_id; id++)
        ponder(&l->fates[id], l->fates);
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        bool expected = false, expected_never = true, never = false, got;
        const struct fate *f = &l->fates[j->array_job_id ? j->array_job_id : j->job_id];
        int64_t when;

        if (j->state != JOB_PENDING)
            continue;
        if (job_is_task_set(j)) {
            for (size_t t = bitmap_first(&j->array->pending); t < j->array->pending.bits; t = bitmap_next(&j->array->pending, t)) {
                bool task_never;

                expected |= may(s, f, j, (uint32_t)t, &task_never);
                expected_never &= task_never;
            }
        } else {
            expected = may(s, f, j, j->array_job_id ? j->array_task_id : UINT32_MAX, &expected_never);
        }
        if (getenv("SPUR_TEST_SHOW") && (unsigned)atoi(getenv("SPUR_TEST_SHOW")) == j->job_id)
            for (unsigned i = 0; i < f->wait_count; i++)
                fprintf(stderr, "op %u job %u (array %u task %d) waits %d for %u held %d failed %d any %d, has %u terms; parent: array %d begun %d ended %d ok %d\n", l->ops, j->job_id, j->array_job_id, (int)j->array_task_id,
                        f->waits[i].type, f->waits[i].id, f->waits[i].held, f->waits[i].failed, f->any, j->dep_count,
                        l->fates[f->waits[i].id].is_array, l->fates[f->waits[i].id].begun, l->fates[f->waits[i].id].ended, l->fates[f->waits[i].id].ok);
        got = !j->dep_count || dependency_holds(j, s->wall_ms / 1000, &never, &when);
        ck_assert_msg(got == expected, "seed %u op %u: job %u may%s start, the model says it may%s", l->seed, l->ops, j->job_id, got ? "" : " not", expected ? "" : " not");
        if (!expected)
            ck_assert_msg(never == expected_never, "seed %u op %u: job %u will %s be satisfied, the model says %s", l->seed, l->ops, j->job_id,
                          never ? "never" : "perhaps", expected_never ? "never" : "perhaps");
    }
}

/* ---- deeds ---- */

static void deed_submit(struct life *l)
{
    static const char *const types[] = { "after", "afterany", "afterok", "afternotok", "aftercorr" };
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    char dependency[160] = "", array[40] = "", name[8];
    const struct job *parent;
    uint32_t terms = roll(l, 3) == 0 ? 1 + roll(l, 3) : 0, uid = 1000 + roll(l, 2);
    bool any = roll(l, 2);
    struct fate made = { .known = true, .any = false };
    int id;

    for (uint32_t i = 0; i < terms; i++) {
        size_t len = strlen(dependency);
        uint32_t type = roll(l, 5);

        if (len > 100)
            break;
        if (roll(l, 6) == 0 && !any) {      /* with '?' a requeue may keep the turn or not: tested apart */
            snprintf(dependency + len, sizeof dependency - len, "%ssingleton", len ? any ? "?" : "," : "");
            made.waits[made.wait_count++] = (struct wait){ .type = 5 };
            continue;
        }
        parent = some_job(l, -1);
        if (!parent)
            continue;
        snprintf(dependency + len, sizeof dependency - len, "%s%s:%u", len ? any ? "?" : "," : "", types[type], parent->array_job_id ? parent->array_job_id : parent->job_id);
        made.any = len && any;
        made.waits[made.wait_count++] = (struct wait){ .type = (int)type, .id = parent->array_job_id ? parent->array_job_id : parent->job_id };
    }
    if (roll(l, 4) == 0)
        snprintf(array, sizeof array, roll(l, 2) ? "0-%u" : "1-%u:2%%2", 1 + roll(l, TASKS - 2));
    snprintf(name, sizeof name, "n%u", roll(l, 4));
    spec.name = name;
    spec.dependency = *dependency ? dependency : NULL;
    spec.array = *array ? array : NULL;
    spec.has_is_batch = 1;
    spec.is_batch = *array || roll(l, 5);
    spec.has_requeue = 1;
    spec.requeue = roll(l, 2);
    spec.has_hold = 1;
    spec.hold = roll(l, 10) == 0;
    spec.has_kill_on_invalid_dep = 1;
    spec.kill_on_invalid_dep = roll(l, 2);
    spec.has_time_limit_min = 1;
    spec.time_limit_min = 1 + roll(l, 3);
    id = do_submit(&l->g, &spec, uid);
    if (id < 0)
        return;
    ck_assert_int_lt(id, IDS);
    struct fate *f = &l->fates[id];
    const struct job *j = state_job(l->g.s, (uint32_t)id);

    *f = made;
    f->is_array = *array;
    ponder(f, l->fates);
    for (uint32_t t = 0; j && j->array && t < TASKS; t++)
        f->tasks[t].exists = bitmap_test(&j->array->pending, t);
}

static void deed_start(struct life *l)
{
    struct job *j = some_job(l, PHASE_PENDING);
    const struct node *n = &l->g.s->nodes[roll(l, l->g.s->node_count)];
    uint32_t task = UINT32_MAX, first = roll(l, node_cores(n)), count = 1 + roll(l, 3);
    char cores[40];

    if (!j)
        return;
    if (job_is_task_set(j))
        task = roll(l, 8) ? array_next_task(l->g.s, j) : roll(l, TASKS);
    snprintf(cores, sizeof cores, "%u-%u", first, first + count - 1 < node_cores(n) ? first + count - 1 : first);
    do_start(&l->g, j->job_id, task, n->conf->name, cores);
}

static void deed_het(struct life *l)
{
    static const char *const names[] = { "n1", "n2", "n3" }, *const cores[] = { "0", "1", "0-1", "2-4", "5" };
    struct job *j = some_job(l, PHASE_PENDING), *leader = j && j->het_job_id ? het_leader(l->g.s, j) : NULL;
    const char *nodes[4], *sets[4];
    char name[8];
    int id;

    for (uint32_t i = 0; i < 4; i++) {
        nodes[i] = names[roll(l, 3)];
        sets[i] = cores[roll(l, 5)];
    }
    if (leader && roll(l, 4)) {
        do_het_start(&l->g, leader->job_id, roll(l, 12) ? leader->het_count : 2, nodes, sets);
        return;
    }
    snprintf(name, sizeof name, "n%u", roll(l, 4));
    id = do_het_submit(&l->g, name, 2 + roll(l, 3), 1000 + roll(l, 2), roll(l, 4));
    for (uint32_t k = 0; id > 0 && k < state_job(l->g.s, (uint32_t)id)->het_count; k++)
        l->fates[(uint32_t)id + k] = (struct fate){ .known = true };
}

/* No component runs while the first one does not, and none waits while it runs. */
static void check_het(struct life *l)
{
    const struct job *j;

    for (size_t at = 0; (j = table_next(&l->g.s->jobs, &at)); ) {
        enum job_phase first, own = job_phase(j);
        bool holds = own == PHASE_LAUNCHING || own == PHASE_RUNNING || own == PHASE_SUSPENDED;

        if (!j->het_offset)
            continue;
        ck_assert_msg(het_part(l->g.s, j, 0), "seed %u op %u: component %u is known and the first one is not", l->seed, l->ops, j->job_id);
        first = job_phase(het_leader(l->g.s, j));
        if (holds)
            ck_assert_msg(first == PHASE_LAUNCHING || first == PHASE_RUNNING || first == PHASE_SUSPENDED, "seed %u op %u: component %u runs, the first one is %s", l->seed,
                          l->ops, j->job_id, job_phase_name(first));
        if (own == PHASE_PENDING)
            ck_assert_msg(first == PHASE_PENDING || first == PHASE_REQUEUEING, "seed %u op %u: component %u waits, the first one is %s", l->seed, l->ops, j->job_id,
                          job_phase_name(first));
        if (holds)
            ck_assert_uint_eq(j->attempt, het_leader(l->g.s, j)->attempt);
    }
}

static void deed_report(struct life *l)
{
    struct job *j = some_job(l, roll(l, 4) ? (int)(roll(l, 3) == 0 ? PHASE_LAUNCHING : roll(l, 2) ? PHASE_COMPLETING : PHASE_RUNNING) : -1);
    static const int statuses[] = { 0, 0, 256, 9 };
    int kind = (int)roll(l, 4);

    if (!j || !j->alloc_count || j->allocs[0].node == NODE_REMOVED)
        return;
    if (kind == WIRE__REPORT__KIND__LAUNCH_FAILED && roll(l, 4))
        kind = WIRE__REPORT__KIND__GONE;
    if (kind == WIRE__REPORT__KIND__GONE && job_phase(j) == PHASE_RUNNING && roll(l, 4))
        kind = WIRE__REPORT__KIND__ENDED;
    do_report(&l->g, j->job_id, kind, l->g.s->nodes[j->allocs[0].node].conf->name, roll(l, 12) ? j->attempt : roll(l, 3), statuses[roll(l, 4)]);
}

static void deed_cancel(struct life *l)
{
    struct job *j = some_job(l, -1);
    char tasks[40];

    if (!j)
        return;
    if (j->array && roll(l, 2)) {
        snprintf(tasks, sizeof tasks, "%u-%u", roll(l, 6), 6 + roll(l, 6));
        do_cancel(&l->g, j->job_id, tasks);
    } else {
        do_cancel(&l->g, j->job_id, NULL);
    }
}

static void deed_update(struct life *l)
{
    static const struct { int verb; const char *key, *value; } what[] = {
        { WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND, NULL, NULL }, { WIRE__JOB_UPDATE_REQUEST__VERB__RESUME, NULL, NULL },
        { 1, NULL, NULL }, { 3, NULL, NULL }, { 4, NULL, NULL }, { 5, NULL, NULL }, { 0, "TimeLimit", "2" }, { 0, "Comment", "x" }, { 0, "Nice", "7" },
        { 0, "ArrayTaskThrottle", "3" }, { 0, "Priority", "50" }, { 0, "NoSuchKey", "1" }, { 0, "StartTime", "1700000100" }, { 6, NULL, NULL } };
    struct job *j = some_job(l, -1);
    uint32_t i = roll(l, sizeof what / sizeof *what);
    char tasks[40];

    if (!j)
        return;
    snprintf(tasks, sizeof tasks, "%u,%u", roll(l, 4), 4 + roll(l, 4));
    do_update(&l->g, j->job_id, j->array && roll(l, 2) ? tasks : NULL, what[i].verb, what[i].key, what[i].value, roll(l, 2));
}

static void deed_node(struct life *l)
{
    const struct node *n = &l->g.s->nodes[roll(l, l->g.s->node_count)];
    static const char *const states[] = { "DRAIN", "RESUME", "DOWN", "UNDRAIN" };
    Wire__KeyValue state = WIRE__KEY_VALUE__INIT, reason = WIRE__KEY_VALUE__INIT, *set[] = { &state, &reason };
    Wire__OpNodeUpdate update = WIRE__OP_NODE_UPDATE__INIT;
    Wire__OpNodeLost lost = WIRE__OP_NODE_LOST__INIT;
    Wire__RunningStep step = WIRE__RUNNING_STEP__INIT;
    Wire__Op op = WIRE__OP__INIT;
    struct job *j = some_job(l, PHASE_RUNNING);
    char name[64];

    snprintf(name, sizeof name, "%s", n->conf->name);
    switch (roll(l, 4)) {
    case 0:
        lost.node = name;
        lost.has_back = 1;
        lost.back = roll(l, 2);
        op.node_lost = &lost;
        stage_op(&l->g, &op);
        break;
    case 1:
        state.key = (char *)"State";
        state.value = (char *)states[roll(l, 4)];
        reason.key = (char *)"Reason";
        reason.value = (char *)"test";
        update.node = name;
        update.set = set;
        update.n_set = 2;
        op.node_update = &update;
        stage_op(&l->g, &op);
        break;
    default:
        step.job_id = j ? j->job_id : 3000;
        step.step_id = STEP_BATCH;
        step.attempt = j ? j->attempt : 1;
        do_register(&l->g, name, roll(l, 6) ? 16000 : 8000, 8, roll(l, 8) ? "boot-1" : "boot-2", roll(l, 2) ? &step : NULL);
    }
}

static void deed_config(struct life *l)
{
    static const char *const texts[] = {
        "ClusterName=t\nSlurmctldHost=c\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nReturnToService=1\nNodeName=n[1-3] CPUs=8 RealMemory=16000 State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES\n",
        "ClusterName=t\nSlurmctldHost=c\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nReturnToService=2\nNodeName=n4,n1 CPUs=8 RealMemory=16000 State=UNKNOWN\nNodeName=n2 CPUs=4 RealMemory=16000 State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES\nPartitionName=other Nodes=n1\n",
        "no configuration at all" };
    Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;
    Wire__OpConfig config = WIRE__OP_CONFIG__INIT;
    Wire__Op op = WIRE__OP__INIT;

    files.slurm = (char *)texts[roll(l, 3)];
    config.files = &files;
    op.config = &config;
    stage_op(&l->g, &op);
}

static void deed_rest(struct life *l)
{
    Wire__OpPurge purge = WIRE__OP_PURGE__INIT;
    Wire__OpTimeLimit limit = WIRE__OP_TIME_LIMIT__INIT;
    Wire__PartitionUpdateRequest request = WIRE__PARTITION_UPDATE_REQUEST__INIT;
    Wire__OpPartition partition = WIRE__OP_PARTITION__INIT;
    Wire__KeyValue kv = WIRE__KEY_VALUE__INIT, *set = &kv;
    Wire__Op op = WIRE__OP__INIT;
    struct job *j = some_job(l, PHASE_RUNNING);

    switch (roll(l, 4)) {
    case 0:
        stage_wait(&l->g, 1 + roll(l, 40));
        return;
    case 1:
        purge.before_cluster_ms = l->g.s->cluster_ms - 60000;
        op.purge = &purge;
        break;
    case 2:
        limit.job_id = j ? j->job_id : 1;
        op.time_limit = &limit;
        break;
    default:
        request.name = (char *)(roll(l, 2) ? "main" : "extra");
        request.has_create = request.create = roll(l, 3) == 0;
        kv.key = (char *)"MaxTime";
        kv.value = (char *)(roll(l, 3) ? "100" : "never");
        request.set = &set;
        request.n_set = 1;
        partition.update = &request;
        op.partition = &partition;
    }
    stage_op(&l->g, &op);
}

/* Final states: entered once an attempt. */
static void check_final(struct life *l)
{
    const struct job *j;

    for (size_t at = 0; (j = table_next(&l->g.s->jobs, &at)); ) {
        uint8_t *was = &l->final[j->job_id];

        if (*was && job_state_is_end(j->state))
            ck_assert_msg(*was == j->state + 1, "job %u was %s and is %s", j->job_id, job_state_name(*was - 1u, 0, false), job_state_name(j->state, 0, false));
        *was = job_state_is_end(j->state) ? (uint8_t)(j->state + 1) : 0;
    }
}

/* SPUR_TEST_SNAPSHOT=FILE: the state at the end of a life, for tests/data/snapshot. */
static void keep(const struct stage *g)
{
    const char *path = getenv("SPUR_TEST_SNAPSHOT");
    FILE *f = path ? fopen(path, "wb") : NULL;
    uint8_t *bytes;
    size_t len;

    if (!f)
        return;
    bytes = stage_bytes(g, &len);
    fwrite(bytes, 1, len, f);
    fclose(f);
    free(bytes);
}

static void live(unsigned seed, unsigned ops)
{
    struct life l = { .seed = seed };

    stage_open(&l.g, "node n[1-3] cpus 8");
    l.dice.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    l.fates = mem_array(IDS, sizeof *l.fates);
    l.final = mem_array(IDS, 1);
    for (l.ops = 0; l.ops < ops && l.g.s->next_job_id < IDS - 64; l.ops++) {
        uint32_t what = roll(&l, 100);

        if (what < 10)
            deed_het(&l);
        else if (what < 18)
            deed_submit(&l);
        else if (what < 50)
            deed_start(&l);
        else if (what < 78)
            deed_report(&l);
        else if (what < 82)
            deed_cancel(&l);
        else if (what < 86)
            deed_update(&l);
        else if (what < 92)
            deed_node(&l);
        else if (what < 93)
            deed_config(&l);
        else
            deed_rest(&l);
        learn(&l);
        check_waiting(&l);
        stage_check(&l.g);
        check_final(&l);
        check_het(&l);
        if (!l.g.twin || roll(&l, 200) == 0) {
            state_destroy(l.g.twin);
            l.g.twin = stage_copy(&l.g);
        }
        l.g.last = (struct applied){ 0 };
    }
    keep(&l.g);
    stage_close(&l.g);
    free(l.fates);
    free(l.final);
}

/* A snapshot of each format that was ever released still loads, and lives on. */
START_TEST(old_formats_load)
{
    static const char path[] = TEST_DATA "/snapshot/format-1";
    struct life l = { .seed = 1 };
    uint8_t *bytes = mem_alloc(1 << 20);
    size_t len;
    FILE *f;

    f = fopen(path, "rb");
    ck_assert_msg(f, "%s is missing", path);
    len = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    l.g.s = stage_load(bytes, len);
    ck_assert_ptr_nonnull(l.g.s);
    arena_init(&l.g.arena, 0);
    ck_assert_uint_gt(table_count(&l.g.s->jobs), 20);
    stage_check(&l.g);
    l.g.twin = stage_copy(&l.g);
    l.fates = mem_array(IDS, sizeof *l.fates);
    for (int i = 0; i < 100; i++) {
        deed_submit(&l);
        deed_start(&l);
        deed_report(&l);
        stage_check(&l.g);
    }
    stage_close(&l.g);
    free(l.fates);
    free(bytes);
}
END_TEST

START_TEST(random_lives)
{
    const char *seed = getenv("SPUR_TEST_SEED"), *ops = getenv("SPUR_TEST_OPS");
    unsigned n = seed ? (unsigned)atoi(seed) : (unsigned)_i + 1;

    if (seed && _i)
        return;
    fprintf(stderr, "random life: SPUR_TEST_SEED=%u\r", n);
    live(n, ops ? (unsigned)atoi(ops) : 1200);
}
END_TEST

Suite *random_suite(void)
{
    Suite *s = suite_create("random lives");
    TCase *c = tcase_create("lives");

    tcase_set_timeout(c, 240);
    tcase_add_test(c, old_formats_load);
    tcase_add_loop_test(c, random_lives, 0, getenv("SPUR_TEST_LIVES") ? atoi(getenv("SPUR_TEST_LIVES")) : 8);
    suite_add_tcase(s, c);
    return s;
}
