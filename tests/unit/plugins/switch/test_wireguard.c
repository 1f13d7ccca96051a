/* SPDX-License-Identifier: Apache-2.0 */
/* test_wireguard.c - what switch/wireguard can be asked without an interface: texts, differences of peers, answers of both kinds of devices, options. */
#include <check.h>
#include <libmnl/libmnl.h>
#include <linux/wireguard.h>
#include <stdlib.h>
#include <string.h>
#include <spur/switch.h>

#include "../../../../plugins/switch/wireguard/device.h"

extern const struct spur_plugin spur_plugin_switch_wireguard;
static struct spur_error err;

START_TEST(addresses_and_endpoints_read_back)
{
    static const char *const good[] = { "10.1.2.3", "10.0.0.0/8", "fd00::1", "fd00::/64", "0.0.0.0/0" };
    static const char *const bad[] = { "", "10.1.2", "10.1.2.3/33", "10.1.2.3/", "10.1.2.3/8x", "fd00::1/129", "fd00:::1", "host", "10.1.2.3/-1" };
    static const char *const ends[] = { "192.0.2.7:51871", "[2001:db8::7]:1" };
    static const char *const no_ends[] = { "192.0.2.7", "192.0.2.7:0", "192.0.2.7:65536", "2001:db8::7:1", "[2001:db8::7]", "192.0.2.0/24:5", ":5", "192.0.2.7:5x" };
    struct endpoint e;
    char text[80];
    struct ip ip;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(ip_parse(good[i], &ip), 0);
        ip_print(&ip, text);
        ck_assert_str_eq(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(ip_parse(bad[i], &ip) < 0, "%s", bad[i]);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        ck_assert_int_eq(endpoint_parse(ends[i], &e), 0);
        endpoint_print(&e, text);
        ck_assert_str_eq(text, ends[i]);
    }
    for (size_t i = 0; i < sizeof no_ends / sizeof *no_ends; i++)
        ck_assert_msg(endpoint_parse(no_ends[i], &e) < 0, "%s", no_ends[i]);
}
END_TEST

START_TEST(hosts_of_a_prefix_are_numbered)
{
    static const struct { const char *net; uint64_t n; const char *ip; } rows[] = {
        { "10.201.0.0/16", 1, "10.201.0.1" }, { "10.201.0.0/16", 256, "10.201.1.0" }, { "10.201.0.0/16", 65534, "10.201.255.254" }, { "10.201.0.0/16", 65535, NULL },
        { "10.201.7.9/16", 2, "10.201.0.2" }, { "10.0.0.0/30", 2, "10.0.0.2" }, { "10.0.0.0/30", 3, NULL }, { "10.0.0.0/16", 0, NULL },
        { "fd5c:1::/64", 65536, "fd5c:1::1:0" }, { "fd5c:1::/120", 255, "fd5c:1::ff" }, { "fd5c:1::/120", 256, NULL } };
    struct ip net, ip;
    char text[64];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(ip_parse(rows[i].net, &net), 0);
        ck_assert_int_eq(ip_nth(&net, rows[i].n, &ip), rows[i].ip != NULL);
        if (rows[i].ip) {
            ip_print(&ip, text);
            ck_assert_str_eq(text, rows[i].ip);
        }
    }
}
END_TEST

static struct device_peer peer(unsigned key, const char *addr, const char *end)
{
    struct device_peer p = { .keepalive_s = 25 };

    memset(p.key, (int)key, sizeof p.key);
    ck_assert_int_eq(ip_parse(addr, &p.addr), 0);
    p.has_endpoint = end && endpoint_parse(end, &p.endpoint) == 0;
    return p;
}

START_TEST(only_what_differs_is_set)
{
    struct device_peer before[] = { peer(3, "10.0.0.3", NULL), peer(1, "10.0.0.1", "192.0.2.1:5"), peer(2, "10.0.0.2", NULL) };
    struct device_peer now[] = { peer(1, "10.0.0.1", "192.0.2.1:5"), peer(2, "10.0.0.2", "192.0.2.2:5"), peer(4, "10.0.0.3", NULL) };
    struct device_change *changes;
    size_t n;

    ck_assert_int_eq(device_changes(before, 3, now, 3, &changes, &n, &err), 0);
    ck_assert_uint_eq(n, 3);
    ck_assert(changes[0].is_gone && changes[0].peer->key[0] == 3);      /* first: its address goes to another key */
    ck_assert(!changes[1].is_gone && changes[1].peer->key[0] == 2);
    ck_assert(!changes[2].is_gone && changes[2].peer->key[0] == 4);
    free(changes);
    ck_assert_int_eq(device_changes(now, 3, now, 3, &changes, &n, &err), 0);
    ck_assert_uint_eq(n, 0);
    free(changes);
    ck_assert_int_eq(device_changes(now, 3, NULL, 0, &changes, &n, &err), 0);
    ck_assert_uint_eq(n, 3);
    free(changes);
}
END_TEST

