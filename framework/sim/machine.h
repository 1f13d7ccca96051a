/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - one type of node out of a topology file: its processors, its GPUs and how they are joined. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <spur/error.h>
#include <spur/score.h>

#include "base/arena.h"
#include "wire/spur.pb-c.h"

struct machine {
    char     name[64];              /* of the type, as gres types are written */
    uint32_t packages, numa, cores_per_numa, threads_per_core;
    uint32_t gpus;
    uint32_t mbps[SPUR_DEVICES_MAX][SPUR_DEVICES_MAX];      /* MB/s in one direction; diagonal 0 */
    uint32_t links[SPUR_DEVICES_MAX][SPUR_DEVICES_MAX];
    int32_t  gpu_numa[SPUR_DEVICES_MAX], gpu_switch[SPUR_DEVICES_MAX];
    uint32_t card[SPUR_DEVICES_MAX];
    struct { char name[32]; int32_t pcie_switch, numa; uint32_t mbps; } nics[64]; uint32_t nic_count;
    uint64_t best_mbps[SPUR_DEVICES_MAX + 1];               /* the largest sum over the pairs of any set of k */
};

/* A topology file as etc/topologies has them (JSON). The sentence names the file and what is wrong in it. */
int  machine_read(const char *path, struct machine *out, struct spur_error *err);
/* What an agent on such a node would register as its devices; in the arena. */
Wire__DeviceTable *machine_devices(const struct machine *m, struct arena *a);
/* Sum over the pairs of a set. */
uint64_t machine_sum(const struct machine *m, uint64_t mask);

#endif
