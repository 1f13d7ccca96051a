/* SPDX-License-Identifier: Apache-2.0 */
/* test_values.c - global keywords: the table, canonical texts, refusals. Expected texts are those of Slurm's `scontrol show config`. */
#include "test_config.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/value.h"

static const struct { const char *line, *shown; } values[] = {
    { "ClusterName=Corners", "corners" },
    { "clustername = X", "x" },
    { "SlurmdTimeout=77", "77 sec" },
    { "SlurmdTimeout=UNLIMITED", "65535 sec" },
    { "SuspendTime=-1", "INFINITE" },
    { "SuspendTime=300", "300 sec" },
    { "OverTimeLimit=10", "10 min" },
    { "OverTimeLimit=UNLIMITED", "UNLIMITED" },
    { "EpilogMsgTime=4000", "4000 usec" },
    { "ResumeRate=10", "10 nodes/min" },
    { "VSizeFactor=110", "110 percent" },
    { "TreeWidth=0xfe", "254" },
    { "DisableRootJobs=yes", "Yes" },
    { "UsePAM=1", "Yes" },
    { "TrackWCKey=up", "Yes" },
    { "PriorityDecayHalfLife=1-0", "1-00:00:00" },
    { "PriorityDecayHalfLife=14-0", "14-00:00:00" },
    { "PriorityDecayHalfLife=7-12:30:10", "7-12:31:00" },
    { "PriorityFlags=DEPTH_OBLIVIOUS", "DEPTH_OBLIVIOUS,NO_FAIR_TREE" },
    { "MinJobAge=0", "2 sec" },
    { "LogTimeFormat=sundial", "iso8601_ms" },
    { "PriorityCalcPeriod=2", "00:02:00" },
    { "PreemptExemptTime=1:00:00", "01:00:00" },
    { "PreemptExemptTime=-1", "NONE" },
    { "DefMemPerCPU=1024", "1024" },
    { "DefMemPerNode=0", "UNLIMITED" },
    { "MaxMemPerNode=2G", "2048" },
    { "SlurmctldPort=6820-6830", "6820-6830" },
    { "SlurmctldDebug=3", "info" },
    { "SlurmdDebug=7", "debug3" },
    { "SlurmdDebug=DEBUG2", "debug2" },
    { "SelectTypeParameters=cr_core_memory", "CR_CORE_MEMORY" },
    { "SelectTypeParameters=CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK,CR_ONE_TASK_PER_CORE", "CR_CORE_MEMORY,CR_ONE_TASK_PER_CORE,CR_CORE_DEFAULT_DIST_BLOCK" },
    { "SelectTypeParameters=CR_Pack_Nodes,cr_lln,CR_Core,CR_Memory", "CR_CORE_MEMORY,CR_LLN,CR_PACK_NODES" },
    { "PreemptMode=suspend,gang", "GANG,SUSPEND" },
    { "PreemptMode=requeue", "REQUEUE" },
    { "PreemptMode=off", "OFF" },
    { "PrologFlags=Alloc,Serial,Contain", "Alloc,Contain,Serial" },
    { "PrologFlags=contain,x11", "Alloc,Contain,X11" },
    { "PrologFlags=x11", "Alloc,Contain,X11" },
    { "PriorityFlags=FAIR_TREE,SMALL_RELATIVE_TO_TIME,MAX_TRES", "SMALL_RELATIVE_TO_TIME,MAX_TRES" },
    { "PriorityFlags=NO_NORMAL_TRES,NO_NORMAL_QOS,NO_NORMAL_PART,NO_NORMAL_ASSOC", "NO_NORMAL_ALL" },
    { "PriorityUsageResetPeriod=weekly", "WEEKLY" },
    { "PrivateData=jobs,foo", "jobs" },
    { "PrivateData=users,cloud,accounts", "accounts,cloud,users" },
    { "PrivateData=none", "none" },
    { "EnforcePartLimits=yes", "ANY" },
    { "EnforcePartLimits=all", "ALL" },
    { "DebugFlags=CPU_Bind,gres,backfill,NO_CONF_HASH", "Backfill,CPU_Bind,Gres,NO_CONF_HASH" },
    { "HealthCheckNodeState=mixed,idle,cycle", "CYCLE,IDLE,MIXED" },
    { "HealthCheckNodeState=any", "ANY" },
    { "CpuFreqGovernors=UserSpace,OnDemand,Conservative", "Conservative,OnDemand,UserSpace" },
    { "AccountingStorageEnforce=limits,qos", "associations,limits,qos" },
    { "AccountingStoreFlags=job_script,job_comment", "job_comment,job_script" },
    { "TaskPluginParam=None", "none" },
    { "TaskPluginParam=cores,verbose,autobind=threads", "verbose,cores,autobind=threads" },
    { "PropagateResourceLimits=STACK,RSS", "STACK,RSS" },
    { "RebootProgram=\"/sbin/reboot -f\"", "/sbin/reboot -f" },
    { "MailProg=/usr/local/bin/mail\\#1", "/usr/local/bin/mail#1" },
    { "SchedulerParameters=bf_window=10080,\\\nbf_resolution=300,\\\ndefer", "bf_window=10080,bf_resolution=300,defer" },
    { "SchedulerParameters=defer\nSchedulerParameters+=bf_continue", "bf_continue" },
    { "MaxArraySize=4000002", "4000001" },
    { "MaxArraySize=200001", "200001" },
    { "StoreType=store/raft", "store/raft" },
};

