/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - the two times that an entry carries.
 *
 * wall_ms is the clock people read. cluster_ms is the state's last value plus what CLOCK_BOOTTIME has advanced since: it never goes
 * back, and a clock that is set neither shortens nor lengthens a job.
 */
#include "controller/ctl.h"

int64_t ctl_cluster_ms(struct ctl *c)
{
    int64_t boot = clock_boot_ms();

    if (!c->clock_boot || c->state->cluster_ms > c->clock_state + (boot - c->clock_boot)) {
        c->clock_state = c->state->cluster_ms;
        c->clock_boot = boot;
    }
    return c->clock_state + (boot - c->clock_boot);
}
