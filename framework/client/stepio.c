/* SPDX-License-Identifier: Apache-2.0 */
/* stepio.c - accepts the supervisors of a step and moves their tasks' output to srun's descriptors, srun's input to the tasks.
 *
 * Each supervisor proves itself with the step's key (channel_keyed) and then owns the tasks its IO_HELLO names; a second claim on a task closes
 * the connection. Output is written with blocking writes right where it is read: while standard output does not take it, nothing is read
 * from the network, so TCP slows the tasks and memory stays bounded. A signal interrupts such a write, and `woke` is called before it goes on.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/link.h"
#include "client/relay.h"
#include "client/stepio.h"

#define READ_LIMIT    (256u << 10)      /* of one supervisor at a time */
#define INPUT_CHUNK   (16u << 10)
#define LINE_LIMIT    (16u << 10)
#define STRANGER_MS   10000             /* to prove itself */
#define STRANGERS_MAX 64
#define TASK_ALL      UINT32_MAX
#define TASK_RUNS     (-1)
#define TASK_UNKNOWN  (-2)

struct peer {
    struct link link;
    char    *node;                      /* NULL: has not said hello */
    uint32_t first, count, *ids;    /* its tasks; ids NULL: first and those behind it */
    uint32_t rank;
    uint64_t credit, seq;
    bool     over;                      /* said its last word */
    int64_t  until_ms;                  /* a stranger's deadline */
    int64_t  heard_ms;
};

struct step_io {
    char    *cluster, *hosts;
    int      fd; uint16_t port;
    uint8_t  key[32];
    const struct step_io_plan *plan;
    struct step_io_result *result;
    struct peer **peers; size_t peer_count;
    int     *status;                    /* of each task */
    struct str *lines;                  /* of each task and stream: the unfinished line */
    uint32_t connected, ended, label_width;
    bool     input_over, out_broken[2];
    uint64_t input_sent;
    bool     changed;
    struct relay *relay;                /* of the mpi plugin's servers; NULL: they have said nothing yet */
};

/* ---- listening ---- */

/* All addresses of interfaces that are up, loopback last. */
static char *own_addresses(void)
{
    struct ifaddrs *list = NULL;
    struct str out;

    str_init(&out);
    for (int loopback = 0; loopback < 2 && (list || getifaddrs(&list) == 0); loopback++)
        for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
            char text[INET6_ADDRSTRLEN];

            if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_LOOPBACK) != !loopback)
                continue;
            if (i->ifa_addr->sa_family == AF_INET)
                inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, text, sizeof text);
            else if (i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr))
                inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr, text, sizeof text);
            else
                continue;
            str_addf(&out, "%s%s", out.len ? "," : "", text);
        }
    if (list)
        freeifaddrs(list);
    if (!out.len)
        str_add(&out, "127.0.0.1");
    return str_take(&out);
}

static int bind_to(int family, uint16_t port)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0, on = 1, rc;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);      /* a port of SrunPortRange that the last srun has just left is free */
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        rc = bind(fd, (struct sockaddr *)&six, sizeof six);
    } else {
        rc = bind(fd, (struct sockaddr *)&four, sizeof four);
    }
    if (rc < 0 || listen(fd, 1024) < 0) {
        int cause = errno;

        close(fd);
        errno = cause;
        return -1;
    }
    return fd;
}

struct step_io *step_io_listen(const char *cluster, uint16_t first, uint16_t last, struct spur_error *err)
{
    struct step_io *io;
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    uint32_t span = first && last >= first ? (uint32_t)last - first + 1 : 1, from;
    int fd = -1;

    if (sodium_init() < 0) {
        spur_fail(err, SPUR_EIO, "libsodium does not start");
        return NULL;
    }
    from = span > 1 ? randombytes_uniform(span) : 0;
    for (uint32_t i = 0; i < span && fd < 0; i++) {
        uint16_t port = first ? (uint16_t)(first + (from + i) % span) : 0;

        if ((fd = bind_to(AF_INET6, port)) < 0)
            fd = bind_to(AF_INET, port);
    }
    if (fd < 0) {
        if (first)
            spur_fail(err, SPUR_EIO, "no free port between %u and %u (SrunPortRange) for the tasks' input and output: %s", first, last, strerror(errno));
        else
            spur_fail(err, SPUR_EIO, "cannot listen for the tasks' input and output: %s", strerror(errno));
        return NULL;
    }
    io = mem_alloc(sizeof *io);
    io->cluster = mem_copy(cluster ? cluster : "");
    io->hosts = own_addresses();
    io->fd = fd;
    getsockname(fd, (struct sockaddr *)&a, &len);
    io->port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
    randombytes_buf(io->key, sizeof io->key);
    return io;
}

