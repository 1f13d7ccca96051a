/* SPDX-License-Identifier: Apache-2.0 */
/* container.c - finds the processes of a step in /proc and signals them.
 *
 * The list is stale the moment it is read, so nobody counts on one walk: the supervisor repeats SIGKILL until it has no child left.
 * What surprised: /proc/PID/task/TID/children exists a thread, since the thread that forked is the parent; kernels without
 * CONFIG_PROC_CHILDREN have none, and then all of /proc is read.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container.h"
#include "base/str.h"

#define STOP_ROUNDS 20          /* walks until a step that forks as fast as it can stands still */

struct pids { pid_t *list; size_t count, room; };

static void pids_add(struct pids *p, pid_t pid)
{
    if (p->count == p->room) {
        p->room = p->room ? p->room * 2 : 64;
        p->list = mem_grow(p->list, p->room, sizeof *p->list);
    }
    p->list[p->count++] = pid;
}

int container_own(struct spur_error *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return spur_fail(err, SPUR_EIO, "cannot become subreaper: %s", strerror(errno));
    return 0;
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

struct stat_line { pid_t ppid, pgrp, session; uint64_t start; char state; };

static bool read_stat(pid_t pid, struct stat_line *out)
{
    char path[64], buf[1024], *at;
    int ppid, pgrp, session;
    unsigned long long start;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_file(path, buf, sizeof buf) <= 0 || !(at = strrchr(buf, ')')))
        return false;
    if (sscanf(at + 1, " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &out->state, &ppid, &pgrp, &session, &start) != 5)
        return false;
    out->ppid = ppid;
    out->pgrp = pgrp;
    out->session = session;
    out->start = start;
    return true;
}

uint64_t process_start(pid_t pid)
{
    struct stat_line s;

    return pid > 0 && read_stat(pid, &s) && s.state != 'Z' && s.state != 'X' ? s.start : 0;
}

const char *boot_id(void)
{
    static char text[64];

    if (!*text && read_file("/proc/sys/kernel/random/boot_id", text, sizeof text) > 0)
        text[strcspn(text, "\n")] = '\0';
    return text;
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

    while (dir && (d = readdir(dir))) {
        struct stat_line s;

        if (isdigit((unsigned char)d->d_name[0]) && read_stat(atoi(d->d_name), &s)) {
            pids_add(&pid, atoi(d->d_name));
            pids_add(&parent, s.ppid);
        }
    }
    if (dir)
        closedir(dir);
    for (size_t next = 0, at = 0; ; at++) {
        pid_t of = at ? out->list[next++] : root;

        for (size_t i = 0; i < pid.count; i++)
            if (parent.list[i] == of && pid.list[i] != root)
                pids_add(out, pid.list[i]);
        if (next >= out->count)
            break;
    }
    free(pid.list);
    free(parent.list);
}

static void add_below(pid_t root, struct pids *out)
{
    size_t from = out->count;

    if (!add_children(root, out)) {
        add_all_below(root, out);
        return;
    }
    for (size_t i = from; i < out->count; i++)
        add_children(out->list[i], out);
}

size_t container_signal(int signal)
{
    struct pids all = { 0 };
    size_t n;

    add_below(getpid(), &all);
    for (size_t i = 0; i < all.count; i++)
        kill(all.list[i], signal);
    n = all.count;
    free(all.list);
    return n;
}

size_t container_kill(void)
{
    struct pids all = { 0 };
    size_t before = 0;

    for (int round = 0; round < STOP_ROUNDS; round++) {
        all.count = 0;
        add_below(getpid(), &all);
        for (size_t i = 0; i < all.count; i++)
            kill(all.list[i], SIGSTOP);
        if (all.count <= before)
            break;
        before = all.count;
    }
    for (size_t i = 0; i < all.count; i++)
        kill(all.list[i], SIGKILL);
    before = all.count;
    free(all.list);
    return before;
}

size_t session_kill(pid_t sid, uint64_t sid_start, uid_t uid)
{
    struct pids all = { 0 };
    struct dirent *d;
    DIR *dir = opendir("/proc");
    uint64_t now_start = process_start(sid);
    size_t n = 0;

    if (now_start && now_start != sid_start) {      /* the number belongs to another process now */
        if (dir)
            closedir(dir);
        return 0;
    }
    while (dir && (d = readdir(dir))) {
        struct stat_line s;
        struct stat st;
        char path[64];

        if (!isdigit((unsigned char)d->d_name[0]) || !read_stat(atoi(d->d_name), &s) || s.session != sid || s.start < sid_start)
            continue;
        snprintf(path, sizeof path, "/proc/%d", atoi(d->d_name));
        if (stat(path, &st) == 0 && st.st_uid == uid) {
            pids_add(&all, atoi(d->d_name));
            add_below(atoi(d->d_name), &all);
        }
    }
    if (dir)
        closedir(dir);
    for (size_t i = 0; i < all.count; i++)
        if (kill(all.list[i], SIGKILL) == 0)
            n++;
    free(all.list);
    return n;
}
