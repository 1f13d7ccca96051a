/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_slurm_conf.c - any bytes as slurm.conf, and behind lines "==gres", "==topology", "==cgroup", "==spur" as the files beside it.
 *
 * What is accepted must be accepted again, say the same, and be shown; with errors collected the reading must come to the same verdict. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "config/config.h"
#include "fuzz.h"

#define SHOWN_NODES 40u

static void row_add(void *arg, const char *key, const char *value)
{
    FUZZ_HOLDS(key && *key);
    str_addf(arg, "%s=%s\n", key, value ? value : "-");
}

static void all_shown(const struct config *c, struct str *out)
{
    config_show(c, row_add, out);
    for (size_t i = 0; i < c->partition_count; i++)
        config_show_partition(c, &c->partitions[i], row_add, out);
    for (size_t i = 0; i < c->node_count && i < SHOWN_NODES; i++) {
        FUZZ_HOLDS(config_node_find(c, c->nodes[i].name) == &c->nodes[i]);
        config_show_node(c, &c->nodes[i], row_add, out);
    }
    for (size_t i = 0; i < c->section_count; i++)
        FUZZ_HOLDS(config_spur_section(c, c->sections[i].name, NULL));
}

/* Cuts `text` at the line "==NAME"; what follows it, or NULL. */
static char *part_cut(char *text, const char *name)
{
    char mark[16], *at;

    snprintf(mark, sizeof mark, "\n==%s\n", name);
    if (!(at = strstr(text, mark)))
        return NULL;
    *at = 0;
    return at + strlen(mark);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *spur = part_cut(text, "spur"), *cgroup = part_cut(text, "cgroup"), *topology = part_cut(text, "topology"),
        *gres = part_cut(text, "gres");
    struct config *c, *again;
    struct spur_error err = { 0 };

    if (config_parse(text, gres, topology, cgroup, spur, &c, &err) == 0) {
        struct str first, second;

        str_init(&first);
        str_init(&second);
        all_shown(c, &first);
        FUZZ_HOLDS(config_parse(c->slurm_text, c->gres_text, c->topology_text, c->cgroup_text, c->spur_text, &again, &err) == 0);
        all_shown(again, &second);
        FUZZ_HOLDS(strcmp(first.text, second.text) == 0);
        config_free(again);
        config_free(c);
        str_fini(&first);
        str_fini(&second);
    } else {
        FUZZ_HOLDS(!c && err.code < 0 && *err.text);
    }
    free(text);
    return 0;
}