/* The value of the key at the beginning of `line`, after parsing it. */
static char *shown_of(const char *line, struct spur_error *err)
{
    char name[64];
    struct config *c;
    char *text;
    int key;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " =+"), line);
    key = config_key_find(name);
    ck_assert_int_ge(key, 0);
    if (config_parse(line, NULL, NULL, NULL, NULL, &c, err) < 0)
        return NULL;
    text = mem_copy(config_text(c, (enum config_key)key));
    config_free(c);
    return text;
}

START_TEST(canonical)
{
    struct spur_error err = { 0 };
    char *got = shown_of(values[_i].line, &err);

    ck_assert_msg(got != NULL, "%s: %s", values[_i].line, err.text);
    ck_assert_str_eq(got, values[_i].shown);
    free(got);
}
END_TEST

static const struct { const char *text, *sentence; } refused[] = {
    { "SlurmdTimeot=5", "slurm.conf line 1: unknown keyword \"SlurmdTimeot\" (nearest known: SlurmdTimeout)" },
    { "\n\nClusterNam=x", "line 3: unknown keyword \"ClusterNam\" (nearest known: ClusterName)" },
    { "Zzzzzzzzz=1", "unknown keyword \"Zzzzzzzzz\"" },
    { "SlurmdTimeout=abc", "\"abc\" is not a number" },
    { "SlurmdTimeout=-5", "less than zero" },
    { "MinJobAge=-1", "less than zero" },
    { "FirstJobId=0", "1 or more" },
    { "MaxJobCount=0", "1 or more" },
    { "SlurmdTimeout=99999999", "more than 65535" },
    { "MaxArraySize=many", "not a number" },
    { "SelectTypeParameters=CR_CPU,CR_Core", "more than one of" },
    { "PreemptMode=CANCEL,GANG,SUSPEND", "more than one of" },
    { "SchedulerType=sched/foo", "neither sched/backfill nor" },
    { "DisableRootJobs=maybe", "neither yes nor no" },
    { "EnforcePartLimits=foo", "unknown word \"foo\"" },
    { "PreemptMode=suspend", "SUSPEND needs GANG" },
    { "PrologFlags=x11,nohold", "NoHold cannot" },
    { "SelectTypeParameters=CR_Coree", "nearest known: CR_CORE" },
    { "SlurmctldPort=70000", "not a port" },
    { "SlurmctldDebug=loud", "not a level" },
    { "RebootProgram=/bin/x SlurmdTimeout=77", "one keyword a line" },
    { "RebootProgram=/bin/a \"b\"", "cannot read" },
    { "RebootProgram=", "expected KEYWORD=VALUE" },
    { "RebootProgram", "expected KEYWORD=VALUE" },
    { "SlurmctldHost=a(b", "HOST(ADDRESS)" },
    { "SlurmctldHost=(1.2.3.4)", "HOST(ADDRESS)" },
    { "include x.conf", "include cannot be followed" },
    { "PriorityDecayHalfLife=soon", "PriorityDecayHalfLife" },
};

START_TEST(refusals)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_int_lt(config_parse(refused[_i].text, NULL, NULL, NULL, NULL, &c, &err), 0);
    ck_assert_ptr_null(c);
    ck_assert_msg(strstr(err.text, refused[_i].sentence) != NULL, "%s\n  said: %s\n  not: %s", refused[_i].text, err.text, refused[_i].sentence);
    ck_assert_msg(strstr(err.text, "slurm.conf line") != NULL, "%s", err.text);
}
END_TEST

