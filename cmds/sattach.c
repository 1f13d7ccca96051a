/* SPDX-License-Identifier: Apache-2.0 */
/* sattach.c - joins a step that runs: shows what its tasks print from now on, gives them input.
 *
 * The supervisors dial it as they do srun; srun notices nothing, and several can be attached at once. Tasks whose output goes to files of their own (%t and
 * the like, batch scripts) have nothing to show. A signal that ends sattach leaves the step alone.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/commands.h"
#include "cmds/common/dialled.h"
#include "cmds/common/options.h"
#include "cmds/common/terminal.h"
#include "cmds/srun.h"

#define ASK_MS    2000          /* between two questions whether the step still runs */
#define ANSWER_MS 60000         /* for a node to dial */

struct sattach {
    bool label, quiet, layout, pty, has_in, has_out, has_err;
    unsigned verbose;
    uint32_t in, out, err;
    struct client *client;
    struct arena arena;
    struct step_name step;
    struct step_io *io;
    uint32_t nodes;
    int64_t began_ms, asked_ms;
    int signal;
};

#define SA ((struct sattach *)request)
#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err

static int filter(const char *option, const char *value, bool *has, uint32_t *out, struct spur_error *err)
{
    *has = !word_eq(value, "all");
    return !*has || number_u32(value, out) ? 0 : spur_fail(err, SPUR_EINVAL, "--%s takes the number of a task or all, not \"%.40s\"", option, value);
}

TAKE(label) { UNUSED; SA->label = true; return 0; }
TAKE(layout) { UNUSED; SA->layout = true; return 0; }
TAKE(pty) { UNUSED; SA->pty = true; return 0; }
TAKE(quiet) { UNUSED; SA->quiet = true; return 0; }
TAKE(verbose) { UNUSED; SA->verbose++; return 0; }
TAKE(in) { (void)from; return filter("input-filter", value, &SA->has_in, &SA->in, err); }
TAKE(out) { (void)from; return filter("output-filter", value, &SA->has_out, &SA->out, err); }
TAKE(err) { (void)from; return filter("error-filter", value, &SA->has_err, &SA->err, err); }

static const struct option_row rows[] = {
    { "error-filter", 0, OPTION_VALUE, "TASK", NULL, take_err, "errors of this task alone" },
    { "input-filter", 0, OPTION_VALUE, "TASK", NULL, take_in, "input for this task alone" },
    { "label", 'l', OPTION_NONE, NULL, NULL, take_label, "number of the task in front of each line" },
    { "layout", 0, OPTION_NONE, NULL, NULL, take_layout, "show how many tasks run on which node, and go" },
    { "output-filter", 0, OPTION_VALUE, "TASK", NULL, take_out, "output of this task alone" },
    { "pty", 0, OPTION_NONE, NULL, NULL, take_pty, "for a step with --pty: this terminal raw, and its size for the task" },
    { "quiet", 'Q', OPTION_NONE, NULL, NULL, take_quiet, "nothing but errors" },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_verbose, "say who answers" },
};
static const struct option_table table = {
    .command = "sattach", .usage = "Usage: sattach [OPTIONS] JOB.STEP\nJoins a step that runs: its output from now on comes here, input goes to its tasks.\n",
    .rows = rows, .count = sizeof rows / sizeof *rows, .refused = "debugger-test", .refused_letters = "", .unknown_exit = 1,
};

static int error_exit(void)
{
    const char *text = getenv("SLURM_EXIT_ERROR");
    uint32_t n;

    return text && number_u32(text, &n) && n < 256 ? (int)n : 1;
}

static void layout_print(const Wire__DialReply *r)
{
    struct hostlist *h = NULL;

    if (hostlist_parse(r->nodes, &h, NULL) < 0)
        h = hostlist_create();
    printf("Job step layout:\n\t%u tasks, %zu nodes (%s)\n\n", r->ntasks, r->n_tasks, r->nodes);
    for (size_t i = 0; i < r->n_tasks && i < hostlist_count(h); i++)
        printf("\tNode %zu (%s), %u task(s)\n", i, hostlist_nth(h, i), r->tasks[i]);
    hostlist_destroy(h);
}

static void woke(void *arg, struct step_io *io)
{
    struct sattach *s = arg;
    uint32_t rows_now, columns;
    int number;

    while ((number = signals_take()))
        if (number == SIGWINCH && terminal_size(&rows_now, &columns))
            step_io_window(io, rows_now, columns);
        else if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
            s->signal = number;
}

