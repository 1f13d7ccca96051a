/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.h - the cases of each file, and the random numbers of the property tests. */
#ifndef TEST_BASE_H
#define TEST_BASE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <spur/error.h>

TCase *arena_cases(void);
TCase *bitmap_cases(void);
TCase *duration_cases(void);
TCase *hostlist_cases(void);
TCase *moment_cases(void);
TCase *size_cases(void);
TCase *str_cases(void);
TCase *table_cases(void);

/* Property tests draw from one seed, new at each run; a failure prints it and SPUR_TEST_SEED=N replays it. */
extern uint64_t test_seed;
uint64_t dice(uint64_t *state, uint64_t sides);     /* 0 .. sides - 1 */

#define ck_seed(holds) ck_assert_msg(holds, "%s does not hold; replay with SPUR_TEST_SEED=%llu", #holds, (unsigned long long)test_seed)
/* A refusal must show the user what was refused. */
#define ck_refused(rc, err, what) do { ck_assert_int_lt(rc, 0); ck_assert_int_eq(rc, (err).code); \
    ck_assert_msg(strstr((err).text, what), "\"%s\" does not name \"%s\"", (err).text, what); } while (0)

#endif
