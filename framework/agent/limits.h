/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - what a job's or a step's container is held to: memory by cgroup.conf's arithmetic, the kernel's CPUs of its cores, the device files it may
 * not open. Everything that is read of the machine is read below a root, so that a test brings its own. */
#ifndef AGENT_LIMITS_H
#define AGENT_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bitmap.h"
#include "base/str.h"
#include "config/config.h"

struct limits_memory { uint64_t hard, soft, with_swap; };      /* bytes; UINT64_MAX: none */

/* Of memory given to the job (0: none was given to it, by a cluster that does not count memory) on a machine of so much RAM. */
struct limits_memory limits_memory(const struct config_cgroup *g, uint64_t given_bytes, uint64_t ram_bytes);

/* List of the kernel's CPUs ("0-3,8-11") that these cores have, cores counted as hwloc does: by socket, then by core. False: the machine has fewer cores
 * than the bitmap, or /sys does not tell. */
bool limits_cpus(const char *root, const struct bitmap *cores, struct str *out);

/* GPUs of both vendors in /dev, as numbers: major << 32 | minor. */
struct limits_device { uint64_t number; char path[64]; };
struct limits_devices { struct limits_device *list; size_t count; };
void limits_devices(const char *root, struct limits_devices *out);
void limits_devices_fini(struct limits_devices *d);
/* Which of them may be opened by one who has the files in `own`; all that serve every GPU of a vendor (/dev/kfd, nvidiactl, nvidia-uvm, nvidia-caps) go along with
 * the first. /dev/dri/card* goes along with the renderD* of the same device. */
bool limits_may_open(const char *root, const struct limits_device *d, const char *const *own, size_t own_count);

#endif
