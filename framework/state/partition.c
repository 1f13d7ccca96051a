/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - partitions made, changed and deleted by scontrol.
 *
 * The state owns its configuration, so the change is made in it; the requests are kept in order and made again after a snapshot is loaded.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "state/private.h"

static bool flag_parse(const char *v, bool *out)
{
    if (word_eq(v, "YES") || word_eq(v, "TRUE") || word_eq(v, "1") || word_eq(v, "UP"))
        *out = true;
    else if (word_eq(v, "NO") || word_eq(v, "FALSE") || word_eq(v, "0"))
        *out = false;
    else
        return false;
    return true;
}

static bool count_or_all(const char *v, uint32_t *out)
{
    if (word_eq(v, "UNLIMITED") || word_eq(v, "INFINITE") || !strcmp(v, "-1"))
        *out = UINT32_MAX;
    else
        return number_u32(v, out);
    return true;
}

static bool tier_parse(const char *v, uint16_t *out)
{
    uint32_t n;

    if (!number_u32(v, &n) || n > 65533)
        return false;
    *out = (uint16_t)n;
    return true;
}

static int nodes_set(struct state *s, struct config_partition *p, const char *list, struct spur_error *err)
{
    struct hostlist *names = NULL;
    struct bitmap nodes;
    struct str text;
    bool all = word_eq(list, "ALL");
    int rc = all ? 0 : hostlist_parse(list, &names, err);

    if (rc < 0)
        return rc;
    bitmap_init(&nodes, s->node_count);
    if (all)
        bitmap_fill(&nodes);
    for (size_t i = 0; !all && i < hostlist_count(names); i++) {
        const struct node *n = state_node(s, hostlist_nth(names, i));

        if (!n) {
            rc = spur_fail(err, SPUR_ENOTFOUND, "Nodes: %.64s is not in the configuration", hostlist_nth(names, i));
            bitmap_fini(&nodes);
            hostlist_destroy(names);
            return rc;
        }
        bitmap_set(&nodes, n->index);
    }
    hostlist_destroy(names);
    names = hostlist_create();
    for (size_t i = bitmap_first(&nodes); i < nodes.bits; i = bitmap_next(&nodes, i))
        hostlist_add(names, s->config->nodes[i].name);
    hostlist_sort(names);
    str_init(&text);
    hostlist_print(names, &text);
    hostlist_destroy(names);
    free(p->nodes_text);
    p->nodes_text = str_take(&text);
    bitmap_fini(&p->nodes);
    p->nodes = nodes;
    config_partition_measure(s->config, p);
    return 0;
}

static int oversubscribe_set(struct config_partition *p, const char *v, struct spur_error *err)
{
    const char *colon = strchr(v, ':');
    char *word = colon ? mem_copy_n(v, (size_t)(colon - v)) : mem_copy(v);
    uint32_t n = 4;
    bool forced = word_eq(word, "FORCE"), shared = forced || word_eq(word, "YES"), whole = word_eq(word, "EXCLUSIVE"), none = word_eq(word, "NO");

    free(word);
    if ((!shared && !whole && !none) || (colon && (!shared || !number_u32(colon + 1, &n) || n < 1 || n > 32767)))
        return spur_fail(err, SPUR_EINVAL, "OverSubscribe: \"%.40s\" is none of NO, EXCLUSIVE, YES[:N], FORCE[:N]", v);
    p->exclusive_nodes = whole;
    p->share_forced = forced;
    p->max_share = whole ? 0 : shared ? n : 1;
    free(p->oversubscribe);
    if (shared) {
        struct str text;

        str_init(&text);
        str_addf(&text, "%s:%u", forced ? "FORCE" : "YES", n);
        p->oversubscribe = str_take(&text);
    } else {
        p->oversubscribe = mem_copy(whole ? "EXCLUSIVE" : "NO");
    }
    return 0;
}

static int memory_set(const char *v, bool by_cpu, uint64_t *cpu, uint64_t *node, bool *set, bool *is_cpu, struct spur_error *err)
{
    uint64_t mib = 0;

    if (!word_eq(v, "UNLIMITED") && !word_eq(v, "INFINITE") && mebibytes_parse(v, &mib, err) < 0)
        return err->code;
    *cpu = by_cpu ? mib : 0;
    *node = by_cpu ? 0 : mib;
    *set = true;
    *is_cpu = by_cpu;
    return 0;
}

static void list_set(char **to, const char *v)
{
    text_set(to, word_eq(v, "ALL") ? NULL : v);
}

