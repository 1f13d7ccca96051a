/* SPDX-License-Identifier: Apache-2.0 */
/* wal_io.h - the few file operations that the log, its superblock and the snapshots are made of, as a table.
 *
 * A test gives its own table: to record what was written in which order, to fail the n-th call, to run out of space.
 * Names are relative to the folder. Functions return 0 (or bytes, or a descriptor) or a negative errno.
 */
#ifndef STORE_WAL_IO_H
#define STORE_WAL_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/error.h>

struct wal_io {
    void *arg;
    int     (*create)(void *arg, int folder, const char *name);                 /* new, empty, 0600; replaces what had the name */
    int     (*allocate)(void *arg, int fd, const char *name, uint64_t size);    /* real room on the disk, reads as zeros; grows the file */
    ssize_t (*pwrite)(void *arg, int fd, const char *name, const void *data, size_t n, uint64_t at);
    int     (*fdatasync)(void *arg, int fd, const char *name);
    int     (*rename)(void *arg, int folder, const char *from, const char *to);
    int     (*unlink)(void *arg, int folder, const char *name);
    int     (*sync_folder)(void *arg, int folder);
};

extern const struct wal_io wal_io_system;

/* All n bytes, whatever the system writes at a time. 0 or a negative errno. */
int wal_io_write(const struct wal_io *io, int fd, const char *name, const void *data, size_t n, uint64_t at);
/* The same; *done says how many bytes went through before the error. */
int wal_io_write_some(const struct wal_io *io, int fd, const char *name, const void *data, size_t n, uint64_t at, size_t *done);
/* n bytes from `at`, fewer only at the end of the file. Bytes or a negative errno. */
ssize_t wal_io_read(int fd, void *data, size_t n, uint64_t at);
/* Is this errno "no room"? A quota and a file size limit are room as well. */
int wal_io_is_full(int error);

#endif
