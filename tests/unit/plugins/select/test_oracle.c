/* SPDX-License-Identifier: Apache-2.0 */
/* test_oracle.c - random small clusters and wishes: the plugin and the oracle must agree on what is possible, and each placement must be right.
 * A failure prints its seed; SELECT_TEST_SEED=N replays that one alone. */
#include <check.h>
#include <stdlib.h>
#include <time.h>

#include "oracle.h"

#define CASES 6000u

static uint64_t random_state;

static uint32_t pick(uint32_t below)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % below);
}

static bool chance(uint32_t percent) { return pick(100) < percent; }

static void add(char *text, size_t room, const char *format, uint32_t n)
{
    size_t used = strlen(text);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text + used, room - used, format, n);
#pragma GCC diagnostic pop
}

static void random_cluster(char *text, size_t room)
{
    uint32_t nodes = 1 + pick(5);

    *text = '\0';
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t sockets = 1 + pick(2), cores = 1 + pick(4), threads = 1 + pick(2), gpus = chance(60) ? 1 + pick(4) : 0;

        add(text, room, "n%u", i + 1);
        add(text, room, " %us", sockets);
        add(text, room, "%uc", cores);
        add(text, room, "%ut", threads);
        add(text, room, " mem=%u", 100 * (1 + pick(8)));
        if (gpus && chance(40)) {
            add(text, room, " gpu=a100:%u", gpus);
            if (chance(50))
                add(text, room, ",h100:%u", 1 + pick(2));
        } else if (gpus) {
            add(text, room, " gpu=%u", gpus);
        }
        if (chance(30))
            add(text, room, " nic=%u", 1 + pick(4));
        if (chance(40))
            add(text, room, " weight=%u", 1 + pick(3));
        if (chance(50))
            for (uint32_t c = 0, first = 1; c < sockets * cores; c++)
                if (chance(40)) {
                    add(text, room, first ? " used=%u" : ",%u", c);
                    first = 0;
                }
        if (chance(30))
            add(text, room, " memused=%u", pick(100));
        for (uint32_t g = 0, first = 1; g < gpus; g++)
            if (chance(25)) {
                add(text, room, first ? " gpuused=%u" : ",%u", g);
                first = 0;
            }
        if (chance(8))
            add(text, room, " down", 0);
        add(text, room, "\n", 0);
    }
}

static void random_wish(char *text, size_t room, uint32_t nodes)
{
    static const char *const crs[] = { "cr=core", "cr=core,memory", "cr=socket", "cr=socket,memory", "cr=core,memory,one", "cr=core,lln", "cr=core,pack" };
    uint32_t low = 1 + pick(3), fixed_gpus = 0;

    snprintf(text, room, "%s", crs[pick(7)]);
    if (chance(40)) {
        add(text, room, " N=%u", low);
        add(text, room, "-%u", low + pick(3));
    }
    if (chance(60))
        add(text, room, " n=%u", (chance(50) ? low : 1) + 2 + pick(10));
    if (chance(40))
        add(text, room, " c=%u", 1 + pick(4));
    if (chance(15))
        add(text, room, " tpn=%u", 1 + pick(4));
    if (chance(12))
        add(text, room, " tps=%u", 1 + pick(3));
    if (chance(12))
        add(text, room, " tpc=%u", 1 + pick(2));
    if (chance(12))
        add(text, room, " threads=%u", 1 + pick(2));
    if (chance(12))
        add(text, room, " mincpus=%u", 1 + pick(6));
    if (chance(10))
        add(text, room, " sockets=%u", 1 + pick(2));
    if (chance(10))
        add(text, room, " cores=%u", 1 + pick(3));
    if (chance(8))
        add(text, room, " maxcpus=%u", 1 + pick(8));
    if (chance(30)) {
        static const char *const kinds[] = { "gpu:", "gpu:a100:", "gpu:h100:" };

        switch (pick(3)) {
        case 0: snprintf(text + strlen(text), room - strlen(text), " gres=%s%u", kinds[pick(3)], 1 + pick(3)); fixed_gpus = 1; break;
        case 1: snprintf(text + strlen(text), room - strlen(text), " grestask=%s%u", kinds[pick(3)], 1 + pick(2)); fixed_gpus = 1; break;
        case 2: snprintf(text + strlen(text), room - strlen(text), " gresjob=%s%u", kinds[pick(3)], 1 + pick(8)); fixed_gpus = 1; break;
        }
        if (fixed_gpus && chance(30))
            add(text, room, " cpg=%u", 1 + pick(3));
    }
    if (chance(12))
        add(text, room, " gres=nic:%u", 1 + pick(3));
    switch (pick(6)) {
    case 0: add(text, room, " mem=%u", 50 * (1 + pick(10))); break;
    case 1: add(text, room, " mempercpu=%u", 20 * (1 + pick(8))); break;
    case 2: if (fixed_gpus) add(text, room, " mempergpu=%u", 50 * (1 + pick(6))); break;
    case 3: if (chance(30)) add(text, room, " mem=all", 0); break;
    }
    if (chance(12))
        add(text, room, " w=n%u", 1 + pick(nodes));
    if (chance(10))
        add(text, room, " x=n%u", 1 + pick(nodes));
    if (chance(10))
        add(text, room, " exclusive", 0);
    if (chance(6))
        add(text, room, " overcommit", 0);
    if (chance(10))
        add(text, room, " contiguous", 0);
    if (chance(6))
        add(text, room, " spread", 0);
    if (chance(8))
        add(text, room, " want=%u", low + pick(4));
}

