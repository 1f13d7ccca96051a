/* SPDX-License-Identifier: Apache-2.0 */
/* wal_io.c - the file operations of the store as the system does them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE     /* fallocate */
#endif
#include "wal_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int system_create(void *arg, int folder, const char *name)
{
    int fd;

    (void)arg;
    if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

static int system_allocate(void *arg, int fd, const char *name, uint64_t size)
{
    (void)arg;
    (void)name;
    /* Not posix_fallocate: where the file system can't, glibc's would write a byte a block, slower than the zeros that we write anyway. */
    if (fallocate(fd, 0, 0, (off_t)size) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

static ssize_t system_pwrite(void *arg, int fd, const char *name, const void *data, size_t n, uint64_t at)
{
    ssize_t done;

    (void)arg;
    (void)name;
    done = pwrite(fd, data, n, (off_t)at);
    return done < 0 ? -errno : done;
}

static int system_fdatasync(void *arg, int fd, const char *name)
{
    (void)arg;
    (void)name;
    return fdatasync(fd) < 0 ? -errno : 0;
}

static int system_rename(void *arg, int folder, const char *from, const char *to)
{
    (void)arg;
    return renameat(folder, from, folder, to) < 0 ? -errno : 0;
}

static int system_unlink(void *arg, int folder, const char *name)
{
    (void)arg;
    return unlinkat(folder, name, 0) < 0 ? -errno : 0;
}

static int system_sync_folder(void *arg, int folder)
{
    (void)arg;
    return fsync(folder) < 0 ? -errno : 0;
}

const struct wal_io wal_io_system = {
    .create = system_create, .allocate = system_allocate, .pwrite = system_pwrite, .fdatasync = system_fdatasync,
    .rename = system_rename, .unlink = system_unlink, .sync_folder = system_sync_folder,
};

int wal_io_write_some(const struct wal_io *io, int fd, const char *name, const void *data, size_t n, uint64_t at, size_t *done)
{
    for (*done = 0; *done < n; ) {
        ssize_t more = io->pwrite(io->arg, fd, name, (const char *)data + *done, n - *done, at + *done);

        if (more == -EINTR)
            continue;
        if (more <= 0)
            return more ? (int)more : -EIO;
        *done += (size_t)more;
    }
    return 0;
}

int wal_io_write(const struct wal_io *io, int fd, const char *name, const void *data, size_t n, uint64_t at)
{
    size_t done;

    return wal_io_write_some(io, fd, name, data, n, at, &done);
}

ssize_t wal_io_read(int fd, void *data, size_t n, uint64_t at)
{
    char *p = data;
    size_t got = 0;

    while (got < n) {
        ssize_t done = pread(fd, p + got, n - got, (off_t)(at + got));

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        if (done == 0)
            break;
        got += (size_t)done;
    }
    return (ssize_t)got;
}

int wal_io_is_full(int error)
{
    if (error < 0)
        error = -error;
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}
