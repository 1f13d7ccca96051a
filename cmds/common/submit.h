/* SPDX-License-Identifier: Apache-2.0 */
/* submit.h - what sbatch and srun do alike around a submit: find the program, ask when a job would start. */
#ifndef CMDS_COMMON_SUBMIT_H
#define CMDS_COMMON_SUBMIT_H

#include "client/client.h"
#include "cmds/common/request.h"

bool path_is_program(const char *path);     /* a file that this user may run */
/* --test-only: asks, and says on standard error when and where the job would start, as COMMAND. 0, or a code with the refusal in err. */
int  would_run_show(struct client *c, struct request *r, const Wire__SubmitRequest *submit, const char *command, struct spur_error *err);

#endif
