/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - topology.conf and cgroup.conf: read, checked word by word, kept as text for the parts that will use them.
 *
 * Placement does not look at the network's topology yet, nor are jobs held by control groups with limits from cgroup.conf; so what
 * stands here must be right but changes nothing, and says so once a file (topology) or once a key that is not at "off" (cgroup). Pure.
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
    { "RingName",   CONFIG_ACTS, "", TOPO_RING },
    { "LinkSpeed",  CONFIG_ACTS, "", TOPO_SPEED },
    { "Nodes",      CONFIG_ACTS, "", TOPO_NODES },
    { "Switches",   CONFIG_ACTS, "", TOPO_SWITCHES },
    { 0 } };

static int topology_build(const struct record *rec, struct spur_error *err)
{
    static const int lists[] = { TOPO_NODES, TOPO_SWITCHES };
    int heads = (rec->values[TOPO_NAME] != NULL) + (rec->values[TOPO_BLOCK] != NULL) + (rec->values[TOPO_RING] != NULL) + (rec->values[TOPO_SIZES] != NULL);
    struct hostlist *names;
    int rc;

    if (heads != 1)
        return spur_fail(err, SPUR_EINVAL, "a line needs one of SwitchName, BlockName, RingName, BlockSizes");
    if (rec->values[TOPO_NAME] && !rec->values[TOPO_NODES] && !rec->values[TOPO_SWITCHES])
        return spur_fail(err, SPUR_EINVAL, "switch %.60s has neither Nodes= nor Switches=", rec->values[TOPO_NAME]);
    for (size_t i = 0; i < 2; i++)
        if (rec->values[lists[i]] && !word_eq(rec->values[lists[i]], "ALL")) {
            if ((rc = hostlist_parse(rec->values[lists[i]], &names, err)) < 0)
                return rc;
            hostlist_destroy(names);
        }
    return 0;
}

static int topology_take(struct reader *r, struct record *rec, void *arg, struct spur_error *err)
{
    bool *said = arg;

    if (topology_build(rec, err) < 0)
        return reader_error(r, rec->file, rec->line, "topology", rec->values[TOPO_NAME], err);
    if (!*said)
        reader_note(r, rec->file, rec->line, "topology.conf", "", CONFIG_NO_EFFECT, "the network's topology does not steer placement in this version");
    *said = true;
    return 0;
}

int topology_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    bool said = false;

    return records_read(r, text, file, topology_keys, "topology.conf", topology_take, &said, err);
}

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
