/* SPDX-License-Identifier: Apache-2.0 */
/* sinfo.c - shows partitions and the nodes in them: options, formats, one look at the cluster. The lines are made in sinfo_lines.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/json.h"
#include "cmds/common/options.h"
#include "cmds/sinfo.h"
#include "state/apply.h"
#include "state/state.h"

/* '#': as wide as the longest value. */
#define FORMAT_DEFAULT   "%#9P %.5a %.10l %.6D %.6t %N"
#define FORMAT_SUMMARY   "%#9P %.5a %.10l %.16F %N"
#define FORMAT_LONG      "%#9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
#define FORMAT_NODE      "%#9N %.6D %#.9P %6t"
#define FORMAT_NODE_LONG "%#9N %.6D %#.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
#define FORMAT_REASON    "%20E %9u %19H %N"
#define FORMAT_REASON_LONG "%20E %12U %19H %6t %N"

#define STATES_KNOWN "sinfo: error: valid states: unknown,down,idle,allocated,mixed,future,drain,drained,draining,no_respond,reserved,cloud,completing,powered_down,fail,maint,reboot,planned"

/* ---- options -------------------------------------------------------------------------------------------------------------------- */

#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
#define SI ((struct sinfo *)request)
TAKE(partition) { UNUSED; list_add(&SI->partitions, value); return 0; }
TAKE(states)
{
    struct list words = { 0 };
    int rc = 0;

    (void)from;
    list_add(&words, value);
    for (size_t i = 0; i < words.count && !rc; i++) {
        list_put(&SI->states, words.words[i]);
        if (!sinfo_state_known(words.words[i]))
            rc = spur_fail(err, SPUR_EINVAL, "Bad state string: \"%.40s\"\n" STATES_KNOWN, words.words[i]);
    }
    list_fini(&words);
    return rc;
}
TAKE(nodes) { (void)from; return list_add_hosts(&SI->nodes, value, err); }
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
TAKE(fresh) { UNUSED; SI->fresh = true; return 0; }
TAKE(json) { UNUSED; SI->json = true; return 0; }
TAKE(clusters) { UNUSED; SI->clusters = value; return 0; }
TAKE(future) { UNUSED; SI->future = true; return 0; }
TAKE(reservations) { UNUSED; SI->reservations = true; return 0; }
TAKE(all) { UNUSED; SI->all = true; return 0; }
TAKE(hide) { UNUSED; SI->all = false; return 0; }
TAKE(verbose) { UNUSED; SI->verbose = true; return 0; }
TAKE(nothing) { UNUSED; (void)request; return 0; }
TAKE(iterate)
{
    (void)from;
    return number_u32(value, &SI->iterate_s) && SI->iterate_s ? 0 : spur_fail(err, SPUR_EINVAL, "--iterate=%s: a number of seconds above 0 is needed", value);
}
static const struct option_row rows[] = {
    { "all", 'a', OPTION_NONE, NULL, "SINFO_ALL", take_all, "hidden partitions too" },
    { "clusters", 'M', OPTION_VALUE, "NAMES", "SLURM_CLUSTERS", take_clusters, "this cluster, by its name" },
    { "cluster", 0, OPTION_VALUE, "NAMES", NULL, take_clusters, NULL },
    { "dead", 'd', OPTION_NONE, NULL, NULL, take_dead, "nodes that do not answer" },
    { "exact", 'e', OPTION_NONE, NULL, NULL, take_exact, "a line for each different number of CPUs, memory, ..." },
    { "fresh", 0, OPTION_NONE, NULL, "SINFO_FRESH", take_fresh, "all that anybody was told before, from the leader" },
    { "future", 'F', OPTION_NONE, NULL, NULL, take_future, "nodes in state FUTURE too" },
    { "hide", 0, OPTION_NONE, NULL, NULL, take_hide, "the opposite of --all" },
    { "iterate", 'i', OPTION_VALUE, "SECONDS", NULL, take_iterate, "again every so many seconds" },
    { "json", 0, OPTION_MAY, "PARSER", "SLURM_JSON", take_json, "everything, as JSON" },
    { "long", 'l', OPTION_NONE, NULL, NULL, take_long, "the long format" },
    { "nodes", 'n', OPTION_VALUE, "LIST", NULL, take_nodes, "these nodes" },
    { "noconvert", 0, OPTION_NONE, NULL, NULL, take_nothing, "numbers as they are, in mebibytes; they are never converted" },
    { "noheader", 'h', OPTION_NONE, NULL, NULL, take_no_header, "no heading" },
    { "Node", 'N', OPTION_NONE, NULL, NULL, take_node_wise, "a line a node" },
    { "format", 'o', OPTION_VALUE, "FORMAT", NULL, take_format, "letters, \"%9P %.5a %N\"" },
    { "Format", 'O', OPTION_VALUE, "FORMAT", NULL, take_names_format, "names, \"Partition:10,StateLong\"" },
    { "partition", 'p', OPTION_VALUE, "LIST", "SINFO_PARTITION", take_partition, "these partitions" },
    { "reservation", 'T', OPTION_NONE, NULL, NULL, take_reservations, "reservations" },
    { "responding", 'r', OPTION_NONE, NULL, NULL, take_responding, "nodes that answer" },
    { "list-reasons", 'R', OPTION_NONE, NULL, NULL, take_reasons, "why nodes are down or drained" },
    { "summarize", 's', OPTION_NONE, NULL, NULL, take_summary, "a line a partition" },
    { "sort", 'S', OPTION_VALUE, "FIELDS", "SINFO_SORT", take_sort, "letters of the format, - in front for descending [#P,-t]" },
    { "states", 't', OPTION_VALUE, "LIST", NULL, take_states, "nodes in these states" },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_verbose, "say who was asked and how much came" },
    { "local", 0, OPTION_NONE, NULL, "SINFO_LOCAL", take_nothing, NULL },
};
static const struct option_table table = {
    "sinfo", "Usage: sinfo [OPTIONS]\nShows partitions and nodes.\n", rows, sizeof rows / sizeof *rows,
    "federation yaml helpstate helpformat helpFormat", "", 1, false };

