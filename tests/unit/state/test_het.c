/* SPDX-License-Identifier: Apache-2.0 */
/* test_het.c - heterogeneous jobs: made, started, ended, requeued and forgotten as one; what may happen to a component alone. */
#include "test_state.h"

enum { STARTED = WIRE__REPORT__KIND__STARTED, ENDED = WIRE__REPORT__KIND__ENDED, GONE = WIRE__REPORT__KIND__GONE };
enum { SUSPEND = WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND, RESUME = WIRE__JOB_UPDATE_REQUEST__VERB__RESUME, REQUEUE = WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE,
       HOLD = WIRE__JOB_UPDATE_REQUEST__VERB__HOLD };
enum { NOT_LEADER = 2107, NOT_WHOLE = 2108 };

int do_het_submit(struct stage *g, const char *name, uint32_t count, uint32_t uid, bool batch)
{
    Wire__JobSpec specs[8], *more[8];
    Wire__OpSubmit submit = WIRE__OP_SUBMIT__INIT;
    Wire__Op op = WIRE__OP__INIT;
    int rc;

    for (uint32_t i = 0; i < count; i++) {
        wire__job_spec__init(&specs[i]);
        specs[i].name = (char *)name;
        specs[i].work_dir = (char *)"/home/u";
        specs[i].has_is_batch = 1;
        specs[i].is_batch = batch && i == 0;
        specs[i].has_requeue = specs[i].requeue = 1;
        more[i] = &specs[i];
    }
    submit.spec = &specs[0];
    submit.het = more + 1;
    submit.n_het = count - 1;
    submit.uid = submit.gid = uid;
    op.submit = &submit;
    ck_assert_uint_eq(state_op_level(&op), 3);
    rc = stage_op(g, &op);
    return rc < 0 ? rc : (int)g->last.results[0].job_id;
}

/* Component i on node i of the list, with these cores. */
int do_het_start(struct stage *g, uint32_t job_id, uint32_t count, const char *const *nodes, const char *const *cores)
{
    Wire__OpHetStart het = WIRE__OP_HET_START__INIT;
    Wire__OpStart starts[8], *parts[8];
    Wire__NodeAlloc allocs[8], *rows[8];
    Wire__Op op = WIRE__OP__INIT;
    struct bitmap sets[8];
    int rc;

    for (uint32_t i = 0; i < count; i++) {
        const struct job *j = state_job(g->s, job_id + i);
        struct node *n = state_node(g->s, nodes[i]);

        wire__op_start__init(&starts[i]);
        wire__node_alloc__init(&allocs[i]);
        bitmap_init(&sets[i], 64);
        ck_assert_int_eq(bitmap_parse(&sets[i], cores[i], NULL), 0);
        allocs[i].name = (char *)nodes[i];
        allocs[i].node = n ? n->index : 99;
        allocs[i].cores = sets[i].words;
        allocs[i].n_cores = 1;
        allocs[i].has_cpus = allocs[i].has_tasks = allocs[i].has_mem_mib = 1;
        allocs[i].cpus = (uint32_t)bitmap_count(&sets[i]);
        allocs[i].tasks = 1;
        allocs[i].mem_mib = 100;
        rows[i] = &allocs[i];
        starts[i].job_id = job_id + i;
        starts[i].attempt = j ? j->attempt : 0;
        starts[i].allocs = &rows[i];
        starts[i].n_allocs = 1;
        parts[i] = &starts[i];
    }
    het.parts = parts;
    het.n_parts = count;
    op.het_start = &het;
    ck_assert_uint_eq(state_op_level(&op), 3);
    rc = stage_op(g, &op);
    for (uint32_t i = 0; i < count; i++)
        bitmap_fini(&sets[i]);
    return rc;
}

static const char *const three[] = { "n1", "n2", "n3" };
static const char *const some[] = { "0-1", "0-1", "0-1" };

static void open_twin(struct stage *g)
{
    stage_open(g, "node n[1-3] cpus 4");
    g->twin = stage_copy(g);
}

