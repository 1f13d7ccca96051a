/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - list values whose words have one spelling and one order: PrivateData, PrologFlags, SelectTypeParameters, ...
 *
 * The order of each table is the order in which `scontrol show config` prints the words, as seen on Slurm's own; words
 * of newer generations follow where their neighbours are. A strict table refuses a word it does not know, as Slurm
 * does; the others drop it with a warning, for there Slurm goes on as well. Called by value.c only.
 */
#include "config/value.h"

#include <stdlib.h>
#include <string.h>

struct word { const char *name, *shown; };      /* shown NULL: accepted, says nothing any more */

static const struct word words_enforce[] = {
    { "associations", "associations" }, { "limits", "limits" }, { "qos", "qos" }, { "safe", "safe" }, { "wckeys", "wckeys" },
    { "nojobs", "nojobs" }, { "nosteps", "nosteps" }, { 0 } };
static const struct word words_store[] = {
    { "job_comment", "job_comment" }, { "job_env", "job_env" }, { "job_extra", "job_extra" }, { "job_script", "job_script" },
    { "no_stdio", "no_stdio" }, { 0 } };
static const struct word words_governor[] = {
    { "Low", "Low" }, { "Medium", "Medium" }, { "Highm1", "Highm1" }, { "High", "High" },
    { "Conservative", "Conservative" }, { "OnDemand", "OnDemand" }, { "Performance", "Performance" }, { "PowerSave", "PowerSave" },
    { "SchedUtil", "SchedUtil" }, { "UserSpace", "UserSpace" }, { 0 } };
static const struct word words_debug[] = {
    { "Accrue", "Accrue" }, { "JobAccountGather", "JobAccountGather" }, { "JobAcct", "JobAccountGather" }, { "Agent", "Agent" },
    { "AuditRPCs", "AuditRPCs" }, { "AuditTLS", "AuditTLS" }, { "Backfill", "Backfill" }, { "BackfillMap", "BackfillMap" },
    { "BurstBuffer", "BurstBuffer" }, { "Cgroup", "Cgroup" }, { "ConMgr", "ConMgr" }, { "CpuFrequency", "CpuFrequency" }, { "CPU_Bind", "CPU_Bind" },
    { "Data", "Data" }, { "DBD_Agent", "DBD_Agent" }, { "Dependency", "Dependency" }, { "Elasticsearch", "Elasticsearch" }, { "Energy", "Energy" },
    { "ExtSensors", "ExtSensors" }, { "Federation", "Federation" }, { "Gang", "Gang" }, { "GLOB_SILENCE", "GLOB_SILENCE" }, { "Gres", "Gres" },
    { "Hetjob", "Hetjob" }, { "Interconnect", "Interconnect" }, { "JobComp", "JobComp" }, { "JobContainer", "JobContainer" }, { "Metrics", "Metrics" },
    { "Namespace", "Namespace" }, { "NodeFeatures", "NodeFeatures" }, { "License", "License" }, { "Network", "Network" }, { "NetworkRaw", "NetworkRaw" },
    { "NO_CONF_HASH", "NO_CONF_HASH" }, { "Power", "Power" }, { "Priority", "Priority" }, { "Profile", "Profile" }, { "Protocol", "Protocol" },
    { "Reservation", "Reservation" }, { "Route", "Route" }, { "Script", "Script" }, { "SelectType", "SelectType" }, { "Steps", "Steps" },
    { "Switch", "Switch" }, { "thread", "Thread" }, { "TLS", "TLS" }, { "TraceJobs", "TraceJobs" }, { "Triggers", "Triggers" },
    { "CPU_Freq", "CpuFrequency" }, { "Filesystem", NULL }, { "FrontEnd", NULL }, { "NO_REALTIME", NULL }, { "Task", NULL }, { "TimeCray", NULL },
    { "BgBlockAlgo", NULL }, { "BgBlockAlgoDeep", NULL }, { "BgBlockPick", NULL }, { "BgBlockWires", NULL }, { "Wiki", NULL },
    { "DB_Archive", NULL }, { "Steps_Old", NULL }, { 0 } };
static const struct word words_health[] = {
    { "CYCLE", "CYCLE" }, { "IDLE", "IDLE" }, { "ALLOC", "ALLOC" }, { "MIXED", "MIXED" }, { "NONDRAINED_IDLE", "NONDRAINED_IDLE" },
    { "REBOOT_ONLY", "REBOOT_ONLY" }, { "START_ONLY", "START_ONLY" }, { "ANY", "ANY" }, { 0 } };
