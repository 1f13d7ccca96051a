/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.c - the life of one step on one node.
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
#include <pwd.h>
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

#include "agent/binding.h"
#include "agent/container.h"
#include "agent/cpus.h"
#include "agent/environment.h"
#include "agent/mpi.h"
#include "agent/pty.h"
#include "agent/spank.h"
#include "agent/supervisor.h"
#include "agent/task.h"
#include "agent/taskhooks.h"
#include "agent/taskio.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/str.h"
#include "client/link.h"
#include "rpc/folder.h"
#include "state/apply.h"
#include "state/programs.h"

#define SWEEP_FIRST_MS 20
#define SWEEP_LAST_MS  1000
#define SAID_MAX       65536        /* bytes of lines that plugins say before anybody reads them */
#define LOOK_MS        30000        /* without an agent: is the folder still there, so that one can find us? */
#define IO_LINGER_MS   300000       /* how long output may wait for a stopped srun after the step is gone */

enum phase { PHASE_CONNECT, PHASE_PLUGINS, PHASE_RUN, PHASE_EMPTYING, PHASE_GONE };

struct task {
    pid_t pid; uint64_t start;
    int   fail_status;                  /* it could not start: as it said before its end; 0: it could, or has said nothing */
    int   word_fd, err_fd, status;      /* err_fd: its error file, opened by itself; -1: none */
    bool  running;
};

struct supervisor {
    Wire__StepOrder *order;
    enum phase phase;
    int    folder_fd, listen_fd, signal_fd;
    struct link agent;
    struct taskio *io;
    struct task_epilogs epilogs;
    struct mpi *mpi; bool mpi_lost;     /* it knows that srun has gone */
    struct task *tasks; uint32_t count, running, words;
    bool   started_said, is_ending, kill_now, is_stuck;
    int    ending_signal;
    int64_t kill_at_ms, sweep_at_ms, sweep_ms, exit_at_ms, first_kill_ms;      /* first_kill_ms: of SIGKILL to all; 0: none yet */
    uint64_t oom_kills;
    int64_t limit_at_ms;                /* of the step itself; 0: none */
    bool   timed_out;
    int    status;
    bool   failed; int fail_status;     /* a task could not start: `text` says why; the others were killed for it */
    char   text[sizeof ((struct spur_error *)0)->text];
    struct rusage used;
    Wire__Report *pending[4]; size_t pending_count;
    uint64_t seq;
    Wire__Report *ended;                /* for the state file; owned by pending */
    uint8_t *ended_bytes; size_t ended_len;
    struct spank_host *plugins;         /* SPANK plugins of the step; NULL: none, or not any more */
    struct str said;                    /* what they have said to the user before anybody listened */
    struct start *start;                /* in the plugins' own process only */
};

static int rank_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

int status_worse(int a, int b) { return rank_of(b) > rank_of(a) ? b : a; }

/* ---- the state file ---- */

static int save_state(struct supervisor *s)
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
    if ((rc = folder_write(s->folder_fd, STEP_STATE, buf, n, 0600, false, &err)) < 0)
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

static void report(struct supervisor *s, Wire__Report__Kind kind, int status, const char *text)
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
        r->has_user_us = r->has_system_us = r->has_max_rss_kib = true;
        r->user_us = (uint64_t)s->used.ru_utime.tv_sec * 1000000u + (uint64_t)s->used.ru_utime.tv_usec;
        r->system_us = (uint64_t)s->used.ru_stime.tv_sec * 1000000u + (uint64_t)s->used.ru_stime.tv_usec;
        r->max_rss_kib = (uint64_t)s->used.ru_maxrss;
        if (kind == WIRE__REPORT__KIND__ENDED && s->oom_kills)
            r->has_oom = r->oom = true;
        if (kind == WIRE__REPORT__KIND__ENDED && s->timed_out)
            r->has_timed_out = r->timed_out = true;
        s->ended = r;
        save_state(s);
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
            if (write(s->tasks[i].err_fd, line, strlen(line)) < 0)
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

/* ---- starting ---- */

