/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.c - the life of one step on one node; step_start.c and step_plugins.c are its beginning.
 *
 *     connect to srun (steps) -> SPANK plugins, if the node has any (spank.c) -> write the script (batch) -> fork the tasks -> wait -> report ENDED -> kill what is left -> report GONE -> acknowledged -> exit
 *
 * One thread, one poll(). Reports are kept until an agent has acknowledged them: the agent may be down for hours, a new one finds the
 * socket in the step's folder and gets them. The state file says the same for the case that this process is killed too.
 * Ending: SIGCONT and the signal, after the wait SIGKILL again and again, until no child is left; as a subreaper it inherits whatever left by
 * setsid or double fork, so "no child" means "no process of the step".
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/fault.h"
#include "agent/step_inside.h"
#include "base/clock.h"
#include "base/duration.h"
#include "rpc/folder.h"
#include "state/apply.h"

#define SWEEP_FIRST_MS 20
#define SWEEP_LAST_MS  1000
#define LOOK_MS        30000        /* without an agent: is the folder still there, so that one can find us? */
#define IO_LINGER_MS   300000       /* how long output may wait for a stopped srun after the step is gone */

static int rank_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

int status_worse(int a, int b) { return rank_of(b) > rank_of(a) ? b : a; }

/* ---- the state file ---- */

int supervisor_save(struct supervisor *s)
{
    Wire__StepState st = WIRE__STEP_STATE__INIT;
    uint32_t *pids = mem_array(s->count + 1, sizeof *pids);
    uint64_t *starts = mem_array(s->count + 1, sizeof *starts);
    struct spur_error err = { 0 };
    uint8_t *buf;
    size_t n;
    int rc;

    st.version = STEP_PROTOCOL;
    st.job_id = s->order->grant->job_id;
    st.step_id = s->order->grant->step_id;
    st.attempt = s->order->grant->attempt;
    st.uid = s->order->grant->uid;
    st.node = s->order->node;
    st.pid = (uint32_t)getpid();
    st.pid_start = process_start(getpid());
    st.boot_id = (char *)(uintptr_t)boot_id();
    for (uint32_t i = 0; i < s->count; i++)
        if (s->tasks[i].pid > 0) {
            pids[st.n_task_pids++] = (uint32_t)s->tasks[i].pid;
            starts[st.n_task_starts++] = s->tasks[i].start;
        }
    st.task_pids = pids;
    st.task_starts = starts;
    st.ended = s->ended;
    n = wire__step_state__get_packed_size(&st);
    buf = mem_alloc(n);
    wire__step_state__pack(&st, buf);
    /* not flushed: it has to outlive processes, not the machine, which would take the tasks with it */
    rc = fault(FAULT_STATE_FILE) ? spur_fail(&err, SPUR_EIO, "cannot write %s: %s", STEP_STATE, strerror(errno)) :
         folder_write(s->folder_fd, STEP_STATE, buf, n, 0600, false, &err);
    if (rc < 0)
        fprintf(stderr, "spurstepd: %s\n", err.text);
    free(buf);
    free(pids);
    free(starts);
    return rc;
}

/* ---- the agent ---- */

static void agent_lost(struct supervisor *s)
{
    link_close(&s->agent);
}

static void agent_send(struct supervisor *s, uint16_t type, uint64_t seq, const ProtobufCMessage *body)
{
    struct spur_error err = { 0 };

    if (s->agent.fd < 0)
        return;
    if (link_send(&s->agent, type, seq, body, &err) < 0 || link_flush(&s->agent, &err) < 0)
        agent_lost(s);
}

