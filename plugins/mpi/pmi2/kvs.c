/* SPDX-License-Identifier: Apache-2.0 */
/* kvs.c - a table of texts by text, open addressing, at most half full. */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

static size_t hash(const char *key)
{
    uint64_t h = UINT64_C(1469598103934665603);

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * UINT64_C(1099511628211);
    return (size_t)(h ^ h >> 32);
}

static struct kvs_entry *find(const struct kvs *k, const char *key)
{
    size_t i = hash(key) & (k->room - 1);

    while (k->slots[i].key && strcmp(k->slots[i].key, key))
        i = (i + 1) & (k->room - 1);
    return &k->slots[i];
}

void kvs_free(struct kvs *k)
{
    for (size_t i = 0; i < k->room; i++) {
        free(k->slots[i].key);
        free(k->slots[i].value);
    }
    free(k->slots);
    memset(k, 0, sizeof *k);
}

static int grow(struct kvs *k)
{
    struct kvs bigger = { .room = k->room ? k->room * 2 : 64, .count = k->count };

    if (!(bigger.slots = calloc(bigger.room, sizeof *bigger.slots)))
        return SPUR_ENOMEM;
    for (size_t i = 0; i < k->room; i++)
        if (k->slots[i].key)
            *find(&bigger, k->slots[i].key) = k->slots[i];
    free(k->slots);
    *k = bigger;
    return 0;
}

int kvs_put(struct kvs *k, const char *key, const char *value)
{
    char *copy = strdup(value);
    struct kvs_entry *e;

    if (!copy || (2 * (k->count + 1) > k->room && grow(k) < 0)) {
        free(copy);
        return SPUR_ENOMEM;
    }
    e = find(k, key);
    if (!e->key) {
        if (!(e->key = strdup(key))) {
            free(copy);
            return SPUR_ENOMEM;
        }
        k->count++;
    }
    free(e->value);
    e->value = copy;
    return 0;
}

const char *kvs_get(const struct kvs *k, const char *key) { return k->room ? find(k, key)->value : NULL; }

void kvs_drop(struct kvs *k, const char *key)
{
    struct kvs_entry *e = k->room ? find(k, key) : NULL;

    if (!e || !e->key)
        return;
    free(e->key);
    free(e->value);
    *e = (struct kvs_entry){ 0 };
    k->count--;
    /* whoever was pushed behind it by a collision moves up */
    for (size_t i = ((size_t)(e - k->slots) + 1) & (k->room - 1); k->slots[i].key; i = (i + 1) & (k->room - 1)) {
        struct kvs_entry moved = k->slots[i];

        k->slots[i] = (struct kvs_entry){ 0 };
        *find(k, moved.key) = moved;
    }
}

const struct kvs_entry *kvs_at(const struct kvs *k, size_t *from)
{
    for (; *from < k->room; ++*from)
        if (k->slots[*from].key)
            return &k->slots[*from];
    return NULL;
}
