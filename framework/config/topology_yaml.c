/* SPDX-License-Identifier: Apache-2.0 */
/* topology_yaml.c - topology.yaml, the newer form of topology.conf: a list of topologies, each a tree, blocks or flat.
 *
 * The one with `cluster_default: true` (else the first) steers placement; the others are noted as without effect, since partitions and nodes do not
 * choose among topologies here. libyaml reads the document; only what the form knows is taken, and everything else is refused by line. Pure.
 */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "config/value.h"

bool topology_is_yaml(const char *text)
{
    while (*text) {
        text += strspn(text, " \t\r\n");
        if (*text != '#' && *text != '%')
            return *text == '-';
        text += strcspn(text, "\n");
    }
    return false;
}

struct yaml { struct reader *r; yaml_document_t doc; const char *file; };

static unsigned line_of(const yaml_node_t *n) { return n ? (unsigned)n->start_mark.line + 1 : 0; }

static int bad(struct yaml *y, const yaml_node_t *at, struct spur_error *err)
{
    return reader_error(y->r, y->file, line_of(at), "topology", "", err);
}

static const char *scalar(const yaml_node_t *n)
{
    return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

/* The value under a key of a mapping; keys that are not in `known` are an error. */
static yaml_node_t *value_of(struct yaml *y, const yaml_node_t *map, const char *key)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *name = scalar(yaml_document_get_node(&y->doc, p->key));

        if (name && strcmp(name, key) == 0)
            return yaml_document_get_node(&y->doc, p->value);
    }
    return NULL;
}

static int keys_check(struct yaml *y, const yaml_node_t *map, const char *const *known, const char *what, struct spur_error *err)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return spur_fail(err, SPUR_EINVAL, "%s: keys and values are wanted", what);
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *name = scalar(yaml_document_get_node(&y->doc, p->key));
        size_t i = 0;

        while (known[i] && (!name || strcmp(known[i], name) != 0))
            i++;
        if (!known[i])
            return spur_fail(err, SPUR_EINVAL, "%s: \"%.40s\" is not known here", what, name ? name : "?");
    }
    return 0;
}

/* A switch or a block of a sequence. */
static int item_read(struct yaml *y, const yaml_node_t *item, bool is_block, struct spur_error *err)
{
    static const char *const of_switch[] = { "switch", "nodes", "children", "link_speed", NULL }, *const of_block[] = { "block", "nodes", NULL };
    const char *name, *nodes, *children;
    struct config_switch s = { 0 };
    int rc;

    if ((rc = keys_check(y, item, is_block ? of_block : of_switch, is_block ? "a block" : "a switch", err)) < 0)
        return rc;
    name = scalar(value_of(y, item, is_block ? "block" : "switch"));
    nodes = scalar(value_of(y, item, "nodes"));
    children = scalar(value_of(y, item, "children"));
    if (!name || (!nodes && !children) || (nodes && children))
        return spur_fail(err, SPUR_EINVAL, is_block ? "a block needs \"block\" and \"nodes\"" : "a switch needs \"switch\" and one of \"nodes\" and \"children\"");
    s = (struct config_switch){ .name = mem_copy(name), .nodes_text = mem_copy(nodes), .switches_text = mem_copy(children),
                                .link_speed = mem_copy(scalar(value_of(y, item, "link_speed"))), .line = line_of(item), .file = mem_copy(y->file) };
    rc = topology_switch_add(y->r, &s, err);
    switch_fini(&s);
    return rc;
}

static int sequence_read(struct yaml *y, const yaml_node_t *seq, bool is_block, struct spur_error *err)
{
    int rc = 0;

    if (!seq || seq->type != YAML_SEQUENCE_NODE) {
        spur_fail(err, SPUR_EINVAL, "a list of %s is wanted", is_block ? "blocks" : "switches");
        return bad(y, seq, err);
    }
    for (const yaml_node_item_t *i = seq->data.sequence.items.start; rc == 0 && i < seq->data.sequence.items.top; i++) {
        const yaml_node_t *item = yaml_document_get_node(&y->doc, *i);

        if (item_read(y, item, is_block, err) < 0)
            rc = bad(y, item, err);
    }
    return rc;
}

