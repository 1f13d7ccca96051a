/* SPDX-License-Identifier: Apache-2.0 */
/* gres.c - gres.conf: which device files a node's generic resources are, and how their cores and links lie.
 *
 * A line is a set of KEY=VALUE pairs in any order; NodeName in front restricts it, AutoDetect alone holds for all nodes. The
 * agent of each node takes the lines that name it; the counts that the controller plans with come from the NodeName lines of
 * slurm.conf. Pure: no device is looked at here.
 */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

enum { GRES_NODES, GRES_NAME, GRES_TYPE, GRES_AUTO, GRES_CORES, GRES_COUNT, GRES_FILES, GRES_FLAGS, GRES_LINKS, GRES_MULTIPLE };

static const struct record_key gres_keys[] = {
    { "NodeName",   CONFIG_ACTS, "", GRES_NODES },
    { "Name",       CONFIG_ACTS, "", GRES_NAME },
    { "Type",       CONFIG_ACTS, "", GRES_TYPE },
    { "AutoDetect", CONFIG_ACTS, "", GRES_AUTO },
    { "Cores",      CONFIG_ACTS, "", GRES_CORES },
    { "CPUs",       CONFIG_MAPPED, "Cores", GRES_CORES },
    { "Count",      CONFIG_ACTS, "", GRES_COUNT },
    { "File",       CONFIG_ACTS, "", GRES_FILES },
    { "Files",      CONFIG_ACTS, "", GRES_FILES },
    { "Flag",       CONFIG_ACTS, "", GRES_FLAGS },
    { "Flags",      CONFIG_ACTS, "", GRES_FLAGS },
    { "Link",       CONFIG_ACTS, "", GRES_LINKS },
    { "Links",      CONFIG_ACTS, "", GRES_LINKS },
    { "MultipleFiles", CONFIG_ACTS, "", GRES_MULTIPLE },
    { 0 } };

void gres_line_fini(struct config_gres_line *g)
{
    free(g->nodes);
    free(g->name);
    free(g->type);
    free(g->autodetect);
    hostlist_destroy(g->files);
    free(g->cores);
    free(g->links);
    free(g->flags);
    free(g->file);
    memset(g, 0, sizeof *g);
}

static int gres_build(struct reader *r, struct record *rec, struct spur_error *err)
{
    static const char *const kinds[] = { "nvml", "nvidia", "rsmi", "nrt", "oneapi", "off", "nvidia_all", "full", "amd", NULL };
    const char *files = rec->values[GRES_FILES] ? rec->values[GRES_FILES] : rec->values[GRES_MULTIPLE];
    struct config_gres_line *g;
    struct hostlist *nodes;
    uint64_t count = 0;
    int rc, k = 0;

    if (rec->values[GRES_NODES]) {
        if ((rc = hostlist_parse(rec->values[GRES_NODES], &nodes, err)) < 0)
            return spur_context(err, "NodeName");
        hostlist_destroy(nodes);
    }
    if (rec->values[GRES_AUTO]) {
        while (kinds[k] && !word_eq(kinds[k], rec->values[GRES_AUTO]))
            k++;
        if (!kinds[k])
            return spur_fail(err, SPUR_EINVAL, "AutoDetect: \"%.40s\" is none of full, nvml, nvidia, rsmi, amd, oneapi, nrt, off", rec->values[GRES_AUTO]);
    }
    if (rec->values[GRES_FILES] && rec->values[GRES_MULTIPLE])
        return spur_fail(err, SPUR_EINVAL, "File and MultipleFiles exclude each other");
    if (!rec->values[GRES_NAME] && !rec->values[GRES_AUTO])
        return spur_fail(err, SPUR_EINVAL, "neither Name= nor AutoDetect=");
    if (rec->values[GRES_COUNT] && (rc = count_parse(rec->values[GRES_COUNT], &count, err)) < 0)
        return spur_context(err, "Count");
    g = reader_grow((void **)&r->config->gres_lines, &r->config->gres_line_count, &r->gres_room, sizeof *g);
    g->file = mem_copy(rec->file);
    g->line = rec->line;
    if (files && (rc = hostlist_parse(files, &g->files, err)) < 0)
        return spur_context(err, "File");
    g->files_are_one = rec->values[GRES_MULTIPLE] != NULL;
    g->nodes = mem_copy(rec->values[GRES_NODES]);
    g->name = mem_copy(rec->values[GRES_NAME]);
    g->type = mem_copy(rec->values[GRES_TYPE]);
    g->autodetect = mem_copy(rec->values[GRES_AUTO] ? kinds[k] : NULL);
    g->cores = mem_copy(rec->values[GRES_CORES]);
    g->links = mem_copy(rec->values[GRES_LINKS]);
    g->flags = mem_copy(rec->values[GRES_FLAGS]);
    g->count_set = rec->values[GRES_COUNT] != NULL;
    g->count = g->count_set ? count : rec->values[GRES_FILES] ? hostlist_count(g->files) : 1;
    return 0;
}

static int gres_take(struct reader *r, struct record *rec, void *arg, struct spur_error *err)
{
    (void)arg;
    if (gres_build(r, rec, err) < 0)
        return reader_error(r, rec->file, rec->line, "gres", rec->values[GRES_NAME], err);
    reader_note(r, rec->file, rec->line, rec->values[GRES_NAME] ? "Name" : "AutoDetect", rec->values[GRES_NAME] ? rec->values[GRES_NAME] : rec->values[GRES_AUTO],
        CONFIG_ACTS, "");
    return 0;
}

int gres_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    return records_read(r, text, file, gres_keys, "gres.conf", gres_take, NULL, err);
}
