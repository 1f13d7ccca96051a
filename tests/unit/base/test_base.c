/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c - runs the cases of framework/base. */
#include <stdio.h>
#include <time.h>

#include "test_base.h"

uint64_t test_seed;

uint64_t dice(uint64_t *state, uint64_t sides)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % sides;
}

int main(void)
{
    const char *seed = getenv("SPUR_TEST_SEED");
    Suite *suite = suite_create("base");
    SRunner *runner;
    int failed;

    test_seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    suite_add_tcase(suite, arena_cases());
    suite_add_tcase(suite, bitmap_cases());
    suite_add_tcase(suite, duration_cases());
    suite_add_tcase(suite, hostlist_cases());
    suite_add_tcase(suite, moment_cases());
    suite_add_tcase(suite, size_cases());
    suite_add_tcase(suite, str_cases());
    suite_add_tcase(suite, table_cases());
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
