/* SPDX-License-Identifier: Apache-2.0 */
/* sinfo.c - shows partitions and the nodes in them.
 *
 * A line stands for the nodes of one partition that look alike in every field shown that tells nodes apart (state, features, gres, reason, ...);
 * counts and node lists add up, numbers such as CPUs show the least and a "+" unless --exact. With -N a line is a node. Partitions count
 * as a difference only where the format shows them, so `sinfo -h -o %C` is one line for the cluster.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "base/table.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/columns.h"
#include "cmds/common/json.h"
#include "cmds/common/options.h"
#include "state/state.h"

#define FORMAT_DEFAULT   "%9P %.5a %.10l %.6D %.6t %N"
#define FORMAT_SUMMARY   "%9P %.5a %.10l %.16F %N"
#define FORMAT_LONG      "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
#define FORMAT_NODE      "%10N %.6D %.9P %6t"
#define FORMAT_NODE_LONG "%10N %.6D %.9P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E"
#define FORMAT_REASON    "%20E %9u %19H %N"
#define FORMAT_REASON_LONG "%20E %12U %19H %6t %N"

struct list { char **words; size_t count; };
struct sinfo {
    struct list nodes, partitions, states;
    const char *format, *names_format, *sort;
    bool no_header, is_long, node_wise, reasons, summary, exact, dead, responding, json, all;
    uint32_t iterate_s;
    struct columns columns;
    struct arena arena;
    Wire__NodeInfo **node; size_t node_count;
    Wire__PartitionInfo **partition; size_t partition_count;
    int64_t now_s; char *cluster;
};

/* A line: a partition and its nodes that look alike. */
struct line { const Wire__PartitionInfo *partition; const Wire__NodeInfo **nodes; size_t count; const struct sinfo *sinfo; char *key; size_t order; };

/* ---- fields ------------------------------------------------------------------------------------------------------------------- */

#define L ((const struct line *)row)
#define P (L->partition)
#define N0 (L->count ? L->nodes[0] : NULL)
#define FIELD(name) static void show_##name(const void *row, struct str *out)

