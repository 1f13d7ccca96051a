// SPDX-License-Identifier: Apache-2.0
/* burst.c - runs one command many times and says what each run cost.
 *
 *     burst [-n RUNS] [-p AT_ONCE] [-s SECONDS] [-o FILE] COMMAND [ARGUMENT...]
 *     burst [-n RUNS] -w FILE
 *
 * Prints one line of name=value words: n, failed, rate (runs a second), p50_ms, p90_ms, max_ms (wall, fork to exit), cpu_ms (user and system
 * time a run, its own waited-for children included), rss_kib (the largest resident size of any run). Standard output of the runs goes to
 * FILE (appended) or away. A {} in an argument becomes the number of the run. -s stops starting after so many seconds. With -w no
 * command runs: each run writes 2 KiB of FILE's own blocks and flushes them, with a millisecond's pause before: what a durable answer costs here.
 *
 * A shell loop would cost more than what it measures: this program starts its runs with vfork through posix_spawn and does nothing else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct run {
    pid_t pid;
    double start;
};

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void die(const char *what)
{
    fprintf(stderr, "burst: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* The command with each {} replaced by the number of this run. */
static pid_t start(char **command, int words, int number, posix_spawn_file_actions_t *files)
{
    char **argv = calloc((size_t)words + 1, sizeof *argv), digits[16];
    pid_t pid;
    int rc;

    if (!argv)
        die("memory");
    snprintf(digits, sizeof digits, "%d", number);
    for (int i = 0; i < words; i++) {
        char *at = strstr(command[i], "{}");

        if (!at)
            argv[i] = strdup(command[i]);
        else if (asprintf(&argv[i], "%.*s%s%s", (int)(at - command[i]), command[i], digits, at + 2) < 0)
            die("memory");
    }
    rc = posix_spawnp(&pid, argv[0], files, NULL, argv, environ);
    if (rc) {
        errno = rc;
        die(argv[0]);
    }
    for (int i = 0; i < words; i++)
        free(argv[i]);
    free(argv);
    return pid;
}

/* The flushes of -w, into blocks that were written before, as a log is. */
static void flush(const char *path, int runs, double *took)
{
    static char block[2048];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0)
        die(path);
    for (int i = 0; i < runs; i++)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            die(path);
    if (fsync(fd) < 0)
        die(path);
    for (int i = 0; i < runs; i++) {
        double from;

        usleep(1000);
        from = now();
        if (pwrite(fd, block, sizeof block, (off_t)i * (off_t)sizeof block) != (ssize_t)sizeof block || fdatasync(fd) < 0)
            die(path);
        took[i] = (now() - from) * 1e3;
    }
    close(fd);
    unlink(path);
}

int main(int argc, char **argv)
{
    int runs = 1, at_once = 1, opt, started = 0, ended = 0, failed = 0, active = 0;
    double limit = 1e9, cpu = 0, begin, *took;
    long rss = 0;
    bool stopping = false;
    const char *out = "/dev/null", *flushed = NULL;
    struct run *slots;
    posix_spawn_file_actions_t files;

    while ((opt = getopt(argc, argv, "+n:p:s:o:w:")) != -1) {
        switch (opt) {
        case 'n': runs = atoi(optarg); break;
        case 'p': at_once = atoi(optarg); break;
        case 's': limit = atof(optarg); break;
        case 'o': out = optarg; break;
        case 'w': flushed = optarg; break;
        default: fprintf(stderr, "usage: burst [-n RUNS] [-p AT_ONCE] [-s SECONDS] [-o FILE] COMMAND [ARGUMENT...] | burst [-n RUNS] -w FILE\n"); return 2;
        }
    }
    if ((optind >= argc && !flushed) || runs < 1 || at_once < 1) {
        fprintf(stderr, "burst: a command, and counts of at least 1, are needed\n");
        return 2;
    }
    took = calloc((size_t)runs, sizeof *took);
    slots = calloc((size_t)at_once, sizeof *slots);
    if (!took || !slots)
        die("memory");
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_APPEND, 0644);

    begin = now();
    if (flushed) {
        flush(flushed, runs, took);
        started = ended = runs;
    }
    while (active || (!stopping && started < runs)) {
        struct rusage use;
        int status, slot;
        pid_t pid;

        while (!stopping && active < at_once && started < runs) {
            if (now() - begin > limit) {
                stopping = true;
                break;
            }
            for (slot = 0; slots[slot].pid; slot++)
                ;
            slots[slot].start = now();
            slots[slot].pid = start(argv + optind, argc - optind, ++started, &files);
            active++;
        }
        if (!active)
            break;
        pid = wait4(-1, &status, 0, &use);
        if (pid < 0)
            die("wait");
        for (slot = 0; slot < at_once && slots[slot].pid != pid; slot++)
            ;
        if (slot == at_once)
            continue;
        took[ended++] = (now() - slots[slot].start) * 1e3;
        slots[slot].pid = 0;
        active--;
        cpu += (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
        if (use.ru_maxrss > rss)
            rss = use.ru_maxrss;
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    if (ended) {
        double wall = now() - begin;

        qsort(took, (size_t)ended, sizeof *took, by_size);
        printf("n=%d failed=%d rate=%.1f p50_ms=%.3f p90_ms=%.3f max_ms=%.3f cpu_ms=%.3f rss_kib=%ld wall_ms=%.1f\n", ended, failed,
               (double)ended / wall, took[ended / 2], took[ended * 9 / 10], took[ended - 1], cpu / ended, rss, wall * 1e3);
    }
    return failed ? 1 : 0;
}
