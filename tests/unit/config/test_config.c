/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c - runs the config suite: lines, values, records, files, and the sample sites. */
#include "test_config.h"

#include <stdlib.h>

int main(void)
{
    Suite *s = suite_create("config");
    SRunner *r;
    int failed;

    add_lex(s);
    add_values(s);
    add_records(s);
    add_files(s);
    add_plugstack(s);
    add_samples(s);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
