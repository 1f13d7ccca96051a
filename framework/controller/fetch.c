/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - scripts and environments that this controller's state names and its folder does not hold: asked for by hash from the other controllers.
 *
 * A snapshot has hashes only, so a member that got one lacks the blobs of before. It asks one controller after the other, a few blobs under way, over
 * a channel of its own, and again after a while for what nobody had. A leader that is to launch such a job waits for its script: a job that
 * started without would be worse than one that starts later. What comes is checked against its hash.
 */
#include <sodium.h>
#include <stdlib.h>

#include "controller/ctl.h"
#include "wire/unpack.h"

#define FETCH_WINDOW 16
#define FETCH_AGAIN_MS 200
#define FETCH_AGAIN_MAX_MS 10000

struct fetch {
    uv_timer_t timer;
    struct ctl *ctl;
    uint8_t (*missing)[32]; size_t count, next, room;
    bool     is_dialling;
    struct rpc_conn *conn;
    size_t   in_flight, got;
    size_t   turn;                  /* which controller is asked next */
    unsigned pause_ms;
};

static void fetch_look(struct ctl *c);

static void fetch_add(void *arg, const uint8_t hash[32])
{
    struct fetch *f = arg;

    if (blobs_has(f->ctl, hash))
        return;
    if (f->count == f->room) {
        f->room = f->room ? f->room * 2 : 16;
        f->missing = mem_grow(f->missing, f->room, sizeof *f->missing);
    }
    memcpy(f->missing[f->count++], hash, 32);
}

static void fetch_ask(struct fetch *f)
{
    while (f->in_flight < FETCH_WINDOW && f->next < f->count) {
        Wire__BlobRequest q = WIRE__BLOB_REQUEST__INIT;

        q.hash.data = f->missing[f->next++];
        q.hash.len = 32;
        f->in_flight++;
        rpc_send(f->conn, WIRE__MESSAGE_TYPE__BLOB, f->next, &q.base);
    }
    if (!f->in_flight)
        rpc_close(f->conn, "that was all");
}

static void fetch_rang(uv_timer_t *timer) { fetch_look(((struct fetch *)timer->data)->ctl); }

static void fetch_later(struct fetch *f)
{
    if (!uv_is_closing((uv_handle_t *)&f->timer))
        uv_timer_start(&f->timer, fetch_rang, f->pause_ms, 0);
    f->pause_ms = f->pause_ms * 2 > FETCH_AGAIN_MAX_MS ? FETCH_AGAIN_MAX_MS : f->pause_ms * 2;
}

/* What is missing now, and somebody to ask. */
static void fetch_look(struct ctl *c)
{
    struct fetch *f = c->fetch;
    const struct config *cfg = c->state->config ? c->state->config : c->file_config;
    struct spur_error err = { 0 };

    if (f->is_dialling || f->conn || c->is_stopping)
        return;
    f->count = f->next = f->in_flight = f->got = 0;
    state_blobs(c->state, fetch_add, f);
    if (!f->count) {
        f->pause_ms = FETCH_AGAIN_MS;
        return;
    }
    for (size_t k = 0; k < cfg->controller_count; k++) {
        const struct config_controller *to = &cfg->controllers[f->turn++ % cfg->controller_count];

        if (word_eq(to->host, c->name))
            continue;
        if (rpc_dial(c->rpc, to->addr ? to->addr : to->host, (uint16_t)config_number(cfg, CONF_SlurmctldPort), f, &err) == 0) {
            f->is_dialling = true;
            return;
        }
    }
    fetch_later(f);
}

void fetch_blobs(struct ctl *c)
{
    if (!uv_is_active((uv_handle_t *)&c->fetch->timer))
        uv_timer_start(&c->fetch->timer, fetch_rang, 0, 0);
}

bool fetch_is(const struct ctl *c, const struct rpc_conn *conn) { return c->fetch && rpc_user(conn) == c->fetch; }

void fetch_opened(struct ctl *c, struct rpc_conn *conn)
{
    struct fetch *f = c->fetch;

    f->is_dialling = false;
    f->conn = conn;
    if (rpc_identity(conn)->role != SPUR_ROLE_CONTROLLER)
        rpc_close(conn, "no controller");
    else
        fetch_ask(f);
}

void fetch_closed(struct ctl *c, const struct spur_error *why)
{
    struct fetch *f = c->fetch;

    f->is_dialling = false;
    f->conn = NULL;
    if (f->got) {
        log_line(SPUR_LOG_INFO, "%zu of %zu missing scripts and environments came from another controller", f->got, f->count);
        f->pause_ms = FETCH_AGAIN_MS;
        if (c->is_live)
            effects_reemit(c);      /* launches that waited for them */
    } else if (why && why->code) {
        log_line(SPUR_LOG_DEBUG, "missing scripts: %s", why->text);
    }
    fetch_later(f);
}

void fetch_message(struct ctl *c, const struct frame *m, const uint8_t *body)
{
    struct fetch *f = c->fetch;
    struct arena a;
    const Wire__Blob *b;
    uint8_t check[32];

    if (!f->in_flight || m->seq == 0 || m->seq > f->next)
        return;
    f->in_flight--;
    arena_init(&a, 0);
    if (m->type == WIRE__MESSAGE_TYPE__SCRIPT_TEXT && (b = wire_unpack_bounded(&wire__blob__descriptor, body, m->length, &a))) {
        crypto_generichash(check, 32, b->data.data, b->data.len, NULL, 0);
        if (memcmp(check, f->missing[m->seq - 1], 32) == 0) {
            blobs_put(c, check, b->data.data, b->data.len);
            f->got++;
        }
    }
    arena_fini(&a);
    if (f->conn)
        fetch_ask(f);
}

void fetch_create(struct ctl *c)
{
    c->fetch = mem_alloc(sizeof *c->fetch);
    c->fetch->ctl = c;
    c->fetch->pause_ms = FETCH_AGAIN_MS;
    uv_timer_init(c->loop, &c->fetch->timer);
    c->fetch->timer.data = c->fetch;
}

static void fetch_free(uv_handle_t *h)
{
    struct fetch *f = h->data;

    free(f->missing);
    free(f);
}

/* After rpc_destroy: no callback comes any more. */
void fetch_destroy(struct ctl *c)
{
    if (c->fetch)
        uv_close((uv_handle_t *)&c->fetch->timer, fetch_free);
    c->fetch = NULL;
}
