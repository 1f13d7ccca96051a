/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.c - ends the allocation of a command, and guards it; see allocation.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cmds/common/allocation.h"

#define GUARD_TRIES  60         /* with what a call waits by itself, a quarter of an hour */
#define GUARD_REST_S 5

static int cancel(struct client *c, struct arena *a, Wire__CancelRequest *r, struct spur_error *err)
{
    uint8_t token[16];
    void *reply;
    int number;

    client_token(token, &r->token_wall_ms);
    r->has_token = r->has_token_wall_ms = true;
    r->token.data = token;
    r->token.len = sizeof token;
    return client_call(c, WIRE__MESSAGE_TYPE__CANCEL, &r->base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, a, &reply, &number, err);
}

int allocation_finish(struct client *c, struct arena *a, uint32_t job_id, int wait_status, struct spur_error *err)
{
    Wire__CancelRequest r = WIRE__CANCEL_REQUEST__INIT;
    char *id = arena_printf(a, "%u", job_id);

    r.ids = &id;
    r.n_ids = 1;
    r.has_finish = r.finish = r.has_status = true;
    r.status = wait_status;
    return cancel(c, a, &r, err);
}

int allocation_cancel(struct client *c, struct arena *a, const char *id, struct spur_error *err)
{
    Wire__CancelRequest r = WIRE__CANCEL_REQUEST__INIT;
    char *copy = arena_copy(a, id);

    r.ids = &copy;
    r.n_ids = 1;
    return cancel(c, a, &r, err);
}

static _Noreturn void guard_run(uint32_t job_id, const char *name, int fd)
{
    static const int deaf[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM };
    struct spur_error err = { 0 };
    struct client *c = NULL;
    struct arena a;
    char id[16], word;
    ssize_t n;

    setsid();                       /* what is sent to the command's process group or terminal is not for us */
    prctl(PR_SET_NAME, name);
    for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
        signal(deaf[i], SIG_IGN);
    if (fd > 0)
        close_range(0, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, UINT32_MAX, 0);
    do
        n = read(fd, &word, 1);
    while (n < 0 && errno == EINTR);
    arena_init(&a, 0);
    snprintf(id, sizeof id, "%u", job_id);
    for (int tries = 0; n == 0 && tries < GUARD_TRIES; tries++) {
        int rc = client_open(NULL, &c, &err);

        rc = rc == 0 ? allocation_cancel(c, &a, id, &err) : rc;
        if (rc != SPUR_ECLOSED && rc != SPUR_ETIMEOUT && rc != SPUR_ENOTLEADER && rc != SPUR_ENOSPACE)
            break;
        client_close(c);
        c = NULL;
        sleep(GUARD_REST_S);
    }
    _exit(0);
}

void guard_start(struct guard *g, uint32_t job_id, const char *name)
{
    int fds[2];
    pid_t child;

    g->fd = -1;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    child = fork();
    if (child == 0) {
        close(fds[1]);
        guard_run(job_id, name, fds[0]);
    }
    close(fds[0]);
    if (child < 0)
        close(fds[1]);
    else
        g->fd = fds[1];
}

void guard_dismiss(struct guard *g)
{
    if (g->fd >= 0 && write(g->fd, "x", 1) == 1)
        close(g->fd);
    g->fd = -1;
}
