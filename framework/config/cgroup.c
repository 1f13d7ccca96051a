/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.c - cgroup.conf: what a node holds its jobs to (struct config_cgroup), for the agent and its plugin of the kind contain. Pure.
 *
 * Constrain...=yes acts where TaskPlugin has task/cgroup, as in Slurm; framework/agent/limits.c has the arithmetic. spur makes its control groups itself,
 * at the top of the hierarchy, and asks no systemd, so the keys about that are there and come to nothing.
 */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

#include "config/value.h"

enum { KEY_ALLOWED_RAM = 1, KEY_ALLOWED_SWAP, KEY_MOUNTPOINT, KEY_PLUGIN, KEY_CORES, KEY_DEVICES, KEY_RAM, KEY_SWAP, KEY_MAX_RAM, KEY_MAX_SWAP, KEY_SWAPPINESS,
       KEY_MIN_RAM, KEY_SIGNAL_CHILDREN, KEY_IGNORE_SYSTEMD, KEY_IGNORE_FAILURE, KEY_ENABLE, KEY_OTHER };

#define NOTE_SYSTEMD "control groups are made beside systemd's, as with IgnoreSystemd=yes"
static const struct record_key cgroup_keys[] = {
    { "AllowedRAMSpace", CONFIG_ACTS, "", KEY_ALLOWED_RAM },                  { "AllowedSwapSpace", CONFIG_ACTS, "", KEY_ALLOWED_SWAP },
    { "CgroupMountpoint", CONFIG_ACTS, "", KEY_MOUNTPOINT },                  { "CgroupPlugin", CONFIG_ACTS, "", KEY_PLUGIN },
    { "ConstrainCores", CONFIG_ACTS, "", KEY_CORES },                         { "ConstrainDevices", CONFIG_ACTS, "", KEY_DEVICES },
    { "ConstrainRAMSpace", CONFIG_ACTS, "", KEY_RAM },                        { "ConstrainSwapSpace", CONFIG_ACTS, "", KEY_SWAP },
    { "MaxRAMPercent", CONFIG_ACTS, "", KEY_MAX_RAM },                        { "MaxSwapPercent", CONFIG_ACTS, "", KEY_MAX_SWAP },
    { "MemorySwappiness", CONFIG_ACTS, "", KEY_SWAPPINESS },                  { "MinRAMSpace", CONFIG_ACTS, "", KEY_MIN_RAM },
    { "SignalChildrenProcesses", CONFIG_MAPPED, "a signal reaches every process of a step, as with yes", KEY_SIGNAL_CHILDREN },
    { "CgroupJobIdPaths", CONFIG_MAPPED, "paths have the job's number", KEY_OTHER + 1 },
    { "IgnoreSystemd", CONFIG_MAPPED, NOTE_SYSTEMD, KEY_IGNORE_SYSTEMD },     { "IgnoreSystemdOnFailure", CONFIG_MAPPED, NOTE_SYSTEMD, KEY_IGNORE_FAILURE },
    { "SystemdTimeout", CONFIG_NO_EFFECT, NOTE_SYSTEMD, KEY_OTHER + 2 },          { "CgroupSlice", CONFIG_NO_EFFECT, NOTE_SYSTEMD, KEY_OTHER + 3 },
    { "EnableControllers", CONFIG_MAPPED, "a controller is enabled where a limit needs it", KEY_ENABLE },
    { "EnableExtraControllers", CONFIG_NO_EFFECT, "no more controllers are enabled than limits need", KEY_OTHER + 4 },
    { "AllowedDevicesFile", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 5 }, { "AllowedKmemSpace", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 6 },
    { "CgroupAutomount", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 7 },  { "CgroupReleaseAgentDir", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 8 },
    { "ConstrainKmemSpace", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 9 }, { "MaxKmemPercent", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 10 },
    { "MemoryLimitEnforcement", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 11 }, { "MemoryLimitThreshold", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 12 },
    { "MinKmemSpace", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 13 },     { "TaskAffinity", CONFIG_OBSOLETE, "removed from Slurm", KEY_OTHER + 14 },
    { 0 } };

