/* SPDX-License-Identifier: Apache-2.0 */
/* garbage.c - what no honest peer sends, many times: too long, cut, random; on a TCP port (garbage PORT COUNT SEED) or a local socket (garbage PATH
 * COUNT SEED). Each connection is read until the other end closes it, at most ten seconds. Prints how many were not closed in that time.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static uint64_t seed;

static uint32_t chance(uint32_t below)
{
    seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
    return (uint32_t)((seed >> 16) % below);
}

static void put(unsigned char *to, uint64_t v, int n) { for (int i = 0; i < n; i++) to[i] = (unsigned char)(v >> 8 * i); }

static int dial(const char *where)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)atoi(where)) };
    struct linger now = { 1, 0 };
    int fd = socket(*where == '/' ? AF_UNIX : AF_INET, SOCK_STREAM, 0), rc;

    strncpy(un.sun_path, where, sizeof un.sun_path - 1);
    rc = *where == '/' ? connect(fd, (struct sockaddr *)&un, sizeof un) : connect(fd, (struct sockaddr *)&in, sizeof in);
    if (rc < 0) {
        perror(where);
        exit(2);
    }
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);     /* thousands of ports in TIME_WAIT would only slow the test down */
    return fd;
}

/* Bytes of one connection, and whether more might follow for all that the other end can know. */
static size_t garbage(unsigned char *b, int is_local, int *is_cut)
{
    size_t n = 1 + chance(2000);

    for (size_t i = 0; i < n; i++)
        b[i] = (unsigned char)chance(256);
    *is_cut = 0;
    switch (chance(6)) {
    case 0:                                         /* a frame that is too long */
        put(b, 0xffffffff - chance(1000), 4);
        put(b + 4, chance(40), 2);
        put(b + 6, 1, 2);
        return 16 + n;
    case 1:                                         /* a cut frame, a cut hello */
        if (is_local) {
            put(b, 1000 + chance(1000), 4);
            put(b + 4, 1 + chance(60), 2);
            put(b + 6, 1, 2);
        } else {
            memcpy(b, "SPURcl\r\n\1\0\0\0\0\0\0\0", 16);
        }
        *is_cut = 1;
        return 17 + chance(60);
    case 2:                                         /* a whole frame of a type we know with a random body; a hello for another cluster */
        if (is_local) {
            put(b, n, 4);
            put(b + 4, 1 + chance(60), 2);
            put(b + 6, 1, 2);
            *is_cut = 1;
            return 16 + n;
        }
        memcpy(b, "SPURcl\r\n\1\0\0\0\0\0\0\0", 16);
        return 80 + n;
    case 3:
        memcpy(b, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
        return 27;
    case 4:                                         /* nothing, or a few bytes */
        *is_cut = 1;
        return chance(12);
    default:
        *is_cut = n < 16;
        return n;
    }
}

int main(int argc, char **argv)
{
    unsigned char out[4096], in[65536];
    int count = argc > 2 ? atoi(argv[2]) : 0, open_ones = 0;

    seed = argc > 3 ? strtoull(argv[3], NULL, 10) * 2654435761u + 88172645463325252u : 1;
    for (int i = 0; i < count; i++) {
        int fd = dial(argv[1]), is_cut;
        size_t n = garbage(out, *argv[1] == '/', &is_cut);
        struct pollfd p = { fd, POLLIN, 0 };

        if (n && send(fd, out, n, MSG_NOSIGNAL) < 0)
            is_cut = 1;
        if (is_cut)
            shutdown(fd, SHUT_WR);
        for (;;) {
            if (poll(&p, 1, 10000) == 0) {
                open_ones++;
                break;
            }
            if (read(fd, in, sizeof in) <= 0)
                break;
        }
        close(fd);
    }
    printf("%d\n", open_ones);
    return 0;
}
