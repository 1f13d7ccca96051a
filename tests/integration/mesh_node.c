/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_node.c - plays the host of switch/wireguard on one node for t-mesh-device: commands on standard input, one answer line each.
 *
 *   mesh_node FOLDER INTERFACE PORT PREFIX      folder: where the key lies
 *   up | rotate                     -> "key HEX"
 *   peers NAME,HEX,ENDPOINT,ADDR ... ("-": none)   -> "ok"
 *   many N                          -> "ok": N peers that nobody is, at 10.77.1.1 and on
 *   peer N                          -> "NAME ADDR HEARD RX TX"
 *   status                          -> the plugin's line
 *   address N                       -> the address
 *   serve ADDR PORT                 -> "ok": a child gives back what comes over TCP
 *   dial ADDR PORT                  -> "ok": a TCP connection that stays
 *   echo BYTES                      -> "ok" when they went over that connection and came back
 *   end [down]                      -> "ok", and the program ends; down: with the interface
 * MESH_NODE_DEVICE: kernel or userspace, where the choice is not free.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>
#include <spur/switch.h>

#include "../../plugins/switch/wireguard/device.h"

extern const struct spur_plugin spur_plugin_switch_wireguard;
static const char *folder, *interface, *port, *prefix, *down = "no";

static const char *option(const struct spur_conf *conf, const char *name)
{
    (void)conf;
    if (!strcmp(name, "interface"))
        return interface;
    if (!strcmp(name, "port"))
        return port;
    if (!strcmp(name, "prefix"))
        return prefix;
    if (!strcmp(name, "keepalive"))
        return "1";
    if (!strcmp(name, "down_at_end"))
        return down;
    if (!strcmp(name, "device") && getenv("MESH_NODE_DEVICE"))
        return getenv("MESH_NODE_DEVICE");
    for (const struct spur_option *o = spur_plugin_switch_wireguard.options; o->name; o++)
        if (!strcmp(o->name, name))
            return o->fallback;
    abort();
}
static long option_int(const struct spur_conf *conf, const char *name)
{
    const char *text = option(conf, name);

    return !strcmp(text, "yes") ? 1 : atol(text);
}
static const char *state_dir(void *ctx)
{
    (void)ctx;
    return folder;
}

/* NAME,HEX,ENDPOINT,ADDR in place. */
static int peer_parse(char *text, struct spur_switch_node *out)
{
    char *part[4];

    memset(out, 0, sizeof *out);
    for (int i = 0; i < 4; i++)
        if (!(part[i] = strsep(&text, ",")))
            return -1;
    out->name = part[0];
    out->endpoint = strcmp(part[2], "-") ? part[2] : NULL;
    out->mesh_addr = strcmp(part[3], "-") ? part[3] : NULL;
    return strcmp(part[1], "-") ? key_parse_hex(part[1], out->public_key) : 0;
}

static int many(const struct spur_switch_ops *ops, void *self, uint32_t n, struct spur_error *err)
{
    struct spur_switch_node *nodes = calloc(n + 1u, sizeof *nodes);
    char (*texts)[2][32] = calloc(n + 1u, sizeof *texts);
    int rc;

    for (uint32_t i = 0; i < n; i++) {
        snprintf(texts[i][0], sizeof texts[i][0], "x%u", i);
        snprintf(texts[i][1], sizeof texts[i][1], "10.77.%u.%u", i / 250 + 1, i % 250 + 1);
        nodes[i] = (struct spur_switch_node){ .name = texts[i][0], .mesh_addr = texts[i][1], .endpoint = "192.0.2.9:51871" };
        memset(nodes[i].public_key, 9, sizeof nodes[i].public_key);
        memcpy(nodes[i].public_key, &i, sizeof i);
    }
    rc = ops->peers(self, nodes, n, sizeof *nodes, err);
    free(nodes);
    free(texts);
    return rc;
}

