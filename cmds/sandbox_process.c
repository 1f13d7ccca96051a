/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_process.c - the processes of a sandbox cluster: which there are, starting a daemon, ending some or all.
 *
 * Called by sandbox.c. A process is known by its environment (SPUR_SANDBOX_OF, SPUR_SANDBOX_NAME) or by an ancestor that has it; nothing is kept
 * in files, so a crash of anything, this command too, leaves nothing that a later stop would not find.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmds/common/filetext.h"
#include "cmds/sandbox.h"
#include "config/config.h"

struct process { pid_t pid, parent; bool is_marked, is_stepd, is_doomed; };
struct processes { struct process *rows; size_t count; };

static bool environ_has(const char *env, size_t n, const char *name, const char *value)
{
    char want[900];
    size_t len = (size_t)snprintf(want, sizeof want, "%s=%s", name, value);

    for (const char *p = env; p < env + n; p += strlen(p) + 1)
        if (strncmp(p, want, len) == 0 && p[len] == '\0')
            return true;
    return false;
}

static size_t proc_read(pid_t pid, const char *what, char *buf, size_t room)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, buf, room - 1);
    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* All processes of the cluster (name NULL) or of one daemon: the marked ones and everything below a marked supervisor. */
static void processes_find(const struct sandbox *s, const char *name, struct processes *out)
{
    static char env[1 << 17];
    DIR *dir = opendir("/proc");
    struct dirent *d;
    bool grown;

    out->rows = NULL;
    out->count = 0;
    while (dir && (d = readdir(dir))) {
        pid_t pid = (pid_t)atoi(d->d_name);
        char stat[512], *close_paren;
        struct process p = { .pid = pid };
        size_t n;

        if (pid <= 1 || pid == getpid() || !proc_read(pid, "stat", stat, sizeof stat) || !(close_paren = strrchr(stat, ')')))
            continue;
        if (close_paren[2] == 'Z')
            continue;
        p.parent = (pid_t)atoi(close_paren + 4);
        n = proc_read(pid, "environ", env, sizeof env);
        p.is_marked = n && environ_has(env, n, "SPUR_SANDBOX_OF", s->dir) && (!name || environ_has(env, n, "SPUR_SANDBOX_NAME", name));
        n = proc_read(pid, "cmdline", env, sizeof env);
        p.is_stepd = n && strstr(env, "spurstepd");
        p.is_doomed = p.is_marked;
        out->rows = mem_grow(out->rows, out->count + 1, sizeof *out->rows);
        out->rows[out->count++] = p;
    }
    if (dir)
        closedir(dir);
    do {
        grown = false;
        for (size_t i = 0; i < out->count; i++)
            for (size_t k = 0; k < out->count && !out->rows[i].is_doomed; k++)
                if (out->rows[k].pid == out->rows[i].parent && out->rows[k].is_doomed)
                    grown = out->rows[i].is_doomed = true;
    } while (grown);
}

static bool process_is_meant(const struct process *p, bool daemons_only) { return p->is_doomed && (!daemons_only || (p->is_marked && !p->is_stepd)); }

size_t processes_count(const struct sandbox *s, const char *name, bool daemons_only)
{
    struct processes all;
    size_t n = 0;

    processes_find(s, name, &all);
    for (size_t i = 0; i < all.count; i++)
        n += process_is_meant(&all.rows[i], daemons_only);
    free(all.rows);
    return n;
}

/* Signals them and returns when they are gone. A killed process loses its environment, by which we know it, before it lets go of its locks: its pidfd tells the end. */
void processes_end(const struct sandbox *s, const char *name, int signal, bool daemons_only, int64_t deadline)
{
    bool found;

    do {
        struct processes all;

        found = false;
        processes_find(s, name, &all);
        for (size_t i = 0; i < all.count; i++)
            if (process_is_meant(&all.rows[i], daemons_only))
                kill(all.rows[i].pid, signal);
        for (size_t i = 0; i < all.count; i++) {
            struct pollfd end = { .fd = -1, .events = POLLIN };
            int64_t left = deadline - clock_mono_ms();

            if (!process_is_meant(&all.rows[i], daemons_only) || (end.fd = (int)syscall(SYS_pidfd_open, all.rows[i].pid, 0)) < 0)
                continue;
            found = true;
            poll(&end, 1, left > 0 ? (int)left : 0);
            close(end.fd);
        }
        free(all.rows);
    } while (found && clock_mono_ms() < deadline);
}

