/* SPDX-License-Identifier: Apache-2.0 */
/* bcast.h - the process that writes files of a sbcast on one node: forked by the pool, it becomes the user before it touches anything. */
#ifndef AGENT_BCAST_H
#define AGENT_BCAST_H

#include "wire/spur.pb-c.h"

/* Dials the sbcast of order->grant, takes files until that closes. The exit status of the process. */
int bcast_run(const Wire__StepOrder *order);

#endif
