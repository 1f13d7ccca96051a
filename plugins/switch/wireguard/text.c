/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - addresses, endpoints and keys of a mesh as text, both ways. Pure. What does not read completely is refused. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static unsigned bits_of(const struct ip *ip) { return ip->family == AF_INET ? 32 : 128; }

static bool number(const char *text, unsigned long max, unsigned long *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    *out = strtoul(text, &end, 10);
    return *end == '\0' && *out <= max;
}

int ip_parse(const char *text, struct ip *out)
{
    char host[64];
    const char *slash = strchr(text, '/');
    size_t n = slash ? (size_t)(slash - text) : strlen(text);
    unsigned long prefix;

    memset(out, 0, sizeof *out);
    if (n >= sizeof host)
        return SPUR_EINVAL;
    memcpy(host, text, n);
    host[n] = '\0';
    out->family = strchr(host, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(out->family, host, &out->at) != 1)
        return SPUR_EINVAL;
    prefix = bits_of(out);
    if (slash && !number(slash + 1, prefix, &prefix))
        return SPUR_EINVAL;
    out->prefix = (uint8_t)prefix;
    return 0;
}

void ip_print(const struct ip *ip, char out[64])
{
    size_t n;

    if (!inet_ntop(ip->family, &ip->at, out, 48))
        out[0] = '\0';
    n = strlen(out);
    if (ip->prefix != bits_of(ip))
        snprintf(out + n, 64 - n, "/%u", ip->prefix);
}

bool ip_equal(const struct ip *a, const struct ip *b)
{
    return a->family == b->family && a->prefix == b->prefix && memcmp(&a->at, &b->at, a->family == AF_INET ? 4 : 16) == 0;
}

bool ip_nth(const struct ip *net, uint64_t n, struct ip *out)
{
    unsigned bits = bits_of(net), host = bits - net->prefix;
    uint8_t *bytes = (uint8_t *)&out->at;
    size_t len = bits / 8;
    uint64_t carry = n;

    *out = *net;
    out->prefix = (uint8_t)bits;
    /* Neither the network's own number nor, in IPv4, the broadcast one. */
    if (n == 0 || (host < 64 && n >= (UINT64_C(1) << host) - (net->family == AF_INET ? 1 : 0)))
        return false;
    for (unsigned i = 0; i < host; i++)         /* from the network's first number on, whatever was written behind the prefix */
        bytes[len - 1 - i / 8] &= (uint8_t)~(1u << i % 8);
    for (size_t i = len; i-- > 0 && carry; carry >>= 8)
        bytes[i] |= (uint8_t)carry;
    return true;
}

int endpoint_parse(const char *text, struct endpoint *out)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    unsigned long port;
    size_t n;

    memset(out, 0, sizeof *out);
    if (!colon || !number(colon + 1, 65535, &port) || port == 0)
        return SPUR_EINVAL;
    n = (size_t)(colon - text);
    if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    } else if (memchr(text, ':', n)) {
        return SPUR_EINVAL;
    }
    if (n >= sizeof host || memchr(text, '/', n))
        return SPUR_EINVAL;
    memcpy(host, text, n);
    host[n] = '\0';
    out->port = (uint16_t)port;
    return ip_parse(host, &out->ip);
}

void endpoint_print(const struct endpoint *e, char out[80])
{
    char ip[64];

    ip_print(&e->ip, ip);
    snprintf(out, 80, e->ip.family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, e->port);
}

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int key_parse_hex(const char *text, uint8_t out[DEVICE_KEY])
{
    for (size_t i = 0; i < DEVICE_KEY; i++) {
        int high = nibble(text[2 * i]), low = high < 0 ? -1 : nibble(text[2 * i + 1]);

        if (low < 0)
            return SPUR_EINVAL;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * DEVICE_KEY] == '\0' ? 0 : SPUR_EINVAL;
}

void key_print_hex(const uint8_t key[DEVICE_KEY], char out[2 * DEVICE_KEY + 1])
{
    for (size_t i = 0; i < DEVICE_KEY; i++)
        snprintf(out + 2 * i, 3, "%02x", key[i]);
}