void cgroup_default(struct config *c)
{
    c->cgroup = (struct config_cgroup){ .allowed_ram = 10000, .max_ram = 10000, .max_swap = 10000, .min_ram_mib = 30, .swappiness = -1 };
}

static const char *name_of(int id)
{
    for (size_t i = 0; cgroup_keys[i].name; i++)
        if (cgroup_keys[i].id == id)
            return cgroup_keys[i].name;
    return "";
}

/* "98.5" in hundredths, "98.5%" too. */
static bool percent(const char *text, uint32_t *out)
{
    char *end;
    double n = strtod(text, &end);

    if (end == text || (*end && strcmp(end, "%")) || !(n >= 0) || n > 1000000)
        return false;
    *out = (uint32_t)(n * 100 + 0.5);
    return true;
}

static bool whole(const char *text, uint64_t most, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return end != text && !*end && *text != '-' && *out <= most;
}

/* NULL: taken; else what a right value is. */
static const char *value_take(struct config_cgroup *g, int id, const char *text)
{
    bool *const flags[] = { [KEY_CORES] = &g->cores, [KEY_DEVICES] = &g->devices, [KEY_RAM] = &g->ram, [KEY_SWAP] = &g->swap };
    uint32_t *const percents[] = { [KEY_ALLOWED_RAM] = &g->allowed_ram, [KEY_ALLOWED_SWAP] = &g->allowed_swap, [KEY_MAX_RAM] = &g->max_ram, [KEY_MAX_SWAP] = &g->max_swap };
    uint64_t n;
    int b;

    switch (id) {
    case KEY_CORES: case KEY_DEVICES: case KEY_RAM: case KEY_SWAP:
        if ((b = value_bool(text)) < 0)
            return "neither yes nor no";
        *flags[id] = b;
        return NULL;
    case KEY_SIGNAL_CHILDREN: case KEY_IGNORE_SYSTEMD: case KEY_IGNORE_FAILURE: case KEY_ENABLE:
        return value_bool(text) < 0 ? "neither yes nor no" : NULL;
    case KEY_ALLOWED_RAM: case KEY_ALLOWED_SWAP: case KEY_MAX_RAM: case KEY_MAX_SWAP:
        return percent(text, percents[id]) ? NULL : "not a percentage";
    case KEY_MIN_RAM:
        if (!whole(text, UINT32_MAX, &n))
            return "not a number of MiB";
        g->min_ram_mib = n;
        return NULL;
    case KEY_SWAPPINESS:
        if (!whole(text, 100, &n))
            return "not a number from 0 to 100";
        g->swappiness = (int32_t)n;
        return NULL;
    case KEY_MOUNTPOINT:
        if (*text != '/')
            return "not an absolute path";
        free(g->mountpoint);
        g->mountpoint = mem_copy(text);
        return NULL;
    case KEY_PLUGIN:
        if (!word_eq(text, "autodetect") && !word_eq(text, "cgroup/v1") && !word_eq(text, "cgroup/v2") && !word_eq(text, "disabled"))
            return "none of autodetect, cgroup/v1, cgroup/v2, disabled";
        free(g->plugin);
        g->plugin = mem_copy(text);
        return NULL;
    default:
        return NULL;
    }
}

static int cgroup_take(struct reader *r, struct record *rec, void *arg, struct spur_error *err)
{
    int rc = 0;

    (void)arg;
    for (int id = KEY_ALLOWED_RAM; id < KEY_OTHER && rc == 0; id++) {
        const char *why = rec->values[id] ? value_take(&r->config->cgroup, id, rec->values[id]) : NULL;

        if (why) {
            spur_fail(err, SPUR_EINVAL, "%s: \"%.40s\" is %s", name_of(id), rec->values[id], why);
            rc = reader_error(r, rec->file, rec->line, name_of(id), rec->values[id], err);
        }
    }
    return rc;
}

int cgroup_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    return records_read(r, text, file, cgroup_keys, "cgroup.conf", cgroup_take, NULL, err);
}
