/* SPDX-License-Identifier: Apache-2.0 */
/* pty.h - the pseudo terminal of a task (srun --pty). */
#ifndef AGENT_PTY_H
#define AGENT_PTY_H

#include <stdint.h>
#include <sys/types.h>
#include <spur/error.h>

/* Both ends, close-on-exec; the tasks' end belongs to the user. */
int  pty_open(uid_t uid, uint32_t rows, uint32_t columns, int *master, int *slave, struct spur_error *err);
void pty_resize(int master, uint32_t rows, uint32_t columns);       /* the tasks get SIGWINCH */
/* In the child, after setsid: makes it the terminal of this session. */
int  pty_take(int slave, struct spur_error *err);
char pty_end_of_input(int master);      /* the character that ends input as the task has set it (Ctrl-D); 0: none, it reads raw */

#endif
