/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c - figures of the tasks of this supervisor, from /proc; see figures.h.
 *
 * One walk over /proc gives parents, sessions and figures of all processes; a process counts for the task that it descends from, or whose session
 * it has when its parents are gone (each task leads one), or else, when it is a stray below the supervisor, for the first task. CPU time of
 * children that have ended is in the figures of who waited for them. The largest RSS is the sum of what each process had at its own peak:
 * exact for a task of one process, and an upper bound for others.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/figures.h"
#include "base/str.h"

#define DEPTH_MAX 4096

struct process { int pid, parent, session; unsigned long long ticks, vsize, rss_pages, major; };

static size_t file_read(int pid, const char *name, char *buf, size_t size)
{
    char path[64];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) {
        n = read(fd, buf, size - 1);
        close(fd);
    }
    buf[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static bool process_read(int pid, struct process *p)
{
    unsigned long long user, system, c_user, c_system;
    char buf[1024], *at;

    if (!file_read(pid, "stat", buf, sizeof buf) || !(at = strrchr(buf, ')')))
        return false;
    p->pid = pid;
    return sscanf(at + 1, " %*c %d %*d %d %*d %*d %*u %*u %*u %llu %*u %llu %llu %llu %llu %*d %*d %*d %*d %*u %llu %llu", &p->parent, &p->session, &p->major, &user, &system,
                  &c_user, &c_system, &p->vsize, &p->rss_pages) == 9 && (p->ticks = user + system + c_user + c_system, true);
}

static unsigned long long number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;

    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static struct process *find(struct process *all, size_t n, int pid)
{
    struct process key = { .pid = pid };

    return bsearch(&key, all, n, sizeof *all, by_pid);
}

/* Which task a process belongs to; count: it is none of this step. */
static uint32_t task_of(struct process *all, size_t n, const struct process *p, const uint32_t *pids, uint32_t count, int self)
{
    const struct process *at = p;

    for (int depth = 0; at && depth < DEPTH_MAX; depth++) {
        for (uint32_t i = 0; i < count; i++)
            if (pids[i] && (uint32_t)at->pid == pids[i])
                return i;
        if (at->parent == self) {
            for (uint32_t i = 0; i < count; i++)
                if ((uint32_t)at->session == pids[i])
                    return i;
            return 0;
        }
        at = at->parent > 1 ? find(all, n, at->parent) : NULL;
    }
    return count;
}

static void add(Wire__TaskFigures *t, const struct process *p)
{
    unsigned long long rss = p->rss_pages * (unsigned long long)sysconf(_SC_PAGESIZE) / 1024, peak;
    char buf[4096];

    t->cpu_us += p->ticks * 1000000 / (unsigned long long)sysconf(_SC_CLK_TCK);
    t->rss_kib += rss;
    t->vm_kib += p->vsize / 1024;
    t->pages += p->major;
    file_read(p->pid, "status", buf, sizeof buf);
    peak = number_behind(buf, "\nVmHWM:");
    t->max_rss_kib += peak > rss ? peak : rss;
    file_read(p->pid, "io", buf, sizeof buf);
    t->read_bytes += number_behind(buf, "rchar:");
    t->write_bytes += number_behind(buf, "wchar:");
}

void figures_take(const uint32_t *pids, uint32_t count, const uint32_t *ids, Wire__StepFigures *out)
{
    struct process *all = NULL, p;
    size_t n = 0, room = 0;
    struct dirent *d;
    DIR *dir = opendir("/proc");
    int self = getpid();

    while (dir && (d = readdir(dir)))
        if (isdigit((unsigned char)d->d_name[0]) && process_read(atoi(d->d_name), &p)) {
            if (n == room)
                all = mem_grow(all, room = room ? room * 2 : 256, sizeof *all);
            all[n++] = p;
        }
    if (dir)
        closedir(dir);
    qsort(all, n, sizeof *all, by_pid);
    out->tasks = mem_array(count + 1, sizeof *out->tasks);
    out->pids = mem_array(n + 1, sizeof *out->pids);
    for (uint32_t i = 0; i < count; i++) {
        Wire__TaskFigures *t = out->tasks[out->n_tasks++] = mem_alloc(sizeof *t);

        wire__task_figures__init(t);
        t->task = ids[i];
        t->has_pid = t->has_cpu_us = t->has_rss_kib = t->has_max_rss_kib = t->has_vm_kib = t->has_read_bytes = t->has_write_bytes = t->has_pages = 1;
        t->pid = pids[i];
    }
    for (size_t i = 0; i < n && count; i++) {
        uint32_t task = task_of(all, n, &all[i], pids, count, self);

        if (task == count || all[i].pid == self)
            continue;
        add(out->tasks[task], &all[i]);
        out->pids[out->n_pids++] = (uint32_t)all[i].pid;
    }
    free(all);
}

void figures_fini(Wire__StepFigures *f)
{
    for (size_t i = 0; i < f->n_tasks; i++)
        free(f->tasks[i]);
    free(f->tasks);
    free(f->pids);
    f->tasks = NULL;
    f->pids = NULL;
    f->n_tasks = f->n_pids = 0;
}