/* A controller of `--at ADDRESS@NAMESPACE` lives in that network namespace; etc/NAME/netns names its file. In the child, before exec. */
static void daemon_netns(const struct sandbox *s, const char *name)
{
    char path[1100], *netns;
    int fd;

    snprintf(path, sizeof path, "%s/etc/%s/netns", s->dir, name);
    if (!(netns = file_text(path)))
        return;
    fd = open(word_trim(netns), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0) {
        dprintf(2, "spur sandbox: network namespace %s: %s\n", word_trim(netns), strerror(errno));
        _exit(127);
    }
    free(netns);
}

/* Our own build: the daemons are this very binary under other names. */
static int daemon_start(const struct sandbox *s, const char *name, const char *argv0, const char *emulate, struct spur_error *err)
{
    char conf[1024], log[1024], exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    int started[2];
    pid_t pid;

    if (n < 0 || pipe2(started, O_CLOEXEC) < 0)
        return spur_fail(err, SPUR_EIO, "/proc/self/exe: %s", strerror(errno));
    exe[n] = '\0';
    snprintf(conf, sizeof conf, "%s/etc/%s/slurm.conf", s->dir, name);
    snprintf(log, sizeof log, "%s/log/%s.log", s->dir, name);
    pid = fork();
    if (pid != 0)
        close(started[1]);
    if (pid < 0) {
        close(started[0]);
        return spur_fail(err, SPUR_EIO, "cannot start %s: %s", name, strerror(errno));
    }
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

        setsid();
        dup2(null, 0);
        dup2(out, 1);
        dup2(out, 2);
        if (null > 2)
            close(null);
        if (out > 2)
            close(out);
        setenv("SPUR_SANDBOX_OF", s->dir, 1);
        setenv("SPUR_SANDBOX_NAME", name, 1);
        unsetenv("SLURM_CONF");
        daemon_netns(s, name);
        if (!emulate)
            execl(exe, argv0, "-D", "-f", conf, "-N", name, (char *)NULL);
        else
            execl(exe, argv0, "-D", "-f", conf, "--emulate", emulate, (char *)NULL);
        _exit(127);
    }
    n = read(started[0], log, 1);       /* ends at exec: from then on the mark is in its environment */
    close(started[0]);
    return 0;
}

bool sandbox_is_emulated(const struct sandbox *s)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/etc/emulator", s->dir);
    return access(path, F_OK) == 0;
}

void daemons_of(const struct sandbox *s, const struct config *cfg, struct daemons *d)
{
    struct hostlist *h = hostlist_create();

    d->names = hostlist_create();
    d->is_emulated = sandbox_is_emulated(s);
    for (size_t i = 0; i < cfg->controller_count; i++)
        hostlist_add(d->names, cfg->controllers[i].host);
    d->controllers = (uint32_t)cfg->controller_count;
    for (size_t i = 0; i < cfg->node_count; i++) {
        hostlist_add(h, cfg->nodes[i].name);
        if (!d->is_emulated)
            hostlist_add(d->names, cfg->nodes[i].name);
    }
    if (d->is_emulated)
        hostlist_add(d->names, "emulator");
    str_init(&d->nodes);
    hostlist_print(h, &d->nodes);
    hostlist_destroy(h);
}

void daemons_free(struct daemons *d)
{
    hostlist_destroy(d->names);
    str_fini(&d->nodes);
}

int daemons_start_one(const struct sandbox *s, const struct daemons *d, const char *name, struct spur_error *err)
{
    if (hostlist_find(d->names, name) < (ptrdiff_t)d->controllers)
        return daemon_start(s, name, "spurctld", NULL, err);
    return daemon_start(s, name, "spurd", d->is_emulated ? d->nodes.text : NULL, err);
}

bool daemon_lives(const struct sandbox *s, const char *name) { return processes_count(s, name, true) > 0; }

/* The last lines of a daemon's log, when it has died. */
void daemon_last_words(const struct sandbox *s, const char *name)
{
    char path[1024], *text, *from;

    snprintf(path, sizeof path, "%s/log/%s.log", s->dir, name);
    text = file_text(path);
    if (!text || !*text) {
        fprintf(stderr, "  %s has died and left no word in %s\n", name, path);
        free(text);
        return;
    }
    from = text + strlen(text) - 1;
    for (int lines = 0; from > text && lines < 3; from--)
        lines += from[-1] == '\n';
    fprintf(stderr, "  %s has died; the end of %s:\n%s", name, path, from);
    free(text);
}
