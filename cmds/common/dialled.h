/* SPDX-License-Identifier: Apache-2.0 */
/* dialled.h - what sattach, sstat and sbcast do alike: name a step, listen, and have the nodes of it dial back (framework/controller/dial.c). */
#ifndef CMDS_COMMON_DIALLED_H
#define CMDS_COMMON_DIALLED_H

#include "client/client.h"
#include "client/stepio.h"

struct step_name { uint32_t job_id; bool has_step; uint32_t step_id; };
/* "12", "12.0", "12.batch", "12.interactive" is none, "12_3.0", "12+1": an array task and a component are looked up. */
int  step_name_parse(struct client *c, struct arena *a, const char *text, struct step_name *out, struct spur_error *err);
/* Components of a heterogeneous job that begins with this one, whose ids follow; else 1. */
uint32_t job_components(struct client *c, struct arena *a, uint32_t job_id);
void step_name_print(const struct step_name *n, char out[32]);
struct step_io *dialled_listen(struct client *c, struct spur_error *err);
/* Asks the controller; the nodes dial `io` from then on. */
int  dialled_ask(struct client *c, struct step_io *io, Wire__DialRequest__Purpose purpose, const struct step_name *step, struct arena *a, Wire__DialReply **out, struct spur_error *err);
/* Does the step still run, as far as the controller knows? Also true when he does not answer. */
bool step_is_alive(struct client *c, struct arena *a, const struct step_name *step);
/* Calls `fn` for each running step of a job but its batch step. */
int  steps_of_job(struct client *c, struct arena *a, uint32_t job_id, void (*fn)(void *arg, const Wire__StepInfo *s), void *arg, struct spur_error *err);

#endif
