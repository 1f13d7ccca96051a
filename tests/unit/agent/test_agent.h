/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_AGENT_TEST_AGENT_H
#define TESTS_AGENT_TEST_AGENT_H

#include <check.h>

TCase *case_launch(void);
TCase *case_step(void);
TCase *case_cpus(void);
TCase *case_environment(void);
TCase *case_spool(void);
TCase *case_container(void);
TCase *case_limits(void);
TCase *case_drop(void);
TCase *case_faults(void);
TCase *case_hooks(void);

#endif