static int tick(void *arg, struct step_io *io)
{
    struct sattach *s = arg;
    int64_t now = clock_mono_ms();
    uint32_t connected, ended;

    if (s->signal)
        return 2;
    step_io_progress(io, &connected, &ended);
    if (connected >= s->nodes || now - s->asked_ms < ASK_MS)
        return 0;
    s->asked_ms = now;
    if (!step_is_alive(s->client, &s->arena, &s->step))
        return 1;
    return now - s->began_ms > ANSWER_MS ? 3 : 0;
}

static void node_failed(void *arg, struct step_io *io, const char *node, const char *text, int status)
{
    (void)arg; (void)io; (void)status;
    fprintf(stderr, "sattach: error: %s: %s\n", node, text);
}

static int run(struct sattach *s, const char *name)
{
    struct step_io_plan plan = { .in_fd = 0, .out_fd = 1, .err_fd = 2, .label = s->label, .unbuffered = s->pty, .woke = woke, .tick = tick, .node_failed = node_failed, .arg = s,
                                 .one_out = s->has_out, .out_task = s->out, .one_err = s->has_err, .err_task = s->err,
                                 .input = s->has_in ? STEP_IO_INPUT_TASK : STEP_IO_INPUT_ALL, .input_task = s->in };
    struct step_io_result result = { 0 };
    struct spur_error err = { 0 };
    Wire__DialReply *reply;
    uint32_t lines, columns;
    int rc;

    if (client_open(NULL, &s->client, &err) < 0 || step_name_parse(s->client, &s->arena, name, &s->step, &err) < 0 || !(s->io = dialled_listen(s->client, &err)) ||
        (!s->step.has_step && spur_fail(&err, SPUR_EINVAL, "%s names no step: JOB.STEP", name)) ||
        dialled_ask(s->client, s->io, WIRE__DIAL_REQUEST__PURPOSE__SATTACH, &s->step, &s->arena, &reply, &err) < 0) {
        fprintf(stderr, "sattach: error: %s\n", err.text);
        return error_exit();
    }
    if (s->layout) {
        layout_print(reply);
        return 0;
    }
    if (s->pty && !reply->pty) {
        fprintf(stderr, "sattach: error: step %s has no terminal (srun --pty)\n", name);
        return error_exit();
    }
    if (reply->absent)
        fprintf(stderr, "sattach: error: %s cannot be reached now\n", reply->absent);
    plan.ntasks = reply->ntasks;
    plan.nodes = s->nodes = (uint32_t)reply->n_tasks;
    if (isatty(0) && tcgetpgrp(0) != getpgrp())
        plan.in_fd = -1;
    signals_start();
    plan.wake_fd = signals_fd();
    if (s->pty) {
        signals_add(SIGWINCH);
        plan.input = STEP_IO_INPUT_TASK;
        terminal_raw();
        if (terminal_size(&lines, &columns) && s->verbose)
            fprintf(stderr, "sattach: a terminal of %u lines and %u columns\n", lines, columns);
    }
    s->began_ms = s->asked_ms = clock_mono_ms();
    rc = step_io_run(s->io, &plan, &result, &err);
    terminal_restore();
    if (rc == 2)
        return 128 + s->signal;
    if (rc == 3)
        fprintf(stderr, "sattach: error: not all nodes of step %s have answered\n", name);
    else if (rc < 0)
        fprintf(stderr, "sattach: error: %s\n", err.text);
    return rc < 0 || rc == 3 ? error_exit() : result.exit_code;
}

int cmd_sattach(int argc, char **argv)
{
    struct sattach s = { 0 };
    int first, rc;

    arena_init(&s.arena, 0);
    if ((rc = options_environment(&table, &s)) == 0 && (rc = options_read(&table, argc, argv, &s, &first)) == 0) {
        if (argc - first != 1) {
            fprintf(stderr, "sattach: error: one step is needed: sattach JOB.STEP\n");
            rc = error_exit();
        } else {
            rc = run(&s, argv[first]);
        }
    }
    step_io_close(s.io);
    client_close(s.client);
    arena_fini(&s.arena);
    return rc == OPTIONS_DONE ? 0 : rc;
}
