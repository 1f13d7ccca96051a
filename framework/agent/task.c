/* SPDX-License-Identifier: Apache-2.0 */
/* task.c - the child of a supervisor becomes a task of the user.
 *
 * The order is the point: fork, own session, ids dropped and checked (drop.c), and only then the user's folders, files and limits, so that nothing
 * of the user is opened as root; last all descriptors but 0-2 are closed and the program is executed. What fails before the exec is told
 * to the supervisor through a socket that closes itself at the exec; a program that cannot be executed also says so on the task's own
 * standard error and exits 127 (not there) or 126 (not executable), as shells do.
 * The supervisor has one thread, so the child may allocate after fork.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <spur/mpi.h>

#include "agent/container.h"
#include "agent/fault.h"
#include "agent/pty.h"
#include "agent/task.h"
#include "agent/taskhooks.h"
#include "base/str.h"

#define WORD_FD 3       /* where the child keeps its end of the socket */

static int word_to = -1;        /* the same before it is there: 3 may be anything of the supervisor's until then */

static _Noreturn void child_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void child_fail(const char *format, ...)
{
    struct task_word w = { .stage = TASK_FAILED, .status = 1 << 8 };
    va_list args;

    va_start(args, format);
    vsnprintf(w.text, sizeof w.text, format, args);
    va_end(args);
    if (write(word_to, &w, sizeof w) < 0)
        _exit(125);
    _exit(1);
}

int task_make_folders(const char *path)
{
    char *copy = mem_copy(path), *slash = copy;
    int result = 0;

    while ((slash = strchr(slash + 1, '/'))) {
        *slash = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST && errno != EISDIR && errno != EROFS && errno != EACCES)
            result = errno;
        *slash = '/';
    }
    free(copy);
    return result;
}

static int open_output(const char *path, bool append, const char *what)
{
    /* O_APPEND in both modes: several writers of one file (steps, a truncating tail -f) never overwrite each other */
    int flags = O_WRONLY | O_CREAT | O_NOCTTY | O_APPEND | (append ? 0 : O_TRUNC), fd;

    fd = fault(*what == 'o' ? FAULT_OUTPUT : FAULT_ERRORS) ? -1 : open(path, flags, 0666);
    if (fd < 0 && errno == ENOENT) {
        task_make_folders(path);
        fd = open(path, flags, 0666);
    }
    if (fd < 0)
        child_fail("cannot open %s file %s: %s", what, path, strerror(errno));
    return fd;
}

/* Moves fd to `to`; descriptors 0-2 are free to be overwritten in the order 0, 1, 2 only because sources lie above WORD_FD. */
static void place(int fd, int to)
{
    if (fault(FAULT_PLACE) || dup2(fd, to) < 0)
        child_fail("cannot place descriptor %d: %s", to, strerror(errno));
}

static int lifted(int fd)
{
    int up = fault(FAULT_LIFT) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10);

    if (up < 0)
        child_fail("cannot duplicate a descriptor: %s", strerror(errno));
    return up;
}

static void open_streams(const struct task_plan *p)
{
    int in, out, err;

    if (p->is_pty) {
        for (int to = 0; to < 3; to++)
            place(p->in_fd, to);
        return;
    }
    in = p->in_path ? open(p->in_path, O_RDONLY | O_NOCTTY) : p->in_fd >= 0 ? p->in_fd : open("/dev/null", O_RDONLY);
    if (in < 0 || fault(FAULT_INPUT))
        child_fail("cannot open input file %s: %s", p->in_path ? p->in_path : "/dev/null", strerror(errno));
    place(in, 0);
    out = p->out_path ? open_output(p->out_path, p->append, "output") : p->out_fd >= 0 ? p->out_fd : open("/dev/null", O_WRONLY);
    if (out < 0)
        child_fail("cannot open /dev/null: %s", strerror(errno));
    place(out, 1);
    if (p->err_path && p->out_path && !strcmp(p->err_path, p->out_path))
        err = 1;
    else
        err = p->err_path ? open_output(p->err_path, p->append, "error") : p->err_fd >= 0 ? p->err_fd : 1;
    place(err, 2);
}

static void take_limits(const struct task_plan *p)
{
    for (size_t i = 0; i < p->rlimit_count; i++) {
        const Wire__Rlimit *r = p->rlimits[i];
        struct rlimit now;

        if (r->resource >= RLIM_NLIMITS || !(p->limits_kept >> r->resource & 1) || getrlimit((__rlimit_resource_t)r->resource, &now) < 0)
            continue;
        now.rlim_cur = r->soft == UINT64_MAX ? RLIM_INFINITY : (rlim_t)r->soft;
        if (now.rlim_max != RLIM_INFINITY && (now.rlim_cur == RLIM_INFINITY || now.rlim_cur > now.rlim_max))
            now.rlim_cur = now.rlim_max;        /* the node's hard limit is the site's word */
        if (fault(FAULT_LIMIT) || setrlimit((__rlimit_resource_t)r->resource, &now) < 0)
            dprintf(2, "slurmstepd: error: cannot set limit %u of who submitted: %s\n", (unsigned)r->resource, strerror(errno));
    }
}

