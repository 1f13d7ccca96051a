/* SPDX-License-Identifier: Apache-2.0 */
/* test_backfill.c - no start delays the jobs in front: a few plain cases, and an oracle over many random clusters.
 *
 * The oracle knows nothing of the plan's data: before each start it works out by trying every moment when the first waiting job could
 * start at the earliest, by counting nodes with enough free cores, and does so again with the new job running. The second must not be later.
 * It runs on the record of what is allocated, so a wrong profile, overlay or window shows. A failure prints its seed.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/private.h"
#include "rig.h"

#define NODES 4
#define CORES 4

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\nSchedulerParameters=bf_resolution=1\n"
    "NodeName=n[1-4] CPUs=4 RealMemory=1000 State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES MaxTime=1000 State=UP\n";

START_TEST(small_jobs_slip_in)
{
    struct rig r;
    uint32_t a, b, c, d;

    rig_init(&r, conf);
    a = rig_submit(&r, "nodes=3 excl time=10");
    rig_pass(&r);
    b = rig_submit(&r, "nodes=4 excl time=10");     /* waits for a */
    c = rig_submit(&r, "nodes=1 excl time=11");     /* would delay b */
    d = rig_submit(&r, "nodes=1 excl time=9");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, a), "RUNNING");
    ck_assert_str_eq(rig_state(&r, b), "PENDING");
    ck_assert_str_eq(rig_state(&r, c), "PENDING");
    ck_assert_str_eq(rig_state(&r, d), "RUNNING");
    ck_assert(r.by_backfill[0]);
    ck_assert_str_eq(rig_reason(&r, b), "Resources");
    ck_assert_str_eq(rig_reason(&r, c), "Priority");
    ck_assert_int_ge(state_job(r.s, b)->advice_start_wall_s, r.wall_ms / 1000 + 590);
    ck_assert_int_le(state_job(r.s, b)->advice_start_wall_s, r.wall_ms / 1000 + 610);
    ck_assert_str_eq(state_job(r.s, b)->sched_nodes, "n[1-4]");
    rig_fini(&r);
}
END_TEST

START_TEST(beside_a_reservation)
{
    struct rig r;
    uint32_t c;

    rig_init(&r, conf);
    rig_submit(&r, "nodes=4 tpn=2 time=10");
    rig_pass(&r);
    rig_submit(&r, "nodes=4 tpn=3 time=10");        /* three cores of each node once the first has ended */
    c = rig_submit(&r, "nodes=4 tpn=1 time=500");   /* the fourth core is nobody's */
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, c), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(memory_is_reserved_too)
{
    struct rig r;
    uint32_t c, d;

    rig_init(&r, "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nSchedulerParameters=bf_resolution=1\nNodeName=n1 CPUs=8 RealMemory=1000\nPartitionName=p Nodes=ALL Default=YES MaxTime=1000\n");
    rig_submit(&r, "tasks=1 mem=800 time=10");
    rig_pass(&r);
    rig_submit(&r, "tasks=1 mem=900 time=10");
    c = rig_submit(&r, "tasks=1 mem=150 time=500");     /* 50 too many when the second has started */
    d = rig_submit(&r, "tasks=1 mem=100 time=500");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, c), "PENDING");
    ck_assert_str_eq(rig_state(&r, d), "RUNNING");
    rig_fini(&r);
}
END_TEST

START_TEST(equal_jobs_are_asked_once)
{
    struct rig r;

    rig_init(&r, conf);
    rig_submit(&r, "nodes=4 excl time=10");
    rig_pass(&r);
    for (int i = 0; i < 500; i++)
        rig_submit(&r, "nodes=2 excl time=10");
    r.places = 0;
    rig_pass(&r);
    ck_assert_uint_lt(r.places, 300);
    rig_fini(&r);
}
END_TEST

START_TEST(builtin_has_none)
{
    struct rig r;
    uint32_t d;

    rig_init(&r, "SchedulerType=sched/builtin\nSelectType=select/cons_tres\nNodeName=n[1-4] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\n");
    rig_submit(&r, "nodes=3 excl time=10");
    rig_submit(&r, "nodes=4 excl time=10");
    d = rig_submit(&r, "nodes=1 excl time=1");
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, d), "PENDING");
    rig_fini(&r);
}
END_TEST

