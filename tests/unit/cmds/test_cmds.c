/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "test_cmds.h"

static FILE *file;
static int saved;

void caught_begin(void)
{
    fflush(stderr);
    saved = dup(2);
    file = tmpfile();
    dup2(fileno(file), 2);
}

const char *caught_end(void)
{
    static char text[8192];
    size_t n;

    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    rewind(file);
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

int main(void)
{
    Suite *s = suite_create("cmds");
    SRunner *runner;
    int failed;

    suite_add_tcase(s, directives_cases());
    suite_add_tcase(s, environment_cases());
    suite_add_tcase(s, het_cases());
    suite_add_tcase(s, options_cases());
    suite_add_tcase(s, request_cases());
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
