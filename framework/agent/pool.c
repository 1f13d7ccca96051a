/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - both ends of the pool. The agent sends two descriptors a step: a memory file with the order, and the supervisor's end of a
 * socket pair. The pool forks, the child becomes the supervisor; its parent is the pool as long as that lives, then init: no one waits for
 * it by pid, the link tells all. Starts before the agent reads any key; a pool that must be started again later is a fresh execution, so its
 * memory has none either.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/bcast.h"
#include "agent/environment.h"
#include "agent/fault.h"
#include "agent/hardware.h"
#include "agent/pool.h"
#include "agent/spank_node.h"
#include "agent/supervisor.h"
#include "agent/task.h"
#include "base/str.h"
#include "wire/credential.h"

#define POOL_FD 3
#define TITLE_ROOM "                                                "     /* a supervisor writes its step's name over it, for ps */

extern char **environ;

int pool_start(struct pool *p, struct spur_error *err)
{
    char *argv[] = { "spurstepd", "--pool", TITLE_ROOM, NULL };
    posix_spawn_file_actions_t files;
    int pair[2], cause;

    p->fd = -1;
    p->pid = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return spur_fail(err, SPUR_EIO, "cannot make the pool's socket: %s", strerror(errno));
    posix_spawn_file_actions_init(&files);
    if (pair[1] == POOL_FD) {       /* dup2 onto itself would keep close-on-exec */
        int other = fcntl(pair[1], F_DUPFD_CLOEXEC, POOL_FD + 1);

        close(pair[1]);
        pair[1] = other;
    }
    posix_spawn_file_actions_adddup2(&files, pair[1], POOL_FD);
    cause = posix_spawn(&p->pid, "/proc/self/exe", &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(pair[1]);
    if (cause) {
        close(pair[0]);
        return spur_fail(err, SPUR_EIO, "cannot start spurstepd: %s", strerror(cause));
    }
    p->fd = pair[0];
    return 0;
}

void pool_stop(struct pool *p)
{
    if (p->fd >= 0)
        close(p->fd);
    if (p->pid > 0)
        waitpid(p->pid, NULL, 0);
    p->fd = -1;
    p->pid = -1;
}

static int order_file(const Wire__StepOrder *order, struct spur_error *err)
{
    size_t n = wire__step_order__get_packed_size(order);
    int fd = fault(FAULT_ORDER_FILE) ? -1 : memfd_create("spur-order", MFD_CLOEXEC);
    void *at;

    if (fd < 0 || ftruncate(fd, (off_t)n) < 0 || (at = mmap(NULL, n ? n : 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        int cause = errno;

        if (fd >= 0)
            close(fd);
        return spur_fail(err, SPUR_ENOMEM, "cannot make the order of a step (%zu bytes): %s", n, strerror(cause));
    }
    wire__step_order__pack(order, at);
    munmap(at, n ? n : 1);
    return fd;
}

static int send_fds(int to, const int fds[2])
{
    char byte = 'S';
    struct iovec v = { &byte, 1 };
    union { struct cmsghdr head; char room[CMSG_SPACE(2 * sizeof(int))]; } control = { 0 };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
    return sendmsg(to, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int pool_order(struct pool *p, const Wire__StepOrder *order, int *link_fd, struct spur_error *err)
{
    int pair[2], order_fd = order_file(order, err), fds[2], rc = 0;

    if (order_fd < 0)
        return order_fd;
    if (fault(FAULT_STEP_LINK) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        close(order_fd);
        return spur_fail(err, SPUR_EIO, "cannot make a step's socket: %s", strerror(errno));
    }
    fds[0] = order_fd;
    fds[1] = pair[1];
    if (p->fd < 0 || send_fds(p->fd, fds) < 0) {
        pool_stop(p);
        rc = pool_start(p, err);
        if (rc == 0 && send_fds(p->fd, fds) < 0)
            rc = spur_fail(err, SPUR_EIO, "spurstepd takes no order: %s", strerror(errno));
    }
    close(order_fd);
    close(pair[1]);
    if (rc < 0)
        close(pair[0]);
    else
        *link_fd = pair[0];
    return rc;
}

/* ---- the pool's own process ---- */

static Wire__StepOrder *order_read(int fd)
{
    Wire__StepOrder *order = NULL;
    struct stat st;
    void *at;

    if (fstat(fd, &st) == 0 && st.st_size > 0 && (at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) != MAP_FAILED) {
        order = wire__step_order__unpack(NULL, (size_t)st.st_size, at);
        munmap(at, (size_t)st.st_size);
    }
    close(fd);
    return order;
}

static void show_title(char **argv, int argc, const Wire__StepOrder *order)
{
    size_t room = argc > 2 ? (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]) : 0;
    char title[128], step[16];

    if (order_is_batch(order))
        snprintf(step, sizeof step, "batch");
    else
        snprintf(step, sizeof step, "%u", order->grant->step_id);
    snprintf(title, sizeof title, "spurstepd: [%u.%s]", order->grant->job_id, step);
    if (room > strlen(title)) {
        memset(argv[0], 0, room);
        memcpy(argv[0], title, strlen(title));
    }
}

static _Noreturn void become_supervisor(int order_fd, int link_fd, char **argv, int argc)
{
    Wire__StepOrder *order = order_read(order_fd);

    signal(SIGCHLD, SIG_DFL);
    setsid();
    if (!order || order->version != STEP_PROTOCOL)
        _exit(1);
    if (!strcmp(order->grant->purpose, CREDENTIAL_PURPOSE_SBCAST))
        _exit(bcast_run(order));
    show_title(argv, argc, order);
    _exit(supervisor_run(order, link_fd));
}

static int take_order(int argc, char **argv)
{
    char byte;
    struct iovec v = { &byte, 1 };
    union { struct cmsghdr head; char room[CMSG_SPACE(2 * sizeof(int))]; } control;
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t n = recvmsg(POOL_FD, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c;
    int fds[2];

    if (n < 0 && errno == EINTR)
        return 1;
    if (n <= 0)
        return 0;
    c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof fds))
        return 1;
    memcpy(fds, CMSG_DATA(c), sizeof fds);
    if (!fault(FAULT_POOL_FORK) && fork() == 0) {
        close(POOL_FD);
        become_supervisor(fds[0], fds[1], argv, argc);
    }
    close(fds[0]);      /* a fork that failed shows at the agent as a link that closes before the first word */
    close(fds[1]);
    return 1;
}

int spurstepd_main(int argc, char **argv)
{
    struct stat st;
    int null;

    if (argc == 2 && !strcmp(argv[1], "--hardware"))
        return hardware_main();
    if (argc == 2 && !strcmp(argv[1], "--spank"))
        return spank_node_main();
    if (argc < 2 || strcmp(argv[1], "--pool") || fstat(POOL_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        fprintf(stderr, "spurstepd: started by spurd for each step; there is nothing to start by hand\n");
        return 1;
    }
    prctl(PR_SET_NAME, "spurstepd");
    fcntl(POOL_FD, F_SETFD, FD_CLOEXEC);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, SIG_IGN);       /* it ends with the agent's end of the socket */
    null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        if (null > POOL_FD)
            close(null);
    }
    if (chdir("/") < 0)
        return 1;
    task_close_from(POOL_FD + 1);       /* whatever the agent was started with */
    setsid();
    while (take_order(argc, argv))
        ;
    return 0;
}
