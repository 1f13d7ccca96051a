/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.c - starts the server of the mpi plugin beside a step's tasks and carries its messages.
 *
 *     task ... PMI socket (or what the library opens) ... server ... control socket ... supervisor ... step's channel ... srun ... other nodes
 *
 * The server is a fork of the supervisor that becomes the user before it loads anything: what tasks send is parsed with the user's rights, and libpmix
 * brings threads that a supervisor, which forks, must not have. It holds no key: the fork's copy of the step's secret is wiped first. Tasks wait until it says READY.
 * It is a child like the tasks, so whatever empties the step ends it too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/mpi.h"
#include "base/clock.h"
#include "base/str.h"
#include "client/link.h"

#define MPI_FOLDER "mpi"        /* in the step's folder */
#define READ_MAX   (1u << 20)
#define SETTLE_MS  30000        /* a server that is stopped or stuck does not hold the step's end */

struct mpi {
    const Wire__StepOrder *order;
    void (*to_srun)(void *arg, const Wire__IoMpi *m); void *arg;
    enum mpi_state state;
    struct link link;
    uint64_t seq;
    uint32_t count, ends;       /* ends: of tasks, that the server has not dealt with */
    int64_t settle_by_ms;       /* how long they are waited for */
    int    *task_fds;           /* the tasks' ends */
    struct environment *envs;   /* of each task, what the server said */
    char    fault[240];
};

static void fail(struct mpi *m, const char *text)
{
    link_close(&m->link);
    m->state = MPI_FAILED;
    snprintf(m->fault, sizeof m->fault, "%s", text);
}

static const char *plugin_of(const Wire__StepOrder *o)
{
    const char *name = o->launch->step ? o->launch->step->mpi : NULL;

    if (order_is_batch(o))
        return NULL;
    if (!name || !*name)
        name = o->mpi;
    return name && *name && !word_eq(name, "none") && !word_eq(name, "mpi/none") ? name : NULL;
}

/* The folder of the user's for sockets and files; it goes with the step's. */
static char *make_folder(const Wire__StepOrder *o, int folder_fd, struct spur_error *err)
{
    struct str path;

    if ((mkdirat(folder_fd, MPI_FOLDER, 0700) < 0 && errno != EEXIST) ||
        (geteuid() == 0 && fchownat(folder_fd, MPI_FOLDER, o->grant->uid, o->grant->gid, AT_SYMLINK_NOFOLLOW) < 0)) {
        spur_fail(err, SPUR_EIO, "cannot make %s/%s: %s", o->folder, MPI_FOLDER, strerror(errno));
        return NULL;
    }
    str_init(&path);
    str_addf(&path, "%s/%s", o->folder, MPI_FOLDER);
    return str_take(&path);
}

static int fork_server(struct mpi *m, const char *plugin, const char *dir, struct spur_error *err)
{
    struct mpi_server s = { .order = m->order, .plugin = plugin, .dir = dir, .control = -1, .count = m->count };
    int pair[2] = { -1, -1 }, rc = 0;
    pid_t pid;

    s.fds = mem_array(m->count + 1, sizeof *s.fds);
    for (uint32_t i = 0; i < m->count; i++)
        s.fds[i] = m->task_fds[i] = -1;
    for (uint32_t i = 0; rc == 0 && i < m->count; i++) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
            rc = spur_fail(err, SPUR_EIO, "cannot make a task's PMI socket: %s", strerror(errno));
        else
            m->task_fds[i] = ends[0], s.fds[i] = ends[1];
    }
    if (rc == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        rc = spur_fail(err, SPUR_EIO, "cannot make a socket: %s", strerror(errno));
    if (rc == 0 && (pid = fork()) == 0) {
        s.control = pair[1];
        mpi_serve(&s);
    } else if (rc == 0 && pid < 0) {
        rc = spur_fail(err, SPUR_EIO, "cannot fork the server of %s: %s", plugin, strerror(errno));
    }
    for (uint32_t i = 0; i < m->count; i++)
        if (s.fds[i] >= 0)
            close(s.fds[i]);
    free(s.fds);
    if (pair[1] >= 0)
        close(pair[1]);
    if (rc == 0)
        link_open(&m->link, pair[0], channel_local());
    else if (pair[0] >= 0)
        close(pair[0]);
    return rc;
}

struct mpi *mpi_create(const Wire__StepOrder *order, int folder_fd, void (*to_srun)(void *arg, const Wire__IoMpi *m), void *arg)
{
    struct mpi *m = mem_alloc(sizeof *m);
    const char *plugin = plugin_of(order);
    struct spur_error err = { 0 };
    char *dir;

    m->order = order;
    m->to_srun = to_srun;
    m->arg = arg;
    m->link.fd = -1;
    if (!plugin)
        return m;
    m->count = order_local_tasks(order);
    m->task_fds = mem_array(m->count + 1, sizeof *m->task_fds);
    m->envs = mem_array(m->count + 1, sizeof *m->envs);
    for (uint32_t i = 0; i < m->count; i++)
        environment_init(&m->envs[i]);
    m->state = MPI_STARTING;
    dir = make_folder(order, folder_fd, &err);
    if (!dir || fork_server(m, plugin, dir, &err) < 0)
        fail(m, err.text);
    free(dir);
    return m;
}

void mpi_started(struct mpi *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->task_fds[i] >= 0)
            close(m->task_fds[i]);
        m->task_fds[i] = -1;
    }
}

