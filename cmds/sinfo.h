/* SPDX-License-Identifier: Apache-2.0 */
/* sinfo.h - what the files of sinfo share: the look at the cluster, a line of it, and its fields. */
#ifndef CMDS_SINFO_H
#define CMDS_SINFO_H

#include "base/arena.h"
#include "base/table.h"
#include "cmds/common/columns.h"
#include "cmds/common/list.h"
#include "wire/spur.pb-c.h"

struct sinfo {
    struct list nodes, partitions, states;
    const char *format, *names_format, *sort, *clusters;
    bool no_header, is_long, node_wise, reasons, summary, exact, dead, responding, json, fresh, all, reservations, future, verbose;
    uint32_t iterate_s;
    struct columns columns;
    const char *time_format;
    struct arena arena;             /* of the two lists below */
    Wire__NodeInfo **node; size_t node_count;
    Wire__PartitionInfo **partition; size_t partition_count;
    int64_t now_s; char *cluster;
};

/* A line: a partition and its nodes that look alike; no nodes: a partition without any that are wanted. */
struct line { const Wire__PartitionInfo *partition; const Wire__NodeInfo **nodes; size_t count; const struct sinfo *sinfo; char *key; size_t order, rank; };

/* What of a field decides which nodes share a line (column_field.needs). */
#define FIELD_SAME  0u      /* a line has one value of it */
#define FIELD_SUMS  1u      /* adds up: lists, counts */
#define FIELD_LEAST 2u      /* the least and a "+", or a range, unless --exact */
#define FIELD_PART  4u      /* of the partition */
#define FIELD_NAMES_PART 8u /* the partition itself: no two share a line */
#define FIELD_BARE 16u      /* beside these: of the node's record it needs the bare one only */
extern const struct column_field sinfo_fields[];
extern const size_t sinfo_field_count;

unsigned sinfo_node_kind(const Wire__NodeInfo *n);          /* as %A and %F count: 0 allocated, 1 idle, 2 other */
unsigned sinfo_state_number(const Wire__NodeInfo *n);       /* Slurm's number of state and flags, by which it sorts */
bool sinfo_node_wanted(const struct sinfo *s, const Wire__NodeInfo *n);
bool sinfo_partition_wanted(const struct sinfo *s, const Wire__PartitionInfo *p);
bool sinfo_state_known(const char *word);                   /* of -t: "idle", "idle&drain" */
bool sinfo_needs_details(const struct sinfo *s);            /* does the format, or the order, show more of a node than the bare record has? */
/* Each wanted node of each wanted partition, in the order of the configuration. */
void sinfo_places(struct sinfo *s, void (*fn)(void *arg, const Wire__PartitionInfo *p, const Wire__NodeInfo *n), void *arg);
/* The table, heading and all, to stdout. */
void sinfo_lines(struct sinfo *s);

#endif
