/* SPDX-License-Identifier: Apache-2.0 */
/* taskio.c - moves output of tasks to srun (and to each sattach, watchers.c) and their input to tasks, in bounded memory.
 *
 * Output: a task's pipe is read only while less than OUT_LIMIT bytes wait for srun, so the pipe fills and the task waits: nothing is lost and
 * nothing piles up. Input: srun may send as many bytes as it has credit for; credit grows as the slowest task of this node takes them. A window
 * of its own, and not a stop of the channel, because signals come the same way and must not wait behind input nobody reads.
 * When srun goes away, tasks keep running and what they print is dropped, as the pipe of a dead terminal would not be.
 * A pseudo terminal (--pty) is both ends in one: a duplicate of its master stands for each pipe, and the end of input is the character for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/environment.h"
#include "agent/figures.h"
#include "agent/pty.h"
#include "agent/taskio.h"
#include "agent/watchers.h"
#include "base/clock.h"
#include "base/str.h"
#include "client/callback.h"
#include "client/link.h"

#define OUT_LIMIT     (256u << 10)
#define READ_CHUNK    (16u << 10)
#define INPUT_WINDOW  (64u << 10)
#define SHUT_MS       60000         /* for srun to have read the last word */
#define TASK_ALL      UINT32_MAX

struct stream {
    int  in_fd, out_fd, err_fd;
    struct str input; size_t input_at;      /* waits for the task */
    bool input_ends;
    uint64_t taken;                         /* input bytes written to the task, or dropped because it closed its end */
    bool is_pty;
    bool exited, told; int status;
};

struct taskio {
    const Wire__StepOrder *order;
    void (*signalled)(void *arg, int signal); void *arg;
    void (*mpi_came)(void *arg, const Wire__IoMpi *m); void *mpi_arg;
    enum taskio_state state;
    struct link link;
    char  *hosts, *next_host;
    bool   connected, said_hello, said_last, is_shut;
    int64_t deadline_ms;
    struct stream *streams; uint32_t count, *ids;       /* ids: the tasks' numbers in the step */
    struct watchers *watchers;
    uint64_t foreign;                       /* input bytes that watchers gave */
    uint32_t *pids;
    uint64_t credit_said;
    uint64_t sequence;
    char   fault[240];
};

static void lose(struct taskio *io, const char *why)
{
    link_close(&io->link);
    io->state = TASKIO_LOST;
    io->deadline_ms = INT64_MAX;
    if (!io->fault[0])
        snprintf(io->fault, sizeof io->fault, "%s", why);
    for (uint32_t i = 0; i < io->count; i++) {      /* the tasks see the end of their input */
        struct stream *s = &io->streams[i];

        str_clear(&s->input);
        s->input_at = 0;
        s->input_ends = true;
        if (s->in_fd >= 0)
            close(s->in_fd);
        s->in_fd = -1;
    }
}

/* Begins to connect to the next address of the list; LOST when there is none left. */
static void connect_next(struct taskio *io)
{
    struct spur_error err = { 0 };

    io->connected = false;
    if (io->fault[0])
        spur_fail(&err, SPUR_ECLOSED, "%s", io->fault);
    if (callback_next(&io->link, &io->next_host, io->order->grant->io_port, io->order->cluster, io->order->grant->io_key.data, &err) < 0) {
        lose(io, err.text);
        return;
    }
    io->deadline_ms = clock_boot_ms() + CALLBACK_MS;
    snprintf(io->fault, sizeof io->fault, "%s", err.text);
}

static void greet(void *arg, struct watcher *w);
static void tell_figures(void *arg, struct watcher *w);
static void watcher_message(void *arg, struct watcher *w, const struct frame *f, const uint8_t *body);

struct taskio *taskio_create(const Wire__StepOrder *order, void (*signalled)(void *arg, int signal), void *arg)
{
    struct taskio *io = mem_alloc(sizeof *io);

    io->order = order;
    io->signalled = signalled;
    io->arg = arg;
    io->link.fd = -1;
    io->deadline_ms = INT64_MAX;
    io->count = order_local_tasks(order);
    io->streams = mem_array(io->count ? io->count : 1, sizeof *io->streams);
    io->ids = mem_array(io->count + 1u, sizeof *io->ids);
    io->pids = mem_array(io->count ? io->count : 1, sizeof *io->pids);
    io->watchers = watchers_create(order->cluster, &(struct watched){ .arg = io, .greet = greet, .figures = tell_figures, .message = watcher_message });
    for (uint32_t i = 0; i < io->count; i++) {
        io->ids[i] = order_task(order, i);
        io->streams[i].in_fd = io->streams[i].out_fd = io->streams[i].err_fd = -1;
        str_init(&io->streams[i].input);
    }
    if (!order->grant->io_port || !order->grant->io_host || order->grant->io_key.len != 32) {
        io->state = TASKIO_NONE;
        return io;
    }
    io->state = TASKIO_CONNECTING;
    io->hosts = io->next_host = mem_copy(order->grant->io_host);
    connect_next(io);
    return io;
}

