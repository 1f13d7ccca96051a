/* SPDX-License-Identifier: Apache-2.0 */
/* gpus.h - spurd's side of its probe: one child at most, asked for the GPUs, then listened to as long as it watches their health. */
#ifndef AGENT_GPUS_H
#define AGENT_GPUS_H

#include "agent/inside.h"
#include "agent/probe.h"
#include "hardware/scan.h"

/* rig: network devices and the shape of the processors; its GPUs are not filled. health: of the devices, as inventory_health has it. */
struct gpus_answer { struct spur_error fault; struct rows rows; struct rig rig; struct probe_health health; };

/* Ends a probe that is there and starts another. `then` is called once, on the loop, by the deadline at the latest; it takes the memory in `take`. */
void gpus_ask(struct agent *a, void (*then)(struct agent *a, struct gpus_answer *take));
/* Ends the probe, if there is one; a question that is open is answered with a fault before this returns. */
void gpus_stop(struct agent *a);

#endif
