/* SPDX-License-Identifier: Apache-2.0 */
/* netlink.c - the kernel's WireGuard over generic netlink: family "wireguard", attributes as <linux/wireguard.h> describes them.
 *
 * A message holds at most 64 KiB: long lists of peers are sent in parts, and the kernel's answers come in parts, a peer with many
 * addresses even over two of them (the second without its other attributes); ours have one address each.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/wireguard.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"

#define ROOM      16384u
#define PEER_MOST 256u          /* bytes that one peer takes in a message, at most */

struct netlink { struct mnl_socket *socket; unsigned port, seq; uint16_t family; char name[IFNAMSIZ]; };

static int exchange(struct netlink *n, struct nlmsghdr *h, mnl_cb_t each, void *arg)
{
    char answer[ROOM];
    int rc = 1;

    h->nlmsg_seq = ++n->seq;
    if (mnl_socket_sendto(n->socket, h, h->nlmsg_len) < 0)
        return -errno;
    while (rc > 0) {
        ssize_t got = mnl_socket_recvfrom(n->socket, answer, sizeof answer);

        if (got < 0)
            return -errno;
        if ((rc = mnl_cb_run(answer, (size_t)got, n->seq, n->port, each, arg)) < 0)
            return -errno;
    }
    return 0;
}

static struct nlmsghdr *begin(char *buf, uint16_t type, uint8_t command, uint8_t version, uint16_t flags)
{
    struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
    struct genlmsghdr *g;

    h->nlmsg_type = type;
    h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
    g = mnl_nlmsg_put_extra_header(h, sizeof *g);
    g->cmd = command;
    g->version = version;
    return h;
}

static int family_row(const struct nlmsghdr *h, void *arg)
{
    uint16_t *family = arg;
    struct nlattr *a;

    mnl_attr_for_each(a, h, sizeof(struct genlmsghdr))
        if (mnl_attr_get_type(a) == CTRL_ATTR_FAMILY_ID && mnl_attr_validate(a, MNL_TYPE_U16) >= 0)
            *family = mnl_attr_get_u16(a);
    return MNL_CB_OK;
}

int netlink_open(struct netlink **out, const char *name, struct spur_error *err)
{
    char buf[ROOM];
    struct netlink *n = calloc(1, sizeof *n);
    struct nlmsghdr *h;
    int rc;

    if (!n)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    snprintf(n->name, sizeof n->name, "%s", name);
    n->socket = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
    if (!n->socket || mnl_socket_bind(n->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "no generic netlink here: %s", strerror(errno));
        goto fail;
    }
    n->port = mnl_socket_get_portid(n->socket);
    n->seq = (unsigned)time(NULL);
    h = begin(buf, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1, NLM_F_ACK);
    mnl_attr_put_strz(h, CTRL_ATTR_FAMILY_NAME, WG_GENL_NAME);
    if ((rc = exchange(n, h, family_row, &n->family)) < 0 || !n->family) {
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "this kernel has no wireguard (%s)", rc < 0 ? strerror(-rc) : "the family has no number");
        goto fail;
    }
    *out = n;
    return 0;
fail:
    netlink_close(n);
    return rc;
}

void netlink_close(struct netlink *n)
{
    if (!n)
        return;
    if (n->socket)
        mnl_socket_close(n->socket);
    free(n);
}

static void put_address(struct nlmsghdr *h, const struct ip *ip)
{
    struct nlattr *list = mnl_attr_nest_start(h, WGPEER_A_ALLOWEDIPS), *one = mnl_attr_nest_start(h, 0);

    mnl_attr_put_u16(h, WGALLOWEDIP_A_FAMILY, (uint16_t)ip->family);
    mnl_attr_put(h, WGALLOWEDIP_A_IPADDR, ip->family == AF_INET ? 4 : 16, &ip->at);
    mnl_attr_put_u8(h, WGALLOWEDIP_A_CIDR_MASK, ip->prefix);
    mnl_attr_nest_end(h, one);
    mnl_attr_nest_end(h, list);
}

