/* SPDX-License-Identifier: Apache-2.0 */
/* amd.h - the seam between amd.c (the plugin: rows, health) and kfd.c (the tree that the driver shows). */
#ifndef GPU_AMD_H
#define GPU_AMD_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/gpu.h>

#define KFD_NODES_MAX 1024
#define KFD_LINKS_MAX 512       /* of one node */

/* Numbers of the driver's: hsakmt's HSA_IOLINKTYPE. XGMI is 11; 2 is PCI Express, which every discrete GPU has to its CPU. */
enum { KFD_LINK_HYPERTRANSPORT = 1, KFD_LINK_PCIE = 2, KFD_LINK_XGMI = 11 };
#define KFD_VENDOR_AMD 4098

struct kfd_link { uint32_t to, type, weight, min_mbps, max_mbps; bool is_p2p; };
struct kfd_node {
    uint32_t number;            /* of the folder; links name it */
    bool     is_gpu, is_cpu;
    uint32_t location_id, domain, render_minor, device_id, gfx_version;
    uint64_t unique_id, hive_id;
    struct kfd_link *links; uint32_t link_count;
};
struct kfd { struct kfd_node *nodes; uint32_t count; };

/* Reads ROOT/sys/class/kfd/kfd/topology/nodes, nodes by number. No such folder: 0 with no nodes. A file that is missing or contradicts another is
 * an error that names it. */
int  kfd_read(const char *root, struct kfd *out, struct spur_error *err);
void kfd_fini(struct kfd *k);
/* One number of a "key value" file; false when it is not there. */
bool kfd_number(const char *path, const char *key, uint64_t *out);

#endif
