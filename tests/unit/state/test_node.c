/* SPDX-License-Identifier: Apache-2.0 */
/* test_node.c - nodes that register with less, are lost, come back, boot anew, run what they should not; and a configuration that changes under jobs. */
#include "test_state.h"

#define CONF_HEAD "ClusterName=t\nSlurmctldHost=c\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nReturnToService=1\n"

static char *state_shown(const struct stage *g, const char *name, bool full)
{
    static char text[80];
    const struct node *n = state_node(g->s, name);
    struct str out;

    str_init(&out);
    node_state_print(node_state_now(n), node_flags_now(n), true, full, &out);
    snprintf(text, sizeof text, "%s", out.text);
    str_fini(&out);
    return text;
}

static int do_lost(struct stage *g, const char *name, bool back)
{
    Wire__OpNodeLost lost = WIRE__OP_NODE_LOST__INIT;
    Wire__Op op = WIRE__OP__INIT;

    lost.node = (char *)name;
    lost.has_back = 1;
    lost.back = back;
    op.node_lost = &lost;
    return stage_op(g, &op);
}

static int do_node(struct stage *g, const char *name, const char *state, const char *reason)
{
    Wire__KeyValue kv[2] = { WIRE__KEY_VALUE__INIT, WIRE__KEY_VALUE__INIT }, *set[] = { &kv[0], &kv[1] };
    Wire__OpNodeUpdate update = WIRE__OP_NODE_UPDATE__INIT;
    Wire__Op op = WIRE__OP__INIT;

    kv[0].key = (char *)"State";
    kv[0].value = (char *)state;
    kv[1].key = (char *)"Reason";
    kv[1].value = (char *)reason;
    update.node = (char *)name;
    update.set = set;
    update.n_set = reason ? 2 : 1;
    update.user = (char *)"root";
    op.node_update = &update;
    return stage_op(g, &op);
}

static int do_config(struct stage *g, const char *text)
{
    Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;
    Wire__OpConfig config = WIRE__OP_CONFIG__INIT;
    Wire__Op op = WIRE__OP__INIT;

    files.slurm = (char *)text;
    config.files = &files;
    op.config = &config;
    return stage_op(g, &op);
}

START_TEST(registers_with_less)
{
    struct stage g;
    struct node *n;

    stage_open(&g, "node n1 cpus 8 mem 16000; job 1 pending");
    n = state_node(g.s, "n1");
    do_register(&g, "n1", 8000, 8, "b", NULL);
    ck_assert_str_eq(n->reason, "Low RealMemory (reported:8000 < 100.00% of configured:16000)");
    ck_assert_str_eq(state_shown(&g, "n1", true), "IDLE+DRAIN+INVALID_REG");
    ck_assert(n->reason_is_ours && !node_is_usable(n));
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), SPUR_ESTALE);
    do_register(&g, "n1", 16000, 8, "b", NULL);      /* the same check lifts it */
    ck_assert_ptr_null(n->reason);
    ck_assert_str_eq(state_shown(&g, "n1", true), "IDLE");
    ck_assert_int_eq(do_node(&g, "n1", "DRAIN", "broken fan"), 0);
    do_register(&g, "n1", 16000, 4, "b", NULL);
    ck_assert_str_eq(n->reason, "broken fan");
    do_register(&g, "n1", 16000, 8, "b", NULL);      /* an administrator's stays */
    ck_assert_str_eq(state_shown(&g, "n1", true), "IDLE+DRAIN");
    ck_assert_str_eq(state_shown(&g, "n1", false), "drain");
    ck_assert_str_eq(n->reason, "broken fan");
    ck_assert_int_eq(do_node(&g, "n1", "RESUME", NULL), 0);
    ck_assert_ptr_null(n->reason);
    ck_assert_int_eq(do_node(&g, "n1", "DRAIN", NULL), SPUR_EINVAL);
    ck_assert_int_eq(do_node(&g, "n1", "SLEEP", "x"), SPUR_EUNSUPPORTED);
    stage_close(&g);
}
END_TEST

START_TEST(lost_and_back)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8; job 1 running n1 cores 0");
    ck_assert_int_eq(do_lost(&g, "n1", false), 0);
    ck_assert_str_eq(state_shown(&g, "n1", true), "DOWN+NOT_RESPONDING");
    ck_assert_str_eq(state_shown(&g, "n1", false), "down*");
    ck_assert_str_eq(state_node(g.s, "n1")->reason, "Not responding");
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_PENDING);
    do_register(&g, "n1", 16000, 8, "b", NULL);
    ck_assert_str_eq(state_shown(&g, "n1", true), "IDLE");       /* ReturnToService=1 */
    ck_assert_int_eq(do_node(&g, "n1", "DOWN", "mine"), 0);
    do_register(&g, "n1", 16000, 8, "b", NULL);
    ck_assert_str_eq(state_shown(&g, "n1", true), "DOWN");       /* not lost: an administrator's word */
    ck_assert_int_eq(do_node(&g, "n1", "RESUME", NULL), 0);
    ck_assert_str_eq(state_shown(&g, "n1", true), "IDLE");
    stage_check(&g);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