static void agent_greet(struct supervisor *s)
{
    Wire__StepHello hello = WIRE__STEP_HELLO__INIT;

    hello.version = STEP_PROTOCOL;
    hello.job_id = s->order->grant->job_id;
    hello.step_id = s->order->grant->step_id;
    hello.attempt = s->order->grant->attempt;
    hello.pid = (uint32_t)getpid();
    hello.has_stuck = hello.stuck = s->is_stuck;
    agent_send(s, WIRE__MESSAGE_TYPE__STEP_HELLO, 0, &hello.base);
    for (size_t i = 0; i < s->pending_count; i++)
        agent_send(s, WIRE__MESSAGE_TYPE__STEP_EVENT, s->pending[i]->seq, &s->pending[i]->base);
}

void supervisor_report(struct supervisor *s, Wire__Report__Kind kind, int status, const char *text)
{
    Wire__Report *r = mem_alloc(sizeof *r);

    wire__report__init(r);
    r->node = s->order->node;
    r->kind = kind;
    r->job_id = s->order->grant->job_id;
    r->has_step_id = true;
    r->step_id = s->order->grant->step_id;
    r->attempt = s->order->grant->attempt;
    r->seq = ++s->seq;
    r->has_wall_ms = true;
    r->wall_ms = clock_wall_ms();
    if (text && *text)
        r->text = mem_copy(text);
    if (kind == WIRE__REPORT__KIND__ENDED || kind == WIRE__REPORT__KIND__LAUNCH_FAILED) {
        r->has_status = true;
        r->status = status;
        r->has_node_fault = r->node_fault = s->is_node_fault;
        r->has_user_us = r->has_system_us = r->has_max_rss_kib = true;
        r->user_us = (uint64_t)s->used.ru_utime.tv_sec * 1000000u + (uint64_t)s->used.ru_utime.tv_usec;
        r->system_us = (uint64_t)s->used.ru_stime.tv_sec * 1000000u + (uint64_t)s->used.ru_stime.tv_usec;
        r->max_rss_kib = (uint64_t)s->used.ru_maxrss;
        if (kind == WIRE__REPORT__KIND__ENDED && s->oom_kills)
            r->has_oom = r->oom = true;
        if (kind == WIRE__REPORT__KIND__ENDED && s->timed_out)
            r->has_timed_out = r->timed_out = true;
        s->ended = r;
        supervisor_save(s);
        s->ended = NULL;
    }
    s->pending[s->pending_count++] = r;
    agent_send(s, WIRE__MESSAGE_TYPE__STEP_EVENT, r->seq, &r->base);
}

static void acknowledged(struct supervisor *s, uint64_t seq)
{
    for (size_t i = 0; i < s->pending_count; i++)
        if (s->pending[i]->seq == seq) {
            free(s->pending[i]->text);
            free(s->pending[i]);
            memmove(s->pending + i, s->pending + i + 1, (s->pending_count - i - 1) * sizeof *s->pending);
            s->pending_count--;
            return;
        }
}

/* ---- signals and the end ---- */

/* Into the error file of the first task that has one, else to srun. */
static void say_line(struct supervisor *s, const char *line)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->tasks[i].err_fd >= 0) {
            if (!task_say(s->tasks[i].err_fd, line, strlen(line)))
                s->tasks[i].err_fd = -1;
            return;
        }
    taskio_say(s->io, line);
}

/* The line that people look for: "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-30T12:00:00 DUE TO TIME LIMIT ***". Once, by the step's first node. */
static void say_cancelled(struct supervisor *s, const char *why)
{
    char when[32], line[400], step[32] = "";
    time_t now = time(NULL);
    struct tm tm;

    if (s->phase != PHASE_RUN || !s->running || s->is_ending || order_step_rank(s->order) != 0)
        return;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", localtime_r(&now, &tm));
    if (!order_is_batch(s->order))
        snprintf(step, sizeof step, ".%u", s->order->grant->step_id);
    snprintf(line, sizeof line, "slurmstepd: error: *** %s %u%s ON %s CANCELLED AT %s%s%.60s ***\n", *step ? "STEP" : "JOB", s->order->grant->job_id, step,
             s->order->node, when, why && *why ? " DUE TO " : "", why ? why : "");
    say_line(s, line);
}

