/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the clock of one simulated machine: runs a little fast or slow against true time, and may be set.
 * True time is microseconds since the start of the run. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdint.h>

struct sim_clock { uint64_t true_us; int64_t shown_us; int32_t drift_ppm; };    /* showed `shown_us` at true time `true_us` */

void     sim_clock_set(struct sim_clock *c, uint64_t now_us, int64_t shown_us, int32_t drift_ppm);
void     sim_clock_jump(struct sim_clock *c, uint64_t now_us, int64_t by_us);
int64_t  sim_clock_us(const struct sim_clock *c, uint64_t now_us);
uint64_t sim_clock_when(const struct sim_clock *c, int64_t shown_us);           /* first true time at which it shows that much; 0: long ago */

#endif
