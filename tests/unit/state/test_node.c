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

START_TEST(every_partition_keyword)
{
    static const struct { const char *key, *value; bool good; } rows[] = {
        { "State", "DRAIN", true }, { "State", "AWAY", false }, { "MaxTime", "1-0", true }, { "MaxTime", "soon", false }, { "DefaultTime", "NONE", true }, { "DefaultTime", "30", true },
        { "MaxNodes", "UNLIMITED", true }, { "MaxNodes", "-1", true }, { "MaxNodes", "few", false }, { "MinNodes", "1", true }, { "MaxCPUsPerNode", "4", true }, { "MaxCPUsPerSocket", "2", true },
        { "Nodes", "n1", true }, { "Nodes", "n9", false }, { "Nodes", "n[", false }, { "Nodes", "ALL", true }, { "Default", "YES", true }, { "Default", "perhaps", false }, { "Hidden", "yes", true },
        { "RootOnly", "no", true }, { "ReqResv", "no", true }, { "LLN", "YES", true }, { "ExclusiveUser", "NO", true }, { "DisableRootJobs", "YES", true }, { "OverSubscribe", "FORCE:3", true },
        { "OverSubscribe", "YES", true }, { "OverSubscribe", "EXCLUSIVE", true }, { "OverSubscribe", "NO", true }, { "OverSubscribe", "NO:3", false }, { "Shared", "MAYBE", false },
        { "PriorityTier", "9", true }, { "PriorityJobFactor", "8", true }, { "Priority", "7", true }, { "Priority", "99999", false }, { "GraceTime", "5", true }, { "OverTimeLimit", "5", true },
        { "OverTimeLimit", "UNLIMITED", true }, { "DefMemPerCPU", "1000", true }, { "DefMemPerNode", "2G", true }, { "MaxMemPerCPU", "UNLIMITED", true }, { "MaxMemPerNode", "much", false },
        { "AllowGroups", "a,b", true }, { "AllowAccounts", "ALL", true }, { "AllowQos", "q", true }, { "DenyAccounts", "x", true }, { "DenyQos", "y", true }, { "AllocNodes", "login", true },
        { "Alternate", "main", true }, { "Alternate", "none", false }, { "QOS", "q", true }, { "PreemptMode", "OFF", true }, { "CpuBind", "core", true }, { "TRESBillingWeights", "CPU=1", true },
        { "Colour", "red", false } };
    Wire__KeyValue kv = WIRE__KEY_VALUE__INIT, *set = &kv;
    Wire__PartitionUpdateRequest request = WIRE__PARTITION_UPDATE_REQUEST__INIT;
    Wire__OpPartition partition = WIRE__OP_PARTITION__INIT;
    Wire__Op op = WIRE__OP__INIT;
    struct stage g;

    stage_open(&g, "node n[1-2] cpus 8");
    partition.update = &request;
    op.partition = &partition;
    request.name = (char *)"main";
    request.set = &set;
    request.n_set = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int rc;

        kv.key = (char *)rows[i].key;
        kv.value = (char *)rows[i].value;
        rc = stage_op(&g, &op);
        ck_assert_msg((rc == 0) == rows[i].good, "%s=%s gives %d %s", rows[i].key, rows[i].value, rc, g.last.results[0].text ? g.last.results[0].text : "");
        ck_assert(rc == 0 || *g.last.results[0].text);
        arena_reset(&g.arena);
        ck_assert_ptr_nonnull(partition_info(g.s, &g.s->config->partitions[0], &g.arena));
    }
    g.twin = stage_copy(&g);
    request.name = (char *)"night";
    request.has_create = request.create = 1;
    kv.key = (char *)"Nodes";
    kv.value = (char *)"n2";
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_int_eq(stage_op(&g, &op), SPUR_EEXISTS);
    ck_assert_str_eq(config_partition_find(g.s->config, "night")->nodes_text, "n2");
    request.has_create = request.create = 0;
    request.name = (char *)"day";
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ENOTFOUND);
    request.name = (char *)"night";
    request.has_delete_ = request.delete_ = 1;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    stage_close(&g);
}
END_TEST

