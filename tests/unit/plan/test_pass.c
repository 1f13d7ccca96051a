/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass.c - the main pass: order, partitions, reasons, arrays, wake-ups. */
#include <check.h>
#include <string.h>

#include "rig.h"

static const char four[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\n"
    "NodeName=n[1-4] CPUs=4 RealMemory=1000 Feature=any State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES MaxTime=60 State=UP\n";
static const char tiers[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\n"
    "NodeName=n[1-4] CPUs=4 RealMemory=1000 State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES MaxTime=60 MaxNodes=2\n"
    "PartitionName=high Nodes=n[1-2] PriorityTier=10\nPartitionName=low Nodes=n[3-4]\nPartitionName=off Nodes=ALL State=DOWN\nPartitionName=idle Nodes=ALL State=INACTIVE\n";

START_TEST(temporary_disk_is_what_the_line_says)
{
    struct rig r;
    uint32_t small, large, huge;

    rig_init(&r, "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\n"
        "NodeName=n1 CPUs=4\nNodeName=n2 CPUs=4 TmpDisk=1000\nPartitionName=p Nodes=ALL Default=YES\n");
    large = rig_submit(&r, "tasks=1 tmp=1000");
    small = rig_submit(&r, "tasks=1");
    huge = rig_submit(&r, "tasks=1 tmp=1001");
    rig_pass(&r);
    ck_assert_uint_eq(state_job(r.s, large)->allocs[0].node, 1);
    ck_assert_uint_eq(state_job(r.s, small)->allocs[0].node, 0);
    ck_assert_str_eq(rig_state(&r, huge), "PENDING");
    rig_fini(&r);
}
END_TEST

static const char leaves[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\nTopologyPlugin=topology/tree\n"
    "SchedulerParameters=max_switch_wait=100\nNodeName=n[1-6] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\nPartitionName=own Nodes=ALL ExclusiveTopo=YES\n"
    TOPOLOGY_BEGINS "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=c Nodes=n[5-6]\nSwitchName=top Switches=a,b,c\n";

START_TEST(a_leaf_for_one_job_alone)
{
    struct rig r;
    uint32_t first, alone, second, own, late;

    rig_init(&r, leaves);
    first = rig_submit(&r, "tasks=1");
    alone = rig_submit(&r, "tasks=1 topo");
    second = rig_submit(&r, "tasks=8");         /* seven CPUs are left under the first leaf */
    own = rig_submit(&r, "tasks=1 part=own");
    rig_pass(&r);
    ck_assert_uint_eq(state_job(r.s, first)->allocs[0].node, 0);
    ck_assert_uint_eq(state_job(r.s, alone)->allocs[0].node, 2);
    ck_assert_str_eq(rig_state(&r, second), "RUNNING");
    for (uint32_t i = 0; i < state_job(r.s, second)->alloc_count; i++)
        ck_assert(state_job(r.s, second)->allocs[i].node < 2 || state_job(r.s, second)->allocs[i].node > 3);
    ck_assert_str_eq(rig_state(&r, own), "PENDING");        /* the last leaf has the second's task */
    ck_assert_str_eq(rig_reason(&r, own), "Resources");
    rig_end(&r, second, 0);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, own), "RUNNING");
    ck_assert_uint_eq(state_job(r.s, own)->allocs[0].node, 4);
    late = rig_submit(&r, "tasks=8");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, late), "PENDING");
    rig_end(&r, alone, 0);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, late), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(switches_are_waited_for_so_long)
{
    struct rig r;
    uint32_t a, b;

    rig_init(&r, leaves);
    rig_submit(&r, "nodes=1 excl w=n1");
    rig_submit(&r, "nodes=1 excl w=n3");
    rig_submit(&r, "nodes=1 excl w=n5");
    rig_pass(&r);
    a = rig_submit(&r, "nodes=2 excl switches=1");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, a), "PENDING");
    b = rig_submit(&r, "nodes=1 excl switches=1");
    rig_pass(&r);
    (void)b;
    ck_assert_int_le(plan_next_wall_ms(r.p), r.wall_ms + 101000);
    rig_clock(&r, 99);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, a), "PENDING");
    rig_clock(&r, 2);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, a), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(order_by_priority_then_id)
{
    struct rig r;
    uint32_t a, b, c, d;

    rig_init(&r, four);
    a = rig_submit(&r, "tasks=1 nice=10");
    b = rig_submit(&r, "tasks=1");
    c = rig_submit(&r, "tasks=1 prio=2000000");
    d = rig_submit(&r, "tasks=1");
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 4);
    ck_assert_uint_eq(r.started[0], c);
    ck_assert_uint_eq(r.started[1], b);
    ck_assert_uint_eq(r.started[2], d);
    ck_assert_uint_eq(r.started[3], a);
    rig_fini(&r);
}
END_TEST

