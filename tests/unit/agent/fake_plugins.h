/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_AGENT_FAKE_PLUGINS_H
#define TESTS_AGENT_FAKE_PLUGINS_H

#include <spur/auth.h>

/* self NULL: a controller's proof; else a node's. */
int fake_prove(void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err);
int fake_check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err);
int fake_sign(void *self, const char *purpose, const void *data, size_t n, uint8_t signature[64], struct spur_error *err);
extern const struct spur_auth_ops *const fake_auth;

#endif