static int write_script(struct supervisor *s, struct spur_error *err)
{
    const Wire__Launch *l = s->order->launch;
    const Wire__Credential *c = s->order->grant;
    int fd, rc = 0;

    unlinkat(s->folder_fd, STEP_SCRIPT, 0);
    fd = openat(s->folder_fd, STEP_SCRIPT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot make the script in %s: %s", s->order->folder, strerror(errno));
    if (geteuid() == 0 && fchown(fd, c->uid, c->gid) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot give the script in %s to user %u: %s", s->order->folder, c->uid, strerror(errno));
    for (size_t at = 0; rc == 0 && at < l->script.len; ) {
        ssize_t n = write(fd, l->script.data + at, l->script.len - at);

        if (n < 0 && errno != EINTR)
            rc = spur_fail(err, errno == ENOSPC ? SPUR_ENOSPACE : SPUR_EIO, "cannot write the script in %s: %s", s->order->folder, strerror(errno));
        else if (n > 0)
            at += (size_t)n;
    }
    if (rc == 0 && fchmod(fd, 0700) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot make the script in %s executable: %s", s->order->folder, strerror(errno));
    if (close(fd) < 0 && rc == 0)
        rc = spur_fail(err, SPUR_EIO, "cannot write the script in %s: %s", s->order->folder, strerror(errno));
    return rc;
}

/* A pattern of -o, -e, -i as this task's path; NULL when there is none. */
static char *path_of(const struct supervisor *s, const char *pattern, const char *work_dir, const char *user, uint32_t local)
{
    const Wire__StepOrder *o = s->order;
    const Wire__JobInfo *job = o->launch->job;
    const Wire__JobSpec *spec = o->launch->spec ? o->launch->spec : job ? job->spec : NULL;
    struct path_ids ids = { .job_id = o->grant->job_id, .step_id = o->grant->step_id, .has_step = !order_is_batch(o), .user = user, .node = o->node };
    char host[256];
    struct str out;

    if (!pattern || !*pattern)
        return NULL;
    if (job && job->has_array_task_id && job->array_job_id) {
        ids.array_job_id = job->array_job_id;
        ids.array_task_id = job->array_task_id;
    } else {
        ids.array_job_id = 0;
        ids.array_task_id = UINT32_MAX;
    }
    snprintf(host, sizeof host, "%s", o->node);
    host[strcspn(host, ".")] = '\0';
    ids.short_host = host;
    ids.job_name = spec ? spec->name : NULL;
    ids.has_node = ids.has_task = true;
    ids.node_rank = order_step_rank(o);
    ids.task = order_task(o, local);
    str_init(&out);
    path_expand(pattern, work_dir, &ids, &out);
    return str_take(&out);
}

static const char *or_else(const char *a, const char *b) { return a && *a ? a : b; }

struct start {          /* what all tasks of the node share */
    struct environment env;
    struct binding binding;
    struct cpus cpus;
    struct spur_error unbound;          /* why tasks cannot be bound as srun asked; code 0: they can */
    gid_t *groups;
    const char *work_dir, *user;
    char *script;
    char **argv;
    char *gtids;
};

static void start_init(struct supervisor *s, struct start *st)
{
    const Wire__StepOrder *o = s->order;
    const Wire__Launch *l = o->launch;
    const Wire__JobSpec *spec = l->spec ? l->spec : l->job ? l->job->spec : NULL;
    size_t n_argv = order_is_batch(o) ? (spec ? spec->n_argv : 0) : l->step->n_argv, n = 0;
    char **from = order_is_batch(o) ? (spec ? spec->argv : NULL) : l->step->argv;
    struct str text;

    environment_init(&st->env);
    environment_carry(&st->env, l->env.data, l->env.len);
    environment_login(&st->env, o->grant->uid, o->grant->user);
    environment_job(&st->env, o);
    cpus_init(&st->cpus, o, &st->unbound);
    binding_init(&st->binding, o, &st->cpus);       /* devices near to the CPUs of each task */
    st->user = or_else(o->grant->user, environment_get(&st->env, "USER"));
    st->groups = mem_array(o->grant->n_groups + 1, sizeof *st->groups);
    for (size_t i = 0; i < o->grant->n_groups; i++)
        st->groups[i] = o->grant->groups[i];
    st->work_dir = !order_is_batch(o) && l->step->work_dir ? l->step->work_dir : spec && spec->work_dir ? spec->work_dir : "/tmp";
    str_init(&text);
    str_addf(&text, "%s/%s", o->folder, STEP_SCRIPT);
    st->script = str_take(&text);
    st->argv = mem_array(n_argv + 2, sizeof *st->argv);
    if (order_is_batch(o))
        st->argv[n++] = st->script;
    for (size_t i = 0; i < n_argv; i++)
        st->argv[n++] = from[i];
    str_init(&text);
    for (uint32_t i = 0; i < s->count; i++)
        str_addf(&text, "%s%u", i ? "," : "", order_task(o, i));
    st->gtids = str_take(&text);
}

static void start_fini(struct start *st)
{
    environment_fini(&st->env);
    binding_fini(&st->binding);
    cpus_fini(&st->cpus);
    free(st->groups);
    free(st->script);
    free(st->argv);
    free(st->gtids);
}

/* Does this task get srun's input? */
static bool takes_input(const Wire__StepOrder *o, uint32_t global)
{
    const char *mode = o->launch->step->input_mode;
    uint32_t only;

    if (!mode || !*mode || word_eq(mode, "all"))
        return true;
    return number_u32(mode, &only) && only == global;
}

static int make_pipe(int *mine, int *theirs, bool i_read, struct spur_error *err)
{
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) < 0)
        return spur_fail(err, SPUR_EIO, "cannot make a pipe: %s", strerror(errno));
    *mine = fd[i_read ? 0 : 1];
    *theirs = fd[i_read ? 1 : 0];
    return 0;
}

/* --multi-prog: the task's line of the file, then the words of the command line. */
static int task_program(const Wire__StepSpec *step, uint32_t task, struct arena *a, char *const **out, struct spur_error *err)
{
    char **own, **argv;
    size_t n;
    int rc = programs_task(step->n_argv ? step->argv[0] : "", task, a, &own, &n, err);

    if (rc < 0)
        return rc;
    argv = arena_alloc(a, (n + step->n_argv + 1) * sizeof *argv);
    memcpy(argv, own, n * sizeof *argv);
    for (size_t i = 1; i < step->n_argv; i++)
        argv[n++] = step->argv[i];
    *out = argv;
    return 0;
}

/* umask and limits of who submitted; --propagate, where it was given, against the site's PropagateResourceLimits. */
static void plan_limits(struct task_plan *p, const Wire__StepOrder *o)
{
    const Wire__JobSpec *spec = o->launch->spec ? o->launch->spec : o->launch->job ? o->launch->job->spec : NULL;
    const Wire__StepSpec *step = o->launch->step;
    bool of_step = step && step->n_rlimits, asked = of_step || !spec ? step && step->propagate_set : spec->propagate_set;

    p->umask = (mode_t)(step && step->has_umask ? step->umask : spec && spec->has_umask ? spec->umask : 022);
    p->rlimits = of_step ? step->rlimits : spec ? spec->rlimits : NULL;
    p->rlimit_count = of_step ? step->n_rlimits : spec ? spec->n_rlimits : 0;
    p->limits_kept = asked || !o->has_limits_kept ? UINT64_MAX : o->limits_kept;
}

/* Forks a task. Touches nothing of the supervisor's: with SPANK plugins it runs in their process, and the supervisor takes the parts from there. */
static int make_task(const struct supervisor *s, struct start *st, uint32_t local, const struct task_hooks *hooks, struct task_parts *parts, struct spur_error *err)
{
    const Wire__StepOrder *o = s->order;
    const Wire__Launch *l = o->launch;
    const Wire__JobSpec *spec = l->spec ? l->spec : l->job ? l->job->spec : NULL;
    const Wire__StepSpec *step = l->step;
    struct environment_task et = { .global = order_task(o, local), .local = local, .gtids = st->gtids };
    struct environment env;
    struct task_plan p = { .in_fd = -1, .out_fd = -1, .err_fd = -1, .mpi_fd = -1 };
    char *in = NULL, *out = NULL, *errors = NULL;
    int in_mine = -1, out_mine = -1, err_mine = -1, rc = 0;
    const char *mode = step && step->open_mode ? step->open_mode : spec ? spec->open_mode : NULL;
    bool has_srun = taskio_state(s->io) == TASKIO_OPEN;
    struct arena a;

    environment_copy(&env, &st->env);
    environment_task(&env, &et);
    environment_gpus(&env, o, st->binding.masks[local]);
    p.mpi_fd = mpi_task(s->mpi, local, &env);
    cpus_environment(&st->cpus, &env);
    in = path_of(s, step ? step->std_in : spec ? spec->std_in : NULL, st->work_dir, st->user, local);
    out = path_of(s, step ? step->std_out : or_else(spec ? spec->std_out : NULL, l->job && l->job->has_array_task_id ? "slurm-%A_%a.out" : "slurm-%j.out"),
                  st->work_dir, st->user, local);
    errors = path_of(s, step ? step->std_err : spec ? spec->std_err : NULL, st->work_dir, st->user, local);
    if (has_srun && step && step->pty) {
        p.is_pty = et.global == 0;
        if (p.is_pty)
            rc = pty_open(o->grant->uid, step->pty_rows, step->pty_columns, &out_mine, &p.in_fd, err);
        if (out_mine >= 0)
            in_mine = fcntl(out_mine, F_DUPFD_CLOEXEC, 0);
    } else if (has_srun) {
        if (!in && takes_input(o, et.global))
            rc = make_pipe(&in_mine, &p.in_fd, false, err);
        if (rc == 0 && !out)
            rc = make_pipe(&out_mine, &p.out_fd, true, err);
        if (rc == 0 && !errors && (!out || (step && step->std_err && !*step->std_err)))     /* "": to srun, though output has a file */
            rc = make_pipe(&err_mine, &p.err_fd, true, err);
    }
    p.drop = (struct drop){ .uid = o->grant->uid, .gid = o->grant->gid, .groups = st->groups, .group_count = o->grant->n_groups };
    p.argv = st->argv;
    p.program = st->argv[0] ? st->argv[0] : "";
    p.env = &env;
    p.work_dir = st->work_dir;
    p.in_path = in;
    p.out_path = out;
    p.err_path = errors;
    p.append = mode ? word_starts(mode, "a") : o->append;
    plan_limits(&p, o);
    p.is_batch = order_is_batch(o);
    p.line = local == 0 && st->cpus.complaint ? st->cpus.complaint : st->binding.lines[local];
    p.cpus = &st->cpus.tasks[local];
    p.prologs[0] = o->task_prolog;
    p.prologs[1] = step ? step->task_prolog : NULL;
    arena_init(&a, 0);
    if (rc == 0 && step && step->multi_prog && (rc = task_program(step, et.global, &a, &p.argv, err)) == 0)
        p.program = p.argv[0];
    /* tasks of one node share a file without %t: only the first truncates it */
    if (!p.append && local > 0 && out && !p.is_batch) {
        char *first = path_of(s, step->std_out, st->work_dir, st->user, 0);

        p.append = first && !strcmp(first, out);
        free(first);
    }
    p.hooks = hooks;
    if (rc == 0)
        rc = task_fork(&p, &parts->pid, &parts->word_fd, err);
    if (p.in_fd >= 0)
        close(p.in_fd);
    if (p.out_fd >= 0)
        close(p.out_fd);
    if (p.err_fd >= 0)
        close(p.err_fd);
    parts->in_fd = in_mine;
    parts->out_fd = out_mine;
    parts->err_fd = err_mine;
    environment_fini(&env);
    arena_fini(&a);
    free(in);
    free(out);
    free(errors);
    return rc;
}

static void task_ended(struct supervisor *s, uint32_t local, int status);

static void take_task(struct supervisor *s, uint32_t local, const struct task_parts *parts)
{
    struct task *t = &s->tasks[local];

    taskio_attach(s->io, local, parts->in_fd, parts->out_fd, parts->err_fd);
    if (parts->pid <= 0)
        return;
    t->pid = parts->pid;
    t->word_fd = parts->word_fd;
    t->running = true;
    t->start = process_start(t->pid);
    s->running++;
    s->words++;
    if (kill(t->pid, 0) < 0 && errno == ESRCH)      /* killed and reaped before we knew that it was ours */
        task_ended(s, local, SIGKILL);
}

/* Through the same drop of privileges as the task, with its environment, folder and limits. */
static bool start_epilog(struct supervisor *s, uint32_t local)
{
    const Wire__StepOrder *o = s->order;
    const Wire__StepSpec *step = o->launch->step;
    struct task_plan p = { .in_fd = -1, .out_fd = -1, .err_fd = -1 };
    struct environment_task et = { .global = order_first_task(o) + local, .local = local, .pid = s->tasks[local].pid };
    struct start st = { 0 };
    bool runs;

    if (!o->task_epilog && !(step && step->task_epilog))
        return false;
    start_init(s, &st);
    et.gtids = st.gtids;
    environment_task(&st.env, &et);
    environment_gpus(&st.env, o, st.binding.masks[local]);
    p.drop = (struct drop){ .uid = o->grant->uid, .gid = o->grant->gid, .groups = st.groups, .group_count = o->grant->n_groups };
    p.env = &st.env;
    p.work_dir = st.work_dir;
    plan_limits(&p, o);
    runs = task_epilog_start(&s->epilogs, &p, step ? step->task_epilog : NULL, o->task_epilog, local, clock_boot_ms());
    start_fini(&st);
    return runs;
}

static void task_ended(struct supervisor *s, uint32_t local, int status)
{
    struct task *t = &s->tasks[local];

    t->running = false;
    status = t->fail_status ? t->fail_status : status;      /* what it said of itself before it was ended for it */
    t->status = status;
    s->running--;
    s->status = status_worse(s->status, status);
    if (!start_epilog(s, local))    /* else srun hears of the end after it: an allocation that ends with its step would end the epilog too */
        taskio_exited(s->io, local, status);
    mpi_task_ended(s->mpi, local, status);
    spank_host_task_ended(s->plugins, local, status);
}

/* No task will run: say so to the agent and to srun, and go on to the end. */
static void start_failed(struct supervisor *s, const char *text, int status)
{
    s->failed = true;
    s->fail_status = status ? status : 1 << 8;
    snprintf(s->text, sizeof s->text, "%.*s", (int)sizeof s->text - 1, text);
}

/* All tasks are there, or why not. */
static void start_done(struct supervisor *s, int rc, const struct spur_error *err)
{
    uint32_t *pids = mem_array(s->count + 1, sizeof *pids), started = 0;

    while (started < s->count && s->tasks[started].pid > 0) {
        pids[started] = (uint32_t)s->tasks[started].pid;
        started++;
    }
    mpi_started(s->mpi);
    if (rc < 0) {
        start_failed(s, err->text, 1 << 8);
        container_kill();
        taskio_hello(s->io, pids, started, s->text, s->fail_status);      /* before any exit: srun knows nobody yet */
        for (uint32_t i = started; i < s->count; i++)
            taskio_exited(s->io, i, 1 << 8);
    } else {
        taskio_hello(s->io, pids, started, NULL, 0);
    }
    save_state(s);
    free(pids);
}

static int start_check(struct supervisor *s, struct start *st, struct spur_error *err)
{
    int rc = st->unbound.code;

    if (rc < 0)
        *err = st->unbound;

    if (rc == 0 && order_is_batch(s->order))
        rc = write_script(s, err);
    if (rc == 0 && s->count == 0)
        rc = spur_fail(err, SPUR_EINVAL, "the launch names no task for node %s", s->order->node);
    if (rc == 0 && !st->argv[0])
        rc = spur_fail(err, SPUR_EINVAL, "the launch names no program");
    return rc;
}

static void start_all(struct supervisor *s)
{
    struct spur_error err = { 0 };
    struct start st = { 0 };
    int rc;

    s->phase = PHASE_RUN;
    start_init(s, &st);
    rc = start_check(s, &st, &err);
    for (uint32_t i = 0; rc == 0 && i < s->count; i++) {
        struct task_parts parts = { -1, -1, -1, -1, -1 };

        rc = make_task(s, &st, i, NULL, &parts, &err);
        take_task(s, i, &parts);
    }
    start_fini(&st);
    start_done(s, rc, &err);
}

/* ---- SPANK plugins: their process makes the tasks, with these (spank.c) ---- */

static void plugins_close(void *arg)
{
    struct supervisor *s = arg;
    struct pollfd *fds = mem_array(TASKIO_POLL_ROOM(s->count), sizeof *fds);
    size_t n = taskio_poll(s->io, fds);

    for (size_t i = 0; i < n; i++)
        if (fds[i].fd >= 0)
            close(fds[i].fd);
    free(fds);
    if (s->agent.fd >= 0)
        close(s->agent.fd);
    close(s->signal_fd);
    close(s->listen_fd);
}

static struct environment *plugins_begin(void *arg, char ***argv)
{
    struct supervisor *s = arg;

    s->start = mem_alloc(sizeof *s->start);
    start_init(s, s->start);
    *argv = s->start->argv;
    return &s->start->env;
}

static int plugins_make(void *arg, uint32_t local, const struct task_hooks *hooks, struct task_parts *out, struct spur_error *err)
{
    struct supervisor *s = arg;
    int rc = make_task(s, s->start, local, hooks, out, err);

    if (local + 1 == s->count)
        mpi_started(s->mpi);            /* this process's copies */
    return rc;
}

/* With plugins the step starts in their time; without, at once. */
static void start_with_plugins(struct supervisor *s)
{
    struct spank_life life = { s, plugins_close, plugins_begin, plugins_make };
    struct spur_error err = { 0 };
    struct start st = { 0 };

    s->plugins = spank_host_start(s->order, &life, &err);
    if (!s->plugins && err.code == 0) {
        start_all(s);
        return;
    }
    s->phase = PHASE_PLUGINS;
    if (s->plugins) {
        container_spare(spank_host_pid(s->plugins));
        start_init(s, &st);
        start_check(s, &st, &err);
        start_fini(&st);
    }
    if (err.code) {
        s->phase = PHASE_RUN;
        start_done(s, err.code, &err);
    }
}

/* Lines of plugins: to srun, or into the batch job's error file, as soon as there is one. */
static void plugins_say(struct supervisor *s)
{
    int fd = s->count ? s->tasks[0].err_fd : -1;

    if (!s->said.len || s->phase == PHASE_PLUGINS)
        return;
    if (fd >= 0) {
        if (write(fd, s->said.text, s->said.len) < 0)
            s->tasks[0].err_fd = -1;
    } else if (taskio_state(s->io) == TASKIO_OPEN) {
        taskio_say(s->io, s->said.text);
    } else {
        return;
    }
    str_clear(&s->said);
}

static void plugins_failed(struct supervisor *s, const char *text)
{
    if (s->phase != PHASE_PLUGINS)
        return;
    s->phase = PHASE_RUN;
    start_failed(s, text, s->kill_now ? SIGKILL : 1 << 8);
    container_kill();
    start_done(s, 0, NULL);             /* srun listens to what the plugins have said, then hears of tasks that have failed */
    str_addf(&s->said, "slurmstepd: error: %s\n", text);
    plugins_say(s);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->tasks[i].pid <= 0)
            taskio_exited(s->io, i, s->fail_status);
}

