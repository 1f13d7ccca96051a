/* SPDX-License-Identifier: Apache-2.0 */
/* test_records.c - nodes, node sets, partitions, gres.conf, topology.conf, cgroup.conf. Sizes and shown values were read from Slurm's controller. */
#include "test_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "config/config.h"

static struct config *parsed(const char *slurm)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_msg(config_parse(slurm, NULL, NULL, NULL, NULL, &c, &err) == 0, "%s\n%s", slurm, err.text);
    return c;
}

static const struct { const char *keys; unsigned cpus, boards, sockets, cores, threads; } sizes[] = {
    { "CPUs=8 Sockets=2", 2, 1, 2, 1, 1 },
    { "CPUs=8 CoresPerSocket=2", 8, 1, 4, 2, 1 },
    { "CPUs=8 ThreadsPerCore=2", 8, 1, 4, 1, 2 },
    { "CPUs=8 Sockets=2 CoresPerSocket=2", 4, 1, 2, 2, 1 },
    { "CPUs=8 Sockets=2 ThreadsPerCore=2", 4, 1, 2, 1, 2 },
    { "CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2", 8, 1, 2, 2, 2 },
    { "CPUs=4 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2", 4, 1, 2, 2, 2 },
    { "Sockets=2 CoresPerSocket=2 ThreadsPerCore=2", 8, 1, 2, 2, 2 },
    { "Boards=2 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2", 16, 2, 4, 2, 2 },
    { "Boards=2 CPUs=16", 16, 2, 16, 1, 1 },
    { "Boards=2 CPUs=16 SocketsPerBoard=2", 4, 2, 4, 1, 1 },
    { "RealMemory=5", 1, 1, 1, 1, 1 },
    { "CPUs=7 Sockets=2", 2, 1, 2, 1, 1 },
    { "CPUs=5 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2", 8, 1, 2, 2, 2 },
    { "CPUs=2 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2", 2, 1, 2, 2, 2 },
    { "CPUs=16 Boards=2 Sockets=4", 4, 2, 4, 1, 1 },
    { "CPUs=16 CoresPerSocket=3", 3, 1, 1, 3, 1 },
    { "CPUs=16 ThreadsPerCore=32", 32, 1, 1, 1, 32 },
    { "CPUs=2 Sockets=4", 4, 1, 4, 1, 1 },
    { "CPUs=0 Sockets=2", 2, 1, 2, 1, 1 },
    { "CPUs=8 Boards=4 Sockets=2", 2, 1, 2, 1, 1 },
    { "Procs=24 CoresPerSocket=4 ThreadsPerCore=2", 24, 1, 3, 4, 2 },
    { "CoresPerSocket=4 ThreadsPerCore=2", 8, 1, 1, 4, 2 },
    { "CPUs=2 Boards=1 SocketsPerBoard=8 CoresPerSocket=1 ThreadsPerCore=1", 8, 1, 8, 1, 1 },
};

START_TEST(node_sizes)
{
    char line[256];
    struct config *c;

    snprintf(line, sizeof line, "NodeName=n1 %s", sizes[_i].keys);
    c = parsed(line);
    ck_assert_uint_eq(c->nodes[0].cpus, sizes[_i].cpus);
    ck_assert_uint_eq(c->nodes[0].boards, sizes[_i].boards);
    ck_assert_uint_eq(c->nodes[0].sockets, sizes[_i].sockets);
    ck_assert_uint_eq(c->nodes[0].cores_per_socket, sizes[_i].cores);
    ck_assert_uint_eq(c->nodes[0].threads_per_core, sizes[_i].threads);
    config_free(c);
}
END_TEST

