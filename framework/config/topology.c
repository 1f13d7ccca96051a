/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - the network that joins the nodes: topology.conf as a tree of switches or as blocks, and what both files mean together.
 *
 * TopologyPlugin says how the file is meant: topology/tree takes SwitchName lines, topology/block BlockName and BlockSizes lines, topology/flat (and
 * default, none) nothing. topology.yaml (topology_yaml.c) says it itself and wins over both. Every node hangs on one leaf at most; nodes without a leaf
 * are used like any other, but count as a network of their own. A leaf's path names what is above it: plugins read levels from it. Pure.
 */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

#include "config/value.h"

enum { TOPO_NAME, TOPO_BLOCK, TOPO_SIZES, TOPO_RING, TOPO_SPEED, TOPO_NODES, TOPO_SWITCHES };

static const struct record_key topology_keys[] = {
    { "SwitchName", CONFIG_ACTS, "", TOPO_NAME },
    { "BlockName",  CONFIG_ACTS, "", TOPO_BLOCK },
    { "BlockSizes", CONFIG_ACTS, "", TOPO_SIZES },
    { "RingName",   CONFIG_NO_EFFECT, "rings do not steer placement: write them as blocks", TOPO_RING },
    { "LinkSpeed",  CONFIG_NO_EFFECT, "shown as written; placement goes by the shape of the tree", TOPO_SPEED },
    { "Nodes",      CONFIG_ACTS, "", TOPO_NODES },
    { "Switches",   CONFIG_ACTS, "", TOPO_SWITCHES },
    { 0 } };

void switch_fini(struct config_switch *s)
{
    free(s->name);
    free(s->nodes_text);
    free(s->switches_text);
    free(s->link_speed);
    free(s->path);
    free(s->file);
}

int topology_switch_add(struct reader *r, struct config_switch *take, struct spur_error *err)
{
    struct config *c = r->config;

    if (!*take->name || strlen(take->name) > 63 || strpbrk(take->name, " \t/[],"))
        return spur_fail(err, SPUR_EINVAL, "\"%.64s\" is no name of a switch or block", take->name);
    if (c->switch_count == INT32_MAX)
        return spur_fail(err, SPUR_ELIMIT, "too many switches");
    if ((c->switch_count & (c->switch_count - 1)) == 0)
        c->switches = mem_grow(c->switches, c->switch_count ? c->switch_count * 2 : 1, sizeof *c->switches);
    c->switches[c->switch_count] = *take;
    c->switches[c->switch_count++].parent = -1;
    *take = (struct config_switch){ 0 };
    return 0;
}

static int sizes_read(struct config *c, const char *text, struct spur_error *err)
{
    char *copy = mem_copy(text), *cursor = copy, *word;
    int rc = 0;

    free(c->block_sizes);
    c->block_sizes = mem_array(strlen(text) / 2 + 1, sizeof *c->block_sizes);
    c->block_size_count = 0;
    while (rc == 0 && (word = word_next(&cursor, ","))) {
        uint32_t n, base = c->block_size_count ? c->block_sizes[c->block_size_count - 1] : 0;

        if (!number_u32(word_trim(word), &n) || !n)
            rc = spur_fail(err, SPUR_EINVAL, "BlockSizes: \"%.32s\" is no number of nodes", word);
        else if (base && (n % base || n <= base || ((n / c->block_sizes[0]) & (n / c->block_sizes[0] - 1))))
            rc = spur_fail(err, SPUR_EINVAL, "BlockSizes: %u is not %u times a power of two, or not larger than %u", n, c->block_sizes[0], base);
        else
            c->block_sizes[c->block_size_count++] = n;
    }
    free(copy);
    return rc;
}

