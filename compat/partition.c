/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - partitions as Slurm's clients read them. What the wire has no field of its own for is read from the pairs of `show partition`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "compat.h"

struct partitions {
    partition_info_msg_t msg;       /* first: what the caller has */
    struct arena         arena;
    size_t               room;
    uint16_t             show;
    const struct places *places;
};

static const char *shown(const Wire__PartitionInfo *p, const char *key)
{
    for (size_t i = 0; i < p->n_show; i++)
        if (!strcmp(p->show[i]->key, key))
            return p->show[i]->value;
    return NULL;
}

/* A text of `show partition`, NULL for the words that mean none. */
static char *shown_text(const Wire__PartitionInfo *p, const char *key, struct arena *a)
{
    const char *value = shown(p, key);

    return !value || !strcmp(value, "ALL") || !strcmp(value, "N/A") || !strcmp(value, "NONE") || !strcmp(value, "(null)") ? NULL : text_of(a, value);
}

static uint32_t shown_number(const Wire__PartitionInfo *p, const char *key, uint32_t none, uint32_t unlimited)
{
    const char *value = shown(p, key);
    uint32_t n;

    return value && word_eq(value, "UNLIMITED") ? unlimited : value && number_u32(value, &n) ? n : none;
}

static uint64_t shown_memory(const Wire__PartitionInfo *p, const char *by_cpu, const char *by_node)
{
    const char *value;
    uint64_t mib;

    if ((value = shown(p, by_cpu)) && number_u64(value, &mib))
        return mib | MEM_PER_CPU;
    return (value = shown(p, by_node)) && number_u64(value, &mib) ? mib : 0;
}

static bool is_yes(const Wire__PartitionInfo *p, const char *key)
{
    const char *value = shown(p, key);

    return value && word_eq(value, "YES");
}

static uint16_t max_share(const char *text)
{
    const char *colon = text ? strchr(text, ':') : NULL;
    uint32_t n = 4;

    if (!text || word_eq(text, "NO"))
        return 1;
    if (word_eq(text, "EXCLUSIVE"))
        return 0;
    if (colon)
        number_u32(colon + 1, &n);
    return (uint16_t)((n & 0x7fff) | (word_starts(text, "FORCE") ? SHARED_FORCE : 0));
}

static uint16_t state_up(const char *text)
{
    return word_eq(text, "DOWN") ? PARTITION_DOWN : word_eq(text, "DRAIN") ? PARTITION_DRAIN : word_eq(text, "INACTIVE") ? PARTITION_INACTIVE : PARTITION_UP;
}

static uint16_t preempt_mode(const char *text)
{
    char *copy = mem_copy(text ? text : ""), *cursor = copy, *word;
    uint16_t mode = 0;

    while ((word = word_next(&cursor, ",")))
        mode |= word_eq(word, "SUSPEND") ? PREEMPT_MODE_SUSPEND : word_eq(word, "REQUEUE") ? PREEMPT_MODE_REQUEUE : word_eq(word, "CANCEL") ? PREEMPT_MODE_CANCEL :
                word_eq(word, "GANG") ? PREEMPT_MODE_GANG : word_eq(word, "WITHIN") ? PREEMPT_MODE_WITHIN : 0;
    free(copy);
    return text ? mode : NO_VAL16;
}