/* keys.def is searched by halves: its order must hold; and each default must be what its own type makes of it. */
START_TEST(table_of_keys)
{
    struct str warn;

    str_init(&warn);
    for (int k = 0; k < CONF_COUNT; k++) {
        const struct config_row *row = config_row((enum config_key)k);
        struct config_value v = { 0 };
        char bare[80];

        ck_assert_msg(config_key_find(row->name) == k, "%s is not in its place", row->name);
        if (row->effect != CONFIG_ACTS)
            ck_assert_msg(*row->note, "%s has no note", row->name);
        if (!row->fallback || row->type == CONFIG_STRING || row->type == CONFIG_TASKPARAM || row->type == CONFIG_GOVERNOR)
            continue;
        snprintf(bare, sizeof bare, "%.*s", (int)strcspn(row->fallback, " "), row->fallback);
        ck_assert_msg(value_read(row->type, bare, &v, &warn, NULL) == 0, "%s: default %s", row->name, bare);
        ck_assert_msg(v.text && strcmp(v.text, row->fallback) == 0, "%s: default %s reads as %s", row->name, row->fallback, v.text ? v.text : "(null)");
        free(v.text);
    }
    ck_assert_int_eq(config_key_find("NoSuchKey"), -1);
    ck_assert_int_eq(config_key_find(""), -1);
    str_fini(&warn);
}
END_TEST

static struct config *parsed(const char *slurm, const char *spur)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_msg(config_parse(slurm, NULL, NULL, NULL, spur, &c, &err) == 0, "%s", err.text);
    return c;
}

START_TEST(numbers)
{
    struct config *c = parsed("MinJobAge=600\nKillWait=5\nPriorityMaxAge=7-0\nDefMemPerNode=4G\nSlurmctldPort=6820-6830\nJobRequeue=0\nSlurmdDebug=debug", NULL);

    ck_assert_int_eq(config_number(c, CONF_MinJobAge), 600);
    ck_assert_int_eq(config_number(c, CONF_KillWait), 5);
    ck_assert_int_eq(config_number(c, CONF_PriorityMaxAge), 7 * 86400);
    ck_assert_int_eq(config_number(c, CONF_DefMemPerNode), 4096);
    ck_assert_int_eq(config_number(c, CONF_SlurmctldPort), 6820);
    ck_assert_int_eq(config_number(c, CONF_JobRequeue), 0);
    ck_assert_int_eq(config_number(c, CONF_SlurmdDebug), 5);
    ck_assert_int_eq(config_number(c, CONF_SlurmdTimeout), 300);
    ck_assert_int_eq(config_number(c, CONF_MaxJobCount), 10000);
    ck_assert_int_eq(config_number(c, CONF_SlurmdPort), 6818);
    ck_assert(!c->values[CONF_SlurmdPort].is_set && c->values[CONF_KillWait].is_set);
    config_free(c);
}
END_TEST

START_TEST(words)
{
    struct config *c = parsed("SchedulerParameters=bf_continue,bf_window=10080,defer", NULL);
    char buf[16];

    ck_assert(config_has_word(c, CONF_SchedulerParameters, "DEFER"));
    ck_assert(!config_has_word(c, CONF_SchedulerParameters, "bf_window"));
    ck_assert(!config_has_word(c, CONF_SchedulerParameters, "def"));
    ck_assert_str_eq(config_word_value(c, CONF_SchedulerParameters, "bf_window", buf, sizeof buf), "10080");
    ck_assert_ptr_null(config_word_value(c, CONF_SchedulerParameters, "defer", buf, sizeof buf));
    ck_assert(!config_has_word(c, CONF_Licenses, "x"));
    config_free(c);
}
END_TEST

START_TEST(controllers)
{
    struct config *c = parsed("SlurmctldHost=mgmt01(192.0.2.5)\nSlurmctldHost=mgmt02\n", NULL);

    ck_assert_uint_eq(c->controller_count, 2);
    ck_assert_str_eq(c->controllers[0].host, "mgmt01");
    ck_assert_str_eq(c->controllers[0].addr, "192.0.2.5");
    ck_assert_str_eq(c->controllers[1].addr, "mgmt02");
    config_free(c);
    c = parsed("ControlMachine=head01\nControlAddr=192.0.2.10\nBackupController=head02", NULL);
    ck_assert_uint_eq(c->controller_count, 2);
    ck_assert_str_eq(c->controllers[0].addr, "192.0.2.10");
    ck_assert_str_eq(c->controllers[1].host, "head02");
    config_free(c);
}
END_TEST

