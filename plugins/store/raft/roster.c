/* SPDX-License-Identifier: Apache-2.0 */
/* roster.c - the file `members` beside the log: which group this folder belongs to, who is in it and where.
 *
 * The log is the truth; this is what is known before the log can be read, or when it turns out to be damaged. Replaced whole, durably,
 * whenever the configuration changes: by the files thread when it follows the log, at once when a group is founded, joined or forced. What was ordered
 * before such a moment must not be written after it (`seq`).
 */
#include "raft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int roster_read(const char *path, struct roster *out, struct spur_error *err)
{
    struct raft_members *m = &out->members;
    char name[1200], text[400];
    unsigned long long number;
    FILE *f;
    int line = 0, rc = 0;

    memset(out, 0, sizeof *out);
    snprintf(name, sizeof name, "%s/members", path);
    if (!(f = fopen(name, "re")))
        return errno == ENOENT ? SPUR_ENOTFOUND : spur_fail(err, SPUR_EIO, "%s: %s", name, strerror(errno));
    while (rc == 0 && fgets(text, sizeof text, f)) {
        struct raft_member row = { 0 };
        char kind[16];

        line++;
        if (*text == '#' || *text == '\n')
            continue;
        if (sscanf(text, "group %16llx", &number) == 1) {
            out->group = number;
        } else if (sscanf(text, "former %16llx", &number) == 1) {
            out->former = number;
        } else if (strncmp(text, "superseded", 10) == 0) {
            out->is_superseded = true;
        } else if (m->count < RAFT_MEMBERS_MAX && sscanf(text, "member %63s %127s %15s %16llx", row.name, row.addr, kind, &number) == 4) {
            row.id = number;
            row.is_voter = strcmp(kind, "voter") == 0;
            m->rows[m->count++] = row;
        } else {
            rc = spur_fail(err, SPUR_ECORRUPT, "%s: line %d cannot be read: bring the file back from a backup, or from another member with the same group", name, line);
        }
    }
    fclose(f);
    return rc;
}

static int write_whole(const struct store *s, const struct roster *r, struct spur_error *err)
{
    const struct raft_members *m = &r->members;
    int folder = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1, rc = 0;
    char text[64 + RAFT_MEMBERS_MAX * 256];
    size_t n;

    n = (size_t)snprintf(text, sizeof text, "# written by store/raft from its log; do not edit\ngroup %016llx\n", (unsigned long long)r->group);
    if (r->former)
        n += (size_t)snprintf(text + n, sizeof text - n, "former %016llx\n", (unsigned long long)r->former);
    if (r->is_superseded)
        n += (size_t)snprintf(text + n, sizeof text - n, "superseded\n");
    for (uint32_t i = 0; i < m->count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "member %s %s %s %016llx\n", m->rows[i].name, m->rows[i].addr, m->rows[i].is_voter ? "voter" : "learner",
                              (unsigned long long)m->rows[i].id);
    if (folder < 0 || (fd = openat(folder, "members.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0 ||
        write(fd, text, n) != (ssize_t)n || (s->o.is_synced && fsync(fd) < 0) || renameat(folder, "members.tmp", folder, "members") < 0 ||
        (s->o.is_synced && fsync(folder) < 0))
        rc = spur_fail(err, wal_io_is_full(errno) ? SPUR_ENOSPACE : SPUR_EIO, "%s/members: %s", s->path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    return rc;
}

int roster_write(struct store *s, const struct roster *r, struct spur_error *err)
{
    int rc;

    pthread_mutex_lock(&s->roster_lock);
    s->roster_seq++;
    rc = write_whole(s, r, err);
    pthread_mutex_unlock(&s->roster_lock);
    return rc;
}

uint64_t roster_seq(struct store *s)
{
    uint64_t seq;

    pthread_mutex_lock(&s->roster_lock);
    seq = s->roster_seq;
    pthread_mutex_unlock(&s->roster_lock);
    return seq;
}

int roster_follow(struct store *s, uint64_t seq, const struct roster *r, struct spur_error *err)
{
    int rc = 0;

    pthread_mutex_lock(&s->roster_lock);
    if (seq == s->roster_seq)
        rc = write_whole(s, r, err);
    pthread_mutex_unlock(&s->roster_lock);
    return rc;
}