static int change_one(struct state *s, struct config_partition *p, const char *key, const char *v, struct spur_error *err)
{
    struct config *c = s->config;
    bool ok = true, flag;
    uint32_t n;

    if (word_eq(key, "State")) {
        static const char *const states[] = { "UP", "DOWN", "DRAIN", "INACTIVE" };

        ok = false;
        for (size_t i = 0; i < 4; i++)
            if (word_eq(v, states[i])) {
                text_set(&p->state, states[i]);
                ok = true;
            }
    } else if (word_eq(key, "MaxTime")) {
        return minutes_parse(v, &p->max_time_min, err);
    } else if (word_eq(key, "DefaultTime")) {
        if (word_eq(v, "NONE"))
            p->default_time_min = MINUTES_NOT_SET;
        else
            return minutes_parse(v, &p->default_time_min, err);
    } else if (word_eq(key, "MaxNodes")) {
        ok = count_or_all(v, &p->max_nodes);
    } else if (word_eq(key, "MinNodes")) {
        ok = number_u32(v, &p->min_nodes);
    } else if (word_eq(key, "MaxCPUsPerNode")) {
        ok = count_or_all(v, &p->max_cpus_per_node);
    } else if (word_eq(key, "MaxCPUsPerSocket")) {
        ok = count_or_all(v, &p->max_cpus_per_socket);
    } else if (word_eq(key, "Nodes")) {
        return nodes_set(s, p, v, err);
    } else if (word_eq(key, "Default")) {
        ok = flag_parse(v, &flag);
        for (size_t i = 0; ok && flag && i < c->partition_count; i++)
            c->partitions[i].is_default = false;
        if (ok)
            p->is_default = flag;
    } else if (word_eq(key, "Hidden")) {
        ok = flag_parse(v, &p->hidden);
    } else if (word_eq(key, "RootOnly")) {
        ok = flag_parse(v, &p->root_only);
    } else if (word_eq(key, "ReqResv")) {
        ok = flag_parse(v, &p->req_resv);
    } else if (word_eq(key, "LLN")) {
        ok = flag_parse(v, &p->lln);
    } else if (word_eq(key, "ExclusiveUser")) {
        ok = flag_parse(v, &p->exclusive_user);
    } else if (word_eq(key, "DisableRootJobs")) {
        ok = flag_parse(v, &p->disable_root_jobs);
    } else if (word_eq(key, "OverSubscribe") || word_eq(key, "Shared")) {
        return oversubscribe_set(p, v, err);
    } else if (word_eq(key, "PriorityTier")) {
        ok = tier_parse(v, &p->priority_tier);
    } else if (word_eq(key, "PriorityJobFactor")) {
        ok = tier_parse(v, &p->priority_job_factor);
    } else if (word_eq(key, "Priority")) {
        ok = tier_parse(v, &p->priority_tier) && tier_parse(v, &p->priority_job_factor);
    } else if (word_eq(key, "GraceTime")) {
        ok = number_u32(v, &p->grace_time);
    } else if (word_eq(key, "OverTimeLimit")) {
        ok = number_u32(v, &n) || word_eq(v, "UNLIMITED");
        if (ok)
            p->over_time_limit = word_eq(v, "UNLIMITED") ? MINUTES_UNLIMITED : n;
    } else if (word_eq(key, "DefMemPerCPU") || word_eq(key, "DefMemPerNode")) {
        return memory_set(v, word_eq(key, "DefMemPerCPU"), &p->def_mem_per_cpu, &p->def_mem_per_node, &p->def_mem_set, &p->def_mem_is_cpu, err);
    } else if (word_eq(key, "MaxMemPerCPU") || word_eq(key, "MaxMemPerNode")) {
        return memory_set(v, word_eq(key, "MaxMemPerCPU"), &p->max_mem_per_cpu, &p->max_mem_per_node, &p->max_mem_set, &p->max_mem_is_cpu, err);
    } else if (word_eq(key, "AllowGroups")) {
        list_set(&p->allow_groups, v);
    } else if (word_eq(key, "AllowAccounts")) {
        list_set(&p->allow_accounts, v);
        text_set(&p->deny_accounts, NULL);
    } else if (word_eq(key, "AllowQos")) {
        list_set(&p->allow_qos, v);
        text_set(&p->deny_qos, NULL);
    } else if (word_eq(key, "DenyAccounts")) {
        text_set(&p->deny_accounts, v);
    } else if (word_eq(key, "DenyQos")) {
        text_set(&p->deny_qos, v);
    } else if (word_eq(key, "AllocNodes")) {
        list_set(&p->alloc_nodes, v);
    } else if (word_eq(key, "Alternate")) {
        if (*v && !config_partition_find(c, v))
            return spur_fail(err, SPUR_ENOTFOUND, "Alternate: partition %.60s does not exist", v);
        text_set(&p->alternate, v);
    } else if (word_eq(key, "QOS")) {
        text_set(&p->qos, v);
    } else if (word_eq(key, "PreemptMode")) {
        text_set(&p->preempt_mode, v);
    } else if (word_eq(key, "CpuBind")) {
        text_set(&p->cpu_bind, v);
    } else if (word_eq(key, "TRESBillingWeights")) {
        text_set(&p->tres_weights, v);
    } else {
        return spur_fail(err, SPUR_EUNSUPPORTED, "%.60s of a partition cannot be changed here", key);
    }
    return ok ? 0 : spur_fail(err, SPUR_EINVAL, "%.40s: \"%.60s\" is not a value it takes", key, v);
}

