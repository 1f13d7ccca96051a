/* SPDX-License-Identifier: Apache-2.0 */
/* test_submit.c - wishes and verdicts: a table of what is taken and what is refused with which of Slurm's numbers. */
#include <check.h>
#include <string.h>

#include "desk.h"

static const char conf[] = "GresTypes=gpu\nMaxArraySize=100\nMaxJobCount=50\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nEnforcePartLimits=ALL\n"
    "NodeName=n[1-4] CPUs=4 RealMemory=1000 Gres=gpu:2 Feature=fast\nNodeName=n5 CPUs=4 RealMemory=1000\n"
    "PartitionName=p Nodes=n[1-4] Default=YES MaxTime=60 MaxNodes=3 MaxMemPerNode=900\nPartitionName=root Nodes=ALL RootOnly=YES\nPartitionName=lab Nodes=ALL AllowGroups=lab\n"
    "PartitionName=ops Nodes=ALL AllowGroups=ops\nPartitionName=acct Nodes=ALL AllowAccounts=physics\nPartitionName=notbio Nodes=ALL DenyAccounts=bio\n"
    "PartitionName=drain Nodes=ALL State=DRAIN\nPartitionName=gone Nodes=ALL State=INACTIVE\nPartitionName=down Nodes=ALL State=DOWN\nPartitionName=noroot Nodes=ALL DisableRootJobs=YES\n"
    "PartitionName=hosts Nodes=ALL AllocNodes=front\nPartitionName=short Nodes=ALL MaxTime=10 DefaultTime=5\nPartitionName=alt Nodes=ALL State=DRAIN Alternate=short\n";

static const struct { uint32_t uid; const char *wish; int slurm_errno; } rows[] = {
    { ALICE, "tasks=1", 0 }, { ALICE, "nopart tasks=1", 0 }, { ALICE, "part=nope", 2000 }, { ALICE, "part=p,nope", 2000 },
    { ALICE, "part=root", 2002 }, { 0, "part=root", 0 }, { SLURM, "part=root", 0 }, { ALICE, "part=p,root", 2002 },
    { ALICE, "part=lab", 0 }, { BOB, "part=lab", 2003 }, { ALICE, "part=ops", 2003 }, { 0, "part=ops", 0 },
    { ALICE, "part=acct", 2045 }, { ALICE, "part=acct account=physics", 0 }, { ALICE, "part=notbio account=bio", 2045 }, { ALICE, "part=notbio account=x", 0 },
    { ALICE, "part=drain", 2070 }, { ALICE, "part=gone", 2070 }, { ALICE, "part=down", 0 }, { ALICE, "part=alt", 0 }, { 0, "part=noroot", 2002 }, { ALICE, "part=noroot", 0 },
    { ALICE, "part=hosts", 2002 },
    { ALICE, "nodes=4", 2006 }, { ALICE, "nodes=3", 0 }, { ALICE, "nodes=3-2", 2006 }, { ALICE, "nodes=0", 2006 }, { ALICE, "time=61", 2051 }, { ALICE, "time=60", 0 },
    { ALICE, "time=0", 2051 }, { ALICE, "part=p,short time=30", 2051 }, { ALICE, "mem=901", 2044 }, { ALICE, "mem=900", 0 }, { ALICE, "bothmem", 2044 },
    { ALICE, "tasks=0", 2025 }, { ALICE, "cpus=0", 2069 }, { ALICE, "cpus=70000", 2069 }, { ALICE, "tpn=513", 2025 },
    { ALICE, "feat=fast", 0 }, { ALICE, "feat=slow", 2029 }, { ALICE, "feat=(fast", 2029 }, { ALICE, "feat=fast*2", 2036 }, { ALICE, "prefer=slow", 2133 },
    { ALICE, "gres=gpu:1", 0 }, { ALICE, "gres=gpu:bad:x", 2072 }, { ALICE, "gres=fpga:1", 2072 }, { ALICE, "gpus=gpu:2", 0 }, { ALICE, "gpus=tpu:2", 2072 },
    { ALICE, "pertask=gpu:1", 2072 }, { ALICE, "pertask=gpu:1 tasks=2", 0 }, { ALICE, "pertask=gpu:1 nodes=2", 0 }, { ALICE, "pertask=gpu:1 gpus=gpu:2", 0 },
    { ALICE, "persocket=gpu:1", 2072 }, { ALICE, "persocket=gpu:1 sockets=1", 0 }, { ALICE, "memgpu=10", 2072 }, { ALICE, "memgpu=10 gres=gpu:1", 0 }, { ALICE, "memgpu=0", 0 },
    { ALICE, "cpugpu=2 gres=gpu:1", 0 }, { ALICE, "cpugpu=2 cpus=1 gres=gpu:1", 2072 }, { ALICE, "cpugpu=2", 0 },
    { ALICE, "taskgpu=2", 2072 }, { ALICE, "taskgpu=2 tasks=2", 0 }, { ALICE, "taskgpu=2 gpus=gpu:1", 0 },
    { ALICE, "w=n1", 0 }, { ALICE, "w=n9", 2018 }, { ALICE, "w=n5", 2004 }, { ALICE, "w=n[1-2] nodes=1", 2006 }, { ALICE, "x=n9", 2018 }, { ALICE, "w=n1 x=n1", 2018 }, { ALICE, "w=n[1-", 2018 },
    { ALICE, "array=0-99", 11 }, { ALICE, "array=0-9", 0 }, { ALICE, "array=0-100", 2081 }, { ALICE, "array=5-1", 2081 }, { ALICE, "array=x", 2081 }, { ALICE, "array=0-49", 11 },
    { ALICE, "dep=afterok:1", 0 }, { ALICE, "dep=afterok:99999999", 2038 }, { ALICE, "dep=afternotok:99999999", 2038 }, { ALICE, "dep=sometime:1", 2038 }, { ALICE, "dep=singleton", 0 },
    { ALICE, "dep=afterok:1,", 2038 }, { ALICE, "dep=afterok:1:", 2038 }, { ALICE, "dep=,afterok:1", 2038 }, { ALICE, "dep=afterok::1", 2038 },
    { ALICE, "dep=afterok:0", 2038 }, { ALICE, "dep=afterok:1?afterany:99", 2038 },
    { ALICE, "prio=5", 2002 }, { 0, "prio=5", 0 }, { ALICE, "prio=0", 0 }, { ALICE, "minus", 2002 }, { SLURM, "minus", 0 }, { ALICE, "nice=10", 0 },
    { ALICE, "past", 2051 }, { ALICE, "deadline=100 time=5", 2051 }, { ALICE, "deadline=400 time=5", 0 }, { ALICE, "begin=10", 0 },
    { ALICE, "noscript", 2009 }, { ALICE, "bigscript", 2012 }, { ALICE, "long", 2012 }, { ALICE, "cwd=relative", 1000 },
    { ALICE, "lic=matlab", 2048 }, { ALICE, "resv=monday", 2053 }, { ALICE, "qos=high", 0 }, { ALICE, "account=any", 0 }, { ALICE, "timemin", 2124 }, { ALICE, "corespec", 2036 },
    { ALICE, "exclusive=user", 2036 }, { ALICE, "exclusive=exclusive", 0 },
};

