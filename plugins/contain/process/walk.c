/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c - finds the processes of a step in /proc.
 *
 * A list is stale the moment it is read, so nobody counts on one walk: the supervisor repeats SIGKILL until it has no child left.
 * What surprised: /proc/PID/task/TID/children exists a thread, since the thread that forked is the parent; kernels without
 * CONFIG_PROC_CHILDREN have none, and then all of /proc is read.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "walk.h"

void pids_add(struct pids *p, pid_t pid)
{
    if (p->count == p->room) {
        size_t room = p->room ? p->room * 2 : 64;
        pid_t *more = realloc(p->list, room * sizeof *more);

        if (!more)
            return;
        p->list = more;
        p->room = room;
    }
    p->list[p->count++] = pid;
}

void pids_fini(struct pids *p)
{
    free(p->list);
    *p = (struct pids){ 0 };
}

static ssize_t read_file(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n, all = 0;

    if (fd < 0)
        return -1;
    while ((size_t)all + 1 < size && (n = read(fd, buf + all, size - 1 - (size_t)all)) > 0)
        all += n;
    close(fd);
    buf[all] = '\0';
    return all;
}

struct stat_line { pid_t ppid, session; uint64_t start, user, system, vm, rss_pages; char state; };

static bool read_stat(pid_t pid, struct stat_line *out)
{
    char path[64], buf[1024], *at;
    int ppid, session;
    unsigned long long start, user, system, vm;
    long long rss;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_file(path, buf, sizeof buf) <= 0 || !(at = strrchr(buf, ')')))
        return false;
    if (sscanf(at + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu %llu %lld", &out->state, &ppid, &session, &user, &system,
               &start, &vm, &rss) != 8)
        return false;
    *out = (struct stat_line){ .ppid = ppid, .session = session, .start = start, .user = user, .system = system, .vm = vm,
                               .rss_pages = rss > 0 ? (uint64_t)rss : 0, .state = out->state };
    return true;
}

/* Children of one process, all its threads. False: the kernel does not tell. */
static bool add_children(pid_t pid, struct pids *out)
{
    char path[96];
    struct dirent *d;
    bool told = false;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (!(dir = opendir(path)))
        return true;                    /* it has gone: its children have come back to us and are in the next walk */
    while ((d = readdir(dir))) {
        FILE *f;
        int child;

        if (!isdigit((unsigned char)d->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, d->d_name);
        if (!(f = fopen(path, "re")))
            continue;
        told = true;
        while (fscanf(f, "%d", &child) == 1)        /* one line of any length: a buffer's edge must not make two numbers of one */
            pids_add(out, child);
        fclose(f);
    }
    closedir(dir);
    return told;
}

/* All processes with their parents, once; then the tree below `root`. */
static void add_all_below(pid_t root, struct pids *out)
{
    struct pids pid = { 0 }, parent = { 0 };
    struct dirent *d;
    DIR *dir = opendir("/proc");
    size_t first = out->count;

    while (dir && (d = readdir(dir))) {
        struct stat_line s;

        if (isdigit((unsigned char)d->d_name[0]) && read_stat(atoi(d->d_name), &s)) {
            pids_add(&pid, atoi(d->d_name));
            pids_add(&parent, s.ppid);
        }
    }
    if (dir)
        closedir(dir);
    for (size_t next = first, at = 0; ; at++) {
        pid_t of = at ? out->list[next++] : root;

        for (size_t i = 0; i < pid.count && i < parent.count; i++)
            if (parent.list[i] == of && pid.list[i] != root)
                pids_add(out, pid.list[i]);
        if (next >= out->count)
            break;
    }
    pids_fini(&pid);
    pids_fini(&parent);
}

void pids_below(pid_t root, struct pids *out)
{
    size_t from = out->count;

    if (!add_children(root, out)) {
        add_all_below(root, out);
        return;
    }
    for (size_t i = from; i < out->count; i++)
        add_children(out->list[i], out);
}

void pids_without(struct pids *p, pid_t root)
{
    struct pids theirs = { 0 };
    size_t kept = 0;

    pids_add(&theirs, root);
    pids_below(root, &theirs);
    for (size_t i = 0; i < p->count; i++) {
        size_t k = 0;

        while (k < theirs.count && theirs.list[k] != p->list[i])
            k++;
        if (k == theirs.count)
            p->list[kept++] = p->list[i];
    }
    p->count = kept;
    pids_fini(&theirs);
}

bool pids_read(const char *path, struct pids *out)
{
    FILE *f = fopen(path, "re");
    int pid;

    if (!f)
        return false;
    while (fscanf(f, "%d", &pid) == 1)
        if (pid > 0)                    /* 0: of another pid namespace */
            pids_add(out, pid);
    fclose(f);
    return true;
}

size_t pids_signal(const struct pids *p, int signal)
{
    size_t n = 0;

    for (size_t i = 0; i < p->count; i++)
        if (p->list[i] != getpid() && kill(p->list[i], signal) == 0)
            n++;
    return n;
}

static uint64_t line_value(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

void pids_figures(const struct pids *p, struct spur_contain_figures *out)
{
    const uint64_t tick_us = 1000000u / (uint64_t)sysconf(_SC_CLK_TCK), page = (uint64_t)sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < p->count; i++) {
        struct stat_line s;
        char path[64], text[2048];

        if (!read_stat(p->list[i], &s) || s.state == 'Z' || s.state == 'X')
            continue;
        out->processes++;
        out->user_us += s.user * tick_us;
        out->system_us += s.system * tick_us;
        out->vm_bytes += s.vm;
        out->rss_bytes += s.rss_pages * page;
        snprintf(path, sizeof path, "/proc/%d/io", (int)p->list[i]);
        if (read_file(path, text, sizeof text) > 0) {
            out->read_bytes += line_value(text, "\nread_bytes: ");
            out->write_bytes += line_value(text, "\nwrite_bytes: ");
        }
    }
}

size_t session_kill(const struct spur_contain_leader *leader, uid_t uid)
{
    struct pids all = { 0 };
    struct stat_line s;
    struct dirent *d;
    DIR *dir;
    size_t n;

    if (read_stat(leader->pid, &s) && s.state != 'Z' && s.state != 'X' && s.start != leader->start)
        return 0;                       /* the number belongs to another process now */
    dir = opendir("/proc");
    while (dir && (d = readdir(dir))) {
        struct stat st;
        char path[64];

        if (!isdigit((unsigned char)d->d_name[0]) || !read_stat(atoi(d->d_name), &s) || s.session != leader->pid || s.start < leader->start ||
            s.state == 'Z' || s.state == 'X')       /* dead, and not yet taken by its parent */
            continue;
        snprintf(path, sizeof path, "/proc/%d", atoi(d->d_name));
        if (stat(path, &st) == 0 && st.st_uid == uid) {
            pids_add(&all, atoi(d->d_name));
            pids_below(atoi(d->d_name), &all);
        }
    }
    if (dir)
        closedir(dir);
    n = pids_signal(&all, SIGKILL);
    pids_fini(&all);
    return n;
}
