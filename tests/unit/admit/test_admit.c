/* SPDX-License-Identifier: Apache-2.0 */
/* test_admit.c - runs the suites of admit. */
#include <check.h>
#include <stdlib.h>

Suite *table_suite(void);
Suite *submit_suite(void);
Suite *cancel_suite(void);
Suite *update_suite(void);
Suite *nodes_suite(void);
Suite *roles_suite(void);
Suite *accounts_suite(void);
Suite *het_suite(void);

int main(void)
{
    SRunner *sr = srunner_create(table_suite());
    int failed;

    srunner_add_suite(sr, submit_suite());
    srunner_add_suite(sr, cancel_suite());
    srunner_add_suite(sr, update_suite());
    srunner_add_suite(sr, nodes_suite());
    srunner_add_suite(sr, roles_suite());
    srunner_add_suite(sr, accounts_suite());
    srunner_add_suite(sr, het_suite());
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
