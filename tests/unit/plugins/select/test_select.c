/* SPDX-License-Identifier: Apache-2.0 */
/* test_select.c - runs the tests of the select plugins. */
#include <check.h>
#include <stdlib.h>

Suite *topo_suite(void);
Suite *oracle_suite(void);
Suite *net_suite(void);

int main(void)
{
    SRunner *r = srunner_create(topo_suite());
    int failed;

    srunner_add_suite(r, oracle_suite());
    srunner_add_suite(r, net_suite());
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
