/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.c - cgroup.conf: read, checked word by word, kept as text for the parts that will use it.
 *
 * Jobs are not held by control groups with limits from cgroup.conf; so what stands here must be right but changes nothing, and says so once a key
 * that is not at "off". Pure.
 */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

#include "config/value.h"

#define NOTE_CGROUP "jobs are not limited by control groups in this version"
static const struct record_key cgroup_keys[] = {
    { "AllowedDevicesFile", CONFIG_OBSOLETE, "removed from Slurm", 0 },       { "AllowedRAMSpace", CONFIG_NO_EFFECT, NOTE_CGROUP, 1 },
    { "AllowedKmemSpace", CONFIG_OBSOLETE, "removed from Slurm", 2 },         { "AllowedSwapSpace", CONFIG_NO_EFFECT, NOTE_CGROUP, 3 },
    { "CgroupAutomount", CONFIG_OBSOLETE, "removed from Slurm", 4 },          { "CgroupJobIdPaths", CONFIG_NO_EFFECT, NOTE_CGROUP, 5 },
    { "CgroupMountpoint", CONFIG_NO_EFFECT, NOTE_CGROUP, 6 },                 { "CgroupPlugin", CONFIG_NO_EFFECT, NOTE_CGROUP, 7 },
    { "CgroupReleaseAgentDir", CONFIG_OBSOLETE, "removed from Slurm", 8 },    { "CgroupSlice", CONFIG_NO_EFFECT, NOTE_CGROUP, 9 },
    { "ConstrainCores", CONFIG_NO_EFFECT, NOTE_CGROUP, 10 },                  { "ConstrainDevices", CONFIG_NO_EFFECT, NOTE_CGROUP, 11 },
    { "ConstrainKmemSpace", CONFIG_OBSOLETE, "removed from Slurm", 12 },      { "ConstrainRAMSpace", CONFIG_NO_EFFECT, NOTE_CGROUP, 13 },
    { "ConstrainSwapSpace", CONFIG_NO_EFFECT, NOTE_CGROUP, 14 },              { "EnableControllers", CONFIG_NO_EFFECT, NOTE_CGROUP, 15 },
    { "EnableExtraControllers", CONFIG_NO_EFFECT, NOTE_CGROUP, 16 },          { "IgnoreSystemd", CONFIG_NO_EFFECT, NOTE_CGROUP, 17 },
    { "IgnoreSystemdOnFailure", CONFIG_NO_EFFECT, NOTE_CGROUP, 18 },          { "MaxKmemPercent", CONFIG_OBSOLETE, "removed from Slurm", 19 },
    { "MaxRAMPercent", CONFIG_NO_EFFECT, NOTE_CGROUP, 20 },                   { "MaxSwapPercent", CONFIG_NO_EFFECT, NOTE_CGROUP, 21 },
    { "MemoryLimitEnforcement", CONFIG_NO_EFFECT, NOTE_CGROUP, 22 },          { "MemoryLimitThreshold", CONFIG_NO_EFFECT, NOTE_CGROUP, 23 },
    { "MemorySwappiness", CONFIG_NO_EFFECT, NOTE_CGROUP, 24 },                { "MinKmemSpace", CONFIG_OBSOLETE, "removed from Slurm", 25 },
    { "MinRAMSpace", CONFIG_NO_EFFECT, NOTE_CGROUP, 26 },                     { "SignalChildrenProcesses", CONFIG_NO_EFFECT, NOTE_CGROUP, 27 },
    { "SystemdTimeout", CONFIG_NO_EFFECT, NOTE_CGROUP, 28 },                  { "TaskAffinity", CONFIG_OBSOLETE, "removed from Slurm", 29 },
    { 0 } };

static int cgroup_take(struct reader *r, struct record *rec, void *arg, struct spur_error *err)
{
    int rc = 0;

    (void)arg;
    for (size_t i = 0; cgroup_keys[i].name && rc == 0; i++)
        if (word_starts(cgroup_keys[i].name, "Constrain") && rec->values[cgroup_keys[i].id] && value_bool(rec->values[cgroup_keys[i].id]) < 0) {
            spur_fail(err, SPUR_EINVAL, "%s: \"%.40s\" is neither yes nor no", cgroup_keys[i].name, rec->values[cgroup_keys[i].id]);
            rc = reader_error(r, rec->file, rec->line, cgroup_keys[i].name, rec->values[cgroup_keys[i].id], err);
        }
    return rc;
}

int cgroup_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    return records_read(r, text, file, cgroup_keys, "cgroup.conf", cgroup_take, NULL, err);
}
