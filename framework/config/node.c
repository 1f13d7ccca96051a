/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - NodeName, NodeSet and DownNodes lines: names expanded, addresses and ports in step, sizes resolved.
 *
 * Sizes follow what Slurm's controller shows for each combination of CPUs, Boards, Sockets, SocketsPerBoard, CoresPerSocket and
 * ThreadsPerCore: with CPUs alone every CPU is a socket of its own; with CPUs and cores or threads the sockets follow, when they
 * divide evenly; CPUs that equal neither sockets, cores nor threads are reset to the threads, with a warning.
 * Called by the line loop of config.c; names are unique, checked here.
 */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

#define PART_MAX 65533u         /* sockets, cores, threads or boards of one node, as Slurm's 16 bits allow */
#define CPUS_MAX (1u << 20)
#define NODES_MAX 200000u

enum { NODE_ADDR, NODE_BCAST, NODE_BOARDS, NODE_CORE_SPEC, NODE_CORES, NODE_CPU_BIND, NODE_CPUS, NODE_CPU_SPEC, NODE_FEATURES, NODE_GRES, NODE_GRES_CONF,
    NODE_MEM_SPEC, NODE_HOSTNAME, NODE_PARAMETERS, NODE_PORT, NODE_MEMORY, NODE_REASON, NODE_RESTRICTED, NODE_SOCKETS, NODE_SOCKETS_BOARD, NODE_STATE,
    NODE_SUSPEND, NODE_THREADS, NODE_TMP, NODE_TOPOLOGY, NODE_TRES, NODE_WEIGHT };

static const struct record_key node_keys[] = {
    { "BcastAddr",      CONFIG_NO_EFFECT, "nodes connect to sbcast: none is called at an address", NODE_BCAST },
    { "Boards",         CONFIG_ACTS, "", NODE_BOARDS },
    { "CoreSpecCount",  CONFIG_ACTS, "", NODE_CORE_SPEC },
    { "CoresPerSocket", CONFIG_ACTS, "", NODE_CORES },
    { "CpuBind",        CONFIG_NO_EFFECT, "TaskPluginParam and --cpu-bind say how tasks are bound", NODE_CPU_BIND },
    { "CPUs",           CONFIG_ACTS, "", NODE_CPUS },
    { "Procs",          CONFIG_MAPPED, "CPUs", NODE_CPUS },
    { "CPUSpecList",    CONFIG_MAPPED, "CoreSpecCount, of as many cores as the list has", NODE_CPU_SPEC },
    { "Feature",        CONFIG_ACTS, "", NODE_FEATURES },
    { "Features",       CONFIG_ACTS, "", NODE_FEATURES },
    { "Gres",           CONFIG_ACTS, "", NODE_GRES },
    { "GresConf",       CONFIG_NO_EFFECT, "devices of a node stand in gres.conf", NODE_GRES_CONF },
    { "MemSpecLimit",   CONFIG_ACTS, "", NODE_MEM_SPEC },
    { "NodeAddr",       CONFIG_ACTS, "", NODE_ADDR },
    { "NodeHostname",   CONFIG_ACTS, "", NODE_HOSTNAME },
    { "Parameters",     CONFIG_NO_EFFECT, "per-node parameters have no counterpart", NODE_PARAMETERS },
    { "Port",           CONFIG_ACTS, "", NODE_PORT },
    { "RealMemory",     CONFIG_ACTS, "", NODE_MEMORY },
    { "Reason",         CONFIG_ACTS, "", NODE_REASON },
    { "RestrictedCoresPerGPU", CONFIG_NO_EFFECT, "cores are not kept aside for GPUs by this version", NODE_RESTRICTED },
    { "Sockets",        CONFIG_ACTS, "", NODE_SOCKETS },
    { "SocketsPerBoard", CONFIG_ACTS, "", NODE_SOCKETS_BOARD },
    { "State",          CONFIG_ACTS, "", NODE_STATE },
    { "SuspendTime",    CONFIG_NO_EFFECT, "nodes are not powered up or down by this version", NODE_SUSPEND },
    { "ThreadsPerCore", CONFIG_ACTS, "", NODE_THREADS },
    { "TmpDisk",        CONFIG_ACTS, "", NODE_TMP },
    { "Topology",       CONFIG_NO_EFFECT, "there is one topology for the whole cluster", NODE_TOPOLOGY },
    { "TRESWeights",    CONFIG_NO_EFFECT, "billing by TRES weights is not computed by this version", NODE_TRES },
    { "Weight",         CONFIG_ACTS, "", NODE_WEIGHT },
    { 0 } };

