/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - clocks that drift and jump. */
#include "sim/clock.h"

void sim_clock_set(struct sim_clock *c, uint64_t now_us, int64_t shown_us, int32_t drift_ppm)
{
    *c = (struct sim_clock){ .true_us = now_us, .shown_us = shown_us, .drift_ppm = drift_ppm };
}

void sim_clock_jump(struct sim_clock *c, uint64_t now_us, int64_t by_us)
{
    sim_clock_set(c, now_us, sim_clock_us(c, now_us) + by_us, c->drift_ppm);
}

int64_t sim_clock_us(const struct sim_clock *c, uint64_t now_us)
{
    int64_t gone = (int64_t)(now_us - c->true_us);

    return c->shown_us + gone + gone / 1000 * c->drift_ppm / 1000;
}

uint64_t sim_clock_when(const struct sim_clock *c, int64_t shown_us)
{
    int64_t wait = shown_us - c->shown_us;
    uint64_t at;

    if (wait <= 0)
        return 0;
    at = c->true_us + (uint64_t)(wait - wait / 1000 * c->drift_ppm / 1000);
    while (sim_clock_us(c, at) < shown_us)
        at += 1 + (uint64_t)(shown_us - sim_clock_us(c, at)) / 2;
    return at;
}
