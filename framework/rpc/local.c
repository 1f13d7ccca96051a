/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - sockets in the file system. sun_path holds 107 bytes, a sandbox may live deeper: then the folder is opened and the
 * socket is named through /proc/self/fd, which costs two system calls more. */
#define _GNU_SOURCE              /* O_PATH, struct ucred */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/local.h"

/* Fills `to`; *folder is -1 or to be closed after the call that uses the address. */
static int local_name(const char *path, struct sockaddr_un *to, int *folder)
{
    const char *slash = strrchr(path, '/');
    char dir[4096];
    int n;

    *to = (struct sockaddr_un){ .sun_family = AF_UNIX };
    *folder = -1;
    if (strlen(path) < sizeof to->sun_path) {
        strcpy(to->sun_path, path);
        return 0;
    }
    if (!slash || (size_t)(slash - path) >= sizeof dir) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(dir, path, (size_t)(slash - path));
    dir[slash - path] = '\0';
    if ((*folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return -1;
    n = snprintf(to->sun_path, sizeof to->sun_path, "/proc/self/fd/%d/%s", *folder, slash + 1);
    if (n < 0 || (size_t)n >= sizeof to->sun_path) {
        close(*folder);
        errno = ENAMETOOLONG;
        return -1;
    }
    return 0;
}

int local_connect(const char *path)
{
    struct sockaddr_un to;
    int folder, fd, rc, saved;

    if (local_name(path, &to, &folder) < 0)
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rc = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to);
    saved = errno;
    if (folder >= 0)
        close(folder);
    if (rc < 0 && fd >= 0)
        close(fd);
    errno = saved;
    return rc < 0 ? -1 : fd;
}

int local_listen(const char *path, unsigned mode, int backlog, struct spur_error *err)
{
    struct sockaddr_un to;
    struct stat st;
    mode_t old;
    int folder, fd, rc;

    if (lstat(path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode))
            return spur_fail(err, SPUR_EEXISTS, "%s: there is a file of another kind: move it away", path), -1;
        if ((fd = local_connect(path)) >= 0) {
            close(fd);
            return spur_fail(err, SPUR_EEXISTS, "%s: another daemon serves this socket: stop it first", path), -1;
        }
        unlink(path);
    }
    if (local_name(path, &to, &folder) < 0)
        return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno)), -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    old = umask(0777 & ~mode);      /* narrow from its first moment on */
    rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&to, sizeof to);
    umask(old);
    if (rc == 0)
        rc = listen(fd, backlog);
    if (rc < 0)
        spur_fail(err, SPUR_EIO, "%s: cannot listen: %s", path, strerror(errno));
    if (folder >= 0)
        close(folder);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? -1 : fd;
}

int local_peer(int fd, uid_t *uid, gid_t *gid, pid_t *pid)
{
    struct ucred who;
    socklen_t len = sizeof who;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || len != sizeof who)
        return 0;
    *uid = who.uid;
    *gid = who.gid;
    *pid = who.pid;
    return 1;
}