static void say_oom(struct supervisor *s)
{
    char line[200], step[16];

    if (order_is_batch(s->order))
        snprintf(step, sizeof step, "batch");
    else
        snprintf(step, sizeof step, "%u", s->order->grant->step_id);
    snprintf(line, sizeof line, "slurmstepd: error: Detected %llu oom_kill event%s in StepId=%u.%s. Some of the step tasks have been OOM Killed.\n",
             (unsigned long long)s->oom_kills, s->oom_kills == 1 ? "" : "s", s->order->grant->job_id, step);
    say_line(s, line);
}

static void begin_ending(struct supervisor *s, int signal, int64_t wait_ms)
{
    int64_t at = clock_boot_ms() + wait_ms;

    if (s->is_ending && at >= s->kill_at_ms)
        return;                                     /* a second cancel may only hasten */
    s->kill_at_ms = at;
    if (!s->is_ending || signal == SIGKILL) {
        if (signal == SIGKILL)
            s->kill_at_ms = clock_boot_ms();
        else {
            container_freeze(false, NULL);
            container_signal(SIGCONT);
            container_signal(signal);
        }
    }
    s->is_ending = true;
    s->sweep_at_ms = s->kill_at_ms;
    s->sweep_ms = SWEEP_FIRST_MS;
    if (s->phase == PHASE_CONNECT || s->phase == PHASE_PLUGINS) {    /* nothing has started: nothing has to be waited for */
        s->kill_now = true;
    }
}

static void signal_tasks(struct supervisor *s, const Wire__Kill *k)
{
    int signal = (int)k->signal;

    if (k->has_freeze) {
        struct spur_error err = { 0 };

        if (s->phase == PHASE_RUN && container_freeze(k->freeze, &err) < 0)
            fprintf(stderr, "spurstepd: %s\n", err.text);
        return;
    }
    if (signal <= 0 || signal >= NSIG)
        return;
    if (k->until_empty) {
        say_cancelled(s, k->why);
        begin_ending(s, signal, (int64_t)(k->has_kill_wait_s ? k->kill_wait_s : s->order->kill_wait_s) * 1000);
        return;
    }
    if (signal == SIGKILL && k->has_step_id && !k->has_task && (s->phase == PHASE_CONNECT || s->phase == PHASE_PLUGINS)) {
        begin_ending(s, signal, 0);     /* scancel JOB.STEP, or srun that ends its step: nobody says it again */
        return;
    }
    if (s->phase != PHASE_RUN)
        return;
    if (k->has_task || (k->batch_only && !k->full)) {       /* one process: the shell of a batch step, or one task */
        uint32_t local = 0;

        while (k->has_task && local < s->count && order_task(s->order, local) != k->task)
            local++;

        if (local < s->count && s->tasks[local].running)
            kill(s->tasks[local].pid, signal);
        return;
    }
    if (signal == SIGKILL && k->has_step_id)
        say_cancelled(s, NULL);     /* scancel JOB.STEP */
    container_signal(signal);
}

static void signal_from_srun(void *arg, int signal)
{
    struct supervisor *s = arg;

    if (signal > 0 && signal < NSIG && s->phase == PHASE_RUN)
        container_signal(signal);
}

/* UnkillableStepTimeout: the agent is told, drains the node and runs UnkillableStepProgram. */
static void stuck_check(struct supervisor *s, int64_t now)
{
    const Wire__Contain *c = s->order->contain;

    if (s->is_stuck || !c || !c->has_unkillable_s || now < s->first_kill_ms + (int64_t)c->unkillable_s * 1000)
        return;
    s->is_stuck = true;
    agent_greet(s);
}

