/* SPDX-License-Identifier: Apache-2.0 */
/* moment.c - points in time as --begin, --deadline and reservations take them, and as the commands show them.
 *
 * A moment is a day, a time of day, or one of each in either order ("16:00", "tomorrow", "2027-03-28T10:00",
 * "noon 03/28"), or "now" with an offset. What the user left out is guessed forward: a time of day that has passed
 * means tomorrow, a date without year that has passed means next year. Midnight fills a missing time of day.
 *
 * Days are calendar days of the local zone, so mktime() does the adding across changes of the clock; "now+1day" is
 * 86,400 seconds. Nothing past MOMENT_LAST is accepted: a start in the far future is a slip of the keyboard, and
 * clients keep these values in 32 bits.
 */
#include <string.h>
#include <time.h>

#include "base/duration.h"

#define MOMENT_LAST INT64_C(4294967294)     /* in 2106 */

struct moment_reader {
    const char *text, *p;
    struct spur_error *err;
    struct tm tm;               /* today, then what was read */
    bool has_day, has_year, has_time;
    int day;                    /* day of the month that the user wrote, 0 for none */
};

static int moment_wrong(struct moment_reader *r, const char *why)
{
    return spur_fail(r->err, SPUR_ESYNTAX, "time \"%.40s\" is not understood: %s", r->text, why);
}

static size_t digits(const char *p)
{
    size_t n = 0;

    while (is_digit(p[n]))
        n++;
    return n;
}

/* A number of `least` to `most` digits; more digits may follow it. */
static bool field_read(struct moment_reader *r, size_t least, size_t most, int *out)
{
    size_t n = digits(r->p);

    if (n < least)
        return false;
    *out = 0;
    for (n = n < most ? n : most; n; n--)
        *out = *out * 10 + (*r->p++ - '0');
    return true;
}

/* True, and past it, when the word at the cursor is `word` and ends there. */
static bool word_read(struct moment_reader *r, const char *word)
{
    size_t n = strlen(word);
    char after;

    if (!word_starts(r->p, word))
        return false;
    after = r->p[n];
    if ((after >= 'a' && after <= 'z') || (after >= 'A' && after <= 'Z' && after != 'T'))
        return false;
    r->p += n;
    return true;
}

static int day_set(struct moment_reader *r, int year, int month, int day)
{
    if (r->has_day)
        return moment_wrong(r, "it names two days");
    if (month < 1 || month > 12)
        return moment_wrong(r, "the month must be 1 to 12");
    if (day < 1 || day > 31)
        return moment_wrong(r, "that month has no such day");
    r->has_day = true;
    r->has_year = year >= 0;
    if (r->has_year)
        r->tm.tm_year = year - 1900;
    r->tm.tm_mon = month - 1;
    r->tm.tm_mday = r->day = day;
    return 0;
}

static int time_set(struct moment_reader *r, int hour, int minute, int second)
{
    if (r->has_time)
        return moment_wrong(r, "it names two times of day");
    if (hour > 23 || minute > 59 || second > 59)
        return moment_wrong(r, "a time of day lies between 00:00:00 and 23:59:59");
    r->has_time = true;
    r->tm.tm_hour = hour;
    r->tm.tm_min = minute;
    r->tm.tm_sec = second;
    return 0;
}

/* H:MM[:SS] or HH:MM[:SS], with AM or PM behind it. */
static int time_read(struct moment_reader *r)
{
    int hour, minute, second = 0;
    const char *end;

    if (!field_read(r, 1, 2, &hour) || *r->p++ != ':' || !field_read(r, 2, 2, &minute) ||
        (*r->p == ':' && (r->p++, !field_read(r, 2, 2, &second))))
        return moment_wrong(r, "a time of day is HH:MM or HH:MM:SS");
    end = r->p;
    while (*r->p == ' ')
        r->p++;
    if (word_read(r, "am"))
        hour = hour == 12 ? 0 : hour > 12 ? 24 : hour;
    else if (word_read(r, "pm"))
        hour = hour == 12 ? 12 : hour > 12 ? 24 : hour + 12;
    else
        r->p = end;
    return time_set(r, hour, minute, second);
}

