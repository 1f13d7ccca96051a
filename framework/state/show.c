/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - nodes and partitions as people see them: what sinfo counts with, and scontrol's KEY=VALUE pairs in its order. */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "state/private.h"
#include "wire/unpack.h"

#define SHOW(m, field, value) do { (m)->has_##field = 1; (m)->field = (value); } while (0)

static char *arena_take(struct arena *a, struct str *s)
{
    char *text = s->len ? arena_copy(a, s->text) : NULL;

    str_fini(s);
    return text;
}

static void print_cpu_mem(uint64_t cpus, uint64_t mem_mib, struct str *out)
{
    if (cpus)
        str_addf(out, "cpu=%llu", (unsigned long long)cpus);
    if (mem_mib) {
        str_add(out, out->len ? ",mem=" : "mem=");
        mebibytes_print(mem_mib, out);
    }
}

/* One row a name, types added up: ",gres/gpu=8". */
static void print_gres(const struct node *n, bool used, struct str *out)
{
    for (uint32_t i = 0; i < n->gres_count; i++) {
        uint64_t sum = 0;
        bool first = true;

        for (uint32_t k = 0; k < n->gres_count; k++)
            if (word_eq(n->gres[k].name, n->gres[i].name)) {
                first &= k >= i;
                sum += used ? n->gres[k].used : n->gres[k].total;
            }
        if (first && (sum || !used))
            str_addf(out, "%sgres/%s=%llu", out->len ? "," : "", n->gres[i].name, (unsigned long long)sum);
    }
}

static char *gres_used(const struct node *n, struct arena *a)
{
    struct str out;

    str_init(&out);
    for (uint32_t i = 0; i < n->gres_count; i++) {
        const struct node_gres *g = &n->gres[i];

        str_addf(&out, "%s%s%s%s:%llu", i ? "," : "", g->name, g->type ? ":" : "", g->type ? g->type : "", (unsigned long long)g->used);
        if (g->all_mask) {
            struct bitmap held = { 64, (uint64_t *)&g->used_mask };

            str_add(&out, "(IDX:");
            if (g->used_mask)
                bitmap_print(&held, &out);
            else
                str_add(&out, "N/A");
            str_add_char(&out, ')');
        }
    }
    return arena_take(a, &out);
}

static char *partitions_of(const struct state *s, const struct node *n, struct arena *a)
{
    struct str out;

    str_init(&out);
    for (size_t i = 0; i < s->config->partition_count; i++)
        if (bitmap_test(&s->config->partitions[i].nodes, n->index))
            str_addf(&out, "%s%s", out.len ? "," : "", s->config->partitions[i].name);
    return arena_take(a, &out);
}

static void fill_devices(const struct state *s, const struct node *n, Wire__NodeInfo *m, struct arena *a)
{
    const struct spur_device_table *table = devices_table(n->devices);

    for (uint32_t i = 0; i < n->gres_count; i++)
        if (word_eq(n->gres[i].name, "gpu")) {
            SHOW(m, gpu_mask, m->gpu_mask | n->gres[i].all_mask);
            SHOW(m, gpu_held, m->gpu_held | n->gres[i].used_mask);
            m->gpu_type = n->gres[i].type && !m->gpu_type ? n->gres[i].type : m->gpu_type;
        }
    if (table) {
        size_t size;
        const uint8_t *packed = devices_packed(n->devices, &size);

        SHOW(m, device_type, table->id);
        m->devices = wire_unpack(&wire__device_table__descriptor, packed, size, a);
    }
    m->fabric = n->fabric;
    if (n->conf->leaf >= 0 && (size_t)n->conf->leaf < s->config->switch_count)
        m->leaf = s->config->switches[n->conf->leaf].name;
}

