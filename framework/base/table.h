/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - hash tables from a 64-bit number or a text to a pointer. Walk order is insertion order (never hash order),
 * so that replicas agree. Keys of text are borrowed: they must live as long as the entry. Values are never NULL. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_slot;
struct table {
    struct table_slot *slots;   /* in insertion order, with holes */
    uint64_t *index;            /* open addressing into slots: number + 1, and half of the hash */
    size_t used, live, index_size;
};

void   table_init(struct table *t);
void   table_fini(struct table *t);                     /* values are the caller's */
size_t table_count(const struct table *t);
void  *table_get(const struct table *t, uint64_t key);
void   table_put(struct table *t, uint64_t key, void *value);      /* replaces */
void   table_add(struct table *t, uint64_t key, void *value);      /* the caller knows that this key is not there */
void   table_reserve(struct table *t, size_t count);               /* room for so many entries in all */
void  *table_del(struct table *t, uint64_t key);                   /* returns the value, or NULL */
void  *table_get_text(const struct table *t, const char *key);
void   table_put_text(struct table *t, const char *key, void *value);
void  *table_del_text(struct table *t, const char *key);
/* for (size_t i = 0; (v = table_next(t, &i)); ) ... ; deleting the current entry while walking is allowed. */
void  *table_next(const struct table *t, size_t *cursor);

#endif