static int do_step(struct stage *g, const uint32_t *jobs, const char *const *nodes, uint32_t count)
{
    Wire__OpHetStep het = WIRE__OP_HET_STEP__INIT;
    Wire__OpStep steps[4], *parts[4];
    Wire__StepSpec specs[4];
    Wire__NodeAlloc allocs[4], *rows[4];
    Wire__Op op = WIRE__OP__INIT;
    uint64_t cores = 1;

    for (uint32_t i = 0; i < count; i++) {
        wire__op_step__init(&steps[i]);
        wire__step_spec__init(&specs[i]);
        wire__node_alloc__init(&allocs[i]);
        allocs[i].name = (char *)nodes[i];
        allocs[i].node = state_node(g->s, nodes[i])->index;
        allocs[i].cores = &cores;
        allocs[i].n_cores = 1;
        allocs[i].has_cpus = allocs[i].has_tasks = 1;
        allocs[i].cpus = allocs[i].tasks = 1;
        rows[i] = &allocs[i];
        steps[i].job_id = jobs[i];
        steps[i].spec = &specs[i];
        specs[i].has_overlap = specs[i].overlap = 1;
        steps[i].allocs = &rows[i];
        steps[i].n_allocs = 1;
        parts[i] = &steps[i];
    }
    het.parts = parts;
    het.n_parts = count;
    if (count == 1)
        op.step = &steps[0];
    else
        op.het_step = &het;
    return stage_op(g, &op) < 0 ? g->last.results[0].code : (int)g->last.results[0].step_id;
}

static enum job_phase phase(const struct stage *g, uint32_t id) { return job_phase(state_job(g->s, id)); }

static void gone(struct stage *g, uint32_t id)
{
    const struct job *j = state_job(g->s, id);

    do_report(g, id, GONE, g->s->nodes[j->allocs[0].node].conf->name, j->attempt, 0);
}

static uint32_t running(struct stage *g)
{
    uint32_t id = (uint32_t)do_het_submit(g, "h", 3, 1000, true);

    ck_assert_int_eq(do_het_start(g, id, 3, three, some), 0);
    do_report(g, id, STARTED, "n1", 1, 0);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_int_eq(phase(g, id + k), PHASE_RUNNING);
    return id;
}

START_TEST(made_as_one)
{
    struct stage g;
    int first, next;

    open_twin(&g);
    first = do_het_submit(&g, "h", 3, 1000, true);
    ck_assert_int_gt(first, 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_SUBMITTED), 3);
    for (uint32_t k = 0; k < 3; k++) {
        const struct job *j = state_job(g.s, (uint32_t)first + k);

        ck_assert(j->het_job_id == (uint32_t)first && j->het_offset == k && j->het_count == 3);
        ck_assert_ptr_eq(het_leader(g.s, j), state_job(g.s, (uint32_t)first));
    }
    ck_assert_ptr_eq(het_named(g.s, "1+2"), state_job(g.s, 3));
    ck_assert_ptr_null(het_named(g.s, "1+3"));
    ck_assert_ptr_null(het_named(g.s, "2+1"));
    ck_assert_ptr_null(het_named(g.s, "x+1"));
    next = do_simple(&g, "other", NULL, NULL);
    ck_assert_int_eq(next, first + 3);
    ck_assert_ptr_null(het_named(g.s, "4+0"));
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(ids_follow_each_other)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 4");
    for (int i = 0; i < 3; i++)
        do_simple(&g, "a", NULL, NULL);
    g.s->next_job_id = 2;       /* 2 and 3 are taken, as after a full circle */
    ck_assert_uint_eq(het_next_ids(g.s, 2), 4);
    g.s->next_job_id = 1;
    do_cancel(&g, 1, NULL);
    ck_assert_uint_eq(het_next_ids(g.s, 3), 4);
    stage_close(&g);
}
END_TEST

