/* SPDX-License-Identifier: Apache-2.0 */
/* test_survive.c - suspended jobs, spares, launches that fail, reboots. */
#include "test_state.h"

enum { STARTED = WIRE__REPORT__KIND__STARTED, ENDED = WIRE__REPORT__KIND__ENDED, GONE = WIRE__REPORT__KIND__GONE };
enum { SUSPEND = WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND, RESUME = WIRE__JOB_UPDATE_REQUEST__VERB__RESUME, REQUEUE = WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE,
       RELEASE = WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE };

static int do_lost(struct stage *g, const char *node)
{
    Wire__OpNodeLost o = WIRE__OP_NODE_LOST__INIT;
    Wire__Op op = WIRE__OP__INIT;

    o.node = (char *)node;
    op.node_lost = &o;
    return stage_op(g, &op);
}

static int do_set(struct stage *g, const char *node, const char *state)
{
    Wire__KeyValue kv[2] = { WIRE__KEY_VALUE__INIT, WIRE__KEY_VALUE__INIT }, *set[] = { &kv[0], &kv[1] };
    Wire__OpNodeUpdate o = WIRE__OP_NODE_UPDATE__INIT;
    Wire__Op op = WIRE__OP__INIT;

    kv[0].key = (char *)"State";
    kv[0].value = (char *)state;
    kv[1].key = (char *)"Reason";
    kv[1].value = (char *)"test";
    o.node = (char *)node;
    o.set = set;
    o.n_set = 2;
    op.node_update = &o;
    return stage_op(g, &op);
}

static int do_reboot(struct stage *g, const char *node, bool asap, const char *next, bool cancel)
{
    Wire__OpNodeReboot o = WIRE__OP_NODE_REBOOT__INIT;
    Wire__Op op = WIRE__OP__INIT;

    o.node = (char *)node;
    o.has_asap = o.has_cancel = 1;
    o.asap = asap;
    o.cancel = cancel;
    o.next_state = (char *)next;
    op.node_reboot = &o;
    ck_assert_uint_eq(state_op_level(&op), 2);
    return stage_op(g, &op);
}

static int do_failed(struct stage *g, uint32_t job_id, const char *node, uint32_t attempt)
{
    Wire__Report r = WIRE__REPORT__INIT;
    Wire__OpReport o = WIRE__OP_REPORT__INIT;
    Wire__Op op = WIRE__OP__INIT;

    r.node = (char *)node;
    r.kind = WIRE__REPORT__KIND__LAUNCH_FAILED;
    r.job_id = job_id;
    r.attempt = attempt;
    r.has_node_fault = r.node_fault = 1;
    r.text = (char *)"no answer";
    o.report = &r;
    op.report = &o;
    return stage_op(g, &op);
}

/* Job 1 on these nodes, core 0 of each. */
static void start_on(struct stage *g, const char *const *nodes, size_t n, uint32_t ntasks)
{
    Wire__NodeAlloc allocs[8], *list[8];
    Wire__OpStart start = WIRE__OP_START__INIT;
    Wire__Op op = WIRE__OP__INIT;
    uint64_t core = 1;

    for (size_t i = 0; i < n; i++) {
        wire__node_alloc__init(&allocs[i]);
        allocs[i].name = (char *)nodes[i];
        allocs[i].node = state_node(g->s, nodes[i])->index;
        allocs[i].cores = &core;
        allocs[i].n_cores = 1;
        allocs[i].has_cpus = allocs[i].has_tasks = 1;
        allocs[i].cpus = allocs[i].tasks = 1;
        list[i] = &allocs[i];
    }
    start.job_id = 1;
    start.attempt = state_job(g->s, 1)->attempt;
    start.allocs = list;
    start.n_allocs = n;
    start.has_ntasks = 1;
    start.ntasks = ntasks;
    op.start = &start;
    ck_assert_int_eq(stage_op(g, &op), 0);
}