void taskio_destroy(struct taskio *io)
{
    if (!io)
        return;
    link_close(&io->link);
    watchers_destroy(io->watchers);
    for (uint32_t i = 0; i < io->count; i++) {
        struct stream *s = &io->streams[i];

        str_fini(&s->input);
        if (s->in_fd >= 0)
            close(s->in_fd);
        if (s->out_fd >= 0)
            close(s->out_fd);
        if (s->err_fd >= 0)
            close(s->err_fd);
    }
    free(io->streams);
    free(io->ids);
    free(io->pids);
    free(io->hosts);
    free(io);
}

enum taskio_state taskio_state(const struct taskio *io) { return io->state; }
const char *taskio_fault(const struct taskio *io) { return io->fault; }

int64_t taskio_deadline(const struct taskio *io)
{
    int64_t watchers = watchers_deadline(io->watchers);

    return watchers < io->deadline_ms ? watchers : io->deadline_ms;
}

void taskio_dial(struct taskio *io, const Wire__Credential *grant) { watchers_dial(io->watchers, grant); }

static void send_or_lose(struct taskio *io, uint16_t type, const ProtobufCMessage *body)
{
    struct spur_error err = { 0 };

    if (io->state != TASKIO_OPEN)
        return;
    if (link_send(&io->link, type, ++io->sequence, body, &err) < 0 || link_flush(&io->link, &err) < 0)
        lose(io, err.text);
}

void taskio_attach(struct taskio *io, uint32_t local, int in_fd, int out_fd, int err_fd)
{
    struct stream *s = &io->streams[local];
    int fds[3] = { in_fd, out_fd, err_fd };

    s->in_fd = in_fd;
    s->out_fd = out_fd;
    s->err_fd = err_fd;
    s->is_pty = out_fd >= 0 && isatty(out_fd);
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
}

/* To srun and to all who look on. */
static void send_all(struct taskio *io, uint16_t type, const ProtobufCMessage *body)
{
    send_or_lose(io, type, body);
    watchers_send(io->watchers, type, body);
}

static void say_credit(struct taskio *io);

static void hello_fill(const struct taskio *io, Wire__IoHello *hello)
{
    wire__io_hello__init(hello);
    hello->node_rank = order_step_rank(io->order);
    hello->node = io->order->node;
    hello->first_task = io->ids[0];
    hello->tasks = io->count;
    for (uint32_t i = 0; i < io->count && !hello->n_task_ids; i++)
        if (io->ids[i] != io->ids[0] + i) {
            hello->n_task_ids = io->count;
            hello->task_ids = io->ids;
        }
}

void taskio_hello(struct taskio *io, const uint32_t *pids, uint32_t count, const char *error, int error_status)
{
    Wire__IoHello hello;

    for (uint32_t i = 0; i < count && i < io->count; i++)
        io->pids[i] = pids[i];
    hello_fill(io, &hello);
    hello.n_pids = count;
    hello.pids = (uint32_t *)(uintptr_t)pids;
    hello.error = (char *)(uintptr_t)error;
    hello.has_error_status = error != NULL;
    hello.error_status = error_status;
    io->said_hello = true;
    if (error)
        io->said_last = true;       /* nothing else will come */
    send_or_lose(io, WIRE__MESSAGE_TYPE__IO_HELLO, &hello.base);
    say_credit(io);             /* before any exit status: a task that ends at once has been offered its input all the same */
}

void taskio_say(struct taskio *io, const char *line)
{
    Wire__IoData d = WIRE__IO_DATA__INIT;

    if (!io->said_hello || io->said_last || !io->count)
        return;
    d.task = io->ids[0];
    d.stream = 2;
    d.has_data = true;
    d.data.data = (uint8_t *)(uintptr_t)line;
    d.data.len = strlen(line);
    send_all(io, WIRE__MESSAGE_TYPE__IO_DATA, &d.base);
}

static bool streams_closed(const struct taskio *io)
{
    for (uint32_t i = 0; i < io->count; i++)
        if (io->streams[i].out_fd >= 0 || io->streams[i].err_fd >= 0)
            return false;
    return true;
}

