/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - finds the hierarchies by the files they are known by, so that a test can lay out a tree of its own.
 *
 * Version 2 is a folder with cgroup.controllers: the mount point itself, or `unified` in it on a hybrid machine. A hierarchy of version 1 is a folder
 * with its controller's name (a link, where two are mounted together) and cgroup.procs in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree.h"

static const char *const names[CTL_COUNT][2] = {        /* version 1, version 2 */
    [CTL_MEMORY] = { "memory", "memory" }, [CTL_CPUSET] = { "cpuset", "cpuset" }, [CTL_PIDS] = { "pids", "pids" },
    [CTL_DEVICES] = { "devices", NULL }, [CTL_FREEZER] = { "freezer", NULL }, [CTL_IO] = { "blkio", "io" } };

const char *controller_name(enum controller c) { return names[c][0]; }

bool file_is_there(const char *folder, const char *file)
{
    char path[PATH_MAX_ + 64];

    snprintf(path, sizeof path, "%s/%s", folder, file);
    return access(path, F_OK) == 0;
}

bool file_read(const char *folder, const char *file, char *buf, size_t len)
{
    char path[PATH_MAX_ + 64];
    ssize_t n, all = 0;
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    *buf = '\0';
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    while ((size_t)all + 1 < len && (n = read(fd, buf + all, len - 1 - (size_t)all)) > 0)
        all += n;
    close(fd);
    buf[all] = '\0';
    return true;
}

int file_write(const char *folder, const char *file, const char *value, struct spur_error *err)
{
    char path[PATH_MAX_ + 64];
    int fd, rc = 0;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0)
        rc = spur_fail(err, errno == EACCES || errno == EPERM || errno == EROFS ? SPUR_EDENIED : SPUR_EIO, "cannot write %.40s to %.120s: %s", value, path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

int file_write_number(const char *folder, const char *file, uint64_t value, struct spur_error *err)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return file_write(folder, file, text, err);
}

uint64_t line_number(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (!strncmp(at, name, n) && at[n] == ' ')
            return strtoull(at + n, NULL, 10);
    return 0;
}

static bool word_in(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\n' || !at[n]))
            return true;
    return false;
}

int tree_look(const char *root, int version, struct tree *out, struct spur_error *err)
{
    char list[512], path[PATH_MAX_];
    bool any = false;

    memset(out, 0, sizeof *out);
    if (strlen(root) >= sizeof out->root || *root != '/')
        return spur_fail(err, SPUR_EINVAL, "CgroupMountpoint %.100s is not a path of at most %zu characters", root, sizeof out->root - 1);
    snprintf(out->root, sizeof out->root, "%s", root);
    if (version != 1) {
        if (file_is_there(root, "cgroup.controllers"))
            snprintf(out->unified, sizeof out->unified, "%s", root);
        else if (file_is_there(root, "unified/cgroup.controllers"))
            snprintf(out->unified, sizeof out->unified, "%s/unified", root);
        if (out->unified[0] && file_read(out->unified, "cgroup.controllers", list, sizeof list))
            for (int c = 0; c < CTL_COUNT; c++)
                out->is_in_unified[c] = names[c][1] && word_in(list, names[c][1]);
    }
    for (int c = 0; version != 2 && c < CTL_COUNT; c++) {
        snprintf(path, sizeof path, "%s/%s", root, names[c][0]);
        out->is_v1[c] = !out->is_in_unified[c] && file_is_there(path, "cgroup.procs");
        any |= out->is_v1[c];
        if (c == CTL_MEMORY && out->is_v1[c])
            out->has_memsw = file_is_there(path, "memory.memsw.limit_in_bytes");
    }
    if (!out->unified[0] && !out->is_v1[CTL_FREEZER])
        return spur_fail(err, SPUR_EUNSUPPORTED, "no control groups%s at %.150s that hold processes: mount them, set CgroupMountpoint, or set ProctrackType=proctrack/linuxproc",
                         version == 1 ? " of version 1" : version == 2 ? " of version 2" : "", root);
    snprintf(path, sizeof path, "%s", out->unified);
    if (!out->unified[0])
        snprintf(path, sizeof path, "%s/freezer", root);
    if (access(path, W_OK) < 0)
        return spur_fail(err, SPUR_EDENIED, "control groups at %.150s cannot be made: %s", path, strerror(errno));
    return 0;
}

const char *tree_words(const struct tree *t, char *buf, size_t len)
{
    bool any_v1 = false;
    size_t n;

    for (int c = 0; c < CTL_COUNT; c++)
        any_v1 |= t->is_v1[c];
    n = (size_t)snprintf(buf, len, "%s at %.100s, limits:", !t->unified[0] ? "version 1" : any_v1 ? "hybrid" : "version 2", t->root);
    for (int c = 0; c < CTL_COUNT; c++)
        if (c <= CTL_DEVICES && (t->is_v1[c] || t->is_in_unified[c] || (c == CTL_DEVICES && t->unified[0])) && n < len)
            n += (size_t)snprintf(buf + n, len - n, " %s", names[c][0]);
    return buf;
}

bool tree_path(const struct tree *t, enum controller c, const char *name, char path[PATH_MAX_])
{
    if (t->is_in_unified[c] || (t->unified[0] && c == CTL_FREEZER))
        snprintf(path, PATH_MAX_, "%s/%s", t->unified, name);
    else if (t->is_v1[c])
        snprintf(path, PATH_MAX_, "%s/%s/%s", t->root, names[c][0], name);
    else
        return false;
    return true;
}
