/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"
#include "test_base.h"

/* As squeue and as scontrol show it. */
static const struct { const char *text, *brief, *full; uint64_t seconds; } limits[] = {
    /* fc-010 */
    { "10",           "10:00",         "00:10:00",    600 },
    { "4:00",         "4:00",          "00:04:00",    240 },
    { "0:30",         "1:00",          "00:01:00",    30 },
    { "1:00:00",      "1:00:00",       "01:00:00",    3600 },
    { "2-12",         "2-12:00:00",    "2-12:00:00",  216000 },
    { "2-12:30",      "2-12:30:00",    "2-12:30:00",  217800 },
    { "1-0:0:30",     "1-00:01:00",    "1-00:01:00",  86430 },
    { "0",            "0:00",          "00:00:00",    0 },
    { "90",           "1:30:00",       "01:30:00",    5400 },
    { "0:240:0",      "4:00:00",       "04:00:00",    14400 },
    { "7-00",         "7-00:00:00",    "7-00:00:00",  604800 },
    { "10-100:00:00", "14-04:00:00",   "14-04:00:00", 1224000 },
    /* more of the kind */
    { "1:60",         "2:00",          "00:02:00",    120 },
    { "1:0:61",       "1:02:00",       "01:02:00",    3661 },
    { "1-24",         "2-00:00:00",    "2-00:00:00",  172800 },
    { "00:00:01",     "1:00",          "00:01:00",    1 },
    { "0-0",          "0:00",          "00:00:00",    0 },
    { "20160",        "14-00:00:00",   "14-00:00:00", 1209600 },
    { "25:00:00",     "1-01:00:00",    "1-01:00:00",  90000 },
    { "0002-05",      "2-05:00:00",    "2-05:00:00",  190800 },
    { "UNLIMITED",    "UNLIMITED",     "UNLIMITED",   MINUTES_UNLIMITED },
    { "infinite",     "UNLIMITED",     "UNLIMITED",   MINUTES_UNLIMITED },
    { "-1",           "UNLIMITED",     "UNLIMITED",   MINUTES_UNLIMITED },
};

START_TEST(limits_are_read_and_printed)
{
    uint32_t minutes, seconds;
    struct spur_error err;
    struct str out;

    str_init(&out);
    ck_assert_msg(minutes_parse(limits[_i].text, &minutes, &err) == 0, "%s", err.text);
    minutes_print_short(minutes, &out);
    ck_assert_str_eq(out.text, limits[_i].brief);
    str_clear(&out);
    minutes_print(minutes, &out);
    ck_assert_str_eq(out.text, limits[_i].full);
    ck_assert_int_eq(seconds_parse(limits[_i].text, &seconds, &err), 0);
    ck_assert_uint_eq(seconds, limits[_i].seconds);
    str_fini(&out);
}
END_TEST

static const char *const wrong[] = {
    "3600.0", "abc", "1d", "1h", " 10", "+10", "1:2:3:4", "1-2-3", "",      /* fc-012 */
    "10 ", "1:", ":1", "1::2", "1-", "-2", "--1", "1-1:1:1:1", "1.5", "0x10", "UNLIMITE", "UNLIMITED ", "1:-1", "5000000000",
    "99999999999999999999999999", "4294967295", "4294967295-0", "1\n", "\xff",
};

START_TEST(wrong_limits_are_refused)
{
    struct spur_error err;
    uint32_t out = 77;
    int rc = minutes_parse(wrong[_i], &out, &err);

    ck_refused(rc, err, wrong[_i]);
    ck_assert_uint_eq(out, 77);
    rc = seconds_parse(wrong[_i], &out, &err);
    ck_refused(rc, err, wrong[_i]);
}
END_TEST

START_TEST(special_values_have_words)      /* fc-014 */
{
    struct str out;

    str_init(&out);
    minutes_print(MINUTES_NOT_SET, &out);
    str_add(&out, " ");
    minutes_print_short(MINUTES_NOT_SET, &out);
    ck_assert_str_eq(out.text, "Partition_Limit NOT_SET");
    str_fini(&out);
}
END_TEST

static const struct { int64_t seconds; const char *brief, *full; } spans[] = {
    { 0, "0:00", "00:00:00" }, { 7, "0:07", "00:00:07" }, { 59, "0:59", "00:00:59" }, { 60, "1:00", "00:01:00" },
    { 3599, "59:59", "00:59:59" }, { 3600, "1:00:00", "01:00:00" }, { 3723, "1:02:03", "01:02:03" }, { 86399, "23:59:59", "23:59:59" },
    { 86400, "1-00:00:00", "1-00:00:00" }, { 93784, "1-02:03:04", "1-02:03:04" }, { 8640000, "100-00:00:00", "100-00:00:00" },
    { -1, "INVALID", "INVALID" }, { INT64_MAX, "106751991167300-15:30:07", "106751991167300-15:30:07" },
};

START_TEST(spans_are_printed)
{
    struct str out;

    str_init(&out);
    seconds_print_short(spans[_i].seconds, &out);
    ck_assert_str_eq(out.text, spans[_i].brief);
    str_clear(&out);
    seconds_print_long(spans[_i].seconds, &out);
    ck_assert_str_eq(out.text, spans[_i].full);
    str_fini(&out);
}
END_TEST

START_TEST(what_is_printed_reads_back)
{
    uint64_t dices = test_seed;
    struct str out;

    str_init(&out);
    for (int round = 0; round < 2000; round++) {
        uint32_t minutes = (uint32_t)dice(&dices, UINT64_C(1) << dice(&dices, 33)), back = 0;

        str_clear(&out);
        if (minutes == MINUTES_NOT_SET)
            continue;
        round % 2 ? minutes_print(minutes, &out) : minutes_print_short(minutes, &out);
        ck_seed(minutes_parse(out.text, &back, NULL) == 0 && back == minutes);
    }
    str_fini(&out);
}
END_TEST

TCase *duration_cases(void)
{
    TCase *t = tcase_create("duration");

    tcase_add_loop_test(t, limits_are_read_and_printed, 0, sizeof limits / sizeof *limits);
    tcase_add_loop_test(t, wrong_limits_are_refused, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(t, special_values_have_words);
    tcase_add_loop_test(t, spans_are_printed, 0, sizeof spans / sizeof *spans);
    tcase_add_test(t, what_is_printed_reads_back);
    return t;
}
