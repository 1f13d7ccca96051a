/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - a topology file or folder, whatever its kind, into a machine. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "hardware/rig.h"

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);

    return n > k && strcmp(path + n - k, end) == 0;
}

int rig_read(const char *path, struct rig *out, struct spur_error *err)
{
    struct stat st;
    int rc;

    memset(out, 0, sizeof *out);
    if (stat(path, &st) < 0)
        return spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%s: %s", path, strerror(errno));
    if (ends_in(path, ".json"))
        rc = rig_from_json(path, out, err);
    else
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "%s: not a topology: a .json is wanted", path);
    if (rc < 0)
        rig_fini(out);
    return rc;
}
