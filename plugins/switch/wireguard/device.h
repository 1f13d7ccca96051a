/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - one WireGuard interface of this machine: made, given a key and peers, looked at, taken down.
 *
 * Two ways to have one: the kernel's own (netlink.c) and a userspace program such as wireguard-go on a tun device (userspace.c, spoken to through its
 * UAPI socket); wireguard.c does not see the difference. Calls may wait up to a few seconds; one thread at a time. Addresses, state and MTU of the
 * interface are set by rtnetlink (link.c) for both.
 */
#ifndef SWITCH_WIREGUARD_DEVICE_H
#define SWITCH_WIREGUARD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <net/if.h>
#include <netinet/in.h>
#include <spur/error.h>

#define DEVICE_KEY 32u

struct ip { int family; union { struct in_addr four; struct in6_addr six; } at; uint8_t prefix; };     /* prefix: bits */
struct endpoint { struct ip ip; uint16_t port; };

struct device_peer {
    uint8_t  key[DEVICE_KEY];
    bool     has_endpoint; struct endpoint endpoint;
    struct ip addr;             /* the one address that is behind it */
    uint16_t keepalive_s;
    /* filled by device_look */
    int64_t  handshake_wall_s;  /* 0: never */
    uint64_t rx_bytes, tx_bytes;
};

enum device_kind { DEVICE_AUTO, DEVICE_KERNEL, DEVICE_USERSPACE };
struct device_config {
    char     name[IFNAMSIZ];
    enum device_kind kind;
    const char *program;        /* of the userspace device, looked up in PATH when it has no slash */
    uint16_t port;              /* UDP port to listen on */
    uint32_t mtu;
};

struct device;
/* Finds the interface of that name as an earlier run left it, or makes it. EUNSUPPORTED: this machine can't, with both reasons. */
int  device_open(struct device **out, const struct device_config *config, struct spur_error *err);
bool device_is_userspace(const struct device *d);
/* A new private key: sessions with peers go on, the next handshakes use it. */
int  device_key(struct device *d, const uint8_t key[DEVICE_KEY], struct spur_error *err);
/* This interface's own address, with the prefix that is reached through it; up. An address it had before goes. */
int  device_addr(struct device *d, const struct ip *addr, struct spur_error *err);
/* Sets what differs from `before`: peers that are in both as they were are not touched, so their connections go on. */
int  device_peers(struct device *d, const struct device_peer *before, size_t before_count, const struct device_peer *peers, size_t count, struct spur_error *err);
/* Reads all peers with their counters; the caller frees *out. */
int  device_look(struct device *d, struct device_peer **out, size_t *count, struct spur_error *err);
/* Frees; `down`: the interface goes too, else it stays for the jobs that use it. Accepts NULL. */
void device_close(struct device *d, bool down);

/* One difference: a peer to set, or (is_gone) to remove. */
struct device_change { const struct device_peer *peer; bool is_gone; };
int  device_changes(const struct device_peer *before, size_t before_count, const struct device_peer *peers, size_t count,
                    struct device_change **out, size_t *change_count, struct spur_error *err);

/* netlink.c: the kernel's. */
struct netlink;
int  netlink_open(struct netlink **out, const char *name, struct spur_error *err);     /* EUNSUPPORTED: no wireguard in this kernel */
int  netlink_set(struct netlink *n, const uint8_t *key, uint16_t port, const struct device_change *changes, size_t count, struct spur_error *err);
int  netlink_look(struct netlink *n, struct device_peer **out, size_t *count, struct spur_error *err);
void netlink_close(struct netlink *n);
int  netlink_peer_parse(const void *payload, size_t n, struct device_peer **peers, size_t *count);     /* one message's attributes; for tests */

/* userspace.c: a program's. */
struct userspace;
int  userspace_open(struct userspace **out, const char *name, const char *program, struct spur_error *err);
int  userspace_set(struct userspace *u, const uint8_t *key, uint16_t port, const struct device_change *changes, size_t count, struct spur_error *err);
int  userspace_look(struct userspace *u, struct device_peer **out, size_t *count, struct spur_error *err);
void userspace_close(struct userspace *u, bool down);
int  userspace_parse(const char *text, size_t n, struct device_peer **peers, size_t *count, struct spur_error *err);   /* an answer to get=1; for tests */

/* link.c: rtnetlink. All by name; a name that is not there is ENOTFOUND. */
int  link_make(const char *name, struct spur_error *err);               /* kind wireguard; EUNSUPPORTED */
bool link_is_there(const char *name);
int  link_up(const char *name, uint32_t mtu, struct spur_error *err);
int  link_addr(const char *name, const struct ip *addr, bool add, struct spur_error *err);
int  link_remove(const char *name, struct spur_error *err);

/* text.c: addresses and keys as people and the UAPI write them. 0 or EINVAL. */
int  ip_parse(const char *text, struct ip *out);                        /* "10.1.2.3", "10.1.0.0/16", "fd00::1/64" */
void ip_print(const struct ip *ip, char out[64]);                       /* with /prefix unless it is the whole address */
bool ip_equal(const struct ip *a, const struct ip *b);
bool ip_nth(const struct ip *net, uint64_t n, struct ip *out);          /* the n-th host of a network, n from 1; false: there are fewer */
int  endpoint_parse(const char *text, struct endpoint *out);            /* "1.2.3.4:51820", "[fd00::1]:51820" */
void endpoint_print(const struct endpoint *e, char out[80]);
int  key_parse_hex(const char *text, uint8_t out[DEVICE_KEY]);
void key_print_hex(const uint8_t key[DEVICE_KEY], char out[2 * DEVICE_KEY + 1]);

#endif