START_TEST(ranges_in_step)
{
    struct config *c = parsed("SlurmdPort=7000\nNodeName=x[001-003] NodeAddr=203.0.113.[1-3] NodeHostname=host[1-3]\nNodeName=z[1-2] Port=18001-18002\n"
        "NodeName=y[1-2] Port=[7001-7002] NodeAddr=127.0.0.1\n");
    const struct config_node *n = config_node_find(c, "x002");

    ck_assert_str_eq(n->addr, "203.0.113.2");
    ck_assert_str_eq(n->hostname, "host2");
    ck_assert_uint_eq(n->port, 7000);
    ck_assert_uint_eq(config_node_find(c, "z2")->port, 18002);
    ck_assert_uint_eq(config_node_find(c, "y1")->port, 7001);
    ck_assert_str_eq(config_node_find(c, "y2")->addr, "127.0.0.1");
    ck_assert_str_eq(config_node_find(c, "z1")->addr, "z1");
    ck_assert_ptr_null(config_node_find(c, "x4"));
    config_free(c);
}
END_TEST

static const struct { const char *given, *shown; unsigned kinds; const char *name, *type; unsigned long count; bool no_consume; } gres[] = {
    { "gpu:8", "gpu:8", 1, "gpu", NULL, 8, false },
    { "gpu", "gpu", 1, "gpu", NULL, 1, false },
    { "gpu:rtx3090:8,mps:800", "gpu:rtx3090:8,mps:800", 2, "gpu", "rtx3090", 8, false },
    { "gpu:mi300x:8(S:0-1)", "gpu:mi300x:8", 1, "gpu", "mi300x", 8, false },
    { "gpu:a_b.c-d:2(S:0,1),nic:1", "gpu:a_b.c-d:2,nic:1", 2, "gpu", "a_b.c-d", 2, false },
    { "mem:no_consume:50G", "mem:no_consume:50G", 1, "mem", NULL, 50ul << 30, true },
    { "gpu:tesla", "gpu:tesla", 1, "gpu", "tesla", 1, false },
    { "gpu:1g.5gb:7", "gpu:1g.5gb:7", 1, "gpu", "1g.5gb", 7, false },
};

START_TEST(gres_of_nodes)
{
    char text[256];
    struct config *c;
    const struct config_node *n;

    snprintf(text, sizeof text, "GresTypes=gpu,mps,nic,mem\nNodeName=n[1-2] Gres=%s", gres[_i].given);
    c = parsed(text);
    n = &c->nodes[1];
    ck_assert_str_eq(n->gres_text, gres[_i].shown);
    ck_assert_uint_eq(n->gres_count, gres[_i].kinds);
    ck_assert_str_eq(n->gres[0].name, gres[_i].name);
    ck_assert_pstr_eq(n->gres[0].type, gres[_i].type);
    ck_assert_uint_eq(n->gres[0].count, gres[_i].count);
    ck_assert(n->gres[0].no_consume == gres[_i].no_consume);
    config_free(c);
}
END_TEST

START_TEST(defaults_and_states)
{
    struct config *c = parsed("NodeName=DEFAULT CPUs=4 RealMemory=100\nNodeName=a\nNodeName=DEFAULT RealMemory=200 State=CLOUD\nNodeName=b\nNodeName=c State=DRAINED Reason=\"bad disk\"\n"
        "NodeName=d[1-2] State=UNKNOWN Feature=f,g Weight=7\nDownNodes=d2 State=DOWN Reason=fan\nDownNodes=a\n");

    ck_assert_uint_eq(config_node_find(c, "a")->mem_mib, 100);
    ck_assert_uint_eq(config_node_find(c, "b")->mem_mib, 200);
    ck_assert_uint_eq(config_node_find(c, "b")->cpus, 4);
    ck_assert_str_eq(config_node_find(c, "b")->state, "CLOUD");
    ck_assert_str_eq(config_node_find(c, "c")->state, "DRAIN");
    ck_assert_str_eq(config_node_find(c, "c")->reason, "bad disk");
    ck_assert_str_eq(config_node_find(c, "d1")->state, "UNKNOWN");
    ck_assert_str_eq(config_node_find(c, "d2")->state, "DOWN");
    ck_assert_str_eq(config_node_find(c, "d2")->reason, "fan");
    ck_assert_str_eq(config_node_find(c, "a")->state, "DOWN");
    ck_assert_uint_eq(config_node_find(c, "d1")->weight, 7);
    ck_assert_str_eq(config_node_find(c, "d1")->features, "f,g");
    config_free(c);
}
END_TEST

struct shown { const char *key; char value[512]; };

