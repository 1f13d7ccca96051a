/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/hostlist.h"
#include "test_base.h"

/* text -> names one by one, ranged form as it came, ranged form when sorted (NULL: the same). */
static const struct { const char *text, *names, *ranged, *sorted; } lists[] = {
    /* fc-001, fc-003, fc-007, and the lists of fc-009 as they come from standard input */
    { "nodeA,nodeB[001,003],nodeC", "nodeA nodeB001 nodeB003 nodeC", "nodeA,nodeB[001,003],nodeC", NULL },
    { "foo003,foo0[10-12],foo[103-104],foo[10,12-14],foo-m11-16",
      "foo003 foo010 foo011 foo012 foo103 foo104 foo10 foo12 foo13 foo14 foo-m11-16",
      "foo003,foo0[10-12],foo[103-104,10,12-14],foo-m11-16", "foo[10,12-14,003,103-104],foo-m11-16,foo0[10-12]" },
    { "node[0001-0003]-int", "node0001-int node0002-int node0003-int", "node0001-int,node0002-int,node0003-int", NULL },
    { "n1,n2\nn3\n", "n1 n2 n3", "n[1-3]", NULL },
    /* nothing, one, separators */
    { "", "", "", NULL },
    { " ,\t\r\n", "", "", NULL },
    { ",n1,,n2 n3,", "n1 n2 n3", "n[1-3]", NULL },
    { "login", "login", "login", NULL },
    { "n[7]", "n7", "n7", NULL },
    { "n[7-7]", "n7", "n7", NULL },
    { "123,124", "123 124", "[123-124]", NULL },
    { "[1-3],4", "1 2 3 4", "[1-4]", NULL },
    { "n-1,n-2", "n-1 n-2", "n-[1-2]", NULL },
    { "gpu_a.[1-2].hpc.example.org", "gpu_a.1.hpc.example.org gpu_a.2.hpc.example.org",
      "gpu_a.1.hpc.example.org,gpu_a.2.hpc.example.org", NULL },
    { "lxb00[1,2]", "lxb001 lxb002", "lxb00[1-2]", NULL },      /* the user's cut stays */
    { "lxb003,lxb00[2,1],lxb[006],l2", "lxb003 lxb002 lxb001 lxb006 l2", "lxb003,lxb00[2,1],lxb006,l2", "l2,lxb[003,006],lxb00[1-2]" },
    { "n(1-2)", "n(1-2)", "n(1-2)", NULL },
    /* order and doubles stay; neighbours alone are joined */
    { "n1,login,n2,n3,n01,n02,r1c1,r1c2,r2c1,n3,n5", "n1 login n2 n3 n01 n02 r1c1 r1c2 r2c1 n3 n5",
      "n1,login,n[2-3,01-02],r1c[1-2],r2c1,n[3,5]", "login,n[1-3,3,5,01-02],r1c[1-2],r2c1" },
    { "n3,n1,n2", "n3 n1 n2", "n[3,1-2]", "n[1-3]" },
    { "n1,n1,n2", "n1 n1 n2", "n[1,1-2]", NULL },
    { "n1,n2,n1,n2", "n1 n2 n1 n2", "n[1-2,1-2]", "n[1,1-2,2]" },
    { "n1,n2a,n3", "n1 n2a n3", "n1,n2a,n3", "n[1,3],n2a" },
    { "n,n1,n2,m", "n n1 n2 m", "n,n[1-2],m", "m,n,n[1-2]" },
    /* widths */
    { "n9,n10", "n9 n10", "n[9-10]", NULL },
    { "n09,n10", "n09 n10", "n[09-10]", NULL },
    { "n99,n100", "n99 n100", "n[99-100]", NULL },
    { "n099,n100", "n099 n100", "n[099-100]", NULL },
    { "n9,n09", "n9 n09", "n[9,09]", NULL },
    { "n009,n10", "n009 n10", "n[009,10]", "n[10,009]" },
    { "n08,n9,n10", "n08 n9 n10", "n[08,9-10]", "n[9-10,08]" },
    { "n[98-101],n[099-101]", "n98 n99 n100 n101 n099 n100 n101", "n[98-101,099-101]", NULL },
    { "n0,n00", "n0 n00", "n[0,00]", NULL },
    { "n[01-3]", "n01 n02 n03", "n[01-03]", NULL },
    { "n[1-03]", "n1 n2 n3", "n[1-3]", NULL },
    { "n[8-11]", "n8 n9 n10 n11", "n[8-11]", NULL },
    { "n[098-101]", "n098 n099 n100 n101", "n[098-101]", NULL },
    { "n00000000000000000001,n00000000000000000002", "n00000000000000000001 n00000000000000000002",
      "n[00000000000000000001-00000000000000000002]", NULL },
    { "n18446744073709551614,n18446744073709551615,m18446744073709551615,m0",
      "n18446744073709551614 n18446744073709551615 m18446744073709551615 m0",
      "n[18446744073709551614-18446744073709551615],m[18446744073709551615,0]", "m[0,18446744073709551615],n[18446744073709551614-18446744073709551615]" },
    { "n123456789012345678901,n123456789012345678902", "n123456789012345678901 n123456789012345678902",
      "n123456789012345678901,n123456789012345678902", NULL },     /* past 64 bits: plain names */
    /* several brackets count like an odometer; the last number alone is ranged */
    { "r[1-2]c[1-3]", "r1c1 r1c2 r1c3 r2c1 r2c2 r2c3", "r1c[1-3],r2c[1-3]", NULL },
    { "r[1,03]c[9-10]x", "r1c9x r1c10x r03c9x r03c10x", "r1c9x,r1c10x,r03c9x,r03c10x", NULL },
    { "[1-2][1-2]", "11 12 21 22", "1[1-2],2[1-2]", NULL },
    { "r10c1,r2c10,r2c9,r2c1", "r10c1 r2c10 r2c9 r2c1", "r10c1,r2c[10,9,1]", "r2c[1,9-10],r10c1" },
    { "n10-ib,n2-ib,n1-ib,n1", "n10-ib n2-ib n1-ib n1", "n10-ib,n2-ib,n1-ib,n1", "n1,n1-ib,n2-ib,n10-ib" },
    { "aa1,a_1,a.1,a-1,a1,N1,n1", "aa1 a_1 a.1 a-1 a1 N1 n1", "aa1,a_1,a.1,a-1,a1,N1,n1", "N1,a1,a-1,a.1,a_1,aa1,n1" },
};