static int topology_build(struct reader *r, const struct record *rec, struct spur_error *err)
{
    int heads = (rec->values[TOPO_NAME] != NULL) + (rec->values[TOPO_BLOCK] != NULL) + (rec->values[TOPO_RING] != NULL) + (rec->values[TOPO_SIZES] != NULL);
    bool is_tree = r->config->topology == TOPOLOGY_TREE, is_block = r->config->topology == TOPOLOGY_BLOCK;
    struct config_switch s = { 0 };
    int rc;

    if (heads != 1)
        return spur_fail(err, SPUR_EINVAL, "a line needs one of SwitchName, BlockName, RingName, BlockSizes");
    if (rec->values[TOPO_NAME] && !rec->values[TOPO_NODES] && !rec->values[TOPO_SWITCHES])
        return spur_fail(err, SPUR_EINVAL, "switch %.60s has neither Nodes= nor Switches=", rec->values[TOPO_NAME]);
    if (rec->values[TOPO_BLOCK] && !rec->values[TOPO_NODES])
        return spur_fail(err, SPUR_EINVAL, "block %.60s has no Nodes=", rec->values[TOPO_BLOCK]);
    if (rec->values[TOPO_SIZES] && is_block)
        return sizes_read(r->config, rec->values[TOPO_SIZES], err);
    if ((is_tree && rec->values[TOPO_BLOCK]) || (is_block && rec->values[TOPO_NAME]))
        return spur_fail(err, SPUR_EINVAL, "%s: TopologyPlugin=%s has %s", is_tree ? "BlockName" : "SwitchName", is_tree ? "topology/tree" : "topology/block",
                         is_tree ? "SwitchName lines" : "BlockName lines");
    if (!(is_tree && rec->values[TOPO_NAME]) && !(is_block && rec->values[TOPO_BLOCK]))
        return 0;
    s = (struct config_switch){ .name = mem_copy(is_tree ? rec->values[TOPO_NAME] : rec->values[TOPO_BLOCK]), .nodes_text = mem_copy(rec->values[TOPO_NODES]),
                                .switches_text = is_tree ? mem_copy(rec->values[TOPO_SWITCHES]) : NULL, .link_speed = mem_copy(rec->values[TOPO_SPEED]),
                                .line = rec->line, .file = mem_copy(rec->file) };
    rc = topology_switch_add(r, &s, err);
    switch_fini(&s);
    return rc;
}

static int topology_take(struct reader *r, struct record *rec, void *arg, struct spur_error *err)
{
    bool *said = arg;

    if (topology_build(r, rec, err) < 0)
        return reader_error(r, rec->file, rec->line, "topology", rec->values[TOPO_NAME], err);
    if (!*said && r->config->topology == TOPOLOGY_FLAT)
        reader_note(r, rec->file, rec->line, "topology.conf", "", CONFIG_NO_EFFECT, "TopologyPlugin is flat: topology/tree or topology/block would take these lines");
    *said = true;
    return 0;
}

static void kind_of(struct config *c)
{
    const char *plugin = config_text(c, CONF_TopologyPlugin);

    c->topology = !plugin ? TOPOLOGY_FLAT : word_eq(plugin, "topology/tree") ? TOPOLOGY_TREE : word_eq(plugin, "topology/block") ? TOPOLOGY_BLOCK : TOPOLOGY_FLAT;
}

int topology_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    bool said = false;
    int rc;

    if (topology_is_yaml(text))
        return topology_yaml_read(r, text, file, err);
    kind_of(r->config);
    if ((rc = records_read(r, text, file, topology_keys, "topology.conf", topology_take, &said, err)) < 0 || r->failed)
        return rc;
    return topology_resolve(r, file, err);
}

/* ---- what ties them together ---- */

/* Each leaf's nodes. A name that no node has is noted and passed over, as in Slurm: files are often written for the whole machine room. */
static int leaf_nodes(struct reader *r, uint32_t index, struct spur_error *err)
{
    struct config *c = r->config;
    struct config_switch *s = &c->switches[index];
    struct hostlist *names = NULL;
    struct str unknown;
    int rc = 0;

    str_init(&unknown);
    if (word_eq(s->nodes_text, "ALL")) {
        names = hostlist_create();
        for (size_t i = 0; i < c->node_count; i++)
            hostlist_add(names, c->nodes[i].name);
    } else if ((rc = hostlist_parse(s->nodes_text, &names, err)) < 0) {
        return rc;
    }
    for (size_t i = 0; rc == 0 && i < hostlist_count(names); i++) {
        struct config_node *n = table_get_text(&c->node_by_name, hostlist_nth(names, i));

        if (!n) {
            if (unknown.len < 100)
                str_addf(&unknown, "%s%s", unknown.len ? "," : "", hostlist_nth(names, i));
        } else if (n->leaf >= 0 && n->leaf != (int32_t)index) {
            rc = spur_fail(err, SPUR_EINVAL, "node %.60s hangs on %.60s and on %.60s: one leaf a node", n->name, c->switches[n->leaf].name, s->name);
        } else if (n->leaf < 0) {
            n->leaf = (int32_t)index;
            s->nodes++;
        }
    }
    if (unknown.len)
        reader_note(r, s->file ? s->file : "topology", s->line, s->name, unknown.text, CONFIG_NO_EFFECT, "no such node: the name is passed over");
    hostlist_destroy(names);
    str_fini(&unknown);
    return rc;
}

