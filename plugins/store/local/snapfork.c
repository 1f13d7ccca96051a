/* SPDX-License-Identifier: Apache-2.0 */
/* snapfork.c - forks a child that writes a snapshot, hears how it went, and looks after the pages that make this cheap.
 *
 * Measured for 650 MB of state: fork takes 40 ms and more with pages of 4 KiB, 3 to 6 ms with those of 2 MiB. They do not stay: a write after
 * a fork splits its page, and some thousand splits later a fork is as slow as ever. So after a child has ended the heap is collapsed again,
 * 2 MiB at a time (MADV_COLLAPSE, Linux 6.1; without it the kernel's khugepaged does it in its own time).
 *
 * The child keeps no socket: peers of a leader that is killed must see the connection break even while its child still writes. Descriptors are not
 * closed but turned into /dev/null, so that no number is given out twice. It dies with its parent, blocks all signals (a handler of the loop would write
 * into the parent's pipes) and ends with _exit.
 *
 * The heap is the main thread's (brk) and blocks of BLOCK_LARGE and more, which malloc maps by themselves: tables with a million entries. What else stands in
 * 4 KiB pages costs a little pause and nothing else.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE     /* syncfs, MADV_HUGEPAGE */
#endif
#include "snapfork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE_BYTES   ((uintptr_t)2 << 20)
#define HEAP_SMALL   ((uintptr_t)64 << 20)      /* below this, huge pages gain nothing */
#define BLOCK_LARGE  ((uintptr_t)16 << 20)      /* larger than any thread's stack, which must stay in small pages */
#define BLOCKS_MAX   64
#define GROW_BYTES   (32 << 20)                 /* the heap grows by this much at a time: huge pages are asked for before most of it is touched */
#define TEND_US      800
#define IOPRIO_IDLE  (3 << 13)                  /* IOPRIO_CLASS_IDLE, of <linux/ioprio.h> */

struct answer { int code; struct spur_error err; uint64_t bytes; };

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- the heap's pages ---- */

/* One heap a process, so one of these. Touched by the main thread alone. */
struct range { uintptr_t at, end; };
static struct { uintptr_t start, asked; struct range ranges[BLOCKS_MAX]; unsigned count, next; bool is_due; } heap;

void snapfork_prepare(void)
{
    mallopt(M_TOP_PAD, GROW_BYTES);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    if (!heap.start)
        heap.start = ((uintptr_t)sbrk(0) + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

static void heap_ask(void)
{
    uintptr_t top = (uintptr_t)sbrk(0) & ~(HUGE_BYTES - 1);

    if (!heap.start || top < heap.start + HEAP_SMALL || top <= heap.asked)
        return;
    madvise((void *)heap.start, top - heap.start, MADV_HUGEPAGE);
    if (!heap.asked)
        heap.is_due = true;             /* what was there before is in small pages */
    heap.asked = top;
}

static void range_add(uintptr_t from, uintptr_t to)
{
    struct range r = { (from + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1), to & ~(HUGE_BYTES - 1) };

    if (r.end > r.at && heap.count < BLOCKS_MAX)
        heap.ranges[heap.count++] = r;
}

/* The heap, and the anonymous mappings that are large. */
static void ranges_find(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];

    heap.count = heap.next = 0;
    range_add(heap.start, heap.asked);
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to, inode;
        int end = 0;

        if (sscanf(line, "%lx-%lx rw-p 00000000 00:00 %lu%n", &from, &to, &inode, &end) < 3 || inode || line[end + strspn(line + end, " ")] != '\n' ||
            to - from < BLOCK_LARGE)
            continue;
        madvise((void *)(uintptr_t)from, to - from, MADV_HUGEPAGE);
        range_add(from, to);
    }
    if (f)
        fclose(f);
}

bool snapfork_tend(void)
{
    int64_t start = now_us();

    heap_ask();
    if (heap.asked && __atomic_exchange_n(&heap.is_due, false, __ATOMIC_RELAXED))
        ranges_find();
    while (heap.next < heap.count) {
        struct range *r = &heap.ranges[heap.next];

        madvise((void *)r->at, HUGE_BYTES, MADV_COLLAPSE);      /* a page never touched or unmapped meanwhile, an older kernel: an error at once */
        r->at += HUGE_BYTES;
        if (r->at >= r->end)
            heap.next++;
        if (now_us() - start > TEND_US)
            break;
    }
    return heap.next < heap.count;
}

/* ---- the child ---- */