/* Older kernels. What /proc does not tell of is closed by number. */
static void close_listed(unsigned first)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned *fds = NULL, n = 0, fd;
    struct dirent *d;

    while (dir && (d = readdir(dir)))
        if (number_u32(d->d_name, &fd) && fd >= first && (int)fd != dirfd(dir)) {
            fds = mem_grow(fds, n + 1, sizeof *fds);
            fds[n++] = fd;
        }
    for (unsigned i = 0; i < n; i++)
        close((int)fds[i]);
    free(fds);
    if (dir)
        closedir(dir);
    else
        for (fd = first; fd < 4096; fd++)
            close((int)fd);
}

void task_close_from(unsigned first)
{
#ifdef SYS_close_range
    if (!fault(FAULT_CLOSE_RANGE) && syscall(SYS_close_range, first, ~0u, 0u) == 0)
        return;
#endif
    close_listed(first);
}

/* First line of a script, if it has one: for "bad interpreter". */
static bool interpreter_of(const char *path, char *out, size_t size)
{
    char line[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
    char *at;

    if (fd >= 0)
        close(fd);
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    at = line + 2 + strspn(line + 2, " \t");
    at[strcspn(at, " \t")] = '\0';
    snprintf(out, size, "%s", at);
    return true;
}

/* The supervisor may have to add a line to the job's error file later (cancelled, time limit), and must not open a user's path for it. */
static void send_streams(void)
{
    struct task_word w = { .stage = TASK_STREAMS };
    struct iovec v = { &w, sizeof w };
    union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = { 0 };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int fd = 2;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (fault(FAULT_STREAMS) || sendmsg(WORD_FD, &m, MSG_NOSIGNAL) < 0)
        child_fail("cannot talk to the supervisor: %s", strerror(errno));
}

#define FUSE_FILES 0x65735546

bool task_say(int err_fd, const char *text, size_t n)
{
    struct statfs fs;
    struct stat st;

    /* A pipe that nobody empties, or a file system that the user himself serves, would keep the supervisor, and the job would outlive its end. */
    if (fstat(err_fd, &st) < 0 || !S_ISREG(st.st_mode) || fstatfs(err_fd, &fs) < 0 || fs.f_type == FUSE_FILES)
        return true;
    return write(err_fd, text, n) >= 0;
}

int task_word_read(int word_fd, struct task_word *w, int *err_fd)
{
    struct iovec v = { w, sizeof *w };
    union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control;
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t n = recvmsg(word_fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *c;

    *err_fd = -1;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n != sizeof *w)
        return -1;
    c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof *err_fd))
        memcpy(err_fd, CMSG_DATA(c), sizeof *err_fd);
    w->text[sizeof w->text - 1] = '\0';
    return 1;
}

static _Noreturn void exec_failed(const char *program, int cause)
{
    struct task_word w = { .stage = TASK_EXEC_FAILED, .status = (cause == ENOENT || cause == ENOTDIR ? 127 : 126) << 8 };
    char interpreter[256];

    if (cause == ENOENT && interpreter_of(program, interpreter, sizeof interpreter))
        snprintf(w.text, sizeof w.text, "cannot execute %.100s: bad interpreter %.60s: %s", program, interpreter, strerror(cause));
    else
        snprintf(w.text, sizeof w.text, "cannot execute %.150s: %s", program, strerror(cause));
    dprintf(2, "slurmstepd: error: %s\n", w.text);
    if (write(WORD_FD, &w, sizeof w) < 0)
        _exit(125);
    _exit(w.status >> 8);
}

static _Noreturn void run_program(const struct task_plan *p)
{
    const char *path = environment_get(p->env, "PATH"), *program = p->program;
    int cause = ENOENT;
    char full[4096];

    if (fault(FAULT_EXEC))
        exec_failed(program, errno);
    if (strchr(program, '/')) {
        execve(program, p->argv, p->env->vars);
        exec_failed(program, errno);
    }
    for (const char *at = path ? path : "/usr/bin:/bin"; *program; ) {
        size_t n = strcspn(at, ":");

        if ((size_t)snprintf(full, sizeof full, "%.*s%s%s", (int)n, at, n ? "/" : "./", program) < sizeof full) {
            execve(full, p->argv, p->env->vars);
            if (errno != ENOENT && errno != ENOTDIR && cause != EACCES)
                cause = errno;          /* found but not usable: that is the better reason, and later folders may still have it */
            if (errno == ENOENT && access(full, F_OK) == 0)
                exec_failed(full, ENOENT);
        }
        if (!at[n])
            break;
        at += n + 1;
    }
    exec_failed(program, cause);
}

