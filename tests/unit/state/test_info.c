/* SPDX-License-Identifier: Apache-2.0 */
/* test_info.c - what people see of jobs, steps, nodes and partitions; output names and resource texts. */
#include "base/duration.h"
#include "test_state.h"

START_TEST(paths)
{
    static const struct { const char *pattern, *dir, *want; } rows[] = {
        { "slurm-%j.out", "/w", "/w/slurm-12.out" }, { "%x.%A_%a", "/w/", "/w/name.10_3" }, { "/abs/%u", "/w", "/abs/me" }, { "%8j|%3a", "/w", "/w/00000012|003" },
        { "%%x", "/w", "/w/%x" }, { "%N-%n-%t", "/w", "/w/%N-%n-%t" }, { "a\\%j", "/w", "/w/a%j" }, { "%q%", "/w", "/w/%q%" }, { "%J", "/w", "/w/12" }, { "%99j", "/w", "/w/0000000012" },
        { "", "/w", "" } };
    struct path_ids ids = { .job_id = 12, .array_job_id = 10, .array_task_id = 3, .user = "me", .job_name = "name" };
    struct path_ids step = { .job_id = 12, .array_task_id = UINT32_MAX, .step_id = 4, .has_step = true, .node = "n7.site", .short_host = "n7", .node_rank = 2, .has_node = true,
                             .task = 5, .has_task = true, .user = "me", .job_name = "name" };
    struct str out;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str_init(&out);
        path_expand(rows[i].pattern, rows[i].dir, &ids, &out);
        ck_assert_str_eq(out.text, rows[i].want);
        str_fini(&out);
    }
    str_init(&out);
    path_expand("%J-%s-%N-%n-%t-%A-%a-%b", "/w", &step, &out);
    ck_assert_str_eq(out.text, "/w/12.4-4-n7-2-5-12-4294967294-0");
    str_fini(&out);
}
END_TEST

START_TEST(resources)
{
    static const struct { const char *text, *want; } rows[] = {
        { "gpu:2", "gpu::2" }, { "gres:gpu:a100:4,gres:lustre:1", "gpu:a100:4 lustre::1" }, { "gres/gpu=2", "gpu::2" }, { "gres/gpu:h100=3", "gpu:h100:3" }, { "gpu", "gpu::1" },
        { "gpu:a100", "gpu:a100:1" }, { "mem:2K", "mem::2048" }, { "gpu:8(S:0-1)", "gpu::8" }, { "", "" }, { "gpu:", NULL }, { ":2", NULL }, { "gpu:a100:x", NULL }, { "gpu=x", NULL } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tres_row *list = NULL;
        size_t count = 0;
        struct spur_error err;
        struct str out;
        int rc = tres_parse(rows[i].text, &list, &count, &err);

        ck_assert_msg((rc == 0) == (rows[i].want != NULL), "%s", rows[i].text);
        if (rc < 0)
            continue;
        str_init(&out);
        for (size_t k = 0; k < count; k++)
            str_addf(&out, "%s%s:%s:%llu", k ? " " : "", list[k].name, list[k].type ? list[k].type : "", (unsigned long long)list[k].count);
        ck_assert_str_eq(out.text, rows[i].want);
        str_fini(&out);
        tres_free(list, count);
    }
}
END_TEST