static void sockets_close(int except)
{
    DIR *dir = opendir("/proc/self/fd");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct dirent *d;
    struct stat st;

    while (dir && null >= 0 && (d = readdir(dir))) {
        int fd = atoi(d->d_name);

        if (fd > 2 && fd != except && fd != null && fd != dirfd(dir) && fstat(fd, &st) == 0 && (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode)))
            dup2(null, fd);
    }
    if (dir)
        closedir(dir);
    if (null >= 0)
        close(null);
}

/* When memory runs short, the kernel ends the child, not the controller. */
static void dies_first(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, "1000", 4) < 0) { }       /* then both are as likely */
    close(fd);
}

static _Noreturn void child_main(struct snapfile_writer *w, snapfork_fill fill, void *arg, int close_fd, int out, pid_t parent)
{
    struct spur_store_sink sink = { .arg = w, .write = snapfile_write };
    struct answer a;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (close_fd >= 0)
        close(close_fd);
    setpriority(PRIO_PROCESS, 0, 19);
    syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE);
    sockets_close(out);
    dies_first();
    w->is_patient = true;
    memset(&a, 0, sizeof a);
    a.code = fill(arg, &sink, &a.err);
    if (a.code == 0 || w->err.code)
        a.code = snapfile_end(w, &a.err);
    if (a.code == 0 && w->io->fdatasync(w->io->arg, w->fd, w->temporary) < 0)
        a.code = spur_fail(&a.err, SPUR_EIO, "%s: a snapshot could not be brought to the disk: %s", w->path, strerror(errno));
    a.bytes = w->bytes;
    _exit(write(out, &a, sizeof a) == (ssize_t)sizeof a ? 0 : 1);
}

/* ---- the parent ---- */

int snapfork_begin(struct snapfork *f, struct snapfile_writer *w, snapfork_fill fill, void *arg, int close_fd, unsigned seconds, struct spur_error *err)
{
    sigset_t all, before;
    pid_t parent = getpid();
    int64_t start;
    int ends[2];

    memset(f, 0, sizeof *f);
    f->pipe = -1;
    heap_ask();
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return spur_fail(err, SPUR_EIO, "%s: no pipe for a snapshot: %s", w->path, strerror(errno));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    start = now_us();
    f->pid = fork();
    if (f->pid == 0)
        child_main(w, fill, arg, close_fd, ends[1], parent);
    f->pause_us = (uint32_t)(now_us() - start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (f->pid < 0) {
        int error = errno;

        f->pid = 0;
        close(ends[0]);
        return spur_fail(err, SPUR_ENOMEM, "%s: no process for a snapshot: %s", w->path, strerror(error));
    }
    f->pipe = ends[0];
    f->writer = w;
    f->deadline_ms = start / 1000 + (int64_t)seconds * 1000;
    return 0;
}

static void reap(struct snapfork *f)
{
    while (f->pid && waitpid(f->pid, NULL, 0) < 0 && errno == EINTR) { }
    f->pid = 0;
    if (f->pipe >= 0)
        close(f->pipe);
    f->pipe = -1;
}

void snapfork_kill(struct snapfork *f)
{
    if (!f->pid)
        return;
    kill(f->pid, SIGKILL);
    reap(f);
    __atomic_store_n(&heap.is_due, true, __ATOMIC_RELAXED);
}

int snapfork_poll(struct snapfork *f, int wait_ms, struct spur_error *err)
{
    struct pollfd p = { .fd = f->pipe, .events = POLLIN };
    struct snapfile_writer *w = f->writer;
    int64_t left = f->deadline_ms - now_us() / 1000;
    struct answer a;
    ssize_t n;
    int ready;

    if (left < 0)
        left = 0;
    ready = poll(&p, 1, wait_ms < 0 || left < wait_ms ? (int)(left < INT32_MAX ? left : INT32_MAX) : wait_ms);
    if (ready <= 0 && now_us() / 1000 < f->deadline_ms)
        return 0;
    n = ready > 0 ? read(f->pipe, &a, sizeof a) : 0;
    snapfork_kill(f);                   /* with its answer given it has nothing to do any more */
    free(w->chunk);
    free(w->hashes);
    w->chunk = w->hashes = NULL;
    if (n != (ssize_t)sizeof a)
        return spur_fail(err, SPUR_EIO, "%s: the process that wrote a snapshot was ended %s", w->path,
                         ready > 0 ? "before it was done: too little memory, or somebody's kill" : "for taking too long");
    if (a.code < 0) {
        if (err)
            *err = a.err;
        return a.code;
    }
    w->bytes = a.bytes;
    return 1;
}
