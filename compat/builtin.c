/* SPDX-License-Identifier: Apache-2.0 */
/* builtin.c - the plugins inside this library: what proves its caller when a controller is on another host. auth/munge is a file beside. */
#include <spur/plugin.h>

extern const struct spur_plugin *const loader_builtins[];
extern const struct spur_plugin spur_plugin_auth_sodium;
const struct spur_plugin *const loader_builtins[] = { &spur_plugin_auth_sodium, NULL };