/* Several tasks of an array are on their way, and one that is not the first is refused: it is this one that comes again. */
START_TEST(a_refused_task_is_the_one_that_starts_again)
{
    struct rig r;
    struct decisions d;
    uint32_t id;

    rig_init(&r, conf);
    id = rig_submit(&r, "tasks=1 array=0-3");
    plan_pass(r.p, r.s, &r.plugins, r.wall_ms, r.cluster_ms, (struct plan_budget){ 100 }, &r.arena, &d);
    ck_assert_uint_eq(d.op_count, 4);
    for (size_t k = d.op_count; k-- > 0; )
        if (d.ops[k]->start->array_task_id == 2)
            plan_refused(r.p, r.s, d.ops[k]->start->job_id, 2);
        else
            ck_assert_int_eq(rig_apply(&r, d.ops[k], NULL), 0);
    rig_clock(&r, 100);
    rig_pass(&r);
    ck_assert_uint_eq(state_job(r.s, id)->array->running, 4);
    rig_fini(&r);
}
END_TEST

START_TEST(a_refused_start_is_not_asked_for_without_end)
{
    struct rig r;
    struct decisions d;
    uint32_t id, asked = 0;

    rig_init(&r, conf);
    id = rig_submit(&r, "tasks=1");
    for (int i = 0; i < 1000; i++) {
        if (!plan_is_dirty(r.p) && plan_next_wall_ms(r.p) > r.wall_ms)
            break;
        plan_pass(r.p, r.s, &r.plugins, r.wall_ms, r.cluster_ms, (struct plan_budget){ 100 }, &r.arena, &d);
        for (size_t k = 0; k < d.op_count; k++) {
            asked++;
            plan_refused(r.p, r.s, d.ops[k]->start->job_id, UINT32_MAX);
        }
    }
    ck_assert_uint_ge(asked, 2);
    ck_assert_uint_le(asked, 3);
    ck_assert_int_gt(plan_next_wall_ms(r.p), r.wall_ms);
    rig_clock(&r, 100);
    rig_pass(&r);
    ck_assert_str_eq(rig_state(&r, id), "RUNNING");
    rig_fini(&r);
}
END_TEST

/* ---- the oracle ------------------------------------------------------------------------------------------------------------ */
static uint64_t rng;
static uint32_t roll(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)((rng >> 11) % n);
}

struct use { uint32_t cores[NODES]; int64_t end_s; };       /* of one running job */
static struct use uses[512]; static size_t use_count;

static void look(struct rig *r)
{
    struct job *j;

    use_count = 0;
    for (size_t i = 0; (j = table_next(&r->s->jobs, &i)); ) {
        struct use *u = &uses[use_count];

        if (j->state != JOB_RUNNING)
            continue;
        memset(u, 0, sizeof *u);
        for (uint32_t k = 0; k < j->alloc_count; k++)
            u->cores[j->allocs[k].node] = (uint32_t)bitmap_count(&j->allocs[k].cores);
        u->end_s = r->wall_ms / 1000 + (j->start_cluster_ms - r->cluster_ms) / 1000 + (int64_t)j->time_limit_min * 60;
        if (u->end_s <= r->wall_ms / 1000)
            u->end_s = r->wall_ms / 1000 + 1;
        use_count++;
    }
}

/* Earliest moment at which `nodes` nodes have `cores` free cores each. */
static int64_t earliest(int64_t now_s, uint32_t nodes, uint32_t cores)
{
    int64_t best = INT64_MAX;

    for (size_t m = 0; m <= use_count; m++) {
        int64_t at = m ? uses[m - 1].end_s : now_s;
        uint32_t good = 0;

        for (uint32_t n = 0; n < NODES; n++) {
            uint32_t used = 0;

            for (size_t i = 0; i < use_count; i++)
                used += uses[i].end_s > at ? uses[i].cores[n] : 0;
            good += CORES - used >= cores;
        }
        if (good >= nodes && at < best)
            best = at;
    }
    return best;
}

static const struct job *head_of(struct rig *r, uint32_t but)
{
    const struct job *j, *head = NULL;

    for (size_t i = 0; (j = table_next(&r->s->jobs, &i)); )
        if (j->state == JOB_PENDING && j->job_id != but && (!head || j->priority > head->priority || (j->priority == head->priority && j->job_id < head->job_id)))
            head = j;
    return head;
}

