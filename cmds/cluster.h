/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h - making the keys of hosts, for `spur cluster init` and the sandbox. */
#ifndef CMDS_CLUSTER_H
#define CMDS_CLUSTER_H

#include <spur/error.h>

/* Makes DIR/NAME/{host.key,hosts} for every controller and node named (host lists), each host's `hosts` naming all of them. Existing keys are kept. */
int cluster_keys_make(const char *dir, const char *controllers, const char *nodes, struct spur_error *err);

#endif