START_TEST(every_node_keyword)
{
    static const struct { const char *key, *value; bool good; } rows[] = {
        { "Comment", "c", true }, { "Extra", "e", true }, { "InstanceId", "i", true }, { "InstanceType", "t", true }, { "Features", "a,b", true }, { "AvailableFeatures", "", true },
        { "Weight", "5", true }, { "Weight", "heavy", false }, { "NodeAddr", "10.0.0.1", true }, { "NodeHostName", "h", true }, { "Reason", "why", true }, { "State", "NORESP", true },
        { "State", "FAIL", true }, { "State", "UNDRAIN", true }, { "State", "RESUME", true }, { "State", "FUTURE", true }, { "Colour", "red", false } };
    Wire__KeyValue kv = WIRE__KEY_VALUE__INIT, *set = &kv;
    Wire__OpNodeUpdate update = WIRE__OP_NODE_UPDATE__INIT;
    Wire__Op op = WIRE__OP__INIT;
    struct stage g;

    stage_open(&g, "node n1 cpus 8 features old");
    g.twin = stage_copy(&g);
    update.node = (char *)"n1";
    update.set = &set;
    update.n_set = 1;
    op.node_update = &update;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int rc;

        kv.key = (char *)rows[i].key;
        kv.value = (char *)rows[i].value;
        rc = stage_op(&g, &op);
        ck_assert_msg((rc == 0) == rows[i].good, "%s=%s gives %d %s", rows[i].key, rows[i].value, rc, g.last.results[0].text ? g.last.results[0].text : "");
        if (word_eq(rows[i].key, "Features"))
            ck_assert_str_eq(spur_view_node(state_view(g.s), 0)->features, "a,b");
    }
    ck_assert_str_eq(state_shown(&g, "n1", true), "FUTURE");
    update.node = (char *)"n2";
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ENOTFOUND);
    state_destroy(stage_copy(&g));
    stage_close(&g);
}
END_TEST

/* How the parts of a state read in sinfo. */
START_TEST(states_shown)
{
    static const struct { unsigned base; uint32_t flags; const char *compact, *full; } rows[] = {
        { NODE_IDLE, 0, "idle", "IDLE" }, { NODE_MIXED, 0, "mix", "MIXED" }, { NODE_ALLOCATED, 0, "alloc", "ALLOCATED" }, { NODE_ALLOCATED, NODE_FLAG_DRAIN, "drng", "ALLOCATED+DRAIN" },
        { NODE_IDLE, NODE_FLAG_DRAIN, "drain", "IDLE+DRAIN" }, { NODE_DOWN, NODE_FLAG_NO_RESPOND, "down*", "DOWN+NOT_RESPONDING" }, { NODE_UNKNOWN, 0, "unk", "UNKNOWN" },
        { NODE_IDLE, NODE_FLAG_CLOUD | NODE_FLAG_POWERED_DOWN, "idle~", "IDLE+CLOUD+POWERED_DOWN" }, { NODE_IDLE, NODE_FLAG_COMPLETING, "comp", "IDLE+COMPLETING" },
        { NODE_ALLOCATED, NODE_FLAG_COMPLETING, "alloc+", "ALLOCATED+COMPLETING" }, { NODE_IDLE, NODE_FLAG_FAIL, "fail", "IDLE+FAIL" }, { NODE_MIXED, NODE_FLAG_FAIL, "failg", "MIXED+FAIL" },
        { NODE_IDLE, NODE_FLAG_INVALID_REG, "inval", "IDLE+INVALID_REG" }, { NODE_IDLE, NODE_FLAG_MAINT, "maint", "IDLE+MAINTENANCE" }, { NODE_IDLE, NODE_FLAG_RESERVED, "resv", "IDLE+RESERVED" },
        { NODE_IDLE, NODE_FLAG_PLANNED, "plnd", "IDLE+PLANNED" }, { NODE_FUTURE, 0, "futr", "FUTURE" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str out;

        str_init(&out);
        node_state_print(rows[i].base, rows[i].flags, true, false, &out);
        ck_assert_str_eq(out.text, rows[i].compact);
        str_clear(&out);
        node_state_print(rows[i].base, rows[i].flags, false, true, &out);
        ck_assert_str_eq(out.text, rows[i].full);
        str_fini(&out);
    }
}
END_TEST

/* --no-kill: an allocation outlives a node that is not its script's. */
START_TEST(outlives_a_node)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__OpStart start = WIRE__OP_START__INIT;
    Wire__NodeAlloc allocs[2] = { WIRE__NODE_ALLOC__INIT, WIRE__NODE_ALLOC__INIT }, *list[] = { &allocs[0], &allocs[1] };
    Wire__StepSpec step = WIRE__STEP_SPEC__INIT;
    Wire__OpStep o = WIRE__OP_STEP__INIT;
    Wire__Op op = WIRE__OP__INIT, step_op = WIRE__OP__INIT;
    uint64_t core = 1;
    uint8_t hash[32] = "environment";
    struct stage g;

    stage_open(&g, "node n[1-2] cpus 8");
    spec.has_no_kill = spec.no_kill = 1;
    ck_assert_int_eq(do_submit(&g, &spec, 1000), 1);
    for (int i = 0; i < 2; i++) {
        allocs[i].node = (uint32_t)i;
        allocs[i].name = g.s->nodes[i].conf->name;
        allocs[i].cores = &core;
        allocs[i].n_cores = 1;
        allocs[i].has_cpus = 1;
        allocs[i].cpus = 1;
    }
    start.job_id = 1;
    start.allocs = list;
    start.n_allocs = 2;
    op.start = &start;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    o.job_id = 1;
    o.spec = &step;
    o.allocs = list;
    o.n_allocs = 2;
    o.has_env_hash = 1;
    o.env_hash = (ProtobufCBinaryData){ 32, hash };
    step_op.step = &o;
    ck_assert_int_eq(stage_op(&g, &step_op), 0);
    ck_assert(state_blob_used(g.s, hash));
    g.twin = stage_copy(&g);
    ck_assert_int_eq(do_lost(&g, "n2", false), 0);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_RUNNING);
    ck_assert(state_job(g.s, 1)->alloc_count == 1 && !state_job(g.s, 1)->allocs[0].gone);
    ck_assert_str_eq(state_job(g.s, 1)->nodes, "n1");           /* it has left the allocation */
    ck_assert_uint_eq(state_job(g.s, 1)->steps->ended_nodes, 1);
    ck_assert_int_eq(stage_op(&g, &step_op), SPUR_ESTALE);      /* a step on the lost node */
    stage_check(&g);
    ck_assert_int_eq(do_lost(&g, "n1", false), 0);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_NODE_FAIL);
    ck_assert_int_eq(job_phase(state_job(g.s, 1)), PHASE_ENDED);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

