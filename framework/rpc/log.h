/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the log of a daemon: one line an event, in Slurm's form:  [2026-11-30T14:29:36.123] error: text
 *
 * One log a process; any thread; each line is one write(), so lines of several processes in one file stay whole. What comes from outside
 * (names, peers, paths) can neither break a line nor reach a terminal: control characters become '?'.
 */
#ifndef RPC_LOG_H
#define RPC_LOG_H

#include <spur/plugin.h>

/* path NULL: stderr. level: the last one that is written (SPUR_LOG_INFO for a daemon, each -v one more). Called again: another file or level. */
int  log_open(const char *path, int level, struct spur_error *err);
int  log_reopen(void);              /* the file has been moved away (SIGHUP, logrotate); 0 or SPUR_EIO: then the old one is kept */
void log_close(void);
void log_level(int level);
int  log_level_of(unsigned debug); /* SlurmctldDebug, SlurmdDebug as a number (3: info) -> level; errors are written even with quiet and fatal */
int  log_is_on(int level);          /* worth making the text? */
void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_text(void *ctx, int level, const char *text);     /* the `log` of struct spur_host, and loader_log_to's; ctx is not used */

#endif
