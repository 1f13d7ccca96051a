/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - every packet of the loopback device of this network namespace, into a file (capture FILE), until SIGTERM. "capturing" on standard output
 * says that it has begun. What a listener on the path would have. capture FILE INTERFACE: a line for each IPv4 packet there, and not the packet:
 * "udp 51871 51871 148", the ports and the bytes behind the header (of TCP: without its own); other protocols by number. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static void stop(int number) { (void)number; over = 1; }

static void tell(FILE *out, const unsigned char *p, size_t n)
{
    size_t head = n > 34 && p[12] == 8 && p[13] == 0 ? (size_t)(p[14] & 15) * 4 : 0, total, own;
    const unsigned char *ip = p + 14, *ports = ip + head;

    if (!head || n < 14 + head + 20)
        return;
    total = (size_t)ip[2] << 8 | ip[3];
    own = ip[9] == 6 ? (size_t)(ports[12] >> 4) * 4 : 8;
    if (ip[9] == 6 || ip[9] == 17)
        fprintf(out, "%s %d %d %zu\n", ip[9] == 6 ? "tcp" : "udp", ports[0] << 8 | ports[1], ports[2] << 8 | ports[3], total > head + own ? total - head - own : 0);
    else
        fprintf(out, "%d 0 0 %zu\n", ip[9], total - head);
}

int main(int argc, char **argv)
{
    struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(argc > 2 ? argv[2] : "lo") };
    struct sigaction act = { .sa_handler = stop };
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), room = 64 << 20;
    static char buf[1 << 18];
    FILE *out = argc == 2 || argc == 3 ? fopen(argv[1], "w") : NULL;

    if (fd < 0 || !out || bind(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        perror("capture");
        return 2;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    sigaction(SIGTERM, &act, NULL);
    puts("capturing");
    fflush(stdout);
    while (!over) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);

        if (n > 0 && argc == 3)
            tell(out, (const unsigned char *)buf, (size_t)n);
        else if (n > 0)
            fwrite(buf, 1, (size_t)n, out);
    }
    return fclose(out) ? 2 : 0;
}
