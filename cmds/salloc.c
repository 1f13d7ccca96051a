/* SPDX-License-Identifier: Apache-2.0 */
/* salloc.c - gets an allocation, runs a command here with its environment, gives it back.
 *
 * Three processes help: the command in a process group of its own (the terminal's foreground one, when there is a terminal), a watcher that waits
 * for the end of the job at the controller and ends itself then, and a guard that ends the job when this process was killed before it could.
 * A signal while the job waits takes the job back. Afterwards signals are for the command: SIGINT, SIGTERM and the like are handed on, and
 * the allocation goes when the command has ended; two SIGINT within a second end both at once. At a terminal Ctrl-C reaches the command
 * alone, as its group has the foreground.
 * What surprised: a command that stops (Ctrl-Z) has to stop salloc too, or the shell that started salloc waits for ever.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/allocation.h"
#include "cmds/common/het.h"
#include "cmds/common/jobenv.h"
#include "cmds/common/plugins.h"
#include "cmds/common/request.h"
#include "state/job.h"

#define QUIET_MS 250            /* waits shorter than this are not worth a word */
#define BELL_MS  10000          /* after longer ones the bell rings */
#define WATCH_REST_S 5

struct salloc {
    struct request *more; size_t more_count;    /* further components of a heterogeneous job */
    Wire__JobInfo **parts;          /* all of its components, once it has started */
    struct request  r;
    struct client  *client;
    uint32_t job_id;
    const Wire__JobInfo *job;
    struct guard guard;
    pid_t  command, watcher;
    bool   is_interactive;      /* the command is a shell, or what is asked for instead of one */
    bool   has_terminal;        /* and we have its foreground */
    bool   is_revoked;
    struct termios modes;
    int64_t last_int_ms;
};

static int pipe_fds[2] = { -1, -1 };

static int error_exit(int code)
{
    const char *text = getenv("SLURM_EXIT_ERROR");
    uint32_t n;

    return text && number_u32(text, &n) && n < 256 ? (int)n : code;
}

static void say(const struct salloc *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct salloc *s, const char *format, ...)
{
    va_list args;

    if (s->r.quiet)
        return;
    fputs("salloc: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- signals ---- */

static void signal_came(int number)
{
    unsigned char byte = (unsigned char)number;
    int saved = errno;

    if (write(pipe_fds[1], &byte, 1) < 0)
        byte = 0;                   /* full: so many are waiting already */
    errno = saved;
}

static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD };

static void signals_catch(void)
{
    struct sigaction act = { .sa_handler = signal_came }, old;

    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        if (sigaction(caught[i], NULL, &old) == 0 && (old.sa_handler != SIG_IGN || caught[i] == SIGCHLD || caught[i] == SIGALRM))
            sigaction(caught[i], &act, NULL);       /* nohup, and & of a script, are respected */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);       /* the foreground is handed back from the background */
}

static void signals_default(void)
{
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        signal(caught[i], SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
}

static int signal_next(void)
{
    unsigned char byte;

    return read(pipe_fds[0], &byte, 1) == 1 ? byte : 0;
}

/* ---- the allocation ---- */

static int refused(const struct spur_error *err)
{
    fprintf(stderr, "salloc: error: Job submit/allocate failed: %s\n", err->text);
    return error_exit(1);
}

static void give_back(struct salloc *s)
{
    struct spur_error err = { 0 };
    char id[16];

    snprintf(id, sizeof id, "%u", s->job_id);
    if (allocation_cancel(s->client, &s->r.arena, id, &err) < 0)
        fprintf(stderr, "salloc: error: job %u is not ended yet, which is tried again in the background: %s\n", s->job_id, err.text);
    else
        guard_dismiss(&s->guard);
}

static void alarm_in(int64_t ms)
{
    struct itimerval t = { .it_value = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 } };

    setitimer(ITIMER_REAL, &t, NULL);
}

static int busy(struct salloc *s)
{
    const char *text = getenv("SLURM_EXIT_IMMEDIATE");
    uint32_t code;

    give_back(s);
    fprintf(stderr, "salloc: error: Unable to allocate resources: Requested nodes are busy\n");
    return text && number_u32(text, &code) && code < 256 ? (int)code : error_exit(1);
}

