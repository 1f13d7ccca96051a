/* SPDX-License-Identifier: Apache-2.0 */
/* test_queries.c - what squeue, sinfo and scontrol are made of: columns, rows in order, ids, JSON, records, lists. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "cmds/common/json.h"
#include "cmds/common/list.h"
#include "cmds/common/records.h"
#include "cmds/common/taskset.h"
#include "cmds/squeue.h"
#include "state/apply.h"

/* ---- columns ------------------------------------------------------------------------------------------------------------------- */

struct word { const char *a, *b; };
static void print_a(const void *row, struct str *out) { str_add(out, ((const struct word *)row)->a); }
static void print_b(const void *row, struct str *out) { str_add(out, ((const struct word *)row)->b); }
static const struct column_field two[] = { { "first", 'a', "FIRST", 1, print_a }, { "second-one", 'b', "SECOND", 2, print_b }, { "third", 0, "THIRD", 4, print_b } };

static const struct { const char *format, *heading, *row; } letters[] = {
    { "%a %b", "FIRST SECOND\n", "abcdef xy\n" },
    { "%.3a|%.8b|", "FIR|  SECOND|\n", "abc|      xy|\n" },
    { "%8a|%3b|", "FIRST   |SEC|\n", "abcdef  |xy |\n" },
    { "<%a>%%", "<FIRST>%\n", "<abcdef>%\n" },
    { "no letter", "no letter\n", "no letter\n" },
    { "%all", "FIRST|SECOND\n", "abcdef|xy\n" },
    { "", "\n", "\n" },
    { "%.0a", "FIRST\n", "abcdef\n" },
    { "%#2a|%#.9b", "FIRST |   SECOND\n", "abcdef|       xy\n" },
};

START_TEST(columns_of_letters)
{
    struct word row = { "abcdef", "xy" };
    struct spur_error err = { 0 };
    struct columns c;
    struct str scratch, out;

    str_init(&scratch);
    str_init(&out);
    ck_assert_int_eq(columns_parse(letters[_i].format, two, 3, &c, &err), 0);
    if (strchr(letters[_i].format, '#'))
        columns_fit(&c, &row, &scratch);
    columns_heading(&c, &out);
    ck_assert_str_eq(out.text, letters[_i].heading);
    str_clear(&out);
    columns_row(&c, &row, &scratch, &out);
    ck_assert_str_eq(out.text, letters[_i].row);
    columns_fini(&c);
    str_fini(&scratch);
    str_fini(&out);
}
END_TEST

static const struct { const char *format, *row; } names[] = {
    { "first", "abcdef              \n" },
    { "FIRST:8,second-one:.4|", "abcdef    xy|\n" },
    { "first:|,third:|", "abcdef|xy|\n" },
    { "first:3;x,third:1", "abc;xx\n" },
    { "", "\n" },
};

START_TEST(columns_of_names)
{
    struct word row = { "abcdef", "xy" };
    struct spur_error err = { 0 };
    struct columns c;
    struct str scratch, out;

    str_init(&scratch);
    str_init(&out);
    ck_assert_int_eq(columns_parse_names(names[_i].format, two, 3, &c, &err), 0);
    columns_row(&c, &row, &scratch, &out);
    ck_assert_str_eq(out.text, names[_i].row);
    columns_fini(&c);
    str_fini(&scratch);
    str_fini(&out);
}
END_TEST

START_TEST(columns_refuse_what_is_no_field)
{
    struct spur_error err = { 0 };
    struct columns c;

    ck_assert_int_eq(columns_parse("%-5a", two, 3, &c, &err), SPUR_EINVAL);
    ck_assert_str_eq(err.text, "Invalid job format specification: -");
    ck_assert_int_eq(columns_parse("%a %q", two, 3, &c, &err), SPUR_EINVAL);
    ck_assert_int_eq(columns_parse("%a %", two, 3, &c, &err), SPUR_EINVAL);
    ck_assert_int_eq(columns_parse_names("first,nosuch:3", two, 3, &c, &err), SPUR_EINVAL);
    ck_assert_str_eq(err.text, "Invalid job format specification: nosuch");
}
END_TEST