static void put_endpoint(struct nlmsghdr *h, const struct endpoint *e)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(e->port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(e->port) };

    if (e->ip.family == AF_INET) {
        four.sin_addr = e->ip.at.four;
        mnl_attr_put(h, WGPEER_A_ENDPOINT, sizeof four, &four);
    } else {
        six.sin6_addr = e->ip.at.six;
        mnl_attr_put(h, WGPEER_A_ENDPOINT, sizeof six, &six);
    }
}

static void put_peer(struct nlmsghdr *h, const struct device_change *c)
{
    struct nlattr *one = mnl_attr_nest_start(h, 0);

    mnl_attr_put(h, WGPEER_A_PUBLIC_KEY, DEVICE_KEY, c->peer->key);
    mnl_attr_put_u32(h, WGPEER_A_FLAGS, c->is_gone ? WGPEER_F_REMOVE_ME : WGPEER_F_REPLACE_ALLOWEDIPS);
    if (!c->is_gone) {
        if (c->peer->has_endpoint)
            put_endpoint(h, &c->peer->endpoint);
        mnl_attr_put_u16(h, WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, c->peer->keepalive_s);
        put_address(h, &c->peer->addr);
    }
    mnl_attr_nest_end(h, one);
}

int netlink_set(struct netlink *n, const uint8_t *key, uint16_t port, const struct device_change *changes, size_t count, struct spur_error *err)
{
    size_t done = 0;
    int rc;

    do {
        char buf[ROOM];
        struct nlmsghdr *h = begin(buf, n->family, WG_CMD_SET_DEVICE, WG_GENL_VERSION, NLM_F_ACK);

        mnl_attr_put_strz(h, WGDEVICE_A_IFNAME, n->name);
        if (key && !done)
            mnl_attr_put(h, WGDEVICE_A_PRIVATE_KEY, DEVICE_KEY, key);
        if (port && !done)
            mnl_attr_put_u16(h, WGDEVICE_A_LISTEN_PORT, port);
        if (count) {
            struct nlattr *list = mnl_attr_nest_start(h, WGDEVICE_A_PEERS);

            while (done < count && h->nlmsg_len + PEER_MOST < ROOM)
                put_peer(h, &changes[done++]);
            mnl_attr_nest_end(h, list);
        }
        rc = exchange(n, h, NULL, NULL);
        explicit_bzero(buf, sizeof buf);        /* it may hold the private key */
        if (rc < 0)
            return spur_fail(err, rc == -EPERM ? SPUR_EDENIED : SPUR_EIO, "interface %s: the kernel refuses its setting: %s", n->name, strerror(-rc));
    } while (done < count);
    return 0;
}

static void take_endpoint(const struct nlattr *a, struct device_peer *p)
{
    size_t n = mnl_attr_get_payload_len(a);
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    sa_family_t family;

    if (n < sizeof family)
        return;
    memcpy(&family, mnl_attr_get_payload(a), sizeof family);
    if (family == AF_INET && n >= sizeof four) {
        memcpy(&four, mnl_attr_get_payload(a), sizeof four);
        p->endpoint = (struct endpoint){ .ip = { .family = AF_INET, .at.four = four.sin_addr, .prefix = 32 }, .port = ntohs(four.sin_port) };
    } else if (family == AF_INET6 && n >= sizeof six) {
        memcpy(&six, mnl_attr_get_payload(a), sizeof six);
        p->endpoint = (struct endpoint){ .ip = { .family = AF_INET6, .at.six = six.sin6_addr, .prefix = 128 }, .port = ntohs(six.sin6_port) };
    }
    p->has_endpoint = p->endpoint.port != 0;
}