START_TEST(boots_anew)
{
    struct stage g;
    Wire__RunningStep step = WIRE__RUNNING_STEP__INIT;

    stage_open(&g, "node n1 cpus 8; job 1 pending; job 2 pending");
    do_register(&g, "n1", 16000, 8, "boot-1", NULL);
    do_start(&g, 1, UINT32_MAX, "n1", "0");
    do_report(&g, 1, WIRE__REPORT__KIND__STARTED, "n1", 1, 0);
    step.job_id = 1;
    step.step_id = STEP_BATCH;
    step.attempt = 1;
    do_register(&g, "n1", 16000, 8, "boot-1", &step);        /* the agent was restarted: nothing is lost */
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_RUNNING);
    ck_assert_uint_eq(stage_events(&g, EV_ORPHAN), 0);
    do_start(&g, 2, UINT32_MAX, "n1", "1");
    do_register(&g, "n1", 16000, 8, "boot-1", &step);        /* 2 has not been confirmed: it is under way */
    ck_assert_int_eq(state_job(g.s, 2)->state, JOB_RUNNING);
    do_register(&g, "n1", 16000, 8, "boot-2", NULL);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_PENDING);
    ck_assert_int_eq(state_job(g.s, 2)->state, JOB_PENDING);
    ck_assert_str_eq(state_job(g.s, 1)->failed_node, "n1");
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(orphans_keep_a_node_closed)
{
    struct stage g;
    Wire__RunningStep step = WIRE__RUNNING_STEP__INIT;

    stage_open(&g, "node n1 cpus 8; job 1 pending");
    step.job_id = 77;
    step.step_id = STEP_BATCH;
    step.attempt = 3;
    do_register(&g, "n1", 16000, 8, "b", &step);
    ck_assert_uint_eq(stage_events(&g, EV_ORPHAN), 1);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), SPUR_ESTALE);
    g.twin = stage_copy(&g);
    do_report(&g, 77, WIRE__REPORT__KIND__GONE, "n1", 3, 0);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);
    do_report(&g, 1, WIRE__REPORT__KIND__STARTED, "n1", 9, 0);       /* another attempt than the present one */
    ck_assert_uint_eq(stage_events(&g, EV_ORPHAN), 1);
    stage_close(&g);
}
END_TEST

/* A job fails only when a node it runs on is gone; one that merely asked for it waits. */
START_TEST(node_taken_out)
{
    struct stage g;

    stage_open(&g, "node n[1-3] cpus 8; job 1 held; job 2 running n1 cores 0; job 3 running n3 cores 5; job 4 running n2 cores 1");
    state_job(g.s, 4)->requeue = false;
    ck_assert_int_eq(do_config(&g, CONF_HEAD "NodeName=n3,n1 CPUs=8 RealMemory=16000\nPartitionName=main Nodes=ALL Default=YES\n"), 0);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_PENDING);
    ck_assert_int_eq(state_job(g.s, 2)->state, JOB_RUNNING);
    ck_assert_int_eq(state_job(g.s, 3)->state, JOB_RUNNING);
    ck_assert_int_eq(state_job(g.s, 4)->state, JOB_NODE_FAIL);
    ck_assert_str_eq(state_job(g.s, 4)->nodes, "n2");
    ck_assert_uint_eq(state_node(g.s, "n3")->index, 0);
    ck_assert_uint_eq(state_job(g.s, 3)->allocs[0].node, 0);
    ck_assert(bitmap_test(&state_node(g.s, "n3")->cores_used, 5));
    ck_assert_uint_eq(state_node(g.s, "n1")->cpus_used, 1);
    stage_check(&g);
    g.twin = stage_copy(&g);
    do_report(&g, 3, WIRE__REPORT__KIND__ENDED, "n3", 1, 0);
    do_report(&g, 3, WIRE__REPORT__KIND__GONE, "n3", 1, 0);
    ck_assert_uint_eq(state_node(g.s, "n3")->cpus_used, 0);
    ck_assert_int_eq(do_config(&g, "nonsense"), g.last.results[0].code);
    ck_assert_int_lt(g.last.results[0].code, 0);
    ck_assert_uint_eq(g.s->node_count, 2);
    stage_close(&g);
}
END_TEST

