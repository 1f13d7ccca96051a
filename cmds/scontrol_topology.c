/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol_topology.c - `scontrol show topology`: the switches or blocks of the controller's configuration, line by line as Slurm writes them.
 *
 * The controller hands out its files; what they mean is read here, by the reader that it uses itself. A leaf's nodes stand as they are
 * written, those of a switch above are gathered. Of blocks the base ones come first, then for each larger size of BlockSizes the aggregates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/scontrol.h"
#include "config/config.h"

struct topology {
    const struct config *config;
    struct bitmap *nodes;           /* a switch: all below it */
    const char *name;               /* a switch or block; NULL: any */
    struct bitmap asked;            /* nodes that must be below; empty: none asked for */
    size_t printed;
};

static void nodes_gather(struct topology *t)
{
    const struct config *c = t->config;

    t->nodes = mem_array(c->switch_count + 1, sizeof *t->nodes);
    for (size_t i = 0; i < c->switch_count; i++)
        bitmap_init(&t->nodes[i], c->node_count);
    for (size_t n = 0; n < c->node_count; n++)
        for (int32_t i = c->nodes[n].leaf; i >= 0; i = c->switches[i].parent)
            bitmap_set(&t->nodes[i], n);
}

static void nodes_print(const struct topology *t, const struct bitmap *nodes, struct str *out)
{
    struct hostlist *h = hostlist_create();

    for (size_t n = bitmap_first(nodes); n < nodes->bits; n = bitmap_next(nodes, n))
        hostlist_add(h, t->config->nodes[n].name);
    hostlist_print(h, out);
    hostlist_destroy(h);
}

static bool wanted(const struct topology *t, const char *name, const struct bitmap *nodes)
{
    if (t->name)
        return word_eq(t->name, name);
    return bitmap_empty(&t->asked) || bitmap_subset(&t->asked, nodes);
}

static void switch_print(struct topology *t, size_t i)
{
    const struct config_switch *w = &t->config->switches[i];
    struct str out;

    if (!wanted(t, w->name, &t->nodes[i]))
        return;
    str_init(&out);
    str_addf(&out, "SwitchName=%s Level=%u LinkSpeed=%s Nodes=", w->name, w->level, w->link_speed ? w->link_speed : "1");
    if (w->level == 0 && w->nodes_text && !word_eq(w->nodes_text, "ALL"))
        str_add(&out, w->nodes_text);
    else
        nodes_print(t, &t->nodes[i], &out);
    if (w->switches_text)
        str_addf(&out, " Switches=%s", w->switches_text);
    puts(out.text);
    str_fini(&out);
    t->printed++;
}

static void tree_print(struct topology *t)
{
    uint32_t top = 0;

    for (size_t i = 0; i < t->config->switch_count; i++)
        top = t->config->switches[i].level > top ? t->config->switches[i].level : top;
    for (uint32_t level = 0; level <= top; level++)
        for (size_t i = 0; i < t->config->switch_count; i++)
            if (t->config->switches[i].level == level)
                switch_print(t, i);
}

static void blocks_print(struct topology *t)
{
    const struct config *c = t->config;
    size_t number = 0;
    struct str out;

    str_init(&out);
    for (size_t i = 0; i < c->switch_count; i++, number++) {
        if (!wanted(t, c->switches[i].name, &t->nodes[i]))
            continue;
        str_clear(&out);
        str_addf(&out, "BlockName=%s BlockIndex=%zu Nodes=", c->switches[i].name, number);
        nodes_print(t, &t->nodes[i], &out);
        str_addf(&out, " BlockSize=%u", c->block_size_count ? c->block_sizes[0] : c->switches[i].nodes);
        puts(out.text);
        t->printed++;
    }
    for (size_t size = 1; size < c->block_size_count; size++) {
        size_t each = c->block_sizes[0] ? c->block_sizes[size] / c->block_sizes[0] : 0;

        for (size_t i = 0; each && i < c->switch_count; i += each, number++) {
            struct hostlist *h = hostlist_create();
            struct bitmap all;

            bitmap_init(&all, c->node_count);
            for (size_t k = i; k < i + each && k < c->switch_count; k++) {
                hostlist_add(h, c->switches[k].name);
                bitmap_or(&all, &t->nodes[k]);
            }
            str_clear(&out);
            str_add(&out, "AggregatedBlock=");
            hostlist_print(h, &out);
            if (wanted(t, out.text + strlen("AggregatedBlock="), &all)) {
                str_addf(&out, " BlockIndex=%zu Nodes=", number);
                nodes_print(t, &all, &out);
                str_addf(&out, " BlockSize=%u", c->block_sizes[size]);
                puts(out.text);
                t->printed++;
            }
            hostlist_destroy(h);
            bitmap_fini(&all);
        }
    }
    str_fini(&out);
}

