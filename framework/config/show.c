/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - a configuration as `scontrol show config`, `show partition` and `show node` spell it.
 *
 * Only what follows from the files: what a running cluster adds (allocated CPUs, load, times) comes from the state. The order of the keys is
 * the newest one, except that DenyAccounts and the like stand where the Allow form would. Programs read this output by key, so a key is
 * never left out because its value is empty: it is (null). Pure but for config_show_user.
 */
#include "config/config.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "config/value.h"

enum show_kind { SHOW_KEY, SHOW_MANY, SHOW_FACT };
struct show_row { const char *name; enum show_kind kind; int key; };

#define KEY(key)        { #key, SHOW_KEY, CONF_##key },
#define ROW(name, key)  { name, SHOW_KEY, CONF_##key },
#define MANY(key)       { #key, SHOW_MANY, CONF_##key },
#define FACT(name)      { #name, SHOW_FACT, 0 },
static const struct show_row rows[] = {
    KEY(AccountingStorageBackupHost) KEY(AccountingStorageEnforce) KEY(AccountingStorageHost) KEY(AccountingStorageExternalHost)
    KEY(AccountingStorageParameters) KEY(AccountingStoragePort) KEY(AccountingStorageTRES) KEY(AccountingStorageType) KEY(AccountingStoreFlags)
    KEY(AcctGatherEnergyType) KEY(AcctGatherFilesystemType) KEY(AcctGatherInterconnectType) KEY(AcctGatherNodeFreq) KEY(AcctGatherProfileType)
    KEY(AllowSpecResourcesUsage) KEY(AuthAltTypes) KEY(AuthAltParameters) KEY(AuthInfo) KEY(AuthType) KEY(BatchStartTimeout) KEY(BcastExclude)
    KEY(BcastParameters) FACT(BOOT_TIME) KEY(BurstBufferType) KEY(CertgenParameters) KEY(CertgenType) KEY(CertmgrParameters) KEY(CertmgrType)
    KEY(CliFilterParameters) KEY(CliFilterPlugins) KEY(ClusterName) KEY(CommunicationParameters) KEY(CompleteWait) KEY(CpuFreqDef)
    KEY(CpuFreqGovernors) KEY(CredType) KEY(DataParserParameters) KEY(DebugFlags) KEY(DefMemPerNode) KEY(DefMemPerCPU) KEY(DefRuntimePlugin)
    KEY(DependencyParameters) KEY(DisableRootJobs) KEY(EioTimeout) KEY(EnforcePartLimits) MANY(Epilog) KEY(EpilogMsgTime) MANY(EpilogSlurmctld)
    KEY(FairShareDampeningFactor) KEY(FederationParameters) KEY(FirstJobId) KEY(GresTypes) KEY(GpuFreqDef) KEY(GroupUpdateForce)
    KEY(GroupUpdateTime) FACT(HASH_VAL) KEY(HashPlugin) KEY(HealthCheckInterval) KEY(HealthCheckNodeState) KEY(HealthCheckProgram)
    KEY(HealthCheckTimeout) KEY(HttpParserType) KEY(InactiveLimit) KEY(InteractiveStepOptions) KEY(JobAcctGatherFrequency) KEY(JobAcctGatherType)
    KEY(JobAcctGatherParams) KEY(JobCompHost) KEY(JobCompLoc) KEY(JobCompParams) KEY(JobCompPass) KEY(JobCompPort) KEY(JobCompType) KEY(JobCompUser)
    FACT(JobDefaults) KEY(JobFileAppend) KEY(JobRequeue) KEY(JobSubmitPlugins) KEY(KillOnBadExit) KEY(KillWait) KEY(LaunchParameters)
    KEY(LicenseParameters) KEY(Licenses) KEY(LogTimeFormat) KEY(MailDomain) KEY(MailProg) KEY(MaxArraySize) KEY(MaxBatchRequeue) KEY(MaxDBDMsgs)
    KEY(MaxJobCount) KEY(MaxJobId) KEY(MaxMemPerNode) KEY(MaxMemPerCPU) KEY(MaxNodeCount) KEY(MaxStepCount) KEY(MaxTasksPerNode) KEY(MCSPlugin)
    KEY(MCSParameters) KEY(MessageTimeout) KEY(MetricsAuthUsers) KEY(MetricsParameters) KEY(MetricsType) KEY(MinJobAge) KEY(MpiDefault)
    KEY(MpiParams) FACT(MULTIPLE_SLURMD) KEY(NamespaceType) FACT(NEXT_JOB_ID) KEY(NodeFeaturesPlugins) KEY(OverTimeLimit) KEY(PluginDir)
    KEY(PlugStackConfig) KEY(PreemptMode) KEY(PreemptParameters) KEY(PreemptType) KEY(PreemptExemptTime) KEY(PrEpParameters) KEY(PrEpPlugins)
    KEY(PriorityParameters) KEY(PrioritySiteFactorParameters) KEY(PrioritySiteFactorPlugin) KEY(PriorityType) KEY(PriorityDecayHalfLife)
    KEY(PriorityCalcPeriod) KEY(PriorityFavorSmall) KEY(PriorityFlags) KEY(PriorityMaxAge) KEY(PriorityUsageResetPeriod) KEY(PriorityWeightAge)
    KEY(PriorityWeightAssoc) ROW("PriorityWeightFairShare", PriorityWeightFairshare) KEY(PriorityWeightJobSize) KEY(PriorityWeightPartition)
    KEY(PriorityWeightQOS) KEY(PriorityWeightTRES) KEY(PrivateData) KEY(ProctrackType) MANY(Prolog) KEY(PrologEpilogTimeout) KEY(EpilogTimeout)
    KEY(PrologTimeout) MANY(PrologSlurmctld) KEY(PrologFlags) KEY(PropagatePrioProcess) KEY(PropagateResourceLimits)
    KEY(PropagateResourceLimitsExcept) KEY(RebootProgram) KEY(ReconfigFlags) KEY(RequeueExit) KEY(RequeueExitHold) KEY(ResumeFailProgram)
    KEY(ResumeProgram) KEY(ResumeRate) KEY(ResumeTimeout) KEY(ResvEpilog) KEY(ResvOverRun) KEY(ResvProlog) KEY(ReturnToService)
    KEY(SchedulerParameters) KEY(SchedulerTimeSlice) KEY(SchedulerType) KEY(ScronParameters) KEY(SelectType) KEY(SelectTypeParameters)
    KEY(SerializerParameters) KEY(SerializerPlugins) KEY(SlurmUser) KEY(SlurmctldAddr) KEY(SlurmctldDebug) KEY(SlurmctldHttpAuthParameters)
    MANY(SlurmctldHost) KEY(SlurmctldLogFile) KEY(SlurmctldPort) KEY(SlurmctldSyslogDebug) KEY(SlurmctldPrimaryOffProg) KEY(SlurmctldPrimaryOnProg)
    KEY(SlurmctldTimeout) KEY(SlurmctldParameters) KEY(SlurmdDebug) KEY(SlurmdHttpAuthParameters) KEY(SlurmdLogFile) KEY(SlurmdParameters)
    KEY(SlurmdPidFile) KEY(SlurmdPort) KEY(SlurmdSpoolDir) KEY(SlurmdSyslogDebug) KEY(SlurmdTimeout) KEY(SlurmdUser)
    KEY(SlurmrestdHttpAuthParameters) KEY(SlurmrestdParameters) KEY(SlurmSchedLogFile) KEY(SlurmSchedLogLevel) KEY(SlurmstepdParameters)
    KEY(SlurmctldPidFile) FACT(SLURM_CONF) FACT(SLURM_VERSION) KEY(SrunEpilog) KEY(SrunPortRange) KEY(SrunProlog) KEY(StateSaveLocation)
    KEY(SuspendExcNodes) KEY(SuspendExcParts) KEY(SuspendExcStates) KEY(SuspendProgram) KEY(SuspendRate) KEY(SuspendTime) KEY(SuspendTimeout)
    KEY(SwitchParameters) KEY(SwitchType) KEY(TaskEpilog) KEY(TaskPlugin) KEY(TaskPluginParam) KEY(TaskProlog) KEY(TCPTimeout) KEY(TLSParameters)
    KEY(TLSType) KEY(TmpFS) KEY(TopologyParam) KEY(TopologyPlugin) KEY(TrackWCKey) KEY(TreeWidth) ROW("UsePam", UsePAM) KEY(UnkillableStepProgram)
    KEY(UnkillableStepTimeout) KEY(UrlParserType) KEY(VSizeFactor) KEY(WaitTime)
};
#undef KEY
#undef ROW
#undef MANY
#undef FACT