/* Until the job has its nodes. 0, or the exit code. */
static int allocation_wait(struct salloc *s)
{
    int64_t began = clock_mono_ms(), give_up = s->r.immediate_s >= 0 ? began + (s->r.immediate_s ? s->r.immediate_s : 1) * INT64_C(1000) : INT64_MAX;
    Wire__WaitRequest w = WIRE__WAIT_REQUEST__INIT;
    struct spur_error err = { 0 };
    bool told = false;

    w.job_id = s->job_id;
    w.until = WIRE__WAIT_REQUEST__UNTIL__STARTED;
    for (;;) {
        int64_t now = clock_mono_ms(), next = told ? now + 1000 : began + QUIET_MS;     /* a signal between two waits is seen a second later */
        Wire__JobsReply *reply = NULL;
        int number = 0, rc, sig;

        next = next < give_up ? next : give_up;
        alarm_in(next > now ? next - now : 1);
        rc = client_wait(s->client, &w, &s->r.arena, &reply, &number, &err);
        alarm_in(0);
        if (rc == 0) {
            s->job = reply->n_jobs ? reply->jobs[0] : NULL;
            if (!s->job || job_state_is_end(s->job->state)) {
                fprintf(stderr, "salloc: Job allocation %u has been revoked.\n", s->job_id);
                guard_dismiss(&s->guard);
                return error_exit(1);
            }
            if (told)
                say(s, "job %u has been allocated resources", s->job_id);
            say(s, "Granted job allocation %u", s->job_id);
            if (s->r.bell == BELL_ALWAYS || (s->r.bell == BELL_LATE && clock_mono_ms() - began >= BELL_MS))
                if (isatty(STDERR_FILENO))
                    fputc('\a', stderr);
            return 0;
        }
        if (rc != SPUR_ELATER) {
            give_back(s);
            return refused(&err);
        }
        while ((sig = signal_next()))
            if (sig != SIGALRM && sig != SIGCHLD && sig != SIGUSR1 && sig != SIGUSR2) {
                give_back(s);
                fprintf(stderr, "salloc: Job allocation %u has been revoked.\nsalloc: error: Job aborted due to signal\n", s->job_id);
                return error_exit(1);
            }
        if (clock_mono_ms() >= give_up)
            return busy(s);
        if (!told && clock_mono_ms() - began >= QUIET_MS) {
            told = true;
            say(s, "Pending job allocation %u", s->job_id);
            say(s, "job %u queued and waiting for resources", s->job_id);
        }
    }
}

static int component_part(void *arg, void *part)
{
    struct salloc *s = arg;
    const Wire__JobsReply *r = part;

    for (size_t i = 0; i < r->n_jobs; i++)
        if (r->jobs[i]->het_job_id == s->job_id && r->jobs[i]->het_offset <= s->more_count)
            s->parts[r->jobs[i]->het_offset] = r->jobs[i];
    return !r->last;
}

/* Where the other components are, for the command's environment. */
static int components_ask(struct salloc *s)
{
    Wire__JobsRequest q = WIRE__JOBS_REQUEST__INIT;
    struct spur_error err = { 0 };
    int number;

    q.job_ids = &s->job_id;
    q.n_job_ids = 1;
    s->parts = arena_alloc(&s->r.arena, (s->more_count + 1) * sizeof *s->parts);
    if (client_stream_keep(s->client, WIRE__MESSAGE_TYPE__JOBS, &q.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, &s->r.arena, component_part, s,
                           &number, &err) < 0) {
        give_back(s);
        return refused(&err);
    }
    return 0;
}

