/* SPDX-License-Identifier: Apache-2.0 */
/* duration.h - time limits, dates and sizes as Slurm's users write and read them. Pure but for the time zone of libc.
 * Limits and spans live in duration.c, points in time in moment.c, sizes and counts in size.c. */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/str.h"

#define MINUTES_UNLIMITED UINT32_MAX        /* a time limit that is no limit */
#define MINUTES_NOT_SET   (UINT32_MAX - 1)

/* "M", "M:S" (rounded up), "H:M:S", "D-H", "D-H:M", "D-H:M:S", UNLIMITED, INFINITE, "-1". Minutes.
 * 0 stays 0: where an option takes it for "no limit" (--time), its reader says so. */
int  minutes_parse(const char *text, uint32_t *minutes, struct spur_error *err);
/* Same grammar, in seconds and not rounded; MINUTES_UNLIMITED for unlimited. */
int  seconds_parse(const char *text, uint32_t *seconds, struct spur_error *err);
void minutes_print(uint32_t minutes, struct str *out);      /* "1-02:03:00" "02:03:00" as scontrol; UNLIMITED, Partition_Limit when not set */
void minutes_print_short(uint32_t minutes, struct str *out);/* "5:00" "2:03:00" "1-02:03:00" UNLIMITED NOT_SET, as squeue and sinfo */
void seconds_print_short(int64_t seconds, struct str *out); /* "0:07" "1:02:03" "1-02:03:04"; negative gives INVALID, as squeue %M */
void seconds_print_long(int64_t seconds, struct str *out);  /* "00:00:07" "1-02:03:04", as scontrol RunTime */

/* Points in time: now, now+60, now-1hour, now+2weeks; a day (today, tomorrow, MMDD[YY], MM/DD[/YY], MM.DD[.YY], YYYY-MM-DD), a time of day
 * (midnight, noon, teatime, fika, elevenses, HH:MM[:SS] [AM|PM]) or both, with T, - or a blank between. Times of day that have passed mean
 * tomorrow, dates without year that have passed next year; others may lie in the past. Refuses what lies after 2105. `now` is wall seconds. */
int  moment_parse(const char *text, int64_t now, int64_t *out, struct spur_error *err);
/* "2026-11-30T14:29:36"; 0 gives Unknown. `format` is the value of SLURM_TIME_FORMAT: NULL or "standard" as above, "relative" (to `now`),
 * or a format of strftime(); one that shows nothing, or more than 255 bytes, prints nothing. */
void moment_print(int64_t seconds, const char *format, int64_t now, struct str *out);

/* Sizes: plain number is MiB; suffix K M G T P with optional B or iB, any case; result in MiB, rounded up. */
int  mebibytes_parse(const char *text, uint64_t *mib, struct spur_error *err);
/* As scontrol shows memory, with the largest suffix that loses nothing: "1500M" "480G" "2T"; 0 gives "0". */
void mebibytes_print(uint64_t mib, struct str *out);
/* Counts with suffix: k K m M g G t T (1024), as gres counts. */
int  count_parse(const char *text, uint64_t *count, struct spur_error *err);
void count_print(uint64_t count, struct str *out);          /* exact multiples of 1024 get their suffix, as Slurm's gres */

#endif
