/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.h - Prolog and Epilog on a node: what waits for them, and what follows from their ends. */
#ifndef AGENT_HOOKS_H
#define AGENT_HOOKS_H

#include "agent/inside.h"

/* The step may start when its job's Prolog has run here. True: it waits, or has been refused because the Prolog failed; launch_begin is called later. */
bool hooks_hold(struct agent_step *s, const Wire__Launch *l, const Wire__Credential *grant);
/* PrologFlags=Alloc: the Prolog runs now, before any step; STARTED of the extern step says that it has. */
void hooks_alloc(struct identity *n, const Wire__Launch *l, const Wire__Credential *grant);
/* No step of the job is left: may GONE be said? False: a Prolog or the Epilog runs still, and steps_endings is called after it. */
bool hooks_over(struct identity *n, struct ending *e);
/* The job has gone from here: it will not be asked for again. */
void hooks_forget(struct identity *n, uint32_t job_id, uint32_t attempt);
void hooks_stop(struct agent *a);

#endif
