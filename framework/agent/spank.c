/* SPDX-License-Identifier: Apache-2.0 */
/* spank.c - the host: a child of the supervisor in which the SPANK plugins of a step live.
 *
 *     supervisor                     host                                       tasks
 *        fork ------------------->  load, options, init, init_post_opt
 *        BEGUN <------------------  user_init, as the user
 *        TASK  <------------------  fork each, with CLONE_PARENT ------------>  wait at the gate
 *        ALL   <------------------
 *        GO    ------------------>  task_post_fork; open the gate ----------->  task_init_privileged, drop, task_init, exec
 *        ENDED ------------------>  task_exit
 *        END   ------------------>  exit; the process ends
 *
 * Why not in the supervisor: a plugin may take minutes in user_init (an image is fetched), and it may crash; the supervisor has to stay there to be
 * cancelled, to report and to be adopted. Why tasks are forked here: they inherit what plugins have set up. CLONE_PARENT makes them the
 * supervisor's children all the same, so it reaps them as always and knows each before it can run: the gate opens after the last fork.
 * What a plugin writes into its mark (shared memory) before each call tells, when the host is killed, which plugin it was.
 * A host whose supervisor has gone ends itself through slurm_spank_exit.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/spank.h"
#include "base/bitmap.h"
#include "base/str.h"
#include "spank/stack.h"

#define EXIT_WAIT_MS 60000      /* for slurm_spank_exit: a container's files may have to go */
#define HURRY_WAIT_MS 3000      /* the job was ended while user_init still ran */
#define KEPT_FIRST 3            /* task.c places descriptors there (its word, mpi's socket): no plugin may get them */
#define KEPT_LAST  4

enum word_kind { WORD_EMPTY = 1, WORD_BEGUN, WORD_TASK, WORD_ALL, WORD_SAID, WORD_FAILED, WORD_GO, WORD_ENDED, WORD_END };
struct word { uint32_t kind, local; int32_t pid, status; uint32_t fds; char text[700]; };      /* fds: bit i set: the i-th of word, in, out, err comes along */

struct spank_host {
    pid_t pid;
    int   fd;
    bool  finishing;
    int64_t deadline_ms;
    struct spank_mark *mark;
};

static bool send_word(int fd, const struct word *w, const int *fds, int count)
{
    struct iovec v = { (void *)(uintptr_t)w, sizeof *w };
    union { struct cmsghdr head; char room[CMSG_SPACE(4 * sizeof(int))]; } control = { 0 };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

    if (count) {
        struct cmsghdr *c = &control.head;

        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
    }
    for (;;) {
        ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);

        if (n == (ssize_t)sizeof *w)
            return true;
        if (n >= 0 || errno != EINTR)
            return false;
    }
}

/* 1: a word; 0: none yet; -1: the other end has gone. */
static int read_word(int fd, bool wait, struct word *w, int fds[4])
{
    struct iovec v = { w, sizeof *w };
    union { struct cmsghdr head; char room[CMSG_SPACE(4 * sizeof(int))]; } control;
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    struct cmsghdr *c;
    ssize_t n;

    for (int i = 0; i < 4; i++)
        fds[i] = -1;
    do
        n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n != (ssize_t)sizeof *w)
        return -1;
    c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int), next = 0;

        for (size_t i = 0; i < 4; i++)
            if (w->fds >> i & 1 && next < count)
                memcpy(&fds[i], CMSG_DATA(c) + sizeof(int) * next++, sizeof(int));
    }
    w->text[sizeof w->text - 1] = '\0';
    return 1;
}

size_t spank_host_orphans(void)
{
    char path[64];
    size_t n = 0;
    int child;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    if (!(f = fopen(path, "re")))
        return 0;
    while (fscanf(f, "%d", &child) == 1)
        n += kill(child, SIGKILL) == 0;
    fclose(f);
    return n;
}

/* ---- the host's own process ------------------------------------------------------------------------------------------------------------ */

struct host {
    const Wire__StepOrder *order;
    struct spank_life life;
    int    fd, gate[2];
    struct spank_stack *stack;
    struct spank_facts facts;
    struct environment *env;
    gid_t *groups;
    pid_t *pids;
    uint32_t *globals;
    struct str job_cores, step_cores;
    bool   is_task, user_listens;           /* in a task; and its standard error is the user's already */
    struct task_plan *plan;                 /* of the task that we are */
    char **argv;                            /* its arguments once a plugin has put some in front */
};

static struct host *host_here;              /* spank.h's log functions have no argument; one host a process */

