/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_server.c - the process that an mpi plugin lives in: one for each node of a step, with the user's ids, ended with its step.
 *
 * Order is the point: the step's container is entered, descriptors and secrets of the supervisor go, ids are dropped and checked, and only then is the configuration read and the plugin
 * loaded. One loop of poll(): the control socket, the tasks' sockets, and a descriptor that other threads of the plugin wake it by (host->post).
 * A gather that only this node takes part in is answered here.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <spur/mpi.h>

#include "agent/container.h"
#include "agent/drop.h"
#include "agent/mpi.h"
#include "agent/task.h"
#include "base/str.h"
#include "client/link.h"
#include "config/config.h"
#include "loader/loader.h"

#define READ_MAX (1u << 20)

struct posted { struct posted *next; void (*fn)(void *arg); void *arg; };
/* A gather of this node alone: given back by the loop, not from within the plugin's call. */
struct own { struct own *next; char *key; void *data; size_t len; };

struct serving {
    const struct mpi_server *s;
    struct link link;
    uint64_t seq;
    struct loaded *plugin;
    const struct spur_mpi_ops *ops;
    struct spur_mpi_step step;
    struct own *own, **own_end;
    pthread_mutex_t lock;               /* of `posted`: plugins may have threads */
    struct posted *posted, **posted_end;
    int wake_fd;
    Wire__IoMpi *env_of;                /* the TASK message that env_set adds to */
};

/* ---- to the supervisor ---- */

static void say(struct serving *v, const Wire__IoMpi *m)
{
    struct spur_error err = { 0 };

    if (link_send(&v->link, WIRE__MESSAGE_TYPE__IO_MPI, ++v->seq, &m->base, &err) < 0 || link_flush(&v->link, &err) < 0)
        _exit(0);                       /* the supervisor has ended this step */
}

static _Noreturn void refuse(struct serving *v, const char *text)
{
    Wire__IoMpi m = WIRE__IO_MPI__INIT;
    struct spur_error err = { 0 };

    m.kind = WIRE__IO_MPI__KIND__READY;
    m.text = (char *)(uintptr_t)text;
    say(v, &m);
    while (link_backlog(&v->link) > 0 && link_flush(&v->link, &err) == 0) {
        struct pollfd p = { .fd = v->link.fd, .events = POLLOUT };

        poll(&p, 1, -1);
    }
    _exit(1);
}

static int host_gather(void *ctx, const char *key, const uint32_t *nodes, uint32_t count, const void *data, size_t len, struct spur_error *err)
{
    struct serving *v = ctx;
    Wire__IoMpi m = WIRE__IO_MPI__INIT;
    ProtobufCBinaryData part = { .len = len, .data = (uint8_t *)(uintptr_t)data };

    if (!*key || strlen(key) > SPUR_MPI_KEY_MAX)
        return spur_fail(err, SPUR_EINVAL, "a gather's key has 1 to %d bytes", SPUR_MPI_KEY_MAX);
    if (v->step.node_count == 1 || (count == 1 && nodes[0] == v->step.node_rank)) {
        struct own *o = mem_alloc(sizeof *o);

        o->key = mem_copy(key);
        o->data = len ? mem_copy_bytes(data, len) : NULL;
        o->len = len;
        *v->own_end = o;
        v->own_end = &o->next;
        return 0;
    }
    m.kind = WIRE__IO_MPI__KIND__GATHER;
    m.key = (char *)(uintptr_t)key;
    m.nodes = (uint32_t *)(uintptr_t)nodes;
    m.n_nodes = count;
    m.parts = &part;
    m.n_parts = 1;
    say(v, &m);
    return 0;
}

static int host_send(void *ctx, uint32_t node, const void *data, size_t len, struct spur_error *err)
{
    struct serving *v = ctx;
    Wire__IoMpi m = WIRE__IO_MPI__INIT;
    ProtobufCBinaryData part = { .len = len, .data = (uint8_t *)(uintptr_t)data };

    if (node >= v->step.node_count)
        return spur_fail(err, SPUR_EINVAL, "node %u of a step of %u", node, v->step.node_count);
    m.kind = WIRE__IO_MPI__KIND__SEND;
    m.has_peer = 1;
    m.peer = node;
    m.parts = &part;
    m.n_parts = 1;
    say(v, &m);
    return 0;
}

