/* SPDX-License-Identifier: Apache-2.0 */
/* test_libslurm.c - the parts of the compatibility library that need no cluster: host lists held against those of framework/base, errors,
 * what a description begins with, what is refused before anybody is asked. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "base/hostlist.h"

static const char *const lists[] = { "", "n1", "n[1-3]", "n[01-12],login", "b,a,b,n[3,1-2]", "r[1-2]c[1-4]-ib", "x00[1-2],x1", "n9,n10,n09", "a.b[1-2].c,a.b3.c" };

START_TEST(host_list_is_that_of_base)
{
    struct hostlist *base;
    struct str text;
    hostlist_t h = slurm_hostlist_create(lists[_i]);
    char buf[4096], *s;

    ck_assert_int_eq(hostlist_parse(lists[_i], &base, NULL), 0);
    ck_assert_int_eq(slurm_hostlist_count(h), (int)hostlist_count(base));
    for (size_t i = 0; i < hostlist_count(base); i++)
        ck_assert_int_eq(slurm_hostlist_find(h, hostlist_nth(base, i)), (int)hostlist_find(base, hostlist_nth(base, i)));
    str_init(&text);
    hostlist_print(base, &text);
    ck_assert_int_eq(slurm_hostlist_ranged_string(h, sizeof buf, buf), (int)text.len);
    ck_assert_str_eq(buf, text.text);
    ck_assert_int_eq(slurm_hostlist_ranged_string(h, text.len + 1, buf), (int)text.len);
    ck_assert_int_eq(slurm_hostlist_ranged_string(h, text.len, buf), -1);
    for (size_t i = 0; i < hostlist_count(base); i++) {
        ck_assert_int_eq(slurm_hostlist_count(h), (int)(hostlist_count(base) - i));
        s = slurm_hostlist_shift(h);
        ck_assert_str_eq(s, hostlist_nth(base, i));
        free(s);
    }
    ck_assert_ptr_null(slurm_hostlist_shift(h));
    ck_assert_int_eq(slurm_hostlist_push(h, lists[_i]), (int)hostlist_count(base));
    slurm_hostlist_uniq(h);
    hostlist_uniq(base);
    str_clear(&text);
    hostlist_print(base, &text);
    s = slurm_hostlist_ranged_string_xmalloc(h);
    ck_assert_str_eq(s, text.text);
    slurm_xfree((void **)&s);
    ck_assert_ptr_null(s);
    slurm_hostlist_destroy(h);
    hostlist_destroy(base);
    str_fini(&text);
}
END_TEST

/* Taking heads off and everything else, mixed. */
START_TEST(shift_and_the_rest)
{
    hostlist_t h = slurm_hostlist_create("a,b,a,c");
    char *s;

    free(slurm_hostlist_shift(h));
    ck_assert_int_eq(slurm_hostlist_find(h, "a"), 1);
    free(slurm_hostlist_shift(h));
    ck_assert_int_eq(slurm_hostlist_push_host(h, "d[1-2]"), 1);
    s = slurm_hostlist_ranged_string_malloc(h);
    ck_assert_str_eq(s, "a,c,d[1-2]");
    free(s);
    ck_assert_int_eq(slurm_hostlist_count(h), 3);
    ck_assert_int_eq(slurm_hostlist_push(h, "x[2-1]"), 0);
    ck_assert_int_eq(slurm_hostlist_count(h), 3);
    slurm_hostlist_destroy(h);
}
END_TEST

START_TEST(null_is_taken)
{
    char buf[8];

    ck_assert_int_eq(slurm_hostlist_count(NULL), -1);
    ck_assert_int_eq(slurm_hostlist_find(NULL, "a"), -1);
    ck_assert_int_eq(slurm_hostlist_push(NULL, "a"), 0);
    ck_assert_int_eq(slurm_hostlist_push_host(NULL, "a"), 0);
    ck_assert_ptr_null(slurm_hostlist_shift(NULL));
    ck_assert_int_eq(slurm_hostlist_ranged_string(NULL, sizeof buf, buf), -1);
    ck_assert_ptr_null(slurm_hostlist_ranged_string_malloc(NULL));
    slurm_hostlist_uniq(NULL);
    slurm_hostlist_destroy(NULL);
    slurm_free_job_info_msg(NULL);
    slurm_free_node_info_msg(NULL);
    slurm_free_partition_info_msg(NULL);
    slurm_free_submit_response_response_msg(NULL);
    slurm_populate_node_partitions(NULL, NULL);
    slurm_xfree(NULL);
    ck_assert_int_eq(slurm_load_jobs(0, NULL, 0), SLURM_ERROR);
    ck_assert_int_eq(slurm_get_errno(), EINVAL);
    ck_assert_int_eq(slurm_kill_job2(NULL, 9, 0, NULL), SLURM_ERROR);
}
END_TEST

