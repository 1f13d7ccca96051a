/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - PartitionName lines. Each is kept as a record until all nodes and node sets are known, for a partition may
 * stand before its nodes; the defaults that held at its line are taken along. Names are unique; of several Default=YES the
 * last one counts, as in Slurm. A name with commas or brackets is one name: Slurm does not expand it.
 */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "config/value.h"

enum { PART_NAME, PART_ALLOC_NODES, PART_ALLOW_ACCOUNTS, PART_ALLOW_GROUPS, PART_ALLOW_QOS, PART_ALTERNATE, PART_CPU_BIND, PART_DEFAULT, PART_DEFAULT_TIME,
    PART_DEF_CPU_GPU, PART_DEF_MEM_CPU, PART_DEF_MEM_GPU, PART_DEF_MEM_NODE, PART_DENY_ACCOUNTS, PART_DENY_QOS, PART_NO_ROOT, PART_EXCLUSIVE,
    PART_EXCLUSIVE_TOPO, PART_EXCLUSIVE_USER, PART_GRACE, PART_HIDDEN, PART_LLN, PART_MAX_CPUS, PART_MAX_CPUS_SOCKET, PART_MAX_MEM_CPU, PART_MAX_MEM_NODE,
    PART_MAX_NODES, PART_MAX_TIME, PART_MIN_NODES, PART_NODES, PART_SHARE, PART_OVERTIME, PART_POWER_DOWN, PART_PREEMPT, PART_PRIORITY, PART_FACTOR, PART_TIER,
    PART_QOS, PART_REQ_RESV, PART_RESUME_TIMEOUT, PART_ROOT_ONLY, PART_SELECT, PART_STATE, PART_SUSPEND_TIME, PART_SUSPEND_TIMEOUT, PART_TOPOLOGY, PART_TRES };

#define NOTE_NO_QOS      "qualities of service are not kept by this version"
#define NOTE_NO_POWER    "nodes are not powered up or down by this version"
#define NOTE_NO_TOPOLOGY "there is one topology for the whole cluster"
#define NOTE_NO_PREEMPT  "jobs are not preempted by this version"