static void host_abort(void *ctx, int exit_code, const char *text)
{
    struct serving *v = ctx;
    Wire__IoMpi m = WIRE__IO_MPI__INIT;

    m.kind = WIRE__IO_MPI__KIND__ABORT;
    m.has_status = 1;
    m.status = exit_code;
    m.text = (char *)(uintptr_t)text;
    say(v, &m);
}

static void env_set(void *arg, const char *name, const char *value)
{
    struct serving *v = arg;
    Wire__IoMpi *m = v->env_of;
    Wire__KeyValue *kv = mem_alloc(sizeof *kv);

    wire__key_value__init(kv);
    kv->key = mem_copy(name);
    kv->value = mem_copy(value);
    m->env = mem_grow(m->env, m->n_env + 1, sizeof *m->env);
    m->env[m->n_env++] = kv;
}

/* ---- the host's side ---- */

static void host_post(void *ctx, void (*fn)(void *arg), void *arg)
{
    struct serving *v = ctx;
    struct posted *p = mem_alloc(sizeof *p);
    uint64_t one = 1;

    p->fn = fn;
    p->arg = arg;
    pthread_mutex_lock(&v->lock);
    *v->posted_end = p;
    v->posted_end = &p->next;
    pthread_mutex_unlock(&v->lock);
    if (write(v->wake_fd, &one, sizeof one) < 0)
        return;                         /* it is awake already */
}

static void run_posted(struct serving *v)
{
    struct posted *list;
    uint64_t n;

    if (read(v->wake_fd, &n, sizeof n) < 0 && errno != EAGAIN)
        return;
    pthread_mutex_lock(&v->lock);
    list = v->posted;
    v->posted = NULL;
    v->posted_end = &v->posted;
    pthread_mutex_unlock(&v->lock);
    while (list) {
        struct posted *p = list;

        list = p->next;
        p->fn(p->arg);
        free(p);
    }
}

static void run_own(struct serving *v)
{
    while (v->own) {
        struct own *o = v->own;
        const struct spur_mpi_part part = { .node = v->step.node_rank, .data = o->data, .len = o->len };

        v->own = o->next;
        if (!v->own)
            v->own_end = &v->own;
        if (SPUR_HAS(v->ops, gathered))
            v->ops->gathered(v->plugin->self, o->key, &part, 1, sizeof part);
        free(o->key);
        free(o->data);
        free(o);
    }
}

static const char *host_role(void *ctx) { (void)ctx; return "supervisor"; }
static const char *host_name(void *ctx) { return ((struct serving *)ctx)->s->order->node; }
static const char *host_dir(void *ctx) { return ((struct serving *)ctx)->s->dir; }

static void host_log(void *ctx, int level, const char *text)
{
    if (level <= SPUR_LOG_WARN)
        fprintf(stderr, "spurstepd: %s: %s\n", ((struct serving *)ctx)->s->order->node, text);
}

/* ---- from the supervisor ---- */

/* What a task that has ended left in its socket, and the socket's end. */
static void task_drain(struct serving *v, uint32_t local)
{
    for (int i = 0; i < 256 && v->s->fds[local] >= 0; i++) {
        struct pollfd p = { .fd = v->s->fds[local], .events = POLLIN };

        if (poll(&p, 1, 0) <= 0)
            return;
        if (v->ops->input(v->plugin->self, local) < 0) {
            close(v->s->fds[local]);
            v->s->fds[local] = -1;
        }
    }
}