START_TEST(pending_job)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    struct stage g;
    Wire__JobInfo *m;

    stage_open(&g, "node n1 cpus 8 gpus 4; node n2 cpus 8 gpus 4");
    spec.name = (char *)"train";
    spec.work_dir = (char *)"/home/me";
    spec.std_out = (char *)"out-%x-%j";
    spec.has_is_batch = spec.is_batch = 1;
    spec.has_min_nodes = spec.has_max_nodes = 1;
    spec.min_nodes = spec.max_nodes = 2;
    spec.has_ntasks = 1;
    spec.ntasks = 4;
    spec.has_mem_per_node_mib = 1;
    spec.mem_per_node_mib = 4096;
    spec.tres_per_node = (char *)"gres:gpu:4";
    spec.tres_per_task = (char *)"gres:gpu:2";          /* how they are shared out, no more of them */
    spec.has_hold = spec.hold = 1;
    spec.has_time_limit_min = 1;
    spec.time_limit_min = 60;
    ck_assert_int_eq(do_submit(&g, &spec, 1000), 1);
    arena_reset(&g.arena);
    m = job_info(g.s, state_job(g.s, 1), ~UINT64_C(0), g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(m->reason, "JobHeldUser");
    ck_assert_uint_eq(m->priority, 0);
    ck_assert_uint_eq(m->num_nodes, 2);
    ck_assert(m->has_num_nodes_max && m->num_nodes_max == 2);
    ck_assert_uint_eq(m->num_cpus, 4);
    ck_assert_str_eq(m->req_tres, "cpu=4,mem=8G,node=2,billing=4,gres/gpu=8");
    ck_assert_ptr_null(m->alloc_tres);
    ck_assert_str_eq(m->std_out, "/home/me/out-train-1");
    ck_assert_str_eq(m->std_err, m->std_out);
    ck_assert_str_eq(m->std_in, "/dev/null");
    ck_assert_str_eq(m->partition, "main");
    ck_assert_str_eq(m->name, "train");
    ck_assert_str_eq(m->spec->tres_per_node, "gres:gpu:4");
    ck_assert_int_eq(m->start_wall_s, 0);
    do_update(&g, 1, NULL, WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE, NULL, NULL, true);
    m = job_info(g.s, state_job(g.s, 1), 0, g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(m->reason, "None");
    state_job(g.s, 1)->advice = REASON_Resources;
    m = job_info(g.s, state_job(g.s, 1), 0, g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(m->reason, "Resources");
    ck_assert_ptr_null(m->spec);
    do_update(&g, 1, NULL, 0, "StartTime", "1800000000", true);
    m = job_info(g.s, state_job(g.s, 1), 0, g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(m->reason, "BeginTime");
    ck_assert_int_eq(m->start_wall_s, 1800000000);
    ck_assert_int_eq(m->end_wall_s, 1800003600);
    stage_close(&g);
}
END_TEST

START_TEST(running_job)
{
    struct stage g;
    Wire__JobInfo *m;
    Wire__NodeInfo *n;
    Wire__OpStart start = WIRE__OP_START__INIT;
    Wire__NodeAlloc allocs[3], *list[3];
    Wire__Op op = WIRE__OP__INIT;
    uint64_t cores[3] = { 0xff, 0xff, 0x3 };

    stage_open(&g, "node n[1-3] cpus 8 gpus 4; job 1 pending tasks 9 time 10; job 2 running n3 cores 7 gpus 1,3");
    for (int i = 0; i < 3; i++) {
        wire__node_alloc__init(&allocs[i]);
        list[i] = &allocs[i];
        allocs[i].node = (uint32_t)i;
        allocs[i].name = g.s->nodes[i].conf->name;
        allocs[i].cores = &cores[i];
        allocs[i].n_cores = 1;
        allocs[i].has_cpus = allocs[i].has_tasks = allocs[i].has_mem_mib = 1;
        allocs[i].cpus = (uint32_t)__builtin_popcountll(cores[i]);
        allocs[i].tasks = i < 2 ? 4 : 1;
        allocs[i].mem_mib = 1000;
    }
    start.job_id = 1;
    start.allocs = list;
    start.n_allocs = 3;
    start.partition = (char *)"main";
    start.why = (char *)"fills";
    start.leaves = (char *)"s[1-2]";
    start.has_share_permille = 1;
    start.share_permille = 750;
    op.start = &start;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    stage_wait(&g, 65);
    m = job_info(g.s, state_job(g.s, 1), ~UINT64_C(0), g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(m->nodes, "n[1-3]");
    ck_assert_str_eq(m->batch_host, "n1");
    ck_assert_str_eq(m->cpus_per_node, "8(x2),2");
    ck_assert_str_eq(m->tasks_per_node, "4(x2),1");
    ck_assert_str_eq(m->alloc_tres, "cpu=18,mem=3000M,node=3,billing=18");
    ck_assert_int_eq(m->run_s, 65);
    ck_assert_int_eq(m->end_wall_s, m->start_wall_s + 600);
    ck_assert_uint_eq(m->n_allocs, 3);
    ck_assert_str_eq(m->why_there, "fills");
    ck_assert_str_eq(m->leaves, "s[1-2]");
    ck_assert(m->has_share_permille && m->share_permille == 750);
    m = job_info(g.s, state_job(g.s, 2), JOB_FIELD_TRES, g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(m->gres_alloc, "gpu:2");
    ck_assert_str_eq(m->alloc_tres, "cpu=1,node=1,billing=1,gres/gpu=2");
    n = node_info(g.s, &g.s->nodes[2], NODE_FIELD_DETAILS, &g.arena);
    ck_assert_str_eq(n->gres, "gpu:4");
    ck_assert_str_eq(n->gres_used, "gpu:2(IDX:1,3)");
    ck_assert_str_eq(n->cfg_tres, "cpu=8,mem=16000M,billing=8,gres/gpu=4");
    ck_assert_str_eq(n->alloc_tres, "cpu=3,mem=1000M,gres/gpu=2");
    ck_assert_uint_eq(n->state, NODE_MIXED);
    ck_assert_str_eq(n->partitions, "main");
    ck_assert_uint_eq(node_info(g.s, &g.s->nodes[0], 0, &g.arena)->state, NODE_ALLOCATED);
    stage_close(&g);
}
END_TEST

START_TEST(partition)
{
    struct stage g;
    Wire__PartitionInfo *m;
    struct str out;

    stage_open(&g, "node n[1-2] cpus 8 gpus 4; partition p MaxTime=60 State=DRAIN");
    m = partition_info(g.s, &g.s->config->partitions[0], &g.arena);
    str_init(&out);
    for (size_t i = 0; i < m->n_show; i++)
        str_addf(&out, "%s%s=%s", i ? " " : "", m->show[i]->key, m->show[i]->value);
    ck_assert_str_eq(out.text, "PartitionName=p AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO "
                     "GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=01:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 "
                     "PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=DRAIN TotalCPUs=16 TotalNodes=2 SelectTypeParameters=NONE "
                     "JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=16,mem=32000M,node=2,billing=16,gres/gpu=8");
    str_fini(&out);
    ck_assert_uint_eq(m->total_cpus, 16);
    stage_close(&g);
}
END_TEST

START_TEST(steps)
{
    struct stage g;
    Wire__StepSpec spec = WIRE__STEP_SPEC__INIT;
    Wire__NodeAlloc alloc = WIRE__NODE_ALLOC__INIT, *list = &alloc;
    Wire__OpStep o = WIRE__OP_STEP__INIT;
    Wire__Report report = WIRE__REPORT__INIT;
    Wire__OpReport r = WIRE__OP_REPORT__INIT;
    Wire__OpCancel cancel = WIRE__OP_CANCEL__INIT;
    Wire__Op op = WIRE__OP__INIT, report_op = WIRE__OP__INIT, cancel_op = WIRE__OP__INIT;
    uint64_t cores = 0x3;
    Wire__StepInfo *m;

    stage_open(&g, "node n1 cpus 8; job 1 running n1 cores 0-3 alloc");
    spec.name = (char *)"work";
    alloc.name = (char *)"n1";
    alloc.cores = &cores;
    alloc.n_cores = 1;
    alloc.has_cpus = alloc.has_tasks = 1;
    alloc.cpus = alloc.tasks = 2;
    o.job_id = 1;
    o.spec = &spec;
    o.allocs = &list;
    o.n_allocs = 1;
    op.step = &o;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_uint_eq(g.last.results[0].step_id, 0);
    ck_assert_uint_eq(stage_events(&g, EV_STEP_CREATED), 1);
    m = step_info(g.s, state_job(g.s, 1), state_job(g.s, 1)->steps, g.s->wall_ms / 1000, &g.arena);
    ck_assert_str_eq(m->id_text, "1.0");
    ck_assert_str_eq(m->nodes, "n1");
    ck_assert_str_eq(m->tres, "cpu=2,node=1");
    cores = 0xf0;       /* what the job does not hold */
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ESTALE);
    cores = 0x6;        /* what the first step holds: placed before it was in the log */
    ck_assert_int_eq(stage_op(&g, &op), SPUR_ELATER);
    ck_assert_int_eq(g.last.results[0].slurm_errno, 2059);
    cores = 0x3;
    g.twin = stage_copy(&g);
    report.node = (char *)"n1";
    report.kind = WIRE__REPORT__KIND__ENDED;
    report.job_id = report.attempt = 1;
    report.has_step_id = report.has_status = 1;
    report.status = 3 << 8;
    r.report = &report;
    report_op.report = &r;
    ck_assert_int_eq(stage_op(&g, &report_op), 0);
    ck_assert_uint_eq(stage_events(&g, EV_STEP_ENDED), 1);
    ck_assert_int_eq(state_job(g.s, 1)->derived_status, 3 << 8);
    stage_op(&g, &report_op);
    ck_assert_uint_eq(stage_events(&g, EV_STEP_ENDED), 0);
    for (int i = 1; i < 100; i++) {
        ck_assert_int_eq(stage_op(&g, &op), 0);
        report.step_id = (uint32_t)i;
        report.status = 0;
        ck_assert_int_eq(stage_op(&g, &report_op), 0);
        ck_assert_uint_eq(stage_events(&g, EV_STEP_ENDED), 1);
        ck_assert_ptr_nonnull(job_step(state_job(g.s, 1), (uint32_t)i));
    }
    ck_assert_ptr_null(job_step(state_job(g.s, 1), 5));     /* old ones are dropped */
    cancel.job_id = 1;
    cancel.has_finish = cancel.finish = 1;
    cancel_op.cancel = &cancel;
    ck_assert_int_eq(stage_op(&g, &cancel_op), 0);
    ck_assert_int_eq(state_job(g.s, 1)->state, JOB_FAILED);
    ck_assert_int_eq(state_job(g.s, 1)->exit_status, 3 << 8);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

/* A cut or changed snapshot is refused, or is the state it was. */
START_TEST(damaged_snapshot)
{
    struct stage g;
    uint8_t *bytes, digest[32], other[32];
    size_t len;

    stage_open(&g, "node n1 cpus 8 gpus 2; job 1 pending array 0-9; job 2 running n1 cores 0 gpus 1; job 3 pending dependency afterok:2");
    bytes = stage_bytes(&g, &len);
    state_digest(g.s, digest);
    for (size_t cut = 0; cut < len; cut += 7)
        ck_assert_ptr_null(stage_load(bytes, cut));
    for (size_t i = 0; i < len; i++) {
        struct state *s;

        bytes[i] ^= 0x10;
        s = stage_load(bytes, len);     /* the store sums the bytes; here it only must not go wrong */
        if (s)
            state_digest(s, other);
        state_destroy(s);
        bytes[i] ^= 0x10;
    }
    free(bytes);
    stage_close(&g);
}
END_TEST

START_TEST(overlays)
{
    struct stage g;
    struct overlay *o, *p;
    const struct spur_node_view *n;
    const struct job *j;
    const uint32_t *nodes;
    size_t count;

    stage_open(&g, "node n1 cpus 8 gpus 4; node n2 cpus 8 drain; job 1 running n1 cores 0-3 gpus 0,2");
    n = spur_view_node(state_view(g.s), 0);
    ck_assert_uint_eq(n->cpus_free, 4);
    ck_assert_uint_eq(n->core_free[0], 0xf0);
    ck_assert_uint_eq(n->gres[0].free_mask, 0xa);
    ck_assert_uint_eq(n->gres[0].used, 2);
    ck_assert_uint_eq(n->flags, SPUR_NODE_USABLE);
    ck_assert_uint_eq(spur_view_node(state_view(g.s), 1)->flags, SPUR_NODE_IDLE);
    j = state_job(g.s, 1);
    o = overlay_create(g.s);
    p = overlay_copy(o);
    overlay_release(o, j->allocs, j->alloc_count);
    n = spur_view_node(overlay_view(o), 0);
    ck_assert_uint_eq(n->cpus_free, 8);
    ck_assert_uint_eq(n->gres[0].free_mask, 0xf);
    ck_assert(n->flags & SPUR_NODE_IDLE);
    ck_assert_uint_eq(spur_view_node(overlay_view(p), 0)->cpus_free, 4);
    ck_assert_uint_eq(spur_view_node(state_view(g.s), 0)->cpus_free, 4);
    overlay_meet(o, p);
    ck_assert_uint_eq(n->cpus_free, 4);
    ck_assert_uint_eq(n->gres[0].free_mask, 0xa);
    overlay_take_allocs(o, j->allocs, j->alloc_count);
    ck_assert_uint_eq(n->core_free[0], 0xf0);
    overlay_destroy(o);
    overlay_destroy(p);
    o = overlay_create(g.s);
    overlay_release(o, j->allocs, j->alloc_count);
    state_node_away(g.s, state_node(g.s, "n1"), true);
    ck_assert(!(spur_view_node(state_view(g.s), 0)->flags & SPUR_NODE_USABLE));
    n = spur_view_node(overlay_view(o), 0);
    ck_assert(n->flags & SPUR_NODE_USABLE);
    ck_assert(overlay_follow(o, g.s, &nodes, &count));      /* the node that changed is as in the base again, whatever was released on it */
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(nodes[0], 0);
    ck_assert(!(n->flags & SPUR_NODE_USABLE));
    ck_assert_uint_eq(n->cpus_free, 4);
    ck_assert_uint_eq(n->core_free[0], 0xf0);
    ck_assert_uint_eq(n->gres[0].free_mask, 0xa);
    ck_assert(overlay_follow(o, g.s, &nodes, &count));
    ck_assert_uint_eq(count, 0);
    overlay_destroy(o);
    ck_assert(node_may_start(state_node(g.s, "n1")));      /* advice of the leader: apply does not know it */
    stage_close(&g);
}
END_TEST

Suite *info_suite(void)
{
    Suite *s = suite_create("info");
    TCase *c = tcase_create("what people see");

    tcase_add_test(c, paths);
    tcase_add_test(c, resources);
    tcase_add_test(c, pending_job);
    tcase_add_test(c, running_job);
    tcase_add_test(c, partition);
    tcase_add_test(c, steps);
    tcase_add_test(c, damaged_snapshot);
    tcase_add_test(c, overlays);
    suite_add_tcase(s, c);
    return s;
}