static const struct word words_preempt[] = {
    { "GANG", "GANG" }, { "CANCEL", "CANCEL" }, { "REQUEUE", "REQUEUE" }, { "SUSPEND", "SUSPEND" }, { "PRIORITY", "PRIORITY" }, { "WITHIN", "WITHIN" },
    { "OFF", NULL }, { 0 } };
static const struct word words_priority[] = {
    { "ACCRUE_ALWAYS", "ACCRUE_ALWAYS" }, { "SMALL_RELATIVE_TO_TIME", "SMALL_RELATIVE_TO_TIME" }, { "CALCULATE_RUNNING", "CALCULATE_RUNNING" },
    { "DEPTH_OBLIVIOUS", "DEPTH_OBLIVIOUS" }, { "NO_FAIR_TREE", "NO_FAIR_TREE" }, { "INCR_ONLY", "INCR_ONLY" }, { "MAX_TRES", "MAX_TRES" },
    { "MAX_TRES_GRES", "MAX_TRES_GRES" }, { "NO_NORMAL_ALL", "NO_NORMAL_ALL" }, { "NO_NORMAL_ASSOC", "NO_NORMAL_ASSOC" },
    { "NO_NORMAL_PART", "NO_NORMAL_PART" }, { "NO_NORMAL_QOS", "NO_NORMAL_QOS" }, { "NO_NORMAL_TRES", "NO_NORMAL_TRES" },
    { "FAIR_TREE", NULL }, { "TICKET_BASED", NULL }, { "LEVEL_BASED", NULL }, { 0 } };
static const struct word words_private[] = {
    { "accounts", "accounts" }, { "cloud", "cloud" }, { "events", "events" }, { "jobs", "jobs" }, { "nodes", "nodes" }, { "partitions", "partitions" },
    { "reservations", "reservations" }, { "usage", "usage" }, { "users", "users" }, { "none", NULL }, { 0 } };
static const struct word words_prolog[] = {
    { "Alloc", "Alloc" }, { "Contain", "Contain" }, { "DeferBatch", "DeferBatch" }, { "NoHold", "NoHold" }, { "ForceRequeueOnFail", "ForceRequeueOnFail" },
    { "RunInJob", "RunInJob" }, { "Serial", "Serial" }, { "X11", "X11" }, { 0 } };
static const struct word words_limits[] = {
    { "ALL", "ALL" }, { "NONE", "NONE" }, { "AS", "AS" }, { "CORE", "CORE" }, { "CPU", "CPU" }, { "DATA", "DATA" }, { "FSIZE", "FSIZE" },
    { "MEMLOCK", "MEMLOCK" }, { "NOFILE", "NOFILE" }, { "NPROC", "NPROC" }, { "RSS", "RSS" }, { "STACK", "STACK" }, { 0 } };
static const struct word words_reconfig[] = {
    { "KeepPartInfo", "KeepPartInfo" }, { "KeepPartState", "KeepPartState" }, { "KeepPowerSaveSettings", "KeepPowerSaveSettings" }, { 0 } };
static const struct word words_select[] = {
    { "CR_CPU", "CR_CPU" }, { "CR_CPU_MEMORY", "CR_CPU_MEMORY" }, { "CR_CORE", "CR_CORE" }, { "CR_CORE_MEMORY", "CR_CORE_MEMORY" },
    { "CR_SOCKET", "CR_SOCKET" }, { "CR_SOCKET_MEMORY", "CR_SOCKET_MEMORY" }, { "CR_BOARD", "CR_BOARD" }, { "CR_BOARD_MEMORY", "CR_BOARD_MEMORY" },
    { "CR_MEMORY", "CR_MEMORY" }, { "OTHER_CONS_RES", "OTHER_CONS_RES" }, { "OTHER_CONS_TRES", "OTHER_CONS_TRES" },
    { "CR_ONE_TASK_PER_CORE", "CR_ONE_TASK_PER_CORE" }, { "CR_CORE_DEFAULT_DIST_BLOCK", "CR_CORE_DEFAULT_DIST_BLOCK" }, { "CR_LLN", "CR_LLN" },
    { "CR_PACK_NODES", "CR_PACK_NODES" }, { "LL_SHARED_GRES", "LL_SHARED_GRES" }, { "MULTIPLE_SHARING_GRES_PJ", "MULTIPLE_SHARING_GRES_PJ" },
    { "ENFORCE_BINDING_GRES", "ENFORCE_BINDING_GRES" }, { "ONE_TASK_PER_SHARING_GRES", "ONE_TASK_PER_SHARING_GRES" },
    { "CR_NO_DIST_TOPO_BLOCK", "CR_NO_DIST_TOPO_BLOCK" }, { "NONE", NULL }, { 0 } };