typedef void show_fn(void *arg, const char *key, const char *value);

/* Epilog[0], SlurmctldHost[1]: one row a value; a key without a value has no index. */
static void show_many(const char *name, const char *text, show_fn *row, void *arg)
{
    char *copy = mem_copy(text), *cursor = copy, *value, key[64];
    unsigned n = 0;

    while ((value = word_next(&cursor, "\n"))) {
        snprintf(key, sizeof key, "%s[%u]", name, n++);
        row(arg, key, value);
    }
    if (!n)
        row(arg, name, "(null)");
    free(copy);
}

static void show_controllers(const struct config *c, show_fn *row, void *arg)
{
    for (size_t i = 0; i < c->controller_count; i++) {
        const struct config_controller *k = &c->controllers[i];
        struct str host;
        char key[64];

        str_init(&host);
        str_add(&host, k->host);
        if (strcmp(k->host, k->addr) != 0)
            str_addf(&host, "(%s)", k->addr);
        snprintf(key, sizeof key, "SlurmctldHost[%zu]", i);
        row(arg, key, host.text);
        str_fini(&host);
    }
}

static void show_fact(const struct config *c, const char *name, show_fn *row, void *arg)
{
    if (strcmp(name, "HASH_VAL") == 0)
        row(arg, name, "Match");
    else if (strcmp(name, "MULTIPLE_SLURMD") == 0)
        row(arg, name, "Yes");
    else if (strcmp(name, "SLURM_VERSION") == 0)
        row(arg, name, CONFIG_SLURM_VERSION);
    else if (strcmp(name, "SLURM_CONF") == 0)
        row(arg, name, c->path ? c->path : "/etc/slurm/slurm.conf");
    else if (strcmp(name, "JobDefaults") == 0) {
        char *text = job_defaults_text((uint64_t)config_number(c, CONF_DefCPUPerGPU), (uint64_t)config_number(c, CONF_DefMemPerGPU));

        row(arg, name, text ? text : "(null)");
        free(text);
    } else {
        row(arg, name, NULL);
    }
}