static void names_joined(const struct hostlist *h, struct str *out)
{
    for (size_t i = 0; i < hostlist_count(h); i++)
        str_addf(out, "%s%s", i ? " " : "", hostlist_nth(h, i));
}

START_TEST(lists_are_read_and_printed)
{
    struct spur_error err;
    struct hostlist *h;
    struct str out;

    str_init(&out);
    ck_assert_msg(hostlist_parse(lists[_i].text, &h, &err) == 0, "%s", err.text);
    names_joined(h, &out);
    ck_assert_str_eq(out.text, lists[_i].names);
    str_clear(&out);
    hostlist_print(h, &out);
    ck_assert_str_eq(out.text, lists[_i].ranged);
    hostlist_sort(h);
    str_clear(&out);
    hostlist_print(h, &out);
    ck_assert_str_eq(out.text, lists[_i].sorted ? lists[_i].sorted : lists[_i].ranged);
    hostlist_destroy(h);
    str_fini(&out);
}
END_TEST

static const struct { const char *text, *named; } wrong[] = {
    /* fc-005 */
    { "n]1[", "n]1[" }, { "n[1-", "n[1-" }, { "n[1-2", "n[1-2" }, { "n[1-3]]", "n[1-3]]" }, { "n[]", "n[]" }, { "n[-1]", "n[-1]" },
    { "n[a-b]", "a-b" }, { "n[3-1]", "3-1" },
    /* more of the kind */
    { "n[", "n[" }, { "]", "]" }, { "[", "[" }, { "n[[1]]", "n[[1]" }, { "n[1[2]]", "n[1[2]" }, { "n[1,]", "n[1,]" }, { "n[,1]", ",1" },
    { "n[1,,2]", ",2" }, { "n[1-2-3]", "n[1-2-3]" }, { "n[1-]", "n[1-]" }, { "n[1 2]", "n[1 2]" }, { "n[1, 2]", " 2" }, { "n[+1]", "+1" },
    { "n[0x1]", "x" }, { "ok,n[2-1],fine", "2-1" }, { "ok[1-2],n[", "n[" }, { "n[1-2:2]", ":" }, { "n[1\n2]", "n[1" },
    { "a[1-2]b]", "a[1-2]b]" }, { "n[99999999999999999999]", "99999999999999999999" },
    /* limits */
    { "n[1-1000001]", "1000000" }, { "n[0-18446744073709551615]", "1000000" }, { "n[1-1000],m[1-999001]", "m[1-999001]" },
    { "n[1-1001][1-1000]", "1000000" }, { "[1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9]", "limit" }, { "[1][1][1][1][1][1][1][1][1]", "brackets" },
    { "n[1-600000,1-600000]", "1000000" },
};

