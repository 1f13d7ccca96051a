/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - clients with one request each at a time: they repeat it, with its token, anywhere, until somebody answers; between requests they read.
 *
 * A read that was granted must show everything that any client had been told before it was asked for.
 */
#include <string.h>

#include "cluster.h"

static void wake(void *arg, uint64_t number, void *data);

static unsigned somebody(struct cluster *c)
{
    return (unsigned)sim_random_below(&c->random, c->member_count);
}

static void ask(struct client *k)
{
    struct cluster *c = k->c;
    struct letter *l = letter_of(&(struct raft_message){ .type = 0 });

    l->kind = LETTER_REQUEST;
    l->op = k->op;
    l->client = k->number;
    l->request = ++k->request;
    l->is_read = k->is_reading;
    k->asked = k->leader_hint != NOBODY ? k->leader_hint : somebody(c);
    letter_send(c, MEMBERS + k->number, k->asked, l);
    sim_events_add(&c->events, now_us(c) + 150 * MS + sim_random_below(&c->random, 700 * MS), wake, k, k->request, NULL, NULL);
}

static void think(struct client *k)
{
    struct cluster *c = k->c;

    k->op = NOBODY;
    k->is_reading = false;
    sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, c->think_us), wake, k, ++k->request, NULL, NULL);
}

static bool new_op(struct client *k)
{
    struct cluster *c = k->c;
    struct op *o;
    uint64_t what = sim_random_below(&c->random, 10), bytes;

    if (c->op_count == OPS)
        return false;
    k->op = c->op_count;
    o = &c->ops[c->op_count++];
    *o = (struct op){ .kind = what < 6 ? OP_SUBMIT : what < 8 ? OP_ARRAY : OP_CANCEL, .client = k->number, .invoked_us = now_us(c),
                      .tasks = 2 + (uint32_t)sim_random_below(&c->random, 6), .token_wall_ms = sim_clock_us(&k->wall, now_us(c)) / 1000 };
    memcpy(o->token, &k->op, 4);
    bytes = sim_random_next(&c->random);
    memcpy(o->token + 4, &bytes, 8);
    if (o->kind == OP_CANCEL)
        for (uint32_t i = k->op; i-- > 0 && !o->target; )
            if (c->ops[i].client == k->number && c->ops[i].kind != OP_CANCEL && c->ops[i].is_done && !c->ops[i].code)
                o->target = c->ops[i].job_id;
    if (o->kind == OP_CANCEL && !o->target)
        o->kind = OP_SUBMIT;
    return true;
}

/* The time to think is over, or nobody has answered. */
static void wake(void *arg, uint64_t number, void *data)
{
    struct client *k = arg;
    struct cluster *c = k->c;

    (void)data;
    if (number != k->request)
        return;
    if (k->is_reading) {
        if (c->is_calm || sim_random_below(&c->random, 4) == 0) {
            think(k);           /* gives up */
            return;
        }
        k->leader_hint = NOBODY;
    } else if (k->op != NOBODY) {
        if (k->is_told)
            k->is_told = false;         /* he said whom to ask */
        else
            k->leader_hint = NOBODY;
    } else if (c->is_calm) {
        return;
    } else if (sim_random_below(&c->random, 4) == 0) {
        k->is_reading = true;
        k->read_floor = c->truth.acknowledged;
    } else if (!new_op(k)) {
        return;
    }
    ask(k);
}

void client_receive(struct client *k, const struct letter *l)
{
    struct cluster *c = k->c;
    struct op *o;

    if (l->is_read) {
        if (!k->is_reading || l->request != k->request)
            return;
        if (l->index < k->read_floor)
            fail(c, "linearizable: client %u reads at index %llu, it had been told of %llu", k->number, (unsigned long long)l->index, (unsigned long long)k->read_floor);
        c->reads++;
        think(k);
        return;
    }
    if (k->op == NOBODY || l->op != k->op)
        return;
    if (l->code == SPUR_ENOTLEADER || l->code == SPUR_EBUSY || l->code == SPUR_ELIMIT) {
        k->leader_hint = l->hint;
        k->is_told = true;
        sim_events_add(&c->events, now_us(c) + sim_random_tail(&c->random, 20 * MS), wake, k, ++k->request, NULL, NULL);
        return;
    }
    o = &c->ops[k->op];
    o->is_done = true;
    o->code = l->code;
    o->job_id = l->job_id;
    o->done_us = now_us(c);
    if (!l->code) {
        c->acknowledged++;
        if (l->index > c->truth.acknowledged)
            c->truth.acknowledged = l->index;
        if (!o->applied_at || o->applied_job != l->job_id)
            fail(c, "client %u is told job %u for request %u, the log says %u", k->number, l->job_id, k->op, o->applied_job);
    }
    think(k);
}

void client_start(struct cluster *c, unsigned number)
{
    struct client *k = &c->clients[number];

    *k = (struct client){ .c = c, .number = number, .leader_hint = NOBODY };
    sim_clock_set(&k->wall, now_us(c), INT64_C(1700000000) * SECOND + (int64_t)sim_random_below(&c->random, 1200ull * SECOND), 0);
    think(k);
}

bool clients_are_done(const struct cluster *c)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        if (c->clients[i].op != NOBODY)
            return false;
    return true;
}