START_TEST(verdicts)
{
    struct desk d;
    int got;

    desk_init(&d, conf);
    rig_submit(&d.r, "tasks=1");            /* job 1 is there */
    desk_as(&d, rows[_i].uid);
    got = desk_submit(&d, rows[_i].wish);
    ck_assert_msg(rows[_i].slurm_errno ? got == -rows[_i].slurm_errno : got > 0, "%u %s: %d %s", rows[_i].uid, rows[_i].wish, got, d.err.text);
    desk_fini(&d);
}
END_TEST

START_TEST(identity_is_the_channels)
{
    struct desk d;
    int id;

    desk_init(&d, conf);
    desk_as(&d, BOB);
    id = desk_submit(&d, "tasks=1");
    ck_assert_uint_eq(state_job(d.r.s, (uint32_t)id)->uid, BOB);
    ck_assert_str_eq(state_job(d.r.s, (uint32_t)id)->user, "bob");
    d.who.role = SPUR_ROLE_NODE;
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), -2002);
    d.who.role = SPUR_ROLE_USER;
    d.who.uid = UINT32_MAX;
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), -2002);
    desk_fini(&d);
}
END_TEST

START_TEST(defaults_are_filled)
{
    struct desk d;
    const struct job *j;

    desk_init(&d, conf);
    j = state_job(d.r.s, (uint32_t)desk_submit(&d, "part=short tasks=1"));
    ck_assert_uint_eq(j->time_limit_min, 5);
    j = state_job(d.r.s, (uint32_t)desk_submit(&d, "nopart tasks=1"));
    ck_assert_str_eq(j->partition, "p");
    j = state_job(d.r.s, (uint32_t)desk_submit(&d, "part=alt tasks=1"));
    ck_assert_str_eq(j->partition, "short");
    ck_assert_uint_eq(d.out.warning_count, 1);
    j = state_job(d.r.s, (uint32_t)desk_submit(&d, "prio=0 tasks=1"));
    ck_assert(j->held_by_user);
    desk_fini(&d);
}
END_TEST

