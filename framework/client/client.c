/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - one question to the cluster, whoever leads it: asks, follows the leader, asks again when a connection fails.
 *
 * route.c says whom. The usual case, one controller on this host, costs socket, connect, setsockopt, sendto, recv, close. Everything that
 * is asked again carries the same token, so the controller answers a second time instead of doing it a second time.
 *
 * In a group: a refusal names the leader and is followed at once. A controller that is silent for HEDGE_MS may be stopped or cut off, so another
 * one is asked who leads; the answer moves us, or we wait on. While nobody leads a controller keeps a request for a while, and refuses it with the
 * number of those who answer: when that is no majority, waiting is given up after MAJORITY_MS. Reads say how new they must be (struct
 * Read): at least this user's last change; any age when nobody leads, and then the answer's age is said.
 */
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
#include "client/route.h"
#include "wire/unpack.h"

#define CALL_MS 10000               /* MessageTimeout's default */
#define WAIT_MS 600000              /* client_wait: how long the cluster may be away before it gives up */
#define PAUSE_MS 10                 /* between two rounds, grown by half up to PAUSE_MAX_MS, and half as much again by chance */
#define PAUSE_MAX_MS 500
#define REFUSED_ROUNDS 3            /* in a group: one that was stopped for a while drops those who have tried meanwhile, as if it did not know them */
#define HEDGE_MS ROUTE_HEDGE_MS
#define MAJORITY_MS 900
#define ONE_MS 1500                 /* client_call_one */
#define AGE_SAID_MS 2000            /* an answer older than this is said to be */

struct client {
    struct route route;
    struct dialog dialog;
    bool     is_fresh;              /* --fresh */
    bool     has_asked;
    bool     is_unsure;             /* the last call */
    uint64_t min_index;             /* reads: at least this entry */
    uint32_t age_ms;                /* of the last read */
    char     from[64];              /* who gave it */
};

