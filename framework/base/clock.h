/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the clocks of this machine in milliseconds. Any thread; they cannot fail.
 *
 * Not for wire, state, admit and plan: these are given the time, so that the same input has the same answer on each replica (tests/layers).
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_boot_ms(void);        /* since boot, the time asleep too: what limits and deadlines of jobs are measured with */
int64_t clock_mono_ms(void);        /* since boot, not the time asleep: how long a command waits for an answer */
int64_t clock_wall_ms(void);        /* since 1970; jumps when somebody sets the clock: for records and people */

#endif
