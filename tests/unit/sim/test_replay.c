/* SPDX-License-Identifier: Apache-2.0 */
/* test_replay.c - loads, types of nodes and whole replays: what is read, what is refused, that the same options give the same schedule. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/replay.h"

static char *file_with(const char *text)
{
    char *path = mem_copy("/tmp/spur-replay-XXXXXX");
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

START_TEST(traces)
{
    static const struct { const char *text, *refusal; uint32_t count; } table[] = {
        { "0 1 2\n", NULL, 1 }, { "# head\n\n5.5 10 1 # tail\n 0\t7 8\r\n", NULL, 2 }, { "", ": no jobs in it", 0 }, { "1 2\n", ":1: a line is SUBMIT_S DURATION_S GPUS", 0 },
        { "1 2 3 4\n", ":1: a line is SUBMIT_S DURATION_S GPUS", 0 }, { "0 1 1\n-1 2 1\n", ":2: \"-1\" is no number of seconds", 0 }, { "0 x 1\n", ":1: \"x\" is no number of seconds", 0 },
        { "0 1 0\n", ":1: \"0\" is no number of GPUs", 0 }, { "0 1 1.5\n", ":1: \"1.5\" is no number of GPUs", 0 }, { "0 1e300 1\n", ":1: \"1e300\" is no number of seconds", 0 } };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char *path = file_with(table[i].text);
        struct spur_error err = { 0 };
        struct load load;
        int rc = load_read(path, &load, &err);

        ck_assert_msg((rc == 0) == !table[i].refusal, "%s: %s", table[i].text, err.text);
        if (table[i].refusal)
            ck_assert_msg(strstr(err.text, table[i].refusal) != NULL, "%s, not %s", err.text, table[i].refusal);
        else
            ck_assert_uint_eq(load.count, table[i].count);
        if (rc == 0 && load.count == 2) {           /* by time of submit */
            ck_assert_int_eq(load.jobs[0].submit_ms, 0);
            ck_assert_int_eq(load.jobs[1].submit_ms, 5500);
        }
        load_fini(&load);
        unlink(path);
        free(path);
    }
}
END_TEST

START_TEST(the_best_of_a_node)
{
    struct spur_error err = { 0 };
    struct machine m;

    ck_assert_msg(machine_read(TOPOLOGIES "/mi250x_frontier.json", &m, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(m.gpus, 8);
    ck_assert_uint_eq(m.best_mbps[1], 0);
    ck_assert_uint_eq(m.best_mbps[2], 200000);
    ck_assert_uint_eq(m.best_mbps[4], 500000);
    ck_assert_uint_eq(m.best_mbps[8], machine_sum(&m, 0xff));
    ck_assert_uint_eq(machine_sum(&m, 0x3), 200000);
    machine_fini(&m);
    ck_assert_int_lt(machine_read("/nonexistent/x.json", &m, &err), 0);
    machine_fini(&m);
}
END_TEST

static void row(void *arg, const struct replay_job *j)
{
    str_addf(arg, "%u %lld %lld %lld %u %.4f %s\n", j->job_id, (long long)j->submit_ms, (long long)j->start_ms, (long long)j->end_ms, j->leaves, j->share, j->where);
}

START_TEST(the_same_again)
{
    struct load_synthetic draw = { .seed = 5, .jobs = 150, .gpus = 64, .share = 1.1, .median_s = 600, .sigma = 1.2, .mix = LOAD_MIX };
    struct replay_options o = { .nodes = 8, .leaf = 4, .limit_factor = 1.5 };
    struct spur_error err = { 0 };
    struct str out[2];
    struct machine m;

    ck_assert_int_eq(machine_read(TOPOLOGIES "/mi250x_frontier.json", &m, &err), 0);
    o.machine = &m;
    for (int i = 0; i < 2; i++) {
        struct replay_summary sum;
        struct load load;

        str_init(&out[i]);
        ck_assert_int_eq(load_make(&draw, &load, &err), 0);
        o.load = &load;
        ck_assert_msg(replay_run(&o, row, &out[i], &sum, &err) == 0, "%s", err.text);
        ck_assert_uint_eq(sum.jobs, 150);
        ck_assert_uint_eq(sum.started + sum.refused, 150);
        ck_assert_uint_eq(sum.waiting, 0);
        ck_assert(sum.bandwidth_ratio > 0.8 && sum.bandwidth_ratio <= 1);
        ck_assert(sum.utilisation > 0 && sum.utilisation <= 1);
        load_fini(&load);
    }
    ck_assert_str_eq(out[0].text, out[1].text);
    str_fini(&out[0]);
    str_fini(&out[1]);
    machine_fini(&m);
}
END_TEST

START_TEST(bad_options)
{
    struct replay_setting settings[] = { { "SelectType", "select/nothing" } };
    struct load_job job = { .duration_ms = 1000, .gpus = 1 };
    struct load load = { &job, 1 };
    struct replay_options o = { .nodes = 2, .leaf = 1, .limit_factor = 1, .load = &load, .settings = settings, .setting_count = 1 };
    struct load_synthetic draw = { .seed = 1, .jobs = 1, .gpus = 1, .share = 1, .median_s = 1, .mix = "1:x" };
    struct spur_error err = { 0 };
    struct replay_summary sum;
    struct machine m;
    struct load none;

    ck_assert_int_eq(machine_read(TOPOLOGIES "/mi300x.json", &m, &err), 0);
    o.machine = &m;
    ck_assert_int_lt(replay_run(&o, NULL, NULL, &sum, &err), 0);
    ck_assert_msg(strstr(err.text, "nothing") != NULL, "%s", err.text);
    ck_assert_int_lt(load_make(&draw, &none, &err), 0);
    ck_assert_msg(strstr(err.text, "1:x") != NULL, "%s", err.text);
    load_fini(&none);
    machine_fini(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("replay");
    TCase *t = tcase_create("replay");
    SRunner *r;
    int failed;

    tcase_add_test(t, traces);
    tcase_add_test(t, the_best_of_a_node);
    tcase_add_test(t, the_same_again);
    tcase_add_test(t, bad_options);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
