/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - raw mode that is always undone; see terminal.h.
 *
 * What surprised: a process of another session may set the modes of a terminal without being stopped for it, since job control asks only about
 * processes that have it as their controlling one. So the keeper of the old modes takes a session of its own, and signals of the terminal miss it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#include "cmds/common/terminal.h"

static struct { bool is_raw; struct termios was; int keeper_fd; } terminal = { .keeper_fd = -1 };

bool terminal_size(uint32_t *rows, uint32_t *columns)
{
    struct winsize w;

    if ((ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0) || !w.ws_row || !w.ws_col)
        return false;
    *rows = w.ws_row;
    *columns = w.ws_col;
    return true;
}

static _Noreturn void keeper_run(int fd)
{
    char word;
    ssize_t n;

    setsid();
    prctl(PR_SET_NAME, "srun-terminal");
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_IGN);
    close_range(1, (unsigned)fd - 1, 0);            /* 0 is the terminal */
    close_range((unsigned)fd + 1, UINT32_MAX, 0);
    do
        n = read(fd, &word, 1);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.was);
    _exit(0);
}

static void keeper_start(void)
{
    int fds[2];
    pid_t child;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    child = fork();
    if (child == 0) {
        close(fds[1]);
        keeper_run(fds[0]);
    }
    close(fds[0]);
    if (child < 0)
        close(fds[1]);
    else
        terminal.keeper_fd = fds[1];
}

void terminal_restore(void)
{
    if (!terminal.is_raw)
        return;
    terminal.is_raw = false;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.was);
    if (terminal.keeper_fd >= 0 && write(terminal.keeper_fd, "x", 1) == 1)
        close(terminal.keeper_fd);
    terminal.keeper_fd = -1;
}

void terminal_raw(void)
{
    struct termios raw;

    if (terminal.is_raw || !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &terminal.was) < 0)
        return;
    keeper_start();
    raw = terminal.was;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0) {
        terminal.is_raw = true;
        atexit(terminal_restore);
    }
}
