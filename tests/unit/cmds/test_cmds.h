/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmds.h - the cases of each file of cmds/common. */
#ifndef TEST_CMDS_H
#define TEST_CMDS_H

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <spur/error.h>

TCase *directives_cases(void);
TCase *environment_cases(void);
TCase *het_cases(void);
TCase *options_cases(void);
TCase *request_cases(void);

/* Runs `call`, which returns an exit code, with standard error sent to a buffer that lives until the next call. */
#define CAUGHT(rc, call) (caught_begin(), (rc) = (call), caught_end())
void caught_begin(void);
const char *caught_end(void);

#endif
