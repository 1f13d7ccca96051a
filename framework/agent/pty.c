/* SPDX-License-Identifier: Apache-2.0 */
/* pty.c - pseudo terminals; see pty.h. The slave is given to the user through its descriptor: no path of /dev/pts is opened by anybody's name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "agent/pty.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

/* The peer by the descriptor, where the kernel can (4.13); else by its name. */
static int peer_of(int master)
{
    int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[64];

    if (fd < 0 && ptsname_r(master, name, sizeof name) == 0)
        fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd;
}

int pty_open(uid_t uid, uint32_t rows, uint32_t columns, int *master, int *slave, struct spur_error *err)
{
    int m = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), s = -1;

    if (m < 0 || unlockpt(m) < 0 || (s = peer_of(m)) < 0) {
        int cause = errno;

        if (m >= 0)
            close(m);
        return spur_fail(err, SPUR_EIO, "cannot make a pseudo terminal: %s", strerror(cause));
    }
    if (geteuid() == 0 && (fchown(s, uid, (gid_t)-1) < 0 || fchmod(s, 0620) < 0)) {
        int cause = errno;

        close(m);
        close(s);
        return spur_fail(err, SPUR_EIO, "cannot give a pseudo terminal to user %u: %s", (unsigned)uid, strerror(cause));
    }
    pty_resize(m, rows, columns);
    *master = m;
    *slave = s;
    return 0;
}

void pty_resize(int master, uint32_t rows, uint32_t columns)
{
    struct winsize w = { .ws_row = (unsigned short)(rows > 0xffff ? 0 : rows), .ws_col = (unsigned short)(columns > 0xffff ? 0 : columns) };

    if (w.ws_row && w.ws_col)
        ioctl(master, TIOCSWINSZ, &w);
}

int pty_take(int slave, struct spur_error *err)
{
    return ioctl(slave, TIOCSCTTY, 0) < 0 ? spur_fail(err, SPUR_EIO, "cannot take the pseudo terminal: %s", strerror(errno)) : 0;
}

char pty_end_of_input(int master)
{
    struct termios t;

    return tcgetattr(master, &t) == 0 && t.c_lflag & ICANON ? (char)t.c_cc[VEOF] : '\0';
}