static int size_of(const struct record *rec, int id, const char *name, uint32_t max, uint32_t fallback, uint32_t *out, struct spur_error *err)
{
    const char *text = rec->values[id];

    *out = fallback;
    if (!text)
        return 0;
    if (!number_u32(text, out) || *out > max)
        return spur_fail(err, SPUR_EINVAL, "%s: \"%.40s\" is not a number from 0 to %u", name, text, max);
    return 0;
}

static int memory_of(const struct record *rec, int id, const char *name, uint64_t fallback, uint64_t *out, struct spur_error *err)
{
    *out = fallback;
    if (rec->values[id] && mebibytes_parse(rec->values[id], out, err) < 0)
        return spur_context(err, "%s", name);
    return 0;
}

/* Fills the sizes of `n`; `odd` gets what was corrected. */
static int sizes_resolve(const struct record *rec, struct config_node *n, struct str *odd, struct spur_error *err)
{
    uint32_t cpus, boards, sockets, per_board, cores, threads;
    uint64_t all;
    int rc;

    if ((rc = size_of(rec, NODE_CPUS, "CPUs", CPUS_MAX, 0, &cpus, err)) < 0 ||
        (rc = size_of(rec, NODE_BOARDS, "Boards", PART_MAX, 1, &boards, err)) < 0 ||
        (rc = size_of(rec, NODE_SOCKETS, "Sockets", PART_MAX, 0, &sockets, err)) < 0 ||
        (rc = size_of(rec, NODE_SOCKETS_BOARD, "SocketsPerBoard", PART_MAX, 0, &per_board, err)) < 0 ||
        (rc = size_of(rec, NODE_CORES, "CoresPerSocket", PART_MAX, 1, &cores, err)) < 0 ||
        (rc = size_of(rec, NODE_THREADS, "ThreadsPerCore", PART_MAX, 1, &threads, err)) < 0)
        return rc;
    if ((rec->values[NODE_CPUS] && !cpus) || !boards || !cores || !threads || (rec->values[NODE_SOCKETS] && !sockets) || (rec->values[NODE_SOCKETS_BOARD] && !per_board))
        str_add(odd, "a size of 0 counts as 1");
    boards = boards ? boards : 1;
    cores = cores ? cores : 1;
    threads = threads ? threads : 1;
    cpus = cpus || !rec->values[NODE_CPUS] ? cpus : 1;
    if (rec->values[NODE_SOCKETS_BOARD]) {
        if (rec->values[NODE_SOCKETS])
            str_add(odd, "Sockets and SocketsPerBoard exclude each other: SocketsPerBoard counts");
        if ((uint64_t)boards * (per_board ? per_board : 1) > PART_MAX)
            return spur_fail(err, SPUR_EINVAL, "Boards=%u times SocketsPerBoard=%u is more than %u sockets", boards, per_board, PART_MAX);
        sockets = boards * (per_board ? per_board : 1);
    } else if (!rec->values[NODE_SOCKETS] && cpus) {
        uint64_t each = (uint64_t)cores * threads;

        sockets = cpus % each ? 1 : (uint32_t)(cpus / each);
    }
    sockets = sockets ? sockets : boards;
    if (sockets < boards) {
        str_addf(odd, "%sBoards=%u is more than the sockets: one board counts", odd->len ? "; " : "", boards);
        boards = 1;
    }
    all = (uint64_t)sockets * cores * threads;
    if (all > CPUS_MAX)
        return spur_fail(err, SPUR_EINVAL, "%u sockets of %u cores of %u threads are more than %u CPUs", sockets, cores, threads, CPUS_MAX);
    if (cpus && cpus != sockets && cpus != (uint64_t)sockets * cores && cpus != all) {
        str_addf(odd, "%sCPUs=%u is neither the sockets (%u), the cores (%u) nor the threads (%u): the threads count", odd->len ? "; " : "",
            cpus, sockets, sockets * cores, (unsigned)all);
        cpus = 0;
    }
    n->cpus = cpus ? cpus : (uint32_t)all;
    n->boards = boards;
    n->sockets = sockets;
    n->cores_per_socket = cores;
    n->threads_per_core = threads;
    return 0;
}

