/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_entry.c - arbitrary bytes as log entries on a small state: apply must answer whatever comes, and keep its sums.
 *
 * The input is a row of pieces, each with its length in front (u16, little-endian): one packed Entry each. After them the state is
 * saved and loaded, and the digests must agree.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "state/apply.h"

struct pipe { uint8_t *data; size_t len, at, room; };

static long pipe_write(void *arg, const void *data, size_t n)
{
    struct pipe *p = arg;

    if (p->len + n > p->room)
        p->data = mem_grow(p->data, p->room = 2 * (p->len + n), 1);
    memcpy(p->data + p->len, data, n);
    p->len += n;
    return (long)n;
}

static long pipe_read(void *arg, void *data, size_t n)
{
    struct pipe *p = arg;

    n = n < p->len - p->at ? n : p->len - p->at;
    memcpy(data, p->data + p->at, n);
    p->at += n;
    return (long)n;
}

/* Everything people can ask to see of it. */
static void look(struct state *s)
{
    const struct job *j;
    struct arena a;

    arena_init(&a, 0);
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        job_info(s, j, ~UINT64_C(0), s->wall_ms / 1000, &a);
        array_next_task(s, j);
        for (const struct step *st = j->steps; st; st = st->next)
            step_info(s, j, st, s->wall_ms / 1000, &a);
    }
    for (uint32_t i = 0; i < s->node_count; i++)
        node_info(s, &s->nodes[i], NODE_FIELD_DETAILS, &a);
    for (size_t i = 0; i < s->config->partition_count; i++)
        partition_info(s, &s->config->partitions[i], &a);
    state_view(s);
    arena_fini(&a);
}

static void check_sums(const struct state *s)
{
    const struct job *j;
    uint32_t held = 0, used = 0;

    for (size_t at = 0; (j = table_next(&s->jobs, &at)); )
        for (uint32_t i = 0; j->state != JOB_PENDING && i < j->alloc_count; i++)
            held += !j->allocs[i].gone && j->allocs[i].node != NODE_REMOVED ? j->allocs[i].cpus : 0;
    for (uint32_t i = 0; i < s->node_count; i++)
        used += s->nodes[i].cpus_used;
    FUZZ_HOLDS(held == used);
}

int fuzz_one(const uint8_t *data, size_t n)
{
    struct state *s = state_from_text("node n1 cpus 4 gpus 2; node n2 cpus 4; job 1 pending; job 2 running n1 cores 0 gpus 0; job 3 pending array 0-3; job 4 pending dependency afterok:1"),
                 *copy = NULL;
    struct pipe p = { 0 };
    struct spur_error err;
    uint8_t a[32], b[32];

    for (size_t at = 0; at + 2 <= n; ) {
        size_t len = (size_t)data[at] | (size_t)data[at + 1] << 8;
        struct applied out;
        struct arena arena;

        at += 2;
        len = len < n - at ? len : n - at;
        arena_init(&arena, 0);
        apply_bytes(s, s->index + 1, data + at, len, &arena, &out, &err);
        arena_fini(&arena);
        check_sums(s);
        look(s);
        at += len;
    }
    FUZZ_HOLDS(state_save(s, pipe_write, &p, &err) == 0);
    FUZZ_HOLDS(state_load(&copy, pipe_read, &p, &err) == 0);
    state_digest(s, a);
    state_digest(copy, b);
    FUZZ_HOLDS(!memcmp(a, b, 32));
    state_destroy(s);
    state_destroy(copy);
    free(p.data);
    return 0;
}
