/* SPDX-License-Identifier: Apache-2.0 */
/* userspace.c - a WireGuard program (wireguard-go and its like) on a tun device, set through its UAPI socket.
 *
 * The protocol is WireGuard's cross-platform one: "set=1" or "get=1" and lines key=value, an empty line ends a request and an answer, the answer's
 * last line is errno=N. The program is started once and stays when we go: jobs use the interface. A socket that answers is
 * taken over. It runs in its own group of processes with nothing of ours but standard descriptors, and dies with the interface.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

#define SOCKET_FOLDER "/var/run/wireguard"
#define START_MS  5000
#define ANSWER_MS 5000
#define ANSWER_MAX (16u << 20)

struct userspace { char name[IFNAMSIZ]; char path[108]; };

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Bytes that grow. */
struct text { char *at; size_t len, room; bool is_broken; };

static void text_add(struct text *t, const char *line)
{
    size_t n = strlen(line);

    if (t->len + n + 1 > t->room) {
        size_t room = 2 * (t->len + n + 1) + 512;
        char *bigger = malloc(room);            /* not realloc: it leaves copies of keys behind */

        if (!bigger) {
            t->is_broken = true;
            return;
        }
        if (t->at) {
            memcpy(bigger, t->at, t->len);
            explicit_bzero(t->at, t->len);
            free(t->at);
        }
        t->at = bigger;
        t->room = room;
    }
    memcpy(t->at + t->len, line, n + 1);
    t->len += n;
}

static void text_free(struct text *t)
{
    if (t->at)
        explicit_bzero(t->at, t->room);
    free(t->at);
}

static int dial(const struct userspace *u)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    memcpy(a.sun_path, u->path, sizeof a.sun_path);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Ends with an empty line, or the deadline. */
static int read_answer(int fd, struct text *answer, const char *name, struct spur_error *err)
{
    int64_t until = now_ms() + ANSWER_MS;
    char part[4097];

    while (answer->len < 2 || memcmp(answer->at + answer->len - 2, "\n\n", 2) != 0) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int64_t left = until - now_ms();
        ssize_t n;

        if (left <= 0 || poll(&p, 1, (int)left) == 0)
            return spur_fail(err, SPUR_ETIMEOUT, "interface %s: its program has not answered for %d s", name, ANSWER_MS / 1000);
        n = read(fd, part, sizeof part - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        part[n] = '\0';
        if (strlen(part) != (size_t)n || answer->len + (size_t)n > ANSWER_MAX)
            return spur_fail(err, SPUR_ECORRUPT, "interface %s: its program's answer is no text of the UAPI", name);
        text_add(answer, part);
        if (answer->is_broken)
            return spur_fail(err, SPUR_ENOMEM, "out of memory");
    }
    explicit_bzero(part, sizeof part);
    return 0;
}