static const char *const states[] = { "UNKNOWN", "IDLE", "DOWN", "DRAIN", "FAIL", "CLOUD", "FUTURE", "EXTERNAL", NULL };

/* One of `states`, for the words that mean it. */
static const char *state_word(const char *text)
{
    if (word_eq(text, "DRAINED") || word_eq(text, "DRAINING"))
        return "DRAIN";
    if (word_eq(text, "FAILING"))
        return "FAIL";
    for (int i = 0; states[i]; i++)
        if (word_eq(states[i], text))
            return states[i];
    return NULL;
}

int gres_list_read(const char *text, char **shown, struct config_gres **out, size_t *count, struct spur_error *err)
{
    struct str all, item;
    size_t room = 0;
    const char *p = text;
    int depth, rc = 0;

    *out = NULL;
    *count = 0;
    str_init(&all);
    str_init(&item);
    while (*p && rc == 0) {
        char *cursor, *word, *words[8];
        size_t n = 0;
        struct config_gres *g;

        str_clear(&item);
        for (depth = 0; *p && (depth || *p != ','); p++) {
            if (*p == '(')
                depth++;
            else if (*p == ')' && depth)
                depth--;
            else if (!depth && *p != ' ' && *p != '\t')
                str_add_char(&item, *p);
        }
        while (*p == ',')
            p++;
        if (!item.len)
            continue;
        if (depth) {
            rc = spur_fail(err, SPUR_EINVAL, "Gres: unclosed bracket in \"%.60s\"", text);
            break;
        }
        if (all.len)
            str_add_char(&all, ',');
        str_add(&all, item.text);
        cursor = item.text;
        while (n < 8 && (word = word_next(&cursor, ":")))
            words[n++] = word;
        if (!n || n > 4) {
            rc = spur_fail(err, SPUR_EINVAL, "Gres: \"%.60s\" is not NAME[:TYPE][:no_consume][:COUNT]", text);
            break;
        }
        g = reader_grow((void **)out, count, &room, sizeof *g);
        g->name = mem_copy(words[0]);
        g->count = 1;
        for (size_t i = 1; i < n && rc == 0; i++) {
            uint64_t value;

            if (word_eq(words[i], "no_consume"))
                g->no_consume = true;
            else if (i == n - 1 && count_parse(words[i], &value, NULL) == 0)
                g->count = value;
            else if (!g->type)
                g->type = mem_copy(words[i]);
            else
                rc = spur_fail(err, SPUR_EINVAL, "Gres: \"%.60s\" is not a count, in \"%.60s\"", words[i], text);
        }
    }
    if (rc == 0)
        *shown = all.len ? mem_copy(all.text) : NULL;
    str_fini(&all);
    str_fini(&item);
    if (rc < 0) {
        for (size_t i = 0; i < *count; i++) {
            free((*out)[i].name);
            free((*out)[i].type);
        }
        free(*out);
        *out = NULL;
        *count = 0;
    }
    return rc;
}

void node_fini(struct config_node *n)
{
    for (size_t i = 0; i < n->gres_count; i++) {
        free(n->gres[i].name);
        free(n->gres[i].type);
    }
    free(n->gres);
    free(n->name);
    free(n->addr);
    free(n->hostname);
    free(n->cpu_spec_list);
    free(n->features);
    free(n->gres_text);
    free(n->state);
    free(n->reason);
    free(n->parameters);
    memset(n, 0, sizeof *n);
}

