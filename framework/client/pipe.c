/* SPDX-License-Identifier: Apache-2.0 */
/* pipe.c - keeps a window of requests under way over one connection, and carries them over to the next when that one ends.
 *
 * Requests are packed once and kept until they are answered. They gather in the channel and are written together when the window is full,
 * so that a burst costs one system call each way; the controller makes one entry of the log of what came together. A refusal without a
 * leader, or a lost connection, marks all that is unanswered as unsent: it goes out again, in order, with the same tokens.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "client/pipe.h"
#include "client/route.h"
#include "wire/unpack.h"

#define GIVE_UP_MS 10000            /* without any answer */
#define MAJORITY_MS 900
#define PAUSE_MS 10
#define PAUSE_MAX_MS 500
#define WRITE_BYTES (256u << 10)

struct flying {
    uint64_t seq;                   /* 0: not sent over this connection */
    uint16_t type, reply_type;
    const ProtobufCMessageDescriptor *reply_desc;
    void    *cookie;
    size_t   n;
    struct flying *next, *before;
    uint8_t  body[];
};

struct client_pipe {
    struct route route;
    struct dialog dialog;
    client_pipe_fn answered; void *arg;
    unsigned window, pause;
    struct flying *first, *last; size_t count, unsent;
    int64_t  progress;              /* when something was answered last, or first asked */
    int64_t  leaderless_since;      /* 0: there is one, as far as we know */
    bool     is_moving;             /* this connection is of no use any more */
};

int client_pipe_open(const char *conf_path, unsigned window, client_pipe_fn answered, void *arg, struct client_pipe **out, struct spur_error *err)
{
    struct client_pipe *p;
    int rc;

    if (window == 0 || window > CLIENT_PIPE_WINDOW_MAX)
        return spur_fail(err, SPUR_EINVAL, "a window of %u requests: 1 to %u are possible", window, CLIENT_PIPE_WINDOW_MAX);
    p = mem_alloc(sizeof *p);
    if ((rc = route_open(&p->route, conf_path, err)) < 0) {
        free(p);
        return rc;
    }
    p->dialog.fd = -1;
    p->answered = answered;
    p->arg = arg;
    p->window = window;
    p->pause = PAUSE_MS;
    route_prefer(&p->route, true);
    *out = p;
    return 0;
}

static void flying_end(struct client_pipe *p, struct flying *f, const void *reply, int number, const struct spur_error *err)
{
    if (f->before) f->before->next = f->next; else p->first = f->next;
    if (f->next) f->next->before = f->before; else p->last = f->before;
    p->count--;
    p->unsent -= f->seq == 0;
    p->answered(p->arg, f->cookie, reply, number, err);
    free(f);
}

void client_pipe_close(struct client_pipe *p)
{
    struct spur_error err = { 0 };

    if (!p)
        return;
    spur_fail(&err, SPUR_ECLOSED, "not answered yet");
    while (p->first)
        flying_end(p, p->first, NULL, 0, &err);
    dialog_close(&p->dialog);
    route_close(&p->route);
    free(p);
}

size_t client_pipe_flying(const struct client_pipe *p) { return p->count; }

static void rest(struct client_pipe *p)
{
    unsigned ms = p->pause + (unsigned)(clock_mono_ms() * 7 + getpid()) % (p->pause / 2 + 1);
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
    p->pause = p->pause + p->pause / 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : p->pause + p->pause / 2;
}

/* All that has no answer goes out again over the next connection. */
static void leave(struct client_pipe *p)
{
    dialog_close(&p->dialog);
    p->is_moving = false;
    for (struct flying *f = p->first; f; f = f->next)
        f->seq = 0;
    p->unsent = p->count;
}

static int send_unsent(struct client_pipe *p, struct spur_error *err)
{
    int rc = 0;

    for (struct flying *f = p->unsent ? p->first : NULL; f && rc == 0 && p->unsent; f = f->next)
        if (!f->seq) {
            if ((rc = dialog_post(&p->dialog, f->type, f->body, f->n, WRITE_BYTES, err)) < 0)
                break;
            f->seq = p->dialog.seq;
            p->unsent--;
        }
    return rc;
}

/* Connected, and everything is on its way. Negative: nobody for so long that it is the end. */
static int up(struct client_pipe *p, struct spur_error *err)
{
    for (;;) {
        int rc = p->dialog.fd >= 0 ? 0 : route_dial(&p->route, &p->dialog, err);

        if (rc == 0 && (rc = send_unsent(p, err)) == 0 && (rc = dialog_flush(&p->dialog, err)) == 0)
            return 0;
        if (rc == SPUR_ELIMIT)
            return rc;
        leave(p);
        if (route_next(&p->route)) {
            if (p->route.refused.code) {
                *err = p->route.refused;
                return err->code;
            }
            if (clock_mono_ms() - p->progress > GIVE_UP_MS)
                return spur_fail(err, SPUR_ECLOSED, "Unable to contact slurm controller (connect failure)");
            rest(p);
        }
    }
}

