/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - numbers from a seed: the same seed gives the same run on every machine. xoshiro256**, seeded by splitmix64. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_random { uint64_t s[4]; };

void     sim_random_seed(struct sim_random *r, uint64_t seed);
uint64_t sim_random_next(struct sim_random *r);
uint64_t sim_random_below(struct sim_random *r, uint64_t n);                    /* 0 .. n - 1; 0 when n is 0 */
uint64_t sim_random_between(struct sim_random *r, uint64_t low, uint64_t high); /* both included */
bool     sim_random_chance(struct sim_random *r, uint64_t per_million);
/* Mostly near `typical`, now and then many times as much: how delays of the real world are. At most 16 times. */
uint64_t sim_random_tail(struct sim_random *r, uint64_t typical);
uint64_t sim_hash(uint64_t seed, const void *data, size_t n);                   /* to compare contents; no secret */

#endif