/* ---- one look ---------------------------------------------------------------------------------------------------------------------- */

static int node_part(void *arg, void *part)
{
    struct sinfo *s = arg;
    const Wire__NodesReply *r = part;

    s->now_s = r->wall_ms / 1000;
    if (!s->cluster && r->cluster)
        s->cluster = mem_copy(r->cluster);
    s->node = mem_grow(s->node, s->node_count + r->n_nodes + 1, sizeof *s->node);
    for (size_t i = 0; i < r->n_nodes; i++)
        s->node[s->node_count++] = r->nodes[i];
    return !r->last;
}

static int partition_part(void *arg, void *part)
{
    struct sinfo *s = arg;
    const Wire__PartitionsReply *r = part;

    s->partition = mem_grow(s->partition, s->partition_count + r->n_partitions + 1, sizeof *s->partition);
    for (size_t i = 0; i < r->n_partitions; i++)
        s->partition[s->partition_count++] = r->partitions[i];
    return !r->last;
}

struct placing { struct json_writer *w; const struct sinfo *s; };

static void place_json(void *arg, const Wire__PartitionInfo *p, const Wire__NodeInfo *n)
{
    struct placing *to = arg;

    json_place(to->w, p, n, sinfo_node_kind(n), to->s->cluster);
}

/* The lines as the newest generation writes them, then nodes and partitions as older clients look for them. */
static void look_json(struct sinfo *s)
{
    struct placing to = { json_begin("sinfo", "sinfo"), s };

    sinfo_places(s, place_json, &to);
    json_close(to.w);
    json_open(to.w, "nodes", '[');
    for (size_t i = 0; i < s->node_count; i++)
        if (sinfo_node_wanted(s, s->node[i]))
            json_node(to.w, s->node[i], s->cluster);
    json_close(to.w);
    json_open(to.w, "partitions", '[');
    for (size_t i = 0; i < s->partition_count; i++)
        if (sinfo_partition_wanted(s, s->partition[i]))
            json_partition(to.w, NULL, s->partition[i], s->cluster);
    json_end(to.w);
}

