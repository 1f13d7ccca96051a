/* SPDX-License-Identifier: Apache-2.0 */
/* suspects.c - the host of a compute node that asks for what an agent never asks for: a line in the log, and its node is drained.
 *
 * A node's key proves which host it is, and root there has it. What he does with it to others is refused where it is asked (admit, table.def); here it has a
 * consequence, for whoever speaks as his neighbour once has that host, and its jobs. Only a connection that has proved a node's key comes here: a user of
 * the host is a user, and a stranger is nobody. Drained by the leader; another controller logs it. Lines are counted, so that nobody fills a disk with them.
 */
#include "controller/ctl.h"

#define LINES_A_MINUTE 60u

static bool may_log(struct ctl *c)
{
    int64_t now = clock_boot_ms();

    if (now - c->suspects_from_ms >= 60000) {
        if (c->suspects_said > LINES_A_MINUTE)
            log_line(SPUR_LOG_ERROR, "%u more requests of compute nodes were refused in the last minute", c->suspects_said - LINES_A_MINUTE);
        c->suspects_from_ms = now;
        c->suspects_said = 0;
    }
    return c->suspects_said++ < LINES_A_MINUTE;
}

void suspect_node(struct ctl *c, const struct spur_identity *who, const char *did)
{
    const struct node *own;
    struct arena a;
    Wire__Op **ops;

    if (who->role != SPUR_ROLE_NODE)
        return;
    if (may_log(c))
        log_line(SPUR_LOG_ERROR, "compute host %.63s is refused: it %s", *who->host ? who->host : "(not told by this AuthType)", did);
    if (!group_leads(c) || !*who->host || !(own = joins_node(c, who->host)) || own->flags & NODE_FLAG_DRAIN)
        return;
    log_line(SPUR_LOG_ERROR, "node %s is drained: its host %s", own->conf->name, did);
    arena_init(&a, 0);
    ops = arena_alloc(&a, sizeof *ops);
    *ops = joins_node_set(&a, own, "DRAIN", arena_printf(&a, "host %s", did), false);
    propose(c, ops, 1, NULL, &a, NULL, NULL);
}
