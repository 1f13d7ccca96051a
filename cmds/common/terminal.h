/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - the terminal of a command whose task has one of its own (srun --pty, sattach --pty): its size, and raw mode that never outlives us. */
#ifndef CMDS_COMMON_TERMINAL_H
#define CMDS_COMMON_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

bool terminal_size(uint32_t *rows, uint32_t *columns);      /* of standard input, else output; false: there is no terminal */
/* Standard input goes raw, when it is a terminal and we have its foreground. It is as before after terminal_restore, after exit(), and also when we are killed:
 * a child holds what it was and puts it back when we are gone. */
void terminal_raw(void);
void terminal_restore(void);            /* may be called at any time, also without terminal_raw */

#endif