void config_show(const struct config *c, void (*row)(void *arg, const char *key, const char *value), void *arg)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct show_row *r = &rows[i];
        const char *text = r->kind == SHOW_FACT ? NULL : c->values[r->key].text;
        char number[24];

        if (r->kind == SHOW_FACT) {
            show_fact(c, r->name, row, arg);
            continue;
        }
        if (r->key == CONF_SlurmctldHost) {
            show_controllers(c, row, arg);
            continue;
        }
        if (r->kind == SHOW_MANY) {
            show_many(r->name, text, row, arg);
            continue;
        }
        switch (r->key) {
        case CONF_DefMemPerCPU: case CONF_MaxMemPerCPU:     /* one of the two is shown, by node unless by CPU is given */
            if (!c->values[r->key].is_set)
                continue;
            break;
        case CONF_DefMemPerNode:
            if (c->values[CONF_DefMemPerCPU].is_set)
                continue;
            break;
        case CONF_MaxMemPerNode:
            if (c->values[CONF_MaxMemPerCPU].is_set)
                continue;
            break;
        case CONF_MaxNodeCount:
            if (!c->values[r->key].is_set) {
                snprintf(number, sizeof number, "%zu", c->node_count);
                text = number;
            }
            break;
        case CONF_PropagateResourceLimits:
            if (c->values[CONF_PropagateResourceLimitsExcept].is_set && !c->values[r->key].is_set)
                text = NULL;
            break;
        case CONF_SlurmUser: case CONF_SlurmdUser:
            text = word_eq(text, "root") || word_eq(text, "0") ? "root(0)" : text;
            break;
        default:
            if (config_row((enum config_key)r->key)->type == CONFIG_SECRET && text)
                text = "********";
        }
        row(arg, r->name, text ? text : "(null)");
    }
}

void config_show_user(const char *name, struct str *out)
{
    struct passwd *pw = strchr(name, '(') ? NULL : getpwnam(name);
    uint32_t uid;

    if (!pw && number_u32(name, &uid) && (pw = getpwuid(uid)))
        name = pw->pw_name;
    str_add(out, name);
    if (pw)
        str_addf(out, "(%u)", (unsigned)pw->pw_uid);
}

/* --- partitions --- */

static void show_yes(show_fn *row, void *arg, const char *key, bool is)
{
    row(arg, key, is ? "YES" : "NO");
}

static void show_count(show_fn *row, void *arg, const char *key, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    row(arg, key, n == UINT32_MAX ? "UNLIMITED" : text);
}

static void show_minutes(show_fn *row, void *arg, const char *key, uint32_t minutes)
{
    struct str text;

    str_init(&text);
    if (minutes == MINUTES_NOT_SET)
        str_add(&text, "NONE");
    else
        minutes_print(minutes, &text);
    row(arg, key, text.text);
    str_fini(&text);
}