static void parts_close(const struct task_parts *parts)
{
    const int fds[] = { parts->word_fd, parts->in_fd, parts->out_fd, parts->err_fd };

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void plugins_news(struct supervisor *s)
{
    struct spank_news news;

    for (enum spank_event e; (e = spank_host_next(s->plugins, &news)) != SPANK_NOTHING; )
        switch (e) {
        case SPANK_EMPTY:
            start_all(s);
            break;
        case SPANK_BEGUN:               /* the launch has arrived; how long plugins take is theirs */
            if (!s->started_said) {
                s->started_said = true;
                report(s, WIRE__REPORT__KIND__STARTED, 0, NULL);
            }
            break;
        case SPANK_TASK:
            if (s->phase == PHASE_PLUGINS && news.local < s->count && s->tasks[news.local].pid <= 0)
                take_task(s, news.local, &news.parts);
            else
                parts_close(&news.parts);       /* called off: they find the gate shut */
            break;
        case SPANK_ALL:
            if (s->phase != PHASE_PLUGINS)
                break;
            s->phase = PHASE_RUN;
            start_done(s, 0, NULL);
            spank_host_go(s->plugins);
            break;
        case SPANK_SAID:
            if (s->said.len < SAID_MAX)
                str_add(&s->said, news.text);
            break;
        case SPANK_FAILED:
            plugins_failed(s, news.text);
            break;
        case SPANK_NOTHING:
            break;
        }
    plugins_say(s);
}

static void plugins_reaped(struct supervisor *s, int status)
{
    char text[300];
    const char *why = spank_host_reaped(s->plugins, status, text, sizeof text);

    plugins_news(s);                    /* its last words */
    if (why && s->phase != PHASE_PLUGINS && s->said.len < SAID_MAX)
        str_addf(&s->said, "slurmstepd: error: %s\n", why);
    plugins_failed(s, why ? why : "SPANK plugins: the process that holds them has ended too early");
    plugins_say(s);
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
            start_failed(s, w.text, w.status);
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
        report(s, WIRE__REPORT__KIND__STARTED, 0, NULL);
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
            plugins_reaped(s, status);
            continue;
        }
        add_usage(s, &used);
        if ((of = task_epilog_reaped(&s->epilogs, pid)) >= 0)
            taskio_exited(s->io, (uint32_t)of, s->tasks[of].status);
        for (uint32_t i = 0; i < s->count; i++)
            if (s->tasks[i].running && s->tasks[i].pid == pid) {
                task_ended(s, i, status);
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
            start_failed(s, "ended before it started", SIGKILL);
            s->phase = PHASE_RUN;
            taskio_hello(s->io, NULL, 0, s->text, s->fail_status);
        } else if (taskio_state(s->io) == TASKIO_LOST) {
            start_failed(s, taskio_fault(s->io), 1 << 8);
            s->phase = PHASE_RUN;
        } else if (taskio_state(s->io) != TASKIO_CONNECTING && mpi_state(s->mpi) == MPI_FAILED) {
            start_failed(s, mpi_fault(s->mpi), 1 << 8);
            s->phase = PHASE_RUN;
            taskio_hello(s->io, NULL, 0, s->text, s->fail_status);
        } else if (taskio_state(s->io) != TASKIO_CONNECTING && mpi_state(s->mpi) != MPI_STARTING) {
            start_with_plugins(s);
            limit_take(s);
        }
        empty = reap(s);
    }
    if (s->phase == PHASE_PLUGINS && s->kill_now)
        plugins_failed(s, "ended while SPANK plugins prepared it");
    if (s->phase == PHASE_RUN && s->limit_at_ms && now >= s->limit_at_ms && s->running)
        time_is_up(s);
    if (s->phase == PHASE_RUN && s->running == 0 && s->words == 0 && !s->epilogs.first && mpi_is_settled(s->mpi, now)) {
        if ((s->oom_kills = container_oom_kills()))
            say_oom(s);
        mpi_end(s->mpi);
        plugins_say(s);
        spank_host_finish(s->plugins, now, s->kill_now);
        report(s, WIRE__REPORT__KIND__ENDED, s->failed ? s->fail_status : s->status, s->text);
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
            report(s, WIRE__REPORT__KIND__GONE, 0, NULL);
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

    s->folder_fd = open(s->order->folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (s->folder_fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot open %s: %s", s->order->folder, strerror(errno));
    if ((s->listen_fd = folder_listen(s->folder_fd, STEP_SOCKET, err)) < 0)
        return s->listen_fd;
    if ((rc = container_own(s->order, err)) < 0)
        return rc;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);         /* only SIGCHLD is taken; everything else may not end a supervisor */
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
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
            plugins_news(s);
        else if (s->said.len)
            plugins_say(s);
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
        report(&s, WIRE__REPORT__KIND__LAUNCH_FAILED, 0, err.text);
        report(&s, WIRE__REPORT__KIND__GONE, 0, NULL);
        return 1;
    }
    s.count = order_local_tasks(take_order);
    s.tasks = mem_array(s.count + 1, sizeof *s.tasks);
    for (uint32_t i = 0; i < s.count; i++)
        s.tasks[i].word_fd = s.tasks[i].err_fd = -1;
    if (save_state(&s) < 0) {           /* the folder is gone: a new agent has not known of this step and says that it never ran */
        agent_greet(&s);
        report(&s, WIRE__REPORT__KIND__LAUNCH_FAILED, 0, "the step's state file cannot be written");
        report(&s, WIRE__REPORT__KIND__GONE, 0, NULL);
        return 1;
    }
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
