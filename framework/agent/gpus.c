/* SPDX-License-Identifier: Apache-2.0 */
/* gpus.c - starts the probe, hears what it says, and does without it when it is silent.
 *
 * Whatever a driver or a vendor's library does (hang, crash, answer nonsense), the node registers: with the sentence as its fault, drained and without
 * GPUs. While the probe watches, each of its frames is a sign of life; silence ends it, a fault is reported, and after a while another look is
 * taken. A process that a driver holds in the kernel cannot be killed: nobody waits for it, it is left behind.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/gpus.h"
#include "agent/probe.h"

#define AGAIN_MS 60000          /* after a watch that broke */

struct probe {
    uv_process_t process;
    uv_pipe_t in, out;
    uv_timer_t timer;           /* the deadline of the next frame */
    uv_write_t write;
    struct str ask;
    unsigned open_handles;
    bool     is_spawned, has_ended, is_closing;
    int      status, signal;
    struct agent *agent;        /* NULL: nobody listens any more */
    void   (*then)(struct agent *a, struct gpus_answer *take);  /* NULL once it is answered */
    bool     watches;
    char     doing[100];
    struct str frames;          /* what has come and is not a whole frame yet */
    char     buffer[8192];
};

static void handle_closed(uv_handle_t *h)
{
    struct probe *p = h->data;

    if (--p->open_handles)
        return;
    str_fini(&p->ask);
    str_fini(&p->frames);
    free(p);
}

static void probe_close(struct probe *p)
{
    if (p->is_closing)
        return;
    p->is_closing = true;
    if (p->is_spawned && !p->has_ended)
        uv_process_kill(&p->process, SIGKILL);
    if (p->agent && p->agent->probe == p)
        p->agent->probe = NULL;
    p->agent = NULL;
    uv_close((uv_handle_t *)&p->in, handle_closed);
    uv_close((uv_handle_t *)&p->out, handle_closed);
    uv_close((uv_handle_t *)&p->timer, handle_closed);
    if (p->is_spawned)
        uv_close((uv_handle_t *)&p->process, handle_closed);
}

static void answered(struct probe *p, struct gpus_answer *take)
{
    void (*then)(struct agent *a, struct gpus_answer *) = p->then;

    p->then = NULL;
    then(p->agent, take);
}

static void look_again(uv_timer_t *t)
{
    struct agent *a = t->data;

    if (!a->is_stopping)
        inventory_take(a, inventory_tell);
}

/* The probe is of no use any more: why, in words. */
static void probe_failed(struct probe *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void probe_failed(struct probe *p, const char *format, ...)
{
    struct gpus_answer none = { .fault = { 0 } };
    struct agent *a = p->agent;
    char text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->then) {
        spur_fail(&none.fault, SPUR_ETIMEOUT, "%s", text);
        answered(p, &none);
    } else if (a && p->watches) {
        log_line(SPUR_LOG_ERROR, "%s", text);
        inventory_health(a, 0, text);
        uv_timer_start(&a->gpu_timer, look_again, AGAIN_MS, 0);
    }
    probe_close(p);
}

static void silent(uv_timer_t *t)
{
    struct probe *p = t->data;

    if (p->then)
        probe_failed(p, "%s gave no answer within %u s; its process is ended", p->doing[0] ? p->doing : "the probe of the GPUs", p->agent->set->gpu_deadline_s);
    else
        probe_failed(p, "the watch of the GPUs (%s) gave no sign of life for %u s; its process is ended", p->doing,
                     p->agent->set->gpu_deadline_s + p->agent->set->gpu_interval_s);
}

/* ---- frames ---- */

static bool take_answer(struct probe *p, const char *body, size_t n)
{
    struct gpus_answer answer = { .fault = { 0 } };
    struct probe_answer head;
    const char *at = body + sizeof head;

    if (n < sizeof head)
        return false;
    memcpy(&head, body, sizeof head);
    if (head.gpu_size != sizeof(struct spur_gpu) || n != sizeof head + head.rows * sizeof(struct spur_gpu) + head.nics * sizeof(struct spur_nic) || !p->then)
        return false;
    answer.fault = head.fault;
    answer.health = head.health;
    answer.health.text[sizeof answer.health.text - 1] = '\0';
    answer.rows.count = head.rows;
    answer.rows.list = head.rows ? mem_copy_bytes(at, head.rows * sizeof(struct spur_gpu)) : NULL;
    at += head.rows * sizeof(struct spur_gpu);
    for (uint32_t i = 0; i < head.nics; i++)
        memcpy(rig_nic_add(&answer.rig), at + i * sizeof(struct spur_nic), sizeof(struct spur_nic));
    answer.rig.sockets = head.sockets;
    answer.rig.cores_per_socket = head.cores_per_socket;
    answer.rig.threads_per_core = head.threads_per_core;
    answer.rig.numa_nodes = head.numa_nodes;
    p->watches = head.watches;
    answered(p, &answer);
    return true;
}

static bool take_health(struct probe *p, const char *body, size_t n)
{
    struct probe_health h;

    if (n != sizeof h || p->then)
        return false;
    memcpy(&h, body, sizeof h);
    h.text[sizeof h.text - 1] = '\0';
    inventory_health(p->agent, h.faulty, h.faulty ? h.text : NULL);
    return true;
}