static void partition_fill(struct partitions *m, partition_info_t *o, const Wire__PartitionInfo *p)
{
    struct arena *a = &m->arena;

    memset(o, 0, sizeof *o);
    o->name = text_of(a, p->name);
    o->nodes = text_of(a, p->nodes);
    o->node_inx = places_of(m->places, p->nodes, a);
    o->nodesets = shown_text(p, "NodeSets", a);
    o->allow_alloc_nodes = shown_text(p, "AllocNodes", a);
    o->allow_accounts = shown_text(p, "AllowAccounts", a);
    o->allow_groups = shown_text(p, "AllowGroups", a);
    o->allow_qos = shown_text(p, "AllowQos", a);
    o->deny_accounts = shown_text(p, "DenyAccounts", a);
    o->deny_qos = shown_text(p, "DenyQos", a);
    o->alternate = shown_text(p, "Alternate", a);
    o->billing_weights_str = shown_text(p, "TRESBillingWeights", a);
    o->job_defaults_str = shown_text(p, "JobDefaults", a);
    o->qos_char = shown_text(p, "QoS", a);
    o->def_mem_per_cpu = shown_memory(p, "DefMemPerCPU", "DefMemPerNode");
    o->max_mem_per_cpu = shown_memory(p, "MaxMemPerCPU", "MaxMemPerNode");
    o->default_time = p->has_default_time_min ? p->default_time_min : NO_VAL;
    o->max_time = p->has_max_time_min ? p->max_time_min : INFINITE;
    o->min_nodes = p->min_nodes;
    o->max_nodes = p->has_max_nodes ? p->max_nodes : INFINITE;
    o->max_cpus_per_node = p->has_max_cpus_per_node ? p->max_cpus_per_node : INFINITE;
    o->max_share = max_share(p->oversubscribe);
    o->flags = (uint16_t)((p->is_default ? PART_FLAG_DEFAULT : 0) | (p->hidden ? PART_FLAG_HIDDEN : 0) | (p->root_only ? PART_FLAG_ROOT_ONLY : 0) |
                          (is_yes(p, "DisableRootJobs") ? PART_FLAG_NO_ROOT : 0) | (is_yes(p, "ReqResv") ? PART_FLAG_REQ_RESV : 0) |
                          (is_yes(p, "LLN") ? PART_FLAG_LLN : 0) | (is_yes(p, "ExclusiveUser") ? PART_FLAG_EXCLUSIVE_USER : 0));
    o->grace_time = shown_number(p, "GraceTime", 0, INFINITE);
    o->over_time_limit = (uint16_t)shown_number(p, "OverTimeLimit", NO_VAL16, INFINITE16);
    o->preempt_mode = preempt_mode(p->preempt_mode);
    o->priority_job_factor = (uint16_t)p->priority_job_factor;
    o->priority_tier = (uint16_t)p->priority_tier;
    o->resume_timeout = (uint16_t)shown_number(p, "ResumeTimeout", NO_VAL16, INFINITE16);
    o->suspend_timeout = (uint16_t)shown_number(p, "SuspendTimeout", NO_VAL16, INFINITE16);
    o->suspend_time = shown_number(p, "SuspendTime", NO_VAL, INFINITE);
    o->state_up = state_up(p->state ? p->state : "UP");
    o->total_cpus = p->total_cpus;
    o->total_nodes = p->total_nodes;
    o->tres_fmt_str = text_of(a, p->tres);
}

static int partitions_part(void *arg, void *part)
{
    struct partitions *m = arg;
    const Wire__PartitionsReply *r = part;

    if (r->wall_ms)
        m->msg.last_update = r->wall_ms / 1000;
    if (m->msg.record_count + r->n_partitions > m->room) {
        m->room = m->msg.record_count + r->n_partitions + 16;
        m->msg.partition_array = mem_grow(m->msg.partition_array, m->room, sizeof *m->msg.partition_array);
    }
    for (size_t i = 0; i < r->n_partitions; i++)
        if (!r->partitions[i]->hidden || m->show & SHOW_ALL)
            partition_fill(m, &m->msg.partition_array[m->msg.record_count++], r->partitions[i]);
    return 1;
}

int slurm_load_partitions(time_t update_time, partition_info_msg_t **out, uint16_t show_flags)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    struct places places;
    struct partitions *m;
    struct ask k;
    int rc;

    (void)update_time;
    if (!out)
        return refuse(EINVAL);
    *out = NULL;
    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    m = mem_alloc(sizeof *m);
    arena_init(&m->arena, 0);
    m->show = show_flags;
    if ((rc = places_load(&places, &k)) == 0) {
        m->places = &places;
        rc = ask_stream(&k, WIRE__MESSAGE_TYPE__PARTITIONS, &r.base, WIRE__MESSAGE_TYPE__PARTITIONS_PART, &wire__partitions_reply__descriptor, partitions_part, m);
        places_fini(&places);
        m->places = NULL;
    }
    ask_close(&k);
    if (rc < 0) {
        int saved = errno;

        slurm_free_partition_info_msg(&m->msg);
        return refuse(saved);
    }
    *out = &m->msg;
    return SLURM_SUCCESS;
}

void slurm_free_partition_info_msg(partition_info_msg_t *msg)
{
    struct partitions *m = (struct partitions *)msg;

    if (!m)
        return;
    free(m->msg.partition_array);
    arena_fini(&m->arena);
    free(m);
}
