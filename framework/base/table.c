/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - hash tables that remember the order of insertion.
 *
 * Entries stand in `slots` in the order they came; `index` is an open-addressing table of slot numbers + 1, each with the upper half of
 * its hash, so that a search looks into the one slot it wants: with a million entries each look is a miss of the cache. A deleted
 * entry leaves a hole (no value) in its slot, and its index cell goes on pointing at the hole so that probing still
 * passes it. When the slots are full, holes are squeezed out and the index is made anew: never in table_del, so a walk
 * may delete. Hashes are keyed with an address of this process (the loader moves it at each start), because names in
 * the tables come from outside and must not be choosable so that all collide; walk order does not depend on them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/table.h"

struct table_slot {
    uint64_t    key;    /* the number, or the hash of the text */
    const char *text;   /* NULL for numbers */
    void       *value;  /* NULL: a hole */
};

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t secret(void)
{
    return (uint64_t)(uintptr_t)&fold ^ UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t hash_text(const char *text)
{
    size_t len = strlen(text);
    uint64_t h = secret() ^ len, word;

    for (; len >= 8; len -= 8, text += 8) {
        memcpy(&word, text, 8);
        h = fold(h ^ word, UINT64_C(0xa0761d6478bd642f));
    }
    word = 0;
    memcpy(&word, text, len);
    return fold(h ^ word, UINT64_C(0xe7037ed1a0b428db));
}

void table_init(struct table *t)
{
    *t = (struct table){ 0 };
}

void table_fini(struct table *t)
{
    free(t->slots);
    free(t->index);
    table_init(t);
}

size_t table_count(const struct table *t)
{
    return t->live;
}

static size_t table_capacity(const struct table *t)
{
    return t->index_size / 4 * 3;
}

static uint64_t table_hash(uint64_t key)
{
    return fold(key ^ secret(), UINT64_C(0x8ebc6af09c88c6e3));
}

#define HALF UINT64_C(0xffffffff00000000)

static struct table_slot *table_find(const struct table *t, uint64_t key, const char *text)
{
    size_t mask = t->index_size - 1;
    uint64_t hash = table_hash(key);

    if (!t->live)
        return NULL;
    for (size_t i = hash & mask; t->index[i]; i = (i + 1) & mask) {
        struct table_slot *slot;

        if ((t->index[i] ^ hash) & HALF)
            continue;
        slot = &t->slots[(t->index[i] & ~HALF) - 1];
        if (slot->value && slot->key == key && (text ? slot->text && !strcmp(slot->text, text) : !slot->text))
            return slot;
    }
    return NULL;
}

static void table_enter(struct table *t, size_t number)
{
    uint64_t hash = table_hash(t->slots[number].key);
    size_t mask = t->index_size - 1, i = hash & mask;

    while (t->index[i])
        i = (i + 1) & mask;
    t->index[i] = (hash & HALF) | (number + 1);
}

static void table_resize(struct table *t, size_t size)
{
    t->slots = mem_grow(t->slots, size / 4 * 3, sizeof *t->slots);
    t->index = mem_grow(t->index, size, sizeof *t->index);
    t->index_size = size;
}

/* Makes room: squeezes out holes; twice the size unless half of the slots were holes. */
static void table_rebuild(struct table *t)
{
    size_t size = t->index_size ? t->index_size : 8, kept = 0;

    if (t->live >= table_capacity(t) / 2 && t->index_size)
        size *= 2;
    for (size_t i = 0; i < t->used; i++)
        if (t->slots[i].value)
            t->slots[kept++] = t->slots[i];
    t->used = kept;
    if (size != t->index_size)
        table_resize(t, size);
    memset(t->index, 0, size * sizeof *t->index);
    for (size_t i = 0; i < t->used; i++)
        table_enter(t, i);
}

void table_reserve(struct table *t, size_t count)
{
    size_t size = t->index_size ? t->index_size : 8;

    while (size / 4 * 3 < count + (t->used - t->live))
        size *= 2;
    if (size == t->index_size)
        return;
    table_resize(t, size);
    memset(t->index, 0, size * sizeof *t->index);
    for (size_t i = 0; i < t->used; i++)
        table_enter(t, i);
}

static void table_append(struct table *t, uint64_t key, const char *text, void *value)
{
    if (!value)
        abort();    /* a hole that claims to be an entry: a bug of the caller */
    if (t->used == table_capacity(t))
        table_rebuild(t);
    t->slots[t->used] = (struct table_slot){ key, text, value };
    table_enter(t, t->used++);
    t->live++;
}

static void table_store(struct table *t, uint64_t key, const char *text, void *value)
{
    struct table_slot *slot = table_find(t, key, text);

    if (!slot || !value) {
        table_append(t, key, text, value);
        return;
    }
    slot->text = text;
    slot->value = value;
}

void table_add(struct table *t, uint64_t key, void *value)
{
    table_append(t, key, NULL, value);
}

static void *table_drop(struct table *t, struct table_slot *slot)
{
    void *value = slot ? slot->value : NULL;

    if (slot) {
        slot->value = NULL;
        t->live--;
    }
    return value;
}

void *table_get(const struct table *t, uint64_t key)
{
    struct table_slot *slot = table_find(t, key, NULL);

    return slot ? slot->value : NULL;
}

void table_put(struct table *t, uint64_t key, void *value)
{
    table_store(t, key, NULL, value);
}

void *table_del(struct table *t, uint64_t key)
{
    return table_drop(t, table_find(t, key, NULL));
}

void *table_get_text(const struct table *t, const char *key)
{
    struct table_slot *slot = t->live ? table_find(t, hash_text(key), key) : NULL;

    return slot ? slot->value : NULL;
}

void table_put_text(struct table *t, const char *key, void *value)
{
    table_store(t, hash_text(key), key, value);
}

void *table_del_text(struct table *t, const char *key)
{
    return table_drop(t, table_find(t, hash_text(key), key));
}

void *table_next(const struct table *t, size_t *cursor)
{
    while (*cursor < t->used) {
        void *value = t->slots[(*cursor)++].value;

        if (value)
            return value;
    }
    return NULL;
}
