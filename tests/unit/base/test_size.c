/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"
#include "test_base.h"

static const struct { const char *text; uint64_t mib; const char *shown; } sizes[] = {
    { "0", 0, "0" }, { "100", 100, "100M" }, { "1M", 1, "1M" }, { "1024", 1024, "1G" }, { "1500M", 1500, "1500M" }, { "480G", 491520, "480G" },
    { "100k", 1, "1M" }, { "1025K", 2, "2M" }, { "0K", 0, "0" }, { "10kb", 1, "1M" }, { "1gb", 1024, "1G" }, { "1GB", 1024, "1G" },
    { "1GiB", 1024, "1G" }, { "2t", 2097152, "2T" }, { "1048577", 1048577, "1048577M" }, { "1025G", 1049600, "1025G" }, { "1P", 1073741824, "1P" },
    { "007", 7, "7M" }, { "1099511627776", UINT64_C(1) << 40, "1024P" },
};

START_TEST(memory_is_read_and_printed)
{
    struct spur_error err;
    struct str out;
    uint64_t mib;

    str_init(&out);
    ck_assert_msg(mebibytes_parse(sizes[_i].text, &mib, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(mib, sizes[_i].mib);
    mebibytes_print(mib, &out);
    ck_assert_str_eq(out.text, sizes[_i].shown);
    str_fini(&out);
}
END_TEST

static const char *const wrong_sizes[] = {
    "", " 1", "1 ", "-1", "+1", "1.5G", "G", "10b", "10ib", "1Gi", "18446744073709552k", "1E", "1MM", "1GBs", "1099511627777", "1025P", "99999999999T",
    "99999999999999999999", "99999999999999999999K", "0x10" };

START_TEST(wrong_memory_is_refused)
{
    struct spur_error err;
    uint64_t mib;
    int rc = mebibytes_parse(wrong_sizes[_i], &mib, &err);

    ck_refused(rc, err, wrong_sizes[_i]);
}
END_TEST

static const struct { const char *text; uint64_t count; const char *shown; } counts[] = {
    { "0", 0, "0" }, { "8", 8, "8" }, { "1000", 1000, "1000" }, { "1024", 1024, "1K" }, { "4k", 4096, "4K" }, { "4K", 4096, "4K" },
    { "50G", UINT64_C(53687091200), "50G" }, { "1m", 1048576, "1M" }, { "1500", 1500, "1500" }, { "1536", 1536, "1536" }, { "2T", UINT64_C(1) << 41, "2T" },
    { "1p", UINT64_C(1) << 50, "1P" }, { "16383P", UINT64_C(16383) << 50, "16383P" }, { "18446744073709551615", UINT64_MAX, "18446744073709551615" },
};

START_TEST(counts_are_read_and_printed)
{
    struct spur_error err;
    struct str out;
    uint64_t count;

    str_init(&out);
    ck_assert_msg(count_parse(counts[_i].text, &count, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(count, counts[_i].count);
    count_print(count, &out);
    ck_assert_str_eq(out.text, counts[_i].shown);
    str_fini(&out);
}
END_TEST

static const char *const wrong_counts[] = { "", "k", "1kb", "-1", "1.5", "1 k", "16384P", "18446744073709551616", "1KK" };

START_TEST(wrong_counts_are_refused)
{
    struct spur_error err;
    uint64_t count;
    int rc = count_parse(wrong_counts[_i], &count, &err);

    ck_refused(rc, err, wrong_counts[_i]);
}
END_TEST

START_TEST(what_is_printed_reads_back)
{
    uint64_t dices = test_seed;
    struct str out;

    str_init(&out);
    for (int round = 0; round < 2000; round++) {
        uint64_t n = dice(&dices, UINT64_C(1) << dice(&dices, 41)) << (dice(&dices, 4) ? 0 : 10), back;

        str_clear(&out);
        count_print(n, &out);
        ck_seed(count_parse(out.text, &back, NULL) == 0 && back == n);
        str_clear(&out);
        n >>= 10;
        mebibytes_print(n, &out);
        ck_seed(mebibytes_parse(out.text, &back, NULL) == 0 && back == n);
    }
    str_fini(&out);
}
END_TEST

TCase *size_cases(void)
{
    TCase *t = tcase_create("size");

    tcase_add_loop_test(t, memory_is_read_and_printed, 0, sizeof sizes / sizeof *sizes);
    tcase_add_loop_test(t, wrong_memory_is_refused, 0, sizeof wrong_sizes / sizeof *wrong_sizes);
    tcase_add_loop_test(t, counts_are_read_and_printed, 0, sizeof counts / sizeof *counts);
    tcase_add_loop_test(t, wrong_counts_are_refused, 0, sizeof wrong_counts / sizeof *wrong_counts);
    tcase_add_test(t, what_is_printed_reads_back);
    return t;
}
