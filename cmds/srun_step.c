/* SPDX-License-Identifier: Apache-2.0 */
/* srun_step.c - srun while its tasks run: signals, messages about tasks that end, --kill-on-bad-exit, --wait; see srun.h.
 *
 * Ctrl-C as Slurm has it: the first one says what runs, a second one within a second goes to the tasks, a third one ends the step. Other signals are
 * handed on. Tasks that end badly in the same moment share a line. Until all nodes have connected the controller is asked now and then
 * whether the step still lives, for a launch that failed connects nobody; afterwards the connections tell.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "base/clock.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/common/terminal.h"
#include "cmds/srun.h"
#include "state/job.h"
#include "state/layout.h"

#define ASK_MS 2000                 /* between two questions whether the step lives, while nodes are missing */
#define ASK_ALL_MS 10000            /* and when all have come: a machine without power closes no connection */

struct running {
    struct srun *s;
    struct hostlist *nodes;
    uint32_t *node_of;              /* a task: index of its node */
    int     *ended;                 /* wait() status of tasks whose end is not told yet; -1 elsewhere */
    bool     told_any, terminated, over;
    bool     aborted; int abort_code;       /* an MPI program wants the step ended; with this exit code, 0: the tasks' own */
    int64_t  first_end_ms, last_int_ms, last_sent_ms, asked_ms, over_ms;
};

static int pipe_fds[2] = { -1, -1 };

/* ---- signals ---------------------------------------------------------------------------------------------------------------------- */

static void signal_came(int number)
{
    unsigned char byte = (unsigned char)number;
    int saved = errno;

    if (write(pipe_fds[1], &byte, 1) < 0)
        byte = 0;                   /* full: so many are waiting already */
    errno = saved;
}