START_TEST(all_or_none)
{
    static const char *const same[] = { "n1", "n1", "n2" }, *const apart[] = { "0-1", "2-3", "0" }, *const clash[] = { "0-1", "1-2", "0" };
    struct stage g;
    int64_t busy;
    uint32_t id;

    open_twin(&g);
    id = (uint32_t)do_het_submit(&g, "h", 3, 1000, true);
    busy = g.s->nodes[0].last_busy_wall_s;
    stage_wait(&g, 10);
    ck_assert_int_eq(do_start(&g, id, UINT32_MAX, "n1", "0"), SPUR_ESTALE);         /* never one alone */
    ck_assert_int_eq(g.last.results[0].slurm_errno, NOT_WHOLE);
    ck_assert_int_eq(do_start(&g, id + 1, UINT32_MAX, "n1", "0"), SPUR_ESTALE);
    ck_assert_int_lt(do_het_start(&g, id, 3, same, clash), 0);
    ck_assert_int_lt(do_het_start(&g, id, 2, same, apart), 0);
    ck_assert_int_lt(do_het_start(&g, id + 1, 2, same, apart), 0);
    ck_assert_uint_eq(g.s->nodes[0].jobs, 0);       /* a decision that is not taken leaves no trace */
    ck_assert_uint_eq(g.s->nodes[0].cpus_used, 0);
    ck_assert_uint_eq(g.s->nodes[0].mem_used, 0);
    ck_assert_int_eq(g.s->nodes[0].last_busy_wall_s, busy);
    ck_assert_uint_eq(state_job(g.s, id)->alloc_count, 0);
    ck_assert_int_eq(do_het_start(&g, id, 3, same, apart), 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_STARTED), 3);
    ck_assert_uint_eq(g.s->nodes[0].jobs, 2);
    ck_assert_int_lt(do_het_start(&g, id, 3, same, apart), 0);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(a_held_component_holds_all)
{
    struct stage g;
    uint32_t id;
    enum job_reason why;

    open_twin(&g);
    id = (uint32_t)do_het_submit(&g, "h", 3, 1000, true);
    ck_assert_int_eq(do_update(&g, id + 1, NULL, HOLD, NULL, NULL, false), 0);
    ck_assert(!job_eligible(g.s, state_job(g.s, id), 1, &why, NULL) && why == REASON_JobHeldUser);
    ck_assert(!state_job(g.s, id)->held_by_user);
    ck_assert_int_lt(do_het_start(&g, id, 3, three, some), 0);
    ck_assert_int_eq(do_update(&g, id, NULL, WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE, NULL, NULL, false), 0);
    ck_assert(job_eligible(g.s, state_job(g.s, id + 2), g.s->wall_ms / 1000, &why, NULL));
    ck_assert_int_eq(do_update(&g, id, NULL, 0, "TimeLimit", "5", false), 0);
    ck_assert_uint_eq(state_job(g.s, id + 2)->time_limit_min, 5);
    ck_assert_int_eq(do_update(&g, id + 2, NULL, 0, "TimeLimit", "6", false), 0);
    ck_assert_uint_eq(state_job(g.s, id)->time_limit_min, 5);
    ck_assert_int_eq(do_het_start(&g, id, 3, three, some), 0);
    stage_close(&g);
}
END_TEST