/* DefMemPerCPU or DefMemPerNode, MaxMemPerCPU or MaxMemPerNode; 0 is no limit. */
static void show_memory(show_fn *row, void *arg, const char *by_cpu, const char *by_node, bool set, bool is_cpu, uint64_t cpu, uint64_t node)
{
    uint64_t mib = is_cpu ? cpu : node;

    show_count(row, arg, set && is_cpu ? by_cpu : by_node, set && mib ? mib : UINT32_MAX);
}

void config_partition_totals(const struct config *c, const struct config_partition *p, uint64_t *cpus, uint64_t *nodes, uint64_t *mem_mib)
{
    *cpus = *nodes = *mem_mib = 0;
    for (size_t i = bitmap_first(&p->nodes); i < p->nodes.bits && i < c->node_count; i = bitmap_next(&p->nodes, i)) {
        *cpus += c->nodes[i].cpus;
        *mem_mib += c->nodes[i].mem_mib;
        ++*nodes;
    }
}

void config_partition_measure(const struct config *c, struct config_partition *p)
{
    p->least_mem_mib = 0;
    for (size_t i = bitmap_first(&p->nodes); i < p->nodes.bits && i < c->node_count; i = bitmap_next(&p->nodes, i))
        if (!p->least_mem_mib || c->nodes[i].mem_mib < p->least_mem_mib)
            p->least_mem_mib = c->nodes[i].mem_mib;
}

void config_show_partition(const struct config *c, const struct config_partition *p, void (*row)(void *arg, const char *key, const char *value), void *arg)
{
    uint64_t cpus, nodes, mem;
    const char *share = p->oversubscribe ? p->oversubscribe : "NO";

    config_partition_totals(c, p, &cpus, &nodes, &mem);
    row(arg, "PartitionName", p->name);
    row(arg, "AllowGroups", p->allow_groups ? p->allow_groups : "ALL");
    if (p->allow_accounts || !p->deny_accounts)
        row(arg, "AllowAccounts", p->allow_accounts ? p->allow_accounts : "ALL");
    else
        row(arg, "DenyAccounts", p->deny_accounts);
    if (p->allow_qos || !p->deny_qos)
        row(arg, "AllowQos", p->allow_qos ? p->allow_qos : "ALL");
    else
        row(arg, "DenyQos", p->deny_qos);
    row(arg, "AllocNodes", p->alloc_nodes ? p->alloc_nodes : "ALL");
    if (p->alternate)
        row(arg, "Alternate", p->alternate);
    show_yes(row, arg, "Default", p->is_default);
    if (p->cpu_bind)
        row(arg, "CpuBind", p->cpu_bind);
    row(arg, "QoS", p->qos ? p->qos : "N/A");
    show_minutes(row, arg, "DefaultTime", p->default_time_min);
    show_yes(row, arg, "DisableRootJobs", p->disable_root_jobs);
    show_yes(row, arg, "ExclusiveUser", p->exclusive_user);
    show_count(row, arg, "GraceTime", p->grace_time);
    show_yes(row, arg, "Hidden", p->hidden);
    show_count(row, arg, "MaxNodes", p->max_nodes);
    show_minutes(row, arg, "MaxTime", p->max_time_min);
    show_count(row, arg, "MinNodes", p->min_nodes);
    show_yes(row, arg, "LLN", p->lln);
    show_count(row, arg, "MaxCPUsPerNode", p->max_cpus_per_node);
    show_count(row, arg, "MaxCPUsPerSocket", p->max_cpus_per_socket);
    if (p->nodesets)
        row(arg, "NodeSets", p->nodesets);
    row(arg, "Nodes", p->nodes_text ? p->nodes_text : "(null)");
    show_count(row, arg, "PriorityJobFactor", p->priority_job_factor);
    show_count(row, arg, "PriorityTier", p->priority_tier);
    show_yes(row, arg, "RootOnly", p->root_only);
    show_yes(row, arg, "ReqResv", p->req_resv);
    row(arg, "OverSubscribe", share);
    if (p->over_time_limit == MINUTES_NOT_SET)
        row(arg, "OverTimeLimit", "NONE");
    else
        show_count(row, arg, "OverTimeLimit", p->over_time_limit);
    row(arg, "PreemptMode", p->preempt_mode ? p->preempt_mode : config_text(c, CONF_PreemptMode));
    row(arg, "State", p->state ? p->state : "UP");
    show_count(row, arg, "TotalCPUs", cpus);
    show_count(row, arg, "TotalNodes", nodes);
    row(arg, "SelectTypeParameters", p->select_params ? p->select_params : "NONE");
    row(arg, "JobDefaults", p->job_defaults ? p->job_defaults : "(null)");
    show_memory(row, arg, "DefMemPerCPU", "DefMemPerNode", p->def_mem_set, p->def_mem_is_cpu, p->def_mem_per_cpu, p->def_mem_per_node);
    show_memory(row, arg, "MaxMemPerCPU", "MaxMemPerNode", p->max_mem_set, p->max_mem_is_cpu, p->max_mem_per_cpu, p->max_mem_per_node);
    row(arg, "TRES", NULL);
    if (p->tres_weights)
        row(arg, "TRESBillingWeights", p->tres_weights);
    if (p->suspend_time || p->suspend_timeout || p->resume_timeout) {
        row(arg, "ResumeTimeout", p->resume_timeout ? p->resume_timeout : "GLOBAL");
        row(arg, "SuspendTimeout", p->suspend_timeout ? p->suspend_timeout : "GLOBAL");
        row(arg, "SuspendTime", p->suspend_time ? p->suspend_time : "GLOBAL");
    }
    if (p->power_down_on_idle)
        show_yes(row, arg, "PowerDownOnIdle", true);
}