static void sweep(struct supervisor *s, int64_t now)
{
    if (now < s->sweep_at_ms)
        return;
    if (s->phase == PHASE_EMPTYING || (s->is_ending && now >= s->kill_at_ms && s->phase == PHASE_RUN)) {
        container_kill();
        if (!s->first_kill_ms)
            s->first_kill_ms = now;
        stuck_check(s, now);
        s->sweep_at_ms = now + s->sweep_ms;
        s->sweep_ms = s->sweep_ms * 2 > SWEEP_LAST_MS ? SWEEP_LAST_MS : s->sweep_ms * 2;
    }
}

static void read_word(struct supervisor *s, uint32_t local)
{
    struct task *t = &s->tasks[local];
    struct task_word w;
    int fd, got;

    while ((got = task_word_read(t->word_fd, &w, &fd)) > 0) {
        if (w.stage == TASK_STREAMS) {
            t->err_fd = fd;
        } else if (w.stage == TASK_FAILED) {
            t->fail_status = w.status;
            supervisor_start_failed(s, w.text, w.status);
            container_kill();
        } else if (!s->text[0]) {
            snprintf(s->text, sizeof s->text, "%s", w.text);
        }
    }
    if (got == 0)
        return;
    close(t->word_fd);
    t->word_fd = -1;
    s->words--;
    if (s->words == 0 && !s->failed && !s->started_said) {
        s->started_said = true;
        supervisor_report(s, WIRE__REPORT__KIND__STARTED, 0, NULL);
    }
}

/* ---- ends ---- */

static void add_usage(struct supervisor *s, const struct rusage *r)
{
    timeradd(&s->used.ru_utime, &r->ru_utime, &s->used.ru_utime);
    timeradd(&s->used.ru_stime, &r->ru_stime, &s->used.ru_stime);
    if (r->ru_maxrss > s->used.ru_maxrss)
        s->used.ru_maxrss = r->ru_maxrss;
}

/* True when no child is left. */
static bool reap(struct supervisor *s)
{
    struct rusage used;
    int status, of;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
        if (pid == spank_host_pid(s->plugins)) {    /* what plugins use is not the job's */
            supervisor_plugins_reaped(s, status);
            continue;
        }
        add_usage(s, &used);
        if ((of = task_epilog_reaped(&s->epilogs, pid)) >= 0)
            taskio_exited(s->io, (uint32_t)of, s->tasks[of].status);
        for (uint32_t i = 0; i < s->count; i++)
            if (s->tasks[i].running && s->tasks[i].pid == pid) {
                supervisor_task_ended(s, i, status);
                break;
            }
    }
    return pid < 0 && errno == ECHILD;
}

/* srun -t in a job: the step's own limit, which every supervisor keeps by itself. The job's is the controller's business. */
static void limit_take(struct supervisor *s)
{
    const Wire__StepSpec *step = s->order->launch->step;

    if (step && step->has_time_limit_min && step->time_limit_min != MINUTES_UNLIMITED)
        s->limit_at_ms = clock_boot_ms() + (int64_t)step->time_limit_min * 60000 + 1;
}

static void time_is_up(struct supervisor *s)
{
    s->limit_at_ms = 0;
    s->timed_out = true;
    say_cancelled(s, "TIME LIMIT");
    begin_ending(s, SIGTERM, (int64_t)s->order->kill_wait_s * 1000);
}

