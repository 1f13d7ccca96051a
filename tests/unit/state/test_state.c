/* SPDX-License-Identifier: Apache-2.0 */
/* test_state.c - runs the suites of state/. */
#include "test_state.h"

int main(void)
{
    SRunner *r = srunner_create(life_suite());
    int failed;

    srunner_add_suite(r, rules_suite());
    srunner_add_suite(r, array_suite());
    srunner_add_suite(r, dependency_suite());
    srunner_add_suite(r, bind_suite());
    srunner_add_suite(r, layout_suite());
    srunner_add_suite(r, token_suite());
    srunner_add_suite(r, node_suite());
    srunner_add_suite(r, devices_suite());
    srunner_add_suite(r, mesh_suite());
    srunner_add_suite(r, hosts_suite());
    srunner_add_suite(r, accounts_suite());
    srunner_add_suite(r, info_suite());
    srunner_add_suite(r, survive_suite());
    srunner_add_suite(r, het_suite());
    srunner_add_suite(r, hooks_suite());
    srunner_add_suite(r, random_suite());
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
