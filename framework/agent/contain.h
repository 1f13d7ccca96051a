/* SPDX-License-Identifier: Apache-2.0 */
/* contain.h - the agent's side of containers: which plugin, what the machine can keep, what each order says. */
#ifndef AGENT_CONTAIN_H
#define AGENT_CONTAIN_H

#include "agent/inside.h"

/* Takes ProctrackType, TaskPlugin, cgroup.conf of the configuration: at start and when it has changed. Says in one line what holds the steps. Sets the
 * node's fault when limits were asked for that this machine cannot keep. */
void contain_settle(struct agent *a);
void contain_free(struct agent *a);
/* What an order says of its container: made for one launch, freed by contain_order_free. */
Wire__Contain *contain_order(const struct agent *a, const Wire__Credential *grant, const Wire__Launch *launch, uint32_t index);
void contain_order_free(Wire__Contain *c);
/* A supervisor says that its step's processes do not die, or that they have after all. */
void contain_stuck(struct agent_step *s, bool is_stuck);

#endif
