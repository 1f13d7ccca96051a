/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - a bounded queue of pointers from one thread to one other, without a lock: a thread that is stopped in the middle of a call holds up nobody.
 *
 * The producer writes the slot, then moves `tail` (release); the consumer sees `tail` (acquire), takes the slot, then moves `head`. Waking is the caller's.
 */
#ifndef RAFT_RING_H
#define RAFT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct ring {
    _Alignas(64) atomic_size_t head;    /* moved by the consumer */
    _Alignas(64) atomic_size_t tail;    /* moved by the producer */
    size_t size;                        /* a power of two */
    void **slots;
};

static inline bool ring_init(struct ring *r, size_t size)
{
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    r->size = size;
    r->slots = calloc(size, sizeof *r->slots);
    return r->slots != NULL;
}

static inline void ring_fini(struct ring *r)
{
    free(r->slots);
    r->slots = NULL;
}

static inline bool ring_put(struct ring *r, void *item)      /* producer; false: full */
{
    size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

    if (tail - atomic_load_explicit(&r->head, memory_order_acquire) == r->size)
        return false;
    r->slots[tail & (r->size - 1)] = item;
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

static inline void *ring_take(struct ring *r)                /* consumer; NULL: empty */
{
    size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    void *item;

    if (head == atomic_load_explicit(&r->tail, memory_order_acquire))
        return NULL;
    item = r->slots[head & (r->size - 1)];
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return item;
}

#endif