static void tell(struct host *h, enum word_kind kind, uint32_t local, const char *text)
{
    struct word w = { .kind = kind, .local = local };

    if (text)
        snprintf(w.text, sizeof w.text, "%s", text);
    send_word(h->fd, &w, NULL, 0);
}

/* Errors and slurm_spank_log go to the user, the rest to nobody: a step has no log of its own. */
static void said(void *arg, enum spank_level level, const char *text)
{
    struct host *h = arg;
    char line[700];

    if (level > SPANK_LOG_ERROR)
        return;
    snprintf(line, sizeof line, "%s%.650s\n", level == SPANK_LOG_ERROR ? "slurmstepd: error: " : "", text);
    if (h->is_task && h->user_listens)
        dprintf(2, "%s", line);
    else
        tell(h, WORD_SAID, 0, line);
}

static const char *env_get(void *of, const char *name) { return environment_get(of, name); }
static char **env_list(void *of) { return ((struct environment *)of)->vars; }
static void env_set(void *of, const char *name, const char *value)
{
    if (value)
        environment_set(of, name, value);
    else
        environment_unset(of, name);
}

static int argc_of(char **argv)
{
    int n = 0;

    while (argv && argv[n])
        n++;
    return n;
}

static void cores_text(const Wire__NodeAlloc *a, struct str *out)
{
    struct bitmap b = { .bits = a ? a->n_cores * 64 : 0, .words = a ? a->cores : NULL };

    str_init(out);
    if (b.bits)
        bitmap_print(&b, out);
}

static const Wire__NodeAlloc *job_alloc(const Wire__StepOrder *o)
{
    const Wire__JobInfo *job = o->launch->job;

    for (size_t i = 0; job && i < job->n_allocs; i++)
        if (!strcmp(job->allocs[i]->name, o->node))
            return job->allocs[i];
    return order_alloc(o);
}

static void facts_fill(struct host *h, char **argv)
{
    const Wire__StepOrder *o = h->order;
    const Wire__Launch *l = o->launch;
    const Wire__JobInfo *job = l->job;
    const Wire__JobSpec *spec = l->spec ? l->spec : job ? job->spec : NULL;
    const Wire__NodeAlloc *mine = order_alloc(o), *of_job = job_alloc(o);
    struct spank_facts *f = &h->facts;

    f->known = ~UINT64_C(0);
    f->uid = o->grant->uid;
    f->gid = o->grant->gid;
    h->groups = mem_array(o->grant->n_groups + 1, sizeof *h->groups);
    for (size_t i = 0; i < o->grant->n_groups; i++)
        h->groups[i] = o->grant->groups[i];
    f->groups = h->groups;
    f->group_count = (int)o->grant->n_groups;
    f->job_id = o->grant->job_id;
    f->step_id = order_is_batch(o) ? 0xfffffffbu : o->grant->step_id;       /* SLURM_BATCH_SCRIPT, whatever number we have inside */
    f->nodes = order_is_batch(o) ? (job && job->has_num_nodes ? job->num_nodes : (uint32_t)o->grant->n_nodes) : (uint32_t)l->n_step_nodes;
    f->node_rank = order_is_batch(o) ? 0 : order_step_rank(o);
    f->local_tasks = order_local_tasks(o);
    h->globals = mem_array(f->local_tasks + 1, sizeof *h->globals);
    for (uint32_t i = 0; i < f->local_tasks; i++)
        h->globals[i] = order_task(o, i);
    f->globals = h->globals;
    f->total_tasks = order_is_batch(o) ? 1 : 0;
    for (size_t i = 0; !order_is_batch(o) && i < l->n_step_nodes; i++)
        f->total_tasks += l->step_nodes[i]->tasks;
    f->cpus_per_task = l->step && l->step->has_cpus_per_task ? l->step->cpus_per_task : spec && spec->has_cpus_per_task ? spec->cpus_per_task : 1;
    f->cpus = (uint16_t)(of_job && of_job->has_cpus ? of_job->cpus : 0);
    f->restarts = l->restarts;
    f->array_id = job && job->has_array_task_id ? job->array_job_id : 0;
    f->array_task = job && job->has_array_task_id ? job->array_task_id : 0xfffffffeu;
    cores_text(of_job, &h->job_cores);
    cores_text(mine, &h->step_cores);
    f->job_cores = h->job_cores.text;
    f->step_cores = h->step_cores.text;
    f->job_mem_mib = of_job && of_job->has_mem_mib ? of_job->mem_mib : 0;
    f->step_mem_mib = mine && mine->has_mem_mib ? mine->mem_mib : f->job_mem_mib;
    f->argv = argv;
    f->argc = argc_of(argv);
    f->env_of = h->env;
    f->env_get = env_get;
    f->env_set = env_set;
    f->env_list = env_list;
    h->pids = mem_array(f->local_tasks + 1, sizeof *h->pids);
    f->pids = h->pids;
}