static void advance(struct supervisor *s, int64_t now)
{
    bool empty = reap(s);

    if (s->phase == PHASE_CONNECT) {
        if (s->kill_now) {
            supervisor_start_failed(s, "ended before it started", SIGKILL);
            s->phase = PHASE_RUN;
            taskio_hello(s->io, NULL, 0, s->text, s->fail_status);
        } else if (taskio_state(s->io) == TASKIO_LOST) {
            supervisor_start_failed(s, taskio_fault(s->io), 1 << 8);
            s->phase = PHASE_RUN;
        } else if (taskio_state(s->io) != TASKIO_CONNECTING && mpi_state(s->mpi) == MPI_FAILED) {
            supervisor_start_failed(s, mpi_fault(s->mpi), 1 << 8);
            s->phase = PHASE_RUN;
            taskio_hello(s->io, NULL, 0, s->text, s->fail_status);
        } else if (taskio_state(s->io) != TASKIO_CONNECTING && mpi_state(s->mpi) != MPI_STARTING) {
            supervisor_start_with_plugins(s);
            limit_take(s);
        }
        empty = reap(s);
    }
    if (s->phase == PHASE_PLUGINS && s->kill_now)
        supervisor_plugins_failed(s, "ended while SPANK plugins prepared it");
    if (s->phase == PHASE_RUN && s->limit_at_ms && now >= s->limit_at_ms && s->running)
        time_is_up(s);
    if (s->phase == PHASE_RUN && s->running == 0 && s->words == 0 && !s->epilogs.first && mpi_is_settled(s->mpi, now)) {
        if ((s->oom_kills = container_oom_kills()))
            say_oom(s);
        mpi_end(s->mpi);
        supervisor_plugins_say(s);
        spank_host_finish(s->plugins, now, s->kill_now);
        supervisor_report(s, WIRE__REPORT__KIND__ENDED, s->failed ? s->fail_status : s->status, s->text);
        s->phase = PHASE_EMPTYING;
        s->sweep_at_ms = now;
        s->sweep_ms = SWEEP_FIRST_MS;
    }
    if (now >= spank_host_deadline(s->plugins))
        spank_host_kill(s->plugins);
    if (s->phase == PHASE_EMPTYING) {
        empty = empty && container_is_empty();
        if (!empty) {
            sweep(s, now);
            if (s->plugins && !spank_host_pid(s->plugins))
                spank_host_orphans();       /* a box that only tasks enter does not have them */
            empty = reap(s) && container_is_empty();
        }
        if (empty) {
            container_release();
            s->phase = PHASE_GONE;
            s->exit_at_ms = now + IO_LINGER_MS;
            unlinkat(s->folder_fd, STEP_SCRIPT, 0);
            supervisor_report(s, WIRE__REPORT__KIND__GONE, 0, NULL);
        }
    }
    sweep(s, now);
}

/* ---- the mpi plugin's server ---- */

static void mpi_says(void *arg, const Wire__IoMpi *m)
{
    struct supervisor *s = arg;

    if (m->kind == WIRE__IO_MPI__KIND__ABORT && s->is_ending)
        return;                         /* what the end of a step does to MPI is no news */
    if (m->kind == WIRE__IO_MPI__KIND__ABORT && taskio_state(s->io) != TASKIO_OPEN)
        begin_ending(s, SIGTERM, (int64_t)s->order->kill_wait_s * 1000);
    else
        taskio_mpi(s->io, m);
}

static void mpi_is_told(void *arg, const Wire__IoMpi *m) { mpi_from_srun(((struct supervisor *)arg)->mpi, m); }

/* ---- the loop ---- */

static void agent_input(struct supervisor *s)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = link_read(&s->agent, 1u << 20, &err), got = 0;

    while (s->agent.fd >= 0 && (got = link_next(&s->agent, &f, &body, &err)) > 0) {
        if (f.type == WIRE__MESSAGE_TYPE__STEP_SIGNAL) {
            Wire__Kill *k = wire__kill__unpack(NULL, f.length, body);

            if (k)
                signal_tasks(s, k);
            wire__kill__free_unpacked(k, NULL);
        } else if (f.type == WIRE__MESSAGE_TYPE__STEP_DIAL) {
            Wire__Dial *d = wire__dial__unpack(NULL, f.length, body);

            if (d && d->grant)
                taskio_dial(s->io, d->grant);
            wire__dial__free_unpacked(d, NULL);
        } else if (f.type == WIRE__MESSAGE_TYPE__STEP_ACK) {
            Wire__ReportAck *a = wire__report_ack__unpack(NULL, f.length, body);

            if (a)
                acknowledged(s, a->seq);
            wire__report_ack__free_unpacked(a, NULL);
        }
    }
    if (s->agent.fd >= 0 && (rc < 0 || got < 0 || link_flush(&s->agent, &err) < 0))
        agent_lost(s);
}

