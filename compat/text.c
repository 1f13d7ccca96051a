/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - what jobs, nodes and partitions have in common when they become Slurm's records: texts, reasons, places in the node table. */
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "compat.h"

char *text_of(struct arena *a, const char *text)
{
    return text && *text ? arena_copy(a, text) : NULL;
}

uint32_t reason_number(const char *word)
{
    static const struct { const char *word; enum job_state_reason number; } rows[] = {
        { "Priority", WAIT_PRIORITY }, { "Dependency", WAIT_DEPENDENCY }, { "Resources", WAIT_RESOURCES }, { "PartitionNodeLimit", WAIT_PART_NODE_LIMIT },
        { "PartitionTimeLimit", WAIT_PART_TIME_LIMIT }, { "PartitionDown", WAIT_PART_DOWN }, { "PartitionInactive", WAIT_PART_INACTIVE },
        { "JobHeldAdmin", WAIT_HELD }, { "JobHeldUser", WAIT_HELD_USER }, { "BeginTime", WAIT_TIME }, { "Licenses", WAIT_LICENSES },
        { "Reservation", WAIT_RESERVATION }, { "ReqNodeNotAvail", WAIT_NODE_NOT_AVAIL }, { "NodeDown", FAIL_DOWN_NODE },
        { "BadConstraints", FAIL_BAD_CONSTRAINTS }, { "Constraints", FAIL_BAD_CONSTRAINTS }, { "SystemFailure", FAIL_SYSTEM }, { "JobLaunchFailure", FAIL_LAUNCH },
        { "NonZeroExitCode", FAIL_EXIT_CODE }, { "RaisedSignal", FAIL_EXIT_CODE }, { "TimeLimit", FAIL_TIMEOUT },
        { "DependencyNeverSatisfied", WAIT_DEP_INVALID }, { "JobHoldMaxRequeue", WAIT_MAX_REQUEUE }, { "JobArrayTaskLimit", WAIT_ARRAY_TASK_LIMIT },
        { "DeadLine", FAIL_DEADLINE }, { "PartitionConfig", WAIT_PART_CONFIG }, { "OutOfMemory", FAIL_OOM }, { "MaxMemPerLimit", WAIT_PN_MEM_LIMIT },
        { "SchedDefer", FAIL_DEFER }, { "Cleaning", WAIT_CLEANING }, { "InvalidAccount", FAIL_ACCOUNT }, { "InvalidQOS", FAIL_QOS }, { "Prolog", WAIT_PROLOG },
    };

    for (size_t i = 0; word && i < sizeof rows / sizeof *rows; i++)
        if (word_eq(rows[i].word, word))
            return rows[i].number;
    return WAIT_NO_REASON;
}

/* ---- places ----------------------------------------------------------------------------------------------------------------------- */

static int place_part(void *arg, void *part)
{
    struct places *p = arg;
    const Wire__NodesReply *r = part;

    for (size_t i = 0; i < r->n_nodes; i++)
        table_put_text(&p->by_name, arena_copy(&p->arena, r->nodes[i]->name), (void *)(uintptr_t)++p->count);     /* place + 1: never NULL */
    return 1;
}

int places_load(struct places *p, struct ask *k)
{
    Wire__NodesRequest r = WIRE__NODES_REQUEST__INIT;
    int rc;

    memset(p, 0, sizeof *p);
    table_init(&p->by_name);
    arena_init(&p->arena, 0);
    rc = ask_stream(k, WIRE__MESSAGE_TYPE__NODES, &r.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, place_part, p);
    if (rc < 0)
        places_fini(p);
    return rc;
}

void places_fini(struct places *p)
{
    table_fini(&p->by_name);
    arena_fini(&p->arena);
}

int32_t *places_of(const struct places *p, const char *nodes, struct arena *a)
{
    struct hostlist *names = NULL;
    struct bitmap set;
    int32_t *out;
    size_t n = 0;

    if (!p || !nodes || hostlist_parse(nodes, &names, NULL) < 0) {
        out = arena_alloc(a, sizeof *out);
        *out = -1;
        return out;
    }
    bitmap_init(&set, p->count);
    for (size_t i = 0; i < hostlist_count(names); i++) {
        const void *place = table_get_text(&p->by_name, hostlist_nth(names, i));

        if (place)
            bitmap_set(&set, (uintptr_t)place - 1);
    }
    out = arena_alloc(a, (2 * hostlist_count(names) + 1) * sizeof *out);
    for (size_t i = bitmap_first(&set), last; i < set.bits; i = bitmap_next(&set, last)) {
        for (last = i; bitmap_test(&set, last + 1); last++)
            ;
        out[n++] = (int32_t)i;
        out[n++] = (int32_t)last;
    }
    out[n] = -1;
    bitmap_fini(&set);
    hostlist_destroy(names);
    return out;
}
