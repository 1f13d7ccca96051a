/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - a daemon's own files. What surprised: a Unix socket's path is cut at 107 bytes, and spools lie deep in sandboxes; /proc/self/fd/N/name is short. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "rpc/folder.h"

int folder_make(const char *path, mode_t mode, struct spur_error *err)
{
    char *copy = mem_copy(path), *slash = copy;
    struct stat st;
    int rc = 0;

    while ((slash = strchr(slash + 1, '/'))) {
        *slash = '\0';
        mkdir(copy, 0755);
        *slash = '/';
    }
    if (mkdir(path, mode) < 0 && errno != EEXIST)
        rc = spur_fail(err, SPUR_EIO, "cannot make the folder %s: %s", path, strerror(errno));
    else if (lstat(path, &st) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot look at the folder %s: %s", path, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        rc = spur_fail(err, SPUR_EIO, "%s is no folder", path);
    else if (st.st_uid != geteuid())
        rc = spur_fail(err, SPUR_EDENIED, "%s belongs to user %u, not to user %u: give it to the user this daemon runs as", path, (unsigned)st.st_uid, (unsigned)geteuid());
    else if (st.st_mode & 022)
        rc = spur_fail(err, SPUR_EDENIED, "%s can be written by others (mode %04o): chmod go-w it", path, (unsigned)st.st_mode & 07777);
    free(copy);
    return rc;
}

int folder_write(int folder_fd, const char *name, const void *data, size_t n, mode_t mode, bool sync, struct spur_error *err)
{
    char beside[256];
    int fd, rc = 0;

    snprintf(beside, sizeof beside, "%s.new", name);
    fd = openat(folder_fd, beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot write %s: %s", beside, strerror(errno));
    for (size_t at = 0; rc == 0 && at < n; ) {
        ssize_t w = write(fd, (const char *)data + at, n - at);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            rc = spur_fail(err, errno == ENOSPC ? SPUR_ENOSPACE : SPUR_EIO, "cannot write %s: %s", beside, strerror(errno));
        else
            at += (size_t)w;
    }
    if (rc == 0 && sync && fdatasync(fd) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot sync %s: %s", beside, strerror(errno));
    close(fd);
    /* A rename onto a file makes ext4 write the new one's blocks out at once, which is a wait for the disk that nobody asked for; two names that change
     * places do not. Either is all or nothing for who reads. */
    if (rc == 0 && !sync && renameat2(folder_fd, beside, folder_fd, name, RENAME_EXCHANGE) == 0) {
        unlinkat(folder_fd, beside, 0);
        return 0;
    }
    if (rc == 0 && renameat(folder_fd, beside, folder_fd, name) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot rename %s to %s: %s", beside, name, strerror(errno));
    if (rc == 0 && sync && fsync(folder_fd) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot sync the folder of %s: %s", name, strerror(errno));
    if (rc < 0)
        unlinkat(folder_fd, beside, 0);
    return rc;
}

int folder_read(int folder_fd, const char *name, size_t max, uint8_t **data, size_t *n, struct spur_error *err)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), rc = 0;
    struct stat st;

    *data = NULL;
    *n = 0;
    if (fd < 0)
        return spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "cannot read %s: %s", name, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        rc = spur_fail(err, SPUR_EIO, "%s is no file", name);
    else if ((uint64_t)st.st_size > max)
        rc = spur_fail(err, SPUR_ELIMIT, "%s has %lld bytes, more than %zu", name, (long long)st.st_size, max);
    if (rc == 0) {
        ssize_t r;

        *data = mem_alloc((size_t)st.st_size + 1);
        while (*n < (size_t)st.st_size && (r = read(fd, *data + *n, (size_t)st.st_size - *n)) > 0)
            *n += (size_t)r;
    }
    close(fd);
    return rc;
}

static int empty(int fd, unsigned depth)
{
    DIR *dir = fdopendir(fd);
    struct dirent *d;
    int rc = 0;

    if (!dir) {
        close(fd);
        return -1;
    }
    while ((d = readdir(dir))) {
        int below;

        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        if (unlinkat(dirfd(dir), d->d_name, 0) == 0)
            continue;
        below = depth ? openat(dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (below >= 0)
            empty(below, depth - 1);
        if (unlinkat(dirfd(dir), d->d_name, AT_REMOVEDIR) < 0)
            rc = -1;
    }
    closedir(dir);
    return rc;
}

int folder_remove(int parent_fd, const char *name, struct spur_error *err)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? 0 : spur_fail(err, SPUR_EIO, "cannot open the folder %s: %s", name, strerror(errno));
    empty(fd, 8);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return spur_fail(err, SPUR_EIO, "cannot remove the folder %s: %s", name, strerror(errno));
    return 0;
}

static int unix_socket(int folder_fd, const char *name, struct sockaddr_un *a, struct spur_error *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/%s", folder_fd, name);
    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot make a socket: %s", strerror(errno));
    return fd;
}

int folder_listen(int folder_fd, const char *name, struct spur_error *err)
{
    struct sockaddr_un a;
    int fd = unix_socket(folder_fd, name, &a, err), cause;
    mode_t old;

    if (fd < 0)
        return fd;
    unlinkat(folder_fd, name, 0);
    old = umask(0177);
    cause = bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 8) < 0 ? errno : 0;
    umask(old);
    if (cause) {
        close(fd);
        return spur_fail(err, SPUR_EIO, "cannot listen on the socket %s: %s", name, strerror(cause));
    }
    return fd;
}

int folder_connect(int folder_fd, const char *name, struct spur_error *err)
{
    struct sockaddr_un a;
    int fd = unix_socket(folder_fd, name, &a, err);

    if (fd < 0)
        return fd;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        int cause = errno;

        close(fd);
        return spur_fail(err, cause == ENOENT || cause == ECONNREFUSED ? SPUR_ENOTFOUND : SPUR_EIO, "cannot connect to the socket %s: %s", name, strerror(cause));
    }
    return fd;
}