START_TEST(ranks_are_asked_again_when_their_period_has_passed)
{
    struct rig r;
    uint32_t first, a, b;

    rig_init(&r, four);
    r.period = 60;
    first = rig_submit(&r, "nodes=4 excl");
    rig_pass(&r);
    a = rig_submit(&r, "nodes=4 excl nice=10");
    b = rig_submit(&r, "nodes=4 excl");
    rig_pass(&r);
    ck_assert_str_eq(rig_reason(&r, b), "Resources");
    r.turned = true;
    ck_assert_int_le(plan_next_wall_ms(r.p), r.wall_ms + 60000);
    rig_clock(&r, 61);
    rig_pass(&r);
    ck_assert_str_eq(rig_reason(&r, a), "Resources");
    ck_assert_str_eq(rig_reason(&r, b), "Priority");
    rig_end(&r, first, 0);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, a), "RUNNING");
    ck_assert_str_eq(rig_state(&r, b), "PENDING");
    ck_assert_int_gt(plan_next_wall_ms(r.p), r.wall_ms);
    rig_fini(&r);
}
END_TEST

START_TEST(a_head_that_waits_blocks_its_partition)
{
    struct rig r;
    uint32_t a, b, c;

    rig_init(&r, four);
    a = rig_submit(&r, "nodes=3 excl");
    b = rig_submit(&r, "nodes=2 excl");
    c = rig_submit(&r, "tasks=1");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, a), "RUNNING");
    ck_assert_str_eq(rig_reason(&r, b), "Resources");
    ck_assert_str_eq(rig_reason(&r, c), "Priority");
    rig_end(&r, a, 0);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, b), "RUNNING");
    ck_assert_str_eq(rig_state(&r, c), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(nothing_changes_nothing_is_asked)
{
    struct rig r;

    rig_init(&r, four);
    rig_submit(&r, "nodes=4 excl");
    for (int i = 0; i < 100; i++)
        rig_submit(&r, "nodes=4 excl");
    rig_pass(&r);
    rig_submit(&r, "nodes=4 excl");
    rig_pass(&r);
    r.places = 0;
    rig_pass(&r);
    ck_assert_uint_eq(r.places, 0);
    for (int i = 0; i < 100; i++) {
        rig_submit(&r, "nodes=4 excl");
        rig_pass(&r);
    }
    ck_assert_uint_eq(r.places, 0);     /* the head's answer is remembered; those behind it are not asked */
    rig_fini(&r);
}
END_TEST

START_TEST(partitions)
{
    struct rig r;
    uint32_t a, b, c, d, e, f;

    rig_init(&r, tiers);
    a = rig_submit(&r, "nodes=2 excl part=p");
    b = rig_submit(&r, "nodes=2 excl part=high");
    c = rig_submit(&r, "tasks=1 part=off");
    d = rig_submit(&r, "tasks=1 part=idle");
    e = rig_submit(&r, "nodes=3 part=p");
    f = rig_submit(&r, "nodes=1 time=61 part=p");
    rig_pass(&r);
    ck_assert_uint_eq(r.started[0], b);         /* the higher tier first */
    ck_assert_uint_eq(r.started[1], a);
    ck_assert_str_eq(rig_reason(&r, c), "PartitionDown");
    ck_assert_str_eq(rig_reason(&r, d), "PartitionInactive");
    ck_assert_str_eq(rig_reason(&r, e), "PartitionNodeLimit");
    ck_assert_str_eq(rig_reason(&r, f), "PartitionTimeLimit");
    rig_fini(&r);
}
END_TEST

START_TEST(several_partitions_are_tried_in_order_of_tier)
{
    struct rig r;
    uint32_t a, b;

    rig_init(&r, tiers);
    a = rig_submit(&r, "nodes=2 excl part=low,high");
    b = rig_submit(&r, "nodes=2 excl part=low,high");
    rig_pass(&r);
    ck_assert_str_eq(state_job(r.s, a)->partition, "high");
    ck_assert_str_eq(state_job(r.s, b)->partition, "low");
    rig_fini(&r);
}
END_TEST

START_TEST(a_blocked_tier_keeps_its_nodes)
{
    struct rig r;
    uint32_t a, b, c;

    rig_init(&r, tiers);
    a = rig_submit(&r, "nodes=1 excl part=high");
    rig_pass(&r);
    b = rig_submit(&r, "nodes=2 excl part=high");
    c = rig_submit(&r, "nodes=1 excl part=p w=n2");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, a), "RUNNING");
    ck_assert_str_eq(rig_reason(&r, b), "Resources");
    ck_assert_str_eq(rig_state(&r, c), "PENDING");
    rig_fini(&r);
}
END_TEST