static unsigned node_kind(const Wire__NodeInfo *n)      /* 0 allocated, 1 idle, 2 other */
{
    if (n->state == NODE_DOWN || n->state == NODE_UNKNOWN || n->state_flags & (NODE_FLAG_NO_RESPOND | NODE_FLAG_FAIL) ||
        (n->state == NODE_IDLE && n->state_flags & NODE_FLAG_DRAIN))
        return n->state == NODE_UNKNOWN && !(n->state_flags & NODE_FLAG_DRAIN) ? 1 : 2;
    return n->state == NODE_ALLOCATED || n->state == NODE_MIXED || n->state_flags & NODE_FLAG_COMPLETING ? 0 : 1;
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
FIELD(cluster) { str_add(out, L->sinfo->cluster ? L->sinfo->cluster : ""); }
FIELD(comment) { str_add(out, N0 && N0->comment ? N0->comment : "(null)"); }
FIELD(load)
{
    if (N0 && N0->has_load_hundredths)
        str_addf(out, "%u.%02u", N0->load_hundredths / 100, N0->load_hundredths % 100);
    else
        str_add(out, "N/A");
}
FIELD(cpus_state)
{
    uint32_t alloc = 0, idle = 0, other = 0, total = 0;

    for (size_t i = 0; i < L->count; i++) {
        const Wire__NodeInfo *n = L->nodes[i];

        total += n->cpus;
        alloc += n->cpus_alloc;
        if (node_kind(n) == 2 || n->state_flags & NODE_FLAG_DRAIN)
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
        k[node_kind(l->nodes[i])]++;
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
FIELD(free_mem)
{
    if (N0 && N0->has_mem_free_mib && N0->mem_free_mib)
        str_addf(out, "%llu", (unsigned long long)N0->mem_free_mib);
    else
        str_add(out, "N/A");
}
FIELD(gres) { str_add(out, N0 && N0->gres && *N0->gres ? N0->gres : "(null)"); }
FIELD(gres_used) { str_add(out, N0 && N0->gres_used && *N0->gres_used ? N0->gres_used : "(null)"); }
FIELD(groups) { str_add(out, !P || !P->allow_groups || word_eq(P->allow_groups, "ALL") ? "all" : P->allow_groups); }
FIELD(max_cpus) { if (P && P->max_cpus_per_node && P->max_cpus_per_node != UINT32_MAX) str_addf(out, "%u", P->max_cpus_per_node); else str_add(out, "UNLIMITED"); }
static void node_names(const struct line *l, struct str *out, char *(*get)(const Wire__NodeInfo *))
{
    struct hostlist *h = hostlist_create();

    for (size_t i = 0; i < l->count; i++)
        hostlist_add(h, get(l->nodes[i]) ? get(l->nodes[i]) : l->nodes[i]->name);
    hostlist_sort(h);
    hostlist_print(h, out);
    hostlist_destroy(h);
}
static char *get_name(const Wire__NodeInfo *n) { return n->name; }
static char *get_addr(const Wire__NodeInfo *n) { return n->addr; }
static char *get_hostname(const Wire__NodeInfo *n) { return n->hostname; }
FIELD(node_list) { node_names(L, out, get_name); }
FIELD(node_addr) { node_names(L, out, get_addr); }
FIELD(node_host) { node_names(L, out, get_hostname); }
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
        moment_print(N0->reason_wall_s, getenv("SLURM_TIME_FORMAT"), L->sinfo->now_s, out);
    else
        str_add(out, "Unknown");
}
FIELD(user) { str_add(out, N0 && N0->reason && *N0->reason ? N0->reason_user ? N0->reason_user : "" : "Unknown"); }
FIELD(user_long) { if (N0 && N0->reason && *N0->reason) str_addf(out, "%s(%u)", N0->reason_user ? N0->reason_user : "", N0->reason_uid); else str_add(out, "Unknown"); }
FIELD(version) { str_add(out, N0 && N0->version ? N0->version : ""); }
FIELD(extra) { str_add(out, N0 && N0->extra ? N0->extra : ""); }

/* What of a field decides which nodes share a line. */
#define MERGES  1u      /* adds up: lists, counts */
#define LEAST   2u      /* least and "+" unless --exact or -N */
#define PART    4u      /* of the partition */
#define F(name, letter, heading, kind, fn) { name, letter, heading, kind, show_##fn }
static const struct column_field fields[] = {
    F("AllocMem", 0, "ALLOCMEM", LEAST, alloc_mem), F("AllocNodes", 'S', "ALLOCNODES", PART, alloc_nodes), F("Available", 'a', "AVAIL", PART, available), F("Cluster", 'V', "CLUSTER", 0, cluster),
    F("Comment", 0, "COMMENT", 0, comment), F("Cores", 'Y', "CORES", LEAST, cores), F("CPUs", 'c', "CPUS", LEAST, cpus), F("CPUsLoad", 'O', "CPU_LOAD", 0, load),
    F("CPUsState", 'C', "CPUS(A/I/O/T)", MERGES, cpus_state), F("DefaultTime", 'L', "DEFAULTTIME", PART, default_time), F("Disk", 'd', "TMP_DISK", LEAST, disk), F("Extra", 0, "EXTRA", 0, extra),
    F("Features", 'f', "AVAIL_FEATURES", 0, features), F("features_act", 'b', "ACTIVE_FEATURES", 0, features), F("FreeMem", 'e', "FREE_MEM", 0, free_mem), F("Gres", 'G', "GRES", 0, gres),
    F("GresUsed", 0, "GRES_USED", 0, gres_used), F("Groups", 'g', "GROUPS", PART, groups), F("MaxCPUsPerNode", 'B', "MAX_CPUS_PER_NODE", PART, max_cpus), F("Memory", 'm', "MEMORY", LEAST, memory),
    F("NodeAddr", 'o', "NODE_ADDR", MERGES, node_addr), F("NodeAI", 'A', "NODES(A/I)", MERGES, node_ai), F("NodeAIOT", 'F', "NODES(A/I/O/T)", MERGES, node_aiot), F("NodeHost", 'n', "HOSTNAMES", MERGES, node_host),
    F("NodeList", 'N', "NODELIST", MERGES, node_list), F("Nodes", 'D', "NODES", MERGES, nodes), F("OverSubscribe", 'h', "OVERSUBS", PART, oversubscribe), F("Share", 0, "OVERSUBS", PART, oversubscribe),
    F("Partition", 'P', "PARTITION", PART, partition), F("PartitionName", 'R', "PARTITION", PART, partition_name), F("Port", 0, "PORT", LEAST, port), F("PreemptMode", 'M', "PREEMPT_MODE", PART, preempt),
    F("PriorityJobFactor", 'I', "PRIO_JOB_FACTOR", PART, job_factor), F("PriorityTier", 'p', "PRIO_TIER", PART, tier), F("Reason", 'E', "REASON", 0, reason), F("Reservation", 'i', "RESERVATION", 0, reservation),
    F("Root", 'r', "ROOT", PART, root), F("Size", 's', "JOB_SIZE", PART, size), F("Sockets", 'X', "SOCKETS", LEAST, sockets), F("SocketCoreThread", 'z', "S:C:T", LEAST, sct),
    F("StateCompact", 't', "STATE", 0, state_compact), F("StateComplete", 0, "STATECOMPLETE", 0, state_complete), F("StateLong", 'T', "STATE", 0, state_long), F("Threads", 'Z', "THREADS", LEAST, threads),
    F("Time", 'l', "TIMELIMIT", PART, time), F("TimeStamp", 'H', "TIMESTAMP", 0, timestamp), F("User", 'u', "USER", 0, user), F("UserLong", 'U', "USER", 0, user_long), F("Version", 'v', "VERSION", 0, version),
    F("Weight", 'w', "WEIGHT", LEAST, weight),
};
#undef F

/* ---- options -------------------------------------------------------------------------------------------------------------------- */

#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
#define SI ((struct sinfo *)request)
static void list_put(struct list *l, const char *word)
{
    l->words = mem_grow(l->words, l->count + 1, sizeof *l->words);
    l->words[l->count++] = mem_copy(word);
}
static void list_add(struct list *l, const char *text)
{
    char *copy = mem_copy(text), *cursor = copy, *word;

    while ((word = word_next(&cursor, ",")))
        list_put(l, word_trim(word));
    free(copy);
}
static void list_free(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->words[i]);
    free(l->words);
}
TAKE(partition) { UNUSED; list_add(&SI->partitions, value); return 0; }
TAKE(states) { UNUSED; list_add(&SI->states, value); return 0; }
TAKE(nodes)
{
    struct hostlist *h;

    (void)from;
    if (hostlist_parse(value, &h, err) < 0)
        return err->code;
    for (size_t i = 0; i < hostlist_count(h); i++)
        list_put(&SI->nodes, hostlist_nth(h, i));
    hostlist_destroy(h);
    return 0;
}
TAKE(format) { UNUSED; SI->format = value; SI->names_format = NULL; return 0; }
TAKE(names_format) { UNUSED; SI->names_format = value; SI->format = NULL; return 0; }
TAKE(sort) { UNUSED; SI->sort = value; return 0; }
TAKE(no_header) { UNUSED; SI->no_header = true; return 0; }
TAKE(long) { UNUSED; SI->is_long = true; return 0; }
TAKE(node_wise) { UNUSED; SI->node_wise = true; return 0; }
TAKE(reasons) { UNUSED; SI->reasons = true; return 0; }
TAKE(summary) { UNUSED; SI->summary = true; return 0; }
TAKE(exact) { UNUSED; SI->exact = true; return 0; }
TAKE(dead) { UNUSED; SI->dead = true; return 0; }
TAKE(responding) { UNUSED; SI->responding = true; return 0; }
TAKE(json) { UNUSED; SI->json = true; return 0; }
TAKE(all) { UNUSED; SI->all = true; return 0; }
TAKE(nothing) { UNUSED; (void)request; return 0; }
TAKE(iterate)
{
    (void)from;
    return number_u32(value, &SI->iterate_s) && SI->iterate_s ? 0 : spur_fail(err, SPUR_EINVAL, "--iterate=%s: a number of seconds above 0 is needed", value);
}
static const struct option_row rows[] = {
    { "all", 'a', OPTION_NONE, NULL, "SINFO_ALL", take_all, "hidden partitions too" },
    { "dead", 'd', OPTION_NONE, NULL, NULL, take_dead, "nodes that do not answer" },
    { "exact", 'e', OPTION_NONE, NULL, NULL, take_exact, "a line for each different number of CPUs, memory, ..." },
    { "future", 'F', OPTION_NONE, NULL, NULL, take_nothing, "nodes in state FUTURE too (always shown here)" },
    { "hide", 0, OPTION_NONE, NULL, NULL, take_nothing, "the opposite of --all" },
    { "iterate", 'i', OPTION_VALUE, "SECONDS", NULL, take_iterate, "again every so many seconds" },
    { "json", 0, OPTION_MAY, "PARSER", "SLURM_JSON", take_json, "everything, as JSON" },
    { "long", 'l', OPTION_NONE, NULL, NULL, take_long, "the long format" },
    { "nodes", 'n', OPTION_VALUE, "LIST", NULL, take_nodes, "these nodes" },
    { "noconvert", 0, OPTION_NONE, NULL, NULL, take_nothing, "numbers in their own unit (always so here)" },
    { "noheader", 'h', OPTION_NONE, NULL, NULL, take_no_header, "no heading" },
    { "Node", 'N', OPTION_NONE, NULL, NULL, take_node_wise, "a line a node" },
    { "format", 'o', OPTION_VALUE, "FORMAT", NULL, take_format, "letters, \"%9P %.5a %N\"" },
    { "Format", 'O', OPTION_VALUE, "FORMAT", NULL, take_names_format, "names, \"Partition:10,StateLong\"" },
    { "partition", 'p', OPTION_VALUE, "LIST", "SINFO_PARTITION", take_partition, "these partitions" },
    { "responding", 'r', OPTION_NONE, NULL, NULL, take_responding, "nodes that answer" },
    { "list-reasons", 'R', OPTION_NONE, NULL, NULL, take_reasons, "why nodes are down or drained" },
    { "summarize", 's', OPTION_NONE, NULL, NULL, take_summary, "a line a partition" },
    { "sort", 'S', OPTION_VALUE, "FIELDS", "SINFO_SORT", take_sort, "letters of the format, - in front for descending" },
    { "states", 't', OPTION_VALUE, "LIST", NULL, take_states, "nodes in these states" },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_nothing, "more words (there are none here)" },
    { "local", 0, OPTION_NONE, NULL, "SINFO_LOCAL", take_nothing, NULL },
};
static const struct option_table table = {
    "sinfo", "Usage: sinfo [OPTIONS]\nShows partitions and nodes.\n", rows, sizeof rows / sizeof *rows,
    "federation clusters cluster reservation yaml helpstate helpformat helpFormat autocomplete", "MT", 1, false };

