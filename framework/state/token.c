/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - exactly once: the answers to requests, kept by the token each carried.
 *
 * Kept for 1,000,000 tokens or 24 hours, whichever ends first. What was dropped is remembered as one time, the floor: a token born no
 * later may have been among them, so a request with it is refused, never run again. Tokens stand in a ring in the order they came;
 * a table leads from half of a token to its place, with the next key taken when another token sits there.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

#define TOKENS_MAX 1000000u
#define TOKEN_LIFE_MS (24 * 3600 * 1000ll)

static uint64_t token_key(const uint8_t bytes[16])
{
    uint64_t a, b;

    memcpy(&a, bytes, 8);
    memcpy(&b, bytes + 8, 8);
    return a ^ (b << 1 | b >> 63);
}

static struct token *token_at(const struct state_private *p, uint64_t number)
{
    return &p->tokens[number % p->token_room];
}

/* Table values are numbers + 1: a table has no value 0. */
struct token *token_find(const struct state *s, const uint8_t bytes[16])
{
    for (uint64_t key = token_key(bytes), tries = 0; tries < 64; key++, tries++) {
        uintptr_t at = (uintptr_t)table_get(&s->tokens, key);
        struct token *t;

        if (!at)
            return NULL;
        t = token_at(s->priv, at - 1);
        if (!memcmp(t->bytes, bytes, 16))
            return t;
    }
    return NULL;
}

static void token_drop_first(struct state *s)
{
    struct state_private *p = s->priv;
    struct token *t = token_at(p, p->token_first);
    int64_t until = t->born_wall_ms > t->wall_ms ? t->born_wall_ms : t->wall_ms;

    for (uint64_t key = token_key(t->bytes), tries = 0; tries < 64; key++, tries++)
        if ((uintptr_t)table_get(&s->tokens, key) == p->token_first + 1) {
            uint64_t hole = key;

            table_del(&s->tokens, key);
            while (table_get(&s->tokens, ++key)) {      /* who was pushed aside by it moves up, so that no search ends at the hole */
                uintptr_t at = (uintptr_t)table_get(&s->tokens, key);
                uint64_t home = token_key(token_at(p, at - 1)->bytes);

                if (key - home >= key - hole) {
                    table_del(&s->tokens, key);
                    table_put(&s->tokens, hole, (void *)at);
                    hole = key;
                }
            }
            break;
        }
    if (until > p->token_floor_ms)
        p->token_floor_ms = until;
    p->token_first++;
}

void token_expire(struct state *s)
{
    struct state_private *p = s->priv;

    while (p->token_first < p->token_next &&
           (p->token_next - p->token_first >= TOKENS_MAX || token_at(p, p->token_first)->wall_ms + TOKEN_LIFE_MS < s->wall_ms))
        token_drop_first(s);
}

void token_add(struct state *s, const uint8_t bytes[16], int64_t born_wall_ms, uint32_t job_id, uint32_t step_id)
{
    struct state_private *p = s->priv;
    uint64_t count = p->token_next - p->token_first, key = token_key(bytes), tries = 0;

    if (count == p->token_room) {
        uint64_t room = p->token_room ? 2 * p->token_room : 64;
        struct token *ring = mem_array(room, sizeof *ring);

        for (uint64_t n = p->token_first; n < p->token_next; n++)
            ring[n % room] = *token_at(p, n);
        free(p->tokens);
        p->tokens = ring;
        p->token_room = room;
    }
    while (table_get(&s->tokens, key) && ++tries < 64)
        key++;
    if (tries == 64)
        return;     /* 64 neighbours taken: not by chance; this client gets no protection from its own repeats */
    struct token *t = token_at(p, p->token_next);
    memcpy(t->bytes, bytes, 16);
    t->wall_ms = s->wall_ms;
    t->born_wall_ms = born_wall_ms;
    t->job_id = job_id;
    t->step_id = step_id;
    table_add(&s->tokens, key, (void *)(uintptr_t)(++p->token_next));
}

/* Room for so many in all, before a snapshot brings them. */
void token_reserve(struct state *s, uint32_t count)
{
    struct state_private *p = s->priv;
    uint64_t room = 64;

    if (p->token_next || count > TOKENS_MAX)
        return;
    while (room < count)
        room *= 2;
    free(p->tokens);
    p->tokens = mem_array(room, sizeof *p->tokens);
    p->token_room = room;
    table_reserve(&s->tokens, count);
}

int state_token(const struct state *s, const uint8_t token[16], int64_t token_wall_ms, struct op_result *out)
{
    const struct token *t = token_find(s, token);

    memset(out, 0, sizeof *out);
    if (t) {
        out->job_id = t->job_id;
        out->step_id = t->step_id;
        out->repeated = true;
        return 1;
    }
    return token_wall_ms <= s->priv->token_floor_ms ? SPUR_ESTALE : 0;
}