START_TEST(the_first_one_ends_all)
{
    struct stage g;
    uint32_t id;

    open_twin(&g);
    id = running(&g);
    do_report(&g, id, ENDED, "n1", 1, 2 << 8);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_KILL), 3);
    for (uint32_t k = 0; k < 3; k++) {
        ck_assert_int_eq(phase(&g, id + k), PHASE_COMPLETING);
        ck_assert_int_eq(state_job(g.s, id + k)->state, JOB_FAILED);
        ck_assert_int_eq(state_job(g.s, id + k)->exit_status, 2 << 8);
    }
    for (uint32_t k = 0; k < 3; k++)
        gone(&g, id + k);
    ck_assert_int_eq(phase(&g, id + 2), PHASE_ENDED);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(one_is_cancelled)
{
    struct stage g;
    uint32_t id;

    open_twin(&g);
    id = (uint32_t)do_het_submit(&g, "h", 2, 1000, true);
    ck_assert_int_lt(do_cancel(&g, id + 1, NULL), 0);
    ck_assert_int_eq(g.last.results[0].slurm_errno, NOT_WHOLE);
    ck_assert_int_eq(do_cancel(&g, id, NULL), 0);
    ck_assert_int_eq(phase(&g, id + 1), PHASE_ENDED);
    id = running(&g);
    ck_assert_int_eq(do_cancel(&g, id + 1, NULL), 0);
    ck_assert_int_eq(phase(&g, id), PHASE_RUNNING);
    gone(&g, id + 1);
    ck_assert_int_eq(phase(&g, id + 1), PHASE_ENDED);
    ck_assert_int_eq(do_cancel(&g, id, NULL), 0);
    ck_assert_int_eq(phase(&g, id + 2), PHASE_COMPLETING);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(requeued_as_one)
{
    struct stage g;
    uint32_t id;

    open_twin(&g);
    id = running(&g);
    do_cancel(&g, id + 1, NULL);            /* not gone yet when the job is requeued */
    do_cancel(&g, id + 2, NULL);
    gone(&g, id + 2);
    ck_assert_int_lt(do_update(&g, id + 1, NULL, REQUEUE, NULL, NULL, true), 0);
    ck_assert_int_eq(g.last.results[0].slurm_errno, NOT_LEADER);
    ck_assert_int_eq(do_update(&g, id, NULL, REQUEUE, NULL, NULL, true), 0);
    ck_assert_int_eq(phase(&g, id + 2), PHASE_PENDING);
    gone(&g, id);
    ck_assert_int_eq(phase(&g, id), PHASE_PENDING);
    ck_assert(!job_eligible(g.s, state_job(g.s, id), INT64_MAX / 4, NULL, NULL));   /* one is not empty yet */
    gone(&g, id + 1);
    ck_assert_int_eq(phase(&g, id + 1), PHASE_PENDING);
    ck_assert(job_eligible(g.s, state_job(g.s, id), INT64_MAX / 4, NULL, NULL));
    stage_wait(&g, 300);
    ck_assert_int_eq(do_het_start(&g, id, 3, three, some), 0);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(a_lost_node_takes_all)
{
    Wire__OpNodeLost lost = WIRE__OP_NODE_LOST__INIT;
    Wire__Op op = WIRE__OP__INIT;
    struct stage g;
    uint32_t id;

    open_twin(&g);
    id = running(&g);
    lost.node = (char *)"n3";
    op.node_lost = &lost;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_int_eq(phase(&g, id), PHASE_REQUEUEING);
    ck_assert_int_eq(phase(&g, id + 1), PHASE_REQUEUEING);
    gone(&g, id + 1);
    gone(&g, id);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_int_eq(phase(&g, id + k), PHASE_PENDING);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(stands_still_as_one)
{
    struct stage g;
    uint32_t id;

    open_twin(&g);
    id = running(&g);
    ck_assert_int_lt(do_update(&g, id + 1, NULL, SUSPEND, NULL, NULL, true), 0);
    ck_assert_int_eq(do_update(&g, id, NULL, SUSPEND, NULL, NULL, true), 0);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_int_eq(phase(&g, id + k), PHASE_SUSPENDED);
    ck_assert_int_eq(do_start(&g, (uint32_t)do_simple(&g, "a", NULL, NULL), UINT32_MAX, "n2", "1"), (int)id + 3);
    ck_assert_int_lt(do_update(&g, id, NULL, RESUME, NULL, NULL, true), 0);         /* another has a core of one of them */
    ck_assert_int_eq(phase(&g, id), PHASE_SUSPENDED);
    do_cancel(&g, id + 3, NULL);
    gone(&g, id + 3);
    ck_assert_int_eq(do_update(&g, id, NULL, RESUME, NULL, NULL, true), 0);
    ck_assert_int_eq(phase(&g, id + 2), PHASE_RUNNING);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(steps_over_components)
{
    struct stage g;
    uint32_t id;

    open_twin(&g);
    id = running(&g);
    ck_assert_int_eq(do_step(&g, (uint32_t[]){ id }, (const char *const[]){ "n1" }, 1), 0);
    ck_assert_int_eq(do_step(&g, (uint32_t[]){ id, id + 2 }, (const char *const[]){ "n1", "n3" }, 2), 1);
    ck_assert_uint_eq(stage_events(&g, EV_STEP_CREATED), 2);
    ck_assert_int_eq(do_step(&g, (uint32_t[]){ id + 1 }, (const char *const[]){ "n2" }, 1), 2);
    ck_assert_int_eq(do_step(&g, (uint32_t[]){ id + 2, id }, (const char *const[]){ "n3", "n1" }, 2), SPUR_EINVAL);
    ck_assert_int_lt(do_step(&g, (uint32_t[]){ id, id + 1 }, (const char *const[]){ "n1", "n3" }, 2), 0);      /* not its node: none is made */
    ck_assert_ptr_null(state_job(g.s, id)->steps->next->next);
    ck_assert_int_eq(do_step(&g, (uint32_t[]){ id, id + 1, id + 2 }, (const char *const[]){ "n1", "n2", "n3" }, 3), 3);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(forgotten_together)
{
    Wire__OpPurge purge = WIRE__OP_PURGE__INIT;
    Wire__Op op = WIRE__OP__INIT;
    struct stage g;
    uint32_t id;

    open_twin(&g);
    id = running(&g);
    do_cancel(&g, id + 1, NULL);
    gone(&g, id + 1);
    stage_wait(&g, 1000);
    purge.before_cluster_ms = g.s->cluster_ms;
    op.purge = &purge;
    stage_op(&g, &op);
    ck_assert_ptr_nonnull(state_job(g.s, id + 1));
    do_cancel(&g, id, NULL);
    gone(&g, id);
    gone(&g, id + 2);
    stage_wait(&g, 1000);
    purge.before_cluster_ms = g.s->cluster_ms;
    stage_op(&g, &op);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_ptr_null(state_job(g.s, id + k));
    stage_close(&g);
}
END_TEST

START_TEST(bounds)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT, *more[HET_MAX];
    Wire__OpSubmit submit = WIRE__OP_SUBMIT__INIT;
    Wire__OpHetStart start = WIRE__OP_HET_START__INIT;
    Wire__OpHetStep step = WIRE__OP_HET_STEP__INIT;
    Wire__Op op = WIRE__OP__INIT;
    struct stage g;

    open_twin(&g);
    for (size_t i = 0; i < HET_MAX; i++)
        more[i] = &spec;
    submit.spec = &spec;
    submit.het = more;
    submit.n_het = HET_MAX;
    op.submit = &submit;
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ELIMIT);
    submit.n_het = 1;
    spec.array = (char *)"0-3";
    ck_assert_int_eq(stage_op(&g, &op), SPUR_EUNSUPPORTED);
    ck_assert_uint_eq(table_count(&g.s->jobs), 0);
    op.submit = NULL;
    op.het_start = &start;
    ck_assert_int_lt(stage_op(&g, &op), 0);
    op.het_start = NULL;
    op.het_step = &step;
    ck_assert_int_lt(stage_op(&g, &op), 0);
    stage_close(&g);
}
END_TEST

Suite *het_suite(void)
{
    Suite *s = suite_create("het");
    TCase *c = tcase_create("het");

    tcase_add_test(c, made_as_one);
    tcase_add_test(c, ids_follow_each_other);
    tcase_add_test(c, all_or_none);
    tcase_add_test(c, a_held_component_holds_all);
    tcase_add_test(c, the_first_one_ends_all);
    tcase_add_test(c, one_is_cancelled);
    tcase_add_test(c, requeued_as_one);
    tcase_add_test(c, a_lost_node_takes_all);
    tcase_add_test(c, stands_still_as_one);
    tcase_add_test(c, steps_over_components);
    tcase_add_test(c, forgotten_together);
    tcase_add_test(c, bounds);
    suite_add_tcase(s, c);
    return s;
}