/* --- nodes --- */

/* How the state of a node is shown that has never answered. */
static const char *state_shown(const char *state)
{
    static const struct { const char *state, *shown; } words[] = {
        { "CLOUD", "IDLE+CLOUD+POWERED_DOWN" }, { "DRAIN", "UNKNOWN+DRAIN" }, { "FAIL", "IDLE+FAIL" }, { 0 } };

    for (int i = 0; words[i].state; i++)
        if (word_eq(words[i].state, state))
            return words[i].shown;
    return state ? state : "UNKNOWN";
}

/* "p1,p2": the partitions that hold the node, in file order; NULL when none does. */
static char *node_partitions(const struct config *c, size_t index)
{
    struct str text;

    str_init(&text);
    for (size_t i = 0; i < c->partition_count; i++)
        if (bitmap_test(&c->partitions[i].nodes, index))
            str_addf(&text, "%s%s", text.len ? "," : "", c->partitions[i].name);
    if (text.len)
        return str_take(&text);
    str_fini(&text);
    return NULL;
}

uint32_t config_node_usable_cpus(const struct config_node *n)
{
    uint32_t per_core = n->cpus > n->sockets * n->cores_per_socket ? n->threads_per_core : 1, special = 0;
    struct bitmap cpus;

    if (n->cpu_spec_list) {
        bitmap_init(&cpus, n->cpus);
        if (bitmap_parse(&cpus, n->cpu_spec_list, NULL) == 0)
            special = (uint32_t)bitmap_count(&cpus);
        bitmap_fini(&cpus);
    } else if (n->core_spec) {
        special = n->core_spec > n->cpus / per_core ? n->cpus : n->core_spec * per_core;
    }
    return special < n->cpus ? n->cpus - special : 0;
}

void config_show_node(const struct config *c, const struct config_node *n, void (*row)(void *arg, const char *key, const char *value), void *arg)
{
    char *partitions = node_partitions(c, (size_t)(n - c->nodes));

    row(arg, "NodeName", n->name);
    show_count(row, arg, "CoresPerSocket", n->cores_per_socket);
    show_count(row, arg, "CPUEfctv", config_node_usable_cpus(n));
    show_count(row, arg, "CPUTot", n->cpus);
    row(arg, "AvailableFeatures", n->features ? n->features : "(null)");
    row(arg, "ActiveFeatures", n->features ? n->features : "(null)");
    row(arg, "Gres", n->gres_text ? n->gres_text : "(null)");
    row(arg, "NodeAddr", n->addr);
    row(arg, "NodeHostName", n->hostname);
    if (n->port != (uint16_t)config_number(c, CONF_SlurmdPort))
        show_count(row, arg, "Port", n->port);
    show_count(row, arg, "RealMemory", n->mem_mib);
    show_count(row, arg, "Sockets", n->sockets);
    show_count(row, arg, "Boards", n->boards);
    if (n->core_spec)
        show_count(row, arg, "CoreSpecCount", n->core_spec);
    if (n->cpu_spec_list)
        row(arg, "CPUSpecList", n->cpu_spec_list);
    if (n->mem_spec_mib)
        show_count(row, arg, "MemSpecLimit", n->mem_spec_mib);
    row(arg, "State", state_shown(n->state));
    show_count(row, arg, "ThreadsPerCore", n->threads_per_core);
    show_count(row, arg, "TmpDisk", n->tmp_mib);
    show_count(row, arg, "Weight", n->weight);
    if (partitions)
        row(arg, "Partitions", partitions);
    if (n->reason)
        row(arg, "Reason", n->reason);
    free(partitions);
}
