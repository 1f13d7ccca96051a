/* SPDX-License-Identifier: Apache-2.0 */
/* environment.h - which variables go along with a job or step: --export, --export-file, --get-user-env. */
#ifndef CMDS_COMMON_ENVIRONMENT_H
#define CMDS_COMMON_ENVIRONMENT_H

#include <stddef.h>
#include <spur/error.h>

#include "cmds/common/request.h"

/* NAME=value, each ended by a NUL, in *data (free() it): what --export of `r` lets through of `from`, the variables it sets, then the pairs of
 * `also` (NULL-ended, may be NULL), each later one replacing an earlier one. A batch job does not inherit the binding of the step it is sent from. */
int environment_export(struct request *r, char *const *from, char *const *also, char **data, size_t *n, struct spur_error *err);

#endif
