/* SPDX-License-Identifier: Apache-2.0 */
/* private_tmp.c - folders of a node that each job has for itself.
 *
 * The job's folders lie on the node, BasePath/SCOPE/job_ID/0, 1, ..., below one that root alone may enter; what stands for /dev/shm lies in the node's
 * /dev/shm, so that it is memory. Each step binds them over /tmp and /dev/shm in a mount namespace of its own: all steps of a job see the same files, no
 * mount is ever made on the node itself, and so none can be left behind. The namespace lives as long as the step's supervisor and tasks.
 * The agent removes the folders when the job has gone from the node: through descriptors, links are not followed.
 * A namespace is made by a child of the supervisor that mounts, runs InitScript and says so; the supervisor itself stays outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/inside.h"
#include "agent/private_tmp.h"
#include "agent/fault.h"
#include "config/job_container.h"
#include "rpc/folder.h"

#define MAKE_MS   60000         /* InitScript included */
#define SHM       "/dev/shm"
#define DIRS_MAX  16

/* ---- the agent ---- */

static bool lies_in(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    while (n > 1 && dir[n - 1] == '/')
        n--;
    return path && !strncmp(path, dir, n) && (path[n] == '/' || !path[n]);
}

/* job_container.conf beside slurm.conf; false: there is none. */
static bool read_conf(const struct agent *a, char **text)
{
    const char *conf = a->set->conf_path ? a->set->conf_path : "/etc/slurm/slurm.conf", *slash = strrchr(conf, '/');
    char path[1100];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "%.*s/job_container.conf", slash ? (int)(slash - conf) : 1, slash ? conf : ".");
    if (!(f = fopen(path, "re")))
        return false;
    *text = mem_alloc((64u << 10) + 1);
    n = fread(*text, 1, 64u << 10, f);
    fclose(f);
    (*text)[n] = '\0';
    return true;
}

static Wire__PrivateTmp *made(const struct agent *a, const struct config_job_container *c, struct spur_error *err)
{
    Wire__PrivateTmp *t = mem_alloc(sizeof *t);

    wire__private_tmp__init(t);
    t->base_path = settings_path(c->base_path, hostlist_nth(a->set->names, 0), a->set->host);
    t->init_script = mem_copy(c->init_script);
    t->has_auto_base = t->has_shared = true;
    t->auto_base = c->auto_base;
    t->shared = c->shared;
    t->dirs = mem_array(DIRS_MAX + 1, sizeof *t->dirs);
    for (const char *at = c->dirs; *at; ) {
        size_t n = strcspn(at, ",");
        char *dir = mem_alloc(n + 1);

        memcpy(dir, at, n);
        if (t->n_dirs == DIRS_MAX)
            spur_fail(err, SPUR_ELIMIT, "Dirs names more than %d folders", DIRS_MAX);
        else if (lies_in(a->set->spool_dir, dir))
            spur_fail(err, SPUR_EINVAL, "SlurmdSpoolDir %.80s lies in %.40s, which jobs would have for themselves: move it, or leave %.40s out of Dirs",
                      a->set->spool_dir, dir, dir);
        if (t->n_dirs < DIRS_MAX)
            t->dirs[t->n_dirs++] = dir;
        else
            free(dir);
        at += n + (at[n] == ',');
    }
    if (!err->code && t->auto_base)
        folder_make(t->base_path, 0755, err);
    if (!err->code && access(t->base_path, X_OK) < 0)
        spur_fail(err, SPUR_ENOTFOUND, "BasePath %.120s: %s (AutoBasePath=true makes it)", t->base_path, strerror(errno));
    if (err->code) {
        private_tmp_free(t);
        return NULL;
    }
    return t;
}

Wire__PrivateTmp *private_tmp_settle(const struct agent *a, char *fault, size_t size)
{
    const char *type = a->set->contain.job_container;
    struct config_job_container c = { 0 };
    struct spur_error err = { 0 };
    Wire__PrivateTmp *t = NULL;
    char *text = NULL;

    if (!type || !*type || word_eq(type, "job_container/none") || word_eq(type, "none") || word_eq(type, "(null)"))
        return NULL;
    if (geteuid() != 0) {
        log_line(SPUR_LOG_WARN, "JobContainerType=%s: only root makes namespaces; jobs of this agent share /tmp of the node", type);
        return NULL;
    }
    if (!word_eq(type, "job_container/tmpfs") && !word_eq(type, "tmpfs"))
        spur_fail(&err, SPUR_EUNSUPPORTED, "JobContainerType=%.60s: there is job_container/tmpfs only", type);
    else if (!read_conf(a, &text))
        spur_fail(&err, SPUR_ENOTFOUND, "JobContainerType=job_container/tmpfs needs job_container.conf with BasePath beside slurm.conf");
    else if (job_container_parse(text, hostlist_nth(a->set->names, 0), &c, &err) == 0 && c.base_path)
        t = made(a, &c, &err);
    if (err.code && !*fault)
        snprintf(fault, size, "%.230s", err.text);
    if (t)
        log_line(SPUR_LOG_INFO, "each job has %s of its own, in %s", c.dirs, t->base_path);
    else if (!err.code)
        log_line(SPUR_LOG_INFO, "jobs share /tmp of this node: job_container.conf gives it no BasePath");
    job_container_fini(&c);
    free(text);
    return t;
}

