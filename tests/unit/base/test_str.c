/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "test_base.h"

START_TEST(buffer_grows)
{
    struct str s;
    char *taken;

    str_init(&s);
    str_clear(&s);
    str_addf(&s, "%s", "");
    ck_assert_str_eq(s.text, "");
    ck_assert_uint_eq(s.cap, 0);    /* empty owns nothing */
    for (int i = 0; i < 1000; i++)
        str_addf(&s, "%03d,", i);
    ck_assert_uint_eq(s.len, 4000);
    ck_assert_uint_eq(strlen(s.text), 4000);
    ck_assert_mem_eq(s.text + 3996, "999,", 4);
    str_clear(&s);
    str_add(&s, "a");
    str_add_n(&s, "bcd", 2);
    str_add_n(&s, NULL, 0);
    str_add_char(&s, 'd');
    ck_assert_str_eq(s.text, "abcd");
    taken = str_take(&s);
    ck_assert_str_eq(taken, "abcd");
    ck_assert_str_eq(s.text, "");
    free(taken);
    taken = str_take(&s);
    ck_assert_str_eq(taken, "");
    free(taken);
    str_fini(&s);
    str_fini(&s);
}
END_TEST

/* What str_addf formats by itself must be what libc makes of it. */
#define SAME(...) do { \
        char expected[200]; \
        struct str got; \
        snprintf(expected, sizeof expected, __VA_ARGS__); \
        str_init(&got); \
        str_add(&got, ">"); \
        str_addf(&got, __VA_ARGS__); \
        ck_assert_str_eq(got.text + 1, expected); \
        ck_assert_uint_eq(got.len, strlen(expected) + 1); \
        str_fini(&got); \
    } while (0)

START_TEST(formats_are_those_of_libc)
{
    const char *text = "abcdef";

    SAME("plain");
    SAME("100%% of %s", text);
    SAME("%.3s|%.*s|%.*s|%9s|%2s", text, 2, text, -1, text, text, text);
    SAME("%d %d %d %u", 0, -1, INT32_MIN, UINT32_MAX);
    SAME("%ld %lu %lld %llu", -5l, 5ul, (long long)INT64_MIN, (unsigned long long)UINT64_MAX);
    SAME("%zu %zd", (size_t)77, (ssize_t)-77);
    SAME("%02d:%02d:%02d %4d|%4u|%04d|%4d", 1, 22, 333, 7, 8u, -9, -9);
    SAME("%c%c", 'x', 'y');
    SAME("%-6s|%x|%5.1f|%+d|%.2d|%*d|%hu", text, 255u, 1.25, 3, 4, 6, 5, (unsigned short)6);     /* libc's */
    SAME("%s then %p", text, (void *)0);
    SAME("%016llx %o", 0xabcull, 8u);
}
END_TEST

START_TEST(memory_copies)
{
    char *p = mem_copy("x"), *q = mem_copy_n("abc", 2);
    unsigned char *z = mem_array(100, 3);

    ck_assert_ptr_null(mem_copy(NULL));
    ck_assert_str_eq(p, "x");
    ck_assert_str_eq(q, "ab");
    for (int i = 0; i < 300; i++)
        ck_assert_uint_eq(z[i], 0);
    free(p);
    free(q);
    free(z);
    free(mem_alloc(0));
}
END_TEST

START_TEST(words_compare_without_case)
{
    ck_assert(word_eq("NodeName", "nodename") && word_eq("", "") && word_eq(NULL, NULL));
    ck_assert(!word_eq("a", "ab") && !word_eq("ab", "a") && !word_eq(NULL, "") && !word_eq("", NULL));
    ck_assert(!word_eq("[", "{") && !word_eq("\xc3\x84", "\xc3\xa4"));     /* ASCII letters only */
    ck_assert(word_starts("PartitionName=x", "partitionname=") && word_starts("x", "") && !word_starts("x", "xy"));
}
END_TEST

START_TEST(lists_are_cut)
{
    char text[] = ",, a,b b,,c ,", blank[] = " \t ", *cursor = text, *none = NULL;

    ck_assert_str_eq(word_next(&cursor, ","), " a");
    ck_assert_str_eq(word_next(&cursor, ","), "b b");
    ck_assert_str_eq(word_trim(word_next(&cursor, ",")), "c");
    ck_assert_ptr_null(word_next(&cursor, ","));
    ck_assert_ptr_null(word_next(&cursor, ","));
    ck_assert_ptr_null(word_next(&none, ","));
    ck_assert_str_eq(word_trim(blank), "");
}
END_TEST

