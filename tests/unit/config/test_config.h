/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.h - the groups of the config suite. */
#ifndef TEST_CONFIG_H
#define TEST_CONFIG_H

#include <check.h>

void add_samples(Suite *s);
void add_lex(Suite *s);
void add_values(Suite *s);
void add_records(Suite *s);
void add_files(Suite *s);
void add_plugstack(Suite *s);

#endif