static unsigned starts_checked, backfills_checked;
static struct { uint32_t job_id; int64_t by_s; } promise;    /* the head's earliest start when it became the head */

static void check_start(struct rig *r, const struct job *j, const Wire__OpStart *o)
{
    const struct job *head = head_of(r, 0);
    int64_t before, after, now_s = r->wall_ms / 1000;
    Wire__JobSpec *spec = job_spec(head, &r->arena);
    uint32_t cores = spec->ntasks_per_node;
    struct use *u;

    starts_checked++;
    if (head->job_id == j->job_id)
        return;
    backfills_checked++;
    ck_assert(o->by_backfill);
    look(r);
    before = earliest(now_s, head->min_nodes, cores);
    u = &uses[use_count++];
    memset(u, 0, sizeof *u);
    for (size_t i = 0; i < o->n_allocs; i++)
        for (size_t k = 0; k < o->allocs[i]->n_cores; k++)
            u->cores[o->allocs[i]->node] += (uint32_t)__builtin_popcountll(o->allocs[i]->cores[k]);
    u->end_s = now_s + (int64_t)j->time_limit_min * 60;
    after = earliest(now_s, head->min_nodes, cores);
    ck_assert_msg(after <= before, "job %u starts and delays job %u by %lld s", j->job_id, head->job_id, (long long)(after - before));
}

START_TEST(oracle)
{
    struct rig r;
    uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)(_i + 1);

    rng = seed;
    starts_checked = backfills_checked = 0;
    promise.job_id = 0;
    rig_init(&r, conf);
    r.on_start = check_start;
    r.budget = 1 + roll(50);
    for (int step = 0; step < 60; step++) {
        const struct job *head;
        struct job *j;
        uint32_t ended = 0;

        for (uint32_t n = roll(4); n; n--) {
            char wish[128];

            snprintf(wish, sizeof wish, "nodes=%u tpn=%u time=%u prio=%u", 1 + roll(NODES), 1 + roll(CORES), 1 + roll(20), 1000 + roll(3));
            rig_submit(&r, wish);
        }
        /* One decision at a time, so that each is judged against what was there before it. */
        rig_pass(&r);
        head = head_of(&r, 0);
        if (head) {
            Wire__JobSpec *spec = job_spec(head, &r.arena);

            look(&r);
            if (promise.job_id != head->job_id) {
                promise.job_id = head->job_id;
                promise.by_s = earliest(r.wall_ms / 1000, head->min_nodes, spec->ntasks_per_node);
            }
            ck_assert_msg(r.wall_ms / 1000 <= promise.by_s + 5, "seed %d: job %u waits longer than promised", _i, head->job_id);
            ck_assert_int_gt(earliest(r.wall_ms / 1000, head->min_nodes, spec->ntasks_per_node), r.wall_ms / 1000);     /* else it should have started */
        }
        rig_clock(&r, 1 + roll(200));
        for (size_t i = 0; (j = table_next(&r.s->jobs, &i)); )
            if (j->state == JOB_RUNNING && (r.cluster_ms - j->start_cluster_ms >= (int64_t)j->time_limit_min * 60000 || roll(8) == 0)) {
                rig_end(&r, j->job_id, 0);
                if (++ended == 6 && 0)
                    break;
            }
        if (promise.job_id && r.wall_ms / 1000 > promise.by_s)
            promise.by_s = r.wall_ms / 1000;        /* the clock jumped over the moment; the pass that follows must start it */
    }
    ck_assert_uint_gt(starts_checked, 10);
    rig_fini(&r);
}
END_TEST

Suite *backfill_suite(void);
Suite *backfill_suite(void)
{
    Suite *s = suite_create("plan/backfill");
    TCase *t = tcase_create("backfill");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, small_jobs_slip_in);
    tcase_add_test(t, beside_a_reservation);
    tcase_add_test(t, memory_is_reserved_too);
    tcase_add_test(t, equal_jobs_are_asked_once);
    tcase_add_test(t, builtin_has_none);
    tcase_add_test(t, a_refused_start_is_not_asked_for_without_end);
    tcase_add_test(t, a_refused_task_is_the_one_that_starts_again);
    tcase_add_loop_test(t, oracle, 0, 150);
    suite_add_tcase(s, t);
    return s;
}