static void agent_accept(struct supervisor *s)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || (peer.uid != 0 && peer.uid != geteuid())) {
        close(fd);
        return;
    }
    link_close(&s->agent);
    link_open(&s->agent, fd, channel_local());
    agent_greet(s);
}

static int open_all(struct supervisor *s, struct spur_error *err)
{
    sigset_t set;
    int rc;

    s->is_node_fault = true;                /* what fails in the spool is the node's, and nothing has run */
    s->folder_fd = fault(FAULT_FOLDER) ? -1 : open(s->order->folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (s->folder_fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot open %s: %s", s->order->folder, strerror(errno));
    if (fault(FAULT_LISTEN))
        return spur_fail(err, SPUR_EIO, "cannot listen on the socket %s: %s", STEP_SOCKET, strerror(errno));
    if ((s->listen_fd = folder_listen(s->folder_fd, STEP_SOCKET, err)) < 0)
        return s->listen_fd;
    s->is_node_fault = false;               /* a container may fail by what the site does with this job: its InitScript */
    if ((rc = container_own(s->order, err)) < 0)
        return rc;
    s->is_node_fault = true;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);         /* only SIGCHLD is taken; everything else may not end a supervisor */
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    s->signal_fd = fault(FAULT_SIGNALFD) ? -1 : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot make a signalfd: %s", strerror(errno));
    return 0;
}

static int timeout_of(struct supervisor *s, int64_t now)
{
    int64_t at = taskio_deadline(s->io), epilog_at = task_epilogs_sweep(&s->epilogs, now);

    at = epilog_at < at ? epilog_at : at;
    if (s->phase == PHASE_RUN && s->running == 0 && mpi_deadline(s->mpi) < at)
        at = mpi_deadline(s->mpi);
    if (s->phase == PHASE_EMPTYING || (s->is_ending && s->phase == PHASE_RUN))
        at = s->sweep_at_ms < at ? s->sweep_at_ms : at;
    if (s->phase == PHASE_RUN && s->limit_at_ms && s->limit_at_ms < at)
        at = s->limit_at_ms;
    if (spank_host_deadline(s->plugins) < at)
        at = spank_host_deadline(s->plugins);
    if (s->phase == PHASE_GONE && s->pending_count == 0 && s->exit_at_ms < at)
        at = s->exit_at_ms;
    if (s->phase == PHASE_GONE && s->agent.fd < 0 && now + LOOK_MS < at)
        at = now + LOOK_MS;
    if (at == INT64_MAX)
        return -1;
    return at <= now ? 0 : at - now > INT_MAX ? INT_MAX : (int)(at - now);
}

/* Somebody has emptied the spool: no agent will ever take the reports that wait. */
static bool is_forgotten(const struct supervisor *s)
{
    struct stat st;

    return s->phase == PHASE_GONE && s->agent.fd < 0 && fstat(s->folder_fd, &st) == 0 && st.st_nlink == 0;
}

static bool finished(struct supervisor *s, int64_t now)
{
    return s->phase == PHASE_GONE && (s->pending_count == 0 || is_forgotten(s)) && (taskio_done(s->io) || now >= s->exit_at_ms);
}

static void loop(struct supervisor *s)
{
    size_t room = 5 + TASKIO_POLL_ROOM(s->count) + s->count;
    struct pollfd *fds = mem_array(room, sizeof *fds);

    for (int64_t now = clock_boot_ms(); advance(s, now), !finished(s, now); now = clock_boot_ms()) {
        struct signalfd_siginfo info;
        size_t n = 4, io_n, word_n;

        fds[0] = (struct pollfd){ .fd = s->signal_fd, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = s->listen_fd, .events = POLLIN };
        fds[2] = (struct pollfd){ .fd = s->agent.fd, .events = (short)(POLLIN | (link_backlog(&s->agent) ? POLLOUT : 0)) };
        mpi_poll(s->mpi, &fds[3]);
        io_n = taskio_poll(s->io, fds + n);
        n += io_n;
        word_n = n;
        for (uint32_t i = 0; i < s->count; i++)
            fds[n++] = (struct pollfd){ .fd = s->tasks[i].word_fd, .events = POLLIN };
        fds[n++] = (struct pollfd){ .fd = spank_host_fd(s->plugins), .events = POLLIN };
        if (poll(fds, n, timeout_of(s, now)) < 0 && errno != EINTR)
            break;
        while (fds[0].revents && read(s->signal_fd, &info, sizeof info) > 0)
            ;
        if (fds[2].revents && s->agent.fd == fds[2].fd)
            agent_input(s);
        if (fds[1].revents)
            agent_accept(s);
        mpi_handle(s->mpi, &fds[3]);
        taskio_handle(s->io, fds + 4, io_n, clock_boot_ms());
        if (!s->mpi_lost && taskio_state(s->io) == TASKIO_LOST) {
            s->mpi_lost = true;
            mpi_lost(s->mpi, "srun has gone");
        }
        for (uint32_t i = 0; i < s->count; i++)
            if (fds[word_n + i].fd >= 0 && fds[word_n + i].revents && fds[word_n + i].fd == s->tasks[i].word_fd)
                read_word(s, i);
        if (fds[n - 1].fd >= 0 && fds[n - 1].revents)
            supervisor_plugins_news(s);
        else if (s->said.len)
            supervisor_plugins_say(s);
    }
    free(fds);
}

int supervisor_run(Wire__StepOrder *take_order, int agent_fd)
{
    struct supervisor s = { .order = take_order, .folder_fd = -1, .listen_fd = -1, .signal_fd = -1 };
    struct spur_error err = { 0 };
    int rc;

    s.agent.fd = -1;
    str_init(&s.said);
    if (agent_fd >= 0)
        link_open(&s.agent, agent_fd, channel_local());
    if ((rc = open_all(&s, &err)) < 0) {
        agent_greet(&s);
        supervisor_report(&s, WIRE__REPORT__KIND__LAUNCH_FAILED, 0, err.text);
        container_release();        /* it may be there already: nobody else would take it away */
        supervisor_report(&s, WIRE__REPORT__KIND__GONE, 0, NULL);
        return 1;
    }
    s.count = order_local_tasks(take_order);
    s.tasks = mem_array(s.count + 1, sizeof *s.tasks);
    for (uint32_t i = 0; i < s.count; i++)
        s.tasks[i].word_fd = s.tasks[i].err_fd = -1;
    if (supervisor_save(&s) < 0) {           /* the folder is gone: a new agent has not known of this step and says that it never ran */
        agent_greet(&s);
        supervisor_report(&s, WIRE__REPORT__KIND__LAUNCH_FAILED, 0, "the step's state file cannot be written");
        container_release();
        supervisor_report(&s, WIRE__REPORT__KIND__GONE, 0, NULL);
        return 1;
    }
    s.is_node_fault = false;
    agent_greet(&s);
    s.io = taskio_create(take_order, signal_from_srun, &s);
    s.mpi = mpi_create(take_order, s.folder_fd, mpi_says, &s);
    taskio_on_mpi(s.io, mpi_is_told, &s);
    loop(&s);
    mpi_destroy(s.mpi);
    taskio_destroy(s.io);
    link_close(&s.agent);
    spank_host_free(s.plugins);
    str_fini(&s.said);
    free(s.tasks);
    wire__step_order__free_unpacked(take_order, NULL);
    return 0;
}
