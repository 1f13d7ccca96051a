/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_device.c - switch/wireguard reads what a WireGuard program (UAPI) or the kernel (netlink attributes) says of its peers. First byte: even, UAPI. */
#include <stdlib.h>
#include <string.h>

#include "../../plugins/switch/wireguard/device.h"
#include "fuzz.h"

/* What was read can be printed, and what is printed reads back the same. */
static void peers_hold(const struct device_peer *peers, size_t count)
{
    char text[80];

    for (size_t i = 0; i < count; i++) {
        struct endpoint e;
        struct ip ip;

        if (peers[i].has_endpoint) {
            endpoint_print(&peers[i].endpoint, text);
            FUZZ_HOLDS(endpoint_parse(text, &e) == 0 && e.port == peers[i].endpoint.port && ip_equal(&e.ip, &peers[i].endpoint.ip));
        }
        if (peers[i].addr.family && peers[i].addr.prefix <= (peers[i].addr.family == AF_INET ? 32 : 128)) {
            ip_print(&peers[i].addr, text);
            FUZZ_HOLDS(ip_parse(text, &ip) == 0 && ip_equal(&ip, &peers[i].addr));
        }
    }
}

int fuzz_one(const uint8_t *data, size_t size)
{
    struct device_peer *peers = NULL;
    size_t count = 0;

    if (!size)
        return 0;
    if (data[0] % 2 == 0) {
        char *text = fuzz_text(data + 1, size - 1);

        if (userspace_parse(text, strlen(text), &peers, &count, NULL) == 0)
            peers_hold(peers, count);
        free(text);
    } else {
        uint8_t *copy = malloc(size);       /* aligned as the kernel's are */

        memcpy(copy, data + 1, size - 1);
        if (netlink_peer_parse(copy, size - 1, &peers, &count) == 0)
            peers_hold(peers, count);
        free(copy);
    }
    free(peers);
    return 0;
}
