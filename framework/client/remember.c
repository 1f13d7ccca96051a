/* SPDX-License-Identifier: Apache-2.0 */
/* remember.c - one small file a user and cluster: LEADER INDEX, in a folder that only the user can write.
 *
 * The folder is $XDG_RUNTIME_DIR, else /run/user/UID, else /tmp/spur-UID, made with mode 0700 and not taken when it is not ours alone.
 * With it a command asks the controller that led last first, so that a dead first SlurmctldHost costs no time-out, and a read is
 * at least as new as this user's last change, whichever controller answers it. Only commands of a group of several look here.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "client/remember.h"

static uint64_t mix(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(1099511628211);
    return h * UINT64_C(1099511628211);
}

/* Two clusters of one name (a sandbox and the next) must not take each other's numbers. The first line alone: others come and go while the cluster is the same. */
static int file_name(const struct config_hint *hint, const char *folder, char *out, size_t n)
{
    uint64_t h = mix(mix(UINT64_C(14695981039346656037), hint->run_dir), hint->cluster);

    for (size_t i = 0; i < hint->controller_count && i < 1; i++)
        h = mix(mix(h, hint->controllers[i].host), hint->controllers[i].addr);
    return snprintf(out, n, "%s/spur-%.60s-%08x", folder, hint->cluster, (unsigned)((h ^ hint->port) & 0xffffffff)) < (int)n ? 0 : -1;
}

static bool is_ours(const char *folder)
{
    struct stat st;

    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

static bool file_path(const struct config_hint *hint, bool make, char *out, size_t n)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    char folder[128];

    if (xdg && *xdg == '/')
        return file_name(hint, xdg, out, n) == 0;
    snprintf(folder, sizeof folder, "/run/user/%u", (unsigned)geteuid());
    if (is_ours(folder))
        return file_name(hint, folder, out, n) == 0;
    snprintf(folder, sizeof folder, "/tmp/spur-%u", (unsigned)geteuid());
    if (make)
        mkdir(folder, 0700);
    return is_ours(folder) && file_name(hint, folder, out, n) == 0;
}

static void parse(char *text, struct remembered *out)
{
    char *blank = strchr(text, ' ');

    memset(out, 0, sizeof *out);
    if (!blank)
        return;
    *blank = '\0';
    snprintf(out->leader, sizeof out->leader, "%s", text);
    out->index = strtoull(blank + 1, NULL, 10);
}

bool remember_read(const struct config_hint *hint, struct remembered *out)
{
    char path[300], text[128];
    ssize_t n;
    int fd;

    memset(out, 0, sizeof *out);
    if (!file_path(hint, false, path, sizeof path) || (fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    parse(text, out);
    return true;
}

void remember_write(const struct config_hint *hint, const char *leader, uint64_t index, bool is_back)
{
    struct remembered old = { 0 };
    char path[300], text[128];
    ssize_t n;
    int fd, len;

    if (!file_path(hint, true, path, sizeof path) || (fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
        return;
    flock(fd, LOCK_EX);         /* two commands at a time: the greater index stays */
    if ((n = pread(fd, text, sizeof text - 1, 0)) > 0) {
        text[n] = '\0';
        parse(text, &old);
    }
    if (!leader)
        leader = old.leader;
    if (!is_back && old.index > index)
        index = old.index;
    if (strcmp(leader, old.leader) != 0 || index != old.index) {
        /* One length always: a reader beside us sees the old line or the new one. */
        len = snprintf(text, sizeof text, "%s %-20llu\n", *leader ? leader : "-", (unsigned long long)index);
        if (pwrite(fd, text, (size_t)len, 0) == len && ftruncate(fd, len) < 0)
            (void)unlink(path);
    }
    close(fd);
}
