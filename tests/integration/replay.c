/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - somebody on the path who keeps what he hears, and says it again.
 *
 *   replay keep FOLDER PORT HOST PORT     a proxy on 127.0.0.1:PORT to HOST:PORT; what each client says goes into FOLDER/N as it came. Prints "ready"
 *   replay say FILE HOST PORT             says it again; prints how many bytes were answered, and "closed" or "open" after a while
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int dial(const char *host, const char *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port)) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, host, &a.sin_addr);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void pass(int client, int server, FILE *kept)
{
    struct pollfd p[2] = { { client, POLLIN, 0 }, { server, POLLIN, 0 } };
    char buf[65536];

    while (poll(p, 2, -1) > 0)
        for (int i = 0; i < 2; i++)
            if (p[i].revents) {
                ssize_t n = read(p[i].fd, buf, sizeof buf);

                if (n <= 0)
                    return;
                if (i == 0) {
                    fwrite(buf, 1, (size_t)n, kept);
                    fflush(kept);
                }
                if (write(p[1 - i].fd, buf, (size_t)n) != n)
                    return;
            }
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    char path[4096], buf[65536];
    int on = 1, listener;
    long answered = 0;
    size_t n;
    FILE *f;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 6 && !strcmp(argv[1], "keep")) {
        signal(SIGCHLD, SIG_IGN);
        listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        a.sin_port = htons((unsigned short)atoi(argv[3]));
        if (bind(listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(listener, 16) < 0) {
            perror("listen");
            return 1;
        }
        puts("ready");
        fflush(stdout);
        for (int count = 0;; count++) {
            int c = accept(listener, NULL, NULL);

            snprintf(path, sizeof path, "%s/%d", argv[2], count);
            if (fork() == 0) {
                int s = dial(argv[4], argv[5]);

                close(listener);
                f = fopen(path, "w");
                if (s >= 0 && f)
                    pass(c, s, f);
                _exit(0);
            }
            close(c);
        }
    }
    if (argc == 5 && !strcmp(argv[1], "say") && (f = fopen(argv[2], "r"))) {
        int fd = dial(argv[3], argv[4]);
        struct pollfd p = { fd, POLLIN, 0 };

        if (fd < 0) {
            puts("nobody");
            return 0;
        }
        while ((n = fread(buf, 1, sizeof buf, f)) > 0)
            if (write(fd, buf, n) != (ssize_t)n)
                break;
        while (poll(&p, 1, 20000) > 0) {
            ssize_t got = read(fd, buf, sizeof buf);

            if (got <= 0) {
                printf("%ld closed\n", answered);
                return 0;
            }
            answered += got;
        }
        printf("%ld open\n", answered);
        return 0;
    }
    return 2;
}
