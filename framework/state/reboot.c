/* SPDX-License-Identifier: Apache-2.0 */
/* reboot.c - scontrol reboot: asked for, issued when the node is empty, over when it registers with another boot.
 *
 *     REBOOT_REQUESTED --last job gone--> DOWN + REBOOT_ISSUED --registers, another boot id--> up, or DOWN with nextstate=DOWN
 *                                                              --ResumeTimeout--> DOWN "reboot timed out"
 *
 * No decision is proposed for it: the same report that empties the node issues the reboot on every replica. The leader then tells the agent, again and
 * again until it is back; the number of the reboot keeps an agent from running RebootProgram twice.
 */
#include <string.h>

#include "state/private.h"

#define REBOOT_FLAGS (NODE_FLAG_REBOOT_REQUESTED | NODE_FLAG_REBOOT_ISSUED | NODE_FLAG_REBOOT_ASAP | NODE_FLAG_NEXT_DOWN | NODE_FLAG_NEXT_RESUME)

void node_reboot_if_empty(struct doing *d, struct node *n)
{
    if (!(n->flags & NODE_FLAG_REBOOT_REQUESTED) || n->jobs || n->foreign_count)
        return;
    n->flags = (n->flags & ~NODE_FLAG_REBOOT_REQUESTED) | NODE_FLAG_REBOOT_ISSUED;
    n->base = NODE_DOWN;
    n->lost = false;
    n->reboot_number++;
    n->reboot_cluster_ms = d->s->cluster_ms;
    if (!n->reason)
        node_set_reason(d, n, "reboot issued", false, "slurm", 0);
    tell(d, EV_NODE_REBOOT, NULL)->node = n->index;
    node_changed(d, n);
}

/* Words that were put there for the reboot go with it; what an administrator wrote stays unless he asked for RESUME. */
static void reason_lift(struct doing *d, struct node *n, uint32_t flags)
{
    if (n->reason && (flags & (NODE_FLAG_REBOOT_ASAP | NODE_FLAG_NEXT_RESUME) || !strcmp(n->reason, "reboot issued")))
        node_set_reason(d, n, NULL, false, NULL, 0);
}

void node_reboot_over(struct doing *d, struct node *n)
{
    uint32_t flags = n->flags;

    if (!(flags & NODE_FLAG_REBOOT_ISSUED))
        return;
    n->flags &= ~REBOOT_FLAGS;
    if (flags & NODE_FLAG_NEXT_DOWN) {
        node_set_reason(d, n, "rebooted, nextstate=DOWN", false, "slurm", 0);
    } else {
        n->base = NODE_UNKNOWN;         /* the registration brings it up, whatever ReturnToService says: it was meant to come back */
        reason_lift(d, n, flags);
    }
    if (flags & (NODE_FLAG_REBOOT_ASAP | NODE_FLAG_NEXT_RESUME))
        n->flags &= ~NODE_FLAG_DRAIN;
}

void node_reboot_failed(struct doing *d, struct node *n, const char *why)
{
    n->flags &= ~REBOOT_FLAGS;
    n->base = NODE_DOWN;
    node_set_reason(d, n, why && *why ? why : "reboot timed out", false, "slurm", 0);
}

static void reboot_cancel(struct doing *d, struct node *n)
{
    uint32_t flags = n->flags;

    if (!(flags & NODE_FLAG_REBOOT_REQUESTED)) {
        refuse(d, SPUR_EINVAL, ESLURM_INVALID_NODE_STATE, flags & NODE_FLAG_REBOOT_ISSUED ? "node %s is rebooting already" : "node %s has no reboot to cancel", n->conf->name);
        return;
    }
    n->flags &= ~REBOOT_FLAGS;
    if (flags & NODE_FLAG_REBOOT_ASAP) {
        n->flags &= ~NODE_FLAG_DRAIN;
        reason_lift(d, n, flags);
    }
    node_changed(d, n);
}

void op_node_reboot(struct doing *d, const Wire__OpNodeReboot *o)
{
    struct node *n = d->s->config ? state_node(d->s, o->node) : NULL;
    uint32_t uid = d->has_uid ? d->op_uid : 0;

    if (!n) {
        refuse(d, SPUR_ENOTFOUND, ESLURM_INVALID_NODE_NAME, "node %.64s is not in the configuration", o->node);
        return;
    }
    if (o->cancel) {
        reboot_cancel(d, n);
        return;
    }
    if (n->flags & NODE_FLAG_REBOOT_ISSUED || n->base == NODE_FUTURE || n->flags & NODE_FLAG_POWERED_DOWN) {
        refuse(d, SPUR_EBUSY, ESLURM_INVALID_NODE_STATE, n->flags & NODE_FLAG_REBOOT_ISSUED ? "node %s is rebooting already" : "node %s is not in use", n->conf->name);
        return;
    }
    n->flags = (n->flags & ~REBOOT_FLAGS) | NODE_FLAG_REBOOT_REQUESTED;
    if (word_eq(o->next_state, "DOWN"))
        n->flags |= NODE_FLAG_NEXT_DOWN;
    else if (word_eq(o->next_state, "RESUME"))
        n->flags |= NODE_FLAG_NEXT_RESUME;
    if (o->asap && !(n->flags & NODE_FLAG_DRAIN))       /* one that an administrator has drained before stays drained behind it */
        n->flags |= NODE_FLAG_DRAIN | NODE_FLAG_REBOOT_ASAP;
    if (o->reason && *o->reason)
        node_set_reason(d, n, o->reason, false, o->user, uid);
    else if (n->flags & NODE_FLAG_REBOOT_ASAP)
        node_set_reason(d, n, "Reboot ASAP", false, o->user, uid);
    node_reboot_if_empty(d, n);
    node_changed(d, n);
}