START_TEST(what_scontrol_set_survives)
{
    struct stage g;
    Wire__KeyValue kv = WIRE__KEY_VALUE__INIT, *set = &kv;
    Wire__PartitionUpdateRequest request = WIRE__PARTITION_UPDATE_REQUEST__INIT;
    Wire__OpPartition partition = WIRE__OP_PARTITION__INIT;
    Wire__Op op = WIRE__OP__INIT;
    static const char text[] = CONF_HEAD "NodeName=n1 CPUs=8 RealMemory=16000 Weight=3\nPartitionName=main Nodes=ALL Default=YES\n";

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(do_config(&g, text), 0);
    ck_assert_int_eq(do_node(&g, "n1", "DRAIN", "x y"), 0);
    request.name = (char *)"main";
    request.set = &set;
    request.n_set = 1;
    kv.key = (char *)"MaxTime";
    kv.value = (char *)"90";
    partition.update = &request;
    op.partition = &partition;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_uint_eq(config_partition_find(g.s->config, "main")->max_time_min, 90);
    {   /* a restart keeps all of it */
        struct state *copy = stage_copy(&g);

        ck_assert_uint_eq(config_partition_find(copy->config, "main")->max_time_min, 90);
        ck_assert_str_eq(state_node(copy, "n1")->reason, "x y");
        ck_assert_str_eq(state_node(copy, "n1")->reason_user, "root");
        state_destroy(copy);
    }
    ck_assert_int_eq(do_config(&g, text), 0);       /* the same files once more */
    ck_assert_uint_eq(config_partition_find(g.s->config, "main")->max_time_min, 90);
    ck_assert_int_eq(do_config(&g, CONF_HEAD "NodeName=n1 CPUs=8 RealMemory=16000\nPartitionName=main Nodes=ALL Default=YES MaxTime=30\n"), 0);
    ck_assert_uint_eq(config_partition_find(g.s->config, "main")->max_time_min, 30);
    ck_assert_str_eq(state_node(g.s, "n1")->reason, "x y");
    kv.value = (char *)"soon";
    ck_assert_int_lt(stage_op(&g, &op), 0);
    request.has_delete_ = request.delete_ = 1;
    ck_assert_int_eq(do_simple(&g, "a", NULL, NULL), 1);
    ck_assert_int_eq(stage_op(&g, &op), 0);     /* the job names no partition */
    ck_assert_ptr_null(config_partition_find(g.s->config, "main"));
    stage_close(&g);
}
END_TEST

START_TEST(shared_cores_by_thread)
{
    struct stage g;
    struct node *n;

    stage_open(&g, "config SelectTypeParameters=CR_CPU; node n1 sockets 1 cores 2 threads 2; job 1 pending; job 2 pending; job 3 pending");
    n = state_node(g.s, "n1");
    ck_assert_uint_eq(n->conf->cpus, 4);
    ck_assert_int_eq(do_start(&g, 1, UINT32_MAX, "n1", "0"), 1);      /* one thread of core 0 */
    ck_assert_uint_eq(n->core_threads_used[0], 1);
    ck_assert(!bitmap_test(&n->cores_used, 0));
    ck_assert_uint_eq(spur_view_node(state_view(g.s), 0)->cpus_free, 3);
    ck_assert_int_eq(do_start(&g, 2, UINT32_MAX, "n1", "0-1"), 2);    /* the other one, and one of core 1 */
    ck_assert(bitmap_test(&n->cores_used, 0));
    ck_assert_int_eq(do_start(&g, 3, UINT32_MAX, "n1", "0"), SPUR_ESTALE);
    g.twin = stage_copy(&g);
    do_report(&g, 1, WIRE__REPORT__KIND__ENDED, "n1", 1, 0);
    do_report(&g, 1, WIRE__REPORT__KIND__GONE, "n1", 1, 0);
    ck_assert_uint_eq(n->core_threads_used[0], 1);
    ck_assert_int_eq(do_start(&g, 3, UINT32_MAX, "n1", "0"), 3);
    stage_close(&g);
}
END_TEST

Suite *node_suite(void)
{
    Suite *s = suite_create("node");
    TCase *c = tcase_create("nodes and configuration");

    tcase_add_test(c, registers_with_less);
    tcase_add_test(c, lost_and_back);
    tcase_add_test(c, boots_anew);
    tcase_add_test(c, orphans_keep_a_node_closed);
    tcase_add_test(c, node_taken_out);
    tcase_add_test(c, what_scontrol_set_survives);
    tcase_add_test(c, shared_cores_by_thread);
    suite_add_tcase(s, c);
    return s;
}