static int tcp(const char *addr, const char *number, bool serve)
{
    struct sockaddr_storage a = { 0 };
    struct timeval wait = { 30, 0 };
    struct ip ip;
    socklen_t len;
    int fd, on = 1;

    if (ip_parse(addr, &ip) < 0)
        return -1;
    a.ss_family = (sa_family_t)ip.family;
    if (ip.family == AF_INET) {
        struct sockaddr_in *four = (struct sockaddr_in *)(void *)&a;

        four->sin_addr = ip.at.four;
        four->sin_port = htons((uint16_t)atoi(number));
        len = sizeof *four;
    } else {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&a;

        six->sin6_addr = ip.at.six;
        six->sin6_port = htons((uint16_t)atoi(number));
        len = sizeof *six;
    }
    if ((fd = socket(ip.family, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (!serve)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    if (serve ? bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 4) < 0 : connect(fd, (struct sockaddr *)&a, len) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void give_back(int listener)
{
    char buf[65536];
    ssize_t n;
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        while ((n = read(fd, buf, sizeof buf)) > 0)
            for (ssize_t done = 0, w; done < n && (w = write(fd, buf + done, (size_t)(n - done))) > 0;)
                done += w;
        close(fd);
    }
    _exit(0);
}

static bool echo(int fd, long bytes)
{
    char out[1000], in[1000];

    for (long at = 0; at < bytes; at += (long)sizeof out) {
        memset(out, (int)(at / 1000), sizeof out);
        if (send(fd, out, sizeof out, MSG_NOSIGNAL) != (ssize_t)sizeof out || recv(fd, in, sizeof in, MSG_WAITALL) != (ssize_t)sizeof in ||
            memcmp(in, out, sizeof in) != 0)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    const struct spur_host host = { .size = sizeof host, .conf_int = option_int, .conf_text = option, .state_dir = state_dir };
    const struct spur_switch_ops *ops = spur_plugin_switch_wireguard.ops;
    struct spur_switch_node nodes[16], me = { 0 };
    struct spur_switch_peer peer = { .size = sizeof peer };
    struct spur_error err = { 0 };
    char line[4096], text[2 * DEVICE_KEY + 200], *word, *rest;
    int line_fd = -1;
    void *self;

    if (argc != 5)
        return 2;
    folder = argv[1];
    interface = argv[2];
    port = argv[3];
    prefix = argv[4];
    if (spur_plugin_switch_wireguard.open(&host, NULL, &self, &err) < 0) {
        printf("error %s\n", err.text);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        uint32_t n = 0;
        int rc = 0;

        rest = line;
        line[strcspn(line, "\n")] = '\0';
        word = strsep(&rest, " ");
        snprintf(text, sizeof text, "ok");
        if (!strcmp(word, "up") || !strcmp(word, "rotate")) {
            rc = *word == 'u' ? ops->node_up(self, &me, &err) : ops->rotate(self, &me, &err);
            key_print_hex(me.public_key, text);
        } else if (!strcmp(word, "peers")) {
            for (char *one; n < 16 && (one = strsep(&rest, " ")) && *one; n++)
                if (peer_parse(one, &nodes[n]) < 0)
                    return 2;
            rc = ops->peers(self, nodes, n, sizeof *nodes, &err);
        } else if (!strcmp(word, "many")) {
            rc = many(ops, self, (uint32_t)atoi(rest), &err);
        } else if (!strcmp(word, "peer")) {
            if ((rc = ops->peer(self, (uint32_t)atoi(rest), &peer, &err)) == 0)
                snprintf(text, sizeof text, "%s %s %lld %llu %llu", peer.name, peer.mesh_addr, (long long)peer.heard_s, (unsigned long long)peer.rx_bytes,
                         (unsigned long long)peer.tx_bytes);
        } else if (!strcmp(word, "status")) {
            rc = ops->status(self, text, sizeof text);
        } else if (!strcmp(word, "address")) {
            rc = ops->address(self, strtoull(rest, NULL, 10), text, &err);
        } else if (!strcmp(word, "serve") || !strcmp(word, "dial")) {
            const char *addr = strsep(&rest, " ");
            int fd = tcp(addr, rest, *word == 's');

            if (fd < 0)
                snprintf(text, sizeof text, "error %s", strerror(errno));
            else if (*word == 'd')
                line_fd = fd;
            else if (fork() == 0)
                give_back(fd);
            else
                close(fd);
        } else if (!strcmp(word, "echo")) {
            if (!echo(line_fd, atol(rest)))
                snprintf(text, sizeof text, "error the connection is lost: %s", strerror(errno));
        } else if (!strcmp(word, "end")) {
            if (rest && !strcmp(rest, "down")) {
                down = "yes";
                spur_plugin_switch_wireguard.reload(self, NULL, &err);
            }
            printf("ok\n");
            break;
        } else {
            return 2;
        }
        if (rc < 0)
            printf("error %s\n", err.text);
        else
            printf("%s\n", text);
    }
    spur_plugin_switch_wireguard.close(self);
    return 0;
}
