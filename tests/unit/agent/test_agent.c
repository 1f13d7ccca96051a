/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent.c - the agent's tests; executed under the names spurd and spurstepd it is those. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "agent/agent.h"
#include "agent/drop.h"
#include "agent/fault.h"
#include "test_agent.h"
#include "loader/loader.h"

/* What shall fail now stands in a file, so that one agent serves all points; numbers from FAULT_COUNT on are those of drop.c. */
static bool fault_asked(enum fault at)
{
    const char *path = getenv("TEST_FAULT");
    int fd = open(path, O_RDONLY | O_CLOEXEC), asked;
    char text[32] = "", hits[320];
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    asked = n > 0 ? atoi(text) : -1;
    if (at == FAULT_CONTAIN_ENTER && asked >= FAULT_COUNT)
        drop_fail_at = asked - FAULT_COUNT + 1;
    if (asked != (int)at)
        return false;
    snprintf(hits, sizeof hits, "%s.hit", path);
    if ((fd = open(hits, O_WRONLY | O_APPEND | O_CLOEXEC)) >= 0) {
        if (write(fd, "x", 1) < 0)
            errno = 0;
        close(fd);
    }
    errno = EPERM;
    return true;
}

int main(int argc, char **argv)
{
    SRunner *r;
    Suite *s;
    int failed;

    loader_installed = "/nowhere";      /* what is installed on the machine does not matter */
    if (getenv("TEST_FAULT"))
        fault_hook = fault_asked;
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
    suite_add_tcase(s, case_faults());
    suite_add_tcase(s, case_step());
    suite_add_tcase(s, case_cpus());
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