static const struct { const char *wish, *reason; } reasons[] = {
    { "hold", "JobHeldUser" }, { "begin=3600", "BeginTime" }, { "dep=afterok:1", "Dependency" }, { "nodes=5", "BadConstraints" }, { "w=n4 nodes=1", "ReqNodeNotAvail" },
};

START_TEST(reasons_are_never_empty)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, four);
    rig_submit(&r, "tasks=1");
    rig_pass(&r);
    rig_node(&r, "n4", "State", "DRAIN");
    id = rig_submit(&r, reasons[_i].wish);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, id), "PENDING");
    ck_assert_str_eq(rig_reason(&r, id), reasons[_i].reason);
    rig_fini(&r);
}
END_TEST

START_TEST(reasons_follow_their_cause)
{
    struct rig r;
    uint32_t id, all;

    rig_init(&r, four);
    rig_node(&r, "n4", "State", "DRAIN");
    id = rig_submit(&r, "nodes=4");
    all = rig_submit(&r, "tasks=1");
    rig_pass(&r);
    ck_assert_str_eq(rig_reason(&r, id), "ReqNodeNotAvail");
    ck_assert_ptr_nonnull(strstr(state_job(r.s, id)->advice_text, "DOWN, DRAINED or reserved"));
    ck_assert_str_eq(rig_state(&r, all), "RUNNING");    /* nobody waits for a drained node */
    rig_node(&r, "n4", "State", "RESUME");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, id), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(a_node_without_a_connection)
{
    struct rig r;
    struct decisions d;
    uint32_t id;

    rig_init(&r, four);
    state_node_away(r.s, state_node(r.s, "n2"), true);
    id = rig_submit(&r, "nodes=4");
    rig_pass(&r);
    ck_assert_str_eq(rig_reason(&r, id), "ReqNodeNotAvail");
    state_node_away(r.s, state_node(r.s, "n2"), false);     /* no entry, no event */
    plan_pass(r.p, r.s, &r.plugins, r.wall_ms, r.cluster_ms, (struct plan_budget){ 100 }, &r.arena, &d);
    ck_assert_uint_eq(d.op_count, 1);
    ck_assert_uint_eq(d.ops[0]->start->job_id, id);
    rig_fini(&r);
}
END_TEST

START_TEST(begin_time_wakes)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, four);
    id = rig_submit(&r, "tasks=1 begin=100");
    rig_pass(&r);
    ck_assert_str_eq(rig_reason(&r, id), "BeginTime");
    ck_assert_int_le(plan_next_wall_ms(r.p), r.wall_ms + 100000);
    rig_clock(&r, 99);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, id), "PENDING");
    rig_clock(&r, 1);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, id), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(a_deadline_ends_a_job_that_waits)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, four);
    id = rig_submit(&r, "tasks=1 hold time=1 deadline=100");
    rig_pass(&r);
    rig_clock(&r, 40);              /* a minute is left */
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, id), "PENDING");
    rig_clock(&r, 1);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, id), "DEADLINE");
    rig_fini(&r);
}
END_TEST

START_TEST(dependencies)
{
    struct rig r;
    uint32_t a, b, c, d;

    rig_init(&r, four);
    a = rig_submit(&r, "tasks=1");
    b = rig_submit(&r, "tasks=1 dep=afterok:1");
    c = rig_submit(&r, "tasks=1 dep=afternotok:1");
    d = rig_submit(&r, "tasks=1 dep=afternotok:1 kill");
    rig_pass(&r);
    ck_assert_uint_eq(a, 1);
    ck_assert_uint_eq(r.started_count, 1);
    rig_end(&r, a, 0);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, b), "RUNNING");
    ck_assert_str_eq(rig_state(&r, c), "PENDING");
    ck_assert_str_eq(rig_reason(&r, c), "DependencyNeverSatisfied");
    ck_assert_str_eq(rig_state(&r, d), "CANCELLED");
    rig_fini(&r);
}
END_TEST

