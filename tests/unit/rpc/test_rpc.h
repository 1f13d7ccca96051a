/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc.h - the suites of this program, and the auth plugin they share. */
#ifndef TEST_RPC_H
#define TEST_RPC_H

#include <check.h>
#include <spur/auth.h>

Suite *suite_channel(void);
Suite *suite_server(void);
Suite *suite_auth(void);
Suite *suite_client(void);
Suite *suite_log(void);
Suite *suite_munge(void);
Suite *suite_tokens(void);

/* Proves "user UID" over the transcript with one common key; check wants the same. `wrong` makes its proofs bad. */
struct fake_auth { uint32_t uid; int role; bool wrong; };
extern const struct spur_auth_ops fake_auth_ops;

#endif