/* ---- in a task ---- */

/* Blocks until all tasks have been forked and the supervisor knows them. False: it has been called off. */
static bool gate_wait(const struct host *h)
{
    char byte;
    ssize_t n;

    close(h->gate[1]);
    do
        n = read(h->gate[0], &byte, 1);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static int prepend(void *of, int argc, const char *const *argv)
{
    struct host *h = of;
    int had = argc_of((char **)(uintptr_t)h->plan->argv);
    char **fresh = mem_array((size_t)(argc + had) + 1, sizeof *fresh);

    for (int i = 0; i < argc; i++)
        fresh[i] = mem_copy(argv[i]);
    memcpy(fresh + argc, h->plan->argv, (size_t)had * sizeof *fresh);
    h->plan->argv = h->argv = fresh;
    h->plan->program = fresh[0];
    h->facts.argv = fresh;
    h->facts.argc = argc + had;
    return 0;
}

/* The reason goes into the job's record by the supervisor; the user reads it here. */
static int call_told(struct host *h, enum spank_hook hook, struct spur_error *err)
{
    int rc = spank_stack_call(h->stack, hook, err);

    if (rc < 0)
        spank_log_line(SPANK_LOG_ERROR, "%s", err->text);
    return rc;
}

static int task_privileged(void *arg, struct task_plan *plan, struct spur_error *err)
{
    struct host *h = arg;

    if (!gate_wait(h))
        _exit(1);
    h->is_task = true;
    h->plan = plan;
    h->facts.task_pid = getpid();
    h->facts.env_of = plan->env;
    h->facts.argv = (char **)(uintptr_t)plan->argv;
    h->facts.argc = argc_of(h->facts.argv);
    h->facts.argv_of = h;
    h->facts.argv_prepend = prepend;
    return call_told(h, SPANK_ON_task_init_privileged, err);
}

static int task_last(void *arg, struct task_plan *plan, struct spur_error *err)
{
    struct host *h = arg;

    (void)plan;
    h->user_listens = true;
    return call_told(h, SPANK_ON_task_init, err);
}

/* ---- the stations of a host ---- */

/* user_init runs with the user's effective ids; the saved ones lead back. */
static int as_user(struct host *h, struct spur_error *err)
{
    gid_t *ours, gid = getegid();
    int n = getgroups(0, NULL), rc;

    if (geteuid() != 0)
        return spank_stack_call(h->stack, SPANK_ON_user_init, err);
    ours = mem_array((size_t)(n > 0 ? n : 0) + 1, sizeof *ours);
    n = getgroups(n, ours);
    if (n < 0 || setgroups((size_t)h->facts.group_count, h->groups) < 0 || setegid(h->facts.gid) < 0 || seteuid(h->facts.uid) < 0)
        rc = spur_fail(err, SPUR_EDENIED, "cannot take the ids of user %u for the SPANK plugins: %s", (unsigned)h->facts.uid, strerror(errno));
    else
        rc = spank_stack_call(h->stack, SPANK_ON_user_init, err);
    if (seteuid(0) < 0 || setegid(gid) < 0 || setgroups((size_t)(n > 0 ? n : 0), ours) < 0)
        rc = spur_fail(err, SPUR_EDENIED, "cannot take back the ids of root after slurm_spank_user_init: %s", strerror(errno));
    free(ours);
    return rc;
}

static int fork_tasks(struct host *h, struct spur_error *err)
{
    struct task_hooks hooks = { h, task_privileged, task_last };

    if (pipe2(h->gate, O_CLOEXEC) < 0)
        return spur_fail(err, SPUR_EIO, "cannot make a pipe: %s", strerror(errno));
    for (uint32_t i = 0; i < h->facts.local_tasks; i++) {
        struct task_parts parts = { -1, -1, -1, -1, -1 };
        struct word w = { .kind = WORD_TASK, .local = i };
        int fds[4], all[4], count = 0, rc;

        h->facts.task = i;
        if ((rc = h->life.make(h->life.arg, i, &hooks, &parts, err)) < 0)
            return rc;
        h->pids[i] = parts.pid;
        h->facts.pid_count = i + 1;
        w.pid = parts.pid;
        memcpy(all, (int[4]){ parts.word_fd, parts.in_fd, parts.out_fd, parts.err_fd }, sizeof all);
        for (unsigned k = 0; k < 4; k++)
            if (all[k] >= 0) {
                fds[count++] = all[k];
                w.fds |= 1u << k;
            }
        if (!send_word(h->fd, &w, fds, count))
            return spur_fail(err, SPUR_ECLOSED, "the supervisor has gone");
        for (int k = 0; k < count; k++)
            close(fds[k]);
    }
    tell(h, WORD_ALL, 0, NULL);
    return 0;
}

static void start_tasks(struct host *h)
{
    struct spur_error err = { 0 };

    close(h->gate[0]);
    for (uint32_t i = 0; i < h->facts.local_tasks; i++) {
        h->facts.task = i;
        h->facts.task_pid = h->pids[i];
        if (spank_stack_call(h->stack, SPANK_ON_task_post_fork, &err) < 0)     /* ends no job: the manual's table of errors */
            spank_log_line(SPANK_LOG_ERROR, "%s", err.text);
    }
    for (uint32_t i = 0; i < h->facts.local_tasks; i++)
        if (write(h->gate[1], "g", 1) < 0)
            break;
    close(h->gate[1]);
}

static void task_over(struct host *h, uint32_t local, int status)
{
    struct spur_error err = { 0 };

    h->facts.task = local;
    h->facts.task_pid = local < h->facts.pid_count ? h->pids[local] : 0;
    h->facts.task_status = status;
    if (spank_stack_call(h->stack, SPANK_ON_task_exit, &err) < 0)
        spank_log_line(SPANK_LOG_ERROR, "%s", err.text);
}

static void serve(struct host *h)
{
    struct word w;
    int fds[4];

    while (read_word(h->fd, true, &w, fds) > 0 && w.kind != WORD_END) {
        if (w.kind == WORD_GO)
            start_tasks(h);
        else if (w.kind == WORD_ENDED)
            task_over(h, w.local, w.status);
    }
}

static void nothing(int number) { (void)number; }

/* Signals of the job are sent to all of its container, us among it: taken and forgotten, and back at their default in whatever a plugin executes. */
static void deafen(void)
{
    struct sigaction act = { .sa_handler = nothing, .sa_flags = SA_RESTART };
    sigset_t none;

    sigemptyset(&act.sa_mask);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGCHLD && s != SIGSEGV && s != SIGBUS && s != SIGILL && s != SIGFPE && s != SIGABRT && s != SIGTRAP && s != SIGTSTP && s != SIGTTIN && s != SIGTTOU)
            sigaction(s, &act, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int prepare(struct host *h, struct spur_error *err)
{
    char **argv = NULL;
    int rc;

    h->env = h->life.begin(h->life.arg, &argv);
    facts_fill(h, argv);
    if ((rc = spank_stack_open(h->order->plugstack, h->order->plugin_dir, S_CTX_REMOTE, &h->facts, &h->stack, err)) < 0)
        return rc;
    if (!h->stack) {
        tell(h, WORD_EMPTY, 0, NULL);
        _exit(0);
    }
    if ((rc = spank_stack_call(h->stack, SPANK_ON_init, err)) < 0 ||
        (rc = spank_stack_options_carried(h->stack, env_get, h->env, err)) < 0 ||
        (rc = spank_stack_call(h->stack, SPANK_ON_init_post_opt, err)) < 0)
        return rc;
    tell(h, WORD_BEGUN, 0, NULL);
    return 0;
}

static _Noreturn void host_main(const Wire__StepOrder *order, const struct spank_life *life, int fd, struct spank_mark *mark)
{
    struct host h = { .order = order, .life = *life, .fd = fd };
    struct spur_error err = { 0 };
    int kept;

    prctl(PR_SET_NAME, "spurstepd-spank");
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);      /* what plugins start and leave is ours to end, not the supervisor's */
    life->close(life->arg);
    for (int to = KEPT_FIRST; to <= KEPT_LAST; to++)
        if (fcntl(to, F_GETFD) < 0 && (kept = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && kept != to) {
            dup3(kept, to, O_CLOEXEC);
            close(kept);
        }
    host_here = &h;
    spank_mark_in(mark);
    spank_log_to(said, &h);
    deafen();
    if (prepare(&h, &err) < 0 || as_user(&h, &err) < 0 || fork_tasks(&h, &err) < 0)
        tell(&h, WORD_FAILED, 0, err.text);
    serve(&h);
    if (h.stack && spank_stack_call(h.stack, SPANK_ON_exit, &err) < 0)
        spank_log_line(SPANK_LOG_ERROR, "%s", err.text);
    while (spank_host_orphans() > 0 && waitpid(-1, NULL, 0) > 0)
        ;
    _exit(0);
}

/* ---- the supervisor's end ----------------------------------------------------------------------------------------------------------------- */

struct spank_host *spank_host_start(const Wire__StepOrder *order, const struct spank_life *life, struct spur_error *err)
{
    struct spank_host *h;
    int pair[2];

    if (!order->plugstack || access(order->plugstack, F_OK) < 0)
        return NULL;
    h = mem_alloc(sizeof *h);
    h->deadline_ms = INT64_MAX;
    h->mark = mmap(NULL, sizeof *h->mark, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (h->mark == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        spur_fail(err, SPUR_EIO, "cannot make the SPANK plugins' socket: %s", strerror(errno));
        if (h->mark != MAP_FAILED)
            munmap(h->mark, sizeof *h->mark);
        free(h);
        return NULL;
    }
    h->pid = fork();
    if (h->pid == 0) {
        close(pair[0]);
        host_main(order, life, pair[1], h->mark);
    }
    close(pair[1]);
    h->fd = pair[0];
    if (h->pid < 0) {
        spur_fail(err, SPUR_EIO, "cannot fork for the SPANK plugins: %s", strerror(errno));
        spank_host_free(h);
        return NULL;
    }
    return h;
}

void spank_host_free(struct spank_host *h)
{
    if (!h)
        return;
    if (h->fd >= 0)
        close(h->fd);
    munmap(h->mark, sizeof *h->mark);
    free(h);
}

int spank_host_fd(const struct spank_host *h) { return h ? h->fd : -1; }
pid_t spank_host_pid(const struct spank_host *h) { return h ? h->pid : 0; }
int64_t spank_host_deadline(const struct spank_host *h) { return h && h->pid ? h->deadline_ms : INT64_MAX; }

enum spank_event spank_host_next(struct spank_host *h, struct spank_news *out)
{
    static const enum spank_event events[] = { [WORD_EMPTY] = SPANK_EMPTY, [WORD_BEGUN] = SPANK_BEGUN, [WORD_TASK] = SPANK_TASK, [WORD_ALL] = SPANK_ALL,
                                               [WORD_SAID] = SPANK_SAID, [WORD_FAILED] = SPANK_FAILED };
    struct word w;
    int fds[4], got;

    if (!h || h->fd < 0)
        return SPANK_NOTHING;
    got = read_word(h->fd, false, &w, fds);
    if (got < 0) {
        close(h->fd);
        h->fd = -1;
    }
    if (got <= 0 || w.kind < WORD_EMPTY || w.kind > WORD_FAILED)
        return SPANK_NOTHING;
    out->event = events[w.kind];
    out->local = w.local;
    out->parts = (struct task_parts){ w.pid, fds[0], fds[1], fds[2], fds[3] };
    snprintf(out->text, sizeof out->text, "%s", w.text);
    return out->event;
}

static void say(struct spank_host *h, const struct word *w)
{
    if (h && h->fd >= 0)
        send_word(h->fd, w, NULL, 0);
}

void spank_host_go(struct spank_host *h) { say(h, &(struct word){ .kind = WORD_GO }); }

void spank_host_task_ended(struct spank_host *h, uint32_t local, int status)
{
    say(h, &(struct word){ .kind = WORD_ENDED, .local = local, .status = status });
}

void spank_host_finish(struct spank_host *h, int64_t now_ms, bool hurry)
{
    if (!h || h->finishing)
        return;
    h->finishing = true;
    h->deadline_ms = now_ms + (hurry ? HURRY_WAIT_MS : EXIT_WAIT_MS);
    say(h, &(struct word){ .kind = WORD_END });
}

const char *spank_host_reaped(struct spank_host *h, int status, char *buf, size_t size)
{
    h->pid = 0;
    h->deadline_ms = INT64_MAX;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return NULL;
    h->mark->text[sizeof h->mark->text - 1] = '\0';
    if (WIFSIGNALED(status))
        snprintf(buf, size, "SPANK plugins: the process that holds them was ended by signal %d (%s) in %s", WTERMSIG(status), strsignal(WTERMSIG(status)), h->mark->text);
    else
        snprintf(buf, size, "SPANK plugins: the process that holds them ended with %d in %s", WEXITSTATUS(status), h->mark->text);
    return buf;
}

void spank_host_kill(struct spank_host *h)
{
    if (h && h->pid > 0)
        kill(h->pid, SIGKILL);
}
