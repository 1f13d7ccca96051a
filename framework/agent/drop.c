/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c - setgroups, setresgid, setresuid: each checked, then all ids read back and the way home tried.
 *
 * Called by the supervisor's children only, after fork and before the first open, chdir or exec on the user's behalf. Invariant: when
 * drop_become() returns 0, real, effective, saved and filesystem ids are the user's, the groups are exactly the given ones, no capability is
 * left, and root cannot be taken back. An agent that is not root starts jobs of its own user only, and says so.
 *
 * What surprised: setresuid() can fail with EAGAIN when the user is over RLIMIT_NPROC, and ignoring that is the classic way to run a job as root.
 * Filesystem ids have no getter; setfsuid(-1) returns the present one and changes nothing.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/drop.h"
#include "agent/fault.h"

int drop_fail_at, drop_lie_at;
bool (*fault_hook)(enum fault at);

#define CHECK_GROUPS 1024       /* groups read back one by one up to here; the number is compared always */

static int call_count, lie_count;

static int injected(void)
{
    if (drop_fail_at && ++call_count == drop_fail_at) {
        errno = EPERM;
        return 1;
    }
    return 0;
}

/* A call that says it did and did not. */
static int lied(void)
{
    return drop_lie_at && ++lie_count == drop_lie_at;
}

int drop_possible(const struct drop *d, struct spur_error *err)
{
    uid_t me = geteuid();

    if (d->uid == (uid_t)-1 || d->gid == (gid_t)-1)
        return spur_fail(err, SPUR_EDENIED, "the credential names no user");
    if (me == 0)
        return 0;
    if (me != d->uid)
        return spur_fail(err, SPUR_EDENIED, "this agent runs as user %u and can only start jobs of user %u, not of user %u: run spurd as root to serve all users",
                         (unsigned)me, (unsigned)me, (unsigned)d->uid);
    if (getegid() != d->gid)
        return spur_fail(err, SPUR_EDENIED, "this agent runs with group %u and cannot take group %u of the job: submit with group %u, or run spurd as root",
                         (unsigned)getegid(), (unsigned)d->gid, (unsigned)getegid());
    return 0;
}

static int groups_are(const struct drop *d, struct spur_error *err)
{
    gid_t have[CHECK_GROUPS];
    int n = injected() ? -1 : getgroups(0, NULL);
    size_t i, k;

    if (n < 0 || (size_t)n != d->group_count)
        return spur_fail(err, SPUR_EDENIED, "the kernel holds %d supplementary groups, not the %zu asked for", n, d->group_count);
    if (n > CHECK_GROUPS)
        return 0;
    n = injected() ? -1 : getgroups(CHECK_GROUPS, have);
    for (i = 0; i < d->group_count; i++) {
        for (k = 0; n > 0 && k < (size_t)n && have[k] != d->groups[i]; k++)
            ;
        if (n < 0 || k == (size_t)n)
            return spur_fail(err, SPUR_EDENIED, "supplementary group %u was not taken", (unsigned)d->groups[i]);
    }
    return 0;
}

static int ids_are(const struct drop *d, struct spur_error *err)
{
    uid_t ru, eu, su;
    gid_t rg, eg, sg;

    if (injected() || getresuid(&ru, &eu, &su) < 0 || getresgid(&rg, &eg, &sg) < 0)
        return spur_fail(err, SPUR_EDENIED, "cannot read ids back: %s", strerror(errno));
    if (ru != d->uid || eu != d->uid || su != d->uid || rg != d->gid || eg != d->gid || sg != d->gid)
        return spur_fail(err, SPUR_EDENIED, "ids read back are %u:%u:%u/%u:%u:%u, not %u/%u", (unsigned)ru, (unsigned)eu, (unsigned)su,
                         (unsigned)rg, (unsigned)eg, (unsigned)sg, (unsigned)d->uid, (unsigned)d->gid);
    if (injected() || (uid_t)setfsuid((uid_t)-1) != d->uid || (gid_t)setfsgid((gid_t)-1) != d->gid)
        return spur_fail(err, SPUR_EDENIED, "filesystem ids are not the user's");
    return 0;
}

static int no_way_back(const struct drop *d, struct spur_error *err)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[2];

    if (d->uid == 0)
        return 0;
    if (injected() || setuid(0) == 0 || setresuid((uid_t)-1, 0, (uid_t)-1) == 0)
        return spur_fail(err, SPUR_EDENIED, "root could be taken back after the drop");
    memset(caps, 0, sizeof caps);
    if (injected() || (!lied() && syscall(SYS_capset, &head, caps) < 0))       /* also what is inheritable: a file with capabilities must not pick it up */
        return spur_fail(err, SPUR_EDENIED, "cannot clear capabilities: %s", strerror(errno));
    if (injected() || syscall(SYS_capget, &head, caps) < 0 || caps[0].effective || caps[0].permitted || caps[0].inheritable ||
        caps[1].effective || caps[1].permitted || caps[1].inheritable)
        return spur_fail(err, SPUR_EDENIED, "capabilities are left after the drop");
    return 0;
}

int drop_become(const struct drop *d, struct spur_error *err)
{
    int rc;

    call_count = lie_count = 0;
    if ((rc = drop_possible(d, err)) < 0)
        return rc;
    if (geteuid() != 0) {           /* our own user: nothing to take, all to check */
        if ((rc = ids_are(d, err)) < 0)
            return rc;
        return no_way_back(d, err);
    }
    if (injected() || (!lied() && setgroups(d->group_count, d->groups) < 0))
        return spur_fail(err, SPUR_EDENIED, "setgroups of %zu groups failed: %s", d->group_count, strerror(errno));
    if (injected() || (!lied() && setresgid(d->gid, d->gid, d->gid) < 0))
        return spur_fail(err, SPUR_EDENIED, "setresgid %u failed: %s", (unsigned)d->gid, strerror(errno));
    if (injected() || (!lied() && setresuid(d->uid, d->uid, d->uid) < 0))
        return spur_fail(err, SPUR_EDENIED, "setresuid %u failed: %s%s", (unsigned)d->uid, strerror(errno),
                         errno == EAGAIN ? " (the user has too many processes)" : "");
    if ((rc = ids_are(d, err)) < 0 || (rc = groups_are(d, err)) < 0 || (rc = no_way_back(d, err)) < 0)
        return rc;
    return 0;
}