START_TEST(suspended)
{
    struct stage g;
    struct job *j;
    Wire__OpTimeLimit limit = WIRE__OP_TIME_LIMIT__INIT;
    Wire__Op op = WIRE__OP__INIT;
    Wire__JobInfo *info;

    stage_open(&g, "node n1 cpus 8; job 1 running n1 cores 0-5 time 2; job 2 pending; job 3 pending");
    j = state_job(g.s, 1);
    ck_assert_int_eq(do_update(&g, 1, NULL, SUSPEND, NULL, NULL, true), SPUR_ELATER);       /* not there yet */
    do_report(&g, 1, STARTED, "n1", 1, 0);
    ck_assert_int_eq(do_update(&g, 2, NULL, SUSPEND, NULL, NULL, true), SPUR_EINVAL);
    ck_assert_int_eq(do_update(&g, 1, NULL, RESUME, NULL, NULL, true), SPUR_EINVAL);
    stage_wait(&g, 60);
    ck_assert_int_eq(do_update(&g, 1, NULL, SUSPEND, NULL, NULL, true), 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_FREEZE), 1);
    ck_assert_int_eq(j->state, JOB_SUSPENDED);
    ck_assert_uint_eq(g.s->nodes[0].cpus_used, 0);
    ck_assert_uint_eq(g.s->nodes[0].jobs, 1);
    ck_assert_int_eq(do_update(&g, 1, NULL, SUSPEND, NULL, NULL, true), SPUR_ESTALE);
    stage_check(&g);
    g.twin = stage_copy(&g);
    /* Its time stands still. */
    stage_wait(&g, 600);
    limit.job_id = 1;
    op.time_limit = &limit;
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    info = job_info(g.s, j, 0, g.s->wall_ms / 1000, &g.arena);
    ck_assert_int_eq(info->run_s, 60);
    ck_assert_int_eq(info->suspended_s, 600);
    /* Another has its cores: it waits; then it goes on. */
    ck_assert_int_eq(do_start(&g, 2, UINT32_MAX, "n1", "5-7"), 2);
    ck_assert_int_eq(do_update(&g, 1, NULL, RESUME, NULL, NULL, true), SPUR_ELATER);
    stage_check(&g);
    do_report(&g, 2, STARTED, "n1", 1, 0);
    do_report(&g, 2, ENDED, "n1", 1, 0);
    do_report(&g, 2, GONE, "n1", 1, 0);
    ck_assert_int_eq(do_update(&g, 1, NULL, RESUME, NULL, NULL, true), 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_FREEZE), 1);
    ck_assert_uint_eq(g.s->nodes[0].cpus_used, 6);
    ck_assert_int_eq(do_start(&g, 3, UINT32_MAX, "n1", "5"), SPUR_ESTALE);
    stage_wait(&g, 59);
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    stage_wait(&g, 1);
    ck_assert_int_eq(job_info(g.s, j, 0, g.s->wall_ms / 1000, &g.arena)->run_s, 120);
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_int_eq(j->state, JOB_TIMEOUT);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(suspended_then)
{
    struct stage g;
    struct job *j;

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8; job 1 running n1 cores 0-3; job 2 pending; job 3 running n2 cores 0; job 4 running n2 cores 1");
    for (uint32_t id = 1; id <= 4; id++)
        if (id != 2) {
            do_report(&g, id, STARTED, id == 1 ? "n1" : "n2", 1, 0);
            ck_assert_int_eq(do_update(&g, id, NULL, SUSPEND, NULL, NULL, true), 0);
        }
    ck_assert_int_eq(do_start(&g, 2, UINT32_MAX, "n1", "0-7"), 2);
    g.twin = stage_copy(&g);
    j = state_job(g.s, 1);
    ck_assert_int_eq(do_cancel(&g, 1, NULL), 0);        /* cancelled: nothing of the cores is given back twice */
    ck_assert_uint_eq(stage_events(&g, EV_JOB_KILL), 1);
    stage_check(&g);
    do_report(&g, 1, GONE, "n1", 1, 0);
    ck_assert_int_eq(job_phase(j), PHASE_ENDED);
    ck_assert_uint_eq(g.s->nodes[0].cpus_used, 8);
    stage_check(&g);
    ck_assert_int_eq(do_update(&g, 3, NULL, REQUEUE, NULL, NULL, false), 0);
    do_report(&g, 3, GONE, "n2", 1, 0);
    j = state_job(g.s, 3);
    ck_assert(j->state == JOB_PENDING && j->held_by_user && !j->parked && !j->suspended_ms);
    ck_assert_int_eq(do_lost(&g, "n2"), 0);             /* a node dies under a suspended job */
    ck_assert_int_eq(state_job(g.s, 4)->state, JOB_PENDING);
    ck_assert_uint_eq(g.s->nodes[1].jobs, 0);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(spare_takes_over)
{
    static const char *const all[] = { "n1", "n2", "n3", "n4" };
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    struct stage g;
    struct job *j;
    Wire__JobInfo *info;

    stage_open(&g, "node n[1-5] cpus 8");
    spec.has_spares = spec.has_is_batch = spec.is_batch = 1;
    spec.spares = 2;
    ck_assert_int_eq(do_submit(&g, &spec, 1000), 1);
    start_on(&g, all, 4, 8);
    j = state_job(g.s, 1);
    ck_assert_str_eq(j->nodes, "n[1-2]");
    ck_assert_uint_eq(job_members(j), 2);
    ck_assert_uint_eq(j->total_cpus, 2);
    ck_assert_uint_eq(j->ntasks, 4);
    do_report(&g, 1, STARTED, "n1", 1, 0);
    info = job_info(g.s, j, ~UINT64_C(0), g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(info->spare_nodes, "n[3-4]");
    ck_assert_uint_eq(info->num_nodes, 2);
    g.twin = stage_copy(&g);
    ck_assert_int_eq(do_lost(&g, "n2"), 0);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_NODES), 1);
    ck_assert_int_eq(j->state, JOB_RUNNING);
    ck_assert_str_eq(j->nodes, "n[1,3]");
    ck_assert_str_eq(j->failed_node, "n2");
    ck_assert_uint_eq(g.s->nodes[1].jobs, 0);
    stage_check(&g);
    ck_assert_int_eq(do_lost(&g, "n4"), 0);             /* a spare is lost: the job does not mind */
    ck_assert_int_eq(j->state, JOB_RUNNING);
    ck_assert_uint_eq(j->alloc_count, 2);
    ck_assert_int_eq(do_lost(&g, "n3"), 0);             /* no spare is left */
    ck_assert_int_eq(job_phase(j), PHASE_REQUEUEING);
    do_report(&g, 1, GONE, "n1", 1, 0);
    ck_assert_int_eq(j->state, JOB_PENDING);
    ck_assert_uint_eq(j->restarts, 1);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

/* The node keeps its number; the node with the batch script has none that could take its place. */
START_TEST(spare_keeps_the_number)
{
    static const char *const all[] = { "n1", "n2", "n3", "n4" };
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    struct stage g;
    struct job *j;

    stage_open(&g, "node n[1-4] cpus 8");
    spec.has_spares = 1;
    spec.spares = 1;
    ck_assert_int_eq(do_submit(&g, &spec, 1000), 1);
    start_on(&g, all, 4, 4);
    j = state_job(g.s, 1);
    ck_assert_int_eq(do_set(&g, "n1", "DOWN"), 0);      /* an allocation without a script: any node */
    ck_assert_uint_eq(j->allocs[0].node, 3);
    ck_assert_uint_eq(j->allocs[1].node, 1);
    ck_assert_uint_eq(stage_events(&g, EV_ORPHAN), 1);  /* its agent is well: what runs there is ended */
    ck_assert_uint_eq(g.s->nodes[0].foreign_count, 1);
    stage_check(&g);
    do_report(&g, 1, GONE, "n1", 1, 0);
    ck_assert_uint_eq(g.s->nodes[0].foreign_count, 0);
    ck_assert_int_eq(j->state, JOB_RUNNING);
    ck_assert_int_eq(do_lost(&g, "n2"), 0);
    ck_assert_int_eq(j->state, JOB_NODE_FAIL);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(launches_fail)
{
    struct stage g;
    struct job *j;
    char name[8];

    stage_open(&g, "config MaxBatchRequeue=4; node n[1-3] cpus 8; job 1 pending");
    j = state_job(g.s, 1);
    for (uint32_t i = 1; i <= 4; i++) {
        int64_t before = g.s->wall_ms / 1000;

        snprintf(name, sizeof name, "n%u", i % 2 + 1);
        ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, name, "0"), 1);
        ck_assert_int_eq(do_failed(&g, 1, name, i), 0);
        ck_assert_int_eq(job_phase(j), PHASE_REQUEUEING);
        do_report(&g, 1, GONE, name, i, 0);
        ck_assert_int_eq(j->state, JOB_PENDING);
        ck_assert_int_eq(j->begin_wall_s - before, 2 << i);         /* later each time */
        ck_assert_int_eq(j->held_by_user, i == 4);
        stage_wait(&g, 3600);
    }
    ck_assert_str_eq(j->reason_text, "launch failed requeued held");
    ck_assert_int_eq(do_update(&g, 1, NULL, RELEASE, NULL, NULL, false), 0);
    ck_assert(!j->held_by_user && !j->launch_fails && j->reason == REASON_None);
    /* The third failure in a row of one node: it takes no more. */
    ck_assert_uint_eq(g.s->nodes[1].launch_fails, 2);
    g.twin = stage_copy(&g);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n2", "0"), 1);
    ck_assert_int_eq(do_failed(&g, 1, "n2", 5), 0);
    ck_assert(g.s->nodes[1].flags & NODE_FLAG_DRAIN);
    ck_assert_str_eq(g.s->nodes[1].reason, "3 launches in a row have failed: no answer");
    do_report(&g, 1, GONE, "n2", 5, 0);
    stage_wait(&g, 3600);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n2", "0"), SPUR_ESTALE);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);
    do_report(&g, 1, STARTED, "n1", 6, 0);
    ck_assert(!j->launch_fails && !g.s->nodes[0].launch_fails);
    stage_close(&g);
}
END_TEST

