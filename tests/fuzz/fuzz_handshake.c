/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_handshake.c - any bytes as what the other end of a channel says, in pieces of any length: to a server, a client, and both with a common key.
 *
 * Whoever makes them up gets no further than the proof, costs no more than a stranger may, and a channel that is broken stays so. The first byte says
 * to whom, the second in which pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "rpc/channel.h"

#define STRANGER_MAX (64u << 10)

/* A peer that greets well, and then says what the input says. */
static void greet(struct channel *c, bool is_server)
{
    struct channel *peer = is_server ? channel_client("c") : channel_server("c", NULL);
    struct spur_error err;

    if (is_server) {
        channel_input(c, channel_output(peer)->text, channel_output(peer)->len, &err);
    } else {
        channel_input(peer, channel_output(c)->text, channel_output(c)->len, &err);
        channel_input(c, channel_output(peer)->text, channel_output(peer)->len, &err);
    }
    channel_destroy(peer);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    static const uint8_t key[32] = { 7 };
    bool is_server, is_keyed, is_greeted, is_broken = false;
    struct channel *c;
    struct spur_error err;
    size_t step;

    if (size < 2)
        return 0;
    is_server = data[0] & 1;
    is_keyed = data[0] & 2;
    is_greeted = data[0] & 4;
    step = data[1] ? data[1] : 1;
    data += 2;
    size -= 2;
    c = is_keyed ? channel_keyed(is_server, "c", key) : is_server ? channel_server("c", NULL) : channel_client("c");
    if (is_greeted && !is_keyed)
        greet(c, is_server);
    while (size) {
        size_t n = size < step ? size : step;
        enum channel_want want;
        int rc = channel_input(c, data, n, &err);

        want = channel_want(c);
        FUZZ_HOLDS(want != CHANNEL_READY && want != CHANNEL_CHECK);
        FUZZ_HOLDS(!is_broken || rc < 0);
        FUZZ_HOLDS(rc == 0 || want == CHANNEL_BROKEN || want == CHANNEL_PROVE);
        FUZZ_HOLDS(channel_memory(c) <= STRANGER_MAX);
        is_broken = want == CHANNEL_BROKEN;
        if (want == CHANNEL_PROVE && rc < 0)
            break;
        data += n;
        size -= n;
    }
    channel_destroy(c);
    return 0;
}
