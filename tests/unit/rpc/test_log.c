/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines of the log: their form, their levels, what strangers put into them, and the file that moves away. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/log.h"
#include "test_rpc.h"

static char path[64], text[32768];

static void setup(void)
{
    int fd;

    strcpy(path, "/tmp/spur-log-XXXXXX");
    ck_assert_int_ge(fd = mkstemp(path), 0);
    close(fd);
}

static void teardown(void)
{
    log_close();
    unlink(path);
}

static const char *slurp(const char *file)
{
    FILE *f = fopen(file, "r");
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

START_TEST(form_and_levels)
{
    int y, mo, d, h, mi, s, ms, n = 0;

    ck_assert_int_eq(log_open(path, SPUR_LOG_INFO, NULL), 0);
    log_line(SPUR_LOG_INFO, "job %d starts", 7);
    ck_assert_int_eq(sscanf(slurp(path), "[%d-%d-%dT%d:%d:%d.%3d] job 7 starts\n%n", &y, &mo, &d, &h, &mi, &s, &ms, &n), 7);
    ck_assert_int_eq(n, (int)strlen(text));
    log_line(SPUR_LOG_ERROR, "bad");
    log_line(SPUR_LOG_WARN, "so so");
    log_line(SPUR_LOG_DEBUG, "details");
    slurp(path);
    ck_assert_ptr_nonnull(strstr(text, "] error: bad\n"));
    ck_assert_ptr_nonnull(strstr(text, "] warning: so so\n"));
    ck_assert_ptr_null(strstr(text, "details"));
    ck_assert(!log_is_on(SPUR_LOG_DEBUG));
    log_level(SPUR_LOG_DEBUG);
    log_line(SPUR_LOG_DEBUG, "details");
    ck_assert_ptr_nonnull(strstr(slurp(path), "] debug: details\n"));
}
END_TEST

START_TEST(levels_of_slurm)
{
    static const int expected[] = { SPUR_LOG_ERROR, SPUR_LOG_ERROR, SPUR_LOG_ERROR, SPUR_LOG_INFO, SPUR_LOG_INFO, SPUR_LOG_DEBUG, SPUR_LOG_DEBUG };

    for (unsigned debug = 0; debug < sizeof expected / sizeof *expected; debug++)
        ck_assert_int_eq(log_level_of(debug), expected[debug]);
    ck_assert_int_eq(log_level_of(9), SPUR_LOG_DEBUG);
}
END_TEST

START_TEST(one_line_whatever_is_in_it)
{
    char longer[20000];
    int lines = 0;

    ck_assert_int_eq(log_open(path, SPUR_LOG_INFO, NULL), 0);
    log_line(SPUR_LOG_INFO, "name %s", "a\nb\r\033[2J\x07%s%n\xff\xc3\xa4");
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    log_line(SPUR_LOG_INFO, "%s", longer);
    slurp(path);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    ck_assert_int_eq(lines, 2);
    ck_assert_ptr_null(strchr(text, '\033'));
    ck_assert_ptr_null(strchr(text, '\r'));
    ck_assert_ptr_nonnull(strstr(text, "name a?b??[2J?%s%n?\xc3\xa4\n"));
    ck_assert_uint_lt(strlen(text), 9000);
}
END_TEST

START_TEST(a_file_that_moves)
{
    struct spur_error err;
    char old[80];

    ck_assert_int_eq(log_open(path, SPUR_LOG_INFO, NULL), 0);
    log_line(SPUR_LOG_INFO, "one");
    snprintf(old, sizeof old, "%s.1", path);
    rename(path, old);
    log_line(SPUR_LOG_INFO, "two");
    ck_assert_int_eq(log_reopen(), 0);
    log_line(SPUR_LOG_INFO, "three");
    ck_assert_ptr_nonnull(strstr(slurp(old), "two"));
    ck_assert_ptr_null(strstr(text, "three"));
    ck_assert_ptr_nonnull(strstr(slurp(path), "three"));
    unlink(old);
    ck_assert_int_eq(log_open("/no/such/folder/log", SPUR_LOG_INFO, &err), SPUR_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/no/such/folder/log"));
    log_line(SPUR_LOG_INFO, "four");        /* and the old one stays */
    ck_assert_ptr_nonnull(strstr(slurp(path), "four"));
}
END_TEST

START_TEST(full_disk)
{
    ck_assert_int_eq(log_open("/dev/full", SPUR_LOG_INFO, NULL), 0);
    log_line(SPUR_LOG_INFO, "lost");
    log_line(SPUR_LOG_INFO, "lost too");
    ck_assert_int_eq(log_open(path, SPUR_LOG_INFO, NULL), 0);
    log_line(SPUR_LOG_INFO, "again");
    ck_assert_ptr_nonnull(strstr(slurp(path), "2 lines could not be written"));
    ck_assert_ptr_nonnull(strstr(text, "again"));
}
END_TEST

Suite *suite_log(void)
{
    Suite *s = suite_create("log");
    TCase *t = tcase_create("log");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, form_and_levels);
    tcase_add_test(t, levels_of_slurm);
    tcase_add_test(t, one_line_whatever_is_in_it);
    tcase_add_test(t, a_file_that_moves);
    tcase_add_test(t, full_disk);
    suite_add_tcase(s, t);
    return s;
}