/* All of them, also the two that libc keeps for itself and that posix_spawn leaves ignored in what it starts. */
static void default_signals(void)
{
    struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); uint64_t mask; } plain = { 0 };

    for (int s = 1; s < NSIG; s++)
        if (signal(s, SIG_DFL) == SIG_ERR)
            syscall(SYS_rt_sigaction, s, &plain, NULL, sizeof plain.mask);
}

static _Noreturn void child_main(struct task_plan *p, int word_fd)
{
    struct spur_error err = { 0 };
    sigset_t none;
    int complaint = 0, fd;

    default_signals();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    word_to = word_fd;
    if (fault(FAULT_SESSION) || setsid() < 0)       /* without one its end would be somebody else's */
        child_fail("cannot lead a session: %s", strerror(errno));
    /* the socket's end goes to WORD_FD, everything else that is needed above 10 */
    word_fd = word_to = lifted(word_fd);
    if (p->in_fd >= 0)
        p->in_fd = lifted(p->in_fd);
    if (p->out_fd >= 0)
        p->out_fd = lifted(p->out_fd);
    if (p->err_fd >= 0)
        p->err_fd = lifted(p->err_fd);
    if (p->mpi_fd > 0)
        p->mpi_fd = lifted(p->mpi_fd);
    if (fault(FAULT_WORD) || dup3(word_fd, WORD_FD, O_CLOEXEC) < 0)
        child_fail("cannot place descriptor %d: %s", WORD_FD, strerror(errno));
    word_to = WORD_FD;
    environment_task_pid(p->env, getpid());
    if ((fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)) >= 0) {      /* the supervisor's protection is not the job's */
        if (write(fd, "0", 1) < 0)
            complaint = 0;
        close(fd);
    }
    if (container_enter(&err) < 0 || (p->hooks && p->hooks->privileged(p->hooks->arg, p, &err) < 0) || drop_become(&p->drop, &err) < 0)
        child_fail("%s", err.text);
    if (p->is_pty && pty_take(p->in_fd, &err) < 0)
        child_fail("%s", err.text);
    umask(p->umask);
    if (p->work_dir && (fault(FAULT_WORK_DIR) || fault(FAULT_LAST_DIR) || chdir(p->work_dir) < 0)) {
        complaint = errno;
        if ((fault(FAULT_LAST_DIR) || chdir("/tmp") < 0) && chdir("/") < 0)
            child_fail("cannot change to %s nor to /tmp: %s", p->work_dir, strerror(errno));
    }
    open_streams(p);
    if (p->err_path || (p->out_path && p->err_fd < 0))      /* not a pipe to srun: its end would never come */
        send_streams();
    take_limits(p);
    if (complaint)
        dprintf(2, "slurmstepd: error: couldn't chdir to `%s': %s: going to /tmp instead\n", p->work_dir, strerror(complaint));
    if (p->line)
        dprintf(2, "%s", p->line);
    if (p->cpus)
        cpus_apply(p->cpus);
    if (p->mpi_fd > 0)
        place(p->mpi_fd, SPUR_MPI_TASK_FD);
    if (!p->hooks)
        task_close_from(WORD_FD + 1 + (p->mpi_fd > 0));
    else if (p->hooks->last(p->hooks->arg, p, &err) < 0)        /* all of ours close at the exec; what is open beyond is what a plugin means to hand on */
        child_fail("%s", err.text);
    for (int i = 0; i < 2; i++)
        if (p->prologs[i] && (fault(FAULT_PROLOG) ? spur_fail(&err, SPUR_EIO, "cannot start the task prolog: %s", strerror(errno)) :
                              task_prolog(p->prologs[i], p->env, 1, &err)) < 0) {
            dprintf(2, "slurmstepd: error: %s\n", err.text);
            child_fail("%s", err.text);
        }
    run_program(p);
}

/* The raw call, for glibc's fork has no flags: the child must have one thread's state only, which it has here. */
static pid_t fork_beside(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_PARENT | (unsigned long)SIGCHLD, 0, 0, 0, 0);
}

int task_fork(const struct task_plan *plan, pid_t *pid, int *word_fd, struct spur_error *err)
{
    struct task_plan copy = *plan;
    int pair[2];
    int rc;

    if ((rc = drop_possible(&plan->drop, err)) < 0)
        return rc;
    if (fault(FAULT_TASK_SOCKET) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return spur_fail(err, SPUR_EIO, "cannot make a task's socket: %s", strerror(errno));
    *pid = fault(FAULT_TASK_FORK) ? -1 : plan->hooks ? fork_beside() : fork();
    if (*pid == 0)
        child_main(&copy, pair[1]);
    close(pair[1]);
    if (*pid < 0) {
        close(pair[0]);
        return spur_fail(err, SPUR_EIO, "cannot fork a task: %s", strerror(errno));
    }
    *word_fd = pair[0];
    return 0;
}