#define KEY "0101010101010101010101010101010101010101010101010101010101010101"
START_TEST(answers_of_a_program_are_read)
{
    static const char good[] = "private_key=" KEY "\nlisten_port=5\npublic_key=" KEY "\npreshared_key=" KEY "\nprotocol_version=1\nendpoint=192.0.2.1:7\n"
        "last_handshake_time_sec=1700000000\nlast_handshake_time_nsec=5\ntx_bytes=10\nrx_bytes=20\npersistent_keepalive_interval=25\nallowed_ip=10.0.0.1/32\nerrno=0\n\n";
    static const char *const bad[] = { "public_key=01\n\n", "public_key=" KEY "\nendpoint=x\n\n", "public_key=" KEY "\nallowed_ip=10.0.0.1/64\n\n", "noline\n\n",
                                       "public_key=" KEY "\nrx_bytes=\n\n", "public_key=" KEY "0\n\n" };
    struct device_peer *peers;
    char text[80];
    size_t n;

    ck_assert_int_eq(userspace_parse(good, strlen(good), &peers, &n, &err), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(peers[0].rx_bytes, 20);
    ck_assert_uint_eq(peers[0].tx_bytes, 10);
    ck_assert_int_eq(peers[0].handshake_wall_s, 1700000000);
    ip_print(&peers[0].addr, text);
    ck_assert_str_eq(text, "10.0.0.1");
    free(peers);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(userspace_parse(bad[i], strlen(bad[i]), &peers, &n, &err) < 0 && !peers && !n, "%s", bad[i]);
    for (size_t cut = 0; cut < strlen(good); cut++)         /* any cut is read or refused, and leaks nothing */
        if (userspace_parse(good, cut, &peers, &n, &err) == 0)
            free(peers);
}
END_TEST

START_TEST(answers_of_the_kernel_are_read)
{
    char buf[4096];
    struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
    struct sockaddr_in6 end = { .sin6_family = AF_INET6, .sin6_port = htons(7) };
    int64_t handshake[2] = { 1700000000, 5 };
    uint8_t key[32], ip[4] = { 10, 0, 0, 1 };
    struct device_peer *peers = NULL;
    struct nlattr *list, *one, *ips, *each;
    size_t n = 0;

    memset(key, 1, sizeof key);
    mnl_attr_put_strz(h, WGDEVICE_A_IFNAME, "spur0");
    list = mnl_attr_nest_start(h, WGDEVICE_A_PEERS);
    for (int i = 0; i < 2; i++) {
        one = mnl_attr_nest_start(h, 0);
        mnl_attr_put(h, WGPEER_A_PUBLIC_KEY, 32, key);
        mnl_attr_put(h, WGPEER_A_ENDPOINT, sizeof end, &end);
        mnl_attr_put(h, WGPEER_A_LAST_HANDSHAKE_TIME, sizeof handshake, handshake);
        mnl_attr_put_u64(h, WGPEER_A_RX_BYTES, 20);
        ips = mnl_attr_nest_start(h, WGPEER_A_ALLOWEDIPS);
        each = mnl_attr_nest_start(h, 0);
        mnl_attr_put_u16(h, WGALLOWEDIP_A_FAMILY, AF_INET);
        mnl_attr_put(h, WGALLOWEDIP_A_IPADDR, 4, ip);
        mnl_attr_put_u8(h, WGALLOWEDIP_A_CIDR_MASK, 32);
        mnl_attr_nest_end(h, each);
        mnl_attr_nest_end(h, ips);
        mnl_attr_nest_end(h, one);
        key[0] = 2;
    }
    mnl_attr_nest_end(h, list);
    ck_assert_int_eq(netlink_peer_parse(mnl_nlmsg_get_payload(h), mnl_nlmsg_get_payload_len(h), &peers, &n), 0);
    ck_assert_uint_eq(n, 2);
    ck_assert_uint_eq(peers[1].key[0], 2);
    ck_assert_uint_eq(peers[0].rx_bytes, 20);
    ck_assert_int_eq(peers[0].handshake_wall_s, 1700000000);
    ck_assert_uint_eq(peers[0].endpoint.port, 7);
    ck_assert_uint_eq(peers[0].addr.prefix, 32);
    free(peers);
    for (size_t cut = 0; cut < mnl_nlmsg_get_payload_len(h); cut++) {
        char *part = malloc(cut ? cut : 1);                  /* of its own, so that a read past its end shows */

        memcpy(part, mnl_nlmsg_get_payload(h), cut);
        peers = NULL;
        n = 0;
        netlink_peer_parse(part, cut, &peers, &n);
        free(peers);
        free(part);
    }
}
END_TEST

/* ---- the plugin with a host of ours ---- */

struct pair { const char *name, *value; };
static struct pair set[8];

static const char *option(const struct spur_conf *conf, const char *name)
{
    (void)conf;
    for (size_t i = 0; i < 8 && set[i].name; i++)
        if (!strcmp(set[i].name, name))
            return set[i].value;
    for (const struct spur_option *o = spur_plugin_switch_wireguard.options; o->name; o++)
        if (!strcmp(o->name, name))
            return o->fallback;
    ck_abort_msg("no option %s", name);
}
static long option_int(const struct spur_conf *conf, const char *name)
{
    const char *text = option(conf, name);

    return !strcmp(text, "yes") ? 1 : !strcmp(text, "no") ? 0 : atol(text);
}
static const struct spur_host host = { .size = sizeof host, .conf_int = option_int, .conf_text = option };

static int opens(void **self) { return spur_plugin_switch_wireguard.open(&host, NULL, self, &err); }

START_TEST(options_are_checked)
{
    static const struct pair bad[] = { { "prefix", "10.0.0.0/31" }, { "prefix", "mesh" }, { "interface", "" }, { "interface", "a-name-too-long-for-it" }, { "port", "0" },
                                       { "port", "70000" }, { "mtu", "100" }, { "keepalive", "-1" }, { "device", "hardware" }, { "endpoint", "here" } };
    void *self = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set[0] = bad[i];
        ck_assert_msg(opens(&self) < 0 && !self, "%s", bad[i].name);
        ck_assert_msg(strstr(err.text, bad[i].name) != NULL, "%s", err.text);
    }
    memset(set, 0, sizeof set);
    ck_assert_int_eq(opens(&self), 0);
    set[0] = (struct pair){ "required", "yes" };
    ck_assert_int_eq(spur_plugin_switch_wireguard.reload(self, NULL, &err), 0);
    set[0] = (struct pair){ "port", "5" };
    ck_assert_int_eq(spur_plugin_switch_wireguard.reload(self, NULL, &err), SPUR_ERESTART);
    memset(set, 0, sizeof set);
    spur_plugin_switch_wireguard.close(self);
    spur_plugin_switch_wireguard.close(NULL);
}
END_TEST

