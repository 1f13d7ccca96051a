/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bitmap.h"
#include "test_base.h"

static const struct { const char *text, *plain, *steps; } lists[] = {
    { "0",               "0",               "0" },
    { "3-3",             "3",               "3" },
    { "8,0-3",           "0-3,8",           "0-3,8" },
    { "63-65",           "63-65",           "63-65" },
    { "10-20:2",         "10,12,14,16,18,20", "10,12,14,16,18,20" },    /* spans only ten */
    { "1-7:2",           "1,3,5,7",         "1,3,5,7" },
    { "1-13:2",          "1,3,5,7,9,11,13", "1-13:2" },
    { "5-25:4",          "5,9,13,17,21,25", "5-25:4" },
    { "0-100:25",        "0,25,50,75,100",  "0,25,50,75,100" },         /* only five */
    { "0-99:20",         "0,20,40,60,80",   "0,20,40,60,80" },
    { "0-16:2,17",       "0,2,4,6,8,10,12,14,16-17", "0,2,4,6,8,10,12,14,16-17" },
    { "0-16:2,20",       "0,2,4,6,8,10,12,14,16,20", "0,2,4,6,8,10,12,14,16,20" },
    { "127",             "127",             "127" },
    { "0-127",           "0-127",           "0-127" },
    { "5-6:18446744073709551615", "5",      "5" },
};

START_TEST(lists_are_read_and_printed)
{
    struct spur_error err;
    struct bitmap b;
    struct str out;

    bitmap_init(&b, 128);
    str_init(&out);
    ck_assert_msg(bitmap_parse(&b, lists[_i].text, &err) == 0, "%s", err.text);
    bitmap_print(&b, &out);
    ck_assert_str_eq(out.text, lists[_i].plain);
    str_clear(&out);
    bitmap_print_steps(&b, &out);
    ck_assert_str_eq(out.text, lists[_i].steps);
    str_fini(&out);
    bitmap_fini(&b);
}
END_TEST

static const struct { const char *text, *named; } wrong[] = {
    { "", "number" }, { ",", "\",\"" }, { "1,", "number" }, { "1,,2", ",2" }, { "3-1", "3-1" }, { "0-9:0", "0-9:0" }, { "0-9:", "step" },
    { "128", "128" }, { "0-128", "128" }, { "99999999999999999999999", "99999999999999999999999" }, { "-1", "-1" }, { "1-", "number" },
    { "1 2", " 2" }, { "a", "a" }, { "1-2-3", "-3" }, { "1:2x", "x" }, { "[1-2]", "[1-2]" },
};

START_TEST(wrong_lists_are_refused)
{
    struct spur_error err;
    struct bitmap b;
    int rc;

    bitmap_init(&b, 128);
    rc = bitmap_parse(&b, wrong[_i].text, &err);
    ck_refused(rc, err, wrong[_i].named);
    bitmap_fini(&b);
}
END_TEST

/* Every operation against the same done bit by bit. */
START_TEST(operations_agree_with_single_bits)
{
    uint64_t dices = test_seed;

    for (int round = 0; round < 300; round++) {
        size_t bits = 1 + dice(&dices, 200), n = 0, first = bits, last = bits, from, to;
        struct bitmap a, b, c, d;
        bool subset = true, overlap = false;
        struct str text;

        bitmap_init(&a, bits);
        bitmap_init(&b, bits);
        bitmap_init(&c, 0);
        bitmap_init(&d, 7);
        for (size_t i = 0; i < bits; i++) {
            if (dice(&dices, 3))
                bitmap_set(&b, i);
            if (!dice(&dices, 4) || (round % 3 == 0 && bitmap_test(&b, i)))
                bitmap_set(&a, i);
            if (bitmap_test(&a, i)) {
                n++;
                first = first == bits ? i : first;
                last = i;
                subset &= bitmap_test(&b, i);
                overlap |= bitmap_test(&b, i);
            }
        }
        ck_seed(bitmap_count(&a) == n && bitmap_empty(&a) == !n);
        ck_seed(bitmap_first(&a) == first && bitmap_last(&a) == last);
        ck_seed(bitmap_subset(&a, &b) == subset && bitmap_overlap(&a, &b) == overlap);
        for (size_t i = bitmap_first(&a); i < bits; i = bitmap_next(&a, i), n--)
            ck_seed(bitmap_test(&a, i));
        ck_seed(n == 0);

        bitmap_copy(&c, &a);
        ck_seed(bitmap_equal(&a, &c) && !bitmap_test(&c, bits));
        bitmap_and(&c, &b);
        bitmap_copy(&d, &a);
        bitmap_and_not(&d, &b);
        for (size_t i = 0; i < bits; i++)
            ck_seed(bitmap_test(&c, i) == (bitmap_test(&a, i) && bitmap_test(&b, i)) &&
                    bitmap_test(&d, i) == (bitmap_test(&a, i) && !bitmap_test(&b, i)));
        ck_seed(!bitmap_overlap(&c, &d));
        bitmap_or(&d, &c);
        ck_seed(bitmap_equal(&d, &a));

        if (!bitmap_empty(&a)) {
            str_init(&text);
            round % 2 ? bitmap_print(&a, &text) : bitmap_print_steps(&a, &text);
            ck_seed(bitmap_parse(&c, text.text, NULL) == 0 && bitmap_equal(&a, &c));
            str_fini(&text);
        }

        from = dice(&dices, bits);
        to = from + dice(&dices, bits - from);
        bitmap_zero(&c);
        bitmap_set_range(&c, from, to);
        ck_seed(bitmap_count(&c) == to - from + 1 && bitmap_first(&c) == from && bitmap_last(&c) == to);

        bitmap_fill(&c);
        ck_seed(bitmap_count(&c) == bits);
        bitmap_resize(&c, bits + dice(&dices, 150));
        ck_seed(bitmap_count(&c) == bits);
        bitmap_resize(&c, bits / 2);
        bitmap_resize(&c, bits);
        ck_seed(bitmap_count(&c) == bits / 2);
        bitmap_fini(&a);
        bitmap_fini(&b);
        bitmap_fini(&c);
        bitmap_fini(&d);
    }
}
END_TEST

START_TEST(empty_sets_are_harmless)
{
    struct bitmap b = { 0 }, c;

    bitmap_init(&c, 0);
    bitmap_fill(&c);
    bitmap_zero(&c);
    bitmap_or(&c, &b);
    bitmap_copy(&c, &b);
    ck_assert(bitmap_equal(&b, &c) && bitmap_empty(&c) && !bitmap_test(&c, 0));
    ck_assert_uint_eq(bitmap_next(&c, 0), 0);
    ck_assert_int_lt(bitmap_parse(&c, "0", NULL), 0);
    bitmap_resize(&c, 0);
    bitmap_fini(&c);
    bitmap_fini(&b);
}
END_TEST

TCase *bitmap_cases(void)
{
    TCase *t = tcase_create("bitmap");

    tcase_add_loop_test(t, lists_are_read_and_printed, 0, sizeof lists / sizeof *lists);
    tcase_add_loop_test(t, wrong_lists_are_refused, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(t, operations_agree_with_single_bits);
    tcase_add_test(t, empty_sets_are_harmless);
    return t;
}