START_TEST(columns_cut_between_characters)
{
    struct word row = { "f\xc3\xbcr-\xe6\x97\xa5\xe6\x9c\xac-x", "bad\xff\xfe" };
    struct spur_error err = { 0 };
    struct columns c;
    struct str scratch, out;

    str_init(&scratch);
    str_init(&out);
    ck_assert_int_eq(columns_parse("%.5a|%.3a|%.8b|", two, 3, &c, &err), 0);
    columns_row(&c, &row, &scratch, &out);
    ck_assert_str_eq(out.text, "f\xc3\xbcr-\xe6\x97\xa5|f\xc3\xbcr|   bad\xff\xfe|\n");
    columns_fini(&c);
    str_fini(&scratch);
    str_fini(&out);
}
END_TEST

/* ---- rows in order -------------------------------------------------------------------------------------------------------------- */

/* id, array, task (-1: a set of waiting tasks), state, priority, partition, start */
static const struct { uint32_t id, array; int task; unsigned state; uint64_t priority; const char *partition; int64_t start; } queue[] = {
    { 1, 0, 0, JOB_RUNNING, 90, "main", 1000 }, { 2, 0, 0, JOB_PENDING, 0, "main", 0 }, { 3, 3, -1, JOB_PENDING, 0, "main", 0 }, { 4, 0, 0, JOB_PENDING, 80, "main", 0 },
    { 5, 0, 0, JOB_PENDING, 70, "all", 0 }, { 6, 6, 5, JOB_COMPLETE, 60, "main", 900 }, { 7, 6, 1, JOB_COMPLETE, 60, "main", 900 }, { 8, 0, 0, JOB_FAILED, 50, "main", 950 },
    { 9, 0, 0, JOB_CANCELLED, 95, "main", 0 } };
static const struct { const char *order, *ids; } orders[] = {
    { "P,t,-p", "5 9 6_1 6_5 8 4 3_[1-4] 2 1 " },
    { "i", "1 2 3_[1-4] 4 5 6_1 6_5 8 9 " },
    { "-i", "9 8 6_5 6_1 5 4 3_[1-4] 2 1 " },
    { "A", "1 2 3_[1-4] 4 5 6_5 6_1 8 9 " },
    { "S", "6_1 6_5 8 1 2 3_[1-4] 4 5 9 " },
    { "-S", "1 8 6_1 6_5 2 3_[1-4] 4 5 9 " },
    { "-t,+P,p", "1 5 3_[1-4] 2 4 8 6_1 6_5 9 " },
    { "u", "1 8 6_1 6_5 9 5 4 3_[1-4] 2 " },
};

START_TEST(rows_stand_in_order)
{
    struct spur_error err = { 0 };
    struct rows r;
    char shown[512] = "", *p = shown;
    FILE *f = tmpfile();
    size_t n;

    ck_assert_int_eq(rows_init(&r, orders[_i].order, false, &err), 0);
    for (size_t i = 0; i < sizeof queue / sizeof *queue; i++) {
        Wire__JobInfo j = WIRE__JOB_INFO__INIT;
        struct job_row row = { .job = &j };

        j.job_id = queue[i].id;
        j.array_job_id = queue[i].array;
        j.array_task_id = queue[i].task < 0 ? UINT32_MAX : (uint32_t)queue[i].task;
        j.array_tasks = queue[i].task < 0 ? (char *)"1-4" : NULL;
        j.state = queue[i].state;
        j.priority = queue[i].priority;
        j.partition = (char *)(uintptr_t)queue[i].partition;
        j.start_wall_s = queue[i].start;
        job_id_print(&j, NULL, &r.text);
        str_add_char(&r.text, ' ');
        rows_add_job(&r, &row);
    }
    rows_show(&r, f);
    rewind(f);
    n = fread(p, 1, sizeof shown - 1, f);
    shown[n] = '\0';
    ck_assert_str_eq(shown, orders[_i].ids);
    fclose(f);
    rows_fini(&r);
}
END_TEST