/* ---- lines ------------------------------------------------------------------------------------------------------------------------ */

static bool state_wanted(const struct sinfo *s, const Wire__NodeInfo *n)
{
    struct str compact, full;
    bool wanted = s->states.count == 0;

    str_init(&compact);
    str_init(&full);
    node_state_print(n->state, n->state_flags, true, false, &compact);
    node_state_print(n->state, n->state_flags, false, true, &full);
    for (size_t i = 0; i < s->states.count && !wanted; i++) {
        const char *w = s->states.words[i];
        char *cursor = full.text, *part, *copy = mem_copy(full.text);
        size_t n_compact = strcspn(compact.text, "*~#!%$@^-");

        wanted = word_eq(w, "all") || (strlen(w) == n_compact && strncasecmp(compact.text, w, n_compact) == 0) ||
                 (word_eq(w, "drained") && n->state_flags & NODE_FLAG_DRAIN && node_kind(n) == 2) ||
                 (word_eq(w, "draining") && n->state_flags & NODE_FLAG_DRAIN && node_kind(n) == 0) ||
                 (word_eq(w, "alloc") && n->state == NODE_ALLOCATED) || (word_eq(w, "mix") && n->state == NODE_MIXED) ||
                 (word_eq(w, "no_respond") && n->state_flags & NODE_FLAG_NO_RESPOND) || (word_eq(w, "unk") && n->state == NODE_UNKNOWN);
        for (cursor = copy; !wanted && (part = word_next(&cursor, "+*")); )
            wanted = word_eq(part, w);
        free(copy);
    }
    str_fini(&compact);
    str_fini(&full);
    return wanted;
}

