/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - going to the background without losing the first error: the command that was called ends only when the daemon
 * serves (exit 0) or has failed (exit 1 with its sentence). Used by spurctld and spurd, before any thread or loop exists. */
#ifndef RPC_DAEMON_H
#define RPC_DAEMON_H

#include <stdbool.h>
#include <spur/error.h>

int  daemon_begin(struct spur_error *err);      /* returns in the background process only; a failure returns in the caller */
/* Before a key is read, and after what shall not inherit it was started: this process writes no core, and nobody but a tracer with CAP_SYS_PTRACE looks into it.
 * Not for who is not root, whose other processes are as much his, nor in a sandbox, which knows its daemons by their environment. Exec ends it. */
void daemon_seal(void);
void daemon_ready(void);                        /* the waiting command exits 0; a service manager that asked (NOTIFY_SOCKET) is told */
void daemon_failed(const char *text);           /* the waiting command prints the text and exits 1 */
/* "PROGRAM: fatal: ..." to the log and to the waiting command; to stderr too where the log is not already there. Returns 1, the exit code. */
int  daemon_fatal(const char *program, bool to_stderr, const struct spur_error *err);
int  pid_file_write(const char *path, struct spur_error *err);  /* NULL or "": nothing */

#endif
