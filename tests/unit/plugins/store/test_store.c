/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - runs the tests of the store plugins. */
#include <check.h>
#include <stdlib.h>

Suite *local_suite(void);
Suite *wal_suite(void);
Suite *crash_suite(void);
Suite *group_log_suite(void);
Suite *snapfork_suite(void);
Suite *matrix_suite(void);

int main(void)
{
    SRunner *r = srunner_create(local_suite());
    int failed;

    srunner_add_suite(r, wal_suite());
    srunner_add_suite(r, crash_suite());
    srunner_add_suite(r, group_log_suite());
    srunner_add_suite(r, snapfork_suite());
    srunner_add_suite(r, matrix_suite());
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
