/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - xoshiro256** by Blackman and Vigna, seeded by splitmix64 so that seeds 1, 2, 3 have nothing in common. */
#include "sim/random.h"

#include <string.h>

static uint64_t rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

void sim_random_seed(struct sim_random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        r->s[i] = z ^ z >> 31;
    }
}

uint64_t sim_random_next(struct sim_random *r)
{
    uint64_t result = rotate(r->s[1] * 5, 7) * 9, t = r->s[1] << 17;

    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= t;
    r->s[3] = rotate(r->s[3], 45);
    return result;
}

uint64_t sim_random_below(struct sim_random *r, uint64_t n)
{
    return n ? sim_random_next(r) % n : 0;
}

uint64_t sim_random_between(struct sim_random *r, uint64_t low, uint64_t high)
{
    return high > low ? low + sim_random_below(r, high - low + 1) : low;
}

bool sim_random_chance(struct sim_random *r, uint64_t per_million)
{
    return per_million && sim_random_below(r, 1000000) < per_million;
}

uint64_t sim_random_tail(struct sim_random *r, uint64_t typical)
{
    uint64_t most = typical;

    for (int i = 0; i < 4 && sim_random_below(r, 4) == 0; i++)
        most *= 2;
    return sim_random_between(r, typical / 2, most);
}

uint64_t sim_hash(uint64_t seed, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t h = seed ^ UINT64_C(0xcbf29ce484222325), word;

    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
        h ^= h >> 32;
    }
    for (; n; n--, p++)
        h = (h ^ *p) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}
