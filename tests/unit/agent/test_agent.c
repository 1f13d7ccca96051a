/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent.c - the agent's tests; executed under the names spurd and spurstepd it is those. */
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "test_agent.h"
#include "loader/loader.h"

int main(int argc, char **argv)
{
    SRunner *r;
    Suite *s;
    int failed;

    loader_installed = "/nowhere";      /* what is installed on the machine does not matter */
    if (!strcmp(argv[0], "spurd"))
        return spurd_main(argc, argv);
    if (!strcmp(argv[0], "spurstepd"))
        return spurstepd_main(argc, argv);
    s = suite_create("agent");
    suite_add_tcase(s, case_environment());
    suite_add_tcase(s, case_spool());
    suite_add_tcase(s, case_container());
    suite_add_tcase(s, case_limits());
    suite_add_tcase(s, case_drop());
    suite_add_tcase(s, case_hooks());
    suite_add_tcase(s, case_launch());
    suite_add_tcase(s, case_step());
    suite_add_tcase(s, case_cpus());
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