static bool node_wanted(const struct sinfo *s, const Wire__NodeInfo *n)
{
    bool wanted = s->nodes.count == 0;

    for (size_t i = 0; i < s->nodes.count && !wanted; i++)
        wanted = !strcmp(s->nodes.words[i], n->name);
    if (s->dead && !(n->state_flags & NODE_FLAG_NO_RESPOND))
        return false;
    if (s->responding && n->state_flags & NODE_FLAG_NO_RESPOND)
        return false;
    if (s->reasons && !(n->reason && *n->reason))
        return false;
    return wanted && state_wanted(s, n);
}

static bool partition_wanted(const struct sinfo *s, const Wire__PartitionInfo *p)
{
    bool wanted = s->partitions.count == 0 && (!p->hidden || s->all);

    for (size_t i = 0; i < s->partitions.count && !wanted; i++)
        wanted = !strcmp(s->partitions.words[i], p->name);
    return wanted;
}

/* Text that tells lines apart: the partition where it is shown, and every shown field that neither adds up nor takes the least. */
static char *line_key(const struct sinfo *s, const struct line *l, const Wire__NodeInfo *n)
{
    struct line one = { .partition = l->partition, .nodes = &n, .count = n ? 1 : 0, .sinfo = s };
    struct str key;
    bool of_partition = false;

    str_init(&key);
    for (size_t i = 0; i < s->columns.count; i++) {
        const struct column_field *f = s->columns.list[i].field;

        of_partition |= f->needs == PART;
        if (f->needs == MERGES || f->needs == PART || (f->needs == LEAST && !s->exact && !s->node_wise))
            continue;
        f->print(&one, &key);
        str_add_char(&key, '\x1f');
    }
    if (of_partition)
        str_addf(&key, "\x1e%s", l->partition ? l->partition->name : "");
    if (s->node_wise)
        str_addf(&key, "\x1e%s", n ? n->name : "");
    return str_take(&key);
}

