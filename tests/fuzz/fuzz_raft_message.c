/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_raft_message.c - what another controller may send on a proven connection: hello, message, info, refusal, in the bytes of raft.proto.
 *
 * The first byte chooses. What decodes packs again, to something that decodes to the same; memory stays under the cap.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "message.h"

static bool same(const void *a, const void *b, size_t n) { return n == 0 || memcmp(a, b, n) == 0; }

static void message(const uint8_t *data, size_t size)
{
    struct decoded one, two;
    unsigned sum = 0;
    uint8_t *packed;
    size_t n;

    if (message_unpack(&one, data, size) < 0)
        return;
    FUZZ_HOLDS(one.used <= one.cap && one.cap <= 16 * size + (64u << 10));
    for (size_t i = 0; i < one.m.count; i++)
        for (size_t k = 0; k < one.m.entries[i].n; k++)
            sum += ((const uint8_t *)one.m.entries[i].data)[k];
    packed = message_pack(&one.m, &n);
    FUZZ_HOLDS(packed && message_unpack(&two, packed, n) == 0);
    FUZZ_HOLDS(one.m.type == two.m.type && one.m.to == two.m.to && one.m.term == two.m.term && one.m.index == two.m.index && one.m.log_term == two.m.log_term &&
               one.m.commit == two.m.commit && one.m.round == two.m.round && one.m.sent_ms == two.m.sent_ms && one.m.reject == two.m.reject &&
               one.m.by_transfer == two.m.by_transfer && one.m.match == two.m.match && one.m.hint_index == two.m.hint_index && one.m.hint_term == two.m.hint_term &&
               one.m.offset == two.m.offset && one.m.total == two.m.total && one.m.is_last == two.m.is_last && one.m.n == two.m.n && one.m.count == two.m.count);
    FUZZ_HOLDS(same(one.m.data, two.m.data, one.m.n));
    for (size_t i = 0; i < one.m.count; i++)
        FUZZ_HOLDS(one.m.entries[i].index == two.m.entries[i].index && one.m.entries[i].term == two.m.entries[i].term && one.m.entries[i].type == two.m.entries[i].type &&
                   one.m.entries[i].n == two.m.entries[i].n && same(one.m.entries[i].data, two.m.entries[i].data, one.m.entries[i].n));
    free(packed);
    message_free(&two);
    message_free(&one);
    (void)sum;
}

static void hello(const uint8_t *data, size_t size)
{
    struct hello one, two;
    uint8_t *packed;
    size_t n;

    if (hello_unpack(&one, data, size) < 0)
        return;
    FUZZ_HOLDS(memchr(one.name, '\0', sizeof one.name) && memchr(one.addr, '\0', sizeof one.addr) && one.member != RAFT_NOBODY);
    packed = hello_pack(&one, &n);
    FUZZ_HOLDS(packed && hello_unpack(&two, packed, n) == 0);
    FUZZ_HOLDS(one.member == two.member && one.group == two.group && one.former == two.former && one.is_fresh == two.is_fresh && one.protocol == two.protocol &&
               one.line == two.line && one.feature == two.feature && strcmp(one.name, two.name) == 0 && strcmp(one.addr, two.addr) == 0);
    free(packed);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    char text[400];
    struct info i;

    if (!size)
        return 0;
    switch (data[0] % 4) {
    case 0: message(data + 1, size - 1); break;
    case 1: hello(data + 1, size - 1); break;
    case 2: info_unpack(&i, data + 1, size - 1); break;
    default:
        if (refusal_unpack(text, data + 1, size - 1) == 0)
            FUZZ_HOLDS(memchr(text, '\0', sizeof text));
        break;
    }
    return 0;
}
