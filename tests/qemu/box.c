/* SPDX-License-Identifier: Apache-2.0 */
/* box.c - runs a command in a box of contain/cgroup, for the scripts of tests/qemu/guest: no daemon, no cluster.
 *
 *   box [--cpus LIST] [--memory BYTES] [--swap BYTES] [--pids N] [--deny MAJOR:MINOR]... [--allow MAJOR:MINOR]... [--freeze MS] [--end] COMMAND...
 *
 * Prints what happened, one thing a line: "status N" (as a shell has it), "oom N", "processes N" (with --freeze, while frozen), "left N" after the kill. --end kills the
 * command as soon as it has written to its standard output; --freeze MS stops it then, for so long, and prints how much it wrote meanwhile: "frozen BYTES".
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <spur/contain.h>

#include "loader/loader.h"

static _Noreturn void die(const char *what, const struct spur_error *err)
{
    printf("error %s: %s\n", what, err->text);
    exit(1);
}

static void breathe(void)
{
    struct timespec t = { .tv_nsec = 10 * 1000 * 1000 };

    nanosleep(&t, NULL);
}

/* What has come so far; the pipe does not block. */
static size_t drain(int fd)
{
    char buf[4096];
    size_t all = 0;
    ssize_t n;

    while ((n = read(fd, buf, sizeof buf)) > 0)
        all += (size_t)n;
    return all;
}

static void add_device(struct spur_contain_device *rows, uint32_t *count, const char *text, bool is_allowed)
{
    unsigned major, minor;

    if (*count < 32 && sscanf(text, "%u:%u", &major, &minor) == 2)
        rows[(*count)++] = (struct spur_contain_device){ major, minor, is_allowed };
}

int main(int argc, char **argv)
{
    struct spur_contain_device rows[32];
    struct spur_contain_limits l = { .size = sizeof l, .memory = SPUR_CONTAIN_NONE, .memory_soft = SPUR_CONTAIN_NONE, .memory_swap = SPUR_CONTAIN_NONE,
                                     .swappiness = SPUR_CONTAIN_NONE, .pids = SPUR_CONTAIN_NONE, .devices = rows, .device_size = sizeof *rows };
    struct spur_contain_step step = { .size = sizeof step, .job_id = 7, .step_id = 1, .attempt = 1, .step = "1", .scope = "spur_box" };
    const struct spur_contain_ops *ops;
    struct spur_error err = { 0 };
    struct loaded *plugin;
    long freeze_ms = 0;
    bool end = false;
    int at, status = 0, pipes[2];
    void *box;
    pid_t pid;
    size_t left = 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (at = 1; at < argc && !strncmp(argv[at], "--", 2); at++) {
        const char *value = at + 1 < argc ? argv[at + 1] : "";

        if (!strcmp(argv[at], "--end")) { end = true; continue; }
        if (!strcmp(argv[at], "--cpus")) l.cpus = value;
        else if (!strcmp(argv[at], "--memory")) l.memory = strtoull(value, NULL, 10);
        else if (!strcmp(argv[at], "--swap")) l.memory_swap = strtoull(value, NULL, 10);
        else if (!strcmp(argv[at], "--pids")) l.pids = strtoull(value, NULL, 10);
        else if (!strcmp(argv[at], "--deny")) add_device(rows, &l.device_count, value, false);
        else if (!strcmp(argv[at], "--allow")) add_device(rows, &l.device_count, value, true);
        else if (!strcmp(argv[at], "--freeze")) freeze_ms = strtol(value, NULL, 10);
        at++;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (loader_open(SPUR_KIND_contain, "contain/cgroup", NULL, NULL, &plugin, &err) < 0)
        die("open", &err);
    ops = loader_ops(plugin);
    if (ops->create(plugin->self, &step, &l, &l, &box, &err) < 0)
        die("create", &err);
    if (at >= argc || pipe2(pipes, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        return 2;
    if (pid == 0) {
        if (ops->enter(plugin->self, box, &err) < 0)
            die("enter", &err);
        if (freeze_ms || end)
            dup2(pipes[1], 1);
        execvp(argv[at], argv + at);
        _exit(127);
    }
    close(pipes[1]);
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    if (freeze_ms || end) {
        struct pollfd p = { .fd = pipes[0], .events = POLLIN };

        poll(&p, 1, 60000);
    }
    if (freeze_ms) {
        char events[64] = "";

        if (ops->freeze(plugin->self, box, true, &err) < 0)
            die("freeze", &err);
        for (int i = 0; i < 500; i++) {         /* the kernel says when all stand still */
            FILE *f = fopen("/sys/fs/cgroup/spur_box/job_7/step_1/cgroup.events", "re");
            size_t n = f ? fread(events, 1, sizeof events - 1, f) : 0;

            if (f)
                fclose(f);
            events[n] = '\0';
            if (strstr(events, "frozen 1"))
                break;
            breathe();
        }
        drain(pipes[0]);
        for (long ms = 0; ms < freeze_ms; ms += 10)
            breathe();
        printf("processes %zu\nfrozen %zu\n", ops->count(plugin->self, box, NULL, 0), drain(pipes[0]));
        if (ops->freeze(plugin->self, box, false, &err) < 0)
            die("thaw", &err);
        for (int i = 0; i < 6000 && drain(pipes[0]) == 0; i++)
            breathe();
        printf("thawed\n");
    }
    if (!freeze_ms && !end)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    for (int i = 0; i < 6000 && left; i++) {
        ops->kill(plugin->self, box);
        for (int s; (errno = 0, waitpid(-1, &s, WNOHANG) > 0); )
            ;
        if ((left = ops->count(plugin->self, box, NULL, 0)))
            breathe();
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    printf("status %d\noom %llu\nleft %zu\n", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
           (unsigned long long)ops->oom_kills(plugin->self, box), left);
    ops->destroy(plugin->self, box);
    loader_close(plugin);
    return 0;
}