struct lines { struct line **list; size_t count; struct table by_key; };

static void lines_put(struct lines *all, const struct sinfo *s, const Wire__PartitionInfo *p, const Wire__NodeInfo *n)
{
    struct line probe = { .partition = p, .sinfo = s };
    char *key = line_key(s, &probe, n);
    struct line *l = table_get_text(&all->by_key, key);

    if (!l) {
        l = mem_alloc(sizeof *l);
        l->partition = p;
        l->sinfo = s;
        l->key = key;
        l->order = all->count;
        all->list = mem_grow(all->list, all->count + 1, sizeof *all->list);
        all->list[all->count++] = l;
        table_put_text(&all->by_key, key, l);
    } else {
        free(key);
    }
    if (!n)
        return;
    if (l->partition != p)      /* no partition shown: a node of two partitions counts once */
        for (size_t i = 0; i < l->count; i++)
            if (l->nodes[i] == n)
                return;
    if ((l->count & (l->count - 1)) == 0)
        l->nodes = mem_grow(l->nodes, l->count ? l->count * 2 : 1, sizeof *l->nodes);
    l->nodes[l->count++] = n;
}

static int state_rank(const Wire__NodeInfo *n)
{
    return !n ? 99 : n->state == NODE_DOWN ? 1 : n->state_flags & NODE_FLAG_DRAIN ? 2 : n->state == NODE_UNKNOWN ? 0 : n->state == NODE_ALLOCATED ? 5 : n->state == NODE_MIXED ? 4 : 6;
}

