/* SPDX-License-Identifier: Apache-2.0 */
/* test_queue.c - lanes stay sorted whatever comes and goes; wake-ups come in order. Held against a plain list. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "plan/queue.h"

static uint64_t rng;
static uint32_t roll(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)((rng >> 11) % n);
}

#define JOBS 300
#define LANES 3

START_TEST(lanes_against_a_list)
{
    struct { bool in; uint64_t rank; uint32_t lanes; } list[JOBS] = { { 0 } };
    struct queue q;

    rng = 88172645463325252u + (uint64_t)_i * 7919;
    queue_init(&q);
    queue_lanes(&q, LANES);
    q.lanes[1].tier = 5;
    for (int step = 0; step < 400; step++) {
        uint32_t id = 1 + roll(JOBS - 1), lanes[LANES], n = 0;
        struct entry *e, *last = NULL;
        struct lane *l, *last_lane = NULL;
        uint32_t seen = 0, expected = 0;

        if (roll(3) == 0) {
            queue_remove(&q, id);
            list[id].in = false;
        } else {
            list[id].in = true;
            list[id].rank = 1 + roll(20);
            list[id].lanes = 0;
            for (uint32_t i = 0; i < LANES; i++)
                if (roll(2) || (i == LANES - 1 && !n)) {
                    lanes[n++] = i;
                    list[id].lanes |= 1u << i;
                }
            queue_add(&q, id, list[id].rank, lanes, n);
        }
        if (roll(4))
            continue;
        queue_merge(&q);
        for (uint32_t i = 0; i < LANES; i++)
            q.lanes[i].blocked = false;
        for (uint32_t i = 0; i < JOBS; i++)
            expected += list[i].in ? (uint32_t)__builtin_popcount(list[i].lanes) : 0;
        while ((e = queue_next(&q, &l))) {
            l->at++;
            seen++;
            ck_assert(list[e->job_id].in && list[e->job_id].rank == e->rank && (list[e->job_id].lanes >> l->part & 1));
            if (last)
                ck_assert(last_lane->tier > l->tier || (last_lane->tier == l->tier && !entry_before(e, last)));
            last = e;
            last_lane = l;
        }
        ck_assert_uint_eq(seen, expected);
    }
    queue_fini(&q);
}
END_TEST

START_TEST(wake_ups)
{
    struct queue q;
    int64_t last = 0;
    uint32_t id, n = 0;

    rng = 1234567 + (uint64_t)_i;
    queue_init(&q);
    for (uint32_t i = 0; i < 500; i++)
        queue_wake_at(&q, roll(1000), i);
    ck_assert(!queue_woken(&q, -1, &id));
    while (q.heap_count) {
        int64_t at = q.heap[0].wall_ms;

        ck_assert_int_ge(at, last);
        ck_assert(!queue_woken(&q, at - 1, &id));
        ck_assert(queue_woken(&q, at, &id));
        last = at;
        n++;
    }
    ck_assert_uint_eq(n, 500);
    queue_fini(&q);
}
END_TEST

Suite *queue_suite(void);
Suite *queue_suite(void)
{
    Suite *s = suite_create("plan/queue");
    TCase *t = tcase_create("queue");

    tcase_add_loop_test(t, lanes_against_a_list, 0, 20);
    tcase_add_loop_test(t, wake_ups, 0, 5);
    suite_add_tcase(s, t);
    return s;
}
