/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/table.h"
#include "test_base.h"

#define KEYS 500

/* Thousands of random steps against a plain array; the walk must give insertion order. */
START_TEST(table_agrees_with_an_array)
{
    static char names[KEYS][24];
    static int values[2];
    void *expected[KEYS] = { 0 };
    uint64_t born[KEYS] = { 0 }, clock = 0, dices = test_seed;
    bool by_text = _i;
    struct table t;

    table_init(&t);
    for (int i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof names[i], "%.*snode%d", i % 13, "a-long-prefix", i);
    for (int step = 0; step < 20000; step++) {
        size_t k = dice(&dices, KEYS);
        void *v = &values[dice(&dices, 2)];

        if (dice(&dices, (uint64_t)step / 5000 % 2 ? 5 : 2)) {
            ck_seed((by_text ? table_del_text(&t, names[k]) : table_del(&t, k)) == expected[k]);
            expected[k] = NULL;
        } else {
            by_text ? table_put_text(&t, names[k], v) : table_put(&t, k, v);
            if (!expected[k])
                born[k] = ++clock;
            expected[k] = v;
        }
        k = dice(&dices, KEYS);
        ck_seed((by_text ? table_get_text(&t, names[k]) : table_get(&t, k)) == expected[k]);
        if (step % 1000 == 0) {
            size_t live = 0, walked = 0, cursor = 0;
            uint64_t last = 0;
            void *value;

            for (size_t i = 0; i < KEYS; i++)
                live += expected[i] != NULL;
            ck_seed(table_count(&t) == live);
            while ((value = table_next(&t, &cursor))) {
                uint64_t next = UINT64_MAX;
                size_t which = 0;

                for (size_t i = 0; i < KEYS; i++)
                    if (expected[i] && born[i] > last && born[i] < next) {
                        next = born[i];
                        which = i;
                    }
                ck_seed(value == expected[which]);
                last = next;
                walked++;
            }
            ck_seed(walked == live);
        }
    }
    table_fini(&t);
    table_fini(&t);
}
END_TEST

START_TEST(walk_may_delete)
{
    static uint64_t values[100];
    size_t cursor = 0, seen = 0;
    struct table t;
    uint64_t *v;

    table_init(&t);
    for (uint64_t i = 0; i < 100; i++) {
        values[i] = i;
        table_put(&t, i * 1000003, &values[i]);
    }
    while ((v = table_next(&t, &cursor)))
        if (++seen && *v % 3)
            ck_assert_ptr_eq(table_del(&t, *v * 1000003), v);
    ck_assert_uint_eq(seen, 100);
    ck_assert_uint_eq(table_count(&t), 34);
    ck_assert_ptr_eq(table_get(&t, 99 * UINT64_C(1000003)), &values[99]);
    table_fini(&t);
}
END_TEST

START_TEST(one_entry_that_comes_and_goes_does_not_grow_the_table)
{
    struct table t;
    size_t size;
    int value;

    table_init(&t);
    table_put(&t, 0, &value);
    size = t.index_size;
    for (uint64_t i = 1; i < 100000; i++) {
        table_put(&t, i, &value);
        ck_assert_ptr_eq(table_del(&t, i - 1), &value);
    }
    ck_assert_uint_eq(t.index_size, size);
    ck_assert_uint_eq(table_count(&t), 1);
    table_fini(&t);
}
END_TEST

START_TEST(empty_table_answers)
{
    struct table t;
    size_t cursor = 0;

    table_init(&t);
    ck_assert_ptr_null(table_get(&t, 1));
    ck_assert_ptr_null(table_get_text(&t, "x"));
    ck_assert_ptr_null(table_del(&t, 1));
    ck_assert_ptr_null(table_del_text(&t, "x"));
    ck_assert_ptr_null(table_next(&t, &cursor));
    table_fini(&t);
}
END_TEST

TCase *table_cases(void)
{
    TCase *t = tcase_create("table");

    tcase_add_loop_test(t, table_agrees_with_an_array, 0, 2);
    tcase_add_test(t, walk_may_delete);
    tcase_add_test(t, one_entry_that_comes_and_goes_does_not_grow_the_table);
    tcase_add_test(t, empty_table_answers);
    return t;
}
