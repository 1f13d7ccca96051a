/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - the seam between nvml.c (the library) and proc.c (the driver without it). */
#ifndef GPU_NVML_INSIDE_H
#define GPU_NVML_INSIDE_H

#include <stdbool.h>
#include <spur/gpu.h>

/* "NVIDIA H100 80GB HBM3": nvidia_h100_80gb_hbm3. */
void nvml_type(const char *name, char *out, size_t size);
/* Devices that the driver shows below ROOT/proc, at most `room`. Their number, 0 without a driver, or a code. */
int  proc_scan(const char *root, struct spur_gpu *rows, uint32_t room, struct spur_error *err);

#endif
