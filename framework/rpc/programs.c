/* SPDX-License-Identifier: Apache-2.0 */
/* programs.c - one thread a run: expand the patterns, start a program, read what it says, wait for it, next.
 *
 * The thread owns everything of its run but `stop`, `forgotten` and the lists, which the lock of the queue guards; its end comes to the loop by one
 * uv_async. A queue that is destroyed while runs are under way is freed by the last of them. A program leads a session of its own, has only descriptors
 * 0-2, default signals and "/" as its folder; what it writes on 1 and 2 is kept up to OUTPUT_MAX and stands in the log when it fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "rpc/log.h"
#include "rpc/programs.h"

#define OUTPUT_MAX 4096
#define LOOK_MS    50           /* how often a running program is looked at: nothing but its own end is worth waking for */

struct run {
    struct programs *queue;
    uint64_t number;
    char *what, *patterns, **env;
    uint32_t timeout_s;
    void (*done)(void *arg, const struct programs_end *end);
    void *arg;
    bool stop;
    struct programs_end end;
    struct run *next;
};

struct programs {
    uv_mutex_t lock;
    uv_async_t news;
    bool     forgotten, closed;
    unsigned limit, running;
    uint64_t last;
    struct run *waiting, **waiting_end, *active, *over;
};

static void run_free(struct run *r)
{
    for (size_t i = 0; r->env && r->env[i]; i++)
        free(r->env[i]);
    free(r->env);
    free(r->what);
    free(r->patterns);
    free(r);
}

static void queue_free(struct programs *p)
{
    for (struct run *r = p->waiting, *next; r; r = next) {
        next = r->next;
        run_free(r);
    }
    for (struct run *r = p->over, *next; r; r = next) {
        next = r->next;
        run_free(r);
    }
    uv_mutex_destroy(&p->lock);
    free(p);
}

/* ---- the thread of a run ---- */

static bool is_stopped(struct run *r)
{
    bool stop;

    uv_mutex_lock(&r->queue->lock);
    stop = r->stop;
    uv_mutex_unlock(&r->queue->lock);
    return stop;
}

static int start(const char *path, char *const *env, pid_t *pid, int *out)
{
    bool is_self = !strcmp(path, PROGRAMS_SELF);
    char *argv[] = { is_self ? (char *)"spurstepd" : (char *)(uintptr_t)path, is_self ? (char *)"--spank" : NULL, NULL };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t all, none;
    int fd[2], cause;

    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return errno;
    fcntl(fd[1], F_SETFL, 0);           /* the program's own end waits as it is used to */
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, fd[1], 1);
    posix_spawn_file_actions_adddup2(&files, fd[1], 2);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawn_file_actions_addchdir_np(&files, "/");
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setsigmask(&attr, &none);
    cause = posix_spawn(pid, path, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    close(fd[1]);
    if (cause)
        close(fd[0]);
    else
        *out = fd[0];
    return cause;
}

/* Takes what is there; false at the end of it. */
static bool drain(int fd, char *text, size_t *n)
{
    char buf[1024];
    ssize_t got;

    while ((got = read(fd, buf, sizeof buf)) > 0)
        for (ssize_t i = 0; i < got && *n < OUTPUT_MAX - 1; i++)
            text[(*n)++] = buf[i];
    text[*n] = '\0';
    return got < 0 && errno == EAGAIN;
}

static void say_output(const struct run *r, const char *path, char *text)
{
    char line[300], *at = text;

    for (int i = 0; *at && i < 20; i++) {
        size_t n = strcspn(at, "\n");
        bool more = at[n] != '\0';

        at[n] = '\0';
        word_printable(at, line, sizeof line);
        log_line(SPUR_LOG_WARN, "%s %s: %s", r->what, path, line);
        at += n + more;
    }
}

