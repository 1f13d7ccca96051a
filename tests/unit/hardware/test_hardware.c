/* SPDX-License-Identifier: Apache-2.0 */
/* test_hardware.c - runs the suites of hardware/. */
#include "test_hardware.h"

int main(void)
{
    SRunner *r = srunner_create(rig_suite());
    int failed;

    srunner_add_suite(r, trees_suite());
    srunner_add_suite(r, nvml_suite());
    srunner_add_suite(r, merge_suite());
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