START_TEST(reboots)
{
    struct stage g;
    struct node *n;

    stage_open(&g, "node n1 cpus 8 mem 16000; node n2 cpus 8 mem 16000; job 1 running n1 cores 0; job 2 pending");
    n = &g.s->nodes[0];
    do_register(&g, "n1", 16000, 8, "boot-a", NULL);
    state_job(g.s, 1)->restarts = 0;
    ck_assert_int_eq(do_start(&g, 2, UINT32_MAX, "n2", "0"), 2);
    do_register(&g, "n2", 16000, 8, "boot-a", NULL);
    ck_assert_int_eq(do_reboot(&g, "n9", false, NULL, false), SPUR_ENOTFOUND);
    ck_assert_int_eq(do_reboot(&g, "n1", true, NULL, true), SPUR_EINVAL);       /* nothing to cancel */
    ck_assert_int_eq(do_reboot(&g, "n1", true, NULL, false), 0);
    ck_assert(n->flags & NODE_FLAG_REBOOT_REQUESTED && n->flags & NODE_FLAG_DRAIN);
    ck_assert_str_eq(n->reason, "Reboot ASAP");
    ck_assert_int_eq(do_reboot(&g, "n1", false, NULL, true), 0);
    ck_assert(!(n->flags & (NODE_FLAG_REBOOT_REQUESTED | NODE_FLAG_DRAIN)) && !n->reason);
    ck_assert_int_eq(do_reboot(&g, "n1", true, NULL, false), 0);
    ck_assert_uint_eq(stage_events(&g, EV_NODE_REBOOT), 0);
    g.twin = stage_copy(&g);
    do_report(&g, 1, STARTED, "n1", 1, 0);
    do_report(&g, 1, ENDED, "n1", 1, 0);
    do_report(&g, 1, GONE, "n1", 1, 0);                 /* empty: now */
    ck_assert_uint_eq(stage_events(&g, EV_NODE_REBOOT), 1);
    ck_assert(n->base == NODE_DOWN && n->flags & NODE_FLAG_REBOOT_ISSUED);
    do_register(&g, "n1", 16000, 8, "boot-a", NULL);    /* the agent is back, the machine has not been away */
    ck_assert(n->base == NODE_DOWN && n->flags & NODE_FLAG_REBOOT_ISSUED);
    ck_assert_int_eq(do_reboot(&g, "n1", false, NULL, true), SPUR_EINVAL);
    do_register(&g, "n1", 16000, 8, "boot-b", NULL);
    ck_assert_uint_eq(n->base, NODE_IDLE);
    ck_assert_uint_eq(n->flags, 0);
    ck_assert_ptr_null(n->reason);
    /* nextstate=DOWN, and one that does not come back. */
    ck_assert_int_eq(do_reboot(&g, "n1", false, "DOWN", false), 0);
    ck_assert_uint_eq(stage_events(&g, EV_NODE_REBOOT), 1);
    do_register(&g, "n1", 16000, 8, "boot-c", NULL);
    ck_assert_uint_eq(n->base, NODE_DOWN);
    ck_assert_uint_eq(n->flags, 0);
    ck_assert_int_eq(do_set(&g, "n1", "RESUME"), 0);
    ck_assert_uint_eq(n->base, NODE_IDLE);
    ck_assert_int_eq(do_reboot(&g, "n1", false, "RESUME", false), 0);
    ck_assert_int_eq(do_lost(&g, "n1"), 0);
    ck_assert_uint_eq(n->base, NODE_DOWN);
    ck_assert(!(n->flags & NODE_FLAG_REBOOT_ISSUED));
    ck_assert_str_eq(n->reason, "reboot timed out");
    ck_assert_int_eq(do_set(&g, "n1", "POWER_DOWN"), SPUR_EUNSUPPORTED);
    stage_close(&g);
}
END_TEST

Suite *survive_suite(void)
{
    Suite *s = suite_create("survive");
    TCase *c = tcase_create("suspended, replaced, refused, rebooted");

    tcase_add_test(c, suspended);
    tcase_add_test(c, suspended_then);
    tcase_add_test(c, spare_takes_over);
    tcase_add_test(c, spare_keeps_the_number);
    tcase_add_test(c, launches_fail);
    tcase_add_test(c, reboots);
    suite_add_tcase(s, c);
    return s;
}