START_TEST(rows_refuse_an_unknown_order)
{
    struct spur_error err = { 0 };
    struct rows r;

    ck_assert_int_eq(rows_init(&r, "P,%", false, &err), SPUR_EINVAL);
    ck_assert_str_eq(err.text, "Invalid sort specification: %");
    rows_fini(&r);
    ck_assert_int_eq(rows_init(&r, "P,-", false, &err), SPUR_EINVAL);
    rows_fini(&r);
}
END_TEST

/* ---- ids ------------------------------------------------------------------------------------------------------------------------ */

static const struct { const char *tasks, *limit, *shown; } cuts[] = {
    { "0-9", NULL, "0-9" },
    { "1,3,5,7,9,11,13,15,17,19,21,24,26,28,30,32,34,36,38,40-41,43-44", NULL, "1,3,5,7,9,11,13,15,17,19,21,24,26,28,30,32,34,36,38,40-41,43-44" },
    { "1,3,5,7,9,11,13,15,17,19,21,24,26,28,30,32,34,36,38,40-41,43-44,46%7", NULL, "1,3,5,7,9,11,13,15,17,19,21,24,26,28,30,32,34,36,38,40-41,43...%7" },
    { "1,3,5,7,9,11,13,15,17", "20", "1,3,5,7,9,11,13,..." },
    { "1,3,5,7,9,11,13,15,17,19,21,24,26,28,30,32,34,36,38,40-41,43-44,46,48", "0", "1,3,5,7,9,11,13,15,17,19,21,24,26,28,30,32,34,36,38,40-41,43-44,46,48" },
};

START_TEST(long_task_lists_are_cut)
{
    struct str out;

    str_init(&out);
    if (cuts[_i].limit)
        setenv("SLURM_BITSTR_LEN", cuts[_i].limit, 1);
    else
        unsetenv("SLURM_BITSTR_LEN");
    job_tasks_print(cuts[_i].tasks, &out);
    ck_assert_str_eq(out.text, cuts[_i].shown);
    str_fini(&out);
}
END_TEST

static const struct { const char *asked, *waiting, *left; } narrows[] = {   /* left: NULL: all */
    { "3", "0-9", NULL }, { "3_4", "0-9", "4" }, { "3_[2-3,8]", "0-9", "2-3,8" }, { "3_1 3_7", "0-9", "1,7" }, { "3_7 3_1", "0-9", "1,7" }, { "3_[1-2] 3", "0-9", NULL },
    { "3 3_1", "0-9", NULL }, { "3_20", "0-9%2", "" }, { "4_1", "0-9", NULL }, { "3_4", "0-98:2%5", "4" }, { "3_[0-5]", "0-98:2", "0,2,4" },
};

START_TEST(tasks_asked_for)
{
    Wire__JobInfo j = WIRE__JOB_INFO__INIT;
    char asked[64], *cursor = asked, *word;
    struct taskset t;
    struct bitmap left;
    struct str out;

    snprintf(asked, sizeof asked, "%s", narrows[_i].asked);
    taskset_init(&t);
    while ((word = word_next(&cursor, " ")))
        ck_assert_int_eq(taskset_add(&t, word, NULL), 0);
    j.job_id = j.array_job_id = 3;
    j.array_tasks = (char *)(uintptr_t)narrows[_i].waiting;
    ck_assert_int_eq(taskset_narrows(&t, &j), narrows[_i].left != NULL);
    if (narrows[_i].left) {
        str_init(&out);
        taskset_tasks(&t, &j, &left);
        bitmap_print(&left, &out);
        ck_assert_str_eq(out.text, narrows[_i].left);
        bitmap_fini(&left);
        str_fini(&out);
    }
    ck_assert_int_lt(taskset_add(&t, "x", NULL), 0);
    ck_assert_int_lt(taskset_add(&t, "3_[", NULL), 0);
    taskset_fini(&t);
}
END_TEST