void signals_start(void)
{
    static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM };
    struct sigaction act = { .sa_handler = signal_came }, old;

    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        if (sigaction(caught[i], NULL, &old) == 0 && (old.sa_handler != SIG_IGN || caught[i] == SIGALRM))     /* nohup, and & of a script, are respected */
            sigaction(caught[i], &act, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void signals_add(int number)
{
    struct sigaction act = { .sa_handler = signal_came };

    sigemptyset(&act.sa_mask);
    sigaction(number, &act, NULL);
}

int signals_fd(void) { return pipe_fds[0]; }

int signals_take(void)
{
    unsigned char byte;

    return read(pipe_fds[0], &byte, 1) == 1 ? byte : 0;
}

int job_cancel(struct srun *s, bool step)
{
    Wire__CancelRequest c = WIRE__CANCEL_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint32_t job_id = s->het_job_id ? s->het_job_id : s->job_id;
    char *id = step ? arena_printf(&s->r.arena, "%u.%u", job_id, s->step_id) : arena_printf(&s->r.arena, "%u", s->job_id);
    uint8_t token[16];
    void *reply;
    int number;

    c.ids = &id;
    c.n_ids = 1;
    client_token(token, &c.token_wall_ms);
    c.has_token = c.has_token_wall_ms = true;
    c.token.data = token;
    c.token.len = sizeof token;
    if (client_call(s->client, WIRE__MESSAGE_TYPE__CANCEL, &c.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &s->r.arena, &reply, &number, &err) < 0)
        fprintf(stderr, "srun: error: cannot end %s %s: %s\n", step ? "step" : "job", id, err.text);
    return err.code;
}

static void terminate(struct running *run, struct step_io *io)
{
    if (run->terminated) {
        step_io_signal(io, SIGKILL);
        return;
    }
    run->terminated = true;
    job_cancel(run->s, true);
}

/* "tasks 0-3: running", grouped by what they do. */
static void status_print(struct running *run, const struct step_io *io)
{
    struct bitmap runs, starts, ended;
    struct { const char *what; struct bitmap *of; } rows[] = { { "unknown", &starts }, { "running", &runs }, { "exited", &ended } };
    struct str text;

    bitmap_init(&runs, run->s->ntasks);
    bitmap_init(&starts, run->s->ntasks);
    bitmap_init(&ended, run->s->ntasks);
    for (uint32_t t = 0; t < run->s->ntasks; t++) {
        int status = step_io_task(io, t);

        bitmap_set(status == -1 ? &runs : status == -2 ? &starts : &ended, t);
    }
    str_init(&text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (bitmap_empty(rows[i].of))
            continue;
        str_clear(&text);
        bitmap_print(rows[i].of, &text);
        fprintf(stderr, "srun: StepId=%u.%u task%s %s: %s\n", run->s->job_id, run->s->step_id, bitmap_count(rows[i].of) > 1 ? "s" : "", text.text, rows[i].what);
    }
    str_fini(&text);
    bitmap_fini(&runs);
    bitmap_fini(&starts);
    bitmap_fini(&ended);
}

static void interrupted(struct running *run, struct step_io *io)
{
    int64_t now = clock_mono_ms();

    if (run->s->r.quit_on_interrupt) {
        fprintf(stderr, "srun: forcing job termination\n");
        terminate(run, io);
    } else if (now - run->last_int_ms > 1000 && !run->s->r.disable_status) {
        fprintf(stderr, "srun: interrupt (one more within 1 sec to abort)\n");
        status_print(run, io);
        run->last_int_ms = now;
    } else if (now - run->last_sent_ms < 1000) {
        fprintf(stderr, "srun: forcing job termination\n");
        terminate(run, io);
    } else {
        fprintf(stderr, "srun: sending Ctrl-C to StepId=%u.%u\n", run->s->job_id, run->s->step_id);
        run->last_sent_ms = now;
        step_io_signal(io, SIGINT);
    }
}

static void resized(struct step_io *io)
{
    uint32_t rows, columns;

    if (terminal_size(&rows, &columns))
        step_io_window(io, rows, columns);
}

static void woke(void *arg, struct step_io *io)
{
    struct running *run = arg;
    int number;

    while ((number = signals_take()))
        if (number == SIGINT)
            interrupted(run, io);
        else if (number == SIGWINCH)
            resized(io);
        else if (number != SIGALRM)
            step_io_signal(io, number);
}

/* ---- tasks that end ------------------------------------------------------------------------------------------------------------------ */

static const char *node_of(const struct running *run, uint32_t task)
{
    return task < run->s->ntasks && run->node_of[task] < hostlist_count(run->nodes) ? hostlist_nth(run->nodes, run->node_of[task]) : "?";
}

static void status_text(int status, char *out, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(out, size, "%s%s", strsignal(WTERMSIG(status)), WCOREDUMP(status) ? " (core dumped)" : "");
    else
        snprintf(out, size, "Exited with exit code %d", WEXITSTATUS(status));
}

/* One line for all tasks that ended alike. */
static void ends_tell(struct running *run)
{
    uint32_t n = run->s->ntasks;
    struct bitmap tasks;
    struct str list, nodes;

    bitmap_init(&tasks, n);
    str_init(&list);
    str_init(&nodes);
    for (uint32_t t = 0; t < n; t++) {
        int status = run->ended[t];
        struct hostlist *h;
        char what[128];

        if (status < 0)
            continue;
        h = hostlist_create();
        bitmap_zero(&tasks);
        for (uint32_t k = t; k < n; k++)
            if (run->ended[k] == status) {
                bitmap_set(&tasks, k);
                hostlist_add(h, node_of(run, k));
                run->ended[k] = -1;
            }
        hostlist_uniq(h);
        str_clear(&list);
        str_clear(&nodes);
        hostlist_print(h, &nodes);
        bitmap_print(&tasks, &list);
        status_text(status, what, sizeof what);
        fprintf(stderr, "srun: error: %s: task%s %s: %s\n", nodes.text, bitmap_count(&tasks) > 1 ? "s" : "", list.text, what);
        hostlist_destroy(h);
    }
    run->told_any = false;
    str_fini(&list);
    str_fini(&nodes);
    bitmap_fini(&tasks);
}

static void task_ended(void *arg, struct step_io *io, uint32_t task, int status)
{
    struct running *run = arg;

    if (!run->first_end_ms)
        run->first_end_ms = clock_mono_ms();
    if (status == 0 || task >= run->s->ntasks)
        return;
    run->ended[task] = status;
    run->told_any = true;
    if (run->s->r.kill_on_bad_exit && !run->terminated) {
        ends_tell(run);
        fprintf(stderr, "srun: Terminating StepId=%u.%u\n", run->s->job_id, run->s->step_id);
        terminate(run, io);
    }
}

static void node_failed(void *arg, struct step_io *io, const char *node, const char *text, int status)
{
    (void)arg;
    (void)io;
    (void)status;
    fprintf(stderr, "srun: error: %s: %s\n", node, text);
}

static void aborted(void *arg, struct step_io *io, const char *node, const char *text, int exit_code)
{
    struct running *run = arg;

    if (run->aborted)                   /* every rank that finds its peers gone says so: the first one is the reason */
        return;
    run->aborted = true;
    run->abort_code = exit_code > 0 && exit_code < 256 ? exit_code : 0;
    ends_tell(run);
    fprintf(stderr, "srun: error: %s: %s\n", node, text);
    if (!run->terminated) {
        fprintf(stderr, "srun: Terminating StepId=%u.%u\n", run->s->job_id, run->s->step_id);
        terminate(run, io);
    }
}

struct step_seen { uint32_t step_id; bool runs; };
static int step_part(void *arg, void *part)
{
    struct step_seen *seen = arg;
    const Wire__StepsReply *r = part;

    for (size_t i = 0; i < r->n_steps; i++)
        if (r->steps[i]->step_id == seen->step_id && (!r->steps[i]->has_state || !job_state_is_end(r->steps[i]->state)))
            seen->runs = true;
    return !r->last;
}

static bool step_lives(struct srun *s)
{
    Wire__StepsRequest q = WIRE__STEPS_REQUEST__INIT;
    struct step_seen seen = { s->step_id, false };
    struct spur_error err = { 0 };
    int number;

    q.job_ids = s->het_job_id ? &s->het_job_id : &s->job_id;
    q.n_job_ids = 1;
    return client_stream(s->client, WIRE__MESSAGE_TYPE__STEPS, &q.base, WIRE__MESSAGE_TYPE__STEPS_PART, &wire__steps_reply__descriptor, step_part, &seen, &number, &err) < 0
           ? number == 0 : seen.runs;       /* a controller that is away says nothing about the step */
}

static int tick(void *arg, struct step_io *io)
{
    struct running *run = arg;
    struct srun *s = run->s;
    int64_t now = clock_mono_ms();
    uint32_t connected, ended;

    step_io_progress(io, &connected, &ended);
    if (run->told_any)
        ends_tell(run);
    if (s->r.has_wait_s && s->r.wait_s && run->first_end_ms && !run->terminated && ended < s->ntasks && now - run->first_end_ms >= (int64_t)s->r.wait_s * 1000) {
        fprintf(stderr, "srun: First task exited %us ago\n", s->r.wait_s);
        status_print(run, io);
        fprintf(stderr, "srun: Terminating StepId=%u.%u\n", s->job_id, s->step_id);
        terminate(run, io);
    }
    if (now - run->asked_ms >= (connected < s->nodes || run->over ? ASK_MS : ASK_ALL_MS)) {
        bool was_over = run->over;

        run->asked_ms = now;
        run->over = !step_lives(s);
        if (run->over && !was_over)
            run->over_ms = now;
        else if (run->over && connected < s->nodes)          /* twice: what was on its way has had its time */
            return 1;
        else if (run->over)
            step_io_give_up(io, now - run->over_ms, "the step is over, and nothing comes from this node any more");
    }
    return 0;
}

/* "2(x2),1", the nodes and the distribution: the node of each task. */
static void layout_read(struct running *run)
{
    size_t n = hostlist_count(run->nodes), i = 0;
    const char *at = run->s->tasks_per_node ? run->s->tasks_per_node : "";
    uint32_t *tasks_of = mem_array(n + 1, sizeof *tasks_of), *ids, *named = NULL, total = 0;
    struct layout_how how;
    const char **names;
    uint32_t whole = (uint32_t)n;
    const uint32_t *part_nodes = run->s->part_count ? run->s->part_nodes : &whole;
    size_t parts = run->s->part_count ? run->s->part_count : 1;

    while (i < n) {
        uint64_t tasks = 1, times = 1;

        if (!number_at(&at, &tasks))
            tasks = 1;
        if (at[0] == '(' && at[1] == 'x') {
            at += 2;
            if (!number_at(&at, &times))
                times = 1;
            at += *at == ')';
        }
        at += *at == ',';
        for (; times-- && i < n; i++) {
            tasks_of[i] = (uint32_t)tasks;
            total += (uint32_t)tasks;
        }
    }
    run->node_of = mem_array((size_t)run->s->ntasks + 1, sizeof *run->node_of);
    ids = mem_array((size_t)total + 1, sizeof *ids);
    names = mem_array(n + 1, sizeof *names);
    for (i = 0; i < n; i++)
        names[i] = hostlist_nth(run->nodes, i);
    for (size_t part = 0, row = 0, first = 0; part < parts && row < n; part++) {     /* each component deals its own tasks */
        const struct request *r = part ? &run->s->more[part - 1] : &run->s->r;
        uint32_t count = part_nodes[part] < n - row ? part_nodes[part] : (uint32_t)(n - row), of_part = 0;

        if (layout_parse(r->step.distribution, &how, NULL) < 0)
            memset(&how, 0, sizeof how);
        if (how.nodes == DEAL_ARBITRARY) {
            named = mem_array((size_t)total + 1, sizeof *named);
            if (!layout_named(r->step.task_nodes, names, count, total, named))
                how.nodes = DEAL_BLOCK;
        }
        layout_ids(&how, tasks_of + row, count, named, ids);
        for (uint32_t node = 0; node < count; node++)
            for (uint32_t t = 0; t < tasks_of[row + node]; t++, of_part++)
                if (first + ids[of_part] < run->s->ntasks)
                    run->node_of[first + ids[of_part]] = (uint32_t)row + node;
        free(named);
        named = NULL;
        row += count;
        first += of_part;
    }
    free(tasks_of);
    free(names);
    free(ids);
}

int step_run(struct srun *s)
{
    struct running run = { .s = s };
    struct step_io_plan plan = { .ntasks = s->ntasks, .nodes = s->nodes, .in_fd = s->in_fd, .out_fd = s->out_fd, .err_fd = s->err_fd, .input = s->input,
                                 .input_task = s->input_task, .label = s->r.label, .unbuffered = s->r.unbuffered || s->r.pty,
                                 .one_out = s->one_out, .out_task = s->out_task, .one_err = s->one_err, .err_task = s->err_task,
                                 .wake_fd = signals_fd(), .woke = woke, .tick = tick, .task_ended = task_ended,
                                 .node_failed = node_failed, .aborted = aborted, .arg = &run };
    struct step_io_result result = { 0 };
    struct spur_error err = { 0 };
    int rc;

    if (hostlist_parse(s->node_list, &run.nodes, &err) < 0)
        run.nodes = hostlist_create();
    layout_read(&run);
    run.ended = mem_array(s->ntasks + 1, sizeof *run.ended);
    for (uint32_t t = 0; t < s->ntasks; t++)
        run.ended[t] = -1;
    run.asked_ms = clock_mono_ms();
    if (s->r.pty) {
        signals_add(SIGWINCH);
        terminal_raw();
    }
    rc = step_io_run(s->io, &plan, &result, &err);
    terminal_restore();
    ends_tell(&run);
    s->wait_status = result.status;
    if (rc < 0) {
        fprintf(stderr, "srun: error: StepId=%u.%u: %s\n", s->job_id, s->step_id, err.text);
        result.exit_code = result.exit_code ? result.exit_code : 1;
    } else if (rc > 0) {
        fprintf(stderr, "srun: error: StepId=%u.%u ended before all of its nodes had started\n", s->job_id, s->step_id);
        result.exit_code = result.exit_code ? result.exit_code : 1;
    } else if (result.lost) {
        fprintf(stderr, "srun: error: StepId=%u.%u: %u task%s went away without a status\n", s->job_id, s->step_id, result.lost, result.lost > 1 ? "s" : "");
        result.exit_code = result.exit_code ? result.exit_code : 1;
    }
    if (run.abort_code) {               /* the signal that ended the others says less than the program did */
        result.exit_code = run.abort_code;
        s->wait_status = run.abort_code << 8;
    }
    if (result.exit_code && !s->wait_status)
        s->wait_status = result.exit_code << 8;
    free(run.node_of);
    free(run.ended);
    hostlist_destroy(run.nodes);
    return result.exit_code;
}