static void row_pick(void *arg, const char *key, const char *value)
{
    struct shown *s = arg;

    if (strcmp(s->key, key) == 0)
        snprintf(s->value, sizeof s->value, "%s", value ? value : "");
}

static const struct { const char *keys, *key, *shown; } partitions[] = {
    { "", "Nodes", "n[1-3]" },
    { "", "OverSubscribe", "NO" },
    { "", "MaxTime", "UNLIMITED" },
    { "", "DefaultTime", "NONE" },
    { "", "PriorityTier", "1" },
    { "", "MinNodes", "0" },
    { "", "AllowGroups", "ALL" },
    { "", "PreemptMode", "GANG,REQUEUE" },
    { "", "TotalCPUs", "12" },
    { "", "JobDefaults", "(null)" },
    { "", "DefMemPerNode", "UNLIMITED" },
    { "OverSubscribe=YES", "OverSubscribe", "YES:4" },
    { "Shared=YES:8", "OverSubscribe", "YES:8" },
    { "OverSubscribe=FORCE", "OverSubscribe", "FORCE:4" },
    { "OverSubscribe=force:2", "OverSubscribe", "FORCE:2" },
    { "OverSubscribe=exclusive", "OverSubscribe", "EXCLUSIVE" },
    { "Exclusive=NODE", "OverSubscribe", "EXCLUSIVE" },
    { "Exclusive=USER", "ExclusiveUser", "YES" },
    { "Priority=10", "PriorityTier", "10" },
    { "Priority=10", "PriorityJobFactor", "10" },
    { "PriorityTier=5 PriorityJobFactor=2", "PriorityJobFactor", "2" },
    { "DefaultTime=10", "DefaultTime", "00:10:00" },
    { "DefaultTime=25:00:00", "DefaultTime", "1-01:00:00" },
    { "MaxTime=0:30", "MaxTime", "00:01:00" },
    { "MaxTime=1-12:00:00", "MaxTime", "1-12:00:00" },
    { "MaxNodes=4", "MaxNodes", "4" },
    { "MaxNodes=UNLIMITED", "MaxNodes", "UNLIMITED" },
    { "DefMemPerCPU=0", "DefMemPerCPU", "UNLIMITED" },
    { "DefMemPerCPU=100", "DefMemPerCPU", "100" },
    { "DefMemPerCPU=100 DefMemPerNode=9", "DefMemPerNode", "9" },
    { "MaxMemPerNode=9 MaxMemPerCPU=100", "MaxMemPerNode", "9" },
    { "MaxTime=3 DefaultTime=5", "DefaultTime", "NONE" },
    { "MaxTime=5 DefaultTime=5", "DefaultTime", "00:05:00" },
    { "MaxMemPerNode=200", "MaxMemPerNode", "200" },
    { "DefCpuPerGPU=10 DefMemPerGPU=60000", "JobDefaults", "DefCpuPerGPU=10,DefMemPerGPU=60000" },
    { "DefMemPerGPU=5", "JobDefaults", "DefMemPerGPU=5" },
    { "SuspendTime=20", "SuspendTime", "20" },
    { "SuspendTime=20", "ResumeTimeout", "GLOBAL" },
    { "SuspendTime=INFINITE", "SuspendTime", "INFINITE" },
    { "PreemptMode=SUSPEND", "PreemptMode", "SUSPEND" },
    { "PreemptMode=off", "PreemptMode", "OFF" },
    { "DenyAccounts=a", "DenyAccounts", "a" },
    { "AllowAccounts=ALL", "AllowAccounts", "ALL" },
    { "State=drain", "State", "DRAIN" },
    { "OverTimeLimit=UNLIMITED", "OverTimeLimit", "UNLIMITED" },
    { "TRESBillingWeights=\"cpu=1.0,mem=.25G\"", "TRESBillingWeights", "cpu=1.0,mem=.25G" },
    { "Hidden=yes", "Hidden", "YES" },
    { "QOS=normal", "QoS", "normal" },
    { "LLN=YES", "LLN", "YES" },
    { "GraceTime=60", "GraceTime", "60" },
    { "SelectTypeParameters=CR_Core", "SelectTypeParameters", "CR_CORE" },
};

