/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - BLAKE2b-256 of everything replicated: of the very bytes a snapshot would hold, so that the two cannot differ. */
#include <sodium.h>

#include "state/private.h"

static long digest_write(void *arg, const void *data, size_t n)
{
    crypto_generichash_update(arg, data, n);
    return (long)n;
}

void state_digest(const struct state *s, uint8_t out[32])
{
    crypto_generichash_state h;

    crypto_generichash_init(&h, NULL, 0, 32);
    state_save(s, digest_write, &h, NULL);
    crypto_generichash_final(&h, out, 32);
}