static void peer_free(struct peer *p)
{
    link_close(&p->link);
    free(p->node);
    free(p->ids);
    free(p);
}

void step_io_close(struct step_io *io)
{
    if (!io)
        return;
    for (size_t i = 0; i < io->peer_count; i++)
        peer_free(io->peers[i]);
    relay_destroy(io->relay);
    free(io->peers);
    free(io->status);
    close(io->fd);
    sodium_memzero(io->key, sizeof io->key);
    free(io->cluster);
    free(io->hosts);
    free(io);
}

const char *step_io_host(const struct step_io *io) { return io->hosts; }
uint16_t step_io_port(const struct step_io *io) { return io->port; }
const uint8_t *step_io_key(const struct step_io *io) { return io->key; }

/* ---- output ---- */

static void wake_if_asked(struct step_io *io)
{
    struct pollfd p = { .fd = io->plan->wake_fd, .events = POLLIN };

    if (io->plan->wake_fd >= 0 && io->plan->woke && poll(&p, 1, 0) > 0)
        io->plan->woke(io->plan->arg, io);
}

static void write_out(struct step_io *io, int stream, const char *text, size_t n)
{
    int fd = stream == 1 ? io->plan->out_fd : io->plan->err_fd;

    while (n > 0 && !io->out_broken[stream - 1]) {
        ssize_t w = write(fd, text, n);

        if (w >= 0) {
            text += w;
            n -= (size_t)w;
        } else if (errno == EAGAIN) {       /* a terminal that another program has made non-blocking */
            struct pollfd p[2] = { { .fd = fd, .events = POLLOUT }, { .fd = io->plan->wake_fd, .events = POLLIN } };

            poll(p, 2, 1000);
            wake_if_asked(io);
        } else if (errno == EINTR) {
            wake_if_asked(io);
        } else {
            io->out_broken[stream - 1] = true;      /* what cannot be shown is dropped: the tasks go on */
        }
    }
}

static void write_line(struct step_io *io, uint32_t task, int stream, const char *text, size_t n, bool whole)
{
    struct str line;

    if (!io->plan->label) {
        write_out(io, stream, text, n);
        return;
    }
    str_init(&line);
    str_addf(&line, "%*u: ", (int)io->label_width, task);
    str_add_n(&line, text, n);
    if (!whole)
        str_add_char(&line, '\n');
    write_out(io, stream, line.text, line.len);
    str_fini(&line);
}

static void take_output(struct step_io *io, uint32_t task, int stream, const char *data, size_t n, bool eof)
{
    struct str *rest = &io->lines[2 * (size_t)task + (size_t)stream - 1];
    const char *at, *nl;

    if (stream == 1 ? io->plan->one_out && io->plan->out_task != task : io->plan->one_err && io->plan->err_task != task)
        return;
    if (io->plan->unbuffered && !io->plan->label) {
        write_out(io, stream, data, n);
        return;
    }
    if (rest->len) {
        str_add_n(rest, data, n);
        data = rest->text;
        n = rest->len;
    }
    for (at = data; (nl = memchr(at, '\n', (size_t)(data + n - at))); at = nl + 1)
        if (io->plan->label)
            write_line(io, task, stream, at, (size_t)(nl + 1 - at), true);
    if (!io->plan->label && at > data)
        write_out(io, stream, data, (size_t)(at - data));
    n -= (size_t)(at - data);
    if (n && (eof || n >= LINE_LIMIT || io->plan->unbuffered)) {
        write_line(io, task, stream, at, n, false);
        n = 0;
    }
    if (rest->len && data == rest->text) {
        memmove(rest->text, at, n);
        rest->len = n;
        rest->text[n] = '\0';
    } else if (n) {
        str_add_n(rest, at, n);
    }
}