static bool streams_ended(const struct taskio *io)
{
    for (uint32_t i = 0; i < io->count; i++)
        if (!io->streams[i].exited)
            return false;
    return streams_closed(io);
}

/* Exit statuses go out when the task's output has: srun must not print a prompt before the last line. */
static void tell_exits(struct taskio *io)
{
    for (uint32_t i = 0; i < io->count; i++) {
        struct stream *s = &io->streams[i];
        Wire__IoExit e = WIRE__IO_EXIT__INIT;

        if (!s->exited || s->told || s->out_fd >= 0 || s->err_fd >= 0)
            continue;
        s->told = true;
        e.task = io->ids[i];
        e.status = s->status;
        io->pids[i] = 0;
        if (streams_ended(io)) {
            io->said_last = true;
            for (uint32_t k = i + 1; k < io->count; k++)
                if (!io->streams[k].told)
                    io->said_last = false;
            e.has_last = e.last = io->said_last;
        }
        send_all(io, WIRE__MESSAGE_TYPE__IO_EXIT, &e.base);
    }
}

void taskio_exited(struct taskio *io, uint32_t local, int status)
{
    struct stream *s = &io->streams[local];

    s->exited = true;
    s->status = status;
    if (s->in_fd >= 0) {
        close(s->in_fd);
        s->in_fd = -1;
    }
    tell_exits(io);
}

bool taskio_done(struct taskio *io)
{
    if (!watchers_done(io->watchers))
        return false;
    if (io->state == TASKIO_OPEN) {
        if (io->said_last && link_backlog(&io->link) == 0 && !io->is_shut) {
            io->is_shut = true;
            shutdown(io->link.fd, SHUT_WR);
            io->deadline_ms = clock_boot_ms() + SHUT_MS;
        }
        return false;           /* until srun has closed its end: a close with input that nobody has read resets the connection, and with it goes what srun has not read */
    }
    return io->said_last || streams_closed(io);      /* nobody listens: tasks that never came to be have no end to tell */
}

/* ---- input ---- */