START_TEST(errors_have_words)
{
    static const struct { int number; const char *text; } rows[] = {
        { 0, "No error" }, { -1, "Unspecified error" }, { ESLURM_INVALID_JOB_ID, "Invalid job id specified" }, { SLURM_UNEXPECTED_MSG_ERROR, "Unexpected message received" },
        { ESLURM_INVALID_WCKEY, "Invalid wckey" }, { ESLURM_CONTAINER_NOT_CONFIGURED, "Container not configured" }, { 999999, "Unknown error 999999" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_str_eq(slurm_strerror(rows[i].number), rows[i].text);
    for (int number = -5; number < 11000; number++)
        ck_assert_uint_gt(strlen(slurm_strerror(number)), 2);
    ck_assert_str_eq(slurm_strerror(EPERM), strerror(EPERM));
}
END_TEST

START_TEST(a_description_asks_for_nothing)
{
    job_desc_msg_t d;

    memset(&d, 0xa5, sizeof d);
    slurm_init_job_desc_msg(&d);
    ck_assert_uint_eq(d.user_id, NO_VAL);
    ck_assert_uint_eq(d.min_nodes, NO_VAL);
    ck_assert_uint_eq(d.shared, NO_VAL16);
    ck_assert_uint_eq(d.overcommit, NO_VAL8);
    ck_assert(d.pn_min_memory == NO_VAL64);
    ck_assert_uint_eq(d.nice, NO_VAL);
    ck_assert_uint_eq(d.immediate, 0);
    ck_assert_ptr_null(d.script);
    ck_assert_ptr_null(d.environment);
}
END_TEST

/* A cluster that is there only as a file. */
static void conf_make(char *path)
{
    static const char text[] = "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\n";
    int fd;

    strcpy(path, "/tmp/test_libslurm.XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, sizeof text - 1), (int)sizeof text - 1);
    close(fd);
}

static char *vars[] = { (char *)"A=b", NULL };

START_TEST(refused_before_asking)
{
    submit_response_msg_t *r = NULL;
    char path[64];
    job_desc_msg_t d;

#define REFUSED(number, ...) do { \
        slurm_init_job_desc_msg(&d); \
        d.script = (char *)"#!/bin/sh\n"; \
        d.environment = vars; \
        d.env_size = 1; \
        __VA_ARGS__; \
        ck_assert_int_eq(slurm_submit_batch_job(&d, &r), SLURM_ERROR); \
        ck_assert_int_eq(slurm_get_errno(), number); \
        ck_assert_ptr_null(r); \
    } while (0)
    conf_make(path);
    ck_assert_int_eq(slurm_conf_init(path), 0);
    REFUSED(ESLURM_JOB_SCRIPT_MISSING, d.script = NULL);
    REFUSED(ESLURM_ENVIRONMENT_MISSING, d.environment = NULL);
    REFUSED(ESLURM_USER_ID_MISSING, d.user_id = geteuid() + 1);
    REFUSED(ESLURM_GROUP_ID_MISSING, d.group_id = getegid() + 1);
    REFUSED(ESLURM_INVALID_CLUSTER_NAME, d.clusters = (char *)"another");
    REFUSED(ESLURM_INVALID_CPU_COUNT, d.num_tasks = 2; d.min_cpus = 3);
    REFUSED(ESLURM_INVALID_CPU_COUNT, d.num_tasks = 4; d.max_cpus = 3);
    REFUSED(ESLURM_INVALID_TRES, d.cpus_per_tres = (char *)"gres:shard:2");
    REFUSED(ESLURM_INVALID_TRES, d.mem_per_tres = (char *)"gres:gpu:many");
    REFUSED(ESLURM_BAD_DIST, d.task_dist = SLURM_DIST_PLANE);
    REFUSED(EINVAL, d.open_mode = 7);
    REFUSED(ESLURM_NOT_SUPPORTED, d.shared = 9);
    REFUSED(ESLURM_NOT_SUPPORTED, d.cpu_bind = (char *)"cores");
    REFUSED(ESLURM_NOT_SUPPORTED, d.x11 = 1);
    REFUSED(ESLURM_NOT_SUPPORTED, d.mail_type = MAIL_JOB_END);
    REFUSED(ESLURM_NOT_SUPPORTED, d.bitflags = SLURM_BIT(40));
    REFUSED(ESLURM_NOT_SUPPORTED, d.spank_job_env_size = 1);
    unlink(path);
    slurm_fini();
}
END_TEST

START_TEST(no_configuration)
{
    ck_assert_int_eq(slurm_conf_init("/nowhere/slurm.conf"), SLURM_ERROR);
    ck_assert_int_eq(slurm_get_errno(), ENOENT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("libslurm");
    TCase *t = tcase_create("libslurm");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_loop_test(t, host_list_is_that_of_base, 0, sizeof lists / sizeof *lists);
    tcase_add_test(t, shift_and_the_rest);
    tcase_add_test(t, null_is_taken);
    tcase_add_test(t, errors_have_words);
    tcase_add_test(t, a_description_asks_for_nothing);
    tcase_add_test(t, refused_before_asking);
    tcase_add_test(t, no_configuration);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