static const struct record_key partition_keys[] = {
    { "AllocNodes",     CONFIG_ACTS, "", PART_ALLOC_NODES },
    { "AllowAccounts",  CONFIG_ACTS, "", PART_ALLOW_ACCOUNTS },
    { "AllowGroups",    CONFIG_ACTS, "", PART_ALLOW_GROUPS },
    { "AllowQos",       CONFIG_ACTS, "", PART_ALLOW_QOS },
    { "Alternate",      CONFIG_ACTS, "", PART_ALTERNATE },
    { "CpuBind",        CONFIG_NO_EFFECT, "TaskPluginParam and --cpu-bind say how tasks are bound", PART_CPU_BIND },
    { "Default",        CONFIG_ACTS, "", PART_DEFAULT },
    { "DefaultTime",    CONFIG_ACTS, "", PART_DEFAULT_TIME },
    { "DefCPUPerGPU",   CONFIG_ACTS, "", PART_DEF_CPU_GPU },
    { "DefMemPerCPU",   CONFIG_ACTS, "", PART_DEF_MEM_CPU },
    { "DefMemPerGPU",   CONFIG_ACTS, "", PART_DEF_MEM_GPU },
    { "DefMemPerNode",  CONFIG_ACTS, "", PART_DEF_MEM_NODE },
    { "DenyAccounts",   CONFIG_ACTS, "", PART_DENY_ACCOUNTS },
    { "DenyQos",        CONFIG_ACTS, "", PART_DENY_QOS },
    { "DisableRootJobs", CONFIG_ACTS, "", PART_NO_ROOT },
    { "Exclusive",      CONFIG_ACTS, "", PART_EXCLUSIVE },
    { "ExclusiveTopo",  CONFIG_ACTS, "", PART_EXCLUSIVE_TOPO },
    { "ExclusiveUser",  CONFIG_NO_EFFECT, "nodes are not kept to one user at a time by this version", PART_EXCLUSIVE_USER },
    { "GraceTime",      CONFIG_NO_EFFECT, NOTE_NO_PREEMPT, PART_GRACE },
    { "Hidden",         CONFIG_ACTS, "", PART_HIDDEN },
    { "LLN",            CONFIG_ACTS, "", PART_LLN },
    { "MaxCPUsPerNode", CONFIG_ACTS, "", PART_MAX_CPUS },
    { "MaxCPUsPerSocket", CONFIG_NO_EFFECT, "CPUs of a job are limited by node, not by socket", PART_MAX_CPUS_SOCKET },
    { "MaxMemPerCPU",   CONFIG_ACTS, "", PART_MAX_MEM_CPU },
    { "MaxMemPerNode",  CONFIG_ACTS, "", PART_MAX_MEM_NODE },
    { "MaxNodes",       CONFIG_ACTS, "", PART_MAX_NODES },
    { "MaxTime",        CONFIG_ACTS, "", PART_MAX_TIME },
    { "MinNodes",       CONFIG_ACTS, "", PART_MIN_NODES },
    { "Nodes",          CONFIG_ACTS, "", PART_NODES },
    { "OverSubscribe",  CONFIG_ACTS, "", PART_SHARE },
    { "Shared",         CONFIG_MAPPED, "OverSubscribe", PART_SHARE },
    { "OverTimeLimit",  CONFIG_ACTS, "", PART_OVERTIME },
    { "PowerDownOnIdle", CONFIG_NO_EFFECT, NOTE_NO_POWER, PART_POWER_DOWN },
    { "PreemptMode",    CONFIG_NO_EFFECT, NOTE_NO_PREEMPT, PART_PREEMPT },
    { "Priority",       CONFIG_MAPPED, "PriorityTier and PriorityJobFactor", PART_PRIORITY },
    { "PriorityJobFactor", CONFIG_ACTS, "", PART_FACTOR },
    { "PriorityTier",   CONFIG_ACTS, "", PART_TIER },
    { "QOS",            CONFIG_NO_EFFECT, NOTE_NO_QOS, PART_QOS },
    { "ReqResv",        CONFIG_ACTS, "", PART_REQ_RESV },
    { "ResumeTimeout",  CONFIG_NO_EFFECT, NOTE_NO_POWER, PART_RESUME_TIMEOUT },
    { "RootOnly",       CONFIG_ACTS, "", PART_ROOT_ONLY },
    { "SelectTypeParameters", CONFIG_ACTS, "", PART_SELECT },
    { "State",          CONFIG_ACTS, "", PART_STATE },
    { "SuspendTime",    CONFIG_NO_EFFECT, NOTE_NO_POWER, PART_SUSPEND_TIME },
    { "SuspendTimeout", CONFIG_NO_EFFECT, NOTE_NO_POWER, PART_SUSPEND_TIMEOUT },
    { "Topology",       CONFIG_NO_EFFECT, NOTE_NO_TOPOLOGY, PART_TOPOLOGY },
    { "TRESBillingWeights", CONFIG_NO_EFFECT, "billing by TRES weights is not computed by this version", PART_TRES },
    { 0 } };

int partition_line(struct reader *r, const char *head, char **cursor, struct spur_error *err)
{
    struct record rec;
    int rc = record_read(r, cursor, partition_keys, "PartitionName", &rec, err);

    if (rc < 0)
        return rc;
    if (word_eq(head, "DEFAULT")) {
        reader_note(r, rec.file, rec.line, "PartitionName", head, CONFIG_ACTS, "");
        record_inherit(&rec, &r->partition_defaults, -1);
        record_fini(&r->partition_defaults);
        r->partition_defaults = rec;
        return 0;
    }
    record_inherit(&rec, &r->partition_defaults, -1);
    rec.values[PART_NAME] = mem_copy(head);
    *(struct record *)reader_grow((void **)&r->partitions, &r->partition_count, &r->partition_room, sizeof rec) = rec;
    return 0;
}

void partition_fini(struct config_partition *p)
{
    char *texts[] = { p->name, p->nodes_text, p->state, p->oversubscribe, p->job_defaults, p->allow_groups, p->allow_accounts, p->allow_qos, p->deny_accounts,
        p->deny_qos, p->alloc_nodes, p->qos, p->alternate, p->preempt_mode, p->tres_weights, p->cpu_bind, p->select_params, p->suspend_time,
        p->suspend_timeout, p->resume_timeout, p->nodesets };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    bitmap_fini(&p->nodes);
    memset(p, 0, sizeof *p);
}