static void give_input(struct stream *s)
{
    while (s->in_fd >= 0 && s->input_at < s->input.len) {
        ssize_t n = write(s->in_fd, s->input.text + s->input_at, s->input.len - s->input_at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {                    /* the task has closed its input */
            close(s->in_fd);
            s->in_fd = -1;
            break;
        }
        s->input_at += (size_t)n;
        s->taken += (uint64_t)n;
    }
    if (s->in_fd < 0)
        s->taken += s->input.len - s->input_at;
    str_clear(&s->input);
    s->input_at = 0;
    if (s->input_ends && s->in_fd >= 0) {
        char end = s->is_pty ? pty_end_of_input(s->in_fd) : '\0';

        if (end && write(s->in_fd, &end, 1) < 0)
            s->input_ends = true;           /* its terminal is full of what nobody reads */
        close(s->in_fd);
        s->in_fd = -1;
    }
}

static void take_input(struct taskio *io, const Wire__IoData *d, bool may_end)
{
    for (uint32_t i = 0; i < io->count; i++) {
        struct stream *s = &io->streams[i];

        if (d->task != TASK_ALL && d->task != io->ids[i])
            continue;
        if (d->has_data && s->input.len - s->input_at + d->data.len <= 4 * INPUT_WINDOW)
            str_add_n(&s->input, (const char *)d->data.data, d->data.len);
        if (d->eof && may_end)
            s->input_ends = true;
        give_input(s);
    }
}

/* Credit in all: what the slowest task has taken and a window on top. Said when it has grown by a quarter of the window. */
static void say_credit(struct taskio *io)
{
    Wire__IoData d = WIRE__IO_DATA__INIT;
    uint64_t least = UINT64_MAX;
    bool is_empty = true;

    for (uint32_t i = 0; i < io->count; i++)
        is_empty = is_empty && io->streams[i].input_at == io->streams[i].input.len;
    if (is_empty)
        watchers_credit(io->watchers);
    if (io->state != TASKIO_OPEN || !io->said_hello)
        return;
    for (uint32_t i = 0; i < io->count; i++)
        if (io->streams[i].in_fd >= 0 && io->streams[i].taken < least)
            least = io->streams[i].taken;
    if (least != UINT64_MAX)                /* what watchers gave does not count for srun; until the tasks have it, it counts against it */
        least = least > io->foreign ? least - io->foreign : 0;
    if (least == UINT64_MAX || least + INPUT_WINDOW < io->credit_said + INPUT_WINDOW / 4)
        return;
    io->credit_said = least + INPUT_WINDOW;
    d.task = TASK_ALL;
    d.stream = 0;
    d.has_credit = true;
    d.credit = io->credit_said;
    send_or_lose(io, WIRE__MESSAGE_TYPE__IO_STDIN, &d.base);
}

static void resize(struct taskio *io, const struct frame *f, const uint8_t *body)
{
    Wire__IoWindow *w = wire__io_window__unpack(NULL, f->length, body);

    for (uint32_t i = 0; w && i < io->count; i++)
        if (io->streams[i].is_pty && io->streams[i].out_fd >= 0)
            pty_resize(io->streams[i].out_fd, w->rows, w->columns);
    wire__io_window__free_unpacked(w, NULL);
}

void taskio_on_mpi(struct taskio *io, void (*came)(void *arg, const Wire__IoMpi *m), void *arg)
{
    io->mpi_came = came;
    io->mpi_arg = arg;
}

void taskio_mpi(struct taskio *io, const Wire__IoMpi *m)
{
    send_or_lose(io, WIRE__MESSAGE_TYPE__IO_MPI, &m->base);
}

static void take_message(struct taskio *io, const struct frame *f, const uint8_t *body)
{
    if (f->type == WIRE__MESSAGE_TYPE__IO_WINDOW)
        resize(io, f, body);
    if (f->type == WIRE__MESSAGE_TYPE__IO_STDIN) {
        Wire__IoData *d = wire__io_data__unpack(NULL, f->length, body);

        if (d)
            take_input(io, d, true);
        wire__io_data__free_unpacked(d, NULL);
    } else if (f->type == WIRE__MESSAGE_TYPE__IO_SIGNAL) {
        Wire__Kill *k = wire__kill__unpack(NULL, f->length, body);

        if (k)
            io->signalled(io->arg, (int)k->signal);
        wire__kill__free_unpacked(k, NULL);
    } else if (f->type == WIRE__MESSAGE_TYPE__IO_MPI && io->mpi_came) {
        Wire__IoMpi *m = wire__io_mpi__unpack(NULL, f->length, body);

        if (m)
            io->mpi_came(io->mpi_arg, m);
        wire__io_mpi__free_unpacked(m, NULL);
    }
}

/* ---- watchers ---- */

/* A sattach: what is true now; what is printed from here on follows. */
static void greet(void *arg, struct watcher *w)
{
    struct taskio *io = arg;
    Wire__IoHello hello;

    hello_fill(io, &hello);
    hello.pids = io->pids;
    hello.n_pids = io->count;
    watcher_send(w, WIRE__MESSAGE_TYPE__IO_HELLO, &hello.base);
    for (uint32_t i = 0; i < io->count; i++) {
        Wire__IoExit e = WIRE__IO_EXIT__INIT;

        e.task = io->ids[i];
        e.status = io->streams[i].status;
        if (io->streams[i].told)
            watcher_send(w, WIRE__MESSAGE_TYPE__IO_EXIT, &e.base);
    }
}

static void tell_figures(void *arg, struct watcher *w)
{
    struct spur_contain_figures whole;
    struct spur_error err = { 0 };
    Wire__StepFigures f = WIRE__STEP_FIGURES__INIT;
    struct taskio *io = arg;

    f.job_id = io->order->grant->job_id;
    f.step_id = io->order->grant->step_id;
    f.node = io->order->node;
    figures_take(io->pids, io->count, io->ids, &f);
    if (f.n_tasks == 1 && container_figures(&whole, &err) == 0) {       /* the container knows what has ended, and the true peak */
        Wire__TaskFigures *t = f.tasks[0];

        if (whole.user_us + whole.system_us > t->cpu_us)
            t->cpu_us = whole.user_us + whole.system_us;
        if (whole.rss_max_bytes)
            t->max_rss_kib = whole.rss_max_bytes >> 10;
    }
    watcher_send(w, WIRE__MESSAGE_TYPE__STEP_FIGURES, &f.base);
    figures_fini(&f);
}

static void watcher_message(void *arg, struct watcher *w, const struct frame *f, const uint8_t *body)
{
    struct taskio *io = arg;

    if (f->type == WIRE__MESSAGE_TYPE__IO_STDIN) {
        Wire__IoData *d = wire__io_data__unpack(NULL, f->length, body);

        if (d && d->data.len <= WATCHER_WINDOW) {
            io->foreign += d->data.len;
            watcher_input(w, d->data.len);
            take_input(io, d, false);
        }
        wire__io_data__free_unpacked(d, NULL);
    } else if (f->type == WIRE__MESSAGE_TYPE__IO_WINDOW) {
        resize(io, f, body);
    }
}

/* ---- output ---- */

static void read_output(struct taskio *io, uint32_t local, int *fd, uint32_t stream)
{
    Wire__IoData d = WIRE__IO_DATA__INIT;
    uint8_t buf[READ_CHUNK];
    ssize_t n = read(*fd, buf, sizeof buf);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    d.task = io->ids[local];
    d.stream = stream;
    if (n > 0) {
        d.has_data = true;
        d.data.data = buf;
        d.data.len = (size_t)n;
    } else {
        close(*fd);
        *fd = -1;
        d.has_eof = d.eof = true;
    }
    send_all(io, WIRE__MESSAGE_TYPE__IO_DATA, &d.base);
    if (*fd < 0)
        tell_exits(io);
}

/* ---- the caller's poll ---- */

static void fill(struct pollfd *p, int fd, short events)
{
    p->fd = events ? fd : -1;
    p->events = events;
    p->revents = 0;
}

size_t taskio_poll(struct taskio *io, struct pollfd *fds)
{
    bool room = io->state != TASKIO_CONNECTING && link_backlog(&io->link) < OUT_LIMIT && watchers_room(io->watchers);
    size_t n = 0;

    fill(&fds[n++], io->link.fd, (short)(io->link.fd < 0 ? 0 : !io->connected ? POLLOUT : POLLIN | (link_backlog(&io->link) ? POLLOUT : 0)));
    for (uint32_t i = 0; i < io->count; i++) {
        struct stream *s = &io->streams[i];

        fill(&fds[n++], s->in_fd, s->in_fd >= 0 && s->input_at < s->input.len ? POLLOUT : 0);
        fill(&fds[n++], s->out_fd, s->out_fd >= 0 && room ? POLLIN : 0);
        fill(&fds[n++], s->err_fd, s->err_fd >= 0 && room ? POLLIN : 0);
    }
    return n + watchers_poll(io->watchers, fds + n);
}

static void handle_channel(struct taskio *io, short got)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = 0;

    if (!io->connected) {
        if (!(got & (POLLOUT | POLLERR | POLLHUP)))
            return;
        if (callback_connected(&io->link, &err) < 0) {
            size_t at = strlen(io->fault);

            snprintf(io->fault + at, sizeof io->fault - at, ": %s", err.text);
            connect_next(io);
            return;
        }
        io->connected = true;
    }
    if (got & (POLLIN | POLLHUP | POLLERR))
        rc = link_read(&io->link, 4 * INPUT_WINDOW, &err);
    while (rc >= 0 && io->state != TASKIO_LOST && (rc = link_next(&io->link, &f, &body, &err)) > 0)
        take_message(io, &f, body);
    if (io->state == TASKIO_CONNECTING && rc >= 0 && channel_want(io->link.channel) == CHANNEL_READY) {
        io->state = TASKIO_OPEN;
        io->deadline_ms = INT64_MAX;
        io->fault[0] = '\0';
    }
    if (rc >= 0 && io->link.fd >= 0)
        rc = link_flush(&io->link, &err);
    if (rc < 0) {
        if (io->state == TASKIO_CONNECTING)
            connect_next(io);
        else
            lose(io, err.text);
    }
}