START_TEST(wrong_lists_are_refused)
{
    struct hostlist *h = hostlist_create();
    struct spur_error err;
    int rc;

    hostlist_add(h, "before");
    rc = hostlist_add_list(h, wrong[_i].text, &err);
    ck_refused(rc, err, wrong[_i].named);
    ck_assert_uint_eq(hostlist_count(h), 1);    /* all or nothing */
    ck_assert_int_eq(hostlist_find(h, "before"), 0);
    hostlist_destroy(h);
}
END_TEST

START_TEST(long_names_are_refused)
{
    char name[300];
    struct hostlist *h;

    memset(name, 'n', sizeof name);
    name[255] = '\0';
    ck_assert_int_eq(hostlist_parse(name, &h, NULL), 0);
    ck_assert_str_eq(hostlist_nth(h, 0), name);
    hostlist_destroy(h);
    name[255] = 'n';
    name[256] = '\0';
    ck_assert_int_eq(hostlist_parse(name, &h, NULL), SPUR_ELIMIT);
    memcpy(name + 250, "[0000001]", 10);
    ck_assert_int_eq(hostlist_parse(name, &h, NULL), SPUR_ELIMIT);
    memset(name, '0', sizeof name);
    memcpy(name, "[1-", 3);
    memcpy(name + 290, "1]", 3);
    ck_assert_int_eq(hostlist_parse(name, &h, NULL), 0);    /* leading zeros of a range's end mean nothing */
    hostlist_destroy(h);
    memcpy(name, "[00", 3);
    ck_assert_int_eq(hostlist_parse(name, &h, NULL), SPUR_ELIMIT);
}
END_TEST

START_TEST(lists_change)
{
    struct hostlist *h;

    ck_assert_int_eq(hostlist_parse(NULL, &h, NULL), 0);
    ck_assert_uint_eq(hostlist_count(h), 0);
    ck_assert_ptr_null(hostlist_nth(h, 0));
    ck_assert(!hostlist_remove(h, 0));
    ck_assert_int_eq(hostlist_add_list(h, "n[1-40]", NULL), 0);
    hostlist_add(h, "n7");
    hostlist_add(h, "a[1]");        /* literal: a name that an agent gave itself */
    ck_assert_int_eq(hostlist_find(h, "n7"), 6);
    ck_assert_int_eq(hostlist_find(h, "a[1]"), 41);
    ck_assert_int_eq(hostlist_find(h, "n41"), -1);
    ck_assert(hostlist_remove(h, 6));
    ck_assert_int_eq(hostlist_find(h, "n7"), 39);
    ck_assert_int_eq(hostlist_find(h, "n8"), 6);
    ck_assert_str_eq(hostlist_nth(h, 6), "n8");
    hostlist_add(h, "n1");
    hostlist_uniq(h);
    ck_assert_uint_eq(hostlist_count(h), 41);
    ck_assert_int_eq(hostlist_find(h, "n40"), 40);
    while (hostlist_remove(h, 0))
        ;
    ck_assert_int_eq(hostlist_find(h, "n1"), -1);
    hostlist_destroy(h);
    hostlist_destroy(NULL);
}
END_TEST