START_TEST(nearest_word_is_a_hint)
{
    static const char *const words[] = { "NodeName", "NodeAddr", "PartitionName", "MaxTime", "MaxNodes", NULL };
    static const struct { const char *text, *nearest; } hints[] = {
        { "NodName", "NodeName" }, { "nodename", "NodeName" }, { "Nodeadr", "NodeAddr" }, { "PartitonName", "PartitionName" },
        { "MaxTme", "MaxTime" }, { "Colour", NULL }, { "", NULL }, { "x", NULL } };
    char lengthy[500];

    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        ck_assert_pstr_eq(word_nearest(hints[i].text, words), hints[i].nearest);
    memset(lengthy, 'n', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    ck_assert_ptr_null(word_nearest(lengthy, words));
}
END_TEST

START_TEST(text_is_made_printable)
{
    static const struct { const char *text, *shown; } texts[] = {
        { "plain", "plain" }, { "a\nb\tc\x1b[1m", "a?b?c?[1m" }, { "\x7f", "?" }, { "Z\xc3\xbcrich", "Z\xc3\xbcrich" }, { "\xc3", "?" },
        { "\xff\xfe", "??" }, { "\xc0\xaf", "??" }, { "\xed\xa0\x80", "???" }, { "\xc2\x9b", "?" }, { "\xe2\x82\xac", "\xe2\x82\xac" },
        { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" }, { "\xf4\x90\x80\x80", "????" } };
    char out[32];

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        word_printable(texts[i].text, out, sizeof out);
        ck_assert_str_eq(out, texts[i].shown);
    }
    word_printable("ab\xc3\xbc", out, 4);      /* the last character does not fit whole */
    ck_assert_str_eq(out, "ab");
    word_printable("abc", out, 1);
    ck_assert_str_eq(out, "");
    word_printable("abc", out, 0);
}
END_TEST

START_TEST(what_others_named_stays_on_its_line)
{
    struct str s;

    str_init(&s);
    str_add(&s, "a\nJobId=");
    str_add(&s, "x\n\x1b[2J\x7f \xc2\x9b \xc3\xa9\t");
    str_printable(&s, 8);
    ck_assert_str_eq(s.text, "a\nJobId=x??[2J? ?? \xc3\xa9?");
    str_fini(&s);
}
END_TEST

START_TEST(columns_are_characters)
{
    ck_assert_uint_eq(utf8_columns(""), 0);
    ck_assert_uint_eq(utf8_columns("Z\xc3\xbcrich"), 6);
    ck_assert_uint_eq(utf8_columns("\xff\xc3"), 2);
    ck_assert_uint_eq(utf8_cut("Z\xc3\xbcrich", 2), 3);
    ck_assert_uint_eq(utf8_cut("ab", 5), 2);
    ck_assert_uint_eq(utf8_cut("ab", 0), 0);
}
END_TEST

static const struct { const char *text; bool u32, u64, i64; } numbers[] = {
    { "0", true, true, true }, { "007", true, true, true }, { "4294967295", true, true, true }, { "4294967296", false, true, true },
    { "9223372036854775807", false, true, true }, { "9223372036854775808", false, true, false }, { "18446744073709551615", false, true, false },
    { "18446744073709551616", false, false, false }, { "-1", false, false, true }, { "-9223372036854775808", false, false, true },
    { "-9223372036854775809", false, false, false }, { "", false, false, false }, { "-", false, false, false }, { "--1", false, false, false },
    { "+1", false, false, false }, { " 1", false, false, false }, { "1 ", false, false, false }, { "1.0", false, false, false },
    { "0x1", false, false, false }, { "99999999999999999999999999", false, false, false },
};

START_TEST(numbers_are_whole)
{
    uint32_t u32 = 77;
    uint64_t u64 = 77;
    int64_t i64 = 77;

    ck_assert_int_eq(number_u32(numbers[_i].text, &u32), numbers[_i].u32);
    ck_assert_int_eq(number_u64(numbers[_i].text, &u64), numbers[_i].u64);
    ck_assert_int_eq(number_i64(numbers[_i].text, &i64), numbers[_i].i64);
    ck_assert(u32 == (numbers[_i].u32 ? strtoul(numbers[_i].text, NULL, 10) : 77));
    ck_assert(u64 == (numbers[_i].u64 ? strtoull(numbers[_i].text, NULL, 10) : 77));
    ck_assert(i64 == (numbers[_i].i64 ? strtoll(numbers[_i].text, NULL, 10) : 77));
}
END_TEST

TCase *str_cases(void)
{
    TCase *t = tcase_create("str");

    tcase_add_test(t, buffer_grows);
    tcase_add_test(t, formats_are_those_of_libc);
    tcase_add_test(t, memory_copies);
    tcase_add_test(t, words_compare_without_case);
    tcase_add_test(t, lists_are_cut);
    tcase_add_test(t, nearest_word_is_a_hint);
    tcase_add_test(t, text_is_made_printable);
    tcase_add_test(t, what_others_named_stays_on_its_line);
    tcase_add_test(t, columns_are_characters);
    tcase_add_loop_test(t, numbers_are_whole, 0, sizeof numbers / sizeof *numbers);
    return t;
}
