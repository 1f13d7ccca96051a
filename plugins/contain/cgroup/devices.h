/* SPDX-License-Identifier: Apache-2.0 */
/* devices.h - which devices a control group may open. */
#ifndef CONTAIN_DEVICES_H
#define CONTAIN_DEVICES_H

#include <linux/bpf.h>
#include <spur/contain.h>

/* Instructions of a program for the rows; out NULL: only how many. */
size_t devices_program(const struct spur_contain_device *rows, uint32_t count, uint32_t row_size, struct bpf_insn *out);
/* Loads it and hangs it on the folder of a control group of version 2. */
int    devices_attach(const char *folder, const struct spur_contain_device *rows, uint32_t count, uint32_t row_size, struct spur_error *err);
/* Lines for devices.deny of version 1. */
int    devices_deny(const char *folder, const struct spur_contain_device *rows, uint32_t count, uint32_t row_size, struct spur_error *err);

#endif
