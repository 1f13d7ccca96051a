/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - one question to the cluster, whoever leads it: finds a controller, asks, follows the leader, asks again when a connection fails.
 *
 * Controllers to ask stand in one row: run_dir/ctl.sock, the other ctl*.sock there (a sandbox has several), then the TCP addresses of slurm.conf.
 * `turn` is the place in it; a failure moves on, and the row begins anew until the deadline. The usual case, one controller on
 * this host, costs socket, connect, setsockopt, sendto, recv, close. Everything that is asked again carries the same token, so
 * the controller answers a second time instead of doing it a second time.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"
#include "client/dialog.h"
#include "client/prove.h"
#include "wire/unpack.h"

#define CALL_MS 10000               /* MessageTimeout's default */
#define WAIT_MS 600000              /* client_wait: how long the cluster may be away before it gives up */
#define CONNECT_MS 2500             /* one controller */
#define PAUSE_MS 10                 /* between two rounds, doubled up to PAUSE_MAX_MS */
#define PAUSE_MAX_MS 500
#define SOCKS_MAX 16

struct client {
    struct config_hint hint;
    struct dialog dialog;
    unsigned turn;
    bool     has_socks;
    char    *socks[SOCKS_MAX]; unsigned sock_count;     /* paths besides ctl.sock */
    struct prover *prover;
    struct spur_error refused;      /* somebody answered who did not know us: more telling than "connect failure" */
};