static int allocate(struct salloc *s)
{
    Wire__SubmitRequest submit = WIRE__SUBMIT_REQUEST__INIT;
    struct spur_error err = { 0 };
    const Wire__SubmitReply *got;
    uint8_t token[16];
    void *reply;
    int number, rc;

    submit.spec = &s->r.spec;
    submit.n_het = s->more_count;
    submit.het = arena_alloc(&s->r.arena, (s->more_count + 1) * sizeof *submit.het);
    for (size_t i = 0; i < s->more_count; i++)
        submit.het[i] = &s->more[i].spec;
    s->r.spec.has_is_batch = true;
    client_token(token, &submit.token_wall_ms);
    submit.token.data = token;
    submit.token.len = sizeof token;
    if (s->r.verbose)
        request_show(&s->r);
    for (size_t i = 0; s->r.verbose && i < s->more_count; i++)
        request_show(&s->more[i]);
    guard_start(&s->guard, &submit, "salloc-guard");
    if (client_call(s->client, WIRE__MESSAGE_TYPE__SUBMIT, &submit.base, WIRE__MESSAGE_TYPE__SUBMITTED, &wire__submit_reply__descriptor, &s->r.arena, &reply, &number, &err) < 0) {
        if (!client_unsure(s->client))
            guard_dismiss(&s->guard);
        return refused(&err);
    }
    got = reply;
    for (size_t i = 0; i < got->n_warnings; i++)
        say(s, "%s", got->warnings[i]);
    s->job_id = got->job_id;
    guard_job(&s->guard, s->job_id);
    rc = allocation_wait(s);
    return rc == 0 && s->more_count ? components_ask(s) : rc;
}

/* ---- the command ---- */

static const char *config_row(const Wire__ConfigReply *r, const char *key)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (word_eq(r->rows[i]->key, key))
            return r->rows[i]->value;
    return NULL;
}

static const char *shell_of_user(void)
{
    const char *shell = getenv("SHELL");
    const struct passwd *p;

    if (shell && *shell)
        return shell;
    p = getpwuid(getuid());
    return p && p->pw_shell && *p->pw_shell ? p->pw_shell : "/bin/sh";
}

/* No command: a step with a terminal on the first node where LaunchParameters has use_interactive_step, else the user's shell here. */
static void command_default(struct salloc *s)
{
    static char *shell[] = { NULL, NULL }, *step[] = { NULL, NULL, NULL, NULL };
    Wire__Empty ask = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    const char *launch = NULL, *options = NULL;
    void *reply = NULL;
    int number;

    if (client_call(s->client, WIRE__MESSAGE_TYPE__CONFIG, &ask.base, WIRE__MESSAGE_TYPE__CONFIG_ROWS, &wire__config_reply__descriptor, &s->r.arena, &reply, &number, &err) == 0) {
        launch = config_row(reply, "LaunchParameters");
        options = config_row(reply, "InteractiveStepOptions");
    }
    s->is_interactive = true;
    if (launch && options && strstr(launch, "use_interactive_step")) {
        char self[4096] = "srun";
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 8);
        char *slash = n > 0 ? (self[n] = '\0', strrchr(self, '/')) : NULL;

        snprintf(slash ? slash + 1 : self, 8, "srun");
        setenv("SHELL", shell_of_user(), 1);
        step[0] = (char *)(uintptr_t)"/bin/sh";
        step[1] = (char *)(uintptr_t)"-c";
        step[2] = arena_printf(&s->r.arena, "exec '%s' %s", access(self, X_OK) == 0 ? self : "srun", options);
        s->r.argv = step;
        s->r.argc = 3;
        return;
    }
    shell[0] = (char *)(uintptr_t)shell_of_user();
    s->r.argv = shell;
    s->r.argc = 1;
}

static void foreground(const struct salloc *s, pid_t group)
{
    if (s->has_terminal)
        tcsetpgrp(STDIN_FILENO, group);
}

/* What the command gets when its allocation goes. */
static int end_signal(const struct salloc *s) { return s->r.has_kill_command ? s->r.kill_command : s->is_interactive ? SIGHUP : SIGTERM; }

