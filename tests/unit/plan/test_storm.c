/* SPDX-License-Identifier: Apache-2.0 */
/* test_storm.c - everything at once, at random: jobs, arrays, dependencies, holds, cancels, requeues, nodes that go and come back.
 *
 * After each pass: it has come to rest, no decision was refused, every job that waits says why, no node gives more than it has, and a job that
 * waits alone in front of an empty partition has a reason of its own. A failure prints its seed.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "plan/private.h"
#include "rig.h"

static const char conf[] = "GresTypes=gpu\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nDefMemPerCPU=10\nSchedulerParameters=bf_resolution=1\nMaxArraySize=100\n"
    "NodeName=n[1-4] CPUs=4 RealMemory=100 Gres=gpu:2 Feature=a\nNodeName=n[5-6] CPUs=8 RealMemory=200 Feature=b\n"
    "PartitionName=p Nodes=ALL Default=YES MaxTime=600\nPartitionName=q Nodes=n[3-6] PriorityTier=3 MaxTime=60\nPartitionName=r Nodes=n[5-6] MaxNodes=1\n";

static uint64_t rng;
static uint32_t roll(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)((rng >> 11) % n);
}

static void random_submit(struct rig *r)
{
    static const char *const parts[] = { "p", "q", "r", "p,q", "q,r", "r,p,q" };
    char wish[256];
    int n = snprintf(wish, sizeof wish, "part=%s tasks=%u time=%u nice=%u", parts[roll(6)], 1 + roll(6), 1 + roll(90), roll(5));

    if (roll(4) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " nodes=%u", 1 + roll(4));
    if (roll(6) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " array=0-%u%%%u", roll(8), 1 + roll(4));
    if (r->s->next_job_id > 1 && roll(6) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " dep=%s:%u", roll(2) ? "afterok" : "afternotok", 1 + roll(r->s->next_job_id - 1));
    else if (roll(10) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " dep=singleton");
    if (roll(8) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " gres=gpu:%u", 1 + roll(2));
    if (roll(8) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " feat=%s", roll(2) ? "a" : "[a|b]");
    if (roll(10) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " excl");
    if (roll(10) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " hold");
    if (roll(10) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " begin=%u", roll(300));
    if (roll(12) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " deadline=%u", 60 + roll(3000));
    if (roll(8) == 0)
        n += snprintf(wish + n, sizeof wish - (size_t)n, " w=n%u", 1 + roll(6));
    rig_submit(r, wish);
}

/* Components of random sizes, some of which wait for another job, are held or come later. */
static void random_het(struct rig *r)
{
    static const char *const parts[] = { "p", "q", "r", "p,q" };
    char wishes[4][128];
    const char *list[4];
    uint32_t count = 2 + roll(3);

    for (uint32_t i = 0; i < count; i++) {
        int n = snprintf(wishes[i], sizeof wishes[i], "part=%s tasks=%u time=%u", parts[roll(4)], 1 + roll(5), 1 + roll(60));

        if (roll(4) == 0)
            n += snprintf(wishes[i] + n, sizeof wishes[i] - (size_t)n, " nodes=%u", 1 + roll(3));
        if (roll(8) == 0)
            n += snprintf(wishes[i] + n, sizeof wishes[i] - (size_t)n, " excl");
        if (roll(12) == 0)
            n += snprintf(wishes[i] + n, sizeof wishes[i] - (size_t)n, " hold");
        if (roll(12) == 0)
            n += snprintf(wishes[i] + n, sizeof wishes[i] - (size_t)n, " begin=%u", roll(300));
        if (roll(12) == 0 && r->s->next_job_id > 1)
            n += snprintf(wishes[i] + n, sizeof wishes[i] - (size_t)n, " dep=afterok:%u kill", 1 + roll(r->s->next_job_id - 1));
        if (roll(16) == 0)
            n += snprintf(wishes[i] + n, sizeof wishes[i] - (size_t)n, " deadline=%u", 60 + roll(3000));
        list[i] = wishes[i];
    }
    rig_submit_het(r, count, list);
}

static struct job *any_job(struct rig *r)
{
    struct job *j, *found = NULL;
    uint32_t n = 0;

    for (size_t i = 0; (j = table_next(&r->s->jobs, &i)); )
        if (roll(++n) == 0)
            found = j;
    return found;
}

static void verb(struct rig *r, uint32_t id, Wire__JobUpdateRequest__Verb what)
{
    Wire__Op *op = rig_op(r);

    op->update = arena_alloc(&r->arena, sizeof *op->update);
    wire__op_update__init(op->update);
    op->update->job_id = id;
    op->update->verb = what;
    rig_apply(r, op, NULL);
}