int client_open(const char *conf_path, struct client **out, struct spur_error *err)
{
    struct client *c = mem_alloc(sizeof *c);
    int rc;

    c->dialog.fd = -1;
    if ((rc = config_hint_read(conf_path, &c->hint, err)) < 0) {
        free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void client_close(struct client *c)
{
    int saved = errno;

    if (!c)
        return;
    dialog_close(&c->dialog);
    prover_close(c->prover);
    for (unsigned i = 0; i < c->sock_count; i++)
        free(c->socks[i]);
    free(c);
    errno = saved;
}

const struct config_hint *client_hint(const struct client *c)
{
    return &c->hint;
}

int client_fd(const struct client *c)
{
    return c->dialog.fd;
}

void client_token(uint8_t token[16], int64_t *wall_ms)
{
    for (size_t n = 0; n < 16;) {
        ssize_t got = getrandom(token + n, 16 - n, 0);

        if (got > 0)
            n += (size_t)got;
    }
    *wall_ms = clock_wall_ms();
}

static void rest_ms(unsigned ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
}

/* ---- finding a controller ------------------------------------------------------------------------------------------------ */

static void find_socks(struct client *c)
{
    DIR *d = opendir(c->hint.run_dir);
    struct dirent *e;
    struct str path;

    c->has_socks = true;
    while (d && (e = readdir(d))) {
        size_t n = strlen(e->d_name);

        if (strncmp(e->d_name, "ctl", 3) != 0 || n < 9 || strcmp(e->d_name + n - 5, ".sock") != 0 || c->sock_count == SOCKS_MAX)
            continue;
        str_init(&path);
        str_addf(&path, "%s/%s", c->hint.run_dir, e->d_name);
        c->socks[c->sock_count++] = str_take(&path);
    }
    if (d)
        closedir(d);
}

static unsigned turns(const struct client *c)
{
    return 1 + c->sock_count + (unsigned)c->hint.controller_count;
}

static int try_turn(struct client *c, struct spur_error *err)
{
    char path[300];
    unsigned i = c->turn;
    struct dialog_auth auth;
    int rc;

    if (i == 0) {
        snprintf(path, sizeof path, "%s/ctl.sock", c->hint.run_dir);
        return dialog_local(&c->dialog, path, CALL_MS, err);
    }
    if (!c->has_socks)
        find_socks(c);
    if (--i < c->sock_count)
        return dialog_local(&c->dialog, c->socks[i], CALL_MS, err);
    if ((i -= c->sock_count) >= c->hint.controller_count)
        return spur_fail(err, SPUR_ENOTFOUND, "%s names no controller (SlurmctldHost)", c->hint.path);
    if (!c->prover && (rc = prover_open(&c->hint, NULL, &c->prover, err)) < 0) {
        if (access(c->hint.run_dir, F_OK) < 0)      /* where there is the folder of the sockets, a daemon is meant to be: it is down */
            c->refused = *err;
        return rc;
    }
    auth = prover_auth(c->prover);
    rc = dialog_tcp(&c->dialog, *c->hint.controllers[i].addr ? c->hint.controllers[i].addr : c->hint.controllers[i].host, c->hint.port, c->hint.cluster, &auth,
                  CONNECT_MS, err);
    if (rc == SPUR_EAUTH || rc == SPUR_EUNSUPPORTED)
        c->refused = *err;
    if (rc == 0)
        dialog_timeout(&c->dialog, CALL_MS);
    return rc;
}

/* Connected to somebody, after at most one round through the row. */
static int connect_any(struct client *c, struct spur_error *err)
{
    int rc = 0;

    if (c->dialog.fd >= 0)
        return 0;
    for (unsigned n = 0; n < turns(c) || n == 0; n++) {
        if (c->turn >= turns(c))
            c->turn = 0;
        if ((rc = try_turn(c, err)) == 0)
            return 0;
        c->turn++;
    }
    return rc;
}

static void disconnect(struct client *c, bool move_on)
{
    dialog_close(&c->dialog);
    if (move_on)
        c->turn++;
}

/* The next one to ask is the controller of this name, if the row has it. */
static void turn_to(struct client *c, const char *leader)
{
    char tail[160];
    size_t n = (size_t)snprintf(tail, sizeof tail, "/ctl-%s.sock", leader);

    if (!c->has_socks)
        find_socks(c);
    for (unsigned i = 0; i < c->sock_count; i++) {
        size_t len = strlen(c->socks[i]);

        if (len > n && !strcmp(c->socks[i] + len - n, tail)) {
            c->turn = 1 + i;
            return;
        }
    }
    for (unsigned i = 0; i < c->hint.controller_count; i++)
        if (word_eq(c->hint.controllers[i].host, leader)) {
            c->turn = 1 + c->sock_count + i;
            return;
        }
    c->turn++;
}

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

/* What must not be done twice and has no token. */
static bool is_unrepeatable(uint16_t type)
{
    return type == WIRE__MESSAGE_TYPE__SHUTDOWN;
}

/* One call in progress: where it stands between two attempts. */
struct ask {
    struct client *c;
    uint16_t type, reply_type;
    const ProtobufCMessage *request;
    int64_t deadline;
    unsigned pause;
    bool    has_sent, is_wait;
    int     asked_leaders;
};

/* A refusal: either the last word (negative), or 0 for "ask again". */
static int refused(struct ask *k, const struct frame *f, const uint8_t *body, int *slurm_errno, struct spur_error *err)
{
    struct arena a;
    Wire__Refusal *no;
    int rc;

    arena_init(&a, 64 << 10);
    no = wire_unpack(&wire__refusal__descriptor, body, f->length, &a);
    if (!no) {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s: a refusal that cannot be read", k->c->dialog.peer);
    } else {
        rc = spur_fail(err, no->code < 0 ? no->code : SPUR_EINVAL, "%s", no->text);
        if (no->has_slurm_errno && slurm_errno)
            *slurm_errno = no->slurm_errno;
        if (no->code == SPUR_ENOTLEADER && clock_mono_ms() < k->deadline) {
            if (no->leader && *no->leader && k->asked_leaders++ < 8) {
                turn_to(k->c, no->leader);
                dialog_close(&k->c->dialog);
            } else {
                disconnect(k->c, true);
                k->asked_leaders = 0;
                rest_ms(k->pause);
                k->pause = k->pause * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : k->pause * 2;
            }
            rc = 0;
        }
    }
    arena_fini(&a);
    return rc;
}

/* Until a first message of the answer is there: 1; or the last word, negative. */
static int ask(struct ask *k, struct frame *f, const uint8_t **body, int *slurm_errno, struct spur_error *err)
{
    struct client *c = k->c;
    int rc;

    if (!k->pause)
        k->pause = PAUSE_MS;
    for (;;) {
        if ((rc = connect_any(c, err)) < 0) {
            if (clock_mono_ms() + k->pause > k->deadline)
                break;
            /* An answer that we are not known will not change in seconds; a daemon that is down may come back. */
            if (c->refused.code && !k->is_wait)
                break;
            rest_ms(k->pause);
            k->pause = k->pause * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : k->pause * 2;
            continue;
        }
        if (k->is_wait)
            dialog_timeout(&c->dialog, 0);
        rc = dialog_send(&c->dialog, k->type, k->request, err);
        if (rc == SPUR_ELIMIT)
            return rc;
        if (rc == 0) {
            k->has_sent = true;
            rc = dialog_next(&c->dialog, f, body, err);
        }
        if (rc == SPUR_ELATER)              /* a signal during a wait: the caller decides */
            return disconnect(c, false), rc;
        if (rc > 0 && f->type == WIRE__MESSAGE_TYPE__REFUSED) {
            if ((rc = refused(k, f, *body, slurm_errno, err)) < 0)
                return rc;
            continue;
        }
        if (rc > 0 && f->type == k->reply_type)
            return 1;
        if (rc > 0)
            rc = spur_fail(err, SPUR_ECORRUPT, "%s answers %u with %u", c->dialog.peer, k->type, f->type);
        disconnect(c, true);
        if (k->has_sent && is_unrepeatable(k->type))
            return rc;
        if (clock_mono_ms() >= k->deadline)
            break;
    }
    if (c->refused.code) {
        if (err)
            *err = c->refused;
        return c->refused.code;
    }
    return spur_fail(err, SPUR_ECLOSED, "Unable to contact slurm controller (connect failure)");
}

int client_call(struct client *c, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                struct arena *a, void **reply, int *slurm_errno, struct spur_error *err)
{
    struct ask k = { .c = c, .type = type, .reply_type = reply_type, .request = request, .deadline = clock_mono_ms() + CALL_MS };
    struct frame f;
    const uint8_t *body;
    int rc;

    if (slurm_errno)
        *slurm_errno = 0;
    if ((rc = ask(&k, &f, &body, slurm_errno, err)) < 0)
        return rc;
    *reply = wire_unpack(reply_desc, body, f.length, a);
    if (!*reply) {
        disconnect(c, true);
        return spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", c->dialog.peer);
    }
    return 0;
}

/* Does this part say that it is the last? Every streamed message has that field. */
static bool says_last(const ProtobufCMessageDescriptor *d, const void *part)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(d, "last");

    return !f || *(const protobuf_c_boolean *)((const char *)part + f->offset);
}

int client_stream_keep(struct client *c, uint16_t type, const ProtobufCMessage *request, uint16_t part_type, const ProtobufCMessageDescriptor *part_desc,
                       struct arena *keep, int (*fn)(void *arg, void *part), void *arg, int *slurm_errno, struct spur_error *err)
{
    struct ask k = { .c = c, .type = type, .reply_type = part_type, .request = request, .deadline = clock_mono_ms() + CALL_MS };
    struct arena own, *a = keep ? keep : &own;
    struct frame f;
    const uint8_t *body;
    void *part;
    int rc, go;

    if (slurm_errno)
        *slurm_errno = 0;
    if ((rc = ask(&k, &f, &body, slurm_errno, err)) < 0)
        return rc;
    arena_init(&own, 0);
    for (;;) {
        if (f.type != part_type || !(part = wire_unpack(part_desc, body, f.length, a))) {
            rc = f.type == WIRE__MESSAGE_TYPE__REFUSED ? refused(&(struct ask){ .c = c }, &f, body, slurm_errno, err)
                                                       : spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", c->dialog.peer);
            disconnect(c, true);
            break;
        }
        go = fn(arg, part);
        if (go < 0 || says_last(part_desc, part) || go == 0) {
            if (!says_last(part_desc, part))
                disconnect(c, false);       /* the rest is not wanted */
            rc = go < 0 ? go : 0;
            break;
        }
        if (!keep)
            arena_reset(a);
        /* What was handed over cannot be taken back, so a connection lost here is an error, not a second try. */
        if ((rc = dialog_next(&c->dialog, &f, &body, err)) < 0) {
            disconnect(c, true);
            break;
        }
    }
    arena_fini(&own);
    return rc < 0 ? rc : 0;
}

int client_stream(struct client *c, uint16_t type, const ProtobufCMessage *request, uint16_t part_type, const ProtobufCMessageDescriptor *part_desc,
                  int (*fn)(void *arg, void *part), void *arg, int *slurm_errno, struct spur_error *err)
{
    return client_stream_keep(c, type, request, part_type, part_desc, NULL, fn, arg, slurm_errno, err);
}

int client_wait(struct client *c, const Wire__WaitRequest *request, struct arena *a, Wire__JobsReply **reply, int *slurm_errno, struct spur_error *err)
{
    struct frame f;
    const uint8_t *body;
    int rc;

    if (slurm_errno)
        *slurm_errno = 0;
    for (;;) {
        struct ask k = { .c = c, .type = WIRE__MESSAGE_TYPE__WAIT, .reply_type = WIRE__MESSAGE_TYPE__JOBS_PART, .request = &request->base,
                         .deadline = clock_mono_ms() + WAIT_MS, .is_wait = true };

        rc = ask(&k, &f, &body, slurm_errno, err);
        /* Asked for hours, then the connection went: the patience begins when it goes, not when the question was put. */
        if (rc == SPUR_ECLOSED && k.has_sent)
            continue;
        break;
    }
    if (c->dialog.fd >= 0)
        dialog_timeout(&c->dialog, CALL_MS);
    if (rc < 0)
        return rc;
    *reply = wire_unpack(&wire__jobs_reply__descriptor, body, f.length, a);
    if (!*reply)
        return spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", c->dialog.peer);
    return 0;
}
