/* SPDX-License-Identifier: Apache-2.0 */
/* sinfo_fields.c - the fields of sinfo: one function a column, and the table of their names and letters.
 *
 * Headings and the words for nothing are as measured on Slurm 22.05. A line's nodes look alike in every shown field that tells nodes apart, so those
 * print the first node's value.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "cmds/sinfo.h"
#include "state/state.h"

#define L ((const struct line *)row)
#define P (L->partition)
#define N0 (L->count ? L->nodes[0] : NULL)
#define FIELD(name) static void show_##name(const void *row, struct str *out)

unsigned sinfo_node_kind(const Wire__NodeInfo *n)
{
    if (n->state == NODE_DOWN || n->state == NODE_UNKNOWN || n->state_flags & (NODE_FLAG_NO_RESPOND | NODE_FLAG_FAIL) ||
        (n->state == NODE_IDLE && n->state_flags & NODE_FLAG_DRAIN))
        return n->state == NODE_UNKNOWN && !(n->state_flags & NODE_FLAG_DRAIN) ? 1 : 2;
    return n->state == NODE_ALLOCATED || n->state == NODE_MIXED || n->state_flags & NODE_FLAG_COMPLETING ? 0 : 1;
}

unsigned sinfo_state_number(const Wire__NodeInfo *n)
{
    static const struct { uint32_t ours; unsigned number; } flags[] = { { NODE_FLAG_RESERVED, 0x20 }, { NODE_FLAG_CLOUD, 0x80 }, { NODE_FLAG_DRAIN, 0x200 }, { NODE_FLAG_COMPLETING, 0x400 },
        { NODE_FLAG_NO_RESPOND, 0x800 }, { NODE_FLAG_POWERED_DOWN, 0x1000 }, { NODE_FLAG_FAIL, 0x2000 }, { NODE_FLAG_MAINT, 0x8000 }, { NODE_FLAG_REBOOT_REQUESTED, 0x10000 },
        { NODE_FLAG_PLANNED, 0x200000 }, { NODE_FLAG_INVALID_REG, 0x400000 } };
    unsigned number = n->state;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        number |= n->state_flags & flags[i].ours ? flags[i].number : 0;
    return number;
}

/* Least value of a number over the line's nodes, "+" behind it when they differ. */
static void least(const struct line *l, struct str *out, uint64_t (*get)(const Wire__NodeInfo *))
{
    uint64_t low = UINT64_MAX, high = 0;

    for (size_t i = 0; i < l->count; i++) {
        uint64_t v = get(l->nodes[i]);

        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    str_addf(out, "%llu%s", (unsigned long long)(l->count ? low : 0), l->count && low != high ? "+" : "");
}

static uint64_t get_cpus(const Wire__NodeInfo *n) { return n->cpus; }
static uint64_t get_mem(const Wire__NodeInfo *n) { return n->mem_mib; }
static uint64_t get_alloc_mem(const Wire__NodeInfo *n) { return n->mem_alloc_mib; }
static uint64_t get_tmp(const Wire__NodeInfo *n) { return n->tmp_mib; }
static uint64_t get_weight(const Wire__NodeInfo *n) { return n->weight; }
static uint64_t get_sockets(const Wire__NodeInfo *n) { return n->sockets; }
static uint64_t get_cores(const Wire__NodeInfo *n) { return n->cores_per_socket; }
static uint64_t get_threads(const Wire__NodeInfo *n) { return n->threads_per_core; }
static uint64_t get_port(const Wire__NodeInfo *n) { return n->port; }

FIELD(cpus) { least(L, out, get_cpus); }
FIELD(memory) { least(L, out, get_mem); }
FIELD(alloc_mem) { least(L, out, get_alloc_mem); }
FIELD(disk) { least(L, out, get_tmp); }
FIELD(weight) { least(L, out, get_weight); }
FIELD(sockets) { least(L, out, get_sockets); }
FIELD(cores) { least(L, out, get_cores); }
FIELD(threads) { least(L, out, get_threads); }
FIELD(port) { least(L, out, get_port); }
FIELD(sct) { least(L, out, get_sockets); str_add_char(out, ':'); least(L, out, get_cores); str_add_char(out, ':'); least(L, out, get_threads); }
FIELD(alloc_nodes) { str_add(out, P && P->alloc_nodes ? P->alloc_nodes : "all"); }
FIELD(available) { str_add(out, !P || !P->state || word_eq(P->state, "UP") ? "up" : word_eq(P->state, "DOWN") ? "down" : word_eq(P->state, "DRAIN") ? "drain" : "inact"); }
FIELD(cluster) { str_add(out, L->sinfo->clusters && L->sinfo->cluster ? L->sinfo->cluster : "N/A"); }
FIELD(comment) { str_add(out, N0 && N0->comment ? N0->comment : "(null)"); }
/* "5.00-9.10": from the least to the most; a node that has not said is beyond the most. */
static void range(const struct line *l, struct str *out, bool (*get)(const Wire__NodeInfo *, uint64_t *), void (*print)(uint64_t, struct str *))
{
    uint64_t low = UINT64_MAX, high = 0;
    bool some_unknown = false;

    for (size_t i = 0; i < l->count; i++) {
        uint64_t v;

        if (!get(l->nodes[i], &v)) {
            some_unknown = true;
            continue;
        }
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    if (low == UINT64_MAX) {
        str_add(out, "N/A");
        return;
    }
    print(low, out);
    if (!some_unknown && low == high)
        return;
    str_add_char(out, '-');
    if (some_unknown)
        str_add(out, "N/A");
    else
        print(high, out);
}
static bool get_load(const Wire__NodeInfo *n, uint64_t *v) { return n->has_load_hundredths && !(n->state_flags & NODE_FLAG_NO_RESPOND) ? (*v = n->load_hundredths, true) : false; }
static bool get_free(const Wire__NodeInfo *n, uint64_t *v) { return n->has_mem_free_mib && n->mem_free_mib ? (*v = n->mem_free_mib, true) : false; }
static void print_load(uint64_t v, struct str *out) { str_addf(out, "%u.%02u", (unsigned)(v / 100), (unsigned)(v % 100)); }
static void print_number(uint64_t v, struct str *out) { str_addf(out, "%llu", (unsigned long long)v); }
FIELD(load) { range(L, out, get_load, print_load); }
FIELD(free_mem) { range(L, out, get_free, print_number); }
FIELD(cpus_state)
{
    uint32_t alloc = 0, idle = 0, other = 0, total = 0;

    for (size_t i = 0; i < L->count; i++) {
        const Wire__NodeInfo *n = L->nodes[i];

        total += n->cpus;
        alloc += n->cpus_alloc;
        if (sinfo_node_kind(n) == 2 || n->state_flags & NODE_FLAG_DRAIN)
            other += n->cpus - n->cpus_alloc;
        else
            idle += n->cpus - n->cpus_alloc;
    }
    str_addf(out, "%u/%u/%u/%u", alloc, idle, other, total);
}
static void kinds(const struct line *l, uint32_t k[3])
{
    memset(k, 0, 3 * sizeof *k);
    for (size_t i = 0; i < l->count; i++)
        k[sinfo_node_kind(l->nodes[i])]++;
}
FIELD(node_ai) { uint32_t k[3]; kinds(L, k); str_addf(out, "%u/%u", k[0], k[1]); }
FIELD(node_aiot) { uint32_t k[3]; kinds(L, k); str_addf(out, "%u/%u/%u/%zu", k[0], k[1], k[2], L->count); }
static void limit(struct str *out, uint32_t minutes)
{
    if (minutes == MINUTES_UNLIMITED)
        str_add(out, "infinite");
    else if (minutes == MINUTES_NOT_SET)
        str_add(out, "n/a");
    else
        minutes_print_short(minutes, out);
}
FIELD(default_time) { limit(out, P ? P->default_time_min : MINUTES_NOT_SET); }
FIELD(time) { limit(out, P ? P->max_time_min : MINUTES_NOT_SET); }
FIELD(features) { str_add(out, N0 && N0->features && *N0->features ? N0->features : "(null)"); }
FIELD(gres) { str_add(out, N0 && N0->gres && *N0->gres ? N0->gres : "(null)"); }
FIELD(gres_used) { str_add(out, N0 && N0->gres_used && *N0->gres_used ? N0->gres_used : "(null)"); }
FIELD(groups) { str_add(out, !P || !P->allow_groups || word_eq(P->allow_groups, "ALL") ? "all" : P->allow_groups); }
FIELD(max_cpus) { if (P && P->max_cpus_per_node && P->max_cpus_per_node != UINT32_MAX) str_addf(out, "%u", P->max_cpus_per_node); else str_add(out, "UNLIMITED"); }
FIELD(node_list)
{
    struct hostlist *h = hostlist_create();

    for (size_t i = 0; i < L->count; i++)
        hostlist_add(h, L->nodes[i]->name);
    hostlist_sort(h);
    hostlist_print(h, out);
    hostlist_destroy(h);
}
FIELD(node_addr) { str_add(out, N0 ? N0->addr ? N0->addr : N0->name : ""); }
FIELD(node_host) { str_add(out, N0 ? N0->hostname ? N0->hostname : N0->name : ""); }
FIELD(nodes) { str_addf(out, "%zu", L->count); }
FIELD(oversubscribe) { str_add(out, P && P->oversubscribe ? P->oversubscribe : "NO"); }
FIELD(partition) { str_addf(out, "%s%s", P ? P->name : "", P && P->is_default ? "*" : ""); }
FIELD(partition_name) { str_add(out, P ? P->name : ""); }
FIELD(preempt) { str_add(out, P && P->preempt_mode ? P->preempt_mode : "OFF"); }
FIELD(job_factor) { str_addf(out, "%u", P ? P->priority_job_factor : 1); }
FIELD(tier) { str_addf(out, "%u", P ? P->priority_tier : 1); }
FIELD(reason) { str_add(out, N0 && N0->reason && *N0->reason ? N0->reason : "none"); }
FIELD(reservation) { str_add(out, N0 && N0->reservation ? N0->reservation : ""); }
FIELD(root) { str_add(out, P && P->root_only ? "yes" : "no"); }
FIELD(size)
{
    if (!P || P->max_nodes == UINT32_MAX)
        str_addf(out, "%u-infinite", P && P->min_nodes ? P->min_nodes : 1);
    else if (P->min_nodes == P->max_nodes)
        str_addf(out, "%u", P->max_nodes);
    else
        str_addf(out, "%u-%u", P->min_nodes ? P->min_nodes : 1, P->max_nodes);
}
FIELD(state_compact) { if (N0) node_state_print(N0->state, N0->state_flags, true, false, out); else str_add(out, "n/a"); }
FIELD(state_long) { if (N0) node_state_print(N0->state, N0->state_flags, false, false, out); else str_add(out, "n/a"); }
FIELD(state_complete) { if (N0) node_state_print(N0->state, N0->state_flags, false, true, out); else str_add(out, "n/a"); }
FIELD(timestamp)
{
    if (N0 && N0->reason_wall_s > 0)
        moment_print(N0->reason_wall_s, L->sinfo->time_format, L->sinfo->now_s, out);
    else
        str_add(out, "Unknown");
}
FIELD(user) { str_add(out, N0 && N0->reason && *N0->reason ? N0->reason_user ? N0->reason_user : "" : "Unknown"); }
FIELD(user_long) { if (N0 && N0->reason && *N0->reason) str_addf(out, "%s(%u)", N0->reason_user ? N0->reason_user : "", N0->reason_uid); else str_add(out, "Unknown"); }
FIELD(version) { str_add(out, N0 && N0->version ? N0->version : "N/A"); }
FIELD(extra) { str_add(out, N0 && N0->extra ? N0->extra : ""); }

#define F(name, letter, heading, kind, fn) { name, letter, heading, kind, show_##fn }
const struct column_field sinfo_fields[] = {
    F("AllocMem", 0, "ALLOCMEM", FIELD_LEAST, alloc_mem), F("AllocNodes", 'S', "ALLOCNODES", FIELD_PART, alloc_nodes), F("Available", 'a', "AVAIL", FIELD_PART, available), F("Cluster", 'V', "CLUSTER", FIELD_SAME, cluster),
    F("Comment", 0, "COMMENT", FIELD_SAME, comment), F("Cores", 'Y', "CORES", FIELD_LEAST, cores), F("CPUs", 'c', "CPUS", FIELD_LEAST | FIELD_BARE, cpus), F("CPUsLoad", 'O', "CPU_LOAD", FIELD_LEAST, load),
    F("CPUsState", 'C', "CPUS(A/I/O/T)", FIELD_SUMS | FIELD_BARE, cpus_state), F("DefaultTime", 'L', "DEFAULTTIME", FIELD_PART, default_time), F("Disk", 'd', "TMP_DISK", FIELD_LEAST, disk), F("Extra", 0, "EXTRA", FIELD_SAME, extra),
    F("Features", 'f', "AVAIL_FEATURES", FIELD_SAME, features), F("features_act", 'b', "ACTIVE_FEATURES", FIELD_SAME, features), F("FreeMem", 'e', "FREE_MEM", FIELD_LEAST, free_mem), F("Gres", 'G', "GRES", FIELD_SAME, gres),
    F("GresUsed", 0, "GRES_USED", FIELD_SAME, gres_used), F("Groups", 'g', "GROUPS", FIELD_PART, groups), F("MaxCPUsPerNode", 'B', "MAX_CPUS_PER_NODE", FIELD_PART, max_cpus), F("Memory", 'm', "MEMORY", FIELD_LEAST, memory),
    F("NodeAddr", 'o', "NODE_ADDR", FIELD_SAME, node_addr), F("NodeAI", 'A', "NODES(A/I)", FIELD_SUMS | FIELD_BARE, node_ai), F("NodeAIOT", 'F', "NODES(A/I/O/T)", FIELD_SUMS | FIELD_BARE, node_aiot), F("NodeHost", 'n', "HOSTNAMES", FIELD_SAME, node_host),
    F("NodeList", 'N', "NODELIST", FIELD_SUMS | FIELD_BARE, node_list), F("Nodes", 'D', "NODES", FIELD_SUMS | FIELD_BARE, nodes), F("OverSubscribe", 'h', "OVERSUBSCRIBE", FIELD_PART, oversubscribe), F("Share", 0, "OVERSUBSCRIBE", FIELD_PART, oversubscribe),
    F("Partition", 'P', "PARTITION", FIELD_NAMES_PART, partition), F("PartitionName", 'R', "PARTITION", FIELD_NAMES_PART, partition_name), F("Port", 0, "PORT", FIELD_LEAST, port), F("PreemptMode", 'M', "PREEMPT_MODE", FIELD_PART, preempt),
    F("PriorityJobFactor", 'I', "PRIO_JOB_FACTOR", FIELD_PART, job_factor), F("PriorityTier", 'p', "PRIO_TIER", FIELD_PART, tier), F("Reason", 'E', "REASON", FIELD_SAME, reason), F("Reservation", 'i', "RESERVATION", FIELD_SAME, reservation),
    F("Root", 'r', "ROOT", FIELD_PART, root), F("Size", 's', "JOB_SIZE", FIELD_PART, size), F("Sockets", 'X', "SOCKETS", FIELD_LEAST, sockets), F("SocketCoreThread", 'z', "S:C:T", FIELD_LEAST, sct),
    F("StateCompact", 't', "STATE", FIELD_SAME | FIELD_BARE, state_compact), F("StateComplete", 0, "STATECOMPLETE", FIELD_SAME | FIELD_BARE, state_complete), F("StateLong", 'T', "STATE", FIELD_SAME | FIELD_BARE, state_long), F("Threads", 'Z', "THREADS", FIELD_LEAST, threads),
    F("Time", 'l', "TIMELIMIT", FIELD_PART, time), F("TimeStamp", 'H', "TIMESTAMP", FIELD_SAME, timestamp), F("User", 'u', "USER", FIELD_SAME, user), F("UserLong", 'U', "USER", FIELD_SAME, user_long), F("Version", 'v', "VERSION", FIELD_SAME, version),
    F("Weight", 'w', "WEIGHT", FIELD_LEAST, weight),
};
const size_t sinfo_field_count = sizeof sinfo_fields / sizeof *sinfo_fields;
#undef F