/* All that the nodes of one line have in common. */
static int node_common(struct record *rec, struct config_node *n, struct str *odd, struct spur_error *err)
{
    uint64_t value;
    const char *state = "UNKNOWN";
    int rc;

    if ((rc = sizes_resolve(rec, n, odd, err)) < 0 ||
        (rc = memory_of(rec, NODE_MEMORY, "RealMemory", 1, &n->mem_mib, err)) < 0 ||
        (rc = memory_of(rec, NODE_TMP, "TmpDisk", 0, &n->tmp_mib, err)) < 0 ||
        (rc = memory_of(rec, NODE_MEM_SPEC, "MemSpecLimit", 0, &value, err)) < 0)
        return rc;
    if (value > UINT32_MAX || n->mem_mib > INT64_MAX / 2 || n->tmp_mib > INT64_MAX / 2)
        return spur_fail(err, SPUR_EINVAL, "RealMemory, TmpDisk or MemSpecLimit is out of range");
    n->mem_spec_mib = (uint32_t)value;
    if ((rc = size_of(rec, NODE_WEIGHT, "Weight", UINT32_MAX - 16, 1, &n->weight, err)) < 0 ||
        (rc = size_of(rec, NODE_CORE_SPEC, "CoreSpecCount", PART_MAX, 0, &n->core_spec, err)) < 0)
        return rc;
    if (rec->values[NODE_STATE] && !(state = state_word(rec->values[NODE_STATE])))
        return spur_fail(err, SPUR_EINVAL, "State: \"%.40s\" is none of UNKNOWN, IDLE, DOWN, DRAIN, FAIL, CLOUD, FUTURE", rec->values[NODE_STATE]);
    if (rec->values[NODE_GRES] && (rc = gres_list_read(rec->values[NODE_GRES], &n->gres_text, &n->gres, &n->gres_count, err)) < 0)
        return rc;
    if (rec->values[NODE_CPU_SPEC]) {
        struct bitmap cpus;

        bitmap_init(&cpus, n->cpus);
        if ((rc = bitmap_parse(&cpus, rec->values[NODE_CPU_SPEC], err)) == 0)
            n->core_spec = ((uint32_t)bitmap_count(&cpus) + n->threads_per_core - 1) / n->threads_per_core;
        bitmap_fini(&cpus);
        if (rc < 0)
            return spur_context(err, "CPUSpecList");
    }
    if (n->core_spec && !config_node_usable_cpus(n))
        return spur_fail(err, SPUR_EINVAL, "CoreSpecCount or CPUSpecList leaves no core for jobs");
    n->state = mem_copy(state);
    n->features = rec->values[NODE_FEATURES] && *rec->values[NODE_FEATURES] ? mem_copy(rec->values[NODE_FEATURES]) : NULL;
    n->reason = mem_copy(rec->values[NODE_REASON]);
    n->cpu_spec_list = mem_copy(rec->values[NODE_CPU_SPEC]);
    n->parameters = mem_copy(rec->values[NODE_PARAMETERS]);
    return 0;
}

static void node_clone(const struct config_node *from, struct config_node *to)
{
    *to = *from;
    to->state = mem_copy(from->state);
    to->features = mem_copy(from->features);
    to->reason = mem_copy(from->reason);
    to->cpu_spec_list = mem_copy(from->cpu_spec_list);
    to->parameters = mem_copy(from->parameters);
    to->gres_text = mem_copy(from->gres_text);
    to->gres = from->gres_count ? mem_array(from->gres_count, sizeof *to->gres) : NULL;
    for (size_t i = 0; i < from->gres_count; i++) {
        to->gres[i] = from->gres[i];
        to->gres[i].name = mem_copy(from->gres[i].name);
        to->gres[i].type = mem_copy(from->gres[i].type);
    }
}

