/* SPDX-License-Identifier: Apache-2.0 */
/* blob.c - which scripts and environments are named by jobs: a count per hash. The bytes lie in files beside the log. */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

struct blob { uint8_t hash[32]; uint64_t holds; struct blob *next; };      /* next: another hash with the same first bytes */

static uint64_t blob_key(const uint8_t hash[32])
{
    uint64_t key;

    memcpy(&key, hash, sizeof key);
    return key;
}

static struct blob *blob_find(const struct state *s, const uint8_t hash[32])
{
    struct blob *b = table_get(&s->priv->blobs, blob_key(hash));

    while (b && memcmp(b->hash, hash, 32))
        b = b->next;
    return b;
}

const uint8_t *blob_hold(struct state *s, const uint8_t hash[32])
{
    struct blob *first = table_get(&s->priv->blobs, blob_key(hash)), *b = first;

    while (b && memcmp(b->hash, hash, 32))
        b = b->next;
    if (!b) {
        b = mem_alloc(sizeof *b);
        memcpy(b->hash, hash, 32);
        b->next = first;
        if (first)
            table_put(&s->priv->blobs, blob_key(hash), b);
        else
            table_add(&s->priv->blobs, blob_key(hash), b);
    }
    b->holds++;
    return b->hash;
}

void blob_drop(struct doing *d, const uint8_t hash[32])
{
    struct state *s = d->s;
    struct blob *b = blob_find(s, hash), *head;

    if (!b || --b->holds)
        return;
    head = table_get(&s->priv->blobs, blob_key(hash));
    if (head == b) {
        b->next ? table_put(&s->priv->blobs, blob_key(hash), b->next) : (void)table_del(&s->priv->blobs, blob_key(hash));
    } else {
        while (head->next != b)
            head = head->next;
        head->next = b->next;
    }
    tell(d, EV_BLOB_DROPPED, NULL)->hash = arena_copy_bytes(d->arena, hash, 32);
    free(b);
}

bool state_blob_used(const struct state *s, const uint8_t hash[32])
{
    return blob_find(s, hash) != NULL;
}

void state_blobs(const struct state *s, void (*fn)(void *arg, const uint8_t hash[32]), void *arg)
{
    struct blob *b;

    for (size_t at = 0; (b = table_next(&s->priv->blobs, &at)); )
        for (; b; b = b->next)
            fn(arg, b->hash);
}

void blobs_fini(struct state *s)
{
    struct blob *b, *next;

    for (size_t at = 0; (b = table_next(&s->priv->blobs, &at)); )
        for (; b; b = next) {
            next = b->next;
            free(b);
        }
    table_fini(&s->priv->blobs);
}
