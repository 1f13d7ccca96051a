/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.c - ends the allocation of a command, and guards it; see allocation.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmds/common/allocation.h"

#define GUARD_TRIES  60         /* with what a call waits by itself, a quarter of an hour */
#define GUARD_REST_S 5
#define GUARD_UNSURE_TRIES 12   /* while it is not known that there is a job at all */

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

/* The command's null: what some library says on standard error must not go into a socket that got number 2. */
static void null_fds(int keep)
{
    int null;

    close_range(0, keep > 0 ? (unsigned)keep - 1 : 0, 0);
    close_range((unsigned)keep + 1, UINT32_MAX, 0);
    do
        null = open("/dev/null", O_RDWR);
    while (null >= 0 && null < 2);
}

/* What time may mend. Anything else is an answer: the job is over, or is none of ours. */
static bool is_worth_another(int rc)
{
    return rc == SPUR_ECLOSED || rc == SPUR_ETIMEOUT || rc == SPUR_ENOTLEADER || rc == SPUR_ENOSPACE || rc == SPUR_EBUSY || rc == SPUR_EAUTH;
}

/* The command has never learned its job's number. Asked again with the same token the controller says it; where the first request never came it makes a
 * job now, a held one, which is cancelled like the other. */
static int ask_again(struct client *c, struct arena *a, Wire__SubmitRequest *submit, uint32_t *job_id, struct spur_error *err)
{
    void *reply;
    int number, rc;

    submit->spec->has_hold = submit->spec->hold = true;
    rc = client_call(c, WIRE__MESSAGE_TYPE__SUBMIT, &submit->base, WIRE__MESSAGE_TYPE__SUBMITTED, &wire__submit_reply__descriptor, a, &reply, &number, err);
    if (rc == 0)
        *job_id = ((Wire__SubmitReply *)reply)->job_id;
    return rc;
}

/* What a guard is told. `over`: nothing is left to guard. */
struct guard_word { bool over; uint32_t job_id; pid_t command; int signal; };

/* The caller was killed and cannot tell its command that the allocation goes: as scancel of the job would have it. A descriptor knows whether the leader of the
 * group still is the one that was meant. */
static void command_end(int command_fd, pid_t command, int signal)
{
    struct pollfd p = { .fd = command_fd, .events = POLLIN };

    if (command_fd < 0 || poll(&p, 1, 0) != 0)
        return;
    kill(-command, signal);
    kill(-command, SIGCONT);
}

static _Noreturn void guard_run(Wire__SubmitRequest *submit, const char *name, int fd)
{
    static const int deaf[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM };
    struct guard_word word, last = { 0 };
    uint32_t job_id = 0;
    int command_fd = -1;
    struct arena a;
    ssize_t n;

    setsid();                       /* what is sent to the command's process group or terminal is not for us */
    prctl(PR_SET_NAME, name);
    for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
        signal(deaf[i], SIG_IGN);
    null_fds(fd);
    while ((n = read(fd, &word, sizeof word)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n != sizeof word || word.over)
            _exit(0);
        job_id = word.job_id ? word.job_id : job_id;
        if (word.command) {
            last = word;
            command_fd = (int)syscall(SYS_pidfd_open, word.command, 0);
        }
    }
    command_end(command_fd, last.command, last.signal);
    arena_init(&a, 0);
    for (int tries = 0; tries < (job_id ? GUARD_TRIES : GUARD_UNSURE_TRIES); tries++) {
        struct spur_error err = { 0 };
        struct client *c = NULL;
        char id[16];
        int rc = client_open(NULL, &c, &err);

        if (rc == 0 && job_id == 0)
            rc = ask_again(c, &a, submit, &job_id, &err);
        snprintf(id, sizeof id, "%u", job_id);
        if (rc == 0)
            rc = allocation_cancel(c, &a, id, &err);
        client_close(c);
        if (!is_worth_another(rc))
            break;
        sleep(GUARD_REST_S);
    }
    _exit(0);
}

void guard_start(struct guard *g, Wire__SubmitRequest *submit, const char *name)
{
    int fds[2];
    pid_t child;

    g->fd = -1;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    child = fork();
    if (child == 0) {
        close(fds[1]);
        guard_run(submit, name, fds[0]);
    }
    close(fds[0]);
    if (child < 0)
        close(fds[1]);
    else
        g->fd = fds[1];
}

static bool tell(struct guard *g, const struct guard_word *word) { return g->fd >= 0 && write(g->fd, word, sizeof *word) == sizeof *word; }

void guard_job(struct guard *g, uint32_t job_id) { tell(g, &(struct guard_word){ .job_id = job_id }); }
void guard_command(struct guard *g, pid_t command, int signal) { tell(g, &(struct guard_word){ .command = command, .signal = signal }); }

void guard_dismiss(struct guard *g)
{
    if (tell(g, &(struct guard_word){ .over = true }))
        close(g->fd);
    g->fd = -1;
}