static int flag_of(const struct record *rec, int id, const char *name, bool *out, struct spur_error *err)
{
    int is = rec->values[id] ? value_bool(rec->values[id]) : 0;

    if (is < 0)
        return spur_fail(err, SPUR_EINVAL, "%s: \"%.40s\" is neither yes nor no", name, rec->values[id]);
    *out = is;
    return 0;
}

static bool is_unlimited(const char *text)
{
    return word_eq(text, "UNLIMITED") || word_eq(text, "INFINITE");
}

static int count_of(const struct record *rec, int id, const char *name, uint32_t max, uint32_t fallback, uint32_t *out, struct spur_error *err)
{
    const char *text = rec->values[id];

    *out = fallback;
    if (!text)
        return 0;
    if (is_unlimited(text))
        *out = UINT32_MAX;
    else if (!number_u32(text, out) || *out > max)
        return spur_fail(err, SPUR_EINVAL, "%s: \"%.40s\" is not a number from 0 to %u", name, text, max);
    return 0;
}

static int time_of(const struct record *rec, int id, const char *name, uint32_t fallback, uint32_t *out, struct spur_error *err)
{
    *out = fallback;
    if (rec->values[id] && minutes_parse(rec->values[id], out, err) < 0)
        return spur_context(err, "%s", name);
    return 0;
}

/* Memory by CPU or by node: one of the two. That by node counts when both are there, as when one comes from PartitionName=DEFAULT. */
static int memory_of(const struct record *rec, int by_cpu, int by_node, const char *name, uint64_t *cpu, uint64_t *node, bool *set, bool *is_cpu,
    struct spur_error *err)
{
    const char *text = rec->values[by_node] ? rec->values[by_node] : rec->values[by_cpu];
    uint64_t mib = 0;

    if (!text)
        return 0;
    if (!is_unlimited(text) && mebibytes_parse(text, &mib, err) < 0)
        return spur_context(err, "%s", name);
    if (mib > INT64_MAX / 2)
        return spur_fail(err, SPUR_EINVAL, "%s: %.40s is out of range", name, text);
    *set = true;
    *is_cpu = !rec->values[by_node];
    *(*is_cpu ? cpu : node) = mib;
    return 0;
}