static const struct word words_taskparam[] = {
    { "none", "none" }, { "SlurmdOffSpec", "slurmdoffspec" }, { "SlurmdSpecOverride", "slurmdspecoverride" }, { "OOMKillStep", "oomkillstep" },
    { "verbose", "verbose" }, { "quiet", "quiet" }, { "sockets", "sockets" }, { "cores", "cores" }, { "threads", "threads" }, { "boards", "boards" },
    { "ldoms", "ldoms" }, { "autobind=none", "autobind=none" }, { "autobind=cores", "autobind=cores" }, { "autobind=threads", "autobind=threads" },
    { "autobind=sockets", "autobind=sockets" }, { "sched", NULL }, { "cpusets", NULL }, { 0 } };
static const struct word words_logtime[] = {
    { "iso8601", "iso8601" }, { "iso8601_ms", "iso8601_ms" }, { "rfc5424", "rfc5424" }, { "rfc5424_ms", "rfc5424_ms" }, { "rfc3339", "rfc3339" },
    { "clock", "clock" }, { "short", "short" }, { "thread_id", "thread_id" }, { "format_stderr", "format_stderr" }, { 0 } };
static const struct word words_partlimits[] = {
    { "NO", "NO" }, { "ALL", "ALL" }, { "ANY", "ANY" }, { "YES", "ANY" }, { "UP", "ANY" }, { "TRUE", "ANY" }, { "1", "ANY" },
    { "DOWN", "NO" }, { "FALSE", "NO" }, { "0", "NO" }, { 0 } };
static const struct word words_period[] = {
    { "NONE", "NONE" }, { "NOW", "NOW" }, { "DAILY", "DAILY" }, { "WEEKLY", "WEEKLY" }, { "MONTHLY", "MONTHLY" }, { "QUARTERLY", "QUARTERLY" },
    { "YEARLY", "YEARLY" }, { 0 } };

static const struct words {
    enum config_type type;
    const struct word *table;
    bool  strict, single;       /* refuse unknown words; one word only */
    bool  as_written;           /* order and spelling stay */
    const char *when_empty;     /* shown when no word is left */
} lists[] = {
    { CONFIG_ENFORCE,    words_enforce,    .strict = true, .when_empty = "none" },
    { CONFIG_STORE,      words_store },
    { CONFIG_GOVERNOR,   words_governor, .when_empty = "Unknown" },
    { CONFIG_DEBUG,      words_debug },
    { CONFIG_HEALTH,     words_health, .when_empty = "ANY" },
    { CONFIG_PREEMPT,    words_preempt,    .strict = true, .when_empty = "OFF" },
    { CONFIG_PRIORITY,   words_priority },
    { CONFIG_PRIVATE,    words_private, .when_empty = "none" },
    { CONFIG_PROLOG,     words_prolog,     .strict = true },
    { CONFIG_LIMITS,     words_limits,     .strict = true, .as_written = true },
    { CONFIG_RECONFIG,   words_reconfig },
    { CONFIG_SELECT,     words_select,     .strict = true, .when_empty = "NONE" },
    { CONFIG_TASKPARAM,  words_taskparam,  .when_empty = "(null type)" },
    { CONFIG_LOGTIME,    words_logtime,    .as_written = true, .when_empty = "iso8601_ms" },
    { CONFIG_PARTLIMITS, words_partlimits, .strict = true, .single = true },
    { CONFIG_PERIOD,     words_period,     .strict = true, .single = true },
};

#define WORDS_MAX 64

static const char *nearest_word(const char *text, const struct word *table)
{
    const char *names[WORDS_MAX + 1];
    size_t n = 0;

    for (; table[n].name && n < WORDS_MAX; n++)
        names[n] = table[n].name;
    names[n] = NULL;
    return word_nearest(text, names);
}

static void add_shown(struct str *out, const char *text)
{
    if (out->len)
        str_add_char(out, ',');
    str_add(out, text);
}

/* Old spellings that a table row cannot hold. True when `have` now stands for the word. */
static bool words_special(enum config_type type, const char *word, const struct word *table, bool *have)
{
    size_t i;

    if (type == CONFIG_ENFORCE && (word_eq(word, "none") || word_eq(word, "no") || word_eq(word, "0")))
        return true;
    if (type == CONFIG_ENFORCE && (word_eq(word, "yes") || word_eq(word, "1") || word_eq(word, "true")))
        word = "associations", have[0] = true;
    else if (type == CONFIG_ENFORCE && word_eq(word, "all")) {
        for (i = 0; i < 5; i++)     /* all but nojobs and nosteps */
            have[i] = true;
    } else if (type == CONFIG_PRIVATE && word_eq(word, "all")) {
        for (i = 0; table[i].name; i++)
            have[i] = table[i].shown != NULL;
    } else if (type == CONFIG_TASKPARAM && word_starts(word, "autobind=")) {
        return false;
    } else {
        return false;
    }
    return true;
}