static int refused(struct client_pipe *p, struct flying *f, const Wire__Refusal *no, struct spur_error *err)
{
    struct spur_error why = { 0 };

    if (no->code != SPUR_ENOTLEADER) {
        spur_fail(&why, no->code < 0 ? no->code : SPUR_EINVAL, "%s", no->text);
        p->progress = clock_mono_ms();
        flying_end(p, f, NULL, no->has_slurm_errno ? no->slurm_errno : 0, &why);
        return 0;
    }
    f->seq = 0;
    p->unsent++;
    if (p->is_moving)
        return 0;
    p->is_moving = true;
    if (no->leader && *no->leader && route_to(&p->route, no->leader, no->leader_addr))
        return 0;
    if (!p->leaderless_since)
        p->leaderless_since = clock_mono_ms();
    if (no->has_voters && no->reachable * 2 <= no->voters && clock_mono_ms() - p->leaderless_since > MAJORITY_MS)
        return spur_fail(err, SPUR_ENOTLEADER, "no majority of the controllers answers: %u of %u; nothing can be changed until more are back", no->reachable, no->voters);
    route_next(&p->route);
    rest(p);
    return 0;
}

static int take(struct client_pipe *p, const struct frame *in, const uint8_t *body, struct spur_error *err)
{
    struct flying *f = p->first;
    struct arena a;
    void *reply = NULL;
    int rc = 0;

    while (f && f->seq != in->seq)
        f = f->next;
    if (!f)
        return 0;
    arena_init(&a, 0);
    if (in->type == WIRE__MESSAGE_TYPE__REFUSED && (reply = wire_unpack(&wire__refusal__descriptor, body, in->length, &a))) {
        rc = refused(p, f, reply, err);
    } else if (in->type == f->reply_type && (reply = wire_unpack(f->reply_desc, body, in->length, &a))) {
        p->progress = clock_mono_ms();
        p->leaderless_since = 0;
        p->pause = PAUSE_MS;
        p->route.round = 0;
        flying_end(p, f, reply, 0, NULL);
    } else {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", p->dialog.peer);
    }
    arena_fini(&a);
    return rc;
}

/* Until at most `left` are under way. */
static int answers(struct client_pipe *p, size_t left, struct spur_error *err)
{
    struct spur_error why = { 0 };
    struct frame f;
    const uint8_t *body;
    int rc;

    while (p->count > left) {
        if ((rc = up(p, err)) < 0)
            return rc;
        rc = dialog_any(&p->dialog, &f, &body, true, &why);
        while (rc > 0) {
            if ((rc = take(p, &f, body, err)) < 0)
                return rc;
            rc = dialog_any(&p->dialog, &f, &body, false, &why);        /* what has come with it */
        }
        if (rc < 0 && rc != SPUR_ETIMEOUT) {
            leave(p);
            if (route_next(&p->route))
                rest(p);
        } else if (rc == SPUR_ETIMEOUT) {       /* silent: another one may know better; the tokens make asking twice safe */
            leave(p);
            route_next(&p->route);
        } else if (p->is_moving) {
            leave(p);
        }
        if (clock_mono_ms() - p->progress > GIVE_UP_MS)
            return spur_fail(err, SPUR_ECLOSED, "Unable to contact slurm controller (connect failure)");
    }
    return 0;
}

int client_pipe_send(struct client_pipe *p, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                     void *cookie, struct spur_error *err)
{
    size_t n = protobuf_c_message_get_packed_size(request);
    struct flying *f;
    int rc;

    if (n > FRAME_MAX)
        return spur_fail(err, SPUR_ELIMIT, "a request of %zu bytes: at most %u are possible", n, FRAME_MAX);
    f = mem_alloc(sizeof *f + n);
    protobuf_c_message_pack(request, f->body);
    f->n = n;
    f->type = type;
    f->reply_type = reply_type;
    f->reply_desc = reply_desc;
    f->cookie = cookie;
    if ((f->before = p->last)) p->last->next = f; else p->first = f;
    p->last = f;
    if (p->count++ == 0)
        p->progress = clock_mono_ms();
    p->unsent++;
    if (p->dialog.fd >= 0 && p->unsent == 1) {      /* straight into the channel; written when the window is full */
        if (dialog_post(&p->dialog, f->type, f->body, f->n, WRITE_BYTES, err) == 0) {
            f->seq = p->dialog.seq;
            p->unsent--;
        } else {
            leave(p);
        }
    }
    if (p->count < p->window)
        return 0;
    rc = answers(p, p->window - 1, err);
    return rc;
}

int client_pipe_drain(struct client_pipe *p, struct spur_error *err) { return answers(p, 0, err); }
