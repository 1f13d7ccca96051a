/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - what the readers of the single files share: position, notes, errors, and tables of the keys of record lines. Internal to config/. */
#ifndef CONFIG_READER_H
#define CONFIG_READER_H

#include "config/config.h"
#include "config/lex.h"

struct nodeset { char *name, *nodes, *feature; };

/* One key of a record line (NodeName=... Key=Value ...). */
struct record_key {
    const char *name;
    enum config_effect effect;
    const char *note;
    int         id;             /* several names may mean one: Procs and CPUs */
};

/* What one line gave: value by id, NULL when not given. */
#define RECORD_KEYS 64
struct record {
    char    *values[RECORD_KEYS];
    char    *file; unsigned line;
};

struct reader {
    struct config *config;
    struct lex    *lex;         /* the line that is being read */
    const char    *dir;         /* of the files, for messages; NULL: texts without files */
    bool           keep_going;
    bool           failed;
    struct spur_error first;    /* the first error, when keep_going */
    struct record  node_defaults, partition_defaults;
    struct record *partitions; size_t partition_count, partition_room;      /* resolved when all nodes are known */
    struct record *down_nodes; size_t down_count, down_room;
    struct nodeset *nodesets; size_t nodeset_count, nodeset_room;
    size_t node_room, note_room, gres_room, controller_room;
    bool   cluster_name_set;
};

/* Puts "FILE line N: " in front of err's sentence. Returns err->code, or 0 when errors are collected: then it is a note. */
int  reader_error(struct reader *r, const char *file, unsigned line, const char *key, const char *value, struct spur_error *err);
struct config_note *reader_note(struct reader *r, const char *file, unsigned line, const char *key, const char *value, enum config_effect effect, const char *text);
/* Reads the pairs of a line into `rec` (which starts empty). An unknown key is an error that names the nearest one. */
int  record_read(struct reader *r, char **cursor, const struct record_key *keys, const char *head, struct record *rec, struct spur_error *err);
/* A whole file of such lines: `take` gets each record, with r->lex at its line, and reports by reader_error. A negative code ends the reading. */
int  records_read(struct reader *r, const char *text, const char *file, const struct record_key *keys, const char *head,
                  int (*take)(struct reader *r, struct record *rec, void *arg, struct spur_error *err), void *arg, struct spur_error *err);
/* Values of `from` where `rec` has none. */
void record_inherit(struct record *rec, const struct record *from, int except);
void record_fini(struct record *rec);
/* The reader's own growing arrays; *room counts what fits. Returns the new last element, zeroed. */
void *reader_grow(void **array, size_t *count, size_t *room, size_t size);

/* Lines whose first key is NodeName, PartitionName, ...; `head` is its value, *cursor stands behind it. 0, or a negative code that ends the reading. */
int  node_line(struct reader *r, const char *head, char **cursor, struct spur_error *err);
int  partition_line(struct reader *r, const char *head, char **cursor, struct spur_error *err);
int  down_nodes_line(struct reader *r, const char *head, char **cursor, struct spur_error *err);
int  nodeset_line(struct reader *r, const char *head, char **cursor, struct spur_error *err);
/* After the last line. */
int  down_nodes_resolve(struct reader *r, struct spur_error *err);
int  partitions_resolve(struct reader *r, struct spur_error *err);
int  gres_read(struct reader *r, const char *text, const char *file, struct spur_error *err);
int  topology_read(struct reader *r, const char *text, const char *file, struct spur_error *err);
/* Both files end in these: one switch or block, then what ties them together. */
int  topology_switch_add(struct reader *r, struct config_switch *take, struct spur_error *err);
int  topology_resolve(struct reader *r, const char *file, struct spur_error *err);
bool topology_is_yaml(const char *text);
int  topology_yaml_read(struct reader *r, const char *text, const char *file, struct spur_error *err);
void switch_fini(struct config_switch *s);
void cgroup_default(struct config *c);
int  cgroup_read(struct reader *r, const char *text, const char *file, struct spur_error *err);
void settings_default(struct config *c);
int  spurconf_read(struct reader *r, const char *text, const char *file, struct spur_error *err);
void node_fini(struct config_node *n);
void partition_fini(struct config_partition *p);
void gres_line_fini(struct config_gres_line *g);
/* Gres= of a node line. Writes the shown text (without socket lists) and the entries. */
int  gres_list_read(const char *text, char **shown, struct config_gres **out, size_t *count, struct spur_error *err);
/* The nodes that a list names: host lists, node sets, ALL. */
int  nodes_of_list(struct reader *r, const char *list, struct bitmap *out, struct spur_error *err);

#endif