START_TEST(partition_values)
{
    char text[512];
    struct config *c;
    struct shown s = { .key = partitions[_i].key };

    snprintf(text, sizeof text, "PreemptMode=requeue,gang\nPartitionName=p Nodes=n3,n[1-2] %s\nNodeName=n[1-3] CPUs=4\n", partitions[_i].keys);
    c = parsed(text);
    config_show_partition(c, &c->partitions[0], row_pick, &s);
    ck_assert_str_eq(s.value, partitions[_i].shown);
    config_free(c);
}
END_TEST

START_TEST(partition_lines)
{
    struct config *c = parsed("NodeName=a[1-4],b1 Feature=x\nNodeName=c1\nNodeSet=all_x Feature=x\nNodeSet=some Nodes=a[2-3]\n"
        "NodeSet=some Nodes=a4\nDownNodes=zz\nPartitionName=DEFAULT MaxTime=9 Default=NO\nPartitionName=p Nodes=all_x Default=YES\nPartitionName=DEFAULT MinNodes=2\nPartitionName=q Nodes=some,c1 MaxTime=1\n"
        "PartitionName=r Nodes=ALL Default=YES\nPartitionName=t\n");

    ck_assert_uint_eq(c->partition_count, 4);
    ck_assert_str_eq(c->partitions[0].nodes_text, "a[1-4],b1");
    ck_assert_str_eq(c->partitions[0].nodesets, "all_x");
    ck_assert_str_eq(c->partitions[1].nodes_text, "a[2-3],c1");
    ck_assert_str_eq(c->partitions[2].nodes_text, "a[1-4],b1,c1");
    ck_assert_ptr_null(c->partitions[3].nodes_text);
    ck_assert_uint_eq(c->partitions[0].min_nodes, 0);
    ck_assert_uint_eq(c->partitions[1].min_nodes, 2);
    ck_assert_uint_eq(c->partitions[1].max_time_min, 1);
    ck_assert_uint_eq(c->partitions[2].max_time_min, 9);
    ck_assert_int_eq(config_default_partition(c), 2);
    ck_assert_uint_eq(bitmap_count(&c->partitions[1].nodes), 3);
    ck_assert_ptr_eq(config_partition_find(c, "q"), &c->partitions[1]);
    config_free(c);
}
END_TEST

static const struct { const char *text, *sentence; } refused[] = {
    { "NodeName=n1 CPU=4", "slurm.conf line 1: unknown keyword \"CPU\" on a NodeName line (nearest known: CPUs)" },
    { "NodeName=n1\nNodeName=n[1-2]", "slurm.conf line 2: node n1 is named twice" },
    { "NodeName=n[1-2", "line 1" },
    { "NodeName=n1 State=SLEEPING", "\"SLEEPING\" is none of" },
    { "NodeName=n1 CPUs=many", "CPUs: \"many\"" },
    { "NodeName=n1 RealMemory=lots", "RealMemory" },
    { "NodeName=n[1-3] NodeAddr=a[1-2]", "NodeAddr gives 2 for 3 NodeName" },
    { "NodeName=n[1-3] Port=1-2", "Port gives 2 for 3" },
    { "NodeName=n1 Port=99999", "not a port" },
    { "NodeName=DEFAULT NodeAddr=x", "cannot have NodeAddr" },
    { "NodeName=n1 Gres=gpu:a:b:c:d", "Gres" },
    { "NodeName=n1 Gres=gpu:8(S:0", "unclosed" },
    { "NodeName=n1 Sockets=60000 CoresPerSocket=60000 ThreadsPerCore=60000", "more than 1048576 CPUs" },
    { "NodeName=n1 CPUs=2 CPUSpecList=0-9", "CPUSpecList" },
    { "NodeName=n1 CPUs=4 CoreSpecCount=4", "leaves no core" },
    { "NodeName=all", "no node can have this name" },
    { "PartitionName=p OverSubscribe=NO:4", "only YES and FORCE" },
    { "PartitionName=p OverSubscribe=EXCLUSIVE:2", "only YES and FORCE" },
    { "NodeName=n1 bad", "cannot read \"bad\"" },
    { "PartitionName=p Nodes=n1", "no node or node set \"n1\"" },
    { "NodeName=n1\nPartitionName=p Nodes=n1\nPartitionName=p Nodes=n1", "line 3: partition p is named twice" },
    { "PartitionName=p MaxTim=4", "nearest known: MaxTime" },
    { "PartitionName=p MaxTime=soon", "MaxTime" },
    { "PartitionName=p OverSubscribe=some", "none of NO, EXCLUSIVE" },
    { "PartitionName=p State=open", "none of UP, DOWN" },
    { "PartitionName=p Default=perhaps", "neither yes nor no" },
    { "PartitionName=p Nodes= ", "cannot read \"Nodes=\"" },
    { "NodeSet=s", "needs Feature= or Nodes=" },
};