static const struct { const char *enforce, *wish; int slurm_errno; } enforced[] = {
    { "NO", "nodes=4 part=a", 0 }, { "NO", "time=50 part=b", 0 }, { "ANY", "time=50 part=b", 2051 }, { "ANY", "time=50 part=a,b", 0 }, { "ALL", "time=50 part=a,b", 2051 },
    { "ANY", "nodes=4 time=50 part=a,b", 2006 }, { "ALL", "nodes=2 time=5 part=a,b", 0 },
};

START_TEST(enforce_part_limits)
{
    struct desk d;
    char text[512];
    int got;

    snprintf(text, sizeof text, "EnforcePartLimits=%s\nNodeName=n[1-4]\nPartitionName=a Nodes=ALL MaxNodes=2 Default=YES\nPartitionName=b Nodes=ALL MaxTime=10\n", enforced[_i].enforce);
    desk_init(&d, text);
    got = desk_submit(&d, enforced[_i].wish);
    ck_assert_msg(enforced[_i].slurm_errno ? got == -enforced[_i].slurm_errno : got > 0, "%s %s: %d %s", enforced[_i].enforce, enforced[_i].wish, got, d.err.text);
    desk_fini(&d);
}
END_TEST

START_TEST(switches_of_a_flat_network)
{
    static const char nodes[] = "NodeName=n[1-4]\nPartitionName=p Nodes=ALL Default=YES\n";
    struct desk d;
    char text[256];

    desk_init(&d, nodes);
    ck_assert_int_gt(desk_submit(&d, "tasks=1 switches=1"), 0);         /* one switch is all there is */
    ck_assert_int_gt(desk_submit(&d, "tasks=1 segment=2"), 0);
    desk_fini(&d);
    snprintf(text, sizeof text, "TopologyPlugin=topology/tree\n%s", nodes);
    desk_init(&d, text);
    ck_assert_int_gt(desk_submit(&d, "tasks=1"), 0);
    ck_assert_int_gt(desk_submit(&d, "tasks=1 switches=1"), 0);
    desk_fini(&d);
}
END_TEST

START_TEST(what_never_fits)
{
    struct desk d;

    desk_init(&d, conf);
    d.facts.never = "5000 MiB a node: the largest has 1000";
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), -2014);
    ck_assert_str_eq(d.err.text, "Requested node configuration is not available: 5000 MiB a node: the largest has 1000");
    desk_fini(&d);
}
END_TEST

START_TEST(a_token_is_answered_once)
{
    struct desk d;
    Wire__SubmitRequest r = WIRE__SUBMIT_REQUEST__INIT;
    struct admitted out = { 0 };
    int id;

    desk_init(&d, conf);
    id = desk_submit(&d, "tasks=1");
    ck_assert_int_gt(id, 0);
    r.spec = d.out.ops[0]->submit->spec;
    r.token = d.out.ops[0]->token;
    r.token_wall_ms = d.r.wall_ms;
    ck_assert_uint_eq(r.token.len, 16);
    ck_assert_int_eq(admit_submit(d.r.s, &r, &d.who, &d.facts, &d.r.arena, &out, &d.err), 0);
    ck_assert_uint_eq(out.op_count, 0);     /* nothing to do: the first answer is known */
    r.token.len = 8;
    ck_assert_int_lt(admit_submit(d.r.s, &r, &d.who, &d.facts, &d.r.arena, &out, &d.err), 0);
    desk_fini(&d);
}
END_TEST

START_TEST(root_jobs)
{
    struct desk d;

    desk_init(&d, "DisableRootJobs=YES\nNodeName=n1\nPartitionName=p Nodes=ALL Default=YES\n");
    desk_as(&d, 0);
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), -2010);
    desk_as(&d, ALICE);
    ck_assert_int_gt(desk_submit(&d, "tasks=1"), 0);
    desk_fini(&d);
}
END_TEST

Suite *submit_suite(void);
Suite *submit_suite(void)
{
    Suite *s = suite_create("admit/submit");
    TCase *t = tcase_create("submit");

    tcase_add_loop_test(t, verdicts, 0, sizeof rows / sizeof rows[0]);
    tcase_add_test(t, identity_is_the_channels);
    tcase_add_test(t, defaults_are_filled);
    tcase_add_loop_test(t, enforce_part_limits, 0, sizeof enforced / sizeof enforced[0]);
    tcase_add_test(t, switches_of_a_flat_network);
    tcase_add_test(t, what_never_fits);
    tcase_add_test(t, a_token_is_answered_once);
    tcase_add_test(t, root_jobs);
    suite_add_tcase(s, t);
    return s;
}