static int command_start(struct salloc *s)
{
    char here[4096];

    s->has_terminal = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() && tcgetattr(STDIN_FILENO, &s->modes) == 0;
    s->command = fork();
    if (s->command < 0) {
        fprintf(stderr, "salloc: error: cannot fork: %s\n", strerror(errno));
        return error_exit(1);
    }
    if (s->command == 0) {
        setpgid(0, 0);
        foreground(s, getpid());
        signals_default();
        job_environment(s->job, client_hint(s->client)->cluster);
        if (s->parts)
            job_het_environment(s->parts, (uint32_t)s->more_count + 1);
        if (getcwd(here, sizeof here))
            setenv("SLURM_SUBMIT_DIR", here, 1);
        if (s->r.spec.work_dir && chdir(s->r.spec.work_dir) < 0)
            fprintf(stderr, "salloc: error: chdir(%s): %s\n", s->r.spec.work_dir, strerror(errno));
        execvp(s->r.argv[0], s->r.argv);
        fprintf(stderr, "salloc: error: Unable to exec command \"%s\": %s\n", s->r.argv[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    setpgid(s->command, s->command);        /* in both, whoever comes first */
    guard_command(&s->guard, s->command, end_signal(s));
    foreground(s, s->command);
    return 0;
}

/* A child that ends when the job does. */
static void watcher_start(struct salloc *s)
{
    pid_t parent = getpid();

    s->watcher = fork();
    if (s->watcher != 0)
        return;
    signals_default();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    prctl(PR_SET_NAME, "salloc-watch");
    if (getppid() != parent)
        _exit(1);
    close(s->guard.fd);             /* or the guard would wait for us as well */
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    for (;; sleep(WATCH_REST_S)) {
        Wire__WaitRequest w = WIRE__WAIT_REQUEST__INIT;
        struct spur_error err = { 0 };
        Wire__JobsReply *reply;
        struct client *c = NULL;
        int number, rc;

        w.job_id = s->job_id;
        w.until = WIRE__WAIT_REQUEST__UNTIL__ENDED;
        rc = client_open(NULL, &c, &err);
        rc = rc == 0 ? client_wait(c, &w, &s->r.arena, &reply, &number, &err) : rc;
        client_close(c);
        if (rc == 0 || rc == SPUR_ENOTFOUND)
            _exit(0);
    }
}

static void revoked(struct salloc *s)
{
    int signal = end_signal(s);

    s->is_revoked = true;
    guard_dismiss(&s->guard);
    fprintf(stderr, "salloc: Job allocation %u has been revoked.\n", s->job_id);
    kill(-s->command, signal);
    kill(-s->command, SIGCONT);
}

static void interrupted(struct salloc *s)
{
    int64_t now = clock_mono_ms();

    if (s->last_int_ms && now - s->last_int_ms < 1000) {
        fprintf(stderr, "salloc: forcing the end of job allocation %u\n", s->job_id);
        kill(-s->command, SIGKILL);
        return;
    }
    s->last_int_ms = now;
    kill(-s->command, SIGINT);
}

/* The command has stopped: so do we, and it goes on when we do. */
static void stopped(struct salloc *s)
{
    if (!s->has_terminal)
        return;
    foreground(s, getpgrp());
    kill(0, SIGSTOP);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &s->modes);
    foreground(s, s->command);
    kill(-s->command, SIGCONT);
}

/* The wait() status of the command. */
static int command_wait(struct salloc *s)
{
    struct pollfd p = { .fd = pipe_fds[0], .events = POLLIN };
    int status, number;

    for (;;) {
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
            if (pid == s->command && WIFSTOPPED(status))
                stopped(s);
            else if (pid == s->command)
                return status;
            else if (pid == s->watcher && !WIFSTOPPED(status) && WIFEXITED(status) && WEXITSTATUS(status) == 0)
                revoked(s);
        }
        poll(&p, 1, -1);
        while ((number = signal_next()))
            if (number == SIGINT)
                interrupted(s);
            else if (number != SIGCHLD && number != SIGALRM)
                kill(-s->command, number);
    }
}

static int command_run(struct salloc *s)
{
    struct spur_error err = { 0 };
    int rc, status;

    watcher_start(s);
    if ((rc = command_start(s)) != 0) {
        status = rc << 8;
    } else {
        status = command_wait(s);
        foreground(s, getpgrp());
        if (s->has_terminal)
            tcsetattr(STDIN_FILENO, TCSADRAIN, &s->modes);
        rc = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (s->watcher > 0)
        kill(s->watcher, SIGKILL);
    if (s->is_revoked)
        return rc;
    say(s, "Relinquishing job allocation %u", s->job_id);
    if (allocation_finish(s->client, &s->r.arena, s->job_id, status, &err) < 0)
        fprintf(stderr, "salloc: error: job %u is not ended yet, which is tried again in the background: %s\n", s->job_id, err.text);
    else
        guard_dismiss(&s->guard);
    return rc;
}

/* ---- all of it ---- */

static int component_read(const struct option_table *table, struct request *r, const struct request *before, const struct het_words *words)
{
    struct spur_error err = { 0 };
    int first, rc;

    if ((rc = options_environment(table, r)) || (rc = options_read(table, words->argc, words->argv, r, &first)))
        return rc;
    r->argv = words->argv + first;
    r->argc = words->argc - first;
    if (before)
        request_inherit(r, before);
    if (request_finish(r, &err) < 0) {
        fprintf(stderr, "salloc: fatal: %s\n", err.text);
        return err.code == SPUR_ESYNTAX ? 255 : 1;
    }
    return 0;
}

static int options_all(struct salloc *s, struct plugins *plugins, const struct option_table *table, int argc, char **argv)
{
    struct request *r = &s->r, typed, *last = r;
    struct het_words *words, *kept;
    size_t count;
    int first, rc;

    request_init(&typed, REQUEST_SALLOC);
    rc = het_cut(table, argc, argv, &typed, &words, &count, &first);
    kept = rc ? NULL : arena_copy_bytes(&r->arena, words, count * sizeof *words);
    request_fini(&typed);
    if (rc)
        return rc;
    plugins_forget(plugins);
    s->more = mem_array(count, sizeof *s->more);
    for (size_t k = 0; k < count; k++) {
        struct request *part = k ? &s->more[s->more_count++] : r;

        if (k)
            request_init(part, REQUEST_SALLOC);
        if ((rc = component_read(table, part, k ? last : NULL, &kept[k])))
            return rc;
        last = part;
    }
    r->no_shell |= last->no_shell;
    r->argv = last->argv;
    r->argc = last->argc;
    if (r->no_shell && r->argc) {
        fprintf(stderr, "salloc: error: --no-shell runs nothing: the command %s is too much\n", r->argv[0]);
        return 1;
    }
    for (size_t k = 0; k < count; k++) {
        Wire__JobSpec *spec = k ? &s->more[k - 1].spec : &r->spec;
        const char *base = r->argc ? strrchr(r->argv[0], '/') : NULL;

        if (!spec->name)
            spec->name = (char *)(uintptr_t)(r->no_shell ? "no-shell" : !r->argc ? "interactive" : base ? base + 1 : r->argv[0]);
    }
    return 0;
}

static int run(struct salloc *s, int argc, char **argv)
{
    char *dir = s->r.spec.work_dir;
    struct spur_error err = { 0 };
    int rc;

    if (request_place(&s->r, argc, argv, &err) < 0 || client_open(NULL, &s->client, &err) < 0 || request_cluster(&s->r, client_hint(s->client)->cluster, &err) < 0) {
        fprintf(stderr, "salloc: error: %s\n", err.text);
        return error_exit(1);
    }
    for (size_t i = 0; i < s->more_count; i++)
        if (request_place(&s->more[i], argc, argv, &err) < 0) {
            fprintf(stderr, "salloc: error: %s\n", err.text);
            return error_exit(1);
        }
    signals_catch();
    if (!s->r.argc && !s->r.no_shell)
        command_default(s);
    if ((rc = allocate(s)) != 0)
        return rc;
    if (s->r.no_shell) {
        guard_dismiss(&s->guard);
        return 0;
    }
    if (!dir)
        s->r.spec.work_dir = NULL;          /* the command stays where we are, also in a folder that has no path any more */
    return command_run(s);
}

int cmd_salloc(int argc, char **argv)
{
    struct option_row *rows;
    struct plugins *plugins;
    struct salloc s = { .guard = { .fd = -1 }, .command = -1, .watcher = -1 };
    struct option_table table;
    int rc;

    if ((rc = plugins_open(REQUEST_SALLOC, &plugins)))
        return error_exit(rc);
    rows = mem_array(request_row_count() + plugins_rows(plugins), sizeof *rows);
    request_table(REQUEST_SALLOC, rows, &table);
    plugins_table(plugins, rows, &table);
    request_init(&s.r, REQUEST_SALLOC);
    rc = options_all(&s, plugins, &table, argc, argv);
    if (rc == 0)
        rc = plugins_ready(plugins, &s.r);
    if (rc == OPTIONS_DONE)
        rc = 0;
    else if (rc)
        rc = error_exit(rc);
    else
        rc = run(&s, argc, argv);
    plugins_close(plugins);
    client_close(s.client);
    free(rows);
    for (size_t i = 0; i < s.more_count; i++)
        request_fini(&s.more[i]);
    free(s.more);
    request_fini(&s.r);
    return rc;
}