static const char *sort_order;
/* Partitions stay in the configuration's order; within one: by state, then by node name. Node-wise: by node name. */
static int line_compare(const void *x, const void *y)
{
    const struct line *a = *(struct line *const *)x, *b = *(struct line *const *)y;
    const Wire__NodeInfo *na = a->count ? a->nodes[0] : NULL, *nb = b->count ? b->nodes[0] : NULL;
    int result = 0;

    for (const char *p = sort_order; *p && !result; p++) {
        bool down = *p == '-';

        p += *p == '-' || *p == '+' || *p == '#';
        switch (*p) {
        case 'P': case 'R':
            if (a->partition && b->partition)
                result = p > sort_order && p[-1] == '#' ? (a->partition < b->partition ? -1 : a->partition > b->partition) : a->order < b->order && a->partition != b->partition ? -1 : a->partition != b->partition;
            break;
        case 't': case 'T': result = state_rank(na) - state_rank(nb); break;
        case 'N': case 'n':
            if (na && nb) {
                struct hostlist *h = hostlist_create();

                hostlist_add(h, na->name);
                hostlist_add(h, nb->name);
                hostlist_sort(h);
                result = strcmp(na->name, nb->name) == 0 ? 0 : strcmp(hostlist_nth(h, 0), na->name) == 0 ? -1 : 1;
                hostlist_destroy(h);
            }
            break;
        case 'D': result = a->count < b->count ? -1 : a->count > b->count; break;
        case 'c': result = na && nb ? (na->cpus < nb->cpus ? -1 : na->cpus > nb->cpus) : 0; break;
        case 'm': result = na && nb ? (na->mem_mib < nb->mem_mib ? -1 : na->mem_mib > nb->mem_mib) : 0; break;
        case 'E': result = na && nb ? strcmp(na->reason ? na->reason : "", nb->reason ? nb->reason : "") : 0; break;
        case 'H': result = na && nb ? (na->reason_wall_s < nb->reason_wall_s ? -1 : na->reason_wall_s > nb->reason_wall_s) : 0; break;
        default: break;
        }
        if (down)
            result = -result;
        if (!*p)
            break;
    }
    return result ? result : a->order < b->order ? -1 : 1;
}

static void lines_print(struct sinfo *s)
{
    struct lines all = { 0 };
    struct table by_name;
    struct str scratch;

    table_init(&all.by_key);
    table_init(&by_name);
    for (size_t i = 0; i < s->node_count; i++)
        table_put_text(&by_name, s->node[i]->name, s->node[i]);
    for (size_t i = 0; i < s->partition_count; i++) {
        const Wire__PartitionInfo *p = s->partition[i];
        struct hostlist *h;
        size_t shown = 0;

        if (!partition_wanted(s, p) || hostlist_parse(p->nodes, &h, NULL) < 0)
            continue;
        for (size_t k = 0; k < hostlist_count(h); k++) {
            const Wire__NodeInfo *n = table_get_text(&by_name, hostlist_nth(h, k));

            if (n && node_wanted(s, n)) {
                lines_put(&all, s, p, n);
                shown++;
            }
        }
        if (!shown && !s->node_wise && !s->reasons && !s->nodes.count && !s->states.count && !s->dead && !s->responding)
            lines_put(&all, s, p, NULL);
        hostlist_destroy(h);
    }
    sort_order = s->sort ? s->sort : s->node_wise ? "N,P" : s->reasons ? "E" : "P,t";
    if (all.count > 1)
        qsort(all.list, all.count, sizeof *all.list, line_compare);
    str_init(&scratch);
    for (size_t i = 0; i < all.count; i++) {
        columns_row(&s->columns, all.list[i], &scratch, stdout);
        free(all.list[i]->key);
        free(all.list[i]->nodes);
        free(all.list[i]);
    }
    str_fini(&scratch);
    free(all.list);
    table_fini(&all.by_key);
    table_fini(&by_name);
}

/* ---- one look ---------------------------------------------------------------------------------------------------------------------- */

/* Parts die with the call, so each row is kept by packing it over. */
static void *row_keep(struct sinfo *s, const ProtobufCMessage *m, void *(*unpack)(const uint8_t *, size_t))
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = arena_alloc(&s->arena, n + 1);

    protobuf_c_message_pack(m, bytes);
    return unpack(bytes, n);
}
static void *node_unpack(const uint8_t *bytes, size_t n) { return wire__node_info__unpack(NULL, n, bytes); }
static void *partition_unpack(const uint8_t *bytes, size_t n) { return wire__partition_info__unpack(NULL, n, bytes); }

static int node_part(void *arg, void *part)
{
    struct sinfo *s = arg;
    const Wire__NodesReply *r = part;

    s->now_s = r->wall_ms / 1000;
    if (!s->cluster && r->cluster)
        s->cluster = mem_copy(r->cluster);
    s->node = mem_grow(s->node, s->node_count + r->n_nodes + 1, sizeof *s->node);
    for (size_t i = 0; i < r->n_nodes; i++)
        s->node[s->node_count++] = row_keep(s, &r->nodes[i]->base, node_unpack);
    return !r->last;
}