START_TEST(refusals)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_int_lt(config_parse(refused[_i].text, NULL, NULL, NULL, NULL, &c, &err), 0);
    ck_assert_msg(strstr(err.text, refused[_i].sentence) != NULL, "%s\n  said: %s\n  not: %s", refused[_i].text, err.text, refused[_i].sentence);
}
END_TEST

START_TEST(gres_conf)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_msg(config_parse("GresTypes=gpu", "AutoDetect=off\nNodeName=k[001-008] Name=gpu Type=mi300x File=/dev/dri/renderD[128,136,144,152] COREs=0-95 Links=-1,1,1,1\n"
        "Name=mps Count=2K\nNodeName=a AutoDetect=rsmi Name=gpu File=/dev/nvidia[0-7] CPUs=0-1 Flags=x\n", NULL, NULL, NULL, &c, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(c->gres_line_count, 4);
    ck_assert_str_eq(c->gres_lines[0].autodetect, "off");
    ck_assert_ptr_null(c->gres_lines[0].name);
    ck_assert_uint_eq(c->gres_lines[1].count, 4);
    ck_assert(!c->gres_lines[1].count_set);
    ck_assert_str_eq(hostlist_nth(c->gres_lines[1].files, 3), "/dev/dri/renderD152");
    ck_assert_str_eq(c->gres_lines[1].cores, "0-95");
    ck_assert_str_eq(c->gres_lines[1].links, "-1,1,1,1");
    ck_assert_str_eq(c->gres_lines[1].nodes, "k[001-008]");
    ck_assert_uint_eq(c->gres_lines[2].count, 2048);
    ck_assert_uint_eq(hostlist_count(c->gres_lines[3].files), 8);
    ck_assert_uint_eq(c->gres_lines[3].line, 4);
    config_free(c);
    ck_assert_int_lt(config_parse("", "Name=gpu Fle=/dev/x", NULL, NULL, NULL, &c, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "gres.conf line 1: unknown keyword \"Fle\""));
    ck_assert_int_lt(config_parse("", "AutoDetect=magic", NULL, NULL, NULL, &c, &err), 0);
    ck_assert_int_lt(config_parse("", "Type=x", NULL, NULL, NULL, &c, &err), 0);
}
END_TEST

START_TEST(other_files)
{
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_msg(config_parse("", NULL, "SwitchName=leaf1 Nodes=k[001-004] LinkSpeed=4\nSwitchName=spine Switches=leaf[1-3]\nBlockName=b1 Nodes=a[1-4]\nBlockSizes=4,16\n",
        "ConstrainCores=yes\nCgroupAutomount=yes\nConstrainRAMSpace=no\n", NULL, &c, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(c->note_count, 3);        /* LinkSpeed; a flat network takes no topology; CgroupAutomount */
    ck_assert(c->cgroup.cores && !c->cgroup.ram && c->cgroup.allowed_ram == 10000 && c->cgroup.min_ram_mib == 30 && c->cgroup.swappiness == -1);
    ck_assert_uint_eq(c->switch_count, 0);
    config_free(c);
    ck_assert_int_lt(config_parse("", NULL, "SwitchName=leaf1", NULL, NULL, &c, &err), 0);
    ck_assert_int_lt(config_parse("", NULL, NULL, "ConstrainCore=yes", NULL, &c, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "nearest known: ConstrainCores"));
    ck_assert_int_lt(config_parse("", NULL, NULL, "ConstrainCores=perhaps", NULL, &c, &err), 0);
    ck_assert_int_lt(config_parse("", NULL, NULL, "AllowedRAMSpace=much", NULL, &c, &err), 0);
    ck_assert_int_lt(config_parse("", NULL, NULL, "MemorySwappiness=101", NULL, &c, &err), 0);
    ck_assert_int_lt(config_parse("", NULL, NULL, "CgroupPlugin=cgroup/v3", NULL, &c, &err), 0);
    ck_assert_msg(config_parse("", NULL, NULL, "AllowedRAMSpace=101.5\nAllowedSwapSpace=10%\nMinRAMSpace=64\nMaxRAMPercent=98\nCgroupPlugin=cgroup/v2\nCgroupMountpoint=/cg\n"
        "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nConstrainDevices=yes\n", NULL, &c, &err) == 0, "%s", err.text);
    ck_assert(c->cgroup.allowed_ram == 10150 && c->cgroup.allowed_swap == 1000 && c->cgroup.min_ram_mib == 64 && c->cgroup.max_ram == 9800 && c->cgroup.ram &&
              c->cgroup.swap && c->cgroup.devices && !c->cgroup.cores);
    ck_assert_str_eq(c->cgroup.plugin, "cgroup/v2");
    ck_assert_str_eq(c->cgroup.mountpoint, "/cg");
    ck_assert_uint_eq(c->note_count, 0);
    config_free(c);
}
END_TEST

#define TREE "TopologyPlugin=topology/tree\nNodeName=n[1-8]\n"
#define BLOCKS "TopologyPlugin=topology/block\nNodeName=n[1-8]\n"

START_TEST(topology_trees)
{
    static const char yaml[] = "---\n- topology: old\n  flat: true\n- topology: new\n  cluster_default: true\n  tree:\n    switches:\n"
                               "      - switch: core\n        children: pod[1-2]\n      - switch: pod1\n        children: leaf[1-2]\n      - switch: pod2\n        children: leaf3\n"
                               "      - switch: leaf1\n        nodes: n[1-2]\n      - switch: leaf2\n        nodes: n[3-4]\n      - switch: leaf3\n        nodes: n[5-6],gone1\n";
    static const char text[] = "SwitchName=core Switches=pod[1-2]\nSwitchName=pod1 Switches=leaf[1-2]\nSwitchName=pod2 Switches=leaf3\n"
                               "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=leaf3 Nodes=n[5-6],gone1\n";
    struct spur_error err = { 0 };
    struct config *c;

    for (int i = 0; i < 2; i++) {
        ck_assert_msg(config_parse(i ? "NodeName=n[1-8]\n" : TREE, NULL, i ? yaml : text, NULL, NULL, &c, &err) == 0, "%s", err.text);
        ck_assert_int_eq(c->topology, TOPOLOGY_TREE);
        ck_assert_uint_eq(c->switch_count, 6);
        ck_assert_str_eq(c->switches[0].name, "core");
        ck_assert_uint_eq(c->switches[0].level, 2);
        ck_assert_int_eq(c->switches[1].parent, 0);
        ck_assert_str_eq(c->switches[c->nodes[0].leaf].path, "core/pod1/leaf1");
        ck_assert_str_eq(c->switches[c->nodes[5].leaf].path, "core/pod2/leaf3");
        ck_assert_int_eq(c->nodes[6].leaf, -1);
        ck_assert_uint_eq(c->switches[5].nodes, 2);
        config_free(c);
    }
}
END_TEST

START_TEST(topology_blocks)
{
    static const char yaml[] = "- topology: b\n  block:\n    block_sizes: [2, 4]\n    blocks:\n    - block: b1\n      nodes: n[1-2]\n    - block: b2\n      nodes: n[3-4]\n"
                               "    - block: b3\n      nodes: n[5-6]\n";
    static const char text[] = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockName=b3 Nodes=n[5-6]\nBlockSizes=2,4\n";
    struct spur_error err = { 0 };
    struct config *c;

    for (int i = 0; i < 2; i++) {
        ck_assert_msg(config_parse(i ? "NodeName=n[1-8]\n" : BLOCKS, NULL, i ? yaml : text, NULL, NULL, &c, &err) == 0, "%s", err.text);
        ck_assert_int_eq(c->topology, TOPOLOGY_BLOCK);
        ck_assert_uint_eq(c->switch_count, 3);
        ck_assert_str_eq(c->switches[0].path, "4-nodes-0/b1");
        ck_assert_str_eq(c->switches[1].path, "4-nodes-0/b2");
        ck_assert_str_eq(c->switches[2].path, "4-nodes-1/b3");
        ck_assert_uint_eq(c->block_size_count, 2);
        config_free(c);
    }
}
END_TEST

static const struct { const char *slurm, *text, *sentence; } no_topologies[] = {
    { TREE, "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "topology.conf line 2: node n1 hangs on a and on b" },
    { TREE, "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2: switch a stands there twice" },
    { TREE, "SwitchName=a Switches=b\n", "line 1: switch a: there is no switch b" },
    { TREE, "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "below itself" },
    { TREE, "SwitchName=l Nodes=n1\nSwitchName=a Switches=l\nSwitchName=b Switches=l\n", "line 3: switch l is below a and below b" },
    { TREE, "BlockName=a Nodes=n1\n", "line 1: BlockName: TopologyPlugin=topology/tree has SwitchName lines" },
    { BLOCKS, "BlockName=a Nodes=n1\nBlockSizes=2\n", "block a has 1 nodes, BlockSizes wants 2" },
    { BLOCKS, "BlockSizes=2,6\n", "BlockSizes: 6 is not 2 times a power of two" },
    { BLOCKS, "BlockSizes=x\n", "BlockSizes: \"x\"" },
    { TREE, "- topology: a\n  tree:\n    switches:\n    - switch: a\n      nods: n1\n", "line 4: a switch: \"nods\" is not known" },
    { TREE, "- topology: a\n  ring: x\n", "line 1: a topology: \"ring\" is not known" },
    { TREE, "- topology: [\n", "no YAML" },
    { TREE, "- topology: a\n  tree:\n    switches:\n    - switch: a\n", "line 4: a switch needs" },
    { TREE, "- 7\n", "line 1: a topology: keys and values" },
};

START_TEST(topologies_refused)
{
    struct spur_error err = { 0 };
    struct config *c;

    ck_assert_int_lt(config_parse(no_topologies[_i].slurm, NULL, no_topologies[_i].text, NULL, NULL, &c, &err), 0);
    ck_assert_msg(strstr(err.text, no_topologies[_i].sentence) != NULL, "said: %s\n  not: %s", err.text, no_topologies[_i].sentence);
}
END_TEST

/* One line for a large machine: names, look-ups and the partition's text stay fast and right. */
START_TEST(many_nodes)
{
    struct config *c = parsed("GresTypes=gpu\nNodeName=n[00001-10000] CPUs=128 RealMemory=1000000 Gres=gpu:mi300x:8 Feature=a,b\nPartitionName=p Nodes=ALL Default=YES\n");

    ck_assert_uint_eq(c->node_count, 10000);
    ck_assert_str_eq(c->partitions[0].nodes_text, "n[00001-10000]");
    ck_assert_uint_eq((size_t)(config_node_find(c, "n07777") - c->nodes), 7776);
    config_free(c);
}
END_TEST

void add_records(Suite *s)
{
    TCase *t = tcase_create("records");

    tcase_add_loop_test(t, node_sizes, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(t, ranges_in_step);
    tcase_add_loop_test(t, gres_of_nodes, 0, sizeof gres / sizeof *gres);
    tcase_add_test(t, defaults_and_states);
    tcase_add_loop_test(t, partition_values, 0, sizeof partitions / sizeof *partitions);
    tcase_add_test(t, partition_lines);
    tcase_add_loop_test(t, refusals, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, gres_conf);
    tcase_add_test(t, other_files);
    tcase_add_test(t, topology_trees);
    tcase_add_test(t, topology_blocks);
    tcase_add_loop_test(t, topologies_refused, 0, sizeof no_topologies / sizeof *no_topologies);
    tcase_add_test(t, many_nodes);
    suite_add_tcase(s, t);
}
