/* SPDX-License-Identifier: Apache-2.0 */
/* spur/gpu.h - the kind `gpu`: which accelerators a node has (Slurm's gres plugins with AutoDetect). ABI 0.2.
 *
 * Runs on the node in the agent's probe, a process of its own that is killed at a deadline: it may block. AutoDetect=NAME of gres.conf opens gpu/NAME, or the
 * plugin that stands for NAME; AutoDetect=full all but gpu/generic, which reads the lines of gres.conf. Mandatory: scan.
 */
#ifndef SPUR_GPU_H
#define SPUR_GPU_H

#include <stdbool.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPUR_GPU_MAX 64

struct spur_gpu {
    uint32_t index;             /* the device's number in masks and in CUDA/ROCR_VISIBLE_DEVICES; a share (mps, shard) has its GPU's */
    char     name[32], type[64];    /* gres name ("gpu", "mps", "shard") and type ("mi300x"; "" untyped) */
    char     file[128];         /* device file, "" when none; several behind one device: "/dev/a,/dev/b" */
    char     pci[20], uuid[64];
    char     cores[256];        /* near cores, list; "" for any */
    int32_t  numa;              /* -1 unknown */
    int32_t  links[SPUR_GPU_MAX];   /* number of direct links to device i; -1 self */
    uint64_t count;             /* 1 for a device; more for shares of one and for resources that are a count only */
    uint32_t flags;             /* SPUR_GPU_* */
    /* since 0.2 */
    uint32_t mbps[SPUR_GPU_MAX];    /* to device i, MB/s in one direction over direct links; 0: none, and the host fills in the share of the PCIe path */
    uint64_t hops;              /* bit i: device i is reached over other devices' links only, a path without capacity of its own: mbps stays 0 */
    uint8_t  path[SPUR_GPU_MAX];    /* SPUR_PATH_* to device i, where the plugin knows it; else the host looks it up by PCI address */
    uint32_t pcie_mbps;         /* of its own PCIe port; 0 unknown */
    int32_t  pcie_switch;       /* number of the PCIe switch; -1 */
    uint32_t line;              /* of gres.conf that this row was written on; 0: found, or unknown */
    uint32_t card;              /* partitions of one physical device have equal numbers */
    char     fabric[64];        /* NVLink or XGMI domain beyond the node: cluster and clique; "" */
};
/* The PCIe path between two devices, nearest first, as nvidia-smi names them: PIX, PXB, PHB, NODE, SYS. */
enum spur_path { SPUR_PATH_UNKNOWN = 0, SPUR_PATH_BOARD, SPUR_PATH_SWITCH, SPUR_PATH_SWITCHES, SPUR_PATH_BRIDGE, SPUR_PATH_NUMA, SPUR_PATH_SYSTEM };
#define SPUR_GPU_COUNT_ONLY 1u
#define SPUR_GPU_ENV_CUDA   2u  /* set CUDA_VISIBLE_DEVICES */
#define SPUR_GPU_ENV_ROCM   4u  /* set ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES */
#define SPUR_GPU_ENV_OPENCL 8u  /* set GPU_DEVICE_ORDINAL */
#define SPUR_GPU_ENV_INTEL  16u /* set ZE_AFFINITY_MASK */

/* A line of gres.conf that is for this node, as written. */
struct spur_gres_line {
    const char *name, *type, *file, *cores, *links, *flags, *count;     /* NULL when absent; file: ranges kept */
    const char *source; uint32_t line;
    const char *multiple_files;     /* MultipleFiles=: one device behind several files */
};
struct spur_gpu_found { uint32_t size; uint32_t gpu_size; struct spur_gpu *gpus; uint32_t room, count; };

struct spur_gpu_ops {
    uint32_t size;
    /* Fills found->gpus with what the lines say or the hardware shows. `root` replaces "/" in tests and sandboxes; device files need
     * not exist when `emulate`. EINVAL with file and line for a line that contradicts itself or the node; ENOTFOUND when the driver or library of this hardware is
     * not here, which is no fault of a node that is to have none; ELIMIT with the number that would be needed in found->count when found->room is too small. */
    int (*scan)(void *self, const struct spur_gres_line *lines, uint32_t line_count, uint32_t line_size, const char *root, bool emulate,
                struct spur_gpu_found *found, struct spur_error *err);
    /* 1 with one line in buf when device `index` of the last scan has a fault, else 0 with an empty text. Asked every few
     * seconds by the process that has scanned; a fault drains the node and ends the jobs that hold the device, 0 lifts that again. Optional. */
    int (*health)(void *self, uint32_t index, char *buf, size_t len);
};

#ifdef __cplusplus
}
#endif
#endif