START_TEST(arrays_start_task_by_task)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, four);
    id = rig_submit(&r, "tasks=4 array=0-9");
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 4);
    for (uint32_t t = 0; t < 4; t++) {
        ck_assert_ptr_nonnull(state_array_task(r.s, id, t));
        rig_end(&r, state_array_task(r.s, id, t)->job_id, 0);
    }
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 4);
    for (uint32_t t = 4; t < 8; t++)
        rig_end(&r, state_array_task(r.s, id, t)->job_id, 0);
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 2);
    rig_fini(&r);
}
END_TEST

START_TEST(array_limit)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, four);
    id = rig_submit(&r, "tasks=1 array=0-9%3");
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 3);
    ck_assert_str_eq(rig_reason(&r, id), "JobArrayTaskLimit");
    rig_end(&r, r.started[0], 0);
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 1);
    rig_fini(&r);
}
END_TEST

START_TEST(small_slices_come_to_the_same)
{
    struct rig r;

    rig_init(&r, four);
    r.budget = 1;
    for (int i = 0; i < 20; i++)
        rig_submit(&r, "tasks=1");
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 16);
    rig_fini(&r);
}
END_TEST

START_TEST(requeued_and_cancelled)
{
    struct rig r;
    Wire__Op *op;
    uint32_t a, b;

    rig_init(&r, four);
    a = rig_submit(&r, "nodes=4 excl");
    b = rig_submit(&r, "nodes=4 excl");
    rig_pass(&r);
    op = rig_op(&r);
    op->cancel = arena_alloc(&r.arena, sizeof *op->cancel);
    wire__op_cancel__init(op->cancel);
    op->cancel->job_id = b;
    ck_assert_int_eq(rig_apply(&r, op, NULL), 0);
    rig_end(&r, a, 0);
    rig_pass(&r);
    ck_assert_uint_eq(r.started_count, 0);
    rig_fini(&r);
}
END_TEST

START_TEST(prefer_and_alternatives)
{
    struct rig r;
    uint32_t a, b, c;

    rig_init(&r, "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=n[1-2] CPUs=4 Feature=r1\nNodeName=n[3-5] CPUs=4 Feature=r2,fast\nPartitionName=p Nodes=ALL Default=YES\n");
    a = rig_submit(&r, "tasks=1 prefer=fast");
    b = rig_submit(&r, "nodes=3 feat=[r1|r2]");
    c = rig_submit(&r, "nodes=1 feat=r1&fast");
    rig_pass(&r);
    ck_assert_uint_eq(state_job(r.s, a)->allocs[0].node, 2);
    ck_assert_uint_eq(state_job(r.s, b)->allocs[0].node, 2);    /* all of one rack */
    ck_assert_uint_eq(state_job(r.s, b)->allocs[2].node, 4);
    ck_assert_str_eq(rig_state(&r, c), "PENDING");
    rig_fini(&r);
}
END_TEST

Suite *pass_suite(void);
Suite *pass_suite(void)
{
    Suite *s = suite_create("plan/pass");
    TCase *t = tcase_create("pass");

    tcase_add_test(t, temporary_disk_is_what_the_line_says);
    tcase_add_test(t, order_by_priority_then_id);
    tcase_add_test(t, a_leaf_for_one_job_alone);
    tcase_add_test(t, switches_are_waited_for_so_long);
    tcase_add_test(t, ranks_are_asked_again_when_their_period_has_passed);
    tcase_add_test(t, a_head_that_waits_blocks_its_partition);
    tcase_add_test(t, nothing_changes_nothing_is_asked);
    tcase_add_test(t, partitions);
    tcase_add_test(t, several_partitions_are_tried_in_order_of_tier);
    tcase_add_test(t, a_blocked_tier_keeps_its_nodes);
    tcase_add_loop_test(t, reasons_are_never_empty, 0, sizeof reasons / sizeof reasons[0]);
    tcase_add_test(t, reasons_follow_their_cause);
    tcase_add_test(t, a_node_without_a_connection);
    tcase_add_test(t, begin_time_wakes);
    tcase_add_test(t, a_deadline_ends_a_job_that_waits);
    tcase_add_test(t, dependencies);
    tcase_add_test(t, arrays_start_task_by_task);
    tcase_add_test(t, array_limit);
    tcase_add_test(t, small_slices_come_to_the_same);
    tcase_add_test(t, requeued_and_cancelled);
    tcase_add_test(t, prefer_and_alternatives);
    suite_add_tcase(s, t);
    return s;
}
