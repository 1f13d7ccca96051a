/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>

#include "base/duration.h"
#include "test_base.h"

#define NOW "2026-11-30T14:46:00"       /* a Monday */

static void zone_set(const char *rule)
{
    setenv("TZ", rule, 1);
    tzset();
}

static int64_t seconds_of(const char *text)
{
    struct tm tm = { .tm_isdst = -1 };

    ck_assert_int_eq(sscanf(text, "%d-%d-%dT%d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec), 6);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return mktime(&tm);
}

static const struct { const char *text, *when; } moments[] = {
    /* fc-016 */
    { "now", NOW },
    { "now+60", "2026-11-30T14:47:00" },
    { "now+1hour", "2026-11-30T15:46:00" },
    { "now+1day", "2026-12-01T14:46:00" },
    { "midnight", "2026-12-01T00:00:00" },
    { "noon", "2026-12-01T12:00:00" },
    { "teatime", "2026-11-30T16:00:00" },
    { "tomorrow", "2026-12-01T00:00:00" },
    { "16:00", "2026-11-30T16:00:00" },
    { "2027-03-28", "2027-03-28T00:00:00" },
    { "03/28/27", "2027-03-28T00:00:00" },
    { "010127", "2027-01-01T00:00:00" },
    /* offsets */
    { "NOW+1", "2026-11-30T14:46:01" },
    { "now + 3 days", "2026-12-03T14:46:00" },
    { "now+3days", "2026-12-03T14:46:00" },
    { "now +1day", "2026-12-01T14:46:00" },
    { "now-1hour", "2026-11-30T13:46:00" },
    { "now+1HOUR", "2026-11-30T15:46:00" },
    { "now+90seconds", "2026-11-30T14:47:30" },
    { "now+1second", "2026-11-30T14:46:01" },
    { "now+10minutes", "2026-11-30T14:56:00" },
    { "now+2weeks", "2026-12-14T14:46:00" },
    { "now+0", NOW },
    { "now ", NOW },
    /* days */
    { "today", "2026-11-30T00:00:00" },
    { "1130", "2026-11-30T00:00:00" },
    { "0328", "2027-03-28T00:00:00" },
    { "3/8", "2027-03-08T00:00:00" },
    { "11/29", "2027-11-29T00:00:00" },
    { "12/1", "2026-12-01T00:00:00" },
    { "03.28.27", "2027-03-28T00:00:00" },
    { "03.28", "2027-03-28T00:00:00" },
    { "010199", "2099-01-01T00:00:00" },
    { "1999-01-01", "1999-01-01T00:00:00" },
    { "2028-02-29", "2028-02-29T00:00:00" },
    { "2105-12-31", "2105-12-31T00:00:00" },
    /* times of day: what has passed comes tomorrow */
    { "fika", "2026-11-30T15:00:00" },
    { "elevenses", "2026-12-01T11:00:00" },
    { "14:46", "2026-12-01T14:46:00" },
    { "14:46:01", "2026-11-30T14:46:01" },
    { "9:05", "2026-12-01T09:05:00" },
    { "4:00pm", "2026-11-30T16:00:00" },
    { "4:00 PM", "2026-11-30T16:00:00" },
    { "12:00am", "2026-12-01T00:00:00" },
    { "12:30pm", "2026-12-01T12:30:00" },
    { "11:59:59PM", "2026-11-30T23:59:59" },
    /* both */
    { "2010-01-20T12:34:00", "2010-01-20T12:34:00" },
    { "2027-03-28T10:00", "2027-03-28T10:00:00" },
    { "2027-03-28 10:00", "2027-03-28T10:00:00" },
    { "010120-12:34", "2020-01-01T12:34:00" },
    { "0101-12:34", "2027-01-01T12:34:00" },
    { "03/28/27-10:00", "2027-03-28T10:00:00" },
    { "11/30-14:00", "2027-11-30T14:00:00" },
    { "11/30-15:00", "2026-11-30T15:00:00" },
    { "noon today", "2026-11-30T12:00:00" },
    { "noon tomorrow", "2026-12-01T12:00:00" },
    { "tomorrow 16:00", "2026-12-01T16:00:00" },
    { "tomorrow-16:00", "2026-12-01T16:00:00" },
    { "16:00 03/28/27", "2027-03-28T16:00:00" },
    { "4:00 pm tomorrow", "2026-12-01T16:00:00" },
};

START_TEST(moments_are_read)
{
    int64_t now, when;
    struct spur_error err;
    struct str out;

    zone_set("CET-1CEST,M3.5.0,M10.5.0/3");
    now = seconds_of(NOW);
    str_init(&out);
    ck_assert_msg(moment_parse(moments[_i].text, now, &when, &err) == 0, "%s", err.text);
    moment_print(when, NULL, now, &out);
    ck_assert_str_eq(out.text, moments[_i].when);
    str_fini(&out);
}
END_TEST

static const char *const wrong[] = {
    "2027-13-01", "yesterday", "now+1fortnight", "now+10000000000",      /* fc-016 */
    "", " ", "nowhere", "now+", "now+x", "now 5", "now+1month", "now+1h", "now+10sec", "now+1hourly", "now+1.5hours", "now++1", "now+99999999999999999999",
    "now+4294967294weeks", "now-100weekss", "16", "1600", "160000", "1", "123", "12345", "0131272", "01012027", "2027", "2027-03", "2027-3-8", "2027-03-289",
    "2027-00-01", "2027-01-00", "0100", "2027-01-32", "2027-02-30", "2027-02-29", "02/29", "02/30", "13/01", "03/28/2027", "03/28/7", "2106-12-12", "2199-01-01", "1969-12-30", "24:00", "23:60", "23:59:60",
    "1:2", "12:345", "12:34:567", "12:", "12:34:", "13:00pm", "0:00x", "4pm", "pm", "monday", "uptime", "+60", "16:00 17:00", "noon noon", "today tomorrow",
    "03/28 03/29", "03/2811:00", "2027-03-28T1:2:3", "2027-03-28Z", "16:00+1hour", "tomorrows", "\xff", "12:34\n", "01/01/27/28",
};

START_TEST(wrong_moments_are_refused)
{
    struct spur_error err;
    int64_t now, when = 77;
    int rc;

    zone_set("CET-1CEST,M3.5.0,M10.5.0/3");
    now = seconds_of(NOW);
    rc = moment_parse(wrong[_i], now, &when, &err);
    ck_refused(rc, err, wrong[_i]);
    ck_assert_int_eq(when, 77);
}
END_TEST

/* The clock goes forward on 2027-03-28 and back on 2027-10-31. */
START_TEST(calendar_days_hold_across_changes_of_the_clock)
{
    static const struct { const char *now, *text; int64_t ahead; } cases[] = {
        { "2027-03-27T12:00:00", "tomorrow 12:00", 82800 }, { "2027-03-27T12:00:00", "now+1day", 86400 },
        { "2027-03-27T12:00:00", "12:00", 82800 }, { "2027-10-30T12:00:00", "noon", 90000 }, { "2027-10-30T12:00:00", "now+1day", 86400 },
        { "2027-03-28T01:00:00", "04:00", 7200 } };

    zone_set("CET-1CEST,M3.5.0,M10.5.0/3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t now = seconds_of(cases[i].now), when;

        ck_assert_int_eq(moment_parse(cases[i].text, now, &when, NULL), 0);
        ck_assert_int_eq(when - now, cases[i].ahead);
    }
}
END_TEST

/* In some zones the hour after midnight is the one that does not exist. */
START_TEST(a_day_without_midnight_begins_an_hour_late)
{
    int64_t now, when;
    struct str out;

    zone_set("EET-2EEST,M3.5.0/0,M10.5.0/0");
    now = seconds_of("2027-03-27T12:00:00");
    str_init(&out);
    ck_assert_int_eq(moment_parse("2027-03-28", now, &when, NULL), 0);
    moment_print(when, NULL, now, &out);
    ck_assert_str_eq(out.text, "2027-03-28T01:00:00");
    str_fini(&out);
}
END_TEST

static const struct { const char *when, *format, *shown; } prints[] = {
    { "2026-12-03T10:00:00", NULL, "2026-12-03T10:00:00" },
    { "2026-12-03T10:00:00", "", "2026-12-03T10:00:00" },
    { "2026-12-03T10:00:00", "standard", "2026-12-03T10:00:00" },
    { "2026-12-03T10:00:00", "%a %T", "Thu 10:00:00" },
    { "2026-12-03T10:00:00", "%s", "1796288400" },
    { "2026-12-03T10:00:00", "no percent", "no percent" },
    { "2026-11-30T14:49:12", "relative", "14:49:12" },
    { "2026-11-30T00:00:00", "relative", "00:00:00" },
    { "2026-12-01T00:00:00", "relative", "Tomorr 00:00" },
    { "2026-11-29T23:00:00", "relative", "Ystday 23:00" },
    { "2026-12-03T10:00:00", "relative", "Thu 10:00" },
    { "2026-12-06T23:00:00", "relative", "Sun 23:00" },
    { "2026-12-07T10:00:00", "relative", "7 Dec 10:00" },
    { "2026-11-28T10:00:00", "relative", "28 Nov 10:00" },
    { "2027-12-01T10:00:00", "relative", "1 Dec 2027" },
};

START_TEST(moments_are_printed)
{
    struct str out;

    zone_set("CET-1CEST,M3.5.0,M10.5.0/3");
    str_init(&out);
    moment_print(seconds_of(prints[_i].when), prints[_i].format, seconds_of(NOW), &out);
    ck_assert_str_eq(out.text, prints[_i].shown);
    str_fini(&out);
}
END_TEST

START_TEST(no_moment_is_unknown)
{
    char wide[600];
    struct str out;

    str_init(&out);
    moment_print(0, NULL, 0, &out);
    ck_assert_str_eq(out.text, "Unknown");
    memset(wide, 'x', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    str_clear(&out);
    moment_print(1, wide, 0, &out);
    ck_assert_str_eq(out.text, "");
    str_fini(&out);
}
END_TEST

START_TEST(what_is_printed_reads_back)
{
    uint64_t dices = test_seed;
    struct str out;

    zone_set("UTC0");       /* elsewhere one hour a year has two readings */
    str_init(&out);
    for (int round = 0; round < 2000; round++) {
        int64_t when = 1 + (int64_t)dice(&dices, 4294967294), now = (int64_t)dice(&dices, 4000000000), back = 0;

        str_clear(&out);
        moment_print(when, NULL, now, &out);
        ck_seed(moment_parse(out.text, now, &back, NULL) == 0 && back == when);
    }
    str_fini(&out);
}
END_TEST

TCase *moment_cases(void)
{
    TCase *t = tcase_create("moment");

    tcase_add_loop_test(t, moments_are_read, 0, sizeof moments / sizeof *moments);
    tcase_add_loop_test(t, wrong_moments_are_refused, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(t, calendar_days_hold_across_changes_of_the_clock);
    tcase_add_test(t, a_day_without_midnight_begins_an_hour_late);
    tcase_add_loop_test(t, moments_are_printed, 0, sizeof prints / sizeof *prints);
    tcase_add_test(t, no_moment_is_unknown);
    tcase_add_test(t, what_is_printed_reads_back);
    return t;
}
