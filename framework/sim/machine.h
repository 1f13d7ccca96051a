/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - one type of node out of a topology file: its processors, its GPUs and how they are joined. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <spur/error.h>
#include <spur/score.h>

#include "base/arena.h"
#include "hardware/rig.h"
#include "wire/spur.pb-c.h"

struct machine {
    struct rig rig;
    const struct spur_device_table *table;      /* of the rig */
    const char *type;               /* as gres types are written */
    uint32_t gpus;
    uint64_t best_mbps[SPUR_DEVICES_MAX + 1];   /* the largest sum over the pairs of any set of k, MB/s in one direction */
};

/* Any file that rig_read takes. */
int  machine_read(const char *path, struct machine *out, struct spur_error *err);
void machine_fini(struct machine *m);           /* accepts a zeroed one */
/* What an agent on such a node would register as its devices; in the arena. */
Wire__DeviceTable *machine_devices(const struct machine *m, struct arena *a);
/* Sum over the pairs of a set. */
uint64_t machine_sum(const struct machine *m, uint64_t mask);

#endif