static int share_of(const struct record *rec, struct config_partition *p, struct spur_error *err)
{
    const char *text = rec->values[PART_SHARE], *colon, *exclusive = rec->values[PART_EXCLUSIVE];
    char word[16], shown[32];
    uint32_t n = 4;

    p->max_share = 1;
    snprintf(shown, sizeof shown, "NO");
    if (text) {
        colon = strchr(text, ':');
        snprintf(word, sizeof word, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
        if (colon && (!number_u32(colon + 1, &n) || n < 1 || n > 32767))
            return spur_fail(err, SPUR_EINVAL, "OverSubscribe: \"%.40s\" is not a number of jobs from 1 to 32767", colon + 1);
        if (colon && !word_eq(word, "YES") && !word_eq(word, "FORCE"))
            return spur_fail(err, SPUR_EINVAL, "OverSubscribe: \"%.40s\": only YES and FORCE take a number of jobs", text);
        if (word_eq(word, "EXCLUSIVE")) {
            p->exclusive_nodes = true;
            p->max_share = 0;
            snprintf(shown, sizeof shown, "EXCLUSIVE");
        } else if (word_eq(word, "YES") || word_eq(word, "FORCE")) {
            p->max_share = n;
            p->share_forced = word_eq(word, "FORCE");
            snprintf(shown, sizeof shown, "%s:%u", p->share_forced ? "FORCE" : "YES", n);
        } else if (!word_eq(word, "NO")) {
            return spur_fail(err, SPUR_EINVAL, "OverSubscribe: \"%.40s\" is none of NO, EXCLUSIVE, YES[:N], FORCE[:N]", text);
        }
    }
    if (exclusive) {
        if (word_eq(exclusive, "NODE") || value_bool(exclusive) == 1) {
            p->exclusive_nodes = true;
            p->max_share = 0;
            snprintf(shown, sizeof shown, "EXCLUSIVE");
        } else if (word_eq(exclusive, "USER")) {
            p->exclusive_user = true;
        } else if (!word_eq(exclusive, "TOPO") && value_bool(exclusive) != 0) {
            return spur_fail(err, SPUR_EINVAL, "Exclusive: \"%.40s\" is none of NO, NODE, USER, TOPO", exclusive);
        }
    }
    p->oversubscribe = mem_copy(shown);
    return 0;
}

static int priority_of(const struct record *rec, struct config_partition *p, struct spur_error *err)
{
    uint32_t both, tier, factor;
    int rc;

    if ((rc = count_of(rec, PART_PRIORITY, "Priority", 65533, 1, &both, err)) < 0 ||
        (rc = count_of(rec, PART_TIER, "PriorityTier", 65533, both, &tier, err)) < 0 ||
        (rc = count_of(rec, PART_FACTOR, "PriorityJobFactor", 65533, both, &factor, err)) < 0)
        return rc;
    p->priority_tier = tier > 65533 ? 65533 : (uint16_t)tier;
    p->priority_job_factor = factor > 65533 ? 65533 : (uint16_t)factor;
    return 0;
}

/* A number of seconds as shown, or NULL. */
static int seconds_of(const struct record *rec, int id, const char *name, char **out, struct spur_error *err)
{
    const char *text = rec->values[id];
    uint32_t n;
    char shown[24];

    if (!text)
        return 0;
    if (is_unlimited(text) || word_eq(text, "-1")) {
        *out = mem_copy("INFINITE");
        return 0;
    }
    if (!number_u32(text, &n))
        return spur_fail(err, SPUR_EINVAL, "%s: \"%.40s\" is not a number of seconds", name, text);
    snprintf(shown, sizeof shown, "%u", n);
    *out = mem_copy(shown);
    return 0;
}

static int words_of(const struct record *rec, int id, enum config_type type, const char *name, char **out, struct spur_error *err)
{
    struct str shown, warn;
    int rc;

    if (!rec->values[id])
        return 0;
    str_init(&shown);
    str_init(&warn);
    if (word_eq(rec->values[id], "SUSPEND")) {       /* GANG is a matter of the whole cluster */
        str_add(&shown, "SUSPEND");
        rc = 0;
    } else {
        rc = words_read(type, rec->values[id], &shown, &warn, err);
    }
    if (rc < 0)
        spur_context(err, "%s", name);
    else
        *out = str_take(&shown);
    str_fini(&shown);
    str_fini(&warn);
    return rc;
}

/* "ALL" is the same as no list. */
static char *list_of(const struct record *rec, int id)
{
    const char *text = rec->values[id];

    return !text || !*text || word_eq(text, "ALL") ? NULL : mem_copy(text);
}

static int nodes_of(struct reader *r, const struct record *rec, struct config_partition *p, struct spur_error *err)
{
    struct config *c = r->config;
    struct hostlist *names;
    struct str text;
    int rc;

    bitmap_init(&p->nodes, c->node_count);
    if (!rec->values[PART_NODES] || !*rec->values[PART_NODES])
        return 0;
    if ((rc = nodes_of_list(r, rec->values[PART_NODES], &p->nodes, err)) < 0)
        return spur_context(err, "Nodes");
    config_partition_measure(c, p);
    names = hostlist_create();
    for (size_t i = bitmap_first(&p->nodes); i < c->node_count; i = bitmap_next(&p->nodes, i))
        hostlist_add(names, c->nodes[i].name);
    hostlist_uniq(names);
    str_init(&text);
    hostlist_print(names, &text);
    p->nodes_text = text.len ? str_take(&text) : NULL;
    str_fini(&text);
    hostlist_destroy(names);
    for (size_t k = 0; k < r->nodeset_count; k++) {
        const char *name = r->nodesets[k].name, *at = strstr(rec->values[PART_NODES], name);
        size_t len = strlen(name);

        if (at && (at == rec->values[PART_NODES] || at[-1] == ',') && (!at[len] || at[len] == ',')) {
            str_init(&text);
            if (p->nodesets)
                str_addf(&text, "%s,", p->nodesets);
            str_add(&text, name);
            free(p->nodesets);
            p->nodesets = str_take(&text);
            str_fini(&text);
        }
    }
    return 0;
}

static int partition_build(struct reader *r, const struct record *rec, struct config_partition *p, struct spur_error *err)
{
    static const char *const states[] = { "UP", "DOWN", "DRAIN", "INACTIVE", NULL };
    uint32_t n;
    int rc;

    p->name = mem_copy(rec->values[PART_NAME]);
    bitmap_init(&p->nodes, 0);
    if (!*p->name || strlen(p->name) > 255 || strpbrk(p->name, " \t/"))
        return spur_fail(err, SPUR_EINVAL, "PartitionName: \"%.60s\" is not a name", p->name);
    if (config_partition_find(r->config, p->name) != p)
        return spur_fail(err, SPUR_EEXISTS, "partition %.60s is named twice", p->name);
    bitmap_fini(&p->nodes);
    if ((rc = nodes_of(r, rec, p, err)) < 0 ||
        (rc = flag_of(rec, PART_DEFAULT, "Default", &p->is_default, err)) < 0 || (rc = flag_of(rec, PART_HIDDEN, "Hidden", &p->hidden, err)) < 0 ||
        (rc = flag_of(rec, PART_ROOT_ONLY, "RootOnly", &p->root_only, err)) < 0 || (rc = flag_of(rec, PART_REQ_RESV, "ReqResv", &p->req_resv, err)) < 0 ||
        (rc = flag_of(rec, PART_LLN, "LLN", &p->lln, err)) < 0 || (rc = flag_of(rec, PART_EXCLUSIVE_USER, "ExclusiveUser", &p->exclusive_user, err)) < 0 ||
        (rc = flag_of(rec, PART_EXCLUSIVE_TOPO, "ExclusiveTopo", &p->exclusive_topo, err)) < 0 ||
        (rc = flag_of(rec, PART_POWER_DOWN, "PowerDownOnIdle", &p->power_down_on_idle, err)) < 0)
        return rc;
    p->disable_root_jobs = config_number(r->config, CONF_DisableRootJobs) != 0;
    if (rec->values[PART_NO_ROOT] && (rc = flag_of(rec, PART_NO_ROOT, "DisableRootJobs", &p->disable_root_jobs, err)) < 0)
        return rc;
    if ((rc = share_of(rec, p, err)) < 0 || (rc = priority_of(rec, p, err)) < 0 ||
        (rc = time_of(rec, PART_MAX_TIME, "MaxTime", MINUTES_UNLIMITED, &p->max_time_min, err)) < 0 ||
        (rc = time_of(rec, PART_DEFAULT_TIME, "DefaultTime", MINUTES_NOT_SET, &p->default_time_min, err)) < 0 ||
        (rc = count_of(rec, PART_MIN_NODES, "MinNodes", UINT32_MAX - 1, 0, &p->min_nodes, err)) < 0 ||
        (rc = count_of(rec, PART_MAX_NODES, "MaxNodes", UINT32_MAX, UINT32_MAX, &p->max_nodes, err)) < 0 ||
        (rc = count_of(rec, PART_MAX_CPUS, "MaxCPUsPerNode", UINT32_MAX, UINT32_MAX, &p->max_cpus_per_node, err)) < 0 ||
        (rc = count_of(rec, PART_MAX_CPUS_SOCKET, "MaxCPUsPerSocket", UINT32_MAX, UINT32_MAX, &p->max_cpus_per_socket, err)) < 0 ||
        (rc = count_of(rec, PART_GRACE, "GraceTime", UINT32_MAX, 0, &p->grace_time, err)) < 0 ||
        (rc = count_of(rec, PART_OVERTIME, "OverTimeLimit", 65533, MINUTES_NOT_SET, &p->over_time_limit, err)) < 0 ||
        (rc = memory_of(rec, PART_DEF_MEM_CPU, PART_DEF_MEM_NODE, "DefMemPerCPU or DefMemPerNode", &p->def_mem_per_cpu, &p->def_mem_per_node,
             &p->def_mem_set, &p->def_mem_is_cpu, err)) < 0 ||
        (rc = memory_of(rec, PART_MAX_MEM_CPU, PART_MAX_MEM_NODE, "MaxMemPerCPU or MaxMemPerNode", &p->max_mem_per_cpu, &p->max_mem_per_node,
             &p->max_mem_set, &p->max_mem_is_cpu, err)) < 0 ||
        (rc = seconds_of(rec, PART_SUSPEND_TIME, "SuspendTime", &p->suspend_time, err)) < 0 ||
        (rc = seconds_of(rec, PART_SUSPEND_TIMEOUT, "SuspendTimeout", &p->suspend_timeout, err)) < 0 ||
        (rc = seconds_of(rec, PART_RESUME_TIMEOUT, "ResumeTimeout", &p->resume_timeout, err)) < 0 ||
        (rc = words_of(rec, PART_PREEMPT, CONFIG_PREEMPT, "PreemptMode", &p->preempt_mode, err)) < 0 ||
        (rc = words_of(rec, PART_SELECT, CONFIG_SELECT, "SelectTypeParameters", &p->select_params, err)) < 0)
        return rc;
    if (rec->values[PART_DEF_CPU_GPU] && !number_u64(rec->values[PART_DEF_CPU_GPU], &p->def_cpu_per_gpu))
        return spur_fail(err, SPUR_EINVAL, "DefCPUPerGPU: \"%.40s\" is not a number", rec->values[PART_DEF_CPU_GPU]);
    if (rec->values[PART_DEF_MEM_GPU] && !number_u64(rec->values[PART_DEF_MEM_GPU], &p->def_mem_per_gpu))
        return spur_fail(err, SPUR_EINVAL, "DefMemPerGPU: \"%.40s\" is not a number", rec->values[PART_DEF_MEM_GPU]);
    if (p->default_time_min != MINUTES_NOT_SET && p->default_time_min > p->max_time_min)
        p->default_time_min = MINUTES_NOT_SET;      /* partitions_resolve says so; jobs get MaxTime, as in Slurm */
    p->job_defaults = job_defaults_text(p->def_cpu_per_gpu, p->def_mem_per_gpu);
    for (n = 0; rec->values[PART_STATE] && states[n] && !word_eq(states[n], rec->values[PART_STATE]); n++)
        ;
    if (!states[n])
        return spur_fail(err, SPUR_EINVAL, "State: \"%.40s\" is none of UP, DOWN, DRAIN, INACTIVE", rec->values[PART_STATE]);
    p->state = mem_copy(states[n]);
    p->allow_groups = list_of(rec, PART_ALLOW_GROUPS);
    p->allow_accounts = list_of(rec, PART_ALLOW_ACCOUNTS);
    p->allow_qos = list_of(rec, PART_ALLOW_QOS);
    p->deny_accounts = list_of(rec, PART_DENY_ACCOUNTS);
    p->deny_qos = list_of(rec, PART_DENY_QOS);
    p->alloc_nodes = list_of(rec, PART_ALLOC_NODES);
    p->qos = mem_copy(rec->values[PART_QOS]);
    p->alternate = mem_copy(rec->values[PART_ALTERNATE]);
    p->tres_weights = mem_copy(rec->values[PART_TRES]);
    p->cpu_bind = mem_copy(rec->values[PART_CPU_BIND]);
    return 0;
}

int partitions_resolve(struct reader *r, struct spur_error *err)
{
    struct config *c = r->config;

    c->partitions = mem_array(r->partition_count ? r->partition_count : 1, sizeof *c->partitions);
    for (size_t i = 0; i < r->partition_count; i++) {
        struct record *rec = &r->partitions[i];
        struct config_partition *p = &c->partitions[c->partition_count++];
        int rc = partition_build(r, rec, p, err);

        if (rc < 0) {
            rc = reader_error(r, rec->file, rec->line, "PartitionName", rec->values[PART_NAME], err);
            if (rc < 0)
                return rc;
            partition_fini(p);
            c->partition_count--;
            continue;
        }
        reader_note(r, rec->file, rec->line, "PartitionName", p->name, CONFIG_ACTS,
            rec->values[PART_DEFAULT_TIME] && p->default_time_min == MINUTES_NOT_SET && !word_eq(rec->values[PART_DEFAULT_TIME], "NONE") ?
                "DefaultTime is more than MaxTime: MaxTime holds" :
            strpbrk(p->name, ",[") ? "one partition of this name: a list of names is not expanded" :
            p->max_share > 1 ? "OverSubscribe as NO: jobs do not share CPUs in this version" : "");
        if (p->is_default)
            for (size_t k = 0; k + 1 < c->partition_count; k++)
                c->partitions[k].is_default = false;
    }
    return 0;
}
