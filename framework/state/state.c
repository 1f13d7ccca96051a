/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - the tree that owns everything replicated: made empty, looked into, torn down. */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

struct state *state_create(void)
{
    struct state *s = mem_alloc(sizeof *s);

    s->priv = mem_alloc(sizeof *s->priv);
    table_init(&s->jobs);
    table_init(&s->tokens);
    table_init(&s->priv->dependents);
    table_init(&s->priv->names);
    table_init(&s->priv->ended);
    table_init(&s->priv->blobs);
    table_init(&s->priv->shared);
    table_init(&s->priv->devices);
    s->next_job_id = 1;
    s->priv->cr = SPUR_CR_CORE;
    s->priv->cores_whole = true;
    return s;
}

void state_destroy(struct state *s)
{
    struct list32 *l;
    struct job *j;

    if (!s)
        return;
    for (size_t at = 0; (j = table_next(&s->jobs, &at)); )
        job_destroy(s, j);
    for (size_t at = 0; (l = table_next(&s->priv->dependents, &at)); ) {
        list32_fini(l);
        free(l);
    }
    blobs_fini(s);
    view_free(s);
    for (uint32_t i = 0; i < s->node_count; i++)
        node_record_fini(s, &s->nodes[i]);
    free(s->nodes);
    mesh_hosts_free(s);
    for (size_t i = 0; i < s->priv->partition_update_count; i++)
        wire__partition_update_request__free_unpacked(s->priv->partition_updates[i], NULL);
    free(s->priv->partition_updates);
    if (s->accounts)
        wire__accounts__free_unpacked(s->accounts, NULL);
    config_free(s->config);
    table_fini(&s->jobs);
    table_fini(&s->tokens);
    table_fini(&s->priv->dependents);
    table_fini(&s->priv->names);
    table_fini(&s->priv->shared);
    table_fini(&s->priv->devices);
    table_fini(&s->priv->ended);
    free(s->priv->tokens);
    free(s->priv);
    free(s);
}

struct node *state_node(const struct state *s, const char *name)
{
    const struct config_node *conf = s->config && name ? config_node_find(s->config, name) : NULL;
    ptrdiff_t i = conf ? conf - s->config->nodes : -1;

    return i >= 0 && (uint32_t)i < s->node_count ? &s->nodes[i] : NULL;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

uint32_t *state_jobs_on(const struct node *n, struct arena *a, uint32_t *count)
{
    uint32_t *ids = arena_alloc(a, (n->jobs + 1u) * sizeof *ids);

    *count = n->jobs;
    if (n->jobs)
        memcpy(ids, n->job_ids, n->jobs * sizeof *ids);
    qsort(ids, n->jobs, sizeof *ids, by_id);
    return ids;
}
