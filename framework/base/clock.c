/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - the clocks of this machine in milliseconds; see clock.h. */
#include <time.h>

#include "base/clock.h"

static int64_t clock_read(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_boot_ms(void) { return clock_read(CLOCK_BOOTTIME); }
int64_t clock_mono_ms(void) { return clock_read(CLOCK_MONOTONIC); }
int64_t clock_wall_ms(void) { return clock_read(CLOCK_REALTIME); }