void taskio_handle(struct taskio *io, const struct pollfd *fds, size_t n, int64_t now_ms)
{
    if (n == 0)
        return;
    if (fds[0].fd >= 0 && fds[0].revents)
        handle_channel(io, fds[0].revents);
    else if (io->state == TASKIO_CONNECTING && now_ms >= io->deadline_ms)
        connect_next(io);
    else if (io->is_shut && now_ms >= io->deadline_ms)
        lose(io, "srun does not take the last word");
    for (uint32_t i = 0; i < io->count && 3 + 3 * (size_t)i < n; i++) {
        struct stream *s = &io->streams[i];
        const struct pollfd *p = &fds[1 + 3 * i];

        if (p[0].fd >= 0 && p[0].revents && s->in_fd == p[0].fd)
            give_input(s);
        if (p[1].fd >= 0 && p[1].revents && s->out_fd == p[1].fd)
            read_output(io, i, &s->out_fd, 1);
        if (p[2].fd >= 0 && p[2].revents && s->err_fd == p[2].fd)
            read_output(io, i, &s->err_fd, 2);
    }
    watchers_handle(io->watchers, fds + 1 + 3 * (size_t)io->count, n > 1 + 3 * (size_t)io->count ? n - 1 - 3 * (size_t)io->count : 0, now_ms);
    say_credit(io);
}