/* "18001-18005", "[7001-7032]", "7001,7003": a bracket makes a host list of it. */
static int ports_of(const char *text, struct hostlist **out, struct spur_error *err)
{
    struct str s;
    int rc;

    str_init(&s);
    if (*text == '[')
        str_add(&s, text);
    else
        str_addf(&s, "[%s]", text);
    rc = hostlist_parse(s.text, out, err);
    str_fini(&s);
    return rc;
}

/* A list that goes in step with the names: as long as they are, or one for all when `one_will_do`. */
static int in_step(const struct hostlist *list, size_t names, const char *key, bool one_will_do, struct spur_error *err)
{
    size_t n = list ? hostlist_count(list) : names;

    if (n == names || (one_will_do && n == 1))
        return 0;
    return spur_fail(err, SPUR_EINVAL, "%s gives %zu for %zu NodeName%s: give one for each", key, n, names, one_will_do ? " (or one for all)" : "");
}

static const char *nth_or_first(const struct hostlist *list, size_t i)
{
    return hostlist_nth(list, hostlist_count(list) == 1 ? 0 : i);
}

static int node_build(struct reader *r, const char *head, struct record *rec, struct spur_error *err)
{
    struct config *c = r->config;
    struct hostlist *names = NULL, *addrs = NULL, *hosts = NULL, *ports = NULL;
    struct config_node common = { 0 };
    struct str odd;
    size_t count;
    int rc;

    str_init(&odd);
    if ((rc = hostlist_parse(head, &names, err)) < 0)
        goto out;
    count = hostlist_count(names);
    if (!count) {
        rc = spur_fail(err, SPUR_EINVAL, "NodeName names no node");
        goto out;
    }
    if (c->node_count + count > NODES_MAX) {
        rc = spur_fail(err, SPUR_ELIMIT, "more than %u nodes", NODES_MAX);
        goto out;
    }
    if ((rec->values[NODE_ADDR] && (rc = hostlist_parse(rec->values[NODE_ADDR], &addrs, err)) < 0) ||
        (rec->values[NODE_HOSTNAME] && (rc = hostlist_parse(rec->values[NODE_HOSTNAME], &hosts, err)) < 0) ||
        (rec->values[NODE_PORT] && (rc = ports_of(rec->values[NODE_PORT], &ports, err)) < 0) ||
        (rc = in_step(addrs, count, "NodeAddr", true, err)) < 0 || (rc = in_step(hosts, count, "NodeHostname", true, err)) < 0 ||
        (rc = in_step(ports, count, "Port", true, err)) < 0 || (rc = node_common(rec, &common, &odd, err)) < 0)
        goto out;
    for (size_t i = 0; i < count; i++) {
        const char *name = hostlist_nth(names, i), *port = ports ? nth_or_first(ports, i) : NULL;
        struct config_node *n;
        uint32_t number = 0;

        if (word_eq(name, "ALL")) {
            rc = spur_fail(err, SPUR_EINVAL, "\"%.60s\" stands for all nodes: no node can have this name", name);
            goto out;
        }
        if (table_get_text(&c->node_by_name, name)) {
            rc = spur_fail(err, SPUR_EEXISTS, "node %.60s is named twice", name);
            goto out;
        }
        if (port && (!number_u32(port, &number) || number > 65535 || !number)) {
            rc = spur_fail(err, SPUR_EINVAL, "Port: \"%.40s\" is not a port (1 to 65535)", port);
            goto out;
        }
        n = reader_grow((void **)&c->nodes, &c->node_count, &r->node_room, sizeof *n);
        node_clone(&common, n);
        n->name = mem_copy(name);
        n->hostname = mem_copy(hosts ? nth_or_first(hosts, i) : name);
        n->addr = mem_copy(addrs ? nth_or_first(addrs, i) : n->hostname);
        n->port = (uint16_t)number;
        /* The array still moves: until the last line the table holds places, then config.c makes pointers of them. */
        table_put_text(&c->node_by_name, n->name, (void *)(uintptr_t)c->node_count);
    }
    reader_note(r, rec->file, rec->line, "NodeName", head, CONFIG_ACTS, odd.text);
out:
    node_fini(&common);
    hostlist_destroy(names);
    hostlist_destroy(addrs);
    hostlist_destroy(hosts);
    hostlist_destroy(ports);
    str_fini(&odd);
    return rc;
}