static bool take_frame(struct probe *p, char kind, const char *body, size_t n)
{
    if (kind == PROBE_DOING) {
        snprintf(p->doing, sizeof p->doing, "%.*s", (int)(n < sizeof p->doing ? n : sizeof p->doing - 1), body);
        return true;
    }
    if (kind == PROBE_ANSWER && !take_answer(p, body, n))
        return false;
    if (kind == PROBE_HEALTH && !take_health(p, body, n))
        return false;
    if (!p->is_closing)
        uv_timer_start(&p->timer, silent, 1000 * ((uint64_t)p->agent->set->gpu_deadline_s + p->agent->set->gpu_interval_s), 0);
    return kind == PROBE_ANSWER || kind == PROBE_HEALTH;
}

static void take_frames(struct probe *p)
{
    size_t at = 0;

    while (!p->is_closing && p->frames.len - at >= 5) {
        uint32_t length;

        memcpy(&length, p->frames.text + at, sizeof length);
        if (length > PROBE_FRAME_MAX) {
            probe_failed(p, "the probe of the GPUs (%s) says nonsense; its process is ended", p->doing);
            return;
        }
        if (p->frames.len - at < 5 + (size_t)length)
            break;
        if (!take_frame(p, p->frames.text[at + 4], p->frames.text + at + 5, length) && !p->is_closing) {
            probe_failed(p, "the probe of the GPUs (%s) says nonsense; its process is ended", p->doing);
            return;
        }
        at += 5 + (size_t)length;
    }
    memmove(p->frames.text, p->frames.text + at, p->frames.len - at);
    p->frames.len -= at;
    if (!p->frames.len && p->frames.cap > 4096) {       /* an answer is long, health is short */
        str_fini(&p->frames);
        str_init(&p->frames);
    }
}

/* ---- the process ---- */

/* Its output has ended and its status is known. */
static void probe_over(struct probe *p)
{
    if (p->is_closing || !p->has_ended || uv_is_active((uv_handle_t *)&p->out))
        return;
    if (!p->then && !p->watches)
        probe_close(p);         /* it has said what there is, and nothing is to be watched */
    else if (p->signal)
        probe_failed(p, "the probe of the GPUs was ended by signal %d (%s)", p->signal, p->doing[0] ? p->doing : "at its start");
    else
        probe_failed(p, "the probe of the GPUs ended with status %d (%s)", p->status, p->doing[0] ? p->doing : "at its start");
}

static void exited(uv_process_t *process, int64_t status, int signal)
{
    struct probe *p = process->data;

    p->has_ended = true;
    p->status = (int)status;
    p->signal = signal;
    probe_over(p);
}

static void buffer_give(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct probe *p = h->data;

    (void)suggested;
    *buf = uv_buf_init(p->buffer, sizeof p->buffer);
}

static void heard(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct probe *p = s->data;

    if (n > 0) {
        str_add_n(&p->frames, buf->base, (size_t)n);
        take_frames(p);
    } else if (n < 0) {
        uv_read_stop(s);
        probe_over(p);
    }
}

static void asked(uv_write_t *w, int status)
{
    (void)w;
    (void)status;       /* a probe that does not read ends, and that is heard */
}

void gpus_ask(struct agent *a, void (*then)(struct agent *a, struct gpus_answer *take))
{
    struct probe *p = mem_alloc(sizeof *p);
    char *argv[] = { (char *)"spurd", (char *)"--probe", NULL };
    uv_stdio_container_t files[3] = { { .flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&p->in },
                                      { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->out },
                                      { .flags = UV_INHERIT_FD, .data.fd = 2 } };
    uv_process_options_t options = { .exit_cb = exited, .file = "/proc/self/exe", .args = argv, .stdio = files, .stdio_count = 3 };
    uv_buf_t buf;
    int rc;

    gpus_stop(a);
    p->agent = a;
    p->then = then;
    a->probe = p;
    str_init(&p->ask);
    str_init(&p->frames);
    uv_pipe_init(a->loop, &p->in, 0);
    uv_pipe_init(a->loop, &p->out, 0);
    uv_timer_init(a->loop, &p->timer);
    p->in.data = p->out.data = p->timer.data = p->process.data = p;
    p->open_handles = 3;
    rc = uv_spawn(a->loop, &p->process, &options);
    p->is_spawned = true;       /* also after a failure the handle is one to close */
    p->open_handles++;
    if (rc < 0) {
        p->has_ended = true;
        probe_failed(p, "the probe of the GPUs does not start: %s", uv_strerror(rc));
        return;
    }
    probe_ask_write(a->set, &p->ask);
    buf = uv_buf_init(p->ask.text, (unsigned)p->ask.len);
    uv_write(&p->write, (uv_stream_t *)&p->in, &buf, 1, asked);
    uv_read_start((uv_stream_t *)&p->out, buffer_give, heard);
    uv_timer_start(&p->timer, silent, 1000 * (uint64_t)a->set->gpu_deadline_s, 0);
}

void gpus_stop(struct agent *a)
{
    struct probe *p = a->probe;

    if (!p)
        return;
    p->watches = false;
    if (p->then)
        probe_failed(p, "the probe of the GPUs was ended");
    else
        probe_close(p);
}