struct tally { uint32_t placed, later, never; };

static void one_case(uint64_t seed, struct tally *tally)
{
    static struct cluster c;
    static struct wish w;
    static struct placed p, again;
    char cluster_text[2000], wish_text[500], got[2000] = "", other[2000] = "";
    struct spur_error err;
    const char *fault;
    int rc;

    random_state = seed;
    random_cluster(cluster_text, sizeof cluster_text);
    cluster_make(&c, cluster_text);
    random_wish(wish_text, sizeof wish_text, c.view.node_count);
    wish_make(&w, &c, wish_text);
    if (w.ask.max_nodes < w.ask.min_nodes || (w.ask.tasks_set && w.ask.tasks < w.ask.min_nodes))
        return;
    rc = cluster_place(&c, &w, &p, &err);
    placed_print(&c, &p, got, sizeof got);
    if (rc == 0) {
        fault = oracle_fault(&c, &w, &p);
        ck_assert_msg(!fault, "seed %llu: %s\n%swish %s\ngot %s", (unsigned long long)seed, fault, cluster_text, wish_text, got);
        ck_assert_msg(oracle_can(&c, &w, false), "seed %llu: placed what the oracle finds impossible\n%swish %s\ngot %s", (unsigned long long)seed, cluster_text,
                      wish_text, got);
        rc = cluster_place(&c, &w, &again, &err);
        placed_print(&c, &again, other, sizeof other);
        ck_assert_msg(rc == 0 && strcmp(got, other) == 0, "seed %llu: two answers to one question\n%s\n%s", (unsigned long long)seed, got, other);
        tally->placed++;
        return;
    }
    ck_assert_msg(rc == SPUR_ELATER || rc == SPUR_ENEVER, "seed %llu: %d %s", (unsigned long long)seed, rc, err.text);
    ck_assert_msg(!oracle_can(&c, &w, false), "seed %llu: refused (%s), but it fits\n%swish %s", (unsigned long long)seed, err.text, cluster_text, wish_text);
    ck_assert_msg(oracle_can(&c, &w, true) == (rc == SPUR_ELATER), "seed %llu: %s, but empty nodes can%s hold it\n%swish %s", (unsigned long long)seed,
                  rc == SPUR_ELATER ? "later" : err.text, rc == SPUR_ELATER ? "not" : "", cluster_text, wish_text);
    ck_assert_msg(*err.text, "seed %llu: refused without a word", (unsigned long long)seed);
    if (rc == SPUR_ELATER)
        tally->later++;
    else
        tally->never++;
}

START_TEST(agrees_with_the_oracle)
{
    const char *replay = getenv("SELECT_TEST_SEED"), *more = getenv("SELECT_TEST_CASES");
    uint64_t first = 1000000u * (uint64_t)(_i + 1), cases = more ? strtoull(more, NULL, 10) : CASES;
    struct tally tally = { 0 };

    if (replay) {
        one_case(strtoull(replay, NULL, 10), &tally);
        return;
    }
    for (uint64_t i = 0; i < cases; i++)
        one_case(first + i, &tally);
    printf("  seeds %llu-%llu: %u placed, %u later, %u never\n", (unsigned long long)first, (unsigned long long)(first + cases - 1), tally.placed, tally.later,
           tally.never);
    ck_assert_uint_gt(tally.placed, cases / 10);
    ck_assert_uint_gt(tally.later, cases / 100);
    ck_assert_uint_gt(tally.never, cases / 10);
}
END_TEST

/* With equal weights nobody needs more nodes than the oracle. */
START_TEST(no_more_nodes_than_needed)
{
    uint32_t compared = 0;

    for (uint64_t seed = 1; seed <= 3000; seed++) {
        static struct cluster c;
        static struct wish w;
        static struct placed p;
        char cluster_text[2000], wish_text[100] = "cr=core,memory";
        struct spur_error err;

        random_state = seed;
        random_cluster(cluster_text, sizeof cluster_text);
        cluster_make(&c, cluster_text);
        for (uint32_t i = 0; i < c.view.node_count; i++)
            c.nodes[i].weight = 1;
        add(wish_text, sizeof wish_text, " n=%u", 1 + pick(12));
        if (chance(30))
            add(wish_text, sizeof wish_text, " c=%u", 1 + pick(3));
        if (chance(30))
            add(wish_text, sizeof wish_text, " mempercpu=%u", 30);
        wish_make(&w, &c, wish_text);
        if (cluster_place(&c, &w, &p, &err) < 0)
            continue;
        ck_assert_msg(p.p.pick_count == oracle_fewest(&c, &w), "seed %llu: %u nodes, %u are enough\n%swish %s", (unsigned long long)seed, p.p.pick_count,
                      oracle_fewest(&c, &w), cluster_text, wish_text);
        compared++;
    }
    ck_assert_uint_gt(compared, 500);
}
END_TEST

Suite *oracle_suite(void);
Suite *oracle_suite(void)
{
    Suite *s = suite_create("select/topo: oracle");
    TCase *t = tcase_create("oracle");

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, agrees_with_the_oracle, 0, 3);
    tcase_add_test(t, no_more_nodes_than_needed);
    suite_add_tcase(s, t);
    return s;
}
