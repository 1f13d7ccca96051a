/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - sockets in the file system, by paths of any length. Used by rpc/server.c and by the client, which must not need libuv. */
#ifndef RPC_LOCAL_H
#define RPC_LOCAL_H

#include <sys/types.h>
#include <spur/error.h>

/* A connected socket (close-on-exec), or -1 and errno. */
int local_connect(const char *path);
/* A listening socket at path with these permission bits, or -1 and a sentence. A dead socket there is replaced, a live one is refused. */
int local_listen(const char *path, unsigned mode, int backlog, struct spur_error *err);
/* Who is at the other end, as the kernel says; false when it does not. */
int local_peer(int fd, uid_t *uid, gid_t *gid, pid_t *pid);

#endif