static void take_address(const struct nlattr *list, struct device_peer *p)
{
    struct nlattr *one, *a;

    mnl_attr_for_each_nested(one, list)
        mnl_attr_for_each_nested(a, one) {
            size_t n = mnl_attr_get_payload_len(a);

            if (mnl_attr_get_type(a) == WGALLOWEDIP_A_IPADDR && (n == 4 || n == 16)) {
                p->addr.family = n == 4 ? AF_INET : AF_INET6;
                memcpy(&p->addr.at, mnl_attr_get_payload(a), n);
            } else if (mnl_attr_get_type(a) == WGALLOWEDIP_A_CIDR_MASK && n >= 1) {
                p->addr.prefix = mnl_attr_get_u8(a);
            }
        }
}

static void take_peer(const struct nlattr *one, struct device_peer *p)
{
    struct nlattr *a;

    mnl_attr_for_each_nested(a, one) {
        size_t n = mnl_attr_get_payload_len(a);
        int64_t seconds;

        switch (mnl_attr_get_type(a)) {
        case WGPEER_A_PUBLIC_KEY:
            if (n == DEVICE_KEY)
                memcpy(p->key, mnl_attr_get_payload(a), DEVICE_KEY);
            break;
        case WGPEER_A_ENDPOINT:
            take_endpoint(a, p);
            break;
        case WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL:
            if (n >= 2)
                p->keepalive_s = mnl_attr_get_u16(a);
            break;
        case WGPEER_A_LAST_HANDSHAKE_TIME:      /* struct __kernel_timespec: seconds first */
            if (n >= 8) {
                memcpy(&seconds, mnl_attr_get_payload(a), 8);
                p->handshake_wall_s = seconds;
            }
            break;
        case WGPEER_A_RX_BYTES:
            if (n >= 8)
                p->rx_bytes = mnl_attr_get_u64(a);
            break;
        case WGPEER_A_TX_BYTES:
            if (n >= 8)
                p->tx_bytes = mnl_attr_get_u64(a);
            break;
        case WGPEER_A_ALLOWEDIPS:
            take_address(a, p);
            break;
        default:
            break;
        }
    }
}

int netlink_peer_parse(const void *payload, size_t n, struct device_peer **peers, size_t *count)
{
    const struct nlattr *attr;
    struct nlattr *one;

    mnl_attr_for_each_payload(payload, n) {
        if (mnl_attr_get_type(attr) != WGDEVICE_A_PEERS)
            continue;
        mnl_attr_for_each_nested(one, attr) {
            struct device_peer p = { .handshake_wall_s = 0 }, *bigger;

            take_peer(one, &p);
            if (*count && memcmp((*peers)[*count - 1].key, p.key, DEVICE_KEY) == 0)
                continue;               /* the rest of a peer that did not fit into the message before */
            if (!(bigger = realloc(*peers, (*count + 1) * sizeof *bigger)))
                return SPUR_ENOMEM;
            *peers = bigger;
            bigger[(*count)++] = p;
        }
    }
    return 0;
}

struct looking { struct device_peer **peers; size_t *count; };

static int look_row(const struct nlmsghdr *h, void *arg)
{
    struct looking *l = arg;
    size_t head = MNL_ALIGN(sizeof(struct genlmsghdr)), n = mnl_nlmsg_get_payload_len(h);

    if (n < head)
        return MNL_CB_OK;
    return netlink_peer_parse((const char *)mnl_nlmsg_get_payload(h) + head, n - head, l->peers, l->count) < 0 ? MNL_CB_ERROR : MNL_CB_OK;
}

int netlink_look(struct netlink *n, struct device_peer **out, size_t *count, struct spur_error *err)
{
    char buf[ROOM];
    struct nlmsghdr *h = begin(buf, n->family, WG_CMD_GET_DEVICE, WG_GENL_VERSION, NLM_F_DUMP | NLM_F_ACK);
    struct looking l = { out, count };
    int rc;

    *out = NULL;
    *count = 0;
    mnl_attr_put_strz(h, WGDEVICE_A_IFNAME, n->name);
    if ((rc = exchange(n, h, look_row, &l)) == 0)
        return 0;
    free(*out);
    *out = NULL;
    *count = 0;
    return spur_fail(err, SPUR_EIO, "interface %s: the kernel does not tell its peers: %s", n->name, strerror(-rc));
}
