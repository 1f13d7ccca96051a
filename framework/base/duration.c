/* SPDX-License-Identifier: Apache-2.0 */
/* duration.c - time limits in the forms of Slurm: one number is minutes, two are minutes and seconds, three hours
 * first; after "D-" the count starts at hours.
 *
 * The trap that this file exists for: 4:00 is four minutes, while 1-4:00 is a day and four hours. Parts may exceed
 * their usual range (0:240:0 is four hours), as users write it.
 */
#include "base/duration.h"

#define SECONDS_UNLIMITED UINT64_MAX

/* A number that keeps every sum below within 64 bits. */
static bool part_read(const char **cursor, uint64_t *part)
{
    return number_at(cursor, part) && *part <= UINT32_MAX;
}

static int duration_parse(const char *text, uint64_t *seconds, struct spur_error *err)
{
    static const unsigned after_days[] = { 3600, 60, 1 }, alone[][3] = { { 60 }, { 60, 1 }, { 3600, 60, 1 } };
    uint64_t days = 0, part[3] = { 0 };
    const unsigned *unit;
    const char *p = text;
    unsigned n = 0;
    bool has_days;

    *seconds = SECONDS_UNLIMITED;
    if (word_eq(text, "UNLIMITED") || word_eq(text, "INFINITE") || word_eq(text, "-1"))
        return 0;
    if (!part_read(&p, &part[0]))
        goto wrong;
    has_days = *p == '-';
    if (has_days) {
        days = part[0];
        p++;
        if (!part_read(&p, &part[0]))
            goto wrong;
    }
    for (n = 1; n < 3 && *p == ':'; n++) {
        p++;
        if (!part_read(&p, &part[n]))
            goto wrong;
    }
    if (*p)
        goto wrong;
    unit = has_days ? after_days : alone[n - 1];
    *seconds = days * 86400;
    for (unsigned i = 0; i < n; i++)
        *seconds += part[i] * unit[i];
    return 0;
wrong:
    return spur_fail(err, SPUR_ESYNTAX, "time \"%.40s\" is not understood: give minutes, minutes:seconds, hours:minutes:seconds, "
                     "days-hours[:minutes[:seconds]] or UNLIMITED", text);
}

int minutes_parse(const char *text, uint32_t *minutes, struct spur_error *err)
{
    uint64_t seconds;
    int rc = duration_parse(text, &seconds, err);

    if (rc < 0)
        return rc;
    if (seconds == SECONDS_UNLIMITED) {
        *minutes = MINUTES_UNLIMITED;
        return 0;
    }
    seconds = (seconds + 59) / 60;
    if (seconds >= MINUTES_NOT_SET)
        return spur_fail(err, SPUR_ELIMIT, "time \"%.40s\" is too long: give at most %u minutes, or UNLIMITED", text, MINUTES_NOT_SET - 1);
    *minutes = (uint32_t)seconds;
    return 0;
}

int seconds_parse(const char *text, uint32_t *seconds, struct spur_error *err)
{
    uint64_t exact;
    int rc = duration_parse(text, &exact, err);

    if (rc < 0)
        return rc;
    if (exact != SECONDS_UNLIMITED && exact >= MINUTES_NOT_SET)
        return spur_fail(err, SPUR_ELIMIT, "time \"%.40s\" is too long: give at most %u seconds, or UNLIMITED", text, MINUTES_NOT_SET - 1);
    *seconds = exact == SECONDS_UNLIMITED ? MINUTES_UNLIMITED : (uint32_t)exact;
    return 0;
}

void minutes_print(uint32_t minutes, struct str *out)
{
    if (minutes == MINUTES_UNLIMITED)
        str_add(out, "UNLIMITED");
    else if (minutes == MINUTES_NOT_SET)
        str_add(out, "Partition_Limit");
    else
        seconds_print_long((int64_t)minutes * 60, out);
}

void minutes_print_short(uint32_t minutes, struct str *out)
{
    if (minutes == MINUTES_UNLIMITED)
        str_add(out, "UNLIMITED");
    else if (minutes == MINUTES_NOT_SET)
        str_add(out, "NOT_SET");
    else
        seconds_print_short((int64_t)minutes * 60, out);
}

void seconds_print_short(int64_t seconds, struct str *out)
{
    int m = (int)(seconds / 60 % 60), s = (int)(seconds % 60);

    if (seconds < 0)
        str_add(out, "INVALID");
    else if (seconds >= 86400)
        seconds_print_long(seconds, out);
    else if (seconds >= 3600)
        str_addf(out, "%d:%02d:%02d", (int)(seconds / 3600), m, s);
    else
        str_addf(out, "%d:%02d", m, s);
}

void seconds_print_long(int64_t seconds, struct str *out)
{
    if (seconds < 0) {
        str_add(out, "INVALID");
        return;
    }
    if (seconds >= 86400)
        str_addf(out, "%lld-", (long long)(seconds / 86400));
    str_addf(out, "%02d:%02d:%02d", (int)(seconds / 3600 % 24), (int)(seconds / 60 % 60), (int)(seconds % 60));
}