/* ---- lists ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(lists_keep_brackets_and_read_files)
{
    char path[] = "/tmp/test_queries.XXXXXX";
    struct spur_error err = { 0 };
    struct list l = { 0 };
    int fd = mkstemp(path);

    list_add(&l, "1, 12_[1,3],,5");
    ck_assert_uint_eq(l.count, 3);
    ck_assert_str_eq(l.words[1], "12_[1,3]");
    list_add(&l, "n[1");          /* an open bracket ends with the text */
    ck_assert_str_eq(l.words[3], "n[1");
    list_fini(&l);
    ck_assert_int_eq((int)write(fd, "7 8\n9,10_[1,2]\r\n", 16), 16);
    close(fd);
    ck_assert_int_eq(list_add_from(&l, path, &err), 0);
    unlink(path);
    ck_assert_uint_eq(l.count, 4);
    ck_assert_str_eq(l.words[3], "10_[1,2]");
    list_fini(&l);
    ck_assert_int_lt(list_add_from(&l, path, &err), 0);
    ck_assert_int_eq(list_add_hosts(&l, "n[1-3],x", &err), 0);
    ck_assert_uint_eq(l.count, 4);
    ck_assert_int_lt(list_add_hosts(&l, "n[3-1]", &err), 0);
    list_fini(&l);
}
END_TEST

START_TEST(clusters_are_this_one)
{
    struct spur_error err = { 0 };

    ck_assert_int_eq(cluster_is_own(NULL, "c1", &err), 0);
    ck_assert_int_eq(cluster_is_own("C1", "c1", &err), 0);
    ck_assert_int_eq(cluster_is_own("x,c1", "c1", &err), 0);
    ck_assert_int_eq(cluster_is_own("all", "c1", &err), 0);
    ck_assert_int_lt(cluster_is_own("c11", "c1", &err), 0);
    ck_assert_str_eq(err.text, "'c11' can't be reached now, or it is an invalid entry for --cluster. This cluster is c1");
}
END_TEST

/* ---- JSON and records --------------------------------------------------------------------------------------------------------------- */

