/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - files of a daemon's own in folders of its own, always by descriptor of the folder: no path of a user is followed.
 * 0 or a negative code with the sentence; nothing is kept between calls. folder_listen changes the umask for a moment: no other thread may make files. */
#ifndef RPC_FOLDER_H
#define RPC_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <spur/error.h>

/* mkdir -p; the last part gets `mode`. Refuses a last part that is no folder, belongs to somebody else or can be written by others. */
int folder_make(const char *path, mode_t mode, struct spur_error *err);
/* Writes the file whole: beside it first, then renamed over it; `sync`: on disk when this returns. */
int folder_write(int folder_fd, const char *name, const void *data, size_t n, mode_t mode, bool sync, struct spur_error *err);
/* Reads at most `max` bytes; *data is malloced. SPUR_ENOTFOUND, SPUR_ELIMIT. */
int folder_read(int folder_fd, const char *name, size_t max, uint8_t **data, size_t *n, struct spur_error *err);
/* Removes what is in the folder (one level of files; folders below that are emptied too, links are never followed) and the folder itself. */
int folder_remove(int parent_fd, const char *name, struct spur_error *err);
/* A Unix socket by its folder: paths of any length. Listening or connected descriptor, close-on-exec and non-blocking; negative code on failure. */
int folder_listen(int folder_fd, const char *name, struct spur_error *err);
int folder_connect(int folder_fd, const char *name, struct spur_error *err);

#endif