/* MM/DD[/YY] or MM.DD[.YY] */
static int day_read(struct moment_reader *r, char cut)
{
    int month, day, year = -1;

    if (!field_read(r, 1, 2, &month) || *r->p++ != cut || !field_read(r, 1, 2, &day))
        return moment_wrong(r, "a date is MM/DD or MM/DD/YY");
    if (*r->p == cut) {
        r->p++;
        if (!field_read(r, 2, 2, &year))
            return moment_wrong(r, "a date is MM/DD or MM/DD/YY");
        year += 2000;
    }
    return day_set(r, year, month, day);
}

/* A date or a time of day: told apart by the number of digits in front and what follows them. */
static int number_read(struct moment_reader *r)
{
    int year = -1, month, day;
    size_t n = digits(r->p);
    char next = r->p[n];

    if (n <= 2 && (next == '/' || next == '.'))
        return day_read(r, next);
    if (n <= 2 && next == ':')
        return time_read(r);
    if (n == 4 && next == '-' && digits(r->p + 5) == 2 && r->p[7] == '-') {
        field_read(r, 4, 4, &year);
        r->p++;
        field_read(r, 2, 2, &month);
        r->p++;
        if (!field_read(r, 2, 2, &day))
            return moment_wrong(r, "a date is YYYY-MM-DD");
        return day_set(r, year, month, day);
    }
    if (n != 4 && n != 6)
        return moment_wrong(r, "a time of day is HH:MM, a date YYYY-MM-DD, MM/DD/YY or MMDDYY");
    field_read(r, 2, 2, &month);
    field_read(r, 2, 2, &day);
    if (n == 6 && field_read(r, 2, 2, &year))
        year += 2000;
    return day_set(r, year, month, day);
}

static int element_read(struct moment_reader *r)
{
    static const struct { const char *word; int hour; } times[] = {
        { "midnight", 0 }, { "elevenses", 11 }, { "noon", 12 }, { "fika", 15 }, { "teatime", 16 } };
    int ahead = -1;

    if (is_digit(*r->p))
        return number_read(r);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (word_read(r, times[i].word))
            return time_set(r, times[i].hour, 0, 0);
    if (word_read(r, "today"))
        ahead = 0;
    else if (word_read(r, "tomorrow"))
        ahead = 1;
    if (ahead < 0)
        return moment_wrong(r, "give e.g. 16:00, tomorrow, noon, now+1hour or 2027-03-28T10:00");
    if (r->has_day)
        return moment_wrong(r, "it names two days");
    r->has_day = r->has_year = true;
    r->tm.tm_mday += ahead;     /* mktime() carries it into the next month */
    return 0;
}

/* What follows "now": nothing, or + or - with a count and a unit. */
static int offset_read(struct moment_reader *r, int64_t *offset)
{
    static const struct { const char *unit; int seconds; } units[] = {
        { "second", 1 }, { "minute", 60 }, { "hour", 3600 }, { "day", 86400 }, { "week", 604800 } };
    uint64_t count;
    int64_t seconds = 1;
    bool minus;

    *offset = 0;
    while (*r->p == ' ')
        r->p++;
    if (!*r->p)
        return 0;
    minus = *r->p == '-';
    if (!minus && *r->p != '+')
        return moment_wrong(r, "only + or - and a count may follow now");
    do r->p++; while (*r->p == ' ');
    if (!is_digit(*r->p))
        return moment_wrong(r, "a count is missing");
    if (!number_at(&r->p, &count) || count > MOMENT_LAST)
        return spur_fail(r->err, SPUR_ELIMIT, "time \"%.40s\" lies too far away: the last year is 2105", r->text);
    while (*r->p == ' ')
        r->p++;
    if (*r->p) {
        size_t i = 0;

        while (i < sizeof units / sizeof *units && !word_starts(r->p, units[i].unit))
            i++;
        if (i == sizeof units / sizeof *units)
            return moment_wrong(r, "the unit must be seconds, minutes, hours, days or weeks");
        seconds = units[i].seconds;
        r->p += strlen(units[i].unit);
        r->p += *r->p == 's' || *r->p == 'S';
    }
    if (*r->p)
        return moment_wrong(r, "the unit must be seconds, minutes, hours, days or weeks");
    *offset = (int64_t)count * (minus ? -seconds : seconds);
    return 0;
}