/* Old and unsupported keys do not stop a site; each says why, once, and only when it asks for something. */
START_TEST(notes)
{
    static const struct { const char *line; enum config_effect effect; bool has_text; } cases[] = {
        { "FastSchedule=1", CONFIG_OBSOLETE, true },      { "CacheGroups=0", CONFIG_OBSOLETE, true },
        { "SchedulerPort=7321", CONFIG_OBSOLETE, true },  { "AccountingStorageLoc=z", CONFIG_OBSOLETE, true },
        { "Prolog=/bin/x", CONFIG_ACTS, false },          { "PrologFlags=Alloc", CONFIG_ACTS, false },
        { "PrologFlags=Contain", CONFIG_ACTS, true },
        { "TaskPlugin=task/none", CONFIG_ACTS, false },   { "TaskPlugin=task/cgroup", CONFIG_ACTS, false },
        { "SelectType=select/cons_res", CONFIG_MAPPED, true }, { "ClusterName=x", CONFIG_ACTS, false },
        { "AccountingStorageType=accounting_storage/none", CONFIG_ACTS, false }, { "InactiveLimit=0", CONFIG_ACTS, false },
        { "PrivateData=jobs,zzz", CONFIG_ACTS, true } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config *c = parsed(cases[i].line, NULL);

        ck_assert_uint_eq(c->note_count, 1);
        ck_assert_msg(c->notes[0].effect == cases[i].effect, "%s", cases[i].line);
        ck_assert_msg((*c->notes[0].text != 0) == cases[i].has_text, "%s: %s", cases[i].line, c->notes[0].text);
        ck_assert_uint_eq(c->notes[0].line, 1);
        config_free(c);
    }
}
END_TEST

START_TEST(memory_excludes)
{
    struct config *c = parsed("DefMemPerCPU=5\nDefMemPerNode=6\nMaxMemPerCPU=7", NULL);

    ck_assert_int_eq(config_number(c, CONF_DefMemPerCPU), 0);
    ck_assert_int_eq(config_number(c, CONF_DefMemPerNode), 6);
    ck_assert_int_eq(config_number(c, CONF_MaxMemPerCPU), 7);
    ck_assert_ptr_null(config_text(c, CONF_MaxMemPerNode));
    config_free(c);
}
END_TEST

START_TEST(spur_conf)
{
    unsigned line;
    struct config *c = parsed("ClusterName=x", "# ours\nrun_dir = \"/run/a\"\nplugin \"store/raft\" {\n  election_timeout = 300ms # }\n  x = \"}\"\n}\n"
        "store_type = store/raft\nplugin select/topo { pack = true }\n");

    ck_assert_str_eq(config_setting(c, SETTING_run_dir), "/run/a");
    ck_assert_str_eq(config_text(c, CONF_StoreType), "store/raft");
    ck_assert_str_eq(config_spur_section(c, "store/raft", &line), "\n  election_timeout = 300ms # }\n  x = \"}\"\n");
    ck_assert_uint_eq(line, 3);
    ck_assert_str_eq(config_spur_section(c, "select/topo", &line), " pack = true ");
    ck_assert_uint_eq(line, 8);
    ck_assert_ptr_null(config_spur_section(c, "auth/munge", NULL));
    config_free(c);
    c = parsed("ClusterName=x", NULL);
    ck_assert_str_eq(config_setting(c, SETTING_run_dir), "/run/spur");
    ck_assert_str_eq(config_text(c, CONF_StoreType), "store/local");
    config_free(c);
}
END_TEST

static const struct { const char *text, *sentence; } spur_refused[] = {
    { "run_dri = \"x\"", "unknown setting \"run_dri\" (nearest known: run_dir)" },
    { "run_dir = \"x\"\n\nstore_tipe = y", "spur.conf line 3" },
    { "plugin \"a/b\" { x = 1\n", "the section is not closed" },
    { "\nplugin \"a/b\" x\n", "spur.conf line 2: plugin \"a/b\": expected {" },
    { "run_dir = \"${HOME}/x\"", "environment is not read" },
    { "run_dir = ", "spur.conf" },
    { "run_dir", "spur.conf" },
    { "}", "spur.conf" },
};

START_TEST(spur_conf_refusals)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_int_lt(config_parse("", NULL, NULL, NULL, spur_refused[_i].text, &c, &err), 0);
    ck_assert_msg(strstr(err.text, spur_refused[_i].sentence) != NULL, "%s\n  said: %s", spur_refused[_i].text, err.text);
}
END_TEST

void add_values(Suite *s)
{
    TCase *t = tcase_create("values");

    tcase_add_loop_test(t, canonical, 0, sizeof values / sizeof *values);
    tcase_add_loop_test(t, refusals, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, table_of_keys);
    tcase_add_test(t, numbers);
    tcase_add_test(t, words);
    tcase_add_test(t, controllers);
    tcase_add_test(t, notes);
    tcase_add_test(t, memory_excludes);
    tcase_add_test(t, spur_conf);
    tcase_add_loop_test(t, spur_conf_refusals, 0, sizeof spur_refused / sizeof *spur_refused);
    suite_add_tcase(s, t);
}