int node_line(struct reader *r, const char *head, char **cursor, struct spur_error *err)
{
    struct record rec;
    int rc = record_read(r, cursor, node_keys, "NodeName", &rec, err);

    if (rc < 0)
        return rc;
    if (word_eq(head, "DEFAULT")) {
        if (rec.values[NODE_ADDR] || rec.values[NODE_HOSTNAME])
            rc = spur_fail(err, SPUR_EINVAL, "NodeName=DEFAULT cannot have NodeAddr or NodeHostname");
        else {
            reader_note(r, rec.file, rec.line, "NodeName", head, CONFIG_ACTS, "");
            record_inherit(&rec, &r->node_defaults, -1);
            record_fini(&r->node_defaults);
            r->node_defaults = rec;
            return 0;
        }
    } else {
        record_inherit(&rec, &r->node_defaults, -1);
        rc = node_build(r, head, &rec, err);
    }
    if (rc < 0)
        rc = reader_error(r, rec.file, rec.line, "NodeName", head, err);
    record_fini(&rec);
    return rc;
}

/* --- sets of nodes --- */

enum { SET_FEATURE, SET_NODES };
static const struct record_key nodeset_keys[] = { { "Feature", CONFIG_ACTS, "", SET_FEATURE }, { "Nodes", CONFIG_ACTS, "", SET_NODES }, { 0 } };

int nodeset_line(struct reader *r, const char *head, char **cursor, struct spur_error *err)
{
    struct record rec;
    struct nodeset *s;
    bool again = false;
    int rc = record_read(r, cursor, nodeset_keys, "NodeSet", &rec, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < r->nodeset_count; i++)
        again |= strcmp(r->nodesets[i].name, head) == 0;
    if (!rec.values[SET_FEATURE] && !rec.values[SET_NODES])
        rc = spur_fail(err, SPUR_EINVAL, "NodeSet %.60s needs Feature= or Nodes=", head);
    if (rc < 0) {
        rc = reader_error(r, rec.file, rec.line, "NodeSet", head, err);
    } else {
        reader_note(r, rec.file, rec.line, "NodeSet", head, CONFIG_ACTS, again ? "a set of this name is there already: this line is ignored" : "");
        if (again)
            goto out;
        s = reader_grow((void **)&r->nodesets, &r->nodeset_count, &r->nodeset_room, sizeof *s);
        s->name = mem_copy(head);
        s->feature = mem_copy(rec.values[SET_FEATURE]);
        s->nodes = mem_copy(rec.values[SET_NODES]);
    }
out:
    record_fini(&rec);
    return rc;
}

static bool has_feature(const struct config_node *n, const char *feature)
{
    size_t len = strlen(feature);

    for (const char *p = n->features; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == len && strncmp(p, feature, len) == 0)
            return true;
    return false;
}

static int names_set(struct reader *r, const char *list, struct bitmap *out, struct spur_error *err)
{
    struct config *c = r->config;
    struct hostlist *names;
    int rc = hostlist_parse(list, &names, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < hostlist_count(names) && rc == 0; i++) {
        const char *name = hostlist_nth(names, i);
        uintptr_t place = (uintptr_t)table_get_text(&c->node_by_name, name);

        if (place)
            bitmap_set(out, place - 1);
        else if (word_eq(name, "ALL"))
            bitmap_fill(out);
        else
            rc = spur_fail(err, SPUR_ENOTFOUND, "there is no node or node set \"%.60s\"", name);
    }
    hostlist_destroy(names);
    return rc;
}