/* A step of two nodes is over when both have ended, and then its state says the worst that has happened on either. */
START_TEST(step_of_two_nodes)
{
    static const struct { bool oom, timed_out; int status; enum job_state state; } table[] = {
        { false, false, 0, JOB_COMPLETE }, { false, false, 256, JOB_FAILED }, { true, false, 9, JOB_OOM }, { false, true, 15, JOB_TIMEOUT }, { true, true, 9, JOB_OOM } };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
        Wire__OpStart start = WIRE__OP_START__INIT;
        Wire__NodeAlloc allocs[2] = { WIRE__NODE_ALLOC__INIT, WIRE__NODE_ALLOC__INIT }, *list[] = { &allocs[0], &allocs[1] };
        Wire__StepSpec step = WIRE__STEP_SPEC__INIT;
        Wire__OpStep o = WIRE__OP_STEP__INIT;
        Wire__Report report = WIRE__REPORT__INIT;
        Wire__OpReport r = WIRE__OP_REPORT__INIT;
        Wire__Op op = WIRE__OP__INIT, step_op = WIRE__OP__INIT, report_op = WIRE__OP__INIT;
        uint64_t core = 1;
        struct stage g;

        stage_open(&g, "node n[1-2] cpus 8");
        ck_assert_int_eq(do_submit(&g, &spec, 1000), 1);
        for (int k = 0; k < 2; k++) {
            allocs[k].node = (uint32_t)k;
            allocs[k].name = g.s->nodes[k].conf->name;
            allocs[k].cores = &core;
            allocs[k].n_cores = 1;
            allocs[k].has_cpus = 1;
            allocs[k].cpus = 1;
        }
        o.job_id = start.job_id = 1;
        o.allocs = start.allocs = list;
        o.n_allocs = start.n_allocs = 2;
        o.spec = &step;
        op.start = &start;
        step_op.step = &o;
        ck_assert_int_eq(stage_op(&g, &op), 0);
        ck_assert_int_eq(stage_op(&g, &step_op), 0);
        g.twin = stage_copy(&g);
        report.kind = WIRE__REPORT__KIND__ENDED;
        report.job_id = 1;
        report.has_step_id = report.has_status = 1;
        report.attempt = state_job(g.s, 1)->attempt;
        report.node = (char *)"n2";
        report.status = table[i].status;
        report.has_oom = report.has_timed_out = 1;
        report.oom = table[i].oom;
        report.timed_out = table[i].timed_out;
        report.seq = 1;
        r.report = &report;
        report_op.report = &r;
        ck_assert_int_eq(stage_op(&g, &report_op), 0);
        ck_assert_int_eq(state_job(g.s, 1)->steps->state, JOB_RUNNING);
        ck_assert_uint_eq(stage_events(&g, EV_STEP_ENDED), 0);
        report.node = (char *)"n1";
        report.status = 0;
        report.oom = report.timed_out = 0;
        report.seq = 2;
        ck_assert_int_eq(stage_op(&g, &report_op), 0);
        ck_assert_int_eq(state_job(g.s, 1)->steps->state, table[i].state);
        ck_assert_uint_eq(stage_events(&g, EV_STEP_ENDED), 1);
        stage_check(&g);
        stage_close(&g);
    }
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
    tcase_add_test(c, every_partition_keyword);
    tcase_add_test(c, every_node_keyword);
    tcase_add_test(c, states_shown);
    tcase_add_test(c, outlives_a_node);
    tcase_add_test(c, step_of_two_nodes);
    tcase_add_test(c, shared_cores_by_thread);
    suite_add_tcase(s, c);
    return s;
}
