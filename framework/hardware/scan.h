/* SPDX-License-Identifier: Apache-2.0 */
/* scan.h - a gpu plugin's answer as a rig, and where its devices lie, by PCI address. */
#ifndef HARDWARE_SCAN_H
#define HARDWARE_SCAN_H

#include "config/config.h"
#include "hardware/rig.h"
#include "loader/loader.h"

struct rows { struct spur_gpu *list; uint32_t count; };     /* rows of a scan: devices, shares, counts */

/* Asks an open gpu plugin; grows the room until it fits. 0, or the plugin's code and sentence. May block as long as the driver does. */
int  rows_scan(const struct loaded *plugin, const struct spur_gres_line *lines, uint32_t line_count, const char *root, bool emulate, struct rows *out, struct spur_error *err);
void scan_rows_fini(struct rows *r);
/* What gres.conf says (`written`, of gpu/generic) and what AutoDetect= finds, as one: a line wins where it says something and is completed by what is found; a
 * line that contradicts it is EINVAL with file, line and both sides. Without lines for GPUs all that is found is taken, under the types that `wants`
 * (the Gres= of the node's line) has for them. `how`: "AutoDetect=nvml"; `source`: name of the file in the sentences. */
int  rows_merge(const struct rows *written, const struct rows *found, const char *how, const char *source, const struct config_gres *wants, size_t want_count,
                struct rows *out, struct spur_error *err);
/* Devices with a number into the rig, in its order. False: the numbers have a gap; then nothing can be said by number, and none is taken. */
bool rig_take(struct rig *m, const struct rows *from);
/* PCI addresses of rows that have a device file and no address (lines of gres.conf): asked of ROOT/sys and ROOT/proc. */
void rig_find_pci(struct rig *m, const char *root);
/* NUMA node, cores, PCIe switch, path classes of what has a PCI address, network devices, and the cores of the machine: as another rig (by hwloc) knows them... */
void rig_match(struct rig *m, const struct rig *known);
uint32_t rig_nic_mbps(const char *root, const char *name);        /* Mbit/s that ROOT/sys says of it; 0 */
/* ... or as ROOT/sys shows them. Says nothing where nothing is. */
void rig_from_sysfs(struct rig *m, const char *root);

#endif