int nodes_of_list(struct reader *r, const char *list, struct bitmap *out, struct spur_error *err)
{
    struct str rest;
    const char *p = list;
    int rc = 0;

    /* Names of node sets stand between commas outside of brackets; what is no set is a host list. */
    str_init(&rest);
    while (*p && rc == 0) {
        const char *start = p;
        bool is_set = false;
        size_t len;
        int depth = 0;

        for (; *p && (depth || *p != ','); p++)
            depth += *p == '[' ? 1 : *p == ']' && depth ? -1 : 0;
        len = (size_t)(p - start);
        while (*p == ',')
            p++;
        for (size_t k = 0; k < r->nodeset_count && rc == 0; k++) {
            const struct nodeset *set = &r->nodesets[k];

            if (strlen(set->name) != len || strncmp(set->name, start, len) != 0)
                continue;
            is_set = true;
            if (set->nodes)
                rc = names_set(r, set->nodes, out, err);
            for (size_t i = 0; set->feature && i < r->config->node_count; i++)
                if (has_feature(&r->config->nodes[i], set->feature))
                    bitmap_set(out, i);
        }
        if (is_set)
            continue;
        if (rest.len)
            str_add_char(&rest, ',');
        str_add_n(&rest, start, len);
    }
    if (rc == 0 && rest.len)
        rc = names_set(r, rest.text, out, err);
    str_fini(&rest);
    return rc;
}

/* --- nodes that the file takes out of service --- */

enum { DOWN_REASON, DOWN_STATE, DOWN_NODES };
static const struct record_key down_keys[] = { { "Reason", CONFIG_ACTS, "", DOWN_REASON }, { "State", CONFIG_ACTS, "", DOWN_STATE }, { 0 } };

int down_nodes_line(struct reader *r, const char *head, char **cursor, struct spur_error *err)
{
    struct record rec;
    int rc = record_read(r, cursor, down_keys, "DownNodes", &rec, err);

    if (rc < 0)
        return rc;
    reader_note(r, rec.file, rec.line, "DownNodes", head, CONFIG_ACTS, "");
    rec.values[DOWN_NODES] = mem_copy(head);
    *(struct record *)reader_grow((void **)&r->down_nodes, &r->down_count, &r->down_room, sizeof rec) = rec;
    return 0;
}

int down_nodes_resolve(struct reader *r, struct spur_error *err)
{
    struct config *c = r->config;
    int rc = 0;

    for (size_t k = 0; k < r->down_count && rc == 0; k++) {
        struct record *rec = &r->down_nodes[k];
        const char *state = rec->values[DOWN_STATE] ? state_word(rec->values[DOWN_STATE]) : "DOWN", *reason = rec->values[DOWN_REASON];
        struct bitmap nodes;

        bitmap_init(&nodes, c->node_count);
        if (!state || word_eq(state, "CLOUD") || word_eq(state, "FUTURE") || word_eq(state, "EXTERNAL"))
            rc = spur_fail(err, SPUR_EINVAL, "State: \"%.40s\" is none of DOWN, DRAIN, FAIL, UNKNOWN", rec->values[DOWN_STATE]);
        else if ((rc = nodes_of_list(r, rec->values[DOWN_NODES], &nodes, err)) == SPUR_ENOTFOUND) {
            /* Slurm starts all the same: the nodes may have been taken out of the file. */
            reader_note(r, rec->file, rec->line, "DownNodes", rec->values[DOWN_NODES], CONFIG_ACTS, err->text);
            rc = 0;
        }
        if (rc == 0)
            for (size_t i = bitmap_first(&nodes); i < c->node_count; i = bitmap_next(&nodes, i)) {
                free(c->nodes[i].state);
                c->nodes[i].state = mem_copy(state);
                free(c->nodes[i].reason);
                c->nodes[i].reason = mem_copy(reason ? reason : "Set in slurm.conf");
            }
        bitmap_fini(&nodes);
        if (rc < 0)
            rc = reader_error(r, rec->file, rec->line, "DownNodes", rec->values[DOWN_NODES], err);
    }
    return rc;
}