static struct config_partition *partition_create(struct state *s, const char *name)
{
    struct config *c = s->config;
    struct config_partition *p;

    c->partitions = mem_grow(c->partitions, c->partition_count + 1, sizeof *c->partitions);
    p = &c->partitions[c->partition_count++];
    memset(p, 0, sizeof *p);
    p->name = mem_copy(name);
    p->nodes_text = mem_copy("");
    bitmap_init(&p->nodes, s->node_count);
    p->state = mem_copy("UP");
    p->oversubscribe = mem_copy("NO");
    p->max_share = 1;
    p->max_time_min = MINUTES_UNLIMITED;
    p->default_time_min = MINUTES_NOT_SET;
    p->over_time_limit = MINUTES_NOT_SET;
    p->max_nodes = p->max_cpus_per_node = p->max_cpus_per_socket = UINT32_MAX;
    p->priority_tier = p->priority_job_factor = 1;
    return p;
}

static void partition_free(struct config_partition *p)
{
    char *texts[] = { p->name, p->nodes_text, p->state, p->oversubscribe, p->job_defaults, p->allow_groups, p->allow_accounts, p->allow_qos, p->deny_accounts,
        p->deny_qos, p->alloc_nodes, p->qos, p->alternate, p->preempt_mode, p->tres_weights, p->cpu_bind, p->select_params, p->suspend_time,
        p->suspend_timeout, p->resume_timeout, p->nodesets };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    bitmap_fini(&p->nodes);
}

static void jobs_find_partitions(struct state *s)
{
    struct job *j;

    for (size_t at = 0; (j = table_next(&s->jobs, &at)); )
        j->part_index = job_part_index(s, j);
}

int partition_change(struct state *s, const Wire__PartitionUpdateRequest *u, struct spur_error *err)
{
    struct config *c = s->config;
    struct config_partition *p = (struct config_partition *)config_partition_find(c, u->name);
    int rc;

    if (u->create && u->delete_)
        return spur_fail(err, SPUR_EINVAL, "partition %.60s cannot be made and deleted at once", u->name);
    if (u->create && p)
        return spur_fail(err, SPUR_EEXISTS, "partition %.60s exists already", u->name);
    if (!u->create && !p)
        return spur_fail(err, SPUR_ENOTFOUND, "partition %.60s does not exist", u->name);
    if (u->delete_) {
        size_t i = (size_t)(p - c->partitions);

        partition_free(p);
        memmove(p, p + 1, (c->partition_count - i - 1) * sizeof *p);
        c->partition_count--;
        jobs_find_partitions(s);
        return 0;
    }
    if (u->create) {
        if (!*u->name || strlen(u->name) > 255)
            return spur_fail(err, SPUR_EINVAL, "a partition's name has 1 to 255 characters");
        p = partition_create(s, u->name);
    }
    for (size_t i = 0; i < u->n_set; i++) {
        rc = change_one(s, p, u->set[i]->key, u->set[i]->value ? u->set[i]->value : "", err);
        if (rc < 0 && u->create) {
            partition_free(p);
            c->partition_count--;
        }
        if (rc < 0)
            return spur_context(err, "partition %.60s", u->name);
    }
    return 0;
}

static bool partition_in_use(const struct state *s, const char *name)
{
    const struct job *j;

    for (size_t at = 0; (j = table_next(&s->jobs, &at)); )
        if (job_phase(j) != PHASE_ENDED && j->partition && word_eq(j->partition, name))
            return true;
    return false;
}

void op_partition(struct doing *d, const Wire__OpPartition *o)
{
    struct state *s = d->s;
    const Wire__PartitionUpdateRequest *u = o->update;
    struct state_private *p = s->priv;
    struct spur_error err = { 0 };
    size_t size;
    uint8_t *packed;

    if (!s->config) {
        refuse(d, SPUR_EBUSY, 0, "the cluster has no configuration yet");
        return;
    }
    if (u->delete_ && partition_in_use(s, u->name)) {
        refuse(d, SPUR_EBUSY, 0, "partition %.60s has jobs: cancel or move them first", u->name);
        return;
    }
    if (partition_change(s, u, &err) < 0) {
        refuse(d, err.code, err.code == SPUR_ENOTFOUND ? ESLURM_INVALID_PARTITION_NAME : 0, "%s", err.text);
        if (u->create || u->delete_)
            return;
    }
    jobs_find_partitions(s);
    size = wire__partition_update_request__get_packed_size(u);
    packed = mem_alloc(size ? size : 1);
    wire__partition_update_request__pack(u, packed);
    p->partition_updates = mem_grow(p->partition_updates, p->partition_update_count + 1, sizeof *p->partition_updates);
    p->partition_updates[p->partition_update_count] = wire__partition_update_request__unpack(NULL, size, packed);
    p->partition_update_count += p->partition_updates[p->partition_update_count] != NULL;
    free(packed);
    s->view_version++;
    tell(d, EV_CONFIG_CHANGED, NULL);
}
