/* SPDX-License-Identifier: Apache-2.0 */
/* jobnodes.c - the file that tells a job which nodes it has now: one line, a host list, in each of its steps' folders.
 *
 * Written when a step starts and again when the leader says that a node has left the job or that a spare has taken its place. A job finds it by
 * SPUR_JOB_NODES_FILE and may watch it; it is replaced by a rename, so a reader sees the old list or the new one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/inside.h"
#include "agent/jobnodes.h"

/* For the job's user alone: where others' jobs are may be private. */
void job_nodes_write(int spool_fd, const char *folder, const char *nodes, uid_t owner)
{
    int dir = openat(spool_fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd;
    char line[1] = { '\n' };
    struct stat before;
    bool is_whole;

    if (dir < 0)
        return;
    unlinkat(dir, JOB_NODES_FILE ".new", 0);
    if (owner == (uid_t)-1 && fstatat(dir, JOB_NODES_FILE, &before, AT_SYMLINK_NOFOLLOW) == 0)
        owner = before.st_uid;
    fd = openat(dir, JOB_NODES_FILE ".new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    is_whole = fd >= 0 && fchmod(fd, 0400) == 0 && (geteuid() != 0 || fchown(fd, owner, (gid_t)-1) == 0) && write(fd, nodes, strlen(nodes)) == (ssize_t)strlen(nodes) && write(fd, line, 1) == 1;
    if (fd >= 0)
        close(fd);
    if (!is_whole || renameat(dir, JOB_NODES_FILE ".new", dir, JOB_NODES_FILE) < 0)
        log_line(SPUR_LOG_WARN, "%s: cannot write the list of the job's nodes: %s", folder, strerror(errno));
    close(dir);
}

void job_nodes_take(struct identity *n, const Wire__JobNodes *m)
{
    const struct agent_step *s;

    if (n->agent->is_emulated)
        return;
    for (size_t i = 0; (s = table_next(&n->steps, &i)); )
        if (s->job_id == m->job_id && s->attempt == m->attempt)
            job_nodes_write(n->agent->spool_fd, s->folder, m->nodes, (uid_t)-1);
}
