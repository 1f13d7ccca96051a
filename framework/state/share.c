/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - texts and lists of numbers that many jobs have in common (user, group, groups, partition): one copy with a count of users.
 *
 * What is handed out is the data itself, so readers see plain texts; the count stands in front of it.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

struct shared { uint64_t users; char *key; char data[]; };     /* key: "t" and the text, or "n" and the numbers printed */

static struct shared *shared_of(const void *data)
{
    return (struct shared *)(void *)((char *)(uintptr_t)data - offsetof(struct shared, data));
}

static void *share(struct state *s, const char *key, const void *data, size_t size)
{
    struct shared *h = table_get_text(&s->priv->shared, key);

    if (!h) {
        h = mem_alloc(sizeof *h + size);
        h->key = mem_copy(key);
        memcpy(h->data, data, size);
        table_put_text(&s->priv->shared, h->key, h);
    }
    h->users++;
    return h->data;
}

char *share_text(struct state *s, const char *text)
{
    struct str key;
    char *shared;

    if (!text || !*text)
        return NULL;
    str_init(&key);
    str_add_char(&key, 't');
    str_add(&key, text);
    shared = share(s, key.text, text, strlen(text) + 1);
    str_fini(&key);
    return shared;
}

uint32_t *share_numbers(struct state *s, const uint32_t *numbers, uint32_t count)
{
    struct str key;
    uint32_t *shared;

    if (!count)
        return NULL;
    str_init(&key);
    str_add_char(&key, 'n');
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = numbers[i];

        do {
            str_add_char(&key, (char)('0' + n % 10));       /* the key is read by nobody: last digit first */
        } while (n /= 10);
        str_add_char(&key, ',');
    }
    shared = share(s, key.text, numbers, count * sizeof *numbers);
    str_fini(&key);
    return shared;
}

void *share_more(void *shared)
{
    if (shared)
        shared_of(shared)->users++;
    return shared;
}

void share_drop(struct state *s, const void *shared)
{
    struct shared *h = shared ? shared_of(shared) : NULL;

    if (!h || --h->users)
        return;
    table_del_text(&s->priv->shared, h->key);
    free(h->key);
    free(h);
}

void share_set(struct state *s, char **to, const char *text)
{
    char *old = *to;

    *to = share_text(s, text);
    share_drop(s, old);
}
