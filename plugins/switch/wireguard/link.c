/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - makes, addresses and removes an interface through rtnetlink (rtnetlink(7)), one request and its answer at a time. */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <time.h>

#include "device.h"

#define ROOM 4096

/* Sends one request and reads its acknowledgement. 0 or the negative errno of the kernel. */
static int ask(struct nlmsghdr *h)
{
    char answer[8192];
    struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    unsigned port, seq = (unsigned)time(NULL);
    int rc = -EIO;

    if (!s)
        return -errno;
    h->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    h->nlmsg_seq = seq;
    if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0 || mnl_socket_sendto(s, h, h->nlmsg_len) < 0) {
        rc = -errno;
    } else {
        ssize_t n;

        port = mnl_socket_get_portid(s);
        n = mnl_socket_recvfrom(s, answer, sizeof answer);
        rc = n < 0 ? -errno : mnl_cb_run(answer, (size_t)n, seq, port, NULL, NULL) < 0 ? -errno : 0;
    }
    mnl_socket_close(s);
    return rc;
}

static int told(int rc, const char *name, const char *what, struct spur_error *err)
{
    if (rc == 0)
        return 0;
    return spur_fail(err, rc == -EPERM || rc == -EACCES ? SPUR_EDENIED : SPUR_EIO, "interface %s: %s: %s", name, what, strerror(-rc));
}

bool link_is_there(const char *name) { return if_nametoindex(name) != 0; }

int link_make(const char *name, struct spur_error *err)
{
    char buf[ROOM];
    struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
    struct ifinfomsg *i;
    struct nlattr *info;
    int rc;

    h->nlmsg_type = RTM_NEWLINK;
    h->nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
    i = mnl_nlmsg_put_extra_header(h, sizeof *i);
    i->ifi_family = AF_UNSPEC;
    mnl_attr_put_strz(h, IFLA_IFNAME, name);
    info = mnl_attr_nest_start(h, IFLA_LINKINFO);
    mnl_attr_put_strz(h, IFLA_INFO_KIND, "wireguard");
    mnl_attr_nest_end(h, info);
    rc = ask(h);
    if (rc == -EOPNOTSUPP || rc == -ENODEV)
        return spur_fail(err, SPUR_EUNSUPPORTED, "this kernel has no wireguard");
    return told(rc, name, "can't be made", err);
}

int link_up(const char *name, uint32_t mtu, struct spur_error *err)
{
    char buf[ROOM];
    struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
    struct ifinfomsg *i;

    h->nlmsg_type = RTM_NEWLINK;
    i = mnl_nlmsg_put_extra_header(h, sizeof *i);
    i->ifi_family = AF_UNSPEC;
    if (!(i->ifi_index = (int)if_nametoindex(name)))
        return spur_fail(err, SPUR_ENOTFOUND, "interface %s: not there", name);
    i->ifi_flags = i->ifi_change = IFF_UP;
    if (mtu)
        mnl_attr_put_u32(h, IFLA_MTU, mtu);
    return told(ask(h), name, "can't be set up", err);
}

int link_addr(const char *name, const struct ip *addr, bool add, struct spur_error *err)
{
    char buf[ROOM];
    struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
    struct ifaddrmsg *a;
    size_t len = addr->family == AF_INET ? 4 : 16;
    int rc;

    h->nlmsg_type = add ? RTM_NEWADDR : RTM_DELADDR;
    h->nlmsg_flags = add ? NLM_F_CREATE | NLM_F_REPLACE : 0;
    a = mnl_nlmsg_put_extra_header(h, sizeof *a);
    a->ifa_family = (unsigned char)addr->family;
    a->ifa_prefixlen = addr->prefix;
    if (addr->family == AF_INET6)
        a->ifa_flags = IFA_F_NODAD;
    if (!(a->ifa_index = if_nametoindex(name)))
        return spur_fail(err, SPUR_ENOTFOUND, "interface %s: not there", name);
    mnl_attr_put(h, IFA_LOCAL, len, &addr->at);
    mnl_attr_put(h, IFA_ADDRESS, len, &addr->at);
    rc = ask(h);
    if (!add && rc == -EADDRNOTAVAIL)
        return 0;
    return told(rc, name, add ? "can't be given its address" : "its address can't be taken away", err);
}

int link_remove(const char *name, struct spur_error *err)
{
    char buf[ROOM];
    struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
    struct ifinfomsg *i;

    h->nlmsg_type = RTM_DELLINK;
    i = mnl_nlmsg_put_extra_header(h, sizeof *i);
    i->ifi_family = AF_UNSPEC;
    if (!(i->ifi_index = (int)if_nametoindex(name)))
        return 0;
    return told(ask(h), name, "can't be removed", err);
}