/* The clock time in r->tm as seconds; may be called again after a change of day or year. */
static int64_t moment_seconds(const struct moment_reader *r)
{
    struct tm tm = r->tm;

    tm.tm_isdst = -1;
    return mktime(&tm);
}

int moment_parse(const char *text, int64_t now, int64_t *out, struct spur_error *err)
{
    struct moment_reader r = { .text = text, .p = text, .err = err };
    time_t t = now;
    int64_t when;
    int rc;

    while (*r.p == ' ')
        r.p++;
    if (word_read(&r, "now")) {
        if ((rc = offset_read(&r, &when)) < 0)
            return rc;
        when += now;
    } else {
        if (!localtime_r(&t, &r.tm))
            return spur_fail(err, SPUR_EINVAL, "the clock of this machine shows no valid date");
        r.tm.tm_hour = r.tm.tm_min = r.tm.tm_sec = 0;
        do {
            if ((rc = element_read(&r)) < 0)
                return rc;
            if (is_digit(*r.p))
                return moment_wrong(&r, "a blank or T is missing between day and time");
            while (*r.p == ' ' || *r.p == ',' || ((*r.p == '-' || *r.p == 'T') && is_digit(r.p[1])))
                r.p++;
        } while (*r.p);
        when = moment_seconds(&r);
        if (!r.has_day && when <= now) {
            r.tm.tm_mday++;
            when = moment_seconds(&r);
        } else if (!r.has_year && when < now && (r.has_time || when < now - 86400)) {
            r.tm.tm_year++;
            when = moment_seconds(&r);
        }
        t = when;
        if (r.day && (!localtime_r(&t, &r.tm) || r.tm.tm_mday != r.day))
            return moment_wrong(&r, "that month has no such day");     /* mktime() made March of February 30 */
    }
    if (when < 0 || when > MOMENT_LAST)
        return spur_fail(err, SPUR_ELIMIT, "time \"%.40s\" lies too far away: the last year is 2105", text);
    *out = when;
    return 0;
}

/* As SLURM_TIME_FORMAT=relative: the clock time today, the day's name within a week, the date within the year. */
static const char *relative_format(const struct tm *tm, const struct tm *today)
{
    struct tm a = *tm, b = *today;
    long hours, days;

    a.tm_hour = b.tm_hour = 12;     /* noon to noon: whole days even when the clock changes between */
    a.tm_min = a.tm_sec = b.tm_min = b.tm_sec = 0;
    a.tm_isdst = b.tm_isdst = -1;
    hours = (long)((mktime(&a) - mktime(&b)) / 3600);
    days = (hours + (hours > 0 ? 12 : -12)) / 24;
    if (days == 0)
        return "%H:%M:%S";
    if (days == 1)
        return "Tomorr %H:%M";
    if (days == -1)
        return "Ystday %H:%M";
    if (days > 0 && days < 7)
        return "%a %H:%M";
    return tm->tm_year == today->tm_year ? "%-d %b %H:%M" : "%-d %b %Y";
}

void moment_print(int64_t seconds, const char *format, int64_t now, struct str *out)
{
    time_t t = seconds, t_now = now;
    struct tm tm, today;
    char text[256];

    if (seconds == 0 || !localtime_r(&t, &tm)) {
        str_add(out, "Unknown");
        return;
    }
    if (!format || !*format || word_eq(format, "standard"))
        format = "%Y-%m-%dT%H:%M:%S";
    else if (word_eq(format, "relative") && localtime_r(&t_now, &today))
        format = relative_format(&tm, &today);
    /* strftime() gives 0 for a text that does not fit as for an empty one; both show nothing. */
    if (strftime(text, sizeof text, format, &tm))
        str_add(out, text);
}