static int partition_part(void *arg, void *part)
{
    struct sinfo *s = arg;
    const Wire__PartitionsReply *r = part;

    s->partition = mem_grow(s->partition, s->partition_count + r->n_partitions + 1, sizeof *s->partition);
    for (size_t i = 0; i < r->n_partitions; i++)
        s->partition[s->partition_count++] = row_keep(s, &r->partitions[i]->base, partition_unpack);
    return !r->last;
}

static int look(struct sinfo *s, struct client *c)
{
    Wire__NodesRequest nodes = WIRE__NODES_REQUEST__INIT;
    Wire__Empty empty = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    int number;

    arena_init(&s->arena, 0);
    if (client_stream(c, WIRE__MESSAGE_TYPE__NODES, &nodes.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, node_part, s, &number, &err) < 0 ||
        client_stream(c, WIRE__MESSAGE_TYPE__PARTITIONS, &empty.base, WIRE__MESSAGE_TYPE__PARTITIONS_PART, &wire__partitions_reply__descriptor, partition_part, s, &number, &err) < 0) {
        fprintf(stderr, "slurm_load_partitions: %s\n", err.text);
        return 1;
    }
    if (s->json) {
        struct json_writer *w = json_begin("sinfo", "nodes");

        for (size_t i = 0; i < s->node_count; i++)
            if (node_wanted(s, s->node[i]))
                json_node(w, s->node[i]);
        json_close(w);
        json_open(w, "partitions", '[');
        for (size_t i = 0; i < s->partition_count; i++)
            if (partition_wanted(s, s->partition[i]))
                json_partition(w, s->partition[i]);
        json_end(w);
    } else {
        if (!s->no_header)
            columns_heading(&s->columns, stdout);
        lines_print(s);
    }
    for (size_t i = 0; i < s->node_count; i++)
        wire__node_info__free_unpacked(s->node[i], NULL);
    for (size_t i = 0; i < s->partition_count; i++)
        wire__partition_info__free_unpacked(s->partition[i], NULL);
    s->node_count = s->partition_count = 0;
    arena_fini(&s->arena);
    return 0;
}

static int formats_choose(struct sinfo *s, struct spur_error *err)
{
    if (!s->format && !s->names_format) {
        const char *env = getenv("SINFO_FORMAT");

        s->format = s->reasons ? s->is_long ? FORMAT_REASON_LONG : FORMAT_REASON : s->summary ? FORMAT_SUMMARY :
                    s->node_wise ? s->is_long ? FORMAT_NODE_LONG : FORMAT_NODE : s->is_long ? FORMAT_LONG : env ? env : FORMAT_DEFAULT;
    }
    if (s->names_format)
        return columns_parse_names(s->names_format, fields, sizeof fields / sizeof *fields, &s->columns, err);
    return columns_parse(s->format + strspn(s->format, " "), fields, sizeof fields / sizeof *fields, &s->columns, err);
}

static void date_line(void)
{
    char text[64];
    time_t now = time(NULL);
    struct tm tm;

    strftime(text, sizeof text, "%a %b %d %H:%M:%S %Y", localtime_r(&now, &tm));
    puts(text);
}

int cmd_sinfo(int argc, char **argv)
{
    struct sinfo s = { 0 };
    struct spur_error err = { 0 };
    struct client *c = NULL;
    int first, rc;

    if ((rc = options_environment(&table, &s)) || (rc = options_read(&table, argc, argv, &s, &first)))
        return rc == OPTIONS_DONE ? 0 : rc;
    if (first < argc) {
        fprintf(stderr, "sinfo: error: Unrecognized option: %s\nTry \"sinfo --help\" for more information\n", argv[first]);
        return 1;
    }
    if (formats_choose(&s, &err) < 0 || client_open(NULL, &c, &err) < 0) {
        fprintf(stderr, "sinfo: error: %s\n", err.text);
        rc = 1;
    }
    while (!rc) {
        if ((s.is_long || s.iterate_s) && !s.json)
            date_line();
        rc = look(&s, c);
        if (!s.iterate_s || rc)
            break;
        fflush(stdout);
        sleep(s.iterate_s);
        putchar('\n');
    }
    client_close(c);
    columns_fini(&s.columns);
    list_free(&s.nodes);
    list_free(&s.partitions);
    list_free(&s.states);
    free(s.node);
    free(s.partition);
    free(s.cluster);
    return rc;
}