/* Sets of names print alike however they were written: the nodes of a partition, of an allocation. */
START_TEST(uniq_forgets_how_names_were_written)
{
    static const struct { const char *text, *ranged; } sets[] = {
        { "lxb00[2,1],lxb001,lxb0[02-03]", "lxb[001-003]" }, { "n[8-10],n10,n[9],n[11-12]", "n[8-12]" }, { "n[1-3]x,n2x", "n1x,n2x,n3x" },
        { "b,a,b", "a,b" }, { "n08,n9,n10,n[8-9]", "n[8-9,08,10]" } };
    struct str out;

    str_init(&out);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct hostlist *h;

        ck_assert_int_eq(hostlist_parse(sets[i].text, &h, NULL), 0);
        hostlist_uniq(h);
        str_clear(&out);
        hostlist_print(h, &out);
        ck_assert_str_eq(out.text, sets[i].ranged);
        hostlist_destroy(h);
    }
    str_fini(&out);
}
END_TEST

/* A list text as a site might write it; small numbers, so that neighbours and doubles are common. */
static void random_list(uint64_t *dices, struct str *out)
{
    static const char *const words[] = { "n", "node", "r1c", "gpu-", "a.b", "x_", "", "0", "n0" };

    for (uint64_t elements = dice(dices, 8); elements; elements--) {
        str_add(out, words[dice(dices, sizeof words / sizeof *words)]);
        for (uint64_t brackets = dice(dices, 3); brackets; brackets--) {
            str_add_char(out, '[');
            for (uint64_t ranges = 1 + dice(dices, 3); ranges; ranges--) {
                uint64_t first = dice(dices, 1 + dice(dices, 120)), last = first + dice(dices, 12);

                str_addf(out, "%0*d", (int)dice(dices, 4), (int)first);
                if (dice(dices, 2))
                    str_addf(out, "-%d", (int)last);
                if (ranges > 1)
                    str_add_char(out, ',');
            }
            str_add(out, dice(dices, 4) ? "]" : "]-ib");
        }
        str_add(out, elements > 1 ? "," : "m");
    }
}

START_TEST(what_is_printed_reads_back)
{
    uint64_t dices = test_seed;
    struct str text, names, back;

    str_init(&text);
    str_init(&names);
    str_init(&back);
    for (int round = 0; round < 400; round++) {
        struct hostlist *h, *again;
        size_t n;

        str_clear(&text);
        str_clear(&names);
        str_clear(&back);
        random_list(&dices, &text);
        ck_seed(hostlist_parse(text.text, &h, NULL) == 0);
        names_joined(h, &names);
        str_clear(&text);
        hostlist_print(h, &text);
        ck_seed(hostlist_parse(text.text, &again, NULL) == 0);
        names_joined(again, &back);
        ck_seed(!strcmp(names.text, back.text));

        for (int probe = 0; probe < 20 && hostlist_count(h); probe++) {
            size_t i = dice(&dices, hostlist_count(h)), first = 0;

            while (strcmp(hostlist_nth(h, first), hostlist_nth(h, i)))
                first++;
            ck_seed(hostlist_find(h, hostlist_nth(h, i)) == (ptrdiff_t)first);
        }
        hostlist_uniq(again);
        n = hostlist_count(again);
        for (size_t i = 0; i < hostlist_count(h); i++)
            ck_seed(hostlist_find(again, hostlist_nth(h, i)) >= 0);
        for (size_t i = 0; i < n; i++)
            ck_seed(hostlist_find(again, hostlist_nth(again, i)) == (ptrdiff_t)i && hostlist_find(h, hostlist_nth(again, i)) >= 0);
        str_clear(&names);
        str_clear(&back);
        names_joined(again, &names);
        hostlist_uniq(again);
        names_joined(again, &back);
        ck_seed(!strcmp(names.text, back.text) && hostlist_count(again) == n);
        hostlist_destroy(again);
        hostlist_destroy(h);
    }
    str_fini(&text);
    str_fini(&names);
    str_fini(&back);
}
END_TEST

TCase *hostlist_cases(void)
{
    TCase *t = tcase_create("hostlist");

    tcase_add_loop_test(t, lists_are_read_and_printed, 0, sizeof lists / sizeof *lists);
    tcase_add_loop_test(t, wrong_lists_are_refused, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(t, long_names_are_refused);
    tcase_add_test(t, lists_change);
    tcase_add_test(t, uniq_forgets_how_names_were_written);
    tcase_add_test(t, what_is_printed_reads_back);
    return t;
}