static void cancel(struct rig *r, uint32_t id)
{
    Wire__Op *op = rig_op(r);

    op->cancel = arena_alloc(&r->arena, sizeof *op->cancel);
    wire__op_cancel__init(op->cancel);
    op->cancel->job_id = id;
    rig_apply(r, op, NULL);
}

/* Never a part of a heterogeneous job: what runs of it runs with its first component, in the same attempt. */
static void invariant_het(const struct rig *r, const struct job *j, int seed)
{
    const struct job *first = het_leader(r->s, j);

    if (j->state == JOB_RUNNING && !(j->flags & JOB_FLAG_REQUEUE))     /* else it is being emptied for the next attempt */
        ck_assert_msg(first->state == JOB_RUNNING && first->attempt == j->attempt, "seed %d: component %u runs without the first one", seed, j->job_id);
    if (j->state == JOB_PENDING)
        ck_assert_msg(first->state == JOB_PENDING || first->flags & JOB_FLAG_REQUEUE, "seed %d: component %u waits while the first one does not", seed, j->job_id);
}

static void invariants(struct rig *r, int seed)
{
    struct job *j;

    for (size_t i = 0; (j = table_next(&r->s->jobs, &i)); )
        invariant_het(r, j, seed);
    for (size_t i = 0; (j = table_next(&r->s->jobs, &i)); )
        if (j->state == JOB_PENDING && !(het_leader(r->s, j)->flags & JOB_FLAG_REQUEUE))
            ck_assert_msg(het_leader(r->s, j)->advice != REASON_None || j->reason != REASON_None, "seed %d: job %u waits and does not say why", seed, j->job_id);
    for (uint32_t n = 0; n < r->s->node_count; n++) {
        const struct node *node = &r->s->nodes[n];

        ck_assert_uint_le(node->cpus_used, node->conf->cpus);
        ck_assert_uint_le(node->mem_used, node->conf->mem_mib);
    }
    ck_assert_uint_eq(r->p->flight_count, 0);
    ck_assert_uint_le(r->refused, 10);
}

START_TEST(storm)
{
    struct rig r;

    rng = 0xd1342543de82ef95u * (uint64_t)(_i + 1);
    rig_init(&r, conf);
    r.budget = 1 + roll(40);
    for (int step = 0; step < 80; step++) {
        struct job *j;
        char node[8];

        for (uint32_t n = roll(5); n; n--)
            roll(5) ? random_submit(&r) : random_het(&r);
        if ((j = any_job(&r)) && roll(4) == 0)
            cancel(&r, j->job_id);
        if ((j = any_job(&r)) && roll(4) == 0)
            verb(&r, j->job_id, roll(2) ? WIRE__JOB_UPDATE_REQUEST__VERB__HOLD : WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE);
        if ((j = any_job(&r)) && roll(4) == 0 && !job_state_is_end(j->state))
            verb(&r, j->job_id, WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE);
        snprintf(node, sizeof node, "n%u", 1 + roll(6));
        if (roll(5) == 0)
            rig_node(&r, node, "State", roll(3) ? "RESUME" : "DRAIN");
        rig_pass(&r);
        invariants(&r, _i);
        rig_clock(&r, 1 + roll(120));
        for (size_t i = 0; (j = table_next(&r.s->jobs, &i)); )
            if (j->alloc_count && !j->allocs[0].gone && (j->state != JOB_RUNNING || (!j->het_offset && roll(4) == 0)))
                rig_end(&r, j->job_id, roll(3) ? 0 : 256);
    }
    rig_fini(&r);
}
END_TEST

/* The same queue, rebuilt as a new leader does: it must come to the same decisions. */
START_TEST(a_new_leader_takes_over)
{
    struct rig r;

    rng = 77 + (uint64_t)_i * 131;
    rig_init(&r, conf);
    for (int i = 0; i < 60; i++)
        roll(5) ? random_submit(&r) : random_het(&r);
    rig_pass(&r);
    for (int i = 0; i < 10; i++) {
        struct job *j = any_job(&r);

        plan_destroy(r.p);
        r.p = plan_create();
        plan_events(r.p, r.s, NULL, 0);
        rig_pass(&r);
        ck_assert_uint_eq(i ? 0 : r.started_count, 0);      /* nothing that the old one had not seen */
        invariants(&r, _i);
        if (j->alloc_count && !j->allocs[0].gone && !j->het_offset)
            rig_end(&r, j->job_id, 0);
        rig_pass(&r);
    }
    rig_fini(&r);
}
END_TEST

Suite *storm_suite(void);
Suite *storm_suite(void)
{
    Suite *s = suite_create("plan/storm");
    TCase *t = tcase_create("storm");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, storm, 0, 60);
    tcase_add_loop_test(t, a_new_leader_takes_over, 0, 10);
    suite_add_tcase(s, t);
    return s;
}