Wire__NodeInfo *node_info(const struct state *s, const struct node *n, uint64_t fields, struct arena *a)
{
    Wire__NodeInfo *m = arena_alloc(a, sizeof *m);
    const struct config_node *c = n->conf;
    const char *features = n->features ? n->features : c->features;
    struct str text;

    wire__node_info__init(m);
    m->name = c->name;
    SHOW(m, state, node_state_now(n));
    SHOW(m, state_flags, node_flags_now(n));
    SHOW(m, cpus, c->cpus);
    SHOW(m, cpus_alloc, n->cpus_used);
    m->partitions = partitions_of(s, n, a);
    if (fields & NODE_FIELD_DEVICES)
        fill_devices(s, n, m, a);
    if (!(fields & NODE_FIELD_DETAILS))
        return m;
    m->addr = n->addr ? n->addr : c->addr ? c->addr : c->name;
    m->hostname = n->hostname ? n->hostname : c->hostname ? c->hostname : c->name;
    SHOW(m, port, c->port);
    SHOW(m, boards, c->boards);
    SHOW(m, sockets, c->sockets);
    SHOW(m, cores_per_socket, c->cores_per_socket);
    SHOW(m, threads_per_core, c->threads_per_core);
    SHOW(m, mem_mib, c->mem_mib);
    SHOW(m, mem_alloc_mib, n->mem_used);
    if (n->mem_free_mib)
        SHOW(m, mem_free_mib, n->mem_free_mib);
    SHOW(m, tmp_mib, c->tmp_mib);
    SHOW(m, weight, n->weight);
    m->features = features && *features ? (char *)features : NULL;
    m->gres = c->gres_text;
    m->gres_used = gres_used(n, a);
    m->reason = n->reason;
    m->reason_user = n->reason_user;
    SHOW(m, reason_uid, n->reason_uid);
    SHOW(m, reason_wall_s, n->reason_wall_s);
    m->version = n->version;
    m->os = n->os;
    m->arch = n->arch;
    SHOW(m, boot_wall_s, n->boot_wall_s);
    SHOW(m, agent_start_wall_s, n->agent_start_wall_s);
    SHOW(m, last_busy_wall_s, n->last_busy_wall_s);
    if (n->registered || n->load_hundredths)
        SHOW(m, load_hundredths, n->load_hundredths);
    str_init(&text);
    print_cpu_mem(config_node_usable_cpus(c), c->mem_mib, &text);
    str_addf(&text, ",billing=%u", config_node_usable_cpus(c));
    print_gres(n, false, &text);
    m->cfg_tres = arena_take(a, &text);
    str_init(&text);
    print_cpu_mem(n->cpus_used, n->mem_used, &text);
    print_gres(n, true, &text);
    m->alloc_tres = arena_take(a, &text);
    m->comment = n->comment;
    m->extra = n->extra;
    m->instance_id = n->instance_id;
    m->instance_type = n->instance_type;
    SHOW(m, core_spec, c->core_spec);
    m->cpu_spec_list = c->cpu_spec_list;
    SHOW(m, cpus_usable, config_node_usable_cpus(c));
    SHOW(m, mem_spec_mib, c->mem_spec_mib);
    return m;
}

/* ---- partitions ---- */

struct pairs { Wire__PartitionInfo *m; struct arena *a; size_t room; };

/* One row of config_show_partition, which owns the spelling and the order; only TRES is ours to say. */
static void pair_add(void *arg, const char *key, const char *value)
{
    struct pairs *p = arg;
    Wire__KeyValue *kv = arena_alloc(p->a, sizeof *kv);

    if (p->m->n_show == p->room)
        return;
    wire__key_value__init(kv);
    kv->key = arena_copy(p->a, key);
    kv->value = value ? arena_copy(p->a, value) : p->m->tres;
    p->m->show[p->m->n_show++] = kv;
}

Wire__PartitionInfo *partition_info(const struct state *s, const struct config_partition *c, struct arena *a)
{
    Wire__PartitionInfo *m = arena_alloc(a, sizeof *m);
    struct pairs p = { m, a, 56 };
    uint64_t cpus = 0, usable = 0, mem = 0, gres[16] = { 0 };
    const char *names[16];
    unsigned count = 0;
    uint32_t nodes = 0;
    struct str text;

    for (size_t i = bitmap_first(&c->nodes); i < c->nodes.bits && i < s->node_count; i = bitmap_next(&c->nodes, i)) {
        const struct node *n = &s->nodes[i];

        nodes++;
        cpus += n->conf->cpus;
        usable += config_node_usable_cpus(n->conf);
        mem += n->conf->mem_mib;
        for (uint32_t g = 0; g < n->gres_count; g++) {
            unsigned k = 0;

            while (k < count && !word_eq(names[k], n->gres[g].name))
                k++;
            if (k == count && count < 16)
                names[count++] = n->gres[g].name;
            if (k < 16)
                gres[k] += n->gres[g].total;
        }
    }
    wire__partition_info__init(m);
    m->name = c->name;
    m->nodes = c->nodes_text;
    m->state = c->state;
    SHOW(m, is_default, c->is_default);
    SHOW(m, hidden, c->hidden);
    SHOW(m, max_time_min, c->max_time_min);
    SHOW(m, default_time_min, c->default_time_min);
    SHOW(m, min_nodes, c->min_nodes);
    SHOW(m, max_nodes, c->max_nodes);
    SHOW(m, priority_tier, c->priority_tier);
    SHOW(m, priority_job_factor, c->priority_job_factor);
    m->oversubscribe = c->oversubscribe;
    SHOW(m, root_only, c->root_only);
    m->allow_groups = c->allow_groups;
    m->preempt_mode = c->preempt_mode;
    SHOW(m, total_cpus, (uint32_t)cpus);
    SHOW(m, total_nodes, nodes);
    SHOW(m, max_cpus_per_node, c->max_cpus_per_node);
    m->alloc_nodes = c->alloc_nodes;
    str_init(&text);
    print_cpu_mem(usable, mem, &text);
    if (nodes)
        str_addf(&text, "%snode=%u,billing=%llu", text.len ? "," : "", nodes, (unsigned long long)usable);
    for (unsigned k = 0; k < count; k++)
        str_addf(&text, ",gres/%s=%llu", names[k], (unsigned long long)gres[k]);
    if (!text.len)
        str_add(&text, "(null)");
    m->tres = arena_take(a, &text);
    m->show = arena_alloc(a, p.room * sizeof *m->show);
    config_show_partition(s->config, c, pair_add, &p);
    return m;
}
