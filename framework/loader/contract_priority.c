/* SPDX-License-Identifier: Apache-2.0 */
/* contract_priority.c - promises of a priority plugin: a rank in range, the same for the same job, and nothing written past out->size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <spur/priority.h>

#include "loader/contract.h"

#define NOW INT64_C(1900000000)

static struct spur_job_view job_random(uint64_t *seed)
{
    static const char *const names[] = { "", "a", "physics" };
    static const int32_t nices[] = { 0, 0, 0, 100, -100, 2147483645, -2147483645 };

    return (struct spur_job_view){
        .size = sizeof(struct spur_job_view), .job_id = 1 + contract_random(seed) % 70000000, .uid = contract_random(seed) % 3000,
        .eligible_wall_s = contract_random(seed) % 4 ? NOW - (int64_t)(contract_random(seed) % 2000000) + 1000 : 0,
        .submit_wall_s = NOW - (int64_t)(contract_random(seed) % 3000000), .nodes = contract_random(seed) % 5000, .cpus = contract_random(seed) % 300000,
        .mem_mib = contract_random(seed), .time_limit_min = contract_random(seed) % 3 ? contract_random(seed) % 20000 : 0,
        .nice = nices[contract_random(seed) % 7], .partition_factor = contract_random(seed) % 65536, .partition_tier = contract_random(seed) % 65536,
        .partition_factor_max = contract_random(seed) % 2 ? 65535 : 0, .site_factor = contract_random(seed) % 5 ? 0 : (int64_t)contract_random(seed) - 2000000000,
        .cluster_nodes = contract_random(seed) % 3 ? 1000 : 0, .cluster_cpus = contract_random(seed) % 3 ? 64000 : 0,
        .account = names[contract_random(seed) % 3], .qos = names[contract_random(seed) % 3], .partition = names[contract_random(seed) % 3] };
}

static const char *const weights[] = { "PriorityWeightAge", "PriorityWeightJobSize", "PriorityWeightPartition", "PriorityWeightFairshare", "PriorityWeightQOS" };

static int ranks_in_range(struct contract *c, struct spur_error *err)
{
    static const char *const values[] = { "0", "1000", "4294967295" };
    uint64_t seed = 1;

    for (unsigned round = 0; round < 12; round++) {
        const struct spur_priority_ops *ops;
        struct loaded *l;
        int rc;

        for (size_t i = 0; i < 5; i++)
            contract_set(c, weights[i], values[contract_random(&seed) % 3]);
        contract_set(c, "PriorityMaxAge", round % 3 ? "7-00:00:00" : "00:00:00");
        contract_set(c, "PriorityFavorSmall", round % 2 ? "Yes" : "No");
        contract_set(c, "PriorityFlags", round % 4 == 3 ? "SMALL_RELATIVE_TO_TIME,ACCRUE_ALWAYS" : NULL);
        if ((rc = contract_open(c, &l, err)) < 0)
            return rc;
        ops = loader_ops(l);
        for (unsigned i = 0; i < 2000; i++) {
            struct { struct spur_priority_factors f; unsigned char more[64]; } out;
            struct spur_job_view job = job_random(&seed);
            uint64_t rank = ops->rank(l->self, &job, NOW, NULL), again;
            uint32_t cut = (uint32_t)(offsetof(struct spur_priority_factors, partition));

            CONTRACT_EXPECT(rank >= 1 && rank < UINT32_MAX, "rank %llu of job %u: the range is 1 to %lu", (unsigned long long)rank, job.job_id,
                            (unsigned long)UINT32_MAX - 1);
            memset(&out, 0xa5, sizeof out);
            out.f.size = sizeof out.f;
            again = ops->rank(l->self, &job, NOW, &out.f);
            CONTRACT_EXPECT(again == rank, "rank of job %u is %llu without factors and %llu with them", job.job_id, (unsigned long long)rank, (unsigned long long)again);
            CONTRACT_EXPECT(out.f.size == sizeof out.f && out.more[0] == 0xa5, "rank writes past its factors or into their size");
            CONTRACT_EXPECT(out.f.age >= 0 && out.f.age <= 1 && out.f.job_size >= 0 && out.f.job_size <= 1 && isfinite(out.f.partition) && out.f.fair_share >= 0 &&
                            out.f.fair_share <= 1, "factors of job %u are not within 0 and 1 (age %g, size %g, partition %g)", job.job_id, out.f.age, out.f.job_size, out.f.partition);
            memset(&out, 0xa5, sizeof out);
            out.f.size = cut;       /* an older host */
            ops->rank(l->self, &job, NOW, &out.f);
            CONTRACT_EXPECT(((unsigned char *)&out)[cut] == 0xa5, "rank writes past the size of its caller's factors");
        }
        if (SPUR_HAS(ops, period_s))
            CONTRACT_EXPECT(ops->period_s(l->self) <= 86400, "period_s is more than a day");
        loader_close(l);
    }
    return 0;
}

static int nice_counts_against(struct contract *c, struct spur_error *err)
{
    const struct spur_priority_ops *ops;
    uint64_t seed = 2;
    struct loaded *l;
    int rc;

    contract_set(c, "PriorityWeightAge", "100000");
    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    for (unsigned i = 0; i < 1000; i++) {
        struct spur_job_view a = job_random(&seed), b;

        a.nice = 0;
        b = a;
        b.nice = 500;
        CONTRACT_EXPECT(ops->rank(l->self, &b, NOW, NULL) <= ops->rank(l->self, &a, NOW, NULL), "job %u is ranked higher with --nice=500 than without", a.job_id);
    }
    loader_close(l);
    return 0;
}

static int waiting_never_hurts(struct contract *c, struct spur_error *err)
{
    const struct spur_priority_ops *ops;
    uint64_t seed = 3;
    struct loaded *l;
    int rc;

    contract_set(c, "PriorityWeightAge", "100000");
    contract_set(c, "PriorityMaxAge", "1-00:00:00");
    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    for (unsigned i = 0; i < 1000; i++) {
        struct spur_job_view job = job_random(&seed);

        CONTRACT_EXPECT(ops->rank(l->self, &job, NOW + 3600, NULL) >= ops->rank(l->self, &job, NOW, NULL), "job %u is ranked lower an hour later", job.job_id);
    }
    loader_close(l);
    return 0;
}

const struct contract_case contract_priority[] = {
    { "ranks and factors in range", ranks_in_range },
    { "nice counts against a job", nice_counts_against },
    { "waiting never lowers a rank", waiting_never_hurts },
    { 0 } };