int words_read(enum config_type type, const char *raw, struct str *out, struct str *warn, struct spur_error *err)
{
    const struct words *list = NULL;
    bool have[WORDS_MAX] = { false };
    char *copy = mem_copy(raw), *cursor = copy, *word;
    int rc = 0;
    size_t i;

    for (i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].type == type)
            list = &lists[i];
    while ((word = word_next(&cursor, list->as_written || list->single ? ", \t" : ", \t;"))) {
        for (i = 0; list->table[i].name && !word_eq(list->table[i].name, word); i++)
            ;
        if (list->table[i].name) {
            if (list->as_written)
                add_shown(out, type == CONFIG_LIMITS ? list->table[i].name : list->table[i].shown);
            else if (list->single) {
                str_clear(out);
                str_add(out, list->table[i].shown);
            } else if (list->table[i].shown) {
                have[i] = true;
            } else if (type == CONFIG_DEBUG || type == CONFIG_PRIORITY || type == CONFIG_TASKPARAM) {
                add_shown(warn, word);
            }
        } else if (words_special(type, word, list->table, have)) {
            continue;
        } else if (list->strict) {
            const char *near = nearest_word(word, list->table);

            rc = spur_fail(err, SPUR_EINVAL, "unknown word \"%.60s\"%s%s%s", word, near ? " (nearest known: " : "", near ? near : "", near ? ")" : "");
            goto out;
        } else {
            add_shown(warn, word);
        }
    }
    if (type == CONFIG_ENFORCE && (have[1] || have[2] || have[3] || have[4]))
        have[0] = true;
    if (type == CONFIG_ENFORCE && have[3])
        have[1] = true;             /* safe implies limits, as the manual says */
    if (type == CONFIG_PROLOG && (have[1] || have[7] || have[5] || have[3] || have[2]))
        have[0] = true;             /* Contain, X11, RunInJob, NoHold and DeferBatch imply Alloc */
    if (type == CONFIG_PROLOG && (have[7] || have[5]))
        have[1] = true;             /* X11 and RunInJob imply Contain */
    if (type == CONFIG_PROLOG && have[3] && have[1]) {
        rc = spur_fail(err, SPUR_EINVAL, "NoHold cannot stand beside Contain, RunInJob or X11");
        goto out;
    }
    if (type == CONFIG_PRIORITY && have[3])
        have[4] = true;             /* DEPTH_OBLIVIOUS is of the older algorithm */
    if (type == CONFIG_PRIORITY && have[9] && have[10] && have[11] && have[12])
        have[8] = true;
    if (type == CONFIG_PRIORITY && have[8])
        have[9] = have[10] = have[11] = have[12] = false;
    if (type == CONFIG_SELECT)
        for (i = 0; i < 8; i += 2)          /* CR_CORE,CR_MEMORY is CR_CORE_MEMORY; have[8] is CR_MEMORY */
            if ((have[i] && have[8]) || have[i + 1])
                have[i] = false, have[i + 1] = true;
    if (type == CONFIG_SELECT && have[0] + have[1] + have[2] + have[3] + have[4] + have[5] + have[6] + have[7] > 1) {
        rc = spur_fail(err, SPUR_EINVAL, "more than one of CPU, CORE, SOCKET and BOARD");
        goto out;
    }
    if (type == CONFIG_SELECT && (have[1] || have[3] || have[5] || have[7]))
        have[8] = false;
    if (type == CONFIG_HEALTH && have[7])
        for (i = 0; i < 7; i++)
            have[i] = false;
    if (type == CONFIG_PREEMPT && have[1] + have[2] + have[3] > 1) {
        rc = spur_fail(err, SPUR_EINVAL, "more than one of CANCEL, REQUEUE and SUSPEND");
        goto out;
    }
    if (type == CONFIG_PREEMPT && have[3] && !have[0]) {
        rc = spur_fail(err, SPUR_EINVAL, "SUSPEND needs GANG beside it");
        goto out;
    }
    if (!list->as_written && !list->single)
        for (i = 0; list->table[i].name; i++)
            if (have[i])
                add_shown(out, list->table[i].shown);
    if (!out->len && list->when_empty)
        str_add(out, list->when_empty);
    if (list->single && !out->len)
        rc = spur_fail(err, SPUR_EINVAL, "empty value");
out:
    free(copy);
    return rc;
}
