/* SPDX-License-Identifier: Apache-2.0 */
/* test_het.c - heterogeneous jobs in both passes: all components or none, what they share, what they keep from others, and what blocks nobody. */
#include <check.h>
#include <string.h>

#include "plan/private.h"
#include "rig.h"

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\nSchedulerParameters=bf_resolution=1\n"
    "NodeName=n[1-4] CPUs=4 RealMemory=1000 State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES MaxTime=1000 State=UP\nPartitionName=q Nodes=n[1-2] MaxTime=1000 State=UP\n"
    "PartitionName=u Nodes=n[3-4] MaxTime=1000 State=UP\n";

static const char *states(struct rig *r, uint32_t id)
{
    static char text[128];

    text[0] = '\0';
    for (uint32_t k = 0; k < state_job(r->s, id)->het_count; k++) {
        strncat(text, rig_state(r, id + k), 16);
        strncat(text, " ", 2);
    }
    return text;
}

START_TEST(start_together)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, conf);
    id = rig_submit_het(&r, 3, (const char *const[]){ "nodes=2 excl time=10", "tasks=2 time=20 part=u", "tasks=1" });
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "RUNNING RUNNING RUNNING ");
    ck_assert_uint_eq(r.started_count, 1);          /* by one operation */
    ck_assert_int_eq(state_job(r.s, id)->start_cluster_ms, state_job(r.s, id + 2)->start_cluster_ms);
    ck_assert_str_eq(state_job(r.s, id + 1)->partition, "u");
    rig_fini(&r);
}
END_TEST

START_TEST(share_a_node)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, conf);
    rig_submit(&r, "nodes=3 excl time=100");
    rig_pass(&r);
    id = rig_submit_het(&r, 2, (const char *const[]){ "tasks=2 time=10", "tasks=2 time=10" });
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "RUNNING RUNNING ");
    ck_assert_uint_eq(state_job(r.s, id)->allocs[0].node, state_job(r.s, id + 1)->allocs[0].node);
    rig_fini(&r);
}
END_TEST

START_TEST(none_while_one_waits)
{
    struct rig r;
    uint32_t id, big, other, small;

    rig_init(&r, conf);
    big = rig_submit(&r, "part=u nodes=1 excl time=10");
    rig_pass(&r);
    id = rig_submit_het(&r, 2, (const char *const[]){ "nodes=1 excl time=10 part=q", "nodes=2 excl time=10 part=u" });
    other = rig_submit(&r, "part=u nodes=1 excl time=100");         /* would take what the second component waits for */
    small = rig_submit(&r, "part=u nodes=1 excl time=5");
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "PENDING PENDING ");
    ck_assert_str_eq(rig_state(&r, other), "PENDING");
    ck_assert_str_eq(rig_state(&r, small), "RUNNING");
    ck_assert_str_eq(rig_reason(&r, id), "Resources");
    ck_assert_str_eq(state_job(r.s, id)->sched_nodes, "n[1,3-4]");
    ck_assert_int_ge(state_job(r.s, id)->advice_start_wall_s, r.wall_ms / 1000 + 590);
    rig_end(&r, small, 0);
    rig_end(&r, big, 0);
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "RUNNING RUNNING ");
    ck_assert_str_eq(rig_state(&r, other), "PENDING");
    rig_fini(&r);
}
END_TEST

START_TEST(by_backfill)
{
    struct rig r;
    uint32_t id, late;

    rig_init(&r, conf);
    rig_submit(&r, "nodes=2 excl time=10");
    rig_pass(&r);
    rig_submit(&r, "nodes=4 excl time=10");
    late = rig_submit_het(&r, 2, (const char *const[]){ "nodes=1 excl time=5", "nodes=1 excl time=11" });   /* its second component would delay the one before */
    id = rig_submit_het(&r, 2, (const char *const[]){ "nodes=1 excl time=5", "nodes=1 excl time=9" });
    rig_pass(&r);
    ck_assert_str_eq(states(&r, late), "PENDING PENDING ");
    ck_assert_str_eq(states(&r, id), "RUNNING RUNNING ");
    ck_assert(r.by_backfill[0]);
    rig_fini(&r);
}
END_TEST

/* A component that could go anywhere does not take what the other one must have. */
START_TEST(the_choosy_one_first)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, conf);
    id = rig_submit_het(&r, 2, (const char *const[]){ "nodes=2 excl time=10 part=p", "nodes=2 excl time=10 part=q" });
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "RUNNING RUNNING ");
    rig_fini(&r);
}
END_TEST

START_TEST(another_partition_of_its_list)
{
    struct rig r;
    uint32_t id;

    rig_init(&r, conf);
    rig_submit(&r, "part=q nodes=2 excl time=100");
    rig_pass(&r);
    id = rig_submit_het(&r, 2, (const char *const[]){ "tasks=1 part=u", "nodes=1 part=q,u" });
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "RUNNING RUNNING ");
    ck_assert_str_eq(state_job(r.s, id + 1)->partition, "u");
    rig_fini(&r);
}
END_TEST

/* Each component alone would fit, all of them never: who stands behind is not kept waiting. */
START_TEST(hopeless_blocks_nobody)
{
    struct rig r;
    uint32_t id, next;

    rig_init(&r, conf);
    id = rig_submit_het(&r, 2, (const char *const[]){ "nodes=3 excl time=10", "nodes=3 excl time=10" });
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "PENDING PENDING ");
    next = rig_submit(&r, "nodes=4 excl time=900");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, next), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(waits_for_a_component)
{
    struct rig r;
    uint32_t id, a;

    rig_init(&r, conf);
    a = rig_submit(&r, "tasks=1");
    id = rig_submit_het(&r, 2, (const char *const[]){ "tasks=1", "tasks=1 begin=60" });
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "PENDING PENDING ");
    ck_assert_str_eq(rig_reason(&r, id), "BeginTime");
    rig_clock(&r, 61);
    rig_pass(&r);
    ck_assert_str_eq(states(&r, id), "RUNNING RUNNING ");
    rig_end(&r, a, 0);
    rig_end(&r, id, 0);
    ck_assert_str_eq(rig_state(&r, id), "COMPLETED");
    rig_fini(&r);
}
END_TEST

Suite *het_suite(void);
Suite *het_suite(void)
{
    Suite *s = suite_create("plan/het");
    TCase *t = tcase_create("het");

    tcase_add_test(t, start_together);
    tcase_add_test(t, share_a_node);
    tcase_add_test(t, none_while_one_waits);
    tcase_add_test(t, by_backfill);
    tcase_add_test(t, the_choosy_one_first);
    tcase_add_test(t, another_partition_of_its_list);
    tcase_add_test(t, hopeless_blocks_nobody);
    tcase_add_test(t, waits_for_a_component);
    suite_add_tcase(s, t);
    return s;
}
