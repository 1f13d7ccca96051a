/* SPDX-License-Identifier: Apache-2.0 */
/* test_hardware.h - what the tests of hardware/ share: the thirteen node types, each as its text form says it. */
#ifndef TEST_HARDWARE_H
#define TEST_HARDWARE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/rig.h"

/* tests/data/topologies/NAME.txt, read by a reader of the tests' own: the judge of all others. */
struct fixture {
    char name[64];
    uint32_t count, nics;
    struct { char bdf[20]; int numa, pcisw; } gpus[16];
    struct { char name[32]; int numa, pcisw; unsigned gbps; } nic[16];
    uint32_t mbps[16][16], links[16][16];
};

extern const char *const fixture_names[];       /* 13, NULL at the end */
bool fixture_is_amd(const char *name);
void fixture_read(const char *name, struct fixture *f);

Suite *rig_suite(void);
Suite *trees_suite(void);
Suite *nvml_suite(void);
Suite *merge_suite(void);

#endif
