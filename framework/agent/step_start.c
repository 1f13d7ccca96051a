/* SPDX-License-Identifier: Apache-2.0 */
/* step_start.c - the tasks of a step come to be: environment, paths, pipes, limits, one fork each; and what a task's end sets off.
 *
 * Nothing of the user's is opened here: a task does that itself, after the drop of privileges (task.c). What cannot be made ends the step with a sentence, which
 * srun, the report and the batch job's error file get.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/fault.h"
#include "agent/pty.h"
#include "agent/step_inside.h"
#include "base/clock.h"
#include "rpc/folder.h"
#include "state/apply.h"
#include "state/programs.h"

static int write_script(struct supervisor *s, struct spur_error *err)
{
    const Wire__Launch *l = s->order->launch;
    const Wire__Credential *c = s->order->grant;
    int fd, rc = 0;

    unlinkat(s->folder_fd, STEP_SCRIPT, 0);
    fd = fault(FAULT_SCRIPT_OPEN) ? -1 : openat(s->folder_fd, STEP_SCRIPT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot make the script in %s: %s", s->order->folder, strerror(errno));
    if (geteuid() == 0 && (fault(FAULT_SCRIPT_OWNER) || fchown(fd, c->uid, c->gid) < 0))
        rc = spur_fail(err, SPUR_EIO, "cannot give the script in %s to user %u: %s", s->order->folder, c->uid, strerror(errno));
    for (size_t at = 0; rc == 0 && at < l->script.len; ) {
        ssize_t n = fault(FAULT_SCRIPT_WRITE) ? -1 : write(fd, l->script.data + at, l->script.len - at);

        if (n < 0 && errno != EINTR)
            rc = spur_fail(err, errno == ENOSPC ? SPUR_ENOSPACE : SPUR_EIO, "cannot write the script in %s: %s", s->order->folder, strerror(errno));
        else if (n > 0)
            at += (size_t)n;
    }
    if (rc == 0 && (fault(FAULT_SCRIPT_MODE) || fchmod(fd, 0700) < 0))
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

void supervisor_start_init(struct supervisor *s, struct start *st)
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

void supervisor_start_fini(struct start *st)
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
int supervisor_make_task(const struct supervisor *s, struct start *st, uint32_t local, const struct task_hooks *hooks, struct task_parts *parts, struct spur_error *err)
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

void supervisor_take_task(struct supervisor *s, uint32_t local, const struct task_parts *parts)
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
        supervisor_task_ended(s, local, SIGKILL);
}

/* Through the same drop of privileges as the task, with its environment, folder and limits. */
static bool start_epilog(struct supervisor *s, uint32_t local)
{
    const Wire__StepOrder *o = s->order;
    const Wire__StepSpec *step = o->launch->step;
    struct task_plan p = { .in_fd = -1, .out_fd = -1, .err_fd = -1 };
    struct environment_task et = { .global = order_task(o, local), .local = local, .pid = s->tasks[local].pid };
    struct start st = { 0 };
    bool runs;

    if (!o->task_epilog && !(step && step->task_epilog))
        return false;
    supervisor_start_init(s, &st);
    et.gtids = st.gtids;
    environment_task(&st.env, &et);
    environment_gpus(&st.env, o, st.binding.masks[local]);
    p.drop = (struct drop){ .uid = o->grant->uid, .gid = o->grant->gid, .groups = st.groups, .group_count = o->grant->n_groups };
    p.env = &st.env;
    p.work_dir = st.work_dir;
    plan_limits(&p, o);
    runs = task_epilog_start(&s->epilogs, &p, step ? step->task_epilog : NULL, o->task_epilog, local, clock_boot_ms());
    supervisor_start_fini(&st);
    return runs;
}

void supervisor_task_ended(struct supervisor *s, uint32_t local, int status)
{
    struct task *t = &s->tasks[local];

    t->running = false;
    status = t->fail_status ? t->fail_status : status;      /* what it said of itself before it was ended for it */
    t->status = status;
    s->running--;
    s->status = status_worse(s->status, status);
    if (s->plugins)                 /* what they said in this task came before its end, and goes out before it */
        supervisor_plugins_news(s);
    if (!start_epilog(s, local))    /* else srun hears of the end after it: an allocation that ends with its step would end the epilog too */
        taskio_exited(s->io, local, status);
    mpi_task_ended(s->mpi, local, status);
    spank_host_task_ended(s->plugins, local, status);
}

/* No task will run: say so to the agent and to srun, and go on to the end. */
void supervisor_start_failed(struct supervisor *s, const char *text, int status)
{
    s->failed = true;
    s->fail_status = status ? status : 1 << 8;
    snprintf(s->text, sizeof s->text, "%.*s", (int)sizeof s->text - 1, text);
}

/* All tasks are there, or why not. */
void supervisor_started(struct supervisor *s, int rc, const struct spur_error *err)
{
    uint32_t *pids = mem_array(s->count + 1, sizeof *pids), started = 0;

    while (started < s->count && s->tasks[started].pid > 0) {
        pids[started] = (uint32_t)s->tasks[started].pid;
        started++;
    }
    mpi_started(s->mpi);
    if (rc < 0) {
        supervisor_start_failed(s, err->text, 1 << 8);
        container_kill();
        taskio_hello(s->io, pids, started, s->text, s->fail_status);      /* before any exit: srun knows nobody yet */
        for (uint32_t i = started; i < s->count; i++)
            taskio_exited(s->io, i, 1 << 8);
    } else {
        taskio_hello(s->io, pids, started, NULL, 0);
    }
    supervisor_save(s);
    free(pids);
}

int supervisor_check(struct supervisor *s, struct start *st, struct spur_error *err)
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

void supervisor_start(struct supervisor *s)
{
    struct spur_error err = { 0 };
    struct start st = { 0 };
    int rc;

    s->phase = PHASE_RUN;
    supervisor_start_init(s, &st);
    rc = supervisor_check(s, &st, &err);
    for (uint32_t i = 0; rc == 0 && i < s->count; i++) {
        struct task_parts parts = { -1, -1, -1, -1, -1 };

        rc = supervisor_make_task(s, &st, i, NULL, &parts, &err);
        supervisor_take_task(s, i, &parts);
    }
    supervisor_start_fini(&st);
    supervisor_started(s, rc, &err);
}
