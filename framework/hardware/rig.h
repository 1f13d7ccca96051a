/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - one node's hardware as far as placing and binding need it: cores, GPUs and how they are joined, network devices.
 *
 * Filled by reading a topology file (rig_read) or by a look at the running machine. Who uses it: the agent's probe, emulated nodes,
 * `spur gpu`, `spur place`, `spur sim`. Everything is by PCI address: the numbers that hwloc, drivers and libraries count in all differ.
 */
#ifndef HARDWARE_RIG_H
#define HARDWARE_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/gpu.h>
#include <spur/score.h>

#include "base/str.h"

#define RIG_NICS_MAX 64

struct rig {
    char     name[64];                  /* of the topology, or "" */
    uint32_t sockets, cores_per_socket, threads_per_core, numa_nodes;   /* 0: unknown */
    struct spur_gpu *gpus; uint32_t gpu_count;      /* gpus[i].index == i */
    struct spur_nic *nics; uint32_t nic_count;
    uint32_t fabric_nodes;              /* nodes that one NVLink domain joins, when the file says it; else 0 */
};

/* A topology file: our JSON, hwloc's XML, a KFD tree in one file (.kfdtree), or a folder: a root with sys/ in it, or a KFD `nodes` folder. */
int  rig_read(const char *path, struct rig *out, struct spur_error *err);
void rig_fini(struct rig *m);           /* accepts a zeroed one */
struct spur_gpu *rig_gpu_add(struct rig *m);        /* zeroed but for index, count, numa -1, pcie_switch -1, card */
struct spur_nic *rig_nic_add(struct rig *m);

/* The table that plugins see, in one memory: free() it. Its id is 1. NULL when there is no GPU. */
struct spur_device_table *rig_table(const struct rig *m);
/* Bandwidth of the pairs that have no link of their own: the share of the PCIe path by its class. Makes links and bandwidths symmetric (the smaller counts). */
void rig_paths(struct spur_gpu *gpus, uint32_t count);
/* What one link of a GPU like this carries one way, by its type and vendor; for sources that give bandwidth but no number of links, or the reverse. */
uint32_t rig_link_mbps(const struct spur_gpu *g);
/* "mi250x", "nvidia_h100_80gb": a name as gres.conf takes it. */
void rig_type(const char *words, char *out, size_t size);
/* Ready lines of gres.conf, one a GPU; node NULL: without NodeName. */
void rig_print_gres(const struct rig *m, const char *node, struct str *out);
/* For people: GPUs with addresses, NUMA nodes, switches; network devices; the matrices of links and bandwidth. */
void rig_print(const struct rig *m, struct str *out);

/* The readers behind rig_read, by kind of file. */
int  rig_from_json(const char *path, struct rig *out, struct spur_error *err);
int  rig_from_hwloc(const char *xml, struct rig *out, struct spur_error *err);     /* xml NULL: this host (opens hwloc; its memory is megabytes) */
int  rig_from_kfdtree(const char *path, struct rig *out, struct spur_error *err);

#endif
