/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - every packet of the loopback device of this network namespace, into a file (capture FILE), until SIGTERM. "capturing" on standard output
 * says that it has begun. What a listener on the path would have. */
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

int main(int argc, char **argv)
{
    struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex("lo") };
    struct sigaction act = { .sa_handler = stop };
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), room = 64 << 20;
    static char buf[1 << 18];
    FILE *out = argc == 2 ? fopen(argv[1], "w") : NULL;

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

        if (n > 0)
            fwrite(buf, 1, (size_t)n, out);
    }
    return fclose(out) ? 2 : 0;
}