/* A word names a switch or block, or nodes; "unit=NAME", "node=LIST" say which is meant. */
static int word_take(struct topology *t, const char *word, struct spur_error *err)
{
    const struct config *c = t->config;
    struct hostlist *h = NULL;
    bool by_node = word_starts(word, "node=") || word_starts(word, "nodes=");

    if (word_starts(word, "unit="))
        word += strlen("unit=");
    else if (by_node)
        word = strchr(word, '=') + 1;
    for (size_t i = 0; !by_node && i < c->switch_count; i++)
        if (word_eq(c->switches[i].name, word)) {
            t->name = c->switches[i].name;
            return 0;
        }
    if (hostlist_parse(word, &h, err) == 0)
        for (size_t i = 0; i < hostlist_count(h); i++) {
            const struct config_node *n = config_node_find(c, hostlist_nth(h, i));

            if (!n) {
                bitmap_zero(&t->asked);
                break;
            }
            bitmap_set(&t->asked, (size_t)(n - c->nodes));
        }
    hostlist_destroy(h);
    return bitmap_empty(&t->asked) ? spur_fail(err, SPUR_ENOTFOUND, "Topology information contains no switch or node named %.80s", word) : 0;
}

int scontrol_show_topology(struct scontrol *s, int argc, char **argv)
{
    Wire__Empty request = WIRE__EMPTY__INIT;
    struct topology t = { 0 };
    struct spur_error err = { 0 };
    struct config *config = NULL;
    Wire__ConfigFiles *files;
    void *reply;
    int number, rc = 1;

    if (argc > 1) {
        fprintf(stderr, "too many arguments for keyword:show\n");
        return 1;
    }
    if (scontrol_ready(s, &err) < 0 ||
        scontrol_ask(s, WIRE__MESSAGE_TYPE__CONFIG_FILES, &request.base, WIRE__MESSAGE_TYPE__CONFIG_TEXTS, &wire__config_files__descriptor, &reply, &number, &err) < 0)
        return scontrol_failed(s, "slurm_load_topo", &err);
    files = reply;
    if (config_parse(files->slurm, files->gres, files->topology, files->cgroup, files->spur, &config, &err) < 0)
        return scontrol_failed(s, "slurm_load_topo", &err);
    t.config = config;
    bitmap_init(&t.asked, config->node_count);
    nodes_gather(&t);
    if (config->topology == TOPOLOGY_FLAT || !config->switch_count) {
        fprintf(stderr, "scontrol: error: No topology information available\n");
        rc = 0;                     /* as Slurm has it: a flat network is no failure */
    } else if (argc && word_take(&t, argv[0], &err) < 0) {
        fprintf(stderr, "scontrol: error: %s\n", err.text);
    } else {
        if (config->topology == TOPOLOGY_BLOCK)
            blocks_print(&t);
        else
            tree_print(&t);
        rc = t.printed ? 0 : 1;
        if (!t.printed)
            fprintf(stderr, "scontrol: error: Topology information contains no switch or node named %s\n", argc ? argv[0] : "");
    }
    for (size_t i = 0; i < config->switch_count; i++)
        bitmap_fini(&t.nodes[i]);
    free(t.nodes);
    bitmap_fini(&t.asked);
    config_free(config);
    return rc;
}