static const struct { const char *text, *quoted; } quotes[] = {
    { "plain", "\"plain\"" }, { NULL, "\"\"" }, { "a\"b\\c", "\"a\\\"b\\\\c\"" }, { "t\tn\n\x7f", "\"t\\u0009n\\u000a\\u007f\"" }, { "\xc3\xbc", "\"\xc3\xbc\"" },
    { "bad\xff\xfe", "\"bad\xef\xbf\xbd\xef\xbf\xbd\"" }, { "\xe6\x97", "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, { "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
    { "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, { "\xf0\x9f\x98\x80!", "\"\xf0\x9f\x98\x80!\"" },
};

START_TEST(json_quotes)
{
    FILE *f = tmpfile();
    struct json_writer *w = json_begin_on(f, "test", "list");
    char got[4096] = "", want[128];

    json_text(w, NULL, quotes[_i].text);
    json_end(w);
    rewind(f);
    ck_assert(fread(got, 1, sizeof got - 1, f) > 0);
    snprintf(want, sizeof want, "{\n  \"list\": [\n    %s\n  ],", quotes[_i].quoted);
    ck_assert_msg(strncmp(got, want, strlen(want)) == 0, "%s", got);
    fclose(f);
}
END_TEST

START_TEST(json_numbers)
{
    FILE *f = tmpfile();
    struct json_writer *w = json_begin_on(f, "test", "list");
    char got[4096] = "";
    const char *want = "{\n  \"list\": [\n    {\n      \"a\": -9223372036854775808,\n      \"b\": 0,\n      \"c\": { \"set\": true, \"infinite\": false, \"number\": 7 },\n"
                       "      \"d\": { \"set\": false, \"infinite\": true, \"number\": 0 },\n      \"e\": true,\n      \"f\": []\n    }\n  ],";

    json_open(w, NULL, '{');
    json_number(w, "a", INT64_MIN);
    json_number(w, "b", 0);
    json_optional(w, "c", true, false, 7);
    json_optional(w, "d", true, true, 7);
    json_bool(w, "e", true);
    json_open(w, "f", '[');
    json_close(w);
    json_close(w);
    json_end(w);
    rewind(f);
    ck_assert(fread(got, 1, sizeof got - 1, f) > 0);
    ck_assert_msg(strncmp(got, want, strlen(want)) == 0, "%s", got);
    ck_assert(strcmp(got + strlen(got) - 3, "\n}\n") == 0);
    fclose(f);
}
END_TEST

START_TEST(records_of_one_line_or_many)
{
    struct record r = { .now_s = 100 };

    record_begin(&r);
    record_pair(&r, "A", "%d", 1);
    record_pair(&r, "B", "x y");
    record_line(&r);
    record_pair(&r, "C", "2");
    record_time(&r, "D", 0, "None");
    ck_assert_str_eq(r.text.text, "A=1 B=x y\n   C=2 D=None");
    str_fini(&r.text);
    r.one_line = true;
    record_begin(&r);
    record_pair(&r, "A", "1");
    record_line(&r);
    record_pair(&r, "C", "2");
    ck_assert_str_eq(r.text.text, "A=1 C=2");
    str_fini(&r.text);
}
END_TEST

START_TEST(records_of_a_job_show_what_it_holds)
{
    Wire__JobInfo j = WIRE__JOB_INFO__INIT;
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__NodeAlloc alloc[3] = { WIRE__NODE_ALLOC__INIT, WIRE__NODE_ALLOC__INIT, WIRE__NODE_ALLOC__INIT }, *allocs[3] = { &alloc[0], &alloc[1], &alloc[2] };
    Wire__GresAlloc gres = WIRE__GRES_ALLOC__INIT, *gres_list = &gres;
    struct record r = { .one_line = true, .now_s = 100 };
    uint64_t cores[3] = { 0x0f, 0x0f, 0x30 };

    j.job_id = 12;
    j.state = JOB_RUNNING;
    j.spec = &spec;
    spec.name = (char *)"j";
    j.has_time_limit_min = 1;
    j.time_limit_min = 90;
    j.gres_alloc = (char *)"gpu:t:2";
    gres.name = (char *)"gpu";
    gres.type = (char *)"t";
    gres.count = 1;
    gres.mask = 4;
    for (size_t i = 0; i < 3; i++) {
        alloc[i].name = (char *)(i == 0 ? "n1" : i == 1 ? "n2" : "n3");
        alloc[i].mem_mib = 100;
        alloc[i].cores = &cores[i];
        alloc[i].n_cores = 1;
    }
    alloc[2].gres = &gres_list;
    alloc[2].n_gres = 1;
    j.allocs = allocs;
    j.n_allocs = 3;
    record_begin(&r);
    record_job(&r, &j, true);
    ck_assert_ptr_nonnull(strstr(r.text.text, " JOB_GRES=gpu:t:2 Nodes=n[1-2] CPU_IDs=0-3 Mem=100 GRES= Nodes=n3 CPU_IDs=4-5 Mem=100 GRES=gpu:t:1(IDX:2) MinCPUsNode=1 "));
    ck_assert_ptr_nonnull(strstr(r.text.text, " TimeLimit=01:30:00 TimeMin=N/A "));
    ck_assert_ptr_nonnull(strstr(r.text.text, " ExitCode=0:0 DerivedExitCode=0:0 RunTime="));
    str_fini(&r.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queries");
    TCase *t = tcase_create("columns");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(t, columns_of_letters, 0, sizeof letters / sizeof *letters);
    tcase_add_loop_test(t, columns_of_names, 0, sizeof names / sizeof *names);
    tcase_add_test(t, columns_refuse_what_is_no_field);
    tcase_add_test(t, columns_cut_between_characters);
    suite_add_tcase(s, t);
    t = tcase_create("rows");
    tcase_add_loop_test(t, rows_stand_in_order, 0, sizeof orders / sizeof *orders);
    tcase_add_test(t, rows_refuse_an_unknown_order);
    tcase_add_loop_test(t, long_task_lists_are_cut, 0, sizeof cuts / sizeof *cuts);
    tcase_add_loop_test(t, tasks_asked_for, 0, sizeof narrows / sizeof *narrows);
    suite_add_tcase(s, t);
    t = tcase_create("lists");
    tcase_add_test(t, lists_keep_brackets_and_read_files);
    tcase_add_test(t, clusters_are_this_one);
    suite_add_tcase(s, t);
    t = tcase_create("records");
    tcase_add_loop_test(t, json_quotes, 0, sizeof quotes / sizeof *quotes);
    tcase_add_test(t, json_numbers);
    tcase_add_test(t, records_of_one_line_or_many);
    tcase_add_test(t, records_of_a_job_show_what_it_holds);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