/* The cause of a failed start is an errno; posix_spawn's EACCES for a folder or a file without x is as the shell says it. */
static void run_one(struct run *r, const char *path)
{
    char *text = mem_alloc(OUTPUT_MAX);
    int64_t until = r->timeout_s ? clock_mono_ms() + (int64_t)r->timeout_s * 1000 : INT64_MAX;
    int cause, out = -1, status = 0;
    bool stopped = false, open = true;
    size_t n = 0;
    pid_t pid;

    cause = start(path, r->env, &pid, &out);
    if (!strcmp(path, PROGRAMS_SELF))
        path = "of the SPANK plugins";
    if (cause) {
        r->end.failed = true;
        snprintf(r->end.text, sizeof r->end.text, "%s %.100s: cannot be executed: %s", r->what, path, strerror(cause));
        free(text);
        return;
    }
    for (;;) {
        struct pollfd f = { .fd = open ? out : -1, .events = POLLIN };
        pid_t got;

        poll(&f, 1, LOOK_MS);
        if (f.revents)
            open = drain(out, text, &n);
        if ((got = waitpid(pid, &status, WNOHANG)) == pid || (got < 0 && errno == ECHILD))
            break;
        if (clock_mono_ms() >= until || (stopped = is_stopped(r))) {
            r->end.timed_out = !stopped;
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            until = INT64_MAX;
        }
    }
    drain(out, text, &n);
    close(out);
    r->end.failed = r->end.timed_out || stopped || status != 0;
    if (r->end.timed_out)
        snprintf(r->end.text, sizeof r->end.text, "%s %.100s: did not end within %u s", r->what, path, r->timeout_s);
    else if (stopped)
        snprintf(r->end.text, sizeof r->end.text, "%s %.100s: ended with its job", r->what, path);
    else if (WIFSIGNALED(status))
        snprintf(r->end.text, sizeof r->end.text, "%s %.100s: ended by signal %d", r->what, path, WTERMSIG(status));
    else if (status)
        snprintf(r->end.text, sizeof r->end.text, "%s %.100s: exit code %d", r->what, path, WEXITSTATUS(status));
    if (r->end.failed)
        say_output(r, path, text);
    free(text);
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A pattern that matches nothing is an empty folder of hooks, and fine; a plain path has to be there. */
static void run_pattern(struct run *r, const char *pattern)
{
    bool is_pattern = strpbrk(pattern, "*?[") != NULL;
    glob_t found = { 0 };
    int rc;

    if (!is_pattern) {
        run_one(r, pattern);
        return;
    }
    rc = glob(pattern, GLOB_ERR, NULL, &found);
    if (rc && rc != GLOB_NOMATCH) {
        r->end.failed = true;
        snprintf(r->end.text, sizeof r->end.text, "%s %.100s: the folder cannot be read", r->what, pattern);
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc && !r->end.failed; i++)
        if (!is_folder(found.gl_pathv[i]))
            run_one(r, found.gl_pathv[i]);
    globfree(&found);
}

static void run_thread(void *arg)
{
    struct run *r = arg;
    struct programs *p = r->queue;
    char *lines = mem_copy(r->patterns), *save = NULL;
    bool last;

    for (char *line = strtok_r(lines, "\n", &save); line && !r->end.failed; line = strtok_r(NULL, "\n", &save))
        run_pattern(r, line);
    free(lines);
    uv_mutex_lock(&p->lock);
    for (struct run **at = &p->active; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    r->next = p->over;
    p->over = r;
    p->running--;
    last = p->closed && !p->running;
    if (!p->forgotten)
        uv_async_send(&p->news);
    uv_mutex_unlock(&p->lock);
    if (last)
        queue_free(p);
}

/* ---- the loop's side ---- */

static void start_next(struct programs *p)
{
    uv_mutex_lock(&p->lock);
    while (p->waiting && p->running < p->limit) {
        struct run *r = p->waiting;
        uv_thread_t thread;

        p->waiting = r->next;
        if (!p->waiting)
            p->waiting_end = &p->waiting;
        r->next = p->active;
        p->active = r;
        p->running++;
        if (uv_thread_create(&thread, run_thread, r) == 0) {
            pthread_detach(thread);
            continue;
        }
        p->active = r->next;
        p->running--;
        r->end.failed = true;
        snprintf(r->end.text, sizeof r->end.text, "%s: no thread can be started", r->what);
        r->next = p->over;
        p->over = r;
        uv_async_send(&p->news);
        break;
    }
    uv_mutex_unlock(&p->lock);
}

static void news(uv_async_t *h)
{
    struct programs *p = h->data;
    struct run *over;

    uv_mutex_lock(&p->lock);
    over = p->over;
    p->over = NULL;
    uv_mutex_unlock(&p->lock);
    for (struct run *next; over; over = next) {
        next = over->next;
        over->done(over->arg, &over->end);
        run_free(over);
    }
    start_next(p);
}

struct programs *programs_create(uv_loop_t *loop, unsigned limit)
{
    struct programs *p = mem_alloc(sizeof *p);

    uv_mutex_init(&p->lock);
    uv_async_init(loop, &p->news, news);
    p->news.data = p;
    p->limit = limit;
    p->waiting_end = &p->waiting;
    uv_unref((uv_handle_t *)&p->news);
    return p;
}

void programs_limit(struct programs *p, unsigned limit)
{
    uv_mutex_lock(&p->lock);
    p->limit = limit;
    uv_mutex_unlock(&p->lock);
}

uint64_t programs_run(struct programs *p, const struct programs_order *order)
{
    struct run *r = mem_alloc(sizeof *r);
    size_t n = 0;

    r->queue = p;
    r->what = mem_copy(order->what);
    r->patterns = mem_copy(order->patterns);
    while (order->env[n])
        n++;
    r->env = mem_array(n + 1, sizeof *r->env);
    for (size_t i = 0; i < n; i++)
        r->env[i] = mem_copy(order->env[i]);
    r->timeout_s = order->timeout_s;
    r->done = order->done;
    r->arg = order->arg;
    r->number = ++p->last;
    *p->waiting_end = r;
    p->waiting_end = &r->next;
    start_next(p);
    return p->last;
}

void programs_stop(struct programs *p, uint64_t number)
{
    uv_mutex_lock(&p->lock);
    for (struct run *r = p->active; r; r = r->next)
        r->stop |= r->number == number;
    for (struct run **at = &p->waiting; *at; at = &(*at)->next)
        if ((*at)->number == number) {          /* it has not begun: that is told from the loop all the same */
            struct run *r = *at;

            *at = r->next;
            if (!*at)
                p->waiting_end = at;
            r->end.failed = true;
            snprintf(r->end.text, sizeof r->end.text, "%s: ended with its job before it began", r->what);
            r->next = p->over;
            p->over = r;
            uv_async_send(&p->news);
            break;
        }
    uv_mutex_unlock(&p->lock);
}

static void closed(uv_handle_t *h)
{
    struct programs *p = h->data;
    bool last;

    uv_mutex_lock(&p->lock);
    p->closed = true;
    last = !p->running;
    uv_mutex_unlock(&p->lock);
    if (last)
        queue_free(p);
}

void programs_destroy(struct programs *p)
{
    if (!p)
        return;
    uv_mutex_lock(&p->lock);
    p->forgotten = true;
    uv_mutex_unlock(&p->lock);
    uv_close((uv_handle_t *)&p->news, closed);
}