static int ask(const struct userspace *u, const struct text *request, struct text *answer, struct spur_error *err)
{
    const char *code;
    size_t sent = 0;
    int fd, rc = 0, number;

    if (request->is_broken)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    if ((fd = dial(u)) < 0)
        return spur_fail(err, SPUR_EIO, "%s: %s", u->path, strerror(errno));
    while (rc == 0 && sent < request->len) {
        ssize_t n = send(fd, request->at + sent, request->len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            rc = spur_fail(err, SPUR_EIO, "%s: %s", u->path, strerror(errno));
        else if (n > 0)
            sent += (size_t)n;
    }
    if (rc == 0)
        rc = read_answer(fd, answer, u->name, err);
    close(fd);
    if (rc < 0)
        return rc;
    code = answer->at ? strstr(answer->at, "errno=") : NULL;
    if (!code)
        return spur_fail(err, SPUR_ECORRUPT, "interface %s: its program's answer has no errno line", u->name);
    if ((number = atoi(code + 6)) != 0)
        return spur_fail(err, SPUR_EIO, "interface %s: its program refuses the setting: %s", u->name, strerror(number < 0 ? -number : number));
    return 0;
}

static bool answers(const struct userspace *u)
{
    int fd = dial(u);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The program goes into the background by itself; what it says goes nowhere, what fails shows in the socket that does not come. */
static int start(struct userspace *u, const char *program, struct spur_error *err)
{
    int64_t until = now_ms() + START_MS;
    int said[2], cause = 0, status;
    pid_t pid;

    if (pipe2(said, O_CLOEXEC) < 0)
        return spur_fail(err, SPUR_EIO, "pipe: %s", strerror(errno));
    pid = fork();
    if (pid < 0) {
        close(said[0]);
        close(said[1]);
        return spur_fail(err, SPUR_EIO, "%s can't be started: %s", program, strerror(errno));
    }
    if (pid == 0) {
        char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LOG_LEVEL=error", NULL };
        char *const argv[] = { (char *)(uintptr_t)program, "--foreground", u->name, NULL };
        int null = open("/dev/null", O_RDWR);
        pid_t again;

        setsid();
        for (int i = 0; null >= 0 && i < 3; i++)
            dup2(null, i);
        if ((again = fork()) != 0)      /* nobody's child: it outlives us and leaves us nothing to reap */
            _exit(again < 0);
        execvpe(program, argv, env);
        cause = errno;
        if (write(said[1], &cause, sizeof cause) < 0)
            _exit(126);
        _exit(127);
    }
    close(said[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (read(said[0], &cause, sizeof cause) != (ssize_t)sizeof cause)
        cause = 0;
    close(said[0]);
    if (cause)
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s does not start: %s", program, strerror(cause));
    while (!answers(u)) {
        if (now_ms() >= until)
            return spur_fail(err, SPUR_EUNSUPPORTED, "%s makes no interface %s within %d s (it needs /dev/net/tun and CAP_NET_ADMIN)", program, u->name, START_MS / 1000);
        poll(NULL, 0, 10);
    }
    return 0;
}

int userspace_open(struct userspace **out, const char *name, const char *program, struct spur_error *err)
{
    struct userspace *u = calloc(1, sizeof *u);
    int rc = 0;

    if (!u)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    snprintf(u->name, sizeof u->name, "%s", name);
    snprintf(u->path, sizeof u->path, SOCKET_FOLDER "/%s.sock", name);
    if (!answers(u))
        rc = start(u, program, err);
    if (rc < 0) {
        free(u);
        return rc;
    }
    *out = u;
    return 0;
}

void userspace_close(struct userspace *u, bool down)
{
    if (u && down) {
        unlink(u->path);            /* the program ends when its socket or its tun device goes */
        link_remove(u->name, NULL);
    }
    free(u);
}

int userspace_set(struct userspace *u, const uint8_t *key, uint16_t port, const struct device_change *changes, size_t count, struct spur_error *err)
{
    struct text request = { 0 }, answer = { 0 };
    char line[160], hex[2 * DEVICE_KEY + 1], where[80];
    int rc;

    text_add(&request, "set=1\n");
    if (key) {
        key_print_hex(key, hex);
        snprintf(line, sizeof line, "private_key=%s\n", hex);
        text_add(&request, line);
    }
    if (port) {
        snprintf(line, sizeof line, "listen_port=%u\n", port);
        text_add(&request, line);
    }
    for (size_t i = 0; i < count; i++) {
        const struct device_peer *p = changes[i].peer;

        key_print_hex(p->key, hex);
        snprintf(line, sizeof line, "public_key=%s\n", hex);
        text_add(&request, line);
        if (changes[i].is_gone) {
            text_add(&request, "remove=true\n");
            continue;
        }
        if (p->has_endpoint) {
            endpoint_print(&p->endpoint, where);
            snprintf(line, sizeof line, "endpoint=%s\n", where);
            text_add(&request, line);
        }
        ip_print(&p->addr, where);
        snprintf(line, sizeof line, "persistent_keepalive_interval=%u\nreplace_allowed_ips=true\nallowed_ip=%s%s\n", p->keepalive_s, where,
                 strchr(where, '/') ? "" : p->addr.family == AF_INET ? "/32" : "/128");
        text_add(&request, line);
    }
    text_add(&request, "\n");
    rc = ask(u, &request, &answer, err);
    explicit_bzero(line, sizeof line);
    explicit_bzero(hex, sizeof hex);
    text_free(&request);
    text_free(&answer);
    return rc;
}

/* One line of a peer. False: it does not read. */
static bool peer_line(struct device_peer *p, const char *name, const char *value)
{
    char *end;

    if (!strcmp(name, "endpoint"))
        return p->has_endpoint = endpoint_parse(value, &p->endpoint) == 0;
    if (!strcmp(name, "allowed_ip"))
        return ip_parse(value, &p->addr) == 0;
    if (!strcmp(name, "persistent_keepalive_interval"))
        p->keepalive_s = (uint16_t)strtoul(value, &end, 10);
    else if (!strcmp(name, "last_handshake_time_sec"))
        p->handshake_wall_s = strtoll(value, &end, 10);
    else if (!strcmp(name, "rx_bytes"))
        p->rx_bytes = strtoull(value, &end, 10);
    else if (!strcmp(name, "tx_bytes"))
        p->tx_bytes = strtoull(value, &end, 10);
    else
        return true;            /* preshared_key, protocol_version, what newer ones add */
    return end != value && *end == '\0';
}

int userspace_parse(const char *text, size_t n, struct device_peer **peers, size_t *count, struct spur_error *err)
{
    const char *at = text, *stop = text + n;

    *peers = NULL;
    *count = 0;
    while (at < stop) {
        const char *nl = memchr(at, '\n', (size_t)(stop - at)), *eq;
        char name[48], value[160];
        size_t len = nl ? (size_t)(nl - at) : (size_t)(stop - at);

        if (len == 0)
            break;
        eq = memchr(at, '=', len);
        if (!eq || (size_t)(eq - at) >= sizeof name || len - (size_t)(eq - at) > sizeof value)
            goto bad;
        snprintf(name, sizeof name, "%.*s", (int)(eq - at), at);
        snprintf(value, sizeof value, "%.*s", (int)(len - (size_t)(eq - at) - 1), eq + 1);
        if (!strcmp(name, "public_key")) {
            struct device_peer *bigger = realloc(*peers, (*count + 1) * sizeof *bigger);

            if (!bigger) {
                free(*peers);
                *peers = NULL;
                *count = 0;
                return spur_fail(err, SPUR_ENOMEM, "out of memory");
            }
            *peers = bigger;
            memset(&bigger[*count], 0, sizeof *bigger);
            if (key_parse_hex(value, bigger[(*count)++].key) < 0)
                goto bad;
        } else if (*count && !peer_line(&(*peers)[*count - 1], name, value)) {
            goto bad;
        }
        explicit_bzero(value, sizeof value);    /* the answer has the private key, too */
        at += len + 1;
    }
    return 0;
bad:
    free(*peers);
    *peers = NULL;
    *count = 0;
    return spur_fail(err, SPUR_ECORRUPT, "the answer's line at byte %zu does not read", (size_t)(at - text));
}

int userspace_look(struct userspace *u, struct device_peer **out, size_t *count, struct spur_error *err)
{
    struct text request = { 0 }, answer = { 0 };
    int rc;

    *out = NULL;
    *count = 0;
    text_add(&request, "get=1\n\n");
    if ((rc = ask(u, &request, &answer, err)) == 0)
        rc = userspace_parse(answer.at, answer.len, out, count, err);
    text_free(&request);
    text_free(&answer);
    return rc;
}