void mpi_end(struct mpi *m)
{
    link_close(&m->link);
    if (m->state != MPI_NONE)
        m->state = MPI_OVER;
}

void mpi_destroy(struct mpi *m)
{
    if (!m)
        return;
    mpi_started(m);
    link_close(&m->link);
    for (uint32_t i = 0; i < m->count; i++)
        environment_fini(&m->envs[i]);
    free(m->envs);
    free(m->task_fds);
    free(m);
}

enum mpi_state mpi_state(const struct mpi *m) { return m->state; }
const char *mpi_fault(const struct mpi *m) { return m->fault; }

int mpi_task(const struct mpi *m, uint32_t local, struct environment *env)
{
    const struct environment *mine = local < m->count ? &m->envs[local] : NULL;

    if (m->state != MPI_READY || !mine)
        return -1;
    for (size_t i = 0; i < mine->count; i++)
        environment_carry(env, mine->vars[i], strlen(mine->vars[i]));
    return m->task_fds[local];
}

/* ---- messages ---- */

static void server_gone(struct mpi *m, const char *why)
{
    Wire__IoMpi out = WIRE__IO_MPI__INIT;
    char text[240];

    if (m->state == MPI_STARTING) {
        snprintf(text, sizeof text, "the server of mpi plugin %.40s ended before the tasks could start", plugin_of(m->order));
        fail(m, text);
        return;
    }
    link_close(&m->link);
    if (m->state != MPI_READY)
        return;
    m->state = MPI_OVER;
    snprintf(text, sizeof text, "the server of mpi plugin %.40s has ended: %.100s", plugin_of(m->order), why);
    out.kind = WIRE__IO_MPI__KIND__ABORT;
    out.has_status = 1;
    out.status = 1;
    out.text = text;
    m->to_srun(m->arg, &out);
}

static void say(struct mpi *m, const Wire__IoMpi *message)
{
    struct spur_error err = { 0 };

    if (m->link.fd < 0)
        return;
    if (link_send(&m->link, WIRE__MESSAGE_TYPE__IO_MPI, ++m->seq, &message->base, &err) < 0 || link_flush(&m->link, &err) < 0)
        server_gone(m, err.text);
}

void mpi_task_ended(struct mpi *m, uint32_t local, int status)
{
    Wire__IoMpi out = WIRE__IO_MPI__INIT;

    out.kind = WIRE__IO_MPI__KIND__ENDED;
    out.has_task = out.has_status = 1;
    out.task = local;
    out.status = status;
    if (m->state != MPI_READY)
        return;
    m->ends++;
    m->settle_by_ms = clock_boot_ms() + SETTLE_MS;
    say(m, &out);
}

bool mpi_is_settled(const struct mpi *m, int64_t now) { return m->state != MPI_READY || m->ends == 0 || now >= m->settle_by_ms; }
int64_t mpi_deadline(const struct mpi *m) { return m->state == MPI_READY && m->ends ? m->settle_by_ms : INT64_MAX; }

void mpi_from_srun(struct mpi *m, const Wire__IoMpi *message) { say(m, message); }

void mpi_lost(struct mpi *m, const char *why)
{
    Wire__IoMpi out = WIRE__IO_MPI__INIT;

    out.kind = WIRE__IO_MPI__KIND__LOST;
    out.text = (char *)(uintptr_t)why;
    say(m, &out);
}

static void take_message(struct mpi *m, const Wire__IoMpi *in)
{
    switch (in->kind) {
    case WIRE__IO_MPI__KIND__READY:
        if (in->text)
            fail(m, in->text);
        else if (m->state == MPI_STARTING)
            m->state = MPI_READY;
        break;
    case WIRE__IO_MPI__KIND__TASK:
        for (size_t i = 0; m->state == MPI_STARTING && in->has_task && in->task < m->count && i < in->n_env; i++)
            environment_set(&m->envs[in->task], in->env[i]->key, in->env[i]->value ? in->env[i]->value : "");
        break;
    case WIRE__IO_MPI__KIND__ENDED:
        m->ends -= m->ends > 0;
        break;
    case WIRE__IO_MPI__KIND__GATHER: case WIRE__IO_MPI__KIND__SEND: case WIRE__IO_MPI__KIND__ABORT:
        m->to_srun(m->arg, in);
        break;
    default:
        break;                          /* not said by a server */
    }
}

void mpi_poll(const struct mpi *m, struct pollfd *fd)
{
    *fd = (struct pollfd){ .fd = m->link.fd, .events = (short)(POLLIN | (m->link.fd >= 0 && link_backlog(&m->link) ? POLLOUT : 0)) };
}

void mpi_handle(struct mpi *m, const struct pollfd *fd)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc, got = 0;

    if (fd->fd < 0 || fd->fd != m->link.fd || !fd->revents)
        return;
    rc = link_read(&m->link, READ_MAX, &err);
    while (m->link.fd >= 0 && (got = link_next(&m->link, &f, &body, &err)) > 0) {
        Wire__IoMpi *in = f.type == WIRE__MESSAGE_TYPE__IO_MPI ? wire__io_mpi__unpack(NULL, f.length, body) : NULL;

        if (in)
            take_message(m, in);
        wire__io_mpi__free_unpacked(in, NULL);
    }
    if (m->link.fd >= 0 && (rc < 0 || got < 0 || link_flush(&m->link, &err) < 0))
        server_gone(m, err.text);
}