/* ---- tasks and peers ---- */

static int rank_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

static void task_over(struct step_io *io, uint32_t task, int status)
{
    if (task >= io->plan->ntasks || io->status[task] >= 0)
        return;
    for (int stream = 1; stream <= 2; stream++)
        take_output(io, task, stream, "", 0, true);
    io->status[task] = status;
    io->ended++;
    io->result->ended++;
    if (status) {
        io->result->failed++;
        if (rank_of(status) > rank_of(io->result->status))
            io->result->status = status;
        if (rank_of(status) > io->result->exit_code)
            io->result->exit_code = rank_of(status);
    }
    io->changed = true;
    if (io->plan->task_ended)
        io->plan->task_ended(io->plan->arg, io, task, status);
}

static uint32_t peer_task(const struct peer *p, uint32_t i) { return p->ids ? p->ids[i] : p->first + i; }

/* A supervisor without another word: its tasks' ends stay unknown. */
static void peer_lost(struct step_io *io, struct peer *p, const char *why)
{
    link_close(&p->link);
    io->changed = true;
    if (!p->node || p->over)
        return;
    p->over = true;
    if (io->relay)
        relay_lost(io->relay, why);
    for (uint32_t i = 0, t; i < p->count; i++)
        if (io->status[t = peer_task(p, i)] < 0) {
            io->result->lost++;
            io->status[t] = SIGKILL;
            io->ended++;
            io->result->exit_code = io->result->exit_code > 1 ? io->result->exit_code : 1;
        }
    if (io->plan->node_failed)
        io->plan->node_failed(io->plan->arg, io, p->node, why, SIGKILL);
}

/* ---- the mpi plugin's servers ---- */

static bool deliver(void *arg, uint32_t node, const Wire__IoMpi *m)
{
    struct step_io *io = arg;
    struct spur_error err = { 0 };

    for (size_t i = 0; i < io->peer_count; i++) {
        struct peer *p = io->peers[i];

        if (!p->node || p->rank != node)
            continue;
        if (p->link.fd >= 0 && (link_send(&p->link, WIRE__MESSAGE_TYPE__IO_MPI, ++p->seq, &m->base, &err) < 0 || link_flush(&p->link, &err) < 0))
            link_close(&p->link);       /* the next turn finds it so */
        return true;                    /* what is said to a node that is gone is dropped */
    }
    return false;
}

static bool take_mpi(struct step_io *io, struct peer *p, const Wire__IoMpi *m)
{
    struct spur_error err = { 0 };

    if (!p->node)
        return false;
    if (m->kind != WIRE__IO_MPI__KIND__ABORT) {
        if (!io->relay)
            io->relay = relay_create(io->plan->nodes, deliver, io);
        if (relay_take(io->relay, p->rank, m, &err) == 0)
            return true;
    }
    if (io->plan->aborted)
        io->plan->aborted(io->plan->arg, io, p->node, m->kind == WIRE__IO_MPI__KIND__ABORT && m->text ? m->text : err.text, m->kind == WIRE__IO_MPI__KIND__ABORT ? m->status : 1);
    return true;
}

static bool take_hello(struct step_io *io, struct peer *p, const Wire__IoHello *h)
{
    bool listed = h->n_task_ids > 0;

    if (p->node || h->tasks > io->plan->ntasks || (listed ? h->n_task_ids != h->tasks : h->first_task > io->plan->ntasks - h->tasks))
        return false;
    for (uint32_t i = 0, t; i < h->tasks; i++) {
        t = listed ? h->task_ids[i] : h->first_task + i;
        if (t >= io->plan->ntasks || io->status[t] != TASK_UNKNOWN || (listed && i && t <= h->task_ids[i - 1]))
            return false;
    }
    p->node = mem_copy(h->node);
    p->first = h->first_task;
    p->count = h->tasks;
    p->ids = listed ? mem_copy_bytes(h->task_ids, h->tasks * sizeof *p->ids) : NULL;
    for (uint32_t i = 0; i < p->count; i++)
        io->status[peer_task(p, i)] = TASK_RUNS;
    p->rank = h->node_rank;
    io->connected++;
    io->changed = true;
    if (io->relay)
        relay_arrived(io->relay, p->rank);
    if (h->error) {
        p->over = true;
        if (io->plan->node_failed)
            io->plan->node_failed(io->plan->arg, io, p->node, h->error, h->error_status);
        for (uint32_t i = 0; i < p->count; i++)
            task_over(io, peer_task(p, i), h->error_status ? h->error_status : 1 << 8);
    }
    return true;
}

