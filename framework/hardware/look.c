/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - everything that can be found out about the GPUs of this host: what gres.conf says, what the plugins of AutoDetect= find, where it hangs.
 *
 * Called by the agent's probe and by `spur gpu show`. It opens gpu plugins, and through them drivers and vendors' libraries: each step is told
 * to `doing` before it is taken, so that whoever waits knows who is being waited for.
 */
#include <stdlib.h>
#include <string.h>

#include "hardware/look.h"

static void doing(const struct look *l, const char *what)
{
    if (l->doing)
        l->doing(l->doing_arg, what);
}

static int plugin_open(struct look *l, const char *wanted)
{
    struct look_source *s = &l->sources[l->source_count];
    int rc;

    if (l->source_count == LOOK_PLUGINS_MAX)
        return spur_fail(&l->err, SPUR_ELIMIT, "more than %d gpu plugins", LOOK_PLUGINS_MAX);
    rc = loader_open(SPUR_KIND_gpu, wanted, l->cfg, NULL, &s->plugin, &l->err);
    if (rc == 0) {
        snprintf(s->name, sizeof s->name, "%s", s->plugin->name);
        l->source_count++;
    }
    return rc;
}

/* Rows of another plugin behind those that are there: numbers and matrices move up. */
static int rows_append(struct look *l, const struct rows *more)
{
    uint32_t base = l->found.count;

    if (base + more->count > SPUR_GPU_MAX)
        return spur_fail(&l->err, SPUR_EUNSUPPORTED, "%u GPUs in all; %d are the limit", base + more->count, SPUR_GPU_MAX);
    l->found.list = mem_grow(l->found.list, base + more->count + 1, sizeof *l->found.list);
    for (uint32_t i = 0; i < more->count; i++) {
        struct spur_gpu *to = &l->found.list[base + i];
        const struct spur_gpu *from = &more->list[i];

        *to = *from;
        to->index += base;
        to->card += base;
        memset(to->links, 0, sizeof to->links);
        memset(to->mbps, 0, sizeof to->mbps);
        memset(to->path, 0, sizeof to->path);
        memcpy(to->links + base, from->links, (SPUR_GPU_MAX - base) * sizeof *to->links);
        memcpy(to->mbps + base, from->mbps, (SPUR_GPU_MAX - base) * sizeof *to->mbps);
        memcpy(to->path + base, from->path, (SPUR_GPU_MAX - base) * sizeof *to->path);
        to->hops <<= base;
    }
    l->found.count += more->count;
    return 0;
}

static bool wants_gpus(const struct look *a)
{
    for (size_t i = 0; i < a->want_count; i++)
        if (word_eq(a->wants[i].name, "gpu") && a->wants[i].count)
            return true;
    return false;
}

/* One plugin of AutoDetect=. A machine without the hardware has no library and no driver: that is a fault only where the node's line counts GPUs. */
static int plugin_look(struct look *l, const char *wanted, bool must_find)
{
    char name[100];
    struct rows rows;
    struct look_source *s;
    int rc;

    snprintf(name, sizeof name, "gpu/%.80s", wanted);
    doing(l, name);
    if ((rc = plugin_open(l, name)) < 0)
        return rc;
    s = &l->sources[l->source_count - 1];
    doing(l, s->name);
    rc = rows_scan(s->plugin, NULL, 0, "", l->emulate, &rows, &l->err);
    if (rc == SPUR_ENOTFOUND && !must_find)
        rc = 0;
    else if (rc < 0)
        return spur_context(&l->err, "%s", s->name);
    s->first = l->found.count;
    s->count = rows.count;
    rc = rows_append(l, &rows);
    scan_rows_fini(&rows);
    return rc;
}

struct others { char names[LOOK_PLUGINS_MAX][80]; uint32_t count; };

static void other_add(void *arg, const struct loader_row *row)
{
    struct others *o = arg;

    if (row->desc && !row->is_shadowed && row->desc->kind == SPUR_KIND_gpu && strcmp(row->desc->name, "generic") && o->count < LOOK_PLUGINS_MAX)
        snprintf(o->names[o->count++], sizeof *o->names, "%.79s", row->desc->name);
}

static int detect(struct look *l)
{
    struct others others = { .count = 0 };
    int rc = 0;

    if (!word_eq(l->autodetect, "full"))
        return plugin_look(l, l->autodetect, wants_gpus(l));
    loader_list(l->cfg, other_add, &others);
    for (uint32_t i = 0; rc == 0 && i < others.count; i++)
        rc = plugin_look(l, others.names[i], false);
    return rc;
}