int client_open(const char *conf_path, struct client **out, struct spur_error *err)
{
    struct client *c = mem_alloc(sizeof *c);
    int rc;

    c->dialog.fd = -1;
    if ((rc = route_open(&c->route, conf_path, err)) < 0) {
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
    route_close(&c->route);
    free(c);
    errno = saved;
}

const struct config_hint *client_hint(const struct client *c) { return &c->route.hint; }
int client_fd(const struct client *c) { return c->dialog.fd; }
void client_fresh(struct client *c) { c->is_fresh = true; }
bool client_unsure(const struct client *c) { return c->is_unsure; }

uint32_t client_age_ms(const struct client *c, const char **from)
{
    if (from)
        *from = c->from;
    return c->age_ms;
}

bool client_said_age(const struct client *c, const char *program)
{
    if (c->age_ms <= AGE_SAID_MS)
        return false;
    if (c->age_ms == UINT32_MAX)
        fprintf(stderr, "%s: warning: no controller leads; this is what %s knew when it last heard of one\n", program, *c->from ? c->from : "a controller");
    else
        fprintf(stderr, "%s: warning: no controller leads; this is what %s knew %u s ago\n", program, *c->from ? c->from : "a controller", c->age_ms / 1000);
    return true;
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

/* The pause before the next round; many clients that lost one controller do not come back in the same millisecond. */
static void rest(unsigned *pause)
{
    unsigned ms = *pause + (unsigned)(clock_mono_ms() * 7 + getpid()) % (*pause / 2 + 1);
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
    *pause += *pause / 2;
    if (*pause > PAUSE_MAX_MS)
        *pause = PAUSE_MAX_MS;
}

/* Connected to somebody, after at most one round through the row. */
static int connect_any(struct client *c, struct spur_error *err)
{
    int rc;

    if (c->dialog.fd >= 0)
        return 0;
    while ((rc = route_dial(&c->route, &c->dialog, err)) < 0)
        if (route_next(&c->route))
            return rc;
    return 0;
}

static void disconnect(struct client *c, bool move_on)
{
    dialog_close(&c->dialog);
    if (move_on)
        route_next(&c->route);
}

/* ---- messages that say more than their own --------------------------------------------------------------------------------- */

static const void *field_of(const ProtobufCMessageDescriptor *d, const char *name, const void *message)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(d, name);

    return f ? (const char *)message + f->offset : NULL;
}

/* A message that changes something names the entry in its answer. Commands to come, of this user, read at least that. */
static void learn_index(struct client *c, const ProtobufCMessageDescriptor *reply_desc, const void *reply)
{
    const uint64_t *index = route_is_group(&c->route) ? field_of(reply_desc, "index", reply) : NULL;

    if (index && *index > c->min_index) {
        c->min_index = *index;
        remember_write(&c->route.hint, *route_name(&c->route) ? route_name(&c->route) : NULL, *index, false);
    }
}

static void learn_age(struct client *c, const ProtobufCMessageDescriptor *part_desc, const void *part)
{
    const uint32_t *age;
    const uint64_t *index;

    if (!route_is_group(&c->route))
        return;
    age = field_of(part_desc, "age_ms", part);
    index = age ? field_of(part_desc, "index", part) : NULL;
    c->age_ms = age ? *age : 0;
    snprintf(c->from, sizeof c->from, "%s", route_name(&c->route));
    /* Only a leader gives less than was asked for: this is another group than the one that was remembered. */
    if (age && *age == 0 && index && *index < c->min_index) {
        c->min_index = *index;
        remember_write(&c->route.hint, NULL, *index, true);
    }
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
    ProtobufCMessage *copy;         /* of the request, with `read` in it; NULL: it has no such field, or nobody needs it */
    Wire__Read read;
    int64_t deadline, since;
    unsigned pause, leaderless;     /* refusals without a leader, one after the other */
    unsigned round;                 /* of the route, at the first of them */
    bool    has_sent, is_wait;
    int     asked_leaders, refused_rounds;
};

/* How new a read must be stands in the request's field `read`, whatever the request. */
static void ask_begin(struct ask *k)
{
    const ProtobufCFieldDescriptor *f;
    struct client *c = k->c;
    bool is_read, is_first = !c->has_asked;

    k->since = clock_mono_ms();
    k->pause = PAUSE_MS;
    c->has_asked = true;
    if (!route_is_group(&c->route) && !c->is_fresh)
        return;
    f = protobuf_c_message_descriptor_get_field_by_name(k->request->descriptor, "read");
    is_read = f && k->type != WIRE__MESSAGE_TYPE__PING && k->type != WIRE__MESSAGE_TYPE__MEMBERS;
    if (is_first) {
        route_prefer(&c->route, !is_read || c->is_fresh);
        if (c->route.remembered.index > c->min_index)
            c->min_index = c->route.remembered.index;
    }
    if (!is_read)
        return;
    wire__read__init(&k->read);
    k->read.has_min_index = c->min_index != 0;
    k->read.min_index = c->min_index;
    k->read.has_fresh = k->read.fresh = c->is_fresh;
    k->copy = mem_alloc(k->request->descriptor->sizeof_message);
    memcpy(k->copy, k->request, k->request->descriptor->sizeof_message);
    *(Wire__Read **)(void *)((char *)k->copy + f->offset) = &k->read;
}

static void ask_end(struct ask *k)
{
    free(k->copy);
    k->copy = NULL;
}

/* Nobody leads, or his name leads nowhere. Negative: the last word. */
static int leaderless(struct ask *k, const Wire__Refusal *no, struct spur_error *err)
{
    struct client *c = k->c;
    bool no_majority = no->has_voters && no->has_reachable && no->reachable * 2 <= no->voters;

    if (k->leaderless++ == 0)
        k->round = c->route.round;
    k->asked_leaders = 0;
    /* An old answer, said to be one, is better than none, but only when all have been asked: one that has just started knows of nobody yet. */
    if (k->copy && !k->read.fresh && !k->read.stale_ok && c->route.round - k->round >= 2) {
        k->read.has_stale_ok = k->read.stale_ok = 1;
        return 0;
    }
    if (no_majority && !k->is_wait && clock_mono_ms() - k->since >= MAJORITY_MS)
        return spur_fail(err, SPUR_ENOTLEADER, "no majority of the controllers answers: %u of %u; nothing can be changed until more are back", no->reachable, no->voters);
    disconnect(c, true);
    rest(&k->pause);
    return 0;
}

/* A refusal: either the last word (negative), or 0 for "ask again". */
static int refused(struct ask *k, const struct frame *f, const uint8_t *body, int *slurm_errno, struct spur_error *err)
{
    struct client *c = k->c;
    struct arena a;
    Wire__Refusal *no;
    int rc;

    arena_init(&a, 64 << 10);
    no = wire_unpack(&wire__refusal__descriptor, body, f->length, &a);
    if (!no) {
        rc = spur_fail(err, SPUR_ECORRUPT, "%s: a refusal that cannot be read", c->dialog.peer);
    } else {
        rc = spur_fail(err, no->code < 0 ? no->code : SPUR_EINVAL, "%s", no->text);
        if (no->has_slurm_errno && slurm_errno)
            *slurm_errno = no->slurm_errno;
        if (no->code == SPUR_ENOTLEADER && clock_mono_ms() < k->deadline) {
            if (no->leader && *no->leader)
                k->leaderless = 0;
            if (no->leader && *no->leader && k->asked_leaders++ < 4 && route_to(&c->route, no->leader, no->leader_addr)) {
                dialog_close(&c->dialog);
                rc = 0;
            } else {
                rc = leaderless(k, no, err);
            }
        }
    }
    arena_fini(&a);
    return rc;
}

/* The one we ask is silent. Does another name somebody else as leader? Then we go there. The connection we have stays as it is otherwise. */
static bool elsewhere(struct ask *k)
{
    struct client *c = k->c;
    Wire__Empty q = WIRE__EMPTY__INIT;
    unsigned at = c->route.at, round = c->route.round;
    char name[64];
    bool found = false;
    struct spur_error err;

    snprintf(name, sizeof name, "%s", route_name(&c->route));
    for (unsigned tries = 0; tries < c->route.count && !found; tries++) {
        struct dialog d = DIALOG_INIT;
        struct arena a;
        struct frame f;
        const uint8_t *body;
        Wire__Pong *pong;

        route_next(&c->route);
        if (c->route.at == at)
            break;
        if (word_eq(route_name(&c->route), name))
            continue;
        c->route.round = 0;
        if (route_dial(&c->route, &d, &err) < 0)
            continue;
        dialog_timeout(&d, HEDGE_MS / 2);
        arena_init(&a, 64 << 10);
        if (dialog_send(&d, WIRE__MESSAGE_TYPE__PING, &q.base, &err) == 0 && dialog_next(&d, &f, &body, &err) > 0 && f.type == WIRE__MESSAGE_TYPE__PONG &&
            (pong = wire_unpack(&wire__pong__descriptor, body, f.length, &a)) && pong->leader && *pong->leader && !word_eq(pong->leader, name))
            found = route_to(&c->route, pong->leader, pong->leader_addr);
        arena_fini(&a);
        dialog_close(&d);
    }
    if (!found)
        c->route.at = at;
    c->route.round = round;
    return found;
}

/* The first message of the answer, or SPUR_ETIMEOUT, SPUR_ECLOSED ... */
static int first_answer(struct ask *k, struct frame *f, const uint8_t **body, struct spur_error *err)
{
    struct client *c = k->c;
    int rc;

    if (!route_is_group(&c->route) || k->is_wait)
        return dialog_next(&c->dialog, f, body, err);
    dialog_timeout(&c->dialog, HEDGE_MS);
    while ((rc = dialog_next(&c->dialog, f, body, err)) == SPUR_ETIMEOUT && clock_mono_ms() < k->deadline)
        if (elsewhere(k)) {
            dialog_close(&c->dialog);
            return SPUR_ELATER;
        }
    return rc;
}

/* Until a first message of the answer is there: 1; or the last word, negative. */
static int ask(struct ask *k, struct frame *f, const uint8_t **body, int *slurm_errno, struct spur_error *err)
{
    struct client *c = k->c;
    int rc;

    c->is_unsure = false;
    for (;;) {
        if ((rc = connect_any(c, err)) < 0) {
            if (clock_mono_ms() + k->pause > k->deadline)
                break;
            /* An answer that we are not known will not change in seconds; a daemon that is down may come back. */
            if (c->route.refused.code && !k->is_wait && (!route_is_group(&c->route) || ++k->refused_rounds >= REFUSED_ROUNDS))
                break;
            rest(&k->pause);
            continue;
        }
        if (k->is_wait)
            dialog_timeout(&c->dialog, 0);
        rc = dialog_send(&c->dialog, k->type, k->copy ? k->copy : k->request, err);
        if (rc == SPUR_ELIMIT)
            return rc;
        if (rc == 0) {
            k->has_sent = true;
            rc = first_answer(k, f, body, err);
            if (rc == SPUR_ELATER && !k->is_wait)       /* another one leads: he is asked now */
                continue;
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
    c->is_unsure = k->has_sent;
    if (c->route.refused.code) {
        if (err)
            *err = c->route.refused;
        return c->route.refused.code;
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
    ask_begin(&k);
    rc = ask(&k, &f, &body, slurm_errno, err);
    ask_end(&k);
    if (rc < 0)
        return rc;
    *reply = wire_unpack(reply_desc, body, f.length, a);
    if (!*reply) {
        disconnect(c, true);
        return spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", c->dialog.peer);
    }
    if (k.read.base.descriptor)
        learn_age(c, reply_desc, *reply);
    else
        learn_index(c, reply_desc, *reply);
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
    bool is_first = true;
    int rc, go;

    if (slurm_errno)
        *slurm_errno = 0;
    ask_begin(&k);
    rc = ask(&k, &f, &body, slurm_errno, err);
    ask_end(&k);
    if (rc < 0)
        return rc;
    arena_init(&own, 0);
    for (;;) {
        if (f.type != part_type || !(part = wire_unpack(part_desc, body, f.length, a))) {
            rc = f.type == WIRE__MESSAGE_TYPE__REFUSED ? refused(&(struct ask){ .c = c }, &f, body, slurm_errno, err)
                                                       : spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", c->dialog.peer);
            disconnect(c, true);
            break;
        }
        if (is_first)
            learn_age(c, part_desc, part);
        is_first = false;
        go = fn(arg, part);
        if (go < 0 || says_last(part_desc, part) || go == 0) {
            if (!says_last(part_desc, part))
                disconnect(c, false);       /* the rest is not wanted */
            rc = go < 0 ? go : 0;
            break;
        }
        if (!keep)
            arena_reset(a);
        dialog_timeout(&c->dialog, CALL_MS);
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

        ask_begin(&k);
        rc = ask(&k, &f, &body, slurm_errno, err);
        ask_end(&k);
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

static int call_at(struct dialog *d, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                   struct arena *a, void **reply, struct spur_error *err)
{
    struct frame f;
    const uint8_t *body;
    Wire__Refusal *no;
    int rc;

    dialog_timeout(d, ONE_MS);
    if ((rc = dialog_send(d, type, request, err)) == 0 && (rc = dialog_next(d, &f, &body, err)) > 0) {
        if (f.type == reply_type && (*reply = wire_unpack(reply_desc, body, f.length, a)))
            rc = 0;
        else if (f.type == WIRE__MESSAGE_TYPE__REFUSED && (no = wire_unpack(&wire__refusal__descriptor, body, f.length, a)))
            rc = spur_fail(err, no->code < 0 ? no->code : SPUR_EINVAL, "%s", no->text);
        else
            rc = spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", d->peer);
    }
    dialog_close(d);
    return rc;
}

int client_call_one(struct client *c, size_t i, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                    struct arena *a, void **reply, struct spur_error *err)
{
    struct dialog d = DIALOG_INIT;
    int rc = route_dial_to(&c->route, i, &d, ONE_MS, err);

    return rc < 0 ? rc : call_at(&d, type, request, reply_type, reply_desc, a, reply, err);
}

int client_call_named(struct client *c, const char *name, const char *addr, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type,
                      const ProtobufCMessageDescriptor *reply_desc, struct arena *a, void **reply, struct spur_error *err)
{
    struct dialog d = DIALOG_INIT;
    unsigned at = c->route.at;
    int rc = route_to(&c->route, name, addr) ? route_dial(&c->route, &d, err) : spur_fail(err, SPUR_ENOTFOUND, "no way to controller %.64s is known here", name);

    c->route.at = at;
    return rc < 0 ? rc : call_at(&d, type, request, reply_type, reply_desc, a, reply, err);
}