static bool is_its(const struct peer *p, uint32_t task)
{
    uint32_t low = 0, high = p->count;

    if (!p->node || !p->ids)
        return p->node && task >= p->first && task - p->first < p->count;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;

        if (p->ids[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return high && p->ids[low] == task;
}

static void take_waiting_input(struct step_io *io);

static bool take_message(struct step_io *io, struct peer *p, const struct frame *f, const uint8_t *body)
{
    bool fine = false;

    switch (f->type) {
    case WIRE__MESSAGE_TYPE__IO_HELLO: {
        Wire__IoHello *h = wire__io_hello__unpack(NULL, f->length, body);

        fine = h && take_hello(io, p, h);
        wire__io_hello__free_unpacked(h, NULL);
        break;
    }
    case WIRE__MESSAGE_TYPE__IO_DATA: {
        Wire__IoData *d = wire__io_data__unpack(NULL, f->length, body);

        fine = d && is_its(p, d->task) && (d->stream == 1 || d->stream == 2);
        if (fine)
            take_output(io, d->task, (int)d->stream, d->data.data ? (const char *)d->data.data : "", d->data.len, d->eof);
        wire__io_data__free_unpacked(d, NULL);
        break;
    }
    case WIRE__MESSAGE_TYPE__IO_STDIN: {        /* more credit */
        Wire__IoData *d = wire__io_data__unpack(NULL, f->length, body);

        fine = d && p->node;
        if (fine && d->credit > p->credit) {
            p->credit = d->credit;
            take_waiting_input(io);
        }
        wire__io_data__free_unpacked(d, NULL);
        break;
    }
    case WIRE__MESSAGE_TYPE__IO_EXIT: {
        Wire__IoExit *e = wire__io_exit__unpack(NULL, f->length, body);

        fine = e && is_its(p, e->task);
        if (fine) {
            task_over(io, e->task, e->status);
            p->over = p->over || e->last;
        }
        wire__io_exit__free_unpacked(e, NULL);
        break;
    }
    case WIRE__MESSAGE_TYPE__IO_MPI: {
        Wire__IoMpi *m = wire__io_mpi__unpack(NULL, f->length, body);

        fine = m && take_mpi(io, p, m);
        wire__io_mpi__free_unpacked(m, NULL);
        break;
    }
    default:
        fine = true;                            /* of a newer supervisor */
    }
    return fine;
}

static void peer_input(struct step_io *io, struct peer *p)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = link_read(&p->link, READ_LIMIT, &err), got = 0;

    p->heard_ms = clock_boot_ms();
    while (p->link.fd >= 0 && (got = link_next(&p->link, &f, &body, &err)) > 0)
        if (!take_message(io, p, &f, body)) {
            got = spur_fail(&err, SPUR_ECORRUPT, "its message of type %u contradicts what it said before", f.type);
            break;
        }
    if (p->link.fd >= 0 && rc >= 0 && got >= 0)
        rc = link_flush(&p->link, &err);
    if (p->link.fd >= 0 && (rc < 0 || got < 0))
        peer_lost(io, p, err.text);
}

static void accept_peers(struct step_io *io)
{
    size_t strangers = 0;
    int fd, one = 1;

    for (size_t i = 0; i < io->peer_count; i++)
        strangers += !io->peers[i]->node && io->peers[i]->link.fd >= 0;
    while (strangers < io->plan->nodes + STRANGERS_MAX && (fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct peer *p = mem_alloc(sizeof *p);

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        link_open(&p->link, fd, channel_keyed(true, io->cluster, io->key));
        p->until_ms = clock_boot_ms() + STRANGER_MS;
        io->peers = mem_grow(io->peers, io->peer_count + 1, sizeof *io->peers);
        io->peers[io->peer_count++] = p;
        strangers++;
    }
}

static void sweep_peers(struct step_io *io, int64_t now)
{
    size_t kept = 0;

    for (size_t i = 0; i < io->peer_count; i++) {
        struct peer *p = io->peers[i];

        if (!p->node && p->link.fd >= 0 && now > p->until_ms)
            link_close(&p->link);
        if (!p->node && p->link.fd < 0)
            peer_free(p);
        else
            io->peers[kept++] = p;
    }
    io->peer_count = kept;
}

/* ---- input ---- */

static bool gets_input(const struct step_io *io, const struct peer *p)
{
    if (!p->node || p->over || p->link.fd < 0)
        return false;
    return io->plan->input == STEP_IO_INPUT_ALL || is_its(p, io->plan->input_task);
}

/* How much may be read now: 0 until all nodes are there, so that each task gets input from its first byte. */
static size_t input_room(const struct step_io *io)
{
    uint64_t room = INPUT_CHUNK;
    bool any = false;

    if (io->input_over || io->plan->in_fd < 0 || io->plan->input == STEP_IO_INPUT_NONE)
        return 0;
    if (io->plan->input == STEP_IO_INPUT_ALL && io->connected < io->plan->nodes)
        return 0;
    for (size_t i = 0; i < io->peer_count; i++) {
        const struct peer *p = io->peers[i];
        uint64_t left;

        if (!gets_input(io, p))
            continue;
        any = true;
        left = p->credit > io->input_sent ? p->credit - io->input_sent : 0;
        if (link_backlog(&p->link) > READ_LIMIT)
            left = 0;
        room = left < room ? left : room;
    }
    return any ? (size_t)room : 0;
}

static void read_input(struct step_io *io)
{
    Wire__IoData d = WIRE__IO_DATA__INIT;
    struct spur_error err = { 0 };
    uint8_t buf[INPUT_CHUNK];
    size_t room = input_room(io);
    ssize_t n;

    if (!room)
        return;
    n = read(io->plan->in_fd, buf, room);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    d.task = io->plan->input == STEP_IO_INPUT_TASK ? io->plan->input_task : TASK_ALL;
    d.stream = 0;
    if (n > 0) {
        d.has_data = true;
        d.data.data = buf;
        d.data.len = (size_t)n;
        io->input_sent += (uint64_t)n;
    } else {
        d.has_eof = d.eof = true;
        io->input_over = true;
    }
    for (size_t i = 0; i < io->peer_count; i++) {
        struct peer *p = io->peers[i];

        if (gets_input(io, p) && (link_send(&p->link, WIRE__MESSAGE_TYPE__IO_STDIN, ++p->seq, &d.base, &err) < 0 || link_flush(&p->link, &err) < 0))
            peer_lost(io, p, err.text);
    }
}

/* Input that is there is taken as soon as a task may have it, however soon the task ends: in `while read line; do srun ...; done < file` the first srun
 * takes the file's rest, and not one time in ten the second one. */
static void take_waiting_input(struct step_io *io)
{
    struct pollfd p = { .fd = input_room(io) ? io->plan->in_fd : -1, .events = POLLIN };

    if (p.fd >= 0 && poll(&p, 1, 0) > 0)
        read_input(io);
}

/* ---- from the callbacks ---- */

void step_io_signal(struct step_io *io, int signal)
{
    Wire__Kill k = WIRE__KILL__INIT;
    struct spur_error err = { 0 };

    k.signal = (uint32_t)signal;
    for (size_t i = 0; i < io->peer_count; i++) {
        struct peer *p = io->peers[i];

        if (p->node && !p->over && p->link.fd >= 0 && link_send(&p->link, WIRE__MESSAGE_TYPE__IO_SIGNAL, ++p->seq, &k.base, &err) >= 0)
            link_flush(&p->link, &err);
    }
}

void step_io_window(struct step_io *io, uint32_t rows, uint32_t columns)
{
    Wire__IoWindow w = WIRE__IO_WINDOW__INIT;
    struct spur_error err = { 0 };

    w.rows = rows;
    w.columns = columns;
    for (size_t i = 0; i < io->peer_count; i++) {
        struct peer *p = io->peers[i];

        if (p->node && !p->over && p->link.fd >= 0 && link_send(&p->link, WIRE__MESSAGE_TYPE__IO_WINDOW, ++p->seq, &w.base, &err) >= 0)
            link_flush(&p->link, &err);
    }
}

int step_io_fd(const struct step_io *io) { return io->fd; }

int step_io_accept(struct step_io *io, struct link *out)
{
    int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;

    if (fd < 0)
        return 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link_open(out, fd, channel_keyed(true, io->cluster, io->key));
    return 1;
}

void step_io_progress(const struct step_io *io, uint32_t *connected, uint32_t *ended)
{
    *connected = io->connected;
    *ended = io->ended;
}

void step_io_give_up(struct step_io *io, int64_t silent_ms, const char *why)
{
    int64_t now = clock_boot_ms();

    for (size_t i = 0; i < io->peer_count; i++)
        if (io->peers[i]->node && !io->peers[i]->over && now - io->peers[i]->heard_ms >= silent_ms)
            peer_lost(io, io->peers[i], why);
}

int step_io_task(const struct step_io *io, uint32_t task)
{
    return io->status && task < io->plan->ntasks ? io->status[task] : TASK_UNKNOWN;
}

/* ---- the loop ---- */

static int turn(struct step_io *io, int64_t *next_tick, struct spur_error *err)
{
    const struct step_io_plan *plan = io->plan;
    size_t count = io->peer_count;
    struct pollfd *fds = mem_array(count + 3, sizeof *fds);
    int64_t now = clock_boot_ms();
    int rc = 0;

    fds[0] = (struct pollfd){ .fd = io->fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = plan->wake_fd, .events = POLLIN };
    fds[2] = (struct pollfd){ .fd = input_room(io) ? plan->in_fd : -1, .events = POLLIN };
    for (size_t i = 0; i < count; i++)
        fds[3 + i] = (struct pollfd){ .fd = io->peers[i]->link.fd, .events = (short)(POLLIN | (link_backlog(&io->peers[i]->link) ? POLLOUT : 0)) };
    if (poll(fds, count + 3, *next_tick > now ? (int)(*next_tick - now) : 0) < 0 && errno != EINTR)
        rc = spur_fail(err, SPUR_EIO, "poll failed: %s", strerror(errno));
    if (rc == 0) {
        if (fds[1].revents && plan->woke)
            plan->woke(plan->arg, io);
        for (size_t i = 0; i < count; i++)
            if (fds[3 + i].revents && io->peers[i]->link.fd == fds[3 + i].fd)
                peer_input(io, io->peers[i]);
        if (fds[2].revents)
            read_input(io);
        if (fds[0].revents)
            accept_peers(io);
        now = clock_boot_ms();
        sweep_peers(io, now);
        if (plan->tick && (io->changed || now >= *next_tick)) {
            io->changed = false;
            rc = plan->tick(plan->arg, io);
        }
        if (now >= *next_tick)
            *next_tick = now + 1000;
    }
    free(fds);
    return rc;
}

/* All tasks have ended and all supervisors have said so; a supervisor that is only slow to close is not waited for. */
static bool is_over(const struct step_io *io)
{
    return io->ended >= io->plan->ntasks;
}

int step_io_run(struct step_io *io, const struct step_io_plan *plan, struct step_io_result *out, struct spur_error *err)
{
    int64_t next_tick = clock_boot_ms() + 1000;
    int rc = 0;

    memset(out, 0, sizeof *out);
    io->plan = plan;
    io->result = out;
    free(io->status);
    io->status = mem_array(plan->ntasks + 1, sizeof *io->status);
    io->lines = mem_array(2 * (size_t)plan->ntasks + 1, sizeof *io->lines);
    for (uint32_t t = 0; t < plan->ntasks; t++) {
        io->status[t] = TASK_UNKNOWN;
        str_init(&io->lines[2 * t]);
        str_init(&io->lines[2 * t + 1]);
    }
    io->label_width = 1;
    for (uint32_t t = plan->ntasks ? plan->ntasks - 1 : 0; t >= 10; t /= 10)
        io->label_width++;
    while (rc == 0 && !is_over(io))
        rc = turn(io, &next_tick, err);
    for (size_t i = 0; i < 2 * (size_t)plan->ntasks; i++)
        str_fini(&io->lines[i]);
    free(io->lines);
    io->lines = NULL;
    return rc;
}