void private_tmp_free(Wire__PrivateTmp *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_dirs; i++)
        free(t->dirs[i]);
    free(t->dirs);
    free(t->base_path);
    free(t->init_script);
    free(t);
}

struct leaving { uv_work_t work; char roots[2][400], job[32]; };

static void leave_work(uv_work_t *w)
{
    struct leaving *l = w->data;

    for (int i = 0; i < 2; i++) {
        int fd = *l->roots[i] ? open(l->roots[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

        if (fd < 0)
            continue;
        folder_remove(fd, l->job, NULL);
        close(fd);
        rmdir(l->roots[i]);             /* with the last job */
    }
}

static void leave_done(uv_work_t *w, int status)
{
    (void)status;
    free(w->data);
}

static void root_of(const char *base, const char *scope, char *out, size_t size)
{
    snprintf(out, size, "%.250s/%.100s", base, scope);
}

void private_tmp_over(struct agent *a, uint32_t job_id)
{
    const Wire__PrivateTmp *t = a->contain ? a->contain->tmp : NULL;
    struct leaving *l;

    if (!t)
        return;
    l = mem_alloc(sizeof *l);
    l->work.data = l;
    root_of(t->base_path, a->contain->scope, l->roots[0], sizeof l->roots[0]);
    root_of(SHM, a->contain->scope, l->roots[1], sizeof l->roots[1]);
    snprintf(l->job, sizeof l->job, "job_%u", job_id);
    if (uv_queue_work(a->loop, &l->work, leave_work, leave_done) < 0)
        free(l);
}

/* ---- the supervisor ---- */

/* BASE/SCOPE/job_ID/N, made when it is not there. */
static int source_make(const Wire__StepOrder *o, const char *base, unsigned n, char path[480], struct spur_error *err)
{
    const Wire__Credential *c = o->grant;
    char root[400], job[450];
    int fd, rc = 0;

    root_of(base, o->contain->scope ? o->contain->scope : "spur", root, sizeof root);
    snprintf(job, sizeof job, "%s/job_%u", root, c->job_id);
    snprintf(path, 480, "%s/%u", job, n);
    for (int try = 0; ; try++) {        /* the folder above goes with the last job before this one */
        if (folder_make(root, 0700, err) < 0)
            return err->code;
        if (fault(FAULT_TMP_SOURCE) || (mkdir(job, 0700) < 0 && errno != EEXIST) || (mkdir(path, 0700) < 0 && errno != EEXIST)) {
            if (errno == ENOENT && try < 20)
                continue;
            return spur_fail(err, errno == ENOSPC ? SPUR_ENOSPACE : SPUR_EIO, "cannot make %.150s: %s", path, strerror(errno));
        }
        break;
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, c->uid, c->gid) < 0 || fchmod(fd, 01777) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot prepare %.150s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

/* In the child that makes the namespace. Sources are opened in it, since a namespace binds only what is its own, and all before the first is mounted, for one
 * may hide the next. */
static int bind_all(const Wire__PrivateTmp *t, char (*sources)[480], struct spur_error *err)
{
    int fds[DIRS_MAX];
    char from[64];

    if (fault(FAULT_TMP_UNSHARE) || unshare(CLONE_NEWNS) < 0)
        return spur_fail(err, SPUR_EIO, "cannot make a mount namespace: %s", strerror(errno));
    /* Shared: what the node mounts later (an automounter) is seen by the job; never the other way */
    if (fault(FAULT_TMP_PART) || mount(NULL, "/", NULL, MS_REC | (t->shared ? MS_SLAVE : MS_PRIVATE), NULL) < 0)
        return spur_fail(err, SPUR_EIO, "cannot part the job's mounts from the node's: %s", strerror(errno));
    for (size_t i = 0; i < t->n_dirs; i++)
        if (fault(FAULT_TMP_OPEN) || (fds[i] = open(sources[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
            return spur_fail(err, SPUR_EIO, "cannot open %.150s: %s", sources[i], strerror(errno));
    for (size_t i = 0; i < t->n_dirs; i++) {
        snprintf(from, sizeof from, "/proc/self/fd/%d", fds[i]);
        if (fault(FAULT_TMP_BIND) || mount(from, t->dirs[i], NULL, MS_BIND, NULL) < 0)
            return spur_fail(err, SPUR_EIO, "cannot mount the job's own %.100s: %s", t->dirs[i], strerror(errno));
    }
    return 0;
}

static int init_run(const Wire__StepOrder *o, const char *program, struct spur_error *err)
{
    char job[48], uid[48], node[300];
    char *args[] = { (char *)(uintptr_t)program, NULL };
    char *env[] = { (char *)(uintptr_t)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", job, uid, node, NULL };
    int status;
    pid_t pid;

    snprintf(job, sizeof job, "SLURM_JOB_ID=%u", o->grant->job_id);
    snprintf(uid, sizeof uid, "SLURM_JOB_UID=%u", o->grant->uid);
    snprintf(node, sizeof node, "SLURMD_NODENAME=%.250s", o->node);
    pid = fork();
    if (pid == 0) {
        execve(program, args, env);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
        return spur_fail(err, SPUR_EIO, "InitScript %.120s failed (%s %d)", program, pid > 0 && WIFSIGNALED(status) ? "signal" : "exit code",
                         pid > 0 ? WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) : -1);
    return 0;
}

static _Noreturn void maker_main(const Wire__StepOrder *o, char (*sources)[480], int said)
{
    const Wire__PrivateTmp *t = o->contain->tmp;
    struct spur_error err = { 0 };

    setpgid(0, 0);                      /* ended with its InitScript when it takes too long */
    if (bind_all(t, sources, &err) == 0 && t->init_script)
        init_run(o, t->init_script, &err);
    if (write(said, &err, sizeof err) < 0)
        _exit(1);
    for (;;)
        pause();                        /* until the namespace has been opened */
}

int private_tmp_make(const Wire__StepOrder *o, int *ns_fd, struct spur_error *err)
{
    const Wire__PrivateTmp *t = o->contain ? o->contain->tmp : NULL;
    char sources[DIRS_MAX][480];
    int said[2] = { -1, -1 }, rc = 0;
    struct spur_error theirs = { 0 };
    struct pollfd p;
    char path[64];
    pid_t pid = -1;

    *ns_fd = -1;
    if (!t)
        return 0;
    for (size_t i = 0; rc == 0 && i < t->n_dirs && i < DIRS_MAX; i++)
        rc = source_make(o, lies_in(t->dirs[i], SHM) ? SHM : t->base_path, (unsigned)i, sources[i], err);
    if (rc == 0 && (pipe2(said, O_CLOEXEC) < 0 || fault(FAULT_TMP_FORK) || (pid = fork()) < 0))
        rc = spur_fail(err, SPUR_EIO, "cannot start what makes a namespace: %s", strerror(errno));
    if (pid == 0)
        maker_main(o, sources, said[1]);
    if (said[1] >= 0)
        close(said[1]);
    if (rc == 0) {
        p = (struct pollfd){ .fd = said[0], .events = POLLIN };
        while (poll(&p, 1, MAKE_MS) < 0 && errno == EINTR)
            ;
        if (!p.revents)
            rc = spur_fail(err, SPUR_ETIMEOUT, "the job's own /tmp was not ready within %d s%s", MAKE_MS / 1000, t->init_script ? ": does InitScript hang?" : "");
        else if (read(said[0], &theirs, sizeof theirs) != sizeof theirs)
            rc = spur_fail(err, SPUR_EIO, "the job's own /tmp could not be made");
        else if (theirs.code)
            rc = spur_fail(err, theirs.code, "%s", theirs.text);
        snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
        if (rc == 0 && (fault(FAULT_TMP_KEEP) || (*ns_fd = open(path, O_RDONLY | O_CLOEXEC)) < 0))
            rc = spur_fail(err, SPUR_EIO, "cannot open the job's namespace: %s", strerror(errno));
    }
    if (pid > 0) {
        if (kill(-pid, SIGKILL) < 0)
            kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (said[0] >= 0)
        close(said[0]);
    return rc < 0 ? spur_context(err, "JobContainerType") : 0;
}

int private_tmp_enter(int ns_fd, struct spur_error *err)
{
    if (ns_fd >= 0 && (fault(FAULT_TMP_ENTER) || setns(ns_fd, CLONE_NEWNS) < 0))
        return spur_fail(err, SPUR_EIO, "cannot enter the job's namespace: %s", strerror(errno));
    return 0;
}