static int sizes_read(struct yaml *y, const yaml_node_t *seq, struct spur_error *err)
{
    struct config *c = y->r->config;

    if (!seq)
        return 0;
    if (seq->type != YAML_SEQUENCE_NODE) {
        spur_fail(err, SPUR_EINVAL, "block_sizes: a list of numbers is wanted");
        return bad(y, seq, err);
    }
    c->block_sizes = mem_array((size_t)(seq->data.sequence.items.top - seq->data.sequence.items.start) + 1, sizeof *c->block_sizes);
    for (const yaml_node_item_t *i = seq->data.sequence.items.start; i < seq->data.sequence.items.top; i++) {
        const yaml_node_t *item = yaml_document_get_node(&y->doc, *i);
        const char *text = scalar(item);
        uint32_t n, base = c->block_size_count ? c->block_sizes[0] : 0;

        if (!text || !number_u32(text, &n) || !n || (base && (n % base || n <= c->block_sizes[c->block_size_count - 1] || ((n / base) & (n / base - 1))))) {
            spur_fail(err, SPUR_EINVAL, "block_sizes: \"%.32s\" is no number, or not the first one times a power of two", text ? text : "?");
            return bad(y, item, err);
        }
        c->block_sizes[c->block_size_count++] = n;
    }
    return 0;
}

static int topology_take(struct yaml *y, const yaml_node_t *topology, struct spur_error *err)
{
    const yaml_node_t *tree = value_of(y, topology, "tree"), *block = value_of(y, topology, "block"), *flat = value_of(y, topology, "flat");
    static const char *const of_tree[] = { "switches", NULL }, *const of_block[] = { "block_sizes", "blocks", NULL };
    struct config *c = y->r->config;
    int rc;

    if ((tree != NULL) + (block != NULL) + (flat != NULL) != 1) {
        spur_fail(err, SPUR_EINVAL, "a topology is one of \"tree\", \"block\" and \"flat\"");
        return bad(y, topology, err);
    }
    c->topology = tree ? TOPOLOGY_TREE : block ? TOPOLOGY_BLOCK : TOPOLOGY_FLAT;
    if (flat)
        return 0;
    if (keys_check(y, tree ? tree : block, tree ? of_tree : of_block, tree ? "tree" : "block", err) < 0)
        return bad(y, tree ? tree : block, err);
    if (block && (rc = sizes_read(y, value_of(y, block, "block_sizes"), err)) < 0)
        return rc;
    if ((rc = sequence_read(y, tree ? value_of(y, tree, "switches") : value_of(y, block, "blocks"), block != NULL, err)) < 0 || y->r->failed)
        return rc;
    return topology_resolve(y->r, y->file, err);
}

/* Which one steers: the first with cluster_default, else the first. */
static int topology_choose(struct yaml *y, const yaml_node_t *root, struct spur_error *err)
{
    static const char *const known[] = { "topology", "cluster_default", "tree", "block", "flat", NULL };
    const yaml_node_t *chosen = NULL, *first = NULL;

    if (!root || root->type != YAML_SEQUENCE_NODE) {
        spur_fail(err, SPUR_EINVAL, "a list of topologies is wanted");
        return bad(y, root, err);
    }
    for (const yaml_node_item_t *i = root->data.sequence.items.start; i < root->data.sequence.items.top; i++) {
        const yaml_node_t *t = yaml_document_get_node(&y->doc, *i);
        const char *is_default;

        if (keys_check(y, t, known, "a topology", err) < 0)
            return bad(y, t, err);
        first = first ? first : t;
        is_default = scalar(value_of(y, t, "cluster_default"));
        if (!chosen && is_default && value_bool(is_default) > 0)
            chosen = t;
    }
    chosen = chosen ? chosen : first;
    for (const yaml_node_item_t *i = root->data.sequence.items.start; i < root->data.sequence.items.top; i++) {
        const yaml_node_t *t = yaml_document_get_node(&y->doc, *i);
        const char *name = scalar(value_of(y, t, "topology"));

        if (t != chosen)
            reader_note(y->r, y->file, line_of(t), "topology", name ? name : "", CONFIG_NO_EFFECT, "not the cluster's default: partitions and nodes have no topology of their own");
    }
    return chosen ? topology_take(y, chosen, err) : 0;
}

int topology_yaml_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    struct yaml y = { .r = r, .file = file };
    yaml_parser_t parser;
    int rc;

    if (!yaml_parser_initialize(&parser))
        return spur_fail(err, SPUR_ENOMEM, "%s: out of memory", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    if (!yaml_parser_load(&parser, &y.doc)) {
        spur_fail(err, SPUR_EINVAL, "no YAML: %.100s", parser.problem ? parser.problem : "?");
        rc = reader_error(r, file, (unsigned)parser.problem_mark.line + 1, "topology", "", err);
    } else {
        rc = topology_choose(&y, yaml_document_get_root_node(&y.doc), err);
        yaml_document_delete(&y.doc);
    }
    yaml_parser_delete(&parser);
    return rc;
}
