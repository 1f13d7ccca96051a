/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - a topology file or folder, whatever its kind, into a rig.
 *
 * A KFD tree is read by the plugin that reads it on a node, so that what a test sees is what a node reports. The tree in one file is
 *
 *     == 0/properties
 *     cpu_cores_count 32
 *     ...
 *     == 0/io_links/0/properties
 *
 * and is unpacked below a temporary root, as is a link to a `nodes` folder that stands alone.
 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hardware/scan.h"

#define NODES "sys/class/kfd/kfd/topology/nodes"

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);

    return n > k && strcmp(path + n - k, end) == 0;
}

/* Every folder above the last slash. */
static bool folders_make(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return false;
        *at = '/';
    }
    return true;
}

static int one_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int root_make(char root[32], struct spur_error *err)
{
    snprintf(root, 32, "/tmp/spur-tree-XXXXXX");
    if (!mkdtemp(root))
        return spur_fail(err, SPUR_EIO, "/tmp: cannot make a folder: %s", strerror(errno));
    return 0;
}

/* What the gpu plugin and sysfs say of ROOT. */
static int root_read(const char *root, struct rig *out, struct spur_error *err)
{
    struct loaded *amd;
    struct rows rows;
    int rc;

    if ((rc = loader_open(SPUR_KIND_gpu, "gpu/amd", NULL, NULL, &amd, err)) < 0)
        return rc;
    rc = rows_scan(amd, NULL, 0, root, true, &rows, err);
    loader_close(amd);
    if (rc < 0)
        return rc;
    if (!rig_take(out, &rows))
        rc = spur_fail(err, SPUR_EINVAL, "%s: the numbers of its devices have gaps", root);
    scan_rows_fini(&rows);
    if (rc == 0) {
        rig_from_sysfs(out, root);
        rig_paths(out->gpus, out->gpu_count);
    }
    return rc;
}

int rig_from_kfdtree(const char *path, struct rig *out, struct spur_error *err)
{
    FILE *in = fopen(path, "re"), *file = NULL;
    char root[32], name[PATH_MAX], line[512];
    unsigned number = 0;
    int rc;

    if (!in)
        return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
    if ((rc = root_make(root, err)) < 0) {
        fclose(in);
        return rc;
    }
    while (rc == 0 && fgets(line, sizeof line, in)) {
        number++;
        if (strncmp(line, "== ", 3)) {
            if (!file || fputs(line, file) < 0)
                rc = spur_fail(err, SPUR_ESYNTAX, "%s:%u: a line before the first \"== NAME\"", path, number);
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        if (strstr(line, "..") || line[3] == '/' || !line[3]) {
            rc = spur_fail(err, SPUR_EINVAL, "%s:%u: %.80s: not a name inside the tree", path, number, line + 3);
            continue;
        }
        if (file)
            fclose(file);
        snprintf(name, sizeof name, "%s/" NODES "/%s", root, line + 3);
        file = folders_make(name) ? fopen(name, "we") : NULL;
        if (!file)
            rc = spur_fail(err, SPUR_EIO, "%s: %s", name, strerror(errno));
    }
    if (file)
        fclose(file);
    fclose(in);
    if (rc == 0)
        rc = root_read(root, out, err);
    nftw(root, one_remove, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}

static int folder_read(const char *path, struct rig *out, struct spur_error *err)
{
    char name[PATH_MAX], root[32], real[PATH_MAX];
    struct stat st;
    int rc;

    snprintf(name, sizeof name, "%.3900s/sys", path);
    if (stat(name, &st) == 0)
        return root_read(path, out, err);
    snprintf(name, sizeof name, "%.3900s/0/properties", path);
    if (stat(name, &st) < 0 || !realpath(path, real))
        return spur_fail(err, SPUR_EINVAL, "%s: neither sys/ nor 0/properties is in it; a root folder or a KFD `nodes` folder is wanted", path);
    if ((rc = root_make(root, err)) < 0)
        return rc;
    snprintf(name, sizeof name, "%s/" NODES, root);
    if (!folders_make(name) || symlink(real, name) < 0)
        rc = spur_fail(err, SPUR_EIO, "%s: %s", name, strerror(errno));
    else
        rc = root_read(root, out, err);
    nftw(root, one_remove, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}

int rig_read(const char *path, struct rig *out, struct spur_error *err)
{
    struct stat st;
    int rc;

    memset(out, 0, sizeof *out);
    if (stat(path, &st) < 0)
        return spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        rc = folder_read(path, out, err);
    } else if (ends_in(path, ".json")) {
        rc = rig_from_json(path, out, err);
    } else if (ends_in(path, ".kfdtree")) {
        rc = rig_from_kfdtree(path, out, err);
    } else if (ends_in(path, ".xml")) {
        rc = rig_from_hwloc(path, out, err);
        if (rc == 0)
            rig_paths(out->gpus, out->gpu_count);
    } else {
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "%s: not a topology: a folder, or a name that ends in .json, .xml (hwloc) or .kfdtree is wanted", path);
    }
    if (rc < 0)
        rig_fini(out);
    return rc;
}