static void take_message(struct serving *v, const Wire__IoMpi *m)
{
    struct spur_mpi_part *parts;

    switch (m->kind) {
    case WIRE__IO_MPI__KIND__ENDED:
        if (m->task < v->s->count) {
            task_drain(v, m->task);
            if (SPUR_HAS(v->ops, ended))
                v->ops->ended(v->plugin->self, m->task, m->status);
        }
        say(v, m);                          /* so that the step's end waits for what this end means to the others */
        break;
    case WIRE__IO_MPI__KIND__GATHERED:
        if (!SPUR_HAS(v->ops, gathered) || !m->key || m->n_parts != m->n_nodes)
            break;
        parts = mem_array(m->n_parts + 1, sizeof *parts);
        for (size_t i = 0; i < m->n_parts; i++)
            parts[i] = (struct spur_mpi_part){ .node = m->nodes[i], .data = m->parts[i].data, .len = m->parts[i].len };
        v->ops->gathered(v->plugin->self, m->key, parts, (uint32_t)m->n_parts, sizeof *parts);
        free(parts);
        break;
    case WIRE__IO_MPI__KIND__SEND:
        if (SPUR_HAS(v->ops, received) && m->n_parts == 1)
            v->ops->received(v->plugin->self, m->peer, m->parts[0].data, m->parts[0].len);
        break;
    case WIRE__IO_MPI__KIND__LOST:
        if (SPUR_HAS(v->ops, lost))
            v->ops->lost(v->plugin->self, m->text ? m->text : "");
        break;
    default:
        break;
    }
}

static void control_input(struct serving *v)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = link_read(&v->link, READ_MAX, &err), got;

    while ((got = link_next(&v->link, &f, &body, &err)) > 0) {
        Wire__IoMpi *m = f.type == WIRE__MESSAGE_TYPE__IO_MPI ? wire__io_mpi__unpack(NULL, f.length, body) : NULL;

        if (m)
            take_message(v, m);
        wire__io_mpi__free_unpacked(m, NULL);
    }
    if (rc < 0 || got < 0)
        _exit(0);
}

/* ---- start ---- */

static int by_number(const void *a, const void *b) { return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b; }

/* Everything but 0-2, the control socket and the tasks' sockets. */
static void close_others(const struct mpi_server *s)
{
    int *keep = mem_array(s->count + 1, sizeof *keep), from = 3;
    uint32_t n = 0;

    keep[n++] = s->control;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->fds[i] >= 0)
            keep[n++] = s->fds[i];
    qsort(keep, n, sizeof *keep, by_number);
    for (uint32_t i = 0; i < n; i++) {
        for (; from < keep[i]; from++)
            close(from);
        from = keep[i] + 1;
    }
    free(keep);
    task_close_from((unsigned)from);
}

static void become_user(struct serving *v)
{
    const Wire__Credential *c = v->s->order->grant;
    gid_t *groups = mem_array(c->n_groups + 1, sizeof *groups);
    struct drop d = { .uid = c->uid, .gid = c->gid, .groups = groups, .group_count = c->n_groups };
    struct spur_error err = { 0 };

    if (c->io_key.data)
        sodium_memzero(c->io_key.data, c->io_key.len);
    for (size_t i = 0; i < c->n_groups; i++)
        groups[i] = c->groups[i];
    if (drop_become(&d, &err) < 0)
        refuse(v, err.text);
    free(groups);
    prctl(PR_SET_DUMPABLE, 0);          /* its memory is a copy of the supervisor's */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "spurstepd-mpi");
}

static void describe_step(struct serving *v)
{
    const Wire__StepOrder *o = v->s->order;
    const Wire__Launch *l = o->launch;
    const char **nodes = mem_array(l->n_step_nodes + 1, sizeof *nodes);
    uint32_t *first = mem_array(l->n_step_nodes + 1, sizeof *first), *tasks = NULL, next = 0;

    for (size_t i = 0; i < l->n_step_nodes; i++) {
        const Wire__StepNode *row = l->step_nodes[i];
        uint32_t from = row->has_first_task ? row->first_task : next;

        nodes[i] = row->name;
        first[i] = next;
        tasks = mem_grow(tasks, (size_t)next + row->tasks + 1, sizeof *tasks);
        for (uint32_t k = 0; k < row->tasks; k++)
            tasks[next++] = row->n_task_ids == row->tasks ? row->task_ids[k] : from + k;
    }
    first[l->n_step_nodes] = next;
    v->step = (struct spur_mpi_step){
        .size = sizeof v->step, .job_id = o->grant->job_id, .step_id = o->grant->step_id, .uid = o->grant->uid, .gid = o->grant->gid,
        .ntasks = next, .node_count = (uint32_t)l->n_step_nodes, .node_rank = order_step_rank(o), .nodes = nodes, .tasks = tasks, .first = first,
        .cluster = o->cluster ? o->cluster : "", .dir = v->s->dir, .ctx = v, .gather = host_gather, .send = host_send, .abort = host_abort };
}

