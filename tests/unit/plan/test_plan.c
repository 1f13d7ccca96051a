/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - runs the suites of the plan: order, reasons, backfill, steps, features, the queue, and all at once. */
#include <check.h>
#include <stdlib.h>

Suite *pass_suite(void);
Suite *backfill_suite(void);
Suite *step_suite(void);
Suite *features_suite(void);
Suite *queue_suite(void);
Suite *storm_suite(void);
Suite *het_suite(void);

int main(void)
{
    SRunner *sr = srunner_create(pass_suite());
    int failed;

    srunner_add_suite(sr, backfill_suite());
    srunner_add_suite(sr, step_suite());
    srunner_add_suite(sr, features_suite());
    srunner_add_suite(sr, queue_suite());
    srunner_add_suite(sr, storm_suite());
    srunner_add_suite(sr, het_suite());
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
