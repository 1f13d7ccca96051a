/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - signals by name or number, as --signal and scancel -s take them. */
#ifndef CMDS_COMMON_SIGNALS_H
#define CMDS_COMMON_SIGNALS_H

int signal_parse(const char *text);         /* "USR1", "SIGUSR1", "10"; -1: unknown */
const char *signal_name(int number);          /* "USR1"; NULL when it has none */

#endif