static int look(struct sinfo *s, struct client *c)
{
    Wire__NodesRequest nodes = WIRE__NODES_REQUEST__INIT;
    Wire__Empty empty = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    int number;

    arena_init(&s->arena, 0);
    nodes.has_fields = 1;
    nodes.fields = sinfo_needs_details(s) ? NODE_FIELD_DETAILS : 0;
    if (client_stream_keep(c, WIRE__MESSAGE_TYPE__NODES, &nodes.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, &s->arena, node_part, s,
                           &number, &err) < 0 ||
        client_stream_keep(c, WIRE__MESSAGE_TYPE__PARTITIONS, &empty.base, WIRE__MESSAGE_TYPE__PARTITIONS_PART, &wire__partitions_reply__descriptor, &s->arena,
                           partition_part, s, &number, &err) < 0) {
        fprintf(stderr, "slurm_load_partitions: %s\n", err.text);
        arena_fini(&s->arena);
        s->node_count = s->partition_count = 0;
        return 1;
    }
    if (s->json) {
        look_json(s);
    } else {
        if (s->clusters && !s->no_header)
            printf("CLUSTER: %s\n", client_hint(c)->cluster);
        sinfo_lines(s);
    }
    if (s->verbose)
        fprintf(stderr, "sinfo: %zu nodes and %zu partitions of cluster %s, which %s names\n", s->node_count, s->partition_count, client_hint(c)->cluster, client_hint(c)->path);
    arena_fini(&s->arena);
    s->node_count = s->partition_count = 0;
    return 0;
}

static int formats_choose(struct sinfo *s, struct spur_error *err)
{
    if (!s->sort)
        s->sort = s->node_wise ? "N,#P" : "#P,-t";
    if (!s->format && !s->names_format) {
        const char *env = getenv("SINFO_FORMAT");

        s->format = s->reasons ? s->is_long ? FORMAT_REASON_LONG : FORMAT_REASON : s->summary ? FORMAT_SUMMARY :
                    s->node_wise ? s->is_long ? FORMAT_NODE_LONG : FORMAT_NODE : s->is_long ? FORMAT_LONG : env ? env : FORMAT_DEFAULT;
    }
    if (s->names_format)
        return columns_parse_names(s->names_format, sinfo_fields, sinfo_field_count, &s->columns, err);
    return columns_parse(s->format + strspn(s->format, " "), sinfo_fields, sinfo_field_count, &s->columns, err);
}

int cmd_sinfo(int argc, char **argv)
{
    struct sinfo s = { 0 };
    struct spur_error err = { 0 };
    struct client *c = NULL;
    int first, rc;

    if ((rc = options_environment(&table, &s)) || (rc = options_read(&table, argc, argv, &s, &first)))
        return rc == OPTIONS_DONE ? 0 : rc;
    if (s.reservations) {
        puts("No reservations in the system");
        return 0;
    }
    s.time_format = getenv("SLURM_TIME_FORMAT");
    if (formats_choose(&s, &err) < 0 || client_open(NULL, &c, &err) < 0 || cluster_is_own(s.clusters, client_hint(c)->cluster, &err) < 0) {
        fprintf(stderr, "sinfo: error: %s\n", err.text);
        rc = 1;
    }
    if (!rc && s.fresh)
        client_fresh(c);
    while (!rc) {
        if ((s.is_long || s.iterate_s) && !s.json)
            date_line();
        if ((rc = look(&s, c)) == 0)
            client_said_age(c, "sinfo");
        if (!s.iterate_s || rc)
            break;
        fflush(stdout);
        sleep(s.iterate_s);
        putchar('\n');
    }
    client_close(c);
    columns_fini(&s.columns);
    list_fini(&s.nodes);
    list_fini(&s.partitions);
    list_fini(&s.states);
    free(s.node);
    free(s.partition);
    free(s.cluster);
    return rc;
}