struct seen { char addrs[200], device[40]; unsigned others; };
static void env_set(void *arg, const char *name, const char *value)
{
    struct seen *s = arg;

    if (!strcmp(name, "SPUR_MESH_ADDRS"))
        snprintf(s->addrs, sizeof s->addrs, "%s", value);
    else if (!strcmp(name, "SPUR_MESH_DEVICE"))
        snprintf(s->device, sizeof s->device, "%s", value);
    else
        s->others++;
}

START_TEST(words_of_mesh)
{
    static const struct { const char *mesh, *controllers; uint32_t traits; } rows[] = {
        { "nodes", "no", 0 }, { "jobs", "no", SPUR_SWITCH_BY_JOB }, { "nodes", "yes", SPUR_SWITCH_CONTROLLERS },
        { "control", "no", SPUR_SWITCH_CONTROLLERS | SPUR_SWITCH_CONTROL }, { "nodes,control", "no", SPUR_SWITCH_CONTROLLERS | SPUR_SWITCH_CONTROL },
        { "jobs, control", "no", SPUR_SWITCH_BY_JOB | SPUR_SWITCH_CONTROLLERS | SPUR_SWITCH_CONTROL },
        { "control jobs", "yes", SPUR_SWITCH_BY_JOB | SPUR_SWITCH_CONTROLLERS | SPUR_SWITCH_CONTROL } };
    static const char *const bad[] = { "", "all", "nodes, jobs", "job", "jobs, ", ",", "controller", "nodes;jobs" };
    const struct spur_switch_ops *ops = spur_plugin_switch_wireguard.ops;
    char addr[64];
    void *self = NULL;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set[0] = (struct pair){ "mesh", rows[i].mesh };
        set[1] = (struct pair){ "controllers", rows[i].controllers };
        ck_assert_msg(opens(&self) == 0, "%s: %s", rows[i].mesh, err.text);
        ck_assert_msg(ops->traits(self, 3) == rows[i].traits, "%s: %x", rows[i].mesh, ops->traits(self, 3));
        spur_plugin_switch_wireguard.close(self);
    }
    memset(set, 0, sizeof set);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        self = NULL;
        set[0] = (struct pair){ "mesh", bad[i] };
        ck_assert_msg(opens(&self) == SPUR_EINVAL && strstr(err.text, "mesh = \""), "%s: %s", bad[i], err.text);
    }
    set[0] = (struct pair){ "prefix", "10.9.0.0/30" };       /* two addresses, and nobody gets a third */
    ck_assert_int_eq(opens(&self), 0);
    ck_assert_int_eq(ops->address(self, 2, addr, &err), 0);
    ck_assert_str_eq(addr, "10.9.0.2");
    ck_assert_int_eq(ops->address(self, 3, addr, &err), SPUR_ELIMIT);
    ck_assert_msg(strstr(err.text, "10.9.0.0/30 has no address number 3") != NULL, "%s", err.text);
    spur_plugin_switch_wireguard.close(self);
    memset(set, 0, sizeof set);
}
END_TEST

