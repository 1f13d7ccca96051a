/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - fork, new session, a pipe back to the command that was called; see daemon.h. */
#define _GNU_SOURCE              /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/daemon.h"
#include "rpc/log.h"

static int ready_fd = -1;       /* the process's one pipe to its starter */

int daemon_begin(struct spur_error *err)
{
    char text[512];
    ssize_t n;
    int fds[2], null;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        return spur_fail(err, SPUR_EIO, "cannot go to the background: %s", strerror(errno));
    if (pid > 0) {
        close(fds[1]);
        n = read(fds[0], text, sizeof text - 1);
        if (n == 1 && text[0] == '\0')
            _exit(0);
        if (n > 0)
            dprintf(STDERR_FILENO, "%.*s\n", (int)n, text);
        _exit(1);
    }
    close(fds[0]);
    ready_fd = fds[1];
    setsid();
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        close(null);
    }
    return 0;
}

void daemon_seal(void)
{
    struct rlimit core;

    if (geteuid() != 0 || getenv("SPUR_SANDBOX_OF"))
        return;
    prctl(PR_SET_DUMPABLE, 0);
    if (getrlimit(RLIMIT_CORE, &core) == 0) {       /* the soft one: a pool that is started anew gives jobs what the hard one lets */
        core.rlim_cur = 0;
        setrlimit(RLIMIT_CORE, &core);
    }
}

static void daemon_tell(const char *text, size_t n)
{
    if (ready_fd < 0)
        return;
    if (write(ready_fd, text, n) < 0)
        errno = 0;      /* the command has gone: nobody to tell */
    close(ready_fd);
    ready_fd = -1;
}

/* sd_notify(3) in so many bytes: a unit with Type=notify counts as started when the daemon serves. */
static void service_tell(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    int fd;

    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof a.sun_path)
        return;
    memcpy(a.sun_path, path, strlen(path));
    if (*path == '@')
        a.sun_path[0] = '\0';
    if ((fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) >= 0) {
        if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
            errno = 0;      /* the manager will see by its own deadline */
        close(fd);
    }
    unsetenv("NOTIFY_SOCKET");
}

void daemon_ready(void)
{
    daemon_tell("", 1);
    service_tell("READY=1");
}

void daemon_failed(const char *text) { daemon_tell(text, strlen(text)); }

int daemon_fatal(const char *program, bool to_stderr, const struct spur_error *err)
{
    char text[400];

    snprintf(text, sizeof text, "%s: fatal: %s", program, err->text);
    log_line(SPUR_LOG_ERROR, "fatal: %s", err->text);
    if (to_stderr)
        fprintf(stderr, "%s\n", text);
    daemon_failed(text);
    return 1;
}

int pid_file_write(const char *path, struct spur_error *err)
{
    int fd;

    if (!path || !*path)
        return 0;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "%s: cannot write the process id: %s", path, strerror(errno));
    dprintf(fd, "%d\n", (int)getpid());
    close(fd);
    return 0;
}