static int switch_children(struct config *c, struct table *by_name, uint32_t index, struct spur_error *err)
{
    struct config_switch *s = &c->switches[index];
    struct hostlist *names = NULL;
    int rc = hostlist_parse(s->switches_text, &names, err);

    for (size_t i = 0; rc == 0 && i < hostlist_count(names); i++) {
        uintptr_t child = (uintptr_t)table_get_text(by_name, hostlist_nth(names, i));

        if (!child)
            rc = spur_fail(err, SPUR_EINVAL, "switch %.60s: there is no switch %.60s", s->name, hostlist_nth(names, i));
        else if (c->switches[child - 1].parent >= 0 && c->switches[child - 1].parent != (int32_t)index)
            rc = spur_fail(err, SPUR_EINVAL, "switch %.60s is below %.60s and below %.60s: a tree has one way up", c->switches[child - 1].name,
                           c->switches[c->switches[child - 1].parent].name, s->name);
        else
            c->switches[child - 1].parent = (int32_t)index;
    }
    hostlist_destroy(names);
    return rc;
}

static void path_add(const struct config *c, int32_t at, struct str *out, uint32_t depth)
{
    if (at < 0 || depth > 16)
        return;
    path_add(c, c->switches[at].parent, out, depth + 1);
    str_addf(out, "%s%s", out->len ? "/" : "", c->switches[at].name);
}

/* Levels count up from the leaves; a ring of switches would never end. */
static int levels_find(struct config *c, struct spur_error *err)
{
    for (size_t i = 0; i < c->switch_count; i++) {
        uint32_t level = 0;

        if (c->switches[i].switches_text && *c->switches[i].switches_text)
            continue;
        for (int32_t up = c->switches[i].parent; up >= 0; up = c->switches[up].parent) {
            if (++level > 16)
                return spur_fail(err, SPUR_EINVAL, "switch %.60s: more than 16 levels above it, or switches that are below themselves", c->switches[i].name);
            if (c->switches[up].level < level)
                c->switches[up].level = level;
        }
    }
    for (size_t i = 0; i < c->switch_count; i++)
        if (c->switches[i].level == 0 && c->switches[i].switches_text && *c->switches[i].switches_text)
            return spur_fail(err, SPUR_EINVAL, "switch %.60s: no leaf is below it, or it is below itself", c->switches[i].name);
    return 0;
}

/* Above base blocks: groups of two, four, ... neighbours in the order of the file, as BlockSizes says. */
static void block_path(const struct config *c, uint32_t index, struct str *out)
{
    for (size_t k = c->block_size_count; k-- > 1; ) {
        uint32_t each = c->block_sizes[k] / c->block_sizes[0];

        str_addf(out, "%u-nodes-%u/", c->block_sizes[k], index / each);
    }
    str_add(out, c->switches[index].name);
}

static int blocks_check(const struct reader *r, const struct config_switch *s, struct spur_error *err)
{
    const struct config *c = r->config;

    if (c->block_size_count && s->nodes < c->block_sizes[0])
        return spur_fail(err, SPUR_EINVAL, "block %.60s has %u nodes, BlockSizes wants %u or more in each", s->name, s->nodes, c->block_sizes[0]);
    return 0;
}

int topology_resolve(struct reader *r, const char *file, struct spur_error *err)
{
    struct config *c = r->config;
    struct table by_name;
    size_t at = c->switch_count;        /* where it went wrong */
    int rc = 0;

    table_init(&by_name);
    for (size_t i = 0; rc == 0 && i < c->switch_count; i++) {
        if (table_get_text(&by_name, c->switches[i].name))
            rc = spur_fail(err, SPUR_EINVAL, "%s %.60s stands there twice", c->topology == TOPOLOGY_BLOCK ? "block" : "switch", c->switches[at = i].name);
        else
            table_put_text(&by_name, c->switches[i].name, (void *)(uintptr_t)(i + 1));
    }
    for (size_t i = 0; rc == 0 && i < c->switch_count; i++)
        if (c->switches[i].switches_text && (rc = switch_children(c, &by_name, (uint32_t)i, err)) < 0)
            at = i;
    for (size_t i = 0; rc == 0 && i < c->switch_count; i++)
        if (c->switches[i].nodes_text && ((rc = leaf_nodes(r, (uint32_t)i, err)) < 0 ||
                                          (c->topology == TOPOLOGY_BLOCK && (rc = blocks_check(r, &c->switches[i], err)) < 0)))
            at = i;
    if (rc < 0 && at < c->switch_count)
        rc = reader_error(r, c->switches[at].file ? c->switches[at].file : file, c->switches[at].line, "topology", c->switches[at].name, err);
    else if (rc < 0 || (rc = levels_find(c, err)) < 0)
        rc = reader_error(r, file, 0, "topology", "", err);
    for (size_t i = 0; rc == 0 && !r->failed && i < c->switch_count; i++) {
        struct str path;

        if (!c->switches[i].nodes_text)
            continue;
        str_init(&path);
        if (c->topology == TOPOLOGY_BLOCK)
            block_path(c, (uint32_t)i, &path);
        else
            path_add(c, (int32_t)i, &path, 0);
        c->switches[i].path = str_take(&path);
    }
    table_fini(&by_name);
    return rc;
}