START_TEST(a_job_without_a_mesh)
{
    static const char *const nodes[] = { "n1", "n2" };
    const struct spur_switch_job job = { .size = sizeof job, .job_id = 1, .nodes = nodes, .node_count = 2 };
    const struct spur_switch_ops *ops = spur_plugin_switch_wireguard.ops;
    struct seen seen = { .others = 0 };
    const struct spur_switch_env env = { .size = sizeof env, .arg = &seen, .set = env_set };
    struct spur_switch_node me = { 0 };
    char text[100];
    void *self;

    ck_assert_int_eq(opens(&self), 0);
    ck_assert_int_eq(ops->job_join(self, &job, &env, &err), 0);
    ck_assert_str_eq(seen.addrs, ",");
    ck_assert_str_eq(seen.device, "spur0");
    ck_assert_uint_eq(seen.others, 0);
    ck_assert_int_lt(ops->peers(self, NULL, 0, sizeof me, &err), 0);
    ck_assert_int_lt(ops->rotate(self, &me, &err), 0);
    ck_assert_int_lt(ops->node_up(self, &me, &err), 0);         /* no folder for the key */
    ck_assert_ptr_nonnull(strstr(err.text, "folder"));
    ck_assert_int_eq(ops->status(self, text, sizeof text), 0);
    ck_assert_str_eq(text, "spur0: not up");
    spur_plugin_switch_wireguard.close(self);
    set[0] = (struct pair){ "required", "yes" };
    ck_assert_int_eq(opens(&self), 0);
    ck_assert_int_eq(ops->job_join(self, &job, &env, &err), SPUR_ELATER);
    ck_assert_ptr_nonnull(strstr(err.text, "n1"));
    ck_assert_int_eq(ops->address(self, 300, text, &err), 0);
    ck_assert_str_eq(text, "10.201.1.44");
    ck_assert_int_eq(ops->address(self, 70000, text, &err), SPUR_ELIMIT);
    spur_plugin_switch_wireguard.close(self);
    memset(set, 0, sizeof set);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wireguard");
    TCase *t = tcase_create("wireguard");
    SRunner *r;
    int failed;

    tcase_add_test(t, addresses_and_endpoints_read_back);
    tcase_add_test(t, hosts_of_a_prefix_are_numbered);
    tcase_add_test(t, only_what_differs_is_set);
    tcase_add_test(t, answers_of_a_program_are_read);
    tcase_add_test(t, answers_of_the_kernel_are_read);
    tcase_add_test(t, options_are_checked);
    tcase_add_test(t, words_of_mesh);
    tcase_add_test(t, a_job_without_a_mesh);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