static void start(struct serving *v, struct spur_host *host)
{
    struct spur_error err = { 0 };
    struct config *cfg = NULL;
    struct spur_mpi_env env = { .size = sizeof env, .arg = v, .set = env_set };
    Wire__IoMpi ready = WIRE__IO_MPI__INIT;

    if (v->s->order->conf_path && config_load(v->s->order->conf_path, true, &cfg, &err) < 0)
        cfg = NULL;                     /* the agent runs with it; a file that this user cannot read costs him the plugin's options only */
    err.text[0] = '\0';
    if (loader_open(SPUR_KIND_mpi, v->s->plugin, cfg, host, &v->plugin, &err) < 0)
        refuse(v, err.text);
    config_free(cfg);
    v->ops = loader_ops(v->plugin);
    if (!loader_can(v->plugin, SPUR_CAP_SERVES)) {
        say(v, &ready);                 /* as mpi/none, under another name */
        return;
    }
    if (v->ops->start(v->plugin->self, &v->step, &err) < 0)
        refuse(v, err.text);
    for (uint32_t i = 0; i < v->s->count; i++) {
        Wire__IoMpi task = WIRE__IO_MPI__INIT;

        task.kind = WIRE__IO_MPI__KIND__TASK;
        task.has_task = 1;
        task.task = i;
        v->env_of = &task;
        if (!SPUR_HAS(v->ops, input)) {
            close(v->s->fds[i]);
            v->s->fds[i] = -1;
        }
        if (v->ops->task(v->plugin->self, i, v->s->fds[i], &env, &err) < 0)
            refuse(v, err.text);
        say(v, &task);
        for (size_t k = 0; k < task.n_env; k++) {
            free(task.env[k]->key);
            free(task.env[k]->value);
            free(task.env[k]);
        }
        free(task.env);
    }
    say(v, &ready);
}

_Noreturn void mpi_serve(struct mpi_server *s)
{
    struct serving v = { .s = s, .lock = PTHREAD_MUTEX_INITIALIZER };
    struct spur_host host = { .size = sizeof host, .ctx = &v, .log = host_log, .post = host_post, .role = host_role, .host_name = host_name, .state_dir = host_dir };
    struct pollfd *fds = mem_array(s->count + 2, sizeof *fds);
    struct spur_error entered = { 0 };
    int rc = container_enter(&entered);     /* while the container's descriptors are there */

    v.own_end = &v.own;
    v.posted_end = &v.posted;
    close_others(s);
    link_open(&v.link, s->control, channel_local());
    for (uint32_t i = 0; i < s->count; i++)
        if (s->fds[i] >= 0)
            fcntl(s->fds[i], F_SETFL, O_NONBLOCK);
    if (rc < 0)
        refuse(&v, entered.text);
    become_user(&v);
    if ((v.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        refuse(&v, "cannot make an eventfd");
    describe_step(&v);
    start(&v, &host);
    for (;;) {
        struct spur_error err = { 0 };

        fds[0] = (struct pollfd){ .fd = v.link.fd, .events = (short)(POLLIN | (link_backlog(&v.link) ? POLLOUT : 0)) };
        fds[1] = (struct pollfd){ .fd = v.wake_fd, .events = POLLIN };
        for (uint32_t i = 0; i < s->count; i++)
            fds[2 + i] = (struct pollfd){ .fd = s->fds[i], .events = POLLIN };
        if (poll(fds, s->count + 2, -1) < 0 && errno != EINTR)
            _exit(1);
        if (fds[1].revents)
            run_posted(&v);
        for (uint32_t i = 0; i < s->count; i++)
            if (fds[2 + i].fd >= 0 && fds[2 + i].fd == s->fds[i] && fds[2 + i].revents && v.ops->input(v.plugin->self, i) < 0) {
                close(s->fds[i]);
                s->fds[i] = -1;
            }
        run_own(&v);
        if (fds[0].revents)
            control_input(&v);
        if (link_flush(&v.link, &err) < 0)
            _exit(0);
    }
}
