/* SPDX-License-Identifier: Apache-2.0 */
/* test_step.c - steps with input and output: the supervisor on one side, srun's step_io on the other, the encrypted channel between them. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "client/stepio.h"
#include "controller.h"
#include "test_agent.h"

struct srun { pid_t pid; struct step_io *io; char out[300], err[300]; int in_fd; };

static struct step_io_plan plain = { .nodes = 1, .in_fd = -1, .wake_fd = -1 };

/* A child process that is srun: its output goes to a file, its exit code is the step's. */
static void srun_start(struct ctl *c, struct srun *s, struct launch *x, const struct step_io_plan *how, uint32_t ntasks)
{
    struct spur_error err = { 0 };
    int pair[2];

    s->io = step_io_listen("test", 0, 0, &err);
    ck_assert_ptr_nonnull(s->io);
    ck_assert_ptr_nonnull(strstr(step_io_host(s->io), "127.0.0.1"));
    snprintf(s->out, sizeof s->out, "%s/srun.out", c->dir);
    snprintf(s->err, sizeof s->err, "%s/srun.err", c->dir);
    ck_assert_int_eq(pipe(pair), 0);
    s->in_fd = pair[1];
    x->c.has_io_key = x->c.has_io_port = 1;
    x->c.io_key.data = (uint8_t *)(uintptr_t)step_io_key(s->io);
    x->c.io_key.len = 32;
    x->c.io_host = (char *)(uintptr_t)step_io_host(s->io);
    x->c.io_port = step_io_port(s->io);
    s->pid = fork();
    if (s->pid == 0) {
        struct step_io_plan p = *how;
        struct step_io_result r;

        close(pair[1]);
        p.ntasks = ntasks;
        p.in_fd = pair[0];
        p.out_fd = open(s->out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        p.err_fd = open(s->err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (step_io_run(s->io, &p, &r, &err) < 0)
            _exit(200);
        _exit(r.lost ? 201 : r.exit_code);
    }
    close(pair[0]);
}

static bool srun_is_over(struct ctl *c, const void *arg)
{
    const struct srun *s = arg;
    siginfo_t info = { 0 };

    (void)c;
    return waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == s->pid;
}

static int srun_end(struct ctl *c, struct srun *s)
{
    int status;

    if (!ctl_until(c, srun_is_over, s)) {
        char log[300], *text;

        snprintf(log, sizeof log, "%s/agent.log", c->dir);
        text = file_text(log);
        fprintf(stderr, "%s", text);
        kill(s->pid, SIGKILL);
    }
    waitpid(s->pid, &status, 0);
    step_io_close(s->io);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void begin(struct ctl *c)
{
    ctl_start(c, "n1");
    ctl_agent(c, "-N", "n1", NULL);
    ctl_wait_registered(c, 1);
}

static void shell(struct ctl *c, struct launch *x, uint32_t job_id, char *argv[4], const char *line, uint32_t ntasks)
{
    launch_init(c, x, job_id, "");
    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = (char *)(uintptr_t)line;
    argv[3] = NULL;
    launch_as_step(x, 0, argv, ntasks);
}

START_TEST(tasks_get_input_and_give_output)
{
    struct step_io_plan how = plain;
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[4], *text;
    const Wire__Report *r;

    begin(&c);
    how.label = true;
    shell(&c, &x, 60, argv, "read x; echo \"$x $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME, $SLURM_STEP_ID\"; echo e >&2; exit $SLURM_PROCID", 3);
    srun_start(&c, &s, &x, &how, 3);
    launch_send(&c, &x);
    ck_assert_int_eq(write(s.in_fd, "hello\n", 6), 6);
    close(s.in_fd);
    ck_assert_int_eq(srun_end(&c, &s), 2);
    text = file_text(s.out);
    ck_assert_ptr_nonnull(strstr(text, "0: hello 0 of 3 on n1, 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "1: hello 1 of 3 on n1, 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "2: hello 2 of 3 on n1, 0\n"));
    free(text);
    text = file_text(s.err);
    ck_assert_uint_eq(strlen(text), 15);
    free(text);
    r = ctl_report(&c, 60, WIRE__REPORT__KIND__ENDED);
    ck_assert_int_eq(r->status, 2 << 8);
    ctl_stop(&c);
}
END_TEST

START_TEST(much_output_comes_whole)
{
    struct step_io_plan how = plain;
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[4];
    struct stat st;

    begin(&c);
    shell(&c, &x, 61, argv, "yes 0123456789 | head -c 3300000; echo tail >&2", 4);
    srun_start(&c, &s, &x, &how, 4);
    close(s.in_fd);
    launch_send(&c, &x);
    ck_assert_int_eq(srun_end(&c, &s), 0);
    ck_assert_int_eq(stat(s.out, &st), 0);
    ck_assert_int_eq(st.st_size, 4 * 3300000);
    ck_assert_int_eq(stat(s.err, &st), 0);
    ck_assert_int_eq(st.st_size, 20);
    ctl_stop(&c);
}
END_TEST

START_TEST(much_input_comes_whole_to_each_task)
{
    struct step_io_plan how = plain;
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[4], *text, *buf = mem_alloc(100000);
    pid_t feeder;

    begin(&c);
    memset(buf, 'x', 100000);
    shell(&c, &x, 62, argv, "[ $SLURM_PROCID = 1 ] && sleep 0.3; wc -c", 2);
    srun_start(&c, &s, &x, &how, 2);
    launch_send(&c, &x);
    feeder = fork();
    if (feeder == 0) {
        for (int i = 0; i < 20; i++)
            if (write(s.in_fd, buf, 100000) != 100000)
                _exit(1);
        _exit(0);
    }
    close(s.in_fd);
    ck_assert_int_eq(srun_end(&c, &s), 0);
    waitpid(feeder, NULL, 0);
    text = file_text(s.out);
    ck_assert_str_eq(text, "2000000\n2000000\n");
    free(text);
    free(buf);
    ctl_stop(&c);
}
END_TEST

START_TEST(input_may_be_for_one_task)
{
    struct step_io_plan how = plain;
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[4], *text;

    begin(&c);
    how.input = STEP_IO_INPUT_TASK;
    how.input_task = 1;
    how.label = true;
    shell(&c, &x, 63, argv, "cat", 2);
    x.step.input_mode = "1";
    srun_start(&c, &s, &x, &how, 2);
    launch_send(&c, &x);
    ck_assert_int_eq(write(s.in_fd, "a\nb", 3), 3);
    close(s.in_fd);
    ck_assert_int_eq(srun_end(&c, &s), 0);
    text = file_text(s.out);
    ck_assert_str_eq(text, "1: a\n1: b\n");
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_missing_program_ends_with_127)
{
    struct step_io_plan how = plain;
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[] = { "no-such-program-anywhere", NULL }, *text;

    begin(&c);
    launch_init(&c, &x, 64, "");
    launch_as_step(&x, 0, argv, 1);
    srun_start(&c, &s, &x, &how, 1);
    close(s.in_fd);
    launch_send(&c, &x);
    ck_assert_int_eq(srun_end(&c, &s), 127);
    text = file_text(s.err);
    ck_assert_ptr_nonnull(strstr(text, "no-such-program-anywhere: No such file or directory"));
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_kill_ends_tasks_and_srun)
{
    struct step_io_plan how = plain;
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[4];

    begin(&c);
    shell(&c, &x, 65, argv, "exec sleep 60", 2);
    srun_start(&c, &s, &x, &how, 2);
    launch_send(&c, &x);
    ctl_report(&c, 65, WIRE__REPORT__KIND__STARTED);
    ctl_kill(&c, 65, SIGTERM, 1, true);
    ck_assert_int_eq(srun_end(&c, &s), 128 + SIGTERM);
    close(s.in_fd);
    ctl_report(&c, 65, WIRE__REPORT__KIND__GONE);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_step_ends_at_its_own_limit)
{
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[4], *text;
    const Wire__Report *r;

    begin(&c);
    shell(&c, &x, 73, argv, "echo on; exec sleep 1000", 1);
    x.step.has_time_limit_min = 1;          /* none of a minute: at once */
    srun_start(&c, &s, &x, &plain, 1);
    close(s.in_fd);
    launch_send(&c, &x);
    ck_assert_int_eq(srun_end(&c, &s), 128 + SIGTERM);
    text = file_text(s.err);
    ck_assert_ptr_nonnull(strstr(text, "*** STEP 73.0 ON n1 CANCELLED AT "));
    ck_assert_ptr_nonnull(strstr(text, "DUE TO TIME LIMIT ***"));
    free(text);
    r = ctl_report(&c, 73, WIRE__REPORT__KIND__ENDED);
    ck_assert_int_eq(r->status, SIGTERM);
    ck_assert(r->timed_out && !r->oom);
    ctl_stop(&c);
}
END_TEST

START_TEST(output_may_go_to_files_on_the_node)
{
    struct step_io_plan how = plain;
    struct ctl c;
    struct srun s;
    struct launch x;
    char *argv[4], pattern[300], path[300], *text;

    begin(&c);
    shell(&c, &x, 66, argv, "echo $SLURM_LOCALID; echo here >&2; exit 0", 2);
    x.step.std_err = "";                    /* not with the output */
    snprintf(pattern, sizeof pattern, "%s/o.%%j.%%t", c.dir);
    x.step.std_out = pattern;
    srun_start(&c, &s, &x, &how, 2);
    close(s.in_fd);
    launch_send(&c, &x);
    ck_assert_int_eq(srun_end(&c, &s), 0);
    snprintf(path, sizeof path, "%s/o.66.1", c.dir);
    text = file_text(path);
    ck_assert_str_eq(text, "1\n");
    free(text);
    text = file_text(s.err);
    ck_assert_str_eq(text, "here\nhere\n");
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(an_unreachable_srun_fails_the_step_in_words)
{
    struct ctl c;
    struct launch x;
    char *argv[4];
    const Wire__Report *r;
    uint8_t key[32] = { 1 };

    begin(&c);
    shell(&c, &x, 67, argv, "true", 1);
    x.c.has_io_key = x.c.has_io_port = 1;
    x.c.io_key.data = key;
    x.c.io_key.len = 32;
    x.c.io_host = "127.0.0.1";
    x.c.io_port = 1;
    launch_send(&c, &x);
    r = ctl_report(&c, 67, WIRE__REPORT__KIND__ENDED);
    ck_assert_int_ne(r->status, 0);
    ck_assert_ptr_nonnull(strstr(r->text, "srun"));
    ctl_stop(&c);
}
END_TEST

TCase *case_step(void)
{
    TCase *t = tcase_create("step");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, tasks_get_input_and_give_output);
    tcase_add_test(t, much_output_comes_whole);
    tcase_add_test(t, much_input_comes_whole_to_each_task);
    tcase_add_test(t, input_may_be_for_one_task);
    tcase_add_test(t, a_missing_program_ends_with_127);
    tcase_add_test(t, a_kill_ends_tasks_and_srun);
    tcase_add_test(t, output_may_go_to_files_on_the_node);
    tcase_add_test(t, a_step_ends_at_its_own_limit);
    tcase_add_test(t, an_unreachable_srun_fails_the_step_in_words);
    return t;
}
