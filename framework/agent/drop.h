/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h - becoming the user: the only code of spur that runs as root with a user's input. */
#ifndef AGENT_DROP_H
#define AGENT_DROP_H

#include <stddef.h>
#include <sys/types.h>
#include <spur/error.h>

struct drop {
    uid_t        uid;
    gid_t        gid;
    const gid_t *groups;        /* supplementary groups, borrowed */
    size_t       group_count;
};

/* Before the fork: can this process start something as that user at all? SPUR_EDENIED and a sentence when not. */
int drop_possible(const struct drop *d, struct spur_error *err);
/* In the child, single-threaded, before anything of the user is touched: takes the ids, reads them back. After a failure the caller must _exit:
 * the process may hold some of the ids. No memory is allocated. */
int drop_become(const struct drop *d, struct spur_error *err);

/* For tests: the n-th privileged call fails as if the kernel had refused it. 0: none. */
extern int drop_fail_at, drop_lie_at;

#endif