/* Whom to ask for the health of a device: the plugin that found it, else the one that reads the lines. */
static void health_point(struct look *l)
{
    for (uint32_t i = 0; i < SPUR_GPU_MAX; i++)
        l->health[i].source = -1;
    for (uint32_t i = 0; i < l->rows.count; i++) {
        const struct spur_gpu *g = &l->rows.list[i];

        if (strcmp(g->name, "gpu") || g->flags & SPUR_GPU_COUNT_ONLY || g->index >= SPUR_GPU_MAX)
            continue;
        for (uint32_t k = 0; k < l->found.count && l->health[g->index].source < 0; k++)
            if (!strcmp(l->found.list[k].file, g->file) && !strcmp(l->found.list[k].uuid, g->uuid))
                for (uint32_t s = 1; s < l->source_count; s++)
                    if (k >= l->sources[s].first && k < l->sources[s].first + l->sources[s].count) {
                        l->health[g->index].source = (int)s;
                        l->health[g->index].number = k - l->sources[s].first;
                    }
        if (l->health[g->index].source < 0 && !l->emulate && g->file[0]) {
            l->health[g->index].source = 0;
            l->health[g->index].number = g->index;
        }
        if (l->health[g->index].source >= 0 && !SPUR_HAS((const struct spur_gpu_ops *)loader_ops(l->sources[l->health[g->index].source].plugin), health))
            l->health[g->index].source = -1;
    }
}

/* Where the devices hang. A tree that is not this host's (emulated) has no place here. */
static void places_find(struct look *l)
{
    struct spur_error unheard = { 0 };
    struct rig host = { .name = "" };

    if (!l->emulate) {
        doing(l, "hwloc");
        rig_find_pci(&l->rig, "");
        if (rig_from_hwloc(NULL, &host, &unheard) == 0) {
            rig_match(&l->rig, &host);
            for (uint32_t i = 0; i < l->rig.nic_count; i++) {
                uint32_t mbps = rig_nic_mbps("", l->rig.nics[i].name);

                l->rig.nics[i].mbps = mbps ? mbps : l->rig.nics[i].mbps;
            }
        } else {
            rig_from_sysfs(&l->rig, "");
        }
        rig_fini(&host);
    }
    rig_paths(l->rig.gpus, l->rig.gpu_count);
    for (uint32_t i = 0; i < l->rows.count; i++)
        for (uint32_t k = 0; k < l->rig.gpu_count; k++) {
            struct spur_gpu *g = &l->rows.list[i];

            if (!strcmp(g->name, "gpu") && !(g->flags & SPUR_GPU_COUNT_ONLY) && g->index == l->rig.gpus[k].index)
                *g = l->rig.gpus[k];
        }
}

static int look_all(struct look *l)
{
    char how[100];
    struct rows written;
    int rc;

    doing(l, "gpu/generic");
    if ((rc = plugin_open(l, "gpu/generic")) < 0 ||
        (rc = rows_scan(l->sources[0].plugin, l->lines, l->line_count, "", l->emulate || *l->autodetect, &written, &l->err)) < 0)
        return rc;
    if (*l->autodetect) {
        snprintf(how, sizeof how, "AutoDetect=%.80s", l->autodetect);
        if ((rc = detect(l)) == 0)
            rc = rows_merge(&written, &l->found, how, l->line_count ? l->lines[0].source : "gres.conf", l->wants, l->want_count, &l->rows, &l->err);
        scan_rows_fini(&written);
    } else {
        l->rows = written;
    }
    if (rc < 0)
        return rc;
    if (rig_take(&l->rig, &l->rows))
        places_find(l);
    health_point(l);
    return 0;
}

int look(struct look *l)
{
    int rc = look_all(l);

    if (rc == 0)
        memset(&l->err, 0, sizeof l->err);      /* what a plugin has said that was not there */
    return rc;
}

bool look_can_watch(const struct look *l)
{
    for (uint32_t i = 0; i < SPUR_GPU_MAX; i++)
        if (l->health[i].source >= 0)
            return true;
    return false;
}

uint64_t look_health(struct look *l, char *text, size_t size)
{
    uint64_t faulty = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < SPUR_GPU_MAX; i++) {
        const struct spur_gpu_ops *ops;
        char words[200];

        if (l->health[i].source < 0)
            continue;
        ops = loader_ops(l->sources[l->health[i].source].plugin);
        if (ops->health(l->sources[l->health[i].source].plugin->self, l->health[i].number, words, sizeof words) != 1)
            continue;
        if (!faulty)
            snprintf(text, size, "%s", words);
        faulty |= UINT64_C(1) << i;
    }
    return faulty;
}

void look_fini(struct look *l)
{
    while (l->source_count)
        loader_close(l->sources[--l->source_count].plugin);
    scan_rows_fini(&l->found);
    scan_rows_fini(&l->rows);
    rig_fini(&l->rig);
}
